"""mirascope's llm.call, on chat completions."""

from collections.abc import Callable
from typing import Any

from mirascope import llm
from mirascope.llm.providers.openai.completions import (
    OpenAICompletionsProvider,
)
from openai import AsyncOpenAI, OpenAI

import strictreply as sr

MODEL = "openai/gpt-5:completions"


def provide() -> None:
    """Register a provider over wrapped clients, because it takes none."""
    provider = OpenAICompletionsProvider()
    provider.client = sr.wrap(OpenAI())
    provider.async_client = sr.wrap(AsyncOpenAI())
    llm.register_provider(provider, scope="openai/")


def call(search: Callable[[str], str]) -> Any:
    """Make the call."""

    @llm.call(MODEL, tools=[llm.tool(search)])
    def ask() -> str:
        return "Find tea."

    return ask


def acall(search: Callable[[str], str]) -> Any:
    """Make the same call, async."""

    async def asearch(query: str) -> str:
        """Search the shop."""
        return search(query)

    @llm.call(MODEL, tools=[llm.tool(asearch)])
    async def ask() -> str:
        return "Find tea."

    return ask


def run(search: Callable[[str], str]) -> str:
    """Send requests and run the called tools, until there is an answer."""
    provide()
    reply = call(search)()
    while reply.tool_calls:
        reply = reply.resume(reply.execute_tools())
    return reply.text()


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    provide()
    reply = await acall(search)()
    while reply.tool_calls:
        reply = await reply.resume(await reply.execute_tools())
    return reply.text()


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text as it arrives."""
    provide()
    reply = call(search).stream()
    while True:
        for piece in reply.text_stream():
            show(piece)
        if not reply.tool_calls:
            return
        reply = reply.resume(reply.execute_tools())


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""
    provide()
    reply = await acall(search).stream()
    while True:
        async for piece in reply.text_stream():
            show(piece)
        if not reply.tool_calls:
            return
        reply = await reply.resume(await reply.execute_tools())
