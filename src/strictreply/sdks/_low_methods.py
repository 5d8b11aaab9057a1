"""The methods of the SDK's client that make a request of any path.

All other methods of the SDK call them. So does a namespace of the SDK that a program makes with a
wrapped client.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from strictreply.contract._answer import Answer
from strictreply.contract._definitions import given as without_markers
from strictreply.sdks._calling import called_with
from strictreply.sdks._known import sdk_for
from strictreply.sdks._low_requests import CallTarget, Posting, Stored
from strictreply.sdks._observing import LOW_METHODS, SideJudge, called_beside, outward
from strictreply.sdks._sdk import Door, no_pages
from strictreply.sdks._transport import CallForm, Transport, passing
from strictreply.values._limits import JSONObject
from strictreply.values._requests import AnswerFormat
from strictreply.wires._requests import settled


class LowMethods:
    """The low methods of a wrapped client: guarded for the paths of the APIs."""

    def get(self, path: str, **given: object) -> object:
        """Make a request; if it returns a stored reply, that is valid by the contract."""
        return _made(self, "get", (path,), given)

    def post(self, path: str, **given: object) -> object:
        """Make a request; a reply to it is valid by the contract."""
        return _made(self, "post", (path,), given)

    def put(self, path: str, **given: object) -> object:
        """Make a request like :meth:`post`."""
        return _made(self, "put", (path,), given)

    def patch(self, path: str, **given: object) -> object:
        """Make a request like :meth:`post`."""
        return _made(self, "patch", (path,), given)

    def request(self, cast_to: object, options: object, **given: object) -> object:
        """Make a request like :meth:`post`."""
        return _made(self, "request", (cast_to, options), given)

    def get_api_list(self, path: str, **given: object) -> object:
        """Make a request for a page; a page of stored replies is refused."""
        return _made(self, "get_api_list", (path,), given)


class AsyncLowMethods:
    """The low methods of a wrapped async client, as in :class:`LowMethods`."""

    async def get(self, path: str, **given: object) -> object:
        """Make a request; if it returns a stored reply, that is valid by the contract."""
        return await _made(self, "get", (path,), given)

    async def post(self, path: str, **given: object) -> object:
        """Make a request; a reply to it is valid by the contract."""
        return await _made(self, "post", (path,), given)

    async def put(self, path: str, **given: object) -> object:
        """Make a request like :meth:`post`."""
        return await _made(self, "put", (path,), given)

    async def patch(self, path: str, **given: object) -> object:
        """Make a request like :meth:`post`."""
        return await _made(self, "patch", (path,), given)

    async def request(self, cast_to: object, options: object, **given: object) -> object:
        """Make a request like :meth:`post`."""
        return await _made(self, "request", (cast_to, options), given)

    def get_api_list(self, path: str, **given: object) -> object:
        """Make a request for a page; a page of stored replies is refused."""
        return _made(self, "get_api_list", (path,), given)


def stored_by(client: object, answer: object) -> object:
    """Return a ``get`` whose stored reply is judged by the class of its answer."""

    def get(path: str, **given: object) -> object:
        return _made(client, "get", (path,), given, answer)

    return get


def answered_by(client: object, answer: object) -> object:
    """Return a ``post`` whose reply is judged by the class of its answer."""

    def post(path: str, **given: object) -> object:
        return _made(client, "post", (path,), given, answer)

    return post


def judged_as(client: Any, keywords: JSONObject, answer: object) -> JSONObject:
    """Return keywords that judge the answer by a class, or by a type that is made of classes."""
    if isinstance(answer, type):
        return keywords | {"response_format": answer}

    contract = keywords.get("contract") or client.contract
    return keywords | {"contract": contract.replace(answer=Answer.of(answer))}


def by_class(
    client: object, door: Door, keywords: JSONObject, answer: object
) -> tuple[JSONObject, Any]:
    """Return keywords that judge an answer by its class, and the format that is sent."""
    keywords = settled(without_markers(keywords))
    asked = door.wire.read(keywords).format
    if door.without_format is not None:
        keywords = door.without_format(keywords)

    sent = asked if isinstance(asked, AnswerFormat) else None
    return judged_as(client, keywords, answer), sent


def _made(
    client: Any, name: str, head: tuple[object, ...], given: JSONObject, answer: object = None
) -> Any:
    inner = client.unwrapped
    posting = Posting(inner, name, head, given)
    place = posting.place()
    if place is None:
        return _passed(inner, name, head, given)

    path = place.path
    transport: Transport = client._guard.namespaces.transport(path)  # noqa: SLF001
    if passing.get() is transport:
        alone = transport.alone
        return getattr(type(alone), name)(alone, *head, **given)

    watch: SideJudge | None = client._beside()  # noqa: SLF001
    if watch is not None:
        return _made_beside(watch, client, place, posting, answer)

    if name == "get_api_list" or place.brings == "list":
        raise NotImplementedError(f"{path}.list() cannot be guarded: {no_pages(path)}")

    if place.brings == "stored":
        head = posting.head_for(client._guard.stored_ids.path_known_to_server)  # noqa: SLF001
        stored = Stored(inner, name, head, given, answer=answer, path=path)
        return client._stored_reply(transport.wire, stored)  # noqa: SLF001

    keywords = posting.keywords(path)
    way = CallForm("true", path, posting=posting)
    sent_format = None
    if answer is not None:
        keywords, sent_format = by_class(client, transport.door, keywords, answer)

    return client._drop_in(transport.wire, keywords, way, sent_format)  # noqa: SLF001


def _made_beside(
    watch: SideJudge, client: Any, place: CallTarget, posting: Posting, answer: object
) -> object:
    """Make a request in the client's own way, and let ``watch`` judge its reply."""
    inner = client.unwrapped
    name = posting.method
    head = posting.head
    given = posting.given
    if outward.get() is inner:
        # it comes back from a patched low method, where the reply is observed
        return getattr(type(inner), name)(inner, *head, **given)

    door = sdk_for(inner).doors[place.path]
    if place.brings == "stored":
        stored = Stored(inner, name, head, given, answer=answer, path=place.path)
        watch.fetches(door.wire, place.path, stored)
    elif place.brings == "reply" and name != "get_api_list":
        watch.asks(door.wire, place.path, None, partial(_read, client, place.path, posting, answer))
    else:
        return _passed(inner, name, head, given)

    return called_beside(
        watch,
        inner,
        lambda seeing: getattr(seeing, name)(*head, **given),
        wants_stream=bool(given.get("stream")),
    )


def _read(client: object, path: str, posting: Posting, answer: object) -> JSONObject:
    """Return the keywords that judge the reply to a posted request."""
    keywords = posting.keywords(path)
    if answer is None:
        return keywords

    return by_class(client, sdk_for(posting.client).doors[path], keywords, answer)[0]


def _passed(inner: object, name: str, head: tuple[object, ...], given: JSONObject) -> object:
    """Make a request that is not guarded, with the low methods as a program has patched them."""
    if vars(inner).keys().isdisjoint(LOW_METHODS):
        return getattr(inner, name)(*head, **given)
    if outward.get() is inner:
        return getattr(type(inner), name)(inner, *head, **given)

    return called_with(outward, inner, partial(getattr(inner, name), *head, **given))
