"""Translate bodies that are written for chat completions for another API.

Completions and chunks become those of that API. Everything around them stays: a body that is cut,
repeated or badly framed is so in the other API, too.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

from strictreply.core import JSON, JSONObject
from strictreply.testing._chat_writer import event
from strictreply.testing._wire import CHAT, HTTPReply, member

_OBJECT = re.compile(rb'\{"(?:id|error|message)": ')
_DONE = re.compile(rb"data: \[DONE\]\s*")
_NAMED_ERROR = b"event: error\n"


class Retelling(ABC):
    """The chunks of one stream so far, and the events of another API for them."""

    own: ClassVar[re.Pattern[bytes]]
    """Text that identifies a stream of that API itself, which is served unchanged."""

    @abstractmethod
    def whole(self, completion: JSON) -> JSON:
        """Return a completion as a response."""

    @abstractmethod
    def events(self, chunk: JSONObject) -> Iterator[JSON]:
        """Yield the events of a chunk, which may be malformed."""

    @abstractmethod
    def ended(self) -> Iterator[JSON]:
        """Yield the events of the end of a stream."""

    @abstractmethod
    def error(self, value: JSON, *, is_named: bool) -> JSON:
        """Return the event of an error; None for another value, which stays unchanged.

        ``is_named`` says that the value was an event of type ``error``.
        """


def retold(reply: HTTPReply, told: Retelling) -> HTTPReply:
    """Return a response with the completions and chunks in its body translated."""
    texts = [part for part in reply.parts if isinstance(part, bytes)]
    if any(map(told.own.search, texts)):
        return reply  # a recording of the API itself

    parts = (_retold(part, told) if isinstance(part, bytes) else part for part in reply.parts)
    return replace(reply, parts=tuple(parts))


def _retold(part: bytes, told: Retelling) -> bytes:
    if done := _DONE.search(part):
        return _written(told.ended(), part[: done.start()] + b"data: ", b"\n\n")

    out = b""
    at = 0
    while found := _OBJECT.search(part, at):
        value, end = _read(part, found.start())
        before = part[at : found.start()]
        read = part[found.start() : end]

        kind = member(value, "object")
        if kind == "chat.completion.chunk" and read.decode("utf-8", "ignore").encode() == read:
            return out + _written(told.events(value), before, part[end:])

        is_named = before.startswith(_NAMED_ERROR)
        error = told.error(value, is_named=is_named)
        if kind == "chat.completion":
            out += before + _bytes_of(told.whole(value))
        elif error is not None:
            out += _written([error], before.removeprefix(_NAMED_ERROR), b"")
        else:
            out += before + read

        at = end

    return out + part[at:]


def _read(part: bytes, start: int) -> tuple[Any, int]:
    """Return the JSON that begins at a byte, and where it ends.

    Returns None and the next byte when no JSON begins there.
    """
    text = part[start:].decode("utf-8", "surrogateescape")
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None, start + 1

    return value, start + len(text[:end].encode("utf-8", "surrogateescape"))


def _bytes_of(value: JSON) -> bytes:
    """Write JSON; bytes that are not UTF-8 are written as they were read."""
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a character, which was escaped
        return json.dumps(value).encode()


def _written(events: Iterable[JSON], before: bytes, after: bytes) -> bytes:
    """Write events between the bytes that stood around a chunk.

    Each event has its name where those bytes are of an event.
    """
    written = b""
    for one in events:
        kind = member(one, "type")
        name = b"event: %b\n" % kind.encode() if isinstance(kind, str) and before else b""
        written += name + before + _bytes_of(one) + after
    return written


def respelt(given: bytes) -> bytes:
    """Return an event of the user; a chunk of chat completions is written as the kit does."""
    chunk = chunk_in(given)
    return given if chunk is None else event(chunk)


def chunk_in(given: bytes) -> JSONObject | None:
    """Return the chunk of chat completions in an event of the user; None for another event."""
    reader = CHAT.reader()
    found = [*reader.feed(given), *reader.last()]
    if len(found) != 1 or found[0].name:
        return None

    try:
        value = json.loads(found[0].data)
    except (ValueError, RecursionError):
        return None

    if not isinstance(value, dict) or "choices" not in value:
        return None

    return {"id": value.get("id"), **value, "object": "chat.completion.chunk"}
