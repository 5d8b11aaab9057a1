"""Failures of the transport: exceptions of any SDK, read into one value by class and status."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from json import JSONDecodeError
from typing import cast

from strictreply.values._limits import JSON
from strictreply.values._replies import plain
from strictreply.wires._endings import (
    accounts_of,
    message_of,
    phrase_status,
    status_of,
    word_of,
)
from strictreply.wires._error_forms import SPENT, meaning_of
from strictreply.wires._members import peek

_BAD_REQUEST = 400
_TOO_MANY = 429
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
# the last two are httpcore's own, which the library above it sometimes lets through
_CONNECTION = {"APIConnectionError", "TransportError", "NetworkError", "ProtocolError"}
_CLASSES: tuple[tuple[str, set[str], type[Exception] | tuple[()]], ...] = (
    ("timeout", {"APITimeoutError", "TimeoutException"}, TimeoutError),
    ("connection", _CONNECTION, ConnectionError),
    # some SDKs let it through if a server sends a page instead of JSON
    ("unreadable_response", set(), JSONDecodeError),
    # middleware of the anthropic SDK requests a retry with it
    ("server_error", {"RetryableError"}, ()),
    ("api_error", {"OpenAIError", "AnthropicError", "HTTPError", "InvalidURL"}, ()),
)
_MOST_WORDS = 4000  # of an error that is a text, as LM Studio's
_NUMBERS = ("status_code", "statusCode", "status", "code", "http_code")
_WORDS = ("code", "type", "status", "error_type", "error_code", "__type")
_THOUGHTS = re.compile(
    # Anthropic (anomalyco/opencode#48637, anthropics/anthropic-sdk-python#1598)
    r"invalid [`\"\\]*signature[`\"\\]* in [`\"\\]*thinking"
    r"|thinking[`\"\\]* blocks in the latest assistant message cannot be modified"
    # Gemini (lbjlaq/Antigravity-Manager#3342)
    r"|invalid thought signature",
    re.IGNORECASE,
)
TOO_LONG = "context_length_exceeded"
_TOO_LONG_WORDS = frozenset(
    {
        TOO_LONG,  # OpenAI API reference
        "exceed_context_size_error",  # llama.cpp, tools/server
        "contextwindowexceedederror",  # LiteLLM, exception mapping
        "model_max_prompt_tokens_exceeded",  # GitHub Copilot (badlogic/pi-mono, overflow.ts)
        "tokens_limit_reached",  # GitHub Models
        "too_many_prompt_tokens",  # Perplexity, recorded (pydantic/pydantic-ai)
        "tokens_too_long",  # Baidu Qianfan v2, UCloud (docs/modelverse, error-code)
        "characters_too_long",  # Baidu Qianfan v2
    }
)
_TOO_LONG = re.compile(
    # OpenAI, vLLM, Mistral, OpenRouter; Ollama as recorded by pydantic-ai
    r"max(?:imum)? context length"
    # Responses API; llama.cpp (ggml-org/llama.cpp#14566); LM Studio; SGLang
    r"|(?:exceeds?|greater than|longer than) the (?:available |model's )?(?:maximum )?context"
    r"|context (?:length|size|window) (?:has been |was |is )?exceed(?:ed|s limit)"
    # Anthropic (coder/aibridge#56); Bedrock; Zhipu; Ollama
    r"|(?:prompt|input)(?: tokens)?(?: is)? too long|exceed context limit"
    # Gemini; DashScope; GitHub Copilot
    r"|token count .{0,40}exceeds the (?:maximum|limit of)|range of input length"
    # xAI; Groq; Moonshot (all of badlogic/pi-mono, packages/ai/src/utils/overflow.ts)
    r"|maximum prompt length is|reduce the length of the messages|exceeded model token limit",
    re.IGNORECASE,
)
_MOST_WAIT = 86_400.0  # a day, beyond which the words are about something else
_WAIT = re.compile(
    # OpenAI's, Groq's "Please try again in 1m2.5s"; Azure's "Please retry after 7 seconds"; Azure
    # API Management's "Try again in 26 seconds"; Gemini's "Please retry in 34.86s"
    r"\b(?:(?:try again|retry) (?:in|after)) (?P<wait>\d[\w. ]{0,60})",
    re.IGNORECASE,
)
_PARTS = re.compile(
    r"(\d{1,9}(?:\.\d{1,12})?) ?"
    r"(?:(?P<ms>ms|milliseconds?)|(?P<d>d|days?)|(?P<h>h|hours?)"
    r"|(?P<m>m|min(?:ute)?s?)|(?P<s>s|sec(?:ond)?s?))(?![a-z]) ?",
    re.IGNORECASE,
)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request brought no response to judge."""

    kind: str
    """A stable word: ``timeout``, ``rate_limit``, ``server_error``, …"""
    retryable: bool
    """Whether the same request may succeed later."""
    status_code: int | None = None
    """HTTP status of the response; None if there was no response."""
    retry_after: float | None = None
    """Seconds that the server asked to wait; None if it did not ask."""
    cause: Exception | None = field(default=None, repr=False, compare=False)
    """The exception that was raised; None for an error in a response."""
    error: JSON = field(default=None, repr=False, compare=False)
    """The body of the response, which may quote the model."""
    detail: str = ""
    """What happened, in words of strictreply; safe to log."""

    def __str__(self) -> str:
        """Return the kind, the HTTP status and the detail, without words of the server."""
        kind = self.kind if self.status_code is None else f"{self.kind} (HTTP {self.status_code})"
        return f"{kind}: {self.detail}" if self.detail else kind


class ExchangeStopped(Exception):
    """Raised inside an HTTP exchange that strictreply itself ends; ``failure`` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure
        """Why it was broken off."""


def classify(error: Exception) -> Failure | None:
    """Return the failure for an exception of an SDK or an HTTP library.

    None for any other exception, which must be raised.
    """
    # openai 2 wraps every exception, also our ExchangeStopped, in APIConnectionError
    for one in (error, error.__cause__):
        if isinstance(one, ExchangeStopped):
            return replace(one.failure, cause=error)

    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return _by_status(error, status)

    names = {base.__name__ for base in type(error).__mro__}
    body = getattr(error, "body", None)
    if "APIError" in names and body:
        # the SDK raises it for an error event in a stream
        unknown = Failure("malformed_response", retryable=True, error=_words_in(body))
        return replace(failure_in({"error": plain(body)}) or unknown, cause=error)

    for kind, known, own in _CLASSES:
        if names & known or isinstance(error, own):
            return Failure(kind, retryable=kind != "api_error", cause=error)

    return None


def failure_of(error: Exception) -> Failure:
    """Return the failure for an exception; raise the exception if it is not a failure."""
    failure = classify(error)
    if failure is None:
        raise error

    return failure


def _by_status(error: Exception, status: int) -> Failure:
    headers = getattr(getattr(error, "response", None), "headers", None)
    told = cast("Mapping[str, str]", headers if isinstance(headers, Mapping) else {})
    body = getattr(error, "body", None)
    if isinstance(body, list) and len(body) == 1:
        body = body[0]  # Gemini's compatible endpoint sends it so

    if isinstance(body, Mapping):
        # in the openai SDK the body is only the value of ``error``, in others all of it
        inner = body.get("error")
        body = inner if isinstance(inner, Mapping) else body

    failure = _failure(status, body)
    if failure.kind == "insufficient_credits" or getattr(error, "code", None) in SPENT:
        # may have status 429, but waiting does not help
        return Failure("insufficient_credits", retryable=False, status_code=status, cause=error)

    # the header takes precedence over the status, as in the SDK
    said = {"true": True, "false": False}.get(told.get("x-should-retry", ""))
    retryable = failure.retryable if said is None else said
    wait = retry_after(told)
    wait = failure.retry_after if wait is None else wait
    return replace(failure, retryable=retryable, retry_after=wait, cause=error)


def failure_in(error: object) -> Failure | None:
    """Return the failure for the error in a response, as if it had come as an HTTP status.

    None if there is no error, or if it names no status.
    """
    if not error:
        return None

    status = _status_told(error)
    if status is None and not _is_too_long(error):
        return None

    return _failure(status or _BAD_REQUEST, error)


def _failure(status: int, error: object) -> Failure:
    """Return the failure for a status and an error."""
    said = _words_in(error)
    accounts = accounts_of(error)
    words = [peek(one, name) for one in accounts for name in ("code", "type")]
    words += map(meaning_of, accounts)
    if any(isinstance(word, str) and word in SPENT for word in words):
        return Failure("insufficient_credits", retryable=False, status_code=status, error=said)

    is_servers = status >= FIRST_SERVER_ERROR
    if (is_servers or status == _BAD_REQUEST) and _is_too_long(error):
        return Failure(TOO_LONG, retryable=False, status_code=status, error=said)

    if status == _BAD_REQUEST and _is_thought_mismatch(accounts):
        return Failure("thought_mismatch", retryable=False, status_code=status, error=said)

    kind = _KINDS.get(status, "server_error" if is_servers else "api_error")
    retryable = is_servers or status in RETRYABLE_STATUS
    wait = wait_in(accounts) if status == _TOO_MANY else None
    return Failure(kind, retryable=retryable, status_code=status, retry_after=wait, error=said)


def _status_told(error: object) -> int | None:
    """Return the HTTP status that an error names, as a number or by a word."""
    accounts = accounts_of(error)
    for account in accounts:
        for name in _NUMBERS:
            number = peek(account, name)
            if isinstance(number, str) and number.isdecimal():
                number = int(number[:_DIGITS])
            if isinstance(number, int) and _BAD_REQUEST <= number < _BEYOND_ERRORS:
                return number

    for account in accounts:
        meaning = meaning_of(account)
        if isinstance(meaning, int):
            return meaning

        holders = (account, peek(account, "metadata"))
        said = [account, *(peek(holder, name) for holder in holders for name in _WORDS)]
        found = (*map(status_of, [*said, meaning]), phrase_status(message_of(account)))
        status = next((one for one in found if one is not None), None)
        if status is not None:
            return status

    return None


def _is_too_long(error: object) -> bool:
    """Return whether an error says that the request exceeds the model's context."""
    for account in accounts_of(error):
        words = [*(peek(account, name) for name in ("code", "type")), meaning_of(account)]
        if any(isinstance(word, str) and word_of(word) in _TOO_LONG_WORDS for word in words):
            return True
        if _TOO_LONG.search(message_of(account)[:_MOST_WORDS]):
            return True

    return False


def _is_thought_mismatch(accounts: Iterable[object]) -> bool:
    """Return whether an error says that a signed thought was sent back changed."""
    return any(_THOUGHTS.search(message_of(one)[:_MOST_WORDS]) for one in accounts)


def _words_in(body: object) -> JSON:
    """Return the body of an error as plain JSON; None if it is empty."""
    if isinstance(body, Mapping):
        return plain(body)

    return body[:_MOST_WORDS] if isinstance(body, str) and body else None


def wait_in(accounts: Iterable[object]) -> float | None:
    """Return the seconds to wait from the details or the text of an error.

    None if it has none, or more than a day.
    """
    for account in accounts:
        for told in (*_delays(account), *_waits(message_of(account)[:_MOST_WORDS])):
            seconds = duration(told)
            if seconds is not None:
                return seconds

    return None


def _delays(account: object) -> Iterator[str]:
    # Google's RetryInfo (google.rpc.error_details)
    details = peek(account, "details")
    for detail in details if isinstance(details, list) else ():
        delay = peek(detail, "retryDelay")
        if isinstance(delay, str):
            yield delay


def _waits(message: str) -> Iterator[str]:
    for found in _WAIT.finditer(message):
        yield found["wait"]


def duration(text: str) -> float | None:
    """Return the seconds of a duration at the start of a text, such as ``1m2.5s``.

    None if there is none, or if it is more than a day.
    """
    seconds = 0.0
    at = 0
    while part := _PARTS.match(text, at):
        seconds += float(part[1]) * _UNITS[str(part.lastgroup)]
        at = part.end()

    return seconds if at and seconds <= _MOST_WAIT else None


def retry_after(
    headers: Mapping[str, str], *, clock: Callable[[], float] = time.time
) -> float | None:
    """Return the seconds to wait from the headers; None if they have none.

    The headers are ``retry-after-ms``, and ``Retry-After`` as seconds or a date (RFC 9110 §10.2.3).
    A date counts from the response's own ``Date``, else from ``clock`` (seconds since the epoch).
    Malformed, negative and non-finite values are ignored.
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
        return None  # AttributeError is raised if the value is not a text

    # a date without a time zone is ambiguous
    return date if date.tzinfo is not None else None
