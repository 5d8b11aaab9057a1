"""Server-sent events: reading them from bytes, piece by piece, and writing them.

The sources are the HTML standard, section 9.2, and known deviations of servers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from strictreply.values._limits import JSON

DONE = b"data: [DONE]\n\n"
"""The event that ends a stream of the chat completions API; it is not JSON."""

DONE_DATA = b"[DONE]"
"""The data of that event."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_BEGINNING = 200  # bytes at the start of a body or a message that show what it is

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a CR at the end may be half of a CRLF
_PLAIN = re.compile(rb"(?:event: ([a-z._]+)\n)?data: ([^\r\n]*)\n\n")

# how the lines of events begin
EVENT_FIELDS = (b"data:", b"event:", b"error:", b"id:", b"retry:", b":")


class Event(NamedTuple):
    """One server-sent event."""

    name: str
    """Its type; empty for none."""
    data: bytes
    """Its data."""
    raw: bytes
    """The bytes that it was read from."""


class EventReader:
    """Reads events from the bytes of a stream; a blank line completes an event."""

    def __init__(self) -> None:
        self._rest = b""
        self._pending: list[bytes] = []
        self._name = ""
        self._data: list[bytes] = []
        self._raw: list[bytes] = []
        self.began: bool = False
        """Whether the first bytes were read."""
        self.idle_lines: int = 0
        """How many lines came since the last event."""
        self._has_feeds = False

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yield the events that are complete with these bytes."""
        goes_on = b"\n" not in piece and b"\r" not in piece
        if goes_on and self.began and not self._rest.endswith(b"\r"):
            # the pieces of a long line are joined and searched only once
            self._pending.append(piece)
            return

        rest = self._joined() + piece if self._rest or self._pending else piece
        if not self.began:
            if BYTE_ORDER_MARK.startswith(rest):
                self._rest = rest
                return

            self.began = True
            rest = rest.removeprefix(BYTE_ORDER_MARK)

        at = 0
        # the usual form of an event, read in one step
        while not self._raw and (plain := _PLAIN.match(rest, at)):
            at = plain.end()
            self._has_feeds = True
            self.idle_lines = 0
            yield Event((plain[1] or b"").decode(), plain[2], plain[0])

        while end := _LINE_END.search(rest, at):
            self._has_feeds |= end[0] != b"\r"
            yield from self._line(rest[at : end.start()], rest[at : end.end()])
            at = end.end()

        self._rest = rest[at:]

    def _joined(self) -> bytes:
        rest = b"".join((self._rest, *self._pending))
        self._rest = b""
        self._pending = []
        return rest

    @property
    def held(self) -> int:
        """The number of bytes of an unfinished line."""
        return len(self._rest) + sum(map(len, self._pending))

    def end(self) -> Iterator[Event]:
        """Yield the event that the end of the stream completes.

        It exists only if lines end in CR: the last CR might have been half of a CRLF.
        """
        if self._rest.endswith(b"\r") and not self._has_feeds:
            rest = self._rest
            self._rest = b""
            yield from self._line(rest[:-1], rest)

    def last(self) -> Iterator[Event]:
        """Yield the last event without its blank line, as at the end of a recording."""
        rest = self._joined()
        if rest:
            yield from self._line(rest.removesuffix(b"\r"), rest)

        yield from self._line(b"", b"")

    def _line(self, line: bytes, raw: bytes) -> Iterator[Event]:
        self._raw.append(raw)
        self.idle_lines += 1

        if not line:
            if self._data:
                self.idle_lines = 0
                yield Event(self._name, b"\n".join(self._data), b"".join(self._raw))

            self._name = ""
            self._data = []
            self._raw = []
            return

        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.decode("utf-8", "replace").strip()
        elif field == b"error":  # llama.cpp writes its errors so (ggml-org/llama.cpp#14566)
            self._name = "error"
            self._data.append(value.removeprefix(b" "))


def event(chunk: JSON) -> bytes:
    """Return JSON as an event, in ASCII, so that no line or character can be split by accident."""
    return b"data: %s\n\n" % json.dumps(chunk).encode()


def typed_event(chunk: JSON) -> bytes:
    """Return JSON as an event named after its ``type``, as in the Responses API."""
    kind = chunk.get("type") if isinstance(chunk, dict) else None
    return b"event: %s\n%s" % (str(kind).encode(), event(chunk))


def is_events(body: bytes) -> bool:
    """Return whether a body starts like a stream of events; an empty body does, too."""
    begun = beginning_of(body)
    return not begun or begun.startswith(EVENT_FIELDS)


def beginning_of(body: bytes) -> bytes:
    """Return the first bytes of a body, without a byte order mark and leading whitespace."""
    return body.removeprefix(BYTE_ORDER_MARK).lstrip()[:MAX_BEGINNING]
