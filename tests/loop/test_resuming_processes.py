"""A paused run and several processes.

It goes on in any of them, in one at a time, and only once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import strictreply as sr
from strictreply.loop import MemorySessionStore
from strictreply.loop.invoke_result import InvokeCode
from support.loop import second_process
from support.loop.loops import DONE, LOCATE, PATIENCE, Loop, codes, spy, told
from support.scripted import SCHEMA, call, completion

BOTH = completion(calls=[call("deliver", {"query": "d"}, "d"), call("locate", {"query": "l"}, "l")])
TOOLS = [second_process.DELIVER, LOCATE]


def started(path: Path, response: str, results: str) -> subprocess.Popen[str]:
    """Start the second process."""
    command = [sys.executable, str(Path(second_process.__file__)), str(path), response, results]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)


def paused_in(path: Path) -> tuple[Loop, str, str]:
    """Pause a run in this process, and return what travels to the other one.

    That is the response, and the results for it.
    """
    loop = Loop(BOTH, DONE, DONE, tools=TOOLS, store=sr.SQLiteSessionStore(path))
    paused = loop.run()
    deliver, locate = paused.pending
    assert paused.response is not None
    results = [deliver.approved().to_dict(), locate.answered("here").to_dict()]
    return loop, paused.response.to_json(), json.dumps(results)


@pytest.mark.req("P66")
def test_another_process_goes_on(tmp_path: Path) -> None:
    """All that it needs is the file, the response as JSON and the results; the conversation is then
    whole for all.
    """
    path = tmp_path / "sessions.db"
    loop, response, results = paused_in(path)
    with started(path, response, results) as process:
        out, _ = process.communicate("\n", timeout=PATIENCE)

    assert out.splitlines() == ["running d", "done"]

    with pytest.raises(sr.InvokeFailed) as again:
        loop.run(continuation=response, results=second_process.read(results))

    assert codes(again.value) == [InvokeCode.ALREADY_CONSUMED]
    session = sr.SQLiteSessionStore(path).session(json.loads(response)["session_id"])
    assert session is not None
    assert [turn["role"] for turn in session.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert [turn["content"] for turn in session.messages[3:]] == ["delivered d", "here", "done"]


@pytest.mark.slow
def test_one_process_at_a_time_goes_on(tmp_path: Path) -> None:
    """While one runs what was approved, the other gets IN_USE and runs nothing; the first one ends
    well.
    """
    path = tmp_path / "sessions.db"
    loop, response, results = paused_in(path)
    with started(path, response, results) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "running d\n"

        with pytest.raises(sr.InvokeFailed) as raced:
            loop.run(continuation=response, results=second_process.read(results))

        out, _ = process.communicate("\n", timeout=PATIENCE)

    assert (codes(raced.value), loop.asks, out) == ([InvokeCode.IN_USE], 1, "done\n")


@pytest.mark.slow
def test_a_killed_process_leaves_the_run_to_others(tmp_path: Path) -> None:
    """A killed process's run can be answered when its claim has lapsed; calls it had started do not
    run again.
    """
    path = tmp_path / "sessions.db"
    _, response, results = paused_in(path)
    with started(path, response, results) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running d\n"
        process.kill()

    ran: list[str] = []
    later = sr.SQLiteSessionStore(path, clock=lambda: 4e9)
    loop = Loop(DONE, tools=[spy("deliver", ran, needs_approval=True), LOCATE], store=later)
    done = loop.run(continuation=response, results=second_process.read(results))
    assert (dict(told(done))["d"]["error"]["type"], ran) == ("Interrupted", [])


@pytest.mark.slow
def test_a_process_without_the_file_knows_nothing_of_the_run(tmp_path: Path) -> None:
    """A store of its own has no such session: NOT_FOUND, which says what both need."""
    loop, response, results = paused_in(tmp_path / "sessions.db")
    with started(tmp_path / "other.db", response, results) as process:
        out, _ = process.communicate("\n", timeout=PATIENCE)

    assert out == "NOT_FOUND\n"

    with pytest.raises(sr.InvokeFailed) as unknown:
        loop.run(
            continuation=response,
            results=second_process.read(results),
            sessions=MemorySessionStore(),
        )

    assert codes(unknown.value) == [InvokeCode.NOT_FOUND]


@pytest.mark.parametrize(
    "tools",
    [
        [second_process.DELIVER],
        [
            second_process.DELIVER,
            sr.Tool.from_json_schema("locate", {"type": "object", "properties": {}}),
        ],
    ],
    ids=["one is missing", "one takes other arguments"],
)
def test_a_process_with_other_tools_is_told_so(tmp_path: Path, tools: list[sr.Tool]) -> None:
    """The reply that waits is judged again before anything runs: TOOLS_CHANGED, with every fault;
    nothing is lost.
    """
    loop, response, results = paused_in(tmp_path / "sessions.db")
    other = Loop(DONE, tools=tools, store=loop.store)

    with pytest.raises(sr.InvokeFailed) as changed:
        other.run(continuation=response, results=second_process.read(results))

    (error,) = changed.value.errors
    assert error.code is InvokeCode.TOOLS_CHANGED
    assert [issue.path.split("/")[:3] for issue in error.issues] == [["", "tool_calls", "1"]]
    fitting = sr.Tool.from_json_schema("deliver", SCHEMA, function=str)
    assert (
        Loop(DONE, tools=[fitting, LOCATE], store=loop.store)
        .run(continuation=response, results=second_process.read(results))
        .answer
        == "done"
    )
