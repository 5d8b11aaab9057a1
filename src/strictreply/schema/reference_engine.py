"""The second engine, on jsonschema: for platforms without a jsonschema-rs wheel, and the reference in tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import jsonschema.validators
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema_specifications import REGISTRY
from pydantic_core import SchemaError as PatternError
from pydantic_core import SchemaValidator, core_schema
from referencing.exceptions import Unresolvable

from strictreply.errors import ContractError
from strictreply.issues import pointer
from strictreply.schema.documents import Document
from strictreply.schema.faults import MAX_WORDS, NOT_LINEAR, Fault
from strictreply.schema.formats import FORMATS
from strictreply.schema.graph import Graph
from strictreply.schema.vocabulary import draft_of
from strictreply.typing import JSON


@lru_cache(maxsize=512)
def _pattern(text: str) -> SchemaValidator:
    """Compile a pattern with pydantic-core's engine, which is linear; ``re`` is not."""
    return SchemaValidator(core_schema.str_schema(pattern=text, regex_engine="rust-regex"))


def _matches(pattern: str, text: str) -> bool:
    """Search a pattern in a text."""
    return _pattern(pattern).isinstance_python(text)


def _check_pattern(_: Validator, pattern: str, instance: object, __: object) -> Iterator[ValidationError]:
    """The keyword ``pattern``."""
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield ValidationError("pattern")


def _check_pattern_members(
    validator: Validator, patterns: Mapping[str, Any], instance: object, _: object
) -> Iterator[ValidationError]:
    """The keyword ``patternProperties``."""
    if isinstance(instance, dict):
        for pattern, schema in patterns.items():
            for name, member in instance.items():
                if _matches(pattern, name):
                    yield from validator.descend(member, schema, path=name, schema_path=pattern)  # type: ignore[attr-defined]


def _check_others(
    validator: Validator, others: object, instance: object, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """The keyword ``additionalProperties``."""
    if isinstance(instance, dict):
        names = _others(schema, instance)
        if others is False:
            if names:
                yield ValidationError("additionalProperties")
            return
        for name in names:
            yield from validator.descend(instance[name], others, path=name)  # type: ignore[attr-defined]


def _others(schema: Mapping[str, Any], instance: dict[str, Any]) -> list[str]:
    """Name the members that neither ``properties`` nor ``patternProperties`` speak of."""
    patterns = list(schema.get("patternProperties", ()))
    named = schema.get("properties", {})
    return [name for name in instance if name not in named and not any(_matches(text, name) for text in patterns)]


LINEAR = {
    "pattern": _check_pattern,
    "patternProperties": _check_pattern_members,
    "additionalProperties": _check_others,
}


class ReferenceEngine:
    """jsonschema with a registry that fetches nothing, linear patterns, and the formats of ``formats``."""

    __slots__ = ("_validator",)

    remembers = False

    def __init__(self, document: Document, *, formats: bool) -> None:
        """Compile; raises ContractError when a pattern cannot be matched in linear time."""
        base = jsonschema.validators.validator_for({"$schema": draft_of(document)})
        extended = jsonschema.validators.extend(base, LINEAR)  # type: ignore[no-untyped-call]
        _refuse_patterns(document)
        checker = jsonschema.FormatChecker(formats=())
        for name, holds in FORMATS.items():
            checker.checks(name)(_of_text(holds))
        self._validator = extended(document, registry=REGISTRY, format_checker=checker if formats else None)

    def is_valid(self, value: JSON) -> bool:
        """Say whether the value fits."""
        try:
            return bool(self._validator.is_valid(value))
        except Unresolvable as error:
            raise ValueError(str(error)) from None

    def faults(self, value: JSON) -> Iterator[Fault]:
        """Translate the engine's errors."""
        return (fault for error in self._validator.iter_errors(value) for fault in _faults(error))

    def first_fault(self, value: JSON) -> Fault | None:
        """Translate the first error that the engine finds."""
        return next(self.faults(value), None)


def _of_text(holds: Callable[[str], bool]) -> Callable[[object], bool]:
    """Make a format hold for everything but texts that break it."""
    return lambda value: not isinstance(value, str) or holds(value)


def refuse_malformed(document: Document) -> None:
    """Check a schema against its metaschema; raises ContractError that names the place."""
    try:
        written: Any = document
        jsonschema.validators.validator_for({"$schema": draft_of(document)}).check_schema(written)
    except SchemaError as error:
        words = f"the schema is malformed: {error.message[:MAX_WORDS]}"
        raise ContractError(words, path=pointer("", *error.absolute_path)) from None


def _refuse_patterns(document: Document) -> None:
    """Compile every pattern once; raises ContractError for those that are not linear."""
    nodes = [node for node in Graph(document).nodes if node.pointer is not None]
    looks_back = any("unevaluatedProperties" in node.schema for node in nodes)
    for node in nodes:
        members = node.schema.get("patternProperties", {})
        place = node.pointer or ""
        _refuse_pattern(node.schema.get("pattern"), pointer(place, "pattern"))
        for pattern in members:
            _refuse_pattern(pattern, pointer(place, "patternProperties", pattern))
        if members and looks_back:  # jsonschema matches these by itself, and not in linear time
            message = "patternProperties with unevaluatedProperties needs jsonschema-rs, which has no wheel here"
            raise ContractError(message, path=place)


def _refuse_pattern(pattern: object, place: str) -> None:
    """Compile one pattern."""
    if not isinstance(pattern, str):
        return
    try:
        _pattern(pattern)
    except PatternError:
        raise ContractError(NOT_LINEAR, path=place) from None


def _faults(error: ValidationError) -> Iterator[Fault]:
    """Translate one error; several when members are missing, for the engine repeats the keyword for each."""
    keyword, path = str(error.validator or "false"), tuple(error.absolute_path)
    schema = error.schema if isinstance(error.schema, dict) else None
    if "propertyNames" in error.absolute_schema_path and isinstance(error.instance, str):
        yield Fault("propertyNames", path, schema, (error.instance,))
    elif keyword in ("anyOf", "oneOf"):
        yield Fault(keyword, path, schema, (), _branches(error))
    elif keyword in ("minContains", "maxContains"):
        yield Fault("contains", path, schema)
    else:
        yield Fault(keyword, path, schema, tuple(_names(keyword, error)))


def _branches(error: ValidationError) -> tuple[tuple[Fault, ...], ...]:
    """Translate the errors of a union's branches."""
    branches: dict[Any, list[Fault]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.relative_schema_path[0], []).extend(_faults(inner))
    return tuple(tuple(faults) for faults in branches.values())


def _names(keyword: str, error: ValidationError) -> list[str]:
    """Name the members that a keyword asks for or refuses, which the engine tells only in words."""
    instance: Any = error.instance
    value: Any = error.validator_value
    if not isinstance(instance, dict):
        return []
    match keyword:
        case "required":
            return _missing(value, instance, error)
        case "dependentRequired":
            return _missing([name for given in value if given in instance for name in value[given]], instance, error)
        case "additionalProperties":
            return _others(error.schema if isinstance(error.schema, dict) else {}, instance)
        case "unevaluatedProperties":
            return [name for name in instance if repr(name) in error.message]
        case _:
            return []


def _missing(needed: list[str], instance: dict[str, Any], error: ValidationError) -> list[str]:
    """Find the one member that an error says is missing."""
    return [name for name in needed if name not in instance and repr(name) in error.message][:1]
