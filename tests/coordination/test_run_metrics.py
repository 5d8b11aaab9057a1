"""Counters of runs: sums that agree, averages over successes, and snapshots from any thread or task."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordination.tutor import state_with
from strictreply.coordination._runs.next_node import conditional_edge, explain_route
from strictreply.coordination._runs.routes import Routes, RouteStrategy
from strictreply.coordination._runs.run_metrics import Activity, MetricsSnapshot, RunMetrics, Tally
from strictreply.coordination._runs.states import DEFAULT_NODES


@pytest.mark.req("R35")
@given(targets=st.lists(st.sampled_from([*DEFAULT_NODES, None, "nobody"]), max_size=20), limit=st.integers(0, 3))
def test_routes_are_counted_by_target_and_by_reason(targets: list[str | None], limit: int) -> None:
    """Each decision counts once under its target and once under its reason; both sums are the calls."""
    metrics = RunMetrics()
    edge = conditional_edge(max_loop_count=limit, observe=metrics.routed)
    states = [state_with(next_agent=target, loop_count=index) for index, target in enumerate(targets)]
    gone = [edge(state) for state in states]
    snapshot = metrics.snapshot()
    assert sum(snapshot.targets.values()) == sum(snapshot.reasons.values()) == snapshot.routes == len(targets)
    assert snapshot.targets == {target: gone.count(target) for target in gone}
    reasons = [explain_route(state, limit).reason.value for state in states]
    assert snapshot.reasons == {reason: reasons.count(reason) for reason in reasons}


@pytest.mark.req("R35", "R38")
def test_strategies_are_counted() -> None:
    """Which strategy decided is counted where there is one."""
    metrics = RunMetrics()
    metrics.routed(explain_route(state_with(), routes=Routes(strategies=(RouteStrategy("a", 1),))))
    metrics.routed(explain_route(state_with()))
    assert (metrics.snapshot().strategies, metrics.snapshot().routes) == ({"a": 1}, 2)


@pytest.mark.req("R40")
@pytest.mark.parametrize("activity", ["node_executions", "llm_calls", "tool_executions", "conversations"])
def test_activities_have_totals_and_averages(activity: str) -> None:
    """Totals count everything, the average is the time of successes over successes, and nothing done is 0."""
    metrics, kind = RunMetrics(), Activity(activity)
    assert metrics.snapshot().tally(kind) == Tally()
    assert (Tally().average_seconds, Tally().success_rate, Tally().failed) == (0.0, 0.0, 0)
    metrics.done(kind, "a", succeeded=False, seconds=100)
    assert metrics.snapshot().tally(kind).average_seconds == 0.0
    metrics.done(kind, "a", seconds=1)
    metrics.done(kind, "b", seconds=3)
    snapshot = metrics.snapshot()
    tally = snapshot.tally(kind)
    assert (tally.total, tally.succeeded, tally.failed, tally.average_seconds) == (3, 2, 1, 2.0)
    assert tally.success_rate == pytest.approx(2 / 3)
    assert snapshot.by_name[kind, "a"] == Tally(2, 1, 1)
    assert all(snapshot.tally(other) == Tally() for other in Activity if other is not kind)
    assert json.loads(json.dumps(snapshot.to_dict()))["activities"][activity]["total"] == 3


@pytest.mark.req("R40")
def test_a_block_is_measured() -> None:
    """A block counts with its seconds, and without success when it raises, which goes on."""
    times = iter([10.0, 12.5, 20.0, 21.0])
    metrics = RunMetrics(clock=lambda: next(times))
    with metrics.measure(Activity.LLM_CALLS, "model"):
        pass
    with pytest.raises(KeyError), metrics.measure(Activity.LLM_CALLS, "model"):
        raise KeyError
    assert metrics.snapshot().tally(Activity.LLM_CALLS) == Tally(2, 1, 2.5)


def test_a_snapshot_stands_still() -> None:
    """What is counted later, and a reset, do not change a snapshot that was taken."""
    metrics = RunMetrics()
    metrics.done(Activity.CONVERSATIONS)
    metrics.routed(explain_route(state_with()))
    taken = metrics.snapshot()
    metrics.done(Activity.CONVERSATIONS)
    metrics.routed(explain_route(state_with()))
    assert (taken.tally(Activity.CONVERSATIONS).total, taken.routes) == (1, 1)
    metrics.reset()
    assert metrics.snapshot() == MetricsSnapshot()
    assert (taken.tally(Activity.CONVERSATIONS).total, taken.routes) == (1, 1)


@pytest.mark.req("R40", "R35")
def test_threads_and_tasks_lose_no_count() -> None:
    """Whatever counts at the same time, every event is counted, and each snapshot's sums agree."""
    metrics, decision = RunMetrics(), explain_route(state_with())

    def work(number: int) -> bool:
        """Count a few events, and look."""
        for _ in range(50):
            metrics.done(Activity.TOOL_EXECUTIONS, str(number % 3), seconds=1)
            metrics.routed(decision)
        seen = metrics.snapshot()
        return sum(seen.targets.values()) == sum(seen.reasons.values())

    async def tasks() -> None:
        """Count from tasks."""
        await asyncio.gather(*(asyncio.to_thread(work, number) for number in range(4)))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))
    asyncio.run(tasks())
    snapshot = metrics.snapshot()
    assert (snapshot.tally(Activity.TOOL_EXECUTIONS), snapshot.routes) == (Tally(600, 600, 600.0), 600)
