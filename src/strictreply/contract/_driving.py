"""Driving a flow: performing what a generator asks for and telling it what happened, sync and async.

A flow holds all decisions and does no I/O; a driver performs effects and decides nothing. Every flow of the library
(a reply, a check, a tool loop) runs on these two functions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Generic, TypeVar

Effect = TypeVar("Effect")
Event = TypeVar("Event")
Result = TypeVar("Result")


def drive(flow: Generator[Effect, Event, Result], perform: Callable[[Effect], Event]) -> Result:
    """Run ``flow`` to its result, performing each effect in turn; what ``perform`` raises closes the flow."""
    try:
        step = _begun(flow)
        while not isinstance(step, _Done):
            step = _continued(flow, perform(step))
        return step.result
    finally:
        flow.close()


async def adrive(flow: Generator[Effect, Event, Result], perform: Callable[[Effect], Awaitable[Event]]) -> Result:
    """Run ``flow`` like :func:`drive`, awaiting each effect."""
    try:
        step = _begun(flow)
        while not isinstance(step, _Done):
            step = _continued(flow, await perform(step))
        return step.result
    finally:
        flow.close()


@dataclass(frozen=True, slots=True)
class _Done(Generic[Result]):
    """The flow is over: a value, so that a StopIteration of ``perform`` is never taken for the end of the flow."""

    result: Result


def _begun(flow: Generator[Effect, Event, Result]) -> Effect | _Done[Result]:
    """Run a flow to its first effect, or to its result."""
    try:
        return next(flow)
    except StopIteration as stop:
        return _Done(stop.value)


def _continued(flow: Generator[Effect, Event, Result], event: Event) -> Effect | _Done[Result]:
    """Tell a flow what happened, and run it to its next effect, or to its result."""
    try:
        return flow.send(event)
    except StopIteration as stop:
        return _Done(stop.value)
