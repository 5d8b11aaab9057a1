"""Messages of Anthropic's API, whole and as the events of a stream, for tests of its wire."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from strictreply import Limits
from strictreply.wires import WIRES

JSONObject = dict[str, Any]

SEARCH: JSONObject = {
    "name": "search",
    "input_schema": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    },
}
ASKED: JSONObject = {
    "model": "claude",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "find tea"}],
}
MESSAGES = WIRES["messages"]


def text(words: str) -> JSONObject:
    """Return a block of text."""
    return {"type": "text", "text": words}


def use(given: object, id_: str = "toolu_a", name: str = "search") -> JSONObject:
    """Return a block that calls a tool."""
    return {"type": "tool_use", "id": id_, "name": name, "input": given}


def thought(words: str = "", signature: str = "sig") -> JSONObject:
    """Return a block of thoughts."""
    return {"type": "thinking", "thinking": words, "signature": signature}


def message(*content: JSONObject, stop: str | None = None, **members: Any) -> JSONObject:
    """Return a whole message with these blocks."""
    called = any(block["type"] == "tool_use" for block in content)
    return {
        "id": "msg_a",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": list(content),
        "stop_reason": stop or ("tool_use" if called else "end_turn"),
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        **members,
    }


def events(response: JSONObject) -> list[JSONObject]:
    """Return the events of a message, as the API would stream it."""
    return list(MESSAGES.sent(True).rest(response, None))


def body(told: Iterable[JSONObject]) -> bytes:
    """Return events as the body of a stream."""
    return b"".join(map(MESSAGES.event_bytes, told))


def read(stream: bytes) -> Iterator[Any]:
    """Yield what the events in the bytes of a stream say."""
    reader = MESSAGES.reader()
    for one in [*reader.feed(stream), *reader.end()]:
        yield MESSAGES.read_event(one, Limits()).plain


def assembled(told: Iterable[Any], *, strict: bool = False) -> Any:
    """Return the assembly of these events, ended."""
    assembly = MESSAGES.assembly(("search",), strict=strict)
    for event in told:
        assembly.add(json.loads(json.dumps(event)))

    assembly.end()
    return assembly
