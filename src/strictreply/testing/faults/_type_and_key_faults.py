"""Faults of a value's JSON type, and of an object's keys.

Faults of the type are values that ``int()``, ``bool()``, ``==`` or ``if`` misread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import chain

from strictreply.core import JSON, JSONObject
from strictreply.testing._steps import CANARY
from strictreply.testing.faults._catalogue import Entry, without
from strictreply.testing.faults._spots import (
    MAX_SIZE,
    Members,
    Spot,
    Values,
    at_member,
    at_place,
    without_required,
)


def _of_another_type(spot: Spot) -> Values:
    if spot.value is True:
        # None of them is true in Python, while the good value is.
        return [0, "", [], {}]
    return [_OF_TYPE[kind] for kind in _OF_TYPE if kind != spot.kind]


_WORDS = (
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
_WORD_OF = {"-": "minus", ".": "point", **{str(digit): _WORDS[digit] for digit in range(10)}}


def _in_words(number: float) -> str:
    """Write a number as words, a large one or a fraction digit by digit."""
    if isinstance(number, int) and 0 <= number < len(_WORDS):
        return _WORDS[number]

    return " ".join(_WORD_OF.get(character, character) for character in json.dumps(number))


def _with_separators(spot: Spot) -> Values:
    """Group the digits of the good number; a small one has a decimal comma instead.

    A small whole number has three decimals: ``5,000`` is 5 to one reader, and 5000 to another.
    """
    grouped = f"{spot.value:,}"
    if "," in grouped:
        return [grouped]
    if isinstance(spot.value, int):
        return [f"{grouped},000"]

    mantissa, *power = grouped.split("e")
    fraction = mantissa.replace(".", ",") if "." in mantissa else f"{mantissa},0"
    return ["e".join([fraction, *power])]


def _number_in(spot: Spot) -> Values:
    """Return the number that a good text spells, else a made-up one."""
    spells = re.fullmatch(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,9})?", spot.value)
    return [json.loads(spot.value) if spells else 7]


def _seconds_of(spot: Spot) -> Values:
    """Write the moment of a good text as seconds since 1970, that of a time since midnight."""
    text: str = spot.value
    clock = text if "-" in text[:5] else f"1970-01-01T{text}"
    try:
        moment = datetime.fromisoformat(clock)
    except ValueError:
        return [1_767_225_600]

    return [int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())]


def _one_item(spot: Spot) -> Values:
    """Return single items.

    A text of one character is left out, as it reads as a list of that character.
    """
    items = (*spot.value, *spot.examples_below(0), CANARY)
    single = [one for one in items if not isinstance(one, dict | list)]
    return [one for one in single if not isinstance(one, str) or len(one) > 1]


def _items(spot: Spot) -> list[JSON]:
    """Return the good array, with one item at least."""
    return spot.value or spot.examples_below(0)


def _comma_list(spot: Spot) -> Values:
    """Join the good items; a single one is joined with another, as it has no comma."""
    items = [str(item) for item in _items(spot)]
    return [", ".join(items if len(items) > 1 else [*items, CANARY])]


def _then_item(summary: str, *items: JSON) -> Entry:
    """Add one of these items after the good ones of an array."""
    return at_member(
        "type",
        summary,
        lambda spot: [(len(good := _items(spot)), [*good, item]) for item in items],
        "array",
    )


def _renamed(whole: JSONObject, name: str, other: str) -> JSONObject:
    return {other if key == name else key: value for key, value in whole.items()}


def _value_for(spot: Spot, name: str) -> Iterator[JSON]:
    """Yield a good value for a member, when there is one: that which is there, or an example."""
    if name in spot.value:
        yield spot.value[name]
    elif spot.below(name):
        yield from spot.examples_below(name)
    else:
        yield CANARY


def _having_each(spot: Spot) -> Iterator[tuple[str, JSONObject]]:
    """Yield each member that has a name in the schema, with a good object that has it."""
    for name in dict.fromkeys(name for rule in spot.rules("properties") for name in rule):
        for member in _value_for(spot, name):
            whole = {**spot.value, name: member}
            if spot.parts.fits(spot.known[0], whole):
                yield name, whole


def _lifted(spot: Spot, prefix: str) -> Members:
    """Put the members of each inner object into the outer one, with a prefix to their names."""
    for name, whole in _having_each(spot):
        if isinstance(whole[name], dict) and whole[name]:
            lifted = {f"{prefix.format(name)}{key}": value for key, value in whole[name].items()}
            yield name, without(whole, name) | lifted


def _one_more(spot: Spot) -> Values:
    return [{**spot.value, f"{CANARY}_key": CANARY}]


def _incomplete(spot: Spot) -> Members:
    pairs = (pair for rule in spot.rules("dependentRequired") for pair in rule.items())
    for trigger, needed in pairs:
        for member in _value_for(spot, trigger):
            for name in needed:
                others = {other: one for other in needed for one in _value_for(spot, other)}
                complete = {**spot.value, **others, trigger: member}
                yield name, without(complete, name)


def _with_letters_swapped(spot: Spot) -> Members:
    for name, whole in _having_each(spot):
        swapped = name[:1] + re.sub(r"([^\W_])(?!\1)([^\W_])", r"\2\1", name[1:], count=1)
        yield name, _renamed(whole, name, swapped if swapped != name else f"{name}s")


def _with_other_case(spot: Spot) -> Members:
    for name, whole in _having_each(spot):
        first, *rest = name.split("_")
        camel = first + "".join(map(str.capitalize, rest))
        snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()

        for other in (camel, snake, name.capitalize(), name.upper(), name.lower()):
            if other != name:
                yield name, _renamed(whole, name, other)


def _with_fewer_keys(spot: Spot) -> Values:
    members: JSONObject = spot.value if spot.kind == "object" else {}
    required = [name for name in spot.listed("required") if name in members]
    ordered = list(dict.fromkeys([*required, *members]))

    for least in spot.rules("minProperties"):
        yield {name: members[name] for name in ordered[: max(0, int(least) - 1)]}


def _with_more_keys(spot: Spot) -> Values:
    for most in (int(rule) for rule in spot.rules("maxProperties") if rule < MAX_SIZE):
        grown: JSONObject = dict(spot.value)
        named = (str(name) for rule in spot.rules("properties") for name in rule)
        numbered = (f"{CANARY}{number}" for number in range(most + 1))

        for name in chain(named, spot.unnamed(), numbered):
            if len(grown) <= most and name not in grown:
                grown[name] = (*_value_for(spot, name), CANARY)[0]

        yield grown


def _forbidden(spot: Spot) -> Members:
    named = (pair for rule in spot.rules("properties") for pair in rule.items())
    return [(name, {**spot.value, name: CANARY}) for name, schema in named if schema is False]


def _misnamed(spot: Spot) -> Values:
    return [{**spot.value, name: (*_value_for(spot, name), CANARY)[0]} for name in _BAD_NAMES]


def _schema(spot: Spot) -> Values:
    members: JSONObject = {}
    for key in ("type", "properties", "required"):
        for rule in spot.rules(key):
            members.setdefault(key, rule)
    whole: JSONObject = {"type": "object", **members}
    return [whole]


# The wrong type
_MOMENTS = {"date", "date-time", "date-time-local", "time"}
_OF_TYPE: dict[str, JSON] = {
    "integer": 7,
    "string": CANARY,
    "boolean": True,
    "array": [CANARY],
    "object": {CANARY: CANARY},
    "number": 7.5,
    "null": None,
}
_typed = partial(at_place, "type")
_number = partial(_typed, where="integer number")
_boolean = partial(_typed, where="boolean")
_array = partial(_typed, where="array")
_object = partial(_typed, where="object")
_scalar = partial(_typed, where="string number integer boolean")

wrong_type: Entry = _typed("A value has the wrong JSON type.", _of_another_type)
number_as_text: Entry = _number("A number is written as a string.", ["$written"])
number_as_text_with_unit: Entry = _number(
    "A number is written as a string with a unit.", [f"$written {CANARY}"]
)
number_with_separators: Entry = _number(
    "A number is written as a string with a comma, such as 1,000.", _with_separators
)
number_in_words: Entry = _number(
    "A number is written in words.", lambda spot: [_in_words(spot.value)]
)
fraction_for_integer: Entry = _number(
    "An integer has a fraction.", lambda spot: [spot.value + 0.5, spot.value - 0.5]
)
boolean_for_number: Entry = _number(
    "A boolean is given instead of a number.",
    lambda spot: [one for one in (True, False) if one != spot.value],
)
boolean_as_text: Entry = _boolean(
    "A boolean is written as a string; in Python both strings are truthy.", ["$written"]
)
boolean_in_words: Entry = _boolean(
    "A boolean is written as yes or no; in Python both strings are truthy.",
    lambda spot: ["yes" if spot.value else "no"],
)
number_for_boolean: Entry = _boolean(
    "A boolean is written as 1 or 0.", lambda spot: [int(spot.value)]
)
number_for_text: Entry = _typed("A number is given instead of a string.", _number_in, "string")
timestamp_for_date: Entry = _typed(
    "A date or a time is written as seconds since 1970.",
    _seconds_of,
    lambda spot: spot.kind == "string" and not _MOMENTS.isdisjoint(spot.rules("format")),
)
null_value: Entry = _typed(
    "Null is given instead of a value.", [None], lambda spot: not spot.optional
)
null_for_optional: Entry = _typed(
    "Null is given for an optional member that should be left out.",
    [None],
    lambda spot: spot.optional,
)
null_as_text: Entry = _typed(
    "Null is written as a string.",
    ["null"],
    lambda spot: "null" in [*spot.rules("type"), *spot.listed("type")],
)
empty_text_for_optional: Entry = _typed(
    "An empty string is given for an optional member that should be left out.",
    [""],
    lambda spot: spot.optional and spot.kind != "string",
)
array_as_text: Entry = _array(
    "An array is written as a string of JSON.", lambda spot: [json.dumps(_items(spot))]
)
array_as_comma_list: Entry = _array(
    "An array is written as a string of values separated by commas.", _comma_list
)
scalar_for_array: Entry = _array("One item is given instead of an array.", _one_item)
object_for_array: Entry = _array(
    "An array is written as an object with numbered keys.",
    lambda spot: [{str(n): item for n, item in enumerate(_items(spot) or [CANARY])}],
)
_SCHEMED: list[JSON] = [{"type": "$kind", "value": "$value"}]
array_for_scalar: Entry = _scalar(
    "A string, a number or a boolean is wrapped in an array.", [["$value"]]
)
object_for_scalar: Entry = _scalar(
    "A string, a number or a boolean is wrapped in an object.", [{"value": "$value"}]
)
value_in_its_schema: Entry = _scalar(
    'A value is wrapped with its type: {"type": …, "value": …}.', _SCHEMED
)
object_as_text: Entry = _object("An object is written as a string of JSON.", ["$written"])
text_for_object: Entry = _object(
    "A description in words is given instead of an object.", [f"the {CANARY} one"]
)
array_for_object: Entry = _object("An object is wrapped in an array.", [["$value"]])
wrong_item_type: Entry = _then_item(
    "An extra item at the end of an array has the wrong JSON type.", *[*_OF_TYPE.values()][:-1]
)
null_item: Entry = _then_item("An extra item at the end of an array is null.", None)

# Keys
_REMARKS = ("explanation", "reasoning", "thoughts", "confidence", "note")
_BAD_NAMES = (CANARY, CANARY.upper(), f"{CANARY} key!", f"{CANARY}.{CANARY}", CANARY * 100, "")
_extra_key = partial(
    at_place, "extra_key", where=lambda spot: spot.kind == "object" and not spot.path
)
_inner_key = partial(
    at_place, "extra_key", where=lambda spot: spot.kind == "object" and bool(spot.path)
)
_wrong_key = partial(at_member, "extra_key", where="object")
_missing = partial(at_member, "required")
_WRAPPED: list[JSON] = [
    {name: "$value"} for name in ("args", "arguments", "parameters", "input", "data")
]

missing_required: Entry = _missing(
    "A required key is missing.", partial(without_required, conditional=False)
)
empty_object: Entry = at_place("required", "An object that has required keys is empty.", [{}])
dependent_key_missing: Entry = at_member(
    "dependent_required", "A key that another key requires is missing.", _incomplete
)
extra_key: Entry = _extra_key(
    "The arguments have a key that the schema does not define.", _one_more
)
nested_extra_key: Entry = _inner_key(
    "A nested object in the arguments has a key that the schema does not define.", _one_more
)
key_where_none_allowed: Entry = at_place(
    "no_keys", "An object that must be empty has a key.", _one_more, "object"
)
commentary_key: Entry = _extra_key(
    "The arguments have an extra key with the model's explanation.",
    lambda spot: [
        {**spot.value, name: f"because {CANARY}"} for name in _REMARKS if name not in spot.value
    ],
)
misspelled_key: Entry = _wrong_key("Two letters of a key are swapped.", _with_letters_swapped)
key_in_other_case: Entry = _wrong_key(
    "A key is written in another case, such as camelCase.", _with_other_case
)
flattened_object: Entry = _wrong_key(
    "The members of a nested object are written one level too high.", partial(_lifted, prefix="")
)
dotted_key: Entry = _wrong_key(
    "The members of a nested object are written as dotted keys.", partial(_lifted, prefix="{}.")
)
arguments_under_a_key: Entry = _extra_key(
    "The arguments are nested under a key such as args.", _WRAPPED
)
schema_instead_of_arguments: Entry = _extra_key(
    "The schema is given instead of arguments.", _schema
)
too_few_properties: Entry = at_place(
    "min_properties", "An object has too few keys.", _with_fewer_keys
)
too_many_properties: Entry = at_place(
    "max_properties", "An object has too many keys.", _with_more_keys
)
bad_property_name: Entry = at_place(
    "property_names", "A key has a name that is not allowed.", _misnamed
)
forbidden_key: Entry = at_member(
    "forbidden", "An object has a key that the schema forbids by name.", _forbidden, "object"
)
