"""Exceptions of the transport are read into one value.

Everything else is a bug and stays an exception.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.core import Failure, classify
from strictreply.core.calls import ExchangeStopped, retry_after
from strictreply.retry._failures import duration, failure_in, wait_in
from support.scripted import StatusError


class APITimeoutError(Exception):
    """Named as the SDK names it."""


class NetworkError(Exception):
    """httpcore's name for a connection that broke."""


class ProtocolError(Exception):
    """httpcore's name for what is no HTTP."""


class APIConnectionError(Exception):
    """Named as the SDK names it."""


class OpenAIError(Exception):
    """Named as the SDK names its root."""


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "invalid_request", False),
        (401, "authentication_failed", False),
        (403, "permission_denied", False),
        (404, "not_found", False),
        (408, "timeout", True),
        (409, "conflict", True),
        (413, "request_too_large", False),
        (418, "api_error", False),
        (422, "invalid_request", False),
        (425, "api_error", True),
        (429, "rate_limit", True),
        (500, "server_error", True),
        (503, "server_error", True),
        (529, "server_error", True),
    ],
)
def test_an_http_status_has_its_kind(status: int, kind: str, retryable: bool) -> None:
    """The status alone says what happened and whether the same request may succeed later."""
    failure = classify(StatusError(status))
    assert failure is not None
    assert (failure.kind, failure.retryable, failure.status_code) == (kind, retryable, status)


@pytest.mark.parametrize(
    ("status", "said", "retryable"), [(400, "true", True), (503, "false", False), (503, "?", True)]
)
def test_a_server_says_whether_to_try_again(status: int, said: str, retryable: bool) -> None:
    """``x-should-retry`` has the last word, as in the SDK; a value that it does not know says
    nothing.
    """
    failure = classify(StatusError(status, {"x-should-retry": said}))
    assert failure is not None
    assert failure.retryable is retryable


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached"])
def test_a_spent_quota_is_no_rate_limit(code: str) -> None:
    """HTTP 429 for money that is spent is not repeated."""
    failure = classify(StatusError(429, {"retry-after": "1"}, code))
    assert failure is not None
    assert (failure.kind, failure.retryable, failure.retry_after) == (
        "insufficient_credits",
        False,
        None,
    )


ERROR = {"code": "tool_use_failed", "failed_generation": "<function=search>"}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (ERROR, ERROR),
        ({"error": ERROR}, ERROR),
        ({"error": ERROR, "id": "x"}, ERROR),
        ({"detail": "no", "cause": {1: object()}}, {"detail": "no", "cause": {"1": "<object>"}}),
        ({"error": "busy"}, {"error": "busy"}),
        ("busy", "busy"),
        ("", None),
        (None, None),
        ([ERROR], ERROR),
        ([{"error": ERROR}], ERROR),
        ([ERROR, ERROR], None),
    ],
)
def test_v9_the_error_in_a_body_is_kept(body: object, error: object) -> None:
    """The error in the body is read as plain JSON, the SDK's way or whole, and stays out of the
    text.
    """
    failure = classify(StatusError(400, body=body))
    assert failure is not None
    assert failure.error == error
    assert "search" not in repr(failure) + str(failure)


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (APITimeoutError(), "timeout", True),
        (TimeoutError(), "timeout", True),
        (APIConnectionError(), "connection", True),
        (ConnectionResetError(), "connection", True),
        (NetworkError(), "connection", True),
        (ProtocolError(), "connection", True),
        (OpenAIError(), "api_error", False),
        (json.JSONDecodeError("no JSON", "<html>", 0), "unreadable_response", True),
    ],
)
def test_an_exception_without_status_is_told_by_its_class(
    error: Exception, kind: str, retryable: bool
) -> None:
    """Timeouts and lost connections are known by name, whatever SDK raised them."""
    failure = classify(error)
    assert failure is not None
    assert (failure.kind, failure.retryable, failure.cause) == (kind, retryable, error)


@pytest.mark.parametrize(
    "error", [TypeError("bug"), ValueError(), KeyError("x"), RuntimeError(), OSError()]
)
def test_a_bug_is_no_failure(error: Exception) -> None:
    """An exception that no transport raises is not read as a failure."""
    assert classify(error) is None


DATE = "Wed, 21 Oct 2015 07:28:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "7"}, 7.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT", "date": DATE}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:27:00 GMT", "date": DATE}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30", "date": DATE}, None),
        ({"retry-after": "Wed, 21 Oct 99999999999999999999 07:28:00 GMT", "date": DATE}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_retry_after_is_read_in_every_spelling(
    headers: dict[str, str], seconds: float | None
) -> None:
    """Seconds, milliseconds and dates count from the response; what means nothing is None."""
    assert retry_after(headers) == seconds


@pytest.mark.parametrize("date", [{}, {"date": ""}, {"date": "yesterday"}])
@pytest.mark.parametrize(
    ("now", "seconds"), [(1445412480.0, 30.0), (1445412509.5, 0.5), (1445412600.0, 0.0)]
)
def test_v14_a_date_alone_counts_from_now(date: dict[str, str], now: float, seconds: float) -> None:
    """Without a ``Date`` that can be read, ``Retry-After`` as a date counts from the moment it is
    read.
    """
    assert (
        retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT", **date}, clock=lambda: now)
        == seconds
    )


def test_v14_a_date_alone_reaches_the_failure() -> None:
    """An SDK's error that carries such a date asks for a wait; one long past asks for none."""
    far = formatdate(4102444800, usegmt=True)  # in 2100
    failure, past = (classify(StatusError(429, {"retry-after": date})) for date in (far, DATE))
    assert failure is not None
    assert past is not None
    assert (failure.retry_after or 0) > 0
    assert past.retry_after == 0.0


@pytest.mark.parametrize(
    ("value", "seconds"), [(5, 5.0), (2.5, 2.5), (-5, None), ([5], None), (None, None)]
)
def test_a_header_that_is_no_text_harms_nothing(value: Any, seconds: float | None) -> None:
    """A number among the headers of another SDK's error counts as its text would; anything else is
    None.
    """
    assert retry_after({"retry-after": value, "date": value}) == seconds


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_no_header_harms(milliseconds: str, value: str, date: str) -> None:
    """Any header gives a finite wait that is not negative, or None."""
    wait = retry_after({"retry-after-ms": milliseconds, "retry-after": value, "date": date})
    assert wait is None or (math.isfinite(wait) and wait >= 0)


def test_a_failure_is_told_without_the_servers_words() -> None:
    """The text of a failure is its kind and status; the server's own text stays in the cause."""
    failure = classify(StatusError(503))
    assert failure is not None
    assert str(failure) == "server_error (HTTP 503)"
    assert str(classify(TimeoutError("secret"))) == "timeout"
    assert "secret" not in repr(classify(TimeoutError("secret")))


@pytest.mark.parametrize("wrapped", [False, True])
def test_v7_our_own_stop_is_found_under_what_an_sdk_made_of_it(wrapped: bool) -> None:
    """An exchange that we broke off ends with our failure, also where the SDK reads it as a broken
    connection.
    """
    stopped = ExchangeStopped(
        Failure("redirect_refused", retryable=False, status_code=307, detail="to http://x")
    )
    error: Exception = stopped

    if wrapped:
        error = APIConnectionError("Connection error.")
        error.__cause__ = stopped

    failure = classify(error)
    assert failure == stopped.failure
    assert failure is not None
    assert failure.cause is error

    assert str(failure) == "redirect_refused (HTTP 307): to http://x"


WAITS = [
    ("Rate limit reached for m on tokens per min. Please try again in 7.66s. Visit x", 7.66),
    ("Limit 200000, Used 196672. Please try again in 1m2.639999999s. Need more?", 62.639999999),
    ("Please try again in 350ms.", 0.35),
    ("Please try again in 2h3m.", 7_380.0),
    ("Please try again in 22m27.84s", 1_347.84),
    ("Please retry after 7 seconds.", 7.0),
    ("Rate limit is exceeded. Try again in 26 seconds.", 26.0),
    ("Try again in 2 hours 5 minutes.", 7_500.0),
    ("Quota exceeded. Please retry in 34.860861211s.", 34.860861211),
    ("groq error: litellm.RateLimitError: GroqException - Please try again in 1 minute", 60.0),
    ("Please try again later.", None),
    ("Please try again in 5", None),
    ("Please try again in 5 apples", None),
    ("Please try again in 3 days", None),
    ("The limit is 20s per call.", None),
    ("", None),
]


@pytest.mark.parametrize(("words", "seconds"), WAITS)
def test_the_words_of_a_rate_limit_tell_the_wait(words: str, seconds: float | None) -> None:
    """Where no header does; of a status and in a 200 alike, and of no other error."""
    limited = classify(StatusError(429, body={"message": words}))
    assert limited is not None
    assert limited.retry_after == (None if seconds is None else pytest.approx(seconds))

    inside = failure_in({"error": {"code": 429, "message": words}})
    assert inside is not None
    assert inside.retry_after == limited.retry_after

    headed = classify(StatusError(429, {"retry-after": "3"}, body={"message": words}))
    assert headed is not None
    assert headed.retry_after == 3.0

    for status in (400, 401, 500, 503):
        other = classify(StatusError(status, body={"message": words}))
        assert other is not None
        assert other.retry_after is None


def test_the_details_of_a_rate_limit_tell_the_wait() -> None:
    """Google's RetryInfo stands among the details of the error."""
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    known: list[Any] = [[info], [{}, info], [{"retryDelay": None}, info]]
    for details in known:
        failure = failure_in({"error": {"code": 429, "message": "x", "details": details}})
        assert failure is not None
        assert failure.retry_after == 34.5

    unknown: list[Any] = [None, "34s", [], [{"retryDelay": 34}], [{"retryDelay": "soon"}]]
    for details in unknown:
        failure = failure_in({"error": {"code": 429, "message": "x", "details": details}})
        assert failure is not None
        assert failure.retry_after is None


@given(st.text(max_size=80))
def test_no_words_harm(words: str) -> None:
    """Any words give a wait between nothing and a day, or None."""
    for told in (words, f"Please try again in {words}", f"retry after 1{words}"):
        wait = wait_in([{"message": told}])
        assert wait is None or (math.isfinite(wait) and 0 <= wait <= 86_400)


@given(
    st.integers(0, 22), st.integers(0, 59), st.decimals(0, 59, places=3), st.sampled_from(["", " "])
)
def test_a_duration_is_read_as_it_is_written(
    hours: int, minutes: int, seconds: Decimal, between: str
) -> None:
    """Hours, minutes and seconds add up, with or without blanks between them."""
    written = between.join((f"{hours}h", f"{minutes}m", f"{seconds}s"))
    assert duration(written) == pytest.approx(hours * 3600 + minutes * 60 + float(seconds))
