"""The places of good arguments that a schema has a say about, and how a way to spoil one becomes an entry.

Optional members, other branches of unions and untaken conditions are places too: good arguments that have them are
made, each as small as can be. A way to spoil is tried at every place; what is kept is proved: the schema refuses it,
with the promised code, at that place.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, TypeAlias

from strictreply.reading._decoding import masked_pointer
from strictreply.schema import Schema
from strictreply.schema._documents import Node
from strictreply.schema._vocabulary import KEYWORDS
from strictreply.testing._steps import CANARY, Kind
from strictreply.testing._targets import Target
from strictreply.testing.faults._catalogue import WRITTEN, Entry, Spoiled
from strictreply.testing.faults._subschemas import GovernedValue, GoverningSchema, governed, subschemas_of
from strictreply.values._issues import Issue, pointer, pointer_tokens
from strictreply.values._json import JSON

MAX_SPOTS = 400
"""Places of one schema that are visited; those near the root come first."""

MAX_SIZE = 10_000
"""Characters, items or members that a fault adds at most: where a bound is larger, nothing is made."""

MAX_REPAIRS = 4
MAX_PREFIX = 16

KIND_OF = {
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems", "contains", "items", "prefixItems"), "array"),
    **dict.fromkeys(("properties", "required", "patternProperties", "propertyNames", "minProperties"), "object"),
    **dict.fromkeys(("maxProperties", "dependentRequired", "dependentSchemas"), "object"),
}
"""The type that each keyword speaks of alone."""

SpotPath: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Spot(GovernedValue):
    """One place of good arguments, with every sub-schema that governs what stands there.

    ``ground`` is the good value as a whole, ``path`` the place in it. ``optional`` when the schema could do without
    the member that stands there. ``stated`` are the keywords that no spot of the same place had before this one.
    """

    ground: JSON
    path: SpotPath
    optional: bool
    stated: frozenset[str]

    @property
    def at(self) -> str:
        """The JSON Pointer of the place."""
        return pointer("", *self.path)

    def spoiled(self, value: JSON) -> JSON:
        """Return a copy of the whole with another value at this place."""
        return _with(self.ground, self.path, value)


def spots_of(schema: Schema, value: JSON) -> tuple[Spot, ...]:
    """Return every place of a schema with a good value to spoil there, those of ``value`` itself first.

    Of the items of an array, and of members without a name in the schema, those are one place that are under the
    same sub-schemas.
    """
    return _spots(schema, json.dumps(value))


@lru_cache(maxsize=64)  # every entry of the catalogue asks for the same places
def _spots(schema: Schema, text: str) -> tuple[Spot, ...]:
    return tuple(islice(_Walk(schema).spots(json.loads(text)), MAX_SPOTS))


def _with(whole: JSON, path: SpotPath, value: JSON) -> JSON:
    """Copy a value with another part; an index past the end appends."""
    if not path:
        return deepcopy(value)
    copied: JSON = deepcopy(whole)
    holder: Any = _value_at(copied, path[:-1])
    if path[-1] == len(holder) and isinstance(holder, list):
        holder.append(deepcopy(value))
    else:
        holder[path[-1]] = deepcopy(value)
    return copied


@dataclass(frozen=True, slots=True)
class _Visit:
    """A place to visit: the good value that has it, and the sub-schemas it is known to be under.

    ``trail`` are these sub-schemas for each place on the way down, its own last; ``above`` are all that govern one of
    the places above. ``given`` when the user's value has the place, so that it is visited however often schemas recur;
    ``recurred`` when some did above it: once is enough.
    """

    ground: JSON
    path: SpotPath = ()
    nodes: tuple[Node, ...] = ()
    optional: bool = False
    given: bool = True
    recurred: bool = False
    trail: tuple[tuple[int, ...], ...] = ()
    above: frozenset[int] = frozenset()


class _Walk:
    """One walk over the places of one schema, breadth first."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._parts = subschemas_of(schema)
        self._seen: set[tuple[object, ...]] = set()
        self._met: dict[SpotPath, set[int]] = {}

    def spots(self, value: JSON) -> Iterator[Spot]:
        """Visit every place once for each set of sub-schemas that may govern it."""
        pending = deque([_Visit(value, nodes=self._root)] if self._root else [])
        while pending:
            visit = pending.popleft()
            found = governed(visit.nodes, _value_at(visit.ground, visit.path), self._parts)
            governing = [id(one.node) for one in found.governing]
            key = (visit.trail, *governing)
            if key not in self._seen:
                self._seen.add(key)
                yield self._spot(visit, found)
                recurs = not visit.above.isdisjoint(governing)
                if visit.given or not (recurs and visit.recurred):
                    entered = replace(visit, recurred=visit.recurred or recurs)
                    pending.extend(self._present(entered, found))
                    pending.extend(self._added(entered, found))
                pending.extend(self._varied(visit, found))

    @property
    def _root(self) -> tuple[Node, ...]:
        """The schema of the whole; none when it is a boolean."""
        return (self._parts.graph.root,) if self._parts.graph.root else ()

    def _spot(self, visit: _Visit, found: GovernedValue) -> Spot:
        # Which sub-schemas were met at this place is remembered: only what is new there is stated by the spot.
        met = self._met.setdefault(visit.path, set())
        fresh = [one for one in found.governing if id(one.node) not in met]
        met.update(id(one.node) for one in fresh)
        return Spot(
            value=found.value,
            governing=found.governing,
            parts=found.parts,
            ground=visit.ground,
            path=visit.path,
            optional=visit.optional,
            stated=frozenset(keyword for one in fresh for keyword in one.schema),
        )

    def _present(self, visit: _Visit, found: GovernedValue) -> Iterator[_Visit]:
        """Return the places below one that the good value has."""
        if isinstance(found.value, dict):
            required = set(found.listed("required"))
            for name in found.value:
                yield from _under(visit, found, name, optional=name not in required)
        elif isinstance(found.value, list):
            for index in range(len(found.value)):
                yield from _under(visit, found, index)

    def _added(self, visit: _Visit, found: GovernedValue) -> Iterator[_Visit]:
        """Return the places below one that the good value leaves out, each in a good value that has it."""
        grown = replace(visit, given=False)
        if isinstance(found.value, dict):
            for name in _absent(found):
                for ground in self._grown(visit, found, name):
                    yield from _under(replace(grown, ground=ground), found, name, optional=True)
        elif isinstance(found.value, list):
            longest = max((len(rule) for rule in found.rules("prefixItems")), default=0)
            for index in range(len(found.value), min(longest, MAX_PREFIX) + 1):
                for ground in self._grown(grown, found, index):
                    grown = replace(grown, ground=ground)  # the next item stands behind this one
                    yield from _under(grown, found, index)

    def _grown(self, visit: _Visit, found: GovernedValue, token: str | int) -> Iterator[JSON]:
        grounds = (_with(visit.ground, (*visit.path, token), one) for one in found.examples_below(token))
        yield from self._good(grounds)

    def _varied(self, visit: _Visit, found: GovernedValue) -> Iterator[_Visit]:
        """Return the same place with other good values, such as take another branch or meet a condition."""
        for ground in self._good(_with(visit.ground, visit.path, value) for value in _others(found)):
            yield replace(visit, ground=ground, given=False)

    def _good(self, grounds: Iterable[JSON]) -> Iterator[JSON]:
        """Return those values that fit the schema, when need be after members were added that they lack."""
        for ground in grounds:
            candidate: JSON = ground
            for _ in range(MAX_REPAIRS):
                issues = self._schema.check(candidate)
                if not issues:
                    yield candidate
                if not issues or any(not issue.code.endswith("required") for issue in issues):
                    break
                for issue in issues:
                    candidate = self._completed(candidate, issue.path)

    def _completed(self, whole: JSON, path: str) -> JSON:
        """Add a missing member, if an example can be made for it."""
        *above, name = pointer_tokens(path)
        holder, path_to = governed(self._root, whole, self._parts), list[str | int]()
        for text in above:
            token: str | int = int(text) if holder.kind == "array" else text
            if holder.kind == "object" and token not in holder.value:  # a name that the path does not show
                return whole
            path_to.append(token)
            holder = governed(holder.below(token), holder.value[token], self._parts)
        made = holder.examples_below(name)
        return _with(whole, (*path_to, name), made[0]) if made else whole


def _absent(found: GovernedValue) -> list[str]:
    """List the members that an object could have besides: those named, and one for each kind of unnamed ones."""
    known = [found.below(name) for name in found.value]
    named = [name for rule in found.rules("properties") for name in rule]
    unnamed = [name for name in found.unnamed() if found.below(name) not in known]
    return [name for name in dict.fromkeys([*named, *unnamed]) if name not in found.value]


def _others(found: GovernedValue) -> Iterator[JSON]:
    """Propose other values for a place: of another branch, of another type, and that change a condition."""
    taken = {id(one.node) for one in found.governing}
    for node in (*found.nodes("anyOf"), *found.nodes("oneOf")):
        if id(node) not in taken:
            yield from found.parts.examples(node)
            yield from found.examples(node)
    for one in found.governing:
        yield from _conditions(one, found)
    spoken = {KIND_OF[keyword] for one in found.governing for keyword in one.schema if keyword in KIND_OF}
    for kind in sorted(spoken - {found.kind, "number" if found.kind == "integer" else ""}):
        yield from found.examples(also={"type": kind})


def _conditions(governing: GoverningSchema, found: GovernedValue) -> Iterator[JSON]:
    """Propose values for which a condition may turn out the other way."""
    for test in (edge.target for edge in governing.node.edges if edge.keyword == "if"):
        for one in found.parts.examples(test):
            yield {**found.value, **one} if isinstance(one, dict) and isinstance(found.value, dict) else one
        names = [str(edge.token) for edge in test.edges if edge.keyword == "properties"]
        for name in names if isinstance(found.value, dict) else ():
            listed = [value for node in found.below(name) for value in node.schema.get("enum", ())]
            yield from ({**found.value, name: one} for one in (*listed, *found.examples_below(name)))


def _under(visit: _Visit, found: GovernedValue, token: str | int, *, optional: bool = False) -> Iterator[_Visit]:
    """Go down to a member or an item, if the schema has a say about it."""
    nodes = tuple(found.below(token))
    if nodes:
        yield replace(
            visit,
            path=(*visit.path, token),
            nodes=nodes,
            optional=optional,
            trail=(*visit.trail, tuple(map(id, nodes))),
            above=visit.above.union(id(one.node) for one in found.governing),
        )


def _value_at(value: Any, path: SpotPath) -> Any:
    for token in path:
        value = value[token]
    return value


SpoiledValues: TypeAlias = Iterable[JSON]
"""Other values for a place, each spoiled in the same way: the one that breaks least else is taken."""

SpoiledMembers: TypeAlias = Iterable[tuple[str | int, JSON]]
"""Other values for an object or an array, each with the member or item that the fault is about."""

_Ways: TypeAlias = Callable[[Spot], Iterable[tuple[str, JSON]]]


def of_kind(*kinds: str) -> Callable[[Spot], bool]:
    """Return a test for places whose value is of one of some JSON types."""
    return lambda spot: spot.kind in kinds


def anywhere(_: Spot) -> bool:
    """Choose every place."""
    return True


def at_place(
    code: str, summary: str, spoil: Callable[[Spot], SpoiledValues], where: Callable[[Spot], bool] = anywhere
) -> Entry:
    """Declare a fault of the value at a place; ``code`` is what the schema's refusal says."""
    return _entry(code, summary, lambda spot: [(spot.at, value) for value in spoil(spot)] if where(spot) else ())


def at_member(
    code: str, summary: str, spoil: Callable[[Spot], SpoiledMembers], where: Callable[[Spot], bool] = anywhere
) -> Entry:
    """Declare a fault of an object or an array in one of its members or items."""

    def ways(spot: Spot) -> Iterator[tuple[str, JSON]]:
        for token, value in spoil(spot) if where(spot) else ():
            yield pointer(spot.at, token), value

    return _entry(code, summary, ways)


def _entry(code: str, summary: str, ways: _Ways) -> Entry:
    rule = code.partition(".")[2]
    stating = {keyword for keyword, stated in KEYWORDS.items() if str(stated) == rule}

    def make(target: Target) -> Iterator[Spoiled]:
        known: set[str] = set()
        for spot in spots_of(target.schema, target.value) if target.schema is not None else ():
            for at, value in _nearest(target, spot, target.code(code), ways).items():
                text = target.text(value)
                # A place that was spoiled already is so again only for a rule that it did not have before.
                if text not in known and (at not in known or not stating.isdisjoint(spot.stated)):
                    known |= {at, text}
                    invented = CANARY in text and CANARY not in target.text(spot.ground)
                    yield Spoiled(target.completion(text), at, (CANARY,) * invented, spot.ground)

    return Entry("", Kind.ARGS, code, summary, WRITTEN, make)


def _nearest(target: Target, spot: Spot, code: str, ways: _Ways) -> dict[str, JSON]:
    """Choose, for each place below a spot, the first of those values that break the fewest rules besides."""
    found: dict[str, tuple[int, JSON]] = {}
    for at, value in ways(spot):
        if at in found and found[at][0] == 1:
            continue
        whole = spot.spoiled(value)
        broken = _broken(target, whole)
        if _says(target, broken, code, spot) and (at not in found or len(broken) < found[at][0]):
            found[at] = len(broken), whole
    return {at: whole for at, (_, whole) in found.items()}


def _broken(target: Target, whole: JSON) -> tuple[Issue, ...]:
    if target.schema is None or (target.tool is not None and not isinstance(whole, dict)):
        return ()  # arguments that are no object never come to the schema
    return target.schema.check(whole, place="args" if target.tool is not None else "answer")


def _says(target: Target, issues: tuple[Issue, ...], code: str, spot: Spot) -> bool:
    """Report whether the promised code is among the issues, at the spoiled place or below it."""
    names = target.schema.names if target.schema is not None else frozenset[str]()
    path = masked_pointer("", spot.path, names)
    return any(issue.code == code and f"{issue.path}/".startswith(f"{path}/") for issue in issues)
