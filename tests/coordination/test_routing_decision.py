"""The published values: names, defaults, and a count that is given once."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from strictreply.coordination import (
    BranchSpec,
    ExecutionStep,
    RoutingContext,
    RoutingDecision,
    RoutingReason,
    StepType,
)


@pytest.mark.req("M93")
def test_there_are_seven_types_of_steps() -> None:
    """The six of the API reference, and the one of the concept page."""
    assert [kind.value for kind in StepType] == [
        "agent_invocation",
        "tool_execution",
        "parallel_spawn",
        "wait_for_convergence",
        "final_response",
        "error_recovery",
        "retry_with_steering",
    ]


@pytest.mark.req("M91", "M92")
def test_the_printed_decisions_can_be_made() -> None:
    """Every decision that the documents print is made as printed, and reads as printed."""
    sequential = RoutingDecision(
        next_steps=[
            ExecutionStep(
                step_type=StepType.AGENT_INVOCATION,
                target="Analyzer",
                data={"request": "Analyze data"},
            )
        ],
        should_continue=True,
        branch_specs=[],
        metadata={"step_count": 5},
    )
    parallel = RoutingDecision(
        next_steps=[],
        should_continue=False,
        branch_specs=[
            BranchSpec(agent="Worker1", request="Task1"),
            BranchSpec(agent="Worker2", request="Task2"),
        ],
    )

    denied = RoutingDecision(
        next_steps=[],
        should_continue=False,
        error_action="terminate",
        error_message="Permission denied",
    )
    retried = RoutingDecision(
        next_steps=[
            ExecutionStep(
                step_type=StepType.RETRY_WITH_STEERING,
                steering="Please respond with valid JSON format",
            )
        ]
    )

    recovered = RoutingDecision(
        next_steps=[
            ExecutionStep(
                step_type=StepType.ERROR_RECOVERY, target="User", data={"error": {"type": "x"}}
            )
        ]
    )
    assert (sequential.next_steps[0].target, sequential.metadata) == ("Analyzer", {"step_count": 5})
    assert parallel.child_branch_specs == parallel.branch_specs
    assert (parallel.has_child_branches(), sequential.has_child_branches()) == (True, False)

    assert (denied.error_action, denied.error_message, denied.is_terminal()) == (
        "terminate",
        "Permission denied",
        True,
    )
    assert (retried.next_steps[0].steering, retried.should_continue) == (
        "Please respond with valid JSON format",
        True,
    )

    assert [
        made.follows_fault() for made in (sequential, parallel, denied, retried, recovered)
    ] == [*(False, False, True, True, True)]


@pytest.mark.req("M91", "M92")
def test_a_decision_has_all_documented_fields() -> None:
    """Defaults are empty and not shared, and nothing waits or ends that nobody said."""
    one = RoutingDecision()
    other = RoutingDecision()
    assert (one.next_steps, one.branch_specs, one.metadata) == ([], [], {})
    assert one.next_steps is not other.next_steps

    assert (one.should_continue, one.should_wait, one.completion_reason, one.is_terminal()) == (
        True,
        False,
        None,
        False,
    )
    assert not RoutingDecision(should_continue=False, should_wait=True).is_terminal()
    step = ExecutionStep(step_type=StepType.TOOL_EXECUTION)
    assert (step.target, step.data, step.metadata, step.steering) == ("", {}, {}, None)


@pytest.mark.req("M94")
def test_a_context_is_made_as_printed() -> None:
    """The printed context has its count in the metadata, and steering is on."""
    context = RoutingContext(metadata={"retry_count": 0}, error_info=None)
    assert (context.retry_count, context.steering_enabled, context.error_info) == (0, True, None)
    assert (context.current_agent, context.current_branch_id) == ("", "")
    assert RoutingContext().metadata == {}


@pytest.mark.req("M94")
@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({"metadata": {"retry_count": 2}}, 2),
        ({"retry_count": 3}, 3),
        ({"retry_count": 2, "metadata": {"retry_count": 2}}, 2),
        ({"retry_count": 0, "metadata": {"other": 1}}, 0),
    ],
)
def test_the_count_is_lifted_from_the_metadata(given: dict[str, Any], count: int) -> None:
    """The attribute holds the count, wherever it was given (X7)."""
    assert RoutingContext(**given).retry_count == count


@pytest.mark.req("M94")
@pytest.mark.parametrize(
    "given",
    [
        {"retry_count": 1, "metadata": {"retry_count": 2}},
        {"retry_count": 0, "metadata": {"retry_count": 2}},
        {"retry_count": -1},
        {"retry_count": True},
        {"metadata": {"retry_count": "2"}},
        {"transport_retries": -1},
        {"conversation_turns": 1.5},
    ],
)
def test_a_count_that_is_none_or_two_is_refused(given: dict[str, Any]) -> None:
    """Two different counts, and what is no count, are a ValueError (X7)."""
    with pytest.raises(ValueError, match="RoutingContext"):
        RoutingContext(**given)


def test_values_cannot_be_changed() -> None:
    """Steps, specs, decisions and contexts are frozen."""
    step = ExecutionStep(step_type=StepType.FINAL_RESPONSE)
    for value in (step, BranchSpec(agent="A"), RoutingDecision(), RoutingContext()):
        name = dataclasses.fields(value)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)


def test_reasons_are_words_of_their_own() -> None:
    """No two reasons are spelled alike."""
    assert len({reason.value for reason in RoutingReason}) == len(RoutingReason)


def test_an_end_says_why_and_whether_a_fault_led_there() -> None:
    """A branch that is ended goes nowhere; with an error it is a fault's, without one it is not."""
    step = ExecutionStep(step_type=StepType.FINAL_RESPONSE)
    done = RoutingDecision.stopped(RoutingReason.FINAL, "it is done", step, turns=2)
    assert (done.is_terminal(), done.follows_fault()) == (True, False)
    assert (done.reason, done.completion_reason, done.error_message) == (
        RoutingReason.FINAL,
        "it is done",
        None,
    )
    assert done.next_steps == [step]
    assert done.metadata == {"routing_type": "final", "turns": 2}

    failed = RoutingDecision.stopped(RoutingReason.TERMINATED, "it failed", error="no agent")
    assert (failed.is_terminal(), failed.follows_fault()) == (True, True)
    assert (failed.error_action, failed.error_message) == ("terminate", "no agent")
