"""LiteLLM's completion."""

import json
from collections.abc import Callable
from typing import Any

import litellm
from openai import AsyncOpenAI, OpenAI

import strictreply as sr

PARAMETERS = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
}
FUNCTION = {"name": "search", "parameters": PARAMETERS}
ASK: dict[str, Any] = {
    "model": "openai/gpt-5",
    "tools": [{"type": "function", "function": FUNCTION}],
}


def results(message: Any, search: Callable[[str], str]) -> list[Any]:
    """Run the calls; return the model's turn and one result for each call."""
    tools = {"search": search}
    calls = []
    for call in message.tool_calls:
        function = tools[call.function.name]
        arguments = json.loads(call.function.arguments)
        calls.append((call.id, function, arguments))

    turns = [message]
    for name, function, arguments in calls:
        found = function(**arguments)
        turns.append({"role": "tool", "tool_call_id": name, "content": found})
    return turns


def run(search: Callable[[str], str]) -> str:
    """Send requests and run the called tools, until there is an answer."""
    asked = {"client": sr.wrap(OpenAI()), **ASK}
    turns = [{"role": "user", "content": "Find tea."}]
    while True:
        reply = litellm.completion(messages=turns, **asked)
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content
        turns += results(message, search)


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    asked = {"client": sr.wrap(AsyncOpenAI()), **ASK}
    turns = [{"role": "user", "content": "Find tea."}]
    while True:
        reply = await litellm.acompletion(messages=turns, **asked)
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content
        turns += results(message, search)


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text as it arrives; LiteLLM joins the chunks."""
    asked = {"client": sr.wrap(OpenAI()), "stream": True, **ASK}
    turns = [{"role": "user", "content": "Find tea."}]

    while True:
        chunks = []
        for chunk in litellm.completion(messages=turns, **asked):
            chunks.append(chunk)
            show(chunk.choices[0].delta.content or "")

        message = litellm.stream_chunk_builder(chunks).choices[0].message
        if not message.tool_calls:
            return

        turns += results(message, search)


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""
    asked = {"client": sr.wrap(AsyncOpenAI()), "stream": True, **ASK}
    turns = [{"role": "user", "content": "Find tea."}]

    while True:
        chunks = []
        async for chunk in await litellm.acompletion(messages=turns, **asked):
            chunks.append(chunk)
            show(chunk.choices[0].delta.content or "")

        message = litellm.stream_chunk_builder(chunks).choices[0].message
        if not message.tool_calls:
            return

        turns += results(message, search)
