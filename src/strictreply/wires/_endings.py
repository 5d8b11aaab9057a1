"""How a reply ended, in the words of each API: one table for its reasons, and one for errors in its place.

Values only. Each row names where the word is documented or was met; ``owner/repository#number`` is a thread on GitHub.
"""

from __future__ import annotations

from collections.abc import Mapping

from strictreply.values._issues import Code

_CUT, _FILTERED, _REFUSED = Code.REPLY_TRUNCATED, Code.REPLY_CONTENT_FILTER, Code.REPLY_REFUSAL
_CALL, _REPLY, _BROKEN = Code.CALL_UNREADABLE, Code.REPLY_UNREADABLE, Code.REPLY_BROKEN_OFF

REASONS: Mapping[str, Code] = {
    "length": _CUT,  # OpenAI API reference, chat completion object; TGI, Ollama (ollama#4235), llama.cpp alike
    "max_tokens": _CUT,  # Anthropic, handling stop reasons; Bedrock API_runtime_Converse; Gemini FinishReason
    "max_output_tokens": _CUT,  # OpenAI API reference, incomplete_details.reason of the Responses API
    "incomplete": _CUT,  # OpenAI API reference, status of the Responses API
    "model_length": _CUT,  # Mistral's OpenAPI document, ChatCompletionChoice.finish_reason
    "model_context_window_exceeded": _CUT,  # Anthropic, handling stop reasons; Z.ai (anomalyco/opencode#18918)
    "compaction": _CUT,  # Anthropic, context compaction; litellm core_helpers.py counts it as length, too
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
    "refusal": _REFUSED,  # Anthropic, handling stop reasons; lost as a stop in LiteLLM (BerriAI/litellm#23800)
    "malformed_function_call": _CALL,  # Gemini FinishReason; "function_call_filter: …" in its OpenAI endpoint
    "function_call_filter": _CALL,  # Gemini's OpenAI endpoint: the first half of the same words
    "unexpected_tool_call": _CALL,  # Gemini FinishReason (google-gemini-php/client#137)
    "too_many_tool_calls": _CALL,  # Gemini FinishReason (google-gemini-php/client#137)
    "malformed_tool_use": _CALL,  # Bedrock API_runtime_Converse, stopReason (janeapp/riffer#419)
    "malformed_model_output": _REPLY,  # Bedrock API_runtime_Converse, stopReason (janeapp/riffer#419)
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
    "unload": _BROKEN,  # Ollama done_reason: the model was only unloaded (tetsuo-ai/agenc-core#2587)
    "in_progress": _BROKEN,  # OpenAI API reference, status of the Responses API; so are the next ones
    "queued": _BROKEN,
    "max_messages": _BROKEN,  # incomplete_details.reason
    "steered": _BROKEN,
    **dict.fromkeys(("failed", "aborted", "cancelled", "canceled", "timeout"), _BROKEN),  # gateways' own words
}
"""What the reason of an end means; a word that is not here says nothing against the reply."""

ERRORS: Mapping[str, Code] = {
    "tool_use_failed": _CALL,  # Groq, 400 with failed_generation (groq/groq-typescript#28)
    "json_validate_failed": _REPLY,  # Groq, JSON mode, 400 (thepersonalaicompany/amurex-backend#38)
    "content_filter": _FILTERED,  # Azure OpenAI, 400 for the prompt (compl-ai/compl-ai#20)
    "responsibleaipolicyviolation": _FILTERED,  # Azure innererror.code; all that LiteLLM keeps of it (litellm#16231)
    "content_policy_violation": _FILTERED,  # OpenRouter, errors and debugging, 403; LiteLLM
    "data_inspection_failed": _FILTERED,  # Alibaba Model Studio, 400 (camel-ai/owl#432)
    "datainspectionfailed": _FILTERED,  # Alibaba DashScope, 400 (QwenLM/Qwen#938)
    "content_exists_risk": _FILTERED,  # DeepSeek, 400: its message, the code is no other (666ghj/BettaFish#108)
}
"""What an error says of the model's reply, by its code, its type, or the whole of its message."""

ERROR_OPENINGS: Mapping[str, Code] = {
    "error parsing tool call": _CALL,  # Ollama, 500 for what its own model wrote (ollama/ollama#17638)
    "failed to parse input at pos": _CALL,  # llama.cpp, 500 likewise (ggml-org/llama.cpp#24644)
    "model produced invalid sequence as part of tooluse": _CALL,  # Bedrock, Nova (strands-agents/harness-sdk#649)
    "could not finish the message because max_tokens": _CUT,  # OpenAI, Azure, 400 (decolua/9router#972)
    "output blocked by content filtering policy": _FILTERED,  # Anthropic, 400 (cline/cline#5)
    "invalid prompt: your prompt was flagged": _FILTERED,  # OpenAI, 400 (BeehiveInnovations/pal-mcp-server#178)
}
"""How the message of an error begins that names no code of its own."""

PROMISING = frozenset({"tool_calls", "function_call", "tool_use"})
"""The reasons that promise a call (OpenAI; Anthropic and Bedrock)."""

WORST_FIRST = (_REFUSED, _FILTERED, _CUT, _CALL, _REPLY, Code.ENVELOPE_ERROR, _BROKEN)
"""The bad endings in the order in which one is believed when several are told: the native reason wins when worse."""
