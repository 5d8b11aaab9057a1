"""Reading what declares a tool: an OpenAI definition, or a Python function.

A definition may have members that are misspelt, and members of a vendor.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import FrameType
from typing import Annotated, Any, NamedTuple, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from strictreply.contract._models import UNREADABLE, first_line
from strictreply.schema import Schema
from strictreply.schema._contradictions import warn_at_declaration
from strictreply.schema._documents import read_document
from strictreply.values._errors import ContractError
from strictreply.values._issues import pointer, printable
from strictreply.values._limits import JSONObject
from strictreply.wires._opening import peek

_NOT_GIVEN = frozenset({"NotGiven", "Omit"})
_MEMBERS: Mapping[str, type] = {
    "name": str,
    "description": str,
    "parameters": Mapping,
    "strict": bool,
}
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
_NEAR = 0.81  # the similarity of a misspelling; ``x-name`` is just below it


@dataclass(frozen=True, slots=True)
class VendorMembers:
    """Members that are not OpenAI's, as plain JSON: ``beside`` the function, and ``within`` it."""

    beside: JSONObject = field(default_factory=dict)
    within: JSONObject = field(default_factory=dict)


class Definition(NamedTuple):
    """A tool definition that was read.

    Without parameters it has the schema of an empty object. ``strict`` is None when not given.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool | None
    vendor: VendorMembers


class Definitions(list[JSONObject]):
    """The definitions of declared tools as a request takes them.

    They are plain JSON that belongs to the tools: nobody may change it.
    """


def given(members: Mapping[str, Any]) -> JSONObject:
    """Return members without those that a marker of the SDK (``NotGiven``, ``Omit``) leaves out."""
    return {
        name: value for name, value in members.items() if type(value).__name__ not in _NOT_GIVEN
    }


def read_definition(definition: Mapping[str, Any]) -> Definition:
    """Read ``{"type": "function", "function": {…}}``, or what stands inside ``function``.

    Raises ContractError with the path of a faulty member.
    """
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
        if not isinstance(value, kind) and (value is not None or key == "name"):
            raise ContractError(
                f"the {key} of a tool must be a {kind.__name__}", path=pointer(at, key)
            )

    if body.get("description", "") is None:
        within["description"] = None

    parameters = body.get("parameters")
    if parameters is None:
        parameters = {"type": "object", "properties": {}}

    warn_of_misplaced({**outer, **within}, body["name"], "parameters")
    vendor = VendorMembers(_copied(outer, ""), _copied(within, at))
    description = body.get("description") or ""
    return Definition(body["name"], description, parameters, body.get("strict"), vendor)


def warn_of_misplaced(members: Mapping[str, Any], tool: str, schema: str) -> None:
    """Warn of words of JSON Schema among the members beside a tool's ``schema``.

    There they have no effect: a ``required`` beside ``parameters`` requires nothing.
    """
    misplaced = [word for word in _SCHEMA_WORDS if word in members]
    if not misplaced:
        return

    words = f"{' and '.join(misplaced)} beside {schema}, where it has no effect"
    warn_at_declaration(f"the tool {printable(tool)} has {words}: move it into {schema}")


def _schemas_in(members: Mapping[str, Any]) -> set[str]:
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


def read_custom(definition: Mapping[str, Any]) -> tuple[JSONObject, JSONObject]:
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


def _parted(definition: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
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


def _copied(members: Mapping[str, Any], at: str) -> JSONObject:
    try:
        return cast("JSONObject", read_document(members))
    except ContractError as error:
        words = (
            "unknown members of a tool definition must be plain JSON, "
            "within the size limits of a schema"
        )
        raise ContractError(words, path=at + error.path) from error


@dataclass(frozen=True, slots=True)
class Signature:
    """A function as a model calls it.

    ``model`` has a field for each parameter; ``positional`` names the leading parameters that can
    only be passed by position.
    """

    name: str
    model: type[BaseModel]
    description: str
    positional: tuple[str, ...] = ()

    def arguments(self, args: BaseModel) -> tuple[list[Any], dict[str, Any]]:
        """Spread an instance of ``model`` into positional and named arguments of the function."""
        values = vars(args)  # not getattr: a deprecated field would warn
        named = {name: values[name] for name in self.model.model_fields}
        return [named.pop(name) for name in self.positional], named


def read_signature(function: Callable[..., object]) -> Signature:
    """Read the parameters and the docstring (Google, NumPy or Sphinx style) of ``function``.

    A description in ``Field`` wins over the docstring. Types local to a function are found while
    that function runs. Raises ContractError, naming the parameter, for one without annotation, for
    ``*args`` and ``**kwargs``, for a name that pydantic cannot hold, for a type that it cannot read
    from JSON, and for a generator function.
    """
    name = function_name(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ContractError(f"the tool {name} yields; let it return a list")

    documented = _documented(function)
    try:
        local = _enclosing_locals(documented)
        hints = get_type_hints(documented, localns=local, include_extras=True)
    except UNREADABLE as error:
        words = f"cannot be read ({first_line(error)}); use types that its module defines"
        raise ContractError(f"the annotations of {name}() {words}") from error

    summary, described = read_docstring(inspect.getdoc(documented) or "")
    parameters = _parameters(function, name)
    fields = {each.name: _field(each, hints, name, described.get(each.name)) for each in parameters}
    positional = tuple(each.name for each in parameters if each.kind is each.POSITIONAL_ONLY)

    return Signature(name, _model(name, function, fields), summary, positional)


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Part a Google, NumPy or Sphinx docstring into its prose and descriptions by parameter.

    The prose is without the sections of the docstring.
    """
    # 20 ms that only a program with function tools should pay
    import docstring_parser  # noqa: PLC0415

    try:
        parsed = docstring_parser.parse(text)
    except (docstring_parser.ParseError, LookupError):  # it stumbles over some empty sections
        return text, {}

    described = {part.arg_name: part.description for part in parsed.params if part.description}
    return (parsed.description or "").strip(), described


def function_name(function: Callable[..., object]) -> str:
    """Return the name of a function for messages.

    A partial has the name of what it wraps, a callable object the name of its class.
    """
    inner = function.func if isinstance(function, functools.partial) else function
    return getattr(inner, "__name__", type(inner).__name__)


def _documented(function: Callable[..., object]) -> Callable[..., object]:
    if isinstance(function, functools.partial):
        return _documented(function.func)
    return function if inspect.isroutine(function) else type(function).__call__


def _enclosing_locals(function: Callable[..., object]) -> Mapping[str, Any]:
    """Return the locals of the running function that defines this one.

    They are found on the stack, for no function keeps a reference to them.
    """
    inner = inspect.unwrap(function)
    place, _, _ = inner.__qualname__.rpartition(".<locals>.")

    frame: FrameType | None = inspect.currentframe() if place else None
    while frame is not None:
        if frame.f_code.co_qualname == place and frame.f_globals is inner.__globals__:
            return frame.f_locals
        frame = frame.f_back

    return {}


def _parameters(function: Callable[..., object], name: str) -> list[inspect.Parameter]:
    """List the parameters that a partial has not settled.

    Raises ContractError for those that a JSON object cannot name one by one.
    """
    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ContractError(
            f"{name} has no readable signature; declare it with Tool.from_json_schema"
        ) from error

    settled: Mapping[str, object] = {}
    if isinstance(function, functools.partial):
        settled = function.keywords

    parameters = [parameter for parameter in listed if parameter.name not in settled]
    for parameter in parameters:
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise ContractError(
                f"{name}() takes {parameter}, which a schema cannot describe; name each parameter"
            )

    return parameters


def _field(
    parameter: inspect.Parameter, hints: Mapping[str, Any], name: str, description: str | None
) -> Any:
    """Make the (annotation, default) pair that pydantic's create_model takes."""
    named = parameter.name
    place = f"parameter {parameter.name!r} of {name}()"

    is_reserved = named.startswith("model_") and hasattr(BaseModel, named)
    if named.startswith("_") or is_reserved:  # its value would be lost
        alias = f"Annotated[…, Field(alias={named!r})]"
        hint = f"rename it, and keep the name for the model with {alias}"
        raise ContractError(f"{place} has a name that pydantic reserves; {hint}")

    if named not in hints:
        of_method = "declare a method through its object: Tool.from_function(object.method)"
        hint = of_method if named in {"self", "cls"} else f"write {named}: str, or its real type"
        raise ContractError(f"{place} has no annotation; {hint}")

    default = ... if parameter.default is parameter.empty else parameter.default
    annotation = hints[named]
    if description:
        # before all other metadata, so that the annotation's own comes later and wins
        is_annotated = get_origin(annotation) is Annotated
        inner, *metadata = get_args(annotation) if is_annotated else (annotation,)
        annotation = Annotated[(inner, Field(description=description), *metadata)]

    return annotation, default


def _model(name: str, function: Callable[..., object], fields: dict[str, Any]) -> type[BaseModel]:
    # not extra="allow": dataclasses and TypedDicts inside would take it over and stand open
    config = ConfigDict(frozen=True, protected_namespaces=(), json_schema_extra=_without_title)
    parts = [part for part in name.split("_") if part.isidentifier()]
    title = "".join(part[:1].upper() + part[1:] for part in parts) or "Function"
    try:
        with warnings.catch_warnings():
            # a parameter may well be called "copy" or "schema": read through vars(), it shadows
            # nothing we use
            warnings.simplefilter("ignore", UserWarning)
            module = _documented(function).__module__
            return create_model(f"{title}Args", __config__=config, __module__=module, **fields)
    except UNREADABLE as error:
        raise ContractError(
            f"the parameters of {name}() cannot be read from JSON: {first_line(error)}"
        ) from error


def _without_title(schema: JSONObject) -> None:
    schema.pop("title", None)  # we gave the model its name: the tool has its own
