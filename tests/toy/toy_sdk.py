"""A client library of the toy API, in one file, and what strictreply has to know of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Self

import httpx

from strictreply.core import SDK, Door
from toy.toy_api import TOY, ToyReader


class Talk:
    """A reply, as programs of the library have it."""

    def __init__(self, **members: Any) -> None:
        self.turn: dict[str, Any] = members["turn"]
        self.halt: str = members["halt"]
        self.members = members

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Return the members."""
        return self.members

    @classmethod
    def model_construct(cls, **members: Any) -> Self:
        """Make a reply of its members."""
        return cls(**members)


class Came:
    """A response as it came over HTTP."""

    def __init__(self, response: httpx.Response) -> None:
        self.http_response = response

    def parse(self) -> Talk:
        """Return the reply in it."""
        return Talk(**self.http_response.json())

    def close(self) -> None:
        """Close the response."""
        self.http_response.close()


class Drips:
    """The events of a streamed reply."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[dict[str, Any]]:
        reader = ToyReader()
        for piece in self._pieces:
            for event in reader.feed(piece):
                if event.data:
                    yield json.loads(event.data)


class Talks:
    """The one namespace of the client."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def create(self, **keywords: Any) -> Came:
        """Ask the engine; the response is read by whoever wants it."""
        request = self._client.build_request("POST", "/talks", json=keywords)
        return Came(self._client.send(request, stream=bool(keywords.get("drip"))))


class Toy:
    """The client."""

    def __init__(self, base_url: str, transport: httpx.BaseTransport | None = None) -> None:
        self.base_url = base_url
        self._client = httpx.Client(base_url=base_url, transport=transport)
        self.talks = Talks(self._client)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class AsyncTalks:
    """The one namespace of the async client."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def create(self, **keywords: Any) -> Came:
        """Ask the engine; the response is read by whoever wants it."""
        request = self._client.build_request("POST", "/talks", json=keywords)
        return Came(await self._client.send(request, stream=bool(keywords.get("drip"))))


class AsyncToy:
    """The async client."""

    def __init__(self, base_url: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.base_url = base_url
        self._client = httpx.AsyncClient(base_url=base_url, transport=transport)
        self.talks = AsyncTalks(self._client)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _drips(_source: Came, pieces: Any) -> Drips:
    return Drips(pieces)


TOY_SDK = SDK(
    package="toy",
    example="toy.Toy(…)",
    doors={
        "talks": Door(
            wire=TOY,
            response=("", "Talk"),
            event=("", "dict"),
            parsed=lambda parse, _is_class, response, _reply: parse(response),
        )
    },
    refused={},
    unguarded=(),
    base_error="",
    is_stainless=False,
    stream_over=_drips,
)
"""What strictreply knows of the library."""
