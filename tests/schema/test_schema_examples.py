"""Examples and parts: the smallest valid instance, and which part of the schema governs a place."""

from __future__ import annotations

from typing import Any

import pytest

from strictreply.schema import Schema

NODE = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/node"}, "id": {"type": "integer"}},
    "required": ["id"],
}


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        ({"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}, {"a": "text"}),
        ({"properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}, {"a": "x"}),
        ({"properties": {"a": {"const": 7}}, "required": ["a"]}, {"a": 7}),
        ({"properties": {"a": {"type": "integer", "default": 5}}, "required": ["a"]}, {"a": 5}),
        ({"properties": {"a": {"type": "integer", "default": "no"}}, "required": ["a"]}, {"a": 1}),
        ({"properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]}, {"a": 3}),
        (
            {"properties": {"a": {"type": "integer", "exclusiveMinimum": 3}}, "required": ["a"]},
            {"a": 4},
        ),
        (
            {"properties": {"a": {"type": "string", "minLength": 6}}, "required": ["a"]},
            {"a": "textxx"},
        ),
        ({"properties": {"a": {"type": "string", "maxLength": 2}}, "required": ["a"]}, {"a": "te"}),
        (
            {"properties": {"a": {"type": "string", "pattern": "^[A-Z]{3}$"}}, "required": ["a"]},
            {"a": "ABC"},
        ),
        (
            {
                "properties": {"a": {"type": "array", "items": {"type": "boolean"}, "minItems": 1}},
                "required": ["a"],
            },
            {"a": [True]},
        ),
        (
            {"properties": {"a": {"anyOf": [False, {"type": "null"}]}}, "required": ["a"]},
            {"a": None},
        ),
        ({"allOf": [{"properties": {"a": {"type": "null"}}}, {"required": ["a"]}]}, {"a": None}),
        ({"$ref": "#/$defs/node", "$defs": {"node": NODE}}, {"id": 1}),
    ],
)
def test_the_example_is_small(schema: dict[str, Any], example: Any) -> None:
    """An example holds what is required and nothing else, at the least values the rules take."""
    assert Schema.compile(schema).example() == example


@pytest.mark.parametrize(
    "name",
    [
        "date",
        "date-time",
        "time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uri",
        "uuid",
        "json-pointer",
        "iri",
    ],
)
def test_every_format_has_a_sample(name: str) -> None:
    """A text of an asserted format has a valid example."""
    assert Schema.compile({"type": "string", "format": name}).example() is not None


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"type": "string", "pattern": "^zq{77}$"},
        {"$ref": "#/$defs/node", "$defs": {"node": NODE | {"required": ["next"]}}},
    ],
)
def test_no_example_rather_than_a_wrong_one(schema: Any) -> None:
    """Without a valid example there is none."""
    assert Schema.compile(schema).example() is None


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/a", {"type": "integer"}),
        ("/list/0", {"type": "string"}),
        ("/list/1", {"type": "boolean"}),
        ("/node/next/next", {**NODE, "additionalProperties": False}),
        ("/union/b", {"type": "null"}),
        ("", None),
        ("/unknown", None),
        ("/a/b/c", None),
    ],
)
def test_part_governs_its_place(path: str, part: Any) -> None:
    """The part for a pointer is the sub-schema as shown, references followed; the whole when it
    cannot be told.
    """
    document = {
        "properties": {
            "a": {"type": "integer"},
            "list": {"prefixItems": [{"type": "string"}], "items": {"type": "boolean"}},
            "node": {"$ref": "#/$defs/node"},
            "union": {"anyOf": [{"properties": {"b": {"type": "null"}}}, {"type": "string"}]},
        },
        "$defs": {"node": NODE},
    }
    compiled = Schema.compile(document)
    assert compiled.part(path) == (part or compiled.shown)


def test_names_are_all_that_the_schema_speaks_of() -> None:
    """Member names are collected at any depth, also those that are only required."""
    document = {
        "properties": {"a": {"items": {"properties": {"b": {}}}}},
        "required": ["c"],
        "dependentRequired": {"d": ["e"]},
        "$defs": {"x": {"properties": {"f": {}}}},
    }
    assert Schema.compile(document).names == frozenset("abcdef")
