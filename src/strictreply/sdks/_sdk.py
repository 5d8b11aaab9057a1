"""Facts about a client library that the generator Stainless makes, such as openai's.

All such libraries have the same classes under the same names, so one adapter serves them. The
differences are in one value of :class:`SDK`. Only :meth:`SDK.named` looks up private names.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from strictreply.values._limits import JSONObject
from strictreply.values._replies import AssistantReply
from strictreply.wires._wire import Wire


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Door:
    """A namespace of an SDK whose replies are judged."""

    wire: Wire
    """The API that it calls."""
    response: tuple[str, str]
    """The module, below the package, and the class of a response."""
    event: tuple[str, str]
    """The module and the class of an event of a stream."""
    needed: frozenset[str] = frozenset()
    """The keywords that ``create`` requires."""
    foreign: frozenset[str] = frozenset()
    """Keywords that it does not have, though strictreply reads them: those of another API."""
    answer_keyword: str = "response_format"
    """The keyword of ``parse`` that holds the class of an answer."""
    parsed: Callable[[Callable[[Any], Any], bool, Any, AssistantReply | None], Any]
    """Returns a response as ``parse`` does.

    Takes the SDK's own parser, whether a class was requested, the response, and its reply; None for
    a reply that is not valid.
    """
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    """The parameters of the query that distinguish its requests from the usual namespace's."""
    refused_queries: frozenset[str] = frozenset()
    """The parameters of a request's query that make judging its replies impossible."""
    read_values: frozenset[str] = frozenset()
    """The keywords whose values change what ``create`` posts outside of the body.

    If there are any, the client's timeout counts, too.
    """
    without_format: Callable[[JSONObject], JSONObject] | None = None
    """Returns the members of a request without their format of the answer.

    None if ``stream`` calls ``create``; elsewhere ``stream`` posts by itself.
    """
    unguarded_request: Callable[[JSONObject], str] | None = None
    """Returns why a reply to a request with these members cannot be judged; empty if it can."""
    stores: bool = True
    """Whether replies are stored, and can be fetched below its address."""
    posts_stored: bool = False
    """Whether a request that posts to a stored reply may return it, too."""
    stored_actions: frozenset[str] = frozenset()
    """The actions on a stored reply that return it: the next step of its path."""
    validated: Callable[[Any, bytes], Any] | None = None
    """Makes a response that is valid in every type, of its class and body, faster than the SDK.

    Raises ValueError for any other body. None if the SDK itself is as fast.
    """

    def check(self, members: JSONObject) -> None:
        """Raise NotImplementedError for a request whose reply cannot be judged."""
        why = "" if self.unguarded_request is None else self.unguarded_request(members)
        if why:
            raise NotImplementedError(f"this request cannot be guarded: {why}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SDK:
    """One client library: its package, and which parts are guarded, refused or unguarded."""

    package: str
    """Its import name."""
    example: str
    """How a program makes a client of it, for messages."""
    doors: Mapping[str, Door]
    """The guarded namespaces by their paths; the first of an API is the usual one."""
    refused: Mapping[str, str]
    """The methods and namespaces that cannot be guarded, by path, each with why or what to use."""
    unguarded: tuple[str, ...]
    """The methods and namespaces that return what a model wrote without a check."""
    base_error: str
    """The class of all errors of the SDK."""
    cut_error: str = ""
    """The error that ``parse`` raises for a truncated reply; empty if it does not raise."""
    filtered_error: str = ""
    """The error that it raises for a reply that a content filter stopped."""
    error_members: tuple[str, ...] = ()
    """The members of the API's error that the SDK's errors have as attributes."""
    is_observed: Callable[[Any], bool] | None = None
    """Whether other code observes the requests of a client through the SDK's middleware or spans.

    Such a request is made step by step as the SDK makes it. None if the SDK has no such hooks.
    """
    renews_token: Callable[[Any], bool] | None = None
    """Whether a client answers status 401 by renewing its token, once per request.

    None if the SDK has no such clients.
    """
    means: frozenset[str] = frozenset()
    """The attributes of a client that are such hooks; without them no code observes it."""
    withheld: Mapping[str, object] = field(default_factory=dict[str, object])
    """Attributes of the class of a wrapped client that tell the SDK what it cannot do with it."""
    websockets: Mapping[str, str] = field(default_factory=dict[str, str])
    """The modules, below the package, whose connections are refused, each with a refused path."""
    is_stainless: bool = True
    """Whether the generator Stainless made it: one adapter serves all of these.

    The namespaces of any other library have a ``create`` that returns a response, a stream of its
    events, or either of them as an HTTP response.
    """
    stream_over: Callable[[Any, Iterable[bytes] | AsyncIterable[bytes]], Any] | None = None
    """Returns the library's own stream of a response, with other bytes in place of the original.

    None if the events of a stream are returned as they are.
    """
    module_client: Callable[[ModuleType], Any] | None = None
    """Returns the client that the functions of the package use; None if there is none."""

    def names_inside(self, path: str) -> list[str]:
        """Return the members of a namespace that contain guarded or refused ones."""
        below = f"{path}." if path else ""
        known = (one for one in (*self.doors, *self.refused) if one.startswith(below))
        return list(dict.fromkeys(one.removeprefix(below).partition(".")[0] for one in known))

    def refused_in(self, path: str) -> list[str]:
        """Return the methods of a namespace that cannot be guarded."""
        return [one.rpartition(".")[2] for one in self.refused if one.rpartition(".")[0] == path]

    def refusal(self, path: str) -> str:
        """Return the message for the use of a refused method or namespace."""
        return f"{path} cannot be guarded: {self.refused[path]}"

    def socket_refusal(self, module: str | None) -> str:
        """Return the message for a module that opens a websocket; empty if it may."""
        below = (module or "").removeprefix(f"{self.package}.")
        return self.refusal(self.websockets[below]) if below in self.websockets else ""

    @property
    def usual_api(self) -> str:
        """The name of the API that a client calls by default."""
        return next(iter(self.doors.values())).wire.name

    def path_of(self, wire: Wire) -> str:
        """Return the path of the usual namespace of an API; raise TypeError if there is none."""
        return _path_of(self, wire.name)

    def named(self, module: str, name: str) -> Any:
        """Return an attribute of a module of the package; an empty name is the package itself."""
        return _named(self.package, module, name)

    def response_type(self, door: Door) -> Any:
        """Return the class of a response of a namespace."""
        return _named(self.package, *door.response)

    def event_type(self, door: Door) -> object:
        """Return the class of an event of the streams of a namespace."""
        return _named(self.package, *door.event)

    @property
    def http_type(self) -> object:
        """The class of HTTP responses that the SDK accepts as ``cast_to``.

        With it the methods of the SDK's client return the HTTP response itself.
        """
        return _http_type(self.package)

    def raw_type(self, form: str | None, *, is_async: bool) -> Any:
        """Return the class of a raw response in a form, as in :class:`CallForm`.

        Older SDKs have a separate class for responses that are not streamed. Async code can read
        it without awaiting.
        """
        if form not in {"stream", "raw"} and _has_module(self.package, "_legacy_response"):
            return _named(self.package, "_legacy_response", "LegacyAPIResponse")

        return _named(self.package, "_response", "AsyncAPIResponse" if is_async else "APIResponse")

    def is_observing(self, client: object) -> bool:
        """Return whether other code observes the requests of a client through the SDK."""
        return self.is_observed is not None and self.is_observed(client)

    def own_retries(self, client: object) -> int:
        """Return how often a client may repeat a request by itself to renew its token."""
        return int(self.renews_token is not None and self.renews_token(client))

    @property
    def folder(self) -> str:
        """Where the SDK is installed."""
        return _folder(self.package)


def no_pages(path: str) -> str:
    """Return why a page of stored replies is refused, and what to use, for a namespace."""
    return (
        "a page has replies to many requests; "
        f"call client.{path}.retrieve(id) for each, "
        f"with the ids of client.unwrapped.{path}.list()"
    )


# Every call looks up all of these, so the results are cached.
@cache
def _path_of(sdk: SDK, name: str) -> str:
    for path, door in sdk.doors.items():
        if door.wire.name == name:
            return path

    known = dict.fromkeys(f'api="{door.wire.name}"' for door in sdk.doors.values())
    raise TypeError(
        f"{sdk.example} does not have the API {name!r}: pass {' or '.join(known)}, "
        "or a client that has it"
    )


@cache
def _has_module(package: str, name: str) -> bool:
    return find_spec(f"{package}.{name}") is not None


@cache
def _named(package: str, module: str, name: str) -> object:
    return getattr(import_module(f"{package}.{module}" if module else package), name)


@cache
def _http_type(package: str) -> object:
    library: Any = import_module(package).DefaultHttpxClient
    return import_module(library.__mro__[1].__module__.partition(".")[0]).Response


@cache
def _folder(package: str) -> str:
    return str(Path(str(import_module(package).__file__)).parent)
