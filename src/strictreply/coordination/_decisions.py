"""What a router is given and what it decides.

There is a route for each action, and decisions on what follows a fault, or the answer to one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, cast

from strictreply.coordination._actions import (
    ActionType,
    Branch,
    BranchType,
    Origin,
    Permitted,
    ValidationResult,
)
from strictreply.coordination._agent_steering import generate_steering
from strictreply.coordination._error_policy import ApiError, ErrorPolicy, Reaction
from strictreply.coordination._run_parts import HumanDecision, HumanKind, PendingHuman
from strictreply.coordination._topology import END_NODE, USER, Topology
from strictreply.coordination.formats import BaseResponseFormat
from strictreply.reading._decoding import decode
from strictreply.values._errors import ContractError
from strictreply.values._issues import Category, Code, Issue, pointer
from strictreply.values._limits import JSON, JSONObject, is_count
from strictreply.values._replies import Invalid


class StepType(StrEnum):
    """What an executor does in one step (requirement M93).

    A :class:`Router` makes all of them but ``parallel_spawn``, a published word: the branches to
    open stand in ``branch_specs``.
    """

    AGENT_INVOCATION = "agent_invocation"
    TOOL_EXECUTION = "tool_execution"
    PARALLEL_SPAWN = "parallel_spawn"
    WAIT_FOR_CONVERGENCE = "wait_for_convergence"
    FINAL_RESPONSE = "final_response"
    ERROR_RECOVERY = "error_recovery"
    RETRY_WITH_STEERING = "retry_with_steering"


class RoutingReason(StrEnum):
    """Why a :class:`Router` decided so, for programs to match on.

    The reasons of ``route_next`` are ``RouteReason``.
    """

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"
    CONVERSATION = "conversation"
    TOOLS = "tools"
    FINAL = "final"
    CONVERSATION_ENDED = "conversation_ended"
    WAITING = "waiting"
    USER_ASKED = "user_asked"
    RECOVERY = "recovery"
    TERMINAL = "terminal"
    AUTO_RETRY = "auto_retry"
    RETRY = "retry"
    ESCALATED = "escalated"
    PERMISSION_DENIED = "permission_denied"
    TERMINATED = "terminated"
    RETRIES_SPENT = "retries_spent"
    NO_SUGGESTION = "no_suggestion"
    NOT_ALLOWED = "not_allowed"
    UNKNOWN_AGENT = "unknown_agent"
    BROKEN_RESULT = "broken_result"
    MAX_TURNS = "max_turns"
    CRITICAL_API_ERROR = "critical_api_error"
    COORDINATION_ERROR = "coordination_error"
    POOL_EXHAUSTED = "pool_exhausted"
    TIMEOUT = "timeout_error"
    HUMAN_RETRY = "human_retry"
    HUMAN_SKIP = "human_skip"
    ABORTED = "aborted"
    ASKED_AGAIN = "asked_again"
    CONTENT_LOOP = "content_loop"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionStep:
    """One step of an executor."""

    step_type: StepType
    """What to do."""
    target: str = ""
    """An agent, a tool or the User; empty when the step is about none."""
    data: JSONObject = field(default_factory=dict[str, Any])
    """What the target is given."""
    metadata: JSONObject = field(default_factory=dict[str, Any])
    """What the executor needs to know beside."""
    steering: str | None = None
    """The text that steers the agent; None for no steering."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchSpec:
    """A branch to open.

    ``agent`` begins it, ``request`` is what it is asked, None for nothing, and ``instance_id`` says
    which instance it is.
    """

    agent: str
    request: JSON = None
    instance_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingDecision:
    """What a :class:`Router` decides: what an executor does next (requirement M91).

    (What follows from a state is a ``RouteDecision``.)
    """

    next_steps: list[ExecutionStep] = field(default_factory=list[ExecutionStep])
    """The steps to execute, in order."""
    should_continue: bool = True
    """Whether the branch goes on."""
    branch_specs: list[BranchSpec] = field(default_factory=list[BranchSpec])
    """The branches to open, in parallel."""
    metadata: JSONObject = field(default_factory=dict[str, Any])
    """What the executor needs to know beside."""
    should_wait: bool = False
    """Whether the branch waits for the branches that it opened."""
    completion_reason: str | None = None
    """Why the branch is over; None while it is not."""
    error_action: str | None = None
    """``terminate``, ``retry`` or ``escalate`` when a fault led here; None when none did."""
    error_message: str | None = None
    """What went wrong; None when no fault ended the branch."""
    reason: RoutingReason | None = None
    """Why the router decided so; None only in decisions that no router made."""

    @property
    def child_branch_specs(self) -> list[BranchSpec]:
        """``branch_specs``, as the original's code calls them."""
        return self.branch_specs

    def is_terminal(self) -> bool:
        """Return whether the branch is over: it neither goes on nor waits."""
        return not self.should_continue and not self.should_wait

    def has_child_branches(self) -> bool:
        """Return whether branches are to be opened."""
        return bool(self.branch_specs)

    def follows_fault(self) -> bool:
        """Return whether a fault led here: such a decision holds for once (requirement M112)."""
        if self.error_action is not None:
            return True

        after_faults = (StepType.ERROR_RECOVERY, StepType.RETRY_WITH_STEERING)
        return any(step.step_type in after_faults for step in self.next_steps)


_NOT_GIVEN: Final = cast("int", object())  # the absence of a count, unlike every count


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingContext:
    """What a router is given beside the reply (requirement M94).

    Raises ContractError for a count that is not a whole number, and for two counts that differ.
    """

    metadata: JSONObject = field(default_factory=dict[str, Any])
    """Faults of the executor, such as ``critical_api_error``.

    It may also hold the ``retry_count``, as in the published example (X7).
    """
    error_info: JSONObject | None = None
    """The executor's report of an error, for a reply that holds none; None for no report."""
    retry_count: int = _NOT_GIVEN
    """Corrections of this agent's reply so far; by default that of ``metadata``, else 0."""
    steering_enabled: bool = True
    """Whether a retry has a steering."""
    transport_retries: int = 0
    """Repeats of the agent's failed call so far."""
    current_branch_id: str = ""
    """Id of the branch; empty for that of the branch itself."""
    current_agent: str = ""
    """The agent that replied; by default the only agent of the branch."""
    conversation_history: list[JSONObject] = field(default_factory=list[JSONObject])
    """The conversation so far: a published word, carried for the application."""
    branch_agents: list[str] = field(default_factory=list[str])
    """The agents of the branch, where the branch itself names none."""
    is_conversation_branch: bool = False
    """Whether a branch of the type SIMPLE is a conversation."""
    conversation_turns: int = 0
    """Turns of the conversation so far, where the branch has counted fewer."""

    def __post_init__(self) -> None:
        if self.retry_count is _NOT_GIVEN:
            object.__setattr__(self, "retry_count", self.metadata.get("retry_count", 0))

        for name in ("retry_count", "transport_retries", "conversation_turns"):
            if not is_count(cast("object", getattr(self, name))):
                raise ContractError(f"RoutingContext.{name} must be a whole number, 0 or more")

        if self.metadata.get("retry_count", self.retry_count) != self.retry_count:
            raise ContractError(
                "RoutingContext.retry_count and metadata['retry_count'] differ; give it once"
            )


@dataclass(frozen=True, slots=True)
class RoutingCase:
    """A reply and everything that decides what follows it."""

    agent: str
    """The agent that replied."""
    parsed: JSONObject
    """The reply as it was read; {} for nothing."""
    topology: Topology
    """Who may hand over to whom."""
    policy: ErrorPolicy
    """What is done about faults."""
    result: ValidationResult
    """The verdict on the reply."""
    branch: Branch
    """The branch that the agent replied in."""
    context: RoutingContext
    """What the router is given beside the reply."""
    allowed: Permitted
    """What the agent may do there."""
    response_format: BaseResponseFormat
    """The format that the agent writes."""


def go_on(
    reason: RoutingReason,
    *steps: ExecutionStep,
    error_action: Reaction | None = None,
    **metadata: Any,
) -> RoutingDecision:
    """Execute these steps and go on; ``error_action`` says how a fault is reacted to."""
    known = {"routing_type": reason.value, **metadata}
    action = error_action and error_action.value
    return RoutingDecision(
        next_steps=list(steps), metadata=known, error_action=action, reason=reason
    )


def stop(
    reason: RoutingReason,
    words: str,
    *steps: ExecutionStep,
    error: str | None = None,
    **metadata: Any,
) -> RoutingDecision:
    """End the branch, ``words`` saying why; with ``error`` because of a fault."""
    action = None if error is None else Reaction.TERMINATE
    decision = go_on(reason, *steps, error_action=action, **metadata)
    return replace(decision, should_continue=False, completion_reason=words, error_message=error)


def refuse(reason: RoutingReason, words: str, **metadata: Any) -> RoutingDecision:
    """End the branch without a step, because what was asked for cannot be done."""
    return stop(reason, words, error=words, **metadata)


def tell_user(
    details: Mapping[str, Any], *, data: JSONObject | None = None, **metadata: Any
) -> ExecutionStep:
    """Return the step that brings an error to the user.

    With ``requires_user_action`` an answer is awaited.
    """
    known = {"requires_user_action": False, "can_retry": False} | metadata
    given: JSONObject = {"error": dict(details)} | (data or {})
    return ExecutionStep(step_type=StepType.ERROR_RECOVERY, target=USER, data=given, metadata=known)


_CALL = '{"id": text, "type": "function", "function": {"name": text, "arguments": JSON text}}'


def _sequential(case: RoutingCase) -> RoutingDecision:
    """Hand over to one agent (requirements M95, M108).

    A partner of the conversation is handed over to only while the conversation has turns left.
    """
    if len(case.result.invocations) != 1:
        return broken("it does not name one agent to hand over to")

    invocation = case.result.invocations[0]
    branch = case.branch
    target = invocation.agent_name
    known = {"from_agent": case.agent, "instance_id": invocation.instance_id}
    step = _step(StepType.AGENT_INVOCATION, target, {"request": invocation.request}, **known)

    partners = target != case.agent and {target, case.agent} <= set(branch.agents)
    if branch.type is not BranchType.CONVERSATION or not partners:
        return go_on(RoutingReason.SEQUENTIAL, step)

    turn = branch.turns + 1
    if turn > branch.max_turns:
        words = f"the conversation has had its {branch.max_turns} turns"
        return stop(RoutingReason.MAX_TURNS, words, conversation_turns=branch.turns)

    step.metadata["conversation_turn"] = turn
    return go_on(RoutingReason.CONVERSATION, step, conversation_turns=turn)


def _parallel(case: RoutingCase) -> RoutingDecision:
    """Open a branch for each invocation, with its own request, and wait (M30, M96, M97)."""
    invocations = case.result.invocations
    if not invocations[1:]:
        return broken("it does not name two agents to hand over to")

    specs = [
        BranchSpec(agent=one.agent_name, request=one.request, instance_id=one.instance_id)
        for one in invocations
    ]
    waiting = go_on(RoutingReason.PARALLEL, child_count=len(specs))
    return replace(waiting, branch_specs=specs, should_continue=False, should_wait=True)


def _tools(case: RoutingCase) -> RoutingDecision:
    """Run one step for each call, in order (requirement M98).

    No step is run when one of the calls cannot be read.
    """
    steps: list[ExecutionStep] = []
    for index, call in enumerate(case.result.tool_calls):
        at = pointer("/tool_calls", index)
        function = call.get("function")
        named: JSONObject = function if isinstance(function, dict) else {}
        name = named.get("name")
        written = named.get("arguments")

        place = pointer(at, "function", "arguments")
        arguments = {} if written == "" else decode(written, at=place)
        if isinstance(arguments, Invalid):
            return broken(arguments.summary)

        if not isinstance(name, str) or not isinstance(arguments, dict):
            return broken(Invalid((Issue.of(Code.CALL_MALFORMED, at, expected=_CALL),)).summary)

        data: JSONObject = {
            "arguments": arguments,
            "tool_call_id": call.get("id"),
            "tool_call": call,
        }
        steps.append(_step(StepType.TOOL_EXECUTION, name, data, calling_agent=case.agent))

    return go_on(RoutingReason.TOOLS, *steps) if steps else broken("it calls no tool")


def _final(case: RoutingCase) -> RoutingDecision:
    """Bring the answer to the user if the agent has an edge to it, else to the end (M99)."""
    target = USER if case.topology.may_ask_user(case.agent) else END_NODE
    data = {"content": case.parsed.get("content")}
    step = _step(StepType.FINAL_RESPONSE, target, data, agent=case.agent)
    return stop(RoutingReason.FINAL, "the agent gave its final response", step)


def _end_conversation(case: RoutingCase) -> RoutingDecision:
    words = "the agent ended the conversation"
    return stop(RoutingReason.CONVERSATION_ENDED, words, conversation_turns=case.branch.turns)


def _wait(case: RoutingCase) -> RoutingDecision:
    waiting = go_on(RoutingReason.WAITING, _step(StepType.WAIT_FOR_CONVERGENCE, case.agent, {}))
    return replace(waiting, should_continue=False, should_wait=True)


def _ask_user(case: RoutingCase) -> RoutingDecision:
    data = {"request": case.parsed.get("question")}
    known = {"requires_user_action": True, "asking_agent": case.agent}
    step = _step(StepType.AGENT_INVOCATION, USER, data, **known)
    return go_on(RoutingReason.USER_ASKED, step)


def _brought_to_user(
    case: RoutingCase, reason: RoutingReason = RoutingReason.RECOVERY
) -> RoutingDecision:
    """Bring an error to the user (requirements M49, M81, M88, M101, X8).

    An error that the system reports needs no edge.
    """
    error = _api_error(case)
    data = {"suggested_action": error.suggested_action} if error.suggested_action else {}
    again = {
        "agent_name": case.agent,
        "branch_id": case.context.current_branch_id or case.branch.id,
    }
    known = {
        "failed_agent": case.agent,
        "suggested_actions": list(error.suggested_actions),
        "retry_context": again,
    }
    step = tell_user(_details(case), data=data, requires_user_action=True, can_retry=True, **known)
    return go_on(reason, step, error_action=Reaction.ESCALATE)


def _terminal(case: RoutingCase) -> RoutingDecision:
    """Show an error to the user and end: nothing is retried (requirements M102, X8)."""
    error = _api_error(case)
    step = tell_user(_details(case), no_retry=True, failed_agent=case.agent)

    by_system = case.result.origin is Origin.SYSTEM
    what = error.issue.message if by_system else f"reported by {case.agent}"
    words = f"Terminal error: {what}"
    known = {"termination_reason": error.classification.value} if by_system else {}
    return stop(RoutingReason.TERMINAL, words, step, error=words, **known)


def _auto_retry(case: RoutingCase) -> RoutingDecision:
    """Call the same agent again, within the transport's budget (M83, M89, M103).

    When the budget is spent, ask the user.
    """
    error = _api_error(case)
    made = case.context.transport_retries
    budget = case.policy.budget
    wait = error.retry_after

    if made >= budget.repeats or (wait is not None and wait > budget.max_retry_after):
        return _brought_to_user(case, RoutingReason.RETRIES_SPENT)

    known = {"retry_attempt": made + 1, "retry_reason": error.issue.code}
    step = _step(StepType.AGENT_INVOCATION, case.agent, {"retry_after": wait}, **known)
    return go_on(RoutingReason.AUTO_RETRY, step, error_action=Reaction.RETRY)


def route_valid(case: RoutingCase, action: ActionType) -> RoutingDecision:
    """Decide by the route of an action.

    For an action of the system, a changed row of the policy goes first (X5).
    """
    if case.result.origin is Origin.SYSTEM:
        reaction = case.policy.changed(_api_error(case).issue.category)
        if reaction is not None:
            return _REACTING[reaction](case)

    return ROUTES[action](case)


_REACTING: Final = {
    Reaction.RETRY: _auto_retry,
    Reaction.ESCALATE: _brought_to_user,
    Reaction.TERMINATE: _terminal,
}
# The route of every action (requirement M110).
ROUTES: Final[Mapping[ActionType, Callable[[RoutingCase], RoutingDecision]]] = {
    ActionType.INVOKE_AGENT: _sequential,
    ActionType.PARALLEL_INVOKE: _parallel,
    ActionType.CALL_TOOL: _tools,
    ActionType.FINAL_RESPONSE: _final,
    ActionType.END_CONVERSATION: _end_conversation,
    ActionType.WAIT_AND_AGGREGATE: _wait,
    ActionType.ERROR_RECOVERY: _brought_to_user,
    ActionType.TERMINAL_ERROR: _terminal,
    ActionType.AUTO_RETRY: _auto_retry,
    ActionType.TERMINATE_WORKFLOW: _final,
    ActionType.ASK_USER: _ask_user,
}


def _step(step_type: StepType, target: str, data: JSONObject, **metadata: Any) -> ExecutionStep:
    return ExecutionStep(step_type=step_type, target=target, data=data, metadata=metadata)


def _details(case: RoutingCase, otherwise: JSONObject | None = None) -> JSONObject:
    reported = case.parsed.get("error_details", case.context.error_info)
    if isinstance(reported, dict):
        return cast("JSONObject", reported)
    return otherwise or {"message": case.parsed.get("error", "")}


def _api_error(case: RoutingCase) -> ApiError:
    suggested = case.parsed.get("suggested_action")
    beside = {} if suggested is None else {"suggested_action": suggested}
    return ApiError.of_report(_details(case) | beside)


def broken(words: str) -> RoutingDecision:
    """End the branch because nothing can follow from the result, ``words`` saying why."""
    return refuse(RoutingReason.BROKEN_RESULT, f"the result cannot be routed: {words}")


_CAN_RETRY: Final[JSONObject] = {"requires_user_action": True, "can_retry": True}
_PRE_CHECKS: Final[tuple[tuple[RoutingReason, bool, JSONObject, JSONObject], ...]] = (
    (RoutingReason.CRITICAL_API_ERROR, True, {}, {"no_retry": True}),
    (RoutingReason.COORDINATION_ERROR, False, {}, _CAN_RETRY),
    (RoutingReason.POOL_EXHAUSTED, False, {"retry_after": 5}, {"notification": "resource"}),
    (RoutingReason.TIMEOUT, True, {}, {"no_retry": True}),
)
"""Faults reported by an executor (M106).

Each has whether the branch ends, default data, and the metadata of the step.
"""


def pre_checked(context: RoutingContext) -> RoutingDecision | None:
    """Decide by the first fault that the executor reports; None and False report nothing."""
    for reason, stops, defaults, metadata in _PRE_CHECKS:
        report = context.metadata.get(reason.value)
        if report is None or report is False:
            continue

        details: JSONObject = {} if report is True else {"message": str(report)}
        if isinstance(report, Mapping):
            details = copy.deepcopy(dict(cast("Mapping[str, Any]", report)))

        data = {key: details.get(key, default) for key, default in defaults.items()}
        step = tell_user(details, data=data, **metadata)
        if stops:
            words = f"stopped by the executor: {reason.value}"
            return stop(reason, words, step, error=words)

        return go_on(reason, step, error_action=Reaction.ESCALATE)

    return None


def route_invalid(case: RoutingCase) -> RoutingDecision:
    """Decide what follows a reply that did not fit (requirements M79 to M81, M104, M105)."""
    reaction = case.policy.reaction(case.result.issues)
    if reaction is Reaction.ESCALATE:
        details = _details(case, {"type": case.result.code, "message": _words(case)})
        step = tell_user(details, **_CAN_RETRY, failed_agent=case.agent)
        return go_on(RoutingReason.ESCALATED, step, error_action=reaction)

    if reaction is Reaction.TERMINATE:
        return _terminated(case, RoutingReason.TERMINATED)

    return _retried(case)


def _retried(case: RoutingCase) -> RoutingDecision:
    """Ask the same agent again while the budget lasts (M89, M104).

    Failed calls and bad replies have a budget each.
    """
    if case.result.retry_suggestion is None:
        return _terminated(case, RoutingReason.NO_SUGGESTION)

    context = case.context
    budget = case.policy.budget
    transient = {issue.category for issue in case.result.issues} == {Category.API_TRANSIENT}
    made = context.transport_retries if transient else context.retry_count
    allowed = budget.repeats if transient else budget.max_retries
    if made >= allowed:
        return _terminated(case, RoutingReason.RETRIES_SPENT)

    known = {"retry_attempt": made + 1, "retry_reason": case.result.code}
    step = _step(StepType.AGENT_INVOCATION, case.agent, {}, **known)

    if context.steering_enabled:
        steering = generate_steering(
            case.result,
            case.allowed,
            retry_count=context.retry_count + 1,
            response_format=case.response_format,
        )
        step = replace(step, step_type=StepType.RETRY_WITH_STEERING, steering=steering)

    return go_on(RoutingReason.RETRY, step, error_action=Reaction.RETRY)


def _terminated(case: RoutingCase, reason: RoutingReason) -> RoutingDecision:
    """End the branch; a permission that was never there is named as the published API names it."""
    words = f"Validation error: {_words(case)}"
    if not any(issue.category is Category.PERMISSION_ERROR for issue in case.result.issues):
        return refuse(reason, words)

    denied = RoutingReason.PERMISSION_DENIED if reason is RoutingReason.TERMINATED else reason
    return stop(denied, words, error="Permission denied")  # the published words (requirement M79)


def _words(case: RoutingCase) -> str:
    return case.result.error_message or "the reply does not fit"


def question_of(
    step: ExecutionStep,
    *,
    request_id: str,
    prompt: str = "",
    skip_to: str | None = None,
    requested_at: str = "",
) -> PendingHuman:
    """Return the question of a step to the user.

    Raises ContractError for a step that does not report an error of an agent.
    """
    failed = step.metadata.get("failed_agent")
    if step.step_type is not StepType.ERROR_RECOVERY or not isinstance(failed, str):
        raise ContractError(
            "only an error_recovery step with a failed_agent is a question to the user"
        )

    return PendingHuman(request_id, HumanKind.ERROR, prompt, failed, skip_to, failed, requested_at)


def resume_after_error(
    topology: Topology, asked: PendingHuman, decision: HumanDecision | None
) -> RoutingDecision:
    """Continue after an error as the user decided.

    Any decision but retry, skip and abort asks the question again.
    """
    failed = asked.resume_to
    target = asked.skip_to

    match decision:
        case HumanDecision.RETRY if failed in topology.agents:
            return go_on(RoutingReason.HUMAN_RETRY, _step(StepType.AGENT_INVOCATION, failed, {}))
        case HumanDecision.RETRY:
            words = "the request names no agent of this topology to continue with"
            return refuse(RoutingReason.UNKNOWN_AGENT, words)
        case HumanDecision.SKIP if target is not None and _may_follow(topology, failed, target):
            return go_on(RoutingReason.HUMAN_SKIP, _step(StepType.AGENT_INVOCATION, target, {}))
        case HumanDecision.SKIP if target is None:
            return stop(RoutingReason.HUMAN_SKIP, "the user skipped the step, and none follows it")
        case HumanDecision.SKIP:
            words = "the step to skip to does not follow the failed one"
            return refuse(RoutingReason.NOT_ALLOWED, words)
        case HumanDecision.ABORT:
            return stop(RoutingReason.ABORTED, "the user aborted the run")
        case _:
            question = {"request": asked.question}
            step = tell_user({}, data=question, requires_user_action=True, failed_agent=failed)
            return go_on(RoutingReason.ASKED_AGAIN, step)


def _may_follow(topology: Topology, failed: str | None, target: str) -> bool:
    return failed in topology.agents and target in topology.allowed_targets(failed)
