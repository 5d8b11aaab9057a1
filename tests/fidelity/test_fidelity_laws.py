"""The law of ``strictreply.contract._fidelity`` over generated types (V3).

Typed values say what was judged.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import functools
import json
import re
import typing
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import Annotated, Any, Literal

import typing_extensions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter, create_model

from strictreply import Invalid
from strictreply.core import JSON
from support.fidelity.typed_samples import BEYOND, CODE, HUGE, Colour, Level, Mixed, judge, places


class Spelled(typing.NamedTuple):
    """A type, JSON that spells its values canonically, and JSON near to that."""

    kind: Any
    good: st.SearchStrategy[Any]
    near: st.SearchStrategy[Any]


INTEGERS = (
    st.integers(-(2**70), 2**70)
    | st.integers(-9, 9)
    | st.sampled_from([BEYOND, HUGE, -HUGE, 10**400])
)
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
OTHER_LIKE = [
    "true",
    "yes",
    "on",
    "null",
    "a",
    "A",
    "aGk=",
    "1700000000",
    "P1Y",
    "P1M",
    "PT1H",
    "PT60S",
    "PT1M",
]
TIME_LIKE = [
    "2024-01-01",
    "10:00:00Z",
    "2024-01-01T00:00:00Z",
    "2024-01-01T00:00:00.1234567Z",
    "2024-01-01T00:00:00",
]
INSTANTS = ["2024-01-01T00:00:00+00:00", "2024-01-01T01:00:00+01:00"]
WORDS = st.sampled_from([*NUMBER_LIKE, *OTHER_LIKE, *TIME_LIKE, *INSTANTS])
ANYTHING = NUMBERS | WORDS | st.booleans() | st.none()
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
ZONES = st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30))])
# The zone is drawn beside the time.
TIMES = st.datetimes(dt.datetime(1000, 1, 1), timezones=ZONES)  # noqa: DTZ001
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
    *(
        leaf
        for leaf in LEAVES
        if leaf.kind in (Decimal, dt.date, dt.datetime, dt.timedelta, uuid.UUID, Colour)
    ),
]
COUNT = iter(range(10**9))


def named(prefix: str) -> str:
    """Make a name that no other type has."""
    return f"{prefix}{next(COUNT)}"


def arrays(item: Spelled, kind: Any) -> Spelled:
    """Draw arrays of a kind; the caller leaves out sets of unhashable values."""
    return Spelled(
        kind[item.kind], st.lists(item.good, max_size=3), st.lists(item.near, max_size=3)
    )


def objects(members: list[Spelled], make: Callable[[dict[str, Any]], Any]) -> Spelled:
    """Draw objects of named members."""
    names = [f"m{index}" for index in range(len(members))]
    kind = make({name: member.kind for name, member in zip(names, members, strict=True)})
    good = st.fixed_dictionaries(
        {name: member.good for name, member in zip(names, members, strict=True)}
    )
    near = st.fixed_dictionaries(
        {name: member.near for name, member in zip(names, members, strict=True)}
    )

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
    """Draw a union of types."""
    kinds = [branch.kind for branch in branches]
    kind = functools.reduce(lambda one, other: typing.Union[one, other], kinds)  # noqa: UP007
    good = st.one_of([branch.good for branch in branches])
    near = st.one_of([branch.near for branch in branches])
    branches_left = [one for one in typing.get_args(kind) if one is not type(None)]
    several = typing.get_origin(kind) is typing.Union and len(branches_left) > 1
    return Spelled(Annotated[kind, Field(union_mode=mode)] if several else kind, good, near)


def a_dict(key: Spelled, value: Spelled) -> Spelled:
    """Draw an object with keys of a type."""
    good = st.dictionaries(key.good, value.good, max_size=3)
    near = st.dictionaries(key.near, value.near, max_size=3)
    return Spelled(dict[key.kind, value.kind], good, near)  # type: ignore[name-defined]


def grown(inner: st.SearchStrategy[Spelled]) -> st.SearchStrategy[Spelled]:
    """Make larger types of smaller ones."""
    hashable = st.sampled_from(LEAVES)
    modes: st.SearchStrategy[Literal["smart", "left_to_right"]] = st.sampled_from(
        ["smart", "left_to_right"]
    )
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
_DATETIME = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?)([zZ]|[+-]\d\d:\d\d)?", re.ASCII
)
_DURATION = re.compile(r"P(?:(\d+)Y)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.ASCII)


def canonical(value: JSON) -> object:
    """Write JSON so that two spellings of the same value are equal.

    That goes for numbers, instants, durations and UUIDs, and for nothing else.
    """
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

    return "text", {"true": "True", "false": "False"}.get(
        text, text.lower() if len(text) == 36 else text
    )


def held(kind: Any, judged: JSON) -> None:
    """Assert the law: issues, or a value whose JSON is what was judged."""
    made = judge(kind, judged)
    if isinstance(made, Invalid):
        return
    dumped = json.loads(TypeAdapter(kind).dump_json(made))
    assert canonical(dumped) == canonical(judged), (kind, judged, made)


LONG = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@LONG
@given(st.data())
def test_v3_law_typed_is_what_was_judged(data: st.DataObject) -> None:
    """Over generated types: typed values, dumped as JSON, equal the judged JSON, or there are
    issues.
    """
    spelled = data.draw(TYPES)
    held(spelled.kind, data.draw(spelled.near | spelled.good))


@LONG
@given(st.data())
def test_canonical_json_is_never_another_value(data: st.DataObject) -> None:
    """JSON spelled as the type itself spells it is never reported as another value."""
    key = data.draw(st.none() | st.sampled_from(KEYS))
    leaf = data.draw(st.sampled_from(LEAVES))
    kind = dict[key.kind, leaf.kind] if key else leaf.kind | None  # type: ignore[name-defined]
    judged = data.draw(leaf.good)
    if leaf.kind is float:
        judged = float(judged)
    made = judge(kind, {data.draw(key.good): judged} if key else judged)
    assert not isinstance(made, Invalid) or CODE not in dict(places(made))
