"""Rules and circles in graphs.

What a rule decides is obeyed whole, and work is told from going in circles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import strictreply as sr
from strictreply.coordination import CycleLimit, RouteRule, Routes, Topology
from strictreply.integrations.langgraph import node_of
from strictreply.testing import Step, ok
from support.integrations.langgraph_runs import (
    CONFIG,
    TEAM,
    Cast,
    Command,
    InMemorySaver,
    act,
    add,
    agents,
    begin,
    final,
    graph,
    hand,
    outcome_of,
    run,
    spread,
    to_langgraph,
)

PAIR = Topology.of({"lead": ["reader", "User"], "reader": ["lead"]}, entry="lead")
FAR = CONFIG | {"recursion_limit": 300}


def unread(state: Mapping[str, Any]) -> str | None:
    """Lead to the reader until it was asked."""
    return None if "reader" in state["threads"] else node_of("reader")


def under(priority: int, rule: Any = unread) -> Routes:
    """Make a table with one rule."""
    return Routes(rules=(RouteRule("read", priority, rule),))


@pytest.mark.req("R37")
def test_a_rule_that_reopens_a_finished_run_is_obeyed() -> None:
    """The end is taken back: the agent that the rule chose is told what the run is about, and
    decides what follows.
    """
    cast = Cast(lead=[final("draft"), final("better")], reader=[hand("lead", "poor")])
    state = run(
        cast,
        routes=under(400, lambda state: unread(state) if state["is_complete"] else None),
    )

    assert cast.told("reader") == "The user said: Go."
    assert cast.told("lead") == "From reader: poor"
    assert (outcome_of(state)["content"], state["is_complete"]) == ("better", True)
    assert [message["content"] for message in state["messages"]] == ["Go.", "draft", "better"]


@pytest.mark.req("R37")
@pytest.mark.parametrize("priority", [150, 250, 400])
@pytest.mark.parametrize(
    ("step", "asked"),
    [
        (ok.call(add, a=1, b=2), {"lead": 2, "reader": 0, "writer": 0}),
        (spread("reader", "writer", reader="r", writer="w"), {"lead": 2, "reader": 1, "writer": 1}),
        (act("ask_user", question="Sure?"), {"lead": 2, "reader": 0, "writer": 0}),
    ],
    ids=["tools", "branches", "human"],
)
def test_a_rule_does_not_lead_past_what_is_prepared(
    step: Step, asked: dict[str, int], priority: int
) -> None:
    """Accepted calls run, branches are opened, and a human is asked; the rule is asked again at the
    next hop.
    """

    def early(state: Mapping[str, Any]) -> str | None:
        """Lead to the reader right after the lead's first turn."""
        return node_of("reader") if state["loop_count"] == 1 else None

    cast = Cast(lead=[step, final()], reader=[hand("lead", "r")], writer=[hand("lead", "w")])
    compiled = graph(cast, routes=under(priority, early), saver=InMemorySaver(), max_loop_count=20)
    state = compiled.invoke(begin(TEAM, "Go."), CONFIG)
    if state.get("__interrupt__"):
        state = compiled.invoke(Command(resume="yes"), CONFIG)

    assert (outcome_of(state)["status"], cast.asked()) == ("completed", asked)
    assert (state["calling"], state["spawned"]) == (None, None)


@pytest.mark.req("R37")
def test_a_rule_may_end_a_run_before_its_tools_run() -> None:
    """To the end it may lead anywhere: what was prepared is given up, and the reason says whose
    decision it was.
    """
    ran: list[int] = []

    @sr.tool
    def note(number: int) -> str:
        """Note a number."""
        ran.append(number)
        return "noted"

    cast = Cast(lead=[ok.call(note, number=1)])
    stopping = under(150, lambda state: "end" if state["calling"] else None)
    compiled = to_langgraph(TEAM, agents(cast, tools=[note]), routes=stopping).compile()
    assert outcome_of(compiled.invoke(begin(TEAM, "Go.")))["reason"] == "user_rule"

    assert ran == []


def test_an_agent_that_a_rule_brings_into_a_conversation_of_others_takes_no_part_in_it() -> None:
    """It replies on the line as it was before the two began to talk, so its rights are its own."""
    topology = Topology.of({"a": ["b", "c", "User"], "b": ["a"], "c": ["a", "End"]}, entry="a")
    cast = Cast(a=[hand("b", "hi")], b=[hand("a", "ho")], c=[final("audited")])
    audit = under(150, lambda state: node_of("c") if state["loop_count"] == 2 else None)
    state = run(cast, topology, routes=audit)
    assert (outcome_of(state)["content"], state["branch"]["type"], state["branch"]["agents"]) == (
        "audited",
        "simple",
        [],
    )


RING = Topology.of([("a", "b"), ("b", "c"), ("c", "a"), ("a", "User")], entry="a")


@pytest.mark.req("R39")
@pytest.mark.parametrize(
    ("topology", "ring", "steps"),
    [(PAIR, ("lead", "reader"), 6), (RING, ("a", "b", "c"), 9)],
    ids=["two agents", "three agents"],
)
def test_agents_that_call_tools_and_hand_over_in_a_ring_go_in_circles(
    topology: Topology, ring: tuple[str, ...], steps: int
) -> None:
    """A round is three steps an agent: the call, its result, the hand-over; the third round is not
    finished.
    """
    after = dict(zip(ring, (*ring[1:], ring[0]), strict=True))
    cast = Cast(**{name: [ok.call(add, a=1, b=2), hand(after[name], "x")] * 20 for name in ring})
    state = graph(cast, topology, max_loop_count=100, max_turns=1000).invoke(
        begin(topology, "Go."), FAR
    )
    assert outcome_of(state)["reason"] == "loop_detected"
    assert state["loop_count"] <= 3 * steps


@pytest.mark.req("R39")
def test_a_longer_circle_is_found_when_it_is_looked_for() -> None:
    """The history keeps as many steps as the table needs."""
    calls = [ok.call(add, a=number, b=1) for number in range(12)]
    routes = Routes(cycle=CycleLimit(longest=24))
    for table, reason in ((routes, "loop_detected"), (None, "loop_limit")):
        compiled = graph(Cast(lead=calls * 9), PAIR, max_loop_count=90, routes=table)
        assert outcome_of(compiled.invoke(begin(PAIR, "Go."), FAR))["reason"] == reason


@pytest.mark.req("R39")
@pytest.mark.parametrize(("stuck", "reason"), [(False, "final"), (True, "loop_detected")])
def test_a_poll_whose_result_changes_is_no_circle(stuck: bool, reason: str) -> None:
    """The same call may be made as long as it tells something new; three times the same is a
    circle.
    """
    polls: list[int] = []

    @sr.tool
    def status(job: str) -> str:
        """Return the progress of a job."""
        polls.append(1)
        return f"{job}: {25 if stuck else 10 * len(polls)}%"

    cast = Cast(lead=[*[ok.call(status, job="j")] * 9, final()])
    compiled = to_langgraph(TEAM, agents(cast, tools=[status]), max_loop_count=60).compile()
    state = compiled.invoke(begin(TEAM, "Go."), FAR)
    assert (outcome_of(state)["reason"], len(polls)) == (reason, 3 if stuck else 9)


def declared(**changes: Any) -> Any:
    """Build a graph whose agents are declared with these settings."""
    build = {key: changes.pop(key) for key in ("max_turns",) if key in changes}
    return to_langgraph(TEAM, agents(Cast(lead=[final()]), **changes), **build)


@pytest.mark.parametrize(
    "changes",
    [
        {"tools": [sr.Tool.from_json_schema("look", {"type": "object", "properties": {}})]},
        {"skip_to": "nobody"},
        {"skip_to": "lead"},
        *({"max_turns": turns} for turns in (0, -1, True, 1.5, "5", None)),
    ],
    ids=lambda changes: " ".join(f"{name} {ascii(value)[:12]}" for name, value in changes.items()),
)
def test_what_could_never_run_is_refused_when_it_is_declared(changes: dict[str, Any]) -> None:
    """Tools that a graph cannot run, a way out that is no edge, turns that are no count."""
    with pytest.raises(sr.ContractError):
        declared(**changes)


def test_an_async_client_in_a_sync_run_is_refused_before_it_is_asked() -> None:
    """The remedy is said: to await the run."""
    cast = Cast(lead=[final()])
    compiled = to_langgraph(TEAM, agents(cast, awaited=True)).compile()
    with pytest.raises(sr.ContractError, match="ainvoke"):
        compiled.invoke(begin(TEAM, "Go."))
    assert cast.asked() == {"lead": 0}
