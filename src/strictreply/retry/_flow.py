"""The loop: send a request, judge the reply, correct it, until one fits or a budget ends it.

The loop does no I/O: it yields effects (:data:`Effect`) and is sent events (:data:`Event`). So one
loop serves sync and async clients, streams, files of a provider's batch and tests.

Each effect is answered by one event, and what follows depends on both:

=========  ====================  =================================================================
effect     event                 what follows
=========  ====================  =================================================================
Call       Replied or Failed     Check, when the reply fits and a called tool has a check of its
                                 own; else Notify
Check      Checked               Notify; the reply no longer fits when the check found a fault
Notify     Noted                 Settled, when the reply fits. Call, when the endpoint refused what
                                 we had added: the same request without it. Else the policy says:
                                 Ended, or once more, by the next three and a Call
Claim      Noted                 only before a repeat of a call that failed: Ended, when the
                                 client's quota of repeats is empty
Sleep      Noted                 only when the policy or the server asks for a pause
Consult    Consulted             only when a human is to write the correction: Ended without one
=========  ====================  =================================================================

A pass of the loop is one Call and one Notify, and one attempt: watchers hear of every request that
was made, also of the last. Each event says how many seconds it took; their sum is held against the
deadline behind every event, so that a reply which fits too late is dropped, and nothing that was
spent on it is lost from the story.
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
from strictreply.retry._failures import TOO_LONG, Failure, failure_in
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
    without_transport,
)
from strictreply.wires._dialects import IDS_OF_SERVERS, text_in, thoughts_in
from strictreply.wires._endings import error_code
from strictreply.wires._members import ids_in, peek
from strictreply.wires._thoughts import any_signed, is_signed, with_thoughts_of, without_thoughts
from strictreply.wires._wire import Opened

AsksFor: TypeAlias = Literal["reply", "calls", "part"]

_TOO_LATE = Failure("deadline", retryable=False)
"""The failure of a valid reply that was ready only after the deadline: it is dropped."""

_KEEPING = frozenset(
    {Code.TOOL_SWITCHED, Code.REPLY_TRUNCATED, Code.CALL_UNREADABLE, Code.REPLY_UNREADABLE}
)
"""Faults of a scoped reply after which the frozen message stays as it was."""


@dataclass(frozen=True, slots=True)
class Call:
    """Effect: send a request.

    ``timeout`` is in seconds; None means no deadline. ``asks_for`` is what comes: a whole reply,
    some of its calls, or one value (a part) of its arguments or its answer. ``corrects``: the
    request holds a correction.
    """

    request: JSONObject = field(repr=False)
    timeout: float | None = None
    asks_for: AsksFor = "reply"
    corrects: bool = False


@dataclass(frozen=True, slots=True)
class Sleep:
    """Effect: wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Notify:
    """Effect: call the watchers with an attempt that is over."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Claim:
    """Effect: take the cost of a repeat from the client's bucket, which holds ``quota`` repeats."""

    quota: int


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
    """What ended the reading of a stream before its own end; None for nothing."""
    vetoed: Vetoed | None = None
    """Where the stream was closed by us; None when it was not."""
    is_behind_text: bool = False
    """Whether some text of the streamed reply has reached the caller.

    Only the calls beside it can then still be fixed.
    """
    leniency: tuple[str, ...] = ()
    """The ways of servers that were read as the API's, by name."""


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
    """The response as far as it came of a stream that broke off; None when nothing came."""


@dataclass(frozen=True, slots=True)
class Noted:
    """Event: the wait is over, the watchers were called, or a repeat was ``granted`` or not.

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
    """The response that carries it."""
    attempts: tuple[Attempt, ...]
    """All attempts, in order."""
    spliced: bool = False
    """Whether the message in the response is not as it came.

    An id or a form was changed, or it holds parts of several replies.
    """
    turn: JSONObject = field(default_factory=dict, repr=False)
    """The assistant's message for the next request, with its thoughts."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Outcome: no reply fits.

    ``failure`` is why the last call brought no reply, None where it brought one. ``tool`` is the
    tool whose arguments alone were wrong, None where more was wrong.
    """

    end: End
    attempts: tuple[Attempt, ...]
    failure: Failure | None = None
    tool: str | None = None


Outcome: TypeAlias = Settled | Ended


@dataclass(frozen=True, slots=True)
class Judged:
    """What one event means: the verdict, and the message it is about."""

    verdict: Verdict | None
    """The verdict; None when no reply came, or a valid one too late."""
    message: JSONObject | None = None
    """The message in the API's own form.

    When only some calls were requested, these are spliced into the frozen message.
    """
    failure: Failure | None = None
    """Why there is no verdict; beside one, what the error in the response says of the request."""
    response: JSON = field(default=None, repr=False)
    """The response as plain JSON."""
    limit_refused: bool = False
    """Whether the server refused a token limit that we had raised.

    Verdict and message are then those of the reply before, which counts as cut.
    """
    content: JSON = field(default=None, repr=False)
    """The content as it came where that holds the model's thoughts; None elsewhere."""
    unspliced: bool = False
    """Whether the reply for a part of the message could not be put into it.

    It did not fit there, or was cut at the token limit.
    """
    is_behind_text: bool = False
    """Whether some text of the streamed reply has reached the caller."""
    vetoed: Vetoed | None = None
    """Where the stream was closed by us; None when it was not."""
    came: JSONObject | None = None
    """The message as it came."""
    own: JSONObject | None = None
    """The message as it came with its thoughts, where it was spliced; None elsewhere."""
    cut: JSON = field(default=None, repr=False)
    """What came of a stream that broke off."""

    @property
    def turn(self) -> JSONObject | None:
        """The message as the provider wants it back."""
        if not self.message or self.content is None:
            return self.message

        return self.message | {"content": self.content}

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
        refused = turn.refused_by(judged.failure, ask.wire)
        attempt = _attempt(ask, len(attempts) + 1, turn, sent, judged, seconds, refused)
        attempts = (*attempts, attempt)

        noted = yield Notify(attempt)
        spent += noted.seconds
        is_late = ask.policy.time_left(spent) == 0  # None: there is no deadline

        if refused and not is_late:
            turn = without(ask, turn, refused)
            continue

        if isinstance(judged.verdict, Valid):
            if not is_late:
                return _accepted(ask, turn, judged.verdict, judged, attempts)

            # the watchers were done after the deadline
            late = replace(attempt, failure=str(_TOO_LATE))
            return Ended(End("halted", "deadline"), (*attempts[:-1], late))

        bad = _bad(ask, turn, judged)
        step = _decided(ask, attempts, spent, judged, bad)
        if isinstance(step, Again):
            consult = consult_for(ask, turn, bad, step)
            step, spent = yield from _prepared(ask, step, consult, spent)

        if isinstance(step, End):
            return Ended(step, attempts, judged.failure, _tool_alone(bad))

        turn = next_turn(ask, turn, bad, step)


def _tool_alone(bad: Bad | None) -> str | None:
    """Return the tool whose arguments alone were wrong; None where more was wrong."""
    if bad is None or bad.scope is None or bad.scope.only is None:
        return None

    return bad.scope.only.tool


def _decided(
    ask: Ask, attempts: tuple[Attempt, ...], spent: float, judged: Judged, bad: Bad | None
) -> NextStep:
    """Return what the policy does next; behind text that went out only calls can be fixed."""
    has_scoped_calls = bad is not None and bad.scope is not None and bool(bad.scope.calls)
    step = ask.policy.next_step(
        attempts,
        spent,
        judged.failure,
        scoped=has_scoped_calls and not ask.policy.allow_tool_switch,
        clients_retries=ask.clients_retries,
        repeats=0 if bad is None else bad.repeats,
    )
    if isinstance(step, End) or not judged.is_behind_text:
        return step

    # tier 0 would send the same request again, and its whole reply would come behind the text
    if step.tier == 0:
        kind = "malformed_response" if judged.failure is None else judged.failure.kind
        return End("failed", kind)

    # a call that was written as text has not gone out: it is asked for behind the text before it
    in_calls = all(
        issue.path.startswith("/tool_calls") or issue.code == Code.CALL_AS_TEXT.value
        for issue in judged.issues
    )
    return step if in_calls else End("rejected", "streamed")


def _called(
    ask: Ask, turn: Turn, sent: JSONObject, spent: float
) -> Generator[Effect, Event, tuple[Judged, float, float]]:
    """Make one call and judge what it brought.

    Return the judgement, the seconds of the call, and the seconds that are spent in all.
    """
    asks_for = _asks_for(ask, turn.scope)
    corrects = turn.correction is not None
    event: Any = yield Call(sent, ask.policy.time_left(spent), asks_for, corrects)
    spent += event.seconds + event.before

    judged = _judge_event(ask, turn, event)
    if event.is_behind_text:
        judged = replace(judged, is_behind_text=True)
    if isinstance(event, Failed) and event.cut is not None:
        judged = replace(judged, cut=event.cut)
    if isinstance(event, Replied) and event.leniency and judged.verdict is not None:
        steps = (*event.leniency, *judged.verdict.leniency)
        judged = replace(judged, verdict=replace(judged.verdict, leniency=steps))

    check = None if judged.verdict is None else check_of(ask.contract, judged.verdict)
    if check is not None:
        checked = yield check
        spent += checked.seconds
        if isinstance(checked, Checked) and checked.issues and judged.verdict is not None:
            judged = replace(judged, verdict=Invalid(checked.issues, judged.verdict.leniency))

    if isinstance(judged.verdict, Valid) and ask.policy.time_left(spent) == 0:
        judged = Judged(None, failure=_TOO_LATE, response=judged.response)

    return judged, event.seconds, spent


def _asks_for(ask: Ask, scope: Scope | None) -> AsksFor:
    if scope is None:
        return "reply"

    is_of_calls = bool(scope.calls) and scope.part is None
    return "calls" if is_of_calls and ask.contract.channel == "native" else "part"


def _prepared(
    ask: Ask, step: Again, consult: Consult | None, spent: float
) -> Generator[Effect, Event, tuple[NextStep, float]]:
    """Prepare the next request: claim a repeat of the transport's, wait, ask a human.

    Return the step, or the end that came instead, and the seconds that are spent in all.
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

    if ask.policy.time_left(spent) == 0:
        return End("halted", "deadline"), spent

    return step, spent


def _judge_event(ask: Ask, turn: Turn, event: Replied | Failed) -> Judged:
    """Judge what a call brought; the reply to a scoped ask is spliced into the frozen message."""
    if isinstance(event, Failed):
        if error_code(event.failure.error) is Code.ENVELOPE_ERROR:
            return _judge_failure(turn, event.failure)

        # the error speaks of what the model wrote: it is judged as a reply
        response: JSON = {"error": event.failure.error}
    else:
        response = event.response
        if event.fault is not None:
            written = ask.wire.message_in(response)
            return Judged(Invalid((event.fault,)), written, response=response, vetoed=event.vetoed)

    opened = opened_for(ask.contract, response, ask.wire)
    if isinstance(opened, Invalid):
        written = ask.wire.message_in(response) or _written_in(response, opened)
        is_servers_fault = all(issue.remedy is Remedy.RESEND for issue in opened.issues)
        failure = failure_in(response) if is_servers_fault else None
        return Judged(opened, written, response=response, failure=failure)

    came = opened.came
    message = opened.message
    if came is None or response is came or not isinstance(message, dict):
        # a bare message is not a response
        no_response = Issue.of(Code.ENVELOPE_MALFORMED, expected="a whole response")
        return Judged(Invalid((no_response,)), response=response)

    content = came.get("content") if thoughts_in(came.get("content")) else None
    cut = cut_at_limit(ask.contract, message, turn.request, response, ask.wire)
    to_judge = cut or _spliced(ask.contract, turn.scope, opened, content)
    if isinstance(to_judge, Invalid):
        return Judged(to_judge, message, response=response, content=content, unspliced=True)

    own = message if content is None else message | {"content": content}
    opened, content = to_judge
    judged = _judge_message(ask, turn, opened, content, response)

    return judged if opened.message is message else replace(judged, own=own)


def _spliced(
    contract: Contract, scope: Scope | None, opened: Opened, content: JSON
) -> tuple[Opened, JSON] | Invalid:
    """Put what was asked for alone into the frozen message of its scope.

    Return the message to judge, and its content where that holds thoughts.
    """
    if scope is None:
        return opened, content

    spliced = splice(contract, scope, cast("JSONObject", opened.message))
    if isinstance(spliced, Invalid):
        return spliced

    message, steps = spliced
    if message is opened.message:
        return opened, content  # a whole reply came instead of a part

    # the frozen message is as the provider wants it back: with the thoughts in its content
    content = None
    if thoughts_in(message.get("content")):
        content = message["content"]
        message = message | {"content": text_in(content)}

    return replace(opened, message=message, leniency=(*opened.leniency, *steps)), content


def _judge_message(ask: Ask, turn: Turn, opened: Opened, content: JSON, response: JSON) -> Judged:
    """Judge a message; ids that are taken are numbered where no retry could change them.

    An id that is taken is refused once, since a model may have copied it. A server that counts anew
    in every reply would send it again, whatever we ask. So it is numbered from then on, also where
    the conversation shows such a server, and where the id was not written by a model.
    """
    message: Any = opened.message
    if not message.get("tool_calls") or ask.contract.ids_may_repeat:
        verdict = judge_opened(ask.contract, opened)
        return Judged(verdict, message, response=response, content=content, came=opened.came)

    ids = ids_in(ask.base["messages"])
    taken = set(ids)
    is_of_server = not IDS_OF_SERVERS.isdisjoint(opened.leniency)
    numbered = message
    if turn.numbers or counts_anew(ids) or is_of_server:
        numbered = with_numbered_ids(message, taken)
        if numbered is not message:
            opened = replace(opened, message=numbered)

    verdict = with_fresh_ids(numbered, judge_opened(ask.contract, opened), taken)
    if numbered is not message:
        verdict = replace(verdict, leniency=(*verdict.leniency, "numbered_id"))

    return Judged(verdict, numbered, response=response, content=content, came=opened.came)


def _judge_failure(turn: Turn, failure: Failure) -> Judged:
    """Judge a failure: the server may have refused a token limit that we had raised."""
    is_refused = failure.kind in ("invalid_request", TOO_LONG)
    if not is_refused or not turn.raised or turn.answers is None:
        return Judged(None, failure=failure)

    cut = Issue.of(Code.REPLY_TRUNCATED, hint="the server refused a higher token limit")
    faults = (issue for issue in turn.answers.issues if issue.remedy is not Remedy.SHORTEN)
    verdict = Invalid((cut, *faults))
    response: JSON = None if failure.error is None else {"error": failure.error}

    return Judged(verdict, turn.answers.message, response=response, limit_refused=True)


def _written_in(response: JSON, verdict: Invalid) -> JSONObject | None:
    """Return what the model wrote where no message came; None when the model has nothing to fix."""
    if all(issue.remedy in {Remedy.RESEND, Remedy.STOP} for issue in verdict.issues):
        return None

    # Groq puts there what its parser could not read
    written = peek(peek(response, "error"), "failed_generation")
    return {"role": "assistant", "content": written if isinstance(written, str) else None}


def _bad(ask: Ask, turn: Turn, judged: Judged) -> Bad | None:
    """Return what was wrong, and what alone is to be retried; None when no message came."""
    message = judged.turn
    if message is None:
        return None

    before = turn.answers
    frozen = turn.scope
    issues = judged.issues
    own = judged.own or message
    if judged.limit_refused and before is not None:
        own = before.own

    is_bound = turn.is_bound or is_signed(own) or any_signed(ask.base["messages"])
    if turn.correction is not None and not turn.is_bound:
        # its thoughts are bound to a request that is not repeated
        own = without_thoughts(own)

    words = words_of(message)  # before a frozen message takes its place
    repeats = 0
    if before is not None:
        repeats = before.repeats + (1 if before.words == words else 0)

    # one value was asked for, now or before: from now on the whole document is
    was_whole = before is not None and before.whole
    whole = was_whole or (frozen is not None and frozen.place != "")

    keeps_frozen = judged.unspliced or any(issue.code in _KEEPING for issue in issues)
    if frozen is None or not keeps_frozen:
        scope = _scope(ask, message, issues, whole=whole, is_bound=is_bound)
    elif not frozen.place:
        # the calls that were asked for were switched, refused or cut: they are asked for once more
        message = frozen.message
        issues = tuple(dict.fromkeys((*issues, *frozen.issues)))
        scope = frozen
    else:
        # one value was asked for in vain: the faults of its document are corrected as before
        cuts = [issue for issue in issues if issue.remedy is Remedy.SHORTEN]
        scope = _scope(ask, frozen.message, frozen.issues, whole=True, is_bound=is_bound)
        message = frozen.message
        issues = (*cuts, *frozen.issues)

    return Bad(
        message,
        issues,
        scope,
        limit_refused=judged.limit_refused,
        whole=whole,
        # there may have been calls behind the one that was stopped
        may_miss=judged.vetoed is not None and ask.contract.parallel,
        words=words,
        repeats=repeats,
        is_told=judged.is_behind_text or (before is not None and before.is_told),
        is_bound=is_bound,
        own=own,
    )


def _scope(
    ask: Ask, message: JSONObject, issues: tuple[Issue, ...], *, whole: bool, is_bound: bool
) -> Scope | None:
    """Return the part of the message that can be retried alone; None when there is none.

    With ``whole`` no single value is, nor where the request ``is_bound`` to stay as it is.
    """
    # the server keeps each reply as it came, so that none may be put together of several
    if ask.base.get(ask.wire.kept_by) is not None:
        return None

    if ask.policy.allow_tool_switch or is_bound:
        return scope_of(ask.contract, message, issues)

    is_narrow = ask.policy.scope == "narrow"
    # what is asked for alone needs another format than the caller's, which only "narrow" may change
    has_format = peek(ask.base.get("response_format"), "type") == "json_schema"
    payload = is_narrow or not has_format

    return scope_of(ask.contract, message, issues, parts=is_narrow and not whole, payload=payload)


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
        usage=_usage(ask, sent, judged),
        seconds=seconds,
        escalation=turn.escalation,
        api=ask.wire.name,
    )


def _usage(ask: Ask, sent: JSONObject, judged: Judged) -> Usage:
    """Return the tokens of an attempt, estimated where a message came without a count."""
    names = ask.wire.usage
    response = judged.response if judged.cut is None else judged.cut
    counted = Usage.of(response, names)
    if counted.prompt_tokens and counted.completion_tokens:
        return counted

    came = ask.wire.message_in(response)
    if came is None and not judged.limit_refused:
        came = judged.message
    if came is None:
        return counted

    items = peek(came.get("response"), "output")
    asked = {**without_transport(sent), "extra_body": sent.get("extra_body")}
    return counted.with_estimates(response, asked, items or came, names)


def _accepted(
    ask: Ask, turn: Turn, verdict: Valid, judged: Judged, attempts: tuple[Attempt, ...]
) -> Settled:
    """Return the reply in the response that carries it, as if the first one had been valid."""
    response: JSONObject = judged.response if isinstance(judged.response, dict) else {}
    assistant = judged.turn or {}
    message = judged.message or {}

    if turn.correction is not None and (turn.is_bound or is_signed(assistant)):
        # thoughts behind a correction are bound to it, and the caller's history has none
        assistant = with_thoughts_of(assistant, turn.first if message.get("tool_calls") else None)
        response = ask.wire.with_message(response, assistant)
        return Settled(verdict.reply, response, attempts, spliced=True, turn=assistant)

    if message is judged.came:
        return Settled(verdict.reply, response, attempts, turn=assistant)

    # thoughts in the content are handed on as they came
    response = ask.wire.with_message(response, assistant)
    # members beside the content, such as thoughts, go back as the response has them
    carried = ask.wire.message_in(response) or {}
    beside = carried.keys() - {"role", "content", "tool_calls"}
    assistant = assistant | {name: carried[name] for name in beside}

    return Settled(verdict.reply, response, attempts, spliced=True, turn=assistant)
