"""Taking a correction: the faults that are named are mended, no others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strictreply.testing._demo.drafts import Draft, Target
from strictreply.testing._demo.mending import Complaint, complaints, mend, names_a_place, nearest
from strictreply.testing._targets import Place

RIGHT: dict[str, Any] = {"query": "shoes", "limit": 2, "tags": ["a", "b"], "where": {"city": "Oslo", "radius": 3}}


def target(place: Place = "call") -> Target:
    """The right call."""
    return Target("search", RIGHT, None, place)


def mended(wrong: object, correction: str, place: Place = "call", tool: str = "search") -> object:
    """Mend a value and give the JSON that comes of it."""
    draft = Draft(tool if place == "call" else "", json.dumps(wrong))
    return json.loads(mend(draft, target(place), correction).text)


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
        (RIGHT | {"limit": None}, "Still not valid.\n- /tool_calls/0/function/arguments/limit: must be an integer"),
        (RIGHT | {"note": "x"}, "- has a key that is not allowed; allowed: query, limit, tags, where"),
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
def test_a_named_fault_is_mended(wrong: object, correction: str) -> None:
    """One complaint by pointer and words is enough to mend one fault."""
    assert mended(wrong, correction) == RIGHT


def test_an_unnamed_fault_stays() -> None:
    """Of two faults only the named one is mended."""
    wrong = RIGHT | {"limit": "2", "query": 5}
    assert mended(wrong, "- /limit: must be an integer") == RIGHT | {"query": 5}


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
def test_a_correction_that_names_nothing_mends_nothing(correction: str) -> None:
    """Without the place of a fault of this call the mistake is repeated."""
    wrong = RIGHT | {"limit": "2"}
    assert mended(wrong, correction) == wrong


@pytest.mark.parametrize("pointer", ["/args/limit", "/limit"])
def test_the_union_is_mended_inside(pointer: str) -> None:
    """In the text channel pointers count from the union, or from the arguments when those alone are re-asked."""
    wrong = {"tool": "search", "args": RIGHT | {"limit": "2"}}
    assert mended(wrong, f"- {pointer}: must be an integer", "union") == {"tool": "search", "args": RIGHT}


def test_the_tool_of_a_union_is_mended() -> None:
    """An unknown tool in the union is named right when it is complained about."""
    assert mended({"tool": "find", "args": RIGHT}, "- /tool: no such tool", "union") == target("union").whole


@pytest.mark.parametrize(
    "correction",
    ["- /tool_calls/0/function/name: no such tool (did you mean search?)", "- no such tool; tools: search"],
)
def test_an_unknown_tool_is_mended(correction: str) -> None:
    """A complaint about the tool mends its name and leaves the arguments."""
    draft = Draft("finder", json.dumps(RIGHT))
    assert mend(draft, target(), correction) == target().clean
    assert mend(draft, target(), "- /limit: must be an integer").tool == "finder"


@pytest.mark.parametrize(
    ("text", "correction"),
    [
        ("{'limit': 2}", "- not valid JSON at line 1 column 2"),
        ('{"limit": ', "The reply was cut off at the token limit. Reply again, shorter."),
        ("```json\n{}\n```", "- not valid JSON at line 1 column 1"),
    ],
)
def test_a_bad_form_is_mended_when_told(text: str, correction: str) -> None:
    """What is not JSON is written anew when the correction speaks of that."""
    draft = Draft("search", text)
    assert mend(draft, target(), correction) == target().clean
    assert mend(draft, target(), "Not valid.") == draft


def test_prose_is_said_again_when_complained_about() -> None:
    """Plain text has no parts to mend: a complaint gets the right text, anything else the same again."""
    wanted = Target("", "right", None, "prose")
    assert mend(Draft("", "wrong"), wanted, "- /content: must be kind") == Draft("", "right")
    assert mend(Draft("", "wrong"), wanted, "Not valid.") == Draft("", "wrong")


def test_a_draft_finds_its_target() -> None:
    """By the tool first, then by the members that it shares with the right call."""
    targets = {
        0: Target("weather", {"city": "Paris", "days": 1}, None, "call"),
        1: Target("weather", {"city": "Tokyo", "days": 1}, None, "call"),
        2: Target("search", {"query": "Tokyo"}, None, "call"),
        3: Target("", [1], None, "json"),
    }
    assert nearest(Draft("weather", '{"city": "Tokyo", "days": "1"}'), targets) == 1
    assert nearest(Draft("weather<|x|>", "{'city': 'Paris'}"), targets) == 0
    assert nearest(Draft("search", "{}"), targets) == 2


def test_results_are_not_corrections() -> None:
    """Text without pointers names no place, bullets or not."""
    assert not names_a_place("- Fell Runner: 89.90 EUR\n- Road Runner")
    assert names_a_place("Not valid.\n- /limit: must be an integer")
