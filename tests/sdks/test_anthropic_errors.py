"""Errors of calls over the anthropic SDK are instances of the SDK's own, too."""

from __future__ import annotations

from typing import Any

import pytest

import strictreply as sr
from support.claude import (
    ASK,
    ClaudeServer,
    anthropic,
    client,
    done,
    events_of,
    failed,
    http,
    message,
    pieces,
    sse,
    text,
)

BOTH = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
STATUSES = [
    (400, "invalid_request_error", "BadRequestError"),
    (401, "authentication_error", "AuthenticationError"),
    (404, "not_found_error", "NotFoundError"),
    (429, "rate_limit_error", "RateLimitError"),
    (500, "api_error", "InternalServerError"),
    (529, "overloaded_error", "OverloadedError"),
]


def raised(server: ClaudeServer, *, is_async: bool = False, **keywords: Any) -> Any:
    """Return the error of a call that may not be repeated."""
    own = client(server, is_async=is_async, max_retries=0)
    guarded = sr.wrap(own, max_retries=0)
    read = pieces if keywords.get("stream") else done
    with pytest.raises(sr.CallFailed) as caught:
        read(guarded.messages.create(**ASK, **keywords))

    return caught.value


@BOTH
@pytest.mark.parametrize(("status", "kind", "name"), STATUSES, ids=[one[2] for one in STATUSES])
def test_an_error_of_the_api_is_the_sdks_too(
    is_async: bool, status: int, kind: str, name: str
) -> None:
    """Who catches the SDK's error catches ours, with its fields."""
    error = raised(ClaudeServer(failed(status, kind)), is_async=is_async)
    assert isinstance(error, sr.TransportFailed)
    assert isinstance(error, getattr(anthropic, name, anthropic.InternalServerError))
    assert (error.status_code, error.request_id, error.type) == (status, "req_9", kind)
    assert error.body["error"]["message"] == "sorry"
    assert error.response.status_code == status


@BOTH
def test_retries_are_ours_alone(is_async: bool) -> None:
    """The client's ``max_retries`` is spent once: two repeats, each of one request."""
    server = ClaudeServer(failed(529, "overloaded_error", **{"retry-after": "0"}))
    with pytest.raises(anthropic.APIStatusError):
        done(sr.wrap(client(server, is_async=is_async)).messages.create(**ASK))

    assert len(server.requests) == 3


def test_a_refusal_is_the_error_of_a_body_that_does_not_fit() -> None:
    """The SDK raises nothing for a refusal: ours is its one error about the body of a success."""
    body = message(stop="refusal", stop_details={"type": "refusal", "category": "cyber"})
    error = raised(ClaudeServer(body))
    assert isinstance(error, sr.ReplyHalted)
    assert isinstance(error, anthropic.APIResponseValidationError)
    assert error.body == body
    assert (error.status_code, error.response.status_code) == (200, 200)


def test_a_cut_reply_is_the_error_of_a_body_that_does_not_fit() -> None:
    """The same holds for a reply that was cut off at its limit."""
    error = raised(ClaudeServer(message(text("abc"), stop="max_tokens")))
    assert isinstance(error, sr.ReplyRejected)
    assert isinstance(error, anthropic.APIResponseValidationError)
    assert [one.code for one in error.issues] == ["reply.truncated"]


@BOTH
def test_an_error_within_a_stream_is_an_error_of_the_api(is_async: bool) -> None:
    """An ``error`` event is read by its type, as the status would say it."""
    begun = list(events_of(message(text("hello"))))[:2]
    broken = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    body = sse([*begun, broken])
    events = http.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    error = raised(ClaudeServer(events), is_async=is_async, stream=True)
    assert isinstance(error, sr.TransportFailed)
    assert isinstance(error, anthropic.InternalServerError)


def test_an_error_in_the_body_of_a_success_is_an_error_of_the_api() -> None:
    """A gateway that answers 200 with an error has raised it."""
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    error = raised(ClaudeServer(http.Response(200, json=body)))
    assert isinstance(error, anthropic.RateLimitError)
    assert error.type == "rate_limit_error"


@BOTH
def test_a_deadline_is_the_sdks_timeout(is_async: bool) -> None:
    """A call whose deadline has passed raises what the SDK raises for a timeout."""
    own = client(ClaudeServer(message(text("x"))), is_async=is_async)
    with pytest.raises(anthropic.APITimeoutError) as caught:
        done(sr.wrap(own, deadline=1e-9).messages.create(**ASK))

    assert isinstance(caught.value, sr.ReplyHalted)


@BOTH
@pytest.mark.parametrize(
    "keywords",
    [{"model": "m"}, ASK | {"nonsense": 1}, ASK | {"max_tokens": 100_000}],
    ids=["missing", "unknown", "long"],
)
def test_what_the_sdk_says_of_keywords_is_said(is_async: bool, keywords: dict[str, Any]) -> None:
    """Keywords that the SDK refuses are refused with its words, and nothing is sent."""
    server = ClaudeServer(message(text("x")))
    found: list[tuple[type, str]] = []
    for one in (client(server, is_async=is_async), sr.wrap(client(server, is_async=is_async))):
        with pytest.raises((TypeError, ValueError)) as caught:
            done(one.messages.create(**keywords))
        found.append((type(caught.value), str(caught.value)))

    assert found[0] == found[1]
    assert server.requests == []
