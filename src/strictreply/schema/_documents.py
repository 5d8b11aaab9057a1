"""Reading a declared schema into plain JSON of our own, within caps; what it means is not looked at here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from strictreply.values._errors import ContractError
from strictreply.values._issues import pointer
from strictreply.values._limits import MAX_NUMBER_DIGITS

Document: TypeAlias = "dict[str, Any] | bool"
"""A JSON Schema as plain JSON that nobody else holds."""

MAX_DEPTH = 120
MAX_NODES = 10_000
MAX_CHARS = 2_000_000
MAX_INTEGER_BITS = int(MAX_NUMBER_DIGITS * math.log2(10))


def read_document(document: object) -> Document:
    """Copy a schema deeply, as plain dicts, lists and scalars that share nothing.

    Raises ContractError when it is neither an object nor a boolean, holds what JSON cannot say (other types, names
    that are not text, NaN, lone surrogates, endless integers) or exceeds a cap: 120 levels, 10 000 values, 2 MB.
    """
    if not isinstance(document, Mapping | bool):
        message = f"a schema must be an object or a boolean, not {type(document).__name__}; give it as a dict"
        raise ContractError(message)
    copied: Document = _Copier().copy(document, "", 0)
    return copied


class _Copier:
    """One pass over a document, with its counts."""

    __slots__ = ("chars", "nodes")

    def __init__(self) -> None:
        """Start at nothing."""
        self.nodes = 0
        self.chars = 0

    def copy(self, value: object, path: str, depth: int) -> Any:
        """Copy one value; ``path`` is its JSON Pointer."""
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            size = f"more than {MAX_NODES} values or {MAX_DEPTH} levels"
            message = f"the schema is too large: {size}; declare the part that is needed"
            raise ContractError(message)
        match value:
            case bool() | None:
                return value
            case str():
                return self._text(value, path)
            case int() | float():
                return _number(value, path)
            case Mapping():
                return self._object(value, path, depth)
            case list() | tuple():
                return [self.copy(item, pointer(path, index), depth + 1) for index, item in enumerate(value)]
            case _:
                message = (
                    f"a schema is JSON; {type(value).__name__} is not; use dict, list, str, int, float, bool and None"
                )
                raise ContractError(message, path=path)

    def _object(self, members: Mapping[Any, object], path: str, depth: int) -> dict[str, Any]:
        """Copy an object whose names must be text."""
        copied = {}
        for name, member in members.items():
            if not isinstance(name, str):
                message = f"names in a schema are text; {type(name).__name__} is not: quote it"
                raise ContractError(message, path=path)
            key = self._text(name, path)
            copied[key] = self.copy(member, pointer(path, key), depth + 1)
        return copied

    def _text(self, text: str, path: str) -> str:
        """Copy a text as an exact str, so that members of an enum become their value."""
        self.chars += len(text)
        if self.chars > MAX_CHARS:
            message = f"the schema is too large: more than {MAX_CHARS} characters; declare the part that is needed"
            raise ContractError(message)
        try:
            return text.encode().decode()
        except UnicodeEncodeError:
            message = "a text in the schema holds half of a surrogate pair; write the whole character"
            raise ContractError(message, path=path) from None


def _number(value: float, path: str) -> int | float:
    """Copy a finite number of bounded length."""
    if isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            message = f"an integer in the schema has more than {MAX_NUMBER_DIGITS} digits; leave it out"
            raise ContractError(message, path=path)
        return int(value)
    if not math.isfinite(value):
        message = "NaN and Infinity are not JSON; leave the keyword out"
        raise ContractError(message, path=path)
    return float(value)
