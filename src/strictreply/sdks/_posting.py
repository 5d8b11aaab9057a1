"""What the SDK's ``create`` would post, byte for byte, without its slow transform by types.

It also rebuilds the SDK's responses.
"""

from __future__ import annotations

import inspect
import json
import logging
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib import import_module
from json import JSONEncoder
from threading import Lock
from types import FunctionType, MethodType
from typing import Any, NoReturn, TypeGuard, TypeVar

from strictreply.contract._definitions import given as without_markers
from strictreply.sdks._bounds import ABOUT_BODY, check_size
from strictreply.sdks._known import HTTP_LIBRARIES, OF_CLIENTS, is_sdks_own, sdk_for, sdk_of
from strictreply.sdks._sdk import SDK, Door
from strictreply.sdks._shapes import HttpResponse, RawResponse
from strictreply.sdks._spans import tell_span
from strictreply.values._limits import JSONObject
from strictreply.values._requests import Definitions

K = TypeVar("K")
V = TypeVar("V")

RAW_RESPONSE = "X-Stainless-Raw-Response"
"""The header that makes methods of an SDK return the raw response.

The SDK sends it, so it is only in a request whose caller asked for a raw response.
"""


OBSERVED_FORM = "raw"
"""The value of that header for what an SDK gives to the middleware of a client."""


class Form(str):
    """A value of that header that strictreply sets: ``post`` is called for a raw response.

    The text is what is sent; if it is empty, the header is not sent.
    """

    __slots__ = ()


OUR_KEYWORDS = frozenset({"contract", "policy", "steering", "max_retries", "deadline"})

IDS = ("_request_id", "_workspace_id")
"""The ids of their request that the SDK's objects have; a raw response has them without ``_``."""

MAX_PLAIN_NODES = 2_000_000
"""How many values of a request are examined.

A request with more of them, or one that contains itself, is sent by the SDK's own ``create``.
"""

OPTIONS = {
    "extra_headers": "headers",
    "extra_query": "params",
    "extra_body": "extra_json",
    "timeout": "timeout",
}
"""The keywords of ``create`` that are not members of the request.

Each is given with the option of the SDK's ``post`` that it becomes.
"""

_MAX_FORMS = 256  # sets of keywords for which the arguments of ``post`` are cached

# Lists of tools whose text is cached: those of the contracts in use, and of narrowed requests.
_MAX_TEXTS = 8
_as_text = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

_SENDING = frozenset({"delete", "get", "get_api_list", "patch", "post", "put", "request"})

# The methods that get what is sent before it is encoded.
_READING = frozenset({"_build_request", "_build_headers"})
_STR = frozenset({str})
_SCALARS = frozenset({str, int, float, bool, type(None)})


def is_raw(source: object) -> TypeGuard[RawResponse]:
    """Return whether something is a raw response of the SDK.

    An object that a tracer has put around a raw response is one, too.
    """
    return is_http(getattr(source, "http_response", None))


def is_http(response: object) -> TypeGuard[HttpResponse]:
    """Return whether something is a response of a known HTTP library."""
    return type(response).__module__.partition(".")[0] in HTTP_LIBRARIES


def form_in(headers: Mapping[str, Any]) -> tuple[str | None, JSONObject]:
    """Return the form that headers request, None if they request none, and the other headers."""
    form = None
    others = {}
    for name, value in headers.items():
        if name.lower() == RAW_RESPONSE.lower():
            form = value or None
        else:
            others[name] = value

    return form, others


def with_form(options: Mapping[str, Any], form: str | None) -> JSONObject:
    """Return the options of a request with the header of a form, or without it."""
    headers = options.get("headers")
    if not form and not headers:
        return dict(options)

    kept = {name: value for name, value in dict(headers or {}).items() if name != RAW_RESPONSE}
    if form:
        kept[RAW_RESPONSE] = str(form)

    return {**options, "headers": kept}


@lru_cache(maxsize=64)
def _bare_options(sdk: SDK, path: str) -> object:
    """Return the SDK's options of a request in the form that its raw responses have."""
    return sdk.named("_models", "FinalRequestOptions").construct(method="post", url=path)


@dataclass(slots=True)
class Answering:
    """Makes the SDK's raw response of the HTTP library's response to a request.

    ``form`` is the form that the caller wants. ``stream_cls`` is the class of the stream, if the
    request is for a stream.
    """

    client: Any
    """The SDK's client."""
    door: Door
    """The namespace whose request it is."""
    form: str | None = None
    """The form that the caller wants, as in :class:`CallForm`."""
    is_stream: bool = False
    """Whether the request is for a stream."""
    stream_cls: Any = None
    """The class of the stream; None if the request is not for one."""

    def raw(self, sent: object) -> Any:
        """Return the raw response, read unless it is a stream; return anything else unchanged."""
        if inspect.isawaitable(sent):
            return self._araw(sent)

        http = _http_in(sent)
        if self._is_unread(http):
            http.read()
            check_size(http)

        return self._over(sent, http)

    async def _araw(self, waiting: Awaitable[object]) -> object:
        sent = await waiting
        http = _http_in(sent)
        if self._is_unread(http):
            await http.aread()
            check_size(http)

        return self._over(sent, http)

    def _is_unread(self, http: HttpResponse | None) -> TypeGuard[HttpResponse]:
        return http is not None and self.form == "stream" and not self.is_stream

    def _over(self, sent: object, http: HttpResponse | None) -> object:
        if http is None:
            return sent

        sdk = sdk_for(self.client)
        kind = sdk.response_type(self.door)
        if self.is_stream:
            event_of = partial(
                self.client._process_response_data,
                cast_to=sdk.event_type(self.door),
                response=http,
            )
            tell_span(http, self.door.wire.reader(), lambda plain: event_of(data=plain))

        raw_type = sdk.raw_type(None, is_async=is_async_client(self.client))

        if sent is not http:
            if getattr(sent, "_cast_to", None) is sdk.http_type:
                asked: Any = sent
                asked._cast_to = kind

            # coroutines read the newer kind of an older SDK
            newer = sdk.named("_response", "BaseAPIResponse")
            if self.is_stream or not isinstance(sent, newer) or type(sent) is raw_type:
                return sent

        return raw_type(
            raw=http,
            cast_to=kind,
            client=self.client,
            stream=self.is_stream,
            stream_cls=self.stream_cls,
            options=_bare_options(sdk, self.door.wire.path),
            retries_taken=0,
        )


def _http_in(sent: object) -> HttpResponse | None:
    """Return a value if it is an HTTP response, or the HTTP response in it; None otherwise."""
    if is_http(sent):
        return sent

    return sent.http_response if is_raw(sent) else None


@dataclass(slots=True)
class ReceivedResponse:
    """The parts of the SDK's own object for a response, without its request."""

    kind: Any
    """The SDK's class of the object."""
    validated: Callable[[Any, bytes], Any] | None
    """Makes the object of the body; None if the SDK has no such function."""
    content: bytes
    """The body of the response."""
    ids: Mapping[str, str | None]
    """The provider's ids of the request, by the attributes of the object."""
    made: Any = None
    """The object; None until it was made."""

    @classmethod
    def of(cls, door: Door, raw: object) -> ReceivedResponse | None:
        """Return the parts of a raw response of the SDK.

        None for anything else, and if only the SDK itself can parse it.
        """
        sdk = sdk_of(raw)
        source: Any = raw
        client = getattr(source, "_client", None)
        if sdk is None or type(raw) is not sdk.raw_type(None, is_async=is_async_client(client)):
            return None

        kind = sdk.response_type(door)

        if getattr(client, "_strict_response_validation", True):
            return None
        if callable(getattr(source._options, "post_parser", None)):
            return None
        if source._cast_to is not kind:
            return None

        # the SDK's own hook for subclasses
        hook = "_process_response_data"
        if hook in vars(client):
            return None

        called = (type(source).parse, getattr(type(client), hook))
        if not all(map(is_sdks_own, called)):
            return None

        return cls(kind, door.validated, source.http_response.content, _ids(source))

    def valid(self) -> object:
        """Return the object of a response in which every type is valid, faster than the SDK.

        None if it is not known whether every type is valid.
        """
        if self.validated is None:
            return None

        with suppress(ValueError):
            return self._with_ids(self.validated(self.kind, self.content))

        return None

    def parse(self) -> object:
        """Return the SDK's object of a response that is a JSON object."""
        if self.made is None:
            made = self.valid() or self.kind.construct(**json.loads(self.content))
            self.made = self._with_ids(made)
        return self.made

    def _with_ids(self, made: Any) -> Any:
        for name, value in self.ids.items():
            setattr(made, name, value)

        return made


def _ids(source: Any) -> dict[str, str | None]:
    told = {name: name.removeprefix("_") for name in IDS}
    return {name: getattr(source, said) for name, said in told.items() if hasattr(source, said)}


def parsed(door: Door, source: Any) -> Any:
    """Return the SDK's own object for a raw response; it is made once."""
    came = ReceivedResponse.of(door, source)
    if came is not None and came.kind not in source._parsed_by_type:
        made = came.valid()
        if made is not None:
            source._parsed_by_type[came.kind] = made

    return object_in_raw(source)


def object_in_raw(source: Any) -> Any:
    """Return the SDK's object of a raw response that was read, or that is a stream."""
    made = source.parse()
    if not inspect.iscoroutine(made):
        return made

    # parse() awaits only the body, which was already read
    try:
        made.send(None)
    except StopIteration as stop:
        return stop.value

    raise RuntimeError("a response was parsed before its body was read")


def raw_response(source: Any, replaced: JSONObject | None, form: str, parsed: object) -> Any:
    """Return a raw response of the SDK in a form, whose ``parse()`` returns ``parsed``.

    ``replaced`` is its new body; None keeps the body.
    """
    http = http_with(source.http_response, replaced, form)
    raw = raw_over(source, http, form, None)
    raw._parsed_by_type[source._cast_to] = parsed
    return raw


def http_with(http: HttpResponse, replaced: JSONObject | None, form: str | None) -> HttpResponse:
    """Return a response of an HTTP library with a new body, if there is one, in a form."""
    if replaced is None and form != "stream":
        return http

    body = http.content if replaced is None else json.dumps(replaced).encode()
    headers = [one for one in http.headers.multi_items() if one[0].lower() not in ABOUT_BODY]

    # with a stream the body is still to be read, as the SDK's caller expects
    stream = import_module(type(http).__module__.partition(".")[0]).ByteStream(body)
    given = {"stream": stream} if form == "stream" else {"content": body}

    kept = {"headers": headers, "request": http.request, "extensions": http.extensions}
    kind: Any = type(http)
    made: HttpResponse = kind(http.status_code, **kept, **given)

    with suppress(RuntimeError):  # a mock's response took no time
        made.elapsed = http.elapsed

    return made


def raw_over(source: Any, http: object, form: str | None, stream: object) -> Any:
    """Return a raw response of the SDK like ``source`` with another HTTP response in it.

    It has the form that the caller requested.
    """
    kind = sdk_for(source._client).raw_type(form, is_async=is_async_client(source._client))

    return kind(
        raw=http,
        stream=stream is not None,
        stream_cls=stream,
        retries_taken=source.retries_taken,
        cast_to=source._cast_to,
        client=source._client,
        options=source._options,
    )


def is_of_base(function: object, *usual: str) -> bool:
    """Return whether a method is the one that all of the SDK's clients share.

    It is not if one kind of client overrides it, except in the ``usual`` modules.
    """
    if not is_sdks_own(function):
        return False

    return str(function.__module__).partition(".")[2] in {OF_CLIENTS, *usual}


def is_async_client(client: object) -> bool:
    """Return whether a client is an SDK's async one."""
    return any(base.__name__ == "AsyncAPIClient" for base in type(client).__mro__)


def body_over(
    http: HttpResponse, pieces: object, write: Callable[[object], bytes], end: bytes
) -> HttpResponse:
    """Return a response like ``http`` with another body.

    The body is what ``write`` makes of ``pieces``, a generator, and then ``end``.
    """
    library = import_module(type(http).__module__.partition(".")[0])
    base = library.AsyncByteStream if hasattr(pieces, "aclose") else library.SyncByteStream
    headers = [one for one in http.headers.multi_items() if one[0].lower() not in ABOUT_BODY]
    kept = {name: value for name, value in http.extensions.items() if name != "network_stream"}

    body = _body_class(base)(pieces, write, end)
    kind: Any = type(http)
    made: HttpResponse = kind(
        http.status_code, headers=headers, request=http.request, stream=body, extensions=kept
    )
    return made


@cache
def _body_class(base: type) -> type:
    # derived from the library's class: HTTP libraries know sync and async bodies by their class
    return type("GuardedBody", (_Body, base), {})


class _Body:
    def __init__(self, pieces: object, write: Callable[[object], bytes], end: bytes) -> None:
        self._pieces: Any = pieces
        self._write = write
        self._end = end

    def __iter__(self) -> Iterator[bytes]:
        yield from map(self._write, self._pieces)
        yield self._end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            yield self._write(piece)
        yield self._end

    def close(self) -> None:
        self._pieces.close()

    async def aclose(self) -> None:
        await self._pieces.aclose()


class _Recent(dict[K, V]):
    """A cache of at most ``most`` values; the oldest is dropped first.

    Reading needs no lock: a value is either complete or missing.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._lock = Lock()

    def keep(self, key: K, value: V) -> None:
        """Store a value."""
        with self._lock:
            self[key] = value
            if len(self) > self._most:
                del self[next(iter(self))]


@dataclass(frozen=True, slots=True)
class _Form:
    """What ``create`` passes to ``post``."""

    posted: JSONObject
    """The arguments, with an empty value in place of each plain list and object of the request."""
    warnings: Sequence[tuple[str, type[Warning]]]
    """The warnings that it issues."""
    timeout: object
    """The client's timeout, if the arguments depend on it."""


class RequestEncoder:
    """The arguments that ``create`` passes to ``post``.

    The encoder runs ``create`` once for each set of keyword names, and of some values, and
    remembers the result.
    """

    __slots__ = ("_forms", "_read_values", "_texts")

    def __init__(self, read_values: frozenset[str] = frozenset()) -> None:
        self._read_values = read_values
        self._forms = _Recent[tuple[object, ...], _Form](_MAX_FORMS)
        self._texts = _Recent[tuple[int, ...], tuple[tuple[JSONObject, ...], str]](_MAX_TEXTS)

    def of(self, sender: Any, keywords: JSONObject) -> JSONObject | None:
        """Return the arguments that ``create`` would pass to ``post``.

        None if ``create`` rejects the keywords, or posts in an unknown way.
        """
        members = {name: value for name, value in keywords.items() if name not in OPTIONS}
        plain = {name: value for name, value in members.items() if _is_plain(value)}
        learnt = self._form(sender, members, plain)
        if learnt is None:
            return None

        for words, category in learnt.warnings:
            _warn_caller(sender, words, category)

        form = learnt.posted
        retries = sdk_for(sender._client).own_retries(sender._client)
        options = form["options"] | {"max_retries": retries}
        for name in OPTIONS.keys() & keywords.keys():
            given = keywords[name]
            if name == "extra_headers" and given is not None:
                given = {**options.get("headers", {}), **given}
            if name == "timeout" or given is not None:
                options[OPTIONS[name]] = given

        body = {name: plain.get(name, value) for name, value in form["body"].items()}
        is_plain = len(plain) == len(members) and not keywords.get("extra_headers")
        if is_plain and _takes_bytes(sender._client, options):
            return form | {"body": None, "content": self._encoded(body), "options": options}

        return form | {"body": body, "options": options}

    def _form(self, sender: Any, members: JSONObject, plain: JSONObject) -> _Form | None:
        """Return the arguments of ``post``, with an empty value in place of each plain one.

        None in the cases of :meth:`of`.
        """
        is_plain = len(plain) == len(members)
        read = self._read_values
        timeout = sender._client.timeout if read else None
        names: tuple[object, ...] = ()
        if is_plain:
            values = [_as_text(members[name]) for name in members if name in read]
            names = (type(sender).create, *members, bool(members.get("stream")), *values)

        known = self._forms.get(names)
        if known is not None and known.timeout is timeout:
            return known

        # an empty value of the same type replaces each list and each object
        stubs = {
            name: value if type(value) in _SCALARS or name in read else type(value)()
            for name, value in plain.items()
        }
        noted = _Noted()
        try:
            posted = sent_by(noted.taking(sender.create), members | stubs)
        except Exception:  # noqa: BLE001
            return None

        body = posted.get("body")
        options = posted.get("options")
        if not isinstance(body, dict) or not isinstance(options, dict):
            return None

        body = without_markers(body)
        if not plain.keys() - read <= body.keys():
            return None

        form = _Form(posted | {"body": body}, noted.kept, timeout)
        if is_plain:
            self._forms.keep(names, form)

        return form

    def _encoded(self, body: JSONObject) -> bytes:
        tools = body.get("tools")
        if type(tools) is not Definitions:
            return _as_text(body).encode()

        # the cache keeps a reference to the tools, so that their ids stay unique
        key = tuple(map(id, tools))
        kept = self._texts.get(key)
        if kept is None:
            kept = ((*tools,), _as_text(tools))
            self._texts.keep(key, kept)

        members = []
        for name, value in body.items():
            text = kept[1] if name == "tools" else _as_text(value)
            members.append(f"{_as_text(name)}:{text}")

        return f"{{{','.join(members)}}}".encode()


class _SentNothing(Exception):
    """Raised instead of sending."""


class _Sendless:
    """A namespace that sends nothing.

    strictreply runs the SDK's methods on it, to see what they would send and which errors they
    raise.
    """

    def __init__(self, client: object) -> None:
        self._client = _SendlessClient(client)

    def _post(self, path: str, **sent: object) -> NoReturn:
        # not in the exception's message, which a tracer records
        self.sent = {"path": path, **sent}
        raise _SentNothing


class _SendlessClient:
    """A client that sends nothing; the SDK's methods read its settings."""

    def __init__(self, client: object) -> None:
        self._inner = client

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        is_resource = any(base.__name__.endswith("APIResource") for base in type(found).__mro__)
        if name in _SENDING or is_resource:
            raise AttributeError(name)

        return found


def sent_by(method: MethodType, keywords: JSONObject) -> JSONObject:
    """Return what a method of the SDK would send; raise what it raises for the keywords."""
    if isinstance(keywords.get("tools"), Iterator):
        keywords["tools"] = list(keywords["tools"])

    namespace: Any = method.__self__
    sendless = _Sendless(getattr(namespace, "_client", None))
    try:
        called = method.__func__(sendless, **keywords)
        if inspect.iscoroutine(called):
            called.send(None)
    except _SentNothing:
        return sendless.sent

    raise TypeError(
        "this method of the SDK sends its request in a way that cannot be guarded; call create()"
    )


class _Noted:
    """Replaces the module ``warnings`` in a method of the SDK, and collects the warnings."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, type[Warning]]] = []

    def warn(
        self, message: str, category: type[Warning] = UserWarning, stacklevel: int = 1
    ) -> None:
        """Store a warning; ``stacklevel`` is ignored, because the frames are not the caller's."""
        del stacklevel
        self.kept.append((message, category))

    def taking(self, method: MethodType) -> MethodType:
        """Return a method of the SDK that warns here, if its module has warnings."""
        function: Any = inspect.unwrap(method.__func__)
        names = getattr(function, "__globals__", {})
        if names.get("warnings") is not warnings:
            return method

        made = FunctionType(
            function.__code__,
            {**names, "warnings": self},
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        made.__kwdefaults__ = function.__kwdefaults__
        return MethodType(made, method.__self__)


def _warn_caller(sender: object, words: str, category: type[Warning]) -> None:
    """Warn at the line of the program that calls strictreply or the SDK."""
    skipped = {__name__.partition(".")[0], type(sender).__module__.partition(".")[0]}
    level = 1
    frame = inspect.currentframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in skipped:
            break
        frame = frame.f_back
        level += 1

    warnings.warn(words, category, stacklevel=level)


def _takes_bytes(client: object, options: JSONObject) -> bool:
    """Return whether a client sends an encoded body without reading it first.

    The clients for clouds read it. A method that replaces the client's own may read it, too.
    """
    if "extra_json" in options or not _READING.isdisjoint(vars(client)):
        return False

    # a log at level DEBUG shows the members of the body
    if _log_of(sdk_for(client).package).isEnabledFor(logging.DEBUG):
        return False

    kind: Any = type(client)
    is_read = not all(map(is_of_base, (kind._build_request, kind._build_headers)))
    if is_read or not is_of_base(kind._prepare_options, "_client"):
        return False

    return _has_content(kind.post)


@cache
def _log_of(package: str) -> logging.Logger:
    return logging.getLogger(f"{package}.{OF_CLIENTS}")


@cache
def _has_content(post: Callable[..., object]) -> bool:
    return "content" in inspect.signature(post).parameters


def _is_plain(value: object) -> bool:
    """Return whether a value is JSON at every level, without recursion.

    A value that contains itself is not JSON.
    """
    if type(value) is Definitions:
        return True

    pending: list[Any] = [value]
    left = MAX_PLAIN_NODES

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
