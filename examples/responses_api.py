"""Guard the Responses API: the SDK's own calls and streams.

Runs offline, against a model whose first replies are invalid.
"""

from __future__ import annotations

from openai import OpenAI
from shop_scenario import SCENARIO
from unreliable_model import UnreliableModel
from wrap_sync import get_weather

import strictreply as sr
from strictreply.testing import LoopbackServer

MODEL = "unreliable-1"
QUESTION = (
    "What will the weather be in Oslo over the next 3 days, in celsius?"
)


def wrapped(base_url: str) -> sr.StrictClient:
    """Wrap a client for this server.

    ``api=`` sets the API of ``reply`` and strictreply's other methods.
    """
    client = OpenAI(base_url=base_url, api_key="none", timeout=30.0)
    return sr.wrap(client, tools=[get_weather], api="responses")


def ask(base_url: str) -> str:
    """Make one call and match on its typed reply.

    `strictreply probe --app responses_api:ask` tries to break this.
    """
    with wrapped(base_url) as client:
        match client.reply(model=MODEL, input=QUESTION):
            case sr.ToolCall(tool="get_weather", args=args):
                return str(get_weather(args.city, args.unit, args.days))
            case other:
                return str(other)


def main() -> None:
    """Make a call with ``reply``, one with the SDK, and a stream."""
    model = UnreliableModel(SCENARIO, seed=7, failure_rate=1.0)

    with LoopbackServer(model) as server:
        print("typed reply:", ask(server.base_url))

        with wrapped(server.base_url) as client:
            response = client.responses.create(model=MODEL, input=QUESTION)
            print("response:", response.output[0].to_json(indent=None))

            events = client.responses.create(
                model=MODEL, input=QUESTION, stream=True
            )
            types = dict.fromkeys(event.type for event in events)
            print("events:", ", ".join(types))


if __name__ == "__main__":
    main()
