"""The shared settings of a graph's nodes: its agents, and the requests of each.

A graph is built once and runs many conversations, so nothing here changes while it runs. Three
parts of a request depend on the conversation: the prompt depends on what the agent may do now, the
budget on its consecutive replies without an action, and the messages are its thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from strictreply import (
    AsyncStrictClient,
    Attempt,
    ContractError,
    RetryPolicy,
    Steering,
    StrictClient,
)
from strictreply.coordination import (
    ActionSteering,
    ContentLoopGuard,
    ContentStreak,
    HumanDecision,
    HumanKind,
    Router,
    RunMetrics,
    Topology,
)
from strictreply.coordination.actions import Permitted
from strictreply.coordination.formats import AgentContext, CoordinationContext, SystemPromptBuilder
from strictreply.coordination.validation import ActionAnswer, ValidationProcessor
from strictreply.core import Failure, JSONObject, Message, Wire
from strictreply.core.arguments import IN_AGENTS, helpful
from strictreply.core.calls import Again, End, NextStep
from strictreply.core.forms import peek
from strictreply.integrations.langgraph._graph_state import RunState
from strictreply.integrations.langgraph._run_loops import streak_after
from strictreply.integrations.langgraph._thread_turns import sent_turns
from strictreply.wires import wire_named

_SET_BY_THE_RUN: Final = frozenset(
    {"messages", "contract", "policy", "steering", "tools", "n", "stream"}
)


HandOver: TypeAlias = Literal["request", "history"]
"""What an agent gets at a hand-over: only the request, or also everything new before it."""


@helpful(IN_AGENTS)
@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAgent:
    """An agent whose replies come from a model, through a wrapped client of any API.

    Raises ContractError when ``client`` is not wrapped, when ``request`` has a keyword that the run
    itself sets (messages, contract, policy, steering, tools, n, stream), or a ``response_format``
    other than ``text`` and ``json_object``.
    """

    name: str
    """Name of the agent."""
    client: StrictClient | AsyncStrictClient = field(repr=False)
    """A sync or async client from :func:`strictreply.wrap`."""
    request: Mapping[str, Any] = field(repr=False)
    """Keywords of each request, such as ``model``."""
    goal: str = ""
    """What the agent is for, in its system prompt."""
    instruction: str = ""
    """How the agent should work, in its system prompt."""
    tools: Iterable[object] | Mapping[str, object] | None = None
    """Its tools, in any form that declares a tool; each must have a function.

    None means the tools that the processor's ``tools=`` has for this agent; an empty list means no
    tools.
    """
    asks: HumanKind = HumanKind.GENERAL
    """The kind of the questions of its ``ask_user``."""
    skip_to: str | None = None
    """The agent that follows if the user skips this one after an error.

    None ends the branch.
    """

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.client), StrictClient | AsyncStrictClient):
            raise ContractError(
                f"agent {self.name!r} needs a wrapped client: client=strictreply.wrap(…)"
            )

        taken = sorted({*_SET_BY_THE_RUN, self.wire.replay.keyword} & set(self.request))
        if taken:
            raise ContractError(
                f"agent {self.name!r}: leave {', '.join(taken)} out of request=; the run sets it"
            )

        wanted = self.request.get("response_format")
        if wanted is not None and peek(wanted, "type") not in ("text", "json_object"):
            remedy = 'leave response_format out of request=, or use the type "json_object"'
            raise ContractError(
                f"agent {self.name!r}: its actions determine the schema of a reply; {remedy}"
            )

    @property
    def wire(self) -> Wire:
        """The API of its requests."""
        return wire_named(self.request.get("api") or self.client.api)


def _is_reduced(annotation: Any) -> bool:
    """Return whether a field has a reducer, as LangGraph reads its annotation."""
    inner = next(iter(get_args(annotation)), None)
    if get_origin(annotation) in (Required, NotRequired):
        return _is_reduced(inner)
    return get_origin(annotation) is Annotated and callable(annotation.__metadata__[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingBudget(RetryPolicy):
    """A policy under which a call also ends after ``most`` consecutive replies with only text.

    ``streak`` counts the replies of earlier calls.
    """

    streak: ContentStreak
    most: int

    @classmethod
    def of(cls, policy: RetryPolicy, streak: ContentStreak, most: int) -> ActingBudget:
        """Add the limit to a policy."""
        given = {member.name: getattr(policy, member.name) for member in fields(RetryPolicy)}
        return cls(**given, streak=streak, most=most)

    def next_step(
        self,
        attempts: tuple[Attempt, ...],
        spent: float,
        failure: Failure | None = None,
        **how: Any,
    ) -> NextStep:
        """Decide what follows the last attempt; up to the limit as the policy itself does."""
        step = RetryPolicy.next_step(self, attempts, spent, failure, **how)
        is_over = streak_after(self.streak, attempts).count >= self.most
        return End("rejected", "retries") if is_over and isinstance(step, Again) else step


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSettings:
    """The shared settings of a graph's nodes: the agents, and the judges of their replies."""

    agents: Mapping[str, ChatAgent]
    """The agents by name."""
    processor: ValidationProcessor
    """Judges the replies."""
    router: Router
    """Decides what follows a reply."""
    prompts: SystemPromptBuilder
    """Builds the system prompts."""
    steering: Steering
    """Writes the corrections."""
    max_turns: int
    """Most turns of a conversation."""
    words: Mapping[str, HumanDecision] | None
    """The decisions of further answers of a human; None for no further answers."""
    metrics: RunMetrics
    """Counts routes and activities."""
    content_limit: ContentLoopGuard
    """The limits on consecutive replies that contain only text."""
    state_schema: type = RunState
    """The type of the graph's state."""
    hand_over: HandOver = "request"
    """What an agent gets at a hand-over: only the request, or also everything new before it."""
    _prompts: dict[Permitted, tuple[object, str]] = field(
        init=False, repr=False, default_factory=dict
    )
    """The system prompts built so far, by the permissions."""

    @property
    def topology(self) -> Topology:
        """The topology of the graph."""
        return self.processor.topology

    @property
    def own_fields(self) -> dict[str, bool]:
        """The application's own fields of the state, each with whether it has a reducer."""
        ours = get_type_hints(RunState)
        hints = get_type_hints(self.state_schema, include_extras=True)
        return {name: _is_reduced(hints[name]) for name in hints if name not in ours}

    def request(
        self,
        agent: ChatAgent,
        answer: ActionAnswer,
        streak: ContentStreak,
        thread: list[Message],
        *,
        steer: bool,
    ) -> JSONObject:
        """Return the keywords of one call.

        Its budget is the graph's, or else the client's. The call also ends at the limit on replies
        that contain only text.
        """
        terms = answer.terms
        steering = self.steering

        known_prompt = self._prompts.get(terms.permitted)
        if (
            known_prompt is None or known_prompt[0] is not terms.tools
        ):  # a prompt is made once, not on every ask
            who = AgentContext(agent.name, agent.goal, agent.instruction)
            known_prompt = (terms.tools, self.prompts.build(who, CoordinationContext.of(terms)))
            self._prompts[terms.permitted] = known_prompt

        prompt = known_prompt[1]
        budget = self.router.policy.budget_of(agent.client.policy)

        if isinstance(steering, ActionSteering):  # an application's own only corrects
            opening = steering.opening(answer, streak=streak.count if steer else 0)
            if opening is not None:
                prompt = f"{prompt}\n\n{opening}"
            if not steering.corrects:
                budget = replace(budget, max_retries=0)

        return {
            **agent.request,
            "contract": answer.contract,
            "policy": ActingBudget.of(budget, streak, self.content_limit.hard_limit),
            "steering": steering,
            agent.wire.replay.keyword: sent_turns(thread, agent.wire, prompt, answer.contract),
        }
