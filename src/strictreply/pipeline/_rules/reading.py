"""Reading any content without a complaint: what is not there, or of another kind, reads as nothing.

An object's own code may raise anything, so a rule never holds one: it reads texts, numbers and arrays of the builtin
kinds, and a dict or an :class:`Object` for what has members. The words here are those of AGN-036: present, empty, null,
populated. No rule lives here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import Any, Final

from strictreply.values._issues import pointer_tokens
from strictreply.wires._chat import peek

ARRAYS = (list, tuple)


class Unreadable(Enum):
    """What stands for a member that cannot be read: it is there, and of no kind that a rule asks for."""

    UNREADABLE = auto()


UNREADABLE: Final = Unreadable.UNREADABLE


@dataclass(frozen=True, slots=True, eq=False)
class Object:
    """Something that can have members, and is no plain dict; they are read by :func:`member_of` alone."""

    value: object


def inert(value: object) -> object:
    """Give what a rule may compare, count and go through without running a line of the content's own code.

    A text that UTF-8 cannot spell is unreadable: no JSON holds it, and no error could tell of it.
    """
    kind = type(value)  # isinstance would ask the value, and a set would ask its class
    if value is None or kind is dict or kind is bool or kind is Object or kind is Unreadable:
        return value
    for base, plain in _PLAIN:
        if issubclass(kind, base):
            return plain(value)
    return Object(value)


def _text(value: str) -> object:
    """Give a text of any kind as a plain one."""
    text = str.__str__(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return UNREADABLE
    return text


def _tuple(value: tuple[object, ...]) -> object:
    """Give a tuple of any kind as a plain one."""
    return tuple(tuple.__iter__(value))


_PLAIN: Final[tuple[tuple[type, Callable[[Any], object]], ...]] = (
    (str, _text),
    (int, int.__int__),
    (float, float.__float__),
    (list, list.copy),
    (tuple, _tuple),
    (bytes, lambda value: bytes.__getitem__(value, slice(None))),
    (bytearray, bytearray.copy),
)
"""How a value of a builtin kind, or of one made of it, becomes a plain one."""


def member_of(value: object, name: str) -> object:
    """Read a member by its name; None where there is none, UNREADABLE where reading it raises."""
    if not is_object(value):
        return UNREADABLE if value is UNREADABLE else None
    try:
        return inert(peek(value.value if isinstance(value, Object) else value, name))
    except Exception:  # noqa: BLE001 - an object's own code may raise anything
        return UNREADABLE


def member_at(value: object, path: str) -> object:
    """Read the member at a JSON Pointer, through values and mappings; see :func:`member_of`."""
    value = inert(value)
    for token in _tokens(path):
        value = member_of(value, token)
    return value


@lru_cache(maxsize=256)
def _tokens(path: str) -> tuple[str, ...]:
    """Split a path of the table, of which there are few, once."""
    return tuple(pointer_tokens(path))


def is_present(value: object) -> bool:
    """Tell whether a text is there: one that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def is_empty(value: object) -> bool:
    """Tell whether nothing is there: null, a blank text, an array without entries. Other kinds are something."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, ARRAYS) and not value)


def is_null(value: object) -> bool:
    """Tell whether a member is null, or not there at all."""
    return value is None


def is_object(value: object) -> bool:
    """Tell whether something can have members."""
    return isinstance(value, dict | Object)


def is_populated(value: object) -> bool:
    """Tell whether a session, a turn or one of the contexts is there: each is known by its id."""
    return is_present(member_of(value, "id"))


def has_entries(value: object) -> bool:
    """Tell whether an array holds one entry at least."""
    return isinstance(value, ARRAYS) and bool(value)


def entries(value: object) -> list[object]:
    """Give the entries of an array; none of anything else."""
    return list(map(inert, value)) if isinstance(value, ARRAYS) else []


def text_or_none(value: object) -> str | None:
    """Give a text as it is, and None for anything else."""
    return value if isinstance(value, str) else None
