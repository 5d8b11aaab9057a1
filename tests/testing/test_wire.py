"""What is served, as values: completions, errors and responses as the API spells them."""

from __future__ import annotations

import json

import pytest
from openai.types.chat import ChatCompletion

from strictreply.testing._wire import HTTPReply, Pause, assistant, completion, error_reply, native_call


@pytest.mark.parametrize(
    ("message", "reason"),
    [(assistant("hi"), "stop"), (assistant(None, [native_call("f", "{}")]), "tool_calls"), ({}, "stop")],
)
def test_the_usual_finish_reason_follows_from_the_message(message: dict[str, object], reason: str) -> None:
    """A message with calls ends for them, any other stops; one that is given stays."""
    assert completion(message)["choices"][0]["finish_reason"] == reason
    assert completion(message, finish_reason="length")["choices"][0]["finish_reason"] == "length"


def test_a_completion_is_what_the_sdk_calls_one() -> None:
    """The SDK's strict model takes it, and the tokens add up."""
    parsed = ChatCompletion.model_validate(completion(assistant(None, [native_call("f", "{}")]), usage=(3, 4)))
    assert parsed.usage is not None
    assert parsed.usage.total_tokens == 7


def test_a_message_names_calls_only_when_there_are_any() -> None:
    """An answer has no member ``tool_calls``; further members stand beside the usual ones."""
    assert "tool_calls" not in assistant("hi")
    assert assistant("hi", reasoning_content="hm")["reasoning_content"] == "hm"


def test_an_error_is_openais() -> None:
    """The body of an error has its four members, the response its status and headers."""
    error = error_reply(429, "slow down", kind="rate_limit_error", code="slow", headers={"Retry-After": "7"})
    wanted = {"message": "slow down", "type": "rate_limit_error", "param": None, "code": "slow"}
    assert json.loads(error.body) == {"error": wanted}
    assert (error.status, error.headers) == (429, {"Content-Type": "application/json", "Retry-After": "7"})


def test_a_body_is_its_parts_without_the_pauses() -> None:
    """Pauses take time and no bytes."""
    assert HTTPReply(parts=(b"a", Pause(1), b"", b"b")).body == b"ab"
