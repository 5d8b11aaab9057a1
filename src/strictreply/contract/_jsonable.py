"""Results of tools as JSON: what a tool returns is written as pydantic writes it, or refused."""

from __future__ import annotations

import dataclasses
from base64 import b64encode
from collections import deque
from collections.abc import Iterable, Mapping
from types import GeneratorType
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from strictreply.values._issues import pointer
from strictreply.values._limits import JSON

_SCALARS: Final = (str, int, float, bool, type(None))
_BYTES: Final = (bytes, bytearray, memoryview)
_ITEMS: Final = (list, tuple, set, frozenset, deque, range, GeneratorType, map, filter, zip)


MAX_LEVELS: Final = 400


class NotJSON(TypeError):
    """A value at ``path`` is of the type named ``kind``, which JSON cannot hold."""

    def __init__(self, path: str, kind: str) -> None:
        super().__init__(f"{kind} at {path or '/'} is not JSON")
        self.path = path
        self.kind = kind


def jsonable(value: object) -> JSON:
    """Return a value as JSON: models, dataclasses, dates and the like as pydantic writes them.

    Bytes become base64 (RFC 4648 section 4), but for those of a model, which its own configuration
    spells while they are UTF-8. Arrays of numpy and the like are lists. Raises NotJSON for any
    other object, a value inside itself, and one whose own code raises.
    """
    try:
        return _written(value, "", ())
    except RecursionError:
        raise NotJSON("", type(value).__name__) from None


def _written(value: Any, path: str, above: tuple[int, ...]) -> JSON:
    if type(value) in _SCALARS:
        scalar: JSON = value
        return scalar
    if isinstance(value, _BYTES):
        return b64encode(value).decode()

    if id(value) in above or len(above) >= MAX_LEVELS:
        raise NotJSON(path, type(value).__name__)

    inside = (*above, id(value))
    if isinstance(value, Mapping):
        members: dict[str, JSON] = {}
        for key, member in value.items():
            name = _name_of(key, path)
            if name in members:
                raise NotJSON(path, f"{type(value).__name__} with two keys that are equal as text")

            members[name] = _written(member, pointer(path, name), inside)
        return members

    if isinstance(value, _ITEMS):
        items: Iterable[object] = value
        return [_written(item, pointer(path, index), inside) for index, item in enumerate(items)]

    if _is_plain_dataclass(value):
        own = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return _written(own, path, inside)

    return _by_pydantic(value, path, inside)


def _is_plain_dataclass(value: object) -> bool:
    """Return whether a value is of a dataclass of the standard library."""
    is_instance = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return is_instance and not hasattr(value, "__pydantic_serializer__")


def _by_pydantic(value: Any, path: str, inside: tuple[int, ...]) -> JSON:
    try:
        made: JSON = to_jsonable_python(value)
    except Exception as error:  # an object's own code may raise anything
        unpacked = _unpacked(value)
        if unpacked is value:
            raise NotJSON(path, type(value).__name__) from error
        return _written(unpacked, path, inside)

    return made


def _unpacked(value: Any) -> Any:
    """Return what a value is made of, where pydantic does not write it; else the value itself."""
    try:
        if isinstance(value, BaseModel):  # it holds bytes that are no UTF-8
            return value.model_dump(by_alias=True)
        if callable(getattr(value, "tolist", None)) and not isinstance(value, type):
            return value.tolist()
    except Exception:  # noqa: BLE001 - as above
        return value

    return dict(vars(value)) if hasattr(value, "__pydantic_serializer__") else value


def _name_of(key: object, path: str) -> str:
    """Return a key as the name of a member: any scalar that pydantic writes as one."""
    if type(key) is str:
        return key
    if isinstance(key, _BYTES):
        return b64encode(key).decode()

    try:
        (name,) = to_jsonable_python({key: None})
    except Exception as error:
        raise NotJSON(path, type(key).__name__) from error

    return str(name)
