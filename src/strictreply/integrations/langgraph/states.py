"""The state of a run as LangGraph keeps it: plain JSON, so that any checkpointer can hold it. No decision is made here.

It is the coordination's own state, with what an executor has to remember between two nodes.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, cast

from strictreply.coordination.actions.branches import Branch, BranchType
from strictreply.coordination.runs.human_turn import pending_requests
from strictreply.coordination.runs.next_node import RouteReason
from strictreply.coordination.runs.states import AgentState, changed, create_initial_state, said, start_run
from strictreply.coordination.topology.graph import Topology
from strictreply.describing import compact
from strictreply.errors import ContractError
from strictreply.typing import JSON, JSONObject, Message

TOOLS: Final = "tools"
"""The node that runs the calls of a reply."""

BRANCH: Final = "branch"
"""The node that a parallel branch runs in."""

JOIN: Final = "join"
"""The node where parallel branches come together."""

_RESERVED = str.maketrans({"%": "%25", "|": "%7C", ":": "%3A"})  # the last two have a meaning in LangGraph's names


class RunStatus(StrEnum):
    """What became of a run, or of one of its branches."""

    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ABORTED = "aborted"


class RunState(AgentState):
    """What a run remembers.

    ``branch`` is the line it is on, ``threads`` the turns of each agent, by name. ``calling`` is an accepted reply
    whose tools are still to be run, ``spawned`` the branches that are awaited, ``outcomes`` what branches came to, by
    their ids. ``outcome`` is what the run itself came to, None while it goes on and when the loop limit ended it:
    read it with :func:`outcome_of`. ``content_streaks`` counts, by agent, replies in a row that were words alone.
    """

    branch: JSONObject
    threads: dict[str, list[Message]]
    calling: JSONObject | None
    spawned: JSONObject | None
    outcomes: Annotated[dict[str, JSONObject], operator.or_]
    outcome: JSONObject | None
    content_streaks: dict[str, JSONObject]


def node_of(agent: str) -> str:
    """Name the node of an agent: whatever agents are called, none takes the name of another node or of a field."""
    return f"agent {agent.translate(_RESERVED)}"


def begin(
    topology: Topology,
    user_message: str,
    *,
    entry: str | None = None,
    state: RunState | None = None,
    **initial: Any,
) -> RunState:
    """Make the input of a run: ``user_message`` to ``entry``, which may be left out when there is one entry only.

    With ``state``, that of a run before, its conversation goes on: counted anew, nothing forgotten. What is pending at
    the human is asked first; whoever asked is told the answer, and whatever it is, the run goes on at ``entry``.
    ``initial`` are keywords of :func:`~strictreply.coordination.create_initial_state`, for a first run only.

    Raises ContractError when ``entry`` is no agent, or has to be given, when ``initial`` is given beside ``state``, and
    for a state whose run is inside parallel branches: what they ask stands in states of their own.
    """
    agent = _entry(topology, entry)
    if state is None:
        first = create_initial_state(user_message, **initial)
        return with_turn(line(first, agent, Branch()), agent, user_message)
    _require_free(state, initial)
    begun = start_run(_without_interrupts(state), user_message, entry=node_of(agent))
    begun = changed(begun, branch=_begun(Branch(), None), calling=None, spawned=None, outcome=None)
    return with_turn(begun, agent, user_message)


def line(state: AgentState, agent: str, branch: Branch, spawner: str | None = None) -> RunState:
    """Begin a line of a run with an agent; ``spawner`` is the agent that a parallel branch comes back to."""
    empty: JSONObject = {"threads": {}, "calling": None, "spawned": None, "outcomes": {}, "outcome": None}
    kept = {"branch": _begun(branch, spawner), "content_streaks": {}}
    return cast("RunState", {**state, "next_agent": node_of(agent), **empty, **kept})


def _begun(branch: Branch, spawner: str | None) -> JSONObject:
    """Spell the branch that a line begins with."""
    return written(branch, home=branch.type, spawner=spawner)


def written(branch: Branch, *, home: str, spawner: str | None) -> JSONObject:
    """Spell a branch as JSON; ``home`` is the type it has when no two agents talk in turns."""
    kept = {"id": branch.id, "type": branch.type.value, "agents": list(branch.agents), "turns": branch.turns}
    return {**kept, "home": str(home), "spawner": spawner}


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


def outcome_of(state: RunState) -> JSONObject:
    """Tell what a run came to: ``agent``, ``status``, ``reason``, ``content`` and ``error``, in words for programs.

    A run that the loop limit ended is ``failed`` with the reason of its last route. ``pending_human_input`` tells that
    a human is still to be asked though the run is over (requirement R13): a run that goes on from its state asks first.
    Of a run that still waits for a human this is not to be asked: LangGraph tells of that by ``__interrupt__``.
    """
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
    """Spell what a run came to."""
    return {"agent": agent, "status": status.value, "reason": reason, "content": content, "error": error}


def _entry(topology: Topology, entry: str | None) -> str:
    """Find where a run begins."""
    chosen = entry or (topology.entries[0] if len(topology.entries) == 1 else None)
    if chosen not in topology.agents:
        raise ContractError(f"say which agent the run begins with: entry=one of {', '.join(topology.entries)}")
    return chosen


def _require_free(state: RunState, initial: Mapping[str, object]) -> None:
    """Refuse what a run that goes on cannot take, and a state that another run still needs."""
    if initial:
        raise ContractError(
            f"begin: {', '.join(sorted(initial))} cannot be given beside state=, which has them already"
        )
    history = state.get("routing_history", [])
    if history and history[-1]["to"] == BRANCH:
        message = "begin: the run of this state is inside parallel branches; answer their questions (Command(resume=…))"
        raise ContractError(f"{message} or let it go on (invoke(None, config)) until it ends, and go on from there")


def _without_interrupts(state: RunState) -> RunState:
    """Drop what LangGraph adds to the state that ``invoke`` returns: it is no part of a state."""
    return cast("RunState", {key: value for key, value in state.items() if key != "__interrupt__"})
