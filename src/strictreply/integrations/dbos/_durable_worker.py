"""A worker: launches DBOS in this process, and serves its queue.

It takes over the runs of dead workers, and tries each of them alone.

A worker is alive while it holds a lock. The operating system frees the lock when the worker's
process ends, PostgreSQL when its session ends. After a take-over DBOS rejects all writes of the
former worker to the run.

A run that was in progress when a process died is a suspect. It begins only when no other suspect of
its process is on trial. Its next death is counted in advance, in the attributes of the turn:
``drops``, and how many steps were ``recorded`` at that time. A newly recorded step ends the trial
and resets the count.
"""

from __future__ import annotations

import contextvars
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, TypeVar
from uuid import uuid4

from strictreply import ContractError
from strictreply.core import JSONObject
from strictreply.integrations import load
from strictreply.integrations.dbos._durable_records import (
    DurableFailure,
    DurableRunFailed,
    make_tables,
    read_url,
    store_errors,
)
from strictreply.loop import SQLiteSessionStore

# the version of the records: workers of the same version can continue each other's runs
JOURNAL: Final = 1

_KEEPALIVE: Final = (
    "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
)

logger = logging.getLogger("strictreply")

# a run is given up after so many deaths of workers in a row without a new step
MAX_DROPS: Final = 5

_TRIAL_SECONDS: Final = 60.0
_TRIAL_GROWTH: Final = 4
_GATHER_SECONDS: Final = 0.1

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, order=True)
class Ticket:
    """A suspect's place in the queue.

    A suspect with fewer deaths is tried first, then the one that came first.
    """

    deaths: int
    number: int
    arrived_at: float = field(compare=False)


class Trials:
    """Lets one suspect at a time begin; safe for threads.

    A trial keeps others out for a minute, and four times longer after each of its deaths. So a tool
    that hangs delays others only for a time, and one that kills slowly eventually runs alone.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._numbers = count()
        self._waiting: set[Ticket] = set()
        self.counted: dict[str, JSONObject] = {}
        """The earlier count of each turn on trial, by the id of its workflow."""

        self._holder: Ticket | None = None
        self._until = 0.0

    def enter(self, deaths: int) -> Ticket:
        """Wait until a suspect with so many deaths may begin."""
        with self._changed:
            ticket = Ticket(deaths, next(self._numbers), self._clock())
            self._waiting.add(ticket)
            self._changed.notify_all()

            while (patience := self._patience(ticket)) > 0:
                self._changed.wait(patience)

            self._waiting.remove(ticket)
            until = self._clock() + _TRIAL_SECONDS * _TRIAL_GROWTH**deaths
            self._holder = ticket
            self._until = until
            return ticket

    def leave(self, ticket: Ticket | None = None) -> None:
        """End a trial; None ends the present one.

        Does nothing if the trial had kept others out for too long.
        """
        with self._changed:
            if ticket in {None, self._holder}:
                self._holder = None
            self._changed.notify_all()

    def _patience(self, ticket: Ticket) -> float:
        now = self._clock()
        remaining = self._until - now if self._holder is not None else 0.0

        # A suspect waits a moment for those with fewer deaths, because workers take over all runs
        # of a dead worker together.
        gathering = ticket.arrived_at + _GATHER_SECONDS - now if ticket.deaths else 0.0

        behind = _TRIAL_SECONDS if min(self._waiting) != ticket else 0.0
        return min(max(remaining, gathering, behind), threading.TIMEOUT_MAX)


# the trials of this process, for runs of all kinds, because they die together
TRIALS: Final = Trials()


@dataclass(slots=True)
class TurnTrial:
    """One dispatch of a turn; a suspect's is on trial until it has ``stepped``."""

    workflow_id: str
    """Id of the turn's workflow."""
    trials: Trials = TRIALS
    """The trials of this process."""
    stepped: bool = False
    """Whether it did something that was not recorded before."""
    _ticket: Ticket | None = None
    """Its place among the trials; None for a turn that is not a suspect."""
    _is_over: bool = False
    """Whether the dispatch has ended."""

    def begin(self) -> None:
        """Begin immediately, or, for a suspect, when its trial begins.

        Raises DurableRunFailed after too many deaths, and DBOS's conflict error if the turn was
        stopped or taken over while this dispatch waited.
        """
        status = self._status()
        counted: JSONObject = status.attributes or {}
        # DBOS counts dispatches, and a run that was taken over has the attribute; no other run is a
        # suspect.
        if status.recovery_attempts <= 1 and "drops" not in counted:
            return

        steps = _outside(load("dbos").DBOS.list_workflow_steps, self.workflow_id, load_output=False)
        recorded = len(steps)
        drops = 0  # deaths since its last step
        if counted.get("recorded", 0) == recorded:
            drops = int(counted.get("drops", 0))

        if drops + 1 >= MAX_DROPS:  # the first death was before any trial
            message = (
                f"{MAX_DROPS} worker processes in a row died while executing it; "
                "retry() tries it again"
            )
            raise DurableRunFailed(DurableFailure(kind="RunGivenUp", message=message))

        self._ticket = self.trials.enter(drops)

        # While this dispatch waited, its turn may have been stopped or taken over.
        if self._is_over or self._status().recovery_attempts != status.recovery_attempts:
            self.end()
            raise load("dbos").error.DBOSWorkflowConflictIDError(self.workflow_id)

        self.trials.counted[self.workflow_id] = {"drops": drops, "recorded": recorded}
        death = {"drops": drops + 1, "recorded": recorded}
        _outside(load("dbos").DBOS.update_workflow_attributes, self.workflow_id, death, merge=True)

    def settle(self) -> None:
        """End the trial if a step was done that was not recorded before: it is recorded now."""
        if self.stepped:
            self.end()

    def end(self) -> None:
        """End the trial, whatever its outcome.

        A trial that has not begun yet ends when it begins.
        """
        self._is_over = True
        ticket = self._ticket
        self._ticket = None

        if ticket is not None:
            self.trials.counted.pop(self.workflow_id, None)
            self.trials.leave(ticket)

    def _status(self) -> Any:
        asked = {"workflow_ids": [self.workflow_id], "load_input": False, "load_output": False}
        return _outside(load("dbos").DBOS.list_workflows, **asked)[0]


def _outside(call: Callable[..., Result], *args: object, **options: object) -> Result:
    """Call DBOS as if from outside of a workflow; inside, it would record the call as a step."""
    return contextvars.Context().run(call, *args, **options)


def sole_owner(path: str, queue: str) -> sqlite3.Connection:
    """Lock a file for this process, until the connection is closed.

    A second process would run every step a second time. Raises ContractError if another process
    has the lock.
    """
    # The lock is on an empty file next to the database, because DBOS writes to the database itself
    # in this process.
    owner = f"{os.path.realpath(path)}.{queue}.owner"
    lock = sqlite3.connect(owner, isolation_level=None, timeout=0, check_same_thread=False)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        if SQLiteSessionStore.reason_of(error) != "busy":
            raise

        alone = (
            f"another process is executing the runs in {path}; "
            "several workers need PostgreSQL: url='postgresql://…'"
        )
        raise ContractError(alone) from error

    return lock


class PostgresPresence:
    """Lets any number of workers run, each with a lock of its own session on its ``executor_id``.

    A worker whose lock is free in two checks in a row is dead. One check is not enough: a server
    that restarts frees all locks, and every worker takes its own back at its next check.
    """

    def __init__(self, url: str, queue: str, executor_id: str) -> None:
        self._url = url
        self._queue = queue
        self.executor_id = executor_id
        self._connection: Any = None
        self._free_before: set[str] = set()

    def hold(self) -> None:
        """Connect, and lock this worker's name.

        Raises ContractError if another process has the lock. The connection is then closed, so that
        the next check tries again.
        """
        self._connection = load("psycopg").connect(self._url, autocommit=True, options=_KEEPALIVE)
        if not self._locked(self.executor_id):
            self._connection.close()
            raise ContractError(
                f"another process has the executor_id {self.executor_id!r}; use a different one"
            )

    def take_over(self) -> None:
        """Put the runs of dead workers back into the queue."""
        if self._connection.closed:
            # the lock ended with the session: others may consider this worker dead by now
            self.hold()

        others = {status.executor_id for status in self._pending()} - {self.executor_id}
        dbos = load("dbos").DBOS
        free = set()

        for executor_id in filter(self._locked, others):
            free.add(executor_id)

            # The lock is held, so that only one of several workers that find it free puts the runs
            # back.
            try:
                if executor_id not in self._free_before:
                    continue

                for status in self._pending(executor_id=executor_id):
                    # the attribute makes it a suspect (see :class:`TurnTrial`)
                    drops = {"drops": (status.attributes or {}).get("drops", 0)}
                    dbos.update_workflow_attributes(status.workflow_id, drops, merge=True)
                    dbos.resume_workflow(status.workflow_id, queue_name=status.queue_name)
            finally:
                self._connection.execute(
                    "SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [executor_id]
                )

        self._free_before = free

    def close(self) -> None:
        """End the session, which frees its locks."""
        if self._connection is not None:
            self._connection.close()

    def _pending(self, **of: object) -> list[Any]:
        of |= {
            "status": "PENDING",
            "queue_name": self._queue,
            "load_input": False,
            "load_output": False,
        }
        return list(load("dbos").DBOS.list_workflows(**of))

    def _locked(self, executor_id: str) -> bool:
        asked = self._connection.execute(
            "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [executor_id]
        )
        return bool(asked.fetchone()[0])


@dataclass(frozen=True, slots=True)
class DurableWorker:
    """How this process works on runs."""

    queue: str
    """Name of the queue."""
    url: str
    """Address of the database."""
    concurrency: int
    """Most turns in progress at the same time."""
    poll_seconds: float
    """Seconds between two checks of the queue."""
    drain_seconds: int
    """Seconds that turns in progress have left when the worker stops."""
    launch: bool
    """Whether to launch DBOS here; otherwise the app has launched it."""

    @contextmanager
    def serving(self) -> Generator[None]:
        """Work until the end of the block, with a lock that other workers check."""
        read = read_url(self.url)
        make_tables(self.url)
        watched: AbstractContextManager[None] = nullcontext()

        with ExitStack() as resources:
            if read.get_backend_name() == "sqlite":
                # the name is always the same, so the next process continues where this one
                # stopped, as in DBOS
                own_id = "embedded"
                with store_errors(self.url):
                    resources.enter_context(closing(sole_owner(read.database, self.queue)))
            else:
                if self.launch:
                    own_id = f"{self.queue}-{uuid4().hex}"
                else:
                    own_id = load("dbos").DBOS.executor_id

                plain = read.set(drivername="postgresql").render_as_string(hide_password=False)
                presence = resources.enter_context(
                    closing(PostgresPresence(plain, self.queue, own_id))
                )

                with store_errors(self.url):
                    presence.hold()

                watched = self._watching(presence.take_over)

            with self._own_dbos(own_id) if self.launch else self._app_dbos(), watched:
                yield

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
                # DBOS's notifications are not used. They would wake the process a hundred times a
                # second to send, and sleep for a second, which a stop waits for, to receive.
                "notification_coalesce_sec": 0.1,
                "notification_listener_polling_interval_sec": 0.1,
            }
        )

        if dbos.executor_id != executor_id:
            raise ContractError(
                "this process has launched its own DBOS: use worker(launch=False) instead"
            )

        try:
            self._register_queue(application_name=self.queue)
            dbos.launch()

            try:
                yield
            finally:
                # a regular stop is not a death; without a database the count stays
                with suppress(Exception):
                    for workflow_id, counted in list(TRIALS.counted.items()):
                        dbos.update_workflow_attributes(workflow_id, counted, merge=True)
        finally:
            dbos.destroy(workflow_completion_timeout_sec=self.drain_seconds)
            # otherwise a thread that could not be stopped would make a later worker of this process
            # wait
            TRIALS.leave()

    @contextmanager
    def _app_dbos(self) -> Generator[None]:
        library = load("dbos")
        try:
            library.DBOS.list_workflows(queue_name=self.queue, limit=1)
        except library.error.DBOSException as error:
            raise ContractError(
                "worker(launch=False) needs the app's own DBOS: launch that first"
            ) from error

        # an app's own DBOS serves only queues without a name
        self._register_queue(application_name=None)
        yield

    def _register_queue(self, application_name: str | None) -> None:
        """Register how the queue is served, before DBOS looks for queues."""
        client = load("dbos").DBOSClient(
            system_database_url=self.url, application_name=application_name
        )
        try:
            client.register_queue(
                self.queue,
                on_conflict="always_update",
                worker_concurrency=self.concurrency,
                polling_interval_sec=self.poll_seconds,
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
                except Exception:  # a database that cannot be reached is retried
                    logger.warning(
                        "cannot check for runs of dead workers; trying again", exc_info=True
                    )

        thread = threading.Thread(target=watch, name="strictreply-takeover", daemon=True)
        thread.start()

        try:
            yield
        finally:
            over.set()
            thread.join()
