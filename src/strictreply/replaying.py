"""Showing a model its own bad reply: as the assistant's turn, with the correction where the API wants it.

What the model wrote stands in its own turn only, and capped. Calls are replayed natively when servers will take them
back, under ids of our own; else as text.
"""

from __future__ import annotations

import json
import re

from strictreply.scoping import Scope
from strictreply.terms import Terms
from strictreply.typing import JSONObject, Message

MAX_REPLAY_CHARS = 8_000
_NOT_RUN = "Not run: the reply was not valid."
_KEPT = "Valid, and kept as it is."
_API_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def replayed(terms: Terms, message: JSONObject, correction: str, scope: Scope | None) -> list[Message]:
    """Show the bad reply as the assistant's turn, and the correction where the API wants it."""
    calls = message.get("tool_calls")
    if terms.channel == "native" and isinstance(calls, list) and calls and _replayable(terms, message):
        return _native_replay(message, correction, scope)
    text = _as_text(message)
    bad: list[Message] = [{"role": "assistant", "content": text}] if text else []
    return [*bad, {"role": "user", "content": correction}]


def _replayable(terms: Terms, message: JSONObject) -> bool:
    """Tell whether servers take the calls back in a history: names they allow, arguments that are JSON objects."""
    return len(_spelled(message)) <= MAX_REPLAY_CHARS and all(
        isinstance(call, dict) and _well_formed(terms, call.get("function")) for call in message["tool_calls"]
    )


def _well_formed(terms: Terms, function: object) -> bool:
    """Tell whether one call's function is fit for a history; templates parse the arguments again."""
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return False
    name = function.get("name")
    if not isinstance(name, str) or not (name in terms.tools or _API_NAME.fullmatch(name)):
        return False
    try:
        return isinstance(json.loads(function["arguments"]), dict)
    except (ValueError, RecursionError):
        return False


def _native_replay(message: JSONObject, correction: str, scope: Scope | None) -> list[Message]:
    """Replay native calls under ids of our own, with a tool turn for each, as the API demands."""
    calls = message["tool_calls"]
    failing = scope.index if scope is not None else 0 if len(calls) == 1 else None
    content = message.get("content")
    assistant: JSONObject = {
        "role": "assistant",
        "content": content if isinstance(content, str) and content else None,
        "tool_calls": [_bare_call(call, _replay_id(index)) for index, call in enumerate(calls)],
    }
    other = _KEPT if scope is not None else _NOT_RUN
    answers: list[Message] = [
        {"role": "tool", "tool_call_id": _replay_id(index), "content": correction if index == failing else other}
        for index in range(len(calls))
    ]
    closing: list[Message] = [] if failing is not None else [{"role": "user", "content": correction}]
    return [assistant, *answers, *closing]


def _replay_id(index: int) -> str:
    """Name a replayed call: never by the id that came, which may hold anything."""
    return f"call_{index + 1}"


def _bare_call(call: JSONObject, id_: str) -> JSONObject:
    """Copy the fields of a call that the API defines."""
    function = call["function"]
    return {
        "id": id_,
        "type": "function",
        "function": {"name": function["name"], "arguments": function["arguments"]},
    }


def _as_text(message: JSONObject) -> str:
    """Spell a reply that cannot be replayed natively as the assistant's text, capped."""
    text = _spelled(message)
    return text if len(text) <= MAX_REPLAY_CHARS else text[:MAX_REPLAY_CHARS] + "…"


def _spelled(message: JSONObject) -> str:
    """Spell what a message says and calls; reasoning and other extras are not shown again."""
    content, calls = message.get("content"), message.get("tool_calls")
    parts = [content] if isinstance(content, str) and content else []
    return "\n".join([*parts, json.dumps(calls)] if calls else parts)
