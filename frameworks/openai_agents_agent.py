"""The OpenAI Agents SDK, on chat completions."""

from collections.abc import Callable

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

import strictreply as sr

set_tracing_disabled(True)


def agent(search: Callable[[str], str]) -> Agent:
    """Make an agent over a wrapped client."""
    model = OpenAIChatCompletionsModel(
        "gpt-5", openai_client=sr.wrap(AsyncOpenAI())
    )
    return Agent(name="shop", model=model, tools=[function_tool(search)])


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return Runner.run_sync(agent(search), "Find tea.").final_output


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    return (await Runner.run(agent(search), "Find tea.")).final_output


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Show the text as it arrives."""
    running = Runner.run_streamed(agent(search), "Find tea.")
    async for event in running.stream_events():
        if event.type != "raw_response_event":
            continue
        if event.data.type == "response.output_text.delta":
            show(event.data.delta)
