"""``strictreply batch``: one result a row, and a run that goes on after any end."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import jiter
import pytest

from strictreply import ContractError
from strictreply.batch import RowResult
from strictreply.batch._journal import DoneRows, Journal
from strictreply.batch._results import Status as RowStatus
from strictreply.batch._results import written_whole
from strictreply.batch._rows import write_parquet
from strictreply.cli._terminal import Status
from strictreply.testing import HTTPReply
from support.cli.running import Command, Serve, answering

pytest_plugins = ["cli.conftest"]

ROOT = Path(__file__).resolve().parents[2]
SHOP = """
from typing import Literal
from pydantic import BaseModel

class Label(BaseModel):
    topic: Literal["delivery", "price"]

class Other(BaseModel):
    topic: Literal["delivery", "price", "other"]
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the module of the answer, in which the commands run."""
    (tmp_path / "batch_shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Loopback:
    """The model of the benchmarks in a process of its own, and the log of what it was asked."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._log = folder / "asked.log"
        self._log.touch()
        script = ROOT / "benchmarks" / "loopback_model.py"
        words = [sys.executable, str(script), "--log", str(self._log), *options]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

        assert self._process.stdout is not None
        self.base_url = f"http://127.0.0.1:{int(self._process.stdout.readline())}/v1"

    def asked(self) -> Counter[str]:
        """Count the texts that it was asked, whole lines only."""
        return Counter(
            json.loads(line)
            for line in self._log.read_text().splitlines(keepends=True)
            if line.endswith("\n")
        )

    def size(self) -> int:
        """Return the bytes of its log: how much it was asked."""
        return self._log.stat().st_size

    def close(self) -> None:
        """End it."""
        self._process.communicate()


@pytest.fixture
def model(shop: Path) -> Iterator[Loopback]:
    """A model that answers at once."""
    loopback = Loopback(shop, "--delay", "0")
    yield loopback
    loopback.close()


def write_rows(path: Path, number: int) -> list[dict[str, Any]]:
    """Write rows, of which each tenth is fixed."""
    rows: list[dict[str, Any]] = [
        {"id": n, "text": f"row {n}{' bad' if n % 10 == 0 else ''}"} for n in range(number)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def read(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def words(loopback: Loopback, source: str = "in.jsonl", /, **options: object) -> list[str]:
    """Return the command."""
    given: dict[str, object] = {
        "answer": "batch_shop:Label",
        "messages": "text",
        "model": "m",
        "base-url": loopback.base_url,
        **options,
    }
    return [
        "batch",
        source,
        *(word for name, value in given.items() for word in (f"--{name}", str(value))),
    ]


def test_every_row_has_a_result(shop: Path, model: Loopback, command: Command) -> None:
    """A run writes each row with its own columns, its index and the result; run again it asks
    nothing.
    """
    rows = write_rows(shop / "in.jsonl", 50)
    done = command(*words(model, **{"price-in": 1, "price-out": 2}))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "50 rows: 45 ok, 5 fixed, cost so far 0.0016; in.results.jsonl\n"

    results = sorted(read(shop / "in.results.jsonl"), key=lambda row: row["index"])
    assert [{name: row[name] for name in ("id", "text")} for row in results] == rows
    assert [row["index"] for row in results] == list(range(50))
    assert results[0]["status"] == "fixed"

    assert results[1]["reply"] == {"answer": {"topic": "price"}}
    again = command(*words(model))
    assert (again.exit_code, model.asked().total()) == (0, 55)
    assert "50 rows: 45 ok, 5 fixed" in again.stdout


def test_a_terminal_shows_how_far_the_run_is(shop: Path, model: Loopback, command: Command) -> None:
    """In a terminal a bar follows the run, with the rows that are done and how many it does in a
    second.
    """
    write_rows(shop / "in.jsonl", 50)
    done = command(*words(model), TTY_COMPATIBLE="1")
    assert done.exit_code == 0
    assert re.search(r"\d+ rows?, about \d+ left, \d+ rows/s, \d+ in flight", done.stderr)


def test_rows_that_cannot_be_asked(shop: Path, model: Loopback, command: Command) -> None:
    """A line that is no object, a row without messages, one with a taken column: each has its
    failed result.
    """
    lines = [
        '{"text": "a"}',
        "{",
        "[1]",
        '{"id": 3}',
        "",
        '{"text": "b", "status": "new", "id": 4}',
        '{"text": "c"}',
    ]
    (shop / "in.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    done = command(*words(model, "in.jsonl.gz", out="out.jsonl"))
    assert done.exit_code == Status.INVALID

    results = {row["index"]: row for row in read(shop / "out.jsonl")}
    assert {index: row["status"] for index, row in results.items()} == {
        **dict.fromkeys((0, 5), "ok"),
        **dict.fromkeys((1, 2, 3, 4), "failed"),
    }

    assert "not JSON" in results[1]["issues"][0]["message"]
    assert results[4]["id"] == 4
    issues = {index: result["issues"][0] for index, result in results.items() if result["issues"]}
    assert {index: issue["code"] for index, issue in issues.items()} == {
        **dict.fromkeys((1, 2, 4), "row.line"),
        3: "row.messages",
    }

    assert issues[1]["hint"] == "Fix line 2 of in.jsonl.gz."
    assert "column 'text' is absent or empty" in issues[3]["message"]
    assert "there are id" in issues[3]["hint"]
    assert "--prefix" in issues[4]["hint"]

    assert "4 rows not sent; the most frequent reason: the " in done.stdout


ODD_NUMBERS = {
    "1e999": "1e999",
    "-1.5e400": "-1.5e400",
    "NaN": "NaN",
    "Infinity": "Infinity",
    "-Infinity": "-Infinity",
    "9" * 5000: "9" * 5000,
    "1.5": 1.5,
    "7": 7,
}


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_results_are_strict_json(shop: Path, model: Loopback, command: Command, name: str) -> None:
    """A number of a row that JSON or Python cannot hold is a text in the results, and its row is
    asked as every other.
    """
    lines = [f'{{"text": "a", "x": {number}, "deep": [{number}]}}\n' for number in ODD_NUMBERS]
    (shop / "in.jsonl").write_text("".join(lines))
    done = command(*words(model, out=name))
    assert done.exit_code == 0

    written = shop / ("out.jsonl" if name == "out.jsonl" else "out.parquet.rows.jsonl")
    rows = [
        jiter.from_json(line, allow_inf_nan=False) for line in written.read_bytes().splitlines()
    ]
    rows.sort(key=lambda row: row["index"])
    assert [(row["x"], row["deep"]) for row in rows] == [
        (value, [value]) for value in ODD_NUMBERS.values()
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_rows_in_any_encoding(shop: Path, model: Loopback, command: Command, encoding: str) -> None:
    """A mark, line ends of two characters and blank lines lose no row."""
    texts = ["", '{"text": "first", "wort": "über"}', " ", '{"text": "second"}', ""]
    (shop / "in.jsonl").write_bytes("\r\n".join(texts).encode(encoding))
    done = command(*words(model))
    assert done.exit_code == 0

    rows = sorted(read(shop / "in.results.jsonl"), key=lambda row: row["index"])
    assert [(row["index"], row["text"]) for row in rows] == [(0, "first"), (1, "second")]
    assert rows[0]["wort"] == "über"


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz"])
def test_what_is_left_is_counted(shop: Path, model: Loopback, command: Command, name: str) -> None:
    """Rows done and left are together the rows of the file, packed or not, however long each is."""
    rows = [json.dumps({"text": "x" * (1 if n % 2 else 3_000)}) for n in range(60)]
    whole = "\n\n".join(rows).encode()
    (shop / name).write_bytes(gzip.compress(whole) if name.endswith(".gz") else whole)
    done = command(*words(model, name, concurrency=8, out="out.jsonl"), TTY_COMPATIBLE="1")
    assert done.exit_code == 0

    shown = re.findall(r"(\d+) rows?, about (\d+) left", done.stderr)
    assert shown != []
    assert {int(finished) + int(left) for finished, left in shown} == {60}


def test_no_row_is_asked_by_a_system_message_alone(
    shop: Path, model: Loopback, command: Command
) -> None:
    """A row without a text or messages has none with ``--system`` either."""
    (shop / "in.jsonl").write_text('{"text": ""}\n{"text": []}\n{"text": null}\n{"text": "a"}\n')
    command(*words(model, system="Sort it.", concurrency=1))
    assert [row["status"] for row in read(shop / "in.results.jsonl")] == ["failed"] * 3 + ["ok"]
    assert model.asked() == {"a": 1}


def test_the_rows_are_never_written_over(shop: Path, model: Loopback, command: Command) -> None:
    """Neither ``--out`` nor the lines that parquet is made of may be the file of the rows."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed here")
    rows = shop / "out.parquet.rows.jsonl"
    write_rows(rows, 3)
    before = rows.read_bytes()
    refused = command(*words(model, rows.name, out="out.parquet"), "--restart")
    assert (refused.exit_code, rows.read_bytes()) == (Status.USAGE, before)
    assert "the file of the rows" in refused.stderr


def test_prompts_and_stdin(shop: Path, model: Loopback) -> None:
    """A template is filled from the columns, a system message goes before it; rows come from stdin,
    too.
    """
    rows = "".join(
        json.dumps({"who": who, "what": {"n": n}}) + "\n" for n, who in enumerate(("Ann", "Bo"))
    )
    spelled = words(
        model, "-", out="out.jsonl", prompt="{who} wants {what[n]}", system="Sort it.", prefix="r_"
    )
    done = subprocess.run(
        [sys.executable, "-m", "strictreply", *spelled],
        input=rows,
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")

    assert sorted(model.asked()) == ["Ann wants 0", "Bo wants 1"]
    assert [row["r_status"] for row in read(shop / "out.jsonl")] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"model": "n"}, "another model"),
        ({"answer": "batch_shop:Other"}, "another contract"),
        ({"prompt": "{text}!"}, "another prompt"),
        ({"request": '{"temperature": 0}'}, "another request"),
    ],
)
def test_another_run_is_refused(
    shop: Path, model: Loopback, command: Command, changed: dict[str, object], told: str
) -> None:
    """Results of another model, contract or request are not mixed, and it is said what to do;
    --restart begins anew.
    """
    write_rows(shop / "in.jsonl", 5)
    command(*words(model))
    before = (shop / "in.results.jsonl").read_bytes()
    refused = command(*words(model, **changed))
    assert refused.exit_code == Status.USAGE

    assert told in refused.stderr
    assert "--restart" in refused.stderr
    assert (shop / "in.results.jsonl").read_bytes() == before
    assert command(*words(model, **changed), "--restart").exit_code == 0

    assert len(read(shop / "in.results.jsonl")) == 5


def test_another_input_is_refused(shop: Path, model: Loopback, command: Command) -> None:
    """A file of rows that changed is another one."""
    write_rows(shop / "in.jsonl", 5)
    command(*words(model))
    write_rows(shop / "in.jsonl", 6)
    assert "another input" in command(*words(model)).stderr

    rows = write_rows(shop / "in.jsonl", 5000)
    command(*words(model), "--restart", "--prompt", "{text!r:.0}")
    rows[2501]["text"] = "new 2501"
    (shop / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    assert "another input" in command(*words(model), "--prompt", "{text!r:.0}").stderr
    (shop / "in.results.jsonl.manifest.json").unlink()
    assert "the run cannot continue" in command(*words(model)).stderr


def test_parquet(shop: Path, model: Loopback, command: Command) -> None:
    """Columns keep their types, others are JSON text; the file is there whole or not at all."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed here")
    odd: list[Any] = [None, 1, "two", {"a": []}, [1], 2**70, "\ud800", True]
    rows: list[dict[str, Any]] = [
        {
            "text": f"row {n}",
            "n": n,
            "x": n or 0.5,
            "large": 2**60 + 1 if n else 0.5,
            "\ud800": n,
            "odd": value,
        }
        for n, value in enumerate(odd)
    ]
    (shop / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    assert command(*words(model, out="out.parquet")).exit_code == 0
    table = parquet.read_table(shop / "out.parquet")
    assert {
        name: str(table.schema.field(name).type)
        for name in ("text", "n", "x", "large", "\\ud800", "odd", "index")
    } == {
        "text": "string",
        "n": "int64",
        "x": "double",
        "large": "string",
        "\\ud800": "int64",
        "odd": "string",
        "index": "int64",
    }

    read_back = sorted(table.to_pylist(), key=lambda row: row["index"])
    assert [None if row["odd"] is None else json.loads(row["odd"]) for row in read_back] == odd
    assert [json.loads(row["large"]) for row in read_back] == [row["large"] for row in rows]
    assert json.loads(read_back[0]["reply"]) == {"answer": {"topic": "price"}}

    assert read_back[0]["usage"]["total_tokens"] == 25


def test_parquet_of_large_rows(tmp_path: Path) -> None:
    """The memory held at a time is bounded in bytes, not in rows."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed here")

    with (tmp_path / "rows.jsonl").open("w") as file:
        for index in range(12):
            row = {"text": str(index) * 2_000_000, "index": index, "reply": None, "status": "ok"}
            file.write(json.dumps(row) + "\n")

    write_parquet(tmp_path / "rows.jsonl", tmp_path / "out.parquet", "")
    made = parquet.ParquetFile(tmp_path / "out.parquet").metadata
    assert made.num_rows == 12
    assert max(made.row_group(number).num_rows for number in range(made.num_row_groups)) <= 6


def test_an_api_that_is_down_ends_the_run(shop: Path, model: Loopback, command: Command) -> None:
    """When many rows in a row fail, the run ends with status 3, and these rows are asked when it
    goes on.
    """
    lines = [{"text": f"row {n}{' down' if n >= 3 else ''}"} for n in range(40)]
    (shop / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    given = words(model, **{"max-consecutive-failures": 5, "concurrency": 1})
    ended = command(*given)
    assert ended.exit_code == Status.FAILED

    assert "5 consecutive rows failed: the API call failed" in ended.stderr
    assert [row["status"] for row in read(shop / "in.results.jsonl")] == ["ok"] * 3
    before = model.asked().total()
    assert command(*given).exit_code == Status.FAILED

    assert model.asked().total() - before == 5
    last = command(*given, "--max-consecutive-failures", "100")
    assert last.exit_code == Status.INVALID
    assert Counter(row["status"] for row in read(shop / "in.results.jsonl")) == {
        "ok": 3,
        "failed": 37,
    }


def test_rows_that_failed_are_asked_again(
    shop: Path, model: Loopback, serve: Serve, command: Command
) -> None:
    """A row at which the API failed is asked again by the same command, and has one line; others
    are not asked.
    """
    write_rows(shop / "in.jsonl", 40)
    refusing = serve(answering(HTTPReply(401, parts=(b"{}",))))

    for _ in range(2):
        ended = command(*words(model, **{"base-url": refusing}))
        assert ended.exit_code == Status.INVALID
        assert "40 rows: 40 failed" in ended.stdout
        assert "40 rows failed at the API; run the same command again to retry them" in ended.stdout

    done = command(*words(model))
    assert (done.exit_code, done.stdout.splitlines()) == (
        0,
        ["40 rows: 36 ok, 4 fixed, 1100 tokens; in.results.jsonl"],
    )

    assert sorted(row["index"] for row in read(shop / "in.results.jsonl")) == list(range(40))
    assert model.asked().total() == 44


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--messages", "txet"],
            "--messages: the first row has no column 'txet' (there are id, text)",
        ),
        (["--prompt", "{txt}"], "--prompt: the first row has no column 'txt' (there are id, text)"),
        (["--prompt", 'Give {"a": 1} for {text}'], "write a literal brace twice: {{ or }}"),
    ],
)
def test_a_column_that_is_not_there(
    shop: Path, model: Loopback, command: Command, options: list[str], told: str
) -> None:
    """A column that the first row lacks is refused before anything is asked or a run begins."""
    write_rows(shop / "in.jsonl", 3)
    refused = command(*words(model), *options)
    assert refused.exit_code == Status.USAGE
    assert told in refused.stderr
    assert not model.asked()
    assert command(*words(model)).exit_code == 0


USAGE = [
    (["--out", "out.csv"], "must end in .jsonl or .parquet"),
    (["--out", "in.jsonl"], "the file of the rows"),
    (["--out", "no/out.jsonl"], "does not exist"),
    (["--request", "{"], "--request is not JSON"),
    (["--request", '{"temprature": 1}'], "no keyword 'temprature'"),
    *(
        (["--request", f'{{"{name}": 1}}'], f"--request: {name}")
        for name in ("api", "client", "model", "prefix")
    ),
    (["--prompt", "{text"], "--prompt"),
    (["--answer", "batch_shop:None"], "--answer"),
]


@pytest.mark.parametrize(
    ("options", "told"), USAGE, ids=[" ".join(options) for options, _ in USAGE]
)
def test_wrong_usage(
    shop: Path, model: Loopback, command: Command, options: list[str], told: str
) -> None:
    """Wrong usage is reported before any request, with status 2, and leaves no run to resume."""
    write_rows(shop / "in.jsonl", 1)
    refused = command(*words(model), *options)
    assert not list(shop.glob("*.manifest.json"))
    assert refused.exit_code == Status.USAGE
    assert told in refused.stderr
    assert not model.asked()


@pytest.mark.parametrize("source", ["gone.jsonl", ".", "/"])
def test_what_is_no_file(model: Loopback, command: Command, source: str) -> None:
    """Rows come from a file, or from stdin with ``-``; anything else is told."""
    refused = command(*words(model, source))
    assert (refused.exit_code, "is not a file" in refused.stderr) == (Status.USAGE, True)


def test_the_command_is_a_group(command: Command) -> None:
    """The help shows both commands; what begins with neither of them is for ``run``."""
    told = command("batch", "--help").stdout
    assert "validate" in told
    assert "run" in told
    assert command("batch", "run", "--help").stdout.startswith("Usage:")


STARTER = """
import json, os, sys
import openai
import strictreply.batch
import strictreply.cli._batch_command
from strictreply.cli._app import app

# Either imports more when it is used.
strictreply.wrap(openai.AsyncOpenAI(api_key="none")).chat.completions

for line in sys.stdin:
    child = os.fork()
    if not child:
        app(json.loads(line))
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""
"""Starts the command once a line, in a process of its own that has imported everything before, and
tells its end.
"""


@pytest.mark.one_lane
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_twenty_kills(shop: Path) -> None:
    """Killed twenty times at random, a run loses no row, and asks none twice but those under way at
    a kill.
    """
    at_once, dice, kills = 8, random.Random(7), 20
    rows = write_rows(shop / "in.jsonl", 700)
    out = shop / "in.results.jsonl"
    told = ""

    command = [sys.executable, "-c", STARTER]
    with (
        closing(Loopback(shop, "--delay", "0.004")) as loopback,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as starter,
    ):
        commands = starter.stdin
        told_by = starter.stdout
        assert commands is not None
        assert told_by is not None

        def start() -> int:
            print(json.dumps(words(loopback, concurrency=at_once)), file=commands, flush=True)
            return int(told_by.readline())

        for _ in range(kills):
            goal = loopback.size() + dice.randint(1, 300)  # a moment of the run, not of the clock
            process = start()

            while loopback.size() < goal:
                time.sleep(0.001)

            os.kill(process, signal.SIGKILL)
            assert int(told_by.readline()) == signal.SIGKILL, (
                "it came to its end before it was killed"
            )

            if dice.random() < 0.5 and out.exists():  # as a machine that stops may leave it
                with out.open("ab") as file:
                    file.write(b'{"index": 0, "id"')

        start()

        while not (line := told_by.readline()).strip().isdigit():
            told = line

        assert (int(line), told[:9]) == (0, "700 rows:")
        asked = loopback.asked()

    results = read(out)
    assert sorted(row["index"] for row in results) == list(range(700))
    assert all(row["text"] == rows[row["index"]]["text"] for row in results)
    assert set(asked) >= {row["text"] for row in rows}
    assert sum(asked[row["text"]] - 1 for row in rows) <= kills * at_once


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_keeps_what_is_done(shop: Path) -> None:
    """Ctrl-C ends the run with status 130; what has a result is kept, and the run goes on from
    there.
    """
    loopback = Loopback(shop, "--delay", "0.01")
    write_rows(shop / "in.jsonl", 400)
    command = [sys.executable, "-m", "strictreply", *words(loopback, concurrency=4)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    while loopback.size() < 400:
        time.sleep(0.002)

    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == Status.INTERRUPTED
    assert "run the same command again" in told

    assert "Traceback" not in told
    kept = len(read(shop / "in.results.jsonl"))
    assert 1 <= kept < 400
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0

    loopback.close()
    assert len(read(shop / "in.results.jsonl")) == 400
    assert loopback.asked().total() <= 400 + 40 + 2 * 4


def test_two_runs_of_one_file(tmp_path: Path) -> None:
    """A file of results that another process writes is not opened a second time."""
    path = tmp_path / "out.jsonl"
    journal = Journal(path, {"model": "m"})
    with pytest.raises(ContractError, match="another process"):
        Journal(path, {"model": "m"})
    journal.close()
    Journal(path, {"model": "m"}).close()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_kill_while_failed_rows_are_taken_out(tmp_path: Path, replaced: bool) -> None:
    """A kill before or after the file is replaced costs no row: the manifest fits the one as it
    fits the other.
    """
    path = tmp_path / "out.jsonl"
    journal = Journal(path, {})

    statuses: tuple[RowStatus, ...] = ("ok", "failed", "fixed", "failed", "ok")
    for index, status in enumerate(statuses):
        attempts = 0 if index == 3 else 1  # this one could not be asked, and stays
        journal.add(
            index, {"text": f"row {index}"}, RowResult(index, None, status, attempts=attempts)
        )

    journal.save(complete=True)
    journal.close()
    before = path.read_bytes()
    manifest = journal.manifest

    opened = Journal(path, {})
    forgotten = json.loads(manifest.read_text()) | {
        "bytes": 0,
        "low": 0,
        "above": [],
        "statuses": {},
        "tokens": {},
        "api_failed": 0,
        "complete": False,
    }

    opened.close()
    manifest.write_text(json.dumps(forgotten))  # as it is while the file is written anew

    if not replaced:
        path.write_bytes(before)

    again = Journal(path, {})
    assert (again.done.low, again.done.above, again.is_complete) == (1, {2, 3, 4}, False)
    assert again.statuses == {"ok": 2, "fixed": 1, "failed": 1}
    again.add(1, {}, RowResult(1, None, "ok", attempts=1))

    again.close()
    assert [row["index"] for row in read(path)] == [0, 2, 3, 4, 1]
    last = Journal(path, {})
    assert last.done.low == 5

    last.close()


def test_a_file_that_lost_its_end(tmp_path: Path) -> None:
    """A file that is shorter than the manifest says, as after a loss of power, is counted anew, up
    to what is whole.
    """
    path = tmp_path / "out.jsonl"
    journal = Journal(path, {})

    for index in (1, 0, 2, 5):
        journal.add(index, {"n": index}, RowResult(index, None, "ok", attempts=1))

    journal.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1] + lines[2][:20])
    again = Journal(path, {})
    assert (again.done.low, again.done.above, again.statuses) == (2, set(), {"ok": 2})

    again.add(2, {}, RowResult(2, None, "ok"))
    again.close()
    assert [row["index"] for row in read(path)] == [1, 0, 2]


def test_what_was_cut_off_moves_no_position(tmp_path: Path) -> None:
    """A run that is ended in the middle of a line and resumed, any number of times, keeps every
    whole line whole.
    """
    path = tmp_path / "out.jsonl"
    for start in range(5):
        journal = Journal(path, {})
        assert len(journal.done) == start
        journal.add(start, {"n": start}, RowResult(start, None, "ok"))
        journal.close()

        with path.open("ab") as file:
            file.write(b'{"index": 9, "id')

    Journal(path, {}).close()
    assert [row["index"] for row in read(path)] == [0, 1, 2, 3, 4]


def test_a_line_that_lost_its_end_alone(tmp_path: Path) -> None:
    """Nothing is written behind a last line that lacks only its line end."""
    path = tmp_path / "out.jsonl"
    journal = Journal(path, {})
    manifest = journal.manifest.read_bytes()

    for index in range(2):
        journal.add(index, {}, RowResult(index, None, "ok"))

    journal.close()
    journal.manifest.write_bytes(manifest)  # as it was at a kill
    path.write_bytes(path.read_bytes()[:-1])
    again = Journal(path, {})
    assert len(again.done) == 1

    again.add(1, {}, RowResult(1, None, "ok"))
    again.close()
    assert [row["index"] for row in read(path)] == [0, 1]


def add_rows(journal: Journal, indexes: range) -> None:
    """Write the results of the rows that have none yet."""
    for index in indexes:
        if index not in journal.done:
            journal.add(index, {}, RowResult(index, None, "ok"))


@pytest.mark.parametrize("is_full_at_the_end", [True, False])
def test_a_full_disk(tmp_path: Path, is_full_at_the_end: bool) -> None:
    """When a file takes only a part of a line, no row is lost, and none has two results."""
    resource = pytest.importorskip("resource", reason="this platform limits no file")
    path = tmp_path / "out.jsonl"
    journal = Journal(path, {}, clock=lambda: 0.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))

    try:
        with pytest.raises(OSError, match="File too large"):
            add_rows(journal, range(99))
        if is_full_at_the_end:
            journal.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    if not is_full_at_the_end:
        journal.close()

    again = Journal(path, {})
    add_rows(again, range(12))
    again.close()
    assert [row["index"] for row in read(path)] == list(range(12))


def test_an_input_that_cannot_be_read(shop: Path, model: Loopback, command: Command) -> None:
    """A file that the system does not let be read is status 3 with its name and the reason."""
    done = command(*words(model, "/proc/self/mem", out="out.jsonl"))
    assert done.exit_code == Status.FAILED
    assert done.stderr.startswith("strictreply: /proc/self/mem cannot be read: ")
    assert not (shop / "out.jsonl").exists()


def test_a_device_is_written_as_it_is(tmp_path: Path) -> None:
    """A file that is written whole takes the place of no device and no pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with written_whole(pipe) as file:
        file.write(b"line")
    assert (os.read(reader, 10), pipe.is_fifo()) == (b"line", True)
    os.close(reader)


def test_done_rows_take_little_room() -> None:
    """Of rows that ended nearly in order, only those out of order are kept in memory."""
    done = DoneRows()
    dice = random.Random(3)
    under_way = list(range(64))

    for index in range(64, 100_064):
        ended = under_way.pop(dice.randrange(64))
        assert ended not in done
        done.add(ended)
        assert ended in done

        under_way.append(index)
        assert len(done.above) < 2000

    assert len(done) == 100_000
