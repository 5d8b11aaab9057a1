"""The items of the Responses API that a reply is made of, and the one message that they make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from strictreply.values._json import JSON, Message
from strictreply.wires._opening import peek

AWAITED: Final = frozenset(
    {"computer_call", "local_shell_call", "shell_call", "apply_patch_call", "mcp_approval_request"}
)
"""Calls of tools that the API itself declares, and that a program has to answer: nothing of ours judges them."""

CALLS: Final = {"function_call": "function", "custom_tool_call": "custom"}
"""The items that are calls of declared tools, and what such a call is in a message."""

TEXTS = ("output_text", "text")


def is_call(item: object) -> bool:
    """Report whether an item is a call of a declared tool."""
    return peek(item, "type") in CALLS


def kind_of(call: object) -> str:
    """Return the type of the item that a call of a message is."""
    return next((kind for kind, name in CALLS.items() if name == peek(call, "type")), "function_call")


def parts_in(item: object, kinds: tuple[str, ...]) -> Iterator[str]:
    """Yield the texts of a message item that are in parts of these kinds."""
    content = peek(item, "content") if peek(item, "type") == "message" else None
    if isinstance(content, str) and "output_text" in kinds:
        yield content
    for part in content if isinstance(content, list) else ():
        text = peek(part, "refusal" if peek(part, "type") == "refusal" else "text")
        if peek(part, "type") in kinds and isinstance(text, str):
            yield text


def text_of(output: JSON, *, beside_calls: bool = False) -> str | None:
    """Return the text of an output that answers; None when there is none.

    Commentary answers nothing (``phase``); ``beside_calls`` it is prose like any other.
    """
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    told = [item for item in items if beside_calls or item.get("phase") in {None, "final_answer"}]
    texts = [text for item in told for text in parts_in(item, TEXTS)]
    return "".join(texts) if texts else None


def rewritten(message: Message, output: list[Any]) -> list[Any]:
    """Return the items of a response as its message says: calls with their ids and arguments, and its text."""
    calls = iter(message.get("tool_calls") or ())
    has_calls = bool(message.get("tool_calls"))
    said, own = message.get("content"), text_of(output, beside_calls=has_calls)
    text = said if own is not None and isinstance(said, str) and said != own else None
    items: list[Any] = []
    for item in output:
        kind = item.get("type")
        if kind in CALLS and (call := next(calls, None)) is not None:
            done = {"status": "completed"} if "status" in item else {}
            items.append({**item, "call_id": call["id"], **call[CALLS[kind]], **done})
        elif text is not None and kind == "message" and (has_calls or item.get("phase") in {None, "final_answer"}):
            part = {"type": "output_text", "text": text, "annotations": []}
            items.append({**item, "content": [part if text else part | {"text": ""}]})
            text = ""  # what several items said stands in the first
        else:
            items.append(item)
    return items
