"""The guarded methods of the SDK.

Its raw and streaming forms call ``create`` or ``parse``, so guarding these two guards them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, partial, update_wrapper
from types import FunctionType
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

from strictreply.client._posting import is_sdks, sent_by
from strictreply.client._transport import (
    RAW_RESPONSE,
    Transport,
    Way,
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

_PATHS = {wire.path: wire.resource for wire in WIRES.values()}
_TAKEN: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "chat": (frozenset({"messages", "model"}), frozenset()),
    "responses": (frozenset(), frozenset({"messages", "response_format", "text_format"})),
}
"""The keywords that ``create`` needs, and those that it does not have though we would read them."""

_OUR_KEYWORDS = frozenset({"contract", "policy", "steering"})
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


@cache
def class_over(ours: Any, kind: Any) -> Any:
    """Return the class of a wrapped client that is an instance of a class of the SDK's, too."""
    copied = {name: getattr(ours, name) for name in ("__init__", "copy", "with_options")}
    copied["post"] = _post
    methods = {name: _like_the_sdks(one, getattr(kind, name)) for name, one in copied.items()}

    about = {"__slots__": (), "__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind.__name__, (ours, kind), about | methods)


def _post(self: Any, path: str, **given: Any) -> Any:
    # namespaces of the SDK that a program makes over a wrapped client come here, too
    resource = _PATHS.get(path.strip("/"))
    if resource is not None:
        raise NotImplementedError(
            f"client.post({path!r}) cannot be guarded; call {resource}.create()"
        )

    return self.unwrapped.post(path, **given)


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
        made.__dict__.update(kept, _client=self._wrapped, **state)
        return made


@cache
def _mixed(mixin: Any, kind: Any) -> Any:
    members: dict[str, Any] = {"__module__": kind.__module__, "__doc__": kind.__doc__}
    for name in ("create", "parse", "stream"):
        if hasattr(mixin, name) and hasattr(kind, name):
            members[name] = _like_the_sdks(getattr(mixin, name), getattr(kind, name))

    return type(kind.__name__, (mixin, kind), members)


def _like_the_sdks(function: FunctionType, sdks: Any) -> Any:
    """Return a copy of a function with the signature and the documentation of the SDK's."""
    code = function.__code__
    names = function.__globals__
    closure = function.__closure__
    copied = FunctionType(code, names, function.__name__, function.__defaults__, closure)
    return update_wrapper(copied, sdks)


class _Guarded:
    """What the guarded methods of both twins share."""

    _strictreply_call: Call
    _strictreply_transport: Transport

    def _created(self, keywords: JSONObject) -> Any:
        transport = self._strictreply_transport
        if passing.get() is transport:
            return transport.create(**keywords)

        needed, foreign = _TAKEN[transport.wire.name]
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
        ours = {name: keywords.pop(name) for name in _OUR_KEYWORDS & keywords.keys()}
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
