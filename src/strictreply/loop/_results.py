"""The results of calls in a manifest: of clients, and of calls that were not run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from strictreply.core import JSON
from strictreply.core.text import compact
from strictreply.loop._result_texts import cut
from strictreply.loop.values import AgentToolCall, AgentToolCallResult, ToolCallManifest

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


def capped(result: AgentToolCallResult, limit: int) -> AgentToolCallResult:
    """Cut what a client sent to ``limit`` characters, as a tool's own result is cut."""
    if result.result_json is None or len(result.result_json) <= limit:
        return result
    return replace(result, result_json=compact(cut(result.text, limit)))


def with_results(
    manifest: ToolCallManifest, results: Mapping[str, AgentToolCallResult]
) -> ToolCallManifest:
    """Return a manifest with these results, in the order of its calls."""
    ordered = [results.get(call.tool_call_id) for call in manifest.tool_calls]
    return replace(manifest, tool_call_results=tuple(filter(None, ordered)))
