"""What a graph is built with, made to fit together: one processor, one table of routes, one voice. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from strictreply.contract._tool import Tool
from strictreply.coordination._agent_steering import ActionSteering, AgentSteering
from strictreply.coordination._runs.human_turn import pending_requests
from strictreply.coordination._runs.route_table import RouteRule, Routes, is_count
from strictreply.coordination._runs.run_state import DEFAULT_NODES, END, HUMAN_INPUT, AgentState
from strictreply.coordination._topology import Topology
from strictreply.coordination.formats import BaseResponseFormat
from strictreply.coordination.formats._action_formats import format_of
from strictreply.coordination.validation import ValidationProcessor
from strictreply.integrations.langgraph._agents import ChatAgent
from strictreply.integrations.langgraph._states import BRANCH, JOIN, TOOLS, node_of
from strictreply.retry._steering import Steering
from strictreply.values._errors import ContractError


def processor_of(
    topology: Topology, response_format: str | BaseResponseFormat | None, processor: ValidationProcessor | None
) -> ValidationProcessor:
    """Give the processor that judges a graph's replies: its topology and format are the graph's.

    Raises ContractError for a processor of another topology, or of another format than one that is given beside it.
    """
    if processor is None:
        return ValidationProcessor(topology, response_format)
    if processor.topology.version != topology.version:
        raise ContractError("the processor judges by another topology; make it with the one of the graph")
    if response_format is not None and not _are_alike(format_of(response_format), processor.response_format):
        raise ContractError("the processor reads another format; leave response_format out, it is the processor's")
    return processor


def _are_alike(one: BaseResponseFormat, other: BaseResponseFormat) -> bool:
    """Tell whether two formats are written and read alike, as far as formats tell."""
    return type(one) is type(other) and one.extra == other.extra


def agents_of(topology: Topology, agents: Iterable[ChatAgent], processor: ValidationProcessor) -> dict[str, ChatAgent]:
    """Give the agents of a graph by name.

    Raises ContractError when they are not those of the topology, when one skips to an agent that it has no edge to, and
    when one has a tool that a graph cannot run: without a function, or with an approval, which nobody is asked for.
    """
    given = list(agents)
    named = {agent.name: agent for agent in given}
    if len(named) != len(given) or set(named) != set(topology.agents):
        raise ContractError(f"agents must have each agent of the topology once: {', '.join(topology.agents)}")
    for agent in given:
        if agent.skip_to is not None and agent.skip_to not in topology.allowed_targets(agent.name):
            known = ", ".join(topology.allowed_targets(agent.name))
            raise ContractError(f"agent {agent.name!r}: skip_to must be an agent that it has an edge to: {known}")
        for tool in processor.terms(agent).tools.tools:
            _refuse_unrunnable(tool)
    return named


def _refuse_unrunnable(tool: Tool) -> None:
    """Refuse a tool that no run of a graph could run; an async one can be awaited."""
    if tool.needs_approval:
        raise ContractError(
            f"the tool {tool.name!r} needs an approval, which a graph does not ask for: let its agent ask the user"
        )
    tool.refuse_unrunnable(awaited=True)


def routes_of(topology: Topology, routes: Routes | None) -> Routes:
    """Put the graph's nodes into a table of routes: its limits, rules and strategies stay.

    A rule may lead to an agent's node, where nothing is prepared for another node, and to the end; what else it chooses
    is a failure of it, as the decision records.
    Raises ContractError for a table with nodes of its own.
    """
    given = Routes() if routes is None else routes
    if given.nodes != DEFAULT_NODES:
        raise ContractError("the nodes of a graph are those of its topology; leave nodes= out of routes=")
    agents = tuple(map(node_of, topology.agents))
    strategies = tuple(replace(one, rules=_bounded(one.rules, agents)) for one in given.strategies)
    nodes = (*agents, TOOLS, BRANCH, JOIN, HUMAN_INPUT, END)
    return replace(given, nodes=nodes, rules=_bounded(given.rules, agents), strategies=strategies)


def _bounded(rules: Iterable[RouteRule], agents: tuple[str, ...]) -> tuple[RouteRule, ...]:
    """Keep rules off the nodes that need something prepared for them, and from leading past what is prepared."""
    return tuple(replace(rule, decide=_Bounded(rule, agents)) for rule in rules)


class _Bounded:
    """The condition of a rule that may choose some nodes only."""

    def __init__(self, rule: RouteRule, targets: tuple[str, ...]) -> None:
        """Keep the rule's own condition; ``targets`` are the agents' nodes."""
        self._rule, self._targets = rule, targets

    def __call__(self, state: Mapping[str, Any]) -> str | None:
        """Give what the rule chooses; ContractError, which the decision records, for a node that it may not choose.

        Calls that were accepted, branches that are to be opened and a human who is to be asked would be lost if another
        agent came first; to end a run, and so to give them up, is a rule's right.
        """
        chosen = self._rule.decide(state)
        if chosen is None or chosen == END:
            return chosen
        if chosen not in self._targets:
            raise ContractError(f"the rule {self._rule.name!r} may choose an agent's node_of(…) or {END!r}")
        if state["next_agent"] in (TOOLS, BRANCH) or pending_requests(cast("AgentState", state)):
            raise ContractError(f"the rule {self._rule.name!r} may not lead past tools, branches or a human")
        return chosen


def steering_of(steering: AgentSteering | Steering | None) -> Steering:
    """Give the voice that corrects agents: ours in the mode and with the counts that are given, or the application's.

    Raises ContractError for what cannot say a correction.
    """
    if steering is None:
        return ActionSteering()
    if isinstance(steering, AgentSteering):
        return ActionSteering(speaking=steering)
    if not callable(getattr(steering, "correction", None)):
        raise ContractError("steering= is an AgentSteering, or an object with correction(situation)")
    return steering


def limit_of(max_loop_count: object) -> int | None:
    """Check the limit that goes before all others; ContractError unless it is a whole number, 0 or more, or None."""
    if max_loop_count is None or (isinstance(max_loop_count, int) and is_count(max_loop_count)):
        return max_loop_count
    raise ContractError("max_loop_count must be a whole number, 0 or more, or None")


def turns_of(max_turns: object) -> int:
    """Check how many turns two agents may talk; ContractError unless it is a whole number, 1 or more."""
    if isinstance(max_turns, int) and is_count(max_turns) and max_turns > 0:
        return max_turns
    raise ContractError("max_turns must be a whole number, 1 or more")
