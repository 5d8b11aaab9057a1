"""The results of calls: of tools, of clients, and those that stand for a call that was not run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar

from strictreply.core import JSON, decode
from strictreply.core.judging import NotJSON, is_json, jsonable
from strictreply.core.text import compact
from strictreply.loop._values import AgentToolCall, AgentToolCallResult, ToolCallManifest

Plain = TypeVar("Plain")

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
REPEATED: Final = "repeat_tool_call_detected"


def suppressed_result(call: AgentToolCall) -> AgentToolCallResult:
    """Make the result of a call that was not run; it keeps the manifest valid (requirement P74)."""
    guidance = (
        "This call was made before with the same arguments. "
        "Use the results above, or answer the user."
    )
    note: JSON = {"suppressed": True, "reason": REPEATED, "tool": call.name, "guidance": guidance}
    return AgentToolCallResult(
        tool_call_id=call.tool_call_id, name=call.name, result_json=compact(note)
    )


def result_json(value: object, limit: int) -> str:
    """Return a tool's result as a JSON text that UTF-8 can hold.

    It is cut to ``limit`` characters, with a note. Raises NotJSON, see :func:`jsonable`.
    """
    if isinstance(value, str):
        return compact(_cut(encodable_text(str.__str__(value)), limit))

    try:
        written = json.dumps(jsonable(value), ensure_ascii=False, separators=(",", ":"))
    except ValueError:  # a number too long to write
        raise NotJSON("", type(value).__name__) from None

    text = encodable_text(written)
    if len(text) <= limit and is_json(text):
        return text
    # What strict readers refuse (too many levels) is sent as a text.
    return compact(_cut(text, limit))


def error_json(kind: str, message: str, limit: int) -> str:
    """Return a failure as a result (X11)."""
    return compact({"error": {"type": kind, "message": _cut(encodable_text(message), limit)}})


def is_failure(result: AgentToolCallResult) -> bool:
    """Return whether a result is a failure, as :func:`error_json` writes it."""
    content = decode(result.result_json or "")
    error = content.get("error") if isinstance(content, dict) and len(content) == 1 else None
    return isinstance(error, dict) and error.keys() == {"type", "message"}


def capped(result: AgentToolCallResult, limit: int) -> AgentToolCallResult:
    """Cut what a client sent to ``limit`` characters, as a tool's own result is cut."""
    if result.result_json is None or len(result.result_json) <= limit:
        return result
    return replace(result, result_json=compact(_cut(text_of(result), limit)))


# The words for a call without a result of its own.
_NOT_RUN: Final = {
    "ApprovalDenied": "the call was not allowed",
    "Interrupted": "the call was started and may or may not have taken effect",
    "Abandoned": "the user went on without the result of this call",
    "NotRun": "the call was not run, because an earlier one of this reply failed",
}


def substitute_result(
    call: AgentToolCall, kind: str, limit: int, *, reason: str = ""
) -> AgentToolCallResult:
    """Make the result of a call that has none of its own.

    The client's ``reason`` replaces our words.
    """
    text = error_json(kind, reason or _NOT_RUN[kind], limit)
    return AgentToolCallResult(tool_call_id=call.tool_call_id, name=call.name, result_json=text)


def with_results(
    manifest: ToolCallManifest, results: Mapping[str, AgentToolCallResult]
) -> ToolCallManifest:
    """Return a manifest with these results, in the order of its calls."""
    ordered = [results.get(call.tool_call_id) for call in manifest.tool_calls]
    return replace(manifest, tool_call_results=tuple(filter(None, ordered)))


def text_of(result: AgentToolCallResult) -> str:
    if result.result_json is None:
        return compact({"error": {"type": "ClientError", "message": result.error_message or ""}})

    value = decode(result.result_json)
    return value if isinstance(value, str) else result.result_json


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… (cut: {len(text)} characters in total)"


def encodable_text(text: str) -> str:
    """Replace what UTF-8 cannot encode."""
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def encodable(value: Plain) -> Plain:
    """Copy a JSON value, and replace what UTF-8 cannot encode in every text of it."""
    copied: Plain = json.loads(encodable_text(json.dumps(value, ensure_ascii=False)))
    return copied
