"""A durable run does what a plain run does, and can be followed, answered and retried from any process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbos", reason="dbos is an extra")

import strictreply as sr
from strictreply.errors import ContractError
from strictreply.integrations.dbos import DurableRunFailed, DurableRuns
from strictreply.pipeline.results import InvokeCode, InvokeFailed
from strictreply.testing import ScriptedClient, ScriptedModel, Step, faults, ok
from strictreply.testing.scripted_client import AsyncScriptedClient

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = sr.Tool.from_json_schema("weather", CITY, description="The weather, which the client knows.")
POLL = 0.02


class Desk:
    """Durable runs on a script, with tools that write down what they do."""

    def __init__(self, *script: Step, url: str, awaited: bool = False) -> None:
        """Take the model's replies."""
        self.done: list[str] = []

        @sr.tool
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            self.done.append(f"add {a} {b}")
            return a + b

        @sr.tool(needs_approval=True)
        def refund(order: int) -> str:
            """Refund an order."""
            self.done.append(f"refund {order}")
            return "refunded"

        self.add, self.refund = add, refund
        self.model = ScriptedModel(*script)
        client: Any = (AsyncScriptedClient if awaited else ScriptedClient)(self.model)
        wrapped = sr.wrap(client, tools=[add, refund, WEATHER], parallel=True)
        self.runs = DurableRuns("desk", wrapped, url=url, model="m")

    def __enter__(self) -> DurableRuns:
        """Work."""
        self._worker = self.runs.worker(poll_seconds=POLL)
        self._worker.__enter__()
        return self.runs

    def __exit__(self, *raised: object) -> None:
        """Work no more."""
        self.runs.close()
        self._worker.__exit__(None, None, None)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database for one process."""
    return f"sqlite:///{tmp_path}/runs.sqlite"


@pytest.fixture
def desk(url: str) -> Callable[..., Desk]:
    """Make a desk on that database."""
    return lambda *script, **settings: Desk(*script, url=url, **settings)


def result(call: Any, text: str) -> dict[str, str]:
    """Give a client's result."""
    return {"tool_call_id": call.tool_call_id, "name": call.name, "result_json": text}


ADD = sr.Tool.from_json_schema("add", {"type": "object", "properties": {"a": {}, "b": {}}})
ADD_TWICE = ok.calls(*(ok.call(ADD, a=a, b=2) for a in (1, 3)))
REFUND = ok.call(sr.Tool.from_json_schema("refund", {"type": "object", "properties": {"order": {}}}), order=7)
ASK_WEATHER = ok.call(WEATHER, city="Rome")


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
def test_tools_run_and_the_answer_comes(desk: Callable[..., Desk], awaited: bool) -> None:
    """Each call of a reply runs once, and its result stands in the order of the calls."""
    place = desk(ADD_TWICE, ok.answer("3 and 5"), awaited=awaited)
    with place as runs:
        run = runs.start("Add.").result(poll_seconds=POLL)
    assert run.answer == "3 and 5"
    assert sorted(place.done) == ["add 1 2", "add 3 2"]
    assert [message["content"] for message in run.transcript if message["role"] == "tool"] == ["3", "5"]


def test_a_run_is_awaited(desk: Callable[..., Desk]) -> None:
    """``aresult`` waits like ``result``, in an event loop."""
    with desk(ok.answer("Yes."), awaited=True) as runs:
        run = runs.start("Well?")
        assert asyncio.run(run.aresult(poll_seconds=POLL)).answer == "Yes."


def test_one_id_is_one_run(desk: Callable[..., Desk]) -> None:
    """Starting a run that is there already starts nothing."""
    place = desk(ok.answer("First."))
    with place as runs:
        told = [runs.start("Well?", id="ticket-7").result(poll_seconds=POLL).answer for _ in range(2)]
    assert told == ["First.", "First."]
    assert len(place.model.requests) == 1


def test_a_run_waits_for_its_client(desk: Callable[..., Desk]) -> None:
    """Results that do not fit spend nothing; those that fit are taken once; then the run has its answer."""
    place = desk(ASK_WEATHER, ok.answer("Sunny."))
    with place as runs:
        run = runs.start("Weather?")
        paused = run.result(poll_seconds=POLL)
        waiting = run.waiting()
        assert waiting is not None
        assert waiting == paused.response
        with pytest.raises(InvokeFailed):
            run.answer([{"tool_call_id": "other", "name": "weather", "result_json": "1"}])
        (call,) = paused.pending
        run.answer([result(call, '"sunny"')])
        assert run.result(poll_seconds=POLL).answer == "Sunny."
        assert run.waiting() is None
    assert place.model.requests[1].messages[-1]["content"] == "sunny"


def test_an_answer_is_taken_once(desk: Callable[..., Desk]) -> None:
    """Of several who answer the same pause at the same time one is taken, and the others are told so."""
    place = desk(ASK_WEATHER, ok.answer("Sunny."))
    with place as runs:
        run = runs.start("Weather?")
        (call,) = run.result(poll_seconds=POLL).pending
        together = threading.Barrier(4)

        def answer(_: int) -> set[str]:
            together.wait(30)
            try:
                run.answer([result(call, '"sunny"')])
            except InvokeFailed as error:
                return {one.code for one in error.errors}
            return set()

        with ThreadPoolExecutor(4) as pool:
            told = list(pool.map(answer, range(4)))
        assert run.result(poll_seconds=POLL).answer == "Sunny."
    assert sum(codes == set() for codes in told) == 1
    assert set().union(*told) <= {InvokeCode.ALREADY_CONSUMED, InvokeCode.NOT_FOUND}


@pytest.mark.parametrize(("approved", "done"), [("true", ["refund 7"]), ("false", [])])
def test_a_call_waits_for_its_approval(desk: Callable[..., Desk], approved: str, done: list[str]) -> None:
    """The tool runs, once, when somebody allowed it, and not when nobody did."""
    place = desk(REFUND, ok.answer("So be it."))
    with place as runs:
        run = runs.start("Refund 7.")
        (call,) = run.result(poll_seconds=POLL).pending
        assert place.done == []
        run.answer([result(call, f'{{"approved": {approved}}}')])
        assert run.result(poll_seconds=POLL).answer == "So be it."
    assert place.done == done


def test_a_conversation_goes_on(desk: Callable[..., Desk]) -> None:
    """A run after another one is told what was said."""
    place = desk(ok.answer("Rome."), ok.answer("Italy."))
    with place as runs:
        first = runs.start("Which city?")
        first.result(poll_seconds=POLL)
        assert runs.start("And where?", after=first).result(poll_seconds=POLL).answer == "Italy."
    assert [message["content"] for message in place.model.requests[1].messages] == [
        "Which city?",
        "Rome.",
        "And where?",
    ]


def test_a_failed_run_is_retried_from_where_it_failed(desk: Callable[..., Desk], url: str) -> None:
    """What failed is told by fields; a retry asks again, and no tool runs a second time."""
    place = desk(ADD_TWICE, faults.bad_request(), ok.answer("3 and 5"))
    with place as runs:
        run = runs.start("Add.")
        with pytest.raises(DurableRunFailed) as told:
            run.result(poll_seconds=POLL)
        run.retry()
        assert run.result(poll_seconds=POLL).answer == "3 and 5"
    assert (told.value.kind, told.value.code) == ("TransportFailed", "invalid_request")
    assert sorted(place.done) == ["add 1 2", "add 3 2"]


def test_a_cancelled_run_is_over(desk: Callable[..., Desk]) -> None:
    """A run that was cancelled before a worker came is not worked on, and says so."""
    place = desk(ok.answer("Never."))
    run = place.runs.start("Well?")
    assert run.look() is None
    run.cancel()
    with place, pytest.raises(DurableRunFailed) as told:
        run.result(poll_seconds=POLL)
    assert told.value.kind == "RunCancelled"
    assert place.model.requests == []


def test_a_run_that_is_not_there_is_said_so(desk: Callable[..., Desk]) -> None:
    """Looking for an id that nobody started raises, and waits for nothing."""
    with desk() as runs, pytest.raises(DurableRunFailed) as told:
        runs.find("nobody").look()
    assert told.value.kind == "RunNotFound"


def test_one_process_works_on_a_file(desk: Callable[..., Desk], url: str) -> None:
    """A second worker on the same SQLite file is refused: it would do everything twice."""
    with desk(), pytest.raises(ContractError, match="several workers need PostgreSQL"), desk().runs.worker():
        pass


@pytest.mark.parametrize("name", ["", "Desk", "a/b", "x" * 65])
def test_names_that_are_none(name: str) -> None:
    """A name that DBOS could not take is refused where it is given."""
    with pytest.raises(ContractError):
        DurableRuns(name, sr.wrap(ScriptedClient(ScriptedModel())), url="sqlite:///never")


def test_a_sync_client_has_no_async_tools() -> None:
    """A tool that could not be awaited is refused before anything is started."""

    @sr.tool
    async def later() -> None:
        """Do it later."""

    with pytest.raises(ContractError):
        DurableRuns("desk", sr.wrap(ScriptedClient(ScriptedModel()), tools=[later]), url="sqlite:///never", model="m")


def test_urls_that_are_none() -> None:
    """Only SQLite in a file and PostgreSQL can be worked on."""
    with (
        pytest.raises(ContractError),
        DurableRuns("desk", sr.wrap(ScriptedClient(ScriptedModel())), url="mysql://h/d").worker(),
    ):
        pass
