"""Sessions in one SQLite file, for all processes and threads of a machine; the rules stand in ``pipeline.sessions``."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
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


class SQLiteSessionStore(SessionStore):
    """Keeps sessions in the SQLite database at ``path``, which is made when there is none, for its owner alone (0600).

    Safe for threads, forks and several processes: each call is one transaction on a connection of its own. ``clock``
    gives seconds since 1970, for claims to lapse ``claim_seconds`` after they were made.

    Raises ContractError when the file cannot be opened, is no database of ours, or was made by a newer version; later
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
            raise ContractError(f"{self._path!r} cannot be used to keep sessions: {error}") from error

    def failure(self, error: Exception) -> SessionStoreFailed:
        """Return the error that stands for one of SQLite, by its code: its words may quote what a session holds."""
        return SessionStoreFailed(self._path, reason_of(error) or "unreadable", cause=error)

    def _connected(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)

    @contextmanager
    def transaction(self, *, writing: bool) -> Generator[Records, None, None]:
        """Read from one state of the file, or lock it for writing; an exception undoes everything."""
        with closing(self._connected()) as connection:
            connection.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
            with connection:
                yield _SQLiteRecords(connection)


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
        program, version = (_number(connection, pragma) for pragma in ("application_id", "user_version"))
        if not (tables or program or version):  # nothing is in it, and nobody has marked it
            for table in _TABLES.values():
                connection.execute(f"CREATE TABLE {table} (id TEXT PRIMARY KEY, value TEXT NOT NULL)")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        elif program != APPLICATION_ID:
            raise ContractError(f"{path!r} is a database of another program; give a path of its own")
        elif version != SCHEMA_VERSION:
            raise ContractError(f"{path!r} was made by another version (schema {version}, here {SCHEMA_VERSION})")
    with suppress(sqlite3.OperationalError):  # another process is opening it: WAL only lets readers pass a writer
        connection.execute("PRAGMA journal_mode = WAL")


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    (number,) = connection.execute(f"PRAGMA {pragma}").fetchone()
    return int(number)
