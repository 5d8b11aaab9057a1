"""A run is followed while it goes on.

Every event is in its place, the end comes last, and a closed stream stops the run.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

import pytest

import strictreply as sr
from strictreply.loop import AttemptMade, RunEnded, RunEvent, ToolFinished, ToolStarted
from support.loop.loops import DONE, LOCATE, PATIENCE, Loop, Opened, asking, codes, spy
from support.scripted import USER, StatusError, call, completion

ONE_RETRY = sr.RetryPolicy(max_retries=1, transport_retries=0)
BAD = completion(calls=[call("search", {"query": 1}, "a")])


WHERE: ContextVar[str] = ContextVar("where", default="lost")


class Stop(BaseException):
    """An exception that no tool loop may catch."""


def streamed(
    loop: Loop, said: Any = USER, **keywords: Any
) -> tuple[list[RunEvent], BaseException | None]:
    """Read a stream to its end; give what it told, and what it raised."""
    told: list[RunEvent] = []

    async def aread() -> None:
        """Read the async twin's."""
        async for event in sr.arun_stream(loop.client, said, model="m", **keywords):
            told.append(event)  # noqa: PERF401 - what came before an error counts

    try:
        if loop.asynchronous:
            asyncio.run(aread())
        else:
            told.extend(sr.run_stream(loop.client, said, model="m", **keywords))
    except BaseException as error:  # noqa: BLE001 - what is asserted on
        return told, error

    return told, None


def kinds(events: list[RunEvent]) -> list[str]:
    """Return the names of the events in order."""
    return [type(event).__name__ for event in events]


def test_events_come_in_the_order_of_what_happens(opened: Opened) -> None:
    """An attempt, then its tool's start and end, then the next attempt; the end is last, and has
    the whole run.
    """
    loop = opened(asking("a"), DONE, tools=[spy("search", [])])
    events, error = streamed(loop)
    assert error is None
    assert kinds(events) == [
        "AttemptMade",
        "ToolStarted",
        "ToolFinished",
        "AttemptMade",
        "RunEnded",
    ]

    started = events[1]
    finished = events[2]
    ended = events[4]
    assert isinstance(started, ToolStarted)

    assert isinstance(finished, ToolFinished)
    assert isinstance(ended, RunEnded)
    assert started.call == finished.call
    assert (started.call.tool, started.call.id) == ("search", "a")

    assert (finished.outcome.result.result_json, finished.outcome.error) == ('"search a"', None)
    assert ended.run.answer == "done"
    assert ended.run.attempts == tuple(
        event.attempt for event in events if isinstance(event, AttemptMade)
    )


def test_refused_attempts_are_told_as_well(opened: Opened) -> None:
    """Each ask of the model is an event, also one whose reply did not fit; no tool starts before
    one that did.
    """
    loop = opened(BAD, asking("a"), DONE, tools=[spy("search", [])], policy=ONE_RETRY)
    events, _ = streamed(loop)
    attempts = [event.attempt.accepted for event in events if isinstance(event, AttemptMade)]
    assert attempts == [False, True, True]
    assert kinds(events)[:3] == ["AttemptMade", "AttemptMade", "ToolStarted"]


def test_calls_side_by_side_each_start_and_end(opened: Opened) -> None:
    """Every call of a reply is told to start before it is told to end, between the attempts around
    it.
    """
    events, _ = streamed(opened(asking("a", "b", "c"), DONE, tools=[spy("search", [])]))
    assert kinds(events)[0] == kinds(events)[-2] == "AttemptMade"
    places: dict[str, list[str]] = {}
    for event in events[1:-2]:
        assert isinstance(event, ToolStarted | ToolFinished)
        places.setdefault(str(event.call.id), []).append(type(event).__name__)
    assert places == {id_: ["ToolStarted", "ToolFinished"] for id_ in "abc"}


def test_a_pause_ends_the_stream(opened: Opened) -> None:
    """A run that waits for the client has come to its end as well."""
    events, _ = streamed(opened(asking("l", tool="locate"), tools=[LOCATE]))
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    assert (kinds(events), ended.run.is_paused) == (["AttemptMade", "RunEnded"], True)


@pytest.mark.parametrize(
    ("step", "raised"),
    [(BAD, sr.ToolArgumentsError), (StatusError(500), sr.TransportFailed), (Stop(), Stop)],
    ids=["a refused reply", "a failed transport", "an interrupt"],
)
def test_what_a_run_raises_comes_after_its_events(
    opened: Opened, step: Any, raised: type[BaseException]
) -> None:
    """The reader has seen everything that happened before the stream raises what the run raised."""
    events, error = streamed(opened(asking("a"), step, tools=[spy("search", [])]))
    assert isinstance(error, raised)
    assert kinds(events)[:3] == ["AttemptMade", "ToolStarted", "ToolFinished"]
    assert "RunEnded" not in kinds(events)


def test_a_request_that_cannot_be_opened_raises_at_once(opened: Opened) -> None:
    """There is no event before the exception."""
    events, error = streamed(opened(tools=[LOCATE]), results=[{"tool_call_id": "x", "name": "y"}])
    assert (events, type(error)) == ([], sr.ContractError)


def test_a_listener_hears_what_the_stream_tells(opened: Opened) -> None:
    """``on_event`` beside a stream is told of the same events but the end."""
    heard: list[RunEvent] = []
    events, _ = streamed(
        opened(asking("a"), DONE, tools=[spy("search", [])]), on_event=heard.append
    )
    assert heard == events[:-1]


def test_a_streamed_run_sees_the_readers_context(opened: Opened) -> None:
    """Context variables reach the tools of a stream, whatever thread or task its run goes on in."""

    def search(query: str) -> str:
        """Return where it runs."""
        return f"{query} {WHERE.get()}"

    token = WHERE.set("here")
    try:
        events, _ = streamed(opened(asking("a"), DONE, tools=[sr.Tool.from_function(search)]))
    finally:
        WHERE.reset(token)

    results = [
        event.outcome.result.result_json for event in events if isinstance(event, ToolFinished)
    ]
    assert results == ['"a here"']


def test_a_stream_is_cancelled_as_a_run_is(opened: Opened) -> None:
    """``cancel`` ends it with a cancelled run, which is no error."""
    ran: list[str] = []
    events, error = streamed(
        opened(asking("a"), tools=[spy("search", ran)]), cancel=lambda: bool(ran)
    )
    ended = events[-1]
    assert error is None
    assert isinstance(ended, RunEnded)
    assert ended.run.is_cancelled


def begun(function: Callable[[], Any]) -> tuple[Any, threading.Thread]:
    """Call something that starts one thread; give what it gives, and the thread."""
    before = set(threading.enumerate())
    given = function()
    (thread,) = set(threading.enumerate()) - before
    return given, thread


def test_closing_a_stream_cancels_its_run() -> None:
    """The tool that is running ends, and nothing comes after it: the model is not asked again."""
    leave = threading.Event()
    ran: list[str] = []

    def search(query: str) -> None:
        """Wait to be let go."""
        leave.wait(PATIENCE)
        ran.append(query)

    loop = Loop(asking("a"), DONE, tools=[sr.Tool.from_function(search)])
    stream: Any = sr.run_stream(loop.client, USER, model="m")
    first, thread = begun(lambda: next(stream))
    assert [type(first), type(next(stream))] == [AttemptMade, ToolStarted]

    stream.close()
    leave.set()
    thread.join(PATIENCE)
    assert (thread.is_alive(), ran, loop.asks) == (False, ["a"], 1)


def test_closing_an_async_stream_cancels_its_run_at_once() -> None:
    """The tool that is awaited is cancelled where it is."""
    seen: list[str] = []

    async def search(query: str) -> None:
        """Wait for what does not come."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(query)
            raise

    loop = Loop(asking("a"), DONE, tools=[sr.Tool.from_function(search)], asynchronous=True)

    async def leave_early() -> list[asyncio.Task[Any]]:
        """Leave at the tool's start; give the tasks that are left."""
        async with aclosing(sr.arun_stream(loop.client, USER, model="m")) as stream:  # type: ignore[type-var]
            async for event in stream:
                if isinstance(event, ToolStarted):
                    break
        return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    assert asyncio.run(leave_early()) == []
    assert (seen, loop.asks) == (["a"], 1)


def test_a_closed_stream_gives_its_calls_back() -> None:
    """A continuation whose stream nobody reads on may be sent again; what was allowed and ran is
    not run twice.
    """
    leave = threading.Event()
    ran: list[str] = []

    def deliver(query: str) -> str:
        """Wait to be let go."""
        leave.wait(PATIENCE)
        ran.append(query)
        return query

    loop = Loop(
        asking("x", tool="deliver"),
        DONE,
        tools=[sr.Tool.from_function(deliver, needs_approval=True)],
    )
    paused = loop.run()
    given: Any = {"continuation": paused, "results": [paused.pending[0].approved()]}
    stream: Any = sr.run_stream(loop.client, model="m", **given)
    first, thread = begun(lambda: next(stream))
    assert isinstance(first, ToolStarted)

    stream.close()
    leave.set()
    thread.join(PATIENCE)
    assert (loop.asks, loop.run(**given).answer, ran) == (1, "done", ["x"])


def test_a_cancelled_stream_gives_its_calls_back(opened: Opened) -> None:
    """The same when it is cancelled: the results are taken once, by the run that ends."""
    loop = opened(asking("l", tool="locate"), DONE, DONE, tools=[LOCATE])
    paused = loop.run()
    given: Any = {"continuation": paused, "results": [paused.pending[0].answered(1)]}
    events, error = streamed(loop, None, cancel=lambda: loop.asks > 1, **given)
    assert error is None

    assert isinstance(events[-1], RunEnded)
    assert events[-1].run.is_cancelled
    assert loop.run(**given).answer == "done"

    with pytest.raises(sr.InvokeFailed) as again:
        loop.run(**given)

    assert codes(again.value) == ["ALREADY_CONSUMED"]


def test_a_listener_that_must_be_awaited_is_refused(opened: Opened) -> None:
    """An async ``on_event`` is a ContractError before anything is asked, in either stream."""

    async def listen(event: RunEvent) -> None:
        """Hear nothing."""

    loop = opened(DONE, tools=[spy("search", [])])
    events, error = streamed(loop, on_event=listen)
    assert (events, type(error), loop.asks) == ([], sr.ContractError, 0)
