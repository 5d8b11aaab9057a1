"""The anthropic SDK: messages, sync and async, on Anthropic's servers and those of the clouds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from pydantic import BaseModel

from strictreply.sdks._sdk import SDK, Door
from strictreply.values._limits import JSONObject
from strictreply.values._replies import AssistantReply, DirectAnswer
from strictreply.wires._anthropic import MESSAGES_API
from strictreply.wires._members import peek

_CONFIG = "output_config"

_NO_THREADS = (
    "the server stores the conversation, and a retry would need a new one; "
    "call client.beta.messages.create() with all messages"
)

_READ_VALUES = frozenset(
    {"betas", "max_tokens", "model", "thinking", "user_profile_id", "workspace_id"}
)


def _without_format(members: JSONObject) -> JSONObject:
    """Return the members of a request without the format of its answer."""
    config: Any = members.get(_CONFIG)
    if peek(config, "format") is None:
        return members

    others = {name: config[name] for name in config if name != "format"}
    left = {name: value for name, value in members.items() if name != _CONFIG}
    return {**left, _CONFIG: others} if others else left


def _continued(members: JSONObject) -> str:
    """Return why a request that continues a thread of the server's is refused.

    Each message of a thread can be continued once (``ThreadAlreadyContinuedError`` of the SDK), so
    the retry would be refused.
    """
    extra = members.get("extra_body")
    said = [peek(one, "thread") for one in (members, extra)]
    return _NO_THREADS if any(peek(one, "type") == "continue" for one in said) else ""


def _parsed_by(function: str) -> Callable[..., object]:
    """Return how a message is parsed, by the name of the SDK's function for it."""

    def parsed(
        parse: Callable[[Any], Any], is_class: bool, response: Any, reply: AssistantReply | None
    ) -> object:
        if not is_class or reply is None:
            return parse(response)

        # the SDK reads each text into the class; the answer is judged already
        module: Any = import_module("anthropic.lib._parse._response")
        none = ANTHROPIC.named("_types", "NOT_GIVEN")
        made: Any = getattr(module, function)(output_format=none, response=response)
        texts = [block for block in made.content if block.type == "text"]
        if texts and isinstance(reply, DirectAnswer):
            texts[0].parsed_output = reply.answer

        return made

    return parsed


def _is_observed(client: Any) -> bool:
    """Return whether a client has middleware, or its calls are spans of a trace."""
    if getattr(client, "_middleware", ()):
        return True

    # before version 2 there were no spans
    tracer = getattr(client, "_tracer", None)
    if tracer is None:
        return False

    trace = _trace()
    is_own = "tracer_provider" in client.open_telemetry
    has_provider = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    return is_own or has_provider or trace.get_current_span().get_span_context().is_valid


@cache
def _trace() -> Any:
    return import_module("opentelemetry.trace")


def _has_token_cache(client: Any) -> bool:
    return getattr(client, "_token_cache", None) is not None


def _valid_message(kind: type[BaseModel], content: bytes) -> object:
    made: Any = kind.model_validate_json(content, strict=True)

    # the SDK does not count members as set that these have no field for
    for one in (made, made.usage, *made.content):
        one.__pydantic_fields_set__.difference_update(one.__pydantic_extra__ or ())

    return made


ANTHROPIC = SDK(
    package="anthropic",
    example="anthropic.Anthropic()",
    doors={
        "messages": Door(
            wire=MESSAGES_API,
            response=("types", "Message"),
            event=("types", "RawMessageStreamEvent"),
            needed=frozenset({"max_tokens", "messages", "model"}),
            foreign=frozenset({"response_format"}),
            answer_keyword="output_format",
            parsed=_parsed_by("parse_response"),
            read_values=_READ_VALUES,
            without_format=_without_format,
            unguarded_request=_continued,
            stores=False,
            validated=_valid_message,
        ),
        "beta.messages": Door(
            wire=MESSAGES_API,
            response=("types.beta", "BetaMessage"),
            event=("types.beta", "BetaRawMessageStreamEvent"),
            needed=frozenset({"max_tokens", "messages", "model"}),
            foreign=frozenset({"response_format"}),
            answer_keyword="output_format",
            parsed=_parsed_by("parse_beta_response"),
            query={"beta": "true"},
            read_values=_READ_VALUES,
            without_format=_without_format,
            unguarded_request=_continued,
            stores=False,
            validated=_valid_message,
        ),
    },
    refused={"beta.messages.thread": _NO_THREADS},
    unguarded=(
        "beta.compliance",
        "beta.deployment_runs",
        "beta.dreams",
        "beta.memory_stores",
        "beta.messages.batches.results",
        "beta.sessions",
        "completions",
        "messages.batches.results",
    ),
    base_error="AnthropicError",
    is_observed=_is_observed,
    renews_token=_has_token_cache,
    means=frozenset(
        {"_lazy_tracer", "_middleware", "_middleware_chain", "_open_telemetry", "_otel"}
    ),
    withheld={"_supports_message_threads": False},
)
