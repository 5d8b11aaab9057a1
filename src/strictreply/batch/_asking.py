"""Sending the requests of rows in one event loop, a bounded number at a time.

The bound falls when the API is overloaded, and then grows again slowly.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable, isclass
from itertools import count
from typing import Any, TypeAlias

import anyio

from strictreply import (
    AsyncStrictClient,
    Attempt,
    CallFailed,
    Contract,
    ContractError,
    RetryPolicy,
    Steering,
    wrap,
)
from strictreply.batch._results import RowResult, accepted, broken, ended, unasked
from strictreply.core import RetryBucket
from strictreply.core.calls import sdk_of_clients, usual_namespace
from strictreply.wires import Api, wire_named

_OVERLOADED = re.compile(r"\(HTTP (?:429|503|529)\)")


REFUSED_SHARE = 0.1  # share of refused requests in a window at which the bound is halved
MIN_WINDOW = 50  # requests; with fewer a share means nothing


class Gate:
    """Bounds how many rows are in flight; a gate is for one event loop.

    The bound rises additively and falls multiplicatively (as in TCP, RFC 5681 §3.1). ``limit`` is
    the present bound; it begins at ``most``. It is halved when a tenth of the last requests was
    answered with 429, 503 or 529; the window has as many requests as the bound, at least 50.
    Requests that were in flight at the last halving do not count. As many successes as the bound
    raise it by one.
    """

    __slots__ = (
        "_clock",
        "_good",
        "_halved_at",
        "_refused",
        "_waiting",
        "limit",
        "most",
        "running",
    )

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most: int = most
        self.limit: int = most
        self.running: int = 0
        self._good = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._halved_at = float("-inf")
        self._refused: deque[bool] = deque()  # of the window, the last request last
        self._clock = clock

    async def enter(self) -> None:
        """Wait in turn for a place, and take it."""
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
        """Adapt the bound to the outcome of one request."""
        is_refused = attempt.failure is not None and bool(_OVERLOADED.search(attempt.failure))
        if self._is_over(is_refused=is_refused, since=self._clock() - attempt.seconds):
            self._halved_at = self._clock()
            self._good = 0
            self._refused.clear()
            self.limit = max(1, self.limit // 2)

        if attempt.failure is None:
            self._good += 1
            if self._good >= self.limit < self.most:
                self._good = 0
                self.limit += 1
                self._admit()

    def _is_over(self, *, is_refused: bool, since: float) -> bool:
        """Add a request that began at ``since``; return whether too many of the window failed."""
        # a request from before the last halving was in flight with the ones that caused it
        if since < self._halved_at:
            return False

        self._refused.append(is_refused)
        window = max(self.limit, MIN_WINDOW)
        while len(self._refused) > window:
            self._refused.popleft()

        return is_refused and sum(self._refused) >= REFUSED_SHARE * window


# How to read a row's text or messages: the name of a column, or a function of the row.
Messages: TypeAlias = str | Callable[[Any], Any]
Source: TypeAlias = Iterable[Any] | AsyncIterable[Any]
# Called with each result, and with the present bound on rows in flight.
Take: TypeAlias = Callable[[RowResult, int], Awaitable[None] | None]


POOL_SIZE = 25  # rows in flight through one client of our own


@dataclass(frozen=True, slots=True)
class Pooled:
    """Makes clients of our own: one for every 25 rows in flight.

    For each request and each response httpcore walks through all connections of a pool, so one pool
    of 200 is several times slower than eight pools of 25.
    """

    make: Callable[[], Any]

    def __call__(self) -> object:
        """Make one client."""
        return self.make()


class ClientPool:
    """The clients in one event loop, and the gate of their rows.

    ``make`` makes a client. The first is made immediately, another when each client has 25 rows in
    flight, and at most ``most`` in all.
    """

    def __init__(
        self, gate: Gate, make: Callable[[], AsyncStrictClient[object]], most: int
    ) -> None:
        self.gate: Gate = gate
        self._make = make
        self._most = most
        self._clients = [make()]
        self._running = [0]

    @contextmanager
    def client(self) -> Generator[AsyncStrictClient[object]]:
        """Lend the client with the fewest rows in flight."""
        taken = min(range(len(self._clients)), key=self._running.__getitem__)
        if self._running[taken] >= POOL_SIZE and len(self._clients) < self._most:
            self._clients.append(self._make())
            self._running.append(0)
            taken = len(self._clients) - 1

        self._running[taken] += 1
        try:
            yield self._clients[taken]
        finally:
            self._running[taken] -= 1


def _sdk_client() -> object:
    from openai import AsyncOpenAI  # noqa: PLC0415 - only where no other client was given

    return AsyncOpenAI()


@dataclass(frozen=True, slots=True)
class Asking:
    """The settings of the requests for rows."""

    contract: Contract[Any]
    """The contract that replies are checked against."""
    keywords: Mapping[str, Any] = field(repr=False)
    """The keywords of every call."""
    messages: Messages
    """The column with a row's text or messages, or a function that returns them."""
    client: Any = field(repr=False)
    """The caller's client, or a function that makes one; None for clients of our own."""
    policy: RetryPolicy
    """The retry policy of every row."""
    steering: Steering | None
    """Writes the corrections; None for the default."""
    api: Api | str
    """The API to use."""
    concurrency: int
    """Most rows in flight at a time."""

    @asynccontextmanager
    async def pool(self, bucket: RetryBucket) -> AsyncGenerator[ClientPool]:
        """Open the clients of this event loop, and close them at the end.

        A ready client that the caller passed stays open.
        """
        source = Pooled(_sdk_client) if self.client is None else self.client
        most = math.ceil(self.concurrency / POOL_SIZE) if isinstance(source, Pooled) else 1
        gate = Gate(self.concurrency)
        made: list[Any] = []

        def make() -> AsyncStrictClient:
            client = source
            if not is_ready(source):
                client = source()
                made.append(client)

            strict = wrap(
                client,
                contract=self.contract,
                on_attempt=gate.note,
                policy=self.policy,
                steering=self.steering,
                api=self.api,
            )
            return asynchronous(strict).counting_in(bucket)

        try:
            yield ClientPool(gate, make, most)
        finally:
            with anyio.CancelScope(shield=True):
                for client in made:
                    closing = client.close()
                    if isawaitable(closing):  # that of a sync client is not
                        await closing

    async def asked_one(self, pool: ClientPool, index: int, row: object) -> RowResult:
        """Send the request of one row, and return the row's result.

        Only a cancellation of this task itself is raised.
        """
        try:
            messages = self._messages_of(index, row)
            if isinstance(messages, RowResult):
                return messages

            name = wire_named(self.api).conversation
            with pool.client() as strict:
                exchange = await strict.exchange(**{**self.keywords, name: messages})
            return accepted(index, exchange.reply, exchange.attempts)
        except CallFailed as error:
            return ended(index, error)
        except (Exception, asyncio.CancelledError) as error:
            # one row must not end a long run
            task = asyncio.current_task()
            is_cancelled = task is not None and bool(task.cancelling())
            if is_cancelled and isinstance(error, asyncio.CancelledError):
                raise

            return broken(index, error)

    def _messages_of(self, index: int, row: object) -> Any:
        """Return a row's messages, or a failed result if it has none."""
        found: Any
        refused = partial(unasked, index, "row.messages")

        if callable(self.messages):
            try:
                found = self.messages(row)
            except ContractError:
                raise  # it already says what is wrong with the row
            except Exception as error:  # noqa: BLE001 - the user's own code
                words = f"the function of messages= raised {type(error).__name__} for this row"
                return refused(words, "Call it with this row to see why.")

            where = "the function of messages= returned nothing"
        elif not isinstance(row, Mapping):
            words = f"the row is of type {type(row).__name__}, not a mapping of columns"
            return refused(words, "Make each row a mapping, or pass a function as messages=.")
        else:
            found = row.get(self.messages)
            where = f"its column {self.messages!r} is absent or empty"

        if hasattr(found, "tolist"):  # an array of numpy, or one value of it
            found = found.tolist()

        if _is_absent(found) or (isinstance(found, str | list) and not found):
            words = f"the row has no messages: {where}"
            return refused(words, "Set messages= to the column with the text or messages.")

        return found


def _is_absent(value: object) -> bool:
    """Return whether a value is None, or a data frame's missing value: NaN, NA, NaT."""
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True

    return isinstance(value, float) and math.isnan(value)


def is_ready(client: object) -> bool:
    """Return whether this is a client, and not a function or class that makes one."""
    return not isclass(client) and usual_namespace(client) is not None


def api_of(client: object) -> Api | str:
    """Return the usual API of a client or of a client class."""
    made = client.make if isinstance(client, Pooled) else client
    kind: Any = made if isclass(made) else type(made)
    sdk = sdk_of_clients(kind)
    return "chat" if sdk is None else sdk.usual_api


def asynchronous(strict: object) -> AsyncStrictClient:
    """Return a wrapped client if it is async; otherwise raise ContractError."""
    if not isinstance(strict, AsyncStrictClient):
        raise ContractError(
            "client must be async: openai.AsyncOpenAI, anthropic.AsyncAnthropic, a function that "
            "makes one, or a ready one"
        )
    return strict


async def ask_each(
    asking: Asking, pool: ClientPool, source: Source, take: Take, most: int | None = None
) -> None:
    """Send the request of each row, and call ``take`` with each result immediately.

    A row keeps its place in the gate until the awaitable of ``take`` has ended. ``most`` is the
    number of rows; None if it is unknown. An exception of the source is raised after the rows
    before it have their results. An exception of ``take`` cancels all rows.
    """
    pull = _puller(source)
    reading = asyncio.Lock()
    rows = count()

    broken_off: list[BaseException] = []
    refused: list[int] = []  # the row whose result was not taken

    async def work() -> None:
        while True:
            await pool.gate.enter()

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

                result = await asking.asked_one(pool, index, row)
                if refused:
                    return

                try:
                    taking = take(result, pool.gate.limit)
                except BaseException:
                    refused.append(index)
                    raise

                if taking is not None:
                    await taking
            finally:
                pool.gate.leave()

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


def _puller(source: Source) -> Callable[[], Awaitable[object]]:
    """Return a function that awaits the next row, and raises StopAsyncIteration at the end."""
    if isinstance(source, AsyncIterable):
        return aiter(source).__anext__

    rows = iter(source)

    async def pull() -> object:
        for row in rows:
            return row
        raise StopAsyncIteration

    return pull
