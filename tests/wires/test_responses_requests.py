"""Requests of the Responses API: read into the one form, and written back.

They are retried in a form the API takes.
"""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai.types.responses import ResponseFunctionToolCall, ResponseReasoningItem

import strictreply as sr
from strictreply.core.forms import read_request
from strictreply.wires._responses_requests import written_request
from support.loops import some
from support.scripted import SCHEMA, Server
from support.scripted_responses import (
    FLAT_SEARCH,
    call_item,
    reasoning_item,
    response,
    text_item,
    wrap,
)

ASK: dict[str, Any] = {"model": "m", "input": "find tea", "tools": [FLAT_SEARCH]}
GOOD = {"query": "tea"}
WEB = {"type": "web_search"}


def inputs(server: Server) -> list[Any]:
    """Return what stood in the input of each request."""
    return [json.loads(body).get("input") for body in server.bodies]


def test_a_first_request_says_what_the_caller_said() -> None:
    """Input, instructions and what else the API takes pass as they are; the schema is closed as it
    is judged.
    """
    server = Server(response(text_item("hello")))
    given = {
        "instructions": "be brief",
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "truncation": "auto",
    }

    text = {"verbosity": "low"}
    wrap(server.client()).responses.create(
        **ASK, **given, text=text, reasoning={"effort": "low"}, max_tool_calls=3
    )
    (sent,) = map(json.loads, server.bodies)
    closed = FLAT_SEARCH["parameters"] | {"additionalProperties": False}

    (tool,) = sent.pop("tools")
    assert sent == {"model": "m", "input": "find tea", **given, "text": text} | {
        "reasoning": {"effort": "low"},
        "max_tool_calls": 3,
    }

    assert tool == {name: FLAT_SEARCH[name] for name in ("type", "name", "description")} | {
        "parameters": closed
    }


@pytest.mark.parametrize(
    "choice",
    [
        "required",
        {"type": "function", "name": "search"},
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "search"}],
        },
        {"type": "web_search"},
    ],
)
def test_a_choice_of_a_tool_is_sent_as_it_was_said(choice: Any) -> None:
    """Forced, allowed and hosted tools: the reply is held to it where it is ours."""
    server = Server(response(call_item("search", GOOD)))
    tools = [{"type": "web_search"}, FLAT_SEARCH]
    wrap(server.client()).responses.create(model="m", input="x", tools=tools, tool_choice=choice)
    (sent,) = map(json.loads, server.bodies)
    assert [tool["type"] for tool in sent["tools"]] == ["web_search", "function"]
    assert sent["tool_choice"] == choice


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_allowed_tools_are_sent_beside_all(mode: str) -> None:
    """All tools stay in the request, for prompt caches; a call of one that is not allowed is asked
    again.
    """
    weather = FLAT_SEARCH | {"name": "weather"}
    allowed = {
        "type": "allowed_tools",
        "mode": mode,
        "tools": [{"type": "function", "name": "search"}, WEB],
    }

    server = Server(response(call_item("weather", GOOD)), response(call_item("search", GOOD)))
    tools = [WEB, FLAT_SEARCH, weather]
    made = wrap(server.client()).responses.create(
        model="m", input="x", tools=tools, tool_choice=allowed
    )
    first, second = map(json.loads, server.bodies)

    assert made.output[0].name == "search"
    assert (first["tool_choice"], [tool.get("name") for tool in first["tools"]]) == (
        allowed,
        [None, "search", "weather"],
    )

    assert second["tools"][0] == WEB


@pytest.mark.parametrize("member", ["omit", "not_given"])
def test_what_is_not_given_inside_a_tool_is_not_sent(member: str) -> None:
    """The SDK's words for it may stand in a definition, too; a null that was said is sent."""
    server = Server(response(call_item("search", GOOD)))
    tool = FLAT_SEARCH | {"description": getattr(openai, member)}
    client = wrap(server.client())
    client.responses.create(model="m", input="x", tools=[tool])
    client.responses.create(model="m", input="x", tools=[FLAT_SEARCH | {"description": None}])
    one, other = (json.loads(body)["tools"][0] for body in server.bodies)
    assert "description" not in one
    assert other["description"] is None


def test_a_bad_call_goes_back_as_it_came_behind_its_thought() -> None:
    """Items stay in order, one output for each call; the thought stands right before its call."""
    thought = reasoning_item(
        encrypted_content="opaque", summary=[{"type": "summary_text", "text": "hm"}]
    )
    note = text_item("I will look.", phase="commentary")
    bad = call_item("search", {"query": 1})
    fine = call_item("search", {"query": "b"}, "call_b")
    server = Server(
        response(thought, note, bad, fine), response(call_item("search", GOOD, "call_new"))
    )
    made: Any = wrap(server.client()).responses.create(**ASK)

    user, *items = inputs(server)[1]
    assert user == {"role": "user", "content": "find tea"}
    assert items[:4] == [thought, note, bad, fine]
    assert [(item["type"], item["call_id"]) for item in items[4:]] == [
        ("function_call_output", "call_a"),
        ("function_call_output", "call_b"),
    ]
    assert [item.to_dict() for item in made.output] == [
        thought,
        note,
        bad | {"arguments": '{"query": "tea"}'},
        fine,
    ]


def test_a_mended_response_has_the_id_under_which_its_calls_are_stored() -> None:
    """A program may go on with ``previous_response_id``: the server knows the call ids under that
    id.
    """
    bad = response(call_item("search", {"query": 1}))
    made: Any = wrap(
        Server(bad, response(call_item("search", GOOD, "call_new"))).client()
    ).responses.create(**ASK)
    assert (made.id, made.output[0].call_id) == (bad["id"], "call_a")


def test_a_thought_without_its_partner_is_not_sent() -> None:
    """Of a reply that was cut while it thought, the API would refuse the thought."""
    cut = response(
        reasoning_item(), status="incomplete", incomplete_details={"reason": "max_output_tokens"}
    )
    server = Server(cut, response(call_item("search", GOOD)))
    wrap(server.client()).responses.create(**ASK, max_output_tokens=100)
    first, second = map(json.loads, server.bodies)
    assert "reasoning" not in {item.get("type") for item in second["input"]}
    assert (first["max_output_tokens"], second["max_output_tokens"]) == (100, 200)


@pytest.mark.parametrize("name", ["max_output_tokens", "max_completion_tokens", "max_tokens"])
def test_a_reply_that_ends_at_its_limit_is_cut_by_whichever_name_that_was_given(name: str) -> None:
    """The request has the API's own name; a server that relabels a cut reply is not believed."""
    server = Server(response(call_item("search", GOOD)), response(call_item("search", GOOD)))
    client: Any = sr.wrap(server.client(), api="responses", tools=[FLAT_SEARCH])
    exchange = client.exchange(model="m", input="find tea", **{name: 5})

    (cut,) = exchange.attempts[0].issues
    assert (cut.code, cut.path) == ("reply.truncated", "/usage/completion_tokens")
    assert [json.loads(body)["max_output_tokens"] for body in server.bodies] == [5, 10]


def test_where_nothing_is_stored_thoughts_need_their_writing() -> None:
    """Under ``store: false`` one without encrypted_content is left out, and its call goes without
    its own id.
    """
    bad = call_item("search", {"query": 1})
    server = Server(response(reasoning_item(), bad), response(call_item("search", GOOD)))
    wrap(server.client()).responses.create(**ASK, store=False)
    _, call, output = inputs(server)[1]
    assert call == {name: value for name, value in bad.items() if name != "id"}
    assert output["call_id"] == "call_a"


def test_a_conversation_gets_only_what_it_does_not_have() -> None:
    """An item that a conversation of the server's holds already is not sent again."""
    server = Server(
        response(call_item("search", {"query": 1})), response(call_item("search", GOOD))
    )
    wrap(server.client()).responses.create(**ASK, conversation="conv_1")
    assert [item["type"] for item in inputs(server)[1]] == ["function_call_output"]


@pytest.mark.parametrize("given", [{"input": "find tea"}, {}], ids=["input", "no input"])
def test_a_call_that_is_not_sent_back_has_an_output_where_the_server_holds_it(
    given: dict[str, Any],
) -> None:
    """Arguments that no server takes back stand in its conversation, which wants an answer to their
    call.
    """
    server = Server(
        response(call_item("search", '{"query": ')), response(call_item("search", GOOD))
    )
    wrap(server.client()).responses.create(
        model="m", tools=[FLAT_SEARCH], conversation="conv_1", **given
    )
    output, correction = inputs(server)[1]
    assert (output["type"], output["call_id"], correction["role"]) == (
        "function_call_output",
        "call_a",
        "user",
    )


def test_behind_a_previous_response_the_bad_items_are_sent() -> None:
    """The id stays the caller's: the bad reply is not part of what the program goes on with."""
    server = Server(
        response(call_item("search", {"query": 1})), response(call_item("search", GOOD))
    )
    wrap(server.client()).responses.create(**ASK, previous_response_id="resp_0")
    second = json.loads(server.bodies[1])
    assert second["previous_response_id"] == "resp_0"

    assert [item.get("type") for item in second["input"]] == [
        None,
        "function_call",
        "function_call_output",
    ]


def test_a_bad_answer_goes_back_as_the_items_it_came_in() -> None:
    """A text that breaks its schema: its items, phase included, and one correction by the user."""
    thought = reasoning_item()
    bad = text_item('{"query": 1}', phase="final_answer")
    format_ = {"type": "json_schema", "name": "found", "schema": SCHEMA}
    server = Server(response(thought, bad), response(text_item('{"query": "tea"}')))
    made: Any = wrap(server.client()).responses.create(
        model="m", input="x", text={"format": format_}
    )

    assert inputs(server)[1][1:3] == [thought, bad]
    assert made.output_text == '{"query": "tea"}'
    assert json.loads(server.bodies[0])["text"]["format"]["name"] == "found"


def test_items_of_the_sdk_are_sent_as_they_are() -> None:
    """A program that gives the output of an earlier response back, as objects."""
    earlier = [
        ResponseReasoningItem(id="rs_0", type="reasoning", summary=[]),
        ResponseFunctionToolCall(
            arguments='{"query": "a"}', call_id="call_0", name="search", type="function_call"
        ),
        {"type": "function_call_output", "call_id": "call_0", "output": "[]"},
    ]
    server = Server(
        response(call_item("search", {"query": 1}, "call_1")), response(call_item("search", GOOD))
    )
    wrap(server.client()).responses.create(model="m", input=earlier, tools=[FLAT_SEARCH])

    for sent in some(inputs(server)):
        assert [item["type"] for item in sent[:3]] == [
            "reasoning",
            "function_call",
            "function_call_output",
        ]


def test_an_id_of_the_conversation_is_not_taken_again() -> None:
    """A call with the id of an earlier item is refused once, as among messages."""
    earlier = [
        call_item("search", {"query": "a"}),
        {"type": "function_call_output", "call_id": "call_a", "output": "x"},
    ]
    server = Server(
        response(call_item("search", GOOD)), response(call_item("search", GOOD, "call_b"))
    )
    made: Any = wrap(server.client()).responses.create(
        model="m", input=earlier, tools=[FLAT_SEARCH]
    )
    assert made.output[0].call_id == "call_b"

    assert len(server.requests) == 2


def test_messages_of_chat_completions_are_written_as_items() -> None:
    """The transcript of one API can be sent by the other: calls, results and pictures."""
    picture = {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"},
    }
    messages: list[Any] = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "what is it?"}, picture]},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "tea"},
    ]

    server = Server(response(text_item("tea")))
    wrap(server.client()).reply(api="responses", model="m", messages=messages)
    system, user, said, call, output = inputs(server)[0]
    assert system == messages[0]

    assert [part["type"] for part in user["content"]] == ["input_text", "input_image"]
    assert said == {"role": "assistant", "content": "I look."}
    assert call == {"type": "function_call", "call_id": "c1", "name": "search", "arguments": "{}"}
    assert output == {"type": "function_call_output", "call_id": "c1", "output": "tea"}


def test_what_extra_body_says_is_held() -> None:
    """Input, tools and format in ``extra_body`` count as the keywords of their names."""
    server = Server(response(call_item("search", {"query": 1})))
    client = wrap(server.client(), policy=sr.RetryPolicy(max_retries=0))
    with pytest.raises(sr.ReplyRejected) as caught:
        client.responses.create(model="m", extra_body={"input": "x", "tools": [FLAT_SEARCH]})
    assert [issue.code for issue in caught.value.issues] == ["args.type"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"background": True},
        {"text": "json"},
        {"tool_choice": {"type": "function", "name": "other"}},
    ],
)
def test_what_cannot_be_judged_is_refused_before_anything_is_sent(wrong: dict[str, Any]) -> None:
    """A ContractError, and no request."""
    server = Server(response(text_item("x")))
    with pytest.raises(sr.ContractError):
        wrap(server.client()).responses.create(**ASK, **wrong)
    assert not server.requests


def test_reading_and_writing_a_request_changes_nothing() -> None:
    """A request that is read is written back, but for the form of the tools' own members."""
    request = {
        "model": "m",
        "input": [{"role": "user", "content": "x"}, {"type": "item_reference", "id": "msg_1"}],
        "tools": [
            {"type": "web_search"},
            {"type": "function", "name": "a", "parameters": {}, "strict": True},
        ],
        "tool_choice": {"type": "function", "name": "a"},
        "text": {
            "verbosity": "low",
            "format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True},
        },
        "max_output_tokens": 9,
        "parallel_tool_calls": False,
    }
    assert written_request(read_request(request)) == request


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "function": {"name": "search", "parameters": SCHEMA}},
        {"name": "search"},
        "search",
    ],
    ids=["nested", "without a type", "a name alone"],
)
def test_what_is_no_flat_tool_is_read_as_it_stands(tool: Any) -> None:
    """A declaration in another form is not made into nothing: it is judged as it was given."""
    read = read_request({"input": "x", "tools": [FLAT_SEARCH, tool]})
    assert read["tools"][1] == tool
    assert read["tools"][0]["function"]["name"] == "search"
