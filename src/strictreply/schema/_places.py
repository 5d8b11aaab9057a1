"""Reading a schema by places of the value: which part governs a place, where members are, which branch is meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from strictreply.schema._documents import Graph, Node
from strictreply.schema._vocabulary import Applies, json_type
from strictreply.values._issues import pointer, pointer_tokens
from strictreply.values._json import JSON

MAX_WALKED = 500
MAX_HOMES = 2  # the places of one name that are told: of more, none is likely to be the one that was meant
HOMES = ("properties", "prefixItems", "items")
NAMING = ("properties", "dependentRequired", "dependentSchemas", "dependencies")


def governing_node(graph: Graph, path: str) -> Node | None:
    """Return the schema that governs the value at a JSON Pointer, or None when that cannot be told."""
    node = graph.root
    for token in pointer_tokens(path):
        below = (_member(judge, token) for judge in node.judges()) if node else ()
        node = next((target for target in below if target), None)
    return node.resolved("properties") if node else None


def member_names(graph: Graph) -> frozenset[str]:
    """Collect every member name that a schema speaks of, at any depth."""
    names: set[str] = set()
    for node in graph.nodes:
        maps = [members for keyword in NAMING if isinstance(members := node.schema.get(keyword), dict)]
        names.update(name for members in maps for name in members)
        for listed in (node.schema.get("required"), *(each for members in maps for each in members.values())):
            names.update(name for name in (listed if isinstance(listed, list) else ()) if isinstance(name, str))
    return frozenset(names)


def missing_members(graph: Graph, holder: object, path: tuple[str | int, ...], name: str) -> list[Node]:
    """Return the schemas of a member that ``holder`` misses in the object at ``path``.

    The holder's own and those it is composed of have the first say: another branch of a union may say otherwise.
    """
    node = graph.find(holder)
    named = [_member(judge, name) for judge in node.judges()] if node else []
    known = [target.resolved("properties") for target in named if target]
    other = None if known else governing_node(graph, pointer("", *path, name))
    return known if other is None else [other]


def knows_member(node: Node, token: str) -> bool:
    """Return whether a schema, or one that judges the same value, says anything about a member or an item."""
    judges = node.judges()
    return any(token in judge.schema.get("properties", ()) or _member(judge, token) is not None for judge in judges)


def homes(graph: Graph) -> dict[str, list[str]]:
    """Return where in a value each member name may stand: the pointers of its objects, nearest first.

    In a pointer ``*`` stands for an index. Of a large schema the upper part is walked.
    """
    found: dict[str, list[str]] = {}
    pending = [(node, "", frozenset[int]()) for node in graph.nodes[:1]]  # the root, where there is one
    for node, path, above in pending:  # grows while it is walked
        judges = node.judges()
        members = chain.from_iterable(judge.schema.get("properties", {}).items() for judge in judges)
        for name in dict.fromkeys(name for name, member in members if member is not False):
            found.setdefault(name, []).append(path)
        inner = above | {id(judge) for judge in judges}
        edges = chain.from_iterable(judge.edges for judge in judges)
        deeper = (edge for edge in edges if edge.keyword in HOMES and id(edge.target) not in inner)
        for edge in islice(deeper, MAX_WALKED - len(pending)):
            token = str(edge.token) if edge.keyword == "properties" else "*"
            pending.append((edge.target, pointer(path, token), inner))
    return found


def _member(node: Node, token: str) -> Node | None:
    others = None
    for edge in node.along(Applies.MEMBER, Applies.ITEM):
        if edge.keyword in ("properties", "prefixItems") and str(edge.token) == token:
            return edge.target
        index = edge.token if edge.keyword == "items" else None
        item = edge.applies is Applies.ITEM and token.isdigit() and edge.keyword in ("items", "additionalItems")
        if edge.keyword == "additionalProperties" or (item and (index is None or str(index) == token)):
            others = edge.target
    return others


class UnionChoice(NamedTuple):
    """A union whose branches each state one type.

    ``types`` are all of them as written, ``branches`` the indexes of the branches by the type of the value, an
    integer counted as a number. ``tags`` holds, for a type that several branches have, a required member whose texts
    tell these apart: its name, and the index of the branch by the text.
    """

    types: tuple[str, ...]
    branches: dict[str, tuple[int, ...]]
    tags: dict[str, tuple[str, dict[str, int]]]


def choice_of(branches: Sequence[Node]) -> UnionChoice | None:
    """Return how the branches exclude one another; None when one does not state its type, or states several."""
    followed = [node.resolved().schema for node in branches]
    types = [_types(schema) for schema in followed]
    groups: dict[str, tuple[int, ...]] = {}
    for index, names in enumerate(types):
        kinds = {_kind(name) for name in names}
        if len(kinds) != 1:
            return None
        kind = kinds.pop()
        groups[kind] = (*groups.get(kind, ()), index)
    tags = {kind: _common_tag({index: followed[index] for index in group}) for kind, group in groups.items()}
    told = dict.fromkeys(name for names in types for name in names)
    return UnionChoice(tuple(told), groups, {kind: tag for kind, tag in tags.items() if tag is not None})


def kind_of(value: JSON) -> str:
    """Return the JSON type of a value, an integer counted as a number."""
    return _kind(json_type(value))


def _kind(name: str) -> str:
    return "number" if name == "integer" else name


def _types(schema: dict[str, Any]) -> tuple[str, ...]:
    declared = schema.get("type")
    if isinstance(declared, str):
        return (declared,)
    if isinstance(declared, list):
        return tuple(name for name in declared if isinstance(name, str))
    return tuple(dict.fromkeys(kind_of(value) for value in listed_values(schema)))


def listed_values(schema: Mapping[str, Any]) -> list[Any]:
    """Return the values that ``const`` or ``enum`` names; none where neither does."""
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    return listed if isinstance(listed, list) else []


def _common_tag(branches: dict[int, dict[str, Any]]) -> tuple[str, dict[str, int]] | None:
    """Return a member that every one of several branches requires, with texts that no other branch has.

    Neither ``discriminator`` nor a name such as ``type`` makes a tag: only texts that exclude one another prove that
    a value cannot mean two branches. A member that is not required proves nothing, for it may be left out.
    """
    tags = {index: _required_texts(schema) for index, schema in branches.items()} if len(branches) > 1 else {}
    for name in next(iter(tags.values()), ()):
        texts = [text for tag in tags.values() for text in tag.get(name, ())]
        if all(name in tag for tag in tags.values()) and len(set(texts)) == len(texts):
            return name, {text: index for index, tag in tags.items() for text in tag[name]}
    return None


def _required_texts(schema: dict[str, Any]) -> dict[str, list[str]]:
    members, required = schema.get("properties"), schema.get("required")
    if not isinstance(members, dict) or not isinstance(required, list):
        return {}
    named = {name: member for name, member in members.items() if isinstance(member, dict) and name in required}
    listed = {name: listed_values(member) for name, member in named.items()}
    return {name: texts for name, texts in listed.items() if texts and all(isinstance(text, str) for text in texts)}
