"""Laws that hold for any schema.

The engines agree, closing only refuses, examples are valid, paths leak nothing.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from strictreply.core import Work
from strictreply.core.schemas import SchemaParts
from strictreply.schema import Schema
from strictreply.schema._closing import closed_graph
from strictreply.schema._documents import read_document
from strictreply.schema._engines import RustEngine
from strictreply.schema._explaining import Explainer
from strictreply.schema._reference_engine import ReferenceEngine

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
LEAVES = st.one_of(
    st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"]).map(
        lambda name: {"type": name}
    ),
    st.just({"type": ["string", "null"]}),
    st.fixed_dictionaries(
        {"type": st.just("integer")},
        optional={"minimum": st.integers(-2, 2), "maximum": st.integers(-2, 2)},
    ),
    st.fixed_dictionaries(
        {"type": st.just("number")},
        optional={"exclusiveMinimum": st.integers(-2, 2), "multipleOf": st.just(2)},
    ),
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={"minLength": st.integers(0, 3), "pattern": st.just("^[a-z]+$")},
    ),
    st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr).map(lambda values: {"enum": values}),
    SCALARS.map(lambda value: {"const": value}),
    st.just({"type": "string", "format": "date"}),
    st.just({"$ref": "#/$defs/node"}),
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Object schemas over given member schemas."""
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
        optional={
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "minProperties": st.integers(0, 2),
            "propertyNames": st.just({"maxLength": 4}),
            "dependentRequired": st.just({"a": ["b"]}),
        },
    )


def compounds(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas made of schemas."""
    several = st.lists(inner, min_size=1, max_size=3)
    tagged = st.tuples(objects(inner), objects(inner)).map(
        lambda pair: {
            "oneOf": [
                each
                | {
                    "properties": {**each["properties"], "kind": {"const": tag}},
                    "required": ["kind"],
                }
                for tag, each in zip("xy", pair, strict=True)
            ]
        }
    )

    arrays = st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner},
        optional={
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(1, 3),
            "uniqueItems": st.booleans(),
        },
    )
    composed = st.fixed_dictionaries(
        {"properties": st.dictionaries(NAMES, inner, max_size=2)},
        optional={
            "anyOf": several,
            "allOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
        },
    )

    unions = several.map(lambda branches: {"anyOf": branches}) | several.map(
        lambda branches: {"oneOf": branches}
    )
    return (
        objects(inner)
        | arrays
        | unions
        | tagged
        | composed
        | several.map(lambda parts: {"allOf": parts})
    )


SCHEMAS = st.recursive(LEAVES, compounds, max_leaves=6).map(
    lambda schema: {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/node"}, "b": {"type": "integer"}},
            }
        },
        **schema,
    }
)
"""Schemas of every kind the library meets, without patterns that the two engines spell differently.
"""


@given(schema=SCHEMAS, value=VALUES)
@settings(max_examples=300)
def test_engines_agree(schema: dict[str, Any], value: Any) -> None:
    """Both engines accept the same values."""
    closed = closed_graph(read_document(schema), root_closed=False).document
    assert RustEngine(closed, formats=True).is_valid(value) == ReferenceEngine(
        closed, formats=True
    ).is_valid(value)


@given(schema=SCHEMAS, value=VALUES)
@settings(max_examples=300)
def test_the_explanation_does_not_depend_on_the_engine(schema: dict[str, Any], value: Any) -> None:
    """The same faults are found at the same places, whichever engine judges the parts."""
    graph = closed_graph(read_document(schema), root_closed=False)
    engines = (
        RustEngine(graph.document, formats=True),
        ReferenceEngine(graph.document, formats=True),
    )
    explained = [
        Explainer(SchemaParts(graph, engine), frozenset()).issues(
            value, Work(), at="", place="args"
        )
        for engine in engines
    ]
    assert explained[0] == explained[1]


@given(schema=SCHEMAS, value=VALUES)
@settings(max_examples=300)
def test_every_refusal_is_explained_and_nothing_else(schema: dict[str, Any], value: Any) -> None:
    """The places found by walking the value decide as the engine does: a fault for each refusal,
    none otherwise.
    """
    graph = closed_graph(read_document(schema), root_closed=False)
    engine = RustEngine(graph.document, formats=True)
    issues = Explainer(SchemaParts(graph, engine), frozenset()).issues(
        value, Work(), at="", place="args"
    )
    assert ([issue.code for issue in issues] == ["args.invalid"]) == engine.is_valid(value)


@given(schema=SCHEMAS, value=VALUES, root_closed=st.booleans())
@settings(max_examples=300)
def test_closing_only_refuses(schema: dict[str, Any], value: Any, root_closed: bool) -> None:
    """A value that fits the closed schema fits the schema as written."""
    if not Schema.compile(schema, root_closed=root_closed).check(value):
        assert Schema.compile(schema, extra="schema").check(value) == ()


@given(schema=SCHEMAS)
@settings(max_examples=300)
def test_examples_are_valid(schema: dict[str, Any]) -> None:
    """An example passes its own schema, or there is none."""
    compiled = Schema.compile(schema, root_closed=False)
    example = compiled.example()
    assert example is None or compiled.check(example) == ()


@given(schema=SCHEMAS, value=VALUES)
@settings(max_examples=300)
def test_a_refusal_has_issues_that_name_only_the_schema(schema: dict[str, Any], value: Any) -> None:
    """A refusal has an issue, which holds no member name of the value."""
    compiled = Schema.compile(schema)
    engine = RustEngine(
        closed_graph(read_document(schema), root_closed=True).document, formats=True
    )
    issues = compiled.check(value, at="/args")
    assert issues or engine.is_valid(value)

    assert len(set(issues)) == len(issues) <= 32

    for issue in issues:
        assert issue.path.startswith("/args")
        assert "unknown" not in issue.path + issue.message + issue.hint


@given(
    value=VALUES,
    junk=st.sampled_from([float("nan"), {1, 2}, b"x", "\ud800", 10**5000, {1: 2}, object()]),
)
def test_check_never_raises(value: Any, junk: Any) -> None:
    """A value that is not JSON is refused or ignored, never an exception."""
    schema = Schema.compile({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}})
    assert isinstance(schema.check({"a": junk, "b": value}), tuple)
    assert schema.check(junk) != ()


@given(schema=SCHEMAS, value=VALUES, root_closed=st.booleans())
@settings(max_examples=300)
def test_what_is_shown_refuses_nothing_that_is_accepted(
    schema: dict[str, Any], value: Any, root_closed: bool
) -> None:
    """An accepted value also fits the schema that the model is shown."""
    compiled = Schema.compile(schema, root_closed=root_closed)
    if not compiled.check(value):
        assert RustEngine(compiled.shown, formats=True).is_valid(value)
