"""Agno's Agent."""

from collections.abc import Callable

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from agno.run.agent import RunContentEvent
from openai import AsyncOpenAI, OpenAI

import strictreply as sr


def agent(search: Callable[[str], str]) -> Agent:
    """Make an agent over wrapped clients."""
    model = OpenAIChat(
        "gpt-5", client=sr.wrap(OpenAI()), async_client=sr.wrap(AsyncOpenAI())
    )
    return Agent(model=model, tools=[search], telemetry=False)


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return agent(search).run("Find tea.").content


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    return (await agent(search).arun("Find tea.")).content


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text as it arrives."""
    for event in agent(search).run("Find tea.", stream=True):
        if isinstance(event, RunContentEvent):
            show(event.content)


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""
    async for event in agent(search).arun("Find tea.", stream=True):
        if isinstance(event, RunContentEvent):
            show(event.content)
