"""``run`` and its twins: ask, run the tools that were called, hand back their results, until there is an answer.

A tool runs only when the whole reply that calls it has passed (requirement T43).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Self

import anyio

from strictreply.client._client import AsyncStrictClient, StrictClient
from strictreply.contract._contract import Contract
from strictreply.contract._driving import adrive, drive, unharmed
from strictreply.contract._tool import must_be_awaited
from strictreply.pipeline._effects import TurnEffect
from strictreply.pipeline._kinds import PipelineStep
from strictreply.pipeline._line import LineResult, LineStatus
from strictreply.pipeline._loop_policy import LoopPolicy
from strictreply.pipeline._results import InvokeFailed
from strictreply.pipeline._sessions import MemorySessionStore, SessionConflict, SessionStore, SessionStoreFailed
from strictreply.pipeline._tool_results import result_turns
from strictreply.pipeline._turn_flow import Stamp, release, turn_flow
from strictreply.pipeline._turn_steps import TurnSteps
from strictreply.pipeline._values import AgentContext, Envelope
from strictreply.running._events import AttemptMade, OnEvent, RunEvent
from strictreply.running._performing import AsyncPerformer, Performer, numbering
from strictreply.running._runs import Earlier, Given, Request, Run
from strictreply.running._threads import finished_in_thread
from strictreply.running._tool_running import ToolRunner
from strictreply.values._errors import ContractError, StrictReplyError
from strictreply.values._json import Message

DEFAULT_AGENT: Final = AgentContext(id="default")
DEFAULT_LOOP: Final = LoopPolicy()


def run(
    client: StrictClient,
    messages: str | Iterable[Message] | None = None,
    *,
    continuation: Earlier | None = None,
    results: Iterable[Given] = (),
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
    each pending call; for one that needs approval a :class:`Decision`, which no client's result can be. ``after`` is,
    in the forms of ``continuation``, a run whose conversation goes on. ``loop`` bounds the turn. ``sessions`` None
    keeps this run in memory, as long as the :class:`Run` lives. ``agent`` is who answers, ``org`` and ``user`` who
    asks. ``cancel`` is looked at between two steps, ``on_event`` is told of attempts and tools.

    What a tool raises is told to the model as a result: the words of a :class:`ToolError`, of anything else the type.
    Raises what :meth:`StrictClient.exchange` raises, IterationsExceeded when the turn comes to no answer, InvokeFailed
    when the request does not follow the pipeline's rules (results that do not fit the pending calls among them), and
    ContractError when the run cannot be opened like this; a paused run can then be answered again.
    """
    _refuse_other(client, StrictClient, "run() takes a wrapped OpenAI(); with AsyncOpenAI() it is: await arun(…)")
    request = Request(messages=messages, continuation=continuation, results=results, after=after, org=org, user=user)
    keywords = _kept(keywords)
    contract, tell = client.contract_for(**keywords), _listener(on_event)
    _refuse_async(contract)
    turn = _Turn.opened(request, contract, loop, agent, sessions, cancel, model=str(keywords.get("model", "")))
    asking = numbering(client, keywords)
    performer = Performer(client.watched(_telling(tell)), asking, ToolRunner(loop, tell), turn.sessions)
    with turn:
        return turn.ended(drive(turn.flow(), performer))


async def arun(
    client: AsyncStrictClient,
    messages: str | Iterable[Message] | None = None,
    *,
    continuation: Earlier | None = None,
    results: Iterable[Given] = (),
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
    """Run a conversation to its answer with an async client, on asyncio; see :func:`run`. Sync tools run in threads."""
    _refuse_other(client, AsyncStrictClient, "arun() takes a wrapped AsyncOpenAI(); with OpenAI() it is: run(…)")
    request = Request(messages=messages, continuation=continuation, results=results, after=after, org=org, user=user)
    keywords = _kept(keywords)
    contract, tell = client.contract_for(**keywords), _listener(on_event)
    turn = _Turn.opened(request, contract, loop, agent, sessions, cancel, model=str(keywords.get("model", "")))
    asking = numbering(client, keywords)
    performer = AsyncPerformer(client.watched(_telling(tell)), asking, ToolRunner(loop, tell), turn.sessions)
    async with turn:
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
        contract: Contract,
        loop: LoopPolicy,
        agent: AgentContext,
        sessions: SessionStore | None,
        cancel: Callable[[], bool] | None,
        *,
        model: str,
    ) -> _Turn:
        """Open a turn; the store is the given one, that of the run that goes on, or one of its own."""
        steps = TurnSteps.opened(contract, loop, agent, model=model, new_id=_new_id)
        kept = next((store for store in (sessions, request.sessions) if store is not None), None)
        return cls(request.envelope(), steps, MemorySessionStore() if kept is None else kept, cancel or _never)

    def flow(self) -> Generator[TurnEffect, Any, LineResult]:
        """Begin the turn."""
        return turn_flow(self.envelope, self.steps, self.stamp, cancelled=self.cancelled, clock=time.perf_counter)

    def ended(self, line: LineResult) -> Run:
        """Give what the turn came to, or raise what failed it."""
        if line.status is not LineStatus.FAILED:
            return self._run(line)
        cause = line.cause
        if not isinstance(cause, StrictReplyError):  # of cancel=, or of a store that gives what it should not
            raise InvokeFailed(line.errors, step=line.step.name) from cause
        if isinstance(cause, SessionStoreFailed | SessionConflict):
            cause.run = self._run(line)
        raise InvokeFailed(line.errors, step=line.step.name) if type(cause) is InvokeFailed else cause

    def _run(self, line: LineResult) -> Run:
        """Make the run of a turn, as far as it came; what approved calls came to is in no context before their step."""
        ctx = line.context
        built = ctx.built.response if ctx.built is not None else None
        told: list[Message] = [*ctx.prompt.messages, *(ctx.turn.messages if ctx.turn else ())]
        if line.step is PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER and self.steps.claim is not None:
            told += result_turns(self.steps.claim.manifest, self.steps.contract.channel)
        return Run(built, told, tuple(self.steps.asked), line.trace, self.sessions)

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Give back the claim of a turn that was interrupted: an exception of a step has done so already."""
        settle = release(self.steps)
        if kind is None or settle is None:
            return
        with unharmed("the session store"):  # what interrupted the turn is told, and the claim lapses by itself
            settle(self.sessions)

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Give the claim back in a thread, which a cancellation waits for."""
        with anyio.CancelScope(shield=True):
            await finished_in_thread(partial(self.__exit__, kind))


def _refuse_other(client: object, kind: type, message: str) -> None:
    """Refuse a client that is not wrapped, or is the other twin's."""
    if not isinstance(client, kind):
        raise ContractError(message)


def _refuse_async(contract: Contract) -> None:
    """Refuse, before anything is asked, a tool that a sync run could not await."""
    for tool in contract.by_name.values():
        if tool.function is not None:
            tool.refuse_unrunnable(awaited=False)


def _kept(keywords: dict[str, Any]) -> dict[str, Any]:
    """Keep the tools of a run, which every ask of it looks at: a generator gives them once."""
    return {**keywords, "tools": tuple(keywords["tools"])} if keywords.get("tools") is not None else keywords


def _listener(on_event: OnEvent | None) -> OnEvent:
    """Tell a listener, whose own failures change nothing of what is done: they are logged.

    Raises ContractError for one that would have to be awaited.
    """
    if on_event is None:
        return _nobody
    if must_be_awaited(on_event):
        raise ContractError("on_event is a function that is not async; arun_stream gives events to await")

    def tell(event: RunEvent) -> None:
        """Tell of one event."""
        with unharmed("on_event"):
            on_event(event)

    return tell


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
