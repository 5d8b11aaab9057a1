"""The guard in LiteLLM's proxy.

With it no reply that breaks the contract of its request leaves ``/chat/completions``. One line of
the proxy's configuration adds it: ``callbacks: strictreply.integrations.litellm.guard``.

A call of the proxy takes the place of an SDK's client under :func:`strictreply.wrap`: its first
response is the one that the proxy has already; further ones come through the proxy's own routing,
fallbacks, keys and logs, without retries of the router.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args
from uuid import uuid4
from weakref import WeakKeyDictionary

from strictreply import (
    Attempt,
    CallFailed,
    Contract,
    ContractError,
    ReplyRejected,
    RetryPolicy,
    TransportFailed,
    wrap,
)
from strictreply.client._wrapped import UsageOf
from strictreply.integrations import load
from strictreply.retry._steering import Steering
from strictreply.values._errors import must_be, without_exception
from strictreply.values._limits import JSONObject
from strictreply.values._replies import total_usage
from strictreply.wires._opening import peek

__all__ = ["Guard", "ReplyWithheld"]
OtherRoutes: TypeAlias = Literal["refuse", "pass"]

# routes past chat completions by which a model can be asked, in LiteLLM's words and a client's
_OTHER: Final = {
    **dict.fromkeys(("responses", "aresponses"), "/v1/responses"),
    **dict.fromkeys(("anthropic_messages", "aanthropic_messages"), "/v1/messages"),
    **dict.fromkeys(("agenerate_content", "agenerate_content_stream"), "generateContent"),
    **dict.fromkeys(("text_completion", "atext_completion"), "/v1/completions"),
}

# the members of a request that say what its reply may be; all others go along with every ask
_READ: Final = (
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "functions",
    "function_call",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
)

_OF_ONE_ASK: Final = frozenset({"litellm_logging_obj", "litellm_call_id", "deployment", *_READ})
_SETTINGS: Final = frozenset({"contract", "policy", "usage", "other_routes"})
_ENDED: Final = "strictreply_ended"

logger: Final = logging.getLogger("strictreply")


class ReplyWithheld(Exception):
    """What the proxy answers in the place of a reply, in the form of OpenAI's errors.

    ``type`` is ``invalid_request_error`` (status 400: the request asks for what cannot be
    guaranteed), ``reply_rejected`` or ``reply_halted`` (422, which no SDK repeats), or
    ``reply_failed`` (502). ``code`` is the reason, such as ``retries``. The message holds no word
    of the model.
    """

    param: None = None

    def __init__(self, message: str, *, kind: str, code: str, status_code: int) -> None:
        super().__init__(message)
        self.message: str = message
        self.type: str = kind
        self.code: str = code
        self.status_code: int = status_code


class _Settings(NamedTuple):
    contract: Contract | None
    contracts: Mapping[str, Contract]
    policy: RetryPolicy
    usage: UsageOf
    other_routes: OtherRoutes


@dataclass(slots=True)
class _Call:
    """A call of the proxy.

    It holds what the client asked for, the messages as they were sent, every ask so far, and the
    chunks that LiteLLM read of a stream.
    """

    contract: Contract
    request: JSONObject
    messages: object
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    chunks: object = None
    outcome: str = "accepted"


if TYPE_CHECKING:
    _Callback = object  # LiteLLM's types are not read: it is in an environment of its own
else:
    try:
        _Callback = load("litellm.integrations.custom_logger").CustomLogger
    except ImportError:
        # raised when a guard is made: this module, as all of the package, can be imported without
        # LiteLLM
        _Callback = object


class Guard(_Callback):
    """A callback for the proxy that answers with valid chat completions only.

    Each one is valid by its contract, or the answer is an error of OpenAI's form.

    ``contract`` holds for all models, or is a mapping from their names in the proxy; for other
    models the request's own ``tools`` and ``response_format`` hold, and requests without either are
    passed on untouched. ``policy`` None means ``RetryPolicy(veto="off")``: the proxy logs the
    tokens of a stream only when it was read to its end. ``usage`` is which tokens the client reads:
    those of all asks (``total``) or of the ``last``. ``other_routes``, ``refuse`` or ``pass``,
    holds for tools, and for models with a declared contract, by any other route, such as
    ``/v1/responses``.

    A guard without any keyword, as :data:`guard` is, reads them from ``litellm_settings:
    strictreply:`` of the proxy's configuration when the first request comes. There ``policy`` is a
    mapping of the keywords of a RetryPolicy, and a contract ``module:name``, or a JSON file that
    holds a list of tools or the keywords of a Contract.

    Raises ContractError when a setting is wrong; from a configuration, at each request. It has no
    subclasses: LiteLLM looks for the hooks of streams on a callback's own class alone.
    """

    def __init_subclass__(cls) -> None:
        raise TypeError(
            "Guard cannot be subclassed: LiteLLM would not see its hooks; make an instance of it"
        )

    def __init__(
        self,
        *,
        contract: Contract | Mapping[str, Contract] | None = None,
        policy: RetryPolicy | None = None,
        steering: Steering | None = None,
        usage: UsageOf | None = None,
        other_routes: OtherRoutes | None = None,
    ) -> None:
        load("litellm.proxy")
        super().__init__()
        given: JSONObject = {
            "contract": contract,
            "policy": policy,
            "usage": usage,
            "other_routes": other_routes,
        }
        self._given = {name: value for name, value in given.items() if value is not None}
        self._steering = steering
        self._calls: WeakKeyDictionary[Any, _Call] = WeakKeyDictionary()

        if self._given:
            _ = self._settings  # raises what is wrong where it is declared

    @cached_property
    def _settings(self) -> _Settings:
        return _settings_of(
            self._given or getattr(import_module("litellm"), "strictreply", None) or {}
        )

    async def async_pre_call_hook(
        self, *, data: JSONObject, call_type: str, **_: Any
    ) -> JSONObject | None:
        """Refuse what cannot be guaranteed before anything is sent.

        A declared contract is written into the request.
        """
        with _told():
            settings = self._settings
            declared = settings.contracts.get(str(data.get("model")), settings.contract)

            route = _OTHER.get(call_type) if settings.other_routes == "refuse" else None
            if route is not None and (declared is not None or data.get("tools")):
                raise ContractError(
                    f"replies by {route} are not guarded; "
                    "use chat completions, or other_routes: pass"
                )

            if call_type not in {"completion", "acompletion"}:
                return None
            if declared is None and not _demands(data):
                return None

            request: JSONObject = {name: data[name] for name in _READ if name in data}
            contract = Contract() if declared is None else declared
            first = contract.next_request(request, policy=settings.policy).request or {}

        if declared is not None:
            data.update(first)

        self._calls[data["litellm_logging_obj"]] = _Call(contract, request, data["messages"])
        return None if declared is None else data

    async def async_post_call_success_hook(
        self, *, data: JSONObject, response: Any, **_: Any
    ) -> Any:
        """Return a whole reply that is valid: the first one, or a later one."""
        call = self._call_of(data)
        if call is None:
            return None

        first = response.model_dump()
        with self._concluding(call, data):
            completions = self._client(call, data, first).chat.completions
            given = await completions.create(**_asked(call, data))

        if given is first:
            return None

        mended = load("litellm").ModelResponse(**given)
        mended._hidden_params = response._hidden_params  # what the proxy writes its headers from
        return mended

    async def async_post_call_streaming_iterator_hook(
        self, *, response: Any, request_data: JSONObject, **_: Any
    ) -> AsyncGenerator[Any]:
        """Yield a stream whose calls are held back until the whole reply is valid.

        Text of an answer passes at once.
        """
        call = self._call_of(request_data)
        if call is None:
            async for chunk in response:
                yield chunk
            return

        ended = _Ended(response, getattr(response, "chunks", call.chunks))
        client = self._client(call, request_data, ended)

        with self._concluding(call, request_data):
            pieces = await client.chat.completions.create(**_asked(call, request_data))
            try:
                async for piece in pieces:
                    if isinstance(piece, _Chunk):
                        yield piece.chunk
                    else:
                        yield load("litellm").ModelResponseStream(**piece)
            finally:
                await pieces.close()

    async def async_post_call_streaming_deployment_hook(
        self, *, response_chunk: Any, **_: Any
    ) -> None:
        """Mark the last chunk of a stream.

        LiteLLM does not call this for an end that it makes up.
        """
        response_chunk._hidden_params[_ENDED] = True  # passed along with the chunk, and not sent

    async def async_post_call_response_headers_hook(
        self, *, data: JSONObject, response: Any, **_: Any
    ) -> dict[str, str] | None:
        """Return headers with the outcome of the reply.

        The headers of a stream go out before its outcome is known.
        """
        call = self._call_of(data)
        if call is None:
            return None

        if hasattr(response, "chunks"):
            call.chunks = response.chunks
            return {"x-strictreply-outcome": "streamed"}

        return {
            "x-strictreply-outcome": call.outcome,
            "x-strictreply-attempts": str(len(call.attempts)),
        }

    def _call_of(self, data: JSONObject) -> _Call | None:
        logged = data.get("litellm_logging_obj")
        return None if logged is None else self._calls.get(logged)

    def _client(self, call: _Call, data: JSONObject, first: Any) -> Any:
        waiting = [first]
        settings = self._settings

        async def create(**keywords: Any) -> Any:
            return waiting.pop() if waiting else await _routed(call, data, keywords)

        model = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
        told: dict[str, Any] = {"steering": self._steering, "on_attempt": call.attempts.append}
        return wrap(
            model, contract=call.contract, policy=settings.policy, usage=settings.usage, **told
        )

    @contextmanager
    def _concluding(self, call: _Call, data: JSONObject) -> Generator[None]:
        """Record how a call ended, and raise what the proxy answers when no reply is valid."""
        try:
            with _told():
                yield
        except Exception as error:
            call.outcome = getattr(error, "type", "failed")
            _record(call, data)
            raise

        if len(call.attempts) > 1:
            call.outcome = "mended"
            _record(call, data)


def _settings_of(given: JSONObject) -> _Settings:
    must_be("strictreply", given, dict, f"a mapping with {', '.join(sorted(_SETTINGS))}")
    if unknown := given.keys() - _SETTINGS:
        raise ContractError(
            f"no setting {min(unknown)!r}; the settings are {', '.join(sorted(_SETTINGS))}"
        )

    named = given.get("contract") or os.environ.get("STRICTREPLY_CONTRACT")
    contracts: dict[str, Contract] = {}
    if isinstance(named, Mapping):
        contracts = {str(model): _contract(one) for model, one in named.items()}

    policy = given.get("policy") or {}
    with _named("policy"):
        if isinstance(policy, Mapping):
            keywords: dict[str, Any] = {"veto": "off", **policy}
            policy = RetryPolicy(**keywords)
        must_be("policy", policy, RetryPolicy, "a mapping of the keywords of a RetryPolicy")

    usage = given.get("usage", "total")
    other_routes = given.get("other_routes", "refuse")
    chosen = (("usage", usage, UsageOf), ("other_routes", other_routes, OtherRoutes))
    for name, value, allowed in chosen:
        if value not in get_args(allowed):
            raise ContractError(f"{name} must be one of {', '.join(get_args(allowed))}")

    declared = _contract(named) if named and not isinstance(named, Mapping) else None
    return _Settings(declared, contracts, policy, usage, other_routes)


@contextmanager
def _named(setting: str) -> Generator[None]:
    """Raise what is wrong with a setting as a ContractError that names it.

    A user's module may raise any exception.
    """
    try:
        yield
    except Exception as error:
        raise ContractError(f"litellm_settings.strictreply.{setting}: {error}") from error


def _contract(named: object) -> Contract:
    """Return the contract that a setting names: itself, ``module:name``, or a JSON file."""
    with _named(f"contract {named!r}" if isinstance(named, str) else "contract"):
        if isinstance(named, str) and named.endswith(".json"):
            said = json.loads(Path(named).read_text(encoding="utf-8"))
            return Contract(**said) if isinstance(said, dict) else Contract(tools=said)

        if isinstance(named, str):
            module, _, name = named.partition(":")
            named = attrgetter(name)(import_module(module)) if name else named

        must_be(
            "contract", named, Contract, "a Contract, module:name of one, or a JSON file of tools"
        )

    return named  # type: ignore[return-value]  # must_be has seen to it


def _demands(data: JSONObject) -> bool:
    """Return whether a request itself determines its reply."""
    wanted = data.get("response_format")
    kind = peek(wanted, "type") if isinstance(wanted, Mapping) else wanted
    return bool(data.get("tools") or data.get("functions")) or kind not in {None, "text"}


def _asked(call: _Call, data: JSONObject) -> JSONObject:
    """Return what the client asked for.

    Messages that another callback has changed since then stay as it left them.
    """
    now = data["messages"]
    return call.request if now == call.messages else {**call.request, "messages": now}


async def _routed(call: _Call, data: JSONObject, keywords: JSONObject) -> Any:
    """Ask a model as the proxy does.

    It is a call of its own in the log, which names the call that it belongs to.
    """
    asked: JSONObject = {}
    for name, value in data.items():
        if name not in _OF_ONE_ASK and not name.startswith("_"):
            asked[name] = value

    told = {
        "call_id": data.get("litellm_call_id"),
        "attempt": len(call.attempts) + 1,
        "issues": [issue.code for issue in call.attempts[-1].issues],
    }
    asked |= keywords
    asked |= {
        "litellm_call_id": str(uuid4()),
        "num_retries": 0,
        "metadata": _metadata(data, told),
    }

    server = load("litellm.proxy.proxy_server")
    route = load("litellm.proxy.route_llm_request").route_request
    response = await (await route(asked, server.llm_router, server.user_model, "acompletion"))

    if hasattr(response, "chunks"):
        return _Ended(response, response.chunks)
    return response.model_dump()


class _Chunk(NamedTuple):
    """A chunk of LiteLLM's.

    LiteLLM writes null where the server wrote nothing; the chunk as JSON has neither.
    """

    chunk: Any

    def model_dump(self, **_: object) -> JSONObject:
        """Return the chunk as JSON."""
        return cast("JSONObject", self.chunk.model_dump(mode="json", exclude_none=True))


class _Ended:
    """The chunks of a stream as its server sent them, without a ``finish_reason`` of LiteLLM's."""

    def __init__(self, response: Any, chunks: Any) -> None:
        self._response = response
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for chunk in self._response:
            is_genuine = _finish_reason(chunk) is None or _ENDED in chunk._hidden_params
            # An end that is not passed along does not stop the reading: the proxy logs what was
            # asked for only when all was read.
            if is_genuine or self._has_ended():
                yield _Chunk(chunk)

    def _has_ended(self) -> bool:
        return any(_finish_reason(one) is not None for one in reversed(self._chunks or ()))

    async def aclose(self) -> None:
        """Close the stream, so that a server that is still generating stops."""
        if hasattr(self._response, "aclose"):
            await self._response.aclose()


def _finish_reason(chunk: Any) -> object:
    return chunk.choices[0].finish_reason if getattr(chunk, "choices", None) else None


@contextmanager
def _told() -> Generator[None]:
    """Raise this library's errors in the form in which the proxy answers.

    What the proxy itself raised stays as it is.
    """
    try:
        yield
    except (ContractError, CallFailed) as error:
        if isinstance(error, ContractError):
            kind = "invalid_request_error"
            code = "contract"
            status = 400
        elif isinstance(error, TransportFailed):
            if error.cause is not None:
                raise error.cause from None

            kind = "reply_failed"
            code = error.reason
            status = 502
        else:
            kind = "reply_rejected" if isinstance(error, ReplyRejected) else "reply_halted"
            code = error.reason
            status = 422

        message = without_exception(str(error))
        raise ReplyWithheld(message, kind=kind, code=code, status_code=status) from None


def _metadata(data: JSONObject, told: JSONObject) -> JSONObject:
    """Return the metadata of a call with ``told``.

    It is added where custom callbacks and the spend log read it.
    """
    metadata = data.get("metadata") or {}
    spend = (metadata.get("spend_logs_metadata") or {}) | {"strictreply": told}
    return {**metadata, "strictreply": told, "spend_logs_metadata": spend}


def _record(call: _Call, data: JSONObject) -> None:
    """Write how a call ended that was not accepted at once: to our log, and to the proxy's."""
    told: JSONObject = {
        "outcome": call.outcome,
        "attempts": len(call.attempts),
        "issues": [issue.code for attempt in call.attempts for issue in attempt.issues],
        "tokens": total_usage(tuple(call.attempts)).total_tokens,
    }
    logger.info("litellm call %s: %s", data.get("litellm_call_id"), told)
    data.setdefault("metadata", {}).update(_metadata(data, told))


guard: Guard  # the guard that the proxy's configuration names; made when it is first read


def __getattr__(name: str) -> Guard:
    if name != "guard":
        raise AttributeError(name)
    made = globals()[name] = Guard()
    return made
