"""The parts of one schema, each usable by itself: whether a value fits it, and an example made from it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote

from strictreply.schema import Schema
from strictreply.schema._documents import Document
from strictreply.schema._engines import engine_for
from strictreply.schema._faults import Engine
from strictreply.schema._graph import Graph, Node
from strictreply.schema._upgrade import upgraded
from strictreply.schema._vocabulary import DRAFT_2020, REFERENCES
from strictreply.values._errors import ContractError
from strictreply.values._json import JSON, JSONObject

_ID = "urn:strictreply:whole"
_DEFINITIONS = ("$defs", "definitions")


MAX_REMEMBERED = 64


@lru_cache(maxsize=MAX_REMEMBERED)
def subschemas_of(schema: Schema) -> Subschemas:
    """Take a schema apart, once."""
    return Subschemas(schema.closed)


class Subschemas:
    """The sub-schemas of a document, in the vocabulary of 2020-12, compiled when they are first asked for."""

    def __init__(self, document: Document) -> None:
        """Take a schema as it is enforced: with its objects closed."""
        self.graph = Graph(upgraded(document))
        self._fitting: dict[int, Engine | None] = {}
        self._matching: dict[str, Engine] = {}
        self._examples: dict[tuple[object, ...], list[JSON]] = {}

    def fits(self, node: Node, value: JSON) -> bool:
        """Say whether a value fits a sub-schema; False where that cannot be asked."""
        if id(node) not in self._fitting:
            self._fitting[id(node)] = self._engine(node)
        engine = self._fitting[id(node)]
        try:
            return engine is not None and engine.is_valid(value)
        except (ValueError, TypeError, OverflowError, RecursionError):
            return False

    def matches(self, pattern: str, name: str) -> bool:
        """Say whether a member's name matches a pattern of ``patternProperties``."""
        if pattern not in self._matching:
            self._matching[pattern] = engine_for({"pattern": pattern}, formats=False)
        return self._matching[pattern].is_valid(name)

    def examples(self, *nodes: Node, also: JSONObject | None = None) -> list[JSON]:
        """Make a small value that fits all of some sub-schemas, and ``also`` when given; empty when none was found."""
        key = (*map(id, nodes), str(also))
        if key not in self._examples:
            self._examples[key] = self._made(nodes, also)
        return self._examples[key]

    def _made(self, nodes: tuple[Node, ...], also: JSONObject | None) -> list[JSON]:
        """Make the example."""
        try:
            schema = Schema.compile(self._standing_alone(*nodes, also=also), extra="schema")
        except ContractError:  # such as more work than is bearable, when parts are combined
            return []
        value = schema.example()
        return [] if value is None and schema.check(None) else [value]

    def _engine(self, node: Node) -> Engine | None:
        """Compile one sub-schema; None for one that stands in another document."""
        if node.pointer is None:
            return None
        try:
            return engine_for(self._standing_alone(node), formats=True)
        except ContractError:
            return None

    def _standing_alone(self, *nodes: Node, also: JSONObject | None = None) -> Document:
        """Write a document that says what some sub-schemas say, with no more of the whole than they refer to."""
        document = self.graph.document
        if isinstance(document, bool):
            return document
        parts: list[JSONObject] = [also] if also else []
        needed = _definitions(nodes, document)
        if needed is not None:
            parts += [node.schema for node in nodes]
            return {"$schema": document.get("$schema", DRAFT_2020), "allOf": parts, **needed}
        name = str(document.get("$id", _ID)).rstrip("#")
        parts += [{"$ref": f"{name}#{quote(node.pointer)}"} for node in nodes if node.pointer is not None]
        whole = {"$defs": {"whole": {**document, "$id": name}}}
        return {"$schema": document.get("$schema", DRAFT_2020), "allOf": parts, **whole}


def _definitions(nodes: Iterable[Node], document: JSONObject) -> JSONObject | None:
    """Give the definitions that some sub-schemas need; None when they refer to anything but definitions."""
    needed: dict[str, JSONObject] = {}
    reached = {id(node): node for node in nodes}
    pending = list(reached.values())
    for node in pending:  # grows while it is walked
        for reference in (node.schema[keyword] for keyword in REFERENCES if keyword in node.schema):
            keyword, _, name = str(reference).removeprefix("#/").partition("/")
            definition = document.get(keyword, {}).get(name) if keyword in _DEFINITIONS else None
            if definition is None:
                return None
            needed.setdefault(keyword, {})[name] = definition
        for target in (edge.target for edge in node.edges if id(edge.target) not in reached):
            reached[id(target)] = target
            pending.append(target)
    return None if any("$id" in node.schema and node.schema is not document for node in pending) else needed
