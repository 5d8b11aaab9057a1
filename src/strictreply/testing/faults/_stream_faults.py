"""Faults of an event stream (WHATWG HTML section 9.2).

The deltas do not make a reply, or the stream breaks off.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from strictreply.core import JSON, JSONObject
from strictreply.testing._chat_writer import DONE, chunks, event
from strictreply.testing._steps import CANARY, Kind, ReplyPlace, Target
from strictreply.testing._wire import (
    EVENT_STREAM,
    HTTPReply,
    Served,
    WireEnding,
    assistant,
    completion,
    native_call,
)
from strictreply.testing.faults._catalogue import (
    ANYWHERE,
    WRITTEN,
    Entry,
    Reading,
    Spoiled,
    filled,
    without,
)


class GoodStream:
    """The stream of a good reply, as ``events``.

    Its ``head`` ends with the first piece of the text; ``tail`` is what comes after it.
    """

    def __init__(self, target: Target) -> None:
        # The chunks of all but the text: that of the role first, that of the finish last.
        around: list[Any] = list(chunks(target.completion("")))
        text = target.text(target.value)
        half = len(text) // 2

        self.target = target
        self._first = around[0]
        self._last = around[-1]
        # What each chunk has beside its choices.
        self.around: JSONObject = without(around[0], "choices")

        self.pieces: tuple[str, str, str] = (text[:half], text[half:-1], text[-1:])
        # The delta that opens a call; none otherwise.
        self.opening: list[JSONObject] = [one["choices"][0]["delta"] for one in around[1:-1]]
        # The deltas after the role.
        self.deltas: list[JSONObject] = [*self.opening, *map(self.said, self.pieces)]

        self.events: list[bytes] = self.events_of(self.deltas)
        self.head: list[bytes] = self.events[: len(self.opening) + 2]
        self.tail: list[bytes] = self.events[len(self.opening) + 2 :]

    def said(self, text: JSON) -> JSONObject:
        """Return the delta of a piece of the text."""
        return _call_part(arguments=text) if self.target.place == "call" else {"content": text}

    def chunk(self, delta: JSON) -> JSONObject:
        """Return the chunk of a delta."""
        return self.chunk_of({"index": 0, "delta": delta, "logprobs": None, "finish_reason": None})

    def chunk_of(self, choice: JSON) -> JSONObject:
        """Return the chunk of a choice."""
        return {**self.around, "choices": [choice]}

    def piece(self, text: str) -> bytes:
        """Return the event of a piece of the text."""
        return event(self.chunk(self.said(text)))

    def events_of(self, deltas: Iterable[JSON]) -> list[bytes]:
        """Return the events of a stream: the role, these deltas, the finish, and ``[DONE]``."""
        return [*map(event, [self._first, *map(self.chunk, deltas), self._last]), DONE]

    # ``id`` is the API's name for it.
    def call(self, index: JSON, id: str = "call_1") -> list[JSONObject]:  # noqa: A002
        """Return the deltas of the good call under another index or id."""
        opening = _call_part(
            index, {"id": id, "type": "function"}, name=self.target.name, arguments=""
        )
        return [opening, *(_call_part(index, arguments=piece) for piece in self.pieces)]


def _call_part(index: JSON = 0, call: JSONObject | None = None, **function: JSON) -> JSONObject:
    """Write a delta of one call.

    ``call`` holds the members beside the function, ``function`` those in it.
    """
    return {"tool_calls": [{"index": index, **(call or {}), "function": function}]}


def stream(
    *events: bytes, ending: WireEnding = WireEnding.WHOLE, endless: bool = False
) -> HTTPReply:
    """Return a response that streams these events."""
    return HTTPReply(200, EVENT_STREAM, events, ending, "chunked", endless)


_STREAMED: Mapping[str, JSON] = {"stream": True}
Part: TypeAlias = "Served | bytes | Sequence[bytes | int] | Callable[[GoodStream], Any]"
_Writer: TypeAlias = "Callable[[GoodStream, Any], HTTPReply | Iterable[bytes] | None]"


def stream_fault(
    code: str,
    summary: str,
    part: Part,
    places: tuple[ReplyPlace, ...] = ANYWHERE,
    write: _Writer = lambda _, events: events,
    reading: Reading = Reading.REFUSED,
    default_code: str = "",
    clean: Callable[[Target], JSON] = lambda _: None,
    needs: Mapping[str, JSON] = _STREAMED,
    api: str = "",
    **sent: Any,
) -> Entry:
    """Declare a fault of a stream.

    ``write`` makes of the filled ``part`` a response or events to send, or None when there is no
    fault to make; ``clean`` makes the good reply where it is not that of the target.
    """

    def make(target: Target) -> Iterator[Spoiled]:
        good = GoodStream(target)
        made = write(good, part(good) if callable(part) else filled(part, target))
        if made is not None:
            served = made if isinstance(made, HTTPReply) else stream(*made, **sent)
            yield Spoiled(served, clean=clean(target))

    return Entry("", Kind.STREAM, code, summary, places, make, needs, reading, default_code, api)


def _pieces(good: GoodStream, pieces: list[int]) -> list[bytes] | None:
    """Stream the pieces of the text in another order.

    None where the text does not end with a bracket, as nothing might be wrong then.
    """
    if good.pieces[-1] not in {"}", "]"}:
        return None

    texts = [good.said(good.pieces[index]) for index in pieces]
    return good.events_of([*good.opening, *texts])


def _in_pieces(good: GoodStream) -> list[JSON]:
    first = good.target.name[:1]
    rest = good.target.name[1:]
    opening = [
        _call_part(0, _OF_TYPE, name=first, arguments=""),
        _call_part(0, name=rest, arguments=""),
    ]
    return [*opening, *good.deltas[1:]] if rest else []


def _interleaved(good: GoodStream) -> list[JSON]:
    return [*good.deltas[:-1], *good.call(1, id="call_2"), _call_part(1, arguments=good.pieces[-1])]


def _text_as_list(good: GoodStream) -> list[JSON]:
    """Return the deltas of the good reply, the first of its text as a list; beside a call, none."""
    text = "" if good.target.place == "call" else good.pieces[0]
    listed: JSON = {"content": [{"type": "text", "text": text}]}
    return [listed, *(good.deltas if good.target.place == "call" else good.deltas[1:])]


def _two_calls(target: Target) -> JSON:
    text = target.text(target.value)
    calls: list[JSON] = [native_call(target.name, text, f"call_{number}") for number in (1, 2)]
    return completion(assistant(None, calls))


def _not_utf8(good: GoodStream) -> bytes:
    return good.piece("e").replace(b'"scripted"', b'"script\xe9d"')


def _json_lines(good: GoodStream) -> HTTPReply:
    lines = tuple(json.dumps(one).encode() + b"\n" for one in chunks(good.target.clean))
    return HTTPReply(200, {"Content-Type": "application/x-ndjson"}, lines, framing="chunked")


_READ: Mapping[str, Any] = {"reading": Reading.GOOD}
# Over Messages a delta and its block are what they say, or refused.
_READ_BUT_IN_MESSAGES: Mapping[str, Any] = {
    "reading": Reading.GOOD_BUT_IN_MESSAGES,
    "default_code": "envelope.malformed",
}
# Over the other APIs its events do not add up.
_READ_IN_CHAT: Mapping[str, Any] = {
    "reading": Reading.GOOD_IN_CHAT,
    "default_code": "envelope.malformed",
}

# Deltas that do not add up
_of_call = partial(stream_fault, places=("call",))
_call = partial(_of_call, write=lambda good, deltas: good.events_of(deltas) if deltas else None)
_bad = partial(_call, "call.malformed")
_amid = partial(stream_fault, write=lambda good, one: [*good.head, one, *good.tail])
_choice = partial(
    stream_fault, write=lambda good, choice: [*good.head, event(good.chunk_of(choice)), *good.tail]
)
_first = partial(stream_fault, write=lambda good, delta: good.events_of([delta, *good.deltas]))
_ordered = partial(stream_fault, places=WRITTEN, write=_pieces)
_opened = partial(_of_call, write=lambda good, opening: good.events_of([opening, *good.deltas[1:]]))
_added = partial(
    _of_call, write=lambda good, delta: good.events_of([*good.deltas[:2], delta, *good.deltas[2:]])
)
_bad_delta = partial(_added, "call.malformed")
_OF_TYPE: JSONObject = {"id": "call_1", "type": "function"}
_SECOND: JSON = {"index": 1, "delta": {"content": CANARY}, "finish_reason": None}
_NULL_DELTA: JSON = {"index": 0, "delta": None, "finish_reason": None}
_NO_INDEX: JSON = {"tool_calls": [native_call("$tool", "$written")]}
_NO_NAME = _call_part(0, _OF_TYPE, arguments="")
_NO_ID = _call_part(0, name="$tool", arguments="")
_RENAMED = _call_part(0, name=f"{CANARY}_tool", arguments="")
_OTHER_ID = _call_part(0, {"id": f"call_{CANARY}"}, arguments="")
_NO_LIST: JSON = {"tool_calls": {CANARY: {"index": 0}}}
_NO_FUNCTION: JSON = {"tool_calls": [{"index": 0, "function": None}]}

stream_chunk_without_choices: Entry = _amid(
    "envelope.choices", "A chunk has no choices.", lambda good: event(good.around), **_READ
)
stream_chunk_of_second_choice: Entry = _choice(
    "envelope.choices", "A chunk belongs to a second choice.", _SECOND
)
stream_choice_null: Entry = _choice("envelope.malformed", "The choice of a chunk is null.", None)
stream_delta_null: Entry = _choice(
    "envelope.malformed", "The delta of a chunk is null.", _NULL_DELTA, **_READ_BUT_IN_MESSAGES
)
stream_delta_of_user: Entry = _first("reply.role", "The role of a delta is user.", {"role": "user"})
stream_delta_content_list: Entry = stream_fault(
    "reply.content",
    "The content of a delta is a list of content parts.",
    _text_as_list,
    write=lambda good, deltas: good.events_of(deltas),
    **_READ_IN_CHAT,
)
stream_finish_before_end: Entry = _ordered(
    "json.incomplete", "The finish_reason is sent before the JSON ends.", [0, 1]
)
stream_delta_repeated: Entry = _ordered(
    "json.trailing_data", "The last piece of the JSON is sent twice.", [0, 1, 2, 2]
)
stream_deltas_out_of_order: Entry = _ordered(
    "json.syntax", "The last piece of the JSON is sent first.", [2, 0, 1]
)
stream_index_missing: Entry = _bad("The deltas of a call have no index.", [_NO_INDEX], **_READ)
stream_index_gap: Entry = _bad(
    "The only call has index 1, not 0.", lambda good: good.call(1), **_READ
)
stream_index_text: Entry = _bad(
    "The index of a call is a string.", lambda good: good.call("0"), **_READ_BUT_IN_MESSAGES
)
stream_arguments_before_name: Entry = _bad(
    "The id and name of a call are sent after its arguments.",
    lambda good: good.deltas[1:] + good.deltas[:1],
    **_READ_BUT_IN_MESSAGES,
)
stream_name_missing: Entry = _opened(
    "call.malformed",
    "No delta of the call has a name.",
    _NO_NAME,
    default_code="shape.wrong_type",
)
stream_name_changes: Entry = _bad_delta("A later delta gives the call another name.", _RENAMED)
stream_name_in_pieces: Entry = _bad(
    "The name of a call is sent in two pieces.",
    _in_pieces,
    reading=Reading.GOOD_IN_CHAT,
    default_code="tool.unknown",
)
stream_id_missing: Entry = _opened(
    "call.id_missing", "No delta of the call has an id.", _NO_ID, **_READ
)
stream_id_changes: Entry = _bad_delta(
    "A later delta gives the call another id.", _OTHER_ID, **_READ
)
stream_id_repeated: Entry = _call(
    "call.id_duplicate",
    "A call is sent again with another index and the same id.",
    lambda good: good.deltas + good.call(1),
    reading=Reading.GOOD_BUT_IN_RESPONSES,
)
stream_calls_share_index: Entry = _bad(
    "Two calls have the same index.",
    lambda good: good.deltas + good.call(0, "call_2"),
    clean=_two_calls,
    needs={"stream": True, "parallel_tool_calls": True},
    **_READ_BUT_IN_MESSAGES,
)
stream_calls_interleaved: Entry = _call(
    "json.incomplete", "The end of a call has the index of the next call.", _interleaved
)
stream_call_null: Entry = _bad_delta(
    "A call in a delta is null.", {"tool_calls": [None]}, **_READ_BUT_IN_MESSAGES
)
stream_calls_no_list: Entry = _bad_delta(
    "The tool_calls of a delta are an object, not a list.", _NO_LIST
)
stream_function_null: Entry = _bad_delta(
    "The function of a call in a delta is null.", _NO_FUNCTION, **_READ_BUT_IN_MESSAGES
)
stream_arguments_object: Entry = _call(
    "json.not_text",
    "The arguments in a delta are an object, not text.",
    lambda good: [*good.opening, good.said(good.target.value)],
    **_READ_IN_CHAT,
)

# Streams that break off
_ERROR: JSON = {
    "message": f"The server had an error ({CANARY})",
    "type": "server_error",
    "param": None,
    "code": None,
}
_COMMENT = b": %b\n\n" % (b"still working " * 1000)
_PAGE = f"<html><head><title>Sign in</title></head><body>{CANARY}</body></html>\r\n".encode()
_HTML = HTTPReply(200, {"Content-Type": "text/html"}, (_PAGE,))
_NO_JSON = b"data: %b is busy\n\n" % CANARY.encode()
_ERROR_EVENTS = [event({"error": _ERROR}), DONE]
_TYPED = [b"event: error\n" + event(_ERROR), DONE]
_FILLER = b"a" * (1 << 16)
_whole = partial(stream_fault, "reply.broken_off")
_malformed = partial(stream_fault, "envelope.malformed")
_bad_event = partial(_amid, "envelope.malformed")
_after_head = partial(stream_fault, write=lambda good, more: [*good.head, *more])
_broken = partial(_after_head, "reply.broken_off")
_cut = partial(_broken, ending=WireEnding.CUT)
_error = partial(_after_head, "envelope.error")
_flood = partial(_after_head, "json.too_large", ending=WireEnding.CUT, endless=True)

stream_cut_in_event: Entry = _cut(
    "The connection is closed in the middle of an event.",
    lambda good: [good.tail[0][: len(good.tail[0]) // 2]],
)
# The first of the two bytes of é, which is C3 A9.
stream_cut_in_character: Entry = _cut(
    "The connection is closed in the middle of a two-byte character.",
    lambda good: [good.piece("~").partition(b"~")[0] + b"\xc3"],
)
stream_cut_between_events: Entry = _cut("The connection is closed between two events.", [])
stream_reset: Entry = _broken(
    "The connection is reset between two events.", [], ending=WireEnding.RESET
)
stream_hang: Entry = _broken(
    "The server stops sending events, and keeps the connection open.", [], ending=WireEnding.HANG
)
stream_comments_forever: Entry = _cut(
    "The server stops sending events, and sends comments without end.", [_COMMENT], endless=True
)
stream_ends_early: Entry = _broken(
    "The HTTP response ends normally, but in the middle of the reply.", []
)
stream_without_done: Entry = _whole(
    "The ``[DONE]`` at the end is missing.",
    lambda good: good.events[:-1],
    reading=Reading.GOOD_IN_CHAT,
)
stream_without_finish: Entry = _whole(
    "The finish_reason is missing.", lambda good: [*good.events[:-2], DONE]
)
stream_empty: Entry = _whole("The response has no event.", [])
stream_done_at_once: Entry = stream_fault(
    "envelope.choices", "``[DONE]`` is sent without a chunk before it.", [DONE]
)
stream_not_json: Entry = _bad_event("The data of an event is plain text, not JSON.", _NO_JSON)
stream_prefix_twice: Entry = _malformed(
    "The prefix ``data:`` is written twice.", lambda good: [b"data: " + one for one in good.events]
)
stream_events_run_together: Entry = _malformed(
    "The blank lines between events are missing.",
    lambda good: [*(one.removesuffix(b"\n") for one in good.events), b"\n"],
)
stream_not_utf8: Entry = _amid(
    "json.encoding", "An event contains a byte that is not UTF-8.", _not_utf8
)
stream_not_object: Entry = _bad_event("The data of an event is a JSON array.", event([CANARY]))
stream_error: Entry = _error(
    "An error is sent in the middle of the reply, and ends it.", _ERROR_EVENTS
)
stream_error_event: Entry = _error(
    "An event of type ``error`` is sent in the middle of the reply.", _TYPED
)
stream_html_page: Entry = _malformed("The response is a proxy's HTML page, not a stream.", _HTML)
stream_plain_json: Entry = _malformed(
    "The response is JSON, not a stream.", lambda good: HTTPReply.json(200, good.target.clean)
)
stream_json_lines: Entry = _malformed(
    "The chunks are sent as JSON lines, not as events.", _json_lines
)
stream_endless_event: Entry = _flood(
    "The data of an event never ends.", [b'data: {"id": "', _FILLER]
)
stream_endless_text: Entry = _flood(
    "The text never ends.", lambda good: [good.piece(" " * (1 << 14))]
)
stream_goes_on_after_finish: Entry = _malformed(
    "More text is sent after the finish_reason.",
    lambda good: [*good.events[:-1], good.piece(f" {CANARY}"), DONE],
)
stream_finishes_twice: Entry = _malformed(
    "The chunk with the finish_reason is sent twice.",
    lambda good: good.events[:-1] + good.events[-2:],
    **_READ,
)
