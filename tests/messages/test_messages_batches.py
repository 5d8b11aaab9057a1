"""Rows and batch files over the Messages API: each row has a result, each retry is one it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import strictreply as sr
from strictreply.batch import FileRun, rows, validate_files
from strictreply.cli._terminal import Status
from support.anthropic_rules import History, Model, RulesServer, refusals
from support.claude import anthropic
from support.claude_runs import ASKED, THINKING, Total, memory_client, raw_client
from support.cli.running import Command
from support.messages import SEARCH, message, text, use

pytest_plugins = ["cli.conftest"]

CONTRACT = sr.Contract(answer=Total)
SCHEMA = {
    "type": "object",
    "properties": {"topic": {"enum": ["delivery", "price"]}},
    "required": ["topic"],
    "additionalProperties": False,
}
FORMAT = {"format": {"type": "json_schema", "schema": SCHEMA}}
GOOD = message(text('{"topic":"price"}'))
BAD = message(text('{"topic":"cost"}'))
THOUGHT = {"type": "redacted_thinking", "data": "EqQB"}


def by_prompt(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Reply with the number that a row asks for: at first one that is too small."""
    wanted = asked["messages"][0]["content"]
    return [text(json.dumps({"n": int(wanted) if len(asked["messages"]) > 1 else 1}))]


@pytest.mark.parametrize("given", ["ready", "function", "class"])
def test_rows_are_asked_and_corrected(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API is that of a ready client or of a class; of another function it is named."""
    with RulesServer(*[by_prompt] * 4) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        client: Any = anthropic.AsyncAnthropic
        keywords: dict[str, Any] = {**ASKED, "system": "You count."}
        if given == "ready":
            client = memory_client(server)
        if given == "function":
            client = lambda: raw_client(server, is_async=True)  # noqa: E731
            keywords["api"] = "messages"

        ask = rows(CONTRACT, client=client, concurrency=2, **keywords)
        found = ask([{"messages": "3"}, {"messages": "7"}])
        ask.close()

    assert server.refused == []
    assert [row["reply"]["answer"] for row in found] == [{"n": 3}, {"n": 7}]
    assert [row["status"] for row in found] == ["fixed", "fixed"]
    assert {asked["system"] for asked in server.asked} == {"You count."}


def test_a_function_of_another_api_is_refused() -> None:
    """Which API a function's client has is known once it is made: the words say what to pass."""
    with RulesServer() as server:
        ask = rows(CONTRACT, client=lambda: raw_client(server, is_async=True), model="m")
        with pytest.raises(TypeError, match='pass api="messages"'):
            ask([{"messages": "3"}])

    assert server.asked == []


def test_a_file_of_rows_is_asked(tmp_path: Path) -> None:
    """The system turn of a file run is the request's ``system``; the results are of its rows."""
    source = tmp_path / "in.jsonl"
    source.write_text('{"of": "3"}\n{"of": "7"}\n')
    with RulesServer(*[by_prompt] * 4) as server:
        run = FileRun(source, messages="of", system="You count.")
        run.ask(
            CONTRACT,
            model="claude",
            client=lambda: raw_client(server, is_async=True),
            api="messages",
            request={"max_tokens": 100},
        )

    assert server.refused == []
    assert dict(run.statuses) == {"fixed": 2}
    assert {asked["system"] for asked in server.asked} == {"You count."}
    results = [json.loads(line) for line in Path(run.out).read_text().splitlines()]
    assert sorted(row["reply"]["answer"]["n"] for row in results) == [3, 7]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the module of the answer and a file of rows, in which the commands run."""
    answer = "from pydantic import BaseModel, Field\n\n\nclass Total(BaseModel):\n"
    (tmp_path / "claude_shop.py").write_text(f"{answer}    n: int = Field(ge=3)\n")
    (tmp_path / "in.jsonl").write_text('{"of": "3"}\n{"of": "7"}\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("more", [(), ("--request", '{"max_tokens": 50}')])
def test_the_command_asks_about_rows(command: Command, shop: Path, more: tuple[str, ...]) -> None:
    """It makes the SDK's client, and demands the tokens that each request must limit."""
    words = ["batch", "in.jsonl", "--answer", "claude_shop:Total", "--messages", "of"]
    with RulesServer(*[by_prompt] * 4) as server:
        asked = [*words, "--api", "messages", "--model", "claude", *more]
        done = command(*asked, ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="k")

    assert (done.exit_code, server.refused) == (0, [])
    assert "2 rows: 2 fixed" in done.stdout
    assert {asked["max_tokens"] for asked in server.asked} == {50 if more else 4096}
    assert (shop / "in.results.jsonl").is_file()


def asked_for(custom_id: str, **params: Any) -> dict[str, Any]:
    """Return a request of a batch, as ``messages.batches.create`` takes it."""
    given: dict[str, Any] = {
        "model": "claude",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": custom_id}],
        "output_config": FORMAT,
    }
    return {"custom_id": custom_id, "params": given | params}


def tool_request(custom_id: str) -> dict[str, Any]:
    """Return a request with a tool and thoughts."""
    asked = asked_for(custom_id, tools=[SEARCH], **THINKING)
    del asked["params"]["output_config"]
    return asked


def came(custom_id: str, reply: dict[str, Any]) -> dict[str, Any]:
    """Return an output, as the results of a batch have it."""
    return {"custom_id": custom_id, "result": {"type": "succeeded", "message": reply}}


def errored(custom_id: str, kind: str) -> dict[str, Any]:
    """Return the output of a request that failed."""
    error = {"type": kind, "message": "sorry"}
    whole = {"type": "error", "error": error, "request_id": "req_1"}
    return {"custom_id": custom_id, "result": {"type": "errored", "error": whole}}


def not_asked(custom_id: str, kind: str) -> dict[str, Any]:
    """Return the output of a request that was not made."""
    return {"custom_id": custom_id, "result": {"type": kind}}


def write(path: Path, *lines: dict[str, Any]) -> Path:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def read(path: Path) -> dict[str, Any]:
    """Read JSON lines by custom_id."""
    return {row["custom_id"]: row for row in map(json.loads, path.read_text().splitlines())}


PAUSED = message(
    text("I look."),
    {"type": "server_tool_use", "id": "srvtoolu_a", "name": "web_search", "input": {}},
    stop="pause_turn",
)
WENT_ON = message(
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_a", "content": []},
    use({"query": "tea"}),
)
REFUSED = message(stop="refusal", stop_details={"type": "refusal", "category": "cyber"})

PASSES: dict[str, tuple[dict[str, Any], tuple[dict[str, Any], ...], list[str]]] = {
    "good": (asked_for("good"), (came("good", GOOD),), ["ok"]),
    "bad": (asked_for("bad"), (came("bad", BAD), came("bad", GOOD)), ["rejected", "fixed"]),
    "worse": (
        asked_for("worse"),
        (came("worse", BAD), came("worse", message()), came("worse", GOOD)),
        ["rejected", "rejected", "fixed"],
    ),
    "call": (
        tool_request("call"),
        (came("call", message(THOUGHT, use({"query": 1}))), came("call", WENT_ON)),
        ["rejected", "fixed"],
    ),
    "paused": (
        tool_request("paused"),
        (came("paused", PAUSED), came("paused", WENT_ON)),
        ["rejected", "ok"],
    ),
    "cut": (
        asked_for("cut"),
        (came("cut", message(text('{"topic":'), stop="max_tokens")), came("cut", GOOD)),
        ["rejected", "fixed"],
    ),
    "busy": (
        asked_for("busy"),
        (errored("busy", "overloaded_error"), came("busy", GOOD)),
        ["failed", "ok"],
    ),
    "late": (
        asked_for("late"),
        (not_asked("late", "expired"), not_asked("late", "canceled"), came("late", GOOD)),
        ["failed", "failed", "ok"],
    ),
    "wrong": (asked_for("wrong"), (errored("wrong", "invalid_request_error"),), ["failed"]),
    "refused": (asked_for("refused"), (came("refused", REFUSED),), ["halted"]),
}
"""A request, its outputs pass after pass, and its statuses behind each."""


@pytest.mark.parametrize("name", PASSES)
def test_the_passes_of_a_batch(name: str, tmp_path: Path) -> None:
    """The requests of the next pass are such as the API takes, under the same ids."""
    request, outputs, statuses = PASSES[name]
    requests = write(tmp_path / "in.jsonl", request)
    files: list[Path] = []
    found: list[str] = []
    for number, output in enumerate(outputs, 1):
        files.append(write(tmp_path / f"out{number}.jsonl", output))
        again = tmp_path / "again.jsonl"
        out = tmp_path / "result.jsonl"
        counts = validate_files(files, requests=[requests], out=out, retry_file=again)
        found.append(read(out)[name]["status"])

        assert (counts.unknown, counts.surplus, counts.unreadable) == (0, 0, ())
        left = read(again)
        assert list(left) == ([name] if number < len(outputs) else [])
        for params in (one["params"] for one in left.values()):
            broken = refusals(params, History(), Model())
            assert [one for one in broken if one.rule != "thinking.signature"] == []

    assert found == statuses


def test_what_was_asked_again_is_what_failed(tmp_path: Path) -> None:
    """A request that was not made is sent as it was; one that was refused is not sent again."""
    lines = [PASSES[name][0] for name in ("good", "busy", "wrong")]
    requests = write(tmp_path / "in.jsonl", *lines, asked_for("none"))
    outputs = write(tmp_path / "out.jsonl", *(PASSES[one][1][0] for one in ("busy", "wrong")))
    again = tmp_path / "again.jsonl"
    counts = validate_files([outputs], requests=[requests], retry_file=again)
    assert counts.missing == 2
    assert list(read(again).values()) == [lines[0], lines[1], asked_for("none")]


def test_the_command_validates_the_files(command: Command, tmp_path: Path) -> None:
    """Two passes of the command: a correction, then the end."""
    request, (first, second), _ = PASSES["call"]
    requests = str(write(tmp_path / "in.jsonl", request))
    one = str(write(tmp_path / "out1.jsonl", first))
    again = str(tmp_path / "again.jsonl")
    words = ("batch", "validate", one, "--requests", requests, "--retry-file", again)
    done = command(*words)
    assert (done.exit_code, "1 to retry" in done.stdout) == (Status.INVALID, True)

    turns = read(Path(again))["call"]["params"]["messages"]
    assert turns[1]["content"][0] == THOUGHT
    assert turns[2]["content"][0]["is_error"] is True

    two = str(write(tmp_path / "out2.jsonl", second))
    done = command("batch", "validate", one, two, "--requests", requests)
    assert (done.exit_code, done.stdout) == (0, "1 request: 1 fixed\n")
