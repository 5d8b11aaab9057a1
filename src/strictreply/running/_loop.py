"""``run``, its async twin and their streams: ask, run the tools that were called, until there is an answer.

A tool runs only when the whole reply that calls it has passed (requirement T43).
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Self, Unpack

import anyio

from strictreply.client._client import AsyncStrictClient, StrictClient
from strictreply.client._keywords import RequestKeywords
from strictreply.contract._contract import Contract
from strictreply.contract._driving import adrive, drive, unharmed
from strictreply.contract._tool import must_be_awaited
from strictreply.pipeline._invoke_result import InvokeFailed
from strictreply.pipeline._line import LineResult, LineStatus
from strictreply.pipeline._loop_policy import LoopPolicy
from strictreply.pipeline._sessions import MemorySessionStore, SessionConflict, SessionStore, SessionStoreFailed
from strictreply.pipeline._tool_results import result_turns
from strictreply.pipeline._turn_effects import TurnEffect
from strictreply.pipeline._turn_steps import Stamp, TurnSteps, release, turn_flow
from strictreply.pipeline._values import AgentContext, Envelope, PipelineStep
from strictreply.running._run_values import (
    AttemptMade,
    EarlierRun,
    GivenResult,
    OnEvent,
    Run,
    RunEnded,
    RunEvent,
    RunRequest,
)
from strictreply.running._turn_performing import (
    AsyncTurnPerformer,
    ToolRunner,
    TurnPerformer,
    finished_in_thread,
    numbering,
)
from strictreply.values._errors import ContractError, StrictReplyError
from strictreply.values._json import Message

DEFAULT_AGENT: Final = AgentContext(id="default")
DEFAULT_LOOP: Final = LoopPolicy()


def run(
    client: StrictClient,
    messages: str | Iterable[Message] | None = None,
    *,
    continuation: EarlierRun | None = None,
    results: Iterable[GivenResult] = (),
    after: EarlierRun | None = None,
    loop: LoopPolicy = DEFAULT_LOOP,
    sessions: SessionStore | None = None,
    agent: AgentContext = DEFAULT_AGENT,
    org: str = "local",
    user: str = "local",
    cancel: Callable[[], bool] | None = None,
    on_event: OnEvent | None = None,
    **keywords: Unpack[RequestKeywords],
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
    request = RunRequest(messages=messages, continuation=continuation, results=results, after=after, org=org, user=user)
    asked = _kept({**keywords})
    contract, tell = client.contract_for(**asked), _listener(on_event)
    for tool in contract.by_name.values():  # before anything is asked: a sync run could not await it
        if tool.function is not None:
            tool.refuse_unrunnable(awaited=False)
    turn = _RunningTurn.opened(request, contract, loop, agent, sessions, cancel, asked)
    watched = client.watched(partial(_tell_attempt, tell))
    performer = TurnPerformer(watched, numbering(client, asked), ToolRunner(loop, tell), turn.sessions)
    with turn:
        return turn.ended(drive(turn.flow(), performer))


async def arun(
    client: AsyncStrictClient,
    messages: str | Iterable[Message] | None = None,
    *,
    continuation: EarlierRun | None = None,
    results: Iterable[GivenResult] = (),
    after: EarlierRun | None = None,
    loop: LoopPolicy = DEFAULT_LOOP,
    sessions: SessionStore | None = None,
    agent: AgentContext = DEFAULT_AGENT,
    org: str = "local",
    user: str = "local",
    cancel: Callable[[], bool] | None = None,
    on_event: OnEvent | None = None,
    **keywords: Unpack[RequestKeywords],
) -> Run:
    """Run a conversation to its answer with an async client, on asyncio; see :func:`run`. Sync tools run in threads."""
    _refuse_other(client, AsyncStrictClient, "arun() takes a wrapped AsyncOpenAI(); with OpenAI() it is: run(…)")
    request = RunRequest(messages=messages, continuation=continuation, results=results, after=after, org=org, user=user)
    asked = _kept({**keywords})
    contract, tell = client.contract_for(**asked), _listener(on_event)
    turn = _RunningTurn.opened(request, contract, loop, agent, sessions, cancel, asked)
    watched = client.watched(partial(_tell_attempt, tell))
    performer = AsyncTurnPerformer(watched, numbering(client, asked), ToolRunner(loop, tell), turn.sessions)
    async with turn:
        return turn.ended(await adrive(turn.flow(), performer))


def run_stream(
    client: StrictClient, messages: str | Iterable[Message] | None = None, **keywords: Any
) -> Iterator[RunEvent]:
    """Run a conversation like :func:`run`, and yield every event as it happens; the last is :class:`RunEnded`.

    The run goes on in a thread of its own. Closing the stream cancels it before its next step. Raises what
    :func:`run` raises, after the events before it, and ContractError for an ``on_event`` that would have to be awaited.
    """
    events: SimpleQueue[RunEvent | BaseException] = SimpleQueue()
    closed = threading.Event()
    wanted: Callable[[], bool] | None = keywords.pop("cancel", None)
    keywords |= {
        "cancel": lambda: closed.is_set() or (wanted is not None and wanted()),
        "on_event": _both(events.put, keywords.pop("on_event", None)),
    }

    def work() -> None:
        try:
            events.put(RunEnded(run(client, messages, **keywords)))
        except BaseException as error:  # noqa: BLE001 - raised where the stream is read
            events.put(error)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    try:
        while not isinstance(event := events.get(), BaseException):
            yield event
            if isinstance(event, RunEnded):
                return
        raise event
    finally:
        closed.set()


async def arun_stream(
    client: AsyncStrictClient, messages: str | Iterable[Message] | None = None, **keywords: Any
) -> AsyncIterator[RunEvent]:
    """Run a conversation like :func:`arun`, and yield every event as it happens; see :func:`run_stream`.

    Needs asyncio. Closing the stream (``aclose``, or leaving ``contextlib.aclosing``) cancels the run at once.
    """
    events: asyncio.Queue[RunEvent | BaseException] = asyncio.Queue()
    keywords["on_event"] = _both(events.put_nowait, keywords.pop("on_event", None))

    async def work() -> None:
        try:
            events.put_nowait(RunEnded(await arun(client, messages, **keywords)))
        except BaseException as error:
            events.put_nowait(error)
            raise

    task = asyncio.create_task(work())
    try:
        while not isinstance(event := await events.get(), BaseException):
            yield event
            if isinstance(event, RunEnded):
                return
        raise event
    finally:
        task.cancel()
        with suppress(BaseException):  # raised already, or cancelled by us
            await task


@dataclass(slots=True)
class _RunningTurn:
    """One turn that is being run; as a context manager it gives back what an interrupted turn had claimed."""

    envelope: Envelope
    steps: TurnSteps
    sessions: SessionStore
    cancelled: Callable[[], bool]
    stamp: Stamp = field(
        default_factory=lambda: Stamp(time_stamp=datetime.now(UTC).isoformat(), correlation_id=_new_id())
    )

    @classmethod
    def opened(
        cls,
        request: RunRequest,
        contract: Contract,
        loop: LoopPolicy,
        agent: AgentContext,
        sessions: SessionStore | None,
        cancel: Callable[[], bool] | None,
        keywords: dict[str, Any],
    ) -> _RunningTurn:
        """Open a turn; the store is the given one, that of the run that goes on, or one of its own."""
        steps = TurnSteps.opened(contract, loop, agent, model=str(keywords.get("model", "")), new_id=_new_id)
        kept = next((store for store in (sessions, request.sessions) if store is not None), None)
        store = MemorySessionStore() if kept is None else kept
        return cls(request.envelope(), steps, store, cancel or (lambda: False))

    def flow(self) -> Generator[TurnEffect, Any, LineResult]:
        """Begin the turn."""
        return turn_flow(self.envelope, self.steps, self.stamp, cancelled=self.cancelled, clock=time.perf_counter)

    def ended(self, line: LineResult) -> Run:
        """Return what the turn came to, or raise what failed it."""
        if line.status is not LineStatus.FAILED:
            return self._run(line)
        cause = line.cause
        if not isinstance(cause, StrictReplyError):  # of cancel=, or of a store that returns what it should not
            raise InvokeFailed(line.errors, step=line.step.name) from cause
        if isinstance(cause, SessionStoreFailed | SessionConflict):
            cause.run = self._run(line)
        raise InvokeFailed(line.errors, step=line.step.name) if type(cause) is InvokeFailed else cause

    def _run(self, line: LineResult) -> Run:
        """Make the run of a turn, as far as it came; results of approved calls join the context after their step."""
        ctx = line.context
        built = ctx.built.response if ctx.built is not None else None
        transcript: list[Message] = [*ctx.prompt.messages, *(ctx.turn.messages if ctx.turn else ())]
        if line.step is PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER and self.steps.claim is not None:
            transcript += result_turns(self.steps.claim.manifest, self.steps.contract.channel)
        return Run(built, transcript, tuple(self.steps.asked), line.trace, self.sessions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Release the claim of a turn that was interrupted: an exception of a step has done so already."""
        settle = release(self.steps)
        if kind is None or settle is None:
            return
        with unharmed("the session store"):  # what interrupted the turn is raised, and the claim lapses by itself
            settle(self.sessions)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Release the claim in a thread, which a cancellation waits for."""
        with anyio.CancelScope(shield=True):
            await finished_in_thread(partial(self.__exit__, kind))


def _refuse_other(client: object, kind: type, message: str) -> None:
    """Refuse a client that is not wrapped, or is the other twin's."""
    if not isinstance(client, kind):
        raise ContractError(message)


def _kept(keywords: dict[str, Any]) -> dict[str, Any]:
    """Keep the tools of a run, which every ask of it looks at: a generator yields them once."""
    return {**keywords, "tools": tuple(keywords["tools"])} if keywords.get("tools") is not None else keywords


def _listener(on_event: OnEvent | None) -> OnEvent:
    """Make a listener whose failures change nothing of what is done: they are logged.

    Raises ContractError for one that would have to be awaited.
    """
    if on_event is None:
        return lambda event: None  # noqa: ARG005 - nobody listens
    if must_be_awaited(on_event):
        raise ContractError("on_event must be a sync function; arun_stream gives events to await")

    def tell(event: RunEvent) -> None:
        with unharmed("on_event"):
            on_event(event)

    return tell


def _tell_attempt(tell: OnEvent, attempt: Any) -> None:
    tell(AttemptMade(attempt))


def _both(one: OnEvent, other: OnEvent | None) -> OnEvent:
    if other is None:
        return one
    if must_be_awaited(other):
        raise ContractError("on_event must be a sync function; the stream itself gives every event")

    def tell(event: RunEvent) -> None:
        one(event)
        other(event)

    return tell


def _new_id() -> str:
    return uuid.uuid4().hex
