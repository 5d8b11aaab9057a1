"""The openai SDK's own tool runner, on the Responses API."""

from collections.abc import Callable
from typing import Any

from openai import AsyncOpenAI, OpenAI
from openai.lib.responses_tool_runner import (
    AsyncRegisteredFunction,
    AsyncResponsesToolRunner,
    RegisteredFunction,
    ResponsesToolRunner,
)

import strictreply as sr

ASKED = {"model": "gpt-5", "input": "Find tea."}
TOOL = {
    "type": "function",
    "name": "search",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
        "additionalProperties": False,
    },
    "strict": True,
}


def runner(search: Callable[[str], str]) -> ResponsesToolRunner:
    """Make a runner with one function."""
    function = RegisteredFunction(TOOL, execute=lambda given: search(**given))
    return ResponsesToolRunner(functions=[function])


def async_runner(search: Callable[[str], str]) -> AsyncResponsesToolRunner:
    """Make the same for an async client."""

    async def execute(given: dict[str, Any]) -> str:
        return search(**given)

    function = AsyncRegisteredFunction(TOOL, execute=execute)
    return AsyncResponsesToolRunner(functions=[function])


def run(search: Callable[[str], str]) -> str:
    """Run the calls to the answer; the client is given to each run."""
    client = sr.wrap(OpenAI())
    ended = runner(search).run(client, ASKED, max_steps=4)
    return ended.output_text


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    client = sr.wrap(AsyncOpenAI())
    ended = await async_runner(search).run(client, ASKED, max_steps=4)
    return ended.output_text


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text as it arrives."""

    def show_text(event: Any) -> None:
        if event.type == "response.output_text.delta":
            show(event.delta)

    client = sr.wrap(OpenAI())
    runner(search).run(
        client, ASKED, max_steps=4, stream=True, on_event=show_text
    )


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""

    async def show_text(event: Any) -> None:
        if event.type == "response.output_text.delta":
            show(event.delta)

    client = sr.wrap(AsyncOpenAI())
    await async_runner(search).run(
        client, ASKED, max_steps=4, stream=True, on_event=show_text
    )
