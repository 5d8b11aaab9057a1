"""HTTP exchanges held to bounds: one deadline, a byte cap after decompression, and no redirect to somewhere else.

The SDK is given a stand-in for its HTTP client, which shares everything with it: connections, proxies, cookies, hooks.
Only what is sent through the stand-in is bounded; the caller's own client behaves as before. No HTTP library is
imported: the classes that are derived from are those of the client at hand.
"""

from __future__ import annotations

import inspect
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, ValuesView
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NoReturn

from strictreply.client._expansion import BodySize
from strictreply.retry._failures import ExchangeStopped, Failure

_SENDS_HEADERS = "send_request_headers.started"
"""How the trace event ends that says a connection was chosen (https://www.encode.io/httpcore/extensions/#trace)."""

_CONNECTS = ("connect_tcp.started", "connect_unix_socket.started")
_CONNECTS_AGAIN = "retry.started"
"""How the trace event ends that comes before the pause after a connection that failed."""

_MAX_LAYERS = 4
"""How many objects stand around a network stream (HTTP inside a tunnel inside a proxy), or transports around one."""


@dataclass(slots=True)
class Bounds:
    """The bounds of one request on its way: ``until`` is when it must be over, ``most`` its largest body.

    ``until`` is a time of ``time.monotonic``, None without a deadline; ``most`` counts the bytes of a successful
    response after decompression.
    """

    until: float | None
    most: int
    redirected: Any = field(default=None, repr=False)
    redirects: int = 0
    connected: bool = False
    pause: float = 0.0

    def left(self) -> float | None:
        """Return the seconds that are left, None without a deadline; stop the exchange when there are none."""
        if self.until is None:
            return None
        left = self.until - time.monotonic()
        if left <= 0:
            raise ExchangeStopped(Failure("timeout", retryable=True, detail="the deadline of the call passed"))
        return left

    def shortened(self, timeout: float | None, share: int = 1) -> float | None:
        """Shorten a timeout in seconds to what is left, or a share of it; None is no timeout."""
        left = self.left()
        return timeout if left is None else left / share if timeout is None else min(timeout, left / share)

    def pauses(self) -> None:
        """Stop the exchange when the HTTP library would wait until after the deadline before it connects again.

        httpcore waits 0, 0.5, 1, 2, … seconds (``HTTPTransport(retries=…)``).
        """
        left = self.left()
        if left is not None and left <= self.pause:
            raise ExchangeStopped(Failure("connection", retryable=True, detail="connecting failed until the deadline"))
        self.pause = 2 * self.pause or _FIRST_PAUSE

    def asks(self, request: Any) -> None:
        """Look at a request before it is sent: what follows a redirect may only be the same request to the same origin.

        RFC 9110 §15.4: 307 and 308 keep the method; 301, 302 and 303 become a GET in every client. The first request,
        and those that an authentication sends by itself, are the caller's own.
        """
        response, self.redirected = self.redirected, None
        if response is None:
            return
        self.redirects += 1
        if _origin(request) != _origin(response.request):
            _refuse(request, response, "a redirect to another origin")
        if request.method != response.request.method:
            _refuse(request, response, "a redirect that changes the method")
        if self.redirects > 1:
            _refuse(request, response, "a second redirect")

    def answered(self, response: Any) -> None:
        """Look at a response before its body is read: bound the body, and remember a redirect."""
        stream: Any = response.stream
        kind: Any = type(stream)
        response.stream = _bounded_class(kind)(stream, self, BodySize(response, self.most))
        if response.has_redirect_location:
            self.redirected = response

    def held(self, response: Any) -> None:
        """Hold a body that was in memory from the start, as a mock's is, to the cap as well."""
        BodySize(response, self.most).add(len(response.content))


_FIRST_PAUSE = 0.5

_current: ContextVar[Bounds | None] = ContextVar("strictreply_exchange", default=None)


@contextmanager
def bounded(seconds: float | None, most: int) -> Generator[None, None, None]:
    """Bound the exchanges made inside: together they may take ``seconds`` (None: for ever), each has ``most`` bytes."""
    until = None if seconds is None else time.monotonic() + seconds
    token = _current.set(Bounds(until, most))
    try:
        yield
    finally:
        _current.reset(token)


def stand_in(client: Any) -> Any | None:
    """Make a stand-in for an httpx or httpx2 client that bounds what it sends; None for anything else.

    It is of the client's own class, so that an SDK takes it, and shares all of its state.
    """
    kind: Any = type(client)
    hooks = getattr(client, "event_hooks", None)
    if not callable(getattr(kind, "send", None)) or not isinstance(hooks, dict):
        return None
    other: Any = object.__new__(_stand_in_class(kind))
    other.__dict__ = client.__dict__
    other.stood_for = client
    return other


class _StandIn:
    """What both twins share: a client in front of another one of the same class."""

    __slots__ = ()
    stood_for: Any

    def __del__(self) -> None:
        """Close nothing: the connections belong to the client behind, and the SDK's own class closes them here."""

    def _prepared(self, asks: Any, answered: Any) -> Any:
        """Make a copy that sends one request: it looks at each request and response before any hook of the caller."""
        sender: Any = object.__new__(type(self))
        sender.__dict__ = dict(vars(self))
        sender.stood_for = self.stood_for
        hooks: Mapping[str, list[Any]] = sender.event_hooks
        sender.event_hooks = {"request": [asks, *hooks["request"]], "response": [answered, *hooks["response"]]}
        return sender

    def _extended(self, exchange: Bounds, request: Any, follow: Callable[..., Callable[..., Any]]) -> None:
        """Put a deadline into a request; ``follow`` joins our look at its trace with the caller's own, or None."""
        if exchange.until is not None:
            given: Mapping[str, Any] = request.extensions
            trace = follow(_traced(exchange, self.stood_for), given.get("trace"))
            request.extensions = {**given, "timeout": _Timeouts(given.get("timeout", {})), "trace": trace}


class _SyncStandIn(_StandIn):
    """The sync twin: its reads are timed one by one, as nothing can cut a blocking read from outside."""

    __slots__ = ()

    def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        """Send a request within the current bounds."""
        exchange, client = _current.get(), type(self.stood_for)
        if exchange is None:
            return client.send(self.stood_for, request, stream=stream, **options)
        exchange = replace(exchange)
        sender = self._prepared(exchange.asks, exchange.answered)
        self._extended(exchange, request, _both)
        response = client.send(sender, request, stream=stream, **options | {"follow_redirects": True})
        if not stream:
            exchange.held(response)
        return response


class _AsyncStandIn(_StandIn):
    """The async twin: the deadline itself is a cancel scope around the call."""

    __slots__ = ()

    async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        """Send a request within the current bounds."""
        exchange, client = _current.get(), type(self.stood_for)
        if exchange is None:
            return await client.send(self.stood_for, request, stream=stream, **options)
        exchange = replace(exchange)

        async def asks(request: Any) -> None:
            exchange.asks(request)

        async def answered(response: Any) -> None:
            exchange.answered(response)

        sender = self._prepared(asks, answered)
        self._extended(exchange, request, _aboth)
        response = await client.send(sender, request, stream=stream, **options | {"follow_redirects": True})
        if not stream:
            exchange.held(response)
        return response


@cache
def _stand_in_class(kind: Any) -> Any:
    """Derive the stand-in's class from the client's own."""
    twin = _AsyncStandIn if inspect.iscoroutinefunction(kind.send) else _SyncStandIn
    return type(kind.__name__, (twin, kind), {"__slots__": ("stood_for",), "__module__": __name__})


def _both(ours: Callable[..., None], theirs: Callable[..., Any] | None) -> Callable[..., None]:
    """Make one trace callback of two; httpcore wants a function for a sync request."""

    def trace(name: str, info: Mapping[str, Any]) -> None:
        ours(name, info)
        if theirs is not None:
            theirs(name, info)

    return trace


def _aboth(ours: Callable[..., None], theirs: Callable[..., Any] | None) -> Callable[..., Awaitable[None]]:
    """Make one trace callback of two; httpcore wants a coroutine function for an async request."""

    async def trace(name: str, info: Mapping[str, Any]) -> None:
        ours(name, info)
        if theirs is not None:
            await theirs(name, info)

    return trace


class _Timeouts(dict[str, Any]):
    """The timeouts of a request, each shortened to what is left when the HTTP library asks for it."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return the timeout of one phase, in seconds."""
        exchange, timeout = _current.get(), super().get(name, default)
        return timeout if exchange is None else exchange.shortened(timeout)


class _Bounded:
    """The body of a response, read under a deadline and a byte cap; sync and async as the one behind it is."""

    def __init__(self, behind: Any, exchange: Bounds, size: BodySize) -> None:
        """Stand in front of the body as it comes from the connection."""
        self._behind = behind
        self._exchange = exchange
        self._size = size

    def __iter__(self) -> Iterator[bytes]:
        """Give the body piece by piece."""
        kept = bytearray()
        for piece in self._behind:
            yield from self._joined(kept, piece)
        if kept:
            yield bytes(kept)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Give the body piece by piece."""
        kept = bytearray()
        async for piece in self._behind:
            for joined in self._joined(kept, piece):
                yield joined
        if kept:
            yield bytes(kept)

    def _joined(self, kept: bytearray, piece: bytes) -> tuple[bytes, ...]:
        """Return what is long enough to be given, and keep the rest; stop when time is over or the body too large.

        The HTTP library keeps each piece as an object of its own: those of a body in chunks of two bytes would take
        thirty times its size.
        """
        self._exchange.left()
        self._size.feed(piece)
        kept += piece
        if len(kept) < _PIECE_BYTES:
            return ()
        joined = bytes(kept)
        kept.clear()
        return (joined,)

    def close(self) -> None:
        """Close the body behind: of one that was not read to its end, the connection."""
        self._behind.close()

    async def aclose(self) -> None:
        """Close the body behind, as :meth:`close`."""
        await self._behind.aclose()


_PIECE_BYTES = 65_536


@cache
def _bounded_class(kind: Any) -> Any:
    """Derive a bounded body from the class of a body: HTTP libraries tell sync and async ones by their class."""
    return type(kind.__name__, (_Bounded, kind), {})


def _shortened(timeout: float | None) -> float | None:
    """Shorten a timeout to what is left of the exchange that this thread is in."""
    exchange = _current.get()
    return timeout if exchange is None else exchange.shortened(timeout)


def _timed(stream: Any) -> bool:
    """Time a network stream from now on; outside of our exchanges it behaves as before. False for what is no stream."""
    kind: Any = type(stream)
    if not callable(getattr(stream, "get_extra_info", None)):
        return False
    if not hasattr(kind, _IS_TIMED):
        with suppress(TypeError):  # a backend of the caller's own, whose streams are of another build
            stream.__class__ = _timed_class(kind)
    return True


_IS_TIMED = "timed_by_strictreply"


@cache
def _timed_class(kind: Any) -> Any:
    """Derive a stream whose every read and write ends with the exchange that the thread or task is in, if it is in one.

    A stream that is open changes its class, so the derived one has this base alone and no state of its own. An async
    stream is cut by its cancel scope; it only has to read in steps.
    """
    whole = inspect.iscoroutinefunction(kind.write)

    class Timed(kind):  # type: ignore[misc]  # a class that is only known here
        __slots__ = ()
        timed_by_strictreply = True

        def read(self, max_bytes: int, timeout: float | None = None) -> Any:
            """Read once; see ``httpcore.NetworkStream``."""
            return super().read(_step(max_bytes), _shortened(timeout))

        def write(self, buffer: bytes, timeout: float | None = None) -> Any:
            """Write all of it; a sync stream in steps, as it starts its timeout anew whenever the peer reads a bit."""
            if whole or _current.get() is None:
                return super().write(buffer, _shortened(timeout))
            for start in range(0, len(buffer), _WRITE_BYTES):
                super().write(buffer[start : start + _WRITE_BYTES], _shortened(timeout))
            return None

        def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> Any:
            """Shake hands; the trace shows the stream that comes of it."""
            return super().start_tls(ssl_context, server_hostname, _shortened(timeout))

    return Timed


def _step(max_bytes: int) -> int:
    """Bound one read of an exchange with a deadline: what was read is parsed without a look at the clock."""
    exchange = _current.get()
    return max_bytes if exchange is None or exchange.until is None else min(max_bytes, _READ_BYTES)


_READ_BYTES = 4096
_WRITE_BYTES = 16_384


def _traced(exchange: Bounds, client: Any) -> Callable[[str, Mapping[str, Any]], None]:
    """Follow the trace of a request, which shows each connection that is opened for it."""
    awaited = inspect.iscoroutinefunction(type(client).send)

    def trace(name: str, info: Mapping[str, Any]) -> None:
        if _timed(info.get("return_value")):
            exchange.connected = True
        if name.endswith(_SENDS_HEADERS) and not exchange.connected:
            _adopt(client)
        if name.endswith(_CONNECTS) and isinstance(info, dict):
            share = 1 if awaited else _addresses(info)
            info["timeout"] = exchange.shortened(info.get("timeout"), share)  # what is written here is what is used
        if name.endswith(_CONNECTS_AGAIN):
            exchange.pauses()

    return trace


def _addresses(info: Mapping[str, Any]) -> int:
    """Count the addresses of a host that is connected to: a sync client tries each in turn, with its whole timeout."""
    try:
        return max(1, len(socket.getaddrinfo(info["host"], info["port"], type=socket.SOCK_STREAM)))
    except (KeyError, OSError, UnicodeError):  # a socket of the file system, or a host that cannot be found
        return 1


def _adopt(client: Any) -> None:
    """Time the connections that others opened through the same client: nothing public leads to them."""
    state = vars(client)
    for transport in (state.get("_transport"), *state.get("_mounts", {}).values()):
        for connection in _connections(transport, _MAX_LAYERS):
            within = connection
            for _ in range(_MAX_LAYERS):
                _timed(getattr(within, "_network_stream", None))
                within = getattr(within, "_connection", None)


def _connections(transport: Any, layers: int) -> Iterator[Any]:
    """Find the open connections of a transport, also of those that a program's own transport holds inside."""
    pool = getattr(transport, "_pool", None)
    if pool is not None or not layers:
        yield from getattr(pool, "connections", ())
        return
    for member in getattr(transport, "__dict__", {}).values():
        held: Any = member.values() if isinstance(member, dict) else member
        for one in held if isinstance(held, list | tuple | ValuesView) else (held,):
            if hasattr(one, "handle_request") or hasattr(one, "handle_async_request"):
                yield from _connections(one, layers - 1)


_PORTS = {"http": 80, "https": 443}


def _origin(request: Any) -> tuple[str, str, int | None]:
    """Return scheme, host and port of where a request goes (RFC 6454 §4)."""
    url = request.url
    return url.scheme, url.raw_host.decode("ascii", "replace"), url.port or _PORTS.get(url.scheme)


def _refuse(request: Any, response: Any, what: str) -> NoReturn:
    """Refuse what a redirect asks for, and name where it leads: the origin, neither path nor query."""
    scheme, host, port = _origin(request)
    shown = f"[{host}]" if ":" in host else host
    place = ascii(f"{scheme}://{shown}" + ("" if port == _PORTS.get(scheme) else f":{port}"))[1:-1][:300]
    detail = f"{what} is not followed, it leads to {place}"
    raise ExchangeStopped(Failure("redirect_refused", False, response.status_code, detail=detail))
