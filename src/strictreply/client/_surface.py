"""The guarded methods of the SDK.

Its raw and streaming forms call ``create`` or ``parse``, so guarding these two guards them all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, cached_property, partial, update_wrapper
from types import FunctionType, MethodType
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

from strictreply.client._posting import (
    OUR_KEYWORDS,
    RAW_RESPONSE,
    TAKEN,
    Posting,
    is_sdks,
    sent_by,
)
from strictreply.client._transport import (
    Transport,
    Way,
    called_with,
    is_async_openai,
    is_openai,
    is_patched,
    passing,
)
from strictreply.values._limits import JSONObject
from strictreply.values._replies import AssistantReply, DirectAnswer
from strictreply.wires import WIRES
from strictreply.wires._chat import CHAT
from strictreply.wires._opening import Wire
from strictreply.wires._responses import RESPONSES

_OWN = frozenset(
    {"create", "parse", "stream", "completions", "with_raw_response", "with_streaming_response"}
)
"""The members of a namespace of the SDK that are ours, or made of what is ours."""

Held: TypeAlias = Literal["guarded", "passes", "refuses"]
"""What becomes of a call of a method.

Its completion is judged, it reaches the API as it is, or it raises.
"""

_GUARDED = (*(wire.resource for wire in WIRES.values()), f"beta.{CHAT.resource}")
_MAX_NESTED = 6
Call: TypeAlias = Callable[[Wire, JSONObject, Way, JSONObject | None], Any]
"""Makes a guarded call of keywords, with a ``response_format`` (None: the contract's own).

It returns the response, or an awaitable of it.
"""


_outward: ContextVar[Any] = ContextVar("strictreply_outward", default=None)
"""The client one of whose methods was replaced, while a request passes through that method."""


@cache
def class_over(ours: Any, kind: Any) -> Any:
    """Return the class of a wrapped client that is an instance of a class of the SDK's, too."""
    copied = {name: getattr(ours, name) for name in ("__init__", "copy", "with_options")}
    members = {name: _like_the_sdks(one, getattr(kind, name)) for name, one in copied.items()}

    low = AsyncLowMethods if ours._is_async else LowMethods  # noqa: SLF001
    for name in LOW_METHODS:
        members[name] = _Kept(_like_the_sdks(getattr(low, name), getattr(kind, name)))

    about = {"__slots__": (), "__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind.__name__, (ours, kind), about | members)


class _Kept:
    """A method that stays where somebody puts another one into the state of the client.

    That one is called by it: it stands in the client inside, which shares the state.
    """

    def __init__(self, function: FunctionType) -> None:
        self._function = function

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self._function if instance is None else MethodType(self._function, instance)

    def __set__(self, instance: Any, value: Any) -> None:
        setattr(instance.unwrapped, self._function.__name__, value)


LOW_METHODS = ("post", "put", "patch", "request")
"""The methods of the SDK's client that make a request of any path.

All of the SDK's other methods come to them, and a namespace of the SDK that a program makes over a
wrapped client does, too.
"""


class LowMethods:
    """The low methods of a wrapped client: guarded for the paths of the APIs."""

    def post(self, path: str, **given: Any) -> Any:
        """Make a request; a reply to it is valid by the contract."""
        return _low(self, "post", (path,), given)

    def put(self, path: str, **given: Any) -> Any:
        """Make a request like :meth:`post`."""
        return _low(self, "put", (path,), given)

    def patch(self, path: str, **given: Any) -> Any:
        """Make a request like :meth:`post`."""
        return _low(self, "patch", (path,), given)

    def request(self, cast_to: Any, options: Any, **given: Any) -> Any:
        """Make a request like :meth:`post`."""
        return _low(self, "request", (cast_to, options), given)


class AsyncLowMethods:
    """The same of a wrapped async client: the twin of :class:`LowMethods`."""

    async def post(self, path: str, **given: Any) -> Any:
        """Make a request; a reply to it is valid by the contract."""
        return await _low(self, "post", (path,), given)

    async def put(self, path: str, **given: Any) -> Any:
        """Make a request like :meth:`post`."""
        return await _low(self, "put", (path,), given)

    async def patch(self, path: str, **given: Any) -> Any:
        """Make a request like :meth:`post`."""
        return await _low(self, "patch", (path,), given)

    async def request(self, cast_to: Any, options: Any, **given: Any) -> Any:
        """Make a request like :meth:`post`."""
        return await _low(self, "request", (cast_to, options), given)


def _low(client: Any, name: str, head: tuple[Any, ...], given: JSONObject) -> Any:
    inner = client.unwrapped
    posting = Posting(inner, name, head, given)
    wire = posting.wire()
    if wire is None:
        return _passed(inner, name, head, given)

    transport: Transport = client._guard.namespaces.transport(wire)  # noqa: SLF001
    if passing.get() is transport:
        alone = transport.alone
        return getattr(type(alone), name)(alone, *head, **given)

    keywords = posting.keywords(wire)
    return client._drop_in(wire, keywords, Way("true", posting=posting), None)  # noqa: SLF001


def _passed(inner: Any, name: str, head: tuple[Any, ...], given: JSONObject) -> Any:
    """Make a request that is not guarded, through what somebody has put over the low methods."""
    if vars(inner).keys().isdisjoint(LOW_METHODS):
        return getattr(inner, name)(*head, **given)
    if _outward.get() is inner:
        return getattr(type(inner), name)(inner, *head, **given)

    return called_with(_outward, inner, partial(getattr(inner, name), *head, **given))


class Namespaces:
    """``chat``, ``beta`` and ``responses`` of a wrapped client.

    They are kept, so that what is patched in them stays.
    """

    def __init__(
        self, client: Any, wrapped: Any, call: Call, origin: Namespaces | None = None
    ) -> None:
        """Hold the namespaces of ``wrapped`` around ``client``.

        In a copy, what was patched in the namespaces of ``origin`` counts, too.
        """
        self._client = client
        self._wrapped = wrapped
        self._call = call
        self._origin = origin
        self.transports: dict[str, Transport] = {} if origin is None else origin.transports
        self._made: dict[str, tuple[Any, Any]] = {}

    def transport(self, wire: Wire) -> Transport:
        """Return the way to an API; raise TypeError when the client has none."""
        if wire.name not in self.transports:
            self.transports[wire.name] = Transport(self._client, wire)

        return self.transports[wire.name]

    def made(self, wire: Wire, /, **keywords: Any) -> Any:
        """Make one guarded call.

        A call that is already ours, on its way through what somebody has put over ``create``, is
        sent.
        """
        transport = self.transport(wire)
        if passing.get() is transport:
            return transport.create(**keywords)

        return self._call(wire, keywords, Way(), None)

    def kept(self, name: Literal["chat", "responses"]) -> Any:
        """Return a namespace; it is made anew when that of the client inside was replaced."""
        inner = getattr(self._client, name)
        made_of, made = self._made.get(name, (None, None))
        if made_of is not inner:
            made = self._guarded_chat(inner) if name == "chat" else self._guarded_responses(inner)
            self._made[name] = (inner, made)

        return made

    def _guarded_chat(self, inner: Any) -> Any:
        if not is_openai(inner.completions):
            create = self._wrapped.create
            completions = _Namespace("chat.completions", inner.completions, create=create)
            return _Namespace("chat", inner, completions=completions)

        completions = self._guarded(inner.completions, CHAT)
        if not is_openai(inner):
            return _Namespace("chat", inner, completions=completions)

        chat = self._like(inner)
        chat.completions = completions
        return chat

    def _guarded_responses(self, inner: Any) -> Any:
        if is_openai(inner):
            return self._guarded(inner, RESPONSES)

        return _Namespace("responses", inner, create=partial(self.made, RESPONSES))

    def _guarded(self, inner: Any, wire: Wire) -> Any:
        mixin = GuardedAsyncMethods if is_async_openai(inner) else GuardedMethods
        return self._like(inner, mixin, call=self._call, transport=self.transport(wire))

    @cached_property
    def beta(self) -> Any:
        """The namespace ``beta``; its ``chat`` is guarded, and another than ours, as in the SDK."""
        inner = self._client.beta
        beta = self._like(inner)
        beta.chat = self._guarded_chat(inner.chat)
        if hasattr(inner, "responses"):
            beta.responses = self._like(inner.responses, RefusedResponses)

        return beta

    def patched_create(self, wire: Wire) -> Any:
        """Return what somebody has put in the place of the ``create`` of an API.

        None when nobody has.
        """
        name, *inside = wire.resource.split(".")
        resource = self._made.get(name, (None, None))[1]
        for member in inside:
            resource = getattr(resource, member, None)

        is_ours = issubclass(type(resource), (_Guarded, _Namespace)) and not is_patched(resource)
        if resource is None or is_ours or resource.create == self._wrapped.create:
            return None if self._origin is None else self._origin.patched_create(wire)

        return resource.create

    def _like(self, inner: Any, mixin: Any = None, **ours: Any) -> Any:
        """Return a namespace of the SDK's own class with some methods in front.

        Our state is in its attributes ``_strictreply_…``.
        """
        kind: Any = type(inner)
        made: Any = object.__new__(kind if mixin is None else _mixed(mixin, kind))

        kept = {name: value for name, value in vars(inner).items() if name not in _OWN}
        state = {f"_strictreply_{name}": value for name, value in ours.items()}
        if "_post" in kept and is_sdks(self._client):
            # who calls the SDK's own function with this namespace is guarded, too
            kept["_post"] = self._wrapped.post

        made.__dict__.update(kept, _client=self._wrapped, **state)
        return made


@cache
def _mixed(mixin: Any, kind: Any) -> Any:
    members: dict[str, Any] = {"__module__": kind.__module__, "__doc__": kind.__doc__}
    for name in ("create", "parse", "stream"):
        if hasattr(mixin, name) and hasattr(kind, name):
            members[name] = _like_the_sdks(getattr(mixin, name), getattr(kind, name))

    return type(kind.__name__, (mixin, kind), members)


def _like_the_sdks(function: Any, sdks: Any) -> Any:
    """Return a function that calls ours, with the signature and the documentation of the SDK's.

    It does not lead to the SDK's function, which is not guarded.
    """
    shape = _calling(function)
    names = getattr(inspect.unwrap(sdks), "__globals__", function.__globals__)

    # with the names of the SDK's module, where its annotations are looked up
    made = FunctionType(shape.__code__, names, function.__name__, None, shape.__closure__)
    update_wrapper(made, sdks)
    vars(made).pop("__wrapped__")
    vars(made)["__signature__"] = inspect.signature(sdks)
    return made


def _calling(function: Any) -> Any:
    if inspect.iscoroutinefunction(function):

        async def acall(*given: Any, **keywords: Any) -> Any:
            return await function(*given, **keywords)

        return acall

    def call(*given: Any, **keywords: Any) -> Any:
        return function(*given, **keywords)

    return call


class _Guarded:
    """What the guarded methods of both twins share."""

    _strictreply_call: Call
    _strictreply_transport: Transport

    def _created(self, keywords: JSONObject) -> Any:
        transport = self._strictreply_transport
        if passing.get() is transport:
            return transport.create(**keywords)

        needed, foreign = TAKEN[transport.wire.name]
        wanted = keywords.get("response_format")
        is_class = isinstance(wanted, type) and issubclass(wanted, BaseModel)
        if not keywords.keys() >= needed or not foreign.isdisjoint(keywords) or is_class:
            # the SDK says what is wrong, where it knows
            sent_by(super().create, keywords)  # type: ignore[misc]
            raise TypeError(
                f"{transport.wire.resource}.create() cannot take these keywords together"
            )

        return self._strictreply_call(transport.wire, keywords, Way(_form(keywords)), None)

    def _parsed(self, keywords: JSONObject) -> Any:
        transport = self._strictreply_transport
        form = _form(keywords)
        ours = {name: keywords.pop(name) for name in OUR_KEYWORDS & keywords.keys()}
        sent = sent_by(super().parse, keywords)  # type: ignore[misc]
        asked = transport.wire.read(sent["body"])

        wanted = keywords.pop("text_format", keywords.get("response_format"))
        is_class = isinstance(wanted, type)
        if is_class:
            keywords["response_format"] = wanted
        keywords["extra_headers"] = sent["options"].get("headers")
        keywords |= ours
        keywords.pop("parse_as", None)

        finish = partial(_finished, sent["options"]["post_parser"], is_class)
        format_ = asked.get("response_format") if is_class else None
        return self._strictreply_call(transport.wire, keywords, Way(form, finish), format_)


class GuardedMethods(_Guarded):
    """``chat.completions`` or ``responses`` of a wrapped client."""

    def create(self, **keywords: Any) -> Any:
        """Make one call; the response is valid by the contract.

        Takes the keywords ``contract``, ``policy`` and ``steering``, too.
        """
        return self._created(keywords)

    def parse(self, **keywords: Any) -> Any:
        """Make one call; what is parsed in the response is what was judged."""
        return self._parsed(keywords)


class GuardedAsyncMethods(_Guarded):
    """The same of a wrapped async client: the twin of :class:`GuardedMethods`."""

    async def create(self, **keywords: Any) -> Any:
        """Make one call; the response is valid by the contract."""
        return await self._created(keywords)

    async def parse(self, **keywords: Any) -> Any:
        """Make one call; what is parsed in the response is what was judged."""
        return await self._parsed(keywords)


class RefusedResponses:
    """``beta.responses`` of a wrapped client: no contract reaches it."""

    def create(self, **_: Any) -> Any:
        """Raise NotImplementedError, which names the guarded way."""
        raise NotImplementedError("beta.responses cannot be guarded; call client.responses")

    parse = stream = create


def _finished(
    parse: Callable[[Any], Any], is_class: bool, response: Any, reply: AssistantReply
) -> Any:
    """Return a valid response as the SDK's ``parse`` does.

    What is ``parsed`` in it is the answer that was judged.
    """
    parsed = parse(response)
    if not is_class or not isinstance(reply, DirectAnswer):
        return parsed

    if hasattr(parsed, "choices"):
        parsed.choices[0].message.parsed = reply.answer
    else:
        # the one text that answers
        parts = [part for item in parsed.output if item.type == "message" for part in item.content]
        answers = [part for part in parts if getattr(part, "parsed", None) is not None]
        if len(answers) == 1:
            answers[0].parsed = reply.answer

    return parsed


def _form(keywords: JSONObject) -> str | None:
    """Take the form in which the SDK's own wrappers want the response out of the headers.

    None when they want a completion.
    """
    headers: Mapping[str, str] = keywords.get("extra_headers") or {}
    if RAW_RESPONSE in headers:
        others = {name: value for name, value in headers.items() if name != RAW_RESPONSE}
        keywords["extra_headers"] = others

    return headers.get(RAW_RESPONSE)


class _Namespace:
    """A namespace of a client that is not the SDK's, with some members replaced by ours."""

    def __init__(self, path: str, inner: Any, **ours: Any) -> None:
        self.__dict__.update(ours, _path=path, _inner=inner)

    def __getattr__(self, name: str) -> Any:
        """Pass everything else through but what would give an unchecked completion."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _OWN:
            raise AttributeError(
                f"{self._path}.{name} of this client cannot be guarded; call {self._path}.create()"
            )

        return getattr(self._inner, name)


def guarded(client: Any) -> dict[str, Held]:
    """List the methods of a wrapped client by their paths: each is guarded, passes or refuses.

    Raises TypeError for a client that is not wrapped.
    """
    if not hasattr(type(client), "_guard"):
        raise TypeError(
            "guarded() lists the methods of a wrapped client; wrap it first: "
            "strictreply.wrap(client)"
        )

    found: dict[str, Held] = {}
    inner = client.unwrapped

    if not is_sdks(inner):
        for name in sorted(_OWN - {"completions"}):
            found[f"{CHAT.resource}.{name}"] = "guarded" if name == "create" else "refuses"
        return found

    # for the paths of the APIs; any other path passes
    found |= dict.fromkeys(LOW_METHODS, "guarded")

    for path in _methods(inner, "", 0):
        place, _, name = path.rpartition(".")
        is_guarded = place in _GUARDED and name in {"create", "parse", "stream"}
        is_refused = place == "beta.responses" and hasattr(RefusedResponses, name)

        if is_guarded:
            found[path] = "guarded"
            found[f"{place}.with_raw_response.{name}"] = "guarded"
            found[f"{place}.with_streaming_response.{name}"] = "guarded"
        else:
            found[path] = "refuses" if is_refused else "passes"

    return found


def _methods(holder: Any, path: str, depth: int) -> Iterator[str]:
    for name in dir(type(holder)):
        member = getattr(type(holder), name, None)
        if name.startswith(("_", "with_")) or depth > _MAX_NESTED:
            continue
        if isinstance(member, cached_property):
            yield from _methods(getattr(holder, name), f"{path}{name}.", depth + 1)
        elif depth and callable(member):
            yield f"{path}{name}"
