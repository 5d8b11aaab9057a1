"""Schemas made up by Hypothesis: every keyword that can refuse a value, alone and with others."""

from __future__ import annotations

from typing import Any, TypeAlias

from hypothesis import strategies as st

Strategy: TypeAlias = st.SearchStrategy[dict[str, Any]]


def _with(kind: str, **rules: st.SearchStrategy[Any]) -> Strategy:
    """Make a schema of one type with some of its rules."""
    return st.fixed_dictionaries({"type": st.just(kind)}, optional=rules)


def _scalars() -> Strategy:
    """Make a schema of a value without parts."""
    small = st.integers(0, 6)
    numbers = {
        "minimum": st.integers(-9, 3),
        "maximum": st.integers(4, 99),
        "exclusiveMinimum": st.integers(-9, 3),
        "exclusiveMaximum": st.integers(5, 99),
    }

    pattern = st.sampled_from(["^[a-z]+$", "^[A-Z]{2,3}$", "[0-9]", "^text$"])
    return st.one_of(
        _with("string", minLength=st.integers(0, 4), maxLength=st.integers(4, 9)),
        _with("string", pattern=pattern),
        _with(
            "string", format=st.sampled_from(["date", "date-time", "uuid", "ipv4", "uri", "email"])
        ),
        _with("integer", **numbers, multipleOf=st.sampled_from([1, 2])),
        _with("number", **numbers, multipleOf=st.sampled_from([1, 0.5])),
        st.just({"type": "boolean"}),
        st.just({"type": "null"}),
        st.fixed_dictionaries(
            {"enum": st.lists(st.sampled_from(["a", "b", 1, None, True]), min_size=1, unique=True)}
        ),
        st.fixed_dictionaries({"const": st.sampled_from(["a", 0, False, None, [1]])}),
        st.fixed_dictionaries(
            {"type": st.just(["string", "integer"]), "minLength": small, "maximum": small}
        ),
    )


def _holding(inner: Strategy) -> Strategy:
    """Make a schema that holds others."""
    named = st.dictionaries(
        st.sampled_from(["id", "name", "max_size"]), inner, min_size=1, max_size=2
    )
    count = st.integers(0, 2)

    return st.one_of(
        _with(
            "array",
            items=inner,
            minItems=count,
            maxItems=st.integers(2, 4),
            uniqueItems=st.booleans(),
        ),
        st.fixed_dictionaries(
            {"prefixItems": st.lists(inner, min_size=1, max_size=2), "items": st.just(False)}
        ),
        named.map(
            lambda members: {
                "type": "object",
                "properties": members,
                "required": sorted(members)[:1],
            }
        ),
        named.map(lambda members: {"type": "object", "properties": members, "minProperties": 1}),
        inner.map(
            lambda other: {"type": "object", "additionalProperties": other, "maxProperties": 2}
        ),
        _apart(inner).map(lambda branches: {"anyOf": branches}),
        _apart(inner).map(lambda branches: {"oneOf": branches}),
        inner.map(lambda other: {"allOf": [other]}),
    )


def _apart(inner: Strategy) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Make two alternatives of different types: what one refuses the other does not let through."""
    typed = inner.filter(lambda schema: isinstance(schema.get("type"), str))
    kinds = {"integer": "number"}
    return st.lists(
        typed, min_size=2, max_size=2, unique_by=lambda one: kinds.get(one["type"], one["type"])
    )


def schemas() -> Strategy:
    """Make a small schema in which every rule binds."""
    return st.recursive(_scalars(), _holding, max_leaves=4) | _scalars().map(
        lambda other: {"not": other}
    )
