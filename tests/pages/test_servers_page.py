"""docs/servers.md and docs/verdicts.md say of each server what the tables of the code say."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from strictreply.wires._endings import ERROR_OPENINGS, ERRORS
from strictreply.wires._error_forms import ERROR_FORMS
from support.loops import some

ROOT = Path(__file__).resolve().parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "write_servers.py"))
TABLES: dict[str, dict[str, Any]] = TOOL["TABLES"]
TEXT: str = TOOL["PAGE"].read_text("utf-8")
LINES = TEXT.splitlines()


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    """Of servers by server, of verdicts by row."""
    assert TOOL["written"](TEXT) == TEXT, "run `make pages`"
    readings = TOOL["READINGS_PAGE"].read_text("utf-8")
    assert TOOL["readings_page"](readings) == readings, "run `make pages`"


@pytest.mark.parametrize("where", TABLES)
def test_each_row_stands_under_each_of_its_servers(where: str) -> None:
    """No way of a server is missing, and each has its source beside it."""
    for name, row in some(TABLES[where].items()):
        for server in some(row.servers or (TOOL["UNNAMED"],)):
            begin = f"| {server} | `{name}` | {where} |"
            assert [line for line in LINES if line.startswith(begin) and row.source in line], begin


def test_each_form_of_an_error_stands_on_the_page() -> None:
    """With its servers and its source."""
    for name, form in some(ERROR_FORMS.items()):
        line = next(line for line in LINES if line.startswith(f"| `{name}` | {form.sends} |"))
        assert all(server in line for server in form.servers)
        assert form.source in line


def test_each_word_of_a_models_fault_stands_on_the_page() -> None:
    """As it is matched."""
    missing = [word for word in (*ERRORS, *ERROR_OPENINGS) if word not in TEXT]
    assert missing == [], "write these words into docs/servers.md, where it tells of such errors"


def test_a_server_has_one_name() -> None:
    """Names that differ in letters alone would be two servers."""
    names = {one for rows in TABLES.values() for row in rows.values() for one in row.servers}
    names |= {one for form in ERROR_FORMS.values() for one in form.servers}
    assert len({name.lower().replace(" ", "") for name in names}) == len(names)


def test_each_line_of_the_first_table_has_a_source() -> None:
    """A thread, a recording or a page; nothing is known without one."""
    begin = next(at for at, line in enumerate(LINES) if line.startswith("| server | set up |"))
    rows = []
    for line in LINES[begin + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(line)

    assert len(rows) > 15
    for line in rows:
        source = line.split("|")[-2]
        assert any(sign in source for sign in ("#", "recorded", "test_")), line
