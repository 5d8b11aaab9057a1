"""Schemas that cannot be declared are a ContractError with its place.

They are malformed, unreachable, endless or exploding.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import ContractError
from strictreply.schema import Schema
from strictreply.schema._documents import MAX_CHARS, MAX_NODES


def chain(keyword: str, length: int) -> dict[str, Any]:
    """Build a schema of 2**length judgements by way of references."""
    definitions: dict[str, Any] = {
        f"d{index}": {keyword: [{"$ref": f"#/$defs/d{index + 1}"}] * 2} for index in range(length)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{length}": {"type": "object"}}}


def members(length: int) -> dict[str, Any]:
    """Build a schema whose choices multiply from member to member."""
    definitions: dict[str, Any] = {
        f"d{index}": {
            "anyOf": [
                {"properties": {"a": {"$ref": f"#/$defs/d{index + 1}"}}, "required": [name]}
                for name in "xy"
            ]
        }
        for index in range(length)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{length}": {"type": "object"}}}


def cyclic() -> dict[str, Any]:
    """Build an object that holds itself."""
    document: dict[str, Any] = {"type": "object"}
    document["properties"] = {"a": document}
    return document


def nested(levels: int) -> dict[str, Any]:
    """Build a schema in a schema in a schema."""
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (None, ""),
        ([], ""),
        ("object", ""),
        ({"enum": {1, 2}}, "/enum"),
        ({"enum": [b"x"]}, "/enum/0"),
        ({"maximum": float("nan")}, "/maximum"),
        ({"maximum": float("inf")}, "/maximum"),
        ({"maximum": 10**5000}, "/maximum"),
        ({"properties": {1: {}}}, "/properties"),
        ({"properties": {"\ud800": {}}}, "/properties"),
        ({"description": "\udc00"}, "/description"),
        (cyclic(), ""),
        (nested(100), ""),
        ({"enum": list(range(MAX_NODES))}, ""),
        ({"description": "x" * (MAX_CHARS + 1)}, ""),
        ({"type": "strnig"}, "/type"),
        ({"properties": {"q": {"type": "strnig"}}}, "/properties/q/type"),
        ({"properties": {"q": {"minimum": "1"}}}, "/properties/q/minimum"),
        ({"properties": {"q": {"required": "a"}}}, "/properties/q/required"),
        ({"properties": []}, "/properties"),
        ({"$schema": "http://example.com/own"}, "/$schema"),
        ({"$schema": 7}, "/$schema"),
        ({"properties": {"q": {"$ref": "http://example.com/x.json"}}}, "/properties/q/$ref"),
        ({"properties": {"q": {"$ref": "file:///etc/hostname"}}}, "/properties/q/$ref"),
        ({"properties": {"q": {"$ref": "other.json"}}}, "/properties/q/$ref"),
        ({"properties": {"q": {"$ref": "#/$defs/none"}}}, "/properties/q/$ref"),
        ({"properties": {"q": {"$ref": "#none"}}}, "/properties/q/$ref"),
        ({"properties": {"q": {"$ref": "#/properties"}}, "required": ["q"], "$defs": 3}, "/$defs"),
        ({"properties": {"q": {"pattern": "[a"}}}, "/properties/q/pattern"),
        ({"properties": {"q": {"pattern": "(a"}}}, "/properties/q/pattern"),
        ({"$ref": "#"}, ""),
        ({"allOf": [{"$ref": "#"}]}, None),
        (
            {
                "properties": {"q": {"$ref": "#/$defs/a"}},
                "$defs": {"a": {"not": {"$ref": "#/$defs/a"}}},
            },
            None,
        ),
        ({"$dynamicAnchor": "n", "$dynamicRef": "#n"}, ""),
        (chain("allOf", 30), None),
        (chain("anyOf", 30), None),
        (chain("oneOf", 30), None),
        (members(30), ""),
    ],
)
def test_refused_when_declared(document: object, place: str | None) -> None:
    """A schema that cannot be enforced in bounded time and offline is refused, and the error names
    the place.
    """
    with pytest.raises(ContractError) as caught:
        Schema.compile(document)
    assert place is None or caught.value.path == place


@pytest.mark.parametrize(
    "document",
    [
        {
            "$defs": {"n": {"properties": {"c": {"items": {"$ref": "#/$defs/n"}}}}},
            "$ref": "#/$defs/n",
        },
        {
            "properties": {"a": {"$ref": "#/$defs/x"}},
            "$defs": {"x": {"$anchor": "there", "type": "string"}},
        },
        {
            "properties": {"a": {"$ref": "#there"}},
            "$defs": {"x": {"$anchor": "there", "type": "string"}},
        },
        {
            "$id": "https://example.com/a",
            "properties": {"a": {"$ref": "b"}},
            "$defs": {"x": {"$id": "b", "type": "string"}},
        },
        {"properties": {"a": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}},
        {"properties": {"a": {"format": "unknown-format", "x-vendor": {"any": "thing"}}}},
        {"properties": {"a": {"pattern": "^(a+)+$"}}},
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "properties": {"a": {"items": [{"type": "string"}]}},
        },
    ],
)
def test_declared_offline(document: dict[str, Any]) -> None:
    """Recursion, anchors, embedded resources, metaschemas and unknown keywords are legal."""
    assert Schema.compile(document).check({}) == ()


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        0,
        "x",
        [],
        {},
        [{}],
        {"a": 5},
        {"$ref": "#/junk"},
        {"$ref": "#/junk/properties/a"},
        "#/junk",
    ]
)
KEYWORDS = st.sampled_from(
    [
        *(
            "properties",
            "anyOf",
            "oneOf",
            "allOf",
            "items",
            "$ref",
            "required",
            "type",
            "enum",
            "const",
            "$defs",
            "junk",
        ),
        *(
            "additionalProperties",
            "$id",
            "$anchor",
            "$dynamicRef",
            "$schema",
            "dependentRequired",
            "pattern",
            "not",
        ),
        *("prefixItems", "if"),
    ]
)
MANGLED = st.recursive(
    JUNK,
    lambda inner: st.dictionaries(KEYWORDS, inner | st.lists(inner, max_size=2), max_size=4),
    max_leaves=12,
)


@given(document=MANGLED, extra=st.sampled_from(["forbid", "schema"]))
def test_compile_raises_nothing_else(document: Any, extra: Any) -> None:
    """Any declaration compiles or is a ContractError; a compiled schema gives verdicts."""
    try:
        schema = Schema.compile(document, extra=extra)
    except ContractError:
        return
    assert isinstance(schema.check({"a": {"properties": 1}}), tuple)
    assert schema.part("/a/b") is not None
    example = schema.example()
    assert example is None or schema.check(example) == ()


@pytest.mark.parametrize("part", [{"properties": [1], "required": ["a"]}, {"properties": 5}])
def test_a_malformed_part_that_only_a_reference_leads_to_is_refused(part: dict[str, Any]) -> None:
    """The metaschema looks at no place of another name; what a reference leads to there is a schema
    all the same.
    """
    document = {
        "properties": {"q": {"$ref": "#/x-parts/C"}},
        "x-parts": {"C": {"type": "object", **part}},
    }
    with pytest.raises(ContractError):
        Schema.compile(document, extra="forbid")
