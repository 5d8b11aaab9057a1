"""Property tests draw the same examples whatever ran before them and wherever the checkout lies."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

FOUND_BY_CHANCE_NEVER = 123_456_789_123


def drawn() -> list[int]:
    """Return the examples of a property, in order."""
    numbers: list[int] = []

    @settings(max_examples=400)
    @given(number=st.integers(0, 10**15))
    def take(number: int) -> None:
        numbers.append(number)

    take()
    return numbers


def test_what_is_imported_changes_no_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that is loaded in between, full of constants, is not drawn from."""
    before = drawn()
    path = tmp_path / "constants.py"
    path.write_text(
        f"NUMBERS = [{', '.join(str(FOUND_BY_CHANCE_NEVER + index) for index in range(50))}]\n",
        "utf-8",
    )

    spec = spec_from_file_location("constants_of_this_test", path)
    assert spec is not None
    monkeypatch.setitem(sys.modules, spec.name, module_from_spec(spec))
    assert drawn() == before

    assert FOUND_BY_CHANCE_NEVER not in before
