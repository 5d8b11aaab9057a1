"""Sessions in one SQLite file, for all processes and threads of a machine.

The rules stand in ``loop._sessions``.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

from strictreply import ContractError
from strictreply.loop._sessions import (
    CLAIM_SECONDS,
    Records,
    SessionStore,
    SessionStoreFailed,
    WaitingManifest,
)
from strictreply.loop.values import Session, Turn, Value

# "SRS1" in ASCII marks a file as a session store (``PRAGMA application_id``).
APPLICATION_ID: Final = 0x53525331
# Of the tables below (``PRAGMA user_version``).
SCHEMA_VERSION: Final = 1
# A transaction waits so long for another process; each takes milliseconds.
BUSY_SECONDS: Final = 30.0

_REASONS: Final[dict[int, str]] = {
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_TOOBIG: "too_big",
    **dict.fromkeys((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED), "busy"),
    **dict.fromkeys((sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY), "read_only"),
    **dict.fromkeys((sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN), "unreachable"),
    **dict.fromkeys((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB), "corrupt"),
    # Its tables are gone, as when the file was replaced.
    sqlite3.SQLITE_ERROR: "corrupt",
}

_TABLES: Final[dict[type[Value], str]] = {
    Session: "sessions",
    Turn: "turns",
    WaitingManifest: "manifests",
}

_Connection: TypeAlias = tuple[sqlite3.Connection, tuple[int, ...]]
"""A connection between two uses, and how its files were left.

It would read on from a file that was replaced since.
"""

# Held for moments, to take a connection or give it back; and while a process forks.
_KEEPING: Final = threading.Lock()
_IDLE: Final = weakref.WeakKeyDictionary["SQLiteSessionStore", list[_Connection]]()
"""The connections that each store keeps.

No connection is carried over a fork (sqlite.org/howtocorrupt.html, section 2.6).
"""
# Connections of a store: as many as threads use it at the same time, in most programs.
_MOST_IDLE: Final = 4


def _before_fork() -> None:
    _KEEPING.acquire()
    for idle in _IDLE.values():
        _close(idle)


def _close(idle: list[_Connection]) -> None:
    while idle:
        idle.pop()[0].close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_KEEPING.release, after_in_child=_KEEPING.release
    )


class SQLiteSessionStore(SessionStore):
    """Stores sessions in the SQLite database at ``path``.

    The file is created if it is missing, for its owner only (0600). The store is safe for threads,
    forks and several processes: each call is one transaction, which is on the disk when it returns.
    A process that is forked while another thread is in a call may find the database locked.
    Connections are kept between calls until :meth:`close`. ``clock`` gives seconds since 1970;
    claims lapse after ``claim_seconds``.

    Raises ContractError when the file cannot be opened, is not a session store, or was made by a
    newer version. Later every method raises SessionStoreFailed when it cannot be used any more.
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
            raise ContractError(
                "SQLiteSessionStore needs the path of a file; use MemorySessionStore for memory"
            )

        try:
            # For its owner alone: SQLite gives the files beside it its mode.
            with suppress(FileExistsError):
                Path(self._path).touch(mode=0o600, exist_ok=False)

            with closing(self._connected()) as connection:
                _prepare(connection, self._path)
        except ContractError:
            raise
        # ValueError is a NUL in the path, or half of a surrogate pair.
        except (sqlite3.Error, OSError, ValueError) as error:
            message = f"{self._path!r} cannot be used to store sessions: {error}"
            raise ContractError(message) from error

    def close(self) -> None:
        """Close the connections that are kept, as before the file is moved.

        The next call makes one again.
        """
        with _KEEPING:
            _close(self._idle())

    def failure(self, error: Exception) -> SessionStoreFailed:
        """Return the error that stands for one of SQLite, by its code.

        SQLite's own words may quote what a session holds.
        """
        return SessionStoreFailed(self._path, self.reason_of(error) or "unreadable", cause=error)

    @staticmethod
    def reason_of(error: object) -> str | None:
        """Return the ``reason`` of a SessionStoreFailed for an error of SQLite, by its code.

        None for an error without one, such as text that is not UTF-8.
        """
        primary = getattr(error, "sqlite_errorcode", 0) & 0xFF  # sqlite.org/rescode.html
        return _REASONS.get(primary)

    def _idle(self) -> list[_Connection]:
        """Return the connections that are kept.

        A store that is a copy, as of a pickle, begins with none.
        """
        if self not in _IDLE:
            _IDLE[self] = []
            weakref.finalize(self, _close, _IDLE[self])
        return _IDLE[self]

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        # Some builds of SQLite do without in WAL mode.
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    @contextmanager
    def transaction(self, *, writing: bool) -> Generator[Records, None, None]:
        """Read from one state of the file, or lock it for writing.

        An exception undoes everything.
        """
        with _KEEPING:
            idle = self._idle()
            connection, files = idle.pop() if idle else (None, ())

        file = _state_of(self._path, of_log=False)
        if connection is not None and files != _state_of(self._path):
            connection.close()
            connection = None

        connection = connection or self._connected()
        try:
            connection.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
            with connection:
                yield _SQLiteRecords(connection)
        except BaseException:
            connection.close()  # whatever state it is in
            raise

        files = _state_of(self._path)
        with _KEEPING:
            # What was replaced meanwhile is not what the connection reads.
            is_same = files[:2] == file != ()
            if is_same and len(idle) < _MOST_IDLE:
                idle.append((connection, files))
                return

        connection.close()


def _state_of(path: str, *, of_log: bool = True) -> tuple[int, ...]:
    """Return what identifies a file, with ``of_log`` also its content and log, where commits go.

    It is () when the file is not there.
    """
    try:
        file = Path(path).stat()
        log = Path(f"{path}-wal").stat() if of_log else None
    except OSError:
        return ()

    of_file = (file.st_dev, file.st_ino)
    if log is None:
        return of_file
    return (*of_file, file.st_size, file.st_mtime_ns, log.st_ino)


class _SQLiteRecords:
    """The texts of one transaction: a table for each kind."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._run = connection.execute

    def get(self, record: tuple[type[Value], str], /) -> str | None:
        kind, key = record
        # The name of the table is our own.
        query = f"SELECT value FROM {_TABLES[kind]} WHERE id = ?"  # noqa: S608
        rows: list[tuple[str]] = self._run(query, (key,)).fetchall()
        return rows[0][0] if rows else None

    def __setitem__(self, record: tuple[type[Value], str], text: str, /) -> None:
        kind, key = record
        query = f"INSERT OR REPLACE INTO {_TABLES[kind]} VALUES (?, ?)"  # noqa: S608
        self._run(query, (key, text))

    # With a ``default``, as of a dict.
    def pop(self, record: tuple[type[Value], str], default: None, /) -> None:  # noqa: ARG002
        kind, key = record
        self._run(f"DELETE FROM {_TABLES[kind]} WHERE id = ?", (key,))  # noqa: S608


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables in an empty file; leave a file alone that is not ours."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (program,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()

        if not (tables or program or version):  # nothing is in it, and nobody has marked it
            for table in _TABLES.values():
                connection.execute(
                    f"CREATE TABLE {table} (id TEXT PRIMARY KEY, value TEXT NOT NULL)"
                )

            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        elif program != APPLICATION_ID:
            raise ContractError(f"{path!r} is a database of another program; pass another path")
        elif version != SCHEMA_VERSION:
            raise ContractError(
                f"{path!r} was made by another version of strictreply (schema {version}, not "
                f"{SCHEMA_VERSION}); pass another path"
            )

    # Another process may be opening it: WAL only lets readers pass a writer.
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode = WAL")
