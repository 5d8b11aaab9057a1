"""From a verdict on a reply to what is executed next. Nothing is executed here, and nothing is decided by words."""

from __future__ import annotations

from collections.abc import Collection

from strictreply.coordination.actions.branches import Branch
from strictreply.coordination.formats.interface import BaseResponseFormat
from strictreply.coordination.formats.registry import format_of
from strictreply.coordination.replies.results import ValidationResult
from strictreply.coordination.routing.action_routes import ROUTES
from strictreply.coordination.routing.case import RoutingCase, refuse, said_of
from strictreply.coordination.routing.decisions import RoutingContext, RoutingDecision, RoutingReason
from strictreply.coordination.routing.fault_routes import pre_checked, route_invalid
from strictreply.coordination.routing.journal import log_route
from strictreply.coordination.steering.error_policy import ErrorPolicy
from strictreply.coordination.topology.graph import Topology


class Router:
    """Routes verdicts within a topology (requirement M90).

    ``policy`` says what follows a reply that does not fit. ``response_format``, a registered name or a format, is how
    agents are told to reply. A router holds no state of a run: it may be shared between threads and tasks.
    """

    __slots__ = ("_format", "policy", "topology")

    def __init__(
        self,
        topology_graph: Topology,
        response_format: str | BaseResponseFormat = "json",
        *,
        policy: ErrorPolicy | None = None,
    ) -> None:
        """Take the topology; without ``policy`` the published reactions hold. ContractError for an unknown format."""
        self.topology = topology_graph
        self.policy = policy or ErrorPolicy()
        self._format = format_of(response_format)

    async def route(
        self, validation_result: ValidationResult, current_branch: Branch, routing_context: RoutingContext
    ) -> RoutingDecision:
        """Decide like :meth:`decide`, and log the decision at DEBUG; nothing is awaited."""
        decision = self.decide(validation_result, current_branch, routing_context)
        log_route(_who_replied(validation_result, current_branch, routing_context), decision)
        return decision

    def decide(
        self, validation_result: ValidationResult, current_branch: Branch, routing_context: RoutingContext
    ) -> RoutingDecision:
        """Decide what follows a reply, from the verdict on it, the branch and what else is known; none is changed.

        Who replied is ``routing_context.current_agent``, or else whom the verdict is about, or the sole agent of the
        branch; when that is nobody of this topology, nothing is executed (``unknown_agent``). Whatever the reply holds,
        the decision is a value, never an exception: ``reason`` says why it was made.
        """
        reported = pre_checked(routing_context)
        if reported is not None:
            return reported
        branch = said_of(current_branch, routing_context)
        agent = _who_replied(validation_result, branch, routing_context)
        if agent not in self.topology.agents:
            known = ", ".join(self.topology.agents)
            words = f"RoutingContext.current_agent must say which agent replied; the agents are: {known}"
            return refuse(RoutingReason.UNKNOWN_AGENT, words)
        case = RoutingCase(self.topology, self.policy, validation_result, branch, routing_context, agent, self._format)
        return _by_action(case) if validation_result.is_valid else route_invalid(case)

    def suggest_alternative_route(self, agent: str, failed: str, visited: Collection[str] = ()) -> str | None:
        """Name an agent to turn to instead of ``failed``: permitted, and neither failed nor visited; None for none.

        Raises ContractError when the topology has no such ``agent`` (requirement M109).
        """
        return next(iter(self.topology.alternatives(agent, failed, visited)), None)


def _who_replied(result: ValidationResult, branch: Branch, context: RoutingContext) -> str:
    """Name the agent whose reply it is, as far as anybody says; empty when nobody does."""
    if context.current_agent:
        return context.current_agent
    if result.permitted is not None:
        return result.permitted.agent
    return branch.agents[0] if len(branch.agents) == 1 else ""


def _by_action(case: RoutingCase) -> RoutingDecision:
    """Take the route of the action."""
    action = case.result.action_type
    if action is None:
        return refuse(RoutingReason.BROKEN_RESULT, "the result cannot be routed: it is valid without an action")
    return ROUTES[action](case)
