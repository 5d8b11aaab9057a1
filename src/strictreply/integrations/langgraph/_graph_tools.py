"""The turn of an agent's tools: one call after the other, each in its own step.

Each step is stored before the next one begins, so a call that waits for a person does not make
another call run twice. A call ends with a result, or it ends the turn. In both cases the results of
the earlier calls are stored.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from itertools import takewhile
from operator import attrgetter
from typing import Any, Protocol, TypeAlias, cast

from strictreply import AbortRun, Category, ContractError, Issue, ToolCall
from strictreply.coordination import (
    ActionType,
    Activity,
    CoordinationCode,
    RoutingDecision,
    RoutingReason,
    StateError,
    ValidationResult,
)
from strictreply.core import Check, JSONObject
from strictreply.core.tools import refuse_unrunnable
from strictreply.integrations.langgraph._call_results import (
    calls_in,
    with_results_told,
)
from strictreply.integrations.langgraph._graph_approvals import decided, waiting_in
from strictreply.integrations.langgraph._graph_calls import RunInGraph
from strictreply.integrations.langgraph._graph_settings import ChatAgent, GraphSettings
from strictreply.integrations.langgraph._graph_state import (
    OWN_FIELDS,
    TOOLS,
    RunState,
    branch_of,
    changed,
    node_of,
)
from strictreply.integrations.langgraph._graph_turns import AskHuman, routed
from strictreply.integrations.langgraph._next_state import follow
from strictreply.loop import RunTool, ToolOutcome
from strictreply.loop.values import AgentToolCallResult

ToolEffect: TypeAlias = AskHuman | Check | RunInGraph


ToolFlow: TypeAlias = Generator[ToolEffect, Any, RunState]


class _Command(Protocol):
    """A Command of LangGraph."""

    update: object
    goto: Any


def tools_turn(settings: GraphSettings, state: RunState, *, awaited: bool) -> ToolFlow:
    """Run the next call of an accepted reply; after the last one the agent gets all results.

    The first call that fails ends the turn, and the later ones are not run; a ToolError is a
    result. A tool that raises AbortRun ends the run. A call that needs approval runs if it has one.
    Before anything runs, raises StateError if the state contains no valid reply (requirement M118),
    and ContractError for an async tool in a sync run.
    """
    calling = state["calling"] or {}
    agent = settings.agents[calling["agent"]]
    branch = branch_of(state, settings.max_turns, agent.name)
    result = yield from settings.processor.judging(calling["turn"], agent, branch, state)

    terms = settings.processor.terms(agent, branch)
    calls = executable_calls(result)
    runs = [RunTool(terms.tools.by_name[call.tool], call) for call in calls]
    for run in runs:
        refuse_unrunnable(run.tool, awaited=awaited, injects=True)

    done = _done(calling, runs)
    run = runs[len(done)]
    allowed: tuple[bool, str] = (True, "")
    waiting = waiting_in(state, calling, run, len(done))
    if run.tool.needs_approval:
        allowed = yield from decided(agent, waiting)

    if not allowed[0]:
        denial = waiting.failed("ApprovalDenied", allowed[1])
        return _gone_on(settings, agent, state, (*done, denial))

    outcome: ToolOutcome
    outcome, command = yield RunInGraph(run, state)
    settings.metrics.done(
        Activity.TOOL_EXECUTIONS,
        run.call.tool,
        succeeded=outcome.error is None,
        seconds=outcome.result.execution_ms / 1000,
    )

    ran = (*done, outcome.result)
    if isinstance(outcome.error, AbortRun):
        return _aborted(settings, agent, state, ran, outcome.error)

    if outcome.is_broken:
        state = _cut_short(agent, state, ran) if done else changed(state, calling=None)
        issue = Issue("tool.raised", Category.TOOL_ERROR, "", "the code of a tool raised")
        result = settings.processor.refused((issue,), agent, branch)
        return routed(settings, agent, state, result)

    if command is not None:
        state = _followed(settings, agent, state, run, command)

    if (limit := run.tool.max_failures) is not None and _failed_in_row(state, agent, ran) >= limit:
        words = f"tool {run.tool.name!r} failed {limit} times in a row"
        return _aborted(settings, agent, state, ran, AbortRun(words, reason="failures"))

    return _gone_on(settings, agent, state, ran)


def _aborted(
    settings: GraphSettings,
    agent: ChatAgent,
    state: RunState,
    ran: tuple[AgentToolCallResult, ...],
    error: AbortRun,
) -> RunState:
    """End a run because of a tool; the results so far are stored."""
    state = _cut_short(agent, state, ran)
    branch = branch_of(state, settings.max_turns, agent.name)
    return follow(state, agent, branch, RoutingDecision.stopped(RoutingReason.ABORTED, str(error)))


def _cut_short(agent: ChatAgent, state: RunState, ran: tuple[AgentToolCallResult, ...]) -> RunState:
    """Return the state after a reply whose last calls are not run."""
    turn = (state["calling"] or {})["turn"]
    rest = (call.failed("NotRun") for call in calls_in(turn)[len(ran) :])
    return with_results_told(changed(state, calling=None), agent.name, turn, (*ran, *rest))


def _failed_in_row(state: RunState, agent: ChatAgent, ran: tuple[AgentToolCallResult, ...]) -> int:
    """Count the last tool's failures in a row, since its agent received any other message."""
    names: dict[str, str] = {}
    earlier: list[AgentToolCallResult] = []
    for turn in state["threads"].get(agent.name, []):
        if turn["role"] == "user":
            earlier.clear()
        for call in turn.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        if turn["role"] == "tool":
            id_ = turn["tool_call_id"]
            result = AgentToolCallResult(
                tool_call_id=id_, name=names.get(id_, ""), result_json=turn["content"]
            )
            earlier.append(result)

    of_tool = [one for one in (*earlier, *ran) if one.name == ran[-1].name]
    return sum(1 for _ in takewhile(attrgetter("is_failure"), reversed(of_tool)))


def executable_calls(result: ValidationResult) -> tuple[ToolCall, ...]:
    """Return the calls of a verdict, to run them.

    Raises StateError if the verdict is not valid, or has no calls.
    """
    if not result.is_valid or not result.calls:
        words = "must have a reply that calls a tool"
        nothing = Issue("state.not_executable", Category.FORMAT_ERROR, "/calling", words)
        raise StateError(result.issues or (nothing,))

    return result.calls


def is_open(state: Mapping[str, Any]) -> bool:
    """Return whether a reply has calls that have not run yet, after some that have."""
    return state.get("next_agent") == TOOLS and bool((state.get("calling") or {}).get("done"))


def _done(calling: JSONObject, runs: list[RunTool]) -> tuple[AgentToolCallResult, ...]:
    """Read the results of the calls that have run.

    Raises StateError for results of other calls.
    """
    results = calling.get("done", ())
    expected = [str(run.call.id) for run in runs[: len(results)]]
    if len(results) >= len(runs) or [one["tool_call_id"] for one in results] != expected:
        words = "the results of the first calls of the reply, fewer than it has"
        raise StateError([CoordinationCode.STATE_WRONG_TYPE.at("/calling/done", expected=words)])

    return tuple(AgentToolCallResult(**one) for one in results)


def _gone_on(
    settings: GraphSettings,
    agent: ChatAgent,
    state: RunState,
    done: tuple[AgentToolCallResult, ...],
) -> RunState:
    """Continue with the next call of the reply, or with what follows the results."""
    calling = state["calling"] or {}
    if len(done) < len(calling["turn"]["tool_calls"]):
        progress = {**calling, "done": [one.to_dict() for one in done]}
        return changed(state, calling=progress, next_agent=TOOLS)

    state = with_results_told(changed(state, calling=None), agent.name, calling["turn"], done)
    if "goto" not in calling:
        return changed(state, next_agent=node_of(agent.name))

    return routed(settings, agent, state, _handover(settings, agent, state, calling["goto"]))


def _handover(
    settings: GraphSettings, agent: ChatAgent, state: RunState, target: str
) -> ValidationResult:
    """Return the verdict on a hand-over that a tool of the agent requests."""
    branch = branch_of(state, settings.max_turns, agent.name)
    action: JSONObject = {
        "next_action": ActionType.INVOKE_AGENT.value,
        "action_input": target,
    }
    return settings.processor.judge_action(action, agent, branch)


def _followed(
    settings: GraphSettings, agent: ChatAgent, state: RunState, run: RunTool, command: _Command
) -> RunState:
    """Return the state after the Command of a tool: its own fields, and the next node.

    Raises ContractError for a Command that a tool may not return: with other fields, an agent that
    its agent may not hand over to, or a second target.
    """
    tool = run.tool.name
    update: Any = {} if command.update is None else command.update
    if not isinstance(update, Mapping):
        raise ContractError(f"the tool {tool!r}: the update of its Command must be a mapping")

    fields = {str(name): value for name, value in update.items() if name != "messages"}
    if foreign := sorted(fields.keys() - settings.own_fields.keys()):
        raise ContractError(
            f"the tool {tool!r} may not write {', '.join(foreign)}: "
            "a Command updates the fields that state_schema= adds"
        )

    state = changed(state, **fields)
    if fields:
        state = cast("RunState", {**state, OWN_FIELDS: fields})
    if not command.goto:
        return state

    calling = state["calling"] or {}
    target = command.goto
    if isinstance(target, list | tuple) and len(target) == 1:
        target = target[0]

    known = isinstance(target, str) and _handover(settings, agent, state, target).is_valid
    if not known or calling.get("goto", target) != target:
        agents = ", ".join(settings.topology.allowed_targets(agent.name))
        raise ContractError(
            f"the tool {tool!r} may go to only one agent, to which {agent.name!r} has an edge: "
            f"{agents}"
        )

    return changed(state, calling={**calling, "goto": target})
