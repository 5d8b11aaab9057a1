"""What a router is told and what it decides, with the published types; a decision is not changed once it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, cast

from strictreply.coordination._actions import Branch, Permitted, ValidationResult
from strictreply.coordination._error_policy import ErrorPolicy, Reaction
from strictreply.coordination._topology import USER, Topology
from strictreply.coordination.formats import BaseResponseFormat
from strictreply.values._errors import ContractError
from strictreply.values._limits import JSON, JSONObject, is_count


class StepType(StrEnum):
    """What an executor does in one step (requirement M93)."""

    AGENT_INVOCATION = "agent_invocation"
    TOOL_EXECUTION = "tool_execution"
    PARALLEL_SPAWN = "parallel_spawn"
    WAIT_FOR_CONVERGENCE = "wait_for_convergence"
    FINAL_RESPONSE = "final_response"
    ERROR_RECOVERY = "error_recovery"
    RETRY_WITH_STEERING = "retry_with_steering"


class RoutingReason(StrEnum):
    """Why a :class:`Router` decided so, for programs to match on; ``route_next`` has ``RouteReason``."""

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
    """One step of ``target``, an agent, a tool or the User; ``steering`` is the text for the agent, if any."""

    step_type: StepType
    target: str = ""
    data: JSONObject = field(default_factory=dict[str, Any])
    metadata: JSONObject = field(default_factory=dict[str, Any])
    steering: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchSpec:
    """A branch to open: the agent that begins it, what it is asked, None for nothing, and which instance it is."""

    agent: str
    request: JSON = None
    instance_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingDecision:
    """What a :class:`Router` decides: what an executor does next (requirement M91); see ``RouteDecision`` for states.

    ``next_steps`` are executed in order, ``branch_specs`` in parallel while the branch waits (``should_wait``).
    ``completion_reason`` is why the branch is over, None while it is not. ``error_action`` is ``terminate``, ``retry``
    or ``escalate`` when a fault led here. ``reason`` is None only in decisions that no router made.
    """

    next_steps: list[ExecutionStep] = field(default_factory=list[ExecutionStep])
    should_continue: bool = True
    branch_specs: list[BranchSpec] = field(default_factory=list[BranchSpec])
    metadata: JSONObject = field(default_factory=dict[str, Any])
    should_wait: bool = False
    completion_reason: str | None = None
    error_action: str | None = None
    error_message: str | None = None
    reason: RoutingReason | None = None

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
        after_faults = (StepType.ERROR_RECOVERY, StepType.RETRY_WITH_STEERING)
        return self.error_action is not None or any(step.step_type in after_faults for step in self.next_steps)


_NOT_GIVEN: Final = cast("int", object())  # the absence of a count, told from every count


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingContext:
    """What a router is told beside the reply (requirement M94).

    ``retry_count`` counts the corrections of this agent's reply, ``transport_retries`` the repeats of its failed call.
    ``current_agent`` is who replied, by default the only agent of the branch. ``metadata`` may hold faults of the
    executor (``critical_api_error`` and others), and the ``retry_count`` as in the published example (X7). With
    ``steering_enabled`` False a retry has no steering. The last three fields complete what the branch says of a
    conversation. Raises ContractError for what is no count, and for two that differ.
    """

    metadata: JSONObject = field(default_factory=dict[str, Any])
    error_info: JSONObject | None = None
    retry_count: int = _NOT_GIVEN
    steering_enabled: bool = True
    transport_retries: int = 0
    current_branch_id: str = ""
    current_agent: str = ""
    conversation_history: list[JSONObject] = field(default_factory=list[JSONObject])
    branch_agents: list[str] = field(default_factory=list[str])
    is_conversation_branch: bool = False
    conversation_turns: int = 0

    def __post_init__(self) -> None:
        if self.retry_count is _NOT_GIVEN:
            object.__setattr__(self, "retry_count", self.metadata.get("retry_count", 0))
        for name in ("retry_count", "transport_retries", "conversation_turns"):
            if not is_count(cast("object", getattr(self, name))):
                raise ContractError(f"RoutingContext.{name} must be a whole number, 0 or more")
        if self.metadata.get("retry_count", self.retry_count) != self.retry_count:
            raise ContractError("RoutingContext.retry_count and metadata['retry_count'] differ; give it once")


@dataclass(frozen=True, slots=True)
class RoutingCase:
    """What an agent replied in ``branch``, and what it is ``allowed`` there."""

    topology: Topology
    policy: ErrorPolicy
    result: ValidationResult
    branch: Branch
    context: RoutingContext
    allowed: Permitted
    response_format: BaseResponseFormat

    @property
    def agent(self) -> str:
        """The agent that replied."""
        return self.allowed.agent

    @property
    def parsed(self) -> JSONObject:
        """The reply as it was read; empty when there is none."""
        return self.result.parsed_response or {}


def go_on(
    reason: RoutingReason, *steps: ExecutionStep, error_action: Reaction | None = None, **metadata: Any
) -> RoutingDecision:
    """Execute these steps and go on; ``error_action`` says how a fault is reacted to."""
    known, action = {"routing_type": reason.value, **metadata}, error_action and error_action.value
    return RoutingDecision(next_steps=list(steps), metadata=known, error_action=action, reason=reason)


def stop(
    reason: RoutingReason, words: str, *steps: ExecutionStep, error: str | None = None, **metadata: Any
) -> RoutingDecision:
    """End the branch, ``words`` saying why; with ``error`` because of a fault."""
    decision = go_on(reason, *steps, error_action=None if error is None else Reaction.TERMINATE, **metadata)
    return replace(decision, should_continue=False, completion_reason=words, error_message=error)


def refuse(reason: RoutingReason, words: str, **metadata: Any) -> RoutingDecision:
    """End the branch without a step, because what was asked for cannot be done."""
    return stop(reason, words, error=words, **metadata)


def tell_user(details: Mapping[str, Any], *, data: JSONObject | None = None, **metadata: Any) -> ExecutionStep:
    """Make the step that brings an error to the user; with ``requires_user_action`` an answer is awaited."""
    known = {"requires_user_action": False, "can_retry": False} | metadata
    given: JSONObject = {"error": dict(details)} | (data or {})
    return ExecutionStep(step_type=StepType.ERROR_RECOVERY, target=USER, data=given, metadata=known)
