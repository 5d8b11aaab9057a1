"""Scripts of streamed replies over the real SDK.

A careful reader says what it makes of the chunks that come out.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, NamedTuple

import strictreply as sr
from strictreply.core import JSON
from strictreply.testing import writer_named
from support.scripted import OTHER_SCHEMA, SCHEMA, USER, Server, http

SEARCH: dict[str, Any] = {"name": "search", "parameters": SCHEMA}
WEATHER: dict[str, Any] = {"name": "weather", "parameters": OTHER_SCHEMA}
ASK: dict[str, Any] = {"model": "m", "messages": USER}
EVENTS = {"content-type": "text/event-stream"}
CHAT = writer_named("chat")
DONE = CHAT.wire.end_bytes


def events(reply: JSON, *, usage: bool = False) -> tuple[bytes, ...]:
    """The events in which a server of chat completions streams a reply."""
    return CHAT.stream(reply, {"stream_options": {"include_usage": usage}})


def policy(**changed: Any) -> sr.RetryPolicy:
    """A policy that waits for nothing."""
    return sr.RetryPolicy(
        **{"max_retries": 3, "transport_retries": 2, "wait": lambda _: 0.0, **changed}
    )


ONCE = policy(max_retries=0, transport_retries=0)


# The HTTP library is the one of the installed SDK.
class Body(http.SyncByteStream, http.AsyncByteStream):  # type: ignore[misc]
    """A body that comes in pieces, for both kinds of clients.

    It counts what was taken, and knows that it was closed. An exception among the pieces is raised.
    """

    def __init__(self, pieces: Iterable[bytes | Exception]) -> None:
        self.pieces = pieces
        self.taken = 0
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            self.taken += 1
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece

    def close(self) -> None:
        """Remember it."""
        self.is_closed = True

    async def aclose(self) -> None:
        """Remember it."""
        self.is_closed = True


def end_of(body: bytes) -> int:
    """Return where the event with the finish reason is complete: from there on a reply is whole."""
    lines = body.splitlines(keepends=True)
    at = 0
    has_finished = False
    for line in lines:
        at += len(line)
        has_finished |= b'"finish_reason"' in line and b'"finish_reason": null' not in line
        if has_finished and not line.strip():
            return at

    raise AssertionError("the stream has no finish reason")


def over(body: Body) -> Any:
    """A step of a script: a response with this body."""
    return http.Response(200, headers=EVENTS, stream=body)


def event(data: object) -> bytes:
    """JSON as an event without a name, as servers of chat completions write it."""
    return f"data: {json.dumps(data)}\n\n".encode()


def typed_event(data: object) -> bytes:
    """JSON as an event with the name of its type, as servers of the Responses API write it."""
    kind = data.get("type") if isinstance(data, dict) else None
    return f"event: {kind}\n".encode() + event(data)


def response_events(response: Any) -> tuple[bytes, ...]:
    """The events of a response of the Responses API."""
    return writer_named("responses").stream(response, {})


def streamed(reply: dict[str, Any], *, usage: bool = True) -> Any:
    """A step of a script: a completion in chunks, each of them a piece of the body."""
    return over(Body(events(reply, usage=usage)))


def streamed_response(response: dict[str, Any]) -> Any:
    """A step of a script: a response in events, each of them a piece of the body."""
    return over(Body(response_events(response)))


def chunk(delta: dict[str, Any], reason: str | None = None, **choice: Any) -> bytes:
    """One chunk as an event."""
    choices: list[Any] = [{"index": 0, "delta": delta, "finish_reason": reason, **choice}]
    return event(
        {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": choices,
        }
    )


def part(index: int = 0, id_: str | None = None, **function: str) -> dict[str, Any]:
    """A delta of one call."""
    opened = {} if id_ is None else {"id": id_, "type": "function"}
    return {"tool_calls": [{"index": index, **opened, "function": function}]}


def deltas(*given: dict[str, Any], reason: str = "stop") -> list[bytes]:
    """The events of a stream of deltas: the role, these, the finish and ``[DONE]``."""
    return [
        chunk({"role": "assistant", "content": ""}),
        *map(chunk, given),
        chunk({}, reason),
        DONE,
    ]


def in_pieces(text: str, size: int) -> list[dict[str, Any]]:
    """The deltas of a text."""
    return [{"content": text[start : start + size]} for start in range(0, len(text), size)]


class Told(NamedTuple):
    """What came out of a stream: its message, how it ended, and what was asked.

    ``codes`` are those of each attempt of a call that failed, its failure where it has none.
    """

    content: str
    calls: list[tuple[str, str, str]]
    reason: str | None
    usage: int | None = None
    error: sr.CallFailed | None = None

    @property
    def codes(self) -> list[list[str]]:
        """The codes of each attempt."""
        attempts = () if self.error is None else self.error.attempts
        return [
            [issue.code for issue in one.issues] or [str(one.failure).partition(":")[0]]
            for one in attempts
        ]

    @property
    def outcome(self) -> tuple[object, ...]:
        """What a caller can tell apart, whichever way the reply came."""
        if self.error is not None:
            return type(self.error).__name__, self.error.reason, self.codes
        return self.content, self.calls, self.reason, self.usage


class Reader:
    """Puts chunks together, and holds each of them to what the API promises."""

    def __init__(self) -> None:
        self.chunks: list[Any] = []
        self.content = ""
        self.calls: list[list[str]] = []
        self.reason: str | None = None
        self.usage: int | None = None

    def take(self, chunk: Any) -> None:
        """Take one chunk.

        It has one id and one choice, calls opened in order under stable ids, and nothing behind the
        finish.
        """
        assert chunk.id == (self.chunks[0].id if self.chunks else chunk.id)
        assert chunk.object == "chat.completion.chunk"
        assert self.usage is None, "a chunk behind the one with the usage"
        self.chunks.append(chunk)

        if not chunk.choices:
            self.usage = chunk.usage.total_tokens
            return

        (choice,) = chunk.choices
        assert self.reason is None, "a choice behind the finish"
        assert choice.index == 0
        self.content += choice.delta.content or ""

        self.reason = choice.finish_reason

        for one in choice.delta.tool_calls or ():
            if one.index == len(self.calls):
                self.calls.append([one.id, one.function.name, ""])
            else:
                assert (one.index, one.id, one.function.name) == (len(self.calls) - 1, None, None)

            self.calls[-1][2] += one.function.arguments or ""

    def told(self, error: sr.CallFailed | None = None) -> Told:
        """What was put together."""
        calls = [(id_, name, arguments) for id_, name, arguments in self.calls]
        return Told(self.content, calls, self.reason, self.usage, error)


def read(client: Any, **keywords: Any) -> Told:
    """Stream through a wrapped client."""
    reader = Reader()
    try:
        for one in client.chat.completions.create(**ASK, stream=True, **keywords):
            reader.take(one)
    except sr.CallFailed as error:
        return reader.told(error)
    return reader.told()


async def aread(client: Any, **keywords: Any) -> Told:
    """Stream through a wrapped async client."""
    reader = Reader()
    try:
        async for one in await client.chat.completions.create(**ASK, stream=True, **keywords):
            reader.take(one)
    except sr.CallFailed as error:
        return reader.told(error)
    return reader.told()


def message_of(completion: dict[str, Any]) -> Told:
    """What a careful reader makes of a completion, as of its chunks."""
    (choice,) = completion["choices"]
    calls = [
        (one["id"], one["function"]["name"], one["function"]["arguments"])
        for one in choice["message"].get("tool_calls") or ()
    ]
    return Told(choice["message"].get("content") or "", calls, choice["finish_reason"])


def wrapped(server: Server, **contract: Any) -> Any:
    """The wrapped sync client of a script."""
    return sr.wrap(server.client(), **{"tools": [SEARCH, WEATHER], "policy": policy(), **contract})
