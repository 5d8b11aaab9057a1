"""A durable run does what a plain run does.

It can be followed, answered and retried from any process.
"""

from __future__ import annotations

import asyncio
import copy
import json
import sqlite3
import stat
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.durable.desk import DEATHS

pytest.importorskip("dbos", reason="dbos is an extra")

import strictreply as sr
from strictreply import ContractError
from strictreply.integrations.dbos import DurableRun, DurableRunFailed, DurableRuns, call_key
from strictreply.loop import SessionStoreFailed
from strictreply.loop.invoke_result import InvokeCode, InvokeFailed
from strictreply.testing import (
    ScriptedClient,
    ScriptedModel,
    SignedThoughts,
    Step,
    faults,
    ok,
)
from strictreply.testing.mounting import AsyncScriptedClient

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = sr.Tool.from_json_schema(
    "weather", CITY, description="The weather, which the client knows."
)
POLL = 0.02
PATIENCE = 30


class Desk:
    """Durable runs on a script, with tools that write down what they do."""

    def __init__(
        self,
        *script: Step,
        url: str,
        awaited: bool = False,
        name: str = "desk",
        loop: sr.LoopPolicy | None = None,
        thinks: bool = False,
    ) -> None:
        """Take the model's replies; one that ``thinks`` signs its thoughts."""
        self.done: list[str] = []
        self.keys: list[str | None] = []
        self.gate = threading.Event()
        self.gate.set()

        @sr.tool
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            self.done.append(f"add {a} {b}")
            self.keys.append(call_key())
            self.gate.wait(PATIENCE)
            return a + b

        @sr.tool(needs_approval=True)
        def refund(order: int) -> str:
            """Refund an order."""
            self.done.append(f"refund {order}")
            return "refunded"

        @sr.tool(timeout=PATIENCE)
        def fail(how: str) -> str:
            """Fail in one of several ways."""
            self.done.append(f"fail {how}")
            if how == "exit":
                sys.exit(3)
            if how == "say":
                raise sr.ToolError("there is no such order")
            return "\0" + "x" * 100_000

        self.model = ScriptedModel(*script)
        self.thinking = SignedThoughts(self.model)
        served: Any = self.thinking if thinks else self.model
        client: Any = (AsyncScriptedClient if awaited else ScriptedClient)(served)
        wrapped = sr.wrap(client, tools=[add, refund, fail, WEATHER], parallel=True)
        self.runs = DurableRuns(name, wrapped, url=url, loop=loop or sr.LoopPolicy(), model="m")

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
    """Return a client's result."""
    return {"tool_call_id": call.tool_call_id, "name": call.name, "result_json": text}


def results(run: sr.Run) -> list[str]:
    """Return the results of its calls that the model received."""
    return [str(message["content"]) for message in run.transcript if message["role"] == "tool"]


def failure(run: DurableRun) -> tuple[str, str]:
    """Wait for the run to fail in a way that a retry goes on from.

    The kind and the code of its failure are returned.
    """
    with pytest.raises(DurableRunFailed) as told:
        run.result(poll_seconds=POLL)

    assert told.value.is_resumable
    assert copy.copy(told.value).is_resumable
    return told.value.kind, told.value.code


def wait_for(fact: Callable[[], bool]) -> None:
    """Wait until something is so."""
    soon = threading.Event()
    for _ in range(int(PATIENCE / POLL)):
        if fact():
            return
        soon.wait(POLL)
    raise AssertionError("it never was so")


def left_behind(url: str, **attributes: int) -> None:
    """Leave every run in the hands of a process that died, with what is counted of them."""
    died = (
        "UPDATE workflow_status SET status = 'PENDING', executor_id = 'embedded', "
        "recovery_attempts = 99"
    )
    version = "application_version = 'strictreply-desk-1'"
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute(f"{died}, {version}, attributes = ?", [json.dumps(attributes)])


ADD = sr.Tool.from_json_schema("add", {"type": "object", "properties": {"a": {}, "b": {}}})
ADD_TWICE = ok.calls(*(ok.call(ADD, a=a, b=2) for a in (1, 3)))
REFUND = ok.call(
    sr.Tool.from_json_schema("refund", {"type": "object", "properties": {"order": {}}}), order=7
)
FAIL = sr.Tool.from_json_schema(
    "fail", {"type": "object", "properties": {"how": {"type": "string"}}}
)
ASK_WEATHER = ok.call(WEATHER, city="Rome")


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
def test_tools_run_and_the_answer_comes(desk: Callable[..., Desk], awaited: bool) -> None:
    """Each call of a reply runs once, and its result stands in the order of the calls."""
    place = desk(ADD_TWICE, ok.answer("3 and 5"), awaited=awaited)
    with place as runs:
        run = runs.start("Add.").result(poll_seconds=POLL)

    assert run.answer == "3 and 5"
    assert sorted(place.done) == ["add 1 2", "add 3 2"]
    assert results(run) == ["3", "5"]
    assert len(set(place.keys)) == len(place.keys)

    assert None not in place.keys
    assert [type(asked.reply) for asked in run.replies] == [sr.ToolCalls, sr.DirectAnswer]
    assert run.usage == sum((asked.usage for asked in run.replies), sr.Usage())
    assert run.usage.total_tokens > 0


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
@pytest.mark.req("T29")
def test_signed_thoughts_are_taken_back(desk: Callable[..., Desk], awaited: bool) -> None:
    """A run that the database keeps sends each thought behind what it was made behind."""
    script = [
        faults.unknown_tool(ADD),
        ADD_TWICE,
        ASK_WEATHER,
        faults.unknown_tool(WEATHER),
        ok.call(ADD, a=5, b=6),
        ok.answer("done"),
    ]
    place = desk(*script, awaited=awaited, thinks=True)
    with place as runs:
        started = runs.start("Add.")
        (asked,) = started.result(poll_seconds=POLL).pending
        started.answer([result(asked, '"sunny"')])
        run = started.result(poll_seconds=POLL)

    assert place.thinking.refused == []
    assert place.thinking.requests == len(script)
    assert run.answer == "done"


def test_a_run_is_awaited(desk: Callable[..., Desk]) -> None:
    """``aresult`` waits like ``result``, in an event loop."""
    with desk(ok.answer("Yes."), awaited=True) as runs:
        run = runs.start("Well?")
        assert asyncio.run(run.aresult(poll_seconds=POLL)).answer == "Yes."


def test_one_id_is_one_run(desk: Callable[..., Desk]) -> None:
    """Starting a run that is there already starts nothing."""
    place = desk(ok.answer("First."))
    with place as runs:
        told = [
            runs.start(text, id="ticket-7").result(poll_seconds=POLL).answer
            for text in ("Well?", "And now?")
        ]
    assert told == ["First.", "First."]
    assert len(place.model.requests) == 1


def test_a_run_waits_for_its_client(desk: Callable[..., Desk]) -> None:
    """Results that do not fit spend nothing; those that fit are taken once; then the run has its
    answer.
    """
    place = desk(ASK_WEATHER, ok.answer("Sunny."))
    with place as runs:
        run = runs.start("Weather?")
        paused = run.result(poll_seconds=POLL)
        waiting = run.waiting()
        assert waiting is not None

        assert waiting == paused.response
        (call,) = paused.pending
        good = result(call, "1")

        for fault in ({"tool_call_id": "other"}, {"name": "other"}, {"result_json": "{"}):
            with pytest.raises(InvokeFailed):
                run.answer([good | fault])

        run.answer([result(call, '"sunny"')])
        assert run.result(poll_seconds=POLL).answer == "Sunny."
        assert run.waiting() is None

    assert place.model.requests[1].messages[-1]["content"] == "sunny"


def test_an_answer_is_taken_once(desk: Callable[..., Desk]) -> None:
    """Of several simultaneous answers to a pause one is accepted, and the others are refused."""
    place = desk(ASK_WEATHER, ok.answer("Sunny."))
    with place as runs:
        run = runs.start("Weather?")
        (call,) = run.result(poll_seconds=POLL).pending
        together = threading.Barrier(4)

        def answer(_: int) -> set[str]:
            together.wait(PATIENCE)
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


@pytest.mark.parametrize(("approved", "done"), [(True, ["refund 7"]), (False, [])])
def test_a_call_waits_for_its_approval(
    desk: Callable[..., Desk], approved: bool, done: list[str]
) -> None:
    """The tool runs, once, when somebody allowed it, and not when nobody did."""
    place = desk(REFUND, ok.answer("So be it."))
    with place as runs:
        run = runs.start("Refund 7.")
        (call,) = run.result(poll_seconds=POLL).pending
        assert place.done == []

        with pytest.raises(InvokeFailed):
            run.answer([result(call, '{"approved": true}')])

        run.answer([call.approved() if approved else call.denied()])
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
    """A failure is reported by fields; a retry asks again, and no tool runs a second time."""
    place = desk(ADD_TWICE, faults.bad_request(), ok.answer("3 and 5"))
    with place as runs:
        run = runs.start("Add.")
        assert failure(run) == ("TransportFailed", "invalid_request")
        run.retry()
        assert run.result(poll_seconds=POLL).answer == "3 and 5"

        run.retry()
        assert run.look() is not None

    assert sorted(place.done) == ["add 1 2", "add 3 2"]
    assert len(place.model.requests) == 3


def test_a_retry_does_nothing_a_second_time(desk: Callable[..., Desk]) -> None:
    """A turn that spent its asks fails again when nothing else changed: its tools are not run, its
    asks not asked.
    """
    place = desk(ADD_TWICE, ok.call(ADD, a=5, b=2), loop=sr.LoopPolicy(max_iterations=2))
    with place as runs:
        run = runs.start("Add.")
        assert failure(run)[0] == "IterationsExceeded"
        run.retry()
        assert failure(run)[0] == "IterationsExceeded"
    assert sorted(place.done) == ["add 1 2", "add 3 2"]
    assert len(place.model.requests) == 2


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("say", '{"error":{"type":"ToolError","message":"there is no such order"}}'),
        ("much", "\0xxx"),
    ],
)
def test_what_a_tool_gives_survives_the_database(
    desk: Callable[..., Desk], how: str, told: str
) -> None:
    """The words of a ToolError, a NUL and a long text come to the model as in a plain run."""
    place = desk(ok.call(FAIL, how=how), ok.answer("So it is."))
    with place as runs:
        (content,) = results(runs.start("Fail.").result(poll_seconds=POLL))
    assert content.startswith(told)
    assert len(content) < 2 * sr.LoopPolicy().max_result_chars


def test_a_tool_that_exits_fails_the_run(desk: Callable[..., Desk]) -> None:
    """An exit in a tool takes neither the worker nor the others down, and a retry runs the tool
    again.
    """
    place = desk(ok.call(FAIL, how="exit"), ok.answer("Here."))
    with place as runs:
        run = runs.start("Fail.")
        assert failure(run)[0] == "SystemExit"
        run.retry()
        assert failure(run)[0] == "SystemExit"
        assert runs.start("Well?").result(poll_seconds=POLL).answer == "Here."
    assert place.done == ["fail exit"] * 2


def test_a_worker_that_is_stopped_leaves_its_runs_to_the_next(desk: Callable[..., Desk]) -> None:
    """Steps in flight at the stop are repeated by the next worker; the stopped one writes nothing
    more.
    """
    place = desk(ok.call(ADD, a=1, b=2), ok.answer("3"))
    place.gate.clear()

    with place as runs:
        run = runs.start("Add.")
        wait_for(lambda: len(place.done) == 1)

    with place as runs:
        wait_for(lambda: len(place.done) == 2)
        place.gate.set()
        assert run.result(poll_seconds=POLL).answer == "3"

    assert place.done == ["add 1 2"] * 2
    assert len(place.model.requests) == 2
    assert len(set(place.keys)) == 1


def test_outside_of_a_durable_run_a_call_has_no_key() -> None:
    """A tool that asks for its key can be used in a plain run."""
    assert call_key() is None


def test_a_run_that_processes_die_of_is_given_up(desk: Callable[..., Desk], url: str) -> None:
    """On SQLite, too, so many processes and no more begin a turn; a retry tries it again."""
    place = desk(ok.answer("At last."))
    run = place.runs.start("Well?")
    left_behind(url, drops=DEATHS - 1, recorded=0)
    with place as runs:
        assert failure(run)[0] == "RunGivenUp"
        run.retry()
        assert runs.find(run.id).result(poll_seconds=POLL).answer == "At last."


def test_v18_ids_are_the_same_when_a_turn_is_played_again(url: str) -> None:
    """In the text channel our own ids name the calls: a recorded result fits the call of a turn
    that is retried.
    """

    @sr.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    call = '{"tool": "add", "args": {"a": 1, "b": 2}}'
    answer = '{"answer": "3"}'
    script = ScriptedModel(ok.answer(call), faults.bad_request(), ok.answer(answer))
    client = sr.wrap(ScriptedClient(script), tools=[add], channel="text")
    with DurableRuns("desk", client, url=url, model="m") as runs, runs.worker(poll_seconds=POLL):
        run = runs.start("Add.")
        assert failure(run)[0] == "TransportFailed"
        run.retry()
        assert run.result(poll_seconds=POLL).answer == "3"

    assert len(script.requests) == 3


def test_v12_a_count_holds_for_the_step_it_was_made_on(desk: Callable[..., Desk], url: str) -> None:
    """A run that has recorded a step since it was counted is not given up, whatever DBOS counts of
    its dispatches.
    """
    place = desk(ok.answer("At last."))
    run = place.runs.start("Well?")
    left_behind(url, drops=DEATHS, recorded=7)
    with place:
        assert run.result(poll_seconds=POLL).answer == "At last."


def test_v12_an_orderly_stop_is_no_death(desk: Callable[..., Desk], url: str) -> None:
    """However often workers are stopped while a suspect's tool runs, it is not given up."""
    place = desk(ok.call(ADD, a=1, b=2), ok.answer("3"))
    place.gate.clear()
    run = place.runs.start("Add.")
    left_behind(url)

    for stops in range(1, DEATHS + 2):
        with place:
            wait_for(partial(lambda count: len(place.done) == count, stops))

    place.gate.set()

    with place:
        assert run.result(poll_seconds=POLL).answer == "3"


def test_a_cancelled_run_is_over(desk: Callable[..., Desk]) -> None:
    """A run that was cancelled before a worker came is not worked on, and says so."""
    place = desk(ok.answer("Never."))
    run = place.runs.start("Well?")
    assert run.look() is None
    run.cancel()

    with place:
        assert failure(run)[0] == "RunCancelled"
        assert place.model.requests == []
        run.retry()
        assert run.result(poll_seconds=POLL).answer == "Never."


def test_what_waits_can_be_withdrawn(desk: Callable[..., Desk]) -> None:
    """After a cancel nobody can allow the call any more; neither an answer nor a retry brings it
    back.
    """
    place = desk(REFUND)
    with place as runs:
        run = runs.start("Refund 7.")
        (call,) = run.result(poll_seconds=POLL).pending
        run.cancel()
        assert run.waiting() is None

        with pytest.raises(InvokeFailed) as told:
            run.answer([call.approved()])

        run.cancel()
        run.retry()

        with pytest.raises(DurableRunFailed) as over:
            run.look()

    assert (over.value.kind, over.value.is_resumable) == ("RunCancelled", False)
    assert "retry()" not in str(over.value)
    assert [error.code for error in told.value.errors] == [InvokeCode.NOT_FOUND]
    assert place.done == []


def test_v11_a_decision_on_another_run_is_refused(desk: Callable[..., Desk]) -> None:
    """Equal id, name and arguments in another durable run: refused, nothing spent, and the right
    decision fits.
    """
    place = desk(REFUND, REFUND, ok.answer("Paid."))
    with place as runs:
        first, second = (runs.start("Refund 7.", id=one) for one in ("first", "second"))
        (theirs,), (ours,) = (run.result(poll_seconds=POLL).pending for run in (first, second))

        with pytest.raises(InvokeFailed) as told:
            second.answer([replace(theirs.approved(), tool_call_id=ours.tool_call_id)])

        assert place.done == []
        second.answer([ours.approved()])
        assert second.result(poll_seconds=POLL).answer == "Paid."

    (error,) = told.value.errors
    assert error.code == InvokeCode.DECISION_ELSEWHERE
    assert place.done == ["refund 7"]


@pytest.mark.parametrize("method", ["look", "waiting", "cancel", "retry"])
def test_a_run_that_is_not_there_is_said_so(desk: Callable[..., Desk], method: str) -> None:
    """Every method of a handle with an unknown id raises, and does not wait."""
    with pytest.raises(DurableRunFailed) as told:
        getattr(desk().runs.find("nobody"), method)()
    assert (told.value.kind, told.value.is_resumable) == ("RunNotFound", False)


def test_ids_are_what_they_are(desk: Callable[..., Desk]) -> None:
    """Ids that differ in case, hold wildcards, or begin alike are different runs, and each kind has
    its own.
    """
    ids = ["Ab", "ab", "a%", "a_", "a b", "ä 😀", "x" * 200]
    place = desk(*[ASK_WEATHER] * len(ids), *[ok.answer("Sunny.")] * len(ids))
    other = desk(name="other")

    with place as runs:
        handles = [runs.start("Weather?", id=one) for one in ids]
        pending = [run.result(poll_seconds=POLL).pending for run in handles]
        for run, (call,) in zip(handles, pending, strict=True):
            run.answer([call.answered("sunny")])

        assert {run.result(poll_seconds=POLL).answer for run in handles} == {"Sunny."}
        assert other.runs.start("Weather?", id="Ab").look() is None

    other.runs.close()


@pytest.mark.parametrize("bad", ["", " ", "a/b", "a\0b", "\ud800", "x" * 201, "a\nb"])
def test_ids_that_are_none(desk: Callable[..., Desk], bad: str) -> None:
    """An id that no database could keep is refused where it is given."""
    with pytest.raises(ContractError):
        desk().runs.start("Well?", id=bad)


def test_two_kinds_in_one_database(desk: Callable[..., Desk]) -> None:
    """Each is worked on by a worker of its own, or both in one process, the second on the DBOS of
    the first.
    """
    first = desk(ok.answer("One."), ok.answer("Three."))
    second = desk(ok.answer("Two."), name="second")
    third = desk(ok.answer("Four."), name="third")

    def told(runs: DurableRuns) -> Any:
        return runs.start("Well?").result(poll_seconds=POLL).answer

    with first as runs:
        assert told(runs) == "One."

    with second as runs:
        assert told(runs) == "Two."

    with first as runs, third.runs as others, others.worker(poll_seconds=POLL, launch=False):
        assert (told(runs), told(others)) == ("Three.", "Four.")


def test_messages_that_cannot_be_kept(desk: Callable[..., Desk]) -> None:
    """A lone surrogate is refused before anything is started, without its words."""
    place = desk()
    with pytest.raises(ContractError) as told:
        place.runs.start("canary \ud800", id="run")
    assert "canary" not in str(told.value)
    with pytest.raises(DurableRunFailed):
        place.runs.find("run").look()
    place.runs.close()


def test_an_answer_that_does_not_fit_any_more(url: str) -> None:
    """A process with another contract is told so, and not given what its own would refuse."""

    def runs_of(answer: type) -> DurableRuns:
        client = sr.wrap(ScriptedClient(ScriptedModel(ok.answer("7"))), answer=answer)
        return DurableRuns("desk", client, url=url, model="m")

    with runs_of(int) as runs, runs.worker(poll_seconds=POLL):
        run = runs.start("How many?", id="run")
        assert run.result(poll_seconds=POLL).answer == 7

    with runs_of(list) as later, pytest.raises(InvokeFailed) as told:
        later.find("run").look()

    assert [error.code for error in told.value.errors] == [InvokeCode.TOOLS_CHANGED]


@pytest.mark.req("P65")
def test_a_request_that_breaks_a_rule_is_reported_with_its_code(url: str) -> None:
    """InvokeFailed in a worker has the code of its first error, as it has in a plain run."""

    def runs_of(kind: type) -> DurableRuns:
        def refund(order: Any) -> str:
            """Pay an order back."""
            return f"paid {order}"

        refund.__annotations__["order"] = kind
        tool = sr.Tool.from_function(refund, needs_approval=True)
        model = ScriptedModel(ok.call(tool, order=7 if kind is int else "7"))
        return DurableRuns("desk", sr.wrap(ScriptedClient(model), tools=[tool]), url=url, model="m")

    with runs_of(int) as runs, runs.worker(poll_seconds=POLL):
        paused = runs.start("Refund 7.", id="run").result(poll_seconds=POLL)

    with runs_of(str) as later, later.worker(poll_seconds=POLL):
        run = later.find("run")
        run.answer([call.approved() for call in paused.pending])
        assert failure(run) == ("InvokeFailed", InvokeCode.TOOLS_CHANGED)


def test_v14_a_database_that_is_down_is_said_so() -> None:
    """Starting and working do not wait for ever; the error names the database without its user."""
    pytest.importorskip("psycopg", reason="psycopg, which talks to PostgreSQL, is an extra")
    url = "postgresql://canary:canary@127.0.0.1:1/none"
    runs = DurableRuns("desk", sr.wrap(ScriptedClient(ScriptedModel())), url=url, model="m")

    with pytest.raises(SessionStoreFailed) as starting:
        runs.start("canary")

    with pytest.raises(SessionStoreFailed) as working, runs.worker():
        pass

    for told in (starting, working):
        assert (told.value.reason, "127.0.0.1:1" in str(told.value)) == ("unreachable", True)
        assert "canary" not in str(told.value)


@pytest.mark.parametrize("use", ["look", "waiting", "cancel", "retry", "answer"])
def test_v14_a_database_that_is_damaged_is_said_so(
    desk: Callable[..., Desk], url: str, use: str
) -> None:
    """With an overwritten database every method raises SessionStoreFailed, without stored data."""
    place = desk(ok.answer("Never."))
    run = place.runs.start("canary")
    place.runs.close()

    path = Path(url.removeprefix("sqlite:///"))
    for each in path.parent.glob(f"{path.name}-*"):
        each.unlink()

    path.write_bytes(b"no database at all" * 500)

    with pytest.raises(SessionStoreFailed) as told:
        getattr(run, use)(*([()] if use == "answer" else []))

    assert (told.value.reason, str(path) in told.value.place) == ("corrupt", True)
    assert "canary" not in str(told.value)
    place.runs.close()


@pytest.mark.parametrize("use", ["look", "waiting", "cancel", "answer"])
@pytest.mark.parametrize("kept", ["canary", '"canary"', '{"canary": 1}'])
def test_v14_a_record_that_is_none_is_said_so(
    desk: Callable[..., Desk], url: str, use: str, kept: str
) -> None:
    """Reading an overwritten turn end raises SessionStoreFailed, without the record's words."""
    place = desk(ok.call(WEATHER, city="Rome"))
    with place as runs:
        run = runs.start("Well?", id="run")
        calls = run.result(poll_seconds=POLL).pending

    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database, database:
        database.execute("UPDATE workflow_output SET output = ?", [kept])

    with pytest.raises(SessionStoreFailed) as told:
        getattr(run, use)(*([[call.answered("sun") for call in calls]] if use == "answer" else []))

    assert told.value.reason == "unreadable"
    assert "canary" not in "".join(traceback.format_exception(told.value))
    place.runs.close()


def test_v14_a_file_that_nobody_can_make(tmp_path: Path) -> None:
    """A file in a missing folder raises SessionStoreFailed, in a worker and when a run starts."""
    runs = DurableRuns(
        "desk",
        sr.wrap(ScriptedClient(ScriptedModel())),
        url=f"sqlite:///{tmp_path}/no/runs",
        model="m",
    )
    with pytest.raises(SessionStoreFailed) as told, runs.worker():
        pass

    assert (told.value.reason, "no/runs" in told.value.place) == ("unreachable", True)


@pytest.mark.parametrize(
    "url", ["canary", "", "postgresql://ada:p@canary@h:x/d", "mysql://h/canary", None]
)
def test_v14_an_address_that_is_none(url: Any) -> None:
    """An address that no database has is refused when the runs are declared, in words that repeat
    nothing of it.
    """
    with pytest.raises(ContractError) as told:
        DurableRuns("desk", sr.wrap(ScriptedClient(ScriptedModel())), url=url, model="m")
    assert "canary" not in "".join(traceback.format_exception(told.value, limit=0, chain=True))


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
def test_v13_the_database_is_made_for_its_owner_alone(desk: Callable[..., Desk], url: str) -> None:
    """Conversations stand in the file of durable runs, too: it is 0600, and so is what SQLite puts
    beside it.
    """
    place = desk()
    place.runs.start("Well?")
    files = Path(url.removeprefix("sqlite:///")).parent.iterdir()
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    place.runs.close()


def test_an_app_that_has_launched_nothing(desk: Callable[..., Desk]) -> None:
    """Serving on the app's DBOS needs one."""
    with pytest.raises(ContractError, match="launch"), desk().runs.worker(launch=False):
        pass


def test_one_process_works_on_a_file(desk: Callable[..., Desk], url: str) -> None:
    """A second worker on the same SQLite file is refused: it would do everything twice."""
    with (
        desk(),
        pytest.raises(ContractError, match="several workers need PostgreSQL"),
        desk().runs.worker(),
    ):
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
        DurableRuns(
            "desk",
            sr.wrap(ScriptedClient(ScriptedModel()), tools=[later]),
            url="sqlite:///never",
            model="m",
        )


@pytest.mark.parametrize("url", ["mysql://h/d", "sqlite://", "sqlite:///:memory:"])
def test_urls_that_are_none(url: str) -> None:
    """Only SQLite in a file and PostgreSQL can be worked on."""
    with (
        pytest.raises(ContractError),
        DurableRuns("desk", sr.wrap(ScriptedClient(ScriptedModel())), url=url).worker(),
    ):
        pass
