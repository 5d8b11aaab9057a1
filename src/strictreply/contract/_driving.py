"""Drivers for flows, sync and async. A flow is a generator that decides, without doing I/O.

It yields effects; the driver performs each one and sends the resulting event back.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio

from strictreply.values._issues import printable

logger = logging.getLogger("strictreply")
Effect = TypeVar("Effect")
Event = TypeVar("Event")
Result = TypeVar("Result")


def drive(flow: Generator[Effect, Event, Result], perform: Callable[[Effect], Event]) -> Result:
    """Run ``flow`` to its result, and perform each effect.

    If ``perform`` raises, the flow is closed.
    """
    try:
        step = advanced(flow)
        while not isinstance(step, Done):
            step = advanced(flow, perform(step))
        return step.result
    finally:
        flow.close()


async def adrive(
    flow: Generator[Effect, Event, Result], perform: Callable[[Effect], Awaitable[Event]]
) -> Result:
    """Run ``flow`` like :func:`drive`, and await each effect."""
    try:
        step = advanced(flow)
        while not isinstance(step, Done):
            step = advanced(flow, await perform(step))
        return step.result
    finally:
        flow.close()


@dataclass(frozen=True, slots=True)
class Done(Generic[Result]):
    """The end of a flow, with its result.

    It is a value, so that a StopIteration from ``perform`` cannot be mistaken for the end.
    """

    result: Result


def advanced(flow: Generator[Effect, Event, Result], *event: Event) -> Effect | Done[Result]:
    """Run a flow to its next effect, or to its result; without an event, start it."""
    try:
        return flow.send(*event) if event else next(flow)
    except StopIteration as stop:
        return Done(stop.value)


# The ``tell`` of each open :func:`skipped`. It is global, because an app may wait in any thread.
_skipping: list[Callable[[float], object]] = []


def pause(seconds: float) -> None:
    """Wait in this thread."""
    if not _is_skipped(seconds):
        time.sleep(seconds)


async def apause(seconds: float) -> None:
    """Wait in this task; other tasks run meanwhile, even if the wait is skipped."""
    await anyio.sleep(0 if _is_skipped(seconds) else seconds)


def _is_skipped(seconds: float) -> bool:
    innermost = _skipping[-1:]  # a copy: another thread may close it meanwhile
    for tell in innermost:
        tell(seconds)

    return bool(innermost)


@contextmanager
def skipped(tell: Callable[[float], object]) -> Generator[None]:
    """Skip all waits inside the block, in any thread.

    ``tell`` is called with the seconds of each wait.
    """
    _skipping.append(tell)
    try:
        yield
    finally:
        _skipping.pop()


@contextmanager
def unharmed(watcher: str) -> Generator[None]:
    """Log an Exception of a watcher by its type and line, and continue.

    Its text is not logged, because it may quote the model.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a user's own code may raise anything
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"in {last.name}, line {last.lineno}"
        message = f"{watcher} raised {type(error).__name__} {place}; the call continues"
        logger.error(printable(message))  # noqa: TRY400 - a traceback ends with the words
