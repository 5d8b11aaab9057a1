"""A streamed response: its events are put together into the response that they make.

The terminal event holds the whole response, and is the authority. The events before it must not
contradict it: the text that they showed is its text, and the arguments that they streamed are those
of its calls, call by call. Where its output is empty, the items are what the events made of them.

- An item is found by its ``output_index``, else by its id, else by the order in which items were
  added. Ids need not agree between events.
- The parts of one text follow each other as they come, whatever their ``content_index``.
- What repeats an item or a text says nothing, and numbers of events need not count.

What the API itself does not send is a row of
:data:`~strictreply.wires._dialects.RESPONSE_DIALECTS`; a strict reading refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from strictreply.values._issues import Code, quote
from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._chat_calls import label_in
from strictreply.wires._chat_stream import BROKEN_OFF
from strictreply.wires._opening import Assembly, peek
from strictreply.wires._responses_requests import text_of

WRITTEN: Mapping[str, str] = {"function_call": "arguments", "custom_tool_call": "input"}
"""The member of a call's item that holds what the model wrote."""

_OF_CALLS = ("response.function_call_arguments.", "response.custom_tool_call_input.")
_SPOKEN = ("message", *WRITTEN)
_IDENTITY = ("type", "id", "call_id", "name")


@dataclass(slots=True)
class _Item:
    """One item as it comes.

    ``item`` is as it was said last; ``texts`` are the pieces of its texts by their part,
    ``written`` those of a call. ``call`` is the place of a call among the calls, None of anything
    else. ``is_announced``: it was added by an event of its own. ``is_written``: all of what a call
    holds has come. ``disagrees``: a later word on it was another.
    """

    item: JSONObject
    call: int | None = None
    texts: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    written: list[str] = field(default_factory=list[str])
    is_announced: bool = True
    is_written: bool = False
    is_done: bool = False
    disagrees: bool = False

    @property
    def kind(self) -> str:
        """The type of the item."""
        return str(self.item.get("type"))

    @property
    def is_answer(self) -> bool:
        """Whether its text answers: commentary does not."""
        return self.kind == "message" and self.item.get("phase") in (None, "final_answer")

    @property
    def whole_text(self) -> str:
        """All text that came of it."""
        return "".join(map("".join, self.texts.values()))

    @property
    def whole_written(self) -> str:
        """All that came of what a call holds."""
        return "".join(self.written)

    def text(self, index: int) -> str:
        """Return the text of one part."""
        return "".join(self.texts.get(index, ()))

    def whole(self) -> JSONObject:
        """Return the item as far as it came."""
        if self.is_done or self.kind not in _SPOKEN:
            return self.item
        if self.kind in WRITTEN:
            written = {WRITTEN[self.kind]: self.whole_written, "status": "in_progress"}
            return self.item | written

        parts: list[JSON] = [
            {"type": "output_text", "text": self.text(index), "annotations": []}
            for index in sorted(self.texts)
        ]
        return self.item | {
            "content": parts or self.item.get("content") or [],
            "status": "in_progress",
        }


class ResponsesAssembly(Assembly):
    """The events of one stream so far, put together."""

    def __init__(self, names: Collection[str] = (), *, strict: bool = False) -> None:
        super().__init__(names, strict=strict)
        self.items: list[_Item] = []
        self.around: JSONObject = {}
        self._places: dict[int, int] = {}
        self._calls = 0
        self._is_text = True  # as long as nothing but text came
        self._counts = False
        self._last: int | None = None

    def at(self, index: int) -> _Item | None:
        """Return the item under an index, None when there is none."""
        place = self._places.get(index)
        return None if place is None else self.items[place]

    def add(self, chunk: JSON) -> None:
        """Take one event."""
        self.delta = {}
        self.passed = None
        self.is_ignored = False
        kind = chunk.get("type") if isinstance(chunk, dict) else None
        if not isinstance(chunk, dict) or not (isinstance(kind, str) or chunk.get("error")):
            self._add_untyped(chunk)
        elif self._is_in_order(chunk):
            self._add_typed(str(kind), chunk)

        self.is_piece = kind == "response.output_text.delta" and self.passed is None
        self.is_text_alone = self._is_text and not self.is_over

    def _add_untyped(self, event: JSON) -> None:
        if isinstance(event, dict) and self.reads("event_without_type"):
            self.is_ignored = True
        else:
            self._refuse("an event with its type", event)

    def _add_typed(self, kind: str, event: JSONObject) -> None:
        handle = self._handlers.get(kind.removeprefix("response."))
        if kind == "error" or (event.get("error") and not event.get("type")):
            told = {name: event[name] for name in event if name != "sequence_number"}
            self.around = self.around | {"error": event.get("error") or told}
            self.is_over = True
        elif handle is not None:
            handle(self, event)

        self._is_text &= not kind.startswith(_OF_CALLS)

    def _is_in_order(self, event: JSONObject) -> bool:
        """Check the number of an event; a server that always sends the same one does not count."""
        number = event.get("sequence_number")
        last = self._last
        if not isinstance(number, int) or isinstance(number, bool):
            return True

        self._counts |= last is not None and number != last
        if last is not None and self._counts and number <= last:
            if self.reads("sequence_number"):
                return True

            self._refuse(f"a sequence_number above {last}", number)
            return False

        self._last = number
        return True

    def _refuse(self, expected: str, found: object, at: str = "") -> None:
        self.refuse(Code.ENVELOPE_MALFORMED, at, expected=expected, found=quote(found))

    def _start(self, event: JSONObject) -> None:
        response = event.get("response")
        if not isinstance(response, dict):
            if self.reads("event_without_response"):
                self.is_ignored = True
            else:
                self._refuse("an event with its response", event)
            return

        known = self.around.get("id", response.get("id"))
        if known != response.get("id") and not self.reads("id_changes"):
            self._refuse("one response with one id", response.get("id"))
            return

        self.around = self.around | response

    def _added(self, event: JSONObject) -> None:
        item = event.get("item")
        if item is None:
            return

        label = label_in({"index": event.get("output_index")})
        is_counted = isinstance(event.get("output_index"), int)
        is_plain = isinstance(item, dict) and label is not None and is_counted
        if not isinstance(item, dict):
            self._refuse("an item under an index of its own", event)
            return
        if (not is_plain or label in self._places) and not self.reads("output_index"):
            self._refuse("an item under an index of its own", event)
            return

        self._open(item, label)

    def _open(self, item: JSONObject, label: int | None, *, is_announced: bool = True) -> _Item:
        held = _Item(item, is_announced=is_announced)
        place = len(self.items)
        self.items.append(held)
        self._places[place if label is None else label] = place

        if held.kind in WRITTEN:
            self._is_text = False
            held.call = self._calls
            self._calls = self._calls + 1
            begun = item.get(WRITTEN[held.kind])
            if isinstance(begun, str) and begun:
                held.written.append(begun)
            if held.kind == "function_call":
                self._tell_call(held, held.whole_written, item.get("name"))

        return held

    def _tell_call(self, held: _Item, arguments: str, name: object = None) -> None:
        function: JSONObject = {"arguments": arguments}
        if isinstance(name, str):
            function["name"] = name

        self.delta = {"tool_calls": [{"index": held.call, "function": function}]}
        self.size += len(arguments)

    def _found(self, event: JSONObject, kinds: Collection[str]) -> _Item | None:
        """Return the item of an event; None when there is none of these kinds, or it is refused."""
        label = label_in({"index": event.get("output_index")})
        id_ = event.get("item_id")
        held = None if label is None else self.at(label)
        is_found = held is not None and isinstance(event.get("output_index"), int)
        own = None if held is None else held.item.get("id")
        agrees = own is None or event.get("item_id", own) in (own, None)
        if is_found and held is not None and agrees and not held.is_done:
            return held

        if is_found and not agrees:
            row = "item_id_changes"
        elif is_found or label is not None:
            row = "item_unannounced"
        else:
            row = "output_index"

        if not self.reads(row):
            self._refuse("an event of an item that was added and is not done", event)
            return None

        if held is not None:
            return held

        return self._without_label(label, id_, kinds)

    def _without_label(self, label: int | None, id_: JSON, kinds: Collection[str]) -> _Item:
        """Return the item with an id, else the first that is not complete, else a new one."""
        fitting = [one for one in self.items if one.kind in kinds]
        for one in fitting:
            if id_ is not None and one.item.get("id") == id_:
                return one

        if label is None:
            for one in fitting:
                if not (one.is_written or one.is_done):
                    return one

        kind = next(iter(kinds))
        self._is_text = False  # it was not announced, so that its text cannot be passed on
        return self._open({"type": kind, "id": id_}, label, is_announced=False)

    def _text_delta(self, event: JSONObject) -> None:
        held = self._found(event, ("message",))
        if held is None:
            return

        piece = event.get("delta")
        index = event.get("content_index", 0)
        is_odd = not isinstance(index, int) or isinstance(index, bool)
        if not isinstance(piece, str) or held.kind != "message":
            self._refuse("a piece of a message's text", event)
            return
        if is_odd and not self.reads("content_index"):
            self._refuse("a piece of a message's text", event)
            return

        part = len(held.texts) if is_odd and not held.texts else index
        if is_odd:
            part = max(held.texts, default=0)

        held.texts.setdefault(part, []).append(piece)
        self.size += len(piece)
        self.delta = {"content": piece} if held.is_answer else {}
        place = {"output_index": self.items.index(held), "item_id": held.item.get("id")}
        if place["item_id"] is not None and {**event, **place} != event:
            self.passed = event | place | {"content_index": part}

    def _text_done(self, event: JSONObject) -> None:
        held = self._found(event, ("message",))
        if held is None:
            return

        text = event.get("text")
        index = event.get("content_index", 0)
        is_known = isinstance(index, int) and index in held.texts
        is_repeated = bool(held.texts) and not is_known and text == held.whole_text
        if is_repeated and self.reads("content_index"):
            return

        if isinstance(text, str) and not is_known:
            self._text_delta(event | {"delta": text})  # some servers send no deltas
        elif not is_known or held.text(index) != text:
            self._disagree(held, "the text that its deltas were", text)

    def _disagree(self, held: _Item, expected: str, found: object) -> None:
        """Take a word that is another than the events before: the terminal event decides."""
        if self.reads("done_disagrees"):
            held.disagrees = True
        else:
            self._refuse(expected, found)

    def _refusal_delta(self, event: JSONObject) -> None:
        self._is_text = False  # it ends the call, once all of it is there
        self.size += len(str(event.get("delta") or ""))

    def _written_delta(self, event: JSONObject) -> None:
        held = self._found(event, tuple(WRITTEN))
        if held is not None:
            self._write(held, event)

    def _write(self, held: _Item, event: JSONObject) -> None:
        piece = event.get("delta")
        if not isinstance(piece, str) or held.kind not in WRITTEN:
            self._refuse("a piece of what a call holds", event)
            return

        held.written.append(piece)
        if held.kind == "function_call":
            self._tell_call(held, piece)
        else:
            self.size += len(piece)

    def _written_done(self, event: JSONObject) -> None:
        held = self._found(event, tuple(WRITTEN))
        if held is None:
            return

        held.is_written = True
        text = event.get("arguments", event.get("input"))
        if isinstance(text, str) and not held.written:
            self._write(held, event | {"delta": text})
        elif held.whole_written != text:
            self._disagree(held, "what its deltas were", text)

    def _item_done(self, event: JSONObject) -> None:
        item = event.get("item")
        held = self._of_item(event, item) if isinstance(item, dict) else None
        if held is None or not isinstance(item, dict):
            if self.fault is None:
                self._refuse("the item that was added, as its events said it", event)
            return

        if held.is_done or not _agrees(held, item):
            self._disagree(held, "the item that was added, as its events said it", event)

        if not held.texts and held.is_answer:
            text = text_of([item])
            if text:
                self.size += len(text)
                self.delta = {"content": text}

        held.item = _with_streamed(held, item)
        held.is_done = True

    def _of_item(self, event: JSONObject, item: JSONObject) -> _Item | None:
        label = label_in({"index": event.get("output_index")})
        held = None if label is None else self.at(label)
        if held is not None:
            return held

        if label is None:
            for one in self.items:
                if not one.is_done and one.kind == item.get("type"):
                    return one if self.reads("output_index") else None

        self._added(event)  # it came whole
        return None if self.fault is not None else self.items[-1]

    def _end(self, event: JSONObject) -> None:
        self._start(event)
        if self.fault is not None or self.is_ignored:
            return

        response: Any = event["response"]
        self.around = dict(response)
        self.is_done = self.is_over = True
        output = self.around.get("output")
        if not output and self.items:
            self._end_without_output()
        elif self.items and event.get("type") == "response.completed":
            self._end_with(output)

    def _end_without_output(self) -> None:
        self.around["output"] = [held.whole() for held in self.items]
        if any(held.disagrees for held in self.items):
            self._refuse("the items that its events were", self.around["output"], "/output")

    def _end_with(self, output: Any) -> None:
        """Hold the terminal output to what the events showed and streamed."""
        if self._is_same(output):
            return
        if self._is_alike(output) and self.reads("events_disagree"):
            return

        self._refuse("the items that its events were", output, "/output")

    def _is_same(self, output: Any) -> bool:
        last = [item for item in output if _is_spoken(item)] if isinstance(output, list) else []
        came = [held for held in self.items if held.kind in _SPOKEN]
        if len(last) != len(came) or any(held.disagrees for held in came):
            return False

        return all(_agrees(held, item) for held, item in zip(came, last, strict=True))

    def _is_alike(self, output: Any) -> bool:
        """Return whether an output has the text and the calls that its events had."""
        if not isinstance(output, list):
            return False

        shown = "".join(held.whole_text for held in self.items if held.is_answer)
        if shown and shown not in (text_of(output), text_of(output, beside_calls=True)):
            return False

        calls = [held for held in self.items if held.kind in WRITTEN]
        last = [item for item in output if peek(item, "type") in tuple(WRITTEN)]
        if calls and len(calls) != len(last):
            return False

        return all(_is_same_call(held, item) for held, item in zip(calls, last, strict=False))

    def response(self, *, is_whole: bool = True) -> JSONObject:
        """Return the response that the events make.

        Without its end, or not ``is_whole``, it is one that broke off.
        """
        if self.is_done and is_whole:
            return {"object": "response", **self.around}

        output: list[JSON] = [held.whole() for held in self.items]
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

    The others say nothing of the reply.
    """


def _is_spoken(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in _SPOKEN


def _agrees(held: _Item, item: JSONObject) -> bool:
    """Return whether a later word on an item says the same as what came of it."""
    own = held.item
    if any(item.get(name) != own[name] for name in _IDENTITY if own.get(name)):
        return False

    if held.kind in WRITTEN:
        member = WRITTEN[held.kind]
        came = own.get(member) if held.is_done else held.whole_written
        return not came or item.get(member) == came

    if held.kind != "message":
        return True
    if held.is_done:
        return text_of([item | {"phase": None}]) == text_of([own | {"phase": None}])

    content = item.get("content")
    parts = content if isinstance(content, list) else []
    texts = {index: peek(part, "text") for index, part in enumerate(parts)}
    return all(texts.get(index, ...) == held.text(index) for index in held.texts)


def _is_same_call(held: _Item, item: JSONObject) -> bool:
    """Return whether a call of the output is the one that its events streamed."""
    name = held.item.get("name")
    if name and item.get("name") != name:
        return False

    came = held.whole_written
    return not came or item.get(WRITTEN.get(str(item.get("type")), "")) == came


def _with_streamed(held: _Item, item: JSONObject) -> JSONObject:
    """Return the last word on an item, with what came of it where that word has nothing."""
    member = WRITTEN.get(held.kind)
    if member is not None and held.written and not item.get(member):
        return item | {member: held.whole_written}

    return item
