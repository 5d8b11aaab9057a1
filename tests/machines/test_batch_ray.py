"""The row function under Ray Data's plain ``map_batches``.

It runs on a cluster of two nodes, of which one dies.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from strictreply.testing import LoopbackServer
from support.machines.gated_model import PATIENCE, GatedModel

pytest.importorskip("ray", reason="Ray is in an environment of its own: make test-ray")
# Ray's own warnings are not ours to fix.
pytestmark = [pytest.mark.one_lane, pytest.mark.filterwarnings("ignore")]

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
BATCH = 20


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep Ray quiet: no statistics, no bars, and only what is wrong in the log.

    Its workers find the examples.
    """
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    monkeypatch.syspath_prepend(str(EXAMPLES))


@pytest.fixture
def cluster(quiet: None) -> Iterator[Any]:
    """A cluster of two nodes with one processor each."""
    ray = import_module("ray")
    utils = import_module("ray.cluster_utils")
    cluster = utils.Cluster(initialize_head=True, head_node_args=SMALL)
    try:
        second = cluster.add_node(**SMALL)
        ray.init(address=cluster.address, logging_level="ERROR")
        yield cluster, second
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_every_row_is_in_the_result_once_when_a_node_dies(cluster: Any) -> None:
    """A node is killed while both are asking: each row comes back once, with its result columns."""
    nodes, second = cluster
    data = import_module("ray.data")
    example = import_module("batch_ray")
    model = GatedModel(free=5)

    rows = [{"id": number, "text": str(number)} for number in range(5 * BATCH)]
    with LoopbackServer(model, patience=PATIENCE) as server, ThreadPoolExecutor(1) as pool:
        labelled = example.labelled(data.from_items(rows, override_num_blocks=5), server.base_url)
        result = pool.submit(labelled.take_all)

        try:
            model.wait_for_batches(3, BATCH)  # a node has room for two
            nodes.remove_node(second, allow_graceful=False)
        finally:
            model.open()

        came = result.result(PATIENCE)

    assert sorted(row["id"] for row in came) == list(range(5 * BATCH))
    assert {row["status"] for row in came} == {"ok"}
    assert {"reply", "status", "issues", "attempts", "usage"} <= came[0].keys()
    # What the dead node was asking about is asked twice.
    assert sum(count > 1 for count in model.asked.values()) > 0


def test_the_example_runs(quiet: None) -> None:
    """The example labels its rows on a cluster of its own, one of them in a second attempt."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "batch_ray.py")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert "100 rows: {'fixed': 1, 'ok': 99}" in done.stdout, done.stderr
