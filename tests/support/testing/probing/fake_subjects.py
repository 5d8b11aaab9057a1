"""Apps under test inside this process.

The stage and the probe need no other process to be tried.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace

from strictreply.testing._probing.behaviour import Behaviour
from strictreply.testing._probing.client_verdicts import AppWatch
from strictreply.testing._probing.probe_worker import digest, is_clean
from strictreply.testing.survival import ProbeOutcome


class InProcess:
    """A callable, called in a thread; ``closed`` once it is over."""

    def __init__(self, function: Callable[[str], object], base_url: str) -> None:
        """Take the app and where it asks."""
        self.ran: list[tuple[str, float]] = []
        self._watch = AppWatch(lambda name, at: self.ran.append((name, at)))
        self.function = function
        self.base_url = base_url
        self.closed = False

    async def call(self, *, detailed: bool = False, tools: Collection[str] = ()) -> Behaviour:
        """Call it once."""
        self.ran = []
        self._watch.begin(tools)
        behaviour = await asyncio.to_thread(self._called)
        places = {(place, name): at for place, name, at in self._watch.places}
        return replace(behaviour, versions={"app": "1"}, places=places)

    def _called(self) -> Behaviour:
        """Call it in a thread whose calls are watched, as a worker does."""
        sys.setprofile(self._watch.look)
        try:
            value = self.function(self.base_url)
        except Exception as error:  # noqa: BLE001 - as a worker does
            outcome = ProbeOutcome.CLEAN if is_clean(error, ()) else ProbeOutcome.CRASHED
            return Behaviour(outcome, f"{type(error).__name__} at app.py:1")
        finally:
            sys.setprofile(None)
        return Behaviour(ProbeOutcome.ACCEPTED, type(value).__name__, digest(value))

    async def close(self) -> None:
        """Remember that it is over."""
        self.closed = True


class Hanging(InProcess):
    """Does not come back from a bad reply."""

    async def call(self, *, detailed: bool = False, tools: Collection[str] = ()) -> Behaviour:
        """Call it once; where it raises, wait until the caller gives up."""
        behaviour = await super().call(detailed=detailed, tools=tools)
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
