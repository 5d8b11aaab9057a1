"""Ask for an answer of a type: the reply is an instance of it, never a string to be parsed."""

from __future__ import annotations

from typing import Annotated, Literal

from openai import OpenAI
from pydantic import BaseModel, Field

import strictreply as sr
from strictreply.testing import LoopbackServer
from strictreply.testing.shop_scenario import SCENARIO
from strictreply.testing.unreliable import UnreliableModel


class OrderSummary(BaseModel):
    """An order in short."""

    order: int
    customer: str
    status: Literal["open", "sent", "delivered"]
    total: Annotated[float, Field(ge=0)]


def ask(base_url: str) -> sr.Exchange[OrderSummary]:
    """Ask once, strictly; a reply that does not fit is asked for again."""
    messages = [{"role": "user", "content": "Summarise order 1042."}]
    with sr.wrap(
        OpenAI(base_url=base_url, api_key="none", timeout=30.0), answer=OrderSummary
    ) as client:
        return client.exchange(model="unreliable-1", messages=messages)


def main() -> None:
    """Ask a model whose first reply does not fit."""
    with LoopbackServer(UnreliableModel(SCENARIO, seed=1, failure_rate=1.0)) as server:
        exchange = ask(server.base_url)

    for attempt in exchange.attempts:
        for issue in attempt.issues:
            print(f"attempt {attempt.number}: {issue.code} at {issue.path}, found {issue.found}")

    if isinstance(exchange.reply, sr.DirectAnswer):
        summary = exchange.reply.answer
        print(
            f"order {summary.order} of {summary.customer}: {summary.status}, {summary.total:.2f} EUR"
        )

    print(f"{exchange.usage.total_tokens} tokens in {len(exchange.attempts)} attempts")


if __name__ == "__main__":
    main()
