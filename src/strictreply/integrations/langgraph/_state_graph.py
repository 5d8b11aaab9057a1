"""Builds a LangGraph graph from a topology.

LangGraph executes the nodes; the coordination decides which comes next.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeAlias, TypedDict, Unpack, cast, get_args, get_type_hints

import anyio

from strictreply import AbortRun, AsyncStrictClient, CallFailed, ContractError, LoopPolicy, Steering
from strictreply.coordination import (
    END,
    HUMAN_INPUT,
    ActionSteering,
    AgentState,
    AgentSteering,
    BaseResponseFormat,
    ContentLoopGuard,
    ErrorPolicy,
    HumanDecision,
    Router,
    RouteRule,
    Routes,
    RunMetrics,
    StateError,
    SystemPromptBuilder,
    Topology,
    ValidationProcessor,
    counted,
    edge_map,
    explain_route,
    get_format,
)
from strictreply.coordination.state import pending_requests
from strictreply.core import Check, adrive, drive
from strictreply.core.arguments import is_count
from strictreply.core.judging import aperform_check, perform_check
from strictreply.core.tools import refuse_unrunnable, refuse_without_context, takes_context
from strictreply.integrations import load
from strictreply.integrations.langgraph._graph_calls import GraphCall, RunInGraph
from strictreply.integrations.langgraph._graph_settings import ChatAgent, GraphSettings, HandOver
from strictreply.integrations.langgraph._graph_state import (
    BRANCH,
    JOIN,
    OWN_FIELDS,
    TOOLS,
    RunState,
    at_node,
    branch_of,
    branch_specs,
    changed,
    node_of,
)
from strictreply.integrations.langgraph._graph_streams import aask_aloud, ask_aloud
from strictreply.integrations.langgraph._graph_tools import ToolEffect, is_open, tools_turn
from strictreply.integrations.langgraph._graph_turns import (
    AskAgent,
    AskHuman,
    GraphEffect,
    agent_turn,
    human_turn,
)
from strictreply.integrations.langgraph._next_state import (
    branch_outcome,
    branch_states,
    join_branches,
)
from strictreply.integrations.langgraph._run_loops import with_task
from strictreply.integrations.langgraph._state_checks import join_issues, run_issues, spawn_issues
from strictreply.integrations.langgraph._thread_input import graph_of
from strictreply.loop import ToolRunner

_Effect: TypeAlias = GraphEffect | ToolEffect
_StateFlow: TypeAlias = Callable[[RunState], Generator[Any, Any, RunState]]


class StateKeywords(TypedDict, total=False):
    """The keywords of a graph's state.

    - ``state_schema`` is a subclass of :class:`RunState` with more fields, which tools can read and
      write.
    - ``context_schema`` is the schema of LangGraph's ``context=``.
    - ``hand_over`` is what an agent gets when another one hands over to it: only the ``request``,
      or before it the ``history``: everything new that the user, other agents and their tools said.
    """

    state_schema: type
    """A subclass of :class:`RunState` with more fields."""
    context_schema: type | None
    """The type of LangGraph's ``context=``."""
    hand_over: HandOver
    """What an agent is given: the ``request``, or before it the ``history``."""


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
    max_turns: int = 5,
    words: Mapping[str, HumanDecision] | None = None,
    metrics: RunMetrics | None = None,
    **state: Unpack[StateKeywords],
) -> Any:
    """Build the ``StateGraph`` of a topology.

    Compile it with a checkpointer of your choice, and ``invoke`` it with the input that
    :func:`begin` returns.

    - ``agents`` has one agent for each name in the topology.
    - ``processor`` judges their replies, in the loops of their clients and after them. Without one,
      ``response_format`` is the format of replies; None means the registry's default.
    - ``policy`` decides what follows a reply that stays invalid; its budget bounds the corrections.
    - ``steering`` is an :class:`~strictreply.coordination.AgentSteering` (the mode ``never``
      disables corrections), or an object with ``correction(context)``.
    - ``content_limit`` bounds consecutive replies that contain only text; None means the published
      limits.
    - ``words`` adds answers of humans; ``metrics`` counts executions of nodes, models and tools.
    - ``routes`` has rules, strategies and the loop limits. A rule chooses the :func:`node_of` an
      agent, or the end. None means no rules, and the default limit: the same calls with the same
      arguments, or the same requests, three times in a row end the run.
    - ``max_loop_count`` takes precedence over the limit of the state, of ``routes``, of the
      environment, and 10; ``max_turns`` bounds two agents that talk in turns.
    - ``state`` are :class:`StateKeywords`: a schema with your own fields, a context, and what is
      passed at a hand-over.

    A question to the user is an interrupt. Resume it with ``Command(resume=…)``: the name of a
    decision, or free text if the question's kind accepts that. For a call that needs approval see
    :func:`approvals_in`.

    Raises ContractError for ``agents`` that differ from the topology's, a tool without a function,
    a ``skip_to`` without an edge, a schema without a run's fields, and bounds that are not counts.
    Raises ImportError without LangGraph.
    """
    processor = _processor_of(topology, response_format, processor)
    if steering is None or isinstance(steering, AgentSteering):
        steering = ActionSteering(speaking=steering or AgentSteering())
    elif not callable(getattr(steering, "correction", None)):
        raise ContractError(
            "steering= must be an AgentSteering, or an object with correction(context)"
        )

    settings = GraphSettings(
        agents=_agents_of(topology, agents, processor),
        processor=processor,
        router=Router(topology, processor.response_format, policy=policy),
        prompts=SystemPromptBuilder(processor.response_format),
        steering=steering,
        content_limit=content_limit or ContentLoopGuard(),
        max_turns=_count_of("max_turns", max_turns, least=1),
        words=words,
        metrics=RunMetrics() if metrics is None else metrics,
        state_schema=_schema_of(state.get("state_schema", RunState)),
        hand_over=_hand_over_of(state.get("hand_over", "request")),
    )
    context = state.get("context_schema")
    return _GraphBuilder(settings, _routes_of(topology, routes), max_loop_count, context).build()


def _hand_over_of(word: HandOver) -> HandOver:
    if word in get_args(HandOver):
        return word
    raise ContractError(f"hand_over must be one of {', '.join(get_args(HandOver))}, not {word!r}")


def _schema_of(state_schema: type) -> type:
    """Return the schema of a graph's state; ContractError when fields of a run are missing."""
    hints = get_type_hints(state_schema, include_extras=True)
    if get_type_hints(RunState, include_extras=True).items() <= hints.items():
        return state_schema
    raise ContractError("state_schema must be a subclass of RunState, with your fields in it")


def _processor_of(
    topology: Topology,
    response_format: str | BaseResponseFormat | None,
    processor: ValidationProcessor | None,
) -> ValidationProcessor:
    """Return the processor that judges a graph's replies.

    Raises ContractError for one of another topology or format.
    """
    if processor is None:
        return ValidationProcessor(topology, response_format)

    if processor.topology.version != topology.version:
        raise ContractError(
            "the processor has another topology; make it with the topology of the graph"
        )

    if response_format is not None:
        given = response_format
        if isinstance(given, str):
            given = get_format(given)

        own = processor.response_format
        if type(given) is not type(own) or given.extra != own.extra:
            raise ContractError(
                "the processor reads another format; "
                "leave response_format out to use the processor's"
            )

    return processor


def _agents_of(
    topology: Topology, agents: Iterable[ChatAgent], processor: ValidationProcessor
) -> dict[str, ChatAgent]:
    """Return the agents by name.

    Raises ContractError for other agents than the topology's, or one that cannot run.
    """
    given = list(agents)
    named = {agent.name: agent for agent in given}
    if len(named) != len(given) or set(named) != set(topology.agents):
        raise ContractError(
            "agents must contain each agent of the topology exactly once: "
            f"{', '.join(topology.agents)}"
        )

    for agent in given:
        targets = topology.allowed_targets(agent.name)
        if agent.skip_to is not None and agent.skip_to not in targets:
            raise ContractError(
                f"agent {agent.name!r}: skip_to must be an agent it has an edge to: "
                f"{', '.join(targets)}"
            )

        for tool in processor.terms(agent).tools.tools:
            refuse_unrunnable(
                tool, awaited=True, injects=True
            )  # whether a run is awaited is not known yet

    return named


def _routes_of(topology: Topology, routes: Routes | None) -> Routes:
    """Return the routes with the graph's nodes.

    No rule of theirs can drop accepted calls, branches or questions.
    """
    given = Routes() if routes is None else routes
    if given.nodes != Routes().nodes:
        raise ContractError(
            "the topology determines the nodes of a graph; leave nodes= out of routes="
        )

    agents = tuple(map(node_of, topology.agents))

    def bounded(rule: RouteRule) -> RouteRule:
        def decide(state: Mapping[str, object]) -> str | None:
            chosen = rule.decide(state)
            if chosen is None or chosen == END:
                return chosen

            if chosen not in agents:
                raise ContractError(
                    f"the rule {rule.name!r} may choose only an agent's node_of(…) or {END!r}"
                )

            prepared = state["next_agent"] in (TOOLS, BRANCH)
            if prepared or pending_requests(cast("AgentState", state)):
                raise ContractError(
                    f"the rule {rule.name!r} may not choose an agent before tools, "
                    "branches or a human"
                )

            return chosen

        return replace(rule, decide=decide)

    strategies = tuple(
        replace(one, rules=tuple(map(bounded, one.rules))) for one in given.strategies
    )
    return replace(
        given,
        nodes=(*agents, TOOLS, BRANCH, JOIN, HUMAN_INPUT, END),
        rules=tuple(map(bounded, given.rules)),
        strategies=strategies,
    )


def _count_of(name: str, value: object, *, least: int) -> int:
    """Return an argument; ContractError unless it is a whole number, ``least`` or more."""
    if is_count(value, least):
        return value
    raise ContractError(f"{name} must be a whole number, {least} or more")


class _GraphBuilder:
    """Builds a graph, and performs the effects of its turns.

    A parallel branch of a run is a run of the same graph.
    """

    def __init__(
        self, settings: GraphSettings, routes: Routes, limit: int | None, context: type | None
    ) -> None:
        self._settings = settings
        self._routes = routes
        self._limit = None if limit is None else _count_of("max_loop_count", limit, least=0)
        self._graph = graph_of(settings, context)
        processor = settings.processor
        tools = (processor.terms(agent).tools.tools for agent in settings.agents.values())
        self._taking = [tool for own in tools for tool in own if takes_context(tool)]
        self._tools = ToolRunner(LoopPolicy(), lambda _: None, "the user is asked how to go on")

    def build(self) -> object:
        """Add the nodes, and after each node the same function.

        The function reads from the state where the node leads.
        """
        settings = self._settings
        compiled = cache(self._graph.compile)

        def join(state: RunState) -> Generator[GraphEffect, object, RunState]:
            yield from ()  # there is nothing to wait for
            return join_branches(settings.topology, state)

        def run_branch(state: RunState) -> dict[str, object]:
            return branch_outcome(state, compiled().invoke(state), settings.own_fields)

        async def arun_branch(state: RunState) -> dict[str, object]:
            return branch_outcome(state, await compiled().ainvoke(state), settings.own_fields)

        for agent in settings.agents.values():
            self._add(node_of(agent.name), partial(agent_turn, settings, agent))

        self._add(HUMAN_INPUT, partial(human_turn, settings))
        self._add(
            TOOLS,
            partial(tools_turn, settings, awaited=False),
            partial(tools_turn, settings, awaited=True),
        )
        self._add(JOIN, join)
        # what runs in a branch is counted there
        self._graph.add_node(BRANCH, _node(run_branch, arun_branch))
        self._graph.add_edge(BRANCH, JOIN)

        graph = load("langgraph.graph")
        targets = edge_map(self._routes, end_target=graph.END)
        leading = (node for node in self._routes.nodes if node not in (BRANCH, END))
        for name in (graph.START, *leading):
            self._graph.add_conditional_edges(name, self._route, targets)

        return self._graph

    def _add(self, name: str, flow: _StateFlow, awaited: _StateFlow | None = None) -> None:
        metrics = self._settings.metrics
        guard = partial(counted, name=name, routes=self._routes, metrics=metrics, is_open=is_open)
        checked = self._joined if name == JOIN else self._checked

        @guard
        def run(state: RunState) -> object:
            self._refuse_without_context()
            return _changes(state, drive(flow(state), self._perform))

        @guard
        async def arun(state: RunState) -> object:
            self._refuse_without_context()
            return _changes(state, await adrive((awaited or flow)(state), self._aperform))

        self._graph.add_node(
            name, _node(lambda state: run(checked(state)), lambda state: arun(checked(state)))
        )

    def _refuse_without_context(self) -> None:
        """Raise ContractError, before an agent is asked, for tools without their context."""
        if self._taking and load("langgraph.runtime").get_runtime().context is None:
            for tool in self._taking:
                refuse_without_context(tool)

    def _route(self, state: Any) -> object:
        if is_open(state):
            return TOOLS

        decision = explain_route(self._checked(state), routes=self._routes)
        self._settings.metrics.routed(decision)
        if decision.target != BRANCH:
            return decision.target

        # The topology is checked once more before branches are opened, because any program may have
        # written them into the state.
        settings = self._settings
        spawned = state["spawned"] or {}
        agent = settings.agents[spawned["agent"]]
        terms = settings.processor.terms(agent, branch_of(state, settings.max_turns))
        StateError.raise_for(spawn_issues(settings.topology, spawned, terms.permitted))
        StateError.raise_for(join_issues(settings.topology, state, spawned.get("waiting", ())))

        send = load("langgraph.types").Send
        opened = branch_states(
            settings.topology, state, decision.max_loop_count, settings.own_fields
        )
        return [send(BRANCH, one) for one in opened]

    def _checked(self, state: RunState) -> RunState:
        topology = self._settings.topology
        StateError.raise_for(run_issues(topology, state))
        state = at_node(topology, state)
        return state if self._limit is None else changed(state, max_loop_count=self._limit)

    def _joined(self, state: RunState) -> RunState:
        """Check branches that come together.

        What was executed in them counts before the limit is compared.
        """
        state = self._checked(state)
        StateError.raise_for(join_issues(self._settings.topology, state, branch_specs(state)))

        opened = (state["spawned"] or {}).get("branches", ())
        spent = sum(state["outcomes"][spec["id"]]["spent"] for spec in opened)
        return changed(state, loop_count=state["loop_count"] + spent)

    def _perform(self, effect: _Effect) -> object:
        match effect:
            case AskAgent(agent=agent) if isinstance(agent.client, AsyncStrictClient):
                raise ContractError(
                    f"agent {agent.name!r} has an async client: use ainvoke or astream"
                )
            case AskAgent(agent=agent, request=request):
                asked = ask_aloud(effect)
                try:
                    return agent.client.exchange(**request) if asked is None else asked
                except CallFailed as error:
                    return error
            case Check():
                return perform_check(effect)
            case RunInGraph():
                call = GraphCall(effect)
                try:
                    (outcome,) = self._tools.run_all((call.run,))
                except AbortRun as error:
                    outcome = call.ended(error)
                return outcome, call.command
            case AskHuman(question=question, refused=refused):
                # The checkpoint keeps every answer, refused ones too: a turn that is run again is
                # given them in their order, and interrupts only behind the last one.
                try:
                    return load("langgraph.types").interrupt(question)
                except load("langgraph.errors").GraphInterrupt:
                    if refused is None:
                        raise
                    raise refused from None

    async def _aperform(self, effect: _Effect) -> object:
        match effect:
            case AskAgent(agent=agent, request=request) if isinstance(
                agent.client, AsyncStrictClient
            ):
                asked = await aask_aloud(effect)
                try:
                    return await agent.client.exchange(**request) if asked is None else asked
                except CallFailed as error:
                    return error
            case AskAgent():
                return await anyio.to_thread.run_sync(self._perform, effect)
            case Check():
                return await aperform_check(effect)
            case RunInGraph():
                call = GraphCall(effect)
                try:
                    (outcome,) = await self._tools.arun_all((call.run,))
                except AbortRun as error:
                    outcome = call.ended(error)
                return outcome, call.command
            case AskHuman():
                return self._perform(effect)


def _node(run: Callable[[RunState], object], arun: Callable[[RunState], object]) -> object:
    """Make a node that can be invoked and awaited.

    LangChain's RunnableLambda would trace every node a second time.
    """

    def invoke(_: object, state: RunState, *__: object, **___: object) -> object:
        return run(state)

    def ainvoke(_: object, state: RunState, *__: object, **___: object) -> object:
        return arun(state)

    base = load("langchain_core.runnables").Runnable
    return type("GraphNode", (base,), {"invoke": invoke, "ainvoke": ainvoke})()


def _changes(state: RunState, after: RunState) -> dict[str, object]:
    entries: dict[str, Any] = {**with_task(after)}
    written = entries.pop(OWN_FIELDS, {})  # a reducer takes the same value a second time
    changes = {key: new for key, new in entries.items() if state.get(key, ...) is not new}
    return {**changes, **written}
