"""Each method of the anthropic SDK that brings a message brings one that is valid."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import strictreply as sr
from support.claude import (
    ASK,
    BAD,
    GOOD,
    WEATHER,
    Age,
    ClaudeServer,
    anthropic,
    client,
    done,
    final,
    http,
    message,
    pieces,
    text,
    use,
)

# of anthropic before version 2, about the keyword of its own ``parse``
pytestmark = pytest.mark.filterwarnings("ignore:The 'output_format' parameter:DeprecationWarning")

BOTH = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
NAMESPACES = pytest.mark.parametrize("beta", [False, True], ids=["messages", "beta.messages"])


def messages_of(source: Any, *, beta: bool) -> Any:
    """Return one of the two namespaces of messages."""
    return source.beta.messages if beta else source.messages


def wrapped(server: ClaudeServer, *, is_async: bool = False, **given: Any) -> Any:
    """Return a wrapped client for a server."""
    return sr.wrap(client(server, is_async=is_async), **given)


@BOTH
def test_the_api_of_the_client_is_asked_where_none_is_named(is_async: bool) -> None:
    """A wrapped client is one of the SDK, and our own methods ask the Messages API."""
    server = ClaudeServer(GOOD)
    guarded = wrapped(server, is_async=is_async, answer=Age)
    kind = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
    assert isinstance(guarded, kind)
    assert guarded.api == "messages"
    assert done(guarded.reply(**ASK)).answer == Age(age=5)
    assert done(guarded.answer(**ASK, api="messages")) == Age(age=5)
    assert not hasattr(guarded, "chat")


@BOTH
@NAMESPACES
def test_create_brings_what_the_sdk_would_of_the_good_reply(is_async: bool, beta: bool) -> None:
    """A bad reply is corrected; the message equals the SDK's own, ids and set fields included."""
    server = ClaudeServer(BAD, GOOD)
    guarded = wrapped(server, is_async=is_async, answer=Age)
    made = done(messages_of(guarded, beta=beta).create(**ASK))

    raw = done(messages_of(client(ClaudeServer(GOOD), is_async=is_async), beta=beta).create(**ASK))
    assert len(server.requests) == 2
    assert made == raw
    assert type(made) is type(raw)
    assert made.model_fields_set == raw.model_fields_set
    assert (made._request_id, made._workspace_id) == ("req_1", "wrkspc_1")


@BOTH
@NAMESPACES
def test_calls_of_tools_are_judged(is_async: bool, beta: bool) -> None:
    """A call whose input does not fit its schema is corrected, and the good one comes out."""
    server = ClaudeServer(
        message(use("weather", {"town": "Rome"})), message(use("weather", {"city": "Rome"}))
    )
    guarded = wrapped(server, is_async=is_async)
    made = done(messages_of(guarded, beta=beta).create(**ASK, tools=[WEATHER]))

    assert len(server.requests) == 2
    assert [block.input for block in made.content] == [{"city": "Rome"}]
    turns = server.bodies()[1]["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[2]["content"][0]["tool_use_id"] == "toolu_1"


@BOTH
@NAMESPACES
def test_a_stream_brings_the_events_of_the_good_reply(is_async: bool, beta: bool) -> None:
    """``create(stream=True)`` is the SDK's own stream, with its own events, of the good reply."""
    server = ClaudeServer(BAD, GOOD)
    guarded = messages_of(wrapped(server, is_async=is_async, answer=Age), beta=beta)
    ours = pieces(guarded.create(**ASK, stream=True))

    plain = messages_of(client(ClaudeServer(GOOD), is_async=is_async), beta=beta)
    theirs = pieces(plain.create(**ASK, stream=True))
    assert len(server.requests) == 2
    assert [type(one) for one in ours] == [type(one) for one in theirs]
    assert ours[-1].type == "message_stop"


@BOTH
@NAMESPACES
def test_parse_is_judged_by_the_class(is_async: bool, beta: bool) -> None:
    """Bounds that the SDK does not send are judged, and what is parsed is what was judged."""
    server = ClaudeServer(BAD, GOOD)
    guarded = messages_of(wrapped(server, is_async=is_async), beta=beta)
    made = done(guarded.parse(**ASK, output_format=Age))

    other = ClaudeServer(GOOD)
    plain = messages_of(client(other, is_async=is_async), beta=beta)
    raw = done(plain.parse(**ASK, output_format=Age))
    assert len(server.requests) == 2
    assert made.parsed_output == Age(age=5)
    assert made == raw
    assert server.bodies()[0] == other.bodies()[0]
    assert set(server.requests[0].headers.items()) == set(other.requests[0].headers.items())


@BOTH
@NAMESPACES
def test_an_answer_in_a_fence_is_parsed_as_it_was_judged(is_async: bool, beta: bool) -> None:
    """What we read and the SDK could not is no error of pydantic: it is the judged answer."""
    server = ClaudeServer(message(text('```json\n{"age": 5}\n```')))
    guarded = messages_of(wrapped(server, is_async=is_async, extraction="fenced"), beta=beta)
    made = done(guarded.parse(**ASK, output_format=Age))
    assert made.parsed_output == Age(age=5)
    assert len(server.requests) == 1


@BOTH
@NAMESPACES
def test_the_sdks_stream_is_judged_by_the_class(is_async: bool, beta: bool) -> None:
    """``stream(output_format=…)`` sends what the SDK sends, and ends in what was judged."""
    server = ClaudeServer(BAD, GOOD)
    guarded = messages_of(wrapped(server, is_async=is_async), beta=beta)
    made = final(guarded.stream(**ASK, output_format=Age))

    other = ClaudeServer(GOOD)
    plain = messages_of(client(other, is_async=is_async), beta=beta)
    final(plain.stream(**ASK, output_format=Age))
    assert made.parsed_output == Age(age=5)
    assert len(server.requests) == 2
    assert server.bodies()[0] == other.bodies()[0]
    assert set(server.requests[0].headers.items()) == set(other.requests[0].headers.items())


@BOTH
@NAMESPACES
def test_a_type_that_is_made_of_classes_is_judged(is_async: bool, beta: bool) -> None:
    """``output_format=list[int]`` is judged as a class is, parsed and streamed."""
    bad = message(text('[1, "x"]'))
    good = message(text("[1, 2]"))
    server = ClaudeServer(bad, good, bad, good)
    guarded = messages_of(wrapped(server, is_async=is_async), beta=beta)
    made = done(guarded.parse(**ASK, output_format=list[int]))
    streamed = final(guarded.stream(**ASK, output_format=list[int]))

    assert (made.parsed_output, streamed.parsed_output) == ([1, 2], [1, 2])
    assert len(server.requests) == 4
    schemas = [one["output_config"]["format"]["schema"]["type"] for one in server.bodies()]
    assert schemas == ["array"] * 4


@BOTH
@NAMESPACES
def test_raw_responses_hold_the_good_reply(is_async: bool, beta: bool) -> None:
    """The raw response is of the SDK's class, and its body is the good reply."""
    server = ClaudeServer(BAD, GOOD)
    guarded = messages_of(wrapped(server, is_async=is_async, answer=Age), beta=beta)
    made = done(guarded.with_raw_response.create(**ASK))

    plain = messages_of(client(ClaudeServer(GOOD), is_async=is_async), beta=beta)
    raw = done(plain.with_raw_response.create(**ASK))
    assert type(made) is type(raw)
    assert done(made.parse()).content[0].text == '{"age": 5}'
    assert made.http_response.json() == GOOD


@pytest.mark.parametrize("stream", [False, True])
def test_streaming_responses_hold_the_good_reply(stream: bool) -> None:
    """``with_streaming_response`` returns the SDK's raw response, and it parses the good reply."""
    server = ClaudeServer(BAD, GOOD)
    guarded = wrapped(server, answer=Age)
    with guarded.messages.with_streaming_response.create(**ASK, stream=stream) as made:
        parsed = list(made.parse()) if stream else [made.parse()]

    assert type(made) is anthropic._response.APIResponse
    assert parsed[-1].type == ("message_stop" if stream else "message")
    assert len(server.requests) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_async_streaming_responses_hold_the_good_reply(stream: bool) -> None:
    """The async twin does, too."""
    server = ClaudeServer(BAD, GOOD)
    guarded = wrapped(server, is_async=True, answer=Age)

    async def call() -> list[Any]:
        opened = guarded.messages.with_streaming_response.create(**ASK, stream=stream)
        async with opened as made:
            parsed: Any = await made.parse()
            return [one async for one in parsed] if stream else [parsed]

    assert asyncio.run(call())[-1].type == ("message_stop" if stream else "message")
    assert len(server.requests) == 2


@BOTH
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages?beta=true"])
def test_post_is_guarded(is_async: bool, path: str) -> None:
    """A request that a program posts to the path of the API is guarded, too."""
    server = ClaudeServer(BAD, GOOD)
    guarded = wrapped(server, is_async=is_async, answer=Age)
    made = done(guarded.post(path, cast_to=anthropic.types.Message, body=ASK))
    assert made.content[0].text == '{"age": 5}'
    assert len(server.requests) == 2


def test_paths_beside_the_messages_pass() -> None:
    """Counting tokens and batches are no messages: they pass, lists of batches included."""
    page = {"data": [], "has_more": False, "first_id": None, "last_id": None}
    count = client(ClaudeServer({"input_tokens": 7})).messages
    one = wrapped(ClaudeServer({"input_tokens": 7})).messages
    asked = {name: ASK[name] for name in ("model", "messages")}
    assert one.count_tokens(**asked) == count.count_tokens(**asked)

    server = ClaudeServer(http.Response(200, json=page))
    assert list(wrapped(server).messages.batches.list()) == []
    assert [request.url.path for request in server.requests] == ["/v1/messages/batches"]


def test_a_copy_with_options_is_guarded() -> None:
    """``with_options`` and ``copy`` return a client that is guarded as the first."""
    server = ClaudeServer(BAD, GOOD)
    made = wrapped(server, answer=Age).with_options(timeout=5).copy(max_retries=1)
    assert json.loads(made.messages.create(**ASK).content[0].text) == {"age": 5}
    assert len(server.requests) == 2
