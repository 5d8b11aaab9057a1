"""Semantic Kernel's ChatCompletionAgent."""

import asyncio
from collections.abc import Callable

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function

import strictreply as sr


def agent(search: Callable[[str], str]) -> ChatCompletionAgent:
    """Make an agent over a wrapped client."""
    service = OpenAIChatCompletion(
        ai_model_id="gpt-5", async_client=sr.wrap(AsyncOpenAI())
    )
    return ChatCompletionAgent(
        service=service,
        name="shop",
        plugins=[{"search": kernel_function(search)}],
    )


async def arun(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return str((await agent(search).get_response("Find tea.")).content)


def run(search: Callable[[str], str]) -> str:
    """Do the same; Semantic Kernel itself is async."""
    return asyncio.run(arun(search))


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Show the text as it arrives."""
    async for piece in agent(search).invoke_stream("Find tea."):
        show(str(piece.content))
