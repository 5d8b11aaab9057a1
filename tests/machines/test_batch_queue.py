"""The row function behind a DBOS queue on PostgreSQL, with two workers of which one is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strictreply.testing import LoopbackServer
from support.machines.gated_model import PATIENCE, GatedModel

pytest.importorskip("dbos", reason="dbos is an extra")
pytestmark = [
    pytest.mark.one_lane,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here"),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "batch_queue.py"
BATCH = 20
ROWS = 6 * BATCH


@contextmanager
def process(environment: dict[str, str], *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run the example in a role, and leave nothing of it behind."""
    command = [sys.executable, str(EXAMPLE), *words]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def test_every_row_is_in_the_result_once_when_a_worker_is_killed(
    postgres_url: str, tmp_path: Path
) -> None:
    """A worker is killed by SIGKILL while both are asking, and started again: each row comes back
    once, in order.
    """
    model = GatedModel(free=5)
    messages = tmp_path / "messages.jsonl"
    messages.write_text(
        "".join(f'{{"id": {number}, "text": "{number}"}}\n' for number in range(ROWS))
    )

    with LoopbackServer(model, patience=PATIENCE) as server:
        told = {**os.environ, "DATABASE_URL": postgres_url, "MODEL_URL": server.base_url}
        with (
            process(told, "start", "run", str(messages)) as run,
            process(told, "work", "second"),
            process(told, "work", "first") as first,
        ):
            try:
                model.wait_for_batches(3, BATCH)  # each has room for two
                first.kill()
                first.wait()
            finally:
                model.open()

            with process(told, "work", "first"):
                said, _ = run.communicate(timeout=PATIENCE)

    rows = [json.loads(line) for line in said.splitlines()]
    assert [row["id"] for row in rows] == list(range(ROWS))
    assert {row["status"] for row in rows} == {"ok"}
    assert {"reply", "status", "issues", "attempts", "usage"} <= rows[0].keys()

    assert set(model.asked.values()) == {1, 2}  # twice what the killed worker was asking about
