"""The faults of the calls; the laws that hold for all of them are in ``test_reply_laws``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strictreply.contract._tool import Tool
from strictreply.testing._steps import CANARY
from strictreply.testing.faults import _calls as calls

PING = Tool.from_json_schema("ping_all", {"type": "object", "properties": {}})
GOOD = {"id": "call_1", "type": "function", "function": {"name": "ping_all", "arguments": "{}"}}


def message_of(name: str, place: Any = "call", tool: Tool = PING) -> dict[str, Any]:
    """Give the message that one fault writes."""
    message: dict[str, Any] = getattr(calls, name)(tool, place=place).served["choices"][0]["message"]
    return message


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


@pytest.mark.parametrize(("name", "spelled"), [("ping", "PING"), ("Ping", "pING"), ("get_it_now", "getItNow")])
def test_a_name_in_other_case_is_another_name(name: str, spelled: str) -> None:
    """Names of several words are written as another language does, others in capitals or without."""
    tool = Tool.from_json_schema(name, {"type": "object"})
    assert message_of("tool_in_other_case", tool=tool)["tool_calls"][0]["function"]["name"] == spelled


def test_a_name_without_letters_has_no_other_case() -> None:
    """What cannot be spelled otherwise is not made."""
    assert not list(calls.tool_in_other_case.all_for(Tool.from_json_schema("42", {"type": "object"})))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("missing_call_id", {"type": "function", "function": GOOD["function"]}),
        ("empty_call_id", GOOD | {"id": ""}),
        ("null_call_id", GOOD | {"id": None}),
        ("number_as_call_id", GOOD | {"id": 7}),
        ("missing_tool_name", GOOD | {"function": {"arguments": "{}"}}),
        ("unknown_call_type", GOOD | {"type": "tool_use"}),
        ("custom_call", {"id": "call_1", "type": "custom", "custom": {"name": "ping_all", "input": "{}"}}),
        (
            "flat_call",
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "ping_all", "arguments": "{}"},
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
    assert getattr(calls, name)(PING).needs == needs


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
    assert calls.leaked_token_in_tool(PING).invented == ("<|channel|>commentary",)
