"""The faults of the form of a reply and of its calls.

The laws that hold for all are in ``test_reply_laws``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from strictreply import Tool
from strictreply.testing import faults
from strictreply.testing.faults import FaultNotMade
from support.testing.faults.spoken import CANARY

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"q": {"type": "string"}},
    "required": ["q"],
}
SEARCH = Tool.from_json_schema("search", SCHEMA)
PING = Tool.from_json_schema("ping_all", {"type": "object", "properties": {}})
ARGS = {"q": "tea"}
GOOD = {"id": "call_1", "type": "function", "function": {"name": "ping_all", "arguments": "{}"}}


def message_of(
    name: str, place: Any = "call", declared: Any = PING, args: Any = None
) -> dict[str, Any]:
    """Return the message that one fault writes."""
    message: dict[str, Any] = getattr(faults, name)(declared, place=place, args=args).served[
        "choices"
    ][0]["message"]
    return message


def searched(name: str, place: Any, declared: Any = SEARCH) -> dict[str, Any]:
    """Return the message that one fault writes of the arguments of a search."""
    return message_of(name, place, declared, ARGS)


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
    assert json.loads(searched(name, "call")["tool_calls"][0]["function"]["arguments"]) == args
    assert json.loads(searched(name, "union")["content"]) == {"tool": "search", "args": args}


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("arguments_not_encoded", {"name": "search", "arguments": {"q": "tea"}}),
        (
            "arguments_in_parts",
            {"name": "search", "arguments": [{"type": "text", "text": '{"q": "tea"}'}]},
        ),
        ("arguments_member_null", {"name": "search", "arguments": None}),
        ("arguments_member_missing", {"name": "search"}),
    ],
)
def test_the_arguments_of_a_native_call_are_no_text(name: str, function: dict[str, Any]) -> None:
    """The member that should be text is something else, and the call is whole otherwise."""
    assert searched(name, "call")["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": function}
    ]


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
    assert json.loads(searched(name, "union")["content"]) == union


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("answer_in_object", {"answer": ARGS}),
        ("answer_in_array", [ARGS]),
        ("double_encoded_answer", '{"q": "tea"}'),
    ],
)
def test_a_structured_answer_has_another_form(name: str, answer: Any) -> None:
    """The content is JSON, and holds the good answer elsewhere."""
    assert json.loads(searched(name, "json", SCHEMA)["content"]) == answer


def test_a_form_that_the_schema_takes_is_no_fault() -> None:
    """An answer that may be any text may be one that holds JSON."""
    text = {"type": "string"}
    assert not list(faults.double_encoded_answer.all_for(text, place="json"))
    with pytest.raises(FaultNotMade):
        faults.double_encoded_answer(text, place="json")


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
    assert searched(name, "json", SCHEMA)["content"] == content


def test_flat_arguments_of_a_tool_without_any_are_made_up() -> None:
    """A tool without parameters has nothing to write flat: the model invents a member."""
    fault = faults.flat_arguments(PING)
    assert fault.invented[:1] == (CANARY,)
    assert fault.place == "union"


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("unknown_tool", f"lookup_{CANARY}"),
        ("near_miss_tool", "ping_alll"),
        ("tool_in_other_case", "pingAll"),
        ("namespaced_tool", "functions.ping_all"),
        ("leaked_token_in_tool", "ping_all<|channel|>commentary"),
        ("tool_with_blank", "ping_all "),
        ("tool_with_zero_width_space", "ping_all\u200b"),
        ("doubled_tool", "ping_allping_all"),
        ("call_expression_as_tool", f'ping_all("{CANARY}")'),
        ("template_as_tool", f"{{{{{CANARY}}}}} {{0}} %s ${{x}}"),
        ("empty_tool_name", ""),
        ("null_tool_name", None),
        ("number_as_tool_name", 0),
    ],
)
def test_another_name_stands_for_the_tool_in_both_channels(name: str, tool: Any) -> None:
    """Only the name changes, in a native call and in the union."""
    function = {"name": tool, "arguments": "{}"}
    assert message_of(name)["tool_calls"] == [GOOD | {"function": function}]
    assert json.loads(message_of(name, "union")["content"]) == {"tool": tool, "args": {}}


@pytest.mark.parametrize(
    ("name", "spelled"), [("ping", "PING"), ("Ping", "pING"), ("get_it_now", "getItNow")]
)
def test_a_name_in_other_case_is_another_name(name: str, spelled: str) -> None:
    """Names of several words are written as in another language, others in capitals or without."""
    tool = Tool.from_json_schema(name, {"type": "object"})
    assert (
        message_of("tool_in_other_case", declared=tool)["tool_calls"][0]["function"]["name"]
        == spelled
    )


def test_a_name_without_letters_has_no_other_case() -> None:
    """A fault that would change nothing is not made."""
    assert not list(
        faults.tool_in_other_case.all_for(Tool.from_json_schema("42", {"type": "object"}))
    )


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("missing_call_id", {"type": "function", "function": GOOD["function"]}),
        ("empty_call_id", GOOD | {"id": ""}),
        ("null_call_id", GOOD | {"id": None}),
        ("number_as_call_id", GOOD | {"id": 7}),
        ("missing_tool_name", GOOD | {"function": {"arguments": "{}"}}),
        ("unknown_call_type", GOOD | {"type": "tool_use"}),
        (
            "custom_call",
            {"id": "call_1", "type": "custom", "custom": {"name": "ping_all", "input": "{}"}},
        ),
        (
            "flat_call",
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": "ping_all",
                "arguments": "{}",
            },
        ),
        ("missing_function", {"id": "call_1", "type": "function"}),
        ("null_function", GOOD | {"function": None}),
        ("function_as_text", GOOD | {"function": "ping_all"}),
        ("null_call", None),
        ("call_as_text", "ping_all({})"),
    ],
)
def test_a_call_is_spelled_otherwise(name: str, call: Any) -> None:
    """The call is the only one, and one thing about it is wrong."""
    assert message_of(name)["tool_calls"] == [call]


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("two_calls", ["call_1", "call_2"]),
        ("duplicate_call_id", ["call_1", "call_1"]),
        ("too_many_calls", [f"call_{n}" for n in range(1, 130)]),
    ],
)
def test_several_good_calls_are_one_fault(name: str, ids: list[str]) -> None:
    """Each call is good for itself; how many there are, or their ids, is the fault."""
    assert message_of(name)["tool_calls"] == [GOOD | {"id": id_} for id_ in ids]


def test_a_good_call_stands_before_the_bad_one() -> None:
    """An app that runs calls as it reads them has run the first when it meets the second."""
    good, bad = message_of("unknown_tool_beside_good_call")["tool_calls"]
    assert good == GOOD
    assert bad["function"]["name"] == f"lookup_{CANARY}"


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("two_calls", {"parallel_tool_calls": False}),
        ("duplicate_call_id", {"parallel_tool_calls": True}),
        ("too_many_calls", {"parallel_tool_calls": True}),
        ("answer_for_required_call", {"tool_choice": "required"}),
        ("call_in_content", {"tool_choice": "required"}),
        ("forbidden_call", {"tool_choice": "none"}),
    ],
)
def test_what_a_request_must_say_is_told(name: str, needs: dict[str, Any]) -> None:
    """A reply that is good for other requests is a fault only under these keywords."""
    assert getattr(faults, name)(PING).needs == needs


@pytest.mark.parametrize(
    ("name", "member", "value"),
    [
        ("calls_as_object", "tool_calls", GOOD),
        ("calls_as_text", "tool_calls", json.dumps([GOOD])),
        ("legacy_function_call", "function_call", GOOD["function"]),
    ],
)
def test_the_calls_stand_where_or_as_they_may_not(name: str, member: str, value: Any) -> None:
    """The good call is there, in a form that a client must not guess at."""
    assert message_of(name)[member] == value


def test_the_leaked_token_is_told_as_invented() -> None:
    """The token can come from nowhere else than the model, so a prompt that holds it is an echo."""
    assert faults.leaked_token_in_tool(PING).invented == ("<|channel|>commentary",)
