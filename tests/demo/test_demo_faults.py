"""Spoiling drafts: every fault that is made is one, and none is made that the schema admits."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.schema import Schema
from strictreply.testing._demo import Fault
from strictreply.testing._demo.drafts import Target
from strictreply.testing._demo.faults import draw, spoil
from strictreply.testing._targets import Place

ARGS: dict[str, Any] = {"kind": "late", "count": 3, "ratio": 0.5, "sure": True, "names": ["a", "b"]}
CLOSED = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["late", "LOST"]},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "sure": {"type": "boolean"},
        "names": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["kind", "count"],
}
OPEN: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


def target(document: dict[str, Any], place: Place = "call") -> Target:
    """The right call of a tool with these parameters."""
    return Target("do_it", ARGS, Schema.compile(document), place)


@given(fault=st.sampled_from(Fault), seed=st.integers(), place=st.sampled_from(["call", "union", "json"]))
def test_every_fault_is_one(fault: Fault, seed: int, place: Place) -> None:
    """A spoiled draft differs from the clean one and, where it is readable, breaks the schema or the name."""
    wanted = target(CLOSED, place)
    draft = spoil(wanted, fault, random.Random(seed))
    assert draft is not None
    assert draft != wanted.clean
    try:
        value = json.loads(draft.text)
    except ValueError:
        assert fault in {Fault.NOT_JSON, Fault.CUT, Fault.FENCED, Fault.PROSE}
        return
    args = value["args"] if place == "union" else value
    assert wanted.schema is not None
    assert wanted.schema.check(args) or draft.tool != wanted.clean.tool


@pytest.mark.parametrize("fault", [Fault.EXTRA_KEY, Fault.MISSING_REQUIRED, Fault.STRINGIFIED, Fault.WRONG_TYPE])
def test_what_the_schema_admits_is_no_fault(fault: Fault) -> None:
    """Against a schema that takes everything no fault of the arguments can be made."""
    assert spoil(target(OPEN), fault, random.Random(0)) is None


@pytest.mark.parametrize("seed", range(50))
def test_only_faults_that_can_be_made_are_drawn(seed: int) -> None:
    """With an open schema the name or the form is spoiled, also when values were preferred."""
    for values_only in (False, True):
        drawn = draw(target(OPEN), random.Random(seed), values_only=values_only)
        assert drawn is not None
        assert drawn[0] in {Fault.UNKNOWN_TOOL, Fault.LEAKED_NAME, Fault.NOT_JSON, Fault.CUT}


@pytest.mark.parametrize("seed", range(50))
def test_values_are_preferred_where_asked(seed: int) -> None:
    """``values_only`` spoils the arguments, and what is avoided is not drawn."""
    avoided = {Fault.EXTRA_KEY, Fault.STRINGIFIED}
    drawn = draw(target(CLOSED), random.Random(seed), values_only=True, avoid=avoided)
    assert drawn is not None
    assert drawn[0] in {Fault.MISSING_REQUIRED, Fault.WRONG_TYPE, Fault.NULL_OPTIONAL, Fault.ENUM_CASE}


def test_plain_text_has_nothing_to_get_wrong() -> None:
    """No fault can be made of an answer in prose."""
    assert draw(Target("", "hello", None, "prose"), random.Random(0)) is None


@pytest.mark.parametrize("value", [{}, [], "text", 52, 5, None])
def test_small_values_can_be_malformed(value: Any) -> None:
    """Whatever the JSON, ``not_json`` and ``cut`` leave text that is none, or are not made."""
    wanted = Target("", value, Schema.compile(True), "json")
    assert spoil(wanted, Fault.EXTRA_KEY, random.Random(0)) is None or isinstance(value, dict)
    malformed, cut = (spoil(wanted, fault, random.Random(0)) for fault in (Fault.NOT_JSON, Fault.CUT))
    assert malformed is not None
    assert not malformed.is_json
    assert cut is None or not cut.is_json
