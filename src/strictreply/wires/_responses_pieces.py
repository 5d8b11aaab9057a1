"""The texts and arguments of a streamed response, piece by piece.

The order of events:

- The pieces of a text are joined in the order received, whatever their ``content_index``. A
  ``done`` of a text, of arguments or of an item repeats the pieces; without pieces it has the
  whole. If it differs, the terminal event decides.
- After the ``done`` of an item the same pieces may be repeated.
- A message that starts like the JSON of the message before it may be a copy of that answer: its
  pieces are passed on as soon as they differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

from strictreply.values._limits import JSONObject
from strictreply.wires._chat_calls import label_in
from strictreply.wires._responses_found import Handler, StreamedItems
from strictreply.wires._responses_items import (
    ANSWERING,
    WRITTEN,
    Item,
    agrees,
    is_json,
    remember,
    with_streamed,
)
from strictreply.wires._responses_requests import parts_in, text_of


class StreamedPieces(StreamedItems):
    """The items of one stream so far, with their contents."""

    def __init__(self, names: Collection[str] = (), *, strict: bool = False) -> None:
        super().__init__(names, strict=strict)
        self.has_refused = False

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
        """Pass on the new text of a message, unless it may be a copy of the JSON before it."""
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
        """Return the JSON that each earlier message contains; None for anything else."""
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
                self._disagree(held, "the same text as in its deltas", text)
            return

        if isinstance(text, str) and not is_known:
            # some servers send no deltas: it is passed on as one
            self._text_delta(event | {"delta": text})
            if self.passed is not None:
                passed = {name: value for name, value in self.passed.items() if name != "text"}
                self.passed = passed | {"type": "response.output_text.delta"}
        elif not is_known or held.text(index) != text:
            self._disagree(held, "the same text as in its deltas", text)

    def _disagree(self, held: Item, expected: str, found: object) -> None:
        """Record that a statement differs from the events before it: the terminal event decides."""
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
        """Return the index of a part; for a message without an index, the expected one."""
        if held.kind != "message" or event.get("content_index") is not None:
            return label_in({"index": event.get("content_index")})
        if not self.reads("content_index"):
            return None

        self.passed = event | {"content_index": expected}
        return expected

    def _refusal_delta(self, event: JSONObject) -> None:
        self.has_refused |= bool(event.get("delta") or event.get("refusal"))
        # it is not text of an answer; the whole is judged at the end
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
            self._refuse("a piece of the arguments or the input of a call", event)
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
            self.size += len(piece)  # the beginning may be repeated: the whole is judged

    def _written_done(self, event: JSONObject) -> None:
        held = self._found(event, _kind_of_call(event))
        if held is None:
            return

        text = event.get("arguments", event.get("input"))
        if isinstance(text, str) and not held.whole_written and not held.is_whole:
            self._write(held, event | {"delta": text})
        elif not held.may_be(text):
            self._disagree(held, "the same content as in its deltas", text)

        name = event.get("name")
        if name and held.names and name not in held.names:
            held.names.append(name)
            self._disagree(held, "the name of the call that was added", name)

        held.is_written = True

    def _item_done(self, event: JSONObject) -> None:
        item = event.get("item")
        if not item and self._about(event) is not None and self.reads("done_disagrees"):
            self.is_ignored = True  # it says nothing
            return

        held = self._of_item(event, item) if isinstance(item, dict) else None
        if held is None or not isinstance(item, dict):
            if self.fault is None:
                self._refuse("the item that was added, with the content of its events", event)
            return

        self.current = held
        is_same = agrees(held, item)
        if held.is_done and is_same and self.reads("done_disagrees"):
            self.is_ignored = True  # it comes again
            return

        if held.is_done or not is_same:
            self._disagree(held, "the item that was added, with the content of its events", event)

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

    handlers: ClassVar[Mapping[str, Handler]] = {
        **StreamedItems.handlers,
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


def _kind_of_call(event: JSONObject) -> str:
    """Return the kind of call for an event of its arguments or its input."""
    is_custom = str(event.get("type")).startswith("response.custom_tool_call_input.")
    return "custom_tool_call" if is_custom else "function_call"
