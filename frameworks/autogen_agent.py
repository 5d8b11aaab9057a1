"""AutoGen's AssistantAgent."""

import asyncio
from collections.abc import Callable

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import BaseOpenAIChatCompletionClient
from openai import AsyncOpenAI

import strictreply as sr


async def arun(search: Callable[[str], str]) -> str:
    """Run an agent over a wrapped client to its answer."""
    info = {"vision": False, "function_calling": True, "json_output": True, "structured_output": True, "family": "any"}
    model = BaseOpenAIChatCompletionClient(sr.wrap(AsyncOpenAI()), create_args={"model": "gpt-5"}, model_info=info)
    agent = AssistantAgent("shop", model, tools=[search], reflect_on_tool_use=True)
    return (await agent.run(task="Find tea.")).messages[-1].content


def run(search: Callable[[str], str]) -> str:
    """Do the same; AutoGen itself is async."""
    return asyncio.run(arun(search))
