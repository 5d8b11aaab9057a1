"""The loop: send a request, judge the reply, and correct it, until one fits or a budget ends it.

The loop does no I/O: it yields effects (:data:`Effect`) and receives events (:data:`Event`). So the
same loop serves sync and async clients, streams, files of a provider's batch, and tests.

Each effect is answered by one event, and both decide what follows:

=========  ====================  =================================================================
effect     event                 what follows
=========  ====================  =================================================================
Call       Replied or Failed     Check, if the reply fits and a called tool has its own check;
                                 otherwise Notify
Check      Checked               Notify; the reply no longer fits if the check found a fault
Notify     Noted                 Settled, if the reply fits; HandedOn, if none of its faults is
                                 enforced; Call, if the endpoint rejected an addition of
                                 strictreply (the same request without it). Otherwise the policy
                                 decides: Ended, or the next three effects and a Call
Claim      Noted                 only before a failed call is repeated: Ended, if the client's
                                 budget of repeats is empty
Sleep      Noted                 only if the policy or the server requests a pause
Consult    Consulted             only if a human writes the correction: Ended without one
=========  ====================  =================================================================

A pass of the loop is one Call, one Notify and one attempt: the watchers get every attempt,
including the last. Each event says how many seconds it took. Their sum is compared with the
deadline after every event, so a reply that fits too late is discarded, and its attempt still counts
all that was spent.

The result of a Call is one of five (:data:`Judged`):

=============  =======================================  ==========================================
judged         when                                     what the policy may do
=============  =======================================  ==========================================
Fits           the reply fits, in time, and its checks  nothing: it is accepted
               found no fault
Unfit          a message does not fit: on its own,      correct it, or end the call
               merged into the frozen reply, or as a
               part that could not be merged
LimitRefused   the server rejected a token limit that   send the last correction again with a
               a correction had raised                  lower limit; the reply that it corrects
                                                        counts as cut off
Paused         the API paused the turn                  send the turn back to be continued; the
                                                        continuation is judged together with it
NoReply        the call failed, the response is not a   send the same request again, or end the
               complete completion, the response ends   call
               the call, or a reply fits too late
=============  =======================================  ==========================================
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from strictreply.contract._contract import Check, Checked, Contract, check_of
from strictreply.contract._judge import (
    counts_anew,
    judge_opened,
    opened_for,
    with_fresh_ids,
    with_numbered_ids,
)
from strictreply.retry._asking import (
    Asked,
    BadReply,
    CallPlan,
    Correction,
    FirstRequest,
    Resend,
    Turn,
    constraint_refused,
    constraints_of,
    consult_for,
    cut_at_limit,
    first_turn,
    next_turn,
    refused_by,
    without,
)
from strictreply.retry._constraining import READ_AS_CALL, read_union, unheld_by
from strictreply.retry._enforcing import calls_enforced, is_enforced
from strictreply.retry._failures import TOO_LONG, Failure, failure_in
from strictreply.retry._policy import (
    Again,
    Consult,
    Consulted,
    End,
    NextStep,
    end_at,
    is_paused,
)
from strictreply.retry._replaying import words_of
from strictreply.retry._restoring import restored
from strictreply.retry._scoping import Scope, scope_of, splice
from strictreply.retry._shaping import has_schema
from strictreply.values._drafts import Draft
from strictreply.values._issues import Code, Issue, Remedy
from strictreply.values._limits import JSON, JSONObject, Message
from strictreply.values._replies import (
    AssistantReply,
    Attempt,
    Invalid,
    StoppedEarly,
    Usage,
    Valid,
    Verdict,
    without_transport,
)
from strictreply.values._requests import Request
from strictreply.wires._dialects import IDS_OF_SERVERS
from strictreply.wires._endings import error_code, failed_generation
from strictreply.wires._wire import Opened

AsksFor: TypeAlias = Literal["reply", "calls", "part"]

_TOO_LATE = Failure("deadline", retryable=False)
"""The failure of a valid reply that was ready only after the deadline, and is discarded."""

_NO_FAULT = Invalid(())

_KEEPING = frozenset(
    {Code.TOOL_SWITCHED, Code.REPLY_TRUNCATED, Code.CALL_UNREADABLE, Code.REPLY_UNREADABLE}
)
"""Faults of a scoped reply after which the frozen reply does not change."""


@dataclass(frozen=True, slots=True)
class Call:
    """Effect: send a request."""

    request: JSONObject = field(repr=False)
    """The body of the request, in the form of its API."""
    timeout: float | None = None
    """Seconds until the deadline; None means no deadline."""
    asks_for: AsksFor = "reply"
    """What is requested: a whole reply, some calls, or one value of arguments or an answer."""
    corrects: bool = False
    """Whether the request contains a correction."""
    model: object = None
    """The model of the request."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Effect: wait for some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Notify:
    """Effect: call the watchers with a finished attempt."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Claim:
    """Effect: take the cost of a repeat from the client's bucket of ``retry_budget`` repeats."""

    retry_budget: int


@dataclass(frozen=True, slots=True)
class Replied:
    """Event: the call brought a response."""

    response: JSON = field(repr=False)
    """The response as plain JSON."""
    seconds: float = 0.0
    """Seconds that the call took."""
    before: float = 0.0
    """Seconds between the last event and the call."""
    fault: Issue | None = None
    """The fault that ended the reading of a stream early; None for none."""
    stopped_early: StoppedEarly | None = None
    """Where strictreply closed the stream; None if it did not."""
    is_behind_text: bool = False
    """Whether some text of the streamed reply has reached the caller.

    If so, only its calls can still be fixed.
    """
    lenient: tuple[str, ...] = ()
    """Names of the deviations of the server that were accepted."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Event: the call brought no response."""

    failure: Failure
    """What went wrong."""
    seconds: float = 0.0
    """Seconds that the call took."""
    before: float = 0.0
    """Seconds between the last event and the call."""
    is_behind_text: bool = False
    """Whether some text of the streamed reply has reached the caller."""
    cut: JSON = field(default=None, repr=False)
    """The part of the response that a broken stream delivered; None if there is none."""


@dataclass(frozen=True, slots=True)
class Noted:
    """Event: the wait is over, the watchers were called, or a repeat was ``granted`` or refused.

    ``seconds`` is how long that took.
    """

    seconds: float = 0.0
    granted: bool = True


Effect: TypeAlias = Call | Sleep | Check | Notify | Claim | Consult
Event: TypeAlias = Replied | Failed | Checked | Noted | Consulted


@dataclass(frozen=True, slots=True)
class Settled:
    """Outcome: a reply that fits."""

    reply: AssistantReply
    """The reply."""
    response: JSONObject = field(repr=False)
    """The response that contains it."""
    attempts: tuple[Attempt, ...]
    """All attempts, in order."""
    spliced: bool = False
    """Whether strictreply changed the message in the response.

    It changed an id or the form of the message, or merged parts of several replies.
    """
    turn: Message = field(default_factory=dict, repr=False)
    """The assistant's turn for the next request, with its thoughts."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Outcome: no reply fits.

    ``failure`` is why the last call brought no reply; None if it brought one. ``tool`` is the tool,
    if only its arguments were wrong.
    """

    end: End
    attempts: tuple[Attempt, ...]
    failure: Failure | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class HandedOn:
    """Outcome: a reply that does not fit, but none of whose faults is enforced."""

    response: JSONObject = field(repr=False)
    """The response that contains it."""
    attempts: tuple[Attempt, ...]
    """All attempts, in order."""
    spliced: bool = False
    """Whether the message in the response holds parts of several replies."""


Outcome: TypeAlias = Settled | HandedOn | Ended


@dataclass(frozen=True, slots=True)
class Fits:
    """A reply fits the contract."""

    verdict: Valid
    """The reply, and the lenient steps that were needed to read it."""
    draft: Draft
    """The reply that was judged; a part that was retried is merged into the frozen reply."""
    own: Draft
    """The reply in the response."""
    is_exact: bool
    """Whether ``draft`` has exactly the text and calls of the response."""
    response: JSON = field(repr=False)
    """The response as plain JSON."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """A message does not fit the contract; a correction can say why."""

    verdict: Invalid
    """The faults, and the lenient steps that were needed to read it."""
    draft: Draft
    """The message that was judged."""
    own: Draft
    """The message in the response."""
    response: JSON = field(repr=False)
    """The response as plain JSON."""
    is_part: bool = False
    """Whether it is a part that could not be merged into the frozen reply.

    It did not fit there, or was cut off at the token limit.
    """


@dataclass(frozen=True, slots=True)
class LimitRefused:
    """The server rejected the token limit that a correction had raised."""

    verdict: Invalid
    """The faults of the reply that was corrected, which counts as cut off."""
    draft: Draft
    """That reply, as it was judged."""
    own: Draft
    """That reply, as in its response."""
    response: JSON = field(repr=False)
    """The error of the server; None if it sent none."""


@dataclass(frozen=True, slots=True)
class Paused:
    """The API paused the turn; it continues when the turn is sent back."""

    verdict: Invalid
    """The issue that it is incomplete, and the lenient steps that were needed to read it."""
    draft: Draft
    """The turn so far, with earlier continuations."""
    response: JSON = field(repr=False)
    """The response as plain JSON."""


@dataclass(frozen=True, slots=True)
class NoReply:
    """There is no reply to correct."""

    response: JSON = field(default=None, repr=False)
    """The response as plain JSON; None if there was none."""
    verdict: Invalid = _NO_FAULT
    """The faults of the response; empty without a response, or for a reply that fits too late."""
    failure: Failure | None = None
    """Why the call failed, or the failure that an error in the response reports; else None."""


Judged: TypeAlias = Fits | Unfit | LimitRefused | Paused | NoReply


def reply_flow(ask: CallPlan) -> Generator[Effect, Event, Outcome]:
    """Send requests until a reply fits the contract, or the policy ends the call."""
    attempts: tuple[Attempt, ...] = ()
    spent = 0.0
    turn: Turn = first_turn(ask)
    begun: Draft | None = None  # the turn so far, if the API paused it
    is_told = False  # whether some text of it has reached the caller

    while True:
        if isinstance(turn, Resend):
            ask = replace(ask, unwanted=ask.unwanted | turn.refused)
            turn = turn.of
        else:
            begun = None
            is_told = False

        request = turn.request if begun is None else _continued(ask, turn.request, begun)
        sent = ask.wire.written(request)
        event, judged, spent = yield from _called(ask, turn, sent, spent, begun)
        if is_told and not event.is_behind_text:
            event = replace(event, is_behind_text=True)

        failure = judged.failure if isinstance(judged, NoReply) else None
        refused = refused_by(ask, turn.request, failure) or constraint_refused(turn, failure)
        attempt = _attempt(ask, len(attempts) + 1, turn, sent, event, judged, refused)
        is_handed_on = _is_handed_on(ask, turn, event, judged)
        if is_handed_on:
            attempt = _observed(attempt, judged)
        attempts = (*attempts, attempt)
        ask = _knowing(ask, attempt)

        noted = yield Notify(attempt)
        spent += noted.seconds
        is_late = ask.policy.time_left(spent) == 0  # None: there is no deadline

        if refused and not is_late:
            turn = without(ask, turn, refused)
            continue

        if isinstance(judged, Fits) or is_handed_on:
            if not is_late and isinstance(judged, Fits):
                return _accepted(ask, turn, judged, attempts)
            if not is_late:
                return _handed_on(ask, judged, attempts)

            # the watchers were done after the deadline
            late = replace(attempt, failure=str(_TOO_LATE))
            return Ended(end_at("late"), (*attempts[:-1], late))

        if isinstance(judged, Paused):
            begun = judged.draft
            is_told = event.is_behind_text

        bad = _bad(ask, turn, event, judged) if isinstance(judged, Unfit | LimitRefused) else None
        step = _decided(ask, attempts, spent, failure, event, bad)
        if isinstance(step, Again):
            consult = consult_for(ask, bad, step)
            step, spent = yield from _prepared(ask, step, consult, spent)

        if isinstance(step, End):
            return Ended(step, attempts, failure, _tool_alone(bad))

        turn = next_turn(ask, turn, bad, step)


def _knowing(ask: CallPlan, attempt: Attempt) -> CallPlan:
    """Return the plan with the constraints that the server ignored in its last reply."""
    unheld = unheld_by((attempt,))
    return replace(ask, unheld=ask.unheld | unheld) if unheld else ask


def observed_flow(
    ask: CallPlan, sent: JSONObject, event: Replied | Failed
) -> Generator[Check, Checked, Attempt]:
    """Judge the result of the client's own call, and return its attempt; send nothing."""
    turn = FirstRequest(ask.base)
    flow: Any = _judged_with_checks(ask, turn, sent, event, 0.0, None)
    judged, _ = yield from flow
    attempt = _attempt(ask, 1, turn, sent, event, judged, frozenset())
    return _observed(attempt, judged)


def _observed(attempt: Attempt, judged: Judged) -> Attempt:
    """Return the attempt of a reply that the caller gets in spite of its faults."""
    if isinstance(judged, Paused):
        # the caller continues it, like any paused turn
        return replace(attempt, issues=())

    if not attempt.issues or attempt.failure is not None:
        return attempt

    return replace(attempt, observed=True)


def _is_handed_on(ask: CallPlan, turn: Turn, event: Replied | Failed, judged: Judged) -> bool:
    """Return whether the caller gets an invalid reply, because only some tools are enforced.

    A reply whose stream broke off is never passed on, because it cannot be written unchanged. A
    response that no API sends is not, either, because the SDK cannot make an object of it.
    """
    if ask.enforced is None or isinstance(judged, Fits | LimitRefused):
        return False
    if isinstance(event, Failed) or event.fault is not None or type(judged.response) is not dict:
        return False
    if isinstance(judged, Paused):
        return not calls_enforced(ask, judged.draft)
    if isinstance(turn, Correction):
        return False  # strictreply asked for this reply: no invalid one is the caller's

    draft = judged.draft if isinstance(judged, Unfit) else None
    is_reply = not (isinstance(judged, NoReply) and judged.failure is not None)
    return is_reply and not is_enforced(ask, draft, judged.verdict.issues, judged.response)


def _handed_on(ask: CallPlan, judged: Judged, attempts: tuple[Attempt, ...]) -> HandedOn:
    """Return the reply unchanged, or with its retried part merged in."""
    response: JSONObject = judged.response if isinstance(judged.response, dict) else {}
    is_spliced = isinstance(judged, Unfit) and judged.draft is not judged.own
    if isinstance(judged, Unfit) and is_spliced:
        response = ask.wire.with_draft(response, judged.draft)

    return HandedOn(response, attempts, spliced=is_spliced)


def _continued(ask: CallPlan, request: Request, begun: Draft) -> Request:
    """Return a request that ends with the paused turn."""
    return replace(request, behind=(*request.behind, ask.wire.replay.written(begun)))


def _tool_alone(bad: BadReply | None) -> str | None:
    """Return the tool if only its arguments were wrong, else None."""
    if bad is None or bad.scope is None or bad.scope.only is None:
        return None

    return bad.scope.only.tool


def _decided(
    ask: CallPlan,
    attempts: tuple[Attempt, ...],
    spent: float,
    failure: Failure | None,
    event: Replied | Failed,
    bad: BadReply | None,
) -> NextStep:
    """Return the policy's decision; after text has reached the caller, only calls can be fixed."""
    has_scoped_calls = bad is not None and bad.scope is not None and bool(bad.scope.calls)
    step = ask.policy.next_step(
        attempts,
        spent,
        failure,
        scoped=has_scoped_calls and not ask.policy.allow_other_tool,
        clients_retries=ask.clients_retries,
        repeats=0 if bad is None else bad.repeats,
    )
    is_going_on = bad is None and is_paused(attempts[-1])
    if isinstance(step, End) or is_going_on or not event.is_behind_text:
        return step

    return ask.policy.behind_text(step, attempts, failure)


def _called(
    ask: CallPlan, turn: Asked, sent: JSONObject, spent: float, begun: Draft | None
) -> Generator[Effect, Event, tuple[Replied | Failed, Judged, float]]:
    """Make one call and judge its result.

    Return the event, the judgement, and the total seconds so far.
    """
    scope = turn.scope if isinstance(turn, Correction) else None
    asks_for = "part" if _demanded(turn) is not None else _asks_for(ask, scope)
    corrects = isinstance(turn, Correction)
    time_left = ask.policy.time_left(spent)
    event: Any = yield Call(sent, time_left, asks_for, corrects, turn.request.model)
    spent += event.seconds + event.before

    judged, spent = yield from _judged_with_checks(ask, turn, sent, event, spent, begun)
    return event, judged, spent


def _judged_with_checks(
    ask: CallPlan,
    turn: Asked,
    sent: JSONObject,
    event: Replied | Failed,
    spent: float,
    begun: Draft | None,
) -> Generator[Effect, Event, tuple[Judged, float]]:
    """Judge the result of a call, including the tools' own checks.

    Return the judgement, and the total seconds so far.
    """
    judged = _judge_event(ask, turn, sent, event, begun)
    if isinstance(event, Replied) and event.lenient:
        steps = (*event.lenient, *judged.verdict.lenient)
        verdict: Any = replace(judged.verdict, lenient=steps)
        judged = replace(judged, verdict=verdict)

    if not isinstance(judged, Fits):
        return judged, spent

    check = check_of(ask.contract, judged.verdict)
    if check is not None:
        checked = yield check
        spent += checked.seconds
        if isinstance(checked, Checked) and checked.issues:
            verdict = Invalid(checked.issues, judged.verdict.lenient)
            return Unfit(verdict, judged.draft, judged.own, judged.response), spent

    if ask.policy.time_left(spent) == 0:
        return NoReply(judged.response, failure=_TOO_LATE), spent

    return judged, spent


def _demanded(turn: Asked) -> Contract | None:
    """Return the contract of a call that was requested as a constrained answer, else None."""
    return turn.demanded if isinstance(turn, Correction) else None


def _asks_for(ask: CallPlan, scope: Scope | None) -> AsksFor:
    if scope is None:
        return "reply"

    is_of_calls = bool(scope.calls) and scope.part is None
    return "calls" if is_of_calls and ask.contract.channel == "native" else "part"


def _prepared(
    ask: CallPlan, step: Again, consult: Consult | None, spent: float
) -> Generator[Effect, Event, tuple[NextStep, float]]:
    """Prepare the next request: claim a repeat, wait, and ask a human, as far as needed.

    Return the step, or the end of the call instead, and the total seconds so far.
    """
    if step.tier == 0 and ask.policy.retry_budget is not None:
        claimed = yield Claim(ask.policy.retry_budget)
        spent += claimed.seconds
        if isinstance(claimed, Noted) and not claimed.granted:
            return end_at("claim"), spent

    if step.wait > 0:
        woke = yield Sleep(step.wait)
        spent += woke.seconds

    if consult is not None:
        consulted = yield consult
        spent += consulted.seconds
        if isinstance(consulted, Consulted):
            if consulted.text is None:
                return end_at("human"), spent

            step = replace(step, words=consulted.text)

    if ask.policy.time_left(spent) == 0:
        return end_at("late"), spent

    return step, spent


def _judge_event(
    ask: CallPlan,
    turn: Asked,
    sent: JSONObject,
    event: Replied | Failed,
    begun: Draft | None,
) -> Judged:
    """Judge the result of a call.

    The continuation of a turn is appended to what was ``begun``. A reply to a scoped request is
    merged into the frozen reply.
    """
    if isinstance(event, Failed):
        if error_code(event.failure.error) is Code.ENVELOPE_ERROR:
            return _judge_failure(turn, event.failure)

        # the error quotes what the model wrote, so it is judged as a reply
        response: JSON = {"error": event.failure.error}
    else:
        response = event.response
        if event.fault is not None:
            written = _behind(ask, begun, ask.wire.draft_in(response))
            return _broken(Invalid((event.fault,)), written, response)

    opened = opened_for(ask.contract, response, ask.wire)
    if isinstance(opened, Invalid):
        written = ask.wire.draft_in(response) or _written_in(response, opened)
        is_servers_fault = all(issue.remedy is Remedy.RESEND for issue in opened.issues)
        failure = failure_in(ask.wire.error_in(response)) if is_servers_fault else None
        return _broken(opened, _behind(ask, begun, written), response, failure)

    own = opened.draft
    opened = restored(ask.contract, turn.request, opened)
    if opened.is_bare:
        no_response = Issue.of(Code.ENVELOPE_MALFORMED, expected="a complete response")
        return NoReply(response, Invalid((no_response,)))

    draft = opened.draft
    if begun is not None:
        draft = _behind(ask, begun, draft) or draft
        own = draft
        opened = replace(opened, draft=draft, is_exact=False)
    if opened.is_paused:
        paused = Issue.of(Code.REPLY_PAUSED)
        return Paused(Invalid((paused,), opened.lenient), draft, response)

    demanded = _demanded(turn)
    held = ask.contract if demanded is None else ask.contract.replace(channel="text")
    cut = cut_at_limit(held, draft, sent, response, ask.wire)
    read = opened if demanded is None or cut else _read_as_call(ask, demanded, opened)

    scope = turn.scope if isinstance(turn, Correction) else None
    to_judge = cut or (read if isinstance(read, Invalid) else _spliced(ask.contract, scope, read))
    if isinstance(to_judge, Invalid):
        return Unfit(to_judge, draft, own, response, is_part=True)

    return _judge_draft(ask, turn, to_judge, own, response)


def _behind(ask: CallPlan, begun: Draft | None, draft: Draft | None) -> Draft | None:
    """Return a turn with the draft appended to what was begun."""
    join = ask.wire.replay.joined
    return draft if begun is None or draft is None or join is None else join(begun, draft)


def _broken(
    verdict: Invalid, written: Draft | None, response: JSON, failure: Failure | None = None
) -> Unfit | NoReply:
    """Judge a response without a complete reply, by the part that the model had ``written``."""
    is_lost = any(issue.remedy is Remedy.RESEND for issue in verdict.issues)
    if written is None or is_lost:
        return NoReply(response, verdict, failure)

    return Unfit(verdict, written, written, response)


def _read_as_call(ask: CallPlan, demanded: Contract, opened: Opened) -> Opened | Invalid:
    """Read the text of a reply as a call, unless the API called one of its own tools."""
    if opened.served or opened.server_calls:
        return opened

    taken = ask.wire.replay.ids(ask.base.conversation)
    draft = read_union(demanded, opened.draft, taken)
    if isinstance(draft, Invalid):
        return draft

    if draft is opened.draft:
        return opened

    lenient = (*opened.lenient, READ_AS_CALL)
    return replace(opened, draft=draft, lenient=lenient, is_exact=False, promised=False)


def _spliced(contract: Contract, scope: Scope | None, opened: Opened) -> Opened | Invalid:
    """Merge a retried part into the frozen reply of its scope."""
    if scope is None:
        return opened

    spliced = splice(contract, scope, opened.draft)
    if isinstance(spliced, Invalid):
        return spliced

    draft, steps = spliced
    if draft is opened.draft:
        return opened  # the model sent a whole reply instead of a part

    lenient = (*opened.lenient, *steps)
    return replace(opened, draft=draft, lenient=lenient, is_exact=False)


def _judge_draft(
    ask: CallPlan, turn: Asked, opened: Opened, own: Draft, response: JSON
) -> Fits | Unfit:
    """Judge a reply; add numbers to ids that are already taken, if a retry could not change them.

    A taken id is rejected once, because the model may have copied it. A server that restarts its
    ids in every reply would send it again after any retry, so from then on the id gets a number.
    That is also done if the conversation shows such a server, or if the model did not write the id.
    """
    draft = opened.draft
    if not draft.calls or ask.contract.ids_may_repeat:
        whole = _with_prefill(ask, turn, opened) if ask.base.prefill else opened
        verdict = judge_opened(ask.contract, whole)
        return _judged(verdict, opened, own, response)

    ids = ask.wire.replay.ids(ask.base.conversation)
    taken = set(ids)
    was_refused = isinstance(turn, Correction) and turn.numbers
    if was_refused or counts_anew(ids) or not IDS_OF_SERVERS.isdisjoint(opened.lenient):
        draft = with_numbered_ids(draft, taken)

    is_numbered = draft is not opened.draft
    if is_numbered:
        own = draft if own is opened.draft else own
        opened = replace(opened, draft=draft, is_exact=False)

    verdict = with_fresh_ids(draft, judge_opened(ask.contract, opened), taken)
    if is_numbered:
        verdict = replace(verdict, lenient=(*verdict.lenient, "numbered_id"))

    return _judged(verdict, opened, own, response)


def _with_prefill(ask: CallPlan, turn: Asked, opened: Opened) -> Opened:
    """Return a reply with the caller's prefill before it, if only the whole can be read."""
    is_read = ask.contract.channel == "text" or ask.contract.answer.schema is not None
    if not is_read or isinstance(turn, Correction) or opened.draft.calls:
        return opened

    text = ask.base.prefill + (opened.draft.text or "")
    return replace(opened, draft=replace(opened.draft, text=text))


def _judged(verdict: Verdict, opened: Opened, own: Draft, response: JSON) -> Fits | Unfit:
    if isinstance(verdict, Invalid):
        return Unfit(verdict, opened.draft, own, response)

    return Fits(verdict, opened.draft, own, opened.is_exact, response)


def _judge_failure(turn: Asked, failure: Failure) -> LimitRefused | NoReply:
    """Judge a failure: the server may have rejected a token limit that a correction had raised."""
    is_refused = failure.kind in ("invalid_request", TOO_LONG)
    if not is_refused or not isinstance(turn, Correction) or not turn.raises:
        return NoReply(failure=failure)

    cut = Issue.of(Code.REPLY_TRUNCATED, hint="the server refused a higher token limit")
    faults = (issue for issue in turn.answers.issues if issue.remedy is not Remedy.SHORTEN)
    response: JSON = None if failure.error is None else {"error": failure.error}

    verdict = Invalid((cut, *faults))
    return LimitRefused(verdict, turn.answers.draft, turn.answers.own, response)


def _written_in(response: JSON, verdict: Invalid) -> Draft | None:
    """Return what the model wrote, from an error; None if the model has nothing to fix."""
    if all(issue.remedy in {Remedy.RESEND, Remedy.STOP} for issue in verdict.issues):
        return None

    return Draft(failed_generation(response))


def _bad(
    ask: CallPlan, turn: Asked, event: Replied | Failed, judged: Unfit | LimitRefused
) -> BadReply:
    """Return the invalid reply with its faults, and the part that can be retried by itself."""
    before = turn.answers if isinstance(turn, Correction) else None
    frozen = turn.scope if isinstance(turn, Correction) else None
    issues = judged.verdict.issues
    draft = judged.draft
    own = judged.own

    replay = ask.wire.replay
    was_bound = before is not None and before.is_bound
    is_bound = was_bound or replay.is_bound(own) or replay.are_bound(ask.base.conversation)
    if before is not None and not was_bound:
        # its thoughts are bound to a request that will not be repeated
        own = replay.with_thoughts(own, None)

    words = words_of(draft)  # before a frozen reply replaces it
    repeats = 0
    if before is not None:
        repeats = before.repeats + (1 if before.words == words else 0)

    # after a request for one value, the next one is for the whole document
    was_whole = before is not None and before.whole
    whole = was_whole or (frozen is not None and frozen.place != "")

    is_part = isinstance(judged, Unfit) and judged.is_part
    keeps_frozen = is_part or any(issue.code in _KEEPING for issue in issues)
    if frozen is None or not keeps_frozen:
        scope = _scope(ask, draft, issues, whole=whole, is_bound=is_bound)
    elif not frozen.place:
        # the requested calls were switched, rejected or cut off: they are requested again
        draft = frozen.draft
        issues = tuple(dict.fromkeys((*issues, *frozen.issues)))
        scope = frozen
    else:
        # the request for one value failed: correct the faults of the whole document
        cuts = [issue for issue in issues if issue.remedy is Remedy.SHORTEN]
        scope = _scope(ask, frozen.draft, frozen.issues, whole=True, is_bound=is_bound)
        draft = frozen.draft
        issues = (*cuts, *frozen.issues)

    was_stopped = isinstance(event, Replied) and event.stopped_early is not None
    bad = BadReply(
        draft,
        issues,
        scope,
        limit_refused=isinstance(judged, LimitRefused),
        whole=whole,
        # there may have been calls after the one at which the stream was stopped
        may_miss=was_stopped and ask.contract.parallel,
        words=words,
        repeats=repeats,
        is_told=event.is_behind_text or (before is not None and before.is_told),
        is_bound=is_bound,
        own=own,
    )
    constraints = constraints_of(ask, () if before is None else before.constraints, bad)
    return replace(bad, constraints=constraints) if constraints else bad


def _scope(
    ask: CallPlan, draft: Draft, issues: tuple[Issue, ...], *, whole: bool, is_bound: bool
) -> Scope | None:
    """Return the part of the reply that can be retried by itself; None if there is none.

    A single value is never retried by itself if ``whole``, or if the request ``is_bound``.
    """
    # the server stores each reply unchanged, so replies must not be merged
    if ask.base.is_kept:
        return None

    if ask.policy.allow_other_tool or is_bound:
        return scope_of(ask.contract, draft, issues)

    is_narrow = not ask.policy.keep_prompt_cache
    # a part needs another format than the caller's, which only a narrowed request may change
    payload = is_narrow or not has_schema(ask.base)

    return scope_of(ask.contract, draft, issues, parts=is_narrow and not whole, payload=payload)


def _attempt(
    ask: CallPlan,
    number: int,
    turn: Asked,
    sent: JSONObject,
    event: Replied | Failed,
    judged: Judged,
    refused: frozenset[str],
) -> Attempt:
    failure = judged.failure if isinstance(judged, NoReply) else None
    corrected: dict[str, Any] = {}
    if isinstance(turn, Correction):
        corrected = {
            "correction": turn.text,
            "tier": turn.tier,
            "scope": None if turn.scope is None else turn.scope.name,
            "escalation": turn.escalation,
        }

    return Attempt(
        number=number,
        request=sent,
        raw=judged.response,
        issues=() if isinstance(judged, Fits) else judged.verdict.issues,
        failure=None if failure is None else str(failure),
        lenient=judged.verdict.lenient,
        dropped_params=tuple(sorted(refused)),
        stopped_early=event.stopped_early if isinstance(event, Replied) else None,
        usage=_usage(ask, sent, event, judged),
        seconds=event.seconds,
        api=ask.wire.name,
        reply_at=ask.wire.reply_at,
        **corrected,
    )


def _usage(ask: CallPlan, sent: JSONObject, event: Replied | Failed, judged: Judged) -> Usage:
    """Return the tokens of an attempt; estimate them if the reply has no count."""
    names = ask.wire.usage
    response = judged.response
    if isinstance(event, Failed) and event.cut is not None:
        response = event.cut

    counted = Usage.of(response, names)
    if counted.prompt_tokens and counted.completion_tokens:
        return counted

    draft = ask.wire.draft_in(response)
    if draft is None and isinstance(judged, Fits | Unfit):
        draft = judged.draft
    if draft is None:
        return counted

    asked = {**without_transport(sent), "extra_body": sent.get("extra_body")}
    return counted.with_estimates(response, asked, ask.wire.counted(draft), names)


def _accepted(ask: CallPlan, turn: Asked, fits: Fits, attempts: tuple[Attempt, ...]) -> Settled:
    """Return the reply in its response, as if the first reply had been valid."""
    response: JSONObject = fits.response if isinstance(fits.response, dict) else {}
    draft = fits.draft
    wire = ask.wire
    is_spliced = not fits.is_exact

    if isinstance(turn, Correction) and wire.replay.settled is not None:
        settled = wire.replay.settled(draft, turn.request.behind)
        is_spliced |= settled is not draft
        draft = settled

    if isinstance(turn, Correction) and (turn.answers.is_bound or wire.replay.is_bound(draft)):
        # thoughts after a correction are bound to it, and the caller's history has no correction
        draft = wire.replay.with_thoughts(draft, turn.first if draft.calls else None)
        is_spliced = True

    if is_spliced:
        response = wire.with_draft(response, draft)

    assistant = wire.turn(draft, response)
    return Settled(fits.verdict.reply, response, attempts, spliced=is_spliced, turn=assistant)
