"""Drivers perform effects in order, and close a flow whatever happens.

What a watcher raises changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Generator
from typing import Any

import pytest

import strictreply as sr
from strictreply.coordination import ValidationProcessor
from strictreply.core import adrive, drive
from support.coordination.team import GRAPH
from support.scripted import SCHEMA, USER, AsyncClient, Client, call, completion


class Watched:
    """A flow that asks twice, and remembers whether it was closed."""

    def __init__(self) -> None:
        """Start open."""
        self.closed = False

    def flow(self) -> Generator[str, int, int]:
        """Ask for two numbers and add them."""
        try:
            first = yield "first"
            second = yield "second"
            return first + second
        finally:
            self.closed = True


def test_drive_performs_each_effect_in_order() -> None:
    """Each effect is performed once, its event sent back, and the flow's result returned."""
    seen: list[str] = []

    def perform(effect: str) -> int:
        seen.append(effect)
        return len(seen)

    watched = Watched()
    assert drive(watched.flow(), perform) == 3
    assert (seen, watched.closed) == (["first", "second"], True)


def test_adrive_is_the_twin_of_drive() -> None:
    """The async driver gives the same result from the same flow."""
    seen: list[str] = []

    async def perform(effect: str) -> int:
        await asyncio.sleep(0)
        seen.append(effect)
        return len(seen)

    watched = Watched()
    assert asyncio.run(adrive(watched.flow(), perform)) == 3
    assert (seen, watched.closed) == (["first", "second"], True)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError(), asyncio.CancelledError()])
def test_what_perform_raises_passes_through_and_closes_the_flow(error: BaseException) -> None:
    """An exception of an effect reaches the caller as it is; the flow does not see it and is
    closed.
    """

    def perform(effect: str) -> int:
        raise error

    async def aperform(effect: str) -> int:
        raise error

    watched = Watched()
    awatched = Watched()

    with pytest.raises(type(error)):
        drive(watched.flow(), perform)

    coroutine = adrive(awatched.flow(), aperform)
    with pytest.raises(type(error)):
        coroutine.send(None)

    assert watched.closed
    assert awatched.closed


def test_a_stop_iteration_of_an_effect_is_not_the_end_of_the_flow() -> None:
    """An exhausted iterator in a user's callback is a bug of theirs, never a result of None."""

    def perform(effect: str) -> int:
        raise StopIteration

    watched = Watched()
    with pytest.raises(StopIteration):
        drive(watched.flow(), perform)
    assert watched.closed


SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
WRONG = completion(calls=[call("search", {"query": 1})])
GOOD = completion(calls=[call("search", {"query": "tea"})])
WORDS = "what the model wrote"


class Unspeakable(Exception):
    """An exception that cannot even be spelled."""

    def __str__(self) -> str:
        """Fail, as careless code does."""
        raise RuntimeError(WORDS)


ERRORS: list[Exception] = [
    ValueError(WORDS),
    KeyError(WORDS),
    TimeoutError(WORDS),
    sr.ContractError(WORDS),
    Unspeakable(),
    StopAsyncIteration(WORDS),
    ExceptionGroup(WORDS, [ValueError()]),
]


def raising(error: BaseException, *, asynchronous: bool = False) -> Any:
    """Make a watcher that raises."""

    def watch(attempt: object) -> None:
        """Raise."""
        raise error

    async def awatch(attempt: object) -> None:
        """Raise once awaited."""
        raise error

    return awatch if asynchronous else watch


def ask(error: BaseException, way: str, how: str) -> Any:
    """Ask with a watcher that raises, given when wrapping or later, and give the exchange."""
    steps = WRONG, GOOD
    watch = raising(error, asynchronous=how == "awaited")
    inner: Any = Client(*steps) if how == "sync" else AsyncClient(*steps)
    client = sr.wrap(inner, tools=[SEARCH], on_attempt=watch if way == "wrapped" else None)
    client = client.watched(watch) if way == "watched" else client
    if how == "sync":
        return client.exchange(model="m", messages=USER)
    return asyncio.run(client.exchange(model="m", messages=USER))


@pytest.mark.parametrize("how", ["sync", "async", "awaited"])
@pytest.mark.parametrize("way", ["wrapped", "watched"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_v14_a_raising_watcher_loses_nothing(
    error: Exception, way: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The accepted reply comes, with all attempts; the log names the type, and repeats no word."""
    exchange = ask(error, way, how)
    assert isinstance(exchange.reply, sr.ToolCall)
    assert len(exchange.attempts) == 2
    records = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(records) == 2

    assert all(
        type(error).__name__ in record.getMessage() and record.exc_info is None
        for record in records
    )
    assert WORDS not in caplog.text


def test_v14_each_watcher_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """One that raises keeps no other from being told."""
    heard: list[int] = []
    client = sr.wrap(
        Client(WRONG, GOOD), tools=[SEARCH], on_attempt=lambda attempt: heard.append(attempt.number)
    )
    client.watched(raising(ValueError())).reply(model="m", messages=USER)
    assert heard == [1, 2]
    assert caplog.records


def test_v14_the_error_of_a_failed_call_is_not_replaced() -> None:
    """Where no reply fits, the call ends as it would have without the watcher."""
    client = sr.wrap(
        Client(WRONG),
        tools=[SEARCH],
        on_attempt=raising(ValueError()),
        policy=sr.RetryPolicy(max_retries=0),
    )
    with pytest.raises(sr.ToolArgumentsError) as caught:
        client.reply(model="m", messages=USER)

    assert len(caught.value.attempts) == 1


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError()], ids=repr
)
@pytest.mark.parametrize("how", ["sync", "async", "awaited"])
def test_v14_what_ends_a_program_passes_through(error: BaseException, how: str) -> None:
    """An interrupt, an exit and a cancellation are nobody's to keep."""
    with pytest.raises(type(error)):
        ask(error, "wrapped", how)


@pytest.mark.parametrize(
    "redact", [raising(KeyError(WORDS)), lambda raw: None], ids=["raises", "no text"]
)
def test_v14_a_raising_redaction_loses_nothing(
    redact: Callable[[str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The log's redaction is a watcher too, in the client and in a processor of coordination."""
    caplog.set_level(logging.DEBUG, "strictreply")
    client = sr.wrap(Client(GOOD), tools=[SEARCH], log_replies=redact)
    assert isinstance(client.reply(model="m", messages=USER), sr.ToolCall)
    processor = ValidationProcessor(GRAPH, log_replies=redact)
    said = json.dumps({"next_action": "final_response", "action_input": {"response": WORDS}})
    processor.validate(said, "Coordinator")
    assert WORDS not in caplog.text


def test_v14_a_listener_of_a_run_is_a_watcher(caplog: pytest.LogCaptureFixture) -> None:
    """``on_event`` is logged by the type of what it raises; the run goes on, and no word is
    repeated.
    """
    client = sr.wrap(Client(completion("done")), tools=[SEARCH])
    assert sr.run(client, USER, model="m", on_event=raising(ValueError(WORDS))).answer == "done"
    assert "on_event raised ValueError" in caplog.text
    assert WORDS not in caplog.text
