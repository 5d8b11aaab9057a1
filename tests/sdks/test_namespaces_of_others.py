"""Clients whose namespaces are not the SDK's own: a tracer's proxies, and clients of one method."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tenacity import wait_none

import strictreply as sr
from support import scripted_responses as sdk
from support.scripted import SCHEMA, USER, Server, call, completion

NO_WAIT = sr.RetryPolicy(wait=wait_none())
GOOD = completion(calls=[call("search", {"query": "tea"})])
WRONG = completion(calls=[call("search", {"query": 1})])
GOOD_RESPONSE = sdk.response(sdk.call_item("search", {"query": "tea"}))
WRONG_RESPONSE = sdk.response(sdk.call_item("search", {"query": 1}))
TOOLS = [{"type": "function", "function": {"name": "search", "parameters": SCHEMA}}]
ASK: dict[str, Any] = {"model": "m", "messages": USER, "tools": TOOLS}
ASK_RESPONSE: dict[str, Any] = {"model": "m", "input": "find tea", "tools": [sdk.FLAT_SEARCH]}

PROXIED = ("client", "chat", "chat.completions", "responses")


class Proxy:
    """Passes each member on, and notes each call of ``create``, as a tracer does."""

    def __init__(self, inner: Any, seen: list[str]) -> None:
        self._inner = inner
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in ("beta", "chat", "completions", "responses"):
            return Proxy(found, self._seen)
        if name != "create":
            return found

        def create(**keywords: Any) -> Any:
            self._seen.append(name)
            return found(**keywords)

        return create


def put_over(client: Any, place: str) -> tuple[Any, list[str]]:
    """Put a proxy in some place of a client; return the client, and what the proxy notes."""
    seen: list[str] = []
    if place == "client":
        return Proxy(client, seen), seen

    *holders, name = place.split(".")
    holder = client
    for one in holders:
        holder = getattr(holder, one)

    setattr(holder, name, Proxy(getattr(holder, name), seen))
    return client, seen


STORED: dict[str, Callable[[Any], Any]] = {
    "chat.completions.retrieve": lambda client: client.chat.completions.retrieve("x"),
    "chat.completions.update": lambda client: client.chat.completions.update("x", metadata={}),
    "chat.completions.list": lambda client: client.chat.completions.list(),
    "responses.retrieve": lambda client: client.responses.retrieve("x"),
    "responses.cancel": lambda client: client.responses.cancel("x"),
    "responses.connect": lambda client: client.responses.connect(),
}
"""Ways to replies other than ``create``, by the path of each."""


@pytest.mark.parametrize("place", PROXIED)
@pytest.mark.parametrize("path", STORED)
def test_no_reply_comes_unjudged_through_a_namespace_of_others(place: str, path: str) -> None:
    """What a namespace that is not the SDK's brings beside ``create`` is judged, or refused."""
    answer = WRONG_RESPONSE if path.startswith("responses") else WRONG
    server = Server(answer)
    client, _ = put_over(server.client(), place)
    client = sr.wrap(client, policy=sr.RetryPolicy(max_retries=0))

    with pytest.raises((sr.ReplyRejected, AttributeError, NotImplementedError)) as caught:
        STORED[path](client)

    held = sr.guarded(client)[path]
    assert held == ("guarded" if isinstance(caught.value, sr.ReplyRejected) else "refuses")
    if isinstance(caught.value, AttributeError):
        assert "create()" in str(caught.value)


@pytest.mark.parametrize("form", ["with_raw_response", "with_streaming_response"])
def test_no_raw_response_comes_from_a_client_of_others(form: str) -> None:
    """A client that is not the SDK's has no form whose replies nothing judges."""
    server = Server(WRONG)
    client, _ = put_over(server.client(), "client")
    wrapped: Any = sr.wrap(client)

    with pytest.raises(AttributeError, match=r"call chat\.completions\.create\(\)"):
        getattr(wrapped, form)

    assert sr.guarded(wrapped)[form] == "refuses"
    assert server.bodies == []


def test_what_a_client_of_others_leaves_open_is_told() -> None:
    """``guarded`` names what a client that is not the SDK's passes on unjudged."""
    client, _ = put_over(Server(GOOD).client(), "client")
    held = sr.guarded(sr.wrap(client))
    assert held["post"] == held["completions"] == "unguarded"
    assert held["chat.completions.create"] == held["responses.create"] == "guarded"
    assert held["responses.parse"] == held["beta.responses"] == "refuses"


@pytest.mark.parametrize("place", ["chat", "chat.completions", "responses"])
def test_a_proxy_over_the_wrapped_clients_namespace_ends(place: str) -> None:
    """A proxy that is put over a namespace of the wrapped client itself sees the calls, and what
    came is judged: the call does not come back to the proxy for ever.
    """
    is_responses = place == "responses"
    answers = (WRONG_RESPONSE, GOOD_RESPONSE) if is_responses else (WRONG, GOOD)
    server = Server(*answers)
    client, seen = put_over(sr.wrap(server.client(), policy=NO_WAIT), place)

    if is_responses:
        arguments = client.responses.create(**ASK_RESPONSE).output[0].arguments
    else:
        calls = client.chat.completions.create(**ASK).choices[0].message.tool_calls
        arguments = calls[0].function.arguments

    assert json.loads(arguments) == {"query": "tea"}
    assert len(server.bodies) == 2
    assert seen


@pytest.mark.parametrize("place", PROXIED)
def test_an_async_client_behind_a_proxy_is_async(place: str) -> None:
    """Also where the proxy's ``create`` is a plain function that returns an awaitable."""
    server = Server(WRONG, GOOD, WRONG_RESPONSE, GOOD_RESPONSE)
    inner, _ = put_over(server.async_client(), place)
    client: Any = sr.wrap(inner, policy=NO_WAIT)

    async def ask() -> tuple[Any, Any]:
        completion_ = await client.chat.completions.create(**ASK)
        return completion_, await client.responses.create(**ASK_RESPONSE)

    came, response = asyncio.run(ask())
    calls = came.choices[0].message.tool_calls
    assert json.loads(calls[0].function.arguments) == {"query": "tea"}
    assert json.loads(response.output[0].arguments) == {"query": "tea"}
    assert len(server.bodies) == 4


def responses_alone(*, is_async: bool) -> Any:
    """Return a client that has nothing but ``responses.create``."""
    answers = iter((WRONG_RESPONSE, GOOD_RESPONSE))

    async def acreate(**_: Any) -> Any:
        return next(answers)

    def create(**_: Any) -> Any:
        return next(answers)

    return SimpleNamespace(responses=SimpleNamespace(create=acreate if is_async else create))


@pytest.mark.parametrize("is_async", [False, True])
def test_a_client_of_responses_alone_is_wrapped_as_what_it_is(*, is_async: bool) -> None:
    """A client with ``responses.create`` alone is sync or async as that is, and told so."""
    inner = responses_alone(is_async=is_async)
    client: Any = sr.wrap(inner, policy=NO_WAIT, api="responses")
    assert sr.guarded(client) == {"responses.create": "guarded"}
    assert isinstance(client, sr.AsyncStrictClient if is_async else sr.StrictClient)

    came: Any = client.responses.create(**ASK_RESPONSE)
    response: Any = asyncio.run(came) if is_async else came
    assert json.loads(response["output"][0]["arguments"]) == {"query": "tea"}


def test_a_client_of_responses_alone_is_told_how_to_wrap_it() -> None:
    """Without ``api`` such a client is refused, with the keyword that it needs."""
    with pytest.raises(TypeError, match=r'responses\.create: pass api="responses"'):
        sr.wrap(responses_alone(is_async=False))
