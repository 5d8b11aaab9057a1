"""How what a model serves becomes a response, and a response becomes bytes; who reads them is not known here."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from http.client import responses
from itertools import repeat

from strictreply.testing._sse import events
from strictreply.testing._wire import Ending, HTTPReply, Pause, Served
from strictreply.values._json import JSONObject

MAX_ENDLESS_BYTES = 64_000_000
"""How much of an endless body is sent before it is broken off, should the client never leave."""

EVENT_STREAM = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
"""The headers of a streamed completion."""

_FIRST_FINAL_STATUS = 200


def render(served: Served, request: JSONObject) -> HTTPReply:
    """Make the response to a request: a completion goes out plain or as events, as ``stream`` says."""
    if isinstance(served, HTTPReply):
        return served
    if not request.get("stream"):
        return HTTPReply.json(HTTPStatus.OK, served)
    options = request.get("stream_options")
    usage = isinstance(options, dict) and bool(options.get("include_usage"))
    return HTTPReply(HTTPStatus.OK, EVENT_STREAM, events(served, usage=usage), framing="chunked")


def wire(
    reply: HTTPReply, *, close: bool = False, bodiless: bool = False, most: int = MAX_ENDLESS_BYTES
) -> Iterator[bytes | Pause]:
    """Give a response as the bytes that leave a server, lazily; :func:`ending_of` says what follows the last of them.

    ``close`` announces that the connection ends, ``bodiless`` leaves the body out, as for HEAD. A length that the
    reply does not declare itself is the body's; one more when the ending is not whole, so that the body is seen to
    be cut. An endless body has no length and is chunked, unless it is raw; ``most`` is about how many bytes of it come.
    """
    if reply.framing == "raw":
        yield from () if bodiless else _parts(reply, most)
    elif reply.parts or reply.ending is Ending.WHOLE:
        yield _head(reply, close=close)
        yield from () if bodiless or not _has_body(reply.status) else _body(reply, most)


def _body(reply: HTTPReply, most: int) -> Iterator[bytes | Pause]:
    """Give the body as its framing has it."""
    chunked = _is_chunked(reply)
    for part in _parts(reply, most):
        yield _chunk(part) if chunked and isinstance(part, bytes) else part
    if chunked and not reply.endless and reply.ending is Ending.WHOLE:
        yield b"0\r\n\r\n"


def ending_of(reply: HTTPReply) -> Ending:
    """Tell what follows the last byte; a raw or endless response that is whole can only end with its connection."""
    ends_itself = reply.framing != "raw" and not reply.endless
    return reply.ending if ends_itself or reply.ending is not Ending.WHOLE else Ending.CUT


def _parts(reply: HTTPReply, most: int) -> Iterator[bytes | Pause]:
    """Give the parts in order but for empty ones, the last of an endless reply again and again."""
    yield from (part for part in reply.parts if part)
    if reply.endless:
        last = next((part for part in reversed(reply.parts) if part and isinstance(part, bytes)), b"")
        yield from repeat(last, most // len(last) if last else 0)


def _head(reply: HTTPReply, *, close: bool) -> bytes:
    """Spell the status line and the headers; those of the reply stay as they are."""
    headers = dict(reply.headers)
    given = {name.lower() for name in headers}
    if _is_chunked(reply) and "transfer-encoding" not in given:
        headers["Transfer-Encoding"] = "chunked"
    elif _has_body(reply.status) and not given & {"content-length", "transfer-encoding"}:
        headers["Content-Length"] = str(len(reply.body) + (reply.ending is not Ending.WHOLE))
    if close and "connection" not in given:
        headers["Connection"] = "close"
    lines = [
        f"HTTP/1.1 {reply.status} {responses.get(reply.status, '')}",
        *(f"{name}: {headers[name]}" for name in headers),
    ]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")


def _is_chunked(reply: HTTPReply) -> bool:
    """Tell whether the body goes out in chunks."""
    return reply.framing == "chunked" or reply.endless


def _has_body(status: int) -> bool:
    """Tell whether a response of this status has a body (RFC 9110 §6.4.1)."""
    return status >= _FIRST_FINAL_STATUS and status not in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}


def _chunk(data: bytes) -> bytes:
    """Frame one chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)
