"""Builds a LangGraph graph from a topology: LangGraph executes the nodes, the coordination decides between them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from functools import cache, partial
from typing import Any, Final, TypeAlias, cast

import anyio

from strictreply.client._client import AsyncStrictClient
from strictreply.contract._contract import Check, aperform_check, perform_check
from strictreply.contract._driving import adrive, drive
from strictreply.coordination._agent_steering import ActionSteering, AgentSteering
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
from strictreply.integrations.langgraph._graph_settings import (
    ChatAgent,
    GraphSettings,
    agents_of,
    count_of,
    processor_of,
    routes_of,
)
from strictreply.integrations.langgraph._graph_state import (
    BRANCH,
    JOIN,
    TOOLS,
    RunState,
    at_node,
    branch_of,
    branch_specs,
    join_issues,
    node_of,
    run_issues,
    spawn_issues,
    with_task,
)
from strictreply.integrations.langgraph._graph_turns import (
    AskAgent,
    AskHuman,
    GraphEffect,
    agent_turn,
    human_turn,
    tools_turn,
)
from strictreply.integrations.langgraph._next_state import branch_outcome, branch_states, join_branches
from strictreply.pipeline._turn_effects import LoopPolicy, RunTools
from strictreply.retry._steering import Steering
from strictreply.running._turn_performing import ToolRunner
from strictreply.values._errors import CallFailed, ContractError
from strictreply.values._limits import JSONObject

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
    if steering is None or isinstance(steering, AgentSteering):
        steering = ActionSteering(speaking=steering or AgentSteering())
    elif not callable(getattr(steering, "correction", None)):
        raise ContractError("steering= must be an AgentSteering, or an object with correction(situation)")
    settings = GraphSettings(
        agents=agents_of(topology, agents, processor),
        processor=processor,
        router=Router(topology, processor.response_format, policy=policy),
        prompts=SystemPromptBuilder(processor.response_format),
        steering=steering,
        content_limit=content_limit or ContentLoopGuard(),
        max_turns=count_of("max_turns", max_turns, least=1),
        words=words,
        metrics=metrics,
    )
    return _GraphBuilder(settings, routes_of(topology, routes), max_loop_count).build()


class _GraphBuilder:
    """Builds a graph, and performs the effects of its turns; a parallel branch of a run is a run of the same graph.

    This is the only place where a model is asked, a tool is run and a human is waited for.
    """

    def __init__(self, settings: GraphSettings, routes: Routes, limit: int | None) -> None:
        self._settings, self._routes = settings, routes
        self._limit = None if limit is None else count_of("max_loop_count", limit, least=0)
        self._graph = load("langgraph.graph").StateGraph(RunState)
        self._tools = ToolRunner(LoopPolicy(), lambda _: None)

    def build(self) -> Any:
        """Add the nodes, and after each node the same function, which reads from the state where it leads."""
        settings, compiled = self._settings, cache(self._graph.compile)

        def join(state: RunState) -> Generator[GraphEffect, Any, RunState]:
            yield from ()  # there is nothing to wait for
            return join_branches(settings, state)

        async def arun_branch(state: RunState) -> JSONObject:
            return branch_outcome(state, await compiled().ainvoke(state))

        for agent in settings.agents.values():
            self._add(node_of(agent.name), partial(agent_turn, settings, agent))
        self._add(HUMAN_INPUT, partial(human_turn, settings))
        self._add(TOOLS, *(partial(tools_turn, settings, awaited=awaited) for awaited in (False, True)))
        self._add(JOIN, join)
        run_branch = _node(lambda state: branch_outcome(state, compiled().invoke(state)), arun_branch)
        self._graph.add_node(BRANCH, run_branch)  # what runs in it is counted there
        self._graph.add_edge(BRANCH, JOIN)
        graph = load("langgraph.graph")
        targets = edge_map(self._routes, end_target=graph.END)
        for name in (graph.START, *(node for node in self._routes.nodes if node not in (BRANCH, END))):
            self._graph.add_conditional_edges(name, self._route, targets)
        return self._graph

    def _add(self, name: str, flow: _StateFlow, awaited: _StateFlow | None = None) -> None:
        guard = partial(counted, name=name, routes=self._routes, metrics=self._settings.metrics)
        checked = self._joined if name == JOIN else self._checked

        @guard
        def run(state: RunState) -> Any:
            return _changes(state, drive(flow(state), self._perform))

        @guard
        async def arun(state: RunState) -> Any:
            return _changes(state, await adrive((awaited or flow)(state), self._aperform))

        self._graph.add_node(name, _node(lambda state: run(checked(state)), lambda state: arun(checked(state))))

    def _route(self, state: RunState) -> Any:
        decision = explain_route(self._checked(state), routes=self._routes)
        if self._settings.metrics is not None:
            self._settings.metrics.routed(decision)
        if decision.target != BRANCH:
            return decision.target
        # Before branches are opened the topology is asked once more, whoever wrote them into the state.
        settings, spawned = self._settings, state["spawned"] or {}
        branch = branch_of(state, settings.max_turns)
        terms = settings.processor.terms(settings.agents[spawned["agent"]], branch)
        require(spawn_issues(settings.topology, spawned, terms.permitted))
        require(join_issues(settings.topology, state, spawned.get("waiting", ())))
        send = load("langgraph.types").Send
        return [send(BRANCH, one) for one in branch_states(settings.topology, state, decision.max_loop_count)]

    def _checked(self, state: RunState) -> RunState:
        topology = self._settings.topology
        require(run_issues(topology, state))
        state = at_node(topology, state)
        return state if self._limit is None else changed(state, max_loop_count=self._limit)

    def _joined(self, state: RunState) -> RunState:
        """Check branches that come together; what was executed in them counts before the limit is compared."""
        state = self._checked(state)
        require(join_issues(self._settings.topology, state, branch_specs(state)))
        opened = (state["spawned"] or {}).get("branches", ())
        spent = sum(state["outcomes"][spec["id"]]["spent"] for spec in opened)
        return changed(state, loop_count=state["loop_count"] + spent)

    def _perform(self, effect: GraphEffect) -> Any:
        match effect:
            case AskAgent(agent=agent) if isinstance(agent.client, AsyncStrictClient):
                raise ContractError(f"agent {agent.name!r} has an async client: use ainvoke or astream")
            case AskAgent(agent=agent, request=request):
                try:
                    return agent.client.exchange(**request)
                except CallFailed as error:
                    return error
            case Check():
                return perform_check(effect)
            case RunTools(runs=runs):
                return self._tools.run_all(runs)
            case AskHuman(question=question, refused=refused):
                # The checkpoint keeps every answer, refused ones too: a turn that is run again is given them in their
                # order, and interrupts only behind the last one.
                try:
                    return load("langgraph.types").interrupt(question)
                except load("langgraph.errors").GraphInterrupt:
                    if refused is None:
                        raise
                    raise refused from None

    async def _aperform(self, effect: GraphEffect) -> Any:
        match effect:
            case AskAgent(agent=agent, request=request) if isinstance(agent.client, AsyncStrictClient):
                try:
                    return await agent.client.exchange(**request)
                except CallFailed as error:
                    return error
            case AskAgent():
                return await anyio.to_thread.run_sync(self._perform, effect)
            case Check():
                return await aperform_check(effect)
            case RunTools(runs=runs):
                return await self._tools.arun_all(runs)
            case AskHuman():
                return self._perform(effect)


def _node(run: _NodeFunction, arun: _NodeFunction) -> Any:
    """Make a node that can be invoked and awaited; LangChain's RunnableLambda would trace every node a second time."""

    def invoke(_: object, state: RunState, *__: object, **___: object) -> Any:
        return run(state)

    def ainvoke(_: object, state: RunState, *__: object, **___: object) -> Any:
        return arun(state)

    members = {"invoke": invoke, "ainvoke": ainvoke}
    return type("GraphNode", (load("langchain_core.runnables").Runnable,), members)()


def _changes(state: RunState, after: Mapping[str, Any]) -> dict[str, Any]:
    named = with_task(cast("RunState", after)) if "next_agent" in after else after
    return {key: value for key, value in named.items() if state.get(key, ...) is not value}
