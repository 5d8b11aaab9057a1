"""Closing objects: where additional members are refused.

What the schema says itself is respected.
"""

from __future__ import annotations

from typing import Any

import pytest

from strictreply.schema import Schema

OBJECT = {"type": "object", "properties": {"a": {}}}
DRAFT_07 = "http://json-schema.org/draft-07/schema#"


def inside(schema: dict[str, Any], **definitions: Any) -> dict[str, Any]:
    """Put a schema where it is not the root."""
    return {"properties": {"in": schema}, "$defs": definitions}


@pytest.mark.parametrize(
    "root", [{}, True, {"type": "object"}, {"description": "nothing"}, {"properties": {}}]
)
def test_a_silent_root_admits_no_members(root: Any) -> None:
    """The root of a tool's parameters is closed even when it lists nothing."""
    schema = Schema.compile(root)
    assert schema.check({}) == ()
    assert [issue.code for issue in schema.check({"a": 1})] == ["args.no_keys"]
    assert Schema.compile({"type": "object"}, root_closed=False).check({"a": 1}) == ()


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (inside(OBJECT), {"in": {"a": 1}}, {"in": {"b": 1}}),
        (inside({"type": "object", "properties": {}}), {"in": {}}, {"in": {"b": 1}}),
        (inside({"type": "array", "items": OBJECT}), {"in": [{"a": 1}]}, {"in": [{"b": 1}]}),
        (inside({"$ref": "#/$defs/A"}, A=OBJECT), {"in": {"a": 1}}, {"in": {"b": 1}}),
        (inside({"anyOf": [OBJECT, {"type": "null"}]}), {"in": {"a": 1}}, {"in": {"b": 1}}),
        (inside({"oneOf": [OBJECT, {"type": "null"}]}), {"in": {"a": 1}}, {"in": {"b": 1}}),
        (inside({"allOf": [{"$ref": "#/$defs/A"}]}, A=OBJECT), {"in": {"a": 1}}, {"in": {"b": 1}}),
        (
            inside({"allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {}}}]}, A=OBJECT),
            {"in": {"a": 1, "b": 2}},
            {"in": {"a": 1, "c": 2}},
        ),
        (
            inside({"anyOf": [{"$ref": "#/$defs/A"}], "properties": {"b": {}}}, A=OBJECT),
            {"in": {"a": 1, "b": 2}},
            {"in": {"c": 1}},
        ),
        (
            inside(
                {
                    "if": {"required": ["a"]},
                    "then": {"properties": {"b": {}}},
                    "properties": {"a": {}},
                }
            ),
            {"in": {"a": 1, "b": 2}},
            {"in": {"b": 2}},
        ),
        (
            inside({"properties": {"a": {}}, "dependentSchemas": {"a": {"properties": {"b": {}}}}}),
            {"in": {"a": 1, "b": 2}},
            {"in": {"b": 2}},
        ),
        (
            inside({"properties": {"a": {}}, "patternProperties": {"^x": {}}}),
            {"in": {"a": 1, "x1": 2}},
            {"in": {"b": 2}},
        ),
        ({"$ref": "#/$defs/A", "$defs": {"A": OBJECT}}, {"a": 1}, {"b": 1}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}}, {}, {"b": 1}),
        ({"anyOf": [{"type": "object"}, OBJECT]}, {"a": 1}, {"b": 1}),
        (
            {"properties": {"child": {"$ref": "#"}, "a": {}}},
            {"child": {"child": {"a": 1}}},
            {"child": {"child": {"b": 1}}},
        ),
        (
            {
                "$schema": DRAFT_07,
                "definitions": {"A": OBJECT},
                "allOf": [{"$ref": "#/definitions/A"}, {"properties": {"b": {}}}],
            },
            {"a": 1, "b": 2},
            {"c": 1},
        ),
        (
            {"$schema": DRAFT_07, "$ref": "#/definitions/A", "definitions": {"A": OBJECT}},
            {"a": 1},
            {"b": 1},
        ),
    ],
)
def test_listed_members_only(schema: dict[str, Any], good: Any, bad: Any) -> None:
    """Objects that list members admit these wherever they stand, and no others; composition adds
    up.
    """
    compiled = Schema.compile(schema)
    assert compiled.check(good) == ()
    assert compiled.check(bad) != ()
    assert Schema.compile(schema, extra="schema").check(bad) == ()


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"additionalProperties": True}, {"b": 1}),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}, {"b": 1}),
        ({"properties": {"a": {}}, "unevaluatedProperties": True}, {"b": 1}),
        (inside({"type": "object"}), {"in": {"b": 1}}),
        (inside({"patternProperties": {"^x": {}}}), {"in": {"b": 1}}),
        (inside({"anyOf": [OBJECT, {"type": "object", "required": ["b"]}]}), {"in": {"b": 1}}),
        (
            inside({"allOf": [{"properties": {"a": {}}, "additionalProperties": True}, {}]}),
            {"in": {"b": 1}},
        ),
        (
            inside(
                {
                    "properties": {"a": {}},
                    "not": {"properties": {"a": {"const": 1}}, "required": ["a"]},
                }
            ),
            {"in": {"a": 2}},
        ),
    ],
)
def test_what_the_schema_says_is_respected(schema: dict[str, Any], value: Any) -> None:
    """A statement about other members holds, and an object that lists none stays open below the
    root.
    """
    assert Schema.compile(schema).check(value) == ()


def test_the_source_is_kept_as_written() -> None:
    """Closing changes a copy, not the caller's document or the source that a model is shown."""
    document = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
    schema = Schema.compile(document)
    assert (
        schema.source
        == {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
        == document
    )

    assert schema.source is not document
    assert isinstance(schema.closed, dict)
    assert schema.closed["additionalProperties"] is False


def test_ambiguous_branches_stay_refused() -> None:
    """A value that fits two branches of a oneOf as written is refused though only one closed branch
    takes it.
    """
    union: dict[str, Any] = {"oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}
    assert [issue.code for issue in Schema.compile(union).check({"a": 1})] == ["args.one_of"]


SHARED = {"type": "object", "properties": {"a": {}}}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        pytest.param(
            {
                "properties": {
                    "x": {"$ref": "#/$defs/A"},
                    "y": {"allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {}}}]},
                },
                "$defs": {"A": SHARED},
            },
            {"x": {"a": 1}, "y": {"a": 1, "b": 2}},
            {"y": {"a": 1, "b": 2, "c": 3}},
            id="shared-and-composed",
        ),
        pytest.param(
            {"anyOf": [True, {"properties": {"a": {}}}]},
            {},
            {"z": 1},
            id="a-branch-that-says-nothing",
        ),
        pytest.param(
            {
                "properties": {
                    "l": {"contains": {"properties": {"a": {"const": 1}}, "required": ["a"]}}
                }
            },
            {"l": [{"a": 1, "q": 2}]},
            {"l": [{"q": 2}]},
            id="contains-is-a-test",
        ),
    ],
)
def test_closing_keeps_the_meaning_of_compositions(
    schema: dict[str, Any], good: Any, bad: Any
) -> None:
    """A shared, chosen or tested schema is closed where it stands, never where that would refuse
    good values.
    """
    compiled = Schema.compile(schema)
    assert compiled.check(good) == ()
    assert compiled.check(bad) != ()
