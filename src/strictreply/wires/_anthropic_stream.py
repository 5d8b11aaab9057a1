"""Assembles the events of a streamed reply of the Messages API into a message.

The order of events (Anthropic, streaming messages):

- ``message_start`` comes first, with the message and no content.
- Each block has a ``content_block_start``, its deltas, and a ``content_block_stop``. The ``input``
  of its start is a placeholder if pieces of an input follow. Pieces are joined as text: with eager
  input streaming the result may not be JSON, and is judged unchanged.
- ``message_delta`` has the end. Its usage is cumulative and partial: its values replace earlier
  ones.
- ``message_stop`` is the end. A stream without it broke off.
- ``ping`` and unknown events may come anywhere, and are passed on.

A second ``message_start`` is another reply: proxies append the answer of a second upstream to the
beginning of the first. The first part is then void, and the reply counts as broken off.

Everything that the API itself does not send is a row of
:data:`~strictreply.wires._stream_dialects.MESSAGE_DIALECTS`, which strict reading rejects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from strictreply.reading._decoding import decode
from strictreply.values._issues import Code, quote
from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._anthropic_turns import CALL, TEXT, unanswered
from strictreply.wires._chat_stream import BROKEN_OFF
from strictreply.wires._members import peek
from strictreply.wires._wire import Assembly

START = "message_start"
STOP = "message_stop"
ENDING = "message_delta"
BLOCK_START = "content_block_start"
BLOCK_DELTA = "content_block_delta"
BLOCK_STOP = "content_block_stop"

_OF_START: Mapping[str, JSON] = {"content": [], "stop_reason": None, "stop_sequence": None}
_OF_OTHERS: Mapping[object, str] = {CALL: "text", TEXT: "partial_json"}
"""Members that a delta brings only to blocks of another type, where they would be lost."""

_PIECES: Mapping[str, str] = {
    "text": "text_delta",
    "partial_json": "input_json_delta",
    "thinking": "thinking_delta",
}
"""The members whose pieces are joined, with the only type of delta that brings them."""

_JUDGED = (TEXT, CALL)
"""The types of the blocks that are judged."""


@dataclass(slots=True, eq=False)
class Block:
    """One block so far."""

    block: JSONObject
    """The block as it started, with the additions of its deltas."""
    place: int = 0
    """Its position among the blocks, which is its index in the API's form."""
    call: int | None = None
    """Its position among the calls; None for any other block."""
    written: list[str] = field(default_factory=list[str])
    """The pieces of its input."""
    is_ended: bool = False
    """Whether its end was received."""

    @property
    def kind(self) -> object:
        """The type of the block."""
        return self.block.get("type")

    def whole(self) -> JSONObject:
        """Return the block so far; an input that is not an object is the text itself."""
        written = "".join(self.written)
        if not written:
            return self.block

        value = decode(written)
        return {**self.block, "input": value if isinstance(value, dict) else written}

    def add(self, delta: JSONObject) -> None:
        """Add a delta to the member with its name."""
        for name, value in delta.items():
            if name == "citation":
                self.block["citations"] = [*(self.block.get("citations") or []), value]
            elif name == "partial_json":
                self.written.append(value if isinstance(value, str) else "")
            elif name != "type":
                self.block[name] = _joined(self.block.get(name), value)


def _is_typed(delta: JSONObject) -> bool:
    """Return whether the type of a delta matches what it brings."""
    return all(delta.get("type") == kind for name, kind in _PIECES.items() if name in delta)


def _joined(came: JSON, value: JSON) -> JSON:
    """Return a member with a delta added; a text does not replace a value of another type."""
    if not isinstance(value, str) or came is None:
        return value

    return came + value if isinstance(came, str) else came


class MessagesAssembly(Assembly):
    """The events of one stream so far, assembled."""

    holds_pieces = True

    def __init__(self, names: Collection[str] = (), *, strict: bool = False) -> None:
        super().__init__(names, strict=strict)
        self.message: JSONObject | None = None
        self.blocks: dict[int, Block] = {}
        self._error: JSON = None
        self._calls = 0

    def add(self, chunk: JSON) -> None:
        """Add one event."""
        self.delta = {}
        self.passed = None
        self.is_piece = self.is_text_alone = False
        self.is_ignored = self.is_beside = self.is_frame = False

        kind = chunk.get("type") if isinstance(chunk, dict) else None
        if self.is_done:
            self.is_ignored = True
            self._add_behind(kind, chunk)
        elif isinstance(chunk, dict) and chunk.get("error"):
            self._error = chunk["error"]
            self.is_over = True
        elif not isinstance(chunk, dict) or not isinstance(kind, str):
            self._add_untyped(chunk)
        else:
            handle = self._handlers.get(kind, MessagesAssembly._pass)
            handle(self, chunk)

    def _add_untyped(self, chunk: JSON) -> None:
        if isinstance(chunk, dict) and self.reads("event_without_type"):
            self.is_ignored = True
        else:
            self._refuse("an event with a type", chunk)

    def _add_behind(self, kind: object, chunk: JSON) -> None:
        """Add an event after the end; another message is ignored, because it was not requested."""
        if kind == "ping" or chunk in ({}, None):
            return
        if kind == STOP and self.reads("stop_repeated"):
            return
        if not self._is_behind and (kind != START or not self.reads("message_behind_end")):
            self._refuse("nothing after its end", chunk)

        self._is_behind = True

    _is_behind = False

    def _refuse(self, expected: str, found: object, path: str = "") -> None:
        self.refuse(Code.ENVELOPE_MALFORMED, path, expected=expected, found=quote(found))

    def _pass(self, event: JSONObject) -> None:
        """Pass on an event that is not part of the reply; the SDK accepts none before the start."""
        self.is_ignored = self.message is None and event["type"] != "ping"
        self._place(None, is_frame=True)

    def _start(self, event: JSONObject) -> None:
        message = event.get("message")
        if not isinstance(message, dict) or not isinstance(message.get("content", []), list):
            self._refuse("a message_start with a message", event, "/message")
        elif self.message is None:
            self.message = message
            self._place(None, is_frame=True)
            self._complete(event, message)
        elif self._is_same_start(message) and self.reads("start_repeated"):
            self.is_ignored = True
        else:
            self.refuse(Code.REPLY_BROKEN_OFF, "/message")

    def _is_same_start(self, message: JSONObject) -> bool:
        is_same = self.message is not None and message.get("id") == self.message.get("id")
        return is_same and not self.blocks

    def _complete(self, event: JSONObject, message: JSONObject) -> None:
        """Add the members that the API writes in a start, without which its SDK fails."""
        missing = {name: value for name, value in _OF_START.items() if name not in message}
        if not isinstance(message.get("usage"), dict):
            missing["usage"] = {"input_tokens": 0, "output_tokens": 0}
        if not missing:
            return
        if not self.reads("start_incomplete"):
            self._refuse("a message with content", event, "/message")
            return

        self.message = message | missing
        self.passed = event | {"message": self.message}

    def _begin(self, event: JSONObject) -> None:
        if self.message is None:
            self._refuse("a message_start before its blocks", event)
            return

        block = event.get("content_block")
        index = self._index_of(event, len(self.blocks))
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            self._refuse("a content_block with a type", event, "/content_block")
            return
        if index is None or index in self.blocks:
            self._refuse("a different index for each block", event, "/index")
            return

        self._close_open()
        held = self.blocks[index] = Block(dict(block), len(self.blocks))
        if not self._has_text(event, held):
            return

        self._renumber(event, held)
        if held.kind == CALL:
            held.call = self._calls
            self._calls += 1
            self._add_call(held, "", name=block.get("name"))
        elif held.kind == TEXT:
            self._add_text(block.get("text"))

        self._place(held, is_frame=True)

    def _has_text(self, event: JSONObject, held: Block) -> bool:
        """Return whether a block starts with a text; add an empty one if it has none."""
        name = held.kind
        if name not in (TEXT, "thinking") or isinstance(held.block.get(str(name)), str):
            return True
        if held.block.get(str(name)) is None and self.reads("start_incomplete"):
            held.block[str(name)] = ""
            self.passed = event | {"content_block": {**held.block}}
            return True

        self._refuse("a block that begins with its text", event, "/content_block")
        return False

    def _close_open(self) -> None:
        """Close a block whose end is missing before the next one starts."""
        for held in self.blocks.values():
            if not held.is_ended and self.reads("block_stop_missing"):
                held.is_ended = True
            elif not held.is_ended:
                self._refuse("the end of a block before the next one", held.block, "/content")

    def _index_of(self, event: JSONObject, otherwise: int | None) -> int | None:
        """Return the index of an event; if it has none, the one that it can only mean."""
        index = event.get("index")
        if type(index) is int and index >= 0:
            return index
        if index is not None or not self.reads("index_missing"):
            return None

        return otherwise

    def _held(self, event: JSONObject) -> Block | None:
        """Return the block of an event; None if the event is to be skipped."""
        index = self._index_of(event, next(reversed(self.blocks), None))
        held = None if index is None else self.blocks.get(index)
        is_end = event["type"] == BLOCK_STOP
        if held is None and is_end and index is not None and self.reads("block_stop_unknown"):
            self.is_ignored = True
            return None
        if held is None or (held.is_ended and not is_end):
            self._refuse("an event of a block that has started", event, "/index")
            return None
        if held.is_ended:
            self.is_ignored = self.reads("block_stop_repeated")
            if not self.is_ignored:
                self._refuse("one end for each block", event, "/index")
            return None

        self._renumber(event, held)
        return held

    def _renumber(self, event: JSONObject, held: Block) -> None:
        """Pass an event on with the position of its block, by which the SDK finds it."""
        index = event.get("index")
        if type(index) is int and index == held.place:
            return
        if index is None or self.reads("index_gap"):
            self.passed = (self.passed or event) | {"index": held.place}
        else:
            self._refuse("blocks that are counted from 0", event, "/index")

    def _add_delta(self, event: JSONObject) -> None:
        held = self._held(event)
        delta = event.get("delta")
        if held is None:
            return
        if not isinstance(delta, dict):
            self._refuse("a delta with a type", event, "/delta")
            return

        written = delta.get("partial_json")
        if not isinstance(written, str | None):
            self.refuse(Code.JSON_NOT_TEXT, "/delta/partial_json", found=quote(written))
            return
        if _OF_OTHERS.get(held.kind, "") in delta or not _is_typed(delta):
            self._refuse("a delta that matches the type of its block", event, "/delta")
            return
        pieces = [delta[name] for name in _PIECES if name in delta]
        if pieces and all(piece is None for piece in pieces):
            self.is_ignored = True
            return
        if not all(isinstance(piece, str) for piece in pieces):
            self.refuse(Code.REPLY_CONTENT, "/delta", found=quote(delta))
            return

        held.add(delta)
        if held.kind == TEXT:
            self._add_text(delta.get("text"))
            self.is_piece = delta.get("type") == "text_delta"
        elif held.kind == CALL:
            self._add_call(held, written or "")

        self._place(held)

    def _end_block(self, event: JSONObject) -> None:
        held = self._held(event)
        if held is None:
            return

        if held.kind == CALL and not "".join(held.written):
            given = held.block.get("input")
            self._add_call(held, json.dumps(given) if given else "")

        held.is_ended = True
        self._place(held, is_frame=True)

    def _add_text(self, text: object) -> None:
        if isinstance(text, str) and text:
            self.delta = {"content": text}
            self.size += len(text)

    def _add_call(self, held: Block, written: str, *, name: object = "") -> None:
        function = {"name": name, "arguments": written}
        self.delta = {"tool_calls": [{"index": held.call, "function": function}]}
        self.size += len(written)

    def _place(self, held: Block | None, *, is_frame: bool = False) -> None:
        """Record what the event is about: None for no block, which is passed on with the text."""
        kind = None if held is None else held.kind
        self.is_text_alone = held is None or kind == TEXT
        self.is_beside = kind not in _JUDGED
        self.is_frame = is_frame

    def _take_ending(self, event: JSONObject) -> None:
        """Record how the message ends, and its usage so far."""
        delta = event.get("delta")
        if self.message is None or not isinstance(delta, dict):
            self._refuse("a message_start before message_delta", event, "/delta")
            return

        self._close_open()
        beside = {name: event[name] for name in event if name not in ("type", "delta", "usage")}
        usage = event.get("usage")
        self.message = merged(self.message | delta | beside, usage)
        if not isinstance(usage, dict) or usage.get("output_tokens") is None:
            # the SDK reads it from every such event
            known: JSONObject = {"output_tokens": 0}
            said = merged({"usage": known}, self.message["usage"])["usage"]
            self.passed = event | {"usage": said}

    def _stop(self, event: JSONObject) -> None:  # noqa: ARG002
        if self.message is None:
            self._refuse("a message_start before its end", None)
            return

        self._close_open()
        self.is_done = True

    _handlers: ClassVar[Mapping[str, Callable[..., None]]] = {
        START: _start,
        BLOCK_START: _begin,
        BLOCK_DELTA: _add_delta,
        BLOCK_STOP: _end_block,
        ENDING: _take_ending,
        STOP: _stop,
    }

    def end(self, *, is_told: bool = False) -> None:
        """End the stream: without ``message_stop`` the reply broke off."""

    @property
    def is_waiting(self) -> bool:
        """Whether a server's call has no result yet; the API does not accept such a call."""
        blocks = [held.block for held in self.blocks.values()]
        return bool(unanswered(blocks))

    @property
    def has_thoughts(self) -> bool:
        """Whether thoughts were received that may be signed."""
        return any(held.kind not in _JUDGED for held in self.blocks.values())

    def response(self, *, is_whole: bool = True) -> JSONObject:
        """Return the message that the events make up."""
        if self._error is not None:
            return {"type": "error", "error": self._error}

        begun = self.message or {"type": "message", "role": "assistant"}
        content = [held.whole() for held in self.blocks.values()]
        made = {**begun, "content": content}
        # an end without a reason may be a cut
        is_ended = self.is_done and is_whole and bool(made.get("stop_reason"))
        return made if is_ended else {**made, "stop_reason": BROKEN_OFF}

    def came(self) -> JSONObject | None:
        """Return what was received of a message that broke off; None if nothing was."""
        return self.response(is_whole=False) if self.blocks and self._error is None else None


def merged(message: JSONObject, usage: object) -> JSONObject:
    """Return a message with new values of its usage."""
    if not isinstance(usage, dict):
        return message

    before = peek(message, "usage")
    said = {name: value for name, value in usage.items() if value is not None}
    return {**message, "usage": {**(before if isinstance(before, dict) else {}), **said}}
