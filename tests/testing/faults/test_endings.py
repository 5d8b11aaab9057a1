"""The faults of how a reply ended; the laws that hold for all of them are in ``test_reply_laws``."""

from __future__ import annotations

from typing import Any

import pytest

from strictreply.contract._tool import Tool
from strictreply.testing._steps import CANARY
from strictreply.testing._targets import PROSE
from strictreply.testing.faults import _endings as endings

PING = Tool.from_json_schema("ping", {"type": "object", "properties": {}})


def choice_of(name: str, tool: Tool | None = None) -> dict[str, Any]:
    """Give the choice that one fault serves."""
    choice: dict[str, Any] = getattr(endings, name)(tool).served["choices"][0]
    return choice


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
    [("filtered", "content_filter"), ("blocked_for_safety", "SAFETY"), ("blocked_as_sensitive", "sensitive")],
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
    assert getattr(endings, name)().invented[:1] == (CANARY,)


@pytest.mark.parametrize(
    ("name", "content"),
    [("nothing_said", None), ("empty_content", ""), ("blank_content", " \n"), ("reasoning_alone", None)],
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
    """What the model thought may not come back in a prompt, other than in its own turn."""
    assert CANARY in choice_of(name)["message"]["reasoning_content"]
    assert getattr(endings, name)().invented[:1] == (CANARY,)
