"""The request shapes the contract: what it asks for is what its reply is held to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from strictreply import (
    Code,
    Contract,
    ContractError,
    DirectAnswer,
    Invalid,
    Issue,
    StrictReplyError,
    Tool,
    Valid,
)
from strictreply.core import Answer, judge, shape
from strictreply.wires import WIRES
from support.scripted import OTHER_SCHEMA, SCHEMA, USER, call, completion

TERMS = Contract(
    tools=[Tool.from_json_schema("search", SCHEMA), Tool.from_json_schema("weather", OTHER_SCHEMA)]
)
SEARCH = completion(calls=[call("search", {"query": "x"})])
WEATHER = completion(calls=[call("weather", {"city": "x"})])
BOTH = completion(calls=[call("search", {"query": "x"}, "a"), call("weather", {"city": "x"}, "b")])


class Total(BaseModel):
    """A structured answer."""

    total: int


def shaped(**request: Any) -> Contract:
    """Shape a request, and give its terms."""
    return shape(TERMS, {"messages": USER, **request})[0]


def codes(terms: Contract, reply: Any) -> list[str]:
    """Judge a reply; gives the codes of its faults, none for a valid one."""
    verdict = judge(terms, reply)
    return [issue.code for issue in verdict.issues] if isinstance(verdict, Invalid) else []


NAMED = {"type": "function", "function": {"name": "search"}}


@pytest.mark.parametrize(
    ("choice", "of_search", "of_weather", "of_answer"),
    [
        (None, [], [], []),
        ("auto", [], [], []),
        ("required", [], [], ["tool.required"]),
        ("none", ["tool.forbidden"], ["tool.forbidden"], []),
        (NAMED, [], ["tool.forced"], ["tool.required"]),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}},
            *([], ["tool.unknown"], []),
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}},
            *([], ["tool.unknown"], ["tool.required"]),
        ),
    ],
)
def test_tool_choice_is_held(choice: Any, of_search: Any, of_weather: Any, of_answer: Any) -> None:
    """A verdict honours the demanded choice."""
    terms = shaped(tool_choice=choice)
    assert codes(terms, SEARCH) == of_search
    assert codes(terms, WEATHER) == of_weather
    assert codes(terms, completion("hello")) == of_answer


def test_parallel_tool_calls_is_held() -> None:
    """Several calls are valid exactly when the request, or else the contract, allows them."""
    assert codes(shaped(), BOTH) == ["tool.several"]
    assert isinstance(judge(shaped(parallel_tool_calls=True), BOTH), Valid)
    assert codes(shaped(parallel_tool_calls=False), BOTH) == ["tool.several"]


def test_tools_of_the_request_replace_the_contracts() -> None:
    """``tools`` takes whatever a contract takes; the other tools are unknown then."""
    terms = shaped(tools=[TERMS.by_name["weather"].definition])
    assert codes(terms, SEARCH) == ["tool.unknown"]
    assert codes(terms, WEATHER) == []


@pytest.mark.parametrize(
    ("wanted", "content", "answer"),
    [
        ({"type": "text"}, "hello", "hello"),
        ({"type": "json_object"}, '{"a": 1}', {"a": 1}),
        ({"type": "json_schema", "json_schema": {"schema": {"type": "integer"}}}, "7", 7),
        (Total, '{"total": 7}', Total(total=7)),
        (None, "hello", "hello"),
    ],
)
def test_response_format_is_the_answers_contract(wanted: Any, content: str, answer: Any) -> None:
    """An answer must satisfy the request's ``response_format``."""
    assert judge(shaped(response_format=wanted), completion(content)) == Valid(DirectAnswer(answer))


@pytest.mark.parametrize(
    ("wanted", "content"),
    [
        ({"type": "json_object"}, "hello"),
        ({"type": "json_object"}, "[]"),
        ({"type": "json_schema", "json_schema": {"schema": {"type": "integer"}}}, '"7"'),
        (Total, '{"total": "7"}'),
    ],
)
def test_content_that_breaks_the_response_format_is_invalid(wanted: Any, content: str) -> None:
    """An answer of another form does not pass."""
    assert codes(shaped(response_format=wanted), completion(content))


JSON_OBJECT = {"type": "json_object"}
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"schema": {"type": "integer"}}}


def test_an_object_of_any_kind_does_not_replace_a_typed_answer() -> None:
    """``json_object`` asks for less than a contract with a typed answer does: the answer stays what
    it is.
    """
    typed = Contract(answer=Total)
    terms, request = shape(typed, {"messages": USER, "response_format": JSON_OBJECT})
    assert (terms, WIRES["chat"].written(request)["response_format"]) == (typed, JSON_OBJECT)
    assert codes(terms, completion('{"hello": 1}'))
    assert judge(terms, completion('{"total": 7}')) == Valid(DirectAnswer(Total(total=7)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shouted(Answer):
    """A kind of answer that judges by no schema."""

    def judge(self, value: Any, at: str, work: Any = None) -> Any:
        """Admit capitals."""
        return value if value.isupper() else Invalid((Issue.of(Code.SHAPE_EMPTY, at),))


def test_a_kind_of_answer_of_its_own_is_never_replaced() -> None:
    """Beside ``json_object`` and ``text`` it stays in force; a schema beside it cannot be held, and
    is refused.
    """
    own = Contract(answer=Shouted())
    for mild in (JSON_OBJECT, {"type": "text"}):
        terms = shape(own, {"messages": USER, "response_format": mild})[0]
        assert (codes(terms, completion('{"a": 1}')), codes(terms, completion("AH"))) == (
            ["shape.empty"],
            [],
        )

    for schema in (JSON_SCHEMA, Total):
        with pytest.raises(ContractError):
            shape(own, {"messages": USER, "response_format": schema})


@pytest.mark.parametrize(
    "request_",
    [
        {"n": 2},
        {"n": 0},
        {"n": []},
        {"functions": []},
        {"function_call": "auto"},
        {"tool_choice": "nobody"},
        {"tool_choice": {"type": "function"}},
        {"tool_choice": 7},
        {"tool_choice": "required", "tools": []},
        {"tool_choice": {"type": "allowed_tools"}},
        {
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{}]},
            }
        },
        {
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "odd", "tools": [NAMED]},
            }
        },
        {"response_format": "json"},
        {"response_format": {"type": []}},
        {"response_format": {"type": "json_schema"}},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"schema": {"type": "nothing"}},
            }
        },
        {"tools": ["search"]},
        {"tools": 5},
        {"tools": TERMS.by_name["search"].definition},
        {"messages": None},
        {"messages": b"hello"},
    ],
)
def test_what_no_verdict_could_honour_is_refused(request_: dict[str, Any]) -> None:
    """A request that cannot be held to is a ContractError before anything is sent."""
    with pytest.raises(ContractError):
        shaped(**request_)


@pytest.mark.parametrize(
    "said",
    [
        {"tools": [TERMS.by_name["search"].definition]},
        {"tool_choice": "required"},
        {"tool_choice": None},
        {"parallel_tool_calls": True},
        {"response_format": {"type": "json_object"}},
        {"messages": [*USER, *USER]},
        {"model": "m", "max_tokens": 5},
        {"n": 2},
        {"functions": []},
        {"messages": "hello"},
    ],
)
def test_what_extra_body_says_is_held_as_a_keyword_is(said: dict[str, Any]) -> None:
    """It has the last word over the keyword of its name, and what no verdict could honour is
    refused there too.
    """

    def outcome(**request: Any) -> Any:
        try:
            contract, base = shape(TERMS, {"messages": USER, **request})
        except ContractError as error:
            return str(error)
        return contract.tools, contract.choice, contract.parallel, repr(contract.answer), base

    other = {
        name: value
        for name, value in {"tool_choice": "none", "max_tokens": 9}.items()
        if name in said
    }
    rest = {"extra_body": {"top_k": 1}}
    assert outcome(**other, extra_body={**said, "top_k": 1}) == outcome(**said, **rest)


def test_the_rest_of_the_request_stays_as_it_is() -> None:
    """Only what the terms say themselves is taken out; the caller's keywords and messages are not
    changed.
    """
    keywords = {
        "messages": tuple(USER),
        "temperature": 0.5,
        "n": 1,
        "tool_choice": "auto",
        "tools": None,
        "x": None,
    }
    before = dict(keywords)
    _, base = shape(TERMS, keywords)
    assert WIRES["chat"].written(base) == {"messages": USER, "temperature": 0.5, "n": 1, "x": None}

    assert keywords == before


def test_messages_are_copied() -> None:
    """The list that goes on is not the caller's."""
    messages = list(USER)
    assert shape(TERMS, {"messages": messages})[1].conversation is not messages
    assert shape(TERMS, {"messages": (turn for turn in messages)})[1].conversation == messages


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "n",
                "tool_choice",
                "parallel_tool_calls",
                "response_format",
                "messages",
                "function_call",
            ]
        ),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.sampled_from(["auto", "type", "json_schema", "search"]),
            lambda inner: (
                st.lists(inner, max_size=2)
                | st.dictionaries(
                    st.sampled_from(
                        [
                            "type",
                            "function",
                            "name",
                            "json_schema",
                            "schema",
                            "allowed_tools",
                            "tools",
                        ]
                    ),
                    inner,
                    max_size=3,
                )
            ),
            max_leaves=5,
        ),
    )
)
def test_no_request_raises_anything_foreign(request_: dict[str, Any]) -> None:
    """For any keywords, shaping returns terms or raises an error of this library."""
    try:
        terms = shaped(**request_)
    except StrictReplyError:
        return
    assert isinstance(judge(terms, SEARCH), Valid | Invalid)


def test_v19_any_means_required() -> None:
    """``tool_choice="any"``, other APIs' word, demands a call; a tool of that name is meant when
    there is one.
    """
    assert shaped(tool_choice="any").choice == "required"
    named = Contract(tools=[Tool.from_json_schema("any", SCHEMA)])
    assert shape(named, {"messages": USER, "tool_choice": "any"})[0].choice == "any"
