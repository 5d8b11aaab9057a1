"""Combine instructor and strictreply, in both orders.

Needs ``pip install 'strictreply[instructor]'``.
"""

from __future__ import annotations

from typing import Annotated, Literal

import instructor
from openai import OpenAI
from pydantic import BaseModel, Field
from shop_scenario import SCENARIO
from unreliable_model import UnreliableModel

import strictreply as sr
from strictreply.integrations.instructor import wrap
from strictreply.testing import LoopbackServer


class OrderSummary(BaseModel):
    """A summary of an order."""

    order: int
    customer: str
    status: Literal["open", "sent", "delivered"]
    total: Annotated[float, Field(ge=0)]


QUESTION = [{"role": "user", "content": "Summarise order 1042."}]


def over(sdk: OpenAI) -> None:
    """Over instructor: strictreply reads each raw reply, of any provider."""
    client = instructor.from_openai(
        sdk, mode=instructor.Mode.JSON_SCHEMA, model="unreliable-1"
    )
    found = wrap(client).extract(
        response_model=OrderSummary, messages=QUESTION
    )
    for attempt in found.attempts:
        codes = ", ".join(issue.code for issue in attempt.issues)
        print(f"attempt {attempt.number}:", codes or "valid")

    order = found.value
    print(f"over: order {order.order} of {order.customer} is {order.status}")


def under(sdk: OpenAI) -> None:
    """Under instructor: a wrapped client checks instructor's replies.

    It is for a program that already uses instructor.
    """
    create = instructor.patch(
        create=sr.wrap(sdk).chat.completions.create,
        mode=instructor.Mode.JSON_SCHEMA,
    )
    order = create(
        model="unreliable-1", response_model=OrderSummary, messages=QUESTION
    )
    print(f"under: order {order.order} of {order.customer} is {order.status}")


def main() -> None:
    """Ask in both ways; the model's first reply is invalid."""
    model = UnreliableModel(SCENARIO, seed=1, failure_rate=1.0)
    with (
        LoopbackServer(model) as server,
        OpenAI(base_url=server.base_url, api_key="none") as sdk,
    ):
        over(sdk)
        under(sdk)


if __name__ == "__main__":
    main()
