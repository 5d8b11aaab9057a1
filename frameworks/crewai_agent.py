"""CrewAI's Agent over its native OpenAI provider."""

from collections.abc import Callable

from crewai import Agent
from crewai.llms.providers.openai.completion import OpenAICompletion
from crewai.tools import tool

import strictreply as sr


class GuardedLLM(OpenAICompletion):
    """A model that asks through wrapped clients."""

    def _build_sync_client(self) -> object:
        return sr.wrap(super()._build_sync_client())

    def _build_async_client(self) -> object:
        return sr.wrap(super()._build_async_client())


def agent(search: Callable[[str], str]) -> Agent:
    """Make an agent over wrapped clients."""
    return Agent(
        role="shop", goal="Find.", backstory="", llm=GuardedLLM(model="gpt-4o"), tools=[tool("search")(search)]
    )


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return agent(search).kickoff("Find tea.").raw


async def arun(search: Callable[[str], str]) -> str:
    """Do the same, awaiting."""
    return (await agent(search).kickoff_async("Find tea.")).raw
