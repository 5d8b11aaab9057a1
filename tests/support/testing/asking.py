"""Requests to what the kit serves, as an HTTP client sends them and reads the responses."""

from __future__ import annotations

from typing import Any

from strictreply.testing import Responder
from strictreply.testing.mounting import transport
from support.scripted import http


def sent(responder: Responder, method: str, target: str, body: bytes = b"") -> Any:
    """Send one request in memory; gives the HTTP library's response, read to its end."""
    mounted = transport(responder)
    with http.Client(transport=mounted, base_url="http://model.invalid") as client:
        return client.request(method, target, content=body)


def pieces_sent(responder: Responder, target: str, asked: dict[str, Any]) -> list[bytes]:
    """Send one request in memory; gives the pieces in which the body came."""
    mounted = transport(responder)
    with (
        http.Client(transport=mounted, base_url="http://model.invalid") as client,
        client.stream("POST", target, json=asked) as response,
    ):
        return list(response.iter_raw())
