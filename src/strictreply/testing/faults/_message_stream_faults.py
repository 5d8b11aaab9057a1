"""Faults of event streams that only the Messages API has: of its blocks, and of its message."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from strictreply.core import JSONObject
from strictreply.testing._anthropic_writer import MESSAGES, as_message, message_pieces
from strictreply.testing._steps import CANARY
from strictreply.testing.faults._catalogue import Entry, Reading, without
from strictreply.testing.faults._stream_faults import GoodStream, stream_fault

_Events: TypeAlias = list[JSONObject]


def _good(good: GoodStream) -> _Events:
    """Return the events of the good reply."""
    pieces: Any = message_pieces(as_message(good.target.clean))
    return [*pieces]


def _fault(code: str, summary: str, spoiled: Callable[[_Events], _Events], **more: Any) -> Entry:
    """Declare a fault that is one of the events of the good reply."""

    def part(good: GoodStream) -> list[bytes]:
        return [MESSAGES.event_bytes(one) for one in spoiled(_good(good))]

    return stream_fault(code, summary, part, api="messages", **more)


def _at(events: _Events, kind: str) -> int:
    """Return the place of the last event of a type."""
    return max(at for at, one in enumerate(events) if one["type"] == kind)


def _with(events: _Events, at: int, *more: JSONObject) -> _Events:
    return [*events[:at], *more, *events[at:]]


def _without(events: _Events, kind: str) -> _Events:
    return [one for one in events if one["type"] != kind]


def _twice(events: _Events, kind: str) -> _Events:
    at = _at(events, kind)
    return _with(events, at, events[at])


def _other(events: _Events) -> JSONObject:
    """Return the start of another message."""
    message = events[0]["message"]
    return events[0] | {"message": {**message, "id": f"msg_{CANARY}"}}


def _bare(events: _Events) -> _Events:
    message = events[0]["message"]
    for name in ("content", "stop_reason", "stop_sequence"):
        message = without(message, name)

    return [events[0] | {"message": message}, *events[1:]]


def _in_other_type(events: _Events) -> _Events:
    """Give the block that is open a delta of another type."""
    at = _at(events, _DELTA)
    name = "text" if "partial_json" in events[at]["delta"] else "partial_json"
    kind = "text_delta" if name == "text" else "input_json_delta"
    return _with(events, at, events[at] | {"delta": {"type": kind, name: CANARY}})


_START = "message_start"
_STOP = "message_stop"
_DELTA = "content_block_delta"
_BLOCK = "content_block_start"
_END = "content_block_stop"
_UNKNOWN: JSONObject = {"type": _END, "index": 7}

_malformed = partial(_fault, "envelope.malformed")
_broken = partial(_fault, "reply.broken_off")
_read = partial(_malformed, reading=Reading.GOOD)

stream_message_starts_again: Entry = _broken(
    "Another message begins in the middle of the first, as when a proxy joins two replies.",
    lambda events: _with(events, _at(events, _DELTA), _other(events)),
)
stream_message_start_twice: Entry = _broken(
    "``message_start`` is sent twice.",
    lambda events: _twice(events, _START),
    reading=Reading.GOOD,
)
stream_message_start_bare: Entry = _read(
    "The message of ``message_start`` has no content, stop_reason or stop_sequence.", _bare
)
stream_message_start_missing: Entry = _malformed(
    "``message_start`` is missing.", lambda events: _without(events, _START)
)
stream_block_start_missing: Entry = _malformed(
    "A block has no ``content_block_start``.", lambda events: _without(events, _BLOCK)
)
stream_block_stop_missing: Entry = _read(
    "A block has no ``content_block_stop``.", lambda events: _without(events, _END)
)
stream_block_stop_unknown: Entry = _read(
    "A ``content_block_stop`` names a block that never started.",
    lambda events: _with(events, _at(events, "message_delta"), _UNKNOWN),
)
stream_block_stop_twice: Entry = _read(
    "``content_block_stop`` is sent twice.", lambda events: _twice(events, _END)
)
stream_block_goes_on_after_stop: Entry = _malformed(
    "A delta is sent after the end of its block.",
    lambda events: _with(events, _at(events, _END) + 1, events[_at(events, _DELTA)]),
)
stream_block_delta_of_other_type: Entry = _malformed(
    "A delta has another type than its block: text for a call, or input for a text.",
    _in_other_type,
)
stream_message_stop_twice: Entry = _read(
    "``message_stop`` is sent twice.", lambda events: _twice(events, _STOP)
)
stream_message_after_stop: Entry = _read(
    "Another message is sent after the end of the first.",
    lambda events: [*events, _other(events), *events[1:]],
)
