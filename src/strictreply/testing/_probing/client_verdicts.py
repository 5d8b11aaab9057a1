"""Verdicts on a client: how it retried, and which tools ran before it refused a reply."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from operator import itemgetter
from types import CodeType, FrameType, MappingProxyType
from typing import Any, Self, cast
from unittest import mock

import tenacity

from strictreply.core import JSONObject
from strictreply.core.calls import retry_after, skipped
from strictreply.testing._scripts import Asked
from strictreply.testing._steps import Fault, Harm, Kind, is_of_a_library
from strictreply.testing._wire import HTTPReply, Served

_SDK_WAIT = "_calculate_retry_timeout"


@dataclass
class Skipped:
    """The waits that were skipped; ``seconds`` is their total."""

    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.seconds += seconds


@contextmanager
def no_backoff() -> Generator[Skipped, None, None]:
    """Make retries without waiting, in strictreply, the openai SDK and tenacity.

    The anthropic SDK is included if it was imported before. It is a context manager for the whole
    process, and yields the skipped waits. ``time.sleep`` and event loops are not changed, so an
    app's own waits stay. Raises RuntimeError for an unknown version of the SDK.
    """
    # Imported late: it takes a second.
    clients: list[Any] = [import_module("openai._base_client").BaseClient]
    if "anthropic" in sys.modules:
        clients.append(import_module("anthropic._base_client").BaseClient)

    result = Skipped()

    class NoSleep(tenacity.DoSleep):
        """A wait of tenacity, which sync and async retrying both use."""

        def __new__(cls, seconds: float = 0.0) -> Self:
            result.add(seconds)
            return super().__new__(cls, 0.0)

    def at_once(client: Any) -> Callable[..., float]:
        waits: Callable[..., float] = getattr(client, _SDK_WAIT, float)

        def no_seconds(*given: Any, **named: Any) -> float:
            result.add(waits(*given, **named))
            return 0.0

        return no_seconds

    with ExitStack() as stack:
        stack.enter_context(skipped(result.add))
        of_sdks = ((client, _SDK_WAIT, at_once(client)) for client in clients)
        for owner, name, value in ((tenacity, "DoSleep", NoSleep), *of_sdks):
            if not hasattr(owner, name):
                raise RuntimeError(
                    f"no_backoff() cannot patch {owner.__name__}: it has no {name} as installed"
                )

            stack.enter_context(mock.patch.object(owner, name, value))

        yield result


STORM = 5  # so many repeats of one request without a pause are a storm
STORM_PAUSE = 0.1  # seconds between two requests that count as a pause
LONGEST_WAIT = 60.0  # seconds: a client need not obey a longer Retry-After


class ClientVerdict(StrEnum):
    """What a client did wrong on the way, even if it refused the reply in the end."""

    TOOL_RUN_ON_REFUSED_REPLY = "tool_run_on_refused_reply"
    """It ran a tool on a reply that it then refused."""
    TRUNCATED_STREAM_ACCEPTED = "truncated_stream_accepted"
    """It accepted a stream that was cut off."""
    RETRY_AFTER_IGNORED = "retry_after_ignored"
    """It retried before the server's ``Retry-After``."""
    RETRY_STORM = "retry_storm"
    """It repeated a request many times without a pause."""

    @property
    def harm(self) -> Harm:
        """The harm to the app's users."""
        return Harm.DEGRADES if self in {self.RETRY_AFTER_IGNORED, self.RETRY_STORM} else Harm.ACTS


def question(request: JSONObject) -> str:
    """Return a request in a form that is equal for its repeats."""
    return json.dumps([request.get("messages"), request.get("tools")], default=str)


def verdict_on(
    fault: Fault,
    asked: Sequence[Asked],
    *,
    accepted: bool = False,
    is_sent: bool = False,
    skipped: float | None = 0.0,
    ran: Sequence[str] = (),
    usual: Mapping[str, int] = MappingProxyType({}),
) -> tuple[ClientVerdict, str] | None:
    """Judge what a client did when every request got one fault; return it with a sentence.

    None when nothing was wrong. ``is_sent`` says that a result of the tool was in a later request,
    and ``ran`` which watched functions ran. ``skipped`` is the total of the skipped waits in
    seconds, None when unknown. ``usual`` is how often the app sends each :func:`question` when the
    replies are good; the default is once.
    """
    if accepted:
        cut = fault.kind is Kind.STREAM and fault.code == "reply.broken_off"
        words = "took a stream that was cut for a whole one"
        return (ClientVerdict.TRUNCATED_STREAM_ACCEPTED, words) if cut else None

    if ran:
        tools = ", ".join(ran)
        words = f"ran {tools} with a reply that it refused later"
        return ClientVerdict.TOOL_RUN_ON_REFUSED_REPLY, words

    if is_sent:
        words = "sent back what its tool returned, for a reply that it refused later"
        return ClientVerdict.TOOL_RUN_ON_REFUSED_REPLY, words

    same: dict[str, list[Asked]] = {}
    for one in asked:
        same.setdefault(question(one.body), []).append(one)

    counted = ((len(alike) - usual.get(key, 1), alike) for key, alike in same.items())
    # An app may fail before its first request.
    repeats, alike = max(counted, key=itemgetter(0), default=(0, asked))
    if skipped is None or repeats < 1:
        return None

    waited = alike[-1].at - alike[0].at + skipped
    wanted = _wait_asked_for(fault.served)
    if 0 < wanted <= LONGEST_WAIT and waited < wanted * repeats - 1e-6:  # except for rounding
        words = f"waited {waited:.1f} s of the {wanted * repeats:.1f} s that Retry-After asked for"
        return ClientVerdict.RETRY_AFTER_IGNORED, f"{words}, before {repeats} repeats"

    if repeats >= STORM and waited < STORM_PAUSE * repeats:
        return ClientVerdict.RETRY_STORM, f"repeated one request {repeats} times without a pause"

    return None


def _wait_asked_for(served: Served) -> float:
    """Return the seconds of Retry-After, 0 for a date.

    A client reads a date by its own clock, not by the server's.
    """
    headers = served.headers.items() if isinstance(served, HTTPReply) else ()
    numbers = {name.lower(): text for name, text in headers if text.replace(".", "", 1).isdigit()}
    return retry_after(numbers) or 0.0


class AppWatch:
    """Skips and counts the waits between an app's retries, and follows what the app's code calls.

    ``tell`` gets the name and the time of each call of a function that has a watched name.
    """

    def __init__(self, tell: Callable[[str, float], object]) -> None:
        self._tell = tell
        self.skipped = Skipped()
        self._names: frozenset[str] = frozenset()
        self._places: dict[tuple[CodeType, int, bool], float] = {}
        self._is_own: dict[str, bool] = {}

    def begin(self, names: Collection[str]) -> None:
        """Begin to count anew; ``names`` are those of the functions to watch."""
        self._names = frozenset(names)
        self._places = {}
        self.skipped.seconds = 0.0

    @property
    def places(self) -> list[tuple[str, str, float]]:
        """The lines of the app that called anything, and its functions that were called.

        Each has ``file:line``, the name of the function that begins there or an empty one, and the
        time when it was last seen.
        """
        return [
            (f"{code.co_filename}:{line}", code.co_qualname if is_function else "", at)
            for (code, line, is_function), at in list(self._places.items())
        ]

    @contextmanager
    def open(self) -> Generator[None, None, None]:
        """Watch this process, in threads that begin from now on as well."""
        with no_backoff() as self.skipped:
            threading.setprofile(self.look)
            sys.setprofile(self.look)
            try:
                yield
            finally:
                sys.setprofile(None)
                threading.setprofile(cast("Any", None))

    def look(self, frame: FrameType, event: str, _: object) -> None:
        """Look at one call, as a function of ``sys.setprofile`` does."""
        if event == "c_call":
            self._note(frame, frame.f_lineno)
        if event != "call":
            return

        if frame.f_back is not None:
            self._note(frame.f_back, frame.f_back.f_lineno)

        code = frame.f_code
        if not self._note(frame, code.co_firstlineno, is_function=True):
            return

        for name in {code.co_name, code.co_qualname} & self._names:
            self._tell(name, time.monotonic())

    def _note(self, frame: FrameType, line: int, *, is_function: bool = False) -> bool:
        """Note a place of the app; return whether it is one."""
        code = frame.f_code
        is_own = self._is_own.get(code.co_filename)
        if is_own is None:
            is_own = not is_of_a_library(frame)
            self._is_own[code.co_filename] = is_own

        if is_own:
            self._places[code, line, is_function] = time.monotonic()
        return is_own
