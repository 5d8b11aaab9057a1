"""LlamaIndex's FunctionAgent with its class for the Responses API."""

import asyncio
from collections.abc import Callable

from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai import OpenAIResponses
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

import strictreply as sr


class Answer(BaseModel):
    """A structured answer."""

    answer: str


def model() -> OpenAIResponses:
    """Make a model over wrapped clients."""
    return OpenAIResponses(
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


def answer(search: Callable[[str], str]) -> str:
    """Ask for an answer of a declared type, after the tool's result.

    LlamaIndex's agents do not use the API's own structured output.
    """
    asked = PromptTemplate("What is here? {found}")
    ask = model().structured_predict
    return ask(Answer, asked, found=search("tea")).answer


async def aanswer(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    asked = PromptTemplate("What is here? {found}")
    ask = model().astructured_predict
    return (await ask(Answer, asked, found=search("tea"))).answer


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
            of = {"call_id": call.tool_id}
            turns.append(ChatMessage(text, role="tool", additional_kwargs=of))
