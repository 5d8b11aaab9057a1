"""The places of good arguments that a schema has a say about; how each is spoiled is the matter of the entries.

Optional members, other branches of unions and untaken conditions are places too: good arguments that have them are
made, each as small as can be.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, TypeAlias

from strictreply.schema import Schema
from strictreply.schema._graph import Node
from strictreply.testing.faults._judging import Judge, Judged, judged_under
from strictreply.testing.faults._subschemas import subschemas_of
from strictreply.values._issues import pointer, pointer_tokens
from strictreply.values._json import JSON

MAX_SPOTS = 400
"""Places of one schema that are visited; those near the root come first."""

MAX_REMEMBERED = 64
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

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Spot(Judged):
    """One place of good arguments, with every sub-schema that governs what stands there.

    ``ground`` is the good value as a whole, ``path`` the place in it. ``optional`` when the schema could do without
    the member that stands there. ``stated`` are the keywords that no spot of the same place had before this one.
    """

    ground: JSON
    path: Path
    optional: bool
    stated: frozenset[str]

    @property
    def at(self) -> str:
        """The JSON Pointer of the place."""
        return pointer("", *self.path)

    def spoiled(self, value: JSON) -> JSON:
        """Put another value at this place, in a copy of the whole."""
        return _with(self.ground, self.path, value)


def spots_of(schema: Schema, value: JSON) -> tuple[Spot, ...]:
    """Give every place of a schema with a good value to spoil there, those of ``value`` itself first.

    Of the items of an array, and of members without a name in the schema, those are one place that are under the
    same sub-schemas.
    """
    return _spots(schema, json.dumps(value))


@lru_cache(maxsize=MAX_REMEMBERED)
def _spots(schema: Schema, text: str) -> tuple[Spot, ...]:
    """Walk once: every entry of the catalogue asks for the same places."""
    return tuple(islice(_Walk(schema).spots(json.loads(text)), MAX_SPOTS))


def _with(whole: JSON, path: Path, value: JSON) -> JSON:
    """Copy a value with another part; an index past the end appends."""
    if not path:
        return deepcopy(value)
    copied: JSON = deepcopy(whole)
    holder: Any = value_at(copied, path[:-1])
    if path[-1] == len(holder) and isinstance(holder, list):
        holder.append(deepcopy(value))
    else:
        holder[path[-1]] = deepcopy(value)
    return copied


@dataclass(frozen=True, slots=True)
class _Place:
    """A place to visit: the good value that has it, and the sub-schemas it is known to be under.

    ``trail`` are these sub-schemas for each place on the way down, its own last; ``above`` are all that govern one of
    the places above. ``given`` when the user's value has the place, so that it is visited however often schemas recur;
    ``recurred`` when some did above it: once is enough.
    """

    ground: JSON
    path: Path = ()
    nodes: tuple[Node, ...] = ()
    optional: bool = False
    given: bool = True
    recurred: bool = False
    trail: tuple[tuple[int, ...], ...] = ()
    above: frozenset[int] = frozenset()


class _Walk:
    """One walk over the places of one schema, breadth first."""

    def __init__(self, schema: Schema) -> None:
        """Begin at nothing."""
        self._schema = schema
        self._parts = subschemas_of(schema)
        self._seen: set[tuple[object, ...]] = set()
        self._met: dict[Path, set[int]] = {}

    def spots(self, value: JSON) -> Iterator[Spot]:
        """Visit every place once for each set of sub-schemas that may govern it."""
        pending = deque([_Place(value, nodes=self._root)] if self._root else [])
        while pending:
            place = pending.popleft()
            judged = judged_under(place.nodes, value_at(place.ground, place.path), self._parts)
            governing = [id(judge.node) for judge in judged.judges]
            key = (place.trail, *governing)
            if key not in self._seen:
                self._seen.add(key)
                yield self._spot(place, judged)
                recurs = not place.above.isdisjoint(governing)
                if place.given or not (recurs and place.recurred):
                    entered = replace(place, recurred=place.recurred or recurs)
                    pending.extend(self._present(entered, judged))
                    pending.extend(self._added(entered, judged))
                pending.extend(self._varied(place, judged))

    @property
    def _root(self) -> tuple[Node, ...]:
        """The schema of the whole; none when it is a boolean."""
        return (self._parts.graph.root,) if self._parts.graph.root else ()

    def _spot(self, place: _Place, judged: Judged) -> Spot:
        """Describe a place, and remember which sub-schemas were met there."""
        met = self._met.setdefault(place.path, set())
        fresh = [judge for judge in judged.judges if id(judge.node) not in met]
        met.update(id(judge.node) for judge in fresh)
        return Spot(
            value=judged.value,
            judges=judged.judges,
            parts=judged.parts,
            ground=place.ground,
            path=place.path,
            optional=place.optional,
            stated=frozenset(keyword for judge in fresh for keyword in judge.schema),
        )

    def _present(self, place: _Place, judged: Judged) -> Iterator[_Place]:
        """Give the places below one that the good value has."""
        if isinstance(judged.value, dict):
            required = set(judged.listed("required"))
            for name in judged.value:
                yield from _under(place, judged, name, optional=name not in required)
        elif isinstance(judged.value, list):
            for index in range(len(judged.value)):
                yield from _under(place, judged, index)

    def _added(self, place: _Place, judged: Judged) -> Iterator[_Place]:
        """Give the places below one that the good value leaves out, each in a good value that has it."""
        grown = replace(place, given=False)
        if isinstance(judged.value, dict):
            for name in _absent(judged):
                for ground in self._grown(place, judged, name):
                    yield from _under(replace(grown, ground=ground), judged, name, optional=True)
        elif isinstance(judged.value, list):
            longest = max((len(rule) for rule in judged.rules("prefixItems")), default=0)
            for index in range(len(judged.value), min(longest, MAX_PREFIX) + 1):
                for ground in self._grown(grown, judged, index):
                    grown = replace(grown, ground=ground)  # the next item stands behind this one
                    yield from _under(grown, judged, index)

    def _grown(self, place: _Place, judged: Judged, token: str | int) -> Iterator[JSON]:
        """Add a member or an item to the good value."""
        grounds = (_with(place.ground, (*place.path, token), one) for one in judged.examples_below(token))
        yield from self._good(grounds)

    def _varied(self, place: _Place, judged: Judged) -> Iterator[_Place]:
        """Give the same place with other good values, such as take another branch or meet a condition."""
        for ground in self._good(_with(place.ground, place.path, value) for value in _others(judged)):
            yield replace(place, ground=ground, given=False)

    def _good(self, grounds: Iterable[JSON]) -> Iterator[JSON]:
        """Give those values that fit the schema, when need be after members were added that they lack."""
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
        holder, path_to = judged_under(self._root, whole, self._parts), list[str | int]()
        for text in above:
            token: str | int = int(text) if holder.kind == "array" else text
            if holder.kind == "object" and token not in holder.value:  # a name that the path does not show
                return whole
            path_to.append(token)
            holder = judged_under(holder.below(token), holder.value[token], self._parts)
        made = holder.examples_below(name)
        return _with(whole, (*path_to, name), made[0]) if made else whole


def _absent(judged: Judged) -> list[str]:
    """Name the members that an object could have besides: those named, and one for each kind of unnamed ones."""
    known = [judged.below(name) for name in judged.value]
    named = [name for rule in judged.rules("properties") for name in rule]
    unnamed = [name for name in judged.unnamed() if judged.below(name) not in known]
    return [name for name in dict.fromkeys([*named, *unnamed]) if name not in judged.value]


def _others(judged: Judged) -> Iterator[JSON]:
    """Propose other values for a place: of another branch, of another type, and that change a condition."""
    taken = {id(judge.node) for judge in judged.judges}
    for node in (*judged.nodes("anyOf"), *judged.nodes("oneOf")):
        if id(node) not in taken:
            yield from judged.parts.examples(node)
            yield from judged.examples(node)
    for judge in judged.judges:
        yield from _conditions(judge, judged)
    spoken = {KIND_OF[keyword] for judge in judged.judges for keyword in judge.schema if keyword in KIND_OF}
    for kind in sorted(spoken - {judged.kind, "number" if judged.kind == "integer" else ""}):
        yield from judged.examples(also={"type": kind})


def _conditions(judge: Judge, judged: Judged) -> Iterator[JSON]:
    """Propose values for which a condition may turn out the other way."""
    for test in (edge.target for edge in judge.node.edges if edge.keyword == "if"):
        for one in judged.parts.examples(test):
            yield {**judged.value, **one} if isinstance(one, dict) and isinstance(judged.value, dict) else one
        names = [str(edge.token) for edge in test.edges if edge.keyword == "properties"]
        for name in names if isinstance(judged.value, dict) else ():
            listed = [value for node in judged.below(name) for value in node.schema.get("enum", ())]
            yield from ({**judged.value, name: one} for one in (*listed, *judged.examples_below(name)))


def _under(place: _Place, judged: Judged, token: str | int, *, optional: bool = False) -> Iterator[_Place]:
    """Go down to a member or an item, if the schema has a say about it."""
    nodes = tuple(judged.below(token))
    if nodes:
        yield replace(
            place,
            path=(*place.path, token),
            nodes=nodes,
            optional=optional,
            trail=(*place.trail, tuple(map(id, nodes))),
            above=place.above.union(id(judge.node) for judge in judged.judges),
        )


def value_at(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return the part of a value that a path leads to."""
    for token in path:
        value = value[token]
    return value
