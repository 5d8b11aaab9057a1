"""What frameworks go on with over the Responses API.

The API takes their requests, also where a call cannot go back.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import strictreply as sr
from support.scripted import JSONObject, Server, completion
from support.scripted_responses import FLAT_SEARCH, call_item, reasoning_item, response, text_item

GOOD = {"query": "tea"}
TWICE = '{"query": "tea", "query": "poison"}'
DIGITS: JSONObject = {
    "type": "custom",
    "name": "digits",
    "format": {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"},
}


def custom_item(text: str, call_id: str) -> JSONObject:
    """Return a call of a tool that takes free text."""
    told = {
        "id": f"ctc_{call_id}",
        "type": "custom_tool_call",
        "call_id": call_id,
        "name": "digits",
        "input": text,
    }
    return told | {"status": "completed"}


def sent_by(server: Server) -> list[Any]:
    """Return what was sent, request by request."""
    return [json.loads(body) for body in server.bodies]


def ask(server: Server, **keywords: Any) -> Any:
    """Make one call of a wrapped client."""
    responses: Any = sr.wrap(server.client()).responses
    return responses.create(
        **{"model": "m", "input": "find tea", "tools": [FLAT_SEARCH]} | keywords
    )


@pytest.mark.parametrize(
    ("bad", "good", "tool"),
    [
        (call_item("search", TWICE), call_item("search", GOOD), FLAT_SEARCH),
        (
            call_item("search", '{"query": "te', status="incomplete"),
            call_item("search", GOOD),
            FLAT_SEARCH,
        ),
        (
            call_item("search", f'{{"query": 1, "x": "{"x" * 9_000}"}}'),
            call_item("search", GOOD),
            FLAT_SEARCH,
        ),
        (call_item("sea rch!", GOOD), call_item("search", GOOD), FLAT_SEARCH),
    ],
    ids=["key twice", "cut", "long", "no name"],
)
def test_a_call_that_goes_back_as_text_leaves_no_item_behind(
    bad: JSONObject, good: JSONObject, tool: JSONObject
) -> None:
    """A call that servers do not take back is text in the re-ask: neither it nor its thought is an
    item there.
    """
    server = Server(response(reasoning_item(), bad), response(good))
    ask(server, tools=[tool])
    items = sent_by(server)[1]["input"]
    told = [(item["role"], type(item["content"])) for item in items]
    assert told == [("user", str), ("assistant", str), ("user", str)]


@pytest.mark.parametrize(
    "keywords", [{}, {"conversation": "conv_1"}], ids=["sent", "kept by the server"]
)
def test_a_call_of_a_custom_tool_goes_back_as_a_call_and_is_answered(keywords: Any) -> None:
    """The correction of its text is the output of a custom tool, also where the server has the call
    already.
    """
    server = Server(
        response(reasoning_item(), custom_item("abc", "call_a")),
        response(custom_item("12", "call_b")),
    )
    ask(server, tools=[DIGITS], **keywords)
    items = sent_by(server)[1]["input"]
    (output,) = [item for item in items if item.get("type") == "custom_tool_call_output"]
    assert output["call_id"] == "call_a"

    assert [item["type"] for item in items if item.get("id")] == (
        [] if keywords else ["reasoning", "custom_tool_call"]
    )


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "custom", "name": "digits"},
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "custom", "name": "digits"}],
        },
    ],
)
def test_a_choice_of_a_custom_tool_is_sent_and_judged_as_one(choice: Any) -> None:
    """A tool that takes free text is chosen by its own type, and a reply without its call is
    refused.
    """
    server = Server(response(text_item("12")), response(custom_item("12", "call_b")))
    ask(server, tools=[DIGITS, FLAT_SEARCH], tool_choice=choice)
    first, second = sent_by(server)
    assert [first["tool_choice"], second["tool_choice"]] == [choice, choice]


def test_a_custom_tool_is_chosen_over_chat_completions_too() -> None:
    """The same choice in the form of chat completions."""
    called = {"id": "call_a", "type": "custom", "custom": {"name": "digits", "input": "12"}}
    choice: JSONObject = {"type": "custom", "custom": {"name": "digits"}}
    grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[0-9]+"}}
    tool = {"type": "custom", "custom": {"name": "digits", "format": grammar}}

    server = Server(completion(calls=[called]))
    completions: Any = sr.wrap(server.client()).chat.completions
    messages = [{"role": "user", "content": "x"}]
    completions.create(model="m", messages=messages, tools=[tool], tool_choice=choice)

    assert sent_by(server)[0]["tool_choice"] == choice


@pytest.mark.parametrize("arguments", ['{"query": 1}', TWICE], ids=["as it came", "as text"])
def test_a_conversation_that_the_server_keeps_is_answered_and_gets_whole_replies(
    arguments: str,
) -> None:
    """Each call that the server has gets its output, and the reply that comes out is the one that
    it has kept.
    """
    server = Server(
        response(reasoning_item(), call_item("search", arguments)),
        response(call_item("search", GOOD, "call_b")),
    )
    made = ask(server, conversation="conv_1")
    items = sent_by(server)[1]["input"]
    assert [item["call_id"] for item in items if item.get("type") == "function_call_output"] == [
        "call_a"
    ]
    assert not [item for item in items if item.get("type") in {"function_call", "reasoning"}]
    assert [item.call_id for item in made.output] == ["call_b"]
