"""How much work one value causes against a schema whose unions recur: counted before the engine is run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from strictreply.schema._bounds import TRIED_TWICE, UNEVALUATED
from strictreply.schema._graph import Graph, Node
from strictreply.schema._vocabulary import Applies

MAX_STEPS = 300_000
"""Judgements of one value by one schema that one check may make."""

MAX_COUNTED = 50_000
"""Pairs of a schema and a value that are counted before giving up."""

_TREE = (dict, list)


def size_of(value: object, most: int) -> int:
    """Count the values in a value, as far as ``most``."""
    pending, size = [value], 0
    while pending and size < most:
        part = pending.pop()
        size += 1
        if isinstance(part, dict | list):
            if len(part) >= most:
                return most
            pending.extend(part.values() if isinstance(part, dict) else part)
    return min(size, most)


def containers_in(value: object, most: int) -> int:
    """Count the objects and arrays in a value, as far as ``most``."""
    pending, count = [value], 0
    while pending and count < most:
        part = pending.pop()
        if isinstance(part, dict | list):
            count += 1
            pending.extend(
                each for each in (part.values() if isinstance(part, dict) else part) if each.__class__ in _TREE
            )
    return count


def judgements_of(graph: Graph, value: object, *, built: bool = False) -> int:
    """Count the judgements that checking ``value`` may take, without checking; more than 300 000 for too many.

    ``built`` counts what pydantic takes to make a typed value: objects and arrays alone, and of a union with a
    discriminator the one branch that it names.
    """
    if graph.root is None:
        return 0
    try:
        return _Count(built=built).of(graph.root, value, watched=False)
    except (_TooMuch, RecursionError):
        return MAX_STEPS + 1


def too_much_work(graph: Graph, value: object) -> bool:
    """Whether checking ``value`` may take more than 300 000 judgements; an upper bound, found without checking."""
    return judgements_of(graph, value) > MAX_STEPS


class _TooMuch(Exception):  # a way out of the recursion
    """The count itself became too long."""


class _Count:
    """One count, remembering each pair of schema and value."""

    __slots__ = ("_built", "_known")

    def __init__(self, *, built: bool = False) -> None:
        """Know nothing."""
        self._built = built
        self._known: dict[tuple[int, int, bool], int] = {}

    def of(self, node: Node, value: object, *, watched: bool) -> int:
        """Count the judgements of ``value`` by ``node`` and all it leads to."""
        if self._built and value.__class__ not in _TREE:
            return 0
        watched = watched or not UNEVALUATED.isdisjoint(node.schema)
        key = (id(node), id(value), watched)
        known = self._known.get(key)
        if known is None:
            if len(self._known) > MAX_COUNTED:
                raise _TooMuch
            known = 1 + self._here(node, value, watched=watched)
            known += sum(self.of(target, part, watched=False) for target, part in _parts(node, value))
            if known > MAX_STEPS:
                raise _TooMuch
            self._known[key] = known
        return known

    def _here(self, node: Node, value: object, *, watched: bool) -> int:
        """Count what judges the same value; a branch whose tag or type says otherwise is not entered."""
        total = 0
        tested = node.schema.get("if")
        named = _named_branch(node, value) if self._built else None
        for edge in node.along(Applies.HERE):
            if edge.keyword == "then" and isinstance(tested, dict) and _plainly_fails(tested, value):
                continue
            if named is not None and edge.keyword == "oneOf" and edge.target.schema.get("$ref") != named:
                continue
            steps = self.of(edge.target, value, watched=watched)
            total += steps * 2 if watched and edge.keyword in TRIED_TWICE else steps
        return total


def _parts(node: Node, value: object) -> Iterator[tuple[Node, object]]:
    """Give the members or items of ``value`` with the schemas that may judge them."""
    if isinstance(value, dict):
        for edge in node.along(Applies.MEMBER):
            if edge.keyword == "properties":
                if edge.token in value:
                    yield edge.target, value[edge.token]
            else:
                named = node.schema.get("properties", {}) if edge.keyword == "additionalProperties" else {}
                yield from ((edge.target, part) for name, part in value.items() if name not in named)
    elif isinstance(value, list):
        for edge in node.along(Applies.ITEM):
            index = edge.token if edge.keyword == "prefixItems" else None
            parts = value[index : index + 1] if isinstance(index, int) else value
            yield from ((edge.target, part) for part in parts)


def _named_branch(node: Node, value: object) -> object:
    """Return the reference of the branch that a discriminator, as OpenAPI and pydantic spell it, names for a value."""
    discriminator = node.schema.get("discriminator")
    if not isinstance(discriminator, dict) or not isinstance(value, dict):
        return None
    tag, mapping = discriminator.get("propertyName"), discriminator.get("mapping")
    name = value.get(tag) if isinstance(tag, str) else None
    return mapping.get(name) if isinstance(mapping, dict) and isinstance(name, str) else None


def _plainly_fails(test: dict[str, Any], value: object) -> bool:
    """Whether a condition on a type or on a tag fails; False when it cannot be told without checking."""
    if test.get("type") == "object" and not isinstance(value, dict):
        return True
    required, members = test.get("required"), test.get("properties")
    if test.get("type") != "object" or not isinstance(required, list) or not isinstance(members, dict):
        return False
    tag = required[0] if len(required) == 1 else None
    allowed = members[tag].get("enum") if isinstance(members.get(tag), dict) else None
    return isinstance(allowed, list) and isinstance(value, dict) and value.get(tag) not in allowed
