"""Everything one route is decided by, and how decisions are spelled; which decision it is stands with the routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from strictreply.coordination._actions.branches import Branch, BranchType
from strictreply.coordination._actions.kinds import Permitted
from strictreply.coordination._replies.results import ValidationResult
from strictreply.coordination._steering.error_policy import ErrorPolicy, Reaction
from strictreply.coordination._steering.wording import JSON_FORMAT, SteeringContext, steering_text
from strictreply.coordination._topology.graph import USER, Topology
from strictreply.coordination.formats._interface import BaseResponseFormat
from strictreply.coordination.routing._decisions import (
    ExecutionStep,
    RoutingContext,
    RoutingDecision,
    RoutingReason,
    StepType,
)
from strictreply.values._json import JSONObject


@dataclass(frozen=True, slots=True)
class RoutingCase:
    """What an agent replied in ``branch``, and what it is ``allowed`` there."""

    topology: Topology
    policy: ErrorPolicy
    result: ValidationResult
    branch: Branch
    context: RoutingContext
    allowed: Permitted
    response_format: BaseResponseFormat = JSON_FORMAT

    @property
    def agent(self) -> str:
        """The agent that replied."""
        return self.allowed.agent

    @property
    def parsed(self) -> JSONObject:
        """The reply as it was read; empty when there is none."""
        return self.result.parsed_response or {}

    def in_conversation_with(self, target: str) -> bool:
        """Tell whether the branch is a conversation that ``target`` takes part in with the agent."""
        members = {target, self.agent} <= set(self.branch.agents)
        return members and self.branch.type is BranchType.CONVERSATION and target != self.agent

    def steering(self) -> str | None:
        """Word what the agent is to change; None when steering is off."""
        if not self.context.steering_enabled:
            return None
        context = SteeringContext(
            permitted=self.allowed,
            issues=self.result.issues,
            retry_count=self.context.retry_count + 1,
            response_format=self.response_format,
        )
        return steering_text(context)


def said_of(branch: Branch, context: RoutingContext) -> Branch:
    """Join what the branch and the context say of a conversation; the branch itself is not changed."""
    conversation = context.is_conversation_branch and branch.type is BranchType.SIMPLE
    return replace(
        branch,
        type=BranchType.CONVERSATION if conversation else branch.type,
        agents=branch.agents or tuple(context.branch_agents),
        turns=max(branch.turns, context.conversation_turns),
    )


def go_on(reason: RoutingReason, *steps: ExecutionStep, **metadata: Any) -> RoutingDecision:
    """Execute these steps and go on."""
    return RoutingDecision(next_steps=list(steps), metadata=_typed(reason, metadata), reason=reason)


def stop(
    reason: RoutingReason,
    words: str,
    *steps: ExecutionStep,
    error: str | None = None,
    **metadata: Any,
) -> RoutingDecision:
    """End the branch, ``words`` saying why; with ``error`` because of a fault."""
    return RoutingDecision(
        next_steps=list(steps),
        should_continue=False,
        metadata=_typed(reason, metadata),
        completion_reason=words,
        error_action=Reaction.TERMINATE.value if error is not None else None,
        error_message=error,
        reason=reason,
    )


def refuse(reason: RoutingReason, words: str, **metadata: Any) -> RoutingDecision:
    """End the branch without a step, because what was asked for cannot be done."""
    return stop(reason, words, error=words, **metadata)


def tell_user(details: Mapping[str, Any], *, data: JSONObject | None = None, **metadata: Any) -> ExecutionStep:
    """Make the step that brings an error to the user; ``requires_user_action`` says whether one answer is awaited."""
    known = {"requires_user_action": False, "can_retry": False} | metadata
    given: JSONObject = {"error": dict(details)} | (data or {})
    return ExecutionStep(step_type=StepType.ERROR_RECOVERY, target=USER, data=given, metadata=known)


def _typed(reason: RoutingReason, metadata: Mapping[str, Any]) -> JSONObject:
    """Put the published ``routing_type`` beside what else is known."""
    return {"routing_type": reason.value, **metadata}
