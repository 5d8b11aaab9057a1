"""The human's turn: a request goes into the state, its prompt is put once, an answer settles it and says what is next.

A request leaves the ledger's pending part by an answer or by :func:`clear_human_input_request`, and in no other way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from strictreply.coordination._runs.human_requests import (
    LEDGER,
    HumanDecision,
    HumanKind,
    HumanRequest,
    PendingHuman,
    SettledHuman,
    Words,
    merge_ledgers,
    read_answer,
    read_ledger,
    require_text,
    unworded,
)
from strictreply.coordination._runs.run_state import (
    COORDINATOR,
    HUMAN_INPUT,
    AgentState,
    Now,
    RunEnding,
    S,
    changed,
    mark_complete,
    new_id,
    require,
    said,
    utc_now,
)
from strictreply.coordination._runs.state_schema import ANYTHING, FLAG, LIST, OPTIONAL_TEXT, StateSchema, record
from strictreply.values._json import JSONObject

_ASKED: JSONObject = {"requires_human_input": FLAG, "next_agent": ANYTHING, "human_requests": LEDGER}
_REQUESTS = StateSchema(record(_ASKED, optional=["human_requests"]))
_TURN = StateSchema(record({"messages": LIST, "human_feedback": OPTIONAL_TEXT}))


def request_human_input(
    state: S,
    prompt: str = "",
    *,
    kind: HumanKind = HumanKind.GENERAL,
    resume_to: str | None = None,
    skip_to: str | None = None,
    now: Now = utc_now,
    make_id: Callable[[], str] = new_id,
) -> S:
    """Ask a human: the flag is set, the next target is ``human_input``, and the request stands in the ledger.

    ``prompt`` is empty for the words of ``kind``. An answer leads to ``resume_to``, None for where the graph begins; of
    an error, ``retry`` leads back to the interrupted agent unless ``resume_to`` says otherwise, and ``skip`` to
    ``skip_to``. A request made while another is pending waits behind it, and interrupts the same target.
    """
    state = adopted(state)
    interrupted = _interrupted(state)
    failed = interrupted if kind is HumanKind.ERROR and interrupted != HUMAN_INPUT else None
    question = PendingHuman(
        id=make_id(),
        kind=kind,
        prompt=prompt,
        resume_to=resume_to or failed,
        skip_to=skip_to,
        interrupted=interrupted,
        requested_at=now().isoformat(),
    )
    return put_question(state, question)


def put_question(state: S, question: PendingHuman) -> S:
    """Ask a human what a question says, as :func:`request_human_input` does; one with the same id is asked once."""
    return changed(_noted(adopted(state), question), requires_human_input=True, next_agent=HUMAN_INPUT)


def clear_human_input_request(
    state: S, *, request_id: str | None = None, home: str = COORDINATOR, now: Now = utc_now
) -> S:
    """Cancel a request: flag and feedback are cleared, and the interrupted target stands again.

    ``request_id`` is the request to cancel, None for the first one; one that is not pending any more is left as it is.
    While others wait the flag stays, and the next target is still ``human_input``: what is cancelled behind the first
    one takes nothing of its feedback. The run goes on at ``home`` when nothing but the human's turn was interrupted.
    """
    state = adopted(state)
    waiting = pending_requests(state)
    chosen = next((one for one in waiting if request_id in (None, one.id)), None)
    if chosen is None:
        if request_id is not None:
            return state
        # a flag without a request; a run that was sent to the human by hand does not go there again
        target = home if state["next_agent"] == HUMAN_INPUT else state["next_agent"]
        return changed(state, requires_human_input=False, human_feedback=None, next_agent=target)
    settled = SettledHuman(chosen, decision=None, settled_at=now().isoformat())
    if chosen != waiting[0]:
        return _noted(state, settled)
    return _settled(state, settled, home if chosen.interrupted == HUMAN_INPUT else chosen.interrupted)


def give_human_feedback(state: S, answer: str) -> S:
    """Hand the human's answer to the state, for :func:`human_input` to read; ContractError for what is no text."""
    return changed(state, human_feedback=require_text(answer))


def human_input(state: S, *, home: str = COORDINATOR, words: Words | None = None, now: Now = utc_now) -> S:
    """Take the human's turn: wait when there is no feedback, else read it as the answer to the first request.

    Waiting puts the request's prompt among the messages once. An answer becomes a user message and clears flag and
    feedback; the run goes on at the request's ``resume_to``, or at ``home``. ``abort`` completes the run, unless the
    question is of a run before this one. An answer that decides nothing is a message too, and the prompt is put again.
    ``words`` are further answers, as in :func:`read_answer`, which also says when an answer raises ContractError.
    """
    require(_TURN.issues(state))
    state = adopted(state)
    if not (waiting := pending_requests(state)):
        state, waiting = _opened(state)
    request, feedback = waiting[0], state["human_feedback"]
    if feedback is None or not feedback.strip():
        return _asking(state, request, now) if request.asked == 0 else _still_waiting(state)
    state = changed(state, messages=[*state["messages"], said("user", feedback, now)])
    decision = read_answer(request.kind, feedback, words=words)
    if decision is None:
        return _asking(state, request, now)
    said_to = request.skip_to if decision is HumanDecision.SKIP else request.resume_to
    target = said_to or (request.interrupted if request.redirected else None) or home
    state = _settled(state, SettledHuman(request, decision, feedback, now().isoformat()), target)
    # who answers to a run before this one says nothing of this one
    aborts = decision is HumanDecision.ABORT and not request.carried
    return mark_complete(state, RunEnding.ABORTED) if aborts else state


def pending_requests(state: AgentState) -> tuple[PendingHuman, ...]:
    """Return the requests that no human has answered, in the order they are asked; StateError for a broken ledger."""
    return tuple(one for one in read_ledger(ledger_of(state), "/human_requests") if isinstance(one, PendingHuman))


def last_answer(state: AgentState) -> SettledHuman | None:
    """Return the request that was answered last, with its decision; None when none was."""
    found = read_ledger(ledger_of(state), "/human_requests")
    answers = [one for one in found if isinstance(one, SettledHuman) and one.decision is not None]
    return max(answers, key=lambda one: one.settled_at, default=None)


def ledger_of(state: AgentState) -> list[JSONObject]:
    """Return the ledger as the state holds it, empty when it has none yet."""
    return state.get("human_requests", [])


def adopted(state: S) -> S:
    """Return a state whose flag, when it was set by hand, has a request behind it, so that it cannot be overwritten.

    Raises StateError when the fields that a request stands in are missing or mistyped.
    """
    require(_REQUESTS.issues(state))
    return _opened(state)[0] if state["requires_human_input"] and not pending_requests(state) else state


def _opened(state: S) -> tuple[S, tuple[PendingHuman, ...]]:
    request = unworded(ledger_of(state), _interrupted(state))
    return _noted(state, request), (request,)


def _interrupted(state: AgentState) -> str | None:
    """Return the target that the human's turn comes before, None when there is none.

    While others are pending the human's turn has interrupted it already: it is theirs. ``human_input`` itself stands
    for a target that nobody knows: a run that was sent to the human by hand.
    """
    target: object = state["next_agent"]
    if target == HUMAN_INPUT and (waiting := pending_requests(state)):
        return waiting[-1].interrupted
    return target if isinstance(target, str) else None


def _noted(state: S, *news: HumanRequest) -> S:
    return changed(state, human_requests=merge_ledgers(ledger_of(state), [one.to_dict() for one in news]))


def _asking(state: S, request: PendingHuman, now: Now) -> S:
    messages = [*state["messages"], said("assistant", request.question, now)]
    return _still_waiting(_noted(changed(state, messages=messages), replace(request, asked=request.asked + 1)))


def _still_waiting(state: S) -> S:
    return changed(state, requires_human_input=True, human_feedback=None, next_agent=HUMAN_INPUT)


def _settled(state: S, settled: SettledHuman, target: str | None) -> S:
    """Write the end of a request, and go on to ``target`` unless another request waits.

    Those that wait then interrupt what an answer has led to: that is what cancelling them restores.
    """
    state = changed(_noted(state, settled), human_feedback=None)
    if not (waiting := pending_requests(state)):
        return changed(state, requires_human_input=False, next_agent=target)
    if settled.decision is not None:
        news = (replace(one, interrupted=target, redirected=one.redirected + 1) for one in waiting)
        state = _noted(state, *news)
    return _still_waiting(state)
