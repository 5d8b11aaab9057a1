"""Sessions in a file that other processes share.

A process that is killed leaves the file whole; a strange file is left alone.
"""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strictreply import ContractError
from strictreply.loop import SessionStoreFailed, SQLiteSessionStore
from strictreply.loop.values import Session, Turn
from support.loop.loops import DONE, Loop
from support.pipeline.waiting import FIRST, NEW, PAUSED, WAITING, held, kept

CLAIMING = """
import sys
from strictreply.loop import SessionClaim
from strictreply.loop import SQLiteSessionStore

store = SQLiteSessionStore(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
claims = [store.claim(f"s{number}.t1", sys.argv[2]) for number in range(20)]
print(*(isinstance(claim, SessionClaim) for claim in claims), flush=True)
"""

DYING = """
import os, signal, sys
from contextlib import contextmanager
from strictreply.loop import SessionClaim
from strictreply.loop.values import Session, ToolCallManifest, Turn
from strictreply.loop import SQLiteSessionStore

class Dying:
    def __init__(self, records, left):
        self.records, self.left = records, left
        self.get, self.pop = records.get, records.pop

    def __setitem__(self, record, text):
        self.left or os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1
        self.records[record] = text

class DyingStore(SQLiteSessionStore):
    @contextmanager
    def transaction(self, *, writing):
        with super().transaction(writing=writing) as records:
            yield Dying(records, int(sys.argv[2])) if writing else records
            if writing:
                os.kill(os.getpid(), signal.SIGKILL)

store = DyingStore(sys.argv[1])
claim = SessionClaim.from_json(sys.argv[3])
turn = Turn(id="t1", iterations=1)
store.save(store.session("s"), turn, waiting=ToolCallManifest(), consumed=claim)
"""

SAVING = """
import sys
from strictreply.loop.values import Session, Turn
from strictreply.loop import SQLiteSessionStore

store = SQLiteSessionStore(sys.argv[1])
filler = ({"role": "user", "content": "x" * 50_000},)
for number in range(1_000):
    last = store.session("s").last_turn_id if number else ""
    session = Session(id="s", last_turn_id=last, messages=filler * (number % 7))
    store.save(session, Turn(id=f"t{number}", iterations=number % 7))
    print(number, flush=True)
"""


def started(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a process that uses a store; the test talks to it by lines."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_one_of_two_processes_gets_the_claim(tmp_path: Path) -> None:
    """Two processes race for twenty manifests: each goes to exactly one of them."""
    path = tmp_path / "sessions.db"
    store = SQLiteSessionStore(path)

    for number in range(20):
        store.save(Session(id=f"s{number}"), FIRST, waiting=WAITING)

    with started(CLAIMING, str(path), "a") as one, started(CLAIMING, str(path), "b") as other:
        assert {one.stdout.readline(), other.stdout.readline()} == {"ready\n"}  # type: ignore[union-attr]
        (won, _), (won_too, _) = (racer.communicate("go\n", timeout=60) for racer in (one, other))

    assert (one.returncode, other.returncode) == (0, 0)
    pairs = list(zip(won.split(), won_too.split(), strict=True))
    assert [sorted(pair) for pair in pairs] == [["False", "True"]] * 20


@pytest.mark.parametrize("writes", range(4))
def test_a_process_killed_in_a_save_leaves_nothing_of_it(tmp_path: Path, writes: int) -> None:
    """SIGKILL before the n-th write, or before the commit: the turn is as it was, and its claim
    works on.
    """
    path = tmp_path / "sessions.db"
    store = SQLiteSessionStore(path)
    store.save(NEW, FIRST, waiting=WAITING)

    claim = held(store, "a")
    with started(DYING, str(path), str(writes), claim.to_json()) as dying:
        dying.communicate(timeout=60)

    assert dying.returncode == -signal.SIGKILL
    assert (kept(store), store.turn("s", "t1")) == (replace(NEW, last_turn_id="t1"), PAUSED)
    assert held(store, "a") == claim
    store.save(kept(store), replace(FIRST, iterations=1), consumed=claim)


@pytest.mark.parametrize("saves", [1, 3, 8])
def test_a_process_killed_at_any_time_leaves_whole_turns(tmp_path: Path, saves: int) -> None:
    """SIGKILL from outside: the session and its last turn are of the same save, and no reported
    save is lost.
    """
    path = tmp_path / "sessions.db"
    with started(SAVING, str(path)) as saving:
        reported = [saving.stdout.readline() for _ in range(saves)]  # type: ignore[union-attr]
        saving.kill()

    store = SQLiteSessionStore(path)
    session = kept(store)
    turn = store.turn("s", session.last_turn_id)
    assert turn is not None

    assert turn.iterations == len(session.messages)
    assert int(session.last_turn_id[1:]) >= int(reported[-1])


def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    """Threads that open the same new file make one store."""
    gate, stores = threading.Barrier(6), list[SQLiteSessionStore]()

    def open_store() -> None:
        gate.wait(timeout=30)
        stores.append(SQLiteSessionStore(tmp_path / "new.db"))

    threads = [threading.Thread(target=open_store) for _ in range(6)]
    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join(timeout=60)

    stores[0].save(NEW, FIRST)
    assert [kept(store).last_turn_id for store in stores] == ["t1"] * 6


def test_the_file_tells_its_schema(tmp_path: Path) -> None:
    """The file is in WAL mode and names its version, so that a later one can tell."""
    path = tmp_path / "sessions.db"
    SQLiteSessionStore(path)
    with closing(sqlite3.connect(path)) as connection:
        told = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "user_version")
        ]
    assert told == ["wal", 1]


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE other (x)", "PRAGMA user_version = 1", "PRAGMA application_id = 7"]
)
def test_a_database_of_another_program_is_left_alone(tmp_path: Path, statement: str) -> None:
    """A file that holds something else is a ContractError, and not changed."""
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
    before = path.read_bytes()
    with pytest.raises(ContractError):
        SQLiteSessionStore(path)
    assert path.read_bytes() == before


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    """A store that a later version made is a ContractError."""
    path = tmp_path / "sessions.db"
    SQLiteSessionStore(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(ContractError):
        SQLiteSessionStore(path)


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    """A file that is none, a folder that is not there, and no file at all are ContractErrors."""
    text = tmp_path / "notes.txt"
    text.write_text("no database at all, and long enough to be seen as none")
    for path in (text, tmp_path, tmp_path / "absent" / "sessions.db", ":memory:", ""):
        with pytest.raises(ContractError):
            SQLiteSessionStore(path)


class Counted(SQLiteSessionStore):
    """A store that notes its connections, and the first words of every statement."""

    def __init__(self, path: Path) -> None:
        """Begin empty."""
        self.connections = 0
        self.statements: list[str] = []
        self.synchronous: list[int] = []
        super().__init__(path)
        self.connections = 0
        self.statements.clear()
        self.synchronous.clear()

    def _connected(self) -> sqlite3.Connection:
        """Connect, and watch it."""
        connection = super()._connected()
        self.connections += 1
        self.synchronous += connection.execute("PRAGMA synchronous").fetchone()
        connection.set_trace_callback(
            lambda statement: self.statements.append(statement.split()[0])
        )
        return connection


def test_a_turn_is_one_commit_on_a_connection_that_is_kept(tmp_path: Path) -> None:
    """However many turns follow on each other: one connection, and of each turn one transaction
    that writes.
    """
    store = Counted(tmp_path / "sessions.db")
    loop = Loop(*[DONE] * 4, tools=[], store=store)
    run = loop.run()
    assert store.connections == 1

    first = Counter(store.statements)
    assert first == {"BEGIN": 1, "SELECT": 3, "INSERT": 2, "COMMIT": 1}

    for _ in range(3):
        store.statements.clear()
        run = loop.run("more", after=run)

    assert store.connections == 1
    told = Counter(store.statements)
    assert told == {"BEGIN": 3, "SELECT": 3 + 4, "INSERT": 2, "DELETE": 2, "COMMIT": 3}
    assert [turn["content"] for turn in run.transcript[-2:]] == ["more", "done"]


def test_what_is_saved_is_on_the_disk(tmp_path: Path) -> None:
    """Each commit waits for the disk, whatever SQLite was built to do in WAL mode."""
    store = Counted(tmp_path / "sessions.db")
    store.save(NEW, FIRST)
    assert store.synchronous == [2]


@pytest.mark.parametrize("how", ["replaced", "restored", "removed"])
def test_a_file_that_was_changed_behind_a_store_is_the_one_that_counts(
    tmp_path: Path, how: str
) -> None:
    """A kept connection does not go on with a file that is not there any more: what is there is
    read, or told.
    """
    path = tmp_path / "sessions.db"
    other = tmp_path / "other.db"
    for at, name in ((path, "mine"), (other, "other")):
        store = SQLiteSessionStore(at)
        store.save(replace(NEW, mode=name), FIRST)
        if at is other:
            store.close()

    store = SQLiteSessionStore(path)
    assert kept(store).mode == "mine"

    if how == "replaced":
        other.replace(path)
    elif how == "restored":
        path.write_bytes(other.read_bytes())
    else:
        path.unlink()

    for beside in tmp_path.glob("sessions.db-*"):
        beside.unlink()

    if how == "removed":
        with pytest.raises(SessionStoreFailed) as told:
            store.session("s")
        assert told.value.reason == "corrupt"
    else:
        assert kept(store).mode == "other"


def test_a_file_that_is_replaced_in_a_transaction_is_read_by_the_next(tmp_path: Path) -> None:
    """The connection that ends it is on the file that was there before, and is not kept."""
    path = tmp_path / "sessions.db"
    first = SQLiteSessionStore(path)
    other = SQLiteSessionStore(tmp_path / "other.db")
    other.save(replace(NEW, mode="other"), FIRST)

    other.close()

    with first.transaction(writing=False):
        (tmp_path / "other.db").replace(path)

        for beside in tmp_path.glob("sessions.db-*"):
            beside.unlink()

        second = SQLiteSessionStore(path)
        assert kept(second).mode == "other"

    assert kept(first).mode == "other"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are POSIX's")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_has_connections_of_its_own(tmp_path: Path) -> None:
    """A child that was forked beside kept connections saves what its parent reads, and the other
    way round.
    """
    store = Counted(tmp_path / "sessions.db")
    store.save(NEW, FIRST)

    child = os.fork()
    if not child:
        session = store.session("s")
        assert session is not None
        store.save(session, Turn(id="t2"))
        os._exit(0 if store.connections == 2 else 1)  # its own, behind the one before the fork

    assert os.waitpid(child, 0)[1] == 0
    assert kept(store).last_turn_id == "t2"
    store.save(kept(store), Turn(id="t3"))
    assert (kept(store).last_turn_id, store.connections) == ("t3", 2)


def test_a_store_keeps_few_connections_and_closes_them(tmp_path: Path) -> None:
    """Ten threads at once leave at most four connections, and closing the store leaves no file
    beside the database.
    """
    store, gate = Counted(tmp_path / "sessions.db"), threading.Barrier(10)

    def use() -> None:
        with store.transaction(writing=False):
            gate.wait(timeout=30)

    threads = [threading.Thread(target=use) for _ in range(10)]
    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join(timeout=60)

    assert store.connections == 10

    with ExitStack() as opened:
        for _ in range(10):
            opened.enter_context(store.transaction(writing=False))

    assert 10 < store.connections <= 20
    assert store.connections >= 16
    store.save(NEW, FIRST)
    store.close()

    assert [each.name for each in tmp_path.iterdir()] == ["sessions.db"]
    assert kept(store).id == "s"


def pickled(store: SQLiteSessionStore) -> Any:
    """A store as another process gets it."""
    return pickle.loads(pickle.dumps(store))  # noqa: S301 - our own


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_of_a_store_is_a_store(
    tmp_path: Path, copied: Callable[[SQLiteSessionStore], Any]
) -> None:
    """A copy reads and saves in the same file with its own connections, so it may be sent to
    another process.
    """
    store = SQLiteSessionStore(tmp_path / "sessions.db")
    store.save(NEW, FIRST)
    other = copied(store)
    other.save(kept(other), Turn(id="t2"))
    assert kept(store).last_turn_id == "t2"
    store.close()
    other.close()
    assert [each.name for each in tmp_path.iterdir()] == ["sessions.db"]


def test_a_store_that_nobody_has_any_more_closes_its_connections(tmp_path: Path) -> None:
    """A garbage-collected store closes its connections, so that SQLite leaves no log beside the
    file.
    """
    store = SQLiteSessionStore(tmp_path / "sessions.db")
    store.save(NEW, FIRST)
    assert (tmp_path / "sessions.db-wal").exists()
    del store
    gc.collect()
    assert [each.name for each in tmp_path.iterdir()] == ["sessions.db"]
