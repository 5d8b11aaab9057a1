"""A server that misbehaves on its socket.

Every act ends in an exception of ours, within the deadline.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from itertools import repeat
from time import monotonic
from typing import Any, Self

import openai
import pytest

import strictreply as sr
from streams.test_hostile_streams import recorded
from support.scripted import SCHEMA, call, completion
from support.streamed_replies import events

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
GOOD = b"".join(events(completion(calls=[call("search", {"query": "tea"})])))
TEXT = events(completion("Tea is sold out."))[0]
DEADLINE = 1.0
"""Seconds that a call may take; what never ends is given up then."""

FLOODS = {"1xx without end": 0.25, "deltas without end": 0.25}
"""Acts without end that come as fast as they are read: a processor is busy until their deadline,
which is sooner.
"""

PIECES: dict[str, Callable[[], Iterator[bytes]]] = {
    "closes before a byte": lambda: iter(()),
    "garbage for a status": lambda: iter([b"\x00\xff garbage\r\n\r\n"]),
    "headers without end": lambda: iter(
        [b"HTTP/1.1 200 OK\r\n", *repeat(b"x-filler: " + b"a" * 1000 + b"\r\n", 2000)]
    ),
    "1xx without end": lambda: repeat(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "headers, then nothing more": lambda: iter([HEAD]),
    "a stream cut in its middle": lambda: iter([HEAD, GOOD[: len(GOOD) // 2]]),
    "a broken chunk": lambda: iter(
        [HEAD.replace(b"connection", b"transfer-encoding: chunked\r\nconnection"), b"zz\r\nhi"]
    ),
    "gzip in name only": lambda: iter(
        [HEAD.replace(b"connection", b"content-encoding: gzip\r\nconnection"), GOOD]
    ),
    "a line without end": lambda: iter([HEAD, b"data: ", *repeat(b"x" * 10_000, 1000)]),
    "deltas without end": lambda: iter([HEAD, *repeat(TEXT, 200_000)]),
}
"""What is written before the connection is closed, by what it is."""

STAYING = ("says nothing", "stops in its headers", "stops in its body")
"""Acts that leave the connection open and say nothing more."""

DRIPPING: dict[str, tuple[bytes, bytes]] = {
    "comments for ever": (HEAD, b": hi\n\n"),
    "headers byte by byte": (HEAD[:30], b"x"),
    "a body byte by byte": (HEAD, b"x"),
}
"""Acts that never end: what they begin with, and what comes now and then."""

RECORDED = {
    "reset_before": "resets before a byte",
    "reset_mid": "resets in the middle",
    "close_before": "closes before a byte",
    "silent": "says nothing",
    "slow_body": "a body byte by byte",
    "slow_headers": "headers byte by byte",
    "inf_headers": "headers without end",
    "garbage": "garbage for a status",
    "flood_1xx": "1xx without end",
    "sse_no_newline": "a line without end",
    "sse_inf_deltas": "deltas without end",
    "sse_slow_comments": "comments for ever",
    "sse_stall": "stops in its body",
}
"""Our acts by the names that the recorded cases have for them."""


class Misbehaving:
    """A loopback server that does one act for every request, and counts its connections."""

    def __init__(self, act: str) -> None:
        self.act = act
        self.left: list[bool] = []
        self.done = threading.Event()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/v1"
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        """Serve each connection in a thread of its own."""
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        """Read the head of a request and do the act."""
        with connection:
            try:
                while b"\r\n\r\n" not in connection.recv(65_536):
                    pass
                self.perform(connection)
            except OSError:
                self.left.append(True)

    def perform(self, connection: socket.socket) -> None:
        """Do the act on a connection."""
        if self.act.startswith("resets"):
            connection.sendall(HEAD + GOOD[:200] if "middle" in self.act else b"")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return

        if self.act in DRIPPING:
            begun, drop = DRIPPING[self.act]
            connection.sendall(begun)

            while not self.done.wait(0.02):
                connection.sendall(drop)

            return

        if self.act not in STAYING:
            for piece in PIECES[self.act]():
                connection.sendall(piece)
            return

        opening = {"stops in its headers": HEAD[:30], "stops in its body": HEAD + GOOD[:200]}
        connection.sendall(opening.get(self.act, b""))
        connection.recv(1)  # returns when the client has left

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.socket.close()


CASES = recorded("http")
ACTS = [*PIECES, *STAYING, *DRIPPING, "resets before a byte", "resets in the middle"]
SAID: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "find tea"}]},
    "responses": {"model": "m", "input": "find tea"},
}


def held(deadline: float) -> dict[str, Any]:
    """Return what a client is wrapped with."""
    policy = sr.RetryPolicy(
        max_retries=1, transport_retries=1, deadline=deadline, wait=lambda _: 0.0
    )
    return {"tools": [{"name": "search", "parameters": SCHEMA}], "policy": policy}


def streamed(url: str, api: str, deadline: float = DEADLINE) -> list[Any]:
    """Stream with a wrapped client."""
    with sr.wrap(
        openai.OpenAI(api_key="none", base_url=url, timeout=0.2), **held(deadline)
    ) as client:
        methods: Any = client.chat.completions if api == "chat" else client.responses
        return list(methods.create(**SAID[api], stream=True))


async def astreamed(url: str, api: str, deadline: float = DEADLINE) -> list[Any]:
    """Do the same, awaiting."""
    async with sr.wrap(
        openai.AsyncOpenAI(api_key="none", base_url=url, timeout=0.2), **held(deadline)
    ) as client:
        methods: Any = client.chat.completions if api == "chat" else client.responses
        return [event async for event in await methods.create(**SAID[api], stream=True)]


@pytest.mark.parametrize("api", SAID)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("act", ACTS)
def test_no_act_of_a_server_passes_or_hangs(act: str, is_async: bool, api: str) -> None:
    """The exception is ours and the SDK's, and nobody waits beyond the deadline (with a margin for
    slow machines).
    """
    deadline = FLOODS.get(act, DEADLINE)
    with Misbehaving(act) as server:
        begun = monotonic()

        with pytest.raises(sr.CallFailed) as failed:
            asyncio.run(astreamed(server.url, api, deadline)) if is_async else streamed(
                server.url, api, deadline
            )

        assert isinstance(failed.value, openai.OpenAIError)
        assert monotonic() - begun < deadline + 20


def answer_of(case: dict[str, Any]) -> bytes:
    """Write the response of a recorded case that is not an act.

    Its headers are as wrong as the case says.
    """
    told = case["body"]
    deep = "gen" in told["body"]
    body = b"[" * 1_000_000 if deep else told["body"]["b"].encode("latin-1")
    said = {"x-filler": "a" * 1_000_000} if "gen" in told["headers"] else dict(told["headers"])
    said |= {"content-length": str(len(body) + told.get("short", 0)), "connection": "close"}

    if told.get("bad_chunk"):
        del said["content-length"]
        said["transfer-encoding"] = "chunked"
        body = b"zz\r\n" + body

    lines = [
        f"HTTP/1.1 {told['status']} Whatever",
        *(f"{name}: {value}" for name, value in said.items()),
    ]
    lines += ["content-length: 3"] if told.get("dup_cl") else []
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    "case",
    [
        case
        for case in CASES
        if "act" not in case["body"] and "@" not in case["body"]["headers"].get("location", "")
    ],
    ids=lambda case: case["id"],
)
def test_recorded_responses_are_refused_on_a_real_socket(
    case: dict[str, Any], is_async: bool
) -> None:
    """Each ends in an exception of ours, without a word of the server's, within the deadline."""
    PIECES[case["id"]] = lambda: iter([answer_of(case)])
    with Misbehaving(case["id"]) as server:
        begun = monotonic()
        with pytest.raises(sr.CallFailed) as failed:
            asyncio.run(astreamed(server.url, "chat")) if is_async else streamed(server.url, "chat")
        assert isinstance(failed.value, openai.OpenAIError)
        assert "CANARY" not in str(failed.value)
        assert monotonic() - begun < DEADLINE + 20


@pytest.mark.skipif(not CASES, reason="the shared data is not there")
def test_each_recorded_act_is_one_of_ours() -> None:
    """No act of a socket in the recorded cases is left out here."""
    acts = {case["body"]["act"] for case in recorded("http", "sse") if "act" in case["body"]}
    assert acts <= RECORDED.keys()
    assert set(RECORDED.values()) <= set(ACTS)


@pytest.mark.parametrize(
    "location", ["/v1/chat/completions", "http://model.invalid/v1/chat/completions"]
)
def test_a_redirect_brings_nothing_out(location: str) -> None:
    """A loop of redirects and another host's are failures of the call; the key goes to no other
    host.
    """
    head = (
        f"HTTP/1.1 307 Temporary Redirect\r\nlocation: {location}\r\n"
        "content-length: 0\r\nconnection: close\r\n\r\n"
    )
    PIECES[location] = lambda: iter([head.encode()])
    with Misbehaving(location) as server, pytest.raises(sr.CallFailed):
        streamed(server.url, "chat")
