"""The shown schema states what is enforced: which objects are closed.

It does not where that would refuse what is accepted.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from pydantic import BaseModel

import strictreply as sr
from strictreply.schema import Schema
from support.scripted import USER, Server, completion

OBJECT: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
CLOSED = {**OBJECT, "additionalProperties": False}
TUPLE_07 = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "properties": {"t": {"items": [OBJECT]}},
}


def inside(schema: Any, **definitions: Any) -> dict[str, Any]:
    """Put a schema under a member of an object."""
    return {"type": "object", "properties": {"in": schema}} | (
        {"$defs": definitions} if definitions else {}
    )


def told(schema: Any, **definitions: Any) -> dict[str, Any]:
    """Return the schema as the model is shown it: closed."""
    return inside(schema, **definitions) | {"additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({}, {"additionalProperties": False}),
        ({"type": "object"}, {"type": "object", "additionalProperties": False}),
        (OBJECT, CLOSED),
        (inside(OBJECT), told(CLOSED)),
        (inside({"type": "array", "items": OBJECT}), told({"type": "array", "items": CLOSED})),
        (inside({"prefixItems": [OBJECT]}), told({"prefixItems": [CLOSED]})),
        (
            inside({"anyOf": [OBJECT, {"type": "null"}]}),
            told({"anyOf": [CLOSED, {"type": "null"}]}),
        ),
        (
            inside({"oneOf": [OBJECT, {"type": "null"}]}),
            told({"oneOf": [CLOSED, {"type": "null"}]}),
        ),
        (inside({"$ref": "#/$defs/A"}, A=OBJECT), told({"$ref": "#/$defs/A"}, A=CLOSED)),
        (inside({"additionalProperties": OBJECT}), told({"additionalProperties": CLOSED})),
        (
            {**OBJECT, "patternProperties": {"^x": OBJECT}},
            {**CLOSED, "patternProperties": {"^x": CLOSED}},
        ),
    ],
)
def test_a_closed_object_is_shown_as_one(schema: dict[str, Any], shown: dict[str, Any]) -> None:
    """``additionalProperties: false`` ends each object that admits no other members, and nothing
    else is changed.
    """
    before = copy.deepcopy(schema)
    compiled = Schema.compile(schema)
    assert json.dumps(compiled.shown, sort_keys=True) == json.dumps(shown, sort_keys=True)
    assert schema == before == compiled.source
    without = json.dumps(compiled.shown).replace(', "additionalProperties": false', "")
    assert without == json.dumps(schema) or not schema
    assert Schema.compile(schema, extra="schema").shown == schema
    assert Schema.compile(compiled.shown, extra="schema").check({"unknown": 1})


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [OBJECT, {"properties": {"b": {}}}]},
        {**OBJECT, "allOf": [{"properties": {"b": {}}}]},
        {"anyOf": [OBJECT], "properties": {"b": {}}},
        {**OBJECT, "if": {"required": ["a"]}, "then": {"properties": {"b": {}}}},
        {"properties": {"a": {}}, "required": ["a", "b"]},
        {**OBJECT, "additionalProperties": True},
        {**OBJECT, "additionalProperties": {"type": "string"}},
        {**OBJECT, "unevaluatedProperties": {"type": "string"}},
    ],
)
def test_what_would_refuse_too_much_is_not_said(schema: dict[str, Any]) -> None:
    """Where several schemas describe one object, or the schema speaks for itself, it is shown as it
    was written.
    """
    compiled = Schema.compile(inside(schema))
    assert compiled.shown == told(schema)
    if "additionalProperties" not in schema and "unevaluatedProperties" not in schema:
        assert compiled.check({"in": {"a": 1, "b": 2}}) == ()
        assert compiled.check({"in": {"a": 1, "b": 2, "c": 3}})


def test_a_schema_that_says_all_is_shown_as_it_is() -> None:
    """Nothing is copied where there is nothing to add, and an older draft keeps its own words."""
    compiled = Schema.compile(told(CLOSED))
    assert compiled.shown is compiled.source
    shown: Any = Schema.compile(TUPLE_07).shown
    assert shown["properties"]["t"] == {"items": [OBJECT]}
    assert shown["additionalProperties"] is False


class Line(BaseModel):
    """A line of an order."""

    sku: str
    note: str | None = None


class Order(BaseModel):
    """An order of several lines."""

    lines: list[Line]
    by_name: dict[str, Line] = {}


def place(order: Order, urgent: bool = False) -> None:
    """Place an order."""


def objects(value: Any) -> list[dict[str, Any]]:
    """Find every schema of an object with members, at any depth."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [each for part in inner for each in objects(part)]
    return (
        [value, *found]
        if isinstance(value, dict) and isinstance(value.get("properties"), dict)
        else found
    )


STRICT = {
    "type": "function",
    "function": {"name": "s", "description": "d", "parameters": inside(OBJECT), "strict": True},
}
MCP = {"name": "m", "inputSchema": inside(OBJECT)}
TOOLS = [place, Order, STRICT, MCP, sr.Tool.from_json_schema("j", inside(OBJECT))]


@pytest.mark.parametrize("tool", TOOLS, ids=["function", "model", "openai", "mcp", "schema"])
def test_every_way_to_declare_a_tool_tells_what_is_held(tool: Any) -> None:
    """Each object of a definition says so, whether the tool is declared or given with a call."""
    ways: list[tuple[list[Any], dict[str, Any]]] = [([tool], {}), ([], {"tools": [tool]})]
    for declared, given in ways:
        before = json.dumps(tool, default=str)
        server = Server(completion("hello"))
        client = sr.wrap(server.client(), tools=declared)
        client.reply(model="m", messages=USER, **given)

        (sent,) = json.loads(server.bodies[0])["tools"]
        assert all(each["additionalProperties"] is False for each in objects(sent))
        assert len(objects(sent)) > 1
        assert json.dumps(tool, default=str) == before

        opened = sr.wrap(server.client(), tools=declared, extra="schema")
        opened.reply(model="m", messages=USER, **given)
        (written,) = json.loads(server.bodies[1])["tools"]
        assert json.dumps(sent).replace(', "additionalProperties": false', "") == json.dumps(
            written
        )


def test_a_definition_is_sent_as_it_was_given_but_for_that() -> None:
    """Order and members of a definition stay, and it is one object however often it is sent."""
    tool = sr.Tool.of(STRICT)
    assert json.dumps(tool.definition).replace(', "additionalProperties": false', "") == json.dumps(
        STRICT
    )
    assert sr.Tool.of(copy.deepcopy(STRICT)).definition is tool.definition


def test_an_answer_is_asked_for_as_it_is_held() -> None:
    """A model, and a schema in the caller's own ``response_format``, are sent closed;
    ``extra="schema"`` as written.
    """
    own: dict[str, Any] = {
        "type": "json_schema",
        "json_schema": {"name": "n", "strict": True, "schema": inside(OBJECT)},
    }
    before = copy.deepcopy(own)

    extras: list[Any] = ["forbid", "schema"]
    for extra in extras:
        server = Server(completion('{"in": {"a": 1}}'))
        sr.wrap(server.client(), extra=extra).reply(model="m", messages=USER, response_format=own)
        sent = json.loads(server.bodies[0])["response_format"]
        assert sent == (
            before
            if extra == "schema"
            else {**own, "json_schema": {**own["json_schema"], "schema": told(CLOSED)}}
        )

    assert own == before
    server = Server(completion('{"lines": []}'))
    sr.wrap(server.client(), answer=Order).reply(model="m", messages=USER)
    sent = json.loads(server.bodies[0])["response_format"]["json_schema"]["schema"]
    assert all(each["additionalProperties"] is False for each in objects(sent))

    server = Server(completion('{"tool": "Order", "args": {"lines": []}}'))
    sr.wrap(server.client(), tools=[Order], channel="text").reply(model="m", messages=USER)
    assert server.bodies[0].count(b'\\"additionalProperties\\":false') >= 3


def test_a_correction_shows_what_is_held() -> None:
    """The schema in a correction is the one that was sent."""
    bad = completion(
        calls=[
            {
                "id": "a",
                "type": "function",
                "function": {"name": "j", "arguments": '{"in": {"b": 1}}'},
            }
        ]
    )
    server = Server(bad)
    policy = sr.RetryPolicy(max_retries=2)

    with pytest.raises(sr.ReplyRejected):
        sr.wrap(server.client(), tools=[TOOLS[-1]], policy=policy).reply(model="m", messages=USER)

    last = json.loads(server.bodies[-1])["messages"][-1]["content"]
    assert '"additionalProperties":false' in last
