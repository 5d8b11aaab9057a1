"""The beginning of a run: the user's message, and the state of the run before.

A continued conversation keeps its threads, the pending questions, and the results of calls that ran
before the user continued without the others.
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
    """Return the input of a run that begins with ``user_message`` to the agent ``entry``.

    - ``entry`` is optional if the topology has only one entry.
    - ``state`` is the state of an earlier run, whose conversation is continued with a new loop
      count. Without it, or with an empty one, a new conversation begins, also on a used thread.
    - ``keep_active`` continues with the :func:`active_agent` of ``state``.
    - ``initial`` has keywords of :func:`~strictreply.coordination.create_initial_state`, for a
      first run.

    Pending questions to the human come first. The agent that asked gets the answer, and the run
    continues at ``entry``. Calls that wait in ``state`` do not run: if other calls of their reply
    ran, they are answered as abandoned, otherwise their reply is dropped.

    Raises ContractError when ``entry`` is not an agent or is missing, when both ``initial`` and
    ``state`` are given, and for a state whose run is inside parallel branches. Raises StateError if
    an agent that is not in the topology waits for an answer, and for calls that were not left by a
    graph. A graph refuses an input that would drop a run of its thread.
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
    """Return the agent that answered last in a state, or is next.

    Return None if it is not in the topology.
    """
    agent = outcome_of(state)["agent"]
    return agent if agent in topology.agents else None


def _gone_on_from(topology: Topology, state: RunState, agent: str) -> tuple[RunState, str]:
    """Return the state of a run that continues an earlier one, and a text about it for its agent.

    Raises the errors of :func:`begin`.
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

    # leave out ``__interrupt__``, which ``invoke`` adds, and the application's own fields, which
    # stay in its thread: a reducer would apply them a second time
    stored = {key: value for key, value in state.items() if key in RUN_FIELDS}
    return cast("RunState", stored), heard


class _LeftCalls(NamedTuple):
    """The calls of a reply of which only some had run when the user continued."""

    agent: str
    turn: dict[str, Any]
    results: tuple[AgentToolCallResult, ...]

    @classmethod
    def of(cls, topology: Topology, state: RunState) -> _LeftCalls | None:
        """Read them from a state; None if no call of its reply has run.

        Raises StateError if a graph did not leave them.
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
        """Return a text about them for the next agent; its own calls are already in its thread."""
        if agent == self.agent:
            return ""
        return "\n".join(f"{self.agent}: {line}" for line in told_lines(self.turn, self.results))
