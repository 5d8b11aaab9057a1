"""Every method of the SDK's client that can bring a model's reply is judged, refused or told.

The methods are found by what they return, so a method that the next SDK adds is found, too.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import cache, cached_property
from typing import Any

import openai
import pytest
from openai._resource import SyncAPIResource
from openai.types.responses import Response

import strictreply as sr
from support import scripted_responses as sdk
from support.loops import some
from support.scripted import USER, Server, call, completion, http
from support.sdk_doors import FORMS, NO_REPLY, at, doors, forms
from support.streamed_replies import streamed, streamed_response

ONCE = sr.RetryPolicy(max_retries=0, transport_retries=0)
BAD_CALL = ("drop_table", "{not json")
BAD = completion(calls=[call(*BAD_CALL)])
BAD_RESPONSE = sdk.response(sdk.call_item(*BAD_CALL))

ARGUMENTS: dict[str, Any] = {
    "completion_id": "chatcmpl-1",
    "input": "find tea",
    "messages": USER,
    "metadata": {"team": "red"},
    "model": "m",
    "response_id": "resp_1",
}


class Bad(Server):
    """A server that answers every request with a bad reply of its API."""

    def __init__(self) -> None:
        super().__init__(BAD)

    def handle(self, request: Any) -> Any:
        """Answer one request, which is kept."""
        self.requests.append(request)
        asked = json.loads(request.content) if request.content else {}
        is_stream = bool(asked.get("stream")) or request.url.params.get("stream") == "true"
        if "responses" in request.url.path:
            if is_stream:
                return streamed_response(BAD_RESPONSE)
            return http.Response(200, json=BAD_RESPONSE)

        return streamed(BAD) if is_stream else http.Response(200, json=BAD)


def client_of(*, is_async: bool) -> tuple[Any, Bad]:
    """Return a wrapped client over a bad server."""
    server = Bad()
    raw: Any = server.async_client() if is_async else server.client()
    return sr.wrap(raw, policy=ONCE), server


@cache
def told(*, is_async: bool) -> dict[str, str]:
    """Return what ``guarded`` says of the methods of a client."""
    return dict(sr.guarded(client_of(is_async=is_async)[0]))


def untold(client: Any) -> list[str]:
    """Return the doors of a client of which ``guarded`` does not say that they are doors."""
    inner = client.unwrapped
    held = sr.guarded(client)
    paths = [one for path in doors(inner) if path not in NO_REPLY for one in forms(inner, path)]
    return [path for path in paths if held.get(path, "passes") == "passes"]


@pytest.mark.parametrize("is_async", [False, True])
def test_each_door_is_told(*, is_async: bool) -> None:
    """What can bring a reply is listed as guarded, refused or unguarded, in each of its forms."""
    assert untold(client_of(is_async=is_async)[0]) == []


def test_both_clients_have_the_same_doors() -> None:
    """What is told of the sync client holds for the async one."""
    assert told(is_async=False) == told(is_async=True)


def test_a_new_door_is_found() -> None:
    """A method of an API that nobody knows, found by the type that it returns."""

    class Later(SyncAPIResource):
        def create(self) -> Response:
            return self._post("/later", cast_to=Response)

    class Newer(openai.OpenAI):
        @cached_property
        def later(self) -> Later:
            return Later(self)

    client: Any = sr.wrap(Newer(api_key="none"))
    assert untold(client) == ["later.create"]


def calls(client: Any, path: str) -> list[dict[str, Any]]:
    """Return the keywords of the calls that are made of a method."""
    parameters = inspect.signature(inspect.unwrap(at(client.unwrapped, path))).parameters
    if path.endswith("connect"):
        return [{}]

    is_by_id = path.endswith("responses.stream")
    given = {name: ARGUMENTS[name] for name in ARGUMENTS.keys() & parameters.keys()}
    new = {name: value for name, value in given.items() if not is_by_id or name != "response_id"}
    ways = [new, {"response_id": "resp_1"}] if is_by_id else [new]
    streams = [way | {"stream": True} for way in ways if "stream" in parameters]
    return [*ways, *streams]


def used(given: Any) -> None:
    """Use what a call returned as a program would."""
    if inspect.isawaitable(given) or isinstance(given, AbstractAsyncContextManager):
        asyncio.run(aused(given))
    elif hasattr(given, "parse"):
        used(given.parse())
    elif hasattr(given, "__iter__"):
        list(given)
    elif isinstance(given, AbstractContextManager):
        with given as inside:
            used(inside)


async def aused(given: Any) -> None:
    """Use what an async call returned."""
    if inspect.isawaitable(given):
        await aused(await given)
    elif hasattr(given, "parse"):
        await aused(given.parse())
    elif hasattr(given, "__aiter__"):
        async for _ in given:
            pass
    elif isinstance(given, AbstractAsyncContextManager):
        async with given as inside:
            await aused(inside)


DOORS = sorted(
    path
    for path in doors(client_of(is_async=False)[0].unwrapped)
    if told(is_async=False)[path] != "unguarded" and path not in NO_REPLY
)


def ways(client: Any, path: str) -> list[str]:
    """Return the paths by which a method is reached: the plain one, and with each form on the way.

    They are looked up in the client inside first, which keeps what it makes.
    """
    steps = path.split(".")
    found = [path]
    for form in FORMS:
        places = [".".join((*steps[:place], form, *steps[place:])) for place in range(len(steps))]
        found += [way for way in places if at(client.unwrapped, way) is not None]

    return found


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("path", DOORS)
def test_no_bad_reply_comes_out_of_a_door(path: str, *, is_async: bool) -> None:
    """A guarded method raises for a bad reply, a refused one raises and sends nothing."""
    is_guarded = told(is_async=is_async)[path] == "guarded"
    kind = sr.ReplyRejected if is_guarded else NotImplementedError

    client, server = client_of(is_async=is_async)
    for way in ways(client, path):
        for keywords in calls(client, path):
            with pytest.raises(kind):
                used(at(client, way)(**keywords))

    assert bool(server.requests) == is_guarded


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("path", DOORS)
def test_no_bad_reply_comes_out_of_a_door_made_by_hand(path: str, *, is_async: bool) -> None:
    """The SDK's own resource, made over the wrapped client, is held as that of the client is."""
    if path.endswith("connect"):
        pytest.importorskip("websockets", reason="the SDK has no websockets without it")

    client, _ = client_of(is_async=is_async)
    place, _, name = path.rpartition(".")
    resource = type(at(client.unwrapped, place))(client)
    for keywords in some(calls(client, path)):
        with pytest.raises((sr.ReplyRejected, NotImplementedError)):
            used(getattr(resource, name)(**keywords))


@pytest.mark.parametrize("is_async", [False, True])
def test_other_websockets_find_their_address(*, is_async: bool) -> None:
    """Only those of the Responses API are refused; the address is that of the client inside."""
    client, _ = client_of(is_async=is_async)
    assert client.websocket_base_url is None
    client.websocket_base_url = "wss://model.invalid/v1"
    assert client.unwrapped.websocket_base_url == "wss://model.invalid/v1"
    assert client.with_options(timeout=1).websocket_base_url == "wss://model.invalid/v1"

    manager: Any = client.realtime.connect(model="m")
    assert str(manager._prepare_url()).startswith("wss://model.invalid/v1/realtime")


def test_the_walk_reaches_every_api() -> None:
    """It finds the known doors, among them each whose reply is stored."""
    found = doors(client_of(is_async=False)[0].unwrapped)
    assert {
        "chat.completions.create",
        "chat.completions.list",
        "chat.completions.retrieve",
        "chat.completions.update",
        "beta.chat.completions.parse",
        "responses.cancel",
        "responses.connect",
        "responses.retrieve",
        "responses.stream",
        "beta.responses.retrieve",
        "completions.create",
        "conversations.items.list",
        "realtime.connect",
    } <= found.keys()
    assert len(DOORS) > 15
