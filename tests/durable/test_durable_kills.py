"""A durable run outlives its workers: killed around any step, it is finished, and no finished step runs twice."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, get_args

import pytest

pytest.importorskip("dbos", reason="dbos is an extra")

from durable.desk import ANSWER, STEPS, TOOLS, DeskModel, Kill, Moment, desk, done, tools, work
from strictreply.integrations.dbos import DurableRuns
from strictreply.testing import LoopbackServer

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["strictreply.integrations.dbos", "strictreply.testing", "dbos", "openai", "psycopg"])
PATIENCE = 40


class Workers:
    """Starts workers at one desk, each in a process of its own, and leaves none behind."""

    def __init__(self, base_url: str, url: str, journal: Path) -> None:
        """Take where the model, the runs and the journal of the tools are."""
        self.place = (base_url, url, journal)
        self.started: list[Any] = []

    def start(self, kill: Kill | None = None) -> Any:
        """Start one, and wait until it serves."""
        up = PROCESSES.Event()
        process = PROCESSES.Process(target=work, args=(*self.place, kill, up), daemon=True)
        process.start()
        self.started.append(process)
        assert up.wait(PATIENCE)
        return process

    def __enter__(self) -> Self:
        """Begin with none."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Kill those that live."""
        for process in self.started:
            process.kill()
            process.join()


@pytest.fixture
def model(tmp_path: Path) -> DeskModel:
    """The model of the desk."""
    return DeskModel(tools(tmp_path / "unused"))


@pytest.fixture
def base_url(model: DeskModel) -> Iterator[str]:
    """Where the model is served."""
    with LoopbackServer(model) as server:
        yield server.base_url


def finished(runs: DurableRuns) -> str:
    """Wait for the answer of the run."""
    return str(runs.find("run").result(poll_seconds=0.1).answer)


def expected(kill: Kill) -> tuple[Counter[str], Counter[str]]:
    """Say what the tools and the model did in all: each step once, and the one that was not recorded twice."""
    times = Counter(range(len(STEPS)))
    for number in range(len(STEPS)):
        times[number] = 2 if (number + 1, "unrecorded") == (kill.number, kill.moment) else 1
    return Counter({name: times[1 + at] for at, name in enumerate(TOOLS)}), Counter(calls=times[0], answer=times[4])


KILLS = [(number, moment) for number in range(1, len(STEPS) + 1) for moment in get_args(Moment)]


@pytest.mark.parametrize(("number", "moment"), KILLS)
def test_a_new_process_finishes_what_a_killed_one_began(
    number: int, moment: Moment, tmp_path: Path, model: DeskModel, base_url: str
) -> None:
    """On SQLite the next process goes on behind the last step that was recorded."""
    journal, url, kill = (
        tmp_path / "journal",
        f"sqlite:///{tmp_path}/runs.sqlite",
        Kill(number, moment, tmp_path / "dead"),
    )
    with Workers(base_url, url, journal) as workers, desk(base_url, url, journal) as runs:
        first = workers.start(kill)
        runs.start("Where is my order?", id="run")
        first.join(PATIENCE)
        assert first.exitcode == -signal.SIGKILL
        workers.start()
        assert finished(runs) == ANSWER
    assert (done(journal), model.asked) == expected(kill)


@pytest.mark.parametrize(("number", "moment"), KILLS)
def test_the_other_worker_finishes_what_a_killed_one_began(
    number: int, moment: Moment, tmp_path: Path, model: DeskModel, base_url: str, postgres_url: str
) -> None:
    """On PostgreSQL a worker that is there already goes on behind the last step that was recorded."""
    journal, kill = tmp_path / "journal", Kill(number, moment, tmp_path / "dead")
    with Workers(base_url, postgres_url, journal) as workers, desk(base_url, postgres_url, journal) as runs:
        both = [workers.start(kill), workers.start(kill)]
        runs.start("Where is my order?", id="run")
        assert finished(runs) == ANSWER
        assert sorted(str(process.exitcode) for process in both) == ["-9", "None"]
    assert (done(journal), model.asked) == expected(kill)
