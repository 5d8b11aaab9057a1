"""The example of ``route_next`` as the edge of a graph of one's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import route_next_edge
from route_next_edge import ROUTES, Turn, graph_over

from strictreply.coordination import (
    HUMAN_INPUT,
    create_initial_state,
    explain_route,
    give_human_feedback,
)
from strictreply.testing import ScriptedModel, Step, faults, ok
from support.programs import ran

pytestmark = pytest.mark.one_lane

PROGRAM = Path(route_next_edge.__file__)
PROMISES = (
    r"^writer -> reviewer$",
    r"^human_input -> human_input$",
    r"^asked: .*approve or revise",
    r"^editor -> end$",
    r"^complete: True 3 requests$",
    r"^ended: loop_detected \('reviewer', 'writer'\)$",
)


def turn(to: str) -> Step:
    """Return a reply that hands over to a node."""
    return ok.answer({"text": "A page.", "next_agent": to})


def test_the_program_runs_without_a_key(tmp_path: Path) -> None:
    """Run from anywhere it ends well, and prints these lines in order."""
    status, stdout, stderr = ran(PROGRAM, tmp_path)
    assert (status, stderr) == (0, "")
    left = iter(stdout.splitlines())
    for promise in PROMISES:
        assert any(re.search(promise, line) for line in left), stdout


def test_what_is_not_approved_goes_back_to_the_writer() -> None:
    """A human's other answer leads to the writer again, by the edge, and nothing is published."""
    graph = graph_over(
        ScriptedModel(turn("reviewer"), turn("human_input"), turn("reviewer"), turn("human_input"))
    )
    state = graph.run(create_initial_state("A page on tea."), "writer")
    assert state["requires_human_input"]

    state = graph.run(give_human_feedback(state, "shorter"), HUMAN_INPUT)
    assert [entry["to"] for entry in state.get("routing_history", [])][-4:] == [
        "writer",
        "reviewer",
        HUMAN_INPUT,
        HUMAN_INPUT,
    ]
    assert not state["is_complete"]


def test_a_target_that_is_not_a_node_is_corrected_before_it_is_routed() -> None:
    """The model is asked again; the edge only sees the target of the valid reply."""
    bad = faults.not_in_enum(Turn, "next_agent", place="json")
    model = ScriptedModel(bad, turn("reviewer"), turn("human_input"))
    state = graph_over(model).run(create_initial_state("A page on tea."), "writer")
    assert len(model.requests) == 3
    targets = {entry["to"] for entry in state.get("routing_history", [])}
    assert targets == {"reviewer", HUMAN_INPUT}


def test_two_agents_that_run_in_circles_are_ended() -> None:
    """The edge leads to the end, for the reason that the nodes repeat."""
    circle = [turn("reviewer"), turn("writer")]
    state = graph_over(ScriptedModel(*circle * 10)).run(create_initial_state("Tea."), "writer")
    ended = explain_route(state, routes=ROUTES)
    assert (ended.reason, ended.target) == ("loop_detected", "end")
