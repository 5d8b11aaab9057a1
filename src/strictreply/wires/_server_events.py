"""Server-sent events: how they are read as their bytes come, and written.

The source is the HTML standard, section 9.2, and what servers send otherwise.
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
MAX_BEGINNING = 200  # of a body or a message that is looked at to learn what it is

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a CR at the end may be half of a CRLF
_PLAIN = re.compile(rb"(?:event: ([a-z._]+)\n)?data: ([^\r\n]*)\n\n")

# how the lines of events begin
EVENT_FIELDS = (b"data:", b"event:", b"error:", b"id:", b"retry:", b":")


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
        self.began: bool = False
        self.idle_lines: int = 0  # that came since the last event
        self._has_feeds = False

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yield the events that are complete with these bytes."""
        goes_on = b"\n" not in piece and b"\r" not in piece
        if goes_on and self.began and not self._rest.endswith(b"\r"):
            # a long line is joined and searched once, however it comes
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
        # how servers write all but a few
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
        """How many bytes wait for the end of their line."""
        return len(self._rest) + sum(map(len, self._pending))

    def end(self) -> Iterator[Event]:
        """Yield the event that the end of the stream completes.

        There is one where lines end in CR: the last CR might have been half of a CRLF.
        """
        if self._rest.endswith(b"\r") and not self._has_feeds:
            rest = self._rest
            self._rest = b""
            yield from self._line(rest[:-1], rest)

    def last(self) -> Iterator[Event]:
        """Yield the event whose blank line never came, as it stands at the end of a recording."""
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
    """Return JSON as an event, in ASCII, so that no line or character can be cut by accident."""
    return b"data: %s\n\n" % json.dumps(chunk).encode()


def typed_event(chunk: JSON) -> bytes:
    """Return JSON as an event that has the name of its ``type``, as the Responses API does."""
    kind = chunk.get("type") if isinstance(chunk, dict) else None
    return b"event: %s\n%s" % (str(kind).encode(), event(chunk))


def is_events(body: bytes) -> bool:
    """Return whether a body begins as a stream of events does; an empty one is such a stream."""
    begun = beginning_of(body)
    return not begun or begun.startswith(EVENT_FIELDS)


def beginning_of(body: bytes) -> bytes:
    """Return the first bytes of a body, without a byte order mark and blanks."""
    return body.removeprefix(BYTE_ORDER_MARK).lstrip()[:MAX_BEGINNING]
