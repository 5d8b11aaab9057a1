"""What the SDK makes of a guarded stream of Messages: one message, whatever came before it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import tenacity

import strictreply as sr
from support.anthropic_rules import event_bytes, events_of
from support.claude import ASK, WEATHER, client, done, http, message, text, use

AT_ONCE = sr.RetryPolicy(wait=tenacity.wait_none())
BAD = message(use("weather", {"city": 1}))
FINE = message(text("A fine day."))
FOUND: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "hm", "signature": "sig"}


class Streams:
    """A server that answers each request with the next list of events."""

    def __init__(self, *streams: list[dict[str, Any]]) -> None:
        self.left = list(streams)

    def handle(self, _request: Any) -> Any:
        """Answer a request."""
        said = self.left.pop(0)
        written = b"".join(map(event_bytes, said))
        return http.Response(200, headers={"content-type": "text/event-stream"}, content=written)

    async def ahandle(self, request: Any) -> Any:
        """Answer a request of an async client."""
        return self.handle(request)


def streamed(*streams: list[dict[str, Any]], is_async: bool = False) -> tuple[str, Any]:
    """Return the live text of a guarded stream, and the SDK's own final message."""
    server: Any = Streams(*streams)
    own = client(server, is_async=is_async, max_retries=0)
    guarded: Any = sr.wrap(own, tools=[WEATHER], policy=AT_ONCE)
    if is_async:
        return asyncio.run(read(guarded))

    with guarded.messages.stream(**ASK) as stream:
        live = "".join(stream.text_stream)
        return live, stream.get_final_message()


async def read(guarded: Any) -> tuple[str, Any]:
    """Read an async stream to its end."""
    async with guarded.messages.stream(**ASK) as stream:
        live = "".join([words async for words in stream.text_stream])
        return live, await stream.get_final_message()


def answer(final: Any) -> str:
    """Return the text of a message."""
    return "".join(block.text for block in final.content if block.type == "text")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "first",
    [BAD, message(), message(stop="max_tokens"), message(FOUND, BAD["content"][0])],
    ids=["bad call", "empty", "cut", "bad call behind a result"],
)
@pytest.mark.parametrize(
    "second",
    [
        FINE,
        message(THOUGHT, text("A fine day.")),
        message(text("A fine "), THOUGHT, text("day.")),
        message(text("A fine "), FOUND, text("day.")),
        message(text("A fine day."), use("weather", {"city": "Rome"})),
        message(use("weather", {"city": "Rome"}), text("A fine day.")),
    ],
    ids=["text", "thought", "thought between", "result between", "call behind", "call before"],
)
def test_a_corrected_stream_is_one_message(first: Any, second: Any, is_async: bool) -> None:
    """It starts once, and its text comes once, wherever blocks that wait stand."""
    live, final = streamed([*events_of(first)], [*events_of(second)], is_async=is_async)
    assert live == answer(final) == "A fine day."
    calls = [block.input for block in final.content if block.type == "tool_use"]
    assert calls == [one["input"] for one in second["content"] if one["type"] == "tool_use"]


def test_a_corrected_stream_starts_once() -> None:
    """The events of ``create(stream=True)`` are those of one message, in the API's order."""
    server: Any = Streams([*events_of(BAD)], [*events_of(FINE)])
    guarded: Any = sr.wrap(client(server, max_retries=0), tools=[WEATHER], policy=AT_ONCE)
    kinds = [event.type for event in guarded.messages.create(stream=True, **ASK)]
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert [kinds.count(kind) for kind in ("message_start", "content_block_start")] == [1, 1]


def test_text_behind_a_call_waits_with_it() -> None:
    """The SDK finds blocks by their places: no text goes out before what stands before it."""
    called = message(use("weather", {"city": "Rome"}), text("A fine day."))
    live, final = streamed([*events_of(called)])
    assert live == answer(final) == "A fine day."
    assert [block.type for block in final.content] == ["tool_use", "text"]


def changed(at: str, **members: Any) -> list[dict[str, Any]]:
    """Return the stream of a good reply with other members in its first event of a type."""
    told = json.loads(json.dumps([*events_of(message(THOUGHT, text("A fine day.")))]))
    event = next(one for one in told if one["type"] == at)
    for path, value in members.items():
        holder = event
        *before, last = path.split("__")
        for name in before:
            holder = holder[name]
        if value is ...:
            holder.pop(last)
        else:
            holder[last] = value

    return told  # type: ignore[no-any-return]


LITERATE: dict[str, list[Any]] = {
    "no usage at the start": changed("message_start", message__usage=...),
    "usage null at the start": changed("message_start", message__usage=None),
    "no usage at the end": changed("message_delta", usage=...),
    "usage null at the end": changed("message_delta", usage=None),
    "usage without a count": changed("message_delta", usage={}),
    "a thought begun without text": changed("content_block_start", content_block__thinking=...),
    "a piece of nothing": [
        *[*events_of(FINE)][:4],
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": None}},
        *[*events_of(FINE)][4:],
    ],
    "an event of a new kind first": [{"type": "hello"}, *events_of(FINE)],
}


@pytest.mark.parametrize("name", LITERATE)
def test_what_the_sdk_could_not_read_is_read(name: str) -> None:
    """What has one meaning is passed on as the API would have said it."""
    live, final = streamed(LITERATE[name])
    assert live == answer(final) == "A fine day."
    assert isinstance(final.usage.output_tokens, int)


REFUSED: dict[str, list[Any]] = {
    "a thought of another type": changed("content_block_delta", delta__thinking=1.5),
    "a block begun with a number": changed("content_block_start", content_block__thinking=5),
    "a delta without its type": changed("content_block_delta", delta__type=...),
    "a delta of another type": changed("content_block_delta", delta__type="text_delta"),
    "a start whose content is no list": changed("message_start", message__content=5),
    "blocks before the start": [*[*events_of(FINE)][2:], *events_of(FINE)],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_one_meaning_is_retried(name: str) -> None:
    """It raises nothing of the SDK's inside, and the text of the next reply comes once."""
    live, final = streamed(REFUSED[name], [*events_of(FINE)])
    assert live == answer(final) == "A fine day."


@pytest.mark.parametrize("odd", [{}, [], {"a": 1}, 5, None])
def test_ids_of_any_type_raise_nothing_of_ours(odd: Any) -> None:
    """A reply is judged whatever stands in the place of an id or a reason."""
    contract = sr.Contract(tools=[WEATHER])
    found = {**FOUND, "tool_use_id": odd}
    used = {"type": "server_tool_use", "id": odd, "name": "web_search", "input": {}}
    bad = message(used, found, use("weather", {"city": 1}))
    step = contract.next_request(ASK, bad, api="messages")
    assert step.request is not None
    assert isinstance(contract.check({**FINE, "stop_reason": odd}), sr.Valid | sr.Invalid)


SEARCHED: dict[str, Any] = {
    "type": "server_tool_use",
    "id": "s1",
    "name": "web_search",
    "input": {"query": "tea"},
}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def test_a_search_that_broke_off_is_not_in_the_message() -> None:
    """A server's call goes out with its result: without one the API would refuse the next turn."""
    broken = [*[*events_of(message(SEARCHED))][:-2], OVERLOADED]
    told = [*events_of(message(SEARCHED, FOUND, text("A fine day.")))]
    server: Any = Streams(broken, told)
    guarded: Any = sr.wrap(client(server, max_retries=1), tools=[WEATHER], policy=AT_ONCE)
    with guarded.messages.stream(**ASK) as stream:
        kinds = [block.type for block in stream.get_final_message().content]

    assert kinds == ["server_tool_use", "web_search_tool_result", "text"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_search_goes_out_with_its_result(is_async: bool) -> None:
    """What is live comes in its order."""
    told = message(SEARCHED, FOUND, text("A fine day."))
    live, final = streamed([*events_of(told)], is_async=is_async)
    assert live == "A fine day."
    kinds = [block.type for block in final.content]
    assert kinds == ["server_tool_use", "web_search_tool_result", "text"]


def test_a_pause_beside_a_call_is_the_programs_turn() -> None:
    """The API takes no call back without its result, so the turn is not continued."""
    paused = message(SEARCHED, use("weather", {"city": "Rome"}), stop="pause_turn")
    live, final = streamed([*events_of(paused)])
    assert live == ""
    assert [block.type for block in final.content] == ["server_tool_use", "tool_use"]


@pytest.mark.parametrize("words", ["", None])
def test_a_paused_turn_is_continued_without_empty_texts(words: Any) -> None:
    """The API takes no empty text back; of what is nothing else the request is repeated."""
    contract = sr.Contract(tools=[WEATHER])
    begun = message(text("I look. "), text(words), SEARCHED, stop="pause_turn")
    step = contract.next_request(ASK, begun, api="messages")
    assert step.request is not None
    turns: Any = step.request["messages"]
    assert turns[-1]["content"] == [text("I look. "), SEARCHED]

    nothing = contract.next_request(ASK, message(text(""), stop="pause_turn"), api="messages")
    assert nothing.request is not None
    assert nothing.request["messages"] == ASK["messages"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_higher_token_limit_is_not_refused_by_the_sdk(is_async: bool) -> None:
    """The SDK refuses high limits of calls that do not stream: of a caller, not of a correction."""
    cut = message(text("A fine"), stop="max_tokens")
    left = [cut, cut, FINE]
    limits: list[int] = []

    def handle(request: Any) -> Any:
        limits.append(json.loads(request.content)["max_tokens"])
        return http.Response(200, json=left.pop(0))

    async def ahandle(request: Any) -> Any:
        return handle(request)

    server: Any = Streams()
    server.handle = handle
    server.ahandle = ahandle
    own = client(server, is_async=is_async, max_retries=0)
    guarded: Any = sr.wrap(own, policy=AT_ONCE)
    brought = done(guarded.messages.create(**ASK | {"max_tokens": 20_000}))
    assert answer(brought) == "A fine day."
    assert limits == [20_000, 40_000, 80_000]

    with pytest.raises(ValueError, match="Streaming is required"):
        done(guarded.messages.create(**ASK | {"max_tokens": 40_000}))
