"""Call tools with a server that has no tool calling.

A call is one JSON object in the text; the same rules check it.
"""

from __future__ import annotations

from openai import OpenAI
from shop_scenario import SCENARIO
from unreliable_model import UnreliableModel

import strictreply as sr
from strictreply.testing import LoopbackServer


@sr.tool
def search_products(query: str, limit: int = 5) -> list[str]:
    """Search the shop's products."""
    return [f"{query} no. {number}" for number in range(1, limit + 1)]


def ask(base_url: str) -> sr.Exchange:
    """Ask for a call, written as JSON in the text."""
    messages = [{"role": "user", "content": "Find running shoes, at most 2."}]
    openai = OpenAI(base_url=base_url, api_key="none", timeout=30.0)
    with sr.wrap(openai, tools=[search_products], channel="text") as client:
        return client.exchange(model="unreliable-1", messages=messages)


def main() -> None:
    """Ask strictly, then accept a code fence around the JSON."""
    model = UnreliableModel(SCENARIO, seed=7, failure_rate=1.0)
    with LoopbackServer(model) as server:
        exchange = ask(server.base_url)

    for attempt in exchange.attempts:
        codes = ", ".join(issue.code for issue in attempt.issues)
        print(f"attempt {attempt.number}:", codes or "valid")

    reply = exchange.reply
    if isinstance(reply, sr.ToolCall):
        print("call:", reply.tool, search_products(**dict(reply.args)))

    call = '{"tool": "search_products", "args": {"query": "boots"}}'
    fenced = f"```json\n{call}\n```"

    strict = sr.Contract(tools=[search_products], channel="text")
    print("strict about a fence:", type(strict.check(fenced)).__name__)

    lenient = strict.replace(extraction="fenced")
    verdict = lenient.check(fenced)
    name = type(verdict).__name__
    print("lenient about a fence:", name, "by", *verdict.lenient)


if __name__ == "__main__":
    main()
