"""What a model is told about its bad reply: exact, short, escalating, and never in its own words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, model_validator

from scripted import OTHER_SCHEMA, SCHEMA, call, completion
from strictreply.contract._contract import Contract
from strictreply.contract._judge import judge
from strictreply.contract._tool import Tool
from strictreply.retry._scoping import scope_of
from strictreply.retry._steering import MAX_CORRECTION_BYTES, Situation, TieredSteering, example_for
from strictreply.values._issues import (
    Category,
    Code,
    Issue,
    capped,
    json_words,
    pointer,
    pointer_tokens,
    shown_place,
)
from strictreply.values._replies import Invalid

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


def terms_of(**declared: Any) -> Contract:
    """Compile a contract's terms."""
    return Contract(**{"tools": TOOLS, **declared})


def situation(terms: Contract, message: Any, tier: int = 1) -> Situation:
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
    shown = example_in(STEERING.correction(situation(contract, said(calls=[call("t", {})]), 3)))
    if shown is not None:
        assert not isinstance(contract.check(said(calls=[call("t", shown)])), Invalid)


@given(OBJECTS, SCHEMAS, st.sampled_from(["union", "tool"]), st.sampled_from(["auto", "required", "none"]))
def test_every_text_example_is_valid(schema: dict[str, Any], answer: dict[str, Any], style: Any, choice: str) -> None:
    """An example shown for a whole text reply is a reply that the same contract accepts."""
    contract = Contract(tools=[Tool.from_json_schema("t", schema)], answer=answer, channel="text", answer_style=style)
    terms = contract.with_choice(choice)
    for content in ("prose", '{"tool":"t","args":{}}'):
        shown = example_in(STEERING.correction(situation(terms, said(content), 3)))
        if shown is not None:
            assert not isinstance(judge(terms, said(json.dumps(shown))), Invalid)


@given(SCHEMAS)
def test_every_answer_example_is_valid(answer: dict[str, Any]) -> None:
    """An example shown for a structured native answer is an answer that the same contract accepts."""
    contract = Contract(answer=answer)
    shown = example_in(STEERING.correction(situation(contract, said("{nope"), 3)))
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


# -- one row for each finding C1 to C5 --------------------------------------------------------------------------------

PLACES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "params": {"type": "object", "properties": {"latitude": {"type": "number"}}, "required": ["latitude"]},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
    },
    "required": ["title"],
}
PLACED = [Tool.from_json_schema("search", PLACES)]
FOUND: dict[str, tuple[Any, Any, tuple[str, ...], tuple[str, ...]]] = {
    # tools, bad message, what the correction holds, what it does not hold
    "C1 no keys": (PLACED, call("search", {}), ("- /title: ", "without keys", "(a string)"), ()),
    "C1 no items": (PLACED, call("search", []), ("without items",), ()),
    "C1 null": (PLACED, call("search", "null"), ("null",), ()),
    "C1 an inner object without keys": (PLACED, call("search", {"title": "x", "params": {}}), ("without keys",), ()),
    "C3 a key that belongs below": (
        PLACED,
        call("search", {"title": "x", "latitude": 1}),
        ('allowed keys: "title", "params"', '"latitude" belongs in /params'),
        (),
    ),
    "C3 a key that belongs above": (
        PLACED,
        call("search", {"title": "x", "params": {"latitude": 1, "lines": []}}),
        ("- /params: ", '"lines" belongs at the top level'),
        (),
    ),
    "C3 a key of items": (PLACED, call("search", {"title": "x", "sku": "y"}), ('"sku" belongs in /lines/*',), ()),
    "C3 a stranger": (PLACED, call("search", {"title": "x", "zq7x": 1}), ("allowed keys",), ("zq7x", "belongs")),
    "C4 of what type": (TOOLS, call("search", {"limit": 1}), ("- /query: is required (a string)",), ("without",)),
    "C4 an unescaped quote": (TOOLS, call("search", '{"query": "a "b" c"}'), ('\\"', "a comma or }"), ()),
    "C4 a comma": (TOOLS, call("search", '{"query": "a" "limit": 1}'), ("a comma or }",), ('\\"',)),
    "C4 a quoted key": (TOOLS, call("search", '{query: "a"}'), ("a key in double quotes",), ("prose",)),
    "C4 a closing quote": (TOOLS, call("search", '{"query": "a'), ("a closing quote, then }",), ()),
    "C4 a closing bracket": (TOOLS, call("search", '{"query": [{"a": 1'), ("}]}",), ()),
    "C4 a text answer": (TOOLS, call("serch", {}), ("search, weather; or answer in text",), ("serch",)),
    "C5 prose": (TOOLS, call("search", "Sure!"), ("no prose",), ()),
    "C5 a fence": (TOOLS, call("search", "```json\n{}\n```"), ("code fence",), ()),
    "C5 neither": (TOOLS, call("search", '{"query": "a"}}'), ("bracket",), ("prose", "fence")),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_recorded_failure_is_told_what_mends_it(name: str) -> None:
    """Each failure that recorded models repeated is told what was missing before, in at most 40 tokens."""
    tools, bad, said_words, unsaid = FOUND[name]
    text = STEERING.correction(situation(terms_of(tools=tools), said(calls=[bad])))
    assert len(text) <= 160
    assert [words for words in said_words if words not in text] == []
    assert [words for words in unsaid if words in text] == []


CONTENT: dict[str, tuple[Any, str, tuple[str, ...], tuple[str, ...]]] = {
    # contract, content of the text channel or of a structured answer, what is said, what is not
    "C1 a reply without keys": ({"channel": "text"}, "{}", ("- /tool: is required", "the reply was", "keys"), ()),
    "C1 a reply without items": ({"channel": "text"}, "[]", ("the reply was an array without items",), ()),
    "C1 an answer without keys": ({"answer": Invoice}, "{}", ("the answer was an object without keys",), ()),
    "C3 flat arguments": ({"channel": "text"}, '{"tool":"search","query":"x"}', ('"query" belongs in /args',), ()),
    "C3 a flat answer": (
        {"channel": "text", "answer": Invoice},
        '{"total":1,"note":"x"}',
        ('"total" belongs in /answer', '"note" belongs in /answer'),
        (),
    ),
    "C4 an answer is allowed": ({"channel": "text"}, '{"tool":"x","args":{}}', ('the key "answer"',), ()),
    "C4 where none is": ({"channel": "text", "answer_style": "tool"}, '{"tool":"x","args":{}}', (), ("or answer",)),
    "C5 prose": ({"channel": "text"}, 'Here it is: {"answer":"x"}', ("no prose",), ()),
    "C5 prose behind": ({"channel": "text"}, '{"answer":"x"} Done.', ("no prose",), ()),
    "C5 a fence": ({"answer": Invoice}, "```json\n{}\n```", ("code fence",), ()),
    "C5 a comma": ({"channel": "text"}, '{"answer" "x"}', ("a colon",), ("prose", "fence")),
    "C5 two values": ({"channel": "text"}, '{"answer":"x"} {"answer":"y"}', (), ("prose", "fence")),
    "C5 nothing": ({"channel": "text"}, " ", (), ("prose", "fence")),
    "C5 cut": ({"answer": Invoice}, '{"total": 1, "note": "x', ("a closing quote",), ("prose", "fence")),
}


@pytest.mark.parametrize("name", CONTENT)
def test_a_content_is_told_what_mends_it(name: str) -> None:
    """What holds for arguments holds for a reply in text and for a structured answer."""
    declared, content, said_words, unsaid = CONTENT[name]
    text = STEERING.correction(situation(terms_of(**declared), said(content)))
    assert [words for words in said_words if words not in text] == []
    assert [words for words in unsaid if words in text] == []


def test_a_forced_choice_offers_no_answer() -> None:
    """Where a call is demanded, an unknown tool is not answered with leave to answer in text (C4)."""
    text = STEERING.correction(situation(terms_of().with_choice("required"), said(calls=[ONE_FAULT["unknown tool"]])))
    assert "or answer" not in text


def test_many_keys_of_one_object_share_a_line() -> None:
    """Keys that belong elsewhere are named behind one list of the allowed keys, not behind one each (C3)."""
    wide = {"type": "object", "properties": {name: {} for name in "abcdef"}}
    schema = {"type": "object", "properties": {"params": wide, "url": {}}}
    terms = terms_of(tools=[Tool.from_json_schema("get", schema)])
    lines = STEERING.correction(situation(terms, said(calls=[call("get", dict.fromkeys("abcdef", 1))]))).splitlines()
    assert len(lines) == 2
    assert all(f'"{name}" belongs in /params' in lines[1] for name in "abcdef")


@pytest.mark.parametrize(
    "name", ["", "a/b", "a~b", "a b", "a.b", 'a"b', "a: b", "\n- /x", "\u202ea", "\x1b[2J", "\x7f", "-", "ключ"]
)
@pytest.mark.parametrize("tier", [1, 2, 3])
def test_a_place_cannot_be_misread(name: str, tier: int) -> None:
    """A place is shown step by step, odd names quoted as JSON, and nothing unprintable stands raw (C2)."""
    schema = {"type": "object", "properties": {"in": {"type": "object", "properties": {name: {"type": "string"}}}}}
    terms = terms_of(tools=[Tool.from_json_schema("t", schema)])
    (issue,) = (situation_ := situation(terms, said(calls=[call("t", {"in": {name: 1}})]), tier)).issues
    assert issue.path == pointer("/tool_calls/0/function/arguments/in", name)
    text = STEERING.correction(situation_)
    line = text.splitlines()[1]
    assert line.startswith("- /in/")
    shown = line.removeprefix("- /in/").partition(": must")[0]
    assert (json.loads(shown) if shown.startswith('"') else shown) == name
    assert all(line.isprintable() for line in text.splitlines())


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("", ""),
        ("/args/limit", "/args/limit"),
        ("/args/", '/args/""'),
        ("/", '/""'),
        ("/a~1b/0/*", '/"a/b"/0/*'),
        ("/a b/c.d/e~0f", '/"a b"/"c.d"/"e~f"'),
        ("/a/b/c/d/e/f/g", "…/b/c/d/e/f/g"),
    ],
)
def test_a_step_of_a_place_is_a_word_or_json(path: str, shown: str) -> None:
    """A pointer is shown with each odd name in quotes, an empty one too, and a deep place by its end (C2)."""
    assert shown_place(path) == shown


# -- C6: examples -----------------------------------------------------------------------------------------------------

FORMS = st.sampled_from(
    [{"type": "integer", "minimum": 3}, {"type": "string", "minLength": 2}, {"type": "boolean"}, {"enum": ["u", "v"]}]
)


@st.composite
def broken(draw: st.DrawFn, depth: int = 3) -> tuple[dict[str, Any], Any, Any]:
    """Draw a schema, a valid instance of it, and the same instance with one value deep inside that does not fit."""
    kind = draw(st.sampled_from(["leaf", "object", "array", "tuple", "union", "nullable", "ref", "all", "map"]))
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
    tagged = {"type": "object", "properties": {"kind": {"const": "k"}, name: schema}, "required": ["kind"]}
    bare = {"type": "object", "properties": {"kind": {"const": "b"}, "q": {"type": "string"}}, "required": ["kind"]}
    branches = [bare, tagged] if kind == "union" else [{"type": "null"}, tagged]
    return {"anyOf": branches}, {"kind": "k", name: right}, {"kind": "k", name: wrong}


def resolves(value: Any, tokens: list[str]) -> bool:
    """Tell whether a value has a part at a place; ``*`` is any member."""
    if not tokens:
        return True
    first, *rest = tokens
    if isinstance(value, list):
        return int(first) < len(value) and resolves(value[int(first)], rest)
    if not isinstance(value, dict):
        return False
    return any(resolves(part, rest) for name, part in value.items() if first in ("*", name))


@given(broken())
def test_every_example_shows_the_field_that_was_wrong_and_is_valid(drawn: tuple[dict[str, Any], Any, Any]) -> None:
    """An example has a value wherever the reply was wrong, optional or deep, and the contract takes it (C6)."""
    inner, _, wrong = drawn
    schema = {"type": "object", "properties": {"it": inner}}
    contract = Contract(tools=[Tool.from_json_schema("t", schema)])
    told = situation(contract, said(calls=[call("t", {"it": wrong})]), 3)
    shown = example_for(told)
    assert shown is not None
    assert not isinstance(contract.check(said(calls=[call("t", shown)])), Invalid)
    for issue in told.issues:
        assert resolves(shown, pointer_tokens(issue.path.removeprefix(told.at)))


@given(broken(), st.sampled_from(["union", "tool"]))
def test_text_examples_show_the_field_that_was_wrong(drawn: tuple[dict[str, Any], Any, Any], style: Any) -> None:
    """So it is in a text reply and in a structured answer of either style, beside other faults and tools (C6)."""
    inner, _, wrong = drawn
    schema = {"type": "object", "properties": {"it": inner}}
    tools = [*TOOLS, Tool.from_json_schema("t", schema)]
    contract = Contract(tools=tools, answer=schema, channel="text", answer_style=style)
    answer = {"answer": {"it": wrong}}
    for reply in (
        {"tool": "t", "args": {"it": wrong}, "zz": 1},
        {"tool": "final_answer", "args": answer} if style == "tool" else answer,
    ):
        told = situation(contract, said(json.dumps(reply)), 3)
        shown = example_for(told)
        assert not isinstance(contract.check(json.dumps(shown)), Invalid)
        assert all(resolves(shown, pointer_tokens(issue.path)) for issue in told.issues)


def test_what_must_be_left_out_is_not_in_the_example() -> None:
    """A member that the schema forbids is left out of the example, which shows the object without it (C6)."""
    schema = {"type": "object", "properties": {"in": {"type": "object", "properties": {"old": False, "new": {}}}}}
    terms = terms_of(tools=[Tool.from_json_schema("t", schema)])
    assert example_for(situation(terms, said(calls=[call("t", {"in": {"old": 1}})]), 3)) == {"in": {}}


def test_no_example_rather_than_one_without_the_field() -> None:
    """Where the field that was wrong can be given no value, no example is shown (C6)."""
    schema = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^zq{77}$"}}}
    terms = terms_of(tools=[Tool.from_json_schema("t", schema)])
    assert example_for(situation(terms, said(calls=[call("t", {"code": "x"})]), 3)) is None


# -- the bound in bytes -----------------------------------------------------------------------------------------------

WIDE = ["ключ" * 15, "値" * 60, "🎈" * 60, "\u202e" * 20, '"\\' * 30]


@pytest.mark.parametrize("tier", range(1, 6))
@pytest.mark.parametrize("letters", WIDE)
def test_corrections_of_wide_schemas_are_bounded_in_bytes(letters: str, tier: int) -> None:
    """However many bytes the letters of a schema take, a correction takes 2,000 at most and ends whole (V18)."""
    names = [f"{letters}{index}" for index in range(40)]
    members = {name: {"enum": [name, f"{name}!"], "description": letters * 9} for name in names}
    schema = {"type": "object", "properties": members, "required": names[:20]}
    for declared in ({"tools": [Tool.from_json_schema("t", schema)]}, {"tools": [], "answer": schema}):
        terms = terms_of(**declared)
        bad = dict.fromkeys([*names[:9], "zz"], 1)
        message = said(calls=[call("t", bad)]) if declared["tools"] else said(json.dumps(bad))
        text = STEERING.correction(situation(terms, message, tier))
        assert len(text.encode()) <= MAX_CORRECTION_BYTES
        assert len(text.splitlines()) > 1
        for line in text.splitlines():
            if line.startswith((EXAMPLE, "Schema of ")):
                json.loads(line[line.index("{") :])
            assert line.isprintable()


@given(st.text(alphabet=st.sampled_from('ж値🎈\u202e" \\\nab'), max_size=1500), st.integers(0, 400), st.integers(1, 4))
def test_a_cut_splits_nothing(words: str, limit: int, tier: int) -> None:
    """A text of any letters is cut between words, to any bound in bytes, and stays a text (V18)."""
    issues = (Issue("mine", Category.FORMAT_ERROR, "/a", words),)
    text = TieredSteering(max_bytes=limit).correction(Situation(issues, terms_of(), tier))
    assert len(text.encode()) <= limit
    for line in text.splitlines()[1:]:
        kept = line.removesuffix("…")
        assert kept in f"- /a: {issues[0].message}" or line.startswith(("Schema", "Tools:", EXAMPLE))


@pytest.mark.parametrize("limit", range(3, 60))
def test_no_escape_is_split(limit: int) -> None:
    """A value of the schema is cut before an escape or behind it, a pair of surrogates counting as one."""
    written = json_words('\x1b\u202e\U000e0001a\\"' * 9)
    kept = capped(written, limit).removesuffix("…")
    assert len(kept) < limit
    assert written.startswith(kept)
    assert ('\x1b\u202e\U000e0001a\\"' * 9).startswith(json.loads(f'{kept}"'))
