"""Faults of the HTTP response, and of the connection that it comes over (RFC 9112).

A row of a table is ``name = factory(code, summary, response)``; :func:`~strictreply.testing.faults._catalogue.filled`
fills the ``$names`` in a response.
"""

from __future__ import annotations

import json
import zlib
from functools import partial
from itertools import repeat

from strictreply.testing._event_streams import events
from strictreply.testing._steps import CANARY, Kind, Target
from strictreply.testing._wire import EVENT_STREAM, HTTPReply, Pause, WireEnding, error_reply
from strictreply.testing.faults._catalogue import Entry, response_entry

_JSON = {"Content-Type": "application/json"}

# Statuses


def as_sent(target: Target) -> bytes:
    """Return the body of the good reply as an API without streaming sends it."""
    return HTTPReply.json(200, target.clean).body


def html_reply(status: int, title: str) -> HTTPReply:
    """Return the HTML page of a proxy."""
    page = f"<html><head><title>{title}</title></head><body><h1>{title}</h1><hr>{CANARY}</body></html>\r\n"
    return HTTPReply(status, {"Content-Type": "text/html"}, (page.encode(),))


_http = partial(response_entry, Kind.HTTP)
_malformed = partial(_http, "envelope.malformed")


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
    **dict.fromkeys((500, 502, 503, 504, 529), "server_error"),
}
"""What a client calls the failure, by the status."""


def _error(
    summary: str,
    status: int,
    message: str,
    code: str | None = None,
    kind: str = "invalid_request_error",
    reason: str = "",
    **headers: str,
) -> Entry:
    """Serve an error as the API writes it; ``_`` in a header's name stands for ``-``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = error_reply(status, f"{message} ({CANARY})", kind=kind, code=code, headers=named)
    return _http(reason or _REASONS[status], summary, reply)


def _rate_limited(summary: str, **headers: str) -> Entry:
    return _error(summary, 429, "Rate limit reached for requests", "rate_limit_exceeded", "requests", **headers)


bad_request: Entry = _error("A 400: a value of the request is refused.", 400, "Invalid value: 'tools'", "invalid_value")
context_length_exceeded: Entry = _error(
    "A 400: the messages are longer than the model's context.",
    400,
    "The maximum context length is 8192 tokens",
    "context_length_exceeded",
)
unauthorized: Entry = _error("A 401: the key is not known.", 401, "Incorrect API key provided", "invalid_api_key")
forbidden: Entry = _error(
    "A 403: the key may not use the model.", 403, "The project has no access to the model", "model_not_allowed"
)
model_not_found: Entry = _error("A 404: there is no such model.", 404, "The model does not exist", "model_not_found")
request_timeout: Entry = _error(
    "A 408: the server gave up waiting for the request.", 408, "The request timed out", kind="timeout"
)
conflict: Entry = _error(
    "A 409: another request holds a lock.", 409, "The resource is locked by another request", kind="conflict"
)
content_too_large: Entry = _error(
    "A 413: the body of the request is too large.", 413, "The request is larger than 4 MB", "request_too_large"
)
unprocessable_content: Entry = _error(
    "A 422: the request is well-formed, and its content refused.", 422, "tools.0.function: field required"
)
rate_limited: Entry = _rate_limited("A 429 that does not say how long to wait.")
rate_limited_seconds: Entry = _rate_limited("A 429 with a Retry-After of 2 seconds.", Retry_After="2")
rate_limited_milliseconds: Entry = _rate_limited(
    "A 429 with a retry-after-ms of 1500 beside a rounded Retry-After.", Retry_After="2", retry_after_ms="1500"
)
rate_limited_date: Entry = _rate_limited(
    "A 429 whose Retry-After is an HTTP date, 5 seconds after its own Date.",
    Date="Thu, 01 Jan 2026 00:00:00 GMT",
    Retry_After="Thu, 01 Jan 2026 00:00:05 GMT",
)
rate_limited_zero: Entry = _rate_limited(
    "A 429 with a Retry-After of 0: a client that obeys it blindly asks in a tight loop.", Retry_After="0"
)
rate_limited_negative: Entry = _rate_limited("A 429 with a negative Retry-After.", Retry_After="-1")
rate_limited_hour: Entry = _rate_limited(
    "A 429 with a Retry-After of an hour: a client that obeys it blindly hangs.", Retry_After="3600"
)
rate_limited_garbage: Entry = _rate_limited(
    "A 429 with a Retry-After that is neither seconds nor a date.", Retry_After="soon"
)
quota_spent: Entry = _error(
    "A 429 that waiting does not help: the quota is spent.",
    429,
    "You exceeded your current quota",
    "insufficient_quota",
    "insufficient_quota",
    "insufficient_credits",
)
internal_server_error: Entry = _error(
    "A 500 of the API.", 500, "The server had an error while processing the request", kind="server_error"
)
bad_gateway: Entry = _http("server_error", "A 502 as a proxy's HTML page.", html_reply(502, "502 Bad Gateway"))
service_unavailable: Entry = _error(
    "A 503 with a Retry-After of 1 second.",
    503,
    "The engine is currently overloaded",
    kind="server_error",
    Retry_After="1",
)
gateway_timeout: Entry = _http("server_error", "A 504 as a proxy's HTML page.", html_reply(504, "504 Gateway Time-out"))
overloaded: Entry = _error(
    "A 529, the status that some providers made up for being overloaded.", 529, "Overloaded", kind="overloaded_error"
)
redirect_without_location: Entry = _http("api_error", "A 307 without a Location.", HTTPReply(307))
redirect_to_no_address: Entry = _http(
    "connection", "A 307 whose Location is not a URL.", HTTPReply(307, {"Location": "http://model.invalid:port/"})
)

# Bodies that are no completion
# What the bomb expands to: more than the 16 MB that the gate reads of a response at its default caps.
_BOMB_MEGABYTES = 20
_BLANKS = b" " * (1 << 16)
_ZIPPED = {**_JSON, "Content-Encoding": "gzip"}


def _compressed_bomb(target: Target) -> HTTPReply:
    before, after = json.dumps(target.completion(target.text(target.value) + CANARY)).encode().split(CANARY.encode())
    gzip = zlib.compressobj(wbits=31)
    pieces = (before, *repeat(_BLANKS * 16, _BOMB_MEGABYTES), after)  # the blanks are never in memory at once
    return HTTPReply(200, _ZIPPED, (b"".join(map(gzip.compress, pieces)) + gzip.flush(),))


def _ok(body: bytes) -> HTTPReply:
    return HTTPReply(200, _JSON, (body,) if body else ())


html_page: Entry = _malformed("A 200 that is a proxy's HTML page, such as a login.", html_reply(200, "Sign in"))
plain_text: Entry = _malformed(
    "A 200 that is a sentence in text/plain.",
    HTTPReply(200, {"Content-Type": "text/plain"}, (f"upstream request timeout ({CANARY})".encode(),)),
)
page_as_json: Entry = _malformed(
    "A 200 that says it is JSON and is an HTML page.", _ok(html_reply(200, "Sign in").body)
)
empty_body: Entry = _malformed("A 200 without a body.", _ok(b""))
no_content: Entry = _malformed("A 204, which has no body.", HTTPReply(204))
half_body: Entry = _malformed("The JSON of the completion ends halfway, though the response is whole.", _ok(b"$half"))
body_twice: Entry = _malformed("The completion comes twice in one body.", _ok(b"$body$body"))
body_not_utf8: Entry = _malformed(
    "The body holds a byte that is not UTF-8.",
    lambda target: _ok(as_sent(target).replace(b'"scripted"', b'"script\xe9d"')),
)
body_in_array: Entry = _malformed("The completion stands in a JSON array.", _ok(b"[$body]"))
unasked_stream: Entry = _malformed(
    "Server-sent events come, though no stream was asked for.",
    lambda target: HTTPReply(200, EVENT_STREAM, events(target.clean), framing="chunked"),
    needs={"stream": False},
)
gzip_bomb: Entry = _http(
    "response_too_large", "A reply with 20 MB of blanks after it, compressed to some 20 KB.", _compressed_bomb
)
gzip_not_compressed: Entry = _http(
    "connection", "The body says it is compressed with gzip, and is not.", HTTPReply(200, _ZIPPED, (b"$body",))
)
endless_body: Entry = _http(
    "response_too_large",
    "Blanks follow the completion for ever; each is valid JSON so far.",
    HTTPReply(200, _JSON, (b"$body", _BLANKS), WireEnding.CUT, "chunked", endless=True),
)

# The connection
_STATUS_LINE = b"HTTP/1.1 200 OK\r\n"
_HEAD = _STATUS_LINE + b"Content-Type: application/json\r\nConnection: close\r\n"


def _raw(*parts: bytes, ending: WireEnding = WireEnding.CUT, endless: bool = False) -> HTTPReply:
    """Send bytes that no server would."""
    return HTTPReply(parts=parts, ending=ending, framing="raw", endless=endless)


def _half(ending: WireEnding) -> HTTPReply:
    """Send the head, and half of the body that it announces."""
    return HTTPReply(200, {**_JSON, "Content-Length": "$length"}, (b"$half",), ending)


def _dripping(target: Target) -> HTTPReply:
    parts = tuple(part for drop in as_sent(target)[:20] for part in (Pause(0.5), bytes([drop])))
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
reset_in_body: Entry = _connection("The connection is reset in the middle of the body.", _half(WireEnding.RESET))
closed_in_body: Entry = _connection(
    "The connection is closed before all the bytes came that Content-Length announces.", _half(WireEnding.CUT)
)
hang_in_body: Entry = _timeout("Nothing more comes after half of the body.", _half(WireEnding.HANG))
dripping_body: Entry = _timeout(
    "The body comes byte by byte, half a second apart, and stops: only a total deadline notices early.", _dripping
)
closed_between_chunks: Entry = _connection(
    "The chunked body is complete but for the last chunk, which ends it (RFC 9112 section 7.1).",
    HTTPReply(200, _JSON, (b"$body",), WireEnding.CUT, "chunked"),
)
broken_chunk: Entry = _connection(
    "The size of a chunk is not a hexadecimal number.",
    _raw(_HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n$body\r\n0\r\n\r\n"),
)
content_length_too_small: Entry = response_entry(
    Kind.TRANSPORT,
    "envelope.malformed",
    "Content-Length is half of what comes: the body reads as cut.",
    _raw(_HEAD + b"Content-Length: $half_length\r\n\r\n$body"),
)
content_length_twice: Entry = _connection(
    "Two different Content-Lengths: nobody knows where the body ends.",
    _raw(_HEAD + b"Content-Length: $length\r\nContent-Length: $half_length\r\n\r\n$body"),
)
content_length_no_number: Entry = _connection(
    "Content-Length is a word.", _raw(_HEAD + b"Content-Length: unknown\r\n\r\n$body")
)
not_http: Entry = _connection(
    "Another protocol answers on the port.", _raw(b"SSH-2.0-OpenSSH_9.2 %b\r\n" % CANARY.encode())
)
status_line_garbled: Entry = _connection(
    "The status is not a number.", _raw(_HEAD.replace(b"200 OK", b"OK") + b"\r\n$body")
)
