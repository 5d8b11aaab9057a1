"""When to retry, after which wait and with which step of escalation; when to stop, and how."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tenacity import Future, RetryCallState, wait_random_exponential

from strictreply.retry._failures import Failure
from strictreply.values._errors import (
    CallFailed,
    ContractError,
    ReplyHalted,
    ReplyRejected,
    ToolArgumentsError,
    TransportFailed,
    must_be,
)
from strictreply.values._issues import Category, Code, Remedy
from strictreply.values._replies import Attempt, Usage, total_usage

if TYPE_CHECKING:
    from strictreply.retry._steering import Situation


ESCALATION_TIER = 3
STEPS = ("forced_tool", "response_format", "model", "human")

Step: TypeAlias = "str | Mapping[str, Any]"
"""One of :data:`STEPS`, where the models are ``model:<name>``, or keywords of the request."""

Stop: TypeAlias = Callable[[RetryCallState], bool]
"""A tenacity stop, such as ``stop_after_attempt(3) | stop_after_delay(20)``."""

Wait: TypeAlias = Callable[[RetryCallState], float]
"""A tenacity wait, such as ``wait_random_exponential(max=10)``."""

_BUDGETS = (
    "max_retries",
    "arg_retries",
    "transport_retries",
    "max_bad_calls",
    "deadline",
    "max_tokens_total",
    "max_cost",
    "max_retry_after",
    "max_reply_tokens",
    "quota",
)
_NEEDED = frozenset({"max_retries", "max_retry_after"})
# of a call after the API failed, where neither the policy nor the client has a number
DEFAULT_TRANSPORT_RETRIES = 2
_LEAST_SECONDS = 0.001  # less counts as none: timers of the system may end that much early
_MOST_SECONDS = 1e8  # three years: a socket takes no timeout that is without end
LATE_KINDS = frozenset({"timeout", "deadline"})
"""The failures by which a deadline ends a call: the API may be well, the model slow."""

_TRANSPORT_WAIT: Wait = wait_random_exponential(multiplier=0.5, max=8)
_REJECTED_WORDS = {  # requirement T35 has the words for bad calls
    "retries": "retries spent",
    "arg_retries": "argument retries spent",
    "bad_calls": "too many bad tool calls",
    "category": "a fault of a category in stop_on",
    "streamed": "its text had been streamed to the caller",
    "human": "ask_human returned None",
}


@dataclass(frozen=True, slots=True)
class Consult:
    """Effect: ask a human for the correction of a reply."""

    situation: Situation
    ask: Callable[[Situation], Any]


@dataclass(frozen=True, slots=True)
class Consulted:
    """Event: what the human wants the model told, None to give up, and the seconds it took."""

    text: str | None
    seconds: float = 0.0


def perform_consult(effect: Consult) -> Consulted:
    """Ask the human; ContractError when the callback turns out to be async."""
    answer = effect.ask(effect.situation)
    if inspect.iscoroutine(answer):
        answer.close()
        raise ContractError("RetryPolicy.ask_human is async; use an async client")
    return consulted(answer)


def consulted(answer: object) -> Consulted:
    """Return what the human answered; ContractError when it is no text."""
    if answer is not None and not isinstance(answer, str):
        expected = "must return the text for the model, or None"
        raise ContractError(f"RetryPolicy.ask_human {expected}; not {type(answer).__name__}")

    return Consulted(answer)


def steps_in_force(
    policy: RetryPolicy, model: object, tier: int, is_usable: Callable[[Step], bool]
) -> list[Step]:
    """Return the steps in force at a tier, the one taken last at the end.

    ``model`` is the request's own.

    From the third tier on one more is taken each time, and stays. Keywords alone count at each of
    these tiers.
    """
    if tier < ESCALATION_TIER:
        return []
    always: list[Step] = (
        [policy.escalation] if policy.escalation and isinstance(policy.escalation, Mapping) else []
    )
    return [*always, *islice(filter(is_usable, _ladder(policy, model)), tier - ESCALATION_TIER + 1)]


def _ladder(policy: RetryPolicy, model: object) -> Iterator[Step]:
    steps = [] if isinstance(policy.escalation, Mapping) else list(policy.escalation)
    steps += [
        step
        for step, has in (("model", policy.models), ("human", policy.ask_human))
        if has and step not in steps
    ]

    rungs = list(policy.models)
    left = iter(
        rungs[rungs.index(model) + 1 :] if isinstance(model, str) and model in rungs else rungs
    )

    for number, step in enumerate(steps):
        if step == "model":  # one rung for each time it is named, the last time all that are left
            more = "model" in steps[number + 1 :]
            yield from (f"model:{name}" for name in islice(left, 1 if more else None))
        else:
            yield step


def _wrong_escalation(policy: RetryPolicy) -> str:
    """Return what is wrong with the steps: that they are none, or lack what they need.

    Empty for nothing.
    """
    given = policy.escalation
    steps = [] if isinstance(given, Mapping) else list(given)
    if isinstance(given, str) or not all(
        isinstance(step, Mapping) or step in STEPS for step in steps
    ):
        return f"escalation is keywords of a request, or a list of them and of {', '.join(STEPS)}"

    if isinstance(policy.models, str):
        return "models is a list of names; put the one model into a list"
    if "model" in steps and not policy.models:
        return "escalation names 'model', which needs models"

    is_lacking = "human" in steps and policy.ask_human is None
    return "escalation names 'human', which needs ask_human" if is_lacking else ""


@dataclass(frozen=True, slots=True)
class Again:
    """Ask once more after ``wait`` seconds, with a correction at ``tier`` from 1 or in ``words``.

    0: without one.
    """

    tier: int
    wait: float = 0.0
    words: str | None = None


@dataclass(frozen=True, slots=True)
class End:
    """Stop asking. ``how`` chooses the error, ``reason`` is the stable word it carries."""

    how: Literal["rejected", "halted", "failed"]
    reason: str

    def error(
        self, attempts: tuple[Attempt, ...], failure: Failure | None, tool: str | None
    ) -> CallFailed:
        """Return the error to raise.

        ``failure`` is the transport's, ``tool`` the one of invalid arguments alone.
        """
        asks = f"{len(attempts)} attempt{'s' if len(attempts) > 1 else ''}"
        reason = self.reason

        if self.how == "halted":
            return ReplyHalted(f"halted after {asks}: {reason}", reason=reason, attempts=attempts)

        if self.how == "failed":
            # Not chained to its cause: a traceback would print the server's words, which may hold
            # the model's.
            names = ("cause", "retry_after", "status_code")
            known: dict[str, Any] = {name: getattr(failure, name, None) for name in names}
            message = f"the API call failed after {asks}: {failure or reason}"
            return TransportFailed(message, reason=reason, attempts=attempts, **known)

        why = _REJECTED_WORDS.get(reason, "stopped by the policy")

        if tool is not None:
            message = f"the arguments of tool {tool} stayed invalid after {asks} ({why})"
            return ToolArgumentsError(message, reason=reason, attempts=attempts, tool=tool)

        return ReplyRejected(
            f"no valid reply after {asks} ({why})", reason=reason, attempts=attempts
        )


NextStep: TypeAlias = Again | End


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The budgets of one call; the first one that is spent ends it.

    - ``max_retries``: corrections after the first request; ``arg_retries``: those for one tool's
      arguments alone (None: they share ``max_retries``); ``max_bad_calls``: attempts with an
      unknown tool or bad arguments (requirement T35).
    - ``transport_retries``: repeats of one call after the API failed or sent no completion (None:
      of failures as many as the client's own ``max_retries`` says, else 2); ``quota``: how many
      such repeats all calls of one wrapped client may make beyond their successes (None: any
      number). A repeat that succeeds gives its own back, as do every five calls that succeed at
      once.
    - ``deadline``: the total time in seconds: connecting, sending, headers, bodies, waits, checks
      and watchers. A call is cut off when it passes, and nothing is accepted after it; what cannot
      be cut off (a sync check or watcher, a name lookup, a client that does not use httpx) is
      waited for, and its result refused.
    - ``max_tokens_total``: the tokens of all attempts; ``max_cost``: their cost, as ``price``
      computes it. Both are checked before each further request.
    - ``stop_on``: categories of faults after which the call ends; ``API_TRANSIENT`` is that of a
      call that failed and may succeed later.
    - ``stop`` and ``wait`` are tenacity's. Without ``wait`` a correction is sent at once, and a
      failed call is repeated after a jittered exponential pause. ``max_retry_after``: the longest
      ``Retry-After`` that is obeyed, in seconds.
    - ``allow_tool_switch``: the answer to an argument correction may be another tool or an answer
      (requirement T29); the whole reply is then asked for again, and ``arg_retries`` does not
      apply.
    - ``scope``: how only the faulty calls are asked for. ``narrow`` sends only their tools, and
      asks only for the wrong value of a large document; ``cached`` sends everything that the first
      request sent, so that prompt caches hit, and narrows by ``tool_choice`` and the text of the
      correction.
    - ``max_reply_tokens``: how far the token limit of a request (``max_completion_tokens``,
      ``max_tokens``) is raised when replies are cut at it: doubled each time, up to this; None is
      four times the caller's limit.
    - ``escalation``: request keywords (``temperature``, …) sent from the third tier on; or the
      steps to apply one after another from there, each of which stays in force: such keywords,
      ``"forced_tool"`` (the tool at fault, else any, must be called), ``"response_format"`` (the
      schema is sent as one, where an answer or the text channel's reply was asked for without),
      ``"model"`` and ``"human"``. A step that changes nothing is skipped. A bad reply that comes a
      second time skips a tier. The attempt's ``escalation`` names the step applied last.
    - ``models``: names, the weakest first. Each ``"model"`` step takes the next one after the
      request's own.
    - ``ask_human``: called with the :class:`Situation` for the text that corrects the reply, which
      is sent as the user's turn; None ends the call as rejected. It may be async with an async
      client. Where ``escalation`` names no ``"model"`` or ``"human"``, these are its last steps.
    - ``veto``: whether a stream is closed as soon as its reply can no longer become valid.
      ``always`` asks for a stream also if the caller did not, so that it can be closed; raw
      responses are not streamed.

    Raises ValueError for a negative budget, a ``quota`` that is no whole number, an unknown
    category or step, ``max_cost`` without ``price``, ``"model"`` without ``models`` and ``"human"``
    without ``ask_human``.
    """

    max_retries: int = 3
    arg_retries: int | None = None
    transport_retries: int | None = None
    quota: int | None = 100
    deadline: float | None = None
    max_tokens_total: int | None = None
    max_cost: float | None = None
    price: Callable[[Usage], float] | None = None
    max_bad_calls: int | None = None
    stop_on: Collection[Category] = frozenset()
    stop: Stop | None = None
    wait: Wait | None = None
    max_retry_after: float = 60.0
    allow_tool_switch: bool = False
    scope: Literal["narrow", "cached"] = "narrow"
    max_reply_tokens: int | None = None
    escalation: Mapping[str, Any] | Sequence[str | Mapping[str, Any]] = field(
        default_factory=dict[str, Any],
        repr=False,  # it may hold headers
    )
    models: Sequence[str] = ()
    ask_human: Callable[[Situation], Awaitable[str | None] | str | None] | None = None
    veto: Literal["off", "streams", "always"] = "streams"

    def __post_init__(self) -> None:
        for name in _BUDGETS:
            value = getattr(self, name)
            if value is None and name in _NEEDED:
                raise ValueError(f"RetryPolicy.{name} must be a number; 0 allows none")

            if value is not None:
                must_be(f"RetryPolicy.{name}", value, (int, float), "a number")
                if not value >= 0:  # NaN is no budget either
                    raise ValueError(f"RetryPolicy.{name} must not be negative")

        whole = {int, type(None)}
        escalation = _wrong_escalation(self)
        rules = {
            "max_reply_tokens must be a whole number of tokens, or None": type(
                self.max_reply_tokens
            )
            in whole,
            "quota must be a whole number of repeats, or None for no quota": type(self.quota)
            in whole,
            "veto must be 'off', 'streams' or 'always'": self.veto in ("off", "streams", "always"),
            "scope must be 'narrow' or 'cached'": self.scope in ("narrow", "cached"),
            "max_cost needs price, a function from Usage to a cost": self.max_cost is None
            or self.price is not None,
            f"stop_on may contain only the categories {', '.join(Category)}": set(self.stop_on)
            <= set(Category),
            escalation: not escalation,
        }
        for rule, is_kept in rules.items():
            if not is_kept:
                raise ValueError(f"RetryPolicy.{rule}")

        object.__setattr__(self, "stop_on", frozenset(map(Category, self.stop_on)))

    @property
    def repeats(self) -> int:
        """How often a failed call is repeated: ``transport_retries``, or 2 by default."""
        return (
            DEFAULT_TRANSPORT_RETRIES if self.transport_retries is None else self.transport_retries
        )

    def time_left(self, spent: float) -> float | None:
        """Return the seconds left of the deadline after ``spent``, 0 when it is over.

        None without a deadline.
        """
        if self.deadline is None:
            return None
        left = self.deadline - spent
        return min(left, _MOST_SECONDS) if left >= _LEAST_SECONDS else 0.0

    def next_step(
        self,
        attempts: tuple[Attempt, ...],
        spent: float,
        failure: Failure | None = None,
        *,
        scoped: bool = False,
        clients_retries: int | None = None,
        repeats: int = 0,
    ) -> NextStep:
        """Decide what follows the last attempt, which was not accepted, after so many seconds.

        ``failure`` is None when a response came; ``scoped``: nothing but the arguments of calls is
        wrong; ``clients_retries`` is the client's own ``max_retries``; each of ``repeats`` of a
        reply raises the tier by 1.
        """
        if is_transport_fault(attempts[-1]):
            # the client's own number is of failures: a response that is no completion it would not
            # repeat, but return
            unsaid = self.transport_retries is None and failure is not None
            repeats = self.repeats if clients_retries is None or not unsaid else clients_retries
            return self._after_transport(attempts, spent, failure, repeats)

        stopping = [issue for issue in attempts[-1].issues if issue.remedy is Remedy.STOP]
        if stopping:
            return End("halted", stopping[0].code.removeprefix("reply."))
        if any(issue.category in self.stop_on for issue in attempts[-1].issues):
            return End("rejected", "category")

        return self._after_fault(attempts, spent, repeats, scoped=scoped)

    def _after_fault(
        self, attempts: tuple[Attempt, ...], spent: float, repeats: int, *, scoped: bool
    ) -> NextStep:
        # a correction that the transport lost, or the endpoint refused, was never answered, and
        # does not count
        corrections = [
            one for one in attempts if one.tier and not (one.refused or is_transport_fault(one))
        ]
        if len(corrections) >= self.max_retries:
            return End("rejected", "retries")

        arg_corrections = sum(1 for attempt in corrections if (attempt.scope or "/")[0] != "/")
        if scoped and self.arg_retries is not None and arg_corrections >= self.arg_retries:
            return End("rejected", "arg_retries")

        if (
            self.max_bad_calls is not None
            and sum(map(_is_bad_call, attempts)) >= self.max_bad_calls
        ):
            return End("rejected", "bad_calls")

        wait = 0.0 if self.wait is None else self.wait(_call_state(attempts, spent, None))
        return self._within_budgets(Again(len(corrections) + 1 + repeats, wait), attempts, spent)

    def _after_transport(
        self, attempts: tuple[Attempt, ...], spent: float, failure: Failure | None, repeats: int
    ) -> NextStep:
        failure = failure or Failure("malformed_response", retryable=True)
        reason = failure.kind
        wait = failure.retry_after

        if reason in LATE_KINDS and self.time_left(spent) == 0:
            return End("halted", "deadline")

        retryable = failure.retryable and Category.API_TRANSIENT not in self.stop_on
        if not retryable or sum(map(is_transport_fault, attempts)) > repeats:
            return End("failed", reason)

        if wait is None:
            wait = (self.wait or _TRANSPORT_WAIT)(_call_state(attempts, spent, failure))
        elif wait > self.max_retry_after or (
            self.deadline is not None and spent + wait >= self.deadline
        ):
            # the server asked for a longer pause than the policy allows
            return End("failed", reason)

        return self._within_budgets(Again(0, wait), attempts, spent, failure)

    def _within_budgets(
        self,
        step: Again,
        attempts: tuple[Attempt, ...],
        spent: float,
        failure: Failure | None = None,
    ) -> NextStep:
        usage = total_usage(attempts)
        if self.deadline is not None and spent + step.wait >= self.deadline:
            return End("halted", "deadline")
        if self.max_tokens_total is not None and usage.total_tokens >= self.max_tokens_total:
            return End("halted", "tokens")

        if (
            self.max_cost is not None
            and self.price is not None
            and self.price(usage) >= self.max_cost
        ):
            return End("halted", "cost")

        if self.stop is not None and self.stop(_call_state(attempts, spent, failure, step.wait)):
            return End("rejected" if step.tier else "failed", "stop")

        return step


def _is_bad_call(attempt: Attempt) -> bool:
    """Return whether an attempt called an unknown tool, or one with bad arguments."""
    called = [
        issue for issue in attempt.issues if issue.code != str(Code.TOOL_REQUIRED)
    ]  # that one is no call at all
    prefixes = ("tool.", "call.", "args.")
    places = ("/tool_calls/", "/args")
    return any(issue.code.startswith(prefixes) or issue.path.startswith(places) for issue in called)


def is_transport_fault(attempt: Attempt) -> bool:
    """Return whether an attempt failed on the way, or brought a response that is no completion."""
    # of what we had added: no fault of the transport, and asked again without it
    if attempt.refused:
        return False
    return attempt.failure is not None or any(
        issue.remedy is Remedy.RESEND for issue in attempt.issues
    )


def _call_state(
    attempts: tuple[Attempt, ...], spent: float, failure: Failure | None, wait: float = 0.0
) -> RetryCallState:
    """Return the call as a stop or a wait of tenacity expects it.

    It reads attempts, seconds since the start, the pause, and the last outcome.
    """
    # no Retrying runs
    state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]
    state.attempt_number = len(attempts)
    state.start_time = 0.0
    state.outcome_timestamp = spent
    state.upcoming_sleep = wait
    cause = None if failure is None else failure.cause
    state.outcome = Future.construct(len(attempts), cause, has_exception=cause is not None)
    return state
