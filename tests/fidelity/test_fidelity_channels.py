"""The laws of ``strictreply.contract._fidelity`` through every channel and the tool loop (V3)."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from decimal import Decimal
from typing import Any, Literal

import pytest

import strictreply as sr
from strictreply import Contract, DirectAnswer, Valid
from support.fidelity.typed_samples import CODE, HUGE, Inner, places
from support.openai_shapes import call, completion, message
from support.scripted import AsyncClient, Client


def total(amount: float, /, prices: dict[int, Decimal], *, due: dt.datetime | None = None) -> str:
    """Sum up."""
    return f"{amount} {prices} {due}"


GOOD: dict[str, Any] = {"amount": 1, "prices": {"1": "1.50"}, "due": "2024-01-02T03:04:05Z"}
BAD: dict[str, Any] = GOOD | {"amount": HUGE, "prices": {"1": "1_0"}}
BAD_PLACES = [(CODE, "/amount"), (CODE, "/prices/*")]


def test_v3_native_calls() -> None:
    """A call whose arguments would change is refused, with each member's place in the message."""
    contract = Contract(tools=[total])
    verdict = contract.check(completion(message(None, [call("total", BAD)])))
    at = "/tool_calls/0/function/arguments"
    assert places(verdict) == [(code, at + path) for code, path in BAD_PLACES]
    assert isinstance(contract.check(completion(message(None, [call("total", GOOD)]))), Valid)


def test_v3_text_channel() -> None:
    """The text channel holds its calls to the same."""
    contract = Contract(tools=[total], channel="text")
    verdict = contract.check(completion(message(json.dumps({"tool": "total", "args": BAD}))))
    assert places(verdict) == [(code, "/args" + path) for code, path in BAD_PLACES]


@pytest.mark.parametrize("style", ["union", "tool"])
@pytest.mark.parametrize("channel", ["native", "text"])
def test_v3_answers(channel: Literal["native", "text"], style: Literal["union", "tool"]) -> None:
    """A structured answer is what was judged, in each channel and style."""
    contract = Contract(
        tools=[total] if style == "tool" else [], answer=Inner, channel=channel, answer_style=style
    )

    def said(number: int) -> Any:
        """Answer."""
        answer = {"number": number}

        if channel == "text":
            inner = (
                {"answer": answer}
                if style == "union"
                else {"tool": "final_answer", "args": {"answer": answer}}
            )
            return completion(message(json.dumps(inner)))

        if style == "tool":
            return completion(message(None, [call("final_answer", {"answer": answer})]))

        return completion(message(json.dumps(answer)))

    (found,) = places(contract.check(said(HUGE)))
    assert found[0] == "answer.not_representable"
    assert found[1].endswith("/number")
    accepted = contract.check(said(2))
    assert isinstance(accepted, Valid)

    assert accepted.reply == DirectAnswer(Inner(number=2.0))


def test_v3_run() -> None:
    """The function of a tool loop gets exactly what was judged, after a correction of what it could
    not have got.
    """
    got: list[tuple[object, ...]] = []

    def keep(amount: float, prices: dict[int, Decimal], due: dt.datetime) -> str:
        """Keep."""
        got.append((amount, prices, due))
        return "kept"

    script = [
        completion(message(None, [call("keep", BAD)])),
        completion(message(None, [call("keep", GOOD)])),
        completion(message("done")),
    ]
    due = dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    wanted = (1.0, {1: Decimal("1.50")}, due)
    sr.run(sr.wrap(Client(*script), tools=[keep]), "keep it", model="m")

    asyncio.run(sr.arun(sr.wrap(AsyncClient(*script), tools=[keep]), "keep it", model="m"))
    assert got == [wanted, wanted]
