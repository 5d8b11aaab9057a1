"""Reads definitions of tools.

A definition may have misspelled members, and members of a vendor.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NamedTuple, cast

from strictreply.schema import Schema
from strictreply.schema._documents import read_document
from strictreply.schema._vocabulary import IN_PLACE
from strictreply.values._errors import ContractError, warn_of_declaration
from strictreply.values._issues import kind_words, pointer, printable, quote
from strictreply.values._limits import JSONObject
from strictreply.wires._anthropic_requests import common_form
from strictreply.wires._members import peek

_NOT_GIVEN = frozenset({"NotGiven", "Omit"})
_MEMBERS: Mapping[str, type] = {
    "name": str,
    "description": str,
    "parameters": Mapping,
    "strict": bool,
}
_KIND_WORDS = {str: "a text", Mapping: "the schema of an object", bool: "True or False"}
# Known members that a misspelled one may mean, by place, with their names in messages.
_WITHIN = {name: name for name in _MEMBERS}
_BESIDE = {
    "type": "type",
    "function": "function",
    **{name: f"{name} inside function" for name in _MEMBERS},
}
# Other APIs' names for the parameters: as vendor members they would be ignored, and leave the tool
# without parameters.
_OTHER_WORDS = frozenset(
    {"args", "arguments", "input_schema", "inputSchema", "json_schema", "params", "schema"}
)
# JSON Schema keywords that may be written next to the schema by mistake.
_SCHEMA_WORDS = (
    "properties",
    "required",
    "additionalProperties",
    "$defs",
    "definitions",
    "enum",
    "items",
    "anyOf",
    "oneOf",
    "allOf",
)
_ANTHROPICS = "input_schema"
_OPENAIS = frozenset({"function", "parameters"})
_NEAR = 0.81  # the similarity of a misspelling; ``x-name`` is just below it


@dataclass(frozen=True, slots=True)
class VendorMembers:
    """Members that are not OpenAI's, as plain JSON: ``beside`` the function, and ``within`` it."""

    beside: JSONObject = field(default_factory=dict)
    within: JSONObject = field(default_factory=dict)


class Definition(NamedTuple):
    """A tool definition that was read."""

    name: str
    """Name of the tool."""
    description: str
    """What the tool does."""
    parameters: Any
    """Schema of the arguments; that of an empty object if the definition has none."""
    strict: bool | None
    """The member ``strict``; None if it is missing."""
    vendor: VendorMembers
    """Members that are not OpenAI's."""


def given(members: Mapping[str, object]) -> JSONObject:
    """Return the members without markers of the SDK for missing values (``NotGiven``, ``Omit``)."""
    return {
        name: value for name, value in members.items() if type(value).__name__ not in _NOT_GIVEN
    }


def read_definition(definition: Mapping[str, object], *, is_strangers: bool = False) -> Definition:
    """Read ``{"type": "function", "function": {…}}``, or only the inner object.

    Anthropic's form, ``{"name": …, "input_schema": …}``, is also read. With ``is_strangers`` only
    the name must be of the right type; other wrong members are passed on unchanged. Raises
    ContractError with the path of a faulty member.
    """
    if is_anthropics(definition):
        definition = common_form(dict(definition))
    if definition.get("type", "function") != "function":
        raise ContractError('only tools of the type "function" can be declared', path="/type")

    outer, body, at = _parted(definition)
    within = {key: value for key, value in body.items() if key not in _MEMBERS}
    foreign = frozenset() if "parameters" in body else _OTHER_WORDS | _schemas_in(within)
    _refuse_misspelt(outer, "", _BESIDE, foreign)
    _refuse_misspelt(within, at, _WITHIN if at else _WITHIN | {"function": "function"}, foreign)

    if "name" not in body:
        raise ContractError("a tool definition must have a name", path=at)

    for key, kind in _MEMBERS.items():
        value = body.get(key)
        if isinstance(value, kind) or (value is None and key != "name"):
            continue
        if not is_strangers or key == "name":
            words = f"the {key} of a tool must be {_KIND_WORDS[kind]}, not {kind_words(value)}"
            raise ContractError(words, path=pointer(at, key))
        if key != "parameters":
            within[key] = value

    if body.get("description", "") is None:
        within["description"] = None

    parameters = body.get("parameters")
    if parameters is None:
        parameters = {"type": "object", "properties": {}}

    warn_of_misplaced({**outer, **within}, body["name"], "parameters")
    vendor = VendorMembers(_copied(outer, ""), _copied(within, at))
    read = {key: value for key, value in body.items() if key not in within}
    description = read.get("description") or ""
    return Definition(body["name"], description, parameters, read.get("strict"), vendor)


def is_anthropics(definition: object) -> bool:
    """Return whether a mapping or an object is a definition in the form of Anthropic's API."""
    has_other = isinstance(definition, Mapping) and not definition.keys().isdisjoint(_OPENAIS)
    return isinstance(peek(definition, "input_schema"), Mapping) and not has_other


def read_mcp(entry: object) -> Definition:
    """Read an entry of an MCP ``tools/list``, a mapping or an object.

    The returned schema is of an object and has properties, as other APIs require. Raises
    ContractError with the path of a faulty member.
    """
    name = peek(entry, "name")
    description = peek(entry, "description")
    schema = peek(entry, "inputSchema")

    if not isinstance(name, str):
        raise ContractError("an MCP tool must have a name, a string", path="/name")

    if not isinstance(schema, Mapping):
        words = f"the MCP tool {name!r} must have an inputSchema, an object"
        raise ContractError(words, path="/inputSchema")

    words = description if isinstance(description, str) else ""
    document = dict(cast("Mapping[str, Any]", schema))
    if document.get("type") is None:
        document = {**document, "type": "object"}
    # next to a choice, properties would say that they describe only a part of the object
    composed = not IN_PLACE.isdisjoint(document)
    if document["type"] == "object" and document.get("properties") is None and not composed:
        document["properties"] = {}

    return Definition(name, words, document, None, VendorMembers())


@contextmanager
def about_tool(name: str) -> Generator[None]:
    """Make every ContractError raised inside name the tool."""
    try:
        yield
    except ContractError as error:
        words = str(error)
        if not name or any(each in words for each in (repr(name), quote(name), f"{name}()")):
            raise

        said = words.removesuffix(f" (at {error.path})") if error.path else words
        named = ContractError(f"the tool {quote(name)}: {said}", path=error.path)
        raise named from error


def warn_of_misplaced(members: Mapping[str, object], tool: str, schema: str) -> None:
    """Warn of JSON Schema keywords next to a tool's ``schema``, where they have no effect.

    A ``required`` next to ``parameters`` requires nothing.
    """
    misplaced = [word for word in _SCHEMA_WORDS if word in members]
    if not misplaced:
        return

    words = f"{' and '.join(misplaced)} next to {schema}, where it has no effect"
    warn_of_declaration(f"the tool {printable(tool)} has {words}: move it into {schema}")


def _schemas_in(members: Mapping[str, object]) -> set[str]:
    """Return the names of members that look like the schema of an object.

    Such a member is probably the parameters under another name.
    """
    objects = {
        key: cast("Mapping[str, Any]", value)
        for key, value in members.items()
        if isinstance(value, Mapping)
    }
    return {
        key
        for key, value in objects.items()
        if "properties" in {key, *value} or value.get("type") == "object"
    }


def read_custom(definition: Mapping[str, object]) -> tuple[JSONObject, JSONObject]:
    """Read a tool with free text, nested or flat, and return it with a schema of the text.

    If the grammar of the tool is a regular expression that can be checked in linear time, the
    schema has it as its pattern.
    """
    flat_form = {name: value for name, value in definition.items() if name != "type"}
    inner = definition.get("custom", flat_form)
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        raise ContractError("a custom tool must have a name", path="/custom")

    custom = _copied(inner, "/custom")
    flat = custom.get("format")
    nested = peek(flat, "grammar")
    grammar = flat if nested is None else nested
    pattern = peek(grammar, "definition") if peek(grammar, "syntax") == "regex" else None

    schema: JSONObject = {"type": "string"}
    if isinstance(pattern, str):
        whole = schema | {"pattern": f"^(?:{pattern})$"}
        with suppress(ContractError):  # a pattern that cannot be checked in linear time is left out
            Schema.compile(whole)
            schema = whole

    return custom, schema


def _parted(
    definition: Mapping[str, object],
) -> tuple[Mapping[str, object], Mapping[str, Any], str]:
    """Return the members next to the function, the function, and the pointer to it."""
    members = given(definition)
    members.pop("type", None)
    if "function" not in members:
        return {}, members, ""

    function = members.pop("function")
    if not isinstance(function, Mapping):
        raise ContractError("the function of a tool definition must be a mapping", path="/function")

    return members, given(function), "/function"


def _refuse_misspelt(
    keys: Iterable[object], at: str, known: Mapping[str, str], foreign: frozenset[str]
) -> None:
    """Raise ContractError for a misspelled member.

    With ``paramaters``, for example, a tool would have no parameters.
    """
    for key in keys:
        if not isinstance(key, str) or key.startswith("x-"):
            continue

        if key in _OTHER_WORDS & foreign:
            meant = [known["parameters"]]
        elif key in foreign:  # it holds a schema
            meant = get_close_matches(key, [_ANTHROPICS], 1, _NEAR) or [known["parameters"]]
        else:
            meant = [known[name] for name in get_close_matches(key.lower(), known, 1, _NEAR)]

        if meant:
            words = f"a tool definition has no such member; did you mean {meant[0]}?"
            raise ContractError(words, path=pointer(at, key))


def _copied(members: Mapping[str, object], at: str) -> JSONObject:
    try:
        return cast("JSONObject", read_document(members))
    except ContractError as error:
        words = (
            "unknown members of a tool definition must be plain JSON, "
            "within the size limits of a schema"
        )
        raise ContractError(words, path=at + error.path) from error
