"""The state of a run as LangGraph stores it, and how parts of it are read and written; nothing is decided here.

It is the coordination's own state with what the graph has to remember between two nodes. A state is plain JSON, so that
any checkpointer can store it. A value that a model chooses freely is stored as JSON text: JSON allows numbers and
depths that a checkpointer's own encoding does not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from enum import StrEnum
from itertools import takewhile
from typing import Annotated, Any, Final, cast

from strictreply.contract._describing import compact
from strictreply.coordination._actions import Branch, BranchType
from strictreply.coordination._coordination_codes import CoordinationCode, StateError
from strictreply.coordination._error_policy import ContentStreak
from strictreply.coordination._runs.next_node import RouteReason
from strictreply.coordination._runs.run_state import END, HUMAN_INPUT, AgentState, changed, pending_requests, said
from strictreply.coordination._topology import Topology
from strictreply.reading._decoding import decode
from strictreply.values._attempts import Attempt
from strictreply.values._issues import pointer
from strictreply.values._json import JSON, JSONObject, Message
from strictreply.values._replies import Invalid
from strictreply.wires._chat import peek

TOOLS: Final = "tools"
"""The node that runs the calls of a reply."""

BRANCH: Final = "branch"
"""The node in which a parallel branch runs."""

JOIN: Final = "join"
"""The node where parallel branches come together."""

NO_AGENTS: Final = (TOOLS, BRANCH, JOIN, HUMAN_INPUT, END)
"""The nodes and targets that belong to no agent."""

_RESERVED = str.maketrans({"%": "%25", "|": "%7C", ":": "%3A"})  # the last two have a meaning in LangGraph's names
_INSTANCE_ID = re.compile(r'"instance_id":"(?:[^"\\]|\\.)*",?')


class RunStatus(StrEnum):
    """How a run, or one of its branches, ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ABORTED = "aborted"


def merge_outcomes(known: dict[str, JSONObject], update: Any) -> Any:
    """Merge the outcomes of branches, for LangGraph; an empty update is that of a new run, which knows of none.

    An update that is not a mapping replaces the outcomes as it is, so that the next node refuses it.
    """
    if not isinstance(update, dict):  # somebody else wrote to the state
        return update
    return {**known, **update} if update else {}


class RunState(AgentState):
    """What a run remembers.

    ``branch`` is the run's or the parallel branch's own record, with what it was ``asked``; ``threads`` are the turns
    of each agent, by name. ``calling`` is an accepted reply whose tools are still to be run, ``spawned`` the branches
    that are awaited, each with its request as JSON text, and those that wait for them; ``outcomes`` are the outcomes of
    branches by id. ``outcome`` is that of the run itself, its content as JSON text, None while the run goes on and when
    the loop limit ended it: read it with :func:`outcome_of`. ``content_streaks`` counts, by agent, consecutive replies
    that were text without an action.
    """

    branch: JSONObject
    threads: dict[str, list[Message]]
    calling: JSONObject | None
    spawned: JSONObject | None
    outcomes: Annotated[dict[str, JSONObject], merge_outcomes]
    outcome: JSONObject | None
    content_streaks: dict[str, JSONObject]


def node_of(agent: str) -> str:
    """Return the name of an agent's node, which is never the name of another node or of a field."""
    return f"agent {agent.translate(_RESERVED)}"


def agent_at(topology: Topology, target: str | None) -> str | None:
    """Return the agent that a target means: its node, or its name where no node has that name; None for no agent."""
    nodes = {node_of(agent): agent for agent in topology.agents}
    named = target if target in topology.agents and target not in NO_AGENTS else None
    return nodes.get(target or "", named)


def at_node(topology: Topology, state: RunState) -> RunState:
    """Return the state with its next agent given as a node: an application may have given the agent's name."""
    target: object = state.get("next_agent")  # a state from a store may hold anything there
    agent = agent_at(topology, target) if isinstance(target, str) else None
    return state if agent is None else changed(state, next_agent=node_of(agent))


def state_at_start(
    state: AgentState, agent: str, branch: Branch, *, asked: str, spawner: str | None = None
) -> RunState:
    """Return the state in which a run or a parallel branch starts with an agent; every field of a run is set anew.

    ``asked`` is what the run or branch is to do, ``spawner`` the agent that a parallel branch comes back to.
    """
    unsaid: JSONObject = {"max_loop_count": None, "ending": None, "reply_formats": {}}
    empty: JSONObject = {"threads": {}, "calling": None, "spawned": None, "outcomes": {}, "outcome": None}
    begun = {"branch": branch_at_start(branch, asked=asked, spawner=spawner), "content_streaks": {}}
    return cast("RunState", {**unsaid, **state, "next_agent": node_of(agent), **empty, **begun})


def branch_at_start(branch: Branch, *, asked: str, spawner: str | None = None) -> JSONObject:
    """Return the record of a branch that starts; ``home`` is its type whenever no two agents talk in turns."""
    unsaid: JSONObject = {"meets": [], "opening": None, "leads_to": None}
    return {**branch_record(branch), "home": branch.type.value, "spawner": spawner, "asked": asked, **unsaid}


def branch_record(branch: Branch) -> JSONObject:
    """Return what a state stores of a branch's progress."""
    return {"id": branch.id, "type": branch.type.value, "agents": list(branch.agents), "turns": branch.turns}


def branch_of(state: RunState, max_turns: int) -> Branch:
    """Read the branch that a state is on."""
    kept = state["branch"]
    return Branch(kept["id"], BranchType(kept["type"]), tuple(kept["agents"]), kept["turns"], max_turns)


def exits(state: RunState) -> set[str]:
    """Return the agents at which a branch ends: the one that opened it, and those where it may meet others."""
    branch = state["branch"]
    return {*branch.get("meets", ()), branch["spawner"]} - {None}


def branch_specs(state: RunState) -> list[JSONObject]:
    """Return the branches that are waited for: those that ended before the others, and those that are open now."""
    spawned = state["spawned"] or {}
    return [*spawned.get("waiting", ()), *spawned.get("branches", ())]


def with_turn(state: RunState, agent: str, content: str) -> RunState:
    """Return the state with a text added to the thread of an agent, as the user's."""
    return with_turns(state, agent, [{"role": "user", "content": content}])


def with_turns(state: RunState, agent: str, turns: list[Message]) -> RunState:
    """Return the state with turns added to the thread of an agent."""
    thread = [*state["threads"].get(agent, []), *turns]
    return changed(state, threads={**state["threads"], agent: thread})


def with_answer(state: RunState, content: JSON) -> RunState:
    """Return the state with the content of a run's outcome among its messages, if there is any."""
    if content is None:
        return state
    return changed(state, messages=[*state["messages"], said("assistant", as_text(content))])


def as_text(value: JSON) -> str:
    """Return text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else compact(value)


def as_json(value: JSON) -> str:
    """Return a value that a model chose freely as the text that a state stores."""
    return json.dumps(value)


def from_json(text: object, at: str) -> JSON:
    """Read such a text; StateError when what stands ``at`` a JSON Pointer is not JSON text."""
    try:
        return cast("JSON", json.loads(cast("str", text)))
    except (TypeError, ValueError, RecursionError):
        raise StateError([CoordinationCode.STATE_NOT_JSON.at(at)]) from None


def outcome_of(state: RunState) -> JSONObject:
    """Return the outcome of a run: ``agent``, ``status``, ``reason``, ``content`` and ``error``, for programs to match.

    A run that the loop limit ended is ``failed`` with the reason of its last route. ``pending_human_input`` is true
    when a human is still to be asked though the run is over (requirement R13): a run that goes on from this state asks
    first. Do not ask for the outcome of a run that waits for a human: LangGraph reports that as ``__interrupt__``.
    """
    kept = stored_outcome(state)
    return kept | {"content": from_json(kept["content"], "/outcome/content")}


def outcomes_of(state: RunState) -> dict[str, JSONObject]:
    """Return the outcomes of a run's branches by their ids, each as :func:`outcome_of` returns that of the run."""
    kept = state["outcomes"].items()
    return {key: one | {"content": from_json(one["content"], pointer("/outcomes", key))} for key, one in kept}


def stored_outcome(state: RunState) -> JSONObject:
    """Return the outcome of a run as a state stores it, the content as JSON text."""
    kept = state["outcome"]
    if not kept:  # a bound ended the run before an agent did
        history = state.get("routing_history", [])
        reason = history[-1]["reason"] if history else RouteReason.NO_TARGET.value
        kept = outcome_record("", RunStatus.FAILED, reason, error="the run ended before an agent finished")
    return kept | {"pending_human_input": bool(pending_requests(state)) or state["requires_human_input"]}


def outcome_record(
    agent: str, status: RunStatus, reason: str, *, content: JSON = None, error: str | None = None
) -> JSONObject:
    """Return an outcome as a state stores it."""
    return {"agent": agent, "status": status.value, "reason": reason, "content": as_json(content), "error": error}


def streak_of(state: RunState, agent: str) -> ContentStreak:
    """Read how many replies of an agent in a row were text without an action."""
    kept = state.get("content_streaks", {}).get(agent)
    return ContentStreak(agent) if kept is None else ContentStreak(agent, kept["count"], kept["snippet"])


def with_streak(state: RunState, agent: str, attempts: Sequence[Attempt]) -> RunState:
    """Count on after an ask: an accepted action, a call and a try at an action end a streak (requirement M78)."""
    streak = before = streak_of(state, agent)
    for attempt in attempts:
        if attempt.failure is None:
            text = _text_alone(attempt)
            streak = streak.after_action() if text is None else streak.after_content(text)
    if streak == before:
        return state
    kept = {"count": streak.count, "snippet": streak.snippet}
    return changed(state, content_streaks={**state.get("content_streaks", {}), agent: kept})


def _text_alone(attempt: Attempt) -> str | None:
    """Return the text of a refused reply that neither calls a tool nor names an action; None for any other."""
    choices = peek(attempt.raw, "choices")
    message = peek(choices[0], "message") if isinstance(choices, list) and choices else None
    content = peek(message, "content")
    acts = attempt.accepted or peek(message, "tool_calls") or not isinstance(content, str) or "next_action" in content
    return None if acts else str(content)


def with_task(state: RunState) -> RunState:
    """Return the state with a hash of the coming work as ``current_task``.

    The loop limits compare these: a loop is the same work again and again, not the same node. Equal calls with equal
    arguments have the same hash, whatever their ids and spelling, and so have equal requests to an agent, and equal
    sets of branches (requirement R39). An agent that is given results works on them: a poll whose result changes is no
    loop.
    """
    work = _coming_work(state)
    if work is None:
        return state
    spelt = json.dumps(work, sort_keys=True)
    return changed(state, current_task=hashlib.blake2b(spelt.encode(), digest_size=8).hexdigest())


def _coming_work(state: RunState) -> JSON:
    """Return what is asked of the next node: calls, branches, or what an agent was told last; None for nothing."""
    target, calling, spawned = state["next_agent"], state["calling"], state["spawned"]
    if target == TOOLS and calling is not None:
        return _work_in(calling["turn"])
    if target == BRANCH and spawned is not None:
        return [[one["agent"], from_json(one["request"], "/spawned/branches")] for one in spawned["branches"]]
    thread = next((turns for name, turns in state["threads"].items() if node_of(name) == target), [])
    results = [*takewhile(lambda turn: turn["role"] == "tool", reversed(thread))]
    last = thread[len(thread) - len(results) - 1 :]
    return [_work_in(turn) for turn in last] or None


def _work_in(turn: Message) -> JSON:
    """Return the calls of a turn without their ids, or its text without those of branches, new in every round."""
    calls = cast("list[JSONObject]", turn.get("tool_calls") or [])
    if calls:
        return [_call_read(call["function"]) for call in calls]
    content = turn.get("content")
    return _INSTANCE_ID.sub("", content) if isinstance(content, str) else cast("JSON", content)


def _call_read(function: JSONObject) -> JSON:
    """Return a call's tool and its decoded arguments, so that their spelling does not matter."""
    arguments = decode(function["arguments"])
    return [function["name"], function["arguments"] if isinstance(arguments, Invalid) else arguments]
