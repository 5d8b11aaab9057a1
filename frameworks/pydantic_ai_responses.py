"""pydantic-ai's model for the Responses API."""

from collections.abc import AsyncIterable, Callable
from typing import Any

from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    NativeOutput,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

import strictreply as sr


class Answer(BaseModel):
    """A structured answer."""

    answer: str


def agent(
    search: Callable[[str], str], output_type: Any = str
) -> Agent[None, Any]:
    """Make an agent over a wrapped client."""
    provider = OpenAIProvider(openai_client=sr.wrap(AsyncOpenAI()))
    model = OpenAIResponsesModel("gpt-5", provider=provider)
    return Agent(model, tools=[search], output_type=output_type)


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return agent(search).run_sync("Find tea.").output


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    return (await agent(search).run("Find tea.")).output


async def aanswer(search: Callable[[str], str]) -> str:
    """Run an agent to an answer of a declared type."""
    ended = await agent(search, NativeOutput(Answer)).run("Find tea.")
    return ended.output.answer


def text_of(event: object) -> str:
    """Return what an event adds to the text."""
    match event:
        case (
            PartStartEvent(part=TextPart(content=text))
            | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
        ):
            return text
        case _:
            return ""


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text as it arrives, up to the answer."""

    async def show_each(_: object, events: AsyncIterable[object]) -> None:
        async for event in events:
            show(text_of(event))

    agent(search).run_sync("Find tea.", event_stream_handler=show_each)


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""
    async with agent(search).run_stream_events("Find tea.") as events:
        async for event in events:
            show(text_of(event))
