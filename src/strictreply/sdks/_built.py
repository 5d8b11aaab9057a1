"""What an SDK builds of a client's state for a request, kept until that state changes.

For each request the SDK makes the options, the headers, the URL and the timeouts anew, though the
state that they are made of hardly ever changes: half of what a call costs. Its last step is to give
the request to its HTTP client, in whose place stands an object of ours (``_bounds.py``). What the
SDK makes is seen there, so nothing of how it makes it is repeated here.

=========  ====================================================================================
kept       the request without its body, length and cookies (:class:`Template`)
by which   the path, whether a stream is wanted, the class of the call's own timeout: a few
for        the state of the client and its HTTP client (:func:`_state_of`), and the options
used       once a template has made a second request of the SDK exactly as the SDK made it: what
           is new in each request, such as an idempotency key, is never sent twice
dropped    at the first call after any of that state was set, changed or replaced
=========  ====================================================================================

Where the state is not plain (a function that returns the key, a class that was derived from the
SDK's, a method that somebody replaced) there is no template, and the SDK makes each request. It
also says what went wrong: it is told of whatever is no success (:class:`Told`), and makes of it the
error that it would have raised.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import chain
from operator import is_
from types import FunctionType, NoneType
from typing import Any, TypeAlias

from strictreply.sdks._calling import called_with
from strictreply.sdks._known import HTTP_LIBRARIES, OF_CLIENTS, SDKS, is_sdks_own, sdk_of_clients
from strictreply.values._limits import JSONObject

TIMEOUT_PARTS = ("connect", "read", "write", "pool")
"""The parts of a timeout of an HTTP library."""

_READ_TIMEOUT = "x-stainless-read-timeout"
_OF_CALLERS = frozenset({"headers", "params", "extra_json"})  # options that a call has of its own
_SCALARS = frozenset({str, int, float, bool, NoneType})
_FROZEN = _SCALARS | {frozenset, type}
_NO_STATE = frozenset({"builtins", "abc", "typing"})  # modules of bases that make no request


State: TypeAlias = list[Any]
"""What requests are made of, flat. Two are the same when each part is the same object."""


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a request: the HTTP client says it to the SDK, and sends nothing."""

    request: Any
    """The request that was sent."""
    came: Any
    """The response, or the exception that came in its place."""

    def again(self) -> Any:
        """Return what came, or raise it."""
        came = self.came
        if not isinstance(came, Exception):
            return came

        try:
            raise came
        finally:
            # an error that held this frame would hold itself, and the request
            del came, self

    async def again_later(self) -> Any:
        """Return or raise what came."""
        return self.again()


@dataclass(frozen=True, slots=True)
class Template:
    """A request as the SDK made it, without its body, length and cookies."""

    state: State
    """What it was made of."""
    options: JSONObject
    """The options that it was made for, but for the timeout."""
    like: Any
    """The request, with an empty body."""
    is_proven: bool = False
    """Whether it has made a request exactly as the SDK made it."""

    def over(self, call: Call) -> Any:
        """Return the request of a call, with the cookies that the HTTP client now has."""
        like = self.like
        cookies = call.http.cookies
        timeouts = {**like.extensions["timeout"]}
        made = type(like)(
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
            made.headers[_READ_TIMEOUT] = str(own["read"])

        made.headers["Content-Length"] = str(len(call.body))
        made.read()
        return made


Templates: TypeAlias = dict[tuple[Any, ...], Template]
"""What is kept of the requests of one client, by path, kind of response and of timeout."""


@dataclass(slots=True)
class Call:
    """A request that the SDK is to send: all that it is made of."""

    templates: Templates
    """Where templates are kept."""
    client: Any
    """The SDK's client, whose HTTP client is a stand-in."""
    http: Any
    """That stand-in."""
    key: tuple[Any, ...]
    """By which a template is kept."""
    body: bytes
    """The body, encoded."""
    is_stream: bool
    """Whether the response is read later."""
    timeout: Any
    """The timeout of this call; None for the client's own."""
    options: JSONObject
    """The other options."""
    state: State
    """What else the request is made of."""

    def template(self) -> Template | None:
        """Return the template that is kept for such a call; None when there is none."""
        kept = self.templates.get(self.key)
        if kept is None or kept.options != self.options:
            return None

        return kept if _are_same(kept.state, self.state) else None

    def see(self, http: Any, request: Any, *, stream: bool, given: Mapping[str, Any]) -> None:
        """Look at what the SDK gives to its HTTP client: keep it as a template, or prove one."""
        if http is not self.http or stream is not self.is_stream or given:
            return

        now = _state_of(self.client)
        if now is None or not _are_same(now, self.state) or request.content != self.body:
            return

        kept = self.template()
        is_proven = kept is not None and _seen(kept.over(self)) == _seen(request)
        like = _without_body(request, self.http)
        self.templates[self.key] = Template(self.state, self.options, like, is_proven)

    def sent(self, usual: Callable[[], Any]) -> Any:
        """Send the request without the SDK; return the response, or an awaitable of it.

        Where there is no template, or no success, it is what ``usual`` returns, the SDK's own way.
        """
        template = self.template()
        if template is None or not template.is_proven:
            return called_with(exchange, self, usual)

        request = template.over(self)
        if self.http.is_async:
            return self._sent_later(request, usual)

        came = self._came(request)
        return called_with(exchange, came, usual) if isinstance(came, Told) else came

    async def _sent_later(self, request: Any, usual: Callable[[], Any]) -> Any:
        came = await self._came_later(request)
        return await called_with(exchange, came, usual) if isinstance(came, Told) else came

    def _came(self, request: Any) -> Any:
        """Send a request; return the response of a success, and what else came as Told."""
        try:
            response = self.http.send(request, stream=self.is_stream)
        except Exception as error:  # noqa: BLE001 - the SDK says what it means
            return Told(request, error)

        return response if response.is_success else Told(request, response)

    async def _came_later(self, request: Any) -> Any:
        """Return what :meth:`_came` does."""
        try:
            response = await self.http.send(request, stream=self.is_stream)
        except Exception as error:  # noqa: BLE001 - the SDK says what it means
            return Told(request, error)

        return response if response.is_success else Told(request, response)


exchange: ContextVar[Call | Told | None] = ContextVar("strictreply_request", default=None)
"""The request that the SDK is sending: to be looked at, or sent already."""


def send_posted(templates: Templates, client: Any, posted: JSONObject) -> Any:
    """Send what the SDK's ``post`` is given; return what ``post`` returns, or an awaitable."""
    usual = partial(client.post, **posted)
    options = {**posted["options"]}
    timeout = options.pop("timeout", None)
    is_own = "timeout" in posted["options"]
    is_usual = "content" in posted and _OF_CALLERS.isdisjoint(options)
    if not is_usual or (is_own and not _is_read(timeout)):
        return usual()

    http = client._client
    state = _state_of(client)
    if state is None:
        return usual()

    is_stream = bool(posted.get("stream"))
    key = (posted["path"], is_stream, type(timeout))
    content = posted["content"]
    call = Call(templates, client, http, key, content, is_stream, timeout, options, state)
    return call.sent(usual)


def _without_body(request: Any, http: Any) -> Any:
    """Return a request with an empty body, and without what is of its body or of the cookies."""
    headers = type(request.headers)(request.headers)
    headers.pop("Content-Length", None)
    if http.cookies:
        headers.pop("Cookie", None)

    return type(request)(
        request.method,
        request.url,
        headers=headers,
        stream=type(request.stream)(b""),
        extensions={**request.extensions, "timeout": {**request.extensions["timeout"]}},
    )


def _seen(request: Any) -> tuple[Any, ...]:
    """Return all that makes two requests the same one."""
    headers = request.headers.raw
    return request.method, str(request.url), headers, request.content, request.extensions


def _is_read(timeout: Any) -> bool:
    """Return whether it is told what the SDK makes of a timeout."""
    if type(timeout) in (int, float):
        return True

    kind: Any = type(timeout)
    return _is_of_http(kind, "Timeout") and timeout.read is not None


def _parts_of(timeout: Any) -> JSONObject:
    if type(timeout) in (int, float):
        return dict.fromkeys(TIMEOUT_PARTS, timeout)

    return {name: getattr(timeout, name) for name in TIMEOUT_PARTS}


def _are_same(one: State, other: State) -> bool:
    return len(one) == len(other) and all(map(is_, one, other))


def _state_of(client: Any) -> State | None:
    """Return all that an SDK's client and its HTTP client read of themselves for a request.

    None where some of it is not plain, or not their own.
    """
    http = vars(client).get("_client")
    client_kind: Any = type(client).__mro__[1]
    http_kind: Any = type(http)
    members = _own_members(client_kind, http_kind)
    if members is None or not vars(http).keys().isdisjoint(_names(http_kind)):
        return None

    # what classes have is one list for as long as nobody changes them
    state = [members, http, http.base_url, http.params, http.headers.encoding]
    state += chain.from_iterable(http.headers.raw)

    for name, value in [*vars(client).items()]:
        kind: Any = type(value)
        if kind in _FROZEN or _is_of_http(kind, "URL"):
            state.append(value)
        elif kind is dict and _SCALARS.issuperset(map(type, value.values())):
            state += chain(value, value.values())
        elif _is_of_http(kind, "Timeout"):
            state += vars(value).values()
        elif value is not http and name not in _namespaces(client_kind):
            return None

    return state


@cache
def _is_of_http(kind: Any, name: str) -> bool:
    # an SDK exports such a class as its own
    packages = {*HTTP_LIBRARIES, *(sdk.package for sdk in SDKS)}
    return kind.__name__ == name and kind.__module__.partition(".")[0] in packages


@cache
def _names(kind: Any) -> frozenset[str]:
    return frozenset(dir(kind))


@cache
def _namespaces(kind: Any) -> frozenset[str]:
    """Return the names of the namespaces of a client: they are no state of it."""
    found = ((name, vars(base)[name]) for base in kind.__mro__ for name in vars(base))
    return frozenset(name for name, value in found if isinstance(value, cached_property))


def _own_members(*kinds: Any) -> State | None:
    """Return all members of classes; None where one of them is not of the class's own library.

    It is the same list until a member is replaced.
    """
    now = [*chain.from_iterable(one.values() for one in _dicts(*kinds))]
    known, are_own = _judged.get(kinds, ([], False))

    if not _are_same(known, now):
        known, are_own = now, all(map(_is_own, now))
        _judged[kinds] = known, are_own

    return known if are_own else None


_judged: dict[tuple[Any, ...], tuple[State, bool]] = {}
"""The members of the libraries' own classes, and whether all are their own."""


@cache
def _dicts(kind: Any, http_kind: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the members of the classes of a client and its HTTP client, and of their bases.

    Nothing where one is not a library's own. A client of the SDK that is derived from another one
    may read its state elsewhere: the one behind the module's functions reads its globals.
    """
    sdk = sdk_of_clients(kind)
    if sdk is None or kind.__bases__[0].__module__ != f"{sdk.package}.{OF_CLIENTS}":
        return ()

    bases = [*kind.__mro__, *http_kind.__mro__]
    own = [base for base in bases if base.__module__ not in _NO_STATE]
    roots = {base.__module__.partition(".")[0] for base in own}
    return tuple(map(vars, own)) if roots <= {sdk.package, *HTTP_LIBRARIES} else ()


def _is_own(member: Any) -> bool:
    """Return whether a member of a class is a library's own: its code, or nothing to be called."""
    if isinstance(member, property):
        return all(_is_own(one) for one in (member.fget, member.fset, member.fdel))
    if isinstance(member, classmethod | staticmethod):
        return _is_own(member.__func__)
    if isinstance(member, cached_property):
        return _is_own(member.func)
    if isinstance(member, FunctionType) and member.__code__.co_filename == contextlib.__file__:
        return _is_own(vars(member).get("__wrapped__"))

    return is_sdks_own(member) or isinstance(member, type) or not callable(member)
