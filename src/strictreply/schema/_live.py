"""The schema nodes that may still hold for a value while it is written; when none may, no continuation fits.

A place of the value has alternatives, each a set of schemas that would all have to hold: ``allOf`` and ``$ref`` add to
the set, ``anyOf`` and ``oneOf`` make more alternatives. What comes removes alternatives, never too many: a keyword
that needs the whole value (``not``, ``if``, ``contains``, ``uniqueItems``, ``dependent…``) waits for its end, where the
schema's engine judges every scalar and every small container.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any, TypeAlias

from strictreply.schema._documents import joined
from strictreply.schema._engines import SchemaEngine, SchemaParts, kind_of, listed_values
from strictreply.schema._vocabulary import DRAFT_2019, DRAFT_2020, REFERENCES, STATEMENTS, Applies
from strictreply.values._errors import ContractError
from strictreply.values._limits import JSON, Work

MAX_EXPANDED = 32  # alternatives of one place; a choice beyond that is left to the end
MAX_LIVE = 512  # alternatives of one open container, those of the choices above it multiplied in
SMALL = 32  # values in a container that the engine judges at its end
KINDS = frozenset({"object", "array", "string", "number", "boolean", "null"})
_REMARKS = frozenset({"type", "title", "description", "default", "examples", "deprecated", "$comment"})

_Form: TypeAlias = "Mapping[str, Any]"


class Alternative:
    """One way to fill a place: of a text that it must begin one of ``literals``, of an object its ``required`` names.

    ``kinds`` are the JSON types that it admits. ``names`` are all the names that its members may have, None for any.
    None as what :meth:`member` and :meth:`item` return means that there can be none.
    """

    __slots__ = ("kinds", "limit", "literals", "max_items", "max_members", "names", "required")

    def __init__(
        self, kinds: frozenset[str] = KINDS, names: Iterable[str] | None = None, required: Iterable[str] = ()
    ) -> None:
        self.kinds = kinds
        self.names: tuple[str, ...] | None = None if names is None else tuple(names)
        self.required = frozenset(required)
        self.literals: tuple[str, ...] | None = None
        self.limit: float = math.inf
        self.max_items: float = math.inf
        self.max_members: float = math.inf

    def member(self, name: str) -> Place | None:  # noqa: ARG002 - for the alternatives that know
        """Return what a member must fit."""
        return ANYTHING

    def item(self, index: int) -> Place | None:  # noqa: ARG002 - the same
        """Return what an item must fit."""
        return ANYTHING


class Members(Alternative):
    """An object that is not of a schema: the places of its members are given."""

    __slots__ = ("_members",)

    def __init__(self, members: Mapping[str, Place], names: Iterable[str] = ()) -> None:
        super().__init__(frozenset({"object"}), dict.fromkeys((*members, *names)), members)
        self._members = members

    def member(self, name: str) -> Place | None:
        """Return what a member must fit; None for those that are only named."""
        return self._members.get(name)


def _anything(_: JSON) -> bool:
    return True


class Place:
    """What may stand at one place of a value: its alternatives, and the judgement of a whole value."""

    __slots__ = ("accepts", "alternatives", "kinds", "limit", "literals")

    def __init__(self, alternatives: Sequence[Alternative], accepts: Callable[[JSON], bool] | None = None) -> None:
        self.alternatives: tuple[Alternative, ...] = tuple(alternatives)
        self.accepts: Callable[[JSON], bool] = _anything if accepts is None else accepts
        self.kinds: frozenset[str] = frozenset[str]().union(*(each.kinds for each in alternatives))
        of_text = [each for each in alternatives if "string" in each.kinds]
        self.literals: tuple[str, ...] | None = None
        if all(each.literals is not None for each in of_text):
            self.literals = tuple(dict.fromkeys(text for each in of_text for text in each.literals or ()))
        self.limit: float = max((each.limit for each in of_text), default=math.inf)

    @classmethod
    def of_text(cls, literals: Iterable[str] | None, accepts: Callable[[JSON], bool]) -> Place:
        """Make a place for one of several texts, for any when they are None."""
        alternative = Alternative(frozenset({"string"}))
        alternative.literals = None if literals is None else tuple(literals)
        return cls((alternative,), accepts)

    def only(self, kind: str) -> Place:
        """Return the same place for values of one type alone."""
        narrowed = Place([each for each in self.alternatives if kind in each.kinds], self.accepts)
        narrowed.kinds &= {kind}
        return narrowed


ANY = Alternative()
ANYTHING = Place((ANY,))


class LiveSchema:
    """The places of one closed schema, each made when a value first reaches it, and kept."""

    __slots__ = ("_modern", "_parts", "_places", "unevaluated")

    def __init__(self, parts: SchemaParts) -> None:
        self._parts = parts
        self._places: dict[tuple[int, ...], Place | None] = {}
        self._modern = parts.draft == DRAFT_2020
        self.unevaluated: bool = parts.draft in (DRAFT_2020, DRAFT_2019)

    @property
    def root(self) -> Place:
        """The place of the whole value."""
        # what a dynamic reference means is decided by the way that led to it
        if any(keyword in node.schema for node in self._parts.graph.nodes for keyword in REFERENCES[1:]):
            return ANYTHING
        return self.place((self._parts.graph.document,)) or Place(())

    def place(self, schemas: Iterable[Any]) -> Place | None:
        """Return the place that several schemas judge together; None when one of them admits nothing."""
        judges = tuple(schema for schema in schemas if schema is not True)
        if not judges:
            return ANYTHING
        key = tuple(map(id, judges))
        if key not in self._places:
            self._places[key] = None if False in judges else self._made(judges)
        return self._places[key]

    def _made(self, judges: tuple[_Form, ...]) -> Place:
        expanded = [self._expanded(judge) for judge in judges]
        forms = self._joined(expanded)
        alternatives = [_FormAlternative(self, each) for each in forms]
        plain = all(_REMARKS.issuperset(judge) and "integer" not in judge.get("type", ()) for judge in judges)
        return Place(alternatives, None if plain else _judged_by(self._parts, judges))

    def _joined(self, factors: Iterable[list[tuple[_Form, ...]]]) -> list[tuple[_Form, ...]]:
        """Multiply alternatives out; a factor that would make too many is left out."""
        forms: list[tuple[_Form, ...]] = [()]
        for factor in factors:
            if len(forms) * len(factor) <= MAX_EXPANDED:
                pairs = product(forms, factor)
                forms = [tuple({id(form): form for form in (*one, *other)}.values()) for one, other in pairs]
        return forms

    def _expanded(self, schema: Any) -> list[tuple[_Form, ...]]:
        node = self._parts.graph.find(schema)
        if node is None or node.pointer is None:  # a boolean, or in a published metaschema
            return [] if schema is False else [()]
        spoken = set(self._parts.spoken(node.schema))
        factors: list[list[tuple[_Form, ...]]] = [[(node.schema,)]] if spoken != {"$ref"} else []
        if "$ref" in spoken:
            factors += [self._expanded(target.schema) for target in node.targets("$ref")]
        if "allOf" in spoken:
            factors += map(self._expanded, node.schema["allOf"])
        for keyword in ("anyOf", "oneOf"):
            if keyword in spoken:
                factors.append([each for branch in node.schema[keyword] for each in self._expanded(branch)])
        return self._joined(factors)

    def first_items(self, form: _Form) -> list[Any]:
        """Return the schemas of the first items, as the draft spells them."""
        listed = form.get("prefixItems", []) if self._modern else form.get("items")
        return listed if isinstance(listed, list) else []

    def other_items(self, form: _Form) -> Any:
        """Return the schema of the items behind the first, as the draft spells it."""
        listed = not self._modern and isinstance(form.get("items"), list)
        return form.get("additionalItems" if listed else "items", True)

    def matches(self, pattern: str, name: str) -> bool:
        """Return whether a member's name matches a pattern."""
        return _holds(self._parts.engine(("pattern", pattern), {"pattern": pattern}, Work()), name)

    def admits_name(self, form: _Form, name: str) -> bool:
        """Return whether ``propertyNames`` admits a member's name."""
        if "propertyNames" not in form:
            return True
        below = {"propertyNames": self._parts.refer(form["propertyNames"])}
        return _holds(self._parts.engine((id(form), "propertyNames"), below, Work()), {name: None})

    def evaluated(self, form: _Form) -> frozenset[str] | None:
        """Return all names that may count as evaluated in a schema; None when any may."""
        node = self._parts.graph.find(form)
        beside = joined([node], lambda edge: edge.applies is Applies.HERE) if node is not None else []
        for each in beside:
            rests = ("additionalProperties",) if each is node else STATEMENTS
            if each.schema.get("patternProperties") or any(each.schema.get(rest, False) is not False for rest in rests):
                return None
        return frozenset(name for each in beside for name in each.schema.get("properties", ()))


def _judged_by(parts: SchemaParts, judges: tuple[_Form, ...]) -> Callable[[JSON], bool]:
    """Return whether a value fits all of some schemas, whose engines are compiled when first asked."""

    @cache
    def engines() -> list[SchemaEngine]:
        try:
            return [parts.engine((id(one), "whole"), {"allOf": [parts.refer(one)]}, Work()) for one in judges]
        except (ValueError, ContractError):  # a part that means nothing without the whole is left to the judge
            return []

    return lambda value: all(_holds(engine, value) for engine in engines())


def _holds(engine: SchemaEngine, value: JSON) -> bool:
    try:
        return engine.is_valid(value)
    except (ValueError, TypeError, OverflowError, RecursionError):  # left to whoever judges the whole
        return True


class _FormAlternative(Alternative):
    """Several schemas of a document that must hold together."""

    __slots__ = ("_forms", "_known", "_live")

    def __init__(self, live: LiveSchema, forms: tuple[_Form, ...]) -> None:
        required = {name for form in forms for name in form.get("required", ())}
        super().__init__(KINDS.intersection(*map(_kinds, forms)), required=required)
        self._live, self._forms = live, forms
        self._known: dict[str | int, Place | None] = {}
        closed = [names for form in forms if (names := self._closed_names(form)) is not None]
        if closed:
            fewest = min(closed, key=len)
            self.names = tuple(fewest)
        listed = [listed_values(form) for form in forms if "enum" in form or "const" in form]
        texts = [[value for value in values if isinstance(value, str)] for values in listed]
        self.literals = tuple(text for text in texts[0] if all(text in other for other in texts)) if texts else None
        self.limit = min((form.get("maxLength", math.inf) for form in forms), default=math.inf)
        if self.literals is not None:
            self.limit = min(self.limit, max(map(len, self.literals), default=0))
        self.max_items = min((form.get("maxItems", math.inf) for form in forms), default=math.inf)
        self.max_members = min((form.get("maxProperties", math.inf) for form in forms), default=math.inf)

    def member(self, name: str) -> Place | None:
        if name in self._known:
            return self._known[name]
        place = self._live.place(below) if (below := self._members(name)) is not None else None
        if any(name in form.get("properties", ()) for form in self._forms):  # no memory for names of the model's
            self._known[name] = place
        return place

    def item(self, index: int) -> Place | None:
        if index >= self.max_items:
            return None
        most = max((len(self._live.first_items(form)) for form in self._forms), default=0)
        index = min(index, most)
        if index not in self._known:
            below = [self._item_of(form, index) for form in self._forms]
            self._known[index] = self._live.place(below)
        return self._known[index]

    def _item_of(self, form: _Form, index: int) -> Any:
        first = self._live.first_items(form)
        return first[index] if index < len(first) else self._live.other_items(form)

    def _members(self, name: str) -> list[Any] | None:
        below: list[Any] = []
        for form in self._forms:
            own = [form["properties"][name]] if name in form.get("properties", ()) else []
            patterns = form.get("patternProperties", {})
            own += [patterns[pattern] for pattern in patterns if self._live.matches(pattern, name)]
            below += own or [form.get("additionalProperties", True)]
            if not self._live.admits_name(form, name):
                return None
        return None if self.names is not None and name not in self.names else below

    def _closed_names(self, form: _Form) -> frozenset[str] | None:
        if form.get("additionalProperties") is False and not form.get("patternProperties"):
            return frozenset(form.get("properties", ()))
        closed = self._live.unevaluated and form.get("unevaluatedProperties") is False
        return self._live.evaluated(form) if closed else None


def _kinds(form: _Form) -> frozenset[str]:
    told = form.get("type", ())
    types = {"number" if name == "integer" else name for name in ([told] if isinstance(told, str) else told)}
    kinds = frozenset(types) if types else KINDS
    return kinds.intersection(map(kind_of, listed_values(form))) if "enum" in form or "const" in form else kinds


_Live: TypeAlias = "tuple[int, Alternative]"  # with the number of the candidate that it is an alternative of
_Candidate: TypeAlias = "tuple[_Live | None, Place]"  # a place, with the alternative around it that it belongs to


class LiveCheck:
    """One value held to a place while it is read: the listener that hears its events and refuses.

    What is refused here is refused whatever follows; what is not may still be wrong.
    """

    __slots__ = ("_alive", "_candidates", "_known", "_length", "_limit", "_outer")

    def __init__(self, place: Place) -> None:
        self._candidates: list[_Candidate] = [(None, place)]  # for the value that comes next, or is open
        self._alive: list[_Live] = []  # the alternatives of the innermost open container
        self._outer: list[tuple[list[_Candidate], list[_Live]]] = []
        self._known: Sequence[str] | None = None  # what the open text may become, None for anything
        self._limit: float = math.inf
        self._length = 0

    def key_begins(self) -> bool:
        """Hear that the name of a member begins."""
        self._length, self._limit, self._known = 0, math.inf, None
        names = [alternative.names for _, alternative in self._alive]
        if None not in names:
            self._known = [name for each in names for name in each or ()] if len(names) > 1 else names[0]
        return not self._known and self._known is not None

    def key(self, name: str) -> bool:
        """Hear the name of the member whose value comes next."""
        return self._descend([(live, live[1].member(name)) for live in self._alive])

    def item(self, index: int) -> bool:
        """Hear that an item comes next."""
        return self._descend([(live, live[1].item(index)) for live in self._alive])

    def _descend(self, below: list[tuple[_Live, Place | None]]) -> bool:
        self._candidates = [(live, place) for live, place in below if place is not None and place.kinds]
        return not self._candidates

    def member(self, count: int) -> bool:
        """Hear that one more member follows so many."""
        self._alive = [live for live in self._alive if count < live[1].max_members]
        return not self._alive

    def begins(self, kind: str) -> bool:
        """Hear the JSON type of a value at its first character."""
        candidates = [each for each in self._candidates if kind in each[1].kinds]
        self._candidates = candidates
        if kind == "string":
            literals = [place.literals for _, place in candidates]
            self._known = None
            if None not in literals:
                self._known = [text for each in literals for text in each or ()]
            self._length, self._limit = 0, max((place.limit for _, place in candidates), default=0)
        elif kind in ("object", "array"):
            self._outer.append((candidates, self._alive))
            alive = [
                (number, alternative)
                for number, (_, place) in enumerate(candidates)
                for alternative in place.alternatives
                if kind in alternative.kinds
            ]
            self._alive = alive if len(alive) <= MAX_LIVE else [(number, ANY) for number in range(len(candidates))]
        return not candidates

    def part(self, text: str) -> bool:
        """Hear a part of the open string or member name."""
        start = self._length
        self._length += len(text)
        if self._known is not None:
            self._known = [each for each in self._known if each.startswith(text, start)]
            return not self._known
        return self._length > self._limit

    def scalar(self, value: JSON) -> bool:
        """Hear the whole value of a string, a number or a word."""
        return self._settle([each for each in self._candidates if each[1].accepts(value)])

    def ends(self, value: JSON, size: int) -> bool:
        """Hear the whole value of an object or array."""
        held = {
            number
            for number, alternative in self._alive
            if not isinstance(value, dict) or alternative.required <= value.keys()
        }
        candidates, self._alive = self._outer.pop()
        small = size <= SMALL
        return self._settle(
            [each for number, each in enumerate(candidates) if number in held and (not small or each[1].accepts(value))]
        )

    def _settle(self, held: list[_Candidate]) -> bool:
        if self._outer:
            self._alive = [live for live, _ in held if live is not None]
        return not held
