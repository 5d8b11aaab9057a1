"""The good stream that faults of streams are made on: its deltas, its events, and the response they go out in."""

from __future__ import annotations

from functools import partial
from typing import Any

from strictreply.testing._rendering import EVENT_STREAM
from strictreply.testing._sse import DONE, chunks, event
from strictreply.testing._steps import Kind
from strictreply.testing._targets import Target
from strictreply.testing._wire import Ending, HTTPReply
from strictreply.testing.faults._responses import response_fault
from strictreply.values._json import JSON, JSONObject

stream_fault = partial(response_fault, Kind.STREAM, needs={"stream": True})
"""Make the entry of a fault that only a streamed reply can have; see :func:`response_fault`."""


def pieces(target: Target) -> tuple[str, str, str]:
    """Cut the text of the arguments or the answer in three, the last being its last character."""
    text = target.text(target.value)
    half = len(text) // 2
    return text[:half], text[half:-1], text[-1]


def begun(target: Target) -> list[JSONObject]:
    """Give the deltas between the role and the text: for a call its id and its name."""
    return [one["choices"][0]["delta"] for one in _around_text(target)[1:-1]]


def said(target: Target, text: JSON) -> JSONObject:
    """Spell the delta of a piece of the text."""
    return call_part(arguments=text) if target.place == "call" else {"content": text}


def call_part(index: JSON = 0, call: JSONObject | None = None, **function: JSON) -> JSONObject:
    """Spell a delta of one call: ``call`` holds members beside the function, ``function`` those in it."""
    return {"tool_calls": [{"index": index, **(call or {}), "function": function}]}


def spoken_deltas(target: Target) -> list[JSONObject]:
    """Give the deltas of the good stream after the role."""
    return [*begun(target), *(said(target, piece) for piece in pieces(target))]


def chunk(target: Target, delta: JSON) -> JSONObject:
    """Spell the chunk of a delta."""
    first: JSONObject = _around_text(target)[0]
    return first | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]}


def events_of(target: Target, *spoken: JSON) -> list[bytes]:
    """Give the events of a stream: the role, these deltas, the finish, and ``[DONE]``."""
    first, *_, last = _around_text(target)
    return [*map(event, [first, *(chunk(target, delta) for delta in spoken), last]), DONE]


def whole(target: Target) -> list[bytes]:
    """Give the events of the good stream."""
    return events_of(target, *spoken_deltas(target))


def halves(target: Target) -> tuple[list[bytes], list[bytes]]:
    """Part the events of the good stream after the first piece of its text."""
    events, middle = whole(target), len(begun(target)) + 2
    return events[:middle], events[middle:]


def stream(*events: bytes, ending: Ending = Ending.WHOLE, endless: bool = False) -> HTTPReply:
    """Make a response that streams these events."""
    return HTTPReply(200, EVENT_STREAM, events, ending, "chunked", endless)


def _around_text(target: Target) -> list[Any]:
    """Give the chunks of the good stream that are not its text: the first has the role, the last the finish."""
    return [*chunks(target.completion(""))]
