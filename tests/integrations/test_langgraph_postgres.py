"""A run on PostgreSQL outlives its process, and another process on the same server ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Self

import pytest

pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")
pytest.importorskip("langgraph.checkpoint.sqlite", reason="the example that is run here imports it")
pytest.importorskip(
    "langgraph.checkpoint.postgres", reason="its PostgreSQL checkpointer is a package of its own"
)

from integrations.test_langgraph_resume import EXAMPLES, Gate, kill, lines_until
from strictreply.testing import LoopbackServer
from support.durable.postgres_server import fresh_database, postgres_server

CHILD = """
import sys
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.types import Command
from openai import OpenAI

from langgraph_tutor import CONFIG, TOPOLOGY, begin, outcome_of, tutor

base_url, database, answer = sys.argv[1:]
with PostgresSaver.from_conn_string(database) as saver:
    saver.setup()
    client = OpenAI(base_url=base_url, api_key="none", timeout=30.0)
    graph = tutor(client).compile(checkpointer=saver)
    begun = graph.get_state(CONFIG).created_at is not None
    resumed = Command(resume=answer) if answer else None
    given = resumed if begun else begin(TOPOLOGY, "I want to learn statistics.")
    for update in graph.stream(given, CONFIG, stream_mode="updates", durability="sync"):
        print(*update, flush=True)
    state = graph.get_state(CONFIG).values
    print("over:", outcome_of(state)["content"] if state["is_complete"] else None, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def database() -> Iterator[str]:
    """The URL of a PostgreSQL database that nobody else uses."""
    with postgres_server() as server, fresh_database(server) as url:
        yield url


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Yield the models, and release every waiting call at the end."""
    gate = Gate()
    yield gate
    gate.over.set()


class Processes:
    """Starts processes that advance the run and then wait to be killed.

    Each begins with nothing but the URL.
    """

    def __init__(self, base_url: str, database: str) -> None:
        """Take where the models and the checkpoints are."""
        self.arguments = (base_url, database)
        self.started: list[subprocess.Popen[str]] = []

    def start(self, answer: str = "") -> subprocess.Popen[str]:
        """Start one, with an answer for the run's question if there is one."""
        env = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
        }
        command = [sys.executable, "-W", "error", "-c", CHILD, *self.arguments, answer]
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        self.started.append(process)

        return process

    def __enter__(self) -> Self:
        """Begin with none."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Leave none behind."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_a_killed_run_goes_on_from_postgres(gate: Gate, database: str) -> None:
    """Killed while a model is asked, only that model is asked again; killed while a human is, the
    question is pending.

    Agents that had answered are not run again, and the last process ends the run.
    """
    with LoopbackServer(gate) as server, Processes(server.base_url, database) as processes:
        first = processes.start()
        assert gate.reached.wait(60)
        kill(first)
        assert gate.asked == {"coordinator": 2, "course_advisor": 2, "learning_planner": 1}

        second = processes.start()
        assert lines_until(second, "over") == [
            "agent learning_planner",
            "__interrupt__",
            "over: None",
        ]

        kill(second)
        assert gate.asked == {"coordinator": 2, "course_advisor": 2, "learning_planner": 2}

        third = processes.start("approve")
        assert lines_until(third, "over")[-1] == "over: the plan"

        third.communicate()  # an end of its own

    assert gate.asked == {"coordinator": 2, "course_advisor": 2, "learning_planner": 3}
    assert third.returncode == 0
