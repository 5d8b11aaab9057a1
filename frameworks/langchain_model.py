"""LangChain's ChatOpenAI, with a tool bound to it."""

from collections.abc import Callable

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, OpenAI

import strictreply as sr


def model() -> ChatOpenAI:
    """Make a model over wrapped clients."""
    return ChatOpenAI(
        model="gpt-5",
        client=sr.wrap(OpenAI()).chat.completions,
        async_client=sr.wrap(AsyncOpenAI()).chat.completions,
    )


def run(search: Callable[[str], str]) -> str:
    """Send requests and run the called tools, until there is an answer."""
    tools = {"search": tool(search)}
    bound = model().bind_tools(tools.values())
    turns: list = [("user", "Find tea.")]
    while calls := (reply := bound.invoke(turns)).tool_calls:
        turns.append(reply)
        turns += [tools[call["name"]].invoke(call) for call in calls]
    return reply.text


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    tools = {"search": tool(search)}
    bound = model().bind_tools(tools.values())
    turns: list = [("user", "Find tea.")]
    while calls := (reply := await bound.ainvoke(turns)).tool_calls:
        turns.append(reply)
        turns += [await tools[call["name"]].ainvoke(call) for call in calls]
    return reply.text


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text as it arrives; the chunks add up to the reply."""
    tools = {"search": tool(search)}
    bound = model().bind_tools(tools.values())
    turns: list = [("user", "Find tea.")]

    while True:
        reply = None
        for chunk in bound.stream(turns):
            show(chunk.text)
            reply = chunk if reply is None else reply + chunk

        calls = reply.tool_calls
        if not calls:
            return

        turns.append(reply)
        turns += [tools[call["name"]].invoke(call) for call in calls]


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""
    tools = {"search": tool(search)}
    bound = model().bind_tools(tools.values())
    turns: list = [("user", "Find tea.")]

    while True:
        reply = None
        async for chunk in bound.astream(turns):
            show(chunk.text)
            reply = chunk if reply is None else reply + chunk

        calls = reply.tool_calls
        if not calls:
            return

        turns.append(reply)
        turns += [await tools[call["name"]].ainvoke(call) for call in calls]
