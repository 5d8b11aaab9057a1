"""The result of a tool call, as the JSON of a manifest and as the turn that tells the model."""

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
from strictreply.values._json import Channel, Message

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def result_json(value: object, limit: int) -> str:
    """Write a tool's result as a JSON text that UTF-8 can hold; one over ``limit`` characters is cut, and says so.

    What strict readers refuse (NaN, names that are equal as text, too many levels) is sent as a text.
    """
    if isinstance(value, str):
        return compact(_cut(_encodable_text(str.__str__(value)), limit))
    try:
        text = to_json(value, fallback=str).decode()
    except Exception:  # noqa: BLE001 - cycles, bytes, surrogates; and an object's own code may raise anything
        try:
            text = _encodable_text(json.dumps(plain(value, other=_other_text), ensure_ascii=False))
        except ValueError:  # a number too long to write
            text = compact(type_name(value))
    return text if len(text) <= limit and is_json(text) else compact(_cut(text, limit))


def error_json(kind: str, message: str, limit: int) -> str:
    """Write a failure as a result: an error is one, never a reason to ask for the call again (X11)."""
    return compact({"error": {"type": kind, "message": _cut(_encodable_text(message), limit)}})


def capped(result: AgentToolCallResult, limit: int) -> AgentToolCallResult:
    """Cut what a client sent to ``limit`` characters, as a tool's own result is cut."""
    if result.result_json is None or len(result.result_json) <= limit:
        return result
    return replace(result, result_json=compact(_cut(_content(result), limit)))


_NOT_RUN: Final = {
    "ApprovalDenied": "the call was not allowed",
    "Interrupted": "the call was begun, and may have done its work or not",
    "Abandoned": "the user went on without the result of this call",
}
"""What the model is told of a call without a result of its own."""


def substitute_result(call: AgentToolCall, kind: str, limit: int, *, reason: str = "") -> AgentToolCallResult:
    """Make the result of a call that has none of its own; ``reason`` is what the client said, in place of our words."""
    text = error_json(kind, reason or _NOT_RUN[kind], limit)
    return AgentToolCallResult(tool_call_id=call.tool_call_id, name=call.name, result_json=text)


def with_results(manifest: ToolCallManifest, results: Mapping[str, AgentToolCallResult]) -> ToolCallManifest:
    """Return a manifest with these results, in the order of its calls."""
    ordered = (results.get(call.tool_call_id) for call in manifest.tool_calls)
    return replace(manifest, tool_call_results=tuple(result for result in ordered if result is not None))


def result_turns(manifest: ToolCallManifest, channel: Channel) -> list[Message]:
    """Return the turns that tell the model the results of its calls, in the order of the calls.

    A result names its call by id, or its tool where calls are written as text.
    """
    results = manifest.tool_call_results
    if channel == "text":
        return [{"role": "user", "content": f"Result of {result.name}: {_content(result)}"} for result in results]
    return [{"role": "tool", "tool_call_id": result.tool_call_id, "content": _content(result)} for result in results]


def _content(result: AgentToolCallResult) -> str:
    if result.result_json is None:
        return compact({"error": {"type": "ClientError", "message": result.error_message or ""}})
    value = decode(result.result_json)
    return value if isinstance(value, str) else result.result_json


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… (cut: {len(text)} characters in all)"


def encodable(value: Any) -> Any:
    """Replace what UTF-8 cannot encode, in a text or in every text of a JSON value."""
    match value:
        case str():
            return _encodable_text(value)
        case dict():
            return {_encodable_text(name): encodable(member) for name, member in value.items()}
        case list():
            return [encodable(item) for item in value]
        case _:
            return value


def _encodable_text(text: str) -> str:
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def _other_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - an object's own code may raise anything
        return type_name(value)
