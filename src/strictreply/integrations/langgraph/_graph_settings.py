"""What a graph is made of: its agents, and the settings that all its nodes share. Arguments are checked here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from strictreply.client._client import AsyncStrictClient, StrictClient
from strictreply.coordination._actions import Permitted
from strictreply.coordination._agent_steering import ActionSteering
from strictreply.coordination._error_policy import ContentLoopGuard, ContentStreak
from strictreply.coordination._permissions import Declared
from strictreply.coordination._runs.human_requests import HumanKind, Words
from strictreply.coordination._runs.next_node import RouteRule, Routes
from strictreply.coordination._runs.run_counting import RunMetrics
from strictreply.coordination._runs.run_state import DEFAULT_NODES, END, HUMAN_INPUT, AgentState, pending_requests
from strictreply.coordination._topology import Topology
from strictreply.coordination.formats import AgentContext, BaseResponseFormat, CoordinationContext, SystemPromptBuilder
from strictreply.coordination.formats._action_formats import format_of
from strictreply.coordination.routing import Router
from strictreply.coordination.validation import ActionAnswer, ValidationProcessor
from strictreply.integrations.langgraph._graph_state import BRANCH, JOIN, TOOLS, node_of
from strictreply.retry._steering import Steering
from strictreply.values._errors import ContractError
from strictreply.values._limits import JSONObject, Message, is_count
from strictreply.wires._opening import peek

_SET_BY_THE_RUN: Final = frozenset({"messages", "contract", "policy", "steering", "tools", "n", "stream"})
_ALLOWED_FORMATS: Final = ("text", "json_object")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAgent:
    """An agent that a chat-completions API answers for.

    ``client`` is what :func:`strictreply.wrap` returns, sync or async. ``request`` holds keywords of
    ``chat.completions.create`` beside the messages: ``model``, ``temperature`` and others. ``goal`` and ``instruction``
    stand in its system prompt. ``tools`` are anything that declares a tool; each needs a function, which is run. None
    takes what the processor's ``tools=`` has for this agent, an empty list is no tools. ``asks`` is the kind of
    question that its ``ask_user`` puts: it determines which decisions an answer may take.
    ``skip_to`` is the agent that follows when the user skips this one after an error; with None the branch ends.

    Raises ContractError when ``client`` is not wrapped, when ``request`` holds what the run itself sets in each request
    (messages, contract, policy, steering, tools, and one whole reply instead of ``n`` or a stream), or a
    ``response_format`` other than ``text`` and ``json_object``: the schema of a reply is that of its actions.
    """

    name: str
    client: StrictClient | AsyncStrictClient = field(repr=False)
    request: Mapping[str, Any] = field(repr=False)
    goal: str = ""
    instruction: str = ""
    tools: Declared | None = None
    asks: HumanKind = HumanKind.GENERAL
    skip_to: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.client), StrictClient | AsyncStrictClient):
            raise ContractError(f"agent {self.name!r} needs a wrapped client: client=strictreply.wrap(…)")
        if taken := sorted(_SET_BY_THE_RUN & set(self.request)):
            raise ContractError(f"agent {self.name!r}: leave {', '.join(taken)} out of request=; the run sets it")
        wanted = self.request.get("response_format")
        if wanted is not None and peek(wanted, "type") not in _ALLOWED_FORMATS:
            raise ContractError(
                f"agent {self.name!r}: the schema of a reply is that of its actions; leave response_format out of "
                'request=, or use one of type "json_object"'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSettings:
    """What the nodes of one graph share: the agents that are asked, and what decides on their replies."""

    agents: Mapping[str, ChatAgent]
    processor: ValidationProcessor
    router: Router
    prompts: SystemPromptBuilder
    steering: Steering
    max_turns: int
    words: Words | None
    metrics: RunMetrics | None
    content_limit: ContentLoopGuard
    _prompts: dict[Permitted, tuple[object, str]] = field(init=False, repr=False, default_factory=dict)

    @property
    def topology(self) -> Topology:
        """The topology of the graph."""
        return self.processor.topology

    def request(
        self, agent: ChatAgent, answer: ActionAnswer, streak: ContentStreak, thread: list[Message], *, steer: bool
    ) -> JSONObject:
        """Return the keywords of one ask of an agent; with ``steer`` its prompt tells it what it may do.

        It is asked again no more often than the limit on text alone leaves, and never when nothing is corrected.
        """
        terms, steering, budget = answer.terms, self.steering, self.router.policy.budget
        kept = self._prompts.get(terms.permitted)
        if kept is None or kept[0] is not terms.tools:  # a prompt is made once, not on every ask
            who = AgentContext(agent.name, agent.goal, agent.instruction)
            kept = self._prompts[terms.permitted] = terms.tools, self.prompts.build(who, CoordinationContext.of(terms))
        prompt, left = kept[1], self.content_limit.hard_limit - streak.count - 1
        if isinstance(steering, ActionSteering):  # an application's own only corrects
            opening = steering.opening(answer, streak=streak.count if steer else 0)
            prompt = prompt if opening is None else f"{prompt}\n\n{opening}"
            left = left if steering.corrects else 0
        return {
            **agent.request,
            "contract": answer.contract,
            "policy": budget if budget.max_retries <= left else replace(budget, max_retries=left),
            "steering": steering,
            "messages": [{"role": "system", "content": prompt}, *thread],
        }


def processor_of(
    topology: Topology, response_format: str | BaseResponseFormat | None, processor: ValidationProcessor | None
) -> ValidationProcessor:
    """Return the processor that judges a graph's replies: its topology and format are the graph's.

    Raises ContractError for a processor of another topology, or of another format than one that is given beside it.
    """
    if processor is None:
        return ValidationProcessor(topology, response_format)
    if processor.topology.version != topology.version:
        raise ContractError("the processor has another topology; make it with the topology of the graph")
    if response_format is not None:
        given, own = format_of(response_format), processor.response_format
        if type(given) is not type(own) or given.extra != own.extra:
            raise ContractError("the processor reads another format; leave response_format out to use the processor's")
    return processor


def agents_of(topology: Topology, agents: Iterable[ChatAgent], processor: ValidationProcessor) -> dict[str, ChatAgent]:
    """Return the agents of a graph by name.

    Raises ContractError when they are not those of the topology, when one skips to an agent that it has no edge to, and
    when one has a tool that a graph cannot run: without a function, or with an approval, which nobody is asked for.
    """
    given = list(agents)
    named = {agent.name: agent for agent in given}
    if len(named) != len(given) or set(named) != set(topology.agents):
        raise ContractError(f"agents must have each agent of the topology once: {', '.join(topology.agents)}")
    for agent in given:
        targets = topology.allowed_targets(agent.name)
        if agent.skip_to is not None and agent.skip_to not in targets:
            known = ", ".join(targets)
            raise ContractError(f"agent {agent.name!r}: skip_to must be an agent that it has an edge to: {known}")
        for tool in processor.terms(agent).tools.tools:
            if tool.needs_approval:
                message = "needs an approval, which a graph cannot request: let its agent ask the user"
                raise ContractError(f"the tool {tool.name!r} {message}")
            tool.refuse_unrunnable(awaited=True)  # whether a run is awaited is not known yet
    return named


def routes_of(topology: Topology, routes: Routes | None) -> Routes:
    """Return a table of routes with the graph's nodes: its limits, rules and strategies stay.

    A rule may end a run, or lead to an agent's node unless accepted calls, branches that are to be opened or a human
    who is to be asked would be lost; any other choice is a failure of the rule, which the decision records.
    Raises ContractError for a table with nodes of its own.
    """
    given = Routes() if routes is None else routes
    if given.nodes != DEFAULT_NODES:
        raise ContractError("the nodes of a graph are those of its topology; leave nodes= out of routes=")
    agents = tuple(map(node_of, topology.agents))

    def bounded(rule: RouteRule) -> RouteRule:
        def decide(state: Mapping[str, Any]) -> str | None:
            chosen = rule.decide(state)
            if chosen is None or chosen == END:
                return chosen
            if chosen not in agents:
                raise ContractError(f"the rule {rule.name!r} may choose an agent's node_of(…) or {END!r}")
            if state["next_agent"] in (TOOLS, BRANCH) or pending_requests(cast("AgentState", state)):
                raise ContractError(f"the rule {rule.name!r} may not choose an agent before tools, branches or a human")
            return chosen

        return replace(rule, decide=decide)

    strategies = tuple(replace(one, rules=tuple(map(bounded, one.rules))) for one in given.strategies)
    nodes = (*agents, TOOLS, BRANCH, JOIN, HUMAN_INPUT, END)
    return replace(given, nodes=nodes, rules=tuple(map(bounded, given.rules)), strategies=strategies)


def count_of(name: str, value: object, *, least: int) -> int:
    """Return an argument; ContractError unless it is a whole number, ``least`` or more."""
    if is_count(value, least):
        return value
    raise ContractError(f"{name} must be a whole number, {least} or more")
