"""The turns of a run, each a flow from one state to the next: of an agent, its tools and the human; and the beginning.

Every reply is judged before anything follows from it, and no call runs that was not judged valid in the same turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from strictreply.client._client import Exchange
from strictreply.contract._describing import compact
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
    carry_over,
    read_ledger,
    request_of,
)
from strictreply.coordination._runs.run_counting import Activity
from strictreply.coordination._runs.run_state import (
    HUMAN_INPUT,
    changed,
    create_initial_state,
    give_human_feedback,
    human_input,
    ledger_of,
    pending_requests,
    require,
    start_run,
)
from strictreply.coordination._topology import Topology
from strictreply.coordination._verdict_routes import resume_after_error
from strictreply.coordination.validation import with_reply_format
from strictreply.integrations.langgraph._graph_effects import AskAgent, AskHuman, JudgeReply, TurnFlow
from strictreply.integrations.langgraph._graph_settings import ChatAgent, GraphSettings
from strictreply.integrations.langgraph._graph_state import (
    BRANCH,
    RunState,
    agent_at,
    at_node,
    branch_at_start,
    branch_of,
    node_of,
    state_at_start,
    streak_of,
    with_streak,
    with_turn,
    with_turns,
)
from strictreply.integrations.langgraph._graph_state_checks import request_issues
from strictreply.integrations.langgraph._next_state import Decided, branch_after, follow, own_branch
from strictreply.pipeline._reply_calls import identified
from strictreply.pipeline._tool_results import result_turns
from strictreply.pipeline._turn_effects import RunTool, RunTools
from strictreply.pipeline._values import ToolCallManifest
from strictreply.values._attempts import Attempt
from strictreply.values._errors import CallFailed, ContractError, ReplyRejected
from strictreply.values._issues import Category, Issue
from strictreply.values._json import JSONObject, Message
from strictreply.values._replies import ToolCall, ToolCalls


def begin(
    topology: Topology,
    user_message: str,
    *,
    entry: str | None = None,
    state: RunState | None = None,
    **initial: Any,
) -> RunState:
    """Return the input of a run: ``user_message`` to ``entry``, which may be left out when there is one entry only.

    With ``state``, that of a run before, its conversation goes on: counted anew, nothing forgotten. Without it a
    conversation begins, also on a thread that was used before: agents and limits know nothing of what was there. What
    is pending at the human is asked first in either case; whoever asked is told the answer, and whatever it is, the run
    goes on at ``entry``. ``initial`` are keywords of :func:`~strictreply.coordination.create_initial_state`, for a
    first run only. On a thread whose run is inside parallel branches, their questions are dropped without ``state``.

    Raises ContractError when ``entry`` is not an agent, or has to be given, when ``initial`` is given beside ``state``,
    and for a state whose run is inside parallel branches: their questions stand in states of their own. Raises
    StateError for a state in which an agent that is not in the topology waits for an answer.
    """
    agent = entry or (topology.entries[0] if len(topology.entries) == 1 else None)
    if agent not in topology.agents:
        raise ContractError(f"pass the agent that the run begins with: entry=one of {', '.join(topology.entries)}")
    asked = f"The user said: {user_message}"
    if state is None:
        first = create_initial_state(user_message, **initial)
        return with_turn(state_at_start(first, agent, Branch(), asked=asked), agent, user_message)
    _require_free(state, initial)
    require(request_issues(topology, state))
    stored = {key: value for key, value in state.items() if key != "__interrupt__"}  # added by ``invoke``
    begun = start_run(cast("RunState", stored), user_message, entry=node_of(agent))
    branch = branch_at_start(Branch(), asked=asked)
    begun = changed(begun, branch=branch, calling=None, spawned=None, outcomes={}, outcome=None)
    return with_turn(begun, agent, user_message)


def _require_free(state: RunState, initial: Mapping[str, object]) -> None:
    """Raise ContractError for what a run that goes on cannot take, and for a state that another run still needs."""
    if initial:
        raise ContractError(f"begin: leave out {', '.join(sorted(initial))} beside state=, which has them already")
    history = state.get("routing_history", [])
    opened = any(request.resume_to == BRANCH for request in pending_requests(state))  # asked before branches go on
    if opened or (history and history[-1]["to"] == BRANCH):
        message = "begin: the run of this state is inside parallel branches; answer their questions (Command(resume=…))"
        raise ContractError(f"{message} or resume it (invoke(None, config)) until it ends, and go on from there")


def with_questions_before(state: RunState) -> RunState:
    """Return the first state of a run with what the run before left pending on the thread, as ``begin`` does.

    Whoever begins a run without the state before cannot know of it; LangGraph merges both ledgers. A run begins where
    nothing was executed and an agent is next; when the application itself asks, the human is next, and nothing changes.
    """
    entry = state["next_agent"]
    if state["loop_count"] or entry is None or entry == HUMAN_INPUT:
        return state
    flagged = state["requires_human_input"]
    return changed(state, human_requests=carry_over(ledger_of(state), entry, flagged=flagged))


def agent_turn(settings: GraphSettings, agent: ChatAgent, state: RunState) -> TurnFlow:
    """Ask an agent for its next action, judge it, and follow the router's decision."""
    if state["is_complete"]:  # a rule leads on to an agent: the end of the run is taken back
        state = changed(state, is_complete=False, ending=None, outcome=None)
    thread = state["threads"].get(agent.name, [])
    if not thread or thread[-1]["role"] == "assistant":  # nobody said anything to it
        state = with_turn(state, agent.name, state["branch"]["asked"])
    turn = _AgentTurn.of(settings, agent, state)
    answer: Exchange | CallFailed | ContentLoop = yield AskAgent(agent, turn.branch, state)
    if isinstance(answer, ContentLoop):
        return turn.looped(state, answer)
    state = with_streak(state, agent.name, answer.attempts)
    turn.count_calls(answer.attempts)
    if isinstance(answer, CallFailed):
        return turn.failed(state, answer)
    reply: Message = answer.transcript[-1]
    result: ValidationResult = yield JudgeReply(agent, turn.branch, reply, state)
    state = with_reply_format(state, agent.name, result)
    if result.tool_calls:  # calls are replayed natively, however they were written, together with their results
        reply = {"role": "assistant", "content": None, "tool_calls": result.tool_calls}
    else:
        reply = {"role": "assistant", "content": reply.get("content")}
        state = with_turns(state, agent.name, [reply])
    return turn.routed(state, result, reply)


def tools_turn(settings: GraphSettings, state: RunState, *, awaited: bool) -> TurnFlow:
    """Run the calls of an accepted reply, one after the other, and return their results to the agent.

    The first that fails ends the turn, and the agent is told of none; only the words of a ToolError are a result.
    Raises StateError when what the state holds is not a reply that is judged valid (requirement M118), and
    ContractError when a tool is async in a sync run; nothing has run then.
    """
    calling = state["calling"] or {}
    turn = _AgentTurn.of(settings, settings.agents[calling["agent"]], state)
    agent, branch = turn.agent, turn.branch
    result: ValidationResult = yield JudgeReply(agent, branch, calling["turn"], state)
    tools = settings.processor.terms(agent, branch).tools.by_name
    runs = [RunTool(tools[call.tool], call) for call in identified(ToolCalls(executable_calls(result)), "call")]
    for run in runs:
        run.tool.refuse_unrunnable(awaited=awaited)
    manifest, state = ToolCallManifest(), changed(state, calling=None)
    for run in runs:
        (outcome,) = yield RunTools((run,))
        if outcome.is_broken:
            issue = Issue("tool.raised", Category.TOOL_ERROR, "", "the code of a tool raised")
            return turn.routed(state, turn.refused((issue,)))
        manifest = replace(manifest, tool_call_results=(*manifest.tool_call_results, outcome.result))
    told = [calling["turn"], *result_turns(manifest, "native")]
    return changed(with_turns(state, agent.name, told), next_agent=node_of(agent.name))


def executable_calls(result: ValidationResult) -> tuple[ToolCall, ...]:
    """Return the calls of a verdict, to run them; StateError when it is not valid, or calls nothing (M118)."""
    if not result.is_valid or not result.calls:
        nothing = Issue("state.not_executable", Category.FORMAT_ERROR, "/calling", "holds no reply that calls a tool")
        raise StateError(result.issues or (nothing,))
    return result.calls


@dataclass(frozen=True, slots=True)
class _AgentTurn:
    """One agent that replies in one branch; ``home`` is the branch's type when no two agents talk in turns."""

    settings: GraphSettings
    agent: ChatAgent
    branch: Branch
    home: BranchType

    @classmethod
    def of(cls, settings: GraphSettings, agent: ChatAgent, state: RunState) -> _AgentTurn:
        home = BranchType(state["branch"]["home"])
        branch = own_branch(branch_of(state, settings.max_turns), home, agent.name)
        return cls(settings, agent, branch, home)

    def routed(self, state: RunState, result: ValidationResult, reply: Message | None = None) -> RunState:
        """Let the router decide what follows a verdict, and follow it."""
        branch = branch_after(self.settings.topology, self.branch, self.home, self.agent.name, result)
        budget = self.settings.router.policy.budget
        context = RoutingContext(
            current_agent=self.agent.name,
            current_branch_id=branch.id,
            retry_count=budget.max_retries,  # the client has spent what may be asked again
            transport_retries=budget.transport_retries,
        )
        decision = self.settings.router.decide(result, branch, context)
        return follow(state, Decided(self.agent, branch, decision, reply))

    def failed(self, state: RunState, error: CallFailed) -> RunState:
        """Follow a call that gave no action; where text alone spent what may be asked again, that is the reason."""
        if not isinstance(error, ReplyRejected):
            read = ApiError.of_exception(error) or ApiError()
            return self.routed(state, read.to_result(agent=self.agent.name, branch_id=self.branch.id))
        after, streak = self.routed(state, self.refused(error.issues)), streak_of(state, self.agent.name)
        limit, reason = self.settings.content_limit, (after["outcome"] or {}).get("reason")
        if reason != RoutingReason.RETRIES_SPENT or not limit.talks_on(streak):
            return after
        allowed = self.settings.processor.terms(self.agent, self.branch).permitted
        return self.looped(state, limit.loop(streak, actions=allowed.actions, tools=allowed.tools))

    def looped(self, state: RunState, loop: ContentLoop) -> RunState:
        """End the branch of an agent that only talks; the outcome holds what it said and the likely cause."""
        decision = refuse(RoutingReason.CONTENT_LOOP, str(loop))
        state = follow(state, Decided(self.agent, self.branch, decision))
        return changed(state, outcome={**(state["outcome"] or {}), "content_loop": loop.to_dict()})

    def refused(self, issues: Sequence[Issue]) -> ValidationResult:
        """Return the verdict on a turn that gave no action, or whose tool raised."""
        return refused(tuple(issues), self.settings.processor.terms(self.agent, self.branch))

    def count_calls(self, attempts: Sequence[Attempt]) -> None:
        """Count each request to a model, under the model's name, or else the agent's (requirement R40)."""
        if self.settings.metrics is None:
            return
        for attempt in attempts:
            model = str(attempt.request.get("model", self.agent.name))
            self.settings.metrics.done(Activity.LLM_CALLS, model, succeeded=attempt.accepted, seconds=attempt.seconds)


def human_turn(settings: GraphSettings, state: RunState) -> TurnFlow:
    """Put the first pending question to the human until an answer decides it, and go on as they decide.

    However often they are asked, it is one execution: waiting costs nothing of the loop bound. An invalid answer raises
    ContractError when the run waits for another, and is passed over as soon as it has another. An answer that the state
    brought along, without a checkpointer, is heard first. Raises StateError for a question that no agent of the
    topology waits for; nobody is asked then.
    """
    state = with_questions_before(state)
    require(request_issues(settings.topology, state))
    brought, asking = state["human_feedback"], changed(state, human_feedback=None)
    state = human_input(asking)  # the question is put among the messages
    request, refused = pending_requests(state)[0], None
    home = node_of(agent_at(settings.topology, request.interrupted) or settings.topology.entries[0])
    words = settings.words_for(request.kind)
    while (settled := _settled(state, request)) is None:
        answer = brought or (yield AskHuman(_question(request), refused))
        brought = None
        try:
            state = human_input(give_human_feedback(state, answer), home=home, words=words)
        except ContractError as error:
            refused = error
    return _answered(settings, at_node(settings.topology, state), settled)


def _settled(state: RunState, request: PendingHuman) -> SettledHuman | None:
    """Return a request with its answer, None while it is pending."""
    found = next(one for one in read_ledger(ledger_of(state)) if request_of(one).id == request.id)
    return found if isinstance(found, SettledHuman) else None


def _question(request: PendingHuman) -> JSONObject:
    """Return a request as the value of an interrupt: what is asked, and the decisions that an answer may take."""
    decisions = sorted(decision.value for decision in request.kind.decisions)
    return {"id": request.id, "kind": request.kind.value, "question": request.question, "decisions": decisions}


def _answered(settings: GraphSettings, state: RunState, settled: SettledHuman) -> RunState:
    """Go on after an answer: the agent that asked is told, and after an error of this run the recovery decides.

    When the run or branch that asked is over, only an abort decides anything more, and that only within the same run.
    """
    topology = settings.topology
    request, aborts = settled.request, settled.decision is HumanDecision.ABORT
    if aborts and request.carried:
        return state
    asker = agent_at(topology, request.tell_to or request.resume_to)
    told = asker or agent_at(topology, state["next_agent"]) or topology.entries[0]
    if request.kind is not HumanKind.ERROR or (request.tell_to is not None and not aborts):
        return with_turn(state, told, _answer_text(settled))
    failed = replace(request, resume_to=told, skip_to=agent_at(topology, request.skip_to))
    decision = resume_after_error(topology, failed, settled.decision)
    return follow(state, Decided(settings.agents[told], branch_of(state, settings.max_turns), decision))


def _answer_text(settled: SettledHuman) -> str:
    """Return what an agent is told of a decision; the question is repeated when the run that asked it is over."""
    request, words = settled.request, f"The user's decision is {settled.decision}. Their words: {settled.answer}"
    if request.tell_to is None:
        return words
    about = "How to go on after an error" if request.kind is HumanKind.ERROR else compact(request.question)
    return f"A question from before is answered: {about}. {words}"
