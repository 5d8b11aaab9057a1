"""How a run begins: what the user says now, and what a run before has left.

A conversation that goes on loses nothing: its threads, the questions that are pending, and the
results of calls that ran before the user went on without the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast, get_type_hints

from strictreply import ContractError
from strictreply.coordination import (
    AgentState,
    Branch,
    CoordinationCode,
    StateError,
    Topology,
    create_initial_state,
    start_run,
)
from strictreply.coordination.state import StateSchema, pending_requests
from strictreply.integrations.langgraph._call_results import (
    calls_in,
    told_lines,
    with_results_told,
)
from strictreply.integrations.langgraph._graph_state import (
    BRANCH,
    RunState,
    after_history,
    node_of,
    noted,
    state_at_start,
    unheard,
    with_turn,
)
from strictreply.integrations.langgraph._graph_turns import USER_SAID, request_issues
from strictreply.integrations.langgraph._run_outcomes import outcome_of
from strictreply.integrations.langgraph._state_checks import TEXT, run_issues
from strictreply.loop.values import AgentToolCallResult

RUN_FIELDS: Final = frozenset(get_type_hints(RunState))
_FUNCTION: Final = StateSchema.record({"name": TEXT, "arguments": TEXT})
_CALL: Final = StateSchema.record({"id": TEXT, "function": _FUNCTION})
_LEFT: Final = StateSchema(StateSchema.record({"tool_calls": {"type": "array", "items": _CALL}}))


def begin(
    topology: Topology,
    user_message: str,
    *,
    entry: str | None = None,
    state: Mapping[str, object] | None = None,
    keep_active: bool = False,
    **initial: Any,
) -> RunState:
    """Return the input of a run, which begins with ``user_message`` to the agent ``entry``.

    ``entry`` may be left out when the topology has one entry only. With ``state``, that of a run
    before, its conversation goes on, counted anew; with ``keep_active`` it goes on with the agent
    that is :func:`active_agent` there. Without it, or with an empty one, a conversation begins,
    also on a thread that was used before. Questions that are pending at the human are put first in
    either case; the agent that asked gets the answer, and the run goes on at ``entry``. Calls that
    wait in ``state`` are not run: beside others of their reply that were run, they are answered as
    abandoned, else their reply is dropped. ``initial`` are keywords of
    :func:`~strictreply.coordination.create_initial_state`, for a first run.

    Raises ContractError when ``entry`` is not an agent, or has to be given, when ``initial`` is
    given beside ``state``, and for a state whose run is inside parallel branches. Raises StateError
    for a state in which an agent that is not in the topology waits for an answer, and for calls
    that no graph has left. A graph refuses an input that would drop what ran on its thread.
    """
    if state and keep_active and entry is None:
        entry = active_agent(topology, state)

    agent = entry or (topology.entries[0] if len(topology.entries) == 1 else None)
    if agent not in topology.agents:
        raise ContractError(
            f"pass entry=, the agent that the run begins with: {', '.join(topology.entries)}"
        )

    heard = ""
    first: AgentState
    if not state:
        first = create_initial_state(user_message, **initial)
    elif initial:
        raise ContractError(
            f"begin: leave out {', '.join(sorted(initial))}: state= already has them"
        )
    else:
        before, heard = _gone_on_from(topology, cast("RunState", state), agent)
        first = start_run(before, user_message, entry=node_of(agent))

    new = state_at_start(first, agent, Branch(), asked=f"{USER_SAID}{user_message}")
    new, history = unheard(new, agent)
    new, _ = unheard(noted(new, "user", user_message), agent)
    return with_turn(new, agent, after_history(history or heard, user_message))


def active_agent(topology: Topology, state: Mapping[str, object]) -> str | None:
    """Return the agent that answered last in a state, or is next in it.

    None for an agent that is not in the topology.
    """
    agent = outcome_of(state)["agent"]
    return agent if agent in topology.agents else None


def _gone_on_from(topology: Topology, state: RunState, agent: str) -> tuple[RunState, str]:
    """Return what a run begins with that goes on from a state, and what its agent is told of it.

    Raises as :func:`begin` does.
    """
    history = state.get("routing_history", [])
    # a question may be asked before branches go on
    opened = any(request.resume_to == BRANCH for request in pending_requests(state))
    if opened or (history and history[-1]["to"] == BRANCH):
        raise ContractError(
            "begin: the run of this state is inside parallel branches; answer their questions "
            "(Command(resume=…)) or resume it (invoke(None, config)) until it ends, "
            "then continue from there"
        )

    StateError.raise_for(request_issues(topology, state))
    left = _LeftCalls.of(topology, state)
    heard = ""
    if left is not None:
        state = with_results_told(state, left.agent, left.turn, left.results)
        heard = left.told(agent)

    # without ``__interrupt__``, which ``invoke`` adds, and fields of an application: they stay in
    # its thread, where a reducer would take them a second time
    stored = {key: value for key, value in state.items() if key in RUN_FIELDS}
    return cast("RunState", stored), heard


class _LeftCalls(NamedTuple):
    """The calls of a reply of which some were run, and others not when the user went on."""

    agent: str
    turn: dict[str, Any]
    results: tuple[AgentToolCallResult, ...]

    @classmethod
    def of(cls, topology: Topology, state: RunState) -> _LeftCalls | None:
        """Read them from a state; None when no call of its reply was run.

        Raises StateError when they are not what a graph leaves.
        """
        if not state.get("calling"):
            return None

        StateError.raise_for(run_issues(topology, state))
        calling = state["calling"] or {}
        if not calling.get("done"):
            return None

        turn = calling["turn"]
        StateError.raise_for(_LEFT.issues(turn, "/calling/turn"))
        done = {one["tool_call_id"]: AgentToolCallResult(**one) for one in calling["done"]}
        calls = calls_in(turn)

        if not done.keys() <= {call.tool_call_id for call in calls}:
            words = "results of calls of the reply"
            raise StateError(
                [CoordinationCode.STATE_WRONG_TYPE.at("/calling/done", expected=words)]
            )

        results = (done.get(call.tool_call_id) or call.failed("Abandoned") for call in calls)
        return cls(calling["agent"], turn, tuple(results))

    def told(self, agent: str) -> str:
        """Return them in words for the agent that goes on; its own calls are in its thread."""
        if agent == self.agent:
            return ""
        return "\n".join(f"{self.agent}: {line}" for line in told_lines(self.turn, self.results))
