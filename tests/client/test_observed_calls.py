"""``mode="observe"``: the SDK's own methods do what the raw client's do, and are judged beside."""

from __future__ import annotations

import asyncio
import gc
import gzip
import inspect
import logging
import weakref
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import openai
import pytest
from pydantic import BaseModel

import strictreply as sr
from support import scripted_responses as sdk
from support.scripted import (
    SCHEMA,
    USER,
    AsyncClient,
    Client,
    Server,
    call,
    completion,
    http,
    status,
)
from support.streamed_replies import EVENTS, Body, events, over, streamed, streamed_response

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
GOOD = completion(calls=[call("search", {"query": "tea"})])
WRONG = completion(calls=[call("search", {"query": 1})])
WRONG_RESPONSE = sdk.response(sdk.call_item("search", {"query": 1}))
ASK: dict[str, Any] = {"model": "m", "messages": USER}
ASK_RESPONSES: dict[str, Any] = {"model": "m", "input": "find tea"}


class Invoice(BaseModel):
    """What an answer is parsed into."""

    total: int


class Told:
    """Telemetry that keeps what it is told."""

    def __init__(self) -> None:
        self.attempts: list[sr.Attempt] = []
        self.judging: list[float] = []
        self.unjudged_for: list[str] = []

    def call(self, *_: object, **__: object) -> Any:
        """Fail: no call that is only observed comes here."""
        raise AssertionError("an observed call is no enforced one")

    def observed(self, _ask: Any, _client: object, attempt: sr.Attempt, *, judging: float) -> None:
        """Keep an attempt."""
        self.attempts.append(attempt)
        self.judging.append(judging)

    def unjudged(self, _client: object, _api: str, _model: str, why: str) -> None:
        """Keep why there is no verdict."""
        self.unjudged_for.append(why)


def observed(client: Any, told: Told, **declared: Any) -> Any:
    """Return a client that observes."""
    wrapped: Any = sr.wrap(client, mode="observe", **({"tools": [SEARCH]} | declared))
    return wrapped.observed_by(told)


def done(given: Any) -> Any:
    """Return what came of a call; what is awaited is awaited, and a stream is read."""
    if isinstance(given, openai.Stream):
        return [one.model_dump() for one in given]
    if not inspect.isawaitable(given):
        return plain(given)

    async def main() -> Any:
        made: Any = await given
        if isinstance(made, openai.AsyncStream):
            return [one.model_dump() async for one in made]
        return plain(made)

    return asyncio.run(main())


def plain(given: Any) -> Any:
    """Return an object of the SDK as JSON, with its class."""
    held = given.http_response.content if hasattr(given, "http_response") else given.model_dump()
    return type(given).__name__, held


def outcome(ask: Callable[[Any], Any], client: Any) -> Any:
    """Return what came of a call, or the error that was raised."""
    try:
        return done(ask(client))
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises
        return type(error), str(error)


def create(client: Any) -> Any:
    """Make the usual call."""
    return client.chat.completions.create(**ASK)


def stream(client: Any) -> Any:
    """Make a streamed call."""
    return client.chat.completions.create(**ASK, stream=True)


def raw(client: Any) -> Any:
    """Ask for a raw response."""
    return client.chat.completions.with_raw_response.create(**ASK)


def parse(client: Any) -> Any:
    """Ask for an answer that the SDK parses."""
    return client.chat.completions.parse(**ASK, response_format=Invoice)


def posted(client: Any) -> Any:
    """Make the request by a low method."""
    kind = openai.types.chat.ChatCompletion
    return client.post("/chat/completions", cast_to=kind, body={**ASK})


def respond(client: Any) -> Any:
    """Make a call of the Responses API."""
    return client.responses.create(**ASK_RESPONSES)


def respond_streamed(client: Any) -> Any:
    """Make a streamed call of the Responses API."""
    return client.responses.create(**ASK_RESPONSES, stream=True)


WAYS: dict[str, tuple[Callable[[Any], Any], Callable[[], Any], str]] = {
    "create": (create, lambda: WRONG, "args.type"),
    "stream": (stream, lambda: streamed(WRONG), "args.type"),
    "raw": (raw, lambda: WRONG, "args.type"),
    "parse": (parse, lambda: completion('{"total": "x"}'), "answer.type"),
    "post": (posted, lambda: WRONG, "args.type"),
    "responses": (respond, lambda: WRONG_RESPONSE, "args.type"),
    "responses streamed": (
        respond_streamed,
        lambda: streamed_response(WRONG_RESPONSE),
        "args.type",
    ),
}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", WAYS)
def test_an_observed_call_is_the_raw_clients_and_is_judged(way: str, is_async: bool) -> None:
    """Request, result and error are the raw client's, byte for byte; the verdict is told."""
    ask, reply, code = WAYS[way]
    servers = Server(reply()), Server(reply())
    clients = [one.async_client() if is_async else one.client() for one in servers]
    told = Told()
    seen: list[sr.Attempt] = []
    declared: dict[str, Any] = {"tools": []} if way == "parse" else {}

    expected = outcome(ask, clients[0])
    came = outcome(ask, observed(clients[1], told, on_attempt=seen.append, **declared))

    assert came == expected
    assert [one.content for one in servers[1].requests] == servers[0].bodies
    assert servers[1].requests[0].headers == servers[0].requests[0].headers
    assert [issue.code for issue in seen[0].issues] == [code]
    assert seen == told.attempts
    assert seen[0].observed
    assert not seen[0].accepted
    assert seen[0].usage.total_tokens > 0


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_reply_that_fits_is_told_as_accepted(is_async: bool) -> None:
    """A reply that fits has no faults, and is not called observed."""
    server = Server(GOOD)
    told = Told()
    done(create(observed(server.async_client() if is_async else server.client(), told)))

    assert [one.accepted for one in told.attempts] == [True]
    assert not told.attempts[0].observed
    assert told.judging[0] >= 0


def test_the_retries_and_exceptions_are_the_sdks() -> None:
    """A server that fails is asked as often as by the raw client, and raises the same class."""
    servers = [Server(status(500)), Server(status(500))]
    told = Told()
    for server, client in zip(
        servers,
        (servers[0].client(max_retries=1), observed(servers[1].client(max_retries=1), told)),
        strict=True,
    ):
        with pytest.raises(openai.InternalServerError) as raised:
            create(client)
        assert type(raised.value) is openai.InternalServerError
        assert len(server.requests) == 2

    assert [one.failure for one in told.attempts] == ["server_error (HTTP 500)"]


def test_what_is_declared_is_not_sent_and_judges_the_requests_own_tools() -> None:
    """``wrap(tools=)`` adds nothing; a declared tool judges its calls whatever the request says."""
    loose = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
    server = Server(WRONG)
    told = Told()
    observed(server.client(), told).chat.completions.create(**ASK, tools=[loose])

    assert server.bodies[0].count(b'"integer"') == 0
    assert [issue.code for issue in told.attempts[0].issues] == ["args.type"]


def test_a_stream_is_live_and_judged_at_its_end() -> None:
    """Each chunk comes before the next is read; the verdict stands when the stream is over."""
    body = Body(events(WRONG))
    server = Server(over(body))
    told = Told()
    pieces = iter(stream(observed(server.client(), told)))

    next(pieces)
    assert body.taken == 1
    assert told.attempts == []
    list(pieces)
    assert [one.observed for one in told.attempts] == [True]


def test_a_stream_that_its_caller_leaves_is_not_judged() -> None:
    """A stream that is closed before the reply was whole counts as abandoned."""
    server = Server(streamed(WRONG))
    told = Told()
    opened = stream(observed(server.client(), told))
    next(iter(opened))
    opened.close()

    assert told.attempts == []
    assert told.unjudged_for == ["abandoned"]


def test_a_stream_that_breaks_raises_the_sdks_error_and_is_told() -> None:
    """An error on the way is the raw client's, and an attempt that failed."""

    def server() -> Server:
        return Server(over(Body([*events(WRONG)[:2], http.ReadError("gone")])))

    told = Told()
    expected = outcome(stream, server().client())
    assert outcome(stream, observed(server().client(), told)) == expected
    assert issubclass(expected[0], Exception)
    assert [one.failure is None for one in told.attempts] == [False]


def test_a_compressed_stream_is_judged() -> None:
    """The bytes that the caller reads are judged as the HTTP library decodes them."""
    body = Body([gzip.compress(b"".join(events(WRONG)))])
    reply = http.Response(200, headers={**EVENTS, "content-encoding": "gzip"}, stream=body)
    told = Told()
    list(stream(observed(Server(reply).client(), told)))

    assert [issue.code for issue in told.attempts[0].issues] == ["args.type"]


def test_methods_of_ours_raise_with_the_way_out() -> None:
    """``reply``, ``answer``, ``exchange``, ``stream`` and ``run`` need an enforcing client."""
    server = Server(GOOD)
    client: Any = observed(server.client(), Told())
    calls = (client.reply, client.answer, client.exchange, client.stream)
    for ask in calls:
        with pytest.raises(sr.ContractError, match=r"chat\.completions\.create"):
            ask(**ASK)
    with pytest.raises(sr.ContractError, match='mode="enforce"'):
        sr.run(client, model="m", messages=USER)

    assert server.requests == []
    assert client.contract_for(**ASK).by_name


def test_what_cannot_be_judged_passes_and_is_counted() -> None:
    """A request that an enforcing client refuses is sent as it is."""
    server = Server(GOOD)
    told = Told()
    client = observed(server.client(), told)
    client.chat.completions.create(**ASK, n=2)

    assert b'"n":2' in server.bodies[0]
    assert told.unjudged_for == ["request"]


def test_refused_methods_pass() -> None:
    """A method that an enforcing client refuses is the SDK's own."""
    page = {"object": "list", "data": [GOOD], "has_more": False}
    servers = [Server(page), Server(page)]
    raw_page = servers[0].client().chat.completions.list()
    page_ = observed(servers[1].client(), Told()).chat.completions.list()

    assert page_.model_dump() == raw_page.model_dump()
    assert "/chat/completions" in str(servers[1].requests[0].url)


def test_pages_of_an_async_client_are_the_sdks() -> None:
    """A page is awaited, or iterated over all pages, as the raw client's is."""
    pages = [
        {"object": "list", "data": [GOOD | {"id": "a"}], "has_more": True},
        {"object": "list", "data": [GOOD | {"id": "b"}], "has_more": False},
    ]

    async def ids(client: Any) -> list[str]:
        first = await client.chat.completions.list()
        return [first.data[0].id, *[one.id async for one in client.chat.completions.list()]]

    for over_post in (False, True):
        inner: Any = Server(pages[0], *pages).async_client()
        if over_post:
            inner.post = inner.post
        assert asyncio.run(ids(observed(inner, Told()))) == ["a", "a", "b"]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_what_is_awaited_is_of_its_own_kind(is_streamed: bool) -> None:
    """An awaitable that is no coroutine is the client's own, and its reply is not judged."""

    class Later:
        def __await__(self) -> Any:
            yield from ()
            return WRONG

    later = Later()
    told = Told()
    given = (stream if is_streamed else create)(observed(of_ones_own(later), told))

    assert given is later
    assert told.unjudged_for == ["request"]


def test_a_stored_reply_is_judged_beside() -> None:
    """``retrieve`` returns what is stored, and the verdict is told."""
    server = Server(WRONG_RESPONSE)
    told = Told()
    found = observed(server.client(), told).responses.retrieve("resp_1")

    assert found.output[0].arguments == '{"query": 1}'
    assert [issue.code for issue in told.attempts[0].issues] == ["args.type"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_client_of_ones_own_is_observed(is_async: bool) -> None:
    """A client that is not the SDK's gives its own object, which is judged."""
    told = Told()
    client: Any = AsyncClient(WRONG) if is_async else Client(WRONG)
    given = create(observed(client, told))
    came = asyncio.run(given) if is_async else given

    assert came == WRONG
    assert client.script.requests == [ASK]
    assert [issue.code for issue in told.attempts[0].issues] == ["args.type"]


def test_a_spy_over_create_is_called_and_seen() -> None:
    """What somebody has put over ``create`` of the client inside is called, once."""
    server = Server(WRONG)
    inner = server.client()
    own = inner.chat.completions.create
    calls: list[str] = []

    def spy(**given: Any) -> Any:
        calls.append("create")
        return own(**given)

    inner.chat.completions.create = spy  # type: ignore[method-assign]
    told = Told()
    create(observed(inner, told))

    assert calls == ["create"]
    assert len(told.attempts) == 1


@pytest.mark.parametrize("over_wrapped", [False, True], ids=["inner", "wrapped"])
def test_a_spy_over_post_is_called_and_seen_once(over_wrapped: bool) -> None:
    """What somebody has put over ``post`` of either client is called once, and judged once."""
    server = Server(WRONG)
    inner = server.client()
    told = Told()
    client = observed(inner, told)
    patched: Any = client if over_wrapped else inner
    own = patched.post
    calls: list[str] = []

    def spy(*given: Any, **named: Any) -> Any:
        calls.append("post")
        return own(*given, **named)

    patched.post = spy
    create(client)
    posted(client)

    assert calls == ["post", "post"]
    assert len(server.requests) == 2
    assert [len(one.issues) for one in told.attempts] == [1, 1]


class Breaks:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def broken_check(_: object) -> None:
    """Fail as a bug would."""
    raise RuntimeError("a bug of ours")


def broken_watcher(_: object) -> None:
    """Fail as a bug would."""
    raise KeyError("a bug of ours")


FAULTS: dict[str, dict[str, Any]] = {
    "check": {"tools": [sr.Tool.from_json_schema("search", SCHEMA, check=broken_check)]},
    "watcher": {"on_attempt": broken_watcher},
    "log": {"log_replies": broken_watcher},
}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("fault", [*FAULTS, "telemetry", "judge"])
def test_a_fault_of_ours_fails_no_call(
    fault: str, is_streamed: bool, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever raises in what is ours, the call returns what the raw one does; it is logged."""
    server = Server(streamed(GOOD) if is_streamed else GOOD)
    client: Any = server.async_client() if is_async else server.client()
    declared = {"tools": [SEARCH]} | FAULTS.get(fault, {})
    if fault == "judge":
        declared = {"contract": BrokenContract(tools=[SEARCH])}
    wrapped: Any = sr.wrap(client, mode="observe", **declared)
    if fault == "telemetry":
        wrapped = wrapped.observed_by(Breaks())

    with caplog.at_level(logging.DEBUG, "strictreply"):
        came = done((stream if is_streamed else create)(wrapped))

    assert came
    assert any("the call continues" in record.message for record in caplog.records)


class BrokenContract(sr.Contract[Any]):
    """A contract whose judge has a bug."""

    def replace(self, **_: Any) -> Any:
        """Fail as a bug would."""
        raise RuntimeError("a bug of ours")


def test_a_fault_of_ours_is_counted() -> None:
    """A reply without a verdict by a fault of ours is counted as such."""
    told = Told()
    tools = [sr.Tool.from_json_schema("search", SCHEMA, check=broken_check)]
    create(observed(Server(GOOD).client(), told, tools=tools))

    assert told.unjudged_for == ["fault"]
    assert told.attempts == []


def test_keywords_of_ours_judge_and_are_not_sent() -> None:
    """``contract=`` of one call judges it; no keyword of ours reaches the SDK."""
    server = Server(GOOD)
    told = Told()
    client = observed(server.client(), told, tools=[])
    closed = sr.Contract(tools=[SEARCH])
    client.chat.completions.create(**ASK, contract=closed, max_retries=2, deadline=3)

    assert [one.accepted for one in told.attempts] == [True]
    assert server.bodies[0].count(b"contract") == 0


def test_off_judges_nothing() -> None:
    """``mode="off"`` is the raw client, and nobody is told anything."""
    told = Told()
    server = Server(WRONG)
    create(sr.wrap(server.client(), tools=[SEARCH], mode="off").observed_by(told))

    assert len(server.requests) == 1
    assert told.attempts == []


def test_an_async_watcher_is_awaited() -> None:
    """An async ``on_attempt`` of an async client is awaited, also behind a stream."""
    seen: list[sr.Attempt] = []

    async def watch(attempt: sr.Attempt) -> None:
        await asyncio.sleep(0)
        seen.append(attempt)

    asks: list[Callable[[Any], Awaitable[Any]]] = [create, stream]
    for ask in asks:
        server = Server(streamed(WRONG) if ask is stream else WRONG)
        done(ask(observed(server.async_client(), Told(), on_attempt=watch)))

    assert [one.observed for one in seen] == [True, True]


def test_a_namespace_that_the_program_made_over_the_client_is_observed() -> None:
    """The SDK's resource over the wrapped client posts by it, and is judged."""
    server = Server(WRONG)
    told = Told()
    client = observed(server.client(), told)
    openai.resources.chat.completions.Completions(client).create(**ASK)

    assert [issue.code for issue in told.attempts[0].issues] == ["args.type"]


def test_a_managed_stream_is_observed() -> None:
    """``chat.completions.stream`` gives the SDK's own events, and is judged once."""
    servers = [Server(streamed(WRONG)), Server(streamed(WRONG))]
    told = Told()
    found: list[Any] = []
    for client in (servers[0].client(), observed(servers[1].client(), told)):
        with client.chat.completions.stream(**ASK) as opened:
            found.append([type(event).__name__ for event in opened])

    assert found[0] == found[1]
    assert servers[0].bodies == servers[1].bodies
    assert [one.observed for one in told.attempts] == [True]


TEXT = {"type": "text", "text": "find tea"}
ITERATED: dict[str, Callable[[Any], Any]] = {
    "messages": lambda to: to.chat.completions.create(model="m", messages=iter(USER)),
    "tools": lambda to: to.chat.completions.create(**ASK, tools=iter([SEARCH.definition])),
    "content": lambda to: to.chat.completions.create(
        model="m", messages=[{"role": "user", "content": iter([TEXT])}]
    ),
    "parse": lambda to: to.chat.completions.parse(model="m", messages=iter(USER)),
}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("iterated", ITERATED)
def test_what_can_be_iterated_once_is_sent_and_judged(iterated: str, is_async: bool) -> None:
    """A generator in a request is read for the verdict, and is still sent as the raw client's."""
    servers = Server(WRONG), Server(WRONG)
    told = Told()
    clients = [one.async_client() if is_async else one.client() for one in servers]
    for client in (clients[0], observed(clients[1], told)):
        done(ITERATED[iterated](client))

    assert servers[1].bodies == servers[0].bodies
    assert b"find tea" in servers[1].bodies[0]
    assert [issue.code for issue in told.attempts[0].issues] == ["args.type"]


@pytest.mark.parametrize("marker", [openai.NOT_GIVEN, openai.omit], ids=["not given", "omit"])
def test_what_the_sdk_leaves_out_is_in_no_attempt(marker: Any) -> None:
    """A keyword that is not given is neither sent nor told."""
    servers = Server(WRONG), Server(WRONG)
    told = Told()
    left_out = dict.fromkeys(("max_tokens", "stream", "tools", "tool_choice", "n"), marker)
    for client in (servers[0].client(), observed(servers[1].client(), told)):
        client.chat.completions.create(**ASK, **left_out)

    assert servers[1].bodies == servers[0].bodies
    assert told.attempts[0].request.keys() == ASK.keys()


class OnceClosing(openai.OpenAI):
    """Closes its connections when it is gone, as programs do."""

    def __del__(self) -> None:
        """Close."""
        self.close()


class Frozen(openai.OpenAI):
    """Takes no attribute once it is made."""

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse."""
        if "is_made" in vars(self):
            raise AttributeError(name)

        super().__setattr__(name, value)


class Preparing(openai.OpenAI):
    """Uses another namespace of its own on the way."""

    def _prepare_options(self, options: Any) -> Any:
        assert self.embeddings is not None
        return super()._prepare_options(options)


@pytest.mark.parametrize("kind", [OnceClosing, Frozen, Preparing])
def test_a_client_of_a_class_of_ones_own_stays_as_it_is(kind: Any) -> None:
    """It is open, unchanged, and its namespaces are its own after an observed call."""
    server = Server(WRONG)
    base = server.client()
    inner = kind(api_key="k", base_url=str(base.base_url), http_client=vars(base)["_client"])
    vars(inner)["is_made"] = True
    told = Told()
    for _ in range(2):
        create(observed(inner, told))
        gc.collect()

    assert not inner.is_closed()
    assert vars(inner.embeddings)["_client"] is inner
    assert [len(one.issues) for one in told.attempts] == [1, 1]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_an_error_is_gone_with_its_last_reference(is_streamed: bool) -> None:
    """No cycle of ours keeps an error, with its request and response, until a collection."""
    client = observed(Server(status(400)).client(), Told())

    def raised() -> weakref.ref[Any]:
        try:
            (stream if is_streamed else create)(client)
        except openai.BadRequestError as error:
            return weakref.ref(error)
        raise AssertionError("it was raised")

    gc.collect()
    gc.disable()
    try:
        assert raised()() is None
    finally:
        gc.enable()


class Rows:
    """What a client returns that can be iterated, and is no stream."""

    def __iter__(self) -> Any:
        return iter([("id", 1)])


class Broken:
    """Raises for each member."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def of_ones_own(given: object) -> Any:
    """Return a client that is not the SDK's and returns one object."""
    completions = SimpleNamespace(create=lambda **_: given)
    return SimpleNamespace(chat=SimpleNamespace(completions=completions))


@pytest.mark.parametrize("kind", [Rows, MagicMock, Broken, object])
def test_whatever_a_client_returns_is_handed_on_itself(kind: Any) -> None:
    """It is the same object, also where nothing can be judged by it."""
    given = kind()
    assert create(observed(of_ones_own(given), Told())) is given


class OwnStream:
    """A stream of a client that is not the SDK's."""

    def __init__(self) -> None:
        self.left = iter([GOOD])
        self.is_closed = False

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return next(self.left)

    def close(self) -> None:
        """Close."""
        self.is_closed = True


def chunks() -> Iterator[Any]:
    """Yield one chunk."""
    yield GOOD


def test_a_stream_of_ones_own_is_told_apart_as_before() -> None:
    """It is of its own class, sync and no more, and closing it leaves it."""
    told = Told()
    own = OwnStream()
    given: Any = stream(observed(of_ones_own(own), told))
    generator: Any = stream(observed(of_ones_own(chunks()), told))

    assert isinstance(given, OwnStream)
    assert inspect.isgenerator(generator)
    assert not hasattr(given, "__aiter__")
    given.close()
    assert own.is_closed
    assert told.unjudged_for == ["abandoned"]


def test_a_watcher_that_fails_does_not_make_a_reply_unjudged() -> None:
    """The verdict was told before, and is counted once."""
    told = Told()
    create(observed(Server(WRONG).client(), told, on_attempt=broken_watcher))

    assert [one.observed for one in told.attempts] == [True]
    assert told.unjudged_for == []


def test_a_stream_beyond_the_cap_is_handed_on_and_told_as_too_large() -> None:
    """No more is kept of a stream than is judged; its caller gets all of it."""
    limits = sr.Limits(reply_bytes=1000)
    long = completion("x" * 100_000)
    servers = Server(streamed(long)), Server(streamed(long))
    told = Told()
    expected = done(stream(servers[0].client()))
    wrapped: Any = sr.wrap(servers[1].client(), mode="observe", limits=limits)
    client = wrapped.observed_by(told)

    assert done(stream(client)) == expected
    assert [(one.failure or "").partition(" ")[0] for one in told.attempts] == [
        "response_too_large"
    ]
