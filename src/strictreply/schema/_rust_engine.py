"""The engine on jsonschema-rs: offline, with linear patterns. It only decides; its errors and their paths are not used.

Its error paths are lossy: a member named ``"007"`` comes back as the index 7, and one named ``""`` not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import jsonschema_rs

from strictreply.schema._documents import Document
from strictreply.schema._faults import DOCUMENT_URI, MAX_WORDS, NOT_LINEAR, malformed
from strictreply.values._errors import ContractError
from strictreply.values._issues import pointer
from strictreply.values._json import JSON

MAX_PATTERN_BYTES = 1_000_000
"""The size of one compiled pattern, which its repeats multiply."""


class RustEngine:
    """jsonschema-rs, offline, with its linear pattern engine."""

    __slots__ = ("_document", "_formats", "_registry", "_validator")

    remembers = True

    def __init__(self, document: Document, *, formats: bool, registry: jsonschema_rs.Registry | None = None) -> None:
        """Compile; raises ContractError that names the place when the schema is malformed."""
        self._document, self._formats, self._registry = document, formats, registry
        try:
            self._validator = jsonschema_rs.validator_for(
                document,
                offline=True,
                registry=registry,
                pattern_options=jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES),
                validate_formats=formats,
                email_options=jsonschema_rs.EmailOptions(allow_display_text=False),
            )
        except jsonschema_rs.ValidationError as error:
            raise _malformed(error, document) from None
        except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
            raise ContractError(str(error)[:MAX_WORDS]) from None

    def is_valid(self, value: JSON) -> bool:
        """Return whether the value fits."""
        return self._validator.is_valid(value)

    def part(self, schema: dict[str, Any]) -> RustEngine:
        """Compile a schema beside the document, which is registered once."""
        if self._registry is None and isinstance(self._document, dict):
            self._registry = jsonschema_rs.Registry([(self._document.get("$id", DOCUMENT_URI), self._document)])
        return RustEngine(schema, formats=self._formats, registry=self._registry)


def _malformed(error: jsonschema_rs.ValidationError, document: Document) -> ContractError:
    """Say what is wrong with a schema, and where: the innermost place, where a schema is one of several forms."""
    while isinstance(error.kind, jsonschema_rs.ValidationErrorKind.AnyOf) and any(error.kind.context):
        error = max((inner for form in error.kind.context for inner in form), key=lambda each: len(each.instance_path))
    place = tuple(_walked(error.instance_path, document))
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Format) and error.kind.format == "regex":
        return ContractError(NOT_LINEAR, path=pointer("", *place))
    return malformed(place, error.message)


def _walked(path: Iterable[str | int], document: Any) -> Iterator[str | int]:
    """Follow a path of the engine as far as the document goes: a number may stand for a name that reads as one."""
    for token in path:
        names: list[Any] = [token]
        if isinstance(document, dict) and isinstance(token, int):
            names = [name for name in document if name.lstrip("+0") == str(token or "")]
        if len(names) != 1 or not isinstance(document, dict | list):
            return
        try:
            document = document[names[0]]
        except (LookupError, TypeError):
            return
        yield names[0]


def refuse_malformed(document: Document) -> None:
    """Check a schema against its metaschema; raises ContractError that names the place."""
    try:
        jsonschema_rs.meta.validate(document)
    except jsonschema_rs.ValidationError as error:
        raise _malformed(error, document) from None
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
        raise ContractError(str(error)[:MAX_WORDS]) from None
