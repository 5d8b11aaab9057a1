"""Who works: a lock that its holder cannot outlive, and the runs of those who are gone taken over.

No heartbeat and no table of ours: the operating system frees a lock when its process ends, PostgreSQL when its session
does. DBOS keeps the rest: a run that was taken over cannot be written to by the one who had it before.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from strictreply.integrations.dbos._library import load, read_url
from strictreply.running._sqlite_sessions import reason_of
from strictreply.values._errors import ContractError

MAX_DROPS: Final = 5
"""A run that so many workers died of, one after the other and no step further, is given up: see ``suspects``."""

_KEEPALIVE: Final = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"


class Presence(Protocol):
    """Says that this process works, until it is closed or dies."""

    executor_id: str
    """The name under which DBOS keeps what this process has in hand."""

    def hold(self) -> None:
        """Begin to say so; ContractError when somebody else does under the same name."""
        ...

    def take_over(self) -> None:
        """Look once for runs whose worker is gone, and put them back into the queue."""
        ...

    def close(self) -> None:
        """Say no more."""
        ...


class SQLitePresence:
    """One process at a time, and the next goes on with what it left: DBOS takes its own runs up when it starts."""

    executor_id = "embedded"

    def __init__(self, path: str, queue: str) -> None:
        """Take the file of the runs and their queue; the lock is on a file beside it, which stays empty."""
        self._path = path
        owner = f"{os.path.realpath(path)}.{queue}.owner"
        self._lock = sqlite3.connect(owner, isolation_level=None, timeout=0, check_same_thread=False)

    def hold(self) -> None:
        """Lock; a second process would run every step a second time."""
        try:
            self._lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if reason_of(error) != "busy":
                raise
            raise ContractError(
                f"these runs in {self._path} are being worked on already; several workers need PostgreSQL: url='postgresql://…'"
            ) from error

    def take_over(self) -> None:
        """Find nothing: there is nobody else."""

    def close(self) -> None:
        """Unlock."""
        self._lock.close()


class PostgresPresence:
    """Any number of workers, each with a lock of its session; whose lock is free twice in a row is gone.

    Twice, since a server that starts anew frees all locks, and every worker takes its own back at its next look.
    """

    def __init__(self, url: str, queue: str, executor_id: str) -> None:
        """Take the database, the queue whose runs are watched, and a name that nobody else has."""
        self.executor_id = executor_id
        self._url = url
        self._queue = queue
        self._connection: Any = None
        self._missed: set[str] = set()

    def hold(self) -> None:
        """Connect, and lock our own name; without the lock no connection is kept, and the next look tries again."""
        self._connection = load("psycopg").connect(self._url, autocommit=True, options=_KEEPALIVE)
        if not self._locked(self.executor_id):
            self._connection.close()
            raise ContractError(f"another process has the executor_id {self.executor_id!r}; give each its own")

    def take_over(self) -> None:
        """Put back the runs of workers whose lock was free at the last look as well."""
        if self._connection.closed:
            self.hold()
        gone = {status.executor_id for status in self._pending()} - {self.executor_id}
        free = {executor_id for executor_id in gone if self._put_back(executor_id)}
        self._missed = free

    def close(self) -> None:
        """End the session, and so its locks."""
        if self._connection is not None:
            self._connection.close()

    def _put_back(self, executor_id: str) -> bool:
        """Tell whether a worker is gone; if it was at the last look, put its runs back, while nobody else does."""
        with self._lock_of(executor_id) as free:
            if free and executor_id in self._missed:
                for status in self._pending(executor_id=executor_id):
                    _resume(status)
            return free

    def _pending(self, **of: Any) -> list[Any]:
        """List the runs that somebody has in hand."""
        dbos = load().DBOS
        found: list[Any] = dbos.list_workflows(
            status="PENDING", queue_name=self._queue, load_input=False, load_output=False, **of
        )
        return found

    @contextmanager
    def _lock_of(self, executor_id: str) -> Generator[bool]:
        """Hold the lock of another worker, if it is free."""
        free = self._locked(executor_id)
        try:
            yield free
        finally:
            if free:
                self._connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [executor_id])

    def _locked(self, executor_id: str) -> bool:
        """Take a lock without waiting."""
        asked = self._connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [executor_id])
        return bool(asked.fetchone()[0])


def _resume(status: Any) -> None:
    """Put a run back into its queue, with its count, which makes it a suspect: see ``suspects``."""
    dbos = load().DBOS
    drops = (status.attributes or {}).get("drops", 0)
    dbos.update_workflow_attributes(status.workflow_id, {"drops": drops}, merge=True)
    dbos.resume_workflow(status.workflow_id, queue_name=status.queue_name)


def presence_of(url: str, queue: str, executor_id: str) -> Presence:
    """Give the presence that fits a database; ContractError when it is of another kind."""
    read = read_url(url)
    if read.get_backend_name() == "sqlite":
        return SQLitePresence(read.database, queue)
    plain = read.set(drivername="postgresql").render_as_string(hide_password=False)
    return PostgresPresence(plain, queue, executor_id)
