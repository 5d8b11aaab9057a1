"""Serving in memory: the same responses, and the same failures, as over a socket; nothing waits."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import Any

import httpx
import openai
import pytest

from scripted import USER
from strictreply.testing._server import LoopbackServer
from strictreply.testing._wire import Ending, HTTPReply, Pause, Responder, assistant, completion, error_reply
from strictreply.testing.mounting import (
    BASE_URL,
    MAX_ENDLESS_BYTES,
    async_openai_client,
    library_of,
    openai_client,
    respx_router,
    transport,
)
from strictreply.values._json import JSONObject

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
    """The responder is given the parsed body, and the SDK its completion; sync and async, plain and streamed."""
    asked: list[JSONObject] = []

    def answer(request: JSONObject) -> JSONObject:
        asked.append(request)
        return GOOD

    async def both() -> tuple[str | None, str]:
        async with async_openai_client(answer) as client:
            plain = await client.chat.completions.create(**ASK)
            stream = await client.chat.completions.create(**ASK, stream=True)
            return text_of(plain), "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

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
    with pytest.raises(openai.NotFoundError, match="Chat Completions"):
        client.responses.create(model="m", input="hi")


def test_options_are_the_clients_own() -> None:
    """Retries are off unless they are asked for; every option can be."""
    assert openai_client(always(GOOD)).max_retries == 0
    assert async_openai_client(always(GOOD), max_retries=5).max_retries == 5
    assert str(openai_client(always(GOOD), base_url="http://other.invalid/").base_url) == "http://other.invalid/"


def test_the_library_under_the_sdk_is_found() -> None:
    """It is the one that the SDK's own client is of; what is none of a library is refused."""
    assert library_of(openai.DefaultHttpxClient).Client in openai.DefaultHttpxClient.__mro__
    assert library_of(httpx.Client()) is httpx
    with pytest.raises(TypeError, match="object"):
        library_of(object())


BREAKAGES: list[tuple[HTTPReply, bytes, str]] = [
    (HTTPReply(ending=Ending.HANG), b"", "ReadTimeout"),
    (HTTPReply(ending=Ending.CUT), b"", "RemoteProtocolError"),
    (HTTPReply(ending=Ending.RESET), b"", "ReadError"),
    (HTTPReply(200, JSON_TYPE, (b"{", b"}"), Ending.HANG), b"{}", "ReadTimeout"),
    (HTTPReply(200, JSON_TYPE, (b"{", b"}"), Ending.CUT), b"{}", "RemoteProtocolError"),
    (HTTPReply(200, JSON_TYPE, (b"{", b"}"), Ending.CUT, "chunked"), b"{}", "RemoteProtocolError"),
    (HTTPReply(200, JSON_TYPE, (b"{", b"}"), Ending.RESET), b"{}", "ReadError"),
    (HTTPReply(200, JSON_TYPE, (b"{", Pause(3), b"}")), b"{", "ReadTimeout"),
    (HTTPReply(200, JSON_TYPE, (b"{", *[Pause(0.15)] * 2, b"}")), b"{", "ReadTimeout"),
    (HTTPReply(200, {"Content-Length": "3"}, (b"{}",)), b"{}", "ReadTimeout"),
    (HTTPReply(parts=(b"nonsense\r\n\r\n",), framing="raw"), b"", "RemoteProtocolError"),
    (HTTPReply(parts=(b"HTTP/1.1 200 OK\r\nA: ",), framing="raw"), b"", "RemoteProtocolError"),
    (HTTPReply(parts=(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"), framing="raw", endless=True), b"", "RemoteProtocolError"),
    (HTTPReply(200, {"Transfer-Encoding": "chunked"}, (b"1\r\nx\r\nz\r\n",)), b"x", "RemoteProtocolError"),
    (HTTPReply(200, {"Content-Encoding": "gzip"}, (b"plain",)), b"", "DecodingError"),
]


@pytest.mark.parametrize(("reply", "before", "error"), BREAKAGES)
def test_what_breaks_is_the_librarys_own_exception(library: Any, reply: HTTPReply, before: bytes, error: str) -> None:
    """Each breakage raises at the right moment: before the response, or after the bytes that came."""
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
        HTTPReply(parts=(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n<p>",), framing="raw"),
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
        real = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0, timeout=patience)
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
        openai_client(always(HTTPReply(ending=Ending.HANG)), timeout=None).chat.completions.create(**ASK)


def test_an_endless_body_is_lazy_and_bounded(library: Any) -> None:
    """It comes as it is read, and ends as a broken connection."""
    endless = HTTPReply(200, {"Content-Type": "text/event-stream"}, (b": \n\n" * 25_000,), endless=True)
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
    """Clients on httpx are answered below the base URL, the SDK's among them when it is given one."""
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


@respx_router(always(HTTPReply(200, JSON_TYPE, (b"{",), Ending.RESET)))
def test_respx_breaks_too() -> None:
    """Breakages come through, sync and async; the router is a decorator as well."""

    async def twin() -> None:
        async with httpx.AsyncClient() as http:
            await http.post(URL, json=ASK)

    with pytest.raises(httpx.ReadError):
        httpx.post(URL, json=ASK)
    with pytest.raises(httpx.ReadError):
        asyncio.run(twin())


def test_without_respx_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named."""
    monkeypatch.setitem(sys.modules, "respx", None)
    with pytest.raises(ImportError, match=r"strictreply\[testing\]"):
        respx_router(always(GOOD))
