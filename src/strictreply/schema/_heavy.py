"""Finds what made a value too complex to check: the most expensive place, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from strictreply.schema._counted import (
    COMPARED,
    COMPARING,
    FEW_REPEATS,
    digits_cost,
    division_units,
    pattern_units,
    states_of,
)
from strictreply.schema._documents import Graph, Node
from strictreply.schema._vocabulary import Applies
from strictreply.schema._work import entered, parts_of

MAX_PAIRS = 3_000  # pairs of a schema and a value that are examined; about 20 ms

SIZE = "it has too many values for so complex a schema; write fewer"
RULES = "its texts or numbers are too long for the rules of its schema; write shorter ones"
BUILT = "it has too many values; write fewer"
_ONE = {
    "pattern": "the text is too long for its pattern; write a shorter one",
    "names": "its keys are too long for the patterns of its schema; write shorter ones",
    "numbers": "the number has too many digits; write a shorter one",
    "uniqueItems": "it has too many items to compare with one another; write fewer",
}
_SEVERAL = {
    "pattern": "its texts are too long for their patterns; write fewer or shorter ones",
    "names": _ONE["names"],
    "numbers": "its numbers are too many, or have too many digits; write fewer or shorter ones",
    "uniqueItems": _ONE["uniqueItems"],
}


class _Cost(NamedTuple):
    """The cost of one keyword for one part of a value, in units of about 10 ns."""

    units: int
    what: str
    path: tuple[str | int, ...]


class Heaviest(NamedTuple):
    """The most expensive place in a value, with words for it."""

    path: tuple[str | int, ...]
    words: str


def heaviest(graph: Graph, value: object, otherwise: str) -> Heaviest:
    """Return the most expensive part of a value, apart from its size: one place, or many together.

    A large value is examined only in part; ``otherwise`` are the words if nothing was found.
    """
    totals: dict[str, int] = {}
    worst = _Cost(0, "", ())

    for cost in _costs(graph, value):
        totals[cost.what] = totals.get(cost.what, 0) + cost.units
        worst = max(worst, cost, key=lambda each: each.units)

    if not worst.units:
        return Heaviest((), otherwise)
    if 2 * worst.units >= sum(totals.values()):
        return Heaviest(worst.path, _ONE[worst.what])

    return Heaviest((), _SEVERAL[max(totals, key=lambda what: totals[what])])


def _costs(graph: Graph, value: object) -> Iterator[_Cost]:
    """Yield the costs of the keywords of each place, in order."""
    pending: list[tuple[Node, Any, tuple[str | int, ...]]] = []
    if graph.root is not None:
        pending.append((graph.root, value, ()))

    for _ in range(MAX_PAIRS):
        if not pending:
            break

        node, part, path = pending.pop()
        yield from _at(node, part, path)
        inner = [(edge.target, part, path) for edge in entered(node, part, built=False)]
        below = islice(parts_of(node, part), MAX_PAIRS)
        inner += [(target, each, (*path, token)) for target, each, token in below]
        pending += reversed(inner)


def _at(node: Node, part: object, path: tuple[str | int, ...]) -> Iterator[_Cost]:
    schema = node.schema
    pattern = schema.get("pattern")
    if isinstance(part, str) and isinstance(pattern, str):
        if len(part) <= schema.get("maxLength", math.inf) or states_of(pattern) <= FEW_REPEATS:
            yield _Cost(pattern_units(states_of(pattern), part), "pattern", path)
    elif isinstance(part, list) and schema.get("uniqueItems") is True:
        yield _Cost(COMPARED * len(part), "uniqueItems", path)
    elif isinstance(part, dict):
        patterns = [*schema.get("patternProperties", ())]
        patterns += [edge.target.schema.get("pattern", "") for edge in node.along(Applies.NAME)]
        states = sum(map(states_of, patterns))
        yield _Cost(states * sum(map(len, part)), "names", path)
    elif isinstance(part, int | float) and not isinstance(part, bool):
        divisor = schema.get("multipleOf")
        units = division_units(divisor, part) if isinstance(divisor, int | float) else 0
        compares = not COMPARING.isdisjoint(schema) or "enum" in schema or "const" in schema
        yield _Cost(units + (digits_cost(part) if compares else 0), "numbers", path)
