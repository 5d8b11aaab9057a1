"""Asking about rows in one event loop: a bounded number at once.

The bound falls when the API asks for it, and grows again slowly.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable, isclass
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import anyio

from strictreply.batch._results import RowResult, accepted, broken, ended, unasked
from strictreply.client._client import AsyncStrictClient, wrap
from strictreply.client._sending import RetryBucket
from strictreply.contract._contract import Contract
from strictreply.retry._policy import RetryPolicy
from strictreply.retry._steering import Steering
from strictreply.values._errors import CallFailed, ContractError
from strictreply.values._replies import Attempt
from strictreply.wires import Api

_OVERLOADED = re.compile(r"\(HTTP (?:429|503|529)\)")


class Gate:
    """Bounds how many rows are under way.

    The bound rises additively and falls multiplicatively (as in TCP, RFC 5681 §3.1). ``limit`` is
    the present bound, at first the ``most``. A 429, 503 or 529 halves it, once for all requests
    that were under way together; as many successes as the bound raise it by one. A gate is for one
    event loop.
    """

    __slots__ = ("_clock", "_good", "_halved_at", "_waiting", "limit", "most", "running")

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most: int = most
        self.limit: int = most
        self.running: int = 0
        self._good = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._halved_at = float("-inf")
        self._clock = clock

    async def enter(self) -> None:
        """Take a place, waiting for one in turn."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._admit()

        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                self.leave()  # it was given the place at the same time
            raise

    def leave(self) -> None:
        """Leave a place to the next row."""
        self.running -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.running < self.limit:
            place = self._waiting.popleft()
            if not place.done():
                self.running += 1
                place.set_result(None)

    def note(self, attempt: Attempt) -> None:
        """Adapt the bound to what became of one request."""
        if attempt.failure is None:
            self._good += 1
            if self._good >= self.limit < self.most:
                self._good = 0
                self.limit += 1
                self._admit()
            return

        if not _OVERLOADED.search(attempt.failure):
            return

        # a request that began before the last halving was under way with the one that caused it
        if self._clock() - attempt.seconds >= self._halved_at:
            self._halved_at = self._clock()
            self._good = 0
            self.limit = max(1, self.limit // 2)


# Where a row has its text or messages: the name of a column, or a function of the row.
Messages: TypeAlias = str | Callable[[Any], Any]
Source: TypeAlias = Iterable[Any] | AsyncIterable[Any]
# Called with each result, and with how many rows may be under way at the moment.
Take: TypeAlias = Callable[[RowResult, int], Awaitable[None] | None]


class Session(NamedTuple):
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
        """Open a client in this event loop, and close it at the end.

        A client that was given ready stays open.
        """
        client = self.client
        gate = Gate(self.concurrency)

        if client is None:
            from openai import AsyncOpenAI  # noqa: PLC0415 - only where no other client was given

            client = AsyncOpenAI()
        elif not is_ready(client):
            client = client()

        settings: dict[str, Any] = {
            "policy": self.policy,
            "steering": self.steering,
            "api": self.api,
        }
        try:
            strict = wrap(client, contract=self.contract, on_attempt=gate.note, **settings)
            yield Session(asynchronous(strict).counting_in(bucket), gate)
        finally:
            if client is not self.client:
                with anyio.CancelScope(shield=True):
                    closing = client.close()
                    if isawaitable(closing):  # that of a sync client is not
                        await closing

    async def asked_one(self, session: Session, index: int, row: Any) -> RowResult:
        """Ask about one row.

        There is a result unless this task is cancelled, also when a task of the client was
        cancelled.
        """
        try:
            messages = self._messages_of(index, row)
            if isinstance(messages, RowResult):
                return messages

            name = "messages" if self.api == "chat" else "input"
            exchange = await session.strict.exchange(**{**self.keywords, name: messages})
            return accepted(index, exchange.reply, exchange.attempts)
        except CallFailed as error:
            return ended(index, error)
        except (Exception, asyncio.CancelledError) as error:
            # a night of work must not end at one row
            task = asyncio.current_task()
            is_cancelled = task is not None and bool(task.cancelling())
            if is_cancelled and isinstance(error, asyncio.CancelledError):
                raise

            return broken(index, error)

    def _messages_of(self, index: int, row: Any) -> Any:
        """Return a row's messages, or its result where it has none."""
        found: Any
        refused = partial(unasked, index, "row.messages")

        if callable(self.messages):
            try:
                found = self.messages(row)
            except ContractError:
                raise  # it says itself what is wrong with the row
            except Exception as error:  # noqa: BLE001 - the user's own code
                words = f"the function of messages= raised {type(error).__name__} for this row"
                return refused(words, "Call it with this row to see why.")

            where = "the function of messages= returned none"
        elif not isinstance(row, Mapping):
            words = f"the row is of type {type(row).__name__}, not a mapping of columns"
            return refused(words, "Give each row as a mapping, or messages= as a function.")
        else:
            found = row.get(self.messages)
            where = f"its column {self.messages!r} is absent or empty"

        if hasattr(found, "tolist"):  # an array of numpy, or one value of it
            found = found.tolist()

        if _is_absent(found) or (isinstance(found, str | list) and not found):
            words = f"the row has no messages: {where}"
            return refused(words, "Say with messages= where its text or messages are.")

        return found


def _is_absent(value: Any) -> bool:
    """Return whether a value is None, or what a frame has in its place: NaN, NA, NaT."""
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True

    return isinstance(value, float) and math.isnan(value)


def is_ready(client: Any) -> bool:
    """Return whether this is a ready client, and not a function or class that makes one."""
    return client is not None and not isclass(client) and hasattr(client, "chat")


def asynchronous(strict: object) -> AsyncStrictClient[Any]:
    """Return a wrapped client when it is an async one; ContractError says what to give instead."""
    if not isinstance(strict, AsyncStrictClient):
        raise ContractError(
            "client must be async: openai.AsyncOpenAI, a function that makes one, or a ready one"
        )
    return strict


async def ask_each(
    asking: Asking, session: Session, source: Source, take: Take, most: int | None = None
) -> None:
    """Ask about each row, and call ``take`` with its result at once.

    A row keeps its place until what ``take`` returns was awaited. ``most`` is how many rows there
    are, None where that is not known. An exception of the source is raised when the rows before it
    have their results; an exception of ``take`` ends all of it.
    """
    pull = _puller(source)
    reading = asyncio.Lock()
    rows = count()

    broken_off: list[BaseException] = []
    refused: list[int] = []  # the row whose result was not taken

    async def work() -> None:
        while True:
            await session.gate.enter()

            try:
                async with reading:
                    if broken_off:
                        return

                    try:
                        row = await pull()
                    except Exception as error:  # noqa: BLE001
                        # the caller's own code, raised again below
                        broken_off.append(error)
                        return

                    index = next(rows)

                result = await asking.asked_one(session, index, row)
                if refused:
                    return

                try:
                    taking = take(result, session.gate.limit)
                except BaseException:
                    refused.append(index)
                    raise

                if taking is not None:
                    await taking
            finally:
                session.gate.leave()

    number = asking.concurrency if most is None else min(most, asking.concurrency)
    tasks = [asyncio.create_task(work()) for _ in range(number)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    if broken_off and not isinstance(broken_off[0], StopAsyncIteration):
        raise broken_off[0]


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
