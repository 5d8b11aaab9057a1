"""Wrap a client: what comes out of it fits, or it raises. Runs offline against a model that is wrong at first."""

from __future__ import annotations

from typing import Annotated, Literal

from openai import OpenAI
from pydantic import Field

import strictreply as sr
from strictreply.demo import SCENARIO, DemoServer, UnreliableModel

MODEL = "unreliable-1"


@sr.tool
def get_weather(
    city: str, unit: Literal["celsius", "fahrenheit"] = "celsius", days: Annotated[int, Field(ge=1, le=14)] = 1
) -> str:
    """Forecast the weather of a city.

    Args:
        city: The city's name.
        unit: The unit of the temperatures.
        days: How many days from today.
    """
    return f"{city}: 4 degrees {unit}, {days} days"


def main() -> None:
    """Make one call in each of the three ways."""
    messages = [{"role": "user", "content": "What will the weather be in Oslo over the next 3 days, in celsius?"}]
    with DemoServer(UnreliableModel(SCENARIO, seed=7, failure_rate=1.0)) as server:
        client = sr.wrap(OpenAI(base_url=server.base_url, api_key="none"), tools=[get_weather])

        # The typed reply: match on it.
        match client.reply(model=MODEL, messages=messages):
            case sr.ToolCall(tool="get_weather", args=args):
                print("typed reply:", get_weather(args.city, args.unit, args.days))
            case other:
                print("typed reply:", other)

        # The same call with its story.
        exchange = client.exchange(model=MODEL, messages=messages)
        for attempt in exchange.attempts:
            print(f"attempt {attempt.number}:", ", ".join(issue.code for issue in attempt.issues) or "valid")

        # The SDK's own call and object, for code that has used them all along.
        completion = client.chat.completions.create(model=MODEL, messages=messages)
        print("completion:", completion.choices[0].message.tool_calls[0].function.arguments)


if __name__ == "__main__":
    main()
