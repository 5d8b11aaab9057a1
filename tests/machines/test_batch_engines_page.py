"""docs/batch-engines.md shows the examples, which run in tests of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pages import DOCS, Page

PAGE = Page.named("batch-engines.md")
SHOWN = ("batch_ray.py", "batch_queue.py")


@pytest.mark.parametrize(("number", "example"), [*enumerate(SHOWN)])
def test_what_the_page_prints_is_the_example(number: int, example: str) -> None:
    """Each program of the page stands line by line in its example, in the same order."""
    lines = iter(Path(DOCS.parent, "examples", example).read_text("utf-8").splitlines())
    assert [line for line in PAGE.programs[number].splitlines() if line not in lines] == []


def test_each_example_is_named() -> None:
    """The page prints one program of each example and says where the rest is."""
    assert len(PAGE.programs) == len(SHOWN)
    assert [example for example in SHOWN if f"examples/{example}" not in PAGE.text] == []
