"""The faults of the form; the laws that hold for all of them are in ``test_reply_laws``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strictreply.contract._tool import Tool
from strictreply.testing._steps import CANARY
from strictreply.testing.faults import _shapes as shapes
from strictreply.testing.faults._catalogue import FaultNotMade

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
SEARCH = Tool.from_json_schema("search", SCHEMA)
PING = Tool.from_json_schema("ping", {"type": "object", "properties": {}})
ARGS = {"q": "tea"}


def message_of(name: str, place: Any, declared: Any = SEARCH, args: Any = ARGS) -> dict[str, Any]:
    """Give the message that one fault writes."""
    message: dict[str, Any] = getattr(shapes, name)(declared, place=place, args=args).served["choices"][0]["message"]
    return message


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("positional_arguments", ["tea"]),
        ("arguments_in_array", [{"q": "tea"}]),
        ("double_encoded_arguments", '{"q": "tea"}'),
        ("string_arguments", f"the {CANARY}"),
        ("number_arguments", 42),
        ("boolean_arguments", True),
        ("null_arguments", None),
    ],
)
def test_arguments_have_another_form_in_both_channels(name: str, args: Any) -> None:
    """The same JSON stands for the arguments in a native call and in the union."""
    assert json.loads(message_of(name, "call")["tool_calls"][0]["function"]["arguments"]) == args
    assert json.loads(message_of(name, "union")["content"]) == {"tool": "search", "args": args}


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("arguments_not_encoded", {"name": "search", "arguments": {"q": "tea"}}),
        ("arguments_in_parts", {"name": "search", "arguments": [{"type": "text", "text": '{"q": "tea"}'}]}),
        ("arguments_member_null", {"name": "search", "arguments": None}),
        ("arguments_member_missing", {"name": "search"}),
    ],
)
def test_the_arguments_of_a_native_call_are_no_text(name: str, function: dict[str, Any]) -> None:
    """The member that should be text is something else, and the call is whole otherwise."""
    assert message_of(name, "call")["tool_calls"] == [{"id": "call_1", "type": "function", "function": function}]


@pytest.mark.parametrize(
    ("name", "union"),
    [
        ("missing_tool", {"args": ARGS}),
        ("missing_args", {"tool": "search"}),
        ("empty_union", {}),
        ("bare_arguments", ARGS),
        ("union_keys_in_other_case", {"Tool": "search", "Args": ARGS}),
        ("flat_arguments", {"tool": "search", "q": "tea"}),
        ("name_and_arguments", {"name": "search", "arguments": ARGS}),
        ("name_and_parameters", {"name": "search", "parameters": ARGS}),
        ("tool_as_key", {"search": ARGS}),
        ("union_in_response", {"response": {"tool": "search", "args": ARGS}}),
        ("union_in_array", [{"tool": "search", "args": ARGS}]),
        ("tool_as_object", {"tool": {"name": "search"}, "args": ARGS}),
        ("nulls_beside_answer", {"tool": None, "args": None, "answer": f"it is {CANARY}"}),
        ("empty_answer", {"answer": ""}),
        ("null_answer", {"answer": None}),
    ],
)
def test_the_union_has_another_form(name: str, union: Any) -> None:
    """The content is JSON, and not the union."""
    assert json.loads(message_of(name, "union")["content"]) == union


@pytest.mark.parametrize(
    ("name", "answer"),
    [("answer_in_object", {"answer": ARGS}), ("answer_in_array", [ARGS]), ("double_encoded_answer", '{"q": "tea"}')],
)
def test_a_structured_answer_has_another_form(name: str, answer: Any) -> None:
    """The content is JSON, and holds the good answer elsewhere."""
    assert json.loads(message_of(name, "json", SCHEMA)["content"]) == answer


def test_a_form_that_the_schema_takes_is_no_fault() -> None:
    """An answer that may be any text may be one that holds JSON."""
    text = {"type": "string"}
    assert not list(shapes.double_encoded_answer.all_for(text, place="json"))
    with pytest.raises(FaultNotMade):
        shapes.double_encoded_answer(text, place="json")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("content_in_parts", [{"type": "text", "text": '{"q": "tea"}'}]),
        ("content_not_encoded", ARGS),
        ("content_number", 42),
    ],
)
def test_the_content_is_no_text(name: str, content: Any) -> None:
    """The member that should be text is something else."""
    assert message_of(name, "json", SCHEMA)["content"] == content


def test_flat_arguments_of_a_tool_without_any_are_made_up() -> None:
    """A tool without parameters has nothing to write flat: the model invents a member."""
    fault = shapes.flat_arguments(PING)
    assert fault.invented[:1] == (CANARY,)
    assert fault.place == "union"
