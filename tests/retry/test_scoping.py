"""When one call is asked for alone, and how its new arguments go into the frozen message."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import Contract, Invalid, Tool
from strictreply.core import judge
from strictreply.core.forms import draft_of, message_of
from strictreply.retry._scoping import Scope, ScopedCall, scope_of, splice
from strictreply.values._issues import value_at
from support.scripted import OTHER_SCHEMA, SCHEMA, call

TOOLS = [Tool.from_json_schema("search", SCHEMA), Tool.from_json_schema("weather", OTHER_SCHEMA)]
NATIVE = Contract(tools=TOOLS, parallel=True)
TEXT = Contract(tools=TOOLS, channel="text")
WRONG = call("search", {"query": 1}, "a")
RIGHT = call("weather", {"city": "Oslo"}, "b")


def scoped(terms: Contract, message: dict[str, Any]) -> Scope | None:
    """Judge a bad message and find its scope."""
    verdict = judge(terms, message)
    assert isinstance(verdict, Invalid)
    return scope_of(terms, draft_of(message), verdict.issues)


def said(*calls: Any, content: str | None = None) -> dict[str, Any]:
    """Return an assistant message."""
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


@pytest.mark.parametrize(
    ("message", "tool", "index"),
    [
        (said(WRONG), "search", 0),
        (said(RIGHT, WRONG), "search", 1),
        (said(WRONG, RIGHT), "search", 0),
        (said(call("search", {"query": 1, "limit": 0, "z": 2})), "search", 0),
        (said(call("weather", "{not json"), WRONG | {"function": RIGHT["function"]}), "weather", 0),
        (said(call("weather", "[]")), "weather", 0),
    ],
)
def test_faults_in_one_call_are_its_scope(message: dict[str, Any], tool: str, index: int) -> None:
    """However many faults there are, as long as they lie in the arguments of one declared tool."""
    scope = scoped(NATIVE, message)
    assert scope is not None
    assert scope.calls == (ScopedCall(tool, index, f"/tool_calls/{index}/function/arguments"),)


@pytest.mark.parametrize(
    "message",
    [
        said(call("bogus", {})),
        said(call("bogus", {}), WRONG),
        said(WRONG, RIGHT | {"id": []}),
        said(WRONG | {"id": []}),
        said(content=""),
        said("x"),
    ],
)
def test_faults_elsewhere_have_no_scope(message: dict[str, Any]) -> None:
    """An unknown tool, a wrong id or a wrong shape: the whole reply is asked for."""
    assert scoped(NATIVE, message) is None


@pytest.mark.parametrize(
    ("content", "tool"),
    [
        ('{"tool":"search","args":{}}', "search"),
        ('{"tool":"search","args":3}', "search"),
        ('{"tool":"search","args":{},"z":1}', None),
        ('{"tool":"bogus","args":{}}', None),
        ('{"answer":""}', None),
        ("not json", None),
    ],
)
def test_the_text_channel_has_scopes_too(content: str, tool: str | None) -> None:
    """Faults below ``/args`` of a declared tool are its scope."""
    scope = scoped(TEXT, {"role": "assistant", "content": content})
    assert (None if scope is None else scope.name) == tool


def test_splicing_changes_the_arguments_alone() -> None:
    """Ids, order, siblings, content and extras stay; neither message is changed."""
    frozen = said(RIGHT, WRONG, content="thinking") | {"reasoning": "r"}
    fixed = said(call("search", '{"query": "tea" }', "other"))
    before = deepcopy((frozen, fixed))
    scope = scoped(NATIVE, frozen)
    assert scope is not None

    spliced = splice(NATIVE, scope, draft_of(fixed))
    assert not isinstance(spliced, Invalid)
    expected = deepcopy(frozen)
    expected["tool_calls"][1]["function"]["arguments"] = '{"query": "tea" }'
    assert (message_of(spliced[0]), spliced[1]) == (expected, ())

    assert (frozen, fixed) == before


@pytest.mark.parametrize(
    "reply",
    [
        said(RIGHT),
        said(WRONG, WRONG),
        said(),
        {"role": "assistant", "content": "an answer"},
        said("x"),
        said({"function": None}),
        said({"function": {"name": ["search"]}}),
    ],
)
def test_anything_but_one_call_of_the_tool_is_a_switch(reply: dict[str, Any]) -> None:
    """Another tool, several calls or an answer give ``tool.switched``."""
    scope = scoped(NATIVE, said(WRONG))
    assert scope is not None
    refused = splice(NATIVE, scope, draft_of(reply))
    assert isinstance(refused, Invalid)
    assert [issue.code for issue in refused.issues] == ["tool.switched"]


@pytest.mark.parametrize(
    ("content", "switched"),
    [
        ('{"tool":"weather","args":{}}', True),
        ('{"answer":"x"}', True),
        ('{"tool":"search","args":{}}', False),
        ("unreadable", False),
    ],
)
def test_a_switch_in_the_text_channel(content: str, switched: bool) -> None:
    """Another tool or an answer is a switch; an unreadable reply is judged as it is."""
    scope = scoped(TEXT, {"role": "assistant", "content": '{"tool":"search","args":{}}'})
    assert scope is not None
    assert (
        isinstance(
            splice(TEXT, scope, draft_of({"role": "assistant", "content": content})), Invalid
        )
        is switched
    )


@given(st.lists(st.booleans(), min_size=1, max_size=6))
def test_the_wrong_calls_among_many_are_always_found(rights: list[bool]) -> None:
    """The scope is there exactly when calls are wrong, and it is those calls."""
    calls = [
        call("search", {"query": "x"} if right else {"query": 1}, f"id{index}")
        for index, right in enumerate(rights)
    ]
    verdict = judge(NATIVE, said(*calls))
    scope = None
    if isinstance(verdict, Invalid):
        scope = scope_of(NATIVE, draft_of(said(*calls)), verdict.issues)

    wrong = [index for index, right in enumerate(rights) if not right]
    assert ([] if scope is None else [one.index for one in scope.calls]) == wrong


def test_several_calls_are_spliced_by_their_tools() -> None:
    """Calls of one tool are taken in their order, whatever stands between them; ids and siblings
    stay.
    """
    frozen = said(call("search", {}, "a"), RIGHT, call("search", {}, "c"), call("weather", {}, "d"))
    scope = scoped(NATIVE, frozen)
    assert scope is not None
    assert (scope.tools, scope.name) == (("search", "search", "weather"), "search, weather")

    fixed = said(
        call("weather", '{"city":"Rome"}', "x"),
        call("search", '{"query":"1"}'),
        call("search", '{"query":"2"}'),
    )
    spliced = splice(NATIVE, scope, draft_of(fixed))
    assert not isinstance(spliced, Invalid)
    calls = [(one.id, one.arguments) for one in spliced[0].calls]

    right = ("b", RIGHT["function"]["arguments"])
    assert calls == [
        ("a", '{"query":"1"}'),
        right,
        ("c", '{"query":"2"}'),
        ("d", '{"city":"Rome"}'),
    ]


@pytest.mark.parametrize(
    "tools",
    [["search"], ["search"] * 2, ["search", "weather", "search"], ["weather"] * 2, [None, 7]],
)
def test_fewer_more_or_other_calls_are_a_switch(tools: list[Any]) -> None:
    """Of several calls each must come once again, and nothing beside them."""
    scope = scoped(NATIVE, said(WRONG, call("weather", {}, "b")))
    assert scope is not None
    reply = said(*({"function": {"name": tool, "arguments": "{}"}} for tool in tools))
    refused = splice(NATIVE, scope, draft_of(reply))
    assert isinstance(refused, Invalid)
    assert [issue.code for issue in refused.issues] == ["tool.switched"]


@pytest.mark.parametrize("tokens", [["2"], ["9"], ["-"], ["0", "b"], ["0", "a", "0"], ["1", "0"]])
def test_a_place_that_a_document_does_not_have_holds_nothing(tokens: list[str]) -> None:
    """Behind the last item, a member that is missing, and below a scalar there is no JSON."""
    with pytest.raises(TypeError):
        json.dumps(value_at([{"a": 1}, "x"], tokens))


def test_a_place_that_a_document_has_holds_its_value() -> None:
    """The last item of an array is one of them, and the empty path is the whole."""
    document = [{"a": [None, 7]}, "x"]
    assert value_at(document, ["1"]) == "x"
    assert value_at(document, ["0", "a", "1"]) == 7
    assert value_at(document, []) == document
