"""Faults of an event stream (WHATWG HTML section 9.2): its deltas do not add up to a reply, or it breaks off.

A row of a table is ``name = factory(code, summary, change)``; a change is made from the good stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from strictreply.testing._event_streams import DONE, chunks, event
from strictreply.testing._steps import CANARY, Kind
from strictreply.testing._targets import ReplyPlace, Target
from strictreply.testing._wire import EVENT_STREAM, HTTPReply, WireEnding
from strictreply.testing.faults._catalogue import ANYWHERE, WRITTEN, Entry, Spoiled
from strictreply.testing.faults._transport_faults import as_sent
from strictreply.values._json import JSON, JSONObject


@dataclass(frozen=True, slots=True)
class GoodStream:
    """The stream of a good reply, part by part."""

    target: Target

    @property
    def _around_text(self) -> list[Any]:
        # The chunks that are not the text: the first has the role, the last the finish.
        return [*chunks(self.target.completion(""))]

    @property
    def pieces(self) -> tuple[str, str, str]:
        """The text of the arguments or the answer, cut in three; the last is its last character."""
        text = self.target.text(self.target.value)
        half = len(text) // 2
        return text[:half], text[half:-1], text[-1]

    @property
    def opening(self) -> list[JSONObject]:
        """The deltas between the role and the text: for a call its id and its name."""
        return [one["choices"][0]["delta"] for one in self._around_text[1:-1]]

    @property
    def deltas(self) -> list[JSONObject]:
        """The deltas after the role."""
        return [*self.opening, *map(self.said, self.pieces)]

    @property
    def events(self) -> list[bytes]:
        """All events."""
        return self.events_of(self.deltas)

    @property
    def head(self) -> list[bytes]:
        """The events up to the first piece of the text."""
        return self.events[: len(self.opening) + 2]

    @property
    def tail(self) -> list[bytes]:
        """The events after the first piece of the text."""
        return self.events[len(self.opening) + 2 :]

    def said(self, text: JSON) -> JSONObject:
        """Return the delta of a piece of the text."""
        return _call_part(arguments=text) if self.target.place == "call" else {"content": text}

    def chunk(self, delta: JSON) -> JSONObject:
        """Return the chunk of a delta."""
        first: JSONObject = self._around_text[0]
        return first | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]}

    def events_of(self, deltas: Iterable[JSON]) -> list[bytes]:
        """Return the events of a stream: the role, these deltas, the finish, and ``[DONE]``."""
        first, *_, last = self._around_text
        return [*map(event, [first, *map(self.chunk, deltas), last]), DONE]

    def amid(self, *more: bytes) -> list[bytes]:
        """Return the events with more in their middle."""
        return [*self.head, *more, *self.tail]

    def deltas_amid(self, more: JSON) -> list[JSON]:
        """Return the deltas with another one after the first piece of the text."""
        middle = len(self.opening) + 1
        return [*self.deltas[:middle], more, *self.deltas[middle:]]

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
    respond: Callable[[GoodStream], HTTPReply],
    places: tuple[ReplyPlace, ...] = ANYWHERE,
    where: Callable[[GoodStream], bool] = lambda _: True,
) -> Entry:
    """Declare a fault that only a streamed reply can have; ``where`` chooses the replies of which it can be made."""

    def make(target: Target) -> Iterator[Spoiled]:
        good = GoodStream(target)
        if where(good):
            yield Spoiled.of(respond(good))

    return Entry("", Kind.STREAM, code, summary, places, make, {"stream": True})


# Deltas that do not add up


def _deltas(
    code: str,
    summary: str,
    deltas: Callable[[GoodStream], Iterable[JSON]],
    places: tuple[ReplyPlace, ...] = ANYWHERE,
    where: Callable[[GoodStream], bool] = lambda _: True,
) -> Entry:
    """Stream other deltas between the role and the finish."""
    return stream_fault(code, summary, lambda good: stream(*good.events_of(deltas(good))), places, where)


def _amid(code: str, summary: str, event_of: Callable[[GoodStream], bytes]) -> Entry:
    """Stream one event more in the middle of the good ones."""
    return stream_fault(code, summary, lambda good: stream(*good.amid(event_of(good))))


def _choice_amid(code: str, summary: str, choice: JSON) -> Entry:
    return _amid(code, summary, lambda good: event(good.chunk({}) | {"choices": [choice]}))


def _pieces(code: str, summary: str, pieces: Callable[[str, str, str], Iterable[str]]) -> Entry:
    """Stream other pieces of the text; where it ends with no bracket nothing might be wrong then."""
    return _deltas(
        code,
        summary,
        lambda good: [*good.opening, *map(good.said, pieces(*good.pieces))],
        WRITTEN,
        where=lambda good: good.pieces[-1] in {"}", "]"},
    )


_call = partial(_deltas, places=("call",))
_malformed_call = partial(_call, "call.malformed")
_OTHER_TOOL = f"{CANARY}_tool"
_NAMELESS: JSONObject = {"id": "call_1", "type": "function"}


def _without_index(good: GoodStream) -> list[JSON]:
    function: JSON = {"name": good.target.name, "arguments": good.target.text(good.target.value)}
    return [{"tool_calls": [{"id": "call_1", "type": "function", "function": function}]}]


def _name_in_pieces(good: GoodStream) -> list[JSONObject]:
    name = good.target.name
    return [
        _call_part(0, _NAMELESS, name=name[:1], arguments=""),
        _call_part(0, name=name[1:], arguments=""),
        *good.deltas[1:],
    ]


stream_chunk_without_choices: Entry = _amid(
    "envelope.choices",
    "A chunk has no choices member.",
    lambda good: event({name: value for name, value in good.chunk({}).items() if name != "choices"}),
)
stream_chunk_of_second_choice: Entry = _choice_amid(
    "envelope.choices",
    "A chunk belongs to a second choice, though one was asked for.",
    {"index": 1, "delta": {"content": CANARY}, "finish_reason": None},
)
stream_choice_null: Entry = _choice_amid("envelope.malformed", "The choice of a chunk is null.", None)
stream_delta_null: Entry = _choice_amid(
    "envelope.malformed", "The delta of a chunk is null.", {"index": 0, "delta": None, "finish_reason": None}
)
stream_delta_of_user: Entry = _deltas(
    "reply.role", "A delta says that its role is user.", lambda good: [{"role": "user"}, *good.deltas]
)
stream_delta_content_list: Entry = _deltas(
    "reply.content",
    "The content of a delta is a list of parts.",
    lambda good: [{"content": [{"type": "text", "text": CANARY}]}, *good.deltas],
)
stream_finish_before_end: Entry = _pieces(
    "json.incomplete", "The reply finishes before its JSON is complete.", lambda first, middle, _: [first, middle]
)
stream_delta_repeated: Entry = _pieces(
    "json.trailing_data",
    "The last piece of the JSON comes twice.",
    lambda first, middle, last: [first, middle, last, last],
)
stream_deltas_out_of_order: Entry = _pieces(
    "json.syntax", "The last piece of the JSON comes first.", lambda first, middle, last: [last, first, middle]
)
stream_index_missing: Entry = _malformed_call("The deltas of a call have no index.", _without_index)
stream_index_gap: Entry = _malformed_call("The only call has index 1, and none has index 0.", lambda good: good.call(1))
stream_index_text: Entry = _malformed_call("The index of a call is a text.", lambda good: good.call("0"))
stream_arguments_before_name: Entry = _malformed_call(
    "The arguments come first, then the id and the name.", lambda good: [*good.deltas[1:], good.deltas[0]]
)
stream_name_missing: Entry = _malformed_call(
    "No delta of the call has a name.", lambda good: [_call_part(0, _NAMELESS, arguments=""), *good.deltas[1:]]
)
stream_name_changes: Entry = _malformed_call(
    "A delta among the arguments gives the call another name.",
    lambda good: good.deltas_amid(_call_part(0, name=_OTHER_TOOL, arguments="")),
)
stream_name_in_pieces: Entry = _malformed_call(
    "The name of a call comes in two pieces.", _name_in_pieces, where=lambda good: len(good.target.name) > 1
)
stream_id_missing: Entry = _call(
    "call.id_missing",
    "No delta of the call has an id.",
    lambda good: [_call_part(0, name=good.target.name, arguments=""), *good.deltas[1:]],
)
stream_id_changes: Entry = _malformed_call(
    "A delta among the arguments gives the call another id.",
    lambda good: good.deltas_amid(_call_part(0, {"id": f"call_{CANARY}"}, arguments="")),
)
stream_id_repeated: Entry = _call(
    "call.id_duplicate", "Two calls have the same id.", lambda good: [*good.deltas, *good.call(1)]
)
stream_calls_share_index: Entry = _malformed_call(
    "Two calls with their own ids have the same index.", lambda good: [*good.deltas, *good.call(0, id="call_2")]
)
stream_calls_interleaved: Entry = _call(
    "json.incomplete",
    "The last piece of the first call's arguments comes under the index of the second.",
    lambda good: [*good.deltas[:-1], *good.call(1, id="call_2"), _call_part(1, arguments=good.pieces[-1])],
)
stream_call_null: Entry = _malformed_call(
    "A call of a delta is null.", lambda good: good.deltas_amid({"tool_calls": [None]})
)
stream_calls_no_list: Entry = _malformed_call(
    "The tool_calls of a delta are an object.", lambda good: good.deltas_amid({"tool_calls": {CANARY: {"index": 0}}})
)
stream_function_null: Entry = _malformed_call(
    "The function of a call is null in a delta.",
    lambda good: good.deltas_amid({"tool_calls": [{"index": 0, "function": None}]}),
)
stream_arguments_object: Entry = _call(
    "json.not_text",
    "The arguments come as an object in a delta, not as pieces of a text.",
    lambda good: [*good.opening, _call_part(0, arguments=good.target.value)],
)

# Streams that break off


def _events(
    code: str,
    summary: str,
    events: Callable[[GoodStream], Iterable[bytes]],
    ending: WireEnding = WireEnding.WHOLE,
    *,
    endless: bool = False,
) -> Entry:
    """Stream other events, and end the connection so; with ``endless`` the last event comes for ever."""
    return stream_fault(code, summary, lambda good: stream(*events(good), ending=ending, endless=endless))


def _cut_in_character(good: GoodStream) -> list[bytes]:
    last = json.dumps(good.chunk(good.said("é")), ensure_ascii=False).encode()
    return [*good.head, b"data: " + last.partition(b"\xa9")[0]]  # é is C3 A9


def _as_json_lines(good: GoodStream) -> HTTPReply:
    lines = (json.dumps(one).encode() + b"\n" for one in chunks(good.target.clean))
    return HTTPReply(200, {"Content-Type": "application/x-ndjson"}, tuple(lines), framing="chunked")


_ERROR: JSON = {"message": f"The server had an error ({CANARY})", "type": "server_error", "param": None, "code": None}
_COMMENT = b": %b\n\n" % (b"still working " * 1000)
_PAGE = f"<html><head><title>Sign in</title></head><body>{CANARY}</body></html>\r\n".encode()

_broken_off = partial(_events, "reply.broken_off")
_malformed = partial(_events, "envelope.malformed")

stream_cut_in_event: Entry = _broken_off(
    "The connection is closed in the middle of an event.",
    lambda good: [*good.head, good.tail[0][: len(good.tail[0]) // 2]],
    WireEnding.CUT,
)
stream_cut_in_character: Entry = _broken_off(
    "The connection is closed in the middle of a character of two bytes.", _cut_in_character, WireEnding.CUT
)
stream_cut_between_events: Entry = _broken_off(
    "The connection is closed between two events.", lambda good: good.head, WireEnding.CUT
)
stream_reset: Entry = _broken_off(
    "The connection is reset between two events.", lambda good: good.head, WireEnding.RESET
)
stream_hang: Entry = _broken_off(
    "No more events come; the connection stays open.", lambda good: good.head, WireEnding.HANG
)
stream_comments_forever: Entry = _broken_off(
    "Comments keep the connection busy for ever, and no more events come.",
    lambda good: [*good.head, _COMMENT],
    WireEnding.CUT,
    endless=True,
)
stream_ends_early: Entry = _broken_off(
    "The HTTP response ends as it should, but in the middle of the reply.", lambda good: good.head
)
stream_without_done: Entry = _broken_off("The ``[DONE]`` at the end is missing.", lambda good: good.events[:-1])
stream_without_finish: Entry = _broken_off(
    "The chunk with the finish_reason is missing.", lambda good: [*good.events[:-2], DONE]
)
stream_empty: Entry = _broken_off("The response ends without an event.", lambda _: [])
stream_done_at_once: Entry = _events("envelope.choices", "``[DONE]`` comes without a chunk.", lambda _: [DONE])
stream_not_json: Entry = _amid(
    "envelope.malformed",
    "The data of an event is a text, not JSON.",
    lambda _: b"data: %b is busy\n\n" % CANARY.encode(),
)
stream_prefix_twice: Entry = _malformed(
    "A proxy put a second ``data:`` before each event.", lambda good: [b"data: " + event for event in good.events]
)
stream_events_run_together: Entry = _malformed(
    "No blank line stands between the events, so they read as one.",
    lambda good: [*(event.removesuffix(b"\n") for event in good.events), b"\n"],
)
stream_not_utf8: Entry = _amid(
    "json.encoding",
    "An event holds a byte that is not UTF-8.",
    lambda good: event(good.chunk(good.said("e"))).replace(b'"scripted"', b'"script\xe9d"'),
)
stream_not_object: Entry = _amid(
    "envelope.malformed", "The data of an event is a JSON array.", lambda _: event([CANARY])
)
stream_error: Entry = _events(
    "envelope.error",
    "An error comes in the middle of the reply, and ends it.",
    lambda good: [*good.head, event({"error": _ERROR}), DONE],
)
stream_error_event: Entry = _events(
    "envelope.error",
    "An event of the type ``error`` comes in the middle of the reply, its data the error itself.",
    lambda good: [*good.head, b"event: error\n" + event(_ERROR), DONE],
)
stream_html_page: Entry = stream_fault(
    "envelope.malformed",
    "A proxy's HTML page comes in place of the stream.",
    lambda _: HTTPReply(200, {"Content-Type": "text/html"}, (_PAGE,)),
)
stream_plain_json: Entry = stream_fault(
    "envelope.malformed",
    "The completion comes as plain JSON, though a stream was asked for.",
    lambda good: HTTPReply(200, {"Content-Type": "application/json"}, (as_sent(good.target),)),
)
stream_json_lines: Entry = stream_fault(
    "envelope.malformed", "The chunks come as JSON lines, not as events.", _as_json_lines
)
stream_endless_event: Entry = _events(
    "json.too_large",
    "The data of an event goes on for ever.",
    lambda good: [*good.head, b'data: {"id": "', b"a" * (1 << 16)],
    WireEnding.CUT,
    endless=True,
)
stream_endless_text: Entry = _events(
    "json.too_large",
    "The arguments or the answer go on for ever.",
    lambda good: [*good.head, event(good.chunk(good.said(" " * (1 << 14))))],
    WireEnding.CUT,
    endless=True,
)
stream_goes_on_after_finish: Entry = _malformed(
    "More text comes after the chunk with the finish_reason.",
    lambda good: [*good.events[:-1], event(good.chunk(good.said(f" {CANARY}"))), DONE],
)
stream_finishes_twice: Entry = _malformed(
    "The chunk with the finish_reason comes twice.", lambda good: [*good.events[:-1], good.events[-2], DONE]
)
