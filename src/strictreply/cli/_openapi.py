"""The operations of an OpenAPI document as tools: one each, of its parameters and request body."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from strictreply import ContractError, Tool
from strictreply.core import JSON, JSONObject
from strictreply.core.text import pointer_tokens

MAX_NAME = 64  # characters of a tool's name that all providers take
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_BODY = "body"
# What OpenAPI adds to JSON Schema; none of it says which values are valid.
_NOT_OF_SCHEMAS = frozenset({"example", "xml", "externalDocs", "discriminator", "nullable"})
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE = frozenset(
    {
        "items",
        "additionalProperties",
        "not",
        "if",
        "then",
        "else",
        "contains",
        "contentSchema",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
# OpenAPI has its own ways to describe these headers: parameters of such names are ignored.
_IGNORED_HEADERS = frozenset({"accept", "content-type", "authorization"})
# What an object may state and still have its members stand beside the parameters.
_PLAIN = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description"}
)


class OpenAPIError(ValueError):
    """What in a document cannot be read, and what to do about it."""


def is_openapi(document: object) -> bool:
    """Report whether a JSON document is of OpenAPI, or of Swagger before it."""
    return isinstance(document, dict) and not document.keys().isdisjoint({"openapi", "swagger"})


def tools_of_openapi(document: JSONObject, on_skip: Callable[[str], object]) -> list[JSONObject]:
    """Return a tool definition for each operation of an OpenAPI 3.0 or 3.1 document.

    A tool is named for its ``operationId``, or for its method and path. Its arguments are the
    parameters in the path, the query and the headers, and the members of a JSON body; a body that
    is not a plain object, or has a member of a parameter's name, is the argument ``body``. If two
    parameters have one name, the second also has the name of its place: ``query_id``.

    An operation that cannot be read is left out, and ``on_skip`` is called with its name and the
    reason. Raises OpenAPIError for another version, and if there is no tool.
    """
    version = str(document.get("openapi", document.get("swagger")))
    if not version.startswith("3."):
        raise OpenAPIError(f"version {version} of OpenAPI is not read: convert the document to 3.1")

    reader = _Reader(document)
    tools: list[JSONObject] = []
    taken: set[str] = set()

    skipped: list[str] = []

    for path, found in reader.paths():
        try:
            item = reader.resolved(found)
        except OpenAPIError as error:
            skipped.append(f"{path}: {error}")
            continue

        skipped += _misspelt_methods(path, item)
        for method in _METHODS:
            if item.get(method) is None:
                continue

            try:
                tool = _tool_of(reader, method, path, item)
            except OpenAPIError as error:
                skipped.append(f"{method.upper()} {path}: {error}")
                continue

            function: Any = tool["function"]
            function["name"] = _free(function["name"], taken)
            taken.add(function["name"])
            tools.append(tool)

    if not tools:
        raise OpenAPIError(next(iter(skipped), "the document has no operation under paths"))

    for words in skipped:
        on_skip(words)

    return tools


def _misspelt_methods(path: str, item: JSONObject) -> Iterator[str]:
    """Yield why each method with capitals is left out: OpenAPI does not know it."""
    for key in item:
        if key not in _METHODS and key.lower() in _METHODS:
            yield f"{key} {path}: methods are written in lower case: write {key.lower()}"


def _tool_of(reader: _Reader, method: str, path: str, item: JSONObject) -> JSONObject:
    """Make the definition of one operation; raise OpenAPIError if it is not a tool."""
    operation = item[method]
    if not isinstance(operation, dict):
        raise OpenAPIError("it is not an object")

    try:
        parameters = reader.arguments(operation, item.get("parameters"))
        function: JSONObject = {"name": _name_of(method, path, operation), "parameters": parameters}
        if words := operation.get("summary") or operation.get("description"):
            function["description"] = str(words)

        definition: JSONObject = {"type": "function", "function": function}
        Tool.from_openai(definition)
    except ContractError as error:
        raise OpenAPIError(str(error)) from None
    except RecursionError:
        raise OpenAPIError("its schema is nested too deeply") from None

    return definition


def _name_of(method: str, path: str, operation: JSONObject) -> str:
    """Name a tool for the operation's id, or without a letter in it for its method and path."""
    for name in (operation.get("operationId"), f"{method}_{path.strip('/')}"):
        written = re.sub(r"[^A-Za-z0-9_-]+", "_", str(name or "")).strip("_")[:MAX_NAME]
        if re.search("[A-Za-z]", written):
            return written

    return method


def _free(name: str, taken: set[str]) -> str:
    """Return a name that no other tool has."""
    free = name
    number = 2
    while free in taken:
        free = f"{name[: MAX_NAME - 4]}_{number}"
        number += 1

    return free


class _Reader:
    """Reads one document, whose references it follows."""

    def __init__(self, document: JSONObject) -> None:
        self._document = document

    def paths(self) -> Iterator[tuple[str, Any]]:
        """Yield each path with its item, which may be a reference; extensions are left out."""
        paths = self._document.get("paths")
        if isinstance(paths, dict):
            yield from ((path, item) for path, item in paths.items() if not path.startswith("x-"))

    def arguments(self, operation: JSONObject, shared: Any) -> JSONObject:
        """Return the schema of an operation's arguments, its references among ``$defs``.

        ``shared`` are the parameters of its path.
        """
        schemas = _Schemas(self)
        given = (*_list_of(shared), *_list_of(operation.get("parameters")))
        listed = [self.resolved(one) for one in given]
        # a parameter of the operation takes the place of one of its path
        parameters = {(str(one.get("in")), _parameter_name(one)): one for one in listed}

        members: dict[str, JSON] = {}
        required: list[JSON] = []
        for (where, name), parameter in parameters.items():
            if where not in {"path", "query", "header"}:
                continue
            if where == "header" and name.lower() in _IGNORED_HEADERS:
                continue

            argument = _free(f"{where}_{name}", {*members}) if name in members else name
            members[argument] = schemas.read(_schema_of(parameter), parameter.get("description"))
            if where == "path" or parameter.get("required"):
                required.append(argument)

        arguments: JSONObject = {"type": "object", "properties": members, "required": required}
        body = self.resolved(operation.get("requestBody") or {})
        if body:
            self._add_body(arguments, body, schemas)

        return {**arguments, **({"$defs": schemas.found} if schemas.found else {})}

    def _add_body(self, arguments: JSONObject, body: JSONObject, schemas: _Schemas) -> None:
        given = _schema_of(body)
        plain = schemas.read(self.followed(given))
        members = plain.get("properties") if isinstance(plain, dict) else None

        is_plain = isinstance(plain, dict) and _PLAIN.issuperset(plain) and bool(members)
        if (
            not is_plain
            or not isinstance(members, dict)
            or members.keys() & arguments["properties"]
        ):
            name = _free(_BODY, {*arguments["properties"]})
            arguments["properties"][name] = schemas.read(given, body.get("description"))
            if body.get("required"):
                arguments["required"].append(name)
            return

        arguments["properties"].update(members)
        if body.get("required"):
            arguments["required"] += _list_of(plain.get("required"))
        if "additionalProperties" in plain:
            arguments["additionalProperties"] = plain["additionalProperties"]

    def target(self, reference: str) -> Any:
        """Return what a reference names; raise OpenAPIError where it is not in the document."""
        if not reference.startswith("#"):
            raise OpenAPIError(f"{reference} is in another file: bundle the document into one file")
        if not reference.startswith("#/"):
            raise OpenAPIError(f"{reference} is not a JSON Pointer: write it as #/components/…")

        found: Any = self._document
        for token in pointer_tokens(unquote(reference[1:])):
            if isinstance(found, dict) and token in found:
                found = found[token]
            elif isinstance(found, list) and token in map(str, range(len(found))):
                found = found[int(token)]
            else:
                raise OpenAPIError(f"{reference} is not in the document")

        return found

    def resolved(self, value: Any) -> JSONObject:
        """Follow references, which may lead to others, to an object; else raise OpenAPIError."""
        found = self.followed(value)
        if not isinstance(found, dict):
            named = value.get("$ref", "it") if isinstance(value, dict) else "it"
            raise OpenAPIError(f"{named} is not an object")

        return found

    def followed(self, value: Any) -> Any:
        """Follow references, which may lead to others, to any value."""
        followed: set[str] = set()
        while isinstance(value, dict) and isinstance(reference := value.get("$ref"), str):
            if reference in followed:
                raise OpenAPIError(f"{reference} leads to itself")

            followed.add(reference)
            value = self.target(reference)

        return value


def _list_of(value: Any) -> list[Any]:
    """Return a list; null and a missing member count as an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise OpenAPIError("parameters and required must be lists")

    return value


def _parameter_name(parameter: Mapping[str, Any]) -> str:
    name = parameter.get("name")
    if not isinstance(name, str):
        raise OpenAPIError(f"a parameter in {parameter.get('in')} has no name")

    return name


def _schema_of(holder: Mapping[str, Any]) -> Any:
    """Return the schema of a parameter or a body: of JSON, if it has several forms."""
    content = holder.get("content")
    if not isinstance(content, dict) or not content:
        return holder.get("schema", {})

    kind = next((name for name in content if re.search(r"[/+]json\b", name)), next(iter(content)))
    return content[kind].get("schema", {}) if isinstance(content[kind], dict) else {}


class _Schemas:
    """Turns schemas of a document into JSON Schema; what they refer to is ``found``."""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self._names: dict[str, str] = {}
        self.found: dict[str, JSON] = {}

    def read(self, schema: Any, description: object = None) -> Any:
        """Return a schema in the words of JSON Schema."""
        if not isinstance(schema, dict):
            return schema

        read = {
            key: self._read_member(key, value)
            for key, value in schema.items()
            if key not in _NOT_OF_SCHEMAS
        }
        if description and "description" not in read:
            read["description"] = description

        _leave_out_read_only(read, schema)
        _translate_bounds(read)
        return _nullable(read) if schema.get("nullable") is True else read

    def _read_member(self, key: str, value: Any) -> Any:
        if key == "$ref" and isinstance(value, str):
            return f"#/$defs/{self._named(value)}"
        if key in _BY_NAME and isinstance(value, dict):
            return {name: self.read(one) for name, one in value.items()}
        if key in _LISTS and isinstance(value, list):
            return [self.read(one) for one in value]

        return self.read(value) if key in _SINGLE else value

    def _named(self, reference: str) -> str:
        """Return the name that the target of a reference has among the definitions."""
        if reference not in self._names:
            target = self._reader.target(reference)
            last = re.sub(r"[^A-Za-z0-9_.-]", "_", pointer_tokens(unquote(reference[1:]))[-1])
            name = _free(last, {*self._names.values()})
            self._names[reference] = name
            self.found[name] = self.read(target)

        return self._names[reference]


def _leave_out_read_only(read: JSONObject, schema: JSONObject) -> None:
    """Leave out members that only responses have."""
    members = schema.get("properties")
    if not isinstance(members, dict):
        return

    hidden = {
        name for name, one in members.items() if isinstance(one, dict) and one.get("readOnly")
    }
    if hidden:
        read["properties"] = {
            name: one for name, one in read["properties"].items() if name not in hidden
        }
        read["required"] = [name for name in _list_of(read.get("required")) if name not in hidden]


def _translate_bounds(read: JSONObject) -> None:
    """Write bounds of OpenAPI 3.0, ``exclusiveMinimum: true``, as numbers."""
    for exclusive, bound in _BOUNDS.items():
        if read.get(exclusive) is True and bound in read:
            read[exclusive] = read.pop(bound)
        elif isinstance(read.get(exclusive), bool):
            del read[exclusive]


def _nullable(read: JSONObject) -> JSONObject:
    """Admit null, which OpenAPI 3.0 does by a keyword of its own."""
    kind = read.get("type")
    if not isinstance(kind, str):
        return {"anyOf": [read, {"type": "null"}]}

    listed = read.get("enum")
    more = {"enum": [*listed, None]} if isinstance(listed, list) and None not in listed else {}
    return {**read, "type": [kind, "null"], **more}
