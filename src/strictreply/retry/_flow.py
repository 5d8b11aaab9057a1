"""The loop: ask, judge, correct, until a reply fits or a budget ends it.

No I/O, but effects that it yields.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, cast

from strictreply.contract._contract import Check, Checked, Contract, check_of
from strictreply.contract._judge import (
    counts_anew,
    judge_opened,
    opened_for,
    with_fresh_ids,
    with_numbered_ids,
)
from strictreply.retry._asking import (
    Ask,
    Bad,
    Turn,
    consult_for,
    cut_at_limit,
    first_turn,
    next_turn,
    without,
)
from strictreply.retry._dressing import words_of
from strictreply.retry._failures import Failure
from strictreply.retry._policy import Again, Consult, Consulted, End, NextStep
from strictreply.retry._scoping import Scope, scope_of, splice
from strictreply.values._issues import Code, Issue, Remedy
from strictreply.values._limits import JSON, JSONObject
from strictreply.values._replies import (
    AssistantReply,
    Attempt,
    Invalid,
    Usage,
    Valid,
    Verdict,
    Vetoed,
)
from strictreply.wires._dialects import IDS_OF_SERVERS, text_in, thoughts_in
from strictreply.wires._opening import Opened, error_code, ids_in, peek

AsksFor: TypeAlias = Literal["reply", "calls", "part"]
_TOO_LATE = Failure("deadline", retryable=False)
"""A reply that fits, and came or was found to fit after the deadline: nothing is accepted then."""

_KEEPING = frozenset(
    {Code.TOOL_SWITCHED, Code.REPLY_TRUNCATED, Code.CALL_UNREADABLE, Code.REPLY_UNREADABLE}
)


@dataclass(frozen=True, slots=True)
class Call:
    """Effect: send this request within ``timeout`` seconds (None: no deadline) for a reply, or for a part of one."""

    request: JSONObject = field(repr=False)
    timeout: float | None = None
    asks_for: AsksFor = "reply"


@dataclass(frozen=True, slots=True)
class Sleep:
    """Effect: wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Notify:
    """Effect: call whoever watches with an attempt that is over."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Claim:
    """Effect: take what a repeat costs from the client's bucket, which holds ``quota`` repeats."""

    quota: int


@dataclass(frozen=True, slots=True)
class Replied:
    """Event: the response as plain JSON, the seconds the call took, and those between the last event and the call.

    Of a stream, ``fault`` is what ended its reading before its own end (``vetoed``: where, if we
    did); ``is_behind_text``: text of the reply has gone out to the caller, and only calls beside it
    can still be mended.
    """

    response: JSON = field(repr=False)
    seconds: float = 0.0
    before: float = 0.0
    fault: Issue | None = None
    vetoed: Vetoed | None = None
    is_behind_text: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """Event: the call brought no response; the rest is as in :class:`Replied`."""

    failure: Failure
    seconds: float = 0.0
    before: float = 0.0
    is_behind_text: bool = False


@dataclass(frozen=True, slots=True)
class Noted:
    """Event: the wait is over, the watchers were called, or a repeat was ``granted`` or not.

    After so many seconds.
    """

    seconds: float = 0.0
    granted: bool = True


Effect: TypeAlias = Call | Sleep | Check | Notify | Claim | Consult
Event: TypeAlias = Replied | Failed | Checked | Noted | Consulted


@dataclass(frozen=True, slots=True)
class Settled:
    """Outcome: a reply that fits, in its ``response`` (``spliced`` by us), and the ``turn`` to replay, thoughts too."""

    reply: AssistantReply
    response: JSONObject = field(repr=False)
    attempts: tuple[Attempt, ...]
    spliced: bool = False
    turn: JSONObject = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Ended:
    """Outcome: no reply fits.

    ``failure`` is the transport's, ``tool`` the one whose arguments alone were wrong.
    """

    end: End
    attempts: tuple[Attempt, ...]
    failure: Failure | None = None
    tool: str | None = None


Outcome: TypeAlias = Settled | Ended


@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement of one event: the verdict, and the message it is about, spliced when some calls were re-asked.

    The message is in the API's own form; ``content`` is its content as it came where that holds
    what the model thought, ``came`` the message as it came. ``limit_refused``: the server refused a
    token limit that we had raised; ``unspliced``: what came for a part of the message could not be
    put into it.
    """

    verdict: Verdict | None
    message: JSONObject | None = None
    failure: Failure | None = None
    response: JSON = field(default=None, repr=False)
    limit_refused: bool = False
    content: JSON = field(default=None, repr=False)
    unspliced: bool = False
    is_behind_text: bool = False
    vetoed: Vetoed | None = None
    came: JSONObject | None = None

    @property
    def turn(self) -> JSONObject | None:
        """The message as the provider wants it back."""
        return self.message and (
            self.message if self.content is None else self.message | {"content": self.content}
        )

    @property
    def issues(self) -> tuple[Issue, ...]:
        """The faults of the reply; none when it is valid or never came."""
        return self.verdict.issues if isinstance(self.verdict, Invalid) else ()


def reply_flow(ask: Ask) -> Generator[Effect, Event, Outcome]:
    """Ask until a reply fits the contract, or the policy ends it."""
    attempts: tuple[Attempt, ...] = ()
    spent = 0.0
    turn = first_turn(ask)

    while True:
        sent = ask.wire.written(turn.request)
        judged, seconds, spent = yield from _called(ask, turn, sent, spent)
        refused = turn.refused_by(judged.failure)
        attempts = (
            *attempts,
            _attempt(ask, len(attempts) + 1, turn, sent, judged, seconds, refused),
        )
        noted = yield Notify(attempts[-1])
        spent += noted.seconds
        if refused and ask.policy.time_left(spent) != 0:
            turn = without(ask, turn, refused)
            continue

        if isinstance(judged.verdict, Valid):
            if ask.policy.time_left(spent) != 0:
                return _accepted(ask, judged.verdict, judged, attempts)

            late = replace(
                attempts[-1], failure=str(_TOO_LATE)
            )  # its watchers were done after the deadline
            return Ended(End("halted", "deadline"), (*attempts[:-1], late))

        bad = _bad(ask, turn, judged)
        step = _decided(ask, attempts, spent, judged, bad)
        if isinstance(step, Again):
            step, spent = yield from _prepared(ask, step, consult_for(ask, turn, bad, step), spent)

        if isinstance(step, End):
            only = bad.scope.only if bad is not None and bad.scope is not None else None
            return Ended(step, attempts, judged.failure, None if only is None else only.tool)

        turn = next_turn(ask, turn, bad, step)


def _decided(
    ask: Ask, attempts: tuple[Attempt, ...], spent: float, judged: Judged, bad: Bad | None
) -> NextStep:
    scoped = (
        bad is not None
        and bad.scope is not None
        and bool(bad.scope.calls)
        and not ask.policy.allow_tool_switch
    )
    repeats = 0 if bad is None else bad.repeats
    own = ask.clients_retries
    step = ask.policy.next_step(
        attempts, spent, judged.failure, scoped=scoped, clients_retries=own, repeats=repeats
    )
    if isinstance(step, End) or not judged.is_behind_text:
        return step

    # behind text that went out nothing can be mended but the calls beside it
    if step.tier == 0:
        return End(
            "failed", "malformed_response" if judged.failure is None else judged.failure.kind
        )

    in_calls = all(issue.path.startswith("/tool_calls") for issue in judged.issues)
    return step if in_calls else End("rejected", "streamed")


def _called(
    ask: Ask, turn: Turn, sent: JSONObject, spent: float
) -> Generator[Effect, Event, tuple[Judged, float, float]]:
    """Make one call and judge what it brought.

    Return the judgement, the seconds of the call, and all that is spent.
    """
    scope = turn.scope
    of_calls = (
        scope is not None
        and scope.calls
        and scope.part is None
        and ask.contract.channel == "native"
    )
    asks_for: AsksFor = "calls" if of_calls else "reply" if scope is None else "part"
    event: Any = yield Call(sent, ask.policy.time_left(spent), asks_for)
    spent += event.seconds + event.before

    judged = _judge_event(ask, turn, event)

    if event.is_behind_text:
        judged = replace(judged, is_behind_text=True)

    check = None if judged.verdict is None else check_of(ask.contract, judged.verdict)
    if check is not None:
        checked = yield check
        spent += checked.seconds
        if isinstance(checked, Checked) and checked.issues and judged.verdict is not None:
            judged = replace(judged, verdict=Invalid(checked.issues, judged.verdict.leniency))

    if isinstance(judged.verdict, Valid) and ask.policy.time_left(spent) == 0:
        judged = Judged(None, failure=_TOO_LATE, response=judged.response)

    return judged, event.seconds, spent


def _prepared(
    ask: Ask, step: Again, consult: Consult | None, spent: float
) -> Generator[Effect, Event, tuple[NextStep, float]]:
    """Get ready to ask again: claim a repeat of the transport's, wait, ask a human.

    Return the step, and all spent.
    """
    if step.tier == 0 and ask.policy.quota is not None:
        claimed = yield Claim(ask.policy.quota)
        spent += claimed.seconds
        if isinstance(claimed, Noted) and not claimed.granted:
            return End("failed", "retry_quota"), spent

    if step.wait > 0:
        woke = yield Sleep(step.wait)
        spent += woke.seconds

    if consult is not None:
        consulted = yield consult
        spent += consulted.seconds

        if isinstance(consulted, Consulted):
            if consulted.text is None:
                return End("rejected", "human"), spent
            step = replace(step, words=consulted.text)

    return End("halted", "deadline") if ask.policy.time_left(spent) == 0 else step, spent


def _judge_event(ask: Ask, turn: Turn, event: Replied | Failed) -> Judged:
    """Judge what a call brought.

    The reply to a scoped ask is spliced into the frozen message first.
    """
    if isinstance(event, Failed):
        if error_code(event.failure.error) is Code.ENVELOPE_ERROR:
            return _judge_failure(turn, event.failure)
        response: JSON = {"error": event.failure.error}
    else:
        response = event.response
        if event.fault is not None:
            came = ask.wire.message_in(response)
            return Judged(Invalid((event.fault,)), came, response=response, vetoed=event.vetoed)

    opened = opened_for(ask.contract, response, ask.wire)
    if isinstance(opened, Invalid):
        came = ask.wire.message_in(response) or _written_in(response, opened)
        return Judged(opened, came, response=response)

    came = opened.came
    message = opened.message
    if came is None or response is came or not isinstance(message, dict):
        no_response = Issue.of(
            Code.ENVELOPE_MALFORMED, expected="a whole response"
        )  # a bare message is none
        return Judged(Invalid((no_response,)), response=response)

    content = came.get("content") if thoughts_in(came.get("content")) else None
    refused = cut_at_limit(ask.contract, message, turn.request, response, ask.wire.usage)
    whole = refused or _spliced(ask.contract, turn.scope, opened, content)
    if isinstance(whole, Invalid):
        return Judged(whole, message, response=response, content=content, unspliced=True)

    return _judge_message(ask, turn, *whole, response)


def _spliced(
    contract: Contract, scope: Scope | None, opened: Opened, content: JSON
) -> tuple[Opened, JSON] | Invalid:
    spliced = None if scope is None else splice(contract, scope, cast("JSONObject", opened.message))
    if isinstance(spliced, Invalid):
        return spliced
    if spliced is None or spliced[0] is opened.message:
        return opened, content

    message, steps = spliced  # the frozen message is as the provider wants it back
    content = message["content"] if thoughts_in(message.get("content")) else None
    message = message if content is None else message | {"content": text_in(content)}

    return replace(opened, message=message, leniency=(*opened.leniency, *steps)), content


def _judge_message(ask: Ask, turn: Turn, opened: Opened, content: JSON, response: JSON) -> Judged:
    # An id that is taken is refused once: a model may have copied it. Servers that count anew in
    # every reply are mended by no other ask, so from then on, and where the conversation shows such
    # a server, it is numbered. So is an id that no model wrote.
    message: Any = opened.message
    if not message.get("tool_calls") or ask.contract.ids_may_repeat:
        verdict = judge_opened(ask.contract, opened)
        return Judged(verdict, message, response=response, content=content, came=opened.came)

    ids = ids_in(ask.base["messages"])
    numbers = turn.numbers or counts_anew(ids) or not IDS_OF_SERVERS.isdisjoint(opened.leniency)
    fresh = with_numbered_ids(message, set(ids)) if numbers else message
    opened = opened if fresh is message else replace(opened, message=fresh)
    verdict = with_fresh_ids(fresh, judge_opened(ask.contract, opened), set(ids))

    if fresh is not message:
        verdict = replace(verdict, leniency=(*verdict.leniency, "numbered_id"))

    return Judged(verdict, fresh, response=response, content=content, came=opened.came)


def _judge_failure(turn: Turn, failure: Failure) -> Judged:
    # a token limit that we raised may be what the server refused
    if failure.kind != "invalid_request" or not turn.raised or turn.answers is None:
        return Judged(None, failure=failure)
    cut = Issue.of(Code.REPLY_TRUNCATED, hint="the server refused a higher token limit")
    faults = (issue for issue in turn.answers.issues if issue.remedy is not Remedy.SHORTEN)
    response: JSON = None if failure.error is None else {"error": failure.error}
    return Judged(
        Invalid((cut, *faults)), turn.answers.message, response=response, limit_refused=True
    )


def _written_in(response: JSON, verdict: Invalid) -> JSONObject | None:
    """Return what the model wrote, where there is no message and yet a fault of the model's to correct."""
    if all(issue.remedy in {Remedy.RESEND, Remedy.STOP} for issue in verdict.issues):
        return None
    written = peek(
        peek(response, "error"), "failed_generation"
    )  # what Groq's parser could not read
    return {"role": "assistant", "content": written if isinstance(written, str) else None}


def _bad(ask: Ask, turn: Turn, judged: Judged) -> Bad | None:
    """Return what was wrong, and what alone is to be asked for; None when no message came."""
    if judged.turn is None:
        return None

    before = turn.answers
    words = words_of(judged.turn)
    repeats = 0 if before is None else before.repeats + (before.words == words)
    # there may have been calls behind the one that was stopped
    may_miss = judged.vetoed is not None and ask.contract.parallel

    is_told = judged.is_behind_text or (before is not None and before.is_told)
    kept = turn.scope
    issues = judged.issues
    message = judged.turn

    whole = (before is not None and before.whole) or (kept is not None and kept.place != "")

    # while what was asked for alone is switched, refused or cut, the frozen message stays what it
    # was
    if kept is None or not (judged.unspliced or any(issue.code in _KEEPING for issue in issues)):
        scope = _scope(ask, message, issues, whole=whole)
    elif not kept.place:
        message = kept.message
        issues = tuple(dict.fromkeys((*issues, *kept.issues)))
        scope = kept
    else:
        # a value that was asked for alone in vain: what is wrong with the document is asked for as
        # before
        cuts = (issue for issue in issues if issue.remedy is Remedy.SHORTEN)
        scope = _scope(ask, kept.message, kept.issues, whole=True)
        message = kept.message
        issues = (*cuts, *kept.issues)

    return Bad(
        message, issues, scope, judged.limit_refused, whole, may_miss, words, repeats, is_told
    )


def _scope(
    ask: Ask, message: JSONObject, issues: tuple[Issue, ...], *, whole: bool
) -> Scope | None:
    """Find what can be asked for alone.

    Less where another tool may be called, or the first request is repeated.
    """
    if ask.base.get(ask.wire.kept_by) is not None:
        return None
    switches = ask.policy.allow_tool_switch
    narrow = ask.policy.scope == "narrow"
    fixed = not narrow and peek(ask.base.get("response_format"), "type") == "json_schema"
    parts = narrow and not (switches or whole)
    return scope_of(ask.contract, message, issues, parts=parts, payload=not (switches or fixed))


def _attempt(
    ask: Ask,
    number: int,
    turn: Turn,
    sent: JSONObject,
    judged: Judged,
    seconds: float,
    refused: frozenset[str],
) -> Attempt:
    return Attempt(
        number=number,
        request=sent,
        raw=judged.response,
        issues=judged.issues,
        failure=None if judged.failure is None else str(judged.failure),
        correction=turn.correction,
        tier=turn.tier,
        scope=None if turn.scope is None else turn.scope.name,
        leniency=() if judged.verdict is None else judged.verdict.leniency,
        refused=tuple(sorted(refused)),
        vetoed=judged.vetoed,
        usage=Usage.of(judged.response, ask.wire.usage),
        seconds=seconds,
        escalation=turn.escalation,
    )


def _accepted(ask: Ask, verdict: Valid, judged: Judged, attempts: tuple[Attempt, ...]) -> Settled:
    """Return the reply with the completion that carries it, as if the first reply had been valid."""
    response: JSONObject = judged.response if isinstance(judged.response, dict) else {}
    turn = judged.turn or {}

    message = judged.message or {}
    if message is judged.came:
        return Settled(verdict.reply, response, attempts, turn=turn)

    mended = ask.wire.with_message(response, message)
    kept = ask.wire.message_in(mended) or {}  # what goes back as it stands in the response, too
    turn = turn | {name: kept[name] for name in kept.keys() - {"role", "content", "tool_calls"}}

    return Settled(verdict.reply, mended, attempts, spliced=True, turn=turn)
