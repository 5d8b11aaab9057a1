"""Approvals of calls: the question that interrupts a run, and the answers that decide it.

A decision holds for one call with its arguments, in one turn of one conversation. Words are not
searched for decisions: what is not one of the forms decides nothing, and the call goes on waiting.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from strictreply import ContractError, Invalid
from strictreply.core import JSONObject, decode
from strictreply.core.forms import peek
from strictreply.integrations.langgraph._graph_settings import ChatAgent
from strictreply.integrations.langgraph._graph_state import RunState
from strictreply.integrations.langgraph._graph_turns import AskHuman
from strictreply.loop import RunTool
from strictreply.loop.values import AgentToolCall, Decision

APPROVAL: Final = "tool_approval"
_WORDS: Final[Mapping[object, bool]] = {"approve": True, "deny": False}
_FORM: Final = (
    'a decision on a call is "approve", "deny", True, False, '
    '{"approved": …, "reason": …}, or call.approved() or call.denied(reason) of approvals_in(state)'
)


_BIGGEST: Final = 2**63 - 1  # no checkpoint holds a greater number


def waiting_in(state: RunState, calling: JSONObject, run: RunTool, index: int) -> AgentToolCall:
    written = calling["turn"]["tool_calls"][index]["function"]["arguments"]
    call = AgentToolCall(
        tool_call_id=str(run.call.id),
        name=run.call.tool,
        arguments_json=written,
        requires_client_execution=True,
        needs_approval=True,
    )
    return call.waiting_in(state["conversation_id"], turn_of(state))


def turn_of(state: RunState) -> str:
    return f"{state['branch']['id']}/{state['loop_count']}"


def decided(agent: ChatAgent, call: AgentToolCall) -> Generator[AskHuman, object, tuple[bool, str]]:
    """Ask whether a call may be run, until an answer is a decision; return it with its reason."""
    arguments = decode(call.arguments_json)
    bound = call.approved()
    question: JSONObject = {
        "id": call.tool_call_id,
        "kind": APPROVAL,
        "question": f"May {agent.name} run {call.name}?",
        "decisions": ["approve", "deny"],
        "agent": agent.name,
        "tool_call_id": call.tool_call_id,
        "name": call.name,
        "arguments": arguments if _is_kept(arguments) else None,
        "arguments_json": call.arguments_json,
        "session_id": bound.session_id,
        "turn_id": bound.turn_id,
    }

    refusal = None
    while True:
        answer = yield AskHuman(question, refusal)
        try:
            return _decision(call, answer)
        except ContractError as error:
            refusal = error


def _is_kept(value: object) -> bool:
    """Return whether a checkpoint holds a JSON value: not one with numbers beyond 64 bits."""
    if isinstance(value, dict):
        return all(map(_is_kept, value.values()))
    if isinstance(value, list):
        return all(map(_is_kept, value))
    return not isinstance(value, Invalid) and not (
        isinstance(value, int) and not -_BIGGEST <= value <= _BIGGEST
    )


def _decision(call: AgentToolCall, answer: object) -> tuple[bool, str]:
    """Read whether a call may be run, and why not.

    Raises ContractError for an answer that decides nothing, or on another call.
    """
    if isinstance(answer, bool):
        return answer, ""
    if isinstance(answer, str) and answer.strip().casefold() in _WORDS:
        return _WORDS[answer.strip().casefold()], ""

    if isinstance(answer, Mapping) and "tool_call_id" in answer:
        try:
            answer = Decision(**cast("dict[str, Any]", answer))
        except TypeError:
            raise ContractError(_FORM) from None

    if isinstance(answer, Decision):
        if answer != replace(call.approved(), approved=answer.approved, reason=answer.reason):
            raise ContractError("this decision was made for another call or for other arguments")
        return answer.approved, answer.reason

    if not isinstance(answer, Mapping):
        raise ContractError(_FORM)

    approval = call.answered(dict(cast("Mapping[str, Any]", answer))).approval
    if approval is None:
        raise ContractError(_FORM)
    return approval


def approvals_in(state: object) -> tuple[AgentToolCall, ...]:
    """Return the calls that wait for an approval, in what ``invoke`` returned or a snapshot.

    ``call.approved()`` and ``call.denied(reason)`` decide on one: resume with it, as in
    ``Command(resume=call.approved().to_dict())``.
    """
    given: Any = peek(state, "__interrupt__") or getattr(state, "interrupts", ())
    values = [one.value for one in given]
    return tuple(
        AgentToolCall(
            tool_call_id=value["tool_call_id"],
            name=value["name"],
            arguments_json=value["arguments_json"],
            requires_client_execution=True,
            needs_approval=True,
        ).waiting_in(value["session_id"], value["turn_id"])
        for value in values
        if peek(value, "kind") == APPROVAL
    )
