"""The keywords of a call, as editors and type checkers know them: ours, and those of the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pydantic import BaseModel

from strictreply.contract._contract import Contract
from strictreply.retry._policy import RetryPolicy
from strictreply.retry._steering import Steering
from strictreply.wires._wire import Api

if TYPE_CHECKING:
    from openai import Timeout


class ApiKeywords(TypedDict, total=False):
    """The keywords of ``create``, but for the messages; ``tools`` as in a contract, ``api`` for the API to ask.

    One of the API that is not here yet is passed on as any other; type checkers want it in ``extra_body``.
    """

    api: Api
    tools: Iterable[object]
    response_format: type | Mapping[str, Any]
    tool_choice: str | Mapping[str, Any]
    model: str
    audio: Mapping[str, Any] | None
    frequency_penalty: float | None
    logit_bias: Mapping[str, int] | None
    logprobs: bool | None
    max_completion_tokens: int | None
    max_tokens: int | None
    metadata: Mapping[str, str] | None
    modalities: list[str] | None
    moderation: Mapping[str, Any] | None
    n: int | None
    parallel_tool_calls: bool
    prediction: Mapping[str, Any] | None
    presence_penalty: float | None
    prompt_cache_key: str
    prompt_cache_options: Mapping[str, Any]
    prompt_cache_retention: str | None
    reasoning_effort: str | None
    safety_identifier: str
    seed: int | None
    service_tier: str | None
    stop: str | list[str] | None
    store: bool | None
    stream: bool | None
    stream_options: Mapping[str, Any] | None
    temperature: float | None
    top_logprobs: int | None
    top_p: float | None
    verbosity: str | None
    web_search_options: Mapping[str, Any]
    context_management: Iterable[Mapping[str, Any]] | None
    conversation: str | Mapping[str, Any] | None
    include: list[Any] | None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    previous_response_id: str | None
    prompt: Mapping[str, Any] | None
    reasoning: Mapping[str, Any] | None
    text: Mapping[str, Any]
    truncation: Literal["auto", "disabled"] | None
    extra_headers: Mapping[str, str] | None
    extra_query: Mapping[str, object] | None
    extra_body: object | None
    timeout: float | Timeout | None


class RequestKeywords(ApiKeywords, total=False):
    """The keywords of ``create`` that a tool loop takes too, and ours."""

    contract: Contract | None
    policy: RetryPolicy | None
    steering: Steering | None


class CallKeywords(RequestKeywords, total=False):
    """The keywords of one call: ``messages`` may hold the SDK's objects, ``input`` its items; either may be a text."""

    messages: str | Iterable[Mapping[str, Any] | BaseModel]
    input: str | Iterable[Mapping[str, Any] | BaseModel]
    user: str
