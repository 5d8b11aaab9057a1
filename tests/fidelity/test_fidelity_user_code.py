"""Fidelity and a user's own code: what it changes is the user's, and it runs once (V3)."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
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

from strictreply import Invalid, Tool
from strictreply.contract._models import instance_of
from strictreply.core import JSON
from support.fidelity.typed_samples import CODE, HUGE, Inner, judge, places


class Own:
    """A type that reads itself."""

    def __init__(self, text: str) -> None:
        """Store a text."""
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
        (
            Annotated[str, StringConstraints(to_lower=True, strip_whitespace=True)],
            " A ",
            lambda made: made == "a",
        ),
        (
            set[Annotated[str, StringConstraints(to_lower=True)]],
            ["A", "b"],
            lambda made: made == {"a", "b"},
        ),
        (list[Annotated[int, AfterValidator(str)]], [1], lambda made: made == ["1"]),
        (
            dict[str, Annotated[float, BeforeValidator(lambda _: 1)]],
            {"a": HUGE},
            lambda made: made == {"a": 1.0},
        ),
        (Own, "x", lambda made: made.text == "x"),
        (SecretStr, "x", lambda made: made.get_secret_value() == "x"),
        (Missing | dt.date, "a", lambda made: made is Missing.A),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_what_a_users_code_changes_is_theirs(
    kind: Any, judged: JSON, check: Callable[[Any], bool]
) -> None:
    """The user's own validators, constraints that transform, serializers and types are believed."""
    assert check(judge(kind, judged))


def test_a_users_code_does_not_hide_the_rest() -> None:
    """Beside a validator that only checks, and below one that follows, values are held to their
    JSON all the same.
    """
    assert places(judge(Doubled, {"number": HUGE, "many": [HUGE]})) == [
        (CODE, "/number"),
        (CODE, "/many/0"),
    ]


def test_no_code_of_the_user_runs_twice() -> None:
    """Factories of defaults, validators and hooks run once for each reply, though its values are
    compared.
    """
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

    after = AfterValidator(counting("after"))
    before = BeforeValidator(counting("before"))
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
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_aliases(alias: Any, judged: JSON) -> None:
    """A member is held to the JSON it is made of, under whichever name that stands."""
    model: Any = create_model("M", number=(float, Field(validation_alias=alias)))
    built = instance_of(TypeAdapter(model), judged, at="", names={"x"})
    assert places(built) == [(CODE, "/x")]


def test_what_stands_beside_a_deeper_place_is_lost() -> None:
    """A value that an alias path takes from inside of a member is compared; the rest is named."""
    model: Any = create_model(
        "M",
        number=(float, Field(validation_alias=AliasPath("x", 0))),
        when=(dt.date, dt.date(2024, 1, 1)),
    )
    adapter = TypeAdapter(model)
    made = instance_of(adapter, {"x": [1]}, at="", names=())
    assert not isinstance(made, Invalid)
    assert made.number == 1.0

    assert places(instance_of(adapter, {"x": [1, 2]}, at="", names={"x"})) == [(CODE, "/x/1")]
    assert places(instance_of(adapter, {"x": [HUGE]}, at="", names={"x"})) == [(CODE, "/x/0")]


def test_unions_by_a_function() -> None:
    """A discriminator of the user's own chooses; the value is still held to what it chose."""

    def told(value: Any) -> str:
        """Return the tag of a value: numbers apart from the rest."""
        return "number" if isinstance(value, int | float) else "text"

    kind = Annotated[
        Annotated[float, Tag("number")] | Annotated[str, Tag("text")],
        Discriminator(told),
    ]
    assert places(judge(kind, HUGE)) == [(CODE, "")]
    assert judge(kind, "a") == "a"
