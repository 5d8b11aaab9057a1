"""Python types as contracts: the JSON Schema that a model is told, and the instance made of JSON that fits it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import core_schema, to_json

from strictreply.contract._complaints import check_issues
from strictreply.contract._fidelity import fidelity_of
from strictreply.values._errors import ContractError
from strictreply.values._json import JSON, JSONObject
from strictreply.values._limits import Work
from strictreply.values._replies import Invalid

UNREADABLE = (
    PydanticUserError,
    PydanticUndefinedAnnotation,
    AttributeError,
    NameError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What pydantic and ``typing`` raise for a type that describes no JSON."""


_KEYS: dict[str, JSONObject] = {
    "bool": {"enum": ["true", "false"]},
    "int": {"pattern": "^(?:0|-?[1-9][0-9]*)$"},
    "float": {"pattern": r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"},
}
"""How JSON, whose keys are text, spells keys of other types: each in one way, as RFC 8259 does their values."""


def adapter_of(kind: Any, name: str) -> TypeAdapter[Any]:
    """Return pydantic's reader of a type; raises ContractError, saying ``name``, when it has none."""
    try:
        return TypeAdapter(kind)
    except UNREADABLE as error:
        message = f"{name!r} is of no type that pydantic can read: {first_line(error)}"
        raise ContractError(message) from error


def document_of(adapter: TypeAdapter[Any], name: str) -> JSONObject:
    """Return the JSON Schema of a type; raises ContractError, saying ``name``, when it has none.

    Of a recursive type the definition stands in place at the root: servers look for ``type`` there.
    """
    try:
        document = adapter.json_schema(schema_generator=_ModelSchema)
    except UNREADABLE as error:
        message = f"{name!r} has no JSON Schema: {first_line(error)}"
        raise ContractError(message) from error
    target = document.get("$ref", "").removeprefix("#/$defs/")
    return {**document["$defs"][target], "$defs": document["$defs"]} if target else document


def instance_of(
    adapter: TypeAdapter[Any],
    value: JSON,
    *,
    at: str,
    names: Collection[str],
    place: str = "args",
    work: Work | None = None,
) -> Any | Invalid:
    """Return the typed value of JSON that fits the type's schema.

    What the type's own validators refuse comes back as ``<place>.check`` issues below ``at``; what pydantic would
    change in silence, such as an integer that no float holds, as ``<place>.not_representable`` issues. See
    :func:`strictreply.contract._complaints.check_issues` for ``names``, and ``Schema.check`` for ``work``.
    """
    # as JSON, not as Python objects: so a strict model takes a date from its text, and base64 is decoded
    text = to_json(value)
    try:
        made = adapter.validate_json(text)
    except ValidationError as error:
        return Invalid(check_issues(error, value, at=at, names=names, place=place))
    differing = fidelity_of(adapter).issues(value, text, at=at, names=names, place=place, work=work)
    return Invalid(differing) if differing else made


def first_line(error: Exception) -> str:
    """Return the first line of what went wrong: pydantic adds advice and addresses that do not fit here."""
    return (str(error).splitlines() or [type(error).__name__])[0]


class _ModelSchema(GenerateJsonSchema):
    """pydantic's JSON Schema without what a model need not read, and without what no value could fit."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's hook
        """Leave out titles made from member names: tokens that say nothing."""
        return False

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JSONObject:
        """Write a time without offset as a format of its own: ``date-time`` demands one (RFC 3339 section 5.6)."""
        written = super().datetime_schema(schema)
        naive = schema.get("tz_constraint") == "naive" and written.get("format") == "date-time"
        return written | {"format": "date-time-local"} if naive else written

    def dict_schema(self, schema: core_schema.DictSchema) -> JSONObject:
        """Add how keys are spelled that are no text: pydantic leaves it open, and reads ``"01"`` and ``" 1"`` as 1."""
        spelled = _KEYS.get(schema.get("keys_schema", {}).get("type", ""))
        return super().dict_schema(schema) | ({"propertyNames": spelled} if spelled else {})

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JSONObject:
        """Drop the pattern of decimals: some pydantic versions write a lookahead, which linear-time engines refuse."""
        written = super().decimal_schema(schema)
        for spelling in written.get("anyOf", ()):
            spelling.pop("pattern", None)
        return written
