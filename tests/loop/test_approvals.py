"""Calls that somebody has to allow.

The program's decision alone allows them, once, and nothing is lost on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import strictreply as sr
from strictreply.loop import MemorySessionStore, RunEvent, ToolFinished
from strictreply.loop.invoke_result import InvokeCode
from strictreply.loop.values import AgentToolCallResult
from support.loop.loops import DONE, LOCATE, Loop, Opened, asking, codes, spy, told
from support.scripted import JSONObject, StatusError, call, completion

C = InvokeCode
LOCATED = [AgentToolCallResult(tool_call_id="l", name="locate", result_json='"here"')]


def approval(ran: list[str]) -> sr.Tool:
    """Declare a tool that somebody must allow."""
    return spy("deliver", ran, needs_approval=True)


@pytest.mark.parametrize("decision", ["true", '{"approved":true}', '{"approved":false}', "{"])
@pytest.mark.parametrize("spelled", [dict, AgentToolCallResult])
def test_no_result_of_a_client_allows_a_call(decision: str, spelled: Callable[..., Any]) -> None:
    """A decision is the program's own value: a result that says the same is DECISION_EXPECTED, and
    runs nothing.
    """
    ran: list[str] = []
    loop = Loop(asking("x", tool="deliver"), DONE, tools=[approval(ran)])
    paused = loop.run()

    with pytest.raises(sr.InvokeFailed) as refused:
        loop.run(
            continuation=paused,
            results=[spelled(tool_call_id="x", name="deliver", result_json=decision)],
        )

    assert (codes(refused.value), ran) == ([C.DECISION_EXPECTED], [])
    assert loop.run(continuation=paused, results=[paused.pending[0].approved()]).answer == "done"
    assert ran == ["x"]


def test_a_decision_is_no_result(opened: Opened) -> None:
    """Nobody decides in the place of the client: DECISION_UNEXPECTED, and the result can still be
    sent.
    """
    loop = opened(asking("l", tool="locate"), DONE, tools=[LOCATE])
    paused = loop.run()
    with pytest.raises(sr.InvokeFailed) as refused:
        loop.run(continuation=paused, results=[paused.pending[0].approved()])
    assert codes(refused.value) == [C.DECISION_UNEXPECTED]
    assert loop.run(continuation=paused, results=LOCATED).answer == "done"


@pytest.mark.parametrize(
    ("photo", "code"),
    [
        ({"result_json": "{bad"}, C.RESULT_NOT_JSON),
        ({"name": "deliver", "result_json": "1"}, C.NAME_MISMATCH),
    ],
)
def test_a_refused_answer_runs_nothing(opened: Opened, photo: JSONObject, code: C) -> None:
    """All results are held to the rules of a manifest before anything that was allowed is run."""
    ran: list[str] = []
    calls = [call("deliver", {"query": "d"}, "d"), call("locate", {"query": "l"}, "l")]
    loop = opened(completion(calls=calls), DONE, tools=[approval(ran), LOCATE])
    paused = loop.run()
    result = {"tool_call_id": "l", "name": "locate", **photo}
    with pytest.raises(sr.InvokeFailed) as refused:
        loop.run(continuation=paused, results=[paused.pending[0].approved(), result])
    assert (codes(refused.value), ran) == ([code], [])


def test_an_allowed_call_under_another_name_runs_nothing(opened: Opened) -> None:
    """A decision names the call it is for, by id and by name."""
    ran: list[str] = []
    loop = opened(asking("x", tool="deliver"), DONE, tools=[approval(ran)])
    paused = loop.run()
    with pytest.raises(sr.InvokeFailed) as refused:
        loop.run(
            continuation=paused, results=[replace(paused.pending[0].approved(), name="search")]
        )
    assert (codes(refused.value), ran) == ([C.NAME_MISMATCH], [])


def test_what_ran_is_told_to_who_goes_on_without_it(opened: Opened) -> None:
    """A call allowed and run before the model failed has its own result in the follow-up."""
    ran: list[str] = []
    loop = opened(asking("x", tool="deliver"), StatusError(500), DONE, tools=[approval(ran)])
    paused = loop.run()
    with pytest.raises(sr.TransportFailed):
        loop.run(continuation=paused, results=[paused.pending[0].approved()])
    done = loop.run("is it delivered?", after=paused)
    assert (told(done), ran) == ([("x", "deliver x")], ["x"])


def test_an_allowed_call_runs_once_whatever_interrupts_it(opened: Opened) -> None:
    """Of two allowed calls the second is interrupted: allowed again, neither runs, and the model is
    told of it.
    """
    ran: list[str] = []

    def deliver(query: str) -> str:
        """Deliver, and be interrupted at the second."""
        ran.append(query)
        if query == "y":
            raise KeyboardInterrupt
        return f"delivered {query}"

    both = completion(calls=[call("deliver", {"query": one}, one) for one in ("x", "y")])
    loop = opened(both, DONE, tools=[sr.Tool.from_function(deliver, needs_approval=True)])
    paused = loop.run()
    allowed = [one.approved() for one in paused.pending]

    with pytest.raises(KeyboardInterrupt):
        loop.run(continuation=paused, results=allowed)

    (first, second) = told(loop.run(continuation=paused, results=allowed))
    assert (first, second[1]["error"]["type"], ran) == (
        ("x", "delivered x"),
        "Interrupted",
        ["x", "y"],
    )


def test_a_listener_that_is_interrupted_pays_nothing_twice(opened: Opened) -> None:
    """An interrupt while a result is reported comes after the call, and the call does not run
    again.
    """
    ran: list[str] = []
    loop = opened(asking("x", tool="deliver"), DONE, tools=[approval(ran)])
    paused = loop.run()

    def stop(event: RunEvent) -> None:
        """Be interrupted when the tool has run."""
        if isinstance(event, ToolFinished):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.run(continuation=paused, results=[paused.pending[0].approved()], on_event=stop)

    ((_, result),) = told(loop.run("is it delivered?", after=paused))
    assert (result["error"]["type"], ran) == ("Interrupted", ["x"])


def test_a_decision_holds_for_what_was_looked_at(opened: Opened) -> None:
    """A decision on other arguments, be they another run's or a client's forgery, is
    DECISION_MISMATCH.
    """
    ran: list[str] = []
    loop = opened(asking("x", tool="deliver"), DONE, tools=[approval(ran)])
    paused = loop.run()
    forged = replace(paused.pending[0], arguments_json='{"query": "less"}')
    with pytest.raises(sr.InvokeFailed) as refused:
        loop.run(continuation=paused, results=[forged.approved()])
    assert (codes(refused.value), ran) == ([C.DECISION_MISMATCH], [])


def test_an_interrupted_claim_is_given_back(opened: Opened) -> None:
    """A turn that was interrupted while it claimed does not keep others out, though it never knew
    of its claim.
    """

    class Interrupted(MemorySessionStore):
        """Claims once without telling."""

        told = True

        def claim(self, manifest_id: str, holder: str) -> Any:
            """SessionClaim."""
            claim = super().claim(manifest_id, holder)
            if self.told:
                self.told = False
                raise KeyboardInterrupt
            return claim

    loop = opened(asking("l", tool="locate"), DONE, tools=[LOCATE])
    store = Interrupted()
    paused = loop.run(sessions=store)

    with pytest.raises(KeyboardInterrupt):
        loop.run(continuation=paused, results=LOCATED)

    assert loop.run(continuation=paused, results=LOCATED).answer == "done"


@pytest.mark.parametrize("demand", [{"tool_choice": "none"}, {"parallel_tool_calls": False}])
def test_a_paused_reply_was_held_to_its_own_demands(opened: Opened, demand: JSONObject) -> None:
    """The demands of the next ask do not apply to the pending reply."""
    loop = opened(asking("l", tool="locate"), DONE, tools=[LOCATE])
    paused = loop.run()
    assert loop.run(continuation=paused, results=LOCATED, **demand).answer == "done"


def test_a_clients_result_is_cut_as_a_tools(opened: Opened) -> None:
    """``max_result_chars`` holds for what a client gives, too."""
    loop = opened(asking("l", tool="locate"), DONE, tools=[LOCATE])
    paused = loop.run()
    short = sr.LoopPolicy(max_result_chars=5)
    done = loop.run(continuation=paused, results=[paused.pending[0].answered("x" * 9)], loop=short)
    assert told(done) == [("l", "xxxxx… (cut: 9 characters in total)")]


def test_an_answer_by_tool_is_a_text_in_the_conversation(opened: Opened) -> None:
    """With ``answer_style="tool"`` no call without a result is left in the transcript, nor in the
    next request.
    """
    final = completion(calls=[call("final_answer", {"answer": "done"}, "f")])
    loop = opened(final, final, tools=[LOCATE], answer_style="tool")
    done = loop.run()
    assert done.transcript[-1] == {"role": "assistant", "content": "done"}
    assert loop.run("more", after=done).answer == "done"
    assert not any(turn.get("tool_calls") for turn in loop.script.messages[1])
