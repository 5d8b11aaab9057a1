"""What a streamed call returns: the SDK's own stream, or a typed one.

The SDK's stream reads a response into which we write the events.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, Generic, Self, TypeVar

from strictreply.client._posting import body_over, is_http, is_raw, is_sdks_own, raw_over, sdk_type
from strictreply.client._relay import StreamEvent
from strictreply.client._sending import Sending
from strictreply.client._wrapped import Exchange
from strictreply.values._limits import JSON
from strictreply.values._replies import A_co, AssistantReply
from strictreply.wires._members import as_json
from strictreply.wires._stream_chunks import ChunkRead
from strictreply.wires._wire import Wire

T = TypeVar("T")


def as_sdks_stream(source: Any, rest: Any, sending: Sending) -> Any:
    """Return what the SDK returns for a stream, over ``rest``, in the form asked for.

    Without a response of a known HTTP library, return plain chunks.
    """
    http = source.http_response if is_raw(source) else getattr(source, "response", None)
    is_async = sending.is_async

    if not is_http(http):
        return AsyncChunks(rest) if is_async else Chunks(rest)

    wire = sending.transport.wire
    body = body_over(http, rest, partial(_bytes_of, wire), wire.end_bytes)
    library = import_module("openai")
    kind = library.AsyncStream if is_async else library.Stream

    if is_raw(source):
        made = raw_over(source, body, sending.way.form, source._stream_cls)  # noqa: SLF001
        made = made.parse() if sending.way.form is None else made
    else:
        transport = sending.transport
        of_event = sdk_type(transport.wire, of_event=True)
        made = kind(cast_to=of_event, response=body, client=transport.client)

    # the SDK's own stream, of which nothing else reads the events
    if type(made) is kind:
        decoder = getattr(made, "_decoder", None)
        names = ("iter_bytes", "aiter_bytes", "decode")
        reading = [getattr(type(decoder), name, None) for name in names]
        own = (kind.__stream__, kind._iter_events, *reading)  # noqa: SLF001
        if all(map(is_sdks_own, own)):
            made._decoder = _Decoder(rest, decoder, wire)  # noqa: SLF001

    return made


def _bytes_of(wire: Wire, piece: Any) -> bytes:
    if isinstance(piece, ChunkRead):
        piece = piece.kept
    if isinstance(piece, bytes):
        return piece

    return wire.event_bytes(as_json(piece))


class _Read:
    """An event whose JSON is known, for the SDK's stream, which reads only these members."""

    __slots__ = ("_plain",)
    data = ""
    event = None

    def __init__(self, plain: JSON) -> None:
        self._plain = plain

    def json(self) -> JSON:
        return self._plain


class _Decoder:
    """Stands where the SDK's stream has its decoder.

    So what was read from the response is not read a second time.
    """

    def __init__(self, pieces: Any, own: Any, wire: Wire) -> None:
        self._pieces = pieces
        self._own = own
        self._wire = wire

    def iter_bytes(self, _: object) -> Iterator[Any]:
        for piece in self._pieces:
            yield from self._events(piece)

    async def aiter_bytes(self, _: object) -> AsyncIterator[Any]:
        async for piece in self._pieces:
            for one in self._events(piece):
                yield one

    def _events(self, piece: Any) -> Iterable[Any]:
        if isinstance(piece, ChunkRead):
            return (_Read(piece.plain),)
        if isinstance(piece, dict):
            return (_Read(piece),)

        events: Iterable[Any] = self._own.iter_bytes((_bytes_of(self._wire, piece),))
        return events


class _Ending(Generic[A_co]):
    _ended: list[Exchange[A_co]]

    @property
    def exchange(self) -> Exchange[A_co]:
        """The call with its story; raises RuntimeError before :class:`Accepted` was yielded."""
        if not self._ended:
            raise RuntimeError(
                "the stream has not ended in a reply yet: iterate over it to its end"
            )

        return self._ended[0]

    @property
    def reply(self) -> AssistantReply[A_co]:
        """The accepted reply; raises RuntimeError before :class:`Accepted` was yielded."""
        return self.exchange.reply


class Chunks(Generic[T]):
    """What a guarded stream yields, and a context manager that ends the request when it is left."""

    def __init__(self, pieces: Generator[T], ended: list[Exchange[Any]] | None = None) -> None:
        self._pieces = pieces
        self._ended = [] if ended is None else ended

    def __iter__(self) -> Iterator[T]:
        return self._pieces

    def __next__(self) -> T:
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

    def __init__(self, pieces: AsyncGenerator[T], ended: list[Exchange[Any]] | None = None) -> None:
        self._pieces = pieces
        self._ended = [] if ended is None else ended

    def __aiter__(self) -> AsyncIterator[T]:
        return self._pieces

    async def __anext__(self) -> T:
        return await anext(self._pieces)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the stream: the response is closed, and nothing more is generated."""
        await self._pieces.aclose()


class ReplyStream(Chunks[StreamEvent[A_co]], _Ending[A_co]):
    """A typed stream: an iterator of events, and a context manager that ends the request on exit.

    Iterating raises what :meth:`StrictClient.reply` raises.
    """


class AsyncReplyStream(AsyncChunks[StreamEvent[A_co]], _Ending[A_co]):
    """A typed stream of an async client: the twin of :class:`ReplyStream`."""
