"""What a graph is built with, made to fit together: one processor, one table of routes, one voice. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from strictreply.coordination.formats import BaseResponseFormat
from strictreply.coordination.formats.registry import format_of
from strictreply.coordination.runs.routes import RouteRule, Routes, is_count
from strictreply.coordination.runs.states import DEFAULT_NODES, END, HUMAN_INPUT
from strictreply.coordination.steering.retrying import ActionSteering
from strictreply.coordination.steering.wording import AgentSteering
from strictreply.coordination.topology.graph import Topology
from strictreply.coordination.validation.processor import ValidationProcessor
from strictreply.errors import ContractError
from strictreply.integrations.langgraph.states import BRANCH, JOIN, TOOLS, node_of
from strictreply.steering import Steering


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


def routes_of(topology: Topology, routes: Routes | None) -> Routes:
    """Put the graph's nodes into a table of routes: its limits, rules and strategies stay.

    A rule may lead to an agent's node or to the end; what else it chooses is a failure of it, as the decision records.
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
    """Keep rules off the nodes that need something prepared for them: tools, branches, humans."""
    return tuple(replace(rule, decide=_Bounded(rule, (*agents, END))) for rule in rules)


class _Bounded:
    """The condition of a rule that may choose some nodes only."""

    def __init__(self, rule: RouteRule, targets: tuple[str, ...]) -> None:
        """Keep the rule's own condition."""
        self._rule, self._targets = rule, targets

    def __call__(self, state: Mapping[str, Any]) -> str | None:
        """Give what the rule chooses; ContractError, which the decision records, for a node that it may not choose."""
        chosen = self._rule.decide(state)
        if chosen is None or chosen in self._targets:
            return chosen
        raise ContractError(f"the rule {self._rule.name!r} may choose an agent's node_of(…) or {END!r}")


def steering_of(steering: AgentSteering | Steering | None, written: BaseResponseFormat) -> Steering:
    """Give the voice that corrects agents: ours in the mode and with the counts that are given, or the application's.

    Raises ContractError for what cannot say a correction.
    """
    if steering is None:
        return ActionSteering(written)
    if isinstance(steering, AgentSteering):
        return ActionSteering(written, speaking=steering)
    if not callable(getattr(steering, "correction", None)):
        raise ContractError("steering= is an AgentSteering, or an object with correction(situation)")
    return steering


def limit_of(max_loop_count: object) -> int | None:
    """Check the limit that goes before all others; ContractError unless it is a whole number, 0 or more, or None."""
    if max_loop_count is None or (isinstance(max_loop_count, int) and is_count(max_loop_count)):
        return max_loop_count
    raise ContractError("max_loop_count must be a whole number, 0 or more, or None")
