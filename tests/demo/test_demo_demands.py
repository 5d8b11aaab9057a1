"""Reading what a request demands of the reply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strictreply.testing._demo.demands import Demands, read_demands

PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOLS = [
    {"type": "function", "function": {"name": "f", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "g"}},
]
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
ANSWER = {"type": "object", "properties": {"answer": {"type": "string"}}}
CALL = {"type": "object", "properties": {"tool": {"const": "f"}, "args": PARAMETERS}}


def read(*, system: str = "", **request: Any) -> Demands:
    """Read a request."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "hi"}]
    return read_demands({"messages": messages} | request, {"known": EMPTY})


def test_tools_are_read_natively() -> None:
    """Parameters come by name; a tool without any has none."""
    assert read(tools=TOOLS).tools == {"f": PARAMETERS, "g": EMPTY}
    assert read(tools=TOOLS).place == "call"


@pytest.mark.parametrize(
    ("request_", "choice", "names", "parallel"),
    [
        ({}, "auto", ["f", "g"], True),
        ({"parallel_tool_calls": False}, "auto", ["f", "g"], False),
        ({"tool_choice": "required"}, "required", ["f", "g"], True),
        ({"tool_choice": {"type": "function", "function": {"name": "g"}}}, "g", ["f", "g"], False),
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"tools": TOOLS[1:]}}}, "auto", ["g"], True),
    ],
)
def test_choices_are_read(request_: dict[str, Any], choice: str, names: list[str], parallel: bool) -> None:
    """Every spelling of ``tool_choice`` comes out as a word or a name."""
    demands = read(tools=TOOLS, **request_)
    assert (demands.choice, list(demands.tools), demands.parallel) == (choice, names, parallel)


def test_without_tools_none_is_called() -> None:
    """A request without tools demands an answer."""
    assert read() == Demands(choice="none")


@pytest.mark.parametrize(
    ("forms", "choice", "names"),
    [([CALL, ANSWER], "auto", ["f"]), ([CALL], "required", ["f"]), ([ANSWER], "none", [])],
)
def test_the_union_is_read_from_the_instructions(forms: list[Any], choice: str, names: list[str]) -> None:
    """The JSON Schema of the text channel says which tools and answers there are."""
    demands = read(system=f"Be kind.\nReply with JSON.\n{json.dumps({'anyOf': forms})}")
    assert (demands.place, demands.choice, list(demands.tools)) == ("union", choice, names)


def test_the_answer_of_a_union_may_have_a_schema() -> None:
    """An answer that is no string is structured, and called by its title."""
    document = {"type": "object", "title": "Invoice"}
    demands = read(system=json.dumps({"anyOf": [{"properties": {"answer": document}}]}))
    assert (demands.answer, demands.answer_name) == (document, "Invoice")


def test_instructions_in_words_are_understood() -> None:
    """Without a schema, words that ask for the union mean the scenario's tools; other JSON means nothing."""
    words = 'Reply in JSON: {"tool": "name", "args": {…}} or {"answer": "text"}'
    assert list(read(system=words).tools) == ["known"]
    assert read(system='{"anyOf": 5}\n{"anyOf": [5, {"properties": 5}]}\n{broken').place == "call"


@pytest.mark.parametrize(
    ("wanted", "name", "answer"),
    [
        (None, "", None),
        ({"type": "text"}, "", None),
        ({"type": "json_object"}, "", {"type": "object"}),
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": EMPTY}}, "n", EMPTY),
    ],
)
def test_response_formats_are_read(wanted: Any, name: str, answer: Any) -> None:
    """``response_format`` gives the answer's schema and name."""
    demands = read(response_format=wanted)
    assert (demands.answer_name, demands.answer) == (name, answer)


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
def test_limits_are_read(key: str) -> None:
    """Either spelling of the token limit counts; what is no number is no limit."""
    for limit in (7, None):
        request: dict[str, Any] = {key: limit}
        assert read(**request).max_tokens == limit
