"""``strictreply check``: every line is judged or reported, whatever file it is in."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from strictreply.testing.recordings import JudgedLine, ReplyTally
from support.cli.running import TOOLS, Command, Process, Status, tools_file
from support.openai_shapes import call, completion, message
from support.shared_data import SHARED, needs_shared

pytestmark = pytest.mark.one_lane


def record(name: str, arguments: str, model: str = "m1") -> str:
    """Write one line in the layout of the recorded replies beside the checkout."""
    reply = {"tool_calls": [{"name": name, "arguments": arguments}]}
    return json.dumps({"model": model, "mode": "tools", "tools": json.loads(TOOLS), "reply": reply})


GOOD = record("search", '{"query": "boots"}')
BAD = record("search", '{"limit": "5"}', "m2")
UNKNOWN = record("find", "{}", "m2")
LINES = [GOOD, BAD, "{not json", "", UNKNOWN, GOOD, "[1]", '{"model": "m1"}']


def written(folder: Path, lines: list[str], name: str = "replies.jsonl") -> Path:
    """Write lines into a file, packed when its name says so."""
    path = folder / name
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def told(command: Command, *words: str) -> dict[str, Any]:
    """Run ``check --json`` and read its object."""
    value: dict[str, Any] = json.loads(command("check", "--json", *words).stdout)
    return value


@pytest.mark.parametrize("name", ["replies.jsonl", "replies.jsonl.gz", "packed-without-saying.gz"])
def test_each_line_is_judged_or_reported(command: Command, tmp_path: Path, name: str) -> None:
    """Valid, invalid and unreadable lines are counted and named by file and line, packed or not."""
    path = written(tmp_path, LINES, name)
    result = told(command, str(path))
    assert (result["complete"], result["replies"], result["valid"], result["invalid"]) == (
        True,
        4,
        2,
        2,
    )

    assert [entry["line"] for entry in result["unreadable"]] == [3, 7, 8]
    assert [(entry["file"], entry["line"]) for entry in result["invalid_replies"]] == [
        (str(path), 2),
        (str(path), 5),
    ]

    assert result["by_code"] == {"args.required": 1, "args.type": 1, "tool.unknown": 1}
    assert result["by_model"] == {
        "m2": {"replies": 2, "invalid": 2},
        "m1": {"replies": 2, "invalid": 0},
    }

    assert result["by_tool"]["search"] == {"replies": 3, "invalid": 1}
    assert {issue["code"] for issue in result["invalid_replies"][0]["issues"]} == {
        "args.required",
        "args.type",
    }


def test_tables_tell_the_same_to_a_person(command: Command, tmp_path: Path) -> None:
    """Without ``--json`` the codes with their first places, the rates and the unreadable lines are
    shown.
    """
    path = written(tmp_path, LINES)
    done = command("check", str(path))
    assert done.exit_code == Status.INVALID
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["args.type", "1", "replies.jsonl:2"] in rows

    assert ["tool.unknown", "1", "replies.jsonl:5"] in rows
    assert ["m2", "2", "2", "100.0"] in rows
    assert ["search", "3", "1", "33.3"] in rows
    assert all(f"{path}:{number}:" in done.stdout for number in (3, 7, 8))

    assert done.stdout.splitlines()[-1] == "4 replies: 2 valid, 2 invalid, 3 lines unreadable"


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([GOOD, GOOD], 0),
        ([], 3),
        ([GOOD, BAD], 1),
        ([GOOD, "broken"], 3),
        ([BAD, "broken"], 1),
        (["", " "], 3),
    ],
)
def test_the_status_says_whether_all_were_valid(
    command: Command, tmp_path: Path, lines: list[str], status: int
) -> None:
    """0 when every reply is valid, 1 when one is invalid, else 3 when a line cannot be read or
    there is no reply.
    """
    assert command("check", str(written(tmp_path, lines))).exit_code == status
    assert command("check", "--json", str(written(tmp_path, lines))).exit_code == status


def test_several_files_are_one_count(command: Command, tmp_path: Path) -> None:
    """The counts are of all files together, and each fault names its own."""
    first = written(tmp_path, [GOOD], "a.jsonl")
    second = written(tmp_path, [BAD], "b.jsonl")
    result = told(command, str(first), str(second))
    assert (result["replies"], result["invalid_replies"][0]["file"]) == (2, str(second))


@pytest.mark.parametrize(
    "line",
    [
        {
            "request": {"tools": json.loads(TOOLS), "model": "m"},
            "response": completion(message("hello")),
        },
        completion(message(calls=[call("search", '{"query": "x"}')])),
        {
            "tools": json.loads(TOOLS),
            **completion(message(calls=[call("search", '{"query": "x"}')])),
        },
    ],
)
def test_chat_completion_dumps_are_read(
    command: Command, tmp_path: Path, line: dict[str, Any]
) -> None:
    """Completions are judged by the tools beside them, or by those of ``--tools`` when they name
    none.
    """
    path = written(tmp_path, [json.dumps(line)])
    assert command("check", str(path), "--tools", tools_file(tmp_path)).exit_code == 0


def test_a_completion_without_tools_is_held_to_none(command: Command, tmp_path: Path) -> None:
    """A call that nobody declared is invalid."""
    path = written(
        tmp_path, [json.dumps(completion(message(calls=[call("search", '{"query": "x"}')])))]
    )
    assert told(command, str(path))["invalid"] == 1


@pytest.mark.parametrize("damage", ["cut", "overwritten", "followed"])
def test_a_damaged_file_is_reported_where_it_breaks(
    command: Command, tmp_path: Path, damage: str
) -> None:
    """A packed file that is cut, overwritten or followed by junk keeps what was read, and is not
    valid.
    """
    lines = [
        record("search", json.dumps({"query": f"{number:040x}"}), f"m{number}")
        for number in range(2_000)
    ]
    path = written(tmp_path, lines, "replies.jsonl.gz")
    packed = path.read_bytes()
    middle = len(packed) // 2
    damaged = {
        "cut": packed[:-200],
        "overwritten": packed[:middle] + b"\xff" * 64 + packed[middle + 64 :],
        "followed": packed + b"something else",
    }
    path.write_bytes(damaged[damage])

    done = command("check", "--json", str(path))
    result = json.loads(done.stdout)
    assert done.exit_code == Status.FAILED
    assert 0 < result["replies"] <= 2_000

    assert result["unreadable"]
    assert (damage != "followed") or result["replies"] == 2_000


def test_a_binary_file_is_reported_line_by_line(command: Command, tmp_path: Path) -> None:
    """Bytes that are not text are unreadable lines; the list is cut for a person, whole in JSON."""
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe\x00\n" * 50)
    done = command("check", str(path))
    assert done.exit_code == Status.FAILED
    assert len([line for line in done.stdout.splitlines() if line.startswith("unreadable")]) < 50
    assert done.stdout.splitlines()[-1] == "0 replies: 0 valid, 0 invalid, 50 lines unreadable"
    assert len(told(command, str(path))["unreadable"]) == 50


@pytest.mark.parametrize("name", ["nope", "."])
def test_what_is_no_file_is_wrong_usage(command: Command, tmp_path: Path, name: str) -> None:
    """A missing file and a directory end with 2 before anything is read."""
    done = command("check", str(tmp_path / name))
    assert (done.exit_code, done.stdout) == (Status.USAGE, "")


def test_tools_that_cannot_be_declared_are_wrong_usage(command: Command, tmp_path: Path) -> None:
    """Wrong ``--tools`` are told once, not for each line."""
    (tmp_path / "bad.json").write_text(
        '[{"name": "x", "parameters": {"type": "wrong"}}]', encoding="utf-8"
    )
    done = command("check", str(written(tmp_path, [GOOD])), "--tools", str(tmp_path / "bad.json"))
    assert (done.exit_code, done.stdout) == (Status.USAGE, "")


def test_recorded_names_do_not_act_on_the_terminal(command: Command, tmp_path: Path) -> None:
    """Names from a recording are printed as characters, markup included, and listed to a limit."""
    names = ["\x1b[2J[red]evil\u202e", *(f"model-{number}" for number in range(60))]
    done = command(
        "check", str(written(tmp_path, [record("search", "{}", name) for name in names]))
    )
    assert all(line.isprintable() for line in done.stdout.splitlines())
    assert "[red]evil" in done.stdout
    assert done.stdout.count("model-") < 60
    assert "--json lists all" in done.stdout


@needs_shared
# Some recorded tools contradict themselves (C7).
@pytest.mark.filterwarnings("ignore::strictreply.ContractWarning")
def test_all_recorded_replies_are_judged(command: Command) -> None:
    """Every line of the recordings beside the checkout is judged, and the sums lose nothing."""
    path = SHARED / "corpus" / "replies.jsonl.gz"
    with gzip.open(path) as file:
        lines = sum(1 for _ in file)

    result = told(command, str(path))
    assert result["replies"] + len(result["unreadable"]) == lines

    for rates in (result["by_model"], result["by_tool"]):
        assert sum(rate["replies"] for rate in rates.values()) == result["replies"]
        assert sum(rate["invalid"] for rate in rates.values()) == result["invalid"]

    assert result["valid"] > 0


def test_several_processes_find_the_same_in_the_same_order(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is shared between workers gives the object that one process gives, to its last
    line.
    """
    lines = [
        record("search", json.dumps({"query": "boots"} | ({"limit": "x"} if not n % 7 else {})))
        for n in range(900)
    ]
    path = written(tmp_path, [*lines, "{not json"])
    alone = told(command, str(path), "--jobs", "1")
    monkeypatch.setattr("strictreply.testing.recordings.MIN_SHARED_BYTES", 0)

    assert told(command, str(path), "--jobs", "2") == alone
    assert [entry["line"] for entry in alone["invalid_replies"]] == list(range(1, 901, 7))


def test_stdin_is_a_file_too(process: Process, tmp_path: Path) -> None:
    """``-`` reads what comes in, packed or not."""
    for name, words in (("replies.jsonl", ()), ("replies.jsonl.gz", ("--jobs", "1"))):
        with written(tmp_path, LINES, name).open("rb") as file:
            started = process("check", "--json", "-", *words, stdin=file)
            result = json.loads(started.communicate(timeout=60)[0])
        assert (started.returncode, result["replies"], result["invalid"]) == (Status.INVALID, 4, 2)


@pytest.mark.parametrize(("words", "status"), [((), 0), (("--fail-on", "empty"), Status.FAILED)])
def test_a_file_without_a_reply_can_be_a_failure(
    command: Command, tmp_path: Path, words: tuple[str, ...], status: int
) -> None:
    """Beside files with replies an empty one passes, unless ``--fail-on empty`` forbids it."""
    files = [str(written(tmp_path, [GOOD])), str(written(tmp_path, [], "empty.jsonl"))]
    assert command("check", *files, *words).exit_code == status
    assert command("check", files[1]).exit_code == Status.FAILED


def test_nothing_invalid_is_kept() -> None:
    """However many replies are invalid, memory grows only with the number of their kinds."""
    seen: list[Any] = []
    tally = ReplyTally(seen.append)

    for line in range(10_000):
        tally.add(Path("x.jsonl"), JudgedLine(line, "m", "search", [{"code": "args.type"}]))

    assert (tally.invalid, len(seen), len(tally.by_code), len(tally.first)) == (
        10_000,
        10_000,
        1,
        1,
    )
    assert not any(isinstance(value, list) and value for value in vars(tally).values())


def test_equal_counts_are_in_the_order_of_codes() -> None:
    """Codes are sorted by the number of their replies, then by name, however they came in."""
    tally = ReplyTally()
    for codes in (("tool.unknown", "args.type", "args.enum", "json.syntax"), ("json.syntax",)):
        tally.add(Path("x.jsonl"), JudgedLine(1, "m", "search", [{"code": code} for code in codes]))
    in_order = ["json.syntax", "args.enum", "args.type", "tool.unknown"]
    assert [code for code, _ in tally.codes()] == list(tally.to_dict()["by_code"]) == in_order


def test_a_recorded_response_counts_under_its_tool(command: Command, tmp_path: Path) -> None:
    """A reply of the Responses API also counts under the tool of its first call."""
    tools = [{"type": "function", **json.loads(TOOLS)[0]["function"]}]
    item = {"type": "function_call", "call_id": "c", "name": "search", "arguments": '{"query": 1}'}
    line = {
        "request": {"input": "x", "tools": tools},
        "response": {"object": "response", "output": [item]},
    }
    result = told(command, str(written(tmp_path, [json.dumps(line)])))
    assert result["by_tool"] == {"search": {"replies": 1, "invalid": 1}}
