"""Whose fault a death was (finding V12).

A run that processes die of is given up alone, and its neighbours finish.
"""

from __future__ import annotations

import multiprocessing
import random
import signal
import sqlite3
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbos", reason="dbos is an extra")

from dbos import error as dbos_errors

from durable.test_durable_kills import PATIENCE, QUESTION, Workers, served
from durable.test_durable_runs import Desk
from strictreply.integrations.dbos import DurableRun, DurableRunFailed
from strictreply.integrations.dbos._durable_worker import Ticket, Trials, TurnTrial
from strictreply.testing import ok
from support.durable.desk import ANSWER, DEATHS, POISON, Kill, Moment, Place

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
POLL = 0.05
MOMENTS: tuple[Moment, ...] = ("unrecorded", "recorded")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/runs.sqlite"
    given: str = request.getfixturevalue("postgres_url")
    return given


def ended(run: DurableRun) -> str | None:
    """Return the answer of a run, or the kind of its failure; None while it is under way."""
    try:
        told = run.look()
    except DurableRunFailed as failed:
        return failed.kind
    return None if told is None else str(told.answer)


def worked(workers: Workers, kill: Kill | None, runs: list[DurableRun]) -> bool:
    """Have a worker work until it dies, or all runs have ended; tell whether it died."""
    process: Any = workers.start(kill)
    left = list(runs)

    while not multiprocessing.connection.wait([process.sentinel], timeout=POLL):
        while left and ended(left[-1]) is not None:  # none of the others has to be looked at before
            left.pop()

        if not left:
            process.kill()
            process.join()
            return False

    return True


def kill_at_random(place: Place, dead: Path, *, kills: int, count: int) -> list[str | None]:
    """Start runs, and kill worker after worker at random steps.

    The last worker is let work, and how the runs ended is returned.
    """
    chosen = random.Random(12)
    with Workers(place) as workers, place.runs() as desk:
        runs = [desk.start(QUESTION, id=f"run-{number}") for number in range(count)]
        for number in range(kills):
            kill = Kill(chosen.randint(1, 3), chosen.choice(MOMENTS), dead / f"dead-{number}")
            assert worked(workers, kill, runs)
        worked(workers, None, runs)
        return [ended(run) for run in runs]


@pytest.mark.slow
def test_v12_twenty_kills_over_eight_runs_give_none_up(tmp_path: Path) -> None:
    """Workers that die at random steps, recorded or not, finish all runs, with no retry by hand."""
    with served("one by one") as (_, base_url):
        place = Place(base_url, f"sqlite:///{tmp_path}/runs.sqlite", tmp_path / "journal")
        assert kill_at_random(place, tmp_path, kills=20, count=8) == [ANSWER] * 8


@pytest.mark.slow
def test_v12_on_postgres_kills_give_no_run_up(postgres_url: str, tmp_path: Path) -> None:
    """More deaths than one run may have, over three runs: they are finished by whoever takes them
    over.
    """
    with served("one by one") as (_, base_url):
        place = Place(base_url, postgres_url, tmp_path / "journal")
        assert kill_at_random(place, tmp_path, kills=DEATHS + 1, count=3) == [ANSWER] * 3


@pytest.mark.slow
def test_v12_a_poison_run_is_given_up_alone(url: str, tmp_path: Path) -> None:
    """One run whose tool kills the process ends as given up after so many deaths, and four
    neighbours finish.
    """
    with served("one by one") as (_, base_url), ExitStack() as open_now:
        place = Place(base_url, url, tmp_path / "journal")
        workers = open_now.enter_context(Workers(place))
        desk = open_now.enter_context(place.runs())
        orders = [7, 7, POISON, 7, 7]
        runs = [
            desk.start(f"Where is my order {order}?", id=f"run-{n}")
            for n, order in enumerate(orders)
        ]

        deaths = 0
        while worked(workers, None, runs):
            deaths += 1

        assert [ended(run) for run in runs] == [
            "RunGivenUp" if order == POISON else ANSWER for order in orders
        ]
        assert deaths == DEATHS


@pytest.mark.slow
def test_v12_several_poison_runs_take_nobody_with_them(tmp_path: Path) -> None:
    """Three poison runs among three others are given up, each on its own count, and the others
    finish.
    """
    with served("one by one") as (_, base_url), ExitStack() as open_now:
        place = Place(base_url, f"sqlite:///{tmp_path}/runs.sqlite", tmp_path / "journal")
        workers = open_now.enter_context(Workers(place))
        desk = open_now.enter_context(place.runs())
        orders = [POISON, 7, POISON, 7, POISON, 7]
        runs = [
            desk.start(f"Where is my order {order}?", id=f"run-{n}")
            for n, order in enumerate(orders)
        ]
        while worked(workers, None, runs):
            pass

        assert [ended(run) for run in runs] == [
            "RunGivenUp" if order == POISON else ANSWER for order in orders
        ]


class Clock:
    """A clock that returns the time it was set to."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def entering(trials: Trials, deaths: int, entered: Callable[[int], None]) -> threading.Thread:
    """Have a suspect wait for its trial in a thread."""

    def enter() -> None:
        trials.enter(deaths)
        entered(deaths)

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    return thread


def test_v12_one_suspect_is_on_trial_at_a_time() -> None:
    """The next begins when the one before has left, first the one that has died least often."""
    trials = Trials()
    order = list[int]()
    first = trials.enter(0)
    threads = [entering(trials, deaths, order.append) for deaths in (2, 1)]

    while len(trials._waiting) < 2:
        threading.Event().wait(POLL)

    assert order == []
    trials.leave(first)
    threads[1].join(PATIENCE)
    assert order == [1]


def test_v12_a_trial_that_hangs_keeps_nobody_out_for_ever() -> None:
    """A suspect is alone for a minute, and four times as long after each of its deaths; then the
    next may begin.
    """
    clock = Clock()
    order = list[int]()
    trials = Trials(clock)
    trials.enter(0)

    clock.now = 60
    trials.leave(trials.enter(0))

    clock.now, thread = 100, entering(trials, 1, order.append)
    while thread.is_alive():
        clock.now += 1
        threading.Event().wait(POLL)

    begun = clock.now
    second = entering(trials, 0, order.append)
    clock.now = begun + 239
    second.join(POLL)

    assert order == [1]
    clock.now = begun + 241
    trials.leave(Ticket(9, 9, 9))  # any news has those who wait look again
    second.join(PATIENCE)

    assert order == [1, 0]


def test_v12_a_turn_that_was_stopped_while_it_waited_begins_no_trial(tmp_path: Path) -> None:
    """An end that comes while a suspect waits for its trial ends the trial as it begins, and counts
    no death.
    """
    file = tmp_path / "runs.sqlite"
    trials = Trials()
    raised = list[BaseException]()

    with Desk(ok.answer("done"), url=f"sqlite:///{file}") as runs:
        runs.start("Hello").result()

        with closing(sqlite3.connect(file)) as database, database:  # as if a worker had died of it
            database.execute("UPDATE workflow_status SET recovery_attempts = 2")
            ((workflow,),) = database.execute("SELECT workflow_uuid FROM workflow_status")

        trial, other = TurnTrial(workflow, trials), trials.enter(0)

        def begin() -> None:
            with pytest.raises(dbos_errors.DBOSWorkflowConflictIDError) as caught:
                trial.begin()
            raised.append(caught.value)

        thread = threading.Thread(target=begin, daemon=True)
        thread.start()

        while not trials._waiting:
            threading.Event().wait(POLL)

        trial.end()
        trials.leave(other)
        thread.join(PATIENCE)
        assert (len(raised), trials._holder, trials.counted) == (1, None, {})
