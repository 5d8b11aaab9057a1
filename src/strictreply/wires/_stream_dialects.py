"""How servers write what is around a message, a stream, or a response otherwise than the API does.

Three tables with their sources; the readers of each say by these names what they read. The ways to
write a message itself, with what reads them, are in ``_dialects``.
"""

from __future__ import annotations

from collections.abc import Mapping

from strictreply.wires._dialects import Dialect

ENVELOPE_DIALECTS: Mapping[str, Dialect] = {
    "head_missing": Dialect(
        "a completion without its `id`, `object`, `created` or `model`, or with null, a blank or "
        "another kind of value",
        "an id of ours, `chat.completion`, the time of the reading, the model of the request; a "
        "number as the id is its text",
        "guardrails-ai/guardrails#1415; pydantic/pydantic-ai#1764 (OpenRouter)",
        servers=("Guardrails", "OpenRouter"),
    ),
    "choice_index": Dialect(
        "the one choice without an index, or with another one than 0",
        "0",
        "guardrails-ai/guardrails#1415",
        servers=("Guardrails",),
    ),
}
"""The ways of servers to write what is around a message, by the name that an attempt records."""

STREAM_DIALECTS: Mapping[str, Dialect] = {
    "head_missing": Dialect(
        "a chunk without its `id`, `object`, `created` or `model`, or with null, a blank or "
        "another kind of value",
        "what the other chunks say; else an id of ours, `chat.completion.chunk`, the time of the "
        "reading, the model of the request",
        "NVIDIA/TensorRT-Edge-LLM#93; guardrails-ai/guardrails-api#99",
        servers=("TensorRT Edge-LLM", "Guardrails"),
    ),
    "event_without_choices": Dialect(
        "an event without choices, or with `{}` for them: a heartbeat, a `ping`, the usage alone",
        "nothing of the reply",
        "Wei-Shaw/sub2api#7097; pydantic/pydantic-ai#5165; NousResearch/hermes-agent#111887",
        servers=("sub2api",),
    ),
    "choice_index": Dialect(
        "null, digits as a text, or a fraction like 0.0, as the index of a choice; a further "
        "choice that says nothing",
        "the number, 0 for null; nothing",
        "openai/openai-python#2806 (of a call)",
    ),
    "choice_repeated": Dialect(
        "several choices of one index in a chunk",
        "what they say, one after the other",
        "ai-dynamo/dynamo#15054",
        servers=("NVIDIA Dynamo",),
    ),
    "delta_missing": Dialect(
        "a choice without a delta, or with null",
        "an empty delta; its finish reason counts",
        "openai/openai-python#1677 (Azure); mozilla-ai/any-llm#657 (MiniMax)",
        servers=("Azure OpenAI", "MiniMax"),
    ),
    "message_repeated": Dialect(
        "a whole message behind the deltas that it is made of, also trimmed, or with its calls in "
        "another order or as objects",
        "the deltas; what only the message has is handed on",
        "GCWing/OpenBitFun#792 (MiniMax)",
        servers=("MiniMax",),
    ),
    "content_chunks": Dialect(
        "the content of a delta as a list of texts and thoughts",
        "the joined texts; thoughts go back to the server",
        "BerriAI/litellm#16272 (Mistral)",
        servers=("Mistral",),
    ),
    "finish_empty": Dialect(
        "a blank text, `{}`, `[]` or false as the finish reason of chunks before the last",
        "null: the reply goes on",
        "CangShui/workbuddy-gateway#3",
        servers=("workbuddy-gateway",),
    ),
    "finish_repeated": Dialect(
        "a finish reason once more, or another good one",
        "the first; of several the one that promises calls, or the worst",
        "RayBytes/ChatMock#114",
        servers=("ChatMock",),
    ),
    "finish_each": Dialect(
        "a finish reason in every chunk from the first on",
        "pieces of one reply, which `[DONE]` ends",
        "BerriAI/litellm#2195 (Gemini)",
        servers=("Gemini", "LiteLLM"),
    ),
    "blank_behind_end": Dialect(
        "text of white space behind the finish reason",
        "nothing",
        "vercel-labs/fx#911; anomalyco/opencode#49167 (of any text)",
    ),
    "call_behind_end": Dialect(
        "a further call behind the finish reason",
        "a call of the reply",
        "BerriAI/litellm#31634 (Gemini)",
        servers=("Gemini", "LiteLLM"),
    ),
    "done_missing": Dialect(
        "the end of the stream behind a finish reason, without `[DONE]`",
        "a whole reply",
        "ikawrakow/ik_llama.cpp#467; perplexityai/api-discussion#209",
        servers=("ik_llama.cpp", "Perplexity"),
    ),
    "call_index": Dialect(
        "calls whose indexes are missing, null, texts, all the same, or not counted from 0",
        "the call of the same label or id, else the last; a new id with a name opens a call",
        "BerriAI/litellm#32759; su-kaka/gcli2api#406; openai/openai-python#3246; "
        "ai-dynamo/dynamo#4723",
        servers=("Bedrock Access Gateway", "gcli2api", "Gemini", "NVIDIA Dynamo"),
    ),
    "call_id_changes": Dialect(
        "another id in later pieces of a call, without a name",
        "the first id",
        "poolsideai/pool#9",
        servers=("Poolside",),
    ),
    "call_repeated": Dialect(
        "a call once more, under its index or another one: the same id, name and arguments, "
        "whatever stands around them",
        "the call, once; what stands around it, such as a signature, is that of the last one that "
        "has it",
        "mudler/LocalAI#9722; QuantumNous/new-api#6278",
        servers=("LocalAI", "new-api"),
    ),
    "call_name_repeated": Dialect(
        "the name of a call once more, blank or null, in its later pieces",
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
        "the name of a declared tool in several pieces, each from its beginning on",
        "the last of them",
        "QwenLM/qwen-code#3896 (DashScope, of texts)",
        servers=("DashScope",),
    ),
    "call_name_late": Dialect(
        "the name of a call behind the beginning of its arguments",
        "the name",
        "vercel/ai#14722",
    ),
    "call_empty": Dialect(
        "a piece of no call: null, or without an id, a name and arguments; `{}` or a blank text as "
        "`tool_calls`",
        "nothing; a signature in it is kept on the call of its index, else on the last one",
        "jjang-ai/vmlx#219",
        servers=("vMLX",),
    ),
    "call_function_null": Dialect(
        "null as the function of a call, in a piece that says something else",
        "an empty function",
        "endolith/open-interpreter#254",
    ),
    "arguments_object": Dialect(
        "an empty object as arguments, also as the text `{}` or `null`, and then their text",
        "the text",
        "envoyproxy/ai-gateway#1465; microsoft/autogen#7549 (Gemini); ogx-ai/ogx#5462",
        servers=("Envoy AI Gateway", "Gemini", "OGX"),
    ),
}
"""The ways of servers to stream a chat completion, by the name that an attempt records."""

RESPONSE_DIALECTS: Mapping[str, Dialect] = {
    "event_without_type": Dialect(
        "an event without a type, or without anything: a heartbeat",
        "nothing of the reply",
        "NousResearch/hermes-agent#111887 (of chat completions)",
    ),
    "event_without_response": Dialect(
        "`response.in_progress` and the like without a response, as a heartbeat",
        "nothing of the reply",
        "diegosouzapw/OmniRoute#14330",
        servers=("OmniRoute",),
    ),
    "member_missing": Dialect(
        "a response, an item or a part, whole or streamed, without members of the API, or with "
        "null or what is empty: `created_at`, `object`, `status`, the `role` and `content` of a "
        "message, the `text` and `annotations` of a part, the `summary` of a thought",
        "`created` or 0, `response`, `completed` (without an error), `assistant`, what is empty",
        "TiaraBasori/OpenCode2API#11; openai/openai-python#3011; anomalyco/opencode#29482",
        servers=("OpenCode2API",),
    ),
    "item_empty": Dialect(
        "`{}`, null or what holds nothing but null as an item or a part, whole or streamed",
        "nothing",
        "jjang-ai/vmlx#219 (of a call)",
    ),
    "response_done": Dialect(
        "`response.done` with its response, in place of `response.completed` or behind it",
        "the end that the status in it says; without a status it is completed",
        "can1357/oh-my-pi#4692; decolua/9router#2142 (Codex)",
        servers=("Codex",),
    ),
    "sequence_number": Dialect(
        "numbers of events that repeat or fall, such as 0 in some of them",
        "the events in the order in which they come",
        "BerriAI/litellm#28899",
        servers=("LiteLLM",),
    ),
    "id_changes": Dialect(
        "another id of the response in a later event",
        "the response of the terminal event",
        "BerriAI/litellm#30071 (GitHub Copilot)",
        servers=("GitHub Copilot",),
    ),
    "item_id_changes": Dialect(
        "another id of an item in its later events",
        "the item of the same `output_index`",
        "BerriAI/litellm#30071 (GitHub Copilot)",
        servers=("GitHub Copilot",),
    ),
    "item_unannounced": Dialect(
        "events of an item that was never added, or is done",
        "what the terminal event says, where that has the same text and arguments",
        "BerriAI/litellm#36375 (Gemini)",
        servers=("LiteLLM", "Gemini"),
    ),
    "output_index": Dialect(
        "no `output_index`, or one that is in use",
        "the items in the order in which they were added; the same item again is nothing",
        "ggml-org/llama.cpp#20607; can1357/oh-my-pi#1971 (Lemonade)",
        servers=("llama.cpp", "Lemonade"),
    ),
    "content_index": Dialect(
        "no `content_index`, null, or one that counts the deltas, or parts of other items",
        "the texts of an item as they come",
        "vllm-project/vllm#29947; crmne/ruby_llm, "
        "providers_bedrock_mantle_responses_chat_streams_through_the_responses_surface#0 (Bedrock)",
        servers=("vLLM", "Bedrock"),
    ),
    "done_disagrees": Dialect(
        "a text, arguments or an item at its end that are not what came before",
        "what the terminal event says, where that is what came",
        "can1357/oh-my-pi#1971; vllm-project/vllm#29947",
        servers=("Lemonade", "vLLM"),
    ),
    "events_disagree": Dialect(
        "a terminal output with other ids or items than the events before it",
        "the terminal output, where it has the same text and arguments",
        "vllm-project/vllm#47916; smg-project/smg#160",
        servers=("vLLM", "SMG"),
    ),
    "arguments_repeated": Dialect(
        "what a call holds when it is added, whole or its beginning, again in its deltas",
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
        "a search that the server has run as a `custom_tool_call`, whole or streamed",
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
        "events of the items once more, behind the end of the response",
        "nothing, where they say what the response says",
        "maximhq/bifrost#1018 (Gemini)",
        servers=("Bifrost",),
    ),
    "call_behind_end": Dialect(
        "a further call, whole, behind the end of the response",
        "a call of the reply",
        "BerriAI/litellm#31634 (of chat completions)",
    ),
    "response_behind_end": Dialect(
        "another response behind the end of the first",
        "the first",
        "vercel/ai, packages/azure/src/__fixtures__/azure-reasoning-encrypted-content.1.chunks.txt"
        "#0 (Azure)",
        servers=("Azure OpenAI",),
    ),
}
"""The ways of servers to write or stream a response, by the name that an attempt records."""

MESSAGE_DIALECTS: Mapping[str, Dialect] = {
    "event_without_type": Dialect(
        "an object without a `type` between the events",
        "nothing of the reply",
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
        "the last block, or the next where it begins one",
        "QuantumNous/new-api#5482 (of indexes with gaps)",
    ),
    "index_gap": Dialect(
        "indexes of blocks that are not counted from 0",
        "the places of the blocks",
        "QuantumNous/new-api#5482; NousResearch/hermes-agent#45908",
        servers=("New API",),
    ),
    "block_stop_missing": Dialect(
        "the next block, or the end, without `content_block_stop`",
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
        "`content_block_stop` of a block once more",
        "nothing",
        "QuantumNous/new-api#5482 (of blocks that never began)",
    ),
    "stop_repeated": Dialect(
        "`message_stop` once more",
        "nothing",
        "BerriAI/litellm#33859 (of the start)",
        servers=("LiteLLM",),
    ),
    "message_behind_end": Dialect(
        "another message behind the end of the first",
        "the first",
        "pydantic/pydantic-ai, tests/models/cassettes (recordings of several responses)",
    ),
}
"""The ways of servers to stream a message of Anthropic's API."""
