"""Semantic Kernel's ChatCompletionAgent."""

import asyncio
from collections.abc import Callable

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function

import strictreply as sr


async def arun(search: Callable[[str], str]) -> str:
    """Run an agent over a wrapped client to its answer."""
    service = OpenAIChatCompletion(ai_model_id="gpt-5", async_client=sr.wrap(AsyncOpenAI()))
    agent = ChatCompletionAgent(service=service, name="shop", plugins=[{"search": kernel_function(search)}])
    return str((await agent.get_response("Find tea.")).content)


def run(search: Callable[[str], str]) -> str:
    """Do the same; Semantic Kernel itself is async."""
    return asyncio.run(arun(search))
