"""What is needed of the objects of a client library and its HTTP library, by their members.

Neither is imported: any object that has these members will do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence, Sized
from datetime import timedelta
from types import MethodType
from typing import Any, Protocol, overload


class Headers(Protocol):
    """The headers of a request or of a response."""

    @property
    def raw(self) -> Sequence[tuple[bytes, bytes]]:
        """All headers in their order, as they are sent."""
        ...

    @overload
    def get(self, name: str, /) -> str | None: ...
    @overload
    def get(self, name: str, default: str, /) -> str: ...

    def __setitem__(self, name: str, value: str) -> None: ...

    def multi_items(self) -> Sequence[tuple[str, str]]:
        """Return each header, also where one comes twice."""
        ...


class Url(Protocol):
    """An address, in its parts."""

    scheme: str
    raw_host: bytes
    port: int | None
    path: str
    params: Mapping[str, str]


class HttpRequest(Protocol):
    """A request of an HTTP library."""

    method: str
    url: Url
    headers: Headers
    content: bytes
    stream: object
    extensions: Mapping[str, Any]

    def read(self) -> bytes:
        """Read the body to its end."""
        ...


class HttpResponse(Protocol):
    """A response of an HTTP library."""

    status_code: int
    headers: Headers
    request: HttpRequest
    content: bytes
    stream: object
    extensions: Mapping[str, Any]
    elapsed: timedelta
    is_success: bool
    is_stream_consumed: bool
    has_redirect_location: bool

    def read(self) -> bytes:
        """Read the body to its end."""
        ...

    async def aread(self) -> bytes:
        """Read the body to its end."""
        ...

    def iter_bytes(self) -> Iterator[bytes]:
        """Yield the pieces of the body."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the body."""
        ...


class HttpClient(Protocol):
    """A client of an HTTP library."""

    cookies: Sized


class RawResponse(Protocol):
    """The SDK's raw response."""

    http_response: HttpResponse
    retries_taken: int

    def parse(self) -> Any:
        """Return the SDK's own object of the response."""
        ...


class Namespace(Protocol):
    """A namespace of an SDK that makes replies."""

    create: MethodType


class SdkClient(Protocol):
    """A client of an SDK: its address, and the method that makes any request."""

    base_url: Url
    request: Callable[..., Any]


class WrappedClient(Protocol):
    """A wrapped client: what its descriptors read of it."""

    unwrapped: Any
