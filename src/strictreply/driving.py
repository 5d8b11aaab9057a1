"""Driving a flow: performing what a generator asks for and telling it what happened, sync and async.

A flow holds all decisions and does no I/O; a driver performs effects and decides nothing. Every flow of the library
(a reply, a check, a tool loop) runs on these two functions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

Effect = TypeVar("Effect")
Event = TypeVar("Event")
Result = TypeVar("Result")


def drive(flow: Generator[Effect, Event, Result], perform: Callable[[Effect], Event]) -> Result:
    """Run ``flow`` to its result, performing each effect in turn; what ``perform`` raises closes the flow."""
    try:
        effect = next(flow)
        while True:
            effect = flow.send(perform(effect))
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        flow.close()


async def adrive(flow: Generator[Effect, Event, Result], perform: Callable[[Effect], Awaitable[Event]]) -> Result:
    """Run ``flow`` like :func:`drive`, awaiting each effect."""
    try:
        effect = next(flow)
        while True:
            effect = flow.send(await perform(effect))
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        flow.close()
