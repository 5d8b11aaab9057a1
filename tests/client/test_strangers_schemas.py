"""The laws of schemas that a request of the API's own form declares: none ends the request."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

import strictreply as sr
from support.loops import some
from support.scripted import USER, Server, call, completion
from support.scripted_responses import call_item, response

UNRESOLVABLE = {"type": "object", "properties": {"a": {"$ref": "elsewhere.json"}}}
CONTRADICTORY = {
    "type": "object",
    "properties": {"a": {"type": "array", "enum": ["x", "y"]}},
    "required": ["a"],
}
# no value fits it, which only the search for an example shows
UNSATISFIABLE = {
    "type": "object",
    "properties": {"a": {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}},
    "required": ["a"],
}
UNKNOWN_VOCABULARY = {"$schema": "https://example.com/own", "type": "object"}
EXPLODING: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/d0"}},
    "$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 4} for n in range(30)}
    | {"d30": {"type": "string"}},
}
NO_OBJECT = {"type": "string"}
BROKEN = {"type": "object", "properties": {"a": {"minimum": "1"}}}
UNHELD = [UNRESOLVABLE, CONTRADICTORY, UNKNOWN_VOCABULARY, EXPLODING, NO_OBJECT, BROKEN]
NO_SCHEMAS: list[Any] = [True, False, [], ["a"], "none", "", 3, 0, 2.5]
SLOW = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"^(a)\1$"}}}
BAD = completion(None, [call("strange", '{"a": ')])
GOOD = completion(None, [call("strange", {"a": 1})])


def declared(schema: Any, name: str = "strange") -> list[Any]:
    """A request's tools, of which one has this schema."""
    return [{"type": "function", "function": {"name": name, "parameters": schema}}]


@contextmanager
def warned() -> Generator[list[str]]:
    """Collect the words of every ContractWarning."""
    words: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield words
        assert not any("/strictreply/" in warning.filename for warning in caught)

    words += [str(one.message) for one in caught if one.category is sr.ContractWarning]


@pytest.mark.parametrize("schema", [*UNHELD, *NO_SCHEMAS, UNSATISFIABLE], ids=repr)
def test_a_strange_schema_ends_no_request(schema: Any) -> None:
    """Under the drop-in calls are held to the name and a JSON object, and the schema is sent as it
    came; the warning comes once per client and tool.
    """
    server = Server(BAD, GOOD)
    client: Any = sr.wrap(server.client())
    with warned() as words:
        for _ in range(3):
            made = client.chat.completions.create(model="m", messages=USER, tools=declared(schema))
            assert made.choices[0].message.tool_calls[0].function.arguments == '{"a": 1}'

    assert len(server.bodies) == 4
    assert json.loads(server.bodies[0])["tools"] == declared(schema)
    assert len(words) == 1
    assert "'strange'" in words[0]
    assert "JSON object" in words[0]

    with warned() as others:
        client = sr.wrap(Server(GOOD).client())
        client.chat.completions.create(model="m", messages=USER, tools=declared(schema))
    assert others == words


@pytest.mark.parametrize("schema", UNHELD)
def test_a_schema_of_ours_is_refused(schema: Any) -> None:
    """Declared by the program itself, the same schema is an error that names the tool."""
    ways: list[Any] = [
        lambda: sr.wrap(Server(GOOD).client(), tools=declared(schema)),
        lambda: sr.Contract(tools=declared(schema)),
        lambda: sr.Tool.from_json_schema("strange", schema),
        lambda: sr.Tool.from_mcp({"name": "strange", "inputSchema": schema | {"type": "object"}}),
    ]
    for declare in some(ways[:3] if schema is NO_OBJECT else ways):
        with pytest.raises(sr.ContractError, match="strange"):
            declare()


def test_an_unsatisfiable_schema_of_ours_is_warned_of() -> None:
    """Declared by the program itself, a schema without a known example is one warning."""
    with warned() as words:
        assert sr.Contract(tools=declared(UNSATISFIABLE)).unchecked == frozenset()

    assert len(words) == 1
    assert words[0].endswith("possibly no value fits it; /a: must be more than 1")


@pytest.mark.parametrize("schema", [*UNHELD, *NO_SCHEMAS], ids=repr)
def test_what_is_given_to_reply_is_checked(schema: Any) -> None:
    """A tool of reply, stream or run is declared to us, so that its schema has to be checkable; the
    error says that create is lenient.
    """
    client: Any = sr.wrap(Server().client())
    request: Any = {"model": "m", "messages": USER, "tools": declared(schema)}
    ways: list[Any] = [
        lambda: client.reply(**request),
        lambda: client.exchange(**request),
        lambda: next(client.stream(**request)),
        lambda: sr.run(client, USER, model="m", tools=declared(schema)),
    ]
    for ask in ways:
        with pytest.raises(sr.ContractError, match=r"strange.*create\(\) sends this one") as caught:
            ask()
        assert str(caught.value).count("(at ") == bool(caught.value.path)


def test_a_broken_declaration_is_refused_by_every_door() -> None:
    """No door is said to take what none takes."""
    client: Any = sr.wrap(Server().client())
    nameless: Any = [{"type": "function", "function": {"parameters": {}}}]
    for ask in (client.reply, client.chat.completions.create):
        with pytest.raises(sr.ContractError, match="must have a name") as caught:
            ask(model="m", messages=USER, tools=nameless)
        assert "create()" not in str(caught.value)


@pytest.mark.parametrize("member", [{"description": 3}, {"strict": "yes"}, {"strict": []}])
def test_other_members_of_a_strange_definition_are_passed_on(member: Any) -> None:
    """A member of another type than the API's is sent as it came, and the schema is held."""
    closed = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tools = declared(closed | {"additionalProperties": False})
    tools[0]["function"] |= member
    wrong = completion(None, [call("strange", {"a": "x"})])
    server = Server(wrong, GOOD)
    client: Any = sr.wrap(server.client())
    made = client.chat.completions.create(model="m", messages=USER, tools=tools)

    assert made.choices[0].message.tool_calls[0].function.arguments == '{"a": 1}'
    sent = [json.loads(body)["tools"] for body in server.bodies]
    assert sent[0] == tools
    assert len(sent) == 2


@pytest.mark.parametrize("schema", NO_SCHEMAS, ids=repr)
def test_what_is_no_schema_passes_by_the_other_api(schema: Any) -> None:
    """A flat tool of the Responses API is sent and held in the same way, streamed or not."""
    flat = [{"type": "function", "name": "strange", "parameters": schema}]
    server = Server(response(call_item("strange", '{"a": 1}')))
    client: Any = sr.wrap(server.client())
    with warned() as words:
        item = client.responses.create(model="m", input="x", tools=flat).output[0]

    assert (item.name, item.arguments) == ("strange", '{"a": 1}')
    assert json.loads(server.bodies[0])["tools"] == flat
    assert len(words) == 1
    assert "'strange'" in words[0]


@pytest.mark.parametrize("schema", [*NO_SCHEMAS, None], ids=repr)
def test_what_is_no_schema_of_an_answer_ends_no_request(schema: Any) -> None:
    """A response_format without a schema to check is held to JSON, and sent as it came."""
    server = Server(completion('{"a": 1}'))
    client: Any = sr.wrap(server.client())
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    with warned() as words:
        made = client.chat.completions.create(model="m", messages=USER, response_format=wanted)

    assert made.choices[0].message.content == '{"a": 1}'
    assert json.loads(server.bodies[0])["response_format"] == wanted
    assert len(words) <= 1


def test_other_doors_are_the_same() -> None:
    """Async and streamed calls, the Responses API, low doors and next_request end no request."""
    tools = declared(UNRESOLVABLE)
    request: Any = {"model": "m", "messages": USER, "tools": tools}
    flat = [{"type": "function", "name": "strange", "parameters": UNRESOLVABLE}]

    with warned() as words:
        client: Any = sr.wrap(Server(BAD, GOOD).async_client())
        made = asyncio.run(client.chat.completions.create(**request))
        assert made.choices[0].message.tool_calls[0].function.name == "strange"

        client = sr.wrap(Server(response(call_item("strange", '{"a": 1}'))).client())
        item = client.responses.create(model="m", input="x", tools=flat).output[0]
        assert (item.name, item.arguments) == ("strange", '{"a": 1}')

        client = sr.wrap(Server(BAD, GOOD).client())
        made = client.post("/chat/completions", body=request, cast_to=dict[str, Any])
        assert made["choices"][0]["message"]["tool_calls"][0]["id"] == "call_a"

        contract = sr.Contract()
        asked = contract.next_request(request)
        again = contract.next_request(asked.request or {}, BAD)
        assert again.request is not None
        assert contract.next_request(again.request, GOOD).completion == GOOD

    assert len(words) == 4
    assert len(set(words)) == 1


def test_an_unheld_pattern_is_warned_of_once() -> None:
    """A pattern that cannot be held leaves the rest held, with one warning of tool and place."""
    good = completion(None, [call("strange", {"a": "aa"})])
    server = Server(GOOD, good)
    client: Any = sr.wrap(server.client())
    with warned() as words:
        for _ in range(2):
            client.chat.completions.create(model="m", messages=USER, tools=declared(SLOW))

    assert len(server.bodies) == 3
    assert len(words) == 1
    assert "'strange'" in words[0]
    assert "/properties/a/pattern" in words[0]


def test_a_strange_answer_ends_no_request() -> None:
    """A response_format that cannot be checked is held to JSON of its type, and sent as it came."""
    server = Server(completion("none"), completion('{"a": 1}'))
    client: Any = sr.wrap(server.client())
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": UNRESOLVABLE}}
    with warned() as words:
        made = client.chat.completions.create(model="m", messages=USER, response_format=wanted)

    assert made.choices[0].message.content == '{"a": 1}'
    assert json.loads(server.bodies[0])["response_format"] == wanted
    assert len(words) == 1
    assert "/properties/a/$ref" in words[0]

    server = Server(completion('{"a": 1}'))
    client = sr.wrap(server.client())
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": UNSATISFIABLE}}
    with warned() as words:
        made = client.chat.completions.create(model="m", messages=USER, response_format=wanted)

    assert made.choices[0].message.content == '{"a": 1}'
    assert len(words) == 1
    assert words[0].endswith("possibly no value fits it; /a: must be more than 1")
