"""Good replies: every step passes the strict contract, and says how it is made again.

It refuses what would not be good.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

import strictreply as sr
from strictreply.testing import Step, faults, ok


def search(query: str, limit: Annotated[int, Field(ge=1, le=20)] = 5) -> None:
    """Search the shop."""


def odd(tool: str, self: int = 1) -> None:
    """Take arguments whose names are words elsewhere."""


def ping() -> None:
    """Take nothing."""


async def refuses(args: object) -> None:
    """Refuse everything, after asking somebody."""
    raise ValueError


class Refund(BaseModel):
    """Refund an order."""

    order: int
    reason: Literal["late", "broken"]
    day: dt.date | None = None


class Even(BaseModel):
    """Take even numbers, which a schema from pydantic does not say."""

    number: int

    @field_validator("number")
    @classmethod
    def even(cls, number: int) -> int:
        """Refuse odd ones."""
        if number % 2:
            raise ValueError
        return number


@dataclass
class Point:
    """A place."""

    x: float
    y: float


dashed = sr.Tool.from_json_schema(
    "dashed", {"properties": {"user-id": {"type": "integer"}, "class": {}}}
)
CHECKED = sr.Tool.from_function(search, name="checked", check=refuses)
TOTAL = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}


def judged(step: Step, **declared: Any) -> Any:
    """Return the reply of a step, as a contract judges it."""
    verdict = sr.Contract(**declared).check(step.served)
    assert isinstance(verdict, sr.Valid), verdict
    return verdict.reply


@pytest.mark.parametrize("tool", [search, odd, ping, Refund, Point, dashed])
@pytest.mark.parametrize(
    ("make", "channel"), [(ok.call, "native"), (ok.union, "text"), (ok.reply, "native")]
)
def test_examples_pass(tool: object, make: Any, channel: Any) -> None:
    """A call without arguments has an example of them, in either channel."""
    assert isinstance(judged(make(tool), tools=[tool], channel=channel), sr.ToolCall)


@pytest.mark.parametrize(
    ("step", "spelled"),
    [
        (ok.call(search, query="tea"), "ok.call(search, query='tea')"),
        (ok.call(search), "ok.call(search)"),
        (ok.union(search, query="tea", limit=3), "ok.union(search, query='tea', limit=3)"),
        (ok.call(odd, tool="x", self=3), "ok.call(odd, tool='x', self=3)"),
        (
            ok.call(dashed, **{"user-id": 1, "class": None}),
            "ok.call(dashed, **{'user-id': 1, 'class': None})",
        ),
        (ok.call(Refund, order=1, reason="late", day=dt.date(2026, 1, 2)), None),
        (ok.calls(ok.call(search), ok.call(Refund)), "ok.calls(ok.call(search), ok.call(Refund))"),
        (ok.answer("Hi"), "ok.answer('Hi')"),
        (ok.answer({"total": 3}), "ok.answer({'total': 3})"),
        (ok.answer(None), "ok.answer(None)"),
        (ok.answer(Refund(order=1, reason="late")), None),
        (ok.reply(), "ok.reply()"),
        (ok.reply(args="Hi"), "ok.reply(args='Hi')"),
        (ok.reply(search, place="union"), "ok.reply(search, place='union')"),
        (ok.reply(search, args={"query": "tea"}), "ok.reply(search, args={'query': 'tea'})"),
        (ok.reply(Refund, args=Refund(order=1, reason="late")), None),
        (ok.reply(TOTAL, place="json"), None),
        (ok.reply(Refund, place="json"), "ok.reply(Refund, place='json')"),
        (ok.reply(list[int], place="json"), "ok.reply(list[int], place='json')"),
        (ok.reply(search, place="prose"), "ok.reply()"),
    ],
)
def test_a_step_is_made_again_from_its_source(step: Step, spelled: str | None) -> None:
    """The source is Python that makes the same reply."""
    again = eval(step.source, globals())  # noqa: S307 - our own words
    assert (again.served, again.source) == (step.served, step.source)
    assert spelled is None or step.source == spelled


def test_names_that_python_does_not_take_are_spelled_as_a_mapping() -> None:
    """A member may be named like no keyword can."""
    step = ok.call(dashed, **{"user-id": 1, "class": 2})
    assert step.source.endswith(", **{'user-id': 1, 'class': 2})")
    assert judged(step, tools=[dashed]).args == {"user-id": 1, "class": 2}


@given(query=st.text(max_size=30), limit=st.integers(1, 20))
def test_arguments_come_through(query: str, limit: int) -> None:
    """An app reads the arguments that were given, whatever the text, in both channels."""
    call = judged(ok.call(search, query=query, limit=limit), tools=[search])
    union = judged(ok.union(search, query=query, limit=limit), tools=[search], channel="text")
    for args in (call.args, union.args):
        assert (args.query, args.limit) == (query, limit)


@pytest.mark.parametrize("make", [ok.call, ok.union])
@pytest.mark.parametrize(
    "args", [{"query": 5}, {"limit": 3}, {"query": "a", "limit": 21}, {"query": "a", "more": 1}]
)
def test_arguments_that_do_not_fit_are_refused(make: Any, args: dict[str, Any]) -> None:
    """A good reply with bad arguments would be a fault nobody asked for."""
    with pytest.raises(ValueError, match="search"):
        make(search, **args)


@pytest.mark.parametrize("args", [{"query": "a\ud800"}, {"query": object()}])
def test_what_json_cannot_say_is_refused(args: dict[str, Any]) -> None:
    """A lone surrogate and an object of Python are no good arguments."""
    with pytest.raises(ValueError, match=r"\w"):
        ok.call(search, **args)


def test_an_example_must_pass_the_types_own_rules() -> None:
    """Good arguments have to be given where a model refuses what its schema admits."""
    with pytest.raises(ValueError, match="args="):
        ok.reply(Even)
    with pytest.raises(ValueError, match=r"\w"):
        ok.call(Even, number=3)
    assert judged(ok.call(Even, number=4), tools=[Even]).args == Even(number=4)


def test_a_users_check_is_not_run() -> None:
    """A check may need what a test has not: it decides about no good reply, sync or async."""
    for step in (ok.call(CHECKED, query="tea"), ok.reply(CHECKED), ok.union(CHECKED)):
        assert step.source.startswith("ok.")


@pytest.mark.parametrize(
    ("value", "read"),
    [
        *((value, value) for value in ({"total": 3}, [1, "é"], 5, True, None, {})),
        (Point(1, 2), {"x": 1.0, "y": 2.0}),
        (Refund(order=1, reason="late"), {"order": 1, "reason": "late", "day": None}),
    ],
)
def test_answers_that_are_no_text_are_json(value: Any, read: Any) -> None:
    """Anything but a text is written as JSON, models and dataclasses included."""
    assert judged(ok.answer(value), answer={}).answer == read


@pytest.mark.parametrize(
    "value", ["", " \n", math.nan, math.inf, {"a": [math.nan]}, {"a": object()}]
)
def test_answers_that_no_gate_lets_through_are_refused(value: Any) -> None:
    """A blank text, and numbers or objects that are no JSON."""
    with pytest.raises(ValueError, match=r"\w"):
        ok.answer(value)


def test_an_action_is_an_answer_that_coordination_reads() -> None:
    """It is the JSON of the action in the content, spelled as it is made again."""
    step = ok.action("invoke_agent", action_input="writer")
    assert judged(step, answer={}).answer == {
        "next_action": "invoke_agent",
        "action_input": "writer",
    }
    assert eval(step.source, {"ok": ok}) == step  # noqa: S307 - our own words


@pytest.mark.parametrize(
    ("name", "members", "named"),
    [
        ("invoke_agents", {"action_input": "writer"}, "invoke_agent"),
        ("invoke_agent", {"agent": "writer"}, "invoke_agent"),
        ("invoke_tool", {}, "invoke_tool"),
    ],
)
def test_what_is_no_action_is_refused(name: str, members: dict[str, Any], named: str) -> None:
    """A name that is none, and members that the action does not have."""
    with pytest.raises(ValueError, match=named):
        ok.action(name, **members)


def test_several_calls_have_their_own_ids() -> None:
    """Calls are put together in order; what is put together can be put together again."""
    step = ok.calls(
        ok.call(search, query="a"), ok.calls(ok.call(search, query="b"), ok.call(Refund))
    )
    calls = judged(step, tools=[search, Refund], parallel=True).calls
    assert [call.tool for call in calls] == ["search", "search", "Refund"]
    assert len({call.id for call in calls}) == 3


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [ok.answer("Hi")],
        [ok.call(search), ok.answer({"a": 1})],
        [ok.union(search)],
        [faults.rate_limited_seconds()],
        [faults.trailing_comma(search)],
    ],
)
def test_only_good_calls_are_put_together(steps: list[Step]) -> None:
    """No calls at all, answers and faults make no good reply of several calls."""
    with pytest.raises(ValueError, match=r"ok\.call"):
        ok.calls(*steps)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"place": "json"}, "place='json'"),
        ({"place": "union"}, "place='union'"),
        ({"place": "native"}, "place must be"),
        ({"tool": str, "place": "json"}, "plain-text answer"),
        ({"args": {"a": 1}}, "place='json'"),
        ({"tool": search, "args": {}}, "search"),
    ],
)
def test_what_cannot_be_made_says_what_to_do(words: dict[str, Any], named: str) -> None:
    """Wrong places, and arguments without a tool, are told in our words."""
    with pytest.raises(ValueError, match=named):
        ok.reply(**words)


def test_what_declares_no_tool_is_an_error_of_the_declaration() -> None:
    """The core's own error says what a tool can be made of."""
    with pytest.raises(sr.ContractError):
        ok.call(5)
