"""Reading a schema by places of the value: which part governs a place, and which member names there are."""

from __future__ import annotations

from strictreply.issues import pointer_tokens
from strictreply.schema.graph import Graph, Node
from strictreply.schema.vocabulary import Applies

MAX_REFERENCES = 16


def governing_node(graph: Graph, path: str) -> Node | None:
    """Give the schema that governs the value at a JSON Pointer, or None when that cannot be told."""
    node = graph.root
    for token in pointer_tokens(path):
        below = (_member(judge, token) for judge in judges_of(node)) if node else ()
        node = next((target for target in below if target), None)
    return resolved(node) if node else None


def member_names(graph: Graph) -> frozenset[str]:
    """Collect every member name that a schema speaks of, at any depth."""
    names: set[str] = set()
    for node in graph.nodes:
        for keyword in ("properties", "dependentRequired", "dependentSchemas", "dependencies"):
            members = node.schema.get(keyword)
            names.update(members if isinstance(members, dict) else ())
        lists = [node.schema.get("required"), *_values(node.schema.get("dependentRequired"))]
        lists += _values(node.schema.get("dependencies"))
        for listed in lists:
            names.update(name for name in (listed if isinstance(listed, list) else ()) if isinstance(name, str))
    return frozenset(names)


def judges_of(node: Node) -> list[Node]:
    """Give a schema and those that judge the same value with it, or may, nearest first."""
    judges = {id(node): node}
    pending = [node]
    for judge in pending:  # grows while it is walked
        for edge in judge.along(Applies.HERE):
            if edge.keyword not in ("not", "if") and id(edge.target) not in judges:
                judges[id(edge.target)] = edge.target
                pending.append(edge.target)
    return pending


def resolved(node: Node) -> Node:
    """Follow a schema that does nothing but refer to another."""
    for _ in range(MAX_REFERENCES):
        targets = [edge.target for edge in node.edges if edge.keyword == "$ref"]
        if len(targets) != 1 or "type" in node.schema or "properties" in node.schema:
            break
        node = targets[0]
    return node


def _member(node: Node, token: str) -> Node | None:
    """Give the schema of one member or item: the named one, else the one for all others."""
    others = None
    for edge in node.along(Applies.MEMBER, Applies.ITEM):
        if edge.keyword in ("properties", "prefixItems") and str(edge.token) == token:
            return edge.target
        index = edge.token if edge.keyword == "items" else None
        item = edge.applies is Applies.ITEM and token.isdigit() and edge.keyword in ("items", "additionalItems")
        if edge.keyword == "additionalProperties" or (item and (index is None or str(index) == token)):
            others = edge.target
    return others


def _values(members: object) -> list[object]:
    """Give the values of an object, nothing for anything else."""
    return list(members.values()) if isinstance(members, dict) else []
