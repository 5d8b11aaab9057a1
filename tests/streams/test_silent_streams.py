"""What comes without being an event, and what is kept of schemas, is bounded."""

from __future__ import annotations

import asyncio
from itertools import repeat

import pytest

import strictreply as sr
from strictreply.contract._models import BYTES_OF_EACH, KEPT_BYTES, ByText
from support.scripted import Server, completion
from support.streamed_replies import ONCE, SEARCH, Body, aread, events, over, read

PIECE = 65_536
MAX_IDLE_LINES = 100_000  # that may come without an event, as the error says
ENDLESS = {
    "blank lines": b"\n" * PIECE,
    "blank lines with CR": b"\r\n" * (PIECE // 2),
    "comments": b": ping\n\n" * (PIECE // 8),
    "names of events": b"event: a\n" * (PIECE // 9),
    "data without an end": b"data: x\n" * (PIECE // 8),
    "one line": b"x" * PIECE,
}


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("name", ENDLESS)
def test_bytes_without_an_event_are_bounded(name: str, is_async: bool) -> None:
    """A stream that brings no event ends with a named error after 16 MB or 100,000 lines."""
    piece = ENDLESS[name]
    body = Body(repeat(piece))
    server = Server(over(body))
    if is_async:
        client = sr.wrap(server.async_client(), tools=[SEARCH], policy=ONCE)
        told = asyncio.run(aread(client))
    else:
        told = read(sr.wrap(server.client(), tools=[SEARCH], policy=ONCE))

    assert isinstance(told.error, sr.TransportFailed)
    assert told.error.reason == "response_too_large"
    assert "without an event" in str(told.error)
    assert body.is_closed
    lines = max(1, piece.count(b"\n"))
    assert body.taken <= 16_000_000 // PIECE + 2
    assert lines == 1 or body.taken <= MAX_IDLE_LINES // lines + 2


def test_comments_between_events_pass() -> None:
    """As many lines as are allowed may stand before each event: they are counted from the last."""
    quiet = b": ping\n" * (MAX_IDLE_LINES - 10)
    pieces = [part for one in events(completion("hello")) for part in (quiet, one)]
    told = read(sr.wrap(Server(over(Body(pieces))).client(), tools=[SEARCH], policy=ONCE))
    assert (told.content, told.error) == ("hello", None)


def test_what_is_kept_of_short_schemas_is_bounded_by_memory() -> None:
    """Of many short texts no more are kept than their compiled schemas may take."""
    made: list[int] = []
    kept: ByText[None] = ByText()
    count = KEPT_BYTES // BYTES_OF_EACH + 1

    for number in range(count):
        _, size = kept.get(number, (), made.append)
        kept.trim([size])
        assert size >= BYTES_OF_EACH

    assert len(made) == count
    kept.get(count - 1, (), made.append)
    assert len(made) == count
    kept.get(0, (), made.append)
    assert made[-1] == 0
    assert len(made) == count + 1
