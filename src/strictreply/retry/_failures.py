"""What went wrong between us and the API.

Exceptions of any SDK are read into one value, by their class and status.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from json import JSONDecodeError
from typing import cast

from strictreply.values._limits import JSON
from strictreply.values._replies import plain
from strictreply.wires._opening import accounts_of, error_in, message_of, peek, word_of

_BAD_REQUEST = 400
_BEYOND_ERRORS = 600
_DIGITS = 4
RETRYABLE_STATUS = frozenset({408, 409, 425, 429})
FIRST_SERVER_ERROR = 500
_KINDS = {
    400: "invalid_request",
    401: "authentication_failed",
    402: "insufficient_credits",
    403: "permission_denied",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    413: "request_too_large",
    422: "invalid_request",
    429: "rate_limit",
}
# httpcore's own last two are let out, at times, by the library above it
_CONNECTION = {"APIConnectionError", "TransportError", "NetworkError", "ProtocolError"}
_CLASSES: tuple[tuple[str, set[str], type[Exception] | tuple[()]], ...] = (
    ("timeout", {"APITimeoutError", "TimeoutException"}, TimeoutError),
    ("connection", _CONNECTION, ConnectionError),
    # let out by some SDKs when a server sends a page instead of JSON
    ("unreadable_response", set(), JSONDecodeError),
    ("api_error", {"OpenAIError", "HTTPError", "InvalidURL"}, ()),
)
_MOST_WORDS = 4000  # of an error that is a text, as LM Studio's
_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})

_STATUSES: Mapping[str, int] = {
    # OpenAI's error types and codes, the codes of a failed response; Anthropic's types; the names
    # of Google's RPC codes; the SDK's and vLLM's classes; Alibaba DashScope's codes; OpenRouter's
    **dict.fromkeys(
        (
            "invalid_request_error",
            "invalid_request",
            "invalid_argument",
            "failed_precondition",
            "invalidparameter",
            "invalid_value",
            "invalid_type",
            "invalid_prompt",
            "invalid_image",
            "invalid_image_format",
            "invalid_image_url",
            "invalid_base64_image",
            "unsupported_parameter",
            "unsupported_value",
            "missing_required_parameter",
            "bad_request",
            "badrequesterror",
            "context_length_exceeded",
        ),
        400,
    ),
    **dict.fromkeys(
        (
            "authentication_error",
            "authenticationerror",
            "invalid_api_key",
            "invalidapikey",
            "unauthenticated",
            "unauthorized",
        ),
        401,
    ),
    **dict.fromkeys(
        ("billing_error", "payment_required", "insufficient_credits", "arrearage"), 402
    ),
    **dict.fromkeys(
        (
            "permission_error",
            "permission_denied",
            "permissiondeniederror",
            "forbidden",
            "access_denied",
            "accessdenied",
        ),
        403,
    ),
    **dict.fromkeys(
        ("not_found_error", "notfounderror", "not_found", "model_not_found", "modelnotfound"), 404
    ),
    "request_too_large": 413,
    **dict.fromkeys(("unprocessable_entity", "unprocessableentityerror"), 422),
    **dict.fromkeys(
        (
            "rate_limit_exceeded",
            "rate_limit_error",
            "ratelimiterror",
            "too_many_requests",
            "resource_exhausted",
            "throttling",
            *_SPENT,
        ),
        429,
    ),
    **dict.fromkeys(
        (
            "server_error",
            "internal_server_error",
            "internalservererror",
            "internal_error",
            "internalerror",
            "internal",
            "api_error",
        ),
        500,
    ),
    **dict.fromkeys(
        (
            "overloaded_error",
            "overloaded",
            "engine_overloaded",
            "unavailable",
            "service_unavailable",
            "provider_overloaded",
            "provider_unavailable",
        ),
        503,
    ),
    **dict.fromkeys(("deadline_exceeded", "timeout_error", "gateway_timeout"), 504),
}
"""The HTTP status that the code or the type of an error stands for."""

_NUMBERS = ("status_code", "status", "code", "http_code")
_WORDS = ("code", "type", "status", "error_type")
_TOO_LONG_WORDS = frozenset(
    {
        "context_length_exceeded",  # OpenAI API reference
        "exceed_context_size_error",  # llama.cpp, tools/server
        "contextwindowexceedederror",  # LiteLLM, exception mapping
    }
)
_TOO_LONG = re.compile(
    # OpenAI, vLLM, Mistral
    r"maximum context length"
    # Responses API; llama.cpp (ggml-org/llama.cpp#14566); LM Studio
    r"|exceeds? the (?:available |model's )?(?:context|maximum context)"
    r"|context (?:length|size|window) (?:has been |was |is )?exceeded"
    # Anthropic (coder/aibridge#56); Bedrock
    r"|(?:prompt|input) is too long"
    # Gemini; DashScope
    r"|token count .{0,40}exceeds the maximum|range of input length",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that brought no response to judge.

    ``kind`` is a stable word: ``timeout``, ``rate_limit``, ``server_error``, … ``retryable``: the
    same request may succeed later; ``retry_after`` are the seconds the server asked to wait.
    ``error`` is the body of the response, and may carry what the model wrote; ``detail`` is our
    own, safe to log.
    """

    kind: str
    retryable: bool
    status_code: int | None = None
    retry_after: float | None = None
    cause: Exception | None = field(default=None, repr=False, compare=False)
    error: JSON = field(default=None, repr=False, compare=False)
    detail: str = ""

    def __str__(self) -> str:
        """Return the kind, the HTTP status and the detail.

        The server's own words stay in ``cause``.
        """
        kind = self.kind if self.status_code is None else f"{self.kind} (HTTP {self.status_code})"
        return f"{kind}: {self.detail}" if self.detail else kind


class ExchangeStopped(Exception):
    """Raised inside an HTTP exchange that this library itself breaks off.

    ``failure`` says why, in our own words.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def classify(error: Exception) -> Failure | None:
    """Read an exception as a failure of the transport.

    Return None when it is a bug that must pass through.
    """
    # openai 2 wraps every exception, our own stop too, in APIConnectionError
    for one in (error, error.__cause__):
        if isinstance(one, ExchangeStopped):
            return replace(one.failure, cause=error)

    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return _by_status(error, status)

    names = {base.__name__ for base in type(error).__mro__}
    body = getattr(error, "body", None)
    if "APIError" in names and body:
        # of an error event of a stream, as the SDK raises it
        unknown = Failure("malformed_response", retryable=True, error=_words_in(body))
        return replace(failure_in({"error": plain(body)}) or unknown, cause=error)

    for kind, known, own in _CLASSES:
        if names & known or isinstance(error, own):
            return Failure(kind, retryable=kind != "api_error", cause=error)

    return None


def failure_of(error: Exception) -> Failure:
    """Read an exception as a failure of the transport; anything else is raised again."""
    failure = classify(error)
    if failure is None:
        raise error

    return failure


def _by_status(error: Exception, status: int) -> Failure:
    headers = getattr(getattr(error, "response", None), "headers", None)
    told = cast("Mapping[str, str]", headers if isinstance(headers, Mapping) else {})
    wait = retry_after(told)

    body = getattr(error, "body", None)
    if isinstance(body, list) and len(body) == 1:
        body = body[0]  # as Gemini's compatible endpoint sends it

    if isinstance(body, Mapping):
        # the openai SDK has what is inside of ``error`` as its body, others the whole
        inner = body.get("error")
        body = inner if isinstance(inner, Mapping) else body

    failure = _failure(status, body)
    if failure.kind == "insufficient_credits" or getattr(error, "code", None) in _SPENT:
        # sent with status 429, too, but waiting does not help
        return Failure("insufficient_credits", retryable=False, status_code=status, cause=error)

    # the server knows better than its status, as the SDK has it
    said = {"true": True, "false": False}.get(told.get("x-should-retry", ""))
    retryable = failure.retryable if said is None else said
    return replace(failure, retryable=retryable, retry_after=wait, cause=error)


def failure_in(response: JSON) -> Failure | None:
    """Read the error that a response holds as if its HTTP status had said so.

    None when it holds none, or one that names no status.
    """
    error = error_in(response)
    if not error:
        return None

    status = _status_told(error)
    if status is None and not _is_too_long(error):
        return None

    return _failure(status or _BAD_REQUEST, error)


def _failure(status: int, error: object) -> Failure:
    """Return the failure of an error with its status."""
    said = _words_in(error)
    words = [peek(one, name) for one in accounts_of(error) for name in ("code", "type")]
    if any(isinstance(word, str) and word in _SPENT for word in words):
        return Failure("insufficient_credits", retryable=False, status_code=status, error=said)

    is_servers = status >= FIRST_SERVER_ERROR
    if (is_servers or status == _BAD_REQUEST) and _is_too_long(error):
        return Failure(
            "invalid_request",
            retryable=False,
            status_code=status,
            error=said,
            detail="the conversation is longer than the model's context",
        )

    kind = _KINDS.get(status, "server_error" if is_servers else "api_error")
    retryable = is_servers or status in RETRYABLE_STATUS
    return Failure(kind, retryable=retryable, status_code=status, error=said)


def _status_told(error: object) -> int | None:
    """Return the HTTP status that an error names, by its number or by a word for it."""
    accounts = accounts_of(error)
    for account in accounts:
        for name in _NUMBERS:
            number = peek(account, name)
            if isinstance(number, str) and number.isdecimal():
                number = int(number[:_DIGITS])
            if isinstance(number, int) and _BAD_REQUEST <= number < _BEYOND_ERRORS:
                return number

    for account in accounts:
        holders = (account, peek(account, "metadata"))
        said = [account, *(peek(holder, name) for holder in holders for name in _WORDS)]
        for word in said:
            if isinstance(word, str) and word_of(word) in _STATUSES:
                return _STATUSES[word_of(word)]

    return None


def _is_too_long(error: object) -> bool:
    """Return whether an error says that what was sent is longer than the model's context."""
    for account in accounts_of(error):
        words = [peek(account, name) for name in ("code", "type")]
        if any(isinstance(word, str) and word_of(word) in _TOO_LONG_WORDS for word in words):
            return True
        if _TOO_LONG.search(message_of(account)[:_MOST_WORDS]):
            return True

    return False


def _words_in(body: object) -> JSON:
    """Return what the body of an error says, as plain JSON; None when it says nothing."""
    if isinstance(body, Mapping):
        return plain(body)

    return body[:_MOST_WORDS] if isinstance(body, str) and body else None


def retry_after(
    headers: Mapping[str, str], *, clock: Callable[[], float] = time.time
) -> float | None:
    """Return the seconds to wait that the headers name; None when they name none.

    The headers are ``retry-after-ms``, and ``Retry-After`` as seconds or a date (RFC 9110 §10.2.3).
    A date counts from the response's own ``Date``, else from ``clock`` (seconds since the epoch).
    What is malformed, negative or not finite counts as absent.
    """
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000

    value = headers.get("retry-after")
    seconds = _seconds(value)
    until = _date(value) if value and seconds is None else None
    if until is None:
        return seconds

    sent = _date(headers.get("date", "")) or datetime.fromtimestamp(clock(), UTC)
    return max(0.0, (until - sent).total_seconds())


def _seconds(value: str | None) -> float | None:
    try:
        seconds = float(value or "")
    except (TypeError, ValueError):
        return None

    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except (AttributeError, TypeError, ValueError, OverflowError):
        return None  # the first is raised for what is not a text

    # without a zone it is not a point in time
    return date if date.tzinfo is not None else None
