"""What the home page says of a failure is what a call that fails says."""

from __future__ import annotations

import pytest

import strictreply as sr
from strictreply.testing import ScriptedModel, faults
from support.pages import Page

pytestmark = pytest.mark.one_lane

HOME = Page.named("index.md")


def refund(order: int, amount: float) -> str:
    """Refund an order."""
    return f"order {order}: {amount:.2f} EUR"


def test_the_failure_is_that_of_a_call() -> None:
    """A call whose arguments stay wrong raises the error of the page; only its lines are longer."""
    wrong = faults.number_as_text(refund, "order", args={"order": 1042, "amount": 29.9})
    client = sr.wrap(ScriptedModel(then=wrong).openai(), tools=[refund])
    with pytest.raises(sr.ToolArgumentsError) as failed:
        client.reply(model="gpt-5", messages="Order 1042 arrived broken: refund 29.90 EUR.")

    (shown,) = HOME.shown
    assert shown.split() == f"strictreply.ToolArgumentsError: {failed.value}".split()


def test_the_change_is_shown() -> None:
    """The home page has the line to install it, and the two lines that change."""
    assert HOME.blocks("console")[0].startswith("$ pip install")
    assert [line[0] for line in HOME.blocks("diff")[0].splitlines()] == ["-", "+"]
