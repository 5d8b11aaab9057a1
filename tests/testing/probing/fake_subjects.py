"""Apps under test inside this process.

The stage and the probe need no other process to be tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from strictreply.testing._probing.probe_worker import digest, is_clean
from strictreply.testing._probing.survival_report import Behaviour, ProbeOutcome


class InProcess:
    """A callable, called in a thread; ``closed`` once it is over."""

    ran: Sequence[tuple[str, float]] = ()

    def __init__(self, function: Callable[[str], object], base_url: str) -> None:
        """Take the app and where it asks."""
        self.function = function
        self.base_url = base_url
        self.closed = False

    async def call(self, *, told: bool = False, tools: Collection[str] = ()) -> Behaviour:
        """Call it once."""
        try:
            value = await asyncio.to_thread(self.function, self.base_url)
        except Exception as error:  # noqa: BLE001 - as a worker does
            outcome = ProbeOutcome.CLEAN if is_clean(error, ()) else ProbeOutcome.CRASHED
            return Behaviour(outcome, f"{type(error).__name__} at app.py:1", versions={"app": "1"})
        return Behaviour(
            ProbeOutcome.ACCEPTED, type(value).__name__, digest(value), versions={"app": "1"}
        )

    async def close(self) -> None:
        """Remember that it is over."""
        self.closed = True


class Hanging(InProcess):
    """Does not come back from a bad reply."""

    async def call(self, *, told: bool = False, tools: Collection[str] = ()) -> Behaviour:
        """Call it once; where it raises, wait until the caller gives up."""
        behaviour = await super().call(told=told)
        if not behaviour.returned:
            await asyncio.Event().wait()
        return behaviour


def connecting(
    function: Callable[[str], object],
    started: list[InProcess] | None = None,
    kind: type[InProcess] = InProcess,
) -> Callable[[str], Awaitable[InProcess]]:
    """Connect an app to whatever server it is given; every start is added to ``started``."""

    async def connect(base_url: str) -> InProcess:
        """Start it once."""
        subject = kind(function, base_url)
        if started is not None:
            started.append(subject)
        return subject

    return connect
