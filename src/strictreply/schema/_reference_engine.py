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
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from strictreply.schema._documents import Document
from strictreply.schema._faults import DOCUMENT_URI, NOT_LINEAR, malformed
from strictreply.schema._formats import FORMATS
from strictreply.schema._graph import Graph
from strictreply.schema._vocabulary import draft_of
from strictreply.values._errors import ContractError
from strictreply.values._issues import pointer
from strictreply.values._json import JSON


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

    __slots__ = ("_document", "_formats", "_registry", "_validator")

    remembers = False

    def __init__(self, document: Document, *, formats: bool, registry: Registry[Any] = REGISTRY) -> None:
        """Compile; raises ContractError when a pattern cannot be matched in linear time."""
        self._document, self._formats, self._registry = document, formats, registry
        base = jsonschema.validators.validator_for({"$schema": draft_of(document)})
        extended = jsonschema.validators.extend(base, LINEAR)  # type: ignore[no-untyped-call]
        if registry is REGISTRY:  # the patterns of a part were looked at with the document
            _refuse_patterns(document)
        checker = jsonschema.FormatChecker(formats=())
        for name, holds in FORMATS.items():
            checker.checks(name)(_of_text(holds))
        self._validator = extended(document, registry=registry, format_checker=checker if formats else None)

    def is_valid(self, value: JSON) -> bool:
        """Return whether the value fits."""
        try:
            return bool(self._validator.is_valid(value))
        except Unresolvable as error:
            raise ValueError(str(error)) from None

    def part(self, schema: dict[str, Any]) -> ReferenceEngine:
        """Compile a schema beside the document, which is registered once."""
        if self._registry is REGISTRY and isinstance(self._document, dict):
            resource = specification_with(draft_of(self._document)).create_resource(self._document)
            self._registry = REGISTRY.with_resource(resource.id() or DOCUMENT_URI, resource)
        return ReferenceEngine(schema, formats=self._formats, registry=self._registry)


def _of_text(holds: Callable[[str], bool]) -> Callable[[object], bool]:
    """Make a format hold for everything but texts that break it."""
    return lambda value: not isinstance(value, str) or holds(value)


def refuse_malformed(document: Document) -> None:
    """Check a schema against its metaschema; raises ContractError that names the place."""
    try:
        written: Any = document
        jsonschema.validators.validator_for({"$schema": draft_of(document)}).check_schema(written)
    except SchemaError as error:
        raise malformed(tuple(error.absolute_path), error.message) from None


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
