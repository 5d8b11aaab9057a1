"""Sending one request through the wrapped client, and reading what came as plain JSON.

Plain JSON messages and tools bypass the SDK's type-driven transform (``extra_body``), which sends the same bytes for
a fraction of the time, and the response is read from its raw body. That is done only where nobody stands between us and
the SDK: what has replaced the SDK's ``create`` (a tracer, a cache, a test's spy) is called as any program calls it, and
sees the real request and the SDK's own completion.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from operator import attrgetter, is_
from threading import Lock
from typing import Any

from strictreply.client._exchange import bounded, stand_in
from strictreply.client._observing import CallObserver
from strictreply.client._sdk_responses import is_raw, is_sdks_own, raw_response
from strictreply.contract._definitions import Definitions
from strictreply.values._json import JSON, JSONObject
from strictreply.values._limits import Limits
from strictreply.values._replies import AssistantReply
from strictreply.wires._received import ENVELOPE_FACTOR, as_json, read_body
from strictreply.wires._wire import WIRES, Wire

MAX_PLAIN_NODES = 2_000_000
"""How many values of a request are examined; one with more, or that contains itself, takes the SDK's own way."""

RAW_RESPONSE = "X-Stainless-Raw-Response"
"""The header by which methods of the openai SDK are told to return the raw response; it never leaves the SDK."""

_RETRY_COUNT = "x-stainless-retry-count"  # where the SDK itself counts its repeats

_CALLED = ("post", "request")
_ON_THE_WAY = (*_CALLED, "_prepare_options", "_build_request")
"""The methods of the SDK's clients that a request passes as an object: whoever replaces one must see the real one.

The last two are the SDK's own hooks for subclasses, the first two where tracers stand.
"""

_passed_by = attrgetter(*_ON_THE_WAY)

_TIMEOUT_PARTS = ("connect", "read", "write", "pool")


_passing: ContextVar[Transport | None] = ContextVar("strictreply_passing", default=None)


def is_passing(transport: Transport) -> bool:
    """Return whether this is a request of ours, on its way through a method that somebody has put over ``create``."""
    return _passing.get() is transport


@dataclass(frozen=True, slots=True)
class Sent:
    """A response: ``plain`` is its JSON, None when its body is not JSON; ``source`` is what the SDK returned.

    ``is_stream`` says that the JSON was put together from the chunks of a stream.
    """

    plain: JSON
    source: Any
    is_stream: bool = False


@dataclass(frozen=True, slots=True)
class Way:
    """How a call was made, where not by a method of ours.

    ``form`` is what the SDK's own wrappers want: ``true`` its raw response, ``stream`` that of
    ``with_streaming_response``, None a completion. ``finish`` is what its ``parse`` makes of a completion and the
    reply in it. ``through`` is called instead of the client's ``create``.
    """

    form: str | None = None
    finish: Callable[[Any, AssistantReply], Any] | None = None
    through: Any = None


class Transport:
    """The one way to an API: the ``create`` of a client's resource, whose own retries we do not use.

    Retries have one owner, the policy. No state of the client is copied: what is set on it later, a key, an address
    or a patch, counts at the next request.

    Raises TypeError when the object has no such method.
    """

    __slots__ = ("_judged", "_sender", "client", "wire")

    def __init__(self, client: Any, wire: Wire = WIRES["chat"]) -> None:
        resource = client
        for name in wire.resource.split("."):
            resource = getattr(resource, name, None)
        if not callable(getattr(resource, "create", None)):
            raise TypeError(f"wrap() needs a client with {wire.resource}.create, such as openai.OpenAI()")
        self.client: Any = client
        self.wire: Wire = wire
        self._sender: tuple[Any, Any] = (None, None)
        self._judged: tuple[tuple[Any, ...], bool] = ((), False)

    @property
    def resource(self) -> Any:
        """The client's own namespace of the API, as it is now."""
        return attrgetter(self.wire.resource)(self.client)

    def owned_retries(self) -> int | None:
        """Return how often a request that failed may be repeated by the client's own word; None when it has none.

        0 where the client repeats it by itself.
        """
        said = getattr(self.client, "max_retries", None)
        return None if type(said) is not int else 0 if self.repeats_itself() else said

    def repeats_itself(self) -> bool:
        """Return whether the client repeats what failed, and has a ``create`` that cannot be told to send once."""
        completions, said = self.resource, getattr(self.client, "max_retries", None)
        return type(said) is int and said > 0 and self._sender_of(completions) is completions

    def is_seen(self, way: Way) -> bool:
        """Return whether somebody stands between us and the SDK: a tracer, as far as we know, which sees each ask."""
        completions = self.resource
        if way.through is not None or not is_openai(completions):
            return way.through is not None
        sender = self._sender_of(completions)
        kind, state = type(sender._client), vars(sender._client)
        passed = type(sender).create, *(getattr(kind, name) for name in _CALLED)
        if is_patched(completions) or not state.keys().isdisjoint(_CALLED):
            return True
        return not all(map(is_sdks_own, passed))

    def send(self, request: JSONObject, timeout: float | None, way: Way = Way()) -> Any:
        """Make the call; return what the SDK returns, an awaitable from an async client.

        ``timeout`` shortens the request's own.
        """
        keywords = dict(request)
        if timeout is not None:
            keywords["timeout"] = _shortened(keywords.get("timeout", getattr(self.client, "timeout", None)), timeout)
        completions = self.resource
        if not is_openai(completions):
            return (way.through or completions.create)(**keywords)
        sender = self._sender_of(completions)
        if way.through is None and sender is not completions and self._is_untouched(sender):
            moved = _past_transform(keywords, self.wire.plain_members)
            return sender.create(**with_header(moved, RAW_RESPONSE, "true"))
        keywords = keywords if way.form is None else with_header(keywords, RAW_RESPONSE, "true")
        return (way.through or sender.create)(**keywords)

    def _sender_of(self, completions: Any) -> Any:
        """Return the SDK's completions over a client that sends once and within bounds; patched ones as they are."""
        if is_patched(completions) or type(completions).__module__.partition(".")[0] != "openai":
            return completions
        made_of, sender = self._sender
        if made_of is not completions:
            alone = _alone(completions._client)
            sender = type(completions)(alone)
            sender._post = partial(_post_once, alone)
            self._sender = completions, sender
        return sender

    def _is_untouched(self, sender: Any) -> bool:
        """Return whether nothing but the SDK's own code lies between us and the HTTP client."""
        kind = type(sender._client)
        passed = type(sender).create, *_passed_by(kind)
        if not (self._judged[0] and all(map(is_, passed, self._judged[0]))):
            self._judged = passed, all(map(is_sdks_own, passed))
        return self._judged[1] and vars(sender._client).keys().isdisjoint(_ON_THE_WAY)

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
        given = self.sdk_type().model_construct(**response)
        return given if way.finish is None or reply is None else way.finish(given, reply)

    def sdk_type(self, *, of_event: bool = False) -> Any:
        """Return the SDK's class of a response of this API, or of an event of its streams."""
        module, response, event = self.wire.sdk_types
        return getattr(import_module(module), event if of_event else response)

    def completion(
        self, sent: Sent, response: JSONObject, *, spliced: bool, way: Way = Way(), reply: AssistantReply | None = None
    ) -> Any:
        """Return the SDK's own completion for a response, or the response itself where there is no SDK model.

        ``spliced`` says that the response is not what was sent; ``reply`` is what it was judged to be.
        """
        source = sent.source
        given = came = source.parse() if is_raw(source) else source
        if spliced:
            construct = getattr(given, "model_construct", None)  # of the object: a tracer may have put one around it
            given = construct(**response) if callable(construct) else response
        if way.finish is not None and reply is not None:
            given = way.finish(given, reply)
        if given is not came and "_request_id" in getattr(came, "__dict__", ()) and hasattr(given, "__dict__"):
            vars(given)["_request_id"] = came._request_id
        if way.form is None or not is_raw(source):
            return given
        return raw_response(source, response if spliced else None, way.form, given)


def is_openai(completions: Any) -> bool:
    """Return whether completions are the openai SDK's, by their class: only its ways to send are known to us."""
    return any(base.__module__.partition(".")[0] == "openai" for base in type(completions).__mro__)


def is_patched(completions: Any) -> bool:
    """Return whether ``create`` was replaced on the object; a patch that was undone may leave the class's own there."""
    create = vars(completions).get("create")
    return create is not None and getattr(create, "__func__", create) is not getattr(type(completions), "create", None)


def is_async_openai(completions: Any) -> bool:
    """Return whether completions are the openai SDK's async ones, whatever was put over their methods."""
    return any(base.__name__ == "AsyncAPIResource" for base in type(completions).__mro__)


def with_header(keywords: JSONObject, name: str, value: str) -> JSONObject:
    """Return the keywords of a call with one more header."""
    return keywords | {"extra_headers": {**(keywords.get("extra_headers") or {}), name: value}}


def _alone(client: Any) -> Any:
    """Return a client of the same class and with the same state, which sends each request once and within bounds."""
    kind: Any = type(client)
    alone: Any = object.__new__(_alone_class(kind))
    alone.__dict__ = client.__dict__
    alone._bounded = (None, None)
    return alone


@cache
def _alone_class(kind: Any) -> Any:
    inherited = getattr(kind, "_client", None)  # the client behind the SDK's module functions has it as a property

    class Alone(kind):  # type: ignore[misc]  # a class that is only known here
        __slots__ = ("_bounded",)
        _bounded: tuple[Any, Any]

        @property
        def _client(self) -> Any:
            now = vars(self)["_client"] if inherited is None else inherited.__get__(self)
            if self._bounded[0] is not now:
                self._bounded = now, stand_in(now) or now
            return self._bounded[1]

    Alone.__name__ = kind.__name__
    return Alone


def _post_once(client: Any, path: str, *, options: Any = None, **given: Any) -> Any:
    # in the options, not on the client: what was patched over a method of it goes on to the client as it was
    return client.post(path, options={**(options or {}), "max_retries": 0}, **given)


class RetryBucket:
    """The tokens of :attr:`RetryPolicy.quota` that the calls of one wrapped client have taken; for any thread.

    Designed after the standard retry mode of the AWS SDKs (a bucket of 500 tokens, 5 for a repeat; a success gives
    back what its repeat took, or 1) and the retry throttling of gRPC (proposal A6): when most calls fail, repeating
    each of them would multiply the load on a server that is down already.
    """

    __slots__ = ("_lock", "_taken")

    def __init__(self) -> None:
        self._lock = Lock()
        self._taken = 0

    def take(self, quota: int) -> bool:
        """Take the tokens of one repeat; return False when more than ``quota`` repeats would be out."""
        with self._lock:
            if self._taken + _REPEAT_TOKENS > quota * _REPEAT_TOKENS:
                return False
            self._taken += _REPEAT_TOKENS
            return True

    def give_back(self, *, repeated: bool) -> None:
        """Return the tokens of a repeat that succeeded, or one token for a call that succeeded at once."""
        with self._lock:
            self._taken = max(0, self._taken - (_REPEAT_TOKENS if repeated else 1))


_REPEAT_TOKENS = 5


@dataclass(slots=True)
class Sending:
    """The requests of one call: the transport they take, the caps of the reply, and the response that came last.

    ``raised`` is what came instead of a response after that, None when nothing did. ``clock`` gives seconds. ``at`` is
    when the last event happened, ``until`` when the deadline passes, None without one. ``repeats`` counts how often the
    request at hand was repeated.
    """

    transport: Transport
    limits: Limits
    bucket: RetryBucket = field(default_factory=RetryBucket)
    last: Sent | None = None
    raised: Exception | None = None
    clock: Callable[[], float] = time.monotonic
    at: float = field(init=False)
    until: float | None = None
    repeats: int = 0
    way: Way = Way()
    observer: CallObserver | None = None

    def __post_init__(self) -> None:
        self.at = self.clock()

    def lap(self) -> float:
        """Return the seconds since the last event, the time between two effects included."""
        before, self.at = self.at, self.clock()
        return self.at - before

    def begin(self, timeout: float | None) -> float:
        """Begin a request that was given ``timeout`` seconds at the last event; return the seconds since then."""
        before = self.at
        self.until = None if timeout is None else before + timeout
        return self.lap()

    def left(self) -> float | None:
        """Return the seconds that are left of the deadline, not below 0; None without a deadline."""
        return None if self.until is None else max(0.0, self.until - self.clock())

    def send(self, request: JSONObject, timeout: float | None) -> Any:
        """Make one call; see :meth:`Transport.send`."""
        request = with_header(request, _RETRY_COUNT, str(self.repeats)) if self.repeats else request
        return self.transport.send(request, timeout, self.way)

    @contextmanager
    def bounds(self, request: JSONObject) -> Generator[None]:
        """Bound what is sent inside by the deadline and the caps."""
        token = _passing.set(None if self.way.through is None else self.transport)
        observed = nullcontext() if self.observer is None else self.observer.asking(request)
        try:
            with observed, bounded(self.left(), self.limits.reply_bytes * ENVELOPE_FACTOR):
                yield
        finally:
            _passing.reset(token)

    def reading(self) -> AbstractContextManager[None]:
        """Bound one read of a stream that was opened inside of :meth:`bounds`."""
        left = self.left()
        return nullcontext() if left is None else bounded(left, self.limits.reply_bytes * ENVELOPE_FACTOR)

    def take(self, quota: int) -> bool:
        """Take the tokens of a repeat; see :meth:`RetryBucket.take`."""
        granted = self.bucket.take(quota)
        self.repeats += granted
        return granted

    def succeeded(self) -> None:
        """Return tokens for a call that brought a completion, however it was judged."""
        self.bucket.give_back(repeated=self.repeats > 0)
        self.repeats = 0

    def receive(self, source: Any) -> JSON:
        """Keep a response, and return it as plain JSON."""
        self.last, self.raised = self.transport.read(source, self.limits), None
        return self.last.plain

    def completion(self, response: JSONObject, *, spliced: bool, reply: AssistantReply | None = None) -> Any:
        """Return the SDK's own completion for the response that came last; see :meth:`Transport.completion`."""
        if self.last is None or self.last.is_stream:
            return self.transport.assembled(response, self.way, reply)
        return self.transport.completion(self.last, response, spliced=spliced, way=self.way, reply=reply)


def _shortened(given: Any, left: float) -> Any:
    """Shorten a timeout to what is left of the deadline: a number, or the four parts of an HTTP library's own."""
    if isinstance(given, int | float):
        return min(given, left)
    parts = {name: getattr(given, name, None) for name in _TIMEOUT_PARTS}
    if not all(hasattr(given, name) for name in _TIMEOUT_PARTS):
        return left
    return type(given)(**{name: left if part is None else min(part, left) for name, part in parts.items()})


def _past_transform(keywords: JSONObject, members: Mapping[str, JSON]) -> JSONObject:
    """Move what is plain JSON into ``extra_body``; the caller's own ``extra_body`` keeps the last word.

    ``members`` may be moved; the value of each keeps its position in the body.
    """
    moved = {name: keywords[name] for name in members if name in keywords and _is_plain(keywords[name])}
    given = keywords.get("extra_body")
    body = moved | dict(given) if isinstance(given, Mapping) else moved
    return keywords | {name: members[name] for name in moved} | {"extra_body": body}


def _is_plain(value: Any) -> bool:
    """Return whether a value is JSON at every level, without recursion; a value that contains itself is not."""
    if type(value) is Definitions:
        return True
    pending, left = [value], MAX_PLAIN_NODES
    while pending:
        if left < 0:
            return False
        one = pending.pop()
        kind = type(one)
        if kind is dict:
            if not _STR.issuperset(map(type, one)):
                return False
            pending.extend(one.values())
            left -= len(one)
        elif kind is list:
            pending.extend(one)
            left -= len(one)
        elif kind not in _SCALARS:
            return False
    return True


_STR = frozenset({str})
_SCALARS = frozenset({str, int, float, bool, type(None)})
