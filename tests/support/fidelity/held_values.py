"""An oracle of its own for typed values: it knows Python's types, and nothing of core schemas.

``holds(value, judged)`` says whether a built value holds all of the JSON it was made of, under the
representation that the documentation gives, and nothing else but declared defaults.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime as dt
import enum
import ipaddress
import json
import re
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import isfinite
from pathlib import PurePath
from typing import Any

from pydantic import AliasChoices, AliasPath, AnyUrl, BaseModel, ByteSize, RootModel
from pydantic.fields import FieldInfo

from strictreply.core import JSON

MISSING = object()
ADDRESSES = (
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
)
UNITS = {"": 1, "b": 1, "kb": 10**3, "kib": 2**10, "mb": 10**6, "mib": 2**20, "gb": 10**9}


def holds(value: Any, judged: JSON) -> bool:
    """Return whether a value holds what was judged, and nothing but that and defaults."""
    if isinstance(value, RootModel):
        return holds(value.root, judged)
    if isinstance(judged, dict):
        return _holds_object(value, judged)
    if isinstance(judged, list):
        return _holds_array(value, judged)
    if isinstance(judged, str) and _holds_text(value, judged):
        return True
    if isinstance(judged, str) and not isinstance(value, str | bytes):
        # JSON in a text
        try:
            inner = json.loads(judged, object_pairs_hook=_once)
        except ValueError:
            return False
        return isinstance(inner, dict | list) and holds(value, inner)

    return _holds_scalar(value, judged)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key twice")
    return made


def _holds_object(value: Any, judged: dict[str, JSON]) -> bool:
    if isinstance(value, Mapping):
        if len(value) != len(judged):
            return False
        return all(
            any(_holds_key(key, name) and holds(item, inner) for key, item in value.items())
            for name, inner in judged.items()
        )

    if isinstance(value, BaseModel):
        fields = {
            name: _places(name, field, value) for name, field in type(value).model_fields.items()
        }
        defaults = {
            name: field.get_default(call_default_factory=True, validated_data={})
            for name, field in type(value).model_fields.items()
        }
        extra = value.model_extra or {}
    elif dataclasses.is_dataclass(value):
        fields = {
            each.name: [(each.name,)] if each.init else [] for each in dataclasses.fields(value)
        }
        defaults = {each.name: each.default for each in dataclasses.fields(value)}
        extra = {}
    else:
        return False

    taken: list[tuple[str | int, ...]] = []
    for name, places in fields.items():
        found = [(place, _at(judged, place)) for place in places]
        found = [(place, inner) for place, inner in found if inner is not MISSING]
        if not found:
            if getattr(value, name) != defaults[name]:
                return False
            continue

        good = [place for place, inner in found if holds(getattr(value, name), inner)]
        if not good:
            return False
        taken.append(good[0])

    return all(
        any(_is_taken(leaf, place) for place in taken)
        or (leaf[0] in extra and holds(extra[leaf[0]], judged[str(leaf[0])]))
        for leaf in _leaves(judged, top=True)
    )


def _places(name: str, field: FieldInfo, value: BaseModel) -> list[tuple[str | int, ...]]:
    alias = field.validation_alias
    places: list[tuple[str | int, ...]] = []
    config = type(value).model_config
    by_name = config.get("populate_by_name") or config.get("validate_by_name")

    for one in alias.choices if isinstance(alias, AliasChoices) else [alias]:
        if isinstance(one, AliasPath):
            places.append(tuple(one.path))
        elif one is not None:
            places.append((one,))

    if config.get("validate_by_alias") is False:
        places = []
    if by_name or alias is None:
        places.append((name,))
    return places


def _at(judged: Any, place: tuple[str | int, ...]) -> Any:
    for step in place:
        try:
            judged = judged[step]
        except (LookupError, TypeError):
            return MISSING
    return judged


def _leaves(judged: JSON, *, top: bool = False) -> list[tuple[str | int, ...]]:
    """Return the places of all leaves; an empty container is one."""
    inner: list[tuple[str | int, JSON]] = []
    if isinstance(judged, dict):
        inner = list(judged.items())
    elif isinstance(judged, list):
        inner = list(enumerate(judged))
    if not inner:
        return [] if top else [()]
    return [(step, *rest) for step, value in inner for rest in _leaves(value)]


def _is_taken(leaf: tuple[str | int, ...], place: tuple[str | int, ...]) -> bool:
    return leaf[: len(place)] == place


def _holds_key(key: Any, name: str) -> bool:
    if isinstance(key, str) and not isinstance(key, enum.Enum):
        return key == name
    if _holds_text(key, name):
        return True
    try:
        return _holds_scalar(key, json.loads(name))
    except ValueError:
        return False


def _holds_array(value: Any, judged: list[JSON]) -> bool:
    if isinstance(value, tuple) and hasattr(value, "_field_defaults"):
        row: Any = value
        # a named tuple: defaults stand for what is left out at the end
        rest = value[len(judged) :]
        defaults = [row._field_defaults[name] for name in row._fields[len(judged) :]]
        return list(rest) == defaults and all(map(holds, value, judged))
    if isinstance(value, list | tuple | collections.deque):
        return len(value) == len(judged) and all(map(holds, value, judged))
    if isinstance(value, set | frozenset):
        if len(value) != len(judged):
            return False
        return all(any(holds(item, inner) for item in value) for inner in judged)
    return False


def _holds_scalar(value: Any, judged: JSON) -> bool:
    if isinstance(value, enum.Enum):
        return _holds_scalar(value.value, judged)
    if value is None or judged is None or isinstance(value, bool) or isinstance(judged, bool):
        return value is judged
    if isinstance(judged, str):
        return type(value) is str and value == judged
    if isinstance(value, float):
        return isinstance(judged, int | float) and isfinite(value) and value == judged
    if isinstance(value, Decimal):
        return value == Decimal(repr(judged))
    return isinstance(value, int | Fraction) and value == judged


def _holds_text(value: Any, text: str) -> bool:
    """Return whether a value is the one that a text spells."""
    try:
        return _read(value, text)
    except (ValueError, InvalidOperation, ZeroDivisionError, OverflowError):
        return False


def _is_size(value: ByteSize, text: str) -> bool:
    found = re.fullmatch(r"\s*([0-9.]+)\s*([a-zA-Z]*)\s*", text)
    return found is not None and Fraction(found[1]) * UNITS[found[2].lower()] == int(value)


def _is_complex(value: complex, text: str) -> bool:
    found = re.fullmatch(r"([+-]?[\d.]+)?(?:([+-]?[\d.]+)j)?", text)
    if found is None:
        return False
    parts = [Fraction(float(part or 0)) for part in found.groups()]
    return [Fraction(value.real), Fraction(value.imag)] == parts


def _is_decoded(value: str | bytes, text: str) -> bool:
    """Return whether a text is spelled plain, or in base64."""
    data = value.encode() if isinstance(value, str) else value
    return data == text.encode() or data == base64.b64decode(text, validate=True)


# how a text spells a value, by the first type that fits
SPELLED: list[tuple[Any, Callable[[Any, str], bool]]] = [
    (ByteSize, _is_size),
    (enum.Enum, lambda value, text: value.value == text),
    (str | bytes, _is_decoded),
    (Decimal, lambda value, text: "_" not in text and Decimal(text) == value),
    (complex, _is_complex),
    (dt.datetime, lambda value, text: dt.datetime.fromisoformat(text) == value),
    (dt.date, lambda value, text: dt.date.fromisoformat(text) == value),
    (uuid.UUID, lambda value, text: uuid.UUID(text) == value),
    (PurePath, lambda value, text: str(value) == text),
    (re.Pattern, lambda value, text: bool(value.pattern == text)),
    (AnyUrl, lambda value, text: str(value) in (text, text.lower(), f"{text.lower()}/")),
    (ADDRESSES, lambda value, text: type(value)(text) == value),
]


def _read(value: Any, text: str) -> bool:
    spelled = (same for kind, same in SPELLED if isinstance(value, kind))
    same = next(spelled, None)
    return same is not None and bool(same(value, text))
