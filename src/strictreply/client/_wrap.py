"""``wrap``: the one way from an SDK's client to a wrapped one."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, get_args, overload

from strictreply.client._client import AsyncStrictClient, StrictClient, refuse_async_checks
from strictreply.client._transport import is_async_openai, is_openai
from strictreply.client._wrapped import OnAttempt, Redact, Settings, UsageOf, Wrapped
from strictreply.contract._answer import Answer
from strictreply.contract._contract import Contract, ContractKeywords
from strictreply.contract._tool import must_be_awaited
from strictreply.retry._policy import RetryPolicy
from strictreply.retry._steering import Steering, TieredSteering
from strictreply.values._errors import ContractError, must_be
from strictreply.wires._wire import Api, wire_named

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

A = TypeVar("A")


class WrapKeywords(ContractKeywords, total=False):
    """The keywords of :func:`wrap` beside ``contract`` and ``answer``: those of a contract, and how to go about it."""

    policy: RetryPolicy | None
    steering: Steering | None
    on_attempt: OnAttempt | None
    log_replies: Redact | None
    usage: UsageOf
    api: Api


@overload
def wrap(client: OpenAI, *, contract: Contract[A], **keywords: Unpack[WrapKeywords]) -> StrictClient[A]: ...
@overload
def wrap(client: OpenAI, *, contract: None = ..., **keywords: Unpack[WrapKeywords]) -> StrictClient[str]: ...
@overload
def wrap(client: OpenAI, *, answer: type[A] | Answer[A], **keywords: Unpack[WrapKeywords]) -> StrictClient[A]: ...
@overload
def wrap(client: OpenAI, *, answer: object, **keywords: Unpack[WrapKeywords]) -> StrictClient[Any]: ...
@overload
def wrap(client: AsyncOpenAI, *, contract: Contract[A], **keywords: Unpack[WrapKeywords]) -> AsyncStrictClient[A]: ...
@overload
def wrap(client: AsyncOpenAI, *, contract: None = ..., **keywords: Unpack[WrapKeywords]) -> AsyncStrictClient[str]: ...
@overload
def wrap(
    client: AsyncOpenAI, *, answer: type[A] | Answer[A], **keywords: Unpack[WrapKeywords]
) -> AsyncStrictClient[A]: ...
@overload
def wrap(client: AsyncOpenAI, *, answer: object, **keywords: Unpack[WrapKeywords]) -> AsyncStrictClient[Any]: ...
@overload
def wrap(client: Any, *, contract: Contract[A], **keywords: Unpack[WrapKeywords]) -> Any: ...
@overload
def wrap(client: Any, *, contract: None = ..., answer: object = ..., **keywords: Unpack[WrapKeywords]) -> Any: ...
def wrap(
    client: Any,
    *,
    contract: Contract | None = None,
    policy: RetryPolicy | None = None,
    steering: Steering | None = None,
    on_attempt: OnAttempt | None = None,
    log_replies: Redact | None = None,
    usage: UsageOf = "last",
    api: Api = "chat",
    **declared: Any,
) -> StrictClient | AsyncStrictClient:
    """Wrap a client so that it returns only valid replies.

    ``client`` is ``openai.OpenAI()``, ``openai.AsyncOpenAI()``, the module ``openai`` or anything with their
    ``chat.completions.create``; it is not changed; of a wrapped client the original is wrapped again. Pass a ready
    ``contract``, or its keywords (``tools``, ``answer``, ``channel``, …) here. ``policy`` None means ``RetryPolicy()``,
    ``steering`` None the default. ``on_attempt`` is called with every attempt; its exceptions are logged by type.
    ``log_replies`` redacts a raw reply for the DEBUG log, None logs none. ``usage="total"`` writes the tokens of
    all requests of a call into its completion; with ``last`` it has those of the last request, as the API reported
    them. ``api`` is the default API of ``reply``, ``exchange``, ``answer`` and ``stream``: ``chat`` (chat completions)
    or ``responses``; the SDK's own methods are guarded on both.

    Raises ContractError when the declaration is wrong, or a sync client is given a tool with an async check or an
    async ``on_attempt``; TypeError when ``client`` has no ``chat.completions.create``.
    """
    if contract is not None and declared:
        raise ContractError("give wrap() a contract or the keywords of one, not both")
    contract = Contract(**declared) if contract is None else contract
    must_be("contract", contract, Contract, "a Contract, as in Contract(tools=[…])")
    wire_named(api)
    settings = Settings(policy or RetryPolicy(), steering or TieredSteering(), on_attempt, log_replies, usage, api)
    if usage not in get_args(UsageOf):
        raise ContractError(f"usage must be one of {', '.join(get_args(UsageOf))}")
    client = client.unwrapped if isinstance(client, Wrapped) else client
    if isinstance(client, ModuleType) and client.__name__ == "openai":
        # the client behind the module's functions, which reads the module's globals
        client = client.chat.completions._client  # noqa: SLF001
    if _is_async(client):
        return AsyncStrictClient.over(client, contract, settings)
    refuse_async_checks(contract)
    if must_be_awaited(on_attempt):
        raise ContractError("on_attempt is async; wrap an async client")
    return StrictClient.over(client, contract, settings)


def _is_async(client: Any) -> bool:
    """Return whether a client is async: by its class where that is the SDK's, else by its ``create``, unwrapped."""
    completions = getattr(getattr(client, "chat", None), "completions", None)
    if is_openai(completions):
        return is_async_openai(completions)
    create = getattr(completions, "create", None)
    return callable(create) and (inspect.iscoroutinefunction(inspect.unwrap(create)) or must_be_awaited(create))
