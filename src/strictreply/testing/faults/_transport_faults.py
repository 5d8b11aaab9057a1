"""Faults of the HTTP response and of the connection that it comes over.

Statuses that are errors, a 200 whose body is no completion; a connection that breaks, goes silent, or carries what is
not HTTP/1.1 (RFC 9112). A row of a table is ``name = factory(code, summary, response)``.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from functools import partial

from strictreply.testing._event_streams import events
from strictreply.testing._steps import CANARY, Kind
from strictreply.testing._targets import Target
from strictreply.testing._wire import EVENT_STREAM, HTTPReply, Pause, WireEnding, error_reply
from strictreply.testing.faults._catalogue import Entry, response_entry

_JSON = {"Content-Type": "application/json"}

# Statuses

_SENT = "Thu, 01 Jan 2026 00:00:00 GMT"
_FIVE_SECONDS_LATER = "Thu, 01 Jan 2026 00:00:05 GMT"


def as_sent(target: Target) -> bytes:
    """Return the body of the good reply as an API without streaming sends it."""
    return HTTPReply.json(200, target.clean).body


def html_reply(status: int, title: str) -> HTTPReply:
    """Return the HTML page of a proxy."""
    page = f"<html><head><title>{title}</title></head><body><h1>{title}</h1><hr>{CANARY}</body></html>\r\n"
    return HTTPReply(status, {"Content-Type": "text/html"}, (page.encode(),))


def _error(
    status: int, message: str, code: str | None = None, kind: str = "invalid_request_error", **headers: str
) -> HTTPReply:
    """Write an error as the API does; ``_`` in a header's name stands for ``-``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return error_reply(status, f"{message} ({CANARY})", kind=kind, code=code, headers=named)


_limited = partial(_error, 429, "Rate limit reached for requests", "rate_limit_exceeded", "requests")

_http = partial(response_entry, Kind.HTTP)
_refused = partial(_http, "invalid_request")
_rate_limited = partial(_http, "rate_limit")
_failed = partial(_http, "server_error")
_malformed = partial(_http, "envelope.malformed")

bad_request: Entry = _refused(
    "A 400: a value of the request is refused.", _error(400, "Invalid value: 'tools'", "invalid_value")
)
context_length_exceeded: Entry = _refused(
    "A 400: the messages are longer than the model's context.",
    _error(400, "The maximum context length is 8192 tokens", "context_length_exceeded"),
)
unauthorized: Entry = _http(
    "authentication_failed",
    "A 401: the key is not known.",
    _error(401, "Incorrect API key provided", "invalid_api_key"),
)
forbidden: Entry = _http(
    "permission_denied",
    "A 403: the key may not use the model.",
    _error(403, "The project has no access to the model", "model_not_allowed"),
)
model_not_found: Entry = _http(
    "not_found", "A 404: there is no such model.", _error(404, "The model does not exist", "model_not_found")
)
request_timeout: Entry = _http(
    "timeout",
    "A 408: the server gave up waiting for the request.",
    _error(408, "The request timed out", kind="timeout"),
)
conflict: Entry = _http(
    "conflict",
    "A 409: another request holds a lock.",
    _error(409, "The resource is locked by another request", kind="conflict"),
)
content_too_large: Entry = _http(
    "request_too_large",
    "A 413: the body of the request is too large.",
    _error(413, "The request is larger than 4 MB", "request_too_large"),
)
unprocessable_content: Entry = _refused(
    "A 422: the request is well-formed, and its content refused.", _error(422, "tools.0.function: field required")
)
rate_limited: Entry = _rate_limited("A 429 that does not say how long to wait.", _limited())
rate_limited_seconds: Entry = _rate_limited("A 429 with a Retry-After of 2 seconds.", _limited(Retry_After="2"))
rate_limited_milliseconds: Entry = _rate_limited(
    "A 429 with a retry-after-ms of 1500 beside a rounded Retry-After.",
    _limited(Retry_After="2", retry_after_ms="1500"),
)
rate_limited_date: Entry = _rate_limited(
    "A 429 whose Retry-After is an HTTP date, 5 seconds after its own Date.",
    _limited(Date=_SENT, Retry_After=_FIVE_SECONDS_LATER),
)
rate_limited_zero: Entry = _rate_limited(
    "A 429 with a Retry-After of 0: a client that obeys it blindly asks in a tight loop.", _limited(Retry_After="0")
)
rate_limited_negative: Entry = _rate_limited("A 429 with a negative Retry-After.", _limited(Retry_After="-1"))
rate_limited_hour: Entry = _rate_limited(
    "A 429 with a Retry-After of an hour: a client that obeys it blindly hangs.", _limited(Retry_After="3600")
)
rate_limited_garbage: Entry = _rate_limited(
    "A 429 with a Retry-After that is neither seconds nor a date.", _limited(Retry_After="soon")
)
quota_spent: Entry = _http(
    "insufficient_credits",
    "A 429 that waiting does not help: the quota is spent.",
    _error(429, "You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
)
internal_server_error: Entry = _failed(
    "A 500 of the API.", _error(500, "The server had an error while processing the request", kind="server_error")
)
bad_gateway: Entry = _failed("A 502 as a proxy's HTML page.", html_reply(502, "502 Bad Gateway"))
service_unavailable: Entry = _failed(
    "A 503 with a Retry-After of 1 second.",
    _error(503, "The engine is currently overloaded", kind="server_error", Retry_After="1"),
)
gateway_timeout: Entry = _failed("A 504 as a proxy's HTML page.", html_reply(504, "504 Gateway Time-out"))
overloaded: Entry = _failed(
    "A 529, the status that some providers made up for being overloaded.",
    _error(529, "Overloaded", kind="overloaded_error"),
)
redirect_without_location: Entry = _http("api_error", "A 307 without a Location.", HTTPReply(307))
redirect_to_no_address: Entry = _http(
    "connection", "A 307 whose Location is not a URL.", HTTPReply(307, {"Location": "http://model.invalid:port/"})
)

# Bodies that are no completion

_BOMB_MEGABYTES = 20
"""What the bomb expands to: more than the 16 MB that the gate reads of a response at its default caps."""

_BLANKS = b" " * (1 << 16)


def _compressed_bomb(target: Target) -> Iterator[bytes]:
    # Piece by piece: the blanks after the reply are never in memory at once.
    before, after = json.dumps(target.completion(target.text(target.value) + CANARY)).encode().split(CANARY.encode())
    gzip = zlib.compressobj(wbits=31)
    yield gzip.compress(before)
    for _ in range(_BOMB_MEGABYTES):
        yield gzip.compress(_BLANKS * 16)
    yield gzip.compress(after)
    yield gzip.flush()


html_page: Entry = _malformed("A 200 that is a proxy's HTML page, such as a login.", html_reply(200, "Sign in"))
plain_text: Entry = _malformed(
    "A 200 that is a sentence in text/plain.",
    HTTPReply(200, {"Content-Type": "text/plain"}, (f"upstream request timeout ({CANARY})".encode(),)),
)
page_as_json: Entry = _malformed(
    "A 200 that says it is JSON and is an HTML page.", HTTPReply(200, _JSON, html_reply(200, "Sign in").parts)
)
empty_body: Entry = _malformed("A 200 without a body.", HTTPReply(200, _JSON))
no_content: Entry = _malformed("A 204, which has no body.", HTTPReply(204))
half_body: Entry = _malformed(
    "The JSON of the completion ends halfway, though the response is whole.",
    lambda target: HTTPReply(200, _JSON, (_first_half(target),)),
)
body_twice: Entry = _malformed(
    "The completion comes twice in one body.", lambda target: HTTPReply(200, _JSON, (as_sent(target) * 2,))
)
body_not_utf8: Entry = _malformed(
    "The body holds a byte that is not UTF-8.",
    lambda target: HTTPReply(200, _JSON, (as_sent(target).replace(b'"scripted"', b'"script\xe9d"'),)),
)
body_in_array: Entry = _malformed(
    "The completion stands in a JSON array.", lambda target: HTTPReply.json(200, [target.clean])
)
unasked_stream: Entry = _malformed(
    "Server-sent events come, though no stream was asked for.",
    lambda target: HTTPReply(200, EVENT_STREAM, events(target.clean), framing="chunked"),
    needs={"stream": False},
)
gzip_bomb: Entry = _http(
    "response_too_large",
    "A reply with 20 MB of blanks after it, compressed to some 20 KB.",
    lambda target: HTTPReply(200, {**_JSON, "Content-Encoding": "gzip"}, (b"".join(_compressed_bomb(target)),)),
)
gzip_not_compressed: Entry = _http(
    "connection",
    "The body says it is compressed with gzip, and is not.",
    lambda target: HTTPReply(200, {**_JSON, "Content-Encoding": "gzip"}, (as_sent(target),)),
)
endless_body: Entry = _http(
    "response_too_large",
    "Blanks follow the completion for ever; each is valid JSON so far.",
    lambda target: HTTPReply(200, _JSON, (as_sent(target), _BLANKS), WireEnding.CUT, "chunked", endless=True),
)

# The connection

_STATUS_LINE = b"HTTP/1.1 200 OK\r\n"
_HEAD = _STATUS_LINE + b"Content-Type: application/json\r\nConnection: close\r\n"
_DRIPPED_BYTES = 20
_DRIP = Pause(0.5)


def _raw(*parts: bytes, ending: WireEnding = WireEnding.CUT, endless: bool = False) -> HTTPReply:
    """Send bytes that no server would."""
    return HTTPReply(parts=parts, ending=ending, framing="raw", endless=endless)


def _first_half(target: Target) -> bytes:
    whole = as_sent(target)
    return whole[: len(whole) // 2]


def _half(target: Target, ending: WireEnding) -> HTTPReply:
    """Send the head, and half of the body that it announces."""
    headers = {**_JSON, "Content-Length": str(len(as_sent(target)))}
    return HTTPReply(200, headers, (_first_half(target),), ending)


def _with_lengths(target: Target, *lengths: int | str) -> HTTPReply:
    """Send the whole body under these Content-Lengths."""
    declared = "".join(f"Content-Length: {length}\r\n" for length in lengths)
    return _raw(_HEAD + declared.encode() + b"\r\n" + as_sent(target))


def _dripping(target: Target) -> HTTPReply:
    parts = tuple(part for drop in as_sent(target)[:_DRIPPED_BYTES] for part in (_DRIP, bytes([drop])))
    return HTTPReply(200, _JSON, parts, WireEnding.HANG)


_connection = partial(response_entry, Kind.TRANSPORT, "connection")
_timeout = partial(response_entry, Kind.TRANSPORT, "timeout")

reset_before_response: Entry = _connection(
    "The connection is reset before the response.", HTTPReply(ending=WireEnding.RESET)
)
closed_before_response: Entry = _connection(
    "The connection is closed before the response.", HTTPReply(ending=WireEnding.CUT)
)
no_response: Entry = _timeout("The request is taken, and nothing is answered.", HTTPReply(ending=WireEnding.HANG))
closed_in_head: Entry = _connection("The connection is closed between two headers.", _raw(_HEAD))
hang_in_head: Entry = _timeout("Nothing more comes after the first headers.", _raw(_HEAD, ending=WireEnding.HANG))
endless_head: Entry = _connection(
    "Headers come without end, and no body.", _raw(_STATUS_LINE, b"X-Filler: %b\r\n" % (b"a" * 1000), endless=True)
)
reset_in_body: Entry = _connection(
    "The connection is reset in the middle of the body.", lambda target: _half(target, WireEnding.RESET)
)
closed_in_body: Entry = _connection(
    "The connection is closed before all the bytes came that Content-Length announces.",
    lambda target: _half(target, WireEnding.CUT),
)
hang_in_body: Entry = _timeout(
    "Nothing more comes after half of the body.", lambda target: _half(target, WireEnding.HANG)
)
dripping_body: Entry = _timeout(
    "The body comes byte by byte, half a second apart, and stops: only a total deadline notices early.", _dripping
)
closed_between_chunks: Entry = _connection(
    "The chunked body is complete but for the last chunk, which ends it (RFC 9112 section 7.1).",
    lambda target: HTTPReply(200, _JSON, (as_sent(target),), WireEnding.CUT, "chunked"),
)
broken_chunk: Entry = _connection(
    "The size of a chunk is not a hexadecimal number.",
    lambda target: _raw(_HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + as_sent(target) + b"\r\n0\r\n\r\n"),
)
content_length_too_small: Entry = response_entry(
    Kind.TRANSPORT,
    "envelope.malformed",
    "Content-Length is half of what comes: the body reads as cut.",
    lambda target: _with_lengths(target, len(as_sent(target)) // 2),
)
content_length_twice: Entry = _connection(
    "Two different Content-Lengths: nobody knows where the body ends.",
    lambda target: _with_lengths(target, len(as_sent(target)), len(as_sent(target)) // 2),
)
content_length_no_number: Entry = _connection(
    "Content-Length is a word.", lambda target: _with_lengths(target, "unknown")
)
not_http: Entry = _connection(
    "Another protocol answers on the port.", _raw(b"SSH-2.0-OpenSSH_9.2 %b\r\n" % CANARY.encode())
)
status_line_garbled: Entry = _connection(
    "The status is not a number.", lambda target: _raw(_HEAD.replace(b"200 OK", b"OK") + b"\r\n" + as_sent(target))
)
