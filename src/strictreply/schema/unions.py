"""Unions told apart: where a type or a tag names the branch that is meant, the others are not tried.

``anyOf`` and ``oneOf`` whose branches exclude one another become conditions with the same meaning. So a fault is
reported against the branch that was meant, and nested unions cost a sum of their branches instead of a product.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from strictreply.schema.documents import read_document
from strictreply.schema.graph import Graph, Node
from strictreply.schema.vocabulary import REFERENCES, Applies, draft_of, ignores_siblings, json_type

KINDS = ("object", "array", "string", "number", "boolean", "null")
BARE = frozenset({"type", "title", "description", "default", "examples"})


class Branch(NamedTuple):
    """One branch of a union: its types as written, and by member name the texts that a tag may have."""

    schema: dict[str, Any]
    types: tuple[str, ...]
    tags: dict[str, tuple[str, ...]]
    bare: bool

    @property
    def kinds(self) -> frozenset[str]:
        """The types, an integer counted as a number."""
        return frozenset("number" if name == "integer" else name for name in self.types)


def told_apart(graph: Graph) -> Graph:
    """Copy a document with every union rewritten whose branches exclude one another by type or by tag.

    Gives the graph itself when there is none. A document that is referenced by way of a branch (``#/…/anyOf/0``) is
    left alone, for the branches move.
    """
    document = graph.document
    unions = any("anyOf" in node.schema or "oneOf" in node.schema for node in graph.nodes)
    silencing = ignores_siblings(draft_of(document))
    if not unions or silencing or any(_points_into_union(node) for node in graph.nodes):
        return graph
    copy = Graph(read_document(document))
    rewritten = [
        _rewrite(node, keyword)
        for node in copy.nodes
        for keyword in ("anyOf", "oneOf")
        if node.pointer is not None and keyword in node.schema
    ]
    return Graph(copy.document) if any(rewritten) else graph


def _points_into_union(node: Node) -> bool:
    """Whether a schema references a branch by its place."""
    references = (node.schema.get(keyword) for keyword in REFERENCES)
    return any(isinstance(text, str) and ("/anyOf" in text or "/oneOf" in text) for text in references)


def _rewrite(node: Node, keyword: str) -> bool:
    """Replace one union by conditions, when every branch can be told from the others; returns whether it was."""
    targets = [edge.target for edge in node.along(Applies.HERE) if edge.keyword == keyword]
    if len(targets) < max(2, len(node.schema[keyword])):
        return False
    told = _told([_described(target) for target in targets], keyword)
    if told is None:
        return False
    del node.schema[keyword]
    node.schema["allOf"] = [*node.schema.get("allOf", ()), told]
    return True


def _told(branches: list[Branch], keyword: str) -> dict[str, Any] | None:
    """Spell the conditions that tell branches apart; None when they cannot be told."""
    groups = _grouped(branches)
    if groups is None:
        return None
    conditions = [rule for kind, group in groups.items() for rule in _conditions(kind, group, keyword)]
    if len(groups) == 1 and any(keyword in rule["then"] for rule in conditions):
        return None
    types = list(dict.fromkeys(name for branch in branches for name in branch.types))
    told: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    return told | {"allOf": conditions} if conditions else told


def _described(node: Node) -> Branch:
    """Describe a branch, following a reference that stands alone."""
    schema, written = node.schema, node.schema
    for _ in range(8):
        follow = [edge.target for edge in node.edges if edge.keyword == "$ref"]
        if len(follow) != 1 or "type" in schema:
            break
        node = follow[0]
        schema = node.schema
    return Branch(written, _types(schema), _tags(schema), written.keys() <= BARE)


def _types(schema: dict[str, Any]) -> tuple[str, ...]:
    """Name the types a schema admits; empty when it does not say."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return (declared,)
    if isinstance(declared, list):
        return tuple(name for name in declared if isinstance(name, str))
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    return tuple(dict.fromkeys(_type_of(value) for value in listed)) if isinstance(listed, list) else ()


def _type_of(value: object) -> str:
    """Name the JSON type of a value; integers are numbers here, for a branch may spell either."""
    named = json_type(value)
    return "number" if named == "integer" else named


def _tags(schema: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Give the members that may only have certain texts, which can tell an object from others."""
    members = schema.get("properties")
    required = schema.get("required")
    if not isinstance(members, dict) or not isinstance(required, list):
        return {}
    tags = {}
    for name, member in members.items():
        texts = _texts(member) if isinstance(member, dict) and name in required else ()
        if texts:
            tags[name] = texts
    return tags


def _texts(schema: dict[str, Any]) -> tuple[str, ...]:
    """Give the texts that a constant or an enumeration of texts admits."""
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(listed, list) or not all(isinstance(value, str) for value in listed):
        return ()
    return tuple(listed)


def _grouped(branches: list[Branch]) -> dict[str, list[Branch]] | None:
    """Group branches by type; None when a branch does not say its type or stands for several types at once."""
    groups: dict[str, list[Branch]] = {}
    for branch in branches:
        if len(branch.kinds) != 1:
            return None
        groups.setdefault(min(branch.kinds), []).append(branch)
    return groups


def _conditions(kind: str, group: list[Branch], keyword: str) -> Iterator[dict[str, Any]]:
    """Give the conditions that hold for values of one type."""
    test = {"type": kind}
    if len(group) == 1:
        if not group[0].bare:
            yield {"if": test, "then": group[0].schema}
        return
    tag = _common_tag(group)
    if tag is None:
        yield {"if": test, "then": {keyword: [branch.schema for branch in group]}}
        return
    texts = [text for branch in group for text in branch.tags[tag]]
    yield {"if": test, "then": {"required": [tag], "properties": {tag: {"enum": texts}}}}
    for branch in group:
        own = {"enum": list(branch.tags[tag])}
        yield {"if": {**test, "required": [tag], "properties": {tag: own}}, "then": branch.schema}


def _common_tag(group: list[Branch]) -> str | None:
    """Name a member that every branch requires with texts that no other branch has."""
    for name in group[0].tags:
        texts = [text for branch in group for text in branch.tags.get(name, ())]
        if all(name in branch.tags for branch in group) and len(set(texts)) == len(texts):
            return name
    return None
