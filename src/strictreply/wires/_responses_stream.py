"""A streamed response: its events are put together into the response that they make.

The terminal event holds the whole response, and is the authority. The events before it must not
contradict it: the text that they showed is its text, and the arguments that they streamed are those
of its calls, call by call. Where its output is empty, the items are what the events made of them.

- An item is found by its ``output_index``, else by its id, else by the order in which items were
  added. Ids need not agree between events.
- The parts of one text follow each other as they come, whatever their ``content_index``.
- What repeats an item, a text or arguments says nothing, and numbers of events need not count.
- Messages that hold the same JSON are one answer.
- The terminal event does not end the reading: usage, stubs and repeats behind it say nothing, a
  further call counts, and text, another end or an error is refused.
- What nothing judges (thoughts, commentary, tools that the server runs, unknown events) is passed
  on as it came.

What the API itself does not send is a row of
:data:`~strictreply.wires._dialects.RESPONSE_DIALECTS`; a strict reading refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

from strictreply.values._issues import Code, quote
from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._chat_calls import label_in
from strictreply.wires._chat_stream import BROKEN_OFF
from strictreply.wires._declared_tools import called_name
from strictreply.wires._error_forms import error_of
from strictreply.wires._opening import Assembly, peek
from strictreply.wires._responses_behind import further_calls
from strictreply.wires._responses_items import (
    ANSWERING,
    SPOKEN,
    WITH_ID,
    WRITTEN,
    Item,
    agrees,
    is_as_told,
    is_json,
    is_late_for,
    is_same_call,
    is_same_item,
    is_spoken,
    kind_told,
    labels_of,
    left_out,
    paired,
    remember,
    with_streamed,
)
from strictreply.wires._responses_requests import (
    is_awaited,
    is_run_by_server,
    parts_in,
    text_of,
)

LIFECYCLE = ("created", "queued", "in_progress")
ENDS = ("completed", "incomplete", "failed")
"""The events of the response itself, by their type behind ``response.``."""

_OF_CALLS = ("response.function_call_arguments.", "response.custom_tool_call_input.")
_OF_ITEMS = ("output_item.added", "output_item.done")
_OF_JUDGED = (*WITH_ID, "apply_patch_call_", "shell_call_")
"""How events of what is judged or held begin, where their item cannot be told."""


_NO_OUTPUT: Mapping[str, JSON] = {"output": [], "output_text": ""}

_GOOD_END = "response.completed"
_ERRORS = ("error", "response.error")
_BAD_ENDS = ("response.failed", "response.incomplete", *_ERRORS)
"""The events that contradict an end behind which they come."""


class ResponsesAssembly(Assembly):
    """The events of one stream so far, put together."""

    holds_pieces = True

    def __init__(self, names: Collection[str] = (), *, strict: bool = False) -> None:
        super().__init__(names, strict=strict)
        self.items: list[Item] = []
        self.around: JSONObject = {}
        self.told_id: JSON = None  # the first one of the response
        self._places: dict[int, int] = {}
        self._indexes: set[int] = set()
        self._calls = 0
        self._is_text = True  # as long as nothing but text came
        self.has_refused = False
        self._is_begun = False
        self._last_words: JSONObject | None = None  # of an event that may be an error
        self._behind: ResponsesAssembly | None = None  # what came behind the end, None for nothing
        self._is_behind_other = False
        self._counts = False
        self._last: int | None = None
        self._told_number = -1
        self._thoughts: list[JSON] = []  # pieces of those whose item is not done

    def at(self, index: int) -> Item | None:
        """Return the item under an index, None when there is none."""
        place = self._places.get(index)
        return None if place is None else self.items[place]

    def add(self, chunk: JSON) -> None:
        """Take one event."""
        self.delta = {}
        self.passed = None
        self.is_ignored = self.is_beside = self.is_frame = False
        self.current: Item | None = None
        if self.is_done:
            self.is_ignored = True
            self.is_piece = self.is_text_alone = False
            self._add_behind(chunk)
            return

        kind = chunk.get("type") if isinstance(chunk, dict) else None
        self._last_words = None
        if not isinstance(chunk, dict) or not (isinstance(kind, str) or chunk.get("error")):
            self._add_untyped(chunk)
        elif self._is_in_order(chunk):
            self._add_typed(str(kind), chunk)
            self._place(str(kind), chunk)
            self._number(chunk)

        self.is_piece = kind == "response.output_text.delta"
        self._is_begun |= kind == "response.created"
        # what the API would have sent before it is missing: it is written anew
        self.is_beside &= self._is_begun
        is_ended = self.is_over or self.is_done
        self.is_text_alone = self._is_text and self._is_begun and not is_ended

    def _add_untyped(self, event: JSON) -> None:
        if isinstance(event, dict) and self.reads("event_without_type"):
            self.is_ignored = True
            self._last_words = error_of(event)
        else:
            self._refuse("an event with its type", event)

    def _add_typed(self, kind: str, event: JSONObject) -> None:
        handle = self._handlers.get(kind.removeprefix("response."))
        if kind in _ERRORS or event.get("error"):
            told = {name: event[name] for name in event if name != "sequence_number"}
            self.around = self.around | {"error": event.get("error") or told}
            self.is_over = True
        elif handle is not None:
            handle(self, event)
        elif kind.startswith("response.reasoning_") and kind.endswith(".delta"):
            self._thoughts.append(event.get("delta"))

        if self.current is None or self.current.is_judged:
            self._is_text &= not kind.startswith(_OF_CALLS)

    def _place(self, kind: str, event: JSONObject) -> None:
        """Find what an event is about, and whether it waits until the reply has passed."""
        if self.is_over or self.is_done or self.is_ignored or self.fault is not None:
            return

        short = kind.removeprefix("response.")
        held = self.current
        if held is None and short not in LIFECYCLE:
            held = self.current = self._about(event)

        self.is_frame = short in (*LIFECYCLE, *_OF_ITEMS)
        if held is None:
            is_thought = short.startswith("reasoning_")
            self.is_beside = not short.startswith(_OF_JUDGED)
            self.is_frame |= self.is_beside and not is_thought
            self._is_text &= self.is_beside  # its item was not announced
            return

        held.seen.add(short)
        self.is_beside = not held.is_judged
        if held.moved and "content_index" in event and self.passed is None:
            self.passed = event | {"content_index": held.part_in(event)}
        index = event.get("output_index")
        if type(index) is int and index == held.index and event.get("item_id") == held.id:
            return  # nearly always

        labels = labels_of(held, event)
        if labels:
            self.passed = (self.passed or event) | labels

    def _number(self, event: JSONObject) -> None:
        """Number an event that has no number, or one that came before."""
        number = event.get("sequence_number")
        if isinstance(number, int) and not isinstance(number, bool) and number > self._told_number:
            self._told_number = number
        elif not self.is_ignored:
            self._told_number += 1
            self.passed = (self.passed or event) | {"sequence_number": self._told_number}

    def _about(self, event: JSONObject) -> Item | None:
        """Return the item that an event of any type is about; None when that cannot be told."""
        label = label_in({"index": event.get("output_index")})
        held = None if label is None else self.at(label)
        if held is None:
            held = self._with_id(event.get("item_id"))
        if held is not None or label is not None:
            return held

        kind = kind_told(event)
        return next((one for one in self.items if one.kind == kind and not one.is_done), None)

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

        self.told_id = self.told_id or response.get("id")
        if response.get("id") != self.told_id:
            self.passed = event | {"response": response | {"id": self.told_id}}

        self.around = self.around | response

    def _begin(self, event: JSONObject) -> None:
        """Take an event of the response before its end, and pass on none of the output in it.

        That is not judged yet, and comes in the events of the items.
        """
        self._start(event)
        told = peek(event, "response")
        empty = {name: empty for name, empty in _NO_OUTPUT.items() if peek(told, name)}
        if empty:
            passed: Any = self.passed or event
            self.passed = passed | {"response": passed["response"] | empty}

    def _added(self, event: JSONObject) -> None:
        item = event.get("item")
        if item is None or item == {} or (isinstance(item, dict) and self._says_no_type(item)):
            return

        if not isinstance(item, dict):
            self._refuse("an item under an index of its own", event)
            return

        index = event.get("output_index")
        label = label_in({"index": index})
        late = None if label is None or self._strict else self.at(label)
        if late is not None and is_late_for(late, item):
            self._announce(late, item)
            return

        is_plain = label is not None and isinstance(index, int) and label not in self._places
        if not is_plain and not self.reads("output_index"):
            self._refuse("an item under an index of its own", event)
            return

        same = None if label is None else self.at(label)
        if same is not None and is_same_item(same, item):
            remember(same, item)
            self.is_ignored = True  # it is added again
            return

        held = self._open(item, label)
        self.current = held
        if not is_plain:
            self.passed = event | {"output_index": held.index}

    def _says_no_type(self, item: JSONObject) -> bool:
        """Return whether an item says nothing of what it is; its later events say that."""
        return not self._strict and item.get("type") in (None, "")

    def _announce(self, held: Item, item: JSONObject) -> None:
        """Take an item that is added behind its first events."""
        begun = held.item | item
        if held.kind in WRITTEN:
            begun[WRITTEN[held.kind]] = ""

        held.item = begun
        held.id = held.id or item.get("id")
        remember(held, item)
        self.is_ignored = True
        if held.kind == "function_call":
            self._tell_call(held, "", item.get("name"))

    def _open(self, item: JSONObject, label: int | None) -> Item:
        held = Item(item, len(self.items), label=label, id=item.get("id"))
        if held.index in self._indexes:
            held.free = max(self._indexes) + 1

        self._indexes.add(held.index)
        held.is_strict = self._strict
        held.is_judged = self._is_judged(held)
        self.items.append(held)
        self._places[held.index if label is None else label] = held.place
        if held.is_judged and held.kind != "message":
            self._is_text = False

        if held.kind in WRITTEN:
            begun = item.get(WRITTEN[held.kind])
            if isinstance(begun, str):
                held.begun = begun
                remember(held, item | {WRITTEN[held.kind]: ""})
            else:
                remember(held, item)

            if held.is_judged:
                held.call = self._calls
                self._calls = self._calls + 1
            if held.kind == "function_call":
                self._tell_call(held, "", item.get("name"))

        return held

    def _is_judged(self, held: Item) -> bool:
        """Return whether an item may reach the caller only when the whole reply has passed."""
        if held.kind == "message":
            return held.is_answer
        if held.kind not in WRITTEN:
            return is_awaited(held.item)

        # what is declared is the program's
        is_theirs = is_run_by_server(held.item) and held.item.get("name") not in self.names
        return self._strict or not is_theirs

    def _tell_call(self, held: Item, arguments: str, name: object = None) -> None:
        function: JSONObject = {"arguments": arguments}
        if isinstance(name, str):
            function["name"] = called_name(name, held.item.get("namespace"), self.names)

        self.delta = {"tool_calls": [{"index": held.call, "function": function}]}
        self.size += len(arguments)

    def _found(self, event: JSONObject, kind: str) -> Item | None:
        """Return the item of an event; a new one of a kind where there is none, None if refused."""
        self.current = self._find(event, kind)
        return self.current

    def _find(self, event: JSONObject, kind: str) -> Item | None:
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

    def _with_id(self, id_: JSON) -> Item | None:
        if id_ is None:
            return None

        return next((held for held in self.items if held.item.get("id") == id_), None)

    def _without_index(self, label: int | None, id_: JSON, kind: str) -> Item:
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
        if piece is None and self.reads("delta_null"):
            self.is_ignored = True
            return

        index = held.part_in(event)
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
        self._is_text &= part in held.parts
        self.size += len(piece)
        if held.is_done and not self._strict:
            held.later.append(piece)
            self.is_ignored = True
            return

        held.texts.setdefault(part, []).append(piece)
        held.disagrees |= held.is_done
        self._tell_text(held, piece)

        if is_odd:
            self.passed = event | {"content_index": part}

    def _tell_text(self, held: Item, piece: str) -> None:
        """Tell what a message has more; not as long as it may be the JSON before it once more."""
        if not held.is_answer:
            return

        if len(held.texts) == 1 and len(held.texts[min(held.texts)]) == 1:
            held.before = None if self._strict else self._json_before(held)

        before = held.before
        if before is not None:
            if before.startswith(piece, held.again):
                held.again += len(piece)
                return

            piece = held.whole_text
            held.before = None

        self.delta = {"content": piece}

    def _json_before(self, held: Item) -> str | None:
        """Return the JSON that each message before one holds; None where that is anything else."""
        texts = {one.whole_text for one in self.items[: held.place] if one.is_answer}
        text = texts.pop() if len(texts) == 1 else ""
        return text if is_json(text) else None

    def _text_done(self, event: JSONObject) -> None:
        held = self._found(event, "message")
        if held is None:
            return

        text = event.get("text")
        index = held.part_in(event)
        is_known = isinstance(index, int) and index in held.texts
        is_unnamed = bool(held.texts) and not is_known
        is_unnamed &= event.get("content_index") is None or text == held.whole_text
        if is_unnamed and self.reads("content_index"):
            part = max(held.texts)
            self.passed = event | {"content_index": part}
            if text not in (held.whole_text, held.text(part)):
                self._disagree(held, "the text that its deltas were", text)
            return

        if isinstance(text, str) and not is_known:
            # some servers send no deltas: it is passed on as one
            self._text_delta(event | {"delta": text})
            if self.passed is not None:
                passed = {name: value for name, value in self.passed.items() if name != "text"}
                self.passed = passed | {"type": "response.output_text.delta"}
        elif not is_known or held.text(index) != text:
            self._disagree(held, "the text that its deltas were", text)

    def _disagree(self, held: Item, expected: str, found: object) -> None:
        """Take a word that is another than the events before: the terminal event decides."""
        if self.reads("done_disagrees"):
            held.disagrees = True
        else:
            self._refuse(expected, found)

    def _part_added(self, event: JSONObject) -> None:
        held = self._about(event)
        if held is None:
            return

        count = len(held.parts)
        part = self._part_told(held, event, count)
        if part is None:
            return

        is_above = held.kind == "message" and part > count and part not in held.moved
        if is_above and self.reads("content_index"):
            held.moved[part] = count  # the parts of other items were counted, too

        held.parts.add(held.moved.get(part, part))

    def _part_done(self, event: JSONObject) -> None:
        held = self._about(event)
        if held is None:
            return

        part = self._part_told(held, event, max(held.parts, default=0))
        if part is not None:
            held.ended.add(held.moved.get(part, part))

    def _part_told(self, held: Item, event: JSONObject, expected: int) -> int | None:
        """Return the index of a part; that of a message's which says none is the expected one."""
        if held.kind != "message" or event.get("content_index") is not None:
            return label_in({"index": event.get("content_index")})
        if not self.reads("content_index"):
            return None

        self.passed = event | {"content_index": expected}
        return expected

    def _refusal_delta(self, event: JSONObject) -> None:
        self.has_refused |= bool(event.get("delta") or event.get("refusal"))
        # it is no text of an answer; the whole of it is judged at the end
        self._is_text = False
        self.size += len(str(event.get("delta") or ""))

    def _written_delta(self, event: JSONObject) -> None:
        held = self._found(event, _kind_of_call(event))
        if held is not None:
            self._write(held, event)

    def _write(self, held: Item, event: JSONObject) -> None:
        piece = event.get("delta")
        if piece is None and self.reads("delta_null"):
            self.is_ignored = True
            return
        if not isinstance(piece, str) or held.kind not in WRITTEN:
            self._refuse("a piece of what a call holds", event)
            return

        if held.is_whole and not self._strict and self.reads("arguments_repeated"):
            held.later.append(piece)
            self.size += len(piece)
            self.is_ignored = True
            return

        held.written.append(piece)
        held.disagrees |= held.is_done
        if held.kind == "function_call" and not held.begun:
            self._tell_call(held, piece)
        else:
            self.size += len(piece)  # what was begun may come again: the whole of it is judged

    def _written_done(self, event: JSONObject) -> None:
        held = self._found(event, _kind_of_call(event))
        if held is None:
            return

        text = event.get("arguments", event.get("input"))
        if isinstance(text, str) and not held.whole_written and not held.is_whole:
            self._write(held, event | {"delta": text})
        elif not held.may_be(text):
            self._disagree(held, "what its deltas were", text)

        held.is_written = True

    def _item_done(self, event: JSONObject) -> None:
        item = event.get("item")
        if not item and self._about(event) is not None and self.reads("done_disagrees"):
            self.is_ignored = True  # it says nothing
            return

        held = self._of_item(event, item) if isinstance(item, dict) else None
        if held is None or not isinstance(item, dict):
            if self.fault is None:
                self._refuse("the item that was added, as its events said it", event)
            return

        self.current = held
        if held.kind == "reasoning":
            self._thoughts.clear()  # the item has them

        is_same = agrees(held, item)
        if held.is_done and is_same and self.reads("done_disagrees"):
            self.is_ignored = True  # it comes again
            return

        if held.is_done or not is_same:
            self._disagree(held, "the item that was added, as its events said it", event)

        text = text_of([item]) if held.is_answer and not held.texts else None
        if text and item.get("phase") in ANSWERING:
            held.texts[0] = [text]
            self.size += len(text)
            self._tell_text(held, text)

        self.has_refused |= next(parts_in(item, ("refusal",)), None) is not None
        remember(held, item)
        held.item = with_streamed(held, item)
        held.is_done = True

    def _of_item(self, event: JSONObject, item: JSONObject) -> Item | None:
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
        self.passed = None
        return None if self.fault is not None else self.items[-1]

    def _end(self, event: JSONObject) -> None:
        self._start(event)
        if self.fault is not None or self.is_ignored:
            return

        response: Any = event["response"]
        self.around = dict(response)
        self.is_done = True
        self.is_over = _ending_of(event) != "completed"
        if any(held.is_again for held in self.items):
            self.reads("arguments_repeated")

        for held in self.items:
            if held.later and not held.is_repeated:
                self._refuse("nothing behind what its end said", "".join(held.later), "/output")
                return

        output = self.around.get("output")
        if not output and self.items:
            self._end_without_output(_ending_of(event))
        elif self.items and "completed" in (self.around.get("status"), _ending_of(event)):
            self._end_with(self._with_written(output))

    def _with_written(self, output: Any) -> Any:
        """Return a terminal output with what its events wrote where it leaves that out."""
        items = output if isinstance(output, list) else []
        written: dict[int, JSONObject] = {}
        for kinds in (tuple(WRITTEN), ("message",)):
            came = [held for held in self.items if held.kind in kinds]
            last = [item for item in items if peek(item, "type") in kinds]
            if len(came) == len(last):
                written |= {
                    id(item): item | left
                    for held, item in paired(came, last)
                    if held.kind == item["type"] and (left := left_out(held, item))
                }

        if not written or not self.reads("events_disagree"):
            return output

        self.around["output"] = [written.get(id(item), item) for item in items]
        return self.around["output"]

    def _end_without_output(self, ending: str) -> None:
        is_completed = ending == "completed" == self.around.get("status", ending)
        whole = [held.whole() for held in self.items]
        for held, item in zip(self.items, whole, strict=True):
            if is_completed and held.kind in SPOKEN and held.is_ended and not held.is_done:
                item["status"] = "completed"  # the response is, and so is what is in it

        self.around["output"] = whole
        if any(held.disagrees or not is_as_told(held, held.whole()) for held in self.items):
            self._refuse("the items that its events were", self.around["output"], "/output")

    def _end_with(self, output: Any) -> None:
        """Hold the terminal output to what the events showed and streamed."""
        items = output if isinstance(output, list) else []
        if self.has_refused and not _refusals_in(items):
            self._refuse("the items that its events were", output, "/output")
            return

        if self._is_same(output):
            return
        if self._is_alike(output) and self.reads("events_disagree"):
            return

        self._refuse("the items that its events were", output, "/output")

    def _is_same(self, output: Any) -> bool:
        last = [item for item in output if is_spoken(item)] if isinstance(output, list) else []
        came = [held for held in self.items if held.kind in SPOKEN]
        if len(last) != len(came) or any(held.disagrees for held in came):
            return False

        pairs = list(zip(came, last, strict=True))
        return all(agrees(held, item) and is_as_told(held, item) for held, item in pairs)

    def _is_alike(self, output: Any) -> bool:
        """Return whether an output has the text and the calls that its events had."""
        if not isinstance(output, list):
            return False

        texts = [held.whole_text for held in self.items if held.is_answer]
        said = (text_of(output), text_of(output, beside_calls=True))
        shown = ["".join(texts)]
        if len(set(texts)) == 1 and is_json(texts[0]):
            shown.append(texts[0])  # it came more than once
        if shown[0] and not any(text in said for text in shown):
            return False

        calls = [held for held in self.items if held.kind in WRITTEN]
        last = [item for item in output if peek(item, "type") in tuple(WRITTEN)]
        if calls and len(calls) != len(last):
            return False

        return all(is_same_call(held, item) for held, item in paired(calls, last))

    def _add_behind(self, event: JSON) -> None:
        """Take an event behind the end, which may not contradict it.

        Another response is none that was asked for, and nothing of it is read.
        """
        if self._is_behind_other:
            return

        kind = event.get("type") if isinstance(event, dict) else None
        told = peek(event, "response")
        if kind == "response.created" or self._is_of_other(kind, told):
            self._is_behind_other = True
            if not self.reads("response_behind_end"):
                self._refuse("one response", event)
        elif (
            peek(event, "error")
            or kind in _BAD_ENDS
            or (kind == _GOOD_END and not self._repeats_end(told))
        ):
            self._refuse("nothing that contradicts its end", event)
        elif not isinstance(event, dict) or not isinstance(kind, str):
            self._add_untyped(event)
        elif kind.startswith("response.") and not self.reads("repeated_behind_end"):
            self._refuse("nothing behind its end", event)
        elif kind.removeprefix("response.") not in (*LIFECYCLE, *ENDS):
            self._add_item_behind(event)

    def _add_item_behind(self, event: JSONObject) -> None:
        """Take an event of an item behind the end: it is put together with the others there."""
        if self._behind is None:
            self._behind = ResponsesAssembly(self.names)

        behind = self._behind
        size = behind.size
        behind.add(event)
        self.size += behind.size - size
        if behind.fault is not None:
            self._refuse("nothing that contradicts its end", event)

    def end(self, *, is_told: bool = False) -> None:  # noqa: ARG002
        """Take the end of the stream: what came behind the end of its response is whole.

        Where its response has no end, a message without a type that came last is why.
        """
        if not self.is_done and self._last_words is not None:
            self.around = self.around | {"error": self._last_words}
        if self.is_done and self._behind is not None:
            self._settle(self._behind)

    def _settle(self, behind: ResponsesAssembly) -> None:
        """Hold what came behind the end to it: what repeats it is nothing, further calls count."""
        output = self.around.get("output")
        items = output if isinstance(output, list) else []
        further = further_calls(behind.items, items)
        if further is None or (behind.has_refused and not _refusals_in(items)):
            found = [held.whole() for held in behind.items]
            self._refuse("nothing that contradicts its end", found, "/output")
        elif further:
            self.reads("call_behind_end")
            self.around["output"] = [*items, *further]

    def _is_of_other(self, kind: JSON, told: Any) -> bool:
        ids = (peek(told, "id"), self.around.get("id"))
        return kind in (*_BAD_ENDS, _GOOD_END) and all(ids) and ids[0] != ids[1]

    def _repeats_end(self, told: Any) -> bool:
        status = peek(told, "status")
        if peek(told, "error") or status not in (None, self.around.get("status")):
            return False

        output = peek(told, "output")
        return output in (None, []) or output == self.around.get("output")

    def response(self, *, is_whole: bool = True) -> JSONObject:
        """Return the response that the events make.

        Without its end, or not ``is_whole``, it is one that broke off.
        """
        if self.is_done and is_whole:
            return {"object": "response", **self.around}

        output: list[JSON] = [held.whole() for held in self.items]
        return {"object": "response", **self.around, "output": output, "status": BROKEN_OFF}

    def came(self) -> JSONObject | None:
        """Return the response so far, behind its items the thoughts that are in none yet."""
        if not self.around and not self.items:
            return None

        output: list[JSON] = [held.whole() for held in self.items]
        return {**self.response(), "output": [*output, *self._thoughts]}

    _handlers: ClassVar[Mapping[str, Callable[[Any, JSONObject], None]]] = {
        **dict.fromkeys(LIFECYCLE, _begin),
        **dict.fromkeys(("completed", "incomplete", "failed"), _end),
        "output_item.added": _added,
        "output_item.done": _item_done,
        "content_part.added": _part_added,
        "content_part.done": _part_done,
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


def _refusals_in(items: list[Any]) -> list[str]:
    return [text for item in items for text in parts_in(item, ("refusal",))]


def _ending_of(event: JSONObject) -> str:
    return str(event.get("type")).removeprefix("response.")
