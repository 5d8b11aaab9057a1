"""AutoGen's AssistantAgent."""

import asyncio
from collections.abc import Callable

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ModelClientStreamingChunkEvent
from autogen_ext.models.openai import BaseOpenAIChatCompletionClient
from openai import AsyncOpenAI

import strictreply as sr


def agent(
    search: Callable[[str], str], *, stream: bool = False
) -> AssistantAgent:
    """Make an agent over a wrapped client."""
    info = {
        "vision": False,
        "function_calling": True,
        "json_output": True,
        "structured_output": True,
        "family": "any",
    }
    model = BaseOpenAIChatCompletionClient(
        sr.wrap(AsyncOpenAI()),
        create_args={"model": "gpt-5"},
        model_info=info,
    )
    return AssistantAgent(
        "shop",
        model,
        tools=[search],
        reflect_on_tool_use=True,
        model_client_stream=stream,
    )


async def arun(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return (await agent(search).run(task="Find tea.")).messages[-1].content


def run(search: Callable[[str], str]) -> str:
    """Do the same; AutoGen itself is async."""
    return asyncio.run(arun(search))


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Show the text as it arrives."""
    events = agent(search, stream=True).run_stream(task="Find tea.")
    async for event in events:
        if isinstance(event, ModelClientStreamingChunkEvent):
            show(event.content)
