"""A worker: DBOS launched in this process, its queue served, and what others dropped taken over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from strictreply.integrations.dbos._library import load, migrated, store_errors
from strictreply.integrations.dbos._presence import Presence, presence_of
from strictreply.integrations.dbos._suspects import TRIALS, forgive
from strictreply.values._errors import ContractError

JOURNAL: Final = 1
"""The version of the records: workers of one version go on with each other's runs."""

logger = logging.getLogger("strictreply")


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """How runs are worked on; see :meth:`DurableRuns.worker` for each."""

    name: str
    url: str
    concurrency: int
    poll_seconds: float
    drain_seconds: int
    launch: bool

    @property
    def queue(self) -> str:
        """The queue that the runs wait in."""
        return f"strictreply-{self.name}"

    @property
    def version(self) -> str:
        """What DBOS takes for the version of the app; it wants one for each name in a database."""
        return f"{self.queue}-{JOURNAL}"

    @contextmanager
    def serving(self) -> Generator[None]:
        """Work until the end of the block."""
        dbos = load().DBOS
        own = f"{self.queue}-{uuid4().hex}" if self.launch else dbos.executor_id
        with store_errors(self.url):
            presence = presence_of(self.url, self.queue, own)
        try:
            migrated(self.url)
            with store_errors(self.url):
                presence.hold()
            with self._serving_dbos(presence.executor_id), self._watching(presence):
                yield
        finally:
            presence.close()

    def _register_queue(self) -> None:
        """Say how the queue is served, before DBOS looks for queues; the app's DBOS may serve any that is nobody's."""
        client = load().DBOSClient(system_database_url=self.url, application_name=self.queue if self.launch else None)
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
    def _serving_dbos(self, executor_id: str) -> Generator[None]:
        """Have a DBOS serve the queue: one that is launched here and ends with the block, or the app's."""
        if not self.launch:
            self._refuse_unlaunched()
            self._register_queue()
            yield
            return
        dbos = load().DBOS
        self._make_dbos(executor_id)
        try:
            self._register_queue()
            dbos.launch()
            try:
                yield
            finally:
                forgive()
        finally:
            dbos.destroy(workflow_completion_timeout_sec=self.drain_seconds)
            TRIALS.leave()  # a thread that could not be stopped keeps no later worker of this process waiting

    def _refuse_unlaunched(self) -> None:
        """Raise ContractError when the app has launched no DBOS: nobody would serve the queue."""
        library = load()
        try:
            library.DBOS.list_workflows(queue_name=self.queue, limit=1)
        except library.error.DBOSException as error:
            raise ContractError("worker(launch=False) serves on the app's DBOS: launch it before") from error

    def _make_dbos(self, executor_id: str) -> None:
        """Make the one DBOS of this process: quiet, without telemetry, with a version that is ours."""
        dbos = load().DBOS
        dbos(
            config={
                "name": self.queue,
                "system_database_url": self.url,
                "application_version": self.version,
                "executor_id": executor_id,
                "log_level": "ERROR",
                "enable_otlp": False,
            }
        )
        if dbos.executor_id != executor_id:
            raise ContractError("this process has a DBOS of its own: use worker(launch=False) after its launch")

    @contextmanager
    def _watching(self, presence: Presence) -> Generator[None]:
        """Look after the others in a thread, until the end of the block."""
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(presence, over), name="strictreply-takeover", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _watch(self, presence: Presence, over: threading.Event) -> None:
        """Look again and again; a database that cannot be reached is tried again."""
        while not over.wait(self.poll_seconds):
            try:
                presence.take_over()
            except Exception:
                logger.warning("cannot look for runs that were dropped; trying again", exc_info=True)
