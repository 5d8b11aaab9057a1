"""The typed stream: what a reply says while it comes, and the one reply that was accepted.

Everything before the end is provisional: it is taken back when the reply does not fit, and the next one begins anew.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias

from strictreply.client._relay import Came, Relay
from strictreply.reading._incremental import Partial
from strictreply.retry._flow import AsksFor
from strictreply.values._attempts import Attempt
from strictreply.values._issues import Issue
from strictreply.values._replies import A_co, AssistantReply
from strictreply.wires._wire import Assembly

if TYPE_CHECKING:
    from strictreply.client._wrapped import Exchange


@dataclass(frozen=True, slots=True)
class Provisional(Generic[A_co]):
    """More of a text that is still coming.

    ``delta`` is the new piece of the content; ``partial`` a structured answer as far as it has come, None for any
    other content.
    """

    delta: str
    partial: Partial[A_co] | None = None


@dataclass(frozen=True, slots=True)
class Retracted:
    """What was shown since the last event of this kind is not part of the reply.

    ``issues`` says what was wrong with it; empty when the stream failed on the way.
    """

    issues: tuple[Issue, ...]


@dataclass(frozen=True, slots=True)
class Accepted(Generic[A_co]):
    """The end of a stream: the reply, valid by the contract."""

    reply: AssistantReply[A_co]


StreamEvent: TypeAlias = Provisional[A_co] | Retracted | Accepted[A_co]
"""What a typed stream yields: any number of the first two, then one :class:`Accepted`."""


class EventRelay(Relay):
    """Shows each piece of the content as it comes, and takes back what did not fit."""

    def begin(self, asks_for: AsksFor) -> None:
        """Begin with the stream of one ask; what is asked for to be put into a message is not shown."""
        super().begin(asks_for)
        self._is_shown = asks_for == "reply"
        self._has_shown = False

    def opened(self, source: object) -> list[object]:  # noqa: ARG002 - nobody asked for the SDK's own object
        """Return nothing: there is no response to give out."""
        return []

    def passed(self, came: Came, assembly: Assembly) -> list[Provisional[Any]]:  # noqa: ARG002
        """Return the new piece of the content."""
        text = assembly.delta.get("content")
        if not self._is_shown or not isinstance(text, str) or not text:
            return []
        self._has_shown = True
        return [Provisional(text, self.veto.partial())]

    def rejected(self, attempt: Attempt) -> list[Retracted]:
        """Return that what was shown is taken back."""
        shown, self._has_shown = self._has_shown, False
        return [Retracted(attempt.issues)] if shown else []


class _Ending(Generic[A_co]):
    """What both twins hold: the exchange, once there is one."""

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


class ReplyStream(_Ending[A_co]):
    """A typed stream: an iterator of events, and a context manager that ends the request when it is left.

    Iterating raises what :meth:`StrictClient.reply` raises.
    """

    def __init__(self, events: Generator[StreamEvent[A_co]], ended: list[Exchange[A_co]]) -> None:
        self._events = events
        self._ended = ended

    def __iter__(self) -> Iterator[StreamEvent[A_co]]:
        return self._events

    def __next__(self) -> StreamEvent[A_co]:
        """Return the next event."""
        return next(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the stream: the response is closed, and nothing more is generated."""
        self._events.close()


class AsyncReplyStream(_Ending[A_co]):
    """A typed stream of an async client: the twin of :class:`ReplyStream`."""

    def __init__(self, events: AsyncGenerator[StreamEvent[A_co]], ended: list[Exchange[A_co]]) -> None:
        self._events = events
        self._ended = ended

    def __aiter__(self) -> AsyncIterator[StreamEvent[A_co]]:
        return self._events

    async def __anext__(self) -> StreamEvent[A_co]:
        """Return the next event."""
        return await anext(self._events)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the stream: the response is closed, and nothing more is generated."""
        await self._events.aclose()
