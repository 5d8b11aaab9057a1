"""pydantic-ai, with a FallbackModel for when the first model fails."""

from collections.abc import AsyncIterable, Callable

from openai import AsyncOpenAI
from pydantic_ai import (
    Agent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import strictreply as sr


def agent(search: Callable[[str], str]) -> Agent:
    """Make an agent over wrapped clients."""
    provider = OpenAIProvider(openai_client=sr.wrap(AsyncOpenAI()))
    model = FallbackModel(
        OpenAIChatModel("gpt-5", provider=provider),
        OpenAIChatModel("gpt-4o", provider=provider),
    )
    return Agent(model, tools=[search])


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return agent(search).run_sync("Find tea.").output


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    return (await agent(search).run("Find tea.")).output


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
    """Show the text as it arrives, up to the answer.

    run_stream would end with the first text, even one before a call.
    """

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
