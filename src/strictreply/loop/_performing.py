"""Performing the effects of a turn, sync or async: requests, tool calls, and uses of the store.

Each failure of a tool becomes a result.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias, TypeVar, cast

import anyio

from strictreply import (
    AbortRun,
    Accepted,
    AsyncStrictClient,
    Exchange,
    StrictClient,
    StrictReplyError,
    ToolError,
    ToolExecutionError,
    ToolResultError,
)
from strictreply.core import JSONObject
from strictreply.core.calls import signal_of
from strictreply.core.judging import NotJSON
from strictreply.core.text import printable
from strictreply.core.tools import begin_call, finish_call
from strictreply.loop._effects import (
    AcceptedReply,
    AskModel,
    Effect,
    EffectRaised,
    Event,
    RunTool,
    RunTools,
    ToolOutcome,
)
from strictreply.loop._policy import LoopPolicy
from strictreply.loop._result_texts import error_json, result_json
from strictreply.loop._run_settings import RunSettings
from strictreply.loop._run_values import OnEvent, ToolFinished, ToolStarted
from strictreply.loop._sessions import MemorySessionStore, SessionStore, SessionStoreFailed
from strictreply.loop.values import AgentToolCallResult

ThreadResult = TypeVar("ThreadResult")
GroupResult = TypeVar("GroupResult")

_Task: TypeAlias = tuple[Callable[[], Any], Future[Any]]

_IDLE: Final[list[SimpleQueue[_Task]]] = []  # the inbox of each idle thread

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)  # a child has none of these threads


def in_thread(work: Callable[[], ThreadResult]) -> Future[ThreadResult]:
    """Run a function in a daemon thread, with the caller's context.

    Whatever it raises, an exit too, is raised to the caller.
    """
    future: Future[ThreadResult] = Future()
    future.set_running_or_notify_cancel()  # from now on a caller that stops waiting cannot cancel

    task = (partial(contextvars.copy_context().run, work), future)
    try:
        _IDLE.pop().put(task)
    except IndexError:
        threading.Thread(target=_serve, args=(task,), name="strictreply-tools", daemon=True).start()

    return future


def _serve(task: _Task | None) -> None:
    inbox: SimpleQueue[_Task] = SimpleQueue()
    while task is not None:
        run, future = task
        try:
            settle = partial(future.set_result, run())
        except BaseException as error:  # noqa: BLE001 - raised to the caller that waits
            settle = partial(future.set_exception, error)

        _IDLE.append(inbox)  # before the caller gets the result and may have more work
        settle()
        del task, run, future, settle  # an idle thread keeps nothing alive
        task = _next_of(inbox)


def _next_of(inbox: SimpleQueue[_Task]) -> _Task | None:
    """Wait for more work, up to ten seconds; None when the thread ends."""
    with suppress(Empty):
        return inbox.get(timeout=10)

    try:
        _IDLE.remove(inbox)
    except ValueError:  # another thread has just taken it
        return inbox.get()
    return None


async def finished_in_thread(work: Callable[[], ThreadResult]) -> ThreadResult:
    """Run a function in a thread, and wait for its end even when cancelled meanwhile."""
    future = asyncio.wrap_future(in_thread(work))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise


logger = logging.getLogger("strictreply")


def perform(
    settings: RunSettings, tools: ToolRunner, sessions: SessionStore, effect: Effect
) -> Event:
    """Perform an effect of a run with a sync client, and return the event.

    An error is returned as EffectRaised, so that the turn can release its claim.
    """
    match effect:
        case RunTools(runs=runs):
            try:
                return tools.run_all(runs)
            except AbortRun as error:
                return EffectRaised(error)
        case AskModel():
            client = cast("StrictClient", settings.client)
            try:
                request = request_of(effect, settings)
                if not request.pop("stream", False):
                    return asked_of(client.exchange(**request))

                with client.stream(**request) as stream:
                    for event in stream:
                        if not isinstance(event, Accepted):
                            tools.tell(event)

                return asked_of(stream.exchange)
            except Exception as error:  # noqa: BLE001
                # The turn releases its claim, and raises the error again.
                return EffectRaised(error)
        case use:
            return _used(sessions, use)


async def aperform(
    settings: RunSettings, tools: ToolRunner, sessions: SessionStore, effect: Effect
) -> Event:
    """Perform an effect of a run with an async client, like :func:`perform`.

    The store is used in a thread.
    """
    match effect:
        case RunTools(runs=runs):
            try:
                return await tools.arun_all(runs)
            except AbortRun as error:
                return EffectRaised(error)
        case AskModel():
            client = cast("AsyncStrictClient", settings.client)
            try:
                request = request_of(effect, settings)
                if not request.pop("stream", False):
                    return asked_of(await client.exchange(**request))

                async with client.stream(**request) as stream:
                    async for event in stream:
                        if not isinstance(event, Accepted):
                            tools.tell(event)

                return asked_of(stream.exchange)
            except Exception as error:  # noqa: BLE001 - as in perform()
                return EffectRaised(error)
        case use if type(sessions) is MemorySessionStore:  # it never blocks for long
            return _used(sessions, use)
        case use:
            return await finished_in_thread(partial(_used, sessions, use))


def request_of(effect: AskModel, settings: RunSettings) -> JSONObject:
    """Return the keywords of one request.

    Only the turn's first request keeps a ``tool_choice`` that demands a call.
    """
    sent = settings.keywords if effect.is_first else settings.wire.undemanding(settings.keywords)
    return {**sent, settings.wire.replay.keyword: effect.messages}


def asked_of(exchange: Exchange) -> AcceptedReply:
    """Return the accepted reply of an exchange."""
    first, *others = exchange.attempts
    usage = exchange.usage if others else first.usage
    return AcceptedReply(exchange.transcript[-1], exchange.reply, usage, exchange.attempts)


def _used(sessions: SessionStore, use: Callable[[SessionStore], object]) -> Event:
    """Use the store; return an exception as EffectRaised with one of our errors.

    A program's own store may raise anything.
    """
    try:
        return use(sessions)
    except StrictReplyError as error:
        return EffectRaised(error)
    except Exception as error:  # noqa: BLE001 - anybody's code
        return EffectRaised(SessionStoreFailed(type(sessions).__name__, "failed", cause=error))


@dataclass(frozen=True, slots=True)
class ToolRunner:
    """Runs calls within the bounds of ``policy``, and calls ``tell`` when each begins and ends.

    ``hears`` ends the log message about a tool that failed: it says who gets the error. The model
    always gets the message of a ToolError.
    """

    policy: LoopPolicy
    """The limits on calls."""
    tell: OnEvent
    """Called with an event when a call begins and when it ends."""
    hears: str = "the model gets its message"
    """Words for the log: who is told that a tool failed."""

    def run_all(self, runs: Sequence[RunTool]) -> tuple[ToolOutcome, ...]:
        """Run calls, and return their outcomes in the same order.

        When a call's time is up, its thread runs on and its result is discarded.
        """
        if len(runs) == 1 and self.limit(runs[0]) is None:  # in the caller's own thread
            return (self.told(runs[0], self.run_one(runs[0])),)

        waiting = deque(range(len(runs)))
        active: dict[Future[ToolOutcome], tuple[int, float]] = {}
        outcomes: dict[int, ToolOutcome] = {}

        while len(outcomes) < len(runs):
            while waiting and len(active) < self.policy.concurrency:
                index = waiting.popleft()
                limit = self.limit(runs[index])
                deadline = math.inf if limit is None else time.monotonic() + limit
                active[in_thread(partial(self.run_one, runs[index]))] = (index, deadline)

            left = max(0.0, min(deadline for _, deadline in active.values()) - time.monotonic())
            wait(active, timeout=min(left, threading.TIMEOUT_MAX), return_when=FIRST_COMPLETED)
            now = time.monotonic()

            for future, (index, deadline) in list(active.items()):
                if future.done():
                    outcome = future.result()
                elif deadline <= now:  # the thread runs on, and its result is dropped
                    outcome = self.expired(runs[index], TimeoutError())
                else:
                    continue

                del active[future]
                outcomes[index] = self.told(runs[index], outcome)

        return tuple(outcomes[index] for index in range(len(runs)))

    async def arun_all(self, runs: Sequence[RunTool]) -> tuple[ToolOutcome, ...]:
        """Run calls like :meth:`run_all`, awaiting async tools.

        Sync tools run in threads, which needs asyncio.
        """
        if len(runs) == 1 and not runs[0].tool.is_async:  # no code of the tool's runs in this task
            return (self.told(runs[0], await self._arun(runs[0])),)

        limiter = anyio.CapacityLimiter(self.policy.concurrency)

        async def run_one(run: RunTool) -> ToolOutcome:
            async with limiter:
                return self.told(run, await self._arun(run))

        return await _gathered([partial(run_one, run) for run in runs])

    def run_one(self, run: RunTool) -> ToolOutcome:
        """Run one call in this thread, without a time limit."""
        self.tell(ToolStarted(run.call))
        start = time.perf_counter()
        try:
            value = _run_here(run)
        except ToolExecutionError as error:
            return self._failed(run, error, start)
        return self._returned(run, value, start)

    async def _arun(self, run: RunTool) -> ToolOutcome:
        self.tell(ToolStarted(run.call))
        start = time.perf_counter()
        try:
            with anyio.fail_after(self.limit(run)):
                if run.tool.is_async:
                    value = await _awaited(run, run.tool.arun(run.call.args, call_id=run.call.id))
                else:
                    value = await asyncio.wrap_future(in_thread(partial(_begun, run)))

                if inspect.isawaitable(value):
                    # a sync decorator returned the coroutine of an async function: await it here
                    rest = finish_call(run.tool, value, call_id=run.call.id)
                    (value,) = await _gathered([partial(_awaited, run, rest)])
        except ToolExecutionError as error:
            return self._failed(run, error, start)
        except TimeoutError as error:  # the tool's own errors arrive as ToolExecutionError
            return self.expired(run, error)

        return self._returned(run, value, start)

    def _returned(self, run: RunTool, value: object, start: float) -> ToolOutcome:
        """Make the outcome of a call that returned.

        A value that is not JSON is a mistake in the tool's code; the model gets no details of it.
        """
        signal = signal_of(run.call.tool, value)
        if signal is not None:
            raise signal

        limit = self.policy.max_result_chars
        try:
            return _outcome(run, result_json(value, limit), start)
        except NotJSON as found:
            error = ToolResultError(
                run.tool.name, path=found.path, kind=found.kind, call_id=run.call.id
            )
            error.__cause__ = found.__cause__
            logger.error("%s", error)  # noqa: TRY400 - a traceback would repeat the value
            text = error_json(type(error).__name__, "the tool failed", limit)
            return _outcome(run, text, start, error)

    def told(self, run: RunTool, outcome: ToolOutcome) -> ToolOutcome:
        """Report the outcome of a call to the listener, and return it."""
        self.tell(ToolFinished(run.call, outcome))
        return outcome

    def limit(self, run: RunTool) -> float | None:
        """Return how long a call may take, in seconds."""
        return self.policy.tool_timeout if run.tool.timeout is None else run.tool.timeout

    def _failed(self, run: RunTool, error: ToolExecutionError, start: float) -> ToolOutcome:
        """Make the outcome of a call whose tool raised; the model gets only a ToolError's text."""
        cause = error.__cause__ or error
        words = "the tool failed"

        if isinstance(cause, ToolError):
            with suppress(Exception):  # str() of a program's own class may raise
                words = str(cause)

        kind = type(cause).__name__
        hears = "the model gets its message" if isinstance(cause, ToolError) else self.hears
        logger.warning("tool %r raised %s; %s", run.call.tool, printable(kind), hears)
        text = error_json(kind, words, self.policy.max_result_chars)
        return _outcome(run, text, start, error)

    def expired(self, run: RunTool, error: TimeoutError) -> ToolOutcome:
        """Make the outcome of a call that took too long."""
        limit = self.limit(run) or 0.0
        logger.warning("tool %r took more than %s seconds; %s", run.call.tool, limit, self.hears)
        words = f"the tool took more than {limit:g} seconds"
        text = error_json("Timeout", words, self.policy.max_result_chars)
        return _outcome(run, text, time.perf_counter() - limit, error)


def _run_here(run: RunTool) -> Any:
    """Run the code of a call.

    Code that does not await cannot be cancelled, so a cancellation is the tool's own failure.
    """
    try:
        return run.tool.run(run.call.args, call_id=run.call.id)
    except asyncio.CancelledError as error:
        raise _cancelled_itself(run, error) from error


def _begun(run: RunTool) -> Any:
    """Run the sync part of a call's code, like :func:`_run_here`."""
    try:
        return begin_call(run.tool, run.call.args, call_id=run.call.id)
    except asyncio.CancelledError as error:
        raise _cancelled_itself(run, error) from error


async def _awaited(run: RunTool, result: Awaitable[Any]) -> Any:
    """Await the code of a call.

    A cancellation is the tool's failure, unless the call itself is cancelled or its time is up.
    """
    try:
        return await result
    except anyio.get_cancelled_exc_class() as error:
        # An anyio scope around this code is cancelled.
        if anyio.current_effective_deadline() == -math.inf:
            raise
        raise _cancelled_itself(run, error) from error


async def _gathered(
    jobs: Sequence[Callable[[], Awaitable[GroupResult]]],
) -> tuple[GroupResult, ...]:
    """Await jobs together, and return their results in the same order.

    An exception of one of them, such as an exit or a framework's signal, is raised by itself, not
    in a group.
    """
    results: dict[int, GroupResult] = {}

    async def run_one(index: int, job: Callable[[], Awaitable[GroupResult]]) -> None:
        results[index] = await job()

    try:
        async with anyio.create_task_group() as group:
            for index, job in enumerate(jobs):
                group.start_soon(run_one, index, job)
    except BaseExceptionGroup as several:
        first = several.exceptions[0]
        raise first from first.__cause__

    return tuple(results[index] for index in range(len(jobs)))


def _cancelled_itself(run: RunTool, error: BaseException) -> ToolExecutionError:
    return ToolExecutionError(run.tool.name, call_id=run.call.id, kind=type(error).__name__)


def _outcome(run: RunTool, text: str, start: float, error: Exception | None = None) -> ToolOutcome:
    spent = round((time.perf_counter() - start) * 1000)
    result = AgentToolCallResult(
        tool_call_id=str(run.call.id),
        name=run.call.tool,
        execution_ms=spent,
        result_json=text,
    )
    return ToolOutcome(result, error)
