"""The turns of a run, each a flow from a state to the next: an agent's, its tools', the human's, a branch's.

Every reply is judged before anything follows from it, and no call runs that is not judged right in the same turn.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from strictreply.contract._describing import compact
from strictreply.coordination._action_answer import with_reply_format
from strictreply.coordination._action_rules import refused
from strictreply.coordination._actions import Branch, BranchType, ValidationResult
from strictreply.coordination._api_errors import ApiError
from strictreply.coordination._coordination_codes import StateError
from strictreply.coordination._error_policy import ContentLoop
from strictreply.coordination._routing_decision import RoutingContext, RoutingReason, refuse
from strictreply.coordination._runs.human_requests import (
    HumanDecision,
    HumanKind,
    PendingHuman,
    SettledHuman,
    read_ledger,
    request_of,
)
from strictreply.coordination._runs.human_turn import give_human_feedback, human_input, ledger_of, pending_requests
from strictreply.coordination._runs.run_counting import Activity, RunMetrics
from strictreply.coordination._runs.run_state import changed, require
from strictreply.coordination._verdict_routes import resume_after_error
from strictreply.integrations.langgraph._agents import ChatAgent, assistant_turn
from strictreply.integrations.langgraph._beginning import with_questions_before
from strictreply.integrations.langgraph._effects import AskAgent, Asked, AskHuman, Effect, Judge, RunBranch
from strictreply.integrations.langgraph._following import Coordination, Decided, follow, own_branch, talking
from strictreply.integrations.langgraph._integrity import request_issues
from strictreply.integrations.langgraph._states import (
    RunState,
    agent_at,
    at_node,
    branch_of,
    kept_outcome,
    node_of,
    with_turn,
    with_turns,
)
from strictreply.integrations.langgraph._streaks import streak_of, with_streak
from strictreply.pipeline._reply_calls import identified
from strictreply.pipeline._tool_results import result_turns
from strictreply.pipeline._turn_effects import RunTool, RunTools
from strictreply.pipeline._values import ToolCallManifest
from strictreply.values._attempts import Attempt
from strictreply.values._errors import CallFailed, ContractError, ReplyRejected
from strictreply.values._issues import Category, Issue
from strictreply.values._json import JSONObject, Message
from strictreply.values._replies import ToolCall, ToolCalls

Turn: TypeAlias = Generator[Effect, Any, RunState]


def agent_turn(shared: Coordination, agent: ChatAgent, state: RunState) -> Turn:
    """Ask an agent for its next action, judge it, and follow where the router leads it."""
    state = _addressed(_reopened(state), agent.name)
    branch = _branch_of(shared, state, agent.name)
    answered: Asked = yield AskAgent(agent, branch, state)
    if isinstance(answered, ContentLoop):
        return _looped(agent, branch, state, answered)
    state = with_streak(state, agent.name, answered.attempts)
    _count_calls(shared.metrics, agent, answered.attempts)
    if isinstance(answered, CallFailed):
        return _unanswered(shared, agent, branch, state, answered)
    message: Message = answered.transcript[-1]
    result: ValidationResult = yield Judge(agent, branch, message, state)
    state = with_reply_format(state, agent.name, result)
    turn = assistant_turn(message, result.tool_calls)
    if not result.tool_calls:  # calls join the thread together with their results
        state = with_turns(state, agent.name, [turn])
    return _routed(shared, agent, branch, state, result, turn)


def tools_turn(shared: Coordination, state: RunState, *, awaited: bool) -> Turn:
    """Run the calls of an accepted reply, one after the other, and give their results back to the agent.

    The first that fails ends the turn, and the agent hears of none; only the words of a ToolError are a result. Raises
    StateError when what the state holds is not a reply that is judged right (requirement M118), and ContractError when
    a tool is async in a sync run; nothing has run then.
    """
    calling = state["calling"] or {}
    agent = shared.agents[calling["agent"]]
    branch = _branch_of(shared, state, agent.name)
    result: ValidationResult = yield Judge(agent, branch, calling["turn"], state)
    tools = shared.processor.terms(agent, branch).tools.by_name
    runs = [RunTool(tools[call.tool], call) for call in identified(ToolCalls(executable_calls(result)), "call")]
    for run in runs:
        run.tool.refuse_unrunnable(awaited=awaited)
    manifest = ToolCallManifest()
    for run in runs:
        (outcome,) = yield RunTools((run,))
        if outcome.is_broken:
            return _routed(shared, agent, branch, changed(state, calling=None), _broken_tool(shared, agent, branch))
        manifest = replace(manifest, tool_call_results=(*manifest.tool_call_results, outcome.result))
    told = [calling["turn"], *result_turns(manifest, "native")]
    return changed(with_turns(changed(state, calling=None), agent.name, told), next_agent=node_of(agent.name))


def executable_calls(result: ValidationResult) -> tuple[ToolCall, ...]:
    """Give the calls of a verdict, to run them; StateError when it is not valid, or calls nothing (M118)."""
    if not result.is_valid or not result.calls:
        nothing = Issue("state.not_executable", Category.FORMAT_ERROR, "/calling", "holds no reply that calls a tool")
        raise StateError(result.issues or (nothing,))
    return result.calls


def human_turn(shared: Coordination, state: RunState) -> Turn:
    """Put the question in front to the human until an answer decides it, and go on as they decide.

    However often they are asked, it is one execution: waiting costs nothing of the loop bound. An answer that cannot be
    one raises ContractError when the run waits for another, and is passed over as soon as it has another. An answer
    that the state brought along, without a checkpointer, is heard first. Raises StateError for a question that no
    agent of the topology waits for; nobody is asked then.
    """
    state = with_questions_before(state)
    require(request_issues(shared.topology, state))
    brought, asking = state["human_feedback"], changed(state, human_feedback=None)
    state = human_input(asking)  # the question is put among the messages
    request, refused = pending_requests(state)[0], None
    home = node_of(agent_at(shared.topology, request.interrupted) or shared.home)  # a run may begin at any entry
    words = shared.words_for(request.kind)
    while (settled := _settled(state, request)) is None:
        answer = brought or (yield AskHuman(question(request), refused))
        brought = None
        try:
            state = human_input(give_human_feedback(state, answer), home=home, words=words)
        except ContractError as error:
            refused = error
    return _answered(shared, at_node(shared.topology, state), settled)


def _settled(state: RunState, request: PendingHuman) -> SettledHuman | None:
    """Give the end of a request, None while it is pending."""
    found = next(one for one in read_ledger(ledger_of(state)) if request_of(one).id == request.id)
    return found if isinstance(found, SettledHuman) else None


def question(request: PendingHuman) -> JSONObject:
    """Spell a request as the value of an interrupt: what is asked, and the decisions an answer may take."""
    decisions = sorted(decision.value for decision in request.kind.decisions)
    return {"id": request.id, "kind": request.kind.value, "question": request.question, "decisions": decisions}


def branch_turn(state: RunState) -> Generator[Effect, Any, JSONObject]:
    """Run a parallel branch to its end, and tell the line that opened it what it came to.

    What the branch left pending at a human is asked on that line, and the agent that opened the branch is told.
    """
    last: RunState = yield RunBranch(state)
    spent, formats = last["loop_count"] - state["loop_count"], last.get("reply_formats", {})
    leads_to = last["branch"].get("leads_to")
    told = kept_outcome(last) | {"spent": spent, "reply_formats": formats, "leads_to": leads_to}
    spawner = node_of(state["branch"]["spawner"])
    orphans = [request.handed_over(spawner, tell_to=spawner).to_dict() for request in pending_requests(last)]
    settled = [entry for entry in ledger_of(last) if "settled_at" in entry]
    return {"outcomes": {state["branch"]["id"]: told}, "human_requests": [*settled, *orphans]}


def _branch_of(shared: Coordination, state: RunState, agent: str) -> Branch:
    """Read the branch that an agent replies in."""
    return own_branch(branch_of(state, shared.max_turns), BranchType(state["branch"]["home"]), agent)


def _reopened(state: RunState) -> RunState:
    """Take back the end of a run that a rule leads on to an agent."""
    return changed(state, is_complete=False, ending=None, outcome=None) if state["is_complete"] else state


def _addressed(state: RunState, agent: str) -> RunState:
    """See that an agent is asked something: one that nobody said anything to is told what its line was asked."""
    thread = state["threads"].get(agent, [])
    silent = not thread or thread[-1]["role"] == "assistant"
    return with_turn(state, agent, state["branch"]["asked"]) if silent else state


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
    return follow(state, Decided(agent, branch, decision, turn))


def _unanswered(shared: Coordination, agent: ChatAgent, branch: Branch, state: RunState, error: CallFailed) -> RunState:
    """Follow a call that gave no action; where words alone spent what may be asked again, that is the reason."""
    after, streak = (
        _routed(shared, agent, branch, state, _failed(shared, agent, branch, error)),
        streak_of(state, agent.name),
    )
    spent = (after["outcome"] or {}).get("reason") == RoutingReason.RETRIES_SPENT
    if not spent or not isinstance(error, ReplyRejected) or not shared.content_limit.talks_on(streak):
        return after
    allowed = shared.processor.terms(agent, branch).permitted
    return _looped(
        agent, branch, state, shared.content_limit.loop(streak, actions=allowed.actions, tools=allowed.tools)
    )


def _looped(agent: ChatAgent, branch: Branch, state: RunState, loop: ContentLoop) -> RunState:
    """End the line of an agent that only talks; programs find what it said and the likely cause in the outcome."""
    state = follow(state, Decided(agent, branch, refuse(RoutingReason.CONTENT_LOOP, str(loop))))
    return changed(state, outcome={**(state["outcome"] or {}), "content_loop": loop.to_dict()})


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
    """Go on after an answer: the agent that asked is told, and of an error of this line the recovery decides.

    When the line that asked is over, only an abort decides anything more, and that only within the same run.
    """
    topology = shared.topology
    request, aborts = settled.request, settled.decision is HumanDecision.ABORT
    if aborts and request.carried:
        return state
    asker = agent_at(topology, request.tell_to or request.resume_to)
    told = asker or agent_at(topology, state["next_agent"]) or shared.home
    if request.kind is not HumanKind.ERROR or (request.tell_to is not None and not aborts):
        return with_turn(state, told, _told(settled))
    failed = replace(request, resume_to=told, skip_to=agent_at(topology, request.skip_to))
    decision = resume_after_error(topology, failed, settled.decision)
    return follow(state, Decided(shared.agents[told], branch_of(state, shared.max_turns), decision))


def _told(settled: SettledHuman) -> str:
    """Tell an agent what the user decided, and their words; of a question whose line is over also which it was."""
    request, words = settled.request, f"The user's decision is {settled.decision}. Their words: {settled.answer}"
    if request.tell_to is None:
        return words
    about = "How to go on after an error" if request.kind is HumanKind.ERROR else compact(request.question)
    return f"A question from before is answered: {about}. {words}"


def _count_calls(metrics: RunMetrics | None, agent: ChatAgent, attempts: Sequence[Attempt]) -> None:
    """Count each request to a model, under the model's name, or else the agent's (requirement R40)."""
    if metrics is None:
        return
    for attempt in attempts:
        model = str(attempt.request.get("model", agent.name))
        metrics.done(Activity.LLM_CALLS, model, succeeded=attempt.accepted, seconds=attempt.seconds)
