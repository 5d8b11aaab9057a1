"""What a lost worker had in hand is finished by the others.

The exception is what the workers die of.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.durable.desk import DEATHS

pytest.importorskip("dbos", reason="dbos is an extra")

import strictreply as sr
from strictreply import ContractError
from strictreply.integrations import load
from strictreply.integrations.dbos import DurableRunFailed, DurableRuns
from strictreply.integrations.dbos._durable_worker import PostgresPresence
from strictreply.testing import ScriptedClient, ScriptedModel, ok
from support.durable.postgres_server import executed

POLL = 0.02
DROPPED = (
    "UPDATE dbos.workflow_status SET status = 'PENDING', executor_id = 'gone', attributes = %s "
    "WHERE workflow_uuid = %s"
)


def desk(url: str) -> DurableRuns:
    """Runs that have one answer each."""
    return DurableRuns(
        "desk", sr.wrap(ScriptedClient(ScriptedModel(ok.answer("Yes.")))), url=url, model="m"
    )


def drop(runs: DurableRuns, *, drops: int) -> Any:
    """Start a run, and leave it in the hands of a worker that is gone."""
    run = runs.start("Well?")
    executed(runs.url, DROPPED, [json.dumps({"drops": drops, "recorded": 0}), run.turn_id(0)])
    return run


def test_a_dropped_run_is_finished(postgres_url: str) -> None:
    """A worker finishes what another one, whose lock is free, had in hand."""
    with desk(postgres_url) as runs:
        run = drop(runs, drops=0)
        with runs.worker(poll_seconds=POLL):
            assert run.result(poll_seconds=POLL).answer == "Yes."


def test_a_run_that_workers_die_of_is_given_up(postgres_url: str) -> None:
    """After as many workers as the limit says, a run is not begun again, and takes no other worker
    down.
    """
    with desk(postgres_url) as runs:
        run = drop(runs, drops=DEATHS - 1)
        with runs.worker(poll_seconds=POLL), pytest.raises(DurableRunFailed) as told:
            run.result(poll_seconds=POLL)
    assert told.value.kind == "RunGivenUp"


def test_a_lock_that_is_free_once_is_no_death(postgres_url: str) -> None:
    """Only a worker missed twice in a row is dead: a restarting server frees the locks of living
    workers.
    """
    with desk(postgres_url) as runs:
        run = drop(runs, drops=0)
        with runs.worker(poll_seconds=60):
            other = PostgresPresence(postgres_url, runs.workflow, "other")
            other.hold()
            seen = []

            for _ in range(2):
                other.take_over()
                seen.append(load("dbos").DBOS.get_workflow_status(run.turn_id(0)).status)

            other.close()

    assert seen[0] == "PENDING"
    assert seen[1] != "PENDING"


def test_a_worker_that_lives_keeps_its_runs(postgres_url: str) -> None:
    """The runs of a worker whose lock is held are left to it, however often others look."""
    with desk(postgres_url) as runs:
        run = drop(runs, drops=0)
        living, other = (
            PostgresPresence(postgres_url, runs.workflow, name) for name in ("gone", "other")
        )
        living.hold()

        with runs.worker(poll_seconds=60):
            other.hold()
            for _ in range(3):
                other.take_over()
            assert load("dbos").DBOS.get_workflow_status(run.turn_id(0)).status == "PENDING"

        living.close()
        other.close()


def test_a_lock_is_one_process_s(postgres_url: str) -> None:
    """Two processes under one name would do everything twice: the second is refused."""
    first, second = (PostgresPresence(postgres_url, "queue", "same") for _ in range(2))
    first.hold()
    with pytest.raises(ContractError):
        second.hold()
    first.close()
    second.close()


def test_a_worker_without_its_lock_asks_for_it_until_it_has_it(postgres_url: str) -> None:
    """A session that the server has not yet found to be lost holds the lock: nothing is taken over
    meanwhile.
    """
    with desk(postgres_url) as runs, runs.worker(poll_seconds=60):
        lost, back = (PostgresPresence(postgres_url, runs.workflow, "same") for _ in range(2))
        lost.hold()

        for ask in (back.hold, back.take_over, back.take_over):
            with pytest.raises(ContractError):
                ask()

        lost.close()
        back.take_over()

        with pytest.raises(ContractError):
            lost.hold()

        back.close()


def test_a_presence_whose_connection_was_lost_comes_back(postgres_url: str) -> None:
    """A worker takes its lock again at its next look."""
    with desk(postgres_url) as runs, runs.worker(poll_seconds=60):
        presence = PostgresPresence(postgres_url, runs.workflow, "me")
        presence.hold()
        presence.close()
        presence.take_over()

        other = PostgresPresence(postgres_url, runs.workflow, "me")
        with pytest.raises(ContractError):
            other.hold()

        presence.close()
        other.close()


def test_an_app_with_a_dbos_of_its_own(postgres_url: str) -> None:
    """Runs are served by the DBOS that the app has launched, and a second one is refused."""
    library = load("dbos")
    with desk(postgres_url) as runs:
        config = {
            "name": "the-app",
            "system_database_url": postgres_url,
            "executor_id": "app-1",
            "log_level": "ERROR",
        }
        library.DBOS(config=config)
        library.DBOS.launch()

        try:
            with pytest.raises(ContractError, match="launch=False"), runs.worker():
                pass

            with runs.worker(poll_seconds=POLL, launch=False):
                assert runs.start("Well?").result(poll_seconds=POLL).answer == "Yes."

            assert library.DBOS.executor_id == "app-1"
        finally:
            library.DBOS.destroy()
