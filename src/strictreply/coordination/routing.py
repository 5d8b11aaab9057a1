"""From a verdict on a reply to what is executed next.

The verdict is checked once more here (requirement M107).
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Self, cast

from strictreply.coordination._action_rules import flaws, refusals
from strictreply.coordination._actions import (
    ActionType,
    Branch,
    BranchType,
    Permitted,
    ValidationResult,
)
from strictreply.coordination._decisions import (
    BranchSpec,
    ExecutionStep,
    RoutingCase,
    RoutingContext,
    RoutingDecision,
    RoutingReason,
    StepType,
    broken,
    pre_checked,
    refuse,
    route_invalid,
    route_valid,
)
from strictreply.coordination._error_policy import ErrorPolicy
from strictreply.coordination._permissions import Declared, Toolsets, permitted_actions, read_leave
from strictreply.coordination._run_state import RoutingEntry
from strictreply.coordination._topology import Topology
from strictreply.coordination.formats import DEFAULT_FORMAT, BaseResponseFormat, format_of
from strictreply.values._errors import ContractError
from strictreply.values._replies import plain

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


@dataclass(frozen=True, slots=True)
class RouteKey:
    """What a route depends on (M112, X29)."""

    topology_version: str
    """Version of the topology, which every edge changes."""
    agent: str
    """The agent that replied."""
    branch_type: BranchType
    """What kind of branch it is."""
    action: ActionType | None
    """The action of the reply; None when it has none."""
    branch: Branch
    """The branch without its id."""
    content: str
    """Hash of all that the reply asks for."""

    @classmethod
    def of(cls, topology: Topology, agent: str, branch: Branch, result: ValidationResult) -> Self:
        """Return the key of what ``agent`` asked for in ``branch``."""
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
    """The routes that were asked for last, at most ``max_routes``, as copies.

    It is for executors whose decisions are expensive: a :class:`Router` decides faster than a key
    can be made. Any thread or task may ask.
    """

    __slots__ = ("_lock", "_routes", "max_routes")

    def __init__(self, max_routes: int = 1_024) -> None:
        if isinstance(max_routes, bool) or max_routes < 1:
            raise ContractError("RouteCache.max_routes must be a whole number, 1 or more")
        self.max_routes: int = max_routes
        self._routes: OrderedDict[Hashable, RoutingDecision] = OrderedDict()
        self._lock = threading.Lock()

    def get_route(self, key: Hashable) -> RoutingDecision | None:
        """Return the decision kept under ``key``, None when there is none."""
        with self._lock:
            kept = self._routes.get(key)
            if kept is not None:
                self._routes.move_to_end(key)

        return copy.deepcopy(kept)

    def set_route(self, key: Hashable, route: RoutingDecision) -> None:
        """Keep a decision, unless it follows a fault.

        Beyond the bound the least recently used one goes.
        """
        if route.follows_fault():
            return

        kept = copy.deepcopy(route)
        with self._lock:
            self._routes[key] = kept
            self._routes.move_to_end(key)
            if len(self._routes) > self.max_routes:
                self._routes.popitem(last=False)

    def clear(self) -> None:
        """Forget all routes."""
        with self._lock:
            self._routes.clear()

    def __len__(self) -> int:
        return len(self._routes)


def predict_next_route(
    current_agent: str,
    history: Iterable[tuple[str, str] | RoutingEntry],
    *,
    allowed: Collection[str] | None = None,
) -> str | None:
    """Return the agent that most often followed ``current_agent``, of equals the later one (M113).

    None when no agent followed it.

    ``history`` holds pairs (from, to), or entries of ``routing_history``; anything else raises
    ContractError. Only ``allowed`` agents count, such as
    ``topology.allowed_targets(current_agent)``; None allows any.
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
                    "a history must hold pairs (from, to), or entries of routing_history"
                )

        # the start of a run, which nobody handed over, comes from the empty name
        if (source or "") == current_agent and (allowed is None or target in allowed):
            targets.append(target)

    counts = Counter(reversed(targets))
    return max(counts, key=counts.__getitem__, default=None)


class Router:
    """Decides what follows a verdict, within a topology (requirement M90).

    (:func:`route_next` decides from a state.)

    The edges, the branch and who asked are checked again (requirement M107). A router holds no
    state of a run: it may be shared between threads and tasks.
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
        """Route within ``topology_graph``; steerings ask for replies in ``response_format``.

        ``policy`` decides what follows a reply that does not fit. ``tools`` and ``leave`` are those
        of :class:`ValidationProcessor`; None takes them from what the reply was judged by, so that
        a verdict made by hand may call no tool and has no leave. Raises what ValidationProcessor
        raises for these arguments.
        """
        self.topology: Topology = topology_graph
        self.policy: ErrorPolicy = policy or ErrorPolicy()
        self._format = format_of(response_format)
        self._toolsets = None if tools is None else Toolsets(topology_graph, tools)
        self._leave = None if leave is None else read_leave(leave)

    async def route(
        self,
        validation_result: ValidationResult,
        current_branch: Branch,
        routing_context: RoutingContext,
    ) -> RoutingDecision:
        """Decide like :meth:`decide`; nothing is awaited."""
        return self.decide(validation_result, current_branch, routing_context)

    def decide(
        self,
        validation_result: ValidationResult,
        current_branch: Branch,
        routing_context: RoutingContext,
    ) -> RoutingDecision:
        """Return what follows a reply, from the verdict on it, the branch and what else is known.

        None of these three is changed.

        The agent is ``routing_context.current_agent``, or else the verdict's, or the only one of
        the branch. Nothing is executed when the topology does not have it (``unknown_agent``), when
        the verdict asks for what is not permitted (``not_allowed``, with the fault's ``code`` in
        the metadata), or lacks what its action needs (``broken_result``). No verdict raises:
        ``reason`` says why the decision was made. It is logged at DEBUG.
        """
        kind = current_branch.type
        if kind is BranchType.SIMPLE and routing_context.is_conversation_branch:
            kind = BranchType.CONVERSATION

        agents = current_branch.agents or tuple(routing_context.branch_agents)
        turns = max(current_branch.turns, routing_context.conversation_turns)
        branch = replace(current_branch, type=kind, agents=agents, turns=turns)

        held = cast("object", validation_result.permitted)
        agent = routing_context.current_agent
        if not agent:
            sole = branch.agents[0] if len(branch.agents) == 1 else ""
            agent = held.agent if isinstance(held, Permitted) else sole

        decision = pre_checked(routing_context)
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
        """Return an agent to hand over to instead of ``failed``, not visited (requirement M109).

        None when there is no such agent.
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
        if flaw := next(flaws(result, agent), None):
            return broken(flaw)

        held = result.permitted or Permitted(agent)
        allowed = permitted_actions(
            self.topology,
            agent,
            branch=branch,
            tools=held.tools if self._toolsets is None else self._toolsets.of(agent).by_name,
            leave=frozenset(held.actions) if self._leave is None else self._leave,
            allowed_agents=None if result.permitted is None else held.agents,
            origin=result.origin,
        )
        case = RoutingCase(
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
            return route_invalid(case)

        action = ActionType(result.action_type)
        if refused := next(refusals(result, action, allowed), None):
            words = f"{agent}: {refused.dotted}"
            return refuse(RoutingReason.NOT_ALLOWED, words, code=refused.code)

        return route_valid(case, action)
