"""From a verdict on a reply to what is executed next. Nothing is executed here, and nothing is decided by words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import cast

from strictreply.coordination._actions.branches import Branch
from strictreply.coordination._actions.kinds import ActionType, Permitted
from strictreply.coordination._actions.permissions import leave_in, permitted_actions, read_leave
from strictreply.coordination._actions.toolsets import Declared, Toolsets
from strictreply.coordination._replies.results import ValidationResult
from strictreply.coordination._steering.error_policy import ErrorPolicy
from strictreply.coordination._topology.graph import Topology
from strictreply.coordination.formats._interface import BaseResponseFormat
from strictreply.coordination.formats._registry import DEFAULT_FORMAT, format_of
from strictreply.coordination.routing._action_routes import route_of
from strictreply.coordination.routing._case import RoutingCase, refuse, said_of
from strictreply.coordination.routing._decisions import RoutingContext, RoutingDecision, RoutingReason
from strictreply.coordination.routing._defence import flaw_of, refusal
from strictreply.coordination.routing._fault_routes import pre_checked, route_invalid
from strictreply.coordination.routing._journal import log_route


class Router:
    """Routes verdicts within a topology (requirement M90).

    No verdict is believed: the edges, the branch and who asked are looked at again (requirement M107). A router holds
    no state of a run: it may be shared between threads and tasks.
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
        """Route within ``topology_graph``; agents are told to reply in ``response_format``.

        ``policy`` says what follows a reply that does not fit, None for the published reactions. ``tools`` and
        ``leave`` are those of :class:`ValidationProcessor`; None takes them from what the verdict was held to, so that
        a verdict that was made by hand may call no tool and has no leave.

        Raises ContractError for an unknown format, an action that cannot be permitted, and what declares no tool.
        """
        self.topology = topology_graph
        self.policy = policy or ErrorPolicy()
        self._format = format_of(response_format)
        self._toolsets = None if tools is None else Toolsets(topology_graph, tools)
        self._leave = None if leave is None else read_leave(leave)

    async def route(
        self, validation_result: ValidationResult, current_branch: Branch, routing_context: RoutingContext
    ) -> RoutingDecision:
        """Decide like :meth:`decide`; nothing is awaited."""
        return self.decide(validation_result, current_branch, routing_context)

    def decide(
        self, validation_result: ValidationResult, current_branch: Branch, routing_context: RoutingContext
    ) -> RoutingDecision:
        """Decide what follows a reply, from the verdict on it, the branch and what else is known; none is changed.

        Who replied is ``routing_context.current_agent``, or else whom the verdict is about, or the sole agent of the
        branch; when that is nobody of this topology, nothing is executed (``unknown_agent``). Nor is anything for a
        verdict that asks for what is not permitted (``not_allowed``, with the ``code`` of the fault in the metadata),
        or that does not hold what it says (``broken_result``). Whatever the verdict holds, the decision is a value,
        never an exception: ``reason`` says why it was made. It is logged at DEBUG.
        """
        branch = said_of(current_branch, routing_context)
        agent = _who_replied(validation_result, branch, routing_context)
        decision = pre_checked(routing_context) or self._decided(validation_result, branch, routing_context, agent)
        log_route(agent, decision)
        return decision

    def suggest_alternative_route(self, agent: str, failed: str, visited: Collection[str] = ()) -> str | None:
        """Name an agent to turn to instead of ``failed``: permitted, and neither failed nor visited; None for none.

        Raises ContractError when the topology has no such ``agent`` (requirement M109).
        """
        return next(iter(self.topology.alternatives(agent, failed, visited)), None)

    def _decided(
        self, result: ValidationResult, branch: Branch, context: RoutingContext, agent: str
    ) -> RoutingDecision:
        """Decide about the reply of an agent, if it is one, and its verdict can be believed so far."""
        if agent not in self.topology.agents:
            known = ", ".join(self.topology.agents)
            words = f"RoutingContext.current_agent must say which agent replied; the agents are: {known}"
            return refuse(RoutingReason.UNKNOWN_AGENT, words)
        flaw = flaw_of(result, agent)
        if flaw is not None:
            return refuse(RoutingReason.BROKEN_RESULT, f"the result cannot be routed: {flaw}")
        allowed = self._allowed(result, branch, agent)
        case = RoutingCase(self.topology, self.policy, result, branch, context, allowed, self._format)
        action = result.action_type if result.is_valid else None
        return route_invalid(case) if action is None else _by_action(case, ActionType(action))

    def _allowed(self, result: ValidationResult, branch: Branch, agent: str) -> Permitted:
        """Work out what the agent may do; what nobody told the router of tools and leave, the verdict says."""
        held = result.permitted or Permitted(agent)
        return permitted_actions(
            self.topology,
            agent,
            branch=branch,
            tools=held.tools if self._toolsets is None else self._toolsets.of(agent, None).by_name,
            leave=leave_in(held) if self._leave is None else self._leave,
            allowed_agents=None if result.permitted is None else held.agents,
            origin=result.origin,
        )


def _who_replied(result: ValidationResult, branch: Branch, context: RoutingContext) -> str:
    """Name the agent whose reply it is, as far as anybody says; empty when nobody does."""
    if context.current_agent:
        return context.current_agent
    if isinstance(held := cast("object", result.permitted), Permitted):
        return held.agent
    return branch.agents[0] if len(branch.agents) == 1 else ""


def _by_action(case: RoutingCase, action: ActionType) -> RoutingDecision:
    """Take the route of an action that is permitted."""
    refused = refusal(case.result, action, case.allowed)
    if refused is not None:
        return refuse(RoutingReason.NOT_ALLOWED, f"{case.agent}: {refused.dotted}", code=refused.code)
    return route_of(case, action)(case)
