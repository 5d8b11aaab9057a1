"""The line of one call: its requests within the bounds, what came last, and who observes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol

from strictreply.client._exchange import bounded
from strictreply.client._transport import Sent, Transport, Way, passing, with_header
from strictreply.retry._asking import Ask
from strictreply.values._attempts import Attempt
from strictreply.values._json import JSON, JSONObject
from strictreply.values._limits import Limits
from strictreply.values._replies import AssistantReply
from strictreply.wires._received import ENVELOPE_FACTOR

NOTHING = nullcontext()
"""What is entered where nothing is to be done."""

_RETRY_COUNT = "x-stainless-retry-count"  # where the SDK itself counts its repeats


class CallObserver(Protocol):
    """Told of the asks of one call, in order."""

    def asking(self, request: JSONObject) -> AbstractContextManager[None]:
        """Return what is entered while a request is sent and its response read."""
        ...

    def judged(self, attempt: Attempt) -> None:
        """Take what became of the ask that was made last."""
        ...


class Telemetry(Protocol):
    """Told of the calls of a wrapped client."""

    def call(self, ask: Ask, client: Any, *, seen: bool) -> AbstractContextManager[CallObserver | None]:
        """Return what is entered around a call; what the call raises passes through.

        ``client`` is the client inside; ``seen`` says that somebody else sees each ask of this call.
        """
        ...


class RetryBucket:
    """The tokens of :attr:`RetryPolicy.quota` that the calls of one wrapped client have taken; for any thread.

    Designed after the standard retry mode of the AWS SDKs (a bucket of 500 tokens, 5 for a repeat; a success gives
    back what its repeat took, or 1) and the retry throttling of gRPC (proposal A6): when most calls fail, repeating
    each of them would multiply the load on a server that is down already.
    """

    __slots__ = ("_lock", "_taken")

    def __init__(self) -> None:
        self._lock = Lock()
        self._taken = 0

    def take(self, quota: int) -> bool:
        """Take the tokens of one repeat; return False when more than ``quota`` repeats would be out."""
        with self._lock:
            if self._taken + _REPEAT_TOKENS > quota * _REPEAT_TOKENS:
                return False
            self._taken += _REPEAT_TOKENS
            return True

    def give_back(self, *, repeated: bool) -> None:
        """Return the tokens of a repeat that succeeded, or one token for a call that succeeded at once."""
        with self._lock:
            self._taken = max(0, self._taken - (_REPEAT_TOKENS if repeated else 1))


_REPEAT_TOKENS = 5


@dataclass(slots=True)
class Sending:
    """The requests of one call: the transport they take, the caps of the reply, and the response that came last.

    ``raised`` is what came instead of a response after that, None when nothing did. ``clock`` gives seconds. ``at`` is
    when the last event happened, ``until`` when the deadline passes, None without one. ``repeats`` counts how often the
    request at hand was repeated.
    """

    transport: Transport
    limits: Limits
    bucket: RetryBucket = field(default_factory=RetryBucket)
    last: Sent | None = None
    raised: Exception | None = None
    clock: Callable[[], float] = time.monotonic
    at: float = field(init=False)
    until: float | None = None
    repeats: int = 0
    way: Way = field(default_factory=Way)
    observer: CallObserver | None = None

    def __post_init__(self) -> None:
        self.at = self.clock()

    def lap(self) -> float:
        """Return the seconds since the last event, the time between two effects included."""
        before, self.at = self.at, self.clock()
        return self.at - before

    def begin(self, timeout: float | None) -> float:
        """Begin a request that was given ``timeout`` seconds at the last event; return the seconds since then."""
        before = self.at
        self.until = None if timeout is None else before + timeout
        return self.lap()

    def left(self) -> float | None:
        """Return the seconds that are left of the deadline, not below 0; None without a deadline."""
        return None if self.until is None else max(0.0, self.until - self.clock())

    def send(self, request: JSONObject, timeout: float | None) -> Any:
        """Make one call; see :meth:`Transport.send`."""
        request = with_header(request, _RETRY_COUNT, str(self.repeats)) if self.repeats else request
        return self.transport.send(request, timeout, self.way)

    def bounds(self, request: JSONObject) -> AbstractContextManager[None]:
        """Bound what is sent inside by the deadline and the caps."""
        within = bounded(self.left(), self.limits.reply_bytes * ENVELOPE_FACTOR)
        is_alone = self.way.through is None and self.observer is None and passing.get() is None
        return within if is_alone else self._told(request, within)

    @contextmanager
    def _told(self, request: JSONObject, within: AbstractContextManager[None]) -> Generator[None]:
        token = passing.set(None if self.way.through is None else self.transport)
        try:
            with NOTHING if self.observer is None else self.observer.asking(request), within:
                yield
        finally:
            passing.reset(token)

    def reading(self) -> AbstractContextManager[None]:
        """Bound one read of a stream that was opened inside of :meth:`bounds`."""
        left = self.left()
        return NOTHING if left is None else bounded(left, self.limits.reply_bytes * ENVELOPE_FACTOR)

    def take(self, quota: int) -> bool:
        """Take the tokens of a repeat; see :meth:`RetryBucket.take`."""
        granted = self.bucket.take(quota)
        self.repeats += granted
        return granted

    def succeeded(self) -> None:
        """Return tokens for a call that brought a completion, however it was judged."""
        self.bucket.give_back(repeated=self.repeats > 0)
        self.repeats = 0

    def receive(self, source: Any) -> JSON:
        """Keep a response, and return it as plain JSON."""
        self.last, self.raised = self.transport.read(source, self.limits), None
        return self.last.plain

    def settle(self) -> None:
        """Let go of the request, which a caller who keeps an exchange would hold once more, encoded."""
        if self.last is not None and self.way.form is None:
            self.last = self.transport.kept(self.last)

    def completion(self, response: JSONObject, *, spliced: bool, reply: AssistantReply | None = None) -> Any:
        """Return the SDK's own completion for the response that came last; see :meth:`Transport.completion`."""
        if self.last is None or self.last.is_stream:
            return self.transport.assembled(response, self.way, reply)
        return self.transport.completion(self.last, response, spliced=spliced, way=self.way, reply=reply)
