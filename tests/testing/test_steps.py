"""Steps and faults as values.

They say what a test's parameter is named, and which channel a faulty reply belongs to.
"""

from __future__ import annotations

import dataclasses

import pytest

from strictreply.testing import Fault, Kind, ReplyPlace, Step, ok
from support.testing.faults.spoken import CANARY


@pytest.mark.parametrize(
    ("at", "id_"),
    [("", "wrong_type"), ("/limit", "wrong_type[/limit]"), ("/a~1b", "wrong_type[/a~1b]")],
)
def test_a_fault_is_named_by_its_place(at: str, id_: str) -> None:
    """The name alone when the whole is spoiled, else the place beside it."""
    assert Fault("wrong_type", {}, "", at=at).id == id_


@pytest.mark.parametrize(
    ("place", "channel"),
    [("call", "native"), ("union", "text"), ("json", "native"), ("prose", "native")],
)
def test_a_place_belongs_to_a_channel(place: ReplyPlace, channel: str) -> None:
    """Only the JSON union is the text channel's."""
    assert Fault("f", {}, "", place=place).channel == channel


def test_what_a_reply_says_stays_out_of_a_repr() -> None:
    """A step may be printed: neither what is served nor what was invented is in its repr."""
    step = Fault("f", {"choices": CANARY}, "faults.f()", (CANARY,))
    assert CANARY not in repr(step)
    assert CANARY not in repr(ok.answer(f"Hello {CANARY}").served is None)


def test_a_step_does_not_change() -> None:
    """Steps are shared between runs and threads."""
    step: Step = ok.answer()
    with pytest.raises(dataclasses.FrozenInstanceError):
        step.name = "other"  # type: ignore[misc]


def test_kinds_are_chosen_by_their_words() -> None:
    """A kind is the word that a user writes for it."""
    assert {Kind("args"), Kind("http")} == {Kind.ARGS, Kind.HTTP}
    assert list(Kind) == sorted(Kind, key=list(Kind).index)
    with pytest.raises(
        ValueError, match="'argz' is not a kind of fault; the kinds are json, shape"
    ):
        Kind("argz")
