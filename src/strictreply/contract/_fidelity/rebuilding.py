"""Rebuilds pydantic's validator of a type, where the type's own would mislead.

- pydantic reads the items of an ``Iterable`` only when the program iterates, and only once. So a
  rejected item would raise in the program's own code, and a check would use up the items before a
  tool gets them: they are read immediately, into a list.
- A validator of an object that ends without ``return`` makes the object None. A program would get
  None for its answer, or the model would be blamed for it: it raises ReturnedNone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, cast

from pydantic_core import SchemaValidator

from strictreply.contract._fidelity.documents import CoreSchema

# keys whose value has schemas under the user's own names
_BY_NAME = frozenset({"fields", "choices"})
# keys whose value contains no schemas, but any other data
_VALUES = frozenset({"default", "expected", "members", "metadata", "serialization"})
# how a validator of an object should end, by the type of its core schema
_ENDINGS = {
    "function-before": "return the data that it was given, or new data",
    "function-after": "`return self`",
    "function-wrap": "return what the handler returned",
}
_OBJECTS = frozenset({"model", "model-fields", "dataclass", "dataclass-args", "typed-dict"})


class ReturnedNone(Exception):
    """A user's validator of an object returned None; the text names it, and says how to end it.

    Not a ValueError, which pydantic would take for a fault of the value.
    """


def needs_rebuilding(schema: CoreSchema) -> bool:
    """Return whether a core schema has an iterable, or a user's validator of an object."""
    pending: list[Any] = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            found = cast("CoreSchema", part)
            if found.get("type") == "generator" or _is_validator_of_object(found):
                return True
            pending += found.values()
        elif isinstance(part, list | tuple):
            pending += part

    return False


def rebuilt(part: Any, *, named: bool = False) -> Any:
    """Return a core schema with lists in place of its iterables, and with guarded validators.

    ``named`` says that the keys of ``part`` are the user's own names.
    """
    if isinstance(part, list | tuple):
        return type(part)(rebuilt(one) for one in part)
    if type(part) is not dict:
        return part

    made: CoreSchema = {
        key: one
        if key in _VALUES and not named
        else rebuilt(one, named=key in _BY_NAME and not named)
        for key, one in part.items()
    }
    if named:
        return made

    if made.get("type") == "generator":
        made["type"] = "list"
    elif _is_validator_of_object(made):
        function = made["function"]
        made["function"] = {**function, "function": _guarded(made)}

    return made


def _is_validator_of_object(part: CoreSchema) -> bool:
    """Return whether a part is a validator around an object, perhaps with others between."""
    if not isinstance(part.get("type"), str) or part["type"] not in _ENDINGS:
        return False

    inner = part
    while inner.get("type") in _ENDINGS:
        inner = inner["schema"]

    return inner.get("type") in _OBJECTS


def _guarded(part: CoreSchema) -> Callable[..., object]:
    """Return a validator's function that raises ReturnedNone instead of making an object None."""
    function: Callable[..., object] = part["function"]["function"]
    name = getattr(function, "__qualname__", type(function).__name__)

    @wraps(function)
    def guarded(value: object, *more: object) -> object:
        result = function(value, *more)
        if result is None and value is not None:
            raise ReturnedNone(
                f"the validator {name} returned None in place of the object: let it "
                f"{_ENDINGS[part['type']]}"
            )
        return result

    return guarded


def whole_validator(schema: CoreSchema) -> SchemaValidator:
    """Return a validator of a schema, without validators that its classes define themselves."""
    make: Any = SchemaValidator
    try:
        validator: SchemaValidator = make(schema, _use_prebuilt=False)
    except TypeError:  # before pydantic 2.12
        validator = make(schema)

    return validator
