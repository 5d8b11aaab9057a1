"""What a model is told about its bad reply.

It is exact, short, escalating, and never in the model's own words.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from strictreply import Code, CorrectionContext, Issue, Tool
from strictreply.core.text import pointer
from support.corrections import EXAMPLE, STEERING, TOOLS, Invoice, context, said, terms_of
from support.scripted import call

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
    """A correction of one fault in one field is at most 160 characters: 40 tokens at four
    characters each.
    """
    text = STEERING.correction(context(terms_of(), said(calls=[ONE_FAULT[name]])))
    assert len(text) <= 160


def test_a_fault_is_named_by_place_rule_and_bound() -> None:
    """The line of a fault gives its path below the arguments, and what the schema allows."""
    text = STEERING.correction(context(terms_of(), said(calls=[ONE_FAULT["maximum"]])))
    headline, fault = text.splitlines()
    assert "search" in headline
    assert fault.startswith("- /limit: ")
    assert "20" in fault


def test_an_unknown_tool_is_answered_with_the_nearest_and_the_list() -> None:
    """The names are ours: the nearest declared one, and all of them."""
    text = STEERING.correction(context(terms_of(), said(calls=[ONE_FAULT["unknown tool"]])))
    assert "search, weather" in text
    assert "did you mean search?" in text
    assert "serch" not in text


@pytest.mark.parametrize(
    "message",
    [
        said(""),
        said(calls=[call("bogus", {})]),
        said(calls=[call("search", {}), call("weather", {}, "b")]),
    ],
)
def test_faults_in_the_calls_as_a_whole_recall_the_tools(message: Any) -> None:
    """Where no single call can be asked for again, the second correction names the tools with their
    parameters.
    """
    terse, more = (
        STEERING.correction(context(terms_of(parallel=True), message, tier)) for tier in (1, 2)
    )
    assert "Tools:" not in terse
    assert "Tools: search(query, limit), weather(city)" in more


def test_only_content_that_should_be_json_is_asked_for_alone() -> None:
    """Unreadable content is to come without prose, unreadable arguments as calls again."""
    prose = STEERING.correction(context(terms_of(channel="text"), said("prose")))
    calls = said(calls=[call("search", "{nope"), call("weather", "{nope", "b")])
    arguments = STEERING.correction(context(terms_of(parallel=True), calls))
    assert "prose or code fence" in prose
    assert "prose" not in arguments


def test_the_way_to_answer_is_among_the_tools() -> None:
    """Where an answer is a call, the recalled tools name it."""
    terms = terms_of(answer_style="tool")
    assert "final_answer(answer)" in STEERING.correction(context(terms, said(""), 2))


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
    texts = [STEERING.correction(context(terms, message, tier)) for tier in range(1, 8)]
    assert len(set(texts)) == len(texts)


def test_tiers_add_the_schema_and_then_an_example() -> None:
    """First the faults; then the sub-schema that was broken; then also a minimal valid example."""
    terse, schema, example = (
        STEERING.correction(context(terms_of(), said(calls=[ONE_FAULT["maximum"]]), tier))
        for tier in (1, 2, 3)
    )
    assert "Schema of" not in terse
    assert 'Schema of /limit: {"type":"integer","minimum":1,"maximum":20}' in schema
    assert EXAMPLE not in schema

    assert "Schema of" in example
    assert EXAMPLE in example


def test_a_cut_reply_is_asked_for_less_and_nothing_else() -> None:
    """No schema, no example, no word of JSON; other words at each tier."""
    issues = (Issue.of(Code.REPLY_TRUNCATED, "/choices/0/finish_reason"),)
    texts = [
        STEERING.correction(CorrectionContext(issues, terms_of(channel="text"), tier))
        for tier in range(1, 5)
    ]
    assert len(set(texts)) == 4
    assert all(
        "JSON" not in text and "Schema" not in text and EXAMPLE not in text for text in texts
    )
    assert all("cut off" in text for text in texts)


PLACES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "params": {
            "type": "object",
            "properties": {"latitude": {"type": "number"}},
            "required": ["latitude"],
        },
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"sku": {"type": "string"}}},
        },
    },
    "required": ["title"],
}
PLACED = [Tool.from_json_schema("search", PLACES)]
FOUND: dict[str, tuple[Any, Any, tuple[str, ...], tuple[str, ...]]] = {
    # tools, bad message, what the correction holds, what it does not hold
    "C1 no keys": (PLACED, call("search", {}), ("- /title: ", "without keys", "(a string)"), ()),
    "C1 no items": (PLACED, call("search", []), ("without items",), ()),
    "C1 null": (PLACED, call("search", "null"), ("null",), ()),
    "C1 an inner object without keys": (
        PLACED,
        call("search", {"title": "x", "params": {}}),
        ("without keys",),
        (),
    ),
    "C3 a key that belongs below": (
        PLACED,
        call("search", {"title": "x", "latitude": 1}),
        ('remove the other keys; allowed: "title", "params"', '"latitude" belongs in /params'),
        (),
    ),
    "C3 a key that belongs above": (
        PLACED,
        call("search", {"title": "x", "params": {"latitude": 1, "lines": []}}),
        ("- /params: ", '"lines" belongs at the top level'),
        (),
    ),
    "C3 a key of items": (
        PLACED,
        call("search", {"title": "x", "sku": "y"}),
        ('"sku" belongs in /lines/*',),
        (),
    ),
    "C3 a stranger": (
        PLACED,
        call("search", {"title": "x", "zq7x": 1}),
        ("remove the other keys",),
        ("zq7x", "belongs"),
    ),
    "C4 of what type": (
        TOOLS,
        call("search", {"limit": 1}),
        ("- /query: is required (a string)",),
        ("without",),
    ),
    "C4 an unescaped quote": (
        TOOLS,
        call("search", '{"query": "a "b" c"}'),
        ('\\"', "a comma or }"),
        (),
    ),
    "C4 a comma": (TOOLS, call("search", '{"query": "a" "limit": 1}'), ("a comma or }",), ('\\"',)),
    "C4 a quoted key": (
        TOOLS,
        call("search", '{query: "a"}'),
        ("a key in double quotes",),
        ("prose",),
    ),
    "C4 a closing quote": (TOOLS, call("search", '{"query": "a'), ("a closing quote, then }",), ()),
    "C4 a closing bracket": (TOOLS, call("search", '{"query": [{"a": 1'), ("}]}",), ()),
    "C4 a text answer": (
        TOOLS,
        call("serch", {}),
        ("search, weather; or answer in text",),
        ("serch",),
    ),
    "C5 prose": (TOOLS, call("search", "Sure!"), ("no prose",), ()),
    "C5 a fence": (TOOLS, call("search", "```json\n{}\n```"), ("code fence",), ()),
    "C5 neither": (TOOLS, call("search", '{"query": "a"}}'), ("bracket",), ("prose", "fence")),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_recorded_failure_is_told_what_mends_it(name: str) -> None:
    """Each failure that recorded models repeated is told what was missing before, in at most 40
    tokens.
    """
    tools, bad, said_words, unsaid = FOUND[name]
    text = STEERING.correction(context(terms_of(tools=tools), said(calls=[bad])))
    assert len(text) <= 160
    assert [words for words in said_words if words not in text] == []
    assert [words for words in unsaid if words in text] == []


CONTENT: dict[str, tuple[Any, str, tuple[str, ...], tuple[str, ...]]] = {
    # contract, content of the text channel or of a structured answer, what is said, what is not
    "C1 a reply without keys": (
        {"channel": "text"},
        "{}",
        ("- /tool: is required", "the reply was", "keys"),
        (),
    ),
    "C1 a reply without items": (
        {"channel": "text"},
        "[]",
        ("the reply was an array without items",),
        (),
    ),
    "C1 an answer without keys": (
        {"answer": Invoice},
        "{}",
        ("the answer was an object without keys",),
        (),
    ),
    "C3 flat arguments": (
        {"channel": "text"},
        '{"tool":"search","query":"x"}',
        ('"query" belongs in /args',),
        (),
    ),
    "C3 a flat answer": (
        {"channel": "text", "answer": Invoice},
        '{"total":1,"note":"x"}',
        ('"total" belongs in /answer', '"note" belongs in /answer'),
        (),
    ),
    "C4 an answer is allowed": (
        {"channel": "text"},
        '{"tool":"x","args":{}}',
        ('the key "answer"',),
        (),
    ),
    "C4 where none is": (
        {"channel": "text", "answer_style": "tool"},
        '{"tool":"x","args":{}}',
        (),
        ("or answer",),
    ),
    "C5 prose": ({"channel": "text"}, 'Here it is: {"answer":"x"}', ("no prose",), ()),
    "C5 prose behind": ({"channel": "text"}, '{"answer":"x"} Done.', ("no prose",), ()),
    "C5 a fence": ({"answer": Invoice}, "```json\n{}\n```", ("code fence",), ()),
    "C5 a comma": ({"channel": "text"}, '{"answer" "x"}', ("a colon",), ("prose", "fence")),
    "C5 two values": ({"channel": "text"}, '{"answer":"x"} {"answer":"y"}', (), ("prose", "fence")),
    "C5 nothing": ({"channel": "text"}, " ", (), ("prose", "fence")),
    "C5 cut": (
        {"answer": Invoice},
        '{"total": 1, "note": "x',
        ("a closing quote",),
        ("prose", "fence"),
    ),
}


@pytest.mark.parametrize("name", CONTENT)
def test_a_content_is_told_what_mends_it(name: str) -> None:
    """The same hints are given for a reply in text and for a structured answer as for arguments."""
    declared, content, said_words, unsaid = CONTENT[name]
    text = STEERING.correction(context(terms_of(**declared), said(content)))
    assert [words for words in said_words if words not in text] == []
    assert [words for words in unsaid if words in text] == []


def test_a_forced_choice_offers_no_answer() -> None:
    """Where a call is demanded, a correction of an unknown tool does not permit text (C4)."""
    text = STEERING.correction(
        context(terms_of().with_choice("required"), said(calls=[ONE_FAULT["unknown tool"]]))
    )
    assert "or answer" not in text


def test_many_keys_of_one_object_share_a_line() -> None:
    """Keys that belong elsewhere are named behind one list of the allowed keys, not behind one each
    (C3).
    """
    wide = {"type": "object", "properties": {name: {} for name in "abcdef"}}
    schema = {"type": "object", "properties": {"params": wide, "url": {}}}
    terms = terms_of(tools=[Tool.from_json_schema("get", schema)])
    lines = STEERING.correction(
        context(terms, said(calls=[call("get", dict.fromkeys("abcdef", 1))]))
    ).splitlines()
    assert len(lines) == 2
    assert all(f'"{name}" belongs in /params' in lines[1] for name in "abcdef")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a/b",
        "a~b",
        "a b",
        "a.b",
        'a"b',
        "a: b",
        "\n- /x",
        "\u202ea",
        "\x1b[2J",
        "\x7f",
        "-",
        "ключ",
    ],
)
@pytest.mark.parametrize("tier", [1, 2, 3])
def test_a_place_cannot_be_misread(name: str, tier: int) -> None:
    """A place is shown step by step, odd names quoted as JSON, and nothing unprintable stands raw
    (C2).
    """
    schema = {
        "type": "object",
        "properties": {"in": {"type": "object", "properties": {name: {"type": "string"}}}},
    }
    terms = terms_of(tools=[Tool.from_json_schema("t", schema)])
    (issue,) = (built := context(terms, said(calls=[call("t", {"in": {name: 1}})]), tier)).issues
    assert issue.path == pointer("/tool_calls/0/function/arguments/in", name)

    text = STEERING.correction(built)
    line = text.splitlines()[1]
    assert line.startswith("- /in/")
    shown = line.removeprefix("- /in/").partition(": must")[0]
    assert (json.loads(shown) if shown.startswith('"') else shown) == name

    assert all(line.isprintable() for line in text.splitlines())
