"""What a model is told about its bad reply: exact, short, escalating, and never in its own words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, model_validator

from scripted import OTHER_SCHEMA, SCHEMA, call, completion
from strictreply.channels import judge
from strictreply.contract import Contract
from strictreply.issues import Category, Code, Issue
from strictreply.replies import Invalid
from strictreply.scoping import scope_of
from strictreply.steering import MAX_CORRECTION_BYTES, Situation, TieredSteering, example_for
from strictreply.terms import Terms
from strictreply.tools import Tool

TOOLS = [Tool.from_json_schema("search", SCHEMA), Tool.from_json_schema("weather", OTHER_SCHEMA)]
STEERING = TieredSteering()
EXAMPLE = "A valid example: "


class Invoice(BaseModel):
    """A structured answer."""

    total: int = Field(ge=1)
    note: str


class Impossible(BaseModel):
    """Arguments that the schema admits and the model's own validator never does."""

    query: str

    @model_validator(mode="after")
    def refuse(self) -> Impossible:
        """Refuse everything."""
        message = "never"
        raise ValueError(message)


def terms_of(**declared: Any) -> Terms:
    """Compile a contract's terms."""
    return Contract(**{"tools": TOOLS, **declared}).terms


def situation(terms: Terms, message: Any, tier: int = 1) -> Situation:
    """Judge a bad message and say what its correction is about."""
    verdict = judge(terms, message)
    assert isinstance(verdict, Invalid)
    scope = scope_of(terms, message, verdict.issues)
    return Situation(verdict.issues, terms, tier, scope.tool if scope else None, scope.at if scope else "")


def said(content: str | None = None, calls: Any = ()) -> dict[str, Any]:
    """Spell a bare assistant message."""
    return dict(completion(content, calls)["choices"][0]["message"])


ONE_FAULT = {
    "type": call("search", {"query": 1}),
    "required": call("search", {}),
    "maximum": call("search", {"query": "x", "limit": 99}),
    "extra key": call("search", {"query": "x", "zzz": 1}),
    "not an object": call("search", "[]"),
    "malformed": call("search", "{x"),
    "empty": call("search", "   "),
    "unknown tool": call("serch", {}),
}


@pytest.mark.parametrize("name", ONE_FAULT)
def test_one_fault_costs_at_most_forty_tokens(name: str) -> None:
    """A correction of one fault in one field is at most 160 characters: 40 tokens at four characters each."""
    text = STEERING.correction(situation(terms_of(), said(calls=[ONE_FAULT[name]])))
    assert len(text) <= 160


def test_a_fault_is_named_by_place_rule_and_bound() -> None:
    """The line of a fault gives its path below the arguments, and what the schema allows."""
    text = STEERING.correction(situation(terms_of(), said(calls=[ONE_FAULT["maximum"]])))
    headline, fault = text.splitlines()
    assert "search" in headline
    assert fault.startswith("- /limit: ")
    assert "20" in fault


def test_an_unknown_tool_is_answered_with_the_nearest_and_the_list() -> None:
    """The names are ours: the nearest declared one, and all of them."""
    text = STEERING.correction(situation(terms_of(), said(calls=[ONE_FAULT["unknown tool"]])))
    assert "search, weather" in text
    assert "did you mean search?" in text
    assert "serch" not in text


@pytest.mark.parametrize(
    "message", [said(""), said(calls=[call("bogus", {})]), said(calls=[call("search", {}), call("weather", {}, "b")])]
)
def test_faults_in_the_calls_as_a_whole_recall_the_tools(message: Any) -> None:
    """Where no single call can be asked for again, the second correction names the tools with their parameters."""
    terse, more = (STEERING.correction(situation(terms_of(parallel=True), message, tier)) for tier in (1, 2))
    assert "Tools:" not in terse
    assert "Tools: search(query, limit), weather(city)" in more


def test_only_content_that_should_be_json_is_asked_for_alone() -> None:
    """Unreadable content is to come without prose; unreadable arguments are to come as calls again."""
    prose = STEERING.correction(situation(terms_of(channel="text"), said("prose")))
    calls = said(calls=[call("search", "{nope"), call("weather", "{nope", "b")])
    arguments = STEERING.correction(situation(terms_of(parallel=True), calls))
    assert "prose or code fence" in prose
    assert "prose" not in arguments


def test_the_way_to_answer_is_among_the_tools() -> None:
    """Where an answer is a call, the recalled tools name it."""
    terms = terms_of(answer_style="tool")
    assert "final_answer(answer)" in STEERING.correction(situation(terms, said(""), 2))


BAD_REPLIES = [
    ("native", said(calls=[call("search", {"query": 1})])),
    ("native", said(calls=[call("search", {"query": 1}), call("weather", {}, "b")])),
    ("native", said("")),
    ("native", said(calls=[call("bogus", {})])),
    ("text", said("prose")),
    ("text", said('{"tool":"search","args":{}}')),
    ("text", said('{"answer":1}')),
    ("text", said('{"tool":"bogus","args":{}}')),
]


@pytest.mark.parametrize(("channel", "message"), BAD_REPLIES)
def test_no_two_tiers_say_the_same(channel: Any, message: Any) -> None:
    """The same bad reply again is answered in other words, at every tier."""
    terms = terms_of(channel=channel, parallel=channel == "native")
    texts = [STEERING.correction(situation(terms, message, tier)) for tier in range(1, 8)]
    assert len(set(texts)) == len(texts)


def test_tiers_add_the_schema_and_then_an_example() -> None:
    """First the faults; then the sub-schema that was broken; then also a minimal valid example."""
    terse, schema, example = (
        STEERING.correction(situation(terms_of(), said(calls=[ONE_FAULT["maximum"]]), tier)) for tier in (1, 2, 3)
    )
    assert "Schema of" not in terse
    assert 'Schema of /limit: {"type":"integer","minimum":1,"maximum":20}' in schema
    assert EXAMPLE not in schema
    assert "Schema of" in example
    assert EXAMPLE in example


def test_a_cut_reply_is_asked_for_less_and_nothing_else() -> None:
    """No schema, no example, no word of JSON; other words at each tier."""
    issues = (Issue.of(Code.REPLY_TRUNCATED, "/choices/0/finish_reason"),)
    texts = [STEERING.correction(Situation(issues, terms_of(channel="text"), tier)) for tier in range(1, 5)]
    assert len(set(texts)) == 4
    assert all("JSON" not in text and "Schema" not in text and EXAMPLE not in text for text in texts)
    assert all("cut off" in text for text in texts)


SCALARS = st.one_of(
    st.builds(lambda low: {"type": "integer", "minimum": low}, st.integers(-9, 9)),
    st.builds(lambda low: {"type": "string", "minLength": low}, st.integers(0, 9)),
    st.builds(lambda words: {"enum": words}, st.lists(st.text(max_size=5), min_size=1, max_size=3, unique=True)),
    st.just({"type": "boolean"}),
    st.just({"type": "number", "exclusiveMaximum": 0}),
    st.just({"type": "string", "format": "date"}),
)
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: (
        st.builds(lambda item, size: {"type": "array", "items": item, "minItems": size}, inner, st.integers(0, 3))
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


def example_in(text: str) -> Any:
    """Read the example that a correction shows; None when it shows none."""
    lines = [line for line in text.splitlines() if line.startswith(EXAMPLE)]
    return json.loads(lines[0].removeprefix(EXAMPLE)) if lines else None


@given(OBJECTS)
def test_every_native_example_is_valid(schema: dict[str, Any]) -> None:
    """An example shown for one call is arguments that the same contract accepts."""
    contract = Contract(tools=[Tool.from_json_schema("t", schema)])
    shown = example_in(STEERING.correction(situation(contract.terms, said(calls=[call("t", {})]), 3)))
    if shown is not None:
        assert not isinstance(contract.check(said(calls=[call("t", shown)])), Invalid)


@given(OBJECTS, SCHEMAS, st.sampled_from(["union", "tool"]), st.sampled_from(["auto", "required", "none"]))
def test_every_text_example_is_valid(schema: dict[str, Any], answer: dict[str, Any], style: Any, choice: str) -> None:
    """An example shown for a whole text reply is a reply that the same contract accepts."""
    contract = Contract(tools=[Tool.from_json_schema("t", schema)], answer=answer, channel="text", answer_style=style)
    terms = contract.terms.with_choice(choice)
    for content in ("prose", '{"tool":"t","args":{}}'):
        shown = example_in(STEERING.correction(situation(terms, said(content), 3)))
        if shown is not None:
            assert not isinstance(judge(terms, said(json.dumps(shown))), Invalid)


@given(SCHEMAS)
def test_every_answer_example_is_valid(answer: dict[str, Any]) -> None:
    """An example shown for a structured native answer is an answer that the same contract accepts."""
    contract = Contract(answer=answer)
    shown = example_in(STEERING.correction(situation(contract.terms, said("{nope"), 3)))
    if shown is not None:
        assert not isinstance(contract.check(said(json.dumps(shown))), Invalid)


def test_an_example_is_held_to_the_model_as_well() -> None:
    """What the schema admits and the model refuses is not shown."""
    terms = terms_of(tools=[Impossible])
    assert example_for(situation(terms, said(calls=[call("Impossible", {})]), 3)) is None
    assert example_for(situation(terms_of(answer=Impossible, tools=[]), said("{}"), 3)) is None


def test_the_next_tool_stands_in_for_one_without_example() -> None:
    """In the text channel any reply that the contract admits will do: the first that can be shown."""
    terms = terms_of(tools=[Impossible, TOOLS[1]], channel="text")
    assert example_for(situation(terms, said("prose"), 3)) == {"tool": "weather", "args": {"city": "text"}}
    terms = terms_of(tools=[Impossible], channel="text", answer=Impossible)
    assert example_for(situation(terms, said("prose"), 3)) is None


@pytest.mark.parametrize(
    ("channel", "message"),
    [
        ("native", said(calls=[call("final_answer", {"answer": {"total": 0, "note": "x"}})])),
        ("text", said('{"tool":"final_answer","args":{"answer":{"total":0,"note":"x"}}}')),
    ],
)
def test_an_answer_by_tool_is_corrected_where_it_stands(channel: Any, message: Any) -> None:
    """The broken sub-schema is the answer's, the example is what final_answer takes."""
    terms = terms_of(answer=Invoice, answer_style="tool", channel=channel, tools=[])
    text = STEERING.correction(situation(terms, message, 3))
    assert 'Schema of /total: {"minimum":1,"type":"integer"}' in text
    shown = example_in(text)
    reply = said(calls=[call("final_answer", shown)]) if channel == "native" else said(json.dumps(shown))
    assert not isinstance(judge(terms, reply), Invalid)


def test_a_structured_answer_is_shown_only_for_a_fault_in_it() -> None:
    """A wrong tool name is not answered with an example of an answer."""
    terms = terms_of(answer=Invoice)
    assert example_in(STEERING.correction(situation(terms, said('{"total": 0}'), 3))) == example_for(
        situation(terms, said('{"total": 0}'), 3)
    )
    assert EXAMPLE not in STEERING.correction(situation(terms, said(calls=[call("bogus", {})]), 3))


@given(
    st.lists(st.text(max_size=900), min_size=1, max_size=40),
    st.integers(1, 6),
    st.sampled_from([None, "search"]),
)
def test_a_correction_is_at_most_two_kilobytes(messages: list[str], tier: int, tool: str | None) -> None:
    """However many faults, however long their words: the headline stands and the rest fits."""
    issues = tuple(
        Issue("args.check", Category.FORMAT_ERROR, f"/a/{index}", words) for index, words in enumerate(messages)
    )
    text = STEERING.correction(Situation(issues, terms_of(), tier, tool, "/a"))
    assert len(text.encode()) <= MAX_CORRECTION_BYTES
    assert text.splitlines()[0].endswith(":")


def test_a_long_first_fault_is_cut_not_dropped() -> None:
    """The model is always told of at least one fault."""
    names = [Tool.from_json_schema(f"{index:02d}-{'n' * 120}", {"type": "object"}) for index in range(30)]
    text = STEERING.correction(situation(terms_of(tools=names), said(calls=[call("bogus", {})])))
    assert "no such tool" in text
    assert "00-nnn" in text
    assert len(text.encode()) <= MAX_CORRECTION_BYTES


def test_faults_that_do_not_fit_are_left_out_whole() -> None:
    """Long faults are dropped one by one, short ones after them still stand."""
    issues = [Issue("x", Category.FORMAT_ERROR, f"/{index}", "w" * 700) for index in range(5)]
    issues.append(Issue("x", Category.FORMAT_ERROR, "/last", "short"))
    lines = STEERING.correction(Situation(tuple(issues), terms_of(), 1)).splitlines()
    assert [line[:4] for line in lines] == ["Not ", "- /0", "- /1", "- /l"]


def test_many_faults_are_counted() -> None:
    """Beyond twelve faults the rest is a number."""
    issues = tuple(Issue("x", Category.FORMAT_ERROR, f"/{index}", "wrong") for index in range(20))
    lines = STEERING.correction(Situation(issues, terms_of(), 1)).splitlines()
    assert len(lines) == 14
    assert lines[-1] == "- and 8 more"
