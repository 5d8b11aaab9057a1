"""How providers spell a reply and a correction: their raw completion as one that can be judged, our turns as theirs.

Two shapes are known: Chat Completions, and Anthropic's Messages. No reply is judged here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from strictreply.values._errors import ContractError
from strictreply.values._json import JSON, JSONObject, Message
from strictreply.wires._chat import peek

ReadCompletion: TypeAlias = Callable[[Any], Any]
"""Given a provider's raw completion, gives one of the shape of Chat Completions, as it came."""

SpellTurns: TypeAlias = Callable[[Sequence[Message]], list[Message]]
"""Given the turns of a correction in the words of Chat Completions, gives them in the provider's."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One shape of requests and replies."""

    completion: ReadCompletion
    turns: SpellTurns


def dialect_of(provider: str) -> Dialect:
    """Find how a provider of instructor's spells things; ContractError for one whose shape is not known here."""
    dialect = _DIALECTS.get(provider)
    if dialect is None:
        message = (
            f"the replies of instructor's provider {provider!r} have a shape that is not known here; known are "
            f"{', '.join(_DIALECTS)}. Reach it through an endpoint that speaks the Chat Completions API"
        )
        raise ContractError(message)
    return dialect


def usage_of(counted: object) -> JSON:
    """Count tokens as Chat Completions does: for Anthropic, what a cache was given or gave is part of the prompt."""
    if peek(counted, "input_tokens") is None:
        return cast("JSON", counted)
    prompt = (peek(counted, name) for name in _PROMPT_TOKENS)
    total = sum(count for count in prompt if isinstance(count, int))
    return {"prompt_tokens": total, "completion_tokens": cast("JSON", peek(counted, "output_tokens"))}


def _anthropic_completion(message: Any) -> JSONObject | None:
    """Spell a message of Anthropic's as a completion; None when it is none.

    The SDK has parsed a tool's input already: of duplicate names in it the last one is left, and the text that is
    judged is the one that spells what the SDK gave.
    """
    blocks = peek(message, "content")
    if not isinstance(blocks, list):
        return None
    ending = peek(message, "stop_reason")
    choice = {
        "index": 0,
        "finish_reason": _ENDINGS.get(ending, ending) if isinstance(ending, str) else ending,
        "message": _judged_message(cast("list[object]", blocks)),
    }
    told = {name: peek(message, name) for name in ("id", "model")}
    return told | {"choices": [choice], "usage": usage_of(peek(message, "usage"))}


def _judged_message(blocks: list[object]) -> JSONObject:
    """Spell content blocks as an assistant message: text, calls, and thoughts to be given back with a correction."""
    text = "".join(str(peek(block, "text")) for block in blocks if peek(block, "type") == "text")
    calls = [_call(block) for block in blocks if peek(block, "type") == "tool_use"]
    thoughts = [_thought(block) for block in blocks if peek(block, "type") in _THOUGHTS]
    message: JSONObject = {"role": "assistant", "content": text or None}
    message |= {"tool_calls": calls} if calls else {}
    return message | ({"reasoning_details": thoughts} if thoughts else {})


def _call(block: object) -> JSONObject:
    """Spell a use of a tool as a call; what is not finite stays so, for the reader to refuse."""
    arguments = json.dumps(peek(block, "input"))
    return {
        "id": peek(block, "id"),
        "type": "function",
        "function": {"name": peek(block, "name"), "arguments": arguments},
    }


def _thought(block: object) -> JSONObject:
    """Copy a thought with its signature: the API wants it back before the use of a tool that followed it."""
    kind = str(peek(block, "type"))
    return {"type": kind} | {name: peek(block, name) for name in _THOUGHTS[kind]}


def _anthropic_turns(turns: Sequence[Message]) -> list[Message]:
    """Spell the turns of one correction: calls and thoughts as blocks, what is said to the calls as one user turn."""
    results: list[Message] = [
        {"type": "tool_result", "tool_use_id": turn["tool_call_id"], "content": turn["content"], "is_error": True}
        for turn in turns
        if turn["role"] == "tool"
    ]
    said = [_assistant_turn(turn) if "tool_calls" in turn else turn for turn in turns if turn["role"] != "tool"]
    return [*said, {"role": "user", "content": results}] if results else said


def _assistant_turn(turn: Message) -> Message:
    """Spell a reply that is replayed with its calls."""
    text = [{"type": "text", "text": turn["content"]}] if turn["content"] else []
    return {"role": "assistant", "content": [*turn.get("reasoning_details", ()), *text, *map(_use, turn["tool_calls"])]}


def _use(call: Mapping[str, Any]) -> JSONObject:
    """Spell a call as the use of a tool; only calls whose arguments read as an object are replayed so."""
    function = call["function"]
    return {
        "type": "tool_use",
        "id": call["id"],
        "name": function["name"],
        "input": json.loads(function["arguments"]),
    }


_PROMPT_TOKENS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_THOUGHTS: Mapping[str, tuple[str, ...]] = {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}
_ENDINGS: Mapping[str, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "refusal": "content_filter",  # a classifier of the provider's stopped the model
    "pause_turn": "aborted",
}
"""Why Anthropic's model stopped, in the words of Chat Completions; other words are known under their own name."""

_CHAT_COMPLETIONS = Dialect(completion=lambda raw: raw, turns=list)
_DIALECTS: Mapping[str, Dialect] = {
    **dict.fromkeys(
        (
            *("openai", "azure_openai", "anyscale", "together", "databricks", "deepseek", "openrouter"),
            *("groq", "fireworks", "cerebras", "perplexity"),
        ),
        _CHAT_COMPLETIONS,
    ),
    "anthropic": Dialect(completion=_anthropic_completion, turns=_anthropic_turns),
}
"""By instructor's names; what it reaches as a server of OpenAI's kind (Ollama, LiteLLM) goes by ``openai``."""
