"""From a verdict on a reply to the next steps: the router, and the route of each action.

The router checks the verdict once more (requirement M107).
"""

from __future__ import annotations

import copy
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from strictreply import Category, ContractError, Invalid, Issue
from strictreply.coordination._api_replies import ApiError, plain_issues, read_call, unknown_tools
from strictreply.coordination._decisions import (
    BranchSpec,
    ErrorPolicy,
    ExecutionStep,
    Reaction,
    RouteCache,
    RouteKey,
    RoutingContext,
    RoutingDecision,
    RoutingReason,
    StepType,
    go_on,
    refuse,
    step_of,
    tell_user,
)
from strictreply.coordination.actions import (
    ActionType,
    AgentInvocation,
    Branch,
    BranchType,
    Origin,
    Permitted,
    ValidationResult,
)
from strictreply.coordination.formats import DEFAULT_FORMAT, BaseResponseFormat, format_of
from strictreply.coordination.state import RoutingEntry
from strictreply.coordination.steering import generate_steering
from strictreply.coordination.topology import (
    END_NODE,
    USER,
    Declared,
    Toolsets,
    Topology,
    permitted_actions,
    read_leave,
)
from strictreply.core import JSONObject
from strictreply.core.text import pointer

__all__ = [
    "BranchSpec",
    "ExecutionStep",
    "RouteCache",
    "RouteKey",
    "Router",
    "RoutingContext",
    "RoutingDecision",
    "StepType",
    "predict_next_route",
]

_logger = logging.getLogger("strictreply")


def predict_next_route(
    current_agent: str,
    history: Iterable[tuple[str, str] | RoutingEntry],
    *,
    allowed: Collection[str] | None = None,
) -> str | None:
    """Return the agent that most often followed ``current_agent``; None if none did.

    Of equally frequent agents it is the later one. ``history`` has pairs (from, to), or entries of
    ``routing_history``. Only ``allowed`` agents count, such as
    ``topology.allowed_targets(current_agent)``; None allows any. Raises ContractError for a wrong
    ``history``.
    """
    targets: list[str] = []
    for hop in history:
        source: str | None
        match cast("object", hop):
            case {"from": str() | None as source, "to": str() as target}:
                pass
            case (str() as source, str() as target):
                pass
            case _:
                raise ContractError(
                    "history must have pairs (from, to), or entries of routing_history"
                )

        # the start of a run has no agent before it, and counts as the empty name
        if (source or "") == current_agent and (allowed is None or target in allowed):
            targets.append(target)

    counts = Counter(reversed(targets))
    return max(counts, key=counts.__getitem__, default=None)


class Router:
    """Decides what follows a verdict, within a topology.

    It checks the edges, the branch and the origin of the action again. A router
    has no state, so threads and tasks may share it. (:func:`route_next` decides from a state
    instead.)
    """

    __slots__ = ("_format", "_leave", "_toolsets", "policy", "topology")

    def __init__(
        self,
        topology_graph: Topology,
        response_format: str | BaseResponseFormat = DEFAULT_FORMAT,
        *,
        policy: ErrorPolicy | None = None,
        tools: Declared | Mapping[str, Declared] | None = None,
        leave: Iterable[ActionType | str] | None = None,
    ) -> None:
        """Route within ``topology_graph``; steering texts describe ``response_format``.

        ``policy`` decides what follows an invalid reply. ``tools`` and ``leave`` are those of
        :class:`ValidationProcessor`. None takes them from the verdict's permissions; a verdict made
        by hand has none, so it may call no tool and use no action of ``leave``. Raises the errors
        of ValidationProcessor for these arguments.
        """
        self.topology: Topology = topology_graph
        """The agents, and the edges between them."""
        self.policy: ErrorPolicy = policy or ErrorPolicy()
        """Decides what follows a reply that does not fit."""
        self._format = format_of(response_format)
        self._toolsets = None if tools is None else Toolsets(topology_graph, tools)
        self._leave = None if leave is None else read_leave(leave)

    async def route(
        self,
        validation_result: ValidationResult,
        current_branch: Branch,
        routing_context: RoutingContext,
    ) -> RoutingDecision:
        """Decide like :meth:`decide`, for callers that await; nothing is awaited inside."""
        return self.decide(validation_result, current_branch, routing_context)

    def decide(
        self,
        validation_result: ValidationResult,
        current_branch: Branch,
        routing_context: RoutingContext,
    ) -> RoutingDecision:
        """Return the decision on a verdict in its branch and context; none of them is changed.

        - ``validation_result`` is the verdict of a :class:`ValidationProcessor`.
        - ``current_branch`` is the branch that the agent works in.
        - ``routing_context`` is the state of the run. Its ``current_agent`` is the agent that
          replied, or else the verdict's, or the only agent of the branch.

        Nothing is executed if the agent is unknown (``unknown_agent``), if the verdict
        exceeds the permissions (``not_allowed``, with the fault's ``code`` in the metadata), or if
        it lacks what its action needs (``broken_result``). No verdict makes it raise. ``reason``
        says why the decision was made. The decision is logged at DEBUG.
        """
        kind = current_branch.type
        if kind is BranchType.SIMPLE and routing_context.is_conversation_branch:
            kind = BranchType.CONVERSATION

        agents = current_branch.agents or tuple(routing_context.branch_agents)
        turns = max(current_branch.turns, routing_context.conversation_turns)
        branch = replace(current_branch, type=kind, agents=agents, turns=turns)

        judged_by = cast("object", validation_result.permitted)
        agent = routing_context.current_agent
        if not agent:
            sole = branch.agents[0] if len(branch.agents) == 1 else ""
            agent = judged_by.agent if isinstance(judged_by, Permitted) else sole

        decision = _pre_checked(routing_context)
        if decision is None:
            decision = self._decided(validation_result, branch, routing_context, agent)

        if _logger.isEnabledFor(logging.DEBUG):
            steps = [f"{step.step_type} {step.target!r}" for step in decision.next_steps]
            steps += [f"branch {spec.agent!r}" for spec in decision.branch_specs]
            what = ", ".join(steps) or decision.completion_reason
            _logger.debug("route of %r: %s: %s", agent, decision.reason, what)

        return decision

    def suggest_alternative_route(
        self, agent: str, failed: str, visited: Collection[str] = ()
    ) -> str | None:
        """Return an unvisited agent to hand over to instead of ``failed``.

        Return None if there is no such agent.
        """
        return next(iter(self.topology.alternatives(agent, failed, visited)), None)

    def _decided(
        self, result: ValidationResult, branch: Branch, context: RoutingContext, agent: str
    ) -> RoutingDecision:
        if agent not in self.topology.agents:
            known = ", ".join(self.topology.agents)
            words = (
                "RoutingContext.current_agent must name the agent that replied; "
                f"the agents are: {known}"
            )
            return refuse(RoutingReason.UNKNOWN_AGENT, words)
        if flaw := next(_flaws(result, agent), None):
            return _broken(flaw)

        judged_by = result.permitted or Permitted(agent)
        allowed = permitted_actions(
            self.topology,
            agent,
            branch=branch,
            tools=judged_by.tools if self._toolsets is None else self._toolsets.of(agent).by_name,
            leave=frozenset(judged_by.actions) if self._leave is None else self._leave,
            allowed_agents=None if result.permitted is None else judged_by.agents,
            origin=result.origin,
        )
        case = _RoutingCase(
            agent=agent,
            parsed=result.parsed_response or {},
            topology=self.topology,
            policy=self.policy,
            result=result,
            branch=branch,
            context=context,
            allowed=allowed,
            response_format=self._format,
        )

        if not result.is_valid or result.action_type is None:
            return _route_invalid(case)

        action = ActionType(result.action_type)
        if refused := next(_refusals(result, action, allowed), None):
            words = f"{agent}: {refused.dotted}"
            return refuse(RoutingReason.NOT_ALLOWED, words, code=refused.code)

        return _route_valid(case, action)


_LISTS: Final = (
    ("issues", tuple, Issue),
    ("invocations", list, AgentInvocation),
    ("next_agents", list, str),
    ("tool_calls", list, dict),
)


def _flaws(result: ValidationResult, agent: str) -> Iterator[str]:
    """Return why a result made by hand, or read from a store, cannot be routed.

    Each check relies on the ones before it.
    """
    judged_by = cast("object", result.permitted)
    parsed = cast("object", result.parsed_response)
    if judged_by is not None and not (
        isinstance(judged_by, Permitted) and judged_by.agent == agent
    ):
        yield "it is the verdict on another agent's reply"

    if not isinstance(parsed, dict | None):
        yield "its parsed_response is not an object"

    read = ("error_details", "suggested_action", "error")  # by a route
    if parsed and plain_issues(list(map(cast("JSONObject", parsed).get, read))):
        yield "its error report is not JSON"

    for name, kind, member in _LISTS if result.is_valid else _LISTS[:1]:
        value: object = getattr(result, name)
        if not (isinstance(value, kind) and all(isinstance(one, member) for one in value)):
            yield f"its {name} must be a {kind.__name__} of {member.__name__}"

    if result.is_valid and result.action_type not in tuple(ActionType):
        yield "it is valid without an action"


def _refusals(result: ValidationResult, action: ActionType, allowed: Permitted) -> Iterator[Issue]:
    """Report the parts of a verdict that are not permitted (requirement M107)."""
    if action not in allowed.actions:
        yield allowed.action_refusal(action)

    hands_over = action in (ActionType.INVOKE_AGENT, ActionType.PARALLEL_INVOKE)
    for index, invocation in enumerate(result.invocations if hands_over else ()):
        name = invocation.agent_name
        if name not in allowed.agents:
            at = pointer("/invocations", index, "agent_name")
            yield allowed.agent_refusal(name, at)

    if action is ActionType.CALL_TOOL:
        yield from unknown_tools(result.tool_calls, allowed.tools)


@dataclass(frozen=True, slots=True)
class _RoutingCase:
    """A reply, and everything that determines what follows it."""

    agent: str
    """The agent that replied."""
    parsed: JSONObject
    """The reply as it was read; {} if there is none."""
    topology: Topology
    """Which agents may hand over to which."""
    policy: ErrorPolicy
    """Decides what follows a fault."""
    result: ValidationResult
    """The verdict on the reply."""
    branch: Branch
    """The branch that the agent replied in."""
    context: RoutingContext
    """What the router gets in addition to the verdict and the branch."""
    allowed: Permitted
    """What the agent may do there."""
    response_format: BaseResponseFormat
    """The format that the agent writes."""


def _sequential(case: _RoutingCase) -> RoutingDecision:
    """Hand over to one agent (requirements M95, M108).

    A partner of the conversation is handed over to only while the conversation has turns left.
    """
    if len(case.result.invocations) != 1:
        return _broken("it does not name one agent to hand over to")

    invocation = case.result.invocations[0]
    branch = case.branch
    target = invocation.agent_name
    known = {"from_agent": case.agent, "instance_id": invocation.instance_id}
    step = step_of(StepType.AGENT_INVOCATION, target, {"request": invocation.request}, **known)

    partners = target != case.agent and {target, case.agent} <= set(branch.agents)
    if branch.type is not BranchType.CONVERSATION or not partners:
        return go_on(RoutingReason.SEQUENTIAL, step)

    turn = branch.turns + 1
    if turn > branch.max_turns:
        words = f"the conversation has reached its limit of {branch.max_turns} turns"
        return RoutingDecision.stopped(
            RoutingReason.MAX_TURNS, words, conversation_turns=branch.turns
        )

    step.metadata["conversation_turn"] = turn
    return go_on(RoutingReason.CONVERSATION, step, conversation_turns=turn)


def _parallel(case: _RoutingCase) -> RoutingDecision:
    """Open a branch for each invocation, with its own request, and wait (M30, M96, M97)."""
    invocations = case.result.invocations
    if not invocations[1:]:
        return _broken("it does not name two agents to hand over to")

    specs = [
        BranchSpec(agent=one.agent_name, request=one.request, instance_id=one.instance_id)
        for one in invocations
    ]
    waiting = go_on(RoutingReason.PARALLEL, child_count=len(specs))
    return replace(waiting, branch_specs=specs, should_continue=False, should_wait=True)


def _tools(case: _RoutingCase) -> RoutingDecision:
    """Run one step for each call, in order (requirement M98).

    No step is run when one of the calls cannot be read.
    """
    steps: list[ExecutionStep] = []
    for index, call in enumerate(case.result.tool_calls):
        found = read_call(call, pointer("/tool_calls", index))
        if isinstance(found, Invalid):
            return _broken(found.summary)

        name, data = found
        steps.append(step_of(StepType.TOOL_EXECUTION, name, data, calling_agent=case.agent))

    return go_on(RoutingReason.TOOLS, *steps) if steps else _broken("it calls no tool")


def _final(case: _RoutingCase) -> RoutingDecision:
    """Bring the answer to the user if the agent has an edge to it, else to the end (M99)."""
    target = USER if case.topology.may_ask_user(case.agent) else END_NODE
    data = {"content": case.parsed.get("content")}
    step = step_of(StepType.FINAL_RESPONSE, target, data, agent=case.agent)
    return RoutingDecision.stopped(RoutingReason.FINAL, "the agent gave its final response", step)


def _end_conversation(case: _RoutingCase) -> RoutingDecision:
    words = "the agent ended the conversation"
    return RoutingDecision.stopped(
        RoutingReason.CONVERSATION_ENDED, words, conversation_turns=case.branch.turns
    )


def _wait(case: _RoutingCase) -> RoutingDecision:
    waiting = go_on(RoutingReason.WAITING, step_of(StepType.WAIT_FOR_CONVERGENCE, case.agent, {}))
    return replace(waiting, should_continue=False, should_wait=True)


def _ask_user(case: _RoutingCase) -> RoutingDecision:
    data = {"request": case.parsed.get("question")}
    known = {"requires_user_action": True, "asking_agent": case.agent}
    step = step_of(StepType.AGENT_INVOCATION, USER, data, **known)
    return go_on(RoutingReason.USER_ASKED, step)


def _brought_to_user(
    case: _RoutingCase, reason: RoutingReason = RoutingReason.RECOVERY
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


def _terminal(case: _RoutingCase) -> RoutingDecision:
    """Show an error to the user and end: nothing is retried (requirements M102, X8)."""
    error = _api_error(case)
    step = tell_user(_details(case), no_retry=True, failed_agent=case.agent)

    by_system = case.result.origin is Origin.SYSTEM
    what = error.issue.message if by_system else f"reported by {case.agent}"
    words = f"Terminal error: {what}"
    known = {"termination_reason": error.classification.value} if by_system else {}
    return RoutingDecision.stopped(RoutingReason.TERMINAL, words, step, error=words, **known)


def _auto_retry(case: _RoutingCase) -> RoutingDecision:
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
    step = step_of(StepType.AGENT_INVOCATION, case.agent, {"retry_after": wait}, **known)
    return go_on(RoutingReason.AUTO_RETRY, step, error_action=Reaction.RETRY)


def _route_valid(case: _RoutingCase, action: ActionType) -> RoutingDecision:
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
ROUTES: Final[Mapping[ActionType, Callable[[_RoutingCase], RoutingDecision]]] = {
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


def _details(case: _RoutingCase, otherwise: JSONObject | None = None) -> JSONObject:
    reported = case.parsed.get("error_details", case.context.error_info)
    if isinstance(reported, dict):
        return cast("JSONObject", reported)
    return otherwise or {"message": case.parsed.get("error", "")}


def _api_error(case: _RoutingCase) -> ApiError:
    suggested = case.parsed.get("suggested_action")
    beside = {} if suggested is None else {"suggested_action": suggested}
    return ApiError.of_report(_details(case) | beside)


def _broken(words: str) -> RoutingDecision:
    """End the branch, because the result cannot be routed; ``words`` says why."""
    return refuse(RoutingReason.BROKEN_RESULT, f"the result cannot be routed: {words}")


_CAN_RETRY: Final[JSONObject] = {"requires_user_action": True, "can_retry": True}
_PRE_CHECKS: Final[tuple[tuple[RoutingReason, bool, JSONObject, JSONObject], ...]] = (
    (RoutingReason.CRITICAL_API_ERROR, True, {}, {"no_retry": True}),
    (RoutingReason.COORDINATION_ERROR, False, {}, _CAN_RETRY),
    (RoutingReason.POOL_EXHAUSTED, False, {"retry_after": 5}, {"notification": "resource"}),
    (RoutingReason.TIMEOUT, True, {}, {"no_retry": True}),
)
"""Faults that an executor can report (M106).

Each row has the reason, whether the branch ends, default data, and the metadata of the step.
"""


def _pre_checked(context: RoutingContext) -> RoutingDecision | None:
    """Decide by the first fault that the executor reports; None and False mean no fault."""
    for reason, stops, defaults, metadata in _PRE_CHECKS:
        report = context.metadata.get(reason.value)
        if report is None or report is False:
            continue

        details: JSONObject = {} if report is True else {"message": str(report)}
        if isinstance(report, Mapping):
            details = copy.deepcopy(dict(cast("Mapping[str, object]", report)))

        data = {key: details.get(key, default) for key, default in defaults.items()}
        step = tell_user(details, data=data, **metadata)
        if stops:
            words = f"stopped by the executor: {reason.value}"
            return RoutingDecision.stopped(reason, words, step, error=words)

        return go_on(reason, step, error_action=Reaction.ESCALATE)

    return None


def _route_invalid(case: _RoutingCase) -> RoutingDecision:
    """Decide what follows a reply that did not fit (requirements M79 to M81, M104, M105)."""
    reaction = case.policy.reaction(case.result.issues)
    if reaction is Reaction.ESCALATE:
        details = _details(case, {"type": case.result.code, "message": _words(case)})
        step = tell_user(details, **_CAN_RETRY, failed_agent=case.agent)
        return go_on(RoutingReason.ESCALATED, step, error_action=reaction)

    if reaction is Reaction.TERMINATE:
        return _terminated(case, RoutingReason.TERMINATED)

    return _retried(case)


def _retried(case: _RoutingCase) -> RoutingDecision:
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
    step = step_of(StepType.AGENT_INVOCATION, case.agent, {}, **known)

    if context.steering_enabled:
        steering = generate_steering(
            case.result,
            case.allowed,
            retry_count=context.retry_count + 1,
            response_format=case.response_format,
        )
        step = replace(step, step_type=StepType.RETRY_WITH_STEERING, steering=steering)

    return go_on(RoutingReason.RETRY, step, error_action=Reaction.RETRY)


def _terminated(case: _RoutingCase, reason: RoutingReason) -> RoutingDecision:
    """End the branch; a permission that was never there is named as the published API names it."""
    words = f"Validation error: {_words(case)}"
    if not any(issue.category is Category.PERMISSION_ERROR for issue in case.result.issues):
        return refuse(reason, words)

    denied = RoutingReason.PERMISSION_DENIED if reason is RoutingReason.TERMINATED else reason
    # the published words (requirement M79)
    return RoutingDecision.stopped(denied, words, error="Permission denied")


def _words(case: _RoutingCase) -> str:
    return case.result.error_message or "the reply does not fit"
