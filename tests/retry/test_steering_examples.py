"""The examples in corrections: valid, and with a value wherever the reply was wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import Contract, CorrectionContext, Invalid, Tool
from strictreply.core import judge
from strictreply.core.text import pointer_tokens
from support.corrections import (
    EXAMPLE,
    STEERING,
    TOOLS,
    Impossible,
    Invoice,
    context,
    example_in,
    said,
    terms_of,
)
from support.scripted import call

SCALARS = st.one_of(
    st.builds(lambda low: {"type": "integer", "minimum": low}, st.integers(-9, 9)),
    st.builds(lambda low: {"type": "string", "minLength": low}, st.integers(0, 9)),
    st.builds(
        lambda words: {"enum": words},
        st.lists(st.text(max_size=5), min_size=1, max_size=3, unique=True),
    ),
    st.just({"type": "boolean"}),
    st.just({"type": "number", "exclusiveMaximum": 0}),
    st.just({"type": "string", "format": "date"}),
)
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: (
        st.builds(
            lambda item, size: {"type": "array", "items": item, "minItems": size},
            inner,
            st.integers(0, 3),
        )
        | st.builds(
            lambda members: {"type": "object", "properties": members, "required": list(members)},
            st.dictionaries(st.sampled_from(["a", "b", "c/d"]), inner, max_size=3),
        )
    ),
    max_leaves=6,
)
OBJECTS = st.builds(
    lambda members: {"type": "object", "properties": members, "required": list(members)},
    st.dictionaries(st.sampled_from(["x", "y", "z"]), SCHEMAS, min_size=1, max_size=3),
)


@given(OBJECTS)
def test_every_native_example_is_valid(schema: dict[str, Any]) -> None:
    """An example shown for one call is arguments that the same contract accepts."""
    contract = Contract(tools=[Tool.from_json_schema("t", schema)])
    shown = example_in(STEERING.correction(context(contract, said(calls=[call("t", {})]), 3)))
    if shown is not None:
        assert not isinstance(contract.check(said(calls=[call("t", shown)])), Invalid)


@given(
    OBJECTS,
    SCHEMAS,
    st.sampled_from(["union", "tool"]),
    st.sampled_from(["auto", "required", "none"]),
)
def test_every_text_example_is_valid(
    schema: dict[str, Any], answer: dict[str, Any], style: Any, choice: str
) -> None:
    """An example shown for a whole text reply is a reply that the same contract accepts."""
    contract = Contract(
        tools=[Tool.from_json_schema("t", schema)],
        answer=answer,
        channel="text",
        answer_style=style,
    )
    contract = contract.with_choice(choice)

    for content in ("prose", '{"tool":"t","args":{}}'):
        shown = example_in(STEERING.correction(context(contract, said(content), 3)))
        if shown is not None:
            assert not isinstance(judge(contract, said(json.dumps(shown))), Invalid)


@given(SCHEMAS)
def test_every_answer_example_is_valid(answer: dict[str, Any]) -> None:
    """An example of a structured native answer is an answer that the same contract accepts."""
    contract = Contract(answer=answer)
    shown = example_in(STEERING.correction(context(contract, said("{nope"), 3)))
    if shown is not None:
        assert not isinstance(contract.check(said(json.dumps(shown))), Invalid)


def shown_for(told: CorrectionContext) -> Any:
    """Return the example in a correction; None where it has none."""
    return example_in(STEERING.correction(told))


def test_an_example_is_held_to_the_model_as_well() -> None:
    """An example that fits the schema but that the model refuses is not shown."""
    contract = terms_of(tools=[Impossible])
    assert shown_for(context(contract, said(calls=[call("Impossible", {})]), 3)) is None
    assert shown_for(context(terms_of(answer=Impossible, tools=[]), said("{}"), 3)) is None


def test_the_next_tool_stands_in_for_one_without_example() -> None:
    """In the text channel any admitted reply will do: the first one that can be shown."""
    contract = terms_of(tools=[Impossible, TOOLS[1]], channel="text")
    assert shown_for(context(contract, said("prose"), 3)) == {
        "tool": "weather",
        "args": {"city": "text"},
    }
    contract = terms_of(tools=[Impossible], channel="text", answer=Impossible)
    assert shown_for(context(contract, said("prose"), 3)) is None


@pytest.mark.parametrize(
    ("channel", "message"),
    [
        ("native", said(calls=[call("final_answer", {"answer": {"total": 0, "note": "x"}})])),
        ("text", said('{"tool":"final_answer","args":{"answer":{"total":0,"note":"x"}}}')),
    ],
)
def test_an_answer_by_tool_is_corrected_where_it_stands(channel: Any, message: Any) -> None:
    """The broken sub-schema is the answer's, the example is what final_answer takes."""
    contract = terms_of(answer=Invoice, answer_style="tool", channel=channel, tools=[])
    text = STEERING.correction(context(contract, message, 3))
    assert 'Schema of /total: {"minimum":1,"type":"integer"}' in text
    shown = example_in(text)
    reply = (
        said(calls=[call("final_answer", shown)])
        if channel == "native"
        else said(json.dumps(shown))
    )
    assert not isinstance(judge(contract, reply), Invalid)


def test_a_structured_answer_is_shown_only_for_a_fault_in_it() -> None:
    """A wrong tool name is not answered with an example of an answer."""
    contract = terms_of(answer=Invoice)
    shown = example_in(STEERING.correction(context(contract, said('{"total": 0}'), 3)))
    assert not isinstance(contract.check(said(json.dumps(shown))), Invalid)
    assert EXAMPLE not in STEERING.correction(context(contract, said(calls=[call("bogus", {})]), 3))


FORMS = st.sampled_from(
    [
        {"type": "integer", "minimum": 3},
        {"type": "string", "minLength": 2},
        {"type": "boolean"},
        {"enum": ["u", "v"]},
    ]
)


@st.composite
def broken(draw: st.DrawFn, depth: int = 3) -> tuple[dict[str, Any], Any, Any]:
    """Draw a schema, a valid instance of it, and the same instance broken.

    One value deep inside the broken one does not fit.
    """
    kind = draw(
        st.sampled_from(
            ["leaf", "object", "array", "tuple", "union", "nullable", "ref", "all", "map"]
        )
    )
    if not depth or kind == "leaf":
        form: Any = draw(FORMS)
        right = {"integer": 5, "string": "text", "boolean": True}.get(form.get("type", ""), "u")
        return form, right, None

    schema, right, wrong = draw(broken(depth - 1))
    name = draw(st.sampled_from(["x", "y/z", "a b"]))

    if kind == "object":
        required = draw(st.sampled_from([[], [name], ["other"]]))
        members = {"other": {"type": "string"}, name: schema}
        other = {"other": "o"}

        return (
            {"type": "object", "properties": members, "required": required},
            {**other, name: right},
            {**other, name: wrong},
        )

    if kind == "map":
        return {"type": "object", "additionalProperties": schema}, {"k": right}, {"k": wrong}

    if kind == "array":
        before = draw(st.integers(0, 2))
        return {"type": "array", "items": schema}, [right], [*[right] * before, wrong]

    if kind == "tuple":
        forms = [{"type": "string"}, schema]
        return {"type": "array", "prefixItems": forms, "items": False}, ["o", right], ["o", wrong]

    if kind == "ref":
        return {"allOf": [schema]}, right, wrong
    if kind == "all":
        return {"allOf": [{"title": "T"}, schema]}, right, wrong

    tagged = {
        "type": "object",
        "properties": {"kind": {"const": "k"}, name: schema},
        "required": ["kind"],
    }
    bare = {
        "type": "object",
        "properties": {"kind": {"const": "b"}, "q": {"type": "string"}},
        "required": ["kind"],
    }
    branches = [bare, tagged] if kind == "union" else [{"type": "null"}, tagged]

    return {"anyOf": branches}, {"kind": "k", name: right}, {"kind": "k", name: wrong}


def resolves(value: Any, tokens: list[str]) -> bool:
    """Return whether a value has a part at a place; ``*`` is any member."""
    if not tokens:
        return True
    first, *rest = tokens
    if isinstance(value, list):
        return int(first) < len(value) and resolves(value[int(first)], rest)
    if not isinstance(value, dict):
        return False
    return any(resolves(part, rest) for name, part in value.items() if first in ("*", name))


@given(broken())
def test_every_example_shows_the_field_that_was_wrong_and_is_valid(
    drawn: tuple[dict[str, Any], Any, Any],
) -> None:
    """An example has a value wherever the reply was wrong, optional or deep, and the contract takes
    it (C6).
    """
    inner, _, wrong = drawn
    schema = {"type": "object", "properties": {"it": inner}}
    contract = Contract(tools=[Tool.from_json_schema("t", schema)])
    told = context(contract, said(calls=[call("t", {"it": wrong})]), 3)
    shown = shown_for(told)
    assert shown is not None

    assert not isinstance(contract.check(said(calls=[call("t", shown)])), Invalid)

    for issue in told.issues:
        assert resolves(shown, pointer_tokens(issue.path.removeprefix(told.at)))


@given(broken(), st.sampled_from(["union", "tool"]))
def test_text_examples_show_the_field_that_was_wrong(
    drawn: tuple[dict[str, Any], Any, Any], style: Any
) -> None:
    """So it is in a text reply and in a structured answer of either style, beside other faults and
    tools (C6).
    """
    inner, _, wrong = drawn
    schema = {"type": "object", "properties": {"it": inner}}
    tools = [*TOOLS, Tool.from_json_schema("t", schema)]
    contract = Contract(tools=tools, answer=schema, channel="text", answer_style=style)

    answer = {"answer": {"it": wrong}}
    for reply in (
        {"tool": "t", "args": {"it": wrong}, "zz": 1},
        {"tool": "final_answer", "args": answer} if style == "tool" else answer,
    ):
        told = context(contract, said(json.dumps(reply)), 3)
        shown = shown_for(told)
        assert not isinstance(contract.check(json.dumps(shown)), Invalid)
        assert all(resolves(shown, pointer_tokens(issue.path)) for issue in told.issues)


def test_what_must_be_left_out_is_not_in_the_example() -> None:
    """A member that the schema forbids is left out of the example, which shows the object without
    it (C6).
    """
    schema = {
        "type": "object",
        "properties": {"in": {"type": "object", "properties": {"old": False, "new": {}}}},
    }
    contract = terms_of(tools=[Tool.from_json_schema("t", schema)])
    assert shown_for(context(contract, said(calls=[call("t", {"in": {"old": 1}})]), 3)) == {
        "in": {}
    }


def test_no_example_rather_than_one_without_the_field() -> None:
    """Where the field that was wrong can be given no value, no example is shown (C6)."""
    schema = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^zq{77}$"}}}
    contract = terms_of(tools=[Tool.from_json_schema("t", schema)])
    assert shown_for(context(contract, said(calls=[call("t", {"code": "x"})]), 3)) is None
