"""Replaying a bad reply to the model: as the assistant's turn, with the correction where the API wants it.

What the model wrote is in its own turn only, and capped. Calls are replayed natively when servers will take them back,
under ids of our own; else as text.
"""

from __future__ import annotations

import json
import re

from strictreply.contract._contract import Contract
from strictreply.reading._decoding import decode
from strictreply.retry._scoping import Scope
from strictreply.values._json import JSONObject, Message

MAX_REPLAY_CHARS = 8_000
_NOT_RUN = "Not run: the reply was not valid."
_KEPT = "Valid, and kept as it is."
_EMPTY = "(an empty reply)"
_REASONING = ("reasoning_content", "reasoning", "reasoning_details")  # servers that think in tool loops want it back
_API_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def replayed(contract: Contract, message: JSONObject, correction: str, scope: Scope | None) -> list[Message]:
    """Return the bad reply as the assistant's turn, and the correction where the API wants it."""
    calls = message.get("tool_calls")
    if contract.channel == "native" and isinstance(calls, list) and calls and _replayable(contract, message):
        return _native_replay(message, correction, scope)
    return [{"role": "assistant", "content": _as_text(message)}, {"role": "user", "content": correction}]


def _replayable(contract: Contract, message: JSONObject) -> bool:
    """Return whether servers take the calls back in a history: allowed names, arguments that are JSON objects."""
    return len(_text_of(message)) <= MAX_REPLAY_CHARS and all(
        isinstance(call, dict) and _well_formed(contract, call.get("function")) for call in message["tool_calls"]
    )


def _well_formed(contract: Contract, function: object) -> bool:
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return False
    name = function.get("name")
    if not isinstance(name, str) or not (name in contract.by_name or _API_NAME.fullmatch(name)):
        return False
    # chat templates parse the arguments again
    return function["arguments"] == "" or isinstance(decode(function["arguments"]), dict)


def _native_replay(message: JSONObject, correction: str, scope: Scope | None) -> list[Message]:
    """Replay native calls under ids of our own, with a tool turn for each, as the API demands."""
    calls = message["tool_calls"]
    answered = len(calls) - 1 if scope is None else scope.index
    content = message.get("content")
    assistant: JSONObject = {
        "role": "assistant",
        "content": content if isinstance(content, str) and content else None,
        "tool_calls": [_bare_call(call, _replay_id(index)) for index, call in enumerate(calls)],
        **_reasoning(message),
    }
    other = _NOT_RUN if scope is None else _KEPT
    return [
        assistant,
        *(
            {"role": "tool", "tool_call_id": _replay_id(index), "content": correction if index == answered else other}
            for index in range(len(calls))
        ),
    ]


def _reasoning(message: JSONObject) -> JSONObject:
    """Return a provider's reasoning, none when it is longer than what is replayed."""
    kept = {name: message[name] for name in _REASONING if message.get(name)}
    return kept if len(json.dumps(kept)) <= MAX_REPLAY_CHARS else {}


def _replay_id(index: int) -> str:
    """Return an id of our own: the one that came may hold anything.

    Nine letters and digits are what the strictest servers take (Mistral's templates).
    """
    return f"call{index + 1:05}"


def _bare_call(call: JSONObject, id_: str) -> JSONObject:
    """Return the fields of a call that servers read, a provider's own state with them."""
    function = call["function"]
    state = {"extra_content": call["extra_content"]} if call.get("extra_content") else {}
    return {
        "id": id_,
        "type": "function",
        "function": {"name": function["name"], "arguments": function["arguments"] or "{}"},
        **state,
    }


def _as_text(message: JSONObject) -> str:
    # an empty reply in our words: chat templates want the roles to alternate, and no turn without text
    text = _text_of(message) or _EMPTY
    return text if len(text) <= MAX_REPLAY_CHARS else text[:MAX_REPLAY_CHARS] + "…"


def _text_of(message: JSONObject) -> str:
    content, calls = message.get("content"), message.get("tool_calls")
    parts = [content] if isinstance(content, str) and content else []
    return "\n".join([*parts, json.dumps(calls)] if calls else parts)
