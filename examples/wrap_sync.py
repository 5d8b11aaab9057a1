"""Wrap a client: it returns valid replies, or raises.

Runs offline, against a model whose first replies are invalid.
"""

from __future__ import annotations

from typing import Annotated, Literal

from openai import OpenAI
from openai.types.chat import ChatCompletionUserMessageParam
from pydantic import Field
from shop_scenario import SCENARIO
from unreliable_model import UnreliableModel

import strictreply as sr
from strictreply.testing import LoopbackServer

MODEL = "unreliable-1"
WORDS = "What will the weather be in Oslo over the next 3 days, in celsius?"
QUESTION: list[ChatCompletionUserMessageParam] = [
    {"role": "user", "content": WORDS}
]


@sr.tool
def get_weather(
    city: str,
    unit: Literal["celsius", "fahrenheit"] = "celsius",
    days: Annotated[int, Field(ge=1, le=14)] = 1,
) -> str:
    """Forecast the weather of a city.

    Args:
        city: The city's name.
        unit: The unit of the temperatures.
        days: How many days from today.
    """
    return f"{city}: 4 degrees {unit}, {days} days"


def wrapped(base_url: str) -> sr.StrictClient:
    """Wrap a client for this server."""
    openai = OpenAI(base_url=base_url, api_key="none", timeout=30.0)
    return sr.wrap(openai, tools=[get_weather])


def ask(base_url: str) -> str:
    """Make one call and match on its typed reply.

    `strictreply probe --app wrap_sync:ask` tries to break this.
    """
    with wrapped(base_url) as client:
        match client.reply(model=MODEL, messages=QUESTION):
            case sr.ToolCall(tool="get_weather", args=args):
                return str(get_weather(args.city, args.unit, args.days))
            case other:
                return str(other)


def main() -> None:
    """Make the same call in three ways."""
    model = UnreliableModel(SCENARIO, seed=7, failure_rate=1.0)
    with LoopbackServer(model) as server:
        print("typed reply:", ask(server.base_url))

        with wrapped(server.base_url) as client:
            # the same call, with all its attempts
            exchange = client.exchange(model=MODEL, messages=QUESTION)
            for attempt in exchange.attempts:
                codes = ", ".join(issue.code for issue in attempt.issues)
                print(f"attempt {attempt.number}:", codes or "valid")

            # the SDK's own method and object, for existing code
            create = client.chat.completions.create
            completion = create(model=MODEL, messages=QUESTION)
            message = completion.choices[0].message
            print("completion:", message.to_json(indent=None))


if __name__ == "__main__":
    main()
