"""Asking an agent until its action is right: the core's own loop, told here what is permitted and how to say so.

There is no I/O here and no client: one is passed in. The published form, for agents without a client, has the one loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, overload

from strictreply.coordination._action_answer import ActionAnswer
from strictreply.coordination._actions import ValidationResult
from strictreply.coordination._agent_steering import (
    generate_steering,
)
from strictreply.coordination._error_policy import DEFAULT_BUDGET
from strictreply.retry._policy import RetryPolicy
from strictreply.values._attempts import Attempt
from strictreply.values._errors import CallFailed, ContractError, ReplyRejected
from strictreply.values._json import Message
from strictreply.values._replies import AssistantReply, DirectAnswer


class Exchanged(Protocol):
    """What an exchange of a wrapped client tells: its reply, every attempt, and the conversation up to the reply."""

    @property
    def reply(self) -> AssistantReply:
        """The reply that fits."""
        ...

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Every ask in order."""
        ...

    @property
    def transcript(self) -> Sequence[Message]:
        """The caller's messages, and the accepted reply as the last one."""
        ...


class ExchangingClient(Protocol):
    """A wrapped sync client, as far as it matters here."""

    @property
    def exchange(self) -> Callable[..., Exchanged]:
        """Make one call, with its story."""
        ...


class AsyncExchangingClient(Protocol):
    """A wrapped async client, as far as it matters here."""

    @property
    def exchange(self) -> Callable[..., Awaitable[Exchanged]]:
        """Make one call, with its story."""
        ...


class RunningAgent(Protocol):
    """An agent of the published form: it is asked by a prompt."""

    def run(self, prompt: str) -> object:
        """Return its reply, or an awaitable of it."""
        ...


Validate: TypeAlias = Callable[[object], ValidationResult | Awaitable[ValidationResult]]
"""Judges one reply of an agent: ``processor.validate``, or ``processor.process_response``, with the agent filled in."""


@overload
def retry_with_steering(
    client: ExchangingClient,
    answer: ActionAnswer,
    max_retries: int | None = None,
    *,
    policy: RetryPolicy = DEFAULT_BUDGET,
    **request: Any,
) -> ValidationResult: ...
@overload
def retry_with_steering(
    client: AsyncExchangingClient,
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
    """Ask through a wrapped client until the reply is an action of ``answer``'s agent; awaitable for an async client.

    ``answer`` is what :meth:`ValidationProcessor.answer_kind` gives; its tools are offered natively. ``request`` holds
    the keywords of ``chat.completions.create``. After the first call at most ``max_retries`` corrections are sent, None
    for those of ``policy``; each is the original prompt, the last bad reply and one correction, in the words of the
    client's own steering, which is meant to be :class:`ActionSteering` (requirements M69, M70). Every attempt is
    counted in the processor's metrics (requirement M114).

    In the published form, ``await retry_with_steering(agent, steering, max_retries=3, …)``, ``client`` is an agent with
    ``run(prompt)`` and ``answer`` the steering of a reply that did not fit. It is asked so often at most, by
    ``original_prompt`` and the newest steering behind it; ``validate_response`` judges its replies.

    Raises what the client raises: ReplyRejected when the retries are spent, ReplyHalted or TransportFailed. Raises
    ContractError when ``answer`` is a text and the two keywords of the published form are missing.
    """
    if not isinstance(answer, ActionAnswer):
        return _published(client, answer, policy.max_retries if max_retries is None else max_retries, **request)
    budget = policy if max_retries is None else replace(policy, max_retries=max_retries)
    with _counted_failure(answer):
        called: Exchanged | Awaitable[Exchanged] = client.exchange(contract=answer.contract, policy=budget, **request)
    return _awaited(called, answer) if isinstance(called, Awaitable) else told(called, answer)


def _published(
    agent: RunningAgent,
    steering: str | None,
    max_retries: int,
    *,
    original_prompt: str | None = None,
    validate_response: Validate | None = None,
    **unknown: object,
) -> Awaitable[ValidationResult]:
    """Refuse a call without the keywords of the published form, before the agent is asked."""
    if unknown or original_prompt is None or validate_response is None:
        raise ContractError(
            "retry_with_steering takes a wrapped client and processor.answer_kind(agent), or an agent with run(prompt) "
            "and a steering text, and then original_prompt= and validate_response="
        )
    return _steered(agent, steering, max_retries, original_prompt, validate_response)


async def _steered(
    agent: RunningAgent, steering: str | None, max_retries: int, original_prompt: str, validate: Validate
) -> ValidationResult:
    """Ask an agent that has no client of ours, as the published function does (requirement M70)."""
    attempts: tuple[Attempt, ...] = ()
    for number in range(1, max_retries + 1):
        prompt = original_prompt if steering is None else f"{original_prompt}\n\n{steering}"
        response = agent.run(prompt)
        response = await response if isinstance(response, Awaitable) else response
        judged = validate(response)
        result = await judged if isinstance(judged, Awaitable) else judged
        if result.is_valid:
            return result
        request = {"messages": [{"role": "user", "content": prompt}]}
        raw = response if isinstance(response, str) else None
        attempts = (*attempts, Attempt(number, request, raw, result.issues, correction=steering, tier=number))
        steering = generate_steering(result, retry_count=number + 1)
    raise ReplyRejected(f"Still not valid after {max_retries} attempts.", reason="retries", attempts=attempts)


async def _awaited(called: Awaitable[Exchanged], answer: ActionAnswer) -> ValidationResult:
    with _counted_failure(answer):
        exchange = await called
    return told(exchange, answer)


@contextmanager
def _counted_failure(answer: ActionAnswer) -> Generator[None]:
    try:
        yield
    except CallFailed as error:
        answer.count(error.attempts)
        raise


def told(exchange: Exchanged, answer: ActionAnswer) -> ValidationResult:
    """Count the attempts of an exchange, and give the action that was accepted; native calls are ``call_tool``."""
    answer.count(exchange.attempts, exchange.reply)
    if isinstance(exchange.reply, DirectAnswer):
        result: ValidationResult = exchange.reply.answer
        return result
    return answer.judgement.of_message(exchange.transcript[-1])
