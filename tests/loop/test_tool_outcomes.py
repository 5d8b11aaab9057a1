"""What a tool is given beside its arguments, and the ways in which it ends a call or a run."""

from __future__ import annotations

import asyncio
import logging
import math
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

import strictreply as sr
from strictreply.loop import SQLiteSessionStore, ToolFinished
from strictreply.pipeline import AgentToolCall
from support.scripted import USER, AsyncClient, Client, call, completion

DONE = completion("done")


class Desk:
    """What a program gives its tools."""

    def __init__(self) -> None:
        """Nothing was looked up yet."""
        self.seen: list[str] = []


@sr.tool
def look_up(desk: sr.Context[Desk], query: str) -> str:
    """Look up, with what the program gives."""
    desk.seen.append(query)
    return query


@sr.tool
async def await_look_up(query: str, *, desk: sr.Context[Desk] | None = None) -> str:
    """Look up where a desk is given."""
    if desk is not None:
        desk.seen.append(query)
    return query


def act(args: dict[str, Any], desk: sr.Context[Desk]) -> str:
    """Take the arguments of a schema whole, and the context."""
    desk.seen.append(args["query"])
    return "done"


def act_alone() -> str:
    """Take nothing."""
    return "done"


ACT = sr.Tool.from_json_schema(
    "act", {"type": "object", "properties": {"query": {"type": "string"}}}, function=act
)


def asking(tool: sr.Tool[..., Any], times: int = 1) -> list[Any]:
    """Call a tool so many times, each time with other arguments, and answer."""
    return [
        *(completion(None, [call(tool.name, {"query": f"q{n}"}, f"c{n}")]) for n in range(times)),
        DONE,
    ]


@pytest.mark.parametrize("tool", [look_up, ACT], ids=["function", "schema"])
def test_the_context_is_given_and_not_shown(tool: Any) -> None:
    """A parameter of the type Context is in no schema, and gets what the run was given."""
    assert list(tool.definition["function"]["parameters"]["properties"]) == ["query"]
    desk = Desk()
    sync = Client(*asking(tool))
    assert sr.run(sr.wrap(sync, tools=[tool]), USER, model="m", context=desk).answer == "done"

    client: Any = sr.wrap(AsyncClient(*asking(tool)), tools=[tool])
    asyncio.run(sr.arun(client, USER, model="m", context=desk))
    events = list(
        sr.run_stream(
            sr.wrap(Client(*asking(tool)), tools=[tool]),
            USER,
            model="m",
            context=desk,
            stream=False,
        )
    )
    assert events != []
    assert desk.seen == ["q0", "q0", "q0"]


def test_a_missing_context_is_an_error_before_anything_is_asked() -> None:
    """A tool that takes a context is not run without one; one with a default is."""
    fake = Client(*asking(look_up))
    with pytest.raises(sr.ContractError, match=r"'look_up' needs a context as 'desk'.*context="):
        sr.run(sr.wrap(fake, tools=[look_up]), USER, model="m")
    assert fake.script.requests == []

    with pytest.raises(sr.ContractError, match="context"):
        look_up.run(look_up.build({"query": "a"}))

    client: Any = sr.wrap(AsyncClient(*asking(await_look_up)), tools=[await_look_up])
    assert asyncio.run(sr.arun(client, USER, model="m")).answer == "done"


def test_a_tool_ends_the_run() -> None:
    """AbortRun ends the run at once, and tells its story; nothing more is asked."""

    @sr.tool
    def stop(query: str) -> str:
        """Stop."""
        raise sr.AbortRun("the account is closed")

    fake = Client(*asking(stop, 2))
    with pytest.raises(sr.AbortRun, match="the account is closed") as caught:
        sr.run(sr.wrap(fake, tools=[stop]), USER, model="m")

    error = caught.value
    assert (error.tool, error.call_id, error.reason) == ("stop", "c0", "raised")
    assert len(error.run.attempts) == 1
    assert "q0" in error.explain()
    assert len(fake.script.requests) == 1
    assert pickle.loads(pickle.dumps(error)).to_dict() == error.to_dict()  # noqa: S301

    client: Any = sr.wrap(AsyncClient(*asking(stop, 2)), tools=[stop])
    with pytest.raises(sr.AbortRun):
        asyncio.run(sr.arun(client, USER, model="m"))


def failing(error: BaseException) -> list[sr.Tool[..., Any]]:
    """Two tools, sync and async, that raise this."""

    def stop(query: str) -> str:
        """Stop."""
        raise error

    async def await_stop(query: str) -> str:
        """Stop, later."""
        raise error

    return [sr.Tool.from_function(stop), sr.Tool.from_function(await_stop)]


CLOSED = "the account is closed"


@pytest.mark.parametrize(
    "errors",
    [
        [sr.AbortRun(CLOSED)],
        [ExceptionGroup("inner", [ValueError("x"), sr.AbortRun(CLOSED)])],
        [sr.ToolError("no"), KeyError("x"), sr.AbortRun(CLOSED)],
    ],
    ids=["alone", "nested", "mixed"],
)
def test_a_group_with_an_end_of_the_run_ends_it(errors: list[Exception]) -> None:
    """AbortRun ends the run also inside groups of exceptions, whatever else is in them."""
    group = ExceptionGroup("tasks", errors)
    tool, later = failing(group)
    fake = Client(*asking(tool, 2))
    with pytest.raises(sr.AbortRun, match=CLOSED) as caught:
        sr.run(sr.wrap(fake, tools=[tool]), USER, model="m")

    assert (caught.value.tool, caught.value.call_id) == ("stop", "c0")
    assert caught.value.__cause__ is group
    assert len(fake.script.requests) == 1
    with pytest.raises(sr.AbortRun, match=CLOSED):
        tool.run(tool.build({"query": "q"}))

    client: Any = sr.wrap(AsyncClient(*asking(later, 2)), tools=[later])
    with pytest.raises(sr.AbortRun, match=CLOSED):
        asyncio.run(sr.arun(client, USER, model="m"))

    several = completion(None, [call("await_stop", {"query": each}, each) for each in "ab"])
    client = sr.wrap(AsyncClient(several, DONE), tools=[later], parallel=True)
    with pytest.raises(sr.AbortRun, match=CLOSED):
        asyncio.run(sr.arun(client, USER, model="m"))


def test_a_task_group_passes_the_end_of_a_run() -> None:
    """A task of a tool's own TaskGroup ends the run, and its other tasks end."""
    ended: list[str] = []

    async def wait() -> None:
        """Wait until somebody cancels."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waiting")

    async def abort() -> None:
        """End the run, after the other task has begun."""
        await asyncio.sleep(0)
        raise sr.AbortRun(CLOSED)

    @sr.tool
    async def both(query: str) -> str:
        """Do both."""
        async with asyncio.TaskGroup() as group:
            group.create_task(wait())
            group.create_task(abort())
        return query

    client: Any = sr.wrap(AsyncClient(*asking(both)), tools=[both])
    with pytest.raises(sr.AbortRun, match=CLOSED) as caught:
        asyncio.run(sr.arun(client, USER, model="m"))

    assert caught.value.tool == "both"
    assert ended == ["waiting"]


@pytest.mark.parametrize("stronger", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_a_group_of_the_interpreters_own_goes_out_as_it_is(stronger: type[BaseException]) -> None:
    """A BaseExceptionGroup is no Exception: no loop takes anything out of it."""
    group = BaseExceptionGroup("tasks", [stronger(), sr.AbortRun(CLOSED)])
    tool, later = failing(group)
    with pytest.raises(BaseExceptionGroup) as caught:
        sr.run(sr.wrap(Client(*asking(tool, 2)), tools=[tool]), USER, model="m")
    assert caught.value is group

    client: Any = sr.wrap(AsyncClient(*asking(later, 2)), tools=[later])
    with pytest.raises(BaseExceptionGroup):
        asyncio.run(sr.arun(client, USER, model="m"))


def test_a_group_without_an_end_is_a_failure() -> None:
    """The model is told that a tool failed that raised a group of ordinary errors."""
    tool, _ = failing(ExceptionGroup("tasks", [ValueError("x"), KeyError("y")]))
    run = sr.run(sr.wrap(Client(*asking(tool)), tools=[tool]), USER, model="m")
    told = run.transcript[3]["content"]
    assert told == '{"error":{"type":"ExceptionGroup","message":"the tool failed"}}'


@pytest.mark.parametrize(
    ("own", "loop"),
    [({"max_failures": 2}, sr.LoopPolicy()), ({}, sr.LoopPolicy(max_tool_failures=2))],
)
def test_a_tool_that_keeps_failing_ends_the_run(own: Any, loop: sr.LoopPolicy) -> None:
    """So many failures in a row end the run, whatever the arguments were."""

    def fail(query: str) -> str:
        """Fail."""
        raise KeyError(query)

    tool = sr.Tool.from_function(fail, **own)
    fake = Client(*asking(tool, 5))
    with pytest.raises(sr.AbortRun) as caught:
        sr.run(sr.wrap(fake, tools=[tool]), USER, model="m", loop=loop)

    assert (caught.value.reason, caught.value.tool, caught.value.call_id) == (
        "failures",
        "fail",
        "c1",
    )
    assert isinstance(caught.value.__cause__, sr.ToolExecutionError)
    assert len(fake.script.requests) == 2


def test_a_success_begins_the_count_anew() -> None:
    """Only failures in a row count; a limit that is not a whole number is refused."""

    @sr.tool(max_failures=2)
    def flaky(query: str) -> str:
        """Fail every other time."""
        if query in ("q0", "q2"):
            raise sr.ToolError("busy")
        return query

    client = sr.wrap(Client(*asking(flaky, 4)), tools=[flaky])
    assert sr.run(client, USER, model="m").answer == "done"

    with pytest.raises(sr.ContractError, match="max_failures"):
        sr.Tool.from_function(act_alone, max_failures=0)


class Thumb(BaseModel):
    """A result with bytes."""

    data: bytes


class Mean(BaseModel):
    """A result with a number."""

    mean: float


class Spelled(Mean):
    """The same, whose configuration says how it is written without one."""

    model_config = ConfigDict(ser_json_inf_nan="null")


@dataclass
class Share:
    """A result of the standard library's."""

    share: Decimal


def returning(result: Any) -> Any:
    """Return the function of a tool that returns this."""

    def give(args: Any) -> Any:
        return result

    return give


class Frame:
    """A value that no JSON holds."""


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (Thumb(data=b"\xff\xfe"), '{"data":"//4="}'),
        ([{"at": b"\xff"}], '[{"at":"/w=="}]'),
        ({"a": {1}}, '{"a":[1]}'),
        ([Spelled(mean=math.nan)], '[{"mean":null}]'),
        ({"a": 1e308, "b": Decimal("1.5")}, '{"a":1e+308,"b":"1.5"}'),
    ],
)
def test_results_are_json(result: Any, told: str) -> None:
    """Models and bytes inside of anything are told as JSON."""
    tool = sr.Tool.from_json_schema("t", {"type": "object"}, function=returning(result))
    client = sr.wrap(Client(completion(None, [call("t", {})]), DONE), tools=[tool])
    assert sr.run(client, USER, model="m").transcript[3]["content"] == told


@pytest.mark.parametrize(
    "result",
    [{"frames": [Frame()]}, {1: "a", "1": "b"}, Frame, 10**5000],
    ids=["inside", "twice", "class", "long"],
)
def test_a_result_that_is_no_json_is_the_authors(
    result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What JSON cannot hold is an error that names the tool, logged for its author; the model only
    learns that the tool failed.
    """
    tool = sr.Tool.from_json_schema("show", {"type": "object"}, function=returning(result))
    client = sr.wrap(Client(completion(None, [call("show", {})]), DONE), tools=[tool])
    ended: list[Any] = []
    with caplog.at_level(logging.ERROR, logger="strictreply"):
        run = sr.run(client, USER, model="m", on_event=ended.append)

    error = next(each.outcome.error for each in ended if isinstance(each, ToolFinished))
    assert isinstance(error, sr.ToolResultError)
    assert isinstance(error, TypeError)
    assert error.tool == "show"
    assert "tool 'show' returned" in caplog.text
    told = run.transcript[3]["content"]
    assert told == '{"error":{"type":"ToolResultError","message":"the tool failed"}}'


class Rows(Mapping[str, Any]):
    """Rows that are fetched when they are read."""

    def __init__(self, error: Exception) -> None:
        """Keep what reading them raises."""
        self.error = error

    def __len__(self) -> int:
        """Return how many there are."""
        return 1

    def __iter__(self) -> Iterator[str]:
        """Yield their names."""
        return iter(["a"])

    def __getitem__(self, name: str) -> Any:
        """Fetch one."""
        raise self.error


@pytest.mark.parametrize("error", [ConnectionError("gone"), KeyError("a")])
def test_a_result_that_cannot_be_read_is_the_authors(error: Exception) -> None:
    """What the code of a result raises while it is written ends no run: the tool has failed."""
    rows = returning({"rows": Rows(error)})
    tool = sr.Tool.from_json_schema("show", {"type": "object"}, function=rows)
    client = sr.wrap(Client(completion(None, [call("show", {})]), DONE), tools=[tool])
    run = sr.run(client, USER, model="m")
    told = run.transcript[3]["content"]
    assert told == '{"error":{"type":"ToolResultError","message":"the tool failed"}}'
    assert run.answer == "done"


def test_a_result_that_ends_the_run_while_it_is_written_ends_it() -> None:
    """AbortRun is raised as it is wherever the tool's code raises it."""
    rows = returning([Rows(sr.AbortRun("enough"))])
    tool = sr.Tool.from_json_schema("show", {"type": "object"}, function=rows)
    client = sr.wrap(Client(completion(None, [call("show", {})]), DONE), tools=[tool])
    with pytest.raises(sr.AbortRun, match="enough"):
        sr.run(client, USER, model="m")


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
def test_a_tool_that_ends_an_approved_call_is_not_run_again(
    tmp_path: Path, *, awaited: bool
) -> None:
    """With a store of sessions, the same answer or a new message goes on without the call."""

    def end(query: str) -> str:
        """End the run."""
        seen.append(query)
        raise sr.AbortRun("closed")

    async def aend(query: str) -> str:
        """End the run."""
        return end(query)

    seen: list[str] = []
    tool = sr.Tool.from_function(aend if awaited else end, name="end", needs_approval=True)
    store = SQLiteSessionStore(tmp_path / "sessions.sqlite")

    def go(*script: Any, **given: Any) -> sr.Run:
        if awaited:
            client: Any = sr.wrap(AsyncClient(*script), tools=[tool])
            return asyncio.run(sr.arun(client, model="m", sessions=store, **given))
        return sr.run(sr.wrap(Client(*script), tools=[tool]), model="m", sessions=store, **given)

    paused = go(*asking(tool)[:1], messages=USER)
    approved = [call.approved() for call in paused.pending]
    with pytest.raises(sr.AbortRun) as raised:
        go(continuation=paused, results=approved)
    assert raised.value.run.transcript[-1]["role"] == "tool"

    assert go(DONE, continuation=paused, results=approved).answer == "done"
    assert go(DONE, after=paused, messages="And now?").answer == "done"
    assert seen == ["q0"]


@pytest.mark.parametrize(
    ("result", "path", "kind"),
    [
        (math.nan, "", "NaN"),
        ({"rows": [1.0, math.nan]}, "/rows/1", "NaN"),
        ({"a": -math.inf}, "/a", "-Infinity"),
        (Mean(mean=math.inf), "/mean", "Infinity"),
        ([Mean(mean=math.nan)], "/0/mean", "NaN"),
        (Share(Decimal("NaN")), "/share", "NaN"),
        ({"a": {math.nan: 3}}, "/a", "NaN"),
    ],
)
def test_a_number_that_is_none_is_the_authors(
    result: Any, path: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """NaN and infinities in a result are an error with their place, never a text for the model."""
    tool = sr.Tool.from_json_schema("mean", {"type": "object"}, function=returning(result))
    client = sr.wrap(Client(completion(None, [call("mean", {})]), DONE), tools=[tool])
    ended: list[Any] = []
    with caplog.at_level(logging.ERROR, logger="strictreply"):
        run = sr.run(client, USER, model="m", on_event=ended.append)

    (error,) = (each.outcome.error for each in ended if isinstance(each, ToolFinished))
    assert isinstance(error, sr.ToolResultError)
    assert (error.path, error.kind) == (path, kind)
    where = f" at {path} of its result" if path else ""
    assert f"tool 'mean' returned {kind}{where}, which JSON cannot hold" in caplog.text
    told = run.transcript[3]["content"]
    assert told == '{"error":{"type":"ToolResultError","message":"the tool failed"}}'

    pending = AgentToolCall(tool_call_id="c", name="mean", arguments_json="{}")
    with pytest.raises(sr.ToolResultError) as caught:
        pending.answered(result)
    assert (caught.value.path, caught.value.kind) == (path, kind)
