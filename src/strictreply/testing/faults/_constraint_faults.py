"""Faults of a value of the right type that breaks another rule of its schema."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import combinations, count, islice, product
from typing import Any

from strictreply.core import JSON
from strictreply.testing._steps import CANARY
from strictreply.testing.faults._catalogue import Entry, without
from strictreply.testing.faults._formats import (
    at_twelve_hours,
    day_alone,
    day_first,
    day_in_words,
    last_of_ipv6,
    mapped_to_ipv6,
    on_no_day,
    units_as_clock,
    units_in_words,
    without_offset,
    without_scheme,
    without_seconds,
    without_slash,
)
from strictreply.testing.faults._spots import (
    MAX_SIZE,
    Members,
    Spot,
    Values,
    at_member,
    at_place,
    without_required,
)


def _strangers(spot: Spot) -> Iterator[JSON]:
    """Propose values that may fit none of the alternatives."""
    if spot.kind == "object":
        yield from (without(spot.value, name) for name in spot.value)

    other: list[JSON] = [CANARY, {}, 7, 7.5, [], [CANARY], {CANARY: CANARY}, "", True, None, -7]
    yield from other


def _outside_all(spot: Spot) -> Values:
    nodes = list(spot.nodes("oneOf"))
    if not nodes:
        return

    for value in _strangers(spot):
        if not any(spot.parts.fits(node, value) for node in nodes):
            yield value


def _in_several(spot: Spot) -> Values:
    """Propose values that may fit two alternatives.

    They are examples of either and of both, and where their bounds meet.
    """
    for one, other in combinations(spot.nodes("oneOf"), 2):
        examples = spot.parts.examples(one)
        others = spot.parts.examples(other)

        bounds: list[Any] = []
        for schema in (one.schema, other.schema):
            bounds += [schema[name] for name in ("minimum", "maximum") if name in schema]

        step = one.schema.get("multipleOf", 1) * other.schema.get("multipleOf", 1)
        ours = [example for example in examples if isinstance(example, dict)]
        theirs = [example for example in others if isinstance(example, dict)]
        both = [{**a, **b} for a, b in product(ours, theirs)]

        for value in (*spot.parts.examples(one, other), *examples, *others, *bounds, step, *both):
            if spot.parts.fits(one, value):
                yield value


def _tag_of_another(spot: Spot) -> Members:
    for node in spot.nodes("anyOf", "oneOf"):
        for name, schema in node.resolved("properties").schema.get("properties", {}).items():
            tagged = isinstance(schema, dict) and "const" in schema and name in spot.value
            if tagged and spot.value[name] != schema["const"]:
                yield name, {**spot.value, name: schema["const"]}


def _excluded(spot: Spot) -> Values:
    for node in spot.nodes("not"):
        for made in (*spot.parts.examples(node), *spot.examples(node)):
            if isinstance(made, dict) and spot.kind == "object":
                yield {**spot.value, **made}
            else:
                yield made


def _listed_texts(spot: Spot) -> list[str]:
    """Return the allowed strings, that of the good value first."""
    texts = [text for text in spot.listed("enum") if isinstance(text, str)]
    return sorted(texts, key=lambda text: text != spot.value)


def _spelled(summary: str, *ways: Callable[[str], str]) -> Entry:
    """Write the allowed strings in other ways."""
    return _enum(summary, lambda spot: [way(text) for text in _listed_texts(spot) for way in ways])


def _as_text(spot: Spot) -> Values:
    others = sorted(spot.listed("enum"), key=lambda one: one != spot.value)
    return [json.dumps(one) for one in others if not isinstance(one, str)]


def _unlisted(spot: Spot) -> Values:
    listed = list(spot.listed("enum"))
    if any(isinstance(value, bool) for value in listed):  # 2 would be as true as True
        return [False, True, CANARY]
    if listed and all(isinstance(value, int | float) for value in listed):
        return [max(listed) + 1]
    return [CANARY]


def _other_constant(spot: Spot) -> Values:
    for value in spot.rules("const"):
        if isinstance(value, int | float):
            yield not value if isinstance(value, bool) else value + 1
        yield CANARY


def _beyond(keyword: str, sign: int, spot: Spot) -> Iterator[Any]:
    """Propose numbers past a bound: by one, by a step, or by the least that a double can."""
    steps = [step for step in spot.rules("multipleOf") if isinstance(step, int | float)]
    for bound in spot.rules(keyword):
        yield from (bound + sign * step for step in (1, *steps))
        yield from (bound + sign * (-bound * sign % step) + sign * step for step in steps)
        yield math.nextafter(bound, sign * math.inf)


def _off_step(spot: Spot) -> Values:
    for step in spot.rules("multipleOf"):
        half = step / 2
        yield from (spot.value + 1, spot.value - 1, spot.value + half, spot.value - half, half)


def _shorter(keyword: str, spot: Spot) -> Values:
    return [spot.value[: int(least) - 1] for least in spot.rules(keyword) if least]


def _longer(spot: Spot) -> Values:
    for most in (int(rule) for rule in spot.rules("maxLength") if rule < MAX_SIZE):
        for filling in (CANARY, spot.value[-1:]):
            yield (spot.value + filling * (most + 1))[: most + 1]


def _format(summary: str, **ways: Callable[[str], str]) -> Entry:
    """Write a good text in another way, by the format that the schema asks for.

    ``_`` in the name of a format stands for ``-``. A text that is not of its format cannot be
    written otherwise.
    """
    by_format = {name.replace("_", "-"): way for name, way in ways.items()}

    def written(spot: Spot) -> Values:
        for name, way in by_format.items():
            if name in spot.rules("format") and isinstance(spot.value, str):
                with suppress(ValueError):
                    yield way(spot.value)

    return at_place("format", summary, written)


def _filled(spot: Spot, size: int) -> list[JSON]:
    """Return the good array with as many items; those added differ where that is easy."""
    items: list[JSON] = list(spot.value)
    for index in range(len(items), size):
        example = (*spot.examples_below(index), CANARY)[0]
        varied = islice(_varied(example), size + 1)
        items.append(next((one for one in varied if one not in items), example))
    return items


def _varied(item: JSON) -> Iterator[JSON]:
    """Vary a text or a number without end."""
    yield item
    for number in count(1):
        if isinstance(item, str):
            yield f"{item}{number}"
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield item + number
        else:
            return


def _with_equal_items(spot: Spot) -> Values:
    first = _filled(spot, 1)[0]
    return [first, *spot.value], [first, first], [*spot.value[:-1], first]


def _with_items_spelled_apart(spot: Spot) -> Values:
    for item in (*spot.value[:1], *_filled(spot, 1)):
        if isinstance(item, int) and not isinstance(item, bool):
            yield [item, float(item)]
        elif isinstance(item, dict) and len(item) > 1:
            yield [item, dict(reversed(item.items()))]


def _without_contained(spot: Spot) -> Values:
    for node in spot.nodes("contains"):
        rest: list[JSON] = [item for item in spot.value if not spot.parts.fits(node, item)]
        others: list[JSON] = [*spot.examples_below(len(spot.value)), CANARY, 7, None]
        fewer = len(spot.value) - len(rest)

        for other in others:
            if not spot.parts.fits(node, other):
                yield [*rest, *[other] * fewer]
        yield rest


def _with_many_contained(spot: Spot) -> Values:
    if not spot.states("maxContains"):
        return

    for node in spot.nodes("contains"):
        most = max(int(rule) for rule in spot.rules("maxContains"))
        if most >= MAX_SIZE:
            continue

        for one in spot.parts.examples(node, *spot.below(len(spot.value))):
            varied = islice(_varied(one), most + 1)
            fitting = [other for other in varied if spot.parts.fits(node, other)]
            yield from (fitting, [one] * (most + 1))


def _with_more_items(spot: Spot) -> Values:
    return [_filled(spot, int(most) + 1) for most in spot.rules("maxItems") if most < MAX_SIZE]


def _with_extra_item(spot: Spot) -> Members:
    return [
        (len(rule), [*_filled(spot, len(rule))[: len(rule)], CANARY])
        for rule in spot.rules("prefixItems")
    ]


# Alternatives, exclusions and conditions
_one_of = partial(at_place, "one_of")
_enum = partial(at_place, "enum")
_conditional = partial(without_required, conditional=True)

no_branch: Entry = at_place(
    "any_of", "A value fits none of the schema's alternatives.", _strangers, "anyOf"
)
no_single_branch: Entry = _one_of(
    "A value must fit exactly one alternative, but fits none.", _outside_all
)
several_branches: Entry = _one_of(
    "A value must fit exactly one alternative, but fits several.", _in_several
)
unknown_discriminator: Entry = _enum(
    "The discriminator of the alternatives has an unknown value.",
    lambda spot: [CANARY for tag in spot.rules("const") if isinstance(tag, str)],
)
discriminator_of_another: Entry = at_member(
    "extra_key",
    "The discriminator names an alternative that the value does not fit.",
    _tag_of_another,
    "object",
)
excluded_value: Entry = at_place("not", "A value is excluded by the schema.", _excluded)
broken_condition: Entry = at_member(
    "required", "A key that a condition of the schema requires is missing.", _conditional
)

# Listed values
not_in_enum: Entry = _enum("A value is not one of the allowed values.", _unlisted, "enum")
enum_in_other_case: Entry = _spelled(
    "An allowed string is in another case.", str.upper, str.lower, str.title
)
enum_with_space: Entry = _spelled("An allowed string has a space at its end.", "{} ".format)
enum_in_quotes: Entry = _spelled("An allowed string has extra quotation marks.", '"{}"'.format)
enum_alternatives: Entry = _enum(
    "Several allowed strings are joined with a bar.",
    lambda spot: ["|".join(_listed_texts(spot))],
    lambda spot: len(_listed_texts(spot)) > 1,
)
enum_as_text: Entry = _enum(
    "An allowed value that is not a string is written as a string.", _as_text
)
wrong_const: Entry = at_place(
    "const", "A value differs from the only allowed value.", _other_constant
)

# Bounds of numbers and strings
_pattern = partial(at_place, "pattern")
_MISMATCHES = [CANARY, CANARY.upper(), f"({CANARY})", "\u2026", ""]
_AROUND = [f"$value ({CANARY})", f"({CANARY}) $value", f"({CANARY}) $value ({CANARY})"]

below_minimum: Entry = at_place(
    "minimum", "A number is less than the minimum.", partial(_beyond, "minimum", -1)
)
above_maximum: Entry = at_place(
    "maximum", "A number is greater than the maximum.", partial(_beyond, "maximum", 1)
)
at_exclusive_minimum: Entry = at_place(
    "exclusive_minimum",
    "A number equals an exclusive minimum.",
    lambda spot: spot.rules("exclusiveMinimum"),
)
at_exclusive_maximum: Entry = at_place(
    "exclusive_maximum",
    "A number equals an exclusive maximum.",
    lambda spot: spot.rules("exclusiveMaximum"),
)
not_a_multiple: Entry = at_place(
    "multiple_of", "A number is not a multiple of the step.", _off_step, "integer number"
)
too_short: Entry = at_place(
    "min_length", "A string is one character too short.", partial(_shorter, "minLength")
)
empty_string: Entry = at_place("min_length", "A string that must not be empty is empty.", [""])
too_long: Entry = at_place("max_length", "A string is one character too long.", _longer)
pattern_mismatch: Entry = _pattern("A string does not match the pattern.", _MISMATCHES)
trailing_newline: Entry = _pattern(
    "A string matches the pattern, but ends with a line break; Python's ``$`` allows it.",
    ["$value\n"],
)
text_around_match: Entry = _pattern(
    "A string contains a match of the pattern, and other text around it.", _AROUND
)

# Formats
_ODD_TEXTS = [CANARY, f"{CANARY} %", f"~{CANARY}", f"({CANARY}", f"{{{CANARY}"]
_SPACED: Mapping[str, Callable[[str], str]] = dict.fromkeys(
    ("uri", "uri_reference", "iri", "iri_reference"), f"{{}} {CANARY}".format
)

bad_format: Entry = at_place("format", "A string does not have the format at all.", _ODD_TEXTS)
date_in_other_order: Entry = _format("A date is written day first.", date=day_first)
date_in_words: Entry = _format("A date is written with the name of its month.", date=day_in_words)
impossible_date: Entry = _format(
    "A date has the right form, but the day does not exist in its month.",
    date=on_no_day,
    date_time=on_no_day,
)
time_for_date: Entry = _format("A date has a time of day.", date="{}T00:00:00Z".format)
date_for_time: Entry = _format("A point in time has no time of day.", date_time=day_alone)
time_without_offset: Entry = _format(
    "A time has no UTC offset.", date_time=without_offset, time=without_offset
)
time_without_seconds: Entry = _format(
    "A time has no seconds.", date_time=without_seconds, time=without_seconds
)
time_of_twelve_hours: Entry = _format(
    "A time has am or pm.", date_time=at_twelve_hours, time=at_twelve_hours
)
duration_in_words: Entry = _format("A duration is written in words.", duration=units_in_words)
duration_as_clock: Entry = _format(
    "A duration is written as hours:minutes:seconds.", duration=units_as_clock
)
email_with_name: Entry = _format("An email address has a name before it.", email="Ann <{}>".format)
email_in_brackets: Entry = _format("An email address is in angle brackets.", email="<{}>".format)
email_without_domain: Entry = _format(
    "An email address ends at its @.", email=lambda text: f"{text.rpartition('@')[0]}@"
)
uuid_without_hyphens: Entry = _format(
    "A UUID has no hyphens.", uuid=lambda text: text.replace("-", "")
)
uuid_in_braces: Entry = _format("A UUID is in braces.", uuid="{{{}}}".format)
uuid_too_short: Entry = _format("A UUID has one digit too few.", uuid=lambda text: text[:-1])
uri_without_scheme: Entry = _format(
    "A URI begins at its host, without a scheme.", uri=without_scheme, iri=without_scheme
)
uri_with_space: Entry = _format("A URI or a URI reference contains a space.", **_SPACED)
uri_in_markdown: Entry = _format(
    "A URI is written as a Markdown link.", uri=f"[{CANARY}]({{}})".format
)
host_with_scheme: Entry = _format("A host name is written as a URI.", hostname="https://{}/".format)
ipv4_out_of_range: Entry = _format(
    "A part of an IPv4 address is greater than 255.",
    ipv4=lambda text: f"{text.rpartition('.')[0]}.256",
)
ipv4_with_port: Entry = _format("An IPv4 address has a port.", ipv4="{}:8080".format)
ipv6_for_ipv4: Entry = _format(
    "An IPv6 address is given instead of an IPv4 address.", ipv4=mapped_to_ipv6
)
ipv4_for_ipv6: Entry = _format(
    "An IPv4 address is given instead of an IPv6 address.", ipv6=last_of_ipv6
)
pointer_without_slash: Entry = _format(
    "A JSON Pointer does not begin with a slash.", json_pointer=without_slash
)

# Items
_unique = partial(at_place, "unique_items")
_contains = partial(at_place, "contains")

too_few_items: Entry = at_place(
    "min_items", "An array has too few items.", partial(_shorter, "minItems")
)
empty_array: Entry = at_place("min_items", "An array that must not be empty is empty.", [[]])
too_many_items: Entry = at_place("max_items", "An array has too many items.", _with_more_items)
equal_items: Entry = _unique("Two items are equal, although all must differ.", _with_equal_items)
equal_items_spelled_apart: Entry = _unique(
    "Two items are equal numbers written differently: 1 and 1.0.", _with_items_spelled_apart
)
extra_item: Entry = at_member(
    "extra_items", "An array has an item after the last allowed one.", _with_extra_item, "array"
)
missing_contains: Entry = _contains(
    "An array has too few items that match `contains`.", _without_contained
)
too_many_contained: Entry = _contains(
    "An array has too many items that match `contains`.", _with_many_contained
)
