"""Reading any content without a complaint: what is not there, or of another kind, reads as nothing.

The words here are those of AGN-036: present, empty, null, populated. No rule lives here.
"""

from __future__ import annotations

from functools import lru_cache

from strictreply.channels.envelope import peek
from strictreply.issues import pointer_tokens

SCALARS = (str, bytes, bytearray, bool, int, float)
ARRAYS = (list, tuple)


def member_at(value: object, path: str) -> object:
    """Read the member at a JSON Pointer, through values and mappings; None where there is none."""
    for token in _tokens(path):
        value = peek(value, token)
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
    return value is not None and not isinstance(value, (*SCALARS, *ARRAYS))


def is_populated(value: object) -> bool:
    """Tell whether a session, a turn or one of the contexts is there: each is known by its id."""
    return is_present(peek(value, "id"))


def has_entries(value: object) -> bool:
    """Tell whether an array holds one entry at least."""
    return bool(entries(value))


def entries(value: object) -> list[object] | tuple[object, ...]:
    """Give the entries of an array; none of anything else."""
    return value if isinstance(value, ARRAYS) else ()


def text_or_none(value: object) -> str | None:
    """Give a text as it is, and None for anything else."""
    return value if isinstance(value, str) else None
