"""The law over generated types: each member of the judged JSON is taken, and nothing else is there.

Types are made of types, with few names, so that branches of unions overlap; what is built is seen
by an oracle that knows nothing of core schemas.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import ipaddress
import json
import pathlib
import typing
import uuid
import warnings
from decimal import Decimal
from typing import Annotated, Any, Literal

import pydantic
import typing_extensions
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    AnyUrl,
    Base64Str,
    ByteSize,
    ConfigDict,
    Json,
    StringConstraints,
    create_model,
)
from pydantic.errors import PydanticUserError

import strictreply as sr
from support.fidelity.held_values import holds
from support.fidelity.typed_samples import BEYOND, HUGE, Colour, Level

NAMES = ["a", "b", "c"]
# types that are made when the test runs
named_tuple: Any = typing.NamedTuple
typed_dict: Any = typing_extensions.TypedDict
Field: Any = pydantic.Field
COUNT = iter(range(10**9))
TEXTS = [
    "a",
    "A",
    "1",
    "1.5",
    "12",
    "nan",
    "true",
    "a/b",
    "a//b",
    "::1",
    "0:0:0:0:0:0:0:1",
    "1.2.3.4",
    "1.2.3.4/32",
    "http://A.b/",
    "http://a.b",
    "aGk=",
    "1KB",
    "1000",
    "1e999j",
    "2j",
    "2024-01-01",
    "2024-01-01T00:00:00Z",
    "12345678-1234-5678-1234-567812345678",
    "12345678123456781234567812345678",
    "red",
    '{"a":1}',
    '{"a":"1"}',
    '{"a":1,"d":2}',
    "[1]",
    '["1"]',
]
NUMBERS = [0, 1, 2, 1.0, 1.5, HUGE, BEYOND]


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def refuse_two(number: int) -> int:
    """Refuse one number, as a user's check."""
    assert number != 2
    return number


class Made(typing.NamedTuple):
    """A type, and JSON that is near to it."""

    kind: Any
    near: st.SearchStrategy[Any]


SCALARS = st.sampled_from(TEXTS) | st.sampled_from(NUMBERS) | st.booleans() | st.none()
LEAVES = [
    Made(int, st.sampled_from(NUMBERS) | SCALARS),
    Made(float, st.sampled_from(NUMBERS) | SCALARS),
    Made(bool, st.booleans() | SCALARS),
    *(
        Made(kind, st.sampled_from(TEXTS))
        for kind in (
            str,
            bytes,
            Decimal,
            dt.date,
            dt.datetime,
            uuid.UUID,
            pathlib.Path,
            pathlib.PurePosixPath,
            ipaddress.IPv4Address,
            ipaddress.IPv6Address,
            ipaddress.IPv4Network,
            ipaddress.IPv6Interface,
            AnyUrl,
            Base64Str,
            ByteSize,
            complex,
            Colour,
        )
    ),
    Made(Level, st.sampled_from(NUMBERS)),
    Made(Annotated[int, AfterValidator(refuse_two)], st.sampled_from(NUMBERS)),
    Made(Annotated[str, StringConstraints(max_length=3)], st.sampled_from(TEXTS)),
    Made(Literal["a", 1], SCALARS),
    Made(Any, SCALARS | st.dictionaries(st.sampled_from(NAMES), SCALARS, max_size=2)),
]
KEYS = [
    one.kind
    for one in LEAVES
    if one.kind not in (bool, Any, bytes, Base64Str, Literal["a", 1], complex)
]


def of(generic: Any, *kinds: Any) -> Any:
    """Return a type of types that are known when the test runs."""
    return generic[kinds] if kinds[1:] else generic[kinds[0]]


def a_name(prefix: str) -> str:
    """Make a name that no other type has."""
    return f"{prefix}{next(COUNT)}"


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Made]) -> Made:
    """Draw a model, a dataclass or a TypedDict, with every kind of alias and of extra members."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    members = {name: draw(inner) for name in names}
    values = {name: one.near for name, one in members.items()}
    extra: Any = draw(st.sampled_from(["ignore", "ignore", "allow", "forbid"]))
    needed = draw(st.booleans())
    kind: Any

    match draw(st.sampled_from(["model", "model", "dataclass", "typed"])):
        case "model":
            fields: dict[str, Any] = {}
            for name, one in members.items():
                alias = draw(
                    st.sampled_from(
                        [None] * 4
                        + [name.upper(), AliasChoices(name.upper(), "d"), AliasPath("d", "x")]
                    )
                )
                how: Any = {"default": None}
                if needed and not isinstance(alias, AliasPath):
                    how = {}
                if alias is not None:
                    values[name.upper()] = one.near
                    values["d"] = st.fixed_dictionaries({"x": one.near}, optional={"y": SCALARS})
                fields[name] = (one.kind, Field(validation_alias=alias, **how))

            config = ConfigDict(extra=extra, populate_by_name=draw(st.booleans()))
            if draw(st.integers(0, 4)) == 0:
                config["json_schema_extra"] = {"additionalProperties": True}

            config["frozen"] = draw(st.booleans())
            base = create_model(a_name("Base"), __config__=config)
            try:
                kind = create_model(a_name("Model"), __base__=base, **fields)
            except PydanticUserError:  # one of its dataclasses may not keep other members
                reject()
        case "dataclass":
            rows: list[Any] = []
            for name, one in members.items():
                init = draw(st.booleans())
                rows.append((name, one.kind, dataclasses.field(default=None, init=init)))
            kind = dataclasses.make_dataclass(a_name("Data"), rows)
        case _:
            total = needed
            made: Any = typed_dict(
                a_name("Typed"), {name: one.kind for name, one in members.items()}, total=total
            )
            made.__pydantic_config__ = ConfigDict(extra=extra)
            kind = made

    others = {name: SCALARS for name in (*NAMES, "d") if name not in values}
    required = {name: near for name, near in values.items() if name in names and needed}
    optional = {name: near for name, near in (values | others).items() if name not in required}
    return Made(kind, st.fixed_dictionaries(required, optional=optional))


@st.composite
def dictionaries(draw: st.DrawFn, inner: st.SearchStrategy[Made]) -> Made:
    """Draw an object with keys of a type."""
    value = draw(inner)
    key = draw(st.sampled_from([str, str, *KEYS]))
    names = st.sampled_from(NAMES) if key is str else st.sampled_from(TEXTS)
    return Made(of(dict, key, value.kind), st.dictionaries(names, value.near, max_size=3))


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[Made]) -> Made:
    """Draw a list, a tuple, a set or a named tuple."""
    one = draw(inner)
    rows = st.lists(one.near, max_size=3)
    match draw(st.sampled_from(["list", "tuple", "set", "named"])):
        case "list":
            return Made(of(list, one.kind), rows)
        case "tuple":
            return Made(of(tuple, one.kind, ...), rows)
        case "set":
            leaf = draw(st.sampled_from([one for one in LEAVES if one.kind is not Any]))
            return Made(of(set, leaf.kind), st.lists(leaf.near, max_size=3))
        case _:
            named: Any = named_tuple(a_name("Named"), [("a", one.kind), ("b", one.kind)])
            named.__new__.__defaults__ = draw(st.sampled_from([(), (None,)]))
            named._field_defaults = {"b": None} if named.__new__.__defaults__ else {}
            pair = st.lists(one.near, min_size=1, max_size=2)
            return Made(named, pair | st.fixed_dictionaries({"a": one.near, "b": one.near}))


@st.composite
def unions(draw: st.DrawFn, inner: st.SearchStrategy[Made]) -> Made:
    """Draw a union, smart or from left to right."""
    branches = draw(st.lists(inner, min_size=2, max_size=3))
    kind: Any = typing.Union[tuple(one.kind for one in branches)]  # noqa: UP007
    near = st.one_of([one.near for one in branches])
    if typing.get_origin(kind) is typing.Union and draw(st.booleans()):
        kind = Annotated[kind, Field(union_mode="left_to_right")]
    return Made(kind, near)


@st.composite
def texts(draw: st.DrawFn, inner: st.SearchStrategy[Made]) -> Made:
    """Draw a text that holds an object or an array."""
    one = draw(objects(inner) | dictionaries(inner) | arrays(inner))
    return Made(of(Json, one.kind), one.near.map(json.dumps) | st.sampled_from(TEXTS))


TYPES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        objects(inner)
        | dictionaries(inner)
        | arrays(inner)
        | unions(inner)
        | texts(inner)
        | unions(objects(inner) | dictionaries(inner))
    ),
    max_leaves=5,
)


def built(kind: Any, judged: Any) -> Any:
    """Return the typed argument of a call, Invalid, or None for a type that cannot be declared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tool = sr.Tool.from_model(create_model("It", it=(kind, ...)))
        except (sr.ContractError, PydanticUserError):
            return None

        contract = sr.Contract(tools=[tool])
    function = {"name": "It", "arguments": json.dumps({"it": judged})}
    calls = [{"id": "c", "type": "function", "function": function}]
    verdict = contract.check({"role": "assistant", "content": None, "tool_calls": calls})
    return verdict.reply.calls[0].args.it if isinstance(verdict, sr.Valid) else verdict


@settings(max_examples=300, deadline=None, suppress_health_check=SLOW)
@given(st.data())
def test_v1_every_member_is_taken_and_nothing_else_is_there(data: st.DataObject) -> None:
    """Over generated types: a built value holds all of its JSON, or there is an issue."""
    made = data.draw(TYPES)
    judged = data.draw(made.near)
    value = built(made.kind, judged)
    if value is not None and not isinstance(value, sr.Invalid):
        assert holds(value, judged), (made.kind, judged, value)
