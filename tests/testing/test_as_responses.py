"""The kit over the Responses API.

What is served to chat completions is served there, with the same fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from pydantic import BaseModel
from shop_scenario import SCENARIO
from unreliable_model import UnreliableModel

import strictreply as sr
from strictreply import Tool
from strictreply.core import JSON, shape
from strictreply.testing import HTTPReply, Kind, LoopbackServer, record, writer_named
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.mounting import ScriptedClient, openai_client
from support.cli.running import run_command
from support.loops import some
from support.openai_shapes import call, completion, message
from support.testing.faults.spoken import strict_contract
from support.testing.recorded_lines import judged, lines_in
from testing.faults.test_arguments import MADE, TOOLS


class Refund(BaseModel):
    """Refund an order."""

    order: int
    reason: str
    items: list[str] = []


NO_COUNTERPART = {
    "content_in_parts": "texts are parts in this API",
    "user_role": "a call has no role here; in a message the role is refused",
    "response_of_responses_api": "it is a response",
}
"""The faults that this API does not have, and why."""

RESPONSES = writer_named("responses")
GOOD = completion(message(None, [call("search", '{"query": "tea"}')]), "tool_calls")
BAD = completion(message(None, [call("search", '{"query": 1}')]), "tool_calls")


TOOL_OF: dict[str, Tool] = {name: TOOLS[tool] for name, tool, _, _ in MADE}
"""A tool that breaks the rule of each fault of arguments."""


def replies_of(name: str) -> Iterator[tuple[sr.Contract[Any], str, JSON]]:
    """Yield the faults of an entry that are replies: what each breaks, its code, what is served.

    They are made of a tool in a call or as text, a structured answer, or nothing.
    """
    tool = TOOL_OF.get(name)
    of_place: dict[str, Any] = {
        "call": tool or Refund,
        "union": tool or Refund,
        "json": tool.definition["function"]["parameters"] if tool else Refund,
        "prose": None,
    }

    for place in CATALOGUE[name].places:
        of = of_place[place]
        for fault in CATALOGUE[name].all_for(of, place=place):
            if not isinstance(fault.served, HTTPReply):
                contract = strict_contract(of, place)
                held, _ = shape(contract, {"messages": [], **fault.needs})
                yield held, fault.code, fault.served


REPLIES = [name for name in CATALOGUE if any(replies_of(name))]


@pytest.mark.one_lane
def test_no_other_fault_is_a_reply() -> None:
    """The rest are statuses, broken connections, streams, and whole bodies in a form of their
    own.
    """
    kinds = {name: CATALOGUE[name].kind for name in CATALOGUE.keys() - {*REPLIES}}
    assert {*kinds.values()} <= {Kind.HTTP, Kind.TRANSPORT, Kind.STREAM, Kind.ENVELOPE}
    bodies = {name for name, kind in kinds.items() if kind is Kind.ENVELOPE}
    assert bodies == {"bare_message", "response_as_text", "response_of_anthropic"}


@pytest.mark.one_lane
@pytest.mark.parametrize("name", REPLIES)
def test_every_fault_is_refused_as_a_response(name: str) -> None:
    """Wherever the fault exists in this API, the gate refuses it; faults of the reply itself with
    the same code.
    """
    for contract, code, served in some(replies_of(name)):
        verdict = contract.check(RESPONSES.written(served, {}), api="responses")
        if isinstance(verdict, sr.Valid):
            assert name in NO_COUNTERPART
            continue

        codes = {issue.code for issue in verdict.issues}
        assert code in codes or code in {
            "envelope.choices",
            "call.malformed",
            "envelope.malformed",
        }


def test_a_response_is_served_where_the_path_says_so() -> None:
    """One script, two paths: plain and streamed, the SDK reads the same reply from each."""
    with (
        LoopbackServer(lambda _: GOOD) as server,
        openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as sdk,
    ):
        client: Any = sdk
        made = client.responses.create(model="m", input="hi")
        assert [(item.call_id, item.arguments) for item in made.output] == [
            ("call_1", '{"query": "tea"}')
        ]
        events = list(client.responses.create(model="m", input="hi", stream=True))
        assert [event.sequence_number for event in events] == list(range(len(events)))

        assert events[-1].response.output[0].arguments == '{"query": "tea"}'

        with pytest.raises(openai.BadRequestError):
            client.responses.create(model="m", input=[])


def test_a_script_over_responses_is_guarded() -> None:
    """A bad reply and a good one: the model that is scripted sees the correction as the result of
    the call.
    """
    seen: list[Any] = []
    replies = iter([BAD, GOOD])

    def answer(request: Any) -> Any:
        seen.append(request["messages"])
        return next(replies)

    tools = [
        sr.Tool.from_json_schema(
            "search", {"type": "object", "properties": {"query": {"type": "string"}}}
        )
    ]
    with (
        LoopbackServer(answer) as server,
        openai.OpenAI(base_url=server.base_url, api_key="none") as sdk,
    ):
        client = sr.wrap(sdk, tools=tools, api="responses")
        assert client.reply(model="m", input="hi") == sr.ToolCall(
            "search", {"query": "tea"}, "call_1"
        )

    assert [turn["role"] for turn in seen[1]] == ["user", "assistant", "tool"]


def test_a_client_without_http_has_both_apis() -> None:
    """``ScriptedClient`` answers ``responses.create``, also under ``wrap``."""
    replies = iter([BAD, GOOD])
    tools = [
        sr.Tool.from_json_schema(
            "search", {"type": "object", "properties": {"query": {"type": "string"}}}
        )
    ]
    client = sr.wrap(ScriptedClient(lambda _: next(replies)), tools=tools)
    assert client.reply(api="responses", model="m", input="hi").id == "call_1"


def test_the_unreliable_model_reads_a_conversation_of_items() -> None:
    """It makes the same mistakes on both APIs, and mends them when it is corrected."""
    question = {"role": "user", "content": "What is the weather in Oslo for the next three days?"}
    model = UnreliableModel(SCENARIO, seed=7, failure_rate=1.0)
    with (
        LoopbackServer(model) as server,
        openai.OpenAI(base_url=server.base_url, api_key="none") as client,
    ):
        found = [
            sr.wrap(client, tools=SCENARIO.tools, api=api).exchange(model="m", messages=[question])
            for api in ("chat", "responses")
        ]

    assert found[0].reply == found[1].reply
    codes = [
        [[issue.code for issue in attempt.issues] for attempt in one.attempts] for one in found
    ]
    assert codes[0] == codes[1]
    assert len(codes[0]) > 1


def test_a_conversation_of_items_is_one_of_messages() -> None:
    """Instructions, texts, calls and their results, thoughts left out."""
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "b", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
    ]
    request = RESPONSES.asked({"model": "m", "instructions": "be brief", "input": items})
    assert [turn["role"] for turn in request["messages"]] == ["system", "user", "assistant", "tool"]
    assert [one["id"] for one in request["messages"][2]["tool_calls"]] == ["c1", "c2"]


@pytest.mark.parametrize(
    "served", [GOOD, BAD, completion(message("hello")), completion(message("cut"), "length")]
)
def test_a_recorded_stream_is_the_response_it_told(tmp_path: Path, served: Any) -> None:
    """Events are put together as the API means them; what broke off is no reply."""
    asked: Any = {"model": "m", "input": "hi", "stream": True}
    whole: Any = RESPONSES.written(served, asked)
    events = RESPONSES.stream(whole, asked)
    streams = [
        HTTPReply(200, RESPONSES.stream_headers, parts, framing="chunked")
        for parts in (events, events[:-1])
    ]
    client: Any = record(openai_client(lambda _: streams.pop(0)), tmp_path / "shop.jsonl")
    for _ in range(2):
        assert list(client.responses.create(**asked))

    complete, cut = lines_in(tmp_path / "shop.jsonl")
    assert complete.response == whole
    assert cut.response != whole
    assert isinstance(sr.Contract().check(cut.response), sr.Invalid)


def test_recorded_responses_are_judged(tmp_path: Path) -> None:
    """``check`` reads a response with its request, and one alone by the tools that it repeats."""
    definition = {
        "type": "function",
        "name": "search",
        "parameters": {"properties": {"query": {"type": "string"}}},
    }
    request = {"model": "m", "input": "hi", "tools": [definition]}
    lines = [
        {"request": request, "response": RESPONSES.written(BAD, request)},
        RESPONSES.written(BAD, request),
        {"request": request, "response": RESPONSES.written(GOOD, request)},
    ]
    path = tmp_path / "recorded.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert judged(path) == [["args.type"], ["args.type"], []]
    assert run_command("check", str(path)).exit_code == 1


def test_ask_asks_by_either_api() -> None:
    """``strictreply ask --api responses`` prints the same reply."""
    with LoopbackServer(lambda _: completion(message("hello"))) as server:
        given = ["ask", "hi", "--base-url", server.base_url, "--api-key", "none", "--model", "m"]
        printed = [run_command(*given, "--api", api) for api in ("chat", "responses")]
    assert [one.exit_code for one in printed] == [0, 0]
    assert json.loads(printed[0].stdout) == json.loads(printed[1].stdout)
