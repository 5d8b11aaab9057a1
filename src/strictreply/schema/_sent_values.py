"""Maps the values of a schema that is sent in another form, in both directions.

A branch of a choice is found by judging the value. A value of an invalid or incomplete reply may
fit no branch; then it is mapped as the one branch that it resembles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final, Literal, TypeAlias

from strictreply.schema._documents import DOCUMENT_URI
from strictreply.schema._engines import SchemaEngine, engine_for
from strictreply.schema._vocabulary import as_list
from strictreply.values._limits import JSON, JSONObject, Spent, Work

VALUE: Final = "value"
"""The member that contains an answer if the answer is not an object."""

Map: TypeAlias = Callable[[JSON], JSON]
"""Returns a value in the other form."""

Way: TypeAlias = Literal["forth", "back"]
"""Whether declared values are mapped to sent ones, or sent ones to declared ones."""


@dataclass(slots=True)
class SentNode:
    """What is known about one place: how it is sent, and how its values are mapped."""

    sent: JSONObject
    """The schema that is sent."""
    plain: JSONObject
    """The same rules for values in the declared form."""
    back: Map | None = None
    """Maps a sent value back; None if nothing changes."""
    forth: Map | None = None
    """Maps a declared value to the sent form; None if nothing changes."""
    members: Mapping[str, SentNode] | None = None
    """The members of an object; None if it is not an object."""
    removed: frozenset[str] = frozenset()
    """The members that are absent in the declared form if null was sent."""
    items: SentNode | None = None
    """The items of an array; None if it is not an array."""
    branches: tuple[SentNode, ...] = ()
    """The branches of a choice, or the target of a reference."""


class Judges:
    """Decides which branches of a document's choices a value fits."""

    def __init__(self, definitions: Mapping[str, SentNode], way: Way) -> None:
        self._definitions = definitions
        self._way = way
        self._branches: list[SentNode] = []
        self._engine: SchemaEngine | None = None
        self._parts: dict[int, SchemaEngine] = {}

    def add(self, branch: SentNode) -> int:
        """Return the number under which a branch is judged."""
        self._branches.append(branch)
        return len(self._branches) - 1

    def fits(self, number: int, value: JSON) -> bool:
        """Return whether a value fits a branch; False if it cannot be decided."""
        try:
            return self._part(number).is_valid(value, Work())
        except (Spent, ValueError, TypeError, OverflowError, RecursionError):
            return False

    def _part(self, number: int) -> SchemaEngine:
        """Return the engine that judges a branch; it is made on first use."""
        if self._engine is None:
            named = {**self._definitions, **{_of(at): one for at, one in enumerate(self._branches)}}
            document: JSONObject = {
                "$defs": {name: self._schema(node) for name, node in named.items()}
            }
            self._engine = engine_for(document, formats=self._way == "forth")
        if number not in self._parts:
            reference = f"{DOCUMENT_URI}#/$defs/{_of(number)}"
            self._parts[number] = self._engine.part({"$ref": reference})

        return self._parts[number]

    def _schema(self, node: SentNode) -> JSONObject:
        return node.plain if self._way == "forth" else node.sent


def _of(number: int) -> str:
    # no definition has such a name
    return f"branch:{number}"


class Chooser:
    """Maps a value as the first branch of a choice that it fits."""

    def __init__(self, judges: Judges, nodes: Iterable[SentNode], way: Way) -> None:
        self._judges = judges
        self._nodes = {judges.add(node): node for node in nodes}
        self._way = way

    def __call__(self, value: JSON) -> JSON:
        node = self._chosen(value)
        change: Map | None = None if node is None else getattr(node, self._way)
        return value if change is None else change(value)

    def _chosen(self, value: JSON) -> SentNode | None:
        for number, node in self._nodes.items():
            if self._judges.fits(number, value):
                return node

        alike = [node for node in self._nodes.values() if _is_alike(node, value)]
        return alike[0] if len(alike) == 1 else None


def _is_alike(node: SentNode, value: JSON) -> bool:
    """Return whether a value has no part that is impossible at a place."""
    if node.branches:
        return any(_is_alike(branch, value) for branch in node.branches)
    if isinstance(value, list):
        return node.items is not None
    if not isinstance(value, dict) or node.members is None:
        return False

    known = node.members
    return all(name in known and _is_listed(known[name], one) for name, one in value.items())


def _is_listed(node: SentNode, value: JSON) -> bool:
    listed = node.sent.get("enum")
    return not isinstance(listed, list) or value in listed


def agree(nodes: Iterable[SentNode]) -> bool:
    """Return whether each value that fits two branches of a choice maps back to the same value.

    False if it is not known.
    """
    met: set[tuple[int, int]] = set()
    return all(_agree(one, other, met) for one, other in combinations(nodes, 2))


def _agree(one: SentNode, other: SentNode, met: set[tuple[int, int]]) -> bool:
    is_met = (id(one), id(other)) in met
    if is_met or (one.back is None and other.back is None):
        return True

    met.add((id(one), id(other)))
    if one.branches:
        return all(_agree(branch, other, met) for branch in one.branches)
    if other.branches:
        return all(_agree(one, branch, met) for branch in other.branches)
    if (
        one.items is not None
        and other.items is not None
        and not _agree(one.items, other.items, met)
    ):
        return False

    return _agree_on_members(one, other, met)


def _agree_on_members(one: SentNode, other: SentNode, met: set[tuple[int, int]]) -> bool:
    # members are only removed if the sent object requires all of them: other members make another
    # object
    ones = one.members
    others = other.members
    if ones is None or others is None or ones.keys() != others.keys():
        return True
    if any(_are_apart(ones[name], others[name]) for name in ones):
        return True

    for name in one.removed ^ other.removed:
        kept = others[name] if name in one.removed else ones[name]
        if _takes_null(kept):
            return False

    return all(_agree(ones[name], others[name], met) for name in ones)


def _are_apart(one: SentNode, other: SentNode) -> bool:
    """Return whether no value fits two places, as far as types and listed values decide it."""
    if _takes_null(one) and _takes_null(other):
        return False
    if one.branches:
        return all(_are_apart(branch, other) for branch in one.branches)
    if other.branches:
        return all(_are_apart(one, branch) for branch in other.branches)

    listed = one.sent.get("enum")
    others = other.sent.get("enum")
    if isinstance(listed, list) and isinstance(others, list):
        return not any(value in others for value in listed)

    return _kinds(one).isdisjoint(_kinds(other))


def _kinds(node: SentNode) -> set[Any]:
    kinds = set(as_list(node.sent.get("type")))
    return {"number" if kind == "integer" else kind for kind in kinds}


def _takes_null(node: SentNode) -> bool:
    if {"type": "null"} in as_list(node.sent.get("anyOf", [])):
        return True
    if node.branches:
        return any(_takes_null(branch) for branch in node.branches)
    if "enum" in node.sent:
        return None in as_list(node.sent["enum"])

    return "null" in as_list(node.sent.get("type"))


def later(node: SentNode, way: Way) -> Map:
    """Return the map of a definition, which may not be known yet."""

    def mapped(value: JSON) -> JSON:
        change: Map | None = getattr(node, way)
        return value if change is None else change(value)

    return mapped


def of_either(members: Map | None, items: Map | None) -> Map | None:
    """Return the map of a value that may be an object or an array."""
    if members is None or items is None:
        return members or items

    return lambda value: items(value) if isinstance(value, list) else members(value)


def for_each(change: Map | None) -> Map | None:
    """Return the map of an array, made from the map of its items."""
    if change is None:
        return None

    def mapped(value: JSON) -> JSON:
        return [change(one) for one in value] if isinstance(value, list) else value

    return mapped


def members_back(nodes: Mapping[str, SentNode], removed: frozenset[str]) -> Map | None:
    """Return the map of an object from its sent form; None if nothing changes."""
    changes = {name: node.back for name, node in nodes.items() if node.back is not None}
    if not changes and not removed:
        return None

    def mapped(value: JSON) -> JSON:
        if not isinstance(value, dict):
            return value

        made: JSONObject = {}
        for name, member in value.items():
            if member is None and name in removed:
                continue
            change = changes.get(name)
            made[name] = member if change is None else change(member)

        return made

    return mapped


def members_forth(nodes: Mapping[str, SentNode], absent: list[str]) -> Map | None:
    """Return the map of an object from its declared form; None if nothing changes."""
    changes = {name: node.forth for name, node in nodes.items() if node.forth is not None}
    if not changes and not absent:
        return None

    left_out = frozenset(absent)

    def mapped(value: JSON) -> JSON:
        if not isinstance(value, dict):
            return value

        # in the order of the schema, because a grammar makes a model write them in this order
        made: JSONObject = {}
        for name in nodes:
            if name in value:
                change = changes.get(name)
                made[name] = value[name] if change is None else change(value[name])
            elif name in left_out:
                made[name] = None

        others = {name: member for name, member in value.items() if name not in made}
        return made | others

    return mapped


def wrapped(node: SentNode) -> SentNode:
    """Return an object whose one member is the value of a root that is not an object."""
    sent: JSONObject = {
        "type": "object",
        "properties": {VALUE: node.sent},
        "required": [VALUE],
        "additionalProperties": False,
    }
    back = node.back
    forth = node.forth

    def as_declared(value: JSON) -> JSON:
        if not isinstance(value, dict) or list(value) != [VALUE]:
            return value
        return value[VALUE] if back is None else back(value[VALUE])

    def as_sent(value: JSON) -> JSON:
        return {VALUE: value if forth is None else forth(value)}

    return SentNode(sent, node.plain, as_declared, as_sent)


def or_null(node: SentNode) -> SentNode:
    """Return a schema that also allows null."""
    sent = dict(node.sent)
    if "anyOf" in sent:
        held = as_list(sent["anyOf"])
        sent["anyOf"] = held if {"type": "null"} in held else [*held, {"type": "null"}]
    elif "type" not in sent:
        described = {name: sent.pop(name) for name in ("description",) if name in sent}
        sent = {"anyOf": [sent, {"type": "null"}], **described}
    else:
        sent["type"] = _with(as_list(sent["type"]), "null")
        if "enum" in sent:
            sent["enum"] = _with(as_list(sent["enum"]), None)

    return replace(node, sent=sent, back=_unless_null(node.back), forth=_unless_null(node.forth))


def _with(values: list[Any], value: JSON) -> list[Any]:
    return values if value in values else [*values, value]


def _unless_null(change: Map | None) -> Map | None:
    if change is None:
        return None
    return lambda value: None if value is None else change(value)
