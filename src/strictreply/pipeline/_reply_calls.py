"""The calls of a reply as they stand in a manifest, and as they are run: the same calls, told by the same ids."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import count
from typing import Any

from strictreply.contract._describing import compact
from strictreply.contract._tool import Tool
from strictreply.pipeline._values import AgentToolCall
from strictreply.reading._decoding import decode
from strictreply.values._json import Message
from strictreply.values._replies import AssistantReply, ToolCall, calls_of
from strictreply.wires._chat import peek


def identified(reply: AssistantReply, stem: str, *, taken: AbstractSet[str] = frozenset()) -> tuple[ToolCall, ...]:
    """Give the calls of a reply, each with an id: the provider's, or in the text channel one made from ``stem``.

    One that is ``taken`` by an earlier call of the conversation is numbered (``call_1.2``): with servers that count
    anew in every reply, a late result would meet a call that it was not made for.
    """
    calls = calls_of(reply)
    used = taken | {str(call.id) for call in calls}
    ids = (call.id or f"{stem}.{index}" for index, call in enumerate(calls))
    return tuple(
        replace(call, id=_numbered(id_, used) if id_ in taken else id_) for call, id_ in zip(calls, ids, strict=True)
    )


def readdressed(message: Message, reply: AssistantReply, calls: tuple[ToolCall, ...]) -> Message:
    """Put the ids of ``calls`` into the assistant's turn in the place of those that its ``reply`` has."""
    ids = {before.id: after.id for before, after in zip(calls_of(reply), calls, strict=True) if before.id != after.id}
    written: Any = peek(message, "tool_calls")
    if not ids or not written:
        return message
    return {**message, "tool_calls": [{**one, "id": ids.get(one["id"], one["id"])} for one in written]}


def manifest_call(call: ToolCall, message: Message, tool: Tool) -> AgentToolCall:
    """Spell a call for a manifest; a tool without a function is the client's, and so is an approval."""
    return AgentToolCall(
        tool_call_id=str(call.id),
        name=call.tool,
        arguments_json=_arguments(call, message, tool),
        requires_client_execution=tool.function is None or tool.needs_approval,
        needs_approval=tool.needs_approval,
    )


def _numbered(id_: str, used: AbstractSet[str]) -> str:
    """Number an id that is in use."""
    return next(free for number in count(2) if (free := f"{id_}.{number}") not in used)


def _arguments(call: ToolCall, message: Message, tool: Tool) -> str:
    """Give the arguments as the model wrote them, or spelled anew where they are no JSON text by themselves."""
    native = peek(message, "tool_calls")
    for written in native if isinstance(native, list) else ():
        text = peek(peek(written, "function"), "arguments")
        if peek(written, "id") == call.id and isinstance(text, str) and isinstance(decode(text), dict):
            return text
    return compact(tool.spelled(call.args))
