"""What frameworks go on with over the Responses API: requests that this API takes, also where a call cannot go back."""

from __future__ import annotations

import json
from typing import Any

import pytest

import strictreply as sr
from scripted import JSONObject, Server
from scripted_responses import FLAT_SEARCH, call_item, reasoning_item, response

GOOD = {"query": "tea"}
TWICE = '{"query": "tea", "query": "poison"}'
DIGITS: JSONObject = {
    "type": "custom",
    "name": "digits",
    "format": {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"},
}


def custom_item(text: str, call_id: str) -> JSONObject:
    """Spell a call of a tool that takes free text."""
    told = {"id": f"ctc_{call_id}", "type": "custom_tool_call", "call_id": call_id, "name": "digits", "input": text}
    return told | {"status": "completed"}


def sent_by(server: Server) -> list[Any]:
    """What was sent, request by request."""
    return [json.loads(body) for body in server.bodies]


@pytest.mark.parametrize(
    ("bad", "good", "tool"),
    [
        (call_item("search", TWICE), call_item("search", GOOD), FLAT_SEARCH),
        (call_item("search", '{"query": "te', status="incomplete"), call_item("search", GOOD), FLAT_SEARCH),
        (call_item("search", f'{{"query": 1, "x": "{"x" * 9_000}"}}'), call_item("search", GOOD), FLAT_SEARCH),
        (call_item("sea rch!", GOOD), call_item("search", GOOD), FLAT_SEARCH),
        (custom_item("abc", "call_a"), custom_item("12", "call_b"), DIGITS),
    ],
    ids=["key twice", "cut", "long", "no name", "custom"],
)
def test_a_call_that_goes_back_as_text_leaves_no_item_behind(
    bad: JSONObject, good: JSONObject, tool: JSONObject
) -> None:
    """A call that servers do not take back is text in the re-ask: neither it nor its thought is an item there."""
    server = Server(response(reasoning_item(), bad), response(good))
    sr.wrap(server.client()).responses.create(model="m", input="find tea", tools=[tool])
    items = sent_by(server)[1]["input"]
    told = [(item["role"], type(item["content"])) for item in items]
    assert told == [("user", str), ("assistant", str), ("user", str)]
