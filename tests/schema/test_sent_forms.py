"""A schema as a provider is sent it admits every document, and each comes back to itself."""

from __future__ import annotations

import json
from collections import Counter
from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

import strictreply as sr
from strictreply.schema import Schema
from strictreply.schema._providers import Treatment
from strictreply.schema._sent_form import SentForm, StrictProvider, sent_form
from strictreply.schema._survey import survey
from strictreply.testing.strategies import valid_arguments
from support.schemas.rows import samples
from support.shared_data import SHARED, needs_shared

PROVIDERS: tuple[StrictProvider, ...] = ("openai", "anthropic")


class Colour(Enum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    """A part of an order."""

    sku: str = Field(min_length=2)
    count: int = Field(1, ge=1, le=9)


class Order(BaseModel):
    """Everything that a form changes."""

    number: str
    total: float = 0
    kind: Literal["new", "old"] = "new"
    colour: Colour = Colour.RED
    first: Line = Line(sku="xx", count=1)
    lines: list[Line] = Field(default=[], max_length=3)
    reference: int | str = 3
    other: Line | Colour = Colour.BLUE


class Tree(BaseModel):
    """A schema that leads to itself."""

    name: str
    children: list[Tree] = Field(default=[], max_length=2)


def compiled(schema: Any) -> Schema | None:
    """Compile the schema of a tool's arguments; None for one that no tool may have."""
    try:
        return sr.Tool.from_json_schema("tool", schema).parameters
    except sr.ContractError:
        return None


def held(form: SentForm, schema: Schema, value: Any) -> None:
    """Hold the law of one document that fits."""
    sent = value if form.sent is None else form.sent(value)
    judged = Schema.compile(form.document, extra="schema", formats="annotate")
    assert judged.check(sent) == (), (form.document, sent)

    back = sent if form.restored is None else form.restored(sent)
    assert back == value
    assert schema.check(back) == ()


def enforced(form: SentForm, provider: StrictProvider) -> list[str]:
    """Return the places of a form that the table does not call enforced."""
    document: Any = form.document
    open_ = (Treatment.ENFORCED, Treatment.NARROWED)
    found = survey(document, provider)
    return [f"{one.path} {one.keyword}" for one in found if one.treatment not in open_]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.filterwarnings("ignore::strictreply.ContractWarning")
def test_documents_of_every_row_of_the_table_come_back(provider: StrictProvider) -> None:
    """What fits maps to what fits the sent form, and back; what does not fit stays refused."""
    counted: Counter[str] = Counter()
    for sample in samples():
        schema = compiled(sample.schema)
        if schema is None:
            continue

        form = sent_form(schema.shown, provider)
        counted["strict" if form.is_strict else "declared"] += 1
        if not form.is_strict:
            assert form.document == schema.shown
            assert form.why
            continue

        for value in sample.good:
            if not schema.check(value):
                held(form, schema, value)
                counted["good"] += 1

        for value in sample.bad:
            if schema.check(value):
                back = value if form.restored is None else form.restored(value)
                assert schema.check(back) != () or back != value
                counted["bad"] += 1

    assert counted["strict"] > 150
    assert counted["declared"] > 50
    assert counted["good"] > 150
    assert counted["bad"] > 50


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.filterwarnings("ignore::strictreply.ContractWarning")
def test_the_table_says_that_all_of_a_form_is_enforced(provider: StrictProvider) -> None:
    """Nothing is sent with ``strict: true`` that the provider refuses or leaves unenforced."""
    left: dict[str, list[str]] = {}
    count = 0
    for sample in samples():
        schema = compiled(sample.schema)
        form = None if schema is None else sent_form(schema.shown, provider)
        if form is not None and form.is_strict:
            count += 1
            places = enforced(form, provider)
            if places:
                left[f"{sample.row} {sample.number}"] = places

    assert count > 150
    assert left == {}


MODELS = {"order": Order, "line": Line, "tree": Tree}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", MODELS)
@given(data=st.data())
def test_documents_of_models_come_back(
    name: str, provider: StrictProvider, data: st.DataObject
) -> None:
    """Arguments of a pydantic model map forth and back, whatever is left out."""
    tool: Any = sr.Tool.from_model(MODELS[name])
    form = sent_form(tool.parameters.shown, provider)
    assert form.is_strict or (name, provider) == ("tree", "anthropic")
    if form.is_strict:
        held(form, tool.parameters, data.draw(valid_arguments(tool)))


@given(data=st.data())
def test_what_the_form_admits_is_judged_by_the_declared_schema(data: st.DataObject) -> None:
    """Whatever fits the sent form comes back as a document that fits, or is refused."""
    tool: Any = sr.Tool.from_model(Order)
    form = sent_form(tool.parameters.shown, "openai")
    document: Any = form.document
    came = data.draw(valid_arguments(sr.Tool.from_json_schema("sent", document)))
    assert form.restored is not None

    back: Any = form.restored(came)
    refused = tool.parameters.check(back)
    if not refused:
        assert form.sent is not None
        assert form.restored(form.sent(back)) == back


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "does not name"),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, "no type"),
        (
            {
                "type": "object",
                "properties": {"a": {"type": ["integer", "null"]}},
                "additionalProperties": False,
            },
            "could not be distinguished",
        ),
        ({"type": "string"}, "not an object"),
        (True, "no type"),
    ],
)
def test_a_schema_without_a_form_says_why(schema: Any, why: str) -> None:
    """It is sent as it is declared, and its reason names the place."""
    form = sent_form(schema, "openai")
    assert not form.is_strict
    assert form.document == schema
    assert why in form.why


def test_a_root_that_is_no_object_is_wrapped() -> None:
    """An answer that is a list is the one member of an object, and comes back as the list."""
    form = sent_form({"type": "array", "items": {"type": "integer"}}, "openai", wraps_root=True)
    assert form.is_strict
    assert form.sent is not None
    assert form.restored is not None
    assert form.sent([1, 2]) == {"value": [1, 2]}
    assert form.restored({"value": [1, 2]}) == [1, 2]


def test_the_form_is_a_function_of_schema_and_provider() -> None:
    """The same schema has the same form, letter for letter."""
    tool: Any = sr.Tool.from_model(Order)
    written = {json.dumps(sent_form(tool.parameters.shown, "openai").document) for _ in range(3)}
    assert len(written) == 1


def closed(*demanded: str, **members: Any) -> dict[str, Any]:
    """Return the schema of an object with these members."""
    return {
        "type": "object",
        "properties": members,
        "required": list(demanded),
        "additionalProperties": False,
    }


NUMBER: dict[str, Any] = {"type": "integer"}
MAYBE: dict[str, Any] = {"type": ["integer", "null"]}
LEAVES: list[Any] = [
    NUMBER,
    MAYBE,
    {"type": "string", "enum": ["x", None]},
    {"type": ["string", "null"], "not": {"type": "null"}},
    {"enum": ["x", "y"]},
    {"const": None},
    {"$ref": "#/$defs/A~1%25"},
    {"$ref": "#/$defs/B", "description": "b"},
    {"$ref": "#"},
]


def objects_of(schemas: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw closed objects with members that may be absent, named like keywords."""
    names = st.sampled_from(["a", "$ref", "anyOf"])
    members = st.dictionaries(names, schemas, max_size=2)
    return st.builds(
        lambda held, demanded: closed(*sorted(demanded & held.keys()), **held),
        members,
        st.sets(names, max_size=2),
    )


def larger(schemas: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw schemas made of others."""
    arrays = st.builds(lambda inner: {"type": "array", "items": inner}, schemas)
    either = st.builds(
        lambda inner, other: {**other, "type": ["object", "array"], "items": inner},
        schemas,
        objects_of(schemas),
    )
    choices = st.builds(
        lambda word, inner: {word: inner},
        st.sampled_from(["anyOf", "oneOf"]),
        st.lists(schemas, min_size=2, max_size=3),
    )
    return objects_of(schemas) | arrays | either | choices


SCHEMAS = st.recursive(st.sampled_from(LEAVES), larger, max_leaves=6)
SMALL = st.sampled_from([None, 1, "x", "y", True])
VALUES = st.recursive(
    SMALL,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "$ref", "anyOf"]), inner, max_size=2)
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.filterwarnings("ignore::strictreply.ContractWarning")
@given(root=objects_of(SCHEMAS) | SCHEMAS, one=SCHEMAS, other=SCHEMAS, data=st.data())
def test_documents_of_any_schema_come_back(
    provider: StrictProvider, root: Any, one: Any, other: Any, data: st.DataObject
) -> None:
    """Whatever a schema is composed of, its documents map forth and back to themselves."""
    try:
        schema = Schema.compile({**root, "$defs": {"A/%": one, "B": other}})
    except sr.ContractError:
        return

    form = sent_form(schema.shown, provider, wraps_root=True)
    assert form.is_strict == (form.why == "")
    for value in data.draw(st.lists(VALUES, max_size=5)):
        if form.is_strict and not schema.check(value):
            held(form, schema, value)


UNIONS: dict[str, tuple[Any, list[Any]]] = {
    "tags": (
        {
            "anyOf": [
                closed("kind", kind={"const": "a"}, x=NUMBER),
                closed("kind", "x", kind={"const": "b"}, x=MAYBE),
            ]
        },
        [{"kind": "a"}, {"kind": "a", "x": 1}, {"kind": "b", "x": None}],
    ),
    "types": (
        {"anyOf": [closed("a", a=NUMBER, x=NUMBER), closed("a", "x", a={"const": "a"}, x=MAYBE)]},
        [{"a": 1}, {"a": "a", "x": None}],
    ),
    "names": (
        {"oneOf": [closed("a", a=NUMBER, x=NUMBER), closed("a", "y", a=NUMBER, y=MAYBE)]},
        [{"a": 1}, {"a": 1, "y": None}],
    ),
    "objects and lists": (
        {**closed(x=NUMBER), "type": ["object", "array"], "items": closed(y=NUMBER)},
        [{}, {"x": 1}, [], [{}, {"y": 1}]],
    ),
    "nested": (
        {"anyOf": [NUMBER, {"oneOf": [closed(x=NUMBER), {"type": "array", "items": NUMBER}]}]},
        [1, {}, {"x": 2}, [3]],
    ),
    "the root": (
        {"anyOf": [NUMBER, closed("next", next={"$ref": "#"}, note={"type": "string"})]},
        [1, {"next": 1}, {"next": {"next": 2, "note": "x"}}],
    ),
    "a member": (
        closed(a=closed(x=NUMBER), b={"anyOf": [{"$ref": "#/properties/a"}, NUMBER]}),
        [{}, {"b": 1}, {"a": {}, "b": {"x": 1}}],
    ),
    "null that is listed but not of the type": (
        closed(a={"type": "string", "enum": ["x", None], "default": None}),
        [{}, {"a": "x"}],
    ),
    "null that is refused": (
        closed(a={"type": ["string", "null"], "not": {"type": "null"}}),
        [{}, {"a": "x"}],
    ),
}


@pytest.mark.parametrize("name", UNIONS)
def test_the_branch_of_a_union_is_found_again(name: str) -> None:
    """What was left out is absent again, whatever branch it was left out of."""
    schema, values = UNIONS[name]
    form = sent_form(schema, "openai", wraps_root=True)
    assert form.is_strict, form.why

    for value in values:
        held(form, Schema.compile(schema, extra="schema"), value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (closed(a=NUMBER), closed("a", a=MAYBE)),
        (closed(a=closed(b=NUMBER)), closed("a", a=closed("b", b=MAYBE))),
        (
            {"type": "array", "items": closed(a=NUMBER)},
            {"type": "array", "items": closed("a", a=MAYBE)},
        ),
    ],
)
def test_a_union_that_leaves_two_meanings_to_null_has_no_form(one: Any, other: Any) -> None:
    """Where null is absence in one branch and null in the other, nobody could tell them apart."""
    for branches in ([one, other], [other, one]):
        assert not sent_form({"anyOf": branches}, "openai", wraps_root=True).is_strict


def test_a_part_of_a_union_comes_back_as_the_branch_that_it_is_like() -> None:
    """A value that fits no branch, as it is wrong or has only begun, has no null of ours."""
    schema: Any = {
        "anyOf": [
            closed("kind", "n", kind={"const": "a"}, n=NUMBER, x=NUMBER),
            closed("kind", "n", kind={"const": "b"}, n=NUMBER, x=NUMBER),
        ]
    }
    form = sent_form(schema, "openai", wraps_root=True)
    assert form.restored is not None
    assert form.restored({"value": {"kind": "b", "x": None}}) == {"kind": "b"}
    wrong: Any = {"kind": "a", "n": "1", "x": None}
    assert form.restored({"value": wrong}) == {"kind": "a", "n": "1"}


def test_a_root_that_only_refers_is_what_it_refers_to() -> None:
    """A reference at the root, with remarks beside it, is an object where it leads to one."""
    node = closed("v", v=NUMBER, next={"$ref": "#/definitions/Node"})
    schema: Any = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "T",
        "allOf": [{"$ref": "#/definitions/Node"}],
        "definitions": {"Node": node},
    }
    form = sent_form(schema, "openai")
    assert form.is_strict, form.why
    held(form, Schema.compile(schema, extra="schema"), {"v": 1, "next": {"v": 2}})


@pytest.mark.parametrize(
    "root",
    [
        {"type": "object", "oneOf": [closed("a", a=NUMBER), closed("b", b=NUMBER)]},
        {"type": ["object", "null"], **{k: v for k, v in closed().items() if k != "type"}},
    ],
)
def test_a_choice_at_the_root_is_no_object(root: Any) -> None:
    """A provider takes none, whatever type is said beside it: an answer is wrapped."""
    assert not sent_form(root, "openai").is_strict
    assert sent_form(root, "openai", wraps_root=True).is_wrapped


@pytest.mark.parametrize(
    "inner",
    [
        {"$id": "urn:x", **closed("n", n={"$ref": "#/$defs/B"}), "$defs": {"B": NUMBER}},
        {"$ref": "#anchor"},
    ],
)
def test_a_base_of_its_own_has_no_form(inner: Any) -> None:
    """References that do not point from the root are not guessed."""
    schema = {**closed("a", a=inner), "$defs": {"B": {"type": "string", "$anchor": "anchor"}}}
    assert not sent_form(schema, "openai").is_strict


def test_a_schema_beyond_the_sizes_of_the_provider_has_no_form() -> None:
    """No request is spent on a form that is refused for its size."""
    values = [f"value-{number}" for number in range(600)]
    half = {"type": "string", "enum": values}
    assert sent_form(closed("a", a=half), "openai").is_strict
    assert not sent_form(closed("a", "b", a=half, b=half), "openai").is_strict
    assert sent_form(closed("a", "b", a=half, b=half), "anthropic").is_strict


def test_a_schema_that_explodes_when_it_is_written_out_has_no_form() -> None:
    """References with remarks are written out; where they double at each step, that ends."""
    defs: dict[str, Any] = {"L40": NUMBER}
    for level in range(40):
        inner = {"$ref": f"#/$defs/L{level + 1}", "description": "x"}
        defs[f"L{level}"] = {"anyOf": [inner, inner]}

    form = sent_form({**closed("a", a={"$ref": "#/$defs/L0"}), "$defs": defs}, "openai")
    assert "expanded" in form.why


def test_values_that_do_not_change_have_no_map() -> None:
    """A schema that leads to itself and demands all is read as it comes."""
    node = closed("next", next={"anyOf": [{"$ref": "#"}, {"type": "null"}]})
    form = sent_form(node, "openai")
    assert form.is_strict
    assert form.restored is None
    assert form.sent is None


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_format_that_is_not_asserted_stands_in_words(provider: StrictProvider) -> None:
    """The provider would enforce it: a document that fits could not be written."""
    schema = closed("a", a={"type": "string", "format": "date"})
    assert sent_form(schema, provider).document == schema
    document: Any = sent_form(schema, provider, asserts_formats=False).document
    assert "format" not in document["properties"]["a"]
    assert "date" in document["properties"]["a"]["description"]


@needs_shared
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.filterwarnings("ignore::strictreply.ContractWarning")
def test_tools_of_real_servers_come_back(provider: StrictProvider) -> None:
    """Of the recorded MCP tools an example of each that has a form comes back to itself."""
    counted: Counter[str] = Counter()
    for path in sorted((SHARED / "apps" / "inputs").rglob("*.json")):
        declared = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(declared, dict) or "inputSchema" not in declared:
            continue

        tool = sr.Tool.from_mcp(declared)
        form = sent_form(tool.parameters.shown, provider)
        counted["strict" if form.is_strict else "declared"] += 1
        example = tool.parameters.example() if form.is_strict else None
        if form.is_strict and not tool.parameters.check(example):
            held(form, tool.parameters, example)
            counted["held"] += 1

    assert counted["strict"] > 30
    assert counted["held"] > 30
