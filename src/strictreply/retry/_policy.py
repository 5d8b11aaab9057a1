"""When to retry, after which wait and with which step of escalation; when to stop, and how.

:data:`POLICY` is the whole of it: what follows which fault, one row each, and of the rows that hold
the first. A row of a budget (:class:`Budget`) says all of that budget. So a new budget is a field
of :class:`RetryPolicy`, a row, and the function by which the row finds that it is spent.

Either way once more is subject to the budgets of the whole call: ``deadline``,
``max_tokens_total``, ``max_cost``, ``stop``. A correction that was lost on the way, or that the
endpoint refused, was never answered: it does not count against ``max_retries``.
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
"""One of :data:`STEPS`, where the models are ``model:<name>``, or keywords of the request."""

Stop: TypeAlias = Callable[[RetryCallState], bool]
"""A tenacity stop, such as ``stop_after_attempt(3) | stop_after_delay(20)``."""

Wait: TypeAlias = Callable[[RetryCallState], float]
"""A tenacity wait, such as ``wait_random_exponential(max=10)``."""

_LEAST_SECONDS = 0.001  # less counts as none: timers of the system may end that much early
_MOST_SECONDS = 1e8  # three years: a socket takes no timeout that is without end

DEFAULT_TRANSPORT_RETRIES = 2
"""The repeats of a failed call where neither the policy nor the client has a number."""

LATE_KINDS = frozenset({"timeout", "deadline"})
"""The failures by which a deadline ends a call: the API may be well, the model slow."""

_FUNCTIONS = {
    "price": "a function from Usage to a cost",
    "stop": "a stop of tenacity's, such as stop_after_delay(20)",
    "wait": "a wait of tenacity's, such as wait_random_exponential(max=10)",
    "ask_human": "a function from CorrectionContext to the text for the model",
}
"""The fields of a policy that are called, and what each must be."""

_MALFORMED = Failure("malformed_response", retryable=True)
_TRANSPORT_WAIT: Wait = wait_random_exponential(multiplier=0.5, max=8)


@dataclass(frozen=True, slots=True)
class Consult:
    """Effect: ask a human for the correction of a reply."""

    context: CorrectionContext
    ask: Callable[[CorrectionContext], Any]


@dataclass(frozen=True, slots=True)
class Consulted:
    """Event: the human's ``text`` for the model, None to give up, and the seconds it took."""

    text: str | None
    seconds: float = 0.0


def perform_consult(effect: Consult) -> Consulted:
    """Ask the human; raise ContractError when the callback turns out to be async."""
    answer = effect.ask(effect.context)
    if inspect.iscoroutine(answer):
        answer.close()
        raise ContractError("RetryPolicy.ask_human is async; use an async client")

    return consulted(answer)


def consulted(answer: object) -> Consulted:
    """Return what the human answered; raise ContractError when it is not a text."""
    if answer is not None and not isinstance(answer, str):
        expected = "must return the text for the model, or None"
        raise ContractError(f"RetryPolicy.ask_human {expected}; not {type(answer).__name__}")

    return Consulted(answer)


def steps_in_force(
    policy: RetryPolicy, model: object, tier: int, is_usable: Callable[[Step], bool]
) -> list[Step]:
    """Return the steps in force at a tier, the one taken last at the end.

    From the third tier on one more is taken each time, and stays. Keywords alone are in force at
    each of these tiers. ``model`` is the request's own.
    """
    if tier < ESCALATION_TIER:
        return []

    steps: list[Step] = []
    if isinstance(policy.escalation, Mapping) and policy.escalation:
        steps.append(policy.escalation)

    usable = filter(is_usable, _ladder(policy, model))
    return [*steps, *islice(usable, tier - ESCALATION_TIER + 1)]


def _ladder(policy: RetryPolicy, model: object) -> Iterator[Step]:
    """Yield the steps in the order in which they are taken."""
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
            # one rung for each time it is named, the last time all that are left
            more = "model" in steps[number + 1 :]
            yield from (f"model:{name}" for name in islice(left, 1 if more else None))
        else:
            yield step


def _wrong_escalation(policy: RetryPolicy) -> str:
    """Return what is wrong with the steps: they are not steps, or lack what they need.

    Empty when nothing is wrong.
    """
    given = policy.escalation
    steps = [] if isinstance(given, Mapping) else list(given)

    are_steps = all(isinstance(step, Mapping) or step in STEPS for step in steps)
    if isinstance(given, str) or not are_steps:
        steps_words = f"keywords of a request, or a list of them and of {', '.join(STEPS)}"
        return f"escalation must be {steps_words}"

    if isinstance(policy.models, str):
        return "models must be a list of names; put the one model into a list"
    if "model" in steps and not policy.models:
        return "escalation names 'model', which needs models"

    is_lacking = "human" in steps and policy.ask_human is None
    return "escalation names 'human', which needs ask_human" if is_lacking else ""


def _wrong_choice(policy: RetryPolicy) -> str:
    """Return what is wrong with the members that take certain values only.

    Empty when nothing is wrong.
    """
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
    """Ask once more after ``wait`` seconds, with a correction.

    ``tier`` counts corrections from 1; 0 repeats the request without one. ``words`` are those of
    the correction, None where the steering writes it.
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

        ``failure`` is that of the transport, ``tool`` the tool whose arguments alone were wrong;
        each is None where there is none.
        """
        asks = counted(len(attempts), "attempt")
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
    """The budgets of one call; the first one that is spent ends it.

    Raises ContractError for a negative budget, a ``retry_budget`` that is not a whole number, an
    unknown category or step, a ``price``, ``stop``, ``wait`` or ``ask_human`` that is not callable,
    ``max_cost`` without ``price``, ``"model"`` without ``models`` and ``"human"`` without
    ``ask_human``.
    """

    max_retries: int = 3
    """Corrections after the first request."""
    arg_retries: int | None = None
    """Corrections for one tool's arguments alone; None to share ``max_retries``."""
    transport_retries: int | None = None
    """Repeats of one call after the API failed or sent no completion.

    None means, of failures, as many as the client's own ``max_retries`` says, else 2.
    """
    retry_budget: int | None = 100
    """How many such repeats all calls of one wrapped client may make beyond their successes.

    A successful repeat does not count; five first-try successes restore one. None means any number.
    """
    deadline: float | None = None
    """The total time in seconds; None for no limit.

    It covers connecting, sending, headers, bodies, waits, checks and watchers. A call is cut off
    when it passes, and nothing is accepted after it. Blocking work (a sync check or watcher, a
    client that does not use httpx) cannot be interrupted: it is waited for, and its result
    discarded.
    """
    max_tokens_total: int | None = None
    """The tokens of all attempts; None for no limit.

    They are checked before each further request. Where an endpoint counts no tokens they are
    estimated (``Usage.is_estimate``).
    """
    max_cost: float | None = None
    """The cost of all attempts, checked before each further request; None for no limit."""
    price: Callable[[Usage], float] | None = None
    """Computes the cost of an attempt from its tokens; None without ``max_cost``."""
    max_invalid_calls: int | None = None
    """Attempts with an unknown tool or bad arguments; None for no limit (requirement T35)."""
    stop_on: Collection[Category] = frozenset()
    """Categories of faults after which the call ends.

    ``API_TRANSIENT`` is that of a call that failed and may succeed later.
    """
    stop: Stop | None = None
    """A stop of tenacity's; None for none."""
    wait: Wait | None = None
    """A wait of tenacity's; None for the default.

    By default a correction is sent at once, and a failed call is repeated after a jittered
    exponential pause.
    """
    max_retry_after: float = 60.0
    """The longest ``Retry-After`` that is obeyed, in seconds."""
    allow_other_tool: bool = False
    """Whether the reply to an argument correction may be another tool or an answer (T29).

    The whole reply is then retried, and ``arg_retries`` does not apply.
    """
    keep_prompt_cache: bool = False
    """Whether a correction sends everything that the first request sent, so that prompt caches hit.

    It is then narrowed by ``tool_choice`` and the text of the correction alone. Otherwise it sends
    only the tools of the faulty calls, and requests only the wrong value of a large document.
    """
    max_continuations: int = 10
    """How often a turn that the API has paused is continued (Anthropic, ``pause_turn``)."""
    max_reply_tokens: int | None = None
    """How far the token limit of a request is raised when replies are cut at it.

    The limit (``max_completion_tokens``, ``max_tokens``) is doubled each time, up to this; None is
    four times the caller's limit.
    """
    escalation: Mapping[str, Any] | Sequence[str | Mapping[str, Any]] = field(
        default_factory=dict[str, Any],
        repr=False,  # it may hold headers
    )
    """Request keywords (``temperature``, …) sent from the third tier on, or a list of steps.

    The steps are applied one after another from there, and each stays in force: such keywords,
    ``"forced_tool"`` (the tool at fault, else any, must be called), ``"response_format"`` (the
    schema is sent as one, where an answer or the text channel's reply was requested without),
    ``"constrained_call"`` (a call is requested as an answer by the schema of the tools, and read as
    a call), ``"model"`` and ``"human"``. A step that changes nothing is skipped. A bad reply that
    comes a second time skips a tier. The attempt's ``escalation`` names the step applied last.
    """
    models: Sequence[str] = ()
    """Names of models, the weakest first.

    Each ``"model"`` step takes the next one after the request's own. Where ``escalation`` names no
    ``"model"``, it is one of its last steps.
    """
    ask_human: Callable[[CorrectionContext], Awaitable[str | None] | str | None] | None = None
    """Called with the :class:`CorrectionContext` for the text that corrects the reply.

    The text is sent as the user's turn; None ends the call as rejected. It may be async with an
    async client. Where ``escalation`` names no ``"human"``, it is the last step.
    """
    constrain_retries: bool = True
    """Whether the first correction constrains the reply already, where its fault can be excluded.

    JSON or a shape that is wrong in the text channel is then retried with ``"response_format"``, a
    call that came broken or as text with ``"forced_tool"``, and a demanded call that did not come
    with ``"constrained_call"``. False leaves these steps to ``escalation``. What the caller set is
    never changed, nor what ``keep_prompt_cache`` keeps; an endpoint that refuses a constraint, or
    takes it and does not hold its replies to it, is asked for it no more.
    """
    early_stop: Literal["off", "streams", "always"] = "streams"
    """Whether a stream is closed as soon as its reply can no longer become valid.

    ``always`` requests a stream also if the caller did not, so that it can be closed; raw responses
    are not streamed.
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
        moment: Moment = "lost" if is_transport_fault(attempts[-1]) else "unfit"
        if is_paused(attempts[-1]):
            moment = "paused"
        allowed = self.repeats
        # the client's own number is about failures alone: it would not repeat a call whose
        # response is not a completion, but return that
        unsaid = self.transport_retries is None and failure is not None
        if unsaid and clients_retries is not None:
            allowed = clients_retries

        if failure is None or moment != "lost":
            failure = _MALFORMED  # how a call failed says nothing of a reply that came

        return _step_after(moment, Case(self, attempts, spent, failure, scoped, allowed, repeats))

    def behind_text(
        self, step: Again, attempts: tuple[Attempt, ...], failure: Failure | None
    ) -> NextStep:
        """Return the step, or the end where some text of the last reply has reached the caller."""
        return _step_after("told", Case(self, attempts, 0.0, failure or _MALFORMED, step=step))


def is_transport_fault(attempt: Attempt) -> bool:
    """Return whether an attempt failed on the way, or brought a response without a completion."""
    if attempt.dropped_params:
        return False  # the endpoint refused what we had added, and is asked again without it
    if attempt.failure is not None:
        return True

    return not is_paused(attempt) and any(issue.remedy is Remedy.RESEND for issue in attempt.issues)


def is_paused(attempt: Attempt) -> bool:
    """Return whether the API paused the turn that an attempt brought."""
    return any(issue.code == Code.REPLY_PAUSED.value for issue in attempt.issues)


Moment: TypeAlias = Literal["lost", "unfit", "paused", "told", "claim", "human", "late", "stored"]
"""What a row follows.

``lost``: a call failed, or brought no completion. ``unfit``: a reply does not fit. ``paused``: the
API paused the turn. ``told``: there would be a next request, but some text of the reply has reached
the caller. ``claim``, ``human`` and ``late`` come before the next request: a repeat was not
granted, a human gave up, the deadline has passed (``late`` also before the watchers of a reply that
fits were done). ``stored``: the call was rejected, and the server would only give the same reply
again.
"""


@dataclass(frozen=True)
class Case:
    """What the rows of the policy look at, after an attempt that was not accepted."""

    policy: RetryPolicy
    """The budgets of the call."""
    attempts: tuple[Attempt, ...]
    """All attempts so far."""
    spent: float
    """The seconds since the start."""
    failure: Failure = _MALFORMED
    """Why the call failed; by default it brought a response that is not a completion."""
    scoped: bool = False
    """Whether nothing but the arguments of calls is wrong."""
    allowed: int = 0
    """How often a failed call may be repeated."""
    repeats: int = 0
    """By how much the tier of a correction is raised."""
    step: Again = Again(0)
    """What was decided, where some text of the reply has reached the caller."""

    @property
    def last(self) -> Attempt:
        """The last attempt."""
        return self.attempts[-1]

    @property
    def is_lost(self) -> bool:
        """Whether it failed, or brought no completion."""
        return is_transport_fault(self.last)

    @property
    def final_faults(self) -> list[Issue]:
        """The faults of the last reply that no retry can fix."""
        return [issue for issue in self.last.issues if issue.remedy is Remedy.STOP]

    @cached_property
    def corrections(self) -> list[Attempt]:
        """The corrections that were answered.

        The transport lost the others, or the endpoint refused them: they do not count.
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
        """The seconds before the next request: the server's, the policy's, else ours."""
        if self.failure.retry_after is not None:
            return self.failure.retry_after

        wait = self.policy.wait or (_TRANSPORT_WAIT if self.is_lost else None)
        return 0.0 if wait is None else wait(self.call_state())

    @property
    def stops(self) -> bool:
        """Whether the caller's own stop says so."""
        stop = self.policy.stop
        return stop is not None and stop(self.call_state(self.wait))

    def call_state(self, wait: float = 0.0) -> RetryCallState:
        """Return the call as a stop or a wait of tenacity expects it.

        These read the attempts, the seconds since the start, the pause and the last outcome.
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
    """What it follows."""
    when: str
    """What must hold, in words."""
    holds: Callable[[Case], bool]
    """Whether it does."""
    then: End | Callable[[Case], NextStep]
    """What follows."""
    about: str = field(default="", kw_only=True)
    """The field of :class:`RetryPolicy` that it is about; empty for none."""
    words: str = field(default="", kw_only=True)
    """What the error says of it; empty where it is named by the reason, or by the failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(PolicyRow):
    """The row that says all of one budget, which ``about`` names."""

    default: str
    """What it is where nothing is said."""
    bounds: str
    """What it counts."""
    amount: Literal["whole number", "number", "function"] = "whole number"
    """What its value is; a function decides by itself."""
    is_needed: bool = False
    """Whether it cannot be None."""


def _check_amount(field: str, value: object, amount: str, *, is_needed: bool = False) -> None:
    """Raise ContractError where the value of a policy's field is not an amount of 0 or more."""
    if value is None and is_needed:
        raise ContractError(f"RetryPolicy.{field} must be a number; 0 allows none")

    is_amount = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if value is None or is_count(value) or (amount == "number" and is_amount):
        return

    none = "" if is_needed else ", or None"
    came = repr(value) if isinstance(value, int | float) else type(value).__name__
    raise ContractError(f"RetryPolicy.{field} must be a {amount}, 0 or more{none}, not {came}")


def _is_of_conversation(case: Case) -> bool:
    """Return whether a server complained once more of a call that may be in the conversation.

    No correction can fix that one.
    """
    return sum(map(_complains, case.attempts)) > 1 and _complains(case.last)


def _complains(attempt: Attempt) -> bool:
    error = wire_named(attempt.api).error_in(attempt.raw)
    return may_be_of_conversation(error)


def _is_bad_call(attempt: Attempt) -> bool:
    """Return whether an attempt called an unknown tool, or one with bad arguments."""
    # a missing call is not a bad one
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
    # what is not a number is never below the bound, so that a broken price cannot lift it
    return most is not None and price is not None and not price(case.usage) < most


def _is_beyond_calls(case: Case) -> bool:
    # a call that was written as text has not gone out: it is retried behind the text before it
    return not all(
        issue.path.startswith(CALLS_PLACE) or issue.code == Code.CALL_AS_TEXT.value
        for issue in case.last.issues
    )


def _always(_case: Case) -> bool:
    return True


def failed(case: Case) -> End:
    """End as the failure of the call is called."""
    return End("failed", case.failure.kind)


def halted(case: Case) -> End:
    """End as the fault is called that no retry can fix."""
    return End("halted", case.final_faults[0].code.rpartition(".")[2])


def resent(case: Case) -> Again:
    """Send the same request once more."""
    return Again(0, case.wait)


def continued(_case: Case) -> Again:
    """Send the paused turn back, to be continued."""
    return Again(0)


def corrected(case: Case) -> Again:
    """Send a correction of the next tier."""
    return Again(len(case.corrections) + 1 + case.repeats, case.wait)


def as_decided(case: Case) -> Again:
    """Send what was decided."""
    return case.step


POLICY: tuple[PolicyRow, ...] = (
    PolicyRow(
        ("lost",),
        "the deadline has passed",
        lambda case: case.failure.kind in LATE_KINDS and case.policy.time_left(case.spent) == 0,
        End("halted", "deadline"),
        about="deadline",
    ),
    PolicyRow(
        ("lost",), "it cannot succeed later", lambda case: not case.failure.retryable, failed
    ),
    PolicyRow(
        ("lost",),
        "`stop_on` has `API_TRANSIENT`",
        lambda case: Category.API_TRANSIENT in case.policy.stop_on,
        failed,
        about="stop_on",
    ),
    PolicyRow(
        ("lost",),
        "the server asks for a pause beyond the deadline",
        lambda case: (
            case.failure.retry_after is not None
            and case.policy.deadline is not None
            and case.spent + case.failure.retry_after >= case.policy.deadline
        ),
        failed,
        about="deadline",
    ),
    Budget(
        ("lost",),
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
        ("lost",),
        "so many repeats were made",
        lambda case: sum(map(is_transport_fault, case.attempts)) > case.allowed,
        failed,
        about="transport_retries",
        default="the client's `max_retries`, else 2",
        bounds="repeats after the API failed",
    ),
    PolicyRow(
        ("unfit",),
        "the server complains once more of a call that may stand in the conversation",
        _is_of_conversation,
        End("failed", "invalid_request"),
    ),
    PolicyRow(
        ("unfit",),
        "it has a fault that no retry can fix",
        lambda case: bool(case.final_faults),
        halted,
    ),
    PolicyRow(
        ("unfit",),
        "it has a fault of such a category",
        lambda case: any(issue.category in case.policy.stop_on for issue in case.last.issues),
        End("rejected", "category"),
        about="stop_on",
        words="a fault of a category in stop_on",
    ),
    Budget(
        ("unfit",),
        "so many corrections were answered",
        lambda case: len(case.corrections) >= case.policy.max_retries,
        End("rejected", "retries"),
        about="max_retries",
        words="retries exhausted",
        default="3",
        bounds="corrections: requests after invalid replies",
        is_needed=True,
    ),
    Budget(
        ("unfit",),
        "arguments alone are wrong, and so many corrections of arguments were answered",
        lambda case: (
            case.scoped
            and case.policy.arg_retries is not None
            # the scope of these is a tool; that of a part of an answer is a pointer
            and sum(1 for one in case.corrections if (one.scope or "/")[0] != "/")
            >= case.policy.arg_retries
        ),
        End("rejected", "arg_retries"),
        about="arg_retries",
        words="argument retries exhausted",
        default="as `max_retries`",
        bounds="the corrections that concern only arguments of calls",
    ),
    Budget(
        ("unfit",),
        "so many attempts had a bad call",
        lambda case: (
            case.policy.max_invalid_calls is not None
            and sum(map(_is_bad_call, case.attempts)) >= case.policy.max_invalid_calls
        ),
        End("rejected", "invalid_calls"),
        about="max_invalid_calls",
        words="too many bad tool calls",  # the words of requirement T35
        default="none",
        bounds="attempts with an unknown tool or bad arguments",
    ),
    Budget(
        ("lost", "unfit", "paused"),
        "it would have passed before the next request",
        _is_deadline_spent,
        End("halted", "deadline"),
        about="deadline",
        default="none",
        bounds="seconds of the whole call: connecting, bodies, waits, your checks",
        amount="number",
    ),
    Budget(
        ("lost", "unfit", "paused"),
        "so many tokens were used",
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
        ("lost", "unfit", "paused"),
        "their price reached it",
        _is_cost_spent,
        End("halted", "cost"),
        about="max_cost",
        default="none",
        bounds="the cost of these tokens, as `price` computes it",
        amount="number",
    ),
    PolicyRow(
        ("lost",), "it says so", lambda case: case.stops, End("failed", "stop"), about="stop"
    ),
    Budget(
        ("unfit",),
        "it says so",
        lambda case: case.stops,
        End("rejected", "stop"),
        about="stop",
        default="none",
        bounds=(
            "tenacity's own, such as `stop_after_delay(20)` and `wait_random_exponential(max=10)`"
        ),
        amount="function",
    ),
    Budget(
        ("paused",),
        "so many turns were continued",
        lambda case: sum(map(is_paused, case.attempts)) > case.policy.max_continuations,
        End("halted", "paused"),
        about="max_continuations",
        default="10",
        bounds="continuations of a turn that the API has paused",
        is_needed=True,
    ),
    PolicyRow(("lost",), "else", _always, resent),
    PolicyRow(("paused",), "else", _always, continued),
    PolicyRow(("unfit",), "else", _always, corrected),
    PolicyRow(("told",), "the call was lost", lambda case: case.is_lost, failed),
    PolicyRow(
        ("told",),
        "more than its calls is wrong",
        _is_beyond_calls,
        End("rejected", "streamed"),
        words="its text had been streamed to the caller",
    ),
    PolicyRow(("told",), "else", _always, as_decided),
    Budget(
        ("claim",),
        "the client's calls have made so many repeats",
        _always,
        End("failed", "retry_budget"),
        about="retry_budget",
        default="100",
        bounds="such repeats over all calls of one client, beyond the number of successes",
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
        "it is not retried",
        _always,
        End("rejected", "stored"),
        words="it is stored, and is not retried",
    ),
)
"""What follows which fault: of the rows that hold, the first."""

BUDGETS = tuple(row for row in POLICY if isinstance(row, Budget))
"""All budgets that end a call."""

REJECTED_WORDS = {
    row.then.reason: row.words for row in POLICY if row.words and isinstance(row.then, End)
}
"""What the error of a rejected reply says of each reason."""

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
    """Return how a call ends at a moment after which nothing else can follow."""
    return _ENDS[moment]
