"""The turn of an agent's tools: one call after the other, each in a step of its own.

A step is kept before the next one begins, so a call that waits for a person lets no other call run
twice. What LangGraph gives to a tool, and what a tool tells LangGraph, goes through here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from types import UnionType
from typing import Annotated, Any, Final, TypeAlias, Union, cast, get_args, get_origin

from strictreply import AbortRun, Category, ContractError, Issue, ToolCall, ToolCalls
from strictreply.contract._contract import Check
from strictreply.coordination._action_rules import judge_action, refused
from strictreply.coordination._actions import (
    ActionType,
    CoordinationCode,
    StateError,
    ValidationResult,
)
from strictreply.coordination._counting import Activity
from strictreply.coordination._decisions import RoutingReason, stop
from strictreply.coordination._run_state import changed
from strictreply.integrations import load
from strictreply.integrations.langgraph._graph_state import (
    OWN_FIELDS,
    TOOLS,
    ChatAgent,
    GraphSettings,
    RunState,
    branch_of,
    node_of,
    noted,
    with_turn,
)
from strictreply.integrations.langgraph._graph_turns import AskHuman, routed
from strictreply.integrations.langgraph._next_state import follow
from strictreply.pipeline._turn_effects import (
    LoopPolicy,
    RunTool,
    ToolOutcome,
    approval_of,
    error_json,
    identified,
    is_failure,
    result_turns,
    substitute_result,
)
from strictreply.pipeline._values import (
    AgentToolCall,
    AgentToolCallResult,
    Decision,
    ToolCallManifest,
    waiting_call,
)
from strictreply.reading._decoding import decode
from strictreply.values._limits import JSONObject, Message
from strictreply.values._replies import Invalid
from strictreply.wires._opening import peek

APPROVAL: Final = "tool_approval"
RESULT_LIMIT: Final = LoopPolicy().max_result_chars
_WORDS: Final[Mapping[object, bool]] = {"approve": True, "deny": False}
_FORM: Final = (
    'a decision on a call is "approve", "deny", True, False, '
    '{"approved": …, "reason": …}, or call.approved() or call.denied(reason) of approvals_in(state)'
)
_BIGGEST: Final = 2**63 - 1  # no checkpoint holds a greater number


@dataclass(frozen=True, slots=True)
class RunInGraph:
    """Effect: run one call of a graph.

    What comes back is its outcome, and the ``Command`` that its tool returned, or None.
    """

    run: RunTool
    state: RunState


ToolEffect: TypeAlias = AskHuman | Check | RunInGraph
ToolFlow: TypeAlias = Generator[ToolEffect, Any, RunState]


class GraphCall:
    """One call in a graph: its tool with what LangGraph gives it, and the Command it returned."""

    def __init__(self, effect: RunInGraph) -> None:
        self.command: Any = None
        self._call = effect.run.call
        self._state = effect.state

        injected = {} if effect.run.tool.signature is None else effect.run.tool.signature.injected
        given = {name: self._given(name, kind) for name, kind in injected.items()}
        tool = effect.run.tool.injected_with(given)
        if tool.context_parameters and self._runtime.context is not None:
            tool = tool.with_context(self._runtime.context)

        watched = self._watched(tool.function, is_async=tool.is_async)
        self.run = RunTool(replace(tool, function=watched), self._call)

    def ended(self, error: AbortRun) -> ToolOutcome:
        """Return the outcome of this call, which ended the run."""
        text = error_json(type(error).__name__, str(error), RESULT_LIMIT)
        result = AgentToolCallResult(
            tool_call_id=str(self._call.id), name=self._call.tool, result_json=text
        )
        return ToolOutcome(result, error)

    def _watched(self, function: Any, *, is_async: bool) -> Any:
        async def arun(*args: Any, **named: Any) -> Any:
            return self._told(await function(*args, **named))

        def run(*args: Any, **named: Any) -> Any:
            result = function(*args, **named)
            if inspect.isawaitable(result):
                return _Later(result, self._told)
            return self._told(result)

        return arun if is_async else run

    def _told(self, result: Any) -> Any:
        """Return what the model is told of a result; keep a Command."""
        if not isinstance(result, load("langgraph.types").Command) or result.graph is not None:
            return result  # a Command for the graph around this one is raised like any other signal

        self.command = result
        update: Any = result.update
        written = update.get("messages", ()) if isinstance(update, Mapping) else ()
        for message in written if isinstance(written, list | tuple) else (written,):
            if peek(message, "tool_call_id") == self._call.id:
                return peek(message, "content")

        return f"handed over to {result.goto}" if result.goto else None

    @cached_property
    def _runtime(self) -> Any:
        return load("langgraph.runtime").get_runtime()

    def _given(self, name: str, annotation: Any) -> Any:
        """Return what LangGraph gives to a parameter, as its own tool node does."""
        node = load("langgraph.prebuilt.tool_node")
        tools = load("langchain_core.tools")
        state: dict[str, Any] = dict(self._state)

        for kind in _parts(annotation):
            type_ = kind if isinstance(kind, type) else type(kind)
            if issubclass(type_, node.InjectedState):
                field = getattr(kind, "field", None)
                return state if field is None else state[field]
            if issubclass(type_, node.InjectedStore):
                return self._runtime.store
            if issubclass(type_, tools.InjectedToolCallId):
                return self._call.id
            if issubclass(type_, node.ToolRuntime):
                return self._tool_runtime(node, state)
            if type_.__name__ == "RunnableConfig":
                return load("langgraph.config").get_config()

        raise ContractError(
            f"the tool {self._call.tool!r}: LangGraph gives nothing to its parameter {name!r}"
        )

    def _tool_runtime(self, node: Any, state: dict[str, Any]) -> Any:
        names = ("context", "store", "stream_writer", "execution_info", "server_info")
        known = inspect.signature(node.ToolRuntime).parameters
        shared = {name: getattr(self._runtime, name) for name in names if name in known}
        config = load("langgraph.config").get_config()
        return node.ToolRuntime(state=state, config=config, tool_call_id=self._call.id, **shared)


class _Later:
    """What an async function behind an ordinary decorator returned: its result is ``told``."""

    def __init__(self, result: Any, told: Callable[[Any], Any]) -> None:
        self._result = result
        self._told = told

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._told((yield from self._result.__await__()))

    def close(self) -> None:
        """Leave the result, which nobody awaits."""
        close = getattr(self._result, "close", None)
        if callable(close):
            close()


def _parts(annotation: Any) -> list[Any]:
    """Return the types and metadata that an annotation is made of."""
    origin = get_origin(annotation)
    if origin is None:
        return [annotation]
    if origin not in {Annotated, Union, UnionType}:
        return [origin]
    return [part for each in get_args(annotation) for part in _parts(each)]


def tools_turn(settings: GraphSettings, state: RunState, *, awaited: bool) -> ToolFlow:
    """Run the next call of an accepted reply; after the last one the agent is told all results.

    The first that fails ends the turn, and those behind it are not run; a ToolError is a result. A
    tool that raises AbortRun ends the run. A call that needs approval is run when it has one.
    Raises, before anything runs, StateError when the state holds no valid reply (requirement M118),
    ContractError for an async tool in a sync run.
    """
    calling = state["calling"] or {}
    agent = settings.agents[calling["agent"]]
    branch = branch_of(state, settings.max_turns, agent.name)
    result = yield from settings.processor.judging(calling["turn"], agent, branch, state)

    terms = settings.processor.terms(agent, branch)
    calls = identified(ToolCalls(executable_calls(result)), "call")
    runs = [RunTool(terms.tools.by_name[call.tool], call) for call in calls]
    for run in runs:
        run.tool.refuse_unrunnable(awaited=awaited, injects=True)

    done = _done(calling, runs)
    run = runs[len(done)]
    allowed: tuple[bool, str] = (True, "")
    waiting = _waiting(state, calling, run, len(done))
    if run.tool.needs_approval:
        allowed = yield from _decided(agent, waiting)

    if not allowed[0]:
        told = substitute_result(waiting, "ApprovalDenied", RESULT_LIMIT, reason=allowed[1])
        return _gone_on(settings, agent, state, (*done, told))

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
        return routed(settings, agent, state, refused((issue,), terms))

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
    """End a run that a tool ends, or that ends because of one; what ran is kept."""
    state = _cut_short(agent, state, ran)
    branch = branch_of(state, settings.max_turns, agent.name)
    return follow(state, agent, branch, stop(RoutingReason.ABORTED, str(error)))


def _cut_short(agent: ChatAgent, state: RunState, ran: tuple[AgentToolCallResult, ...]) -> RunState:
    """Return the state after a reply whose last calls are not run."""
    turn = (state["calling"] or {})["turn"]
    rest = (substitute_result(call, "NotRun", RESULT_LIMIT) for call in calls_in(turn)[len(ran) :])
    return with_results_told(changed(state, calling=None), agent.name, turn, (*ran, *rest))


def _failed_in_row(state: RunState, agent: ChatAgent, ran: tuple[AgentToolCallResult, ...]) -> int:
    """Count the failures in a row of the tool that was run last, since its agent was told more."""
    names: dict[str, str] = {}
    earlier: list[AgentToolCallResult] = []
    for turn in state["threads"].get(agent.name, []):
        if turn["role"] == "user":
            earlier.clear()
        for call in turn.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        if turn["role"] == "tool":
            id_ = turn["tool_call_id"]
            told = AgentToolCallResult(
                tool_call_id=id_, name=names.get(id_, ""), result_json=turn["content"]
            )
            earlier.append(told)

    of_tool = [one for one in (*earlier, *ran) if one.name == ran[-1].name]
    return sum(1 for _ in takewhile(is_failure, reversed(of_tool)))


def calls_in(turn: Message) -> list[AgentToolCall]:
    """Return the calls of a reply, as the program tells their results."""
    return [
        AgentToolCall(
            tool_call_id=call["id"],
            name=call["function"]["name"],
            arguments_json=call["function"]["arguments"],
            requires_client_execution=True,
        )
        for call in turn["tool_calls"]
    ]


def executable_calls(result: ValidationResult) -> tuple[ToolCall, ...]:
    """Return the calls of a verdict, to run them.

    Raises StateError when the verdict is not valid, or calls nothing (M118).
    """
    if not result.is_valid or not result.calls:
        words = "holds no reply that calls a tool"
        nothing = Issue("state.not_executable", Category.FORMAT_ERROR, "/calling", words)
        raise StateError(result.issues or (nothing,))

    return result.calls


def is_open(state: Mapping[str, Any]) -> bool:
    """Return whether calls of a reply are still to be run after others of it."""
    return state.get("next_agent") == TOOLS and bool((state.get("calling") or {}).get("done"))


def _done(calling: JSONObject, runs: list[RunTool]) -> tuple[AgentToolCallResult, ...]:
    """Read the results of the calls that were run.

    Raises StateError for those of other calls.
    """
    kept = calling.get("done", ())
    expected = [str(run.call.id) for run in runs[: len(kept)]]
    if len(kept) >= len(runs) or [one["tool_call_id"] for one in kept] != expected:
        words = "the results of the first calls of the reply, fewer than it has"
        raise StateError([CoordinationCode.STATE_WRONG_TYPE.at("/calling/done", expected=words)])

    return tuple(AgentToolCallResult(**one) for one in kept)


def _gone_on(
    settings: GraphSettings,
    agent: ChatAgent,
    state: RunState,
    done: tuple[AgentToolCallResult, ...],
) -> RunState:
    """Go on with the next call of the reply, or where the results lead."""
    calling = state["calling"] or {}
    if len(done) < len(calling["turn"]["tool_calls"]):
        kept = {**calling, "done": [one.to_dict() for one in done]}
        return changed(state, calling=kept, next_agent=TOOLS)

    state = with_results_told(changed(state, calling=None), agent.name, calling["turn"], done)
    if "goto" not in calling:
        return changed(state, next_agent=node_of(agent.name))

    terms = settings.processor.terms(agent, branch_of(state, settings.max_turns, agent.name))
    return routed(settings, agent, state, judge_action(_handover(calling["goto"]), terms))


def with_results_told(
    state: RunState, agent: str, turn: Message, done: Sequence[AgentToolCallResult]
) -> RunState:
    """Return the state after the calls of a reply: its turn and the results are in the thread."""
    turns = result_turns(ToolCallManifest(tool_call_results=tuple(done)), "native")
    state = with_turn(state, agent, turn, *turns)
    for line in told_lines(turn, done):
        state = noted(state, agent, line)
    return state


def told_lines(turn: Message, done: Sequence[AgentToolCallResult]) -> list[str]:
    """Return the calls of a reply with their results, in words for other agents."""
    return [
        f"called {told.name} with {call['function']['arguments']}: {told.result_json}"
        for call, told in zip(turn["tool_calls"], done, strict=True)
    ]


def _handover(target: str) -> JSONObject:
    return {"next_action": ActionType.INVOKE_AGENT.value, "action_input": target}


def _followed(
    settings: GraphSettings, agent: ChatAgent, state: RunState, run: RunTool, command: Any
) -> RunState:
    """Return the state after the Command of a tool: its own fields, and where it goes.

    Raises ContractError for what a tool may not tell a graph: other fields, an agent that its agent
    may not hand over to, a second target.
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

    terms = settings.processor.terms(agent, branch_of(state, settings.max_turns, agent.name))
    known = isinstance(target, str) and judge_action(_handover(target), terms).is_valid
    if not known or calling.get("goto", target) != target:
        agents = ", ".join(settings.topology.allowed_targets(agent.name))
        raise ContractError(
            f"the tool {tool!r} may lead to one agent that {agent.name!r} has an edge to: {agents}"
        )

    return changed(state, calling={**calling, "goto": target})


def _waiting(state: RunState, calling: JSONObject, run: RunTool, index: int) -> AgentToolCall:
    written = calling["turn"]["tool_calls"][index]["function"]["arguments"]
    members = {
        "tool_call_id": str(run.call.id),
        "name": run.call.tool,
        "arguments_json": written,
        "requires_client_execution": True,
        "needs_approval": True,
    }
    return waiting_call(members, state["conversation_id"], _turn_of(state))


def _turn_of(state: RunState) -> str:
    return f"{state['branch']['id']}/{state['loop_count']}"


def _decided(agent: ChatAgent, call: AgentToolCall) -> Generator[AskHuman, Any, tuple[bool, str]]:
    """Ask whether a call may be run, until an answer is a decision; return it with its reason."""
    arguments = decode(call.arguments_json)
    bound = call.approved()
    question: JSONObject = {
        "id": call.tool_call_id,
        "kind": APPROVAL,
        "question": f"May {agent.name} run {call.name}?",
        "decisions": ["approve", "deny"],
        "agent": agent.name,
        "tool_call_id": call.tool_call_id,
        "name": call.name,
        "arguments": arguments if _is_kept(arguments) else None,
        "arguments_json": call.arguments_json,
        "session_id": bound.session_id,
        "turn_id": bound.turn_id,
    }

    refusal = None
    while True:
        answer = yield AskHuman(question, refusal)
        try:
            return _decision(call, answer)
        except ContractError as error:
            refusal = error


def _is_kept(value: object) -> bool:
    """Return whether a checkpoint holds a JSON value: not one with numbers beyond 64 bits."""
    if isinstance(value, dict):
        return all(map(_is_kept, value.values()))
    if isinstance(value, list):
        return all(map(_is_kept, value))
    return not isinstance(value, Invalid) and not (
        isinstance(value, int) and not -_BIGGEST <= value <= _BIGGEST
    )


def _decision(call: AgentToolCall, answer: object) -> tuple[bool, str]:
    """Read whether a call may be run, and why not.

    Raises ContractError for what is no decision, or one on another call.
    """
    if isinstance(answer, bool):
        return answer, ""
    if isinstance(answer, str) and answer.strip().casefold() in _WORDS:
        return _WORDS[answer.strip().casefold()], ""

    if isinstance(answer, Mapping) and "tool_call_id" in answer:
        try:
            answer = Decision(**cast("dict[str, Any]", answer))
        except TypeError:
            raise ContractError(_FORM) from None

    if isinstance(answer, Decision):
        if answer != replace(call.approved(), approved=answer.approved, reason=answer.reason):
            raise ContractError("this decision is on another call, or on other arguments of it")
        return answer.approved, answer.reason

    if not isinstance(answer, Mapping):
        raise ContractError(_FORM)

    said = AgentToolCall.answered(call, dict(cast("Mapping[str, Any]", answer)))
    read = approval_of(said)
    if read is None:
        raise ContractError(_FORM)
    return read


def approvals_in(state: object) -> tuple[AgentToolCall, ...]:
    """Return the calls that wait for an approval, in what ``invoke`` returned or a snapshot.

    ``call.approved()`` and ``call.denied(reason)`` decide on one: resume with it, as in
    ``Command(resume=call.approved().to_dict())``.
    """
    given: Any = peek(state, "__interrupt__") or getattr(state, "interrupts", ())
    values = [one.value for one in given]
    names = ("tool_call_id", "name", "arguments_json")
    return tuple(
        waiting_call(
            {name: value[name] for name in names}
            | {"requires_client_execution": True, "needs_approval": True},
            value["session_id"],
            value["turn_id"],
        )
        for value in values
        if peek(value, "kind") == APPROVAL
    )
