"""Ask for a typed answer: the reply is an instance of your class."""

from __future__ import annotations

from typing import Annotated, Literal

from openai import OpenAI
from pydantic import BaseModel, Field
from shop_scenario import SCENARIO
from unreliable_model import UnreliableModel

import strictreply as sr
from strictreply.testing import LoopbackServer


class OrderSummary(BaseModel):
    """A summary of an order."""

    order: int
    customer: str
    status: Literal["open", "sent", "delivered"]
    total: Annotated[float, Field(ge=0)]


def ask(base_url: str) -> sr.Exchange[OrderSummary]:
    """Ask once; an invalid reply is retried with a correction."""
    messages = [{"role": "user", "content": "Summarise order 1042."}]
    openai = OpenAI(base_url=base_url, api_key="none", timeout=30.0)
    with sr.wrap(openai, answer=OrderSummary) as client:
        return client.exchange(model="unreliable-1", messages=messages)


def main() -> None:
    """Ask a model whose first reply is invalid."""
    model = UnreliableModel(SCENARIO, seed=1, failure_rate=1.0)
    with LoopbackServer(model) as server:
        exchange = ask(server.base_url)

    for attempt in exchange.attempts:
        for issue in attempt.issues:
            fault = f"{issue.code} at {issue.path}, found {issue.found}"
            print(f"attempt {attempt.number}: {fault}")

    if isinstance(exchange.reply, sr.DirectAnswer):
        order = exchange.reply.answer
        state = f"{order.status}, {order.total:.2f} EUR"
        print(f"order {order.order} of {order.customer}: {state}")

    tokens = exchange.usage.total_tokens
    print(f"{tokens} tokens in {len(exchange.attempts)} attempts")


if __name__ == "__main__":
    main()
