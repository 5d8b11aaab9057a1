"""Sessions in one SQLite file, for all processes and threads of a machine; the rules stand in ``pipeline.sessions``."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strictreply.pipeline._sessions import (
    CLAIM_SECONDS,
    Record,
    Records,
    SessionStore,
    SessionStoreFailed,
    WaitingManifest,
)
from strictreply.pipeline._values import Session, Turn, Value
from strictreply.values._errors import ContractError

APPLICATION_ID: Final = 0x53525331
"""What marks a file as ours (``PRAGMA application_id``): "SRS1" in ASCII."""

SCHEMA_VERSION: Final = 1
"""What ``PRAGMA user_version`` says of the tables below."""

BUSY_SECONDS: Final = 30.0
"""How long one transaction waits for another process; each takes milliseconds."""

_PRIMARY: Final = 0xFF
"""The bits of SQLite's primary result code (https://www.sqlite.org/rescode.html)."""

_REASONS: Final[dict[int, str]] = {
    sqlite3.SQLITE_ERROR: "corrupt",  # its tables are gone: the file was replaced
    sqlite3.SQLITE_PERM: "read_only",
    sqlite3.SQLITE_BUSY: "busy",
    sqlite3.SQLITE_LOCKED: "busy",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_IOERR: "unreachable",
    sqlite3.SQLITE_CORRUPT: "corrupt",
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_CANTOPEN: "unreachable",
    sqlite3.SQLITE_TOOBIG: "too_big",
    sqlite3.SQLITE_NOTADB: "corrupt",
}

_TABLES: Final[dict[type[Value], str]] = {Session: "sessions", Turn: "turns", WaitingManifest: "manifests"}


@dataclass(slots=True)
class _Kept:
    """A connection between two uses; ``files`` is how its files were left, to tell when they are no longer the same.

    A connection reads on from a file that was removed or written over, and knows nothing of it.
    """

    connection: sqlite3.Connection
    files: tuple[int, ...]


_KEEPING: Final = threading.Lock()
"""Held for moments, to take a connection or give it back; and while a process forks."""

_IDLE: Final = weakref.WeakKeyDictionary["SQLiteSessionStore", list[_Kept]]()
"""The connections that each store keeps; none is carried over a fork (sqlite.org/howtocorrupt.html, section 2.6)."""

_MOST_IDLE: Final = 4
"""How many connections a store keeps: as many as threads use it at the same time, in most programs."""


def _before_fork() -> None:
    _KEEPING.acquire()
    for kept in _IDLE.values():
        _close(kept)


def _close(kept: list[_Kept]) -> None:
    while kept:
        kept.pop().connection.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_KEEPING.release, after_in_child=_KEEPING.release)


class SQLiteSessionStore(SessionStore):
    """Stores sessions in the SQLite database at ``path``, which is created if missing, for its owner only (0600).

    Safe for threads, forks and several processes: each call is one transaction, which is on the disk when it returns.
    A process that is forked while another thread is in a call may find the database locked. Connections are kept
    between calls until :meth:`close`. ``clock`` gives seconds since 1970, for claims to lapse ``claim_seconds`` after
    they were made.

    Raises ContractError when the file cannot be opened, is not a session store, or was made by a newer version; later
    SessionStoreFailed, by every method, when it cannot be used any more.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        claim_seconds: float = CLAIM_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(claim_seconds=claim_seconds, clock=clock)
        self._path = os.fspath(path)
        if self._path in {"", ":memory:"}:
            raise ContractError("SQLiteSessionStore needs the path of a file; MemorySessionStore keeps none")
        try:
            make_private(self._path)
            with closing(self._connected()) as connection:
                _prepare(connection, self._path)
        except (sqlite3.Error, OSError, ValueError) as error:  # ValueError: a NUL, or half of a surrogate pair
            if isinstance(error, ContractError):
                raise
            raise ContractError(f"{self._path!r} cannot be used to store sessions: {error}") from error

    def close(self) -> None:
        """Close the connections that are kept, as before the file is moved; the next call makes one again."""
        with _KEEPING:
            _close(self._idle())

    def failure(self, error: Exception) -> SessionStoreFailed:
        """Return the error that stands for one of SQLite, by its code: its words may quote what a session holds."""
        return SessionStoreFailed(self._path, reason_of(error) or "unreadable", cause=error)

    def _idle(self) -> list[_Kept]:
        """Return the connections that are kept, made when there are none: a store may be a copy, as of a pickle."""
        if self not in _IDLE:
            _IDLE[self] = []
            weakref.finalize(self, _close, _IDLE[self])
        return _IDLE[self]

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous = FULL")  # some builds of SQLite do without in WAL mode
        return connection

    @contextmanager
    def transaction(self, *, writing: bool) -> Generator[Records, None, None]:
        """Read from one state of the file, or lock it for writing; an exception undoes everything."""
        with _KEEPING:
            idle = self._idle()
            kept = idle.pop() if idle else None
        file = _state_of(self._path, of_log=False)
        if kept is not None and kept.files != _state_of(self._path):
            kept.connection.close()
            kept = None
        connection = self._connected() if kept is None else kept.connection
        try:
            connection.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
            with connection:
                yield _SQLiteRecords(connection)
        except BaseException:
            connection.close()  # whatever state it is in
            raise
        kept = _Kept(connection, _state_of(self._path))
        with _KEEPING:
            is_same = kept.files[:2] == file != ()  # what was replaced meanwhile is not what the connection reads
            if is_same and len(idle) < _MOST_IDLE:
                idle.append(kept)
                return
        connection.close()


def _state_of(path: str, *, of_log: bool = True) -> tuple[int, ...]:
    """Return what tells a file from others, with ``of_log`` its content and log, too; nothing where it cannot be seen.

    Commits go to the log, so the file itself changes with a checkpoint alone.
    """
    try:
        file = Path(path).stat()
        of_file = (file.st_dev, file.st_ino)
        return (*of_file, file.st_size, file.st_mtime_ns, Path(f"{path}-wal").stat().st_ino) if of_log else of_file
    except OSError:
        return ()


class _SQLiteRecords:
    """The texts of one transaction: a table for each kind."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def get(self, record: Record, /) -> str | None:
        kind, key = record
        query = f"SELECT value FROM {_TABLES[kind]} WHERE id = ?"  # noqa: S608 - a name of our own table
        row: tuple[str] | None = self._connection.execute(query, (key,)).fetchone()
        return None if row is None else row[0]

    def __setitem__(self, record: Record, text: str, /) -> None:
        kind, key = record
        self._connection.execute(f"INSERT OR REPLACE INTO {_TABLES[kind]} VALUES (?, ?)", (key, text))  # noqa: S608

    def pop(self, record: Record, default: None, /) -> None:  # noqa: ARG002 - as of a dict
        kind, key = record
        self._connection.execute(f"DELETE FROM {_TABLES[kind]} WHERE id = ?", (key,))  # noqa: S608


def reason_of(error: object) -> str | None:
    """Read why SQLite failed off its code; None for an error without one, such as text that is no UTF-8."""
    return _REASONS.get(getattr(error, "sqlite_errorcode", 0) & _PRIMARY)


def make_private(path: str) -> None:
    """Make an empty file for its owner alone (0600) when there is none; SQLite gives the files beside it its mode."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables in an empty file; leave a file alone that is not ours."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (program,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if not (tables or program or version):  # nothing is in it, and nobody has marked it
            for table in _TABLES.values():
                connection.execute(f"CREATE TABLE {table} (id TEXT PRIMARY KEY, value TEXT NOT NULL)")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        elif program != APPLICATION_ID:
            raise ContractError(f"{path!r} is a database of another program; pass another path")
        elif version != SCHEMA_VERSION:
            raise ContractError(f"{path!r} was made by another version (schema {version}, here {SCHEMA_VERSION})")
    with suppress(sqlite3.OperationalError):  # another process is opening it: WAL only lets readers pass a writer
        connection.execute("PRAGMA journal_mode = WAL")
