"""The published routing logic (routing-logic.md), scenario by scenario.

There are fourteen single decisions and nine examples.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.coordination import (
    AgentState,
    HumanKind,
    RouteReason,
    Routes,
    counted,
    edge_map,
    explain_route,
    give_human_feedback,
    human_input,
    increment_loop_count,
    mark_complete,
    request_human_input,
    route_next,
)
from strictreply.coordination.graph import MAX_LOOP_COUNT_VARIABLE
from strictreply.coordination.state import DEFAULT_NODES
from support.coordination.tutor import changed, noon, state_with


@pytest.fixture(autouse=True)
def _no_limit_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have set a limit."""
    monkeypatch.delenv(MAX_LOOP_COUNT_VARIABLE, raising=False)


@pytest.mark.req("R30")
@pytest.mark.parametrize(
    ("fields", "limit", "target"),
    [
        pytest.param(
            {"loop_count": 11, "next_agent": "coordinator"}, None, "end", id="loop count exceeded"
        ),
        pytest.param(
            {"is_complete": True, "next_agent": "coordinator"}, None, "end", id="task completed"
        ),
        pytest.param(
            {"requires_human_input": True, "next_agent": "coordinator"},
            None,
            "human_input",
            id="human input required",
        ),
        pytest.param({"next_agent": "coordinator"}, None, "coordinator", id="to the coordinator"),
        pytest.param(
            {"next_agent": "course_advisor"}, None, "course_advisor", id="to the course advisor"
        ),
        pytest.param(
            {"next_agent": "learning_planner"},
            None,
            "learning_planner",
            id="to the learning planner",
        ),
        pytest.param({"next_agent": "human_input"}, None, "human_input", id="to the human"),
        pytest.param({"next_agent": "end"}, None, "end", id="to the end"),
        pytest.param({"next_agent": "invalid_agent"}, None, "end", id="invalid agent falls back"),
        pytest.param({"next_agent": None}, None, "end", id="no agent falls back"),
        pytest.param(
            {
                "loop_count": 11,
                "is_complete": False,
                "requires_human_input": True,
                "next_agent": "coordinator",
            },
            None,
            "end",
            id="loop before human",
        ),
        pytest.param(
            {"is_complete": True, "requires_human_input": True, "next_agent": "coordinator"},
            None,
            "end",
            id="completion before human",
        ),
        pytest.param(
            {"requires_human_input": True, "next_agent": "end"},
            None,
            "human_input",
            id="human before next agent",
        ),
        pytest.param({"loop_count": 6, "next_agent": "coordinator"}, 5, "end", id="custom limit"),
    ],
)
def test_the_documented_decisions(fields: dict[str, Any], limit: int | None, target: str) -> None:
    """Each of the fourteen documented decisions holds."""
    state = state_with(**fields)
    assert (
        route_next(state) if limit is None else route_next(state, max_loop_count=limit)
    ) == target


@pytest.mark.req("R30")
def test_example_initial_routing() -> None:
    """Scenario 1: a run begins at the coordinator."""
    assert route_next(state_with(next_agent="coordinator")) == "coordinator"


@pytest.mark.req("R30")
def test_example_courses() -> None:
    """Scenario 2: who asks for courses comes to the advisor."""
    assert (
        route_next(state_with(next_agent="course_advisor", current_task="courses"))
        == "course_advisor"
    )


@pytest.mark.req("R30")
def test_example_plan() -> None:
    """Scenario 3: who asks for a plan comes to the planner."""
    assert (
        route_next(state_with(next_agent="learning_planner", current_task="plan"))
        == "learning_planner"
    )


@pytest.mark.req("R30")
def test_example_human() -> None:
    """Scenario 4: ``request_human_input`` leads to the human."""
    assert (
        route_next(request_human_input(state_with(next_agent="learning_planner"))) == "human_input"
    )


@pytest.mark.req("R30")
def test_example_completion() -> None:
    """Scenario 5: ``mark_complete`` leads to the end."""
    assert route_next(mark_complete(state_with(next_agent="coordinator"))) == "end"


@pytest.mark.req("R30")
def test_example_loop_prevention() -> None:
    """Scenario 6: counting on, ten executions route on and the eleventh ends; a custom limit of 15
    holds to 15.
    """
    state = state_with(next_agent="coordinator")
    seen = list[str]()

    while (target := route_next(state)) != "end":
        seen.append(target)
        state = increment_loop_count(state)

    assert (len(seen), state["loop_count"]) == (11, 11)

    while route_next(state, max_loop_count=15) != "end":
        state = increment_loop_count(state)

    assert state["loop_count"] == 16


@pytest.mark.req("R30")
def test_example_priority() -> None:
    """Scenario 7: taking away what decides, one after the other, leads through the documented
    order.
    """
    state = state_with(
        loop_count=11, is_complete=True, requires_human_input=True, next_agent="course_advisor"
    )
    reasons = [explain_route(state).reason]

    for fields in (
        {"loop_count": 0},
        {"is_complete": False},
        {"requires_human_input": False},
        {"next_agent": None},
    ):
        state = changed(state, **fields)
        reasons.append(explain_route(state).reason)

    assert reasons == [
        RouteReason.LOOP_LIMIT,
        RouteReason.COMPLETED,
        RouteReason.HUMAN_INPUT,
        RouteReason.NEXT_AGENT,
        RouteReason.NO_TARGET,
    ]


@pytest.mark.req("R30")
def test_example_invalid_agent() -> None:
    """Scenario 8: an agent that does not exist leads to the end, not to a crash."""
    assert [route_next(state_with(next_agent=name)) for name in ("unknown", "", None)] == [
        "end"
    ] * 3


def conversation(state: AgentState) -> dict[str, Any]:
    """Play the node that the state is at: the script of the documented conversation."""
    played = state["current_task"]

    if state["next_agent"] == "course_advisor":
        return {
            "course_candidates": [{"name": "Python"}],
            "next_agent": "coordinator",
            "current_task": "plan",
        }

    if state["next_agent"] == "learning_planner":
        planned = changed(state, learning_plan={"weeks": 4})
        return {**request_human_input(planned, "Agreed?", kind=HumanKind.PLAN_APPROVAL, now=noon)}

    if state["next_agent"] == "human_input":
        return {
            **human_input(give_human_feedback(state, "approve"), now=noon),
            "current_task": "done",
        }

    if played == "done":
        return {**mark_complete(state)}

    return {"next_agent": {"courses": "course_advisor", "plan": "learning_planner"}[str(played)]}


@pytest.mark.req("R30")
def test_example_conversation() -> None:
    """Scenario 9: coordinator, advisor, coordinator, planner, human, coordinator, end, every step
    counted.
    """
    state = state_with(next_agent="coordinator", current_task="courses")
    walked: list[str] = []

    while (target := route_next(state)) != "end":
        walked.append(target)
        state = changed(state, **counted(conversation)(state))

    assert walked == [
        "coordinator",
        "course_advisor",
        "coordinator",
        "learning_planner",
        "human_input",
        "coordinator",
    ]
    assert (state["loop_count"], state["learning_plan"]) == (6, {"weeks": 4})
    assert explain_route(state).reason is RouteReason.COMPLETED


@pytest.mark.req("R30")
def test_the_published_edge_map() -> None:
    """The mapping in the document is the one that ``edge_map`` gives."""
    assert edge_map() == {
        "coordinator": "coordinator",
        "course_advisor": "course_advisor",
        "learning_planner": "learning_planner",
        "human_input": "human_input",
        "end": "end",
    }


@pytest.mark.req("R32", "R2")
@given(
    choices=st.lists(st.sampled_from([*DEFAULT_NODES[:4], "nobody"]), min_size=30, max_size=30),
    limit=st.integers(0, 20),
    recorded=st.booleans(),
    resets=st.booleans(),
)
def test_every_run_ends(choices: list[str], limit: int, recorded: bool, resets: bool) -> None:
    """Property 24: whatever the nodes choose, a run ends within the limit and one more node
    executions.
    """
    chosen = iter(choices)

    def node(state: AgentState) -> dict[str, Any]:
        """Choose any next node; a bad one sets the count back."""
        return {"next_agent": next(chosen)} | ({"loop_count": 0} if resets else {})

    routes = Routes(max_loop_count=limit)
    run = counted(node, routes=routes if recorded else None, now=noon)
    state = state_with(next_agent="coordinator")
    executions = 0

    while route_next(state, routes=routes) != "end":
        state = changed(state, **run(state))
        executions += 1

    assert executions <= limit + 1
    assert explain_route(state, routes=routes).reason in {
        RouteReason.LOOP_LIMIT,
        RouteReason.LOOP_DETECTED,
        RouteReason.UNKNOWN_TARGET,
    }
