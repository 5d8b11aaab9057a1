"""Wrap an async client: several questions at once, and a tool whose check awaits something."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from openai import AsyncOpenAI

import strictreply as sr
from strictreply.testing import LoopbackServer
from strictreply.testing.shop_scenario import SCENARIO
from strictreply.testing.unreliable import UnreliableModel

MODEL = "unreliable-1"
QUESTIONS = (
    "Order 1042 arrived broken: refund 29.90 EUR.",
    "Order 1077 came late: give 12.50 EUR back.",
    "What is your return policy?",
)


async def order_exists(args: Any) -> None:
    """Look the order up, as a database would: a rule that no schema can state."""
    orders = await asyncio.to_thread(lambda: {1042, 1077})
    if args.order not in orders:
        raise ValueError("there is no such order")


@sr.tool(check=order_exists)
def create_refund(
    order: int, reason: Literal["late", "broken", "wrong_item"], amount: float
) -> str:
    """Refund an order."""
    return f"refunded {amount:.2f} EUR for order {order} ({reason})"


async def answer(client: sr.AsyncStrictClient, question: str) -> str:
    """Ask one question, and run what was called."""
    exchange = await client.exchange(model=MODEL, messages=[{"role": "user", "content": question}])
    match exchange.reply:
        case sr.ToolCall(args=args):
            told = create_refund(args.order, args.reason, args.amount)
        case sr.DirectAnswer(answer=text):
            told = text
        case several:
            raise AssertionError(f"only parallel=True admits {several}")

    return f"{told}  [asked {len(exchange.attempts)}x]"


async def main() -> None:
    """Ask all questions at once through one client."""
    with LoopbackServer(UnreliableModel(SCENARIO, seed=7, failure_rate=1.0)) as server:
        async with AsyncOpenAI(base_url=server.base_url, api_key="none") as openai:
            client = sr.wrap(openai, tools=[create_refund])
            for told in await asyncio.gather(*(answer(client, question) for question in QUESTIONS)):
                print(told)


if __name__ == "__main__":
    asyncio.run(main())
