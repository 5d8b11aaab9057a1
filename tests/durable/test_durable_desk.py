"""The durable desk of the examples: its worker is killed while a tool pays, and the next one finishes the run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dbos", reason="dbos is an extra")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "durable_desk.py"
MAX_LINES = 160
STORY = [
    r"ticket-7 is in the queue: None",
    r"a worker ran find_order, refund, and was killed while the bank answered: None",
    r"the next worker ran refund, and the run answers: I have refunded 29\.90 EUR\.",
    r"paid \(order, EUR\): 1042 29\.90; 4 asks, one of them a correction",
]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_the_program_tells_the_story(tmp_path: Path) -> None:
    """Run from anywhere, without a key or a network, it ends well, warns of nothing; the bank has paid once."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE)],
        cwd=tmp_path,
        env=env | {"PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == len(STORY)
    assert all(re.fullmatch(told, line) for told, line in zip(STORY, lines, strict=True))


def test_the_example_is_two_screens_at_most() -> None:
    """It is short."""
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= MAX_LINES
