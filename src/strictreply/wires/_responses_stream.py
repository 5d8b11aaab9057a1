"""A streamed response: its events are put together into a response, or taken apart.

A text that comes again in a later event must agree with what came before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from strictreply.values._issues import Code, quote
from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._chat_stream import BROKEN_OFF
from strictreply.wires._opening import Assembly, peek
from strictreply.wires._responses_requests import CALLS, text_of

_WRITTEN = {"function_call": "arguments", "custom_tool_call": "input"}
_OF_CALLS = ("response.function_call_arguments.", "response.custom_tool_call_input.")
_BEGUN: Mapping[str, JSONObject] = {
    "message": {"content": []},
    "reasoning": {"summary": []},
    **{call: {member: ""} for call, member in _WRITTEN.items()},
}
"""What an item holds when it is added, before its texts."""


@dataclass(slots=True)
class _Item:
    """One item as it comes.

    It holds what was said when it was added, and the pieces of its texts by their part.
    """

    item: JSONObject
    call: int | None = None
    texts: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    written: list[str] = field(default_factory=list[str])
    is_done: bool = False

    @property
    def is_answer(self) -> bool:
        """Whether its text answers: commentary does not."""
        if self.item.get("type") != "message":
            return False

        return self.item.get("phase") in {None, "final_answer"}

    def text(self, index: int) -> str:
        return "".join(self.texts.get(index, ()))

    def whole(self) -> JSONObject:
        """Return the item as far as it came."""
        kind = str(self.item.get("type"))
        if self.is_done or kind not in {"message", *_WRITTEN}:
            return self.item
        if kind in _WRITTEN:
            return self.item | {_WRITTEN[kind]: "".join(self.written), "status": "in_progress"}

        parts = [
            {"type": "output_text", "text": self.text(index), "annotations": []}
            for index in sorted(self.texts)
        ]
        content = parts or self.item.get("content") or []
        return self.item | {"content": content, "status": "in_progress"}


class ResponsesAssembly(Assembly):
    """The events of one stream so far."""

    def __init__(self, names: Collection[str] = (), *, strict: bool = False) -> None:
        super().__init__(names, strict=strict)
        self._counts = False
        self._calls = 0
        self._is_text = True  # as long as nothing but text came
        self.items: dict[int, _Item] = {}
        self.around: JSONObject = {}
        self._last: int | None = None

    def add(self, chunk: JSON) -> None:
        """Take one event."""
        self.delta = {}
        kind = chunk.get("type") if isinstance(chunk, dict) else None
        if not isinstance(chunk, dict) or not (isinstance(kind, str) or chunk.get("error")):
            self._refuse("an event with its type", chunk)
        elif self._is_in_order(chunk):
            handle = self._handlers.get(str(kind).removeprefix("response."))
            if kind == "error" or (chunk.get("error") and not kind):
                told = {name: chunk[name] for name in chunk if name != "sequence_number"}
                self.around = self.around | {"error": chunk.get("error") or told}
                self.is_over = True
            elif handle is not None:
                handle(self, chunk)

            self._is_text &= not str(kind).startswith(_OF_CALLS)

        self.is_piece = kind == "response.output_text.delta"
        self.is_text_alone = self._is_text and not self.is_over

    def _is_in_order(self, event: JSONObject) -> bool:
        """Check the number of an event; a server that always sends the same one does not count."""
        number = event.get("sequence_number")
        if not isinstance(number, int) or isinstance(number, bool):
            return True

        last = self._last
        self._counts |= last is not None and number != last
        self._last = number

        if last is not None and self._counts and number <= last:
            self._refuse(f"a sequence_number above {last}", number)
            return False

        return True

    def _refuse(self, expected: str, found: object, at: str = "") -> None:
        self.refuse(Code.ENVELOPE_MALFORMED, at, expected=expected, found=quote(found))

    def _start(self, event: JSONObject) -> None:
        response = event.get("response")
        if not isinstance(response, dict):
            self._refuse("an event with its response", event)
        elif self.around.get("id", response.get("id")) != response.get("id"):
            self._refuse("one response with one id", response.get("id"))
        else:
            self.around = self.around | response

    def _added(self, event: JSONObject) -> None:
        index = event.get("output_index")
        item = event.get("item")
        if item is None:
            return

        is_taken = isinstance(index, int) and (index < 0 or index in self.items)
        if is_taken or not isinstance(index, int) or not isinstance(item, dict):
            self._refuse("an item under an index of its own", event)
            return

        held = _Item(item)
        self.items[index] = held
        kind = str(item.get("type"))
        if kind not in _WRITTEN:
            return

        self._is_text = False
        held.call = self._calls
        self._calls += 1

        begun = item.get(_WRITTEN[kind])
        held.written = [begun] if isinstance(begun, str) and begun else []
        if kind == "function_call":
            self._tell_call(held, begun if isinstance(begun, str) else "", item.get("name"))

    def _tell_call(self, held: _Item, arguments: str, name: object = None) -> None:
        function = {"arguments": arguments}
        if isinstance(name, str):
            function["name"] = name

        self.delta = {"tool_calls": [{"index": held.call, "function": function}]}
        self.size += len(arguments)

    def _held(self, event: JSONObject) -> _Item | None:
        index = event.get("output_index")
        held = self.items.get(index) if isinstance(index, int) else None
        own = None if held is None else held.item.get("id")
        is_other = own is not None and event.get("item_id", own) not in {own, None}
        if held is None or held.is_done or is_other:
            self._refuse("an event of an item that was added and is not done", event)
            return None

        return held

    def _text_delta(self, event: JSONObject) -> None:
        held = self._held(event)
        if held is None:
            return

        piece = event.get("delta")
        index = event.get("content_index", 0)
        is_message = held.item.get("type") == "message"
        if not is_message or not isinstance(piece, str) or not isinstance(index, int):
            self._refuse("a piece of a message's text", event)
            return

        held.texts.setdefault(index, []).append(piece)
        self.size += len(piece)
        self.delta = {"content": piece} if held.is_answer else {}

    def _text_done(self, event: JSONObject) -> None:
        held = self._held(event)
        text = event.get("text")
        index = event.get("content_index", 0)
        if held is not None and isinstance(text, str) and index not in held.texts:
            self._text_delta(event | {"delta": text})  # some servers send no deltas
        elif held is not None and held.text(index) != text:
            self._refuse("the text that its deltas were", text)

    def _refusal_delta(self, event: JSONObject) -> None:
        self._is_text = False  # it ends the call, once all of it is there
        self.size += len(str(event.get("delta") or ""))

    def _written_delta(self, event: JSONObject) -> None:
        held = self._held(event)
        if held is None:
            return

        piece = event.get("delta")
        if not isinstance(piece, str) or held.item.get("type") not in _WRITTEN:
            self._refuse("a piece of what a call holds", event)
            return

        held.written.append(piece)
        if held.item["type"] == "function_call":
            self._tell_call(held, piece)
        else:
            self.size += len(piece)

    def _written_done(self, event: JSONObject) -> None:
        held = self._held(event)
        text = event.get("arguments", event.get("input"))
        if held is not None and isinstance(text, str) and not held.written:
            self._written_delta(event | {"delta": text})
        elif held is not None and "".join(held.written) != text:
            self._refuse("what its deltas were", text)

    def _item_done(self, event: JSONObject) -> None:
        index = event.get("output_index")
        item = event.get("item")
        held = self.items.get(index) if isinstance(index, int) else None
        if held is None and isinstance(item, dict):
            self._added(event)  # it came whole
            held = self.items.get(index) if isinstance(index, int) else None

        if held is None or held.is_done or not isinstance(item, dict) or not _agrees(held, item):
            self._refuse("the item that was added, as its events said it", event)
            return

        if not held.texts and held.is_answer and (text := text_of([item])):
            self.size += len(text)
            self.delta = {"content": text}

        held.item = item
        held.is_done = True

    def _end(self, event: JSONObject) -> None:
        self._start(event)
        if self.fault is not None:
            return

        self.around = dict(event["response"])
        self.is_done = self.is_over = True

        output = self.around.get("output")
        if not output and self.items:
            self.around["output"] = [self.items[index].whole() for index in sorted(self.items)]
        elif self.items and event.get("type") == "response.completed" and not self._is_same(output):
            self._refuse("the items that its events were", output, "/output")

    def _is_same(self, output: Any) -> bool:
        last = [item for item in output if _is_spoken(item)] if isinstance(output, list) else []
        items = [self.items[index] for index in sorted(self.items)]
        came = [held for held in items if _is_spoken(held.item)]
        if len(last) != len(came):
            return False

        return all(_agrees(held, item) for held, item in zip(came, last, strict=True))

    def response(self, *, is_whole: bool = True) -> JSONObject:
        """Return the response that the events make.

        Without its end, or not ``is_whole``, it is one that broke off.
        """
        if self.is_done and is_whole:
            return {"object": "response", **self.around}

        output = [self.items[index].whole() for index in sorted(self.items)]
        return {"object": "response", **self.around, "output": output, "status": BROKEN_OFF}

    _handlers: ClassVar[Mapping[str, Callable[[Any, JSONObject], None]]] = {
        **dict.fromkeys(("created", "queued", "in_progress"), _start),
        **dict.fromkeys(("completed", "incomplete", "failed"), _end),
        "output_item.added": _added,
        "output_item.done": _item_done,
        "output_text.delta": _text_delta,
        "output_text.done": _text_done,
        "refusal.delta": _refusal_delta,
        "refusal.done": _refusal_delta,
        "function_call_arguments.delta": _written_delta,
        "function_call_arguments.done": _written_done,
        "custom_tool_call_input.delta": _written_delta,
        "custom_tool_call_input.done": _written_done,
    }
    """What takes an event, by its type behind ``response.``.

    The other types say nothing of the reply.
    """


def _is_spoken(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in {"message", *_WRITTEN}


def _agrees(held: _Item, item: JSONObject) -> bool:
    """Return whether a later word on an item says the same as what came of it."""
    own = held.item
    for name in ("type", "id", "call_id", "name"):
        if own.get(name) and item.get(name) != own[name]:
            return False

    kind = str(own.get("type"))
    if kind in _WRITTEN:
        came = own.get(_WRITTEN[kind]) if held.is_done else "".join(held.written)
        return not came or item.get(_WRITTEN[kind]) == came

    if kind != "message":
        return True
    if held.is_done:
        return text_of([item | {"phase": None}]) == text_of([own | {"phase": None}])

    content = item.get("content")
    parts = content if isinstance(content, list) else []
    texts = dict(enumerate(peek(part, "text") for part in parts))
    return all(texts.get(index, ...) == held.text(index) for index in held.texts)


class ResponsesSent:
    """How much of a response has been passed on as events.

    See :class:`~strictreply.wires._opening.SentSoFar`.
    """

    def __init__(self, _usage: bool = True) -> None:  # every stream ends with its usage
        self._texts: list[str] = []
        self._came = ResponsesAssembly()
        self._number = -1
        self._parts: set[tuple[int, int]] = set()
        self._ended: set[tuple[int, int]] = set()

    @property
    def text(self) -> str:
        """The text of the answer that was passed on."""
        return "".join(self._texts)

    def add(self, event: JSON) -> None:
        """Take an event that is passed on."""
        self._came.add(event)
        if "content" in self._came.delta:
            self._texts.append(self._came.delta["content"])

        told: Any = event
        number = told.get("sequence_number")
        self._number = number if isinstance(number, int) else self._number + 1

        at = told.get("output_index", -1), told.get("content_index", -1)
        if told.get("type") == "response.content_part.added":
            self._parts.add(at)
        if told.get("type") == "response.content_part.done":
            self._ended.add(at)

    def rest(
        self,
        response: JSONObject,
        came: JSONObject | None,  # noqa: ARG002
    ) -> Iterator[JSONObject]:
        """Yield the events that are left; see :class:`~strictreply.wires._opening.SentSoFar`."""
        for event in self._events(self._one_with_sent(response)):
            self._number += 1
            yield event | {"sequence_number": self._number}

    def _one_with_sent(self, response: JSONObject) -> JSONObject:
        """Return the response with the items that were passed on.

        Those of a later response follow them.
        """
        around = self._came.around
        if not self.text or around.get("id") == response.get("id"):
            return response

        closed: list[JSON] = []
        for item in self._came.response(is_whole=False)["output"]:
            is_message = item.get("type") == "message"
            closed.append(item | {"status": "completed"} if is_message else item)

        behind = list(response["output"])
        if any(item.get("type") in CALLS for item in behind):
            behind = [item for item in behind if item.get("type") != "message"]

        return response | {
            "id": around.get("id"),
            "created_at": around.get("created_at"),
            "output": [*closed, *behind],
        }

    def _events(self, response: JSONObject) -> Iterator[JSONObject]:
        if self._number < 0:
            begun = response | {"status": "in_progress", "output": [], "usage": None}
            if "completed_at" in response:
                begun["completed_at"] = None

            yield {"type": "response.created", "response": begun}
            yield {"type": "response.in_progress", "response": begun}

        for index, item in enumerate(response["output"]):
            yield from self._item_events(index, item)

        yield {"type": f"response.{response.get('status', 'completed')}", "response": response}

    def _item_events(self, index: int, item: JSONObject) -> Iterator[JSONObject]:
        sent = self._came.items.get(index)
        if sent is not None and sent.is_done:
            return

        kind = str(item.get("type"))
        if sent is None:
            begun = item | _BEGUN.get(kind, {})
            if item.get("status"):
                begun["status"] = "in_progress"

            yield {"type": "response.output_item.added", "output_index": index, "item": begun}

        place = {"output_index": index, "item_id": item.get("id")}
        if kind == "message":
            for at, part in enumerate(item["content"]):
                text = "" if sent is None else sent.text(at)
                yield from self._part_events(place | {"content_index": at}, part, text)
        elif kind == "reasoning":
            for at, part in enumerate(item.get("summary") or ()):
                yield from _summary_events(place | {"summary_index": at}, part)
        elif kind in _WRITTEN:
            yield from _written_events(place, item, kind, _WRITTEN[kind])

        yield {"type": "response.output_item.done", "output_index": index, "item": item}

    def _part_events(self, place: JSONObject, part: JSONObject, sent: str) -> Iterator[JSONObject]:
        at = place["output_index"], place["content_index"]
        if at in self._ended:
            return

        if at not in self._parts:
            begun = part
            if "text" in part:
                begun = part | {"text": "", "annotations": []}

            yield {"type": "response.content_part.added", **place, "part": begun}

        if "text" in part:
            left = part["text"][len(sent) :]
            if left:
                yield {"type": "response.output_text.delta", **place, "delta": left, "logprobs": []}

            done = {"text": part["text"], "logprobs": part.get("logprobs") or []}
            yield {"type": "response.output_text.done", **place, **done}

        yield {"type": "response.content_part.done", **place, "part": part}


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
