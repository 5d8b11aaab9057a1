"""Whether a trail goes in circles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.coordination._runs.cycles import CycleLimit


@pytest.mark.parametrize(
    ("trail", "loop"),
    [
        ("", ""),
        ("aa", ""),
        ("aaa", "a"),
        ("baaa", "a"),
        ("ababab", "ab"),
        ("xababab", "ab"),
        ("babab", ""),
        ("abababc", ""),
        ("abcabcabc", "abc"),
        ("abcdeabcdeabcde", "abcde"),
        ("abcdefghijklmnop" * 3, "abcdefghijklmnop"),
        ("abcdefghijklmnopq" * 3, ""),  # 17 steps are longer than the 16 that are looked for
    ],
)
def test_the_end_of_a_trail_decides(trail: str, loop: str) -> None:
    """A loop is the shortest piece that the end repeats three times, at most 16 steps long."""
    assert "".join(CycleLimit().loop(trail)) == loop


@given(start=st.text("abc", max_size=5), piece=st.text("abc", min_size=1, max_size=4), repeats=st.integers(2, 4))
def test_every_repeated_piece_is_found(start: str, piece: str, repeats: int) -> None:
    """Whatever came before, a piece k times in a row is a loop, and what is found does repeat."""
    limit = CycleLimit(repeats=repeats)
    trail = start + piece * repeats
    found = "".join(limit.loop(trail))
    assert found
    assert len(found) <= len(piece)
    assert trail.endswith(found * repeats)


@given(trail=st.text("ab", max_size=30), repeats=st.integers(2, 4), longest=st.integers(1, 5))
def test_only_the_window_matters(trail: str, repeats: int, longest: int) -> None:
    """What lies further back than the window changes nothing."""
    limit = CycleLimit(repeats=repeats, longest=longest)
    assert limit.loop(trail) == limit.loop(trail[-limit.window :])
