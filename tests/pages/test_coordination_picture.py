"""The picture of the flow of coordination is what its tool draws, and names all that may follow."""

from __future__ import annotations

import runpy
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from strictreply import Category
from strictreply.coordination import StepType
from support.loops import some
from support.pages import DOCS, Page

pytestmark = pytest.mark.one_lane


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    """Load the tool that draws it."""
    return runpy.run_path(str(DOCS.parent / "tools" / "draw_flow.py"))


def test_the_picture_is_current(tool: dict[str, Any]) -> None:
    """A step or a reaction that changes changes it; ``tools/draw_flow.py`` draws it anew."""
    assert tool["PICTURE"].read_text("utf-8") == tool["picture"]()


def test_every_step_and_every_category_is_in_it(tool: dict[str, Any]) -> None:
    """No step of a decision and no category of a fault is left out."""
    shown = "\n".join(ET.fromstring(tool["picture"]()).itertext())  # noqa: S314 - our own
    assert [name for name in (*StepType, *Category) if name.value not in shown] == []


def test_no_text_leaves_its_box_and_no_box_another(tool: dict[str, Any]) -> None:
    """Boxes are apart, inside of the picture, and wide enough for their lines."""
    boxes = [*tool["boxes"]().values()]
    for box in some(boxes):
        assert box.x + box.width < tool["WIDTH"]
        assert box.y + box.height < tool["HEIGHT"]
        assert max(map(len, (box.name, *box.lines))) * 7 < box.width
    for number, one in enumerate(boxes):
        for other in boxes[number + 1 :]:
            is_beside = one.x + one.width < other.x or other.x + other.width < one.x
            is_below = one.y + one.height < other.y or other.y + other.height < one.y
            assert is_beside or is_below, (one, other)


def test_the_page_shows_it() -> None:
    """The page of coordination has the picture, with words for those who do not see it."""
    assert "](coordination.svg)" in Page.named("coordination.md").text
