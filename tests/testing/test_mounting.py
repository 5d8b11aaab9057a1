"""Serving in memory: what a mounted SDK client meets is what it meets over a socket.

Clients without HTTP agree.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion

import strictreply as sr
from strictreply.core import JSONObject
from strictreply.testing import (
    HTTPReply,
    LoopbackServer,
    Pause,
    Responder,
    ScriptedModel,
    WireEnding,
    assistant,
    completion,
    error_reply,
    native_call,
    ok,
)
from strictreply.testing.mounting import (
    BASE_URL,
    MAX_ENDLESS_BYTES,
    AsyncScriptedClient,
    ScriptedClient,
    anthropic_client,
    async_anthropic_client,
    async_openai_client,
    library_of,
    openai_client,
    respx_router,
    transport,
)
from support.scripted import USER

ASK: JSONObject = {"model": "m", "messages": USER}
JSON_TYPE = {"Content-Type": "application/json"}
GOOD = completion(assistant("naïve ✓"))
URL = f"{BASE_URL}/chat/completions"
READ_SECONDS = 0.2


@pytest.fixture(params=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> ModuleType:
    """Each HTTP library that is installed: openai 2 comes without httpx2."""
    module: ModuleType = pytest.importorskip(request.param)
    return module


def always(served: Any) -> Responder:
    """Serve the same for every request."""
    return lambda _: served


def text_of(completed: Any) -> str | None:
    """Read the content of a completion."""
    content: str | None = completed.choices[0].message.content
    return content


def test_the_real_client_reads_the_completion() -> None:
    """The responder is given the parsed body, and the SDK its completion; sync and async, plain and
    streamed.
    """
    asked: list[JSONObject] = []

    def answer(request: JSONObject) -> JSONObject:
        asked.append(request)
        return GOOD

    async def both() -> tuple[str | None, str]:
        async with async_openai_client(answer) as client:
            plain = await client.chat.completions.create(**ASK)
            stream = await client.chat.completions.create(**ASK, stream=True)
            return text_of(plain), "".join(
                [chunk.choices[0].delta.content or "" async for chunk in stream]
            )

    with openai_client(answer) as client:
        assert text_of(client.chat.completions.create(**ASK)) == "naïve ✓"
        stream = client.chat.completions.create(**ASK, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "naïve ✓"

    assert asyncio.run(both()) == ("naïve ✓", "naïve ✓")
    assert asked == [ASK, ASK | {"stream": True}] * 2


def test_it_serves_what_the_server_serves() -> None:
    """The models are listed, and what is not served says so."""
    client = openai_client(always(GOOD))
    assert [model.id for model in client.models.list()] == ["scripted"]
    assert client.responses.create(model="m", input="hi").output_text == "naïve ✓"
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="m", input="hi")


def test_options_are_the_clients_own() -> None:
    """Retries are off unless they are asked for; every option can be."""
    assert openai_client(always(GOOD)).max_retries == 0
    assert async_openai_client(always(GOOD), max_retries=5).max_retries == 5
    assert (
        str(openai_client(always(GOOD), base_url="http://other.invalid/").base_url)
        == "http://other.invalid/"
    )


def test_the_library_under_the_sdk_is_found() -> None:
    """It is the one that the SDK's own client is of; what is none of a library is refused."""
    assert library_of(openai.DefaultHttpxClient).Client in openai.DefaultHttpxClient.__mro__
    assert library_of(httpx.Client()) is httpx
    with pytest.raises(TypeError, match="object"):
        library_of(object())


BREAKAGES: list[tuple[HTTPReply, bytes, str]] = [
    (HTTPReply(ending=WireEnding.HANG), b"", "ReadTimeout"),
    (HTTPReply(ending=WireEnding.CUT), b"", "RemoteProtocolError"),
    (HTTPReply(ending=WireEnding.RESET), b"", "ReadError"),
    (HTTPReply(200, JSON_TYPE, (b"{", b"}"), WireEnding.HANG), b"{}", "ReadTimeout"),
    (HTTPReply(200, JSON_TYPE, (b"{", b"}"), WireEnding.CUT), b"{}", "RemoteProtocolError"),
    (
        HTTPReply(200, JSON_TYPE, (b"{", b"}"), WireEnding.CUT, "chunked"),
        b"{}",
        "RemoteProtocolError",
    ),
    (HTTPReply(200, JSON_TYPE, (b"{", b"}"), WireEnding.RESET), b"{}", "ReadError"),
    (HTTPReply(200, JSON_TYPE, (b"{", Pause(3), b"}")), b"{", "ReadTimeout"),
    (HTTPReply(200, JSON_TYPE, (b"{", *[Pause(0.15)] * 2, b"}")), b"{", "ReadTimeout"),
    (HTTPReply(200, {"Content-Length": "3"}, (b"{}",)), b"{}", "ReadTimeout"),
    (HTTPReply(parts=(b"nonsense\r\n\r\n",), framing="raw"), b"", "RemoteProtocolError"),
    (HTTPReply(parts=(b"HTTP/1.1 200 OK\r\nA: ",), framing="raw"), b"", "RemoteProtocolError"),
    (
        HTTPReply(parts=(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"), framing="raw", endless=True),
        b"",
        "RemoteProtocolError",
    ),
    (
        HTTPReply(200, {"Transfer-Encoding": "chunked"}, (b"1\r\nx\r\nz\r\n",)),
        b"x",
        "RemoteProtocolError",
    ),
    (HTTPReply(200, {"Content-Encoding": "gzip"}, (b"plain",)), b"", "DecodingError"),
]


@pytest.mark.parametrize(("reply", "before", "error"), BREAKAGES)
def test_what_breaks_is_the_librarys_own_exception(
    library: Any, reply: HTTPReply, before: bytes, error: str
) -> None:
    """Each breakage raises at the right moment: before the response, or after the sent bytes."""
    read: list[bytes] = []
    mounted = transport(always(reply), library=library)

    def sync() -> None:
        client = library.Client(transport=mounted, timeout=READ_SECONDS)
        with client, client.stream("POST", URL, json=ASK) as response:
            for piece in response.iter_bytes():
                read.append(piece)  # noqa: PERF402 - what came before the error stays

    async def twin() -> None:
        client = library.AsyncClient(transport=mounted, timeout=READ_SECONDS)
        async with client, client.stream("POST", URL, json=ASK) as response:
            async for piece in response.aiter_bytes():
                read.append(piece)  # noqa: PERF401 - as above

    with pytest.raises(getattr(library, error)) as caught:
        sync()

    assert caught.value.request.url == URL
    assert b"".join(read) == before
    read.clear()

    with pytest.raises(getattr(library, error)):
        asyncio.run(twin())

    assert b"".join(read) == before


@pytest.mark.parametrize(
    "reply",
    [
        *[reply for reply, *_ in BREAKAGES],
        HTTPReply(200, {"Content-Type": "text/html"}, (b"<html>",)),
        HTTPReply(200, JSON_TYPE, (b"[]",), framing="chunked"),
        HTTPReply(200, JSON_TYPE, (b'{"id"',), framing="chunked"),
        HTTPReply(200, {**JSON_TYPE, "Content-Length": "2"}, (b"[][]",)),
        HTTPReply(204),
        HTTPReply(
            parts=(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n<p>",), framing="raw"
        ),
        error_reply(429, "slow down"),
        error_reply(529, "busy"),
    ],
)
def test_memory_is_like_a_socket(reply: HTTPReply) -> None:
    """The SDK gives or raises the same over both, down to the class of the cause."""

    def outcome(client: openai.OpenAI) -> tuple[object, ...]:
        with client:
            try:
                return (client.chat.completions.create(**ASK),)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
                return type(error), type(error.__cause__), getattr(error, "status_code", None)

    in_memory = outcome(openai_client(always(reply), timeout=READ_SECONDS))
    patience = READ_SECONDS if in_memory[0] is openai.APITimeoutError else 20

    with LoopbackServer(always(reply)) as server:
        real = openai.OpenAI(
            base_url=server.base_url, api_key="none", max_retries=0, timeout=patience
        )
        assert outcome(real) == in_memory


def test_a_pause_within_the_timeout_takes_no_time() -> None:
    """It passes at once; without a timeout any does, and a hang is one all the same."""
    slow = HTTPReply(200, JSON_TYPE, (Pause(0.1), b"[", Pause(0.1), b"]"))
    given: Any = openai_client(always(slow), timeout=READ_SECONDS).chat.completions.create(**ASK)
    assert given == []
    years = HTTPReply(200, JSON_TYPE, (b"[", Pause(1e9), b"]"))
    given = openai_client(always(years), timeout=None).chat.completions.create(**ASK)
    assert given == []

    with pytest.raises(openai.APITimeoutError):
        openai_client(
            always(HTTPReply(ending=WireEnding.HANG)), timeout=None
        ).chat.completions.create(**ASK)


def test_an_endless_body_is_lazy_and_bounded(library: Any) -> None:
    """It comes as it is read, and ends as a broken connection."""
    endless = HTTPReply(
        200, {"Content-Type": "text/event-stream"}, (b": \n\n" * 25_000,), endless=True
    )
    sizes: list[int] = []

    def read() -> None:
        with client.stream("POST", URL, json=ASK) as response:
            for piece in response.iter_raw():
                sizes.append(len(piece))  # noqa: PERF401 - what came before the error stays

    with library.Client(transport=transport(always(endless), library=library)) as client:
        with client.stream("POST", URL, json=ASK) as response:
            assert next(response.iter_raw()).startswith(b": ")
        with pytest.raises(library.RemoteProtocolError):
            read()

    assert MAX_ENDLESS_BYTES <= sum(sizes) <= MAX_ENDLESS_BYTES + 100_000


def test_a_redirect_in_a_circle_ends() -> None:
    """The SDK follows redirects, and gives up."""
    circle = HTTPReply(307, {"Location": URL})
    with pytest.raises(openai.APIConnectionError):
        openai_client(always(circle)).chat.completions.create(**ASK)


def test_respx_serves_httpx() -> None:
    """Clients on httpx are answered below the base URL, the SDK's too when it is given one."""
    with respx_router(always(GOOD)), httpx.Client() as http:
        client = openai.OpenAI(base_url=BASE_URL, api_key="none", max_retries=0, http_client=http)  # type: ignore[arg-type]
        assert text_of(client.chat.completions.create(**ASK)) == "naïve ✓"
        assert http.get(f"{BASE_URL}/models").status_code == 200


def test_respx_serves_the_sdk_as_it_is() -> None:
    """Under openai 2 nothing need be given."""
    if library_of(openai.DefaultHttpxClient) is not httpx:
        pytest.skip("openai 3 runs on httpx2")
    with respx_router(always(GOOD), base_url="http://other.invalid/v2"):
        client = openai.OpenAI(base_url="http://other.invalid/v2", api_key="none", max_retries=0)
        assert text_of(client.chat.completions.create(**ASK)) == "naïve ✓"


@respx_router(always(HTTPReply(200, JSON_TYPE, (b"{",), WireEnding.RESET)))
def test_respx_breaks_too() -> None:
    """Breakages come through, sync and async; the router is a decorator as well."""

    async def twin() -> None:
        async with httpx.AsyncClient() as http:
            await http.post(URL, json=ASK)

    with pytest.raises(httpx.ReadError):
        httpx.post(URL, json=ASK)
    with pytest.raises(httpx.ReadError):
        asyncio.run(twin())


def asked_of(url: str) -> list[Callable[[], object]]:
    """Ask a server in ways that respx cannot intercept."""
    where = urlsplit(url)

    async def streams() -> None:
        await asyncio.open_connection(where.hostname, where.port)

    client = openai.OpenAI(base_url=url, api_key="real", max_retries=0)
    twin = openai.AsyncOpenAI(base_url=url, api_key="real", max_retries=0)

    async def asynchronous() -> None:
        await twin.chat.completions.create(**ASK)

    sdk: list[Callable[[], object]] = [
        lambda: client.chat.completions.create(**ASK),
        lambda: asyncio.run(asynchronous()),
    ]
    plain: list[Callable[[], object]] = [lambda: get(url), lambda: asyncio.run(streams())]
    return [*plain, *(sdk if library_of(openai.DefaultHttpxClient) is not httpx else [])]


def get(url: str) -> None:
    """Get a page as Python itself does."""
    urllib.request.build_opener().open(f"{url.removesuffix('/v1')}/health", timeout=60).close()


def test_respx_lets_nothing_out_to_a_real_server() -> None:
    """A client that respx cannot patch is refused before it connects, and again at the end of the
    router.
    """
    real = ScriptedModel(then=ok.answer())
    with LoopbackServer(real) as server:
        for ask in asked_of(server.base_url):
            with (
                pytest.raises(RuntimeError, match="respx"),
                respx_router(always(GOOD), base_url=server.base_url),
                suppress(Exception),  # as an app that takes it for a broken connection
            ):
                ask()

        assert real.requests == []

        with respx_router(always(GOOD), allowed_hosts=["127.0.0.1"]):
            get(server.base_url)

        get(server.base_url)


def test_a_name_is_not_even_looked_up() -> None:
    """A host's name is refused before a name server is asked; an error that passes through is not
    raised twice.
    """
    with pytest.raises(RuntimeError, match=r"model\.invalid"), respx_router(always(GOOD)):
        socket.create_connection(("model.invalid", 80))
    with pytest.raises(KeyError), respx_router(always(GOOD)):
        swallowing()


def swallowing() -> None:
    """Take the refusal for a broken connection, and fail."""
    with suppress(RuntimeError):
        socket.create_connection(("model.invalid", 80))
    raise KeyError


@pytest.mark.parametrize("make", [anthropic_client, async_anthropic_client])
def test_without_anthropic_it_is_said_what_to_install(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra is named."""
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ImportError, match=r"strictreply\[anthropic\]"):
        make(always(GOOD))


def test_without_respx_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named."""
    monkeypatch.setitem(sys.modules, "respx", None)
    with pytest.raises(ImportError, match=r"strictreply\[testing\]"):
        respx_router(always(GOOD))


REQUEST: JSONObject = {"model": "m", "messages": USER}
PLAIN = completion(assistant("hi"))
SPOILED = completion(
    {"role": 3, "content": [], "tool_calls": [{"id": None, "function": {"arguments": {"a": 1}}}, 5]}
)


def create(served: Any, **options: Any) -> Any:
    """Ask the sync client once."""
    return ScriptedClient(always(served)).chat.completions.create(**REQUEST, **options)


async def acreate(served: Any, **options: Any) -> Any:
    """Ask the async client once."""
    return await AsyncScriptedClient(always(served)).chat.completions.create(**REQUEST, **options)


@pytest.mark.parametrize(
    "served", [PLAIN, SPOILED, {}, {"choices": None}, {"error": {"message": "no"}}, [], "text", 5]
)
def test_it_gives_what_the_sdk_gives(served: Any) -> None:
    """A completion is the SDK's own object, faults and all; what is no object is what the SDK makes
    of it.
    """
    wanted = openai_client(always(served)).chat.completions.create(**REQUEST)
    for given in (create(served), asyncio.run(acreate(served))):
        assert type(given) is type(wanted)
        assert given == wanted


def test_a_fault_survives() -> None:
    """Nothing is checked and nothing lost: the object holds what was served."""
    given = create(SPOILED)
    assert isinstance(given, ChatCompletion)
    assert given.model_dump(exclude_unset=True, warnings=False) == SPOILED


def test_a_stream_is_the_sdks_own() -> None:
    """Chunks come one by one, and the stream can be closed before its end."""

    async def twin() -> str:
        stream = await acreate(PLAIN, stream=True)
        assert isinstance(stream, openai.AsyncStream)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    stream = create(PLAIN, stream=True)
    assert isinstance(stream, openai.Stream)
    assert next(iter(stream)).choices[0].delta.role == "assistant"
    stream.close()

    assert asyncio.run(twin()) == "hi"


@pytest.mark.parametrize(
    ("served", "error"),
    [
        (error_reply(400, "no"), openai.BadRequestError),
        (error_reply(429, "slow down", headers={"Retry-After": "7"}), openai.RateLimitError),
        (error_reply(529, "busy"), openai.InternalServerError),
        (HTTPReply(ending=WireEnding.HANG), openai.APITimeoutError),
        (HTTPReply(ending=WireEnding.RESET), openai.APIConnectionError),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_it_raises_what_the_sdk_raises(
    served: HTTPReply, error: type[Exception], stream: bool
) -> None:
    """HTTP errors and broken connections are the SDK's exceptions, raised by itself, and asked for
    only once.
    """
    with pytest.raises(error) as caught:
        create(served, stream=stream)

    with pytest.raises(error):
        asyncio.run(acreate(served, stream=stream))

    if isinstance(caught.value, openai.RateLimitError):
        assert (caught.value.status_code, caught.value.response.headers["retry-after"]) == (
            429,
            "7",
        )


def test_what_only_bytes_can_say_is_said() -> None:
    """A page in HTML is to this client what it is to the SDK."""
    page = HTTPReply(200, {"Content-Type": "text/html"}, (b"<html>",))
    assert create(page) == openai_client(always(page)).chat.completions.create(**REQUEST)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.5, "stop": ["x"], "user": None},
        {"timeout": 5, "extra_headers": {"A": "b"}, "extra_query": {"a": "b"}},
        {
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "extra_body": {"tools": [], "top_k": 2},
        },
        {"seed": openai.NOT_GIVEN, "tool_choice": openai.Omit()},
        {"stream": False},
        {"stream": True, "stream_options": {"include_usage": True}},
        {
            "messages": [
                *USER,
                ChatCompletion.model_validate(PLAIN).choices[0].message,
                {"role": "user", "content": "?"},
            ]
        },
    ],
)
def test_it_asks_what_the_sdk_asks(options: dict[str, Any]) -> None:
    """The responder is given the body that the SDK would send, once."""
    asked: list[JSONObject] = []

    def answer(request: JSONObject) -> JSONObject:
        asked.append(request)
        return PLAIN

    for client in (openai_client(answer), ScriptedClient(answer)):
        client.chat.completions.create(**{**REQUEST, **options})

    asyncio.run(AsyncScriptedClient(answer).chat.completions.create(**{**REQUEST, **options}))
    assert asked == [asked[0]] * 3


def test_what_the_sdk_requires_is_required() -> None:
    """A model and messages, by keyword; what is no JSON is refused."""
    with pytest.raises(TypeError, match="messages"):
        ScriptedClient(always(PLAIN)).chat.completions.create(model="m")
    with pytest.raises(TypeError, match="object is not JSON"):
        create(PLAIN, user=object())


def test_what_the_sdk_does_not_take_is_refused() -> None:
    """A misspelt keyword is a TypeError, as of the SDK's own method, sync and async."""
    with pytest.raises(TypeError, match="temprature"):
        create(PLAIN, temprature=1)
    with pytest.raises(TypeError, match="temprature"):
        asyncio.run(
            AsyncScriptedClient(always(PLAIN)).chat.completions.create(**REQUEST, temprature=1)
        )


def test_it_goes_under_the_wrapped_client() -> None:
    """A bad reply is asked again and a lost connection repeated, sync and async."""
    replies = [error_reply(503, "busy", headers={"Retry-After": "0"}), SPOILED, PLAIN] * 2
    served: Iterator[Any] = iter(replies)
    policy = sr.RetryPolicy(max_retries=1, transport_retries=1, wait=lambda _: 0.0)
    client = sr.wrap(ScriptedClient(lambda _: next(served)), policy=policy)
    twin = sr.wrap(AsyncScriptedClient(lambda _: next(served)), policy=policy)
    assert client.reply(**REQUEST) == sr.DirectAnswer("hi")
    assert asyncio.run(twin.reply(**REQUEST)) == sr.DirectAnswer("hi")


def test_the_wrapped_client_sees_the_fault() -> None:
    """A spoiled reply stays spoiled through this client, too."""
    bad = completion(assistant(None, [native_call("f", "{")]))
    tool = sr.Tool.from_json_schema("f", {"type": "object", "properties": {}})
    client = sr.wrap(
        ScriptedClient(always(bad)).with_options(max_retries=3),
        tools=[tool],
        policy=sr.RetryPolicy(max_retries=0),
    )

    with pytest.raises(sr.ReplyRejected) as caught:
        client.reply(**REQUEST)

    assert [issue.code for issue in caught.value.issues] == ["json.incomplete"]


def test_options_leave_it_as_it_is() -> None:
    """There is nothing to set up."""
    for client in (ScriptedClient(always(PLAIN)), AsyncScriptedClient(always(PLAIN))):
        assert client.with_options(timeout=1, max_retries=0) is client
