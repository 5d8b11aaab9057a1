"""The tables of bad endings, and of errors that are about the model's reply.

Of several endings the worst counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from strictreply.values._issues import Code, Issue, quote
from strictreply.values._replies import Invalid
from strictreply.wires._error_forms import (
    PHRASES,
    STATUSES,
    error_beside,
    error_of,
    meaning_of,
)
from strictreply.wires._members import peek
from strictreply.wires._server_events import MAX_BEGINNING

_CUT = Code.REPLY_TRUNCATED
_FILTERED = Code.REPLY_CONTENT_FILTER
_REFUSED = Code.REPLY_REFUSAL
_CALL = Code.CALL_UNREADABLE
_REPLY = Code.REPLY_UNREADABLE
_BROKEN = Code.REPLY_BROKEN_OFF

FINISH_REASONS: Mapping[str, Code] = {
    # OpenAI API reference, chat completion object; TGI, Ollama (ollama#4235), llama.cpp alike
    "length": _CUT,
    # Anthropic, handling stop reasons; Bedrock API_runtime_Converse; Gemini FinishReason
    "max_tokens": _CUT,
    # OpenAI API reference, incomplete_details.reason of the Responses API
    "max_output_tokens": _CUT,
    "incomplete": _CUT,  # OpenAI API reference, status of the Responses API
    "model_length": _CUT,  # Mistral's OpenAPI document, ChatCompletionChoice.finish_reason
    # Anthropic, handling stop reasons; Z.ai (anomalyco/opencode#18918)
    "model_context_window_exceeded": _CUT,
    # Anthropic, context compaction; litellm core_helpers.py counts it as length, too
    "compaction": _CUT,
    "content_filter": _FILTERED,  # OpenAI API reference; Azure OpenAI, content filtering
    "content_filtered": _FILTERED,  # Bedrock API_runtime_Converse, stopReason
    "guardrail_intervened": _FILTERED,  # Bedrock API_runtime_Converse, stopReason
    "sensitive": _FILTERED,  # Z.ai API reference, finish_reason (genkit-ai/genkit#6259)
    "error_toxic": _FILTERED,  # Cohere API reference, finish_reason (litellm core_helpers.py)
    "safety": _FILTERED,  # Gemini API reference, FinishReason; so are the next ones
    "recitation": _FILTERED,
    "language": _FILTERED,
    "blocklist": _FILTERED,
    "prohibited_content": _FILTERED,
    "spii": _FILTERED,
    "image_safety": _FILTERED,
    "image_prohibited_content": _FILTERED,
    "image_recitation": _FILTERED,
    "model_armor": _FILTERED,  # Vertex AI reference, FinishReason (theopenco/llmgateway#2218)
    # Anthropic, handling stop reasons; lost as a stop in LiteLLM (BerriAI/litellm#23800)
    "refusal": _REFUSED,
    # Gemini FinishReason; "function_call_filter: …" in its OpenAI endpoint
    "malformed_function_call": _CALL,
    "function_call_filter": _CALL,  # Gemini's OpenAI endpoint: the first half of the same words
    "unexpected_tool_call": _CALL,  # Gemini FinishReason (google-gemini-php/client#137)
    "too_many_tool_calls": _CALL,  # Gemini FinishReason (google-gemini-php/client#137)
    "malformed_tool_use": _CALL,  # Bedrock API_runtime_Converse, stopReason (janeapp/riffer#419)
    # Bedrock API_runtime_Converse, stopReason (janeapp/riffer#419)
    "malformed_model_output": _REPLY,
    "malformed_response": _REPLY,  # Gemini FinishReason (BerriAI/litellm#22138)
    "error": _BROKEN,  # Mistral's OpenAPI document; OpenRouter, errors and debugging; vLLM
    "abort": _BROKEN,  # vLLM, SGLang (sgl-project/sglang#6693)
    "repetition": _BROKEN,  # vLLM, repetition detection (BerriAI/litellm#27101)
    "insufficient_system_resource": _BROKEN,  # DeepSeek API reference, finish_reason
    "network_error": _BROKEN,  # Z.ai API reference, finish_reason (genkit-ai/genkit#6259)
    "pause_turn": _BROKEN,  # Anthropic, handling stop reasons: the turn is not over
    "missing_thought_signature": _BROKEN,  # Gemini FinishReason (litellm core_helpers.py)
    "other": _BROKEN,  # Gemini FinishReason: "all other reasons that stopped the token generation"
    "load": _BROKEN,  # Ollama done_reason: the model was only loaded (ollama#4235)
    # Ollama done_reason: the model was only unloaded (tetsuo-ai/agenc-core#2587)
    "unload": _BROKEN,
    # OpenAI API reference, status of the Responses API; so are the next ones
    "in_progress": _BROKEN,
    "queued": _BROKEN,
    "max_messages": _BROKEN,  # incomplete_details.reason
    "steered": _BROKEN,
    # gateways' own words
    **dict.fromkeys(("failed", "aborted", "cancelled", "canceled", "timeout"), _BROKEN),
}
"""What a finish reason means; any other word is a good end.

The reason why a call ended is :class:`~strictreply.values._errors.Reason`.
"""

ERRORS: Mapping[str, Code] = {
    "tool_use_failed": _CALL,  # Groq, 400 with failed_generation (groq/groq-typescript#28)
    "json_validate_failed": _REPLY,  # Groq, JSON mode, 400 (thepersonalaicompany/amurex-backend#38)
    "content_filter": _FILTERED,  # Azure OpenAI, 400 for the prompt (compl-ai/compl-ai#20)
    # Azure innererror.code; all that LiteLLM keeps of it (litellm#16231)
    "responsibleaipolicyviolation": _FILTERED,
    "content_policy_violation": _FILTERED,  # OpenRouter, errors and debugging, 403; LiteLLM
    "data_inspection_failed": _FILTERED,  # Alibaba Model Studio, 400 (camel-ai/owl#432)
    "datainspectionfailed": _FILTERED,  # Alibaba DashScope, 400 (QwenLM/Qwen#938)
    # DeepSeek, 400: its message; its code is not specific (666ghj/BettaFish#108)
    "content_exists_risk": _FILTERED,
    # SGLang, 400: its type, the message is the status alone (sgl-project/sglang#4300)
    "failed_to_parse_fc_related_info_to_json_format!": _CALL,
}
"""What an error says about the model's reply, by its code, its type, or its whole message."""

ERROR_OPENINGS: Mapping[str, Code] = {
    # Ollama, 500 for what its own model wrote (ollama/ollama#17638)
    "error parsing tool call": _CALL,
    "failed to parse input at pos": _CALL,  # llama.cpp, 500 likewise (ggml-org/llama.cpp#24644)
    # llama.cpp, 500: of the model's call, or of one in the conversation (vxcontrol/pentagi#313)
    "failed to parse tool call arguments as json": _CALL,
    # Bedrock, Nova (strands-agents/harness-sdk#649)
    "model produced invalid sequence as part of tooluse": _CALL,
    # Ollama, 500, of the calls that Qwen writes as XML (ollama/ollama#17276)
    "xml syntax error on line": _CALL,
    "failed to parse xml: xml syntax error": _CALL,  # Ollama, of GLM (continuedev/continue#10896)
    "expected element type <function> but have": _CALL,  # Ollama (continuedev/continue#10896)
    # vLLM, 400, of its own reading of forced calls (vllm-project/vllm#27921)
    "1 validation error for list[function": _CALL,
    # llama.cpp, 500, of any format that it parses (ggml-org/llama.cpp#27025, #25072)
    "the model produced output that does not match the expected": _REPLY,
    # OpenAI, Azure, 500: of the model, or of a result in the conversation (aka.ms/model-error)
    "the model produced invalid content": _REPLY,
    "model generated invalid json": _REPLY,  # Gemini, 400 (scriptit-fr/GenAIApp#101)
    # OpenAI, Azure, 400 (decolua/9router#972)
    "could not finish the message because max_tokens": _CUT,
    "output blocked by content filtering policy": _FILTERED,  # Anthropic, 400 (cline/cline#5)
    # MiniMax, its codes 1026 and 1027 (docs/api-reference/errorcode)
    "input new_sensitive": _FILTERED,
    "output new_sensitive": _FILTERED,
    # OpenAI, 400 (BeehiveInnovations/pal-mcp-server#178)
    "invalid prompt: your prompt was flagged": _FILTERED,
}
"""The beginnings of the messages of errors that have no code of their own."""

OF_CONVERSATION = (
    "failed to parse tool call arguments as json",
    "the model produced invalid content",
)
"""Beginnings that may also be about an earlier turn, which no retry of this reply can fix."""

WORST_FIRST = (_REFUSED, _FILTERED, _CUT, _CALL, _REPLY, Code.ENVELOPE_ERROR, _BROKEN)
"""The bad endings, worst first: of several the worst counts."""

_MOST_ACCOUNTS = 8  # of one error, repeated by gateways

_MOST_SAID = 64_000  # characters of a message that may contain another error

_PREFIXES = re.compile(
    # LiteLLM's, the SDK's: "litellm.BadRequestError: GroqException - Error code: 400 - {…}"
    r"(?:(?:litellm\.)?\w{0,60}(?:Error|Exception)(?: \w{0,60}(?:Error|Exception))?(?:: | - )"
    r"|Error code: \d{3} - "
    # Portkey's "groq error: …" (Portkey-AI/gateway, src/providers/utils.ts); LM Studio's "Engine
    # protocol predict stream returned an error: {…}" (lmstudio-ai/lmstudio-bug-tracker#2182)
    r"|[\w-]{1,40}(?: [\w-]{1,40}){0,7} error: )+"
)

_QUOTED_WORDS = re.compile(r"""['"](?:message|error)\\?['"]: ?\\?['"]""")


def refused(code: Code, path: str, *, found: str = "", **words: str) -> Invalid:
    """Return a verdict with one issue."""
    return Invalid((Issue.of(code, path, found=found, **words),))


def reason_code(reason: object) -> Code | None:
    """Return the meaning of a finish reason; None if it is not a bad one.

    The whole word counts, or one half of ``function_call_filter: MALFORMED_FUNCTION_CALL``.
    """
    if not isinstance(reason, str):
        return None

    first, _, last = reason.partition(":")
    return (
        FINISH_REASONS.get(word_of(reason))
        or FINISH_REASONS.get(word_of(last))
        or FINISH_REASONS.get(word_of(first))
    )


def error_code(error: object) -> Code:
    """Return what an error says about the model's reply.

    The code is ``envelope.error`` if it says nothing about it.
    """
    told = accounts_of(error)
    for account in told:
        said = (peek(account, "code"), peek(account, "type"), message_of(account))
        for word in (*said, meaning_of(account)):
            if isinstance(word, str) and word_of(word) in ERRORS:
                return ERRORS[word_of(word)]

    for account in told:
        start = _beginning(account)
        for opening, code in ERROR_OPENINGS.items():
            if start.startswith(opening):
                return code

    # an error that quotes the model is the model's fault, whatever its name is
    # (langchain-ai/langchain#31459)
    is_models = any(peek(account, "failed_generation") for account in told)
    return Code.REPLY_UNREADABLE if is_models else Code.ENVELOPE_ERROR


def failed_generation(response: object) -> str | None:
    """Return what the model wrote and the server could not parse (Groq); else None."""
    written = peek(peek(response, "error"), "failed_generation")
    return written if isinstance(written, str) else None


def may_be_of_conversation(error: object) -> bool:
    """Return whether an error about a call may be about one in the conversation that was sent."""
    return any(_beginning(account).startswith(OF_CONVERSATION) for account in accounts_of(error))


def _beginning(account: object) -> str:
    return message_of(account).lstrip()[:MAX_BEGINNING].lower()


def message_of(error: object) -> str:
    """Return the message of an error, empty if it has none."""
    message = error if isinstance(error, str) else peek(error, "message")
    return message if isinstance(message, str) else ""


def accounts_of(error: object) -> list[object]:
    """Return an error, followed by the errors that it repeats, up to a limit.

    Gateways put a provider's error into a member of their own error, or after a prefix of its
    message.
    """
    told: list[object] = []
    pending = [error]
    while pending and len(told) < _MOST_ACCOUNTS:
        one = pending.pop(0)
        if isinstance(one, list):  # Cloudflare's gateway; Hugging Face
            pending += one[:_MOST_ACCOUNTS]
            continue

        told.append(one)

        message = peek(one, "message")
        repeated = (
            peek(one, "innererror"),  # Azure
            peek(peek(one, "provider_specific_fields"), "innererror"),  # LiteLLM
            peek(peek(one, "metadata"), "raw"),  # OpenRouter
            peek(one, "error"),
            None if message else error_of(one),
            message if isinstance(message, Mapping) else _behind_prefixes(message_of(one)),
        )
        pending += [inner for inner in repeated if inner]

    return told


def _behind_prefixes(message: str) -> object:
    """Return the error after the prefixes of a message; None if it repeats none."""
    prefix = _PREFIXES.match(message)
    rest = message[prefix.end() if prefix else 0 :][:_MOST_SAID].lstrip()
    rest = rest.removeprefix("b'").removeprefix('b"')
    if not rest.startswith("{"):
        return rest if prefix else None

    try:
        repeated, _ = json.JSONDecoder().raw_decode(rest)
    except (ValueError, RecursionError):
        # the repr of a Python object, or cut off
        words = _QUOTED_WORDS.search(rest)
        return rest[words.end() :] if words else rest

    return error_in(repeated) or repeated


def error_in(response: object) -> object:
    """Return the error in a response, or the response if it is an error; None for none.

    It is under ``error``, on the choice, or it is the whole response in a form of
    :data:`~strictreply.wires._error_forms.ERROR_FORMS`.
    """
    if isinstance(response, list) and len(response) == 1:
        response = response[0]  # Gemini's compatible endpoint

    choices = peek(response, "choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    has_reply = choice is not None or bool(peek(response, "output"))
    fields = [peek(one, "provider_specific_fields") for one in (choice, peek(choice, "message"))]
    for holder in (response, choice, *fields):
        error = peek(holder, "error")
        if isinstance(error, str) and error and holder is response and not has_reply:
            return _with_members(error, response)
        if error:
            return error

    return error_beside(response) if has_reply else error_of(response)


def _with_members(error: str, response: object) -> object:
    """Return an error that is a text; if other members of it are next to the text, all of it."""
    # TGI's error_type; a ``status``; OAuth's error_description
    said = ("message", "error_type", "code", "error_description")
    has_more = any(peek(response, name) for name in said)
    return response if has_more or isinstance(peek(response, "status"), int) else error


def status_of(word: object) -> int | None:
    """Return the HTTP status that a word stands for, as a whole or by one of its halves.

    ``Throttling.AllocationQuota`` is a DashScope code, ``policies.ratelimit.QuotaViolation`` one of
    Apigee, ``com.amazon#ThrottlingException`` a type of AWS.
    """
    if not isinstance(word, str) or len(word) > MAX_BEGINNING:
        return None

    word = word.rpartition("#")[2]
    first = STATUSES.get(word_of(word.partition(".")[0]))
    return STATUSES.get(word_of(word)) or first


def phrase_status(message: object) -> int | None:
    """Return the HTTP status that a whole message names, such as ``Unauthorized``."""
    if not isinstance(message, str) or len(message) > MAX_BEGINNING:
        return None

    return PHRASES.get(message.strip().rstrip(".!").lower())


def word_of(text: str) -> str:
    """Return a word in the form of the tables.

    ``FinishReason.MAX_TOKENS`` is how an enum prints itself.
    """
    return text.strip().rpartition(".")[2].lower().replace("-", "_").replace(" ", "_")


def worst_of(found: Iterable[tuple[Code, str, object]]) -> Issue | None:
    """Return the issue of the worst bad ending; None if there is none.

    Each ending comes with its place and its value.
    """
    worst = min(found, key=lambda one: WORST_FIRST.index(one[0]), default=None)
    if worst is None:
        return None

    code, at, said = worst
    return Issue.of(code, at, found=quote(peek(said, "message") or said))
