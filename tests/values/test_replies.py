"""Replies and verdicts are values: compared by what they hold, and told apart by their type."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from pydantic import BaseModel, Field

from strictreply import (
    AssistantReply,
    Category,
    DirectAnswer,
    Invalid,
    Issue,
    ToolCall,
    ToolCalls,
    Valid,
)

ONE = ToolCall("a", {"x": 1}, "id1")
TWO: ToolCall = ToolCall("b", {}, "id2")


@pytest.mark.parametrize(
    ("reply", "calls"),
    [(ONE, (ONE,)), (ToolCalls((ONE, TWO)), (ONE, TWO)), (DirectAnswer("x"), ())],
)
def test_every_reply_tells_its_calls(reply: AssistantReply, calls: tuple[ToolCall, ...]) -> None:
    """One, several in order, or none for an answer."""
    assert reply.calls == calls


def test_replies_are_matched_by_their_fields() -> None:
    """The patterns of the front page hold."""
    seen: list[object] = []
    for reply in (ONE, TWO, DirectAnswer("x"), ToolCalls((ONE, TWO))):
        match reply:
            case ToolCall(tool="a", args=args):
                seen.append(args)
            case ToolCall(tool=name):
                seen.append(name)
            case ToolCalls(calls=calls):
                seen.append(len(calls))
            case DirectAnswer(answer=text):
                seen.append(text)

    assert seen == [{"x": 1}, "b", "x", 2]


class Order(BaseModel):
    """Typed arguments."""

    number: int = Field(alias="no")


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (ToolCall("a", Order(no=7)), {"tool": "a", "args": {"no": 7}}),
        (
            ToolCalls((ONE, TWO)),
            {"calls": [{"tool": "a", "args": {"x": 1}, "id": "id1"}, TWO.to_dict()]},
        ),
        (DirectAnswer("x"), {"answer": "x"}),
        (DirectAnswer(Order(no=7)), {"answer": {"no": 7}}),
    ],
)
def test_every_reply_is_told_as_json(reply: AssistantReply, told: dict[str, Any]) -> None:
    """Typed arguments and answers by their aliases, as the model wrote them; the id where there is
    one.
    """
    assert reply.to_dict() == told


def test_values_cannot_be_changed() -> None:
    """A reply or a verdict stays what it was."""
    for value, name in (
        (ONE, "tool"),
        (DirectAnswer("x"), "answer"),
        (Valid(ONE), "reply"),
        (Invalid(()), "issues"),
    ):
        with pytest.raises(AttributeError):
            setattr(value, name, None)


def test_the_summary_joins_all_faults_by_dotted_path() -> None:
    """``path: message`` for each fault, on one line."""
    invalid = Invalid(
        (
            Issue("x", Category.FORMAT_ERROR, "/args/a", "must be an integer"),
            Issue("y", Category.FORMAT_ERROR, "/args/b~1c/0", "is wrong"),
            Issue("z", Category.FORMAT_ERROR, "", "is empty"),
        )
    )
    assert invalid.summary == "args.a: must be an integer; args.b/c.0: is wrong; is empty"


def test_replies_are_made_with_their_types() -> None:
    """A class with its parameters makes the same value, which stays frozen."""
    call = ToolCall[dict[str, int]]("a", {"x": 1}, "id1")
    assert call == ONE
    assert DirectAnswer[str]("hello") == DirectAnswer("hello")

    for made in (call, DirectAnswer[str]("hello")):
        with pytest.raises(FrozenInstanceError):
            setattr(made, "tool", "b")  # noqa: B010
        with pytest.raises(FrozenInstanceError):
            setattr(made, "other", "b")  # noqa: B010

    assert copy.deepcopy(call) == pickle.loads(pickle.dumps(call)) == ONE  # noqa: S301
