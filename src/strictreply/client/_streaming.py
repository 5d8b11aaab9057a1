"""Driving a call whose replies are streamed: the same flow as for any call, with chunks passed on while it runs.

A generator yields what goes out to the caller, and its first value as soon as the first response is open, so that
what fails before raises where the call is made. What it yields is written as server-sent events into a response of the
SDK's own HTTP library, which the SDK reads as it reads any: every form in which it streams is its own object.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import aclosing, nullcontext
from functools import partial
from importlib import import_module
from typing import Any, Generic, Self, TypeVar

import anyio

from strictreply.client._posting import body_over, http_of, is_raw, is_read_by_sdk, raw_stream, with_decoder
from strictreply.client._relay import Came, Relay, StreamEvent, came_in
from strictreply.client._sending import Sending
from strictreply.client._transport import Sent
from strictreply.client._wrapped import Exchange
from strictreply.contract._driving import Done, advanced
from strictreply.retry._asking import Ask
from strictreply.retry._failures import ExchangeStopped, Failure, failure_of
from strictreply.retry._flow import Call, Effect, Event, Failed, Notify, Outcome, Replied, reply_flow
from strictreply.values._limits import JSON
from strictreply.values._replies import A_co, AssistantReply
from strictreply.wires._events import DONE, EventReader, event, typed_event
from strictreply.wires._opening import as_json
from strictreply.wires._wire import is_whole

T = TypeVar("T")


def streamed(
    ask: Ask, sending: Sending, relay: Relay, perform: Callable[[Any], Event]
) -> Generator[Any, None, Outcome]:
    """Run the flow of a call, and yield what the relay passes on; ``perform`` does all but the calls."""
    flow = reply_flow(ask)
    try:
        step = advanced(flow)
        while not isinstance(step, Done):
            if isinstance(step, Call):
                step = advanced(flow, (yield from _called(step, sending, relay)))
            else:
                happened = perform(step)
                yield from _told(step, relay)
                step = advanced(flow, happened)
        return step.result
    finally:
        flow.close()


async def astreamed(
    ask: Ask, sending: Sending, relay: Relay, perform: Callable[[Any], Awaitable[Event]], ended: list[Outcome]
) -> AsyncGenerator[Any]:
    """Run the flow like :func:`streamed`; the outcome is put into ``ended``, as async generators return nothing."""
    flow = reply_flow(ask)
    try:
        step = advanced(flow)
        while not isinstance(step, Done):
            if isinstance(step, Call):
                happened: list[Event] = []
                async for piece in _acalled(step, sending, relay, happened):
                    yield piece
                step = advanced(flow, happened[0])
            else:
                event_ = await perform(step)
                for piece in _told(step, relay):
                    yield piece
                step = advanced(flow, event_)
        ended.append(step.result)
    finally:
        flow.close()


def exhausted(pieces: Generator[Any, None, Outcome]) -> Outcome:
    """Run a call whose chunks nobody sees to its outcome."""
    while True:
        try:
            next(pieces)
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome


async def aexhausted(ask: Ask, sending: Sending, relay: Relay, perform: Callable[[Any], Awaitable[Event]]) -> Outcome:
    """Run a call whose chunks nobody sees to its outcome, like :func:`exhausted`."""
    ended: list[Outcome] = []
    async with aclosing(astreamed(ask, sending, relay, perform, ended)) as pieces:
        async for _ in pieces:
            pass
    return ended[0]


def _told(effect: Effect, relay: Relay) -> Sequence[Any]:
    return relay.rejected(effect.attempt) if isinstance(effect, Notify) and not effect.attempt.accepted else ()


def _called(effect: Call, sending: Sending, relay: Relay) -> Generator[Any, None, Replied | Failed]:
    """Send one request, and pass on what may be of its stream; the connection is closed at the end in any case."""
    before = sending.begin(effect.timeout)
    relay.begin(effect.asks_for)
    try:
        with sending.bounds(effect.request):
            source = sending.send(effect.request, sending.left())
    except Exception as error:  # noqa: BLE001 - what is no failure of the transport is raised again
        return _failed(error, relay, sending, before)
    if is_whole(source):
        yield from relay.opened(source)
        return Replied(sending.receive(source), sending.lap(), before)
    incoming = Incoming(source, sending)
    try:
        yield from relay.opened(source)
        pieces = iter(incoming.pieces())
        while not relay.is_over:
            try:
                with sending.reading():
                    several = next(pieces, None)
            except Exception as error:  # noqa: BLE001 - as above
                return _failed(error, relay, sending, before)
            if several is None:
                break
            yield from _fed(relay, several)
    finally:
        incoming.close()
    return _replied(relay, sending, source, before)


async def _acalled(effect: Call, sending: Sending, relay: Relay, happened: list[Event]) -> AsyncGenerator[Any]:
    """Send one request like :func:`_called`; what happened is put into the list."""
    before = sending.begin(effect.timeout)
    relay.begin(effect.asks_for)
    try:
        with _until(sending), sending.bounds(effect.request):
            source = await sending.send(effect.request, sending.left())
    except Exception as error:  # noqa: BLE001 - as in the twin
        happened.append(_failed(error, relay, sending, before))
        return
    if is_whole(source):
        for opened in relay.opened(source):
            yield opened
        happened.append(Replied(sending.receive(source), sending.lap(), before))
        return
    incoming = Incoming(source, sending)
    try:
        for opened in relay.opened(source):
            yield opened
        pieces = aiter(incoming.apieces())
        while not relay.is_over:
            try:
                with _until(sending), sending.reading():
                    several = await anext(pieces, None)
            except Exception as error:  # noqa: BLE001 - as in the twin
                happened.append(_failed(error, relay, sending, before))
                return
            if several is None:
                break
            for piece in _fed(relay, several):
                yield piece
    finally:
        with anyio.CancelScope(shield=True):
            await incoming.aclose()
    happened.append(_replied(relay, sending, source, before))


def _until(sending: Sending) -> Any:
    left = sending.left()
    return nullcontext() if left is None else anyio.fail_after(left)


def _fed(relay: Relay, several: list[Came]) -> Iterator[Any]:
    for came in several:
        yield from relay.feed(came)
        if relay.is_over:
            return


def _failed(error: Exception, relay: Relay, sending: Sending, before: float) -> Failed:
    sending.raised = error
    return Failed(failure_of(error), sending.lap(), before, is_behind_text=relay.is_behind_text)


def _replied(relay: Relay, sending: Sending, source: Any, before: float) -> Replied:
    response = relay.response()
    sending.last, sending.raised = Sent(response, source, is_stream=True), None
    return Replied(
        response, sending.lap(), before, fault=relay.fault, vetoed=relay.vetoed, is_behind_text=relay.is_behind_text
    )


class Incoming:
    """The stream of one response, piece by piece: events of a raw response, or the chunks of a client's own object."""

    def __init__(self, source: Any, sending: Sending) -> None:
        self._source = source
        self._http = source.http_response if is_raw(source) else None
        self._limits = sending.limits
        self._reader = EventReader()
        self._idle = _read_timeout(self._http)
        self._at = time.monotonic()

    def pieces(self) -> Iterator[list[Came]]:
        """Yield the chunks that come together."""
        if self._http is None:
            for item in self._source:
                yield [Came(as_json(item), item)]
            yield [Came(None, None, is_end=True)]
            return
        for piece in self._http.iter_bytes():
            yield self._read(piece)
        yield [came_in(one, self._limits) for one in self._reader.end()]

    async def apieces(self) -> AsyncIterator[list[Came]]:
        """Yield the chunks that come together."""
        if self._http is None:
            async for item in self._source:
                yield [Came(as_json(item), item)]
            yield [Came(None, None, is_end=True)]
            return
        async for piece in self._http.aiter_bytes():
            yield self._read(piece)
        yield [came_in(one, self._limits) for one in self._reader.end()]

    def _read(self, piece: bytes) -> list[Came]:
        found = [came_in(one, self._limits) for one in self._reader.feed(piece)]
        now = time.monotonic()
        if found or self._idle is None:
            self._at = now
        elif now - self._at > self._idle:  # comments keep a connection busy, and bring nothing
            detail = "no event came within the client's read timeout"
            raise ExchangeStopped(Failure("timeout", retryable=True, detail=detail))
        return found

    def close(self) -> None:
        """Close the response: a server that is still generating stops."""
        close = getattr(self._http if self._http is not None else self._source, "close", None)
        if callable(close):
            close()

    async def aclose(self) -> None:
        """Close the response, like :meth:`close`."""
        if self._http is not None:
            await self._http.aclose()
            return
        close: Any = getattr(self._source, "aclose", None) or getattr(self._source, "close", None)
        if close is not None:
            await close()


def _read_timeout(http: Any) -> float | None:
    extensions = getattr(getattr(http, "request", None), "extensions", {})
    return dict(extensions.get("timeout") or {}).get("read")


def as_sdks_stream(source: Any, rest: Any, sending: Sending, *, is_async: bool) -> Any:
    """Return what the SDK returns for a stream, in the form that was asked for, over the pieces in ``rest``.

    A client that is not the SDK's, or whose stream has no response, gets a plain iterator of chunks.
    """
    http = http_of(source)
    if http is None:
        return AsyncChunks(rest) if is_async else Chunks(rest)
    is_chat = sending.transport.wire.ends_with_done
    body = body_over(http, rest, partial(_bytes_of, is_chat=is_chat), DONE if is_chat else b"")
    library = import_module("openai")
    kind = library.AsyncStream if is_async else library.Stream
    if is_raw(source):
        made = raw_stream(source, body, sending.way.form, is_async=is_async)
        if type(made) is kind and is_read_by_sdk(made):
            with_decoder(made, partial(_Decoder, rest, is_chat=is_chat))
        return made
    of_event = sending.transport.sdk_type(of_event=True)
    return kind(cast_to=of_event, response=body, client=sending.transport.client)


def _bytes_of(piece: Any, *, is_chat: bool) -> bytes:
    if isinstance(piece, Came):
        piece = piece.kept
    return piece if isinstance(piece, bytes) else (event if is_chat else typed_event)(as_json(piece))


class _Read:
    """An event whose JSON is known, for the SDK's stream: it asks for no more than these."""

    __slots__ = ("_plain",)
    data = ""
    event = None

    def __init__(self, plain: JSON) -> None:
        self._plain = plain

    def json(self) -> JSON:
        return self._plain


class _Decoder:
    """Stands where the SDK's stream has its decoder: what was read from the response is not read a second time."""

    def __init__(self, pieces: Any, own: Any, *, is_chat: bool) -> None:
        self._pieces, self._own, self._is_chat = pieces, own, is_chat

    def iter_bytes(self, _: object) -> Iterator[Any]:
        for piece in self._pieces:
            yield from self._events(piece)

    async def aiter_bytes(self, _: object) -> AsyncIterator[Any]:
        async for piece in self._pieces:
            for one in self._events(piece):
                yield one

    def _events(self, piece: Any) -> Iterable[Any]:
        if isinstance(piece, Came):
            return (_Read(piece.plain),)
        events: Iterable[Any] = self._own.iter_bytes((_bytes_of(piece, is_chat=self._is_chat),))
        return events


class Chunks(Generic[T]):
    """What a guarded stream yields, and a context manager that ends the request when it is left."""

    def __init__(self, pieces: Generator[T]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[T]:
        return self._pieces

    def __next__(self) -> T:
        """Return what comes next."""
        return next(self._pieces)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the stream: the response is closed, and nothing more is generated."""
        self._pieces.close()


class AsyncChunks(Generic[T]):
    """The twin of :class:`Chunks` for async clients."""

    def __init__(self, pieces: AsyncGenerator[T]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[T]:
        return self._pieces

    async def __anext__(self) -> T:
        """Return what comes next."""
        return await anext(self._pieces)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the stream: the response is closed, and nothing more is generated."""
        await self._pieces.aclose()


class _Ending(Generic[A_co]):
    """What both twins of a typed stream hold: the exchange, once there is one."""

    _ended: list[Exchange[A_co]]

    @property
    def exchange(self) -> Exchange[A_co]:
        """The call with its story; raises RuntimeError before :class:`Accepted` was yielded."""
        if not self._ended:
            raise RuntimeError("the stream has not ended in a reply yet: iterate over it to its end")
        return self._ended[0]

    @property
    def reply(self) -> AssistantReply[A_co]:
        """The accepted reply; raises RuntimeError before :class:`Accepted` was yielded."""
        return self.exchange.reply


class ReplyStream(Chunks[StreamEvent[A_co]], _Ending[A_co]):
    """A typed stream: an iterator of events, and a context manager that ends the request when it is left.

    Iterating raises what :meth:`StrictClient.reply` raises.
    """

    def __init__(self, events: Generator[StreamEvent[A_co]], ended: list[Exchange[A_co]]) -> None:
        super().__init__(events)
        self._ended = ended


class AsyncReplyStream(AsyncChunks[StreamEvent[A_co]], _Ending[A_co]):
    """A typed stream of an async client: the twin of :class:`ReplyStream`."""

    def __init__(self, events: AsyncGenerator[StreamEvent[A_co]], ended: list[Exchange[A_co]]) -> None:
        super().__init__(events)
        self._ended = ended
