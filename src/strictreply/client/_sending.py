"""The requests of one call within its bounds, with whole responses or streams.

The errors are also instances of the SDK's errors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import anyio

from strictreply.client._ledger import LedgerOfCall
from strictreply.client._relay import Relay
from strictreply.contract._contract import Check
from strictreply.contract._driving import Done, advanced
from strictreply.retry._asking import CallPlan
from strictreply.retry._failures import ExchangeStopped, Failure
from strictreply.retry._flow import (
    Call,
    Claim,
    Failed,
    Noted,
    Notify,
    Outcome,
    Replied,
    Sleep,
    reply_flow,
)
from strictreply.retry._policy import Consult
from strictreply.sdks._bounds import bounded, time_reads
from strictreply.sdks._posting import ReceivedResponse as Response
from strictreply.sdks._posting import is_raw
from strictreply.sdks._transport import (
    CallForm,
    Sent,
    Transport,
    content_type,
    passing,
    with_header,
)
from strictreply.values._issues import Issue
from strictreply.values._limits import JSON, JSONObject, Limits
from strictreply.values._replies import AssistantReply, Attempt
from strictreply.wires._bodies import ENVELOPE_FACTOR, not_asked, told_body
from strictreply.wires._members import as_json
from strictreply.wires._server_events import is_events
from strictreply.wires._stream_chunks import ChunkRead
from strictreply.wires._wire import Wire

MAX_IDLE_LINES = 100_000  # comments, blank and unknown lines between two events
NOTHING = nullcontext()

BEHIND_END = 1.0
"""Seconds in which a server may send more after the event that ends a reply.

Servers usually close the stream immediately. One that keeps it open sends nothing more.
"""

_REPEAT_TOKENS = 5
"""Tokens of the retry budget that one repeat takes."""

_END: Any = object()  # stands for the end of a stream


class CallObserver(Protocol):
    """Observes the requests of one call, in order."""

    def asking(self, request: JSONObject) -> AbstractContextManager[None]:
        """Return the context in which a request is sent and its response read."""
        ...

    def judged(self, attempt: Attempt) -> None:
        """Take the outcome of the last request."""
        ...


class Telemetry(Protocol):
    """Observes the calls of a wrapped client."""

    def call(
        self, ask: CallPlan, client: object, *, seen: bool
    ) -> AbstractContextManager[CallObserver | None]:
        """Return the context of a call of the original ``client``.

        ``seen`` says that another program sees each request of the call.
        """
        ...

    def observed(self, ask: CallPlan, client: object, attempt: Attempt, *, judging: float) -> None:
        """Record a reply that was handed on unchanged, and the seconds that judging it took."""
        ...

    def unjudged(self, client: object, api: str, model: str, why: str) -> None:
        """Count a reply that was handed on without a verdict.

        ``why`` is ``fault`` (a bug in strictreply), ``request`` (replies to it cannot be judged) or
        ``abandoned`` (the caller left the stream).
        """
        ...


class RetryBucket:
    """The part of :attr:`RetryPolicy.retry_budget` that the calls of one client have spent.

    Repeats would multiply the load on a server that is down. So this works like the standard retry
    mode of the AWS SDKs and the retry throttling of gRPC (proposal A6): a repeat takes 5 tokens; a
    successful repeat returns them, any other success returns 1. It is safe for threads.
    """

    __slots__ = ("_lock", "_taken")

    def __init__(self) -> None:
        self._lock = Lock()
        self._taken = 0

    def take(self, retry_budget: int) -> bool:
        """Take the tokens of one repeat; return False if ``retry_budget`` repeats are spent."""
        with self._lock:
            is_left = self._taken + _REPEAT_TOKENS <= retry_budget * _REPEAT_TOKENS
            self._taken += _REPEAT_TOKENS if is_left else 0
            return is_left

    def give_back(self, *, repeated: bool) -> None:
        """Return the tokens of a successful repeat, or one for a first-try success."""
        with self._lock:
            self._taken = max(0, self._taken - (_REPEAT_TOKENS if repeated else 1))


@dataclass(slots=True)
class CallIO:
    """The requests of one call: their transport, the caps of the reply, and the last response."""

    transport: Transport
    """Sends the requests to the API."""
    limits: Limits
    """The size limits of a reply."""
    bucket: RetryBucket = field(default_factory=RetryBucket)
    """What the client's calls have spent of the retry budget."""
    last: Sent | None = None
    """The last response; None before the first."""
    raised: Exception | None = None
    """The error after ``last``; None if there was none."""
    clock: Callable[[], float] = time.monotonic
    """Returns the time in seconds."""
    at: float = field(init=False)
    """When the last event happened, by ``clock``."""
    until: float | None = None
    """When the deadline passes, by ``clock``; None without a deadline."""
    repeats: int = 0
    """How often the present request was repeated."""
    way: CallForm = field(default_factory=CallForm)
    """How the call was made."""
    observer: CallObserver | None = None
    """Reports the call to telemetry; None without telemetry."""
    is_async: bool = False
    """Whether the client is async."""
    incoming: Incoming | None = None
    """The open stream, which must be closed if the call is aborted; None if there is none."""
    is_literate: bool = True
    """Whether known deviations of servers are read."""
    ledger: LedgerOfCall | None = None
    """Gets the attempts of the call; None for no ledger."""

    def __post_init__(self) -> None:
        self.at = self.clock()

    def lap(self) -> float:
        """Return the seconds since the last event, the time between two effects included."""
        before = self.at
        self.at = self.clock()
        return self.at - before

    def begin(self, timeout: float | None) -> float:
        """Begin a request whose ``timeout`` in seconds counts from the last event.

        Return the seconds since that event.
        """
        self.until = None if timeout is None else self.at + timeout
        return self.lap()

    def hurry(self, seconds: float) -> None:
        """Shorten the time to the deadline to some seconds."""
        until = self.clock() + seconds
        self.until = until if self.until is None else min(self.until, until)

    def left(self) -> float | None:
        """Return the seconds to the deadline, at least 0; None without a deadline."""
        return None if self.until is None else max(0.0, self.until - self.clock())

    def send(self, request: JSONObject, timeout: float | None) -> object:
        """Make one call; see :meth:`Transport.send`."""
        if self.repeats:  # the header in which the SDK itself counts its retries
            request = with_header(request, "x-stainless-retry-count", str(self.repeats))
        return self.transport.send(request, timeout, self.way)

    def bounds(self, request: JSONObject) -> AbstractContextManager[None]:
        """Return a context that bounds requests by the deadline and the size limits."""
        within = bounded(self.left(), self.limits.reply_bytes * ENVELOPE_FACTOR)

        is_alone = self.way.through is None and self.observer is None and passing.get() is None
        return within if is_alone else self._observed(request, within)

    @contextmanager
    def _observed(
        self, request: JSONObject, within: AbstractContextManager[None]
    ) -> Generator[None]:
        token = passing.set(None if self.way.through is None else self.transport)
        try:
            with NOTHING if self.observer is None else self.observer.asking(request), within:
                yield
        finally:
            passing.reset(token)

    def reading(self) -> AbstractContextManager[None]:
        """Return a context that bounds one read of a stream opened within :meth:`bounds`."""
        left = self.left()
        return NOTHING if left is None else bounded(left, self.limits.reply_bytes * ENVELOPE_FACTOR)

    def receive(self, source: object) -> JSON:
        """Store a response as the last one, and return it as plain JSON."""
        self.last = self.transport.read(source, self.limits)
        self.raised = None
        return self.last.plain

    def settle(self) -> None:
        """Drop the encoded request, which a caller's exchange would otherwise keep in memory."""
        if self.last is not None and self.way.form is None and not self.last.is_stream:
            came = Response.of(self.transport.door, self.last.source)
            self.last = self.last if came is None else Sent(self.last.plain, came)

    def completion(
        self, response: JSONObject, *, spliced: bool, reply: AssistantReply | None = None
    ) -> Any:
        """Return the SDK's own completion for the last response."""
        if self.last is None or self.last.is_stream:
            return self.transport.assembled(response, self.way, reply)

        return self.transport.completion(
            self.last, response, spliced=spliced, way=self.way, reply=reply
        )


class Io(NamedTuple):
    """Effect: do ``work`` (awaited by an async client) within ``bounds``.

    The event is its result or a Failure.
    """

    work: Callable[[], Any]
    bounds: AbstractContextManager[None] = NOTHING


CallEffect: TypeAlias = Io | Sleep | Check | Consult | Notify


def call_flow(
    ask: CallPlan, sending: CallIO, relay: Relay | None = None
) -> Generator[Any, Any, Outcome]:
    """Run the loop of a call, and yield each :data:`CallEffect`.

    With a relay for streams, also yield lists of chunks or events to pass on.
    """
    flow = reply_flow(ask)
    try:
        step = advanced(flow)
        while not isinstance(step, Done):
            event: Any

            match step:
                case Call():
                    event = yield from called(step, sending, relay)
                case Claim(retry_budget=retry_budget):
                    granted = sending.bucket.take(retry_budget)
                    sending.repeats += granted
                    event = Noted(sending.lap(), granted)
                case _:
                    done = yield step
                    seconds = sending.lap()
                    event = Noted(seconds) if done is None else replace(done, seconds=seconds)

                    if relay is not None and isinstance(step, Notify) and not step.attempt.accepted:
                        yield relay.rejected(step.attempt)

            step = advanced(flow, event)

        return step.result
    finally:
        flow.close()


def called(
    effect: Call, sending: CallIO, relay: Relay | None
) -> Generator[Io | list[object], object, Replied | Failed]:
    """Make one request, and return its outcome; a relay follows its stream."""
    before = sending.begin(effect.timeout)
    if relay is not None:
        relay.begin(effect.asks_for, corrects=effect.corrects)
        relay.assembly.model = effect.model

    request = sending.transport.timed(effect.request) if effect.corrects else effect.request
    send = partial(sending.send, request, sending.left())
    source = yield Io(send, sending.bounds(effect.request))
    failure = source if isinstance(source, Failure) else None

    if failure is None and relay is not None:
        if relay.wire.is_whole(source):
            yield relay.opened(source)
            relay = None  # the response is whole, for example from a client that cannot stream
        else:
            failure = yield from _followed(source, sending, relay)

    if failure is not None:
        sending.raised = failure.cause
        is_behind_text = relay is not None and relay.is_behind_text
        cut = None if relay is None else relay.assembly.came()
        return Failed(failure, sending.lap(), before, is_behind_text, cut)

    if relay is None:
        sending.receive(source)
        last = cast("Sent", sending.last)
        wire = sending.transport.wire
        return whole_reply(last, wire, sending.lap(), before, is_literate=sending.is_literate)

    assembly = relay.assembly
    response = assembly.response()
    sending.last = Sent(response, source, is_stream=True)
    sending.raised = None

    return Replied(
        response,
        sending.lap(),
        before,
        fault=assembly.fault,
        stopped_early=relay.stopped_early,
        is_behind_text=relay.is_behind_text,
        lenient=assembly.lenient,
    )


def whole_reply(
    sent: Sent, wire: Wire, seconds: float, before: float = 0.0, *, is_literate: bool
) -> Replied:
    """Return a whole response as an event of the loop."""
    rows = wire.around(sent.plain) if is_literate else ()
    return Replied(sent.plain, seconds, before, fault=sent.fault, lenient=rows)


def _followed(
    source: object, sending: CallIO, relay: Relay
) -> Generator[Io | list[object], Any, Failure | None]:
    """Read a stream as long as its relay follows it, and close it.

    Return the failure that ended it, None if there was none.
    """
    incoming = Incoming(source, sending)
    sending.incoming = incoming
    yield relay.opened(source)

    failure = yield from _fed(relay, incoming, sending)

    sending.incoming = None
    yield Io(incoming.aclose if sending.is_async else incoming.close)
    return failure


def _fed(
    relay: Relay, incoming: Incoming, sending: CallIO
) -> Generator[Io | list[object], Any, Failure | None]:
    """Feed a relay with a stream as long as it follows; return the same as :func:`_followed`.

    After the event that ends a reply, the server has a moment to send more or close the stream.
    """
    until = sending.until
    failure: Failure | None = None
    read = Io(incoming.anext if sending.is_async else incoming.next)
    is_behind = False

    while not relay.is_over:
        if relay.assembly.is_done and not is_behind:
            is_behind = True
            sending.hurry(BEHIND_END)
            incoming.hurry()

        several = yield read if sending.until is None else Io(read.work, sending.reading())
        if several is None or (is_behind and _is_silence(several, sending)):
            relay.ended()
            if incoming.fault is not None:
                relay.assembly.fault = relay.assembly.fault or incoming.fault
            break
        if isinstance(several, Failure):
            failure = several
            break

        for came in several:
            if pieces := relay.feed(came):
                # yield before the next chunk is read, because a partial answer in them would grow
                yield pieces

    sending.until = until
    return failure


def _is_silence(several: list[ChunkRead] | Failure, sending: CallIO) -> bool:
    """Return whether the time for events after the end of a reply has passed."""
    return several.kind == "timeout" if isinstance(several, Failure) else sending.left() == 0


class Incoming:
    """The stream of one response, piece by piece.

    Its pieces are the events of a raw response, or the chunks of a client's own object.
    """

    def __init__(self, source: object, sending: CallIO) -> None:
        http = source.http_response if is_raw(source) else None
        self._is_http = http is not None
        self._behind: object = source if http is None else http

        pieces: Any = source
        if http is not None:
            pieces = http.aiter_bytes() if sending.is_async else http.iter_bytes()
        self._pieces: Any = aiter(pieces) if sending.is_async else iter(pieces)

        self._limits = sending.limits
        self._wire = sending.transport.wire
        self._reader = self._wire.reader()
        self._idle_bytes = 0  # since the last event

        extensions = getattr(getattr(http, "request", None), "extensions", {})
        self._idle: float | None = dict(extensions.get("timeout") or {}).get("read")
        self._at = time.monotonic()
        self._is_ended = False

        # the body so far, until the first event
        self._begun: list[bytes] | None = []
        self._content_type = "" if http is None else content_type(http)
        self.fault: Issue | None = None

    def hurry(self) -> None:
        """Let each further read end at the deadline, even if the call had none before."""
        time_reads(self._behind)

    def next(self) -> list[ChunkRead] | None:
        """Return the next chunks that arrive together; None at the end."""
        return self._read(next(self._pieces, _END))

    async def anext(self) -> list[ChunkRead] | None:
        """Return the same as :meth:`next`."""
        return self._read(await anext(self._pieces, _END))

    def _read(self, piece: Any) -> list[ChunkRead] | None:
        if piece is _END:
            was_ended = self._is_ended
            self._is_ended = True
            if was_ended:
                return None

            if not self._is_http:
                return [ChunkRead(None, None, is_end=True)]

            last = [self._wire.read_event(one, self._limits) for one in self._reader.end()]
            return last or self._body_that_came()

        if not self._is_http:
            return [ChunkRead(as_json(piece), piece)]

        found = [self._wire.read_event(one, self._limits) for one in self._reader.feed(piece)]
        if found:
            self._begun = None
            self._idle_bytes = 0
        else:
            self._count_idle(piece)

        now = time.monotonic()
        if found or self._idle is None:
            self._at = now
        elif now - self._at > self._idle:
            # comments keep a connection busy without sending an event
            detail = "no event arrived within the client's read timeout"
            raise ExchangeStopped(Failure("timeout", retryable=True, detail=detail))

        return found

    def _count_idle(self, piece: bytes) -> None:
        """Count bytes without an event: the body may be something else, or endless."""
        if self._begun is not None:
            self._begun.append(piece)

        most = self._limits.reply_bytes * ENVELOPE_FACTOR
        self._idle_bytes += len(piece)
        if self._idle_bytes > most:
            detail = f"the stream has more than {most} bytes without an event"
        elif self._reader.idle_lines > MAX_IDLE_LINES:
            detail = f"the stream has more than {MAX_IDLE_LINES} lines without an event"
        else:
            return

        raise ExchangeStopped(Failure("response_too_large", retryable=True, detail=detail))

    def _body_that_came(self) -> list[ChunkRead]:
        """Return an error in the body instead of events; ``fault`` reports any other body."""
        if self._begun is None:
            return []

        # its blank line may be missing
        last = [self._wire.read_event(one, self._limits) for one in self._reader.last()]
        errors = [one for one in last if self._wire.error_in(one.plain)]
        body = b"".join(self._begun)
        if errors or is_events(body):
            return errors

        plain, _ = told_body(body, self._limits)
        error = self._wire.error_in(plain)
        if error:
            return [ChunkRead({"error": cast("JSON", error)}, body)]

        self.fault = not_asked("a stream of events", self._content_type, body)
        return []

    def close(self) -> None:
        """Close the response, so that a server that is still generating stops."""
        close = getattr(self._behind, "close", None)
        if callable(close):
            close()

    async def aclose(self) -> None:
        """Close the response like :meth:`close`, also when the task is cancelled meanwhile."""
        close: Any = getattr(self._behind, "aclose", None) or getattr(self._behind, "close", None)
        if close is not None:
            with anyio.CancelScope(shield=True):
                await close()
