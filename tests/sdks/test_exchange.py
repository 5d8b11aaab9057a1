"""HTTP exchanges are bounded in time and size and lead to one origin.

This holds over real sockets, and under the real SDK.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import openai
import pytest

import strictreply as sr
from strictreply.core import DEFAULT_LIMITS
from strictreply.sdks._bounds import MAX_ERROR_BYTES
from strictreply.testing import HTTPReply, LoopbackServer
from strictreply.testing._wire import Pause, WireEnding
from strictreply.wires._bodies import ENVELOPE_FACTOR
from support.scripted import USER, Server, completion, http

GOOD = completion("hello")
HELLO = sr.DirectAnswer("hello")
BODY = json.dumps(GOOD).encode()
ASK: dict[str, Any] = {"model": "m", "messages": USER}
CAP = DEFAULT_LIMITS.reply_bytes * ENVELOPE_FACTOR
MEGABYTE = 1 << 20
DEADLINE = 0.4
PATIENCE = 30.0
"""How long the server goes on: a call that waits for its end is told from one that is cut, on any
machine.
"""

JSON_TYPE = {"Content-Type": "application/json"}
STATUS = b"HTTP/1.1 200 OK\r\n"
HEAD = STATUS + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)
DRIP = Pause(0.05)
Call = Callable[..., Any]


def raw(
    *parts: bytes | Pause, endless: bool = False, ending: WireEnding = WireEnding.HANG
) -> HTTPReply:
    """Send bytes as they are."""
    return HTTPReply(parts=parts, framing="raw", ending=ending, endless=endless)


def dripped(data: bytes) -> tuple[bytes | Pause, ...]:
    """Send byte by byte."""
    return tuple(part for byte in data for part in (bytes([byte]), DRIP))


SLOW = {
    "no answer": HTTPReply(ending=WireEnding.HANG),
    "dripped status line": raw(*dripped(STATUS * 40)),
    "dripped headers": raw(STATUS, *dripped(b"X: y\r\n" * 100)),
    "headers, then silence": raw(STATUS, Pause(DEADLINE / 2), b"X: y\r\n"),
    "dripped interim responses": raw(*(b"HTTP/1.1 103 Early Hints\r\n\r\n", DRIP) * 600),
    "flood of interim responses": raw(b"HTTP/1.1 103 \r\n\r\n" * 100, endless=True),
    "dripped body": raw(HEAD, *dripped(BODY * 3)),
    "body, then silence": raw(HEAD, BODY[:9], Pause(DEADLINE / 2), BODY[9:12]),
    "half a body": HTTPReply(200, JSON_TYPE, (BODY[:20],), WireEnding.HANG),
    "dripped error": raw(HEAD.replace(b"200 OK", b"503 Busy"), *dripped(BODY * 3)),
    "dripped redirect": raw(
        HEAD.replace(b"200 OK", b"307 Go\r\nLocation: /v1/x"), *dripped(BODY * 3)
    ),
}


def reply_of(
    base_url: str, policy: sr.RetryPolicy, *, warm: Callable[[Any], Any] | None = None
) -> Any:
    """Make one call with the sync client.

    It uses a connection that ``warm`` opened before, if it is given.
    """
    with openai.OpenAI(api_key="none", base_url=base_url, max_retries=0) as inner:
        client = sr.wrap(inner, policy=policy)
        if warm is not None:
            warm(client)
        return client.reply(**ASK)


def areply_of(base_url: str, policy: sr.RetryPolicy) -> Any:
    """Make one call with the async client."""

    async def main() -> Any:
        async with openai.AsyncOpenAI(api_key="none", base_url=base_url, max_retries=0) as inner:
            return await sr.wrap(inner, policy=policy).reply(**ASK)

    return asyncio.run(main())


both = pytest.mark.parametrize("call", [reply_of, areply_of], ids=["sync", "async"])


@both
@pytest.mark.parametrize("name", SLOW)
def test_v4_the_deadline_is_total(name: str, call: Call) -> None:
    """However a server delays, the call ends at the deadline, and its reply is not accepted."""
    with LoopbackServer(lambda _: SLOW[name], patience=PATIENCE) as server:
        start = time.monotonic()
        with pytest.raises(sr.ReplyHalted) as raised:
            call(server.base_url, sr.RetryPolicy(deadline=DEADLINE))
        took = time.monotonic() - start
    assert raised.value.reason == "deadline"
    assert DEADLINE <= took < PATIENCE / 3
    assert not any(attempt.accepted for attempt in raised.value.attempts)


@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "of another user"])
@pytest.mark.parametrize(
    "name", ["dripped headers", "headers, then silence", "flood of interim responses"]
)
def test_v4_the_deadline_holds_on_a_connection_that_is_open(name: str, theirs: bool) -> None:
    """A connection that is used again is bounded like a new one, whoever of the client's users
    opened it.
    """
    served: list[Any] = [SLOW[name], GOOD]

    def warm(client: Any) -> None:
        (client.unwrapped.chat.completions.create if theirs else client.reply)(**ASK)

    with LoopbackServer(
        lambda _: served.pop() if served else SLOW[name], patience=PATIENCE
    ) as server:
        start = time.monotonic()
        with pytest.raises(sr.ReplyHalted):
            reply_of(server.base_url, sr.RetryPolicy(deadline=DEADLINE), warm=warm)
        assert time.monotonic() - start < PATIENCE / 3


def test_v4_connecting_is_within_the_deadline() -> None:
    """A server that takes the connection and never speaks TLS is left at the deadline."""
    # no HTTP server: to one, the random bytes of a ClientHello may look like a request that it
    # answers
    with socket.create_server(("127.0.0.1", 0)) as listening:
        start = time.monotonic()
        with pytest.raises(sr.ReplyHalted):
            reply_of(
                f"https://127.0.0.1:{listening.getsockname()[1]}/v1",
                sr.RetryPolicy(deadline=DEADLINE),
            )
        assert time.monotonic() - start < PATIENCE / 3


def test_v4_a_good_call_keeps_its_connection() -> None:
    """With a deadline, too, calls in a row take one connection, and one that was cut is closed."""
    served: list[Any] = [SLOW["dripped body"], GOOD, GOOD, GOOD]
    policy = sr.RetryPolicy(deadline=PATIENCE)

    with (
        LoopbackServer(lambda _: served.pop(), patience=PATIENCE) as server,
        openai.OpenAI(api_key="none", base_url=server.base_url) as inner,
    ):
        client = sr.wrap(inner, policy=policy)
        pool = inner._client._transport._pool  # type: ignore[attr-defined]

        for _ in range(3):
            client.reply(**ASK)

        assert [connection.info().split(", ")[-1] for connection in pool.connections] == [
            "Request Count: 3"
        ]

        with pytest.raises(sr.ReplyHalted):
            client.reply(**ASK, policy=sr.RetryPolicy(deadline=DEADLINE))

        assert pool.connections == []


def test_v4_others_on_the_same_http_client_are_not_cut() -> None:
    """A user of the same HTTP client without our deadline reads a slow body to its end."""
    slow = raw(
        HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), *dripped(BODY[:8]), BODY[8:]
    )
    served: list[Any] = [slow, GOOD]
    with (
        LoopbackServer(lambda _: served.pop(), patience=PATIENCE) as server,
        openai.OpenAI(api_key="none", base_url=server.base_url, max_retries=0) as inner,
    ):
        sr.wrap(inner, policy=sr.RetryPolicy(deadline=PATIENCE)).reply(**ASK)
        assert inner.chat.completions.create(**ASK).choices[0].message.content == "hello"


def compressed(make: Any, before: bytes) -> bytes:
    """Compress a body with 300 MB of blanks behind it."""
    parts = [
        make.compress(before),
        *(make.compress(b" " * MEGABYTE) for _ in range(300)),
        make.flush(),
    ]
    return b"".join(parts)


@cache
def packed() -> bytes:
    """Return a gzip bomb, made on first use.

    It takes half a second, which collecting tests should not cost.
    """
    return compressed(zlib.compressobj(wbits=31), BODY)


def coded(coding: str, body: bytes, status: int = 200) -> HTTPReply:
    """Return a reply whose body has a Content-Encoding."""
    return HTTPReply(status, JSON_TYPE | {"Content-Encoding": coding}, (body,))


BOMBS: dict[str, Callable[[], HTTPReply]] = {
    "endless": lambda: HTTPReply(
        200, JSON_TYPE, (BODY, b" " * 65_536), WireEnding.CUT, "chunked", endless=True
    ),
    "gzip": lambda: coded("gzip", packed()),
    "deflate": lambda: coded("deflate", zlib.compress(BODY + b" " * CAP)),
    "raw deflate": lambda: coded("deflate", compressed(zlib.compressobj(wbits=-15), BODY)),
    "gzip in gzip": lambda: coded("gzip, GZIP", gzip.compress(packed())),
    "gzip with status 503": lambda: coded("gzip", packed(), 503),
    "many codings": lambda: coded(", ".join(["gzip"] * 2000), packed()),
}
"""Bodies that are endless, or small when compressed and large when read."""


@both
@pytest.mark.parametrize("name", BOMBS)
def test_v4_a_body_is_capped_after_decompression(name: str, call: Call) -> None:
    """Too large a body ends the call with its own reason, once, in memory of the cap and a little
    more.
    """
    requests: list[Any] = []
    bomb = BOMBS[name]()

    def respond(request: Any) -> HTTPReply:
        requests.append(request)
        return bomb

    with LoopbackServer(respond, patience=PATIENCE) as server:
        tracemalloc.start()

        try:
            with pytest.raises(sr.TransportFailed) as raised:
                call(server.base_url, sr.RetryPolicy())
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert raised.value.reason == "response_too_large"
    assert raised.value.status_code == bomb.status
    assert len(requests) == 1
    assert peak < CAP + 64 * MEGABYTE


@both
def test_v4_a_compressed_completion_is_read(call: Call) -> None:
    """Compression itself is no fault."""
    with LoopbackServer(
        lambda _: HTTPReply(200, {"Content-Encoding": "gzip"}, (gzip.compress(BODY),))
    ) as server:
        assert call(server.base_url, sr.RetryPolicy(deadline=PATIENCE)) == HELLO


LARGE = http.Response(503, content=b" " * (MAX_ERROR_BYTES + 1))
"""A body over the cap of an error, in memory."""


class Cache(http.Client):  # type: ignore[misc]
    """Responds from memory; nothing is sent, and no hook is called."""

    def send(self, request: Any, **_: Any) -> Any:
        """Return the large response."""
        LARGE.request = request
        return LARGE


class AsyncCache(http.AsyncClient):  # type: ignore[misc]
    """Responds from memory, too."""

    async def send(self, request: Any, **_: Any) -> Any:
        """Return the large response."""
        LARGE.request = request
        return LARGE


@pytest.mark.parametrize("own", [Cache, AsyncCache])
def test_v4_a_body_that_a_client_has_in_memory_is_capped_too(own: Any) -> None:
    """A client that responds without sending, as a cache does, is held to the cap as well."""
    sdk: Any = openai.OpenAI if own is Cache else openai.AsyncOpenAI
    call = sr.wrap(sdk(**OF_SDK, http_client=own())).create
    with pytest.raises(sr.TransportFailed) as raised:
        call(**ASK) if own is Cache else asyncio.run(call(**ASK))
    assert (raised.value.reason, raised.value.status_code) == ("response_too_large", 503)


Twin = Callable[[Server], Any]


OF_SDK: dict[str, Any] = {"api_key": "none", "base_url": "http://model.invalid/v1"}


def create(server: Server) -> Any:
    """Make one call of the sync client over a mock server.

    Its HTTP client follows redirects, as the SDK's own does.
    """
    own = http.Client(transport=http.MockTransport(server.handle), follow_redirects=True)
    return sr.wrap(openai.OpenAI(**OF_SDK, http_client=own)).create(**ASK)


def acreate(server: Server) -> Any:
    """Make one call of the async client over a mock server."""
    own = http.AsyncClient(transport=http.MockTransport(server.ahandle), follow_redirects=True)
    return asyncio.run(sr.wrap(openai.AsyncOpenAI(**OF_SDK, http_client=own)).create(**ASK))


twins = pytest.mark.parametrize("call", [create, acreate], ids=["sync", "async"])


def redirect(status: int, location: str) -> Any:
    """Return a redirect."""
    return http.Response(status, headers={"location": location})


HERE = "http://model.invalid/v1/chat/completions"


@twins
@pytest.mark.parametrize(
    ("status", "location", "origin"),
    [
        (307, "http://elsewhere.invalid:8080/p/SECRET?q=SECRET", "http://elsewhere.invalid:8080"),
        (308, "https://model.invalid/v1/chat/completions", "https://model.invalid"),
        (307, "http://model.invalid:81/v1/chat/completions", "http://model.invalid:81"),
        (307, "//elsewhere.invalid/SECRET", "http://elsewhere.invalid"),
        (307, "http://user:SECRET@elsewhere.invalid/", "http://elsewhere.invalid"),
        (307, "http://[::1]:9/SECRET", "http://[::1]:9"),
        (301, "/SECRET", "http://model.invalid"),
        (302, HERE + "?SECRET", "http://model.invalid"),
        (303, "/SECRET", "http://model.invalid"),
        (303, "http://elsewhere.invalid/", "http://elsewhere.invalid"),
    ],
)
def test_v7_a_redirect_elsewhere_or_to_another_method_is_refused(
    status: int, location: str, origin: str, call: Twin
) -> None:
    """Nothing is sent to another origin, and no GET; the error names the target's origin and
    nothing else of it.
    """
    server = Server(redirect(status, location))
    with pytest.raises(sr.TransportFailed) as raised:
        call(server)
    assert raised.value.reason == "redirect_refused"
    assert raised.value.status_code == status
    assert len(server.requests) == 1
    assert f", to {origin}, " in str(raised.value).splitlines()[0]
    assert "SECRET" not in str(raised.value)


@twins
@pytest.mark.parametrize(
    "location",
    ["http:/x", "http:x", "http:///x", "\\\\elsewhere.invalid\\x", "ftp://model.invalid/"],
)
def test_v7_no_spelling_of_a_target_leads_elsewhere(location: str, call: Twin) -> None:
    """For any Location, requests are made only to the origin that the caller named."""
    server = Server(redirect(307, location), GOOD)
    with contextlib.suppress(sr.TransportFailed):
        call(server)
    places = {(one.url.scheme, one.url.host, one.url.port) for one in server.requests}
    assert places == {("http", "model.invalid", None)}


@twins
@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize(
    "location",
    [
        "/v2/chat/completions",
        "http://model.invalid:80/v2/chat/completions",
        "HTTP://MODEL.INVALID/v2",
    ],
)
def test_v7_one_redirect_within_the_origin_is_followed(
    status: int, location: str, call: Twin
) -> None:
    """The same request goes to the new path, method, body and key with it."""
    server = Server(redirect(status, location), GOOD)
    assert call(server).choices[0].message.content == "hello"
    first, second = server.requests
    assert (second.method, second.url.path[:3], second.content) == ("POST", "/v2", first.content)
    assert second.headers["authorization"] == first.headers["authorization"]


@twins
def test_v7_a_second_redirect_is_refused(call: Twin) -> None:
    """A loop of redirects costs two requests."""
    server = Server(redirect(307, "/v1/again"))
    with pytest.raises(sr.TransportFailed) as raised:
        call(server)
    assert raised.value.reason == "redirect_refused"
    assert len(server.requests) == 2


def test_v7_the_callers_http_client_is_not_changed() -> None:
    """The caller's own client follows redirects as it was told, and its hooks see every request and
    response.
    """
    server = Server(redirect(303, "http://elsewhere.invalid/"), GOOD, GOOD)
    seen: list[str] = []
    hooks: dict[str, list[Any]] = {
        "request": [lambda request: seen.append(request.method)],
        "response": [lambda response: seen.append(str(response.status_code))],
    }
    own = http.Client(
        transport=http.MockTransport(server.handle), event_hooks=hooks, follow_redirects=True
    )
    inner = openai.OpenAI(api_key="none", base_url="http://model.invalid/v1", http_client=own)
    client = sr.wrap(inner)

    assert inner.chat.completions.create(**ASK).choices[0].message.content == "hello"
    assert client.create(**ASK).choices[0].message.content == "hello"
    assert seen == ["POST", "303", "GET", "200", "POST", "200"]
    assert own.event_hooks == hooks


def test_v7_an_sdk_behind_a_programs_own_client_is_bounded_too() -> None:
    """A client with the SDK's ``chat`` and nothing else of it sends within the same bounds."""
    server = Server(redirect(307, "http://elsewhere.invalid/"))
    client = sr.wrap(SimpleNamespace(chat=server.client(max_retries=5).chat))
    with pytest.raises(sr.TransportFailed) as raised:
        client.reply(**ASK)
    assert (raised.value.reason, len(server.requests)) == ("redirect_refused", 1)


def test_v4_a_hook_that_reads_the_body_is_bounded_too() -> None:
    """A hook of the caller that logs bodies reads no more of one than we would."""
    own = http.Client(event_hooks={"response": [lambda response: response.read()]})
    with LoopbackServer(lambda _: BOMBS["gzip"]()) as server:
        inner = openai.OpenAI(api_key="none", base_url=server.base_url, http_client=own)
        with pytest.raises(sr.TransportFailed) as raised:
            sr.wrap(inner).reply(**ASK)
    assert raised.value.reason == "response_too_large"


def test_a_wrapped_client_outlives_the_one_it_was_made_of() -> None:
    """The connections stay open while the wrapped client is used, and close with the client that
    was given.
    """
    client = sr.wrap(Server(GOOD).client(), policy=sr.RetryPolicy(transport_retries=0))
    assert client.reply(**ASK) == HELLO
    assert client.with_options(timeout=3).reply(**ASK) == HELLO
    client.unwrapped.close()
    # openai 2 reads any exception as a broken connection.
    with pytest.raises((RuntimeError, sr.TransportFailed)):
        client.reply(**ASK)


@pytest.mark.parametrize("wrapped", ["on_attempt", "check"])
def test_v5_what_is_awaited_is_cancelled_at_the_deadline(wrapped: str) -> None:
    """A check or a watcher that never ends is cancelled, and the reply that it held up is not
    accepted.
    """
    cancelled: list[str] = []

    async def forever(_: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(wrapped)

    schema = {"type": "object"}
    tool = sr.Tool.from_json_schema("t", schema, check=forever) if wrapped == "check" else None
    called = {"id": "a", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    inner = Server(completion(calls=[called]) if tool else GOOD).async_client()

    watcher = forever if tool is None else None
    policy = sr.RetryPolicy(deadline=DEADLINE)
    client = sr.wrap(inner, tools=[tool] if tool else [], on_attempt=watcher, policy=policy)

    with pytest.raises(sr.ReplyHalted) as raised:
        asyncio.run(client.reply(**ASK))

    assert raised.value.reason == "deadline"
    assert cancelled[0] == wrapped
    assert not any(attempt.accepted for attempt in raised.value.attempts)


def test_v7_a_thousand_calls_into_an_outage_cost_a_tenth_more() -> None:
    """Twenty workers whose calls all fail repeat a hundred of them in all; when the server is back,
    so are they.
    """
    state: dict[str, Any] = {"down": True, "requests": 0}
    lock = threading.Lock()

    def handle(_: Any) -> Any:
        with lock:
            state["requests"] += 1
        return (
            http.Response(503, headers={"retry-after": "0"})
            if state["down"]
            else http.Response(200, json=GOOD)
        )

    own = http.Client(transport=http.MockTransport(handle))
    client = sr.wrap(
        openai.OpenAI(api_key="none", base_url="http://model.invalid/v1", http_client=own)
    )
    clients = [client, client.with_options(timeout=9), client.watched(lambda _: None)]
    reasons: list[str] = []

    def work(number: int) -> None:
        for _ in range(50):
            with pytest.raises(sr.TransportFailed) as raised:
                clients[number % len(clients)].reply(**ASK)
            reasons.append(raised.value.reason)
            assert raised.value.status_code == 503

    workers = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for worker in workers:
        worker.start()

    for worker in workers:
        worker.join()

    assert len(reasons) == 1000
    assert state["requests"] == 1100
    assert set(reasons[-100:]) == {"retry_budget"}
    state["down"] = False

    assert [one.reply(**ASK) for one in clients] == [HELLO] * 3
    assert state["requests"] == 1103
