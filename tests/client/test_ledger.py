"""The ledger: each attempt is a whole line without the model's words, and no call fails by it."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Any

import pytest
from pydantic import BaseModel

import strictreply as sr
from strictreply import Attempt, Code, ContractError, Issue, Ledger, Usage
from support.scripted import SCHEMA, USER, Server, call, completion

SECRET = "4111-1111-1111-1111"
ARGUMENTS = json.dumps({"amount": 5, "card": SECRET, "lines": [True, None, {}]})
RAW = completion(calls=[call("refund", ARGUMENTS)])
MASKED = 'refund({"amount": <number>, "card": <string>, "lines": [<boolean>, null, {}]})'
REFUND: dict[str, Any] = {
    "properties": {
        "amount": {"type": "number"},
        "card": {"type": "string"},
        "lines": {"type": "array", "items": {"properties": {"id": {}}}},
    }
}


class Bill(BaseModel):
    """The answer."""

    total: float


CONTRACT = sr.Contract(
    tools=[
        sr.Tool.from_json_schema("refund", REFUND),
        sr.Tool.from_json_schema("a", {"type": "object"}),
        sr.Tool.from_json_schema("b", {"type": "object"}),
    ],
    answer=Bill,
)
FAULT = Issue.of(
    Code.SHAPE_MISSING_KEY, "/tool_calls/0/function/arguments/id", expected="text", found=SECRET
)

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and forks are of POSIX")
needs_rights = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="nothing is forbidden to root"
)


def write(ledger: Ledger, attempt: Attempt | None = None, **keywords: Any) -> None:
    """Write a line of an attempt, by default of one that fits."""
    given: dict[str, Any] = {
        "call": "c0ffee",
        "mode": "observe",
        "model": "m",
        "contract": CONTRACT,
    } | keywords
    ledger.write(Attempt(1, {}, RAW) if attempt is None else attempt, **given)


def lines(*paths: Path) -> list[dict[str, Any]]:
    """Read every line of some files."""
    return [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]


def reply_of(folder: Path, raw: Any, api: str = "chat", **settings: Any) -> Any:
    """Return what a ledger keeps of a reply."""
    path = folder / "ledger.jsonl"
    ledger = Ledger(path, **settings)
    write(ledger, Attempt(1, {}, raw, api=api))
    ledger.close()
    return lines(path)[-1]["reply"]


def test_a_line_says_what_became_of_an_attempt(tmp_path: Path) -> None:
    """All members of the format are there, and no other."""
    path = tmp_path / "ledger.jsonl"
    before = datetime.now(UTC)
    attempt = Attempt(
        2, {"messages": [SECRET]}, RAW, (FAULT,), None, SECRET, 1, "refund", usage=Usage(7, 5, 12)
    )
    write(Ledger(path), Attempt(**{**fields(attempt), "seconds": 0.12345678}), mode="enforce")

    (line,) = lines(path)
    at = line.pop("at")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", at)
    moment = datetime.fromisoformat(at)
    assert before - timedelta(seconds=1) < moment <= datetime.now(UTC)

    assert line == {
        "ledger": 1,
        "call": "c0ffee",
        "attempt": 2,
        "mode": "enforce",
        "outcome": "rejected",
        "api": "chat",
        "model": "m",
        "tool": "refund",
        "issues": [{"code": FAULT.code, "path": FAULT.path, "message": FAULT.message}],
        "failure": None,
        "tier": 1,
        "scope": "refund",
        "seconds": 0.123457,
        "tokens": {"input": 7, "output": 5, "estimated": False},
        "reply": MASKED,
    }
    assert SECRET not in path.read_text("utf-8")


def fields(attempt: Attempt) -> dict[str, Any]:
    """Return the fields of an attempt by name."""
    return {name: getattr(attempt, name) for name in attempt.__slots__}


@pytest.mark.parametrize(
    ("attempt", "outcome"),
    [
        (Attempt(1, {}, RAW), "ok"),
        (Attempt(1, {}, RAW, (FAULT,)), "rejected"),
        (Attempt(1, {}, RAW, (FAULT,), observed=True), "observed"),
        (Attempt(1, {}, failure="timeout"), "failed"),
        (Attempt(1, {}, RAW, (FAULT,), failure="timeout", observed=True), "failed"),
    ],
)
def test_the_outcome_is_that_of_the_attempt(tmp_path: Path, attempt: Attempt, outcome: str) -> None:
    """One word says what became of it; a call that failed brought no reply to observe."""
    path = tmp_path / "ledger.jsonl"
    write(Ledger(path), attempt)
    (line,) = lines(path)
    assert (line["outcome"], line["failure"]) == (outcome, attempt.failure)
    assert line["tool"] == (None if attempt.raw is None else "refund")
    assert (line["reply"] is None) == (attempt.raw is None)


BLOCK = {"type": "tool_use", "id": "t", "name": "refund", "input": {"card": SECRET}}
ITEM = {"type": "function_call", "call_id": "c", "name": "refund", "arguments": '{"card": "x"}'}
CUSTOM = {"id": "c", "type": "custom", "custom": {"name": "shell", "input": "rm -r /"}}


@pytest.mark.parametrize(
    ("raw", "api", "kept"),
    [
        (RAW, "chat", MASKED),
        ({"type": "message", "content": [BLOCK]}, "messages", 'refund({"card": <string>})'),
        ({"object": "response", "output": [ITEM]}, "responses", 'refund({"card": <string>})'),
        (completion(calls=[call("a", {}), call("b", {})]), "chat", "a({}), b({})"),
        (completion(calls=[call("a", "{no")]), "chat", "a(<not JSON: 3 characters>)"),
        (completion(calls=[call("a", "x")]), "chat", "a(<not JSON: 1 character>)"),
        (completion(calls=[call("a", '{"x": 1, "x": 2}')]), "chat", "a(<not JSON: 16 characters>)"),
        (completion(calls=[CUSTOM]), "chat", "<unknown tool>(<text of 7 characters>)"),
        (completion("x" * 120), "chat", "<text of 120 characters>"),
        (completion("42"), "chat", "<text of 2 characters>"),
        (completion(' {"total": 4.5}'), "chat", '{"total": <number>}'),
        (completion("[1, true"), "chat", "<not JSON: 8 characters>"),
        (completion(None, refusal="never"), "chat", "refusal: <text of 5 characters>"),
        ({"error": {"message": SECRET}}, "chat", '{"error": {"message": <string>}}'),
        ({"error": {SECRET: 1}}, "chat", '{"error": {<other key>: <number>}}'),
        ("gateway says no", "chat", "<text of 15 characters>"),
        (completion(calls=[call(SECRET, "{}")]), "chat", "<unknown tool>({})"),
        (completion(calls=[call("a", {SECRET: 1})]), "chat", "a({<other key>: <number>})"),
        (completion(json.dumps({SECRET: {"id": 1}})), "chat", '{<other key>: {"id": <number>}}'),
        (completion(json.dumps([{"error": 1}])), "chat", "[{<other key>: <number>}]"),
    ],
)
def test_of_a_reply_the_form_is_kept(tmp_path: Path, raw: Any, api: str, kept: str) -> None:
    """Declared tools and keys and all types stay; values and invented names are not written."""
    assert reply_of(tmp_path, raw, api) == kept


@pytest.mark.parametrize(
    ("raw", "api"),
    [
        (completion(calls=[call(SECRET, {})]), "chat"),
        ({"object": "response", "output": [ITEM | {"name": SECRET}]}, "responses"),
        ({"type": "message", "content": [BLOCK | {"name": SECRET}]}, "messages"),
    ],
)
def test_a_tool_that_is_not_declared_is_not_named(tmp_path: Path, raw: Any, api: str) -> None:
    """A name that a model invented may contain personal data, so a placeholder stands for it."""
    path = tmp_path / "ledger.jsonl"
    write(Ledger(path), Attempt(1, {}, raw, api=api))
    (line,) = lines(path)
    assert line["tool"] == "<unknown tool>"
    assert SECRET not in path.read_text("utf-8")


def test_a_tool_in_a_namespace_is_named(tmp_path: Path) -> None:
    """A call has the name that its tool has within a namespace; the namespace is not written."""
    tool = {"type": "function", "name": "refund", "parameters": REFUND}
    spaces = {"type": "namespace", "name": "shop", "description": "The shop.", "tools": [tool]}
    path = tmp_path / "ledger.jsonl"
    server = Server({"object": "response", "output": [ITEM | {"namespace": "shop"}]})
    client: Any = sr.wrap(server.client(), ledger=path, mode="observe")
    client.responses.create(model="m", input="x", tools=[spaces])
    (line,) = lines(path)
    assert line["tool"] == "refund"
    assert line["reply"] == 'refund({"card": <string>})'


def test_the_names_of_a_request_are_declared(tmp_path: Path) -> None:
    """A client writes the tools and keys of each request's own schemas, and no other name."""
    path = tmp_path / "ledger.jsonl"
    reply = completion(calls=[call("search", {"query": 1, "Jane Doe": 2}), call("Jane Doe", {})])
    search: Any = {"type": "function", "function": {"name": "search", "parameters": SCHEMA}}
    client = sr.wrap(Server(reply).client(), ledger=path, mode="observe")
    client.chat.completions.create(model="m", messages=USER, tools=[search])
    (line,) = lines(path)
    assert line["tool"] == "search"
    expected = 'search({"query": <number>, <other key>: <number>}), <unknown tool>({})'
    assert line["reply"] == expected
    assert "Jane" not in path.read_text("utf-8")


@pytest.mark.parametrize(
    "arguments",
    ['{"a":' * 3_000 + "1" + "}" * 3_000, json.dumps({str(n): n for n in range(5_000)})],
)
def test_a_huge_reply_makes_a_short_line(tmp_path: Path, arguments: str) -> None:
    """However deep or wide a reply is, its line is written, and bounded."""
    kept = reply_of(tmp_path, completion(calls=[call("a", arguments)]))
    assert kept.startswith("a(")
    assert len(kept) <= 4_000


def test_redact_decides_what_is_kept(tmp_path: Path) -> None:
    """It is given the whole reply, and what it returns is written as it is."""
    seen: list[str] = []

    def redact(text: str) -> str:
        seen.append(text)
        return "kept\n\x1b\ud800"

    assert reply_of(tmp_path, RAW, redact=redact) == "kept\n\x1b\ud800"
    assert seen == [f"refund({ARGUMENTS})"]


@pytest.mark.parametrize("redact", [lambda text: text.no_such, lambda _: None])
def test_a_redact_that_fails_keeps_the_mask(
    tmp_path: Path, redact: Callable[[str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The line is written without the model's words, and the fault is counted and told."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, redact=redact)
    write(ledger)
    write(ledger)
    assert [line["reply"] for line in lines(path)] == [MASKED, MASKED]
    assert ledger.failures == 2
    assert len(caplog.records) == 1
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": 5},
        {"path": b"x"},
        {"path": ""},
        {"path": "a\0b"},
        {"path": "."},
        {"path": "{pid}/ledger.jsonl"},
        {"path": "ledger-{date}.jsonl"},
        {"path": "no-such-folder/ledger.jsonl"},
        {"path": os.devnull},
        {"max_bytes": 0},
        {"max_bytes": True},
        {"max_bytes": 1.5},
        {"keep": 0},
        {"keep": "5"},
        {"redact": "x"},
    ],
)
def test_wrong_arguments_are_refused_at_once(tmp_path: Path, arguments: dict[str, Any]) -> None:
    """A ledger that could not be written is refused where it is made, not at the first call."""
    given = {"path": tmp_path / "ledger.jsonl"} | arguments
    with pytest.raises(ContractError):
        Ledger(given.pop("path"), **given)
    assert [*tmp_path.iterdir()] == []


def test_the_file_is_opened_at_the_first_line(tmp_path: Path) -> None:
    """A ledger without a line leaves no file; after ``close`` a further line opens it again."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(str(path))
    ledger.close()
    assert not path.exists()

    write(ledger)
    ledger.close()
    write(ledger)
    assert len(lines(path)) == 2
    assert str(path) in repr(ledger)


def test_the_folder_of_the_program_may_change(tmp_path: Path, monkeypatch: Any) -> None:
    """A relative path is that of the folder in which the ledger was made."""
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("ledger.jsonl")
    monkeypatch.chdir(tmp_path / "inner")
    write(ledger)
    assert len(lines(tmp_path / "ledger.jsonl")) == 1


def test_files_rotate(tmp_path: Path) -> None:
    """No file grows beyond its bound; the last are kept, and only the oldest lines are gone."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, max_bytes=1_000, keep=3)
    for number in range(1, 41):
        write(ledger, Attempt(number, {}, RAW))

    ledger.close()
    files = [*(path.with_name(f"{path.name}.{number}") for number in (3, 2, 1)), path]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert all(0 < file.stat().st_size <= 1_000 for file in files)

    kept = [line["attempt"] for line in lines(*files)]
    assert kept == list(range(kept[0], 41))
    assert kept[0] > 1
    assert ledger.failures == 0


def test_a_line_beyond_the_bound_has_a_file_of_its_own(tmp_path: Path) -> None:
    """A bound below one line leaves a line a file, and loses none."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, max_bytes=1, keep=9)
    for number in (1, 2, 3):
        write(ledger, Attempt(number, {}))

    files = [path.with_name(f"{path.name}.2"), path.with_name(f"{path.name}.1"), path]
    assert [line["attempt"] for line in lines(*files)] == [1, 2, 3]
    assert sorted(tmp_path.iterdir()) == sorted(files)


@needs_posix
@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_only_the_owner_may_read(tmp_path: Path, umask: int) -> None:
    """Each file has the mode 0600 whatever the umask, after a rotation, too."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, max_bytes=500)
    before = os.umask(umask)
    try:
        for number in (1, 2, 3):
            write(ledger, Attempt(number, {}, RAW))
    finally:
        os.umask(before)

    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert len(modes) == 3
    assert set(modes.values()) == {0o600}


@needs_posix
def test_the_mode_of_a_file_that_is_there_stays(tmp_path: Path) -> None:
    """Whoever gave a group the right to read keeps it until the file rotates."""
    path = tmp_path / "ledger.jsonl"
    path.touch()
    path.chmod(0o640)
    write(Ledger(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_cut_line_stays_alone(tmp_path: Path) -> None:
    """Behind a line that a crash has cut the next one begins on a line of its own."""
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'{"ledger": 1, "at": "20')
    write(Ledger(path))
    write(Ledger(path))
    cut, *whole = path.read_bytes().splitlines()
    assert cut == b'{"ledger": 1, "at": "20'
    assert [json.loads(line)["attempt"] for line in whole] == [1, 1]


@needs_posix
def test_a_file_that_is_moved_away_is_begun_anew(tmp_path: Path) -> None:
    """Other programs may rotate or delete the file."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    write(ledger)
    path.rename(tmp_path / "taken.jsonl")
    write(ledger)
    path.unlink()
    write(ledger)
    assert len(lines(tmp_path / "taken.jsonl")) == len(lines(path)) == 1


class Odd:
    """What is not JSON."""


def broken_folder(folder: Path) -> Ledger:
    """Make a ledger whose folder is gone."""
    (folder / "gone").mkdir()
    ledger = Ledger(folder / "gone" / "ledger.jsonl")
    (folder / "gone").rmdir()
    return ledger


def turned_to_folder(folder: Path) -> Ledger:
    """Make a ledger whose file became a folder."""
    ledger = Ledger(folder / "ledger.jsonl")
    (folder / "ledger.jsonl").mkdir()
    return ledger


@pytest.mark.parametrize(
    ("made", "keywords"),
    [
        (broken_folder, {}),
        (turned_to_folder, {}),
        (lambda folder: Ledger(folder / "ledger.jsonl"), {"model": Odd()}),
        (lambda folder: Ledger(folder / "ledger.jsonl"), {"attempt": None}),
        (lambda folder: Ledger(folder / "ledger.jsonl"), {"attempt": Attempt(1, {}, 1, api="x")}),
    ],
    ids=["no folder", "a folder", "not JSON", "no attempt", "no such API"],
)
def test_what_goes_wrong_is_counted_and_told_once(
    tmp_path: Path,
    made: Callable[[Path], Ledger],
    keywords: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing is raised; each kind of fault is logged once by its type, and every one counts."""
    ledger = made(tmp_path)
    given: dict[str, Any] = {"attempt": Attempt(1, {}, RAW), "call": "c", "mode": "observe"}
    given |= {"model": "m", "contract": CONTRACT} | keywords
    for _ in range(3):
        ledger.write(**given)

    assert ledger.failures == 3
    assert [(record.name, record.levelno) for record in caplog.records] == [
        ("strictreply", logging.ERROR)
    ]
    assert SECRET not in caplog.text


@needs_rights
def test_a_folder_without_rights_costs_lines_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the right to write a line is lost, counted, and the next one after it is written."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    tmp_path.chmod(0o500)
    write(ledger)
    tmp_path.chmod(0o700)
    write(ledger)
    assert (ledger.failures, len(caplog.records)) == (1, 1)
    assert len(lines(tmp_path / "ledger.jsonl")) == 1


FULL = """
import resource, signal, sys
from strictreply import Attempt, Contract, Ledger
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = Ledger(sys.argv[1])
told = {"call": "c", "mode": "observe", "model": "m", "contract": Contract()}
write = lambda: ledger.write(Attempt(1, {}), **told)
write()
resource.setrlimit(resource.RLIMIT_FSIZE, (700, resource.RLIM_INFINITY))
for _ in range(5):
    write()
print(ledger.failures, flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
write()
"""


@needs_posix
def test_a_line_that_finds_no_room_leaves_nothing(tmp_path: Path) -> None:
    """Where the system takes a part of a line, the part is taken back: all lines are whole."""
    path = tmp_path / "ledger.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True
    )
    lost = int(done.stdout)
    assert 0 < lost < 5
    assert len(lines(path)) == 7 - lost
    assert done.stderr.count("EFBIG") <= 1


def test_threads_share_a_ledger(tmp_path: Path) -> None:
    """The lines of all threads are there, each whole, across rotations."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, max_bytes=2_000, keep=100)
    interval = sys.getswitchinterval()

    def work(thread: int) -> None:
        for number in range(1, 51):
            write(ledger, Attempt(number, {}, RAW), call=f"{thread:x}")

    threads = [Thread(target=work, args=(thread,)) for thread in range(8)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)

    files = [*tmp_path.iterdir()]
    found = [(line["call"], line["attempt"]) for line in lines(*files)]
    assert len(files) > 5
    assert sorted(found) == sorted((f"{thread:x}", n) for thread in range(8) for n in range(1, 51))


def run_in_child(work: Callable[[], None]) -> int:
    """Run something in a child process that is a copy of this one, and return its number."""
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)

    # ends a child that waits for what never comes
    timer = Timer(30, os.kill, (child, signal.SIGKILL))
    timer.start()
    try:
        assert os.waitpid(child, 0) == (child, 0)
    finally:
        timer.cancel()

    return child


@needs_posix
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_child_writes_a_file_of_its_own(tmp_path: Path) -> None:
    """``{pid}`` is the number of the process that writes, also where another made the ledger, and
    whatever its threads did at that moment.
    """
    ledger = Ledger(tmp_path / "ledger.{pid}.jsonl")
    write(ledger, call="parent")
    held = Event()
    done = Event()

    def hold() -> None:
        with ledger._file.lock:
            held.set()
            done.wait()

    thread = Thread(target=hold)
    thread.start()
    held.wait()
    try:
        child = run_in_child(lambda: write(ledger, call="child"))
    finally:
        done.set()
        thread.join()

    write(ledger, call="parent")
    assert len([*tmp_path.iterdir()]) == 2
    for number, calls in ((os.getpid(), ["parent", "parent"]), (child, ["child"])):
        found = lines(tmp_path / f"ledger.{number}.jsonl")
        assert [line["call"] for line in found] == calls


def test_a_ledger_is_closed_with_its_last_holder(tmp_path: Path) -> None:
    """No file stays open behind a ledger that nobody holds."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    write(ledger)
    descriptor: Any = ledger._file._descriptor
    del ledger
    with pytest.raises(OSError, match=f"Errno {errno.EBADF}"):
        os.fstat(descriptor)


ASK: dict[str, Any] = {"model": "m", "messages": USER}
UNFIT = completion(calls=[call("search", {"query": 1})])
FITS = completion(calls=[call("search", {"query": "tea"})])


def written(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a ledger."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("rollout", "expected"),
    [
        ({}, [("enforce", "rejected"), ("enforce", "ok")]),
        ({"mode": "observe"}, [("observe", "observed")]),
        ({"enforce": {"search"}}, [("partial", "rejected"), ("partial", "ok")]),
        ({"mode": "off"}, []),
    ],
)
@pytest.mark.parametrize("is_path", [False, True], ids=["ledger", "path"])
def test_a_client_writes_each_attempt(
    rollout: dict[str, Any], expected: list[tuple[str, str]], is_path: bool, tmp_path: Path
) -> None:
    """``wrap(ledger=)`` takes a ledger or its path; the lines of one call share its id."""
    path = tmp_path / "ledger.jsonl"
    search = sr.Tool.from_json_schema("search", SCHEMA)
    ledger: Any = str(path) if is_path else sr.Ledger(path)
    client = sr.wrap(Server(UNFIT, FITS).client(), tools=[search], ledger=ledger, **rollout)
    client.chat.completions.create(**ASK)

    lines = written(path) if path.exists() else []
    assert [(line["mode"], line["outcome"]) for line in lines] == expected
    assert {line["tool"] for line in lines} <= {"search"}
    assert len({line["call"] for line in lines}) <= 1


def test_the_environment_names_a_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without a word of it writes where the variable says."""
    path = tmp_path / "ledger.jsonl"
    monkeypatch.setenv("STRICTREPLY_LEDGER", str(path))
    monkeypatch.setenv("STRICTREPLY_MODE", "observe")
    search: Any = {"type": "function", "function": {"name": "search", "parameters": SCHEMA}}
    for _ in range(2):
        sr.wrap(Server(UNFIT).client()).chat.completions.create(**ASK, tools=[search])

    assert [line["outcome"] for line in written(path)] == ["observed", "observed"]


def test_a_wrong_ledger_is_refused_where_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong keyword and a wrong variable raise where the client is wrapped."""
    wrongs: list[Any] = [3, str(tmp_path / "no" / "ledger.jsonl")]
    for wrong in wrongs:
        with pytest.raises(sr.ContractError):
            sr.wrap(Server(FITS).client(), ledger=wrong)

    monkeypatch.setenv("STRICTREPLY_LEDGER", str(tmp_path / "no" / "ledger.jsonl"))
    with pytest.raises(sr.ContractError, match="STRICTREPLY_LEDGER"):
        sr.wrap(Server(FITS).client())
