"""The streams that are not the SDK's own: chunks, or typed events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Any, Generic, Self, TypeVar

from strictreply.client._relay import StreamEvent
from strictreply.client._wrapped import Exchange
from strictreply.values._replies import A_co, AssistantReply

T = TypeVar("T")


class _Ending(Generic[A_co]):
    _ended: list[Exchange[A_co]]

    @property
    def exchange(self) -> Exchange[A_co]:
        """The reply with its attempts and usage; RuntimeError before :class:`Accepted` arrived."""
        if not self._ended:
            raise RuntimeError("the stream has no reply yet: iterate over it to its end first")

        return self._ended[0]

    @property
    def reply(self) -> AssistantReply[A_co]:
        """The accepted reply; RuntimeError before :class:`Accepted` arrived."""
        return self.exchange.reply


class Chunks(Generic[T]):
    """An iterator of chunks, and a context manager that ends the request on exit."""

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
        """Close the response, so that the server stops generating."""
        self._pieces.close()


class AsyncChunks(Generic[T]):
    """:class:`Chunks` for async clients."""

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
        """Close the response, so that the server stops generating."""
        await self._pieces.aclose()


class ReplyStream(Chunks[StreamEvent[A_co]], _Ending[A_co]):
    """A typed stream: an iterator of events, and a context manager that ends the request on exit.

    Iteration raises the errors of :meth:`StrictClient.reply`.
    """


class AsyncReplyStream(AsyncChunks[StreamEvent[A_co]], _Ending[A_co]):
    """A typed stream of an async client: an async :class:`ReplyStream`."""
