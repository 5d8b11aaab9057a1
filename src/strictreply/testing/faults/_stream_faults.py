"""Faults of an event stream (WHATWG HTML section 9.2): its deltas do not add up to a reply, or it breaks off.

A row of a table is ``name = factory(code, summary, change)``; a change is made from the good stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from strictreply.testing._event_streams import chunks
from strictreply.testing._steps import CANARY, Kind, ReplyPlace, Target
from strictreply.testing._wire import EVENT_STREAM, HTTPReply, WireEnding, native_call
from strictreply.testing.faults._catalogue import ANYWHERE, WRITTEN, Entry, Spoiled, filled
from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._events import DONE, event


class GoodStream:
    """The stream of a good reply: ``events`` are ``head`` up to the first piece of the text, and ``tail`` after it.

    ``deltas`` are those after the role: the ``opening`` of a call, then one for each of the ``pieces`` of the text.
    ``around`` is what each chunk has beside its choices.
    """

    def __init__(self, target: Target) -> None:
        around: list[Any] = list(chunks(target.completion("")))  # all but the text: the role first, the finish last
        text = target.text(target.value)
        half = len(text) // 2
        self.target = target
        self._first, self._last = around[0], around[-1]
        self.around: JSONObject = {name: value for name, value in around[0].items() if name != "choices"}
        self.pieces: tuple[str, str, str] = text[:half], text[half:-1], text[-1:]
        self.opening: list[JSONObject] = [one["choices"][0]["delta"] for one in around[1:-1]]
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

    def call(self, index: JSON, id: str = "call_1") -> list[JSONObject]:  # noqa: A002 - the API's word
        """Return the deltas of the good call under another index or id."""
        opening = _call_part(index, {"id": id, "type": "function"}, name=self.target.name, arguments="")
        return [opening, *(_call_part(index, arguments=piece) for piece in self.pieces)]


def _call_part(index: JSON = 0, call: JSONObject | None = None, **function: JSON) -> JSONObject:
    """Write a delta of one call: ``call`` holds members beside the function, ``function`` those in it."""
    return {"tool_calls": [{"index": index, **(call or {}), "function": function}]}


def stream(*events: bytes, ending: WireEnding = WireEnding.WHOLE, endless: bool = False) -> HTTPReply:
    """Return a response that streams these events."""
    return HTTPReply(200, EVENT_STREAM, events, ending, "chunked", endless)


def stream_fault(
    code: str,
    summary: str,
    respond: Callable[[GoodStream], HTTPReply | Sequence[bytes] | None],
    places: tuple[ReplyPlace, ...] = ANYWHERE,
    **sent: Any,
) -> Entry:
    """Declare a fault of a streamed reply: ``respond`` makes the response, or events that are ``sent`` so, or None."""

    def make(target: Target) -> Iterator[Spoiled]:
        made = respond(GoodStream(target))
        if made is not None:
            yield Spoiled(made if isinstance(made, HTTPReply) else stream(*made, **sent))

    return Entry("", Kind.STREAM, code, summary, places, make, {"stream": True})


# Deltas that do not add up


def _deltas(
    code: str, summary: str, deltas: Callable[[GoodStream], Iterable[JSON]], places: tuple[ReplyPlace, ...] = ANYWHERE
) -> Entry:
    """Stream other deltas between the role and the finish; nothing where there are none."""

    def respond(good: GoodStream) -> list[bytes] | None:
        others = list(deltas(good))
        return good.events_of(others) if others else None

    return stream_fault(code, summary, respond, places)


def _first_delta(code: str, summary: str, delta: JSON) -> Entry:
    return _deltas(code, summary, lambda good: [delta, *good.deltas])


def _amid(code: str, summary: str, event_of: Callable[[GoodStream], bytes]) -> Entry:
    """Stream one event more in the middle of the good ones."""
    return stream_fault(code, summary, lambda good: [*good.head, event_of(good), *good.tail])


def _choice_amid(code: str, summary: str, choice: JSON) -> Entry:
    return _amid(code, summary, lambda good: event(good.chunk_of(choice)))


def _pieces(code: str, summary: str, *pieces: int) -> Entry:
    """Stream the pieces of the text in another order; where it ends with no bracket nothing might be wrong then."""

    def deltas(good: GoodStream) -> list[JSON]:
        said = [good.said(good.pieces[index]) for index in pieces]
        return [*good.opening, *said] if good.pieces[-1] in {"}", "]"} else []

    return _deltas(code, summary, deltas, WRITTEN)


def _opened(code: str, summary: str, opening: JSON) -> Entry:
    """Stream another delta in place of the one that opens the call."""
    return _call(code, summary, lambda good: [filled(opening, good.target), *good.deltas[1:]])


def _delta_amid(summary: str, delta: JSON) -> Entry:
    """Stream one delta more after the first piece of a call's arguments."""
    return _bad(summary, lambda good: [*good.deltas[:2], delta, *good.deltas[2:]])


def _in_pieces(good: GoodStream) -> list[JSON]:
    first, rest = good.target.name[:1], good.target.name[1:]
    opening = [_call_part(0, _OF_TYPE, name=first, arguments=""), _call_part(0, name=rest, arguments="")]
    return [*opening, *good.deltas[1:]] if rest else []


def _interleaved(good: GoodStream) -> list[JSON]:
    return [*good.deltas[:-1], *good.call(1, id="call_2"), _call_part(1, arguments=good.pieces[-1])]


_bad_choice = partial(_choice_amid, "envelope.malformed")
_call = partial(_deltas, places=("call",))
_bad = partial(_call, "call.malformed")
_OF_TYPE: JSONObject = {"id": "call_1", "type": "function"}
_SECOND: JSON = {"index": 1, "delta": {"content": CANARY}, "finish_reason": None}
_NULL_DELTA: JSON = {"index": 0, "delta": None, "finish_reason": None}
_PARTS: JSON = {"content": [{"type": "text", "text": CANARY}]}
_NO_INDEX: JSON = {"tool_calls": [native_call("$tool", "$written")]}
_NO_NAME, _NO_ID = _call_part(0, _OF_TYPE, arguments=""), _call_part(0, name="$tool", arguments="")
_RENAMED = _call_part(0, name=f"{CANARY}_tool", arguments="")
_OTHER_ID = _call_part(0, {"id": f"call_{CANARY}"}, arguments="")
_NO_LIST: JSON = {"tool_calls": {CANARY: {"index": 0}}}
_NO_FUNCTION: JSON = {"tool_calls": [{"index": 0, "function": None}]}
stream_chunk_without_choices: Entry = _amid(
    "envelope.choices", "A chunk has no choices member.", lambda good: event(good.around)
)
stream_chunk_of_second_choice: Entry = _choice_amid("envelope.choices", "A chunk is of a second choice.", _SECOND)
stream_choice_null: Entry = _bad_choice("The choice of a chunk is null.", None)
stream_delta_null: Entry = _bad_choice("The delta of a chunk is null.", _NULL_DELTA)
stream_delta_of_user: Entry = _first_delta("reply.role", "The role of a delta is user.", {"role": "user"})
stream_delta_content_list: Entry = _first_delta("reply.content", "The content of a delta is a list of parts.", _PARTS)
stream_finish_before_end: Entry = _pieces("json.incomplete", "The reply finishes before its JSON is complete.", 0, 1)
stream_delta_repeated: Entry = _pieces("json.trailing_data", "The last piece of the JSON comes twice.", 0, 1, 2, 2)
stream_deltas_out_of_order: Entry = _pieces("json.syntax", "The last piece of the JSON comes first.", 2, 0, 1)
stream_index_missing: Entry = _bad("No delta of a call has an index.", lambda good: filled([_NO_INDEX], good.target))
stream_index_gap: Entry = _bad("The only call has index 1, and none has index 0.", lambda good: good.call(1))
stream_index_text: Entry = _bad("The index of a call is a text.", lambda good: good.call("0"))
stream_arguments_before_name: Entry = _bad("The id and name come last.", lambda good: good.deltas[1:] + good.deltas[:1])
stream_name_missing: Entry = _opened("call.malformed", "No delta of the call has a name.", _NO_NAME)
stream_name_changes: Entry = _delta_amid("A delta among the arguments gives the call another name.", _RENAMED)
stream_name_in_pieces: Entry = _bad("The name of a call comes in two pieces.", _in_pieces)
stream_id_missing: Entry = _opened("call.id_missing", "No delta of the call has an id.", _NO_ID)
stream_id_changes: Entry = _delta_amid("A delta among the arguments gives the call another id.", _OTHER_ID)
stream_id_repeated: Entry = _call("call.id_duplicate", "An id is used twice.", lambda good: good.deltas + good.call(1))
stream_calls_share_index: Entry = _bad("Two calls have one index.", lambda good: good.deltas + good.call(0, "call_2"))
stream_calls_interleaved: Entry = _call("json.incomplete", "A call's last piece has another index.", _interleaved)
stream_call_null: Entry = _delta_amid("A call of a delta is null.", {"tool_calls": [None]})
stream_calls_no_list: Entry = _delta_amid("The tool_calls of a delta are an object.", _NO_LIST)
stream_function_null: Entry = _delta_amid("The function of a call is null in a delta.", _NO_FUNCTION)
stream_arguments_object: Entry = _call(
    "json.not_text",
    "The arguments of a delta are an object.",
    lambda good: [*good.opening, good.said(good.target.value)],
)

# Streams that break off


def _head_and(summary: str, *more: bytes, code: str = "reply.broken_off", **sent: Any) -> Entry:
    """Stream the events up to the first piece of the text, then others."""
    return stream_fault(code, summary, lambda good: [*good.head, *more], **sent)


def _cut_in_character(good: GoodStream) -> list[bytes]:
    return [*good.head, good.piece("~").partition(b"~")[0] + b"\xc3"]  # é is C3 A9


def _not_utf8(good: GoodStream) -> bytes:
    return good.piece("e").replace(b'"scripted"', b'"script\xe9d"')


def _json_lines(good: GoodStream) -> HTTPReply:
    lines = tuple(json.dumps(one).encode() + b"\n" for one in chunks(good.target.clean))
    return HTTPReply(200, {"Content-Type": "application/x-ndjson"}, lines, framing="chunked")


_ERROR: JSON = {"message": f"The server had an error ({CANARY})", "type": "server_error", "param": None, "code": None}
_COMMENT = b": %b\n\n" % (b"still working " * 1000)
_PAGE = f"<html><head><title>Sign in</title></head><body>{CANARY}</body></html>\r\n".encode()
_HTML = HTTPReply(200, {"Content-Type": "text/html"}, (_PAGE,))
_NO_JSON = b"data: %b is busy\n\n" % CANARY.encode()
_TYPED = b"event: error\n" + event(_ERROR)
_BLANKS, _FILLER = " " * (1 << 14), b"a" * (1 << 16)
_broken_off = partial(stream_fault, "reply.broken_off")
_cut = partial(_broken_off, ending=WireEnding.CUT)
_malformed = partial(stream_fault, "envelope.malformed")
_bad_event = partial(_amid, "envelope.malformed")
_error = partial(_head_and, code="envelope.error")
_endless = partial(_head_and, ending=WireEnding.CUT, endless=True)
_flood = partial(stream_fault, "json.too_large", ending=WireEnding.CUT, endless=True)
stream_cut_in_event: Entry = _cut(
    "The connection is closed in an event.", lambda good: [*good.head, good.tail[0][: len(good.tail[0]) // 2]]
)
stream_cut_in_character: Entry = _cut("The connection is closed in a character of two bytes.", _cut_in_character)
stream_cut_between_events: Entry = _head_and("The connection is closed between two events.", ending=WireEnding.CUT)
stream_reset: Entry = _head_and("The connection is reset between two events.", ending=WireEnding.RESET)
stream_hang: Entry = _head_and("No more events come; the connection stays open.", ending=WireEnding.HANG)
stream_comments_forever: Entry = _endless("Comments come for ever, and no more events.", _COMMENT)
stream_ends_early: Entry = _head_and("The HTTP response ends as it should, but in the middle of the reply.")
stream_without_done: Entry = _broken_off("The ``[DONE]`` at the end is missing.", lambda good: good.events[:-1])
stream_without_finish: Entry = _broken_off("The finish_reason is missing.", lambda good: [*good.events[:-2], DONE])
stream_empty: Entry = _broken_off("The response ends without an event.", lambda _: [])
stream_done_at_once: Entry = stream_fault("envelope.choices", "``[DONE]`` comes without a chunk.", lambda _: [DONE])
stream_not_json: Entry = _bad_event("The data of an event is a text, not JSON.", lambda _: _NO_JSON)
stream_prefix_twice: Entry = _malformed("``data:`` comes twice.", lambda good: [b"data: " + one for one in good.events])
stream_events_run_together: Entry = _malformed(
    "No blank line parts the events.", lambda good: [*(one.removesuffix(b"\n") for one in good.events), b"\n"]
)
stream_not_utf8: Entry = _amid("json.encoding", "An event holds a byte that is not UTF-8.", _not_utf8)
stream_not_object: Entry = _bad_event("The data of an event is a JSON array.", lambda _: event([CANARY]))
stream_error: Entry = _error("An error comes in the middle of the reply, and ends it.", event({"error": _ERROR}), DONE)
stream_error_event: Entry = _error("An event of the type ``error`` comes in the middle of the reply.", _TYPED, DONE)
stream_html_page: Entry = _malformed("A proxy's HTML page comes in place of the stream.", lambda _: _HTML)
stream_plain_json: Entry = _malformed("The reply is plain JSON.", lambda good: HTTPReply.json(200, good.target.clean))
stream_json_lines: Entry = _malformed("The chunks come as JSON lines, not as events.", _json_lines)
stream_endless_event: Entry = _flood("An event never ends.", lambda good: [*good.head, b'data: {"id": "', _FILLER])
stream_endless_text: Entry = _flood("The text goes on for ever.", lambda good: [*good.head, good.piece(_BLANKS)])
stream_goes_on_after_finish: Entry = _malformed(
    "More text comes after the finish_reason.", lambda good: [*good.events[:-1], good.piece(f" {CANARY}"), DONE]
)
stream_finishes_twice: Entry = _malformed("The finish comes twice.", lambda good: good.events[:-1] + good.events[-2:])
