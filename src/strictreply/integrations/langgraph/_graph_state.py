"""The state of a run as LangGraph stores it, and functions that read and write it.

Nothing is decided here. A value that a model can choose freely is stored as JSON text, because JSON
allows numbers and depths that a checkpointer's encoding does not.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Final, cast

from strictreply.coordination import (
    END,
    HUMAN_INPUT,
    AgentState,
    Branch,
    BranchType,
    CoordinationCode,
    StateError,
    Topology,
)
from strictreply.coordination.state import ChatMessage
from strictreply.core import JSON, JSONObject, Message
from strictreply.core.text import compact

TOOLS: Final = "tools"  # the node that runs the calls of a reply
BRANCH: Final = "branch"  # the node in which a parallel branch runs
JOIN: Final = "join"  # the node where parallel branches join
OWN_FIELDS: Final = "own fields"  # a turn's updates of the application's own fields
# LangGraph gives the last two characters a meaning in names
_RESERVED = str.maketrans({"%": "%25", "|": "%7C", ":": "%3A"})


def merge_outcomes(known: dict[str, JSONObject], update: object) -> object:
    """Merge the outcomes of branches, for LangGraph; a new run begins with an empty update."""
    if not isinstance(update, dict):  # a foreign write to the state: the next node refuses it
        return update
    return {**known, **update} if update else {}


class RunState(AgentState):
    """The state of a run.

    An application may subclass it with more fields.
    """

    branch: JSONObject
    """The record of the run or parallel branch, with its request."""
    threads: dict[str, list[Message]]
    """The messages of each agent, by name."""
    calling: JSONObject | None
    """An accepted reply with calls that have not run yet, and the results of those that have."""
    spawned: JSONObject | None
    """The open branches with their requests, and the branches that have already ended."""
    outcomes: Annotated[dict[str, JSONObject], merge_outcomes]
    """The outcomes of branches by id."""
    outcome: JSONObject | None
    """How the run ended; None while it goes on and when the loop limit ended it.

    Read it with :func:`outcome_of`.
    """
    content_streaks: dict[str, JSONObject]
    """Consecutive replies that contain only text, by agent."""
    history: list[JSONObject] | None
    """The texts of all agents, tools and the user; None if ``hand_over`` is ``request``."""
    heard: dict[str, int]
    """How many entries of ``history`` each agent has already got."""


def changed(state: RunState, **fields: object) -> RunState:
    """Return a new state with other values in some fields."""
    return cast("RunState", {**state, **fields})


def node_of(agent: str) -> str:
    """Return the name of an agent's node, which is never the name of another node or a field."""
    return f"agent {agent.translate(_RESERVED)}"


def agent_at(topology: Topology, target: object) -> str | None:
    """Return the agent of a target: a node, or an agent's name if no node has that name.

    Return None if the target is not an agent.
    """
    if not isinstance(target, str):  # a state from a store may have any value there
        return None

    nodes = {node_of(agent): agent for agent in topology.agents}
    free = target in topology.agents and target not in (TOOLS, BRANCH, JOIN, HUMAN_INPUT, END)
    return nodes.get(target, target if free else None)


def at_node(topology: Topology, state: RunState) -> RunState:
    """Return the state with its next agent as a node, if an application set the agent's name."""
    agent = agent_at(topology, state.get("next_agent"))
    return state if agent is None else changed(state, next_agent=node_of(agent))


def state_at_start(
    state: AgentState, agent: str, branch: Branch, **record_fields: JSON
) -> RunState:
    """Return the state in which a run or a branch starts.

    ``record_fields`` go into the record of the branch.
    """
    record: JSONObject = {
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
    start: JSONObject = {
        "next_agent": node_of(agent),
        "branch": branch_record(branch) | known | record_fields,
        "calling": None,
        "spawned": None,
        "outcomes": {},
        "outcome": None,
    }
    return cast("RunState", {**record, **state, **start})


def branch_record(branch: Branch) -> JSONObject:
    """Return what a state stores of a branch's progress."""
    return {
        "id": branch.id,
        "type": branch.type.value,
        "agents": list(branch.agents),
        "turns": branch.turns,
    }


def branch_of(state: RunState, max_turns: int, agent: str | None = None) -> Branch:
    """Return the branch of a state.

    A conversation of two other agents ends when ``agent`` replies.
    """
    stored = state["branch"]
    branch = Branch(
        stored["id"],
        BranchType(stored["type"]),
        tuple(stored["agents"]),
        stored["turns"],
        max_turns,
    )
    if branch.type is BranchType.CONVERSATION and agent not in (None, *branch.agents):
        return replace(branch, type=BranchType(stored["home"]), agents=(), turns=0)
    return branch


def exits(state: RunState) -> set[str]:
    """Return the agents at which a branch ends: its opener, and where it may meet others."""
    branch = state["branch"]
    return {*branch.get("meets", ()), branch["spawner"]} - {None}


def branch_specs(state: RunState) -> list[JSONObject]:
    """Return the branches of a join: the ones that have already ended, and the open ones."""
    spawned = state["spawned"] or {}
    return [*spawned.get("waiting", ()), *spawned.get("branches", ())]


def with_turn(state: RunState, agent: str, *turns: str | Message) -> RunState:
    """Return the state with messages added to an agent's thread; a text is a user message."""
    added = [{"role": "user", "content": turn} if isinstance(turn, str) else turn for turn in turns]
    thread = [*state["threads"].get(agent, []), *added]
    return changed(state, threads={**state["threads"], agent: thread})


def with_message(state: RunState, text: str) -> RunState:
    """Return the state with one more message of the assistant to the user."""
    said: ChatMessage = {
        "role": "assistant",
        "content": text,
        "timestamp": datetime.now(UTC).isoformat(),
    }
    return changed(state, messages=[*state["messages"], said])


def noted(state: RunState, speaker: str, text: str) -> RunState:
    """Return the state with one more entry in its history, if it has one."""
    history = state.get("history")
    if history is None:
        return state
    return changed(state, history=[*history, {"agent": speaker, "text": text}])


def unheard(state: RunState, agent: str) -> tuple[RunState, str]:
    """Return the entries of the history that are new to an agent, and the updated state."""
    history = state.get("history") or []
    heard = state.get("heard", {})
    lines = [
        f"{one['agent']}: {one['text']}"
        for one in history[heard.get(agent, 0) :]
        if one["agent"] != agent
    ]
    updated = changed(state, heard={**heard, agent: len(history)}) if history else state
    return updated, "\n".join(lines)


def after_history(before: str, text: str) -> str:
    """Put the new entries of the history before a request."""
    return f"The conversation so far:\n{before}\n\n{text}" if before else text


def as_text(value: JSON) -> str:
    """Return a text unchanged, and any other value as JSON."""
    return value if isinstance(value, str) else compact(value)


def from_json(text: object, at: str) -> JSON:
    """Read a value that a state stores as JSON text.

    Raises StateError when the text, which stands ``at`` a JSON Pointer, is not JSON.
    """
    try:
        return cast("JSON", json.loads(cast("str", text)))
    except (TypeError, ValueError, RecursionError):
        raise StateError([CoordinationCode.STATE_NOT_JSON.at(at)]) from None
