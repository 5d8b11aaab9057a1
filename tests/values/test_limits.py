"""The caps of a reply are positive, and no deeper than the parser can follow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import Limits
from strictreply.core.judging import MAX_JSON_DEPTH
from strictreply.core.text import utf8_size


@pytest.mark.parametrize("name", ["reply_bytes", "depth", "nodes", "calls", "id_bytes"])
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


@given(st.text(st.characters(codec=None), max_size=20))
def test_v14_sizes_are_bytes(text: str) -> None:
    """A text counts the bytes of its UTF-8, lone surrogates included; what is no text counts
    nothing.
    """
    assert utf8_size(text) == len(text.encode("utf-8", "surrogatepass"))
    assert utf8_size([text]) == utf8_size(None) == 0
