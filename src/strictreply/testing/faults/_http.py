"""Faults of the HTTP response: statuses that are errors, and a 200 whose body is no completion.

The connection is sound here; where it is not, :mod:`strictreply.testing.faults._sockets` has it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from functools import partial

from strictreply.testing._rendering import EVENT_STREAM
from strictreply.testing._sse import events
from strictreply.testing._steps import CANARY, Kind
from strictreply.testing._targets import Target
from strictreply.testing._wire import Ending, HTTPReply, error_reply
from strictreply.testing.faults._responses import as_sent, response_fault
from strictreply.values._json import JSONObject

_JSON = {"Content-Type": "application/json"}
_SENT = "Thu, 01 Jan 2026 00:00:00 GMT"
_FIVE_SECONDS_LATER = "Thu, 01 Jan 2026 00:00:05 GMT"

_BOMB_MEGABYTES = 20
"""What the bomb expands to: more than the 16 MB that the gate reads of a response at its default caps."""

_MEGABYTE = b" " * (1 << 20)

_fault = partial(response_fault, Kind.HTTP)


def _error(status: int, words: str, kind: str, code: str | None = None, **headers: str) -> HTTPReply:
    """Spell an error as the API does; ``_`` in a header's name stands for ``-``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return error_reply(status, f"{words} ({CANARY})", kind=kind, code=code, headers=named)


def _page(status: int, title: str) -> HTTPReply:
    """Spell the HTML page of a proxy."""
    page = f"<html><head><title>{title}</title></head><body><h1>{title}</h1><hr>{CANARY}</body></html>\r\n"
    return HTTPReply(status, {"Content-Type": "text/html"}, (page.encode(),))


def _limited(**headers: str) -> HTTPReply:
    """Spell a rate limit."""
    return _error(429, "Rate limit reached for requests", "requests", "rate_limit_exceeded", **headers)


@_fault("invalid_request")
def bad_request(_: Target) -> HTTPReply:
    """A 400: a value of the request is refused."""
    return _error(400, "Invalid value: 'tools'", "invalid_request_error", "invalid_value")


@_fault("invalid_request")
def context_length_exceeded(_: Target) -> HTTPReply:
    """A 400: the messages are longer than the model's context."""
    return _error(400, "The maximum context length is 8192 tokens", "invalid_request_error", "context_length_exceeded")


@_fault("authentication_failed")
def unauthorized(_: Target) -> HTTPReply:
    """A 401: the key is not known."""
    return _error(401, "Incorrect API key provided", "invalid_request_error", "invalid_api_key")


@_fault("permission_denied")
def forbidden(_: Target) -> HTTPReply:
    """A 403: the key may not use the model."""
    return _error(403, "The project has no access to the model", "invalid_request_error", "model_not_allowed")


@_fault("not_found")
def model_not_found(_: Target) -> HTTPReply:
    """A 404: there is no such model."""
    return _error(404, "The model does not exist", "invalid_request_error", "model_not_found")


@_fault("timeout")
def request_timeout(_: Target) -> HTTPReply:
    """A 408: the server gave up waiting for the request."""
    return _error(408, "The request timed out", "timeout")


@_fault("conflict")
def conflict(_: Target) -> HTTPReply:
    """A 409: another request holds a lock."""
    return _error(409, "The resource is locked by another request", "conflict")


@_fault("request_too_large")
def content_too_large(_: Target) -> HTTPReply:
    """A 413: the body of the request is too large."""
    return _error(413, "The request is larger than 4 MB", "invalid_request_error", "request_too_large")


@_fault("invalid_request")
def unprocessable_content(_: Target) -> HTTPReply:
    """A 422: the request is well-formed, and its content refused."""
    return _error(422, "tools.0.function: field required", "invalid_request_error")


@_fault("rate_limit")
def rate_limited(_: Target) -> HTTPReply:
    """A 429 that says not how long to wait."""
    return _limited()


@_fault("rate_limit")
def rate_limited_seconds(_: Target) -> HTTPReply:
    """A 429 with a Retry-After of 2 seconds."""
    return _limited(Retry_After="2")


@_fault("rate_limit")
def rate_limited_milliseconds(_: Target) -> HTTPReply:
    """A 429 with a retry-after-ms of 1500 beside a rounded Retry-After."""
    return _limited(Retry_After="2", retry_after_ms="1500")


@_fault("rate_limit")
def rate_limited_date(_: Target) -> HTTPReply:
    """A 429 whose Retry-After is an HTTP date, 5 seconds after its own Date."""
    return _limited(Date=_SENT, Retry_After=_FIVE_SECONDS_LATER)


@_fault("rate_limit")
def rate_limited_zero(_: Target) -> HTTPReply:
    """A 429 with a Retry-After of 0: who obeys it blindly asks in a tight loop."""
    return _limited(Retry_After="0")


@_fault("rate_limit")
def rate_limited_negative(_: Target) -> HTTPReply:
    """A 429 with a negative Retry-After."""
    return _limited(Retry_After="-1")


@_fault("rate_limit")
def rate_limited_hour(_: Target) -> HTTPReply:
    """A 429 with a Retry-After of an hour: who obeys it blindly hangs."""
    return _limited(Retry_After="3600")


@_fault("rate_limit")
def rate_limited_garbage(_: Target) -> HTTPReply:
    """A 429 with a Retry-After that is neither seconds nor a date."""
    return _limited(Retry_After="soon")


@_fault("insufficient_credits")
def quota_spent(_: Target) -> HTTPReply:
    """A 429 that no wait helps against: the quota is spent."""
    return _error(429, "You exceeded your current quota", "insufficient_quota", "insufficient_quota")


@_fault("server_error")
def internal_server_error(_: Target) -> HTTPReply:
    """A 500 of the API."""
    return _error(500, "The server had an error while processing the request", "server_error")


@_fault("server_error")
def bad_gateway(_: Target) -> HTTPReply:
    """A 502 as a proxy's HTML page."""
    return _page(502, "502 Bad Gateway")


@_fault("server_error")
def service_unavailable(_: Target) -> HTTPReply:
    """A 503 with a Retry-After of 1 second."""
    return _error(503, "The engine is currently overloaded", "server_error", Retry_After="1")


@_fault("server_error")
def gateway_timeout(_: Target) -> HTTPReply:
    """A 504 as a proxy's HTML page."""
    return _page(504, "504 Gateway Time-out")


@_fault("server_error")
def overloaded(_: Target) -> HTTPReply:
    """A 529, the status that some providers made up for being overloaded."""
    return _error(529, "Overloaded", "overloaded_error")


@_fault("api_error")
def redirect_without_location(_: Target) -> HTTPReply:
    """A 307 that says not where to."""
    return HTTPReply(307)


@_fault("connection")
def redirect_to_no_address(_: Target) -> HTTPReply:
    """A 307 to what is no URL."""
    return HTTPReply(307, {"Location": "http://model.invalid:port/"})


@_fault("envelope.malformed")
def html_page(_: Target) -> HTTPReply:
    """A 200 that is a proxy's HTML page, such as a login."""
    return _page(200, "Sign in")


@_fault("envelope.malformed")
def plain_text(_: Target) -> HTTPReply:
    """A 200 that is a sentence in text/plain."""
    return HTTPReply(200, {"Content-Type": "text/plain"}, (f"upstream request timeout ({CANARY})".encode(),))


@_fault("envelope.malformed")
def page_as_json(_: Target) -> HTTPReply:
    """A 200 that says it is JSON and is an HTML page."""
    return HTTPReply(200, _JSON, _page(200, "Sign in").parts)


@_fault("envelope.malformed")
def empty_body(_: Target) -> HTTPReply:
    """A 200 without a body."""
    return HTTPReply(200, _JSON)


@_fault("envelope.malformed")
def no_content(_: Target) -> HTTPReply:
    """A 204, which has no body."""
    return HTTPReply(204)


@_fault("envelope.malformed")
def half_body(target: Target) -> HTTPReply:
    """The JSON of the completion ends halfway, though the response is whole."""
    whole = as_sent(target)
    return HTTPReply(200, _JSON, (whole[: len(whole) // 2],))


@_fault("envelope.malformed")
def body_twice(target: Target) -> HTTPReply:
    """The completion comes twice in one body."""
    return HTTPReply(200, _JSON, (as_sent(target) * 2,))


@_fault("envelope.malformed")
def body_not_utf8(target: Target) -> HTTPReply:
    """The body holds a byte that is not UTF-8."""
    return HTTPReply(200, _JSON, (as_sent(target).replace(b'"scripted"', b'"script\xe9d"'),))


@_fault("envelope.malformed")
def body_in_array(target: Target) -> HTTPReply:
    """The completion stands in a JSON array."""
    return HTTPReply.json(200, [target.clean])


@_fault("envelope.malformed", needs={"stream": False})
def unasked_stream(target: Target) -> HTTPReply:
    """Server-sent events come, though no stream was asked for."""
    return HTTPReply(200, EVENT_STREAM, events(target.clean), framing="chunked")


@_fault("response_too_large")
def gzip_bomb(target: Target) -> HTTPReply:
    """A reply with 20 MB of blanks after it, compressed to some 20 KB."""
    return HTTPReply(200, {**_JSON, "Content-Encoding": "gzip"}, (b"".join(_bomb(target)),))


@_fault("connection")
def gzip_not_compressed(target: Target) -> HTTPReply:
    """The body says it is compressed with gzip, and is not."""
    return HTTPReply(200, {**_JSON, "Content-Encoding": "gzip"}, (as_sent(target),))


@_fault("response_too_large")
def endless_body(target: Target) -> HTTPReply:
    """Blanks follow the completion for ever; each is valid JSON so far."""
    blanks = _MEGABYTE[: 1 << 16]
    return HTTPReply(200, _JSON, (as_sent(target), blanks), Ending.CUT, "chunked", endless=True)


def _bomb(target: Target) -> Iterator[bytes]:
    """Compress the reply with blanks after it, piece by piece: they are never in memory at once."""
    body: JSONObject = target.completion(target.text(target.value) + CANARY)
    before, after = json.dumps(body).encode().split(CANARY.encode())
    gzip = zlib.compressobj(wbits=31)
    yield gzip.compress(before)
    for _ in range(_BOMB_MEGABYTES):
        yield gzip.compress(_MEGABYTE)
    yield gzip.compress(after)
    yield gzip.flush()
