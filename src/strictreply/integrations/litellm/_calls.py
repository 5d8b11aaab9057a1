"""One call of the proxy: what it asks for, how it is made again, and how it ended."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final
from uuid import uuid4

from pydantic import BaseModel

from strictreply import Attempt, Contract, Steering, wrap
from strictreply.core import JSONObject
from strictreply.core.calls import Enforcement, total_usage
from strictreply.integrations import load
from strictreply.integrations.litellm._requests import CHAT, MESSAGES, JudgedApi
from strictreply.integrations.litellm._settings import ProxySettings
from strictreply.integrations.litellm._streams import (
    EndedStream,
    MessageEvents,
    Origin,
    chunks_behind,
    event_bytes,
    origin_now,
)

_HIDDEN: Final = "_hidden_params"
"""The member of a message that LiteLLM takes out before it is sent."""

_OF_ONE_ASK: Final = frozenset({"litellm_logging_obj", "litellm_call_id", "deployment"})

UNJUDGED: Final = "unjudged"
"""The outcome of a reply that was passed on without a verdict."""

logger: Final = logging.getLogger("strictreply")


@dataclass(slots=True)
class ProxyCall:
    """A call of the proxy."""

    api: JudgedApi
    """The API that the client calls."""
    contract: Contract
    """What the reply is checked against."""
    request: JSONObject
    """The members of the client's request that shape its reply."""
    conversation: object
    """The conversation as the client sent it."""
    enforcement: Enforcement
    """How far the reply is enforced."""
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    """Every request to the model so far, with its outcome."""
    chunks: object = None
    """The chunks that LiteLLM read of a stream; None without a stream."""
    origin: Origin = field(default_factory=Origin)
    """By which API LiteLLM asks for the first reply."""
    outcome: str = UNJUDGED
    """How the call ended: ``accepted``, ``fixed``, ``observed`` (passed on though it does not fit),
    ``unjudged`` or the type of the error.
    """

    @property
    def mode(self) -> str:
        """How far the reply is enforced, in a word; ``partial`` where only some tools are."""
        if self.enforcement.is_whole:
            return "enforce"

        return "observe" if self.enforcement.is_beside else "partial"

    def conclude(self, data: JSONObject) -> None:
        """Record how the call ended that was passed on."""
        last = self.attempts[-1] if self.attempts else None
        if last is not None and last.accepted:
            self.outcome = "accepted" if len(self.attempts) == 1 else "fixed"
        elif last is not None:
            self.outcome = "observed"

        if self.outcome != "accepted":
            self.record(data)

    def fail(self, data: JSONObject, error: Exception) -> None:
        """Record how the call ended that was answered with an error."""
        self.outcome = getattr(error, "type", "failed")
        self.record(data)

    def record(self, data: JSONObject) -> None:
        """Write how a call ended that was not accepted at once: to our log, and the proxy's."""
        attributes: JSONObject = {
            "mode": self.mode,
            "outcome": self.outcome,
            "attempts": len(self.attempts),
            "issues": [issue.code for attempt in self.attempts for issue in attempt.issues],
            "failures": [one.failure for one in self.attempts if one.failure is not None],
            "tokens": total_usage(tuple(self.attempts)).total_tokens,
        }
        logger.info("litellm call %s: %s", data.get("litellm_call_id"), attributes)
        data.setdefault(self.api.metadata, {}).update(_metadata(data, attributes, self.api))


def client_of(
    call: ProxyCall,
    settings: ProxySettings,
    steering: Steering | None,
    create: Callable[..., Awaitable[object]],
) -> Any:
    """Return a guarded client whose every request is made by ``create``."""
    made = SimpleNamespace(create=create)
    chat = SimpleNamespace(completions=made)
    model = SimpleNamespace(chat=chat, responses=made)
    if call.api is MESSAGES:
        model = SimpleNamespace(messages=made)

    how: dict[str, Any] = {"mode": "enforce" if call.enforcement.is_whole else "observe"}
    tools = call.enforcement.tools
    if tools:
        how["enforce"] = lambda: tools  # a request need not have them all

    return wrap(
        model,
        contract=call.contract,
        policy=settings.policy,
        usage_mode=settings.usage_mode,
        api=call.api.name,
        steering=steering,
        on_attempt=call.attempts.append,
        **how,
    )


def resource_of(call: ProxyCall, client: Any) -> Any:
    """Return the namespace of a client by which a call is made."""
    return client.chat.completions if call.api is CHAT else getattr(client, call.api.name)


def ended_stream(
    response: Any, api: JudgedApi, chunks: object, origin: Origin
) -> EndedStream | MessageEvents:
    """Return a stream without an end that LiteLLM made up."""
    if api is MESSAGES:
        return MessageEvents(response, origin)

    return EndedStream(response, chunks)


def as_sent(response: BaseModel | JSONObject, api: JudgedApi) -> object:
    """Return a whole reply as JSON.

    The items of a response go back to the server in a retry, so they are returned without what
    LiteLLM has added to them.
    """
    if isinstance(response, dict):
        return {name: value for name, value in response.items() if name != _HIDDEN}
    if api is CHAT:
        return response.model_dump()

    return response.model_dump(mode="json", by_alias=True, exclude_none=True)


def written(piece: JSONObject, api: JudgedApi) -> object:
    """Return a piece of a stream as LiteLLM's own object."""
    if api is MESSAGES:
        return event_bytes(piece)
    if api is CHAT:
        return load("litellm").ModelResponseStream(**piece)

    return load("litellm.types.llms.base").BaseLiteLLMOpenAIResponseObject(**piece)


def asked_of(call: ProxyCall, data: JSONObject) -> JSONObject:
    """Return what the client asked for.

    A conversation that another callback has changed since then stays as it left it.
    """
    name = call.api.conversation
    now = data.get(name)
    return call.request if now == call.conversation else {**call.request, name: now}


async def routed(call: ProxyCall, data: JSONObject, keywords: JSONObject) -> object:
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
        return ended_stream(response, call.api, chunks_behind(response), origin)
    return as_sent(response, call.api)


def _metadata(data: JSONObject, attributes: JSONObject, api: JudgedApi) -> JSONObject:
    """Return the metadata of a call with ``attributes``.

    It is added where custom callbacks and the spend log read it.
    """
    metadata = data.get(api.metadata) or {}
    spend = (metadata.get("spend_logs_metadata") or {}) | {"strictreply": attributes}
    return {**metadata, "strictreply": attributes, "spend_logs_metadata": spend}
