"""The cost of making and comparing typed values is bounded (V2)."""

from __future__ import annotations

import datetime as dt
import functools
import json
import operator
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
import typing_extensions
from pydantic import BaseModel, Discriminator, Json, TypeAdapter, create_model

from strictreply import Contract, Invalid, Tool, Valid
from strictreply.contract._fidelity.comparing import Comparison, Risk
from strictreply.contract._fidelity.core_schemas import fidelity_of
from strictreply.core import JSON, Work
from support.fidelity.typed_samples import HUGE, judge, places


def test_at_most_32_issues() -> None:
    """A flood of differences is reported in part."""
    assert len(places(judge(list[float], [HUGE] * 1000))) == 32


class Left(typing_extensions.TypedDict):
    """One of two shapes of the same object."""

    a: Shape


Shape = typing_extensions.TypeAliasType("Shape", "dict[str, Shape] | Left | float")


def test_unions_in_unions_cost_no_more_than_their_places() -> None:
    """A recursive type of two shapes for the same object is compared once at each place, whatever
    is found there.
    """
    depth = 10
    judged: JSON = HUGE

    for _ in range(depth):
        judged = {"a": judged}

    fidelity = fidelity_of(TypeAdapter(Shape))
    assert fidelity.part is not None
    assert fidelity.probe is not None
    run = Comparison(Risk.NONE, Work())
    fidelity.part(fidelity.probe.validate_json(json.dumps(judged)), judged, run)

    assert [steps for steps, _, _ in run.found] == [("a",) * depth]
    assert len(run.known) == depth + 1


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
    calls = [
        {"id": f"c{index}", "type": "function", "function": function} for index in range(count)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


@pytest.mark.parametrize("channel", ["native", "text"])
def test_v2_branches_that_multiply_with_depth_are_not_built(
    channel: Literal["native", "text"],
) -> None:
    """A value that pydantic would try in 2**28 ways is refused before; a small one is accepted."""
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


def test_v8_such_a_part_is_not_built_beside_a_fault_either() -> None:
    """Where the schema has found a fault, a part that pydantic would try in 2**28 ways stays."""
    tool = tool_taking(Twig | Bough)
    call = calls_of(tool, nested(28))
    call["tool_calls"][0]["function"]["arguments"] = json.dumps({"it": nested(28), "more": 1})

    verdict = Contract(tools=[tool]).check(call)
    assert isinstance(verdict, Invalid)
    assert [issue.code for issue in verdict.issues] == ["args.extra_key"]


def test_v2_discriminators_do_not_multiply() -> None:
    """A union whose tag names its branch is built at any depth within the caps."""
    judged: JSON = {"kind": "marked", "weight": 1.5}
    for index in range(55):
        judged = {"kind": ("tagged", "marked")[index % 2], "below": judged}
    tool = tool_taking(Annotated[Tagged | Marked, Discriminator("kind")])
    assert isinstance(Contract(tools=[tool]).check(calls_of(tool, judged)), Valid)


def test_v2_the_calls_of_a_message_share_what_building_may_take() -> None:
    """All calls of a message share one work budget for building."""
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
    """A typed value is compared with its reply within the reply's work, or the reply is refused."""
    fidelity = fidelity_of(TypeAdapter(list[kind]))
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
    fidelity = fidelity_of(TypeAdapter(list[Json[Any]]))
    found = fidelity.issues(
        judged, json.dumps(judged).encode(), at="", names=(), place="args", work=work
    )
    assert {issue.code for issue in found} == {"args.not_representable"}
    assert work.taken < work.limit // 50


def test_v2_wide_unions_of_models_are_built_within_the_work() -> None:
    """Some hundred objects under twenty shapes are built; very many are refused before."""
    kinds = [
        create_model(f"Kind{index}", **{f"k{index}": (float | None, None)})  # type: ignore[call-overload]
        for index in range(20)
    ]
    either: Any = functools.reduce(operator.or_, kinds)
    tool = tool_taking(list[either])
    contract = Contract(tools=[tool])
    assert isinstance(contract.check(calls_of(tool, [{"k19": 1.5}] * 500)), Valid)

    verdict = contract.check(calls_of(tool, [{}] * 30_000))
    assert isinstance(verdict, Invalid)
    assert [issue.code for issue in verdict.issues] == ["args.too_complex"]
