"""When to retry, after which wait and with which step of escalation; when to stop, and how.

What follows an attempt that was not accepted, the first row that holds:

=====================================================  ===========================================
what the attempt shows                                 what follows
=====================================================  ===========================================
the call failed, or brought no completion:
  and the deadline has passed                          ReplyHalted ``deadline``
  it cannot succeed later, or its repeats are spent    TransportFailed, by the kind of the failure
  the server asks for a longer pause than is allowed   the same
  else                                                 the same request once more (tier 0)
the server complains a second time of a call that      TransportFailed ``invalid_request``
may stand in the conversation
a fault that no retry can fix (``Remedy.STOP``)        ReplyHalted, by the fault
a fault of a category in ``stop_on``                   ReplyRejected ``category``
``max_retries``, ``arg_retries``, ``max_invalid_calls``    ReplyRejected, by the budget
are spent
else                                                   a correction, of the next tier
=====================================================  ===========================================

Either way once more is subject to the budgets of the whole call: ``deadline``,
``max_tokens_total``, ``max_cost``, ``stop``. A correction that was lost on the way, or that the
endpoint refused, was never answered: it does not count against ``max_retries``.
"""

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
)
from strictreply.values._issues import Category, Code, Remedy
from strictreply.values._limits import is_count
from strictreply.values._mistakes import IN_POLICIES, helpful
from strictreply.values._replies import Attempt, Usage, total_usage
from strictreply.wires import wire_named
from strictreply.wires._endings import may_be_of_conversation

if TYPE_CHECKING:
    from strictreply.retry._steering import CorrectionContext

ESCALATION_TIER = 3
STEPS = ("forced_tool", "response_format", "model", "human")

Step: TypeAlias = "str | Mapping[str, Any]"
"""One of :data:`STEPS`, where the models are ``model:<name>``, or keywords of the request."""

Stop: TypeAlias = Callable[[RetryCallState], bool]
"""A tenacity stop, such as ``stop_after_attempt(3) | stop_after_delay(20)``."""

Wait: TypeAlias = Callable[[RetryCallState], float]
"""A tenacity wait, such as ``wait_random_exponential(max=10)``."""

# by whether a budget is a count, in the order of the fields
_BUDGETS: Mapping[str, bool] = {
    "max_retries": True,
    "arg_retries": True,
    "transport_retries": True,
    "max_invalid_calls": True,
    "deadline": False,
    "max_tokens_total": True,
    "max_cost": False,
    "max_retry_after": False,
    "max_reply_tokens": True,
    "retry_budget": True,
}
_NEEDED = frozenset({"max_retries", "max_retry_after"})
_LEAST_SECONDS = 0.001  # less counts as none: timers of the system may end that much early
_MOST_SECONDS = 1e8  # three years: a socket takes no timeout that is without end

DEFAULT_TRANSPORT_RETRIES = 2
"""The repeats of a failed call where neither the policy nor the client has a number."""

LATE_KINDS = frozenset({"timeout", "deadline"})
"""The failures by which a deadline ends a call: the API may be well, the model slow."""

_TRANSPORT_WAIT: Wait = wait_random_exponential(multiplier=0.5, max=8)
# requirement T35 has the words for bad calls
_REJECTED_WORDS = {
    "retries": "retries exhausted",
    "arg_retries": "argument retries exhausted",
    "invalid_calls": "too many bad tool calls",
    "category": "a fault of a category in stop_on",
    "streamed": "its text had been streamed to the caller",
    "human": "ask_human returned None",
    "stored": "it is stored, and is not retried",
}


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
        return f"escalation is keywords of a request, or a list of them and of {', '.join(STEPS)}"

    if isinstance(policy.models, str):
        return "models is a list of names; put the one model into a list"
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
    if policy.keep_prompt_cache not in (True, False):
        return "keep_prompt_cache must be True or False"
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

        message = f"no valid reply after {asks} ({why})"
        return ReplyRejected(message, reason=reason, attempts=attempts)


NextStep: TypeAlias = Again | End
"""What follows an attempt that was not accepted."""


def _is_amount(value: object) -> bool:
    """Return whether a value is a number, 0 or more; True, False and NaN are none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False

    return value >= 0


@helpful(IN_POLICIES)
@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The budgets of one call; the first one that is spent ends it.

    Raises ValueError for a negative budget, a ``retry_budget`` that is not a whole number, an
    unknown category or step, ``max_cost`` without ``price``, ``"model"`` without ``models`` and
    ``"human"`` without ``ask_human``.
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
    ``"model"`` and ``"human"``. A step that changes nothing is skipped. A bad reply that comes a
    second time skips a tier. The attempt's ``escalation`` names the step applied last.
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
    early_stop: Literal["off", "streams", "always"] = "streams"
    """Whether a stream is closed as soon as its reply can no longer become valid.

    ``always`` requests a stream also if the caller did not, so that it can be closed; raw responses
    are not streamed.
    """

    def __post_init__(self) -> None:
        for name, is_of_counts in _BUDGETS.items():
            value = getattr(self, name)
            if value is None and name in _NEEDED:
                raise ValueError(f"RetryPolicy.{name} must be a number; 0 allows none")
            if value is None or is_count(value) or (_is_amount(value) and not is_of_counts):
                continue

            words = "a whole number" if is_of_counts else "a number"
            none = "" if name in _NEEDED else ", or None"
            came = repr(value) if isinstance(value, int | float) else type(value).__name__
            raise ContractError(f"RetryPolicy.{name} must be {words}, 0 or more{none}, not {came}")

        wrong = _wrong_choice(self)
        if wrong:
            raise ValueError(f"RetryPolicy.{wrong}")

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
        last = attempts[-1]
        if is_transport_fault(last):
            allowed = self.repeats
            # the client's own number is about failures alone: it would not repeat a call whose
            # response is not a completion, but return that
            unsaid = self.transport_retries is None and failure is not None
            if unsaid and clients_retries is not None:
                allowed = clients_retries

            return self._after_transport(attempts, spent, failure, allowed)

        if _is_of_conversation(attempts):
            return End("failed", "invalid_request")

        stopping = [issue for issue in last.issues if issue.remedy is Remedy.STOP]
        if stopping:
            return End("halted", stopping[0].code.rpartition(".")[2])
        if any(issue.category in self.stop_on for issue in last.issues):
            return End("rejected", "category")

        return self._after_fault(attempts, spent, repeats, scoped=scoped)

    def _after_fault(
        self, attempts: tuple[Attempt, ...], spent: float, repeats: int, *, scoped: bool
    ) -> NextStep:
        # a correction that the transport lost, or the endpoint refused, was never answered, and
        # does not count
        corrections = [
            one
            for one in attempts
            if one.tier and not (one.dropped_params or is_transport_fault(one))
        ]
        if len(corrections) >= self.max_retries:
            return End("rejected", "retries")

        arg_corrections = sum(1 for attempt in corrections if (attempt.scope or "/")[0] != "/")
        if scoped and self.arg_retries is not None and arg_corrections >= self.arg_retries:
            return End("rejected", "arg_retries")

        most = self.max_invalid_calls
        if most is not None and sum(map(_is_bad_call, attempts)) >= most:
            return End("rejected", "invalid_calls")

        wait = 0.0 if self.wait is None else self.wait(_call_state(attempts, spent, None))
        return self._within_budgets(Again(len(corrections) + 1 + repeats, wait), attempts, spent)

    def _after_transport(
        self, attempts: tuple[Attempt, ...], spent: float, failure: Failure | None, repeats: int
    ) -> NextStep:
        failure = failure or Failure("malformed_response", retryable=True)
        reason = failure.kind
        if reason in LATE_KINDS and self.time_left(spent) == 0:
            return End("halted", "deadline")

        retryable = failure.retryable and Category.API_TRANSIENT not in self.stop_on
        if not retryable or sum(map(is_transport_fault, attempts)) > repeats:
            return End("failed", reason)

        wait = failure.retry_after
        if wait is None:
            wait = (self.wait or _TRANSPORT_WAIT)(_call_state(attempts, spent, failure))
        else:
            is_late = self.deadline is not None and spent + wait >= self.deadline
            if is_late or wait > self.max_retry_after:
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
        if self.deadline is not None and spent + step.wait >= self.deadline:
            return End("halted", "deadline")

        usage = total_usage(attempts)
        if self.max_tokens_total is not None and usage.total_tokens >= self.max_tokens_total:
            return End("halted", "tokens")

        most = self.max_cost
        price = self.price
        # what is no number is never below the bound, so that a broken price cannot lift it
        if most is not None and price is not None and not price(usage) < most:
            return End("halted", "cost")

        if self.stop is not None and self.stop(_call_state(attempts, spent, failure, step.wait)):
            return End("rejected" if step.tier else "failed", "stop")

        return step


def _is_bad_call(attempt: Attempt) -> bool:
    """Return whether an attempt called an unknown tool, or one with bad arguments."""
    # a missing call is not a bad one
    called = [issue for issue in attempt.issues if issue.code != str(Code.TOOL_REQUIRED)]
    prefixes = ("tool.", "call.", "args.")
    places = ("/tool_calls/", "/args")
    return any(issue.code.startswith(prefixes) or issue.path.startswith(places) for issue in called)


def _is_of_conversation(attempts: tuple[Attempt, ...]) -> bool:
    """Return whether a server complained once more of a call that may be in the conversation.

    No correction can mend that one.
    """
    complaints = sum(1 for one in attempts if _complains(one))
    return complaints > 1 and _complains(attempts[-1])


def _complains(attempt: Attempt) -> bool:
    error = wire_named(attempt.api).error_in(attempt.raw)
    return may_be_of_conversation(error)


def is_transport_fault(attempt: Attempt) -> bool:
    """Return whether an attempt failed on the way, or brought a response without a completion."""
    if attempt.dropped_params:
        return False  # the endpoint refused what we had added, and is asked again without it
    if attempt.failure is not None:
        return True

    return any(issue.remedy is Remedy.RESEND for issue in attempt.issues)


def _call_state(
    attempts: tuple[Attempt, ...], spent: float, failure: Failure | None, wait: float = 0.0
) -> RetryCallState:
    """Return the call as a stop or a wait of tenacity expects it.

    These read the attempts, the seconds since the start, the pause and the last outcome.
    """
    # there is no Retrying object
    state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]
    state.attempt_number = len(attempts)
    state.start_time = 0.0
    state.outcome_timestamp = spent
    state.upcoming_sleep = wait

    cause = None if failure is None else failure.cause
    state.outcome = Future.construct(len(attempts), cause, has_exception=cause is not None)

    return state
