"""Faults of a value's JSON type: another type than the schema has, or a value dressed as a text, a list, an object."""

from __future__ import annotations

import json

from strictreply.testing._steps import CANARY
from strictreply.testing.faults._breaking import Members, Values, at_member, at_place
from strictreply.testing.faults._spots import Spot
from strictreply.values._json import JSON

_SCALARS = ("string", "number", "integer", "boolean")
_NUMBERS = ("number", "integer")
_EPOCH_SECONDS = 1_767_225_600
_OF_TYPE: dict[str, JSON] = {
    "integer": 7,
    "string": CANARY,
    "boolean": True,
    "array": [CANARY],
    "object": {CANARY: CANARY},
    "number": 7.5,
    "null": None,
}


@at_place("args.type")
def wrong_type(spot: Spot) -> Values:
    """A value is of another JSON type."""
    yield from (value for kind, value in _OF_TYPE.items() if kind != spot.kind)


@at_place("args.type")
def number_as_text(spot: Spot) -> Values:
    """A number is written as a string."""
    if spot.kind in _NUMBERS:
        yield json.dumps(spot.value)


@at_place("args.type")
def number_as_text_with_unit(spot: Spot) -> Values:
    """A number is written as a string with a unit."""
    if spot.kind in _NUMBERS:
        yield f"{json.dumps(spot.value)} {CANARY}"


@at_place("args.type")
def number_with_separators(spot: Spot) -> Values:
    """A number is written as a string with separators between the thousands."""
    if spot.kind in _NUMBERS:
        yield "1,000"


@at_place("args.type")
def number_in_words(spot: Spot) -> Values:
    """A number is written as a word."""
    if spot.kind in _NUMBERS:
        yield "seven"


@at_place("args.type")
def fraction_for_integer(spot: Spot) -> Values:
    """An integer has a fraction."""
    if spot.kind in _NUMBERS:
        yield from (spot.value + 0.5, spot.value - 0.5)


@at_place("args.type")
def boolean_for_number(spot: Spot) -> Values:
    """A boolean stands where a number belongs."""
    if spot.kind in _NUMBERS:
        yield from (True, False)


@at_place("args.type")
def boolean_as_text(spot: Spot) -> Values:
    """A boolean is written as a string."""
    if spot.kind == "boolean":
        yield json.dumps(spot.value)


@at_place("args.type")
def boolean_in_words(spot: Spot) -> Values:
    """A boolean is written as yes or no."""
    if spot.kind == "boolean":
        yield "yes" if spot.value else "no"


@at_place("args.type")
def number_for_boolean(spot: Spot) -> Values:
    """A boolean is written as 1 or 0."""
    if spot.kind == "boolean":
        yield int(spot.value)


@at_place("args.type")
def number_for_text(spot: Spot) -> Values:
    """A number stands where a string belongs."""
    if spot.kind == "string":
        yield from (7, 7.5)


@at_place("args.type")
def timestamp_for_date(spot: Spot) -> Values:
    """A date or a time is written as seconds since 1970."""
    if spot.kind == "string" and {"date", "date-time", "date-time-local", "time"} & set(spot.rules("format")):
        yield _EPOCH_SECONDS


@at_place("args.type")
def null_value(spot: Spot) -> Values:
    """Null stands where the schema demands a value."""
    if not spot.optional:
        yield None


@at_place("args.type")
def null_for_optional(spot: Spot) -> Values:
    """Null stands for an optional member that should be left out."""
    if spot.optional:
        yield None


@at_place("args.type")
def null_as_text(spot: Spot) -> Values:
    """Null is written as a string."""
    if "null" in (kind for rule in spot.rules("type") for kind in ([rule] if isinstance(rule, str) else rule)):
        yield "null"


@at_place("args.type")
def empty_text_for_optional(spot: Spot) -> Values:
    """An empty string stands for an optional member that should be left out."""
    if spot.optional and spot.kind != "string":
        yield ""


@at_place("args.type")
def array_as_text(spot: Spot) -> Values:
    """An array is written as a string of JSON."""
    if spot.kind == "array":
        yield json.dumps(_with_items(spot))


@at_place("args.type")
def array_as_comma_list(spot: Spot) -> Values:
    """An array is written as a string with commas."""
    if spot.kind == "array":
        yield ", ".join([*map(str, _with_items(spot)), CANARY])


@at_place("args.type")
def scalar_for_array(spot: Spot) -> Values:
    """One item stands where an array belongs."""
    if spot.kind == "array":
        items = [*spot.value, *spot.examples_below(0), CANARY]
        yield from (item for item in items if not isinstance(item, dict | list))


@at_place("args.type")
def object_for_array(spot: Spot) -> Values:
    """An array is written as an object with numbered keys."""
    if spot.kind == "array":
        yield {str(number): item for number, item in enumerate(_with_items(spot) or [CANARY])}


@at_place("args.type")
def array_for_scalar(spot: Spot) -> Values:
    """A string, a number or a boolean is wrapped in an array."""
    if spot.kind in _SCALARS:
        yield [spot.value]


@at_place("args.type")
def object_for_scalar(spot: Spot) -> Values:
    """A string, a number or a boolean is wrapped in an object."""
    if spot.kind in _SCALARS:
        yield {"value": spot.value}


@at_place("args.type")
def value_in_its_schema(spot: Spot) -> Values:
    """A value is given with its schema around it, as {"type": …, "value": …}."""
    if spot.kind in _SCALARS:
        yield {"type": spot.kind, "value": spot.value}


@at_place("args.type")
def object_as_text(spot: Spot) -> Values:
    """An object is written as a string of JSON."""
    if spot.kind == "object":
        yield json.dumps(spot.value)


@at_place("args.type")
def text_for_object(spot: Spot) -> Values:
    """A description in words stands where an object belongs."""
    if spot.kind == "object":
        yield f"the {CANARY} one"


@at_place("args.type")
def array_for_object(spot: Spot) -> Values:
    """An object is wrapped in an array."""
    if spot.kind == "object":
        yield [spot.value]


@at_member("args.type")
def wrong_item_type(spot: Spot) -> Members:
    """An item behind good ones is of another JSON type."""
    if spot.kind == "array":
        items = _with_items(spot)
        yield from ((len(items), [*items, value]) for kind, value in _OF_TYPE.items() if kind != "null")


@at_member("args.type")
def null_item(spot: Spot) -> Members:
    """Null stands behind good items of an array."""
    if spot.kind == "array":
        items = _with_items(spot)
        yield len(items), [*items, None]


def _with_items(spot: Spot) -> list[JSON]:
    """Give the good array, with one item at least."""
    return spot.value or spot.examples_below(0)
