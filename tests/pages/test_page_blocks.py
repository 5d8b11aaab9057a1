"""What the pages show in blocks fits a terminal, and a page on paper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.pages import DOCS

pytestmark = pytest.mark.one_lane

ROOT = DOCS.parent
OF_THE_ROOT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = [*(ROOT / name for name in OF_THE_ROOT), *sorted(DOCS.rglob("*.md"))]
WIDTH = 78
FENCE = re.compile(r"[ >]*(?P<marks>`{3,}|~{3,})(?P<language>[^`]*)")


def lines_in_blocks(text: str) -> Iterator[tuple[int, str]]:
    """Give each line that stands in a fenced block, with its number."""
    opened = ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.fullmatch(line)
        if opened:
            if fence and fence["marks"].startswith(opened) and not fence["language"].strip():
                opened = ""
            else:
                yield number, line
        elif fence:
            opened = fence["marks"]

    assert not opened, "a block is not closed"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_block_is_wide(page: Path) -> None:
    """No block of code on a page is wider than 78 columns."""
    text = page.read_text(encoding="utf-8")
    assert [
        f"{page.relative_to(ROOT)}:{number}: {len(line)} columns"
        for number, line in lines_in_blocks(text)
        if len(line) > WIDTH
    ] == []


def test_the_blocks_are_found() -> None:
    """Most pages have blocks: those of any language, indented ones too."""
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    assert sum(any(lines_in_blocks(text)) for text in texts) > 30

    block = "- a\n\n  ````md\n  ```\n  1\n  ````\n~~~\n2\n~~~\n3\n```py\n4\n```\n"
    assert [line.strip() for _, line in lines_in_blocks(block)] == [
        "```",
        "1",
        "2",
        "4",
    ]
