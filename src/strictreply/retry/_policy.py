"""Decides what follows an invalid or failed attempt: a retry, a repeat, or the end of the call.

:data:`POLICY` is a table: the first row whose condition holds decides. The row of a budget
(:class:`Budget`) also has its default and description. To add a budget, add a field to
:class:`RetryPolicy`, a row, and the condition under which the budget is exhausted.

Each further request is subject to the budgets of the whole call: ``deadline``,
``max_tokens_total``, ``max_cost``, ``stop``. A correction that was lost in transport, or that the
endpoint rejected, was never answered: it does not count against ``max_retries``.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Literal, TypeAlias, get_args

from tenacity import Future, RetryCallState, wait_random_exponential

from strictreply.contract._correcting import BaseRetryPolicy, CorrectionContext
from strictreply.retry._failures import Failure
from strictreply.values._drafts import CALLS_PLACE
from strictreply.values._errors import (
    CallFailed,
    ContractError,
    ReplyHalted,
    ReplyRejected,
    ToolArgumentsError,
    TransportFailed,
    must_have,
)
from strictreply.values._issues import Category, Code, Issue, Remedy, counted
from strictreply.values._limits import is_count
from strictreply.values._mistakes import IN_POLICIES, helpful
from strictreply.values._replies import Attempt, Usage, total_usage
from strictreply.wires import wire_named
from strictreply.wires._endings import may_be_of_conversation

ESCALATION_TIER = 3
STEPS = ("forced_tool", "response_format", "constrained_call", "model", "human")

Step: TypeAlias = "str | Mapping[str, Any]"
"""One of :data:`STEPS` (a model is ``model:<name>``), or keywords of the request."""

Stop: TypeAlias = Callable[[RetryCallState], bool]
"""A tenacity stop, such as ``stop_after_attempt(3) | stop_after_delay(20)``."""

Wait: TypeAlias = Callable[[RetryCallState], float]
"""A tenacity wait, such as ``wait_random_exponential(max=10)``."""

_LEAST_SECONDS = 0.001  # less counts as none: system timers may fire that much early
_MOST_SECONDS = 1e8  # three years: sockets do not accept an infinite timeout

DEFAULT_TRANSPORT_RETRIES = 2
"""The repeats of a failed call if neither the policy nor the client sets a number."""

LATE_KINDS = frozenset({"timeout", "deadline"})
"""The failures that mean a deadline has passed; the API may work, and the model be slow."""

_FUNCTIONS = {
    "price": "a function from Usage to a cost",
    "stop": "a tenacity stop, such as stop_after_delay(20)",
    "wait": "a tenacity wait, such as wait_random_exponential(max=10)",
    "ask_human": "a function from CorrectionContext to the text for the model",
}
"""The callable fields of a policy, and what each must be."""

_MALFORMED = Failure("malformed_response", retryable=True)
_TRANSPORT_WAIT: Wait = wait_random_exponential(multiplier=0.5, max=8)


@dataclass(frozen=True, slots=True)
class Consult:
    """Effect: ask a human for the correction of a reply."""

    context: CorrectionContext
    ask: Callable[[CorrectionContext], Any]


@dataclass(frozen=True, slots=True)
class Consulted:
    """Event: the human's ``text`` for the model (None to give up), and the seconds it took."""

    text: str | None
    seconds: float = 0.0


def perform_consult(effect: Consult) -> Consulted:
    """Ask the human; raise ContractError if the callback is async."""
    answer = effect.ask(effect.context)
    if inspect.iscoroutine(answer):
        answer.close()
        raise ContractError("RetryPolicy.ask_human is async; use an async client")

    return consulted(answer)


def consulted(answer: object) -> Consulted:
    """Return the human's answer as an event; raise ContractError if it is not a text or None."""
    if answer is not None and not isinstance(answer, str):
        expected = "must return the text for the model, or None"
        raise ContractError(f"RetryPolicy.ask_human {expected}; not {type(answer).__name__}")

    return Consulted(answer)


def steps_in_force(
    policy: RetryPolicy, model: object, tier: int, is_usable: Callable[[Step], bool]
) -> list[Step]:
    """Return the escalation steps in force at a tier, the newest one last.

    From the third tier on, each tier adds one step. If ``escalation`` is only keywords, they are in
    force at each of these tiers. ``model`` is the model of the request.
    """
    if tier < ESCALATION_TIER:
        return []

    steps: list[Step] = []
    if isinstance(policy.escalation, Mapping) and policy.escalation:
        steps.append(policy.escalation)

    usable = filter(is_usable, _ladder(policy, model))
    return [*steps, *islice(usable, tier - ESCALATION_TIER + 1)]


def _ladder(policy: RetryPolicy, model: object) -> Iterator[Step]:
    """Yield the escalation steps in order."""
    steps = [] if isinstance(policy.escalation, Mapping) else list(policy.escalation)
    if policy.models and "model" not in steps:
        steps.append("model")
    if policy.ask_human and "human" not in steps:
        steps.append("human")

    rungs = list(policy.models)
    if isinstance(model, str) and model in rungs:
        rungs = rungs[rungs.index(model) + 1 :]
    left = iter(rungs)

    for number, step in enumerate(steps):
        if step == "model":
            # one model each time it is named; the last time, all that are left
            more = "model" in steps[number + 1 :]
            yield from (f"model:{name}" for name in islice(left, 1 if more else None))
        else:
            yield step


def _wrong_escalation(policy: RetryPolicy) -> str:
    """Return what is wrong with ``escalation`` and the fields that it needs; empty for nothing."""
    given = policy.escalation
    steps = [] if isinstance(given, Mapping) else list(given)

    are_steps = all(isinstance(step, Mapping) or step in STEPS for step in steps)
    if isinstance(given, str) or not are_steps:
        steps_words = f"a list of such mappings and of the steps {', '.join(STEPS)}"
        return f"escalation must be a mapping of request keywords, or {steps_words}"

    if isinstance(policy.models, str):
        return "models must be a list of names; put the one model into a list"
    if "model" in steps and not policy.models:
        return "escalation names 'model', which needs models"

    is_lacking = "human" in steps and policy.ask_human is None
    return "escalation names 'human', which needs ask_human" if is_lacking else ""


def _wrong_choice(policy: RetryPolicy) -> str:
    """Return what is wrong with the fields that take certain values only; empty for nothing."""
    wrong_escalation = _wrong_escalation(policy)
    whole = {int, type(None)}
    categories = set(policy.stop_on)

    if type(policy.max_reply_tokens) not in whole:
        return "max_reply_tokens must be a whole number of tokens, or None"
    if type(policy.retry_budget) not in whole:
        return "retry_budget must be a whole number of retries, or None for no limit"
    if policy.early_stop not in ("off", "streams", "always"):
        return "early_stop must be 'off', 'streams' or 'always'"
    for name in ("keep_prompt_cache", "constrain_retries"):
        if getattr(policy, name) not in (True, False):
            return f"{name} must be True or False"
    if policy.max_cost is not None and policy.price is None:
        return "max_cost needs price, a function from Usage to a cost"
    if not categories <= set(Category):
        return f"stop_on may contain only the categories {', '.join(Category)}"

    return wrong_escalation


@dataclass(frozen=True, slots=True)
class Again:
    """Send another request after ``wait`` seconds.

    ``tier`` is the tier of the correction, from 1; 0 repeats the request without a correction.
    ``words`` is the text of the correction; None if the steering writes it.
    """

    tier: int
    """The number of the correction; 0 repeats the request without one."""
    wait: float = 0.0
    """The seconds to wait before it."""
    words: str | None = None
    """The text of the correction; None if the steering writes it."""


@dataclass(frozen=True, slots=True)
class End:
    """End the call. ``how`` selects the error, ``reason`` is its stable word."""

    how: Literal["rejected", "halted", "failed"]
    """Which error is raised."""
    reason: str
    """The stable word that the error carries."""

    def error(
        self, attempts: tuple[Attempt, ...], failure: Failure | None, tool: str | None
    ) -> CallFailed:
        """Return the error to raise.

        ``failure`` is the failure of the transport; ``tool`` is the tool, if only its arguments
        were wrong. Each may be None.
        """
        asks = counted(len(attempts), "attempt")
        reason = self.reason

        if self.how == "halted":
            return ReplyHalted(f"halted after {asks}: {reason}", reason=reason, attempts=attempts)

        if self.how == "failed":
            # Not chained to its cause: a traceback would print the server's error, which may quote
            # the model.
            names = ("cause", "retry_after", "status_code")
            known: dict[str, Any] = {name: getattr(failure, name, None) for name in names}
            message = f"the API call failed after {asks}: {failure or reason}"
            return TransportFailed(message, reason=reason, attempts=attempts, **known)

        why = REJECTED_WORDS.get(reason, "stopped by the policy")
        if tool is not None:
            message = f"the arguments of tool {tool} stayed invalid after {asks} ({why})"
            return ToolArgumentsError(message, reason=reason, attempts=attempts, tool=tool)

        message = f"no valid reply after {asks} ({why})"
        return ReplyRejected(message, reason=reason, attempts=attempts)


NextStep: TypeAlias = Again | End
"""What follows an attempt that was not accepted."""


@helpful(IN_POLICIES)
@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy(BaseRetryPolicy):
    """How often a call retries, how it escalates, and the budgets that end it.

    The first budget that is exhausted ends the call.

    Raises ContractError for a value of the wrong type, a negative budget, an unknown category or
    step, ``max_cost`` without ``price``, ``"model"`` without ``models``, and ``"human"`` without
    ``ask_human``.
    """

    max_retries: int = 3
    """Corrections after the first request."""
    arg_retries: int | None = None
    """Corrections that concern only the arguments of one tool; None shares ``max_retries``."""
    transport_retries: int | None = None
    """Repeats of one call after the API failed or sent no completion.

    None takes the client's own ``max_retries`` for failures of the API, and 2 for everything else.
    """
    retry_budget: int | None = 100
    """Repeats of failed calls that all calls of a wrapped client may make together.

    A repeat that succeeds does not count; five first-try successes restore one. None for no limit.
    """
    deadline: float | None = None
    """The total time of a call in seconds; None for no limit.

    It covers connecting, sending, headers, bodies, waits, checks and watchers. When it passes, the
    call is interrupted, and no reply is accepted after it. Blocking work (a sync check or watcher,
    a client that does not use httpx) cannot be interrupted: strictreply waits for it, and discards
    its result.
    """
    max_tokens_total: int | None = None
    """The tokens of all attempts, checked before each further request; None for no limit.

    If an endpoint reports no tokens, they are estimated (``Usage.is_estimate``).
    """
    max_cost: float | None = None
    """The cost of all attempts, checked before each further request; None for no limit."""
    price: Callable[[Usage], float] | None = None
    """A function that returns the cost of a :class:`Usage`; required with ``max_cost``."""
    max_invalid_calls: int | None = None
    """Attempts with an unknown tool or invalid arguments; None for no limit."""
    stop_on: Collection[Category] = frozenset()
    """Categories of faults that end the call.

    A failed call that may succeed later is ``API_TRANSIENT``.
    """
    stop: Stop | None = None
    """A tenacity stop; None for none."""
    wait: Wait | None = None
    """A tenacity wait; None for the default.

    By default a correction is sent immediately, and a failed call is repeated after a jittered
    exponential pause.
    """
    max_retry_after: float = 60.0
    """The longest ``Retry-After`` that is obeyed, in seconds."""
    allow_other_tool: bool = False
    """Whether the reply to a correction of arguments may call another tool, or answer.

    If so, the whole reply is retried, and ``arg_retries`` does not apply.
    """
    keep_prompt_cache: bool = False
    """Whether a correction repeats all that the first request sent, so that prompt caches hit.

    If so, only ``tool_choice`` and the text of the correction narrow the retry. Otherwise a
    correction sends only the tools of the invalid calls, and requests only the wrong value of a
    large document.
    """
    max_continuations: int = 10
    """How often a call continues turns that the API paused (Anthropic, ``pause_turn``)."""
    max_reply_tokens: int | None = None
    """The highest token limit for the retry of a reply that was cut off at its limit.

    Each retry doubles the limit (``max_completion_tokens``, ``max_tokens``) up to this value. None
    means four times the caller's limit.
    """
    escalation: Mapping[str, Any] | Sequence[str | Mapping[str, Any]] = field(
        default_factory=dict[str, Any],
        repr=False,  # it may hold headers
    )
    """Request keywords (such as ``temperature``) from the third correction on, or a list of steps.

    With a list, each further tier applies one more step, and earlier steps stay in force:

    - a mapping of request keywords;
    - ``"forced_tool"``: the tool at fault (or any, if none is) must be called;
    - ``"response_format"``: the schema is sent as a response format, if the reply is JSON and the
      request had none;
    - ``"constrained_call"``: the call is requested as an answer with the schema of the tools, and
      read as a call;
    - ``"model"``: the next one of ``models``;
    - ``"human"``: ``ask_human``.

    A step that changes nothing is skipped. A model that repeats an invalid reply skips a tier.
    ``Attempt.escalation`` names the last step that was applied.
    """
    models: Sequence[str] = ()
    """Names of models, the weakest first.

    Each ``"model"`` step takes the next one after the request's own model. If ``escalation`` does
    not contain ``"model"``, it follows the other steps.
    """
    ask_human: Callable[[CorrectionContext], Awaitable[str | None] | str | None] | None = None
    """A function that returns the text of the correction, or None to end the call as rejected.

    The text is sent as the user's turn. The function may be async with an async client. If
    ``escalation`` does not contain ``"human"``, it is the last step.
    """
    constrain_retries: bool = True
    """Whether already the first correction constrains the reply so that its fault cannot recur.

    Invalid JSON or a wrong shape in the text channel is retried with ``"response_format"``, a
    broken call or a call written as text with ``"forced_tool"``, and a missing required call with
    ``"constrained_call"``. False leaves these steps to ``escalation``.

    Settings of the caller are never changed, and neither is what ``keep_prompt_cache`` preserves.
    If an endpoint rejects a constraint, or accepts it and then ignores it, strictreply stops using
    it for that endpoint.
    """
    early_stop: Literal["off", "streams", "always"] = "streams"
    """Whether a stream is closed as soon as its reply can no longer become valid.

    ``always`` requests a stream even if the caller did not, so that it can be closed early; raw
    responses are not streamed.
    """

    def __post_init__(self) -> None:
        for row in BUDGETS:
            if row.amount != "function":
                value = getattr(self, row.about)
                _check_amount(row.about, value, row.amount, is_needed=row.is_needed)

        _check_amount("max_reply_tokens", self.max_reply_tokens, "whole number")
        for name, words in _FUNCTIONS.items():
            must_have(f"RetryPolicy.{name}", getattr(self, name), "__call__", f"{words}, or None")

        wrong = _wrong_choice(self)
        if wrong:
            raise ContractError(f"RetryPolicy.{wrong}")

        object.__setattr__(self, "stop_on", frozenset(map(Category, self.stop_on)))

    @property
    def repeats(self) -> int:
        """How often a failed call is repeated: ``transport_retries``, or 2 by default."""
        if self.transport_retries is None:
            return DEFAULT_TRANSPORT_RETRIES

        return self.transport_retries

    def time_left(self, spent: float) -> float | None:
        """Return the seconds left after ``spent`` seconds; 0 after the deadline, None without."""
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
        """Return what follows the last attempt, which was not accepted.

        - ``spent``: the seconds since the start of the call.
        - ``failure``: why the call failed; None if a response was received.
        - ``scoped``: whether only the arguments of calls are wrong.
        - ``clients_retries``: the client's own ``max_retries``; None if unknown.
        - ``repeats``: how often the model repeated an invalid reply; each raises the tier by 1.
        """
        moment: Moment = "failed" if is_transport_fault(attempts[-1]) else "invalid"
        if is_paused(attempts[-1]):
            moment = "paused"
        allowed = self.repeats
        # the client's own number applies only to failures: a response that is not a completion
        # is a result to it, which it would return
        unsaid = self.transport_retries is None and failure is not None
        if unsaid and clients_retries is not None:
            allowed = clients_retries

        if failure is None or moment != "failed":
            failure = _MALFORMED  # an earlier failure does not matter for a reply that was received

        return _step_after(moment, Case(self, attempts, spent, failure, scoped, allowed, repeats))

    def behind_text(
        self, step: Again, attempts: tuple[Attempt, ...], failure: Failure | None
    ) -> NextStep:
        """Return the step, or the end, if some text of the last reply has reached the caller."""
        return _step_after("streamed", Case(self, attempts, 0.0, failure or _MALFORMED, step=step))


def is_transport_fault(attempt: Attempt) -> bool:
    """Return whether an attempt failed, or its response was not a completion."""
    if attempt.dropped_params:
        return False  # the endpoint rejected an addition; the request is sent again without it
    if attempt.failure is not None:
        return True

    return not is_paused(attempt) and any(issue.remedy is Remedy.RESEND for issue in attempt.issues)


def is_paused(attempt: Attempt) -> bool:
    """Return whether the API paused the turn of an attempt."""
    return any(issue.code == Code.REPLY_PAUSED.value for issue in attempt.issues)


Moment: TypeAlias = Literal[
    "failed", "invalid", "paused", "streamed", "claim", "human", "late", "stored"
]
"""The moment after which a row applies.

- ``failed``: the call failed, or its response was not a completion.
- ``invalid``: the reply does not fit the contract.
- ``paused``: the API paused the turn.
- ``streamed``: a next request is due, but some text of the reply has already reached the caller.
- ``claim``: before the next request, the client's ``retry_budget`` refused a repeat.
- ``human``: before the next request, a human gave up.
- ``late``: the deadline has passed before the next request, or before the watchers of a valid
  reply were done.
- ``stored``: the reply was rejected, and the server would only return the same one again.
"""


@dataclass(frozen=True)
class Case:
    """What the rows of the policy examine after an attempt that was not accepted."""

    policy: RetryPolicy
    """The budgets of the call."""
    attempts: tuple[Attempt, ...]
    """All attempts so far."""
    spent: float
    """The seconds since the start."""
    failure: Failure = _MALFORMED
    """Why the call failed; by default, because its response was not a completion."""
    scoped: bool = False
    """Whether only the arguments of calls are wrong."""
    allowed: int = 0
    """How often a failed call may be repeated."""
    repeats: int = 0
    """By how much the tier of a correction is raised."""
    step: Again = Again(0)
    """What was decided, if some text of the reply has reached the caller."""

    @property
    def last(self) -> Attempt:
        """The last attempt."""
        return self.attempts[-1]

    @property
    def is_lost(self) -> bool:
        """Whether the last attempt failed, or its response was not a completion."""
        return is_transport_fault(self.last)

    @property
    def final_faults(self) -> list[Issue]:
        """The faults of the last reply that no retry can fix."""
        return [issue for issue in self.last.issues if issue.remedy is Remedy.STOP]

    @cached_property
    def corrections(self) -> list[Attempt]:
        """The corrections that were answered.

        Those that failed in transport, or that the endpoint rejected, do not count.
        """
        return [
            one
            for one in self.attempts
            if one.tier and not (one.dropped_params or is_transport_fault(one))
        ]

    @cached_property
    def usage(self) -> Usage:
        """The tokens of all attempts."""
        return total_usage(self.attempts)

    @cached_property
    def wait(self) -> float:
        """The seconds before the next request: the server's, the policy's, or the default."""
        if self.failure.retry_after is not None:
            return self.failure.retry_after

        wait = self.policy.wait or (_TRANSPORT_WAIT if self.is_lost else None)
        return 0.0 if wait is None else wait(self.call_state())

    @property
    def stops(self) -> bool:
        """Whether the caller's own stop ends the call."""
        stop = self.policy.stop
        return stop is not None and stop(self.call_state(self.wait))

    def call_state(self, wait: float = 0.0) -> RetryCallState:
        """Return the call in the form that a tenacity stop or wait expects.

        It has the number of attempts, the seconds since the start, the pause and the last outcome.
        """
        # there is no Retrying object
        state = RetryCallState(None, None, (), {})  # type: ignore[arg-type]
        state.attempt_number = len(self.attempts)
        state.start_time = 0.0
        state.outcome_timestamp = self.spent
        state.upcoming_sleep = wait

        cause = self.failure.cause
        state.outcome = Future.construct(len(self.attempts), cause, has_exception=cause is not None)

        return state


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One row of the policy."""

    after: tuple[Moment, ...]
    """The moments after which it applies."""
    when: str
    """Its condition, in words."""
    holds: Callable[[Case], bool]
    """Its condition."""
    then: End | Callable[[Case], NextStep]
    """What follows."""
    about: str = field(default="", kw_only=True)
    """The field of :class:`RetryPolicy` that the condition is about; empty for none."""
    words: str = field(default="", kw_only=True)
    """The explanation in the error; empty if the reason or the failure explains it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(PolicyRow):
    """The row that describes one budget, whose field ``about`` names."""

    default: str
    """Its default, in words."""
    bounds: str
    """What it limits, in words."""
    amount: Literal["whole number", "number", "function"] = "whole number"
    """The kind of its value; a function decides by itself."""
    is_needed: bool = False
    """Whether its value must not be None."""


def _check_amount(field: str, value: object, amount: str, *, is_needed: bool = False) -> None:
    """Raise ContractError if the value of a policy's field is not an amount of 0 or more."""
    if value is None and is_needed:
        raise ContractError(f"RetryPolicy.{field} must be a number; 0 allows none")

    is_amount = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if value is None or is_count(value) or (amount == "number" and is_amount):
        return

    none = "" if is_needed else ", or None"
    given = repr(value) if isinstance(value, int | float) else type(value).__name__
    raise ContractError(f"RetryPolicy.{field} must be a {amount}, 0 or more{none}, not {given}")


def _is_of_conversation(case: Case) -> bool:
    """Return whether a server rejected, a second time, a call that may be in the conversation.

    No correction can fix such a call.
    """
    return sum(map(_complains, case.attempts)) > 1 and _complains(case.last)


def _complains(attempt: Attempt) -> bool:
    error = wire_named(attempt.api).error_in(attempt.raw)
    return may_be_of_conversation(error)


def _is_bad_call(attempt: Attempt) -> bool:
    """Return whether an attempt called an unknown tool, or a tool with invalid arguments."""
    # a missing call is not an invalid one
    called = [issue for issue in attempt.issues if issue.code != str(Code.TOOL_REQUIRED)]
    prefixes = ("tool.", "call.", "args.")
    places = ("/tool_calls/", "/args")
    return any(issue.code.startswith(prefixes) or issue.path.startswith(places) for issue in called)


def _is_deadline_spent(case: Case) -> bool:
    ready = case.spent + case.wait
    return case.policy.deadline is not None and ready >= case.policy.deadline


def _is_cost_spent(case: Case) -> bool:
    most = case.policy.max_cost
    price = case.policy.price
    # written so that a price of NaN counts as spent
    return most is not None and price is not None and not price(case.usage) < most


def _is_beyond_calls(case: Case) -> bool:
    # a call written as text did not reach the caller: it is retried after the text before it
    return not all(
        issue.path.startswith(CALLS_PLACE) or issue.code == Code.CALL_AS_TEXT.value
        for issue in case.last.issues
    )


def _always(_case: Case) -> bool:
    return True


def failed(case: Case) -> End:
    """End the call with the kind of the failure as the reason."""
    return End("failed", case.failure.kind)


def halted(case: Case) -> End:
    """End the call; the reason is named after the fault that no retry can fix."""
    return End("halted", case.final_faults[0].code.rpartition(".")[2])


def resent(case: Case) -> Again:
    """Send the same request again."""
    return Again(0, case.wait)


def continued(_case: Case) -> Again:
    """Send the paused turn back, so that the API continues it."""
    return Again(0)


def corrected(case: Case) -> Again:
    """Send a correction of the next tier."""
    return Again(len(case.corrections) + 1 + case.repeats, case.wait)


def as_decided(case: Case) -> Again:
    """Take the step that was decided before."""
    return case.step


POLICY: tuple[PolicyRow, ...] = (
    PolicyRow(
        ("failed",),
        "the deadline has passed",
        lambda case: case.failure.kind in LATE_KINDS and case.policy.time_left(case.spent) == 0,
        End("halted", "deadline"),
        about="deadline",
    ),
    PolicyRow(
        ("failed",), "a repeat cannot succeed", lambda case: not case.failure.retryable, failed
    ),
    PolicyRow(
        ("failed",),
        "it contains `API_TRANSIENT`",
        lambda case: Category.API_TRANSIENT in case.policy.stop_on,
        failed,
        about="stop_on",
    ),
    PolicyRow(
        ("failed",),
        "the server asks for a pause that ends after it",
        lambda case: (
            case.failure.retry_after is not None
            and case.policy.deadline is not None
            and case.spent + case.failure.retry_after >= case.policy.deadline
        ),
        failed,
        about="deadline",
    ),
    Budget(
        ("failed",),
        "the server asks for a longer pause",
        lambda case: (case.failure.retry_after or 0.0) > case.policy.max_retry_after,
        failed,
        about="max_retry_after",
        default="60",
        bounds="the longest `Retry-After` that is obeyed, in seconds",
        amount="number",
        is_needed=True,
    ),
    Budget(
        ("failed",),
        "this many repeats were made",
        lambda case: sum(map(is_transport_fault, case.attempts)) > case.allowed,
        failed,
        about="transport_retries",
        default="the client's `max_retries`, else 2",
        bounds="repeats after the API failed",
    ),
    PolicyRow(
        ("invalid",),
        "the server rejects, a second time, a call that may be in the conversation",
        _is_of_conversation,
        End("failed", "invalid_request"),
    ),
    PolicyRow(
        ("invalid",),
        "the reply has a fault that no retry can fix",
        lambda case: bool(case.final_faults),
        halted,
    ),
    PolicyRow(
        ("invalid",),
        "the reply has a fault of a category in it",
        lambda case: any(issue.category in case.policy.stop_on for issue in case.last.issues),
        End("rejected", "category"),
        about="stop_on",
        words="a fault of a category in stop_on",
    ),
    Budget(
        ("invalid",),
        "this many corrections were answered",
        lambda case: len(case.corrections) >= case.policy.max_retries,
        End("rejected", "retries"),
        about="max_retries",
        words="retries exhausted",
        default="3",
        bounds="corrections: requests after invalid replies",
        is_needed=True,
    ),
    Budget(
        ("invalid",),
        "only arguments are wrong, and this many corrections of arguments were answered",
        lambda case: (
            case.scoped
            and case.policy.arg_retries is not None
            # their scope is a tool; the scope of a part of an answer is a pointer
            and sum(1 for one in case.corrections if (one.scope or "/")[0] != "/")
            >= case.policy.arg_retries
        ),
        End("rejected", "arg_retries"),
        about="arg_retries",
        words="argument retries exhausted",
        default="same as `max_retries`",
        bounds="corrections that concern only the arguments of calls",
    ),
    Budget(
        ("invalid",),
        "this many attempts had an invalid call",
        lambda case: (
            case.policy.max_invalid_calls is not None
            and sum(map(_is_bad_call, case.attempts)) >= case.policy.max_invalid_calls
        ),
        End("rejected", "invalid_calls"),
        about="max_invalid_calls",
        words="too many bad tool calls",  # the words of requirement T35
        default="none",
        bounds="attempts with an unknown tool or invalid arguments",
    ),
    Budget(
        ("failed", "invalid", "paused"),
        "it would pass before the next request",
        _is_deadline_spent,
        End("halted", "deadline"),
        about="deadline",
        default="none",
        bounds="seconds of the whole call: connecting, bodies, waits, your checks",
        amount="number",
    ),
    Budget(
        ("failed", "invalid", "paused"),
        "this many tokens were used",
        lambda case: (
            case.policy.max_tokens_total is not None
            and case.usage.total_tokens >= case.policy.max_tokens_total
        ),
        End("halted", "tokens"),
        about="max_tokens_total",
        default="none",
        bounds="tokens of all requests",
    ),
    Budget(
        ("failed", "invalid", "paused"),
        "the price of the tokens reached it",
        _is_cost_spent,
        End("halted", "cost"),
        about="max_cost",
        default="none",
        bounds="the cost of all tokens, as `price` computes it",
        amount="number",
    ),
    PolicyRow(
        ("failed",), "it returns True", lambda case: case.stops, End("failed", "stop"), about="stop"
    ),
    Budget(
        ("invalid",),
        "it returns True",
        lambda case: case.stops,
        End("rejected", "stop"),
        about="stop",
        default="none",
        bounds=(
            "what tenacity decides, such as `stop_after_delay(20)` and "
            "`wait_random_exponential(max=10)`"
        ),
        amount="function",
    ),
    Budget(
        ("paused",),
        "this many turns were continued",
        lambda case: sum(map(is_paused, case.attempts)) > case.policy.max_continuations,
        End("halted", "paused"),
        about="max_continuations",
        default="10",
        bounds="continuations of turns that the API paused",
        is_needed=True,
    ),
    PolicyRow(("failed",), "otherwise", _always, resent),
    PolicyRow(("paused",), "otherwise", _always, continued),
    PolicyRow(("invalid",), "otherwise", _always, corrected),
    PolicyRow(("streamed",), "the call failed", lambda case: case.is_lost, failed),
    PolicyRow(
        ("streamed",),
        "more than the calls is wrong",
        _is_beyond_calls,
        End("rejected", "streamed"),
        words="its text had already been streamed to the caller",
    ),
    PolicyRow(("streamed",), "otherwise", _always, as_decided),
    Budget(
        ("claim",),
        "the client's calls have made this many repeats",
        _always,
        End("failed", "retry_budget"),
        about="retry_budget",
        default="100",
        bounds="repeats after failures, over all calls of one client; successes restore some",
    ),
    PolicyRow(
        ("human",),
        "`ask_human` returned None",
        _always,
        End("rejected", "human"),
        words="ask_human returned None",
    ),
    PolicyRow(
        ("late",), "the deadline has passed", _always, End("halted", "deadline"), about="deadline"
    ),
    PolicyRow(
        ("stored",),
        "always",
        _always,
        End("rejected", "stored"),
        words="a stored reply is not retried",
    ),
)
"""What follows which fault: the first row that holds decides."""

BUDGETS = tuple(row for row in POLICY if isinstance(row, Budget))
"""All budgets that end a call."""

REJECTED_WORDS = {
    row.then.reason: row.words for row in POLICY if row.words and isinstance(row.then, End)
}
"""The explanation in the error of a rejected reply, by reason."""

_ROWS: Mapping[Moment, tuple[PolicyRow, ...]] = {
    moment: tuple(row for row in POLICY if moment in row.after) for moment in get_args(Moment)
}
_ENDS = {
    moment: row.then for moment, rows in _ROWS.items() for row in rows if isinstance(row.then, End)
}


def row_after(moment: Moment, case: Case) -> PolicyRow:
    """Return the first row that holds."""
    return next(row for row in _ROWS[moment] if row.holds(case))


def _step_after(moment: Moment, case: Case) -> NextStep:
    then = row_after(moment, case).then
    return then if isinstance(then, End) else then(case)


def end_at(moment: Literal["claim", "human", "late", "stored"]) -> End:
    """Return the end of a call at a moment after which nothing else can follow."""
    return _ENDS[moment]
