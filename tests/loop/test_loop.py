"""The tool loop: ask, run what was called, hand back the results, until there is an answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel
from tenacity import wait_none

import strictreply as sr
from strictreply.loop import RunEvent, ToolFinished
from support.scripted import OTHER_SCHEMA, SCHEMA, USER, AsyncClient, Client, call, completion

DONE = completion("done")


class Report(BaseModel):
    """A typed result."""

    city: str
    degrees: float


def double(args: Any) -> Any:
    """Return the query twice."""
    return 2 * args["query"]


SEARCH = sr.Tool.from_json_schema("search", SCHEMA, function=double)
WEATHER = sr.Tool.from_json_schema(
    "weather", OTHER_SCHEMA, function=lambda args: Report(city=args["city"], degrees=7)
)


def looped(*steps: Any, **declared: Any) -> tuple[sr.StrictClient, Client]:
    """Wrap a scripted client."""
    fake = Client(*steps)
    return sr.wrap(
        fake, **{"tools": [SEARCH, WEATHER], "policy": sr.RetryPolicy(wait=wait_none()), **declared}
    ), fake


def test_results_are_handed_back_in_order() -> None:
    """Each call gets its tool turn under its own id; the answer ends the loop with the whole
    transcript.
    """
    calls = [call("search", {"query": "ab"}, "x"), call("weather", {"city": "Oslo"}, "y")]
    client, fake = looped(completion(calls=calls), DONE, parallel=True)
    done = sr.run(client, USER, model="m")
    assert (done.answer, len(done.replies)) == ("done", 2)

    assert [turn["role"] for turn in done.transcript] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert done.transcript[3] == {"role": "tool", "tool_call_id": "x", "content": "abab"}
    assert json.loads(done.transcript[4]["content"]) == {"city": "Oslo", "degrees": 7.0}
    assert fake.script.messages[1] == done.transcript[:5]

    assert len(USER) == 2


def test_results_of_the_text_channel_are_user_turns() -> None:
    """The text channel has no call id to answer to."""
    called = completion('{"tool":"search","args":{"query":"a"}}')
    client, _ = looped(called, completion('{"answer":"x"}'), channel="text")
    done = sr.run(client, USER, model="m")
    assert done.transcript[3] == {"role": "user", "content": "Result of search: aa"}


def test_the_async_twin_gives_the_same() -> None:
    """An async client runs the same loop; async tools are awaited, sync ones called."""

    @sr.tool
    async def search(query: str) -> str:
        await asyncio.sleep(0)
        return 2 * query

    steps = [
        completion(calls=[call("search", {"query": "ab"})]),
        completion(calls=[call("weather", {"city": "O"})]),
        DONE,
    ]
    client, _ = looped(*steps)
    twin = sr.wrap(AsyncClient(*steps), tools=[search, WEATHER])
    one = sr.run(client, USER, model="m")

    other = asyncio.run(sr.arun(twin, USER, model="m"))
    assert (one.answer, one.transcript) == (other.answer, other.transcript)


@pytest.mark.req("T38", "P68")
def test_steps_are_bounded() -> None:
    """A model that calls on and on is asked ``max_iterations`` times, 8 by default; then the loop
    says so.
    """
    client, fake = looped(
        *[completion(calls=[call("search", {"query": str(n)})]) for n in range(99)]
    )
    with pytest.raises(sr.IterationsExceeded, match="exceeded 5 steps") as raised:
        sr.run(client, USER, model="m", loop=sr.LoopPolicy(max_iterations=5))

    assert (raised.value.iterations, len(fake.script.requests)) == (5, 5)
    endless, asked = looped(
        *[completion(calls=[call("search", {"query": str(n)})]) for n in range(99)]
    )

    with pytest.raises(sr.IterationsExceeded) as exceeded:
        sr.run(endless, USER, model="m")

    assert len(asked.script.requests) == 8
    assert exceeded.value.code == "AGENT_REASONER_MAX_ITERATIONS_EXCEEDED"


@pytest.mark.req("T38", "T41")
def test_long_results_are_cut() -> None:
    """A result over the cap is cut in the transcript, and says how long it was."""
    client, _ = looped(completion(calls=[call("search", {"query": "a" * 500})]), DONE)
    content = sr.run(client, USER, model="m", loop=sr.LoopPolicy(max_result_chars=100)).transcript[
        3
    ]["content"]
    assert content == "a" * 100 + "… (cut: 1000 characters in total)"


@pytest.mark.req("T36")
def test_a_failing_tool_is_no_schema_error() -> None:
    """An exception of a tool is a result with its type, and TOOL_ERROR in the event; nothing is
    re-asked.
    """

    @sr.tool
    def fail(query: str) -> str:
        message = f"cannot find {query}"
        raise ValueError(message)

    client, fake = looped(completion(calls=[call("fail", {"query": "x"})]), DONE, tools=[fail])
    events: list[RunEvent] = []
    done = sr.run(client, USER, model="m", on_event=events.append)
    assert json.loads(done.transcript[3]["content"]) == {
        "error": {"type": "ValueError", "message": "the tool failed"}
    }

    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert isinstance(finished.outcome.error, sr.ToolExecutionError)
    assert (finished.outcome.error.code, finished.outcome.error.call_id) == ("TOOL_ERROR", "call_a")
    assert not any(
        word in str(fake.script.messages[1][-1]) for word in ("schema", "valid", "cannot find")
    )

    assert (done.answer, len(fake.script.requests), len(done.attempts)) == ("done", 2, 2)


def test_the_words_of_a_tool_error_are_for_the_model() -> None:
    """A tool that raises ToolError tells the model why; the model decides what follows."""

    @sr.tool
    def fail(query: str) -> str:
        raise sr.ToolError(f"no such order: {query}")

    client, _ = looped(completion(calls=[call("fail", {"query": "x"})]), DONE, tools=[fail])
    content = sr.run(client, USER, model="m").transcript[3]["content"]
    assert json.loads(content)["error"] == {"type": "ToolError", "message": "no such order: x"}


def test_nothing_runs_when_one_of_several_calls_is_wrong() -> None:
    """A valid call waits for its siblings: it runs only when the whole reply passed."""
    ran: list[Any] = []
    spy = sr.Tool.from_json_schema("search", SCHEMA, function=ran.append)
    both = completion(
        calls=[call("search", {"query": "a"}, "x"), call("weather", {"city": 1}, "y")]
    )
    client, _ = looped(*[both] * 4, tools=[spy, WEATHER], parallel=True)

    with pytest.raises(sr.ToolArgumentsError):
        sr.run(client, USER, model="m")

    assert ran == []


async def later(args: Any) -> str:
    """Answer when awaited."""
    return "later"


def test_an_async_tool_of_a_sync_run_is_refused_before_anything_is_asked() -> None:
    """A sync run refuses an async tool before anything is asked."""
    tools = [SEARCH, sr.Tool.from_json_schema("weather", OTHER_SCHEMA, function=later)]
    client, fake = looped(DONE, tools=tools)
    with pytest.raises(sr.ContractError):
        sr.run(client, USER, model="m")
    assert fake.script.requests == []


def test_the_async_twin_names_the_call_that_failed() -> None:
    """An async client awaits async tools, and the error of one carries the id of its call."""

    async def fail(args: Any) -> None:
        await asyncio.sleep(0)
        raise KeyError(args["city"])

    both = completion(
        calls=[call("search", {"query": "a"}, "x"), call("weather", {"city": "b"}, "y")]
    )
    tools = [SEARCH, sr.Tool.from_json_schema("weather", OTHER_SCHEMA, function=fail)]
    client = sr.wrap(AsyncClient(both, DONE), tools=tools, parallel=True)
    events: list[RunEvent] = []
    done = asyncio.run(sr.arun(client, USER, model="m", on_event=events.append))

    errors = [event.outcome.error for event in events if isinstance(event, ToolFinished)]
    failed = next(error for error in errors if isinstance(error, sr.ToolExecutionError))
    assert (failed.tool, failed.call_id) == ("weather", "y")
    assert [turn.get("tool_call_id") for turn in done.transcript[3:5]] == ["x", "y"]


def test_tools_of_this_run_alone_are_run() -> None:
    """``tools`` given to the run replace those of the client, for the checks and for the calls."""
    client, _ = looped(completion(calls=[call("mine", {})]), DONE)
    ran: list[Any] = []
    mine = sr.Tool.from_json_schema("mine", {"type": "object"}, function=ran.append)
    assert sr.run(client, USER, model="m", tools=[mine]).answer == "done"
    assert ran == [{}]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("text", "text"),
        (None, "null"),
        (True, "true"),
        ({"ä": [1, 2.5]}, '{"ä":[1,2.5]}'),
        (b"text", "dGV4dA=="),
        (b"\xff\xfe", "//4="),
        ("a\udc80", "a\N{REPLACEMENT CHARACTER}"),
        (
            {"\udc80": ["\udc80", b"\xff"]},
            '{"\N{REPLACEMENT CHARACTER}":["\N{REPLACEMENT CHARACTER}","/w=="]}',
        ),
    ],
    ids=lambda value: ascii(value)[:20] if isinstance(value, str | bytes) else type(value).__name__,
)
def test_results_are_told_as_text(result: Any, told: str) -> None:
    """Text as it is, what JSON can say as JSON, bytes as base64, and all of it as UTF-8."""
    tool = sr.Tool.from_json_schema("t", {"type": "object"}, function=lambda args: result)
    client, _ = looped(completion(calls=[call("t", {})]), DONE, tools=[tool])
    content = sr.run(client, USER, model="m").transcript[3]["content"]
    assert content == told
