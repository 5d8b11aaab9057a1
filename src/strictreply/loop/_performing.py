"""Performing the effects of a turn, sync or async: asks, runs of tools, and uses of the store.

Each failure of a tool is a result.
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

_IDLE: Final[list[SimpleQueue[_Task]]] = []  # the inbox of each thread that has nothing to do

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)  # a child has none of these threads


def in_thread(work: Callable[[], ThreadResult]) -> Future[ThreadResult]:
    """Work in a thread that does not keep the program alive, with the caller's context.

    An exit that it raises is for the caller.
    """
    future: Future[ThreadResult] = Future()
    future.set_running_or_notify_cancel()  # from here on nobody who stops waiting can cancel it

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
        except BaseException as error:  # noqa: BLE001 - whoever waits raises it
            settle = partial(future.set_exception, error)

        _IDLE.append(inbox)  # before anybody is told, who may have more to do at once
        settle()
        del task, run, future, settle  # an idle thread keeps nothing alive
        task = _next_of(inbox)


def _next_of(inbox: SimpleQueue[_Task]) -> _Task | None:
    """Wait for more work, up to ten seconds; None when the thread ends."""
    with suppress(Empty):
        return inbox.get(timeout=10)

    try:
        _IDLE.remove(inbox)
    except ValueError:  # somebody has taken it at this moment
        return inbox.get()
    return None


async def finished_in_thread(work: Callable[[], ThreadResult]) -> ThreadResult:
    """Work in a thread, and wait for its end even when cancelled meanwhile.

    What it does is then known to be done.
    """
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
    """Perform an effect of a run with a sync client.

    An error is a value, for the turn to settle what it has begun.
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
                # The turn gives back what it has claimed, and raises it again.
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
            except Exception as error:  # noqa: BLE001 - as in the twin
                return EffectRaised(error)
        case use if type(sessions) is MemorySessionStore:  # which waits for nothing
            return _used(sessions, use)
        case use:
            return await finished_in_thread(partial(_used, sessions, use))


def request_of(effect: AskModel, settings: RunSettings) -> JSONObject:
    """Return the keywords of one ask.

    A choice of tools that demands a call is only for the turn's first ask.
    """
    sent = settings.keywords if effect.is_first else settings.wire.undemanding(settings.keywords)
    return {**sent, settings.wire.replay.keyword: effect.messages}


def asked_of(exchange: Exchange) -> AcceptedReply:
    """Return what a turn needs of an exchange."""
    first, *others = exchange.attempts
    usage = exchange.usage if others else first.usage
    return AcceptedReply(exchange.transcript[-1], exchange.reply, usage, exchange.attempts)


def _used(sessions: SessionStore, use: Callable[[SessionStore], object]) -> Event:
    """Use the store.

    What it raises is returned, as one of our errors: a program's own store may raise anything.
    """
    try:
        return use(sessions)
    except StrictReplyError as error:
        return EffectRaised(error)
    except Exception as error:  # noqa: BLE001 - anybody's code
        return EffectRaised(SessionStoreFailed(type(sessions).__name__, "failed", cause=error))


@dataclass(frozen=True, slots=True)
class ToolRunner:
    """Runs calls as ``policy`` bounds them, and calls ``tell`` when each begins and ends.

    ``hears`` is who is told of a tool that failed, for the log. A ToolError is the model's to read
    wherever calls are run.
    """

    policy: LoopPolicy
    tell: OnEvent
    hears: str = "the model gets its message"

    def run_all(self, runs: Sequence[RunTool]) -> tuple[ToolOutcome, ...]:
        """Run calls, and return their outcomes in the same order.

        A thread is left behind when its time is up.
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
        """Run calls like :meth:`run_all`, awaiting.

        Tools that are not async run in threads, which needs asyncio.
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
                    # an async function behind a decorator that is not: its code runs in this task
                    rest = finish_call(run.tool, value, call_id=run.call.id)
                    (value,) = await _gathered([partial(_awaited, run, rest)])
        except ToolExecutionError as error:
            return self._failed(run, error, start)
        except TimeoutError as error:  # what the tool itself raises comes as a ToolExecutionError
            return self.expired(run, error)

        return self._returned(run, value, start)

    def _returned(self, run: RunTool, value: object, start: float) -> ToolOutcome:
        """Make the outcome of a call that returned.

        What JSON cannot hold is a mistake of the tool's code, of which the model learns no more.
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
        """Make the outcome of a call whose tool raised.

        Only a ToolError's words are meant for the model.
        """
        cause = error.__cause__ or error
        words = "the tool failed"

        if isinstance(cause, ToolError):
            with suppress(Exception):  # a class of the program's own may fail even at its words
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

    Nobody cancels what does not await, so a cancellation is the tool's own failure.
    """
    try:
        return run.tool.run(run.call.args, call_id=run.call.id)
    except asyncio.CancelledError as error:
        raise _cancelled_itself(run, error) from error


def _begun(run: RunTool) -> Any:
    """Run the code of a call as far as it does not await, like :func:`_run_here`."""
    try:
        return begin_call(run.tool, run.call.args, call_id=run.call.id)
    except asyncio.CancelledError as error:
        raise _cancelled_itself(run, error) from error


async def _awaited(run: RunTool, result: Awaitable[Any]) -> Any:
    """Await the code of a call.

    A cancellation is its own failure unless the call itself is cancelled, or too late.
    """
    try:
        return await result
    except anyio.get_cancelled_exc_class() as error:
        # In anyio, a scope around us is cancelled.
        if anyio.current_effective_deadline() == -math.inf:
            raise
        raise _cancelled_itself(run, error) from error


async def _gathered(
    jobs: Sequence[Callable[[], Awaitable[GroupResult]]],
) -> tuple[GroupResult, ...]:
    """Await jobs together, and return their results in the same order.

    What one of them lets through is raised bare: an exit, a framework's signal, or what a listener
    raised.
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
