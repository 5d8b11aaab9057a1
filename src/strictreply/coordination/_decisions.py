"""A router's input and decisions, with the names of the published Validation API.

The policy determines the reaction to a fault. Decisions can be cached. A decision may be a question
to the user, whose answer leads to the next decision.
"""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Self, cast

from strictreply import Category, ContractError, Issue, Remedy, RetryPolicy
from strictreply.coordination.actions import ActionType, Branch, BranchType, ValidationResult
from strictreply.coordination.state import HumanDecision, HumanKind, PendingHuman
from strictreply.coordination.topology import USER, Topology
from strictreply.core import JSON, JSONObject
from strictreply.core.arguments import is_count
from strictreply.core.text import plain


class Reaction(StrEnum):
    """The reaction to a fault, from the mildest to the most severe."""

    RETRY = "retry"  # call the same agent again, within the budget
    ESCALATE = "escalate"  # report it to the human
    TERMINATE = "terminate"  # end the branch


_NO_RETRY: Final = {
    Category.API_TERMINAL: Reaction.TERMINATE,
    Category.TOOL_ERROR: Reaction.ESCALATE,
}
DEFAULT_REACTIONS: Final = MappingProxyType(dict.fromkeys(Category, Reaction.RETRY) | _NO_RETRY)
"""The published reactions.

A reply with a forbidden target is retried; the target never runs (requirement X5).
"""


def _ending(reactions: Mapping[Category, Reaction]) -> frozenset[Category]:
    return frozenset(
        category for category, reaction in reactions.items() if reaction is not Reaction.RETRY
    )


# Three corrections and three repeats of a failed call, counted separately (requirement M89).
DEFAULT_BUDGET: Final = RetryPolicy(
    max_retries=3, transport_retries=3, stop_on=_ending(DEFAULT_REACTIONS)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPolicy:
    """The reactions to faults, and the budget of retries.

    - ``reactions`` replace :data:`DEFAULT_REACTIONS` for single categories; any other key or value
      raises ContractError.
    - ``strict_permissions`` ends the branch immediately at a forbidden target.
    - ``budget`` applies in a client's loop and in a router: ``max_retries`` bounds corrections, and
      ``transport_retries`` repeats of a failed call. Its ``stop_on`` follows from the reactions.
    - ``sets_budget`` says whether a budget was given; without one a client keeps its own policy.
    """

    reactions: Mapping[Category, Reaction] = field(default_factory=dict[Category, Reaction])
    """The reactions that differ from :data:`DEFAULT_REACTIONS`, by category."""
    strict_permissions: bool = False
    """Whether a target that is not permitted ends the branch immediately."""
    budget: RetryPolicy = DEFAULT_BUDGET
    """How many corrections and repeats there may be."""
    sets_budget: bool = field(init=False, repr=False, compare=False)
    """Whether a budget was given."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sets_budget", self.budget is not DEFAULT_BUDGET)
        try:
            changes = {Category(key): Reaction(value) for key, value in self.reactions.items()}
        except ValueError as error:
            raise ContractError(f"reactions map a Category to a Reaction: {error}") from None

        if self.strict_permissions:
            changes[Category.PERMISSION_ERROR] = Reaction.TERMINATE

        reactions = MappingProxyType({**DEFAULT_REACTIONS, **changes})
        object.__setattr__(self, "reactions", reactions)
        if _ending(reactions) != self.budget.stop_on:
            object.__setattr__(self, "budget", replace(self.budget, stop_on=_ending(reactions)))

    def budget_of(self, given: RetryPolicy) -> RetryPolicy:
        """Return the policy of a client's calls; ``given`` is the client's own policy.

        The reactions apply, too. A client without its own policy gets this budget.
        """
        if self.sets_budget or given == RetryPolicy():
            return self.budget
        return replace(given, stop_on=frozenset(given.stop_on) | frozenset(self.budget.stop_on))

    def reaction(self, issues: Iterable[Issue]) -> Reaction:
        """Return the most severe reaction to any of these faults.

        Without faults it is the reaction to UNKNOWN.
        """
        found = [(self.reactions[issue.category], issue.remedy) for issue in issues]
        if (Reaction.RETRY, Remedy.STOP) in found:  # a retry would not help
            return Reaction.TERMINATE

        reactions = [reaction for reaction, _ in found] or [self.reactions[Category.UNKNOWN]]
        return max(reactions, key=list(Reaction).index)

    def changed(self, category: Category) -> Reaction | None:
        """Return the reaction that replaces the published one for a category, None if none does."""
        reaction = self.reactions[category]
        return None if reaction is DEFAULT_REACTIONS[category] else reaction


class StepType(StrEnum):
    """The type of an executor's step.

    A :class:`Router` never uses ``parallel_spawn``, which is only a published name: the branches to
    open are in ``branch_specs``.
    """

    AGENT_INVOCATION = "agent_invocation"
    """Send a request to an agent."""
    TOOL_EXECUTION = "tool_execution"
    """Run a tool."""
    PARALLEL_SPAWN = "parallel_spawn"
    """A published name; a router never uses it."""
    WAIT_FOR_CONVERGENCE = "wait_for_convergence"
    """Wait for the other branches."""
    FINAL_RESPONSE = "final_response"
    """Give the answer."""
    ERROR_RECOVERY = "error_recovery"
    """Report an error to the user."""
    RETRY_WITH_STEERING = "retry_with_steering"
    """Send the same agent a request with a correction."""


class RoutingReason(StrEnum):
    """The reason of a :class:`Router`'s decision, for programs to match on.

    ``route_next`` has ``RouteReason``.
    """

    SEQUENTIAL = "sequential"
    """One agent follows."""
    PARALLEL = "parallel"
    """Several branches are opened."""
    CONVERSATION = "conversation"
    """The other agent of a conversation follows."""
    TOOLS = "tools"
    """Tools are run."""
    FINAL = "final"
    """The agent gave its final response."""
    CONVERSATION_ENDED = "conversation_ended"
    """The agents ended their conversation."""
    WAITING = "waiting"
    """The branch waits for others."""
    USER_ASKED = "user_asked"
    """The agent asked the user."""
    RECOVERY = "recovery"
    """An error is reported to the user."""
    TERMINAL = "terminal"
    """An error ended the branch."""
    AUTO_RETRY = "auto_retry"
    """The system requested the same step again."""
    RETRY = "retry"
    """The reply was invalid, and the agent retries."""
    ESCALATED = "escalated"
    """The error policy reports the fault to the user."""
    PERMISSION_DENIED = "permission_denied"
    """The target was not permitted, and the branch ends."""
    TERMINATED = "terminated"
    """The error policy ends the branch."""
    RETRIES_SPENT = "retries_spent"
    """The reply was invalid, and no retry is left."""
    NO_SUGGESTION = "no_suggestion"
    """A retry was due, but there is no suggestion what to change."""
    NOT_ALLOWED = "not_allowed"
    """The topology does not allow the action."""
    UNKNOWN_AGENT = "unknown_agent"
    """The agent is not in the topology."""
    BROKEN_RESULT = "broken_result"
    """The result cannot be routed."""
    MAX_TURNS = "max_turns"
    """A conversation has had all its turns."""
    CRITICAL_API_ERROR = "critical_api_error"
    """The executor reports an API error that ends the branch."""
    COORDINATION_ERROR = "coordination_error"
    """The executor reports a coordination error; the user may retry."""
    POOL_EXHAUSTED = "pool_exhausted"
    """The executor reports that a resource is exhausted."""
    TIMEOUT = "timeout_error"
    """The executor reports a time-out, which ends the branch."""
    HUMAN_RETRY = "human_retry"
    """The user chose to retry."""
    HUMAN_SKIP = "human_skip"
    """The user chose to skip the step."""
    ABORTED = "aborted"
    """The user ended the run."""
    ASKED_AGAIN = "asked_again"
    """The user's answer decides nothing, so the question is repeated."""
    CONTENT_LOOP = "content_loop"
    """The agent replied with text alone too often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionStep:
    """One step of an executor."""

    step_type: StepType
    """What to do."""
    target: str = ""
    """An agent, a tool or the User; empty if the step has no target."""
    data: JSONObject = field(default_factory=dict[str, Any])
    """The input of the target."""
    metadata: JSONObject = field(default_factory=dict[str, Any])
    """Further information for the executor."""
    steering: str | None = None
    """The text that steers the agent; None for no steering."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchSpec:
    """A branch to open.

    ``agent`` begins it with ``request``, None for no request. ``instance_id`` identifies the
    instance of the agent.
    """

    agent: str
    """The agent that begins the branch."""
    request: JSON = None
    """The request to the agent; None for no request."""
    instance_id: str = ""
    """The id of the agent's instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingDecision:
    """The decision of a :class:`Router`: what an executor does next.

    (:func:`route_next` makes a ``RouteDecision``.)
    """

    next_steps: list[ExecutionStep] = field(default_factory=list[ExecutionStep])
    """The steps to execute, in order."""
    should_continue: bool = True
    """Whether the branch continues."""
    branch_specs: list[BranchSpec] = field(default_factory=list[BranchSpec])
    """The branches to open, in parallel."""
    metadata: JSONObject = field(default_factory=dict[str, Any])
    """Further information for the executor."""
    should_wait: bool = False
    """Whether the branch waits for the branches that it opened."""
    completion_reason: str | None = None
    """Why the branch ended; None while it has not."""
    error_action: str | None = None
    """``terminate``, ``retry`` or ``escalate`` after a fault; None without a fault."""
    error_message: str | None = None
    """What went wrong; None if no fault ended the branch."""
    reason: RoutingReason | None = None
    """The reason of the decision; None only in decisions that were not made by a router."""

    @property
    def child_branch_specs(self) -> list[BranchSpec]:
        """``branch_specs`` under the name of the original code."""
        return self.branch_specs

    @classmethod
    def stopped(
        cls,
        reason: RoutingReason,
        words: str,
        *steps: ExecutionStep,
        error: str | None = None,
        **metadata: object,
    ) -> Self:
        """Return a decision that ends the branch; ``words`` says why, ``error`` names a fault."""
        return cls(
            next_steps=list(steps),
            should_continue=False,
            metadata={"routing_type": reason.value, **metadata},
            completion_reason=words,
            error_action=None if error is None else Reaction.TERMINATE.value,
            error_message=error,
            reason=reason,
        )

    def is_terminal(self) -> bool:
        """Return whether the branch has ended: it neither continues nor waits."""
        return not self.should_continue and not self.should_wait

    def has_child_branches(self) -> bool:
        """Return whether there are branches to open."""
        return bool(self.branch_specs)

    def follows_fault(self) -> bool:
        """Return whether a fault led here; such a decision is valid only once."""
        if self.error_action is not None:
            return True

        after_faults = (StepType.ERROR_RECOVERY, StepType.RETRY_WITH_STEERING)
        return any(step.step_type in after_faults for step in self.next_steps)


_NOT_GIVEN: Final = cast("int", object())  # the absence of a count, unlike every count


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingContext:
    """A router's input in addition to the verdict and the branch.

    Raises ContractError for a count that is not a whole number, and for two counts that differ.
    """

    metadata: JSONObject = field(default_factory=dict[str, Any])
    """Faults of the executor, such as ``critical_api_error``.

    It may also have the ``retry_count``, as in the published example.
    """
    error_info: JSONObject | None = None
    """The executor's report of an error, for a reply that has none; None for no report."""
    retry_count: int = _NOT_GIVEN
    """Corrections of this agent's reply so far; by default the count in ``metadata``, else 0."""
    steering_enabled: bool = True
    """Whether a retry has a steering text."""
    transport_retries: int = 0
    """Repeats of the agent's failed call so far."""
    current_branch_id: str = ""
    """Id of the branch; empty for the id in the branch itself."""
    current_agent: str = ""
    """The agent that replied; by default the only agent of the branch."""
    conversation_history: list[JSONObject] = field(default_factory=list[JSONObject])
    """The conversation so far; a published name, which the router does not use."""
    branch_agents: list[str] = field(default_factory=list[str])
    """The agents of the branch, if the branch itself names none."""
    is_conversation_branch: bool = False
    """Whether a branch of the type SIMPLE is a conversation."""
    conversation_turns: int = 0
    """Turns of the conversation so far, if the branch has counted fewer."""

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


def go_on(
    reason: RoutingReason,
    *steps: ExecutionStep,
    error_action: Reaction | None = None,
    **metadata: object,
) -> RoutingDecision:
    """Return a decision that executes these steps; ``error_action`` is the reaction to a fault."""
    known = {"routing_type": reason.value, **metadata}
    action = error_action and error_action.value
    return RoutingDecision(
        next_steps=list(steps), metadata=known, error_action=action, reason=reason
    )


def refuse(reason: RoutingReason, words: str, **metadata: object) -> RoutingDecision:
    """Return a decision that ends the branch without a step, because the request is impossible."""
    return RoutingDecision.stopped(reason, words, error=words, **metadata)


def tell_user(
    details: Mapping[str, object], *, data: JSONObject | None = None, **metadata: object
) -> ExecutionStep:
    """Return the step that reports an error to the user.

    With ``requires_user_action`` the executor waits for an answer.
    """
    known = {"requires_user_action": False, "can_retry": False} | metadata
    given: JSONObject = {"error": dict(details)} | (data or {})
    return ExecutionStep(step_type=StepType.ERROR_RECOVERY, target=USER, data=given, metadata=known)


def step_of(
    step_type: StepType, target: str, data: JSONObject, **metadata: object
) -> ExecutionStep:
    """Return a step with these data and metadata."""
    return ExecutionStep(step_type=step_type, target=target, data=data, metadata=metadata)


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

    Any decision except retry, skip and abort repeats the question.
    """
    failed = asked.resume_to
    target = asked.skip_to
    followers = topology.allowed_targets(failed) if failed in topology.agents else ()

    match decision:
        case HumanDecision.RETRY if failed in topology.agents:
            return go_on(RoutingReason.HUMAN_RETRY, step_of(StepType.AGENT_INVOCATION, failed, {}))
        case HumanDecision.RETRY:
            words = "the request does not name an agent of this topology to continue with"
            return refuse(RoutingReason.UNKNOWN_AGENT, words)
        case HumanDecision.SKIP if target is not None and target in followers:
            return go_on(RoutingReason.HUMAN_SKIP, step_of(StepType.AGENT_INVOCATION, target, {}))
        case HumanDecision.SKIP if target is None:
            return RoutingDecision.stopped(
                RoutingReason.HUMAN_SKIP, "the user skipped the step, and no step follows it"
            )
        case HumanDecision.SKIP:
            words = "the step to skip to does not follow the failed one"
            return refuse(RoutingReason.NOT_ALLOWED, words)
        case HumanDecision.ABORT:
            return RoutingDecision.stopped(RoutingReason.ABORTED, "the user aborted the run")
        case _:
            question = {"request": asked.question}
            step = tell_user({}, data=question, requires_user_action=True, failed_agent=failed)
            return go_on(RoutingReason.ASKED_AGAIN, step)


@dataclass(frozen=True, slots=True)
class RouteKey:
    """What a route depends on."""

    topology_version: str
    """Version of the topology; it differs if any edge differs."""
    agent: str
    """The agent that replied."""
    branch_type: BranchType
    """The type of the branch."""
    action: ActionType | None
    """The action of the reply; None if it has none."""
    branch: Branch
    """The branch without its id."""
    content: str
    """Hash of the whole content of the reply."""

    @classmethod
    def of(cls, topology: Topology, agent: str, branch: Branch, result: ValidationResult) -> Self:
        """Return the key for a reply of ``agent`` in ``branch``."""
        invoked = [asdict(invocation) for invocation in result.invocations]
        asked = plain([result.origin, result.parsed_response, invoked, result.tool_calls])
        content = json.dumps(asked, sort_keys=True)
        return cls(
            topology_version=topology.version,
            agent=agent,
            branch_type=branch.type,
            action=result.action_type,
            branch=replace(branch, id=""),
            content=hashlib.blake2b(content.encode(), digest_size=16).hexdigest(),
        )


class RouteCache:
    """A cache of at most ``max_routes`` recent routes, which it copies.

    It is for executors whose decisions are expensive: a :class:`Router` decides faster than a key
    can be made. It is safe for threads and tasks.
    """

    __slots__ = ("_lock", "_routes", "max_routes")

    def __init__(self, max_routes: int = 1_024) -> None:
        if isinstance(max_routes, bool) or max_routes < 1:
            raise ContractError("RouteCache.max_routes must be a whole number, 1 or more")
        self.max_routes: int = max_routes
        """How many routes are cached."""
        self._routes: OrderedDict[Hashable, RoutingDecision] = OrderedDict()
        self._lock = threading.Lock()

    def get_route(self, key: Hashable) -> RoutingDecision | None:
        """Return the decision that is cached under ``key``; None if there is none."""
        with self._lock:
            route = self._routes.get(key)
            if route is not None:
                self._routes.move_to_end(key)

        return copy.deepcopy(route)

    def set_route(self, key: Hashable, route: RoutingDecision) -> None:
        """Cache a decision, unless it follows a fault.

        A full cache drops the least recently used decision.
        """
        if route.follows_fault():
            return

        own = copy.deepcopy(route)
        with self._lock:
            self._routes[key] = own
            self._routes.move_to_end(key)
            if len(self._routes) > self.max_routes:
                self._routes.popitem(last=False)

    def clear(self) -> None:
        """Delete all routes."""
        with self._lock:
            self._routes.clear()

    def __len__(self) -> int:
        return len(self._routes)
