"""What a streamed call returns where it is not the SDK's own stream: chunks, or typed events."""

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
