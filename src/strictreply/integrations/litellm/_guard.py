"""The callback for the proxy: it refuses, judges and retries."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakSet

from pydantic import BaseModel

from strictreply import Attempt, Contract, ContractError, RetryPolicy, Steering, wrap
from strictreply.core import JSONObject, UsageMode
from strictreply.core.calls import total_usage
from strictreply.integrations import load
from strictreply.integrations.litellm._errors import in_the_proxys_form
from strictreply.integrations.litellm._models import contract_for, contract_of_group
from strictreply.integrations.litellm._requests import (
    CHAT,
    MESSAGES,
    JudgedApi,
    is_added_to,
    is_demanding,
    is_plain,
    refuse_unread,
)
from strictreply.integrations.litellm._routes import (
    JUDGED,
    NAMES,
    SILENT,
    install,
    passing,
    refusal,
)
from strictreply.integrations.litellm._settings import OtherRoutes, ProxySettings, settings_of
from strictreply.integrations.litellm._streams import (
    ENDED,
    Chunk,
    EndedStream,
    MessageEvents,
    Origin,
    event_bytes,
    origin_now,
)

_HIDDEN: Final = "_hidden_params"
"""The member of a message that LiteLLM takes out before it is sent."""

_OF_ONE_ASK: Final = frozenset({"litellm_logging_obj", "litellm_call_id", "deployment"})

logger: Final = logging.getLogger("strictreply")


@dataclass(slots=True)
class _Call:
    """A call of the proxy."""

    api: JudgedApi
    """The API that the client calls."""
    contract: Contract
    """What the reply is checked against."""
    request: JSONObject
    """The members of the client's request that shape its reply."""
    conversation: object
    """The conversation as the client sent it."""
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    """Every request to the model so far, with its outcome."""
    chunks: object = None
    """The chunks that LiteLLM read of a stream; None without a stream."""
    origin: Origin = field(default_factory=Origin)
    """By which API LiteLLM asks for the first reply."""
    outcome: str = "accepted"
    """How the call ended: ``accepted``, ``fixed`` or the type of the error."""


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
    """A callback for the proxy that answers with valid replies only.

    Each chat completion, each response and each message is valid by its contract, or the answer is
    an error in the form of its API.

    ``contract`` holds for all models, or is a mapping from their names in the proxy, which counts
    for the same models by other names, too; for other models the request's own ``tools`` and
    ``response_format`` (``text`` of a response, ``output_config`` of a message) hold, and requests
    without either are passed on untouched. ``policy`` None means
    ``RetryPolicy(early_stop="off")``: the proxy logs the tokens of a stream only when it was read
    to its end. ``usage_mode`` is which tokens the client reads: those of all asks (``total``) or of
    the ``last``. Every other route that may bring a reply is refused, but for the paths of
    ``pass_routes`` (``*`` stands for anything); ``other_routes="pass"`` lets all of them through.

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
        usage_mode: UsageMode | None = None,
        other_routes: OtherRoutes | None = None,
        pass_routes: Sequence[str] | None = None,
    ) -> None:
        load("litellm.proxy")
        super().__init__()
        given: JSONObject = {
            "contract": contract,
            "policy": policy,
            "usage_mode": usage_mode,
            "other_routes": other_routes,
            "pass_routes": pass_routes,
        }
        self._given = {name: value for name, value in given.items() if value is not None}
        self._steering = steering
        self._calls: WeakKeyDictionary[Any, _Call] = WeakKeyDictionary()
        self._plain: WeakSet[Any] = WeakSet()

        if self._given:
            _ = self._settings  # raises what is wrong where it is declared

        install(lambda: self._settings)

    @cached_property
    def _settings(self) -> ProxySettings:
        return settings_of(
            self._given or getattr(import_module("litellm"), "strictreply", None) or {}
        )

    async def async_pre_call_hook(
        self, *, data: JSONObject, call_type: str, **_: object
    ) -> JSONObject | None:
        """Refuse what cannot be guaranteed before anything is sent.

        A declared contract is written into the request.
        """
        with in_the_proxys_form():
            settings = self._settings
            api = JUDGED.get(call_type)
            passes = passing.get() or (api is None and settings.other_routes == "pass")
            if passes or call_type in SILENT:
                return None

            declared = contract_for(settings, data)
            if api is None or _is_cursors(data, api):
                self._let_in_plain(data, call_type, declared)
                return None

            logged = data.get("litellm_logging_obj")
            if declared is None and not is_demanding(data, api):
                if logged is not None:
                    self._plain.add(logged)
                return None

            refuse_unread(data, api)
            if logged is None:
                raise ContractError(refusal("this route of LiteLLM"))

            request: JSONObject = {name: data[name] for name in api.members if name in data}
            contract = Contract() if declared is None else declared
            first = (
                contract.next_request(request, api=api.name, policy=settings.policy).request or {}
            )

        if declared is not None:
            data.update(first)

        conversation = data.get(api.conversation)
        call = self._calls[logged] = _Call(api, contract, request, conversation)
        origin_now.set(call.origin)
        return None if declared is None else data

    def _let_in_plain(self, data: JSONObject, call_type: str, declared: Contract | None) -> None:
        """Let a request of an API that is not judged in, if it asks for no form of its reply."""
        if declared is not None or not is_plain(data, call_type):
            path = "/cursor/chat/completions" if call_type in JUDGED else call_type
            raise ContractError(refusal(NAMES.get(call_type, path)))

        logged = data.get("litellm_logging_obj")
        if logged is not None:
            self._plain.add(logged)

    async def async_pre_call_deployment_hook(
        self,
        kwargs: JSONObject,
        call_type: object,
    ) -> None:
        """Refuse a call that nothing was demanded of, if its deployment adds a demand.

        That is a form of the reply in the deployment's own settings or those of a fallback, or a
        model with a contract that the request did not lead to by name.
        """
        origin = origin_now.get()
        if origin is not None:
            origin.note_call(call_type)

        if kwargs.get("litellm_logging_obj") not in self._plain:
            return

        with in_the_proxys_form():
            if is_added_to(kwargs):
                raise ContractError(
                    "the settings of this model, or of a fallback, determine its reply; "
                    "give them in the request, or declare them as the model's contract"
                )
            if contract_of_group(self._settings, kwargs) is not None:
                raise ContractError(
                    "the request is served by a model with a declared contract; "
                    "ask it by its own name"
                )

    async def async_post_call_success_hook(
        self, *, data: JSONObject, response: Any, **_: object
    ) -> object:
        """Return a whole reply that is valid: the first one, or a later one."""
        call = self._call_of(data)
        if call is None:
            return None

        first = _as_sent(response, call.api)
        with self._concluding(call, data):
            resource = self._resource(call, data, first)
            given = await resource.create(**_asked(call, data))

        if given is first:
            return None

        if isinstance(response, dict):
            return {**response, **given}

        fixed = type(response)(**given)
        fixed._hidden_params = response._hidden_params  # what the proxy writes its headers from
        return fixed

    async def async_post_call_streaming_iterator_hook(
        self, *, response: AsyncIterable[object], request_data: JSONObject, **_: object
    ) -> AsyncGenerator[object]:
        """Yield a stream whose calls are held back until the whole reply is valid.

        Text of an answer passes at once.
        """
        call = self._call_of(request_data)
        if call is None:
            async for chunk in response:
                yield chunk
            return

        chunks = getattr(response, "chunks", call.chunks)
        ended = _ended(response, call.api, chunks, call.origin)
        resource = self._resource(call, request_data, ended)

        with self._concluding(call, request_data):
            pieces = await resource.create(**_asked(call, request_data))
            try:
                async for piece in pieces:
                    yield piece.chunk if isinstance(piece, Chunk) else _written(piece, call.api)
            finally:
                await pieces.close()

    async def async_post_call_streaming_deployment_hook(
        self, *, response_chunk: object, **_: object
    ) -> None:
        """Mark the last chunk of a stream, which may be what a message is made of.

        LiteLLM does not call this for an end that it makes up.
        """
        origin = origin_now.get()
        if origin is not None:
            origin.note_piece(response_chunk)

        hidden = getattr(response_chunk, "_hidden_params", None)
        if isinstance(hidden, dict):
            hidden[ENDED] = True  # passed along with the chunk, and not sent

    async def async_post_call_response_headers_hook(
        self, *, data: JSONObject, response: object, **_: object
    ) -> dict[str, str] | None:
        """Return headers with the outcome of the reply.

        The headers of a stream go out before its outcome is known.
        """
        call = self._call_of(data)
        if call is None:
            return None

        if hasattr(response, "__aiter__"):
            call.chunks = getattr(response, "chunks", None)
            return {"x-strictreply-outcome": "streamed"}

        return {
            "x-strictreply-outcome": call.outcome,
            "x-strictreply-attempts": str(len(call.attempts)),
        }

    def _call_of(self, data: JSONObject) -> _Call | None:
        logged = data.get("litellm_logging_obj")
        return None if logged is None else self._calls.get(logged)

    def _resource(self, call: _Call, data: JSONObject, first: object) -> Any:
        """Return what takes the place of an SDK's resource: its first response is there already."""
        waiting = [first]
        settings = self._settings

        async def create(**keywords: object) -> object:
            return waiting.pop() if waiting else await _routed(call, data, keywords)

        made = SimpleNamespace(create=create)
        chat = SimpleNamespace(completions=made)
        model = SimpleNamespace(chat=chat, responses=made)
        if call.api is MESSAGES:
            model = SimpleNamespace(messages=made)

        call_keywords: dict[str, Any] = {
            "steering": self._steering,
            "on_attempt": call.attempts.append,
        }
        client: Any = wrap(
            model,
            contract=call.contract,
            policy=settings.policy,
            usage_mode=settings.usage_mode,
            api=call.api.name,
            **call_keywords,
        )
        return client.chat.completions if call.api is CHAT else getattr(client, call.api.name)

    @contextmanager
    def _concluding(self, call: _Call, data: JSONObject) -> Generator[None]:
        """Record how a call ended, and raise what the proxy answers when no reply is valid."""
        try:
            with in_the_proxys_form():
                yield
        except Exception as error:
            call.outcome = getattr(error, "type", "failed")
            _record(call, data)
            raise

        if len(call.attempts) > 1:
            call.outcome = "fixed"
            _record(call, data)


def _is_cursors(data: JSONObject, api: JudgedApi) -> bool:
    """Return whether a response is asked for by Cursor's route, which makes a completion of it."""
    sent = data.get("proxy_server_request") or {}
    path = str(sent.get("url", "")).partition("?")[0]
    return api is not CHAT and path.rstrip("/").endswith("/chat/completions")


def _ended(
    response: Any, api: JudgedApi, chunks: object, origin: Origin
) -> EndedStream | MessageEvents:
    """Return a stream without an end that LiteLLM made up."""
    if api is MESSAGES:
        return MessageEvents(response, origin)

    return EndedStream(response, chunks)


def _as_sent(response: BaseModel | JSONObject, api: JudgedApi) -> object:
    """Return a whole reply as JSON.

    The items of a response go back to the server when it is asked again: without what LiteLLM has
    added to them.
    """
    if isinstance(response, dict):
        return {name: value for name, value in response.items() if name != _HIDDEN}
    if api is CHAT:
        return response.model_dump()

    return response.model_dump(mode="json", by_alias=True, exclude_none=True)


def _written(piece: JSONObject, api: JudgedApi) -> object:
    """Return a piece of a stream as LiteLLM's own object."""
    if api is MESSAGES:
        return event_bytes(piece)
    if api is CHAT:
        return load("litellm").ModelResponseStream(**piece)

    return load("litellm.types.llms.base").BaseLiteLLMOpenAIResponseObject(**piece)


def _asked(call: _Call, data: JSONObject) -> JSONObject:
    """Return what the client asked for.

    A conversation that another callback has changed since then stays as it left it.
    """
    name = call.api.conversation
    now = data.get(name)
    return call.request if now == call.conversation else {**call.request, name: now}


async def _routed(call: _Call, data: JSONObject, keywords: JSONObject) -> object:
    """Ask a model as the proxy does.

    It is a call of its own in the log, which names the call that it belongs to.
    """
    left = _OF_ONE_ASK.union(call.api.members)
    asked: JSONObject = {}
    for name, value in data.items():
        if name not in left and not name.startswith("_"):
            asked[name] = value

    attributes = {
        "call_id": data.get("litellm_call_id"),
        "attempt": len(call.attempts) + 1,
        "issues": [issue.code for issue in call.attempts[-1].issues],
    }
    asked |= keywords
    asked |= {
        "litellm_call_id": str(uuid4()),
        "num_retries": 0,
        call.api.metadata: _metadata(data, attributes, call.api),
    }

    server = load("litellm.proxy.proxy_server")
    route = load("litellm.proxy.route_llm_request").route_request
    router = server.llm_router
    origin = Origin()
    before = origin_now.set(origin)
    try:
        response = await (await route(asked, router, server.user_model, call.api.call_type))
    finally:
        origin_now.reset(before)

    if hasattr(response, "__aiter__"):
        return _ended(response, call.api, getattr(response, "chunks", None), origin)
    return _as_sent(response, call.api)


def _metadata(data: JSONObject, attributes: JSONObject, api: JudgedApi) -> JSONObject:
    """Return the metadata of a call with ``attributes``.

    It is added where custom callbacks and the spend log read it.
    """
    metadata = data.get(api.metadata) or {}
    spend = (metadata.get("spend_logs_metadata") or {}) | {"strictreply": attributes}
    return {**metadata, "strictreply": attributes, "spend_logs_metadata": spend}


def _record(call: _Call, data: JSONObject) -> None:
    """Write how a call ended that was not accepted at once: to our log, and to the proxy's."""
    attributes: JSONObject = {
        "outcome": call.outcome,
        "attempts": len(call.attempts),
        "issues": [issue.code for attempt in call.attempts for issue in attempt.issues],
        "tokens": total_usage(tuple(call.attempts)).total_tokens,
    }
    logger.info("litellm call %s: %s", data.get("litellm_call_id"), attributes)
    data.setdefault(call.api.metadata, {}).update(_metadata(data, attributes, call.api))
