"""Replies of the Responses API, spelled by hand.

The scripted server of :mod:`scripted` serves them as they are.
"""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import strictreply as sr
from support.scripted import JSONObject

_numbers = count(1)

FLAT_SEARCH: JSONObject = {
    "type": "function",
    "name": "search",
    "description": "Search the shop.",
    "parameters": {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 20},
        },
        "required": ["query"],
    },
    "strict": None,
}


def wrap(client: Any, **keywords: Any) -> Any:
    """Wrap a client whose methods take plain dicts here."""
    return sr.wrap(client, **keywords)


def text_item(
    text: str, *, phase: str | None = None, status: str | None = "completed", **members: Any
) -> JSONObject:
    """Return a message item with one text."""
    item = {
        "id": f"msg_{next(_numbers)}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    return item | ({"phase": phase} if phase else {}) | members


def call_item(name: str, arguments: object, call_id: str = "call_a", **members: Any) -> JSONObject:
    """Return a call; arguments other than text are written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    item = {
        "id": f"fc_{next(_numbers)}",
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": text,
    }
    return item | {"status": "completed"} | members


def reasoning_item(**members: Any) -> JSONObject:
    """Return a reasoning item."""
    return {"id": f"rs_{next(_numbers)}", "type": "reasoning", "summary": []} | members


def response(*items: JSONObject, status: str | None = "completed", **members: Any) -> JSONObject:
    """Return a whole response around its items."""
    return {
        "id": f"resp_{next(_numbers)}",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "output": list(items),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        },
    } | members
