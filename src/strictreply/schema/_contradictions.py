"""Contradictions of a schema, found when it is declared: places that no value can ever fit.

What the analysis is not sure of passes.
"""

from __future__ import annotations

import inspect
import math
import operator
import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from strictreply.schema._documents import (
    Document,
    Graph,
    Node,
    SchemaEdge,
    at_pointer,
    conjoined_with,
    joined,
)
from strictreply.schema._engines import SchemaEngine, engine_for
from strictreply.schema._vocabulary import (
    STATEMENTS,
    TYPES,
    Applies,
    as_list,
    json_type,
    types_words,
    word,
)
from strictreply.values._errors import ContractError, ContractWarning
from strictreply.values._issues import pointer, pointer_tokens, printable
from strictreply.values._limits import Spent

# The kinds of values: the types, with numbers split into integers and fractions.
ALL = frozenset({*TYPES, "fraction"}) - {"number"}
NUMBERS = frozenset({"integer", "fraction"})
UNIONS = frozenset({"anyOf", "oneOf"})
SIZES = (
    ("string", "minLength", "maxLength", "characters"),
    ("array", "minItems", "maxItems", "items"),
    ("object", "minProperties", "maxProperties", "keys"),
)
# The keywords that judge a value without another schema.
FLAT = frozenset(
    {
        "type",
        "enum",
        "const",
        "pattern",
        "multipleOf",
        "required",
        "uniqueItems",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
    }
).union(*(sizes[1:3] for sizes in SIZES))
# steps of the analysis, a few hundred milliseconds: what is not looked at by then passes
MAX_STEPS = 50_000
MAX_ROUNDS = 20
MAX_SHOWN = 5
MAX_INDEX = 32
NO_OBJECT = "its schema allows no object; declare it with Tool.from_json_schema(…, wrap_root=True)"
CLOSED_BY_US = (
    'the object allows only the keys it lists; add it to properties, or declare with extra="schema"'
)
TOO_FEW = (
    'of those that the object lists; list more under properties, or declare with extra="schema"'
)
# A schema in an unknown place may raise these: the metaschema does not hold it to any form.
UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


_PACKAGE = str(Path(__file__).parent.parent) + os.sep


class Conflict(NamedTuple):
    """Kinds of values that cannot be at a place, none when others of these kinds can."""

    kinds: frozenset[str]
    """The kinds."""
    place: str
    """Pointer to the place."""
    words: str
    """Why they cannot be there."""
    cause: Node | None = None
    """The sub-schema that forbids them; None when there is no single one."""
    meant: bool = False
    """Whether the author means it; it is not shown then."""


class _Possible(NamedTuple):
    """The kinds of values that may fit a schema, and what speaks against the others."""

    kinds: frozenset[str]
    conflicts: tuple[Conflict, ...] = ()


_Held: TypeAlias = tuple[Node, str, Any]  # a schema, one of its keywords, and what that holds


def refuse_contradictions(
    graph: Graph, unclosed: Document, what: str, kinds: frozenset[str]
) -> None:
    """Raise ContractError when no value of ``kinds`` fits ``what``.

    Warns once, with ContractWarning, of parts of it that nothing fits.
    """
    possible = _Possible(frozenset() if graph.document is False else ALL)
    parts = list[Conflict]()
    analysis = _Analysis(graph, unclosed)

    if graph.root is not None:
        try:
            analysis.run()
        except Spent:
            return

        possible = analysis.verdicts[id(graph.root)]
        parts = analysis.parts(graph.root)

    if not possible.kinds & kinds:
        words = NO_OBJECT
        place = ""
        against = [conflict for conflict in possible.conflicts if conflict.kinds & kinds]
        if against:
            deepest = analysis.deepest(against[-1])
            words = deepest.words
            place = deepest.place

        raise ContractError(f"no value can ever fit {what}: {words}", path=place)

    if parts:
        shown = [f"{part.place}: {part.words}" for part in parts[:MAX_SHOWN]]
        if len(parts) > MAX_SHOWN:
            shown.append(f"and {len(parts) - MAX_SHOWN} more")

        message = "; ".join([f"no value can ever fit a part of {what}", *shown])

        warn_of_declaration(message)


def warn_of_declaration(message: str) -> None:
    """Warn with ContractWarning at the declaration, which is outside of this library."""
    frame = inspect.currentframe()
    levels = 1
    # by file: a method of ours that stands for one of an SDK has the names of its module
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        levels += 1

    warnings.warn(printable(message), ContractWarning, stacklevel=levels)


class _Analysis:
    """One analysis: it grows the set of schemas that some value may fit, until it grows no more."""

    def __init__(self, graph: Graph, unclosed: Document) -> None:
        self._graph = graph
        self._unclosed = unclosed  # whose statements about other members are the author's
        self._alive: set[int] = {id(node) for node in graph.nodes if node.pointer is None}
        self._engines: dict[int, SchemaEngine | None] = {}
        self._steps = 0
        self.verdicts: dict[int, _Possible] = dict.fromkeys(self._alive, _Possible(ALL))

    def run(self) -> None:
        """Judge every schema; a schema that needs itself without end never comes alive."""
        unsure = [node for node in reversed(self._graph.nodes) if node.pointer is not None]
        for _ in range(MAX_ROUNDS):
            before = len(self._alive)

            for node in unsure:
                verdict = self.verdicts[id(node)] = self._judge(conjoined_with([node]))
                if verdict.kinds:
                    self._alive.add(id(node))

            if len(self._alive) == before:
                return

            # What else may still change are schemas whose kinds depend on which forms of a union
            # are possible.
            unsure = [
                node for node in unsure if _is_united(node) or self.verdicts[id(node)].conflicts
            ]

        raise Spent

    def deepest(self, conflict: Conflict) -> Conflict:
        """Follow a conflict to the one that it comes of."""
        seen = set[int]()
        kinds = conflict.kinds

        while conflict.cause is not None and id(conflict.cause) not in seen:
            seen.add(id(conflict.cause))
            deeper = [each for each in self.verdicts[id(conflict.cause)].conflicts if each.kinds]
            if not deeper:
                break

            conflict = deeper[-1]

        if conflict.cause is not None:
            conflict = conflict._replace(words="it must contain itself, without end", cause=None)

        return conflict._replace(kinds=kinds)

    def parts(self, root: Node) -> list[Conflict]:
        """Return the contradictions where a value may be judged, the nearest to the root first."""

        def is_judged(edge: SchemaEdge) -> bool:
            return edge.applies is not Applies.NOWHERE and edge.keyword not in ("not", "if")

        sure = joined([root], is_judged)
        found = (conflict for node in sure for conflict in self.verdicts[id(node)].conflicts)
        by_place: dict[str, Conflict] = {}

        for conflict in found:
            if conflict.cause is None and not conflict.meant:
                by_place.setdefault(conflict.place, conflict)

        return list(by_place.values())

    def _judge(self, conjoined: list[Node], *, unions: bool = True, deep: bool = True) -> _Possible:
        self._steps += len(conjoined)
        if self._steps > MAX_STEPS:
            raise Spent

        kinds = ALL
        conflicts = list[Conflict]()

        finders = [_by_type, self._by_value, _by_bounds, _by_size, self._by_items]
        if deep:
            finders.append(self._by_members)
        if unions:
            finders.append(self._by_union)

        for find in finders:
            try:
                found = list(find(conjoined, kinds))
            except UNFIT:
                continue

            for conflict in found:
                if kinds & conflict.kinds or not conflict.kinds:
                    kinds -= conflict.kinds
                    if not conflict.meant or not kinds:
                        conflicts.append(conflict)

        return _Possible(kinds, tuple(conflicts))

    def _by_value(self, conjoined: list[Node], kinds: frozenset[str]) -> Iterator[Conflict]:
        listing = (node for node in conjoined if "const" in node.schema or "enum" in node.schema)
        holder = next(listing, None)
        if holder is None:
            return

        keyword = "const" if "const" in holder.schema else "enum"
        values = holder.schema["enum"] if keyword == "enum" else [holder.schema["const"]]
        left = [
            value
            for value in values
            if _kind_of(value) in kinds and self._fits_all(conjoined, value)
        ]

        words = "no value that it lists fits the rules beside it"
        if values == []:
            words = "it lists no value"

        out = kinds - {_kind_of(value) for value in left}
        yield Conflict(out, _place_of(holder, keyword), words, meant=bool(left))

    def _fits_all(self, nodes: list[Node], value: Any) -> bool:
        for node in nodes:
            self._steps += 1

            if id(node) not in self._engines:
                flat = {keyword: held for keyword, held in node.schema.items() if keyword in FLAT}
                self._engines[id(node)] = None
                with suppress(ContractError):
                    self._engines[id(node)] = engine_for(flat, formats=False) if flat else None

            engine = self._engines[id(node)]
            if engine is not None and not engine.is_valid(value):
                return False

        return True

    def _by_items(self, conjoined: list[Node], kinds: frozenset[str]) -> Iterator[Conflict]:
        if "array" not in kinds:
            return

        least = max((count for _, count in _holders("minItems", conjoined)), default=0)
        rests = [
            (node, "items", items)
            for node, items in _holders("items", conjoined)
            if "prefixItems" not in node.schema and isinstance(items, dict)
        ]

        for node, contained in _holders("contains", conjoined):
            needed = node.schema.get("minContains", 1)
            if needed <= 0:
                continue

            least = max(least, needed)
            if needed > node.schema.get("maxContains", needed):
                words = f"at least {needed} are required"
                yield _conflict_at("array", node, "maxContains", words)

            places = [(node, "contains", contained), *rests]
            yield from self._impossible("array", places, "an item it must contain")

        for index in range(min(math.ceil(least), MAX_INDEX)):
            items = list(_items_at(conjoined, index))
            yield from self._impossible("array", items, f"item {index}, which there must be,")

    def _by_members(self, conjoined: list[Node], kinds: frozenset[str]) -> Iterator[Conflict]:
        if "object" not in kinds:
            return

        required = _required_names(conjoined)
        least = max((count for _, count in _holders("minProperties", conjoined)), default=0)

        for node in conjoined:
            if len(required) > node.schema.get("maxProperties", math.inf):
                words = f"{len(required)} keys are required"
                yield _conflict_at("object", node, "maxProperties", words)

            closed = node.schema.get("additionalProperties") is False
            closed = closed and not node.schema.get("patternProperties")
            names = sum(each is not False for each in node.schema.get("properties", {}).values())
            if closed and names < least:
                by_us = "" if "additionalProperties" in self._as_written(node) else f" {TOO_FEW}"
                words = f"at least {least} keys are required, and {names} can be there{by_us}"
                yield _conflict_at("object", node, "additionalProperties", words)

        described = _holders("properties", conjoined)
        for name, holder in required.items():
            self._steps += len(conjoined)
            yield from self._refused_names(name, holder, conjoined)
            members = [(node, "properties", each[name]) for node, each in described if name in each]
            yield from self._impossible("object", members, f"the required key {word(name)}", name)

    def _as_written(self, node: Node) -> Any:
        return at_pointer(self._unclosed, pointer_tokens(node.pointer or ""))

    def _refused_names(self, name: str, holder: Node, conjoined: list[Node]) -> Iterator[Conflict]:
        required = f"the key {word(name)} is required"
        for node in conjoined:
            for keyword in STATEMENTS:
                if node.schema.get(keyword) is not False:
                    continue

                own = keyword == "additionalProperties"
                speaking = [node]
                if not own:
                    speaking = joined(speaking, lambda edge: edge.applies is Applies.HERE)

                if any(_speaks_of(each, name, own=own) for each in speaking):
                    continue

                why = CLOSED_BY_US
                if keyword in self._as_written(node):
                    why = f"{keyword} admits no such key"

                yield _conflict_at("object", holder, "required", f"{required}, but {why}")

            names = node.schema.get("propertyNames")
            judge = self._graph.find(names)
            refused = names is False
            if judge is not None:
                refused = not self._fits_all(conjoined_with([judge]), name)

            if refused:
                yield _conflict_at("object", node, "propertyNames", f"{required}, but not allowed")

    def _impossible(
        self, kind: str, places: list[_Held], what: str, *tokens: str
    ) -> Iterator[Conflict]:
        possible: list[Node] = []
        for holder, keyword, schema in places:
            node = self._graph.find(schema)
            verdict = self.verdicts.get(id(node))

            if node is not None and id(node) in self._alive:
                possible.append(node)
                continue

            # An author may forbid something on purpose, as {"not": {}} does.
            meant = verdict and all(conflict.meant for conflict in verdict.conflicts)
            if schema is False or meant:
                yield _conflict_at(kind, holder, keyword, f"{what} is forbidden", *tokens)
            elif node is not None:
                words = f"{what} can be no value"
                yield Conflict(frozenset({kind}), node.pointer or "", words, node)

        if len(possible) > 1:
            together = self._judge(conjoined_with(possible), unions=False, deep=False)
            if not together.kinds:
                inner = together.conflicts[-1]
                words = f"{what} can be no value: {inner.words}"
                yield Conflict(frozenset({kind}), inner.place, words)

    def _by_union(self, conjoined: list[Node], kinds: frozenset[str]) -> Iterator[Conflict]:
        unions = [
            (node, keyword, node.schema.get(keyword))
            for node in conjoined
            for keyword in sorted(UNIONS)
        ]
        for node, keyword, forms in unions:
            if not isinstance(forms, list) or any(form is True for form in forms):
                continue

            weighed = [self._form(form, conjoined, kinds) for form in forms]
            possible = frozenset[str]().union(*(form.kinds for form in weighed))
            against = [conflict for form in weighed for conflict in form.conflicts]
            if against and not possible:
                yield against[-1]._replace(kinds=kinds)
            else:
                out = kinds - possible
                place = _place_of(node, keyword)
                yield Conflict(out, place, "no form fits", meant=bool(possible))
                yield from (each._replace(kinds=frozenset()) for each in against)

    def _form(self, form: Any, conjoined: list[Node], kinds: frozenset[str]) -> _Possible:
        node = self._graph.find(form)
        if node is None:
            return _Possible(frozenset() if form is False else kinds)

        if id(node) not in self._alive:
            endless = Conflict(kinds, node.pointer or "", "it can be no value", node)
            return _Possible(frozenset(), (endless,))

        verdict = self._judge(conjoined_with([*conjoined, node]), unions=False)
        if verdict.kinds:
            return verdict

        words = f"this alternative can never match: {verdict.conflicts[-1].words}"
        return _Possible(frozenset(), (Conflict(kinds, node.pointer or "", words),))


def _is_united(node: Node) -> bool:
    return any(each.schema.keys() & UNIONS for each in conjoined_with([node]))


def _holders(keyword: str, conjoined: list[Node]) -> list[tuple[Node, Any]]:
    return [(node, node.schema[keyword]) for node in conjoined if keyword in node.schema]


def _speaks_of(node: Node, name: str, *, own: bool) -> bool:
    """Return whether a schema evaluates a member.

    ``own`` asks for what its ``additionalProperties`` leaves alone.
    """
    schema = node.schema
    others = not own and any(schema.get(keyword, False) is not False for keyword in STATEMENTS)
    patterns = schema.get("patternProperties", ())
    engines = (engine_for({"pattern": pattern}, formats=False) for pattern in patterns)
    matched = any(engine.is_valid(name) for engine in engines)
    return node.pointer is None or others or matched or name in schema.get("properties", ())


def _by_type(conjoined: list[Node], kinds: frozenset[str]) -> Iterator[Conflict]:
    for node in conjoined:
        schema = node.schema
        left = kinds

        if "type" in schema:
            kinds &= _kinds(schema["type"])
            named = types_words(as_list(schema["type"]))
            words = f"it must be {named}, but its other rules require another type"
            yield Conflict(left - kinds, _place_of(node, "type"), words, meant=bool(kinds))

        excluded = schema.get("not")
        if isinstance(excluded, dict) and excluded.keys() == {"type"}:
            out = _kinds(excluded["type"])
            kinds -= out
            words = "it excludes every remaining type"
            yield Conflict(out, _place_of(node, "not"), words, meant=bool(kinds))

        if excluded is True or excluded == {}:
            yield Conflict(ALL, _place_of(node, "not"), "it excludes every value", meant=True)

        if any(each is False for each in schema.get("allOf", ())):
            yield Conflict(ALL, _place_of(node, "allOf"), "it allows no value", meant=True)


def _by_bounds(conjoined: list[Node], kinds: frozenset[str]) -> Iterator[Conflict]:
    lowest = _tightest(conjoined, "minimum", 1)
    highest = _tightest(conjoined, "maximum", -1)
    if lowest is None or highest is None or not kinds & NUMBERS:
        return

    (low, above, _, floor) = lowest
    (high, below, node, ceiling) = highest
    place = _place_of(node, ceiling)
    words = f"no number keeps {floor} {word(low)} and {ceiling} {word(high)}"

    if low > high or (low == high and (above or below)):
        yield Conflict(NUMBERS, place, words)

    first = math.floor(low) + 1 if above else math.ceil(low)
    last = math.ceil(high) - 1 if below else math.floor(high)
    if first > last:
        words = words.replace("number", "integer")
        yield Conflict(frozenset({"integer"}), place, words, meant="fraction" in kinds)


def _tightest(conjoined: list[Node], name: str, sign: int) -> tuple[Any, bool, Node, str] | None:
    bounds: list[tuple[Any, bool, Node, str]] = []
    exclusive = f"exclusive{name.capitalize()}"
    for keyword in (name, exclusive):
        for node, bound in _holders(keyword, conjoined):
            bounds.append((bound, keyword == exclusive, node, keyword))

    return max(bounds, key=lambda bound: (sign * bound[0], bound[1]), default=None)


def _by_size(conjoined: list[Node], kinds: frozenset[str]) -> Iterator[Conflict]:
    for kind, least, most, things in SIZES:
        lows = _holders(least, conjoined)
        highs = _holders(most, conjoined)
        if kind in kinds and lows and highs:
            low = max(count for _, count in lows)
            node, high = min(highs, key=operator.itemgetter(1))
            if low > high:
                words = f"nothing has at least {low} and at most {high} {things}"
                yield _conflict_at(kind, node, most, words)


def _items_at(conjoined: list[Node], index: int) -> Iterator[_Held]:
    for node in conjoined:
        old = isinstance(node.schema.get("items"), list)
        listed, rest = ("items", "additionalItems") if old else ("prefixItems", "items")
        first = node.schema.get(listed, ())
        if index < len(first):
            yield node, listed, first[index]
        elif rest in node.schema:
            yield node, rest, node.schema[rest]


def _required_names(conjoined: list[Node]) -> dict[str, Node]:
    required: dict[str, Node] = {}
    for node, names in _holders("required", conjoined):
        required |= dict.fromkeys(names, node) | required

    for node, beside in _holders("dependentRequired", conjoined):
        for name, needed in beside.items():
            if name in required:
                required |= dict.fromkeys(needed, node) | required

    return required


def _kinds(types: Any) -> frozenset[str]:
    named = frozenset(as_list(types))
    return named - {"number"} | (NUMBERS if "number" in named else frozenset())


def _kind_of(value: Any) -> str:
    named = json_type(value)
    return "fraction" if named == "number" else named


def _place_of(node: Node, *tokens: str) -> str:
    return pointer(node.pointer or "", *tokens)


def _conflict_at(kind: str, node: Node, keyword: str, words: str, *tokens: str) -> Conflict:
    return Conflict(frozenset({kind}), _place_of(node, keyword, *tokens), words)
