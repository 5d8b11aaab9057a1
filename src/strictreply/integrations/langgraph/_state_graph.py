"""Builds a LangGraph graph from a topology: LangGraph executes the nodes, the coordination decides between them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from functools import cache, partial
from typing import Any, Final, TypeAlias, cast

from strictreply.contract._driving import adrive, drive
from strictreply.coordination._agent_steering import AgentSteering
from strictreply.coordination._error_policy import ContentLoopGuard, ErrorPolicy
from strictreply.coordination._runs.human_requests import Words
from strictreply.coordination._runs.next_node import Routes, edge_map, explain_route
from strictreply.coordination._runs.run_counting import RunMetrics, counted
from strictreply.coordination._runs.run_state import END, HUMAN_INPUT, changed, require
from strictreply.coordination._topology import Topology
from strictreply.coordination.formats import BaseResponseFormat, SystemPromptBuilder
from strictreply.coordination.routing import Router
from strictreply.coordination.validation import ValidationProcessor
from strictreply.integrations._extras import load
from strictreply.integrations.langgraph._graph_effects import GraphEffect, GraphPerformer
from strictreply.integrations.langgraph._graph_settings import (
    ChatAgent,
    GraphSettings,
    agents_of,
    count_of,
    processor_of,
    routes_of,
    steering_of,
)
from strictreply.integrations.langgraph._graph_state import (
    BRANCH,
    JOIN,
    TOOLS,
    RunState,
    at_node,
    branch_of,
    branch_specs,
    node_of,
    with_task,
)
from strictreply.integrations.langgraph._graph_state_checks import join_issues, run_issues, spawn_issues
from strictreply.integrations.langgraph._graph_turns import agent_turn, human_turn, tools_turn
from strictreply.integrations.langgraph._parallel_branches import (
    branch_states,
    branch_turn,
    join_branches,
    meeting_points,
    spent_in_branches,
)
from strictreply.retry._steering import Steering

MAX_TURNS: Final = 5

_StateFlow: TypeAlias = Callable[[RunState], Generator[GraphEffect, Any, Mapping[str, Any]]]
_NodeFunction: TypeAlias = Callable[[RunState], Any]


def to_langgraph(
    topology: Topology,
    agents: Iterable[ChatAgent],
    *,
    response_format: str | BaseResponseFormat | None = None,
    processor: ValidationProcessor | None = None,
    policy: ErrorPolicy | None = None,
    steering: AgentSteering | Steering | None = None,
    content_limit: ContentLoopGuard | None = None,
    routes: Routes | None = None,
    max_loop_count: int | None = None,
    max_turns: int = MAX_TURNS,
    words: Words | None = None,
    metrics: RunMetrics | None = None,
) -> Any:
    """Build the ``StateGraph`` of a topology: compile it with a checkpointer of your choice, and ``invoke`` it.

    ``agents`` has one for each agent of the topology. ``processor`` judges their replies, in their clients' own loops
    and after them, and its format is the one that they are told; without one ``response_format`` is, None for the
    registry's default. ``policy`` decides what follows a reply that stays wrong, and its budget bounds the corrections.

    ``steering`` decides when agents are told anything, an :class:`~strictreply.coordination.AgentSteering`, or writes
    the application's own words, an object with ``correction(situation)``; with the mode ``never`` nothing is corrected.
    ``content_limit`` bounds replies in a row that are text alone, None for the published limits. ``words`` are further
    answers of humans, ``metrics`` counts node executions, calls of models, and runs of tools.

    ``routes`` holds rules, strategies and the limit on going in circles; None for no rules and the default limit, by
    which the same calls with the same arguments, or the same requests, three times in a row end the run. A rule
    chooses the :func:`node_of` an agent, or the end. ``max_loop_count`` goes before the limit of the state, that of
    ``routes``, the environment's and 10; ``max_turns`` bounds two agents that talk in turns.

    The input is what :func:`begin` returns. A question to the user is an interrupt, resumed with
    ``Command(resume=…)``: the name of a decision, or free text where its kind takes that. Raises ContractError for what
    could never run: ``agents`` that are not those of the topology, a tool without a function or with an approval, a
    ``skip_to`` without an edge, ``max_turns`` below 1. Raises ImportError without LangGraph.
    """
    processor = processor_of(topology, response_format, processor)
    settings = GraphSettings(
        agents=agents_of(topology, agents, processor),
        processor=processor,
        router=Router(topology, processor.response_format, policy=policy),
        prompts=SystemPromptBuilder(processor.response_format),
        steering=steering_of(steering),
        content_limit=content_limit or ContentLoopGuard(),
        max_turns=count_of("max_turns", max_turns, least=1),
        words=words,
        metrics=metrics,
    )
    return _GraphBuilder(settings, routes_of(topology, routes), max_loop_count).build()


class _GraphBuilder:
    """Builds a graph; a parallel branch of a run is a run of the same graph."""

    def __init__(self, settings: GraphSettings, routes: Routes, limit: int | None) -> None:
        self._settings, self._routes = settings, routes
        self._limit = None if limit is None else count_of("max_loop_count", limit, least=0)
        self._graph = load("langgraph.graph").StateGraph(RunState)
        self._performer = GraphPerformer(settings, load("langgraph.types").interrupt, cache(self._graph.compile))

    def build(self) -> Any:
        """Add the nodes, and after each node the same function, which reads from the state where it leads."""
        settings = self._settings
        for agent in settings.agents.values():
            self._add_counted(node_of(agent.name), *self._pair(partial(agent_turn, settings, agent)))
        self._add_counted(HUMAN_INPUT, *self._pair(partial(human_turn, settings)))
        in_sync, in_async = (partial(tools_turn, settings, awaited=awaited) for awaited in (False, True))
        self._add_counted(TOOLS, *self._pair(in_sync, in_async))
        joined = self._counted(JOIN, lambda state: _changes(state, join_branches(settings, state)))
        self._add(JOIN, partial(self._join, joined))
        self._add(BRANCH, *self._pair(branch_turn))
        self._graph.add_edge(BRANCH, JOIN)
        graph = load("langgraph.graph")
        targets = edge_map(self._routes, end_target=graph.END)
        for name in (graph.START, *(node for node in self._routes.nodes if node not in (BRANCH, END))):
            self._graph.add_conditional_edges(name, self._route, targets)
        return self._graph

    def _route(self, state: RunState) -> Any:
        """Return the target that the state leads to; of a parallel hand-over one for each branch."""
        decision = explain_route(self._checked(state), routes=self._routes)
        if self._settings.metrics is not None:
            self._settings.metrics.routed(decision)
        if decision.target != BRANCH:
            return decision.target
        self._require_permitted(state)
        meets, send = meeting_points(self._settings.topology, state), load("langgraph.types").Send
        return [send(BRANCH, one) for one in branch_states(state, decision.max_loop_count, meets)]

    def _join(self, joined: _NodeFunction, state: RunState) -> Any:
        """Join the branches; what was executed in them counts as well, before the limit is compared."""
        topology = self._settings.topology
        require(run_issues(topology, state))
        require(join_issues(topology, state, branch_specs(state)))
        return joined(changed(state, loop_count=state["loop_count"] + spent_in_branches(state)))

    def _checked(self, state: RunState) -> RunState:
        """Check what a state holds, and put the limit of the call in the place of its own (requirement R34)."""
        require(run_issues(self._settings.topology, state))
        state = at_node(self._settings.topology, state)
        return state if self._limit is None else changed(state, max_loop_count=self._limit)

    def _require_permitted(self, state: RunState) -> None:
        """Ask the topology once more before branches are opened, whoever wrote them into the state."""
        settings, spawned = self._settings, state["spawned"] or {}
        branch = branch_of(state, settings.max_turns)
        terms = settings.processor.terms(settings.agents[spawned["agent"]], branch)
        require(spawn_issues(settings.topology, spawned, terms.permitted))
        require(join_issues(settings.topology, state, spawned.get("waiting", ())))

    def _pair(self, flow: _StateFlow, awaited: _StateFlow | None = None) -> tuple[_NodeFunction, _NodeFunction]:
        """Return the sync and the async function of a flow; ``awaited`` is the flow of async runs when it differs."""

        def run(state: RunState) -> Any:
            return _changes(state, drive(flow(state), self._performer.perform))

        async def arun(state: RunState) -> Any:
            return _changes(state, await adrive((awaited or flow)(state), self._performer.aperform))

        return run, arun

    def _counted(self, name: str, run: _NodeFunction) -> _NodeFunction:
        """Return the function of a node whose executions count against the limit."""
        guarded = counted(run, name=name, routes=self._routes, metrics=self._settings.metrics)
        return lambda state: guarded(self._checked(state))

    def _add_counted(self, name: str, run: _NodeFunction, arun: _NodeFunction) -> None:
        self._add(name, self._counted(name, run), self._counted(name, arun))

    def _add(self, name: str, run: _NodeFunction, arun: _NodeFunction | None = None) -> None:
        """Add a node that can be invoked and awaited; without ``arun`` there is nothing in it to await."""
        self._graph.add_node(name, load("langchain_core.runnables").RunnableLambda(run, afunc=arun, name=name))


def _changes(state: RunState, after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not as before, and the name of the coming work."""
    named = with_task(cast("RunState", after)) if "next_agent" in after else after
    return {key: value for key, value in named.items() if state.get(key, ...) is not value}
