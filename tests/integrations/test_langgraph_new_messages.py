"""What a graph is given while its thread waits, or instead of what ``begin`` returns.

Nothing that ran is lost: its results are kept, or the message is refused before anything changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")

from langchain_core.messages import AIMessage, HumanMessage, HumanMessageChunk, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph

import strictreply as sr
from strictreply.coordination import StateError, Topology, create_initial_state
from strictreply.integrations.langgraph import approvals_in
from strictreply.testing import ok
from support.integrations.langgraph_desk import Desk, results, values
from support.integrations.langgraph_runs import (
    CONFIG,
    LAB,
    TEAM,
    Cast,
    Command,
    InMemorySaver,
    agents,
    begin,
    final,
    graph,
    hand,
    outcome_of,
    spread,
    to_langgraph,
)


def refused(raised: pytest.ExceptionInfo[StateError]) -> list[tuple[str, str]]:
    """Return the codes and places of a StateError."""
    return [(issue.code, issue.path) for issue in raised.value.issues]


def test_a_message_on_a_waiting_thread_keeps_what_ran(desk: Desk) -> None:
    """The calls that ran have their results, those that did not are answered as abandoned."""
    calls = [
        ok.call(desk.look, item="map"),
        ok.call(desk.look, item="key"),
        ok.call(desk.pay, order=7),
        ok.call(desk.pay, order=8),
    ]
    cast = Cast(lead=[ok.calls(*calls), final("new")])
    compiled = desk.graph(cast, InMemorySaver())
    desk.go(compiled, begin(TEAM, "First."))

    before = compiled.get_state(CONFIG).values
    state = desk.go(compiled, begin(TEAM, "Never mind.", state=before))
    assert (outcome_of(state)["content"], values(state)) == ("new", [])
    assert desk.ran == ["look map", "look key"]

    looked, found, first, second = results(cast)
    assert (looked, found) == ("map is there", "key is there")
    assert "Abandoned" in first
    assert "Abandoned" in second
    asked = cast.models["lead"].requests[-1].messages
    assert [turn["role"] for turn in asked[1:]] == ["user", "assistant", *["tool"] * 4, "user"]
    assert asked[-1]["content"] == "Never mind."


def test_an_interrupt_of_a_tool_is_left_in_the_same_way(desk: Desk) -> None:
    """The call that asked a person itself did not run to its end: it is abandoned."""
    calls = [ok.call(desk.look, item="map"), ok.call(desk.book, hotel="Ritz")]
    cast = Cast(lead=[ok.calls(*calls), final("new")])
    compiled = desk.graph(cast, InMemorySaver())
    before = desk.go(compiled, begin(TEAM, "First."))
    assert values(before) == ["book Ritz?"]

    desk.go(compiled, begin(TEAM, "Never mind.", state=before))
    looked, booked = results(cast)
    assert (looked, "Abandoned" in booked, desk.ran) == ("map is there", True, ["look map"])


def test_the_results_of_another_agent_are_told_to_the_one_that_goes_on(desk: Desk) -> None:
    """They stay in the thread of the agent that called, and the agent that is asked hears them."""
    calls = [ok.call(desk.look, item="map"), ok.call(desk.pay, order=7)]
    cast = Cast(lead=[hand("reader", "look"), final("new")], reader=[ok.calls(*calls)])
    compiled = desk.graph(cast, InMemorySaver())
    before = desk.go(compiled, begin(TEAM, "First."))

    state = desk.go(compiled, begin(TEAM, "Never mind.", state=before))
    told = cast.told("lead")
    assert told.endswith("Never mind.")
    assert "map is there" in told
    assert "Abandoned" in told
    assert [turn["role"] for turn in state["threads"]["reader"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
    ]


@pytest.mark.parametrize("hand_over", ["request", "history"])
def test_results_are_told_once_where_the_history_is(hand_over: Any) -> None:
    """An agent with a history reads them there, and not a second time."""
    desk = Desk(awaited=False)
    calls = [ok.call(desk.look, item="map"), ok.call(desk.pay, order=7)]
    cast = Cast(lead=[hand("reader", "look"), final("new")], reader=[ok.calls(*calls)])
    team = agents(cast, tools=[desk.look, desk.pay])
    compiled = to_langgraph(TEAM, team, hand_over=hand_over).compile(checkpointer=InMemorySaver())
    before = compiled.invoke(begin(TEAM, "First."), CONFIG)

    compiled.invoke(begin(TEAM, "Never mind.", state=before), CONFIG)
    assert cast.told("lead").count("map is there") == 1


@pytest.mark.parametrize("earlier", [False, True], ids=["same reply", "reply before"])
def test_a_new_conversation_over_one_that_waits_is_refused(desk: Desk, *, earlier: bool) -> None:
    """Where it would drop results, StateError says what to do, and the call goes on waiting."""
    look = ok.call(desk.look, item="map")
    pay = ok.call(desk.pay, order=7)
    script = [look, pay] if earlier else [ok.calls(look, pay)]
    cast = Cast(lead=[*script, final()])
    compiled = desk.graph(cast, InMemorySaver())
    asked = approvals_in(desk.go(compiled, begin(TEAM, "First.")))

    with pytest.raises(StateError, match=r"begin\(…, state=") as raised:
        desk.go(compiled, begin(TEAM, "Never mind."))
    assert refused(raised) == [("state.run_waits", "/calling")]
    assert approvals_in(compiled.get_state(CONFIG)) == asked

    state = desk.go(compiled, Command(resume="approve"))
    assert (desk.ran, outcome_of(state)["status"]) == (["look map", "pay 7"], "completed")


def test_a_state_of_before_does_not_go_over_a_run_that_waits(desk: Desk) -> None:
    """The state of an earlier run knows nothing of what ran since."""
    calls = [ok.call(desk.look, item="map"), ok.call(desk.pay, order=7)]
    cast = Cast(lead=[final("one"), ok.calls(*calls)])
    compiled = desk.graph(cast, InMemorySaver())
    old = desk.go(compiled, begin(TEAM, "First."))
    desk.go(compiled, begin(TEAM, "Second.", state=old))

    with pytest.raises(StateError) as raised:
        desk.go(compiled, begin(TEAM, "Third.", state=old))
    assert refused(raised) == [("state.run_waits", "/calling")]


def test_branches_that_wait_are_not_dropped(desk: Desk) -> None:
    """A new conversation, and a message, are refused while branches wait, which go on then."""
    cast = Cast(
        lead=[spread("ann", "cid", ann="a", cid="c"), final()],
        ann=[ok.calls(ok.call(desk.look, item="a"), ok.call(desk.pay, order=1)), hand("lead", "a")],
        cid=[ok.call(desk.look, item="c"), hand("lead", "c is done")],
    )
    compiled = desk.graph(cast, InMemorySaver(), LAB)
    state = desk.go(compiled, begin(LAB, "Go."))
    assert len(approvals_in(state)) == 1

    with pytest.raises(StateError) as raised:
        desk.go(compiled, begin(LAB, "Never mind."))
    assert refused(raised) == [("state.run_waits", "/spawned")]
    with pytest.raises(sr.ContractError, match="inside parallel branches"):
        desk.go(compiled, {"messages": [{"role": "user", "content": "Never mind."}]})

    state = desk.go(compiled, Command(resume="approve"))
    assert outcome_of(state)["status"] == "completed"
    assert sorted(desk.ran) == ["look a", "look c", "pay 1"]


def streamed(compiled: Any, given: Any) -> None:
    """Read a stream to its end."""
    list(compiled.stream(input=given, config=CONFIG))


def astreamed(compiled: Any, given: Any) -> None:
    """Read an async stream to its end."""

    async def read() -> None:
        async for _ in compiled.astream(given, CONFIG):
            pass

    asyncio.run(read())


def batched(compiled: Any, given: Any) -> None:
    """Run a batch of one."""
    compiled.with_config(CONFIG).batch([given])


@pytest.mark.parametrize("way", [streamed, astreamed, batched])
def test_every_way_into_a_graph_is_guarded(way: Callable[[Any, Any], None]) -> None:
    """A stream and a batch refuse what ``invoke`` refuses."""
    desk = Desk(awaited=way is astreamed)
    calls = [ok.call(desk.look, item="map"), ok.call(desk.pay, order=7)]
    compiled = desk.graph(Cast(lead=[ok.calls(*calls)]), InMemorySaver())
    desk.go(compiled, begin(TEAM, "First."))

    with pytest.raises(StateError) as raised:
        way(compiled, begin(TEAM, "Never mind."))
    assert refused(raised) == [("state.run_waits", "/calling")]


MESSAGES = {
    "dict": [{"role": "user", "content": "Hello."}],
    "object": [HumanMessage("Hello.")],
    "pair": [("user", "Hello.")],
    "text": ["Hello."],
    "alone": "Hello.",
    "parts": [{"role": "user", "content": [{"type": "text", "text": "Hello."}]}],
    "chunk": [HumanMessageChunk(content="Hello.")],
}


@pytest.mark.parametrize("given", MESSAGES.values(), ids=MESSAGES)
def test_messages_of_the_user_begin_a_run(desk: Desk, given: Any) -> None:
    """``invoke({"messages": […]})`` is what ``begin`` makes of the user's words."""
    cast = Cast(lead=[final("one"), final("two")])
    compiled = desk.graph(cast, InMemorySaver())
    state = desk.go(compiled, {"messages": given})
    assert (outcome_of(state)["content"], cast.told("lead")) == ("one", "Hello.")

    state = desk.go(compiled, {"messages": [("user", "And"), ("user", "again.")]})
    asked = cast.models["lead"].requests[-1].messages
    assert outcome_of(state)["content"] == "two"
    assert [turn["content"] for turn in asked if turn["role"] == "user"] == [
        "Hello.",
        "And\n\nagain.",
    ]


def test_a_message_of_that_form_keeps_what_ran(desk: Desk) -> None:
    """It goes on with the conversation of its thread, as ``begin(…, state=…)`` does."""
    calls = [ok.call(desk.look, item="map"), ok.call(desk.pay, order=7)]
    cast = Cast(lead=[ok.calls(*calls), final("new")])
    compiled = desk.graph(cast, InMemorySaver())
    desk.go(compiled, {"messages": [("user", "First.")]})
    desk.go(compiled, {"messages": [("user", "Never mind.")]})
    looked, paid = results(cast)
    assert (looked, "Abandoned" in paid, desk.ran) == ("map is there", True, ["look map"])


WRONG = {
    "none": [],
    "assistant": [("user", "Hi."), AIMessage("Hello.")],
    "tool": [("user", "Hi."), ToolMessage("1", tool_call_id="c"), ("user", "And?")],
    "system": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi."}],
    "image": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
    "caption": [("user", [{"type": "image_url", "image_url": {"url": "x"}, "text": "A map."}])],
    "call": [{"role": "assistant", "content": "", "function_call": {"name": "f"}}, ("user", "Hi.")],
    "roles": [{"role": ["user"], "content": "Hi."}],
    "tuple": (HumanMessage("Hi."), HumanMessage("And?")),
    "number": 7,
}


@pytest.mark.parametrize("given", WRONG.values(), ids=WRONG)
def test_other_messages_are_answered_with_begin(given: Any) -> None:
    """A StateError names what makes the input of a run, and nobody is asked."""
    cast = Cast(lead=[])
    with pytest.raises(StateError, match=r"begin\(") as raised:
        graph(cast).invoke({"messages": given})
    assert refused(raised) == [("state.wrong_type", "/messages")]


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, "/messages"),
        ({"question": "Why?"}, "/messages"),
        ({"input": "Hi."}, "/messages"),
        (create_initial_state("Hi."), "/branch"),
    ],
    ids=["empty", "question", "input", "state"],
)
def test_an_input_without_a_run_is_answered_with_begin(given: Any, missing: str) -> None:
    """So is any other input that holds no run, and the thread stays free for one."""
    compiled = graph(Cast(lead=[final("one")]), saver=InMemorySaver())
    with pytest.raises(StateError, match=r"begin\(") as raised:
        compiled.invoke(given, CONFIG)
    assert refused(raised) == [("state.missing_field", missing)]
    state = compiled.invoke({"messages": "Hi."}, CONFIG)
    assert outcome_of(state)["content"] == "one"


CALLS: dict[str, Any] = {
    "text": "x",
    "agent": {"agent": "nobody"},
    "turn": {"turn": {}},
    "call": {"turn": {"role": "assistant", "tool_calls": [{"id": 1}]}},
    "done": {"done": [{}]},
    "other": {
        "done": [{"tool_call_id": "z", "name": "look", "execution_ms": 1, "result_json": "1"}]
    },
}


@pytest.mark.parametrize("broken", CALLS.values(), ids=CALLS)
def test_calls_that_no_graph_has_left_are_refused(broken: Any) -> None:
    """A stored state is checked before a conversation goes on from it."""
    desk = Desk(awaited=False)
    calls = [ok.call(desk.look, item="map"), ok.call(desk.pay, order=7)]
    before = desk.graph(Cast(lead=[ok.calls(*calls)]), None).invoke(begin(TEAM, "First."))
    calling = broken if isinstance(broken, str) else before["calling"] | broken
    with pytest.raises(StateError) as raised:
        begin(TEAM, "Second.", state={**before, "calling": calling})
    assert all(path.startswith("/calling") for _, path in refused(raised))


def test_several_entries_have_to_be_chosen_from() -> None:
    """No entry is guessed."""
    topology = Topology.of({"a": ["b", "User"], "b": ["a", "User"]}, entry=["a", "b"])
    with pytest.raises(sr.ContractError, match="entry="):
        graph(Cast(a=[], b=[]), topology).invoke({"messages": [("user", "Hi.")]})


def test_a_conversation_is_not_given_to_a_thread_that_has_one() -> None:
    """It could go on with either: StateError says so, and nothing changes."""
    compiled = graph(Cast(lead=[final("one")]), saver=InMemorySaver())
    state = compiled.invoke({"messages": [("user", "Hi.")]}, CONFIG)
    with pytest.raises(StateError, match="takes only the user's"):
        compiled.invoke({"messages": [("user", "Hi."), ("ai", "one"), ("user", "And?")]}, CONFIG)
    assert compiled.get_state(CONFIG).values["messages"] == state["messages"]


@pytest.mark.parametrize("hand_over", ["request", "history"])
def test_a_team_is_a_node_of_a_graph_over_messages(desk: Desk, hand_over: Any) -> None:
    """It is told the conversation so far, also when a question was answered in between, and adds
    its answer and nothing else.
    """
    look = ok.call(desk.look, item="a")
    cast = Cast(
        lead=[ok.calls(look, ok.call(desk.pay, order=1)), final("paid"), hand("writer", "Bye.")],
        writer=[final("goodbye")],
    )
    team = agents(cast, awaited=desk.awaited, tools=[desk.look, desk.pay])
    outer: Any = StateGraph(MessagesState)
    outer.add_node("team", to_langgraph(TEAM, team, hand_over=hand_over).compile())
    outer.add_edge(START, "team")
    compiled = outer.compile(checkpointer=InMemorySaver())

    state = desk.go(compiled, {"messages": [("user", "Pay.")]})
    assert len(approvals_in(state)) == 1
    desk.go(compiled, Command(resume="approve"))
    assert desk.ran == ["look a", "pay 1"]

    state = desk.go(compiled, {"messages": [("user", "Thanks.")]})
    said = [(message.type, message.content) for message in state["messages"]]
    assert said == [("human", "Pay."), ("ai", "paid"), ("human", "Thanks."), ("ai", "goodbye")]
    assert "user: Pay.\nassistant: paid\n\nThanks." in cast.told("lead")
    assert ("assistant: paid" in cast.told("writer")) == (hand_over == "history")
