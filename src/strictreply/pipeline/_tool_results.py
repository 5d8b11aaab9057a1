"""What a tool gives back, as the JSON of a manifest and as the turn that tells the model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic_core import to_json

from strictreply.contract._describing import compact
from strictreply.pipeline._values import AgentToolCall, AgentToolCallResult, ToolCallManifest
from strictreply.reading._decoding import decode, is_json
from strictreply.values._attempts import plain, type_name
from strictreply.values._json import Channel, JSONObject, Message

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def result_json(value: object, limit: int) -> str:
    """Spell a tool's result as a JSON text that UTF-8 can hold; one over ``limit`` characters is cut, and says so.

    What strict readers refuse (NaN, names that are equal as text, too many levels) is told as a text.
    """
    if isinstance(value, str):
        return compact(_cut(_spelled(str.__str__(value)), limit))
    try:
        text = to_json(value, fallback=str).decode()
    except Exception:  # noqa: BLE001 - cycles, bytes, surrogates; and an object's own code may raise anything
        text = _plain_json(value)
    return text if len(text) <= limit and is_json(text) else compact(_cut(text, limit))


def error_json(kind: str, message: str, limit: int) -> str:
    """Spell a failure as a result: an error is one, never a reason to ask for the call again (X11)."""
    return compact({"error": {"type": kind, "message": _cut(_spelled(message), limit)}})


def capped(result: AgentToolCallResult, limit: int) -> AgentToolCallResult:
    """Cut what a client gave to ``limit`` characters, as a tool's own result is cut."""
    if result.result_json is None or len(result.result_json) <= limit:
        return result
    return replace(result, result_json=compact(_cut(_told(result), limit)))


def denied(call: AgentToolCall, reason: str, limit: int) -> AgentToolCallResult:
    """Make the result of a call that nobody allowed."""
    return _failed(call, "ApprovalDenied", reason or "the call was not allowed", limit)


def interrupted(call: AgentToolCall, limit: int) -> AgentToolCallResult:
    """Make the result of a call that was begun, until it has its own."""
    return _failed(call, "Interrupted", "the call was begun, and may have done its work or not", limit)


def abandoned(call: AgentToolCall, limit: int) -> AgentToolCallResult:
    """Make the result of a call that the user did not wait for."""
    return _failed(call, "Abandoned", "the user went on without the result of this call", limit)


def with_results(manifest: ToolCallManifest, results: Mapping[str, AgentToolCallResult]) -> ToolCallManifest:
    """Give a manifest with these results, in the order of its calls."""
    told = (results.get(call.tool_call_id) for call in manifest.tool_calls)
    return replace(manifest, tool_call_results=tuple(result for result in told if result is not None))


def result_turns(manifest: ToolCallManifest, channel: Channel) -> list[Message]:
    """Give the turns that tell the model what its calls came to, in the order of the calls."""
    return [_result_turn(result, channel) for result in manifest.tool_call_results]


def _failed(call: AgentToolCall, kind: str, message: str, limit: int) -> AgentToolCallResult:
    """Make the result of a call that came to nothing."""
    told = error_json(kind, message, limit)
    return AgentToolCallResult(tool_call_id=call.tool_call_id, name=call.name, result_json=told)


def _result_turn(result: AgentToolCallResult, channel: Channel) -> JSONObject:
    """Answer one call: by its id, or by name where calls are written as text."""
    text = _told(result)
    if channel == "text":
        return {"role": "user", "content": f"Result of {result.name}: {text}"}
    return {"role": "tool", "tool_call_id": result.tool_call_id, "content": text}


def _told(result: AgentToolCallResult) -> str:
    """Give a text as it is, and any other value as JSON; a client's error as one."""
    if result.result_json is None:
        return compact({"error": {"type": "ClientError", "message": result.error_message or ""}})
    value = decode(result.result_json)
    return value if isinstance(value, str) else result.result_json


def _cut(text: str, limit: int) -> str:
    """Cut a text to ``limit`` characters."""
    return text if len(text) <= limit else f"{text[:limit]}… (cut: {len(text)} characters in all)"


def spelled(value: Any) -> Any:
    """Replace what UTF-8 cannot spell in a text, or in every text of a JSON value."""
    match value:
        case str():
            return _spelled(value)
        case dict():
            return {_spelled(name): spelled(member) for name, member in value.items()}
        case list():
            return [spelled(item) for item in value]
        case _:
            return value


def _spelled(text: str) -> str:
    """Replace what UTF-8 cannot spell."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def _plain_json(value: object) -> str:
    """Spell what pydantic cannot: value by value, or by its type when it holds a number too long to spell."""
    try:
        return _spelled(json.dumps(plain(value, other=_other_text), ensure_ascii=False))
    except ValueError:
        return compact(type_name(value))


def _other_text(value: object) -> str:
    """Spell what JSON has no word for: bytes as far as they are UTF-8, and everything else as its ``str``."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - an object's own code may raise anything
        return type_name(value)
