"""Writes a message as events, after the part that the caller already has.

The rest of the stream that brought the accepted message is passed on unchanged. Any other message
is written anew after what the caller has: its text continues, and blocks that were already sent are
not repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._anthropic_stream import (
    BLOCK_DELTA,
    BLOCK_START,
    BLOCK_STOP,
    ENDING,
    START,
    STOP,
    Block,
    MessagesAssembly,
)
from strictreply.wires._anthropic_turns import TEXT, kind_of
from strictreply.wires._members import peek

_OF_END = ("stop_reason", "stop_sequence", "stop_details", "container")
"""The members of a message that its last delta has."""

_STREAMED: Mapping[str, JSON] = {
    "input": {},
    "text": "",
    "thinking": "",
    "signature": "",
    "citations": None,
}
"""The members of a block that deltas bring, with their values in its start."""


class MessagesSent:
    """The part of a message that was passed on as events.

    See :class:`~strictreply.wires._wire.SentSoFar`.
    """

    def __init__(self, _usage: bool = True) -> None:  # every stream ends with its usage
        self._told = MessagesAssembly()
        self._texts: list[str] = []
        self.begin()
        self._live: MessagesAssembly | None = None  # of which something was passed on

    @property
    def text(self) -> str:
        """The text that was passed on."""
        return "".join(self._texts)

    def begin(self) -> None:
        """Start another stream."""
        self._came = MessagesAssembly()
        self._left: list[JSON] = []

    def hold(self, event: JSON) -> None:
        """Record an event that waits until the reply is accepted."""
        self._came.add(event)
        self._left.append(event)

    def add(self, event: JSON) -> None:
        """Record an event that is passed on."""
        # events held before it may still wait, such as a ping
        place = next((at for at, one in enumerate(self._left) if one is event), None)
        if place is None:
            self._came.add(event)
        else:
            del self._left[place]

        self._live = self._came
        self._told.add(event)
        if self._told.text:
            self._texts.append(self._told.text)

    def told_id(self, response: JSONObject) -> JSON:
        """Return the id that the caller has; see :class:`~strictreply.wires._wire.SentSoFar`."""
        message = self._told.message or {}
        told = message.get("id")
        return None if told == response.get("id") else told

    def rest(
        self,
        response: JSONObject,
        came: JSONObject | None,  # noqa: ARG002
    ) -> Iterator[JSONObject]:
        """Yield the remaining events; see :class:`~strictreply.wires._wire.SentSoFar`."""
        is_of_last = self._live in (None, self._came) and self._came.is_done
        if is_of_last and self._came.response() == response:
            for event in self._left:
                if isinstance(event, dict):
                    yield event
            return

        yield from self._written(response)

    def _written(self, response: JSONObject) -> Iterator[JSONObject]:
        if self._told.message is None:
            head = {name: value for name, value in response.items() if name not in _OF_END}
            ends: JSONObject = {"content": [], "stop_reason": None, "stop_sequence": None}
            yield {"type": START, "message": head | ends}

        told = self._told.blocks
        left = _not_told(response["content"], list(told.values()))
        open_at = next((at for at, held in told.items() if not held.is_ended), None)
        if open_at is not None:
            rest = self._rest_of_text(told[open_at], left)
            if rest:
                yield _text_delta(open_at, rest)
            yield {"type": BLOCK_STOP, "index": open_at}

        index = max(told, default=-1)
        for block in left:
            index += 1
            yield from events_of(block, index)

        delta = {name: response.get(name) for name in _OF_END if name in response}
        yield {"type": ENDING, "delta": delta, "usage": response.get("usage") or {}}
        yield {"type": STOP}

    def _rest_of_text(self, held: Block, left: list[Any]) -> str:
        """Remove the continuation of an open text from the first of the remaining blocks."""
        if held.kind != TEXT or not left or kind_of(left[0]) != TEXT:
            return ""

        return str(left.pop(0)["text"])


def _text_delta(index: int, text: str) -> JSONObject:
    delta: JSONObject = {"type": "text_delta", "text": text}
    return {"type": BLOCK_DELTA, "index": index, "delta": delta}


def _not_told(blocks: list[Any], told: list[Block]) -> list[Any]:
    """Return the blocks of a message without the part that the caller has.

    Its text starts with that part, in one block or in several.
    """
    wholes = [held.whole() for held in told]
    skipped = sum(len(str(one.get("text") or "")) for one in wholes if kind_of(one) == TEXT)

    left: list[Any] = []
    for block in blocks:
        if kind_of(block) == TEXT:
            text = str(peek(block, "text") or "")
            rest = text[skipped:]
            skipped = max(0, skipped - len(text))
            if rest or (not text and block not in wholes):
                left.append(block if rest == text else {**block, "text": rest})
        elif block not in wholes:
            left.append(block)

    return left


def events_of(block: JSONObject, index: int) -> Iterator[JSONObject]:
    """Yield the events of a whole block, with its members streamed like the API does."""
    begun = {
        name: _STREAMED[name] if name in _STREAMED and value else value
        for name, value in block.items()
    }
    is_call = "input" in block and isinstance(block.get("input"), dict | str)
    if not is_call and kind_of(block) not in (TEXT, "thinking"):
        begun = dict(block)

    begun = {name: value for name, value in begun.items() if name != "citations" or value}
    yield {"type": BLOCK_START, "index": index, "content_block": begun}

    for delta in _deltas_of(block, is_call=is_call):
        yield {"type": BLOCK_DELTA, "index": index, "delta": delta}

    yield {"type": BLOCK_STOP, "index": index}


def _deltas_of(block: JSONObject, *, is_call: bool) -> Iterator[JSONObject]:
    if is_call:
        given = block["input"]
        written = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        yield {"type": "input_json_delta", "partial_json": written}
        return

    if kind_of(block) not in (TEXT, "thinking"):
        return

    for citation in block.get("citations") or ():
        yield {"type": "citations_delta", "citation": citation}
    for name in ("text", "thinking", "signature"):
        if block.get(name):
            yield {"type": f"{name}_delta", name: block[name]}
