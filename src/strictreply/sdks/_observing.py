"""Calls that are made in a client's own way, and what they bring, seen beside.

The request is the one that the client itself sends, with its own retries; what it returns or raises
is handed on as it is. The body of a response is seen where the SDK takes it in
(``_process_response``); that of a stream piece by piece, as its caller reads it. Where somebody has
replaced a method of the client, what that returns is seen.
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
"""About how many bytes the event of a chunk has that came as an object."""

LOW_METHODS = ("get", "post", "put", "patch", "request", "get_api_list")
"""The low methods that are guarded for the paths of the APIs."""

outward: ContextVar[Any] = ContextVar("strictreply_outward", default=None)
"""The client one of whose methods was replaced, while a request passes through that method."""


class SideJudge(Protocol):
    """Judges what one call brings, beside it; none of its methods raises an Exception."""

    @property
    def is_judged(self) -> bool:
        """Whether the reply is judged at all."""
        ...

    @property
    def most_bytes(self) -> int:
        """The bytes of a stream that are kept to be judged."""
        ...

    def asks(
        self,
        wire: Wire,
        path: str,
        sent: JSONObject | None,
        keywords: Callable[[], JSONObject],
    ) -> None:
        """Read what a request of a namespace demands, before it is sent.

        ``sent`` has its members, and ``keywords`` returns those to read; None for the same.
        """
        ...

    def fetches(self, wire: Wire, path: str, stored: Stored) -> None:
        """Judge a stored reply of a namespace, by what it says of its request."""
        ...

    def judge(self, came: Brought) -> None:
        """Take what a call has brought."""
        ...

    async def ajudge(self, came: Brought) -> None:
        """Take what a call of an async client has brought."""
        ...

    def failed(self, error: Exception) -> None:
        """Take a fault of ours, by which nothing can be judged."""
        ...


class Received(NamedTuple):
    """A response of an HTTP library, as a raw response of an SDK has it."""

    http_response: HttpResponse


@dataclass(slots=True)
class Brought:
    """What one call in a client's own way has brought."""

    watch: SideJudge
    """Takes it when all of it is there."""
    wants_stream: bool = False
    """Whether the request asks for a stream."""
    http: HttpResponse | None = None
    """The response; None where it was not seen."""
    value: object = None
    """What the client returned, where no response was seen."""
    pieces: list[Any] = field(default_factory=list[Any])
    """The bytes, or the chunks, of a stream."""
    is_stream: bool = False
    """Whether the pieces are what came."""
    is_ended: bool = False
    """Whether a stream was read to its end."""
    is_too_large: bool = False
    """Whether more came than is kept."""
    error: BaseException | None = None
    """What was raised; None for nothing."""
    decoder: Callable[[], object] | None = None
    """Makes the decoder of a cloud whose streams are no events of text; None for any other."""
    _size: int = 0
    """The bytes, or the chunks, that came of a stream so far."""
    _is_taken: bool = False
    """Whether it was judged."""

    def source(self, *, is_events: bool) -> object:
        """Return the response in a form that a transport reads: as events, or as a whole."""
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
        """Keep a piece of a stream, as far as it is to be judged."""
        if self._is_taken:
            return

        self._size += len(piece) if isinstance(piece, bytes) else CHUNK_BYTES
        self.is_too_large |= self._size > self.watch.most_bytes
        if self.is_too_large:
            self.pieces.clear()
        else:
            self.pieces.append(piece)

    def seen(self, response: object) -> None:
        """Take the response that the SDK has received."""
        self.http = response if is_http(response) else None

    def take(self, given: Any) -> Any:
        """Take what a call returned, and return it; a stream is judged when it is over."""
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
        except BaseException as error:  # the task is cancelled: nothing is awaited any more
            self.error = error
            self.judge()
            raise

        is_to_come = self._is_seen_later(given)
        if not is_to_come:
            await self.ajudge()

        return _observed(given, self) if is_to_come and self.http is None else given

    def _is_seen_later(self, given: Any) -> bool:
        """Return whether the reply is read later, False where a fault of ours leaves it unseen."""
        try:
            return self._is_to_come(given)
        except Exception as error:  # noqa: BLE001 - the members of any object may raise anything
            self._is_taken = True
            self.watch.failed(error)
            return False

    def _is_to_come(self, given: Any) -> bool:
        """Return whether the reply is read later, by the caller; then it is seen on its way."""
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
        """Let what came be judged, once."""
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
        """Hold nothing of what came: an error leads to its frames, and these to this."""
        self.pieces = []
        self.http = self.value = self.error = None


class _ObservedBody(OuterBody):
    """A body that is seen as it is read, and judged when it is closed.

    It is sync or async as the body behind it.
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
    """The chunks of a client that is not the SDK's, seen as they are read.

    All other members are those of its own stream, an instance of whose class it is.
    """

    def __init__(self, behind: object, came: Brought) -> None:
        self._behind: Any = behind
        self._came = came
        self._pieces: Any = None

    @property  # type: ignore[misc]  # a class is an attribute like any other to isinstance
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
    """Return the chunks of a client that is not the SDK's, to be seen as they are read."""
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
    """Make a call in a client's own way, and return or raise what that does.

    ``call`` is given the client to make it by.
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
    """Call a method of a client's own namespace, and return or raise what that does."""

    def call(client: Any) -> Any:
        resource = namespace_over(member_at(inner, path), inner, client)
        return getattr(resource, name)(**sent)

    return called_beside(watch, inner, call, wants_stream=bool(sent.get("stream")))


def namespace_over(resource: Any, inner: object, client: object) -> Any:
    """Return a namespace of the SDK's like one of the client ``inner``, over ``client``.

    One that is not the SDK's, or whose methods were replaced, is returned as it is.
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
    """Return a client over the state of one of the SDK's, which shows what it receives.

    Any other client is returned as it is.
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
    """Keeps a class from hearing of one that is derived from it."""

    def __init_subclass__(cls) -> None:
        """Do nothing."""

    def __del__(self) -> None:
        """Close nothing: the client inside goes on."""


class _Inside:
    """A member that a client makes once, of the client inside: it would be kept in the state."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: object) -> Any:
        return self if instance is None else getattr(instance.client_inside, self._name)

    def __set__(self, instance: Any, value: object) -> None:
        setattr(instance.client_inside, self._name, value)


@cache
def _seeing_class(kind: Any) -> type:
    class SeeingClient(_Quiet, kind):  # type: ignore[misc]  # a class that is only known here
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
        # the SDK keeps a chain, whose end is the client that it was made for
        setattr(SeeingClient, "_middleware_chain", property(chained))  # noqa: B010

    # held in the class as it is, so that it is no method of it
    decoded = own_decoder(kind)
    if decoded is not None:
        SeeingClient.own_decoder = staticmethod(decoded)

    SeeingClient.__name__ = kind.__name__
    SeeingClient.__qualname__ = kind.__qualname__
    SeeingClient.__module__ = kind.__module__
    return SeeingClient
