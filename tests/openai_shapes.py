"""The Chat Completions API as tests write it: calls, messages, completions, and a client that gives scripted ones."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any


def call(name: object, arguments: object, id_: object = "call_1") -> dict[str, Any]:
    """Spell one native tool call; arguments that are no text are written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": text}}


def message(content: object = None, calls: Iterable[object] = (), **more: object) -> dict[str, Any]:
    """Spell an assistant message."""
    listed = list(calls)
    return {"role": "assistant", "content": content} | ({"tool_calls": listed} if listed else {}) | more


def completion(of: object, finish_reason: object = None) -> dict[str, Any]:
    """Spell a completion that carries one message; the finish reason is the usual one unless given."""
    usual = "tool_calls" if isinstance(of, dict) and of.get("tool_calls") else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "message": of, "finish_reason": finish_reason or usual}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }


class ScriptedClient:
    """Stands where ``OpenAI()`` does: gives the scripted replies in order, the last one for good, and keeps requests."""

    def __init__(self, *replies: Any) -> None:
        """Take the completions to give."""
        self._replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def _create(self, **request: Any) -> Any:
        """Keep a copy of the request and give the next reply."""
        self.requests.append(copy.deepcopy(request))
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
