"""The OpenAI Agents SDK with its default, the Responses API."""

from collections.abc import Callable

from agents import (
    Agent,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel

import strictreply as sr

set_tracing_disabled(True)


class Answer(BaseModel):
    """A structured answer."""

    answer: str


def agent(search: Callable[[str], str], output_type: type = str) -> Agent:
    """Make an agent over a wrapped client.

    set_default_openai_client(client) sets it for every agent.
    """
    model = OpenAIResponsesModel(
        "gpt-5", openai_client=sr.wrap(AsyncOpenAI())
    )
    return Agent(
        name="shop",
        model=model,
        tools=[function_tool(search)],
        output_type=output_type,
    )


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return Runner.run_sync(agent(search), "Find tea.").final_output


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    return (await Runner.run(agent(search), "Find tea.")).final_output


async def aanswer(search: Callable[[str], str]) -> str:
    """Run an agent to an answer of a declared type."""
    ended = await Runner.run(agent(search, Answer), "Find tea.")
    return ended.final_output.answer


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
