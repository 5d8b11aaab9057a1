"""The words that readers had to read twice stay out of pages, messages, docstrings and comments."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from support.pages import DOCS

pytestmark = pytest.mark.one_lane

ROOT = DOCS.parent
LINT: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "lint_words.py"))
WORDS = LINT["words"]()


def lines(name: str, source: str) -> list[int]:
    """Return the lines on which the lint finds a word."""
    return [found.line for found in LINT["found_in"](name, source, WORDS)]


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.like)
def test_each_pattern_finds_its_text(word: Any) -> None:
    """A page with the text that a word is like is refused, on the line of the text."""
    assert lines("page.md", f"# Title\n\n{word.like}\n").count(3) >= 1


def test_wrapped_lines_and_comments_are_read() -> None:
    """A phrase is found over the end of a line: on a page, in a docstring, and in a comment."""
    assert lines("page.md", "one\nit is asked\nfor again\n") == [2]
    assert lines("a.py", '"""It is asked\nfor again."""\nx = 1\n# it is asked\n# again\n') == [1, 4]


def test_code_is_not_read() -> None:
    """Names in code are not words: only strings and comments of a Python file are read."""
    assert lines("a.py", "mend = 1\nwhoever = mend\n") == []
    assert lines("a.py", "x is None\nprint('mend')\n") == [2]


def test_no_such_word_is_left() -> None:
    """No file that people read has such a word, and files are looked at."""
    files = LINT["files"]()
    found = [
        f"{path.relative_to(ROOT)}:{one.line}: {one.text} -> {one.instead}"
        for path in files
        for one in LINT["found_in"](path.name, path.read_text(encoding="utf-8"), WORDS)
    ]
    assert found == []
    assert len(files) > 300
