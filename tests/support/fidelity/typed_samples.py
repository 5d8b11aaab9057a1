"""Types of every kind and what judges JSON by them: what the tests of fidelity share."""

from __future__ import annotations

import enum
from typing import Any, Literal

from pydantic import BaseModel, TypeAdapter

from strictreply import Invalid
from strictreply.contract._models import document_of, instance_of
from strictreply.core import JSON, Formats
from strictreply.schema import Schema

HUGE = 10**310
BEYOND = 2**53 + 1
CODE = "args.not_representable"


class Level(enum.IntEnum):
    """Whole numbers with names."""

    LOW = 1
    HIGH = 2


class Colour(enum.StrEnum):
    """Words with names."""

    RED = "red"
    BLUE = "blue"


class Mixed(enum.Enum):
    """Values of several types."""

    ONE = 1
    WORD = "1"
    HALF = 0.5


class Inner(BaseModel):
    """A model inside."""

    kind: Literal["inner"] = "inner"
    number: float
    note: str = "none"


def judge(kind: Any, judged: JSON, *, formats: Formats = "assert") -> Any:
    """Judge JSON by a type's schema, and make the typed value of it.

    A tool does the same with its arguments.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    schema = Schema.compile(document_of(adapter, "it"), root_closed=False, formats=formats)
    issues = schema.check(judged)
    return Invalid(issues) if issues else instance_of(adapter, judged, at="", names=schema.names)


def places(outcome: object) -> list[tuple[str, str]]:
    """Return the code and the path of each issue."""
    assert isinstance(outcome, Invalid), outcome
    return [(issue.code, issue.path) for issue in outcome.issues]
