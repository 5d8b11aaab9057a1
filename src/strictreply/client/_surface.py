"""The methods of the SDK that are guarded: every way by which a chat completion can come out of a wrapped client.

``with_raw_response`` and ``with_streaming_response`` are the SDK's own: they call ``create`` or ``parse`` with a header
that asks for the raw response, which is honoured here. So two methods guard all of them, sync and async.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, update_wrapper
from importlib import import_module
from types import FunctionType
from typing import Any, Literal, NoReturn, TypeAlias

from pydantic import BaseModel

from strictreply.client._transport import (
    RAW_RESPONSE,
    Transport,
    Way,
    is_async_openai,
    is_openai,
    is_passing,
    is_patched,
)
from strictreply.values._json import JSONObject
from strictreply.values._replies import AssistantReply, DirectAnswer

_OWN = frozenset({"create", "parse", "stream", "completions", "with_raw_response", "with_streaming_response"})
"""What is ours in a namespace of the SDK, or made of what is ours."""

_COMPLETIONS = "chat/completions"
_UNGUARDED = "responses.{0}() is not guarded by strictreply yet: its result was not judged. Use client.reply()"


def is_sdks(client: Any) -> bool:
    """Return whether a client is the openai SDK's, by its class."""
    return any(base.__module__ == "openai._base_client" for base in type(client).__mro__)


def class_over(ours: Any, client: Any) -> Any:
    """Return the class of a wrapped client: ours, and the client's own where that is the SDK's."""
    kind: Any = type(client)
    return _class_of(ours, kind) if is_sdks(client) else ours


@cache
def _class_of(ours: Any, kind: Any) -> Any:
    copied = {name: getattr(ours, name) for name in ("__init__", "copy", "with_options")}
    methods = {name: _like_the_sdks(one, getattr(kind, name)) for name, one in (copied | {"post": _post}).items()}
    told = {"__slots__": (), "__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind.__name__, (ours, kind), told | methods)


def _post(self: Any, path: str, **given: Any) -> Any:
    # completions of the SDK's that a program makes over a wrapped client come here, too
    if path.strip("/") == _COMPLETIONS:
        raise NotImplementedError(f"client.post({path!r}) cannot be guarded; call chat.completions.create()")
    return self.unwrapped.post(path, **given)


Call: TypeAlias = Callable[[JSONObject, Way, JSONObject | None], Any]
"""Makes one guarded call of keywords, and returns its completion (an awaitable of it from an async client).

The third is the ``response_format`` to send, None for that of the contract.
"""


class Namespaces:
    """``chat``, ``beta`` and ``responses`` of a wrapped client: kept, so that what is patched in them stays."""

    def __init__(
        self, transport: Transport, wrapped: Any, call: Call, *, is_free: bool, origin: Namespaces | None = None
    ) -> None:
        """``wrapped`` is the client whose namespaces these are, ``is_free`` says that its contract holds any text.

        ``origin`` holds the namespaces of the wrapped client that this one is a copy of: what was patched there counts.
        """
        self._origin = origin
        self._transport = transport
        self._wrapped = wrapped
        self._call = call
        self._is_free = is_free
        self._client = transport.client
        self._chat: tuple[Any, Any] = (None, None)

    @property
    def chat(self) -> Any:
        """The namespace ``chat``; made anew when that of the client inside was replaced."""
        inner = self._client.chat
        made_of, chat = self._chat
        if made_of is not inner:
            chat = self._guarded_chat(inner)
            self._chat = inner, chat
        return chat

    def _guarded_chat(self, inner: Any) -> Any:
        if not is_openai(inner.completions):
            completions = _Namespace(inner.completions, create=self._wrapped.create)
            return _Namespace(inner, completions=completions)
        mixin = GuardedAsyncCompletions if is_async_openai(inner.completions) else GuardedCompletions
        completions = self._like(inner.completions, mixin, call=self._call, transport=self._transport)
        if not is_openai(inner):
            return _Namespace(inner, completions=completions)
        chat = self._like(inner)
        chat.completions = completions
        return chat

    @cached_property
    def beta(self) -> Any:
        """The namespace ``beta``, whose ``chat`` is a guarded one: another than ours, as in the SDK."""
        inner = self._client.beta
        beta = self._like(inner)
        beta.chat = self._guarded_chat(inner.chat)
        if not self._is_free and hasattr(inner, "responses"):
            beta.responses = self._unguarded(inner.responses)
        return beta

    @cached_property
    def responses(self) -> Any:
        """The namespace ``responses``: its calls are warned of once where a contract would have held them."""
        inner = self._client.responses
        return inner if self._is_free else self._unguarded(inner)

    def _unguarded(self, inner: Any) -> Any:
        return self._like(inner, UnguardedResponses, warned=[])

    def patched_create(self) -> Any:
        """Return what somebody has put in the place of ``chat.completions.create``; None when nobody has."""
        completions: Any = None if self._chat[1] is None else self._chat[1].completions
        is_ours = issubclass(type(completions), (_Guarded, _Namespace)) and not is_patched(completions)
        if completions is None or is_ours or completions.create == self._wrapped.create:
            return None if self._origin is None else self._origin.patched_create()
        return completions.create

    def _like(self, inner: Any, mixin: Any = None, **ours: Any) -> Any:
        """Return a namespace of the SDK's own class with some methods in front; our state is in ``_strictreply_…``."""
        kind: Any = type(inner)
        made: Any = object.__new__(kind if mixin is None else _mixed(mixin, kind))
        kept = {name: value for name, value in vars(inner).items() if name not in _OWN}
        told = {f"_strictreply_{name}": value for name, value in ours.items()}
        made.__dict__.update(kept, _client=self._wrapped, **told)
        return made


@cache
def _mixed(mixin: Any, kind: Any) -> Any:
    guarding = [name for name in ("create", "parse", "stream") if hasattr(mixin, name) and hasattr(kind, name)]
    methods = {name: _like_the_sdks(getattr(mixin, name), getattr(kind, name)) for name in guarding}
    return type(kind.__name__, (mixin, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__, **methods})


def _like_the_sdks(function: FunctionType, sdks: Any) -> Any:
    """Return a copy of a function with the signature and the documentation of the SDK's."""
    code, names, closure = function.__code__, function.__globals__, function.__closure__
    copied = FunctionType(code, names, function.__name__, function.__defaults__, closure)
    return update_wrapper(copied, sdks)


class _Guarded:
    """What the completions of both twins share."""

    _strictreply_call: Call
    _strictreply_transport: Transport

    def _created(self, keywords: JSONObject) -> Any:
        if is_passing(self._strictreply_transport):
            return self._strictreply_transport.create(**keywords)
        wanted = keywords.get("response_format")
        if not keywords.keys() >= {"messages", "model"} or (isinstance(wanted, type) and issubclass(wanted, BaseModel)):
            return self._refused(keywords)
        return self._strictreply_call(keywords, Way(_form(keywords)), None)

    def _refused(self, keywords: JSONObject) -> Any:
        # the SDK's own method says what it misses, on completions that send nothing
        method: Any = super().create  # type: ignore[misc]
        return method.__func__(_Sendless(), **keywords)

    def _parsed(self, keywords: JSONObject) -> Any:
        form, parsing = _form(keywords), _Parsing.of(keywords)
        return self._strictreply_call(keywords, Way(form, parsing.finish), parsing.response_format)


class GuardedCompletions(_Guarded):
    """``chat.completions`` of a wrapped client."""

    def create(self, **keywords: Any) -> Any:
        """Make one call; the completion is valid by the contract. Takes ``contract``, ``policy``, ``steering``, too."""
        return self._created(keywords)

    def parse(self, **keywords: Any) -> Any:
        """Make one call; ``.parsed`` of the completion is what was judged."""
        return self._parsed(keywords)


class GuardedAsyncCompletions(_Guarded):
    """``chat.completions`` of a wrapped async client: the twin of :class:`GuardedCompletions`."""

    async def create(self, **keywords: Any) -> Any:
        """Make one call; the completion is valid by the contract."""
        return await self._created(keywords)

    async def parse(self, **keywords: Any) -> Any:
        """Make one call; ``.parsed`` of the completion is what was judged."""
        return await self._parsed(keywords)


class _Sendless:
    """Completions that send nothing: the SDK's method is run on it for its complaints about its arguments."""

    def _post(self, *_path: Any, **_options: Any) -> NoReturn:
        raise TypeError("chat.completions.create() takes messages and model, and no class as response_format")


class UnguardedResponses:
    """``responses`` of a wrapped client whose contract does not reach it."""

    _strictreply_warned: list[str]

    def create(self, **keywords: Any) -> Any:
        """Call the SDK's own method, and warn that nothing is judged."""
        return self._unguarded("create", keywords)

    def parse(self, **keywords: Any) -> Any:
        """Call the SDK's own method, and warn that nothing is judged."""
        return self._unguarded("parse", keywords)

    def stream(self, **keywords: Any) -> Any:
        """Call the SDK's own method, and warn that nothing is judged."""
        return self._unguarded("stream", keywords)

    def _unguarded(self, name: str, keywords: JSONObject) -> Any:
        if not self._strictreply_warned:
            self._strictreply_warned.append(name)
            warnings.warn(_UNGUARDED.format(name), UserWarning, stacklevel=3)
        return getattr(super(), name)(**keywords)


@dataclass(frozen=True, slots=True)
class _Parsing:
    """What the SDK's ``parse`` does around a request, done by the SDK's own functions."""

    library: Any
    wanted: Any
    tools: Any

    @classmethod
    def of(cls, keywords: JSONObject) -> _Parsing:
        """Read the keywords of a call; raises what the SDK raises for tools that it cannot parse."""
        library = import_module("openai.lib._parsing")
        if isinstance(keywords.get("tools"), Iterator):
            keywords["tools"] = list(keywords["tools"])
        missing = import_module("openai").NOT_GIVEN
        wanted, tools = keywords.get("response_format", missing), keywords.get("tools", missing)
        headers = {"X-Stainless-Helper-Method": "chat.completions.parse", **(keywords.get("extra_headers") or {})}
        keywords["extra_headers"] = headers
        return cls(library, wanted, library.validate_input_tools(tools))

    @property
    def response_format(self) -> JSONObject | None:
        """The answer type in the SDK's own form; None without one."""
        if isinstance(self.wanted, Mapping | None):
            return None
        told = self.library.type_to_response_format_param(self.wanted)  # a TypeError for what is none
        return told if isinstance(told, dict) else None

    def finish(self, completion: Any, reply: AssistantReply) -> Any:
        """Make a parsed completion of a valid one: its ``parsed`` is the answer that was judged."""
        parsed = self.library.parse_chat_completion(
            response_format=self.wanted, input_tools=self.tools, chat_completion=completion
        )
        if isinstance(self.wanted, type) and isinstance(reply, DirectAnswer):
            parsed.choices[0].message.parsed = reply.answer
        return parsed


def _form(keywords: JSONObject) -> str | None:
    """Take the form in which the SDK's own wrappers want the response out of the headers; None for a completion."""
    headers: Mapping[str, str] = keywords.get("extra_headers") or {}
    if RAW_RESPONSE in headers:
        keywords["extra_headers"] = {name: value for name, value in headers.items() if name != RAW_RESPONSE}
    return headers.get(RAW_RESPONSE)


class _Namespace:
    """A namespace of a client that is not the SDK's, with some members replaced by ours."""

    def __init__(self, inner: Any, **ours: Any) -> None:
        """Put our members in front."""
        self.__dict__.update(ours, _inner=inner)

    def __getattr__(self, name: str) -> Any:
        """Pass everything else through but what would give an unchecked completion."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _OWN:
            raise AttributeError(
                f"chat.completions.{name} of this client cannot be guarded; call chat.completions.create()"
            )
        return getattr(self._inner, name)


Held: TypeAlias = Literal["guarded", "passes", "refuses"]
"""What becomes of a call of a method: its completion is judged, it reaches the API as it is, or it raises."""

_HELD: Mapping[str, Held] = {"create": "guarded", "parse": "guarded", "stream": "guarded"}
_CHAT = "chat.completions"
_MAX_NESTED = 6


def guarded(client: Any) -> dict[str, Held]:
    """List the methods of a wrapped client by their paths, and whether each is guarded, passes or refuses.

    Raises TypeError for a client that is not wrapped.
    """
    if not hasattr(type(client), "_guard"):
        raise TypeError("guarded() lists the methods of a wrapped client; wrap it first: strictreply.wrap(client)")
    inner = client.unwrapped
    found: dict[str, Held] = {}
    if not is_sdks(inner):
        for name in sorted(_OWN - {"completions"}):
            found[f"{_CHAT}.{name}"] = "guarded" if name == "create" else "refuses"
        return found
    for path in _methods(inner, "", 0):
        place, _, name = path.rpartition(".")
        is_chat = place.removeprefix("beta.") == _CHAT
        held = _HELD.get(name, "passes") if is_chat else "passes"
        found[path] = held
        if is_chat and held == "guarded":
            found |= {f"{place}.{form}.{name}": held for form in ("with_raw_response", "with_streaming_response")}
    return found


def _methods(holder: Any, path: str, depth: int) -> Iterator[str]:
    """Yield the paths of the public methods of the SDK's namespaces."""
    for name in dir(type(holder)):
        member = getattr(type(holder), name, None)
        if name.startswith(("_", "with_")) or depth > _MAX_NESTED:
            continue
        if isinstance(member, cached_property):
            yield from _methods(getattr(holder, name), f"{path}{name}.", depth + 1)
        elif depth and callable(member):
            yield f"{path}{name}"
