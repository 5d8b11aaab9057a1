"""Parallel hand-overs are branches of the same graph.

They run side by side, join in order, and none is lost.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

import strictreply as sr
from strictreply.coordination import Topology
from strictreply.integrations.langgraph import ChatAgent
from strictreply.testing import ScriptedClient, faults, ok
from support.integrations.langgraph_runs import (
    CONFIG,
    LAB,
    NONSENSE,
    ONE_RETRY,
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


def report(cast: Cast) -> list[Any]:
    """Read what the lead was told of its branches."""
    told = cast.told("lead")
    branches: list[Any] = json.loads(told[told.index("[") :])
    return branches


def test_branches_get_their_own_requests_and_join_in_the_order_of_the_reply() -> None:
    """A branch ends by a final response, or by coming back to the agent that opened it."""
    cast = Cast(
        lead=[spread("cid", "ann", "bob", ann="A?", bob={"q": 1}, cid="C?"), final()],
        ann=[hand("lead", "from ann")],
        bob=[final({"from": "bob"})],
        cid=[hand("lead", ["from", "cid"])],
    )
    state = run(cast, LAB)
    assert [cast.told(name) for name in ("ann", "bob", "cid")] == [
        "From lead: A?",
        'From lead: {"q":1}',
        "From lead: C?",
    ]

    assert [(one["agent"], one["status"], one["content"]) for one in report(cast)] == [
        ("cid", "completed", ["from", "cid"]),
        ("ann", "completed", "from ann"),
        ("bob", "completed", {"from": "bob"}),
    ]
    assert outcome_of(state)["status"] == "completed"
    assert state["loop_count"] == 1 + 3 + 1 + 1  # the lead, three branches, the join, the lead


def test_the_same_agent_may_run_in_several_branches() -> None:
    """Instances are told apart, and neither sees the other's thread."""
    cast = Cast(
        lead=[spread("ann", "ann", ann="twice"), final()],
        ann=[hand("lead", "one"), hand("lead", "two")],
    )
    run(cast, LAB)
    assert len({one["instance_id"] for one in report(cast)}) == 2
    assert all(len(request.messages) == 2 for request in cast.models["ann"].requests)


@pytest.mark.req("M32")
def test_v17_instances_are_told_apart_over_rounds_and_runs() -> None:
    """The same reply opens other instances in each round, in branches of branches and in the next
    run as well.
    """
    opened = spread("ann", "ann", ann="twice")
    cast = Cast(lead=[opened, opened, final(), opened, final()], ann=[hand("lead", "done")] * 6)
    compiled = graph(cast, LAB, max_loop_count=30)
    state = compiled.invoke(begin(LAB, "Go."), CONFIG)
    compiled.invoke(begin(LAB, "Again.", state=state), CONFIG)

    told = [cast.told("lead", number) for number in (1, 2, 4)]
    ids = [one["instance_id"] for words in told for one in json.loads(words[words.index("[") :])]
    assert len(set(ids)) == 6
    deep = Topology.of({"a": ["b", "End"], "b": ["c", "a"], "c": ["b"]}, entry="a")

    both = {"a": spread("b", "b", b="x"), "b": spread("c", "c", c="x")}
    cast = Cast(
        a=[both["a"], final(), both["a"], final()],
        b=[both["b"], hand("a", "b")] * 4,
        c=[hand("b", "c")] * 8,
    )
    compiled = graph(cast, deep, max_loop_count=60)
    state = compiled.invoke(begin(deep, "Go."), CONFIG | {"max_concurrency": 1})
    compiled.invoke(begin(deep, "Again.", state=state), CONFIG | {"max_concurrency": 1})

    ids = [one for model in cast.models.values() for one in instances_told(model)]
    # In each of two runs there are two branches, and two of each of them.
    assert len(set(ids)) == 2 * (2 + 2 * 2)


def instances_told(model: Any) -> set[str]:
    """Read the ids of instances that an agent was told of, in all its requests."""
    return set(
        re.findall(
            r'"instance_id":"([^"]+)"', " ".join(str(one.messages) for one in model.requests)
        )
    )


def test_a_branch_hands_over_and_calls_tools_like_any_line() -> None:
    """Executions inside a branch are counted in the run that opened it."""
    cast = Cast(
        lead=[spread("ann", "cid", ann="a", cid="c"), final()],
        ann=[ok.call(add, a=1, b=2), hand("lead", "three")],
        cid=[hand("bob", "help")],
        bob=[final("helped")],
    )
    state = run(cast, LAB, max_loop_count=20)
    assert [one["content"] for one in report(cast)] == ["three", "helped"]
    assert state["loop_count"] == 1 + 3 + 2 + 1 + 1


def test_a_failing_branch_is_told_and_the_others_are_kept() -> None:
    """The agent that opened them learns the reason, in words of ours alone."""
    cast = Cast(
        lead=[spread("ann", "bob", ann="a", bob="b"), final()],
        ann=[NONSENSE] * 2,
        bob=[final("fine")],
    )
    state = run(cast, LAB)
    ann, bob = report(cast)
    assert (ann["status"], ann["reason"], "content" in ann) == ("failed", "retries_spent", False)

    assert bob["content"] == "fine"
    assert outcome_of(state)["status"] == "completed"


def test_waiting_ends_a_branch() -> None:
    """``wait_and_aggregate`` says that a branch has nothing more to tell."""
    cast = Cast(
        lead=[spread("ann", "bob", ann="a", bob="b"), final()],
        ann=[act("wait_and_aggregate")],
        bob=[final()],
    )
    run(cast, LAB)
    assert [(one["status"], one["content"]) for one in report(cast)] == [
        ("completed", None),
        ("completed", "done"),
    ]


def test_branches_ask_the_user_side_by_side() -> None:
    """Each question is an interrupt of its own; answered ones are not put again, and no model is
    asked twice.
    """
    cast = Cast(
        lead=[spread("ann", "bob", "cid", ann="a", bob="b", cid="c"), final()],
        ann=[act("ask_user", question="Ann?"), hand("lead", "ann knows")],
        bob=[faults.rate_limited(), final("bob is back")],
        cid=[hand("lead", "cid knows")],
    )
    compiled = graph(cast, LAB, saver=InMemorySaver(), max_loop_count=20)
    asked = {
        one.value["kind"]: one
        for one in compiled.invoke(begin(LAB, "Go."), CONFIG)["__interrupt__"]
    }
    assert sorted(asked) == ["error", "general"]

    left = compiled.invoke(Command(resume={asked["general"].id: "Ann yes"}), CONFIG)[
        "__interrupt__"
    ]
    assert [one.value["kind"] for one in left] == ["error"]
    state = compiled.invoke(Command(resume={left[0].id: "retry"}), CONFIG)
    assert [one["content"] for one in report(cast)] == ["ann knows", "bob is back", "cid knows"]

    assert cast.asked() == {"lead": 2, "ann": 2, "bob": 2, "cid": 1}
    assert {one["kind"]: one["decision"] for one in state["human_requests"]} == {
        "general": "feedback",
        "error": "retry",
    }


@pytest.mark.parametrize(("answer", "status"), [("skip", "completed"), ("abort", "aborted")])
def test_a_decision_in_a_branch_holds_for_what_it_says(answer: str, status: str) -> None:
    """``skip`` ends the branch, which is told; ``abort`` ends the run."""
    cast = Cast(
        lead=[spread("ann", "bob", ann="a", bob="b"), final()],
        ann=[faults.rate_limited()],
        bob=[final()],
    )
    compiled = graph(cast, LAB, saver=InMemorySaver())
    compiled.invoke(begin(LAB, "Go."), CONFIG)
    assert outcome_of(compiled.invoke(Command(resume=answer), CONFIG))["status"] == status

    assert cast.asked()["lead"] == (2 if answer == "skip" else 1)


DEEP = Topology.of(
    {"a": ["b", "c", "End"], "b": ["a", "c", "End"], "c": ["a", "b", "End"]}, entry="a"
)


@pytest.mark.req("R32")
@pytest.mark.parametrize("limit", range(13))
def test_branches_of_branches_share_one_bound(limit: int) -> None:
    """Agents that only open more branches are asked limit + 1 times at most in all, and joins count
    too.
    """
    both = {
        "a": spread("b", "c", b="x", c="x"),
        "b": spread("a", "c", a="x", c="x"),
        "c": spread("a", "b", a="x", b="x"),
    }
    cast = Cast(**{name: [step] * 64 for name, step in both.items()})
    state = run(cast, DEEP, max_loop_count=limit)
    assert outcome_of(state)["reason"] == "loop_limit"

    assert sum(cast.asked().values()) < state["loop_count"] == limit + 1 or limit == 0


def test_a_branch_without_a_share_is_refused_and_told() -> None:
    """Of four executions that are left two are kept for the join and the lead; the branch asked
    first gets more.
    """
    three = ("cid", "ann", "bob")
    cast = Cast(
        lead=[spread(*three, **dict.fromkeys(three, "x")), final()],
        cid=[hand("lead", "c")],
        ann=[],
        bob=[],
    )
    cast.models["ann"].script(hand("lead", "a"))
    state = run(cast, LAB, max_loop_count=4)

    assert [(one["agent"], one["status"], one.get("reason")) for one in report(cast)] == [
        ("cid", "completed", None),
        ("ann", "completed", None),
        ("bob", "failed", "loop_limit"),
    ]
    assert (outcome_of(state)["status"], state["loop_count"]) == ("completed", 5)
    assert [one["spent"] for one in state["outcomes"].values()] == [1, 1, 0]


def test_parallel_branches_are_awaited_side_by_side() -> None:
    """The async graph joins alike."""
    cast = Cast(
        lead=[spread("ann", "bob", ann="a", bob="b"), final()],
        ann=[act("ask_user", question="?"), hand("lead", "one")],
        bob=[final("two")],
    )
    team = agents(cast, LAB, awaited=True)
    compiled = to_langgraph(LAB, team, policy=ONE_RETRY).compile(checkpointer=InMemorySaver())

    async def story() -> Any:
        """Run to the question, and from the answer to the end."""
        await compiled.ainvoke(begin(LAB, "Go."), CONFIG)
        return await compiled.ainvoke(Command(resume="yes"), CONFIG)

    state = asyncio.run(story())
    assert [one["content"] for one in report(cast)] == ["one", "two"]
    assert (outcome_of(state)["status"], cast.asked()) == (
        "completed",
        {"lead": 2, "ann": 2, "bob": 1},
    )


def test_a_crash_in_one_branch_leaves_the_others_done() -> None:
    """An error of the process, not of the agent, raises; resumed from the checkpoint, only the
    broken branch is run.
    """
    broken = [True]

    def crash(body: Any) -> Any:
        """Break once, when bob is asked."""
        if body["model"] == "bob" and broken:
            broken.clear()
            raise MemoryError
        return cast(body)

    cast = Cast(
        lead=[spread("ann", "bob", ann="a", bob="b"), final()],
        ann=[hand("lead", "one")],
        bob=[final("two")],
    )
    client: Any = sr.wrap(ScriptedClient(crash))
    team = [ChatAgent(name=name, client=client, request={"model": name}) for name in LAB.agents]
    compiled = to_langgraph(LAB, team).compile(checkpointer=InMemorySaver())

    one_by_one = CONFIG | {"max_concurrency": 1}
    with pytest.raises(MemoryError):
        compiled.invoke(begin(LAB, "Go."), one_by_one)

    state = compiled.invoke(None, one_by_one)
    assert (outcome_of(state)["status"], cast.asked()) == (
        "completed",
        {"lead": 2, "ann": 1, "bob": 1},
    )
