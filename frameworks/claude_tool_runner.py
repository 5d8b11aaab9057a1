"""The anthropic SDK's own tool runner."""

from collections.abc import Callable
from typing import Any

from anthropic import Anthropic, AsyncAnthropic, beta_async_tool, beta_tool

import strictreply as sr

ASKED: dict[str, Any] = {
    "model": "claude-opus-4-8",
    "max_tokens": 4000,
    "thinking": {"type": "adaptive"},
    "messages": [{"role": "user", "content": "Find tea."}],
}


def run(search: Callable[[str], str]) -> str:
    """Run the calls to the answer."""
    client = sr.wrap(Anthropic())
    tools = [beta_tool(search)]
    runner = client.beta.messages.tool_runner(tools=tools, **ASKED)
    return runner.until_done().content[-1].text


def async_tool(search: Callable[[str], str]) -> Any:
    """Make a tool of an async client."""

    async def asearch(query: str) -> str:
        return search(query)

    return beta_async_tool(asearch, name="search", description="Search.")


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    client = sr.wrap(AsyncAnthropic())
    tools = [async_tool(search)]
    runner = client.beta.messages.tool_runner(tools=tools, **ASKED)
    return (await runner.until_done()).content[-1].text


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text as it arrives."""
    client = sr.wrap(Anthropic())
    asked = {"tools": [beta_tool(search)], "stream": True, **ASKED}
    for replying in client.beta.messages.tool_runner(**asked):
        for event in replying:
            if event.type == "text":
                show(event.text)


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""
    client = sr.wrap(AsyncAnthropic())
    asked = {"tools": [async_tool(search)], "stream": True, **ASKED}
    async for replying in client.beta.messages.tool_runner(**asked):
        async for event in replying:
            if event.type == "text":
                show(event.text)
