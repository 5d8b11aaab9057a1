"""The issues of a check: one per fault, at the right place.

They use the schema's words only, and name the nearest remedy.
"""

from __future__ import annotations

from typing import Any

import pytest

from strictreply import Category
from strictreply.schema import Schema, SchemaRule
from strictreply.schema._vocabulary import list_words

REFUND = {
    "type": "object",
    "properties": {
        "order": {"type": "integer"},
        "reason": {"enum": ["late", "broken"]},
        "limit": {"type": "integer", "minimum": 1, "maximum": 20},
        "note": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}]},
    },
    "required": ["order"],
}
CIRCLE = {
    "type": "object",
    "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
    "required": ["kind", "r"],
}
SQUARE = {
    "type": "object",
    "properties": {"kind": {"const": "square"}, "a": {"type": "number"}},
    "required": ["kind", "a"],
}


def faults(schema: Any, value: Any) -> list[tuple[str, str]]:
    """Return rule and path of every issue."""
    return [
        (issue.code.removeprefix("args."), issue.path)
        for issue in Schema.compile(schema).check(value)
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"order": 1}, []),
        ({"order": 1.0, "note": None}, []),
        ({}, [("required", "/order")]),
        ({"order": "1"}, [("type", "/order")]),
        ({"order": True}, [("type", "/order")]),
        ({"order": 1, "reason": "lost"}, [("enum", "/reason")]),
        ({"order": 1, "limit": 21}, [("maximum", "/limit")]),
        ({"order": 1, "limit": 0}, [("minimum", "/limit")]),
        ({"order": 1, "note": 7}, [("type", "/note")]),
        ({"order": 1, "note": "x"}, [("min_length", "/note")]),
        ({"order": 1, "extra": 2}, [("extra_key", "")]),
        ([], [("type", "")]),
        ({"order": "1", "limit": 99}, [("maximum", "/limit"), ("type", "/order")]),
    ],
)
def test_every_fault_at_its_place(value: Any, expected: list[tuple[str, str]]) -> None:
    """Each fault is one issue with its rule and the JSON Pointer of its place."""
    assert sorted(faults(REFUND, value)) == expected


@pytest.mark.parametrize(
    ("schema", "value", "rule"),
    [
        ({"const": 1}, 2, "const"),
        ({"exclusiveMinimum": 1}, 1, "exclusive_minimum"),
        ({"exclusiveMaximum": 1}, 1, "exclusive_maximum"),
        ({"multipleOf": 2}, 3, "multiple_of"),
        ({"maxLength": 1}, "xx", "max_length"),
        ({"pattern": "^a"}, "b", "pattern"),
        ({"format": "date"}, "2025-02-30", "format"),
        ({"minItems": 1}, [], "min_items"),
        ({"maxItems": 1}, [1, 2], "max_items"),
        ({"uniqueItems": True}, [1, 1], "unique_items"),
        ({"contains": {"type": "string"}}, [1], "contains"),
        ({"contains": {}, "maxContains": 1}, [1, 2], "contains"),
        ({"prefixItems": [{}], "items": False}, [1, 2], "extra_items"),
        ({"minProperties": 1}, {}, "min_properties"),
        ({"maxProperties": 0, "additionalProperties": True}, {"a": 1}, "max_properties"),
        (
            {"propertyNames": {"maxLength": 1}, "additionalProperties": True},
            {"aa": 1},
            "property_names",
        ),
        (
            {"properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}},
            {"a": 1},
            "dependent_required",
        ),
        ({"properties": {"a": False}}, {"a": 1}, "forbidden"),
        ({"not": {"type": "string"}}, "x", "not"),
        ({"type": "object"}, {"a": 1}, "no_keys"),
        (False, 1, "forbidden"),
    ],
)
def test_every_rule_has_its_code(schema: Any, value: Any, rule: str) -> None:
    """Each keyword that refuses gives its own rule, which is a public name."""
    assert [found for found, _ in faults(schema, value)] == [rule]
    assert rule in list(SchemaRule)


def test_place_and_pointer_are_the_callers() -> None:
    """Codes begin with the caller's word and paths with the caller's pointer."""
    (issue,) = Schema.compile(REFUND).check(
        {"order": None}, at="/tool_calls/0/arguments", place="answer"
    )
    assert (issue.code, issue.path) == ("answer.type", "/tool_calls/0/arguments/order")
    assert issue.category is Category.FORMAT_ERROR


def test_an_extra_key_is_found_and_not_told() -> None:
    """The model's key stands only in ``found``; the words list the allowed keys, the hint names the
    nearest.
    """
    (issue,) = Schema.compile(REFUND).check({"order": 1, "reasno": "late"})
    assert "reasno" not in issue.message + issue.hint + issue.path
    assert "reasno" in issue.found
    assert "reason" in issue.hint
    assert "limit" in issue.message


def test_unknown_names_are_masked_in_paths() -> None:
    """A member name that the schema does not speak of is written ``*``."""
    schema = {
        "additionalProperties": {"type": "integer"},
        "properties": {"a/b": {"type": "integer"}},
    }
    assert sorted(faults(schema, {"evil words": "x", "a/b": "y"})) == [
        ("type", "/*"),
        ("type", "/a~1b"),
    ]


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ({"order": 1, "reason": "lat"}, "late"),
        ({"order": 1, "reason": "BROKEN"}, "broken"),
        ({"order": "12"}, "quotes"),
    ],
)
def test_hints_name_the_nearest(value: Any, word: str) -> None:
    """A near miss gets the nearest allowed value as its hint, a quoted number the remark that
    quotes must go.
    """
    (issue,) = Schema.compile(REFUND).check(value)
    assert word in issue.hint


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"kind": "circle", "r": "1"}, [("type", "/in/r")]),
        ({"kind": "square"}, [("required", "/in/a")]),
        ({"kind": "square", "a": 1, "r": 1}, [("extra_key", "/in")]),
        ({"kind": "oval"}, [("enum", "/in/kind")]),
        ({}, [("required", "/in/kind")]),
        (1, [("type", "/in")]),
    ],
)
def test_the_branch_that_was_meant_is_explained(
    keyword: str, value: Any, expected: list[tuple[str, str]]
) -> None:
    """A union with a tag reports the faults of the branch that the tag names."""
    assert faults({"properties": {"in": {keyword: [CIRCLE, SQUARE]}}}, {"in": value}) == expected


def test_untagged_objects_are_told_by_their_keys() -> None:
    """Without a tag the branch whose keys fit is explained; a value near to none gets one issue."""
    union = {
        "anyOf": [
            {"properties": {name: {"type": "integer"}}, "required": [name]} for name in ("a", "b")
        ]
    }
    assert faults(union, {"b": "x"}) == [("type", "/b")]
    assert faults(union, {}) == [("any_of", "")]


def test_known_members_are_not_called_extra() -> None:
    """A listed member with a wrong value counts as unevaluated, yet only its own fault is told."""
    schema = {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {}}}]}
    assert faults(schema, {"a": "x"}) == [("type", "/a")]
    assert sorted(faults(schema, {"a": "x", "z": 1})) == [("extra_key", ""), ("type", "/a")]


def test_issues_are_capped() -> None:
    """At most 32 faults are told, in short words, however many there are."""
    schema = Schema.compile(
        {
            "properties": {
                "a": {"type": "array", "items": {"enum": [f"value {n}" for n in range(500)]}}
            }
        }
    )
    issues = schema.check({"a": ["x" * 10_000] * 100})
    assert 0 < len(issues) <= 32
    assert all(len(issue.message) < 300 and len(issue.found) <= 120 for issue in issues)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (
            {"properties": {"a": {"type": "array", "items": {"type": "integer"}}}},
            {"a": ["x"] * 50_000},
        ),
        (
            {
                "properties": {
                    "a": {
                        "type": "array",
                        "items": {"anyOf": [CIRCLE, {"type": "object", "required": ["q"]}]},
                    }
                }
            },
            {"a": [{}] * 20_000},
        ),
        ({"properties": {}}, {f"key {n}": 1 for n in range(20_000)}),
        (
            {"type": "object", "required": [f"r{n}" for n in range(100)]},
            {f"key {n}": [1] for n in range(20_000)},
        ),
    ],
)
def test_large_values_are_refused_with_few_issues(schema: Any, value: Any) -> None:
    """The price of explaining does not grow with a large value: it has at least one issue, not all
    of them.
    """
    assert 1 <= len(Schema.compile(schema).check(value)) <= 32


def test_a_long_list_costs_what_is_shown_of_it() -> None:
    """Values that are only counted are not written out: 32 issues with an enum of 9000 values would
    take a second.
    """
    unwritable = object()
    assert list_words(["a" * 80, "b", *[unwritable] * 9000]).endswith(" and 9001 more")


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"not": {"type": "integer"}}, 1, "must not be an integer"),
        ({"not": {"enum": ["x", "y"]}}, "x", 'must not be one of "x", "y"'),
        ({"not": {"required": ["q"]}}, {"q": 1}, 'must not match the schema {"required": ["q"]}'),
        (
            {"not": {"$ref": "#/$defs/n"}, "$defs": {"n": {"const": 3}}},
            3,
            "must not be 3",
        ),
        ({"contains": {"type": "integer"}}, ["x"], "at least 1 item that is an integer"),
        (
            {"contains": {"const": "x"}, "minContains": 2, "maxContains": 3},
            ["x"],
            'must contain 2 to 3 items that are each "x"',
        ),
        (
            {"contains": {"required": ["k"]}, "minContains": 2},
            [{"k": 1}],
            'at least 2 items that fit the schema {"required": ["k"]}',
        ),
        (
            {"dependentRequired": {"card": ["cvc"]}},
            {"card": 1},
            'is required because "card" is present',
        ),
        (
            {"dependentSchemas": {"card": {"properties": {"cvc": {"type": "string"}}}}},
            {"card": 1, "cvc": 2},
            'must be a string because "card" is present',
        ),
        (
            {"oneOf": [{"type": "integer"}, {"type": "string"}, {"minimum": 2}]},
            5,
            'it fits form 1 (an integer) and form 3 ({"minimum": 2})',
        ),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": 1, "b": 2},
            'it fits form 1 (an object with "a") and form 2 (an object with "b")',
        ),
    ],
)
def test_what_is_asked_for_is_said_exactly(schema: Any, value: Any, told: str) -> None:
    """An issue names what is excluded or must be contained, which member asks for it, and which
    forms fit where one may.
    """
    (issue,) = Schema.compile(schema, extra="schema").check(value)
    assert told in issue.message
