"""Word the corrections yourself: any object with ``correction`` will do, and it sees issues, never the reply."""

from __future__ import annotations

from openai import OpenAI

import strictreply as sr
from strictreply.testing import LoopbackServer
from strictreply.testing.shop_scenario import SCENARIO
from strictreply.testing.unreliable import UnreliableModel


@sr.tool
def get_weather(city: str, unit: str = "celsius", days: int = 1) -> str:
    """Forecast the weather of a city."""
    return f"{city}: 38 degrees {unit} for {days} days"


class House:
    """Our own words for the first corrections, strictreply's when they did not help."""

    def __init__(self) -> None:
        """Keep the default at hand."""
        self._default = sr.TieredSteering()

    def correction(self, situation: sr.Situation) -> str:
        """Return what to change.

        An issue's ``found`` is the model's own text, so it is left out.
        """
        if situation.tier > 1:
            return self._default.correction(situation)
        faults = [
            f"- {issue.path.removeprefix(situation.at) or 'all'}: {issue.message}"
            for issue in situation.issues
        ]
        return "\n".join(["Our API refused that. Please mend this and nothing else:", *faults])


def main() -> None:
    """Ask with a house style, and print each correction that was sent."""
    with LoopbackServer(UnreliableModel(SCENARIO, seed=7, failure_rate=1.0)) as server:
        openai = OpenAI(base_url=server.base_url, api_key="none")
        with sr.wrap(openai, tools=[get_weather], steering=House()) as client:
            exchange = client.exchange(
                model="unreliable-1",
                messages=[{"role": "user", "content": "How hot is Phoenix today, in fahrenheit?"}],
            )

    for attempt in exchange.attempts:
        print(
            f"attempt {attempt.number} was asked for with:",
            attempt.correction or "the question alone",
        )

    print("reply:", exchange.reply)


if __name__ == "__main__":
    main()
