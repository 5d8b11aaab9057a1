"""A schema as one provider is sent it, and the way back to the schema as it was declared.

A provider's strict mode takes a part of JSON Schema. What is sent is the largest schema inside of
that part which admits every document of the declared one, written as the provider wants it; what
the part cannot say stands in descriptions, and is judged when the reply comes. A document maps to
one that fits the sent form, and back to itself:

==============================  ================================================================
declared                        sent
==============================  ================================================================
a member that may be absent     demanded, and null where it is absent (where all are demanded)
``oneOf``                       ``anyOf``
``$ref`` with siblings          what it refers to, with them
``allOf`` of one schema         that schema
bounds, formats, and the like   words of the description
a root that is no object        the one member ``value`` of an object (an answer only)
==============================  ================================================================

Where no such schema exists, the declared one is sent, and no strict mode is asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote

from strictreply.schema._documents import at_pointer
from strictreply.schema._engines import engine_for
from strictreply.values._issues import pointer_tokens
from strictreply.values._limits import JSON, JSONObject, Work

StrictProvider: TypeAlias = Literal["openai", "anthropic"]
"""Whose strict mode is asked for."""

VALUE: Final = "value"
"""The member that holds an answer which is no object."""

_ANNOTATIONS: Final = frozenset({"title", "description"})
_SILENT: Final = frozenset(
    {"$schema", "$id", "$comment", "examples", "deprecated", "readOnly", "writeOnly"}
    | {"$anchor", "contentEncoding", "contentMediaType", "discriminator"}
)
"""Keywords that say nothing which a reply could break."""

_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_LAST_PROPERTIES: Final = 5000
_LAST_DEPTH: Final = 10
_LAST_CHOICES: Final = 1000
_MAX_WORDS: Final = 120
_SCALARS: Final = (str, int, float, bool, type(None))


class _Unfit(Exception):
    """Raised where a schema has no form that the provider would enforce."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place or '/'}: {why}")


@dataclass(frozen=True, slots=True)
class _Rules:
    """What one strict mode takes."""

    keeps: frozenset[str]
    """The keywords that it enforces, beside those of the structure."""
    formats: frozenset[str]
    """The formats that it enforces."""
    demands_all: bool
    """Whether every member must be demanded."""
    takes_recursion: bool
    """Whether a schema may lead to itself."""


_RULES: Final[Mapping[StrictProvider, _Rules]] = {
    # developers.openai.com/api/docs/guides/structured-outputs, supported schemas
    "openai": _Rules(
        frozenset(
            {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
            | {"minItems", "maxItems"}
        ),
        _FORMATS,
        demands_all=True,
        takes_recursion=True,
    ),
    # anthropic 2.14.0 lib/_parse/_transform.py
    "anthropic": _Rules(
        frozenset(),
        _FORMATS | {"uri"},
        demands_all=False,
        takes_recursion=False,
    ),
}

_Map: TypeAlias = Callable[[JSON], JSON]
"""Writes a value in the other form."""


@dataclass(frozen=True, slots=True)
class SentForm:
    """A schema as one provider is sent it."""

    document: JSON
    """The schema that is sent."""
    is_strict: bool
    """Whether the provider enforces all of it, so that its strict mode is asked for."""
    why: str = ""
    """Why no strict mode is asked for; empty where it is."""
    restored: _Map | None = field(default=None, repr=False)
    """Returns a value that came as the declared schema has it; None where both are the same."""
    is_wrapped: bool = False
    """Whether a declared value is the one member ``value`` of what is sent."""
    sent: _Map | None = field(default=None, repr=False)
    """Returns a declared value as it would be sent; None where both are the same."""


def sent_form(document: JSON, provider: StrictProvider, *, wraps_root: bool = False) -> SentForm:
    """Return a closed schema as a provider is sent it.

    ``wraps_root``: a root that is no object may become the member ``value`` of one. A schema that
    has no such form is returned as it is, with the reason.
    """
    try:
        converter = _Converter(document, _RULES[provider])
        return converter.form(wraps_root=wraps_root)
    except (_Unfit, RecursionError) as error:
        return SentForm(document, is_strict=False, why=str(error) or type(error).__name__)


@dataclass(slots=True)
class _Node:
    """What is known of one place: how it is sent, and how its values are mapped."""

    sent: JSONObject
    """The schema that is sent."""
    back: _Map | None = None
    """Maps a value back; None where nothing changes."""
    forth: _Map | None = None
    """Maps a value forth; None where nothing changes."""


class _Converter:
    """Converts one document."""

    def __init__(self, document: JSON, rules: _Rules) -> None:
        self._document: Any = document
        self._rules = rules
        self._definitions: dict[str, _Node] = {}
        self._names: dict[str, str] = {}
        self._open: list[str] = []
        self._properties = 0

    def form(self, *, wraps_root: bool) -> SentForm:
        """Return the form of the whole document."""
        root = self._document
        if not isinstance(root, dict):
            raise _Unfit("", "a boolean says no type")

        is_object = root.get("type") == "object" and "anyOf" not in root
        target = self._target(root["$ref"], "") if set(root) - {"$defs"} == {"$ref"} else root
        if not is_object and target.get("type") == "object" and target is not root:
            # a model that contains itself is a reference at its root
            root = {**target, "$defs": root.get("$defs", {})}
            is_object = True

        if not is_object and not wraps_root:
            raise _Unfit("", "the root is no object")

        node = self._node(root, "", 1 if is_object else 2)
        if not is_object:
            node = _wrapped(node)
        if self._properties > _LAST_PROPERTIES:
            raise _Unfit("", f"it has more than {_LAST_PROPERTIES} members")

        document = dict(node.sent)
        if self._definitions:
            document["$defs"] = {self._names[at]: one.sent for at, one in self._definitions.items()}

        return SentForm(
            document,
            is_strict=True,
            restored=node.back,
            sent=node.forth,
            is_wrapped=not is_object,
        )

    def _target(self, reference: Any, place: str) -> JSONObject:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise _Unfit(place, "a reference leads out of the schema")

        found = _found(self._document, reference)
        if not isinstance(found, dict):
            raise _Unfit(place, "a reference leads to no schema")

        return found

    def _node(self, schema: Any, place: str, depth: int) -> _Node:
        """Convert the schema at a place."""
        if not isinstance(schema, dict):
            raise _Unfit(place, "a boolean says no type")
        if depth > _LAST_DEPTH:
            raise _Unfit(place, f"it is nested more than {_LAST_DEPTH} deep")

        schema = {name: schema[name] for name in schema if name not in ("$defs", "definitions")}
        if "$ref" in schema:
            return self._reference(schema, place, depth)
        if "allOf" in schema:
            return self._node(self._merged(schema, place), place, depth)

        choices = [name for name in ("anyOf", "oneOf") if name in schema]
        if choices:
            return self._choice(schema, choices, place, depth)

        return self._plain(schema, place, depth)

    def _reference(self, schema: JSONObject, place: str, depth: int) -> _Node:
        """Convert a reference: by itself as one, with siblings as what it refers to."""
        reference = schema["$ref"]
        target = self._target(reference, place)
        siblings = {name: schema[name] for name in schema if name != "$ref"}
        if not set(siblings) <= _ANNOTATIONS | _SILENT | {"default"}:
            raise _Unfit(place, "a reference has rules beside it")

        is_inside = reference in self._open
        if is_inside and not self._rules.takes_recursion:
            raise _Unfit(place, "the schema leads to itself")
        if siblings and not is_inside:
            self._open.append(reference)
            try:
                return self._node({**target, **siblings}, place, depth)
            finally:
                self._open.pop()

        if reference not in self._definitions:
            self._names[reference] = self._name_of(reference)
            # known before it is converted: it may lead to itself
            held = self._definitions[reference] = _Node({})
            self._open.append(reference)
            try:
                made = self._node(target, reference.removeprefix("#"), depth)
            finally:
                self._open.pop()
            held.sent = made.sent
            held.back = made.back
            held.forth = made.forth

        found = self._definitions[reference]
        name = self._names[reference]
        is_open = reference in self._open
        return _Node(
            {"$ref": f"#/$defs/{name}"},
            _later(found, "back") if is_open or found.back else None,
            _later(found, "forth") if is_open or found.forth else None,
        )

    def _name_of(self, reference: str) -> str:
        # of signs that need no escape in a reference
        wanted = re.sub(r"[^A-Za-z0-9_.-]", "_", unquote(reference.rpartition("/")[2])) or "root"
        taken = set(self._names.values())
        name = wanted
        number = 2
        while name in taken:
            name = f"{wanted}_{number}"
            number += 1

        return name

    def _merged(self, schema: JSONObject, place: str) -> JSONObject:
        """Return a schema without its ``allOf``, which has one member."""
        parts = schema["allOf"]
        others = {name: schema[name] for name in schema if name != "allOf"}
        is_alone = isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], dict)
        if not is_alone or not set(others) <= _ANNOTATIONS | _SILENT | {"default"}:
            raise _Unfit(f"{place}/allOf", "several schemas hold at once")

        return {**parts[0], **others}

    def _choice(self, schema: JSONObject, names: list[str], place: str, depth: int) -> _Node:
        """Convert a choice: values are mapped as the first branch that they fit."""
        name = names[0]
        others = {key: schema[key] for key in schema if key != name}
        known = _ANNOTATIONS | _SILENT | {"default", "type"}
        branches = schema[name]
        if len(names) > 1 or not set(others) <= known or not isinstance(branches, list):
            raise _Unfit(place, "a choice has rules beside it")

        nodes = [
            self._node(branch, f"{place}/{name}/{index}", depth)
            for index, branch in enumerate(branches)
        ]
        sent = {**self._described(others, {}), "anyOf": [node.sent for node in nodes]}
        sent.pop("type", None)
        if not any(node.back or node.forth for node in nodes):
            return _Node(sent)

        back = _Chooser(self, [(node, node.back) for node in nodes], None)
        forth = _Chooser(self, [(node, node.forth) for node in nodes], branches)
        return _Node(sent, back, forth)

    def rooted(self, schema: JSONObject, *, is_sent: bool) -> JSONObject:
        """Return a schema of a place with the definitions that it refers to."""
        if is_sent:
            made = {self._names[at]: one.sent for at, one in self._definitions.items()}
            return {**schema, "$defs": made}

        root = self._document
        held = {name: root[name] for name in ("$defs", "definitions") if name in root}
        return {**schema, **held}

    def _plain(self, schema: JSONObject, place: str, depth: int) -> _Node:
        """Convert a schema without references and choices."""
        kinds = schema.get("type")
        listed: list[Any] = kinds if isinstance(kinds, list) else [kinds]
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if kinds is None and not isinstance(values, list):
            raise _Unfit(place, "it says no type")

        sent: JSONObject = {}
        if kinds is not None:
            sent["type"] = kinds
        if values is not None:
            if not all(isinstance(one, _SCALARS) for one in values) or len(values) > _LAST_CHOICES:
                raise _Unfit(place, "its values cannot be listed")
            sent["enum"] = [*values]
            sent.setdefault("type", _types_of(values))

        if values is not None and kinds is None:
            return _Node(self._described(schema, sent))

        back: _Map | None = None
        forth: _Map | None = None
        if "object" in listed:
            back, forth = self._members(schema, sent, place, depth)
        if "array" in listed:
            items = self._items(schema, place, depth)
            sent["items"] = items.sent
            back = back or _for_each(items.back)
            forth = forth or _for_each(items.forth)

        return _Node(self._described(schema, sent), back, forth)

    def _items(self, schema: JSONObject, place: str, depth: int) -> _Node:
        if "prefixItems" in schema or not isinstance(schema.get("items"), dict):
            raise _Unfit(place, "it does not say what its items are")

        return self._node(schema["items"], f"{place}/items", depth + 1)

    def _members(
        self, schema: JSONObject, sent: JSONObject, place: str, depth: int
    ) -> tuple[_Map | None, _Map | None]:
        """Convert the members of an object; return how its values are mapped."""
        members = schema.get("properties", {})
        is_closed = (
            schema.get("additionalProperties") is False and "patternProperties" not in schema
        )
        if not is_closed or not isinstance(members, dict):
            raise _Unfit(place, "it may have members that it does not name")

        demanded = schema.get("required", [])
        if not isinstance(demanded, list) or not set(demanded) <= set(members):
            raise _Unfit(place, "it demands members that it does not name")

        self._properties += len(members)
        nodes: dict[str, _Node] = {}
        absent: list[str] = []
        for name, member in members.items():
            at = f"{place}/properties/{name}"
            node = self._node(member, at, depth + 1)
            if name not in demanded and self._rules.demands_all:
                if _admits_null(self._document, member):
                    if not (isinstance(member, dict) and member.get("default", 0) is None):
                        raise _Unfit(at, "null and absence cannot be told apart")
                else:
                    node = _or_null(node)
                absent.append(name)
            nodes[name] = node

        sent["properties"] = {name: node.sent for name, node in nodes.items()}
        sent["required"] = [*members] if self._rules.demands_all else [*demanded]
        sent["additionalProperties"] = False
        removed = [name for name in absent if not _admits_null(self._document, members[name])]
        return _members_back(nodes, removed), _members_forth(nodes, absent)

    def _described(self, schema: JSONObject, sent: JSONObject) -> JSONObject:
        """Return a sent schema with the rules that it can keep, and words for the others."""
        words: list[str] = []
        written: JSONObject = {name: schema[name] for name in schema if name in _ANNOTATIONS}
        for name, value in schema.items():
            if name in sent or name in _ANNOTATIONS or name in _SILENT or name == "const":
                continue
            is_kept_format = name == "format" and value in self._rules.formats
            if name in self._rules.keeps or is_kept_format:
                written[name] = value
            elif name in ("type", "properties", "required", "additionalProperties", "items"):
                continue
            else:
                words.append(_words_of(name, value))

        said = str(written.get("description", ""))
        added = "; ".join(filter(None, words))
        if added:
            written["description"] = f"{said} ({added})" if said else added

        return {**written, **sent}


class _Chooser:
    """Maps a value as the first branch of a choice that it fits."""

    def __init__(
        self,
        converter: _Converter,
        branches: list[tuple[_Node, _Map | None]],
        declared: list[Any] | None,
    ) -> None:
        self._converter = converter
        self._branches = branches
        self._declared = declared
        self._engines: list[Any] = []

    def __call__(self, value: JSON) -> JSON:
        for engine, (_, change) in zip(self._compiled(), self._branches, strict=True):
            if engine.is_valid(value, Work()):
                return value if change is None else change(value)

        return value

    def _compiled(self) -> list[Any]:
        """Return what judges each branch; made when it is needed first."""
        if not self._engines:
            is_sent = self._declared is None
            listed = [node.sent for node, _ in self._branches] if is_sent else self._declared or []
            made = [self._converter.rooted(one, is_sent=is_sent) for one in listed]
            self._engines = [engine_for(one, formats=not is_sent) for one in made]

        return self._engines


def _later(node: _Node, way: Literal["back", "forth"]) -> _Map:
    """Return the map of a definition, which may not be known yet."""

    def mapped(value: JSON) -> JSON:
        change: _Map | None = getattr(node, way)
        return value if change is None else change(value)

    return mapped


def _for_each(change: _Map | None) -> _Map | None:
    if change is None:
        return None

    def mapped(value: JSON) -> JSON:
        return [change(one) for one in value] if isinstance(value, list) else value

    return mapped


def _members_back(nodes: Mapping[str, _Node], removed: list[str]) -> _Map | None:
    changes = {name: node.back for name, node in nodes.items() if node.back is not None}
    if not changes and not removed:
        return None

    left_out = frozenset(removed)

    def mapped(value: JSON) -> JSON:
        if not isinstance(value, dict):
            return value

        made: JSONObject = {}
        for name, member in value.items():
            if member is None and name in left_out:
                continue
            change = changes.get(name)
            made[name] = member if change is None else change(member)

        return made

    return mapped


def _members_forth(nodes: Mapping[str, _Node], absent: list[str]) -> _Map | None:
    changes = {name: node.forth for name, node in nodes.items() if node.forth is not None}
    if not changes and not absent:
        return None

    left_out = frozenset(absent)

    def mapped(value: JSON) -> JSON:
        if not isinstance(value, dict):
            return value

        # in the order of the schema, in which a grammar makes a model write them
        made: JSONObject = {}
        for name in nodes:
            if name in value:
                change = changes.get(name)
                made[name] = value[name] if change is None else change(value[name])
            elif name in left_out:
                made[name] = None

        others = {name: member for name, member in value.items() if name not in made}
        return made | others

    return mapped


def _wrapped(node: _Node) -> _Node:
    """Return an object with one member for a root that is none."""
    sent: JSONObject = {
        "type": "object",
        "properties": {VALUE: node.sent},
        "required": [VALUE],
        "additionalProperties": False,
    }
    back = node.back
    forth = node.forth

    def unwrapped(value: JSON) -> JSON:
        if not isinstance(value, dict) or list(value) != [VALUE]:
            return value
        return value[VALUE] if back is None else back(value[VALUE])

    def wrapped(value: JSON) -> JSON:
        return {VALUE: value if forth is None else forth(value)}

    return _Node(sent, unwrapped, wrapped)


def _or_null(node: _Node) -> _Node:
    """Return a schema that admits null, too."""
    sent = dict(node.sent)
    kinds = sent.get("type")
    if "anyOf" in sent:
        sent["anyOf"] = [*sent["anyOf"], {"type": "null"}]
    elif kinds is None or "$ref" in sent:
        described = {name: sent.pop(name) for name in ("description",) if name in sent}
        sent = {"anyOf": [sent, {"type": "null"}], **described}
    else:
        listed = kinds if isinstance(kinds, list) else [kinds]
        sent["type"] = [*listed, "null"]
        if "enum" in sent:
            sent["enum"] = [*sent["enum"], None]

    def unless_null(change: _Map | None) -> _Map | None:
        if change is None:
            return None
        return lambda value: None if value is None else change(value)

    return _Node(sent, unless_null(node.back), unless_null(node.forth))


def _admits_null(document: Any, schema: Any, depth: int = 0) -> bool:
    """Return whether a schema may admit null; true where that cannot be told."""
    if not isinstance(schema, dict) or depth > _LAST_DEPTH:
        return schema is not False
    if "$ref" in schema:
        return _admits_null(document, _found(document, str(schema["$ref"])), depth + 1)

    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            return any(_admits_null(document, one, depth + 1) for one in schema[name])

    if "const" in schema:
        return schema["const"] is None
    if "enum" in schema:
        return None in schema["enum"]

    kinds = schema.get("type")
    return kinds is None or kinds == "null" or (isinstance(kinds, list) and "null" in kinds)


def _found(document: Any, reference: str) -> Any:
    """Return what a reference inside of a document leads to; None where there is nothing."""
    try:
        return at_pointer(document, pointer_tokens(unquote(reference.removeprefix("#"))))
    except (LookupError, ValueError, TypeError):
        return None


def _types_of(values: list[Any]) -> JSON:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    found: list[JSON] = [*dict.fromkeys(names[type(one)] for one in values)]
    if "number" in found and "integer" in found:
        found.remove("integer")

    return found[0] if len(found) == 1 else found


def _words_of(name: str, value: JSON) -> str:
    """Return what a rule says as words of a description; empty for what would be too long."""
    written = json.dumps(value, ensure_ascii=False)
    return f"{name}: {written}" if len(written) <= _MAX_WORDS else ""
