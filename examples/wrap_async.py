"""Wrap an async client: concurrent questions, and an async check."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from openai import AsyncOpenAI
from shop_scenario import SCENARIO
from unreliable_model import UnreliableModel

import strictreply as sr
from strictreply.testing import LoopbackServer

MODEL = "unreliable-1"
QUESTIONS = (
    "Order 1042 arrived broken: refund 29.90 EUR.",
    "Order 1077 came late: give 12.50 EUR back.",
    "What is your return policy?",
)


async def order_exists(args: Any) -> None:
    """Look up the order: a schema cannot state this rule."""
    orders = await asyncio.to_thread(lambda: {1042, 1077})
    if args.order not in orders:
        raise ValueError("no order has this number")


@sr.tool(check=order_exists)
def create_refund(
    order: int, reason: Literal["late", "broken", "wrong_item"], amount: float
) -> str:
    """Refund an order."""
    return f"refunded {amount:.2f} EUR for order {order} ({reason})"


async def answer(client: sr.AsyncStrictClient, question: str) -> str:
    """Ask one question, and run the called tool."""
    messages = [{"role": "user", "content": question}]
    exchange = await client.exchange(model=MODEL, messages=messages)
    match exchange.reply:
        case sr.ToolCall(args=args):
            told = create_refund(args.order, args.reason, args.amount)
        case sr.DirectAnswer(answer=text):
            told = text
        case several:
            raise AssertionError(f"only parallel=True allows {several}")

    return f"{told}  [attempts: {len(exchange.attempts)}]"


async def main() -> None:
    """Ask all questions concurrently, with one client."""
    model = UnreliableModel(SCENARIO, seed=7, failure_rate=1.0)
    with LoopbackServer(model) as server:
        openai = AsyncOpenAI(base_url=server.base_url, api_key="none")
        async with openai:
            client = sr.wrap(openai, tools=[create_refund])
            asking = [answer(client, question) for question in QUESTIONS]
            for told in await asyncio.gather(*asking):
                print(told)


if __name__ == "__main__":
    asyncio.run(main())
