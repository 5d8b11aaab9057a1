"""Reading server-sent events: however the bytes come, the same events.

The work grows with the bytes alone.
"""

from __future__ import annotations

from itertools import repeat
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.core import Event, EventReader
from strictreply.testing import writer_named
from support.scripted import completion

LINES = st.lists(
    st.sampled_from(
        [
            b"data: {}",
            b"data:x",
            b"data",
            b": comment",
            b"event: error",
            b"id: 1",
            b"",
            b"",
            "é".encode(),
        ]
    )
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


class Copied(bytes):
    """A piece that counts the bytes which are copied whenever it is put behind others."""

    count: ClassVar[int] = 0  # type: ignore[assignment]  # counts beside the name of a method

    def __radd__(self, before: bytes) -> bytes:
        Copied.count += len(before) + len(self)
        return bytes(before) + bytes(self)


@given(LINES, ENDS, st.booleans(), st.lists(st.integers(1, 9), min_size=1))
def test_any_pieces_are_the_same_events(
    lines: list[bytes], end: bytes, marked: bool, sizes: list[int]
) -> None:
    """Lines of every ending, cut anywhere: the events of the whole."""
    body = b"\xef\xbb\xbf" * marked + b"".join(line + end for line in lines)
    whole = EventReader()
    reader = EventReader()
    at = 0

    found: list[Event] = []
    for size in (one for again in repeat(sizes) for one in again):
        if at >= len(body):
            break
        found += reader.feed(body[at : at + size])
        at += size

    expected = [*whole.feed(body), *whole.end()]
    told = [(one.name, one.data) for one in (*found, *reader.end())]
    assert told == [(one.name, one.data) for one in expected]
    assert reader.held == whole.held


@pytest.mark.parametrize("beginning", [b"data: ", b": ", b"event: ", b""])
def test_a_line_without_an_end_is_linear_work(beginning: bytes) -> None:
    """The line so far is not copied again with each piece."""
    reader = EventReader()
    total = 0
    Copied.count = 0
    list(reader.feed(b"data: {}\n\n" + beginning))

    for _ in range(2_000):
        piece = Copied(b"x" * 50)
        total += len(piece)
        assert list(reader.feed(piece)) == []

    assert reader.held == len(beginning) + total
    assert Copied.count <= total


def test_a_role_that_changes_is_told_by_its_code() -> None:
    """The code is that of a role, as in a reply that is not streamed."""
    assembly = writer_named("chat").wire.assembly()
    message = completion("tea")["choices"][0]["message"]
    assembly.add({"choices": [{"index": 0, "delta": message, "finish_reason": None}]})
    assembly.add({"choices": [{"index": 0, "delta": {"role": "user"}, "finish_reason": None}]})
    assert assembly.fault is not None
    assert (assembly.fault.code, assembly.fault.path) == ("reply.role", "/role")
