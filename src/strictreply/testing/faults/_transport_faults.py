"""Faults of the HTTP response, and of its connection (RFC 9112)."""

from __future__ import annotations

import json
import zlib
from functools import partial
from itertools import repeat

from strictreply.testing._chat_writer import events
from strictreply.testing._steps import CANARY, Kind, Target
from strictreply.testing._wire import EVENT_STREAM, HTTPReply, Pause, WireEnding, error_reply
from strictreply.testing.faults._catalogue import Entry, response_entry

_JSON = {"Content-Type": "application/json"}


def as_sent(target: Target) -> bytes:
    """Return the body of the good reply as an API without streaming sends it."""
    return HTTPReply.json(200, target.clean).body


def html_reply(status: int, title: str) -> HTTPReply:
    """Return the HTML page of a proxy."""
    page = (
        f"<html><head><title>{title}</title></head>"
        f"<body><h1>{title}</h1><hr>{CANARY}</body></html>\r\n"
    )
    return HTTPReply(status, {"Content-Type": "text/html"}, (page.encode(),))


def _error(
    status: int,
    summary: str,
    message: str,
    code: str | None = None,
    kind: str = "invalid_request_error",
    reason: str = "",
    **headers: str,
) -> Entry:
    """Serve an error as the API writes it; ``_`` in a header's name stands for ``-``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = error_reply(status, f"{message} ({CANARY})", kind=kind, code=code, headers=named)
    return _http(reason or _REASONS[status], f"A {status}: {summary}", reply)


def _compressed_bomb(target: Target) -> HTTPReply:
    reply = json.dumps(target.completion(target.text(target.value) + CANARY)).encode()
    before, after = reply.split(CANARY.encode())

    gzip = zlib.compressobj(wbits=31)
    # The blanks are never in memory at once.
    pieces = (before, *repeat(_BLANKS * 16, _BOMB_MEGABYTES), after)
    return HTTPReply(200, _ZIPPED, (b"".join(map(gzip.compress, pieces)) + gzip.flush(),))


def _ok(body: bytes, kind: str = "application/json") -> HTTPReply:
    return HTTPReply(200, {"Content-Type": kind}, (body,) if body else ())


def _streamed(target: Target) -> HTTPReply:
    return HTTPReply(200, EVENT_STREAM, events(target.clean), framing="chunked")


def _raw(*parts: bytes, ending: WireEnding = WireEnding.CUT, endless: bool = False) -> HTTPReply:
    """Send bytes that no server would."""
    return HTTPReply(parts=parts, ending=ending, framing="raw", endless=endless)


def _headed(headers: bytes) -> HTTPReply:
    """Send the good body under more headers."""
    return _raw(_HEAD + headers + b"\r\n\r\n$body")


def _half(ending: WireEnding) -> HTTPReply:
    """Send the head, and half of the body that it announces."""
    return HTTPReply(200, {**_JSON, "Content-Length": "$length"}, (b"$half",), ending)


def _dripping(target: Target) -> HTTPReply:
    parts = tuple(part for drop in as_sent(target)[:20] for part in (Pause(0.5), bytes([drop])))
    return HTTPReply(200, _JSON, parts, WireEnding.HANG)


# Statuses
_http = partial(response_entry, Kind.HTTP)
_malformed = partial(_http, "envelope.malformed")
_server_error = partial(_http, "server_error")
_broken = partial(_http, "connection")
_too_large = partial(_http, "response_too_large")

# What a client calls the failure, by the status.
_REASONS = {
    400: "invalid_request",
    401: "authentication_failed",
    403: "permission_denied",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    413: "request_too_large",
    422: "invalid_request",
    429: "rate_limit",
    500: "server_error",
    503: "server_error",
    529: "server_error",
}
_limited = partial(
    _error,
    429,
    message="Rate limit reached for requests",
    code="rate_limit_exceeded",
    kind="requests",
)
_TOO_LONG = "The maximum context length is 8192 tokens"
_NO_ACCESS = "The project has no access to the model"
_LOCKED = "The resource is locked by another request"
_HAD_ERROR = "The server had an error while processing the request"
_BUSY = "The engine is currently overloaded"
_DATE = "Thu, 01 Jan 2026 00:00:00 GMT"
_LATER = "Thu, 01 Jan 2026 00:00:05 GMT"
_NO_URL = HTTPReply(307, {"Location": "http://model.invalid:port/"})

bad_request: Entry = _error(
    400, "the API rejects a value in the request.", "Invalid value: 'tools'", "invalid_value"
)
context_length_exceeded: Entry = _error(
    400,
    "the messages are too long for the model's context.",
    _TOO_LONG,
    "context_length_exceeded",
    reason="context_length_exceeded",
)
unauthorized: Entry = _error(
    401, "the API key is unknown.", "Incorrect API key provided", "invalid_api_key"
)
forbidden: Entry = _error(
    403, "the API key may not use the model.", _NO_ACCESS, "model_not_allowed"
)
model_not_found: Entry = _error(
    404, "the model does not exist.", "The model does not exist", "model_not_found"
)
request_timeout: Entry = _error(
    408, "the request came too slowly.", "The request timed out", kind="timeout"
)
conflict: Entry = _error(409, "another request holds a lock.", _LOCKED, kind="conflict")
content_too_large: Entry = _error(
    413, "the body is too large.", "The request is larger than 4 MB", "request_too_large"
)
unprocessable_content: Entry = _error(
    422, "the API rejects the content of the request.", "tools.0.function: field required"
)
rate_limited: Entry = _limited("the response has no Retry-After.")
rate_limited_seconds: Entry = _limited("Retry-After is 2 seconds.", Retry_After="2")
rate_limited_milliseconds: Entry = _limited(
    "retry-after-ms is 1500.", Retry_After="2", retry_after_ms="1500"
)
rate_limited_date: Entry = _limited(
    "Retry-After is a date, 5 seconds after Date.", Date=_DATE, Retry_After=_LATER
)
rate_limited_zero: Entry = _limited(
    "Retry-After is 0; a client that obeys it retries in a tight loop.", Retry_After="0"
)
rate_limited_negative: Entry = _limited("Retry-After is negative.", Retry_After="-1")
rate_limited_hour: Entry = _limited(
    "Retry-After is an hour; a client that obeys it seems to hang.", Retry_After="3600"
)
rate_limited_garbage: Entry = _limited(
    "Retry-After is neither seconds nor a date.", Retry_After="soon"
)
_spent = partial(
    _error, code="insufficient_quota", kind="insufficient_quota", reason="insufficient_credits"
)
quota_spent: Entry = _spent(
    429, "the quota is exhausted, and waiting does not help.", "You exceeded your current quota"
)
internal_server_error: Entry = _error(500, "the API failed.", _HAD_ERROR, kind="server_error")
bad_gateway: Entry = _server_error(
    "A 502 with a proxy's HTML page.", html_reply(502, "502 Bad Gateway")
)
service_unavailable: Entry = _error(
    503, "Retry-After is 1 second.", _BUSY, kind="server_error", Retry_After="1"
)
gateway_timeout: Entry = _server_error(
    "A 504 with a proxy's HTML page.", html_reply(504, "504 Gateway Time-out")
)
overloaded: Entry = _error(
    529,
    "the status of some providers when they are overloaded.",
    "Overloaded",
    kind="overloaded_error",
)
redirect_without_location: Entry = _http("api_error", "A 307 without a Location.", HTTPReply(307))
redirect_to_no_address: Entry = _broken("A 307 whose Location is not a URL.", _NO_URL)

# Bodies that are not a completion

# What the bomb expands to: more than the 16 MB that the gate reads of a response by default.
_BOMB_MEGABYTES = 20
_BLANKS = b" " * (1 << 16)
_ZIPPED = {**_JSON, "Content-Encoding": "gzip"}
_PAGE = html_reply(200, "Sign in")
_SENTENCE = f"upstream request timeout ({CANARY})".encode()
_UNZIPPED = HTTPReply(200, _ZIPPED, (b"$body",))
_ENDLESS = HTTPReply(200, _JSON, (b"$body", _BLANKS), WireEnding.CUT, "chunked", endless=True)

html_page: Entry = _malformed("A 200 with a proxy's HTML page, such as a login page.", _PAGE)
plain_text: Entry = _malformed("A 200 with a sentence as text/plain.", _ok(_SENTENCE, "text/plain"))
page_as_json: Entry = _malformed(
    "A 200 with an HTML page that is declared as JSON.", _ok(_PAGE.body)
)
empty_body: Entry = _malformed("A 200 without a body.", _ok(b""))
no_content: Entry = _malformed("A 204, which has no body.", HTTPReply(204))
half_body: Entry = _malformed(
    "The JSON of the completion is cut in half, but the HTTP response is complete.", _ok(b"$half")
)
body_twice: Entry = _malformed("The body has the completion twice.", _ok(b"$body$body"))
body_not_utf8: Entry = _malformed(
    "The body contains a byte that is not UTF-8.",
    lambda target: _ok(as_sent(target).replace(b'"scripted"', b'"script\xe9d"')),
)
body_in_array: Entry = _malformed("The completion is inside a JSON array.", _ok(b"[$body]"))
unasked_stream: Entry = _malformed(
    "The response is a stream, although the request did not ask for one.",
    _streamed,
    needs={"stream": False},
)
gzip_bomb: Entry = _too_large(
    "The body has 20 MB of spaces after the completion, compressed to about 20 KB.",
    _compressed_bomb,
)
gzip_not_compressed: Entry = _broken(
    "The body is not compressed, but the headers declare gzip.", _UNZIPPED
)
endless_body: Entry = _too_large(
    "The body has spaces after the completion, without end; it stays valid JSON.", _ENDLESS
)

# The connection
_STATUS_LINE = b"HTTP/1.1 200 OK\r\n"
_HEAD = _STATUS_LINE + b"Content-Type: application/json\r\nConnection: close\r\n"
_connection = partial(response_entry, Kind.TRANSPORT, "connection")
_timeout = partial(response_entry, Kind.TRANSPORT, "timeout")
_misread = partial(response_entry, Kind.TRANSPORT, "envelope.malformed")
_FILLER = _raw(_STATUS_LINE, b"X-Filler: %b\r\n" % (b"a" * 1000), endless=True)
_NO_LAST_CHUNK = HTTPReply(200, _JSON, (b"$body",), WireEnding.CUT, "chunked")
_BAD_CHUNK = _raw(_HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n$body\r\n0\r\n\r\n")
_TWO_LENGTHS = _headed(b"Content-Length: $length\r\nContent-Length: $half_length")
_SSH = _raw(b"SSH-2.0-OpenSSH_9.2 %b\r\n" % CANARY.encode())
_NO_STATUS = _raw(_HEAD.replace(b"200 OK", b"OK") + b"\r\n$body")

reset_before_response: Entry = _connection(
    "The connection is reset before the response.", HTTPReply(ending=WireEnding.RESET)
)
closed_before_response: Entry = _connection(
    "The connection is closed before the response.", HTTPReply(ending=WireEnding.CUT)
)
no_response: Entry = _timeout(
    "The server reads the request and never responds.", HTTPReply(ending=WireEnding.HANG)
)
closed_in_head: Entry = _connection("The connection is closed between two headers.", _raw(_HEAD))
hang_in_head: Entry = _timeout(
    "The server stops sending after the first headers, and keeps the connection open.",
    _raw(_HEAD, ending=WireEnding.HANG),
)
endless_head: Entry = _connection("The server sends headers without end, and no body.", _FILLER)
reset_in_body: Entry = _connection(
    "The connection is reset in the middle of the body.", _half(WireEnding.RESET)
)
closed_in_body: Entry = _connection(
    "The connection is closed before Content-Length is reached.", _half(WireEnding.CUT)
)
hang_in_body: Entry = _timeout(
    "The server stops sending in the middle of the body, and keeps the connection open.",
    _half(WireEnding.HANG),
)
dripping_body: Entry = _timeout(
    "The server sends a byte every half second, then stops; only a total deadline ends the call.",
    _dripping,
)
closed_between_chunks: Entry = _connection(
    "The final chunk of a chunked body is missing.", _NO_LAST_CHUNK
)
broken_chunk: Entry = _connection("The size of a chunk is not a hexadecimal number.", _BAD_CHUNK)
content_length_too_small: Entry = _misread(
    "Content-Length is half the length of the body.", _headed(b"Content-Length: $half_length")
)
content_length_twice: Entry = _connection(
    "The response has two different Content-Length headers, so its end is unknown.", _TWO_LENGTHS
)
content_length_no_number: Entry = _connection(
    "Content-Length is a word.", _headed(b"Content-Length: unknown")
)
not_http: Entry = _connection("Another protocol answers on the port.", _SSH)
status_line_garbled: Entry = _connection(
    "The status in the status line is not a number.", _NO_STATUS
)
