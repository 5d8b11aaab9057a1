"""What a schema says about one value: the sub-schemas that govern it, as the value decides among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from strictreply.schema._graph import Node
from strictreply.schema._vocabulary import Applies, json_type
from strictreply.testing.faults._subschemas import Subschemas
from strictreply.values._json import JSON, JSONObject


class Judge(NamedTuple):
    """A sub-schema that governs a value; ``conditional`` when it does so because of what else is there."""

    node: Node
    conditional: bool

    @property
    def schema(self) -> JSONObject:
        """The sub-schema itself."""
        return self.node.schema


@dataclass(frozen=True, slots=True)
class Judged:
    """A value that fits, and every sub-schema that governs it.

    ``parts`` are the sub-schemas of the document, to be asked for other values.
    """

    value: Any
    judges: tuple[Judge, ...]
    parts: Subschemas = field(repr=False)

    @property
    def kind(self) -> str:
        """The JSON type of the value."""
        return json_type(self.value)

    def rules(self, *keywords: str, conditional: bool | None = None) -> Iterator[Any]:
        """Give what the schema says here under some keywords, for each sub-schema that says it.

        ``conditional`` asks only for sub-schemas that govern the place under a condition, or only for the others.
        """
        for judge in self.judges:
            if conditional in (None, judge.conditional):
                yield from (judge.schema[keyword] for keyword in keywords if keyword in judge.schema)

    def states(self, *keywords: str) -> bool:
        """Whether the schema says anything here under some keywords."""
        return any(keyword in judge.schema for judge in self.judges for keyword in keywords)

    def listed(self, keyword: str, *, conditional: bool | None = None) -> Iterator[Any]:
        """Give what the lists under a keyword hold, such as every value of ``enum``."""
        for rule in self.rules(keyword, conditional=conditional):
            yield from rule if isinstance(rule, list) else ()

    def nodes(self, keyword: str) -> Iterator[Node]:
        """Give the sub-schemas below a keyword."""
        yield from (edge.target for judge in self.judges for edge in judge.node.edges if edge.keyword == keyword)

    def below(self, token: str | int) -> list[Node]:
        """Give the sub-schemas of one member or item, whether the value has it or not."""
        choose = _of_member if isinstance(token, str) else _of_item
        return [node for judge in self.judges for node in choose(judge.node, token, self.parts)]

    def unnamed(self) -> Iterator[str]:
        """Give a name for each kind of member that the object here may have but that has no name in the schema."""
        names = list(self.nodes("propertyNames"))
        for edge in (edge for judge in self.judges for edge in judge.node.along(Applies.MEMBER)):
            if edge.keyword == "patternProperties":
                like: JSONObject = {"type": "string", "pattern": edge.token}
                yield from map(str, self.parts.examples(*names, also=like))
            elif edge.keyword in ("additionalProperties", "unevaluatedProperties"):
                yield from [*map(str, self.parts.examples(*names)), "key"][:1]

    def examples(self, *nodes: Node, also: JSONObject | None = None) -> list[JSON]:
        """Make a value that fits this place and some other sub-schemas; empty when none was found."""
        return self.parts.examples(self.judges[0].node, *nodes, also=also)

    def examples_below(self, token: str | int) -> list[JSON]:
        """Make a value for a member or an item; empty when none was found, or the schema has no say about it."""
        nodes = self.below(token)
        return self.parts.examples(*nodes) if nodes else []


def judged_under(nodes: Iterable[Node], value: JSON, parts: Subschemas) -> Judged:
    """Find what governs a value that some sub-schemas are known to apply to."""
    judges: dict[int, Judge] = {}
    pending = [Judge(node, conditional=False) for node in nodes]
    for judge in pending:  # grows while it is walked
        if id(judge.node) not in judges:
            judges[id(judge.node)] = judge
            pending.extend(_beside(judge, value, parts))
    return Judged(value, tuple(judges.values()), parts)


def _beside(judge: Judge, value: JSON, parts: Subschemas) -> Iterator[Judge]:
    """Give the sub-schemas that judge the same value, as it is."""
    edges = list(judge.node.along(Applies.HERE))
    met = "then" if all(parts.fits(edge.target, value) for edge in edges if edge.keyword == "if") else "else"
    for edge in edges:
        match edge.keyword:
            case "$ref" | "allOf":
                yield Judge(edge.target, judge.conditional)
            case "anyOf" | "oneOf" | "$dynamicRef" | "$recursiveRef" if parts.fits(edge.target, value):
                yield Judge(edge.target, judge.conditional)
            case "then" | "else" if edge.keyword == met and "if" in judge.schema:
                yield Judge(edge.target, conditional=True)
            case "dependentSchemas" if isinstance(value, dict) and edge.token in value:
                yield Judge(edge.target, conditional=True)
            case _:
                pass


def _of_member(node: Node, name: str | int, parts: Subschemas) -> Iterator[Node]:
    """Give the sub-schemas of a member that one schema of its object has."""
    patterns = [text for text in node.schema.get("patternProperties", ()) if parts.matches(text, str(name))]
    spoken = name in node.schema.get("properties", ()) or bool(patterns)
    for edge in node.along(Applies.MEMBER):
        named = edge.keyword == "properties" and edge.token == name
        matched = edge.keyword == "patternProperties" and edge.token in patterns
        other = edge.keyword in ("additionalProperties", "unevaluatedProperties") and not spoken
        if named or matched or other:
            yield edge.target


def _of_item(node: Node, index: str | int, _: Subschemas) -> Iterator[Node]:
    """Give the sub-schemas of an item that one schema of its array has."""
    first = len(node.schema.get("prefixItems", ()))
    for edge in node.along(Applies.ITEM):
        named = edge.keyword == "prefixItems" and edge.token == index
        other = edge.keyword in ("items", "unevaluatedItems") and int(index) >= first
        if named or other:
            yield edge.target
