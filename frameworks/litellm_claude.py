"""LiteLLM's completion on Claude, which it calls with its own HTTP client."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import litellm

import strictreply as sr

PARAMETERS = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
}
FUNCTION = {"name": "search", "parameters": PARAMETERS}
ASK: dict[str, Any] = {
    "model": "anthropic/claude-opus-4-8",
    "thinking": {"type": "adaptive"},
    "tools": [{"type": "function", "function": FUNCTION}],
}


def guarded(create: Callable[..., Any]) -> Callable[..., Any]:
    """Return LiteLLM's function as the guarded create of a client."""
    completions = SimpleNamespace(create=create)
    client = SimpleNamespace(chat=SimpleNamespace(completions=completions))
    return sr.wrap(client).chat.completions.create


def turns_of(message: Any, search: Callable[[str], str]) -> list[Any]:
    """Run the calls; return the model's turn and one result for each call."""
    turns = [message]
    for call in message.tool_calls or ():
        found = search(**json.loads(call.function.arguments))
        turn = {"role": "tool", "tool_call_id": call.id, "content": found}
        turns.append(turn)
    return turns


def as_chunk(piece: Any) -> litellm.ModelResponseStream:
    """Return a piece of a guarded stream as a LiteLLM chunk.

    Calls are dictionaries; they follow when the whole reply has passed.
    """
    is_plain = isinstance(piece, dict)
    return litellm.ModelResponseStream(**piece) if is_plain else piece


def run(search: Callable[[str], str]) -> str:
    """Send requests and run the called tools, until there is an answer."""
    completion = guarded(litellm.completion)
    turns: list[Any] = [{"role": "user", "content": "Find tea."}]
    while getattr(turns[-1], "role", "") != "assistant":
        reply = completion(messages=turns, **ASK)
        turns += turns_of(reply.choices[0].message, search)
    return turns[-1].content


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    acompletion = guarded(litellm.acompletion)
    turns: list[Any] = [{"role": "user", "content": "Find tea."}]
    while getattr(turns[-1], "role", "") != "assistant":
        reply = await acompletion(messages=turns, **ASK)
        turns += turns_of(reply.choices[0].message, search)
    return turns[-1].content


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text as it arrives; LiteLLM joins the chunks."""
    completion = guarded(litellm.completion)
    turns: list[Any] = [{"role": "user", "content": "Find tea."}]
    while getattr(turns[-1], "role", "") != "assistant":
        chunks = []
        for piece in completion(messages=turns, stream=True, **ASK):
            chunks.append(as_chunk(piece))
            show(chunks[-1].choices[0].delta.content or "")

        built = litellm.stream_chunk_builder(chunks)
        turns += turns_of(built.choices[0].message, search)


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""
    acompletion = guarded(litellm.acompletion)
    turns: list[Any] = [{"role": "user", "content": "Find tea."}]
    while getattr(turns[-1], "role", "") != "assistant":
        chunks = []
        async for piece in await acompletion(
            messages=turns, stream=True, **ASK
        ):
            chunks.append(as_chunk(piece))
            show(chunks[-1].choices[0].delta.content or "")

        built = litellm.stream_chunk_builder(chunks)
        turns += turns_of(built.choices[0].message, search)
