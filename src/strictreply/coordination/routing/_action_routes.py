"""Where each action of a valid reply leads: one route for every action, and no step over an edge that is not there.

What comes here is permitted: the router has asked again (requirement M107).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from strictreply.coordination._actions.kinds import ActionType, AgentInvocation, Origin
from strictreply.coordination._replies.api_errors import ApiError
from strictreply.coordination._steering.error_policy import Reaction
from strictreply.coordination._topology.graph import END_NODE, USER
from strictreply.coordination.routing._case import RoutingCase, go_on, refuse, stop, tell_user
from strictreply.coordination.routing._decisions import (
    BranchSpec,
    ExecutionStep,
    RoutingDecision,
    RoutingReason,
    StepType,
)
from strictreply.reading._decoding import decode
from strictreply.values._issues import Code, Issue, pointer
from strictreply.values._json import JSONObject
from strictreply.values._replies import Invalid

Route: TypeAlias = Callable[[RoutingCase], RoutingDecision]
"""Decides what a valid reply with one kind of action leads to."""


def _sequential(case: RoutingCase) -> RoutingDecision:
    """Hand over to one agent; to a partner of the conversation while it has turns left (requirements M95, M108)."""
    if len(case.result.invocations) != 1:
        return _broken("it does not name one agent to hand over to")
    invocation = case.result.invocations[0]
    target = invocation.agent_name
    if not case.in_conversation_with(target):
        return go_on(RoutingReason.SEQUENTIAL, _invoke(case, invocation))
    turn = case.branch.turns + 1
    if turn > case.branch.max_turns:
        words = f"the conversation has had its {case.branch.max_turns} turns"
        return stop(RoutingReason.MAX_TURNS, words, conversation_turns=case.branch.turns)
    step = _invoke(case, invocation, conversation_turn=turn)
    return go_on(RoutingReason.CONVERSATION, step, conversation_turns=turn)


def _parallel(case: RoutingCase) -> RoutingDecision:
    """Open a branch for each invocation, with its own request, and wait (requirements M96, M97)."""
    invocations = case.result.invocations
    if len(invocations) < MIN_PARALLEL:
        return _broken("it does not name two agents to hand over to")
    specs = [BranchSpec(agent=one.agent_name, request=one.request, instance_id=one.instance_id) for one in invocations]
    waiting = go_on(RoutingReason.PARALLEL, child_count=len(specs))
    return replace(waiting, branch_specs=specs, should_continue=False, should_wait=True)


def _tools(case: RoutingCase) -> RoutingDecision:
    """Run one step for each call, in order; none when one of them cannot be read (requirement M98)."""
    calls = case.result.tool_calls
    steps = [_tool_step(case, call, pointer("/tool_calls", index)) for index, call in enumerate(calls)]
    broken = [step for step in steps if isinstance(step, Invalid)]
    if broken or not steps:
        return _broken(broken[0].summary if broken else "it calls no tool")
    return go_on(RoutingReason.TOOLS, *(step for step in steps if isinstance(step, ExecutionStep)))


def _tool_step(case: RoutingCase, call: JSONObject, at: str) -> ExecutionStep | Invalid:
    """Make the step of one call, its arguments decoded."""
    function = call.get("function")
    named: JSONObject = function if isinstance(function, dict) else {}
    name, written = named.get("name"), named.get("arguments")
    arguments = {} if written == "" else decode(written, at=pointer(at, "function", "arguments"))
    if isinstance(arguments, Invalid):
        return arguments
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return Invalid((Issue.of(Code.CALL_MALFORMED, at, expected=_CALL),))
    data: JSONObject = {"arguments": arguments, "tool_call_id": call.get("id"), "tool_call": call}
    return ExecutionStep(
        step_type=StepType.TOOL_EXECUTION, target=name, data=data, metadata={"calling_agent": case.agent}
    )


def _final(case: RoutingCase) -> RoutingDecision:
    """Give the answer to the user, or to the end, where the agent has an edge to one of them (requirement M99)."""
    target = USER if case.topology.may_ask_user(case.agent) else END_NODE
    data = {"content": case.parsed.get("content")}
    step = ExecutionStep(step_type=StepType.FINAL_RESPONSE, target=target, data=data, metadata={"agent": case.agent})
    return stop(RoutingReason.FINAL, "the agent gave its final response", step)


def _end_conversation(case: RoutingCase) -> RoutingDecision:
    """End a conversation (requirement M100)."""
    words = "the agent ended the conversation"
    return stop(RoutingReason.CONVERSATION_ENDED, words, conversation_turns=case.branch.turns)


def _wait(case: RoutingCase) -> RoutingDecision:
    """Wait for the parallel branches (requirement M100)."""
    step = ExecutionStep(step_type=StepType.WAIT_FOR_CONVERGENCE, target=case.agent)
    return replace(go_on(RoutingReason.WAITING, step), should_continue=False, should_wait=True)


def _ask_user(case: RoutingCase) -> RoutingDecision:
    """Put a question to the user."""
    data = {"request": case.parsed.get("question")}
    known = {"requires_user_action": True, "asking_agent": case.agent}
    step = ExecutionStep(step_type=StepType.AGENT_INVOCATION, target=USER, data=data, metadata=known)
    return go_on(RoutingReason.USER_ASKED, step)


def _recovery(case: RoutingCase) -> RoutingDecision:
    """Bring an error to the user, who says how to go on (requirements M81, M88, M101).

    The system's own errors reach the user whatever the topology says, an agent's only over an edge (M49, X8).
    """
    return _brought_to_user(case, RoutingReason.RECOVERY)


def _brought_to_user(case: RoutingCase, reason: RoutingReason) -> RoutingDecision:
    """Make the decision that waits for a user's word on an error."""
    details = _details(case)
    error = _api_error(case)
    context = {"agent_name": case.agent, "branch_id": case.context.current_branch_id or case.branch.id}
    suggestions = list(error.suggested_actions)
    data = {"suggested_action": error.suggested_action} if error.suggested_action else {}
    step = tell_user(
        details,
        data=data,
        requires_user_action=True,
        can_retry=True,
        failed_agent=case.agent,
        suggested_actions=suggestions,
        retry_context=context,
    )
    return replace(go_on(reason, step), error_action=Reaction.ESCALATE.value)


def _terminal(case: RoutingCase) -> RoutingDecision:
    """Show an error to the user and end: nothing is tried again (requirement M102).

    An agent reaches the user so because it was permitted expressly to end a run (X8). The system's own word names the
    class of the error as the reason.
    """
    error = _api_error(case)
    step = tell_user(_details(case), no_retry=True, failed_agent=case.agent)
    words = f"Terminal error: {_reporter(case) or error.issue.message}"
    ended = stop(RoutingReason.TERMINAL, words, step, error=words)
    known = {"termination_reason": error.classification.value} if case.result.origin is Origin.SYSTEM else {}
    return replace(ended, metadata=ended.metadata | known)


def _auto_retry(case: RoutingCase) -> RoutingDecision:
    """Call the same agent again, within the transport's budget, else ask the user (requirements M83, M89, M103)."""
    error, made, budget = _api_error(case), case.context.transport_retries, case.policy.budget
    wait = error.retry_after
    if made >= budget.transport_retries or (wait is not None and wait > budget.max_retry_after):
        return _brought_to_user(case, RoutingReason.RETRIES_SPENT)
    known = {"retry_attempt": made + 1, "retry_reason": error.issue.code}
    data = {"retry_after": wait}
    step = ExecutionStep(step_type=StepType.AGENT_INVOCATION, target=case.agent, data=data, metadata=known)
    return replace(go_on(RoutingReason.AUTO_RETRY, step), error_action=Reaction.RETRY.value)


def route_of(case: RoutingCase, action: ActionType) -> Route:
    """Give the route of an action; of the system's own word on a failed call the one that the policy says.

    A row of its table that is not the published one goes before what the class of the error says (requirement X5).
    """
    if case.result.origin is not Origin.SYSTEM:
        return ROUTES[action]
    reaction = case.policy.changed(_api_error(case).issue.category)
    return ROUTES[action if reaction is None else _REACTING[reaction]]


_REACTING: Final[Mapping[Reaction, ActionType]] = {
    Reaction.RETRY: ActionType.AUTO_RETRY,
    Reaction.ESCALATE: ActionType.ERROR_RECOVERY,
    Reaction.TERMINATE: ActionType.TERMINAL_ERROR,
}
"""The system's own action for each reaction."""

ROUTES: Final[Mapping[ActionType, Route]] = MappingProxyType(
    {
        ActionType.INVOKE_AGENT: _sequential,
        ActionType.PARALLEL_INVOKE: _parallel,
        ActionType.CALL_TOOL: _tools,
        ActionType.FINAL_RESPONSE: _final,
        ActionType.END_CONVERSATION: _end_conversation,
        ActionType.WAIT_AND_AGGREGATE: _wait,
        ActionType.ERROR_RECOVERY: _recovery,
        ActionType.TERMINAL_ERROR: _terminal,
        ActionType.AUTO_RETRY: _auto_retry,
        ActionType.TERMINATE_WORKFLOW: _final,
        ActionType.ASK_USER: _ask_user,
    }
)
"""The route of every action (requirement M110)."""

MIN_PARALLEL: Final = 2
"""How many agents a parallel hand-over names at least (requirement M30)."""

_CALL = '{"id": text, "type": "function", "function": {"name": text, "arguments": JSON text}}'


def _reporter(case: RoutingCase) -> str:
    """Say whose word an error is; empty when it is the system's own."""
    return f"reported by {case.agent}" if case.result.origin is Origin.MODEL else ""


def _invoke(case: RoutingCase, invocation: AgentInvocation, **metadata: int) -> ExecutionStep:
    """Make the step that hands over to one agent with its own request."""
    known = {"from_agent": case.agent, "instance_id": invocation.instance_id, **metadata}
    return ExecutionStep(
        step_type=StepType.AGENT_INVOCATION,
        target=invocation.agent_name,
        data={"request": invocation.request},
        metadata=known,
    )


def _details(case: RoutingCase) -> JSONObject:
    """Give what the reply reports of an error, or the executor does, or at least its words."""
    reported = case.parsed.get("error_details", case.context.error_info)
    if isinstance(reported, dict):
        return cast("JSONObject", reported)
    return {"message": case.parsed.get("error", "")}


def _api_error(case: RoutingCase) -> ApiError:
    """Read what is reported of an error; the action's own suggestion stands beside the details."""
    suggested = case.parsed.get("suggested_action")
    beside = {} if suggested is None else {"suggested_action": suggested}
    return ApiError.of_report(_details(case) | beside)


def _broken(words: str) -> RoutingDecision:
    """Refuse a result that says of itself that it is valid, and does not hold what its action needs."""
    return refuse(RoutingReason.BROKEN_RESULT, f"the result cannot be routed: {words}")
