"""Wherever a program stands between us and the SDK it sees the request as it is sent.

Retries have one owner.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion
from tenacity import wait_none

import strictreply as sr
from strictreply.sdks._transport import _is_untouched
from strictreply.wires import WIRES
from support.scripted import (
    SCHEMA,
    USER,
    Client,
    Server,
    StatusError,
    call,
    completion,
    http,
    status,
    truncated,
)
from support.tracers.recorders import sdk_left_as_it_was

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
WRONG = completion(calls=[call("search", {"query": 1})])
GOOD = completion(calls=[call("search", {"query": "tea"})])
POLICY = sr.RetryPolicy(wait=wait_none())
ASK: dict[str, Any] = {"model": "m", "messages": USER}

Seen = list[str]


def down() -> Server:
    """Make a server that refuses every request."""
    return Server(status(503, {"error": {"message": "down"}}, retry_after_ms="1"))


def spy(holder: Any, name: str, seen: Seen) -> None:
    """Put a function over a method that notes the text of the messages it is given, and goes on."""
    original = getattr(holder, name)

    def over(*args: Any, **keywords: Any) -> Any:
        given = [*args, *keywords.values()]
        bodies = [one.json_data if hasattr(one, "json_data") else one for one in given]
        known = [one.get("messages", one) if isinstance(one, dict) else one for one in bodies]
        seen.append(json.dumps(known, default=str))
        return original(*args, **keywords)

    setattr(holder, name, over)


PLACES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "create of the completions": (lambda client: client.chat.completions, "create"),
    "create of the class": (lambda client: type(client.chat.completions), "create"),
    "post of the client": (lambda client: client, "post"),
    "post of the class": (type, "post"),
    "request of the client": (lambda client: client, "request"),
    "request of the class": (type, "request"),
    "_prepare_options of the client": (lambda client: client, "_prepare_options"),
    "_build_request of the class": (type, "_build_request"),
}
THE_SDKS_RETRIES = "create of the completions"
"""The one place from which nothing leads on to a client that sends once."""


def replied(client: Any) -> Any:
    """Ask for a reply, of either twin."""
    result = client.reply(**ASK)
    return asyncio.run(awaited(result)) if inspect.isawaitable(result) else result


async def awaited(result: Any) -> Any:
    """Await what an async client returned."""
    return await result


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("twin", ["sync", "async"])
@pytest.mark.parametrize("when", ["before", "after", "after the first reply"])
def test_who_stands_in_a_place_sees_each_request_as_it_is_sent(
    place: str, twin: str, when: str
) -> None:
    """The messages of both asks are seen once, the correction in the second; the guard holds."""
    server = Server(GOOD, WRONG, GOOD)
    seen = Seen()
    inner: Any = server.client() if twin == "sync" else server.async_client()
    holder, name = PLACES[place]

    with sdk_left_as_it_was():
        if when == "before":
            spy(holder(inner), name, seen)

        client = sr.wrap(inner, tools=[SEARCH])

        if when == "after":
            spy(holder(inner), name, seen)

        replied(client)

        if when == "after the first reply":
            spy(holder(inner), name, seen)

        seen.clear()
        assert replied(client).args == {"query": "tea"}

    assert ["find tea" in one for one in seen] == [True, True]
    assert ["must be a string" in one for one in seen] == [False, True]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(WRONG, openai.APIResponseValidationError), (truncated(), openai.LengthFinishReasonError)],
)
@pytest.mark.parametrize("place", PLACES)
def test_a_rejection_is_the_sdks_error_whoever_read_the_response(
    place: str, answer: Any, kind: Any
) -> None:
    """Code that catches the SDK's errors still catches them when a recorder is put between."""
    inner = Server(answer).client()
    holder, name = PLACES[place]
    with sdk_left_as_it_was():
        spy(holder(inner), name, [])
        with pytest.raises(kind) as raised:
            replied(sr.wrap(inner, tools=[SEARCH], policy=sr.RetryPolicy(max_retries=0)))
    assert issubclass(raised.type, sr.ReplyRejected)
    assert pickle.loads(pickle.dumps(raised.value)).reason == "retries"  # noqa: S301 - ours


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("twin", ["sync", "async"])
def test_retries_have_one_owner_in_every_place(place: str, twin: str) -> None:
    """The policy's budget counts where the SDK can be made to send once, elsewhere the SDK's."""
    server = down()
    inner: Any = (
        server.client(max_retries=1) if twin == "sync" else server.async_client(max_retries=1)
    )
    holder, name = PLACES[place]

    with sdk_left_as_it_was():
        spy(holder(inner), name, [])
        policy = sr.RetryPolicy(wait=wait_none(), transport_retries=3)
        with pytest.raises(sr.TransportFailed):
            replied(sr.wrap(inner, tools=[SEARCH], policy=policy))

    assert len(server.requests) == (2 if place == THE_SDKS_RETRIES else 4)


@pytest.mark.parametrize("place", [place for place in PLACES if place.endswith("of the class")])
@pytest.mark.parametrize("twin", ["sync", "async"])
def test_the_cap_of_a_response_holds_under_a_patch_of_a_class(place: str, twin: str) -> None:
    """A recorder put over a class is called with the client that sends within bounds."""
    server = Server(completion("x" * 100_000))
    inner: Any = server.client() if twin == "sync" else server.async_client()
    holder, name = PLACES[place]
    with sdk_left_as_it_was():
        spy(holder(inner), name, [])
        with pytest.raises(sr.TransportFailed) as raised:
            replied(sr.wrap(inner, limits=sr.Limits(reply_bytes=1000), policy=POLICY))
    assert raised.value.reason == "response_too_large"


@pytest.mark.parametrize(("owned", "asked"), [(None, 3), (0, 1), (2, 1)])
def test_a_client_of_another_library_that_repeats_by_itself_owns_the_retries(
    owned: int | None, asked: int
) -> None:
    """Where ``max_retries`` of the client says that it repeats, nothing is repeated by us; None
    says nothing.
    """
    client = Client(*[StatusError(503)] * 3)
    vars(client)["max_retries"] = owned
    with pytest.raises(sr.TransportFailed):
        sr.wrap(client, policy=POLICY).reply(**ASK)
    assert len(client.script.requests) == asked


def test_a_subclass_with_a_hook_of_the_sdk_sees_the_request() -> None:
    """``_prepare_options`` is the SDK's own hook for subclasses: it gets the messages, and what it
    changes is sent.
    """
    server = Server(GOOD)
    seen = Seen()

    class Hooked(openai.OpenAI):
        """A client that looks at what it sends."""

        def _prepare_options(self, options: Any) -> Any:
            seen.append(json.dumps(options.json_data["messages"]))
            options.json_data["seed"] = 7
            return super()._prepare_options(options)

    plain = server.client()
    client = sr.wrap(
        Hooked(api_key="none", base_url=plain.base_url, http_client=plain._client), tools=[SEARCH]
    )
    client.reply(**ASK)
    assert "find tea" in seen[0]

    assert json.loads(server.bodies[0])["seed"] == 7


def hooked(kind: Any, server: Server) -> Any:
    """Make a client of a class with hooks of its own over a server."""
    plain = server.client()
    return kind(api_key="none", base_url=plain.base_url, http_client=plain._client)


def test_a_subclass_makes_headers_of_the_request() -> None:
    """Whatever looks at the options of a request finds its body there, also where tools are encoded
    only once.
    """
    server = Server(GOOD)

    class Hooked(openai.OpenAI):
        """A client that tells a gateway the model in a header."""

        def _build_headers(self, options: Any, **given: Any) -> Any:
            headers = super()._build_headers(options, **given)
            headers["x-model"] = options.json_data["model"]
            return headers

    sr.wrap(hooked(Hooked, server), tools=[SEARCH]).reply(**ASK)
    assert server.requests[0].headers["x-model"] == "m"


@pytest.mark.parametrize("form", ["create", "with_raw_response", "with_streaming_response"])
def test_a_subclass_makes_the_completion(form: str) -> None:
    """``_process_response_data`` is the SDK's own hook for subclasses: every form of a completion
    is what it makes.
    """

    class Hooked(openai.OpenAI):
        """A client that marks what it returns."""

        def _process_response_data(self, **given: Any) -> Any:
            made = super()._process_response_data(**given)
            made.marked = True
            return made

    completions: Any = sr.wrap(hooked(Hooked, Server(GOOD)), tools=[SEARCH]).chat.completions

    if form == "create":
        made = completions.create(**ASK)
    elif form == "with_raw_response":
        made = completions.with_raw_response.create(**ASK).parse()
    else:
        with completions.with_streaming_response.create(**ASK) as response:
            made = response.parse()

    assert made.marked


def test_what_is_put_over_the_addresses_later_makes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A joined address is kept only as long as nobody stands where the SDK joins it."""
    server = Server(GOOD)
    client = sr.wrap(server.client(), tools=[SEARCH])
    client.reply(**ASK)

    with monkeypatch.context() as patch:
        patch.setattr(
            openai.OpenAI, "_prepare_url", lambda self, url: http.URL(f"http://other.invalid{url}")
        )
        client.reply(**ASK)

    client.reply(**ASK)
    assert [one.url.host for one in server.requests] == [
        "model.invalid",
        "other.invalid",
        "model.invalid",
    ]


def test_azure_takes_the_fast_way() -> None:
    """A subclass of the SDK's own, with hooks of its own, is the SDK: nobody stands there."""
    server = Server(GOOD)
    plain = server.client()
    azure = openai.AzureOpenAI(
        api_key="none",
        azure_endpoint="http://model.invalid",
        api_version="1",
        http_client=plain._client,
    )
    client = sr.wrap(azure, tools=[SEARCH])
    sender = client._guard.namespaces.way_to(WIRES["chat"])._sender_of(azure.chat.completions)
    assert _is_untouched(sender._client, type(sender).create)

    client.reply(**ASK)
    assert "find tea" in server.bodies[0].decode()


def test_beta_has_completions_of_its_own() -> None:
    """As in the SDK: what patches ``parse`` of both records a call once, and both are guarded."""
    client = sr.wrap(Server(WRONG, GOOD, WRONG, GOOD).client(), tools=[SEARCH])
    assert client.beta.chat.completions is client.beta.chat.completions
    assert client.beta.chat.completions is not client.chat.completions
    for completions in (client.chat.completions, client.beta.chat.completions):
        assert (
            completions.create(**ASK).choices[0].message.tool_calls[0].function.arguments
            == '{"query": "tea"}'
        )


def test_a_proxy_that_a_recorder_makes_of_a_client_is_asked() -> None:
    """Some recorders return an object with ``chat.completions.create``, not a patched client."""
    server = down()
    seen = Seen()
    inner = server.client(max_retries=1)

    def create(**keywords: Any) -> Any:
        seen.append(json.dumps(keywords["messages"]))
        return inner.chat.completions.create(**keywords)

    proxy = SimpleNamespace(
        chat=SimpleNamespace(completions=SimpleNamespace(create=create)), max_retries=1
    )
    with pytest.raises(sr.TransportFailed):
        sr.wrap(proxy, policy=POLICY).reply(**ASK)

    assert len(seen) == 1
    assert len(server.requests) == 2


@pytest.mark.parametrize("way", ["reply", "create", "parse", "raw"])
@pytest.mark.parametrize("twin", ["sync", "async"])
def test_what_is_put_around_a_completion_is_read_through(twin: str, way: str) -> None:
    """Some recorders return an object that passes everything on to the completion; what we make
    anew is the SDK's.
    """

    class Around:
        """Passes on to what it is around."""

        def __init__(self, inside: Any) -> None:
            self.inside = inside

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inside, name)

    server = Server(WRONG, GOOD)
    inner: Any = server.client() if twin == "sync" else server.async_client()
    create = inner.chat.completions.create

    async def aover(**keywords: Any) -> Any:
        return Around(await create(**keywords))

    inner.chat.completions.create = (
        aover if twin == "async" else lambda **keywords: Around(create(**keywords))
    )
    client: Any = sr.wrap(inner, tools=[SEARCH])

    if way == "reply":
        assert replied(client).args == {"query": "tea"}
        return

    completions = client.chat.completions
    result = (
        completions.with_raw_response.create(**ASK)
        if way == "raw"
        else getattr(completions, way)(**ASK)
    )
    given = result if twin == "sync" else asyncio.run(awaited(result))
    completed = given.parse() if way == "raw" else given
    assert isinstance(completed, ChatCompletion)

    assert completed.choices[0].message.tool_calls
