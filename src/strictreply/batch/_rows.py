"""The row function: it sends a request for each row of a batch, and returns every row's result."""

from __future__ import annotations

import asyncio
import json
import os
import weakref
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Lock, Thread, get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, Unpack, cast, get_args, overload

from anyio import CancelScope
from anyio.from_thread import start_blocking_portal

from strictreply import Contract, ContractError, RetryPolicy, Steering, wrap
from strictreply.batch._asking import (
    Asking,
    ClientPool,
    Messages,
    Source,
    Take,
    api_of,
    ask_each,
    asynchronous,
    is_ready,
)
from strictreply.batch._results import (
    AS_TEXT,
    COLUMNS,
    INDEX,
    RowResult,
    prefixed,
    strict_json,
    written_whole,
)
from strictreply.core import ApiKeywords, JSONObject, RetryBucket, shape
from strictreply.core.arguments import how_to_install, must_be, must_have
from strictreply.core.calls import OUR_NAMES
from strictreply.wires import Api, wire_named

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI


def rows_of(batch: Any, prefix: str) -> Sequence[object]:
    """Return the rows of a batch.

    Raises ContractError when it already has a result column, TypeError when it is not a batch.
    """
    ours = {prefix + column for column in COLUMNS}
    if taken := [name for name in _names_in(batch) if name in ours]:
        words = f"the batch already has a column {taken[0]!r}, which is the name of a result column"
        raise ContractError(
            f"{words}: rename it, or rename the result columns, as in rows(…, prefix='out_')"
        )

    if isinstance(batch, list):
        return batch
    if not isinstance(batch, Mapping):
        return list(batch.to_pylist() if _is_arrow(batch) else batch.to_dict("records"))

    columns: Mapping[str, Any] = batch
    if len({len(column) for column in columns.values()}) > 1:
        raise ContractError(
            "the columns of the batch differ in length: each needs one value per row"
        )

    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, values, strict=True)) for values in rows]


def _names_in(batch: Any) -> Iterable[object]:
    if isinstance(batch, list):
        return sorted({str(name) for row in batch if isinstance(row, Mapping) for name in row})
    if isinstance(batch, Mapping):
        return batch
    if _is_arrow(batch):
        return cast("Iterable[Any]", batch.column_names)
    if hasattr(batch, "to_dict") and hasattr(batch, "assign"):
        return cast("Iterable[Any]", batch.columns)

    words = (
        "a batch is a list of mappings, a mapping of columns, a pyarrow.Table or a pandas.DataFrame"
    )
    raise TypeError(f"{words}, not {type(batch).__name__}; pass an iterator of rows to stream()")


def _is_arrow(batch: object) -> bool:
    # check both, because a DataFrame's column is an attribute, too, and may have either name
    return hasattr(batch, "to_pylist") and hasattr(batch, "append_column")


def with_results(batch: Any, results: Sequence[RowResult], prefix: str) -> object:
    """Return a batch of the same kind with the result columns.

    In a batch of columns, the result columns whose form differs from row to row are JSON text.
    """
    if isinstance(batch, list):
        rows = []
        for row, result in zip(batch, results, strict=True):
            given = row if isinstance(row, Mapping) else {}
            rows.append({**given, **prefixed(result, prefix)})
        return rows

    found = [result.columns for result in results]
    columns = {}
    for name in COLUMNS:
        is_text = name in AS_TEXT
        columns[prefix + name] = [_cell(row[name], is_text=is_text) for row in found]

    if isinstance(batch, Mapping):
        return {**batch, **columns}

    if _is_arrow(batch):
        for name, kind in arrow_types().items():
            batch = batch.append_column(prefix + name, arrow().array(columns[prefix + name], kind))
        return batch

    # dtype object keeps None, which a column of texts would turn into NaN
    series = import_module("pandas").Series
    for name in AS_TEXT:
        columns[prefix + name] = series(columns[prefix + name], index=batch.index, dtype=object)

    return batch.assign(**columns)


def _cell(value: object, *, is_text: bool) -> object:
    return strict_json(value) if is_text and value is not None else value


def arrow(module: str = "pyarrow") -> ModuleType:
    """Import pyarrow, or a module of it; ImportError says how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ImportError(f"parquet needs pyarrow: {how_to_install('batch')}") from error


def arrow_types() -> dict[str, object]:
    """Return the type of each result column in Arrow."""
    text = arrow().string()
    number = arrow().int64()
    counts = [(name, number) for name in OUR_NAMES.counts]
    usage = arrow().struct([*counts, ("is_estimate", arrow().bool_())])
    return {"reply": text, "status": text, "issues": text, "attempts": number, "usage": usage}


_EXACT = 2**53  # a double can represent every integer up to this
_TEXT = "json"

# The kind of a column, by the kinds of its values; all other columns are text.
_COMMON = {"str": {"str"}, "bool": {"bool"}, "int": {"int", "long"}, "float": {"int", "float"}}


def write_parquet(lines: Path, target: Path, prefix: str) -> None:
    """Write a file of results as parquet, whole or not at all.

    A column of mixed values is JSON text.
    """
    pa = arrow()
    parquet = arrow("pyarrow.parquet")

    ours = {prefix + INDEX: pa.int64()}
    for name, kind in arrow_types().items():
        ours[prefix + name] = kind

    known = {
        "bool": pa.bool_(),
        "int": pa.int64(),
        "float": pa.float64(),
        "str": pa.string(),
        _TEXT: pa.string(),
    }
    kinds = {name: kind for name, kind in _kinds(lines).items() if name not in ours}
    types = {name: known[kind] for name, kind in kinds.items()} | ours
    schema = pa.schema({_spelled(name): kind for name, kind in types.items()})

    texts = {name for name, kind in kinds.items() if kind == _TEXT}
    texts |= {f"{prefix}reply", f"{prefix}issues"}

    with written_whole(target) as file, parquet.ParquetWriter(file, schema) as writer:
        for rows in _groups(lines):
            columns = {}
            for name in types:
                is_text = name in texts
                columns[_spelled(name)] = [_cell(row.get(name), is_text=is_text) for row in rows]
            writer.write_table(pa.table(columns, schema=schema))


def _kinds(lines: Path) -> dict[str, str]:
    """Find the kind of each column of the rows, in the order in which the columns first occur."""
    found: dict[str, set[str]] = {}
    for rows in _groups(lines):
        for row in rows:
            for name, value in row.items():
                found.setdefault(name, set()).add(_kind(value))

    return {name: _common(kinds - {"NoneType"}) for name, kinds in found.items()}


def _common(kinds: set[str]) -> str:
    for kind, among in _COMMON.items():
        if kinds <= among:
            return kind
    return _TEXT


def _kind(value: Any) -> str:
    kind = type(value).__name__
    if kind == "int" and abs(value) > _EXACT:
        return "long" if -(2**63) <= value < 2**63 else _TEXT
    if kind in {"dict", "list"} or (kind == "str" and value != _spelled(value)):
        return _TEXT

    return kind


def _spelled(text: str) -> str:
    # a text of Arrow cannot have a lone surrogate
    return text.encode(errors="backslashreplace").decode()


def _groups(lines: Path) -> Iterator[Sequence[JSONObject]]:
    with lines.open("rb") as file:
        while lines_read := file.readlines(8_000_000):  # bytes in memory at a time
            yield [json.loads(line) for line in lines_read]


B = TypeVar("B")
R = TypeVar("R")
Job: TypeAlias = Callable[[ClientPool], Coroutine[Any, Any, R]]


class Process:
    """Shared by the calls of one process: a retry budget, and a thread with an event loop.

    Unpickling makes a new one.
    """

    def __init__(self) -> None:
        self.bucket = RetryBucket()
        self._lock = Lock()
        self._line: _Line | None = None
        self._ending: Callable[[], object] | None = None

    def __reduce__(self) -> tuple[type[Process], tuple[()]]:
        return Process, ()

    def run(self, asking: Asking, job: Job[R]) -> R:
        """Run a job in the event loop; if the wait is interrupted, cancel the job first."""
        line = self._opened(asking)
        doing = _Doing(job)
        try:
            return line.portal.start_task_soon(line.do, doing).result()
        except BaseException:
            line.portal.start_task_soon(doing.cancel)
            wait([doing.ended])
            raise

    async def arun(self, asking: Asking, job: Job[R]) -> R:
        """Run a job like :meth:`run`, awaiting it in the caller's event loop."""
        line = self._opened(asking)
        doing = _Doing(job)
        try:
            return await asyncio.wrap_future(line.portal.start_task_soon(line.do, doing))
        except asyncio.CancelledError:
            line.portal.start_task_soon(doing.cancel)
            await asyncio.shield(asyncio.wrap_future(doing.ended))
            raise

    def close(self) -> None:
        """Close the client and end the thread."""
        with self._lock:
            ending = self._ending
            self._line = None
            self._ending = None
        if ending is not None:
            ending()

    def _opened(self, asking: Asking) -> _Line:
        with self._lock:
            # after a fork only the forking thread exists
            if self._line is None or self._line.pid != os.getpid():
                self._line = _Line(asking, self.bucket)
                self._ending = weakref.finalize(self, self._line.close)
            return self._line


class _Doing(Generic[R]):
    """A job that may be cancelled before it begins, for example by Ctrl-C.

    ``ended`` is done when the job no longer runs.
    """

    def __init__(self, job: Job[R]) -> None:
        self._job = job
        self._scope: CancelScope | None = None
        self.ended: Future[None] = Future()

    async def done(self, pool: ClientPool) -> R:
        """Run the job; raise CancelledError if it was cancelled."""
        try:
            with CancelScope() as self._scope:
                return await self._job(pool)
            raise asyncio.CancelledError
        finally:
            self.ended.set_result(None)

    async def cancel(self) -> None:
        """Cancel the job; a job that has not begun is then ended."""
        if self._scope is not None:
            self._scope.cancel()
        elif not self.ended.done():
            self.ended.set_result(None)


class _Line:
    """A thread with an event loop, and the client pool that its first job opens."""

    def __init__(self, asking: Asking, bucket: RetryBucket) -> None:
        self.pid = os.getpid()
        self._asking = asking
        self._bucket = bucket
        self._thread = start_blocking_portal("asyncio", name="strictreply-batch")
        self.portal = self._thread.__enter__()
        self._ident = self.portal.call(get_ident)
        self._opening: AbstractAsyncContextManager[ClientPool] | None = None
        self._pool: ClientPool | None = None

    async def do(self, doing: _Doing[R]) -> R:
        if self._pool is None:
            opening = self._asking.pool(self._bucket)
            self._pool = await opening.__aenter__()
            self._opening = opening
        return await doing.done(self._pool)

    def close(self) -> None:
        """Close the pool and end the thread; do nothing in a forked process, which has neither."""
        if self.pid != os.getpid():
            return

        # garbage collection may call this in the event loop's own thread
        if get_ident() == self._ident:
            Thread(target=self._end).start()
        else:
            self._end()

    def _end(self) -> None:
        if self._opening is not None:
            self.portal.call(self._opening.__aexit__, None, None, None)
        self._thread.__exit__(None, None, None)


DEFAULT_POLICY = RetryPolicy(transport_retries=6, retry_budget=None)
"""The default policy of rows, which lets a batch wait for a busy API.

It has no retry budget, because a slow phase of the API would exhaust the budget, and the rows after
it would fail immediately. The number of rows in flight bounds the load instead.
"""


@dataclass(frozen=True, eq=False)
class Rows:
    """The row function that :func:`rows` returns.

    Call it with a batch, await :meth:`acall`, or iterate over :meth:`stream`. It may be called from
    any thread, and it may be pickled. The calls of one process share a thread with an event loop,
    the clients, the bound and the retry budget. The first call makes a client. It is closed by
    :meth:`close`, when this object is garbage-collected, and when the program ends.
    """

    _asking: Asking
    _prefix: str
    _process: Process = field(default_factory=Process, repr=False)

    @overload
    def __call__(self, batch: list[Any]) -> list[JSONObject]: ...
    @overload
    def __call__(self, batch: Mapping[str, object]) -> JSONObject: ...
    @overload
    def __call__(self, batch: B) -> B: ...
    def __call__(self, batch: object) -> object:
        """Send a request for every row of a batch, and return the batch with the result columns.

        ``batch`` is a list of mappings, a mapping of columns (lists or arrays), a ``pyarrow.Table``
        or a ``pandas.DataFrame``; the result is a batch of the same kind. Ctrl-C cancels the rows
        in flight before it is raised. Raises ContractError when the batch already has a column with
        the name of a result column, and TypeError for a batch of another kind.
        """
        rows = rows_of(batch, self._prefix)
        results = self._process.run(self._asking, partial(self._all, rows)) if rows else []
        return with_results(batch, results, self._prefix)

    @overload
    async def acall(self, batch: list[Any]) -> list[JSONObject]: ...
    @overload
    async def acall(self, batch: Mapping[str, object]) -> JSONObject: ...
    @overload
    async def acall(self, batch: B) -> B: ...
    async def acall(self, batch: object) -> object:
        """Do the same as a plain call, from within an asyncio event loop."""
        rows = rows_of(batch, self._prefix)
        results = await self._process.arun(self._asking, partial(self._all, rows)) if rows else []
        return with_results(batch, results, self._prefix)

    def stream(self, rows: Source) -> RowStream:
        """Return the results of rows as a stream, in the running event loop with its own client.

        At most ``concurrency`` rows are read ahead of the results that you have taken. If you leave
        a stream early, close it (``contextlib.aclosing``), which cancels the rows in flight.
        """
        return RowStream(self._asking, self._process.bucket, rows)

    async def each(self, rows: Source, take: Take) -> None:
        """Read rows as they arrive, and call ``take`` with each result.

        ``take`` also gets the bound on rows in flight. A row keeps its place until ``take`` has
        ended. An exception of ``take`` cancels all rows.
        """
        async with self._asking.pool(self._process.bucket) as pool:
            await ask_each(self._asking, pool, rows, take)

    def close(self) -> None:
        """Close the clients and end the thread of this process; the next call makes new ones."""
        self._process.close()

    async def _all(self, rows: Sequence[object], pool: ClientPool) -> list[RowResult]:
        found: list[RowResult] = []

        def take(result: RowResult, _limit: int) -> None:
            found.append(result)

        await ask_each(self._asking, pool, rows, take, len(rows))
        return sorted(found, key=lambda result: result.index)


class RowStream:
    """An async iterator over the results of rows, each as soon as it is ready.

    ``limit`` is the present bound on rows in flight.
    """

    def __init__(self, asking: Asking, bucket: RetryBucket, rows: Source) -> None:
        self.limit: int = asking.concurrency
        """How many rows may be under way at present."""
        self._results = self._asked(asking, bucket, rows)

    def __aiter__(self) -> AsyncIterator[RowResult]:
        """Iterate over the results in the order in which rows end.

        The ``index`` of a result is the number of its row.
        """
        return self._results

    async def aclose(self) -> None:
        """Cancel the rows in flight, and close the clients."""
        await self._results.aclose()

    async def _asked(
        self, asking: Asking, bucket: RetryBucket, rows: Source
    ) -> AsyncGenerator[RowResult]:
        """Yield each result as soon as it is ready.

        Its row keeps its place until the caller asks for the next result.
        """
        waiting: deque[tuple[RowResult, asyncio.Future[None]]] = deque()
        news = asyncio.Event()

        def take(result: RowResult, _limit: int) -> Awaitable[None]:
            taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiting.append((result, taken))
            news.set()
            return taken

        async with asking.pool(bucket) as pool:
            asking_all = asyncio.create_task(ask_each(asking, pool, rows, take))
            asking_all.add_done_callback(lambda _: news.set())

            try:
                while waiting or not asking_all.done():
                    if waiting:
                        result, taken = waiting.popleft()
                        self.limit = pool.gate.limit
                        yield result
                        taken.set_result(None)
                    else:
                        news.clear()
                        await news.wait()

                await asking_all
            finally:
                asking_all.cancel()
                await asyncio.gather(asking_all, return_exceptions=True)


def rows(
    contract: Contract,
    *,
    messages: Messages = "messages",
    client: AsyncOpenAI | AsyncAnthropic | Callable[[], object] | None = None,
    policy: RetryPolicy | None = None,
    steering: Steering | None = None,
    concurrency: int = 64,
    prefix: str = "",
    **keywords: Unpack[ApiKeywords],
) -> Rows:
    """Return a function that sends a request for each row of a batch.

    It never drops a row, and never raises because of one.

    - ``contract`` says what a valid reply is.
    - ``messages`` is the column with a row's text or messages, or a function of the row that
      returns them.
    - ``client`` is a function that makes an async client; it is called once in each process. It may
      also be a ready client, which stays open and must not be in use in another event loop. None
      means ``openai.AsyncOpenAI``.
    - ``policy`` has the budgets of each row; None means :data:`DEFAULT_POLICY`.
    - ``steering`` writes the corrections; None means ``TieredSteering()``.
    - ``concurrency`` is the number of rows in flight. It is halved when the API answers a tenth of
      the last requests with 429, 503 or 529, and then grows again slowly.
    - ``prefix`` goes before the names of the result columns, :data:`COLUMNS`.
    - The other keywords are those of a call: ``model``, which is required, ``api``,
      ``temperature``, … Without ``api``, a client or a client class determines the API; for another
      function it is chat completions.

    Raises ContractError when one of these is wrong.
    """
    must_be("contract", contract, Contract, "a Contract, as in Contract(answer=Label)")
    policy = policy or DEFAULT_POLICY
    must_be("policy", policy, RetryPolicy, "a RetryPolicy, as in RetryPolicy(max_retries=3)")
    must_have("steering", steering, "correction", "an object with correction(context)")

    must_be("prefix", prefix, str, "a text, as in prefix='out_'")
    if not (isinstance(messages, str) or callable(messages)):
        raise ContractError("messages must be the name of a column, or a function of a row")
    if type(concurrency) is not int or concurrency < 1:
        raise ContractError("concurrency must be a whole number of rows, at least 1")

    if is_ready(client):
        asynchronous(wrap(client, contract=contract))
    elif not (client is None or callable(client)):
        raise ContractError("client must be an async client, or a function or class that makes one")

    same: dict[str, Any] = {**keywords}
    api: Api | str = same.pop("api", None) or api_of(client)
    wire = wire_named(api)

    # the keywords of other APIs are not known here
    known = ApiKeywords.__annotations__.keys() - {"stream", "stream_options"}
    is_typed = api in get_args(Api)
    if unknown := [name for name in same if is_typed and name not in known]:
        remedy = f"it has {', '.join(sorted(known))}; pass other parameters in extra_body={{…}}"
        raise ContractError(f"rows() has no keyword {unknown[0]!r}: {remedy}")

    _, request = shape(contract, {**same, wire.conversation: "…"}, wire)
    if not isinstance(request.model, str):
        raise ContractError("rows() needs model=…, the name of the model")

    asking = Asking(contract, same, messages, client, policy, steering, api, concurrency)
    return Rows(asking, prefix)
