"""The faults of a schema and a class's own rules come in one correction."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    Field,
    create_model,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

import strictreply as sr
from strictreply import Contract, Invalid
from support.scripted import call

Price = Annotated[Decimal, Field(max_digits=4, decimal_places=2)]
seen: list[str] = []


def even(value: int) -> int:
    """Refuse odd numbers, by a rule that no schema holds."""
    if value % 2:
        message = "must be even"
        raise ValueError(message)
    return value


class Line(BaseModel):
    """One line of an order."""

    count: int
    price: Price


class Order(BaseModel):
    """An order with rules of its own."""

    number: Annotated[int, AfterValidator(even)]
    total: Price
    due: dt.date
    code: str
    beside: str = ""
    lines: list[Line] = []

    @field_validator("code")
    @classmethod
    def code_is_short(cls, value: str) -> str:
        """Refuse long codes."""
        if len(value) > 3:
            message = "must be short"
            raise ValueError(message)
        return value

    @field_validator("beside")
    @classmethod
    def reads_others(cls, value: str, info: Any) -> str:
        """Read another member, which is not there where that is faulty."""
        seen.append(info.data["code"])
        return value

    @model_validator(mode="before")
    @classmethod
    def sees_all(cls, value: Any) -> Any:
        """See the whole object."""
        seen.append("whole")
        return value


@dataclass
class Parcel:
    """The same as a dataclass."""

    number: Annotated[int, AfterValidator(even)]
    total: Price


class Label(TypedDict):
    """The same as a typed dict."""

    number: Annotated[int, AfterValidator(even)]
    total: Price


GOOD: dict[str, Any] = {
    "number": 2,
    "total": "1.50",
    "due": "2025-01-31",
    "code": "abc",
    "lines": [{"count": 1, "price": "1.50"}] * 3,
}
BROKEN: dict[str, tuple[Any, Any]] = {
    "number": ("2", 3),
    "total": (True, "123.456"),
    "code": (1, "abcd"),
}
"""For each member a value that its schema refuses, and one that only its own rule refuses."""


def issues_of(kind: Any, value: Any) -> list[tuple[str, str]]:
    """Return the codes and places of an answer."""
    verdict = Contract(answer=kind).check({"role": "assistant", "content": json.dumps(value)})
    assert isinstance(verdict, Invalid)
    return [(issue.code, issue.path.removeprefix("/content")) for issue in verdict.issues]


@given(st.fixed_dictionaries({name: st.sampled_from(["schema", "rule", ""]) for name in BROKEN}))
def test_each_faulty_member_is_named_whatever_refuses_it(how: dict[str, str]) -> None:
    """Every member that its schema or its own rule refuses has an issue at its place, and no other
    has.
    """
    which = {"schema": 0, "rule": 1}
    changed = {name: BROKEN[name][which[kind]] for name, kind in how.items() if kind}
    value = GOOD | changed
    verdict = Contract(answer=Order).check({"role": "assistant", "content": json.dumps(value)})
    issues = verdict.issues if isinstance(verdict, Invalid) else ()
    assert {issue.path for issue in issues} == {f"/content/{name}" for name in changed}


def test_parts_of_faulty_parts_are_held_to_their_rules() -> None:
    """Items and members beside a fault are held to their own rules at any depth."""
    lines = [
        {"count": 1, "price": "1.234"},
        {"count": "x", "price": "5.678"},
        {"count": 2, "price": "1.50"},
    ]
    assert issues_of(Order, GOOD | {"lines": lines}) == [
        ("answer.type", "/lines/1/count"),
        ("answer.check", "/lines/0/price"),
        ("answer.check", "/lines/1/price"),
    ]


@pytest.mark.parametrize("kind", [Parcel, Label])
def test_every_kind_of_object_has_its_rules_told(kind: Any) -> None:
    """Dataclasses and typed dicts are as models."""
    found = issues_of(kind, {"number": 3, "total": True})
    assert [path for _, path in found] == ["/total", "/number"]
    assert found[1][0] == "answer.check"


def test_arguments_are_as_answers() -> None:
    """The arguments of a function have both told, too."""

    @sr.tool
    def pay(number: Annotated[int, AfterValidator(even)], text: str) -> str:
        """Pay."""
        return f"{number}{text}"

    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [call("pay", {"number": 3, "text": 1})],
    }
    verdict = Contract(tools=[pay]).check(message)
    assert isinstance(verdict, Invalid)
    at = "/tool_calls/0/function/arguments"
    assert [(issue.code, issue.path) for issue in verdict.issues] == [
        ("args.type", f"{at}/text"),
        ("args.check", f"{at}/number"),
    ]


def test_rules_of_the_whole_and_of_other_members_do_not_run() -> None:
    """No rule sees a value beside a faulty one: it would see what will not come."""
    seen.clear()
    assert issues_of(Order, GOOD | {"number": "2", "beside": "x"}) == [("answer.type", "/number")]
    assert seen == []


class Even(BaseModel):
    """One branch of a union."""

    n: Annotated[int, AfterValidator(even)]


class Pair(Even):
    """Another one, which needs more."""

    m: Annotated[int, AfterValidator(even)]


class Unions(BaseModel):
    """Unions whose branches JSON tells apart."""

    count: int = 1
    one: Even | Pair | None = None
    several: list[Even | list[Pair]] = []


@pytest.mark.parametrize("beside", [{}, {"count": "x"}])
@pytest.mark.parametrize(
    ("value", "places"),
    [
        ({"one": {"n": 3}}, ["/one/n"]),
        ({"several": [{"n": 3}]}, ["/several/0/n"]),
        ({"several": [[{"n": 2, "m": 3}], {"n": 2}]}, ["/several/0/0/m"]),
        ({"several": [{"n": 3}, [{"n": 3, "m": 2}]]}, ["/several/0/n", "/several/1/0/n"]),
    ],
)
def test_only_the_branch_that_the_schema_admits_is_told(
    value: dict[str, Any], places: list[str], beside: dict[str, Any]
) -> None:
    """What another branch of a union would need contradicts what the one that was meant needs."""
    found = issues_of(Unions, value | beside)
    assert [path for code, path in found if code == "answer.check"] == places


class Sent(BaseModel):
    """One form of a parcel, which its tag tells."""

    kind: Literal["sent"]
    number: Annotated[int, AfterValidator(even)]
    on: dt.date


class Kept(BaseModel):
    """Another one, with a rule of its own for the same member."""

    kind: Literal["kept"]
    number: int
    on: dt.date


class Tagged(BaseModel):
    """Parts of every kind that has a place of its own."""

    parcel: Annotated[Sent | Kept, Field(discriminator="kind")] | None = None
    numbers: set[Annotated[int, AfterValidator(even)]] = set()
    count: Annotated[int, AfterValidator(even)] = Field(2, validation_alias=AliasChoices("a", "b"))
    other: int = 0


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ({"parcel": {"kind": "sent", "number": 3, "on": "x"}}, ["/parcel/on", "/parcel/number"]),
        ({"parcel": {"kind": "kept", "number": 3, "on": "x"}}, ["/parcel/on"]),
        ({"numbers": ["x", 3, 2]}, ["/numbers/0", "/numbers/1"]),
        ({"a": 3, "other": "x"}, ["/other", "/a"]),
    ],
)
def test_every_part_with_a_place_is_held_to_its_rules(
    value: dict[str, Any], places: list[str]
) -> None:
    """The form that a tag names, the items of sets and members with other names are no less."""
    assert [path for _, path in issues_of(Tagged, value)] == places


EvenNumber = Annotated[int, AfterValidator(even)]


def short(name: str) -> str:
    """Refuse long names, by a rule that no schema holds."""
    if len(name) > 2:
        message = "must be short"
        raise ValueError(message)
    return name


class Parts(BaseModel):
    """Parts with rules of their own in containers of each kind."""

    pair: tuple[EvenNumber, str] = (2, "")
    row: tuple[EvenNumber, ...] = ()
    many: Sequence[EvenNumber] = ()
    each: Iterable[EvenNumber] = ()
    by_name: dict[str, EvenNumber] = {}
    mapped: Mapping[Annotated[str, AfterValidator(short)], int] = {}
    wrong: int = 0


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"pair": [1, "x"]}, "/pair/0"),
        ({"row": [2, 2, 3]}, "/row/2"),
        ({"many": [2, 3]}, "/many/1"),
        ({"each": [5]}, "/each/0"),
        ({"by_name": {"a": 2, "b": 3}}, "/by_name/*"),
        ({"mapped": {"long": 1}}, "/mapped"),
        ({"pair": [1, 5]}, "/pair/0"),
        ({"many": [3, "x"]}, "/many/0"),
        ({"mapped": {"long": 1, "b": "x"}}, "/mapped"),
    ],
)
def test_the_parts_of_containers_are_held_to_their_own_rules(given: Any, path: str) -> None:
    """A rule of an item, a value or a key is told with the faults of the schema beside it."""
    tool = sr.Tool.from_model(Parts)
    arguments = {**given, "wrong": "x"}
    message = {"role": "assistant", "content": None, "tool_calls": [call("Parts", arguments)]}
    verdict = Contract(tools=[tool]).check(message)
    assert isinstance(verdict, Invalid)
    at = "/tool_calls/0/function/arguments"
    codes = {(issue.code, issue.path.removeprefix(at)) for issue in verdict.issues}
    assert ("args.type", "/wrong") in codes
    assert any(code == "args.check" and place.startswith(path) for code, place in codes), codes


def same(value: Any) -> Any:
    """Keep a value."""
    return value


class Linked(BaseModel):
    """An entry that has others of its kind wherever a type can have them."""

    number: Annotated[int, AfterValidator(even)]
    wrong: int = 0
    following: Linked | None = None
    before: Annotated[Linked | None, AfterValidator(same)] = None
    among: list[Linked] = []
    named: dict[str, Linked] = {}
    pair: tuple[Linked, ...] = ()


@pytest.mark.parametrize(
    ("inside", "path"),
    [
        ({}, ""),
        ({"following": ...}, "/following"),
        ({"before": ...}, "/before"),
        ({"among": [...]}, "/among/0"),
        ({"named": {"a": ...}}, "/named/*"),
        ({"pair": [...]}, "/pair/0"),
    ],
)
@pytest.mark.parametrize("depth", [1, 3])
def test_types_that_hold_themselves_have_their_rules_told(
    inside: dict[str, Any], path: str, depth: int
) -> None:
    """A rule of a type that holds itself, optional or not, is told at each depth."""
    value = json.dumps({"number": 3, "wrong": "x"})
    around = json.dumps({"number": 2, **inside}, default=lambda _: "HERE")
    for _ in range(depth if inside else 0):
        value = around.replace('"HERE"', value)

    issues = issues_of(Linked, json.loads(value))
    place = path * depth
    assert set(issues) == {("answer.type", f"{place}/wrong"), ("answer.check", f"{place}/number")}


def test_the_rules_of_wide_types_are_read_in_time() -> None:
    """The first faulty reply to a type of 200 others takes little time, with its rules told."""
    kind: Any = Annotated[int, AfterValidator(even)]
    fields: dict[str, Any] = {f"f{index}": (kind, 2) for index in range(10)}
    others: dict[str, Any] = {
        f"m{index}": (create_model(f"M{index}", **fields), ...) for index in range(200)
    }
    again: Any = ("list[Wide]", [])  # puts the whole type among its own definitions
    wide: Any = create_model("Wide", **others, again=again, wrong=(int, 0))
    contract: Contract[Any] = Contract(answer=wide)
    value = {"wrong": "x"} | {name: {"f1": 3} for name in others}

    began = time.process_time()
    verdict = contract.check({"role": "assistant", "content": json.dumps(value)})
    spent = time.process_time() - began
    assert isinstance(verdict, Invalid)
    assert {issue.code for issue in verdict.issues} == {"answer.type", "answer.check"}
    assert spent < 0.7
