"""Tools of the API itself beside declared ones: they are passed on, and nothing judges them."""

from __future__ import annotations

import json
from typing import Any

import pytest

import strictreply as sr
from support.openai_shapes import call, completion, message
from support.scripted import SCHEMA, USER, Server
from support.streamed_replies import ONCE

OURS: Any = {"type": "function", "function": {"name": "search", "parameters": SCHEMA}}
SERVERS: Any = {"type": "openrouter:web_search", "parameters": {"max_results": 3}}
TEXT = completion(message("It is raining."))
CALLED = completion(message(None, [call("search", '{"query": "tea"}')]), "tool_calls")
BAD = completion(message(None, [call("search", '{"colour": "red"}')]), "tool_calls")


def ask(server: Server, **request: Any) -> Any:
    """Ask through the drop-in, once."""
    client: Any = sr.wrap(server.client(), policy=ONCE)
    return client.chat.completions.create(model="m", messages=USER, **request)


@pytest.mark.parametrize("tools", [[SERVERS], [SERVERS, OURS], [OURS, SERVERS]])
@pytest.mark.parametrize("choice", [None, "auto", "required", {"type": "openrouter:web_search"}])
def test_they_are_sent_where_they_stood(tools: list[Any], choice: Any) -> None:
    """The request holds every tool at its place and the choice; a text is a reply."""
    server = Server(TEXT)
    chosen = {} if choice is None else {"tool_choice": choice}
    told = ask(server, tools=tools, **chosen)
    assert told.choices[0].message.content == "It is raining."
    (sent,) = map(json.loads, server.bodies)
    assert [one["type"] for one in sent["tools"]] == [one["type"] for one in tools]
    assert SERVERS in sent["tools"]
    assert sent.get("tool_choice", "auto") == (choice or "auto")  # "auto" is the API's default


def test_declared_tools_beside_them_are_judged() -> None:
    """A call of a declared tool is held to its schema as ever."""
    told = ask(Server(CALLED), tools=[SERVERS, OURS])
    assert told.choices[0].message.tool_calls[0].function.name == "search"
    with pytest.raises(sr.ReplyRejected) as refused:
        ask(Server(BAD), tools=[SERVERS, OURS])

    assert {issue.code for issue in refused.value.issues} == {"args.required", "args.extra_key"}


def test_a_declared_contract_takes_none_of_them() -> None:
    """Where a tool is declared to us, a kind that we cannot judge is an error."""
    with pytest.raises(sr.ContractError):
        sr.Tool.from_openai(SERVERS)


def test_responses_may_require_the_apis_own_tools() -> None:
    """A choice of "required" with the API's own tools alone is sent, and a text is a reply."""
    part = {"type": "output_text", "text": "It is raining.", "annotations": []}
    searched = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    said = {"type": "message", "id": "m", "role": "assistant", "content": [part]}
    whole = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    server = Server(whole | {"output": [searched, said]})
    client: Any = sr.wrap(server.client(), policy=ONCE)
    tools = [{"type": "web_search"}]
    told = client.responses.create(model="m", input="Rain?", tools=tools, tool_choice="required")
    assert told.output_text == "It is raining."
    assert json.loads(server.bodies[0])["tool_choice"] == "required"


@pytest.mark.parametrize(("caller", "is_read"), [({"type": "program"}, True), (None, False)])
def test_a_call_of_a_program_may_be_in_progress(caller: Any, is_read: bool) -> None:
    """In a completed response only a call that a program made may be in progress."""
    item = {"type": "function_call", "id": "fc", "call_id": "c", "name": "search"}
    item |= {"arguments": '{"query": "tea"}', "status": "in_progress"}
    if caller is not None:
        item["caller"] = caller

    whole = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    client: Any = sr.wrap(Server(whole | {"output": [item]}).client(), policy=ONCE)
    tools = [{"type": "function", "name": "search", "parameters": SCHEMA, "strict": False}]
    request = {"model": "m", "input": "Find tea.", "tools": tools}
    if is_read:
        assert client.responses.create(**request).output[0].name == "search"
    else:
        with pytest.raises(sr.TransportFailed):
            client.responses.create(**request)


SHELL = {"type": "shell_call", "id": "sh_1", "call_id": "c_1", "status": "completed", "action": {}}
SHELL_RUN = {"type": "shell_call_output", "id": "sho_1", "call_id": "c_1", "output": []}


@pytest.mark.parametrize("is_run", [True, False])
def test_a_call_that_the_server_ran_goes_back_with_its_output(is_run: bool) -> None:
    """Both stand in the next request; a call without an output is left out, for the API would
    refuse it.
    """
    part = {"type": "output_text", "text": "It ran.", "annotations": []}
    said = {"type": "message", "id": "m", "role": "assistant", "content": [part]}
    whole = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    output: list[Any] = [SHELL, SHELL_RUN, said] if is_run else [SHELL, said]
    server = Server(whole | {"output": output})
    client: Any = sr.wrap(server.client(), policy=ONCE, api="responses")
    tools = [{"type": "shell"}]
    ended = client.exchange(model="m", input="Run it.", tools=tools)
    client.exchange(model="m", input=[*ended.transcript, *USER], tools=tools)

    sent = json.loads(server.bodies[1])["input"]
    kinds = [one.get("type") for one in sent if one.get("role") in (None, "assistant")]
    assert kinds == [one["type"] for one in (output if is_run else [said])]
