"""Tables of the fields that a mapping must have, and the faults of one that has not; no meaning is known here.

Values are held to their exact JSON type: a bool is no integer, the text "false" is no flag, and nothing is truthy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, cast

from strictreply.coordination._faults import Fault
from strictreply.values._issues import Issue, pointer, quote

Check: TypeAlias = Callable[[object, str], Iterator[Issue]]
"""Yields the faults of a value that stands at a JSON Pointer."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: what its value must be, and whether it may be left out."""

    check: Check
    required: bool = True


Fields: TypeAlias = dict[str, Field]


def field_issues(value: object, fields: Fields, at: str = "") -> Iterator[Issue]:
    """Yield every fault of a mapping against a table, in the table's order; other fields are not looked at."""
    if not isinstance(value, Mapping):
        yield Fault.STATE_NOT_OBJECT.at(at, found=quote(value))
        return
    members = cast("Mapping[object, object]", value)
    for name, field in fields.items():
        if name in members:
            yield from field.check(members[name], pointer(at, name))
        elif field.required:
            yield Fault.STATE_MISSING_FIELD.at(pointer(at, name))


def typed(kind: type, expected: str) -> Check:
    """Make the check that a value is of one type; ``expected`` words it."""

    def check(value: object, at: str) -> Iterator[Issue]:
        """Yield the fault of a value of another type."""
        if not isinstance(value, kind):
            yield Fault.STATE_WRONG_TYPE.at(at, expected=expected, found=quote(value))

    return check


def anything(value: object, at: str) -> Iterator[Issue]:  # noqa: ARG001 - the signature of a Check
    """Take every value: only its presence matters."""
    return iter(())


def count(value: object, at: str) -> Iterator[Issue]:
    """Check a whole number that is 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int):
        yield Fault.STATE_WRONG_TYPE.at(at, expected="a whole number", found=quote(value))
    elif value < 0:
        yield Fault.STATE_NEGATIVE.at(at, found=quote(value))


def name(value: object, at: str) -> Iterator[Issue]:
    """Check text that says something."""
    yield from text(value, at)
    if isinstance(value, str) and not value.strip():
        yield Fault.STATE_BLANK.at(at)


def optional(check: Check) -> Check:
    """Make the check that also takes None."""

    def check_if_any(value: object, at: str) -> Iterator[Issue]:
        """Yield the faults of a value that is not None."""
        return iter(()) if value is None else check(value, at)

    return check_if_any


def each(check: Check) -> Check:
    """Make the check of a list, and of every item in it."""

    def check_items(value: object, at: str) -> Iterator[Issue]:
        """Yield the faults of the list, then of its items."""
        yield from items(value, at)
        if isinstance(value, list):
            for index, item in enumerate(cast("list[object]", value)):
                yield from check(item, pointer(at, index))

    return check_items


def values(check: Check) -> Check:
    """Make the check of an object, and of every value in it."""

    def check_values(value: object, at: str) -> Iterator[Issue]:
        """Yield the faults of the object, then of its values."""
        yield from mapping(value, at)
        if isinstance(value, dict):
            for key, one in cast("dict[str, object]", value).items():
                yield from check(one, pointer(at, key))

    return check_values


def record(fields: Fields) -> Check:
    """Make the check of a nested mapping."""

    def check_record(value: object, at: str) -> Iterator[Issue]:
        """Yield the faults of the mapping against its own table."""
        return field_issues(value, fields, at)

    return check_record


def word_of(words: type[StrEnum]) -> Check:
    """Make the check of a word that is one of an enum's values."""
    known = frozenset(word.value for word in words)

    def check(value: object, at: str) -> Iterator[Issue]:
        """Yield the fault of another word, or of what is no word."""
        if not isinstance(value, str) or value not in known:
            yield Fault.STATE_UNKNOWN_WORD.at(at, expected=", ".join(sorted(known)), found=quote(value))

    return check


text = typed(str, "text")
flag = typed(bool, "true or false")
mapping = typed(dict, "an object")
items = typed(list, "a list")
