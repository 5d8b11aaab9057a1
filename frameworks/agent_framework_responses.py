"""Microsoft's Agent Framework with its default, the Responses API."""

import asyncio
from collections.abc import Callable

from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient
from openai import AsyncOpenAI
from pydantic import BaseModel

import strictreply as sr


class Answer(BaseModel):
    """A structured answer."""

    answer: str


def agent(search: Callable[[str], str]) -> Agent:
    """Make an agent over a wrapped client."""
    client = OpenAIChatClient("gpt-5", async_client=sr.wrap(AsyncOpenAI()))
    return Agent(client, tools=[search])


async def arun(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return (await agent(search).run("Find tea.")).messages[-1].text


def run(search: Callable[[str], str]) -> str:
    """Do the same; the framework itself is async."""
    return asyncio.run(arun(search))


async def aanswer(search: Callable[[str], str]) -> str:
    """Run the agent to an answer of a declared type."""
    options = {"response_format": Answer}
    ended = await agent(search).run("Find tea.", options=options)
    return ended.value.answer


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Show the text as it arrives; skip the final update that repeats it."""
    async for update in agent(search).run("Find tea.", stream=True):
        for content in update.contents:
            if content.type == "text" and content.merge_mode != "replace":
                show(content.text)
