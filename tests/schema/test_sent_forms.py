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
            "cannot be told apart",
        ),
        ({"type": "string"}, "no object"),
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
