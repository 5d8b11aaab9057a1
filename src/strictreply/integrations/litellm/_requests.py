"""What the guard reads of a request, for each API that it judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from strictreply import ContractError
from strictreply.core import JSONObject
from strictreply.core.forms import peek


class JudgedApi(NamedTuple):
    """An API whose replies the guard judges."""

    name: Literal["chat", "responses", "messages"]
    """Name of the API, as for ``api=``."""
    call_type: str
    """LiteLLM's name for a call of it."""
    conversation: Literal["messages", "input"]
    """The member of a request that holds the conversation."""
    members: tuple[str, ...]
    """The members that determine the reply, or that a retry changes.

    All other members are sent with every request.
    """
    form: str
    """The member that has the form of the answer."""
    prompt: str
    """The member that names a prompt which the provider stores."""
    metadata: str
    """LiteLLM's member with the data that are logged for a call."""
    demands: frozenset[str]
    """The members of another API that request a form of the reply; the guard does not read them."""


# the members of all APIs that determine the form of a reply, next to those that an API reads itself
_FORMS: Final = frozenset(
    {"functionDeclarations", "output_format", "responseJsonSchema", "responseSchema"}
    | {"response_json_schema", "response_schema", "text_format"}
)

CHAT: Final = JudgedApi(
    name="chat",
    call_type="acompletion",
    conversation="messages",
    members=(
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
        "extra_body",
    ),
    form="response_format",
    prompt="prompt_id",
    metadata="metadata",
    demands=_FORMS,
)
RESPONSES: Final = JudgedApi(
    name="responses",
    call_type="aresponses",
    conversation="input",
    members=(
        "model",
        "input",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "text",
        "max_output_tokens",
        "stream",
        "stream_options",
        "background",
        "store",
        "conversation",
        "extra_body",
    ),
    form="text",
    prompt="prompt",
    metadata="metadata",
    demands=_FORMS | {"functions", "response_format"},
)
MESSAGES: Final = JudgedApi(
    name="messages",
    call_type="anthropic_messages",
    conversation="messages",
    members=(
        "model",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "output_config",
        "output_format",
        "max_tokens",
        "thinking",
        "stream",
        "extra_body",
    ),
    form="output_config.format",
    prompt="prompt_id",
    metadata="litellm_metadata",  # metadata is a member of the API itself
    demands=(_FORMS - {"output_format"}) | {"functions", "response_format"},
)

_BESIDE: Final = frozenset(
    {"model", "stream", "temperature", "user", "metadata", "litellm_metadata", "tags", "timeout"}
)
_PLAIN: Final[Mapping[str, frozenset[str]]] = {
    "text_completion": _BESIDE
    | {"prompt", "suffix", "echo", "best_of", "n", "stop", "logprobs", "logit_bias", "seed"}
    | {"max_tokens", "top_p", "presence_penalty", "frequency_penalty", "stream_options"},
    "agenerate_content": _BESIDE
    | {"contents", "systemInstruction", "system_instruction", "safetySettings"}
    | {"generationConfig"},
}
"""The members of a request, by call type, that do not request a form of its reply."""

_PLAIN_CONFIG: Final = frozenset(
    {"temperature", "topP", "topK", "maxOutputTokens", "stopSequences", "seed", "thinkingConfig"}
    | {"presencePenalty", "frequencyPenalty"}
)
_ALIASES: Final = {
    "atext_completion": "text_completion",
    "agenerate_content_stream": "agenerate_content",
}


def is_demanding(data: JSONObject, api: JudgedApi) -> bool:
    """Return whether a request determines the form of its reply; its ``extra_body`` counts, too.

    A prompt that the provider stores may do so. Raises ContractError for an ``extra_body`` that
    cannot be read.
    """
    whole = {**data, **_extra_body(data)}
    return bool(whole.get(api.prompt)) or _has_form(whole, api)


def _has_form(whole: JSONObject, api: JudgedApi) -> bool:
    if whole.get("tools") or whole.get("functions"):
        return True

    wanted = whole.get("response_format")
    if api is RESPONSES:
        wanted = peek(whole.get("text"), "format")
    elif api is MESSAGES:
        wanted = peek(whole.get("output_config"), "format") or whole.get("output_format")

    kind = peek(wanted, "type") if isinstance(wanted, Mapping) else wanted
    return kind not in {None, "text"} or bool(_foreign_demands(whole, api))


def refuse_unread(data: JSONObject, api: JudgedApi) -> None:
    """Raise ContractError for a request of a form in a way that the guard does not judge."""
    extra = _extra_body(data)
    for name in _foreign_demands({**data, **extra}, api):
        raise ContractError(
            f"{name} is not supported here: give the form of the reply as "
            f"{api.form}, and declare its calls as tools"
        )

    if data.get(api.conversation) is None:
        raise ContractError(f"{api.conversation} is required")

    stream = extra.get("stream", data.get("stream"))
    if stream is not None and not isinstance(stream, bool):
        raise ContractError("stream must be true or false")

    model = data.get("model")
    if isinstance(model, str) and "," in model and not data.get("fastest_response"):
        raise ContractError(
            f"model {model!r} names several models, and only one reply can be judged: make a "
            "request for each"
        )


def is_plain(data: JSONObject, call_type: str) -> bool:
    """Return whether a request of another API requests no form of its reply.

    A member that is not known here may request one.
    """
    known = _PLAIN.get(_ALIASES.get(call_type, call_type))
    sent = data.get("proxy_server_request")
    body = sent.get("body") if isinstance(sent, Mapping) else data
    if known is None or not isinstance(body, Mapping) or body.keys() - known:
        return False

    config = body.get("generationConfig")
    return config is None or (isinstance(config, Mapping) and not config.keys() - _PLAIN_CONFIG)


def is_added_to(kwargs: JSONObject) -> bool:
    """Return whether a call, as it is sent to a deployment, determines the form of its reply."""
    whole = {**kwargs, **_extra_body(kwargs)}
    return _has_form(whole, CHAT) or _has_form(whole, RESPONSES)


def _extra_body(data: JSONObject) -> Mapping[str, object]:
    extra = data.get("extra_body")
    if extra is None:
        return {}

    if not isinstance(extra, Mapping):
        raise ContractError("extra_body must be an object")
    if extra.get("extra_body"):
        raise ContractError("extra_body inside extra_body is not supported; move its members up")

    return extra


def _foreign_demands(whole: JSONObject, api: JudgedApi) -> list[str]:
    named = [name for name in sorted(api.demands) if _is_form(whole.get(name))]
    if api is not MESSAGES and peek(whole.get("output_config"), "format"):
        named.append("output_config.format")
    if api is not RESPONSES and _is_form(peek(whole.get("text"), "format")):
        named.append("text.format")

    config = whole.get("generationConfig")
    if isinstance(config, Mapping) and config.keys() - _PLAIN_CONFIG:
        named.append("generationConfig")

    return named


def _is_form(value: object) -> bool:
    return bool(value) and peek(value, "type") != "text"
