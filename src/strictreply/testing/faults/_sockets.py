"""Faults of the connection: it breaks, goes silent, or carries what is not HTTP/1.1 (RFC 9112)."""

from __future__ import annotations

from functools import partial

from strictreply.testing._steps import CANARY, Kind
from strictreply.testing._targets import Target
from strictreply.testing._wire import Ending, HTTPReply, Pause
from strictreply.testing.faults._responses import as_sent, response_fault

_STATUS_LINE = b"HTTP/1.1 200 OK\r\n"
_HEAD = _STATUS_LINE + b"Content-Type: application/json\r\nConnection: close\r\n"
_JSON = {"Content-Type": "application/json"}
_DRIPPED_BYTES = 20
_DRIP = Pause(0.5)

_fault = partial(response_fault, Kind.TRANSPORT)


def _raw(*parts: bytes, ending: Ending = Ending.CUT, endless: bool = False) -> HTTPReply:
    """Send bytes that no server would."""
    return HTTPReply(parts=parts, ending=ending, framing="raw", endless=endless)


def _half(target: Target, ending: Ending) -> HTTPReply:
    """Send the head and half of the body."""
    whole = as_sent(target)
    headers = {**_JSON, "Content-Length": str(len(whole))}
    return HTTPReply(200, headers, (whole[: len(whole) // 2],), ending)


def _with_lengths(target: Target, *lengths: str) -> HTTPReply:
    """Send the whole body under these Content-Lengths."""
    declared = "".join(f"Content-Length: {length}\r\n" for length in lengths)
    return _raw(_HEAD + declared.encode() + b"\r\n" + as_sent(target))


@_fault("connection")
def reset_before_response(_: Target) -> HTTPReply:
    """The connection is reset before the response."""
    return HTTPReply(ending=Ending.RESET)


@_fault("connection")
def closed_before_response(_: Target) -> HTTPReply:
    """The connection is closed before the response."""
    return HTTPReply(ending=Ending.CUT)


@_fault("timeout")
def no_response(_: Target) -> HTTPReply:
    """The request is taken, and nothing is answered."""
    return HTTPReply(ending=Ending.HANG)


@_fault("connection")
def closed_in_head(_: Target) -> HTTPReply:
    """The connection is closed between two headers."""
    return _raw(_HEAD)


@_fault("timeout")
def hang_in_head(_: Target) -> HTTPReply:
    """Nothing more comes after the first headers."""
    return _raw(_HEAD, ending=Ending.HANG)


@_fault("connection")
def endless_head(_: Target) -> HTTPReply:
    """Header follows header, and no body."""
    return _raw(_STATUS_LINE, b"X-Filler: %b\r\n" % (b"a" * 1000), endless=True)


@_fault("connection")
def reset_in_body(target: Target) -> HTTPReply:
    """The connection is reset in the middle of the body."""
    return _half(target, Ending.RESET)


@_fault("connection")
def closed_in_body(target: Target) -> HTTPReply:
    """The connection is closed before as many bytes came as Content-Length says."""
    return _half(target, Ending.CUT)


@_fault("timeout")
def hang_in_body(target: Target) -> HTTPReply:
    """Nothing more comes after half of the body."""
    return _half(target, Ending.HANG)


@_fault("timeout")
def dripping_body(target: Target) -> HTTPReply:
    """The body comes byte by byte, half a second apart, and stops: only a total deadline notices early."""
    drops = as_sent(target)[:_DRIPPED_BYTES]
    parts = tuple(part for drop in drops for part in (_DRIP, bytes([drop])))
    return HTTPReply(200, _JSON, parts, Ending.HANG)


@_fault("connection")
def closed_between_chunks(target: Target) -> HTTPReply:
    """The chunked body is complete but for the last chunk, which ends it (RFC 9112 section 7.1)."""
    return HTTPReply(200, _JSON, (as_sent(target),), Ending.CUT, "chunked")


@_fault("connection")
def broken_chunk(target: Target) -> HTTPReply:
    """The size of a chunk is no hexadecimal number."""
    return _raw(_HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + as_sent(target) + b"\r\n0\r\n\r\n")


@_fault("envelope.malformed")
def content_length_too_small(target: Target) -> HTTPReply:
    """Content-Length is half of what comes: the body reads as cut."""
    return _with_lengths(target, str(len(as_sent(target)) // 2))


@_fault("connection")
def content_length_twice(target: Target) -> HTTPReply:
    """Two different Content-Lengths: nobody knows where the body ends."""
    length = len(as_sent(target))
    return _with_lengths(target, str(length), str(length // 2))


@_fault("connection")
def content_length_no_number(target: Target) -> HTTPReply:
    """Content-Length is a word."""
    return _with_lengths(target, "unknown")


@_fault("connection")
def not_http(_: Target) -> HTTPReply:
    """Another protocol answers on the port."""
    return _raw(b"SSH-2.0-OpenSSH_9.2 %b\r\n" % CANARY.encode())


@_fault("connection")
def status_line_garbled(target: Target) -> HTTPReply:
    """The status is no number."""
    return _raw(_HEAD.replace(b"200 OK", b"OK") + b"\r\n" + as_sent(target))
