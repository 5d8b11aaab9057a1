"""The bounds of an HTTP exchange hold while it connects and while it sends.

They also hold behind a program's own transports.
"""

from __future__ import annotations

import math
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import openai
import pytest

import strictreply as sr
from strictreply.testing import HTTPReply, LoopbackServer
from strictreply.testing._wire import Pause, WireEnding
from support.scripted import USER, completion, http

ASK: dict[str, Any] = {"model": "m", "messages": USER}
DEADLINE = 0.5
PATIENCE = 30.0
"""What a call takes at least that is not cut, in seconds; a call that is cut takes a third of it at
most.
"""


def halted_after(base_url: str, http_client: Any = None, **ask: Any) -> float:
    """Make one call that is not answered in time; give the seconds it took."""
    policy = sr.RetryPolicy(deadline=DEADLINE)
    with openai.OpenAI(api_key="none", base_url=base_url, http_client=http_client) as inner:
        start = time.monotonic()
        with pytest.raises(sr.ReplyHalted) as raised:
            sr.wrap(inner, policy=policy).reply(**ASK | ask)
        took = time.monotonic() - start
    assert raised.value.reason == "deadline"
    return took


@contextmanager
def unreachable(*hosts: str) -> Iterator[int]:
    """Listen where nobody accepts and the queue is full, and yield the port.

    It is one port of several addresses.
    """
    with ExitStack() as sockets:
        port = 0
        for host in hosts:
            listening = sockets.enter_context(socket.socket())
            listening.bind((host, port))
            listening.listen(0)
            port = int(listening.getsockname()[1])

            for _ in range(4):
                waiting = sockets.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex((host, port))

        yield port


@pytest.mark.parametrize("retries", [0, 100])
def test_v4_connecting_again_is_within_the_deadline(retries: int) -> None:
    """An HTTP library that reconnects by itself, or waits first, does so within the deadline."""
    with unreachable("127.0.0.1") as port:
        http_client = http.Client(transport=http.HTTPTransport(retries=retries))
        assert halted_after(f"http://127.0.0.1:{port}/v1", http_client) < PATIENCE / 3


def test_v4_a_pause_before_connecting_again_is_within_the_deadline() -> None:
    """Where connections are refused, no pause of the HTTP library's own goes on beyond the
    deadline.
    """
    with socket.socket() as bound:  # it does not listen
        bound.bind(("127.0.0.1", 0))
        http_client = http.Client(transport=http.HTTPTransport(retries=100))
        inner = openai.OpenAI(api_key="none", base_url=_url(bound), http_client=http_client)
        start = time.monotonic()
        with http_client, pytest.raises((sr.ReplyHalted, sr.TransportFailed)):
            sr.wrap(inner, policy=sr.RetryPolicy(deadline=DEADLINE)).reply(**ASK)
    assert time.monotonic() - start < PATIENCE / 3


def _url(bound: socket.socket) -> str:
    """Return the URL of a socket."""
    return f"http://127.0.0.1:{bound.getsockname()[1]}/v1"


def test_v4_all_addresses_of_a_host_share_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with many addresses, none of which answers, is left at the deadline and not after each
    of them.
    """
    hosts = [f"127.0.0.{number}" for number in range(1, 41)]
    with unreachable(*hosts) as port:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in hosts]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert halted_after(f"http://model.invalid:{port}/v1") < PATIENCE / 3


def test_v4_a_request_that_is_read_slowly_is_cut() -> None:
    """A server that reads a large request bit by bit holds the call no longer than the deadline."""
    over = threading.Event()

    def read_slowly(listening: socket.socket) -> None:
        with suppress(OSError), listening.accept()[0] as peer:
            while not over.wait(DEADLINE / 3):
                # A megabyte is enough to let the client send on before its timeout.
                for _ in range(16):
                    if not peer.recv(65_536):
                        return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=read_slowly, args=(listening,), daemon=True).start()
        large = [{"role": "user", "content": "x" * 60_000_000}]
        try:
            assert halted_after(_url(listening), messages=large) < PATIENCE / 6
        finally:
            over.set()


class Around(http.BaseTransport):  # type: ignore[misc]  # of the one HTTP library or the other
    """A program's own transport around others.

    Transports for retries, caches, balancing and tracing are made like this.
    """

    def __init__(self, held: Any) -> None:
        """Store a transport, or a list or a mapping of them."""
        self.held = held

    def handle_request(self, request: Any) -> Any:
        """Send through the one that is held."""
        held: Any = self.held["one"] if isinstance(self.held, dict) else self.held
        return (held[0] if isinstance(held, list) else held).handle_request(request)


@pytest.mark.parametrize(
    "held", [lambda one: one, lambda one: [one], lambda one: {"one": one}, Around]
)
def test_v4_the_deadline_holds_on_an_open_connection_behind_a_programs_own_transport(
    held: Callable[..., Any],
) -> None:
    """A connection that another user opened is bounded, however deep in transports it lies."""
    slow = HTTPReply(
        parts=(b"HTTP/1.1 200 OK\r\n", *(b"X: y\r\n", Pause(0.05)) * 600),
        framing="raw",
        ending=WireEnding.HANG,
    )
    served: list[Any] = [slow, completion("hello")]

    http_client = http.Client(transport=Around(held(http.HTTPTransport())))
    with (
        LoopbackServer(lambda _: served.pop() if served else slow, patience=PATIENCE) as server,
        http_client,
    ):
        inner = openai.OpenAI(api_key="none", base_url=server.base_url, http_client=http_client)
        inner.chat.completions.create(**ASK)
        assert halted_after(server.base_url, http_client) < PATIENCE / 3


IN_SMALL_PIECES = """
import asyncio, resource, sys, openai, strictreply as sr
http = getattr(openai._base_client, "httpx2", None) or openai._base_client.httpx
class Body(http.SyncByteStream, http.AsyncByteStream):
    def __iter__(self):
        for _ in range(1_000_000): yield bytes(bytearray(2))
    async def __aiter__(self):
        for piece in self: yield piece
def answer(request): return http.Response(200, stream=Body())
async def aanswer(request): return answer(request)
policy = sr.RetryPolicy(transport_retries=0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    ask = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    if sys.argv[1] == "sync":
        over = http.Client(transport=http.MockTransport(answer))
        sr.wrap(openai.OpenAI(api_key="none", http_client=over), policy=policy).reply(**ask)
    else:
        over = http.AsyncClient(transport=http.MockTransport(aanswer))
        client = openai.AsyncOpenAI(api_key="none", http_client=over)
        asyncio.run(sr.wrap(client, policy=policy).reply(**ask))
except sr.TransportFailed:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("twin", ["sync", "async"])
@pytest.mark.slow
def test_v4_a_body_in_pieces_of_two_bytes_takes_the_memory_of_its_bytes(twin: str) -> None:
    """Small pieces are joined while they come: 2 MB in chunks of two bytes take some MB."""
    ran = subprocess.run(
        [sys.executable, "-c", IN_SMALL_PIECES, twin], capture_output=True, text=True, check=True
    )
    assert int(ran.stdout) < 30_000  # kilobytes


@pytest.mark.parametrize(
    "timeout", [None, 5.0, http.Timeout(None)], ids=["none", "number", "parts"]
)
@pytest.mark.parametrize("deadline", [math.inf, 1e300, 1e12])
def test_v4_a_deadline_beyond_all_time_is_none(deadline: float, timeout: Any) -> None:
    """A call with a deadline in the far future works as one without."""
    with (
        LoopbackServer(lambda _: completion("hello")) as server,
        openai.OpenAI(api_key="none", base_url=server.base_url) as inner,
    ):
        client = sr.wrap(inner)
        policy = sr.RetryPolicy(deadline=deadline)
        assert client.reply(**ASK, timeout=timeout, policy=policy) == sr.DirectAnswer("hello")
