"""Observe calls that are made in a client's own way, and what they return.

The client itself sends the request, with its own retries. What it returns or raises is passed on
unchanged. The body of a response is observed in the SDK's ``_process_response``; a stream is
observed piece by piece, as its caller reads it. If a program has replaced a method of the client,
the result of the replacement is observed.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from types import MethodType
from typing import Any, NamedTuple, Protocol, Self

from pydantic import BaseModel

from strictreply.sdks._bodies import OuterBody, body_class
from strictreply.sdks._bounds import ABOUT_BODY, DecodedBody
from strictreply.sdks._calling import called_with
from strictreply.sdks._known import member_at, sdk_behind, sdk_of
from strictreply.sdks._low_requests import Stored
from strictreply.sdks._posting import is_http, is_raw
from strictreply.sdks._shapes import HttpResponse
from strictreply.sdks._transport import is_patched, own_decoder
from strictreply.values._limits import JSONObject
from strictreply.wires._wire import Wire

CHUNK_BYTES = 256
"""The estimated bytes of a chunk's event, for chunks that are objects."""

LOW_METHODS = ("get", "post", "put", "patch", "request", "get_api_list")
"""The low methods that are guarded for the paths of the APIs."""

outward: ContextVar[Any] = ContextVar("strictreply_outward", default=None)
"""The client one of whose methods was replaced, while a request passes through that method."""


class SideJudge(Protocol):
    """Judges what one call returns, without changing it; its methods raise no Exception."""

    @property
    def is_judged(self) -> bool:
        """Whether the reply is judged at all."""
        ...

    @property
    def most_bytes(self) -> int:
        """The bytes of a stream that are stored for judging."""
        ...

    def asks(
        self,
        wire: Wire,
        path: str,
        sent: JSONObject | None,
        keywords: Callable[[], JSONObject],
    ) -> None:
        """Read what a request of a namespace demands, before it is sent.

        ``sent`` has its members. ``keywords`` returns the members to read; None for the same.
        """
        ...

    def fetches(self, wire: Wire, path: str, stored: Stored) -> None:
        """Judge a stored reply of a namespace, by the request that it contains."""
        ...

    def judge(self, came: Brought) -> None:
        """Judge what a call has returned."""
        ...

    async def ajudge(self, came: Brought) -> None:
        """Judge what a call of an async client has returned."""
        ...

    def failed(self, error: Exception) -> None:
        """Record a fault in strictreply that makes judging impossible."""
        ...


class Received(NamedTuple):
    """A response of an HTTP library, with the members of an SDK's raw response."""

    http_response: HttpResponse


@dataclass(slots=True)
class Brought:
    """What one call in a client's own way has returned."""

    watch: SideJudge
    """Gets it when it is complete."""
    wants_stream: bool = False
    """Whether the request is for a stream."""
    http: HttpResponse | None = None
    """The response; None if it was not observed."""
    value: object = None
    """What the client returned, if no response was observed."""
    pieces: list[Any] = field(default_factory=list[Any])
    """The bytes, or the chunks, of a stream."""
    is_stream: bool = False
    """Whether the pieces are the response."""
    is_ended: bool = False
    """Whether a stream was read to its end."""
    is_too_large: bool = False
    """Whether the stream was larger than the limit."""
    error: BaseException | None = None
    """The exception that was raised; None if there is none."""
    decoder: Callable[[], object] | None = None
    """Makes the decoder of a cloud whose streams are not text events; None for any other."""
    _size: int = 0
    """The bytes, or the chunks, of a stream so far."""
    _is_taken: bool = False
    """Whether it was judged."""

    def source(self, *, is_events: bool) -> object:
        """Return the response in a form that a transport reads: as events, or complete."""
        if self.http is None:
            return iter(self.pieces) if self.is_stream else self.value
        if not self.is_stream and not is_events:
            return Received(self.http)

        kind: Any = type(self.http)
        status = self.http.status_code
        request = self.http.request
        if self.is_stream:
            body = b"".join(self.pieces)
            made = kind(status, content=body, headers=self.http.headers, request=request)
        else:
            headers = [one for one in self.http.headers.multi_items() if one[0] not in ABOUT_BODY]
            made = kind(status, content=self.http.content, headers=headers, request=request)

        if self.decoder is not None and is_events:
            text = b"".join(DecodedBody([made.content], self.decoder()))
            made = kind(status, content=text, request=request)

        return Received(made)

    def keep(self, piece: Any) -> None:
        """Store a piece of a stream, up to the limit."""
        if self._is_taken:
            return

        self._size += len(piece) if isinstance(piece, bytes) else CHUNK_BYTES
        self.is_too_large |= self._size > self.watch.most_bytes
        if self.is_too_large:
            self.pieces.clear()
        else:
            self.pieces.append(piece)

    def seen(self, response: object) -> None:
        """Store the response that the SDK has received."""
        self.http = response if is_http(response) else None

    def take(self, given: Any) -> Any:
        """Return what a call returned, and judge it; a stream is judged at its end."""
        is_to_come = self._is_seen_later(given)
        if not is_to_come:
            self.judge()

        return _observed(given, self) if is_to_come and self.http is None else given

    async def atake(self, waiting: Awaitable[Any]) -> Any:
        """Await what a call of an async client returns, and do as :meth:`take` does."""
        try:
            given = await waiting
        except Exception as error:
            self.error = error
            await self.ajudge()
            raise
        except BaseException as error:  # the task is cancelled: nothing more may be awaited
            self.error = error
            self.judge()
            raise

        is_to_come = self._is_seen_later(given)
        if not is_to_come:
            await self.ajudge()

        return _observed(given, self) if is_to_come and self.http is None else given

    def _is_seen_later(self, given: Any) -> bool:
        """Return whether the reply is read later; False if a bug in strictreply hides it."""
        try:
            return self._is_to_come(given)
        except Exception as error:  # noqa: BLE001 - the members of any object may raise anything
            self._is_taken = True
            self.watch.failed(error)
            return False

    def _is_to_come(self, given: Any) -> bool:
        """Return whether the caller reads the reply later; then it is observed as it is read."""
        if self.http is None:
            held = given.http_response if is_raw(given) else getattr(given, "response", None)
            self.http = held if is_http(held) else None

        if self.http is None:
            self.is_stream = self.wants_stream and _is_chunks(given)
            self.value = given
            return self.is_stream

        response: Any = self.http
        if response.is_closed or response.is_stream_consumed:
            return False

        self.is_stream = True
        stream: Any = response.stream
        kind: Any = type(stream)
        response.stream = body_class(_ObservedBody, kind)(stream, self)
        return True

    def judge(self) -> None:
        """Judge the result, once."""
        if not self._is_taken:
            self._is_taken = True
            try:
                self.watch.judge(self)
            finally:
                self._let_go()

    async def ajudge(self) -> None:
        """Do as :meth:`judge` does, for an async client."""
        if not self._is_taken:
            self._is_taken = True
            try:
                await self.watch.ajudge(self)
            finally:
                self._let_go()

    def _let_go(self) -> None:
        """Drop all references to the result: an error refers to its frames, and these to this."""
        self.pieces = []
        self.http = self.value = self.error = None


class _ObservedBody(OuterBody):
    """A body that is observed as it is read, and judged when it is closed.

    It is sync or async, like the body inside.
    """

    def __init__(self, behind: object, came: Brought) -> None:
        super().__init__(behind)
        self._came = came

    def __iter__(self) -> Iterator[bytes]:
        try:
            for piece in self._behind:
                self._came.keep(piece)
                yield piece
        except Exception as error:
            self._came.error = error
            raise

        self._came.is_ended = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._behind:
                self._came.keep(piece)
                yield piece
        except Exception as error:
            self._came.error = error
            raise

        self._came.is_ended = True

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._came.judge()

    async def aclose(self) -> None:
        try:
            await super().aclose()
        finally:
            await self._came.ajudge()


class _ObservedChunks:
    """The chunks of a client that is not the SDK's, observed as they are read.

    All other members are those of its own stream, and it is an instance of that stream's class.
    """

    def __init__(self, behind: object, came: Brought) -> None:
        self._behind: Any = behind
        self._came = came
        self._pieces: Any = None

    @property  # type: ignore[misc]  # to isinstance a class is an ordinary attribute
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self._behind)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def __repr__(self) -> str:
        return repr(self._behind)


class ObservedChunks(_ObservedChunks):
    """Chunks of a sync client."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._pieces is None:
            self._pieces = iter(self._behind)

        try:
            piece = next(self._pieces)
        except StopIteration:
            self._came.is_ended = True
            self._came.judge()
            raise
        except Exception as error:
            self._came.error = error
            self._came.judge()
            raise

        self._came.keep(piece)
        return piece

    def __enter__(self) -> Self:
        self._behind.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        try:
            return self._behind.__exit__(*error)
        finally:
            self._came.judge()

    def close(self) -> Any:
        try:
            return self._behind.close()
        finally:
            self._came.judge()


class AsyncObservedChunks(_ObservedChunks):
    """Chunks of an async client."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if self._pieces is None:
            self._pieces = aiter(self._behind)

        try:
            piece = await anext(self._pieces)
        except StopAsyncIteration:
            self._came.is_ended = True
            await self._came.ajudge()
            raise
        except Exception as error:
            self._came.error = error
            await self._came.ajudge()
            raise

        self._came.keep(piece)
        return piece

    async def __aenter__(self) -> Self:
        await self._behind.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        try:
            return await self._behind.__aexit__(*error)
        finally:
            await self._came.ajudge()

    async def aclose(self) -> Any:
        try:
            return await self._behind.aclose()
        finally:
            await self._came.ajudge()


def _observed(given: object, came: Brought) -> object:
    """Return the chunks of a client that is not the SDK's, to be observed as they are read."""
    kind = AsyncObservedChunks if hasattr(given, "__aiter__") else ObservedChunks
    return kind(given, came)


def _is_chunks(given: object) -> bool:
    """Return whether something is a stream of a client that is not the SDK's."""
    if isinstance(given, BaseModel | str | bytes | dict | list | tuple):
        return False

    return hasattr(given, "__aiter__") or isinstance(given, Iterable)


def called_beside(
    watch: SideJudge, client: object, call: Callable[[Any], Any], *, wants_stream: bool
) -> Any:
    """Make a call in a client's own way, and return or raise its result.

    ``call`` gets the client to use.
    """
    is_replaced = not getattr(client, "__dict__", {}).keys().isdisjoint(LOW_METHODS)
    if not watch.is_judged:
        return called_with(outward, client, partial(call, client)) if is_replaced else call(client)

    came = Brought(watch, wants_stream)
    made = partial(call, _seeing(client, came))
    try:
        given = called_with(outward, client, made) if is_replaced else made()
    except BaseException as error:
        came.error = error
        came.judge()
        raise

    if inspect.iscoroutine(given):
        return came.atake(given)
    if inspect.isawaitable(given):
        watch.failed(NotImplementedError("the SDK returned an awaitable that is not a coroutine"))
        return given

    return came.take(given)


def method_beside(watch: SideJudge, inner: object, path: str, name: str, sent: JSONObject) -> Any:
    """Call a method of a client's own namespace, and return or raise its result."""

    def call(client: Any) -> Any:
        resource = namespace_over(member_at(inner, path), inner, client)
        return getattr(resource, name)(**sent)

    return called_beside(watch, inner, call, wants_stream=bool(sent.get("stream")))


def namespace_over(resource: Any, inner: object, client: object) -> Any:
    """Return a namespace like one of the client ``inner``, made for ``client``.

    A namespace that is not the SDK's, or whose methods were replaced, is returned unchanged.
    """
    if client is inner or sdk_of(resource) is None or is_patched(resource):
        return resource

    made: Any = object.__new__(type(resource))
    held = made.__dict__
    for name, value in vars(resource).items():
        if value is inner:
            held[name] = client
        elif getattr(value, "__self__", None) is inner:
            held[name] = getattr(client, value.__name__)
        else:
            held[name] = value

    return made


def _seeing(client: Any, came: Brought) -> Any:
    """Return a client with the state of an SDK's client that reports what it receives.

    Any other client is returned unchanged.
    """
    if sdk_behind(client) is None:
        return client

    try:
        kind: Any = type(client)
        made: Any = object.__new__(_seeing_class(kind))
        object.__setattr__(made, "__dict__", client.__dict__)
        object.__setattr__(made, "came_of_call", came)
        object.__setattr__(made, "client_inside", client)
        if made.own_decoder is not None:
            came.decoder = MethodType(made.own_decoder, made)
    except Exception as error:  # noqa: BLE001 - a class may refuse to be derived from
        came.watch.failed(error)
        return client

    return made


class _Quiet:
    """Stops a class from running its hook for a derived class."""

    def __init_subclass__(cls) -> None:
        """Do nothing."""

    def __del__(self) -> None:
        """Do not close the client inside, which stays in use."""


class _Inside:
    """A member that a client makes once, read from the client inside: the state would keep it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: object) -> Any:
        return self if instance is None else getattr(instance.client_inside, self._name)

    def __set__(self, instance: Any, value: object) -> None:
        setattr(instance.client_inside, self._name, value)


@cache
def _seeing_class(kind: Any) -> type:
    class SeeingClient(_Quiet, kind):  # type: ignore[misc]  # its base is only known here
        __slots__ = ("came_of_call", "client_inside")
        came_of_call: Brought
        client_inside: Any
        own_decoder: Callable[..., object] | None = None

        def _process_response(self, *given: object, **named: Any) -> Any:
            self.came_of_call.seen(named.get("response"))
            return super()._process_response(*given, **named)

    for name in dir(kind):
        if isinstance(getattr(kind, name, None), cached_property):
            setattr(SeeingClient, name, _Inside(name))

    chained = getattr(kind, "_build_middleware_chain", None)
    if chained is not None:
        # the SDK caches a chain that ends in the client that it was made for
        setattr(SeeingClient, "_middleware_chain", property(chained))  # noqa: B010

    # a static method, because the class must return it unbound
    decoded = own_decoder(kind)
    if decoded is not None:
        SeeingClient.own_decoder = staticmethod(decoded)

    SeeingClient.__name__ = kind.__name__
    SeeingClient.__qualname__ = kind.__qualname__
    SeeingClient.__module__ = kind.__module__
    return SeeingClient
