"""A run outlives its process.

Killed anywhere, it goes on from the checkpoint, and nothing answered is asked again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strictreply.core import JSON

pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")
pytest.importorskip(
    "langgraph.checkpoint.sqlite", reason="its SQLite checkpointer is a package of its own"
)

from strictreply.testing import HTTPReply, LoopbackServer, ScriptedModel, Step, ok

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CHILD = """
import sys
from langgraph_tutor import advance
base_url, database, answer = sys.argv[1:]
for line in advance(base_url, database, answer or None):
    print(line, flush=True)
sys.stdin.read()
"""


def act(action: str, **members: Any) -> Step:
    """Reply with an action."""
    return ok.answer({"next_action": action, **members})


class Gate:
    """Serves the tutor's models, and counts the requests.

    The planner's first request is never answered, but sets ``reached``.
    """

    def __init__(self) -> None:
        """Take the scripts."""
        call = {"id": "1", "type": "function"}
        call["function"] = {"name": "search_courses", "arguments": '{"topic": "statistics"}'}  # type: ignore[assignment]
        self.scripts = {
            "coordinator": ScriptedModel(
                act("invoke_agent", action_input="course_advisor", request="courses"),
                act("invoke_agent", action_input="learning_planner", request="a plan"),
            ),
            "course_advisor": ScriptedModel(
                act("call_tool", tool_calls=[call]),
                act("invoke_agent", action_input="coordinator", request="two"),
            ),
            "learning_planner": ScriptedModel(
                act("ask_user", question="Agree?"), act("final_response", content="the plan")
            ),
        }

        self.asked: Counter[str] = Counter()
        self.reached, self.over = threading.Event(), threading.Event()

    def __call__(self, body: Any) -> JSON | HTTPReply:
        """Serve the next step of the model that is asked."""
        self.asked[body["model"]] += 1
        if body["model"] == "learning_planner" and not self.reached.is_set():
            self.reached.set()
            # the process that asked is killed; nobody takes this step, however slow the machine is
            self.over.wait()
        return self.scripts[body["model"]](body)


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Yield the models, and release every waiting call at the end."""
    gate = Gate()
    yield gate
    gate.over.set()


class Processes:
    """Starts processes that advance the run and then wait to be killed.

    Each begins with nothing but the file.
    """

    def __init__(self, database: Path) -> None:
        """Take the file that outlives them."""
        self.database = database
        self.started: list[subprocess.Popen[str]] = []

    def start(self, base_url: str, answer: str = "") -> subprocess.Popen[str]:
        """Start one, with an answer for the run's question if there is one."""
        env = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
        }
        command = [sys.executable, "-W", "error", "-c", CHILD, base_url, str(self.database), answer]
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        self.started.append(process)

        return process


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Yield a function that starts processes; end those that still run."""
    processes = Processes(tmp_path / "runs.sqlite")
    yield processes
    for process in processes.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def kill(process: subprocess.Popen[str]) -> None:
    """End a process without a word to it."""
    process.kill()
    process.wait()
    assert process.returncode == -signal.SIGKILL


def lines_until(process: subprocess.Popen[str], last: str) -> list[str]:
    """Read what a process tells until a line that begins like this."""
    told: list[str] = []
    for line in process.stdout or ():
        told.append(line.rstrip("\n"))
        if line.startswith(last):
            return told
    raise AssertionError(f"the process ended before {last!r}: {told}")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_a_killed_run_goes_on_where_it_was(gate: Gate, processes: Processes) -> None:
    """Killed while a model is asked, only that model is asked again; killed while a human is, the
    question is pending.

    The tool and every agent that had answered are not run again, and the third process ends the
    run.
    """
    with LoopbackServer(gate) as server:
        first = processes.start(server.base_url)
        assert gate.reached.wait(60)
        kill(first)
        assert gate.asked == {"coordinator": 2, "course_advisor": 2, "learning_planner": 1}

        second = processes.start(server.base_url)
        assert lines_until(second, "asked") == [
            "agent learning_planner -> human_input",
            "asked: Agree?",
        ]

        kill(second)
        assert gate.asked == {"coordinator": 2, "course_advisor": 2, "learning_planner": 2}

        third = processes.start(server.base_url)
        assert lines_until(third, "asked") == ["asked: Agree?"]

        kill(third)

        fourth = processes.start(server.base_url, "approve")
        assert lines_until(fourth, "completed")[-1] == "completed: the plan"
        fourth.communicate()  # an end of its own

    assert gate.asked == {"coordinator": 2, "course_advisor": 2, "learning_planner": 3}
    assert fourth.returncode == 0
