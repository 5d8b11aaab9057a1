"""The sub-schemas of a document as a graph: which one applies to what, with references followed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from strictreply.schema._documents import Document
from strictreply.schema._references import Scope, scope_of
from strictreply.schema._vocabulary import REFERENCES, Applies, children, draft_of, ignores_siblings
from strictreply.values._errors import ContractError
from strictreply.values._issues import pointer


@dataclass(slots=True, eq=False)
class Node:
    """One object schema; ``pointer`` is its place in the document, None inside a published metaschema."""

    schema: dict[str, Any]
    pointer: str | None
    scope: Scope
    edges: list[Edge] = field(default_factory=list)

    def along(self, *applies: Applies) -> Iterator[Edge]:
        """Give the edges that apply to the named kinds of place."""
        return (edge for edge in self.edges if edge.applies in applies)


@dataclass(slots=True, eq=False)
class Edge:
    """``keyword`` of a node leads to ``target``; ``token`` is the name or index below the keyword, or None."""

    keyword: str
    token: str | int | None
    applies: Applies
    target: Node


class Graph:
    """Every object schema of a document, and of what it references, once."""

    __slots__ = ("_by_id", "_dynamic", "_places", "_silencing", "document", "nodes", "root")

    def __init__(self, document: Document) -> None:
        """Walk the document; raises ContractError at a reference that leads nowhere or out of the document."""
        self._places = dict(_places(document, ""))
        self.document = document
        self._silencing = ignores_siblings(draft_of(document))
        self._by_id: dict[int, Node] = {}
        self._dynamic: list[tuple[Node, str]] = []
        self.nodes: list[Node] = []
        self.root: Node | None = self._node(document, scope_of(document)) if isinstance(document, dict) else None
        for node in self.nodes:  # grows while it is walked
            self._connect(node)
        self._connect_dynamic()

    def find(self, schema: object) -> Node | None:
        """Give the node of a sub-schema by identity; None for booleans and what is no part of the document."""
        return self._by_id.get(id(schema))

    def _node(self, schema: dict[str, Any], scope: Scope) -> Node:
        """Give the one node of ``schema``, which is new when it was not met before."""
        known = self._by_id.get(id(schema))
        if known is None:
            known = self._by_id[id(schema)] = Node(schema, self._places.get(id(schema)), scope.inside(schema))
            self.nodes.append(known)
        return known

    def _connect(self, node: Node) -> None:
        """Add the edges to children and to what is referenced."""
        silenced = self._silencing and "$ref" in node.schema
        for keyword, token, schema, applies in children(node.schema):
            if not isinstance(schema, dict) or (silenced and applies is not Applies.NOWHERE):
                continue
            node.edges.append(Edge(keyword, token, applies, self._node(schema, node.scope)))
        for keyword in REFERENCES:
            reference = node.schema.get(keyword)
            if isinstance(reference, str):
                self._refer(node, keyword, reference)

    def _refer(self, node: Node, keyword: str, reference: str) -> None:
        """Follow one reference."""
        found = node.scope.lookup(reference)
        if found is None:
            message = f"{keyword} {reference!r} leads nowhere inside the schema; nothing is fetched"
            message = f"{message}: {self._advice(reference)}"
            raise ContractError(message, path=pointer(node.pointer or "", keyword))
        if isinstance(found.schema, dict):
            node.edges.append(Edge(keyword, None, Applies.HERE, self._node(found.schema, found.scope)))
        if keyword != "$ref":
            self._dynamic.append((node, reference.rpartition("#")[2]))

    def _advice(self, reference: str) -> str:
        """Say what to write instead of a reference that leads nowhere."""
        name = reference.rpartition("/")[2].removeprefix("#")
        for holder in ("$defs", "definitions"):
            if isinstance(self.document, dict) and name in _mapping(self.document.get(holder)):
                return f"did you mean {f'#/{holder}/{name}'!r}?"
        return "put what it refers to into $defs and point there, #/$defs/…"

    def _connect_dynamic(self) -> None:
        """Lead dynamic references to every place they may mean, since the caller's path decides at run time."""
        anchored: dict[str, list[Node]] = {}
        for node in self.nodes:
            anchor = "" if node.schema.get("$recursiveAnchor") is True else node.schema.get("$dynamicAnchor")
            if isinstance(anchor, str):
                anchored.setdefault(anchor, []).append(node)
        for node, anchor in self._dynamic:
            targets = {id(edge.target) for edge in node.edges if edge.keyword in REFERENCES}
            for target in anchored.get(anchor, ()):
                if id(target) not in targets:
                    node.edges.append(Edge("$dynamicRef", None, Applies.HERE, target))


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _places(value: object, path: str) -> Iterator[tuple[int, str]]:
    """Give the JSON Pointer of every object in a document, by identity."""
    pending = [(value, path)]
    while pending:
        value, path = pending.pop()
        if isinstance(value, dict):
            yield id(value), path
            pending.extend((member, pointer(path, name)) for name, member in value.items())
        elif isinstance(value, list):
            pending.extend((item, pointer(path, index)) for index, item in enumerate(value))
