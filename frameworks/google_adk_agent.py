"""Google's ADK, over its LiteLlm model."""

import asyncio
from collections.abc import AsyncIterator, Callable

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.events import Event
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, Part
from openai import AsyncOpenAI

import strictreply as sr

ASKED = Content(role="user", parts=[Part(text="Find tea.")])


async def events(
    search: Callable[[str], str], mode: StreamingMode
) -> AsyncIterator[Event]:
    """Run an agent; LiteLlm passes its keywords to LiteLLM."""
    model = LiteLlm("openai/gpt-5", client=sr.wrap(AsyncOpenAI()))
    agent = LlmAgent(name="shop", model=model, tools=[search])
    runner = InMemoryRunner(agent, app_name="shop")
    session = await runner.session_service.create_session(
        app_name="shop", user_id="user"
    )
    config = RunConfig(streaming_mode=mode)
    async for event in runner.run_async(
        user_id="user",
        session_id=session.id,
        new_message=ASKED,
        run_config=config,
    ):
        yield event


def text_of(event: Event) -> str:
    """Return the text of an event."""
    parts = event.content.parts if event.content else []
    return "".join(part.text or "" for part in parts)


async def arun(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    text = ""
    async for event in events(search, StreamingMode.NONE):
        if event.is_final_response():
            text = text_of(event)
    return text


def run(search: Callable[[str], str]) -> str:
    """Do the same; ADK itself is async."""
    return asyncio.run(arun(search))


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Show the text as it arrives."""
    async for event in events(search, StreamingMode.SSE):
        if event.partial:
            show(text_of(event))
