"""Faults of a scalar that is of the right type: not a value that is listed, out of bounds, or of the wrong form."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from strictreply.testing._steps import CANARY
from strictreply.testing.faults._breaking import MAX_SIZE, Values, at_place
from strictreply.testing.faults._spots import Spot


@at_place("args.enum")
def not_in_enum(spot: Spot) -> Values:
    """A value is none of those that are allowed."""
    numbers = [value for value in spot.listed("enum") if isinstance(value, int | float)]
    if numbers and len(numbers) == len([*spot.listed("enum")]):
        yield max(numbers) + 1
    elif spot.states("enum"):
        yield CANARY


@at_place("args.enum")
def enum_in_other_case(spot: Spot) -> Values:
    """An allowed string is written in another case."""
    for text in _texts(spot):
        yield from (other for other in (text.upper(), text.lower(), text.title()) if other != text)


@at_place("args.enum")
def enum_with_space(spot: Spot) -> Values:
    """An allowed string has a space at its end."""
    yield from (f"{text} " for text in _texts(spot))


@at_place("args.enum")
def enum_in_quotes(spot: Spot) -> Values:
    """An allowed string has quotation marks of its own."""
    yield from (f'"{text}"' for text in _texts(spot))


@at_place("args.enum")
def enum_alternatives(spot: Spot) -> Values:
    """Several allowed strings are given at once, joined by a bar."""
    texts = list(_texts(spot))
    if len(texts) > 1:
        yield "|".join(texts)


@at_place("args.enum")
def enum_as_text(spot: Spot) -> Values:
    """An allowed value that is no string is written as one."""
    yield from (json.dumps(value) for value in spot.listed("enum") if not isinstance(value, str))


@at_place("args.const")
def wrong_const(spot: Spot) -> Values:
    """A value is not the only one that is allowed."""
    for value in spot.rules("const"):
        yield from (value + 1,) if isinstance(value, int | float) else ()
        yield CANARY


@at_place("args.minimum")
def below_minimum(spot: Spot) -> Values:
    """A number is less than the minimum."""
    for least in spot.rules("minimum"):
        yield from _beyond(spot, least, -1)


@at_place("args.maximum")
def above_maximum(spot: Spot) -> Values:
    """A number is greater than the maximum."""
    for most in spot.rules("maximum"):
        yield from _beyond(spot, most, 1)


@at_place("args.exclusive_minimum")
def at_exclusive_minimum(spot: Spot) -> Values:
    """A number is equal to a minimum that it must exceed."""
    yield from spot.rules("exclusiveMinimum")


@at_place("args.exclusive_maximum")
def at_exclusive_maximum(spot: Spot) -> Values:
    """A number is equal to a maximum that it must stay below."""
    yield from spot.rules("exclusiveMaximum")


@at_place("args.multiple_of")
def not_a_multiple(spot: Spot) -> Values:
    """A number is not a multiple of the step."""
    for step in spot.rules("multipleOf"):
        if spot.kind in ("integer", "number"):
            yield from (spot.value + 1, spot.value - 1, spot.value + step / 2, spot.value - step / 2, step / 2)


@at_place("args.min_length")
def too_short(spot: Spot) -> Values:
    """A string is one character too short."""
    if spot.kind == "string":
        yield from (spot.value[: int(least) - 1] for least in spot.rules("minLength") if least)


@at_place("args.min_length")
def empty_string(spot: Spot) -> Values:
    """A string is empty that must not be."""
    if spot.states("minLength"):
        yield ""


@at_place("args.max_length")
def too_long(spot: Spot) -> Values:
    """A string is one character too long."""
    for most in (int(rule) for rule in spot.rules("maxLength") if rule < MAX_SIZE and spot.kind == "string"):
        for filling in (CANARY, spot.value[-1:]):
            yield (spot.value + filling * (most + 1))[: most + 1]


@at_place("args.pattern")
def pattern_mismatch(spot: Spot) -> Values:
    """A string does not match the pattern."""
    if spot.states("pattern"):
        yield from (CANARY, CANARY.upper(), f"({CANARY})", "\u2026", "")


@at_place("args.pattern")
def trailing_newline(spot: Spot) -> Values:
    """A string that would match the pattern ends in a line break, which Python's ``$`` forgives."""
    if spot.kind == "string":
        yield f"{spot.value}\n"


@at_place("args.pattern")
def text_around_match(spot: Spot) -> Values:
    """A string holds what matches the pattern, and more."""
    if spot.kind == "string":
        yield from (f"{spot.value} ({CANARY})", f"({CANARY}) {spot.value}", f"({CANARY}) {spot.value} ({CANARY})")


def _texts(spot: Spot) -> Iterator[str]:
    """Give the allowed strings, that of the good value first."""
    texts = [text for text in spot.listed("enum") if isinstance(text, str)]
    yield from sorted(texts, key=lambda text: text != spot.value)


def _beyond(spot: Spot, bound: float, sign: int) -> Iterator[Any]:
    """Give numbers past a bound: by one, by a step, or by as little as a great one can be passed."""
    steps = [step for step in spot.rules("multipleOf") if isinstance(step, int | float)]
    yield from (bound + sign * step for step in (1, *steps))
    yield from (bound + sign * (-bound * sign % step) + sign * step for step in steps)
    yield math.nextafter(bound, sign * math.inf)
