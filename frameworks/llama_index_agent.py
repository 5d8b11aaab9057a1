"""LlamaIndex's FunctionAgent."""

import asyncio
from collections.abc import Callable

from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms import openai as llms
from openai import AsyncOpenAI, OpenAI

import strictreply as sr


def model() -> llms.OpenAI:
    """Make a model over wrapped clients."""
    return llms.OpenAI(
        "gpt-4o",
        openai_client=sr.wrap(OpenAI()),
        async_openai_client=sr.wrap(AsyncOpenAI()),
    )


async def arun(search: Callable[[str], str]) -> str:
    """Run an agent to its answer."""
    agent = FunctionAgent(tools=[search], llm=model(), streaming=False)
    return str(await agent.run("Find tea."))


def run(search: Callable[[str], str]) -> str:
    """Do the same; its agents are async."""
    return asyncio.run(arun(search))


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Show the text as it arrives: its agents stream by default."""
    handler = FunctionAgent(tools=[search], llm=model()).run("Find tea.")
    async for event in handler.stream_events():
        if isinstance(event, AgentStream):
            show(event.delta)
    await handler


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Ask, show, and run the calls; no agent, because agents are async."""
    llm = model()
    tool = FunctionTool.from_defaults(search)
    turns = [ChatMessage("Find tea.")]

    while True:
        for reply in llm.stream_chat_with_tools([tool], chat_history=turns):
            show(reply.delta)

        calls = llm.get_tool_calls_from_response(
            reply, error_on_no_tool_call=False
        )
        if not calls:
            return

        turns.append(reply.message)
        for call in calls:
            text = str(tool(**call.tool_kwargs))
            name = call.tool_id
            turns.append(ChatMessage(text, role="tool", tool_call_id=name))
