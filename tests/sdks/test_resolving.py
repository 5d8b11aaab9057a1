"""The deadline of a sync call covers looking up the name of its host."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import openai
import pytest

import strictreply as sr
from support.scripted import USER, completion


class Answering(BaseHTTPRequestHandler):
    """Answers every request with one completion."""

    def do_POST(self) -> None:
        """Answer."""
        body = json.dumps(completion("hello")).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its own name
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """Serve on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def wrapped(port: int, **policy: Any) -> Any:
    """Wrap a client of a host that only a lookup of ours knows."""
    url = f"http://model.invalid:{port}/v1"
    inner = openai.OpenAI(api_key="none", base_url=url, max_retries=0)
    return sr.wrap(inner, policy=sr.RetryPolicy(transport_retries=0, **policy))


def found_at(*addresses: str, before: threading.Event | None = None) -> Any:
    """Return a lookup that finds these addresses, once ``before`` is set."""
    known = socket.getaddrinfo

    def look_up(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if host != "model.invalid":
            return known(host, port, *rest, **more)

        if before is not None:
            before.wait(30)

        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    return look_up


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_lookup_without_end_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, port: int, is_streamed: bool
) -> None:
    """A call ends at its deadline while the name of its host is still being looked up."""
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", found_at("127.0.0.1", before=release))
    client = wrapped(port, deadline=0.2)
    try:
        with pytest.raises(sr.ReplyHalted) as halted:
            list(client.chat.completions.create(model="m", messages=USER, stream=is_streamed))

        assert halted.value.reason == "deadline"
        assert not release.is_set()
    finally:
        release.set()


def test_every_address_is_tried(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """An address that refuses is followed by the next one of the host."""
    monkeypatch.setattr(socket, "getaddrinfo", found_at("127.0.0.2", "127.0.0.1"))
    assert wrapped(port, deadline=20).reply(model="m", messages=USER).answer == "hello"


def test_an_unknown_host_is_a_failed_connection(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """A name that is not found ends the call as a connection that failed."""
    monkeypatch.setattr(socket, "getaddrinfo", found_at())
    with pytest.raises(sr.TransportFailed) as failed:
        wrapped(port, deadline=20).reply(model="m", messages=USER)

    assert failed.value.reason == "connection"


def test_without_a_deadline_nothing_changes(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """A call without a deadline is left to the HTTP library."""
    monkeypatch.setattr(socket, "getaddrinfo", found_at("127.0.0.1"))
    assert wrapped(port).reply(model="m", messages=USER).answer == "hello"
