"""A typed answer while it is written.

What it shows is what the whole answer has; it does not show what is open.
"""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, computed_field, field_validator, model_validator

from strictreply import Contract, Partial
from strictreply.contract._early_stop import EarlyStop
from support.live_documents import pieces


class Line(BaseModel):
    """A line of an order."""

    name: Annotated[str, Field(max_length=9)]
    count: int = 3


class Order(BaseModel):
    """An order."""

    model_config = ConfigDict(frozen=True)

    total: float = Field(ge=0)
    lines: list[Line]
    note: str | None = "none"
    first: Line | None = None
    rows: list[list[int]] = []
    by_name: dict[str, Line] = {}


class Checked(BaseModel):
    """A model with rules of its own: of one member, and, inside, of a whole."""

    class Pair(BaseModel):
        """Two numbers in order."""

        low: int
        high: int

        @model_validator(mode="after")
        def in_order(self) -> Checked.Pair:
            """Look at both."""
            assert self.low <= self.high
            return self

    class Noted(BaseModel):
        """A model that does something once it is there."""

        text: str
        size: int = 0

        def model_post_init(self, _: object) -> None:
            """Look at the whole."""
            self.size = len(self.text)

    kind: str = Field(alias="type")
    name: str
    pair: Pair
    noted: Noted | None = None

    @field_validator("name")
    @classmethod
    def capital(cls, name: str) -> str:
        """Look at one."""
        assert name[:1].isupper()
        return name


LINES: st.SearchStrategy[Any] = st.builds(
    dict, name=st.text(max_size=9), count=st.integers(0, 9)
) | st.builds(dict, name=st.text(max_size=9))
ORDERS = st.fixed_dictionaries(
    {"total": st.floats(0, 1e9), "lines": st.lists(LINES, max_size=3)},
    optional={
        "note": st.none() | st.text(max_size=5),
        "first": st.none() | LINES,
        "rows": st.lists(st.lists(st.integers(), max_size=2), max_size=2),
        "by_name": st.dictionaries(st.text(max_size=3), LINES, max_size=2),
    },
)


def followed(
    kind: Any, text: str, dice: random.Random | None = None, **keywords: Any
) -> list[Partial[Any]]:
    """Every partial of an answer, its own answer copied, for it grows."""
    early_stop = EarlyStop(Contract(answer=kind, **keywords))
    told = list[Partial[Any]]()
    for piece in text if dice is None else pieces(text, dice):
        assert early_stop.text(piece) is None
        if (partial := early_stop.partial()) is not None:
            told.append(Partial(deepcopy(partial.value), partial.open, deepcopy(partial.answer)))
    return told


def assert_shown(shown: Any, whole: Any, value: Any, at: str, is_open: set[str]) -> None:
    """Assert that an open value is a part of the whole.

    A final one is equal, and all that is final is there.
    """
    if at not in is_open:
        assert shown == whole
        assert type(shown) is type(whole)
    elif isinstance(whole, list):
        for index, one in enumerate(shown):
            assert_shown(one, whole[index], value[index], f"{at}/{index}", is_open)
    else:
        final = {name for name in value if f"{at}/{name}" not in is_open}
        assert final <= shown.model_fields_set == set(vars(shown))

        for name in shown.model_fields_set:
            assert_shown(
                getattr(shown, name), getattr(whole, name), value[name], f"{at}/{name}", is_open
            )


@given(ORDERS, st.randoms(), st.sampled_from(["native", "text"]))
def test_what_is_shown_is_final_and_equal_to_the_whole(
    order: Any, dice: random.Random, channel: Any
) -> None:
    """At every cut: no default stands in, nothing open is shown but lists and models around what is
    final.
    """
    members = dict(dice.sample(list(order.items()), len(order)))
    text = json.dumps(members if channel == "native" else {"answer": members})
    whole = Order.model_validate_json(json.dumps(members), strict=False)
    told = followed(Order, text, dice, channel=channel)
    for partial in told:
        assert_shown(partial.answer, whole, partial.value, "", set(partial.open))
    assert told[-1].answer == whole


def test_members_with_rules_of_their_own_come_with_the_whole() -> None:
    """No value is shown before its validator has run, and no validator sees a part."""
    told = followed(
        Checked,
        '{"type": "a", "name": "Bo", "pair": {"low": 1, "high": 2}, "noted": {"text": "ab"}}',
    )
    states = [repr(partial.answer) for partial in told]
    assert list(dict.fromkeys(states)) == [
        "Checked()",
        "Checked(kind='a')",
        "Checked(kind='a', pair=Pair(low=1, high=2))",
        "Checked(kind='a', pair=Pair(low=1, high=2), noted=Noted(text='ab', size=2))",
        "Checked(kind='a', name='Bo', pair=Pair(low=1, high=2), noted=Noted(text='ab', size=2))",
    ]

    assert all(not hasattr(partial.answer, "name") for partial in told[:-1])


def test_an_item_that_its_type_refuses_is_never_shown() -> None:
    """Nor is any later item: the reply is refused at its end."""
    told = followed(
        list[Checked.Pair], '[{"low": 1, "high": 2}, {"low": 3, "high": 2}, {"low": 3, "high": 4}]'
    )
    assert told[-1].answer == [Checked.Pair(low=1, high=2)]


class Reckoned(BaseModel):
    """A model whose code reckons with members that are there."""

    class Summed(BaseModel):
        """A reckoned value is read like a member."""

        low: int
        high: int

        @computed_field  # type: ignore[prop-decorator]  # as pydantic's own page has it
        @property
        def sum(self) -> int:
            """Add both."""
            return self.low + self.high

    low: int
    high: int = Field(default_factory=lambda members: members["low"] + 1)
    summed: Summed | None = None


def test_code_that_reckons_with_members_runs_when_they_are_there() -> None:
    """No default is made from members that have not come; a part can be printed like the whole."""
    told = followed(Reckoned, '{"low": 1, "summed": {"low": 1, "high": 2}}')
    states = [repr(partial.answer) for partial in told]
    assert list(dict.fromkeys(states)) == [
        "Reckoned()",
        "Reckoned(low=1)",
        "Reckoned(low=1, summed=Summed(low=1, high=2, sum=3))",
        "Reckoned(low=1, high=2, summed=Summed(low=1, high=2, sum=3))",
    ]


@pytest.mark.parametrize(
    ("kind", "text", "states"),
    [
        (dict[str, int], '{"a": 1, "b": 2}', [None, {"a": 1, "b": 2}]),
        (list[int], "[1, 2]", [[], [1], [1, 2]]),
        (Line | Order, '{"name": "a"}', [None, Line(name="a")]),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, '{"a": 1}', [None]),
    ],
)
def test_other_types_are_shown_as_far_as_a_part_of_them_says_something(
    kind: Any, text: str, states: Any
) -> None:
    """A list grows; what only makes sense whole is there at its end; a schema has no type."""
    seen = [partial.answer for partial in followed(kind, text)]
    assert [one for at, one in enumerate(seen) if at == 0 or one != seen[at - 1]] == states
