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
from strictreply.wires._responses_requests import parts_in, text_of

WRITTEN: Mapping[str, str] = {"function_call": "arguments", "custom_tool_call": "input"}
"""The member of a call's item that holds what the model wrote."""

_OF_CALLS = ("response.function_call_arguments.", "response.custom_tool_call_input.")
_SPOKEN = ("message", *WRITTEN)
_IDENTITY = ("type", "id", "call_id", "name")


@dataclass(slots=True, eq=False)
class _Item:
    """One item as it comes.

    ``item`` is as it was said last; ``texts`` are the pieces of its texts by their part,
    ``written`` those of a call. ``place`` is its place among the items, ``call`` that of a call
    among the calls, None of anything else; ``label`` is the index under which its events came.
    ``parts`` are those that were added, ``names`` and ``told`` all names of a call, and all that it
    was said to hold. ``is_written``: all of what a call holds has come. ``disagrees``: a later word
    on it was another.
    """

    item: JSONObject
    place: int
    call: int | None = None
    texts: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    written: list[str] = field(default_factory=list[str])
    label: int | None = None
    parts: set[int] = field(default_factory=set[int])
    names: list[JSON] = field(default_factory=list[JSON])
    told: list[JSON] = field(default_factory=list[JSON])
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
        self._has_refused = False
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
        if kind == "error" or (event.get("error") and not isinstance(event.get("type"), str)):
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

        known = self.around.get("id") or response.get("id")
        if known != response.get("id") and not self.reads("id_changes"):
            self._refuse("one response with one id", response.get("id"))
            return

        self.around = self.around | response

    def _added(self, event: JSONObject) -> None:
        item = event.get("item")
        if item is None:
            return

        if not isinstance(item, dict):
            self._refuse("an item under an index of its own", event)
            return

        index = event.get("output_index")
        label = label_in({"index": index})
        is_plain = label is not None and isinstance(index, int) and label not in self._places
        if not is_plain and not self.reads("output_index"):
            self._refuse("an item under an index of its own", event)
            return

        held = self._open(item, label)
        if not is_plain:
            self.passed = event | {"output_index": held.place}

    def _open(self, item: JSONObject, label: int | None) -> _Item:
        held = _Item(item, len(self.items), label=label)
        self.items.append(held)
        self._places[held.place if label is None else label] = held.place

        if held.kind in WRITTEN:
            self._is_text = False
            held.call = self._calls
            self._calls = self._calls + 1
            begun = item.get(WRITTEN[held.kind])
            _remember(held, item)
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

    def _found(self, event: JSONObject, kind: str) -> _Item | None:
        """Return the item of an event; a new one of a kind where there is none, None if refused."""
        index = event.get("output_index")
        label = label_in({"index": index})
        is_plain = label is not None and isinstance(index, int)
        held = None if label is None else self.at(label)

        id_ = event.get("item_id")
        own = None if held is None else held.item.get("id")
        agrees = own is None or id_ is None or id_ == own
        if held is not None and is_plain and agrees and not held.is_done:
            return held

        if not is_plain:
            row = "output_index"
        elif not agrees:
            row = "item_id_changes"
        else:
            row = "item_unannounced"

        if not self.reads(row):
            self._refuse("an event of an item that was added and is not done", event)
            return None

        named = self._with_id(id_)
        if named is not None:
            return named
        if held is not None:
            return held

        return self._without_index(label, id_, kind)

    def _with_id(self, id_: JSON) -> _Item | None:
        if id_ is None:
            return None

        return next((held for held in self.items if held.item.get("id") == id_), None)

    def _without_index(self, label: int | None, id_: JSON, kind: str) -> _Item:
        """Return the first item of a kind that is not complete, a new one where there is none."""
        if label is None:
            for held in self.items:
                if held.kind == kind and not (held.is_written or held.is_done):
                    return held

        self._is_text = False  # it was not announced, so that its text cannot be passed on
        return self._open({"type": kind, "id": id_}, label)

    def _text_delta(self, event: JSONObject) -> None:
        held = self._found(event, "message")
        if held is None:
            return

        piece = event.get("delta")
        index = event.get("content_index", 0)
        is_odd = not isinstance(index, int) or isinstance(index, bool)
        is_counting = not is_odd and index > 0 and index not in held.parts
        if not isinstance(piece, str) or held.kind != "message":
            self._refuse("a piece of a message's text", event)
            return
        if is_odd and not self.reads("content_index"):
            self._refuse("a piece of a message's text", event)
            return

        # an index of a part that was never added counts the deltas
        is_odd |= is_counting and self.reads("content_index")
        part = max(held.parts | held.texts.keys(), default=0) if is_odd else index
        held.texts.setdefault(part, []).append(piece)
        held.disagrees |= held.is_done
        self.size += len(piece)
        self.delta = {"content": piece} if held.is_answer else {}

        is_counted = isinstance(event.get("output_index"), int)
        labels: JSONObject = {
            "output_index": event["output_index"] if is_counted else held.place,
            "item_id": held.item.get("id") or event.get("item_id"),
        }
        as_sent = event | labels
        if as_sent != event or is_odd:
            self.passed = as_sent | {"content_index": part}

    def _text_done(self, event: JSONObject) -> None:
        held = self._found(event, "message")
        if held is None:
            return

        text = event.get("text")
        index = event.get("content_index", 0)
        is_known = isinstance(index, int) and index in held.texts
        is_repeated = bool(held.texts) and not is_known and text == held.whole_text
        if is_repeated and self.reads("content_index"):
            return

        if isinstance(text, str) and not is_known:
            # some servers send no deltas: it is passed on as one
            self._text_delta(event | {"delta": text})
            if self.passed is not None:
                passed = {name: value for name, value in self.passed.items() if name != "text"}
                self.passed = passed | {"type": "response.output_text.delta"}
        elif not is_known or held.text(index) != text:
            self._disagree(held, "the text that its deltas were", text)

    def _disagree(self, held: _Item, expected: str, found: object) -> None:
        """Take a word that is another than the events before: the terminal event decides."""
        if self.reads("done_disagrees"):
            held.disagrees = True
        else:
            self._refuse(expected, found)

    def _part_added(self, event: JSONObject) -> None:
        label = label_in({"index": event.get("output_index")})
        part = label_in({"index": event.get("content_index")})
        held = None if label is None else self.at(label)
        if held is not None and part is not None:
            held.parts.add(part)

    def _refusal_delta(self, event: JSONObject) -> None:
        self._has_refused |= bool(event.get("delta"))
        # it is no text of an answer; the whole of it is judged at the end
        self._is_text = False
        self.size += len(str(event.get("delta") or ""))

    def _written_delta(self, event: JSONObject) -> None:
        held = self._found(event, _kind_of_call(event))
        if held is not None:
            self._write(held, event)

    def _write(self, held: _Item, event: JSONObject) -> None:
        piece = event.get("delta")
        if not isinstance(piece, str) or held.kind not in WRITTEN:
            self._refuse("a piece of what a call holds", event)
            return

        held.written.append(piece)
        held.disagrees |= held.is_done
        if held.kind == "function_call":
            self._tell_call(held, piece)
        else:
            self.size += len(piece)

    def _written_done(self, event: JSONObject) -> None:
        held = self._found(event, _kind_of_call(event))
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

        is_same = _agrees(held, item)
        if held.is_done and is_same and self.reads("done_disagrees"):
            return  # it comes again
        if held.is_done or not is_same:
            self._disagree(held, "the item that was added, as its events said it", event)

        if not held.texts and held.is_answer:
            text = text_of([item])
            if text:
                held.texts[0] = [text]
                self.size += len(text)
                self.delta = {"content": text}

        self._has_refused |= next(parts_in(item, ("refusal",)), None) is not None
        _remember(held, item)
        held.item = _with_streamed(held, item)
        held.is_done = True

    def _of_item(self, event: JSONObject, item: JSONObject) -> _Item | None:
        label = label_in({"index": event.get("output_index")})
        held = None if label is None else self.at(label)
        if held is not None:
            return held

        if label is None:
            named = self._with_id(item.get("id"))
            alike = [one for one in self.items if one.kind == item.get("type") and not one.is_done]
            if named is not None or alike:
                return (named or alike[0]) if self.reads("output_index") else None

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
        elif self.items and "completed" in (self.around.get("status"), _ending_of(event)):
            self._end_with(output)

    def _end_without_output(self) -> None:
        self.around["output"] = [held.whole() for held in self.items]
        if any(held.disagrees for held in self.items):
            self._refuse("the items that its events were", self.around["output"], "/output")

    def _end_with(self, output: Any) -> None:
        """Hold the terminal output to what the events showed and streamed."""
        items = output if isinstance(output, list) else []
        refusals = [text for item in items for text in parts_in(item, ("refusal",))]
        if self._has_refused and not refusals:
            self._refuse("the items that its events were", output, "/output")
            return

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
        "content_part.added": _part_added,
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


def _kind_of_call(event: JSONObject) -> str:
    """Return the kind of call that an event of its arguments or its input is about."""
    is_custom = str(event.get("type")).startswith("response.custom_tool_call_input.")
    return "custom_tool_call" if is_custom else "function_call"


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
        text = text_of([item | {"phase": None}])
        has_come = not held.texts or held.whole_text == (text or "")
        return has_come and text == text_of([own | {"phase": None}])

    content = item.get("content")
    parts = content if isinstance(content, list) else []
    texts = {index: peek(part, "text") for index, part in enumerate(parts)}
    return all(texts.get(index) == held.text(index) for index in held.texts)


def _is_same_call(held: _Item, item: JSONObject) -> bool:
    """Return whether a call of the output is the one that its events streamed."""
    if any(item.get("name") != name for name in held.names):
        return False

    last = item.get(WRITTEN[item["type"]])
    came = held.whole_written
    return came in ("", last) and all(last == said for said in held.told)


def _remember(held: _Item, item: JSONObject) -> None:
    """Keep the name of a call, and all that it is said to hold, to compare them at the end."""
    if item.get("name"):
        held.names.append(item["name"])

    said = item.get(WRITTEN.get(held.kind, ""))
    if said not in (None, "", {}, "{}"):
        held.told.append(said)


def _ending_of(event: JSONObject) -> str:
    return str(event.get("type")).removeprefix("response.")


def _with_streamed(held: _Item, item: JSONObject) -> JSONObject:
    """Return the last word on an item, with what came of it where that word has nothing."""
    member = WRITTEN.get(held.kind)
    if member is not None and held.written and not item.get(member):
        return item | {member: held.whole_written}

    return item
