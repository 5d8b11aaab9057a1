"""Steering: texts that correct or precede an agent's replies.

They are made of codes and permissions, never of a model's words.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast, overload

from strictreply.contract._tool import Tool
from strictreply.coordination._actions import Permitted, ValidationResult
from strictreply.coordination._error_policy import DEFAULT_BUDGET
from strictreply.coordination._permissions import listed
from strictreply.coordination.formats import (
    DEFAULT_FORMAT,
    BaseResponseFormat,
    CoordinationContext,
    JSONResponseFormat,
    format_of,
)
from strictreply.coordination.validation import ActionAnswer
from strictreply.retry._policy import RetryPolicy
from strictreply.retry._steering import (
    MAX_CORRECTION_BYTES,
    MAX_LISTED_FAULTS,
    Situation,
    Steering,
    TieredSteering,
    fault_lines,
    fitted,
    fitted_before,
    verdict_words,
)
from strictreply.values._errors import CallFailed, ContractError, ReplyRejected
from strictreply.values._issues import Category, Issue, Remedy
from strictreply.values._limits import Message
from strictreply.values._replies import AssistantReply, Attempt, DirectAnswer

# From this retry on an agent must choose; from the next one on it is shown how (M75).
MUST_SELECT_RETRY: Final = 3
NOTHING: Final = "(none — review topology)"
JSON_FORMAT: Final = JSONResponseFormat()
E_co = TypeVar("E_co", covariant=True)


class SteeringMode(StrEnum):
    """When an agent is steered (requirement M73)."""

    NEVER = "never"
    ERROR = "error"  # after a reply that did not fit
    AUTO = "auto"  # whenever it is retried
    ALWAYS = "always"  # whenever it is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringContext:
    """What a steering is made from."""

    permitted: Permitted
    """What the agent may do."""
    issues: tuple[Issue, ...] = ()
    """The faults of the last reply; empty when there was none."""
    retry_count: int = 0
    """Number of the coming retry; 0 for a first request."""
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    """The agent's tools by name, for examples."""
    response_format: BaseResponseFormat = JSON_FORMAT
    """The format that the agent writes."""


@dataclass(frozen=True, slots=True)
class SteeringStats:
    """How often agents were steered, and for which categories of faults (requirement M77)."""

    total_injections: int = 0
    by_mode: Mapping[SteeringMode, int] = field(default_factory=dict[SteeringMode, int])
    by_category: Mapping[Category, int] = field(default_factory=dict[Category, int])


class AgentSteering:
    """Steers agents as its mode says, and counts it; safe for threads and tasks."""

    __slots__ = ("_by_category", "_by_mode", "_lock", "mode")

    def __init__(self, mode: SteeringMode | str = SteeringMode.ERROR) -> None:
        if mode not in tuple(SteeringMode):
            raise ContractError(f"a steering mode must be one of {', '.join(SteeringMode)}")
        self.mode: SteeringMode = SteeringMode(mode)
        self._by_mode: Counter[SteeringMode] = Counter()
        self._by_category: Counter[Category] = Counter()
        self._lock = threading.Lock()

    def prompt(self, context: SteeringContext) -> str | None:
        """Return the text to add to an agent's prompt for one ask (M69, M72).

        None when there is nothing to add.
        """
        steers = {
            SteeringMode.ERROR: bool(context.issues),
            SteeringMode.AUTO: context.retry_count > 0,
            SteeringMode.ALWAYS: True,
        }
        if not steers.get(self.mode):
            return None

        with self._lock:
            self._by_mode[self.mode] += 1
            self._by_category.update({issue.category for issue in context.issues})

        return steering_text(context)

    def stats(self) -> SteeringStats:
        """Copy the counters at one moment."""
        with self._lock:
            total = self._by_mode.total()
            return SteeringStats(total, dict(self._by_mode), dict(self._by_category))


@dataclass(frozen=True, slots=True)
class ActionSteering:
    """The words of a client's corrections when its contract asks for an action.

    It is passed as ``wrap(…, steering=ActionSteering())``; one serves all agents. ``otherwise``
    words other faults (in the arguments of one tool, of a reply that was cut, under another
    contract), and all faults in the mode ``never`` of ``speaking``, which counts.
    """

    otherwise: Steering = TieredSteering()
    speaking: AgentSteering = field(default_factory=AgentSteering)

    @property
    def corrects(self) -> bool:
        """Whether bad replies are corrected at all."""
        return self.speaking.mode is not SteeringMode.NEVER

    def opening(self, answer: ActionAnswer, *, streak: int = 0) -> str | None:
        """Return the text to add before the first ask.

        There is one in the mode ``always``, or after a ``streak`` of words alone; else it is None.
        """
        context = self._context(answer, (), streak)
        if streak and self.corrects:
            return steering_text(context)
        return self.speaking.prompt(context)

    def correction(self, situation: Situation) -> str:
        """Return what to change, for the model to read: more with each tier (requirement M75)."""
        answer = situation.contract.answer
        issues = situation.issues
        cut = any(issue.remedy is Remedy.SHORTEN for issue in issues)
        if cut or situation.tool is not None or not isinstance(answer, ActionAnswer):
            return self.otherwise.correction(situation)

        said = self.speaking.prompt(self._context(answer, issues, situation.tier))
        return self.otherwise.correction(situation) if said is None else said

    def _context(
        self, answer: ActionAnswer, issues: tuple[Issue, ...], count: int
    ) -> SteeringContext:
        return SteeringContext(
            permitted=answer.terms.permitted,
            issues=issues,
            retry_count=count,
            tools=answer.terms.tools.by_name,
            response_format=answer.written,
        )


def generate_steering(
    result: ValidationResult,
    permitted: Permitted | None = None,
    *,
    retry_count: int = 1,
    response_format: str | BaseResponseFormat = DEFAULT_FORMAT,
) -> str | None:
    """Return what to change in a reply, None when it is valid (requirement M67).

    ``permitted`` is what the agent may do, None for what the reply was judged by;
    ``response_format`` is the format of the agent's replies. Raises ContractError for an unknown
    format.
    """
    if result.is_valid:
        return None

    context = SteeringContext(
        permitted=permitted or result.permitted or Permitted(""),
        issues=result.issues,
        retry_count=retry_count,
        response_format=format_of(response_format),
    )
    return steering_text(context)


def steering_text(context: SteeringContext) -> str:
    """Return what to change, or what is permitted, in at most 2 KB (M68, M75).

    The text says more with each retry, and is never empty.
    """
    issues = context.issues
    allowed = context.permitted
    count = context.retry_count

    categories = list(dict.fromkeys(issue.category for issue in issues))
    if categories == [Category.API_TRANSIENT]:  # there is nothing to change
        failures = ", ".join(dict.fromkeys(issue.code.rpartition(".")[2] for issue in issues))
        return f"The call before this one failed ({failures}). Please do the same step again."

    agents = listed(allowed.agents) if allowed.agents else NOTHING
    actions = listed(allowed.actions) if allowed.actions else NOTHING
    reminder = context.response_format.reminder()
    remedies = " ".join(_REMEDIES[category] for category in categories) or _NO_FAULT
    helpful = remedies.format(agents=agents, actions=actions, reminder=reminder)

    opening = f"{verdict_words(count)} " if issues and count else ""
    faults = fault_lines(issues)[:MAX_LISTED_FAULTS]
    lines = [opening + helpful, *faults, *_demand(context, actions)]

    if len(lines) == 1:
        return fitted(lines, MAX_CORRECTION_BYTES)
    return fitted_before(lines[:-1], lines[-1], MAX_CORRECTION_BYTES)


def _demand(context: SteeringContext, actions: str) -> list[str]:
    """Return what an agent that fails again and again must do now (M75).

    It must select an action; after one more failure, follow an example.
    """
    allowed = context.permitted
    count = context.retry_count
    if count > MUST_SELECT_RETRY:
        offered = CoordinationContext.of_permitted(allowed, context.tools)
        if examples := context.response_format.get_examples(allowed.actions, offered)[:1]:
            demand = f"{allowed.agent}, {count} replies were invalid. Reply in exactly this form:"
            return [demand, *examples]

    if count < MUST_SELECT_RETRY:
        return []

    lines = [f"You must select exactly one of these actions now: {actions}."]
    if allowed.tools:
        lines.append(f"The tools are: {listed(allowed.tools)}.")
    return lines


# The names in braces are those of what is permitted; the reminder is the format's own.
_REMEDIES: Final[Mapping[Category, str]] = {
    Category.FORMAT_ERROR: "{reminder}",
    Category.PERMISSION_ERROR: (
        "You may hand over to these agents: {agents}. Please choose from them."
    ),
    Category.ACTION_ERROR: "The actions here are: {actions}. Please choose one of them.",
    Category.API_TRANSIENT: "The API did not respond correctly. Please do the same step again.",
    Category.API_TERMINAL: (
        "The provider stopped the reply. Please choose another action: {actions}."
    ),
    Category.TOOL_ERROR: (
        "A tool failed. Please call it in another way, or choose another action: {actions}."
    ),
    Category.UNKNOWN: (
        "The reply could not be used. Please reply again with one of the actions: {actions}."
    ),
}
_NO_FAULT: Final = "Please go on with one of the actions: {actions}."


class Exchanged(Protocol):
    """An exchange of a wrapped client.

    It has the reply, every attempt, and the conversation up to the reply.
    """

    @property
    def reply(self) -> AssistantReply: ...

    @property
    def attempts(self) -> tuple[Attempt, ...]: ...

    @property
    def transcript(self) -> Sequence[Message]: ...


class ExchangingClient(Protocol[E_co]):
    """A wrapped client as far as it matters here; an async one returns an awaitable exchange."""

    @property
    def exchange(self) -> Callable[..., E_co]: ...


class RunningAgent(Protocol):
    """An agent of the published form.

    ``run`` returns its reply to a prompt, or an awaitable of it.
    """

    def run(self, prompt: str) -> object: ...


# Judges a reply: ``processor.validate``, or ``processor.process_response``, with the agent bound.
Validate: TypeAlias = Callable[[object], ValidationResult | Awaitable[ValidationResult]]


@overload
def retry_with_steering(
    client: ExchangingClient[Exchanged],
    answer: ActionAnswer,
    max_retries: int | None = None,
    *,
    policy: RetryPolicy = DEFAULT_BUDGET,
    **request: Any,
) -> ValidationResult: ...
@overload
def retry_with_steering(
    client: ExchangingClient[Awaitable[Exchanged]],
    answer: ActionAnswer,
    max_retries: int | None = None,
    *,
    policy: RetryPolicy = DEFAULT_BUDGET,
    **request: Any,
) -> Awaitable[ValidationResult]: ...
@overload
def retry_with_steering(
    client: RunningAgent,
    answer: str | None,
    max_retries: int | None = None,
    *,
    policy: RetryPolicy = DEFAULT_BUDGET,
    original_prompt: str,
    validate_response: Validate,
) -> Awaitable[ValidationResult]: ...
def retry_with_steering(
    client: Any,
    answer: ActionAnswer | str | None,
    max_retries: int | None = None,
    *,
    policy: RetryPolicy = DEFAULT_BUDGET,
    **request: Any,
) -> ValidationResult | Awaitable[ValidationResult]:
    """Ask through a wrapped client until the reply is an action of ``answer``'s agent.

    The result is awaitable for an async client.

    ``answer`` is what :meth:`ValidationProcessor.answer_kind` returns; its tools are offered
    natively. ``request`` are the keywords of ``chat.completions.create``. After the first call at
    most ``max_retries`` corrections are sent, None for those of ``policy``, in the words of the
    client's steering, which should be :class:`ActionSteering` (M69, M70). Every attempt is counted
    in the processor's metrics (M114).

    In the published form, ``await retry_with_steering(agent, steering, max_retries=3, …)``, an
    agent with ``run(…)`` is asked at most ``max_retries`` times, by ``original_prompt`` and the
    newest steering; ``validate_response`` judges its replies.

    Raises what the client raises: ReplyRejected when the retries are exhausted, ReplyHalted or
    TransportFailed. In the published form, raises ContractError when one of the two keywords is
    missing.
    """
    budget = policy if max_retries is None else replace(policy, max_retries=max_retries)

    if not isinstance(answer, ActionAnswer):
        if request.keys() != {"original_prompt", "validate_response"} or None in request.values():
            raise ContractError(
                "retry_with_steering takes a wrapped client and processor.answer_kind(agent), or "
                "an agent with run(prompt), a steering, original_prompt= and validate_response="
            )

        return _steered(client, answer, budget.max_retries, **request)

    with _counted_failure(answer):
        called: Exchanged | Awaitable[Exchanged] = client.exchange(
            contract=answer.contract, policy=budget, **request
        )

    if isinstance(called, Awaitable):
        return _awaited(called, answer)
    return _accepted(called, answer)


async def _steered(
    agent: RunningAgent,
    steering: str | None,
    max_retries: int,
    original_prompt: str,
    validate_response: Validate,
) -> ValidationResult:
    attempts: tuple[Attempt, ...] = ()
    for number in range(1, max_retries + 1):
        prompt = original_prompt if steering is None else f"{original_prompt}\n\n{steering}"
        response = agent.run(prompt)
        response = await response if isinstance(response, Awaitable) else response
        judged = validate_response(response)
        result = await judged if isinstance(judged, Awaitable) else judged
        if result.is_valid:
            return result

        request = {"messages": [{"role": "user", "content": prompt}]}
        raw = response if isinstance(response, str) else None
        failed = Attempt(number, request, raw, result.issues, correction=steering, tier=number)
        attempts = (*attempts, failed)
        steering = generate_steering(result, retry_count=number + 1)

    raise ReplyRejected(
        f"Still not valid after {max_retries} attempts.", reason="retries", attempts=attempts
    )


async def _awaited(called: Awaitable[Exchanged], answer: ActionAnswer) -> ValidationResult:
    with _counted_failure(answer):
        exchange = await called
    return _accepted(exchange, answer)


@contextmanager
def _counted_failure(answer: ActionAnswer) -> Generator[None]:
    try:
        yield
    except CallFailed as error:
        answer.count(error.attempts)
        raise


def _accepted(exchange: Exchanged, answer: ActionAnswer) -> ValidationResult:
    answer.count(exchange.attempts, exchange.reply)

    if isinstance(exchange.reply, DirectAnswer):
        return cast("ValidationResult", exchange.reply.answer)
    return answer.of_message(exchange.transcript[-1])
