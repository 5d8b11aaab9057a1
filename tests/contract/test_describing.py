"""How a contract is told to a model.

The schema of its replies must agree with the verdicts on them.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel

from strictreply import Contract, Tool, Valid
from strictreply.core.text import compact
from support.scripted import OTHER_SCHEMA, SCHEMA, USER


class Node(BaseModel):
    """A tree, whose schema has references of its own."""

    name: str
    children: list[Node] = []


TOOLS = [
    Tool.from_json_schema("search", SCHEMA, "Find things."),
    Tool.from_json_schema("weather", OTHER_SCHEMA),
    Node,
]

REPLIES = [
    '{"tool":"search","args":{"query":"x"}}',
    '{"tool":"search","args":{"query":1}}',
    '{"tool":"search","args":{"query":"x","limit":99}}',
    '{"tool":"search"}',
    '{"tool":"bogus","args":{}}',
    '{"tool":"weather","args":{"city":"x"}}',
    '{"tool":"Node","args":{"name":"a","children":[{"name":"b","children":[]}]}}',
    '{"tool":"Node","args":{"name":"a","children":[{"name":7}]}}',
    '{"answer":"x"}',
    '{"answer":""}',
    '{"answer":7}',
    '{"answer":"x","z":1}',
    '{"answer":"x","tool":"search","args":{"query":"x"}}',
    '{"tool":"final_answer","args":{"answer":"x"}}',
    '{"tool":"final_answer","args":{"answer":7}}',
    "[]",
    "null",
]


def terms_of(choice: str = "auto", **declared: Any) -> Contract:
    """Compile the terms of the text channel."""
    return Contract(**{"tools": TOOLS, "channel": "text", **declared}).with_choice(choice)


def first_request(terms: Contract) -> Any:
    """Return the first request by these terms."""
    return terms.next_request({"model": "m", "messages": USER}).request


def instructions(terms: Contract) -> str:
    """Return what the text channel tells the model of these terms."""
    return str(first_request(terms)["messages"][0]["content"])


def union_schema(terms: Contract) -> Any:
    """Return the schema that the instructions end with."""
    return json.loads(instructions(terms).splitlines()[-1])


def answer_tool(contract: Contract) -> Any:
    """Return the definition of ``final_answer`` in the request."""
    return first_request(contract)["tools"][-1]


@pytest.mark.parametrize("style", ["union", "tool"])
@pytest.mark.parametrize("choice", ["auto", "required", "none"])
@pytest.mark.parametrize("reply", REPLIES)
def test_the_schema_shown_agrees_with_the_verdict(style: Any, choice: str, reply: str) -> None:
    """By the reference implementation, the union's schema accepts what the text channel accepts."""
    terms = terms_of(choice, answer_style=style)
    shown = jsonschema.Draft202012Validator(union_schema(terms)).is_valid(json.loads(reply))
    assert shown == isinstance(terms.check(reply), Valid)


@pytest.mark.parametrize(
    ("choice", "style", "admitted"),
    [
        ("auto", "union", True),
        ("none", "union", True),
        ("required", "union", False),
        ("search", "union", False),
        ("auto", "tool", True),
        ("required", "tool", True),
        ("none", "tool", True),
        ("search", "tool", False),
    ],
)
def test_an_answer_is_described_where_it_may_be_given(
    choice: str, style: Any, admitted: bool
) -> None:
    """An answer as a tool counts as a call; a demanded tool leaves room for neither."""
    terms = terms_of(choice, answer_style=style)
    by_tool = '{"tool":"final_answer","args":{"answer":"x"}}'
    reply = '{"answer":"x"}' if style == "union" else by_tool
    assert isinstance(terms.check(reply), Valid) is admitted
    assert ("answer" in json.dumps(union_schema(terms))) is admitted


def test_instructions_hold_the_schema_as_json() -> None:
    """The last line of the instructions is the union's schema, compact."""
    terms = terms_of()
    assert instructions(terms).splitlines()[-1] == compact(union_schema(terms))
    assert [*union_schema(terms)] == ["anyOf"]
    assert "Find things." in instructions(terms)


def test_a_narrowed_contract_describes_one_tool() -> None:
    """The terms of a scoped ask speak of no other tool and of no answer."""
    schema = union_schema(terms_of().only("weather"))
    assert [branch["properties"]["tool"]["const"] for branch in schema["anyOf"]] == ["weather"]


def test_the_final_answer_tool_is_a_tool_definition() -> None:
    """The tool ``final_answer`` can be declared like any other."""
    tool = Tool.from_openai(answer_tool(Contract(tools=TOOLS, answer_style="tool")))
    assert tool.name == "final_answer"
    assert tool.parameters.check({"answer": "x"}) == ()
    assert tool.parameters.check({"answer": 7}) != ()


def test_the_response_format_holds_the_answers_schema() -> None:
    """Its name and its schema are those of the answer's type."""
    shown = first_request(Contract(answer=Node))["response_format"]
    assert shown["type"] == "json_schema"
    assert shown["json_schema"]["name"] == "Node"


def test_prompts_are_compact() -> None:
    """JSON in a prompt has no spaces, and letters stay letters."""
    assert compact({"a": [1, "é"]}) == '{"a":[1,"é"]}'


class Item(BaseModel):
    """One line of an order."""

    sku: str


class Order(BaseModel):
    """An answer with a definition of its own."""

    items: list[Item]


def test_an_answers_definitions_are_found_from_where_they_stand() -> None:
    """References in a structured answer resolve in the tool that carries it, and in the union of
    the text channel.
    """
    answered = {"answer": {"items": [{"sku": "a"}]}}
    wrong = {"answer": {"items": [{"sku": 1}]}}
    by_tool = Contract(answer=Order, answer_style="tool")
    parameters: Any = answer_tool(by_tool)["function"]
    for schema, wrap in (
        (parameters["parameters"], lambda value: value),
        (
            union_schema(by_tool.replace(channel="text")),
            lambda value: {"tool": "final_answer", "args": value},
        ),
        (union_schema(Contract(answer=Order, channel="text")), lambda value: value),
    ):
        validator = jsonschema.Draft202012Validator(schema)
        assert validator.is_valid(wrap(answered))
        assert not validator.is_valid(wrap(wrong))


def test_a_schema_that_refers_to_its_own_root_stays_itself_in_the_union() -> None:
    """``#`` in a tool's schema means that schema, also where it is shown inside another."""
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    schema = union_schema(Contract(tools=[{"name": "walk", "parameters": tree}], channel="text"))
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid({"tool": "walk", "args": {"next": {"next": {}}}})
    assert not validator.is_valid({"tool": "walk", "args": {"next": 1}})


def test_schemas_with_names_of_their_own_do_not_meet() -> None:
    """An answer's own ``$id`` stays with its definitions, and a tool called ``answer`` is not the
    answer.
    """
    own = {
        "$id": "https://example.org/inv",
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
    }
    own |= {"$defs": {"A": {"type": "integer"}}}
    by_tool = Contract(answer=own, answer_style="tool")
    parameters: Any = answer_tool(by_tool)["function"]
    assert jsonschema.Draft202012Validator(parameters["parameters"]).is_valid({"answer": {"a": 1}})

    tool = {
        "type": "object",
        "properties": {"b": {"$ref": "#/$defs/B"}},
        "$defs": {"B": {"type": "string"}},
    }
    both = Contract(tools=[{"name": "answer", "parameters": tool}], answer=Order, channel="text")
    validator = jsonschema.Draft202012Validator(union_schema(both))
    assert validator.is_valid({"tool": "answer", "args": {"b": "x"}})

    assert validator.is_valid({"answer": {"items": []}})
