"""The JSON Schema of a type for the model: exactly what its fields accept."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from types import FunctionType
from typing import Any, TypeAlias

from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import SchemaValidator, core_schema, to_json

from strictreply.values._limits import JSONObject

# pydantic's; its TypedDicts differ between the versions of pydantic that we take
CoreSchema: TypeAlias = Any
# JSON Schema keywords that do not say which members an object has
_REMARKS = frozenset({"title", "description", "examples", "example", "deprecated", "$comment"})
# types that pydantic reads from no key of JSON, because a key is a string
_NEVER_KEYS = frozenset(
    {
        "none",
        "list",
        "tuple",
        "set",
        "frozenset",
        "dict",
        "typed-dict",
        "model-fields",  # of a model that is read without its own code
        "dataclass-args",
    }
)
# how keys that are not strings are written in JSON: each in one way, like values in RFC 8259
_KEYS: dict[str, JSONObject] = {
    "bool": {"enum": ["true", "false"]},
    "int": {"pattern": "^(?:0|-?[1-9][0-9]*)$"},
    "float": {"pattern": r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"},
}


def inlined_root(document: JSONObject) -> JSONObject:
    """Return a document whose root is not a reference."""
    target = document.get("$ref", "").removeprefix("#/$defs/")
    return {**document["$defs"][target], "$defs": document["$defs"]} if target else document


def paths_of(
    name: str, declared: CoreSchema, config: Mapping[str, object]
) -> tuple[tuple[str | int, ...], ...]:
    """Return the places of an object where pydantic looks for a field, in order.

    None for a field that only code sets (``init=False``).
    """
    if not declared.get("init", True):
        return ()

    alias: Any = declared.get("validation_alias")
    if alias is None:
        return ((name,),)

    by_name = config.get("validate_by_name") or config.get("populate_by_name")
    paths: list[tuple[str | int, ...]] = []
    if config.get("validate_by_alias") is not False:
        # a name, a path, or several paths
        listed: Any = [[alias]] if isinstance(alias, str) else alias
        paths += map(tuple, listed if isinstance(listed[0], list) else [listed])
    if by_name:
        paths.append((name,))

    return tuple(dict.fromkeys(paths))


def is_loose(schema: CoreSchema) -> bool:
    """Return whether the schema may show members of objects that no field takes.

    A user's own JSON Schema may do so: ``json_schema_extra``, ``WithJsonSchema``, a method.
    """
    pending: list[Any] = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            if _is_shown_otherwise(part):
                return True
            pending += part.values()
        elif isinstance(part, list | tuple):
            pending += part

    return False


def imports(schema: CoreSchema) -> bool:
    """Return whether a type imports whatever its text names: ``ImportString``."""
    pending: list[Any] = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            function = part.get("function")
            if (
                getattr(function, "__name__", "") == "import_string"
                and _function_of(function) is None
            ):
                return True
            pending += part.values()
        elif isinstance(part, list | tuple):
            pending += part

    return False


def _is_shown_otherwise(part: Mapping[str, object]) -> bool:
    remarks: list[Any] = []
    kind = part.get("cls")
    if isinstance(kind, type):
        for name in ("model_config", "__pydantic_config__"):
            config: Any = getattr(kind, name, None) or {}
            remarks.append(config.get("json_schema_extra"))

    metadata: Any = part.get("metadata")
    if isinstance(metadata, dict):
        if metadata.get("pydantic_js_annotation_functions"):
            return True

        functions = metadata.get("pydantic_js_functions") or ()
        if any(isinstance(_function_of(each), FunctionType) for each in functions):
            return True

        remarks.append(metadata.get("pydantic_js_extra"))

    return any(
        extra is not None and not (isinstance(extra, dict) and extra.keys() <= _REMARKS)
        for extra in remarks
    )


def _function_of(hook: object) -> object:
    """Return the user's function in a hook; None for a function of pydantic."""
    function = getattr(hook, "__func__", hook)
    module = str(getattr(function, "__module__", ""))
    return None if module.startswith("pydantic.") else function


class JsonDocument(GenerateJsonSchema):
    """pydantic's JSON Schema, without what a model need not read and without impossible values."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {  # noqa: RUF012 - as pydantic declares it
        "non-serializable-default",
        "skipped-choice",
    }

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self._core_config: Mapping[str, Any] = {}
        self._defined: dict[str, CoreSchema] = {}
        self._is_reshaped = False

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - pydantic's hook
        """Leave out titles generated from member names, which have no information."""
        return False

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JSONObject:
        """Write a time without offset as a separate format.

        ``date-time`` demands an offset (RFC 3339 section 5.6).
        """
        written = super().datetime_schema(schema)
        naive = schema.get("tz_constraint") == "naive" and written.get("format") == "date-time"
        return written | {"format": "date-time-local"} if naive else written

    def definitions_schema(self, schema: core_schema.DefinitionsSchema) -> JSONObject:
        """Write the definitions, all of them."""
        self._defined |= {str(each.get("ref")): each for each in schema["definitions"]}
        return super().definitions_schema(schema)

    def model_schema(self, schema: core_schema.ModelSchema) -> JSONObject:
        """Write a model by its own configuration."""
        with self._configured(schema):
            return self._held(schema, super().model_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JSONObject:
        """Write a dataclass by its own configuration."""
        with self._configured(schema):
            return self._held(schema, super().dataclass_schema(schema))

    def function_before_schema(
        self, schema: core_schema.BeforeValidatorFunctionSchema
    ) -> JSONObject:
        """Write a type whose input a user's code reads first: it may accept other members."""
        with self._reshaped():
            return super().function_before_schema(schema)

    def function_wrap_schema(self, schema: core_schema.WrapValidatorFunctionSchema) -> JSONObject:
        """Write a type whose input a user's code reads first: it may accept other members."""
        with self._reshaped():
            return super().function_wrap_schema(schema)

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JSONObject:
        """Write a TypedDict with what its fields accept."""
        with self._configured(schema):
            total = schema.get("total", True)
            return super().typed_dict_schema(self._taken(schema, total=total))

    def model_fields_schema(self, schema: core_schema.ModelFieldsSchema) -> JSONObject:
        """Write the members of a model that its fields accept."""
        return super().model_fields_schema(self._taken(schema))

    def dataclass_args_schema(self, schema: core_schema.DataclassArgsSchema) -> JSONObject:
        """Write the members of a dataclass that its fields accept."""
        return super().dataclass_args_schema(self._taken(schema))

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> JSONObject:
        """Reject a class, because JSON has no classes."""
        return self.handle_invalid_for_json_schema(schema, "a class, which no JSON is")

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JSONObject:
        """Write a union whose forms a user's function distinguishes; several forms may fit."""
        written = super().tagged_union_schema(schema)
        if callable(schema["discriminator"]) and "oneOf" in written:
            written["anyOf"] = written.pop("oneOf")
        return written

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JSONObject:
        """Write the literals that JSON has, not those that exist only as classes."""
        taken = self._readable(schema, schema["expected"])
        return super().literal_schema({**schema, "expected": taken})

    def enum_schema(self, schema: core_schema.EnumSchema) -> JSONObject:
        """Write the enum members whose values JSON has; tuples are left out."""
        if "missing" in schema:
            return super().enum_schema(schema)
        return super().enum_schema({**schema, "members": self._readable(schema, schema["members"])})

    def _readable(self, schema: CoreSchema, listed: list[object]) -> list[object]:
        """Return the values that can be read from their JSON."""
        reader = SchemaValidator(schema)
        taken: list[Any] = []
        for value in listed:
            with suppress(
                ValueError
            ):  # pydantic's errors for values that it can neither write nor read
                reader.validate_json(to_json(value))
                taken.append(value)

        if listed and not taken:
            words = "values that no JSON has; an Enum in a Literal needs str or int as a base"
            self.handle_invalid_for_json_schema(schema, words)
        return taken

    def dict_schema(self, schema: core_schema.DictSchema) -> JSONObject:
        """Add the format of keys that are not strings.

        pydantic does not describe it, and reads ``"01"`` and ``" 1"`` as 1.
        """
        keys: Any = schema.get("keys_schema", {})
        keys = self._defined.get(keys.get("schema_ref", ""), keys)
        spelled = _KEYS.get(keys.get("type", ""))
        is_object = keys.get("type") in ("model", "dataclass")
        read: Any = keys["schema"] if is_object else keys
        if read.get("type") in _NEVER_KEYS:
            self.handle_invalid_for_json_schema(schema, "keys that no JSON can have")
        if keys.get("type") in ("enum", "literal"):
            spelled = self._listed_keys(schema, keys)

        written = super().dict_schema(schema)
        return written | {"propertyNames": spelled} if spelled else written

    def _listed_keys(self, schema: CoreSchema, keys: CoreSchema) -> JSONObject | None:
        """Return the format of listed keys; None if all are strings."""
        listed = keys.get("members") or keys.get("expected") or ()
        values = [one.value if isinstance(one, Enum) else one for one in listed]
        if all(isinstance(value, str) for value in values):
            return None

        names = [value if isinstance(value, str) else json.dumps(value) for value in values]
        reader = SchemaValidator(core_schema.dict_schema(keys))
        taken: list[str] = []
        for name in dict.fromkeys(names):
            try:
                reader.validate_json(to_json({name: None}))
            except ValidationError:
                continue
            taken.append(name)

        if not taken:
            self.handle_invalid_for_json_schema(schema, "keys that no JSON can have")
        return {"enum": taken}

    def _held(self, schema: CoreSchema, written: JSONObject) -> JSONObject:
        """Raise ContractError for a required member that no field takes (``json_schema_extra``)."""
        inner: CoreSchema = schema["schema"]
        extra = inner.get("extra_behavior") or self._core_config.get("extra_fields_behavior")
        required: Any = written.get("required")
        if self._is_reshaped or extra == "allow" or not required or "fields" not in inner:
            return written

        listed: Any = inner["fields"]
        fields = listed if isinstance(listed, dict) else {each["name"]: each for each in listed}
        taken = {
            path[0]
            for name, declared in fields.items()
            for path in paths_of(name, declared, self._core_config)
        }
        for name in required:
            if name not in taken:
                words = f"the member {name!r}, which is required and taken by no field"
                self.handle_invalid_for_json_schema(schema, words)

        return written

    @contextmanager
    def _reshaped(self) -> Generator[None]:
        outer = self._is_reshaped
        self._is_reshaped = True
        yield
        self._is_reshaped = outer

    @contextmanager
    def _configured(self, schema: CoreSchema) -> Generator[None]:
        outer = self._core_config
        self._core_config = schema.get("config") or outer
        yield
        self._core_config = outer

    def _taken(self, schema: Any, *, total: bool = True) -> Any:
        """Return a schema with the fields that JSON can set, each under its first name."""
        listed = schema["fields"]
        fields: dict[str, Any] = listed
        if not isinstance(listed, dict):
            fields = {each["name"]: each for each in listed}

        shown: dict[str, Any] = {}
        for name, declared in fields.items():
            paths = paths_of(name, declared, self._core_config)
            names = [path[0] for path in paths if len(path) == 1]
            if names:
                alias = names[0] if declared.get("validation_alias") else None
                shown[name] = {**declared, "validation_alias": alias} if alias else declared
            elif paths and self.field_is_required(declared, total):
                words = f"the field {name!r}, which is required and read from a deeper place only"
                self.handle_invalid_for_json_schema(schema, words)

        return {**schema, "fields": shown if isinstance(listed, dict) else list(shown.values())}

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JSONObject:
        """Drop the pattern of decimals.

        Some versions of pydantic write a lookahead, which linear-time engines reject.
        """
        written = super().decimal_schema(schema)
        for spelling in written.get("anyOf", ()):
            spelling.pop("pattern", None)
        return written
