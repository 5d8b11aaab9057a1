"""Sending one request through the wrapped client, and reading what came as plain JSON.

It is posted past the SDK's type-driven transform, in a fraction of the time, where nobody has
replaced a method of the SDK on the way: a tracer, a cache or a spy of a test is called as usual.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter, is_
from typing import Any

from strictreply.client._exchange import stand_in
from strictreply.client._posting import (
    Came,
    Posts,
    is_of_base,
    is_raw,
    is_sdks_own,
    parsed,
    raw_response,
    sdk_type,
)
from strictreply.values._limits import JSON, JSONObject, Limits
from strictreply.values._replies import AssistantReply
from strictreply.wires import WIRES
from strictreply.wires._opening import Wire, as_json, read_body

RAW_RESPONSE = "X-Stainless-Raw-Response"
"""The header that has methods of the openai SDK return the raw response.

It never leaves the SDK.
"""

_CALLED = ("post", "request")
_ON_THE_WAY = (*_CALLED, "_prepare_options", "_build_request", "_process_response_data")
"""The SDK's methods that a request passes (tracers stand at the first two): who replaces one sees the real one."""

_passed_by = attrgetter(*_ON_THE_WAY)

_TIMEOUT_PARTS = ("connect", "read", "write", "pool")

passing: ContextVar[Transport | None] = ContextVar("strictreply_passing", default=None)
"""Whose request is on its way through a method that somebody has put over ``create``."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A response: its JSON (None when it has none), what the SDK returned, and whether that is a stream."""

    plain: JSON
    source: Any
    is_stream: bool = False


@dataclass(frozen=True, slots=True)
class Way:
    """How a call was made, where not by a method of ours.

    ``form``: ``true`` for the SDK's raw response, ``stream`` for that of
    ``with_streaming_response``, None for a completion, which ``finish`` parses with the reply in
    it. ``through`` is called instead of the client's ``create``.
    """

    form: str | None = None
    finish: Callable[[Any, AssistantReply], Any] | None = None
    through: Any = None


class Transport:
    """The one way to an API: the ``create`` of a client's resource, whose own retries we do not use.

    No state of the client is copied: what is set on it later counts. Raises TypeError where it has
    no ``create``.
    """

    __slots__ = ("_posts", "_resource_of", "_sender", "client", "wire")

    def __init__(self, client: Any, wire: Wire = WIRES["chat"]) -> None:
        resource = client
        for name in wire.resource.split("."):
            resource = getattr(resource, name, None)

        if not callable(getattr(resource, "create", None)):
            raise TypeError(
                f"wrap() needs a client with {wire.resource}.create, such as openai.OpenAI()"
            )

        self.client: Any = client
        self.wire: Wire = wire
        self._resource_of, self._posts = attrgetter(wire.resource), Posts()
        self._sender: tuple[Any, Any] = (None, None)

    @property
    def resource(self) -> Any:
        """The client's own namespace of the API, as it is now."""
        return self._resource_of(self.client)

    def retries(self) -> tuple[int | None, bool]:
        """Return the client's own ``max_retries``, if any.

        And whether it repeats by itself: 0 is left for us then.
        """
        said = getattr(self.client, "max_retries", None)
        if type(said) is not int:
            return None, False
        completions = self.resource
        is_repeating = said > 0 and self._sender_of(completions) is completions
        return 0 if is_repeating else said, is_repeating

    def is_seen(self, way: Way) -> bool:
        """Return whether somebody stands between us and the SDK: a tracer, as far as we know, which sees each ask."""
        completions = self.resource
        if way.through is not None or not is_openai(completions):
            return way.through is not None

        sender = self._sender_of(completions)
        if is_patched(completions) or not vars(sender._client).keys().isdisjoint(_CALLED):
            return True

        return not all(
            map(is_sdks_own, (type(sender).create, *attrgetter(*_CALLED)(type(sender._client))))
        )

    def send(self, request: JSONObject, timeout: float | None, way: Way = Way()) -> Any:
        """Make the call, its own timeout shortened to ``timeout``.

        Return the SDK's response, or an awaitable of it.
        """
        keywords = dict(request)

        if timeout is not None:
            keywords["timeout"] = _shortened(
                keywords.get("timeout", getattr(self.client, "timeout", None)), timeout
            )

        completions = self.resource
        if not is_openai(completions):
            return (way.through or completions.create)(**keywords)

        sender = self._sender_of(completions)
        if (
            way.through is None
            and sender is not completions
            and _is_untouched(sender._client, type(sender).create)
        ):
            keywords = with_header(keywords, RAW_RESPONSE, "true")
            posted = self._posts.of(sender, keywords)
            return sender.create(**keywords) if posted is None else sender._client.post(**posted)

        keywords = keywords if way.form is None else with_header(keywords, RAW_RESPONSE, "true")
        return (way.through or sender.create)(**keywords)

    def _sender_of(self, completions: Any) -> Any:
        if is_patched(completions) or type(completions).__module__.partition(".")[0] != "openai":
            return completions

        made_of, sender = self._sender
        if made_of is not completions:
            kind: Any = type(completions._client)
            alone: Any = object.__new__(_alone_class(kind))
            alone.__dict__ = completions._client.__dict__
            alone._bounded = (None, None)

            alone._joined = (None, "", None)
            sender = type(completions)(alone)
            sender._post = partial(_post_once, alone, self.wire)
            self._sender = completions, sender

        return sender

    def read(self, source: Any, limits: Limits) -> Sent:
        """Read a response as plain JSON; ``limits`` are those of the reply in it."""
        if is_raw(source):
            return Sent(read_body(source.content, limits), source)
        try:
            return Sent(as_json(source), source)
        except (TypeError, ValueError, RecursionError):  # not JSON, or nested beyond reading
            return Sent(None, source)

    def create(self, **keywords: Any) -> Any:
        """Call the client's own method, sending once and within bounds, as far as it is the SDK's."""
        return self._sender_of(self.resource).create(**keywords)

    def assembled(self, response: JSONObject, way: Way, reply: AssistantReply | None) -> Any:
        """Return the SDK's own completion for one that came as a stream."""
        if not is_openai(self.resource):
            return response
        given = sdk_type(self.wire).model_construct(**response)
        return given if way.finish is None or reply is None else way.finish(given, reply)

    def completion(
        self,
        sent: Sent,
        response: JSONObject,
        *,
        spliced: bool,
        way: Way = Way(),
        reply: AssistantReply | None = None,
    ) -> Any:
        """Return the SDK's own completion for a response, ``spliced`` or as sent.

        Itself where there is none.
        """
        came = sent.source
        is_form = way.form is not None and is_raw(sent.source)

        if isinstance(came, Came):
            came = came.parse()
        elif is_raw(came):
            came = parsed(self.wire, came)

        # of the object: a tracer may have put one around it
        construct = getattr(came, "model_construct", None) if spliced else None
        given = construct(**response) if callable(construct) else response if spliced else came

        if way.finish is not None and reply is not None:
            given = way.finish(given, reply)

        if (
            given is not came
            and "_request_id" in getattr(came, "__dict__", ())
            and hasattr(given, "__dict__")
        ):
            vars(given)["_request_id"] = came._request_id

        return (
            raw_response(sent.source, response if spliced else None, way.form or "", given)
            if is_form
            else given
        )


def is_openai(completions: Any) -> bool:
    """Return whether completions are the openai SDK's, by their class: only its ways to send are known to us."""
    kind: Any = type(completions)
    return _is_openais(kind)


@cache
def _is_openais(kind: Any) -> bool:
    return any(base.__module__.partition(".")[0] == "openai" for base in kind.__mro__)


def is_patched(completions: Any) -> bool:
    """Return whether ``create`` was replaced on the object.

    A patch that was undone may leave the class's own there.
    """
    create = vars(completions).get("create")
    return create is not None and getattr(create, "__func__", create) is not getattr(
        type(completions), "create", None
    )


def is_async_openai(completions: Any) -> bool:
    """Return whether completions are the openai SDK's async ones, whatever was put over their methods."""
    return any(base.__name__ == "AsyncAPIResource" for base in type(completions).__mro__)


def with_header(keywords: JSONObject, name: str, value: str) -> JSONObject:
    """Return the keywords of a call with one more header."""
    return keywords | {"extra_headers": {**(keywords.get("extra_headers") or {}), name: value}}


@cache
def _alone_class(kind: Any) -> Any:
    """Derive a class of clients that send each request once and within bounds."""
    inherited = getattr(
        kind, "_client", None
    )  # the client behind the SDK's module functions has it as a property
    joining = getattr(kind, "_prepare_url", None)

    class Alone(kind):  # type: ignore[misc]  # a class that is only known here
        __slots__ = ("_bounded", "_joined")
        _bounded: tuple[Any, Any]
        _joined: tuple[Any, str, Any]

        @property
        def _client(self) -> Any:
            now = vars(self)["_client"] if inherited is None else inherited.__get__(self)
            bounded = self._bounded
            if bounded[0] is not now:
                bounded = self._bounded = now, stand_in(now) or now
            return bounded[1]

        if is_of_base(joining):

            def _prepare_url(
                self, url: str
            ) -> Any:  # where it is made of these two alone: a tenth of a call's time
                if kind._prepare_url is not joining:
                    return super()._prepare_url(url)
                base = self.base_url
                joined = self._joined
                if joined[0] is not base or joined[1] != url:
                    joined = self._joined = base, url, super()._prepare_url(url)
                return joined[2]

    Alone.__name__ = kind.__name__
    return Alone


def _post_once(client: Any, wire: Wire, path: str, *, options: Any = None, **given: Any) -> Any:
    """Post what the SDK's ``create`` gives, once.

    The completion is parsed here if nobody stands below.
    """
    options = {**(options or {}), "max_retries": 0}
    headers = options.get("headers") or {}
    if given.get("stream") or RAW_RESPONSE in headers or not _is_untouched(client):
        return client.post(path, options=options, **given)

    sent = client.post(
        path, options=options | {"headers": {**headers, RAW_RESPONSE: "true"}}, **given
    )
    if not inspect.isawaitable(sent):
        return parsed(wire, sent)

    async def parsed_later() -> Any:
        return parsed(wire, await sent)

    return parsed_later()


def _is_untouched(client: Any, *above: Any) -> bool:
    kind = type(client)
    judged, verdict = getattr(kind, "_judged", ((), False))
    passed = _passed_by(kind)
    if not (
        judged and all(map(is_, passed, judged))
    ):  # by identity: a proxy of a tracer equals what it wraps
        kind._judged = passed, (verdict := all(map(is_sdks_own, passed)))
    return verdict and vars(client).keys().isdisjoint(_ON_THE_WAY) and all(map(is_sdks_own, above))


def _shortened(given: Any, left: float) -> Any:
    """Shorten a timeout to what is left of the deadline: a number, or the four parts of an HTTP library's own."""
    if isinstance(given, int | float):
        return min(given, left)
    if not all(hasattr(given, name) for name in _TIMEOUT_PARTS):
        return left
    parts = {name: getattr(given, name) for name in _TIMEOUT_PARTS}
    return type(given)(
        **{name: left if part is None else min(part, left) for name, part in parts.items()}
    )
