"""The guarded methods of the SDK.

Its raw and streaming forms call ``create`` or ``parse``, so guarding these two guards them all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import cache, cached_property, partial, update_wrapper
from types import FunctionType, MethodType
from typing import Any, Literal, TypeAlias, get_origin

from pydantic import BaseModel

from strictreply.contract._definitions import given as without_markers
from strictreply.sdks._known import member_at, sdk_behind, sdk_for, sdk_of, sdk_of_clients
from strictreply.sdks._low_methods import (
    AsyncLowMethods,
    LowMethods,
    answered_by,
    by_class,
    judged_as,
    stored_by,
)
from strictreply.sdks._observing import LOW_METHODS, SideJudge, method_beside
from strictreply.sdks._posting import (
    OUR_KEYWORDS,
    form_in,
    sent_by,
)
from strictreply.sdks._sdk import SDK
from strictreply.sdks._shapes import WrappedClient
from strictreply.sdks._transport import (
    CallForm,
    Transport,
    is_async_sdks,
    is_patched,
    passing,
)
from strictreply.values._errors import ContractError
from strictreply.values._limits import JSONObject
from strictreply.values._mistakes import ON_CLIENTS, with_hints
from strictreply.values._requests import AnswerFormat
from strictreply.wires._requests import settled
from strictreply.wires._wire import Wire

FORMS = frozenset({"with_raw_response", "with_streaming_response"})
"""The members of clients and namespaces whose methods return a raw response."""

_OWN = frozenset({"create", "parse", "stream", "completions", *FORMS})
"""The members of a namespace of the SDK that are ours, or made of what is ours."""

Held: TypeAlias = Literal["guarded", "refuses", "unguarded", "passes"]
"""What becomes of a call of a method.

Its reply is judged; it raises; it brings what a model wrote, and nothing judges it; or it brings no
reply of a model.
"""

_REPLIES = frozenset({"create", "parse", "stream", "tool_runner", "retrieve", "update", "cancel"})
"""The methods of a guarded namespace that bring a reply, made now or stored."""

_WEBSOCKET_URL = "websocket_base_url"
_MAX_NESTED = 6
Call: TypeAlias = Callable[[Wire, JSONObject, CallForm, AnswerFormat | None], Any]
"""Makes a guarded call of keywords, with a format of the answer (None: the contract's own).

It returns the response, or an awaitable of it.
"""

Beside: TypeAlias = Callable[[], SideJudge | None]
"""Returns what judges the next call beside it; None where its reply is enforced."""


@cache
def class_over(ours: Any, kind: type) -> type:
    """Return the class of a wrapped client that is an instance of a class of the SDK's, too."""
    copied = {name: getattr(ours, name) for name in ("__init__", "copy", "with_options")}
    members: dict[str, object] = {
        name: _like_the_sdks(one, getattr(kind, name)) for name, one in copied.items()
    }

    low = AsyncLowMethods if ours._is_async else LowMethods  # noqa: SLF001
    for name in LOW_METHODS:
        members[name] = _Kept(_like_the_sdks(getattr(low, name), getattr(kind, name)))

    for name in ("with_raw_response", "with_streaming_response"):
        if isinstance(made := getattr(kind, name, None), cached_property):
            members[name] = _Over(name, made.func)

    sdk = sdk_of_clients(kind)
    if sdk is not None:
        held = [name for name in sdk.names_inside("") if not hasattr(ours, name)]
        members |= {name: _KeptNamespace(name) for name in held}
        members |= {name: _Withheld(name, value) for name, value in sdk.withheld.items()}
    if sdk is not None and sdk.websockets:
        members[_WEBSOCKET_URL] = _WebsocketUrl()

    if hasattr(kind, "__del__"):
        members["__del__"] = _close_nothing

    about = {"__slots__": (), "__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind.__name__, (ours, kind), about | members)


def _close_nothing(wrapped: object) -> None:
    """Keep a wrapped client that is gone from closing the client inside, which may be used on."""


class _Kept:
    """A method that stays where somebody puts another one into the state of the client.

    That one is called by it: it stands in the client inside, which shares the state.
    """

    def __init__(self, function: FunctionType) -> None:
        self._function = function

    def __get__(self, instance: WrappedClient | None, owner: object) -> object:
        return self._function if instance is None else MethodType(self._function, instance)

    def __set__(self, instance: WrappedClient, value: object) -> None:
        setattr(instance.unwrapped, self._function.__name__, value)


class _KeptNamespace:
    """A namespace of a wrapped client, in the place of that in the state of the client inside."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: object) -> object:
        if instance is None:
            return self

        return instance._guard.namespaces.kept(self._name)  # noqa: SLF001

    def __set__(self, instance: WrappedClient, value: object) -> None:
        setattr(instance.unwrapped, self._name, value)


class _Withheld:
    """An attribute that tells the SDK what it cannot do with a wrapped client.

    Where nothing is enforced, it is that of the client inside.
    """

    def __init__(self, name: str, value: object) -> None:
        self._name = name
        self._value = value

    def __get__(self, instance: Any, owner: object) -> object:
        if instance is None or not instance._is_beside:  # noqa: SLF001
            return self._value

        return getattr(instance.unwrapped, self._name)


class _Over:
    """A member that the SDK makes over a client once, made over the wrapped client.

    In the state that both clients share there may be one that is made over the client inside.
    """

    def __init__(self, name: str, make: Callable[[object], object]) -> None:
        self._name = name
        self._make = make

    def __get__(self, instance: Any, owner: object) -> object:
        if instance is None:
            return self

        held = instance._guard.namespaces.forms  # noqa: SLF001
        if self._name not in held:
            held[self._name] = self._make(instance)
        return held[self._name]

    def __set__(self, instance: Any, value: object) -> None:
        instance._guard.namespaces.forms[self._name] = value  # noqa: SLF001


class _WebsocketUrl:
    """The address of websockets, which each connection of the SDK reads from its client.

    A connection of the Responses API is refused, also of a resource that was made over the wrapped
    client by hand: that reads nothing else which only it reads.
    """

    def __get__(self, instance: Any, owner: object) -> object:
        if instance is None:
            return self

        frame = inspect.currentframe()
        reader = None if frame is None else frame.f_back
        module = None if reader is None else reader.f_globals.get("__name__")
        words = sdk_for(instance.unwrapped).socket_refusal(module)
        if words and not instance._is_beside:  # noqa: SLF001
            _refusing(words)()

        return getattr(instance.unwrapped, _WEBSOCKET_URL, None)

    def __set__(self, instance: WrappedClient, value: object) -> None:
        setattr(instance.unwrapped, _WEBSOCKET_URL, value)


class Namespaces:
    """``chat``, ``beta`` and ``responses`` of a wrapped client.

    They are kept, so that what is patched in them stays.
    """

    def __init__(
        self,
        client: object,
        wrapped: object,
        call: Call,
        beside: Beside,
        origin: Namespaces | None = None,
    ) -> None:
        """Hold the namespaces of ``wrapped`` around ``client``.

        In a copy, what was patched in the namespaces of ``origin`` counts, too.
        """
        self._client = client
        self._sdk = sdk_for(client)
        self._wrapped = wrapped
        self._call = call
        self._beside = beside
        self._origin = origin
        self.transports: dict[str, Transport] = {} if origin is None else origin.transports
        self._made: dict[str, tuple[Any, Any]] = {}
        self.forms: dict[str, Any] = {}

    def _is_beside(self) -> bool:
        """Return whether nothing is enforced now: what cannot be judged passes."""
        wrapped: Any = self._wrapped
        is_beside: bool = wrapped._is_beside  # noqa: SLF001
        return is_beside

    def transport(self, path: str) -> Transport:
        """Return the way to the namespace at a path; raise TypeError when the client has none."""
        if path not in self.transports:
            self.transports[path] = Transport(self._client, path)

        return self.transports[path]

    def way_to(self, wire: Wire, path: str | None = None) -> Transport:
        """Return the way to a namespace of an API; None for the path of its usual one.

        Raises what :meth:`transport` does.
        """
        return self.transport(path or self._sdk.path_of(wire))

    def made(self, path: str, /, **keywords: object) -> Any:
        """Make one guarded call of the namespace at a path.

        A call that is already ours, on its way through what somebody has put over ``create``, is
        sent. Raises ContractError if the client has no such namespace.
        """
        if path not in self._sdk.doors:
            has = " or ".join(f"client.{one}.create" for one in self._sdk.doors)
            raise ContractError(f"this client has no {path}: call {has}")

        transport = self.transport(path)
        if passing.get() is transport:
            return transport.create(**keywords)

        watch = self._beside()
        if watch is not None:
            if watch.is_judged:
                keywords = settled(keywords)
            sent = without_ours(keywords)
            watch.asks(transport.wire, path, sent, lambda: dict(keywords))
            return method_beside(watch, self._client, path, "create", sent)

        return self._call(transport.wire, keywords, CallForm(path=path), None)

    def is_guarded(self, name: str) -> bool:
        """Return whether a member of the client leads to guarded methods, or is refused."""
        return name in self._sdk.names_inside("")

    def kept(self, name: str) -> object:
        """Return a namespace; it is made anew when that of the client inside was replaced."""
        inner = getattr(self._client, name)
        made_of, made = self._made.get(name, (None, None))
        if made_of is not inner:
            made = self._over(name, inner)
            self._made[name] = (inner, made)

        return made

    def _over(self, path: str, inner: object) -> object:
        """Return a namespace like one of the client inside, with the guarded ones in it."""
        door = self._sdk.doors.get(path)
        if door is not None and sdk_of(inner) is None:
            refused = _refused_of_others(self._sdk, path)
            create = partial(self.made, path)
            return _Namespace(path, inner, refused, self._is_beside, create=create)
        if door is not None:
            return self._guarded(path, inner)
        if path in self._sdk.refused:
            kind: Any = type(inner)
            return self._like(inner, _refusing_class(kind, self._sdk.refusal(path)))

        inside = {
            name: self._over(f"{path}.{name}", getattr(inner, name))
            for name in self._sdk.names_inside(path)
            if hasattr(inner, name)
        }
        if sdk_of(inner) is None or any(isinstance(one, _Namespace) for one in inside.values()):
            return _Namespace(path, inner, FORMS, self._is_beside, **inside)

        made = self._like(inner)
        vars(made).update(inside)
        return made

    def _guarded(self, path: str, inner: object) -> object:
        mixin = GuardedAsyncMethods if is_async_sdks(inner) else GuardedMethods
        refused = {
            name: self._sdk.refusal(f"{path}.{name}")
            for name in self._sdk.refused_in(path)
            if hasattr(inner, name)
        }
        transport = self.transport(path)
        kind: Any = type(inner)
        mixed = _mixed(mixin, kind, tuple(refused.items()))
        state = {"call": self._call, "beside": self._beside, "transport": transport}
        return self._like(inner, mixed, **state)

    def patched_create(self, wire: Wire) -> object:
        """Return what somebody has put in the place of the ``create`` of an API.

        None when nobody has.
        """
        name, *inside = self._sdk.path_of(wire).split(".")
        resource = self._made.get(name, (None, None))[1]
        for member in inside:
            resource = getattr(resource, member, None)

        if resource is None or _has_our_create(resource):
            return None if self._origin is None else self._origin.patched_create(wire)

        return resource.create

    def _like(self, inner: object, kind: type | None = None, **ours: object) -> object:
        """Return a namespace of the SDK's own class, or of a ``kind`` derived from it.

        Our state is in its attributes ``_strictreply_…``.
        """
        made: Any = object.__new__(type(inner) if kind is None else kind)

        kept = {name: value for name, value in vars(inner).items() if name not in _OWN}
        state = {f"_strictreply_{name}": value for name, value in ours.items()}
        if sdk_behind(self._client) is not None:
            # who calls the SDK's own function with this namespace is guarded, too
            held = [name for name in LOW_METHODS if f"_{name}" in kept]
            kept |= {f"_{name}": getattr(self._wrapped, name) for name in held}

        made.__dict__.update(kept, _client=self._wrapped, **state)
        return made


def _has_our_create(resource: object) -> bool:
    """Return whether the ``create`` of a namespace of ours is still the one that we gave it."""
    if isinstance(resource, _Namespace):
        return resource.create is resource._ours.get("create")  # noqa: SLF001

    return issubclass(type(resource), _Guarded) and not is_patched(resource)


@cache
def _mixed(
    mixin: type[object], kind: type[object], refused: tuple[tuple[str, str], ...] = ()
) -> type:
    """Derive a class of namespaces with guarded methods, and some that refuse."""
    members: dict[str, Any] = {"__module__": kind.__module__, "__doc__": kind.__doc__}
    ours = {name: getattr(mixin, name) for name in ("create", "parse", "stream", "tool_runner")}
    ours |= {name: _refusing(words, getattr(kind, name, None)) for name, words in refused}
    for name, function in ours.items():
        if hasattr(kind, name):
            members[name] = _like_the_sdks(function, getattr(kind, name))

    return type(kind.__name__, (mixin, kind), members)


@cache
def _refusing_class(kind: type[object], words: str) -> type:
    """Derive a class of namespaces all of whose methods for replies refuse."""
    members: dict[str, Any] = {"__module__": kind.__module__, "__doc__": kind.__doc__}
    for name in (*_REPLIES, "connect"):
        refuse = _refusing(words, getattr(kind, name, None))
        members[name] = (
            _like_the_sdks(refuse, getattr(kind, name)) if hasattr(kind, name) else refuse
        )

    return type(kind.__name__, (kind,), members)


def _refusing(words: str, sdks: Callable[..., object] | None = None) -> Callable[..., object]:
    def refuse(*given: Any, **named: object) -> object:
        """Raise NotImplementedError, which names the guarded way.

        Where nothing is enforced, the SDK's own function is called.
        """
        wrapped = vars(given[0]).get("_client") if given else None
        if sdks is not None and getattr(wrapped, "_is_beside", False):
            return sdks(*given, **named)

        raise NotImplementedError(words)

    return refuse


def _like_the_sdks(function: Callable[..., object], sdks: Callable[..., object]) -> FunctionType:
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


def _calling(function: Callable[..., object]) -> Any:
    if inspect.iscoroutinefunction(function):

        async def acall(*given: object, **keywords: object) -> object:
            return await function(*given, **keywords)

        return acall

    def call(*given: object, **keywords: object) -> object:
        return function(*given, **keywords)

    return call


@with_hints(ON_CLIENTS)
class _Guarded:
    """What the guarded methods of both twins share."""

    _strictreply_call: Call
    _strictreply_beside: Beside
    _strictreply_transport: Transport
    _strictreply_answer: object = None  # the class into which the SDK's runner parses an answer

    def _created(self, keywords: JSONObject) -> Any:
        transport = self._strictreply_transport
        if passing.get() is transport:
            return transport.create(**keywords)

        watch = self._strictreply_beside()
        if watch is not None:
            answer = self._strictreply_answer
            return self._made_beside(watch, "create", keywords, answer)

        door = transport.door
        door.check(keywords)
        wanted = keywords.get("response_format")
        is_class = isinstance(wanted, type) and issubclass(wanted, BaseModel)
        is_whole = keywords.keys() >= door.needed and door.foreign.isdisjoint(keywords)
        if is_class or not is_whole:
            # the SDK says what is wrong, where it knows
            sent_by(super().create, keywords)  # type: ignore[misc]
            raise TypeError(f"{transport.path}.create() cannot take these keywords together")

        way = CallForm(_form(keywords), transport.path)
        answer = self._strictreply_answer
        sent_format = None
        if answer is not None:
            client = vars(self)["_client"]
            keywords, sent_format = by_class(client, door, keywords, answer)

        return self._strictreply_call(transport.wire, keywords, way, sent_format)

    def _parsed(self, keywords: JSONObject) -> Any:
        transport = self._strictreply_transport
        door = transport.door
        watch = self._strictreply_beside()
        if watch is not None:
            return self._made_beside(watch, "parse", keywords, keywords.get(door.answer_keyword))

        door.check(keywords)
        form = _form(keywords)
        ours = {name: keywords.pop(name) for name in OUR_KEYWORDS & keywords.keys()}
        keywords = settled(keywords)
        sent = sent_by(super().parse, keywords)  # type: ignore[misc]
        asked = transport.wire.read(without_markers(sent["body"]))

        wanted = keywords.get(door.answer_keyword)
        is_class = _is_class(wanted)
        if door.answer_keyword != "response_format":
            keywords.pop(door.answer_keyword, None)
        keywords["extra_headers"] = sent["options"].get("headers")
        keywords |= ours
        if is_class:
            keywords = judged_as(vars(self)["_client"], keywords, wanted)
        keywords.pop("parse_as", None)

        finish = partial(door.parsed, sent["options"]["post_parser"], is_class)
        format_ = asked.format if is_class and isinstance(asked.format, AnswerFormat) else None
        way = CallForm(form, transport.path, finish)
        return self._strictreply_call(transport.wire, keywords, way, format_)

    def _made_beside(
        self, watch: SideJudge, name: str, keywords: JSONObject, answer: object
    ) -> object:
        """Call the client's own method; an ``answer`` of a class is judged by that."""
        transport = self._strictreply_transport
        door = transport.door
        if watch.is_judged:
            # an iterator is read by us and by the SDK
            keywords = settled(keywords)

        sent = without_ours(keywords)

        def read() -> JSONObject:
            door.check(keywords)
            if not _is_class(answer):
                return dict(keywords)

            given = {one: keywords[one] for one in keywords if one != door.answer_keyword}
            return by_class(vars(self)["_client"], door, given, answer)[0]

        watch.asks(transport.wire, transport.path, sent, read)
        return method_beside(watch, transport.client, transport.path, name, sent)

    def _judging(self, keywords: JSONObject) -> object:
        """Return this namespace, for a stream whose answer is of a class one that knows the class.

        The SDK parses the text into that class: also that of a stored reply, whatever was asked for
        when it was made.
        """
        door = self._strictreply_transport.door
        answer = keywords.get(door.answer_keyword)
        if not _is_class(answer):
            return self

        made = copy(self)
        client = vars(self)["_client"]
        if isinstance(keywords.get("response_id"), str):
            vars(made)["_get"] = stored_by(client, answer)
        elif door.without_format is not None:
            vars(made)["_post"] = answered_by(client, answer)

        return made

    def _judging_each(self, keywords: JSONObject) -> object:
        """Return this namespace, for runs whose answers are of a class one that knows the class.

        The SDK's runner calls ``create`` of the client, and parses the text into that class.
        """
        transport = self._strictreply_transport
        answer = keywords.get(transport.door.answer_keyword)
        if not _is_class(answer):
            return self

        knowing = copy(self)
        vars(knowing)["_strictreply_answer"] = answer
        made = copy(self)
        vars(made)["_client"] = _With(vars(self)["_client"], transport.path, knowing)
        return made


class GuardedMethods(_Guarded):
    """``chat.completions`` or ``responses`` of a wrapped client."""

    def create(self, **keywords: object) -> object:
        """Make one call; the response is valid by the contract.

        Takes the keywords ``contract``, ``policy`` and ``steering``, too.
        """
        return self._created(keywords)

    def parse(self, **keywords: object) -> object:
        """Make one call; what is parsed in the response is what was judged."""
        return self._parsed(keywords)

    def stream(self, **keywords: object) -> object:
        """Return the SDK's stream of one call, or of a stored reply."""
        held = self._judging(keywords)
        return super(GuardedMethods, held).stream(**keywords)  # type: ignore[misc]

    def tool_runner(self, **keywords: object) -> object:
        """Return the SDK's runner of tools, each of whose replies is valid by the contract."""
        held = self._judging_each(keywords)
        return super(GuardedMethods, held).tool_runner(**keywords)  # type: ignore[misc]


class GuardedAsyncMethods(_Guarded):
    """The same of a wrapped async client: the twin of :class:`GuardedMethods`."""

    async def create(self, **keywords: object) -> object:
        """Make one call; the response is valid by the contract."""
        return await self._created(keywords)

    async def parse(self, **keywords: object) -> object:
        """Make one call; what is parsed in the response is what was judged."""
        return await self._parsed(keywords)

    def stream(self, **keywords: object) -> object:
        """Return the SDK's stream of one call, or of a stored reply."""
        held = self._judging(keywords)
        return super(GuardedAsyncMethods, held).stream(**keywords)  # type: ignore[misc]

    def tool_runner(self, **keywords: object) -> object:
        """Return the SDK's runner of tools, each of whose replies is valid by the contract."""
        held = self._judging_each(keywords)
        return super(GuardedAsyncMethods, held).tool_runner(**keywords)  # type: ignore[misc]


def without_ours(keywords: JSONObject) -> JSONObject:
    """Return the keywords of a call without those that are ours."""
    return {name: value for name, value in keywords.items() if name not in OUR_KEYWORDS}


def _is_class(wanted: object) -> bool:
    """Return whether the class of an answer is given, or a type that is made of classes."""
    return isinstance(wanted, type) or get_origin(wanted) is not None


class _With:
    """A client with another object at a path."""

    def __init__(self, inner: object, path: str, member: object) -> None:
        self._inner = inner
        self._path = path
        self._member = member

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        first, _, rest = self._path.partition(".")
        if name != first:
            return found

        return _With(found, rest, self._member) if rest else self._member


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
    """A namespace of a client that is not the SDK's, with some members replaced by ours.

    Of a guarded one ``refused`` are the methods that would bring a reply unchecked.
    """

    def __init__(
        self,
        path: str,
        inner: object,
        refused: frozenset[str],
        is_beside: Callable[[], bool],
        **ours: object,
    ) -> None:
        self.__dict__.update(ours, _path=path, _inner=inner, _refused=refused, _ours=ours)
        self._is_beside = is_beside

    def __getattr__(self, name: str) -> Any:
        """Pass everything else through but what would give an unchecked completion."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._refused and not self._is_beside():
            way = self._path if "create" in self._ours else f"{self._path}.{next(iter(self._ours))}"
            raise AttributeError(no_door(f"{self._path}.{name}", way))

        return getattr(self._inner, name)


def no_door(path: str, way: str) -> str:
    """Return what is said of a member of a client that is not the SDK's: ``way`` is guarded."""
    return f"{path} of this client cannot be guarded; call {way}.create()"


def _refused_of_others(sdk: SDK, path: str) -> frozenset[str]:
    """Return the methods for replies of a namespace that is not the SDK's, but for ``create``."""
    return frozenset({*FORMS, *_REPLIES, *sdk.refused_in(path)}) - {"create"}


def guarded(client: object) -> dict[str, Held]:
    """Return the methods of a wrapped client by path, and how the client treats a call of each.

    Methods without a reply have ``passes``. For the others the raw-response forms of the SDK are
    listed, too. If the client is not the SDK's own, the list has the SDK's methods that this client
    has; some entries are namespaces, and stand for all of their methods. Raises TypeError for a
    client that is not wrapped.
    """
    if not hasattr(type(client), "_guard"):
        raise TypeError(
            "guarded() lists the methods of a wrapped client; wrap it first: "
            "strictreply.wrap(client)"
        )

    found: dict[str, Held] = {}
    wrapped: Any = client
    inner = wrapped.unwrapped

    sdk = sdk_behind(inner)
    found |= _of_others(inner)
    if sdk is None:
        known = sdk_for(inner)
        is_open = (*LOW_METHODS, *known.unguarded)
        refused = (*sorted(FORMS), *known.refused)
        found |= _each_in(inner, is_open, "unguarded") | _each_in(inner, refused, "refuses")
        return found

    # for the paths of the APIs; any other path passes
    found |= dict.fromkeys(LOW_METHODS, "guarded")
    found["get_api_list"] = "refuses"
    found["delete"] = "passes"

    for holder, place, name in _methods(inner, "", 0):
        held = _held(sdk, place, name)
        found[f"{place}.{name}"] = held

        for form in ("with_raw_response", "with_streaming_response"):
            if held != "passes" and hasattr(getattr(holder, form, None), name):
                found[f"{place}.{form}.{name}"] = held

    return found


def _of_others(client: object) -> dict[str, Held]:
    """Return how the methods of guarded namespaces that are not the SDK's own are treated."""
    sdk = sdk_for(client)
    found: dict[str, Held] = {}
    for path in sdk.doors:
        inner = member_at(client, path)
        if inner is None or sdk_of(inner) is not None:
            continue

        found[f"{path}.create"] = "guarded"
        names = sorted(_refused_of_others(sdk, path))
        found |= _each_in(client, [f"{path}.{name}" for name in names], "refuses")

    return found


def _each_in(client: object, paths: Iterable[str], held: Held) -> dict[str, Held]:
    """Return the same for each path that leads to a member of a client."""
    return {path: held for path in paths if member_at(client, path) is not None}


def _held(sdk: SDK, place: str, name: str) -> Held:
    path = f"{place}.{name}"
    if path in sdk.refused or (place in sdk.refused and name in (*_REPLIES, "connect")):
        return "refuses"
    if place in sdk.doors and name in _REPLIES:
        return "guarded"

    is_open = any(path == one or path.startswith(f"{one}.") for one in sdk.unguarded)
    return "unguarded" if is_open else "passes"


def _methods(holder: object, path: str, depth: int) -> Iterator[tuple[object, str, str]]:
    """Yield the methods of a client's namespaces: the namespace, its path, the method's name."""
    # the clients for clouds have their namespaces as plain attributes
    state: JSONObject = getattr(holder, "__dict__", {})
    held = {name for name, one in state.items() if sdk_of(one) is not None and not depth}
    for name in sorted({*dir(type(holder)), *held}):
        member = getattr(type(holder), name, None)
        if name.startswith(("_", "with_")) or depth > _MAX_NESTED:
            continue
        if name in held or isinstance(member, cached_property):
            inside = f"{path}.{name}".removeprefix(".")
            yield from _methods(getattr(holder, name), inside, depth + 1)
        elif depth and callable(member):
            yield holder, path, name
