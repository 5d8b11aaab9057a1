"""The headers of a guarded request are those that the raw SDK sends for the same call."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

import openai
import pytest
from openai._models import FinalRequestOptions
from openai.types.chat import ChatCompletion

import strictreply as sr
from support import scripted_responses as sdk
from support.scripted import SCHEMA, USER, Server, completion, http
from support.streamed_replies import streamed, streamed_response

RAW = "x-stainless-raw-response"
TOOLS = [{"type": "function", "function": {"name": "search", "parameters": SCHEMA}}]
CHAT: dict[str, Any] = {"model": "m", "messages": USER}
RESPONSES: dict[str, Any] = {"model": "m", "input": "find tea"}
TEXT = completion("It is sold out.")
TEXT_RESPONSE = sdk.response(sdk.text_item("It is sold out."))


class Answered(Server):
    """A server that answers by the path, with a stream where the request asks for one."""

    def __init__(self) -> None:
        super().__init__(TEXT)

    def handle(self, request: Any) -> Any:
        """Answer one request, which is kept."""
        self.requests.append(request)
        is_stream = b'"stream":true' in request.content.replace(b" ", b"")
        is_stream |= request.url.params.get("stream") == "true"
        if "responses" in request.url.path:
            if is_stream:
                return streamed_response(TEXT_RESPONSE)
            return http.Response(200, json=TEXT_RESPONSE)

        return streamed(TEXT) if is_stream else http.Response(200, json=TEXT)


def posted(client: Any, **given: Any) -> Any:
    """Make the same request by ``post``."""
    return client.post("/chat/completions", body=CHAT, cast_to=ChatCompletion, **given)


def requested(client: Any) -> Any:
    """Make the same request by ``request``."""
    url = "/chat/completions"
    final = FinalRequestOptions.construct(method="POST", url=url, json_data=CHAT)
    return client.request(ChatCompletion, final)


def streamed_post(client: Any) -> Any:
    """Make a streamed request by ``post``."""
    kind = openai.AsyncStream if isinstance(client, openai.AsyncOpenAI) else openai.Stream
    body = CHAT | {"stream": True}
    chunk = openai.types.chat.ChatCompletionChunk
    given: dict[str, Any] = {"body": body, "cast_to": chunk, "stream": True}
    return client.post("/chat/completions", stream_cls=kind[chunk], **given)


WAYS: Mapping[str, Callable[[Any], Any]] = {
    "create": lambda client: client.chat.completions.create(**CHAT),
    "create_tools": lambda client: client.chat.completions.create(**CHAT, tools=TOOLS),
    "create_headers": lambda client: client.chat.completions.create(
        **CHAT, extra_headers={"x-team": "red", "Content-Type": "application/json; a=b"}
    ),
    "create_timeout": lambda client: client.chat.completions.create(**CHAT, timeout=7),
    "parse": lambda client: client.chat.completions.parse(**CHAT),
    "stream": lambda client: client.chat.completions.create(**CHAT, stream=True),
    "raw": lambda client: client.chat.completions.with_raw_response.create(**CHAT),
    "raw_parse": lambda client: client.chat.completions.with_raw_response.parse(**CHAT),
    "raw_stream": lambda client: client.chat.completions.with_raw_response.create(
        **CHAT, stream=True
    ),
    "streaming": lambda client: client.chat.completions.with_streaming_response.create(**CHAT),
    "streaming_stream": lambda client: client.chat.completions.with_streaming_response.create(
        **CHAT, stream=True
    ),
    "beta": lambda client: client.beta.chat.completions.create(**CHAT),
    "responses": lambda client: client.responses.create(**RESPONSES),
    "responses_stream": lambda client: client.responses.create(**RESPONSES, stream=True),
    "responses_raw": lambda client: client.responses.with_raw_response.create(**RESPONSES),
    "responses_streaming": lambda client: client.responses.with_streaming_response.create(
        **RESPONSES
    ),
    "retrieve": lambda client: client.chat.completions.retrieve("chatcmpl-1"),
    "retrieve_response": lambda client: client.responses.retrieve("resp_1"),
    "retrieve_raw": lambda client: client.responses.with_raw_response.retrieve("resp_1"),
    "retrieve_streaming": lambda client: client.responses.with_streaming_response.retrieve(
        "resp_1"
    ),
    "retrieve_stream": lambda client: client.responses.retrieve("resp_1", stream=True),
    "update": lambda client: client.chat.completions.update("chatcmpl-1", metadata={}),
    "cancel": lambda client: client.responses.cancel("resp_1"),
    "post": posted,
    "post_raw": lambda client: posted(client, options={"headers": {RAW: "true"}}),
    "post_streaming": lambda client: posted(client, options={"headers": {RAW: "stream"}}),
    "post_other": lambda client: posted(client, options={"headers": {RAW: "raw"}}),
    "post_stream": streamed_post,
    "request": requested,
}


async def adone(given: Any) -> str:
    """Use what an async call returns, and say its class."""
    if isinstance(given, AbstractAsyncContextManager):
        async with given as response:
            return f"{type(response).__name__}: {type(await response.parse()).__name__}"

    made = await given
    if isinstance(made, openai.AsyncStream):
        async for _ in made:
            pass
    return type(made).__name__


def done(given: Any) -> str:
    """Use what a call returns, and say its class."""
    if inspect.isawaitable(given) or isinstance(given, AbstractAsyncContextManager):
        return asyncio.run(adone(given))

    if isinstance(given, openai.Stream):
        list(given)
    elif isinstance(given, AbstractContextManager):
        with given as response:
            return f"{type(response).__name__}: {type(response.parse()).__name__}"
    return type(given).__name__


def sent_by(way: str, *, is_async: bool, is_guarded: bool, is_watched: bool) -> Any:
    """Return the class of what came of a call, and the headers of its one request.

    The length is that of the body, which may say more than the caller's.
    """
    server = Answered()
    raw: Any = server.async_client() if is_async else server.client()
    if is_watched:
        raw.post = watched(raw.post)
        raw.chat.completions.create = watched(raw.chat.completions.create)

    kind = done(WAYS[way](sr.wrap(raw) if is_guarded else raw))
    (request,) = server.requests
    headers = dict(request.headers.multi_items())
    headers.pop("content-length", None)
    return {"kind": kind, **headers}


def watched(method: Any) -> Any:
    """Return a function that stands over a method."""

    def over_it(*given: Any, **named: Any) -> Any:
        return method(*given, **named)

    return over_it


@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_the_headers_are_the_raw_sdks(way: str, *, is_async: bool, is_watched: bool) -> None:
    """Header by header what the raw client sends, also the one of its own raw responses."""
    raw = sent_by(way, is_async=is_async, is_guarded=False, is_watched=is_watched)
    assert sent_by(way, is_async=is_async, is_guarded=True, is_watched=is_watched) == raw


def test_a_repeat_is_counted_as_the_sdk_counts() -> None:
    """A repeat after a failure says its number; nothing else of ours is in the headers."""
    server = Server(http.Response(500), TEXT)
    client = sr.wrap(server.client(), policy=sr.RetryPolicy(wait=lambda _: 0.0))
    client.chat.completions.create(**CHAT)
    first, second = (dict(request.headers) for request in server.requests)
    assert (first.pop("x-stainless-retry-count"), second.pop("x-stainless-retry-count")) == (
        "0",
        "1",
    )
    assert first == second
    assert RAW not in first
