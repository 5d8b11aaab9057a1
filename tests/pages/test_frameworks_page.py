"""What docs/frameworks.md shows is what the lane runs: its programs, its table."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from support.pages import DOCS, Page

pytestmark = pytest.mark.one_lane

ROOT = DOCS.parent
PAGE = Page.named("frameworks.md")
PROGRAMS = sorted(path for path in (ROOT / "frameworks").glob("*.py") if path.stem != "__init__")
MAX_LINES = 100
WITHOUT_STREAMS = frozenset({"dspy_agent"})


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_each_program_stands_on_the_page(path: Path) -> None:
    """The page shows the very file that the lane runs, and the guard is one call of ``wrap`` for
    each client.
    """
    source = path.read_text(encoding="utf-8")
    assert f"```py\n{source}```" in PAGE.text
    assert "sr.wrap(" in source
    names = {
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert "run" in names
    assert names & {"stream", "astream"} or path.stem in WITHOUT_STREAMS
    assert len(source.splitlines()) <= MAX_LINES


def test_the_table_holds_every_program_guarded() -> None:
    """One row for each program, none that is not guarded, with the versions of the locks."""
    rows = PAGE.table("frameworks:begin")
    assert len(rows) == len(PROGRAMS)
    locked = "\n".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "requirements" / "frameworks").glob("*.txt")
    )

    without_streams = 0
    for _, library, sdk, guarded, streamed, *_ in rows:
        assert guarded.startswith("yes")
        without_streams += streamed == "it has none"
        assert streamed.startswith("yes") or streamed == "it has none"
        for named in (library, sdk):
            name, _, version = named.partition(" ")
            pin = rf"^{re.escape(name)}=={re.escape(version)}\b"
            assert re.search(pin, locked, re.MULTILINE), named

    assert without_streams == len(WITHOUT_STREAMS)


def test_the_table_on_claude_names_every_program_on_it() -> None:
    """Each program on the Messages API has a row that says how it is guarded and what is not."""
    titles = {path.stem for path in PROGRAMS if "claude" in path.stem}
    rows = PAGE.table("## On Claude")
    assert len(rows) == len(titles) > 0
    assert all(how and what for _, how, what in rows)
