"""The engine on jsonschema-rs: offline, with linear patterns; its errors become faults, its words are not used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import jsonschema_rs

from strictreply.errors import ContractError
from strictreply.issues import pointer
from strictreply.schema.documents import Document
from strictreply.schema.faults import MAX_WORDS, NOT_LINEAR, Fault, value_at
from strictreply.schema.references import at_pointer
from strictreply.typing import JSON

MAX_PATTERN_BYTES = 1_000_000
"""The size of one compiled pattern, which its repeats multiply."""


class RustEngine:
    """jsonschema-rs, offline, with its linear pattern engine."""

    __slots__ = ("_document", "_validator")

    remembers = True

    def __init__(self, document: Document, *, formats: bool) -> None:
        """Compile; raises ContractError that names the place when the schema is malformed."""
        self._document = document
        try:
            validator = jsonschema_rs.validator_for(
                document,
                offline=True,
                pattern_options=jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES),
                validate_formats=formats,
                email_options=jsonschema_rs.EmailOptions(allow_display_text=False),
            )
        except jsonschema_rs.ValidationError as error:
            raise _malformed(error) from None
        except (ValueError, TypeError) as error:
            raise ContractError(str(error)[:MAX_WORDS]) from None
        self._validator = validator

    def is_valid(self, value: JSON) -> bool:
        """Say whether the value fits."""
        return self._validator.is_valid(value)

    def faults(self, value: JSON) -> Iterator[Fault]:
        """Translate the engine's errors."""
        return (self._fault(error, value) for error in self._validator.iter_errors(value))

    def first_fault(self, value: JSON) -> Fault | None:
        """Translate the error that the engine stops at."""
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return self._fault(error, value)
        return None

    def _fault(self, error: jsonschema_rs.ValidationError, value: JSON) -> Fault:
        """Translate one error, and for a union those of its branches."""
        kind, keyword, path = error.kind, error.kind.name, tuple(error.instance_path)
        place = error.schema_path
        names: tuple[str, ...] = ()
        branches: tuple[tuple[Fault, ...], ...] = ()
        match kind:
            case jsonschema_rs.ValidationErrorKind.Required(property=name):
                names = (name,)
                keyword = "dependentRequired" if place[-1] == "dependentRequired" else keyword
            case (
                jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=unexpected)
                | jsonschema_rs.ValidationErrorKind.UnevaluatedProperties(unexpected=unexpected)
            ):
                names = tuple(unexpected)
            case jsonschema_rs.ValidationErrorKind.PropertyNames(error=inner):
                names = (str(inner.instance),)
            case (
                jsonschema_rs.ValidationErrorKind.AnyOf(context=context)
                | jsonschema_rs.ValidationErrorKind.OneOfNotValid(context=context)
            ):
                branches = tuple(tuple(self._fault(inner, value) for inner in branch) for branch in context)
            case jsonschema_rs.ValidationErrorKind.FalseSchema():
                keyword, path = _refused_part(path, place)
                names = tuple(value_at(value, path)) if keyword == "additionalProperties" else names
            case _:
                pass
        return Fault(keyword, path, self._holder(place), names, branches)

    def _holder(self, place: list[str | int]) -> dict[str, Any] | None:
        """Give the object schema that holds the keyword at a place in the document."""
        with suppress(LookupError, TypeError, ValueError):
            holder = at_pointer(self._document, [str(token) for token in place[:-1]])
            return holder if isinstance(holder, dict) else None
        return None


def _refused_part(path: tuple[str | int, ...], place: list[str | int]) -> tuple[str, tuple[str | int, ...]]:
    """Tell what a schema that admits nothing stood for, and the place that holds what it refused."""
    last = str(place[-1]) if place else ""
    if last in ("items", "additionalItems") and path and isinstance(path[-1], int):
        return "items", path[:-1]
    if last == "additionalProperties" and path[-1:] != (last,):  # the engine's short cut for an object without any key
        return last, path
    return "false", path


def _malformed(error: jsonschema_rs.ValidationError) -> ContractError:
    """Say what is wrong with a schema, and where."""
    place = pointer("", *error.instance_path)
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Format) and error.kind.format == "regex":
        return ContractError(NOT_LINEAR, path=place)
    if error.instance_path and error.instance_path[-1] == "type":
        return ContractError("the type must be one of JSON Schema's, or a list of them", path=place)
    return ContractError(f"the schema is malformed: {error.message[:MAX_WORDS]}", path=place)


def refuse_malformed(document: Document) -> None:
    """Check a schema against its metaschema; raises ContractError that names the place."""
    try:
        jsonschema_rs.meta.validate(document)
    except jsonschema_rs.ValidationError as error:
        raise _malformed(error) from None
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
        raise ContractError(str(error)[:MAX_WORDS]) from None
