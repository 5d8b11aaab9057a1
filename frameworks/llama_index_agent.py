"""LlamaIndex's FunctionAgent."""

import asyncio
from collections.abc import Callable

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms import openai as llms
from openai import AsyncOpenAI, OpenAI

import strictreply as sr


async def arun(search: Callable[[str], str]) -> str:
    """Run an agent over wrapped clients to its answer."""
    llm = llms.OpenAI("gpt-4o", openai_client=sr.wrap(OpenAI()), async_openai_client=sr.wrap(AsyncOpenAI()))
    return str(await FunctionAgent(tools=[search], llm=llm, streaming=False).run("Find tea."))


def run(search: Callable[[str], str]) -> str:
    """Do the same; its agents are async."""
    return asyncio.run(arun(search))
