"""The durable desk of the examples.

Its worker is killed while a tool pays, and the next one finishes the run.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from support.programs import ran

pytest.importorskip("dbos", reason="dbos is an extra")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "durable_desk.py"
MAX_LINES = 180
STORY = [
    r"ticket-7 is in the queue: None",
    r"a worker ran find_order, refund, and was killed while the bank answered: None",
    r"the next worker ran refund, and the run answers: I have refunded 29\.90 EUR\.",
    r"paid \(order, EUR\): 1042 29\.90; 4 requests, one of them a correction",
]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
@pytest.mark.slow
def test_the_program_tells_the_story(tmp_path: Path) -> None:
    """Run from anywhere, without a key or a network, it ends well, warns of nothing; the bank has
    paid once.
    """
    status, stdout, stderr = ran(EXAMPLE, tmp_path, timeout=120)
    assert (status, stderr) == (0, "")
    lines = stdout.splitlines()
    assert len(lines) == len(STORY)
    assert all(re.fullmatch(told, line) for told, line in zip(STORY, lines, strict=True))


def test_the_example_is_short() -> None:
    """It is short."""
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= MAX_LINES
