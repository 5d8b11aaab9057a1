"""A supervisor and a swarm.

The page runs, the active agent is kept, and what was said is told once.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import strictreply as sr
from strictreply.coordination import DeclarationError, Topology
from strictreply.integrations.langgraph import active_agent
from strictreply.testing import LoopbackServer, ScriptedModel, ok
from support.integrations.langgraph_runs import (
    CONFIG,
    LAB,
    Cast,
    Command,
    InMemorySaver,
    act,
    add,
    agents,
    begin,
    final,
    hand,
    outcome_of,
    spread,
    to_langgraph,
)
from support.pages import Page

PAGE = Page.named("supervisor-and-swarm.md")
DESK = Topology.supervisor("chief", ["facts", "sums"])
PAIR = Topology.swarm(["Alice", "Bob"], entry="Alice")


@sr.tool
def search(query: str) -> str:
    """Search."""
    return query


def test_a2_the_page_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both programs, run in order, end well and print what the page shows."""
    model = ScriptedModel(
        hand("researcher", "employees of Meta and Apple"),
        ok.call(search, query="employees"),
        hand("supervisor", "Meta 67,317; Apple 164,000"),
        hand("mathematician", "67,317 + 164,000"),
        ok.call(add, a=67317, b=164000),
        hand("supervisor", "231,317"),
        final("231,317 people."),
        hand("Bob"),
        final("Ahoy! What be ye needin'?"),
        hand("Alice", "5 + 7"),
        ok.call(add, a=5, b=7),
        final("5 + 7 is 12."),
        final("You're welcome."),
    )
    with LoopbackServer(model) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        PAGE.run()

    assert capsys.readouterr().out == "".join(PAGE.shown)
    model.assert_spent()


def test_a2_a_supervisor_leads_and_a_swarm_has_no_lead() -> None:
    """The edges are those of the two patterns, and a lead among its workers is refused."""
    assert DESK.entries == ("chief",)
    assert [DESK.allowed_targets(one) for one in DESK.agents] == [
        ("facts", "sums"),
        ("chief",),
        ("chief",),
    ]
    assert [DESK.may_finish(one) for one in DESK.agents] == [True, False, False]

    assert PAIR.entries == ("Alice",)
    assert [PAIR.allowed_targets(one) for one in PAIR.agents] == [("Bob",), ("Alice",)]
    assert all(map(PAIR.may_finish, PAIR.agents))

    with pytest.raises(DeclarationError):
        Topology.swarm(["Alice", "Alice"], entry="Carol")


def said(cast: Cast, agent: str, number: int = -1) -> str:
    """Return the last message of one request of an agent."""
    return cast.told(agent, number)


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
def test_a2_an_agent_is_told_the_history_once(*, awaited: bool) -> None:
    """At each hand-over it is told what others and their tools said since it was told last."""
    cast = Cast(
        chief=[hand("facts", "find it"), hand("sums", "add it"), final("3")],
        facts=[ok.call(add, a=1, b=1), hand("chief", "it is 1 and 2")],
        sums=[hand("chief", "3")],
    )
    team = agents(cast, DESK, tools=[add], awaited=awaited)
    built = to_langgraph(DESK, team, hand_over="history").compile()
    if awaited:
        state = asyncio.run(built.ainvoke(begin(DESK, "Sum it.")))
    else:
        state = built.invoke(begin(DESK, "Sum it."))

    assert outcome_of(state)["content"] == "3"
    assert said(cast, "facts", 0) == (
        "The conversation so far:\nuser: Sum it.\n\nFrom chief: find it"
    )
    assert said(cast, "chief", 1) == (
        "The conversation so far:\nfacts: called add with "
        '{"a": 1, "b": 1}: 2\n\nFrom facts: it is 1 and 2'
    )
    assert said(cast, "sums", 0) == (
        "The conversation so far:\nuser: Sum it.\nchief: find it\nfacts: called add with "
        '{"a": 1, "b": 1}: 2\nfacts: it is 1 and 2\n\nFrom chief: add it'
    )
    assert said(cast, "chief", 2) == "From sums: 3"


def test_a2_by_default_an_agent_is_told_the_request_alone() -> None:
    """Without ``hand_over`` nothing is kept of what others said."""
    cast = Cast(chief=[hand("facts", "find it"), final("3")], facts=[hand("chief", "1")])
    state = to_langgraph(DESK, agents(cast, DESK)).compile().invoke(begin(DESK, "Sum it."))
    assert said(cast, "facts") == "From chief: find it"
    assert state["history"] is None


def test_a2_a_branch_is_told_the_history_too() -> None:
    """Parallel branches begin with all that was said before them."""
    cast = Cast(
        lead=[spread("ann", "bob", ann="a", bob="b"), final()],
        ann=[hand("lead", "a is done")],
        bob=[final("b")],
    )
    team = agents(cast, LAB)
    to_langgraph(LAB, team, hand_over="history").compile().invoke(begin(LAB, "Go."))
    for agent in ("ann", "bob"):
        assert said(cast, agent) == (
            f"The conversation so far:\nuser: Go.\n\nFrom lead: {agent[0]}"
        )


def test_a2_the_agent_that_answered_answers_the_next_message() -> None:
    """A turn of the user goes to the active agent; without ``keep_active`` to the entry."""
    cast = Cast(
        Alice=[hand("Bob"), final("12"), final("again Alice")],
        Bob=[final("Ahoy!"), hand("Alice", "5 + 7")],
    )
    graph = to_langgraph(PAIR, agents(cast, PAIR), hand_over="history").compile(
        checkpointer=InMemorySaver()
    )

    def say(text: str, **how: Any) -> str:
        before = graph.get_state(CONFIG).values
        state = graph.invoke(begin(PAIR, text, state=before, **how), CONFIG)
        told = outcome_of(state)
        assert active_agent(PAIR, state) == told["agent"]
        return f"{told['agent']}: {told['content']}"

    assert say("Bob, please.", keep_active=True) == "Bob: Ahoy!"
    assert say("5 + 7?", keep_active=True) == "Alice: 12"
    assert say("And now?") == "Alice: again Alice"
    assert said(cast, "Bob", 1) == "5 + 7?"
    assert said(cast, "Alice", 1) == (
        "The conversation so far:\nBob: Ahoy!\nuser: 5 + 7?\n\nFrom Bob: 5 + 7"
    )


def test_a2_an_agent_that_waits_for_the_user_is_active() -> None:
    """A run that asks the user is gone on with by its answer, and stays with who asked."""
    cast = Cast(Alice=[hand("Bob")], Bob=[act("ask_user", question="Sure?"), final("Aye")])
    graph = to_langgraph(PAIR, agents(cast, PAIR)).compile(checkpointer=InMemorySaver())
    state = graph.invoke(begin(PAIR, "Bob, please."), CONFIG)
    assert active_agent(PAIR, state) == "Bob"
    state = graph.invoke(Command(resume="yes"), CONFIG)
    assert active_agent(PAIR, state) == "Bob"
    assert active_agent(DESK, state) is None


def test_a2_another_word_for_a_hand_over_is_refused() -> None:
    """Only the two words say what an agent is told."""
    with pytest.raises(sr.ContractError, match="request, history"):
        to_langgraph(DESK, agents(Cast(chief=[]), DESK), hand_over="everything")  # type: ignore[arg-type]
