"""The examples of runs on LangGraph do what they promise, offline and as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.programs import ran

pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")
pytest.importorskip(
    "langgraph.checkpoint.sqlite", reason="its SQLite checkpointer is a package of its own"
)

FOLDER = Path(__file__).resolve().parents[2] / "examples"
MAX_LINES = 115
PROMISES = {
    "langgraph_tutor": [
        "human: I want to learn statistics.",
        "  agent coordinator -> agent course_advisor",
        "  agent course_advisor -> tools",
        "  tools -> agent course_advisor",
        "  agent course_advisor -> agent coordinator",
        "  agent coordinator -> agent learning_planner",
        "  agent learning_planner -> human_input",
        "  asked: 101 on Mondays, then 201 on Tuesdays. Do you agree?",
        "human: Only at weekends, please.",
        "  human_input -> agent learning_planner",
        "  agent learning_planner -> human_input",
        "  asked: 101 on Saturdays, then 201 on Sundays. Do you agree?",
        "human: approve",
        "  human_input -> agent learning_planner",
        "  agent learning_planner -> end",
        "  completed: 101 on Saturdays, then 201 on Sundays",
    ],
    "langgraph_research": [
        "the user is asked: analyst: the API's rate limit was exceeded",
        "A step failed. Answer retry, skip or abort.",
        "the user says: retry",
        "archivist: failed (retries_spent): None",
        "analyst: completed (conversation): prices rise",
        "surveyor: completed (conversation): people drink on",
        (
            "completed (final) after 8 turns: Prices rise, and people drink on; "
            "of the papers nothing is known."
        ),
        "failed (max_turns) after 4 turns: None",
    ],
}


@pytest.mark.parametrize("name", PROMISES)
def test_an_example_tells_its_story(name: str, tmp_path: Path) -> None:
    """Run from anywhere, without a key or a network, it ends well, warns of nothing and prints
    exactly this.
    """
    status, stdout, stderr = ran(FOLDER / f"{name}.py", tmp_path)
    assert (status, stderr) == (0, "")
    assert stdout.splitlines() == PROMISES[name]


def test_examples_are_short() -> None:
    """Each is a screen or little more."""
    lengths = {
        path.name: len(path.read_text("utf-8").splitlines())
        for path in FOLDER.glob("langgraph_*.py")
    }
    assert {name for name, length in lengths.items() if length > MAX_LINES} == set()
