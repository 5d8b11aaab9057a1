"""The state of a run as LangGraph keeps it: plain JSON, so that any checkpointer can hold it. No decision is made here.

It is the coordination's own state, with what an executor has to remember between two nodes. A value that a model may
choose freely is kept as JSON text: JSON knows numbers and depths that a checkpointer's own encoding does not.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Final, cast

from strictreply.contract._describing import compact
from strictreply.coordination._actions import Branch, BranchType
from strictreply.coordination._coordination_codes import CoordinationCode, StateError
from strictreply.coordination._runs.human_turn import pending_requests
from strictreply.coordination._runs.next_node import RouteReason
from strictreply.coordination._runs.run_state import END, HUMAN_INPUT, AgentState, changed, said
from strictreply.coordination._topology import Topology
from strictreply.values._issues import pointer
from strictreply.values._json import JSON, JSONObject, Message

TOOLS: Final = "tools"
"""The node that runs the calls of a reply."""

BRANCH: Final = "branch"
"""The node that a parallel branch runs in."""

JOIN: Final = "join"
"""The node where parallel branches come together."""

NO_AGENTS: Final = (TOOLS, BRANCH, JOIN, HUMAN_INPUT, END)
"""The nodes and targets that are no agent's."""

_RESERVED = str.maketrans({"%": "%25", "|": "%7C", ":": "%3A"})  # the last two have a meaning in LangGraph's names


class RunStatus(StrEnum):
    """What became of a run, or of one of its branches."""

    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ABORTED = "aborted"


def merge_outcomes(known: dict[str, JSONObject], news: Any) -> Any:
    """Join what branches came to, for LangGraph; no news at all are those of a run that begins, and knows of none.

    What is no mapping stays as it is, for the next node to refuse.
    """
    if not isinstance(news, dict):  # somebody else wrote to the state
        return news
    return {**known, **news} if news else {}


class RunState(AgentState):
    """What a run remembers.

    ``branch`` is the line it is on, and what it was ``asked``; ``threads`` are the turns of each agent, by name.
    ``calling`` is an accepted reply whose tools are still to be run, ``spawned`` the branches that are awaited, each
    with its request as JSON text, and those that wait for them; ``outcomes`` what branches came to, by their ids.
    ``outcome`` is what the run itself came to, its content as JSON text, None while it goes on and when the loop limit
    ended it: read it with :func:`outcome_of`. ``content_streaks`` counts, by agent, replies in a row that were words
    alone.
    """

    branch: JSONObject
    threads: dict[str, list[Message]]
    calling: JSONObject | None
    spawned: JSONObject | None
    outcomes: Annotated[dict[str, JSONObject], merge_outcomes]
    outcome: JSONObject | None
    content_streaks: dict[str, JSONObject]


def node_of(agent: str) -> str:
    """Name the node of an agent: whatever agents are called, none takes the name of another node or of a field."""
    return f"agent {agent.translate(_RESERVED)}"


def agent_at(topology: Topology, target: str | None) -> str | None:
    """Name the agent that a target means: its node, or its name where no node is called so; None for nobody."""
    nodes = {node_of(agent): agent for agent in topology.agents}
    named = target if target in topology.agents and target not in NO_AGENTS else None
    return nodes.get(target or "", named)


def at_node(topology: Topology, state: RunState) -> RunState:
    """Return the state with an agent that is next as its node: an application may have named it by its name."""
    target: object = state.get("next_agent")  # a state from a store may hold anything there
    agent = agent_at(topology, target) if isinstance(target, str) else None
    return state if agent is None else changed(state, next_agent=node_of(agent))


def line(state: AgentState, agent: str, branch: Branch, *, asked: str, spawner: str | None = None) -> RunState:
    """Begin a line of a run with an agent, whatever was on its thread before: every field of it is set.

    ``asked`` says what the line is to do, ``spawner`` is the agent that a parallel branch comes back to.
    """
    unsaid: JSONObject = {"max_loop_count": None, "ending": None, "reply_formats": {}}
    empty: JSONObject = {"threads": {}, "calling": None, "spawned": None, "outcomes": {}, "outcome": None}
    begun = {"branch": begun_branch(branch, asked=asked, spawner=spawner), "content_streaks": {}}
    return cast("RunState", {**unsaid, **state, "next_agent": node_of(agent), **empty, **begun})


def begun_branch(branch: Branch, *, asked: str, spawner: str | None = None) -> JSONObject:
    """Spell the branch that a line begins with; its type is the line's home, when no two agents talk in turns."""
    unsaid: JSONObject = {"meets": [], "opening": None, "leads_to": None}
    return {**written(branch), "home": branch.type.value, "spawner": spawner, "asked": asked, **unsaid}


def exits(state: RunState) -> set[str]:
    """Return the agents at which a branch ends: the one that opened it, and those where it may meet others."""
    branch = state["branch"]
    return {*branch.get("meets", ()), branch["spawner"]} - {None}


def branch_specs(state: RunState) -> list[JSONObject]:
    """Return the branches that a line waits for: those that ended before the others, and those that are open now."""
    spawned = state["spawned"] or {}
    return [*spawned.get("waiting", ()), *spawned.get("branches", ())]


def written(branch: Branch) -> JSONObject:
    """Spell what a run keeps of a branch as JSON."""
    return {"id": branch.id, "type": branch.type.value, "agents": list(branch.agents), "turns": branch.turns}


def branch_of(state: RunState, max_turns: int) -> Branch:
    """Read the branch that a run is on."""
    kept = state["branch"]
    return Branch(kept["id"], BranchType(kept["type"]), tuple(kept["agents"]), kept["turns"], max_turns)


def with_turn(state: RunState, agent: str, content: str) -> RunState:
    """Say something to an agent."""
    return with_turns(state, agent, [{"role": "user", "content": content}])


def with_turns(state: RunState, agent: str, turns: list[Message]) -> RunState:
    """Add turns to the thread of an agent."""
    thread = [*state["threads"].get(agent, []), *turns]
    return changed(state, threads={**state["threads"], agent: thread})


def with_answer(state: RunState, content: JSON) -> RunState:
    """Put what a run came to among the messages, if it came to anything."""
    if content is None:
        return state
    return changed(state, messages=[*state["messages"], said("assistant", as_text(content))])


def as_text(value: JSON) -> str:
    """Give text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else compact(value)


def as_json(value: JSON) -> str:
    """Spell a value that a model chose freely as the text that the state keeps."""
    return json.dumps(value)


def from_json(text: object, at: str) -> JSON:
    """Read such a text; StateError when what stands ``at`` a JSON Pointer is none."""
    try:
        return cast("JSON", json.loads(cast("str", text)))
    except (TypeError, ValueError, RecursionError):
        raise StateError([CoordinationCode.STATE_NOT_JSON.at(at)]) from None


def outcome_of(state: RunState) -> JSONObject:
    """Tell what a run came to: ``agent``, ``status``, ``reason``, ``content`` and ``error``, in words for programs.

    A run that the loop limit ended is ``failed`` with the reason of its last route. ``pending_human_input`` tells that
    a human is still to be asked though the run is over (requirement R13): a run that goes on from its state asks first.
    Of a run that still waits for a human this is not to be asked: LangGraph tells of that by ``__interrupt__``.
    """
    kept = kept_outcome(state)
    return kept | {"content": from_json(kept["content"], "/outcome/content")}


def outcomes_of(state: RunState) -> dict[str, JSONObject]:
    """Tell what the branches of a run came to, by their ids, each as :func:`outcome_of` tells of the run."""
    kept = state["outcomes"].items()
    return {key: one | {"content": from_json(one["content"], pointer("/outcomes", key))} for key, one in kept}


def kept_outcome(state: RunState) -> JSONObject:
    """Tell what a run came to as a state keeps it, the content as JSON text."""
    pending = bool(pending_requests(state)) or state["requires_human_input"]
    return (state["outcome"] or _cut_short(state)) | {"pending_human_input": pending}


def _cut_short(state: RunState) -> JSONObject:
    """Tell of a run that a bound ended before an agent did."""
    history = state.get("routing_history", [])
    reason = history[-1]["reason"] if history else RouteReason.NO_TARGET.value
    return outcome("", RunStatus.FAILED, reason, error="the run ended before an agent finished")


def outcome(
    agent: str, status: RunStatus, reason: str, *, content: JSON = None, error: str | None = None
) -> JSONObject:
    """Spell what a run came to, as a state keeps it."""
    return {"agent": agent, "status": status.value, "reason": reason, "content": as_json(content), "error": error}
