"""Taking a correction: the faults that are named are fixed, no others."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from unreliable_corrections import (
    Complaint,
    Draft,
    answered_reply,
    clean_draft,
    complaints,
    first_ask,
    fix,
    names_a_place,
    nearest,
)

from strictreply import Tool
from strictreply.testing import ReplyPlace
from strictreply.testing._steps import Target

RIGHT: dict[str, Any] = {
    "query": "shoes",
    "limit": 2,
    "tags": ["a", "b"],
    "where": {"city": "Oslo", "radius": 3},
}


def target(place: ReplyPlace = "call") -> Target:
    """The right call."""
    tool = Tool.from_json_schema("search", {"type": "object"}, extra="schema")
    return Target.of(tool, place=place, args=RIGHT)


def fixed(
    wrong: object, correction: str, place: ReplyPlace = "call", tool: str = "search"
) -> object:
    """Fix a value and give the JSON that comes of it."""
    draft = Draft(tool if place == "call" else "", json.dumps(wrong))
    return json.loads(fix(draft, target(place), correction).text)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("- /limit: must be an integer", [Complaint("/limit", "must be an integer")]),
        ("* /a/0/b: must be a string", [Complaint("/a/0/b", "must be a string")]),
        ("1. `/limit`: must be an integer", [Complaint("/limit", "must be an integer")]),
        ("/limit must be an integer", [Complaint("/limit", "must be an integer")]),
        ('- must have the key "city"', [Complaint("", 'must have the key "city"')]),
        ('- /: must have the key "city"', [Complaint("", 'must have the key "city"')]),
        ("Not valid. Reply again, corrected:", []),
        ('Schema of it: {"type":"integer"}', []),
        ("", []),
    ],
)
def test_lines_are_read_as_complaints(line: str, expected: list[Complaint]) -> None:
    """A line with a bullet or a pointer is a complaint, other lines are not."""
    assert list(complaints(line)) == expected


@pytest.mark.parametrize(
    ("wrong", "correction"),
    [
        (RIGHT | {"limit": "2"}, "- /limit: must be an integer"),
        (
            RIGHT | {"limit": None},
            "Still not valid.\n- /tool_calls/0/function/arguments/limit: must be an integer",
        ),
        (
            RIGHT | {"note": "x"},
            "- has a key that is not allowed; allowed: query, limit, tags, where",
        ),
        (RIGHT | {"note": "x"}, '- must have no key but "query", "limit", "tags", "where"'),
        ({"limit": 2, "tags": ["a", "b"], "where": RIGHT["where"]}, '- must have the key "query"'),
        ({"limit": 2, "tags": ["a", "b"], "where": RIGHT["where"]}, "- /query: is missing"),
        (RIGHT | {"tags": ["a", 1]}, "- /tags/1: must be a string"),
        (RIGHT | {"tags": "a, b"}, "- /tags: must be an array"),
        (RIGHT | {"tags": ["a", "b", "c"]}, "- /tags/2: must not be here"),
        (RIGHT | {"where": {"city": "Oslo", "radius": "3"}}, "- /where/radius: must be a number"),
        (RIGHT | {"where": {"radius": 3}}, "- /where: must have the key city"),
        (RIGHT | {"colour": None}, "- /colour: must be a string"),
        (RIGHT | {"limit": "2"}, "- /args/limit: must be an integer"),
        ([RIGHT], "- must be a JSON object"),
    ],
)
def test_a_named_fault_is_fixed(wrong: object, correction: str) -> None:
    """One complaint by pointer and words is enough to fix one fault."""
    assert fixed(wrong, correction) == RIGHT


def test_an_unnamed_fault_stays() -> None:
    """Of two faults only the named one is fixed."""
    wrong = RIGHT | {"limit": "2", "query": 5}
    assert fixed(wrong, "- /limit: must be an integer") == RIGHT | {"query": 5}


@pytest.mark.parametrize(
    "correction",
    [
        "",
        "Not valid.",
        "Not valid. Call search again with corrected arguments:",
        "Please try harder!",
        "- /tool_calls/1/function/arguments/limit: must be an integer",
        "- has something wrong",
        'Schema of it: {"type":"object"}\nA valid example: {"limit":1}',
    ],
)
def test_a_correction_that_names_nothing_fixes_nothing(correction: str) -> None:
    """Without the place of a fault of this call the mistake is repeated."""
    wrong = RIGHT | {"limit": "2"}
    assert fixed(wrong, correction) == wrong


@pytest.mark.parametrize("pointer", ["/args/limit", "/limit"])
def test_the_union_is_fixed_inside(pointer: str) -> None:
    """In the text channel pointers count from the union, or from the arguments when those alone are
    re-asked.
    """
    wrong = {"tool": "search", "args": RIGHT | {"limit": "2"}}
    assert fixed(wrong, f"- {pointer}: must be an integer", "union") == {
        "tool": "search",
        "args": RIGHT,
    }


def test_the_tool_of_a_union_is_fixed() -> None:
    """An unknown tool in the union is named right when it is complained about."""
    assert fixed({"tool": "find", "args": RIGHT}, "- /tool: no such tool", "union") == {
        "tool": "search",
        "args": RIGHT,
    }


@pytest.mark.parametrize(
    "correction",
    [
        "- /tool_calls/0/function/name: no such tool (did you mean search?)",
        "- no such tool; tools: search",
    ],
)
def test_an_unknown_tool_is_fixed(correction: str) -> None:
    """A complaint about the tool fixes its name and leaves the arguments."""
    draft = Draft("finder", json.dumps(RIGHT))
    assert fix(draft, target(), correction) == clean_draft(target())
    assert fix(draft, target(), "- /limit: must be an integer").tool == "finder"


@pytest.mark.parametrize(
    ("text", "correction"),
    [
        ("{'limit': 2}", "- not valid JSON at line 1 column 2"),
        ('{"limit": ', "The reply was cut off at the token limit. Reply again, shorter."),
        ("```json\n{}\n```", "- not valid JSON at line 1 column 1"),
    ],
)
def test_a_bad_form_is_fixed_when_told(text: str, correction: str) -> None:
    """A reply that is not JSON is rewritten when the correction mentions that."""
    draft = Draft("search", text)
    assert fix(draft, target(), correction) == clean_draft(target())
    assert fix(draft, target(), "Not valid.") == draft


def test_prose_is_said_again_when_complained_about() -> None:
    """Plain text has no parts to fix: a complaint gets the right text, anything else the same
    again.
    """
    wanted = Target.of(args="right")
    assert fix(Draft("", "wrong"), wanted, "- /content: must be kind") == Draft("", "right")
    assert fix(Draft("", "wrong"), wanted, "Not valid.") == Draft("", "wrong")


def test_a_draft_finds_its_target() -> None:
    """By the tool first, then by the members that it shares with the right call."""
    weather = Tool.from_json_schema("weather", {"type": "object"}, extra="schema")
    targets = [
        Target.of(weather, args={"city": "Paris", "days": 1}),
        Target.of(weather, args={"city": "Tokyo", "days": 1}),
        Target.of(replace(weather, name="search"), args={"query": "Tokyo"}),
        Target.of({"type": "array"}, place="json", args=[1]),
    ]
    assert nearest(Draft("weather", '{"city": "Tokyo", "days": "1"}'), targets) is targets[1]
    assert nearest(Draft("weather<|x|>", "{'city': 'Paris'}"), targets) is targets[0]

    assert nearest(Draft("search", "{}"), targets) is targets[2]


def test_results_are_not_corrections() -> None:
    """Text without pointers names no place, bullets or not."""
    assert not names_a_place("- Fell Runner: 89.90 EUR\n- Road Runner")
    assert names_a_place("Not valid.\n- /limit: must be an integer")


ASK: dict[str, Any] = {"role": "user", "content": "Weather?"}


def call(id_: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    """Make one native call."""
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(id_: str, content: str) -> dict[str, Any]:
    """Make a tool turn."""
    return {"role": "tool", "tool_call_id": id_, "content": content}


def test_text_may_come_in_parts() -> None:
    """Content is a string, a list of parts, or nothing."""
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, 5, {"text": "b"}]
    said = {"role": "user"}
    asked = [first_ask([said | {"content": content}]) for content in ("a", parts, None)]
    assert [one.question for one in asked] == ["a", "a\nb", ""]
    assert first_ask([said]).question == ""


def test_a_conversation_without_user_or_reply_is_read() -> None:
    """Nothing is demanded of the turns."""
    assert first_ask([{"role": "system", "content": "x"}]).question == ""
    assert answered_reply([ASK]) is None
    assert answered_reply([ASK, {"role": "assistant", "content": "x"}]) is None


def test_a_correction_has_the_key_of_its_first_ask() -> None:
    """However the correction comes, it belongs to the same step of the conversation."""
    bad: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call("c1")]}
    step = [ASK, bad, result("c1", "4 degrees")]
    for turns in ([ASK], step):
        first = first_ask(turns)
        for remark in (
            [result("c1", "- /a: must be an integer")],
            [{"role": "user", "content": "Not valid."}],
        ):
            back = answered_reply([*turns, bad, *remark])
            assert back is not None
            assert (back.question, back.key, back.results) == (
                first.question,
                first.key,
                first.results,
            )

    assert first_ask([ASK]).key != first_ask(step).key


def test_each_call_gets_what_was_said_on_it() -> None:
    """A tool turn is about its call, a turn of the user about all."""
    reply = {"role": "assistant", "tool_calls": [call("c1", "f"), call("c2", "g", "[")]}
    said = {"role": "user", "content": "again"}
    back = answered_reply([ASK, reply, result("c2", "bad"), result("c1", "kept"), said])
    assert back is not None
    assert back.prior == (Draft("f", "{}"), Draft("g", "["))
    assert back.remarks == ("kept\nagain", "bad\nagain")
    assert back.said == "kept\nagain\nbad\nagain"


def test_calls_in_text_are_calls() -> None:
    """A list of calls as text is read like calls; other text is content."""
    for text, prior in (
        (json.dumps([call("c1", "f<|x|>")]), Draft("f<|x|>", "{}")),
        ("[broken", Draft("", "[broken")),
        ("[]", Draft("", "[]")),
        ("hello", Draft("", "hello")),
    ):
        back = answered_reply([ASK, {"role": "assistant", "content": text}, ASK])
        assert back is not None
        assert back.prior == (prior,)
