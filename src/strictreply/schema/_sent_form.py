"""Converts a schema to the form for one provider's strict mode, and values back.

A strict mode accepts a subset of JSON Schema. The sent form is the narrowest schema in that subset
that still admits every value of the declared schema. Rules that the subset cannot express become
words in descriptions, and strictreply checks them in the reply. A declared value maps to a value of
the sent form, and back to itself:

==============================  ================================================================
declared                        sent
==============================  ================================================================
an optional member              required, and null if absent (if the mode requires all members)
``oneOf``                       ``anyOf``
``$ref`` with siblings          its target, with the siblings
``allOf`` of one schema         that schema
limits, formats and the like    words in the description
a root that is not an object    the only member ``value`` of an object (only for an answer)
==============================  ================================================================

If there is no such form, the declared schema is sent without strict mode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote

from strictreply.schema._documents import at_pointer, is_pointer
from strictreply.schema._places import SchemaDocument
from strictreply.schema._sent_values import (
    Chooser,
    Judges,
    Map,
    SentNode,
    agree,
    for_each,
    later,
    members_back,
    members_forth,
    of_either,
    or_null,
    wrapped,
)
from strictreply.schema._survey import LIMITS
from strictreply.schema._vocabulary import as_list, json_type
from strictreply.values._issues import pointer, pointer_tokens
from strictreply.values._limits import JSON, JSONObject

StrictProvider: TypeAlias = Literal["openai", "anthropic"]
"""The providers whose strict mode can be requested."""

_ANNOTATIONS: Final = frozenset({"title", "description"})
_SILENT: Final = frozenset(
    {"$schema", "$id", "$comment", "examples", "deprecated", "readOnly", "writeOnly"}
    | {"$anchor", "contentEncoding", "contentMediaType", "discriminator"}
)
"""Keywords that no reply can break."""

_REMARKS: Final = _ANNOTATIONS | _SILENT | {"default"}
"""Keywords that may be next to a reference or a union."""

_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_LAST_DEPTH: Final = 10
_LAST_REFERENCES: Final = 100
_LAST_NODES: Final = 10_000
_MAX_WORDS: Final = 120
_SCALARS: Final = (str, int, float, bool, type(None))


class _Unfit(Exception):
    """Raised if a schema has no form that the provider would enforce."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place or '/'}: {why}")


@dataclass(frozen=True, slots=True)
class _Rules:
    """What one strict mode accepts."""

    keeps: frozenset[str]
    """The keywords that it enforces, in addition to those of the structure."""
    formats: frozenset[str]
    """The formats that it enforces."""
    demands_all: bool
    """Whether every member must be required."""
    takes_recursion: bool
    """Whether a schema may refer to itself."""


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


@dataclass(frozen=True, slots=True)
class SentForm:
    """A schema in the form for one provider."""

    document: JSON
    """The schema that is sent."""
    is_strict: bool
    """Whether the provider enforces all of it, so that its strict mode is requested."""
    why: str = ""
    """Why no strict mode is requested; empty if it is."""
    restored: Map | None = field(default=None, repr=False)
    """Converts a received value to the declared schema; None if both are the same."""
    is_wrapped: bool = False
    """Whether a declared value is the member ``value`` of the sent form."""
    sent: Map | None = field(default=None, repr=False)
    """Converts a declared value to the sent form; None if both are the same."""


def sent_form(
    document: JSON,
    provider: StrictProvider,
    *,
    wraps_root: bool = False,
    asserts_formats: bool = True,
) -> SentForm:
    """Return a closed schema in the form for a provider.

    With ``wraps_root`` a root that is not an object may become the member ``value`` of one. A
    ``format`` that is not enforced becomes part of the description, because the provider would
    enforce it. A schema without such a form is returned unchanged, with the reason.
    """
    rules = _RULES[provider]
    if not asserts_formats:
        rules = replace(rules, formats=frozenset())

    try:
        converter = _Converter(document, rules)
        form = converter.form(wraps_root=wraps_root)
        _refuse_too_large(form.document, provider)
    except (_Unfit, RecursionError) as error:
        return SentForm(document, is_strict=False, why=str(error) or type(error).__name__)

    return form


def _refuse_too_large(document: Any, provider: StrictProvider) -> None:
    """Raise _Unfit for a form that exceeds the provider's limits."""
    sent = [SchemaDocument(document)]
    for limit in LIMITS[provider]:
        if not limit.is_of_request and limit.count(sent) > limit.most:
            raise _Unfit("", f"it has more than {limit.most} {limit.noun}")


_Judged: TypeAlias = tuple[str, list[SentNode]]
"""A union: its place and its branches."""


class _Converter:
    """Converts one document."""

    def __init__(self, document: JSON, rules: _Rules) -> None:
        self._document: Any = document
        self._rules = rules
        self._definitions: dict[str, SentNode] = {}
        """The converted definitions, by name."""
        self._names: dict[str, str] = {}
        """Their names, by reference."""
        self._open: list[str] = []
        self._forth = Judges(self._definitions, "forth")
        self._back = Judges(self._definitions, "back")
        self._choices: list[_Judged] = []
        self._deepest = 0
        self._nodes = 0
        self._absent: list[str] = []
        """The places of the members that become null if they are absent."""
        self._removed: list[str] = []
        """The places of the members that become absent if they are null."""

    def form(self, *, wraps_root: bool) -> SentForm:
        """Return the form of the whole document."""
        if not isinstance(self._document, dict):
            raise _Unfit("", "a boolean schema has no type")

        root, place = self._root(self._document)
        node = self._node(root, place, 1)
        is_object = node.sent.get("type") == "object"
        if not is_object and not wraps_root:
            raise _Unfit("", "the root is not an object")
        if not is_object:
            self._refuse_depth("", self._deepest + 1)

        for at, branches in self._choices:
            if not agree(branches):
                raise _Unfit(at, "a member that is absent in one form may be null in another")

        # a recursive reference is mapped before it is known whether anything changes
        node.back = node.back if self._removed else None
        node.forth = node.forth if self._absent else None
        if not is_object:
            node = wrapped(node)

        document = dict(node.sent)
        if self._definitions:
            document["$defs"] = {name: one.sent for name, one in self._definitions.items()}

        return SentForm(
            document,
            is_strict=True,
            restored=node.back,
            sent=node.forth,
            is_wrapped=not is_object,
        )

    def _root(self, schema: JSONObject) -> tuple[JSONObject, str]:
        """Return the schema of the root, following a reference, and its place."""
        place = ""
        for _ in range(_LAST_REFERENCES):
            schema = _without_definitions(schema)
            if "allOf" in schema:
                schema = self._merged(schema, place)
            elif "$ref" in schema:
                place = _place_of(schema["$ref"])
                schema = self._with_siblings(schema, place)
            else:
                break

        return schema, place

    def _target(self, reference: Any, place: str) -> JSONObject:
        if not isinstance(reference, str) or not is_pointer(reference):
            raise _Unfit(place, "a reference points outside the schema")

        found = _found(self._document, reference)
        if not isinstance(found, dict):
            raise _Unfit(place, "a reference points to something that is not a schema")

        return found

    def _with_siblings(self, schema: JSONObject, place: str) -> JSONObject:
        """Return the target of a reference, with the annotations next to the reference."""
        target = self._target(schema["$ref"], place)
        siblings = {name: schema[name] for name in schema if name != "$ref"}
        if not set(siblings) <= _REMARKS:
            raise _Unfit(place, "a reference has other rules next to it")

        return {**target, **siblings}

    def _refuse_depth(self, place: str, depth: int) -> None:
        self._deepest = max(self._deepest, depth)
        if depth > _LAST_DEPTH:
            raise _Unfit(place, f"it is nested more than {_LAST_DEPTH} levels deep")

    def _node(self, schema: Any, place: str, depth: int) -> SentNode:
        """Convert the schema at a place."""
        if not isinstance(schema, dict):
            raise _Unfit(place, "a boolean schema has no type")

        self._refuse_depth(place, depth)
        self._nodes += 1
        if self._nodes > _LAST_NODES:
            raise _Unfit(place, f"expanded, it has more than {_LAST_NODES} schemas")
        if place and isinstance(schema.get("$id"), str):
            raise _Unfit(place, "a part of it has its own $id")

        schema = _without_definitions(schema)
        if "$ref" in schema:
            return self._reference(schema, place, depth)
        if "allOf" in schema:
            return self._node(self._merged(schema, place), f"{place}/allOf/0", depth)

        choices = [name for name in ("anyOf", "oneOf") if name in schema]
        if choices:
            return self._choice(schema, choices, place, depth)

        return self._plain(schema, place, depth)

    def _reference(self, schema: JSONObject, place: str, depth: int) -> SentNode:
        """Convert a reference to a reference, or to its target if it has siblings."""
        reference = schema["$ref"]
        written = self._with_siblings(schema, place)
        is_inside = reference in self._open
        if is_inside and not self._rules.takes_recursion:
            raise _Unfit(place, "the schema refers to itself")

        at = _place_of(reference)
        if len(schema) > 1 and not is_inside:
            return self._opened(reference, written, at, depth)

        if reference not in self._names:
            name = self._names[reference] = self._name_of(reference)
            # recorded before it is converted, because it may refer to itself
            held = self._definitions[name] = SentNode({}, {})
            made = self._opened(reference, self._target(reference, place), at, depth)
            for each in fields(made):
                setattr(held, each.name, getattr(made, each.name))

        name = self._names[reference]
        found = self._definitions[name]
        is_open = reference in self._open
        sent: JSONObject = {"$ref": f"#/$defs/{name}"}
        return SentNode(
            sent,
            sent,
            later(found, "back") if is_open or found.back else None,
            later(found, "forth") if is_open or found.forth else None,
            branches=(found,),
        )

    def _opened(self, reference: str, schema: JSONObject, place: str, depth: int) -> SentNode:
        """Convert the target of a reference."""
        self._open.append(reference)
        try:
            return self._node(schema, place, depth)
        finally:
            self._open.pop()

    def _name_of(self, reference: str) -> str:
        # only characters that need no escape in a reference
        wanted = re.sub(r"[^A-Za-z0-9_.-]", "_", unquote(reference.rpartition("/")[2])) or "root"
        name = wanted
        number = 2
        while name in self._definitions:
            name = f"{wanted}_{number}"
            number += 1

        return name

    def _merged(self, schema: JSONObject, place: str) -> JSONObject:
        """Return a schema without its ``allOf``, which has one member."""
        parts = schema["allOf"]
        others = {name: schema[name] for name in schema if name != "allOf"}
        is_alone = isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], dict)
        if not is_alone or not set(others) <= _REMARKS:
            raise _Unfit(f"{place}/allOf", "several schemas apply to one value")

        return {**parts[0], **others}

    def _choice(self, schema: JSONObject, names: list[str], place: str, depth: int) -> SentNode:
        """Convert a union; values are mapped like the first branch that they fit."""
        name = names[0]
        others = {key: schema[key] for key in schema if key != name}
        branches = schema[name]
        if len(names) > 1 or not set(others) <= _REMARKS | {"type"}:
            raise _Unfit(place, "a union has other rules next to it")

        nodes = [
            self._node(branch, f"{place}/{name}/{index}", depth)
            for index, branch in enumerate(branches)
        ]
        sent = {**self._described(others, {}), "anyOf": [node.sent for node in nodes]}
        sent.pop("type", None)
        made = SentNode(sent, {"anyOf": [node.plain for node in nodes]}, branches=tuple(nodes))
        if any(node.back for node in nodes):
            made.back = Chooser(self._back, nodes, "back")
            self._choices.append((place, nodes))
        if any(node.forth for node in nodes):
            made.forth = Chooser(self._forth, nodes, "forth")

        return made

    def _plain(self, schema: JSONObject, place: str, depth: int) -> SentNode:
        """Convert a schema without references and unions."""
        kinds = schema.get("type")
        listed = [] if kinds is None else as_list(kinds)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if kinds is None and values is None:
            raise _Unfit(place, "it has no type")

        sent: JSONObject = {} if kinds is None else {"type": kinds}
        if values is not None:
            fitting = [one for one in values if not listed or _is_of(one, listed)]
            if not fitting or not all(isinstance(one, _SCALARS) for one in fitting):
                raise _Unfit(place, "its values cannot be listed")
            sent["enum"] = fitting
            sent.setdefault("type", _types_of(fitting))

            described = self._described(schema, sent)
            return SentNode(described, described)

        members = self._members(schema, place, depth) if "object" in listed else _NOTHING
        items = self._items(schema, place, depth) if "array" in listed else _NOTHING
        sent |= members.sent | items.sent
        described = self._described(schema, sent)
        return SentNode(
            described,
            {**described, **members.plain, **items.plain},
            of_either(members.back, items.back),
            of_either(members.forth, items.forth),
            members.members,
            members.removed,
            items.items,
        )

    def _items(self, schema: JSONObject, place: str, depth: int) -> SentNode:
        """Convert the rules for the items of an array."""
        if "prefixItems" in schema or not isinstance(schema.get("items"), dict):
            raise _Unfit(place, "it does not describe its items")

        items = self._node(schema["items"], f"{place}/items", depth + 1)
        return SentNode(
            {"items": items.sent},
            {"items": items.plain},
            for_each(items.back),
            for_each(items.forth),
            items=items,
        )

    def _members(self, schema: JSONObject, place: str, depth: int) -> SentNode:
        """Convert the rules for the members of an object."""
        members = schema.get("properties", {})
        is_closed = (
            schema.get("additionalProperties") is False and "patternProperties" not in schema
        )
        if not is_closed or not isinstance(members, dict):
            raise _Unfit(place, "it allows members that it does not name")

        demanded = schema.get("required", [])
        if not isinstance(demanded, list) or not set(demanded) <= set(members):
            raise _Unfit(place, "it requires members that it does not name")

        nodes: dict[str, SentNode] = {}
        absent: list[str] = []
        removed: set[str] = set()
        for name, member in members.items():
            at = pointer(place, "properties", name)
            node = self._node(member, at, depth + 1)
            if name not in demanded and self._rules.demands_all:
                absent.append(name)
                if not self._keeps_null(member, at):
                    removed.add(name)
                    node = or_null(node)

            nodes[name] = node

        self._absent.extend(absent)
        self._removed.extend(removed)
        rest: JSONObject = {"additionalProperties": False}
        return SentNode(
            {
                "properties": {name: node.sent for name, node in nodes.items()},
                "required": [*members] if self._rules.demands_all else [*demanded],
                **rest,
            },
            {
                "properties": {name: node.plain for name, node in nodes.items()},
                "required": [*demanded],
                **rest,
            },
            members_back(nodes, frozenset(removed)),
            members_forth(nodes, absent),
            nodes,
            frozenset(removed),
        )

    def _keeps_null(self, member: Any, place: str) -> bool:
        """Return whether null stays null in an optional member, and absence becomes null.

        Raises _Unfit if null and absence mean different things.
        """
        if not admits_null(self._document, member):
            return False
        if not isinstance(member, dict) or member.get("default", 0) is not None:
            raise _Unfit(place, "null and a missing member could not be distinguished")

        return True

    def _described(self, schema: JSONObject, sent: JSONObject) -> JSONObject:
        """Return a sent schema with the rules that it can express, and words for the others."""
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


_NOTHING: Final = SentNode({}, {})
"""No rules for members or items."""


def _without_definitions(schema: JSONObject) -> JSONObject:
    return {name: schema[name] for name in schema if name not in ("$defs", "definitions")}


def _place_of(reference: Any) -> str:
    return unquote(str(reference).removeprefix("#"))


def admits_null(document: Any, schema: Any, depth: int = 0) -> bool:
    """Return whether null fits a schema; raise _Unfit if that is unclear."""
    if not isinstance(schema, dict):
        return schema is not False
    if depth > _LAST_REFERENCES or any(name in schema for name in ("$dynamicRef", "$recursiveRef")):
        raise _Unfit("", "it is unclear whether a member may be null")

    def admits(inner: Any) -> bool:
        return admits_null(document, inner, depth + 1)

    verdicts: list[bool] = []
    if "type" in schema:
        verdicts.append("null" in as_list(schema["type"]))
    if "enum" in schema:
        verdicts.append(None in schema["enum"])
    if "const" in schema:
        verdicts.append(schema["const"] is None)
    if "$ref" in schema:
        verdicts.append(admits(_found(document, str(schema["$ref"]))))
    if "not" in schema:
        verdicts.append(not admits(schema["not"]))
    if "if" in schema:
        then = schema.get("then", True) if admits(schema["if"]) else schema.get("else", True)
        verdicts.append(admits(then))

    verdicts.extend(admits(one) for one in schema.get("allOf", []))
    if "anyOf" in schema:
        verdicts.append(any(map(admits, schema["anyOf"])))
    if "oneOf" in schema:
        verdicts.append(sum(map(admits, schema["oneOf"])) == 1)

    return all(verdicts)


def _found(document: Any, reference: str) -> Any:
    """Return the target of a reference inside a document; None if there is none."""
    if not is_pointer(reference):
        return None

    try:
        return at_pointer(document, pointer_tokens(unquote(reference.removeprefix("#"))))
    except (LookupError, ValueError, TypeError):
        return None


def _is_of(value: JSON, kinds: list[Any]) -> bool:
    kind = json_type(value)
    return kind in kinds or (kind == "integer" and "number" in kinds)


def _types_of(values: list[Any]) -> JSON:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    found: list[JSON] = [*dict.fromkeys(names[type(one)] for one in values)]
    if "number" in found and "integer" in found:
        found.remove("integer")

    return found[0] if len(found) == 1 else found


def _words_of(name: str, value: JSON) -> str:
    """Return words for a rule in a description; empty if they would be too long."""
    written = json.dumps(value, ensure_ascii=False)
    return f"{name}: {written}" if len(written) <= _MAX_WORDS else ""
