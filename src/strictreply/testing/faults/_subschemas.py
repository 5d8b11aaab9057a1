"""The sub-schemas of one document: what fits them, and examples made from them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

from strictreply.schema import Schema
from strictreply.schema._documents import Document, Graph, Node, SchemaEdge
from strictreply.schema._engines import SchemaParts, engine_for
from strictreply.schema._example import proposals
from strictreply.schema._upgrade import upgraded
from strictreply.schema._vocabulary import Applies
from strictreply.values._json import JSON, JSONObject
from strictreply.values._limits import Work


@lru_cache(maxsize=64)
def subschemas_of(schema: Schema) -> Subschemas:
    """Return the sub-schemas of a schema as it is enforced, with its objects closed; the same ones when asked again."""
    return Subschemas(schema.closed)


class Subschemas:
    """The sub-schemas of a document, in the vocabulary of 2020-12, compiled when they are first asked for."""

    def __init__(self, document: Document) -> None:
        self.graph: Graph = Graph(upgraded(document))
        self._parts = SchemaParts(self.graph, engine_for(self.graph.document, formats=True))
        self._examples: dict[tuple[object, ...], list[JSON]] = {}

    def fits(self, node: Node, value: JSON) -> bool:
        """Report whether a value fits a sub-schema; False where that cannot be asked."""
        here = node.pointer is not None  # else it stands in another document
        return here and self._is_valid(node, {"allOf": [self._parts.refer(node.schema)]}, value)

    def examples(self, *nodes: Node, also: JSONObject | None = None) -> list[JSON]:
        """Make a small value that fits all of some sub-schemas, and ``also`` when given; empty when none was found."""
        key = (*nodes, str(also))
        if key not in self._examples:
            self._examples[key] = list(islice(self._fitting_examples(nodes, also or {}), 1))
        return self._examples[key]

    def _fitting_examples(self, nodes: tuple[Node, ...], also: JSONObject) -> Iterator[JSON]:
        graph = Graph(also)
        if graph.root is not None:
            graph.root.edges.extend(SchemaEdge("allOf", None, Applies.HERE, node) for node in nodes)
        for value in proposals(graph):
            if self._is_valid(str(also), also, value) and all(self.fits(node, value) for node in nodes):
                yield value

    def below(self, node: Node, token: str | int) -> Iterator[Node]:
        """Return the sub-schemas that a sub-schema has for one member or item."""
        schema = node.schema
        if isinstance(token, int):
            spoken = token < len(schema.get("prefixItems", ()))
            named: set[tuple[str, object]] = {("prefixItems", token)}
            others = ("items", "unevaluatedItems")
        else:
            patterns = [text for text in schema.get("patternProperties", ()) if self._matches(text, token)]
            spoken = token in schema.get("properties", ()) or bool(patterns)
            named = {("properties", token), *(("patternProperties", text) for text in patterns)}
            others = ("additionalProperties", "unevaluatedProperties")
        for edge in node.along(Applies.MEMBER if isinstance(token, str) else Applies.ITEM):
            if (edge.keyword, edge.token) in named or (not spoken and edge.keyword in others):
                yield edge.target

    def _matches(self, pattern: str, name: str) -> bool:
        return self._is_valid(pattern, {"pattern": pattern}, name)

    def _is_valid(self, key: object, schema: dict[str, Any], value: JSON) -> bool:
        try:
            return self._parts.engine((key,), schema, Work()).is_valid(value)
        except (ValueError, TypeError, OverflowError, RecursionError):
            return False
