"""Making a small instance from a schema: proposals only, which nobody is shown until a check took one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

from strictreply.schema._documents import Graph, Node
from strictreply.schema._engines import engine_for
from strictreply.schema._places import knows_member
from strictreply.schema._vocabulary import FORMAT_SAMPLES, Applies
from strictreply.values._json import JSON

MAX_DEPTH = 12
MAX_BRANCHES = 4
MAX_ITEMS = 64
MAX_TEXT = 4_000
ANY_MEMBER = "*"
# Items that are kept at their index when they must be shown; what lies further on is shown in the first.
MAX_KEPT_ITEMS = 8
# Places of an instance, each the tokens of its JSON Pointer; ``*`` is a member whose name the schema leaves open.
Places: TypeAlias = tuple[tuple[str, ...], ...]
ItemNodes: TypeAlias = dict[str | int | None, Node]  # by index, or by the keyword that stands for all items

PATTERN_SAMPLES = (  # noqa: SIM905 - as a list these would take 38 lines
    "text a A 0 1 12 123 1234 12345 123456 abc ABC AB AAA a1 A1 AB12 "
    "name_1 a-1 A-1 ABC-123 AB-1234 1.0 1.0.0 v1.0.0 12:00 2025-01-31 #000000 "
    "+12025550100 202-555-0100 name@example.com https://example.com/ /a a.b en-US USD"
).split()
"""Texts that are tried for a pattern, the likeliest first: none is made from the pattern itself."""

TEXT_RULES = frozenset({"type", "minLength", "maxLength", "pattern", "format"})
TELLING = (
    ("object", frozenset({"properties", "required", "minProperties", "patternProperties", "additionalProperties"})),
    ("array", frozenset({"items", "prefixItems", "minItems", "contains"})),
    ("number", frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})),
)


class _NoExample(Exception):  # a way out of the recursion
    pass


def proposals(graph: Graph, wanted: Places = ()) -> Iterator[JSON]:
    """Yield small instances, the likeliest first: by each branch of unions in turn, with defaults and without.

    The members and items at the ``wanted`` places are in them, too, where the schema has a place for them.
    """
    for branch in range(MAX_BRANCHES if graph.root else 0):
        for defaults in (True, False):
            try:
                yield _Maker(branch, defaults=defaults).made(graph.root, 0, wanted=wanted)
            except (_NoExample, ArithmeticError, TypeError, ValueError, LookupError, AttributeError):
                continue  # a schema at odds with itself: the metaschema does not hold unknown places to any form


def contains(value: JSON, place: tuple[str, ...]) -> bool:
    """Return whether an instance of :func:`proposals` has a value at a place that was wanted."""
    if not place:
        return True
    token, inner = place[0], list[JSON]()
    if isinstance(value, dict):
        inner = [value[token]] if token in value else list(value.values()) if token == ANY_MEMBER else []
    elif isinstance(value, list) and token.isdecimal():
        inner = value[_kept(token) :][:1]
    return any(contains(part, place[1:]) for part in inner)


def _kept(token: str) -> int:
    return int(token) if len(token) < MAX_KEPT_ITEMS and int(token) < MAX_KEPT_ITEMS else 0


def _below(wanted: Places, token: str | int) -> Places:
    if isinstance(token, int):
        return tuple(place[1:] for place in wanted if place and place[0].isdecimal() and _kept(place[0]) == token)
    return tuple(place[1:] for place in wanted if place[:1] == (token,))


class _Maker:
    """One way to make an instance: which branch of each union, and whether defaults are taken."""

    __slots__ = ("_branch", "_defaults")

    def __init__(self, branch: int, *, defaults: bool) -> None:
        self._branch = branch
        self._defaults = defaults

    def made(self, node: Node | None, depth: int, nth: int = 0, wanted: Places = ()) -> Any:
        """Make the ``nth`` value for a schema with the ``wanted`` places; anything goes where ``node`` is None."""
        if depth > MAX_DEPTH:
            raise _NoExample
        wanted = tuple(place for place in wanted if place)
        schema, members, items = self._merged(node, [place[0] for place in wanted])
        given = [schema["const"]] if "const" in schema else schema.get("enum")
        # A default in which something is wanted is no good: it may be empty.
        if not given and self._defaults and nth == 0 and not wanted and "default" in schema:
            given = [schema["default"]]
        if given:
            return given[nth % len(given)]
        declared = schema.get("type")
        if isinstance(declared, list):
            declared = str(declared[self._branch % len(declared)])
        match declared or next((kind for kind, told in TELLING if not told.isdisjoint(schema)), "string"):
            case "object":
                return self._object(schema, members, depth, wanted)
            case "array":
                return self._array(schema, items, depth, wanted)
            case "string":
                return _text(schema, nth)
            case "boolean":
                return nth % 2 == 0
            case "null":
                return None
            case kind:
                return _number(schema, nth, whole=kind == "integer")

    def _merged(self, node: Node | None, heads: list[str]) -> tuple[dict[str, Any], dict[str, Node], ItemNodes]:
        schema: dict[str, Any] = {}
        members: dict[str, Node] = {}
        items: ItemNodes = {}
        for judge in self._chosen(node, heads) if node else ():
            required = [*schema.get("required", ()), *judge.schema.get("required", ())]
            listed = {**schema.get("properties", {}), **judge.schema.get("properties", {})}
            schema = {**judge.schema, **schema, "required": list(dict.fromkeys(required)), "properties": listed}
            for edge in judge.along(Applies.MEMBER, Applies.ITEM):
                if edge.keyword == "properties":
                    members.setdefault(str(edge.token), edge.target)
                elif edge.keyword in ("additionalProperties", "patternProperties"):
                    members.setdefault(ANY_MEMBER, edge.target)
                elif edge.keyword in ("prefixItems", "items", "contains"):
                    items.setdefault(edge.keyword if edge.token is None else edge.token, edge.target)
        unsaid = ("required", "properties")
        return {name: value for name, value in schema.items() if value or name not in unsaid}, members, items

    def _chosen(self, node: Node, heads: list[str]) -> list[Node]:
        chosen = [node]
        for judge in chosen:  # grows while it is walked
            for keyword in ("$ref", "allOf", "anyOf", "oneOf"):
                targets = judge.targets(keyword)
                if keyword in ("anyOf", "oneOf") and targets:
                    targets = [each for each in targets if all(knows_member(each, head) for head in heads)] or targets
                    targets = [targets[self._branch % len(targets)]]
                chosen += [target for target in targets if target not in chosen]
        return chosen

    def _object(self, schema: dict[str, Any], members: dict[str, Node], depth: int, wanted: Places) -> dict[str, Any]:
        listed, heads = schema.get("properties", {}), [place[0] for place in wanted]
        shown = [head for head in heads if head in members or listed.get(head) is True]
        names = list(dict.fromkeys([*schema.get("required", ()), *shown]))
        for name in names:  # grows while it is walked
            for beside in (schema.get(keyword, {}).get(name) for keyword in ("dependentRequired", "dependencies")):
                names += [other for other in (beside if isinstance(beside, list) else ()) if other not in names]
        missing = max(0, schema.get("minProperties", 0) - len(names))
        names += [name for name in members if name not in (*names, ANY_MEMBER)][:missing]
        made = {name: self.made(members.get(name), depth + 1, wanted=_below(wanted, name)) for name in names}
        if ANY_MEMBER in heads and ANY_MEMBER in made:
            made = {_open_name(schema) if name == ANY_MEMBER else name: value for name, value in made.items()}
        return made

    def _array(self, schema: dict[str, Any], items: ItemNodes, depth: int, wanted: Places) -> list[Any]:
        contained = "contains" in items and schema.get("minContains", 1)
        kept = [1 + _kept(place[0]) for place in wanted if place[0].isdecimal()]
        least = max(int(schema.get("minItems", 0)), int(contained), *kept, 0)
        if least > MAX_ITEMS:
            raise _NoExample
        rest = items.get("contains" if contained else "items")
        varied = bool(schema.get("uniqueItems"))
        return [
            self.made(items.get(index, rest), depth + 1, index if varied else 0, _below(wanted, index))
            for index in range(least)
        ]


def _open_name(schema: dict[str, Any]) -> str:
    named = schema.get("propertyNames")
    pattern = next(iter(schema.get("patternProperties", ())), None)
    rules = named if isinstance(named, dict) else {} if pattern is None else {"pattern": pattern}
    listed = rules.get("enum")
    return str(listed[0]) if listed else _text({"type": "string", **rules}, 0)


def _text(schema: dict[str, Any], nth: int) -> str:
    least, most = int(schema.get("minLength", 0)), int(schema.get("maxLength", MAX_TEXT))
    if least > MAX_TEXT:
        raise _NoExample
    sample = FORMAT_SAMPLES.get(str(schema.get("format")), "text" if nth == 0 else f"text{nth}")
    fitted = sample[:most].ljust(least, "x")
    if "pattern" not in schema:
        return fitted
    engine = engine_for({keyword: schema[keyword] for keyword in TEXT_RULES & schema.keys()}, formats=True)
    fitting = [text for text in (fitted, *PATTERN_SAMPLES) if engine.is_valid(text)]
    if not fitting:
        raise _NoExample
    return fitting[nth % len(fitting)]


def _number(schema: dict[str, Any], nth: int, *, whole: bool) -> int | float:
    low: float = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf))
    high: float = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf))
    step: float = schema.get("multipleOf", 1)
    start = math.floor(min(max(1 + nth, low), high) / step)
    excluded = (schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum"))
    for number in (index * step for index in (start, start + 1, start - 1)):
        if low <= number <= high and number not in excluded:
            return number
    if whole:
        raise _NoExample
    return (low + high) / 2
