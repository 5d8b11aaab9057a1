"""Drivers perform what a flow asks for, in order, and close it whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from strictreply.contract._driving import adrive, drive


class Watched:
    """A flow that asks twice, and remembers whether it was closed."""

    def __init__(self) -> None:
        """Start open."""
        self.closed = False

    def flow(self) -> Generator[str, int, int]:
        """Ask for two numbers and add them."""
        try:
            first = yield "first"
            second = yield "second"
            return first + second
        finally:
            self.closed = True


def test_drive_performs_each_effect_in_order() -> None:
    """Each effect is performed once, its event sent back, and the flow's result returned."""
    seen: list[str] = []

    def perform(effect: str) -> int:
        seen.append(effect)
        return len(seen)

    watched = Watched()
    assert drive(watched.flow(), perform) == 3
    assert (seen, watched.closed) == (["first", "second"], True)


def test_adrive_is_the_twin_of_drive() -> None:
    """The async driver gives the same result from the same flow."""
    seen: list[str] = []

    async def perform(effect: str) -> int:
        await asyncio.sleep(0)
        seen.append(effect)
        return len(seen)

    watched = Watched()
    assert asyncio.run(adrive(watched.flow(), perform)) == 3
    assert (seen, watched.closed) == (["first", "second"], True)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError(), asyncio.CancelledError()])
def test_what_perform_raises_passes_through_and_closes_the_flow(error: BaseException) -> None:
    """An exception of an effect reaches the caller as it is; the flow does not see it and is closed."""

    def perform(effect: str) -> int:
        raise error

    async def aperform(effect: str) -> int:
        raise error

    watched, awatched = Watched(), Watched()
    with pytest.raises(type(error)):
        drive(watched.flow(), perform)
    coroutine = adrive(awatched.flow(), aperform)
    with pytest.raises(type(error)):
        coroutine.send(None)
    assert watched.closed
    assert awatched.closed


def test_a_stop_iteration_of_an_effect_is_not_the_end_of_the_flow() -> None:
    """An exhausted iterator in a user's callback is a bug of theirs, never a result of None."""

    def perform(effect: str) -> int:
        raise StopIteration

    watched = Watched()
    with pytest.raises(StopIteration):
        drive(watched.flow(), perform)
    assert watched.closed
