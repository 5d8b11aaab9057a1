"""Results of tools that a durable run reads from its database, which may hold anything."""

from __future__ import annotations

import json
from typing import Any

import pytest

import strictreply as sr
from strictreply.integrations.dbos._turn_workflow import outcomes_from
from strictreply.loop import EffectRaised, RunTool
from strictreply.loop.invoke_result import InvokeCode
from strictreply.loop.values import AgentToolCallResult

RESULT = AgentToolCallResult(tool_call_id="c", name="search", execution_ms=3, result_json='"r"')


def search(query: str) -> str:
    """Search."""
    return query


RUNS = (RunTool(sr.tool(search), sr.ToolCall("search", {"query": "q"}, id="c")),)


def test_a_recorded_result_is_read() -> None:
    """A result of a call of ours is the outcome of that call."""
    outcomes = outcomes_from(RUNS, [json.dumps(RESULT.to_dict())])
    assert isinstance(outcomes, tuple)
    assert [outcome.result for outcome in outcomes] == [RESULT]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"tool_call_id": "other"}, InvokeCode.ID_MISMATCH),
        ({"name": "other"}, InvokeCode.NAME_MISMATCH),
        ({"result_json": "{"}, InvokeCode.RESULT_NOT_JSON),
        ({"result_json": None}, InvokeCode.MISSING_RESULT_JSON),
        ({"error_message": "no"}, InvokeCode.RESULT_AND_ERROR),
    ],
)
def test_a_result_that_no_tool_runner_makes_ends_the_run(
    changes: dict[str, Any], code: InvokeCode
) -> None:
    """It breaks a rule of a manifest, and the run fails with the code of that rule."""
    raised = outcomes_from(RUNS, [json.dumps(RESULT.to_dict() | changes)])
    assert isinstance(raised, EffectRaised)
    assert isinstance(raised.error, sr.InvokeFailed)
    assert [error.code for error in raised.error.errors] == [code]
