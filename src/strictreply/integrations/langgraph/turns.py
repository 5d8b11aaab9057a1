"""The turns of a run, each a flow from a state to the next: an agent's, its tools', the human's, a branch's.

Every reply is judged before anything follows from it, and no call runs that is not judged right in the same turn.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from strictreply.client import Exchange
from strictreply.coordination.actions.branches import Branch, BranchType
from strictreply.coordination.faults import StateError
from strictreply.coordination.replies.api_errors import ApiError
from strictreply.coordination.replies.results import ValidationResult
from strictreply.coordination.routing.case import stop
from strictreply.coordination.routing.decisions import RoutingContext, RoutingReason
from strictreply.coordination.routing.journal import log_route
from strictreply.coordination.routing.recovery import resume
from strictreply.coordination.runs.human_turn import give_human_feedback, human_input, ledger_of, pending_requests
from strictreply.coordination.runs.ledger import HumanKind, PendingHuman, SettledHuman, read_ledger, request_of
from strictreply.coordination.runs.states import changed
from strictreply.coordination.validation.judging import refused
from strictreply.describing import compact
from strictreply.errors import CallFailed, ReplyRejected, ToolExecutionError
from strictreply.integrations.langgraph.agents import ChatAgent, assistant_turn
from strictreply.integrations.langgraph.effects import AskAgent, AskHuman, Effect, Judge, RunBranch
from strictreply.integrations.langgraph.following import Coordination, Decided, ended, follow, talking
from strictreply.integrations.langgraph.states import (
    RunState,
    RunStatus,
    branch_of,
    node_of,
    outcome_of,
    with_turn,
    with_turns,
)
from strictreply.issues import Category, Issue
from strictreply.replies import ToolCall, ToolCalls
from strictreply.toolloop import MAX_RESULT_CHARS, RunTool, tool_flow
from strictreply.typing import JSON, JSONObject, Message

Turn: TypeAlias = Generator[Effect, Any, RunState]


def agent_turn(shared: Coordination, agent: ChatAgent, state: RunState) -> Turn:
    """Ask an agent for its next action, judge it, and follow where the router leads it."""
    branch = branch_of(state, shared.max_turns)
    answered: Exchange | CallFailed = yield AskAgent(agent, branch, state["threads"].get(agent.name, []))
    if isinstance(answered, CallFailed):
        return _routed(shared, agent, branch, state, _failed(shared, agent, branch, answered))
    message: Message = answered.transcript[-1]
    result: ValidationResult = yield Judge(agent, branch, message)
    turn = assistant_turn(message, result.tool_calls)
    if not result.tool_calls:  # calls join the thread together with their results
        state = with_turns(state, agent.name, [turn])
    return _routed(shared, agent, branch, state, result, turn)


def tools_turn(shared: Coordination, state: RunState, *, awaited: bool) -> Turn:
    """Run the calls of an accepted reply, in order, and give their results back to the agent.

    Raises StateError when what the state holds is not a reply that is judged right (requirement M118), and
    ContractError when a tool has no function, or an async one in a sync run; nothing has run then.
    """
    calling = state["calling"] or {}
    agent, branch = shared.agents[calling["agent"]], branch_of(state, shared.max_turns)
    result: ValidationResult = yield Judge(agent, branch, calling["turn"])
    calls = executable_calls(result)
    asked = Exchange(ToolCalls(calls), (), [calling["turn"]], shared.processor.terms(agent, branch).tools, dict)
    flow = tool_flow([], max_steps=2, max_result_chars=MAX_RESULT_CHARS, awaited=awaited)
    next(flow)  # the core's own loop, entered with a reply that is here already
    effect = flow.send(asked)
    while isinstance(effect, RunTool):
        made = yield effect
        if isinstance(made, ToolExecutionError):
            flow.close()
            return _routed(shared, agent, branch, changed(state, calling=None), _broken_tool(shared, agent, branch))
        effect = flow.send(made)
    state = with_turns(changed(state, calling=None), agent.name, effect.messages)
    return changed(state, next_agent=node_of(agent.name))


def executable_calls(result: ValidationResult) -> tuple[ToolCall, ...]:
    """Give the calls of a verdict, to run them; StateError when it is not valid, or calls nothing (M118)."""
    if not result.is_valid or not result.calls:
        nothing = Issue("state.not_executable", Category.FORMAT_ERROR, "/calling", "holds no reply that calls a tool")
        raise StateError(result.issues or (nothing,))
    return result.calls


def human_turn(shared: Coordination, state: RunState) -> Turn:
    """Put the question in front to the human, and go on as they decide."""
    state = human_input(state, home=shared.home, words=shared.words)  # the question is put among the messages
    request = pending_requests(state)[0]
    answer = yield AskHuman(question(request))
    state = human_input(give_human_feedback(state, answer), home=shared.home, words=shared.words)
    entries = read_ledger(ledger_of(state))
    settled = next(one for one in entries if request_of(one).id == request.id)
    return _answered(shared, state, settled) if isinstance(settled, SettledHuman) else state


def question(request: PendingHuman) -> JSONObject:
    """Spell a request as the value of an interrupt: what is asked, and the decisions an answer may take."""
    decisions = sorted(decision.value for decision in request.kind.decisions)
    return {"id": request.id, "kind": request.kind.value, "question": request.question, "decisions": decisions}


def branch_turn(state: RunState) -> Generator[Effect, Any, JSONObject]:
    """Run a parallel branch to its end, and tell the line that opened it what it came to."""
    last: RunState = yield RunBranch(state)
    spent = last["loop_count"] - state["loop_count"]
    told = outcome_of(last) | {"spent": spent}
    return {"outcomes": {state["branch"]["id"]: told}, "human_requests": ledger_of(last)}


def join_branches(shared: Coordination, state: RunState) -> RunState:
    """Give the agent that opened branches what each came to, in the order it asked; an abort in one ends the run."""
    spawned = state["spawned"] or {}
    agent, specs = shared.agents[spawned["agent"]], spawned["branches"]
    outcomes = [state["outcomes"][spec["id"]] for spec in specs]
    state = changed(state, spawned=None)
    if any(one["status"] == RunStatus.ABORTED for one in outcomes):
        aborted = stop(RoutingReason.ABORTED, "the user aborted the run")
        return ended(state, Decided(agent, branch_of(state, shared.max_turns), aborted))
    told: list[JSON] = [_report(spec, one) for spec, one in zip(specs, outcomes, strict=True)]
    state = with_turn(state, agent.name, f"The branches are done: {compact(told)}")
    return changed(state, next_agent=node_of(agent.name))


def spent_in_branches(state: RunState) -> int:
    """Count the executions in the branches that come together now."""
    specs: Sequence[JSONObject] = (state["spawned"] or {}).get("branches", ())
    return sum(state["outcomes"][spec["id"]]["spent"] for spec in specs)


def _report(spec: JSONObject, outcome: JSONObject) -> JSONObject:
    """Tell an agent what one branch came to; of a failure the reason, and no word that a model or a server wrote."""
    known = {"agent": spec["agent"], "instance_id": spec["instance_id"], "status": outcome["status"]}
    failed = outcome["status"] != RunStatus.COMPLETED
    return known | ({"reason": outcome["reason"]} if failed else {"content": outcome["content"]})


def _routed(
    shared: Coordination,
    agent: ChatAgent,
    branch: Branch,
    state: RunState,
    result: ValidationResult,
    turn: Message | None = None,
) -> RunState:
    """Let the router decide what follows a verdict; the client has spent what may be asked again."""
    branch = talking(shared.topology, branch, BranchType(state["branch"]["home"]), agent.name, result)
    budget = shared.router.policy.budget
    context = RoutingContext(
        current_agent=agent.name,
        current_branch_id=branch.id,
        retry_count=budget.max_retries,
        transport_retries=budget.transport_retries,
    )
    decision = shared.router.decide(result, branch, context)
    log_route(agent.name, decision)
    return follow(state, Decided(agent, branch, decision, turn))


def _failed(shared: Coordination, agent: ChatAgent, branch: Branch, error: CallFailed) -> ValidationResult:
    """Make the verdict of a call that gave no action: faults of its last reply, or the system's own error."""
    if isinstance(error, ReplyRejected):
        return refused(error.issues, shared.processor.terms(agent, branch))
    read = ApiError.of_exception(error) or ApiError()
    return read.to_result(agent=agent.name, branch_id=branch.id)


def _broken_tool(shared: Coordination, agent: ChatAgent, branch: Branch) -> ValidationResult:
    """Make the verdict of a call whose tool raised."""
    issue = Issue("tool.raised", Category.TOOL_ERROR, "", "the code of a tool raised")
    return refused((issue,), shared.processor.terms(agent, branch))


def _answered(shared: Coordination, state: RunState, settled: SettledHuman) -> RunState:
    """Go on after an answer: the agent that asked is told, and of an error the recovery decides."""
    names = {node_of(name): name for name in shared.topology.agents}
    request = settled.request
    agent = shared.agents[names[request.resume_to or shared.home]]
    if request.kind is not HumanKind.ERROR:
        return with_turn(state, agent.name, _told(settled))
    failed = replace(request, resume_to=agent.name, skip_to=names.get(request.skip_to or ""))
    decision = resume(shared.topology, failed, settled.decision)
    return follow(state, Decided(agent, branch_of(state, shared.max_turns), decision))


def _told(settled: SettledHuman) -> str:
    """Tell an agent what the user decided, and their words."""
    return f"The user's decision is {settled.decision}. Their words: {settled.answer}"
