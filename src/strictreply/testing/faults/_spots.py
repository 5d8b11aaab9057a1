"""The places in good arguments that a schema has rules for, and faults at these places.

Optional members, other branches and unmet conditions are places in other good arguments, which are
as small as possible.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, TypeAlias

from strictreply.core import JSON, JSONObject
from strictreply.core.schemas import (
    KEYWORDS,
    Applies,
    Graph,
    Node,
    SchemaEdge,
    SchemaParts,
    engine_for,
    json_type,
    proposals,
    upgraded,
)
from strictreply.core.text import masked_pointer, pointer, pointer_tokens
from strictreply.schema import Schema
from strictreply.testing._steps import Kind, Target
from strictreply.testing.faults._catalogue import WRITTEN, Entry, Spoiled, substituted, without


@lru_cache(maxsize=64)
def subschemas_of(schema: Schema) -> Subschemas:
    """Return the sub-schemas of a schema; the result is cached."""
    return Subschemas(schema)


class Subschemas:
    """The sub-schemas of a schema as it is enforced, in the vocabulary of 2020-12.

    Each is compiled when it is first asked for.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema: Schema = schema
        self.graph: Graph = Graph(upgraded(schema.closed))
        self._parts = SchemaParts(self.graph, engine_for(self.graph.document, formats=True))
        self._examples: dict[tuple[object, ...], list[JSON]] = {}

    def fits(self, node: Node, value: JSON) -> bool:
        """Report whether a value fits a sub-schema; False where that cannot be asked."""
        here = node.pointer is not None  # else it stands in another document
        return here and self._is_valid(node, {"allOf": [self._parts.refer(node.schema)]}, value)

    def examples(self, *nodes: Node, also: JSONObject | None = None) -> list[JSON]:
        """Make a small value that fits all of some sub-schemas, and ``also`` when given.

        The list is empty when none was found.
        """
        key = (*nodes, str(also))
        if key not in self._examples:
            own = also or {}
            graph = Graph(own)
            if graph.root is not None:
                graph.root.edges.extend(
                    SchemaEdge("allOf", None, Applies.HERE, node) for node in nodes
                )

            made = (
                value for value in proposals(graph.root) if self._is_valid(str(own), own, value)
            )
            fitting = (value for value in made if all(self.fits(node, value) for node in nodes))
            self._examples[key] = list(islice(fitting, 1))

        return self._examples[key]

    def below(self, node: Node, token: str | int) -> Iterator[Node]:
        """Yield the sub-schemas that a sub-schema has for one member or item."""
        schema = node.schema

        if isinstance(token, int):
            spoken = token < len(schema.get("prefixItems", ()))
            named: set[tuple[str, object]] = {("prefixItems", token)}
            others = ("items", "unevaluatedItems")
        else:
            listed = schema.get("patternProperties", ())
            patterns = [text for text in listed if self._is_valid(text, {"pattern": text}, token)]
            spoken = token in schema.get("properties", ()) or bool(patterns)
            named = {("properties", token), *(("patternProperties", text) for text in patterns)}
            others = ("additionalProperties", "unevaluatedProperties")

        for edge in node.along(Applies.MEMBER if isinstance(token, str) else Applies.ITEM):
            if (edge.keyword, edge.token) in named or (not spoken and edge.keyword in others):
                yield edge.target

    def _is_valid(self, key: object, schema: JSONObject, value: JSON) -> bool:
        try:
            return self._parts.engine((key,), schema).is_valid(value)
        except (ValueError, TypeError, OverflowError, RecursionError):
            return False


MAX_SPOTS = 400  # places of one schema that are visited; those near the root come first
# Characters, items or members that a fault adds at most: where a bound is larger, nothing is made.
MAX_SIZE = 10_000
MAX_REPAIRS = 4
MAX_PREFIX = 16

_KEYWORDS_OF = {
    "string": "minLength maxLength pattern format contentEncoding contentMediaType",
    "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
    "array": "minItems maxItems uniqueItems contains items prefixItems",
    "object": "properties required patternProperties propertyNames minProperties maxProperties "
    "dependentRequired dependentSchemas",
}
# The type that each keyword speaks of alone.
KIND_OF = {keyword: kind for kind, words in _KEYWORDS_OF.items() for keyword in words.split()}

SpotPath: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True)
class Spot:
    """One place in good arguments, with the sub-schemas that apply to it."""

    parts: Subschemas = field(repr=False)
    """The sub-schemas of the whole schema."""
    ground: JSON
    """The good arguments."""
    path: SpotPath = ()
    """Members and items from the root to the place."""
    known: tuple[Node, ...] = field(default=(), repr=False)
    """The sub-schemas that apply to whatever stands there."""
    optional: bool = False
    """Whether the schema could do without it."""
    given: bool = True
    """Whether the user's value has the place. It is visited then however often schemas recur."""
    recurred: bool = False
    """Whether some schema recurred above."""
    trail: tuple[tuple[Node, ...], ...] = field(default=(), repr=False)
    """The known sub-schemas on the way down."""
    above: frozenset[Node] = field(default=frozenset(), repr=False)
    """All sub-schemas that govern a place above."""

    @classmethod
    def root(cls, schema: Schema, value: JSON) -> Spot:
        """Return the place of a value as a whole."""
        parts = subschemas_of(schema)
        return cls(parts, value, known=(parts.graph.root,) if parts.graph.root else ())

    @cached_property
    def value(self) -> Any:
        """The good value at the place."""
        value: Any = self.ground
        for token in self.path:
            value = value[token]
        return value

    @cached_property
    def governing(self) -> dict[Node, bool]:
        """The sub-schemas that govern the value.

        The value is True for those that do so because of what else is there.
        """
        found: dict[Node, bool] = {}
        pending = [(node, False) for node in self.known]

        for node, conditional in pending:  # grows while it is walked
            if node not in found:
                found[node] = conditional
                pending.extend(self._beside(node, conditional=conditional))

        return found

    def _beside(self, node: Node, *, conditional: bool) -> Iterator[tuple[Node, bool]]:
        edges = list(node.along(Applies.HERE))
        tests = [edge.target for edge in edges if edge.keyword == "if"]
        met = "then" if all(self.parts.fits(test, self.value) for test in tests) else "else"

        for edge in edges:
            match edge.keyword:
                case "$ref" | "allOf":
                    yield edge.target, conditional
                case "anyOf" | "oneOf" | "$dynamicRef" | "$recursiveRef":
                    if self.parts.fits(edge.target, self.value):
                        yield edge.target, conditional
                case "then" | "else" if edge.keyword == met and "if" in node.schema:
                    yield edge.target, True
                case "dependentSchemas":
                    if isinstance(self.value, dict) and edge.token in self.value:
                        yield edge.target, True
                case _:
                    pass

    @property
    def at(self) -> str:
        """The JSON Pointer of the place."""
        return pointer("", *self.path)

    @property
    def kind(self) -> str:
        """The JSON type of the value."""
        return json_type(self.value)

    @property
    def recurs(self) -> bool:
        """Whether a sub-schema that governs the place governs one above it, too."""
        return not self.above.isdisjoint(self.governing)

    def rules(self, keyword: str, *, conditional: bool | None = None) -> Iterator[Any]:
        """Yield what each sub-schema here has under a keyword.

        ``conditional`` chooses the sub-schemas of one sort, as in ``governing``; None takes all.
        """
        for node, condition in self.governing.items():
            if keyword in node.schema and conditional in (None, condition):
                yield node.schema[keyword]

    def listed(self, keyword: str, *, conditional: bool | None = None) -> Iterator[Any]:
        """Yield what the lists under a keyword hold, such as every value of ``enum``."""
        for rule in self.rules(keyword, conditional=conditional):
            yield from rule if isinstance(rule, list) else ()

    def states(self, *keywords: str) -> bool:
        """Report whether the schema says anything here under some keywords."""
        return any(keyword in node.schema for node in self.governing for keyword in keywords)

    def nodes(self, *keywords: str) -> Iterator[Node]:
        """Yield the sub-schemas below some keywords, keyword by keyword."""
        for keyword in keywords:
            yield from (target for node in self.governing for target in node.targets(keyword))

    def unnamed(self) -> Iterator[str]:
        """Yield a name for each kind of member that the schema allows here without a name."""
        names = list(self.nodes("propertyNames"))
        edges = (edge for node in self.governing for edge in node.along(Applies.MEMBER))

        for edge in edges:
            if edge.keyword == "patternProperties":
                named: JSONObject = {"type": "string", "pattern": edge.token}
                yield from map(str, self.parts.examples(*names, also=named))
            elif edge.keyword in ("additionalProperties", "unevaluatedProperties"):
                yield from [*map(str, self.parts.examples(*names)), "key"][:1]

    def examples(self, *nodes: Node, also: JSONObject | None = None) -> list[JSON]:
        """Make a value that fits this place and some other sub-schemas.

        The list is empty when none was found.
        """
        return self.parts.examples(self.known[0], *nodes, also=also)

    def examples_below(self, token: str | int) -> list[JSON]:
        """Make a value for a member or an item.

        The list is empty when none was found, or the schema has no say about it.
        """
        nodes = self.below(token)
        return self.parts.examples(*nodes) if nodes else []

    def below(self, token: str | int) -> list[Node]:
        """Return the sub-schemas of one member or item, whether the value has it or not."""
        return [found for node in self.governing for found in self.parts.below(node, token)]

    def spoiled(self, value: JSON, *below: str | int) -> JSON:
        """Return a copy of the whole with another value at this place or below it.

        An index past the end appends.
        """
        path = (*self.path, *below)
        if not path:
            return deepcopy(value)

        copied: JSON = deepcopy(self.ground)
        holder: Any = copied

        for token in path[:-1]:
            holder = holder[token]

        if path[-1] == len(holder) and isinstance(holder, list):
            holder.append(deepcopy(value))
        else:
            holder[path[-1]] = deepcopy(value)

        return copied

    def inner(self, token: str | int, *, ground: JSON = None, optional: bool = False) -> Spot:
        """Go down to a member or an item.

        ``ground`` is another good value that has it, None for this spot's own.
        """
        known = tuple(self.below(token))
        return replace(
            self,
            ground=self.ground if ground is None else ground,
            path=(*self.path, token),
            known=known,
            optional=optional,
            given=self.given and ground is None,
            recurred=self.recurred or self.recurs,
            trail=(*self.trail, known),
            above=self.above.union(self.governing),
        )


def spots_of(schema: Schema, value: JSON) -> tuple[Spot, ...]:
    """Return every place of a schema with a good value to spoil there.

    Of items and members that are alike, only one is visited.
    """
    return _spots(schema, json.dumps(value))


@lru_cache(maxsize=64)  # every entry of the catalogue asks for the same places
def _spots(schema: Schema, text: str) -> tuple[Spot, ...]:
    """Visit every place once for each set of sub-schemas that may govern it, breadth first."""
    root = Spot.root(schema, json.loads(text))
    pending = deque([root] if root.known else [])
    seen: dict[tuple[object, ...], Spot] = {}

    while pending and len(seen) < MAX_SPOTS:
        spot = pending.popleft()
        key = (spot.trail, *spot.governing)
        if key in seen:
            continue

        seen[key] = spot
        below = {"object": _members, "array": _items}.get(spot.kind)
        if below and (spot.given or not (spot.recurs and spot.recurred)):
            pending.extend(inner for inner in below(spot) if inner.known)

        for ground in _good(schema, map(spot.spoiled, _others(spot))):
            pending.append(replace(spot, ground=ground, given=False))

    return tuple(seen.values())


def _members(spot: Spot) -> Iterator[Spot]:
    """Yield the places below an object, then those of members that it leaves out.

    Each of the latter is in another good value, one that has the member.
    """
    required = set(spot.listed("required"))
    yield from (spot.inner(name, optional=name not in required) for name in spot.value)

    kinds = [spot.below(name) for name in spot.value]
    named = [name for rule in spot.rules("properties") for name in rule]
    unnamed = [name for name in spot.unnamed() if spot.below(name) not in kinds]

    for name in dict.fromkeys([*named, *unnamed]):
        if name not in spot.value:
            for ground in _grown(spot, name):
                yield spot.inner(name, ground=ground, optional=True)


def _items(spot: Spot) -> Iterator[Spot]:
    yield from map(spot.inner, range(len(spot.value)))

    longest = max((len(rule) for rule in spot.rules("prefixItems")), default=0)
    grown = spot

    for index in range(len(spot.value), min(longest, MAX_PREFIX) + 1):
        for ground in _grown(grown, index):
            # The next item stands behind this one.
            grown = replace(grown, ground=ground, given=False)
            yield grown.inner(index)


def _grown(spot: Spot, token: str | int) -> Iterator[JSON]:
    grounds = (spot.spoiled(value, token) for value in spot.examples_below(token))
    return _good(spot.parts.schema, grounds)


def _good(schema: Schema, grounds: Iterable[JSON]) -> Iterator[JSON]:
    """Yield those values that fit the schema, some after members that they lack were added."""
    for ground in grounds:
        candidate: JSON = ground

        for _ in range(MAX_REPAIRS):
            issues = schema.check(candidate)
            if not issues:
                yield candidate

            if not issues or any(not issue.code.endswith("required") for issue in issues):
                break

            for issue in issues:
                candidate = _completed(schema, candidate, issue.path)


def _completed(schema: Schema, whole: JSON, path: str) -> JSON:
    """Add a missing member, if an example can be made for it."""
    *above, name = pointer_tokens(path)
    holder = Spot.root(schema, whole)

    for text in above:
        token: str | int = int(text) if holder.kind == "array" else text
        # The path does not show the name of this member.
        if holder.kind == "object" and token not in holder.value:
            return whole

        holder = holder.inner(token)

    made = holder.examples_below(name)
    return holder.spoiled(made[0], name) if made else whole


def _others(spot: Spot) -> Iterator[JSON]:
    """Propose other values: of another branch, that change a condition, and of another type."""
    for node in spot.nodes("anyOf", "oneOf"):
        if node not in spot.governing:
            yield from (*spot.parts.examples(node), *spot.examples(node))

    for test in spot.nodes("if"):
        yield from _meeting(spot, test)

    keywords = {keyword for node in spot.governing for keyword in node.schema}
    kinds = {KIND_OF[keyword] for keyword in keywords & KIND_OF.keys()}
    own = {"integer", "number"} if spot.kind == "integer" else {spot.kind}
    for kind in sorted(kinds - own):
        yield from spot.examples(also={"type": kind})


def _meeting(spot: Spot, test: Node) -> Iterator[JSON]:
    """Propose values that may meet a condition, or no longer meet it."""
    value = spot.value
    for one in spot.parts.examples(test):
        yield {**value, **one} if isinstance(one, dict) and isinstance(value, dict) else one

    if not isinstance(value, dict):
        return

    names = [str(edge.token) for edge in test.edges if edge.keyword == "properties"]
    for name in names:
        listed = [one for node in spot.below(name) for one in node.schema.get("enum", ())]
        yield from ({**value, name: one} for one in (*listed, *spot.examples_below(name)))


# Other values for a place, each spoiled in the same way: the one that breaks least else is taken.
Values: TypeAlias = Iterable[JSON]
# Other values for an object or an array, each with the member or item that the fault is about, None
# when it is about the whole.
Members: TypeAlias = Iterable[tuple[str | int | None, JSON]]
# Which places are spoiled: those of some JSON types, or for which the schema states a keyword.
# An empty text chooses those of the type that the rule speaks of: strings, arrays or objects. It
# chooses all where the rule speaks of any type, or of numbers, as a number past a bound may be put
# in place of whatever else is good.
Where: TypeAlias = str | Callable[[Spot], bool]


def without_required(spot: Spot, *, conditional: bool) -> Members:
    """Leave out a required member that is there: one of a condition, or one of the others."""
    for name in spot.listed("required", conditional=conditional):
        if name in spot.value:
            yield name, without(spot.value, name)


def at_place(
    rule: str, summary: str, spoil: list[Any] | Callable[[Spot], Values], where: Where = ""
) -> Entry:
    """Declare a fault of the value at a place; ``rule`` is the :class:`SchemaRule` that it breaks.

    ``spoil`` makes or lists other values: ``$value`` is the good one, ``$written`` its JSON text,
    ``$kind`` its type.
    """

    def others(spot: Spot) -> Members:
        names = {"value": spot.value, "written": json.dumps(spot.value), "kind": spot.kind}
        values: Values = spoil(spot) if callable(spoil) else substituted(spoil, names)
        return ((None, value) for value in values)

    return at_member(rule, summary, others, where)


def at_member(
    rule: str, summary: str, spoil: Callable[[Spot], Members], where: Where = ""
) -> Entry:
    """Declare a fault of an object or an array in one of its members or items."""
    code = f"args.{rule}"
    stating = {keyword for keyword, stated in KEYWORDS.items() if str(stated) == rule}
    is_chosen = _choosing(where, stating)

    def make(target: Target) -> Iterator[Spoiled]:
        known: set[str] = set()
        met: dict[SpotPath, set[Node]] = defaultdict(set)

        places = spots_of(target.schema, target.value) if target.schema is not None else ()
        for spot in places:
            fresh = spot.governing.keys() - met[spot.path]
            met[spot.path] |= fresh
            stated = any(not stating.isdisjoint(node.schema) for node in fresh)

            if not is_chosen(spot):
                continue

            for at, whole in _nearest(target, spot, target.code(code), spoil(spot)).items():
                text = target.text(whole)
                # A place that was spoiled already is so again only for a rule that is new there.
                if text not in known and (at not in known or stated):
                    known |= {at, text}
                    yield Spoiled(target.completion(text), at, spot.ground)

    return Entry("", Kind.ARGS, code, summary, WRITTEN, make)


def _choosing(where: Where, stating: set[str]) -> Callable[[Spot], bool]:
    """Return the test of which places are spoiled for a rule that some keywords state."""
    if callable(where):
        return where

    words = where.split()
    if not words:
        kinds = [KIND_OF.get(keyword, "number") for keyword in stating]
        words = [kind for kind in kinds if kind != "number"]
    return lambda spot: not words or spot.kind in words or spot.states(*words)


def _nearest(target: Target, spot: Spot, code: str, ways: Members) -> dict[str, JSON]:
    """Choose for each place below a spot the value that breaks the promised rule and least else.

    Of values that break equally much, the first is taken.
    """
    found: dict[str, tuple[float, JSON]] = {}
    schema = spot.parts.schema
    place = "answer" if target.tool is None else "args"
    path = masked_pointer("", spot.path, schema.names)

    for token, value in ways:
        at = spot.at if token is None else pointer(spot.at, token)
        least, _ = found.get(at, (math.inf, None))

        whole = spot.spoiled(value)
        if least == 1 or (target.tool is not None and not isinstance(whole, dict)):
            continue

        broken = schema.check(whole, place=place)
        if len(broken) >= least:
            continue
        if any(i.code == code and f"{i.path}/".startswith(f"{path}/") for i in broken):
            found[at] = (len(broken), whole)

    return {at: whole for at, (_, whole) in found.items()}
