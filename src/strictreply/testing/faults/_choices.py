"""Faults against schemas that combine others: unions, exclusions and conditions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from strictreply.schema._graph import Node
from strictreply.schema._parts import resolved
from strictreply.testing._steps import CANARY
from strictreply.testing.faults._breaking import Members, Values, at_member, at_place
from strictreply.testing.faults._spots import Spot
from strictreply.values._json import JSON

_STRANGERS: tuple[JSON, ...] = (CANARY, {}, 7, 7.5, [], [CANARY], {CANARY: CANARY}, "", True, None, -7)


@at_place("args.any_of")
def no_branch(spot: Spot) -> Values:
    """A value fits none of the alternatives."""
    if spot.states("anyOf"):
        yield from _strangers(spot)


@at_place("args.one_of")
def no_single_branch(spot: Spot) -> Values:
    """A value fits none of the alternatives of which exactly one must fit."""
    nodes = list(spot.nodes("oneOf"))
    for value in _strangers(spot) if nodes else ():
        if not any(spot.parts.fits(node, value) for node in nodes):
            yield value


@at_place("args.one_of")
def several_branches(spot: Spot) -> Values:
    """A value fits several alternatives of which exactly one must fit."""
    for one, other in combinations(spot.nodes("oneOf"), 2):
        yield from (value for value in _shared(spot, one, other) if spot.parts.fits(one, value))


@at_place("args.enum")
def unknown_discriminator(spot: Spot) -> Values:
    """The key that tells alternatives apart has a value that none of them has."""
    if any(isinstance(value, str) for value in spot.rules("const")):
        yield CANARY


@at_member("args.extra_key")
def discriminator_of_another(spot: Spot) -> Members:
    """The key that tells alternatives apart names one of them, and the other keys belong to another."""
    for node in (*spot.nodes("anyOf"), *spot.nodes("oneOf")) if spot.kind == "object" else ():
        for name, tag in _tags(node):
            if name in spot.value and spot.value[name] != tag:
                yield name, {**spot.value, name: tag}


@at_place("args.not")
def excluded_value(spot: Spot) -> Values:
    """A value is one that the schema excludes."""
    for node in spot.nodes("not"):
        for made in (*spot.parts.examples(node), *spot.examples(node)):
            yield {**spot.value, **made} if isinstance(made, dict) and spot.kind == "object" else made


@at_member("args.required")
def broken_condition(spot: Spot) -> Members:
    """A key is missing that the schema requires because of what the other keys say."""
    for name in spot.listed("required", conditional=True) if spot.kind == "object" else ():
        if name in spot.value:
            yield name, {key: value for key, value in spot.value.items() if key != name}


def _strangers(spot: Spot) -> Iterator[JSON]:
    """Give values that may fit none of the alternatives."""
    if spot.kind == "object":
        yield from ({key: one for key, one in spot.value.items() if key != name} for name in spot.value)
    yield from _STRANGERS


def _shared(spot: Spot, one: Node, other: Node) -> Iterator[JSON]:
    """Give values that may fit two alternatives: examples of either, of both, and where their bounds meet."""
    examples, others = spot.parts.examples(one), spot.parts.examples(other)
    yield from (*spot.parts.examples(one, other), *examples, *others)
    bounds = [node.schema[name] for node in (one, other) for name in ("minimum", "maximum") if name in node.schema]
    yield from (*bounds, one.schema.get("multipleOf", 1) * other.schema.get("multipleOf", 1))
    pairs = ((first, second) for first in examples for second in others)
    yield from ({**first, **second} for first, second in pairs if isinstance(first, dict) and isinstance(second, dict))


def _tags(node: Node) -> Iterator[tuple[str, JSON]]:
    """Give the members of an alternative that have but one value."""
    for name, schema in resolved(node).schema.get("properties", {}).items():
        if isinstance(schema, dict) and "const" in schema:
            yield name, schema["const"]
