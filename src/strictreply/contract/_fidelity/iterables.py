"""Reads iterables immediately into a list.

pydantic reads the items of an ``Iterable`` only when the program iterates, and only once. So a
rejected item would raise in the program's own code, and a check would use up the items before a
tool gets them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import SchemaValidator

from strictreply.contract._fidelity.documents import CoreSchema

# keys whose value has schemas under the user's own names
_BY_NAME = frozenset({"fields", "choices"})
# keys whose value contains no schemas, but any other data
_VALUES = frozenset({"default", "expected", "members", "metadata", "serialization"})


def iterates(schema: CoreSchema) -> bool:
    """Return whether a core schema has an iterable."""
    pending: list[Any] = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            if part.get("type") == "generator":
                return True
            pending += part.values()
        elif isinstance(part, list | tuple):
            pending += part

    return False


def read_at_once(part: object, *, named: bool = False) -> object:
    """Return a core schema with lists in place of its iterables.

    ``named`` says that the keys of ``part`` are the user's own names.
    """
    if isinstance(part, list | tuple):
        return type(part)(read_at_once(one) for one in part)
    if type(part) is not dict:
        return part

    made = {
        key: one
        if key in _VALUES and not named
        else read_at_once(one, named=key in _BY_NAME and not named)
        for key, one in part.items()
    }
    if made.get("type") == "generator":
        made["type"] = "list"

    return made


def whole_validator(schema: CoreSchema) -> SchemaValidator:
    """Return a validator of a schema, without validators that its classes define themselves."""
    make: Any = SchemaValidator
    try:
        validator: SchemaValidator = make(schema, _use_prebuilt=False)
    except TypeError:  # before pydantic 2.12
        validator = make(schema)

    return validator
