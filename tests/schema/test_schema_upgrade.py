"""Older drafts and foreign spellings mean what they meant.

What is ambiguous is refused, with what to do instead.
"""

from __future__ import annotations

from typing import Any

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strictreply import ContractError
from strictreply.schema import Schema
from strictreply.schema._closing import modern
from strictreply.schema._documents import read_document

D4 = "http://json-schema.org/draft-04/schema#"
D3 = "http://json-schema.org/draft-03/schema#"
D7 = "http://json-schema.org/draft-07/schema"
NAMES = st.sampled_from(["a", "b", "id"])
NUMBERS = st.integers(-3, 3)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.sampled_from([0.5, "", "x", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.just("c"), inner, max_size=3)
    ),
    max_leaves=6,
)
KINDS = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])


def draft_04(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of draft-04 over given ones, with what later drafts changed in every one of them."""
    several = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "id": st.sampled_from(["/properties/a", "http://example.com/a", "a"]),
            "type": KINDS,
            "minimum": NUMBERS,
            "exclusiveMinimum": st.booleans(),
            "maximum": NUMBERS,
            "exclusiveMaximum": st.booleans(),
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "required": st.lists(NAMES, min_size=1, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "dependencies": st.dictionaries(NAMES, inner | st.just(["b"]), max_size=2),
            "items": inner | several,
            "additionalItems": st.booleans() | inner,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "enum": st.lists(NUMBERS | st.sampled_from(["x", None]), min_size=1, unique_by=repr),
        },
    ).filter(
        lambda s: (
            ("exclusiveMinimum" not in s or "minimum" in s)
            and ("exclusiveMaximum" not in s or "maximum" in s)
        )
    )


LEAVES = st.just({"$ref": "#/definitions/node", "minimum": 99}) | KINDS.map(
    lambda kind: {"type": kind}
)
NODE = {
    "type": "object",
    "properties": {"a": {"$ref": "#/definitions/node"}, "b": {"type": "integer"}},
}
RECURSIVE_04: st.SearchStrategy[Any] = st.deferred(lambda: LEAVES | draft_04(RECURSIVE_04))


@st.composite
def schemas_04(draw: st.DrawFn) -> dict[str, Any]:
    """Whole documents of draft-04."""
    return {"$schema": D4, **draw(RECURSIVE_04), "definitions": {"node": NODE}}


@given(schema=schemas_04(), value=VALUES)
@settings(max_examples=150)
def test_v19_draft_04_judges_as_it_did(schema: dict[str, Any], value: Any) -> None:
    """A draft-04 schema gives the verdicts of a draft-04 engine, whatever identifiers a generator
    gave its members.
    """
    plain = jsonschema_rs.Draft4Validator(without_ids(schema), offline=True)
    assert (Schema.compile(schema, extra="schema").check(value) == ()) == plain.is_valid(value)


def without_ids(schema: Any) -> Any:
    """Leave out the identifiers of a schema, but not the members that are called ``id``."""
    if isinstance(schema, list):
        return [without_ids(each) for each in schema]
    if not isinstance(schema, dict):
        return schema

    return {
        name: {key: without_ids(each) for key, each in value.items()}
        if name in ("properties", "dependencies")
        else without_ids(value)
        for name, value in schema.items()
        if name != "id" or not isinstance(value, str)
    }


def draft_03(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of draft-03 over given ones, with what draft-04 gave up in every one of them."""
    member = st.tuples(inner, st.booleans()).map(lambda pair: pair[0] | {"required": pair[1]})
    return st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.just("any") | st.lists(KINDS | inner, min_size=1, max_size=2),
            "disallow": KINDS | st.lists(inner, min_size=1, max_size=2),
            "extends": inner | st.lists(inner, max_size=2),
            "properties": st.dictionaries(NAMES, member, max_size=3),
            "dependencies": st.dictionaries(
                NAMES, inner | st.just("b") | st.just(["b"]), max_size=2
            ),
            "divisibleBy": st.integers(1, 3),
        },
    )


@given(
    schema=st.recursive(KINDS.map(lambda kind: {"type": kind}), draft_03, max_leaves=5),
    value=VALUES,
)
@settings(max_examples=150)
def test_v19_draft_03_judges_as_it_did(schema: dict[str, Any], value: Any) -> None:
    """A draft-03 schema gives the verdicts of a draft-03 engine."""
    schema = {"$schema": D3, **schema}
    engine: Any = jsonschema.Draft3Validator(schema)
    assert (Schema.compile(schema, extra="schema").check(value) == ()) == engine.is_valid(value)


@given(schema=schemas_04())
@settings(max_examples=50)
def test_v19_upgrading_twice_changes_nothing(schema: dict[str, Any]) -> None:
    """An upgraded schema stays as it is when upgraded again, for contracts compile it again."""
    once = modern(read_document(schema))
    assert modern(once) == once


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"required": None}, {}),
        ({"properties": None, "description": None, "title": None, "$schema": None}, {}),
        (
            {
                "enum": None,
                "format": None,
                "minimum": None,
                "items": None,
                "anyOf": None,
                "$ref": None,
            },
            {},
        ),
        ({"const": None, "default": None}, {"const": None, "default": None}),
        ({"enum": [None]}, {"enum": [None]}),
        (
            {"properties": {"required": {"type": "string"}}},
            {"properties": {"required": {"type": "string"}}},
        ),
        ({"required": True}, {}),
        ({"required": ["a", "a", "b"]}, {"required": ["a", "b"]}),
        ({"properties": {"a": {"required": True}}}, {"properties": {"a": {}}, "required": ["a"]}),
        ({"properties": {"a": {"required": False}}}, {"properties": {"a": {}}}),
        (
            {"required": ["b"], "properties": {"a": {"required": True}}},
            {"required": ["b", "a"], "properties": {"a": {}}},
        ),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
        ({"exclusiveMinimum": True}, {}),
        ({"type": "any"}, {}),
        ({"type": ["any", "string"]}, {}),
        ({"type": "dict"}, {"type": "object"}),
        ({"type": ["STRING", "None"]}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"], "nullable": True}),
        ({"type": "string", "nullable": False}, {"type": "string", "nullable": False}),
        ({"nullable": True}, {"nullable": True}),
        ({"items": [{}, True]}, {"prefixItems": [{}, True]}),
        ({"items": [{}], "additionalItems": False}, {"prefixItems": [{}], "items": False}),
        ({"items": [], "additionalItems": {"type": "null"}}, {"items": {"type": "null"}}),
        (
            {"dependencies": {"a": ["b"], "c": {}}},
            {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {}}},
        ),
        ({"examples": "x"}, {"examples": ["x"]}),
        (
            {"enum": [{"type": "any", "required": True}]},
            {"enum": [{"type": "any", "required": True}]},
        ),
    ],
)
def test_v19_one_meaning_is_read(written: dict[str, Any], read: dict[str, Any]) -> None:
    """A spelling with no meaning in any draft, but one in use, is read as that; values are left
    alone.
    """
    assert modern(written) == read
    assert modern({"properties": {"m": written}}) == {"properties": {"m": read}} | (
        {"required": ["m"]} if written.get("required") is True else {}
    )
    assert Schema.compile(written, root_closed=False).source == read


@pytest.mark.parametrize(
    ("declared", "draft"),
    [
        (D4, D7),
        ("http://json-schema.org/draft-04/schema", D7),
        ("https://json-schema.org/draft-04/schema#", D7),
        ("http://json-schema.org/draft-04/hyper-schema#", D7),
        (
            "http://iglucentral.com/schemas/com.snowplowanalytics.self-desc/schema/jsonschema/1-0-0#",
            D7,
        ),
        (D3, D7),
        (f"{D7}#", f"{D7}#"),
        ("https://json-schema.org/draft-07/schema#", D7),
        ("http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-06/schema#"),
        (
            "http://json-schema.org/draft/2020-12/schema",
            "https://json-schema.org/draft/2020-12/schema",
        ),
        (
            "https://spec.openapis.org/oas/3.1/dialect/base",
            "https://json-schema.org/draft/2020-12/schema",
        ),
        ("http://json-schema.org/schema#", None),
        ("", None),
    ],
)
def test_v19_what_schema_declares(declared: str, draft: str | None) -> None:
    """Any spelling of a draft's address, or of a dialect that validates like it, is that draft."""
    schema = Schema.compile(
        {"$schema": declared, "type": "object", "properties": {"a": {"type": "null"}}}
    )
    assert isinstance(schema.source, dict)
    assert schema.source.get("$schema") == draft
    assert schema.check({"a": None}) == ()
    assert schema.check({"a": 1}) != ()


@pytest.mark.parametrize(
    "name", ["List[int]", "Record<string,any>", "a b", "a%b", "é", "a/b", "a~b", '"', "a#b", "{x}"]
)
@pytest.mark.parametrize("declared", [{}, {"$schema": D4}, {"$schema": f"{D7}#"}])
def test_v19_definitions_of_any_name(name: str, declared: dict[str, str]) -> None:
    """A pointer to a definition leads there as it is written, and as a URI spells it."""
    fragment = name.replace("~", "~0").replace("/", "~1")
    document = {
        **declared,
        "properties": {"a": {"$ref": f"#/definitions/{fragment}"}},
        "definitions": {name: {"type": "null"}},
    }
    schema = Schema.compile(document)
    assert (schema.check({"a": None}), schema.check({"a": 1}) == ()) == ((), False)

    assert Schema.compile(schema.source).source == schema.source


@pytest.mark.parametrize(
    ("document", "place", "way_on"),
    [
        ({"$schema": "http://example.com/own"}, "/$schema", "without $schema"),
        ({"properties": {"a": {"type": None}}}, "/properties/a/type", "leave it out"),
        ({"properties": {"a": {"type": "strnig"}}}, "/properties/a/type", "object, string"),
        (
            {"properties": {"a": {"required": "true"}}},
            "/properties/a/required",
            "list of member names",
        ),
        (
            {"properties": {"a": {"pattern": "^(x"}}},
            "/properties/a/pattern",
            "close every bracket",
        ),
        (
            {"properties": {"a": {"$ref": "#definitions/b"}}, "definitions": {"b": {}}},
            "/properties/a/$ref",
            "'#/definitions/b'?",
        ),
        ({"properties": {"a": {"$ref": "b.json"}}}, "/properties/a/$ref", "$defs"),
        ({"properties": {"a": {"minimum": "1"}}}, "/properties/a/minimum", "leave it out"),
        (
            {"$schema": D4, "items": {"items": {"minimum": "1"}}},
            "/items/items/minimum",
            "leave it out",
        ),
    ],
)
def test_v19_refusals_say_the_way_on(document: dict[str, Any], place: str, way_on: str) -> None:
    """A keyword without one meaning is refused at its place, and the error says what to write
    instead.
    """
    with pytest.raises(ContractError) as caught:
        Schema.compile(document)
    assert caught.value.path == place
    assert way_on in str(caught.value)
