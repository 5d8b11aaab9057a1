"""Runs of the tool loop over the Messages API, against a server as strict as the API."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import strictreply as sr
from strictreply.loop import RunEnded, ToolFinished, ToolStarted
from strictreply.loop.values import LineStatus, PipelineStep
from strictreply.pipeline import AgentContext, PipelineObserver
from support.anthropic_rules import RulesServer
from support.claude_runs import ASKED, THINKING, Total, client, refund, search
from support.messages import text, use

BOTH = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
THOUGHT = {"type": "thinking", "thinking": "hm"}
FOUND = '["tea","tea"]'
CALLED = use({"query": "tea", "limit": 2})
SERVER_USE = {"type": "server_tool_use", "id": "srvtoolu_a", "name": "web_search", "input": {}}
SERVER_RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_a", "content": []}
PICK: dict[str, Any] = {
    "name": "pick",
    "input_schema": {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "required": ["x"],
    },
}


def ran(server: RulesServer, *, is_async: bool, given: Any = None, **keywords: Any) -> Any:
    """Return the run of a question."""
    guarded = client(server, is_async=is_async, **given or {})
    asked = {"messages": "find tea", **ASKED, **keywords}
    if not is_async:
        return sr.run(guarded, **asked)

    async def run() -> object:
        async with guarded:
            return await sr.arun(guarded, **asked)

    return asyncio.run(run())


def result(id_: str, content: str) -> dict[str, Any]:
    """Return the block with the result of a call."""
    return {"type": "tool_result", "tool_use_id": id_, "content": content}


@BOTH
def test_a_run_asks_and_runs_tools_until_there_is_an_answer(is_async: bool) -> None:
    """A wrong call is retried before it is run; the conversation has none of the correction."""
    wrong = use({"query": 1}, "toolu_0")
    with RulesServer([wrong], [CALLED], [text("done")]) as server:
        run = ran(server, is_async=is_async)

    assert server.refused == []
    assert run.answer == "done"
    assert run.usage.total_tokens == 45
    corrected = server.asked[2]["messages"][1]["content"][0]
    assert corrected | {"id": ""} == CALLED | {"id": ""}
    assert server.asked[2]["messages"] == [
        {"role": "user", "content": "find tea"},
        {"role": "assistant", "content": [corrected]},
        {"role": "user", "content": [result(corrected["id"], FOUND)]},
    ]
    assert run.transcript == [
        *server.asked[2]["messages"],
        {"role": "assistant", "content": [text("done")]},
    ]


@BOTH
def test_the_results_of_parallel_calls_are_one_turn(is_async: bool) -> None:
    """All results of a reply stand in the one turn behind it, in the order of its calls."""
    calls = [text("I look."), CALLED, use({"query": "milk", "limit": 1}, "toolu_b")]
    with RulesServer(calls, [text("done")]) as server:
        run = ran(server, is_async=is_async, given={"parallel": True})

    assert (run.answer, server.refused) == ("done", [])
    assert server.asked[1]["messages"][1:] == [
        {"role": "assistant", "content": calls},
        {
            "role": "user",
            "content": [result("toolu_a", FOUND), result("toolu_b", '["milk"]')],
        },
    ]


@BOTH
def test_a_tool_that_fails_is_told_as_an_error(is_async: bool) -> None:
    """The result of a call that failed has ``is_error``, as the API writes it; others have not."""

    @sr.tool
    def broken(query: str) -> str:
        """Fail."""
        raise ValueError(query)

    calls = [CALLED, use({"query": "x"}, "toolu_b", name="broken")]
    given = {"parallel": True, "tools": [search, broken]}
    with RulesServer(calls, [text("done")]) as server:
        run = ran(server, is_async=is_async, given=given)

    assert (run.answer, server.refused) == ("done", [])
    good, failed = server.asked[1]["messages"][-1]["content"]
    assert "is_error" not in good
    assert failed["is_error"] is True


@BOTH
def test_thoughts_stay_before_their_calls(is_async: bool) -> None:
    """Each signed thought goes back where it stood, byte for byte."""
    second = [THOUGHT, use({"query": "milk"}, "toolu_b")]
    with RulesServer([THOUGHT, CALLED], second, [THOUGHT, text("done")]) as server:
        run = ran(server, is_async=is_async, **THINKING)

    assert (run.answer, server.refused) == ("done", [])
    sent = [message["content"] for message in server.sent]
    turns = [turn for turn in server.asked[2]["messages"] if turn["role"] == "assistant"]
    assert [turn["content"] for turn in turns] == sent[:2]
    assert run.transcript[-1]["content"] == sent[2]


@BOTH
@pytest.mark.parametrize(
    ("own", "sent"),
    [
        ({}, "Be brief."),
        ({"system": "You sell."}, "You sell.\n\nBe brief."),
        (
            {"system": [text("You sell.") | {"cache_control": {"type": "ephemeral"}}]},
            [text("You sell.") | {"cache_control": {"type": "ephemeral"}}, text("Be brief.")],
        ),
    ],
)
def test_the_instructions_of_an_agent_are_the_system_prompt(
    is_async: bool, own: Any, sent: Any
) -> None:
    """They stand behind the caller's own in each request, whose cache keeps its place."""
    agent = AgentContext(id="shop", instructions="Be brief.")
    with RulesServer([CALLED], [text("done")]) as server:
        run = ran(server, is_async=is_async, agent=agent, **own)

    assert (run.answer, server.refused) == ("done", [])
    assert [asked["system"] for asked in server.asked] == [sent, sent]
    assert server.asked[1]["messages"][0] == {"role": "user", "content": "find tea"}


@BOTH
@pytest.mark.parametrize("kind", ["any", "tool"])
def test_the_choice_is_of_the_first_request_alone(is_async: bool, kind: str) -> None:
    """A forced call would be made for ever."""
    choice = {"type": kind} | ({"name": "search"} if kind == "tool" else {})
    with RulesServer([CALLED], [text("done")]) as server:
        run = ran(server, is_async=is_async, tool_choice=choice)

    assert (run.answer, server.refused) == ("done", [])
    first, second = (asked["tool_choice"] for asked in server.asked)
    assert first == choice | {"disable_parallel_tool_use": True}
    assert second == {"type": "auto", "disable_parallel_tool_use": True}


@BOTH
@pytest.mark.parametrize("place", ["client", "call"])
def test_a_typed_answer_is_corrected(is_async: bool, place: str) -> None:
    """The answer behind the tools is of its type, whoever names it."""
    given = {"answer": Total} if place == "client" else {}
    asked = {"response_format": Total} if place == "call" else {}
    with RulesServer([CALLED], [text('{"n": 1}')], [text('{"n": 4}')]) as server:
        run = ran(server, is_async=is_async, given=given, **asked)

    assert (run.answer, server.refused) == (Total(n=4), [])
    assert all("format" in request["output_config"] for request in server.asked)
    assert [len(reply.attempts) for reply in run.replies] == [1, 2]


@BOTH
def test_a_paused_turn_goes_on_inside_of_a_run(is_async: bool) -> None:
    """What the server's own tool found is in the turn whose call is run."""
    paused = {"content": [text("I look."), SERVER_USE], "stop_reason": "pause_turn"}
    tools = [search, {"type": "web_search_20250305", "name": "web_search"}]
    with RulesServer(paused, [SERVER_RESULT, CALLED], [text("done")]) as server:
        run = ran(server, is_async=is_async, tools=tools)

    assert (run.answer, server.refused) == ("done", [])
    assert server.asked[1]["messages"][-1]["role"] == "assistant"
    assert server.asked[2]["messages"][1:] == [
        {"role": "assistant", "content": [text("I look."), SERVER_USE, SERVER_RESULT, CALLED]},
        {"role": "user", "content": [result("toolu_a", FOUND)]},
    ]


@BOTH
def test_the_events_of_a_run_come_as_they_happen(is_async: bool) -> None:
    """Text of a reply that is refused is retracted; tools run behind the whole reply."""
    script = (
        [text("let me look"), use({"query": 1}, "toolu_0")],
        [CALLED],
        [text("done and done")],
    )
    events: list[Any] = []
    with RulesServer(*script) as server:
        guarded = client(server, is_async=is_async)

        async def watch() -> None:
            async with guarded:
                events.extend([event async for event in sr.arun_stream(guarded, "find", **ASKED)])

        if is_async:
            asyncio.run(watch())
        else:
            events.extend(sr.run_stream(guarded, "find", **ASKED))

    assert server.refused == []
    assert all(asked["stream"] for asked in server.asked)
    kinds = [type(event) for event in events]
    order = [sr.Retracted, ToolStarted, ToolFinished, RunEnded]
    assert sorted(order, key=kinds.index) == order
    ended = kinds.index(ToolFinished)
    shown = "".join(one.delta for one in events[ended:] if isinstance(one, sr.Provisional))
    assert shown == events[-1].run.answer == "done and done"


@BOTH
@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("approved", [True, False])
def test_a_run_waits_for_a_decision_and_goes_on(
    is_async: bool, store: str, approved: bool, tmp_path: Path
) -> None:
    """It goes on from the JSON of its response, and then to the next turn of the conversation."""
    calls = [THOUGHT, CALLED, use({"order": 4}, "toolu_b", "refund")]
    path = tmp_path / "sessions.sqlite"
    given = {"tools": [search, refund], "parallel": True}
    with RulesServer(calls, [text("done")], [text("well")]) as server:

        def go(sessions: Any, **keywords: Any) -> Any:
            keywords |= {"sessions": sr.SQLiteSessionStore(path)} if store == "sqlite" else sessions
            return ran(server, is_async=is_async, given=given, **THINKING, **keywords)

        paused = go({})
        (call,) = paused.pending
        decision = call.approved() if approved else call.denied("too late")
        sessions = {"sessions": paused.sessions}
        answered = go(
            sessions,
            messages=None,
            continuation=paused.response.to_json(),
            results=[decision],
        )
        after = go(sessions, messages="and now", after=answered.response.to_json())

    assert server.refused == []
    assert (answered.answer, after.answer) == ("done", "well")
    told = server.asked[1]["messages"][-1]
    assert [block["tool_use_id"] for block in told["content"]] == ["toolu_a", "toolu_b"]
    denied = {"error": {"type": "ApprovalDenied", "message": "too late"}}
    content = told["content"][1]["content"]
    assert content == "order 4 refunded" if approved else json.loads(content) == denied
    assert server.asked[2]["messages"][1]["content"] == server.sent[0]["content"]
    assert server.asked[2]["messages"][-1] == {"role": "user", "content": "and now"}


@BOTH
def test_calls_of_the_client_are_answered_or_abandoned(is_async: bool) -> None:
    """A tool in the API's form without a function waits; a new message settles what waits."""
    given = {"tools": [search, PICK], "parallel": True}
    calls = [text("I ask."), CALLED, use({"x": 3}, "toolu_b", "pick")]
    with RulesServer(calls, [text("done")], [text("well")]) as server:
        paused = ran(server, is_async=is_async, given=given)
        answer = paused.pending[0].answered({"picked": 3})
        going_on = {"messages": None, "continuation": paused, "results": [answer]}
        assert ran(server, is_async=is_async, given=given, **going_on).answer == "done"

    assert server.refused == []
    assert server.asked[1]["messages"][-1]["content"][1] == result("toolu_b", '{"picked":3}')

    with RulesServer(calls, [text("well")]) as server:
        paused = ran(server, is_async=is_async, given=given)
        after = ran(server, is_async=is_async, given=given, messages="leave it", after=paused)

    assert (after.answer, server.refused) == ("well", [])
    blocks = server.asked[1]["messages"][-2]["content"]
    assert [block["tool_use_id"] for block in blocks] == ["toolu_a", "toolu_b"]
    assert json.loads(blocks[1]["content"])["error"]["type"] == "Abandoned"


@BOTH
def test_an_id_that_repeats_is_numbered_as_the_api_takes_it(is_async: bool) -> None:
    """The API takes letters, digits, ``_`` and ``-`` in an id, and no id twice."""
    with RulesServer([THOUGHT, CALLED], [THOUGHT, CALLED], [text("done")]) as server:
        run = ran(server, is_async=is_async, **THINKING)

    assert (run.answer, server.refused) == ("done", [])
    results = [turn["content"][0] for turn in server.asked[2]["messages"][2::2]]
    assert results == [result("toolu_a", FOUND), result("toolu_a-2", FOUND)]


@BOTH
def test_the_last_reply_is_told_so_behind_the_results(is_async: bool) -> None:
    """A reminder is a turn of the user behind the results, which the API takes."""
    with RulesServer([CALLED], [text("done")]) as server:
        run = ran(server, is_async=is_async, loop=sr.LoopPolicy(max_iterations=2))

    assert (run.answer, server.refused) == ("done", [])
    told, reminder = server.asked[1]["messages"][-2:]
    assert told["content"] == [result("toolu_a", FOUND)]
    assert reminder["content"].startswith("This is the last reply")
    assert reminder not in run.transcript


@BOTH
def test_calls_in_the_text_are_run(is_async: bool) -> None:
    """In the text channel results are the user's words, and no block of a call is sent."""
    asked = text('{"tool": "search", "args": {"query": "tea", "limit": 2}}')
    with RulesServer([asked], [text('{"answer": "done"}')]) as server:
        run = ran(server, is_async=is_async, given={"channel": "text"})

    assert (run.answer, server.refused) == ("done", [])
    assert "tools" not in server.asked[0]
    assert "JSON Schema" in server.asked[0]["system"]
    words = {"role": "user", "content": f"Result of search: {FOUND}"}
    assert server.asked[1]["messages"][-1] == words


@BOTH
def test_each_step_of_a_run_is_validated(is_async: bool) -> None:
    """The validator of AGN-036 walks a run over Messages, a paused and resumed one included."""
    calls = [THOUGHT, CALLED, use({"order": 4}, "toolu_b", "refund")]
    given = {"tools": [search, refund], "parallel": True}
    with RulesServer(calls, [text("done")]) as server:
        paused = ran(
            server, is_async=is_async, given=given, observer=PipelineObserver(), **THINKING
        )
        decision = paused.pending[0].approved()
        run = ran(
            server,
            is_async=is_async,
            given=given,
            observer=PipelineObserver(),
            messages=None,
            continuation=paused,
            results=[decision],
            **THINKING,
        )

    assert (run.answer, server.refused) == ("done", [])
    trace = (*paused.trace, *run.trace)
    assert {one.step for one in trace} >= {PipelineStep.LLM_CLIENT, PipelineStep.RESPONSE_BUILDER}
    assert {one.status for one in trace} == {LineStatus.COMPLETED}


@BOTH
def test_an_answer_that_is_a_call_is_text_in_the_next_turn(is_async: bool) -> None:
    """A call without a result would be refused; what it answered is kept as words."""

    def answering(number: int, id_: str) -> list[Any]:
        return [THOUGHT, use({"answer": {"n": number}}, id_, "final_answer")]

    given = {"answer": Total, "answer_style": "tool"}
    replies = [[THOUGHT, CALLED], answering(1, "toolu_b"), answering(4, "toolu_c")]
    with RulesServer(*replies, answering(5, "toolu_d")) as server:
        run = ran(server, is_async=is_async, given=given, **THINKING)
        after = ran(
            server, is_async=is_async, given=given, messages="and now", after=run, **THINKING
        )

    assert (run.answer, after.answer, server.refused) == (Total(n=4), Total(n=5), [])
    turns = server.asked[3]["messages"]
    assert turns[1]["content"] == server.sent[0]["content"]
    assert turns[3:] == [
        {"role": "assistant", "content": [text('{"n":4}')]},
        {"role": "user", "content": "and now"},
    ]
