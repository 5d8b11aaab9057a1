"""The kit's server over the Messages API, as any client sees it: bodies, events and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import strictreply as sr
from strictreply.testing import (
    HTTPReply,
    LoopbackServer,
    ScriptedModel,
    ScriptServer,
    faults,
    mounting,
    ok,
)
from strictreply.testing._recordings import RecordedVerdict, RecordingJudge, UnreadableLine
from strictreply.testing._wire import Responder
from strictreply.testing.probing import Probe
from strictreply.testing.subjects import as_process
from strictreply.testing.survival import ProbeOutcome
from support.loops import some
from support.messages import ASKED, SEARCH, assembled, message, read, text, use

TOOL = sr.Tool.from_json_schema("search", SEARCH["input_schema"])
ASK: dict[str, Any] = {**ASKED, "tools": [SEARCH]}
URL = "http://model.invalid/v1/messages"


def posted(model: Responder, body: Any = ASK, url: str = URL, **headers: str) -> httpx.Response:
    """Post a request to a model in memory."""
    with httpx.Client(transport=mounting.transport(model, library=httpx)) as client:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return client.post(url, content=content, headers=headers)


def events_in(response: httpx.Response) -> Iterator[tuple[str, Any]]:
    """Yield the names and the data of events."""
    for one in response.text.split("\n\n")[:-1]:
        name, data = one.split("\n")
        yield name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_a_call_is_a_block() -> None:
    """A reply of the script is a message: its call a ``tool_use`` block with an object as input."""
    model = ScriptedModel(ok.call(TOOL, query="tea"))
    sent = posted(model).json()
    assert sent["content"] == [use({"query": "tea"}, "call_1")]
    assert (sent["type"], sent["role"], sent["stop_reason"]) == ("message", "assistant", "tool_use")
    assert sent["usage"] == {"input_tokens": 10, "output_tokens": 5}
    assert sent["id"].startswith("msg_")


def test_a_stream_has_the_events_of_the_api() -> None:
    """Every event is named after its type; the first piece of an input is empty."""
    model = ScriptedModel(ok.call(TOOL, query="tea"))
    told = list(events_in(posted(model, {**ASK, "stream": True})))
    assert all(name == data["type"] for name, data in some(told))
    kinds = list(dict.fromkeys(name for name, _ in told))
    assert kinds == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert told[0][1]["message"]["content"] == []
    assert told[1][1]["content_block"]["input"] == {}

    pieces = [data["delta"] for name, data in told if name == "content_block_delta"]
    assert {piece["type"] for piece in pieces} == {"input_json_delta"}
    written = [piece["partial_json"] for piece in pieces]
    assert written[0] == ""
    assert len(written) > 2
    assert json.loads("".join(written)) == {"query": "tea"}
    assert told[-2][1]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert told[-2][1]["usage"]["output_tokens"] == 5


def test_thoughts_and_a_refusal_are_those_of_the_api() -> None:
    """Thoughts come signed, in their own block; a refusal is an end with its details."""
    thinking: Any = {"role": "assistant", "content": "tea", "reasoning_content": "hm"}
    served: Any = {"choices": [{"index": 0, "message": thinking, "finish_reason": "stop"}]}
    thought, said = posted(lambda _: served).json()["content"]
    assert (thought["type"], thought["thinking"]) == ("thinking", "hm")
    assert thought["signature"]
    assert said == text("tea")

    told = list(events_in(posted(lambda _: served, {**ASK, "stream": True})))
    deltas = [data["delta"]["type"] for name, data in told if name == "content_block_delta"]
    assert list(dict.fromkeys(deltas)) == ["thinking_delta", "signature_delta", "text_delta"]

    refused = posted(ScriptedModel(faults.refusal())).json()
    assert (refused["content"], refused["stop_reason"]) == ([], "refusal")
    assert refused["stop_details"]["type"] == "refusal"


@pytest.mark.parametrize(
    ("name", "status", "kind"),
    [
        ("bad_request", 400, "invalid_request_error"),
        ("context_length_exceeded", 400, "invalid_request_error"),
        ("quota_spent", 400, "invalid_request_error"),
        ("unauthorized", 401, "authentication_error"),
        ("forbidden", 403, "permission_error"),
        ("model_not_found", 404, "not_found_error"),
        ("content_too_large", 413, "request_too_large"),
        ("rate_limited_seconds", 429, "rate_limit_error"),
        ("internal_server_error", 500, "api_error"),
        ("service_unavailable", 503, "api_error"),
        ("overloaded", 529, "overloaded_error"),
    ],
)
def test_an_error_has_the_type_of_the_api(name: str, status: int, kind: str) -> None:
    """The status is that of the fault but where the API has another; headers stay."""
    sent = posted(ScriptedModel(faults.CATALOGUE[name]()))
    assert (sent.status_code, sent.json()["type"]) == (status, "error")
    assert sent.json()["error"].keys() == {"type", "message"}
    assert sent.json()["error"]["type"] == kind
    assert ("retry-after" in sent.headers) is (
        name in {"rate_limited_seconds", "service_unavailable"}
    )


@pytest.mark.parametrize("name", ["stream_error", "stream_error_event"])
def test_an_error_in_a_stream_is_an_event(name: str) -> None:
    """It is named, as the SDK reads no other."""
    told = list(
        events_in(posted(ScriptedModel(faults.CATALOGUE[name](TOOL)), {**ASK, "stream": True}))
    )
    errors = [data for kind, data in told if kind == "error"]
    assert [error["error"]["type"] for error in errors] == ["api_error"]


@pytest.mark.parametrize(
    "body",
    [
        {name: value for name, value in ASK.items() if name != "max_tokens"},
        {**ASK, "max_tokens": 0},
        {**ASK, "messages": []},
        {**ASK, "messages": ["hi"]},
        {**ASK, "model": None},
        {**ASK, "tool_choice": {"type": "sometimes"}},
        b"{",
        [],
    ],
)
def test_what_is_no_request_is_refused_as_the_api_does(body: Any) -> None:
    """The script is not asked, and the error is one of the API."""
    model = ScriptedModel(then=ok.answer())
    sent = posted(model, body)
    assert (sent.status_code, sent.json()["error"]["type"]) == (400, "invalid_request_error")
    assert model.requests == []


def test_a_request_is_told_in_the_words_of_chat() -> None:
    """The system, the calls and each result of a turn; what is said beside results follows them."""
    turns: list[Any] = [
        {"role": "user", "content": [text("find"), text("tea")]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                text("I look."),
                use({"query": "tea"}, "call_1"),
                use({"query": "milk"}, "call_2"),
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": "3"},
                {"type": "tool_result", "tool_use_id": "call_2", "content": [text("4")]},
                text("and now?"),
            ],
        },
        {"role": "assistant", "content": "Three."},
        {"role": "user", "content": "thanks"},
    ]
    choice = {"type": "any", "disable_parallel_tool_use": True}
    schema = {"type": "object", "properties": {}}
    model = ScriptedModel(ok.answer())
    asked = {**ASK, "messages": turns, "system": [text("be brief")], "tool_choice": choice}
    config = {"format": {"type": "json_schema", "schema": schema}}
    posted(model, {**asked, "output_config": config, "stream": True})

    (request,) = model.requests
    assert [turn["role"] for turn in request.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "assistant",
        "user",
    ]
    assert [turn["content"] for turn in request.messages] == [
        "be brief",
        "find\ntea",
        "I look.",
        "3",
        "4",
        "and now?",
        "Three.",
        "thanks",
    ]
    calls = request.messages[2]["tool_calls"]
    assert [call["id"] for call in calls] == ["call_1", "call_2"]
    assert json.loads(calls[1]["function"]["arguments"]) == {"query": "milk"}
    assert [turn["tool_call_id"] for turn in request.messages[3:5]] == ["call_1", "call_2"]
    assert request.stream
    assert [tool["function"]["name"] for tool in request.tools] == ["search"]
    assert (request.body["tool_choice"], request.body["parallel_tool_calls"]) == ("required", False)
    assert request.body["response_format"]["json_schema"]["schema"]["type"] == "object"


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_script_is_corrected_over_a_socket(streamed: bool) -> None:
    """A bad reply goes back with its correction, as the API takes it; the good one is accepted."""
    model = ScriptedModel(faults.wrong_type(TOOL, "limit"), ok.call(TOOL, query="tea"))
    contract = sr.Contract(tools=[TOOL])
    step = contract.next_request(ASK, api="messages")
    with model.serve() as server, httpx.Client() as client:
        while step.request is not None:
            body = step.request | {"stream": streamed}
            sent = client.post(f"{server.base_url}/messages", json=body)
            reply = stream_told(sent.content) if streamed else sent.json()
            step = contract.next_request(step.request, reply, api="messages")

    assert isinstance(step.verdict, sr.Valid)
    assert step.verdict.reply == sr.ToolCall("search", {"query": "tea"}, "call_1")
    model.assert_spent()
    model.assert_no_echo()
    second = model.requests[1]
    assert [turn["role"] for turn in second.messages] == ["user", "assistant", "tool"]
    assert "/limit" in second.correction


def stream_told(body: bytes) -> Any:
    """Return the message that the events of a stream make."""
    return assembled(read(body)).response()


def test_a_tool_loop_comes_to_its_end() -> None:
    """Until a script is set, a good reply is served: a call, and an answer behind its result."""
    with ScriptServer() as server, httpx.Client() as client:
        url = f"{server.base_url}/messages"
        called = client.post(url, json=ASK).json()
        (block,) = called["content"]
        assert block["name"] == "search"
        result = {"type": "tool_result", "tool_use_id": block["id"], "content": "3"}
        turns = [
            *ASK["messages"],
            {"role": "assistant", "content": called["content"]},
            {"role": "user", "content": [result]},
        ]
        ended = client.post(url, json={**ASK, "messages": turns}).json()
        assert ended["stop_reason"] == "end_turn"

        refused = client.post(url, json=ASK, headers={"x-strictreply-fault": "wrong_type"}).json()
        verdict = sr.Contract(tools=[TOOL]).check(refused, api="messages")
        assert isinstance(verdict, sr.Invalid)
        assert {issue.code for issue in verdict.issues} == {"args.type"}

        other = {"x-strictreply-fault": "arguments_not_encoded"}
        why = client.post(url, json=ASK, headers=other).json()["error"]
        assert why["type"] == "invalid_request_error"
        assert "is not a fault for this request" in why["message"]
        journal = client.get(f"{server.base_url}/journal").json()
        assert {one["path"] for one in journal["requests"]} == {"/v1/messages"}


GIVEN = message(text("We have tea."))


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_message_that_is_given_is_served(streamed: bool) -> None:
    """A body of the API goes out as it is, or in events; a text and chunks are translated."""
    chunk = {"choices": [{"index": 0, "delta": {"content": "tea"}, "finish_reason": "stop"}]}
    stream = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
    replies = [json.dumps(GIVEN), "tea", *([stream] if streamed else [])]
    with ScriptServer(replies) as server, httpx.Client() as client:
        url = f"{server.base_url}/messages"
        sent = [client.post(url, json={**ASK, "stream": streamed}) for _ in replies]

    told = [stream_told(one.content) if streamed else one.json() for one in sent]
    assert told[0] == GIVEN
    assert all(one["content"] == [text("tea")] for one in some(told[1:]))


def test_what_the_api_itself_sent_is_served_as_it_is() -> None:
    """A stream of the API's own events, recorded or made, is not translated."""
    parts = (b'event: message_start\ndata: {"type": "message_start", "message": {"id": "m"}}\n\n',)
    served = HTTPReply(200, {"Content-Type": "text/event-stream"}, parts)
    assert posted(lambda _: served, {**ASK, "stream": True}).content == parts[0]


def test_the_fixtures_of_pytest(llm: ScriptedModel, llm_server: LoopbackServer) -> None:
    """``llm`` and its server answer requests of this API, too."""
    llm.script(ok.answer("tea"))
    sent = httpx.post(f"{llm_server.base_url}/messages", json=ASK)
    assert sent.json()["content"] == [text("tea")]
    assert llm.requests[0].messages == ASK["messages"]


@pytest.mark.malformed(tools=[TOOL], names=["wrong_type", "cut_at_length", "duplicate_key"])
def test_the_mark(llm: ScriptedModel) -> None:
    """Each fault that it makes is one over this API, and a good reply follows it."""
    contract = sr.Contract(tools=[TOOL])
    verdicts = [contract.check(posted(llm).json(), api="messages") for _ in range(2)]
    assert [isinstance(one, sr.Valid) for one in verdicts] == [False, True]


def test_recorded_messages_are_judged() -> None:
    """``check`` reads a message with its request, by the tools that this declares."""
    good = message(use({"query": "tea"}))
    bad = message(use({"query": 7}))
    lines = [{"request": ASK, "response": one} for one in (good, bad)]
    judge = RecordingJudge()
    told = [judge.judge(number, json.dumps(one).encode()) for number, one in enumerate(lines)]
    assert [one.recording.api for one in told if isinstance(one, RecordedVerdict)] == [
        "messages"
    ] * 2
    codes = [
        [issue.code for issue in one.verdict.issues] if isinstance(one.verdict, sr.Invalid) else []
        for one in told
        if isinstance(one, RecordedVerdict)
    ]
    assert codes == [[], ["args.type"]]

    wrong = {"request": {**ASK, "tool_choice": {"type": "sometimes"}}, "response": good}
    unread = judge.judge(3, json.dumps(wrong).encode())
    assert isinstance(unread, UnreadableLine)
    assert "tool_choice" in unread.reason


APP = """
import json
import os

import httpx

TOOLS = [%s]


def ask():
    body = {"model": "m", "max_tokens": 100, "tools": TOOLS}
    body["messages"] = [{"role": "user", "content": "find tea"}]
    sent = httpx.post(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json=body)
    (block,) = sent.raise_for_status().json()["content"]
    search(**block["input"])


def search(query, limit=5):
    assert isinstance(query, str)
"""


def test_a_probe_of_an_app_of_this_api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its faults are served as messages: what the app takes of them is found."""
    (tmp_path / "claude_app.py").write_text(APP % json.dumps(SEARCH))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    names = ["missing_required", "overloaded"]
    report = Probe("claude", as_process("claude_app:ask"), faults=names, jobs=1).run()
    assert report.complete
    outcomes = {run.fault: run.outcome for run in some(report.runs)}
    assert outcomes["missing_required"] is ProbeOutcome.CRASHED
    assert outcomes["overloaded"] is ProbeOutcome.CLEAN
