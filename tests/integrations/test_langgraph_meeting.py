"""Branches that lead to the same agent meet there (V15, Pattern 2).

It is asked once, with what each of them brings.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strictreply import ContractError
from strictreply.coordination import StateError, Topology
from strictreply.coordination.state import pending_requests
from strictreply.testing import Step, ok
from support.integrations.langgraph_runs import (
    CONFIG,
    LAB,
    NONSENSE,
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
    outcomes_of,
    run,
    spread,
    to_langgraph,
)

PATTERN_2 = Topology.of(
    {
        "Coordinator": ["Worker1", "Worker2"],
        "Worker1": ["Aggregator", "User"],
        "Worker2": ["Aggregator"],
        "Aggregator": ["User"],
    },
    entry="Coordinator",
)
BOTH = spread("Worker1", "Worker2", Worker1="Task A", Worker2="Task B")
ASK = act("ask_user", question="Sure?")
WAIT = act("wait_and_aggregate")


def team(**scripts: list[Step]) -> Cast:
    """Return the published team scripts.

    The coordinator opens both branches, and the aggregator finishes.
    """
    return Cast(**{"Coordinator": [BOTH], "Aggregator": [final("all of it")], **scripts})


def report(cast: Cast, agent: str = "Aggregator", number: int = -1) -> list[Any]:
    """Read what an agent was told of branches."""
    told = cast.told(agent, number)
    branches: list[Any] = json.loads(told[told.index("[") :])
    return branches


def contents(cast: Cast, agent: str = "Aggregator", number: int = -1) -> list[Any]:
    """Read what branches brought to an agent, the reason of one that failed."""
    return [one.get("content", one.get("reason")) for one in report(cast, agent, number)]


@pytest.mark.req("M111")
def test_v15_pattern_2_converges_at_the_aggregator() -> None:
    """Both results stand in the one request to the aggregator, whose answer is the run's."""
    cast = team(
        Worker1=[hand("Aggregator", "result A")], Worker2=[hand("Aggregator", {"result": "B"})]
    )
    state = run(cast, PATTERN_2)
    assert cast.asked() == {"Coordinator": 1, "Worker1": 1, "Worker2": 1, "Aggregator": 1}
    assert [(one["agent"], one["status"], one["content"]) for one in report(cast)] == [
        ("Worker1", "completed", "result A"),
        ("Worker2", "completed", {"result": "B"}),
    ]

    assert cast.told("Aggregator").startswith(
        "Worker1 hands over to you. Worker2 hands over to you. "
    )
    assert {key: outcome_of(state)[key] for key in ("agent", "status", "content")} == {
        "agent": "Aggregator",
        "status": "completed",
        "content": "all of it",
    }

    # the coordinator, two workers, the join, the aggregator
    assert state["loop_count"] == 1 + 2 + 1 + 1


@pytest.mark.req("M111")
def test_v15_pattern_2_converges_awaited() -> None:
    """The async graph joins alike."""
    cast = team(Worker1=[hand("Aggregator", "A")], Worker2=[hand("Aggregator", "B")])
    compiled = to_langgraph(PATTERN_2, agents(cast, PATTERN_2, awaited=True)).compile()
    state = asyncio.run(compiled.ainvoke(begin(PATTERN_2, "Go."), CONFIG))
    assert (contents(cast), cast.asked()["Aggregator"], outcome_of(state)["content"]) == (
        ["A", "B"],
        1,
        "all of it",
    )


@pytest.mark.parametrize(
    ("script", "content"),
    [
        ([NONSENSE] * 2, "retries_spent"),
        ([WAIT], None),
        ([final("a result of its own")], "a result of its own"),
        ([ok.call(add, a=1, b=2), WAIT], "3"),
        ([ok.call(add, a=1, b=2), ok.call(add, a=3, b=4), WAIT], ["3", "7"]),
        ([hand("Aggregator")], None),
    ],
)
def test_v15_the_aggregator_is_told_of_every_branch(script: list[Step], content: Any) -> None:
    """Of one that fails, finishes, hands over nothing, and of what one that only waits was given by
    its tools.
    """
    cast = team(Worker1=script, Worker2=[hand("Aggregator", "B")])
    state = run(cast, PATTERN_2, max_loop_count=20)
    assert (contents(cast), cast.asked()["Aggregator"]) == ([content, "B"], 1)
    assert ("The user said: Go." in cast.told("Aggregator")) is (content is None)
    assert outcome_of(state)["content"] == "all of it"


def test_v15_a_branch_that_asks_a_human_is_awaited_over_a_checkpoint() -> None:
    """The aggregator is not asked before the answer, and another process may go on from the
    checkpoint.
    """
    cast = team(Worker1=[ASK, hand("Aggregator", "A, surely")], Worker2=[hand("Aggregator", "B")])
    saver = InMemorySaver()
    paused = graph(cast, PATTERN_2, saver=saver, max_loop_count=20).invoke(
        begin(PATTERN_2, "Go."), CONFIG
    )
    assert (len(paused["__interrupt__"]), cast.asked()["Aggregator"]) == (1, 0)

    state = graph(cast, PATTERN_2, saver=saver, max_loop_count=20).invoke(
        Command(resume="yes"), CONFIG
    )
    assert (contents(cast), cast.asked()) == (
        ["A, surely", "B"],
        {"Coordinator": 1, "Worker1": 2, "Worker2": 1, "Aggregator": 1},
    )

    assert outcome_of(state)["status"] == "completed"


def test_v15_a_crash_of_the_aggregator_is_resumed_with_both_results() -> None:
    """The outcomes of the branches lie in the checkpoint before the aggregator is asked."""
    cast = team(Worker1=[hand("Aggregator", "A")], Worker2=[hand("Aggregator", "B")], Aggregator=[])
    compiled = graph(cast, PATTERN_2, saver=InMemorySaver())
    for _ in compiled.stream(
        begin(PATTERN_2, "Go."), CONFIG, interrupt_before=["agent Aggregator"]
    ):
        pass

    assert cast.asked()["Aggregator"] == 0
    cast.models["Aggregator"].script(final("after the break"))
    state = compiled.invoke(None, CONFIG)
    assert (contents(cast), outcome_of(state)["content"]) == (["A", "B"], "after the break")

    assert cast.asked() == {"Coordinator": 1, "Worker1": 1, "Worker2": 1, "Aggregator": 1}


def test_v15_two_instances_of_one_worker_meet() -> None:
    """The same agent in two branches leads twice to the aggregator, which is asked once."""
    cast = team(
        Coordinator=[spread("Worker1", "Worker1", Worker1="twice")],
        Worker1=[hand("Aggregator", "one"), hand("Aggregator", "two")],
    )
    run(cast, PATTERN_2)
    assert (sorted(contents(cast)), cast.asked()["Aggregator"]) == (["one", "two"], 1)
    assert len({one["instance_id"] for one in report(cast)}) == 2


def test_v15_branches_of_different_lengths_meet() -> None:
    """One comes by another agent, that only it can lead to."""
    topology = Topology.of(
        {"lead": ["a", "b"], "a": ["sum"], "b": ["c"], "c": ["sum"], "sum": ["lead", "End"]},
        entry="lead",
    )
    cast = Cast(
        lead=[spread("a", "b", a="x", b="y")],
        a=[hand("sum", "from a")],
        b=[hand("c", "from b")],
        c=[hand("sum", "from c")],
        sum=[final()],
    )
    run(cast, topology)
    assert (contents(cast, "sum"), cast.asked()["sum"]) == (["from a", "from c"], 1)


NESTED = Topology.of(
    {
        "lead": ["left", "right"],
        "left": ["x", "y"],
        "right": ["sum"],
        "x": ["sum", "left"],
        "y": ["sum", "left"],
        "sum": ["User"],
    },
    entry="lead",
)


@pytest.mark.parametrize("back", [False, True])
def test_v15_nested_branches_meet_where_the_outer_ones_do(back: bool) -> None:
    """Inner branches that lead past their opener lead its whole branch there, with all that they
    bring.
    """
    cast = Cast(
        lead=[spread("left", "right", left="l", right="r")],
        left=[spread("x", "y", x="x", y="y")],
        right=[hand("sum", "from right")],
        x=[hand("sum", "from x")],
        y=[hand("left" if back else "sum", "from y")],
        sum=[final("summed")],
    )
    state = run(cast, NESTED, max_loop_count=40)
    inner, outer = contents(cast, "sum")
    assert ([one["content"] for one in inner], outer) == (["from x", "from y"], "from right")

    assert (cast.asked()["sum"], outcome_of(state)["content"]) == (1, "summed")


def test_v15_nested_branches_that_come_back_are_no_loss_either() -> None:
    """An agent that is told of its branches and then waits hands on what it was told."""
    topology = NESTED.with_edges(("right", "End"))
    cast = Cast(
        lead=[spread("left", "right", left="l", right="r")],
        left=[spread("x", "y", x="x", y="y"), WAIT],
        right=[hand("sum", "from right")],
        x=[hand("left", "from x")],
        y=[hand("left", "from y")],
        sum=[final("summed")],
    )
    run(cast, topology, max_loop_count=40)
    waited, outer = contents(cast, "sum")
    assert all(words in waited for words in ("from x", "from y"))

    assert (outer, cast.asked()["left"]) == ("from right", 2)


def test_v15_branches_that_lead_to_several_agents_meet_in_turns() -> None:
    """An agent that another meeting point leads to is asked after it, once, with all that leads
    there.
    """
    topology = Topology.of(
        {
            "lead": ["a", "b", "c"],
            "a": ["first"],
            "b": ["first"],
            "c": ["last"],
            "first": ["last"],
            "last": ["User"],
        },
        entry="lead",
    )
    cast = Cast(
        lead=[spread("a", "b", "c", a="x", b="x", c="x")],
        a=[hand("first", "from a")],
        b=[hand("first", "from b")],
        c=[hand("last", "from c")],
        first=[hand("last", "from first")],
        last=[final("the end")],
    )
    state = run(cast, topology, max_loop_count=40)
    assert (contents(cast, "first"), cast.asked()["first"]) == (["from a", "from b"], 1)

    assert (sorted(contents(cast, "last")), cast.asked()["last"]) == (["from c", "from first"], 1)
    assert outcome_of(state)["content"] == "the end"
    assert len({one["instance_id"] for one in report(cast, "first") + report(cast, "last")}) == 4


def test_v15_two_meeting_points_are_asked_side_by_side_and_then_the_opener() -> None:
    """Who opened the branches is told what the agents came to at which they met, and what failed
    with its cause.
    """
    topology = Topology.of(
        {
            "lead": ["a", "b", "c", "d", "User"],
            **{name: ["one", "two", "lead"] for name in "abcd"},
            "one": ["End"],
            "two": ["End"],
        },
        entry="lead",
    )
    cast = Cast(
        lead=[spread(*"abcd", **dict.fromkeys("abcd", "x")), final()],
        a=[hand("one", "from a")],
        b=[hand("two", "from b")],
        c=[hand("one", "from c")],
        d=[hand("lead", "from d")],
        one=[final("of one")],
        two=[NONSENSE] * 2,
    )
    run(cast, topology, max_loop_count=40)
    assert (contents(cast, "one"), contents(cast, "two", 0)) == (["from a", "from c"], ["from b"])

    assert contents(cast, "lead") == ["from d", "of one", "retries_spent"]
    assert [one["content"] for one in report(cast, "lead")[-1]["brought"]] == ["from b"]


def test_v15_a_question_that_outlives_its_branch_does_not_lead_past_the_meeting() -> None:
    """The share of a branch is spent on its question: it is asked on the line, and then the
    aggregator follows.
    """
    order = spread("Worker2", "Worker1", Worker1="Task A", Worker2="Task B")
    cast = team(Coordinator=[order], Worker1=[ASK], Worker2=[hand("Aggregator", "B")])
    compiled = graph(cast, PATTERN_2, saver=InMemorySaver(), max_loop_count=5)
    paused = compiled.invoke(begin(PATTERN_2, "Go."), CONFIG)
    assert [one.value["question"] for one in paused["__interrupt__"]] == ["Sure?"]

    state = compiled.invoke(Command(resume="by all means"), CONFIG)
    assert cast.asked() == {"Coordinator": 1, "Worker1": 1, "Worker2": 1, "Aggregator": 1}
    assert outcome_of(state)["agent"] == "Aggregator"
    told = [str(turn["content"]) for turn in cast.models["Aggregator"].requests[0].messages]
    assert any('"B"' in words for words in told)

    assert "Sure?" in told[-1]
    assert "by all means" in told[-1]


def test_v15_a_question_that_outlives_its_branch_does_not_close_the_branches_that_follow() -> None:
    """Two meeting points are still to be asked when the human is: both are, after the answer."""
    topology = Topology.of(
        {
            "lead": ["a", "b", "c", "User"],
            **{name: ["one", "two"] for name in "ab"},
            "c": ["one", "two", "User"],
            "one": ["End"],
            "two": ["End"],
        },
        entry="lead",
    )
    cast = Cast(
        lead=[spread(*"aaabbc", **dict.fromkeys("abc", "x")), final("led")],
        a=[hand("one", "from a")] * 3,
        b=[hand("two", "from b")] * 2,
        c=[ASK],
        one=[final("of one")],
        two=[final("of two")],
    )
    # The last branch has a share of one.
    compiled = graph(cast, topology, saver=InMemorySaver(), max_loop_count=13)
    paused = compiled.invoke(begin(topology, "Go."), CONFIG)
    assert (len(paused["__interrupt__"]), cast.asked()["one"]) == (1, 0)

    assert pending_requests(compiled.get_state(CONFIG).values)[0].resume_to == "branch"

    with pytest.raises(ContractError):  # a new run would give up what the branches brought
        begin(topology, "And now?", state=paused)

    state = compiled.invoke(Command(resume="by all means"), CONFIG)
    assert contents(cast, "lead") == ["loop_limit", "of one", "of two"]
    assert outcome_of(state)["content"] == "led"


def test_v15_where_branches_led_is_held_to_the_topology() -> None:
    """A place to go on at that was written into a state over an edge that is not there is refused,
    and nobody asked.
    """
    cast = Cast(lead=[], ann=[], bob=[])
    spec = {"id": "z", "agent": "ann", "instance_id": "i", "request": "[]"}
    outcome: dict[str, Any] = {
        "agent": "bob",
        "status": "completed",
        "reason": "",
        "content": "1",
        "error": None,
    }
    kept = {"z": {**outcome, "spent": 0, "reply_formats": {}, "leads_to": "ann"}}

    cases: list[tuple[str, Any, str]] = [
        ("join", {"agent": "lead", "branches": [spec]}, "/outcomes/z/leads_to"),
        (
            "branch",
            {"agent": "lead", "branches": [spec | {"met": ["bob"]}]},
            "/spawned/branches/0/agent",
        ),
        (
            "branch",
            {"agent": "lead", "branches": [spec | {"id": "y"}], "waiting": [spec]},
            "/outcomes/z/leads_to",
        ),
    ]
    for next_agent, spawned, path in cases:
        state: Any = begin(LAB, "Go.") | {
            "spawned": spawned,
            "outcomes": kept,
            "next_agent": next_agent,
        }
        with pytest.raises(StateError) as raised:
            graph(cast, LAB).invoke(state)

        assert [(issue.code, issue.path) for issue in raised.value.issues] == [
            ("topology.not_allowed", path)
        ]

    assert sum(cast.asked().values()) == 0


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[dict[str, list[str]], dict[str, str | None], list[str]]:
    """Draw agents in an order, each with edges to later ones.

    For each agent the one that it hands over to is drawn, too, and where branches begin.
    """
    names = [f"n{index}" for index in range(draw(st.integers(3, 8)))]
    edges = {
        name: draw(st.lists(st.sampled_from(names[index + 1 :] or [""]), unique=True))
        for index, name in enumerate(names)
    }
    edges = {name: [target for target in targets if target] for name, targets in edges.items()}
    chosen = {name: draw(st.sampled_from([*targets, None])) for name, targets in edges.items()}

    begun = draw(st.lists(st.sampled_from(names), min_size=2, max_size=4, unique=True))
    return edges, chosen, begun


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=pipelines())
def test_v15_whatever_leads_where_each_meeting_point_is_asked_once_and_nothing_is_lost(
    drawn: Any,
) -> None:
    """In any pipeline without circles; an agent that a branch begins with is asked for that branch,
    and once more.
    """
    edges, chosen, begun = drawn
    topology = Topology.of(
        {"lead": [*edges, "User"], **{name: [*targets, "End"] for name, targets in edges.items()}},
        entry="lead",
    )
    scripts = {
        name: [
            final(f"from {name}")
            if (target := chosen[name]) is None
            else hand(target, f"from {name}")
        ]
        * 2
        for name in edges
    }
    cast = Cast(lead=[spread(*begun, **dict.fromkeys(begun, "x")), final("led")], **scripts)
    state = run(cast, topology, max_loop_count=200)

    reached = set(begun)
    way = list(begun)
    for name in way:
        if (target := chosen[name]) is not None and target not in reached:
            reached.add(target)
            way.append(target)

    led_to = {chosen[name] for name in reached} - {None}
    assert {name: count for name, count in cast.asked().items() if name != "lead" and count} == {
        name: (name in begun) + (name in led_to) for name in reached
    }
    told = "".join(
        str(request.messages) for model in cast.models.values() for request in model.requests
    )
    assert outcome_of(state)["status"] == "completed"

    assert all(f"from {name}" in told + str(outcome_of(state)["content"]) for name in reached)
    assert {one["status"] for one in outcomes_of(state).values()} == {"completed"}
