"""Streams of the proxy, as their servers sent them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, cast

from strictreply.core import JSON, EventReader, JSONObject

ENDED: Final = "strictreply_ended"
"""A hidden member that marks a chunk of the server's, which LiteLLM did not invent."""

_TERMINAL: Final = frozenset({"response.completed", "response.incomplete"})
_UNFINISHED: Final = frozenset({None, "in_progress", "queued"})
_ENDING: Final = frozenset({"message_delta", "message_stop"})
_INSIDE: Final = ("_billing_source", "inner")  # where LiteLLM's wrappers of a stream have it
_MAX_WRAPPED: Final = 8


class Chunk(NamedTuple):
    """A chunk, or an event, of LiteLLM.

    LiteLLM writes null for a missing member; the chunk as JSON leaves it out.
    """

    chunk: Any

    def model_dump(self, **_: object) -> JSONObject:
        """Return the chunk as JSON."""
        dumped = self.chunk.model_dump(mode="json", by_alias=True, exclude_none=True)
        return cast("JSONObject", dumped)


class EndedStream:
    """The chunks of a stream as its server sent them, without an end that LiteLLM invented."""

    def __init__(self, response: Any, chunks: object) -> None:
        self._response = response
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[object]:
        async for chunk in self.pieces():
            # Reading continues after an end that is not passed on: the proxy logs the call only
            # when everything was read.
            for genuine in self.genuine(chunk):
                yield genuine

    async def pieces(self) -> AsyncGenerator[object]:
        """Yield the chunks as LiteLLM has them, with an end that it invented."""
        async for chunk in self._response:
            yield chunk

    def genuine(self, chunk: object) -> list[object]:
        """Return a chunk in a list; the list is empty for an end that LiteLLM invented."""
        return [Chunk(chunk)] if self._is_genuine(chunk) else []

    def _is_genuine(self, chunk: Any) -> bool:
        if getattr(chunk, "type", None) in _TERMINAL:
            # a callback before the guard hides the chunks that LiteLLM has made since
            made_from = chunks_behind(self._response)
            made_from = self._chunks if made_from is None else made_from
            return made_from is None or _has_ended(made_from)

        if _finish_reason(chunk) is None or ENDED in chunk._hidden_params:
            return True

        return _has_ended(self._chunks)

    async def aclose(self) -> None:
        """Close the stream, so that a server that is still generating stops."""
        if hasattr(self._response, "aclose"):
            await self._response.aclose()


def _has_ended(chunks: Any) -> bool:
    return any(_finish_reason(one) is not None for one in reversed(chunks or ()))


def _finish_reason(chunk: Any) -> object:
    return chunk.choices[0].finish_reason if getattr(chunk, "choices", None) else None


def chunks_behind(response: object) -> object:
    """Return the chunks of chat completions that LiteLLM has read, or made its stream from.

    None if the server itself uses another API: then LiteLLM never invents an end.
    """
    read = getattr(response, "chunks", None)
    if read is not None:
        return read

    for _ in range(_MAX_WRAPPED):
        made_from = getattr(response, "litellm_custom_stream_wrapper", None)
        if made_from is not None:
            return made_from.chunks

        inner = (getattr(response, name, None) for name in _INSIDE)
        response = next((one for one in inner if one is not None), None)

    return None


class KeptStream:
    """A stream that is passed on unchanged, and read again when it is over."""

    def __init__(self, stream: EndedStream | MessageEvents) -> None:
        self._stream = stream
        self._kept: list[object] = []
        self._fault: Exception | None = None
        self._error: Exception | None = None

    async def passed_on(self) -> AsyncGenerator[object]:
        """Yield the pieces of the stream as they arrive; the server's own pieces are stored."""
        async with aclosing(self._stream.pieces()) as pieces:
            try:
                async for piece in pieces:
                    self._keep(piece)
                    yield piece
            except Exception as error:
                self._error = error
                raise

    def _keep(self, piece: object) -> None:
        try:
            self._kept += self._stream.genuine(piece)
        except Exception as error:  # noqa: BLE001 - a piece of any kind is passed on
            self._fault = error

    def again(self) -> AsyncIterable[object]:
        """Return the stream as its server sent it; raise the error of an unreadable piece."""
        if self._fault is not None:
            raise self._fault

        return self._repeated()

    async def _repeated(self) -> AsyncGenerator[object]:
        for piece in self._kept:
            yield piece

        if self._error is not None:
            raise self._error


class Origin:
    """The API that LiteLLM uses for one reply, and whether the server has ended the reply.

    A message may be made from a response, and a response from chat completions: the last call
    counts.
    """

    def __init__(self) -> None:
        self._call_type = ""
        self._has_ended = False

    @property
    def is_ended(self) -> bool:
        """Whether an end of the message would be the server's own."""
        return self._has_ended or self._call_type not in _ENDS

    def note_call(self, call_type: object) -> None:
        """Store the call type that LiteLLM reports for the next call."""
        self._call_type = str(getattr(call_type, "value", call_type))
        self._has_ended = False

    def note_piece(self, piece: object) -> None:
        """Record a chunk or an event that the server sent."""
        says_end = _ENDS.get(self._call_type)
        if says_end is not None:
            self._has_ended |= says_end(piece)


def _chunk_ends(piece: object) -> bool:
    return _finish_reason(piece) is not None


def _event_ends(piece: Any) -> bool:
    is_last = getattr(piece, "type", None) in _TERMINAL
    return is_last and piece.response.status not in _UNFINISHED


_ENDS: Final[Mapping[str, Callable[[object], bool]]] = {
    "acompletion": _chunk_ends,
    "aresponses": _event_ends,
}
"""How to recognise the end of a stream that a message is made from, by LiteLLM's call type."""

origin_now: ContextVar[Origin | None] = ContextVar("strictreply_origin_now", default=None)
"""The origin of the reply that LiteLLM requests or reads."""


class MessageEvents:
    """The events of a streamed message as its server sent them, without an invented end.

    LiteLLM passes on the bytes of a server that uses the Messages API. For any other server it
    makes the events, and ends them even if the server's stream was cut off.
    """

    def __init__(self, response: Any, origin: Origin) -> None:
        self._response = response
        self._origin = origin
        self._reader = EventReader()

    async def __aiter__(self) -> AsyncIterator[object]:
        async for piece in self.pieces():
            for event in self.genuine(piece):
                yield event

    async def pieces(self) -> AsyncGenerator[object]:
        """Yield the pieces of the stream as LiteLLM has them, with an end that it invented."""
        pieces = aiter(self._response)
        while True:
            before = origin_now.set(self._origin)
            try:
                piece = await anext(pieces)
            except StopAsyncIteration:
                return
            finally:
                origin_now.reset(before)

            yield piece

    def genuine(self, piece: object) -> list[object]:
        """Return the events in a piece, without those of an end that LiteLLM invented."""
        return [event for event in self._events_in(piece) if self._is_genuine(event)]

    def _events_in(self, piece: Any) -> list[JSON]:
        if isinstance(piece, dict):
            return [piece]

        written = piece.encode() if isinstance(piece, str) else piece
        return [_value_of(event.data) for event in self._reader.feed(written)]

    def _is_genuine(self, event: JSON) -> bool:
        kind = event.get("type") if isinstance(event, dict) else None
        return kind not in _ENDING or self._origin.is_ended

    async def aclose(self) -> None:
        """Close the stream, so that a server that is still generating stops."""
        if hasattr(self._response, "aclose"):
            await self._response.aclose()


def _value_of(data: bytes) -> JSON:
    """Return the data of an event; data that are not JSON are a text, which is not an event."""
    try:
        value: JSON = json.loads(data)
    except ValueError:
        return data.decode(errors="replace")

    return value


def event_bytes(event: JSONObject) -> bytes:
    """Write an event of a streamed message."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
