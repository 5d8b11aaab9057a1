"""A schema followed along a value that is still being written: which ways of fitting it are still open.

At every value stand the sets of sub-schemas that could govern it, one for each combination of the choices around it
(``anyOf``, ``oneOf``). What comes strikes out the sets that it cannot fit; when none is left, nothing that may follow
can make the value fit. A finished value is held to each of them by the compiled engine. What is not decided here
(``not``, ``if``, ``patternProperties``, ``unevaluatedItems``, …) waits for the end of its value, or for the judge: it
never strikes out anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, product
from math import prod
from typing import Any

from strictreply.schema._documents import Graph, Node, joined
from strictreply.schema._engines import SchemaEngine, SchemaParts
from strictreply.schema._vocabulary import Applies, json_type
from strictreply.schema._work import size_of
from strictreply.values._json import JSON
from strictreply.values._limits import Work

MAX_WAYS = 64
"""How many ways of fitting are followed at one value; beyond that it is left to the judge."""

SMALL = 64
"""The size of a finished object or array, in values, up to which it is held to its schema when it ends."""

KINDS = frozenset({"object", "array", "string", "number", "boolean", "null"})

_CHOICES = ("anyOf", "oneOf")
_FOLLOWED = ("$ref", "allOf")
_FREE = ("patternProperties", "additionalProperties", "$dynamicRef", "$recursiveRef")

Way = tuple[Node, ...]
Texts = tuple[frozenset[str] | None, int | None]


class LiveSchema:
    """What is known of the parts of one schema; made once, and asked by every :class:`LiveValue`."""

    def __init__(self, graph: Graph, engine: SchemaEngine) -> None:
        self.graph = graph
        self._parts = SchemaParts(graph, engine)
        self._ways: dict[int, list[Way] | None] = {}
        self._kinds: dict[int, frozenset[str]] = {}
        self._texts: dict[int, Texts] = {}
        self._described: dict[int, frozenset[str] | None] = {}

    def _said(self, node: Node) -> dict[str, Any]:
        """Return the keywords of a schema that count."""
        spoken = self._parts.spoken(node.schema)
        return node.schema if spoken is node.schema else {name: node.schema[name] for name in spoken}

    def fits(self, node: Node, value: JSON) -> bool:
        """Return whether a finished value fits a sub-schema."""
        schema = self._parts.refer(node.schema)
        if isinstance(schema, bool):
            return schema
        try:
            return self._parts.engine(("live", id(node)), schema, Work()).is_valid(value)
        except (ValueError, TypeError, OverflowError, RecursionError):  # beyond the engine: left to the judge
            return True

    def ways(self, node: Node) -> list[Way] | None:
        """Return the sets of sub-schemas of which a fitting value fits one whole; None when they are too many."""
        key = id(node)
        if key not in self._ways:
            self._ways[key] = None  # while it is looked at: a schema that refers to itself in place
            self._ways[key] = self._combined(node)
        return self._ways[key]

    def _combined(self, node: Node) -> list[Way] | None:
        said = self._said(node)
        followed = (keyword for keyword in _FOLLOWED if keyword in said)
        several = [self.ways(target) for keyword in followed for target in node.targets(keyword)]
        several += [self._branches(node, keyword) for keyword in _CHOICES if keyword in said]
        factors: list[list[Way]] = [[(node,)]]
        factors += [each for each in several if each is not None]  # what is not followed strikes out nothing
        if prod(map(len, factors)) > MAX_WAYS:
            return None
        return [tuple(dict.fromkeys(one for part in parts for one in part)) for parts in _product(factors)]

    def _branches(self, node: Node, keyword: str) -> list[Way] | None:
        found: list[Way] = [() for branch in node.schema[keyword] if branch is True]
        for target in node.targets(keyword):
            inner = self.ways(target)
            if inner is None:
                return None
            found += inner
        return found

    def kinds(self, node: Node) -> frozenset[str]:
        """Return the types of JSON that a fitting value may have."""
        key = id(node)
        if key not in self._kinds:
            ways = self.ways(node)
            self._kinds[key] = KINDS if ways is None else frozenset().union(*map(self._kinds_of, ways))
        return self._kinds[key]

    def _kinds_of(self, way: Way) -> frozenset[str]:
        allowed = KINDS
        for node in way:
            said = self._said(node)
            if "type" in said:
                types = said["type"] if isinstance(said["type"], list) else [said["type"]]
                allowed &= {"number" if each == "integer" else each for each in types if isinstance(each, str)}
            listed = _listed(said)
            if listed is not None:
                allowed &= {_kind(each) for each in listed}
        return allowed

    def texts(self, node: Node) -> Texts:
        """Return the texts that a fitting string is one of, and how many characters it has at most; None for any."""
        key = id(node)
        if key not in self._texts:
            ways = self.ways(node)
            each = [(None, None)] if ways is None else [self._texts_of(way) for way in ways]
            texts, most = [one for one, _ in each], [length for _, length in each]
            known = None if None in texts else frozenset().union(*(one or () for one in texts))
            longest = None if None in most else max((one for one in most if one is not None), default=None)
            self._texts[key] = known, longest
        return self._texts[key]

    def _texts_of(self, way: Way) -> Texts:
        texts: frozenset[str] | None = None
        most: int | None = None
        for node in way:
            said = self._said(node)
            listed = _listed(said)
            if listed is not None:
                own = frozenset(each for each in listed if isinstance(each, str))
                texts = own if texts is None else texts & own
            length = _count(said.get("maxLength"))
            if length is not None:
                most = length if most is None else min(most, length)
        return texts, most

    def member(self, way: Way, name: str) -> list[Node] | None:
        """Return the sub-schemas of a member; None when a fitting object has no such member."""
        return self._all_of(self._member(node, name) for node in way)

    def _member(self, node: Node, name: str) -> Any:
        said = self._said(node)
        own = said.get("properties", {})
        if name in own:
            return own[name]
        if "patternProperties" in said:
            return True
        if "additionalProperties" in said:
            return said["additionalProperties"]
        if said.get("unevaluatedProperties") is not False:
            return True
        described = self._names(node)
        return described is None or name in described

    def _names(self, node: Node) -> frozenset[str] | None:
        """Return the names that any schema of the same object speaks of; None when it may be any."""
        key = id(node)
        if key not in self._described:
            several = joined([node], lambda edge: edge.applies is Applies.HERE)
            is_free = any(each.schema.get(one, False) is not False for each in several for one in _FREE)
            is_free |= any(each is not node and "unevaluatedProperties" in each.schema for each in several)
            names = frozenset(name for each in several for name in each.schema.get("properties", ()))
            self._described[key] = None if is_free else names
        return self._described[key]

    def item(self, way: Way, index: int) -> list[Node] | None:
        """Return the sub-schemas of an item; None when a fitting array has no such item."""
        return self._all_of(self._item(node, index) for node in way)

    def _item(self, node: Node, index: int) -> Any:
        said = self._said(node)
        most, items = _count(said.get("maxItems")), said.get("items", True)
        if most is not None and index >= most:
            return False
        is_listed = isinstance(items, list)  # the older form
        first = items if is_listed else said.get("prefixItems", [])
        return first[index] if index < len(first) else said.get("additionalItems", True) if is_listed else items

    def _all_of(self, schemas: Iterable[Any]) -> list[Node] | None:
        found: list[Node] = []
        for schema in schemas:
            if schema is False:
                return None
            node = self.graph.find(schema)
            found += [] if node is None else [node]
        return found


def _product(factors: list[list[Way]]) -> Iterator[tuple[Way, ...]]:
    return product(*factors)


def _listed(said: dict[str, Any]) -> list[Any] | None:
    if "const" in said:
        return [said["const"]]
    return said["enum"] if isinstance(said.get("enum"), list) else None


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _kind(value: Any) -> str:
    kind = json_type(value)
    return "number" if kind == "integer" else kind


class _Place:
    """One value: the sub-schemas that may govern it, each with the number of the way around it that they belong to.

    ``ways`` are those of an object's or an array's own members; None when they are not followed. ``name`` is that of
    the member at hand, None in an array, where ``index`` counts.
    """

    __slots__ = ("governing", "index", "name", "ways")

    def __init__(self, governing: list[tuple[int, list[Node]]]) -> None:
        self.governing = governing
        self.ways: list[tuple[int, Way]] | None = None
        self.name: str | None = None
        self.index = -1


class LiveValue:
    """Follows one value along a schema; see :class:`strictreply.reading._incremental.Follower`."""

    def __init__(self, schema: LiveSchema) -> None:
        self._schema = schema
        root = schema.graph.root
        self._root = _Place([(0, [] if root is None else [root])])
        self._stack: list[_Place] = []
        self._at = self._root
        self.wants_text = False

    def begins(self, kind: str) -> bool:
        """Strike out what admits no value of this type."""
        schema = self._schema
        place = self._at = self._next()
        place.governing = [one for one in place.governing if all(kind in schema.kinds(node) for node in one[1])]
        if kind in {"object", "array"}:
            self._open(place)
        elif kind == "string":
            bounded = (any(schema.texts(node) != (None, None) for node in nodes) for _, nodes in place.governing)
            self.wants_text = all(bounded)
        return bool(place.governing)

    def _next(self) -> _Place:
        if not self._stack:
            return self._root
        holder, schema = self._stack[-1], self._schema
        if holder.name is None:
            holder.index += 1
        if holder.ways is None:
            return _Place([(0, [])])
        found: list[tuple[int, list[Node]]] = []
        for number, (_, way) in enumerate(holder.ways):
            below = schema.item(way, holder.index) if holder.name is None else schema.member(way, holder.name)
            if below is not None:
                found.append((number, below))
        return _Place(found)

    def _open(self, place: _Place) -> None:
        ways: list[tuple[int, Way]] = []
        for number, (_, nodes) in enumerate(place.governing):
            known = [each for node in nodes if (each := self._schema.ways(node)) is not None]
            several = islice(_product(known), MAX_WAYS + 1)
            ways += [(number, tuple(node for part in parts for node in part)) for parts in several]
        place.ways = ways if len(ways) <= MAX_WAYS else None
        self._stack.append(place)

    def named(self, name: str) -> bool:
        """Strike out what admits no member of this name."""
        holder = self._stack[-1]
        holder.name = name
        return holder.ways is None or any(self._schema.member(way, name) is not None for _, way in holder.ways)

    def says(self, text: str) -> bool:
        """Strike out what admits no string that begins so."""
        self._at.governing = [one for one in self._at.governing if self._may_begin(one[1], text)]
        return bool(self._at.governing)

    def _may_begin(self, nodes: Iterable[Node], text: str) -> bool:
        for node in nodes:
            texts, most = self._schema.texts(node)
            if most is not None and len(text) > most:
                return False
            if texts is not None and not any(each.startswith(text) for each in texts):
                return False
        return True

    def ends(self, value: JSON) -> bool:
        """Strike out what a finished value does not fit, and what around it needed that."""
        is_tree = isinstance(value, dict | list)
        place = self._at = self._stack.pop() if is_tree else self._at
        if not is_tree or size_of(value, SMALL + 1) <= SMALL:
            fits = self._schema.fits
            place.governing = [one for one in place.governing if all(fits(node, value) for node in one[1])]
        if place.governing and self._stack:
            self._keep(self._stack[-1], {number for number, _ in place.governing})
        return bool(place.governing)

    def _keep(self, holder: _Place, numbers: set[int]) -> None:
        """Keep the ways of an object or an array in which its new member or item fits."""
        if holder.ways is None or len(numbers) == len(holder.ways):
            return
        ways = [way for number, way in enumerate(holder.ways) if number in numbers]
        left = sorted({number for number, _ in ways})
        again = {number: place for place, number in enumerate(left)}
        holder.governing = [holder.governing[number] for number in left]
        holder.ways = [(again[number], way) for number, way in ways]
