"""LangChain's create_agent."""

from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessageChunk
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, OpenAI

import strictreply as sr

ASKED = {"messages": [("user", "Find tea.")]}


def agent(search: Callable[[str], str]) -> Any:
    """Make an agent over wrapped clients."""
    model = ChatOpenAI(
        model="gpt-5",
        client=sr.wrap(OpenAI()).chat.completions,
        async_client=sr.wrap(AsyncOpenAI()).chat.completions,
    )
    return create_agent(model, tools=[search])


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return agent(search).invoke(ASKED)["messages"][-1].text


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    return (await agent(search).ainvoke(ASKED))["messages"][-1].text


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text of the model's messages as it arrives."""
    for chunk, _ in agent(search).stream(ASKED, stream_mode="messages"):
        if isinstance(chunk, AIMessageChunk):
            show(chunk.text)


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with the agent's async events."""
    async for event in agent(search).astream_events(ASKED, version="v2"):
        if event["event"] == "on_chat_model_stream":
            show(event["data"]["chunk"].text)
