"""A run that waits for its client.

It goes on with results that fit, once, and nothing that failed is lost.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import strictreply as sr
from strictreply.loop import MemorySessionStore, Unanswered
from strictreply.loop.invoke_result import InvokeCode
from strictreply.loop.values import AgentToolCallResult, ResponseKind
from strictreply.loop.values import PipelineStep as Step
from support.loop.loops import DONE, LOCATE, Loop, Opened, asking, codes, ids, spy, told
from support.scripted import USER, StatusError, call, completion

C = InvokeCode
MIXED = completion(calls=[call("search", {"query": "s"}, "s"), call("locate", {"query": "l"}, "l")])
LOCATED = [AgentToolCallResult(tool_call_id="l", name="locate", result_json='"here"')]


def approval(ran: list[str]) -> sr.Tool:
    """Declare a tool that somebody must allow."""
    return spy("deliver", ran, needs_approval=True)


@pytest.mark.req("P69")
def test_what_is_run_here_runs_before_the_client_is_asked(opened: Opened) -> None:
    """Of a mixed reply the server's call runs once, the client's comes back pending, and the loop
    ends there.
    """
    ran: list[str] = []
    loop = opened(MIXED, DONE, tools=[spy("search", ran), LOCATE])
    paused = loop.run()
    assert (ran, ids(paused), loop.asks) == (["s"], ["l"], 1)

    assert paused.is_paused
    assert not paused.is_cancelled
    assert paused.response is not None
    assert paused.response.kind is ResponseKind.CLIENT_TOOL_CONTINUATION

    with pytest.raises(Unanswered):
        _ = paused.answer

    done = loop.run(continuation=paused, results=LOCATED)
    assert (done.answer, ran, loop.asks) == ("done", ["s"], 2)
    assert told(done) == [("s", "search s"), ("l", "here")]
    assert loop.script.messages[1] == done.transcript[:-1]


@pytest.mark.parametrize("given", ["run", "response", "json"])
def test_a_run_goes_on_by_itself_its_response_or_json(opened: Opened, given: str) -> None:
    """All three name the same turn; the last two find it in the store that is given."""
    loop = opened(asking("l", tool="locate"), DONE, tools=[LOCATE], store=MemorySessionStore())
    paused = loop.run()
    assert paused.response is not None
    way: Any = {"run": paused, "response": paused.response, "json": paused.response.to_json()}[
        given
    ]
    result = {"tool_call_id": "l", "name": "locate", "result_json": '{"at": [1, 2]}'}
    assert told(loop.run(continuation=way, results=[result])) == [("l", {"at": [1, 2]})]


@pytest.mark.req("P66")
def test_results_are_taken_once(opened: Opened) -> None:
    """The same results a second time are ALREADY_CONSUMED, and the model is not asked for them."""
    loop = opened(asking("l", tool="locate"), DONE, tools=[LOCATE])
    paused = loop.run()
    loop.run(continuation=paused, results=LOCATED)

    with pytest.raises(sr.InvokeFailed) as again:
        loop.run(continuation=paused, results=LOCATED)

    assert (codes(again.value), again.value.step) == (
        [C.ALREADY_CONSUMED],
        "CLIENT_TOOL_CONTINUATION_RESOLVER",
    )
    assert loop.asks == 2


def test_results_of_a_conversation_that_went_on_are_stale(opened: Opened) -> None:
    """After a follow-up, a paused turn is not the session's last: STALE_TURN."""
    loop = opened(asking("l", tool="locate"), DONE, DONE, tools=[LOCATE])
    paused = loop.run()
    loop.run("what else?", after=loop.run(continuation=paused, results=LOCATED))

    with pytest.raises(sr.InvokeFailed) as stale:
        loop.run(continuation=paused, results=LOCATED)

    assert (codes(stale.value), stale.value.step) == (
        [C.STALE_TURN],
        "CLIENT_TOOL_CALL_SESSION_RESTORER",
    )


@pytest.mark.req("P66")
@pytest.mark.parametrize(
    ("result", "code"),
    [
        ({"tool_call_id": "other", "name": "locate", "result_json": "1"}, C.UNKNOWN_CALL),
        ({"tool_call_id": "s", "name": "search", "result_json": "1"}, C.NOT_CLIENT_CALL),
        ({"tool_call_id": "l", "name": "search", "result_json": "1"}, C.NAME_MISMATCH),
        ({"tool_call_id": "l", "name": "locate", "result_json": "{bad"}, C.RESULT_NOT_JSON),
        ({"tool_call_id": "l", "name": "locate", "result_json": " "}, C.EMPTY_RESULT),
        ({"tool_call_id": "l", "name": "locate"}, C.EMPTY_RESULT),
        ({"tool_call_id": "l", "name": "locate", "error_message": "gone"}, C.MISSING_RESULT_JSON),
    ],
)
def test_results_that_do_not_fit_may_be_corrected(
    opened: Opened, result: dict[str, Any], code: InvokeCode
) -> None:
    """A wrong submit fails by its code before the model is asked; the corrected one goes on."""
    loop = opened(MIXED, DONE, tools=[spy("search", []), LOCATE])
    paused = loop.run()
    with pytest.raises(sr.InvokeFailed) as wrong:
        loop.run(continuation=paused, results=[result])
    assert (codes(wrong.value)[0], loop.asks) == (code, 1)
    assert loop.run(continuation=paused, results=LOCATED).answer == "done"


def test_every_pending_call_needs_a_result(opened: Opened) -> None:
    """A result for one of two is MISSING_RESULT for the other, and nothing of it is kept."""
    loop = opened(asking("a", "b", tool="locate"), DONE, tools=[LOCATE])
    paused = loop.run()
    one, other = (pending.answered("here") for pending in paused.pending)

    with pytest.raises(sr.InvokeFailed) as missing:
        loop.run(continuation=paused, results=[other])

    (error,) = missing.value.errors
    assert (error.code, error.index, error.tool_call_id) == (C.MISSING_RESULT, 0, "a")
    done = loop.run(continuation=paused, results=[other, one])
    assert told(done) == [("a", "here"), ("b", "here")]


def test_a_turn_may_pause_again(opened: Opened) -> None:
    """Each pause wants its own results; those of the first are no answer to the second."""
    loop = opened(asking("a", tool="locate"), asking("b", tool="locate"), DONE, tools=[LOCATE])
    first = loop.run()
    given = [first.pending[0].answered(1)]
    second = loop.run(continuation=first, results=given)
    assert (ids(first), ids(second)) == (["a"], ["b"])

    assert second.response is not None
    assert first.response is not None
    assert second.response.turn_id == first.response.turn_id

    with pytest.raises(sr.InvokeFailed) as again:
        loop.run(continuation=first, results=given)

    assert codes(again.value) == [C.ALREADY_CONSUMED, C.MISSING_RESULT]
    done = loop.run(continuation=second, results=[second.pending[0].answered(2)])
    assert (told(done), loop.asks) == ([("a", 1), ("b", 2)], 3)


def test_an_id_that_repeats_in_a_turn_is_another_call(opened: Opened) -> None:
    """When a server repeats its ids, old results are ALREADY_CONSUMED, never the later call's."""
    ask = completion(calls=[call("locate", {"query": "a"}, "call_1")])
    loop = opened(
        ask, completion(calls=[call("locate", {"query": "b"}, "call_1")]), DONE, tools=[LOCATE]
    )
    first = loop.run()
    given = [first.pending[0].answered("at a")]
    second = loop.run(continuation=first, results=given)
    assert (ids(first), ids(second)) == (["call_1"], ["call_1-2"])

    with pytest.raises(sr.InvokeFailed) as again:
        loop.run(continuation=second, results=given)

    assert codes(again.value)[0] is C.ALREADY_CONSUMED
    done = loop.run(continuation=second, results=[second.pending[0].answered("at b")])
    assert told(done) == [("call_1", "at a"), ("call_1-2", "at b")]
    written = [turn["tool_calls"][0]["id"] for turn in done.transcript if turn.get("tool_calls")]
    assert written == ["call_1", "call_1-2"]


def test_v10_an_id_of_an_earlier_turn_of_the_conversation_is_another_call(opened: Opened) -> None:
    """No call of a run has the id of a call before it, in whichever turn that was: the later one is
    numbered.
    """
    ask = completion(calls=[call("locate", {"query": "b"}, "call_1")])
    loop = opened(ask, DONE, tools=[LOCATE])
    earlier = completion(calls=[call("locate", {"query": "a"}, "call_1")])["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": "call_1", "content": "at a"}
    before = [{"role": "user", "content": "a?"}, earlier, result, {"role": "user", "content": "b?"}]
    paused = loop.run(before)
    assert ids(paused) == ["call_1-2"]

    done = loop.run(continuation=paused, results=[paused.pending[0].answered("at b")])
    assert told(done) == [("call_1", "at a"), ("call_1-2", "at b")]
    written = [turn["tool_calls"][0]["id"] for turn in done.transcript if turn.get("tool_calls")]
    assert written == ["call_1", "call_1-2"]


def test_the_walks_of_a_pause_and_of_what_follows() -> None:
    """The first request goes the Initial way, the second the Continuation's, with its calls held to
    the rules.
    """
    loop = Loop(MIXED, DONE, tools=[spy("search", []), LOCATE])
    paused = loop.run()
    done = loop.run(continuation=paused, results=LOCATED)
    opening = [Step.REQUEST_HANDLER, Step.AGENT_CONTEXT_RESOLVER, Step.AGENT_SESSION_CREATOR]

    asked = [Step.PROMPT_CONTENT_PROVIDER_INITIALIZER, Step.REASONER, Step.LLM_CLIENT]
    assert [trace.step for trace in paused.trace] == [
        *opening,
        *asked,
        Step.REASONER,
        Step.RESPONSE_BUILDER,
    ]

    restoring = [
        Step.REQUEST_HANDLER,
        Step.CLIENT_TOOL_CALL_SESSION_RESTORER,
        Step.CLIENT_TOOL_CONTINUATION_RESOLVER,
    ]
    assert [trace.step for trace in done.trace] == [
        *restoring,
        Step.AGENT_CONTEXT_LOADER,
        *asked,
        Step.RESPONSE_BUILDER,
    ]


def test_an_approved_call_runs_here(opened: Opened) -> None:
    """A call runs only after its approval; its result replaces the decision."""
    ran: list[str] = []
    loop = opened(asking("x", tool="deliver"), DONE, tools=[approval(ran)])
    paused = loop.run()
    (pending,) = paused.pending
    assert (pending.needs_approval, json.loads(pending.arguments_json), ran) == (
        True,
        {"query": "x"},
        [],
    )

    done = loop.run(continuation=paused, results=[pending.approved()])
    assert (ran, told(done), done.answer) == (["x"], [("x", "deliver x")], "done")


def test_a_denied_call_never_runs(opened: Opened) -> None:
    """The model is told that nobody allowed it, with the reason that was given."""
    ran: list[str] = []
    loop = opened(asking("x", "y", tool="deliver"), DONE, tools=[approval(ran)])
    paused = loop.run()
    one, other = paused.pending
    done = loop.run(continuation=paused, results=[one.denied("too dear"), other.approved()])
    assert ran == ["y"]
    assert told(done)[0] == ("x", {"error": {"type": "ApprovalDenied", "message": "too dear"}})
    assert told(done)[1] == ("y", "deliver y")


def test_three_kinds_of_calls_in_one_reply(opened: Opened) -> None:
    """The server's, the client's and the allowed one's results stand in the order of the calls,
    each under its id.
    """
    ran: list[str] = []
    kinds = [
        call("deliver", {"query": "d"}, "d"),
        call("search", {"query": "s"}, "s"),
        call("locate", {"query": "l"}, "l"),
    ]
    loop = opened(completion(calls=kinds), DONE, tools=[approval(ran), spy("search", ran), LOCATE])
    paused = loop.run()
    deliver, locate = paused.pending
    assert (ran, deliver.needs_approval, locate.needs_approval) == (["s"], True, False)

    done = loop.run(continuation=paused, results=[locate.answered("here"), deliver.approved()])
    assert told(done) == [("d", "deliver d"), ("s", "search s"), ("l", "here")]
    assert ran == ["s", "d"]


def test_an_approved_call_runs_once_whatever_fails_after_it(opened: Opened) -> None:
    """The model's API fails behind it: the client submits again, and what ran is not run again,
    even if now denied.
    """
    ran: list[str] = []
    steps = [asking("x", tool="deliver"), StatusError(500), StatusError(500), DONE]
    loop = opened(*steps, tools=[approval(ran)])
    paused = loop.run()
    (pending,) = paused.pending

    for _ in range(2):
        with pytest.raises(sr.TransportFailed):
            loop.run(continuation=paused, results=[pending.approved()])

    done = loop.run(continuation=paused, results=[pending.denied()])
    assert (ran, told(done)) == (["x"], [("x", "deliver x")])


def test_a_denial_may_be_thought_over_when_its_turn_failed(opened: Opened) -> None:
    """The call has not run, so the decision of the next submit counts."""
    ran: list[str] = []
    loop = opened(asking("x", tool="deliver"), StatusError(500), DONE, tools=[approval(ran)])
    paused = loop.run()
    (pending,) = paused.pending
    with pytest.raises(sr.TransportFailed):
        loop.run(continuation=paused, results=[pending.denied()])
    done = loop.run(continuation=paused, results=[pending.approved()])
    assert (ran, told(done)) == (["x"], [("x", "deliver x")])


def test_a_failed_transport_loses_no_results(opened: Opened) -> None:
    """The same results go on when the API answers again: a failed turn leaves its calls waiting."""
    loop = opened(asking("l", tool="locate"), StatusError(503), DONE, tools=[LOCATE])
    paused = loop.run()
    with pytest.raises(sr.TransportFailed):
        loop.run(continuation=paused, results=LOCATED)
    assert told(loop.run(continuation=paused, results=LOCATED)) == [("l", "here")]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_gives_the_calls_back(interrupt: type[BaseException]) -> None:
    """Ctrl-C while the model is asked passes through; the results can be sent again at once."""
    loop = Loop(asking("l", tool="locate"), interrupt(), DONE, tools=[LOCATE])
    paused = loop.run()
    with pytest.raises(interrupt):
        loop.run(continuation=paused, results=LOCATED)
    assert loop.run(continuation=paused, results=LOCATED).answer == "done"


def test_a_cancelled_task_gives_the_calls_back() -> None:
    """The async twin is interrupted by cancelling its task."""
    loop = Loop(
        asking("l", tool="locate"),
        asyncio.CancelledError(),
        DONE,
        tools=[LOCATE],
        asynchronous=True,
    )
    paused = loop.run()

    with pytest.raises(asyncio.CancelledError):
        loop.run(continuation=paused, results=LOCATED)

    assert loop.run(continuation=paused, results=LOCATED).answer == "done"


def test_the_text_channel_pauses_as_well(opened: Opened) -> None:
    """It has no call ids, so each call gets a new one; the model sees the tool's name."""
    text = '{"tool":"locate","args":{"query":"l"}}'
    loop = opened(
        *[completion(text)] * 2, completion('{"answer":"done"}'), tools=[LOCATE], channel="text"
    )
    first = loop.run()
    second = loop.run(continuation=first, results=[first.pending[0].answered("here")])
    assert first.pending[0].tool_call_id != second.pending[0].tool_call_id

    done = loop.run(continuation=second, results=[second.pending[0].answered("there")])
    said = [turn["content"] for turn in done.transcript[2:] if turn["role"] == "user"]
    assert (said, done.answer) == (["Result of locate: here", "Result of locate: there"], "done")


def test_a_cancelled_turn_leaves_its_calls_waiting(opened: Opened) -> None:
    """Cancelling while a run goes on is no failure: nothing is raised, and the results can be sent
    again.
    """
    ran: list[str] = []
    loop = opened(asking("x", tool="deliver"), DONE, tools=[approval(ran)])
    paused = loop.run()
    given = [paused.pending[0].approved()]
    cancelled = loop.run(continuation=paused, results=given, cancel=lambda: bool(ran))
    assert (cancelled.is_cancelled, cancelled.is_paused, loop.asks, ran) == (True, False, 1, ["x"])

    with pytest.raises(sr.ContractError):
        loop.run(continuation=cancelled, results=given)

    assert told(loop.run(continuation=paused, results=given)) == [("x", "deliver x")]
    assert ran == ["x"]


def test_a_follow_up_goes_on_with_the_conversation(opened: Opened) -> None:
    """``after`` a run the model sees everything that was said, tool results included, and the next
    words.
    """
    loop = opened(asking("s"), DONE, asking("s"), completion("more"), tools=[spy("search", [])])
    first = loop.run()
    second = loop.run("and then?", after=first)
    assert second.transcript[: len(first.transcript)] == first.transcript
    assert second.transcript[len(first.transcript)] == {"role": "user", "content": "and then?"}
    assert (second.answer, first.answer) == ("more", "done")
    assert loop.script.messages[2] == second.transcript[: len(first.transcript) + 1]


def test_a_conversation_goes_on_in_one_way(opened: Opened) -> None:
    """A second follow-up on the same run is stale: the session has gone on since."""
    loop = opened(DONE, DONE, tools=[LOCATE])
    first = loop.run()
    loop.run("one", after=first)
    with pytest.raises(sr.InvokeFailed) as stale:
        loop.run("other", after=first)
    assert (codes(stale.value), loop.asks) == ([C.STALE_TURN], 2)


def test_a_follow_up_gives_up_what_was_pending(opened: Opened) -> None:
    """Words instead of results: the model sees what was said and run, the rest as abandoned;
    results come too late.
    """
    loop = opened(MIXED, DONE, tools=[spy("search", []), LOCATE])
    paused = loop.run()
    done = loop.run("never mind", after=paused)
    assert loop.script.messages[1] == done.transcript[:-1]

    assert [turn["role"] for turn in done.transcript[2:]] == [
        "assistant",
        "tool",
        "tool",
        "user",
        "assistant",
    ]
    (_, search), (_, locate) = told(done)
    assert (search, locate["error"]["type"]) == ("search s", "Abandoned")

    with pytest.raises(sr.InvokeFailed) as stale:
        loop.run(continuation=paused, results=LOCATED)

    assert codes(stale.value) == [C.STALE_TURN]


def test_a_follow_up_that_failed_gives_nothing_up(opened: Opened) -> None:
    """Until the new words have their answer, the calls wait as before."""
    loop = opened(asking("l", tool="locate"), StatusError(500), DONE, tools=[LOCATE])
    paused = loop.run()
    with pytest.raises(sr.TransportFailed):
        loop.run("never mind", after=paused)
    assert told(loop.run(continuation=paused, results=LOCATED)) == [("l", "here")]


@pytest.mark.parametrize("other", [{"org": "theirs"}, {"user": "stranger"}], ids=["org", "user"])
def test_a_session_is_its_users(opened: Opened, other: dict[str, str]) -> None:
    """For anybody else there is no such session, whether to answer its calls or to go on with its
    words.
    """
    loop = opened(asking("l", tool="locate"), DONE, tools=[LOCATE])
    paused = loop.run(org="ours", user="me")
    for way in (
        {"continuation": paused, "results": LOCATED},
        {"after": paused, "messages": "and?"},
    ):
        with pytest.raises(sr.InvokeFailed) as unknown:
            loop.run(**{"org": "ours", "user": "me", **way, **other})
        assert (codes(unknown.value), loop.asks) == ([C.NOT_FOUND], 1)

    assert loop.run(continuation=paused, results=LOCATED, org="ours", user="me").answer == "done"


def test_turns_that_begin_at_once_are_not_both_kept() -> None:
    """Of two concurrent follow-ups, the second to end is a SessionConflict, and is not stored."""
    store = MemorySessionStore()
    first = Loop(DONE, tools=[LOCATE], store=store).run()
    inner = Loop(completion("inner"), tools=[LOCATE], store=store)

    def search(query: str) -> str:
        """Wait until another turn has passed."""
        return str(inner.run(query, after=first).answer)

    outer = Loop(asking("s"), DONE, tools=[sr.Tool.from_function(search)], store=store)
    with pytest.raises(sr.InvokeFailed) as conflict:
        outer.run("outer", after=first)

    assert codes(conflict.value) == [C.SESSION_CONFLICT]
    assert first.response is not None
    session = store.session(first.response.session_id)
    assert session is not None

    assert [turn["content"] for turn in session.messages[len(USER) :]] == ["done", "s", "inner"]


def test_words_that_utf8_cannot_spell_do_not_break_a_pause(opened: Opened) -> None:
    """Text of a model beside its calls is not judged; half of a surrogate pair in it is replaced,
    and kept so.
    """
    loop = opened(
        completion("so \ud800", calls=[call("locate", {"query": "l"}, "l")]), DONE, tools=[LOCATE]
    )
    paused = loop.run()
    assert paused.transcript[-1]["content"] == "so \N{REPLACEMENT CHARACTER}"
    assert loop.run(continuation=paused, results=LOCATED).answer == "done"


def test_v14_a_large_result_of_a_client_is_json_all_the_same(opened: Opened) -> None:
    """A result of 5 MB is taken, and cut for the model as a tool's own result would be."""
    loop = opened(asking("l", tool="locate"), DONE, tools=[LOCATE])
    paused = loop.run()
    done = loop.run(continuation=paused, results=[paused.pending[0].answered("x" * 5_000_000)])
    assert done.answer == "done"
    told = loop.script.requests[-1]["messages"][-1]["content"]
    assert 1_000 < len(told) < 20_000
