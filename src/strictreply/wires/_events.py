"""Server-sent events (WHATWG HTML section 9.2.6), read from bytes that may be cut anywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from strictreply.values._limits import JSON

DONE = b"data: [DONE]\n\n"
"""The event that ends a stream of the chat completions API; it is not JSON."""

DONE_DATA = b"[DONE]"

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a CR at the end may be half of a CRLF
_PLAIN = re.compile(rb"(?:event: ([a-z._]+)\n)?data: ([^\r\n]*)\n\n")
_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event: its type (empty for none), its data, and the bytes it was written in."""

    name: str
    data: bytes
    raw: bytes


class EventReader:
    """Reads events as their bytes come; one is complete with the blank line behind it."""

    def __init__(self) -> None:
        self._rest = b""
        self._pending: list[bytes] = []
        self._name = ""
        self._data: list[bytes] = []
        self._raw: list[bytes] = []
        self.began = False
        self._has_feeds = False

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yield the events that are complete with these bytes."""
        if self.began and not self._rest.endswith(b"\r") and b"\n" not in piece and b"\r" not in piece:
            self._pending.append(piece)  # a long line is joined and searched once, however it comes
            return
        rest = self._joined() + piece
        if not self.began:
            if _BOM.startswith(rest):
                self._rest = rest
                return
            self.began, rest = True, rest.removeprefix(_BOM)
        at = 0
        while not self._raw and (plain := _PLAIN.match(rest, at)):  # how servers write all but a few
            at, self._has_feeds = plain.end(), True
            yield Event((plain[1] or b"").decode(), plain[2], plain[0])
        while end := _LINE_END.search(rest, at):
            self._has_feeds |= end[0] != b"\r"
            yield from self._line(rest[at : end.start()], rest[at : end.end()])
            at = end.end()
        self._rest = rest[at:]

    def _joined(self) -> bytes:
        rest, self._rest, self._pending = b"".join((self._rest, *self._pending)), b"", []
        return rest

    @property
    def held(self) -> int:
        """How many bytes wait for the end of their line."""
        return len(self._rest) + sum(map(len, self._pending))

    def end(self) -> Iterator[Event]:
        """Yield the event that the end of the stream completes: where lines end in CR, the last one was waited with."""
        if self._rest.endswith(b"\r") and not self._has_feeds:
            rest, self._rest = self._rest, b""
            yield from self._line(rest[:-1], rest)

    def last(self) -> Iterator[Event]:
        """Yield the event whose blank line never came, as it stands at the end of a recording."""
        rest = self._joined()
        if rest:
            yield from self._line(rest.removesuffix(b"\r"), rest)
        yield from self._line(b"", b"")

    def _line(self, line: bytes, raw: bytes) -> Iterator[Event]:
        self._raw.append(raw)
        if not line:
            if self._data:
                yield Event(self._name, b"\n".join(self._data), b"".join(self._raw))
            self._name, self._data, self._raw = "", [], []
            return
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.decode("utf-8", "replace").strip()


def event(chunk: JSON) -> bytes:
    """Write JSON as an event; it is ASCII, so that no line or character can be cut by accident."""
    return b"data: %s\n\n" % json.dumps(chunk).encode()


def typed_event(chunk: JSON) -> bytes:
    """Write JSON as an event that has the name of its ``type``, as the Responses API does."""
    kind = chunk.get("type") if isinstance(chunk, dict) else None
    return b"event: %s\n%s" % (str(kind).encode(), event(chunk))
