"""What a tool tells LangGraph, and what a person tells about a call, in a graph.

Interrupts pass, approvals are interrupts, and no call runs twice.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import interrupt

import strictreply as sr
from strictreply.coordination import StateError, ValidationProcessor
from strictreply.core import JSONObject
from strictreply.integrations.langgraph import ChatAgent, approvals_in
from strictreply.testing import ScriptedModel, ok
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
    hand,
    outcome_of,
    outcomes_of,
    spread,
    to_langgraph,
)

Saver = Callable[[], AbstractContextManager[Any]]


def test_a1_an_interrupt_in_a_tool_is_the_graphs(desk: Desk) -> None:
    """A tool may ask a person as LangGraph documents it, and is given the answer."""
    cast = Cast(lead=[ok.call(desk.book, hotel="Ritz"), final()])
    graph = desk.graph(cast, InMemorySaver())

    assert values(desk.go(graph, begin(TEAM, "Go."))) == ["book Ritz?"]
    assert desk.ran == []

    state = desk.go(graph, Command(resume="yes"))
    assert (results(cast), desk.ran) == (["Ritz: yes"], ["book Ritz"])
    assert outcome_of(state)["status"] == "completed"


def test_a1_a_call_that_waits_lets_no_other_call_run_twice(desk: Desk) -> None:
    """Of several calls of one reply each is run once, whichever of them a person is asked about."""
    calls = [
        ok.call(desk.look, item="map"),
        ok.call(desk.book, hotel="Ritz"),
        ok.call(desk.look, item="key"),
        ok.call(desk.book, hotel="Savoy"),
    ]
    cast = Cast(lead=[ok.calls(*calls), final()])
    graph = desk.graph(cast, InMemorySaver())

    assert values(desk.go(graph, begin(TEAM, "Go."))) == ["book Ritz?"]
    assert values(desk.go(graph, Command(resume="yes"))) == ["book Savoy?"]
    state = desk.go(graph, Command(resume="no"))

    assert desk.ran == ["look map", "book Ritz", "look key", "book Savoy"]
    assert results(cast) == ["map is there", "Ritz: yes", "key is there", "Savoy: no"]
    assert cast.asked() == {"lead": 2}
    assert (outcome_of(state)["status"], state["loop_count"]) == ("completed", 3)


def memory(_: Path) -> Any:
    """Keep checkpoints in memory."""
    return nullcontext(InMemorySaver())


def sqlite(directory: Path) -> Any:
    """Keep checkpoints in a file."""
    return SqliteSaver.from_conn_string(str(directory / "runs.sqlite"))


DECISIONS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "approve": (lambda _: "approve", "paid 7"),
    "True": (lambda _: True, "paid 7"),
    "approved": (lambda _: {"approved": True}, "paid 7"),
    "of the call": (lambda call: call.approved().to_dict(), "paid 7"),
    "deny": (lambda _: "deny", "the call was not allowed"),
    "False": (lambda _: False, "the call was not allowed"),
    "reason": (lambda _: {"approved": False, "reason": "too dear"}, "too dear"),
    "denied call": (lambda call: call.denied("too dear").to_dict(), "too dear"),
}
"""Answers to an approval, and what the model is told of them."""


@pytest.mark.parametrize("kept", [memory, sqlite])
@pytest.mark.parametrize(("decide", "told"), DECISIONS.values(), ids=DECISIONS)
def test_a1_a_call_that_needs_approval_waits_for_it(
    tmp_path: Path, decide: Callable[[Any], Any], told: str, kept: Callable[[Path], Any]
) -> None:
    """The interrupt tells the tool, its arguments and the call; the answer runs the call, or tells
    the model why not.
    """
    desk = Desk(awaited=False)
    cast = Cast(lead=[ok.call(desk.pay, order=7), final()])
    with kept(tmp_path) as saver:
        graph = desk.graph(cast, saver)
        state = desk.go(graph, begin(TEAM, "Go."))
        (asked,) = values(state)
        assert (asked["kind"], asked["name"], asked["arguments"]) == (
            "tool_approval",
            "pay",
            {"order": 7},
        )
        assert desk.ran == []

        (call,) = approvals_in(state)
        assert call.tool_call_id == asked["tool_call_id"]
        assert approvals_in(graph.get_state(CONFIG)) == (call,)
        state = desk.go(graph, Command(resume=decide(call)))

    (result,) = results(cast)
    assert told in result
    assert desk.ran == (["pay 7"] if told == "paid 7" else [])
    assert outcome_of(state)["status"] == "completed"
    assert cast.asked() == {"lead": 2}


def test_a1_each_call_of_a_reply_is_decided_on_its_own(desk: Desk) -> None:
    """Calls that need approval wait one after the other, beside others, and nothing runs twice."""
    calls = [
        ok.call(desk.look, item="bill"),
        ok.call(desk.pay, order=1),
        ok.call(desk.book, hotel="Ritz"),
        ok.call(desk.pay, order=2),
    ]
    cast = Cast(lead=[ok.calls(*calls), final()])
    graph = desk.graph(cast, InMemorySaver())

    state = desk.go(graph, begin(TEAM, "Go."))
    asked = []
    for answer in ("approve", "fine", "deny"):
        (value,) = values(state)
        asked.append(value if isinstance(value, str) else value["arguments"])
        state = desk.go(graph, Command(resume=answer))

    assert asked == [{"order": 1}, "book Ritz?", {"order": 2}]
    assert desk.ran == ["look bill", "pay 1", "book Ritz"]
    assert results(cast)[:3] == ["bill is there", "paid 1", "Ritz: fine"]
    assert outcome_of(state)["status"] == "completed"


@pytest.mark.parametrize(
    "answer",
    [
        "yes",
        "do not deny",
        7,
        {"approved": "yes"},
        {"approved": True, "order": 8},
        {"tool_call_id": "other"},
        [True],
    ],
)
def test_a1_an_answer_that_decides_nothing_is_refused(desk: Desk, answer: Any) -> None:
    """It raises ContractError, the call goes on waiting, and the next answer decides."""
    cast = Cast(lead=[ok.call(desk.pay, order=7), final()])
    graph = desk.graph(cast, InMemorySaver())
    desk.go(graph, begin(TEAM, "Go."))

    with pytest.raises(sr.ContractError, match="decision"):
        desk.go(graph, Command(resume=answer))
    assert desk.ran == []

    desk.go(graph, Command(resume="approve"))
    assert desk.ran == ["pay 7"]


def test_a1_a_decision_is_on_one_call_and_its_arguments(desk: Desk) -> None:
    """A decision that was made on another call, or in another run, approves nothing."""
    cast = Cast(lead=[ok.calls(ok.call(desk.pay, order=1), ok.call(desk.pay, order=2)), final()])
    graph = desk.graph(cast, InMemorySaver())
    (first,) = approvals_in(desk.go(graph, begin(TEAM, "Go.")))
    (second,) = approvals_in(desk.go(graph, Command(resume=first.denied().to_dict())))
    assert second.arguments_json == '{"order":2}'.replace(":", ": ")

    with pytest.raises(sr.ContractError, match="another call"):
        desk.go(graph, Command(resume=first.approved().to_dict()))
    desk.go(graph, Command(resume=second.approved().to_dict()))
    assert desk.ran == ["pay 2"]


def test_a1_branches_wait_each_for_their_own_approval(desk: Desk) -> None:
    """Calls of parallel branches are decided by the ids of their interrupts, at once."""
    cast = Cast(
        lead=[spread("ann", "cid", ann="a", cid="c"), final()],
        ann=[ok.call(desk.pay, order=1), hand("lead", "a is done")],
        cid=[ok.call(desk.pay, order=2), hand("lead", "c is done")],
    )
    graph = desk.graph(cast, InMemorySaver(), LAB)
    state = desk.go(graph, begin(LAB, "Go."))
    answers = {one.id: one.value["arguments"] == {"order": 1} for one in state["__interrupt__"]}
    assert sorted(answers.values()) == [False, True]

    state = desk.go(graph, Command(resume=answers))
    assert desk.ran == ["pay 1"]
    assert outcome_of(state)["status"] == "completed"
    assert {one["status"] for one in outcomes_of(state).values()} == {"completed"}


def test_a1_a_number_that_no_checkpoint_holds_waits_as_text(desk: Desk) -> None:
    """Arguments beyond 64 bits are told as JSON text alone."""
    cast = Cast(lead=[ok.call(desk.pay, order=10**30), final()])
    graph = desk.graph(cast, InMemorySaver())
    (asked,) = values(desk.go(graph, begin(TEAM, "Go.")))
    assert (asked["arguments"], str(10**30) in asked["arguments_json"]) == (None, True)

    desk.go(graph, Command(resume="approve"))
    assert desk.ran == [f"pay {10**30}"]


def test_m118_results_that_are_not_of_the_reply_are_refused(desk: Desk) -> None:
    """A stored state with results of other calls raises StateError, and nothing runs."""
    cast = Cast(lead=[ok.calls(ok.call(desk.look, item="a"), ok.call(desk.pay, order=2)), final()])
    graph = desk.graph(cast, InMemorySaver())
    desk.go(graph, begin(TEAM, "Go."))
    calling: JSONObject = graph.get_state(CONFIG).values["calling"]
    (kept,) = calling["done"]
    changed = {**calling, "done": [{**kept, "tool_call_id": "other"}]}
    graph.update_state(CONFIG, {"calling": changed}, as_node="tools")

    with pytest.raises(StateError, match="/calling/done"):
        desk.go(graph, None)
    assert desk.ran == ["look a"]


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
def test_a3_the_log_says_who_is_told_of_a_tool_that_failed(
    caplog: pytest.LogCaptureFixture, *, awaited: bool
) -> None:
    """In a graph a person is asked how to go on, but the model reads a ToolError."""

    @sr.tool
    def fail(what: str) -> str:
        """Fail."""
        raise sr.ToolError(what) if what == "told" else RuntimeError(what)

    cast = Cast(lead=[ok.call(fail, what="told"), ok.call(fail, what="broken")])
    team = agents(cast, tools=[fail], awaited=awaited)
    compiled = to_langgraph(TEAM, team).compile(checkpointer=InMemorySaver())
    if awaited:
        asyncio.run(compiled.ainvoke(begin(TEAM, "Go."), CONFIG))
    else:
        compiled.invoke(begin(TEAM, "Go."), CONFIG)

    assert [record.getMessage() for record in caplog.records] == [
        "tool 'fail' raised ToolError; the model gets its message",
        "tool 'fail' raised RuntimeError; the user is asked how to go on",
    ]


def test_a1_a_check_of_actions_may_ask_a_person() -> None:
    """``interrupt`` in a check of an action interrupts the graph."""

    def ask(action: dict[str, Any], permitted: Any) -> None:
        """Ask."""
        if interrupt(f"say {action['content']} as {permitted.agent}?") != "yes":
            raise ValueError("a person refused this answer")

    cast = Cast(lead=[final("a")] * 3)
    processor = ValidationProcessor(TEAM)
    processor.register_action_validator("final_response", ask)
    built = to_langgraph(TEAM, agents(cast), processor=processor)
    graph = built.compile(checkpointer=InMemorySaver())
    assert values(graph.invoke(begin(TEAM, "Go."), CONFIG)) == ["say a as lead?"]
    # a reply is judged in the client's loop, and by the graph
    assert values(graph.invoke(Command(resume="yes"), CONFIG)) == ["say a as lead?"]
    assert outcome_of(graph.invoke(Command(resume="yes"), CONFIG))["content"] == "a"


@pytest.mark.parametrize("kept", [memory, sqlite])
def test_a1_a_decision_may_be_given_as_it_is(tmp_path: Path, kept: Callable[[Path], Any]) -> None:
    """A Decision need not be written as JSON."""
    desk = Desk(awaited=False)
    cast = Cast(lead=[ok.call(desk.pay, order=7), final()])
    with kept(tmp_path) as saver:
        graph = desk.graph(cast, saver)
        (call,) = approvals_in(desk.go(graph, begin(TEAM, "Go.")))
        desk.go(graph, Command(resume=call.approved()))
    assert desk.ran == ["pay 7"]


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function, as most decorators are written: the wrapper itself is not async."""

    @functools.wraps(function)
    def inner(*args: Any, **named: Any) -> Any:
        return function(*args, **named)

    return inner


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a3_an_async_tool_behind_a_decorator_is_awaited_in_a_graph() -> None:
    """``ainvoke`` awaits it, interrupts and all; ``invoke`` says that it cannot."""

    @sr.tool
    @logged
    async def find(number: int) -> str:
        """Find something."""
        return f"{interrupt('sure?')} {number}"

    script = [ok.call(find, number=1), final()]
    cast = Cast(lead=script)
    team = agents(cast, tools=[find], awaited=True)
    graph = to_langgraph(TEAM, team).compile(checkpointer=InMemorySaver())
    assert values(asyncio.run(graph.ainvoke(begin(TEAM, "Go."), CONFIG))) == ["sure?"]
    asyncio.run(graph.ainvoke(Command(resume="yes"), CONFIG))
    assert results(cast) == ["yes 1"]

    sync = to_langgraph(TEAM, agents(Cast(lead=script), tools=[find])).compile()
    with pytest.raises(sr.ContractError, match=r"arun\(\)"):
        sync.invoke(begin(TEAM, "Go."))


@pytest.mark.parametrize("is_continued", [False, True], ids=["new", "with the state"])
def test_a_new_message_abandons_the_calls_that_wait(desk: Desk, *, is_continued: bool) -> None:
    """The calls are not run, and no call without a result is in the next request."""
    cast = Cast(lead=[ok.call(desk.pay, order=7), final("new")])
    graph = desk.graph(cast, InMemorySaver())
    assert len(approvals_in(desk.go(graph, begin(TEAM, "First.")))) == 1

    before = graph.get_state(CONFIG).values if is_continued else None
    state = desk.go(graph, begin(TEAM, "Never mind.", state=before))
    assert (outcome_of(state)["content"], values(state), desk.ran) == ("new", [], [])

    asked = cast.models["lead"].requests[-1].messages
    assert asked[-1]["content"] == "Never mind."
    assert {turn["role"] for turn in asked} == {"system", "user"}


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ({"prompt": "Search."}, "instruction"),
        ({"model": "m"}, "request={"),
        ({"llm": None}, "client, which wrap() returns"),
        ({"instrucion": "Lead."}, "instruction"),
    ],
    ids=["prompt", "model", "llm", "misspelt"],
)
def test_a_keyword_of_another_library_for_an_agent_is_answered_with_ours(
    given: dict[str, Any], right: str
) -> None:
    """The message names what to write instead."""
    client = sr.wrap(ScriptedModel().client())
    with pytest.raises(TypeError) as raised:
        ChatAgent(name="lead", client=client, request={"model": "m"}, **given)

    assert right in str(raised.value)
