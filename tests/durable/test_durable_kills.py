"""A durable run outlives its workers.

Killed around any step, it is finished, and no finished step runs twice.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, get_args

import pytest

pytest.importorskip("dbos", reason="dbos is an extra")

import strictreply as sr
from strictreply.integrations.dbos import DurableRun
from strictreply.testing import LoopbackServer
from support.durable.desk import ANSWER, STEPS, TOOLS, DeskModel, Kill, Moment, Place, Shape, work

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
PROCESSES = multiprocessing.get_context("forkserver")
# What a worker needs is imported once, and not by each of them; what one lane has not got is left
# out.
SDK = ["openai.resources.chat.completions", "httpx", "httpcore", "httpx2", "httpcore2", "h11"]
PROCESSES.set_forkserver_preload(
    [
        "strictreply.integrations.dbos",
        "strictreply.testing.ok",
        "strictreply.testing._wire",
        "dbos",
        "psycopg",
        *SDK,
    ]
)
PATIENCE = 40
QUESTION = "Where is my order?"


class Workers:
    """Starts workers at one desk, each in a process of its own, and leaves none behind."""

    def __init__(self, place: Place) -> None:
        """Take where they work."""
        self.place = place
        self.started: list[Any] = []

    def start(self, kill: Kill | None = None) -> Any:
        """Start one, and wait until it serves."""
        (process,) = self.start_together(kill)
        return process

    def start_together(self, *kills: Kill | None) -> list[Any]:
        """Start one for each of ``kills``, and wait until all serve."""
        ups = [PROCESSES.Event() for _ in kills]
        processes: list[Any] = [
            PROCESSES.Process(target=work, args=(self.place, kill, up), daemon=True)
            for kill, up in zip(kills, ups, strict=True)
        ]
        for process in processes:
            process.start()

        self.started += processes
        assert all(up.wait(PATIENCE) for up in ups)
        return processes

    def die_of(self, kill: Kill, runs: Any) -> None:
        """Start one with a run in the queue, and wait until it is dead."""
        process = self.start(kill)
        runs.start(QUESTION, id="run")
        process.join(PATIENCE)
        assert process.exitcode == -signal.SIGKILL

    def __enter__(self) -> Self:
        """Begin with none."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Kill those that live."""
        for process in self.started:
            process.kill()
            process.join()


@contextmanager
def served(shape: Shape) -> Iterator[tuple[DeskModel, str]]:
    """Serve the model of a desk."""
    model = DeskModel(shape)
    with LoopbackServer(model) as server:
        yield model, server.base_url


def ledger(run: DurableRun) -> list[tuple[int, str, str, int]]:
    """Return the recorded steps: number, name, result and time."""
    steps = run.runs.database.list_workflow_steps(run.turn_id(0))
    keys = ("function_id", "function_name", "output", "completed_at_epoch_ms")
    return sorted(tuple(step[key] for key in keys) for step in steps)


def assert_told(run: sr.Run, shape: Shape) -> None:
    """The answer came, and the transcript and the replies are those of a run that nobody killed."""
    results = [f"{name} 7" for name in TOOLS]
    middle = ["assistant", "tool"] * 3 if shape == "one by one" else ["assistant", *["tool"] * 3]
    assert run.answer == ANSWER
    assert [message["role"] for message in run.transcript] == ["user", *middle, "assistant"]
    assert [
        message["content"] for message in run.transcript if message["role"] == "tool"
    ] == results
    assert len(run.replies) == len(STEPS[shape]) - len(TOOLS)


def expected(shape: Shape, number: int, moment: Moment) -> Counter[str]:
    """Return what must have been done in all.

    Each step is done once, and the one that was not recorded twice.
    """
    again = [STEPS[shape][number - 1]] if moment == "unrecorded" else []
    return Counter([*STEPS[shape], *again])


KILLS = [
    pytest.param(shape, number, moment, id=f"{shape}-{number}-{moment}")
    for shape, steps in STEPS.items()
    for number in range(1, len(steps) + 1)
    for moment in get_args(Moment)
]


@pytest.mark.parametrize(("shape", "number", "moment"), KILLS)
def test_a_new_process_finishes_what_a_killed_one_began(
    shape: Shape, number: int, moment: Moment, tmp_path: Path
) -> None:
    """On SQLite the next process goes on behind the last step that was recorded, and writes no
    record anew.
    """
    with served(shape) as (model, base_url):
        place = Place(base_url, f"sqlite:///{tmp_path}/runs.sqlite", tmp_path / "journal")
        with Workers(place) as workers, place.runs() as runs:
            workers.die_of(Kill(number, moment, tmp_path / "dead"), runs)
            run = runs.find("run")
            kept = ledger(run)
            workers.start()

            assert_told(run.result(poll_seconds=0.05), shape)
            assert len(kept) == number - (moment == "unrecorded")
            assert ledger(run)[: len(kept)] == kept
            assert len(ledger(run)) == len(STEPS[shape])

        assert place.done() + model.asked == expected(shape, number, moment)


@pytest.mark.parametrize(("shape", "number", "moment"), KILLS)
def test_the_other_worker_finishes_what_a_killed_one_began(
    shape: Shape, number: int, moment: Moment, tmp_path: Path, postgres_url: str
) -> None:
    """On PostgreSQL a worker that is already there goes on after the last recorded step."""
    with served(shape) as (model, base_url):
        place = Place(base_url, postgres_url, tmp_path / "journal")
        kill = Kill(number, moment, tmp_path / "dead")

        with Workers(place) as workers, place.runs() as runs:
            both = workers.start_together(kill, kill)
            assert_told(runs.start(QUESTION, id="run").result(poll_seconds=0.05), shape)
            assert sorted(str(process.exitcode) for process in both) == ["-9", "None"]
            assert len(ledger(runs.find("run"))) == len(STEPS[shape])

        assert place.done() + model.asked == expected(shape, number, moment)


@pytest.mark.parametrize("number", [2, 3])
def test_of_calls_that_run_at_the_same_time_the_finished_ones_are_kept(
    number: int, tmp_path: Path
) -> None:
    """When a process dies between the records of three tools that run together, only what has no
    record runs again.
    """
    with served("together") as (_, base_url):
        place = Place(
            base_url, f"sqlite:///{tmp_path}/runs.sqlite", tmp_path / "journal", concurrency=3
        )
        with Workers(place) as workers, place.runs() as runs:
            workers.die_of(Kill(number, "recorded", tmp_path / "dead"), runs)
            run = runs.find("run")
            kept = ledger(run)
            workers.start()

            assert_told(run.result(poll_seconds=0.05), "together")
            assert set(kept) <= set(ledger(run))

        finished = {name.removeprefix("tool ") for _, name, *_ in kept} & set(TOOLS)
        assert len(finished) >= number - 1
        assert all(place.done()[name] == 1 for name in finished)
        assert all(place.done()[name] in {1, 2} for name in TOOLS)


def test_a_run_waits_in_the_queue_when_the_process_that_started_it_is_gone(tmp_path: Path) -> None:
    """A run is finished although its starting process ended before any worker existed."""
    with served("together") as (_, base_url):
        place = Place(base_url, f"sqlite:///{tmp_path}/runs.sqlite", tmp_path / "journal")
        starter = PROCESSES.Process(target=start_and_go, args=(place,))
        starter.start()
        starter.join(PATIENCE)
        with Workers(place) as workers, place.runs() as runs:
            workers.start()
            assert_told(runs.find("run").result(poll_seconds=0.05), "together")


def start_and_go(place: Place) -> None:
    """Start the run, close nothing."""
    place.runs().start(QUESTION, id="run")
