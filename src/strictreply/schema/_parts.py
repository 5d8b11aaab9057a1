"""Reading a schema by places of the value: which part governs a place, and which member names there are."""

from __future__ import annotations

from strictreply.schema._graph import Graph, Node
from strictreply.schema._vocabulary import Applies
from strictreply.values._issues import pointer, pointer_tokens

MAX_REFERENCES = 16
MAX_WALKED = 500
MAX_HOMES = 2
"""The places of one name that are told: of more, none is likely to be the one that was meant."""


def governing_node(graph: Graph, path: str) -> Node | None:
    """Return the schema that governs the value at a JSON Pointer, or None when that cannot be told."""
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


def missing_members(graph: Graph, holder: object, path: tuple[str | int, ...], name: str) -> list[Node]:
    """Return the schemas of a member that ``holder`` misses in the object at ``path``.

    The holder's own and those it is composed of have the first say: another branch of a union may say otherwise.
    """
    node = graph.find(holder)
    named = [_member(judge, name) for judge in judges_of(node)] if node else []
    known = [resolved(target) for target in named if target]
    other = None if known else governing_node(graph, pointer("", *path, name))
    return known if other is None else [other]


def knows_member(node: Node, token: str) -> bool:
    """Return whether a schema, or one that judges the same value, says anything about a member or an item."""
    judges = judges_of(node)
    return any(token in judge.schema.get("properties", ()) or _member(judge, token) is not None for judge in judges)


def homes(graph: Graph) -> dict[str, list[str]]:
    """Return where in a value each member name may stand: the pointers of its objects, nearest first, the first four.

    In a pointer ``*`` stands for an index. Of a large schema the upper part is walked.
    """
    found: dict[str, list[str]] = {}
    pending = [(graph.root, "", frozenset[int]())] if graph.root else []
    for node, path, above in pending:  # grows while it is walked
        judges = judges_of(node)
        members = {
            name
            for judge in judges
            for name, member in judge.schema.get("properties", {}).items()
            if member is not False
        }
        for name in members:
            known = found.setdefault(name, [])
            known += [path] if len(known) <= MAX_HOMES + 1 else []
        inner = above | {id(judge) for judge in judges}
        for edge in (edge for judge in judges for edge in judge.along(Applies.MEMBER, Applies.ITEM)):
            named = edge.keyword == "properties"
            if (
                (named or edge.keyword in ("prefixItems", "items"))
                and id(edge.target) not in inner
                and len(pending) < MAX_WALKED
            ):
                pending.append((edge.target, pointer(path, str(edge.token) if named else "*"), inner))
    return found


def judges_of(node: Node) -> list[Node]:
    """Return a schema and those that judge the same value with it, or may, nearest first."""
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
    """Return the schema of one member or item: the named one, else the one for all others."""
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
    """Return the values of an object, nothing for anything else."""
    return list(members.values()) if isinstance(members, dict) else []
