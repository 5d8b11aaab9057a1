"""LangChain's create_agent."""

from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, OpenAI

import strictreply as sr


def agent(search: Callable[[str], str]) -> Any:
    """Make an agent over wrapped clients."""
    completions, asynchronous = sr.wrap(OpenAI()).chat.completions, sr.wrap(AsyncOpenAI()).chat.completions
    return create_agent(ChatOpenAI(model="gpt-5", client=completions, async_client=asynchronous), tools=[search])


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return agent(search).invoke({"messages": [("user", "Find tea.")]})["messages"][-1].text


async def arun(search: Callable[[str], str]) -> str:
    """Do the same, awaiting."""
    return (await agent(search).ainvoke({"messages": [("user", "Find tea.")]}))["messages"][-1].text
