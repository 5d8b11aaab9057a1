"""Reading an OpenAI tool definition: which members it has, which are a vendor's own, and which are misspelt.

No schema is compiled and no tool made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, cast

from strictreply.schema import Schema
from strictreply.schema._documents import read_document
from strictreply.values._errors import ContractError
from strictreply.values._issues import pointer
from strictreply.values._json import JSONObject
from strictreply.wires._opening import peek

_NO_PARAMETERS: JSONObject = {"type": "object", "properties": {}}
_NOT_GIVEN = frozenset({"NotGiven", "Omit"})
_MEMBERS: Mapping[str, type] = {"name": str, "description": str, "parameters": Mapping, "strict": bool}

_WITHIN = {name: name for name in _MEMBERS}
_FLAT = _WITHIN | {"function": "function"}
_BESIDE = {"type": "type", "function": "function"} | {name: f"{name} inside function" for name in _MEMBERS}
"""What a misspelt member may have meant, by where it stands, and how to say so."""

_OTHER_WORDS = frozenset({"args", "arguments", "input_schema", "inputSchema", "json_schema", "params", "schema"})
"""What other APIs call the parameters: passed on as a vendor's member, they would leave a tool without any."""

_NEAR = 0.81
"""The similarity of a misspelling; ``x-name`` is just below it."""


@dataclass(frozen=True, slots=True)
class VendorMembers:
    """Members that are none of OpenAI's, as plain JSON of our own: ``beside`` the function, and ``within`` it."""

    beside: JSONObject = field(default_factory=dict)
    within: JSONObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Definition:
    """What a tool definition says; no parameters are the schema of an empty object, ``strict`` is None when unsaid."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool | None
    vendor: VendorMembers


class Definitions(list[JSONObject]):
    """The definitions of declared tools, as a request takes them: read by us before, so known to be plain JSON.

    Each is the one that a tool keeps and nobody changes.
    """


def given(members: Mapping[str, Any]) -> JSONObject:
    """Return members without those that the SDK's own words say are not given."""
    return {name: value for name, value in members.items() if type(value).__name__ not in _NOT_GIVEN}


def read_definition(definition: Mapping[str, Any]) -> Definition:
    """Read ``{"type": "function", "function": {…}}``, or what stands inside it; members of vendors are copied.

    Raises ContractError with the path of the member when one is missing, of the wrong type or no plain JSON, and when
    one that is unknown looks like a known one: ``paramaters`` would otherwise be a tool without parameters.
    """
    if definition.get("type", "function") != "function":
        raise ContractError('only tools of the type "function" can be declared', path="/type")
    outer, body, at = _parted(definition)
    within = {key: value for key, value in body.items() if key not in _MEMBERS}
    foreign = frozenset() if "parameters" in body else _OTHER_WORDS | _schemas_in(within)
    _refuse_misspelt(outer, "", _BESIDE, foreign)
    _refuse_misspelt(within, at, _WITHIN if at else _FLAT, foreign)
    _refuse_members(body, at)
    within |= {"description": None} if body.get("description", "") is None else {}
    return Definition(
        name=body["name"],
        description=body.get("description") or "",
        parameters=_NO_PARAMETERS if body.get("parameters") is None else body["parameters"],
        strict=body.get("strict"),
        vendor=VendorMembers(_copied(outer, ""), _copied(within, at)),
    )


def read_custom(definition: Mapping[str, Any]) -> tuple[JSONObject, JSONObject]:
    """Read a tool that takes free text, nested as chat completions have it or flat: what it says, and a schema.

    The schema holds the text to the grammar where that is a regular expression that runs in linear time.
    """
    inner = definition.get("custom", {name: value for name, value in definition.items() if name != "type"})
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        raise ContractError("a custom tool must have a name", path="/custom")
    custom = _copied(inner, "/custom")
    told = custom.get("format")
    grammar = told if peek(told, "grammar") is None else peek(told, "grammar")
    pattern = peek(grammar, "definition") if peek(grammar, "syntax") == "regex" else None
    schema: JSONObject = {"type": "string"}
    if isinstance(pattern, str):
        whole = schema | {"pattern": f"^(?:{pattern})$"}
        with suppress(ContractError):  # one that cannot be held in linear time is not checked
            Schema.compile(whole)
            schema = whole
    return custom, schema


def member_of(entry: object, key: str) -> object:
    """Read a member of a mapping or an object, None when it has none."""
    return cast("Mapping[str, object]", entry).get(key) if isinstance(entry, Mapping) else getattr(entry, key, None)


def _parted(definition: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    """Return what stands beside the function, the function, and the pointer to it."""
    definition = given(definition)
    if "function" not in definition:
        return {}, {key: value for key, value in definition.items() if key != "type"}, ""
    if not isinstance(definition["function"], Mapping):
        raise ContractError("the function of a tool definition is a mapping", path="/function")
    outer = {key: value for key, value in definition.items() if key not in {"type", "function"}}
    return outer, given(definition["function"]), "/function"


def _refuse_misspelt(keys: Iterable[object], at: str, known: Mapping[str, str], foreign: frozenset[str]) -> None:
    """Refuse unknown members that mean a known one: misspelt, in another API's word, or in the wrong place."""
    for key in keys:
        if isinstance(key, str) and not key.startswith("x-") and (meant := _meant(key, known, foreign)):
            message = f"a tool definition has no such member; did you mean {known[meant]}?"
            raise ContractError(message, path=pointer(at, key))


def _schemas_in(members: Mapping[str, Any]) -> frozenset[str]:
    """Return the members that hold the schema of an object, whatever they are called."""
    objects = {key: cast("Mapping[str, Any]", value) for key, value in members.items() if isinstance(value, Mapping)}
    return frozenset(
        key for key, value in objects.items() if "properties" in {key, *value} or value.get("type") == "object"
    )


def _meant(key: str, known: Iterable[str], foreign: frozenset[str]) -> str | None:
    """Find the known member that a key stands for, None when it is a vendor's own word."""
    if key in foreign:
        return "parameters"
    return next(iter(get_close_matches(key.lower(), known, 1, _NEAR)), None)


def _refuse_members(body: Mapping[str, Any], at: str) -> None:
    """Refuse a function definition without a name, or with a member of the wrong type."""
    if "name" not in body:
        raise ContractError("a tool definition must have a name", path=at)
    for key, kind in _MEMBERS.items():
        value = body.get(key)
        if not isinstance(value, kind) and (value is not None or key == "name"):
            raise ContractError(f"the {key} of a tool must be a {kind.__name__}", path=pointer(at, key))


def _copied(members: Mapping[str, Any], at: str) -> JSONObject:
    """Copy a vendor's members, within the caps that hold for schemas."""
    try:
        return cast("JSONObject", read_document(members))
    except ContractError as error:
        words = "a vendor's members of a tool definition are plain JSON of the size of a schema"
        raise ContractError(words, path=at + error.path) from error
