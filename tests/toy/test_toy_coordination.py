"""Agents on a third API: their replies are read by its wire, and judged as those of the others."""

from __future__ import annotations

from typing import Any

import pytest

import strictreply as sr
from strictreply.coordination import ActionType
from strictreply.coordination.formats import ResponseProcessor
from strictreply.coordination.validation import (
    ActionSteering,
    ValidationProcessor,
    ValidationResult,
    retry_with_steering,
)
from support.coordination.routed import PROCESSOR, TEAM, search
from toy.toy_engine import Engine, said, used
from toy.toy_sdk import Toy

HANDOVER = '{"next_action": "invoke_agent", "action_input": "Worker1", "request": "north"}'


def judged(reply: Any) -> ValidationResult:
    """Judge what came back for the coordinator."""
    return PROCESSOR.validate(reply, "Coordinator")


def test_an_action_is_read_of_a_whole_reply() -> None:
    """As of a completion: the text is the action, whatever stands around it."""
    result = judged(said(HANDOVER))
    assert result.action_type is ActionType.INVOKE_AGENT
    assert result == judged(HANDOVER)


def test_native_calls_are_an_action() -> None:
    """They are judged as those of a message; what the API calls them is in no action."""
    result = judged(used({"query": "tea"}))
    assert result.action_type is ActionType.CALL_TOOL
    (call,) = result.calls
    assert (call.tool, call.args.query, call.id) == ("search", "tea", "7")
    assert result.tool_calls == [
        {
            "id": "7",
            "type": "function",
            "function": {"name": "search", "arguments": '{"query": "tea"}'},
        }
    ]

    wrong = judged(used({"query": 1}))
    assert [issue.path for issue in wrong.issues] == ["/tool_calls/0/function/arguments/query"]


def test_a_reply_that_was_cut_or_an_error_is_refused() -> None:
    """The wire says how it ended, before a word of it is read."""
    cut = judged(said(HANDOVER) | {"halt": "spent"})
    assert [issue.code for issue in cut.issues] == ["reply.truncated"]

    error = judged({"mishap": {"why": "busy", "sort": "busy"}})
    assert [issue.code for issue in error.issues] == ["envelope.error"]


def test_an_action_with_a_member_of_that_name_is_an_action() -> None:
    """A mapping with a next_action is no response of an API."""
    action = {"next_action": "final_response", "content": "done", "turn": 3}
    assert [(issue.code, issue.path) for issue in judged(action).issues] == [
        ("action.extra_key", "")
    ]


def test_a_processor_of_a_program_is_given_a_message() -> None:
    """It has the text and the calls in the form that processors know."""
    given: list[Any] = []

    class Watching(ResponseProcessor):
        def can_process(self, response: Any) -> bool:
            given.append(response)
            return False

        def process(self, response: Any) -> dict[str, Any] | None:
            return None

        def priority(self) -> int:
            return 200

    processor = ValidationProcessor(TEAM, tools=[search])
    processor.register_processor(Watching())
    reply = used({"query": "tea"})
    reply["turn"]["says"].insert(0, {"words": "I look."})
    assert processor.validate(reply, "Coordinator").is_valid
    message = given[0]
    assert message["role"] == "assistant"
    assert message["content"] == "I look."
    assert message["tool_calls"][0]["function"]["name"] == "search"
    assert "says" not in message


@pytest.mark.parametrize("right", [said(HANDOVER), used({"query": "tea"}, ticket=9)])
def test_an_agent_is_steered(engine: Engine, right: dict[str, Any]) -> None:
    """A client of the API is asked until its reply is an action."""
    engine.replies = [said("Let me think."), right]
    client: Any = sr.wrap(Toy(engine.url), steering=ActionSteering(), api="toy")
    answer = PROCESSOR.answer_kind("Coordinator")
    result = retry_with_steering(client, answer, engine="e", talk="Analyze")
    assert isinstance(result, ValidationResult)
    assert result == judged(right)
    assert [turn["by"] for turn in engine.asked[1]["talk"]] == ["human", "engine", "human"]
