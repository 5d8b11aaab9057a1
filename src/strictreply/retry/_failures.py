"""What went wrong between us and the API.

Exceptions of any SDK are read into one value, by their class and status.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from json import JSONDecodeError
from typing import cast

from strictreply.values._limits import JSON
from strictreply.values._replies import plain

RETRYABLE_STATUS = frozenset({408, 409, 425, 429})
FIRST_SERVER_ERROR = 500
_KINDS = {
    400: "invalid_request",
    401: "authentication_failed",
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

    by_status = status in RETRYABLE_STATUS or status >= FIRST_SERVER_ERROR
    # the server knows better than its status, as the SDK has it
    retryable = {"true": True, "false": False}.get(told.get("x-should-retry", ""), by_status)

    if getattr(error, "code", None) in _SPENT:
        # sent with status 429, but waiting does not help
        return Failure("insufficient_credits", retryable=False, status_code=status, cause=error)

    kind = _KINDS.get(status, "server_error" if status >= FIRST_SERVER_ERROR else "api_error")
    body = getattr(error, "body", None)
    if isinstance(body, list) and len(body) == 1:
        body = body[0]  # as Gemini's compatible endpoint sends it

    if isinstance(body, Mapping):
        # the openai SDK has what is inside of ``error`` as its body, others the whole
        inner = body.get("error")
        body = inner if isinstance(inner, Mapping) else body

    return Failure(
        kind,
        retryable=retryable,
        status_code=status,
        retry_after=wait,
        cause=error,
        error=_words_in(body),
    )


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
