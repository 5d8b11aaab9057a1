"""Driving a flow, a generator that decides and does no I/O.

Its effects are performed and answered, sync and async.
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
    """Run ``flow`` to its result, performing each effect in turn.

    What ``perform`` raises closes the flow.
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
    """Run ``flow`` like :func:`drive`, awaiting each effect."""
    try:
        step = advanced(flow)
        while not isinstance(step, Done):
            step = advanced(flow, await perform(step))
        return step.result
    finally:
        flow.close()


@dataclass(frozen=True, slots=True)
class Done(Generic[Result]):
    """The flow is over.

    This is a value, so that a StopIteration of ``perform`` is never taken for the end of the flow.
    """

    result: Result


def advanced(flow: Generator[Effect, Event, Result], *event: Event) -> Effect | Done[Result]:
    """Run a flow to its next effect, or to its result; without an event it begins."""
    try:
        return flow.send(*event) if event else next(flow)
    except StopIteration as stop:
        return Done(stop.value)


# What is called with each wait, for each :func:`skipped` that is open: for the whole process, as an
# app may wait anywhere.
_skipping: list[Callable[[float], object]] = []


def pause(seconds: float) -> None:
    """Wait in this thread."""
    if not _is_skipped(seconds):
        time.sleep(seconds)


async def apause(seconds: float) -> None:
    """Wait in this task; other tasks run meanwhile, also when no time passes."""
    await anyio.sleep(0 if _is_skipped(seconds) else seconds)


def _is_skipped(seconds: float) -> bool:
    innermost = _skipping[-1:]  # a copy: another thread may close it meanwhile
    for tell in innermost:
        tell(seconds)

    return bool(innermost)


@contextmanager
def skipped(tell: Callable[[float], object]) -> Generator[None]:
    """Let no time pass: every wait inside, in any thread, ends at once.

    ``tell`` is called with the seconds of each wait.
    """
    _skipping.append(tell)
    try:
        yield
    finally:
        _skipping.pop()


@contextmanager
def unharmed(watcher: str) -> Generator[None]:
    """Log the type and place of an Exception of a watcher, and go on.

    Its words are not logged, because they may be the model's.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a user's own code may raise anything
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"in {last.name}, line {last.lineno}"
        message = f"{watcher} raised {type(error).__name__} {place}; the call goes on"
        logger.error(printable(message))  # noqa: TRY400 - a traceback ends with the words
