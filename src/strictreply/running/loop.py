"""``run`` and its twins: ask, run the tools that were called, hand back their results, until there is an answer.

A tool runs only when the whole reply that calls it has passed (requirement T43).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Self

from strictreply.client import AsyncStrictClient, StrictClient
from strictreply.driving import adrive, drive
from strictreply.errors import ContractError
from strictreply.pipeline.effects import TurnEffect
from strictreply.pipeline.line import LineResult, LineStatus
from strictreply.pipeline.loop_policy import LoopPolicy
from strictreply.pipeline.results import InvokeFailed
from strictreply.pipeline.sessions import MemorySessionStore, SessionStore
from strictreply.pipeline.turn_flow import Stamp, release, turn_flow
from strictreply.pipeline.turn_steps import TurnSteps
from strictreply.pipeline.validator import AgentPipelineContextValidator
from strictreply.pipeline.values import AgentContext, AgentToolCallResult, ConversationContext, Envelope
from strictreply.running.events import AttemptMade, OnEvent, RunEvent
from strictreply.running.performing import AsyncPerformer, Performer
from strictreply.running.runs import Earlier, Request, Run
from strictreply.running.tool_running import ToolRunner
from strictreply.terms import Terms
from strictreply.typing import Message

DEFAULT_AGENT: Final = AgentContext(id="default")
DEFAULT_LOOP: Final = LoopPolicy()


def run(
    client: StrictClient,
    messages: str | Iterable[Message] | None = None,
    *,
    continuation: Earlier | None = None,
    results: Iterable[AgentToolCallResult | Mapping[str, Any]] = (),
    after: Earlier | None = None,
    loop: LoopPolicy = DEFAULT_LOOP,
    sessions: SessionStore | None = None,
    agent: AgentContext = DEFAULT_AGENT,
    org: str = "local",
    user: str = "local",
    cancel: Callable[[], bool] | None = None,
    on_event: OnEvent | None = None,
    **keywords: Any,
) -> Run:
    """Run a conversation to its answer, executing the tools the model calls.

    ``messages`` are a text or a conversation with the user's turn last; ``keywords`` go to every exchange (``model`` at
    least). A tool without a function is the client's: the run pauses, and goes on in any process that has the
    ``sessions`` it was kept in, with ``continuation`` (the run, its response, or that as JSON) and ``results``, one for
    each pending call. ``after`` is, in the same forms, a run whose conversation goes on. ``loop`` bounds the turn.
    ``sessions`` None keeps this run in memory, as long as the :class:`Run` lives. ``agent`` is who answers, ``org`` and
    ``user`` who asks. ``cancel`` is looked at between two steps, ``on_event`` is told of attempts and tools.

    What a tool raises is told to the model as a result: the words of a :class:`ToolError`, of anything else the type.
    Raises what :meth:`StrictClient.exchange` raises, IterationsExceeded when the turn comes to no answer, InvokeFailed
    when the request does not follow the pipeline's rules (results that do not fit the pending calls among them), and
    ContractError when the run cannot be opened like this; a paused run can then be answered again.
    """
    _refuse_other(client, StrictClient, "run() takes a wrapped OpenAI(); with AsyncOpenAI() it is: await arun(…)")
    request = Request(messages=messages, continuation=continuation, results=results, after=after, org=org, user=user)
    terms = client.terms(**keywords)
    _refuse_async(terms)
    tell = on_event or _nobody
    turn = _Turn.opened(request, terms, loop, agent, sessions, cancel, model=str(keywords.get("model", "")))
    performer = Performer(client.watched(_telling(tell)), keywords, ToolRunner(loop, tell), turn.sessions)
    with turn:
        return turn.ended(drive(turn.flow(), performer))


async def arun(
    client: AsyncStrictClient,
    messages: str | Iterable[Message] | None = None,
    *,
    continuation: Earlier | None = None,
    results: Iterable[AgentToolCallResult | Mapping[str, Any]] = (),
    after: Earlier | None = None,
    loop: LoopPolicy = DEFAULT_LOOP,
    sessions: SessionStore | None = None,
    agent: AgentContext = DEFAULT_AGENT,
    org: str = "local",
    user: str = "local",
    cancel: Callable[[], bool] | None = None,
    on_event: OnEvent | None = None,
    **keywords: Any,
) -> Run:
    """Run a conversation to its answer with an async client; see :func:`run`. Sync tools run in worker threads."""
    _refuse_other(client, AsyncStrictClient, "arun() takes a wrapped AsyncOpenAI(); with OpenAI() it is: run(…)")
    request = Request(messages=messages, continuation=continuation, results=results, after=after, org=org, user=user)
    terms, tell = client.terms(**keywords), on_event or _nobody
    turn = _Turn.opened(request, terms, loop, agent, sessions, cancel, model=str(keywords.get("model", "")))
    performer = AsyncPerformer(client.watched(_telling(tell)), keywords, ToolRunner(loop, tell), turn.sessions)
    with turn:
        return turn.ended(await adrive(turn.flow(), performer))


@dataclass(slots=True)
class _Turn:
    """One turn that is being run; as a context manager it gives back what an interrupted turn had claimed."""

    envelope: Envelope
    steps: TurnSteps
    sessions: SessionStore
    cancelled: Callable[[], bool]
    stamp: Stamp = field(default_factory=lambda: Stamp(time_stamp=_now(), correlation_id=_new_id()))

    @classmethod
    def opened(
        cls,
        request: Request,
        terms: Terms,
        loop: LoopPolicy,
        agent: AgentContext,
        sessions: SessionStore | None,
        cancel: Callable[[], bool] | None,
        *,
        model: str,
    ) -> _Turn:
        """Open a turn; the store is the given one, that of the run that goes on, or one of its own."""
        steps = TurnSteps(
            terms=terms,
            policy=loop,
            agent=agent,
            conversation=ConversationContext(id="default", model=model),
            new_id=_new_id,
            validator=AgentPipelineContextValidator(allow_server_tool_calls=True),
        )
        kept = sessions or request.sessions or MemorySessionStore()
        return cls(request.envelope(), steps, kept, cancel or _never)

    def flow(self) -> Generator[TurnEffect, Any, LineResult]:
        """Begin the turn."""
        return turn_flow(self.envelope, self.steps, self.stamp, cancelled=self.cancelled, clock=time.perf_counter)

    def ended(self, line: LineResult) -> Run:
        """Give what the turn came to, or raise what failed it."""
        if line.cause is not None and type(line.cause) is not InvokeFailed and line.status is LineStatus.FAILED:
            raise line.cause
        if line.status is LineStatus.FAILED:
            raise InvokeFailed(line.errors, step=line.step.name)
        ctx = line.context
        built = ctx.built.response if ctx.built is not None else None
        told: list[Message] = [*ctx.prompt.messages, *(ctx.turn.messages if ctx.turn else ())]
        return Run(built, told, tuple(self.steps.asked), line.trace, self.sessions)

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Give back the claim of a turn that was interrupted: an exception of a step has done so already."""
        settle = release(self.steps)
        if kind is not None and settle is not None:
            settle(self.sessions)


def _refuse_other(client: object, kind: type, message: str) -> None:
    """Refuse a client that is not wrapped, or is the other twin's."""
    if not isinstance(client, kind):
        raise ContractError(message)


def _refuse_async(terms: Terms) -> None:
    """Refuse, before anything is asked, a tool that a sync run could not await."""
    for tool in terms.tools.values():
        if tool.function is not None:
            tool.refuse_unrunnable(awaited=False)


def _telling(tell: OnEvent) -> Callable[[Any], None]:
    """Tell of attempts as events."""
    return lambda attempt: tell(AttemptMade(attempt))


def _nobody(event: RunEvent) -> None:
    """Tell nobody."""


def _never() -> bool:
    """Never cancel."""
    return False


def _new_id() -> str:
    """Make an id that nobody else has."""
    return uuid.uuid4().hex


def _now() -> str:
    """Say what time it is, in UTC."""
    return datetime.now(UTC).isoformat()
