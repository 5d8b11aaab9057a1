"""A fault keeps what it was given: it changes what its name says, derived from the given value."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strictreply import Tool
from strictreply.core.text import pointer_tokens
from strictreply.testing import Fault, Kind
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.faults._catalogue import Entry
from support.loops import some

pytestmark = pytest.mark.sampled

ORDER = Tool.from_json_schema(
    "order",
    {
        "type": "object",
        "properties": {
            "order_id": {"type": "integer"},
            "price": {"type": "number"},
            "gift": {"type": "boolean"},
            "reason": {"enum": ["late", "broken", "lost"]},
            "ship_on": {"type": "string", "format": "date"},
            "items": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "address": {
                "type": "object",
                "properties": {"street_name": {"type": "string"}, "floor": {"type": "integer"}},
                "required": ["street_name", "floor"],
            },
        },
        "required": ["order_id", "price", "gift", "reason", "ship_on", "items", "address"],
    },
)
WORDS = st.text(st.characters(codec="ascii", categories=["L"]), min_size=3, max_size=9)
NUMBERS = st.integers(-(10**9), 10**9) | st.floats(0.001, 1e6) | st.floats(-1e6, -0.001)
ARGS = st.fixed_dictionaries(
    {
        "order_id": st.integers(-(10**9), 10**9),
        "price": NUMBERS,
        "gift": st.booleans(),
        "reason": st.sampled_from(["late", "broken", "lost"]),
        "ship_on": st.dates().map(str),
        "items": st.lists(WORDS, min_size=1, max_size=3),
        "address": st.fixed_dictionaries({"street_name": WORDS, "floor": st.integers(0, 99)}),
    }
)
# Faults whose name speaks of all the arguments, or of a reply without those that were given.
OF_ALL = {
    "arguments_under_a_key",
    "empty_object",
    "schema_instead_of_arguments",
}
BESIDE_A_VALUE = (Kind.ARGS, Kind.JSON)
ENTRIES = [entry for entry in CATALOGUE.values() if "call" in entry.places]


def arguments_of(fault: Fault) -> list[Any]:
    """The arguments of every call of the tool in a completion; empty for another response."""
    served: Any = fault.served
    try:
        calls = served["choices"][0]["message"]["tool_calls"]
        return [
            call["function"]["arguments"] for call in calls if call["function"]["name"] == "order"
        ]
    except (KeyError, IndexError, TypeError):
        return []


def members_in(text: str, args: dict[str, Any]) -> set[str]:
    """The members that stand in a text as the good call writes them, byte for byte."""
    return {
        name
        for name, value in args.items()
        if f'"{name}": {json.dumps(value, ensure_ascii=False)}' in text
    }


def texts_of(fault: Fault) -> list[str]:
    """The arguments of the calls that are texts."""
    return [text for text in arguments_of(fault) if isinstance(text, str)]


def kept_by(fault: Fault, args: dict[str, Any]) -> set[str]:
    """The members that a fault does not speak of; none where it speaks of all."""
    first = pointer_tokens(fault.at)[0] if fault.at else ""
    if fault.kind not in BESIDE_A_VALUE or fault.name in OF_ALL or first not in args:
        return set()
    if fault.name.startswith("cut_"):
        names = [*args]
        return {*names[: names.index(first)]}

    return {*args} - {first}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
@settings(max_examples=5)
@given(args=ARGS)
def test_members_beside_a_fault_are_those_that_were_given(
    entry: Entry, args: dict[str, Any]
) -> None:
    """What a fault does not speak of stands in the reply as in the good call, byte for byte.

    A fault at a place speaks of its member, one that cuts the text also of those behind it; the
    faults of calls, envelopes and endings do not speak of the arguments that they carry as text.
    """
    lost = [
        fault.source
        for fault in entry.all_for(ORDER, args=args)
        if not kept_by(fault, args).issubset(members_in("".join(texts_of(fault)), args))
    ]
    assert lost == []


@pytest.mark.parametrize("kind", [Kind.TOOL, Kind.ENVELOPE, Kind.FINISH])
@given(args=ARGS)
@settings(max_examples=5)
def test_faults_around_the_arguments_carry_those_that_were_given(
    kind: Kind, args: dict[str, Any]
) -> None:
    """A call of the right tool has the given arguments as its text, or the beginning of them where
    the reply is cut.
    """
    good = json.dumps(args, ensure_ascii=False)
    made = [
        fault
        for entry in ENTRIES
        if entry.kind is kind
        for fault in entry.all_for(ORDER, args=args)
        if any(isinstance(text, str) for text in arguments_of(fault))
    ]
    for fault in some(made):
        texts = filter(None, texts_of(fault))
        assert any(good.startswith(text) for text in texts), fault.source


WORD_OF = {
    "minus": "-",
    "point": ".",
    **{
        word: str(n)
        for n, word in enumerate(
            (
                "zero",
                "one",
                "two",
                "three",
                "four",
                "five",
                "six",
                "seven",
                "eight",
                "nine",
                "ten",
                "eleven",
                "twelve",
            )
        )
    },
}
READ: dict[str, Callable[[str], object]] = {
    "number_as_text": Decimal,
    "number_as_text_with_unit": lambda text: Decimal(text.split()[0]),
    "number_with_separators": lambda text: Decimal(text.replace(",", "")),
    "number_in_words": lambda text: Decimal(
        "".join(WORD_OF.get(word, word) for word in text.split())
    ),
}


@pytest.mark.parametrize("name", READ)
@given(number=st.integers(-(10**9), 10**9) | st.decimals(1, 9999, places=2).map(float))
@settings(max_examples=25)
def test_a_number_in_another_notation_is_the_number_that_was_given(
    name: str, number: float
) -> None:
    """Read back, each notation of a number is the given one, large or small, whole or not."""
    tool = Tool.from_json_schema(
        "order", {"properties": {"price": {"type": "number"}}, "required": ["price"]}
    )
    (text,) = arguments_of(CATALOGUE[name](tool, "price", args={"price": number}))
    written = json.loads(text)["price"]
    if name == "number_with_separators" and abs(number) < 1_000:
        assert "," in written
        written = written.replace(",", ".")  # a small number has a decimal comma
    assert READ[name](written) == Decimal(json.dumps(number))
