"""What a client did on the way, whatever came of it: how it asked again, and what ran before a reply was refused."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import pairwise
from types import FrameType
from typing import Any, cast
from unittest import mock

from strictreply.retry._failures import retry_after
from strictreply.testing._harm import Harm, is_of_a_library
from strictreply.testing._scripts import Asked
from strictreply.testing._steps import Fault, Kind
from strictreply.testing._waiting import no_backoff
from strictreply.testing._wire import HTTPReply

STORM = 5
"""So many repeats of one request are a storm, when no time is left between them."""

STORM_PAUSE = 0.05  # seconds between two asks that make it none
_ROUNDING = 1e-6
LONGEST_WAIT = 60.0  # seconds: what asks for more, no client has to obey


class ClientVerdict(StrEnum):
    """What a client should not have done on the way, even where it refused the reply in the end."""

    TOOL_RUN_ON_REFUSED_REPLY = "tool_run_on_refused_reply"
    TRUNCATED_STREAM_ACCEPTED = "truncated_stream_accepted"
    RETRY_AFTER_IGNORED = "retry_after_ignored"
    RETRY_STORM = "retry_storm"

    @property
    def harm(self) -> Harm:
        """What it does to the app's users."""
        return Harm.DEGRADES if self in {self.RETRY_AFTER_IGNORED, self.RETRY_STORM} else Harm.ACTS


def verdict_on(
    fault: Fault, asked: Sequence[Asked], *, returned: bool, waited: float, ran: Sequence[str]
) -> tuple[ClientVerdict, str] | None:
    """Judge what a client did that was served one fault for every request, with a sentence; None where all was well.

    ``waited`` are the seconds of all waits between the requests, ``ran`` the tools that ran.
    """
    if returned:
        cut = fault.kind is Kind.STREAM and fault.code == "reply.broken_off"
        return (ClientVerdict.TRUNCATED_STREAM_ACCEPTED, "took a stream that was cut for a whole one") if cut else None
    if ran:
        return ClientVerdict.TOOL_RUN_ON_REFUSED_REPLY, f"ran {', '.join(ran)} with a reply that it refused later"
    repeats = sum(before.body == after.body for before, after in pairwise(asked))
    headers = fault.served.headers if isinstance(fault.served, HTTPReply) else {}
    # A date is read by each client's own clock, which need not be the server's: only a number of seconds binds.
    numbers = {name.lower(): value for name, value in headers.items() if value.replace(".", "", 1).isdigit()}
    wanted = retry_after(numbers) or 0.0
    asked_for = wanted * repeats
    if 0 < wanted <= LONGEST_WAIT and waited < asked_for - _ROUNDING:
        words = f"waited {waited:.1f} s of the {asked_for:.1f} s that Retry-After asked for"
        return ClientVerdict.RETRY_AFTER_IGNORED, f"{words}, before {repeats} repeats"
    if repeats >= STORM and waited < STORM_PAUSE * repeats:
        return ClientVerdict.RETRY_STORM, f"repeated one request {repeats} times without a pause"
    return None


class Watch:
    """Sees in one process how long an app wants to wait, and which functions run that are named as its tools.

    Waits between retries are skipped; those of ``time.sleep`` and ``asyncio.sleep`` are not. A function of a library,
    and one that is named otherwise than its tool, is not seen.
    """

    def __init__(self) -> None:
        self._seconds: Callable[[], float] = lambda: 0.0
        self._slept = 0.0
        self._names: frozenset[str] = frozenset()
        self._ran: dict[str, None] = {}
        self._before = 0.0

    def begin(self, names: Collection[str]) -> None:
        """Begin to count anew; ``names`` are those of the tools."""
        self._names = frozenset(names)
        self._ran = {}
        self._before = self._seconds() + self._slept

    @property
    def waited(self) -> float:
        """The seconds of all waits since then."""
        return self._seconds() + self._slept - self._before

    @property
    def ran(self) -> list[str]:
        """The tools that ran since then, each once."""
        return [*self._ran]

    @contextmanager
    def open(self) -> Generator[None, None, None]:
        """Watch this process, in threads that begin from now on as well."""
        sleep, asleep = time.sleep, asyncio.sleep

        def slept(seconds: float) -> None:
            self._slept += seconds
            sleep(seconds)

        async def aslept(delay: float, *result: Any) -> Any:
            self._slept += delay
            return await asleep(delay, *result)

        with (
            no_backoff() as skipped,
            mock.patch.object(time, "sleep", slept),
            mock.patch.object(asyncio, "sleep", aslept),
        ):
            self._seconds = lambda: skipped.seconds
            threading.setprofile(self._look)
            sys.setprofile(self._look)
            try:
                yield
            finally:
                sys.setprofile(None)
                threading.setprofile(cast("Any", None))

    def _look(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (name := frame.f_code.co_name) in self._names and not is_of_a_library(frame):
            self._ran[name] = None
