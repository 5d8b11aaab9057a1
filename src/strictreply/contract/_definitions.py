"""Reading what declares a tool: an OpenAI definition, or a Python function.

A definition may have members that are misspelt, and members of a vendor.
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
# What a misspelt member may have meant, by where it stands, and how to say so.
_WITHIN = {name: name for name in _MEMBERS}
_BESIDE = {
    "type": "type",
    "function": "function",
    **{name: f"{name} inside function" for name in _MEMBERS},
}
# The words of other APIs for the parameters: passed on as a vendor's member, they would leave a
# tool without any.
_OTHER_WORDS = frozenset(
    {"args", "arguments", "input_schema", "inputSchema", "json_schema", "params", "schema"}
)
# Words of JSON Schema that somebody may write beside the schema instead of in it.
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
    """Schema of the arguments; that of an empty object when the definition has none."""
    strict: bool | None
    """The member of the same name; None when it was not given."""
    vendor: VendorMembers
    """Members that are not OpenAI's."""


def given(members: Mapping[str, object]) -> JSONObject:
    """Return members without those that a marker of the SDK (``NotGiven``, ``Omit``) leaves out."""
    return {
        name: value for name, value in members.items() if type(value).__name__ not in _NOT_GIVEN
    }


def read_definition(definition: Mapping[str, object], *, is_strangers: bool = False) -> Definition:
    """Read ``{"type": "function", "function": {…}}``, or what stands inside ``function``.

    ``{"name": …, "input_schema": …}``, the form of Anthropic's API, is read alike. Of a definition
    of strangers, only the name has to be of the right type: the others that are not are passed on
    as they are. Raises ContractError with the path of a faulty member.
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
    """Return whether a definition has the form of Anthropic's API, a mapping or an object."""
    has_other = isinstance(definition, Mapping) and not definition.keys().isdisjoint(_OPENAIS)
    return isinstance(peek(definition, "input_schema"), Mapping) and not has_other


def read_mcp(entry: object) -> Definition:
    """Read an entry of an MCP ``tools/list``, a mapping or an object.

    Its schema is of an object, and has properties, as other APIs demand of parameters. Raises
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
    # beside a choice, properties would say that it describes only a part of the object
    composed = not IN_PLACE.isdisjoint(document)
    if document["type"] == "object" and document.get("properties") is None and not composed:
        document["properties"] = {}

    return Definition(name, words, document, None, VendorMembers())


@contextmanager
def about_tool(name: str) -> Generator[None]:
    """Let every ContractError that is raised inside say which tool it is about."""
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
    """Warn of words of JSON Schema among the members beside a tool's ``schema``.

    There they have no effect: a ``required`` beside ``parameters`` requires nothing.
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
    """Read a tool that takes free text, nested or flat, and return it with a schema of that text.

    The schema has the grammar of the tool as its pattern, where that is a regular expression that
    can be checked in linear time.
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
        with suppress(ContractError):  # one that cannot be checked in linear time is left out
            Schema.compile(whole)
            schema = whole

    return custom, schema


def _parted(
    definition: Mapping[str, object],
) -> tuple[Mapping[str, object], Mapping[str, Any], str]:
    """Return what stands beside the function, the function, and the pointer to it."""
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
    """Refuse unknown members that mean a known one.

    With ``paramaters``, for instance, a tool would be without its parameters.
    """
    for key in keys:
        if not isinstance(key, str) or key.startswith("x-"):
            continue

        meant = ["parameters"]
        if key not in foreign:
            meant = get_close_matches(key.lower(), known, 1, _NEAR)

        if meant:
            words = f"a tool definition has no such member; did you mean {known[meant[0]]}?"
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
