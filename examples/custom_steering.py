"""Write your own corrections: pass an object with a ``correction`` method.

The method gets the issues, never the reply.
"""

from __future__ import annotations

from openai import OpenAI
from shop_scenario import SCENARIO
from unreliable_model import UnreliableModel

import strictreply as sr
from strictreply.testing import LoopbackServer


@sr.tool
def get_weather(city: str, unit: str = "celsius", days: int = 1) -> str:
    """Forecast the weather of a city."""
    return f"{city}: 38 degrees {unit} for {days} days"


class House:
    """Own text for the first correction, the default for later ones."""

    def __init__(self) -> None:
        """Store the default."""
        self._default = sr.TieredSteering()

    def correction(self, context: sr.CorrectionContext) -> str:
        """Return the text of a correction.

        An issue's ``found`` is text of the model, so leave it out.
        """
        if context.tier > 1:
            return self._default.correction(context)

        lines = ["Our API refused that. Please fix only this:"]
        for issue in context.issues:
            place = issue.path.removeprefix(context.at) or "all"
            lines.append(f"- {place}: {issue.message}")
        return "\n".join(lines)


def main() -> None:
    """Ask with these corrections, and print each one that was sent."""
    question = "How hot is Phoenix today, in fahrenheit?"
    messages = [{"role": "user", "content": question}]
    model = UnreliableModel(SCENARIO, seed=7, failure_rate=1.0)

    with LoopbackServer(model) as server:
        openai = OpenAI(base_url=server.base_url, api_key="none")
        with sr.wrap(openai, tools=[get_weather], steering=House()) as client:
            exchange = client.exchange(
                model="unreliable-1", messages=messages
            )

    for attempt in exchange.attempts:
        words = attempt.correction or "no correction"
        print(f"attempt {attempt.number} was sent with:", words)

    print("reply:", exchange.reply)


if __name__ == "__main__":
    main()
