"""``strictreply measure``: the tables on stdout, and a run that goes on after any end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from strictreply.core import JSONObject
from strictreply.testing import assistant, completion, error_reply
from support.cli.running import Command, Serve, Status
from support.measured import BAD, WeakModel

pytest_plugins = ["cli.conftest"]

PERSON = "support.measured:Person"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A file of three rows, of which one is a text alone."""
    path = tmp_path / "rows.jsonl"
    lines = [{"messages": "one", "task": "t"}, {"messages": "two", "task": "t"}, "three"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def measuring(rows: Path, styles: str) -> list[str]:
    """Return the words of the command for an answer."""
    return ["measure", str(rows), "--answer", PERSON, "--plain", "--styles", styles]


def test_what_is_printed(command: Command, serve: Serve, rows: Path) -> None:
    """The tables are on stdout, the progress on stderr, and a further start asks for nothing."""
    model = WeakModel()
    words = [*measuring(rows, "again,constrained"), "--base-url", serve(model), "--model", "m"]
    done = command(*words)
    assert (done.exit_code, len(model.requests)) == (0, 9)

    found = [line.split()[:4] for line in done.stdout.splitlines()]
    assert ["t", "again", "2", "0"] in found
    assert ["t", "constrained", "2", "2"] in found
    assert ["all", "constrained", "1", "1"] in found
    assert done.stderr.count(" of 3, ") == 3

    again = command(*words)
    assert (again.exit_code, len(model.requests)) == (0, 9)
    assert again.stdout == done.stdout
    assert rows.with_name("rows.measured.jsonl").is_file()


def test_json_and_a_page(command: Command, serve: Serve, rows: Path) -> None:
    """``--json`` prints the report as one object, ``--html`` writes it as a page."""
    page = rows.with_name("page.html")
    done = command(
        *("measure", str(rows), "--answer", PERSON, "--plain", "--max-rows", "2"),
        *("--seed", "1", "--json", "--html", str(page)),
        OPENAI_BASE_URL=serve(WeakModel()),
    )
    report: JSONObject = json.loads(done.stdout)
    assert (done.exit_code, report["rows"], report["stopped"]) == (0, 2, "rows")
    assert {one["style"] for one in report["recoveries"]} >= {"again", "ours", "constrained"}
    assert "<svg" in page.read_text()


def test_a_call_that_fails_is_told_and_repeated(command: Command, serve: Serve, rows: Path) -> None:
    """With a failed call the status is 3, what was measured is printed, and the same command asks
    for that call alone.
    """
    served: list[JSONObject] = []

    def answer(request: JSONObject) -> Any:
        served.append(request)
        if len(served) == 2:
            return error_reply(503, "busy")
        return completion(assistant(BAD))

    url = serve(answer)
    words = [*measuring(rows, "again"), "--base-url", url, "--model", "m", "--concurrency", "1"]
    done = command(*words)
    assert (done.exit_code, "(HTTP 503)" in done.stdout) == (Status.FAILED, True)

    before = len(served)
    assert command(*words).exit_code == 0
    assert (before, len(served)) == (6, 7)


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        ("--answer", PERSON, "--styles", "louder"),
        ("--answer", PERSON, "--journal", "rows.jsonl"),
        ("--answer", PERSON, "--html", "no/such/folder.html"),
        ("--answer", PERSON, "--request", '{"seed": 1}'),
    ],
)
def test_wrong_usage(
    command: Command,
    serve: Serve,
    rows: Path,
    monkeypatch: pytest.MonkeyPatch,
    wrong: tuple[str, ...],
) -> None:
    """What cannot be measured ends the command before anything is asked."""
    monkeypatch.chdir(rows.parent)
    model = WeakModel()
    done = command("measure", "rows.jsonl", *wrong, "--base-url", serve(model), "--model", "m")
    assert (done.exit_code, model.requests) == (Status.USAGE, [])


@pytest.mark.parametrize("line", ["3", "{", '{"messages": []}'])
def test_a_line_that_is_no_row(command: Command, serve: Serve, rows: Path, line: str) -> None:
    """A line that cannot be asked ends the command before anything is asked."""
    rows.write_text(f'"one"\n{line}\n')
    model = WeakModel()
    words = ("measure", str(rows), "--answer", PERSON, "--base-url", serve(model), "--model", "m")
    assert (command(*words).exit_code, model.requests) == (Status.USAGE, [])


def test_ctrl_c(
    command: Command, serve: Serve, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends the command with its own status and says how to go on."""
    model = WeakModel()
    url = serve(model)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rich.console.Console.print", interrupted)  # as the first row is shown
    done = command("measure", str(rows), "--answer", PERSON, "--base-url", url, "--model", "m")
    assert done.exit_code == Status.INTERRUPTED
    assert "again to continue" in done.stderr
