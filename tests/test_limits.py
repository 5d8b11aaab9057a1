"""The caps of a reply are positive, and no deeper than the parser can follow."""

from __future__ import annotations

from typing import Any

import pytest

from strictreply.limits import MAX_JSON_DEPTH, Limits


@pytest.mark.parametrize("name", ["reply_bytes", "depth", "nodes", "calls"])
@pytest.mark.parametrize("value", [0, -1])
def test_caps_are_positive(name: str, value: int) -> None:
    """A cap that nothing could be under is refused when it is set."""
    wrong: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=name):
        Limits(**wrong)


def test_depth_is_what_the_parser_can_follow() -> None:
    """Deeper nesting than the parser reads cannot be promised."""
    assert Limits(depth=MAX_JSON_DEPTH).depth == MAX_JSON_DEPTH
    with pytest.raises(ValueError, match="depth"):
        Limits(depth=MAX_JSON_DEPTH + 1)
