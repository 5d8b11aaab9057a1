"""Strands' Agent."""

from collections.abc import Callable

from openai import AsyncOpenAI
from strands import Agent, tool
from strands.models.openai import OpenAIModel

import strictreply as sr


def agent(search: Callable[[str], str], *, streams: bool) -> Agent:
    """Make an agent over a wrapped client."""
    model = OpenAIModel(
        client=sr.wrap(AsyncOpenAI()), model_id="gpt-5", stream=streams
    )
    return Agent(model=model, tools=[tool(search)], callback_handler=None)


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return str(agent(search, streams=False)("Find tea."))


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    return str(await agent(search, streams=False).invoke_async("Find tea."))


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text as it arrives."""
    shop = agent(search, streams=True)
    shop.callback_handler = lambda **event: show(event.get("data", ""))
    shop("Find tea.")


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""
    shop = agent(search, streams=True)
    async for event in shop.stream_async("Find tea."):
        show(event.get("data", ""))
