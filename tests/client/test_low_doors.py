"""The low methods of a wrapped client are guarded for the paths of the APIs.

What such a call returns is compared with what the raw SDK returns for the same call.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from typing import Any, get_type_hints

import openai
import pytest
from openai import AsyncStream, Stream
from openai._legacy_response import LegacyAPIResponse
from openai._models import FinalRequestOptions
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel
from tenacity import wait_none

import strictreply as sr
from support import scripted_responses as sdk
from support.loops import some
from support.scripted import SCHEMA, USER, Server, call, completion, http, status
from support.streamed_replies import streamed

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
GOOD = completion(calls=[call("search", {"query": "tea"})])
WRONG = completion(calls=[call("search", {"query": 1})])
NO_WAIT = sr.RetryPolicy(wait=wait_none())
TOOLS = [{"type": "function", "function": {"name": "search", "parameters": SCHEMA}}]
ASK: dict[str, Any] = {"model": "m", "messages": USER, "tools": TOOLS}
BARE: dict[str, Any] = {"model": "m", "messages": USER}
ARGUMENTS = '{"query": "tea"}'
CHAT = "/chat/completions"
RAW = "X-Stainless-Raw-Response"

GOOD_RESPONSE = sdk.response(sdk.call_item("search", {"query": "tea"}))
WRONG_RESPONSE = sdk.response(sdk.call_item("search", {"query": 1}))
ASK_RESPONSE: dict[str, Any] = {"model": "m", "input": "find tea", "tools": [sdk.FLAT_SEARCH]}

SPELLINGS = (
    "/chat/completions",
    "chat/completions",
    "/chat//completions/",
    "/chat/./completions",
    "/files/../chat/completions",
    "/chat/completion%73",
    "/%63hat%2Fcompletions",
    "/chat/%2e/completions",
    "/Chat/Completions",
    "/chat/completions?api-version=1",
    "/chat/completions#part",
    "/chat/completions;v=1",
    "/deployments/m/chat/completions",
    "http://model.invalid/v1/chat/completions",
    "HTTP://MODEL.invalid/v1/chat/completions",
    "http://gateway.invalid/llm/chat/completions",
)
ELSEWHERE = (
    "/chat/completions/chatcmpl-1/messages",
    "/responses/resp_1/input_items",
    "/responses/compact",
    "/responses/input_tokens",
    "/forms/7/responses",
    "/embeddings",
    "/completions",
    "/tokenize",
)
LOW = ("post", "put", "patch", "request")


def made(client: Any, method: str, path: str = CHAT, **given: Any) -> Any:
    """Call a low method of a client, as it is called."""
    body = given.pop("body", ASK)
    cast_to = given.pop("cast_to", ChatCompletion)
    if method != "request":
        return getattr(client, method)(path, body=body, cast_to=cast_to, **given)

    options = given.pop("options", {})
    final = FinalRequestOptions.construct(method="POST", url=path, json_data=body, **options)
    return client.request(cast_to, final, **given)


def both(ask: Callable[[Any], Any], *answers: Any, **declared: Any) -> list[tuple[Any, Server]]:
    """Ask a wrapped client and its async twin; return what each gave, and its server."""
    given: list[tuple[Any, Server]] = []
    for is_async in (False, True):
        server = Server(*[one() if callable(one) else one for one in answers])
        raw = server.async_client() if is_async else server.client()
        client = sr.wrap(raw, **{"policy": NO_WAIT, **declared})
        given.append((drained(ask(client)), server))

    return given


def drained(given: Any) -> Any:
    """Return what came of a call; that of an async client is awaited, a stream is read."""
    if not inspect.isawaitable(given):
        return list(given) if isinstance(given, Stream) else given

    async def main() -> Any:
        made = await given
        return [one async for one in made] if isinstance(made, AsyncStream) else made

    return asyncio.run(main())


def arguments(given: Any) -> str:
    """Read the arguments of the one call of a completion."""
    return str(given.choices[0].message.tool_calls[0].function.arguments)


def streamed_arguments(chunks: list[Any]) -> str:
    """Read the arguments of the one call of a stream."""
    parts = [one for chunk in chunks for one in (chunk.choices[0].delta.tool_calls or ())]
    return "".join(part.function.arguments or "" for part in parts)


@pytest.mark.parametrize("path", SPELLINGS)
def test_a_path_is_guarded_however_it_is_spelled(path: str) -> None:
    """The address is compared as the HTTP library sends it and a server reads it."""
    for given, server in some(both(lambda client: made(client, "post", path), WRONG, GOOD)):
        assert arguments(given) == ARGUMENTS
        assert len(server.requests) == 2
        assert server.requests[0].url == server.requests[1].url


@pytest.mark.parametrize("path", SPELLINGS)
def test_a_spelled_path_is_sent_as_it_was(path: str) -> None:
    """The address, the method and the body of the request are those of the raw client."""
    raw = Server(GOOD)
    made(raw.client(), "post", path)
    for _, server in some(both(lambda client: made(client, "post", path), GOOD)):
        assert server.requests[0].url == raw.requests[0].url
        assert server.requests[0].method == "POST"
        assert json.loads(server.bodies[0])["messages"] == json.loads(raw.bodies[0])["messages"]


@pytest.mark.parametrize("path", ELSEWHERE)
@pytest.mark.parametrize("method", LOW)
def test_another_path_passes(method: str, path: str) -> None:
    """What is not a reply of an API comes as it was sent, by every low method."""
    for given, server in some(
        both(lambda client: made(client, method, path, cast_to=object), WRONG)
    ):
        assert given == WRONG
        assert len(server.requests) == 1


@pytest.mark.parametrize("method", LOW)
def test_every_low_method_is_guarded(method: str) -> None:
    """A reply that does not fit is retried by the same method; ``guarded`` says so."""
    for given, server in both(lambda client: made(client, method), WRONG, GOOD):
        assert arguments(given) == ARGUMENTS
        verb = "POST" if method == "request" else method.upper()
        assert [request.method for request in server.requests] == [verb, verb]

    assert sr.guarded(sr.wrap(Server(GOOD).client()))[method] == "guarded"


def test_what_deletes_a_stored_reply_passes() -> None:
    """A DELETE brings no reply."""

    def ask(client: Any) -> Any:
        return client.delete(f"{CHAT}/chatcmpl-1", cast_to=object)

    for given, _ in some(both(ask, {"deleted": True})):
        assert given == {"deleted": True}


@pytest.mark.parametrize("method", LOW)
def test_a_reply_that_is_never_mended_comes_out_of_no_door(method: str) -> None:
    """It raises what is ours and the SDK's."""
    policy = sr.RetryPolicy(max_retries=1, wait=wait_none())
    with pytest.raises(sr.ReplyRejected) as raised:
        both(lambda client: made(client, method), WRONG, policy=policy)
    assert isinstance(raised.value, openai.APIResponseValidationError)


CASTS = (ChatCompletion, object, dict[str, Any], str, http.Response)


@pytest.mark.parametrize("cast_to", CASTS)
@pytest.mark.parametrize("method", LOW)
def test_a_mended_reply_is_of_the_class_that_was_asked_for(method: str, cast_to: Any) -> None:
    """The same class of what the raw SDK makes of the good response, with the same content."""
    raw = made(Server(GOOD).client(), method, cast_to=cast_to)
    found = both(lambda client: made(client, method, cast_to=cast_to), WRONG, GOOD)
    for given, server in some(found):
        assert type(given) is type(raw)
        assert len(server.requests) == 2
        if cast_to is http.Response:
            assert given.json() == raw.json()
        else:
            assert given == raw


def calls_in(given: Any) -> list[str]:
    """Read the arguments of all calls of a completion, whatever class it is of."""
    body = given.json() if isinstance(given, http.Response) else given
    body = json.loads(body.to_json()) if isinstance(body, ChatCompletion) else body
    return [one["function"]["arguments"] for one in body["choices"][0]["message"]["tool_calls"]]


@pytest.mark.parametrize("cast_to", [object, http.Response, ChatCompletion])
def test_a_reply_that_was_put_together_is_cast_too(cast_to: Any) -> None:
    """The kept call and the mended one are in what the SDK makes of the response."""
    two = completion(calls=[call("search", {"query": "tea"}), call("search", {"query": 1}, "b")])
    mended = completion(calls=[call("search", {"query": "milk"}, "z")])
    for given, _ in some(both(lambda client: made(client, "post", cast_to=cast_to), two, mended)):
        assert calls_in(given) == [ARGUMENTS, '{"query": "milk"}']


@pytest.mark.parametrize("method", LOW)
@pytest.mark.parametrize("header", [RAW, RAW.lower()])
def test_a_raw_response_is_the_raw_sdks(method: str, header: str) -> None:
    """The header of the SDK's wrappers gives its raw response, which parses to the judged reply."""
    options = {"headers": {header: "true"}}
    for given, server in both(
        lambda client: made(client, method, options=options),
        WRONG,
        lambda: status(200, GOOD, x_request_id="r1"),
    ):
        assert type(given) is LegacyAPIResponse
        assert type(given.parse()) is ChatCompletion
        assert arguments(given.parse()) == ARGUMENTS
        assert (given.request_id, given.status_code) == ("r1", 200)
        assert len(server.requests) == 2

    assert options == {"headers": {header: "true"}}


def test_a_streaming_response_is_the_raw_sdks() -> None:
    """The body is still to be read, as with the raw client."""
    options = {"headers": {RAW: "stream"}}
    kinds = {type(made(Server(GOOD).client(), "post", options=options))}

    async def main() -> Any:
        server = Server(WRONG, GOOD)
        client: Any = sr.wrap(server.async_client(), policy=NO_WAIT)
        kinds.add(type(await made(Server(GOOD).async_client(), "post", options=options)))
        given = await made(client, "post", options=options)
        return given, arguments(await given.parse())

    twin, read = asyncio.run(main())
    client = sr.wrap(Server(WRONG, GOOD).client(), policy=NO_WAIT)
    given = made(client, "post", options=options)

    assert {type(given), type(twin)} == kinds
    assert json.loads(given.read()) == GOOD
    assert arguments(given.parse()) == read == ARGUMENTS


@pytest.mark.parametrize("method", ["post", "request"])
@pytest.mark.parametrize("is_raw", [False, True])
@pytest.mark.parametrize("has_class", [False, True])
def test_a_stream_is_guarded(method: str, is_raw: bool, has_class: bool) -> None:
    """It is of the class that was asked for, or of the client's own, and its chunks are judged."""
    options = {"headers": {RAW: "true"}} if is_raw else {}

    def ask(client: Any) -> Any:
        kind = AsyncStream if isinstance(client, openai.AsyncOpenAI) else Stream
        classes: dict[str, Any] = {"stream_cls": kind[ChatCompletionChunk]} if has_class else {}
        cast_to = ChatCompletion if has_class else ChatCompletionChunk
        body = ASK | {"stream": True}
        return made(
            client, method, body=body, cast_to=cast_to, stream=True, options=options, **classes
        )

    def asked(client: Any) -> Any:
        given = ask(client)
        if not inspect.isawaitable(given):
            return given.parse() if is_raw else given

        async def main() -> Any:
            made = await given
            return made.parse() if is_raw else made

        return main()

    for chunks, server in some(both(asked, lambda: streamed(WRONG), lambda: streamed(GOOD))):
        assert {type(chunk) for chunk in chunks} == {ChatCompletionChunk}
        assert streamed_arguments(chunks) == ARGUMENTS
        assert len(server.requests) == 2


class Mine(Stream[ChatCompletionChunk]):
    """A stream of a program's own."""


def test_a_stream_is_of_the_callers_own_class() -> None:
    """As with the raw client, an instance of ``stream_cls``."""
    server = Server(streamed(WRONG), streamed(GOOD))
    client = sr.wrap(server.client(), policy=NO_WAIT)
    given = made(client, "post", body=ASK | {"stream": True}, stream=True, stream_cls=Mine)
    assert type(given) is Mine
    assert streamed_arguments(list(given)) == ARGUMENTS


def test_a_stream_that_is_read_whole_is_guarded() -> None:
    """A body that says ``stream`` where the call does not: the text holds accepted events only."""

    def ask(client: Any) -> Any:
        return made(client, "post", body=ASK | {"stream": True}, cast_to=http.Response)

    for given, server in some(both(ask, lambda: streamed(WRONG), lambda: streamed(GOOD))):
        lines = [line[6:] for line in given.text.splitlines() if line.startswith("data: {")]
        chunks = [ChatCompletionChunk.model_validate_json(line) for line in lines]
        assert streamed_arguments(chunks) == ARGUMENTS
        assert len(server.requests) == 2


def test_a_stream_that_is_never_mended_ends_in_an_error() -> None:
    """No chunk of a refused call comes out."""
    policy = sr.RetryPolicy(max_retries=0)
    client = sr.wrap(Server(streamed(WRONG)).client(), policy=policy)
    seen: list[Any] = []
    with pytest.raises(sr.ReplyRejected):
        seen.extend(
            made(
                client,
                "post",
                body=ASK | {"stream": True},
                stream=True,
                stream_cls=Stream[ChatCompletionChunk],
            )
        )
    assert streamed_arguments(seen) == ""


@pytest.mark.parametrize(
    "path", ["/responses", "responses/", "/v1/../v1/response%73", "/responses?a=1"]
)
@pytest.mark.parametrize("method", LOW)
def test_responses_are_guarded(method: str, path: str) -> None:
    """The other API's path, by every low method."""

    def ask(client: Any) -> Any:
        return made(client, method, path, body=ASK_RESPONSE, cast_to=object)

    for given, server in some(both(ask, WRONG_RESPONSE, GOOD_RESPONSE)):
        assert given["output"][0]["arguments"] == ARGUMENTS
        assert len(server.requests) == 2


def azure(server: Server, **options: Any) -> Any:
    """Make a client of Azure over a server."""
    transport = http.Client(transport=http.MockTransport(server.handle))
    return openai.AzureOpenAI(
        api_key="k",
        azure_endpoint="https://azure.invalid",
        api_version="2024-10-21",
        http_client=transport,
        **options,
    )


@pytest.mark.parametrize("options", [{}, {"azure_deployment": "d"}])
@pytest.mark.parametrize("path", [CHAT, "/deployments/m/chat/completions", "/v1/chat/completions"])
def test_azures_paths_are_guarded(path: str, options: dict[str, Any]) -> None:
    """The deployment stays in the address, as the raw client writes it."""
    raw = Server(GOOD)
    made(azure(raw, **options), "post", path)
    server = Server(WRONG, GOOD)
    client = sr.wrap(azure(server, **options), policy=NO_WAIT)
    assert arguments(made(client, "post", path)) == ARGUMENTS
    assert {request.url for request in server.requests} == {raw.requests[0].url}


def test_azures_responses_are_guarded() -> None:
    """Its own base of the path counts as that of the API."""
    server = Server(WRONG_RESPONSE, GOOD_RESPONSE)
    client = sr.wrap(azure(server, azure_deployment="d"), policy=NO_WAIT)
    given = client.post("/responses", body=ASK_RESPONSE, cast_to=object)
    assert (given["output"][0]["arguments"], len(server.requests)) == (ARGUMENTS, 2)


@pytest.mark.parametrize("method", LOW)
def test_the_options_of_a_request_are_kept(method: str) -> None:
    """Headers, query, further members and the number of repeats are those of the call."""
    options = {
        "headers": {"x-team": "red"},
        "params": {"tag": "a"},
        "extra_json": {"seed": 7},
        "max_retries": 1,
        "timeout": 3.0,
    }
    answers = (lambda: status(500), WRONG, GOOD)
    for given, server in both(lambda client: made(client, method, options=options), *answers):
        assert arguments(given) == ARGUMENTS
        for request in server.requests:
            assert request.headers["x-team"] == "red"
            assert request.url.params["tag"] == "a"
            assert json.loads(request.content)["seed"] == 7
            assert request.extensions["timeout"]["read"] <= 3

    with pytest.raises(openai.InternalServerError):
        both(lambda client: made(client, method, options={"max_retries": 0}), *answers)


def test_tools_in_further_members_are_held() -> None:
    """``extra_json`` has the last word on the contract of the request, as in the SDK."""
    options = {"extra_json": {"tools": TOOLS}}
    ask: dict[str, Any] = {"body": BARE, "options": options}
    for given, server in some(both(lambda client: made(client, "post", **ask), WRONG, GOOD)):
        assert (arguments(given), len(server.requests)) == (ARGUMENTS, 2)


def test_members_named_as_our_keywords_are_sent() -> None:
    """A body is the API's: what has a meaning as a keyword of a call has none in it."""
    odd = {"policy": "p", "api": "chat", "answer": 1, "limits": {}, "timeout": 5, "extra_body": {}}
    found = both(lambda client: made(client, "post", body=ASK | odd), WRONG, GOOD)
    for given, server in some(found):
        assert arguments(given) == ARGUMENTS
        for sent in some(map(json.loads, server.bodies)):
            assert {name: sent[name] for name in odd} == odd


class Message(BaseModel):
    """A request as an object."""

    model: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]


@pytest.mark.parametrize("form", ["object", "bytes"])
def test_a_body_as_bytes_or_as_an_object_is_read(form: str) -> None:
    """JSON in ``content`` and a pydantic object are requests as any other."""
    ask: dict[str, Any] = {"body": Message(**ASK)}
    if form == "bytes":
        ask = {"body": None, "content": json.dumps(ASK).encode()}
        if "content" not in inspect.signature(openai.OpenAI.post).parameters:
            pytest.skip("this SDK takes no encoded content")

    for given, server in some(both(lambda client: made(client, "post", **ask), WRONG, GOOD)):
        assert (arguments(given), len(server.requests)) == (ARGUMENTS, 2)


def test_a_body_that_cannot_be_read_is_refused() -> None:
    """What is not one JSON object, and the beta of responses, raise and send nothing."""
    server = Server(GOOD)
    client = sr.wrap(server.client())
    for body in (None, "text", [1], b"no json"):
        for method in LOW:
            with pytest.raises(NotImplementedError, match=r"chat\.completions\.create"):
                made(client, method, body=body)

    for path, options in (("/responses?beta=true", {}), ("/responses", {"params": {"beta": "1"}})):
        with pytest.raises(NotImplementedError, match=r"responses\.create"):
            made(client, "post", path, body=ASK_RESPONSE, options=options)

    assert not server.requests


def test_namespaces_over_a_wrapped_client_are_guarded() -> None:
    """The SDK's own resource, made over the wrapped client by hand, gives judged replies."""
    for name, ask in (
        ("create", lambda resource: resource.create(**BARE)),
        ("parse", lambda resource: resource.parse(**BARE)),
    ):

        def by_hand(client: Any, ask: Callable[[Any], Any] = ask) -> Any:
            return ask(type(client.unwrapped.chat.completions)(client))

        for given, server in both(by_hand, WRONG, GOOD, tools=[SEARCH]):
            assert (arguments(given), len(server.requests)) == (ARGUMENTS, 2), name

    server = Server(streamed(WRONG), streamed(GOOD))
    client: Any = sr.wrap(server.client(), policy=NO_WAIT)
    chunks = type(client.unwrapped.chat.completions)(client).create(**ASK, stream=True)
    assert streamed_arguments(list(chunks)) == ARGUMENTS


WAYS: tuple[Callable[[Any], Any], ...] = (
    lambda client: client.chat.completions.create,
    lambda client: client.chat.completions.parse,
    lambda client: client.chat.completions.with_raw_response.create,
    lambda client: client.beta.chat.completions.create,
)


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_what_a_method_wraps_is_guarded(way: int) -> None:
    """``inspect.unwrap`` leads to ours, and the SDK's function is guarded on our namespace, too."""

    def unwrapped(client: Any) -> Any:
        method = WAYS[way](client)
        function = inspect.unwrap(method)
        while inspect.ismethod(function):
            function = function.__func__
        return function(client.chat.completions, **BARE)

    def sdks(client: Any) -> Any:
        kind = type(client.unwrapped.chat.completions)
        return inspect.unwrap(kind.create)(client.chat.completions, **BARE)

    for ask in (unwrapped, sdks):
        for given, server in some(both(ask, WRONG, GOOD, tools=[SEARCH])):
            assert (arguments(given), len(server.requests)) == (ARGUMENTS, 2)


def test_guarded_methods_look_like_the_sdks() -> None:
    """Signature, type hints, documentation and kind are those of the raw client's methods."""
    for raw in (Server(GOOD).client(), Server(GOOD).async_client()):
        client: Any = sr.wrap(raw)
        pairs = [(getattr(client, name), getattr(raw, name)) for name in LOW]
        ours, theirs = (one.chat.completions for one in (client, raw))
        pairs += [(getattr(ours, name), getattr(theirs, name)) for name in ("create", "parse")]

        for ours, theirs in pairs:
            assert inspect.signature(ours) == inspect.signature(theirs)
            assert ours.__doc__ == theirs.__doc__
            is_async = inspect.iscoroutinefunction(inspect.unwrap(theirs))
            assert inspect.iscoroutinefunction(ours) == is_async

        hints = get_type_hints(client.chat.completions.create)
        assert hints.keys() == get_type_hints(raw.chat.completions.create).keys()


@pytest.mark.parametrize("name", ["post", "request"])
@pytest.mark.parametrize("side", ["inside", "outside"])
def test_who_stands_in_the_way_sees_each_request(name: str, side: str) -> None:
    """A method put over the low one is called for each request; it opens no door."""
    server = Server(WRONG, GOOD)
    raw = server.client()
    client = sr.wrap(raw, policy=NO_WAIT)
    seen: list[Any] = []

    holder: Any = raw if side == "inside" else client
    behind = getattr(holder, name)

    def spy(*given: Any, **named: Any) -> Any:
        seen.append(behind(*given, **named))
        return seen[-1]

    setattr(holder, name, spy)
    assert arguments(made(client, "post")) == ARGUMENTS
    assert [type(one) for one in seen] == [ChatCompletion, ChatCompletion]

    assert made(client, "post", "/tokenize", cast_to=object) == GOOD
    assert len(seen) == 3


def test_a_clients_own_methods_are_called() -> None:
    """A subclass that overrides ``post`` gets what the SDK gives it, for each request."""
    seen: list[Any] = []

    class Own(openai.AsyncOpenAI):
        async def post(self, path: str, **given: Any) -> Any:
            seen.append(await super().post(path, **given))
            return seen[-1]

    server = Server(WRONG, GOOD)
    transport = http.AsyncClient(transport=http.MockTransport(server.ahandle))
    raw = Own(api_key="k", base_url="http://model.invalid/v1", http_client=transport)
    client: Any = sr.wrap(raw, policy=NO_WAIT)
    assert arguments(drained(made(client, "post"))) == ARGUMENTS
    assert [type(one) for one in seen] == [ChatCompletion, ChatCompletion]


def test_the_header_of_the_raw_response_is_the_callers() -> None:
    """Of the response that comes out, the request has it only where the call has it."""
    for given, _ in some(both(lambda client: made(client, "post", cast_to=http.Response), GOOD)):
        assert RAW not in given.request.headers


def test_failures_and_deadlines_are_those_of_every_call() -> None:
    """A status is the SDK's error and ours, and the deadline bounds the call."""
    for kind in (openai.BadRequestError, sr.TransportFailed):
        with pytest.raises(kind):
            both(lambda client: made(client, "post"), lambda: status(400, {"error": {}}))

    with pytest.raises(openai.APITimeoutError):
        both(lambda client: made(client, "post"), GOOD, policy=sr.RetryPolicy(deadline=0))


@pytest.mark.parametrize("cast_to", [object, str, http.Response])
def test_a_reply_cut_short_has_its_completion(cast_to: Any) -> None:
    """The SDK's error holds the SDK's completion, whatever class was asked for."""
    cut = completion(calls=[call("search", '{"que')], finish_reason="length")
    policy = sr.RetryPolicy(max_retries=0)
    with pytest.raises(openai.LengthFinishReasonError) as raised:
        both(lambda client: made(client, "post", cast_to=cast_to), cut, policy=policy)
    assert type(raised.value.completion) is ChatCompletion
