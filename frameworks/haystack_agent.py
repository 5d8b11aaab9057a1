"""Haystack's Agent over its OpenAIChatGenerator."""

from collections.abc import Callable

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, StreamingChunk
from haystack.tools import create_tool_from_function
from openai import AsyncOpenAI, OpenAI

import strictreply as sr


def agent(search: Callable[[str], str]) -> Agent:
    """Make an agent whose generator asks through wrapped clients."""
    generator = OpenAIChatGenerator(model="gpt-5")
    generator.warm_up()
    generator.client, generator.async_client = sr.wrap(OpenAI()), sr.wrap(AsyncOpenAI())
    return Agent(chat_generator=generator, tools=[create_tool_from_function(search)])


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return agent(search).run([ChatMessage.from_user("Find tea.")])["messages"][-1].text


async def arun(search: Callable[[str], str]) -> str:
    """Do the same, awaiting."""
    return (await agent(search).run_async([ChatMessage.from_user("Find tea.")]))["messages"][
        -1
    ].text


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text as it comes."""
    agent(search).run(
        [ChatMessage.from_user("Find tea.")], streaming_callback=lambda chunk: show(chunk.content)
    )


async def astream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Do the same, awaiting."""

    async def show_chunk(chunk: StreamingChunk) -> None:
        show(chunk.content)

    await agent(search).run_async(
        [ChatMessage.from_user("Find tea.")], streaming_callback=show_chunk
    )
