"""The cases of the original's own tests, ported.

There are 21 of its router, 9 of its validator and 5 of its error handling. Each row is named for
the requirement that the case was read from; codes, actions and fields are compared, never words.

What is not proven: the original's test files are not here, so that nothing compares these rows with
them one by one. There are as many as it has, and each asserts what the requirement says of one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from strictreply import Category, Invalid
from strictreply.coordination import (
    USER,
    ActionType,
    ApiError,
    Branch,
    ErrorMessageProcessor,
    ExecutionStep,
    RoutingContext,
    RoutingDecision,
    StepType,
    ValidationResult,
)
from strictreply.coordination.routing import ROUTES, Router
from support.coordination.routed import (
    FAULTS,
    PROCESSOR,
    TEAM,
    call,
    decide,
    invalid,
    talk,
    valid,
    verdict,
)
from support.shared_data import SHARED, needs_shared

INVOKE = {"next_action": "invoke_agent", "action_input": "Worker1", "request": "go"}
PARALLEL = {
    "next_action": "parallel_invoke",
    "agents": ["Worker1", "Worker2"],
    "agent_requests": {"Worker1": "north", "Worker2": "south"},
}
CALLS = {"next_action": "call_tool", "tool_calls": [call()]}
FINAL = {"next_action": "final_response", "content": "done"}
RECOVERY = {
    "next_action": "error_recovery",
    "error_details": {"type": "rate_limit", "message": "late"},
}
STEPS = set(StepType)


def led(decision: RoutingDecision) -> tuple[Any, ...]:
    """Return where a decision leads: why, to what, and whether the branch goes on or waits."""
    steps = [(str(step.step_type), step.target) for step in decision.next_steps]
    return str(decision.reason), steps, decision.should_continue, decision.should_wait


def known(decision: RoutingDecision, *names: str) -> list[Any]:
    """Return what is known beside the first step."""
    return [decision.next_steps[0].metadata.get(name) for name in names]


def reported(**report: Any) -> ValidationResult:
    """Read an error of the API, as a run is told of it."""
    return ApiError.of_report(report).to_result(agent="Worker1", branch_id="b")


def reported_by(message: object) -> Any:
    """Return what the processor of errors reads in a message."""
    return ErrorMessageProcessor().process(message)


def pre_checked(*flags: str) -> tuple[Any, ...]:
    """Route a right reply with something known that goes before it."""
    decision = decide(verdict(INVOKE), metadata={flag: {"message": "m"} for flag in flags})
    return str(decision.reason), decision.should_continue


def code(
    reply: object, agent: str = "Coordinator", branch: Branch | None = None
) -> list[tuple[str, str]]:
    """Judge a reply, and give the faults by code and place."""
    return [(issue.code, issue.path) for issue in PROCESSOR.validate(reply, agent, branch).issues]


def names(kind: Any) -> set[str]:
    """Return the names of the fields of a dataclass."""
    return {field.name for field in fields(kind)}


def targets(reply: object) -> tuple[Any, ...]:
    """Judge a reply that hands over, and give its action and whom it asks what."""
    result = verdict(reply)
    return str(result.action_type), [(one.agent_name, one.request) for one in result.invocations]


ROUTER: dict[str, tuple[Callable[[], Any], Any]] = {
    "M90": (
        lambda: type(asyncio.run(Router(TEAM).route(verdict(INVOKE), Branch(), RoutingContext()))),
        RoutingDecision,
    ),
    "M91": (
        lambda: (
            {
                "next_steps",
                "should_continue",
                "branch_specs",
                "metadata",
                "should_wait",
                "completion_reason",
            }
            - names(RoutingDecision)
        ),
        set(),
    ),
    "M92": (lambda: {"step_type", "target", "data", "metadata"} - names(ExecutionStep), set()),
    "M93": (
        lambda: (
            {
                *("agent_invocation", "tool_execution", "parallel_spawn", "wait_for_convergence"),
                *("final_response", "error_recovery", "retry_with_steering"),
            }
            - {str(one) for one in STEPS}
        ),
        set(),
    ),
    "M94": (lambda: RoutingContext(metadata={"retry_count": 2}).retry_count, 2),
    "M95": (
        lambda: led(decide(verdict(INVOKE))),
        ("sequential", [("agent_invocation", "Worker1")], True, False),
    ),
    "M96": (lambda: led(decide(verdict(PARALLEL))), ("parallel", [], False, True)),
    "M97": (
        lambda: [(spec.agent, spec.request) for spec in decide(verdict(PARALLEL)).branch_specs],
        [("Worker1", "north"), ("Worker2", "south")],
    ),
    "M98": (
        lambda: led(decide(verdict(CALLS))),
        ("tools", [("tool_execution", "search")], True, False),
    ),
    "M99": (
        lambda: led(decide(verdict(FINAL))),
        ("final", [("final_response", USER)], False, False),
    ),
    "M100": (
        lambda: decide(valid(ActionType.END_CONVERSATION), branch=talk(4)).metadata[
            "conversation_turns"
        ],
        4,
    ),
    "M101": (
        lambda: known(
            decide(verdict(RECOVERY)), "requires_user_action", "can_retry", "failed_agent"
        ),
        [True, True, "Coordinator"],
    ),
    "M102": (
        lambda: led(decide(reported(classification="invalid_model"), "Worker1")),
        ("terminal", [("error_recovery", USER)], False, False),
    ),
    "M103": (
        lambda: led(decide(reported(classification="timeout"), "Worker1")),
        ("auto_retry", [("agent_invocation", "Worker1")], True, False),
    ),
    "M104": (
        lambda: known(decide(verdict("prose"), retry_count=1), "retry_attempt", "retry_reason"),
        [2, "json.syntax"],
    ),
    "M105": (
        lambda: led(decide(invalid(FAULTS[Category.FORMAT_ERROR], suggestion=None))),
        ("no_suggestion", [], False, False),
    ),
    "M106": (
        lambda: [
            pre_checked(
                "timeout_error", "pool_exhausted", "coordination_error", "critical_api_error"
            ),
            pre_checked("timeout_error", "pool_exhausted", "coordination_error"),
            pre_checked("timeout_error", "pool_exhausted")[0],
            pre_checked("timeout_error"),
        ],
        [
            ("critical_api_error", False),
            ("coordination_error", True),
            "pool_exhausted",
            ("timeout_error", False),
        ],
    ),
    "M107": (
        lambda: led(decide(valid(ActionType.INVOKE_AGENT, "Nobody"))),
        ("not_allowed", [], False, False),
    ),
    "M108": (
        lambda: decide(valid(ActionType.INVOKE_AGENT, "Aggregator"), branch=talk(1)).metadata[
            "conversation_turns"
        ],
        2,
    ),
    "M109": (
        lambda: [
            Router(TEAM).suggest_alternative_route("Coordinator", "Worker1", ["Aggregator"]),
            Router(TEAM).suggest_alternative_route("Worker1", "Aggregator"),
        ],
        ["Worker2", None],
    ),
    "M110": (lambda: set(ROUTES), set(ActionType)),
}

VALIDATOR: dict[str, tuple[Callable[[], Any], Any]] = {
    "M28": (
        lambda: [
            targets(
                {
                    "next_action": "invoke_agent",
                    "action_input": [{"agent_name": name} for name in team],
                }
            )
            for team in (["Worker1"], ["Worker1", "Worker2"])
        ],
        [
            ("invoke_agent", [("Worker1", None)]),
            ("parallel_invoke", [("Worker1", None), ("Worker2", None)]),
        ],
    ),
    "M30": (
        lambda: [
            code({"next_action": "parallel_invoke", "agents": agents})
            for agents in (["Worker1"], [])
        ],
        [[("action.min_items", "/agents")]] * 2,
    ),
    "M32": (
        lambda: len(
            {
                one.instance_id
                for one in verdict(
                    {"next_action": "invoke_agent", "action_input": [{"agent_name": "Worker1"}] * 2}
                ).invocations
            }
        ),
        2,
    ),
    "M34": (
        lambda: [
            bool(code({"next_action": "call_tool", "tool_calls": calls}))
            for calls in (["x"], [{"id": "1"}], None, [])
        ],
        [True] * 4,
    ),
    "M36": (
        lambda: [
            verdict({"next_action": "final_response", **given}).final_response
            for given in (
                {"content": "x"},
                {"content": {"title": "x"}},
                {"action_input": {"response": "x"}},
                {"action_input": {"report": "x"}},
            )
        ],
        ["x", {"title": "x"}, "x", "x"],
    ),
    "M43": (
        lambda: code({"next_action": "parallel_invoke", "agents": ["Worker1", "bad1", "bad2"]}),
        [("topology.not_allowed", "/agents/1"), ("topology.not_allowed", "/agents/2")],
    ),
    "M45": (lambda: code(FINAL, "Worker1"), [("topology.may_not_finish", "/next_action")]),
    "M46": (
        lambda: code({"next_action": "ask_user", "question": " "}),
        [("action.no_question", "/question")],
    ),
    "M47": (
        lambda: [
            targets(INVOKE | {"action_input": "  Worker1 "})[1][0][0],
            bool(code(INVOKE | {"action_input": " "})),
        ],
        ["Worker1", True],
    ),
}

ERRORS: dict[str, tuple[Callable[[], Any], Any]] = {
    "M83": (
        lambda: [
            str(reported(classification=word).action_type)
            for word in (
                "network_error",
                "rate_limit",
                "permission_denied",
                "insufficient_credits",
                "unknown",
            )
        ],
        ["auto_retry", "auto_retry", "terminal_error", "error_recovery", "error_recovery"],
    ),
    "M84": (
        lambda: str(reported(classification="timeout", is_retryable=False).action_type),
        "error_recovery",
    ),
    "M85": (
        lambda: [
            (reported(classification="authentication_failed").parsed_response or {})[
                "termination_reason"
            ],
            len(
                (
                    reported(
                        classification="insufficient_credits", suggested_action="top up"
                    ).parsed_response
                    or {}
                )["suggested_actions"]
            )
            >= 2,
        ],
        ["authentication_failed", True],
    ),
    "M86": (
        lambda: [
            (reported(classification=word).parsed_response or {}).get("retry_context")
            for word in ("unknown", "invalid_model")
        ],
        [{"agent_name": "Worker1", "branch_id": "b"}, None],
    ),
    "M87": (
        lambda: [
            isinstance(reported_by({"role": "assistant", "content": "x"}), Invalid),
            reported_by({"role": "error", "content": "boom"})["error_details"]["message"],
        ],
        [True, "boom"],
    ),
}


ROW = re.compile(r"^- \*\*(M\d+)(?: [^*]*)?\*\*(.*)$", re.MULTILINE)


@needs_shared
@pytest.mark.req("M121")
def test_all_ported_cases_are_here() -> None:
    """There are as many rows as the requirement counts in the original's suites, each named for a
    requirement; that they are the same cases is read from the requirements, and not compared.
    """
    written = (SHARED / "requirements.md").read_text(encoding="utf-8")
    rows = dict(ROW.findall(written))
    counted = [int(number) for number in re.findall(r"(\d+)(?= \+| cases)", rows["M121"])]
    assert [len(suite) for suite in (ROUTER, VALIDATOR, ERRORS)] == counted
    router = written.partition("### 2.9 Router")[2].partition("\n### ")[0]
    assert list(ROUTER) == [name for name, _ in ROW.findall(router)][: len(ROUTER)]
    assert {name.partition(" ")[0] for name in (*VALIDATOR, *ERRORS)} <= set(rows)


@pytest.mark.req("M121")
@pytest.mark.parametrize(
    ("observed", "expected"),
    [*ROUTER.values(), *VALIDATOR.values(), *ERRORS.values()],
    ids=[*ROUTER, *VALIDATOR, *ERRORS],
)
def test_a_ported_case_holds(observed: Callable[[], Any], expected: Any) -> None:
    """The assertions of the original case hold here, by code and field."""
    assert observed() == expected
