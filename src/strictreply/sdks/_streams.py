"""The SDK's own stream over a guarded one: it reads a response with the guarded events in it."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from functools import partial
from typing import Any

from strictreply.sdks._known import is_sdks_own, sdk_for
from strictreply.sdks._posting import body_over, is_http, is_raw, object_in_raw, raw_over
from strictreply.sdks._transport import CallForm, Transport
from strictreply.values._limits import JSON
from strictreply.wires._members import as_json, peek
from strictreply.wires._stream_chunks import ChunkRead
from strictreply.wires._wire import Wire


def as_sdks_stream(
    source: object, rest: object, transport: Transport, way: CallForm, *, is_async: bool
) -> object:
    """Return what the SDK returns for a stream, over ``rest``, in the requested form.

    None if there is no response of a known HTTP library.
    """
    raw: Any = source
    came: Any = rest
    http = source.http_response if is_raw(source) else getattr(source, "response", None)
    if not is_http(http):
        return None

    wire = transport.wire
    sdk = sdk_for(transport.client)
    if not sdk.is_stainless:
        pieces = _bytes_later(wire, came) if is_async else _bytes_over(wire, came)
        return None if sdk.stream_over is None else sdk.stream_over(source, pieces)

    body = body_over(http, rest, partial(_bytes_of, wire), wire.end_bytes)
    kind = sdk.named("", "AsyncStream" if is_async else "Stream")

    if is_raw(source):
        made = raw_over(raw, body, way.form, raw._stream_cls)
        made = object_in_raw(made) if way.form is None else made
    else:
        of_event = sdk.event_type(transport.door)
        made = kind(cast_to=of_event, response=body, client=transport.client)

    # the SDK's own stream, whose events only the caller reads
    if type(made) is kind:
        decoder = getattr(made, "_decoder", None)
        names = ("iter_bytes", "aiter_bytes", "decode")
        reading = [getattr(type(decoder), name, None) for name in names]
        own = (kind.__stream__, kind._iter_events, *reading)
        if all(map(is_sdks_own, own)):
            made._decoder = _Decoder(rest, decoder, wire)

    return made


def _bytes_over(wire: Wire, pieces: Iterable[object]) -> Iterator[bytes]:
    for piece in pieces:
        yield _bytes_of(wire, piece)

    yield wire.end_bytes


async def _bytes_later(wire: Wire, pieces: AsyncIterable[object]) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield _bytes_of(wire, piece)

    yield wire.end_bytes


def _bytes_of(wire: Wire, piece: object) -> bytes:
    if isinstance(piece, ChunkRead):
        piece = piece.kept
    if isinstance(piece, bytes):
        return piece

    return wire.event_bytes(as_json(piece))


class _Read:
    """An event with parsed JSON, for the SDK's stream, which reads only these members."""

    __slots__ = ("_plain",)
    data = "{}"  # not empty

    def __init__(self, plain: JSON) -> None:
        self._plain = plain

    @property
    def event(self) -> str | None:
        """The name of the event, as in its JSON."""
        name = peek(self._plain, "type")
        return name if isinstance(name, str) else None

    def json(self) -> JSON:
        return self._plain


class _Decoder:
    """Replaces the decoder of the SDK's stream.

    So the events that were read from the response are not parsed twice.
    """

    def __init__(self, pieces: object, own: object, wire: Wire) -> None:
        self._pieces: Any = pieces
        self._own: Any = own
        self._wire = wire

    def iter_bytes(self, _: object) -> Iterator[object]:
        for piece in self._pieces:
            yield from self._events(piece)

    async def aiter_bytes(self, _: object) -> AsyncIterator[object]:
        async for piece in self._pieces:
            for one in self._events(piece):
                yield one

    def _events(self, piece: object) -> Iterable[object]:
        if isinstance(piece, ChunkRead):
            return (_Read(piece.plain),)
        if isinstance(piece, dict):
            return (_Read(piece),)

        events: Iterable[Any] = self._own.iter_bytes((_bytes_of(self._wire, piece),))
        return events
