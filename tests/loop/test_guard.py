"""Every run ends.

The asks of a turn are counted, calls that repeat are not run without end, and anybody may cancel.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strictreply as sr
from strictreply.loop import Unanswered
from strictreply.loop.invoke_result import InvokeCode
from strictreply.loop.values import LineStatus, PipelineStep
from support.loop.loops import DONE, LOCATE, Loop, Opened, asking, codes, ids, spy, told
from support.scripted import JSONObject, call, completion


def same(tool: str = "search", query: str = "a") -> JSONObject:
    """Return the reply that makes one call again."""
    return asking(query, tool=tool)


def instructions(loop: Loop) -> list[str]:
    """Return the instruction added after the conversation in each request.

    It is empty where there was none.
    """
    last = [messages[-1] for messages in loop.script.messages]
    return [turn["content"] if turn["role"] == "user" else "" for turn in last[1:]]


@pytest.mark.req("P68")
def test_a_model_that_always_calls_is_asked_eight_times(opened: Opened) -> None:
    """Eight asks by default, then AGENT_REASONER_MAX_ITERATIONS_EXCEEDED."""
    loop = opened(*[asking(str(number)) for number in range(20)], tools=[spy("search", [])])
    with pytest.raises(sr.IterationsExceeded) as exceeded:
        loop.run()
    assert (loop.asks, codes(exceeded.value)) == (8, [InvokeCode.MAX_ITERATIONS])
    assert codes(exceeded.value) == ["AGENT_REASONER_MAX_ITERATIONS_EXCEEDED"]


@pytest.mark.parametrize(
    ("bound", "asks", "runs"), [(15, 1, 0), (16, 2, 1), (30, 2, 1), (31, 3, 2)]
)
def test_a_run_that_has_spent_its_tokens_asks_no_more(
    opened: Opened, bound: int, asks: int, runs: int
) -> None:
    """The tokens of all asks of a run are bounded together: it ends before it runs calls that
    nobody would hear of.
    """
    ran: list[str] = []
    loop = opened(*[asking(str(number)) for number in range(20)], tools=[spy("search", ran)])
    with pytest.raises(sr.ReplyHalted) as halted:
        loop.run(loop=sr.LoopPolicy(max_tokens_total=bound))
    assert (halted.value.reason, halted.value.usage.total_tokens) == ("tokens", 15 * asks)
    assert (loop.asks, len(halted.value.attempts), len(ran)) == (asks, asks, runs)
    assert "LoopPolicy" in halted.value.explain()


def test_an_answer_is_never_too_dear(opened: Opened) -> None:
    """A run whose answer is there has it, whatever it took; what goes on from it counts anew."""
    loop = opened(DONE, asking("a"), DONE, tools=[spy("search", [])])
    policy = sr.LoopPolicy(max_tokens_total=16)
    first = loop.run(loop=sr.LoopPolicy(max_tokens_total=1))
    assert first.answer == "done"
    assert loop.run("more", after=first, loop=policy).usage.total_tokens == 30


def test_the_asks_of_a_turn_are_counted_over_its_pauses(opened: Opened) -> None:
    """A turn that pauses goes on counting where it was; a call that nobody could hear of bothers no
    client.
    """
    loop = opened(asking("a", tool="locate"), asking("b", tool="locate"), DONE, tools=[LOCATE])
    two = sr.LoopPolicy(max_iterations=2)
    paused = loop.run(loop=two)
    results = [paused.pending[0].answered(1)]
    with pytest.raises(sr.IterationsExceeded):
        loop.run(continuation=paused, results=results, loop=two)
    assert loop.asks == 2
    assert loop.run(continuation=paused, results=results).answer == "done"


@given(
    st.lists(st.sampled_from(["search", "locate", "both", "deliver", "answer"]), max_size=9),
    st.integers(1, 4),
    st.booleans(),
)
def test_every_turn_ends(kinds: list[str], most: int, approve: bool) -> None:
    """Whatever fitting replies come, and however the client decides, a turn asks at most
    ``max_iterations`` times.
    """
    made: dict[str, JSONObject] = {
        "search": same(),
        "locate": same("locate"),
        "deliver": same("deliver"),
        "both": completion(
            calls=[call("search", {"query": "s"}, "s"), call("locate", {"query": "l"}, "l")]
        ),
        "answer": DONE,
    }
    tools = [spy("search", []), LOCATE, spy("deliver", [], needs_approval=True)]
    loop = Loop(*[made[kind] for kind in kinds], *[DONE] * 9, tools=tools)

    policy = sr.LoopPolicy(max_iterations=most)
    try:
        run = loop.run(loop=policy)
        while run.is_paused:
            results = [
                (one.approved() if approve else one.denied())
                if one.needs_approval
                else one.answered(1)
                for one in run.pending
            ]
            run = loop.run(continuation=run, results=results, loop=policy)
    except sr.IterationsExceeded:
        assert loop.asks == most
    else:
        assert run.answer == "done"
        assert loop.asks <= most


@pytest.mark.req("P72")
def test_a_call_that_repeats_is_warned_of_then_not_run(opened: Opened) -> None:
    """Once it runs; twice it runs, and the model is warned; the third time its result says why
    there is none.

    With one ask left the model is also told to come to an end.
    """
    ran: list[str] = []
    loop = opened(*[same()] * 3, DONE, tools=[spy("search", ran)])
    done = loop.run(loop=sr.LoopPolicy(max_iterations=4))
    results = [content for _, content in told(done)]
    assert (ran, results[:2]) == (["a", "a"], ["search a"] * 2)

    assert (results[2]["suppressed"], results[2]["reason"], results[2]["tool"]) == (
        True,
        "repeat_tool_call_detected",
        "search",
    )
    first, second, third = instructions(loop)
    assert first == ""
    assert "search" in second

    assert second in third
    assert len(third) > len(second)
    assert all(turn["role"] != "user" for turn in done.transcript[2:])


@pytest.mark.req("P72")
def test_the_last_ask_says_so_only_behind_results(opened: Opened) -> None:
    """With one ask left the model is told to answer now, in that request alone; not where no tool
    has run.
    """
    loop = opened(asking("a"), DONE, tools=[spy("search", [])])
    loop.run(loop=sr.LoopPolicy(max_iterations=2))
    (finish,) = instructions(loop)
    assert finish
    only = opened(DONE, tools=[spy("search", [])])
    only.run(loop=sr.LoopPolicy(max_iterations=1))
    assert [turn["role"] for turn in only.script.messages[0]] == ["system", "user"]


@pytest.mark.req("P71")
def test_the_order_of_arguments_makes_no_new_call() -> None:
    """The same members in another order, with other spaces, are the same call."""
    spelled = ['{"query":"a","limit":1}', '{ "limit": 1, "query": "a" }', '{"limit":1,"query":"a"}']
    ran: list[Any] = []
    tool = sr.Tool.from_json_schema("search", LOCATE.parameters.source, function=ran.append)  # type: ignore[arg-type]
    replies = [
        completion(calls=[call("search", text, str(number))]) for number, text in enumerate(spelled)
    ]
    done = Loop(*replies, DONE, tools=[tool]).run()

    assert len(ran) == 2
    assert told(done)[2][1]["suppressed"] is True


@pytest.mark.req("P73")
def test_values_of_another_case_make_a_new_call() -> None:
    """``A`` and ``a`` are two calls: no warning after both, and ``a`` runs again."""
    ran: list[str] = []
    loop = Loop(same(query="A"), same(query="a"), DONE, tools=[spy("search", ran)])
    loop.run()
    assert instructions(loop) == ["", ""]

    again: list[str] = []
    Loop(
        same(query="A"), same(query="a"), same(query="a"), DONE, tools=[spy("search", again)]
    ).run()
    assert again == ["A", "a", "a"]


@pytest.mark.req("P74")
@pytest.mark.parametrize("tool", ["search", "locate", "deliver"])
def test_a_suppressed_call_waits_for_nobody(opened: Opened, tool: str) -> None:
    """Its synthetic result stands beside real ones in a valid manifest, also for a call of the
    client.
    """
    twice = completion(calls=[call(tool, {"query": "a"}, "x"), call(tool, {"query": "a"}, "y")])
    third = completion(calls=[call(tool, {"query": "a"}, "z"), call("search", {"query": "b"}, "s")])
    tools = [spy("search", []), LOCATE, spy("deliver", [], needs_approval=True)]
    loop = opened(twice, third, DONE, tools=tools)
    run = loop.run()
    if run.is_paused:
        assert ids(run) == ["x", "y"]
        run = loop.run(
            continuation=run,
            results=[
                one.approved() if one.needs_approval else one.answered(1) for one in run.pending
            ],
        )

    assert run.answer == "done"
    results = dict(told(run))
    assert list(results) == ["x", "y", "z", "s"]
    assert (results["z"]["suppressed"], results["s"]) == (True, "search b")


@pytest.mark.parametrize("tool", ["locate", "deliver"])
def test_the_client_is_not_asked_the_same_for_ever(opened: Opened, tool: str) -> None:
    """A client answers a call twice; the third time the loop answers it, and goes on by itself."""
    tools = [LOCATE, spy("deliver", [], needs_approval=True)]
    loop = opened(*[same(tool)] * 3, DONE, tools=tools)
    run = loop.run()

    for _ in range(2):
        (one,) = run.pending
        run = loop.run(
            continuation=run, results=[one.approved() if one.needs_approval else one.answered(1)]
        )

    assert (run.answer, told(run)[2][1]["suppressed"]) == ("done", True)


def test_calls_of_one_reply_repeat_as_well(opened: Opened) -> None:
    """Of three equal calls in one reply two run."""
    ran: list[str] = []
    reply = completion(calls=[call("search", {"query": "a"}, id_) for id_ in "xyz"])
    done = opened(reply, DONE, tools=[spy("search", ran)]).run()
    assert (len(ran), told(done)[2][1]["suppressed"]) == (2, True)


def test_a_guard_that_is_wider_lets_more_pass(opened: Opened) -> None:
    """The bounds are the policy's."""
    ran: list[str] = []
    policy = sr.LoopPolicy(warn_at=3, suppress_at=5, max_iterations=9)
    loop = opened(*[same()] * 5, DONE, tools=[spy("search", ran)])
    loop.run(loop=policy)
    assert len(ran) == 4
    assert [bool(said) for said in instructions(loop)] == [False, False, True, True, True]


@pytest.mark.req("P70")
def test_a_run_that_is_cancelled_before_a_step_does_not_enter_it(opened: Opened) -> None:
    """The step's body does not run, and the outcome is aborted, which is no failure: nothing is
    raised.
    """
    loop = opened(DONE, tools=[LOCATE])
    run = loop.run(cancel=lambda: True)
    assert (run.is_cancelled, run.is_paused, run.pending, loop.asks) == (True, False, (), 0)
    assert [(trace.step, trace.status) for trace in run.trace] == [
        (PipelineStep.REQUEST_HANDLER, LineStatus.ABORTED)
    ]

    with pytest.raises(Unanswered):
        _ = run.answer

    with pytest.raises(sr.ContractError):
        loop.run("more", after=run)


@pytest.mark.req("P70")
def test_a_run_is_cancelled_between_two_steps(opened: Opened) -> None:
    """A tool that runs at the cancellation ends; the model is not asked again."""
    ran: list[str] = []
    loop = opened(asking("a"), DONE, tools=[spy("search", ran)])
    run = loop.run(cancel=lambda: bool(ran))
    assert (run.is_cancelled, ran, loop.asks) == (True, ["a"], 1)
    assert (run.trace[-1].step, run.trace[-1].status) == (PipelineStep.REASONER, LineStatus.ABORTED)
    assert json.loads(run.transcript[-1]["tool_calls"][0]["function"]["arguments"]) == {
        "query": "a"
    }


def test_a_repeatable_tool_may_be_polled(opened: Opened) -> None:
    """A tool that says so is called as often as the model likes: no warning, nothing suppressed."""
    ran: list[str] = []
    poll = replace(spy("search", ran), repeatable=True)
    loop = opened(*[same() for _ in range(5)], DONE, tools=[poll])
    assert loop.run().answer == "done"
    assert len(ran) == 5
    assert {turn["role"] for turn in loop.script.messages[4][2:]} == {"assistant", "tool"}
