"""What runs over the Messages API share in tests: tools, and wrapped clients of a strict server."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, Field

import strictreply as sr
from support.anthropic_rules import RulesServer
from support.claude import anthropic, http

ASKED: dict[str, Any] = {"model": "claude", "max_tokens": 1000}

THINKING: dict[str, Any] = {
    "max_tokens": 3000,
    "thinking": {"type": "enabled", "budget_tokens": 1024},
}


class Total(BaseModel):
    """An answer with a bound."""

    n: int = Field(ge=3)


@sr.tool
def search(query: str, limit: int = 5) -> list[str]:
    """Search."""
    return [query] * limit


@sr.tool(needs_approval=True)
def refund(order: int) -> str:
    """Refund an order."""
    return f"order {order} refunded"


def raw_client(server: RulesServer, *, is_async: bool = False) -> Any:
    """Return a client of the SDK for a server on loopback, which leaves no connection open."""
    kind = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
    transport = http.AsyncClient if is_async else http.Client
    own = transport(limits=http.Limits(max_keepalive_connections=0))

    return kind(api_key="k", base_url=server.url, max_retries=0, http_client=own)


def client(server: RulesServer, *, is_async: bool = False, **given: Any) -> Any:
    """Return a wrapped client, with the tools that run here unless others are given."""
    declared: dict[str, Any] = {"tools": [search]} | given
    return sr.wrap(raw_client(server, is_async=is_async), **declared)


def memory_client(server: RulesServer) -> Any:
    """Return an async client of the SDK for a server in memory: it has no connections."""

    async def handle(request: Any) -> Any:
        status, kind, written = server.answer(request.url.path, json.loads(request.content))
        return http.Response(status, headers={"content-type": kind}, content=written)

    own = http.AsyncClient(transport=http.MockTransport(handle))
    return anthropic.AsyncAnthropic(api_key="k", base_url="http://claude.test", http_client=own)
