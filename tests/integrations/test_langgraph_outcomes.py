"""The outcome of a run that has not ended: it waits for a person, or can be resumed."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")

from langgraph.types import interrupt

import strictreply as sr
from strictreply.integrations.langgraph import approvals_in, node_of
from strictreply.testing import ok
from support.integrations.langgraph_desk import Desk, results
from support.integrations.langgraph_runs import (
    CONFIG,
    LAB,
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
    spread,
    to_langgraph,
)


@sr.tool
def ask(what: str) -> str:
    """Ask a person."""
    return str(interrupt(what))


@sr.tool(needs_approval=True)
def pay(order: int) -> str:
    """Pay an order."""
    return f"paid {order}"


@sr.tool
def fail(what: str) -> str:
    """Fail."""
    raise RuntimeError(what)


def unfinished(agent: str, status: str, reason: str, *, waits: bool = True) -> dict[str, Any]:
    """Return the outcome of a run that has not ended."""
    return {
        "agent": agent,
        "status": status,
        "reason": reason,
        "content": None,
        "error": None,
        "pending_human_input": waits,
    }


@pytest.mark.parametrize(
    ("script", "reason", "answer"),
    [
        (act("ask_user", question="Sure?"), "general", "yes"),
        (ok.call(pay, order=7), "tool_approval", "approve"),
        (ok.call(ask, what="Sure?"), "interrupt", "yes"),
        (ok.call(fail, what="it"), "error", "retry"),
    ],
)
def test_a2_a_run_that_waits_says_so(script: Any, reason: str, answer: str) -> None:
    """What ``invoke`` returned and the snapshot say alike who waits for what, until the answer."""
    cast = Cast(lead=[script, final("done")])
    team = agents(cast, tools=[pay, ask, fail])
    compiled = to_langgraph(TEAM, team).compile(checkpointer=InMemorySaver())
    state = compiled.invoke(begin(TEAM, "Go."), CONFIG)
    expected = unfinished("lead", "waiting", reason)
    assert outcome_of(state) == expected
    assert outcome_of(compiled.get_state(CONFIG)) == expected

    ended = outcome_of(compiled.invoke(Command(resume=answer), CONFIG))
    assert (ended["status"], ended["content"]) == ("completed", "done")
    assert outcome_of(compiled.get_state(CONFIG)) == ended


def test_a2_a_run_whose_branch_waits_says_so() -> None:
    """The agent that opened the branches is told as the one that waits."""
    cast = Cast(
        lead=[spread("ann", "bob", ann="a", bob="b"), final()],
        ann=[act("ask_user", question="Sure?"), hand("lead", "a")],
        bob=[final("b")],
    )
    state = graph(cast, LAB, saver=InMemorySaver()).invoke(begin(LAB, "Go."), CONFIG)
    assert outcome_of(state) == unfinished("lead", "waiting", "general")


def test_a2_a_run_that_was_stopped_between_two_steps_can_be_resumed() -> None:
    """A static interrupt, and a process that died, leave a run that goes on by itself."""
    cast = Cast(lead=[hand("reader", "x"), final("done")], reader=[hand("lead", "y")])
    team = agents(cast)
    compiled = to_langgraph(TEAM, team).compile(
        checkpointer=InMemorySaver(), interrupt_before=[node_of("reader")]
    )
    state = compiled.invoke(begin(TEAM, "Go."), CONFIG)
    expected = unfinished("reader", "resumable", "unfinished", waits=False)
    assert outcome_of(state) == expected
    assert outcome_of(compiled.get_state(CONFIG)) == expected
    assert outcome_of(begin(TEAM, "Go.")) == unfinished(
        "lead", "resumable", "unfinished", waits=False
    )

    assert outcome_of(compiled.invoke(None, CONFIG))["content"] == "done"


def test_a2_a_failure_out_of_a_step_leaves_a_run_that_can_be_resumed() -> None:
    """What a listener raises ends ``invoke``, and the stored run says that it can go on."""
    seen: list[int] = []

    class Stop(BaseException):
        """The end of a process."""

    @sr.tool
    def stop(number: int) -> str:
        """Stop once."""
        seen.append(number)
        if len(seen) == 1:
            raise Stop
        return "went on"

    cast = Cast(lead=[ok.call(stop, number=1), final("done")])
    compiled = to_langgraph(TEAM, agents(cast, tools=[stop])).compile(checkpointer=InMemorySaver())
    with pytest.raises(Stop):
        compiled.invoke(begin(TEAM, "Go."), CONFIG)

    stored = compiled.get_state(CONFIG)
    assert outcome_of(stored) == unfinished("lead", "resumable", "unfinished", waits=False)
    assert outcome_of(compiled.invoke(None, CONFIG))["content"] == "done"


def test_a2_a_run_that_a_bound_ended_failed() -> None:
    """The loop limit leaves no run to resume."""
    cast = Cast(lead=[hand("reader", "x")] * 9, reader=[hand("lead", "y")] * 9)
    compiled = graph(cast, saver=InMemorySaver(), max_loop_count=3, max_turns=99)
    state = compiled.invoke(begin(TEAM, "Go."), CONFIG)
    assert (outcome_of(state)["status"], outcome_of(state)["reason"]) == ("failed", "loop_limit")
    assert outcome_of(compiled.get_state(CONFIG)) == outcome_of(state)


@sr.tool
def look(item: str) -> str:
    """Look something up."""
    return f"{item} is there"


@sr.tool
def close(item: str) -> str:
    """End the run."""
    raise sr.AbortRun(f"{item} is closed")


@sr.tool
async def aclose(item: str) -> str:
    """End the run."""
    raise sr.AbortRun(f"{item} is closed")


@pytest.mark.parametrize("ending", [close, aclose], ids=["sync", "async"])
def test_a_tool_ends_the_run(ending: Any) -> None:
    """AbortRun ends it as aborted, with its words; nothing more is asked or run, what ran is kept,
    and the conversation may go on.
    """
    calls = [ok.call(look, item="map"), ok.call(ending, item="shop"), ok.call(look, item="key")]
    cast = Cast(lead=[ok.calls(*calls), final("new")])
    team = agents(cast, awaited=ending is aclose, tools=[look, ending])
    compiled = to_langgraph(TEAM, team).compile(checkpointer=InMemorySaver())

    def go(given: Any) -> Any:
        if ending is aclose:
            return asyncio.run(compiled.ainvoke(given, CONFIG))
        return compiled.invoke(given, CONFIG)

    state = go(begin(TEAM, "Go."))
    told = outcome_of(state)
    assert (told["status"], told["reason"], told["agent"]) == ("aborted", "aborted", "lead")
    assert told["error"] == "shop is closed"
    assert cast.asked()["lead"] == 1
    assert compiled.get_state(CONFIG).next == ()

    go(begin(TEAM, "And now?", state=state))
    looked, closed, skipped = results(cast)
    assert looked == "map is there"
    assert "AbortRun" in closed
    assert "NotRun" in skipped


def test_a_tool_of_a_branch_ends_the_whole_run() -> None:
    """The other branches end as they do, and nobody is asked behind them."""
    cast = Cast(
        lead=[spread("ann", "cid", ann="a", cid="c")],
        ann=[ok.call(close, item="shop")],
        cid=[hand("lead", "c is done")],
    )
    team = agents(cast, LAB, tools=[close])
    state = to_langgraph(LAB, team).compile().invoke(begin(LAB, "Go."))
    told = outcome_of(state)
    assert (told["status"], told["error"]) == ("aborted", "shop is closed")
    assert cast.asked() == {"lead": 1, "ann": 1, "cid": 1}


def test_a_tool_that_keeps_failing_ends_the_run() -> None:
    """So many failures in a row, whatever runs between them; a success begins anew."""

    @sr.tool(max_failures=2)
    def flaky(item: str) -> str:
        """Fail with most items."""
        if item != "good":
            raise sr.ToolError(f"no {item}")
        return item

    script = [
        ok.call(flaky, item="a"),
        ok.call(flaky, item="good"),
        ok.calls(ok.call(flaky, item="b"), ok.call(look, item="map")),
        ok.call(flaky, item="c"),
    ]
    cast = Cast(lead=script)
    state = to_langgraph(TEAM, agents(cast, tools=[flaky, look])).compile().invoke(begin(TEAM, "."))
    told = outcome_of(state)
    assert (told["status"], cast.asked()["lead"]) == ("aborted", 4)
    assert told["error"] == "tool 'flaky' failed 2 times in a row"


def test_a_call_that_breaks_keeps_what_ran_before_it() -> None:
    """A person is asked how to go on; with a retry the model knows the results of its reply."""

    @sr.tool
    def crash(item: str) -> str:
        """Fail."""
        raise KeyError(item)

    calls = [ok.call(look, item="map"), ok.call(crash, item="a"), ok.call(look, item="key")]
    cast = Cast(lead=[ok.calls(*calls), final()])
    team = agents(cast, tools=[look, crash])
    compiled = to_langgraph(TEAM, team).compile(checkpointer=InMemorySaver())
    compiled.invoke(begin(TEAM, "Go."), CONFIG)
    state = compiled.invoke(Command(resume="retry"), CONFIG)
    assert outcome_of(state)["status"] == "completed"
    looked, broke, skipped = results(cast)
    assert (looked, "KeyError" in broke, "NotRun" in skipped) == ("map is there", True, True)


def test_the_newer_output_of_a_graph_is_read() -> None:
    """``invoke(…, version="v2")`` returns an object, which waits and ends as a state does."""
    desk = Desk(awaited=False)
    cast = Cast(lead=[ok.call(desk.pay, order=7), final("paid")])
    compiled = desk.graph(cast, InMemorySaver())
    if "version" not in inspect.signature(compiled.invoke).parameters:
        pytest.skip("this LangGraph has one output")

    waiting = compiled.invoke(begin(TEAM, "Pay."), CONFIG, version="v2")
    assert outcome_of(waiting)["status"] == "waiting"
    (call,) = approvals_in(waiting)
    ended = compiled.invoke(Command(resume=call.approved().to_dict()), CONFIG, version="v2")
    assert (outcome_of(ended)["status"], outcome_of(ended)["content"]) == ("completed", "paid")
