"""A worker: DBOS launched in this process, its queue served, and the runs of dead workers taken over.

Who is alive is told by locks that no holder can outlive: the operating system frees a lock when its process ends,
PostgreSQL when its session does. So there is no heartbeat and no table of ours. DBOS does the rest: when a run was
taken over, the worker that had it before can write nothing more to it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from strictreply.integrations._extras import load
from strictreply.integrations.dbos._durable_records import make_tables, read_url, store_errors
from strictreply.integrations.dbos._suspects import TRIALS, forgive
from strictreply.running._sqlite_sessions import reason_of
from strictreply.values._errors import ContractError

JOURNAL: Final = 1
"""The version of the records: workers of one version go on with each other's runs."""

_KEEPALIVE: Final = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"

logger = logging.getLogger("strictreply")


class SQLitePresence:
    """Lets one process at a time work on a file; the next goes on with what it left, as DBOS does when it starts."""

    executor_id = "embedded"

    def __init__(self, path: str, queue: str) -> None:
        self._path = path
        # The lock is on an empty file beside the database: DBOS writes to the database itself in this process.
        owner = f"{os.path.realpath(path)}.{queue}.owner"
        self._lock = sqlite3.connect(owner, isolation_level=None, timeout=0, check_same_thread=False)

    def hold(self) -> None:
        """Take the lock; without it a second process would run every step a second time."""
        try:
            self._lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if reason_of(error) != "busy":
                raise
            raise ContractError(
                f"another process works on these runs in {self._path}; several workers need PostgreSQL: url='postgresql://…'"
            ) from error

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()


class PostgresPresence:
    """Lets any number of workers work, each with a lock of its own session on its ``executor_id``.

    A worker whose lock is free at two looks in a row is dead. One look is not enough: a server that restarts frees all
    locks, and every worker takes its own back at its next look.
    """

    def __init__(self, url: str, queue: str, executor_id: str) -> None:
        self.executor_id = executor_id
        self._url = url
        self._queue = queue
        self._connection: Any = None
        self._free_before: set[str] = set()

    def hold(self) -> None:
        """Connect, and lock our own name; without the lock the connection is closed, so the next look tries again."""
        self._connection = load("psycopg").connect(self._url, autocommit=True, options=_KEEPALIVE)
        if not self._locked(self.executor_id):
            self._connection.close()
            raise ContractError(f"another process has the executor_id {self.executor_id!r}; give each its own")

    def take_over(self) -> None:
        """Put the runs of dead workers back into the queue."""
        if self._connection.closed:  # the lock went with the session: others may take this worker for dead by now
            self.hold()
        others = {status.executor_id for status in self._pending()} - {self.executor_id}
        dbos, free = load("dbos").DBOS, set()
        for executor_id in filter(self._locked, others):
            free.add(executor_id)
            try:  # with the lock held, so that of several workers that find it free only one puts the runs back
                for status in self._pending(executor_id=executor_id) if executor_id in self._free_before else ():
                    # The attribute makes the run a suspect (see ``_suspects``), whatever its count.
                    drops = (status.attributes or {}).get("drops", 0)
                    dbos.update_workflow_attributes(status.workflow_id, {"drops": drops}, merge=True)
                    dbos.resume_workflow(status.workflow_id, queue_name=status.queue_name)
            finally:
                self._connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [executor_id])
        self._free_before = free

    def close(self) -> None:
        """End the session, and so its locks."""
        if self._connection is not None:
            self._connection.close()

    def _pending(self, **of: Any) -> list[Any]:
        found: list[Any] = load("dbos").DBOS.list_workflows(
            status="PENDING", queue_name=self._queue, load_input=False, load_output=False, **of
        )
        return found

    def _locked(self, executor_id: str) -> bool:
        asked = self._connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [executor_id])
        return bool(asked.fetchone()[0])


@dataclass(frozen=True, slots=True)
class DurableWorker:
    """How runs are worked on; see :meth:`DurableRuns.worker` for each field."""

    queue: str
    url: str
    concurrency: int
    poll_seconds: float
    drain_seconds: int
    launch: bool

    @contextmanager
    def serving(self) -> Generator[None]:
        """Work until the end of the block; others are told by a lock until it ends, or this process dies."""
        own = f"{self.queue}-{uuid4().hex}" if self.launch else load("dbos").DBOS.executor_id
        read = read_url(self.url)
        presence: SQLitePresence | PostgresPresence
        with store_errors(self.url):
            if read.get_backend_name() == "sqlite":
                presence = SQLitePresence(read.database, self.queue)
            else:
                plain = read.set(drivername="postgresql").render_as_string(hide_password=False)
                presence = PostgresPresence(plain, self.queue, own)
        try:
            make_tables(self.url)
            with store_errors(self.url):
                presence.hold()
            served = self._own_dbos(presence.executor_id) if self.launch else self._app_dbos()
            # nobody else works on a file
            watched = nullcontext() if isinstance(presence, SQLitePresence) else self._watching(presence.take_over)
            with served, watched:
                yield
        finally:
            presence.close()

    @contextmanager
    def _own_dbos(self, executor_id: str) -> Generator[None]:
        dbos = load("dbos").DBOS
        dbos(
            config={
                "name": self.queue,
                "system_database_url": self.url,
                "application_version": f"{self.queue}-{JOURNAL}",  # one for each name in a database
                "executor_id": executor_id,
                "log_level": "ERROR",
                "enable_otlp": False,
                # No notification of DBOS's is used. It would wake a hundred times a second to send some, and sleep a
                # second, which a stop waits for, to look for some.
                "notification_coalesce_sec": 0.1,
                "notification_listener_polling_interval_sec": 0.1,
            }
        )
        if dbos.executor_id != executor_id:
            raise ContractError("this process has a DBOS of its own: use worker(launch=False) after its launch")
        try:
            self._register_queue(application_name=self.queue)
            dbos.launch()
            try:
                yield
            finally:
                forgive()
        finally:
            dbos.destroy(workflow_completion_timeout_sec=self.drain_seconds)
            TRIALS.leave()  # else a thread that could not be stopped would keep a later worker of this process waiting

    @contextmanager
    def _app_dbos(self) -> Generator[None]:
        library = load("dbos")
        try:
            library.DBOS.list_workflows(queue_name=self.queue, limit=1)
        except library.error.DBOSException as error:
            raise ContractError("worker(launch=False) needs the app's own DBOS: launch it first") from error
        self._register_queue(application_name=None)  # which serves queues without a name only
        yield

    def _register_queue(self, application_name: str | None) -> None:
        """Register how the queue is served; to be done before DBOS looks for queues."""
        client = load("dbos").DBOSClient(system_database_url=self.url, application_name=application_name)
        try:
            client.register_queue(
                self.queue,
                worker_concurrency=self.concurrency,
                polling_interval_sec=self.poll_seconds,
                on_conflict="always_update",
            )
        finally:
            client.destroy()

    @contextmanager
    def _watching(self, take_over: Callable[[], None]) -> Generator[None]:
        over = threading.Event()

        def watch() -> None:
            while not over.wait(self.poll_seconds):
                try:
                    take_over()
                except Exception:  # a database that cannot be reached is tried again
                    logger.warning("cannot check for runs of dead workers; trying again", exc_info=True)

        thread = threading.Thread(target=watch, name="strictreply-takeover", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
