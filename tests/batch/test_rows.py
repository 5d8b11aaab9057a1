"""The row function: every row comes back, once, in its place, with what became of it."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strictreply as sr
from strictreply.batch._asking import Pooled
from support.batch.topics import CONTRACT, GOOD, PRICE, Label, Model, said_in
from support.scripted import Server, StatusError, completion

KINDS = ("", "bad", "refuse", "halt", "down")
STATUS = dict(zip(KINDS, ("ok", "fixed", "rejected", "halted", "failed"), strict=True))
ONE_RETRY = sr.RetryPolicy(max_retries=1, transport_retries=0)


def rows_over(model: Any, **keywords: Any) -> sr.batch.Rows:
    """Make a row function over a model that is ready."""
    given: dict[str, Any] = {
        "model": "m",
        "messages": "text",
        "policy": ONE_RETRY,
        "client": model,
        **keywords,
    }
    return sr.batch.rows(CONTRACT, **given)


@pytest.mark.req("T3", "T26")
def test_each_status() -> None:
    """Each end of a row has its status, the reply where there is one, and the codes of what was
    wrong.
    """
    ask = rows_over(Model())
    done: dict[str, Any] = {
        row["text"]: row
        for row in ask(
            [{"text": kind or "good", "id": number} for number, kind in enumerate(KINDS)]
        )
    }

    ask.close()
    assert [row["status"] for row in done.values()] == list(sr.batch.STATUSES)
    assert [row["id"] for row in done.values()] == list(range(5))
    assert [row["reply"] for row in done.values()] == [PRICE, PRICE, None, None, None]
    assert [row["attempts"] for row in done.values()] == [1, 2, 2, 1, 1]
    codes = [[issue["code"] for issue in row["issues"]] for row in done.values()]
    assert codes == [
        [],
        ["answer.enum"],
        ["answer.enum", "answer.enum", "call.retries"],
        ["reply.content_filter", "call.content_filter"],
        ["call.invalid_request"],
    ]

    hints = [row["issues"][-1]["hint"] for row in done.values() if row["reply"] is None]
    assert all(hints)
    assert not [hint for hint in hints if "error." in hint or "attempt." in hint], (
        "a row has no exception"
    )
    assert done["bad"]["usage"] == {
        "prompt_tokens": 20,
        "completion_tokens": 10,
        "total_tokens": 30,
        "is_estimate": False,
    }

    assert list(done["bad"]) == ["text", "id", *sr.batch.COLUMNS]


@pytest.mark.parametrize(
    ("status", "told"), [(500, "server_error (HTTP 500)"), (401, "authentication_failed")]
)
def test_a_deadline_spent_on_failures_of_the_api(status: int, told: str) -> None:
    """A row whose deadline passed while the API failed has failed; its issue names the failure."""

    async def down(_: str) -> None:
        raise StatusError(status)

    ask = rows_over(
        Model(down), policy=sr.RetryPolicy(deadline=60, transport_retries=6, wait=lambda _: 90.0)
    )
    (row,) = ask([{"text": "good"}])
    ask.close()
    assert (row["status"], row["attempts"]) == ("failed", 1)

    assert told in row["issues"][-1]["message"]
    assert "error." not in row["issues"][-1]["hint"]


@given(st.lists(st.sampled_from(KINDS), max_size=30), st.integers(1, 8))
def test_every_row_comes_back_once(kinds: list[str], concurrency: int) -> None:
    """All rows come back, whatever their outcome, in their order and with their own columns."""
    batch = [
        {"text": f"{kind} row {number}", "number": number} for number, kind in enumerate(kinds)
    ]
    model = Model()
    ask = rows_over(model, concurrency=concurrency)
    done = ask(batch)

    ask.close()
    assert [(row["number"], row["status"]) for row in done] == [
        (n, STATUS[kind]) for n, kind in enumerate(kinds)
    ]
    assert set(model.asked) == {row["text"] for row in batch}
    assert model.most <= concurrency


class Unwilling:
    """A value that no message can hold."""


def of_row(row: Any) -> Any:
    """Return messages, or raise as a program with a fault does."""
    return row["text"]


@pytest.mark.parametrize(
    ("row", "messages", "code"),
    [
        ({"id": 1}, "text", "row.messages"),
        ({"text": None}, "text", "row.messages"),
        ({"text": ""}, "text", "row.messages"),
        ({"text": []}, "text", "row.messages"),
        (17, "text", "row.messages"),
        (None, "text", "row.messages"),
        ({"id": 1}, of_row, "row.messages"),
        (None, of_row, "row.messages"),
        ({"text": 3.5}, "text", "row.contract"),
        ({"text": [{"role": "user", "content": Unwilling()}]}, "text", "row.raised"),
    ],
)
def test_a_row_that_cannot_be_asked(row: Any, messages: Any, code: str) -> None:
    """A row without messages, or with messages that cannot be sent, fails alone, and says what to
    do.
    """
    server = Server(completion(GOOD))
    ask = rows_over(server.async_client(), messages=messages)
    batch: list[Any] = [row, {"text": "fine"}]
    failed, fine = ask(batch)

    ask.close()
    assert fine["status"] == "ok"
    assert len(server.requests) == 1
    assert (failed["status"], failed["attempts"], failed["reply"]) == ("failed", 0, None)

    [issue] = failed["issues"]
    assert issue["code"] == code
    assert issue["message"]
    assert issue["hint"]


def test_no_word_of_the_model_is_told() -> None:
    """Issues hold our words and the schema's: neither what the model wrote nor what an exception
    said of it.
    """

    async def secret(text: str) -> None:
        raise RuntimeError(f"the model said CANARY about {text}")

    ask = rows_over(Model(secret))
    row: dict[str, Any] = ask([{"text": "x"}])[0]
    ask.close()
    assert row["status"] == "failed"

    assert "CANARY" not in str(row["issues"])
    assert "RuntimeError" in row["issues"][0]["message"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": None},
        {"temprature": 0},
        {"stream": True},
        {"n": 2},
        {"api": "completions"},
        {"tool_choice": "required"},
        {"messages": 3},
        {"concurrency": 0},
        {"concurrency": 2.5},
        {"client": "sk-123"},
        {"client": openai.OpenAI(api_key="x")},
        {"policy": 3},
        {"steering": 3},
        {"prefix": None},
    ],
)
def test_misuse_is_told_at_once(wrong: dict[str, Any]) -> None:
    """An argument that is wrong for every row is a ContractError before any request."""
    given: dict[str, Any] = {"model": "m", **wrong}
    with pytest.raises(sr.ContractError):
        sr.batch.rows(CONTRACT, **given)


def test_a_sync_client_that_is_made_later() -> None:
    """A function that makes a sync client is told of when it is called, and nothing hangs."""
    ask = sr.batch.rows(CONTRACT, model="m", client=lambda: openai.OpenAI(api_key="x"))
    for _ in range(2):
        with pytest.raises(sr.ContractError, match="client must be async"):
            ask([{"messages": "x"}])
    ask.close()


def test_one_client_a_process() -> None:
    """Calls from many threads share one client, one bound and one event loop; the client is closed
    at the end.
    """
    made: list[Model] = []

    def make() -> Model:
        made.append(Model())
        return made[-1]

    ask = rows_over(make, concurrency=3)
    with ThreadPoolExecutor(8) as pool:
        batches = list(pool.map(ask, [[{"text": f"{n} {i}"} for i in range(10)] for n in range(8)]))

    assert [row["text"] for batch in batches for row in batch] == [
        f"{n} {i}" for n in range(8) for i in range(10)
    ]
    assert len(made) == 1
    assert made[0].most == 3
    assert made[0].closed == 0

    ask.close()
    assert made[0].closed == 1
    ask([{"text": "again"}])
    assert len(made) == 2

    del ask
    assert made[1].closed == 1


def test_our_own_clients_have_few_rows_each() -> None:
    """Clients that the library makes itself have 25 rows at once, as many of them as are needed;
    all are closed at the end.
    """
    made: list[Model] = []

    def make() -> Model:
        made.append(Model())
        return made[-1]

    ask = rows_over(Pooled(make), concurrency=64)
    done = ask([{"text": str(number)} for number in range(20)])
    assert ({row["status"] for row in done}, len(made)) == ({"ok"}, 1)

    done = ask([{"text": str(number)} for number in range(400)])
    assert {row["status"] for row in done} == {"ok"}
    assert len(made) == 3
    assert all(0 < model.most <= 25 for model in made)

    ask.close()
    assert [model.closed for model in made] == [1, 1, 1]


def test_a_slow_spell_fails_no_row_after_it() -> None:
    """However many repeats an outage takes, the rows after it have all of theirs."""
    asked = 0

    async def spell(_: str) -> None:
        nonlocal asked
        asked += 1
        # an outage of 3,000 requests, then one failure in three
        if asked <= 3_000 or asked % 3 == 0:
            raise StatusError(503, {"retry-after-ms": "0"})

    ask = rows_over(Model(spell), policy=sr.batch.DEFAULT_POLICY, concurrency=8)
    done = ask([{"text": str(number)} for number in range(1_000)])
    ask.close()

    failed = [row for row in done if row["status"] == "failed"]
    assert 3_000 / 7 - 8 <= len(failed) <= 3_000 / 7
    assert {row["attempts"] for row in failed} == {7}
    assert [row["status"] for row in done[-500:]] == ["ok"] * 500


def test_what_is_closed_is_let_go() -> None:
    """However often it is closed and called again, only the last client is referenced."""
    made: list[weakref.ref[Model]] = []

    def make() -> Model:
        model = Model()
        made.append(weakref.ref(model))
        return model

    ask = rows_over(make)
    for _ in range(3):
        ask([{"text": "x"}])
        ask.close()

    gc.collect()
    assert [model() for model in made] == [None] * 3


def test_a_row_whose_client_was_cancelled_within() -> None:
    """A cancellation that nobody asked for, as of a task that several requests await, fails its row
    and no other.
    """

    async def cancelled(text: str) -> None:
        if text == "b":
            raise asyncio.CancelledError

    ask = rows_over(Model(cancelled))
    assert [row["status"] for row in ask([{"text": text} for text in "abc"])] == [
        "ok",
        "failed",
        "ok",
    ]

    ask.close()


def test_a_ready_client_stays_open() -> None:
    """A client that was given ready is the caller's to close."""
    model = Model()
    ask = rows_over(model)
    ask([{"text": "x"}])
    ask.close()
    assert model.closed == 0


def test_within_an_event_loop() -> None:
    """In a running loop a batch is awaited, and the loop goes on; a plain call works there, too."""
    ticks = 0

    async def main() -> list[Any]:
        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        done = [await ask.acall([{"text": "a"}]), ask([{"text": "b"}])]
        ticking.cancel()

        return done

    ask = rows_over(Model())
    assert [row["status"] for batch in asyncio.run(main()) for row in batch] == ["ok", "ok"]
    assert ticks
    ask.close()


def test_what_is_awaited_can_be_cancelled() -> None:
    """When the caller is cancelled, every request is at its end before the caller goes on."""
    begun = threading.Event()

    async def for_ever(_: str) -> None:
        begun.set()
        await asyncio.sleep(3600)

    model = Model(for_ever)
    ask = rows_over(model, concurrency=4)

    async def main() -> None:
        asking = asyncio.create_task(ask.acall([{"text": str(n)} for n in range(20)]))
        await asyncio.to_thread(begun.wait)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert model.running == 0

    asyncio.run(main())
    assert 1 <= model.cancelled <= 4
    ask.close()


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_what_is_under_way() -> None:
    """Ctrl-C in a plain call ends every request before it goes on up, and the function can be
    called again.
    """
    main = threading.main_thread().ident
    assert main is not None

    async def interrupted(_: str) -> None:
        if len(model.requests) == 1:
            signal.pthread_kill(main, signal.SIGINT)
        if not model.asked["calm"]:
            await asyncio.sleep(3600)

    model = Model(interrupted)
    ask = rows_over(model, concurrency=4)

    with pytest.raises(KeyboardInterrupt):
        ask([{"text": str(n)} for n in range(9)])

    assert model.running == 0
    assert model.cancelled >= 1
    assert [row["status"] for row in ask([{"text": "calm"}])] == ["ok"]
    ask.close()


def test_pickled_it_begins_anew() -> None:
    """Pickled and unpickled, used or not, it asks the same; tools made of local functions and types
    go along.
    """
    cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed here")

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    for contract in (
        CONTRACT,
        sr.Contract(tools=[add, Label]),
        sr.Contract(answer={"type": "object"}),
    ):
        ask = sr.batch.rows(
            contract, model="m", client=local_model, messages=lambda row: row["text"]
        )
        first = ask([{"text": "x"}])
        again = cloudpickle.loads(cloudpickle.dumps(ask))
        assert again([{"text": "x"}]) == first

        ask.close()
        again.close()


def local_model() -> Model:
    """Make a model, in whatever process."""
    return Model()


def test_a_fork_has_a_client_of_its_own() -> None:
    """After a fork the child makes its own client and thread, and the parent's go on."""
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this platform does not fork")

    ask = rows_over(local_model)
    ask([{"text": "parent"}])
    reading, writing = os.pipe()

    child = os.fork()
    if not child:
        status = 1
        try:
            os.write(writing, ask([{"text": "child"}])[0]["status"].encode())
            status = 0
        finally:
            os._exit(status)

    assert os.waitpid(child, 0)[1] == 0
    assert os.read(reading, 10) == b"ok"
    os.close(reading)
    os.close(writing)

    assert ask([{"text": "parent"}])[0]["status"] == "ok"
    ask.close()


def test_responses_is_asked_by_its_own_keyword() -> None:
    """With ``api="responses"`` the messages are its input."""
    asked: list[dict[str, Any]] = []

    async def create(**request: Any) -> dict[str, Any]:
        asked.append(request)
        part = {"type": "output_text", "text": GOOD, "annotations": []}
        item = {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }

        usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
        return {
            "id": "r",
            "object": "response",
            "status": "completed",
            "output": [item],
            "usage": usage,
        }

    model = Model()
    # The attribute is that of one test.
    setattr(model, "responses", type("Responses", (), {"create": staticmethod(create)})())  # noqa: B010
    ask = rows_over(model, api="responses")
    row: dict[str, Any] = ask([{"text": "x"}])[0]

    ask.close()
    assert (row["status"], row["usage"]["total_tokens"]) == ("ok", 7)
    assert "messages" not in asked[0]


def test_one_quota_over_all_rows() -> None:
    """All rows together repeat no more often than the retry budget says, however many fail."""

    async def down(_: str) -> None:
        raise StatusError(500)

    model = Model(down)
    ask = rows_over(
        model, policy=sr.RetryPolicy(transport_retries=3, retry_budget=5, wait=lambda _: 0)
    )
    done = ask([{"text": str(n)} for n in range(40)])
    ask.close()

    assert {row["status"] for row in done} == {"failed"}
    assert model.asked.total() == 40 + 5


def test_a_stream_gives_each_result_when_it_is_there() -> None:
    """Results come in the order in which rows end, each with its index; a source may be async."""

    async def main() -> list[int]:
        first_may_end = asyncio.Event()

        async def hold(text: str) -> None:
            if text == "0":
                await first_may_end.wait()

        async def source() -> AsyncIterator[dict[str, str]]:
            for number in range(5):
                yield {"text": str(number)}

        seen: list[int] = []
        async with aclosing(rows_over(Model(hold), concurrency=2).stream(source())) as results:
            async for result in results:
                seen.append(result.index)
                if len(seen) == 4:
                    first_may_end.set()

        return seen

    assert asyncio.run(main()) == [1, 2, 3, 4, 0]


@pytest.mark.parametrize("concurrency", [1, 7])
def test_few_rows_are_alive(concurrency: int) -> None:
    """Rows are read no faster than results are taken: of 2,000 no more than the bound are held at
    once.
    """
    alive = most = 0

    class Row(dict[str, str]):
        def __init__(self, text: str) -> None:
            nonlocal alive, most
            super().__init__(text=text)
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    async def main() -> None:
        taken = read = 0

        def source() -> Iterator[Row]:
            nonlocal read
            for read in range(1, 2001):
                yield Row(str(read))

        async with aclosing(
            rows_over(Model(), concurrency=concurrency).stream(source())
        ) as results:
            async for _ in results:
                taken += 1
                assert read - taken < concurrency + 1

                if taken % 100 == 0:  # one who is slow at times
                    for _ in range(50):
                        await asyncio.sleep(0)

        assert taken == 2000

    asyncio.run(main())
    assert most <= concurrency + 1


def test_each_result_is_taken_before_another_row() -> None:
    """``each`` hands over a result before a row is begun in its place, and ends when taking one
    raises.
    """
    taken: list[int] = []
    model = Model()

    def take(result: sr.batch.RowResult, limit: int) -> None:
        assert limit == 3
        assert len(model.requests) - len(taken) <= 3
        taken.append(result.index)
        if len(taken) == 20:
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        asyncio.run(
            rows_over(model, concurrency=3).each(({"text": str(n)} for n in range(99)), take)
        )

    assert len(taken) == 20
    assert len(model.requests) <= 23
    assert model.running == 0


def test_a_stream_that_is_left() -> None:
    """A stream that is closed early cancels what is under way, closes its client, and leaves no
    task.
    """
    made: list[Model] = []

    def make() -> Model:
        made.append(Model(lambda text: asyncio.sleep(0 if text == "0" else 3600)))
        return made[-1]

    async def main() -> None:
        async with aclosing(
            rows_over(make, concurrency=5).stream({"text": str(n)} for n in range(99))
        ) as results:
            async for _ in results:
                break
        assert (made[0].running, made[0].closed) == (0, 1)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert len(made[0].requests) <= 6


def test_a_source_that_breaks() -> None:
    """An exception of the source of rows is raised after the results of the rows before it."""

    def source() -> Iterator[dict[str, str]]:
        yield {"text": "a"}
        raise OSError("the disk is gone")

    async def main() -> list[str]:
        results = aiter(rows_over(Model()).stream(source()))
        first = await anext(results)
        with pytest.raises(OSError, match="the disk is gone"):
            await anext(results)
        return [first.status]

    assert asyncio.run(main()) == ["ok"]


def test_said_in_is_what_was_asked() -> None:
    """The prompt holds the text of its own row, and nothing of another row."""
    model = Model()
    ask = rows_over(model)
    ask([{"text": f"row {n}"} for n in range(10)])
    ask.close()
    assert sorted(map(said_in, model.requests)) == [f"row {n}" for n in range(10)]
    assert all(len(request["messages"]) == 1 for request in model.requests)
