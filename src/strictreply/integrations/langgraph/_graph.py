"""A topology as a graph of LangGraph: LangGraph executes, the coordination decides."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from functools import cache, partial
from typing import Any, Final, TypeAlias, cast

from strictreply.contract._driving import adrive, drive
from strictreply.coordination._agent_steering import AgentSteering
from strictreply.coordination._error_policy import ContentLoopGuard, ErrorPolicy
from strictreply.coordination._runs.human_requests import Words
from strictreply.coordination._runs.next_node import explain_route
from strictreply.coordination._runs.route_table import Routes, edge_map
from strictreply.coordination._runs.run_counting import RunMetrics, counted
from strictreply.coordination._runs.run_state import END, HUMAN_INPUT, changed, require
from strictreply.coordination._topology import Topology
from strictreply.coordination.formats import BaseResponseFormat, SystemPromptBuilder
from strictreply.coordination.routing import Router
from strictreply.coordination.validation import ValidationProcessor
from strictreply.integrations.langgraph._agents import ChatAgent
from strictreply.integrations.langgraph._effects import Effect, Performer
from strictreply.integrations.langgraph._following import Coordination, branch_states
from strictreply.integrations.langgraph._integrity import join_issues, line_issues, spawn_issues
from strictreply.integrations.langgraph._joining import join_branches, meeting_points, spent_in_branches
from strictreply.integrations.langgraph._library import load
from strictreply.integrations.langgraph._settings import (
    agents_of,
    limit_of,
    processor_of,
    routes_of,
    steering_of,
    turns_of,
)
from strictreply.integrations.langgraph._states import (
    BRANCH,
    JOIN,
    TOOLS,
    RunState,
    at_node,
    branch_of,
    branch_specs,
    node_of,
)
from strictreply.integrations.langgraph._tasks import with_task
from strictreply.integrations.langgraph._turns import (
    agent_turn,
    branch_turn,
    human_turn,
    tools_turn,
)
from strictreply.retry._steering import Steering

MAX_TURNS: Final = 5
Flow: TypeAlias = Callable[[RunState], Generator[Effect, Any, Any]]


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
    and after them, and says the format that they are told; without one ``response_format`` says it, None for the
    registry's default. ``policy`` says what follows a reply that stays wrong, and its budget bounds the corrections.

    ``steering`` says when agents are told anything, an :class:`~strictreply.coordination.AgentSteering`, or words of
    the application's own, an object with ``correction(situation)``; with the mode ``never`` nothing is corrected.
    ``content_limit`` bounds replies in a row that are words alone, None for the published limits. ``words`` are further
    answers of humans, ``metrics`` counts node executions, calls of models, and runs of tools.

    ``routes`` holds rules, strategies and the limit on going in circles; None for no rules and the default limit, by
    which the same calls with the same arguments, or the same requests, three times in a row end the run. A rule
    chooses the :func:`node_of` an agent, or the end. ``max_loop_count`` goes before the limit of the state, that of
    ``routes``, the environment's and 10; ``max_turns`` bounds two agents that talk in turns.

    The input is what :func:`begin` makes. A question to the user is an interrupt, resumed with ``Command(resume=…)``:
    the name of a decision, or free text where its kind takes that. Raises ContractError for what could never run:
    ``agents`` that are not those of the topology, a tool without a function or with an approval, a ``skip_to`` without
    an edge, ``max_turns`` below 1. Raises ImportError without LangGraph.
    """
    judging = processor_of(topology, response_format, processor)
    written = judging.response_format
    shared = Coordination(
        topology=topology,
        agents=agents_of(topology, agents, judging),
        processor=judging,
        router=Router(topology, written, policy=policy),
        prompts=SystemPromptBuilder(written),
        steering=steering_of(steering),
        content_limit=content_limit or ContentLoopGuard(),
        max_turns=turns_of(max_turns),
        home=topology.entries[0],
        words=words,
        metrics=metrics,
    )
    return _Builder(shared, routes_of(topology, routes), limit_of(max_loop_count), metrics).build()


class _Builder:
    """Puts a graph together; a parallel branch of a run is a run of the same graph."""

    def __init__(self, shared: Coordination, routes: Routes, limit: int | None, metrics: RunMetrics | None) -> None:
        """Load LangGraph, and begin an empty graph; ``limit`` goes before the state's own."""
        self._shared, self._routes, self._limit, self._metrics = shared, routes, limit, metrics
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
            decision = explain_route(self._sound(state), routes=self._routes)
            if self._metrics is not None:
                self._metrics.routed(decision)
            if decision.target != BRANCH:
                return decision.target
            self._require_permitted(state)
            meets = meeting_points(self._shared.topology, state)
            return [types.Send(BRANCH, one) for one in branch_states(state, decision.max_loop_count, meets)]

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
            require(line_issues(self._shared.topology, state))
            require(join_issues(self._shared.topology, state, branch_specs(state)))
            return guarded(changed(state, loop_count=state["loop_count"] + spent_in_branches(state)))

        self._add(JOIN, run)

    def _counted(self, name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        """Guard a function of a node."""
        guarded = counted(run, name=name, routes=self._routes, metrics=self._metrics)

        def limited(state: RunState) -> Any:
            """Run the function under the limit of the call."""
            return guarded(self._sound(state))

        return limited

    def _sound(self, state: RunState) -> RunState:
        """Check what a state holds, and put the limit of the call in the place of its own (requirement R34)."""
        require(line_issues(self._shared.topology, state))
        state = at_node(self._shared.topology, state)
        return state if self._limit is None else changed(state, max_loop_count=self._limit)

    def _require_permitted(self, state: RunState) -> None:
        """Ask the topology once more before branches are opened, whoever wrote them into the state."""
        shared, spawned = self._shared, state["spawned"] or {}
        branch = branch_of(state, shared.max_turns)
        terms = shared.processor.terms(shared.agents[spawned["agent"]], branch)
        require(spawn_issues(shared.topology, spawned, terms.permitted))
        require(join_issues(shared.topology, state, spawned.get("waiting", ())))

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


def _changes(state: RunState, after: Mapping[str, Any]) -> dict[str, Any]:
    """Give the fields that are not as before, and the name of the work to come."""
    told = with_task(cast("RunState", after)) if "next_agent" in after else after
    return {key: value for key, value in told.items() if state.get(key, ...) is not value}
