"""pydantic-ai, with a FallbackModel that takes over when the first model fails."""

from collections.abc import Callable

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import strictreply as sr


def agent(search: Callable[[str], str]) -> Agent:
    """Make an agent over wrapped clients."""
    provider = OpenAIProvider(openai_client=sr.wrap(AsyncOpenAI()))
    model = FallbackModel(OpenAIChatModel("gpt-5", provider=provider), OpenAIChatModel("gpt-4o", provider=provider))
    return Agent(model, tools=[search])


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return agent(search).run_sync("Find tea.").output


async def arun(search: Callable[[str], str]) -> str:
    """Do the same, awaiting."""
    return (await agent(search).run("Find tea.")).output
