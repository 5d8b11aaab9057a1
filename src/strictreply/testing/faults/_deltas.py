"""Faults of streamed deltas: the events of the stream are whole, and do not add up to a reply."""

from __future__ import annotations

from functools import partial

from strictreply.testing._sse import event
from strictreply.testing._steps import CANARY
from strictreply.testing._targets import Target
from strictreply.testing._wire import HTTPReply
from strictreply.testing.faults._catalogue import WRITTEN
from strictreply.testing.faults._streaming import (
    begun,
    call_part,
    chunk,
    events_of,
    halves,
    pieces,
    said,
    spoken_deltas,
    stream,
    stream_fault,
)
from strictreply.values._json import JSON, JSONObject

_written_fault = partial(stream_fault, places=WRITTEN)
_call_fault = partial(stream_fault, places=("call",))
_OTHER = f"{CANARY}_tool"
_NAMELESS: JSONObject = {"id": "call_1", "type": "function"}


def _with_choices(target: Target, *choices: JSON) -> HTTPReply:
    """Stream the good reply with a chunk of these choices in its middle."""
    before, after = halves(target)
    return stream(*before, event(chunk(target, {}) | {"choices": [*choices]}), *after)


def _retold(target: Target, *texts: str) -> HTTPReply | None:
    """Stream other pieces of the text; None when it ends with no bracket, as nothing might be wrong then."""
    if pieces(target)[-1] not in {"}", "]"}:
        return None
    return _told(target, *begun(target), *(said(target, text) for text in texts))


def _told(target: Target, *spoken: JSON) -> HTTPReply:
    """Stream these deltas."""
    return stream(*events_of(target, *spoken))


def _amid(target: Target, *more: JSON) -> HTTPReply:
    """Stream the good deltas with more after the first piece of the text."""
    spoken = spoken_deltas(target)
    middle = len(begun(target)) + 1
    return _told(target, *spoken[:middle], *more, *spoken[middle:])


def _call(target: Target, index: JSON, id: str = "call_1") -> list[JSONObject]:  # noqa: A002 - the API's word
    """Give the deltas of the good call under another index or id."""
    opening = call_part(index, {"id": id, "type": "function"}, name=target.name, arguments="")
    return [opening, *(call_part(index, arguments=piece) for piece in pieces(target))]


@stream_fault("envelope.choices")
def stream_chunk_without_choices(target: Target) -> HTTPReply:
    """A chunk has no choices member."""
    before, after = halves(target)
    bare = {name: value for name, value in chunk(target, {}).items() if name != "choices"}
    return stream(*before, event(bare), *after)


@stream_fault("envelope.choices")
def stream_chunk_of_second_choice(target: Target) -> HTTPReply:
    """A chunk belongs to a second choice, though one was asked for."""
    return _with_choices(target, {"index": 1, "delta": {"content": CANARY}, "finish_reason": None})


@stream_fault("envelope.malformed")
def stream_choice_null(target: Target) -> HTTPReply:
    """The choice of a chunk is null."""
    return _with_choices(target, None)


@stream_fault("envelope.malformed")
def stream_delta_null(target: Target) -> HTTPReply:
    """The delta of a chunk is null."""
    return _with_choices(target, {"index": 0, "delta": None, "finish_reason": None})


@stream_fault("reply.role")
def stream_delta_of_user(target: Target) -> HTTPReply:
    """A delta says that its role is user."""
    return _told(target, {"role": "user"}, *spoken_deltas(target))


@stream_fault("reply.content")
def stream_delta_content_list(target: Target) -> HTTPReply:
    """The content of a delta is a list of parts."""
    return _told(target, {"content": [{"type": "text", "text": CANARY}]}, *spoken_deltas(target))


@_written_fault("json.incomplete")
def stream_finish_before_end(target: Target) -> HTTPReply | None:
    """The reply finishes before its JSON is complete."""
    return _retold(target, *pieces(target)[:-1])


@_written_fault("json.trailing_data")
def stream_delta_repeated(target: Target) -> HTTPReply | None:
    """The last piece of the JSON comes twice."""
    return _retold(target, *pieces(target), pieces(target)[-1])


@_written_fault("json.syntax")
def stream_deltas_out_of_order(target: Target) -> HTTPReply | None:
    """The last piece of the JSON comes first."""
    first, middle, last = pieces(target)
    return _retold(target, last, first, middle)


@_call_fault("call.malformed")
def stream_index_missing(target: Target) -> HTTPReply:
    """The deltas of a call have no index."""
    function: JSONObject = {"name": target.name, "arguments": target.text(target.value)}
    return _told(target, {"tool_calls": [{"id": "call_1", "type": "function", "function": function}]})


@_call_fault("call.malformed")
def stream_index_gap(target: Target) -> HTTPReply:
    """The only call has index 1, and none has index 0."""
    return _told(target, *_call(target, 1))


@_call_fault("call.malformed")
def stream_index_text(target: Target) -> HTTPReply:
    """The index of a call is a text."""
    return _told(target, *_call(target, "0"))


@_call_fault("call.malformed")
def stream_arguments_before_name(target: Target) -> HTTPReply:
    """The arguments come first, then the id and the name."""
    opening, *rest = spoken_deltas(target)
    return _told(target, *rest, opening)


@_call_fault("call.malformed")
def stream_name_missing(target: Target) -> HTTPReply:
    """No delta of the call has a name."""
    return _told(target, call_part(0, _NAMELESS, arguments=""), *spoken_deltas(target)[1:])


@_call_fault("call.malformed")
def stream_name_changes(target: Target) -> HTTPReply:
    """A call says another name among its arguments."""
    return _amid(target, call_part(0, name=_OTHER, arguments=""))


@_call_fault("call.malformed")
def stream_name_in_pieces(target: Target) -> HTTPReply | None:
    """The name of a call comes in two pieces."""
    if len(target.name) == 1:
        return None
    opening = call_part(0, _NAMELESS, name=target.name[:1], arguments="")
    return _told(target, opening, call_part(0, name=target.name[1:], arguments=""), *spoken_deltas(target)[1:])


@_call_fault("call.id_missing")
def stream_id_missing(target: Target) -> HTTPReply:
    """No delta of the call has an id."""
    return _told(target, call_part(0, name=target.name, arguments=""), *spoken_deltas(target)[1:])


@_call_fault("call.malformed")
def stream_id_changes(target: Target) -> HTTPReply:
    """A call says another id among its arguments."""
    return _amid(target, call_part(0, {"id": f"call_{CANARY}"}, arguments=""))


@_call_fault("call.id_duplicate")
def stream_id_repeated(target: Target) -> HTTPReply:
    """Two calls have the same id."""
    return _told(target, *spoken_deltas(target), *_call(target, 1))


@_call_fault("call.malformed")
def stream_calls_share_index(target: Target) -> HTTPReply:
    """Two calls with their own ids have the same index."""
    return _told(target, *spoken_deltas(target), *_call(target, 0, id="call_2"))


@_call_fault("json.incomplete")
def stream_calls_interleaved(target: Target) -> HTTPReply:
    """The last piece of the first call's arguments comes under the index of the second."""
    stray = call_part(1, arguments=pieces(target)[-1])
    return _told(target, *spoken_deltas(target)[:-1], *_call(target, 1, id="call_2"), stray)


@_call_fault("call.malformed")
def stream_call_null(target: Target) -> HTTPReply:
    """A call of a delta is null."""
    return _amid(target, {"tool_calls": [None]})


@_call_fault("call.malformed")
def stream_calls_no_list(target: Target) -> HTTPReply:
    """The tool_calls of a delta are an object."""
    return _amid(target, {"tool_calls": {CANARY: {"index": 0}}})


@_call_fault("call.malformed")
def stream_function_null(target: Target) -> HTTPReply:
    """The function of a call is null in a delta."""
    return _amid(target, {"tool_calls": [{"index": 0, "function": None}]})


@_call_fault("json.not_text")
def stream_arguments_object(target: Target) -> HTTPReply:
    """The arguments come as an object in a delta, not as pieces of a text."""
    return _told(target, *begun(target), call_part(0, arguments=target.value))
