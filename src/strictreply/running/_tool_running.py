"""Running the calls of one reply: several at a time, each within its time, and every failure a result."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import anyio

from strictreply.pipeline._effects import RunTool, ToolOutcome
from strictreply.pipeline._loop_policy import LoopPolicy
from strictreply.pipeline._tool_results import error_json, result_json
from strictreply.pipeline._values import AgentToolCallResult
from strictreply.running._events import OnEvent, ToolFinished, ToolStarted
from strictreply.running._threads import in_thread
from strictreply.values._errors import ToolError, ToolExecutionError
from strictreply.values._issues import printable

logger = logging.getLogger("strictreply")

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ToolRunner:
    """Runs calls as ``policy`` bounds them, and tells ``tell`` when each begins and ends."""

    policy: LoopPolicy
    tell: OnEvent

    def run_all(self, runs: Sequence[RunTool]) -> tuple[ToolOutcome, ...]:
        """Run calls, and give their outcomes in the same order.

        One call without a time limit runs in the caller's own thread; others in threads that are left behind when
        their time is up, since Python cannot stop them.
        """
        if len(runs) == 1 and self.limit(runs[0]) is None:
            return (self.told(runs[0], self.run_one(runs[0])),)
        return _Crowd(self, runs).outcomes()

    async def arun_all(self, runs: Sequence[RunTool]) -> tuple[ToolOutcome, ...]:
        """Run calls like :meth:`run_all`, awaiting; tools that are not async run in threads, which needs asyncio."""
        limiter = anyio.CapacityLimiter(self.policy.concurrency)
        outcomes: dict[int, ToolOutcome] = {}

        async def run_one(index: int, run: RunTool) -> None:
            """Run one call as soon as there is room."""
            async with limiter:
                outcomes[index] = self.told(run, await self._arun(run))

        try:
            async with anyio.create_task_group() as group:
                for index, run in enumerate(runs):
                    group.start_soon(run_one, index, run)
        except BaseExceptionGroup as several:  # what the twin lets through, bare: an exit, or what a listener raised
            raise several.exceptions[0] from None
        return tuple(outcomes[index] for index in range(len(runs)))

    def run_one(self, run: RunTool) -> ToolOutcome:
        """Run one call here."""
        self.tell(ToolStarted(run.call))
        start = time.perf_counter()
        try:
            value = _run_here(run)
        except ToolExecutionError as error:
            return self._failed(run, error, start)
        return self._done(run, value, start)

    async def _arun(self, run: RunTool) -> ToolOutcome:
        """Run one call, awaiting, within its time."""
        self.tell(ToolStarted(run.call))
        start = time.perf_counter()
        try:
            with anyio.fail_after(self.limit(run)):
                in_loop = run.tool.is_async
                value = await (_awaited(run) if in_loop else asyncio.wrap_future(in_thread(partial(_run_here, run))))
        except ToolExecutionError as error:
            return self._failed(run, error, start)
        except TimeoutError as error:  # what the tool itself raises comes as a ToolExecutionError
            return self.expired(run, error)
        return self._done(run, value, start)

    def told(self, run: RunTool, outcome: ToolOutcome) -> ToolOutcome:
        """Tell what a call came to, and give it."""
        self.tell(ToolFinished(run.call, outcome))
        return outcome

    def limit(self, run: RunTool) -> float | None:
        """Give how long a call may take, in seconds."""
        return self.policy.tool_timeout if run.tool.timeout is None else run.tool.timeout

    def _done(self, run: RunTool, value: object, start: float) -> ToolOutcome:
        """Make the outcome of a call that gave a value."""
        return ToolOutcome(_result(run, result_json(value, self.policy.max_result_chars), start))

    def _failed(self, run: RunTool, error: ToolExecutionError, start: float) -> ToolOutcome:
        """Make the outcome of a call whose tool raised; only a ToolError's words are meant for the model."""
        cause = error.__cause__ or error
        words = _words_of(cause) if isinstance(cause, ToolError) else "the tool failed"
        logger.warning("tool %r raised %s; the model is told so", run.call.tool, printable(type(cause).__name__))
        told = error_json(type(cause).__name__, words, self.policy.max_result_chars)
        return ToolOutcome(_result(run, told, start), error)

    def expired(self, run: RunTool, error: TimeoutError) -> ToolOutcome:
        """Make the outcome of a call that took too long."""
        limit = self.limit(run) or 0.0
        logger.warning("tool %r took more than %s seconds; the model is told so", run.call.tool, limit)
        told = error_json("Timeout", f"the tool took more than {limit:g} seconds", self.policy.max_result_chars)
        return ToolOutcome(_result(run, told, time.perf_counter() - limit), error)


class _Crowd:
    """Calls that run in threads of their own, ``concurrency`` of them at a time."""

    def __init__(self, runner: ToolRunner, runs: Sequence[RunTool]) -> None:
        """Line the calls up."""
        self._runner = runner
        self._runs = runs
        self._waiting = deque(range(len(runs)))
        self._active: dict[Future[ToolOutcome], tuple[int, float | None]] = {}
        self._outcomes: dict[int, ToolOutcome] = {}

    def outcomes(self) -> tuple[ToolOutcome, ...]:
        """Run all calls, and give what they came to in their order."""
        while len(self._outcomes) < len(self._runs):
            while self._waiting and len(self._active) < self._runner.policy.concurrency:
                self._start(self._waiting.popleft())
            done, _ = wait(self._active, timeout=self._patience(), return_when=FIRST_COMPLETED)
            for future in done:
                index, _ = self._active.pop(future)
                self._settle(index, future.result())
            self._expire()
        return tuple(self._outcomes[index] for index in range(len(self._runs)))

    def _start(self, index: int) -> None:
        """Run one call in a thread of its own."""
        run = self._runs[index]
        limit = self._runner.limit(run)
        deadline = None if limit is None else time.monotonic() + limit
        self._active[in_thread(partial(self._runner.run_one, run))] = index, deadline

    def _patience(self) -> float | None:
        """Say how long nothing can expire, None for ever."""
        deadlines = [deadline for _, deadline in self._active.values() if deadline is not None]
        left = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        return None if left is None else min(left, threading.TIMEOUT_MAX)

    def _expire(self) -> None:
        """Give up the calls whose time is over; their threads run on, and nobody hears of them again."""
        now = time.monotonic()
        for future, (index, deadline) in list(self._active.items()):
            if deadline is not None and deadline <= now and not future.done():
                del self._active[future]
                self._settle(index, self._runner.expired(self._runs[index], TimeoutError()))

    def _settle(self, index: int, outcome: ToolOutcome) -> None:
        """Keep an outcome, and tell of it."""
        self._outcomes[index] = self._runner.told(self._runs[index], outcome)


def _run_here(run: RunTool) -> Any:
    """Run the code of a call; nobody cancels what does not await, so a cancellation is the tool's own failure."""
    try:
        return run.tool.run(run.call.args, call_id=run.call.id)
    except asyncio.CancelledError as error:
        raise _failure(run, error) from error


async def _awaited(run: RunTool) -> Any:
    """Await the code of a call; a cancellation is its own failure unless the call itself is cancelled, or too late."""
    try:
        return await run.tool.arun(run.call.args, call_id=run.call.id)
    except anyio.get_cancelled_exc_class() as error:
        if anyio.current_effective_deadline() == -math.inf:  # as anyio tells that a scope around us is cancelled
            raise
        raise _failure(run, error) from error


def _failure(run: RunTool, error: BaseException) -> ToolExecutionError:
    """Take what a tool raised for its failure."""
    return ToolExecutionError(run.tool.name, call_id=run.call.id, kind=type(error).__name__)


def _words_of(error: ToolError) -> str:
    """Read what a tool says to the model; a class of the program's own may fail even at that."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - anybody's code
        return "the tool failed"


def _result(run: RunTool, text: str, start: float) -> AgentToolCallResult:
    """Make the result of a call that began at ``start``."""
    spent = round((time.perf_counter() - start) * 1000)
    return AgentToolCallResult(tool_call_id=str(run.call.id), name=run.call.tool, execution_ms=spent, result_json=text)
