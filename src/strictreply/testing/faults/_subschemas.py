"""The sub-schemas of one document: what fits them, examples made from them, and which of them govern a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

from strictreply.schema import Schema
from strictreply.schema._documents import Document, Graph, Node
from strictreply.schema._engines import SchemaEngine, engine_for
from strictreply.schema._upgrade import upgraded
from strictreply.schema._vocabulary import DRAFT_2020, REFERENCES, Applies, json_type
from strictreply.values._errors import ContractError
from strictreply.values._json import JSON, JSONObject

_ID = "urn:strictreply:whole"
_DEFINITIONS = ("$defs", "definitions")


@lru_cache(maxsize=64)
def subschemas_of(schema: Schema) -> Subschemas:
    """Return the sub-schemas of a schema as it is enforced, with its objects closed; the same ones when asked again."""
    return Subschemas(schema.closed)


class Subschemas:
    """The sub-schemas of a document, in the vocabulary of 2020-12, compiled when they are first asked for."""

    def __init__(self, document: Document) -> None:
        """Take a schema as it is enforced: with its objects closed."""
        self.graph: Graph = Graph(upgraded(document))
        self._fitting: dict[int, SchemaEngine | None] = {}
        self._matching: dict[str, SchemaEngine] = {}
        self._examples: dict[tuple[object, ...], list[JSON]] = {}

    def fits(self, node: Node, value: JSON) -> bool:
        """Report whether a value fits a sub-schema; False where that cannot be asked."""
        if id(node) not in self._fitting:
            self._fitting[id(node)] = self._engine(node)
        engine = self._fitting[id(node)]
        try:
            return engine is not None and engine.is_valid(value)
        except (ValueError, TypeError, OverflowError, RecursionError):
            return False

    def matches(self, pattern: str, name: str) -> bool:
        """Report whether a member's name matches a pattern of ``patternProperties``."""
        if pattern not in self._matching:
            self._matching[pattern] = engine_for({"pattern": pattern}, formats=False)
        return self._matching[pattern].is_valid(name)

    def examples(self, *nodes: Node, also: JSONObject | None = None) -> list[JSON]:
        """Make a small value that fits all of some sub-schemas, and ``also`` when given; empty when none was found."""
        key = (*map(id, nodes), str(also))
        if key not in self._examples:
            self._examples[key] = self._example(nodes, also)
        return self._examples[key]

    def _example(self, nodes: tuple[Node, ...], also: JSONObject | None) -> list[JSON]:
        try:
            schema = Schema.compile(self._standing_alone(*nodes, also=also), extra="schema")
        except ContractError:  # such as more work than is bearable, when parts are combined
            return []
        value = schema.example()
        return [] if value is None and schema.check(None) else [value]

    def _engine(self, node: Node) -> SchemaEngine | None:
        if node.pointer is None:  # it stands in another document
            return None
        try:
            return engine_for(self._standing_alone(node), formats=True)
        except ContractError:
            return None

    def _standing_alone(self, *nodes: Node, also: JSONObject | None = None) -> Document:
        # A document that says what some sub-schemas say, with no more of the whole than they refer to.
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
    """Return the definitions that some sub-schemas need; None when they refer to anything but definitions."""
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


class GoverningSchema(NamedTuple):
    """A sub-schema that governs a value; ``conditional`` when it does so because of what else is there."""

    node: Node
    conditional: bool

    @property
    def schema(self) -> JSONObject:
        """The sub-schema itself."""
        return self.node.schema


@dataclass(frozen=True, slots=True)
class GovernedValue:
    """A value that fits, and every sub-schema that governs it.

    ``parts`` are the sub-schemas of the document, to be asked for other values.
    """

    value: Any
    governing: tuple[GoverningSchema, ...]
    parts: Subschemas = field(repr=False)

    @property
    def kind(self) -> str:
        """The JSON type of the value."""
        return json_type(self.value)

    def rules(self, *keywords: str, conditional: bool | None = None) -> Iterator[Any]:
        """Return what the schema says here under some keywords, for each sub-schema that says it.

        ``conditional`` asks only for sub-schemas that govern the place under a condition, or only for the others.
        """
        for one in self.governing:
            if conditional in (None, one.conditional):
                yield from (one.schema[keyword] for keyword in keywords if keyword in one.schema)

    def states(self, *keywords: str) -> bool:
        """Report whether the schema says anything here under some keywords."""
        return any(keyword in one.schema for one in self.governing for keyword in keywords)

    def listed(self, keyword: str, *, conditional: bool | None = None) -> Iterator[Any]:
        """Return what the lists under a keyword hold, such as every value of ``enum``."""
        for rule in self.rules(keyword, conditional=conditional):
            yield from rule if isinstance(rule, list) else ()

    def nodes(self, keyword: str) -> Iterator[Node]:
        """Return the sub-schemas below a keyword."""
        yield from (edge.target for one in self.governing for edge in one.node.edges if edge.keyword == keyword)

    def below(self, token: str | int) -> list[Node]:
        """Return the sub-schemas of one member or item, whether the value has it or not."""
        if isinstance(token, str):
            return [node for one in self.governing for node in _of_member(one.node, token, self.parts)]
        return [node for one in self.governing for node in _of_item(one.node, token)]

    def unnamed(self) -> Iterator[str]:
        """Return a name for each kind of member that the object here may have but that has no name in the schema."""
        names = list(self.nodes("propertyNames"))
        for edge in (edge for one in self.governing for edge in one.node.along(Applies.MEMBER)):
            if edge.keyword == "patternProperties":
                like: JSONObject = {"type": "string", "pattern": edge.token}
                yield from map(str, self.parts.examples(*names, also=like))
            elif edge.keyword in ("additionalProperties", "unevaluatedProperties"):
                yield from [*map(str, self.parts.examples(*names)), "key"][:1]

    def examples(self, *nodes: Node, also: JSONObject | None = None) -> list[JSON]:
        """Make a value that fits this place and some other sub-schemas; empty when none was found."""
        return self.parts.examples(self.governing[0].node, *nodes, also=also)

    def examples_below(self, token: str | int) -> list[JSON]:
        """Make a value for a member or an item; empty when none was found, or the schema has no say about it."""
        nodes = self.below(token)
        return self.parts.examples(*nodes) if nodes else []


def governed(nodes: Iterable[Node], value: JSON, parts: Subschemas) -> GovernedValue:
    """Find what governs a value that some sub-schemas are known to apply to."""
    found: dict[int, GoverningSchema] = {}
    pending = [GoverningSchema(node, conditional=False) for node in nodes]
    for one in pending:  # grows while it is walked
        if id(one.node) not in found:
            found[id(one.node)] = one
            pending.extend(_beside(one, value, parts))
    return GovernedValue(value, tuple(found.values()), parts)


def _beside(governing: GoverningSchema, value: JSON, parts: Subschemas) -> Iterator[GoverningSchema]:
    """Return the sub-schemas that apply to the same value, as it is."""
    edges = list(governing.node.along(Applies.HERE))
    met = "then" if all(parts.fits(edge.target, value) for edge in edges if edge.keyword == "if") else "else"
    for edge in edges:
        match edge.keyword:
            case "$ref" | "allOf":
                yield GoverningSchema(edge.target, governing.conditional)
            case "anyOf" | "oneOf" | "$dynamicRef" | "$recursiveRef" if parts.fits(edge.target, value):
                yield GoverningSchema(edge.target, governing.conditional)
            case "then" | "else" if edge.keyword == met and "if" in governing.schema:
                yield GoverningSchema(edge.target, conditional=True)
            case "dependentSchemas" if isinstance(value, dict) and edge.token in value:
                yield GoverningSchema(edge.target, conditional=True)
            case _:
                pass


def _of_member(node: Node, name: str, parts: Subschemas) -> Iterator[Node]:
    patterns = [text for text in node.schema.get("patternProperties", ()) if parts.matches(text, name)]
    spoken = name in node.schema.get("properties", ()) or bool(patterns)
    for edge in node.along(Applies.MEMBER):
        named = edge.keyword == "properties" and edge.token == name
        matched = edge.keyword == "patternProperties" and edge.token in patterns
        other = edge.keyword in ("additionalProperties", "unevaluatedProperties") and not spoken
        if named or matched or other:
            yield edge.target


def _of_item(node: Node, index: int) -> Iterator[Node]:
    first = len(node.schema.get("prefixItems", ()))
    for edge in node.along(Applies.ITEM):
        named = edge.keyword == "prefixItems" and edge.token == index
        other = edge.keyword in ("items", "unevaluatedItems") and index >= first
        if named or other:
            yield edge.target
