"""A run as a stream of events: the same run, told while it goes on."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeAlias

from strictreply.client._client import AsyncStrictClient, StrictClient
from strictreply.contract._tool import must_be_awaited
from strictreply.running._events import OnEvent, RunEnded, RunEvent
from strictreply.running._loop import arun, run
from strictreply.values._errors import ContractError
from strictreply.values._json import Message

Told: TypeAlias = "RunEvent | BaseException"


def run_stream(
    client: StrictClient, messages: str | Iterable[Message] | None = None, **keywords: Any
) -> Iterator[RunEvent]:
    """Run a conversation like :func:`run`, and give every event as it happens; the last is :class:`RunEnded`.

    The run goes on in a thread of its own. Closing the stream cancels it before its next step. Raises what
    :func:`run` raises, after the events before it, and ContractError for an ``on_event`` that would have to be awaited.
    """
    told: SimpleQueue[Told] = SimpleQueue()
    closed = threading.Event()
    wanted: Callable[[], bool] | None = keywords.pop("cancel", None)
    keywords |= {
        "cancel": lambda: closed.is_set() or (wanted is not None and wanted()),
        "on_event": _both(told.put, keywords.pop("on_event", None)),
    }

    def work() -> None:
        """Run, and tell the end."""
        try:
            told.put(RunEnded(run(client, messages, **keywords)))
        except BaseException as error:  # noqa: BLE001 - raised where the stream is read
            told.put(error)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    try:
        while not isinstance(event := told.get(), BaseException):
            yield event
            if isinstance(event, RunEnded):
                return
        raise event
    finally:
        closed.set()


async def arun_stream(
    client: AsyncStrictClient, messages: str | Iterable[Message] | None = None, **keywords: Any
) -> AsyncIterator[RunEvent]:
    """Run a conversation like :func:`arun`, and give every event as it happens; see :func:`run_stream`.

    Needs asyncio. Closing the stream (``aclose``, or leaving ``contextlib.aclosing``) cancels the run at once.
    """
    told: asyncio.Queue[Told] = asyncio.Queue()
    keywords["on_event"] = _both(told.put_nowait, keywords.pop("on_event", None))

    async def work() -> None:
        """Run, and tell the end."""
        try:
            told.put_nowait(RunEnded(await arun(client, messages, **keywords)))
        except BaseException as error:
            told.put_nowait(error)
            raise

    task = asyncio.create_task(work())
    try:
        while not isinstance(event := await told.get(), BaseException):
            yield event
            if isinstance(event, RunEnded):
                return
        raise event
    finally:
        task.cancel()
        with suppress(BaseException):  # raised already, or cancelled by us
            await task


def _both(one: OnEvent, other: OnEvent | None) -> OnEvent:
    """Tell two listeners; raises ContractError when the other would have to be awaited."""
    if other is None:
        return one
    if must_be_awaited(other):
        raise ContractError("on_event is a function that is not async; the stream itself gives every event")

    def tell(event: RunEvent) -> None:
        """Tell the first, then the second."""
        one(event)
        other(event)

    return tell
