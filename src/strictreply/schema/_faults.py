"""What can be found wrong with a value, and what an engine is: the one thing that decides whether a value fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from strictreply.schema._vocabulary import TYPES
from strictreply.values._errors import ContractError
from strictreply.values._issues import pointer
from strictreply.values._json import JSON

MAX_WORDS = 200
NOT_LINEAR = (
    "the pattern cannot be matched in linear time: no look-around, no back-references, no huge repeats. Write (?!x) as "
    '"not": {"pattern": "x"} and (?=x) as one more pattern in "allOf", escape a bare { and a - inside brackets, '
    "or leave the pattern out and look at the text in the tool's check="
)

DOCUMENT_URI = "urn:strictreply:schema"
"""What :meth:`Engine.part` calls the document, unless the document has an ``$id`` of its own."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One place that one keyword refused.

    ``keyword`` is the keyword's name, ``false`` for a schema that admits nothing. ``path`` holds the member names
    (str) and indexes (int) that lead to the place, and ``found`` is what stands there: paths are made by walking the
    value, so a member named ``"0"`` is a name and never an index. ``schema`` holds the keyword, None when it cannot
    be determined. ``names`` are the members that are missing or too many, or the member names that ``propertyNames``
    refused. ``branches`` holds the faults per branch of a union, empty when more than one branch of ``oneOf`` fits.
    """

    keyword: str
    path: tuple[str | int, ...]
    schema: Mapping[str, Any] | None = None
    names: tuple[str, ...] = ()
    branches: tuple[tuple[Fault, ...], ...] = ()
    found: JSON = field(default=None, compare=False)


def malformed(place: tuple[str | int, ...], words: str) -> ContractError:
    """Make the error for a schema that does not fit its metaschema: what is wrong, where, and what to do."""
    keyword = str(place[-1]) if place else ""
    if keyword == "type":
        words = f"the type must be {', '.join(TYPES)} or a list of them; leave it out to allow any type"
    elif keyword == "required":
        words = f"required must be a list of member names, beside properties: {words[:MAX_WORDS]}"
    else:
        words = f"the schema is malformed: {words[:MAX_WORDS]}; write it as JSON Schema has it, or leave it out"
    return ContractError(words, path=pointer("", *place))


class Engine(Protocol):
    """A compiled schema; ``is_valid`` may raise ValueError or RecursionError for what is not bounded JSON."""

    @property
    def remembers(self) -> bool:
        """Whether a recurring schema is tried only once per place, so that validity alone is cheap."""
        ...

    def is_valid(self, value: JSON) -> bool:
        """Return whether a value fits."""
        ...

    def part(self, schema: dict[str, Any]) -> Engine:
        """Compile a schema that refers into the document by absolute references, at the price of what it reaches."""
        ...
