"""The laws of ``strictreply.contract._fidelity``: what a tool gets is what was judged, or the reply is refused (V3)."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime as dt
import enum
import functools
import json
import operator
import re
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pytest
import typing_extensions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    AnyUrl,
    Base64Bytes,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Json,
    RootModel,
    SecretStr,
    StringConstraints,
    Tag,
    TypeAdapter,
    WrapValidator,
    create_model,
    field_serializer,
    field_validator,
    model_validator,
)

import strictreply as sr
from openai_shapes import call, completion, message
from scripted import AsyncClient, Client
from strictreply import Contract, DirectAnswer, Invalid, Tool, Valid
from strictreply.contract._fidelity import NOT_REPRESENTABLE, fidelity_of
from strictreply.contract._fidelity.parts import Comparison, Risk
from strictreply.contract._models import adapter_of, document_of, instance_of
from strictreply.schema import Schema
from strictreply.values._json import JSON, Formats
from strictreply.values._limits import Work

HUGE = 10**310
BEYOND = 2**53 + 1
CODE = f"args.{NOT_REPRESENTABLE}"


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


def judge(kind: Any, judged: JSON, *, formats: Formats = "assert") -> Any:
    """Judge JSON by a type's schema and make the typed value of it, as a tool does with its arguments."""
    adapter: TypeAdapter[Any] = adapter_of(kind, "it")
    schema = Schema.compile(document_of(adapter, "it"), root_closed=False, formats=formats)
    issues = schema.check(judged)
    return Invalid(issues) if issues else instance_of(adapter, judged, at="", names=schema.names)


def places(outcome: object) -> list[tuple[str, str]]:
    """Give the code and the path of each issue."""
    assert isinstance(outcome, Invalid), outcome
    return [(issue.code, issue.path) for issue in outcome.issues]


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
        (Tree, {"weight": 1, "below": [{"weight": 1, "below": [{"weight": HUGE}]}]}, "/below/0/below/0/weight"),
        (Inner | Other, {"kind": "inner", "number": HUGE}, "/number"),
        (Annotated[Inner | Other, Field(discriminator="kind")], {"kind": "inner", "number": HUGE}, "/number"),
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
    """JSON that fits the schema, of which pydantic makes another value, is an issue at the very member."""
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
    """The schema itself says how a key that is no text is spelled, so that a model is told before it errs."""
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
        (dt.datetime, "2024-01-01t00:00:00.5000000z", dt.datetime(2024, 1, 1, 0, 0, 0, 500000, tzinfo=dt.UTC)),
        (dt.timedelta, "P1DT24H", dt.timedelta(days=2)),
        (dt.timedelta, "P1Y", dt.timedelta(days=365)),
        (uuid.UUID, "12345678-ABCD-5678-1234-567812345678", uuid.UUID("12345678-abcd-5678-1234-567812345678")),
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
    """Another spelling of the same value is no other value."""
    built = judge(kind, judged)
    assert built == made
    assert type(built) is type(made)


@pytest.mark.parametrize(
    ("kind", "judged"),
    [(dt.date, "2024-01-01T00:00:00"), (dt.date, "86400"), (dt.datetime, "1700000000"), (dt.timedelta, "01:00:00")],
)
def test_remarks_do_not_change_values(kind: Any, judged: str) -> None:
    """Where ``format`` is a remark, dates and times are still read from nothing else than dates and times."""
    assert places(judge(kind, judged, formats="annotate")) == [(CODE, "")]


def test_naive_times_stay_naive() -> None:
    """Where ``format`` is a remark, a time without offset is taken as it is."""
    assert judge(dt.datetime, "2024-01-02T03:04:05", formats="annotate") == dt.datetime(2024, 1, 2, 3, 4, 5)  # noqa: DTZ001


# What a user's own code changes is the user's.


class Own:
    """A type that reads itself."""

    def __init__(self, text: str) -> None:
        """Hold a text."""
        self.text = text

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: Callable[[Any], Any]) -> Any:
        """Read itself from any text."""
        schema = handler(str)
        return {"type": "function-plain", "function": {"type": "no-info", "function": cls}} | {
            "metadata": {"pydantic_js_functions": [lambda _, __: {"type": "string"}]},
            "serialization": schema.get("serialization", {"type": "to-string"}),
        }


class Missing(enum.Enum):
    """An enum that reads other words, too."""

    A = "a"

    @classmethod
    def _missing_(cls, value: object) -> Missing:
        """Read what is none of the values."""
        return cls.A


class Doubled(BaseModel):
    """A model whose code changes everything, and writes it in another way."""

    number: float
    many: list[float] = []
    made: list[int] = Field(default_factory=list)

    @field_validator("number")
    @classmethod
    def doubled(cls, number: float) -> float:
        """Double it."""
        return number * 2

    @model_validator(mode="after")
    def emptied(self) -> Doubled:
        """Forget the rest."""
        return self.model_copy(update={"many": []})

    @field_serializer("number")
    def spelled(self, _: float) -> str:
        """Write something else."""
        return "a number"


def without_dashes(value: Any) -> Any:
    """Read digits with dashes between."""
    return str(value).replace("_", "")


@pytest.mark.parametrize(
    ("kind", "judged", "check"),
    [
        (Doubled, {"number": 2, "many": [1]}, lambda made: (made.number, made.many) == (4.0, [])),
        (Annotated[Decimal, BeforeValidator(without_dashes)], "1_0", lambda made: made == 10),
        (Annotated[float, WrapValidator(lambda _, __: 7.0)], HUGE, lambda made: made == 7.0),
        (Annotated[str, StringConstraints(to_lower=True, strip_whitespace=True)], " A ", lambda made: made == "a"),
        (set[Annotated[str, StringConstraints(to_lower=True)]], ["A", "a"], lambda made: made == {"a"}),
        (list[Annotated[int, AfterValidator(str)]], [1], lambda made: made == ["1"]),
        (dict[str, Annotated[float, BeforeValidator(lambda _: 1)]], {"a": HUGE}, lambda made: made == {"a": 1.0}),
        (Own, "x", lambda made: made.text == "x"),
        (SecretStr, "x", lambda made: made.get_secret_value() == "x"),
        (Missing | dt.date, "a", lambda made: made is Missing.A),
    ],
    ids=str,
)
def test_what_a_users_code_changes_is_theirs(kind: Any, judged: JSON, check: Callable[[Any], bool]) -> None:
    """Validators, constraints that transform, serializers and types of the user's own are believed."""
    assert check(judge(kind, judged))


def test_a_users_code_does_not_hide_the_rest() -> None:
    """Beside a validator that only checks, and below one that follows, values are held to their JSON all the same."""
    assert places(judge(Doubled, {"number": HUGE, "many": [HUGE]})) == [(CODE, "/number"), (CODE, "/many/0")]


def test_no_code_of_the_user_runs_twice() -> None:
    """Factories of defaults, validators and hooks run once for each reply, though its values are compared."""
    ran: list[str] = []

    def counting(name: str) -> Callable[[Any], Any]:
        """Make a validator that counts its runs."""

        def count(value: Any) -> Any:
            """Count, and change nothing."""
            ran.append(name)
            return value

        return count

    class Counted(BaseModel):
        """A model that counts."""

        when: dt.datetime
        made: list[str] = Field(default_factory=lambda: list(counting("factory")([])))

        def model_post_init(self, _: Any) -> None:
            """Run after all."""
            ran.append("init")

    after, before = AfterValidator(counting("after")), BeforeValidator(counting("before"))
    kind = tuple[Counted, Annotated[dt.date, after], Annotated[float, before]]
    made = judge(kind, [{"when": "2024-01-01T00:00:00Z"}, "2024-01-01", 1])
    assert made[1:] == (dt.date(2024, 1, 1), 1.0)
    assert sorted(ran) == ["after", "before", "factory", "init"]


def test_defaults_are_theirs() -> None:
    """A declared default stands for what was left out, whatever it is."""
    assert judge(create_model("M", a=(float, "x"), when=(dt.datetime | None, None)), {}).a == "x"


def test_extra_members_that_a_type_leaves_out() -> None:
    """With ``extra="schema"`` the type says what becomes of members it does not name."""
    tool = Tool.from_model(Inner, extra="schema")
    assert tool.parameters.check({"number": 1, "more": HUGE}) == ()
    assert tool.build({"number": 1, "more": HUGE}) == Inner(number=1)


@pytest.mark.parametrize(
    ("alias", "judged"),
    [
        (AliasChoices("x", "y"), {"x": HUGE}),
        (AliasChoices(AliasPath("deep", 0), "x"), {"x": HUGE}),
        (AliasPath("x"), {"x": HUGE}),
    ],
    ids=str,
)
def test_aliases(alias: Any, judged: JSON) -> None:
    """A member is held to the JSON it is made of, under whichever name that stands."""
    model: Any = create_model("M", number=(float, Field(validation_alias=alias)))
    built = instance_of(adapter_of(model, "it"), judged, at="", names={"x"})
    assert places(built) == [(CODE, "/x")]


def test_aliases_to_deeper_places_are_theirs() -> None:
    """What a path takes from inside of a member is not compared with the member."""
    model: Any = create_model(
        "M", number=(float, Field(validation_alias=AliasPath("x", 0))), when=(dt.date, dt.date(2024, 1, 1))
    )
    made = instance_of(adapter_of(model, "it"), {"x": [1, 2]}, at="", names=())
    assert not isinstance(made, Invalid)
    assert made.number == 1.0


def test_unions_by_a_function() -> None:
    """A discriminator of the user's own chooses; the value is still held to what it chose."""

    def told(value: Any) -> str:
        """Tell numbers from the rest."""
        return "number" if isinstance(value, int | float) else "text"

    kind = Annotated[
        Annotated[float, Tag("number")] | Annotated[str, Tag("text")],
        Discriminator(told),
    ]
    assert places(judge(kind, HUGE)) == [(CODE, "")]
    assert judge(kind, "a") == "a"


def test_issues_hold_none_of_the_models_words() -> None:
    """An issue names the place as the schema does; what the model wrote stands in ``found`` alone, capped."""
    outcome = judge(dict[str, Base64Bytes], {"secret words": "a secret" * 100})
    assert isinstance(outcome, Invalid)
    told = [issue for issue in outcome.issues if issue.code == CODE]
    assert told
    assert not any("secret" in part for issue in told for part in (issue.message, issue.hint, issue.path))
    assert all(len(issue.found) <= 120 for issue in told)


def test_at_most_32_issues() -> None:
    """A flood of differences is reported in part."""
    assert len(places(judge(list[float], [HUGE] * 1000))) == 32


class Left(typing_extensions.TypedDict):
    """One of two shapes of the same object."""

    a: Shape


Shape = typing_extensions.TypeAliasType("Shape", "dict[str, Shape] | Left | float")


def test_unions_in_unions_cost_no_more_than_their_places() -> None:
    """A recursive type of two shapes for the same object is compared once at each place, whatever is found there."""
    depth = 10
    judged: JSON = HUGE
    for _ in range(depth):
        judged = {"a": judged}
    fidelity = fidelity_of(adapter_of(Shape, "it"))
    assert fidelity.part is not None
    assert fidelity.probe is not None
    run = Comparison(Risk.NONE, Work())
    fidelity.part.compare(fidelity.probe.validate_json(json.dumps(judged)), judged, run)
    assert [steps for steps, _, _ in run.found] == [("a",) * depth]
    assert len(run.known) == depth + 1


# The law, over generated types.


class Spelled(typing.NamedTuple):
    """A type, JSON that spells its values canonically, and JSON near to that."""

    kind: Any
    good: st.SearchStrategy[Any]
    near: st.SearchStrategy[Any]


INTEGERS = st.integers(-(2**70), 2**70) | st.integers(-9, 9) | st.sampled_from([BEYOND, HUGE, -HUGE, 10**400])
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = INTEGERS | FLOATS | st.integers(-9, 9).map(float)
NUMBER_LIKE = [
    "",
    "1",
    "01",
    " 1",
    "1 ",
    "+1",
    "-0",
    "1.0",
    "1_0",
    "1e3",
    "1e999",
    "\u0663",
    "nan",
    "NaN",
    "sNaN",
    "inf",
]
OTHER_LIKE = ["true", "yes", "on", "null", "a", "A", "aGk=", "1700000000", "P1Y", "P1M", "PT1H", "PT60S", "PT1M"]
TIME_LIKE = ["2024-01-01", "10:00:00Z", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.1234567Z", "2024-01-01T00:00:00"]
INSTANTS = ["2024-01-01T00:00:00+00:00", "2024-01-01T01:00:00+01:00"]
WORDS = st.sampled_from([*NUMBER_LIKE, *OTHER_LIKE, *TIME_LIKE, *INSTANTS])
ANYTHING = NUMBERS | WORDS | st.booleans() | st.none()
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
ZONES = st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30))])
TIMES = st.datetimes(dt.datetime(1000, 1, 1), timezones=ZONES)  # noqa: DTZ001 - the zone is drawn beside it

LEAVES = [
    Spelled(bool, st.booleans(), ANYTHING),
    Spelled(int, INTEGERS, NUMBERS),
    Spelled(float, FLOATS, NUMBERS),
    Spelled(str, st.text(max_size=5) | WORDS, ANYTHING),
    Spelled(Decimal, DECIMALS.map(str), NUMBERS | WORDS),
    Spelled(Fraction, st.fractions().map(str), INTEGERS | WORDS),
    Spelled(dt.date, st.dates().map(str), WORDS),
    Spelled(dt.datetime, TIMES.map(dt.datetime.isoformat), WORDS),
    Spelled(dt.time, st.times(timezones=ZONES).map(dt.time.isoformat), WORDS),
    Spelled(dt.timedelta, st.integers(0, 10**9).map(lambda seconds: f"PT{seconds}S"), WORDS),
    Spelled(uuid.UUID, st.uuids().map(str), WORDS),
    Spelled(bytes, st.text(max_size=5), WORDS),
    Spelled(Level, st.sampled_from([1, 2]), NUMBERS),
    Spelled(Colour, st.sampled_from(["red", "blue"]), WORDS),
    Spelled(Mixed, st.sampled_from([1, "1", 0.5]), ANYTHING),
    Spelled(Literal["1", 1, "a"], st.sampled_from(["1", 1, "a"]), ANYTHING),
    Spelled(Literal[0, False] | None, st.sampled_from([0, False, None]), ANYTHING),
    Spelled(object, ANYTHING, ANYTHING),
]
KEYS = [
    Spelled(str, st.text(max_size=3) | WORDS, WORDS),
    Spelled(int, st.integers().map(str), WORDS),
    Spelled(float, FLOATS.map(json.dumps), WORDS),
    Spelled(bool, st.sampled_from(["true", "false"]), WORDS),
    *(leaf for leaf in LEAVES if leaf.kind in (Decimal, dt.date, dt.datetime, dt.timedelta, uuid.UUID, Colour)),
]
COUNT = iter(range(10**9))


def named(prefix: str) -> str:
    """Make a name that no other type has."""
    return f"{prefix}{next(COUNT)}"


def arrays(item: Spelled, kind: Any) -> Spelled:
    """Spell arrays of a kind; sets of what has no hash are left out by the caller."""
    return Spelled(kind[item.kind], st.lists(item.good, max_size=3), st.lists(item.near, max_size=3))


def objects(members: list[Spelled], make: Callable[[dict[str, Any]], Any]) -> Spelled:
    """Spell objects of named members."""
    names = [f"m{index}" for index in range(len(members))]
    kind = make({name: member.kind for name, member in zip(names, members, strict=True)})
    good = st.fixed_dictionaries({name: member.good for name, member in zip(names, members, strict=True)})
    near = st.fixed_dictionaries({name: member.near for name, member in zip(names, members, strict=True)})
    return Spelled(kind, good, near)


def a_model(members: dict[str, Any]) -> Any:
    """Make a pydantic model."""
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in members.items()}
    return create_model(named("Model"), **fields)


def a_dataclass(members: dict[str, Any]) -> Any:
    """Make a dataclass."""
    return dataclasses.make_dataclass(named("Data"), list(members.items()))


def a_typed_dict(members: dict[str, Any]) -> Any:
    """Make a TypedDict."""
    return typing_extensions.TypedDict(named("Typed"), members)  # type: ignore[operator]


def a_union(branches: list[Spelled], mode: Literal["smart", "left_to_right"]) -> Spelled:
    """Spell a union of types."""
    kind = functools.reduce(lambda one, other: typing.Union[one, other], [branch.kind for branch in branches])  # noqa: UP007
    good = st.one_of([branch.good for branch in branches])
    near = st.one_of([branch.near for branch in branches])
    branches_left = [one for one in typing.get_args(kind) if one is not type(None)]
    several = typing.get_origin(kind) is typing.Union and len(branches_left) > 1
    return Spelled(Annotated[kind, Field(union_mode=mode)] if several else kind, good, near)


def a_dict(key: Spelled, value: Spelled) -> Spelled:
    """Spell an object with keys of a type."""
    good = st.dictionaries(key.good, value.good, max_size=3)
    return Spelled(dict[key.kind, value.kind], good, st.dictionaries(key.near, value.near, max_size=3))  # type: ignore[name-defined]


def grown(inner: st.SearchStrategy[Spelled]) -> st.SearchStrategy[Spelled]:
    """Make larger types of smaller ones."""
    hashable = st.sampled_from(LEAVES)
    modes: st.SearchStrategy[Literal["smart", "left_to_right"]] = st.sampled_from(["smart", "left_to_right"])
    makers = st.sampled_from([a_model, a_dataclass, a_typed_dict])
    return st.one_of(
        st.builds(arrays, inner, st.sampled_from([list, collections.deque, Sequence])),
        st.builds(arrays, hashable, st.sampled_from([set, frozenset])),
        st.builds(a_dict, st.sampled_from(KEYS), inner),
        st.builds(objects, st.lists(inner, min_size=1, max_size=3), makers),
        st.builds(a_union, st.lists(inner, min_size=2, max_size=3), modes),
        inner.map(lambda one: Spelled(one.kind | None, one.good | st.none(), one.near | st.none())),
    )


TYPES = st.recursive(st.sampled_from(LEAVES), grown, max_leaves=5)

_DATETIME = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?)([zZ]|[+-]\d\d:\d\d)?", re.ASCII)
_DURATION = re.compile(r"P(?:(\d+)Y)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.ASCII)


def canonical(value: JSON) -> object:
    """Write JSON so that two spellings of a number, an instant, a duration or a UUID are equal, and nothing else is."""
    match value:
        case bool() | None:
            return str(value)
        case int() | float():
            return canonical_number(repr(value) if isinstance(value, float) else str(value))
        case str():
            return canonical_text(value)
        case list():
            return "array", frozenset(collections.Counter(map(canonical, value)).items())
        case _:
            return (
                "object",
                frozenset((canonical(name), canonical(member)) for name, member in value.items()),
                len(value),
            )


def canonical_number(text: str) -> object:
    """Write a number as its float does, where a float holds it exactly."""
    number = Decimal(text)
    nearest = float(number)
    exact = isfinite(nearest) and Decimal(nearest) == number
    return "number", Decimal(repr(nearest)) if exact else number


def canonical_text(text: str) -> object:
    """Write a text as what it spells."""
    if re.fullmatch(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", text, re.ASCII):
        return canonical_number(text)
    if found := re.fullmatch(r"([+-]?\d+)/(\d+)", text, re.ASCII):
        return "fraction", Fraction(*map(int, found.groups()))
    if (found := _DATETIME.fullmatch(text)) and not text[20:].strip("Z+-:0123456789"):
        whole, _, fine = found[1].upper().partition(".")
        return "datetime", whole, fine.rstrip("0"), (found[2] or "").upper().replace("Z", "+00:00")
    if re.fullmatch(r"\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", text, re.ASCII):
        return "time", text.replace("Z", "+00:00").replace("000", "0")
    if found := _DURATION.fullmatch(text):
        years, days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return "duration", dt.timedelta(days + 365 * years, seconds, 0, 0, minutes, hours)
    return "text", {"true": "True", "false": "False"}.get(text, text.lower() if len(text) == 36 else text)


def held(kind: Any, judged: JSON) -> None:
    """Assert the law: issues, or a value whose JSON is what was judged."""
    made = judge(kind, judged)
    if isinstance(made, Invalid):
        return
    dumped = json.loads(adapter_of(kind, "it").dump_json(made))
    assert canonical(dumped) == canonical(judged), (kind, judged, made)


LONG = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@LONG
@given(st.data())
def test_v3_law_typed_is_what_was_judged(data: st.DataObject) -> None:
    """Over generated types: typed values, dumped as JSON, equal the judged JSON, or there are issues."""
    spelled = data.draw(TYPES)
    held(spelled.kind, data.draw(spelled.near | spelled.good))


@LONG
@given(st.data())
def test_canonical_json_is_never_another_value(data: st.DataObject) -> None:
    """What is spelled as the type itself spells it is never said to be another value."""
    key = data.draw(st.none() | st.sampled_from(KEYS))
    leaf = data.draw(st.sampled_from(LEAVES))
    kind = dict[key.kind, leaf.kind] if key else leaf.kind | None  # type: ignore[name-defined]
    judged = data.draw(leaf.good)
    if leaf.kind is float:
        judged = float(judged)
    made = judge(kind, {data.draw(key.good): judged} if key else judged)
    assert not isinstance(made, Invalid) or CODE not in dict(places(made))


# Through every channel.


def total(amount: float, /, prices: dict[int, Decimal], *, due: dt.datetime | None = None) -> str:
    """Sum up."""
    return f"{amount} {prices} {due}"


GOOD: dict[str, Any] = {"amount": 1, "prices": {"1": "1.50"}, "due": "2024-01-02T03:04:05Z"}
BAD: dict[str, Any] = GOOD | {"amount": HUGE, "prices": {"1": "1_0"}}
BAD_PLACES = [(CODE, "/amount"), (CODE, "/prices/*")]


def test_v3_native_calls() -> None:
    """A call whose arguments would change is refused at each member, by its place in the message."""
    contract = Contract(tools=[total])
    verdict = contract.check(completion(message(None, [call("total", BAD)])))
    at = "/tool_calls/0/function/arguments"
    assert places(verdict) == [(code, at + path) for code, path in BAD_PLACES]
    assert isinstance(contract.check(completion(message(None, [call("total", GOOD)]))), Valid)


def test_v3_text_channel() -> None:
    """The text channel holds its calls to the same."""
    contract = Contract(tools=[total], channel="text")
    verdict = contract.check(completion(message(json.dumps({"tool": "total", "args": BAD}))))
    assert places(verdict) == [(code, "/args" + path) for code, path in BAD_PLACES]


@pytest.mark.parametrize("style", ["union", "tool"])
@pytest.mark.parametrize("channel", ["native", "text"])
def test_v3_answers(channel: Literal["native", "text"], style: Literal["union", "tool"]) -> None:
    """A structured answer is what was judged, in each channel and style."""
    contract = Contract(tools=[total] if style == "tool" else [], answer=Inner, channel=channel, answer_style=style)

    def said(number: int) -> Any:
        """Answer."""
        answer = {"number": number}
        if channel == "text":
            inner = {"answer": answer} if style == "union" else {"tool": "final_answer", "args": {"answer": answer}}
            return completion(message(json.dumps(inner)))
        if style == "tool":
            return completion(message(None, [call("final_answer", {"answer": answer})]))
        return completion(message(json.dumps(answer)))

    (found,) = places(contract.check(said(HUGE)))
    assert found[0] == f"answer.{NOT_REPRESENTABLE}"
    assert found[1].endswith("/number")
    accepted = contract.check(said(2))
    assert isinstance(accepted, Valid)
    assert accepted.reply == DirectAnswer(Inner(number=2.0))


def test_v3_run() -> None:
    """The function of a tool loop gets exactly what was judged, after a correction of what it could not have got."""
    got: list[tuple[object, ...]] = []

    def keep(amount: float, prices: dict[int, Decimal], due: dt.datetime) -> str:
        """Keep."""
        got.append((amount, prices, due))
        return "kept"

    script = [
        completion(message(None, [call("keep", BAD)])),
        completion(message(None, [call("keep", GOOD)])),
        completion(message("done")),
    ]
    due = dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    wanted = (1.0, {1: Decimal("1.50")}, due)
    sr.run(sr.wrap(Client(*script), tools=[keep]), "keep it", model="m")
    asyncio.run(sr.arun(sr.wrap(AsyncClient(*script), tools=[keep]), "keep it", model="m"))
    assert got == [wanted, wanted]


# What making typed values may cost (V2).


class Twig(BaseModel):
    """One shape of a branch."""

    below: list[Twig | Bough] = []


class Bough(BaseModel):
    """Another shape of it, which JSON does not tell apart."""

    below: list[Twig | Bough] = []
    weight: float = 0


class Tagged(BaseModel):
    """A shape that says which it is."""

    kind: Literal["tagged"]
    below: Annotated[Tagged | Marked, Discriminator("kind")] | None = None


class Marked(BaseModel):
    """Another one."""

    kind: Literal["marked"]
    below: Annotated[Tagged | Marked, Discriminator("kind")] | None = None
    weight: float = 0


def nested(depth: int) -> JSON:
    """Nest a branch that fits both shapes."""
    judged: JSON = {"weight": 1.5}
    for _ in range(depth):
        judged = {"below": [judged]}
    return judged


def tool_taking(kind: Any) -> Tool:
    """Declare a tool whose one argument is of a type."""
    return Tool.from_model(create_model("taking", it=(kind, ...)))


def calls_of(tool: Tool, judged: JSON, count: int = 1) -> dict[str, Any]:
    """Write as many equal calls of a tool."""
    function = {"name": tool.name, "arguments": json.dumps({"it": judged})}
    calls = [{"id": f"c{index}", "type": "function", "function": function} for index in range(count)]
    return {"role": "assistant", "content": None, "tool_calls": calls}


@pytest.mark.parametrize("channel", ["native", "text"])
def test_v2_branches_that_multiply_with_depth_are_not_built(channel: Literal["native", "text"]) -> None:
    """What pydantic would try 2**28 times is refused before it is tried: a little of it is accepted."""
    tool = tool_taking(Twig | Bough)
    contract = Contract(tools=[tool], answer=Twig | Bough, channel=channel)
    for depth, code in ((8, None), (28, "too_complex")):
        args = {"tool": tool.name, "args": {"it": nested(depth)}}
        reply = json.dumps(args) if channel == "text" else calls_of(tool, nested(depth))
        answer = {"answer": nested(depth)} if channel == "text" else nested(depth)
        for verdict, place in (
            (contract.check(reply), "args"),
            (contract.check({"role": "assistant", "content": json.dumps(answer)}), "answer"),
        ):
            found = [issue.code for issue in verdict.issues] if isinstance(verdict, Invalid) else []
            assert found == ([f"{place}.{code}"] if code else [])


def test_v2_discriminators_do_not_multiply() -> None:
    """A union whose tag names its branch is built at any depth within the caps."""
    judged: JSON = {"kind": "marked", "weight": 1.5}
    for index in range(55):
        judged = {"kind": ("tagged", "marked")[index % 2], "below": judged}
    tool = tool_taking(Annotated[Tagged | Marked, Discriminator("kind")])
    assert isinstance(Contract(tools=[tool]).check(calls_of(tool, judged)), Valid)


def test_v2_the_calls_of_a_message_share_what_building_may_take() -> None:
    """What one call may take is not there a hundred times for a hundred calls."""
    tool = tool_taking(Twig | Bough)
    contract = Contract(tools=[tool], parallel=True)
    assert isinstance(contract.check(calls_of(tool, nested(11))), Valid)
    verdict = contract.check(calls_of(tool, nested(11), 100))
    assert isinstance(verdict, Invalid)
    assert {issue.code for issue in verdict.issues} == {"args.too_complex"}


@pytest.mark.parametrize(
    ("kind", "item", "few", "many"),
    [
        (Json[int], "1", 1_000, 60_000),
        (Decimal | dt.date | uuid.UUID | float, 1.5, 1_000, 99_000),
    ],
)
def test_v2_comparing_is_part_of_the_work(kind: Any, item: JSON, few: int, many: int) -> None:
    """What is made of a reply is compared with it within the reply's work, or the reply is refused."""
    fidelity = fidelity_of(adapter_of(list[kind], "it"))
    work = Work()
    for count, codes in ((few, []), (many, ["args.too_complex"])):
        judged: JSON = [item] * count
        text = json.dumps(judged).encode()
        found = fidelity.issues(judged, text, at="", names=(), place="args", work=work)
        assert [issue.code for issue in found] == codes
        assert 0 < work.taken <= work.limit


def test_v2_texts_that_hold_bad_json_are_read_until_enough_is_found() -> None:
    """After as many faults as are reported no further text is read."""
    work = Work()
    judged: JSON = ['{"a":1,"a":1}'] * 10_000
    fidelity = fidelity_of(adapter_of(list[Json[Any]], "it"))
    found = fidelity.issues(judged, json.dumps(judged).encode(), at="", names=(), place="args", work=work)
    assert {issue.code for issue in found} == {f"args.{NOT_REPRESENTABLE}"}
    assert work.taken < work.limit // 50


def test_v2_wide_unions_of_models_are_built_within_the_work() -> None:
    """Some hundred objects under twenty shapes are built; very many are refused before."""
    kinds = [create_model(f"Kind{index}", **{f"k{index}": (float | None, None)}) for index in range(20)]  # type: ignore[call-overload]
    either: Any = functools.reduce(operator.or_, kinds)
    tool = tool_taking(list[either])
    contract = Contract(tools=[tool])
    assert isinstance(contract.check(calls_of(tool, [{"k19": 1.5}] * 500)), Valid)
    verdict = contract.check(calls_of(tool, [{}] * 30_000))
    assert isinstance(verdict, Invalid)
    assert [issue.code for issue in verdict.issues] == ["args.too_complex"]
