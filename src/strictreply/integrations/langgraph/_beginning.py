"""The input of a run: a state that says everything of it, whatever its thread or the run before it left behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from strictreply.coordination._actions import Branch
from strictreply.coordination._runs.human_requests import carry_over
from strictreply.coordination._runs.human_turn import ledger_of, pending_requests
from strictreply.coordination._runs.run_state import HUMAN_INPUT, changed, create_initial_state, require, start_run
from strictreply.coordination._topology import Topology
from strictreply.integrations.langgraph._integrity import request_issues
from strictreply.integrations.langgraph._states import BRANCH, RunState, begun_branch, line, node_of, with_turn
from strictreply.values._errors import ContractError


def begin(
    topology: Topology,
    user_message: str,
    *,
    entry: str | None = None,
    state: RunState | None = None,
    **initial: Any,
) -> RunState:
    """Make the input of a run: ``user_message`` to ``entry``, which may be left out when there is one entry only.

    With ``state``, that of a run before, its conversation goes on: counted anew, nothing forgotten. Without it a
    conversation begins, on a thread that was used as well: agents and limits know nothing of what was there. What is
    pending at the human is asked first in either case; whoever asked is told the answer, and whatever it is, the run
    goes on at ``entry``. ``initial`` are keywords of :func:`~strictreply.coordination.create_initial_state`, for a
    first run only. On a thread whose run is inside parallel branches, what they ask is given up without ``state``.

    Raises ContractError when ``entry`` is no agent, or has to be given, when ``initial`` is given beside ``state``, and
    for a state whose run is inside parallel branches: what they ask stands in states of their own. Raises StateError
    for a state in which an agent waits for an answer that is no agent of the topology.
    """
    agent, asked = _entry(topology, entry), f"The user said: {user_message}"
    if state is None:
        first = create_initial_state(user_message, **initial)
        return with_turn(line(first, agent, Branch(), asked=asked), agent, user_message)
    _require_free(state, initial)
    require(request_issues(topology, state))
    begun = start_run(_without_interrupts(state), user_message, entry=node_of(agent))
    branch = begun_branch(Branch(), asked=asked)
    begun = changed(begun, branch=branch, calling=None, spawned=None, outcomes={}, outcome=None)
    return with_turn(begun, agent, user_message)


def with_questions_before(state: RunState) -> RunState:
    """Carry what a run before left pending on the thread into a run that begins with this state, as ``begin`` does.

    Who begins a run without the state before cannot know of it; LangGraph merges both ledgers. A run begins where
    nothing was executed and an agent is next; what the application itself asks makes the human next, and is left.
    """
    entry = state["next_agent"]
    if state["loop_count"] or entry is None or entry == HUMAN_INPUT:
        return state
    flagged = state["requires_human_input"]
    return changed(state, human_requests=carry_over(ledger_of(state), entry, flagged=flagged))


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
    opened = any(request.resume_to == BRANCH for request in pending_requests(state))  # asked before branches go on
    if opened or (history and history[-1]["to"] == BRANCH):
        message = "begin: the run of this state is inside parallel branches; answer their questions (Command(resume=…))"
        raise ContractError(f"{message} or let it go on (invoke(None, config)) until it ends, and go on from there")


def _without_interrupts(state: RunState) -> RunState:
    """Drop what LangGraph adds to the state that ``invoke`` returns: it is no part of a state."""
    return cast("RunState", {key: value for key, value in state.items() if key != "__interrupt__"})
