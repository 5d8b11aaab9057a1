"""The faults of the response around a reply, and of how it ended.

The laws of all are in ``test_reply_laws``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from strictreply import Tool
from strictreply.testing import faults, ok
from support.testing.faults.reply_laws import as_json
from support.testing.faults.spoken import CANARY, PROSE

MESSAGE = {"role": "assistant", "content": PROSE, "refusal": None}
GOOD: Any = ok.answer().served
PING = Tool.from_json_schema("ping", {"type": "object", "properties": {}})


def served_by(name: str) -> Any:
    """Return the response that one fault serves."""
    return as_json(getattr(faults, name)().served)


def choice_of(name: str, tool: Tool | None = None) -> dict[str, Any]:
    """Return the choice that one fault serves."""
    choice: dict[str, Any] = getattr(faults, name)(tool).served["choices"][0]
    return choice


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("empty_choices", []),
        ("null_choices", None),
        ("null_choice", [None]),
        (
            "choices_as_object",
            {"index": 0, "message": MESSAGE, "logprobs": None, "finish_reason": "stop"},
        ),
    ],
)
def test_the_choices_are_something_else(name: str, choices: Any) -> None:
    """All but the choices is as it was."""
    assert served_by(name) == GOOD | {"choices": choices}


def test_the_choices_are_missing_or_too_many() -> None:
    """None is there, or a second one that differs in its index."""
    assert "choices" not in served_by("missing_choices")
    assert [choice["index"] for choice in served_by("two_choices")["choices"]] == [0, 1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("null_message", None),
        ("empty_message", {}),
        ("message_as_text", PROSE),
        ("message_in_array", [MESSAGE]),
        ("user_role", MESSAGE | {"role": "user"}),
    ],
)
def test_the_message_is_something_else(name: str, message: Any) -> None:
    """All but the message is as it was."""
    (choice,) = served_by(name)["choices"]
    assert choice == {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("name", "response"),
    [
        ("response_in_array", [GOOD]),
        ("response_as_number", 42),
        ("null_response", None),
        ("empty_response", {}),
        ("bare_message", MESSAGE),
    ],
)
def test_the_response_is_something_else(name: str, response: Any) -> None:
    """The completion is not there, or not at the root."""
    assert served_by(name) == response


def test_a_response_may_be_the_text_of_the_completion() -> None:
    """The completion can be read, by who reads twice."""
    assert json.loads(served_by("response_as_text")) == GOOD


@pytest.mark.parametrize(
    "name",
    [
        "error_for_response",
        "error_as_text",
        "error_members_for_response",
        "error_beside_choices",
        "error_in_choice",
    ],
)
def test_what_an_error_says_is_invented(name: str) -> None:
    """The words of a server may hold the model's, so they may not come back in a prompt either."""
    assert getattr(faults, name)().invented[:1] == (CANARY,)


@pytest.mark.parametrize(
    "name",
    [
        *("message_as_text", "chunk_for_response", "text_completion", "response_of_responses_api"),
        *("response_of_ollama", "response_of_anthropic"),
    ],
)
def test_a_response_in_another_form_still_says_the_reply(name: str) -> None:
    """The good reply stands somewhere in it: a client that looks for it there would take it."""
    assert PROSE in json.dumps(served_by(name))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cut_at_length", "length"),
        ("cut_at_max_tokens", "max_tokens"),
        ("cut_at_model_length", "model_length"),
        ("filtered_midway", "content_filter"),
        ("blocked_as_recitation", "RECITATION"),
        ("ended_in_error", "error"),
        ("aborted", "abort"),
        ("out_of_resources", "insufficient_system_resource"),
    ],
)
def test_half_of_the_reply_came(name: str, reason: str) -> None:
    """The finish reason says why there is no more, in the word of some server."""
    choice = choice_of(name)
    assert choice["finish_reason"] == reason
    assert choice["message"]["content"] == PROSE[: len(PROSE) // 2]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("filtered", "content_filter"),
        ("blocked_for_safety", "SAFETY"),
        ("blocked_as_sensitive", "sensitive"),
    ],
)
def test_nothing_of_the_reply_came(name: str, reason: str) -> None:
    """The finish reason says why, and the content is empty."""
    choice = choice_of(name, PING)
    assert choice["finish_reason"] == reason
    assert not choice["message"]["content"]
    assert "tool_calls" not in choice["message"]


def test_a_call_is_cut_in_its_arguments() -> None:
    """The call is there, with the first half of its text."""
    (call,) = choice_of("cut_at_length", PING)["message"]["tool_calls"]
    assert call["function"] == {"name": "ping", "arguments": "{"}


def test_a_reply_at_the_limit_may_read_as_whole() -> None:
    """Only the finish reason tells that something may be missing."""
    assert choice_of("whole_at_length")["message"]["content"] == PROSE
    assert choice_of("whole_at_length")["finish_reason"] == "length"


@pytest.mark.parametrize(("name", "content"), [("refusal", None), ("refusal_beside_reply", PROSE)])
def test_a_refusal_stands_in_its_own_member(name: str, content: str | None) -> None:
    """The finish reason is that of any reply, and the refusal's words are invented."""
    choice = choice_of(name)
    assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", content)
    assert CANARY in choice["message"]["refusal"]
    assert getattr(faults, name)().invented[:1] == (CANARY,)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("nothing_said", None),
        ("empty_content", ""),
        ("blank_content", " \n"),
        ("reasoning_alone", None),
    ],
)
def test_nothing_is_said(name: str, content: str | None) -> None:
    """The reply ended as any other, without a word."""
    choice = choice_of(name)
    assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", content)


def test_tools_were_to_be_called_and_none_is() -> None:
    """The finish reason promises calls, and their list is empty."""
    choice = choice_of("tool_calls_without_calls", PING)
    assert (choice["finish_reason"], choice["message"]["tool_calls"]) == ("tool_calls", [])


@pytest.mark.parametrize("name", ["reasoning_to_the_limit", "reasoning_alone"])
def test_reasoning_is_invented(name: str) -> None:
    """The model's reasoning may not come back in a prompt, other than in its own turn."""
    assert CANARY in choice_of(name)["message"]["reasoning_content"]
    assert getattr(faults, name)().invented[:1] == (CANARY,)
