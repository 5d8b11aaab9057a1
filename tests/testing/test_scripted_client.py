"""Clients without HTTP: they give, stream and raise what the SDK does, and ask what the SDK asks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion

import strictreply as sr
from scripted import USER
from strictreply.testing._scripted_client import AsyncScriptedClient, ScriptedClient
from strictreply.testing._wire import Ending, HTTPReply, Responder, assistant, completion, error_reply, native_call
from strictreply.testing.mounting import openai_client
from strictreply.values._json import JSONObject

ASK: JSONObject = {"model": "m", "messages": USER}
GOOD = completion(assistant("hi"))
SPOILED = completion({"role": 3, "content": [], "tool_calls": [{"id": None, "function": {"arguments": {"a": 1}}}, 5]})


def always(served: Any) -> Responder:
    """Serve the same for every request."""
    return lambda _: served


def create(served: Any, **options: Any) -> Any:
    """Ask the sync client once."""
    return ScriptedClient(always(served)).chat.completions.create(**ASK, **options)


async def acreate(served: Any, **options: Any) -> Any:
    """Ask the async client once."""
    return await AsyncScriptedClient(always(served)).chat.completions.create(**ASK, **options)


@pytest.mark.parametrize("served", [GOOD, SPOILED, {}, {"choices": None}, {"error": {"message": "no"}}, [], "text", 5])
def test_it_gives_what_the_sdk_gives(served: Any) -> None:
    """A completion is the SDK's own object, faults and all; what is no object is what the SDK makes of it."""
    wanted = openai_client(always(served)).chat.completions.create(**ASK)
    for given in (create(served), asyncio.run(acreate(served))):
        assert type(given) is type(wanted)
        assert given == wanted


def test_a_fault_survives() -> None:
    """Nothing is checked and nothing lost: the object holds what was served."""
    given = create(SPOILED)
    assert isinstance(given, ChatCompletion)
    assert given.model_dump(exclude_unset=True, warnings=False) == SPOILED


def test_a_stream_is_the_sdks_own() -> None:
    """Chunks come one by one, and the stream can be closed before its end."""

    async def twin() -> str:
        stream = await acreate(GOOD, stream=True)
        assert isinstance(stream, openai.AsyncStream)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    stream = create(GOOD, stream=True)
    assert isinstance(stream, openai.Stream)
    assert next(iter(stream)).choices[0].delta.role == "assistant"
    stream.close()
    assert asyncio.run(twin()) == "hi"


@pytest.mark.parametrize(
    ("served", "error"),
    [
        (error_reply(400, "no"), openai.BadRequestError),
        (error_reply(429, "slow down", headers={"Retry-After": "7"}), openai.RateLimitError),
        (error_reply(529, "busy"), openai.InternalServerError),
        (HTTPReply(ending=Ending.HANG), openai.APITimeoutError),
        (HTTPReply(ending=Ending.RESET), openai.APIConnectionError),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_it_raises_what_the_sdk_raises(served: HTTPReply, error: type[Exception], stream: bool) -> None:
    """HTTP errors and broken connections are the SDK's exceptions, raised by itself, and asked for only once."""
    with pytest.raises(error) as caught:
        create(served, stream=stream)
    with pytest.raises(error):
        asyncio.run(acreate(served, stream=stream))
    if isinstance(caught.value, openai.RateLimitError):
        assert (caught.value.status_code, caught.value.response.headers["retry-after"]) == (429, "7")


def test_what_only_bytes_can_say_is_said() -> None:
    """A page in HTML is to this client what it is to the SDK."""
    page = HTTPReply(200, {"Content-Type": "text/html"}, (b"<html>",))
    assert create(page) == openai_client(always(page)).chat.completions.create(**ASK)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.5, "stop": ["x"], "user": None},
        {"timeout": 5, "extra_headers": {"A": "b"}, "extra_query": {"a": "b"}},
        {"tools": [{"type": "function", "function": {"name": "f"}}], "extra_body": {"tools": [], "top_k": 2}},
        {"seed": openai.NOT_GIVEN, "tool_choice": openai.Omit()},
        {"stream": False},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"messages": [*USER, ChatCompletion.model_validate(GOOD).choices[0].message, {"role": "user", "content": "?"}]},
    ],
)
def test_it_asks_what_the_sdk_asks(options: dict[str, Any]) -> None:
    """The responder is given the body that the SDK would send, once."""
    asked: list[JSONObject] = []

    def answer(request: JSONObject) -> JSONObject:
        asked.append(request)
        return GOOD

    for client in (openai_client(answer), ScriptedClient(answer)):
        client.chat.completions.create(**{**ASK, **options})
    asyncio.run(AsyncScriptedClient(answer).chat.completions.create(**{**ASK, **options}))
    assert asked == [asked[0]] * 3


def test_what_the_sdk_requires_is_required() -> None:
    """A model and messages, by keyword; what is no JSON is refused."""
    with pytest.raises(TypeError, match="messages"):
        ScriptedClient(always(GOOD)).chat.completions.create(model="m")
    with pytest.raises(TypeError, match="object is no JSON"):
        create(GOOD, user=object())


def test_it_goes_under_the_wrapped_client() -> None:
    """A bad reply is asked again and a lost connection repeated, sync and async."""
    replies = [error_reply(503, "busy", headers={"Retry-After": "0"}), SPOILED, GOOD] * 2
    served: Iterator[Any] = iter(replies)
    policy = sr.RetryPolicy(max_retries=1, transport_retries=1, wait=lambda _: 0.0)
    client = sr.wrap(ScriptedClient(lambda _: next(served)), policy=policy)
    twin = sr.wrap(AsyncScriptedClient(lambda _: next(served)), policy=policy)
    assert client.reply(**ASK) == sr.DirectAnswer("hi")
    assert asyncio.run(twin.reply(**ASK)) == sr.DirectAnswer("hi")


def test_the_wrapped_client_sees_the_fault() -> None:
    """What a spoiled reply is, it is through this client too."""
    bad = completion(assistant(None, [native_call("f", "{")]))
    tool = sr.Tool.from_json_schema("f", {"type": "object", "properties": {}})
    client = sr.wrap(
        ScriptedClient(always(bad)).with_options(max_retries=3), tools=[tool], policy=sr.RetryPolicy(max_retries=0)
    )
    with pytest.raises(sr.ReplyRejected) as caught:
        client.reply(**ASK)
    assert [issue.code for issue in caught.value.issues] == ["json.incomplete"]


def test_options_leave_it_as_it_is() -> None:
    """There is nothing to set up."""
    for client in (ScriptedClient(always(GOOD)), AsyncScriptedClient(always(GOOD))):
        assert client.with_options(timeout=1, max_retries=0) is client
