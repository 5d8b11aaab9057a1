"""Faults of an array's items as a whole: too few, too many, equal ones, or none of the kind there must be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

from strictreply.testing._steps import CANARY
from strictreply.testing.faults._breaking import MAX_SIZE, Members, Values, at_member, at_place
from strictreply.testing.faults._spots import Spot
from strictreply.values._json import JSON


@at_place("args.min_items")
def too_few_items(spot: Spot) -> Values:
    """An array has fewer items than it must have."""
    if spot.kind == "array":
        yield from (spot.value[: int(least) - 1] for least in spot.rules("minItems") if least)


@at_place("args.min_items")
def empty_array(spot: Spot) -> Values:
    """An array is empty that must not be."""
    if spot.kind == "array":
        yield []


@at_place("args.max_items")
def too_many_items(spot: Spot) -> Values:
    """An array has more items than it may have."""
    if spot.kind == "array":
        yield from (_filled(spot, int(most) + 1) for most in spot.rules("maxItems") if most < MAX_SIZE)


@at_place("args.unique_items")
def equal_items(spot: Spot) -> Values:
    """Two items are equal that must all differ."""
    if spot.kind == "array":
        first = _filled(spot, 1)[0]
        yield from ([first, *spot.value], [first, first], [*spot.value[:-1], first])


@at_place("args.unique_items")
def equal_items_spelled_apart(spot: Spot) -> Values:
    """Two items are equal that look different: 1 and 1.0, or objects whose keys stand in another order."""
    for item in (*spot.value[:1], *_filled(spot, 1)) if spot.kind == "array" else ():
        if isinstance(item, int) and not isinstance(item, bool):
            yield [item, float(item)]
        elif isinstance(item, dict) and len(item) > 1:
            yield [item, dict(reversed(item.items()))]


@at_member("args.extra_items")
def extra_item(spot: Spot) -> Members:
    """An item stands behind the last one that an array may have."""
    for rule in spot.rules("prefixItems") if spot.kind == "array" else ():
        items = _filled(spot, len(rule))
        yield len(items), [*items, CANARY]


@at_place("args.contains")
def missing_contains(spot: Spot) -> Values:
    """An array holds too few items of a kind of which there must be some."""
    for node in spot.nodes("contains") if spot.kind == "array" else ():
        kept: list[JSON] = [item for item in spot.value if not spot.parts.fits(node, item)]
        others: list[JSON] = [*spot.examples_below(len(spot.value)), CANARY, 7, None]
        fewer = len(spot.value) - len(kept)
        yield from ([*kept, *[other] * fewer] for other in others if not spot.parts.fits(node, other))
        yield kept


@at_place("args.contains")
def too_many_contained(spot: Spot) -> Values:
    """An array holds too many items of a kind of which there may be only some."""
    for node in spot.nodes("contains") if spot.states("maxContains") and spot.kind == "array" else ():
        most = max(int(rule) for rule in spot.rules("maxContains"))
        for one in spot.parts.examples(node, *spot.below(len(spot.value))) if most < MAX_SIZE else ():
            fitting = [other for other in islice(_varied(one), most + 1) if spot.parts.fits(node, other)]
            yield from (fitting, [one] * (most + 1))


def _filled(spot: Spot, size: int) -> list[JSON]:
    """Give the good array with as many items; those added differ where that is easy."""
    items: list[JSON] = list(spot.value)
    for index in range(len(items), size):
        example = (*spot.examples_below(index), CANARY)[0]
        items.append(next((one for one in islice(_varied(example), size + 1) if one not in items), example))
    return items


def _varied(item: JSON) -> Iterator[JSON]:
    """Vary a text or a number."""
    yield item
    for number in count(1):
        if isinstance(item, str):
            yield f"{item}{number}"
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield item + number
        else:
            return
