"""Extraction: only what was opted into is forgiven.

Every step is named, and what is found is what the reader reads.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strictreply import Limits
from strictreply.core import DEFAULT_LIMITS, Extraction, decode
from strictreply.core.judging import extract, is_json
from strictreply.reading._decoding import MAX_CANDIDATES

OBJECTS = st.dictionaries(
    st.text(max_size=3),
    st.none()
    | st.integers()
    | st.text(max_size=8)
    | st.lists(st.booleans() | st.dictionaries(st.text(), st.text())),
    max_size=3,
)
PROSE = st.text(alphabet=st.characters(exclude_characters="{", codec="utf-8"))
ALL: tuple[Extraction, ...] = ("after_think", "fenced", "first_object")


def first_object(text: str, limits: Limits = DEFAULT_LIMITS) -> str | None:
    """Return the object found, None when the text was left as it was."""
    found, steps = extract(text, ("first_object",), limits)
    assert steps == (() if found == text else ("first_object",))
    return found if steps else None


@pytest.mark.req("T18")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('Here you go: {"x": 1} and that is all.', '{"x": 1}'),
        ('Sure. {"a": {"b": {"c": 1}}} Done', '{"a": {"b": {"c": 1}}}'),
        ('Look:\n```json\n{"x": 1}\n```\nOK?', '{"x": 1}'),
        ('```json\n{"x": 1}\n```\nor\n```json\n{"x": 2}\n```', '{"x": 1}'),
        ('first {} then {"x":1}', "{}"),
        ('{"a": } {"b":2}', '{"b":2}'),
        ("no JSON here", None),
    ],
)
def test_first_object_of_a_text(text: str, found: str | None) -> None:
    """The first complete, valid object is taken; without one the text stays as it is."""
    assert first_object(text) == found


@pytest.mark.req("T19")
@pytest.mark.parametrize(
    "answer", ["a } b", "a { b", '"} {', "\\", '\\"}', "{}", "```", "</think>"]
)
def test_braces_in_strings_are_no_braces(answer: str) -> None:
    """An object is taken whole, whatever its strings hold."""
    text = json.dumps({"answer": answer})
    assert first_object(f"My reply: {text} Good luck!") == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{see below} {'x': 1} {\"x\": 1}", '{"x": 1}'),
        ('{ {"x": 1} }', '{"x": 1}'),
        ('{"x": 1, "x": 2} {"y": 1}', '{"y": 1}'),
        ('{"x": NaN} {"x": "\\ud800"} {"x": 1}', '{"x": 1}'),
        ('{"x": {"y": 1}, "x": 2}', None),
        ('say {"tool": "pay", "args": {"answer": "yes"}, "no', None),
        ('{"x": ' * 70 + '{"y": 1}', None),
        ('{"x": [' + "NaN, " * 20 + '{"y": 1}]}', None),
        ("[1, 2] or {}", "{}"),
        ('<think>{"x": 1}</think> {"x": 2}', '{"x": 1}'),
    ],
)
def test_a_faulty_object_is_passed_over(text: str, found: str | None) -> None:
    """A fault sends the search on behind it; inside a cut, ambiguous or too deep object nothing is
    looked for.
    """
    assert first_object(text) == found


@pytest.mark.parametrize("text", ['{"x": 1}', ' [{"x": 1}]\n', '"{}"', "null"])
@pytest.mark.parametrize("modes", [ALL, ("strict",), ("first_object",), ("fenced",), ()])
def test_json_is_taken_whole(text: str, modes: tuple[Extraction, ...]) -> None:
    """A text that is JSON as it stands is not searched: no step, no change."""
    assert extract(text, modes) == (text, ())


@given(PROSE, OBJECTS, st.text())
def test_finds_an_object_behind_any_prose(before: str, value: dict[str, Any], after: str) -> None:
    """Text without braces before an object, and any text after it, make no difference."""
    text = json.dumps(value)
    found, steps = extract(before + text + after, ("first_object",))
    assert decode(found) == value or (steps == () and is_json(before + text + after))


@given(st.text(alphabet='{}[]":,1a\\ \n') | st.text())
@example('{"a": {"b": 1}, {"c": 2}')
def test_what_is_found_is_a_part_of_the_text_that_the_reader_accepts(text: str) -> None:
    """The object is a substring, an object, and valid."""
    found = first_object(text)
    if found is not None:
        assert found in text
        assert isinstance(decode(found), dict)


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ('```json\n{"x": 1}\n```', '{"x": 1}'),
        ('```\n{"x": 1}\n```', '{"x": 1}'),
        ('  ```JSON  \r\n{"x": 1}\r\n```\n', '{"x": 1}'),
        ('```json\n{\n"x": "```"\n}\n```', '{\n"x": "```"\n}'),
        ("```json\n```", ""),
        ("```json\n[1]\n```", "[1]"),
        ('~~~json\n{"x": 1}\n~~~', None),
        ('```json\n{"x": 1}\n```\n```json\n{"x": 2}\n```', None),
        ('Here:\n```json\n{"x": 1}\n```', None),
        ('```json\n{"x": 1}\n```\nDone.', None),
        ('```json\n{"x": 1}', None),
        ('```python\n{"x": 1}\n```', None),
        ('```{"x": 1}```', None),
        ('````json\n{"x": 1}\n````', None),
        ('{"x": 1}', None),
        ("```", None),
    ],
)
def test_one_fence_around_the_whole_text(text: str, inside: str | None) -> None:
    """A fence's inside is taken when the fence is all there is; anything else stays as it is."""
    found, steps = extract(text, ("fenced",))
    if inside is None:
        assert (found, steps) == (text, ())
    else:
        assert (found.strip(), steps) == (inside, ("fenced",))


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('<think>hm { "</think>{"x": 1}', '{"x": 1}'),
        ('\n<think>\nhm\n</think>\n\n{"x": 1}', '{"x": 1}'),
        ("<think></think>", ""),
        ('<think>a</think><think>b</think>{"x": 1}', '<think>b</think>{"x": 1}'),
        ('<think>never closed {"x": 1}', None),
        ('hm</think>{"x": 1}', None),
        ('So: <think>hm</think>{"x": 1}', None),
        ('{"x": "<think></think>"}', None),
    ],
)
def test_one_leading_thought(text: str, rest: str | None) -> None:
    """One whole leading thought is dropped; one that is open, late or lacks its start is not."""
    found, steps = extract(text, ("after_think",))
    if rest is None:
        assert (found, steps) == (text, ())
    else:
        assert (found.strip(), steps) == (rest, ("after_think",))


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ('<think>?</think>\n```json\nIt is {"x": 1}\n```', ALL),
        ('<think>{"x": 2}</think>\n```json\n{"x": 1}\n```', ("after_think", "fenced")),
        ('<think>?</think>{"x": 1}', ("after_think",)),
        ('```json\n{"x": 1}\n```', ("fenced",)),
        ('Well, {"x": 1}', ("first_object",)),
        ('{"x": 1}', ()),
    ],
)
def test_modes_combine_in_one_order(text: str, steps: tuple[Extraction, ...]) -> None:
    """Thought, fence, prose: each is taken off only where it stands, whatever the order of the
    names.
    """
    found, taken = extract(text, ALL[::-1])
    assert (json.loads(found), taken) == ({"x": 1}, steps)


@given(st.text(alphabet='{}":x1`\n<>/think json', max_size=60))
def test_strict_forgives_nothing(text: str) -> None:
    """Without a mode, or with ``strict`` alone, every text is judged as it came."""
    assert extract(text, ()) == extract(text, ("strict",)) == (text, ())


def test_a_text_beyond_the_cap_is_left_alone() -> None:
    """A text that exceeds the cap is not searched."""
    text = 'x {"x": 1}'
    assert first_object(text, Limits(reply_bytes=len(text))) == '{"x": 1}'
    assert first_object(text, Limits(reply_bytes=len(text) - 1)) is None


def test_the_search_is_bounded() -> None:
    """After so many false starts, or so many values, the search is over."""
    last = '{"x": 1}'
    assert first_object('{"":} ' * (MAX_CANDIDATES - 1) + last) == last
    assert first_object('{"":} ' * MAX_CANDIDATES + last) is None
    assert first_object('{"x": [1, 1, 1, !} ' * 2 + last, Limits(nodes=12)) == last
    assert first_object('{"x": [1, 1, 1, !} ' * 2 + last, Limits(nodes=11)) is None


@pytest.mark.parametrize(
    "unit",
    [
        "{",
        '{"',
        '{"a":',
        '{"":}',
        '{"a":{"b":1},',
        '{"a":1,"a":2}',
        "{ ",
        '{"a{"',
        "```json\n",
        "<think>",
        '"{',
    ],
)
def test_hostile_texts_are_left_alone_or_cut(unit: str) -> None:
    """A megabyte of any one beginning comes to an end, without an exception."""
    text = unit * (10**6 // len(unit))
    found, steps = extract(text, ALL)
    assert bool(steps) is (found != text)
