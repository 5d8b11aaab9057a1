"""Which branch of a union a value means: told by its type, or by a tag that every branch of one type requires."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strictreply.schema._graph import Node
from strictreply.schema._vocabulary import json_type
from strictreply.values._json import JSON

MAX_FOLLOWED = 8
"""References that stand alone and are followed to what they lead to."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A required member whose texts tell the branches of one type apart: ``branches`` by the text."""

    name: str
    branches: dict[str, int]


@dataclass(frozen=True, slots=True)
class Choice:
    """A union whose branches each state one type.

    ``types`` are all of them as written, ``branches`` the indexes of the branches by the type of the value, an
    integer counted as a number, and ``tags`` the tag of a type that has several branches.
    """

    types: tuple[str, ...]
    branches: dict[str, tuple[int, ...]]
    tags: dict[str, Tag]


def choice_of(branches: Sequence[Node]) -> Choice | None:
    """Return how the branches exclude one another; None when one does not state its type, or states several."""
    followed = [_followed(node).schema for node in branches]
    types = [_types(schema) for schema in followed]
    kinds = [{_kind(name) for name in names} for names in types]
    if not all(len(each) == 1 for each in kinds):
        return None
    groups: dict[str, tuple[int, ...]] = {}
    for index, each in enumerate(kinds):
        kind = min(each)
        groups[kind] = (*groups.get(kind, ()), index)
    tags = {kind: _common_tag({index: followed[index] for index in group}) for kind, group in groups.items()}
    known = {kind: tag for kind, tag in tags.items() if tag is not None}
    return Choice(tuple(dict.fromkeys(name for names in types for name in names)), groups, known)


def kind_of(value: JSON) -> str:
    """Return the JSON type of a value, an integer counted as a number."""
    return _kind(json_type(value))


def _kind(name: str) -> str:
    return "number" if name == "integer" else name


def _followed(node: Node) -> Node:
    """Follow references that stand without a type of their own."""
    for _ in range(MAX_FOLLOWED):
        targets = [edge.target for edge in node.edges if edge.keyword == "$ref"]
        if len(targets) != 1 or "type" in node.schema:
            break
        node = targets[0]
    return node


def _types(schema: dict[str, Any]) -> tuple[str, ...]:
    """Return the types a schema admits; none when it does not state them."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return (declared,)
    if isinstance(declared, list):
        return tuple(name for name in declared if isinstance(name, str))
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    return tuple(dict.fromkeys(kind_of(value) for value in listed)) if isinstance(listed, list) else ()


def _common_tag(branches: dict[int, dict[str, Any]]) -> Tag | None:
    """Return a member that every one of several branches requires, with texts that no other branch has."""
    if len(branches) == 1:
        return None
    tags = {index: _tags(schema) for index, schema in branches.items()}
    for name in next(iter(tags.values())):
        texts = [text for tag in tags.values() for text in tag.get(name, ())]
        if all(name in tag for tag in tags.values()) and len(set(texts)) == len(texts):
            return Tag(name, {text: index for index, tag in tags.items() for text in tag[name]})
    return None


def _tags(schema: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the required members that may only have certain texts."""
    members, required = schema.get("properties"), schema.get("required")
    if not isinstance(members, dict) or not isinstance(required, list):
        return {}
    texts = {name: _texts(member) for name, member in members.items() if isinstance(member, dict) and name in required}
    return {name: found for name, found in texts.items() if found}


def _texts(schema: dict[str, Any]) -> tuple[str, ...]:
    """Return the texts that a constant or an enumeration of texts admits."""
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(listed, list) or not all(isinstance(value, str) for value in listed):
        return ()
    return tuple(listed)
