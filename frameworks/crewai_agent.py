"""CrewAI's Agent over its native OpenAI provider."""

from collections.abc import Callable

from crewai import Agent
from crewai.events import LLMStreamChunkEvent, crewai_event_bus
from crewai.llms.providers.openai.completion import OpenAICompletion
from crewai.tools import tool

import strictreply as sr


class GuardedLLM(OpenAICompletion):
    """A model that sends its requests through wrapped clients."""

    def _build_sync_client(self) -> object:
        return sr.wrap(super()._build_sync_client())

    def _build_async_client(self) -> object:
        return sr.wrap(super()._build_async_client())


def agent(search: Callable[[str], str], *, stream: bool = False) -> Agent:
    """Make an agent over wrapped clients."""
    llm = GuardedLLM(model="gpt-4o", stream=stream)
    return Agent(
        role="shop",
        goal="Find.",
        backstory="",
        llm=llm,
        tools=[tool("search")(search)],
    )


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return agent(search).kickoff("Find tea.").raw


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    return (await agent(search).kickoff_async("Find tea.")).raw


def show_text(show: Callable[[str], None]) -> None:
    """From now on, show the text of every model as it arrives."""

    @crewai_event_bus.on(LLMStreamChunkEvent)
    def show_chunk(_: object, event: LLMStreamChunkEvent) -> None:
        if not event.tool_call:
            show(event.chunk)


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Run the agent and show its text."""
    show_text(show)
    agent(search, stream=True).kickoff("Find tea.")


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""
    show_text(show)
    await agent(search, stream=True).kickoff_async("Find tea.")
