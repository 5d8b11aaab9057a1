"""Sending one request through the wrapped client, and reading the response as plain JSON.

The request bypasses the SDK's type-driven transform, which saves most of the time. If another
program has replaced a method of the SDK on the way, such as a tracer, a cache or a test's spy, that
method is called as usual.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter, is_
from types import MethodType, ModuleType
from typing import Any

from strictreply.sdks._bounds import stand_in
from strictreply.sdks._built import TIMEOUT_PARTS, Templates, send_posted
from strictreply.sdks._calling import called_with
from strictreply.sdks._known import (
    is_plainly_of_sdk,
    is_sdks_own,
    member_at,
    sdk_for,
    sdk_of,
    sdk_of_clients,
)
from strictreply.sdks._low_requests import Posting
from strictreply.sdks._posting import (
    IDS,
    OBSERVED_FORM,
    RAW_RESPONSE,
    Answering,
    Form,
    ReceivedResponse,
    RequestEncoder,
    is_of_base,
    is_raw,
    parsed,
    raw_response,
    with_form,
)
from strictreply.sdks._sdk import Door
from strictreply.sdks._shapes import HttpResponse
from strictreply.values._issues import Issue
from strictreply.values._limits import JSON, JSONObject, Limits
from strictreply.values._mistakes import IN_CALLS, with_meant
from strictreply.values._replies import AssistantReply
from strictreply.wires._bodies import JSON_OBJECT, not_asked, told_body
from strictreply.wires._members import as_json
from strictreply.wires._wire import Wire

_OURS = ("contract", "policy", "steering", "max_retries", "deadline")
"""The keywords of a call that strictreply takes itself; the SDK's method does not name them."""

_CALLED = ("post", "request")
_ON_THE_WAY = (*_CALLED, "_prepare_options", "_build_request", "_process_response_data")
"""The SDK's methods that a request passes; tracers replace the first two.

A program that replaces one of them sees the real call.
"""

_passed_by = attrgetter(*_ON_THE_WAY)

_UNAUTHORIZED = 401  # the token is not valid, or no longer valid

_ASYNC = ("AsyncAPIClient", "AsyncAPIResource")

passing: ContextVar[Transport | None] = ContextVar("strictreply_passing", default=None)
"""The transport whose request is passing through a method that has replaced ``create``."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A response: its JSON (None if it has none), and the SDK's object for it.

    ``is_stream`` says that the SDK returned a stream. ``fault`` reports a body that is not JSON.
    """

    plain: JSON
    source: Any
    is_stream: bool = False
    fault: Issue | None = None


@dataclass(frozen=True, slots=True)
class CallForm:
    """How a call was made, if not by our own methods."""

    form: str | None = None
    """The header's value for the SDK's raw response (``stream``: one that is read later).

    None for a completion.
    """
    path: str | None = None
    """The path of the request's namespace; None for the usual namespace of its API."""
    finish: Callable[[Any, AssistantReply | None], Any] | None = None
    """Parses a completion and its reply, which is None if it is not valid; None for no parsing."""
    through: Any = None
    """A function to call instead of the client's ``create``; None for ``create``."""
    posting: Posting | None = None
    """Makes each request of a call by one of the client's low-level methods; None otherwise."""


class Transport:
    """Sends all requests of an API: by ``create`` of a client's resource, without its retries.

    The client's state is not copied, so later changes of it apply. Raises TypeError if it has no
    ``create``.
    """

    __slots__ = ("_alone", "_first", "_posts", "_resource_of", "_sender", "client", "door", "path")

    def __init__(self, client: object, path: str = "") -> None:
        """Use the namespace at a path; by default the client's first one."""
        sdk = sdk_for(client)
        path = path or next(iter(sdk.doors))
        door = sdk.doors[path]
        resource = member_at(client, path)
        if not callable(getattr(resource, "create", None)):
            needed = f"wrap() needs a client with {path}.create, such as {sdk.example}"
            raise TypeError(f"{needed}{_instead_of_client(client, door.wire)}")

        self.client: Any = client
        self.path: str = path
        self.door: Door = door
        self._resource_of = attrgetter(path)
        self._first = resource
        self._posts = RequestEncoder(door.read_values)
        self._sender: tuple[Any, Any] = (None, None)
        self._alone: Any = None

    @property
    def wire(self) -> Wire:
        """The API of the requests."""
        return self.door.wire

    @property
    def resource(self) -> Any:
        """The client's present namespace of the API."""
        return self._resource_of(self.client)

    @property
    def alone(self) -> Any:
        """A client over the state of the SDK's client, which sends each request once, bounded."""
        if self._alone is None:
            self._alone = _alone_over(self.client)
        return self._alone

    def retries(self, way: CallForm = CallForm()) -> tuple[int | None, bool]:
        """Return the retries of transport failures, and whether the client itself repeats.

        The number is the client's ``max_retries``, or that of the request; None without either. It
        is 0 if the client itself repeats.
        """
        if way.posting is not None:
            asked = way.posting.max_retries
            return getattr(self.client, "max_retries", None) if asked is None else asked, False

        said = getattr(self.client, "max_retries", None)
        if type(said) is not int:
            return None, False

        completions = self.resource
        is_repeating = said > 0 and self._sender_of(completions) is completions
        return 0 if is_repeating else said, is_repeating

    def is_seen(self, way: CallForm) -> bool:
        """Return whether another program, probably a tracer, sees each request."""
        if sdk_for(self.client).is_observing(self.client):
            return True
        if way.posting is not None:
            return _is_called_by_others(self.alone)

        completions = self.resource
        if way.through is not None or sdk_of(completions) is None:
            return way.through is not None

        sender = self._sender_of(completions)
        if is_patched(completions) or not is_sdks_own(type(sender).create):
            return True

        return _is_called_by_others(sender._client)

    def send(self, request: JSONObject, timeout: float | None, way: CallForm = CallForm()) -> Any:
        """Send a request; return the SDK's response, or an awaitable of it.

        ``timeout`` limits the request's own timeout, in seconds; None does not.
        """
        try:
            return self._sent(dict(request), timeout, way)
        except TypeError as error:
            # the SDK's method does not take a keyword
            known = (*_keywords_of(self.resource.create), *_OURS)
            meant = with_meant(error, IN_CALLS, known)
            if meant is error:
                raise
            raise meant from None

    def timed(self, request: JSONObject) -> JSONObject:
        """Return a correction with the client's own timeout as a keyword.

        Without it, anthropic's SDK refuses the higher token limit of a correction, because it
        estimates that the request takes too long.
        """
        own: Any = getattr(self.client, "timeout", None)
        is_needed = self.wire.name == "messages" and own is not None
        return {"timeout": own, **request} if is_needed else request

    def _sent(self, keywords: JSONObject, timeout: float | None, way: CallForm) -> Any:
        is_stream = bool(keywords.get("stream"))
        if timeout is not None:
            given = keywords.get("timeout", getattr(self.client, "timeout", None))
            keywords["timeout"] = _shortened(given, timeout)

        if way.posting is not None:
            return self._posted(way.posting, keywords)

        completions = self.resource
        if sdk_of(completions) is None:
            # a foreign namespace may call the wrapped client's own again
            return called_with(
                passing, self, partial(way.through or completions.create, **keywords)
            )

        sender = self._sender_of(completions)
        is_ours = way.through is None and sender is not completions
        is_observed = is_ours and sdk_for(sender._client).is_observing(sender._client)
        if is_ours and not is_observed and _is_untouched(sender._client, type(sender).create):
            posted = self._posts.of(sender, keywords)
            if posted is not None:
                return _raw_posted(sender._client, self.door, posted, way.form)

            return sender.create(**with_header(keywords, RAW_RESPONSE, Form(way.form or "")))

        form = way.form or (OBSERVED_FORM if is_observed else None)
        if form is not None:
            keywords = with_header(keywords, RAW_RESPONSE, form)

        call = partial(way.through or sender.create, **keywords)
        is_called = _is_called_by_others(sender._client)

        # a method that replaced the SDK's may call the wrapped client's own method again
        sent = called_with(passing, self, call) if is_called else call()
        if form is None:
            return sent

        return Answering(sender._client, self.door, form, is_stream).raw(sent)

    def _posted(self, posting: Posting, keywords: JSONObject) -> object:
        client = self.alone
        untouched = _is_untouched(client, getattr(type(client), posting.method))
        send = partial(posting.send, client, self.door, keywords, untouched=untouched)

        # a method that replaced the SDK's may call the wrapped client's own method again
        return send() if untouched else called_with(passing, self, send)

    def fetch(self, stored: Posting) -> Any:
        """Request a stored reply like the SDK, with the SDK's own retries.

        Return the raw response, or an awaitable of it.
        """
        client = self.alone
        method = stored.method
        untouched = method not in vars(client) and _is_untouched(
            client, getattr(type(client), method)
        )
        fetch = partial(stored.fetch, client, self.door)
        return fetch() if untouched else called_with(passing, self, fetch)

    def _sender_of(self, completions: Any) -> Any:
        if is_patched(completions) or not is_plainly_of_sdk(completions):
            return completions

        made_of, sender = self._sender
        if made_of is not completions:
            alone = _alone_over(completions._client)
            sender = type(completions)(alone)
            sender._post = partial(_post_once, alone, self.door)
            self._sender = (completions, sender)

        return sender

    def read(self, source: object, limits: Limits) -> Sent:
        """Read a response as plain JSON; ``limits`` are those of its reply."""
        if is_raw(source):
            http = source.http_response
            plain, fault = told_body(http.content, limits, content_type(http))
            return Sent(plain, source, fault=fault)

        if isinstance(source, str):
            # the SDK returns a text for a body with another content type
            fault = not_asked(JSON_OBJECT, "", source.encode("utf-8", "replace"))
            return Sent(source, source, fault=fault)

        try:
            return Sent(as_json(source), source)
        except (TypeError, ValueError, RecursionError):
            return Sent(None, source)  # not JSON, or nested too deeply

    def create(self, **keywords: object) -> object:
        """Call the client's ``create``; the SDK's method sends once, bounded.

        If another namespace has replaced the SDK's, the original one is called.
        """
        now = self.resource
        resource = self._first if sdk_of(now) is None else now
        return self._sender_of(resource).create(**keywords)

    def assembled(
        self, response: JSONObject, way: CallForm, reply: AssistantReply | None
    ) -> object:
        """Return the SDK's own completion for a response that arrived as a stream."""
        if sdk_of(self.resource) is None:
            return response

        given = sdk_for(self.client).response_type(self.door).model_construct(**response)
        return given if way.finish is None else way.finish(given, reply)

    def completion(
        self,
        sent: Sent,
        response: JSONObject,
        *,
        spliced: bool,
        way: CallForm = CallForm(),
        reply: AssistantReply | None = None,
    ) -> object:
        """Return the SDK's own completion for a response, ``spliced`` or unchanged.

        If the SDK has no object for it, return the response itself.
        """
        came = sent.source
        if way.posting is not None and is_raw(came):
            return way.posting.result(came, response if spliced else None)

        is_form = way.form is not None and is_raw(came)

        if isinstance(came, ReceivedResponse):
            came = came.parse()
        elif is_raw(came):
            came = parsed(self.door, came)

        given = came
        if spliced:
            # use the object's own method, because a tracer may have wrapped the object
            construct = getattr(came, "model_construct", None)
            given = construct(**response) if callable(construct) else response

        if way.finish is not None:
            given = way.finish(given, reply)

        if given is not came and hasattr(given, "__dict__"):
            told = getattr(came, "__dict__", {})
            vars(given).update({name: told[name] for name in IDS if name in told})

        if not is_form:
            return given

        return raw_response(sent.source, response if spliced else None, way.form or "", given)


def _keywords_of(create: Callable[..., object]) -> tuple[str, ...]:
    """Return the keywords that a method names, none where its signature cannot be read."""
    try:
        return tuple(inspect.signature(create).parameters)
    except (TypeError, ValueError):
        return ()


def _instead_of_client(client: object, wire: Wire) -> str:
    if isinstance(client, str):
        return "; pass the name of a model to the call: reply(model=…)"
    if isinstance(client, type):
        return f"; this is the class {client.__name__}: pass {client.__name__}()"
    if isinstance(client, ModuleType):
        return f"; this is the module {client.__name__}: pass a client that you make with it"
    if callable(getattr(client, "create", None)):
        return "; this is a part of a client: pass the client itself"

    for path, door in sdk_for(client).doors.items():
        other = door.wire
        if other is not wire and callable(getattr(member_at(client, path), "create", None)):
            return f'; this client has {path}.create: pass api="{other.name}"'

    return f", not {type(client).__name__}"


def content_type(http: HttpResponse) -> str:
    """Return the content type of an HTTP response; empty if it has none."""
    named = http.headers.get("content-type")
    return named if isinstance(named, str) else ""


def is_patched(completions: object) -> bool:
    """Return whether ``create`` was replaced on the object.

    An undone patch may leave the class's own method there, which does not count.
    """
    create = vars(completions).get("create")
    if create is None:
        return False

    own = getattr(type(completions), "create", None)
    return getattr(create, "__func__", create) is not own


def is_async_sdks(held: object) -> bool:
    """Return whether a client or a namespace is an SDK's async one, even if it was patched."""
    return any(base.__name__ in _ASYNC for base in type(held).__mro__)


def with_header(keywords: JSONObject, name: str, value: str) -> JSONObject:
    """Return the keywords of a call with one more header."""
    return keywords | {"extra_headers": {**(keywords.get("extra_headers") or {}), name: value}}


def _alone_over(client: object) -> object:
    """Return a client over the state of another one; see :func:`_alone_class`."""
    kind: Any = type(client)
    alone: Any = object.__new__(_alone_class(kind))
    alone.__dict__ = client.__dict__
    alone._bounded = (None, None)
    alone._joined = (None, "", None)
    alone._templates = Templates()
    return alone


def _is_called_by_others(client: object) -> bool:
    """Return whether one of a client's methods that make requests was replaced."""
    called = attrgetter(*_CALLED)(type(client))
    return not vars(client).keys().isdisjoint(_CALLED) or not all(map(is_sdks_own, called))


@cache
def _alone_class(kind: Any) -> type:
    """Derive a class of clients that send each request once and within bounds."""
    # the client behind the SDK's module functions has it as a property
    inherited = getattr(kind, "_client", None)
    joining = getattr(kind, "_prepare_url", None)

    decoded = own_decoder(kind)

    class SingleSendClient(kind):  # type: ignore[misc]  # a class that is only known here
        __slots__ = ("_bounded", "_joined", "_templates")
        _bounded: tuple[Any, Any]
        _joined: tuple[Any, str, Any]
        _templates: Templates

        @property
        def _client(self) -> object:
            now = vars(self)["_client"] if inherited is None else inherited.__get__(self)
            bounded = self._bounded
            if bounded[0] is not now:
                decoder = decoded and MethodType(decoded, self)
                bounded = self._bounded = (now, stand_in(now, decoder) or now)
            return bounded[1]

        if is_of_base(joining):
            # cache the URL, which is made from these two alone: it takes a tenth of a call's time
            def _prepare_url(self, url: str) -> object:
                if kind._prepare_url is not joining:
                    return super()._prepare_url(url)

                base = self.base_url
                joined = self._joined
                if joined[0] is not base or joined[1] != url:
                    joined = self._joined = (base, url, super()._prepare_url(url))
                return joined[2]

    for name, member in _members_alone(kind).items():
        setattr(SingleSendClient, name, member)

    SingleSendClient.__name__ = kind.__name__
    return SingleSendClient


def own_decoder(kind: Any) -> Callable[..., Any] | None:
    """Return the method that makes the decoder of a cloud whose streams are not text events."""
    making = getattr(kind, "_make_sse_decoder", None)
    return None if making is None or is_of_base(making) else making


def _members_alone(kind: Any) -> dict[str, object]:
    """Return the members that differ in a client that sends each request once."""
    members: dict[str, object] = {}
    sdk = sdk_of_clients(kind)

    chained = getattr(kind, "_build_middleware_chain", None)
    if chained is not None:
        # the SDK stores a chain that ends at the client for which it was made
        members["_middleware_chain"] = property(chained)

    if sdk is not None and sdk.renews_token is not None:
        members["_should_retry"] = _renewing(kind._should_retry)
        members["_should_retry_exception"] = _never_for_exceptions

    if sdk is not None and own_decoder(kind) is not None:
        # the replacement of the HTTP client has already decoded the frames
        members["_make_sse_decoder"] = _plain_decoder

    return members


def _renewing(should_retry: Callable[..., bool]) -> Callable[..., bool]:
    def should_renew(self: object, response: HttpResponse) -> bool:
        is_wanted = should_retry(self, response)
        return response.status_code == _UNAUTHORIZED and is_wanted

    return should_renew


def _plain_decoder(self: object) -> object:
    return sdk_for(self).named("_streaming", "SSEDecoder")()


def _never_for_exceptions(_self: object, _error: object) -> tuple[bool, None]:
    return False, None


def _post_once(
    client: Any, door: Door, path: str, *, options: Mapping[str, Any] | None = None, **given: object
) -> object:
    """Post a request of the SDK's ``create`` once.

    If no method of the SDK was replaced, the completion is parsed here.
    """
    options = {**(options or {}), "max_retries": sdk_for(client).own_retries(client)}
    form = (options.get("headers") or {}).get(RAW_RESPONSE)
    if isinstance(form, Form):
        return _raw_posted(client, door, {"path": path, "options": options, **given}, form)
    if given.get("stream") or form or not _is_untouched(client):
        return client.post(path, options=options, **given)

    sent = _raw_posted(client, door, {"path": path, "options": options, **given}, None)
    if not inspect.isawaitable(sent):
        return parsed(door, sent)

    async def parsed_later() -> object:
        return parsed(door, await sent)

    return parsed_later()


def _raw_posted(client: object, door: Door, posted: JSONObject, form: str | None) -> object:
    """Post a request of ``create``; return the raw response, or an awaitable of it.

    ``form`` is the form of raw response that the caller wants.
    """
    options = with_form(posted["options"], form)
    posted = posted | {"cast_to": sdk_for(client).http_type, "options": options}
    sent = send_posted(client, posted)
    is_stream = bool(posted.get("stream"))
    return Answering(client, door, form, is_stream, posted.get("stream_cls")).raw(sent)


def _is_untouched(client: object, *above: object) -> bool:
    kind: Any = type(client)
    judged, verdict = getattr(kind, "_judged", ((), False))
    passed = _passed_by(kind)

    # compare by identity, because a tracer's proxy equals the method that it wraps
    if not (judged and all(map(is_, passed, judged))):
        verdict = all(map(is_sdks_own, passed))
        kind._judged = (passed, verdict)

    return verdict and vars(client).keys().isdisjoint(_ON_THE_WAY) and all(map(is_sdks_own, above))


def _shortened(given: object, left: float) -> object:
    """Shorten a timeout to the seconds before the deadline.

    A timeout is a number, or an object of an HTTP library with four parts; each part is shortened.
    """
    if isinstance(given, int | float):
        return min(given, left)
    if not all(hasattr(given, name) for name in TIMEOUT_PARTS):
        return left

    parts = {name: getattr(given, name) for name in TIMEOUT_PARTS}
    shortened = {name: left if part is None else min(part, left) for name, part in parts.items()}
    return type(given)(**shortened)
