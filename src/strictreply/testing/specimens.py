"""Specimens of the catalogue: faults made from given tools, shortened and safe to print."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import zip_longest

from strictreply import Issue, Tool
from strictreply.core import JSON, JSONObject
from strictreply.core.schemas import FORMAT_SAMPLES
from strictreply.core.text import printable
from strictreply.testing._anthropic_writer import MESSAGES_WRITER
from strictreply.testing._chat_writer import events
from strictreply.testing._scripts import abridged
from strictreply.testing._steps import Fault, Target
from strictreply.testing._wire import EVENT_STREAM, HTTPReply, Pause, Served, WireEnding
from strictreply.testing.faults._catalogue import Entry, judged

__all__ = ["SAMPLES", "Specimen", "specimen", "specimens"]

MAX_CHARS = 400  # per place, unless another limit is given
MAX_PLACES = 6
MAX_MEMBERS = 3  # differences, before an object is shown whole
_MISSING = object()
_AROUND = re.compile(r'"id": "[^"]*", "object": "[^"]*", "created": [0-9]+, "model": "[^"]*", ')
_REPEATED = re.compile(r', "logprobs": null, "finish_reason": null')
_ENDINGS = {
    WireEnding.CUT: "the connection is closed before the end",
    WireEnding.RESET: "the connection is reset",
    WireEnding.HANG: "nothing more comes",
}


def excerpt(served: Served, clean: JSON = None, limit: int = MAX_CHARS) -> str:
    """Return a reply as text that is safe to print.

    - ``served`` is the reply; of a completion only the differences from ``clean`` are shown.
    - ``clean`` is the good completion; None shows everything.
    - ``limit`` is how many characters are shown of each place.
    """
    if isinstance(served, HTTPReply):
        return "\n".join(_response(served, clean, limit))

    found = list(_differences(clean, served, ""))
    lines: list[str] = []

    for path, good, value in found[:MAX_PLACES]:
        if value is _MISSING:
            words = "is missing"
        elif isinstance(value, str):
            wanted = good if isinstance(good, str) else ""
            words = f"reads {printable(abridged(value, limit, wanted))}" if value else "is empty"
        else:
            words = f"= {printable(abridged(json.dumps(value, ensure_ascii=False), limit))}"

        lines.append(f"{path.removeprefix('choices[0].message.') or 'the response'} {words}")

    if len(found) > MAX_PLACES:
        lines.append(f"[more places: {len(found) - MAX_PLACES}]")
    return "\n".join(lines) or "a good reply, had the request not forbidden it"


def _differences(clean: object, served: object, path: str) -> Iterator[tuple[str, object, object]]:
    """Find the smallest parts in which a reply differs from the good one.

    Each is the path, the good value, and the served value.
    """
    if _equal(clean, served):
        return

    parts: list[tuple[str, object, object]] = []
    if isinstance(clean, dict) and isinstance(served, dict):
        names = {**clean, **served}
        pairs = {name: (clean.get(name, _MISSING), served.get(name, _MISSING)) for name in names}
        if sum(not _equal(*pair) for pair in pairs.values()) <= MAX_MEMBERS:
            parts = [(f"{path}.{name}".lstrip("."), *pair) for name, pair in pairs.items()]
    elif isinstance(clean, list) and isinstance(served, list) and clean and served:
        items = enumerate(zip_longest(clean, served, fillvalue=_MISSING))
        parts = [(f"{path}[{index}]", *pair) for index, pair in items]

    for inner, one, other in parts:
        yield from _differences(one, other, inner)

    if not parts:
        yield path, clean, served


def _equal(clean: object, served: object) -> bool:
    if clean is served:
        return True
    return _MISSING not in (clean, served) and json.dumps(clean) == json.dumps(served)


def _response(reply: HTTPReply, clean: JSON, limit: int) -> Iterator[str]:
    if reply.framing != "raw" and (reply.parts or reply.ending is WireEnding.WHOLE):
        yield f"HTTP {reply.status}"
        headers = reply.headers.items() - EVENT_STREAM.items()
        for name, value in reply.headers.items():
            if (name, value) in headers:
                yield printable(f"{name}: {value}")

    body = reply.body.decode("ascii", "backslashreplace")
    lines = _compact(body)
    own = MESSAGES_WRITER.stream(MESSAGES_WRITER.written(clean, {}), {})
    told = (_compact(b"".join(one).decode()) for one in (events(clean), own))
    streamed = next((good for good in told if set(lines) & set(good)), None)

    if streamed is not None:
        yield from (printable(abridged(line, limit)) for line in _changes(streamed, lines))
    else:
        yield from map(printable, abridged(body, limit, json.dumps(clean)).splitlines())

    pauses = [part.seconds for part in reply.parts if isinstance(part, Pause)]
    if pauses:
        word = "pause" if len(pauses) == 1 else "pauses"
        yield f"[{len(pauses)} {word}, {sum(pauses):g} s in all]"

    if reply.endless:
        yield "[the last part again and again, without end]"
    elif reply.ending in _ENDINGS:
        yield f"[{_ENDINGS[reply.ending]}]"


def _compact(stream: str) -> list[str]:
    lines = (line for line in stream.splitlines() if line.strip())
    return [_REPEATED.sub("", _AROUND.sub("… ", line)) for line in lines]


def _changes(good: list[str], lines: list[str]) -> Iterator[str]:
    matcher = SequenceMatcher(None, good, lines, autojunk=False)
    chars = 0

    for change, start, ended, first, last in matcher.get_opcodes():
        if change == "equal":
            yield f"[lines of a good stream: {last - first}]"
            continue

        if change == "delete":
            yield f"[lines of a good stream left out: {ended - start}]"

        yield from lines[first:last][: MAX_PLACES - chars]
        chars += last - first

    if chars > MAX_PLACES:
        yield f"[more lines: {chars - MAX_PLACES}]"


_TEXT: JSONObject = {"type": "string"}
_SIZE: JSONObject = {"type": "integer", "minimum": 1}
_NAMES: JSONObject = {"propertyNames": {"pattern": "^[a-z]+$"}, "additionalProperties": _TEXT}
_IF_WANTED: JSONObject = {
    "if": {"properties": {"wanted": {"const": True}}},
    "then": {"required": ["name"]},
}
_INSURANCE_RULES: JSONObject = {"required": ["wanted", "name", "age"]} | _IF_WANTED


def _object(properties: JSONObject, **more: object) -> JSONObject:
    return {"type": "object", "properties": properties, **more}


def _sample(name: str, described: str, **members: JSONObject) -> Tool:
    """Declare a tool all of whose parameters are required.

    So an example of its arguments has all of them.
    """
    return Tool.from_json_schema(name, _object(members, required=[*members]), described)


def _kind(name: str, **members: JSONObject) -> JSONObject:
    properties: JSONObject = {"kind": {"const": name}, **members}
    return _object(properties, required=[*properties], additionalProperties=False)


search: Tool = Tool.from_json_schema(
    "search",
    _object({"query": _TEXT, "limit": _SIZE | {"maximum": 20}}, required=["query"]),
    "Search the shop: a tool with little to get wrong.",
)
book_table: Tool = _sample(
    "book_table",
    "Book a table: a tool with an enum, a time and a list.",
    at={"type": "string", "format": "date-time"},
    room={"enum": ["hall", "garden"]},
    guests={"type": "array", "items": _TEXT},
)
book_trip: Tool = _sample(
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
    labels=_object({"main": _TEXT}, **_NAMES, minProperties=1, maxProperties=2),
    room=_object({"beds": _SIZE, "sea_view": False}, required=["beds"]),
    options={"type": "object", "additionalProperties": False},
    seat={"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^A"}]},
    refund={"oneOf": [{"type": "boolean"}, {"type": "number", "minimum": 0}]},
    level={"oneOf": [{"type": "integer", "maximum": 10}, {"type": "integer", "minimum": 5}]},
    payment={"oneOf": [_kind("card", number=_TEXT), _kind("cash", amount=_SIZE)]},
    insurance=_object(
        {"wanted": {"type": "boolean"}, "name": _TEXT, "age": _SIZE}, **_INSURANCE_RULES
    ),
    driver=_object(
        {"licence": _TEXT, "country": _TEXT}, dependentRequired={"licence": ["country"]}
    ),
    file={"type": "string", "contentEncoding": "base64"},
)
register_host: Tool = _sample(
    "register_host",
    "Register a host: a tool with a string of every format.",
    **{name.replace("-", "_"): {"type": "string", "format": name} for name in FORMAT_SAMPLES},
)
ping: Tool = Tool.from_json_schema(
    "ping", {"type": "object", "properties": {}}, "Say that you are there."
)

SAMPLES = (search, book_table, book_trip, register_host, ping)
"""Tools from which every fault can be made; a fault is shown with the first that allows it."""


@dataclass(frozen=True, slots=True)
class Specimen:
    """One fault as it is served, with the issues that a strict contract reports."""

    fault: Fault
    """What is wrong with the reply."""
    target: Target = field(repr=False)
    """The good reply from which the fault was made."""
    issues: tuple[Issue, ...] | None = field(repr=False)
    """The issues that strictreply reports; None for a reply that is not a completion."""

    def shown(self, limit: int = MAX_CHARS) -> str:
        """Return the fault as text: the places that differ from the good reply.

        ``limit`` is how many characters are shown of each place.
        """
        return excerpt(self.fault.served, self.target.clean, limit)


def specimens(entry: Entry, tools: Iterable[object] = ()) -> Iterator[Specimen]:
    """Make the faults of an entry from each tool, in its usual place.

    ``entry`` is a fault of the catalogue, ``tools`` are declared as for ``wrap``. A structured
    answer has the schema of the tool's arguments.
    """
    place = entry.usual or entry.places[0]
    for one in [None] if place == "prose" else tools:
        kind = Tool.of(one).parameters.source if place == "json" else one
        for fault in entry.all_for(kind, place=None if place == entry.usual else place):
            target = Target.of(kind, place=fault.place)
            yield Specimen(fault, target, judged(fault, target))


def specimen(entry: Entry) -> Specimen:
    """Make a fault from the first of the :data:`SAMPLES` that allows it.

    ``entry`` is a fault of the catalogue; each has a sample that allows it.
    """
    return next(specimens(entry, SAMPLES))
