"""A topology as a graph of LangGraph: LangGraph executes, the coordination decides."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from functools import cache, partial
from typing import Any, Final, TypeAlias

from strictreply.coordination.formats import BaseResponseFormat, SystemPromptBuilder
from strictreply.coordination.formats.registry import format_of
from strictreply.coordination.routing.router import Router
from strictreply.coordination.runs.counting import counted
from strictreply.coordination.runs.ledger import Words
from strictreply.coordination.runs.next_node import route_next
from strictreply.coordination.runs.routes import Routes, edge_map
from strictreply.coordination.runs.run_metrics import RunMetrics
from strictreply.coordination.runs.states import END, HUMAN_INPUT, changed
from strictreply.coordination.steering.error_policy import ErrorPolicy
from strictreply.coordination.steering.retrying import ActionSteering
from strictreply.coordination.topology.graph import Topology
from strictreply.coordination.validation.processor import ValidationProcessor
from strictreply.driving import adrive, drive
from strictreply.errors import ContractError
from strictreply.integrations.langgraph.agents import ChatAgent
from strictreply.integrations.langgraph.effects import Effect, Performer
from strictreply.integrations.langgraph.following import Coordination, branch_states
from strictreply.integrations.langgraph.library import load
from strictreply.integrations.langgraph.states import BRANCH, JOIN, TOOLS, RunState, node_of
from strictreply.integrations.langgraph.turns import (
    agent_turn,
    branch_turn,
    human_turn,
    join_branches,
    spent_in_branches,
    tools_turn,
)

MAX_TURNS: Final = 5
Flow: TypeAlias = Callable[[RunState], Generator[Effect, Any, Any]]


def to_langgraph(
    topology: Topology,
    agents: Iterable[ChatAgent],
    *,
    response_format: str | BaseResponseFormat = "json",
    processor: ValidationProcessor | None = None,
    policy: ErrorPolicy | None = None,
    max_loop_count: int | None = None,
    max_turns: int = MAX_TURNS,
    words: Words | None = None,
    metrics: RunMetrics | None = None,
) -> Any:
    """Build the ``StateGraph`` of a topology: compile it with a checkpointer of your choice, and ``invoke`` it.

    ``agents`` has one for each agent of the topology. They are told to reply in ``response_format``, and ``processor``
    judges their replies, None for one without validators of your own. ``policy`` says what follows a reply that stays
    wrong, and its budget bounds the corrections. ``max_loop_count`` is the limit of
    :func:`~strictreply.coordination.route_next`, None for the state's, the environment's or 10; ``max_turns`` bounds
    two agents that talk in turns. ``words`` are further answers of humans, ``metrics`` counts node executions.

    The input is what :func:`begin` makes. A question to the user is an interrupt, resumed with ``Command(resume=…)``:
    the name of a decision, or free text where its kind takes that. Raises ContractError when ``agents`` are not those
    of the topology, ImportError without LangGraph.
    """
    written = format_of(response_format)
    shared = Coordination(
        topology=topology,
        agents=_named(topology, agents),
        processor=processor or ValidationProcessor(topology, written),
        router=Router(topology, written, policy=policy),
        prompts=SystemPromptBuilder(written),
        steering=ActionSteering(written),
        max_turns=max_turns,
        home=node_of(topology.entries[0]),
        words=words,
    )
    nodes = (*map(node_of, topology.agents), TOOLS, BRANCH, JOIN, HUMAN_INPUT, END)
    routes = Routes(nodes=nodes, max_loop_count=max_loop_count, cycle=None)  # a tool loop goes in circles by design
    return _Builder(shared, routes, metrics).build()


class _Builder:
    """Puts a graph together; a parallel branch of a run is a run of the same graph."""

    def __init__(self, shared: Coordination, routes: Routes, metrics: RunMetrics | None) -> None:
        """Load LangGraph, and begin an empty graph."""
        self._shared, self._routes, self._metrics = shared, routes, metrics
        self._graph = load().StateGraph(RunState)
        self._performer = Performer(shared, load("langgraph.types").interrupt, cache(self._graph.compile))

    def build(self) -> Any:
        """Add the nodes, and after each the same question: where does the state lead?"""
        shared = self._shared
        for agent in shared.agents.values():
            self._add_counted(node_of(agent.name), partial(agent_turn, shared, agent))
        self._add_counted(HUMAN_INPUT, partial(human_turn, shared))
        self._add_counted(TOOLS, partial(tools_turn, shared, awaited=False), partial(tools_turn, shared, awaited=True))
        self._add_join()
        self._add(BRANCH, *self._pair(branch_turn))
        self._graph.add_edge(BRANCH, JOIN)
        self._add_routes()
        return self._graph

    def _add_routes(self) -> None:
        """Route from the start and from each node but a branch, which always joins the others."""
        graph, types = load(), load("langgraph.types")

        def route(state: RunState) -> Any:
            """Give the target that the state leads to; of a parallel hand-over one for each branch."""
            target = route_next(state, routes=self._routes)
            return [types.Send(BRANCH, one) for one in branch_states(state)] if target == BRANCH else target

        targets = edge_map(self._routes, end_target=graph.END)
        for name in (graph.START, *(node for node in self._routes.nodes if node not in (BRANCH, END))):
            self._graph.add_conditional_edges(name, route, targets)

    def _add_counted(self, name: str, flow: Flow, awaited: Flow | None = None) -> None:
        """Add a node whose executions count."""
        self._add(name, *map(partial(self._counted, name), self._pair(flow, awaited)))

    def _add_join(self) -> None:
        """Add the node where branches come together; what was executed in them counts as well."""

        def join(state: RunState) -> Any:
            """Give what joining changes."""
            return _changes(state, join_branches(self._shared, state))

        guarded = self._counted(JOIN, join)

        def run(state: RunState) -> Any:
            """Join the branches."""
            return guarded(changed(state, loop_count=state["loop_count"] + spent_in_branches(state)))

        self._add(JOIN, run)

    def _counted(self, name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        """Guard a function of a node."""
        return counted(run, name=name, routes=self._routes, metrics=self._metrics)

    def _pair(self, flow: Flow, awaited: Flow | None = None) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Make the sync and the async function of a flow, which give what it changes."""
        performer, waiting = self._performer, awaited or flow

        def run(state: RunState) -> Any:
            """Run the flow."""
            return _changes(state, drive(flow(state), performer.perform))

        async def arun(state: RunState) -> Any:
            """Run the flow, awaiting."""
            return _changes(state, await adrive(waiting(state), performer.aperform))

        return run, arun

    def _add(self, name: str, run: Callable[..., Any], arun: Callable[..., Any] | None = None) -> None:
        """Add a node that can be invoked and awaited; without ``arun`` there is nothing in it to await."""
        self._graph.add_node(name, load("langchain_core.runnables").RunnableLambda(run, afunc=arun, name=name))


def _named(topology: Topology, agents: Iterable[ChatAgent]) -> dict[str, ChatAgent]:
    """Give the agents by name; ContractError when they are not those of the topology."""
    given = list(agents)
    named = {agent.name: agent for agent in given}
    if len(named) != len(given) or set(named) != set(topology.agents):
        raise ContractError(f"agents must have each agent of the topology once: {', '.join(topology.agents)}")
    return named


def _changes(state: RunState, after: Mapping[str, Any]) -> dict[str, Any]:
    """Give the fields that are not as before."""
    return {key: value for key, value in after.items() if state.get(key, ...) is not value}
