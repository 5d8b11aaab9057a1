"""Serve replies in memory: transports for the SDK's HTTP library, SDK clients, and a respx router.

Nothing sleeps: if a client would wait longer than its read timeout, the timeout is raised
immediately.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from functools import cache, partial
from importlib import import_module
from inspect import isawaitable, signature
from threading import Lock
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Self, cast

import h11
import openai
from openai import NotGiven, Omit
from openai.resources.chat import Completions
from openai.types.chat import ChatCompletion

from strictreply.core import JSONObject
from strictreply.core.arguments import how_to_install
from strictreply.core.forms import as_json
from strictreply.testing._serving import respond
from strictreply.testing._wire import HTTPReply, Responder, WireEnding, ending_of, wire

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic
    from respx import MockRouter

# Audit events of the interpreter: with an address as second argument, or a name as the first.
_CONNECTS = {"socket.connect", "socket.sendto", "socket.sendmsg"}
_LOOKS_UP = {"socket.getaddrinfo", "socket.gethostbyname"}
_guards: list[ConnectionGuard] = []
_lock = Lock()


class ConnectionGuard:
    """Refuses connections of this process to other hosts than the allowed ones, until it is closed.

    It sees what the interpreter audits (PEP 578). It does not see sockets of event loops or
    libraries written in C, such as uvloop and curl, nor connections that were open before.
    """

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed
        self.refused: RuntimeError | None = None
        """The error of a refused connection; None if there was none."""
        with _lock:
            _hook()
            _guards.append(self)

    def close(self, *, quiet: bool = False) -> None:
        """Allow connections again; raise RuntimeError, unless ``quiet``, if any was refused."""
        with _lock:
            if self in _guards:
                _guards.remove(self)

        if self.refused and not quiet:
            raise self.refused

    def check(self, host: str) -> None:
        """Raise RuntimeError for a host that is not allowed."""
        if host not in self._allowed:
            error = RuntimeError(
                f"a client that respx cannot intercept was about to connect to {host}: "
                "respx patches httpx only, and openai 3 runs on httpx2. Use llm.openai(), "
                "or give the client http_client=httpx.Client() or a transport of "
                "strictreply.testing.mounting; allowed_hosts= lets other connections through"
            )
            self.refused = self.refused or error
            raise error


@cache  # an audit hook cannot be removed, so there is only one
def _hook() -> None:
    sys.addaudithook(_audited)


def _audited(event: str, args: tuple[object, ...]) -> None:
    if not _guards or event not in {*_CONNECTS, *_LOOKS_UP}:
        return

    host = args[0]
    if event in _CONNECTS:
        host = args[1][0] if isinstance(args[1], tuple) else None  # Unix sockets have a path
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")

    if isinstance(host, str):
        for guard in tuple(_guards):  # another thread may close one in the meantime
            guard.check(host)


# No name server knows it (RFC 2606), so a request that is not mounted cannot leave the machine.
_ORIGIN = "http://model.invalid"
BASE_URL = f"{_ORIGIN}/v1"
"""The address of a client on an in-memory transport; no name server knows it."""
_DEFAULTS: dict[str, Any] = {"api_key": "made-up", "base_url": BASE_URL, "max_retries": 0}
MAX_ENDLESS_BYTES = 20_000_000
"""How many bytes of an endless body are served in memory: more than strictreply reads."""
_SIGNATURE = signature(Completions.create)


def openai_client(responder: Responder, **options: Any) -> openai.OpenAI:
    """Return a real ``openai.OpenAI`` whose requests ``responder`` answers in memory.

    ``options`` are those of the SDK's client; ``max_retries`` is 0 by default.
    """
    http_client = openai.DefaultHttpxClient(transport=transport(responder))
    return openai.OpenAI(**_DEFAULTS | options, http_client=http_client)


def async_openai_client(responder: Responder, **options: Any) -> openai.AsyncOpenAI:
    """Return a real ``openai.AsyncOpenAI``, like :func:`openai_client`."""
    http_client = openai.DefaultAsyncHttpxClient(transport=transport(responder))
    return openai.AsyncOpenAI(**_DEFAULTS | options, http_client=http_client)


def anthropic_client(responder: Responder, **options: Any) -> Anthropic:
    """Return a real ``anthropic.Anthropic`` whose requests ``responder`` answers in memory.

    ``options`` are those of the SDK's client; ``max_retries`` is 0 by default. Raises ImportError
    without the SDK.
    """
    client = _anthropic_client("Anthropic", "DefaultHttpxClient", responder, options)
    return cast("Anthropic", client)


def async_anthropic_client(responder: Responder, **options: Any) -> AsyncAnthropic:
    """Return a real ``anthropic.AsyncAnthropic``, like :func:`anthropic_client`."""
    client = _anthropic_client("AsyncAnthropic", "DefaultAsyncHttpxClient", responder, options)
    return cast("AsyncAnthropic", client)


def _anthropic_client(name: str, http: str, responder: Responder, options: Any) -> Any:
    try:
        sdk: Any = import_module("anthropic")
    except ImportError as error:
        raise ImportError(f"anthropic is not installed: {how_to_install('anthropic')}") from error

    of_http: Any = getattr(sdk, http)
    http_client = of_http(transport=transport(responder, library=library_of(of_http)))
    given: dict[str, Any] = _DEFAULTS | {"base_url": _ORIGIN} | options
    return getattr(sdk, name)(**given, http_client=http_client)


def transport(responder: Responder, *, library: ModuleType | None = None) -> Any:
    """Return a ``MockTransport`` of an HTTP library, for its sync and async clients.

    It serves the same responses as a loopback server.

    - ``responder`` answers the requests, for example a :class:`ScriptedModel`.
    - ``library`` is ``httpx`` or ``httpx2``; None means the library of the installed openai SDK.

    Broken connections raise the library's own exceptions, before the response or in the middle of
    its body: ``ReadTimeout`` when nothing arrives within the request's read timeout, ``ReadError``
    for a reset, ``RemoteProtocolError`` for a response that is cut off or not HTTP.
    """
    http: Any = library or library_of(openai.DefaultHttpxClient)
    return http.MockTransport(partial(_response, http, responder))


def respx_router(
    responder: Responder, *, base_url: str = BASE_URL, allowed_hosts: Collection[str] = ()
) -> MockRouter:
    """Return a respx router that answers every request below ``base_url``.

    The router is a context manager and a decorator. respx patches httpx only: pass
    ``http_client=httpx.Client()`` to openai 3.

    - ``responder`` answers the requests, for example a :class:`ScriptedModel`.
    - ``base_url`` is the address of the API.
    - ``allowed_hosts`` may be connected to, such as ``"127.0.0.1"`` for a database.

    While the router is active, a connection of this process to another host is refused before its
    name is looked up. The RuntimeError is raised again when the router ends, in case the app caught
    it. Unix sockets and sockets of libraries written in C are not refused. Raises ImportError when
    respx is not installed.
    """
    try:
        import respx  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportError(f"respx is not installed: {how_to_install('testing')}") from error

    http = import_module("httpx")

    class GuardedRouter(respx.MockRouter):
        """Refuses connections while it is active."""

        def start(self) -> None:
            self._guard = ConnectionGuard(frozenset(allowed_hosts))
            super().start()

        def stop(self, clear: bool = True, reset: bool = True, quiet: bool = False) -> None:
            super().stop(clear, reset, quiet)
            self._guard.close(quiet=quiet)

    router = GuardedRouter(base_url=base_url, assert_all_called=False)
    router.route().mock(side_effect=partial(_response, http, responder))
    return router


def library_of(client: object) -> ModuleType:
    """Return the HTTP library of a client or of a class of clients: ``httpx`` or ``httpx2``.

    Raises TypeError for another client.
    """
    kind = client if isinstance(client, type) else type(client)
    for base in kind.__mro__:
        if (name := base.__module__.partition(".")[0]) in {"httpx", "httpx2"}:
            return import_module(name)

    raise TypeError(f"{kind.__name__} is not a client of httpx or httpx2")


def _response(http: ModuleType, responder: Responder, request: Any) -> Any:
    path = request.url.raw_path.decode("ascii")
    reply = respond(responder, request.method, path, request.read())

    kind: Any = type("MountedBody", (_Inbound, http.SyncByteStream, http.AsyncByteStream), {})
    stream = kind(http, request, reply)
    while not isinstance(head := stream.next(), h11.Response):
        pass  # interim responses

    return http.Response(
        head.status_code, headers=head.headers.raw_items(), stream=stream, request=request
    )


class _Inbound:
    """A response in transit, as the stream of its body.

    Its bytes are parsed by h11; errors are the library's.
    """

    def __init__(self, http: Any, request: Any, reply: HTTPReply) -> None:
        self._http = http
        self._request = request
        self._reply = reply
        self._wire = wire(reply, bodiless=request.method == "HEAD", most=MAX_ENDLESS_BYTES)
        self._read_timeout = request.extensions.get("timeout", {}).get("read")

        # as in httpcore
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=100 * 1024)
        headers = [("Host", "model.invalid")]
        self._connection.send(h11.Request(method=request.method, target="/", headers=headers))
        self._connection.send(h11.EndOfMessage())

    def __iter__(self) -> Iterator[bytes]:
        while isinstance(event := self.next(), h11.Data):
            yield bytes(event.data)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece

    def next(self) -> object:
        """Return the next event of h11."""
        try:
            while (event := self._connection.next_event()) is h11.NEED_DATA:
                self._receive()
        except h11.RemoteProtocolError as error:
            raise self._http.RemoteProtocolError(str(error), request=self._request) from error

        return event

    def _receive(self) -> None:
        """Take the next part; after the last one end the connection like a server."""
        waited = 0.0
        for part in self._wire:
            if isinstance(part, bytes):
                self._connection.receive_data(part)
                return

            waited += part.seconds
            if self._read_timeout is not None and waited > self._read_timeout:
                raise self._http.ReadTimeout("the read timeout passed", request=self._request)

        match ending_of(self._reply):
            case WireEnding.RESET:
                raise self._http.ReadError("the connection was reset", request=self._request)
            case WireEnding.CUT if self._connection.their_state is h11.SEND_RESPONSE:
                message = "Server disconnected without sending a response."  # the text of httpcore
                raise self._http.RemoteProtocolError(message, request=self._request)
            case WireEnding.CUT:
                self._connection.receive_data(b"")
            case _:
                raise self._http.ReadTimeout("nothing more came", request=self._request)


class _ClientOfResponder:
    """The common part of the sync and the async client without HTTP.

    They differ in ``_create`` and ``_client``.
    """

    _create: Any
    _client: Callable[[Responder], Any]

    def __init__(self, responder: Responder) -> None:
        self._responder = responder
        completions = SimpleNamespace(create=self._create)
        self.chat: SimpleNamespace = SimpleNamespace(completions=completions)
        self.responses: SimpleNamespace = SimpleNamespace(create=self._create_response)

    def with_options(self, **options: object) -> Self:  # noqa: ARG002 - the SDK's signature
        """Return the client itself: it has no connection to configure, and does not retry."""
        return self

    def _create_response(self, **options: object) -> object:
        return self._client(self._responder).responses.create(**options)

    def _answered(self, keywords: JSONObject) -> object:
        """Return what the SDK's ``create`` returns.

        Only replies that need HTTP pass through a client.
        """
        # TypeError for a keyword that the SDK's method does not have.
        _SIGNATURE.bind(None, **keywords)

        # The body that the SDK would send; TypeError when a value is not JSON.
        given = {
            name: value
            for name, value in keywords.items()
            if not isinstance(value, NotGiven | Omit)
        }
        beside = {"extra_headers", "extra_query", "extra_body", "timeout"}
        body = {name: as_json(value) for name, value in given.items() if name not in beside}
        served = self._responder(body | dict(keywords.get("extra_body") or {}))
        if isinstance(served, HTTPReply) or keywords.get("stream"):
            return self._client(lambda _: served).chat.completions.create(**keywords)

        # As the SDK builds it from a body: its own object without checks, or the value if it is not
        # an object.
        build: Any = ChatCompletion.construct
        return build(**served) if isinstance(served, dict) else served


class ScriptedClient(_ClientOfResponder):
    """A client for code that only calls ``create``.

    It also works under ``strictreply.wrap``.

    It returns what the SDK returns: a ``ChatCompletion``, built without checks, so that faults are
    kept. Streams, errors and broken connections need HTTP; they come from the SDK itself on
    :func:`transport`, without retries. For code that needs more of the SDK, :func:`openai_client`
    makes a real client on an in-memory transport.
    """

    _client = staticmethod(openai_client)

    def _create(self, *, model: object, messages: object, **options: object) -> object:
        return self._answered({"model": model, "messages": messages, **options})


class AsyncScriptedClient(_ClientOfResponder):
    """A client like :class:`ScriptedClient` for async code."""

    _client = staticmethod(async_openai_client)

    async def _create(self, *, model: object, messages: object, **options: object) -> object:
        answered = self._answered({"model": model, "messages": messages, **options})
        return await answered if isawaitable(answered) else answered
