"""The laws of a guarded stream.

Nothing unvalidated is acted on, nothing ends in silence, nothing is left open.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import select
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any, Self

import anyio
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strictreply as sr
from support.loops import some
from support.scripted import (
    OTHER_SCHEMA,
    SCHEMA,
    USER,
    AsyncClient,
    Client,
    Server,
    call,
    completion,
    http,
)
from support.streamed_replies import end_of, event, events

SEARCH = {"name": "search", "parameters": SCHEMA}
WEATHER = {"name": "weather", "parameters": OTHER_SCHEMA}
ASK: dict[str, Any] = {"model": "m", "messages": USER}
ONCE = sr.RetryPolicy(max_retries=0, transport_retries=0, wait=lambda _: 0.0)
EVENTS = {"content-type": "text/event-stream"}

TEXT = completion("Tea is sold out — «sorry».")
CALLED = completion(calls=[call("search", {"query": "tea", "limit": 5})])
SEVERAL = completion(
    "I look.", [call("search", {"query": "tea"}), call("weather", {"city": "Zürich"}, "call_b")]
)
STREAMS: dict[str, bytes] = {
    "text": b"".join(events(TEXT)),
    "a call": b"".join(events(CALLED, usage=True)),
    "text and calls": b"".join(events(SEVERAL)),
    "lines end in CRLF": b"".join(events(CALLED)).replace(b"\n", b"\r\n"),
    "lines end in CR": b"".join(events(TEXT)).replace(b"\n", b"\r"),
    "comments, no blank behind the colon": b": hi\n\n"
    + b"".join(events(CALLED)).replace(b"data: ", b"data:"),
    "a byte order mark": b"\xef\xbb\xbf" + b"".join(events(TEXT)),
    "data in two lines": b"".join(events(CALLED)).replace(b', "object"', b',\ndata: "object"'),
}


class Body(http.SyncByteStream):  # type: ignore[misc]  # the HTTP library of the installed SDK
    """A body that comes in pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self.pieces


def served(*pieces: bytes, **contract: Any) -> Any:
    """A wrapped client whose server streams these pieces."""

    def handle(_: Any) -> Any:
        return http.Response(200, headers=EVENTS, stream=Body(list(pieces)))

    client = http.Client(transport=http.MockTransport(handle))
    inner = openai.OpenAI(api_key="none", base_url="http://model.invalid/v1", http_client=client)
    return sr.wrap(inner, **{"tools": [SEARCH, WEATHER], "policy": ONCE, **contract})


def joined(stream: Any) -> dict[str, Any]:
    """Put the chunks of a stream together as a careful reader does: by index, in order."""
    whole: dict[str, Any] = {"content": "", "calls": {}, "reason": None}
    for chunk in stream:
        for choice in chunk.choices:
            assert whole["reason"] is None
            whole["content"] += choice.delta.content or ""
            whole["reason"] = choice.finish_reason

            for part in choice.delta.tool_calls or ():
                known = whole["calls"].setdefault(part.index, [part.id, part.function.name, ""])
                assert part.id in (None, known[0])
                known[2] += part.function.arguments or ""

    return whole


def expected(reply: dict[str, Any]) -> dict[str, Any]:
    """What a careful reader makes of a completion."""
    message = reply["choices"][0]["message"]
    named = [(one["id"], one["function"]) for one in message.get("tool_calls") or ()]
    calls = {
        index: [id_, function["name"], function["arguments"]]
        for index, (id_, function) in enumerate(named)
    }
    content = message["content"] or ""
    return {"content": content, "calls": calls, "reason": reply["choices"][0]["finish_reason"]}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_is_cut_never_ends(name: str) -> None:
    """Cut before its finish reason, it brings no final chunk and no call, but an exception.

    The exception is ours and the SDK's.

    That is around the end of each line and at every seventh byte; test_cut_streams cuts some at
    every one.
    """
    body = STREAMS[name]
    # behind the event with its finish reason a reply is whole
    last = len(body[: end_of(body)].rstrip(b"\r\n"))
    ends = {at + step for at, byte in enumerate(body) if byte in b"\r\n" for step in (0, 1)}
    for cut in some(sorted(at for at in {*ends, *range(0, len(body), 7)} if at < last)):
        client = served(body[:cut])
        seen = []

        with pytest.raises(sr.CallFailed) as failed:
            seen.extend(client.chat.completions.create(**ASK, stream=True))

        assert isinstance(failed.value, openai.APIError)
        choices = [choice for chunk in seen for choice in chunk.choices]
        assert not any(choice.finish_reason or choice.delta.tool_calls for choice in choices)


@given(st.sampled_from(list(STREAMS)), st.lists(st.integers(1, 40), min_size=1, max_size=12))
def test_pieces_of_any_size_are_the_same_stream(name: str, sizes: list[int]) -> None:
    """The reply is the same however the network splits the bytes."""
    body = STREAMS[name]
    pieces = list[bytes]()

    at = 0
    while at < len(body):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(body[at : at + size])
        at += size

    reply = SEVERAL if name == "text and calls" else CALLED if b"tool_calls" in body else TEXT
    assert joined(served(*pieces).chat.completions.create(**ASK, stream=True)) == expected(reply)


REPLIES = st.sampled_from(
    [
        CALLED,
        completion("Tea is sold out."),
        completion(calls=[call("search", {"query": "tea", "limit": 500})]),
        completion(calls=[call("search", '{"query": "tea", "query": "poison"}')]),
        completion(calls=[call("find", {"query": "tea"})]),
        completion(
            calls=[call("search", {"query": "tea"}), call("weather", {"town": "Oslo"}, "call_b")]
        ),
        completion("Tea", finish_reason="content_filter"),
        completion(calls=[call("search", '{"query": "te')], finish_reason="length"),
        completion(None),
        completion('{"name": "search", "arguments": {"query": "tea"}}'),
    ]
)


def told(call_it: Any) -> tuple[Any, ...]:
    """The outcome of a call: what was accepted, or which exception with which codes."""
    try:
        message = call_it()
    except sr.CallFailed as error:
        codes = [[issue.code for issue in attempt.issues] for attempt in error.attempts]
        return type(error).__name__, error.reason, codes
    return ("accepted", message)


@given(st.lists(REPLIES, min_size=1, max_size=4))
def test_all_four_ways_come_to_the_same(replies: list[dict[str, Any]]) -> None:
    """Sync, async, streamed and plain: the same reply or the same exception, and requests that
    differ by the stream.
    """
    script = [*replies, completion("Tea is sold out.")]
    policy = sr.RetryPolicy(
        max_retries=4, transport_retries=0, wait=lambda _: 0.0, early_stop="off"
    )

    def server() -> Server:
        return Server(*(STREAMED(reply) for reply in script))

    plain, over = Server(*script), server()
    contract = sr.Contract(tools=[SEARCH, WEATHER], parallel=True)
    first = told(
        lambda: expected(
            sr.wrap(plain.client(), contract=contract, policy=policy).create(**ASK).model_dump()
        )
    )

    held = sr.wrap(over.client(), contract=contract, policy=policy)
    second = told(lambda: joined(held.chat.completions.create(**ASK, stream=True)))
    if second[1] != "streamed" and first[0] == "accepted":
        assert second[1]["calls"] == first[1]["calls"]
        assert second[1]["content"] == first[1]["content"]
    elif second[1] != "streamed":
        assert first == second

    async def asynchronously() -> tuple[Any, ...]:
        again = server()
        client = sr.wrap(again.async_client(), contract=contract, policy=policy)
        try:
            chunks = [
                chunk async for chunk in await client.chat.completions.create(**ASK, stream=True)
            ]
        except sr.CallFailed as error:
            codes = [[issue.code for issue in attempt.issues] for attempt in error.attempts]
            return type(error).__name__, error.reason, codes

        return ("accepted", joined(chunks))

    assert asyncio.run(asynchronously()) == second


def STREAMED(reply: dict[str, Any]) -> Any:  # noqa: N802 - a step of a script
    """A step that streams a completion."""
    return http.Response(200, headers=EVENTS, content=b"".join(events(reply, usage=True)))


class Endless:
    """A loopback server that writes a stream without end, one event at a time.

    It counts the events until its client leaves.
    """

    def __init__(self, head: list[bytes], more: bytes) -> None:
        self.head = head
        self.more = more
        self.written: list[int] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/v1"
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        """Serve one connection after the other."""
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                self.serve(connection)

    def serve(self, connection: socket.socket) -> None:
        """Read the request, then write events until the client closes.

        An event is written whenever the last one was taken.
        """
        received = b""
        while b"\r\n\r\n" not in received:
            received += connection.recv(65_536)

        head, _, body = received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < length:
            body += connection.recv(65_536)

        connection.sendall(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        )
        self.written.append(0)

        while self.written[-1] < 1000:
            number = self.written[-1]
            try:
                connection.sendall(self.head[number] if number < len(self.head) else self.more)
            except OSError:
                return

            self.written[-1] += 1
            if select.select([connection], [], [], 0.05)[0]:  # the time of a token
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def delta(**members: Any) -> bytes:
    """One chunk."""
    choice: Any = {"index": 0, "delta": members, "finish_reason": None}
    return event(
        {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [choice],
        }
    )


def part(**function: str) -> bytes:
    """One chunk of a call."""
    opened = {"id": "call_1", "type": "function"} if "name" in function else {}
    return delta(tool_calls=[{"index": 0, **opened, "function": function}])


def test_a_server_is_stopped_at_a_early_stop() -> None:
    """After the byte that makes a reply invalid the server writes at most two chunks."""
    head = [
        delta(role="assistant", content=None),
        part(name="search", arguments=""),
        part(arguments='{"query": "tea",'),
    ]
    doomed = [*head, part(arguments=' "colour"')]
    with Endless(doomed, part(arguments=" ")) as server:
        inner = openai.OpenAI(api_key="none", base_url=server.url, max_retries=0)
        client = sr.wrap(inner, tools=[SEARCH], policy=ONCE)

        with pytest.raises(sr.ReplyRejected) as refused:
            list(client.chat.completions.create(**ASK, stream=True))

        server.socket.close()
        (attempt,) = refused.value.attempts
        assert [issue.code for issue in attempt.issues] == ["args.extra_key"]
        assert attempt.stopped_early is not None

        assert attempt.stopped_early.at <= len('{"query": "tea", "colour"')
        assert server.written[0] <= len(doomed) + 2


@pytest.mark.parametrize("how", ["with", "close", "break", "async with", "cancelled"])
def test_a_server_is_stopped_when_the_caller_leaves(how: str) -> None:
    """Two chunks at most are written after that, whichever way the caller goes."""
    head = [delta(role="assistant", content=""), delta(content="Tea is sold out ")]
    with Endless(head, delta(content="and so on ")) as server:
        is_async = how in {"async with", "cancelled"}
        seen = asyncio.run(left_async(server, how)) if is_async else left(server, how)

        for _ in range(100):
            before = server.written[0]
            if not select.select([], [], [], 0.06)[0] and server.written[0] == before:
                break

        assert server.written[0] <= seen + 2


def left(server: Endless, how: str) -> int:
    """Leave a sync stream; return how many chunks had been written then."""
    client = sr.wrap(
        openai.OpenAI(api_key="none", base_url=server.url, max_retries=0), tools=[SEARCH]
    )
    stream: Any = client.chat.completions.create(**ASK, stream=True)

    if how == "with":
        with stream:
            next(iter(stream))
    elif how == "close":
        next(iter(stream))
        stream.close()
    else:
        for _ in stream:
            break
        del stream
        gc.collect()  # the SDK's stream and its generator hold each other

    return server.written[0]


async def left_async(server: Endless, how: str) -> int:
    """Leave an async stream; return how many chunks had been written then."""
    client = sr.wrap(
        openai.AsyncOpenAI(api_key="none", base_url=server.url, max_retries=0), tools=[SEARCH]
    )
    begun = asyncio.Event()

    async def read() -> None:
        async with await client.chat.completions.create(**ASK, stream=True) as stream:
            async for _ in stream:
                begun.set()
                if how == "async with":
                    return

    task = asyncio.create_task(read())
    await begun.wait()

    if how == "cancelled":
        task.cancel()

    await asyncio.wait([task])

    for _ in range(100):  # the SDK's own iterators, which were left, are closed by the loop
        await asyncio.sleep(0)

    assert [one for one in asyncio.all_tasks() if one is not asyncio.current_task()] == []
    return server.written[0]


def test_text_is_there_before_the_end() -> None:
    """A chunk of live text reaches the caller while the server still holds the rest."""
    head = [
        delta(role="assistant", content=""),
        delta(content="Tea is "),
        delta(content="sold out "),
    ]
    with Endless(head, delta(content="… ")) as server:
        client = sr.wrap(
            openai.OpenAI(api_key="none", base_url=server.url, max_retries=0), tools=[SEARCH]
        )
        with client.chat.completions.create(**ASK, stream=True) as stream:
            shown = [next(iter(stream)).choices[0].delta.content for _ in range(3)]

    assert shown == ["", "Tea is ", "sold out "]


def test_arguments_are_linear_work() -> None:
    """Memory of a stream grows with its text, not with chunks times length."""
    sizes = []
    for size in (1_000, 2_000):
        opening = [delta(role="assistant", content=None), part(name="search", arguments="")]
        text = json.dumps({"query": "x" * size})
        chunks = [part(arguments=char) for char in text]
        end = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
        client = served(*opening, *chunks, end, b"data: [DONE]\n\n")
        sizes.append(len(list(client.chat.completions.create(**ASK, stream=True))))

    assert sizes == [4, 4]


class Held(http.AsyncByteStream):  # type: ignore[misc]  # the HTTP library of the installed SDK
    """A body that gives some pieces, then none any more until its reader is cancelled."""

    def __init__(self, pieces: list[bytes], reached: anyio.Event) -> None:
        self.pieces = pieces
        self.reached = reached
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        self.reached.set()
        await anyio.sleep_forever()

    async def aclose(self) -> None:
        """Remember it."""
        self.is_closed = True


@pytest.mark.one_lane
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("typed", [False, True], ids=["chunks", "events"])
def test_a_cancelled_reader_leaves_nothing_open(backend: str, typed: bool) -> None:
    """Whichever read is cancelled, the response is closed, and nothing comes out after it."""
    pieces = list(events(SEVERAL))

    async def main() -> None:
        for count in some(range(len(pieces))):
            reached = anyio.Event()
            body = Held(pieces[:count], reached)

            async def handle(_: Any, body: Held = body) -> Any:
                return http.Response(200, headers=EVENTS, stream=body)

            inner = openai.AsyncOpenAI(
                api_key="none", http_client=http.AsyncClient(transport=http.MockTransport(handle))
            )
            client = sr.wrap(inner, tools=[SEARCH, WEATHER], policy=ONCE, parallel=True)

            async def read(client: Any = client) -> None:
                if typed:
                    async with client.stream(**ASK) as stream:
                        async for told in stream:
                            assert not isinstance(told, sr.Accepted)
                else:
                    async with await client.chat.completions.create(**ASK, stream=True) as stream:
                        async for chunk in stream:
                            assert not any(choice.finish_reason for choice in chunk.choices)

            async with anyio.create_task_group() as group:
                group.start_soon(read)
                await reached.wait()
                group.cancel_scope.cancel()

            assert body.is_closed

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("is_async", [False, True])
def test_the_deadline_of_a_typed_stream_counts_from_its_first_event(is_async: bool) -> None:
    """A stream that was made long before somebody reads it has all of its time."""
    fake: Any = AsyncClient(TEXT) if is_async else Client(TEXT)
    client: Any = sr.wrap(fake, policy=sr.RetryPolicy(deadline=50))
    ask, sending, relay = client._to_stream(dict(ASK))
    sending.at -= 60  # made a minute ago

    pieces = client._pieces(ask, sending, relay, [])

    async def collected() -> list[Any]:
        return [piece async for piece in pieces]

    assert isinstance((asyncio.run(collected()) if is_async else [*pieces])[-1], sr.Accepted)


class Closing:
    """A client and its own stream of a whole reply, whose ``close`` raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=lambda **_: self))

    def __iter__(self) -> Iterator[Any]:
        yield {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "hello"}}]}
        yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}

    def close(self) -> None:
        """Raise."""
        raise self.error


def test_what_closing_a_stream_raises() -> None:
    """A bug in the caller's client is raised as it is; a network that fails after the whole reply
    costs nothing.
    """
    with pytest.raises(RuntimeError):
        list(sr.wrap(Closing(RuntimeError("bug"))).stream(**ASK))
    assert isinstance(
        [*sr.wrap(Closing(ConnectionError()), policy=ONCE).stream(**ASK)][-1], sr.Accepted
    )


def test_what_is_shown_of_an_answer_does_not_depend_on_how_the_network_joins_events() -> None:
    """Each event shows the answer as far as its own text goes, also where the whole stream comes at
    once.
    """
    chunks = list(events(completion('{"query": "tea", "limit": 5}')))
    shown = [
        [copy.deepcopy(seen) for seen in served(*pieces, tools=[], answer=SCHEMA).stream(**ASK)]
        for pieces in (chunks, [b"".join(chunks)])
    ]
    assert any(
        isinstance(seen, sr.Provisional) and seen.partial is not None and seen.partial.open
        for seen in shown[0]
    )

    assert repr(shown[1]) == repr(shown[0])
