"""The loop: ask, judge, correct, until a reply fits or a budget ends it. No I/O happens here.

``reply_flow`` is a generator: it yields what it wants done (``Call``, ``Sleep``, ``Check``, ``Notify``) and is sent
what happened (``Replied``, ``Failed``, ``Woke``, ``Checked``, ``Noted``). Any driver serves it: sync, async, a test.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeAlias

from strictreply.asking import Ask, Bad, Turn, first_turn, next_turn
from strictreply.attempts import Attempt, Usage
from strictreply.channels import judge_opened, open_envelope, peek
from strictreply.channels.envelope import Opened
from strictreply.checking import Check, Checked, check_of
from strictreply.failures import Failure
from strictreply.issues import Code, Issue
from strictreply.policy import Again, End
from strictreply.replies import AssistantReply, Invalid, Valid, Verdict
from strictreply.scoping import scope_of, splice
from strictreply.typing import JSON, JSONObject


@dataclass(frozen=True, slots=True)
class Call:
    """Effect: send this request; ``timeout`` is what is left of the deadline in seconds, None without one."""

    request: JSONObject = field(repr=False)
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Sleep:
    """Effect: wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Notify:
    """Effect: tell whoever watches that an attempt is over."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Replied:
    """Event: the response as plain JSON, and the seconds the call took."""

    response: JSON = field(repr=False)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Failed:
    """Event: the call brought no response."""

    failure: Failure
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Woke:
    """Event: the wait is over; ``seconds`` is how long it was."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Noted:
    """Event: the watchers were told; ``seconds`` is how long they took."""

    seconds: float = 0.0


Effect: TypeAlias = Call | Sleep | Check | Notify
Event: TypeAlias = Replied | Failed | Woke | Checked | Noted


@dataclass(frozen=True, slots=True)
class Accepted:
    """Outcome: a reply that fits; ``response`` is the completion it stands in, ``spliced`` says we put it there."""

    reply: AssistantReply
    response: JSONObject = field(repr=False)
    attempts: tuple[Attempt, ...]
    spliced: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """Outcome: no reply fits, and ``end`` says why asking stopped.

    ``failure`` is there when the transport was the reason; ``tool`` when nothing but its arguments was wrong.
    """

    end: End
    attempts: tuple[Attempt, ...]
    failure: Failure | None = None
    tool: str | None = None


Outcome: TypeAlias = Accepted | Ended


@dataclass(frozen=True, slots=True)
class Judged:
    """What was made of one event: the verdict, and the message it is about, spliced when one call was re-asked."""

    verdict: Verdict | None
    message: JSONObject | None = None
    failure: Failure | None = None
    response: JSON = field(default=None, repr=False)

    @property
    def issues(self) -> tuple[Issue, ...]:
        """The faults of the reply; none when it is valid or never came."""
        return self.verdict.issues if isinstance(self.verdict, Invalid) else ()


def reply_flow(ask: Ask) -> Generator[Effect, Event, Outcome]:
    """Ask until a reply fits the terms, or the policy ends it."""
    attempts: tuple[Attempt, ...] = ()
    spent = 0.0
    turn = first_turn(ask)
    while True:
        event = yield Call(turn.request, ask.policy.time_left(spent))
        spent += event.seconds
        judged = _judge_event(ask, turn, event)
        check = None if judged.verdict is None else check_of(ask.terms, judged.verdict)
        if check is not None:
            checked = yield check
            spent += checked.seconds
            judged = _after_checks(judged, checked)
        attempts = (*attempts, _attempt(len(attempts) + 1, turn, judged, event.seconds))
        noted = yield Notify(attempts[-1])
        spent += noted.seconds
        if isinstance(judged.verdict, Valid):
            return _accepted(judged.verdict, judged, attempts)
        bad = _bad(ask, turn, judged)
        scope = None if bad is None else bad.scope
        alone = scope is not None and not ask.policy.allow_tool_switch
        step = ask.policy.next_step(attempts, spent, judged.failure, scoped=alone)
        if isinstance(step, Again) and step.wait > 0:
            woke = yield Sleep(step.wait)
            spent += woke.seconds
            step = End("halted", "deadline") if ask.policy.time_left(spent) == 0 else step
        if isinstance(step, End):
            return Ended(step, attempts, judged.failure, None if scope is None else scope.tool)
        turn = next_turn(ask, turn, bad, step)


def _judge_event(ask: Ask, turn: Turn, event: Event) -> Judged:
    """Judge what a call brought; the reply to a scoped ask is spliced into the frozen message first."""
    if isinstance(event, Failed):
        return Judged(None, failure=event.failure)
    response = event.response if isinstance(event, Replied) else None
    opened = open_envelope(response)
    message = _message_in(response)
    if message is None:
        return Judged(opened if isinstance(opened, Invalid) else _NO_COMPLETION, response=response)
    if isinstance(opened, Invalid):
        return Judged(opened, message, response=response)
    if turn.scope is not None:
        spliced = splice(ask.terms, turn.scope, message)
        if isinstance(spliced, Invalid):
            return Judged(spliced, message, response=response)
        message = spliced
    return Judged(judge_opened(ask.terms, Opened(message)), message, response=response)


_NO_COMPLETION = Invalid((Issue.of(Code.ENVELOPE_MALFORMED, expected="an object with choices"),))
"""A bare message may be judged, but it is no response of the API."""


def _bad(ask: Ask, turn: Turn, judged: Judged) -> Bad | None:
    """Say what was wrong, and whether one call alone is to be asked for; None when no message came.

    While a re-asked call is switched, refused or cut, the frozen message stays what it was.
    """
    if judged.message is None:
        return None
    kept = turn.scope
    if kept is not None and any(issue.code in _KEEPING for issue in judged.issues):
        return Bad(kept.message, tuple(dict.fromkeys((*judged.issues, *kept.issues))), kept)
    return Bad(judged.message, judged.issues, scope_of(ask.terms, judged.message, judged.issues))


_KEEPING = frozenset({Code.TOOL_SWITCHED, Code.REPLY_TRUNCATED})


def _message_in(response: JSON) -> JSONObject | None:
    """Find the message of a response that has one."""
    choices = peek(response, "choices")
    message = peek(choices[0], "message") if isinstance(choices, list) and choices else None
    return message if isinstance(message, dict) else None


def _after_checks(judged: Judged, checked: Event) -> Judged:
    """Turn the verdict when a user's check found something."""
    if not isinstance(checked, Checked) or not checked.issues:
        return judged
    return Judged(Invalid(checked.issues), judged.message, response=judged.response)


def _attempt(number: int, turn: Turn, judged: Judged, seconds: float) -> Attempt:
    """Record what was asked and what became of it."""
    return Attempt(
        number=number,
        request=turn.request,
        raw=judged.response,
        issues=judged.issues,
        failure=None if judged.failure is None else str(judged.failure),
        correction=turn.correction,
        tier=turn.tier,
        scope=turn.scope.tool if turn.scope is not None else None,
        leniency=() if judged.verdict is None else judged.verdict.leniency,
        usage=Usage.of(judged.response),
        seconds=seconds,
    )


def _accepted(verdict: Valid, judged: Judged, attempts: tuple[Attempt, ...]) -> Accepted:
    """Give the reply with the completion that carries it, as if the first shot had hit."""
    response: JSONObject = judged.response if isinstance(judged.response, dict) else {}
    if judged.message is _message_in(response):
        return Accepted(verdict.reply, response, attempts)
    choice = {**response["choices"][0], "message": judged.message, "finish_reason": "tool_calls"}
    return Accepted(verdict.reply, {**response, "choices": [choice]}, attempts, spliced=True)
