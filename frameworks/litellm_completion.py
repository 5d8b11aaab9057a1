"""LiteLLM's completion."""

import json
from collections.abc import Callable
from typing import Any

import litellm
from openai import AsyncOpenAI, OpenAI

import strictreply as sr

PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
ASK: dict[str, Any] = {
    "model": "openai/gpt-5",
    "tools": [{"type": "function", "function": {"name": "search", "parameters": PARAMETERS}}],
}


def results(message: Any, search: Callable[[str], str]) -> list[Any]:
    """Run what the model calls: its turn, and one result for each call."""
    tools = {"search": search}
    calls = [
        (call.id, tools[call.function.name], json.loads(call.function.arguments))
        for call in message.tool_calls
    ]
    found = [(name, function(**arguments)) for name, function, arguments in calls]

    return [
        message,
        *({"role": "tool", "tool_call_id": name, "content": result} for name, result in found),
    ]


def run(search: Callable[[str], str]) -> str:
    """Ask, run what the model calls, and ask again."""
    client = sr.wrap(OpenAI())
    turns = [{"role": "user", "content": "Find tea."}]
    while (
        message := litellm.completion(messages=turns, client=client, **ASK).choices[0].message
    ).tool_calls:
        turns += results(message, search)
    return message.content


async def arun(search: Callable[[str], str]) -> str:
    """Do the same, awaiting."""
    client = sr.wrap(AsyncOpenAI())
    turns = [{"role": "user", "content": "Find tea."}]
    while (
        message := (await litellm.acompletion(messages=turns, client=client, **ASK))
        .choices[0]
        .message
    ).tool_calls:
        turns += results(message, search)

    return message.content


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text as it comes; LiteLLM puts the chunks together again."""
    client = sr.wrap(OpenAI())
    turns = [{"role": "user", "content": "Find tea."}]

    while True:
        chunks = []
        for chunk in litellm.completion(messages=turns, client=client, stream=True, **ASK):
            chunks.append(chunk)
            show(chunk.choices[0].delta.content or "")

        message = litellm.stream_chunk_builder(chunks).choices[0].message
        if not message.tool_calls:
            return

        turns += results(message, search)


async def astream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Do the same, awaiting."""
    client = sr.wrap(AsyncOpenAI())
    turns = [{"role": "user", "content": "Find tea."}]

    while True:
        chunks = []
        async for chunk in await litellm.acompletion(
            messages=turns, client=client, stream=True, **ASK
        ):
            chunks.append(chunk)
            show(chunk.choices[0].delta.content or "")

        message = litellm.stream_chunk_builder(chunks).choices[0].message
        if not message.tool_calls:
            return

        turns += results(message, search)
