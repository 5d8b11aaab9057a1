"""Agents over the Messages API: their replies are read by its wire, and judged as the others'."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import strictreply as sr
from strictreply.coordination import ActionType
from strictreply.coordination.validation import (
    ActionSteering,
    ValidationResult,
    retry_with_steering,
)
from support.anthropic_rules import RulesServer
from support.claude import anthropic
from support.claude_runs import THINKING, raw_client
from support.coordination.routed import PROCESSOR
from support.messages import message, text, thought, use

HANDOVER = '{"next_action": "invoke_agent", "action_input": "Worker1", "request": "north"}'
THOUGHT = {"type": "thinking", "thinking": "hm"}


def judged(reply: Any) -> ValidationResult:
    """Judge what came back for the coordinator."""
    return PROCESSOR.validate(reply, "Coordinator")


@pytest.mark.parametrize("as_object", [False, True], ids=["plain", "the SDK's"])
def test_an_action_is_read_of_a_message(as_object: bool) -> None:
    """The text is the action, and native calls are one, whatever stands around them."""

    def came(*content: Any) -> Any:
        whole = message(thought(), *content)
        return anthropic.types.Message.model_validate(whole) if as_object else whole

    handed = judged(came(text(HANDOVER)))
    assert handed.action_type is ActionType.INVOKE_AGENT
    assert handed == judged(HANDOVER)

    called = judged(came(text("I look."), use({"query": "tea"})))
    assert called.action_type is ActionType.CALL_TOOL
    (call,) = called.calls
    assert (call.tool, call.args.query, call.id) == ("search", "tea", "toolu_a")


@pytest.mark.parametrize(
    ("reply", "codes"),
    [
        (message(use({"query": 1})), ["args.type"]),
        (message(text(HANDOVER), stop="max_tokens"), ["reply.truncated"]),
        (message(stop="refusal"), ["reply.refusal"]),
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
            ["envelope.error"],
        ),
    ],
)
def test_what_is_no_action_is_refused(reply: Any, codes: list[str]) -> None:
    """The wire says how a message ended, before a word of it is read."""
    assert [issue.code for issue in judged(reply).issues] == codes


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("right", [[text(HANDOVER)], [use({"query": "tea"})]], ids=["text", "call"])
def test_an_agent_is_steered(is_async: bool, right: list[Any]) -> None:
    """A client of the API is asked until its reply is an action; its thoughts stay whole."""
    wrong = [[THOUGHT, text("Let me think.")], [THOUGHT, text("I have thought.")]]
    with RulesServer(*wrong, [THOUGHT, *right]) as server:
        client: Any = sr.wrap(raw_client(server, is_async=is_async), steering=ActionSteering())
        answer = PROCESSOR.answer_kind("Coordinator")
        asked = {"model": "claude", "messages": "Analyze", **THINKING}
        result: Any = retry_with_steering(client, answer, **asked)

        async def awaited() -> Any:
            async with client:
                return await result

        if is_async:
            result = asyncio.run(awaited())

    # an action has open objects, of which the API takes no schema as a format
    assert {refusal.rule for refusal in server.refused} <= {"format"}
    assert result == judged(message(*right))
    turns = server.asked[-1]["messages"]
    sent = [one["content"] for one in server.sent]
    assert [turn["content"] for turn in turns if turn["role"] == "assistant"] == sent[:2]
    assert turns[-1]["role"] == "user"
