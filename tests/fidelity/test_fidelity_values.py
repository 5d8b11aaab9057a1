"""Fidelity by type: what a tool gets is what was judged, or the reply is refused (V3)."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import uuid
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pytest
import typing_extensions
from pydantic import (
    AfterValidator,
    AnyUrl,
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    RootModel,
    StringConstraints,
)

from strictreply import Invalid
from strictreply.core import JSON
from support.fidelity.typed_samples import (
    BEYOND,
    CODE,
    HUGE,
    Colour,
    Inner,
    Level,
    Mixed,
    judge,
    places,
)


class Other(BaseModel):
    """Another model, told by its kind."""

    kind: Literal["other"]
    number: int


class Aliased(BaseModel):
    """A model whose members have the names of each other."""

    a: float = Field(alias="b")
    b: Decimal = Field(alias="a")


class Tree(BaseModel):
    """A model that holds itself."""

    weight: float
    below: list[Tree] = []
    by_age: dict[int, Tree] = {}


@dataclasses.dataclass(slots=True)
class Point:
    """A dataclass."""

    x: float
    y: dict[int, str] = dataclasses.field(default_factory=dict[int, str])


class Pair(NamedTuple):
    """A named tuple."""

    left: float
    right: Decimal


class Row(typing_extensions.TypedDict, total=False):
    """A TypedDict."""

    price: typing_extensions.Required[float]
    due: dt.datetime


class Open(BaseModel):
    """A model with members of its own choice, of one type."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float]
    first: int = 1


class Encoded(BaseModel):
    """A model whose bytes are written in base64."""

    model_config = ConfigDict(val_json_bytes="base64", ser_json_bytes="base64")
    data: bytes


class Strict(BaseModel):
    """A model that pydantic reads strictly."""

    model_config = ConfigDict(strict=True)
    number: float
    when: dt.datetime


class Scores(RootModel[dict[int, float]]):
    """A model of one value."""


class Key(RootModel[Annotated[str, StringConstraints(to_lower=True)]]):
    """A key of somebody's own: two spellings are one."""

    model_config = ConfigDict(frozen=True)


@pytest.mark.parametrize(
    ("kind", "judged", "place"),
    [
        (float, HUGE, ""),
        (float, -HUGE, ""),
        (float, BEYOND, ""),
        (list[float], [1, HUGE], "/1"),
        (tuple[int, float], [HUGE, HUGE], "/1"),
        (tuple[float, ...], [1, 2, BEYOND], "/2"),
        (set[float], [BEYOND], "/0"),
        (collections.deque[float], [HUGE], "/0"),
        (Sequence[float], [HUGE], "/0"),
        (Iterable[float], [HUGE], "/0"),
        (Mapping[str, float], {"a": HUGE}, "/*"),
        (collections.OrderedDict[str, float], {"a": HUGE}, "/*"),
        (float | None, HUGE, ""),
        (float | str, HUGE, ""),
        (Pair, [HUGE, 1], "/0"),
        (Inner, {"number": HUGE}, "/number"),
        (Point, {"x": HUGE}, "/x"),
        (Row, {"price": HUGE}, "/price"),
        (
            Tree,
            {"weight": 1, "below": [{"weight": 1, "below": [{"weight": HUGE}]}]},
            "/below/0/below/0/weight",
        ),
        (Inner | Other, {"kind": "inner", "number": HUGE}, "/number"),
        (
            Annotated[Inner | Other, Field(discriminator="kind")],
            {"kind": "inner", "number": HUGE},
            "/number",
        ),
        (Aliased, {"a": 1, "b": HUGE}, "/b"),
        (Aliased, {"a": "1_0", "b": 1}, "/a"),
        (Open, {"first": 1, "more": HUGE}, "/*"),
        (Scores, {"1": HUGE}, "/*"),
        (Strict, {"number": HUGE, "when": "2024-01-01T00:00:00Z"}, "/number"),
        (Annotated[float, AfterValidator(abs)], HUGE, ""),
        (dict[float, str], {"1e999": "a"}, "/*"),
        (dict[float, str], {"1": "a", "1.0": "b"}, "/*"),
        (dict[float, str], {str(BEYOND): "a"}, "/*"),
        (dict[Decimal, str], {"1_0": "a"}, "/*"),
        (dict[Decimal, str], {"1": "a", "1.0": "b"}, "/*"),
        (dict[dt.datetime, int], {"2024-01-01T00:00:00Z": 1, "2024-01-01T00:00:00+00:00": 2}, "/*"),
        (dict[dt.timedelta, int], {"PT60S": 1, "PT1M": 2}, "/*"),
        (dict[Annotated[str, StringConstraints(to_lower=True)], int], {"A": 1, "a": 2}, "/*"),
        (dict[Key, int], {"A": 1, "a": 2}, "/*"),
        (Literal[0, False], 0.0, ""),
        (Literal[1, True], 1.0, ""),
        (bool | int, 1.0, ""),
        (bool | Decimal, "true", ""),
        (Annotated[bool | str, Field(union_mode="left_to_right")], "yes", ""),
        (Annotated[int | str, Field(union_mode="left_to_right")], "01", ""),
        (Annotated[list[int] | list[str], Field(union_mode="left_to_right")], ["01"], "/0"),
        (Annotated[dt.datetime | float, Field(union_mode="left_to_right")], 1700000000, ""),
        (IPv4Address | float, HUGE, ""),
        (Decimal, "1_0", ""),
        (Decimal, " 1", ""),
        (Decimal, "\uff11", ""),
        (set[Decimal], ["1.0", "1.00"], ""),
        (set[int | bool], [1, True], ""),
        (set[Any], [1, True], ""),
        (frozenset[frozenset[int]], [[1, 2], [2, 1]], ""),
        (dt.datetime, "2024-01-01T00:00:00.1234567Z", ""),
        (dt.time, "10:00:00.0000001Z", ""),
        (dt.timedelta, "P1Y1M", ""),
        (dt.timedelta, "P1M", ""),
        (Json[float], "1e999", ""),
        (Json[dict[str, int]], '{"a":1,"a":2}', ""),
        (Base64Bytes, "aGk=!!", ""),
        (complex, "1_0j", ""),
        (Fraction, "1_0/2", ""),
        (AnyUrl, "http://a.example/b/../c", ""),
    ],
    ids=str,
)
def test_v3_other_values(kind: Any, judged: JSON, place: str) -> None:
    """JSON that fits the schema, of which pydantic makes another value, is an issue at the very
    member.
    """
    assert (CODE, place) in places(judge(kind, judged))


@pytest.mark.parametrize(
    ("kind", "judged"),
    [
        (dict[int, str], {"1": "a", "01": "b", " 1": "c"}),
        (dict[int, str], {"1_0": "a"}),
        (dict[int, str], {"+1": "a"}),
        (dict[int, str], {"-0": "a"}),
        (dict[int, str], {"1.0": "a"}),
        (dict[int, str], {"1\n": "a"}),
        (dict[float, str], {"nan": "a"}),
        (dict[float, str], {"1_0": "a"}),
        (dict[float, str], {"Infinity": "a"}),
        (dict[bool, str], {"yes": "a"}),
        (dict[bool, str], {"true": "a", "1": "b"}),
        (Point, {"x": 1, "y": {"01": "a"}}),
    ],
    ids=str,
)
def test_v3_keys_that_are_no_text(kind: Any, judged: JSON) -> None:
    """The schema itself says how a key that is no text is spelled, so that a model is told before
    it errs.
    """
    assert {code for code, _ in places(judge(kind, judged))} == {"args.property_names"}


@pytest.mark.parametrize(
    ("kind", "judged", "made"),
    [
        (int, 1.0, 1),
        (int, HUGE, HUGE),
        (Any, HUGE, HUGE),
        (float, 1, 1.0),
        (float, 2**53, 2.0**53),
        (float, 10**22, 1e22),
        (float, 0.1, 0.1),
        (int | float, BEYOND, BEYOND),
        (Literal["a", 1], 1.0, 1),
        (Level, 2.0, Level.HIGH),
        (Mixed, "1", Mixed.WORD),
        (Mixed, 1.0, Mixed.ONE),
        (Decimal, "1.50", Decimal("1.50")),
        (Decimal, "+1.5e3", Decimal(1500)),
        (Decimal, 1.1, Decimal("1.1")),
        (Decimal, HUGE, Decimal(HUGE)),
        (
            dt.datetime,
            "2024-01-01t00:00:00.5000000z",
            dt.datetime(2024, 1, 1, 0, 0, 0, 500000, tzinfo=dt.UTC),
        ),
        (dt.timedelta, "P1DT24H", dt.timedelta(days=2)),
        (dt.timedelta, "P1Y", dt.timedelta(days=365)),
        (
            uuid.UUID,
            "12345678-ABCD-5678-1234-567812345678",
            uuid.UUID("12345678-abcd-5678-1234-567812345678"),
        ),
        (dict[int, str], {"-1": "a", "10": "b"}, {-1: "a", 10: "b"}),
        (dict[float, str], {"1.5": "a", "1e2": "b"}, {1.5: "a", 100.0: "b"}),
        (dict[bool, str], {"true": "a", "false": "b"}, {True: "a", False: "b"}),
        (dict[int | str, int], {"1": 1, "01": 2}, {"1": 1, "01": 2}),
        (dict[Colour, int], {"red": 1}, {Colour.RED: 1}),
        (set[int | bool], [1, False], {1, False}),
        (AnyUrl, "HTTP://Example.com:80", AnyUrl("http://example.com/")),
        (Path, "a/b", Path("a/b")),
        (Base64Bytes, "aGk=", b"hi"),
        (Json[list[int]], "[1, 2]", [1, 2]),
        (IPv4Address | float, "10.0.0.1", IPv4Address("10.0.0.1")),
        (Encoded, {"data": "_-8"}, Encoded.model_construct(data=b"\xff\xef")),
        (Aliased, {"b": 1, "a": "2"}, Aliased.model_validate({"a": "2", "b": 1})),
    ],
    ids=str,
)
def test_spellings_of_one_value(kind: Any, judged: JSON, made: object) -> None:
    """Another way to write the same value is not another value."""
    built = judge(kind, judged)
    assert built == made
    assert type(built) is type(made)


@pytest.mark.parametrize(
    ("kind", "judged"),
    [
        (dt.date, "2024-01-01T00:00:00"),
        (dt.date, "86400"),
        (dt.datetime, "1700000000"),
        (dt.timedelta, "01:00:00"),
    ],
)
def test_remarks_do_not_change_values(kind: Any, judged: str) -> None:
    """Where ``format`` is a remark, dates and times are still read from nothing else than dates and
    times.
    """
    assert places(judge(kind, judged, formats="annotate")) == [(CODE, "")]


def test_naive_times_stay_naive() -> None:
    """Where ``format`` is only annotated, a time without offset is read without one."""
    read = judge(dt.datetime, "2024-01-02T03:04:05", formats="annotate")
    assert read == dt.datetime(2024, 1, 2, 3, 4, 5)  # noqa: DTZ001


def test_issues_hold_none_of_the_models_words() -> None:
    """An issue names the place as the schema does; what the model wrote stands in ``found`` alone,
    capped.
    """
    outcome = judge(dict[str, Base64Bytes], {"secret words": "a secret" * 100})
    assert isinstance(outcome, Invalid)
    told = [issue for issue in outcome.issues if issue.code == CODE]
    assert told
    assert not any(
        "secret" in part for issue in told for part in (issue.message, issue.hint, issue.path)
    )
    assert all(len(issue.found) <= 120 for issue in told)
