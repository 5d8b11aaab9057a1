"""Asking an agent until its action is right: the core's own loop, told here what is permitted and how to say so.

There is no loop in this room, no I/O and no client: one is passed in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, overload

from strictreply.attempts import Attempt
from strictreply.contract import Contract
from strictreply.coordination.actions.terms import ActionTerms
from strictreply.coordination.formats.interface import BaseResponseFormat
from strictreply.coordination.replies.processors import ToolCallProcessor
from strictreply.coordination.replies.results import ValidationResult
from strictreply.coordination.steering.error_policy import DEFAULT_BUDGET
from strictreply.coordination.steering.wording import JSON_FORMAT, SteeringContext, steering_text
from strictreply.coordination.validation.answering import ActionAnswer
from strictreply.coordination.validation.judging import judge_action, refused
from strictreply.issues import Remedy
from strictreply.policy import RetryPolicy
from strictreply.replies import AssistantReply, DirectAnswer
from strictreply.steering import Situation, Steering, TieredSteering
from strictreply.typing import Message


@dataclass(frozen=True, slots=True)
class ActionSteering:
    """The words of a client's corrections when its contract asks for an action: ``wrap(…, steering=ActionSteering())``.

    One serves all agents: what is permitted comes with the contract of each call. What is no matter of coordination
    (the arguments of one tool, a reply that was cut, another contract) is worded by ``otherwise``.
    """

    response_format: BaseResponseFormat = JSON_FORMAT
    otherwise: Steering = TieredSteering()

    def correction(self, situation: Situation) -> str:
        """Say what to change, for the model to read: more with each tier (requirement M75)."""
        answer, issues = situation.terms.answer, situation.issues
        cut = any(issue.remedy is Remedy.SHORTEN for issue in issues)
        if cut or situation.tool is not None or not isinstance(answer, ActionAnswer):
            return self.otherwise.correction(situation)
        context = SteeringContext(
            permitted=answer.terms.permitted,
            issues=issues,
            retry_count=situation.tier,
            tools=situation.terms.tools,
            response_format=self.response_format,
        )
        return steering_text(context)


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


class Client(Protocol):
    """A wrapped sync client, as far as it matters here."""

    def exchange(self, **keywords: Any) -> Exchanged:
        """Make one call, with its story."""
        ...


class AsyncClient(Protocol):
    """A wrapped async client, as far as it matters here."""

    def exchange(self, **keywords: Any) -> Awaitable[Exchanged]:
        """Make one call, with its story."""
        ...


@overload
def retry_with_steering(
    client: Client,
    answer: ActionAnswer,
    *,
    max_retries: int | None = None,
    policy: RetryPolicy = DEFAULT_BUDGET,
    **request: Any,
) -> ValidationResult: ...
@overload
def retry_with_steering(
    client: AsyncClient,
    answer: ActionAnswer,
    *,
    max_retries: int | None = None,
    policy: RetryPolicy = DEFAULT_BUDGET,
    **request: Any,
) -> Awaitable[ValidationResult]: ...
def retry_with_steering(
    client: Client | AsyncClient,
    answer: ActionAnswer,
    *,
    max_retries: int | None = None,
    policy: RetryPolicy = DEFAULT_BUDGET,
    **request: Any,
) -> ValidationResult | Awaitable[ValidationResult]:
    """Ask through a wrapped client until the reply is an action of ``answer``'s agent; awaitable for an async client.

    ``answer`` is what :meth:`ValidationProcessor.answer_kind` gives; its tools are offered natively. ``request`` holds
    the keywords of ``chat.completions.create``. After the first call at most ``max_retries`` corrections are sent, None
    for those of ``policy``; each is the original prompt, the last bad reply and one correction, in the words of the
    client's own steering, which is meant to be :class:`ActionSteering` (requirements M69, M70).

    Raises what the client raises: ReplyRejected when the retries are spent, ReplyHalted or TransportFailed.
    """
    budget = policy if max_retries is None else replace(policy, max_retries=max_retries)
    contract = Contract(tools=answer.terms.tools.tools.values(), answer=answer, parallel=True)
    called = client.exchange(contract=contract, policy=budget, **request)
    return _awaited(called, answer.terms) if isinstance(called, Awaitable) else _told(called, answer.terms)


async def _awaited(called: Awaitable[Exchanged], terms: ActionTerms) -> ValidationResult:
    """Await the exchange of an async client."""
    return _told(await called, terms)


def _told(exchange: Exchanged, terms: ActionTerms) -> ValidationResult:
    """Give the action that was accepted; native calls, whose tools have checked them, are ``call_tool``."""
    if isinstance(exchange.reply, DirectAnswer):
        result: ValidationResult = exchange.reply.answer
        return result
    read = ToolCallProcessor().process(exchange.transcript[-1])
    return judge_action(read, terms) if isinstance(read, dict) else refused(read.issues if read else (), terms)
