"""Clients that are not the anthropic SDK's and have ``messages.create``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import strictreply as sr
from support.messages import ASKED, SEARCH, events, message, use

WRONG = message(use({"query": 1}))
GOOD = message(use({"query": "tea"}))
ASK: dict[str, Any] = ASKED | {"tools": [SEARCH]}


def client(*replies: Any, asked: list[Any]) -> Any:
    """Return a client that gives these messages in order, and notes what it is asked."""
    left = list(replies)

    def create(**keywords: Any) -> Any:
        asked.append(keywords)
        reply = left.pop(0)
        return iter(events(reply)) if keywords.get("stream") else reply

    return SimpleNamespace(messages=SimpleNamespace(create=create))


def async_client(*replies: Any, asked: list[Any]) -> Any:
    """Return the same, async."""
    plain = client(*replies, asked=asked)

    async def told(came: Iterator[Any]) -> AsyncIterator[Any]:
        for event in came:
            yield event

    async def create(**keywords: Any) -> Any:
        came = plain.messages.create(**keywords)
        return told(came) if keywords.get("stream") else came

    return SimpleNamespace(messages=SimpleNamespace(create=create))


def inputs_in(told: list[Any]) -> str:
    """Return the pieces of the inputs in the events of a stream."""
    deltas = [event["delta"] for event in told if event["type"] == "content_block_delta"]
    return "".join(delta["partial_json"] for delta in deltas)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_of_ones_own_is_guarded(stream: bool) -> None:
    """Its ``messages.create`` gives a good reply, and the bad one was corrected by a result."""
    asked: list[Any] = []
    wrapped = sr.wrap(client(WRONG, GOOD, asked=asked), api="messages")
    came = wrapped.messages.create(stream=stream, **ASK)
    if stream:
        assert inputs_in(list(came)) == '{"query": "tea"}'
    else:
        assert came["content"][0]["input"] == {"query": "tea"}

    [result] = asked[1]["messages"][-1]["content"]
    assert (result["type"], result["tool_use_id"]) == ("tool_result", "toolu_a")
    assert len(asked) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_an_async_client_of_ones_own_is_guarded(stream: bool) -> None:
    """The same holds for an async client."""
    asked: list[Any] = []
    wrapped: Any = sr.wrap(async_client(WRONG, GOOD, asked=asked), api="messages")

    async def run() -> Any:
        came = await wrapped.messages.create(stream=stream, **ASK)
        return [event async for event in came] if stream else came

    came = asyncio.run(run())
    if stream:
        assert inputs_in(came) == '{"query": "tea"}'
    else:
        assert came["content"][0]["input"] == {"query": "tea"}
    assert len(asked) == 2


def test_a_client_without_the_api_is_refused() -> None:
    """A client with ``messages`` alone has no chat completions, which is said at once."""
    with pytest.raises(TypeError, match="messages"):
        sr.wrap(client(asked=[]))
