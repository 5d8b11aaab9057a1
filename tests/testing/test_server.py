"""The server over real sockets: its bytes, its endings, its refusals.

A scripted responder answers.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI, RateLimitError

from strictreply.core import JSONObject
from strictreply.testing import (
    HTTPReply,
    LoopbackServer,
    Pause,
    WireEnding,
    assistant,
    completion,
    error_reply,
)

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
JSON_TYPE = {"Content-Type": "application/json"}


def echo(request: JSONObject) -> JSONObject | HTTPReply:
    """Answer with the last turn's text; ``limit`` is a 429."""
    text = request["messages"][-1]["content"]
    if text == "limit":
        return error_reply(429, "slow down", kind="rate_limit_error", headers={"Retry-After": "7"})
    return completion(assistant(text), usage=(3, 4))


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """A server that echoes."""
    with LoopbackServer(echo) as running:
        yield running


@pytest.fixture
def connection(server: LoopbackServer) -> Iterator[http.client.HTTPConnection]:
    """One raw connection to it."""
    connected = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    yield connected
    connected.close()


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: object = None
) -> tuple[int, Any]:
    """Send one request and read its JSON."""
    payload = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    connection.request(method, path, body=payload)
    response = connection.getresponse()
    assert response.getheader("Content-Type") == "application/json"
    return response.status, json.loads(response.read())


def client_of(server: LoopbackServer) -> OpenAI:
    """The real SDK, without its own retries."""
    return OpenAI(base_url=server.base_url, api_key="none", max_retries=0)


def test_the_real_client_reads_the_completion(server: LoopbackServer) -> None:
    """The SDK parses what the responder returns, usage included."""
    with client_of(server) as client:
        answer = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "naïve ✓"}]
        )
        assert answer.choices[0].message.content == "naïve ✓"
        assert answer.usage is not None
        assert answer.usage.total_tokens == 7
        assert [model.id for model in client.models.list()] == ["scripted"]


def test_a_responder_sets_status_and_headers(server: LoopbackServer) -> None:
    """An HTTPReply goes out with its status, body and headers."""
    with client_of(server) as client, pytest.raises(RateLimitError) as caught:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "limit"}])
    assert caught.value.response.headers["retry-after"] == "7"
    assert caught.value.type == "rate_limit_error"


def test_the_async_client_reads_it_too(server: LoopbackServer) -> None:
    """The async SDK gets the same completion."""

    async def ask_once() -> str | None:
        async with AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
            answer = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "naïve ✓"}]
            )
            return answer.choices[0].message.content

    assert asyncio.run(ask_once()) == "naïve ✓"


def test_streams_are_served(server: LoopbackServer) -> None:
    """``stream=True`` gives the SDK the same text as chunks, and the connection serves on."""
    with client_of(server) as client:
        for _ in range(2):
            stream = client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "naïve ✓"}], stream=True
            )
            assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "naïve ✓"


def test_the_async_client_streams_too(server: LoopbackServer) -> None:
    """The async SDK gets the same chunks."""

    async def stream_once() -> str:
        async with AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
            stream = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "naïve ✓"}], stream=True
            )
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert asyncio.run(stream_once()) == "naïve ✓"


def post(server: LoopbackServer) -> socket.socket:
    """Ask for a completion over a socket of its own."""
    raw = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    body = json.dumps(ASK).encode()
    raw.sendall(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"
        % (len(body), body)
    )
    return raw


def read_all(raw: socket.socket) -> bytes:
    """Read up to the end of the connection."""
    answer = b""
    while chunk := raw.recv(65_536):
        answer += chunk
    return answer


def read_until(raw: socket.socket, last: bytes) -> bytes:
    """Read up to these bytes, which come once."""
    read = b""
    while not read.endswith(last):
        chunk = raw.recv(65_536)
        assert chunk
        read += chunk
    return read


def over_the_wire(reply: HTTPReply, **options: Any) -> bytes:
    """Return the bytes of a reply that reach a client before the server closes."""
    with LoopbackServer(lambda _: reply, **options) as server, post(server) as raw:
        return read_all(raw)


JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CLOSING = b"Connection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        (HTTPReply(ending=WireEnding.CUT), b""),
        (
            HTTPReply(200, JSON_TYPE, (b"{", b'"a"'), WireEnding.CUT),
            JSON_HEAD + b"Content-Length: 5\r\n" + CLOSING + b'{"a"',
        ),
        (
            HTTPReply(200, JSON_TYPE, (b"{", b'"a"'), WireEnding.CUT, "chunked"),
            JSON_HEAD + b"Transfer-Encoding: chunked\r\n" + CLOSING + b'1\r\n{\r\n3\r\n"a"\r\n',
        ),
        (
            HTTPReply(200, JSON_TYPE, (b"{", Pause(0.01), b"}")),
            JSON_HEAD + b"Content-Length: 2\r\n" + CLOSING + b"{}",
        ),
        (HTTPReply(parts=(b"\x00\xff garbage\r\n",), framing="raw"), b"\x00\xff garbage\r\n"),
        (
            HTTPReply(
                parts=(b"HTTP/1.1 200 OK\r\n", Pause(0.01), b"\r\n"),
                framing="raw",
                ending=WireEnding.CUT,
            ),
            b"HTTP/1.1 200 OK\r\n\r\n",
        ),
    ],
)
def test_the_bytes_on_the_wire(reply: HTTPReply, wanted: bytes) -> None:
    """A client gets exactly the bytes of the reply; then the connection ends."""
    assert over_the_wire(reply) == wanted


@pytest.mark.parametrize("parts", [(), (b"{",)])
def test_a_reset_is_one(parts: tuple[bytes, ...]) -> None:
    """The client's kernel reports a reset, not an end."""
    with pytest.raises(ConnectionResetError):
        over_the_wire(HTTPReply(200, JSON_TYPE, parts, WireEnding.RESET))


@pytest.mark.parametrize(
    "reply", [HTTPReply(ending=WireEnding.HANG), HTTPReply(200, JSON_TYPE, (Pause(3600), b"late"))]
)
def test_patience_ends(reply: HTTPReply) -> None:
    """A response that hangs or pauses for longer is broken off before what would follow."""
    assert b"late" not in over_the_wire(reply, patience=0.05)


def handlers() -> set[threading.Thread]:
    """Return the threads that serve a connection now."""
    return {thread for thread in threading.enumerate() if "process_request_thread" in thread.name}


@pytest.mark.parametrize(
    "reply",
    [
        HTTPReply(200, JSON_TYPE, (b"{",), WireEnding.HANG),
        HTTPReply(200, JSON_TYPE, (b"{", Pause(3600))),
        HTTPReply(200, JSON_TYPE, (b"{" * 1000,), endless=True),
    ],
    ids=["hang", "pause", "endless"],
)
def test_a_client_that_leaves_ends_what_would_not(reply: HTTPReply) -> None:
    """A response that hangs, pauses or never ends is over as soon as nobody reads it."""
    before = handlers()
    with LoopbackServer(lambda _: reply, patience=3600) as server:
        raw = post(server)
        assert raw.recv(1) == b"H"
        serving = handlers() - before
        raw.close()

        for thread in serving:
            thread.join(20)

        assert not any(thread.is_alive() for thread in serving)


@pytest.mark.parametrize(
    ("reply", "last"),
    [
        (HTTPReply(ending=WireEnding.HANG), b""),
        (HTTPReply(200, JSON_TYPE, (b"{",), WireEnding.HANG), b"{"),
        (HTTPReply(200, JSON_TYPE, (b"{", Pause(3600), b"}")), b"{"),
    ],
)
def test_closing_ends_what_would_not(reply: HTTPReply, last: bytes) -> None:
    """A server that is closed breaks off what it was sending at once."""
    asked = threading.Event()

    def answer(request: JSONObject) -> HTTPReply:
        asked.set()
        return reply

    with LoopbackServer(answer, patience=3600) as server:
        raw = post(server)
        assert asked.wait(20)
        read_until(raw, last)

    with raw:
        assert read_all(raw) == b""


def test_one_connection_serves_many_requests(connection: http.client.HTTPConnection) -> None:
    """The connection stays open over answers and errors alike."""
    wanted = [
        ("GET", "/health", None, 200),
        ("GET", "/v1/nothing", None, 404),
        ("POST", "/v1/nothing", ASK, 404),
        ("PUT", "/v1/chat/completions", ASK, 405),
        ("GET", "/v1/chat/completions", None, 405),
        ("POST", "/health", ASK, 405),
        ("POST", "/v1/chat/completions?x=1", ASK, 200),
    ]
    connection.connect()
    used = connection.sock

    for method, path, body, status in wanted:
        answered, read = ask(connection, method, path, body)
        assert answered == status
        assert status == 200 or set(read["error"]) == {"message", "type", "param", "code"}

    connection.request("HEAD", "/v1/models")
    head = connection.getresponse()
    assert (head.status, head.read()) == (405, b"")
    assert ask(connection, "GET", "/health") == (200, {"status": "ok"})

    assert connection.sock is used


def test_the_sockets_answer_a_bad_body(connection: http.client.HTTPConnection) -> None:
    """A refused body does not end the connection."""
    assert ask(connection, "POST", "/v1/chat/completions", b"{")[0] == 400
    assert ask(connection, "POST", "/v1/chat/completions", ASK)[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Content-Length: 8000001", 413),
        ("Content-Length: " + "9" * 5000, 413),
        ("Content-Length: -1", 400),
        ("Content-Length: ten", 400),
        ("Transfer-Encoding: chunked", 411),
    ],
)
def test_a_body_of_no_known_length_is_not_read(
    server: LoopbackServer, headers: str, status: int
) -> None:
    """Bodies over the cap or of unknown length are refused unread, and the connection ends."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n".encode())
        response = http.client.HTTPResponse(raw)
        response.begin()
        assert response.status == status
        assert json.loads(response.read())["error"]["message"]
        assert raw.recv(1) == b""


@pytest.mark.parametrize("line", [b"BREW /pot HTTP/1.1", b"nonsense", b"GET / HTTP/9.9"])
def test_what_is_no_http_gets_json_too(server: LoopbackServer, line: bytes) -> None:
    """Even what http.server itself refuses is answered in OpenAI's shape."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(line + b"\r\nHost: x\r\n\r\n")
        answer = read_all(raw)
    assert json.loads(answer[answer.index(b"{") :])["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "192.0.2.1", "example.org", "", "127.0.0.1.example.org"],  # noqa: S104 - refused
)
def test_only_loopback_is_bound(host: str) -> None:
    """A host that others could reach is a ValueError."""
    with pytest.raises(ValueError, match="loopback"):
        LoopbackServer(echo, host=host)


def test_localhost_is_loopback() -> None:
    """``localhost`` binds the IPv4 loopback address, a free port, and names itself."""
    with LoopbackServer(echo, host="localhost") as server:
        assert server.base_url == f"http://127.0.0.1:{server.port}/v1"


def test_closing_frees_the_port_at_once() -> None:
    """With an idle keep-alive connection open, leaving the context still ends, and the port can be
    bound again.
    """
    with LoopbackServer(echo) as server:
        idle = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        assert ask(idle, "GET", "/health")[0] == 200
    with LoopbackServer(echo, port=server.port) as again:
        assert again.port == server.port
    idle.close()


def test_an_unopened_server_can_be_left() -> None:
    """The IPv6 loopback address is bound like the other, and what never served is closed all the
    same.
    """
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        server = LoopbackServer(echo, host="::1")
    except OSError:
        pytest.skip("no IPv6 loopback here")
    assert server.base_url == f"http://[::1]:{server.port}/v1"
    server.__exit__(None, None, None)


def test_a_client_that_goes_away_is_only_logged() -> None:
    """A connection that breaks in the middle of a body leaves a line in the log, and the server
    serves on.
    """
    lines: list[str] = []
    with LoopbackServer(echo, log=lines.append) as server:
        raw = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        raw.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.close()

        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        assert ask(connection, "GET", "/health")[0] == 200
        connection.close()


def test_what_is_not_open_refuses_connections() -> None:
    """Before it serves, and after, a client is refused at once: it would wait without end."""
    server = LoopbackServer(echo)
    address = ("127.0.0.1", server.port)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=20)
    with server:
        socket.create_connection(address, timeout=20).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=20)


def test_a_port_that_is_taken_is_an_error() -> None:
    """A second server on the port of an open one is an OSError when it is made."""
    with LoopbackServer(echo) as server, pytest.raises(OSError, match="in use"):
        LoopbackServer(echo, port=server.port)


def open_to(server: LoopbackServer) -> None:
    """Wait until a server that another thread opens listens.

    The test's own time limit bounds the wait.
    """
    listening = False
    while not listening:
        with (
            suppress(ConnectionRefusedError),
            socket.create_connection(("127.0.0.1", server.port), timeout=20),
        ):
            listening = True


def test_it_serves_from_the_calling_thread_too() -> None:
    """``serve_forever`` serves until the process ends, with one log line a request."""
    lines: list[str] = []
    server = LoopbackServer(echo, log=lines.append)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    open_to(server)
    with client_of(server) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert len(lines) == 1
    assert "/v1/chat/completions" in lines[0]


def test_many_clients_are_served_at_once(server: LoopbackServer) -> None:
    """Each client gets the answer to its own question."""
    answers: dict[int, Any] = {}

    def one(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        body = ASK | {"messages": [{"role": "user", "content": str(number)}]}
        answers[number] = ask(connection, "POST", "/v1/chat/completions", body)[1]["choices"][0][
            "message"
        ]["content"]
        connection.close()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join()

    assert answers == {number: str(number) for number in range(16)}
