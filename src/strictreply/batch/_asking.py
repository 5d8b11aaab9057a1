"""Asking about rows in one event loop: a bounded number at once, each result as soon as it is there."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from inspect import isawaitable, isclass
from typing import Any, TypeAlias

import anyio

from strictreply.batch._gate import Gate
from strictreply.batch._results import RowResult, accepted, broken, ended, unasked
from strictreply.client._client import AsyncStrictClient
from strictreply.client._transport import RetryBucket
from strictreply.client._wrap import wrap
from strictreply.contract._contract import Contract
from strictreply.retry._policy import RetryPolicy
from strictreply.retry._steering import Steering
from strictreply.values._errors import CallFailed, ContractError
from strictreply.wires._wire import Api

Messages: TypeAlias = str | Callable[[Any], Any]
"""Where a row has its messages: the name of a column, or a function of the row; either gives a text or messages."""

Source: TypeAlias = Iterable[Any] | AsyncIterable[Any]


@dataclass(frozen=True, slots=True)
class Session:
    """A client in one event loop, and the gate of what is asked through it."""

    strict: AsyncStrictClient[Any]
    gate: Gate


@dataclass(frozen=True, slots=True)
class Asking:
    """How rows are asked about; ``keywords`` are those of every call."""

    contract: Contract[Any]
    keywords: Mapping[str, Any] = field(repr=False)
    messages: Messages
    client: Any = field(repr=False)
    policy: RetryPolicy
    steering: Steering | None
    api: Api
    concurrency: int

    @asynccontextmanager
    async def session(self, bucket: RetryBucket) -> AsyncGenerator[Session]:
        """Open a client in this event loop, and close it at the end; one that was given ready stays open."""
        client = self.client if is_ready(self.client) else self._made()
        gate = Gate(self.concurrency)
        settings: dict[str, Any] = {"policy": self.policy, "steering": self.steering, "api": self.api}
        try:
            strict = wrap(client, contract=self.contract, on_attempt=gate.note, **settings)
            yield Session(asynchronous(strict).counting_in(bucket), gate)
        finally:
            if client is not self.client:
                with anyio.CancelScope(shield=True):
                    closing = client.close()
                    if isawaitable(closing):  # that of a sync client is none
                        await closing

    def _made(self) -> Any:
        if self.client is not None:
            return self.client()
        from openai import AsyncOpenAI  # noqa: PLC0415 - only where no other client was given

        return AsyncOpenAI()

    async def asked_one(self, session: Session, index: int, row: Any) -> RowResult:
        """Ask about one row; whatever ``Exception`` it meets, there is a result."""
        try:
            messages = self._messages_of(index, row)
            if isinstance(messages, RowResult):
                return messages
            name = "messages" if self.api == "chat" else "input"
            exchange = await session.strict.exchange(**{**self.keywords, name: messages})
            return accepted(index, exchange.reply, exchange.attempts)
        except CallFailed as error:
            return ended(index, error)
        except Exception as error:  # noqa: BLE001 - a night of work must not end at one row
            return broken(index, error)

    def _messages_of(self, index: int, row: Any) -> Any:
        """Return a row's messages, or its result where it has none."""
        found: Any
        if callable(self.messages):
            try:
                found = self.messages(row)
            except ContractError:
                raise  # it says itself what is wrong with the row
            except Exception as error:  # noqa: BLE001 - the user's own code
                words = f"the function of messages= raised {type(error).__name__} for this row"
                return unasked(index, "row.messages", words, "Call it with this row to see why.")
            where = "the function of messages= gave none"
        elif not isinstance(row, Mapping):
            words = f"the row is of type {type(row).__name__}, which is no mapping of columns"
            return unasked(index, "row.messages", words, "Give each row as a mapping, or messages= as a function.")
        else:
            found, where = row.get(self.messages), f"its column {self.messages!r} is absent or empty"
        if hasattr(found, "tolist"):  # an array of numpy, or one value of it
            found = found.tolist()
        if found is None or (isinstance(found, str | list) and not found):
            words = f"the row has no messages: {where}"
            return unasked(index, "row.messages", words, "Say with messages= where its text or messages are.")
        return found


def is_ready(client: Any) -> bool:
    """Return whether this is a client, and not a function or class that makes one."""
    return client is not None and not isclass(client) and hasattr(client, "chat")


def asynchronous(strict: object) -> AsyncStrictClient[Any]:
    """Return a wrapped client when it is an async one; ContractError says what to give instead."""
    if not isinstance(strict, AsyncStrictClient):
        raise ContractError("client must be async: openai.AsyncOpenAI, a function that makes one, or a ready one")
    return strict


async def asked(asking: Asking, session: Session, source: Source) -> AsyncGenerator[RowResult]:
    """Yield the result of each row as soon as it is there.

    A row keeps its place until the next result is asked for: whoever writes results down has no more rows begun and not
    written than there are places. What reading the rows raises is raised after the results of the rows before it.
    """
    work = _UnderWay(asking, session)
    feeding = asyncio.create_task(work.feed(source))
    feeding.add_done_callback(work.wake)
    try:
        while work.results or work.running or not feeding.done():
            if work.results:
                yield work.results.popleft()
                work.leave()
            else:
                work.news.clear()
                await work.news.wait()
        feeding.result()
    finally:
        tasks = [feeding, *work.running]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while work.places:
            work.leave()


class _UnderWay:
    """The rows of one call that are under way, the results that nobody has taken yet, and the places of both."""

    def __init__(self, asking: Asking, session: Session) -> None:
        self._asking, self._session = asking, session
        self.running: set[asyncio.Task[None]] = set()
        self.results: deque[RowResult] = deque()
        self.news = asyncio.Event()
        self.places = 0

    async def feed(self, source: Source) -> None:
        """Begin one row after another; a row is read only when there is a place for it."""
        pull, index = _puller(source), 0
        while True:
            await self._session.gate.enter()
            self.places += 1
            try:
                row = await pull()
            except StopAsyncIteration:
                self.leave()
                return
            task = asyncio.create_task(self._ask(index, row))
            self.running.add(task)
            task.add_done_callback(self._ended)
            index += 1

    async def _ask(self, index: int, row: Any) -> None:
        self.results.append(await self._asking.asked_one(self._session, index, row))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        self.wake()

    def wake(self, _task: object = None) -> None:
        """Say that there is something new."""
        self.news.set()

    def leave(self) -> None:
        """Give the place of one row back."""
        self.places -= 1
        self._session.gate.leave()


def _puller(source: Source) -> Callable[[], Awaitable[Any]]:
    """Return what gives the next row, and raises StopAsyncIteration at the end."""
    if isinstance(source, AsyncIterable):
        return aiter(source).__anext__
    rows = iter(source)

    async def pull() -> Any:
        for row in rows:
            return row
        raise StopAsyncIteration

    return pull
