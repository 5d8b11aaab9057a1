"""What schemas that one value must all fit say of it together: types, bounds, sizes and names; no part is entered."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from strictreply.schema._engines import engine_for
from strictreply.schema._graph import Node
from strictreply.schema._vocabulary import TYPES, Applies, json_type
from strictreply.schema._words import types_words, word
from strictreply.values._issues import pointer

ALL = frozenset({*TYPES, "fraction"}) - {"number"}
"""The kinds of values: the types, with numbers split into integers and fractions."""

NUMBERS = frozenset({"integer", "fraction"})
CERTAIN = ("$ref", "allOf")
UNIONS = ("anyOf", "oneOf")
_UNIONS = frozenset(UNIONS)
SIZES = (
    ("string", "minLength", "maxLength", "characters"),
    ("array", "minItems", "maxItems", "items"),
    ("object", "minProperties", "maxProperties", "keys"),
)
FLAT = frozenset({"type", "enum", "const", "pattern", "multipleOf", "required", "uniqueItems"}).union(
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), *(sizes[1:3] for sizes in SIZES)
)
"""The keywords that judge a value without another schema."""


class Conflict(NamedTuple):
    """Kinds of values that cannot be at a place, why, and the schema that is the deeper cause, if one is.

    ``kinds`` is empty when other values of the same kinds can be there. ``meant`` is what nobody need be told.
    """

    kinds: frozenset[str]
    place: str
    words: str
    cause: Node | None = None
    meant: bool = False


def conjoined_with(nodes: list[Node]) -> list[Node]:
    """Give schemas and all that every value which fits them must fit as well."""
    members = {id(node): node for node in nodes}
    pending = list(members.values())
    for node in pending:  # grows while it is walked
        for edge in node.edges:
            known = id(edge.target) in members or edge.target.pointer is None
            if edge.keyword in CERTAIN and not known:
                members[id(edge.target)] = edge.target
                pending.append(edge.target)
    return pending


def chooses(node: Node) -> bool:
    """Whether the kinds of a schema depend on which forms of a union are possible."""
    return any(not _UNIONS.isdisjoint(each.schema) for each in conjoined_with([node]))


def around(node: Node) -> list[Node]:
    """Give a schema and all that may judge the same value with it."""
    members = {id(node): node}
    pending = [node]
    for each in pending:  # grows while it is walked
        for edge in each.along(Applies.HERE):
            if id(edge.target) not in members:
                members[id(edge.target)] = edge.target
                pending.append(edge.target)
    return pending


def speaks_of(node: Node, name: str, *, own: bool) -> bool:
    """Whether a schema evaluates a member; ``own`` asks for what its ``additionalProperties`` leaves alone."""
    schema = node.schema
    others = any(
        schema.get(keyword, False) is not False for keyword in ("additionalProperties", "unevaluatedProperties")
    )
    return (
        node.pointer is None or name in schema.get("properties", ()) or _matched(schema, name) or (others and not own)
    )


def _matched(schema: dict[str, Any], name: str) -> bool:
    """Whether a pattern of ``patternProperties`` takes a name."""
    patterns = schema.get("patternProperties", ())
    return any(engine_for({"pattern": pattern}, formats=False).is_valid(name) for pattern in patterns)


def by_type(conjoined: list[Node], kinds: frozenset[str]) -> Iterator[Conflict]:
    """Intersect the types."""
    for node in conjoined:
        schema, left = node.schema, kinds
        if "type" in schema:
            kinds &= _kinds(schema["type"])
            listed = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            words = (
                "" if kinds else f"it must be {types_words(listed)}, but what else holds for it asks for another type"
            )
            yield Conflict(left - kinds, place_of(node, "type") if words else "", words, meant=bool(kinds))
        excluded = schema.get("not")
        if isinstance(excluded, dict) and excluded.keys() == {"type"}:
            out = _kinds(excluded["type"])
            kinds -= out
            yield Conflict(out, place_of(node, "not"), "it excludes every type that is left", meant=bool(kinds))
        if excluded is True or excluded == {}:
            yield Conflict(ALL, place_of(node, "not"), "it excludes every value", meant=True)
        if any(each is False for each in schema.get("allOf", ())):
            yield Conflict(ALL, place_of(node, "allOf"), "it admits no value", meant=True)


def by_bounds(conjoined: list[Node], kinds: frozenset[str]) -> Iterator[Conflict]:
    """Compare the bounds of numbers."""
    lows = [(node.schema[key], key == "exclusiveMinimum", node, key) for node, key in _having(conjoined, "inimum")]
    highs = [(node.schema[key], key == "exclusiveMaximum", node, key) for node, key in _having(conjoined, "aximum")]
    if not lows or not highs or not kinds & NUMBERS:
        return
    low, above, _, floor = max(lows, key=lambda each: each[:2])
    high, below, node, ceiling = min(highs, key=lambda each: (each[0], not each[1]))
    words = f"no number keeps {floor} {word(low)} and {ceiling} {word(high)}"
    if low > high or (low == high and (above or below)):
        yield Conflict(NUMBERS, place_of(node, ceiling), words)
    first = math.floor(low) + 1 if above else math.ceil(low)
    last = math.ceil(high) - 1 if below else math.floor(high)
    if first > last:
        words = words.replace("number", "integer")
        yield Conflict(frozenset({"integer"}), place_of(node, ceiling), words, meant="fraction" in kinds)


def by_size(conjoined: list[Node], kinds: frozenset[str]) -> Iterator[Conflict]:
    """Compare the bounds of lengths and counts."""
    for kind, least, most, things in SIZES:
        lows = [node.schema[least] for node in conjoined if least in node.schema and kind in kinds]
        highs = [(node.schema[most], id(node), node) for node in conjoined if most in node.schema]
        if lows and highs and max(lows) > min(highs)[0]:
            words = f"nothing has at least {max(lows)} and at most {min(highs)[0]} {things}"
            yield conflict_at(kind, min(highs)[2], most, words)


def _having(conjoined: list[Node], ending: str) -> list[tuple[Node, str]]:
    """Find the bounds of numbers on one side."""
    keys = (f"m{ending}", f"exclusiveM{ending}")
    return [(node, key) for node in conjoined for key in keys if key in node.schema]


def rests(conjoined: list[Node]) -> Iterator[tuple[Node, str, Any]]:
    """Give the schemas that every item is held to."""
    for node in conjoined:
        if "prefixItems" not in node.schema and isinstance(node.schema.get("items"), dict):
            yield node, "items", node.schema["items"]


def items_at(conjoined: list[Node], index: int) -> Iterator[tuple[Node, str, Any]]:
    """Give the schemas that the item at an index is held to."""
    for node in conjoined:
        listed, rest = "prefixItems", "items"
        if isinstance(node.schema.get("items"), list):
            listed, rest = "items", "additionalItems"
        first = node.schema.get(listed, ())
        if index < len(first):
            yield node, listed, first[index]
        elif rest in node.schema:
            yield node, rest, node.schema[rest]


def required_names(conjoined: list[Node]) -> dict[str, Node]:
    """Name the members that an object must have, each with the schema that says so."""
    required: dict[str, Node] = {}
    for node in conjoined:
        required |= dict.fromkeys(node.schema.get("required", ()), node) | required
    for node in conjoined:
        for name, needed in node.schema.get("dependentRequired", {}).items():
            if name in required:
                required |= dict.fromkeys(needed, node) | required
    return required


def _kinds(types: Any) -> frozenset[str]:
    """Name the kinds of values of one or several types."""
    named = frozenset(types if isinstance(types, list) else [types])
    return named - {"number"} | (NUMBERS if "number" in named else frozenset())


def kind_of(value: Any) -> str:
    """Name the kind of a value."""
    named = json_type(value)
    return "fraction" if named == "number" else named


def place_of(node: Node, *tokens: str) -> str:
    """Point to a place below a schema."""
    return pointer(node.pointer or "", *tokens)


def conflict_at(kind: str, node: Node, keyword: str, words: str, *tokens: str) -> Conflict:
    """Say that a keyword leaves no value of one kind."""
    return Conflict(frozenset({kind}), place_of(node, keyword, *tokens), words)
