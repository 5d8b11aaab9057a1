"""Streams of the proxy, as their servers sent them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple, cast

from strictreply.core import JSONObject

ENDED: Final = "strictreply_ended"
"""The hidden member of a chunk that LiteLLM did not make up."""

_TERMINAL: Final = frozenset({"response.completed", "response.incomplete"})
_INSIDE: Final = ("_billing_source", "inner")  # where LiteLLM's wrappers of a stream have it
_MAX_WRAPPED: Final = 8


class Chunk(NamedTuple):
    """A chunk, or an event, of LiteLLM's.

    LiteLLM writes null where the server wrote nothing; the chunk as JSON has neither.
    """

    chunk: Any

    def model_dump(self, **_: object) -> JSONObject:
        """Return the chunk as JSON."""
        dumped = self.chunk.model_dump(mode="json", by_alias=True, exclude_none=True)
        return cast("JSONObject", dumped)


class EndedStream:
    """The chunks of a stream as its server sent them, without an end that LiteLLM made up."""

    def __init__(self, response: Any, chunks: object) -> None:
        self._response = response
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[object]:
        async for chunk in self._response:
            # An end that is not passed along does not stop the reading: the proxy logs what was
            # asked for only when all was read.
            if self._is_genuine(chunk):
                yield Chunk(chunk)

    def _is_genuine(self, chunk: Any) -> bool:
        if getattr(chunk, "type", None) in _TERMINAL:
            bridged = _chat_chunks_behind(self._response)
            return bridged is None or _has_ended(bridged)

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


def _chat_chunks_behind(response: object) -> object:
    """Return the chunks of chat completions that LiteLLM makes a stream of Responses from.

    None where the server itself speaks Responses: then LiteLLM makes no end up.
    """
    for _ in range(_MAX_WRAPPED):
        made_from = getattr(response, "litellm_custom_stream_wrapper", None)
        if made_from is not None:
            return made_from.chunks

        inner = (getattr(response, name, None) for name in _INSIDE)
        response = next((one for one in inner if one is not None), None)

    return None
