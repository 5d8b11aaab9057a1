"""DBOS itself, imported late: it is an extra, and the core never knows of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from strictreply.pipeline._sessions import SessionStoreFailed
from strictreply.running._sqlite_sessions import make_private, reason_of
from strictreply.values._errors import ContractError


def load(name: str = "dbos") -> Any:
    """Import DBOS, or a module of what it stands on; ImportError says what to install when there is none."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"dbos", "psycopg", "sqlalchemy"}:
            raise
        message = "durable runs need dbos 3.4 or newer: pip install 'strictreply[durable]'"
        raise ImportError(message) from error


@contextmanager
def store_errors(url: str) -> Generator[None]:
    """Raise what the database of durable runs fails with as SessionStoreFailed: its own words quote conversations."""
    try:
        yield
    except _failures() as error:
        raise SessionStoreFailed(_place_of(url), _reason_of(error), cause=error) from None


def read_url(url: str) -> Any:
    """Read the address of a database; ContractError when it is none that runs can be kept in."""
    try:
        read = load("sqlalchemy").make_url(url)
    except (load("sqlalchemy").exc.ArgumentError, ValueError):  # SQLAlchemy's words may repeat a password
        read = None
    of_file = read is not None and read.get_backend_name() == "sqlite" and read.database not in {None, "", ":memory:"}
    if not of_file and (read is None or read.get_backend_name() != "postgresql"):
        raise ContractError("url= is sqlite:///FILE or postgresql://…")
    return read


def migrated(url: str) -> None:
    """Make DBOS's tables where there are none; a file is made for its owner alone."""
    read = read_url(url)
    with store_errors(url):
        if read.get_backend_name() == "sqlite":
            try:
                make_private(read.database)
            except OSError as error:
                raise SessionStoreFailed(_place_of(url), "unreachable", cause=error) from None
        load().DBOS.migrate(url)


def _failures() -> tuple[type[Exception], ...]:
    """List what a database fails with: errors of SQLAlchemy, of the drivers of our locks, records that are none."""
    kinds: list[type[Exception]] = [load("sqlalchemy").exc.SQLAlchemyError, sqlite3.Error, ValidationError]
    with suppress(ImportError):
        kinds.append(load("psycopg").Error)
    return tuple(kinds)


def _place_of(url: str) -> str:
    """Name a database without who connects to it."""
    read = read_url(url)
    plain = load("sqlalchemy").URL.create(read.drivername, host=read.host, port=read.port, database=read.database)
    return str(plain)


def _reason_of(error: Exception) -> str:
    """Name why a database failed, as far as it can be told."""
    if isinstance(error, ValidationError):
        return "unreadable"
    of_sqlite = reason_of(getattr(error, "orig", error))
    return of_sqlite or ("unreachable" if type(error).__name__ == "OperationalError" else "failed")
