"""pydantic-ai: an agent with the tool and a structured output.

It is run node by node until the tool has run.
"""

from __future__ import annotations

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from probes.job import MODEL, QUESTION, TIMEOUT, Shop


class Recommendation(BaseModel):
    """What the agent ends with."""

    products: list[str]


def agent_for(shop: Shop, base_url: str) -> Agent[None, Recommendation]:
    """Make the agent, with the library's own retries."""
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=base_url, api_key="none"))
    return Agent(
        model, output_type=Recommendation, tools=[shop.search], model_settings={"timeout": TIMEOUT}
    )


async def app(base_url: str) -> object:
    """Run until the tool has run.

    When the agent comes to its structured output without the tool, that is the end.
    """
    shop = Shop()
    async with agent_for(shop, base_url).iter(QUESTION) as run:
        async for _ in run:
            if shop.calls:
                return shop.accepted()

    return run.result and {"answer": run.result.output.model_dump()}
