"""The turns of a run: flows from one state to the next.

A turn is an agent's or the human's. The turns of tools are in ``_graph_tools``, and the beginning
of a run is in ``_run_beginning``. Every reply is judged before the run acts on it. A call runs only
if it was judged valid in the same turn.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from strictreply import CallFailed, ContractError, Exchange, Issue, ReplyRejected
from strictreply.coordination import (
    HUMAN_INPUT,
    Activity,
    ApiError,
    BranchType,
    CoordinationCode,
    HumanDecision,
    HumanKind,
    PendingHuman,
    RoutingContext,
    RoutingDecision,
    RoutingReason,
    StateError,
    Topology,
    ValidationResult,
    give_human_feedback,
    human_input,
    resume_after_error,
)
from strictreply.coordination.state import (
    SettledHuman,
    carry_over_requests,
    pending_requests,
    read_requests,
)
from strictreply.coordination.steering import ContentLoop
from strictreply.coordination.validation import with_reply_format
from strictreply.core import Check, JSONObject, Message
from strictreply.core.text import compact, pointer, quote
from strictreply.integrations.langgraph._graph_settings import ChatAgent, GraphSettings
from strictreply.integrations.langgraph._graph_state import (
    BRANCH,
    RunState,
    agent_at,
    at_node,
    branch_of,
    changed,
    node_of,
    noted,
    with_turn,
)
from strictreply.integrations.langgraph._next_state import follow
from strictreply.integrations.langgraph._run_loops import streak_of, with_streak
from strictreply.integrations.langgraph._thread_turns import spoken_message, with_kept_thoughts

USER_SAID: Final = "The user said: "


@dataclass(frozen=True, slots=True)
class AskAgent:
    """Effect: ask an agent for its next action.

    The result is the exchange, or the CallFailed that ended it.
    """

    agent: ChatAgent
    request: JSONObject


@dataclass(frozen=True, slots=True)
class AskHuman:
    """Effect: interrupt the run until a person answers.

    ``refused`` is the fault of the previous answer.
    """

    question: JSONObject
    refused: ContractError | None = None


GraphEffect: TypeAlias = AskAgent | AskHuman | Check
TurnFlow: TypeAlias = Generator[GraphEffect, Any, RunState]


def request_issues(topology: Topology, state: RunState) -> Iterator[Issue]:
    """Yield the targets of pending questions that are not valid.

    A target is an agent, or the branches that the run waits for.
    """
    known = ", ".join(topology.agents)
    hint = "clear_human_input_request cancels the first pending question"

    for index, request in enumerate(read_requests(state)):
        if not isinstance(request, PendingHuman):
            continue

        for member in ("resume_to", "skip_to", "tell_to"):
            target = getattr(request, member)
            opens = target == BRANCH and state["spawned"] is not None and member != "tell_to"
            if target is not None and not opens and agent_at(topology, target) is None:
                at = pointer("/human_requests", index, member)
                yield CoordinationCode.STATE_UNKNOWN_WORD.at(
                    at, expected=known, found=quote(target), hint=hint
                )


def agent_turn(settings: GraphSettings, agent: ChatAgent, state: RunState) -> TurnFlow:
    """Ask an agent for its next action, judge it, and follow the router's decision."""
    if state["is_complete"]:  # a rule leads to another agent, so the run continues
        state = changed(state, is_complete=False, ending=None, outcome=None)

    if settings.hand_over == "history" and state.get("history") is None:
        first = {"agent": "user", "text": state["branch"]["asked"].removeprefix(USER_SAID)}
        state = changed(state, history=[first], heard={agent.name: 1})

    thread = state["threads"].get(agent.name, [])
    if not thread or thread[-1]["role"] == "assistant":  # the agent has no new input
        state = with_turn(state, agent.name, state["branch"]["asked"])

    branch = branch_of(state, settings.max_turns, agent.name)
    answer = settings.processor.answer_kind(agent, branch, state)
    allowed = answer.terms.permitted
    streak = streak_of(state, agent.name)
    following = settings.content_limit.next(streak, actions=allowed.actions, tools=allowed.tools)
    if isinstance(following, ContentLoop):
        return _looped(settings, agent, state, following)

    request = settings.request(
        agent, answer, streak, state["threads"][agent.name], steer=following.steer
    )
    asked: Exchange | CallFailed = yield AskAgent(agent, request)
    answer.count(asked.attempts, asked.reply if isinstance(asked, Exchange) else None)

    for attempt in asked.attempts:
        model = str(attempt.request.get("model", agent.name))
        settings.metrics.done(
            Activity.LLM_CALLS, model, succeeded=attempt.accepted, seconds=attempt.seconds
        )

    state = with_streak(state, agent.name, asked.attempts)
    if isinstance(asked, CallFailed):
        return _failed(settings, agent, state, asked)

    # ``judging`` does not count the reply, which was already counted when it was received.
    message = asked.transcript[-1]
    spoken = spoken_message(message, agent.wire)
    result = yield from settings.processor.judging(spoken, agent, branch, state)
    state = with_reply_format(state, agent.name, result)
    reply: JSONObject = {"role": "assistant", "content": spoken.get("content")}

    if result.tool_calls:
        # calls are replayed natively, in whatever form they were written, with their results
        reply |= {"content": None, "tool_calls": result.tool_calls}
        opening = request[agent.wire.replay.keyword][0]
        reply = with_kept_thoughts(reply, message, agent.wire, opening, answer.contract)
    else:
        state = with_turn(state, agent.name, reply)

    return routed(settings, agent, state, result, reply)


def routed(
    settings: GraphSettings,
    agent: ChatAgent,
    state: RunState,
    result: ValidationResult,
    reply: Message | None = None,
) -> RunState:
    """Return the state that follows from a verdict on an agent's action."""
    branch = branch_of(state, settings.max_turns, agent.name)

    if (target := result.next_agent) is not None:
        pair = (agent.name, target)
        talking = branch.type is BranchType.CONVERSATION and set(pair) == set(branch.agents)
        if not settings.topology.in_conversation(*pair):
            branch = replace(branch, type=BranchType(state["branch"]["home"]), agents=(), turns=0)
        elif not talking:
            branch = replace(branch, type=BranchType.CONVERSATION, agents=pair, turns=0)

    budget = settings.router.policy.budget
    context = RoutingContext(
        current_agent=agent.name,
        current_branch_id=branch.id,
        # the client has used up its retries
        retry_count=budget.max_retries,
        transport_retries=budget.repeats,
    )
    return follow(state, agent, branch, settings.router.decide(result, branch, context), reply)


def _failed(
    settings: GraphSettings, agent: ChatAgent, state: RunState, error: CallFailed
) -> RunState:
    """Handle a call that returned no action.

    If replies of text alone used up the retries, that is the reason.
    """
    branch = branch_of(state, settings.max_turns, agent.name)

    if not isinstance(error, ReplyRejected):
        read = ApiError.of_exception(error) or ApiError()
        result = read.to_result(agent=agent.name, branch_id=branch.id)
        return routed(settings, agent, state, result)

    terms = settings.processor.terms(agent, branch)
    limit = settings.content_limit
    streak = streak_of(state, agent.name)

    refused = settings.processor.refused(error.issues, agent, branch)
    after = routed(settings, agent, state, refused)
    reason = (after["outcome"] or {}).get("reason")
    if reason != RoutingReason.RETRIES_SPENT or not limit.talks_on(streak):
        return after

    loop = limit.loop(streak, actions=terms.permitted.actions, tools=terms.permitted.tools)
    return _looped(settings, agent, state, loop)


def _looped(
    settings: GraphSettings, agent: ChatAgent, state: RunState, loop: ContentLoop
) -> RunState:
    branch = branch_of(state, settings.max_turns, agent.name)
    words = str(loop)
    decision = RoutingDecision.stopped(RoutingReason.CONTENT_LOOP, words, error=words)
    state = follow(state, agent, branch, decision)
    return changed(state, outcome={**(state["outcome"] or {}), "content_loop": loop.to_dict()})


def human_turn(settings: GraphSettings, state: RunState) -> TurnFlow:
    """Ask the human the first pending question until an answer decides it.

    The run continues as the answer decides. Repeated questions count as one execution for the loop
    bound. An invalid answer raises ContractError, and the run waits for another. Raises StateError,
    before the human is asked, for a question that no agent waits for.
    """
    topology = settings.topology
    entry = state["next_agent"]
    if not state["loop_count"] and entry not in (None, HUMAN_INPUT):
        # A new run begins. Its input does not have the questions that the previous run left
        # pending, because LangGraph merges both ledgers.
        state = carry_over_requests(state, entry)

    StateError.raise_for(request_issues(topology, state))
    brought = state["human_feedback"]  # without a checkpointer the input contains the answer
    # the question becomes one of the messages
    state = human_input(changed(state, human_feedback=None))
    request = pending_requests(state)[0]

    decisions = request.kind.decisions
    question: JSONObject = {
        "id": request.id,
        "kind": request.kind.value,
        "question": request.question,
        "decisions": sorted(decision.value for decision in decisions),
    }
    home = node_of(agent_at(topology, request.interrupted) or topology.entries[0])
    known = (settings.words or {}).items()
    words = {word: decision for word, decision in known if decision in decisions}

    settled = None
    refusal = None
    while settled is None:
        answer = brought or (yield AskHuman(question, refusal))
        brought = None

        try:
            state = human_input(give_human_feedback(state, answer), home=home, words=words)
        except ContractError as error:
            refusal = error

        ended = (one for one in read_requests(state) if isinstance(one, SettledHuman))
        settled = next((one for one in ended if one.request.id == request.id), None)

    return _answered(settings, at_node(topology, state), settled)


def _answered(settings: GraphSettings, state: RunState, settled: SettledHuman) -> RunState:
    """Continue after an answer, which is passed to the agent that asked.

    After an error of this run the recovery decides.
    """
    topology = settings.topology
    request = settled.request
    aborts = settled.decision is HumanDecision.ABORT
    if aborts and request.carried:
        return state

    asker = agent_at(topology, request.tell_to or request.resume_to)
    recipient = asker or agent_at(topology, state["next_agent"]) or topology.entries[0]

    if request.kind is HumanKind.ERROR and (request.tell_to is None or aborts):
        failed = replace(request, resume_to=recipient, skip_to=agent_at(topology, request.skip_to))
        decision = resume_after_error(topology, failed, settled.decision)
        return follow(
            state, settings.agents[recipient], branch_of(state, settings.max_turns), decision
        )

    words = f"The user's decision is {settled.decision}. Their words: {settled.answer}"
    if request.tell_to is not None:
        if request.kind is HumanKind.ERROR:
            about = "How to go on after an error"
        else:
            about = compact(request.question)
        words = f"An earlier question was answered: {about}. {words}"

    state = noted(state, "user", settled.answer)
    return with_turn(state, recipient, words)
