"""Running the calls of one reply.

Several run at a time, each within its time, and every failure is a result.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest

import strictreply as sr
from strictreply.loop import RunEvent, ToolFinished
from strictreply.loop._performing import in_thread
from support.loop.loops import DONE, PATIENCE, Loop, Opened, asking, spy, told
from support.scripted import call, completion

WHERE: ContextVar[str] = ContextVar("where", default="lost")


class Stop(BaseException):
    """An exception that no tool loop may catch."""


class Crowd:
    """Counts how many are inside at once; each waits until ``parties`` are."""

    def __init__(self, parties: int) -> None:
        """Begin empty."""
        self.barrier = threading.Barrier(parties)
        self.lock = threading.Lock()
        self.inside = self.peak = 0

    def enter(self, query: str) -> str:
        """Wait for the others."""
        with self.lock:
            self.inside += 1
            self.peak = max(self.peak, self.inside)
        self.barrier.wait(PATIENCE)
        with self.lock:
            self.inside -= 1
        return query


def placed(query: str) -> str:
    """Return where it runs."""
    return f"{query} {WHERE.get()}"


def declared(function: Callable[..., Any], **options: Any) -> sr.Tool:
    """Declare a function as the tool ``search``."""
    return sr.Tool.from_function(function, name="search", **options)


@pytest.mark.parametrize("bound", [2, 3])
def test_as_many_calls_run_at_once_as_the_policy_allows(opened: Opened, bound: int) -> None:
    """Six calls go in waves: each wave is as large as the bound, and never larger."""
    crowd = Crowd(bound)
    queries = [str(number) for number in range(6)]
    loop = opened(asking(*queries), DONE, tools=[declared(crowd.enter)])
    done = loop.run(loop=sr.LoopPolicy(concurrency=bound))
    assert crowd.peak == bound
    assert told(done) == [(query, int(query)) for query in queries]


def test_a_thread_is_started_when_there_is_room_for_it() -> None:
    """When the n-th call ends, no more than the bound and those before it have been started."""
    before = set(threading.enumerate())
    entered: set[threading.Thread] = set()
    started: list[int] = []

    def search(query: str) -> str:
        """Keep the thread."""
        entered.add(threading.current_thread())
        return query

    def watch(event: RunEvent) -> None:
        """Count the threads, in the thread that starts them."""
        if isinstance(event, ToolFinished):
            started.append(len(entered | (set(threading.enumerate()) - before)))

    loop = Loop(asking(*"abcdef"), DONE, tools=[declared(search)])
    loop.run(on_event=watch, loop=sr.LoopPolicy(concurrency=2))
    assert len(started) == 6
    assert all(threads <= ended + 2 for ended, threads in enumerate(started))


def test_async_tools_run_at_once_within_the_bound() -> None:
    """Async tools of one reply are awaited together, as many as the policy allows."""
    barrier, inside, peaks = asyncio.Barrier(2), set[str](), []

    async def search(query: str) -> str:
        """Wait for another one."""
        inside.add(query)
        peaks.append(len(inside))
        await barrier.wait()
        inside.discard(query)
        return query

    loop = Loop(asking("1", "2", "3", "4"), DONE, tools=[declared(search)], asynchronous=True)
    assert told(loop.run(loop=sr.LoopPolicy(concurrency=2))) == [
        (query, int(query)) for query in "1234"
    ]
    assert max(peaks) == 2


def test_results_stand_in_the_order_of_the_calls(opened: Opened) -> None:
    """The first call ends last: its result comes first all the same."""
    other_ended = threading.Event()
    ended: list[str] = []

    def search(query: str) -> str:
        """End after the other one."""
        if query == "first":
            assert other_ended.wait(PATIENCE)
        ended.append(query)
        other_ended.set()
        return f"found {query}"

    done = opened(asking("first", "second"), DONE, tools=[declared(search)]).run()
    assert ended == ["second", "first"]
    assert told(done) == [("first", "found first"), ("second", "found second")]


@pytest.mark.parametrize("own", [True, False], ids=["the tool's own limit", "the loop's limit"])
def test_a_tool_that_takes_too_long_is_given_up(opened: Opened, *, own: bool) -> None:
    """The model is told of the timeout; a call beside it keeps its result, and the late one is
    never heard of again.
    """
    never = threading.Event()
    events: list[RunEvent] = []

    def search(query: str) -> str:
        """Wait for what does not come."""
        never.wait(PATIENCE)
        return query

    slow = declared(search, timeout=0.01 if own else None)
    quick = spy("fetch", [], timeout=PATIENCE)
    both = completion(
        calls=[
            call("search", {"query": "slow"}, "slow"),
            call("fetch", {"query": "quick"}, "quick"),
        ]
    )
    loop = opened(both, DONE, tools=[slow, quick])
    try:
        done = loop.run(
            loop=sr.LoopPolicy(tool_timeout=None if own else 0.01), on_event=events.append
        )
    finally:
        never.set()

    (_, given_up), beside = told(done)
    assert (given_up["error"]["type"], beside) == ("Timeout", ("quick", "fetch quick"))
    ended = {event.call.id: event.outcome for event in events if isinstance(event, ToolFinished)}
    assert isinstance(ended["slow"].error, TimeoutError)

    assert ended["slow"].result.execution_ms >= 10
    assert ended["quick"].error is None
    assert len([event for event in events if isinstance(event, ToolFinished)]) == 2


def test_an_async_tool_that_takes_too_long_is_cancelled() -> None:
    """Its time is up where it awaits: it sees the cancellation, the model the timeout."""
    seen: list[str] = []

    async def search(query: str) -> None:
        """Wait for what does not come."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(query)
            raise

    loop = Loop(asking("slow"), DONE, tools=[declared(search, timeout=0.01)], asynchronous=True)
    ((_, result),) = told(loop.run())
    assert (result["error"]["type"], seen) == ("Timeout", ["slow"])


def test_a_timeout_that_the_tool_raises_is_its_own(opened: Opened) -> None:
    """A TimeoutError of the tool's code is a failure like any other: its type is told, not ours."""

    def search(query: str) -> None:
        """Fail."""
        raise TimeoutError(query)

    ((_, result),) = told(
        opened(asking("x"), DONE, tools=[declared(search, timeout=PATIENCE)]).run()
    )
    assert result == {"error": {"type": "TimeoutError", "message": "the tool failed"}}


@pytest.mark.parametrize("limit", [1e12, float("inf")])
def test_a_limit_beyond_all_clocks_waits(opened: Opened, limit: float) -> None:
    """A timeout that no clock of the machine can count is as good as none."""
    meet = threading.Barrier(2)

    def search(query: str) -> str:
        """Meet the other call."""
        meet.wait(PATIENCE)
        return query

    done = opened(asking("a", "b"), DONE, tools=[declared(search, timeout=limit)]).run()
    assert told(done) == [("a", "a"), ("b", "b")]


@pytest.mark.req("T36")
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (sr.ToolError("no such order"), {"type": "ToolError", "message": "no such order"}),
        (ValueError("secret"), {"type": "ValueError", "message": "the tool failed"}),
        (StopIteration("secret"), {"type": "StopIteration", "message": "the tool failed"}),
    ],
    ids=["ToolError", "ValueError", "StopIteration"],
)
def test_what_a_tool_raises_is_a_result(
    opened: Opened, error: Exception, said: dict[str, str]
) -> None:
    """A ToolError's words are for the model; of anything else it learns the type, and the event has
    the whole.
    """
    events: list[RunEvent] = []

    def search(query: str) -> str:
        """Fail for one query."""
        if query == "bad":
            raise error
        return query

    loop = opened(asking("bad", "good"), DONE, tools=[declared(search)])
    assert told(loop.run(on_event=events.append)) == [("bad", {"error": said}), ("good", "good")]
    finished = {
        event.call.id: event.outcome.error for event in events if isinstance(event, ToolFinished)
    }
    raised = finished["bad"]
    assert isinstance(raised, sr.ToolExecutionError)

    assert (raised.code, raised.call_id, raised.__cause__) == ("TOOL_ERROR", "bad", error)
    assert loop.asks == 2


@pytest.mark.parametrize("queries", [("bad",), ("bad", "good")], ids=["alone", "beside another"])
def test_what_is_no_exception_passes(opened: Opened, queries: tuple[str, ...]) -> None:
    """A BaseException of a tool comes out of the run as it is, bare, from any thread or task."""

    def search(query: str) -> str:
        """Stop everything."""
        if query == "bad":
            raise Stop
        return query

    with pytest.raises(Stop):
        opened(asking(*queries), DONE, tools=[declared(search)]).run()


@pytest.mark.parametrize("queries", [("a",), ("a", "b")], ids=["alone", "beside another"])
def test_what_a_listener_raises_changes_nothing(opened: Opened, queries: tuple[str, ...]) -> None:
    """``on_event`` only listens: when it fails at every event, the calls are run and told all the
    same.
    """

    def refuse(event: RunEvent) -> None:
        """Fail."""
        raise LookupError(event)

    done = opened(asking(*queries), DONE, tools=[spy("search", [])]).run(on_event=refuse)
    assert told(done) == [(query, f"search {query}") for query in queries]


async def cancelled_inside() -> None:
    """Await a task that somebody else has cancelled."""
    task = asyncio.create_task(asyncio.Event().wait())
    task.cancel()
    await task


async def cancelling_itself() -> None:
    """Cancel the task that this is run in."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def raising_it() -> None:
    """Raise a cancellation that nobody asked for."""
    raise asyncio.CancelledError


@pytest.mark.req("T36")
@pytest.mark.parametrize("limit", [None, PATIENCE], ids=["without limit", "within a limit"])
@pytest.mark.parametrize("fail", [cancelled_inside, cancelling_itself, raising_it])
def test_a_cancellation_of_the_tools_own_is_a_failure(
    fail: Callable[[], Any], limit: float | None
) -> None:
    """A tool that ends by a cancellation that is not the run's has failed: the model is told its
    type.
    """

    async def search(query: str) -> str:
        """Fail for one query."""
        if query == "bad":
            await fail()
        return query

    loop = Loop(
        asking("bad", "good"), DONE, tools=[declared(search, timeout=limit)], asynchronous=True
    )
    said = {"error": {"type": "CancelledError", "message": "the tool failed"}}
    assert told(loop.run()) == [("bad", said), ("good", "good")]


@pytest.mark.parametrize("queries", [("bad",), ("bad", "good")], ids=["alone", "beside another"])
def test_a_cancellation_out_of_a_sync_tool_is_a_failure(
    opened: Opened, queries: tuple[str, ...]
) -> None:
    """A CancelledError raised by a sync tool is a failure of the tool, in sync and async runs."""

    def search(query: str) -> str:
        """Fail for one query."""
        if query == "bad":
            raise asyncio.CancelledError
        return query

    results = told(opened(asking(*queries), DONE, tools=[declared(search)]).run())
    assert results[0][1]["error"]["type"] == "CancelledError"
    assert results[1:] == [(query, query) for query in queries[1:]]


@pytest.mark.parametrize(
    "swallowed", [True, False], ids=["it ends in its own way", "it passes it on"]
)
def test_a_cancelled_run_is_cancelled(*, swallowed: bool) -> None:
    """Cancelled while its tools run, the run raises CancelledError and asks no more, whatever a
    tool makes of it.
    """
    inside, seen = asyncio.Event(), list[str]()

    async def search(query: str) -> str:
        """Wait for what does not come."""
        inside.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(query)
            if not swallowed:
                raise
        return query

    loop = Loop(asking("a", "b"), DONE, tools=[declared(search)], asynchronous=True)

    async def cancelled() -> bool:
        """Cancel the run as soon as a tool is inside."""
        task = asyncio.create_task(sr.arun(loop.client, "x", model="m"))
        await inside.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return task.cancelled()

    assert asyncio.run(cancelled())
    assert (sorted(seen), loop.asks) == (["a", "b"], 1)


def test_a_tool_that_was_given_up_keeps_no_process(opened: Opened) -> None:
    """The thread of a sync tool whose time was over is a daemon: neither a loop nor the interpreter
    waits for it.
    """
    entered, never = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def search(query: str) -> str:
        """Wait for what does not come."""
        threads.append(threading.current_thread())
        entered.set()
        never.wait(PATIENCE)
        return query

    try:
        ((_, result),) = told(
            opened(asking("a"), DONE, tools=[declared(search, timeout=0.01)]).run()
        )
        assert result["error"]["type"] == "Timeout"
        assert entered.wait(PATIENCE)
        assert [(thread.daemon, thread.is_alive()) for thread in threads] == [(True, True)]
    finally:
        never.set()


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function, as most decorators are written: the wrapper itself is not async."""

    @functools.wraps(function)
    def inner(*args: Any, **named: Any) -> Any:
        return function(*args, **named)

    return inner


def behind(query: str) -> Any:
    """Return a future, which is awaitable and no coroutine."""
    return asyncio.ensure_future(asyncio.sleep(0, f"found {query}"))


@logged
async def decorated(query: str) -> str:
    """Search, awaiting."""
    await asyncio.sleep(0)
    return f"found {query}"


@pytest.mark.parametrize("queries", [("a",), ("a", "b")], ids=["alone", "beside another"])
@pytest.mark.parametrize("limit", [None, PATIENCE], ids=["without limit", "within a limit"])
def test_an_async_function_behind_an_ordinary_decorator_is_awaited(
    queries: tuple[str, ...], limit: float | None
) -> None:
    """What a call returns is awaited in an async run where it is awaitable."""
    tools = [declared(decorated, timeout=limit)]
    loop = Loop(asking(*queries), DONE, tools=tools, asynchronous=True)
    assert told(loop.run()) == [(query, f"found {query}") for query in queries]


@pytest.mark.parametrize("queries", [("a",), ("a", "b")], ids=["alone", "beside another"])
def test_a_sync_run_refuses_what_it_cannot_await(queries: tuple[str, ...]) -> None:
    """A sync run does not take an awaitable for a result: it says which function awaits it."""
    loop = Loop(asking(*queries), DONE, tools=[declared(decorated)])
    with pytest.raises(sr.ContractError, match=r"await arun\(\)"):
        loop.run()


def test_any_awaitable_is_no_result_of_a_sync_tool() -> None:
    """A future is refused like a coroutine, and awaited by ``Tool.arun``."""

    async def both() -> Any:
        tool = declared(behind)
        args = tool.build({"query": "a"})
        with pytest.raises(sr.ContractError, match=r"await arun\(\)"):
            tool.run(args)
        return await tool.arun(args)

    assert asyncio.run(both()) == "found a"


def test_a_hidden_async_tool_fails_as_any_other_does() -> None:
    """What it raises while it is awaited is a result, its own cancellation too, and a limit ends
    it.
    """

    @logged
    async def search(query: str) -> None:
        """Fail in one of three ways."""
        if query == "late":
            await asyncio.Event().wait()
        if query == "cancelled":
            raise asyncio.CancelledError
        raise sr.ToolError("no such order")

    loop = Loop(
        asking("wrong", "cancelled", "late"),
        asking("cancelled"),
        DONE,
        tools=[declared(search, timeout=1.0)],  # for those that end at once, too
        asynchronous=True,
    )
    kinds = [(query, result["error"]["type"]) for query, result in told(loop.run())]
    assert kinds == [
        ("wrong", "ToolError"),
        ("cancelled", "CancelledError"),
        ("late", "Timeout"),
        ("cancelled-2", "CancelledError"),
    ]


@pytest.mark.parametrize("queries", [("a",), ("a", "b")], ids=["alone", "beside another"])
@pytest.mark.parametrize("limit", [None, PATIENCE], ids=["without limit", "within a limit"])
def test_tools_see_the_callers_context(
    opened: Opened, queries: tuple[str, ...], limit: float | None
) -> None:
    """Context variables reach a tool in whatever thread it runs: no trace or tenant is lost."""
    token = WHERE.set("here")
    try:
        loop = opened(asking(*queries), DONE, tools=[declared(placed, timeout=limit)])
        assert told(loop.run()) == [(query, f"{query} here") for query in queries]
    finally:
        WHERE.reset(token)


def test_async_tools_see_the_callers_context() -> None:
    """The same for tools that are awaited."""

    async def search(query: str) -> str:
        """Return where it runs."""
        await asyncio.sleep(0)
        return placed(query)

    token = WHERE.set("here")
    try:
        loop = Loop(asking("a", "b"), DONE, tools=[declared(search)], asynchronous=True)
        assert told(loop.run()) == [("a", "a here"), ("b", "b here")]
    finally:
        WHERE.reset(token)


def test_one_call_runs_in_the_callers_thread() -> None:
    """A single call without a time limit needs no thread: what is bound to one (a database handle)
    works.
    """

    def search(query: str) -> list[object]:
        """Return the name of the thread."""
        return [query, threading.get_ident()]

    done = Loop(asking("a"), DONE, tools=[declared(search)]).run()
    assert told(done) == [("a", ["a", threading.get_ident()])]


def test_one_call_may_be_async_beside_a_sync_one() -> None:
    """An async client runs both kinds in one reply; each result has its place."""

    async def fetch(query: str) -> str:
        """Return the query."""
        await asyncio.sleep(0)
        return query

    both = asking("a", "b")
    both["choices"][0]["message"]["tool_calls"][1]["function"]["name"] = "fetch"
    loop = Loop(
        both, DONE, tools=[spy("search", []), sr.Tool.from_function(fetch)], asynchronous=True
    )
    assert told(loop.run()) == [("a", "search a"), ("b", "b")]


def test_threads_are_used_again() -> None:
    """Calls that run one after the other beside an event loop need fewer threads than there are
    calls.
    """
    loop = Loop(
        *(asking(query) for query in "abcd"),
        DONE,
        tools=[declared(in_which_thread)],
        asynchronous=True,
    )
    threads = {ident for _, (ident, _) in told(loop.run())}
    assert len(threads) < 4
    assert threading.get_ident() not in threads


def in_which_thread(query: str) -> list[object]:
    """Return the name of the thread."""
    return [threading.get_ident(), query]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are POSIX's")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_has_threads_of_its_own() -> None:
    """A child of a process with idle threads runs calls all the same: it has none of them."""
    assert in_thread(lambda: "here").result(PATIENCE) == "here"
    child = os.fork()
    if not child:
        os._exit(0 if in_thread(lambda: 7).result(PATIENCE) == 7 else 1)
    assert os.waitpid(child, 0)[1] == 0
