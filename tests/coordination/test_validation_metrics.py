"""Every verdict is counted once and remembered for a while.

It does not matter which thread or task it came from.
"""

from __future__ import annotations

import asyncio
import json
import runpy
import threading
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strictreply as sr
from strictreply import Category, Code, ContractError
from strictreply.coordination import ActionType, AgentReplyCode, ValidationMetrics
from strictreply.coordination.metrics import ValidationCounts
from strictreply.coordination.validation import ActionSteering, retry_with_steering
from support.coordination.routed import FAULTS, PROCESSOR, call, invalid, valid, verdict
from support.scripted import Client, StatusError, completion

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "coordination.py"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
GOOD = valid(ActionType.INVOKE_AGENT, "Worker1")
BAD = invalid(FAULTS[Category.FORMAT_ERROR])
DENIED = invalid(FAULTS[Category.PERMISSION_ERROR])


def still() -> datetime:
    """Return a time that stands still."""
    return NOON


@pytest.mark.req("M114")
def test_bad_bad_good() -> None:
    """Three verdicts, one good after two steered retries, have the five published counts."""
    metrics = ValidationMetrics(now=still)
    metrics.validated("A", BAD)
    metrics.validated("A", BAD, retry=True, steered=True)
    metrics.validated("A", GOOD, retry=True, steered=True)

    assert asdict(metrics.snapshot().totals) == {
        "total_validations": 3,
        "successful_validations": 1,
        "failed_validations": 2,
        "retry_count": 2,
        "steering_applications": 2,
    }


@pytest.mark.req("M114")
def test_the_loop_of_a_client_is_counted_by_its_attempts() -> None:
    """With ``on_attempt`` of a wrapped client the counters see every judged reply, and no failed
    call.
    """
    metrics = ValidationMetrics(now=still)
    prose = completion("prose")
    raw = Client(prose, StatusError(503, {"retry-after": "0"}), prose, completion(None, [call()]))
    client = sr.wrap(
        raw, steering=ActionSteering(), on_attempt=partial(metrics.attempted, "Coordinator")
    )

    messages = [{"role": "user", "content": "go"}]
    retry_with_steering(client, PROCESSOR.answer_kind("Coordinator"), model="m", messages=messages)
    snapshot = metrics.snapshot()
    assert snapshot.totals == ValidationCounts(3, 1, 2, 2, 2)

    assert [(row.valid, row.code) for row in snapshot.history] == [
        *((False, Code.JSON_SYNTAX), (False, Code.JSON_SYNTAX), (True, "")),
    ]


@pytest.mark.req("M114")
@given(st.lists(st.tuples(st.sampled_from("AB"), st.booleans(), st.booleans(), st.booleans())))
def test_every_verdict_is_successful_or_failed(seen: list[tuple[str, bool, bool, bool]]) -> None:
    """The total is the sum of both, for each agent and for all, and agents sum up to the total."""
    metrics = ValidationMetrics(rows=0, now=still)
    for agent, good, retry, steered in seen:
        metrics.validated(agent, GOOD if good else BAD, retry=retry, steered=steered)

    snapshot = metrics.snapshot()
    for counts in (*snapshot.by_agent.values(), snapshot.totals):
        assert counts.total_validations == counts.successful_validations + counts.failed_validations

    assert snapshot.totals.total_validations == len(seen)
    assert snapshot.totals.retry_count == sum(retry for _, _, retry, _ in seen)
    assert sum(snapshot.faults.values()) == snapshot.totals.failed_validations


@pytest.mark.req("M114")
def test_threads_and_tasks_lose_nothing() -> None:
    """Verdicts of many threads, each with its own tasks, are all counted."""
    metrics = ValidationMetrics(rows=10)

    async def task() -> None:
        """Count a hundred verdicts, giving way to others."""
        for _ in range(100):
            metrics.validated("A", GOOD)
            await asyncio.sleep(0)

    async def tasks() -> None:
        """Run three tasks."""
        await asyncio.gather(task(), task(), task())

    threads = [threading.Thread(target=lambda: asyncio.run(tasks())) for _ in range(3)]
    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join()

    assert metrics.snapshot().totals == ValidationCounts(900, 900, 0, 0, 0)


@pytest.mark.req("M114")
def test_a_snapshot_stays_and_a_reset_begins_anew() -> None:
    """Later verdicts and resets do not reach into a snapshot."""
    metrics = ValidationMetrics(now=still)
    metrics.validated("A", BAD)
    before = metrics.snapshot()
    metrics.validated("B", GOOD)

    metrics.reset()
    assert (before.totals.total_validations, list(before.by_agent), len(before.history)) == (
        1,
        ["A"],
        1,
    )

    empty = metrics.snapshot()
    assert (empty.totals, empty.history, dict(empty.faults)) == (ValidationCounts(), (), {})


@pytest.mark.req("M116")
def test_each_verdict_is_a_row() -> None:
    """A row has the five published fields, its error None when it is valid, and JSON spells it."""
    metrics = ValidationMetrics(now=still)
    judged = verdict({"next_action": "invoke_agent", "action_input": "Worker1"})
    metrics.validated("Coordinator", judged)
    metrics.validated("Coordinator", verdict("prose"))

    good, bad = metrics.snapshot().history
    assert (good.timestamp, good.agent, good.valid, good.action, good.error) == (
        *(NOON.timestamp(), "Coordinator", True, ActionType.INVOKE_AGENT, None),
    )
    assert (bad.valid, bad.action, bad.code, bad.category) == (
        False,
        None,
        Code.JSON_SYNTAX,
        Category.FORMAT_ERROR,
    )

    assert bad.error
    rows = json.loads(json.dumps([asdict(row) for row in metrics.snapshot().history]))
    assert {"timestamp", "agent", "valid", "action", "error"} <= set(rows[0])


@pytest.mark.req("M116")
@given(st.lists(st.integers(-5, 5), max_size=12), st.integers(0, 5))
def test_rows_are_bounded_and_never_go_back_in_time(steps: list[int], bound: int) -> None:
    """The newest rows are kept, and a clock that is set back does not make them out of order."""
    clock = iter([NOON + timedelta(seconds=step) for step in steps])
    metrics = ValidationMetrics(rows=bound, now=lambda: next(clock))
    for _ in steps:
        metrics.validated("A", GOOD)
    times = [row.timestamp for row in metrics.snapshot().history]
    assert len(times) == min(bound, len(steps))
    assert times == sorted(times)


def test_a_negative_bound_is_refused() -> None:
    """A history has room for 0 rows or more."""
    with pytest.raises(ContractError):
        ValidationMetrics(rows=-1)


@pytest.mark.req("M120")
def test_the_main_fault_names_the_cause() -> None:
    """Of an agent that always fails, and of all, the most frequent code is named: a format, a
    permission, none.
    """
    metrics = ValidationMetrics(now=still)
    for agent, result, times in (
        ("A", BAD, 2),
        ("B", DENIED, 3),
        ("C", GOOD, 4),
        ("D", invalid(), 1),
    ):
        for _ in range(times):
            metrics.validated(agent, result)

    snapshot = metrics.snapshot()
    named = [snapshot.main_fault(agent) for agent in ("A", "B", "C", "D", None)]
    assert named == [
        AgentReplyCode.ACTION_MISSING_FIELD,
        AgentReplyCode.TOPOLOGY_NOT_ALLOWED,
        None,
        "",
        AgentReplyCode.TOPOLOGY_NOT_ALLOWED,
    ]

    assert snapshot.faults["A", "action.missing_field"] == 2


@pytest.mark.req("M120")
def test_the_benchmark_of_a_verdict_measures_what_it_says() -> None:
    """Ten processors, the actions as they are named, one round of one verdict each."""
    benchmark = runpy.run_path(str(BENCHMARK), run_name="benchmark")
    made = benchmark["processor"]()
    bad = "a target that is not permitted"
    assert len(made.processors) == 10

    verdicts = {
        name: made.validate(json.dumps(action), "Agent0")
        for name, action in benchmark["ACTIONS"].items()
    }
    assert {name: str(found.action_type) for name, found in verdicts.items() if found.is_valid} == {
        name: name for name in benchmark["ACTIONS"] if name != bad
    }
    assert verdicts[bad].code == AgentReplyCode.TOPOLOGY_NOT_ALLOWED
    measured = benchmark["measured"]
    measured.__globals__.update(ROUNDS=1, REPEAT=1)

    for action in benchmark["ACTIONS"].values():
        cost = measured(action, made)
        assert cost.loading > 0
        assert cost.judging == cost.whole - cost.decoding

    assert 0 < benchmark["BOUND"] < benchmark["REFUSAL_BOUND"]


@pytest.mark.req("M120")
@pytest.mark.parametrize(
    ("bound", "over"), [({}, 0), ({"BOUND": 0}, 4), ({"REFUSAL_BOUND": 0}, 1)], ids=str
)
def test_a_verdict_over_its_bound_fails_the_benchmark(
    bound: dict[str, int], over: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bound is a ratio that ``make bounds`` holds, and CI runs it with nothing beside it. Here,
    where others run, only what it does with its figures is tried.
    """
    benchmark = runpy.run_path(str(BENCHMARK), run_name="benchmark")
    cost = benchmark["Cost"](loading=1.0, decoding=1.0, whole=3.0)
    benchmark["main"].__globals__.update({"measured": lambda *_: cost} | bound)
    assert benchmark["main"]() == int(over > 0)
    assert capsys.readouterr().out.endswith(f"over their bound: {over} of 5\n")
