"""A decision holds for one call of one turn of one run (finding V11).

Anywhere else it is refused, and nothing runs.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import strictreply as sr
from strictreply.loop import answered_manifest
from strictreply.loop.invoke_result import InvokeCode
from strictreply.loop.values import AgentResponse, AgentToolCall, Envelope, ToolCallManifest, Turn
from support.loop.loops import DONE, Loop, Opened, asking, codes, spy

C = InvokeCode


def deliver(ran: list[str]) -> sr.Tool:
    """Declare a tool that somebody must allow, and that keeps what it ran with."""
    return spy("deliver", ran, needs_approval=True)


def refused(loop: Loop, paused: Any, *decisions: sr.Decision, **more: Any) -> sr.InvokeFailed:
    """Answer a paused run with decisions that are not its own, and give what is raised."""
    with pytest.raises(sr.InvokeFailed) as told:
        loop.run(continuation=paused, results=decisions, **more)
    return told.value


@pytest.mark.parametrize(
    "decide", [AgentToolCall.approved, AgentToolCall.denied], ids=["approved", "denied"]
)
def test_v11_a_decision_on_another_users_run_is_refused(
    opened: Opened, decide: Callable[[AgentToolCall], sr.Decision], tmp_path: Path
) -> None:
    """Equal id, name and arguments: the decision is told as the other run's, nothing runs, and the
    right one fits.
    """
    ran: list[str] = []
    store = sr.SQLiteSessionStore(tmp_path / "desk.sqlite")
    ask = asking("x", tool="deliver")
    loop = opened(ask, ask, DONE, tools=[deliver(ran)], store=store)
    anns = loop.run(user="ann")

    bobs = loop.run(user="bob")
    assert anns.pending[0] == bobs.pending[0]
    told = refused(loop, bobs, decide(anns.pending[0]), user="bob")
    (error,) = told.errors
    assert (error.code, error.index, ran) == (C.DECISION_ELSEWHERE, 0, [])

    assert error.decided_for == f"{anns.response.session_id}.{anns.response.turn_id}"
    assert anns.response.session_id in str(told)
    assert (
        loop.run(continuation=bobs, results=[bobs.pending[0].approved()], user="bob").answer
        == "done"
    )

    assert ran == ["x"]


def test_v11_a_decision_on_an_earlier_turn_is_refused(opened: Opened) -> None:
    """A call of a later turn of the same run is not allowed by it, nor would it be with an equal
    id.
    """
    ran: list[str] = []
    ask = asking("x", tool="deliver")
    loop = opened(ask, ask, DONE, tools=[deliver(ran)])
    first = loop.run()
    second = loop.run("and again?", after=first)

    (then,) = first.pending
    (now,) = second.pending
    # Ids that repeat in a session are numbered (V10).
    assert (then.tool_call_id, now.tool_call_id) == ("x", "x-2")

    assert codes(refused(loop, second, then.approved())) == [C.DECISION_ELSEWHERE, C.MISSING_RESULT]
    equal = replace(then.approved(), tool_call_id=now.tool_call_id)
    assert codes(refused(loop, second, equal)) == [C.DECISION_ELSEWHERE]
    assert ran == []


def test_v11_a_decision_that_was_used_is_spent(opened: Opened) -> None:
    """A replay runs nothing again: neither on the paused run that it answered, nor on the next
    pause of its turn.
    """
    ran: list[str] = []
    ask = asking("x", tool="deliver")
    loop = opened(ask, ask, DONE, tools=[deliver(ran)])
    paused = loop.run()
    decision = paused.pending[0].approved()
    later = loop.run(continuation=paused, results=[decision])
    assert later.is_paused

    for again in (paused, later):
        assert codes(refused(loop, again, decision))[0] == C.ALREADY_CONSUMED

    assert ran == ["x"]


@pytest.mark.parametrize(
    "missing", [{"session_id": ""}, {"turn_id": ""}, {"session_id": "", "turn_id": ""}]
)
def test_v11_a_decision_without_a_run_is_refused(opened: Opened, missing: Any) -> None:
    """A decision that does not say which session and turn it is for holds for none."""
    ran: list[str] = []
    loop = opened(asking("x", tool="deliver"), DONE, tools=[deliver(ran)])
    paused = loop.run()
    decision = replace(paused.pending[0].approved(), **missing)
    assert codes(refused(loop, paused, decision)) == [C.DECISION_ELSEWHERE]
    assert ran == []


SENT: list[Callable[[sr.Run], AgentToolCall]] = [
    lambda run: run.pending[0],
    lambda run: (AgentResponse.from_json(run.response.to_json()).tool_calls or ())[0],
    lambda run: pickle.loads(pickle.dumps(run.pending[0])),  # noqa: S301 - made here
    lambda run: copy.copy(run.pending[0]),
    lambda run: copy.deepcopy(run.response.tool_calls or ())[0],
]


@pytest.mark.parametrize("call_of", SENT, ids=["pending", "JSON", "pickle", "copy", "deep copy"])
def test_v11_a_pending_call_knows_where_it_waits(
    opened: Opened, call_of: Callable[[sr.Run], AgentToolCall]
) -> None:
    """However the call came to who decides, its decision names the run, the turn and the call."""
    ran: list[str] = []
    loop = opened(asking("x", tool="deliver"), DONE, tools=[deliver(ran)])
    paused = loop.run()
    decision = call_of(paused).approved()
    told = (decision.session_id, decision.turn_id, decision.tool_call_id)
    assert told == (paused.response.session_id, paused.response.turn_id, "x")

    assert sr.Decision.from_json(decision.to_json()) == decision
    assert loop.run(continuation=paused, results=[decision]).answer == "done"
    assert ran == ["x"]


def test_v11_the_published_call_has_no_new_member(opened: Opened) -> None:
    """Where a call waits is told by its response (AGN-033): no call says it again, in JSON or as a
    schema.
    """
    paused = opened(asking("x", tool="deliver"), tools=[deliver([])]).run()
    (call,) = paused.pending
    published = {
        "tool_call_id",
        "name",
        "arguments_json",
        "requires_client_execution",
        "needs_approval",
    }
    assert call.to_dict().keys() == paused.response.to_dict()["tool_calls"][0].keys() == published

    assert AgentToolCall.json_schema()["properties"].keys() == published


def test_v11_the_words_of_a_client_stay_out_of_the_error(opened: Opened) -> None:
    """A response that a client forged names what it likes: the error's words repeat none of it."""
    loop = opened(asking("x", tool="deliver"), tools=[deliver([])])
    paused = loop.run()
    forged = replace(paused.response, session_id="say\x1b[31m canary", turn_id="t")
    told = refused(loop, paused, (forged.tool_calls or ())[0].approved())
    assert (codes(told), told.errors[0].decided_for) == (
        [C.DECISION_ELSEWHERE],
        "say\x1b[31m canary.t",
    )

    assert "canary" not in f"{told}{told.errors[0].message}"


def test_v11_another_runs_decision_is_told_so_whatever_it_names(opened: Opened) -> None:
    """A decision of another run on another call is no unknown call: the error says which run it is
    for.
    """
    loop = opened(asking("x", tool="deliver"), asking("y", tool="deliver"), tools=[deliver([])])
    first = loop.run()
    second = loop.run()
    told = refused(loop, second, first.pending[0].approved(), second.pending[0].approved())
    assert codes(told) == [C.DECISION_ELSEWHERE]


def test_v11_reconciling_holds_decisions_to_their_run() -> None:
    """A manifest of one turn takes the decisions that are for that turn, and no others."""
    call = AgentToolCall(
        tool_call_id="x",
        name="deliver",
        arguments_json="{}",
        requires_client_execution=True,
        needs_approval=True,
    )
    turn = Turn(id="t", tool_calls=(call,))

    def answered(decision: sr.Decision) -> ToolCallManifest:
        told = Envelope(
            org=None,
            user=None,
            session_id="s",
            turn_id="t",
            tool_results=(decision.result,),
            decided=(decision,),
        )
        return answered_manifest(ToolCallManifest(tool_calls=(call,)), told, turn)

    ours = replace(call.approved(), session_id="s", turn_id="t")
    for decision in (call.approved(), replace(ours, turn_id="u"), replace(ours, session_id="r")):
        with pytest.raises(sr.InvokeFailed) as raised:
            answered(decision)
        assert [error.code for error in raised.value.errors] == [C.DECISION_ELSEWHERE]

    assert answered(ours).tool_call_results == (ours.result,)
