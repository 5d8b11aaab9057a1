"""Haystack's Agent over its OpenAIChatGenerator."""

from collections.abc import Callable

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, StreamingChunk
from haystack.tools import create_tool_from_function
from openai import AsyncOpenAI, OpenAI

import strictreply as sr

ASKED = [ChatMessage.from_user("Find tea.")]


def agent(search: Callable[[str], str]) -> Agent:
    """Make an agent with wrapped clients in its generator."""
    generator = OpenAIChatGenerator(model="gpt-5")
    generator.warm_up()
    generator.client = sr.wrap(OpenAI())
    generator.async_client = sr.wrap(AsyncOpenAI())
    return Agent(
        chat_generator=generator, tools=[create_tool_from_function(search)]
    )


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    found = agent(search).run(ASKED)
    return found["messages"][-1].text


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    found = await agent(search).run_async(ASKED)
    return found["messages"][-1].text


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text as it arrives."""

    def show_chunk(chunk: StreamingChunk) -> None:
        show(chunk.content)

    agent(search).run(ASKED, streaming_callback=show_chunk)


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""

    async def show_chunk(chunk: StreamingChunk) -> None:
        show(chunk.content)

    await agent(search).run_async(ASKED, streaming_callback=show_chunk)
