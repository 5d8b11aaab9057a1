"""A run that is begun on a thread with a past.

Nothing of the past decides in it, and no question is lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from xml_format import XMLResponseFormat

from strictreply.coordination import Topology, ValidationProcessor
from strictreply.coordination.state import pending_requests
from strictreply.integrations.langgraph import node_of
from strictreply.testing import Step, faults, ok
from support.integrations.langgraph_runs import (
    CONFIG,
    LAB,
    ONE_RETRY,
    TEAM,
    Cast,
    Command,
    InMemorySaver,
    act,
    agents,
    begin,
    final,
    graph,
    hand,
    outcome_of,
    outcomes_of,
    spread,
    to_langgraph,
)

ASK = act("ask_user", question="Which city?")


@pytest.mark.req("R16")
def test_a_run_on_a_used_thread_has_limits_and_memories_of_its_own() -> None:
    """The limit, the formats, the branches and the end of the run before are gone, as its threads
    are.
    """
    cast = Cast(
        lead=[spread("ann", "bob", ann="a", bob="b"), final("one"), hand("ann"), final("two")],
        ann=[hand("lead", "a"), hand("lead", "b")],
        bob=[final()],
    )
    compiled = graph(cast, LAB, saver=InMemorySaver())
    first = compiled.invoke(begin(LAB, "First.", max_loop_count=6), CONFIG)
    assert (len(outcomes_of(first)), set(first["reply_formats"])) == (2, {"lead", "ann", "bob"})

    second = compiled.invoke(begin(LAB, "Second."), CONFIG)
    assert (outcome_of(second)["content"], second["loop_count"]) == ("two", 3)
    assert (second["max_loop_count"], second["outcomes"], set(second["reply_formats"])) == (
        None,
        {},
        {"lead", "ann"},
    )

    assert [turn["content"] for turn in second["threads"]["lead"] if turn["role"] == "user"] == [
        "Second.",
        "From ann: b",
    ]
    assert second["conversation_id"] != first["conversation_id"]


@pytest.mark.req("R27")
@pytest.mark.parametrize("entry", ["lead", "writer"])
@pytest.mark.parametrize(
    ("first", "answer"),
    [(ASK, "Paris"), *((faults.rate_limited(), word) for word in ("retry", "skip", "abort"))],
)
def test_a_question_of_the_run_before_is_asked_first_and_then_the_message_is_worked_on(
    first: Step, answer: str, entry: str
) -> None:
    """As with ``state=``: whoever asked is told, the entry of the new run follows, and it hears the
    new message.
    """
    cast = Cast(
        **{"lead": [first], "writer": []}
        | {entry: [final("new")] if entry == "writer" else [first, final("new")]}
    )
    compiled = graph(cast, saver=InMemorySaver())
    asked = compiled.invoke(begin(TEAM, "First."), CONFIG)["__interrupt__"][0].value["id"]
    paused = compiled.invoke(begin(TEAM, "Second.", entry=entry), CONFIG)
    assert [one.value["id"] for one in paused["__interrupt__"]] == [asked]

    state = compiled.invoke(Command(resume=answer), CONFIG)
    assert (outcome_of(state)["agent"], outcome_of(state)["content"]) == (entry, "new")
    assert "Second." in [turn["content"] for turn in cast.models[entry].requests[-1].messages]
    told = [turn["content"] for turn in state["threads"].get("lead", [])]
    assert any(answer in str(words) for words in told) == (answer != "abort")

    assert (pending_requests(state), sum(cast.asked().values())) == ((), 2)


def test_a_question_waits_on_its_thread_for_as_many_runs_as_it_takes() -> None:
    """Each run that is begun beside it asks it first, by the same id; the last message is the one
    worked on.
    """
    cast = Cast(lead=[ASK], writer=[final("last")])
    compiled = graph(cast, saver=InMemorySaver())
    ids = {compiled.invoke(begin(TEAM, "First."), CONFIG)["__interrupt__"][0].value["id"]}

    for entry in ("lead", "writer", "lead", "writer"):
        ids.add(
            compiled.invoke(begin(TEAM, f"To {entry}.", entry=entry), CONFIG)["__interrupt__"][
                0
            ].value["id"]
        )

    state = compiled.invoke(Command(resume="Paris"), CONFIG)
    assert (len(ids), outcome_of(state)["agent"], cast.told("writer")) == (
        1,
        "writer",
        "To writer.",
    )


@pytest.mark.parametrize("answer", ["retry", "skip"])
def test_a_hand_over_without_a_request_tells_what_the_run_was_asked(answer: str) -> None:
    """The user's last words may be an answer to something else: they are no request."""
    cast = Cast(
        lead=[faults.rate_limited(), *([hand("writer")] if answer == "retry" else [])],
        writer=[final()],
    )
    lead, *others = agents(cast)
    team = [replace(lead, skip_to="writer"), *others]
    compiled = to_langgraph(TEAM, team, policy=ONE_RETRY).compile(checkpointer=InMemorySaver())
    compiled.invoke(begin(TEAM, "A poem on tea."), CONFIG)

    compiled.invoke(Command(resume=answer), CONFIG)
    assert cast.told("writer") == "lead hands over to you. The user said: A poem on tea."


@pytest.mark.parametrize(
    ("given", "told"),
    [({"request": "Chapter 1"}, "lead asked: Chapter 1"), ({}, "The user said: The whole book.")],
    ids=["asked", "not asked"],
)
def test_a_hand_over_without_a_request_in_a_branch_tells_what_the_branch_was_asked(
    given: dict[str, str], told: str
) -> None:
    """Not what the whole run was asked; a branch that was asked nothing has what its opener's line
    was asked.
    """
    opened = act(
        "invoke_agent", action_input=[{"agent_name": "cid", **given}, {"agent_name": "bob"}]
    )
    cast = Cast(
        lead=[opened, final()], cid=[hand("ann")], ann=[hand("lead", "read")], bob=[final()]
    )
    graph(cast, LAB).invoke(begin(LAB, "The whole book."))
    assert cast.told("ann") == f"cid hands over to you. {told}"

    assert cast.told("bob") == "lead hands over to you. The user said: The whole book."


XML = XMLResponseFormat()


@pytest.mark.req("M119")
@pytest.mark.parametrize("inside", [True, False], ids=["into a branch", "out of a branch"])
def test_a_locked_format_holds_in_branches(inside: bool) -> None:
    """An agent that began in JSON on the line is refused XML in a branch, and vice versa."""
    made = ValidationProcessor(LAB, lock_format=True)
    made.register_processor(XML.create_processor())
    opened = spread("ann", "bob", ann="a", bob="b")
    lead = [hand("ann", "x"), opened, final()] if inside else [opened, hand("ann", "x"), final()]

    as_xml = ok.answer(
        XML.spell({"next_action": "invoke_agent", "action_input": "lead", "request": "xml"})
    )
    cast = Cast(
        lead=lead, ann=[hand("lead", "json"), as_xml, hand("lead", "json again")], bob=[final()]
    )
    compiled = to_langgraph(LAB, agents(cast, LAB), processor=made, policy=ONE_RETRY).compile()
    state = compiled.invoke(begin(LAB, "Go.", max_loop_count=20))
    assert (outcome_of(state)["status"], cast.asked()["ann"]) == ("completed", 3)

    assert state["reply_formats"] == {"lead": "json", "ann": "json", "bob": "json"}


def test_retry_goes_on_in_a_branch_of_the_opener_s_own() -> None:
    """An agent that opened a branch for itself and fails in it is asked again there: a retry is no
    hand-over.
    """
    topology = Topology.of({"a": ["a", "b", "User"], "b": ["a"]}, entry="a")
    both = act(
        "invoke_agent",
        action_input=[{"agent_name": "a", "request": "1"}, {"agent_name": "b", "request": "2"}],
    )
    cast = Cast(
        a=[both, faults.rate_limited(), final("in the branch"), final("end")], b=[hand("a", "b")]
    )
    compiled = graph(cast, topology, saver=InMemorySaver())

    in_turn = CONFIG | {"max_concurrency": 1}
    compiled.invoke(begin(topology, "Go."), in_turn)
    state = compiled.invoke(Command(resume="retry"), in_turn)
    assert [one["content"] for one in outcomes_of(state).values()] == ["in the branch", "b"]

    assert (outcome_of(state)["content"], cast.asked()) == ("end", {"a": 4, "b": 1})


def test_every_field_is_set_on_any_thread() -> None:
    """Every channel that a first run may leave behind is a field of the next run's input."""
    used: Any = graph(Cast(lead=[final()]), saver=InMemorySaver()).invoke(
        begin(TEAM, "Go.", max_loop_count=3), CONFIG
    )
    assert set(used) <= set(begin(TEAM, "Go."))
    assert begin(TEAM, "Go.")["next_agent"] == node_of("lead")
