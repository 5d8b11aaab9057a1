"""Tracks which schemas may still accept a value while it arrives.

If none may, no continuation of the value fits. A place of the value has alternatives, each a set of
schemas that must all hold: ``allOf`` and ``$ref`` add to the set, ``anyOf`` and ``oneOf`` add
alternatives. A keyword that needs the whole value waits for its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import chain, product
from typing import Any, TypeAlias

from strictreply.schema._documents import joined
from strictreply.schema._engines import SchemaEngine, SchemaParts, kind_of, listed_values
from strictreply.schema._vocabulary import DRAFT_2019, DRAFT_2020, STATEMENTS, Applies
from strictreply.values._errors import ContractError
from strictreply.values._limits import JSON, JSONObject, Spent

MAX_EXPANDED = 32  # alternatives of one place; a larger union waits for the end
MAX_LIVE = 512  # alternatives of one open container, multiplied by those of the unions above it
SMALL = 32  # values in a container that the engine judges at its end
KINDS = frozenset({"object", "array", "string", "number", "boolean", "null"})
_MOST = ("maxLength", "maxItems", "maxProperties")
_REMARKS = frozenset(
    {"type", "title", "description", "default", "examples", "deprecated", "$comment"}
)
_Form: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Alternative:
    """One way to fill a place."""

    kinds: frozenset[str] = KINDS
    """The types of JSON that the place may have."""
    literals: tuple[str, ...] | None = None
    """The texts that the value may be; None if any text is possible."""
    limit: float = math.inf
    """The most characters of a text."""
    names: tuple[str, ...] | None = None
    """The member names that an object may have; None if any name is possible."""
    required: frozenset[str] = frozenset()
    """The members that an object must have."""
    max_members: float = math.inf
    """The most members of an object."""
    max_items: float = math.inf
    """The most items of an array."""
    member: Callable[[str], Place | None] = lambda _: ANYTHING
    """The place of a member; None if it is not allowed."""
    item: Callable[[int], Place | None] = lambda _: ANYTHING
    """The place of an item; None if it is not allowed."""


def _texts(lists: Sequence[Sequence[str] | None]) -> list[str] | None:
    """Return the texts that any of several lists allows; None if one of them allows any text."""
    return None if None in lists else [text for each in lists for text in each or ()]


class Place:
    """What one place of a value may contain: its alternatives, and the check of the whole value."""

    def __init__(
        self, alternatives: Iterable[Alternative], accepts: Callable[[JSON], bool] = lambda _: True
    ) -> None:
        self.alternatives: tuple[Alternative, ...] = tuple(alternatives)
        self.accepts: Callable[[JSON], bool] = accepts
        kinds = [each.kinds for each in self.alternatives]
        self.kinds: frozenset[str] = frozenset[str]().union(*kinds)

        of_text = [each for each in self.alternatives if "string" in each.kinds]
        self.literals: list[str] | None = _texts([each.literals for each in of_text])
        self.limit: float = max((each.limit for each in of_text), default=math.inf)

    def only(self, kind: str) -> Place:
        """Return the same place for values of one type only."""
        kinds = frozenset({kind})
        alternatives = [each for each in self.alternatives if kind in each.kinds]
        return Place((replace(each, kinds=kinds) for each in alternatives), self.accepts)


ANY = Alternative()
ANYTHING: Place = Place((ANY,))


def text_place(
    literals: tuple[str, ...] | None, accepts: Callable[[JSON], bool] = lambda _: True
) -> Place:
    """Return a place for one of several texts; ``literals`` None means any text."""
    return Place((Alternative(kinds=frozenset({"string"}), literals=literals),), accepts)


def object_of(members: Mapping[str, Place], names: Iterable[str] = ()) -> Alternative:
    """Return the place of an object that has no schema.

    ``members`` are the places of its members, ``names`` the names that other objects there have.
    """
    known = tuple(dict.fromkeys((*members, *names)))
    return Alternative(
        kinds=frozenset({"object"}), names=known, required=frozenset(members), member=members.get
    )


class LiveSchema:
    """The places of one closed schema, each created at its first use and then kept."""

    def __init__(self, parts: SchemaParts) -> None:
        self._parts = parts
        self._places: dict[tuple[int, ...], Place | None] = {}

    @cached_property
    def root(self) -> Place:
        """The place of the whole value."""
        graph = self._parts.graph
        # the meaning of a dynamic reference depends on the path to it
        if self._parts.is_dynamic:
            return ANYTHING

        return self.place((graph.document,)) or Place(())

    def place(self, schemas: Iterable[Any]) -> Place | None:
        """Return the place for several schemas together.

        None if one of them accepts nothing.
        """
        judges = tuple(schema for schema in schemas if schema is not True)
        if not judges:
            return ANYTHING

        key = tuple(map(id, judges))
        if key not in self._places:
            self._places[key] = None if False in judges else self._made(judges)

        return self._places[key]

    def _made(self, judges: tuple[_Form, ...]) -> Place:
        parts = self._parts
        alternatives = map(self._alternative, self._joined(map(self._expanded, judges)))

        # the types of the alternatives are enough
        if all(_REMARKS.issuperset(one) and "integer" not in one.get("type", ()) for one in judges):
            return Place(alternatives)

        @cache
        def engines() -> list[SchemaEngine]:
            try:
                return [
                    parts.engine((id(one), "whole"), {"allOf": [parts.refer(one)]})
                    for one in judges
                ]
            except (ValueError, ContractError):
                # a part that means nothing without the whole is left to the judge
                return []

        return Place(alternatives, lambda value: all(_holds(engine, value) for engine in engines()))

    def _joined(self, factors: Iterable[list[tuple[_Form, ...]]]) -> list[tuple[_Form, ...]]:
        """Multiply alternatives; a factor that would make too many is left out."""
        forms: list[tuple[_Form, ...]] = [()]
        for factor in factors:
            if len(forms) * len(factor) <= MAX_EXPANDED:
                rows = [(*one, *other) for one, other in product(forms, factor)]
                forms = [tuple({id(form): form for form in row}.values()) for row in rows]

        return forms

    def _expanded(self, schema: object) -> list[tuple[_Form, ...]]:
        node = self._parts.graph.find(schema)
        if node is None or node.pointer is None:  # a boolean, or in a published metaschema
            return [] if schema is False else [()]

        spoken = set(self._parts.spoken(node.schema))
        factors: list[list[tuple[_Form, ...]]] = [[(node.schema,)]] if spoken != {"$ref"} else []

        if "$ref" in spoken:
            factors += [self._expanded(target.schema) for target in node.targets("$ref")]

        if "allOf" in spoken:
            factors += map(self._expanded, node.schema["allOf"])

        for keyword in sorted(spoken & {"anyOf", "oneOf"}):
            branches = map(self._expanded, node.schema[keyword])
            factors.append(list(chain.from_iterable(branches)))

        return self._joined(factors)

    def _alternative(self, forms: tuple[_Form, ...]) -> Alternative:
        least: dict[str, float] = {}
        for keyword in _MOST:
            limits = (form.get(keyword, math.inf) for form in forms)
            least[keyword] = min(limits, default=math.inf)

        closed = [names for form in forms if (names := self._closed_names(form)) is not None]
        names = min(closed, key=len) if closed else None
        literals = _literals(forms)
        longest = math.inf if literals is None else max(map(len, literals), default=0)

        described = {name for form in forms for name in form.get("properties", ())}
        firsts = max((len(self._first_items(form)) for form in forms), default=0)
        undescribed = partial(self._member, forms, names)  # names from the model are not cached
        member = cache(undescribed)
        item = cache(partial(self._item, forms))

        return Alternative(
            kinds=KINDS.intersection(*map(_kinds, forms)),
            literals=literals,
            limit=min(least["maxLength"], longest),
            names=None if names is None else tuple(names),
            required=frozenset(name for form in forms for name in form.get("required", ())),
            max_members=least["maxProperties"],
            max_items=least["maxItems"],
            member=lambda name: member(name) if name in described else undescribed(name),
            item=lambda index: None if index >= least["maxItems"] else item(min(index, firsts)),
        )

    def _first_items(self, form: _Form) -> list[object]:
        listed = form.get("prefixItems" if self._parts.draft == DRAFT_2020 else "items")
        return listed if isinstance(listed, list) else []

    def _item(self, forms: tuple[_Form, ...], index: int) -> Place | None:
        below: list[Any] = []
        for form in forms:
            first = self._first_items(form)
            rest = "additionalItems" if isinstance(form.get("items"), list) else "items"
            below.append(first[index] if index < len(first) else form.get(rest, True))

        return self.place(below)

    def _member(
        self, forms: tuple[_Form, ...], names: frozenset[str] | None, name: str
    ) -> Place | None:
        below: list[Any] = []
        for form in forms:
            own = [
                schema
                for pattern, schema in form.get("patternProperties", {}).items()
                if self._fits(("pattern", pattern), {"pattern": pattern}, name)
            ]
            if name in form.get("properties", ()):
                own.append(form["properties"][name])

            below += own or [form.get("additionalProperties", True)]

            if "propertyNames" in form:
                named = {"propertyNames": self._parts.refer(form["propertyNames"])}
                if not self._fits((id(form), "propertyNames"), named, {name: None}):
                    return None

        return None if names is not None and name not in names else self.place(below)

    def _fits(self, key: tuple[object, ...], schema: JSONObject, value: JSON) -> bool:
        return _holds(self._parts.engine(key, schema), value)

    def _closed_names(self, form: _Form) -> frozenset[str] | None:
        """Return all names that members of a closed object may have; None if any may."""
        if form.get("additionalProperties") is False and not form.get("patternProperties"):
            return frozenset(form.get("properties", ()))

        node = self._parts.graph.find(form)
        if node is None or self._parts.draft not in (DRAFT_2020, DRAFT_2019):
            return None
        if form.get("unevaluatedProperties") is not False:
            return None

        beside = joined([node], lambda edge: edge.applies is Applies.HERE)
        for each in beside:
            if each.schema.get("patternProperties"):
                return None

            rests = STATEMENTS[:1] if each is node else STATEMENTS
            if any(each.schema.get(rest, False) is not False for rest in rests):
                return None

        return frozenset(name for each in beside for name in each.schema.get("properties", ()))


def _holds(engine: SchemaEngine, value: JSON) -> bool:
    try:
        return engine.is_valid(value)
    except (Spent, ValueError, TypeError, OverflowError, RecursionError):
        return True  # left to the judge of the whole


def _literals(forms: tuple[_Form, ...]) -> tuple[str, ...] | None:
    """Return the texts that all of some schemas list; None if none of them lists values."""
    listed = [listed_values(form) for form in forms if "enum" in form or "const" in form]
    texts = [[value for value in values if isinstance(value, str)] for values in listed]
    if not texts:
        return None

    return tuple(text for text in texts[0] if all(text in other for other in texts))


def _kinds(form: _Form) -> frozenset[str]:
    stated = form.get("type", ())
    names = [stated] if isinstance(stated, str) else stated
    types = frozenset("number" if name == "integer" else name for name in names)
    kinds = types or KINDS

    if "enum" in form or "const" in form:
        return kinds.intersection(map(kind_of, listed_values(form)))

    return kinds


# an alternative, with the number of the candidate that it belongs to
_Live: TypeAlias = "tuple[int, Alternative]"
# a place, with the alternative around it that it belongs to
_Candidate: TypeAlias = "tuple[_Live | None, Place]"


class LiveCheck:
    """A ``Listener`` of the incremental reader that checks one value against a place.

    What it rejects stays wrong, whatever follows.
    """

    def __init__(self, place: Place) -> None:
        # for the next value, or the open one
        self._candidates: list[_Candidate] = [(None, place)]
        self._alive: list[_Live] = []  # the alternatives of the innermost open container
        self._outer: list[tuple[list[_Candidate], list[_Live]]] = []
        self._known: list[str] | None = None  # the texts that the open one may become; None for any
        self._length = 0
        self._limit = math.inf

    def key_begins(self) -> bool:
        """Receive the start of a member's name."""
        self._length = 0
        self._limit = math.inf
        self._known = _texts([alternative.names for _, alternative in self._alive])
        return self._known == []

    def key(self, name: str) -> bool:
        """Receive the name of a member, before its value."""
        return self._descend([(live, live[1].member(name)) for live in self._alive])

    def item(self, index: int) -> bool:
        """Receive the index of an item, before its value."""
        return self._descend([(live, live[1].item(index)) for live in self._alive])

    def _descend(self, below: list[tuple[_Live, Place | None]]) -> bool:
        self._candidates = [
            (live, place) for live, place in below if place is not None and place.kinds
        ]
        return not self._candidates

    def member(self, count: int) -> bool:
        """Receive the number of members before the next one."""
        self._alive = [live for live in self._alive if count < live[1].max_members]
        return not self._alive

    def begins(self, kind: str) -> bool:
        """Receive the JSON type of a value at its first character."""
        candidates = [each for each in self._candidates if kind in each[1].kinds]
        self._candidates = candidates

        if kind == "string":
            self._length = 0
            self._limit = max((place.limit for _, place in candidates), default=0)
            self._known = _texts([place.literals for _, place in candidates])
        elif kind in ("object", "array"):
            self._outer.append((candidates, self._alive))
            alive = [
                (number, each)
                for number, (_, place) in enumerate(candidates)
                for each in place.alternatives
                if kind in each.kinds
            ]
            if len(alive) > MAX_LIVE:
                alive = [(number, ANY) for number in range(len(candidates))]

            self._alive = alive

        return not candidates

    def part(self, text: str) -> bool:
        """Receive a piece of the open string or member name."""
        start = self._length
        self._length += len(text)
        if self._known is None:
            return self._length > self._limit

        self._known = [each for each in self._known if each.startswith(text, start)]
        return not self._known

    def scalar(self, value: JSON) -> bool:
        """Receive a complete string, number or literal."""
        return self._settle([each for each in self._candidates if each[1].accepts(value)])

    def ends(self, value: JSON, size: int) -> bool:
        """Receive a complete object or array."""
        alive = self._alive
        if isinstance(value, dict):
            alive = [live for live in alive if live[1].required <= value.keys()]

        candidates, self._alive = self._outer.pop()
        survivors = [candidates[number] for number in dict.fromkeys(number for number, _ in alive)]
        return self._settle([each for each in survivors if size > SMALL or each[1].accepts(value)])

    def _settle(self, survivors: list[_Candidate]) -> bool:
        if self._outer:
            self._alive = [live for live, _ in survivors if live is not None]

        return not survivors
