"""Asking a wrapped client that a scripted model answers over the real SDK.

The faults of one kind are given as well.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import strictreply as sr
from strictreply.testing import Kind, ScriptedModel, no_backoff, ok
from strictreply.testing.faults import CATALOGUE, Entry
from strictreply.testing.mounting import async_openai_client, openai_client

SEARCH = sr.Tool.from_json_schema(
    "search",
    {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
        "required": ["query"],
    },
)
ASKED: Any = {"model": "m", "messages": [{"role": "user", "content": "find tea"}]}
CALL = ok.call(SEARCH, query="tea")
CALLED = sr.ToolCall("search", {"query": "tea"}, "call_1")


def entries_of(kind: Kind, api: str = "chat") -> list[Entry]:
    """Return the faults of one kind that an API can have, in the order of the catalogue."""
    return [entry for entry in entries_over(api) if entry.kind is kind]


def entries_over(api: str = "chat") -> list[Entry]:
    """Return the faults that an API can have, in the order of the catalogue."""
    return [entry for entry in CATALOGUE.values() if entry.api in ("", api)]


def ask(client: Any, transport_retries: int = 0) -> Any:
    """Ask through a wrapped sync client: no correction, and no wait before a retry."""
    policy = sr.RetryPolicy(max_retries=0, transport_retries=transport_retries)
    with no_backoff():
        return _numbered(sr.wrap(client, tools=[SEARCH], policy=policy).reply(**ASKED))


async def ask_async(client: Any, transport_retries: int = 0) -> Any:
    """Ask as :func:`ask` does, through the async twin."""
    policy = sr.RetryPolicy(max_retries=0, transport_retries=transport_retries)
    with no_backoff():
        return _numbered(await sr.wrap(client, tools=[SEARCH], policy=policy).reply(**ASKED))


def _numbered(reply: Any) -> Any:
    """Set the first call's id on a call: a script uses a new one in every reply."""
    return replace(reply, id="call_1") if isinstance(reply, sr.ToolCall) else reply


def ask_in_memory(
    model: ScriptedModel, transport_retries: int = 0, *, asynchronous: bool = False
) -> Any:
    """Ask over an in-memory transport."""
    if asynchronous:
        return asyncio.run(ask_async(async_openai_client(model), transport_retries))
    return ask(openai_client(model), transport_retries)


def codes_of(error: sr.TransportFailed) -> list[str]:
    """Return the codes of a failed call.

    They are the kind of its failure, and the issues of the response.
    """
    return [error.reason, *(issue.code for issue in error.attempts[-1].issues)]
