"""Finds parts of a schema that certainly accept nothing.

It tracks the kinds of values that the rules leave, and tries only listed values (``enum``). It may
miss contradictions, so ``Schema.require_example`` also tries to build examples.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from strictreply.schema._documents import (
    Document,
    Graph,
    Node,
    SchemaEdge,
    conjoined_with,
    joined,
    read_document,
)
from strictreply.schema._engines import SchemaParts, listed_values
from strictreply.schema._examining import Examination
from strictreply.schema._explaining import excludes_all
from strictreply.schema._linear import widen_around
from strictreply.schema._vocabulary import TYPES, Applies, as_list, json_type, list_words, word
from strictreply.values._errors import ContractError
from strictreply.values._issues import pointer
from strictreply.values._limits import Spent, Work

Kinds: TypeAlias = frozenset[
    str
]  # types of values, where "number" means one that is not an integer
KINDS: Kinds = frozenset(TYPES)
NUMBERS: Kinds = frozenset({"integer", "number"})
# By kind: the keyword of the minimum, that of the maximum, and when nothing is between them.
BOUNDS = (
    (NUMBERS, "minimum", "maximum", operator.gt),
    (NUMBERS, "exclusiveMinimum", "maximum", operator.ge),
    (NUMBERS, "minimum", "exclusiveMaximum", operator.ge),
    (NUMBERS, "exclusiveMinimum", "exclusiveMaximum", operator.ge),
    ({"string"}, "minLength", "maxLength", operator.gt),
    ({"array"}, "minItems", "maxItems", operator.gt),
    ({"object"}, "minProperties", "maxProperties", operator.gt),
)
UNDECIDED = ("pattern", "uniqueItems")  # examples are not made to fit these
PER_STEP = 8  # listed values, or required keys, that are examined in one step of work
NO_OBJECT = "it allows no object; declare it with Tool.from_json_schema(…, wrap_root=True)"
WAY_ON = 'list them in properties, or declare with extra="schema"'
# A schema in an unknown place may raise these, because the metaschema does not check it.
UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Contradiction(NamedTuple):
    """A keyword that makes its schema impossible to fit, and why."""

    place: str
    words: str


def simplified(document: Document) -> Document:
    """Return a copy of a schema without the rules that examples are not made for.

    The copy accepts everything that the schema accepts.
    """
    copy = read_document(document)
    graph = Graph(copy)
    own = (node for node in graph.nodes if node.pointer is not None)
    changed = [node for node in own if not node.schema.keys().isdisjoint(UNDECIDED)]
    changed = [node for node in changed if not listed_values(node.schema)]
    for node in changed:
        for keyword in UNDECIDED:
            node.schema.pop(keyword, None)

    widen_around(graph, changed)
    return copy


class KindTable:
    """The kinds of values that may fit each schema; with none, no value can fit.

    Each schema counts as impossible until some value for it is found, so a schema that requires
    itself stays impossible. If the work is used up, everything counts as possible.
    """

    def __init__(self, parts: SchemaParts, root: Node, wanted: Kinds) -> None:
        self._graph = parts.graph
        self._work = Work()
        self._examination = Examination(parts, self._work)
        # the meaning of a dynamic reference depends on its caller
        self._nodes = [root] if parts.is_dynamic else joined([root], _is_judged)
        self._known = {id(node): (Kinds(), Contradiction("", "")) for node in self._nodes}
        self._root = (wanted, Contradiction("", ""))

        before: dict[int, tuple[Kinds, Contradiction]] = {}
        try:
            while before != self._known:
                before = dict(self._known)
                for node in reversed(self._nodes):
                    self._known[id(node)] = self._left(node, KINDS)

            self._root = self._left(root, wanted)
        except Spent:
            self._known.clear()

    def require(self, root: Node, what: str) -> None:
        """Raise ContractError if certainly no value of the wanted kinds fits the schema."""
        kinds, reason = self._root
        if kinds:
            return

        place, words = next(iter(self.reasons()), reason)
        if self._of(root.schema):
            place = reason.place
            words = f"{reason.words}; {NO_OBJECT}"

        raise ContractError(f"no value can ever fit {what}: {words}", path=place)

    def reasons(self) -> list[Contradiction]:
        """Return why nothing fits the smallest impossible schemas that are not meant to be so."""
        described = (node for node in self._nodes if not excludes_all(node.schema))
        nodes = [node for node in described if not self._of(node.schema)]
        known = set(map(id, nodes))
        smallest = [node for node in nodes if known.isdisjoint(id(e.target) for e in node.edges)]
        places = [node.pointer or "" for node in nodes[:1]]
        endless = [Contradiction(place, "it must contain itself") for place in places]
        return [self._known[id(node)][1] for node in smallest] or endless

    def _left(self, node: Node, kinds: Kinds) -> tuple[Kinds, Contradiction]:
        """Return which of ``kinds`` may fit a schema, and the last rule that was examined."""
        reason = Contradiction("", "")
        with suppress(*UNFIT):
            for admitted, keyword, words in self._rules(node):
                reason = Contradiction(pointer(node.pointer or "", keyword), words)
                kinds &= admitted
                if not kinds:
                    break

        return kinds, reason

    def _rules(self, node: Node) -> Iterator[tuple[Kinds, str, str]]:
        """Yield the kinds that a rule may accept, its keyword, and why there are no others."""
        schema = node.schema
        types = as_list(schema.get("type", [*KINDS]))
        kinds = NUMBERS.union(types) if "number" in types else Kinds(types)
        yield kinds, "type", "it excludes every type"
        if excludes_all(schema):
            yield Kinds(), "not", "it excludes every value"
        for keyword in ("const", "enum"):
            if keyword in schema:
                words = "no listed value fits its other rules"
                yield self._listed(node), keyword, words

        for bound, least, most, is_nothing in BOUNDS:
            if least in schema and most in schema and is_nothing(schema[least], schema[most]):
                words = f"nothing has {least} {word(schema[least])} and {most} {word(schema[most])}"
                yield KINDS - bound, most, words

        yield from self._required(node)
        is_rest = schema.get("minItems", 0) > len(schema.get("prefixItems", ()))
        if is_rest and not self._of(schema.get("items")):
            yield KINDS - {"array"}, "items", "it requires items, and no item is allowed"

        for part in [*(target.schema for target in node.targets("$ref")), *schema.get("allOf", ())]:
            yield self._of(part), "allOf", "nothing fits all parts"
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                yield Kinds().union(*map(self._of, schema[keyword])), keyword, "no form can fit"

    def _listed(self, node: Node) -> Kinds:
        values = listed_values(node.schema)
        self._work.take(len(values) // PER_STEP)
        fitting = (value for value in values if self._examination.passes(node.schema, value))
        return Kinds(map(json_type, fitting))

    def _required(self, node: Node) -> Iterator[tuple[Kinds, str, str]]:
        required = node.schema.get("required", [])
        for schema in (each.schema for each in conjoined_with([node])):
            self._work.take(1 + len(required) // PER_STEP)
            listed = schema.get("properties", {})
            is_open = schema.get("additionalProperties") is not False
            is_open |= bool(schema.get("patternProperties"))

            refused = [name for name in required if not self._of(listed.get(name, is_open))]
            if refused:
                words = f"it requires keys that are not allowed, {list_words(refused)}: {WAY_ON}"
                yield KINDS - {"object"}, "required", words
            if not is_open and node.schema.get("minProperties", 0) > len(listed):
                words = f"it requires more keys than are allowed: {WAY_ON}"
                yield KINDS - {"object"}, "minProperties", words

    def _of(self, schema: object) -> Kinds:
        """Return the kinds of values that may fit a sub-schema or a boolean."""
        if schema is False:
            return Kinds()

        known = self._known.get(id(self._graph.find(schema)))
        return KINDS if known is None else known[0]


def _is_judged(edge: SchemaEdge) -> bool:
    """Return whether an edge leads to a schema of the document that values must fit."""
    is_rule = edge.applies is not Applies.NOWHERE and edge.target.pointer is not None
    return is_rule and edge.keyword not in ("not", "if")
