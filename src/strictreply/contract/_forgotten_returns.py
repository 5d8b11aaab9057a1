"""Finds validators of models and fields that end without ``return``.

pydantic takes what a validator returns for the object, or for the value of the field. Without
``return`` that is None: a program gets None, or the model is blamed for data that it wrote
correctly.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

from strictreply.values._errors import ContractError

# how a validator of a model should end, by its mode
_ENDINGS = {
    "after": "return self",
    "before": "return the data for the fields",
    "wrap": "return what the handler returned",
}


def refuse_forgotten_returns(core_schema: Any, name: str) -> None:
    """Raise ContractError for the first validator that can only return None.

    A validator of a field that may be None is not looked at. ``name`` is what the schema was made
    for.
    """
    for kind in _models_in(core_schema):
        for function, of_what, ending in _validators_of(kind):
            if _returns_only_none(function):
                raise ContractError(
                    f"{name!r} has a validator that makes each {of_what} None: end "
                    f"{function.__qualname__} with: {ending}"
                )


def _validators_of(kind: type) -> Iterator[tuple[Any, str, str]]:
    """Yield each function that must return a value, what it makes, and how it should end."""
    decorators = getattr(kind, "__pydantic_decorators__", None)
    of_models: Mapping[str, Any] = getattr(decorators, "model_validators", {})
    for validator in of_models.values():
        function = getattr(validator.func, "__func__", validator.func)
        yield function, kind.__name__, _ENDINGS[validator.info.mode]

    declared: Mapping[str, Any] = getattr(kind, "__pydantic_fields__", {})
    of_fields: Mapping[str, Any] = getattr(decorators, "field_validators", {})
    for validator in of_fields.values():
        for field in validator.info.fields:
            if field in declared and not _admits_null(declared[field].annotation):
                function = getattr(validator.func, "__func__", validator.func)
                ending = "return the value (or declare the field as … | None)"
                yield function, f"{kind.__name__}.{field}", ending


def _admits_null(annotation: Any) -> bool:
    """Return whether a field may be None; also true for an annotation that is not understood."""
    origin = get_origin(annotation)
    if origin is Literal:
        return None in get_args(annotation)
    if isinstance(origin, type) and origin is not UnionType:
        return False

    return not isinstance(annotation, type) or annotation in (object, NoneType)


def _models_in(core_schema: Any) -> Iterator[type]:
    """Yield each class of a model or a dataclass in a core schema."""
    pending: list[Any] = [core_schema]
    seen = set[int]()
    while pending:
        part = pending.pop()
        if not isinstance(part, Mapping | list | tuple) or id(part) in seen:
            continue

        seen.add(id(part))  # a default may hold itself
        if isinstance(part, Mapping):
            kind: Any = part.get("cls")
            if isinstance(kind, type):
                yield kind

        pending += part.values() if isinstance(part, Mapping) else part


def _returns_only_none(function: Any) -> bool:
    """Return whether each ``return`` of a function, written or not, returns the constant None.

    A function that only raises has no ``return``.
    """
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        return False

    returned: list[object] = []
    for before, instruction in pairwise(dis.get_instructions(code)):
        if instruction.opname == "RETURN_CONST":  # of Python 3.12 and 3.13
            returned.append(instruction.argval)
        elif instruction.opname == "RETURN_VALUE":
            # a jump to the return brings another value, as in `return found or None`
            is_constant = before.opname == "LOAD_CONST" and not instruction.is_jump_target
            returned.append(before.argval if is_constant else ...)

    return bool(returned) and all(value is None for value in returned)
