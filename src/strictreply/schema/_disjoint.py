"""Whether a value may fit two forms of a union, as far as types and tags decide it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any, Final

from strictreply.schema._places import (
    KEYWORDS,
    UNIONS,
    SchemaDocument,
    SchemaPlace,
    is_one,
    members_of,
    required_of,
    types_of,
)
from strictreply.schema._vocabulary import as_list, json_type
from strictreply.values._limits import JSONObject

_NOTHING: Final = object()
MOST_FORMS: Final = 64
"""How many forms of a union are compared."""


@dataclass(frozen=True, slots=True)
class _Form:
    """One kind of value that a schema allows, with what distinguishes it from others."""

    kind: str
    """The type; ``any`` for every value, ``reference`` for a reference that is not followed."""
    literal: Any = _NOTHING
    """The only value, if there is one."""
    parts: tuple[JSONObject, ...] = ()
    """The schemas that apply to it together."""


@dataclass(slots=True)
class Disjoint:
    """Decides whether no value fits two schemas; None if it is not known."""

    document: SchemaDocument
    """The document, for its references."""
    follows: bool = True
    """Whether references are followed; a reference that is not differs from no other form."""
    tells_numbers: bool = True
    """Whether numbers and arrays are distinguished by their value."""
    _seen: list[str] = field(default_factory=list)

    def are_pairwise(self, schemas: list[Any], base: JSONObject) -> bool | None:
        """Return whether no value fits two of the schemas, each together with ``base``."""
        if len(schemas) > MOST_FORMS:
            return None

        forms = [self._forms(schema, base) for schema in schemas]
        is_known = True
        for one, other in combinations(forms, 2):
            verdict = self._are_apart(one, other)
            if verdict is False:
                return False

            is_known = is_known and verdict is not None

        return True if is_known else None

    def _are_apart(self, ones: list[_Form] | None, others: list[_Form] | None) -> bool | None:
        if ones is None or others is None:
            return None

        is_known = True
        for one, other in product(ones, others):
            verdict = self._is_apart(one, other)
            if verdict is False:
                return False

            is_known = is_known and verdict is not None

        return True if is_known else None

    def _is_apart(self, one: _Form, other: _Form) -> bool | None:
        if {one.kind, other.kind} & {"any", "reference"}:
            return False
        if one.kind != other.kind:
            return True
        if one.kind == "object":
            return self._are_objects_apart(one, other)

        tells = self.tells_numbers or one.kind in ("boolean", "string")
        has_literals = one.literal is not _NOTHING and other.literal is not _NOTHING
        return tells and has_literals and one.literal != other.literal

    def _are_objects_apart(self, one: _Form, other: _Form) -> bool | None:
        names = {name for form in (one, other) for part in form.parts for name in required_of(part)}
        is_known = True
        for name in names:
            verdict = self._are_apart(self._member(one, name), self._member(other, name))
            if verdict is True:
                return True

            is_known = is_known and verdict is not None

        return False if is_known else None

    def _member(self, form: _Form, name: str) -> list[_Form] | None:
        """Return the forms of one member of an object; an empty list if it is not allowed."""
        if any("patternProperties" in part for part in form.parts):
            return None

        named = [members_of(part)[name] for part in form.parts if name in members_of(part)]
        if named:
            return self._forms(named[0], {})

        others = [
            part["additionalProperties"] for part in form.parts if "additionalProperties" in part
        ]
        return self._forms(others[0], {}) if others else [_Form("any")]

    def _forms(self, schema: Any, base: JSONObject) -> list[_Form] | None:
        """Return the kinds of value that a schema allows; None if they are not known."""
        if isinstance(schema, bool):
            return [_Form("any")] if schema else []
        if not isinstance(schema, dict) or not base.keys().isdisjoint({"allOf", "$ref", "not"}):
            return None

        if "$ref" in schema:
            return self._referred(schema, base)
        if "allOf" in schema:
            return None

        unions = [keyword for keyword in UNIONS if keyword in schema]
        if unions:
            is_alone = KEYWORDS.isdisjoint(schema.keys() - {unions[0]})
            return self._united(schema[unions[0]], base) if is_alone else None

        return self._plain(schema, base)

    def _united(self, schemas: Any, base: JSONObject) -> list[_Form] | None:
        forms = [self._forms(schema, base) for schema in as_list(schemas)]
        known = [each for each in forms if each is not None]
        return [form for each in known for form in each] if len(known) == len(forms) else None

    def _referred(self, schema: JSONObject, base: JSONObject) -> list[_Form] | None:
        reference = str(schema["$ref"])
        if not self.follows and not base:
            return [_Form("reference")]
        if reference in self._seen or not KEYWORDS.isdisjoint(schema.keys() - {"$ref"}):
            return None

        self._seen.append(reference)
        try:
            return self._forms(self.document.find(reference), base)
        finally:
            self._seen.pop()

    def _plain(self, schema: JSONObject, base: JSONObject) -> list[_Form] | None:
        parts = tuple(part for part in (schema, base) if part)
        kinds = set.intersection(*(_kinds_of(part) for part in parts)) if parts else _ALL_KINDS
        valued = [part for part in parts if "enum" in part or "const" in part]
        if valued:
            values = as_list(valued[0]["enum"]) if "enum" in valued[0] else [valued[0]["const"]]
            forms = [_form_of(value) for value in values]
            return [form for form in forms if form.kind in kinds]

        if all(KEYWORDS.isdisjoint(part) for part in parts):
            return [_Form("any")]

        return [_Form(kind, parts=parts) for kind in sorted(kinds)]


_ALL_KINDS: Final = {"array", "boolean", "null", "number", "object", "string"}


def _kinds_of(schema: Mapping[str, Any]) -> set[str]:
    return {"number" if name == "integer" else name for name in types_of(schema)}


def _form_of(value: Any) -> _Form:
    kind = json_type(value)
    if kind == "object":
        members = {name: {"const": each} for name, each in value.items()}
        closed = {"properties": members, "required": list(value), "additionalProperties": False}
        return _Form(kind, value, (closed,))

    return _Form("number" if kind == "integer" else kind, value)


def _base_of(place: SchemaPlace) -> JSONObject:
    """Return the rules next to a union, which apply to each of its forms."""
    ignored = {place.keyword, "$defs", "definitions"}
    return {name: value for name, value in place.schema.items() if name not in ignored}


def may_overlap(place: SchemaPlace) -> bool:
    """Return whether a value may fit two forms of a union."""
    beside = {name: value for name, value in _base_of(place).items() if name in KEYWORDS}
    return _told(place, beside, Disjoint(place.document)) is not True


def _told(place: SchemaPlace, beside: JSONObject, disjoint: Disjoint) -> bool | None:
    """Return whether the forms of a union exclude each other; computed once for each place."""
    if is_one(place):
        return True

    known = place.document.verdicts
    key = (id(place.value), disjoint.follows)
    if key not in known:
        known[key] = disjoint.are_pairwise(as_list(place.value), beside)

    return known[key]


_META: Final = frozenset(
    {
        "$anchor",
        "$schema",
        "$id",
        "id",
        "$comment",
        "title",
        "description",
        "default",
        "readOnly",
        "writeOnly",
        "examples",
        "contentMediaType",
        "contentEncoding",
    }
)
"""The keywords that llguidance reads as annotations, without an effect on values."""


def is_proven_apart(place: SchemaPlace) -> bool | None:
    """Return whether llguidance can prove that no value fits two forms; None if not known."""
    beside = {name: value for name, value in _base_of(place).items() if name not in _META}
    return _told(place, beside, Disjoint(place.document, follows=False, tells_numbers=False))


def is_surely_unproven(place: SchemaPlace) -> bool:
    """Return whether llguidance surely cannot prove that forms exclude each other."""
    return is_proven_apart(place) is False


def is_maybe_unproven(place: SchemaPlace) -> bool:
    """Return whether it is not known what llguidance can prove of the forms of a union."""
    return is_proven_apart(place) is None
