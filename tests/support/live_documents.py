"""Schemas of every kind with values, and the ways to spell and cut a document.

The early stop is tried on them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "kind", "~/"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, "", "x", "text", "2025-01-31"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.just("unknown"), inner, max_size=3)
    ),
    max_leaves=6,
)
TEXTS = {"type": "string", "minLength": 1, "maxLength": 4}
LEAVES = st.one_of(
    st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"]).map(
        lambda name: {"type": name}
    ),
    st.sampled_from(
        [
            {"type": ["string", "null"]},
            {"type": "integer", "minimum": 0},
            {"type": "number", "multipleOf": 2},
            TEXTS,
            {"pattern": "^[a-z]+$"},
            {"type": "string", "format": "date"},
            {"$ref": "#/$defs/node"},
        ]
    ),
    st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr).map(lambda values: {"enum": values}),
    SCALARS.map(lambda value: {"const": value}),
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Object schemas over given member schemas."""
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
        optional={
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "unevaluatedProperties": st.booleans() | inner,
            "patternProperties": st.dictionaries(
                st.sampled_from(["^a", "k"]), inner | st.booleans(), max_size=1
            ),
            "maxProperties": st.integers(1, 2),
            "propertyNames": st.just({"maxLength": 4}),
            "dependentRequired": st.just({"a": ["b"]}),
            "dependentSchemas": st.fixed_dictionaries({"a": inner}),
        },
    )


def compounds(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas made of schemas, every way of combining them."""
    several = st.lists(inner | st.booleans(), min_size=1, max_size=3)
    arrays = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner | st.booleans(),
            "prefixItems": several,
            "maxItems": st.integers(1, 3),
            "minItems": st.integers(0, 2),
            "uniqueItems": st.booleans(),
            "contains": inner,
            "unevaluatedItems": st.booleans() | inner,
        },
    )

    parts = {
        "anyOf": several,
        "oneOf": several,
        "allOf": several,
        "not": inner,
        "if": inner,
        "then": inner,
    }
    composed = st.fixed_dictionaries(
        {"properties": st.dictionaries(NAMES, inner, max_size=2)}, optional=parts | {"else": inner}
    )

    return (
        objects(inner)
        | objects(inner)
        | arrays
        | composed
        | st.fixed_dictionaries({}, optional=parts)
    )


NODE = {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}, "b": {"type": "integer"}}}


def with_node(schema: Any) -> dict[str, Any]:
    """Add the definition that some of the leaves refer to."""
    return {**schema, "$defs": {"node": NODE}}


MEMBERS = st.one_of(
    st.fixed_dictionaries(
        {"properties": st.dictionaries(NAMES, st.booleans() | LEAVES, max_size=2)}
    ),
    st.sampled_from(["additionalProperties", "unevaluatedProperties"]).flatmap(
        lambda rest: st.fixed_dictionaries(
            {rest: st.booleans() | LEAVES}, optional={"properties": st.just({"a": True})}
        )
    ),
    st.sampled_from(
        [{"patternProperties": {"^a": True}}, {"$ref": "#/$defs/node"}, {"required": ["a"]}]
    ),
)
"""What may evaluate members of an object."""


def composed_members(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas that evaluate members beside others that do."""
    several = st.lists(inner | st.booleans(), min_size=1, max_size=2)
    beside = st.one_of(
        *(st.fixed_dictionaries({name: several}) for name in ("allOf", "anyOf", "oneOf")),
        st.fixed_dictionaries({"if": inner}, optional={"then": inner, "else": inner}),
        st.fixed_dictionaries({"dependentSchemas": st.fixed_dictionaries({"a": inner})}),
        st.fixed_dictionaries({"not": inner}),
    )
    return st.builds(lambda own, more: own | more, MEMBERS, beside)


def closed(made: Any) -> dict[str, Any]:
    """Close a schema over what something in it evaluates."""
    return {**made, "unevaluatedProperties": False}


CLOSED = st.recursive(MEMBERS, composed_members, max_leaves=4).map(closed)
"""Objects that admit no member but those that something beside them evaluates."""

ROOTS = CLOSED.map(with_node)
SCHEMAS = (st.recursive(LEAVES, compounds, max_leaves=6) | CLOSED).map(with_node)


def spelled(value: Any, dice: random.Random) -> str:
    """Write a value as JSON in one of its spellings.

    They differ in key order, white space, escapes and the forms of a number.
    """
    blank = dice.choice(["", "", " ", "\n\t "])

    if isinstance(value, dict):
        names = dice.sample(list(value), len(value))
        members = (f"{spelled(name, dice)}{blank}:{spelled(value[name], dice)}" for name in names)
        return f"{blank}{{{blank}{','.join(members)}}}{blank}"

    if isinstance(value, list):
        return f"[{blank}{','.join(spelled(item, dice) for item in value)}]{blank}"
    if isinstance(value, str):
        return '"' + "".join(_char(char, dice) for char in value) + '"'
    if isinstance(value, bool) or value is None:
        return blank + json.dumps(value)

    plain = json.dumps(value)
    whole = "." not in plain and "e" not in plain and len(plain) < 10
    return dice.choice([plain, plain + ".0", plain + "e0", plain + "E+0"]) if whole else plain


def _char(char: str, dice: random.Random) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    escape = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    return dice.choice([json.dumps(char, ensure_ascii=False)[1:-1], json.dumps(char)[1:-1], escape])


def pieces(text: str, dice: random.Random) -> Iterator[str]:
    """Cut a text into pieces of one to nine characters, or of one each."""
    most = dice.choice([1, 4, 9, 1_000])
    while text:
        cut = dice.randint(1, most)
        yield text[:cut]
        text = text[cut:]
