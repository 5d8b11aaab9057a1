"""Sessions in one SQLite file, for all processes and threads of a machine.

``loop._sessions`` has the rules of a store.
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
# The version of the tables below (``PRAGMA user_version``).
SCHEMA_VERSION: Final = 1
# A transaction waits at most this long for another process; each takes milliseconds.
BUSY_SECONDS: Final = 30.0

_REASONS: Final[dict[int, str]] = {
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_TOOBIG: "too_big",
    **dict.fromkeys((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED), "busy"),
    **dict.fromkeys((sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY), "read_only"),
    **dict.fromkeys((sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN), "unreachable"),
    **dict.fromkeys((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB), "corrupt"),
    # The tables are missing, for example because the file was replaced.
    sqlite3.SQLITE_ERROR: "corrupt",
}

_TABLES: Final[dict[type[Value], str]] = {
    Session: "sessions",
    Turn: "turns",
    WaitingManifest: "manifests",
}

_Connection: TypeAlias = tuple[sqlite3.Connection, tuple[int, ...]]
"""An idle connection, and the state of its files when it was last used.

The state shows whether the file was replaced since; the connection would still read the old one.
"""

# Locked for moments, to take a connection or return it; and while a process forks.
_KEEPING: Final = threading.Lock()
_IDLE: Final = weakref.WeakKeyDictionary["SQLiteSessionStore", list[_Connection]]()
"""The idle connections of each store.

A connection must not be used after a fork (sqlite.org/howtocorrupt.html, section 2.6).
"""
# Idle connections of a store: enough for the threads that use it at the same time in most programs.
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

    A missing file is created, for its owner only (0600). The store is safe for threads, forks and
    several processes: each call is one transaction, which is on the disk when the call returns. A
    process that is forked while another thread is in a call may find the database locked.

    Connections stay open between calls until :meth:`close`. ``clock`` returns seconds since 1970;
    claims lapse after ``claim_seconds``.

    Raises ContractError when the file cannot be opened, is not a session store, or was made by
    another version. Later every method raises SessionStoreFailed if the file can no longer be used.
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
            # For its owner only; SQLite gives its auxiliary files the same mode.
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
        """Close the idle connections, for example before the file is moved.

        The next call opens one again.
        """
        with _KEEPING:
            _close(self._idle())

    def failure(self, error: Exception) -> SessionStoreFailed:
        """Return our error for an error of SQLite, by its code.

        SQLite's own message is left out, because it may quote session data.
        """
        return SessionStoreFailed(self._path, self.reason_of(error) or "unreadable", cause=error)

    @staticmethod
    def reason_of(error: object) -> str | None:
        """Return the ``reason`` of a SessionStoreFailed for an error of SQLite, by its code.

        Return None for an error without a code, such as text that is not UTF-8.
        """
        primary = getattr(error, "sqlite_errorcode", 0) & 0xFF  # sqlite.org/rescode.html
        return _REASONS.get(primary)

    def _idle(self) -> list[_Connection]:
        """Return the idle connections; a copy of a store starts without any."""
        if self not in _IDLE:
            _IDLE[self] = []
            weakref.finalize(self, _close, _IDLE[self])
        return _IDLE[self]

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        # Some builds of SQLite default to a weaker setting in WAL mode.
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
            # If the file was replaced meanwhile, the connection still reads the old one.
            is_same = files[:2] == file != ()
            if is_same and len(idle) < _MOST_IDLE:
                idle.append((connection, files))
                return

        connection.close()


def _state_of(path: str, *, of_log: bool = True) -> tuple[int, ...]:
    """Return the identity of a file; with ``of_log`` also the state of its content and its log.

    Return () if the file does not exist.
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
        # The table's name is a constant of this module.
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
    """Make the tables in an empty file; raise for a file that is not a session store."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (program,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()

        if not (tables or program or version):  # the file is empty and unmarked
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
