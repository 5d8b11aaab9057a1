"""Requests that an SDK builds from a client's state, cached until that state changes.

For each request the SDK builds the options, the headers, the URL and the timeouts again. This is
half of what a call costs, though the state that they depend on hardly ever changes. As its last
step the SDK gives the request to its HTTP client, which strictreply has replaced (``_bounds.py``).
So strictreply sees the finished request, and does not repeat how the SDK builds it.

=========  ====================================================================================
cached     the request without its body, length and cookies (:class:`RequestTemplate`)
key        the path, whether a stream is wanted, the class of the call's own timeout: a few
valid for  the state of the client and its HTTP client (:meth:`Templates.state_of`), and the options
used       after a template has made a second request of the SDK exactly as the SDK made it: what
           is new in each request, such as an idempotency key, is never sent twice
dropped    at the first call after any of that state was set, changed or replaced
=========  ====================================================================================

If the state is not plain, there is no template, and the SDK builds each request. Examples are a
function that returns the key, a class derived from the SDK's, and a replaced method. The SDK also
reports errors: it gets each failure (:class:`Told`), and makes the exception that it would have
raised.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import chain
from operator import is_, methodcaller
from types import FunctionType, NoneType
from typing import Any, TypeAlias

from strictreply.sdks._calling import called_with
from strictreply.sdks._known import HTTP_LIBRARIES, OF_CLIENTS, SDKS, is_sdks_own, sdk_of_clients
from strictreply.sdks._shapes import HttpClient, HttpRequest
from strictreply.values._limits import JSONObject

TIMEOUT_PARTS = ("connect", "read", "write", "pool")
"""The parts of a timeout in an HTTP library."""

_READ_TIMEOUTS = ("x-stainless-read-timeout", "x-stainless-timeout")
_OF_CALLERS = frozenset({"params", "extra_json"})  # options that belong to a single call
_SCALARS = frozenset({str, int, float, bool, NoneType})
_FROZEN = _SCALARS | {frozenset}
_NO_STATE = frozenset({"builtins", "abc", "typing"})  # modules of bases that make no request
_values = methodcaller("values")

State: TypeAlias = list[Any]
"""What requests depend on, flat: equal if each part is the same object, or the same text."""


@dataclass(frozen=True, slots=True)
class Told:
    """The result of a request that was sent: the HTTP client returns it to the SDK."""

    request: Any
    """The request that was sent."""
    came: Any
    """The response, or the exception that was raised instead."""

    def again(self) -> object:
        """Return the response, or raise the exception."""
        came = self.came
        if not isinstance(came, Exception):
            return came

        try:
            raise came
        finally:
            # an error that refers to this frame would refer to itself, and to the request
            del came, self

    async def again_later(self) -> object:
        """Do as :meth:`again` does, for an async client."""
        return self.again()


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """A request as the SDK made it, without its body, length and cookies."""

    state: State
    """The state that it depends on."""
    options: JSONObject
    """The options that it was made for, without the timeout."""
    like: Any
    """The request, with an empty body."""
    is_proven: bool = False
    """Whether it has made a request exactly as the SDK does."""

    def over(self, call: PreparedPost) -> HttpRequest:
        """Return the request of a call, with the present cookies of the HTTP client."""
        like = self.like
        cookies = call.http.cookies
        timeouts = {**like.extensions["timeout"]}
        made: HttpRequest = type(like)(
            like.method,
            like.url,
            headers=like.headers,
            cookies=type(cookies)(cookies) if cookies else None,
            stream=type(like.stream)(call.body),
            extensions={**like.extensions, "timeout": timeouts},
        )

        if call.timeout is not None:
            own = _parts_of(call.timeout)
            timeouts.update(own)
            for name in _READ_TIMEOUTS:
                if name in like.headers:
                    made.headers[name] = str(own["read"])

        made.headers["Content-Length"] = str(len(call.body))
        made.read()
        return made


class Templates:
    """The cached requests of one client, by path, kind of response and kind of timeout."""

    __slots__ = ("_values", "kept")

    def __init__(self) -> None:
        self.kept: dict[tuple[Any, ...], RequestTemplate] = {}
        self._values: tuple[State, list[Mapping[str, Any]] | None] = ([], None)

    def state_of(self, client: object) -> State | None:
        """Return all that an SDK's client and its HTTP client read of themselves for a request.

        None if some of it is not plain, or not their own.
        """
        http: Any = vars(client).get("_client")
        http_kind: Any = type(http)
        members = _own_members(type(client).__mro__[1], http_kind)
        if members is None or not vars(http).keys().isdisjoint(_names(http_kind)):
            return None

        values = [*vars(client).values()]
        known, changeable = self._values
        if not _are_same(known, values):
            changeable = _changeable_in(client)
            self._values = values, changeable
        if changeable is None:
            return None

        # the list of members stays the same object until a member is replaced
        state = [members, http.base_url, http.params, http.headers.encoding, *values]
        state += chain.from_iterable(http.headers.raw)
        for one in changeable:
            if not _SCALARS.issuperset(map(type, one.values())):
                return None
            state += chain(one, one.values())

        return state


@dataclass(slots=True)
class PreparedPost:
    """A request that the SDK is about to send, with all that it depends on."""

    client: Any
    """The SDK's client, whose HTTP client strictreply has replaced."""
    posted: JSONObject
    """The arguments of the SDK's ``post``."""
    http: Any
    """The replacement of the HTTP client."""
    state: State
    """The other state that the request depends on."""
    options: JSONObject
    """The options, without the timeout."""
    timeout: Any
    """The timeout of this call; None for the client's own."""
    body: bytes
    """The body, encoded."""

    @property
    def key(self) -> tuple[object, ...]:
        """The key of the cached template."""
        headers = frozenset(self.options.get("headers", ()))
        return self.posted["path"], self.posted.get("stream"), type(self.timeout), headers

    def template(self) -> RequestTemplate | None:
        """Return the cached template for such a call; None if there is none."""
        kept = self.client._templates.kept.get(self.key)
        if kept is None or kept.options != self.options:
            return None

        return kept if _are_same(kept.state, self.state) else None

    def see(
        self, http: object, request: HttpRequest, *, stream: bool, given: Mapping[str, object]
    ) -> None:
        """Look at the request that the SDK gives to its HTTP client; store or prove a template."""
        ours: HttpClient = self.http
        if http is not ours or stream is not self._is_stream or given:
            return

        templates = self.client._templates
        now = templates.state_of(self.client)
        if now is None or not _are_same(now, self.state) or request.content != self.body:
            return

        kept = self.template()
        is_proven = kept is not None and _seen(kept.over(self)) == _seen(request)
        like = _without_body(request, ours)
        templates.kept[self.key] = RequestTemplate(self.state, self.options, like, is_proven)

    def sent(self) -> object:
        """Send the request; return what the SDK's ``post`` returns, or an awaitable of it."""
        template = self.template()
        if template is None or not template.is_proven:
            return self._by_sdk(self)

        request = template.over(self)
        if self.http.is_async:
            return self._sent_later(request)

        came = self._came(request)
        return self._by_sdk(came) if isinstance(came, Told) else came

    async def _sent_later(self, request: object) -> object:
        came = await self._came_later(request)
        return await self._by_sdk(came) if isinstance(came, Told) else came

    def _came(self, request: object) -> object:
        """Send a request; return a successful response, and anything else as Told."""
        try:
            response = self.http.send(request, stream=self._is_stream)
        except Exception as error:  # noqa: BLE001 - the SDK decides what it means
            return Told(request, error)

        return response if response.is_success else Told(request, response)

    async def _came_later(self, request: object) -> object:
        """Do as :meth:`_came` does, for an async client."""
        try:
            response = await self.http.send(request, stream=self._is_stream)
        except Exception as error:  # noqa: BLE001 - the SDK decides what it means
            return Told(request, error)

        return response if response.is_success else Told(request, response)

    def _by_sdk(self, who: PreparedPost | Told) -> Any:
        """Let the SDK build the request; its HTTP client calls ``who`` in place of sending it."""
        return called_with(exchange, who, partial(self.client.post, **self.posted))

    @property
    def _is_stream(self) -> bool:
        return bool(self.posted.get("stream"))


exchange: ContextVar[PreparedPost | Told | None] = ContextVar("strictreply_request", default=None)
"""The request that the SDK is sending: to be inspected, or already sent."""


def send_posted(client: Any, posted: JSONObject) -> object:
    """Send a request by the SDK's ``post``; return what ``post`` returns, or an awaitable of it.

    ``client`` is the SDK's; its ``_templates`` are the cache.
    """
    options = {**posted["options"]}
    is_own = "timeout" in options
    timeout = options.pop("timeout", None)

    is_usual = "content" in posted and _OF_CALLERS.isdisjoint(options)
    if is_usual and (not is_own or _is_read(timeout)):
        state = client._templates.state_of(client)
        if state is not None:
            http = client._client
            return PreparedPost(
                client, posted, http, state, options, timeout, posted["content"]
            ).sent()

    return client.post(**posted)


def _without_body(request: HttpRequest, http: HttpClient) -> HttpRequest:
    """Return a request with an empty body, and without the headers of its body and cookies."""
    of_request: Any = type(request)
    of_headers: Any = type(request.headers)
    of_stream: Any = type(request.stream)

    headers = of_headers(request.headers)
    headers.pop("Content-Length", None)
    if http.cookies:
        headers.pop("Cookie", None)

    made: HttpRequest = of_request(
        request.method,
        request.url,
        headers=headers,
        stream=of_stream(b""),
        extensions={**request.extensions, "timeout": {**request.extensions["timeout"]}},
    )
    return made


def _seen(request: HttpRequest) -> tuple[object, ...]:
    """Return all parts by which two requests are compared."""
    headers = request.headers.raw
    return request.method, str(request.url), headers, request.content, request.extensions


def _is_read(timeout: Any) -> bool:
    """Return whether it is known what the SDK makes of a timeout."""
    if type(timeout) in (int, float):
        return True

    kind: Any = type(timeout)
    return _is_of_http(kind, "Timeout") and timeout.read is not None


def _parts_of(timeout: object) -> JSONObject:
    if type(timeout) in (int, float):
        return dict.fromkeys(TIMEOUT_PARTS, timeout)

    return {name: getattr(timeout, name) for name in TIMEOUT_PARTS}


def _are_same(one: State, other: State) -> bool:
    if len(one) != len(other):
        return False

    return all(map(is_, one, other)) or all(map(_is_same, one, other))


def _is_same(part: object, other: object) -> bool:
    # 1 and 1.0 are equal, but not the same in a header; some programs set the key at each call
    return part is other or (type(part) is type(other) is str and part == other)


def _changeable_in(client: object) -> list[Mapping[str, object]] | None:
    """Return what may change inside the values of a client: headers, a query, parts of timeouts.

    None if a value is neither known nor a namespace or the HTTP client.
    """
    found: list[Mapping[str, Any]] = []
    kind: Any = type(client)
    sdk = sdk_of_clients(kind)
    means = frozenset[str]() if sdk is None else sdk.means
    no_state = _namespaces(kind.__mro__[1]) | {"_client"}

    for name, value in [*vars(client).items()]:
        made_of: Any = type(value)
        if name in means:
            continue
        if made_of is dict:
            found.append(value)
        elif _is_of_http(made_of, "Timeout"):
            found.append(vars(value))
        elif not (_is_frozen(value) or name in no_state):
            return None

    return found


def _is_frozen(value: object) -> bool:
    kind: Any = type(value)
    return kind in _FROZEN or isinstance(value, type) or _is_of_http(kind, "URL")


@cache
def _is_of_http(kind: type[object], name: str) -> bool:
    # an SDK exports such a class as its own
    packages = {*HTTP_LIBRARIES, *(sdk.package for sdk in SDKS)}
    return kind.__name__ == name and kind.__module__.partition(".")[0] in packages


@cache
def _names(kind: object) -> frozenset[str]:
    return frozenset(dir(kind))


@cache
def _namespaces(kind: type[object]) -> frozenset[str]:
    """Return the names of the namespaces of a client: they are not part of its state."""
    found = ((name, vars(base)[name]) for base in kind.__mro__ for name in vars(base))
    return frozenset(name for name, value in found if isinstance(value, cached_property))


def _own_members(*kinds: object) -> State | None:
    """Return all members of classes; None if one of them is not of the class's own library.

    It is the same list until a member is replaced.
    """
    now = [*chain.from_iterable(map(_values, _dicts(*kinds)))]
    known, are_own = _judged.get(kinds, ([], False))

    if not _are_same(known, now):
        known, are_own = now, all(map(_is_own, now))
        _judged[kinds] = known, are_own

    return known if are_own else None


_judged: dict[tuple[Any, ...], tuple[State, bool]] = {}
"""The members of the libraries' own classes, and whether all of them belong to the library."""


@cache
def _dicts(kind: type, http_kind: type[object]) -> tuple[Mapping[str, object], ...]:
    """Return the members of the classes of a client and its HTTP client, and of their bases.

    Empty if one class is not a library's own. A client that is derived from another one of the SDK
    may read its state elsewhere: the client of the module's functions reads its globals.
    """
    sdk = sdk_of_clients(kind)
    if sdk is None or kind.__bases__[0].__module__ != f"{sdk.package}.{OF_CLIENTS}":
        return ()

    bases = [*kind.__mro__, *http_kind.__mro__]
    own = [base for base in bases if base.__module__ not in _NO_STATE]
    roots = {base.__module__.partition(".")[0] for base in own}
    return tuple(map(vars, own)) if roots <= {sdk.package, *HTTP_LIBRARIES} else ()


def _is_own(member: object) -> bool:
    """Return whether a member of a class is a library's own code, or cannot be called."""
    if isinstance(member, property):
        return all(_is_own(one) for one in (member.fget, member.fset, member.fdel))
    if isinstance(member, classmethod | staticmethod):
        return _is_own(member.__func__)
    if isinstance(member, cached_property):
        return _is_own(member.func)
    if isinstance(member, FunctionType) and member.__code__.co_filename == contextlib.__file__:
        return _is_own(vars(member).get("__wrapped__"))

    return is_sdks_own(member) or isinstance(member, type) or not callable(member)
