"""Specimens of the catalogue: each fault made from somebody's tools, with what the strict gate says of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from strictreply.contract._tool import Tool
from strictreply.schema._example import FORMAT_SAMPLES
from strictreply.testing._probing.excerpts import MAX_CHARS, excerpt
from strictreply.testing._steps import Fault
from strictreply.testing._targets import Target
from strictreply.testing.faults._catalogue import Entry, judged
from strictreply.values._issues import Issue
from strictreply.values._json import JSONObject

_TEXT: JSONObject = {"type": "string"}
_SIZE: JSONObject = {"type": "integer", "minimum": 1}


def _sample(name: str, described: str, **members: JSONObject) -> Tool:
    """Declare a tool all of whose parameters are required, so that an example of its arguments has them all."""
    schema = {"type": "object", "properties": members, "required": list(members)}
    return Tool.from_json_schema(name, schema, described)


def _kind(name: str, **members: JSONObject) -> JSONObject:
    """Write one of several kinds of objects, told apart by ``kind``."""
    properties = {"kind": {"const": name}, **members}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


SAMPLES = (
    _sample(
        "book_trip",
        "Book a trip: a tool with a rule of every kind in its schema.",
        code={"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
        title={"type": "string", "minLength": 3, "maxLength": 20},
        travel_class={"enum": [1, 2]},
        currency={"const": "EUR"},
        seats={"type": "integer", "minimum": 1, "maximum": 9},
        discount={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        price={"type": "number", "multipleOf": 0.5},
        flexible={"type": "boolean"},
        floor={"type": ["integer", "null"]},
        remark={"type": "string", "not": {"const": "none"}},
        stops={"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 3},
        days={"type": "array", "items": _SIZE, "uniqueItems": True, "minItems": 1},
        legs={"type": "array", "prefixItems": [_TEXT, _TEXT], "items": False},
        guests={"type": "array", "contains": {"const": "driver"}, "maxContains": 1},
        labels={
            "type": "object",
            "properties": {"main": _TEXT},
            "propertyNames": {"pattern": "^[a-z]+$"},
            "additionalProperties": _TEXT,
            "minProperties": 1,
            "maxProperties": 2,
        },
        room={"type": "object", "properties": {"beds": _SIZE, "sea_view": False}, "required": ["beds"]},
        options={"type": "object", "additionalProperties": False},
        seat={"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^A"}]},
        refund={"oneOf": [{"type": "boolean"}, {"type": "number", "minimum": 0}]},
        level={"oneOf": [{"type": "integer", "maximum": 10}, {"type": "integer", "minimum": 5}]},
        payment={"oneOf": [_kind("card", number=_TEXT), _kind("cash", amount=_SIZE)]},
        insurance={
            "type": "object",
            "properties": {"wanted": {"type": "boolean"}, "name": _TEXT, "age": _SIZE},
            "required": ["wanted", "name", "age"],
            "if": {"properties": {"wanted": {"const": True}}},
            "then": {"required": ["name"]},
        },
        driver={
            "type": "object",
            "properties": {"licence": _TEXT, "country": _TEXT},
            "dependentRequired": {"licence": ["country"]},
        },
        file={"type": "string", "contentEncoding": "base64"},
    ),
    _sample(
        "register_host",
        "Register a host: a tool with a string of every format.",
        **{name.replace("-", "_"): {"type": "string", "format": name} for name in FORMAT_SAMPLES},
    ),
    Tool.from_json_schema("ping", {"type": "object", "properties": {}}, "Say that you are there."),
)
"""What shows the faults that the tools at hand have no rule for."""


@dataclass(frozen=True, slots=True)
class Specimen:
    """One fault as it is served; ``issues`` are what the gate says, None of what is no completion."""

    fault: Fault
    target: Target = field(repr=False)
    issues: tuple[Issue, ...] | None = field(repr=False)

    def shown(self, limit: int = MAX_CHARS) -> str:
        """Show what is served: of each differing place at most ``limit`` characters."""
        return excerpt(self.fault.served, self.target.clean, limit)


def specimens(entry: Entry, tools: Iterable[object] = ()) -> Iterator[Specimen]:
    """Make an entry's faults from each of the tools, in the place that is usual for it.

    A structured answer is held to the schema of the tool's arguments; plain text needs no tool, and is made once.
    """
    place = entry.usual or entry.places[0]
    for one in [None] if place == "prose" else tools:
        kind = Tool.of(one).parameters.source if place == "json" else one
        for fault in entry.all_for(kind, place=None if place == entry.usual else place):
            target = Target.of(kind, place=fault.place)
            yield Specimen(fault, target, judged(fault, target))


def specimen(entry: Entry, tools: Sequence[object] = ()) -> Specimen | None:
    """Make one fault, from the first of the tools that it can be made from, else from :data:`SAMPLES`."""
    return next(specimens(entry, [*tools, *SAMPLES]), None)
