"""The state of a run as LangGraph stores it: how it is read, written and checked.

Nothing is decided here. A value that a model chooses freely is stored as JSON text: JSON allows
numbers and depths that a checkpointer's own encoding does not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile
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
    Invalid,
    Issue,
    RetryPolicy,
    Steering,
    StrictClient,
)
from strictreply.contract._channels import compact
from strictreply.coordination import (
    ActionSteering,
    ContentLoopGuard,
    ContentStreak,
    HumanKind,
    RunMetrics,
    Topology,
)
from strictreply.coordination._actions import (
    ActionType,
    Branch,
    BranchType,
    CoordinationCode,
    Permitted,
    StateError,
)
from strictreply.coordination._next_node import RouteReason
from strictreply.coordination._permissions import Declared, not_allowed, refusal_of
from strictreply.coordination._run_parts import (
    COUNT,
    NAME,
    OBJECT,
    TEXT,
    StateSchema,
    Words,
    optional,
    record,
)
from strictreply.coordination._run_state import (
    END,
    HUMAN_INPUT,
    AgentState,
    changed,
    pending_requests,
)
from strictreply.coordination.formats import AgentContext, CoordinationContext, SystemPromptBuilder
from strictreply.coordination.routing import Router
from strictreply.coordination.validation import ActionAnswer, ValidationProcessor
from strictreply.integrations.langgraph._thread_thoughts import with_sendable_thoughts
from strictreply.reading._decoding import decode
from strictreply.retry._failures import Failure
from strictreply.retry._policy import Again, End, NextStep
from strictreply.values._issues import pointer
from strictreply.values._limits import JSON, JSONObject, Message
from strictreply.values._mistakes import IN_AGENTS, helpful
from strictreply.wires import wire_named
from strictreply.wires._members import peek

TOOLS: Final = "tools"  # the node that runs the calls of a reply
BRANCH: Final = "branch"  # the node in which a parallel branch runs
JOIN: Final = "join"  # the node where parallel branches come together
OWN_FIELDS: Final = "own fields"  # what a turn writes into the fields that an application added
# the field that a node needs, by the node's name
_PREPARED: Final = {TOOLS: "calling", BRANCH: "spawned", JOIN: "spawned"}
# the last two have a meaning in LangGraph's names
_RESERVED = str.maketrans({"%": "%25", "|": "%7C", ":": "%3A"})
_SET_BY_THE_RUN: Final = frozenset(
    {"messages", "contract", "policy", "steering", "tools", "n", "stream"}
)
_INSTANCE_ID = re.compile(r'"instance_id":"(?:[^"\\]|\\.)*",?')


HandOver: TypeAlias = Literal["request", "history"]
"""What an agent is told by another: its request, or all that was said before as well."""


class RunStatus(StrEnum):
    """How a run, or one of its branches, ended, or that it has not ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ABORTED = "aborted"
    WAITING = "waiting"  # for a person: resume it with an answer
    RESUMABLE = "resumable"  # it was stopped between two steps: invoke(None, config) goes on


_ENDED: Final = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.SKIPPED, RunStatus.ABORTED)
UNFINISHED: Final = "unfinished"  # the reason of a run that was stopped between two steps


def merge_outcomes(known: dict[str, JSONObject], update: Any) -> Any:
    """Merge the outcomes of branches, for LangGraph; a new run begins with an empty update."""
    if not isinstance(update, dict):  # somebody else wrote to the state: the next node refuses it
        return update
    return {**known, **update} if update else {}


class RunState(AgentState):
    """What a run remembers.

    ``branch`` is the record of the run or parallel branch, with what it was ``asked``; ``threads``
    are the turns of each agent, by name. ``calling`` is an accepted reply whose tools are still to
    be run, with the results of those that were; ``spawned`` the branches that are awaited, with
    their requests, and those that wait for them; ``outcomes`` are those of branches by id. Read
    ``outcome``, None while the run goes on and when the loop limit ended it, with
    :func:`outcome_of`. ``content_streaks`` counts, by agent, consecutive replies of text without an
    action. ``history`` is what everybody said, None where agents are only told requests, and
    ``heard`` how much of it each agent was told. An application may subclass it with more fields.
    """

    branch: JSONObject
    threads: dict[str, list[Message]]
    calling: JSONObject | None
    spawned: JSONObject | None
    outcomes: Annotated[dict[str, JSONObject], merge_outcomes]
    outcome: JSONObject | None
    content_streaks: dict[str, JSONObject]
    history: list[JSONObject] | None
    heard: dict[str, int]


def node_of(agent: str) -> str:
    """Return the name of an agent's node, which is never the name of another node or a field."""
    return f"agent {agent.translate(_RESERVED)}"


def agent_at(topology: Topology, target: object) -> str | None:
    """Return the agent that a target means: its node, or its name where no node has that name.

    None when the target means no agent.
    """
    if not isinstance(target, str):  # a state from a store may hold anything there
        return None

    nodes = {node_of(agent): agent for agent in topology.agents}
    free = target in topology.agents and target not in (TOOLS, BRANCH, JOIN, HUMAN_INPUT, END)
    return nodes.get(target, target if free else None)


def at_node(topology: Topology, state: RunState) -> RunState:
    """Return the state with its next agent given as a node.

    An application may have given the agent's name.
    """
    agent = agent_at(topology, state.get("next_agent"))
    return state if agent is None else changed(state, next_agent=node_of(agent))


def state_at_start(
    state: AgentState, agent: str, branch: Branch, **record_fields: JSON
) -> RunState:
    """Return the state in which a run or a branch starts.

    ``record_fields`` go into the record of the branch.
    """
    kept: JSONObject = {
        "max_loop_count": None,
        "ending": None,
        "reply_formats": {},
        "threads": {},
        "content_streaks": {},
        "history": None,
        "heard": {},
    }
    known: JSONObject = {
        "spawner": None,
        "meets": [],
        "opening": None,
        "leads_to": None,
        "home": branch.type.value,  # its type whenever no two agents talk in turns
    }
    begun: JSONObject = {
        "next_agent": node_of(agent),
        "branch": branch_record(branch) | known | record_fields,
        "calling": None,
        "spawned": None,
        "outcomes": {},
        "outcome": None,
    }
    return cast("RunState", {**kept, **state, **begun})


def branch_record(branch: Branch) -> JSONObject:
    """Return what a state stores of a branch's progress."""
    return {
        "id": branch.id,
        "type": branch.type.value,
        "agents": list(branch.agents),
        "turns": branch.turns,
    }


def branch_of(state: RunState, max_turns: int, agent: str | None = None) -> Branch:
    """Read the branch that a state is on.

    A conversation of two other agents is over when ``agent`` replies in it.
    """
    kept = state["branch"]
    branch = Branch(
        kept["id"], BranchType(kept["type"]), tuple(kept["agents"]), kept["turns"], max_turns
    )
    if branch.type is BranchType.CONVERSATION and agent not in (None, *branch.agents):
        return replace(branch, type=BranchType(kept["home"]), agents=(), turns=0)
    return branch


def exits(state: RunState) -> set[str]:
    """Return the agents at which a branch ends.

    They are the one that opened it, and those where it may meet others.
    """
    branch = state["branch"]
    return {*branch.get("meets", ()), branch["spawner"]} - {None}


def branch_specs(state: RunState) -> list[JSONObject]:
    """Return the branches that are waited for.

    They are those that ended before the others, and those that are open now.
    """
    spawned = state["spawned"] or {}
    return [*spawned.get("waiting", ()), *spawned.get("branches", ())]


def with_turn(state: RunState, agent: str, *turns: str | Message) -> RunState:
    """Return the state with turns added to the thread of an agent; a text is the user's turn."""
    added = [{"role": "user", "content": turn} if isinstance(turn, str) else turn for turn in turns]
    thread = [*state["threads"].get(agent, []), *added]
    return changed(state, threads={**state["threads"], agent: thread})


def noted(state: RunState, speaker: str, text: str) -> RunState:
    """Return the state with what somebody said in its history, where it has one."""
    history = state.get("history")
    if history is None:
        return state
    return changed(state, history=[*history, {"agent": speaker, "text": text}])


def unheard(state: RunState, agent: str) -> tuple[RunState, str]:
    """Return what others said that an agent was not told, and the state in which it was."""
    history = state.get("history") or []
    heard = state.get("heard", {})
    lines = [
        f"{one['agent']}: {one['text']}"
        for one in history[heard.get(agent, 0) :]
        if one["agent"] != agent
    ]
    told = changed(state, heard={**heard, agent: len(history)}) if history else state
    return told, "\n".join(lines)


def after_history(before: str, text: str) -> str:
    """Put what an agent was not told before in front of what it is told now."""
    return f"The conversation so far:\n{before}\n\n{text}" if before else text


def as_text(value: JSON) -> str:
    """Return text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else compact(value)


def from_json(text: object, at: str) -> JSON:
    """Read a value that a state stores as JSON text.

    Raises StateError when the text, which stands ``at`` a JSON Pointer, is not JSON.
    """
    try:
        return cast("JSON", json.loads(cast("str", text)))
    except (TypeError, ValueError, RecursionError):
        raise StateError([CoordinationCode.STATE_NOT_JSON.at(at)]) from None


def outcome_of(state: object) -> JSONObject:
    """Return the outcome of a run, for programs to match.

    ``state`` is what ``invoke`` returned, or a snapshot of ``get_state``. The members are
    ``agent``, ``status``, ``reason``, ``content`` and ``error``. A run that the loop limit ended is
    ``failed`` with the reason of its last route. A run that waits for a person is ``waiting``, with
    the kind of the question as its reason (``interrupt`` for a tool's own), and one that was
    stopped between two steps ``resumable``; both name the agent that is next. With
    ``pending_human_input`` a run that goes on from this state asks a human first (R13).
    """
    given: Any = state
    is_snapshot = not isinstance(state, Mapping)
    values: RunState = given.values if is_snapshot else given
    interrupts = given.interrupts if is_snapshot else given.get("__interrupt__", ())
    if interrupts:
        return _waiting(values, interrupts[0].value)

    route = next(iter(reversed(values.get("routing_history", []))), None)
    is_over = values["outcome"] or (route is not None and route["to"] == END)
    if not is_over and values["next_agent"] == HUMAN_INPUT:
        return _waiting(values, {"kind": pending_requests(values)[0].kind.value})
    if not is_over:
        waits = bool(pending_requests(values)) or values["requires_human_input"]
        return _unfinished(values, RunStatus.RESUMABLE, UNFINISHED, waits=waits)

    kept = stored_outcome(values)
    return kept | {"content": from_json(kept["content"], "/outcome/content")}


def _waiting(state: RunState, asked: object) -> JSONObject:
    kind = peek(asked, "kind")
    return _unfinished(state, RunStatus.WAITING, str(kind or "interrupt"), waits=True)


def _unfinished(state: RunState, status: RunStatus, reason: str, *, waits: bool) -> JSONObject:
    """Return the outcome of a run that has not ended, with the agent that is next."""
    target = state["next_agent"]
    agent = ""
    if target == TOOLS:
        agent = (state["calling"] or {}).get("agent", "")
    elif target in (BRANCH, JOIN):
        agent = (state["spawned"] or {}).get("agent", "")
    else:
        if target == HUMAN_INPUT:
            waiting = pending_requests(state)
            target = waiting[0].tell_to or waiting[0].resume_to if waiting else None
        agent = _agent_named(target or "")

    outcome = outcome_record(agent, status, reason)
    return outcome | {"content": None, "pending_human_input": waits}


def _agent_named(node: str) -> str:
    """Return the agent of a node, without its topology."""
    name = node.removeprefix("agent ")
    for spelt, character in (("%7C", "|"), ("%3A", ":"), ("%25", "%")):
        name = name.replace(spelt, character)
    return name


def outcomes_of(state: RunState) -> dict[str, JSONObject]:
    """Return the outcomes of a run's branches by their ids.

    Each is as :func:`outcome_of` returns that of the run.
    """
    outcomes: dict[str, JSONObject] = {}
    for key, one in state["outcomes"].items():
        content = from_json(one["content"], pointer("/outcomes", key))
        outcomes[key] = one | {"content": content}
    return outcomes


def stored_outcome(state: RunState) -> JSONObject:
    """Return the outcome of a run as a state stores it, the content as JSON text."""
    kept = state["outcome"]
    if not kept:  # a bound ended the run before an agent did
        history = state.get("routing_history", [])
        reason = history[-1]["reason"] if history else RouteReason.NO_TARGET.value
        words = "the run ended before an agent finished"
        kept = outcome_record("", RunStatus.FAILED, reason, error=words)

    pending = bool(pending_requests(state)) or state["requires_human_input"]
    return kept | {"pending_human_input": pending}


def outcome_record(
    agent: str, status: RunStatus, reason: str, *, content: JSON = None, error: str | None = None
) -> JSONObject:
    """Return an outcome as a state stores it."""
    return {
        "agent": agent,
        "status": status.value,
        "reason": reason,
        "content": json.dumps(content),
        "error": error,
    }


def streak_of(state: RunState, agent: str) -> ContentStreak:
    """Read how many replies of an agent in a row were text without an action."""
    kept = state.get("content_streaks", {}).get(agent, {"count": 0, "snippet": ""})
    return ContentStreak(agent, kept["count"], kept["snippet"])


def with_streak(state: RunState, agent: str, attempts: Sequence[Attempt]) -> RunState:
    """Count an ask's attempts into the streak of an agent."""
    before = streak_of(state, agent)
    streak = streak_after(before, attempts)
    if streak == before:
        return state

    kept: JSONObject = {"count": streak.count, "snippet": streak.snippet}
    return changed(state, content_streaks={**state.get("content_streaks", {}), agent: kept})


def streak_after(streak: ContentStreak, attempts: Sequence[Attempt]) -> ContentStreak:
    """Return the streak of an agent after an ask's attempts.

    An accepted action, a call and a try at an action end a streak (requirement M78).
    """
    for attempt in attempts:
        if attempt.failure is None:
            message = wire_named(attempt.api).message_in(attempt.raw)
            content = peek(message, "content")
            talks = isinstance(content, str) and "next_action" not in content
            acts = attempt.accepted or peek(message, "tool_calls") or not talks
            streak = streak.after_action() if acts else streak.after_content(str(content))

    return streak


def with_task(state: RunState) -> RunState:
    """Hash what comes next as ``current_task``, for the loop limits (R39).

    It is the coming calls or branches, or an agent's last turns.
    """
    target = state["next_agent"]
    calling = state["calling"]
    spawned = state["spawned"]
    work: JSON

    if target == TOOLS and calling is not None:
        work = _work_in(calling["turn"])
    elif target == BRANCH and spawned is not None:
        work = [
            [one["agent"], from_json(one["request"], "/spawned/branches")]
            for one in spawned["branches"]
        ]
    else:
        threads = state["threads"].items()
        thread = next((turns for name, turns in threads if node_of(name) == target), [])
        # results count: a poll whose result changes is no loop
        results = [*takewhile(lambda turn: turn["role"] == "tool", reversed(thread))]
        if not (last := thread[len(thread) - len(results) - 1 :]):
            return state

        work = [_work_in(turn) for turn in last]

    spelt = json.dumps(work, sort_keys=True)
    return changed(state, current_task=hashlib.blake2b(spelt.encode(), digest_size=8).hexdigest())


def _work_in(turn: Message) -> JSON:
    work: list[JSON] = []
    for call in turn.get("tool_calls") or ():
        name = call["function"]["name"]
        text = call["function"]["arguments"]
        arguments = decode(text)  # so that their spelling does not matter
        work.append([name, text if isinstance(arguments, Invalid) else arguments])

    if work:
        return work

    content = turn.get("content")
    return _INSTANCE_ID.sub("", content) if isinstance(content, str) else cast("JSON", content)


@lru_cache(maxsize=64)
def _schemas(agents: tuple[str, ...]) -> tuple[StateSchema, StateSchema]:
    agent: JSONObject = {"type": "string", "enum": [*agents]}
    agent_or_none: JSONObject = {"type": ["string", "null"], "enum": [*agents, None]}
    somebody: JSONObject = {"type": "array", "items": agent}
    kind: JSONObject = {"enum": [kind.value for kind in BranchType]}
    status: JSONObject = {"enum": [status.value for status in _ENDED]}
    outcome = {
        "agent": TEXT,
        "status": status,
        "reason": TEXT,
        "content": TEXT,
        "error": optional(TEXT),
    }

    spec = {"id": NAME, "agent": agent, "instance_id": TEXT, "request": TEXT, "met": somebody}
    specs: JSONObject = {"type": "array", "items": record(spec, optional=["met"])}
    spawned = {"agent": agent, "branches": specs, "waiting": specs}

    progress = {
        "id": NAME,
        "type": kind,
        "agents": {"type": "array", "items": TEXT},
        "turns": COUNT,
        "home": kind,
    }
    later = {"meets": somebody, "opening": optional(TEXT), "leads_to": agent_or_none}

    turns: JSONObject = {"type": "array", "items": record({"role": TEXT})}
    streak = record({"count": COUNT, "snippet": TEXT})
    threads = record(dict.fromkeys(agents, turns), optional=agents)
    streaks = record(dict.fromkeys(agents, streak), optional=agents)

    done = record({"tool_call_id": TEXT, "name": TEXT, "execution_ms": COUNT, "result_json": TEXT})
    run_calls = {"done": {"type": "array", "items": done}, "goto": agent}
    calling = record({"agent": agent, "turn": OBJECT} | run_calls, optional=run_calls)
    opened = record(spawned, optional=["waiting"])
    branch = record(progress | {"spawner": agent_or_none, "asked": TEXT} | later, optional=later)
    fields = {
        "branch": branch,
        "threads": threads,
        "calling": optional(calling),
        "spawned": optional(opened),
    }
    fields |= {
        "outcomes": OBJECT,
        "outcome": optional(record(outcome)),
        "loop_count": COUNT,
        "reply_formats": OBJECT,
    }
    fields |= {"messages": {"type": "array", "items": OBJECT}, "content_streaks": streaks}
    said = {"type": "array", "items": record({"agent": TEXT, "text": TEXT})}
    counts = record(dict.fromkeys(agents, COUNT), optional=agents)
    fields |= {"history": optional(said), "heard": counts}

    came_to = outcome | {"spent": COUNT, "reply_formats": OBJECT, "leads_to": agent_or_none}
    run = record(fields, optional=["content_streaks", "reply_formats", "history", "heard"])
    return StateSchema(run), StateSchema(record(came_to, optional=["leads_to"]))


def run_issues(topology: Topology, state: RunState) -> Iterator[Issue]:
    """Yield what is missing, mistyped, or names an agent that the topology does not have."""
    yield from _schemas(topology.agents)[0].issues(state)
    needed = _PREPARED.get(str(state.get("next_agent")))
    if needed is not None and not state.get(needed):
        yield CoordinationCode.STATE_WRONG_TYPE.at(
            f"/{needed}", expected="an object, because the next agent needs one"
        )


def spawn_issues(topology: Topology, spawned: JSONObject, allowed: Permitted) -> Iterator[Issue]:
    """Yield what the agents which lead to branches may not do (requirements M107, M118)."""
    opened = any("met" not in spec for spec in spawned["branches"])
    if opened and ActionType.PARALLEL_INVOKE not in allowed.actions:
        yield refusal_of(ActionType.PARALLEL_INVOKE, allowed)

    for index, spec in enumerate(spawned["branches"]):
        if "met" in spec:
            leading = [topology.allowed_targets(agent) for agent in spec["met"]]
        else:
            leading = [allowed.agents]

        at = pointer("/spawned/branches", index, "agent")
        for agents in leading:
            if spec["agent"] not in agents:
                yield not_allowed(spec["agent"], at, agents)


def join_issues(
    topology: Topology, state: RunState, specs: Iterable[JSONObject]
) -> Iterator[Issue]:
    """Yield what is missing, mistyped or not permitted in the outcomes of branches."""
    for spec in specs:
        kept: Any = state["outcomes"].get(spec["id"])
        at = pointer("/outcomes", spec["id"])
        if issues := _schemas(topology.agents)[1].issues(kept, at):
            yield from issues
        elif (target := kept.get("leads_to")) is not None:
            known = kept["agent"] in topology.agents
            agents = topology.allowed_targets(kept["agent"]) if known else ()
            if target not in agents:
                yield not_allowed(target, f"{at}/leads_to", agents)


@helpful(IN_AGENTS)
@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAgent:
    """An agent that a chat-completions API answers for.

    ``client`` is what :func:`strictreply.wrap` returns, sync or async; ``request`` holds keywords
    of ``chat.completions.create``, as ``model``. ``goal`` and ``instruction`` stand in its system
    prompt. ``tools`` are anything that declares a tool, each with a function, which is run; None
    takes what the processor's ``tools=`` has for this agent, an empty list means no tools. ``asks``
    is the kind of question that its ``ask_user`` puts. ``skip_to`` is the agent that follows when
    the user skips this one after an error; with None the branch ends.

    Raises ContractError when ``client`` is not wrapped, or ``request`` holds what the run itself
    sets (messages, contract, policy, steering, tools, n, stream) or a ``response_format`` other
    than ``text`` and ``json_object``.
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
            raise ContractError(
                f"agent {self.name!r} needs a wrapped client: client=strictreply.wrap(…)"
            )

        if taken := sorted(_SET_BY_THE_RUN & set(self.request)):
            raise ContractError(
                f"agent {self.name!r}: leave {', '.join(taken)} out of request=; the run sets it"
            )

        wanted = self.request.get("response_format")
        if wanted is not None and peek(wanted, "type") not in ("text", "json_object"):
            remedy = 'leave response_format out of request=, or use one of type "json_object"'
            raise ContractError(
                f"agent {self.name!r}: the schema of a reply is that of its actions; {remedy}"
            )


def _is_reduced(annotation: Any) -> bool:
    """Return whether a field has a reducer, as LangGraph reads its annotation."""
    inner = next(iter(get_args(annotation)), None)
    if get_origin(annotation) in (Required, NotRequired):
        return _is_reduced(inner)
    return get_origin(annotation) is Annotated and callable(annotation.__metadata__[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingBudget(RetryPolicy):
    """A policy under which an ask ends, too, when ``most`` replies in a row were text alone.

    ``streak`` counts the replies of earlier asks.
    """

    streak: ContentStreak
    most: int

    @classmethod
    def of(cls, policy: RetryPolicy, streak: ContentStreak, most: int) -> ActingBudget:
        """Bound a policy."""
        given = {member.name: getattr(policy, member.name) for member in fields(RetryPolicy)}
        return cls(**given, streak=streak, most=most)

    def next_step(
        self,
        attempts: tuple[Attempt, ...],
        spent: float,
        failure: Failure | None = None,
        **how: Any,
    ) -> NextStep:
        """Decide what follows the last attempt, as the policy itself does before the limit."""
        step = RetryPolicy.next_step(self, attempts, spent, failure, **how)
        is_over = streak_after(self.streak, attempts).count >= self.most
        return End("rejected", "retries") if is_over and isinstance(step, Again) else step


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSettings:
    """What the nodes of one graph share: the agents, and what decides on their replies."""

    agents: Mapping[str, ChatAgent]
    processor: ValidationProcessor
    router: Router
    prompts: SystemPromptBuilder
    steering: Steering
    max_turns: int
    words: Words | None
    metrics: RunMetrics
    content_limit: ContentLoopGuard
    state_schema: type = RunState
    hand_over: HandOver = "request"
    _prompts: dict[Permitted, tuple[object, str]] = field(
        init=False, repr=False, default_factory=dict
    )

    @property
    def topology(self) -> Topology:
        """The topology of the graph."""
        return self.processor.topology

    @property
    def own_fields(self) -> dict[str, bool]:
        """The fields that an application added to the state, each with whether it has a reducer."""
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
        """Return the keywords of one ask.

        Its budget is the graph's, else the client's; it ends at the limit on text alone, too.
        """
        terms = answer.terms
        steering = self.steering

        kept = self._prompts.get(terms.permitted)
        if kept is None or kept[0] is not terms.tools:  # a prompt is made once, not on every ask
            who = AgentContext(agent.name, agent.goal, agent.instruction)
            kept = (terms.tools, self.prompts.build(who, CoordinationContext.of(terms)))
            self._prompts[terms.permitted] = kept

        prompt = kept[1]
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
            "messages": [
                {"role": "system", "content": prompt},
                *with_sendable_thoughts(thread, prompt, answer.contract),
            ],
        }
