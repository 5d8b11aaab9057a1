"""HTTP exchanges within bounds: a deadline, a cap on the body, no redirect to another origin.

One deadline bounds the whole exchange; the cap counts the bytes of the decoded body.

The SDK gets a replacement of its HTTP client: an object of the same class (httpx or httpx2, neither
is imported) that shares all state with it. An async call is cancelled at the deadline from outside.
In a sync call each timeout starts again whenever a byte arrives, so the deadline shortens each wait
separately:

=====================================  ============================================================
the name of a host, each of its        the network backend, whose class is changed
addresses                              (``_resolving.py``)
connecting in any other way            its trace event, which holds the timeout (``_traced``)
the pause before connecting again      its trace event (``Bounds.check_pause``)
waiting for a connection of the pool   the timeouts of the request (``_Timeouts``)
TLS, each read and each write          the network stream, whose class is changed (``_timed_class``)
each piece of the body                 the body of the response (``_BoundedBody``)
=====================================  ============================================================
"""

from __future__ import annotations

import inspect
import socket
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, ValuesView
from contextlib import suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, NoReturn

from strictreply.retry._failures import ExchangeStopped, Failure
from strictreply.sdks._bodies import OuterBody, body_class
from strictreply.sdks._built import Told, exchange
from strictreply.sdks._resolving import resolve_within
from strictreply.sdks._shapes import HttpRequest, HttpResponse
from strictreply.values._limits import JSONObject

# For a response that is not a success: the SDK parses it, and an error is never longer.
MAX_ERROR_BYTES = 1_000_000

# Compressed bytes per step of expansion, so that one step never makes more than about 16 MB:
# deflate expands 1,032 times at most, zstd makes a block of 128 KB from 4 bytes (RFC 8878
# §3.1.1.2), brotli one of 16 MB from about 8 (RFC 7932 §9.2).
_STEP_BYTES = {"gzip": 4096, "deflate": 4096, "zstd": 128, "br": 8}
_MAX_CODINGS = 5  # nested codings; real servers use one
_PIECE_BYTES = 65_536
_LIBRARIES = {
    "br": ("brotli", "brotlicffi"),
    "zstd": ("compression.zstd", "backports.zstd", "zstandard"),
}

# Endings of the names of trace events (https://www.encode.io/httpcore/extensions/#trace).
_SENDS_HEADERS = "send_request_headers.started"  # a connection was chosen
_CONNECTS = ("connect_tcp.started", "connect_unix_socket.started")
_CONNECTS_AGAIN = "retry.started"  # before the pause after a connection that failed

# Layers around a network stream (HTTP inside a tunnel inside a proxy), and nested transports.
_MAX_LAYERS = 4
_READ_BYTES = 4096

ABOUT_BODY = frozenset({"content-length", "content-encoding", "transfer-encoding"})
"""The headers of a response that are about its body."""

_STREAM_FACTOR = 8  # a chunk of 300 bytes has about four bytes of the reply
_WRITE_BYTES = 16_384
_PORTS = {"http": 80, "https": 443}
_current: ContextVar[Bounds | None] = ContextVar("strictreply_exchange", default=None)


class BodySize:
    """Counts the bytes of a body, before and after each content coding.

    It stops the exchange beyond the cap (1 MB for an error).
    """

    def __init__(self, response: HttpResponse, max_bytes: int) -> None:
        self._status: int = response.status_code
        self._max_bytes = _most_bytes(response, max_bytes)

        codings = response.headers.get("content-encoding", "").split(",")
        named = [part.strip().lower() for part in reversed(codings)]
        known = [coding for coding in named if coding in _STEP_BYTES]
        if len(known) > _MAX_CODINGS:
            self._stop()

        self.layers = [(_Expander(coding), _STEP_BYTES[coding]) for coding in known]
        self._totals = [0] * (len(known) + 1)

    def feed(self, data: bytes, layer: int = 0) -> None:
        """Count the bytes of a layer, and the bytes to which they expand in the next layers.

        Layer 0 is the body as it was received.
        """
        self._totals[layer] += len(data)
        if self._totals[layer] > self._max_bytes:
            self._stop()

        if layer == len(self.layers):
            return

        expander, step = self.layers[layer]
        for start in range(0, len(data), step):
            self.feed(expander.expand(data[start : start + step]), layer + 1)

    def _stop(self) -> NoReturn:
        raise _too_large(self._status, self._max_bytes)


def _most_bytes(response: HttpResponse, max_bytes: int) -> int:
    """Return the cap on a response's body, which is smaller for an error."""
    return max_bytes if response.is_success else min(max_bytes, MAX_ERROR_BYTES)


def _too_large(status: int, max_bytes: int) -> ExchangeStopped:
    detail = f"the body has more than {max_bytes} bytes"
    return ExchangeStopped(Failure("response_too_large", False, status, detail=detail))


class _Expander:
    """Decodes one content coding piece by piece, like httpx.

    Bytes that cannot be decoded stop the exchange.
    """

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._begun = False
        self._machine: Any = _machine(coding)

    def expand(self, data: bytes) -> bytes:
        """Return the expanded bytes; nothing after the end of a zlib stream."""
        if self._machine is None or not data:
            return b""

        try:
            return self._expanded(data)
        except Exception as error:
            failure = Failure(
                "connection", retryable=True, detail="the content coding of the body is broken"
            )
            raise ExchangeStopped(failure) from error

    def _expanded(self, data: bytes) -> bytes:
        begun = self._begun
        self._begun = True
        machine = self._machine

        if self._coding == "br":
            # the two libraries name it differently
            is_brotlicffi = hasattr(machine, "decompress")
            return bytes(machine.decompress(data) if is_brotlicffi else machine.process(data))

        if self._coding == "zstd":
            return self._frames(data)

        try:
            return b"" if machine.eof else bytes(machine.decompress(data))
        except zlib.error:
            if begun or self._coding != "deflate":
                raise

        # some servers leave out the header of RFC 1950
        self._machine = zlib.decompressobj(-zlib.MAX_WBITS)
        return bytes(self._machine.decompress(data))

    def _frames(self, data: bytes) -> bytes:
        # zstd has frames, and each frame needs its own decompressor
        found: list[bytes] = []
        while data:
            if self._machine.eof:
                self._machine = _machine(self._coding)
            found.append(self._machine.decompress(data))
            data = self._machine.unused_data if self._machine.eof else b""
        return b"".join(found)


def _machine(coding: str) -> object:
    """Return a decompressor for a content coding.

    Return None if no library for it is installed; then the HTTP library cannot decode it either.
    """
    if coding not in _LIBRARIES:
        return zlib.decompressobj(zlib.MAX_WBITS | (16 if coding == "gzip" else 0))

    library = _first_installed(_LIBRARIES[coding])
    if library is None or coding == "br":
        return library and library.Decompressor()

    machine = library.ZstdDecompressor()
    return machine.decompressobj() if hasattr(machine, "decompressobj") else machine


@cache
def _first_installed(names: tuple[str, ...]) -> Any:
    for name in names:
        with suppress(ImportError):
            return import_module(name)
    return None


class _BoundedBody(OuterBody):
    """A body that counts its bytes and checks the time; sync or async like the original body.

    It yields pieces of at least ``least`` bytes.
    """

    def __init__(
        self, behind: object, size: BodySize, check_time: Callable[[], object], least: int
    ) -> None:
        super().__init__(behind)
        self._size = size
        self._check_time = check_time
        self._least = least

    def __iter__(self) -> Iterator[bytes]:
        kept = bytearray()
        for piece in self._behind:
            yield from self._joined(kept, piece)

        if kept:
            yield bytes(kept)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        kept = bytearray()
        async for piece in self._behind:
            for joined in self._joined(kept, piece):
                yield joined

        if kept:
            yield bytes(kept)

    def _joined(self, kept: bytearray, piece: bytes) -> tuple[bytes, ...]:
        self._check_time()
        self._size.feed(piece)

        if not kept and len(piece) >= self._least:
            return (piece,)

        # join small pieces, because the HTTP library keeps each as an object: pieces of two bytes
        # would take thirty times their size
        kept += piece
        if len(kept) < self._least:
            return ()

        joined = bytes(kept)
        kept.clear()
        return (joined,)


class DecodedBody(OuterBody):
    """A body whose frames the SDK decodes; it yields them as text events.

    It is sync or async like the original body. A frame that cannot be decoded stops the exchange.
    """

    def __init__(self, behind: object, decoder: object) -> None:
        super().__init__(behind)
        self._decoder: Any = decoder
        self._broken: Exception | None = None  # the error of reading the body itself

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from map(_event_text, self._decoder.iter_bytes(self._pieces()))
        except Exception as error:
            raise self._meaning(error) from error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for event in self._decoder.aiter_bytes(self._apieces()):
                yield _event_text(event)
        except Exception as error:
            raise self._meaning(error) from error

    def _pieces(self) -> Iterator[bytes]:
        try:
            yield from self._behind
        except Exception as error:
            self._broken = error
            raise

    async def _apieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._behind:
                yield piece
        except Exception as error:
            self._broken = error
            raise

    def _meaning(self, error: Exception) -> Exception:
        if error is self._broken:
            return error

        detail = "the frames of the stream cannot be decoded"
        return ExchangeStopped(Failure("connection", retryable=True, detail=detail))


def _event_text(event: Any) -> bytes:
    lines = [f"event: {event.event}"] if event.event else []
    lines += [f"data: {line}" for line in event.data.splitlines()]
    return "".join(f"{line}\n" for line in (*lines, "")).encode()


@dataclass(slots=True)
class Bounds:
    """The bounds of one request, and its state so far."""

    until: float | None
    """When the deadline passes, by ``time.monotonic``; None without a deadline."""
    max_body_bytes: int
    """Most bytes of the body, decompressed."""
    is_streamed: bool = False
    """Whether the response will be a stream."""
    redirected: Any = field(default=None, repr=False)
    """The last response if it is a redirect that was not followed yet; None otherwise."""
    redirects: int = 0
    """Redirects so far."""
    connected: bool = False
    """Whether the server was reached."""
    pause: float = 0.0
    """Seconds that httpcore waits before it connects again."""

    def left(self) -> float | None:
        """Return the seconds to the deadline; None without a deadline.

        Stop the exchange if the deadline has passed.
        """
        if self.until is None:
            return None

        left = self.until - time.monotonic()
        if left <= 0:
            detail = "the deadline of the call passed"
            raise ExchangeStopped(Failure("timeout", retryable=True, detail=detail))

        return left

    def shortened(self, timeout: float | None, share: int = 1) -> float | None:
        """Shorten a timeout to the time to the deadline, or to a share of it; None: no timeout."""
        left = self.left()
        if left is None:
            return timeout
        if timeout is None:
            return left / share
        return min(timeout, left / share)

    def check_pause(self) -> None:
        """Stop the exchange if httpcore would wait beyond the deadline to connect again.

        It waits 0, 0.5, 1, 2, … seconds.
        """
        left = self.left()
        if left is not None and left <= self.pause:
            detail = "connecting failed until the deadline"
            raise ExchangeStopped(Failure("connection", retryable=True, detail=detail))

        self.pause = 2 * self.pause or 0.5

    def check_request(self, request: HttpRequest) -> None:
        """Refuse to follow a redirect unless it is the first, to the same origin, same method."""
        response = self.redirected
        self.redirected = None

        if response is None:
            return

        self.redirects += 1
        origin = _origin(request)

        # RFC 9110 §15.4: 307 and 308 keep the method, the others become a GET
        if origin != _origin(response.request):
            what = "a redirect to another origin"
        elif request.method != response.request.method:
            what = "a redirect that changes the method"
        elif self.redirects > 1:
            what = "a second redirect"
        else:
            return

        # leave path and query out of the message
        scheme, host, port = origin
        shown = f"[{host}]" if ":" in host else host
        shown_port = "" if port == _PORTS.get(scheme) else f":{port}"
        place = ascii(f"{scheme}://{shown}{shown_port}")[1:-1][:300]

        detail = f"{what}, to {place}, is not followed"
        raise ExchangeStopped(
            Failure("redirect_refused", False, response.status_code, detail=detail)
        )

    def bound_response(self, response: HttpResponse) -> None:
        """Bound the body of a response before it is read, and remember a redirect."""
        size = BodySize(response, self.max_body_bytes * (_STREAM_FACTOR if self.is_streamed else 1))
        kind: Any = type(response.stream)
        least = 1 if self.is_streamed else _PIECE_BYTES
        response.stream = body_class(_BoundedBody, kind)(response.stream, size, self.left, least)
        if response.has_redirect_location:
            self.redirected = response

    def checked(self, response: HttpResponse) -> HttpResponse:
        """Check the size of a response's body in memory, and return the response.

        The body of a mock or of a cache is checked only here.
        """
        max_bytes = _most_bytes(response, self.max_body_bytes)
        if len(response.content) > max_bytes:
            raise _too_large(response.status_code, max_bytes)

        return response

    async def checked_later(self, sent: Awaitable[HttpResponse]) -> object:
        """Await a response, and return it like :meth:`checked`."""
        return self.checked(await sent)


class bounded:  # noqa: N801 - a fast context manager, named like those of contextlib
    """Bounds the exchanges inside the block.

    All of them together have ``seconds`` (None: no deadline), each has ``max_body_bytes``.
    """

    __slots__ = ("_bounds", "_token")
    _token: Token[Bounds | None]

    def __init__(self, seconds: float | None, max_body_bytes: int) -> None:
        until = None if seconds is None else time.monotonic() + seconds
        self._bounds = Bounds(until, max_body_bytes)

    def __enter__(self) -> None:
        self._token = _current.set(self._bounds)

    def __exit__(self, *error: object) -> None:
        _current.reset(self._token)


def check_size(response: HttpResponse) -> None:
    """Check the size of a body that was read whole though it was opened as a stream."""
    bounds = _current.get()
    if bounds is not None:
        bounds.checked(response)


def stand_in(client: object, decoder: Callable[[], Any] | None = None) -> object:
    """Return a replacement of an httpx or httpx2 client, with its class and state, that bounds.

    ``decoder`` makes the decoder of streams whose bytes are not text events; they become text
    events. Return None for any other object.
    """
    kind: Any = type(client)
    if not callable(getattr(kind, "send", None)):
        return None
    if not isinstance(getattr(client, "event_hooks", None), dict):
        return None

    other: Any = object.__new__(_stand_in_class(kind))
    other.__dict__ = client.__dict__
    other.stood_for = client
    other.decoder = decoder
    return other


@cache
def _stand_in_class(kind: type[object]) -> type:
    members = {
        "__slots__": ("stood_for", "decoder"),
        "__module__": __name__,
        "is_async": hasattr(kind, "aclose"),
    }
    return type(kind.__name__, (_StandIn, kind), members)


class _StandIn:
    """A client that replaces another client of the same class."""

    __slots__ = ()
    stood_for: Any
    decoder: Callable[[], Any] | None
    is_async: bool

    def __del__(self) -> None:
        """Close nothing, because the connections belong to the original client."""

    def build_request(self, *args: object, **given: object) -> object:
        """Build a request, or return the one that was already sent."""
        passing = exchange.get()
        if isinstance(passing, Told):
            return passing.request

        return self.stood_for.build_request(*args, **given)

    def send(self, request: HttpRequest, *, stream: bool = False, **options: object) -> object:
        """Send a request within the current bounds.

        Return the response; an async client returns an awaitable of it.
        """
        is_async = self.is_async
        passing = exchange.get()
        if isinstance(passing, Told):
            return passing.again_later() if is_async else passing.again()
        if passing is not None:
            passing.see(self, request, stream=stream, given=options)

        sent = self._sent(request, stream, options)
        if self.decoder is None or not stream:
            return sent

        return self._decoded_later(sent) if is_async else self._decoded(sent)

    async def _decoded_later(self, sent: Awaitable[HttpResponse]) -> HttpResponse:
        return self._decoded(await sent)

    def _decoded(self, response: HttpResponse) -> HttpResponse:
        """Return a response whose body is events of text, if it is a stream of another kind."""
        if not response.is_success or self.decoder is None:
            return response

        kind: Any = type(response.stream)
        if not response.is_stream_consumed:
            response.stream = body_class(DecodedBody, kind)(response.stream, self.decoder())
            return response

        # the body of a mock or of a cache is already in memory
        in_memory: Any = import_module(type(response).__module__.partition(".")[0]).ByteStream
        body = body_class(DecodedBody, in_memory)(in_memory(response.content), self.decoder())
        named = response.headers.multi_items()
        headers = [one for one in named if one[0].lower() not in ABOUT_BODY]
        of_response: Any = type(response)
        made: HttpResponse = of_response(
            response.status_code,
            headers=headers,
            request=response.request,
            stream=body,
            extensions=response.extensions,
        )
        return made

    def _sent(self, request: HttpRequest, stream: bool, options: JSONObject) -> Any:
        """Send a request within the current bounds, if there are any."""
        is_async = self.is_async
        outer = _current.get()
        client = self.stood_for

        if outer is None:
            return type(client).send(client, request, stream=stream, **options)

        # a copy, whose hooks run before those of the caller
        bounds = Bounds(outer.until, outer.max_body_bytes, stream)
        sender: Any = object.__new__(type(self))
        sender.__dict__ = dict(vars(self))
        sender.stood_for = client
        sender.decoder = None

        check: Any = bounds.check_request
        bound: Any = bounds.bound_response
        if is_async:
            check, bound = _awaitable(check), _awaitable(bound)

        theirs = sender.event_hooks
        sender.event_hooks = {
            "request": [check, *theirs["request"]],
            "response": [bound, *theirs["response"]],
        }

        if bounds.until is not None:
            given: Mapping[str, Any] = request.extensions
            trace = _traced(bounds, client, given.get("trace"), is_async=is_async)
            timeout = _Timeouts(given.get("timeout", {}))
            request.extensions = {**given, "timeout": timeout, "trace": trace}

        # follow redirects, whatever the client's setting; our hook checks each
        options = options | {"follow_redirects": True}
        sent = type(client).send(sender, request, stream=stream, **options)
        if stream:
            return sent

        return bounds.checked_later(sent) if is_async else bounds.checked(sent)


def _awaitable(check: Callable[[object], None]) -> Callable[[object], Awaitable[None]]:
    async def hook(message: object) -> None:
        check(message)

    return hook


class _Timeouts(dict[str, Any]):
    """The timeouts of a request in seconds, each shortened when the HTTP library reads it."""

    def get(self, name: str, default: Any = None) -> Any:
        return _shortened(super().get(name, default))


def _shortened(timeout: float | None) -> float | None:
    bounds = _current.get()
    return timeout if bounds is None else bounds.shortened(timeout)


def _traced(
    bounds: Bounds,
    client: object,
    theirs: Callable[..., Awaitable[object] | None] | None,
    *,
    is_async: bool,
) -> Callable[..., Awaitable[object] | None]:
    """Return a trace callback that then calls ``theirs``.

    It times the connection that a request opens or uses again. httpcore needs a function for a sync
    request, and a coroutine function for an async one.
    """

    def trace(name: str, info: Mapping[str, object]) -> Awaitable[object] | None:
        if _time_stream(info.get("return_value")):
            bounds.connected = True

        if name.endswith(_SENDS_HEADERS) and not bounds.connected:
            _time_open_connections(client)

        if name.endswith(_CONNECTS) and isinstance(info, dict):
            # httpcore reads the value that is written here
            share = 1 if is_async or _resolves(client) else _addresses(info)
            timeout: Any = info.get("timeout")
            info["timeout"] = bounds.shortened(timeout, share)

        if name.endswith(_CONNECTS_AGAIN):
            bounds.check_pause()

        return None if theirs is None else theirs(name, info)

    async def atrace(name: str, info: Mapping[str, object]) -> None:
        if (traced := trace(name, info)) is not None:
            await traced

    return atrace if is_async else trace


def _resolves(client: object) -> bool:
    """Make a sync client look up host names in time; return whether its backends allow that."""
    state = vars(client)
    backends = [
        backend
        for transport in (state.get("_transport"), *state.get("_mounts", {}).values())
        if (backend := getattr(getattr(transport, "_pool", None), "_network_backend", None))
    ]
    changed = [resolve_within(each, _seconds_left) for each in backends]
    return bool(changed) and all(changed)


def _seconds_left() -> float | None:
    bounds = _current.get()
    return None if bounds is None else bounds.left()


def _addresses(info: Mapping[str, Any]) -> int:
    """Count the addresses of a host; a sync client tries each in turn with its whole timeout."""
    try:
        return max(1, len(socket.getaddrinfo(info["host"], info["port"], type=socket.SOCK_STREAM)))
    except (KeyError, OSError, UnicodeError):
        # a socket of the file system, or a host that cannot be found
        return 1


def time_reads(response: object) -> None:
    """Let each further read of an open response end at the deadline of its exchange."""
    extensions = getattr(response, "extensions", None)
    if isinstance(extensions, Mapping):
        _time_stream(extensions.get("network_stream"))


def _time_stream(stream: object) -> bool:
    """Time a network stream from now on, and return whether the object is a network stream.

    Outside our exchanges nothing changes.
    """
    kind: Any = type(stream)
    if not callable(getattr(stream, "get_extra_info", None)):
        return False

    if not hasattr(kind, "timed_by_strictreply"):
        # TypeError: the caller's own backend has streams of another layout
        with suppress(TypeError):
            stream.__class__ = _timed_class(kind)

    return True


@cache
def _timed_class(kind: Any) -> type:
    """Derive a class of streams whose reads and writes end at the deadline of the current exchange.

    The current exchange is that of the thread or task. An open stream changes its class, so this
    class has one base and no state of its own. A cancel scope ends an async stream.
    """
    is_async = inspect.iscoroutinefunction(kind.write)

    class Timed(kind):  # type: ignore[misc]  # a class that is only known here
        __slots__ = ()
        timed_by_strictreply = True

        def read(self, max_bytes: int, timeout: float | None = None) -> object:
            bounds = _current.get()
            if bounds is not None and bounds.until is not None:
                # read little, because the bytes are parsed without a check of the time
                max_bytes = min(max_bytes, _READ_BYTES)
            return super().read(max_bytes, _shortened(timeout))

        def write(self, buffer: bytes, timeout: float | None = None) -> object:
            """Write the whole buffer.

            A sync stream writes in steps, because its timeout starts again whenever the peer reads.
            """
            if is_async or _current.get() is None:
                return super().write(buffer, _shortened(timeout))

            for start in range(0, len(buffer), _WRITE_BYTES):
                super().write(buffer[start : start + _WRITE_BYTES], _shortened(timeout))

            return None

        def start_tls(
            self,
            ssl_context: object,
            server_hostname: str | None = None,
            timeout: float | None = None,
        ) -> object:
            return super().start_tls(ssl_context, server_hostname, _shortened(timeout))

    return Timed


def _time_open_connections(client: object) -> None:
    state = vars(client)
    for transport in (state.get("_transport"), *state.get("_mounts", {}).values()):
        for connection in _connections(transport, _MAX_LAYERS):
            within = connection
            for _ in range(_MAX_LAYERS):
                _time_stream(getattr(within, "_network_stream", None))
                within = getattr(within, "_connection", None)


def _connections(transport: object, layers: int) -> Iterator[object]:
    """Yield the open connections of a transport, and of transports inside it."""
    pool = getattr(transport, "_pool", None)
    if pool is not None or not layers:
        yield from getattr(pool, "connections", ())
        return

    for member in getattr(transport, "__dict__", {}).values():
        held: Any = member.values() if isinstance(member, dict) else member
        for one in held if isinstance(held, list | tuple | ValuesView) else (held,):
            if hasattr(one, "handle_request") or hasattr(one, "handle_async_request"):
                yield from _connections(one, layers - 1)


def _origin(request: HttpRequest) -> tuple[str, str, int | None]:
    url = request.url
    return url.scheme, url.raw_host.decode("ascii", "replace"), url.port or _PORTS.get(url.scheme)
