"""The guarded methods of the SDK.

Its raw and streaming forms call ``create`` or ``parse``, so guarding these two guards them all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from copy import copy
from functools import cache, cached_property, partial, update_wrapper
from types import FunctionType, MethodType
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

from strictreply.contract._definitions import settled
from strictreply.sdks._low_methods import (
    LOW_METHODS,
    AsyncLowMethods,
    LowMethods,
    stored_by,
)
from strictreply.sdks._posting import (
    OUR_KEYWORDS,
    TAKEN,
    form_in,
    is_sdks,
    sent_by,
)
from strictreply.sdks._transport import (
    Transport,
    Way,
    is_async_openai,
    is_openai,
    is_patched,
    passing,
)
from strictreply.values._limits import JSONObject
from strictreply.values._mistakes import ON_CLIENTS, with_hints
from strictreply.values._replies import AssistantReply, DirectAnswer
from strictreply.wires import WIRES
from strictreply.wires._chat import CHAT
from strictreply.wires._dialects import text_in
from strictreply.wires._responses import RESPONSES
from strictreply.wires._wire import Wire

_OWN = frozenset(
    {"create", "parse", "stream", "completions", "with_raw_response", "with_streaming_response"}
)
"""The members of a namespace of the SDK that are ours, or made of what is ours."""

Held: TypeAlias = Literal["guarded", "refuses", "unguarded", "passes"]
"""What becomes of a call of a method.

Its reply is judged; it raises; it brings what a model wrote, and nothing judges it; or it brings no
reply of a model.
"""

_REPLIES = frozenset({"create", "parse", "stream", "retrieve", "update", "cancel"})
"""The methods of a guarded namespace that bring a reply, made now or stored."""

_GUARDED = (*(wire.resource for wire in WIRES.values()), f"beta.{CHAT.resource}")
_REFUSED = frozenset(
    {f"{CHAT.resource}.list", f"beta.{CHAT.resource}.list", f"{RESPONSES.resource}.connect"}
)
_UNGUARDED = (
    "audio.transcriptions",
    "audio.translations",
    "beta.agents",
    "beta.chat.completions.messages",
    "beta.chatkit.threads",
    "beta.realtime",
    "beta.responses.compact",
    "beta.responses.input_items",
    "beta.threads",
    "chat.completions.messages",
    "completions",
    "conversations.items",
    "decisions",
    "evals.runs",
    "live",
    "realtime",
    "responses.compact",
    "responses.input_items",
)
"""Where what a model wrote comes out as it is: methods, or namespaces of them."""

_WEBSOCKET_URL = "websocket_base_url"
_OF_WEBSOCKETS = frozenset(
    {f"openai.resources.{name}responses.responses" for name in ("", "beta.")}
)
"""The modules of the SDK whose connections are refused."""

_MAX_NESTED = 6
Call: TypeAlias = Callable[[Wire, JSONObject, Way, JSONObject | None], Any]
"""Makes a guarded call of keywords, with a ``response_format`` (None: the contract's own).

It returns the response, or an awaitable of it.
"""


@cache
def class_over(ours: Any, kind: Any) -> Any:
    """Return the class of a wrapped client that is an instance of a class of the SDK's, too."""
    copied = {name: getattr(ours, name) for name in ("__init__", "copy", "with_options")}
    members = {name: _like_the_sdks(one, getattr(kind, name)) for name, one in copied.items()}

    low = AsyncLowMethods if ours._is_async else LowMethods  # noqa: SLF001
    for name in LOW_METHODS:
        members[name] = _Kept(_like_the_sdks(getattr(low, name), getattr(kind, name)))

    for name in ("with_raw_response", "with_streaming_response"):
        if isinstance(made := getattr(kind, name, None), cached_property):
            members[name] = _Over(name, made.func)

    if hasattr(kind, "responses"):
        members[_WEBSOCKET_URL] = _WebsocketUrl()

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


class _Over:
    """A member that the SDK makes over a client once, made over the wrapped client.

    In the state that both clients share there may be one that is made over the client inside.
    """

    def __init__(self, name: str, make: Callable[[Any], Any]) -> None:
        self._name = name
        self._make = make

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self

        held = instance._guard.namespaces.forms  # noqa: SLF001
        if self._name not in held:
            held[self._name] = self._make(instance)
        return held[self._name]

    def __set__(self, instance: Any, value: Any) -> None:
        instance._guard.namespaces.forms[self._name] = value  # noqa: SLF001


class _WebsocketUrl:
    """The address of websockets, which each connection of the SDK reads from its client.

    A connection of the Responses API is refused, also of a resource that was made over the wrapped
    client by hand: that reads nothing else which only it reads.
    """

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self

        frame = inspect.currentframe()
        reader = None if frame is None else frame.f_back
        if reader is not None and reader.f_globals.get("__name__") in _OF_WEBSOCKETS:
            refuse_websocket(instance)

        return getattr(instance.unwrapped, _WEBSOCKET_URL, None)

    def __set__(self, instance: Any, value: Any) -> None:
        setattr(instance.unwrapped, _WEBSOCKET_URL, value)


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
        self.forms: dict[str, Any] = {}

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
        if is_sdks(self._client):
            # who calls the SDK's own function with this namespace is guarded, too
            held = [name for name in LOW_METHODS if f"_{name}" in kept]
            kept |= {f"_{name}": getattr(self._wrapped, name) for name in held}

        made.__dict__.update(kept, _client=self._wrapped, **state)
        return made


@cache
def _mixed(mixin: Any, kind: Any) -> Any:
    members: dict[str, Any] = {"__module__": kind.__module__, "__doc__": kind.__doc__}
    ours = {name: getattr(mixin, name, None) for name in ("create", "parse", "stream")}
    ours["connect"] = getattr(mixin, "connect", refuse_websocket)
    for name, function in ours.items():
        if function is not None and hasattr(kind, name):
            members[name] = _like_the_sdks(function, getattr(kind, name))

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


@with_hints(ON_CLIENTS)
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
        keywords = settled(keywords)
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

    def _judging_stored(self, keywords: JSONObject) -> Any:
        """Return this namespace, for a stream of a stored reply one that knows its answer's class.

        The SDK parses the text into that class, whatever was asked for when the reply was made.
        """
        answer = keywords.get("text_format")
        if not isinstance(keywords.get("response_id"), str) or not isinstance(answer, type):
            return self

        made = copy(self)
        vars(made)["_get"] = stored_by(vars(self)["_client"], answer)
        return made


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

    def stream(self, **keywords: Any) -> Any:
        """Return the SDK's stream of one call, or of a stored reply."""
        held = self._judging_stored(keywords)
        return super(GuardedMethods, held).stream(**keywords)  # type: ignore[misc]


class GuardedAsyncMethods(_Guarded):
    """The same of a wrapped async client: the twin of :class:`GuardedMethods`."""

    async def create(self, **keywords: Any) -> Any:
        """Make one call; the response is valid by the contract."""
        return await self._created(keywords)

    async def parse(self, **keywords: Any) -> Any:
        """Make one call; what is parsed in the response is what was judged."""
        return await self._parsed(keywords)

    def stream(self, **keywords: Any) -> Any:
        """Return the SDK's stream of one call, or of a stored reply."""
        held = self._judging_stored(keywords)
        return super(GuardedAsyncMethods, held).stream(**keywords)  # type: ignore[misc]


class RefusedResponses:
    """``beta.responses`` of a wrapped client: no contract reaches it."""

    def create(self, *_: Any, **__: Any) -> Any:
        """Raise NotImplementedError, which names the guarded way."""
        raise NotImplementedError("beta.responses cannot be guarded; call client.responses")

    parse = stream = retrieve = cancel = connect = create


def refuse_websocket(_: Any, **__: Any) -> Any:
    """Raise NotImplementedError, which names the guarded way."""
    raise NotImplementedError(
        "responses.connect() cannot be guarded: a websocket brings events of many replies; "
        "call client.responses.create(stream=True)"
    )


def _finished(
    parse: Callable[[Any], Any], is_class: bool, response: Any, reply: AssistantReply
) -> Any:
    """Return a valid response as the SDK's ``parse`` does.

    What is ``parsed`` in it is the answer that was judged.
    """
    message: Any = response.choices[0].message if hasattr(response, "choices") else None
    content = getattr(message, "content", None)
    if isinstance(content, list):
        message.content = text_in(content)  # the SDK parses a text alone

    parsed = parse(response)
    if isinstance(content, list):
        parsed.choices[0].message.content = content
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
    headers = keywords.get("extra_headers")
    if not headers:
        return None

    form, others = form_in(headers)
    if form is not None:
        keywords["extra_headers"] = others

    return form


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
    """List the methods of a wrapped client by their paths, and what becomes of a call of each.

    Methods that bring no reply ``pass``; the forms of the others in which the SDK returns a raw
    response are listed, too. Raises TypeError for a client that is not wrapped.
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
    found["get_api_list"] = "refuses"
    found["delete"] = "passes"

    for holder, place, name in _methods(inner, "", 0):
        held = _held(place, name)
        found[f"{place}.{name}"] = held

        for form in ("with_raw_response", "with_streaming_response"):
            if held != "passes" and hasattr(getattr(holder, form, None), name):
                found[f"{place}.{form}.{name}"] = held

    return found


def _held(place: str, name: str) -> Held:
    path = f"{place}.{name}"
    if path in _REFUSED or (place == "beta.responses" and hasattr(RefusedResponses, name)):
        return "refuses"
    if place in _GUARDED and name in _REPLIES:
        return "guarded"

    is_open = any(path == one or path.startswith(f"{one}.") for one in _UNGUARDED)
    return "unguarded" if is_open else "passes"


def _methods(holder: Any, path: str, depth: int) -> Iterator[tuple[Any, str, str]]:
    """Yield the methods of the namespaces of a client: who has it, the path of that, the name."""
    for name in dir(type(holder)):
        member = getattr(type(holder), name, None)
        if name.startswith(("_", "with_")) or depth > _MAX_NESTED:
            continue
        if isinstance(member, cached_property):
            inside = f"{path}.{name}".removeprefix(".")
            yield from _methods(getattr(holder, name), inside, depth + 1)
        elif depth and callable(member):
            yield holder, path, name
