"""Results of tools as JSON, as pydantic writes them."""

from __future__ import annotations

import dataclasses
import math
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from types import GeneratorType
from typing import Any, Final, TypeVar

from pydantic import BaseModel
from pydantic_core import from_json, to_json, to_jsonable_python

from strictreply.values._control_flow import ending_in
from strictreply.values._issues import pointer
from strictreply.values._limits import JSON

_Part = TypeVar("_Part")
_SCALARS: Final = (str, int, float, bool, type(None))
_BYTES: Final = (bytes, bytearray, memoryview)
_ITEMS: Final = (list, tuple, set, frozenset, deque, range, GeneratorType, map, filter, zip)


MAX_LEVELS: Final = 400
# how the configuration of a model may spell NaN and infinities: as null, or as strings
_SPELLINGS: Final = frozenset({"null", "strings"})


class NotJSON(TypeError):
    """The value at ``path`` is of a type named ``kind``, which JSON cannot hold.

    A number that is not finite has the ``kind`` ``NaN``, ``Infinity`` or ``-Infinity``.
    """

    def __init__(self, path: str, kind: str) -> None:
        super().__init__(f"{kind} at {path or '/'} is not JSON")
        self.path = path
        """JSON Pointer of the value."""
        self.kind = kind
        """The name of its type, or ``NaN``, ``Infinity`` or ``-Infinity``."""


def jsonable(value: object) -> JSON:
    """Return a value as JSON: models, dataclasses, dates and the like as pydantic writes them.

    Bytes become base64 (RFC 4648 section 4), except UTF-8 bytes in a model, which its configuration
    spells. Arrays of numpy and the like become lists. Raises NotJSON for any other object, for a
    value that contains itself, for one whose own code raises, and for NaN and infinities, unless
    the configuration of their model spells them (``ser_json_inf_nan``).
    """
    try:
        return _written(value, "", ())
    except RecursionError:
        raise NotJSON("", type(value).__name__) from None


def _written(value: Any, path: str, above: tuple[int, ...]) -> JSON:
    if type(value) in _SCALARS:
        _refuse_infinite(value, path)
        scalar: JSON = value
        return scalar
    if isinstance(value, _BYTES):
        return b64encode(value).decode()

    if id(value) in above or len(above) >= MAX_LEVELS:
        raise NotJSON(path, type(value).__name__)

    inside = (*above, id(value))
    if isinstance(value, Mapping):
        members: dict[str, JSON] = {}
        for key, member in _read(value, value.items, path):
            name = _name_of(key, path)
            if name in members:
                raise NotJSON(path, f"{type(value).__name__} with two keys that are equal as text")

            members[name] = _written(member, pointer(path, name), inside)
        return members

    if isinstance(value, _ITEMS):
        items = enumerate(_read(value, value.__iter__, path))
        return [_written(item, pointer(path, index), inside) for index, item in items]

    if _is_plain_dataclass(value):
        names = [each.name for each in dataclasses.fields(value)]
        own = dict(_read(value, lambda: ((name, getattr(value, name)) for name in names), path))
        return _written(own, path, inside)

    return _by_pydantic(value, path, inside)


def _read(value: object, parts: Callable[[], Iterable[_Part]], path: str) -> list[_Part]:
    """Return the parts of a value; raise NotJSON if its own code raises.

    Exceptions that end a run or control a framework pass unchanged.
    """
    try:
        return list(parts())
    except Exception as error:  # for example database rows that are fetched on access
        if ending := ending_in(error):
            raise ending from None
        raise NotJSON(path, type(value).__name__) from error


def _is_plain_dataclass(value: object) -> bool:
    """Return whether a value is of a dataclass of the standard library."""
    is_instance = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return is_instance and not hasattr(value, "__pydantic_serializer__")


def _by_pydantic(value: object, path: str, inside: tuple[int, ...]) -> JSON:
    try:
        made: JSON = to_jsonable_python(value)
    except Exception as error:  # an object's own code may raise anything
        unpacked = _unpacked(value)
        if unpacked is value:
            raise NotJSON(path, type(value).__name__) from error
        return _written(unpacked, path, inside)

    if isinstance(value, Decimal):
        _refuse_infinite(value, path)

    found = next(_infinite_in(made, path), None)
    if found is None:
        return made
    if isinstance(value, BaseModel) and value.model_config.get("ser_json_inf_nan") in _SPELLINGS:
        spelled: JSON = from_json(to_json(value))
        return spelled

    raise found


def _infinite_in(value: JSON, path: str) -> Iterator[NotJSON]:
    """Yield an error for each number in a value that is not finite."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _infinite_in(member, pointer(path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _infinite_in(item, pointer(path, index))
    else:
        try:
            _refuse_infinite(value, path)
        except NotJSON as error:
            yield error


def _refuse_infinite(value: object, path: str) -> None:
    """Raise NotJSON for NaN and infinities."""
    if not isinstance(value, float | Decimal) or math.isfinite(value):
        return
    if value != value:  # noqa: PLR0124 - float() rejects a signalling NaN of a Decimal
        raise NotJSON(path, "NaN")

    raise NotJSON(path, "Infinity" if value > 0 else "-Infinity")


def _unpacked(value: object) -> object:
    """Return the parts of a value that pydantic does not write; else the value itself."""
    try:
        if isinstance(value, BaseModel):  # it contains bytes that are not UTF-8
            return value.model_dump(by_alias=True)
        tolist: object = getattr(value, "tolist", None)
        if callable(tolist) and not isinstance(value, type):
            return tolist()
    except Exception:  # noqa: BLE001 - as above
        return value

    return dict(vars(value)) if hasattr(value, "__pydantic_serializer__") else value


def _name_of(key: object, path: str) -> str:
    """Return a key as the name of a member: any scalar that pydantic accepts as a key."""
    if type(key) is str:
        return key
    if isinstance(key, _BYTES):
        return b64encode(key).decode()

    _refuse_infinite(key, path)
    try:
        (name,) = to_jsonable_python({key: None})
    except Exception as error:
        raise NotJSON(path, type(key).__name__) from error

    return str(name)
