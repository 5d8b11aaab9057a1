"""The rules by which the Responses API refuses a request, as far as its input and tools go.

Each is documented by OpenAI (API reference, "reasoning items", "conversation state") or was met in
public threads: openai/openai-python#2560, openai/openai-agents-python#1660,
pydantic/pydantic-ai#3127, langchain-ai/langchain#31371.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
PARTNERS = {"message", *CALLS}
PARAMETERS = frozenset(
    {
        *(
            "model",
            "input",
            "instructions",
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "text",
            "stream",
            "store",
        ),
        *(
            "include",
            "reasoning",
            "truncation",
            "max_output_tokens",
            "max_tool_calls",
            "previous_response_id",
        ),
        *("conversation", "temperature", "metadata"),
    }
)
PARTS = {
    "user": {"input_text", "input_image", "input_file"},
    "system": {"input_text"},
    "developer": {"input_text"},
    "assistant": {"output_text", "refusal"},
}
STATUSES = {"in_progress", "completed", "incomplete", None}


def refusals(request: dict[str, Any], stored: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Yield why the API would answer 400.

    ``stored`` holds the items of each response, by its id.
    """
    yield from (f"Unknown parameter: {name!r}" for name in request.keys() - PARAMETERS)
    given = request.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list):
        yield "Invalid type for 'input'"
        return

    if request.get("previous_response_id") and request.get("conversation"):
        yield "Mutually exclusive parameters"

    behind = stored.get(str(request.get("previous_response_id")), [])
    behind += stored.get(str(request.get("conversation")), [])
    yield from _of_items(
        items, {str(item.get("id")) for item in behind}, is_stored=request.get("store") is not False
    )
    yield from _of_calls([*behind, *items])

    yield from _of_thoughts(items)
    yield from _of_tools(request)


def _of_items(items: list[Any], known: set[str], *, is_stored: bool) -> Iterator[str]:
    seen = set[str]()
    for item in items:
        kind = item.get("type", "message" if "role" in item else None)
        id_ = item.get("id")

        if kind is None:
            yield f"Invalid item {item}"

        if id_ is not None:
            if kind in PREFIXES and not str(id_).startswith(PREFIXES[kind] + "_"):
                yield f"Invalid id {id_!r} of {kind}"

            if id_ in seen or id_ in known:
                yield f"Duplicate item found with id {id_}"

            seen.add(id_)

        yield from _of_item(item, kind, is_stored=is_stored)


def _of_item(item: dict[str, Any], kind: object, *, is_stored: bool) -> Iterator[str]:
    if item.get("status") not in STATUSES:
        yield f"Invalid status {item.get('status')!r}"

    if kind == "message":
        yield from _of_message(item)
    elif kind == "reasoning":
        if not isinstance(item.get("summary"), list):
            yield "Missing required parameter: 'summary'"
        if not is_stored and not item.get("encrypted_content"):
            yield f"Item with id {item.get('id')!r} not found: nothing is stored"
    elif kind in CALLS and not all(
        isinstance(item.get(name), str) for name in ("call_id", "name", CALLS[kind])
    ):
        yield f"Invalid {kind}"
    elif str(kind).endswith("_output") and not isinstance(item.get("output"), str | list):
        yield "Invalid output"


def _of_message(item: dict[str, Any]) -> Iterator[str]:
    role = item.get("role")
    content = item.get("content")

    if role not in PARTS:
        yield f"Invalid role {role!r}"

    if item.get("phase") is not None and role != "assistant":
        yield "phase is only of assistant messages"

    for part in content if isinstance(content, list) else ():
        if part.get("type") not in PARTS.get(str(role), set()):
            yield f"Invalid value: {part.get('type')!r} in a message of {role}"

    if not isinstance(content, str | list):
        yield "Invalid content"


def _of_calls(items: list[Any]) -> Iterator[str]:
    called: dict[str, str] = {}
    answered = set[str]()

    for item in items:
        kind = item.get("type")
        if kind in CALLS:
            if item["call_id"] in called:
                yield f"Duplicate call_id {item['call_id']}"
            called[item["call_id"]] = kind
        elif str(kind).endswith("_call_output"):
            if f"{called.get(item['call_id'])}_output" != kind:
                yield f"No tool call found for {kind} with call_id {item['call_id']}"
            answered.add(item["call_id"])

    yield from (f"No tool output found for function call {id_}" for id_ in called.keys() - answered)


def _of_thoughts(items: list[Any]) -> Iterator[str]:
    """A thought stands directly before what it led to."""
    for index, item in enumerate(items):
        if item.get("type") == "reasoning":
            rest = [one.get("type", "message") for one in items[index + 1 :]]
            following = next((kind for kind in rest if kind != "reasoning"), None)
            if following not in PARTNERS or (
                index + 1 < len(items) and items[index + 1].get("role") == "user"
            ):
                named = f"Item {item.get('id')!r} of type 'reasoning'"
                yield f"{named} was provided without its required following item"


def _of_tools(request: dict[str, Any]) -> Iterator[str]:
    names = set[str]()
    for tool in request.get("tools") or ():
        if tool.get("type") in {"function", "custom"}:
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", str(tool.get("name"))):
                yield f"Invalid name of a tool: {tool}"
            names.add(str(tool.get("name")))

        if "function" in tool:
            yield "Unknown parameter: 'tools[0].function'"

    choice = request.get("tool_choice")
    if isinstance(choice, dict):
        named = [
            one.get("name")
            for one in choice.get("tools", [choice])
            if one.get("type") in {"function", "custom"}
        ]
        yield from (
            f"Tool choice {name!r} not found in 'tools' parameter."
            for name in named
            if name not in names
        )

    format_ = (request.get("text") or {}).get("format") or {}
    if format_.get("type") == "json_schema" and not (
        format_.get("name") and format_.get("schema") is not None
    ):
        yield "Missing required parameter: 'text.format.name'"

    if request.get("max_output_tokens") is not None and request["max_output_tokens"] < 16:
        yield "max_output_tokens below minimum value"
