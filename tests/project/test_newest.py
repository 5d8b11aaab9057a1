"""The runner of unlocked lanes: which lanes there are, and what its table says of them."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from support.pages import DOCS

pytestmark = pytest.mark.one_lane

ROOT = DOCS.parent
TOOLS = ROOT / "tools"
NEWEST = runpy.run_path(str(TOOLS / "newest.py"))
PROGRAMS = runpy.run_path(str(TOOLS / "run_frameworks.py"))["PROGRAMS"]
LANES = {lane.name: lane for lane in (*NEWEST["own_lanes"](), *NEWEST["framework_lanes"]())}


def lane(name: str) -> Any:
    """Make a lane of one package, whose lock is that of the newest SDK."""
    return NEWEST["Lane"](name, ("openai",), "testing", "dev", ("openai",), "python -c 1")


@pytest.mark.parametrize("name", LANES)
def test_a_lane_runs_beside_a_lock(name: str) -> None:
    """Each package whose versions are told is pinned by the lock of the lane's everyday twin."""
    pinned = NEWEST["locked"](LANES[name])
    assert LANES[name].packages
    assert set(LANES[name].packages) <= set(pinned)


def test_every_program_is_in_one_lane() -> None:
    """Each program of ``frameworks/`` runs in one lane, in an environment with its library."""
    commands = [one.command for name, one in LANES.items() if name.startswith("frameworks/")]
    listed = [module for one in commands for module in one.split("=")[1].split(" ")[0].split(",")]
    assert sorted(listed) == sorted(PROGRAMS)
    assert set(PROGRAMS) == {
        path.stem for path in (ROOT / "frameworks").glob("*.py") if path.stem != "__init__"
    }


def test_nothing_older_than_the_lock_is_installed() -> None:
    """What is installed has the locked version as its lower bound: a resolver may not go back."""
    wanted = NEWEST["floors"](LANES["frameworks/strands-agents"])
    pinned = NEWEST["locked"](LANES["frameworks/strands-agents"])["strands-agents"]
    assert wanted == ["strands-agents[anthropic,openai]", f"strands-agents>={pinned}"]


@pytest.mark.parametrize(
    ("log", "pattern", "line"),
    [
        ("...\nFAILED tests/a.py::b - x\nFAILED c\n", "FAILED_TEST", "FAILED tests/a.py::b - x"),
        ("Setting up\nerror: No solution found\n", "FAILED_INSTALL", "error: No solution found"),
        ("one\ntwo\n\n", "FAILED_TEST", "two"),
        ("", "FAILED_TEST", "it wrote nothing"),
    ],
)
def test_the_first_line_that_tells_a_failure(log: str, pattern: str, line: str) -> None:
    """The first failing line is told, the last one of a log where none looks like it."""
    assert NEWEST["first_line"](log, NEWEST[pattern]) == line


@pytest.mark.parametrize(
    ("ran", "out", "failure", "version", "result"),
    [
        ("9.0", "9.0", "", "9.0", "passed"),
        ("8.0", "9.0", "", "8.0 (held back: 9.0 is out)", "passed"),
        ("9.0", "9.0", "FAILED a", "9.0", "FAILED: FAILED a"),
        (None, "9.0", "error: no", "not installed", "FAILED: error: no"),
    ],
)
def test_the_row_of_a_package(
    ran: str | None, out: str, failure: str, version: str, result: str
) -> None:
    """A row has the locked version, the one that ran, whether it was held back, and the end."""
    ended = NEWEST["Ended"](lane("a"), {"openai": ran} if ran else {}, failure)
    pinned = NEWEST["locked"](lane("a"))["openai"]
    assert list(NEWEST["rows"](ended, {"openai": out})) == [
        ["a", "openai", pinned, version, result]
    ]


def test_a_failure_does_not_stop_the_others() -> None:
    """A lane that fails or cannot be run is a result, and the next one runs; Ctrl-C ends them."""
    ends = {"fails": "FAILED a", "passes": ""}

    def run(one: Any, _: Path, __: str) -> Any:
        if one.name == "breaks":
            raise OSError("no space")
        if one.name == "interrupted":
            raise KeyboardInterrupt
        return NEWEST["Ended"](one, {}, ends[one.name])

    names = ("fails", "breaks", "passes", "interrupted", "never")
    results, is_interrupted = NEWEST["run_all"]([lane(name) for name in names], run)
    assert [(one.lane.name, bool(one.failure)) for one in results] == [
        ("fails", True),
        ("breaks", True),
        ("passes", False),
    ]
    assert is_interrupted


@pytest.mark.parametrize("status", [0, 3])
def test_a_watched_command(tmp_path: Path, status: int) -> None:
    """What a command writes is in the log, and its exit code is returned."""
    log = tmp_path / "log"
    program = f"import os, sys; print(os.environ['GIVEN']); sys.exit({status})"
    given = {"GIVEN": "tea"}
    assert NEWEST["watched"]([sys.executable, "-c", program], log, "told", given) == status
    assert log.read_text(encoding="utf-8") == "tea\n"


@pytest.mark.parametrize(
    ("names", "chosen"), [([], {*LANES}), (["openai"], {"openai"}), (["suites"], {"suites"})]
)
def test_lanes_are_chosen_by_name(names: list[str], chosen: set[str]) -> None:
    """A name chooses its lane, ``frameworks`` all of these, no name all lanes."""
    found = NEWEST["chosen_of"](names, list(LANES.values()))
    assert {one.name for one in found} == chosen


def test_the_lanes_of_all_frameworks() -> None:
    """``frameworks`` chooses every framework's lane; a name that there is not is refused."""
    found = NEWEST["chosen_of"](["frameworks"], list(LANES.values()))
    assert {one.name for one in found} == {name for name in LANES if name.startswith("frameworks/")}
    with pytest.raises(LookupError):
        NEWEST["chosen_of"](["framework"], list(LANES.values()))
