"""A run over a file of rows, as a program starts it: the command is a caller of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import strictreply as sr
from strictreply.batch import FileRun
from strictreply.testing import ScriptedModel, Step, faults, ok


class Label(BaseModel):
    """What a row is about."""

    topic: Literal["delivery", "price"]


class Other(BaseModel):
    """Another answer."""

    topic: Literal["delivery", "price", "other"]


GOOD = ok.answer({"topic": "price"})
CONTRACT = sr.Contract(answer=Label)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of three rows."""
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"text": f"row {n}"}) + "\n" for n in range(3)))
    return path


def asked(run: FileRun, *steps: Step, contract: sr.Contract[Any] = CONTRACT) -> ScriptedModel:
    """Run with a model that serves the steps, then good replies; return the model."""
    model = ScriptedModel(*steps, then=GOOD)
    policy = sr.RetryPolicy(transport_retries=0, retry_budget=None)
    client: Callable[[], object] = model.async_openai
    run.ask(
        contract,
        model="m",
        client=client,
        policy=policy,
        concurrency=1,
        max_consecutive_failures=2,
    )
    return model


def results(path: Path) -> list[dict[str, Any]]:
    """Read the results by the index of their row."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(rows, key=lambda row: int(row["index"]))


def test_each_row_gets_a_result_beside_the_source(source: Path) -> None:
    """A run writes one result a row, counts them, and tells each as it comes."""
    run = FileRun(source, messages="text", system="Sort this.", prefix="out_")
    told: list[tuple[int, int]] = []
    model = ScriptedModel(faults.missing_required(Label, place="json"), then=GOOD)
    run.ask(
        CONTRACT,
        model="m",
        client=model.async_openai,
        request={"temperature": 0},
        concurrency=1,
        on_row=lambda limit: told.append((run.done, limit)),
    )

    assert (run.done, run.total, run.begun_with, run.api_failed) == (3, 3, 0, 0)
    assert dict(run.statuses) == {"ok": 2, "fixed": 1}
    assert run.tokens["total_tokens"] > 0
    assert told == [(1, 1), (2, 1), (3, 1)]
    assert {one.body["temperature"] for one in model.requests} == {0}
    assert {one.messages[0]["content"] for one in model.requests} == {"Sort this."}

    written = json.loads((source.parent / "in.results.jsonl").read_text().splitlines()[0])
    assert (written["text"], written["out_index"], written["out_status"]) == ("row 0", 0, "fixed")


def test_the_same_run_goes_on_and_another_is_refused(source: Path) -> None:
    """A second start asks about nothing; another contract is refused, in words of a program."""
    out = source.with_name("out.jsonl")
    asked(FileRun(source, out, messages="text"))
    before = out.read_bytes()

    again = FileRun(source, out, messages="text")
    assert asked(again).requests == []
    assert (again.done, again.begun_with, again.total) == (3, 3, None)
    assert out.read_bytes() == before
    manifest = json.loads(out.with_name("out.jsonl.manifest.json").read_text())
    counts = ["prompt_tokens", "completion_tokens", "total_tokens"]
    assert manifest["tokens"] == {name: again.tokens[name] for name in counts}

    with pytest.raises(
        sr.ContractError, match=r"another contract\. Pass another out=, or restart="
    ):
        asked(FileRun(source, out, messages="text"), contract=sr.Contract(answer=Other))

    restarted = FileRun(source, out, messages="text")
    model = ScriptedModel(then=GOOD)
    restarted.ask(sr.Contract(answer=Other), model="m", client=model.async_openai, restart=True)
    assert (len(model.requests), restarted.begun_with, restarted.done) == (3, 0, 3)


def test_rows_that_failed_are_left_to_the_next_start(source: Path) -> None:
    """Too many failed rows one after the other end a run; the next one asks about them."""
    out = source.with_name("out.jsonl")
    busy = faults.internal_server_error()
    run = FileRun(source, out, messages="text")
    with pytest.raises(OSError, match="2 consecutive rows failed"):
        asked(run, GOOD, busy, busy)
    assert (run.done, dict(run.statuses)) == (1, {"ok": 1})

    assert len(asked(run).requests) == 2  # of the same object, as of another one
    assert (run.begun_with, run.done) == (1, 3)
    assert [row["status"] for row in results(out)] == ["ok"] * 3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, r"messages=: the first row has no column 'messages' \(there are text\)"),
        ({"prompt": "Sort {title}"}, "prompt=: the first row has no column 'title'"),
        ({"prompt": "Sort {text"}, "prompt=: "),
        ({"out": "in.jsonl"}, "out= .*in.jsonl would overwrite"),
        ({"out": "out.txt"}, r"out= .*out.txt: it must end in .jsonl or .parquet"),
        ({"out": "nowhere/out.jsonl"}, "out= .*: the folder .* does not exist"),
    ],
)
def test_a_setting_that_does_not_fit_is_named(
    source: Path, settings: dict[str, Any], words: str
) -> None:
    """Before anything is asked, a wrong setting is refused under the name of its keyword."""
    if "out" in settings:
        settings = {"out": source.with_name("x").parent / settings["out"], "messages": "text"}
    with pytest.raises(sr.ContractError, match=words):
        FileRun(source, **settings).open()


def test_a_row_that_cannot_be_asked_is_counted_by_its_reason(source: Path) -> None:
    """A row without messages, and a line that is none, have results, and their reasons a count."""
    with source.open("a") as file:
        file.write('{"text": ""}\nno JSON\n')

    run = FileRun(source, messages="text")
    assert len(asked(run).requests) == 3
    assert dict(run.unasked) == {
        "the column 'text' is absent or empty": 1,
        "the line is not JSON": 1,
    }
    last = results(run.out)[3:]
    assert [row["issues"][0]["code"] for row in last] == ["row.messages", "row.line"]
    assert last[0]["issues"][0]["hint"] == "See messages= and prompt=; there are text."
