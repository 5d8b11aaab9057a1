"""How a reply is written around one of its values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.contract._tool import Tool
from strictreply.testing._steps import CANARY
from strictreply.testing._targets import Target
from strictreply.testing.faults._writing import invented_member, members, slots, written
from strictreply.values._issues import pointer

SCALARS = st.none() | st.booleans() | st.integers() | st.text()
VALUES = SCALARS | st.lists(SCALARS, max_size=4) | st.dictionaries(st.text(), SCALARS | st.lists(SCALARS), max_size=4)
HERE = Tool.from_json_schema("here", {"type": "object"})


@given(value=VALUES)
def test_a_slot_gives_the_text_back_when_its_own_value_is_put_in(value: Any) -> None:
    """Writing what was there changes nothing, in every slot of an answer."""
    target = Target(value, "json")
    for slot in slots(target):
        assert slot.write(written(slot.value)) == target.text(value)


@given(value=st.dictionaries(st.text(), SCALARS, max_size=4))
def test_a_slot_is_where_its_pointer_says(value: dict[str, Any]) -> None:
    """Putting another value in changes that member of the arguments, in the union too, and nothing else."""
    target = Target(value, "union", tool=HERE)
    for slot, key in zip(slots(target), value, strict=True):
        assert slot.at == pointer("", key)
        assert json.loads(slot.write('["new"]')) == {"tool": "here", "args": value | {key: ["new"]}}


@pytest.mark.parametrize("value", [{}, [], 5])
def test_a_member_can_always_be_had(value: Any) -> None:
    """Where the value has no member the model makes one up, the only one of an object."""
    target = Target(value, "json")
    assert members(target) == [invented_member(target)]
    assert json.loads(members(target)[0].write("1")) == {CANARY: 1}


def test_a_cut_ends_with_the_value() -> None:
    """What stands before is kept, what comes after is gone."""
    first, second = slots(Target({"a": 1, "b": 2}, "json"))
    assert (first.cut("x"), second.cut("x")) == ('{"a": x', '{"a": 1, "b": x')
