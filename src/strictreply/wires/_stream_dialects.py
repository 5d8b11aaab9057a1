"""Known deviations of servers from the API, in completions, streams and responses.

Each table has the public sources. The readers of a wire report by these names which deviation they
accepted. Deviations in a message itself, with their readers, are in ``_dialects``.
"""

from __future__ import annotations

from collections.abc import Mapping

from strictreply.wires._dialects import Dialect

ENVELOPE_DIALECTS: Mapping[str, Dialect] = {
    "head_missing": Dialect(
        "a completion in which `id`, `object`, `created` or `model` is missing, null, blank or of "
        "the wrong type",
        "a generated id, `chat.completion`, the current time, the model of the request; a number "
        "as the id becomes text",
        "guardrails-ai/guardrails#1415; pydantic/pydantic-ai#1764 (OpenRouter)",
        servers=("Guardrails", "OpenRouter"),
    ),
    "choice_index": Dialect(
        "a single choice without an index, or with an index other than 0",
        "0",
        "guardrails-ai/guardrails#1415",
        servers=("Guardrails",),
    ),
}
"""Deviations in a completion around its message, by the name that an attempt records."""

STREAM_DIALECTS: Mapping[str, Dialect] = {
    "head_missing": Dialect(
        "a chunk in which `id`, `object`, `created` or `model` is missing, null, blank or of the "
        "wrong type",
        "the value in the other chunks; else a generated id, `chat.completion.chunk`, the current "
        "time, the model of the request",
        "NVIDIA/TensorRT-Edge-LLM#93; guardrails-ai/guardrails-api#99",
        servers=("TensorRT Edge-LLM", "Guardrails"),
    ),
    "event_without_choices": Dialect(
        "an event without choices, or with `{}` as choices: a heartbeat, a `ping`, or only the "
        "usage",
        "not part of the reply",
        "Wei-Shaw/sub2api#7097; pydantic/pydantic-ai#5165; NousResearch/hermes-agent#111887",
        servers=("sub2api",),
    ),
    "choice_index": Dialect(
        "the index of a choice as null, as text, or as a fraction such as 0.0; an additional empty "
        "choice",
        "the number, 0 for null; the empty choice is ignored",
        "openai/openai-python#2806 (of a call)",
    ),
    "choice_repeated": Dialect(
        "several choices with the same index in a chunk",
        "their contents, one after the other",
        "ai-dynamo/dynamo#15054",
        servers=("NVIDIA Dynamo",),
    ),
    "delta_missing": Dialect(
        "a choice without a delta, or with null as its delta",
        "an empty delta; its finish reason counts",
        "openai/openai-python#1677 (Azure); mozilla-ai/any-llm#657 (MiniMax)",
        servers=("Azure OpenAI", "MiniMax"),
    ),
    "message_repeated": Dialect(
        "the whole message again after its deltas, also trimmed, or with its calls in another "
        "order or as objects",
        "the deltas; members that only the message has are passed on",
        "GCWing/OpenBitFun#792 (MiniMax)",
        servers=("MiniMax",),
    ),
    "content_chunks": Dialect(
        "the content of a delta as a list of texts and thoughts",
        "the joined texts; thoughts are sent back to the server",
        "BerriAI/litellm#16272 (Mistral)",
        servers=("Mistral",),
    ),
    "finish_empty": Dialect(
        "a blank text, `{}`, `[]` or false as the finish reason of chunks before the last",
        "null: the reply continues",
        "CangShui/workbuddy-gateway#3",
        servers=("workbuddy-gateway",),
    ),
    "finish_repeated": Dialect(
        "the finish reason again, or a different valid one",
        "the first; of different ones, the one that announces calls, or the worst",
        "RayBytes/ChatMock#114",
        servers=("ChatMock",),
    ),
    "finish_each": Dialect(
        "a finish reason in every chunk",
        "pieces of one reply, which ends at `[DONE]`",
        "BerriAI/litellm#2195 (Gemini)",
        servers=("Gemini", "LiteLLM"),
    ),
    "blank_behind_end": Dialect(
        "text of whitespace after the finish reason",
        "nothing",
        "vercel-labs/fx#911; anomalyco/opencode#49167 (of any text)",
    ),
    "call_behind_end": Dialect(
        "another call after the finish reason",
        "a call of the reply",
        "BerriAI/litellm#31634 (Gemini)",
        servers=("Gemini", "LiteLLM"),
    ),
    "done_missing": Dialect(
        "a stream that ends after the finish reason without `[DONE]`",
        "a complete reply",
        "ikawrakow/ik_llama.cpp#467; perplexityai/api-discussion#209",
        servers=("ik_llama.cpp", "Perplexity"),
    ),
    "call_index": Dialect(
        "indexes of calls that are missing, null, text, all the same, or not counted from 0",
        "the call with the same index or id, else the last one; a new id with a name starts a call",
        "BerriAI/litellm#32759; su-kaka/gcli2api#406; openai/openai-python#3246; "
        "ai-dynamo/dynamo#4723",
        servers=("Bedrock Access Gateway", "gcli2api", "Gemini", "NVIDIA Dynamo"),
    ),
    "call_id_changes": Dialect(
        "a different id, without a name, in later pieces of a call",
        "the first id",
        "poolsideai/pool#9",
        servers=("Poolside",),
    ),
    "call_repeated": Dialect(
        "a call again, under the same or another index: same id, name and arguments, other members "
        "may differ",
        "the call, once; each other member, such as a signature, from the last copy that has it",
        "mudler/LocalAI#9722; QuantumNous/new-api#6278",
        servers=("LocalAI", "new-api"),
    ),
    "call_name_repeated": Dialect(
        "the name of a call again, or a blank or null name, in later pieces of the call",
        "nothing new",
        "sgl-project/sglang#35542; lmstudio-ai/lmstudio-bug-tracker#649; "
        "NousResearch/hermes-agent#8259",
        servers=("SGLang", "LM Studio", "MiniMax", "NVIDIA NIM"),
    ),
    "call_name_in_pieces": Dialect(
        "the name of a declared tool in pieces",
        "the joined name",
        "continuedev/continue#5849 (Gemini)",
        servers=("Gemini",),
    ),
    "call_name_grows": Dialect(
        "the name of a declared tool in several pieces, each of which repeats it from the start",
        "the last piece",
        "QwenLM/qwen-code#3896 (DashScope, of texts)",
        servers=("DashScope",),
    ),
    "call_name_late": Dialect(
        "the name of a call after the beginning of its arguments",
        "the name",
        "vercel/ai#14722",
    ),
    "call_empty": Dialect(
        "an empty piece of a call: null, or without id, name and arguments; `{}` or a blank text "
        "as `tool_calls`",
        "nothing; a signature in it is added to the call with its index, else to the last call",
        "jjang-ai/vmlx#219",
        servers=("vMLX",),
    ),
    "call_function_null": Dialect(
        "null as the function of a call, in a piece with other members",
        "an empty function",
        "endolith/open-interpreter#254",
    ),
    "arguments_object": Dialect(
        "an empty object as arguments (also the text `{}` or `null`), followed by their text",
        "the text",
        "envoyproxy/ai-gateway#1465; microsoft/autogen#7549 (Gemini); ogx-ai/ogx#5462",
        servers=("Envoy AI Gateway", "Gemini", "OGX"),
    ),
}
"""Deviations in the stream of a chat completion, by the name that an attempt records."""

RESPONSE_DIALECTS: Mapping[str, Dialect] = {
    "event_without_type": Dialect(
        "an event without a type, or an empty event: a heartbeat",
        "not part of the reply",
        "NousResearch/hermes-agent#111887 (of chat completions)",
    ),
    "event_without_response": Dialect(
        "`response.in_progress` and similar events without a response, as a heartbeat",
        "not part of the reply",
        "diegosouzapw/OmniRoute#14330",
        servers=("OmniRoute",),
    ),
    "member_missing": Dialect(
        "a response, an item or a part, whole or streamed, in which members are missing, null or "
        "empty: `created_at`, `object`, `status`, the `role` and `content` of a message, the "
        "`text` and `annotations` of a part, the `summary` of a thought",
        "`created` or 0, `response`, `completed` (if there is no error), `assistant`, an empty "
        "value",
        "TiaraBasori/OpenCode2API#11; openai/openai-python#3011; anomalyco/opencode#29482",
        servers=("OpenCode2API",),
    ),
    "item_empty": Dialect(
        "an item or a part, whole or streamed, that is `{}`, null or has only null members",
        "nothing",
        "jjang-ai/vmlx#219 (of a call)",
    ),
    "response_done": Dialect(
        "`response.done` with its response, in place of `response.completed` or after it",
        "the end that its status names; completed, if it has no status",
        "can1357/oh-my-pi#4692; decolua/9router#2142 (Codex)",
        servers=("Codex",),
    ),
    "sequence_number": Dialect(
        "sequence numbers that repeat or decrease, such as 0 in some events",
        "the events in the order of arrival",
        "BerriAI/litellm#28899",
        servers=("LiteLLM",),
    ),
    "id_changes": Dialect(
        "a different id of the response in a later event",
        "the response of the terminal event",
        "BerriAI/litellm#30071 (GitHub Copilot)",
        servers=("GitHub Copilot",),
    ),
    "item_id_changes": Dialect(
        "a different id of an item in its later events",
        "the item with the same `output_index`",
        "BerriAI/litellm#30071 (GitHub Copilot)",
        servers=("GitHub Copilot",),
    ),
    "item_unannounced": Dialect(
        "events of an item that was never added, or that is already done",
        "the terminal event, if it has the same text and arguments",
        "BerriAI/litellm#36375 (Gemini)",
        servers=("LiteLLM", "Gemini"),
    ),
    "output_index": Dialect(
        "no `output_index`, or one that is already used",
        "the items in the order in which they were added; a repeated item is ignored",
        "ggml-org/llama.cpp#20607; can1357/oh-my-pi#1971 (Lemonade)",
        servers=("llama.cpp", "Lemonade"),
    ),
    "content_index": Dialect(
        "no `content_index`, null, or an index that counts deltas or the parts of other items",
        "the texts of an item in the order of arrival",
        "vllm-project/vllm#29947; crmne/ruby_llm, "
        "providers_bedrock_mantle_responses_chat_streams_through_the_responses_surface#0 (Bedrock)",
        servers=("vLLM", "Bedrock"),
    ),
    "done_disagrees": Dialect(
        "a text, arguments or an item that differ at their end from their deltas",
        "the terminal event, if it agrees with the deltas",
        "can1357/oh-my-pi#1971; vllm-project/vllm#29947",
        servers=("Lemonade", "vLLM"),
    ),
    "events_disagree": Dialect(
        "a terminal output whose ids or items differ from the events before it",
        "the terminal output, if it has the same text and arguments",
        "vllm-project/vllm#47916; smg-project/smg#160",
        servers=("vLLM", "SMG"),
    ),
    "arguments_repeated": Dialect(
        "arguments in a call when it is added, whole or in part, and again in its deltas",
        "the deltas",
        "abetlen/llama-cpp-python#2285",
        servers=("llama-cpp-python",),
    ),
    "answer_repeated": Dialect(
        "the same JSON in several messages of a response, whole or streamed",
        "one answer",
        "Effect-TS/effect#6178; pipecat-ai/pipecat#4852 (OpenAI)",
        servers=("OpenAI",),
    ),
    "call_of_server": Dialect(
        "a search that the server ran, as a `custom_tool_call`, whole or streamed",
        "a call of the API's own tool",
        "vercel/ai, packages/xai/src/responses/__fixtures__/xai-x-search-tool.chunks.txt#0 (xAI)",
        servers=("xAI",),
    ),
    "delta_null": Dialect(
        "null as the `delta` of a text or of arguments",
        "nothing",
        "langroid/langroid#987 (of chat completions)",
    ),
    "repeated_behind_end": Dialect(
        "events of the items again, after the end of the response",
        "nothing, if they agree with the response",
        "maximhq/bifrost#1018 (Gemini)",
        servers=("Bifrost",),
    ),
    "call_behind_end": Dialect(
        "another complete call after the end of the response",
        "a call of the reply",
        "BerriAI/litellm#31634 (of chat completions)",
    ),
    "response_behind_end": Dialect(
        "another response after the end of the first",
        "the first",
        "vercel/ai, packages/azure/src/__fixtures__/azure-reasoning-encrypted-content.1.chunks.txt"
        "#0 (Azure)",
        servers=("Azure OpenAI",),
    ),
}
"""Deviations in a response, whole or streamed, by the name that an attempt records."""

MESSAGE_DIALECTS: Mapping[str, Dialect] = {
    "event_without_type": Dialect(
        "an object without a `type` between the events",
        "not part of the reply",
        "pydantic/pydantic-ai#5165 (of chat completions)",
    ),
    "start_incomplete": Dialect(
        "a `message_start` without `content`, `stop_reason`, `stop_sequence` or `usage`, "
        "a block without its text",
        "empty, null, and 0 tokens",
        "SaladDay/cc-switch-cli#320; farion1231/cc-switch#7396",
        servers=("cc-switch",),
    ),
    "start_repeated": Dialect(
        "`message_start` twice with one id, before any block",
        "the first",
        "BerriAI/litellm#33859",
        servers=("LiteLLM",),
    ),
    "index_missing": Dialect(
        "an event of a block without its `index`",
        "the last block, or a new one if the event starts a block",
        "QuantumNous/new-api#5482 (of indexes with gaps)",
    ),
    "index_gap": Dialect(
        "indexes of blocks that are not counted from 0",
        "the positions of the blocks",
        "QuantumNous/new-api#5482; NousResearch/hermes-agent#45908",
        servers=("New API",),
    ),
    "block_stop_missing": Dialect(
        "the next block, or the end of the message, without `content_block_stop`",
        "the end of the block",
        "xemantic/anthropic-sdk-kotlin#147 (Kimi)",
        servers=("Moonshot",),
    ),
    "block_stop_unknown": Dialect(
        "`content_block_stop` of a block that never began",
        "nothing",
        "QuantumNous/new-api#5482",
        servers=("New API",),
    ),
    "block_stop_repeated": Dialect(
        "a second `content_block_stop` of a block",
        "nothing",
        "QuantumNous/new-api#5482 (of blocks that never began)",
    ),
    "stop_repeated": Dialect(
        "a second `message_stop`",
        "nothing",
        "BerriAI/litellm#33859 (of the start)",
        servers=("LiteLLM",),
    ),
    "message_behind_end": Dialect(
        "another message after the end of the first",
        "the first",
        "pydantic/pydantic-ai, tests/models/cassettes (recordings of several responses)",
    ),
}
"""The ways of servers to stream a message of Anthropic's API."""
