"""A server of the Messages API in memory, and clients of the anthropic SDK for it.

Its replies are small ones in the shape of recorded ones. Nothing here sleeps or connects.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
from collections.abc import AsyncIterable, Iterable, Iterator
from typing import Any, TypeAlias

import pytest
from pydantic import BaseModel, Field

JSONObject: TypeAlias = dict[str, Any]

anthropic: Any = pytest.importorskip("anthropic", reason="needs the anthropic SDK")

http: Any = importlib.import_module(
    anthropic.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]
)
"""The HTTP library under the installed SDK: httpx2 under anthropic 2, httpx before it."""

ASK: JSONObject = {
    "model": "claude-x",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "find tea"}],
}

WEATHER: JSONObject = {
    "name": "weather",
    "description": "The weather.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


class Age(BaseModel):
    """An answer whose bounds the SDK leaves out of the schema that it sends."""

    age: int = Field(ge=0, le=10)


def text(words: str) -> JSONObject:
    """Return a block of text."""
    return {"type": "text", "text": words}


def use(name: str, arguments: JSONObject, id_: str = "toolu_1") -> JSONObject:
    """Return a block that calls a tool."""
    return {"type": "tool_use", "id": id_, "name": name, "input": arguments}


def message(*blocks: JSONObject, stop: str | None = None, **more: Any) -> JSONObject:
    """Return a whole message around blocks."""
    reason = "tool_use" if any(one["type"] == "tool_use" for one in blocks) else "end_turn"
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": list(blocks),
        "stop_reason": stop or reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 5},
        **more,
    }


BAD = message(text('{"age": 50}'))
GOOD = message(text('{"age": 5}'))


def events_of(whole: JSONObject) -> Iterator[JSONObject]:
    """Yield the events of a stream that bring a message: text in two pieces, input in one."""
    begun = whole | {"content": [], "stop_reason": None}
    yield {"type": "message_start", "message": begun}

    for index, block in enumerate(whole["content"]):
        empty: JSONObject = {"text": ""} if block["type"] == "text" else {"input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": block | empty}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}

    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def _deltas(block: JSONObject) -> Iterator[JSONObject]:
    if block["type"] != "text":
        yield {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        return

    for piece in (block["text"][:4], block["text"][4:]):
        yield {"type": "text_delta", "text": piece}


def sse(events: Iterable[JSONObject]) -> bytes:
    """Return events as the API sends them."""
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


def failed(status: int, kind: str, **headers: str) -> Any:
    """Return the response of an error."""
    body = {"type": "error", "error": {"type": kind, "message": "sorry"}, "request_id": "req_9"}
    return http.Response(status, headers={"request-id": "req_9", **headers}, json=body)


class ClaudeServer:
    """Gives replies in order, the last one again and again, and keeps the requests.

    A reply is a message, or a response.
    """

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.requests: list[Any] = []

    def handle(self, request: Any) -> Any:
        """Answer a request."""
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return reply if isinstance(reply, http.Response) else self.response(request, reply)

    def response(self, request: Any, reply: JSONObject) -> Any:
        """Return the response that brings a message."""
        headers = {"request-id": "req_1", "anthropic-workspace-id": "wrkspc_1"}
        if not json.loads(request.content).get("stream"):
            return http.Response(200, headers=headers, json=reply)

        kind = {"content-type": "text/event-stream"}
        return http.Response(200, headers=headers | kind, content=sse(events_of(reply)))

    async def ahandle(self, request: Any) -> Any:
        """Answer a request of an async client."""
        return self.handle(request)

    def bodies(self) -> list[JSONObject]:
        """Return the bodies of the requests."""
        return [json.loads(one.content) for one in self.requests]


def over(server: ClaudeServer, kind: str = "Anthropic", **given: Any) -> Any:
    """Return a client of the SDK, of a class by its name, whose requests go to a server."""
    own: Any = http.Client(transport=http.MockTransport(server.handle))
    if kind.startswith("Async"):
        own = http.AsyncClient(transport=http.MockTransport(server.ahandle))

    return getattr(anthropic, kind)(http_client=own, **given)


def client(server: ClaudeServer, *, is_async: bool = False, **given: Any) -> Any:
    """Return a client for Anthropic's own servers."""
    kind = "AsyncAnthropic" if is_async else "Anthropic"
    return over(server, kind, **{"api_key": "k", "base_url": "http://claude.test"} | given)


def done(value: Any) -> Any:
    """Return what a sync call returned, or what an async one brings."""
    if not inspect.isawaitable(value):
        return value

    async def wait() -> object:
        return await value

    return asyncio.run(wait())


def pieces(stream: Any) -> list[Any]:
    """Return all that a stream yields, sync or async, also one that is still to be opened."""

    async def read() -> list[object]:
        opened: Any = await stream if inspect.isawaitable(stream) else stream
        return [one async for one in opened]

    if inspect.isawaitable(stream) or isinstance(stream, AsyncIterable):
        return asyncio.run(read())

    return list(stream)


def final(manager: Any) -> Any:
    """Return the final message of the SDK's own stream."""

    async def read() -> object:
        async with manager as stream:
            return await stream.get_final_message()

    if hasattr(manager, "__aenter__"):
        return asyncio.run(read())

    with manager as stream:
        return stream.get_final_message()
