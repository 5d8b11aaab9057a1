"""Microsoft's Agent Framework, on chat completions."""

import asyncio
from collections.abc import Callable

from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient
from openai import AsyncOpenAI

import strictreply as sr


def agent(search: Callable[[str], str]) -> Agent:
    """Make an agent over a wrapped client."""
    client = OpenAIChatCompletionClient(
        "gpt-5", async_client=sr.wrap(AsyncOpenAI())
    )
    return Agent(client, tools=[search])


async def arun(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return (await agent(search).run("Find tea.")).messages[-1].text


def run(search: Callable[[str], str]) -> str:
    """Do the same; the framework itself is async."""
    return asyncio.run(arun(search))


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Show the text as it arrives."""
    async for update in agent(search).run("Find tea.", stream=True):
        show(update.text)
