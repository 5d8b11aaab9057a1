"""``docs/faults.md`` is what the command writes, and has a row for every fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strictreply.testing._demo import SCENARIO
from strictreply.testing._probing.catalogue_page import catalogue_page
from strictreply.testing.faults import CATALOGUE

PAGE = Path(__file__).resolve().parents[3] / "docs" / "faults.md"


@pytest.mark.skipif(not PAGE.parent.exists(), reason="the documents are in a checkout only")
def test_the_page_is_what_the_command_writes() -> None:
    """When this fails, run ``python tools/write_faults.py``."""
    assert PAGE.read_text(encoding="utf-8") == catalogue_page(SCENARIO.tools)


def test_every_fault_has_a_row() -> None:
    """Each entry is there once, with its code, its sentence and what it serves; no cell breaks its row."""
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", catalogue_page(SCENARIO.tools), re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(CATALOGUE)
    for name, row in rows:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)]
        assert len(cells) == 4
        assert all(cells), name
        assert f"`{CATALOGUE[name].code}`" in cells
