"""The runner of tools of the anthropic SDK over a wrapped client, and what is guarded of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import strictreply as sr
from support.claude import ASK, BAD, GOOD, Age, ClaudeServer, anthropic, client, message, text, use

# of anthropic before version 2, about the keyword of its own ``parse``
pytestmark = pytest.mark.filterwarnings("ignore:The 'output_format' parameter:DeprecationWarning")

CALLED: list[str] = []

if not hasattr(anthropic, "beta_tool"):
    pytest.skip("this anthropic has no runner of tools", allow_module_level=True)


@anthropic.beta_tool  # type: ignore[untyped-decorator]
def weather(city: str) -> str:
    """Return the weather of a city."""
    CALLED.append(city)
    return "sunny"


@anthropic.beta_async_tool  # type: ignore[untyped-decorator]
async def later_weather(city: str) -> str:
    """Return the weather of a city."""
    CALLED.append(city)
    return "sunny"


def replies(name: str) -> tuple[Any, ...]:
    """Return a bad call, a good one, a bad answer and a good one."""
    bad = message(use(name, {"town": "Rome"}))
    return bad, message(use(name, {"city": "Rome"})), BAD, GOOD


def test_the_runner_runs_over_valid_replies() -> None:
    """A bad call is corrected before the tool runs, a bad answer before it is parsed."""
    CALLED.clear()
    server = ClaudeServer(*replies("weather"))
    guarded = sr.wrap(client(server))
    runner = guarded.beta.messages.tool_runner(**ASK, tools=[weather], output_format=Age)
    made = list(runner)

    assert CALLED == ["Rome"]
    assert [one.content[0].type for one in made] == ["tool_use", "text"]
    assert made[-1].content[0].parsed_output == Age(age=5)
    assert len(server.requests) == 4
    # the whole conversation each time: no thread of the server's that a retry would change
    assert [len(one["messages"]) for one in server.bodies()] == [1, 3, 3, 5]
    assert all("thread" not in one for one in server.bodies())


def test_the_streaming_runner_runs_over_valid_replies() -> None:
    """The streams of the runner bring the good replies."""
    CALLED.clear()
    bad, good, *_ = replies("weather")
    server = ClaudeServer(bad, good, message(text("sunny")))
    guarded = sr.wrap(client(server))
    made = [
        stream.get_final_message()
        for stream in guarded.beta.messages.tool_runner(**ASK, tools=[weather], stream=True)
    ]
    assert CALLED == ["Rome"]
    assert [one.content[0].type for one in made] == ["tool_use", "text"]
    assert len(server.requests) == 3


@pytest.mark.parametrize("stream", [False, True])
def test_the_async_runner_runs_over_valid_replies(stream: bool) -> None:
    """The async twin does, streamed and not."""
    CALLED.clear()
    server = ClaudeServer(*replies("later_weather"))
    guarded = sr.wrap(client(server, is_async=True))

    async def run() -> list[Any]:
        runner = guarded.beta.messages.tool_runner(
            **ASK, tools=[later_weather], output_format=Age, stream=stream
        )
        made = [one async for one in runner]
        return [await one.get_final_message() for one in made] if stream else made

    made = asyncio.run(run())
    assert CALLED == ["Rome"]
    assert made[-1].content[0].parsed_output == Age(age=5)
    assert len(server.requests) == 4


def test_threads_of_the_server_are_refused() -> None:
    """A conversation that the server holds cannot be corrected: the way to go is named."""
    guarded = sr.wrap(client(ClaudeServer(GOOD)))
    if not hasattr(guarded.beta.messages, "thread"):
        pytest.skip("this anthropic has no threads of messages")
    with pytest.raises(NotImplementedError, match=r"client\.beta\.messages\.create"):
        guarded.beta.messages.thread(model="m", max_tokens=3)


@pytest.mark.parametrize("way", ["create", "body", "parse", "post"])
def test_a_thread_is_not_continued(way: str) -> None:
    """A request that continues a thread of the server's is refused, and nothing is sent."""
    server = ClaudeServer(GOOD)
    guarded = sr.wrap(client(server))
    thread = {"type": "continue", "previous_message_id": "msg_0"}
    calls = {
        "create": lambda: guarded.beta.messages.create(**ASK, thread=thread),
        "body": lambda: guarded.beta.messages.create(**ASK, extra_body={"thread": thread}),
        "parse": lambda: guarded.beta.messages.parse(**ASK, thread=thread, output_format=Age),
        "post": lambda: guarded.post(
            "/v1/messages?beta=true",
            cast_to=anthropic.types.Message,
            body=ASK | {"thread": thread},
        ),
    }
    with pytest.raises(NotImplementedError, match="the server stores the conversation"):
        calls[way]()

    assert server.requests == []


def test_what_is_guarded_is_told() -> None:
    """``guarded`` lists the methods of both namespaces, and where a model's text comes out."""
    found = sr.guarded(sr.wrap(client(ClaudeServer(GOOD))))
    for path in ("messages", "beta.messages"):
        for name in ("create", "parse", "stream", "with_raw_response.create"):
            assert found[f"{path}.{name}"] == "guarded"
        assert found[f"{path}.count_tokens"] == "passes"
        assert found[f"{path}.batches.results"] == "unguarded"

    assert found["beta.messages.tool_runner"] == "guarded"
    assert found["beta.sessions.events.stream"] == "unguarded"
    assert found["models.list"] == "passes"
    assert found["post"] == "guarded"
