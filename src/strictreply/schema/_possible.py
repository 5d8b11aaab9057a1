"""Whether a schema admits anything at all, found out when it is declared.

An example that fits proves that a schema admits something. That none could be built proves nothing,
as what makes examples is small. So there are three answers, tried in this order:

1. One example with a value at every described place fits (``Schema.require_example``): all is said.
2. It is certain that nothing fits (:class:`_Certain`): the schema is refused. Certain is what one
   rule shows of a schema and all that its values must fit as well (``$ref``, ``allOf``), of one
   place below it that must be there (required members, items up to ``minItems``), or of all forms
   of a union. Each schema counts as impossible until a value for it is in sight, so that one which
   requires itself stays impossible.
3. Each place gets examples of its own (:class:`_Search`), and the smallest places that none fits
   are warned of.

It is judged what is enforced, after closing. Left out are patterns for which no text is known and
``uniqueItems``, and what the bounded work does not reach passes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any, NamedTuple

from strictreply.schema._documents import (
    Document,
    Graph,
    Node,
    SchemaEdge,
    at_pointer,
    conjoined_with,
    joined,
    read_document,
)
from strictreply.schema._engines import SchemaParts, engine_for, listed_values
from strictreply.schema._explaining import excludes_all, has_known_text, proposals
from strictreply.schema._linear import widen_around
from strictreply.schema._vocabulary import (
    DRAFT_2020,
    TYPES,
    Applies,
    as_list,
    json_type,
    types_words,
    word,
)
from strictreply.schema._work import size_of
from strictreply.values._errors import ContractError, warn_of_declaration
from strictreply.values._issues import pointer, pointer_tokens
from strictreply.values._limits import JSON, Spent, Work

# The kinds of values: the types, where "number" is one that is no integer.
KINDS = frozenset(TYPES)
NUMBERS = frozenset({"integer", "number"})
OBJECT = frozenset({"object"})
ARRAY = frozenset({"array"})
# By kind: the keyword of the least, that of the most, and when nothing is between them.
BOUNDS = (
    (NUMBERS, "minimum", "maximum", operator.gt),
    (NUMBERS, "exclusiveMinimum", "maximum", operator.ge),
    (NUMBERS, "minimum", "exclusiveMaximum", operator.ge),
    (NUMBERS, "exclusiveMinimum", "exclusiveMaximum", operator.ge),
    (frozenset({"string"}), "minLength", "maxLength", operator.gt),
    (ARRAY, "minItems", "maxItems", operator.gt),
    (OBJECT, "minProperties", "maxProperties", operator.gt),
)
PLAIN = frozenset({"type", "enum", "const", "title", "description", "default", "examples"})
# Examples of a schema that states no type.
SIMPLE: tuple[JSON, ...] = (None, True, 0, 1, 0.5, "", "text", [], [None], {}, {"name": None})
COMPILING = 10  # steps that the engine of one place costs, and one for each schema in it
LISTED_PER_STEP = 8
JUDGED_PER_STEP = 1_000
MAX_JUDGED = 10_000_000  # judgements of one value: more than all the work there is
MAX_SHOWN = 5
NO_OBJECT = "its schema allows no object; declare it with Tool.from_json_schema(…, wrap_root=True)"
CLOSED_BY_US = (
    'the object allows only the keys it lists; add it to properties, or declare with extra="schema"'
)
# A schema in an unknown place may raise these: the metaschema does not hold it to any form.
UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Declared(NamedTuple):
    """A declared schema; both documents are without older spellings."""

    enforced: Document
    written: Document  # by the author: before closing
    load: int  # judgements that one place of a value may cost
    formats: bool  # whether they are asserted


def require_example(
    declared: Declared, what: str, kinds: frozenset[str], work: Work, *, is_strangers: bool
) -> None:
    """Raise ContractError when it is certain that no value of ``kinds`` fits ``what``.

    Warns once, with ContractWarning, when no example of it, or of parts of it, could be built; of a
    stranger's schema the former is an error too. ``work`` is what the search for them may cost.
    """
    try:
        search = _Search(declared, work)
    except ContractError:
        return  # a reference leads into what an older draft spells otherwise

    certain = _Certain(search, declared.written)
    root = search.graph.root
    if root is None:
        return  # a boolean says what it means

    if against := certain.against(root, kinds):
        is_other = certain.against(root, KINDS) is None
        words = f"{against.words}; {NO_OBJECT}" if is_other else against.words
        raise ContractError(f"no value can ever fit {what}: {words}", path=against.place)

    without = search.places_without_example(root, kinds, certain)
    if not without:
        return

    known = set(map(id, without))
    smallest = [each for each in without if known.isdisjoint(id(one.target) for one in each.edges)]
    places = smallest or without[-1:]
    part = what if root in without else f"a part of {what}"
    message = [f"no example of {part} could be built; it may admit nothing"]
    if root not in without and all(map(certain.excludes, places)):
        message = [f"no value can ever fit {part}"]

    for place in places[:MAX_SHOWN]:
        reason = certain.against(place, KINDS)
        told = f"{reason.place}: {reason.words}" if reason else place.pointer
        message += [told] if told else []

    if len(places) > MAX_SHOWN:
        message.append(f"and {len(places) - MAX_SHOWN} more")

    if root in without and is_strangers:
        raise ContractError("; ".join(message))

    warn_of_declaration("; ".join(message))


def _simplified(document: Document) -> Document:
    """Copy a schema without what examples seldom meet: odd patterns, and many different items.

    The copy admits all that the schema admits.
    """
    copy = read_document(document)
    graph = Graph(copy)
    open_nodes = [node for node in graph.nodes if not listed_values(node.schema)]
    odd = {id(each): each for node in open_nodes for each in _odd_texts(node)}
    changed: list[Node] = []

    for node in open_nodes:
        left_out = {"uniqueItems"} & node.schema.keys()
        left_out |= {"pattern"} & node.schema.keys() if id(node) in odd else set[str]()
        for keyword in left_out if node.pointer is not None else ():
            del node.schema[keyword]
            changed.append(node)

    widen_around(graph, changed)
    return copy


def _odd_texts(node: Node) -> list[Node]:
    """Return the schemas with a pattern for which no text is known that fits what is with it."""
    conditions = [edge.target for edge in node.edges if edge.keyword in ("allOf", "$ref", "not")]
    texts = [each for each in (node, *conditions) if "pattern" in each.schema]
    return [] if texts == [node] and has_known_text(node.schema) else texts


def _is_judged(edge: SchemaEdge) -> bool:
    """Return whether an edge leads to a schema of the document that values have to fit."""
    is_held = edge.applies is not Applies.NOWHERE and edge.target.pointer is not None
    return is_held and edge.keyword not in ("not", "if")


class _Search:
    """The search for examples of a schema and its parts."""

    def __init__(self, declared: Declared, work: Work) -> None:
        document = _simplified(declared.enforced)
        engine = engine_for(document, formats=declared.formats)
        self.graph: Graph = Graph(document)
        self._parts = SchemaParts(self.graph, engine)
        self._load = declared.load
        self._work = work
        self.is_newest: bool = self._parts.draft == DRAFT_2020
        root = self.graph.root
        # what a part with dynamic references means depends on its caller
        is_known = root is not None and not self._parts.is_dynamic
        self.nodes: list[Node] = joined([root], _is_judged) if root and is_known else []

    def fits(self, node: Node, value: Any, work: Work) -> bool:
        """Return whether a value fits a schema of the document; raise Spent without work left."""
        judged = size_of(value, MAX_JUDGED // self._load + 1) * self._load
        work.take(judged // JUDGED_PER_STEP)
        key = (id(node.schema),)
        if not self._parts.has(key):
            work.take(COMPILING + len(joined([node], _is_judged)))

        engine = self._parts.engine(key, {"allOf": [self._parts.refer(node.schema)]})
        try:
            return engine.is_valid(value)
        except (ValueError, TypeError, OverflowError, RecursionError):
            return False

    def places_without_example(
        self, root: Node, kinds: frozenset[str], certain: _Certain
    ) -> list[Node]:
        """Return the places for which no example fits, those near the root first."""
        pending = [root]
        seen = {id(root)}
        without: list[Node] = []

        for node in pending:  # grows while it is walked
            wanted = kinds if node is root else KINDS
            is_certain = certain.excludes(node)
            if not is_certain and self._has_example(node, wanted, full=True):
                continue

            is_meant = excludes_all(node.schema)
            if is_certain or not self._has_example(node, wanted, full=False):
                without += [] if is_meant else [node]

            below = [edge.target for edge in node.edges if _is_judged(edge)]
            pending += [each for each in below if id(each) not in seen and self.nodes]
            seen.update(map(id, below))

        return without

    def _has_example(self, node: Node, kinds: frozenset[str], *, full: bool) -> bool:
        """Return whether an example fits, also where no work is left to find one."""
        if kinds is KINDS and _is_plain(node):
            return True  # else it is certain that none does

        kind = next(iter(kinds)) if len(kinds) == 1 else ""
        made = proposals(node, full=full, kind=kind, work=self._work)
        values = islice(made, 1) if full else chain(made, _listed_in(node.judges()), SIMPLE)
        with suppress(Spent):
            for value in values:
                if json_type(value) in kinds and self.fits(node, value, self._work):
                    return True

            self._work.take()
            return False

        return True


class _Reason(NamedTuple):
    """Why nothing fits a place; ``cause`` is the schema that has the reason behind it."""

    place: str
    words: str
    cause: Node | None = None


class _Conjoined(NamedTuple):
    """Schemas that judge one value together: ``heads`` and all that they refer to."""

    heads: list[Node]
    nodes: list[Node]
    kinds: frozenset[str]  # that are left for the value

    def holding(self, keyword: str) -> list[tuple[Node, Any]]:
        """Return the schemas that have a keyword, with its value."""
        return [(node, node.schema[keyword]) for node in self.nodes if keyword in node.schema]

    def most(self, keyword: str) -> Any:
        """Return the largest value of a keyword, 0 where it is nowhere."""
        return max((value for _, value in self.holding(keyword)), default=0)


class _Certain:
    """The schemas that nothing fits for certain.

    ``unclosed`` holds the author's own statements about other members.
    """

    def __init__(self, search: _Search, unclosed: Document) -> None:
        self._search = search
        self._unclosed = unclosed
        self._work = Work()
        self._reasons = {id(node): _Reason(node.pointer or "", "", node) for node in search.nodes}

        try:
            self._settle()
        except Spent:
            self._reasons.clear()

    def _settle(self) -> None:
        """Let go of each schema that something may fit, until there is no other."""
        before = 0
        while before != len(self._reasons):
            before = len(self._reasons)
            for node in reversed(self._search.nodes):
                if id(node) in self._reasons:
                    reason = self._first([node], KINDS)
                    if reason is None:
                        del self._reasons[id(node)]
                    else:
                        self._reasons[id(node)] = reason

    def excludes(self, node: Node) -> bool:
        """Return whether nothing fits a schema."""
        return id(node) in self._reasons

    def against(self, node: Node, kinds: frozenset[str]) -> _Reason | None:
        """Return why no value of ``kinds`` can fit a schema, None when one may."""
        reason = self._reasons.get(id(node))
        with suppress(Spent):
            if reason is None and kinds is not KINDS and self._search.nodes:
                reason = self._first([node], kinds)

        seen = set[int]()
        while reason and reason.cause and id(reason.cause) not in seen:
            seen.add(id(reason.cause))
            reason = self._reasons[id(reason.cause)]

        if reason and reason.cause:
            return reason._replace(words="it must contain itself, without end")
        return reason

    def _first(
        self, heads: list[Node], kinds: frozenset[str], *, unions: bool = True
    ) -> _Reason | None:
        """Return the first reason why no value of ``kinds`` can fit some schemas together."""
        nodes = conjoined_with(heads)
        self._work.take(len(nodes))
        rules = [_by_nothing, self._by_value, _by_bounds, self._by_members, self._by_items]
        rules += [self._by_unions] if unions else []

        with suppress(*UNFIT):
            for node in nodes:
                types = as_list(node.schema.get("type", list(KINDS)))
                kinds &= NUMBERS.union(types) if "number" in types else frozenset(types)
                if not kinds:
                    words = f"it must be {types_words(types)}, but its other rules require another"
                    return _Reason(_place(node, "type"), f"{words} type")

            at = _Conjoined(heads, nodes, kinds)
            return next(chain.from_iterable(rule(at) for rule in rules), None)

        return None

    def _by_value(self, at: _Conjoined) -> Iterator[_Reason]:
        holders = [*at.holding("const"), *at.holding("enum")]
        for node, _ in holders[:1]:
            listed = listed_values(node.schema)
            self._work.take(len(listed) // LISTED_PER_STEP)
            fitting = [value for value in listed if json_type(value) in at.kinds]
            for head in (head for head in at.heads if head is not node or not _is_plain(head)):
                fitting = [each for each in fitting if self._search.fits(head, each, self._work)]

            if not fitting:
                words = "no value that it lists fits the rules beside it"
                words = words if listed else "it lists no value"
                yield _Reason(_place(node, "const" if "const" in node.schema else "enum"), words)

    def _by_members(self, at: _Conjoined) -> Iterator[_Reason]:
        if at.kinds != OBJECT:
            return

        required = [(node, name) for node, names in at.holding("required") for name in names]
        self._work.take(len(required) * len(at.nodes) // LISTED_PER_STEP)
        for node, described in at.holding("properties"):
            for name in (name for _, name in required if name in described):
                what = f"the required key {word(name)}"
                yield from self._below(described[name], _place(node, "properties", name), what)

        for node, others in at.holding("additionalProperties"):
            if others is not False or node.schema.get("patternProperties"):
                continue

            described = node.schema.get("properties", {})
            written = at_pointer(self._unclosed, pointer_tokens(node.pointer or ""))
            is_ours = "additionalProperties" not in written
            why = CLOSED_BY_US if is_ours else "additionalProperties admits no others"
            for holder, name in required:
                if name not in described:
                    words = f"the key {word(name)} is required, but {why}"
                    yield _Reason(_place(holder, "required"), words)

            if at.most("minProperties") > len(described):
                words = f"at least {word(at.most('minProperties'))} keys are required, but {why}"
                yield _Reason(_place(node, "additionalProperties"), words)

    def _by_items(self, at: _Conjoined) -> Iterator[_Reason]:
        for node in at.nodes if at.kinds == ARRAY else ():
            least = math.ceil(at.most("minItems"))
            listed = node.schema.get("prefixItems", []) if self._search.is_newest else []
            for index, item in enumerate(listed[:least]):
                place = _place(node, "prefixItems", str(index))
                yield from self._below(item, place, f"item {index}")

            if least > len(listed):
                yield from self._below(node.schema.get("items"), _place(node, "items"), "each item")

    def _below(self, schema: Any, place: str, what: str) -> Iterator[_Reason]:
        """Yield the reason why a place below, which must be there, can have no value."""
        node = self._search.graph.find(schema)
        if schema is False or (node is not None and excludes_all(node.schema)):
            yield _Reason(place, f"{what} is forbidden")
        elif id(node) in self._reasons:
            yield _Reason(place, f"{what} can be no value", node)

    def _by_unions(self, at: _Conjoined) -> Iterator[_Reason]:
        for keyword in ("anyOf", "oneOf"):
            for node, forms in at.holding(keyword):
                place = _place(node, keyword)
                reasons = [self._of_form(form, place, at) for form in forms]
                if all(reasons):
                    yield from filter(None, reasons[-1:])

    def _of_form(self, form: Any, place: str, at: _Conjoined) -> _Reason | None:
        node = self._search.graph.find(form)
        if node is None:
            return _Reason(place, "no form fits") if form is False else None
        if id(node) in self._reasons:
            return _Reason(place, "no form fits", node)

        reason = self._first([*at.heads, node], at.kinds, unions=False)
        words = f"this alternative can never match: {reason.words}" if reason else ""
        return reason and _Reason(node.pointer or "", words)


def _by_nothing(at: _Conjoined) -> Iterator[_Reason]:
    for node in at.nodes:
        if excludes_all(node.schema):
            yield _Reason(_place(node, "not"), "it excludes every value")
        if any(each is False for each in node.schema.get("allOf", ())):
            yield _Reason(_place(node, "allOf"), "it allows no value")


def _by_bounds(at: _Conjoined) -> Iterator[_Reason]:
    for kinds, least, most, is_nothing in BOUNDS:
        for _, low in at.holding(least) if at.kinds <= kinds else ():
            for node, high in at.holding(most):
                if is_nothing(low, high):
                    words = f"nothing has {least} {word(low)} and {most} {word(high)}"
                    yield _Reason(_place(node, most), words)


def _is_plain(node: Node) -> bool:
    """Return whether all that a schema says is a type and a list of values."""
    return node.schema.keys() <= PLAIN and not {"enum", "const"} <= node.schema.keys()


def _listed_in(nodes: list[Node]) -> list[Any]:
    return [value for node in nodes for value in listed_values(node.schema)]


def _place(node: Node, *tokens: str) -> str:
    return pointer(node.pointer or "", *tokens)
