"""Guarded nodes count once each and lose no request to a human.

Counters of runs have sums that agree.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.coordination import (
    Activity,
    AgentState,
    CoordinationCode,
    CycleLimit,
    RouteReason,
    Routes,
    RouteStrategy,
    RunMetrics,
    StateError,
    counted,
    explain_route,
    increment_loop_count,
)
from strictreply.coordination.metrics import ActivityTally, MetricsSnapshot
from strictreply.coordination.state import DEFAULT_NODES, apply_update, pending_requests
from support.coordination.tutor import changed, noon, state_with


def partial_node(state: AgentState) -> dict[str, Any]:
    """Return one field."""
    return {"next_agent": "course_advisor"}


def whole_node(state: AgentState) -> AgentState:
    """Return the whole state, as the documents' nodes do, counted by the node itself."""
    return increment_loop_count(changed(state, next_agent="course_advisor"))


def resetting_node(state: AgentState) -> dict[str, Any]:
    """Try to set the count back."""
    return {"next_agent": "course_advisor", "loop_count": 0}


async def async_node(state: AgentState) -> dict[str, Any]:
    """Return one field, later."""
    await asyncio.sleep(0)
    return partial_node(state)


class Worker:
    """A node that is an object."""

    def __call__(self, state: AgentState) -> dict[str, Any]:
        """Return one field."""
        return partial_node(state)


class AsyncWorker:
    """A node that is an object to be awaited."""

    async def __call__(self, state: AgentState) -> dict[str, Any]:
        """Return one field, later."""
        return await async_node(state)


def run(node: Any, state: AgentState) -> dict[str, Any]:
    """Run a node, sync or async."""
    returned = node(state)
    if not inspect.iscoroutine(returned):
        return dict(returned)
    update: dict[str, Any] = asyncio.run(returned)
    return update


NODES = [
    partial_node,
    whole_node,
    resetting_node,
    async_node,
    Worker(),
    AsyncWorker(),
    functools.partial(partial_node),
    functools.partial(async_node),
    lambda state: {"next_agent": "course_advisor"},
]


@pytest.mark.req("R21")
@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("guards", [1, 2])
def test_each_execution_counts_once(node: Any, guards: int) -> None:
    """Every node counts one more, sync or async, whatever it does with the count itself, guarded
    once or twice.
    """
    state = state_with(loop_count=3, next_agent="coordinator")
    before = copy.deepcopy(state)
    for _ in range(guards):
        node = counted(node)
    update = run(node, state)
    assert (update["loop_count"], update["next_agent"]) == (4, "course_advisor")
    assert state == before


@pytest.mark.req("R21")
def test_every_node_of_a_run_counts() -> None:
    """Not the coordinator alone: three nodes in turn count three."""
    state = state_with()
    for target in ("course_advisor", "learning_planner", "coordinator"):
        state = apply_update(
            state, counted(lambda state, target=target: {"next_agent": target})(state)
        )
    assert (state["loop_count"], state["next_agent"]) == (3, "coordinator")


def test_a_guarded_node_returns_what_changed() -> None:
    """Fields that nobody touched are not in the update, so that parallel branches of LangGraph do
    not clash.
    """
    assert counted(partial_node)(state_with()) == {"next_agent": "course_advisor", "loop_count": 1}
    assert counted(lambda state: None)(state_with()) == {"loop_count": 1}
    assert set(counted(whole_node)(state_with())) == set(state_with())


def test_a_guard_passes_on_what_else_a_node_takes() -> None:
    """Further arguments, such as LangGraph's config, reach the node; its name and signature are its
    own.
    """

    def node(state: AgentState, config: Any, *, store: Any = None) -> dict[str, Any]:
        """Return what was given."""
        return {"current_task": f"{config} {store}"}

    guarded = counted(node)
    assert guarded(state_with(), "config", store="store")["current_task"] == "config store"
    assert list(inspect.signature(guarded).parameters) == ["state", "config", "store"]
    assert guarded.__name__ == "node"

    assert inspect.iscoroutinefunction(counted(async_node))


@pytest.mark.req("R27")
def test_a_guard_keeps_a_request() -> None:
    """A human request of a node is pending after the next node, which returns another flag and
    target.
    """

    def planner(state: AgentState) -> dict[str, Any]:
        """Ask by the flag alone, as the documents' planner does."""
        return {"requires_human_input": True, "learning_plan": {"weeks": 4}}

    def coordinator(state: AgentState) -> dict[str, Any]:
        """Answer with the flag of a model that knows of no request."""
        return {"requires_human_input": False, "next_agent": "course_advisor"}

    state = state_with(next_agent="learning_planner")
    for node in (planner, coordinator, partial_node, coordinator):
        state = changed(state, **counted(node)(state))
        assert explain_route(state).reason is RouteReason.HUMAN_INPUT
        assert len(pending_requests(state)) == 1

    assert state["loop_count"] == 4


@pytest.mark.req("R36", "R39")
def test_a_guard_records_what_follows() -> None:
    """With a table the decision after a node stands in the history, is the one the edge takes, and
    finds loops.
    """
    routes = Routes()
    advisor = counted(
        lambda state: {"next_agent": "coordinator"}, name="course_advisor", routes=routes, now=noon
    )
    coordinator = counted(partial_node, name="coordinator", routes=routes, now=noon)
    nodes = {"course_advisor": advisor, "coordinator": coordinator}

    state = state_with(next_agent="coordinator")
    while (decision := explain_route(state, routes=routes)).target != "end":
        state = changed(state, **nodes[decision.target](state))

    assert (decision.reason, decision.loop) == (
        RouteReason.LOOP_DETECTED,
        ("course_advisor", "coordinator"),
    )
    history = [
        (entry["from"], entry["to"], entry["loop_count"]) for entry in state["routing_history"]
    ]
    assert history == [
        ("coordinator", "course_advisor", 1),
        ("course_advisor", "coordinator", 2),
        ("coordinator", "course_advisor", 3),
        ("course_advisor", "coordinator", 4),
        ("coordinator", "course_advisor", 5),
        ("course_advisor", "end", 6),
    ]

    assert state["routing_history"][-1]["reason"] == "loop_detected"


@pytest.mark.parametrize("returned", [5, "text", [1], ("next_agent", "end")])
def test_what_is_no_update_is_refused(returned: object) -> None:
    """A node returns a mapping, or None for no change."""
    with pytest.raises(StateError) as caught:
        counted(lambda state: returned)(state_with())
    assert [issue.code for issue in caught.value.issues] == [CoordinationCode.STATE_NOT_OBJECT]


@pytest.mark.parametrize(
    "update",
    [
        {"requires_human_input": "false"},
        {"loop_count": "1"},
        {"human_requests": [5]},
        {"requires_human_input": 1},
    ],
)
def test_a_mistyped_update_is_refused(update: dict[str, Any]) -> None:
    """A flag is a bool and a count a number, also in an update."""
    with pytest.raises(StateError):
        apply_update(state_with(), update)


def test_applying_nothing_changes_nothing() -> None:
    """No update is no change."""
    state = state_with(next_agent="coordinator")
    assert apply_update(state, None) == state
    assert apply_update(state, {}) == state


@pytest.mark.req("R40")
def test_executions_are_measured() -> None:
    """With metrics each execution counts under the node's name, a raising one without success."""
    metrics = RunMetrics(clock=iter(range(100)).__next__)

    async def failing(state: AgentState) -> dict[str, Any]:
        """Raise."""
        raise KeyError("x")

    counted(partial_node, metrics=metrics)(state_with())
    run(counted(async_node, metrics=metrics, name="advisor"), state_with())
    counted(Worker(), metrics=metrics)(state_with())

    with pytest.raises(KeyError):
        run(counted(failing, metrics=metrics), state_with())

    snapshot = metrics.snapshot()
    names = {name for activity, name in snapshot.by_name if activity is Activity.NODE_EXECUTIONS}
    assert names == {"partial_node", "advisor", "Worker", "failing"}
    tally = snapshot.tally(Activity.NODE_EXECUTIONS)
    assert (tally.total, tally.succeeded, tally.average_seconds) == (4, 3, 1.0)


@pytest.mark.req("R36", "R39")
@pytest.mark.parametrize(
    ("cycle", "kept"), [(None, 50), (CycleLimit(), 50), (CycleLimit(repeats=3, longest=40), 121)]
)
def test_the_history_is_as_long_as_circles_need(cycle: CycleLimit | None, kept: int) -> None:
    """It is bounded, and holds every step of the longest circle that the table looks for, and the
    one before.
    """
    routes = Routes(cycle=cycle, max_loop_count=500)
    step = counted(dict, name="node", routes=routes)
    state = state_with(next_agent="coordinator")
    for number in range(130):
        state = changed(state, **step(changed(state, current_task=str(number))))
    assert len(state["routing_history"]) == kept


@pytest.mark.req("R35")
@given(
    targets=st.lists(st.sampled_from([*DEFAULT_NODES, None, "nobody"]), max_size=20),
    limit=st.integers(0, 3),
)
def test_routes_are_counted_by_target_and_by_reason(targets: list[str | None], limit: int) -> None:
    """Each decision counts once under its target and once under its reason; both sums are the
    calls.
    """
    metrics = RunMetrics()
    states = [
        state_with(next_agent=target, loop_count=index) for index, target in enumerate(targets)
    ]
    decisions = [explain_route(state, limit) for state in states]
    for decision in decisions:
        metrics.routed(decision)

    gone = [decision.target for decision in decisions]
    snapshot = metrics.snapshot()
    assert (
        sum(snapshot.targets.values())
        == sum(snapshot.reasons.values())
        == snapshot.routes
        == len(targets)
    )

    assert snapshot.targets == {target: gone.count(target) for target in gone}
    reasons = [decision.reason.value for decision in decisions]
    assert snapshot.reasons == {reason: reasons.count(reason) for reason in reasons}


@pytest.mark.req("R35", "R38")
def test_strategies_are_counted() -> None:
    """Which strategy decided is counted where there is one."""
    metrics = RunMetrics()
    metrics.routed(explain_route(state_with(), routes=Routes(strategies=(RouteStrategy("a", 1),))))
    metrics.routed(explain_route(state_with()))
    assert (metrics.snapshot().strategies, metrics.snapshot().routes) == ({"a": 1}, 2)


@pytest.mark.req("R40")
@pytest.mark.parametrize(
    "activity", ["node_executions", "llm_calls", "tool_executions", "conversations"]
)
def test_activities_have_totals_and_averages(activity: str) -> None:
    """Totals count everything, the average is the time of successes over successes, and nothing
    done is 0.
    """
    metrics = RunMetrics()
    kind = Activity(activity)
    assert metrics.snapshot().tally(kind) == ActivityTally()
    assert (
        ActivityTally().average_seconds,
        ActivityTally().success_rate,
        ActivityTally().failed,
    ) == (0.0, 0.0, 0)

    metrics.done(kind, "a", succeeded=False, seconds=100)
    assert metrics.snapshot().tally(kind).average_seconds == 0.0
    metrics.done(kind, "a", seconds=1)
    metrics.done(kind, "b", seconds=3)

    snapshot = metrics.snapshot()
    tally = snapshot.tally(kind)
    assert (tally.total, tally.succeeded, tally.failed, tally.average_seconds) == (3, 2, 1, 2.0)
    assert tally.success_rate == pytest.approx(2 / 3)

    assert snapshot.by_name[kind, "a"] == ActivityTally(2, 1, 1)
    assert all(snapshot.tally(other) == ActivityTally() for other in Activity if other is not kind)


@pytest.mark.req("R40")
def test_a_block_is_measured() -> None:
    """A block counts with its seconds, and without success when it raises, which goes on."""
    times = iter([10.0, 12.5, 20.0, 21.0])
    metrics = RunMetrics(clock=lambda: next(times))
    with metrics.measure(Activity.LLM_CALLS, "model"):
        pass
    with pytest.raises(KeyError), metrics.measure(Activity.LLM_CALLS, "model"):
        raise KeyError
    assert metrics.snapshot().tally(Activity.LLM_CALLS) == ActivityTally(2, 1, 2.5)


def test_a_snapshot_stands_still() -> None:
    """Later counts and a reset do not change a snapshot."""
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
    """With concurrent writers every event is counted, and each snapshot's sums agree."""
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
    assert (snapshot.tally(Activity.TOOL_EXECUTIONS), snapshot.routes) == (
        ActivityTally(600, 600, 600.0),
        600,
    )


def test_a_guarded_node_goes_to_another_process() -> None:
    """A guarded function can be pickled by value, as long as no counters are given."""
    cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed here")
    guarded = counted(lambda _: {"next_agent": "course_advisor"}, name="local")
    again = cloudpickle.loads(cloudpickle.dumps(guarded))
    assert again(state_with(loop_count=3)) == {"next_agent": "course_advisor", "loop_count": 4}
