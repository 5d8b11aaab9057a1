"""Whatever a session store does, its user gets an error of ours (finding V14).

The error has what the run had done.
"""

from __future__ import annotations

import os
import pickle
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import strictreply as sr
from strictreply.loop import (
    AttemptMade,
    MemorySessionStore,
    RunEvent,
    SessionConflict,
    SessionStoreFailed,
    SQLiteSessionStore,
)
from strictreply.loop._sessions import REASONS
from strictreply.loop.invoke_result import InvokeCode
from strictreply.loop.values import AgentToolCallResult, Session
from support.loop.loops import DONE, LOCATE, Opened, asking, codes, spy
from support.pipeline.waiting import FIRST, NEW, WAITING, held

CANARY = "canary-7f3a"
KEPT = Session(id="s", org="o", user="u", messages=({"role": "user", "content": CANARY},))


def changed(path: Path, statement: str, *values: object) -> None:
    """Change the file behind the store's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


def overwritten(path: Path) -> None:
    """Write over the file what is no database."""
    for beside in path.parent.glob(f"{path.name}-*"):
        beside.unlink()
    path.write_bytes(b"no database at all" * 500)


def damaged(path: Path) -> None:
    """Damage every page of the file but the first."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))


def gone(path: Path) -> None:
    """Remove the file with its folder."""
    for each in path.parent.iterdir():
        each.unlink()
    path.parent.rmdir()


FAULTS: list[tuple[str, Callable[[Path], None], str]] = [
    ("overwritten", overwritten, "corrupt"),
    ("damaged", damaged, "corrupt"),
    ("gone", gone, "unreachable"),
    ("emptied", lambda path: changed(path, "DROP TABLE sessions"), "corrupt"),
    (
        "no JSON",
        lambda path: changed(path, "UPDATE sessions SET value = ?", f"{{{CANARY}"),
        "unreadable",
    ),
    (
        "another shape",
        lambda path: changed(path, "UPDATE sessions SET value = ?", f'{{"{CANARY}": 1}}'),
        "unreadable",
    ),
    (
        "bytes",
        lambda path: changed(path, "UPDATE sessions SET value = ?", b"\xff\xfe"),
        "unreadable",
    ),
    (
        "no UTF-8",
        lambda path: changed(path, "UPDATE sessions SET value = CAST(x'ff6361' AS TEXT)"),
        "unreadable",
    ),
    ("a number", lambda path: changed(path, "UPDATE sessions SET value = 7"), "unreadable"),
]


@pytest.mark.parametrize(
    ("fault", "reason"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
def test_v14_a_file_that_is_none_any_more_is_told_by_our_error(
    tmp_path: Path, fault: Callable[[Path], None], reason: str
) -> None:
    """Each way a file can be broken has its reason; the error names the file, and nothing that is
    kept in it.
    """
    folder = tmp_path / "kept"
    folder.mkdir()
    path = folder / "desk.sqlite"
    store = SQLiteSessionStore(path)
    store.save(KEPT, FIRST, waiting=WAITING)

    fault(path)

    with pytest.raises(SessionStoreFailed) as told:
        store.session("s")

    error = told.value
    assert (error.reason, error.place, error.run) == (reason, str(path), None)
    assert str(path) in str(error)
    assert REASONS[reason][1] in str(error)

    assert CANARY not in f"{error}{error.explain()}{error.to_dict()}"
    assert error.__suppress_context__
    assert error.__cause__ is None
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own bytes


class Limited(SQLiteSessionStore):
    """A store whose connections are bounded in one way, from the moment that says so."""

    pragma = ""

    def bound(self, pragma: str) -> None:
        """Bound all connections from now on."""
        self.pragma = pragma
        self.close()

    def _connected(self) -> sqlite3.Connection:
        """Connect, and bound it."""
        connection = super()._connected()
        connection.execute("PRAGMA busy_timeout = 0")
        if self.pragma:
            connection.execute(self.pragma)
        return connection


USES: dict[str, Callable[[Any], Any]] = {
    "save": lambda store: store.save(
        Session(id="t", messages=({"content": "x" * 100_000},)), FIRST
    ),
    "claim": lambda store: store.claim("s.t1", "me"),
    "delete": lambda store: store.delete("s"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_v14_a_file_that_may_not_be_written(tmp_path: Path, use: Callable[[Any], Any]) -> None:
    """A read-only database is told so by whatever writes, and can still be read."""
    store = Limited(tmp_path / "desk.sqlite")
    store.save(NEW, FIRST, waiting=WAITING)
    store.bound("PRAGMA query_only = ON")
    with pytest.raises(SessionStoreFailed) as told:
        use(store)
    assert told.value.reason == "read_only"
    assert store.session("s") is not None


def test_v14_a_disk_that_is_full(tmp_path: Path) -> None:
    """On a full disk nothing of a save is written, and the save can be repeated."""
    store = Limited(tmp_path / "desk.sqlite")
    store.bound("PRAGMA max_page_count = 8")
    with pytest.raises(SessionStoreFailed) as told:
        USES["save"](store)
    assert (told.value.reason, store.session("t")) == ("full", None)
    store.bound("")
    USES["save"](store)
    assert store.session("t") is not None


def test_v14_a_file_that_is_locked(tmp_path: Path) -> None:
    """Waiting too long for another program's transaction raises SessionStoreFailed."""
    store = Limited(tmp_path / "desk.sqlite")
    with closing(sqlite3.connect(tmp_path / "desk.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(SessionStoreFailed) as told:
            store.save(NEW, FIRST)
    assert told.value.reason == "busy"


@pytest.mark.parametrize("key", ["\ud800", "a\ud800b"])
def test_v14_an_id_that_nothing_can_spell(tmp_path: Path, key: str) -> None:
    """Half of a surrogate pair in an id is refused with our error."""
    with pytest.raises(sr.ContractError):
        SQLiteSessionStore(tmp_path / "desk.sqlite").session(key)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_v13_a_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    """The file and those that SQLite puts beside it are 0600, whatever the umask allows; one that
    is there is left.
    """
    before = os.umask(0)
    try:
        store = SQLiteSessionStore(tmp_path / "desk.sqlite")
        with store.transaction(writing=True):
            store.session("s")
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    finally:
        os.umask(before)

    assert set(modes.values()) == {0o600}
    (tmp_path / "desk.sqlite").chmod(0o640)
    SQLiteSessionStore(tmp_path / "desk.sqlite")
    assert stat.S_IMODE((tmp_path / "desk.sqlite").stat().st_mode) == 0o640


class Failing(MemorySessionStore):
    """A program's own store, which fails once.

    Its ``method`` raises at its ``at``-th use an error that quotes what it should keep.
    """

    def __init__(self, method: str, at: int = 1, error: type[Exception] = OSError) -> None:
        """Fail at one use of one method."""
        super().__init__()
        self.left = at
        original = getattr(self, method)

        def fail(*args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise error(CANARY)
            return original(*args, **options)

        setattr(self, method, fail)


@pytest.mark.parametrize("error", [OSError, KeyError, StopIteration, RecursionError])
def test_v14_an_answer_that_could_not_be_kept_is_not_lost(
    opened: Opened, error: type[Exception]
) -> None:
    """A store that fails when the tools have run: the error is ours, and has the run with its
    answer.
    """
    ran: list[str] = []
    loop = opened(asking("a"), DONE, tools=[spy("search", ran)], store=Failing("save", error=error))

    with pytest.raises(SessionStoreFailed) as told:
        loop.run()

    run = told.value.run
    assert (told.value.place, told.value.reason, type(told.value.cause)) == (
        "Failing",
        "failed",
        error,
    )

    assert CANARY not in str(told.value)
    assert (run.answer, ran, len(run.replies)) == ("done", ["a"], 2)
    assert [turn["role"] for turn in run.transcript][-4:] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


def test_v14_a_pause_that_could_not_be_kept_is_not_lost(opened: Opened) -> None:
    """The calls that the client would have been asked for are in the error's run."""
    loop = opened(asking("l", tool="locate"), tools=[LOCATE], store=Failing("save"))
    with pytest.raises(SessionStoreFailed) as told:
        loop.run()
    assert [call.name for call in told.value.run.pending] == ["locate"]


def test_v14_an_answer_that_came_too_late_is_not_lost(opened: Opened) -> None:
    """A turn that lost its session to another one has its answer in the conflict."""
    store = MemorySessionStore()
    loop = opened(DONE, DONE, DONE, store=store, tools=[LOCATE])
    first = loop.run()

    def interfere(event: RunEvent) -> None:
        if isinstance(event, AttemptMade):
            kept = store.session(first.response.session_id)
            assert kept is not None
            store.save(kept, FIRST)

    with pytest.raises(SessionConflict) as told:
        loop.run("more", after=first, on_event=interfere)

    assert told.value.run.answer == "done"


@pytest.mark.parametrize(("at", "done"), [(1, []), (2, ["x"]), (3, ["x"]), (4, ["x", "y"])])
def test_v14_what_an_allowed_call_came_to_is_not_lost(
    opened: Opened, at: int, done: list[str]
) -> None:
    """Whichever note of two allowed calls cannot be kept: the error tells what ran, and no call
    ever runs twice.
    """
    ran: list[str] = []
    loop = opened(
        asking("x", "y", tool="deliver"), DONE, tools=[spy("deliver", ran, needs_approval=True)]
    )
    paused = loop.run(sessions=(store := Failing("keep", at=at)))
    allowed = [call.approved() for call in paused.pending]

    with pytest.raises(SessionStoreFailed) as told:
        loop.run(continuation=paused, results=allowed, sessions=store)

    results = [turn["content"] for turn in told.value.run.transcript if turn["role"] == "tool"]
    assert (ran, results) == (done, [f"deliver {each}" for each in done])
    assert loop.run(continuation=paused, results=allowed, sessions=store).answer == "done"
    assert ran == ["x", "y"]


def test_v14_a_claim_that_cannot_be_given_back_hides_nothing(opened: Opened) -> None:
    """A store that fails while another failure is on its way leaves that failure as it is."""
    loop = opened(asking("l", tool="locate"), DONE, tools=[LOCATE])
    store = Failing("release", at=1, error=KeyError)
    paused = loop.run(sessions=store)
    store.left = 1

    def stop(event: RunEvent) -> None:
        raise KeyboardInterrupt

    results = [AgentToolCallResult(tool_call_id="l", name="locate", result_json='"here"')]
    with pytest.raises(KeyboardInterrupt):
        loop.run(continuation=paused, results=results, on_event=stop, sessions=store)


def test_v14_a_cancel_that_raises_fails_the_run_with_our_error(opened: Opened) -> None:
    """A ``cancel`` that cannot say fails the run before anything is asked."""
    loop = opened(DONE, tools=[LOCATE])

    def cancel() -> bool:
        raise KeyError(CANARY)

    with pytest.raises(sr.InvokeFailed) as told:
        loop.run(cancel=cancel)

    assert (codes(told.value), loop.asks) == ([InvokeCode.CANCEL_RAISED], 0)
    assert CANARY not in str(told.value)


def test_v14_a_listener_that_raises_leaves_the_run_and_the_log_alone(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception of ``on_event`` changes nothing, and its text, which may be the model's, is not
    logged.
    """

    def listen(event: RunEvent) -> None:
        raise KeyError(CANARY)

    assert opened(DONE, tools=[LOCATE]).run(on_event=listen).answer == "done"
    assert "KeyError" in caplog.text
    assert CANARY not in caplog.text


def test_v13_a_types_name_forges_no_line(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    """Clients of services name exceptions by what a server sends: logs and errors show such a name
    printable.
    """
    forged = type("Lost\nERROR root: forged\x1b[2J", (Exception,), {})

    def lost(*_: object) -> Any:
        raise forged

    class Store(MemorySessionStore):
        save: Any = lost

    def search(query: str) -> str:
        """Search."""
        raise forged

    tool = sr.Tool.from_function(search)
    loop = opened(asking("x", tool="search"), DONE, tools=[tool], store=Store())

    with pytest.raises(SessionStoreFailed) as told:
        loop.run(on_event=lost)

    with pytest.raises(sr.ToolExecutionError) as raised:
        tool.run(tool.build({"query": "x"}))

    assert {"tool", "on_event"} <= {message.split()[0] for message in caplog.messages}
    assert all(
        text.isprintable() for text in (*caplog.messages, str(told.value), str(raised.value))
    )


def test_v14_a_tools_error_that_cannot_be_read(opened: Opened) -> None:
    """A ToolError whose own ``__str__`` fails is told as any other failure."""

    class Mute(sr.ToolError):
        def __str__(self) -> str:
            raise ValueError(CANARY)

    def search(query: str) -> str:
        """Search."""
        raise Mute(query)

    run = opened(asking("a"), DONE, tools=[search]).run()
    assert run.answer == "done"
    assert CANARY not in str(run.transcript)


def test_v14_a_store_that_gives_something_else(opened: Opened) -> None:
    """A program's own store that returns something else than a session causes no AttributeError in
    a run.
    """

    class Odd(MemorySessionStore):
        def session(self, session_id: str) -> Any:
            return {"id": session_id}

    loop = opened(DONE, DONE, tools=[LOCATE], store=Odd())
    first = loop.run()
    with pytest.raises(sr.StrictReplyError):
        loop.run("more", after=first)


def test_v14_claims_stay_what_they_are(tmp_path: Path) -> None:
    """Errors of ours inside a transaction come through as they are."""
    store = SQLiteSessionStore(tmp_path / "desk.sqlite")
    store.save(NEW, FIRST, waiting=WAITING)
    with pytest.raises(SessionConflict):
        store.save(NEW, FIRST)
    assert held(store, "me").holder == "me"
