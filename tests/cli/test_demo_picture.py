"""The picture of the demo in the README is the demo's."""

from __future__ import annotations

import html
import re
import runpy

import pytest

from support.pages import DOCS

pytestmark = pytest.mark.one_lane


def test_the_picture_is_current() -> None:
    """It shows each line that the demo prints, and asks the network for nothing."""
    draw = runpy.run_path(str(DOCS.parent / "tools" / "draw_demo.py"))["draw"]
    drawn = draw()
    kept = (DOCS / "demo.svg").read_text(encoding="utf-8")
    texts = [
        re.findall(r"<text[^>]*>(.*?)</text>", html.unescape(picture)) for picture in (drawn, kept)
    ]
    assert texts[0] == texts[1]
    assert "url(http" not in kept
