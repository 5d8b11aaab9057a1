"""LangChain's create_agent with ChatOpenAI on the Responses API."""

from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.messages import AIMessageChunk
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

import strictreply as sr

ASKED = {"messages": [("user", "Find tea.")]}


class Answer(BaseModel):
    """A structured answer."""

    answer: str


def agent(search: Callable[[str], str], **options: Any) -> Any:
    """Make an agent; this API needs the root clients."""
    client = sr.wrap(OpenAI())
    asynchronous = sr.wrap(AsyncOpenAI())
    model = ChatOpenAI(
        model="gpt-5",
        use_responses_api=True,
        client=client.chat.completions,
        async_client=asynchronous.chat.completions,
        root_client=client,
        root_async_client=asynchronous,
    )
    return create_agent(model, tools=[search], **options)


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return agent(search).invoke(ASKED)["messages"][-1].text


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    return (await agent(search).ainvoke(ASKED))["messages"][-1].text


def answer(search: Callable[[str], str]) -> str:
    """Run an agent to an answer of a declared type."""
    typed = agent(search, response_format=ProviderStrategy(Answer))
    return typed.invoke(ASKED)["structured_response"].answer


async def aanswer(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    typed = agent(search, response_format=ProviderStrategy(Answer))
    return (await typed.ainvoke(ASKED))["structured_response"].answer


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
