"""The span of the SDK's own for a stream that we read: it is told of the events, as if the SDK did.

The SDK ends such a span with the body, and puts there what its own stream has read. We read the
bytes, so the events are made of them once more on their way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import jiter

from strictreply.sdks._bodies import OuterBody, body_class
from strictreply.sdks._shapes import HttpResponse
from strictreply.wires._wire import StreamReader


def tell_span(
    response: HttpResponse, reader: StreamReader, event_of: Callable[[object], object]
) -> None:
    """Tell the span of a stream of its events, if it has one.

    ``event_of`` makes the SDK's own object of an event's JSON.
    """
    observer = getattr(response.stream, "stream_observer", None)
    if observer is None:
        return

    kind: Any = type(response.stream)
    response.stream = body_class(_TellingBody, kind)(response.stream, observer, reader, event_of)


class _TellingBody(OuterBody):
    """A body, sync or async as the one behind it, that tells an observer of the events in it."""

    def __init__(
        self,
        behind: object,
        observer: object,
        reader: StreamReader,
        event_of: Callable[[object], object],
    ) -> None:
        super().__init__(behind)
        self._observer: Any = observer
        self._reader = reader
        self._event_of = event_of

    def __iter__(self) -> Iterator[bytes]:
        self._observer.begin()
        for piece in self._behind:
            self._tell(piece)
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._observer.begin()
        async for piece in self._behind:
            self._tell(piece)
            yield piece

    def _tell(self, piece: bytes) -> None:
        for event in self._reader.feed(piece):
            # the span ignores anything that is not an event of the SDK
            with suppress(Exception):
                self._observer.item(self._event_of(jiter.from_json(event.data)))
