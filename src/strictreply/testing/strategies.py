"""Hypothesis strategies: valid arguments, valid replies, and replies that a contract refuses.

All of them shrink: to the example made from the schema, and to the first fault of the catalogue at
its first place.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from strictreply import Tool, Valid
from strictreply.core import JSON, JSONObject
from strictreply.core.arguments import how_to_install
from strictreply.core.schemas import Node, joined
from strictreply.testing import faults, ok
from strictreply.testing._steps import Fault, Kind, ReplyPlace, Step, Target
from strictreply.testing.faults._catalogue import Entry
from strictreply.testing.faults._spots import KIND_OF, Subschemas, spots_of, subschemas_of

try:
    from hypothesis import strategies as st
    from hypothesis_jsonschema import from_schema
except ImportError as _missing:
    raise ImportError(
        f"hypothesis or hypothesis-jsonschema is not installed: {how_to_install('testing')}"
    ) from _missing

MAX_PARTS = 500
"""How many sub-schemas are read; after that, an example is used for each."""
MAX_SIZE = 5
"""How many items or unnamed members are added to the minimum."""
_NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
# Strings are made by the first of these rules that a schema has: with two, most would not fit.
_TEXTUAL = ({"format"}, {"pattern"}, {"minLength", "maxLength"})
# Formats that hypothesis-jsonschema does not support.
_FORMATS = {"uuid": st.uuids().map(str), "duration": st.integers(0, 999).map("P{}D".format)}
_FORMATS["date-time-local"] = st.datetimes().map(str)
_ANYTHING = st.none() | st.booleans() | st.integers() | st.text()
_Values = st.SearchStrategy[Any]

REPLY_KINDS = (Kind.ARGS, Kind.JSON, Kind.SHAPE, Kind.TOOL, Kind.ENVELOPE, Kind.FINISH)
"""The kinds of faults that a completion can have, the simplest first.

The others are faults of the delivery.
"""


def valid_arguments(tool: object, *, place: ReplyPlace = "call") -> st.SearchStrategy[JSON]:
    """Return a strategy for arguments that a tool accepts, as JSON.

    - ``tool`` is a Tool, a declaration of one, or the JSON Schema of its arguments.
    - ``place="json"`` makes answers that fit a type or a JSON Schema instead.

    Each value comes from hypothesis-jsonschema. If it does not fit, a small example of a branch or
    an optional member of the schema is used instead.

    Raises ContractError when the declaration is wrong, ValueError when no example can be made.
    """
    return _arguments(Target.of(_declared(tool, place), place=place))


def valid_replies(tool: object, *, place: ReplyPlace = "call") -> st.SearchStrategy[Step]:
    """Return a strategy for valid replies, as steps of a script.

    Each step has a whole completion as ``served``. The parameters and errors are those of
    :func:`valid_arguments`.
    """
    declared = _declared(tool, place)
    return _arguments(Target.of(declared, place=place)).map(
        lambda args: ok.reply(declared, place=place, args=args)
    )


def invalid_replies(
    tool: object, *, place: ReplyPlace = "call", kinds: Collection[Kind] = REPLY_KINDS
) -> st.SearchStrategy[Fault]:
    """Return a strategy for invalid replies, as faults for a script.

    Each has the issue code that a strict contract reports.

    - ``tool`` and ``place`` are those of :func:`valid_arguments`.
    - ``kinds`` chooses from the catalogue. Faults that need certain keywords in the request are
      left out.

    Raises ValueError when no fault of these kinds can be made, and the errors of
    :func:`valid_arguments`.
    """
    declared = _declared(tool, place)
    target = Target.of(declared, place=place)
    order = [*REPLY_KINDS, *Kind]
    fitting = (
        one
        for one in faults.CATALOGUE.values()
        if one.kind in kinds and place in one.places and not one.needs
    )
    entries = sorted(fitting, key=lambda entry: order.index(entry.kind))
    makeable = [entry for entry in entries if next(entry.all_for(declared, place=place), None)]
    if not makeable:
        raise ValueError(
            f"no fault of {target.name or 'this answer'} is of the kinds {', '.join(kinds)}"
        )

    return _spoiled(declared, place, makeable, _arguments(target))


@st.composite
def _spoiled(
    draw: st.DrawFn,
    declared: object,
    place: ReplyPlace,
    entries: list[Entry],
    arguments: st.SearchStrategy[JSON],
) -> Fault:
    """Draw a code, a fault with this code, arguments, and a place for the fault.

    The code comes first, because many properties are about one code.
    """
    code = draw(st.sampled_from(list(dict.fromkeys(entry.code for entry in entries))))
    entry = draw(st.sampled_from([entry for entry in entries if entry.code == code]))
    args = draw(arguments)

    made = list(entry.all_for(declared, place=place, args=args))
    if not made:
        made = list(entry.all_for(declared, place=place))

    return draw(st.sampled_from(made))


def _arguments(target: Target) -> st.SearchStrategy[JSON]:
    examples = list(_examples(target))
    if not examples:
        raise ValueError(f"no example could be made for {target.name or 'the answer'}; pass args=")

    chosen = st.sampled_from(examples)
    parts = None if target.schema is None else subschemas_of(target.schema)
    if parts is None or parts.graph.root is None:
        return chosen

    values = _Generating(parts).values(parts.graph.root, frozenset())
    return chosen | _made(values, chosen, target)


@st.composite
def _made(
    draw: st.DrawFn,
    values: st.SearchStrategy[JSON],
    examples: st.SearchStrategy[JSON],
    target: Target,
) -> JSON:
    """Draw a value, or an example if the contract refuses the value, so that no draw is wasted."""
    value = draw(values)
    return value if _is_taken(target, value) else draw(examples)


def _examples(target: Target) -> Iterator[JSON]:
    spots = spots_of(target.schema, target.value) if target.schema is not None else ()
    seen: list[JSON] = []

    for ground in (target.value, *(spot.ground for spot in spots)):
        if ground not in seen and _is_taken(target, ground):
            seen.append(ground)
            yield ground


def _is_taken(target: Target, value: JSON) -> bool:
    return isinstance(target.contract.check(target.completion(target.text(value))), Valid)


def _declared(tool: object, place: ReplyPlace) -> object:
    """Return a tool for the JSON Schema of arguments, and other declarations unchanged."""
    if place == "json" or not isinstance(tool, Mapping):
        return tool
    if {"function", "inputSchema", "name"} & tool.keys():
        return tool

    return Tool.from_json_schema("tool", tool)


class _Generating:
    """One pass over a schema."""

    def __init__(self, parts: Subschemas) -> None:
        self._parts = parts
        self._read = 0

    def values(self, node: Node, above: frozenset[Node]) -> _Values:
        """Make values for a sub-schema, or its example if it is recursive or beyond the limit."""
        self._read += 1
        if node in above or self._read > MAX_PARTS:
            return _one_of(map(st.just, self._parts.examples(node)))

        nodes = joined([node], lambda edge: edge.keyword in {"$ref", "allOf"})
        rules = _merged(nodes)
        inside = above.union(nodes)
        unions = (
            edge.target for one in nodes for edge in one.edges if edge.keyword in {"anyOf", "oneOf"}
        )
        branches = [self.values(branch, inside) for branch in unions]
        if branches and "properties" not in rules:
            return st.one_of(branches)

        own = _one_of(self._of_kind(kind, rules, nodes, inside) for kind in _kinds(rules))
        return st.tuples(own, st.one_of(branches)).map(_joined) if branches else own

    def _of_kind(
        self, kind: str, rules: JSONObject, nodes: list[Node], above: frozenset[Node]
    ) -> _Values:
        if "const" in rules or "enum" in rules:
            return _one_of(map(st.just, [rules["const"]] if "const" in rules else rules["enum"]))

        # of members and items, by keyword and token
        below: dict[str, dict[Any, _Values]] = defaultdict(dict)
        holding = _HOLDING.get(kind, ())
        for edge in (edge for one in nodes for edge in one.edges if edge.keyword in holding):
            if edge.token not in below[edge.keyword]:  # the first rule about it counts
                below[edge.keyword][edge.token] = self.values(edge.target, above)

        if kind in _HOLDING:
            return (_objects if kind == "object" else _arrays)(rules, below)
        if not kind:
            return _ANYTHING

        textual = next((group for group in _TEXTUAL if not group.isdisjoint(rules)), set[str]())
        easy = {
            keyword: rule
            for keyword, rule in rules.items()
            if keyword in textual or keyword in _NUMERIC
        }
        return from_schema({"type": kind, **easy}, custom_formats=_FORMATS)


_HOLDING = {
    "object": ("properties", "patternProperties", "additionalProperties", "propertyNames"),
    "array": ("prefixItems", "items"),
}


def _objects(rules: JSONObject, below: dict[str, dict[Any, _Values]]) -> _Values:
    """Make objects with the named members, and some with unnamed members."""
    named = below["properties"]
    required = {name: named.get(name, _ANYTHING) for name in rules.get("required", ())}
    optional = {name: values for name, values in named.items() if name not in required}
    least = max(0, int(rules.get("minProperties", 0)) - len(required))
    room = int(rules.get("maxProperties", MAX_SIZE)) - len(required)
    most = max(least, min(least + MAX_SIZE, room))
    made: _Values = st.fixed_dictionaries(required, optional=optional if most else {})

    for pattern, values in below["patternProperties"].items():
        names: _Values = from_schema({"type": "string", "pattern": pattern})
        made = st.tuples(st.dictionaries(names, values, max_size=most), made).map(_joined)

    for values in below["additionalProperties"].values():
        named_by = below["propertyNames"].get(None, st.text())
        names = named_by.filter(lambda name: isinstance(name, str))
        others = st.dictionaries(names, values, min_size=least, max_size=most)
        made = st.tuples(others, made).map(_joined)

    return made


def _arrays(rules: JSONObject, below: dict[str, dict[Any, _Values]]) -> _Values:
    """Make arrays with the positional items, and some with further items."""
    first = st.tuples(*below["prefixItems"].values()).map(list)
    if rules.get("items") is False:
        return first

    placed = len(below["prefixItems"])
    least = max(0, int(rules.get("minItems", 0)) - placed)
    room = int(rules.get("maxItems", least + MAX_SIZE)) - placed
    most = max(least, min(room, least + MAX_SIZE))

    items = below["items"].get(None, _ANYTHING)
    unique = json.dumps if rules.get("uniqueItems") else None
    behind = st.lists(items, min_size=least, max_size=most, unique_by=unique)
    return st.tuples(first, behind).map(lambda both: [*both[0], *both[1]])


def _merged(nodes: list[Node]) -> JSONObject:
    """Merge the rules of sub-schemas for the same value.

    All required names count; of other rules, the first.
    """
    merged: JSONObject = {}
    for node in nodes:
        required = [*merged.get("required", ()), *node.schema.get("required", ())]
        merged = {**node.schema, **merged, "required": list(dict.fromkeys(required))}

    return merged


def _kinds(rules: JSONObject) -> list[str]:
    """Return the types that values may have; an empty name if the rules do not say."""
    declared = rules.get("type")
    if declared is not None:
        return [declared] if isinstance(declared, str) else list(declared)

    spoken = dict.fromkeys(
        KIND_OF[keyword] for keyword, rule in rules.items() if keyword in KIND_OF and rule != []
    )
    return list(spoken) or ["object" if "additionalProperties" in rules else ""]


def _one_of(strategies: Iterable[_Values]) -> _Values:
    made = list(strategies)
    return st.one_of(made) if made else st.none()


def _joined(both: tuple[Any, Any]) -> JSON:
    """Merge two objects; of other values, return the second."""
    one, other = both
    return {**one, **other} if isinstance(one, dict) and isinstance(other, dict) else other
