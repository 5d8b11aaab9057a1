"""The callback for the proxy: it refuses, judges and retries."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, WeakSet

from strictreply import Contract, ContractError, RetryPolicy, Steering
from strictreply.core import JSONObject, UsageMode
from strictreply.core.calls import Enforcement, GivenMode, GivenShare, GivenTools, unharmed
from strictreply.core.text import printable
from strictreply.integrations import load
from strictreply.integrations.litellm._calls import (
    UNJUDGED,
    ProxyCall,
    as_sent,
    asked_of,
    client_of,
    ended_stream,
    resource_of,
    routed,
    written,
)
from strictreply.integrations.litellm._errors import in_the_proxys_form
from strictreply.integrations.litellm._models import contract_for, contract_of_group
from strictreply.integrations.litellm._modes import enforcement_for
from strictreply.integrations.litellm._requests import (
    CHAT,
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
    KeptStream,
    chunks_behind,
    origin_now,
)

_BESIDE: Final = "judging an observed reply"

logger: Final = logging.getLogger("strictreply")


if TYPE_CHECKING:
    _Callback = object  # type checks run without LiteLLM, which has its own environment
else:
    try:
        _Callback = load("litellm.integrations.custom_logger").CustomLogger
    except ImportError:
        # making a guard raises it; this module, like the whole package, can be imported without
        # LiteLLM
        _Callback = object


class Guard(_Callback):
    """A callback for LiteLLM's proxy that returns only valid replies.

    Each chat completion, response and message is valid by its contract, or the proxy returns an
    error in the form of the API.

    - ``contract`` applies to all models. A mapping has contracts by the models' names in the proxy,
      and applies to the same models under other names, too. For other models the request's own
      ``tools`` and ``response_format`` apply (``text`` of a response, ``output_config`` of a
      message); requests without either are passed on unchanged.
    - ``policy`` None means ``RetryPolicy(early_stop="off")``, because the proxy logs the tokens of
      a stream only when it was read to its end.
    - ``usage_mode`` says which tokens the client sees: those of all requests (``total``) or of the
      ``last``.
    - ``pass_routes`` are paths of other routes that pass (``*`` matches anything). Every other
      route that may return a reply is refused; ``other_routes="pass"`` lets all of them pass.
    - ``mode``, ``enforce`` and ``observe`` say how far replies are enforced, as in
      :func:`strictreply.wrap`; with ``mode="observe"`` nothing is refused or changed.
    - ``modes`` is a list of rules with ``model``, ``key`` or ``team`` (patterns) and the same three
      settings. The first rule that matches a request replaces them.

    A guard without keywords, such as :data:`guard`, reads them from ``litellm_settings:
    strictreply:`` in the proxy's configuration at the first request. There ``policy`` is a mapping
    of the keywords of a RetryPolicy, and a contract is ``module:name``, or a JSON file with a list
    of tools or the keywords of a Contract.

    Raises ContractError when a setting is wrong; for settings of a configuration, at each request.
    It cannot be subclassed, because LiteLLM looks for the hooks of streams only on a callback's own
    class.
    """

    def __init_subclass__(cls) -> None:
        raise TypeError(
            "Guard cannot be subclassed, because LiteLLM would not find its hooks; make an instance"
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
        mode: GivenMode = None,
        enforce: GivenTools = None,
        observe: GivenShare = None,
        modes: Sequence[Mapping[str, object]] | None = None,
    ) -> None:
        load("litellm.proxy")
        super().__init__()
        given: JSONObject = {
            "contract": contract,
            "policy": policy,
            "usage_mode": usage_mode,
            "other_routes": other_routes,
            "pass_routes": pass_routes,
            "mode": mode,
            "enforce": enforce,
            "observe": observe,
            "modes": modes,
        }
        self._given = {name: value for name, value in given.items() if value is not None}
        self._steering = steering
        self._calls: WeakKeyDictionary[Any, ProxyCall] = WeakKeyDictionary()
        self._plain: WeakSet[Any] = WeakSet()
        self._unjudged: WeakSet[Any] = WeakSet()

        if self._given:
            _ = self._settings  # raise for wrong settings here, where they are declared

        install(lambda: self._settings)

    @cached_property
    def _settings(self) -> ProxySettings:
        return settings_of(
            self._given or getattr(import_module("litellm"), "strictreply", None) or {}
        )

    async def async_pre_call_hook(
        self, *, data: JSONObject, call_type: str, user_api_key_dict: object = None, **_: object
    ) -> JSONObject | None:
        """Refuse a request that cannot be guaranteed, before anything is sent.

        A declared contract is added to the request. If replies are only observed, nothing is
        refused or added.
        """
        with in_the_proxys_form():
            settings = self._settings
            is_other = call_type not in JUDGED and settings.other_routes == "pass"
            if passing.get() or is_other or call_type in SILENT:
                return None

            now = enforcement_for(settings.rules, settings.rollout, data, user_api_key_dict)
            if now.is_beside:
                self._watch(now, data, call_type)
                return None

            declared = contract_for(settings, data)
            call = _call_in(data, call_type, declared, now)
            logged = data.get("litellm_logging_obj")
            if call is None:
                if logged is not None:
                    self._plain.add(logged)
                return None

            if logged is None:
                raise ContractError(refusal("this route of LiteLLM"))

            first = self._first_request(call)

        self._calls[logged] = call
        origin_now.set(call.origin)
        if declared is None or not now.is_whole:
            return None

        data.update(first)
        call.conversation = data.get(call.api.conversation)
        return data

    def _first_request(self, call: ProxyCall) -> JSONObject:
        """Return the request for a guaranteed reply; raise ContractError if it is impossible."""
        # if only some tools are enforced, a declared contract is not part of the request
        contract = call.contract if call.enforcement.is_whole else Contract()
        policy = self._settings.policy
        made = contract.next_request(call.request, api=call.api.name, policy=policy)
        return made.request or {}

    def _watch(self, now: Enforcement, data: JSONObject, call_type: str) -> None:
        """Note a call whose reply is judged beside; whatever it asks for, it passes."""
        logged = data.get("litellm_logging_obj")
        if logged is None or not now.is_judged:
            return

        self._unjudged.add(logged)
        with unharmed(_BESIDE):
            try:
                call = _call_in(data, call_type, contract_for(self._settings, data), now)
            except ContractError as error:
                named = data.get("litellm_call_id")
                logger.info("litellm call %s cannot be judged: %s", named, printable(str(error)))
                return

            self._unjudged.discard(logged)
            if call is not None:
                self._calls[logged] = call
                origin_now.set(call.origin)

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
                    "the settings of this model, or of a fallback, determine the form of its "
                    "reply; put them in the request, or declare them as the model's contract"
                )
            if contract_of_group(self._settings, kwargs) is not None:
                raise ContractError(
                    "a model with a declared contract would serve this request; "
                    "request that model by its own name"
                )

    async def async_post_call_success_hook(
        self, *, data: JSONObject, response: Any, **_: object
    ) -> object:
        """Return a whole reply that is valid: the first one, or a later one."""
        call = self._call_of(data)
        if call is None:
            return None

        if call.enforcement.is_beside:
            await self._judge_beside(call, data, partial(as_sent, response, call.api))
            return None

        first = as_sent(response, call.api)
        with self._concluding(call, data):
            resource = self._resource(call, data, first)
            given = await resource.create(**asked_of(call, data))

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

        Text of an answer passes at once. Where replies are only observed, all of it does.
        """
        call = self._call_of(request_data)
        if call is None:
            async for chunk in response:
                yield chunk
            return

        chunks = chunks_behind(response)
        chunks = call.chunks if chunks is None else chunks
        ended = ended_stream(response, call.api, chunks, call.origin)
        if call.enforcement.is_beside:
            async with aclosing(self._passed_on(call, request_data, KeptStream(ended))) as passed:
                async for chunk in passed:
                    yield chunk
            return

        resource = self._resource(call, request_data, ended)
        with self._concluding(call, request_data):
            pieces = await resource.create(**asked_of(call, request_data))
            try:
                async for piece in pieces:
                    yield piece.chunk if isinstance(piece, Chunk) else written(piece, call.api)
            finally:
                await pieces.close()

    async def _passed_on(
        self, call: ProxyCall, data: JSONObject, kept: KeptStream
    ) -> AsyncGenerator[object]:
        """Yield a stream as it comes, and judge it when it is over.

        One that its client left is not judged.
        """
        try:
            async with aclosing(kept.passed_on()) as pieces:
                async for piece in pieces:
                    yield piece
        except Exception:
            await self._judge_beside(call, data, kept.again)
            raise

        await self._judge_beside(call, data, kept.again)

    async def _judge_beside(
        self, call: ProxyCall, data: JSONObject, read: Callable[[], object]
    ) -> None:
        """Judge what ``read`` returns, which is passed on whatever happens here."""
        with unharmed(_BESIDE):
            resource = self._resource(call, data, read())
            given = await resource.create(**asked_of(call, data))
            if hasattr(given, "__aiter__"):
                async for _ in given:
                    pass

        with unharmed(_BESIDE):
            call.conclude(data)

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
            is_unjudged = data.get("litellm_logging_obj") in self._unjudged
            return {"x-strictreply-outcome": UNJUDGED} if is_unjudged else None

        if hasattr(response, "__aiter__"):
            call.chunks = chunks_behind(response)
            return {"x-strictreply-outcome": "streamed"}

        return {
            "x-strictreply-outcome": call.outcome,
            "x-strictreply-attempts": str(len(call.attempts)),
        }

    def _call_of(self, data: JSONObject) -> ProxyCall | None:
        logged = data.get("litellm_logging_obj")
        return None if logged is None else self._calls.get(logged)

    def _resource(self, call: ProxyCall, data: JSONObject, first: object) -> Any:
        """Return what takes the place of an SDK's resource: its first response is there already."""
        waiting = [first]

        async def create(**keywords: object) -> object:
            return waiting.pop() if waiting else await routed(call, data, keywords)

        return resource_of(call, client_of(call, self._settings, self._steering, create))

    @contextmanager
    def _concluding(self, call: ProxyCall, data: JSONObject) -> Generator[None]:
        """Record how a call ended, and raise what the proxy answers when no reply is valid."""
        try:
            with in_the_proxys_form():
                yield
        except Exception as error:
            call.fail(data, error)
            raise

        call.conclude(data)


def _call_in(
    data: JSONObject, call_type: str, declared: Contract | None, now: Enforcement
) -> ProxyCall | None:
    """Return the call that a request is, if it asks for a form of its reply; else None.

    Raises ContractError for a form that is not judged.
    """
    api = JUDGED.get(call_type)
    if api is None or _is_cursors(data, api):
        if declared is None and is_plain(data, call_type):
            return None

        path = "/cursor/chat/completions" if call_type in JUDGED else call_type
        raise ContractError(refusal(NAMES.get(call_type, path)))

    if declared is None and not is_demanding(data, api):
        return None

    refuse_unread(data, api)
    request: JSONObject = {name: data[name] for name in api.members if name in data}
    contract = Contract() if declared is None else declared
    return ProxyCall(api, contract, request, data.get(api.conversation), now)


def _is_cursors(data: JSONObject, api: JudgedApi) -> bool:
    """Return whether a response is asked for by Cursor's route, which makes a completion of it."""
    sent = data.get("proxy_server_request") or {}
    path = str(sent.get("url", "")).partition("?")[0]
    return api is not CHAT and path.rstrip("/").endswith("/chat/completions")
