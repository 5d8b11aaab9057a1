"""``strictreply check`` of ledgers: what was decided is counted as it was decided, by call."""

from __future__ import annotations

import json
import random
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cli.test_cli_check import BAD, GOOD, told, written
from strictreply import Attempt, Code, Contract, Issue, Ledger, Tool, Usage
from support.browser import Page
from support.cli.running import Command, Process, Status, tools_file
from support.scripted import call, completion

pytestmark = pytest.mark.one_lane

REFUND = Tool.from_json_schema("refund", {"properties": {"card": {"type": "string"}}})
CONTRACT = Contract(tools=[REFUND])
FAULT = Issue.of(Code.TOOL_FORBIDDEN, "/tool_calls/0/function/name")
RAW = completion(calls=[call("refund", {"card": "4111"})])
SPENT: dict[str, Any] = {"usage": Usage(10, 2, 12), "seconds": 0.5}

OK = Attempt(1, {}, RAW, **SPENT)
REJECTED = Attempt(1, {}, RAW, (FAULT,), **SPENT)
OBSERVED = Attempt(1, {}, RAW, (FAULT,), observed=True, **SPENT)
FAILED = Attempt(1, {}, failure="timeout")


def ledger_of(folder: Path, calls: Sequence[Sequence[Attempt]], **settings: Any) -> list[Path]:
    """Write the attempts of some calls, numbered, and return the files, the oldest first."""
    ledger = Ledger(folder / "ledger.jsonl", **settings)
    for number, attempts in enumerate(calls):
        for at, attempt in enumerate(attempts, 1):
            given = {name: getattr(attempt, name) for name in Attempt.__slots__} | {"number": at}
            mode = "observe" if attempt.observed else "enforce"
            told = {"call": f"{number:x}", "mode": mode, "model": "m1"}
            ledger.write(Attempt(**given), **told, contract=CONTRACT)

    ledger.close()
    assert ledger.failures == 0
    return sorted(folder.glob("ledger.jsonl*"), reverse=True)


CALLS: list[tuple[list[Attempt], str]] = [
    ([OK], "ok"),
    ([FAILED, OK], "ok"),
    ([REJECTED, OK], "fixed"),
    ([REJECTED, FAILED, REJECTED, OK], "fixed"),
    ([OBSERVED], "observed"),
    ([REJECTED, OBSERVED], "observed"),
    ([REJECTED, REJECTED], "rejected"),
    ([FAILED], "failed"),
    ([REJECTED, FAILED], "failed"),
]


def test_calls_count_by_what_became_of_them(command: Command, tmp_path: Path) -> None:
    """The attempts of a call are one call, whose last attempt decides; replies count one by one."""
    files = ledger_of(tmp_path, [attempts for attempts, _ in CALLS])
    result = told(command, *map(str, files))
    words = [word for _, word in CALLS]
    assert result["by_outcome"] == {word: words.count(word) for word in dict.fromkeys(words)}
    assert result["calls"] == len(CALLS)

    attempts = [attempt for attempts, _ in CALLS for attempt in attempts]
    replies = [attempt for attempt in attempts if attempt.failure is None]
    invalid = [attempt for attempt in replies if attempt.issues]
    rejected = [attempt for attempt in invalid if not attempt.observed]
    assert (result["replies"], result["invalid"]) == (len(replies), len(invalid))
    assert result["observed"] == len(invalid) - len(rejected) > 0
    assert result["by_code"] == {FAULT.code: len(invalid)}

    counts = {"replies": len(replies), "invalid": len(invalid)}
    assert (result["by_tool"], result["by_model"]) == ({"refund": counts}, {"m1": counts})
    assert result["tokens"] == {"input": 10 * len(replies), "output": 2 * len(replies)}
    spent = {"input": 10 * len(rejected), "output": 2 * len(rejected)}
    assert result["rejected_tokens"] == spent
    seen = len(invalid) - len(rejected)
    assert result["observed_tokens"] == {"input": 10 * seen, "output": 2 * seen}
    assert result["seconds"] == len(replies) / 2
    assert result["unreadable"] == []


def test_files_come_in_any_order(command: Command, tmp_path: Path) -> None:
    """A call whose lines stand in several files is one call, whatever their order."""
    files = ledger_of(tmp_path, [attempts for attempts, _ in CALLS], max_bytes=700, keep=50)
    assert len(files) > 5
    orders = [files, files[::-1], random.Random(5).sample(files, len(files))]
    found = [told(command, *map(str, order)) for order in orders]
    assert found[0]["by_outcome"] == found[1]["by_outcome"] == found[2]["by_outcome"]
    assert found[0]["calls"] == len(CALLS)


def test_a_call_whose_first_lines_are_gone_is_still_fixed(command: Command, tmp_path: Path) -> None:
    """A reply that fits after a correction was fixed, also where the rejected one is not there."""
    corrected = Attempt(2, {}, RAW, tier=1)
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.write(corrected, call="a", mode="enforce", model="m", contract=CONTRACT)
    ledger.close()
    assert told(command, str(tmp_path / "ledger.jsonl"))["by_outcome"] == {"fixed": 1}


def test_an_invalid_reply_says_what_became_of_it(command: Command, tmp_path: Path) -> None:
    """In JSON it has its call, the attempt and the outcome beside file, line and issues."""
    (path,) = ledger_of(tmp_path, [[REJECTED, OK], [OBSERVED]])
    found = told(command, str(path))["invalid_replies"]
    issue = {"code": FAULT.code, "path": FAULT.path, "message": FAULT.message}
    keys = ("file", "line", "model", "tool", "issues")
    common = dict(zip(keys, (str(path), 1, "m1", "refund", [issue]), strict=True))
    assert found == [
        common | {"call": "0", "attempt": 1, "outcome": "rejected"},
        common | {"line": 3, "call": "1", "attempt": 1, "outcome": "observed"},
    ]


@pytest.mark.parametrize(
    ("calls", "status"),
    [([[OK]], 0), ([[OBSERVED]], 1), ([[REJECTED, OK]], 1), ([[FAILED]], 3)],
)
def test_the_status_is_that_of_recordings(
    command: Command, tmp_path: Path, calls: list[list[Attempt]], status: int
) -> None:
    """1 when a reply was invalid, observed ones too; 3 when there is no reply at all."""
    files = ledger_of(tmp_path, calls)
    assert command("check", *map(str, files)).exit_code == status


LINE: dict[str, Any] = {
    "ledger": 1,
    "at": "2026-11-28T22:00:00.000Z",
    "call": "a",
    "attempt": 1,
    "mode": "observe",
    "outcome": "ok",
    "api": "chat",
    "model": "m",
    "tool": None,
    "issues": [],
    "failure": None,
    "tier": 0,
    "scope": None,
    "seconds": 0.1,
    "tokens": {"input": 1, "output": 1},
    "reply": "<text of 2 characters>",
}


@pytest.mark.parametrize(
    "damaged",
    [
        json.dumps(LINE)[:-20],
        json.dumps(LINE | {"ledger": 2}),
        json.dumps(LINE | {"ledger": True}),
        *(json.dumps({key: one for key, one in LINE.items() if key != name}) for name in (
            "call", "attempt", "mode", "outcome", "model", "tool", "issues", "tier", "seconds",
            "tokens", "reply",
        )),
        json.dumps(LINE | {"attempt": 0}),
        json.dumps(LINE | {"outcome": "fixed"}),
        json.dumps(LINE | {"seconds": -1}),
        json.dumps(LINE | {"seconds": "1"}),
        json.dumps(LINE | {"tokens": {"input": 10**30, "output": 0}}),
        json.dumps(LINE | {"issues": [{"code": "args.type"}]}),
        json.dumps(LINE | {"issues": ["args.type"]}),
    ],
)  # fmt: skip
def test_a_damaged_line_is_told_by_its_number(
    command: Command, tmp_path: Path, damaged: str
) -> None:
    """It is unreadable, and the lines around it count."""
    path = written(tmp_path, [json.dumps(LINE), damaged, json.dumps(LINE | {"call": "b"})])
    result = told(command, str(path))
    assert [entry["line"] for entry in result["unreadable"]] == [2]
    assert (result["calls"], result["replies"]) == (2, 2)


def test_a_further_member_is_left_alone(command: Command, tmp_path: Path) -> None:
    """What a later release adds to a line does not make it unreadable, and keys may be sorted."""
    path = written(tmp_path, [json.dumps(LINE | {"region": "eu"}, sort_keys=True)])
    assert told(command, str(path))["by_outcome"] == {"ok": 1}


def test_ledgers_stand_beside_recordings(command: Command, tmp_path: Path) -> None:
    """Recordings are judged, ledgers are read, and both are one count."""
    recorded = written(tmp_path, [GOOD, BAD])
    files = ledger_of(tmp_path, [[OBSERVED], [OK]])
    result = told(command, str(recorded), *map(str, files))
    assert (result["replies"], result["invalid"], result["observed"]) == (4, 2, 1)
    assert result["by_outcome"] == {"ok": 1, "observed": 1}


def test_what_lacks_tools_is_said(command: Command, tmp_path: Path) -> None:
    """A recorded call for which no tools are declared says so; a ledger needs none."""
    recorded = written(tmp_path, [json.dumps(completion(calls=[call("search", {"query": "x"})]))])
    files = ledger_of(tmp_path, [[OBSERVED]])
    assert told(command, str(recorded))["without_tools"] == 1
    assert told(command, *map(str, files))["without_tools"] == 0
    assert "--tools" in command("check", str(recorded)).stdout
    assert "--tools" not in command("check", *map(str, files)).stdout

    given = told(command, str(recorded), "--tools", tools_file(tmp_path))
    assert (given["without_tools"], given["valid"]) == (0, 1)


def test_tables_tell_the_same_to_a_person(command: Command, tmp_path: Path) -> None:
    """Without ``--json`` the outcomes of the calls, the tokens and what was only observed stand."""
    files = ledger_of(tmp_path, [attempts for attempts, _ in CALLS])
    done = command("check", *map(str, files))
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["fixed", "2", "22.2"] in rows
    assert ["refund", "13", "9", "69.2"] in rows
    assert ["refund", "tool.forbidden", "9", "69.2"] in rows
    words = done.stdout.splitlines()
    assert "tokens: 130 in, 26 out" in words
    assert "tokens of rejected replies: 70 in, 14 out" in words
    assert "tokens of observed replies that would have been rejected: 20 in, 4 out" in words
    assert done.stdout.splitlines()[-1] == "13 replies: 4 valid, 9 invalid (2 only observed)"


def test_usage_that_no_line_has_is_said(command: Command, tmp_path: Path) -> None:
    """Without usage a ledger gives no cost, and the command does not call it zero."""
    path = written(tmp_path, [json.dumps(LINE | {"tokens": {"input": 0, "output": 0}})])
    assert "tokens: no usage was reported" in command("check", str(path)).stdout.splitlines()


def test_codes_are_counted_for_each_tool(command: Command, tmp_path: Path) -> None:
    """A code counts once a reply, under the first tool that the reply calls."""
    seen: list[tuple[str | None, list[str]]]
    seen = [("refund", ["args.type", "args.type"]), ("refund", ["args.type", "args.enum"])]
    seen += [("<unknown tool>", ["tool.unknown"]), ("look_up", ["args.type"]), (None, [])]
    told_lines = [
        LINE
        | {"call": f"{number}", "tool": tool, "outcome": "observed" if codes else "ok"}
        | {"issues": [{"code": code, "path": "", "message": ""} for code in codes]}
        for number, (tool, codes) in enumerate(seen)
    ]
    path = written(tmp_path, [json.dumps(line) for line in told_lines])
    assert told(command, str(path))["by_tool_and_code"] == {
        "refund": {"args.type": 2, "args.enum": 1},
        "<unknown tool>": {"tool.unknown": 1},
        "look_up": {"args.type": 1},
    }

    rows = [line.split() for line in command("check", str(path)).stdout.splitlines()]
    at = rows.index(["By", "tool", "and", "issue", "code"])
    assert rows[at + 3 : at + 7] == [
        ["refund", "args.type", "2", "100.0"],
        ["<unknown", "tool>", "tool.unknown", "1", "100.0"],
        ["look_up", "args.type", "1", "100.0"],
        ["refund", "args.enum", "1", "50.0"],
    ]


@pytest.mark.parametrize("name", ["check", "faults", "lint", "faults --for"])
def test_tables_in_files_and_pipes_have_no_padding(
    command: Command, tmp_path: Path, name: str
) -> None:
    """Rich pads every line of a table to its width; without a terminal the blanks are removed."""
    tools = {"lint": [tools_file(tmp_path)], "faults --for": [tools_file(tmp_path)]}
    files = ledger_of(tmp_path, [[OBSERVED], [REJECTED, OK]]) if name == "check" else []
    lines = command(*name.split(), *tools.get(name, []), *map(str, files)).stdout.splitlines()
    assert len(lines) > 5
    assert [line for line in lines if line != line.rstrip()] == []


def page_of(command: Command, folder: Path, *files: Path) -> Page:
    """Check files with a page, and read it."""
    path = folder / "page.html"
    command("check", *map(str, files), "--html", str(path))
    return Page(path.read_text("utf-8"))


def test_the_page_tells_what_was_observed_and_what_enforced(
    command: Command, tmp_path: Path
) -> None:
    """Each finding says which it was; no column is there for a correction that no ledger keeps."""
    files = ledger_of(tmp_path, [[OBSERVED], [REJECTED, OK]])
    text = page_of(command, tmp_path, *files).text
    assert "only observed: it went on" in text
    assert "enforced: it was refused" in text
    assert "By outcome" in text
    assert "Tokens of observed replies that would have been rejected" in text
    assert "10 in, 2 out" in text
    assert 'refund({"card": <string>})' in text
    assert "What would have been sent" not in text

    mixed = page_of(command, tmp_path, written(tmp_path, [BAD]), *files).text
    assert mixed.count("What would have been sent") == 1


def test_hostile_ledgers_stay_text(command: Command, tmp_path: Path) -> None:
    """A name in a ledger acts on no page and on no terminal."""
    hostile = "</pre><script>alert(1)</script>\x1b[31m"
    issue = {"code": hostile, "path": hostile, "message": hostile}
    names = {"model": hostile, "tool": hostile, "reply": hostile, "call": hostile}
    line = LINE | names | {"outcome": "observed", "issues": [issue]}
    path = written(tmp_path, [json.dumps(line)])
    page = page_of(command, tmp_path, path)
    assert "script" not in page.tags
    assert "alert(1)" in page.text
    assert "\x1b" not in page.text + command("check", str(path)).stdout
    assert "\x1b" not in command("check", "--json", str(path)).stdout


def test_several_processes_read_the_same(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger that is shared between workers gives the object that one process gives."""
    (path,) = ledger_of(tmp_path, [attempts for attempts, _ in CALLS] * 30)
    alone = told(command, str(path), "--jobs", "1")
    monkeypatch.setattr("strictreply.testing.recordings.MIN_SHARED_BYTES", 0)
    assert told(command, str(path), "--jobs", "2") == alone
    assert alone["calls"] == 30 * len(CALLS)


SECRET = "4111-SECRET-1111"
PROGRAM = f"""
import json
import sys
from threading import Thread
from strictreply import Attempt, Code, Contract, Issue, Ledger, Tool
from strictreply.testing import assistant, completion, native_call

fault = Issue.of(Code.TOOL_FORBIDDEN, "/tool_calls/0/function/name", found="{SECRET}")
arguments = {{"card": "{SECRET}", "order": {{"id": "{SECRET}"}}}}
raw = completion(assistant(None, [native_call("refund", json.dumps(arguments))]))
asked = {{"messages": [{{"role": "user", "content": "{SECRET}"}}], "api_key": "{SECRET}"}}
ledger = Ledger(sys.argv[1], max_bytes=20_000, keep=50)
refund = Tool.from_json_schema("refund", {{"properties": {{"order": {{"type": "object"}}}}}})
told = {{"mode": "enforce", "model": "m", "contract": Contract(tools=[refund])}}

def work(thread):
    for number in range(40):
        call = f"{{sys.argv[2]}}{{thread:02x}}{{number:04x}}"
        first = Attempt(1, asked, raw, (fault,), correction="{SECRET}")
        ledger.write(first, call=call, **told)
        ledger.write(Attempt(2, asked, raw), call=call, **told)

threads = [Thread(target=work, args=(thread,)) for thread in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(ledger.failures)
"""


@pytest.mark.slow
def test_a_service_is_watched_by_its_ledger(process: Process, tmp_path: Path) -> None:
    """Two processes of several threads write and rotate; the command finds each line, whole, and
    nobody finds a word of the model.
    """
    folder = tmp_path / "ledgers"
    folder.mkdir()
    words = [sys.executable, "-c", PROGRAM, str(folder / "ledger.{pid}.jsonl")]
    running = [subprocess.Popen([*words, name]) for name in ("a", "b")]
    assert [one.wait(timeout=60) for one in running] == [0, 0]

    files = sorted(folder.iterdir())
    assert len(files) > 8
    assert {path.name.split(".")[1] for path in files} == {str(one.pid) for one in running}
    if sys.platform != "win32":
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}

    page = tmp_path / "page.html"
    started = process("check", "--json", "--html", str(page), *map(str, files))
    out, _ = started.communicate(timeout=60)
    result = json.loads(out)
    assert started.returncode == Status.INVALID
    assert result["complete"] is True
    assert result["unreadable"] == []
    assert (result["replies"], result["invalid"]) == (2 * 2 * 4 * 40, 2 * 4 * 40)
    assert result["by_outcome"] == {"fixed": 2 * 4 * 40}
    assert result["by_tool"] == {"refund": {"replies": 640, "invalid": 320}}

    texts = [path.read_text("utf-8") for path in (*files, page)]
    assert not any(SECRET in text for text in (*texts, out))
    assert '"order": {<other key>: <string>}' in Page(texts[-1]).text
