"""The server over real sockets: HTTP, OpenAI's shapes, refusals; what is answered is a scripted responder."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from openai import BadRequestError, InternalServerError, OpenAI, RateLimitError

from strictreply.demo import DemoServer, HTTPReply, error_reply
from strictreply.demo.server import MAX_BODY_BYTES, read_request
from strictreply.demo.wire import completion

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def echo(request: dict[str, Any]) -> dict[str, Any] | HTTPReply:
    """Answer with the last turn's text; ``limit`` is a 429, ``crash`` raises."""
    text = request["messages"][-1]["content"]
    if text == "limit":
        return error_reply(429, "slow down", kind="rate_limit_error", headers={"Retry-After": "7"})
    if text == "crash":
        raise KeyError("secret")
    message = {"role": "assistant", "content": text, "refusal": None}
    return completion(message, id="c1", model=request["model"], finish_reason="stop", usage=(3, 4))


@pytest.fixture
def server() -> Iterator[DemoServer]:
    """A server that echoes."""
    with DemoServer(echo) as running:
        yield running


@pytest.fixture
def connection(server: DemoServer) -> Iterator[http.client.HTTPConnection]:
    """One raw connection to it."""
    connected = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    yield connected
    connected.close()


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Send one request and read its JSON."""
    payload = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    connection.request(method, path, body=payload)
    response = connection.getresponse()
    assert response.getheader("Content-Type") == "application/json"
    return response.status, json.loads(response.read())


def client_of(server: DemoServer) -> OpenAI:
    """The real SDK, without its own retries."""
    return OpenAI(base_url=server.base_url, api_key="none", max_retries=0)


def test_the_real_client_reads_the_completion(server: DemoServer) -> None:
    """What the responder gives is what the SDK parses, usage included."""
    with client_of(server) as client:
        answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "naïve ✓"}])
        assert answer.choices[0].message.content == "naïve ✓"
        assert answer.usage is not None
        assert answer.usage.total_tokens == 7
        assert [model.id for model in client.models.list()] == ["unreliable-1"]


def test_a_responder_sets_status_and_headers(server: DemoServer) -> None:
    """An HTTPReply goes out with its status, body and headers."""
    with client_of(server) as client, pytest.raises(RateLimitError) as caught:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "limit"}])
    assert caught.value.response.headers["retry-after"] == "7"
    assert caught.value.type == "rate_limit_error"


def test_a_failing_responder_is_a_500(server: DemoServer) -> None:
    """What a responder raises becomes a server error that names the type and nothing else."""
    with client_of(server) as client, pytest.raises(InternalServerError) as caught:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "crash"}])
    assert "KeyError" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_streams_are_refused(server: DemoServer) -> None:
    """``stream=True`` is a 400 that names the parameter."""
    with client_of(server) as client, pytest.raises(BadRequestError) as caught:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True)
    assert caught.value.param == "stream"


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
    assert connection.sock is used


def test_a_wrong_method_is_told_the_right_one(connection: http.client.HTTPConnection) -> None:
    """A 405 carries Allow, and HEAD gets no body."""
    connection.request("HEAD", "/v1/chat/completions")
    response = connection.getresponse()
    assert (response.status, response.getheader("Allow"), response.read()) == (405, "POST", b"")
    assert ask(connection, "GET", "/health") == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None),
        (b"{", None),
        (b"[" * 100_000, None),
        (b"\xff", None),
        (b"[]", None),
        (b'{"messages": []}', "model"),
        (b'{"model": 1, "messages": [{}]}', "model"),
        (b'{"model": "m"}', "messages"),
        (b'{"model": "m", "messages": []}', "messages"),
        (b'{"model": "m", "messages": ["hi"]}', "messages"),
        (b'{"model": "m", "messages": [{}], "stream": true}', "stream"),
    ],
)
def test_a_bad_body_is_refused(body: bytes, param: str | None) -> None:
    """What is no request gets a 400 in OpenAI's shape that names the member at fault."""
    refused = read_request(body)
    assert isinstance(refused, HTTPReply)
    assert refused.status == 400
    assert refused.body["error"]["type"] == "invalid_request_error"
    assert refused.body["error"]["param"] == param


def test_the_sockets_answer_a_bad_body(connection: http.client.HTTPConnection) -> None:
    """A refused body does not end the connection."""
    assert ask(connection, "POST", "/v1/chat/completions", b"{")[0] == 400
    assert ask(connection, "POST", "/v1/chat/completions", ASK)[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (f"Content-Length: {MAX_BODY_BYTES + 1}", 413),
        ("Content-Length: " + "9" * 5000, 413),
        ("Content-Length: -1", 400),
        ("Content-Length: ten", 400),
        ("Transfer-Encoding: chunked", 411),
    ],
)
def test_a_body_of_no_known_length_is_not_read(server: DemoServer, headers: str, status: int) -> None:
    """Bodies over the cap or of unknown length are refused unread, and the connection ends."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n".encode())
        response = http.client.HTTPResponse(raw)
        response.begin()
        assert response.status == status
        assert json.loads(response.read())["error"]["message"]
        assert raw.recv(1) == b""


@pytest.mark.parametrize("line", [b"BREW /pot HTTP/1.1", b"nonsense", b"GET / HTTP/9.9"])
def test_what_is_no_http_gets_json_too(server: DemoServer, line: bytes) -> None:
    """Even what http.server itself refuses is answered in OpenAI's shape."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(line + b"\r\nHost: x\r\n\r\n")
        answer = b""
        while chunk := raw.recv(65_536):
            answer += chunk
    assert json.loads(answer[answer.index(b"{") :])["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "", "127.0.0.1.example.org"])  # noqa: S104 - refused
def test_only_loopback_is_bound(host: str) -> None:
    """A host that others could reach is a ValueError."""
    with pytest.raises(ValueError, match="loopback"):
        DemoServer(echo, host=host)


def test_localhost_is_loopback() -> None:
    """``localhost`` binds the IPv4 loopback address, a free port, and names itself."""
    with DemoServer(echo, host="localhost") as server:
        assert server.base_url == f"http://127.0.0.1:{server.port}/v1"


def test_closing_frees_the_port_at_once() -> None:
    """With an idle keep-alive connection open, leaving the context still ends, and the port can be bound again."""
    with DemoServer(echo) as server:
        idle = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        assert ask(idle, "GET", "/health")[0] == 200
    with DemoServer(echo, port=server.port) as again:
        assert again.port == server.port
    idle.close()


def test_an_unopened_server_can_be_left() -> None:
    """The IPv6 loopback address is bound like the other, and what never served is closed all the same."""
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        server = DemoServer(echo, host="::1")
    except OSError:
        pytest.skip("no IPv6 loopback here")
    assert server.base_url == f"http://[::1]:{server.port}/v1"
    server.__exit__(None, None, None)


def test_a_client_that_goes_away_is_only_logged() -> None:
    """A connection that breaks in the middle of a body leaves a line in the log, and the server serves on."""
    lines: list[str] = []
    with DemoServer(echo, log=lines.append) as server:
        raw = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        raw.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.close()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        assert ask(connection, "GET", "/health")[0] == 200
        connection.close()


def test_it_serves_from_the_calling_thread_too() -> None:
    """``serve_forever`` serves until the process ends, with one log line a request."""
    lines: list[str] = []
    server = DemoServer(echo, log=lines.append)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with client_of(server) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert len(lines) == 1
    assert "/v1/chat/completions" in lines[0]


def test_many_clients_are_served_at_once(server: DemoServer) -> None:
    """Each client gets the answer to its own question."""
    answers: dict[int, Any] = {}

    def one(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        body = ASK | {"messages": [{"role": "user", "content": str(number)}]}
        answers[number] = ask(connection, "POST", "/v1/chat/completions", body)[1]["choices"][0]["message"]["content"]
        connection.close()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: str(number) for number in range(16)}
