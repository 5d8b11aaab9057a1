"""What the SDK builds of a client's state is kept, and each request is the raw client's.

Every byte counts: the line of the request, its headers in their order, its body, its timeouts.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from types import FrameType
from typing import Any

import openai
import pytest

import strictreply as sr
from support.loops import some
from support.scripted import USER, Server, completion, http
from support.streamed_replies import streamed

OBJECT = {"type": "object", "properties": {"q": {"type": "string"}}, "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "search", "parameters": OBJECT}}]
CALL: dict[str, Any] = {"model": "m", "messages": USER, "tools": TOOLS}
TEXT = completion("It is sold out.")
POLICY = sr.RetryPolicy(max_retries=0, transport_retries=0)

CHANGES: dict[str, Callable[[Any], object]] = {
    "api_key": lambda client: setattr(client, "api_key", "other"),
    "base_url": lambda client: setattr(client, "base_url", "http://other.invalid/v2?a=b"),
    "organization": lambda client: setattr(client, "organization", "team"),
    "project": lambda client: setattr(client, "project", "p"),
    "max_retries": lambda client: setattr(client, "max_retries", 0),
    "timeout": lambda client: setattr(client, "timeout", 7.5),
    "no_timeout": lambda client: setattr(client, "timeout", None),
    "part_of_timeout": lambda client: setattr(client.timeout, "read", 3),
    "default_headers": lambda client: client._custom_headers.update({"x-team": "red"}),
    "default_query": lambda client: client._custom_query.update({"version": "2"}),
    "idempotency": lambda client: setattr(client, "_idempotency_header", "Idempotency-Key"),
    "http_headers": lambda client: client._client.headers.update({"x-proxy": "1"}),
    "http_params": lambda client: setattr(client._client, "params", {"p": "1"}),
    "http_cookies": lambda client: client._client.cookies.set("session", "1"),
    "http_base_url": lambda client: setattr(client._client, "base_url", "http://odd.invalid"),
    "http_auth": lambda client: setattr(client._client, "auth", ("user", "word")),
    "http_encoding": lambda client: setattr(client._client.headers, "encoding", "iso-8859-1"),
}
"""What a program sets on a client between two calls."""

STATES: dict[str, dict[str, Any]] = {
    "plain": {},
    "organization": {"organization": "o", "project": "p"},
    "default_headers": {"default_headers": {"User-Agent": "mine", "x-a": "b"}},
    "no_agent": {"default_headers": {"User-Agent": openai.Omit()}},
    "cookie": {"default_headers": {"Cookie": "a=b"}},
    "length": {"default_headers": {"Content-Length": "5"}},
    "host": {"default_headers": {"Host": "model.example"}},
    "chunked": {"default_headers": {"Transfer-Encoding": "chunked"}},
    "count": {"default_headers": {"x-stainless-retry-count": "9"}},
    "default_query": {"default_query": {"version": "1"}},
    "nested_query": {"default_query": {"n": [1, 2]}},
    "credentials": {"base_url": "http://user:word@model.invalid/v1"},
    "low_line": {"base_url": "http://my_model.invalid/v1"},
    "timeout": {"timeout": openai.Timeout(5, read=None)},
}
"""What a client is made with."""

KEYWORDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "temperature": {"temperature": 0.5},
    "not_given": {"temperature": openai.NOT_GIVEN, "timeout": openai.NOT_GIVEN},
    "extra_headers": {"extra_headers": {"x-a": "b", "User-Agent": openai.Omit()}},
    "extra_query": {"extra_query": {"a": "b"}},
    "extra_body": {"extra_body": {"a": "b"}},
    "seconds": {"timeout": 7},
    "parts": {"timeout": openai.Timeout(5, read=3)},
    "endless": {"timeout": openai.Timeout(5, read=None)},
    "no_timeout": {"timeout": None},
    "stream": {"stream": True, "stream_options": {"include_usage": True}},
}
"""What a call is given beside its messages and tools."""


class Recording(Server):
    """A server that notes all of each request; it gives a cookie where it is told to."""

    def __init__(self, *answers: Any, is_baking: bool = False) -> None:
        super().__init__(*answers)
        self.is_baking = is_baking
        self.seen: list[Any] = []

    def handle(self, request: Any) -> Any:
        """Note a request and answer it."""
        line = request.method, str(request.url)
        timeouts = dict(request.extensions["timeout"])
        self.seen.append((*line, request.headers.raw, request.content, timeouts))
        if b'"stream":true' in request.content:
            return streamed(TEXT)

        response = super().handle(request)
        if self.is_baking:
            response.headers["set-cookie"] = "bot=1; path=/"
        return response


def made(server: Server, *, is_async: bool, **options: Any) -> Any:
    """Make a client over a server."""
    return (server.async_client if is_async else server.client)(**options)


def called(client: Any, **keywords: Any) -> Any:
    """Make a call, and read what it brings."""
    given = client.chat.completions.create(**CALL | deepcopy(keywords))
    if not inspect.isawaitable(given):
        return list(given) if keywords.get("stream") else given

    async def done() -> Any:
        reply = await given
        return [one async for one in reply] if keywords.get("stream") else reply

    return asyncio.run(done())


def built_in(run: Callable[[], object]) -> int:
    """Return how many requests the SDK builds meanwhile."""
    return ran_in(run, "_build_request", "_base_client.py")


def ran_in(run: Callable[[], object], name: str, file: str) -> int:
    """Return how often a function of a file runs meanwhile."""
    count = 0

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        code = frame.f_code
        count += event == "call" and code.co_name == name and code.co_filename.endswith(file)

    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)

    return count


def without_keys(seen: list[Any]) -> list[Any]:
    """Return requests in which one word stands for every idempotency key."""
    return [
        (*line, [(name, b"" if b"dempotency" in name else value) for name, value in headers], *rest)
        for *line, headers, content, timeouts in seen
        for rest in [(content, timeouts)]
    ]


def sent(
    options: dict[str, Any],
    keywords: dict[str, Any],
    change: Callable[[Any], object],
    *,
    is_async: bool,
    is_guarded: bool,
) -> list[Any]:
    """Return the requests of four calls, a change to the client, and four more calls."""
    server = Recording(TEXT)
    raw = made(server, is_async=is_async, **deepcopy(options))
    client = sr.wrap(raw, policy=POLICY) if is_guarded else raw

    for _ in range(4):
        called(client, **keywords)
    change(raw)
    for _ in range(4):
        called(client, **keywords)

    return without_keys(server.seen)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("way", ["plain", "stream", "seconds"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_client_counts_at_the_next_call(
    change: str, way: str, *, is_async: bool
) -> None:
    """Whatever is set on the client or its HTTP client, the request is the raw client's."""
    given = {"timeout": openai.Timeout(9, read=4)}, KEYWORDS[way], CHANGES[change]
    raw = sent(*given, is_async=is_async, is_guarded=False)
    assert sent(*given, is_async=is_async, is_guarded=True) == raw
    assert len(raw) == 8


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("way", KEYWORDS)
@pytest.mark.parametrize("state", STATES)
def test_each_request_is_the_raw_clients(state: str, way: str, *, is_async: bool) -> None:
    """However a client was made, and whatever a call is given, each request is the raw one."""
    given = STATES[state], KEYWORDS[way], CHANGES["api_key"]
    raw = sent(*given, is_async=is_async, is_guarded=False)
    assert sent(*given, is_async=is_async, is_guarded=True) == raw
    assert len(raw) == 8


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("way", ["plain", "temperature", "not_given", "seconds", "parts", "stream"])
def test_the_sdk_builds_what_it_has_not_built(way: str, *, is_async: bool) -> None:
    """It builds the first requests of a state; an async client learns its platform in one."""
    client = sr.wrap(made(Recording(TEXT), is_async=is_async), policy=POLICY)
    calls = range(6)
    built = built_in(lambda: [called(client, **KEYWORDS[way]) for _ in calls])
    assert built == (3 if is_async else 2)
    assert built_in(lambda: [called(client, **KEYWORDS[way]) for _ in calls]) == 0


@pytest.mark.parametrize("is_async", [False, True])
def test_cookies_of_a_server_are_sent_as_the_raw_client_sends_them(*, is_async: bool) -> None:
    """The cookies are those that the HTTP client has at the call, and the SDK builds no more."""
    servers = [Recording(TEXT, is_baking=True) for _ in range(2)]
    clients = [made(server, is_async=is_async) for server in servers]
    guarded = sr.wrap(clients[1], policy=POLICY)
    for _ in range(4):
        called(clients[0])
        called(guarded)

    assert servers[0].seen == servers[1].seen
    assert (b"Cookie", b"bot=1") in servers[1].seen[-1][2]
    assert built_in(lambda: called(guarded)) == 0


def test_a_key_that_is_set_again_is_the_same_key() -> None:
    """A program may set what the client has before each call; the SDK builds no more for it."""
    server = Recording(TEXT)
    client = sr.wrap(server.client(), policy=POLICY)

    def call_with_key() -> None:
        client.unwrapped.api_key = f"key {len(server.seen) // 9}"
        called(client)

    def calls() -> None:
        for _ in range(5):
            call_with_key()

    assert built_in(calls) == 2


def test_an_idempotency_key_is_sent_once() -> None:
    """What the SDK makes anew for each request is not kept."""
    server = Recording(TEXT)
    raw: Any = server.client()
    raw._idempotency_header = "Idempotency-Key"
    client = sr.wrap(raw, policy=POLICY)
    for _ in range(6):
        called(client)

    keys = {request.headers["idempotency-key"] for request in server.requests}
    assert len(keys) == 6


def test_sets_of_keywords_never_run_out() -> None:
    """A client that has seen hundreds of sets of keywords asks ``create`` once for the next."""
    names = ("temperature", "top_p", "seed", "user", "n", "logprobs", "metadata", "stop", "store")
    values: tuple[Any, ...] = (0.5, 1.0, 1, "u", 1, False, {}, "x", False)
    known = list(zip(names, values, strict=True))
    client = sr.wrap(Recording(TEXT).client(), policy=POLICY)
    for number in range(300):
        called(client, **dict(one for bit, one in enumerate(known) if number >> bit & 1))

    asked = [
        ran_in(lambda: called(client, presence_penalty=1), "create", "completions.py")
        for _ in range(2)
    ]
    assert asked[0] > 0
    assert asked[1] == 0


def test_tools_of_many_threads_are_each_ones_own() -> None:
    """Texts of tools are kept for a few lists; threads that declare others send their own."""
    server = Recording(TEXT)
    client = sr.wrap(server.client(), policy=POLICY)
    wrong: list[str] = []

    def call_with_tools(thread: int) -> None:
        for number in range(30):
            name = f"t{thread}_{number}"
            tool: Any = {"type": "function", "function": {"name": name, "parameters": OBJECT}}
            made = client.chat.completions.create(model=name, messages=USER, tools=[tool])
            wrong.extend([] if made.choices else [name])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(call_with_tools, range(6)))
    finally:
        sys.setswitchinterval(interval)

    sent_ = [json.loads(content) for *_, content, _ in server.seen]
    assert wrong == []
    assert len(sent_) == 180
    assert all(one["tools"][0]["function"]["name"] == one["model"] for one in some(sent_))


class Derived(openai.OpenAI):
    """A client of a program."""


class DerivedHTTP(http.Client):  # type: ignore[misc]  # of the installed SDK's library
    """An HTTP client of a program."""


def _over(client: Any, name: str) -> None:
    """Put a function over a method of a client."""
    method = getattr(client, name)

    def over_it(*given: Any, **named: Any) -> Any:
        return method(*given, **named)

    setattr(client, name, over_it)


def _derived_http(client: Any) -> None:
    old = client._client
    client._client = DerivedHTTP(transport=old._transport)


def _keys(client: Any) -> None:
    keys = iter("abcdefghij")
    client._api_key_provider = lambda: next(keys)


ODD: dict[str, Callable[[Any], object]] = {
    "options": lambda client: _over(client, "_prepare_options"),
    "request": lambda client: _over(client, "_prepare_request"),
    "build": lambda client: _over(client, "_build_request"),
    "headers": lambda client: _over(client, "_build_headers"),
    "send": lambda client: _over(client._client, "send"),
    "build_of_http": lambda client: _over(client._client, "build_request"),
    "derived": lambda client: setattr(client, "__class__", Derived),
    "derived_http": _derived_http,
    "api_key": _keys,
    "mapping": lambda client: setattr(client, "_custom_headers", http.Headers({"x-a": "b"})),
}
"""What lets the SDK make each request."""


@pytest.mark.parametrize("odd", ODD)
def test_what_is_not_the_sdks_own_is_asked_each_time(odd: str) -> None:
    """A replaced method, a derived class or a function in the state: nothing is kept."""
    server = Recording(TEXT)
    raw = server.client()
    ODD[odd](raw)
    client = sr.wrap(raw, policy=POLICY)
    assert built_in(lambda: [called(client) for _ in range(5)]) == 5
    assert len(server.seen) == 5


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (openai.OpenAI, "_prepare_request"),
        (openai.OpenAI.__mro__[2], "default_query"),
        (openai.OpenAI.__mro__[2], "_build_headers"),
        (http.Client, "send"),
        (http.Client.__mro__[1], "build_request"),
    ],
)
def test_a_method_that_is_replaced_later_is_seen(
    kind: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tracer that comes after the first calls sees the next one, and leaves again."""
    server = Recording(TEXT)
    client = sr.wrap(server.client(), policy=POLICY)
    for _ in range(3):
        called(client)
    assert built_in(lambda: called(client)) == 0

    own = getattr(kind, name)
    is_property = isinstance(own, property)
    looks = []

    def over_it(self: Any, *given: Any, **named: Any) -> Any:
        looks.append(name)
        return own.fget(self) if is_property else own(self, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(kind, name, property(over_it) if is_property else over_it)
        assert built_in(lambda: called(client)) == 1
        assert looks == [name]

    for _ in range(3):
        called(client)
    assert looks == [name]
    assert len({str(one) for one in server.seen}) == 1


def test_a_log_is_as_long_as_the_sdks(caplog: pytest.LogCaptureFixture) -> None:
    """With its log of details on, the SDK makes each request; the HTTP library logs every one."""
    server = Recording(TEXT)
    client = sr.wrap(server.client(), policy=POLICY)
    caplog.set_level(logging.INFO)
    for _ in range(5):
        called(client)
    of_http = [one for one in caplog.messages if one.startswith("HTTP Request: POST")]
    assert len(of_http) == 5

    caplog.set_level(logging.DEBUG, logger="openai")
    assert built_in(lambda: [called(client) for _ in range(3)]) == 3


def test_a_hook_that_changes_a_request_changes_that_one() -> None:
    """What an event hook writes into a request is not in the next one."""
    server = Recording(TEXT)
    raw: Any = server.client()
    count = iter(range(9))

    def mark(request: Any) -> None:
        number = next(count)
        request.headers[f"x-{number}"] = "1"
        request.extensions["timeout"]["read"] = number

    raw._client.event_hooks = {"request": [mark]}
    client = sr.wrap(raw, policy=POLICY)
    for _ in range(5):
        called(client)

    for number, (_, _, headers, _, timeouts) in some(enumerate(server.seen)):
        assert [name for name, _ in headers if name[:2] == b"x-" and name[2:].isdigit()] == [
            b"x-%d" % number
        ]
        assert timeouts["read"] == number


def _chain(error: BaseException | None) -> list[Any]:
    """Return what is said of an error and of each error behind it."""
    said = []
    while error is not None:
        status = getattr(error, "status_code", None)
        body = getattr(error, "body", None)
        said.append((type(error), str(error), status, body, error.__suppress_context__))
        error = error.__cause__ or error.__context__
    return said


FAULTS: dict[str, Callable[[], Any]] = {
    "status": lambda: http.Response(500, json={"error": {"message": "no"}}),
    "key": lambda: http.Response(401, json={"error": {"message": "no"}}),
    "redirect": lambda: http.Response(302, headers={"location": "http://elsewhere.invalid"}),
    "empty": lambda: http.Response(204),
    "page": lambda: http.Response(200, text="<html>"),
    "large": lambda: http.Response(500, content=b"x" * 2_000_000),
    "connection": lambda: http.ConnectError("refused"),
    "timeout": lambda: http.ReadTimeout("late"),
    "protocol": lambda: http.RemoteProtocolError("odd"),
    "of_sdk": lambda: openai.OpenAIError("mine"),
    "other": lambda: ValueError("odd"),
}
"""What may come in the place of a reply."""


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_by_the_sdk(fault: str, *, is_async: bool) -> None:
    """After calls that it did not see, the SDK's error is the one of a client that it serves."""
    told = []
    for is_kept in (True, False):
        server = Recording(*[TEXT] * 4, FAULTS[fault]())
        raw = made(server, is_async=is_async)
        if not is_kept:
            _over(raw._client, "build_request")
        client = sr.wrap(raw, policy=POLICY)
        for _ in range(4):
            called(client)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - of each class
            called(client)

        assert len(server.seen) == 5
        errors = [caught.value, caught.value.__cause__]
        requests = [one.request for one in errors if isinstance(one, openai.APIError)]
        are_sent = [one is server.requests[-1] for one in requests]
        told.append((_chain(caught.value), are_sent))

    assert told[0] == told[1]
