"""The Chat Completions API as tests of verdicts write it.

There are calls, messages and completions, right or wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

ADD: dict[str, Any] = {
    "name": "add",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
}
NOW = {"name": "now"}


def call(name: object, arguments: object, id_: object = "call_1") -> dict[str, Any]:
    """Return one native tool call; arguments other than text are written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": text}}


def message(content: object = None, calls: Iterable[object] = (), **more: object) -> dict[str, Any]:
    """Return an assistant message."""
    listed = list(calls)
    return (
        {"role": "assistant", "content": content}
        | ({"tool_calls": listed} if listed else {})
        | more
    )


def completion(of: object, finish_reason: object = None) -> dict[str, Any]:
    """Return a completion that carries one message.

    The finish reason is the usual one unless given.
    """
    usual = "tool_calls" if isinstance(of, dict) and of.get("tool_calls") else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "message": of, "finish_reason": finish_reason or usual}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }
