"""Writes a response as events, after the part that the caller already has.

Held events are passed on unchanged if they are not judged, or if they are all that the API sends of
a message or a call, and agree with the accepted response. All others are written anew, at the place
of the first. Sequence numbers continue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._chat_calls import label_in
from strictreply.wires._members import peek
from strictreply.wires._responses_items import WRITTEN, Item, agrees
from strictreply.wires._responses_requests import is_call, kind_of
from strictreply.wires._responses_stream import ENDS, LIFECYCLE, ResponsesAssembly

_BEGUN: Mapping[str, JSONObject] = {
    "message": {"content": []},
    "reasoning": {"summary": []},
    **{call: {member: ""} for call, member in WRITTEN.items()},
}
"""The contents of an item when it is added, before its texts."""

_BAD_ENDS = ("incomplete", "failed", "cancelled")

_ALL_OF_TEXT = frozenset(
    {
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
    }
)
_MOST_HELD = 20_000
"""The most pieces of which events are held; beyond it, their content is written in one event."""

_PIECES = frozenset(
    {
        "response.output_text.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
    }
)
_SAY_NOTHING = frozenset(
    {
        "sequence_number",
        "event_without_type",
        "event_without_response",
        "response_done",
        "member_missing",
        "item_empty",
    }
)
"""The rows that change an event only by the members that the API writes."""


class ResponsesSent:
    """The part of a response that was passed on as events.

    See :class:`~strictreply.wires._wire.SentSoFar`.
    """

    def __init__(self, _usage: bool = True) -> None:  # every stream ends with its usage
        self._texts: list[str] = []
        self._came = ResponsesAssembly()
        self._number = -1
        self._streams = [_Stream()]
        self._live: _Stream | None = None  # of which something was passed on

    @property
    def text(self) -> str:
        """The text of the answer that was passed on."""
        return "".join(self._texts)

    @property
    def has_begun(self) -> bool:
        """Whether any event was passed on."""
        return self._live is not None

    def begin(self) -> None:
        """Start another stream."""
        self._streams.append(_Stream())

    def hold(self, event: JSON) -> None:
        """Record an event that waits until the reply is accepted."""
        if isinstance(event, dict):
            self._streams[-1].hold(event)

    def add(self, event: JSON) -> None:
        """Record an event that is passed on."""
        self._came.add(event)
        if "content" in self._came.delta:
            self._texts.append(self._came.delta["content"])

        self._live = self._streams[-1]
        self._live.release(event)
        number = peek(event, "sequence_number")
        self._number = number if isinstance(number, int) else self._number + 1

    def told_id(self, response: JSONObject) -> JSON:
        """Return the id that the caller has; see :class:`~strictreply.wires._wire.SentSoFar`."""
        is_of_live = self._live in (None, self._stream_of(response))
        return None if is_of_live else self._came.told_id

    def rest(
        self,
        response: JSONObject,
        came: JSONObject | None,  # noqa: ARG002
    ) -> Iterator[JSONObject]:
        """Yield the remaining events; see :class:`~strictreply.wires._wire.SentSoFar`."""
        for event in self._events(response):
            self._number += 1
            yield event | {"sequence_number": self._number}

    def _events(self, response: JSONObject) -> Iterator[JSONObject]:
        stream = self._stream_of(response)
        held = _Stream() if stream is None else stream
        live = self._live

        if live is None:
            yield from _Left(ResponsesAssembly(), held, response, response.get("id")).events()
        elif stream is live:
            yield from _Left(self._came, held, response, self._came.told_id).events()
        elif response.get("id") == self._came.told_id:
            # the server has sent the same response again
            again = _Stream()
            again.held = [event for event in held.held if not self._is_told(event)]
            yield from _Left(self._came, again, response, self._came.told_id).events()
        else:
            yield from self._closed()
            response, items = self._behind_sent(response)
            left = _Left(ResponsesAssembly(), held, response, response["id"], items)
            left.has_begun = True
            yield from left.events(self._next_index())

    def _stream_of(self, response: JSONObject) -> _Stream | None:
        """Return the last stream of a response; None if there was none."""
        id_ = response.get("id")
        if id_ is not None:
            return next((one for one in reversed(self._streams) if id_ in one.ids), None)

        output = response.get("output")
        alike = (one for one in reversed(self._streams) if one.output == output)
        return next(alike, self._live)

    def _is_told(self, event: JSONObject) -> bool:
        """Return whether an event is about something that the caller already has."""
        label = label_in({"index": event.get("output_index")})
        about = None if label is None else self._came.at(label)
        is_lifecycle = "response" in event and not _is_end(event)
        return is_lifecycle or about is not None

    def _behind_sent(self, response: JSONObject) -> tuple[JSONObject, list[JSONObject]]:
        """Return a later response under the id that the caller has, and its remaining items.

        If the caller has a text, the items sent with it are part of the response. The next request
        accepts a thought only before its result, so a thought is left out if its result is.
        """
        behind = list(response["output"])
        around = self._came.around
        named = response | {"id": around.get("id"), "created_at": around.get("created_at")}
        if not self.text:
            return named, behind

        came: list[JSONObject] = self._came.response(is_whole=False)["output"]
        closed = [_completed(item) for item in _led_on(came)]
        if any(map(is_call, behind)):
            behind = _without_messages(behind)

        return named | {"output": [*closed, *behind]}, behind

    def _closed(self) -> Iterator[JSONObject]:
        """Yield the ends of the started items, of a reply that another one replaces."""
        for held in self._came.items:
            if held.is_done:
                continue

            item = held.whole()
            is_message = held.kind == "message"
            if "status" in item:
                item = item | {"status": "completed" if is_message else "incomplete"}

            yield from _Writer(held).events(item, held.index)

    def _next_index(self) -> int:
        return max((held.index for held in self._came.items), default=-1) + 1


def _completed(item: JSONObject) -> JSONObject:
    return item | {"status": "completed"} if kind_of(item) == "message" else item


def _led_on(items: list[JSONObject]) -> list[JSONObject]:
    """Return items without the thoughts at their end, which have no result."""
    count = len(items)
    while count and kind_of(items[count - 1]) == "reasoning":
        count -= 1

    return items[:count]


def _without_messages(items: list[JSONObject]) -> list[JSONObject]:
    """Return items without the messages, and without the thoughts that led to them."""
    kept: list[JSONObject] = []
    for item in items:
        if kind_of(item) == "message":
            kept = _led_on(kept)
        else:
            kept.append(item)

    return kept


class _Stream:
    """The events that are held of one stream, and what they say about its response.

    ``is_cut`` says that there were too many pieces to hold them all.
    """

    def __init__(self) -> None:
        self.held: list[JSONObject] = []
        self.is_cut = False
        self.ids: list[JSON] = []
        self.output: JSON = None

    def hold(self, event: JSONObject) -> None:
        """Record an event that waits."""
        if len(self.held) >= _MOST_HELD and event.get("type") in _PIECES:
            self.is_cut = True
            return

        self.held.append(event)
        self._note(event)

    def release(self, event: JSON) -> None:
        """Record an event that is passed on, possibly after waiting."""
        if self.held:
            self.held = [one for one in self.held if one is not event]

        self._note(event)

    def _note(self, event: JSON) -> None:
        response: Any = peek(event, "response")
        if isinstance(response, dict):
            id_ = response.get("id")
            self.ids += [id_] if id_ is not None and id_ not in self.ids else []
            self.output = response.get("output")


class _Left:
    """The remainder of one response, from the held events of its stream.

    ``assembly`` has what was passed on of the stream, ``id_`` is the id that the caller has,
    ``items`` are the items of the response that may remain; None for all.
    """

    def __init__(
        self,
        assembly: ResponsesAssembly,
        stream: _Stream,
        response: JSONObject,
        id_: JSON,
        items: list[JSONObject] | None = None,
    ) -> None:
        self._response = response | {"id": id_} if "id" in response or id_ else response
        self.has_begun = bool(assembly.items or assembly.around)
        self._writers = {one.place: _Writer(one) for one in assembly.items}
        self._sent = frozenset(self._writers)

        self._events: list[tuple[JSONObject, Item | None]] = []
        self._ids: dict[int, list[tuple[str, JSON]]] = {}
        self._end: JSONObject = {}
        for event in stream.held:
            assembly.add(event)
            if assembly.is_done:
                self._end = event
            elif not assembly.is_ignored:
                self._events.append((assembly.passed or event, assembly.current))
                self._note_ids(*self._events[-1])

        self._assembly = assembly
        self._is_plain = not stream.is_cut and _SAY_NOTHING.issuperset(assembly.lenient)
        self._left = list(response["output"] if items is None else items)
        self._items = self._matched()

    def _note_ids(self, event: JSONObject, held: Item | None) -> None:
        """Record the ids of a call in an event; each must be that of the accepted call."""
        if held is None or held.kind not in WRITTEN:
            return

        item = event.get("item")
        said = [("id", event.get("item_id"))]
        if isinstance(item, dict):
            said = [(name, item.get(name)) for name in ("call_id", "id")]

        noted = self._ids.setdefault(held.place, [])
        noted += [one for one in said if one not in noted]

    def _matched(self) -> dict[int, JSONObject]:
        """Return the item of the response for each item of the stream, by its position."""
        matched: dict[int, JSONObject] = {}
        unmatched = list(self._left)
        for is_same in (_has_same_id, _has_same_kind):
            for held in self._assembly.items:
                found = next((item for item in unmatched if is_same(held, item)), None)
                if held.place not in matched and found is not None:
                    matched[held.place] = found
                    unmatched = [item for item in unmatched if item is not found]

        self._unmatched = unmatched
        return matched

    def events(self, first: int = 0) -> Iterator[JSONObject]:
        """Yield the events; ``first`` is the next index after what the caller already has."""
        response = self._response
        if not self.has_begun and not any(map(_is_created, self._events)):
            yield from _beginning(response)

        for event, held in self._events:
            yield from self._event(event, held, first)

        for held in self._assembly.items:
            if held.is_judged:
                yield from self._written(held, first)

        used = {held.index + first for held in self._assembly.items}
        for at, item in enumerate(self._left):
            if any(item is one for one in self._unmatched):
                index = at + first
                if index in used:
                    index = max(used) + 1

                used.add(index)
                yield from _Writer(None).events(item, index)

        # a status that the API does not have becomes that of an accepted reply
        status = response.get("status")
        end = status if status in _BAD_ENDS else "completed"
        yield self._end | {"type": f"response.{end}", "response": response}

    def _event(self, event: JSONObject, held: Item | None, first: int) -> Iterator[JSONObject]:
        if "response" in event and str(event.get("type")).removeprefix("response.") in LIFECYCLE:
            if not self.has_begun:
                named = {"id": self._response.get("id")} if "id" in self._response else {}
                yield event | {"response": event["response"] | named}
        elif held is None:
            # a part of an item that was not announced is written anew with the item
            if not str(event.get("type")).startswith("response.content_part."):
                yield event
        elif held.is_judged and not self._is_as_it_came(held):
            yield from self._written(held, first)
        elif held.place in self._items or not held.is_judged:
            shift = {"output_index": event["output_index"] + first} if first else {}
            yield event | shift

    def _is_as_it_came(self, held: Item) -> bool:
        """Return whether the events of an item are all that the API sends of the accepted item."""
        item = self._items.get(held.place)
        if item is None or kind_of(item) not in ("message", *WRITTEN):
            return True  # it is left out, or its content is not judged

        wanted = _ALL_OF_TEXT
        if held.kind in WRITTEN:
            event = f"{held.kind}_{WRITTEN[held.kind]}"
            wanted = frozenset(
                {"output_item.added", f"{event}.delta", f"{event}.done", "output_item.done"}
            )
            if any(item.get(name) != id_ for name, id_ in self._ids.get(held.place, ())):
                return False
        elif not held.whole_text:
            wanted = frozenset({"output_item.added", "output_item.done"})

        return self._is_plain and wanted <= held.seen and held.is_done and agrees(held, item)

    def _written(self, held: Item, first: int) -> Iterator[JSONObject]:
        """Yield our own events of an item, once, after what was passed on of it."""
        item = self._items.get(held.place)
        if item is None or self._is_as_it_came(held):
            return

        del self._items[held.place]
        sent = self._writers.get(held.place) if held.place in self._sent else None
        yield from (sent or _Writer(None)).events(item, held.index + first)


class _Writer:
    """Writes the remaining events of one item; ``sent`` is what was passed on of it."""

    def __init__(self, sent: Item | None) -> None:
        self._is_added = sent is not None
        self._is_done = sent is not None and sent.is_done
        self._id = None if sent is None else sent.id
        self._texts = {} if sent is None else {at: sent.text(at) for at in sent.texts}
        self._parts = set[int]() if sent is None else set(sent.parts)
        self._ended = set[int]() if sent is None else set(sent.ended)

    def events(self, item: JSONObject, index: int) -> Iterator[JSONObject]:
        """Yield the remaining events of an item under an index."""
        if self._is_done:
            return
        if self._id is not None:
            item = item | {"id": self._id}

        kind = kind_of(item)
        if not self._is_added:
            begun = item | _BEGUN.get(kind, {})
            if item.get("status"):
                begun["status"] = "in_progress"

            yield {"type": "response.output_item.added", "output_index": index, "item": begun}

        place = {"output_index": index, "item_id": item.get("id")}
        if kind == "message":
            for at, part in enumerate(_parts_in(item, "content")):
                yield from self._part_events(place | {"content_index": at}, part)
        elif kind == "reasoning" and not self._is_added:
            for at, part in enumerate(_parts_in(item, "summary")):
                yield from _summary_events(place | {"summary_index": at}, part)
        elif kind in WRITTEN:
            yield from _written_events(place, item, kind, WRITTEN[kind])

        yield {"type": "response.output_item.done", "output_index": index, "item": item}

    def _part_events(self, place: JSONObject, part: JSONObject) -> Iterator[JSONObject]:
        at = place["content_index"]
        if at in self._ended:
            return

        if at not in self._parts:
            begun = part
            if "text" in part:
                begun = part | {"text": "", "annotations": []}

            yield {"type": "response.content_part.added", **place, "part": begun}

        written = part.get("text")
        if isinstance(written, str):
            left = written[len(self._texts.get(at, "")) :]
            if left:
                yield {"type": "response.output_text.delta", **place, "delta": left, "logprobs": []}

            done = {"text": written, "logprobs": part.get("logprobs") or []}
            yield {"type": "response.output_text.done", **place, **done}

        yield {"type": "response.content_part.done", **place, "part": part}


def _beginning(response: JSONObject) -> Iterator[JSONObject]:
    begun = response | {"status": "in_progress", "output": [], "usage": None}
    if "completed_at" in response:
        begun["completed_at"] = None

    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}


def _is_end(event: JSONObject) -> bool:
    return str(event.get("type")).removeprefix("response.") in (*ENDS, "done")


def _is_created(told: tuple[JSONObject, Item | None]) -> bool:
    return told[0].get("type") == "response.created"


def _has_same_id(held: Item, item: JSONObject) -> bool:
    """Return whether an item of the response has the id of one of the stream, or of its call."""
    if kind_of(item) != held.kind:
        return False

    own = held.item
    names = ("call_id", "id")
    return any(own.get(name) is not None and own[name] == item.get(name) for name in names)


def _has_same_kind(held: Item, item: JSONObject) -> bool:
    return kind_of(item) == held.kind


def _parts_in(item: JSONObject, member: str) -> list[JSONObject]:
    """Return the parts of a member that are objects; a server may have written anything there."""
    parts = item.get(member)
    if not isinstance(parts, list):
        return []

    return [part for part in parts if isinstance(part, dict)]


def _written_events(
    place: JSONObject, item: JSONObject, kind: str, member: str
) -> Iterator[JSONObject]:
    event = f"response.{kind}_{member}"
    yield {"type": f"{event}.delta", **place, "delta": item[member]}

    named = {"name": item["name"]} if kind == "function_call" and "name" in item else {}
    yield {"type": f"{event}.done", **place, member: item[member], **named}


def _summary_events(place: JSONObject, part: JSONObject) -> Iterator[JSONObject]:
    yield {"type": "response.reasoning_summary_part.added", **place, "part": part | {"text": ""}}
    yield {"type": "response.reasoning_summary_text.delta", **place, "delta": part.get("text", "")}
    yield {"type": "response.reasoning_summary_text.done", **place, "text": part.get("text", "")}
    yield {"type": "response.reasoning_summary_part.done", **place, "part": part}
