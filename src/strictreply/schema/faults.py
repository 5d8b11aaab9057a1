"""What an engine says about a value, whichever engine it is: valid or not, and which keyword refused which place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from strictreply.typing import JSON

MAX_WORDS = 200
NOT_LINEAR = "the pattern cannot be matched in linear time: no look-around, no back-references, no huge repeats"


@dataclass(frozen=True, slots=True)
class Fault:
    """One place that one keyword refused.

    ``keyword`` is the keyword's name, ``false`` for a schema that admits nothing. ``schema`` is the object schema
    that holds the keyword, None when it cannot be told. ``names`` are the members that are missing or too many, or
    the member names that ``propertyNames`` refused. ``branches`` holds the faults per branch of a union, empty
    when more than one branch of ``oneOf`` fits.
    """

    keyword: str
    path: tuple[str | int, ...]
    schema: dict[str, Any] | None = None
    names: tuple[str, ...] = ()
    branches: tuple[tuple[Fault, ...], ...] = ()


class Engine(Protocol):
    """A compiled schema; both methods may raise ValueError or RecursionError for what is not bounded JSON."""

    @property
    def remembers(self) -> bool:
        """Whether a recurring schema is tried only once per place, so that validity alone is cheap."""
        ...

    def is_valid(self, value: JSON) -> bool:
        """Say whether a value fits."""
        ...

    def faults(self, value: JSON) -> Iterator[Fault]:
        """Give every fault of a value that does not fit; an engine may copy the value for each."""
        ...

    def first_fault(self, value: JSON) -> Fault | None:
        """Give one fault of a value that does not fit, at the price of one check."""
        ...


def value_at(value: Any, path: tuple[str | int, ...]) -> Any:
    """Give the part of a value that a path leads to."""
    for token in path:
        value = value[token]
    return value
