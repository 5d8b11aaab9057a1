"""Run a conversation to its answer.

Tools run only for valid replies; their results go back to the model.
"""

from __future__ import annotations

from openai import OpenAI
from shop_scenario import SCENARIO
from unreliable_model import UnreliableModel

import strictreply as sr
from strictreply.testing import LoopbackServer

DEGREES = {"Paris": 14, "Tokyo": 21}


@sr.tool
def get_weather(city: str, unit: str = "celsius", days: int = 1) -> str:
    """Forecast the weather of a city."""
    return f"{DEGREES[city]} degrees {unit} in {city} (next {days} days)"


def ask(base_url: str) -> sr.Run:
    """Ask one question that needs two calls."""
    question = "Is it warmer in Paris or in Tokyo today?"
    openai = OpenAI(base_url=base_url, api_key="none", timeout=30.0)
    loop = sr.LoopPolicy(max_iterations=4)
    with sr.wrap(openai, tools=[get_weather], parallel=True) as client:
        return sr.run(client, question, model="unreliable-1", loop=loop)


def main() -> None:
    """Run the conversation; print the transcript and the counts."""
    model = UnreliableModel(SCENARIO, seed=7, failure_rate=1.0)
    with LoopbackServer(model) as server:
        run = ask(server.base_url)

    for turn in run.transcript:
        functions = [
            call["function"] for call in turn.get("tool_calls") or ()
        ]
        calls = [function["arguments"] for function in functions]
        print(f"{turn['role']:>9}: {turn.get('content') or ', '.join(calls)}")

    print("answer:", run.answer)
    bad = sum(1 for attempt in run.attempts if attempt.issues)
    print(
        f"{len(run.replies)} replies in {len(run.attempts)} requests, "
        f"{bad} refused, none of them in the transcript"
    )


if __name__ == "__main__":
    main()
