"""LangChain's ChatAnthropic, with a tool bound to it."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from anthropic import Anthropic, AsyncAnthropic
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from pydantic import BaseModel

import strictreply as sr


class Answer(BaseModel):
    """A structured answer."""

    answer: str


class GuardedClaude(ChatAnthropic):
    """ChatAnthropic takes no client, so this wraps the two it makes."""

    @cached_property
    def _client(self) -> Anthropic:
        return sr.wrap(super()._client)

    @cached_property
    def _async_client(self) -> AsyncAnthropic:
        return sr.wrap(super()._async_client)


def model() -> ChatAnthropic:
    """Make a model over wrapped clients."""
    thinking = {"type": "adaptive"}
    return GuardedClaude(model="claude-opus-4-8", thinking=thinking)


def ask(search: Callable[[str], str]) -> tuple[Any, Any, list]:
    """Return the model with the tool bound, the tool, and the turns."""
    found = tool(search)
    return model().bind_tools([found]), found, [("user", "Find tea.")]


def run(search: Callable[[str], str]) -> str:
    """Send requests and run the called tools, until there is an answer."""
    bound, run_tool, turns = ask(search)
    while calls := (reply := bound.invoke(turns)).tool_calls:
        turns += [reply, *map(run_tool.invoke, calls)]
    return reply.text


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    bound, run_tool, turns = ask(search)
    while calls := (reply := await bound.ainvoke(turns)).tool_calls:
        turns += [reply, *[await run_tool.ainvoke(call) for call in calls]]
    return reply.text


def answer(search: Callable[[str], str]) -> str:
    """Ask for an answer of a declared type, after the tool's result."""
    typed = model().with_structured_output(Answer, method="json_schema")
    return typed.invoke(f"What is here? {search('tea')}").answer


async def aanswer(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    typed = model().with_structured_output(Answer, method="json_schema")
    return (await typed.ainvoke(f"What is here? {search('tea')}")).answer


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text as it arrives; the chunks add up to the reply."""
    bound, run_tool, turns = ask(search)
    calls = None
    while calls != []:
        reply = None
        for chunk in bound.stream(turns):
            show(chunk.text)
            reply = chunk if reply is None else reply + chunk

        calls = reply.tool_calls
        turns += [reply, *map(run_tool.invoke, calls)]


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""
    bound, run_tool, turns = ask(search)
    calls = None
    while calls != []:
        reply = None
        async for chunk in bound.astream(turns):
            show(chunk.text)
            reply = chunk if reply is None else reply + chunk

        calls = reply.tool_calls
        turns += [reply, *[await run_tool.ainvoke(call) for call in calls]]
