"""Sending one request through the wrapped client, and reading what came as plain JSON.

Plain JSON messages and tools bypass the SDK's type-driven transform (``extra_body``), which sends the same bytes for
a fraction of the time; anything else takes the SDK's own way. The response is read from its raw body, so the SDK's
model of it is only built when somebody wants it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, cast

import jiter

from strictreply.client._exchange import bounded, stand_in
from strictreply.contract._definitions import Definitions
from strictreply.reading._decoding import decode
from strictreply.values._issues import Code
from strictreply.values._json import JSON, JSONObject
from strictreply.values._limits import MAX_JSON_DEPTH, Limits
from strictreply.values._replies import Invalid

ENVELOPE_FACTOR = 16
"""How many times as large as a reply a whole response may be: it also carries log probabilities and usage."""

MAX_PLAIN_NODES = 2_000_000
"""How many values of a request are examined; one with more, or that contains itself, takes the SDK's own way."""

_PAST_TRANSFORM: Mapping[str, JSON] = {"messages": [], "tools": [], "response_format": {"type": "text"}}
"""What may bypass the transform, and the placeholder that keeps its position in the body."""

_TIMEOUT_PARTS = ("connect", "read", "write", "pool")


@dataclass(frozen=True, slots=True)
class Sent:
    """A response: ``plain`` is its JSON, None when its body is not JSON; ``source`` is what the SDK returned."""

    plain: JSON
    source: Any


class Transport:
    """The one way to the API: a copy of a client with ``chat.completions.create``, its own retries turned off.

    Retries have one owner, the policy. ``raw`` is true for the openai SDK, whose raw body is read; what other clients
    return is read as an object.

    Raises TypeError when the object has no such method.
    """

    __slots__ = ("client", "raw")

    def __init__(self, client: Any) -> None:
        completions = getattr(getattr(client, "chat", None), "completions", None)
        if not callable(getattr(completions, "create", None)):
            raise TypeError("wrap() needs a client with chat.completions.create, such as openai.OpenAI()")
        self.raw = _is_openai(completions)
        self.client = _own_copy(client, completions)

    def send(self, request: JSONObject, timeout: float | None) -> Any:
        """Make the call; return what the SDK returns, an awaitable from an async client."""
        keywords = dict(request)
        if timeout is not None:
            keywords["timeout"] = _shortened(keywords.get("timeout", getattr(self.client, "timeout", None)), timeout)
        completions = self.client.chat.completions
        if not self.raw:
            return completions.create(**keywords)
        return completions.with_raw_response.create(**_past_transform(keywords))

    def read(self, source: Any, limits: Limits) -> Sent:
        """Read a response as plain JSON; ``limits`` are those of the reply in it."""
        if self.raw:
            return Sent(_envelope(source.content, limits), source)
        try:
            return Sent(as_json(source), source)
        except (TypeError, ValueError, RecursionError):  # not JSON, or nested beyond reading
            return Sent(None, source)

    def completion(self, sent: Sent, response: JSONObject, *, spliced: bool) -> Any:
        """Return the SDK's own completion for a response, or the response itself where there is no SDK model."""
        given = sent.source.parse() if self.raw else sent.source
        if not spliced:
            return given
        construct = getattr(type(given), "model_construct", None)
        return construct(**response) if callable(construct) else response


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

    ``clock`` gives seconds. ``at`` is when the last event happened, ``until`` when the deadline passes, None without
    one.
    """

    transport: Transport
    limits: Limits
    bucket: RetryBucket = field(default_factory=RetryBucket)
    last: Sent | None = None
    clock: Callable[[], float] = time.monotonic
    at: float = field(init=False)
    until: float | None = None
    repeated: bool = False

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
        return self.transport.send(request, timeout)

    def bounds(self) -> AbstractContextManager[None]:
        """Bound what is sent inside by the deadline and the caps."""
        return bounded(self.left(), self.limits.reply_bytes * ENVELOPE_FACTOR)

    def take(self, quota: int) -> bool:
        """Take the tokens of a repeat; see :meth:`RetryBucket.take`."""
        self.repeated = self.bucket.take(quota)
        return self.repeated

    def succeeded(self) -> None:
        """Return tokens for a call that brought a completion, however it was judged."""
        self.bucket.give_back(repeated=self.repeated)
        self.repeated = False

    def receive(self, source: Any) -> JSON:
        """Keep a response, and return it as plain JSON."""
        self.last = self.transport.read(source, self.limits)
        return self.last.plain

    def completion(self, response: JSONObject, *, spliced: bool) -> Any:
        """Return the SDK's own completion for the response that came last; see :meth:`Transport.completion`."""
        return None if self.last is None else self.transport.completion(self.last, response, spliced=spliced)


def _envelope(body: bytes, limits: Limits) -> JSON:
    """Read the body of a response; None when it is not strict JSON, or beyond the caps.

    Only numbers that are not finite are tolerated, as null: servers send them in what is not ours, such as log
    probabilities. The reply itself is text in the body, and read strictly afterwards.
    """
    nodes, size = limits.nodes * ENVELOPE_FACTOR, limits.reply_bytes * ENVELOPE_FACTOR
    around = Limits(reply_bytes=size, depth=MAX_JSON_DEPTH, nodes=nodes, calls=limits.calls)
    value = decode(body, around)
    if not isinstance(value, Invalid):
        return value
    if any(issue.code != Code.JSON_NOT_FINITE.value for issue in value.issues):
        return None
    return _finite(cast("JSON", jiter.from_json(body, allow_inf_nan=True)))


def _finite(value: JSON) -> JSON:
    """Replace each number that is not finite by null; the value is no deeper than the reader allowed."""
    match value:
        case dict():
            return {name: _finite(member) for name, member in value.items()}
        case list():
            return [_finite(member) for member in value]
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value


def _shortened(given: Any, left: float) -> Any:
    """Shorten a timeout to what is left of the deadline: a number, or the four parts of an HTTP library's own."""
    if isinstance(given, int | float):
        return min(given, left)
    parts = {name: getattr(given, name, None) for name in _TIMEOUT_PARTS}
    if not all(hasattr(given, name) for name in _TIMEOUT_PARTS):
        return left
    return type(given)(**{name: left if part is None else min(part, left) for name, part in parts.items()})


def as_json(value: Any) -> JSON:
    """Return an SDK object or a mapping as plain JSON; raise TypeError for anything else, as json.dumps does."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return cast("JSON", dump(mode="json", exclude_unset=True, warnings=False))
    if isinstance(value, Mapping):
        return {str(name): as_json(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(member) for member in cast("Sequence[object]", value)]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{type(value).__name__} is not JSON")


def _own_copy(client: Any, completions: Any) -> Any:
    """Copy an SDK's client with its own retries off, and what it sends bounded; other clients are used as they are.

    Behind a program's own client the SDK's is found by its ``completions``, if these are its own and not patched.
    """
    sdk = client if callable(getattr(client, "with_options", None)) else getattr(completions, "_client", None)
    with_options: Any = getattr(sdk, "with_options", None)
    if not callable(with_options) or not hasattr(sdk, "max_retries"):
        return client
    instead = stand_in(getattr(sdk, "_client", None))
    own: Any = with_options(max_retries=0, **({} if instead is None else {"http_client": instead}))
    alike = sdk is client or (type(own.chat.completions) is type(completions) and "create" not in vars(completions))
    return own if alike else client


def _is_openai(completions: Any) -> bool:
    # by its class, also behind a program's own client: only its raw responses are known to us
    return any(base.__module__.partition(".")[0] == "openai" for base in type(completions).__mro__)


def _past_transform(keywords: JSONObject) -> JSONObject:
    """Move what is plain JSON into ``extra_body``; the caller's own ``extra_body`` keeps the last word."""
    moved = {name: keywords[name] for name in _PAST_TRANSFORM if name in keywords and _is_plain(keywords[name])}
    given = keywords.get("extra_body")
    body = moved | dict(given) if isinstance(given, Mapping) else moved
    return keywords | {name: _PAST_TRANSFORM[name] for name in moved} | {"extra_body": body}


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
