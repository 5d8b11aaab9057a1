"""The laws of ``strictreply.contract._models``: a Python type's JSON Schema, and its instances."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    NaiveDatetime,
    RootModel,
    TypeAdapter,
    field_validator,
)

from strictreply import ContractError, Invalid
from strictreply.contract._models import adapter_of, document_of, instance_of
from strictreply.core import JSON

UTC = dt.UTC


class Colour(enum.Enum):
    """Something to choose."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    """A dataclass."""

    x: int


class Node(BaseModel):
    """A recursive model."""

    value: int
    children: list[Node] = []


class Strict(BaseModel):
    """A model that pydantic reads strictly."""

    model_config = ConfigDict(strict=True)
    day: dt.date
    colour: Colour
    few: set[int]


class Encoded(BaseModel):
    """A model whose bytes are written in base64."""

    model_config = ConfigDict(val_json_bytes="base64", ser_json_bytes="base64")
    data: bytes


def build(kind: Any, value: JSON) -> Any:
    """Make an instance, as a tool does."""
    return instance_of(adapter_of(kind, "it"), value, at="", names=frozenset())


def document(kind: Any) -> dict[str, Any]:
    """Write the schema of a type."""
    return document_of(adapter_of(kind, "it"), "it")


@pytest.mark.parametrize(
    ("kind", "spelled", "value"),
    [
        (int, 10.0, 10),
        (float, 1, 1.0),
        (Decimal, "1.50", Decimal("1.50")),
        (Decimal, 1.1, Decimal("1.1")),
        (dt.datetime, "2024-01-02T03:04:05Z", dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (dt.timedelta, "PT1H", dt.timedelta(hours=1)),
        (
            uuid.UUID,
            "12345678-1234-5678-1234-567812345678",
            uuid.UUID("12345678-1234-5678-1234-567812345678"),
        ),
        (bytes, "hi", b"hi"),
        (Path, "a/b", Path("a/b")),
        (Colour, "blue", Colour.BLUE),
        (set[int], [1, 2], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (Point, {"x": 1}, Point(1)),
        (Encoded, {"data": "aGk="}, Encoded.model_construct(data=b"hi")),
        (
            Strict,
            {"day": "2024-01-02", "colour": "red", "few": [1]},
            Strict(day=dt.date(2024, 1, 2), colour=Colour.RED, few={1}),
        ),
    ],
    ids=str,
)
def test_json_spellings(kind: Any, spelled: JSON, value: object) -> None:
    """Types that JSON lacks are made of the text or array that spells them, even if strict."""
    built = build(kind, spelled)
    assert built == value
    assert type(built) is type(value)


def test_recursive_root_stands_in_place() -> None:
    """The schema of a recursive type is an object at its root, its definition still there for
    references.
    """
    written = document(Node)
    assert written["type"] == "object"
    assert written["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert "Node" in written["$defs"]


def test_generated_titles_are_left_out() -> None:
    """Members have no titles made from their names; a title that somebody wrote stays."""

    class Titled(BaseModel):
        plain: int
        named: int = Field(title="Chosen")

    assert document(Titled)["properties"] == {
        "plain": {"type": "integer"},
        "named": {"title": "Chosen", "type": "integer"},
    }


def test_naive_times_are_no_date_time() -> None:
    """Only a time with an offset is an RFC 3339 date-time; a naive one says another format, or
    nothing could fit.
    """
    assert document(NaiveDatetime)["format"] == "date-time-local"
    assert document(AwareDatetime)["format"] == "date-time"
    assert document(dt.datetime)["format"] == "date-time"


def test_decimals_have_no_pattern() -> None:
    """No lookahead gets into a schema by way of a decimal."""
    assert "pattern" not in str(document(Decimal))


def test_odd_parts_are_left_out() -> None:
    """A default that is no JSON, and a branch of a union that JSON cannot spell, are left out
    without a warning.
    """

    class Odd(BaseModel):
        mark: Any = object()
        either: int | Callable[[], int] = 1

    assert document(Odd)["properties"] == {"mark": {}, "either": {"default": 1, "type": "integer"}}


@pytest.mark.parametrize(
    "kind",
    [
        object(),
        Callable[[], int],
        "Nowhere",
        "no type",
        type("Plain", (), {}),
        Annotated[bool, Field(union_mode="smart")],
    ],
    ids=["object", "callable", "text", "prose", "class", "misplaced constraint"],
)
def test_unreadable_types(kind: Any) -> None:
    """A type that pydantic cannot read or describe in JSON Schema is a ContractError that names its
    owner.
    """
    with pytest.raises(ContractError, match="it"):
        document(kind)


def test_validators_speak_as_issues() -> None:
    """A validator's refusal is an issue at its member, for the place that was checked."""

    class Even(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def even(cls, number: int) -> int:
            """Accept even numbers."""
            if number % 2:
                message = "must be even"
                raise ValueError(message)
            return number

    adapter: TypeAdapter[Even] = TypeAdapter(Even)
    refused = instance_of(adapter, {"number": 3}, at="/answer", names={"number"}, place="answer")
    assert isinstance(refused, Invalid)
    assert [(issue.code, issue.path, issue.message) for issue in refused.issues] == [
        ("answer.check", "/answer/number", "must be even")
    ]


def test_root_models() -> None:
    """A root model stands for its value, whatever that is."""

    class Scores(RootModel[dict[str, int]]):
        """Scores by name."""

    assert build(Scores, {"a": 1}).root == {"a": 1}
    assert document(Scores)["type"] == "object"
