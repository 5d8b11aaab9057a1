"""A completion as server-sent events, chunk by chunk as the API streams it, and a recorded stream assembled again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from strictreply.batch._results import LINE_LIMITS
from strictreply.reading._decoding import decode
from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._events import DONE, DONE_DATA, EventReader, event
from strictreply.wires._opening import peek
from strictreply.wires._wire import WIRES

PIECES = 4  # of a text at most, however long it is


def events(completion: JSON, *, usage: bool = False) -> tuple[bytes, ...]:
    """Write a completion, or what is none, as the events of a stream; ``usage`` as ``include_usage`` asks for it."""
    return (*map(event, chunks(completion, usage=usage)), DONE)


def chunks(completion: JSON, *, usage: bool = False) -> Iterator[JSON]:
    """Take a completion apart into ``chat.completion.chunk`` objects; see :func:`events`."""
    choices: Any = peek(completion, "choices")
    listed = choices if isinstance(choices, list) else []
    if not (isinstance(completion, dict) and listed and all(isinstance(peek(one, "message"), dict) for one in listed)):
        yield completion
        return
    around: JSONObject = {name: value for name, value in completion.items() if name not in {"choices", "usage"}}
    around |= {"object": "chat.completion.chunk"} | ({"usage": None} if usage else {})
    for choice in listed:
        index: JSONObject = {"index": choice["index"]} if "index" in choice else {}
        for delta in _deltas(choice["message"]):
            part: JSON = {**index, "delta": delta, "logprobs": None, "finish_reason": None}
            yield {**around, "choices": [part]}
        ended: JSONObject = {name: value for name, value in choice.items() if name != "message"} | {"delta": {}}
        yield {**around, "choices": [ended]}
    if usage and "usage" in completion:
        yield around | {"choices": [], "usage": completion["usage"]}


def _deltas(message: JSONObject) -> Iterator[JSONObject]:
    texts = {name: message[name] for name in ("content", "refusal") if isinstance(message.get(name), str)}
    listed: Any = message.get("tool_calls")
    calls: list[JSON] = listed if isinstance(listed, list) else []
    yield {name: "" if name in texts else value for name, value in message.items() if not (calls and value is calls)}
    for name, text in texts.items():
        yield from ({name: piece} for piece in pieces_of(text))
    for index, call in enumerate(calls):
        part: Any = call | {"index": index} if isinstance(call, dict) else call
        match part:
            case {"function": {"arguments": str(arguments)} as function}:
                yield {"tool_calls": [part | {"function": function | {"arguments": ""}}]}
                for piece in pieces_of(arguments):
                    yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            case _:
                yield {"tool_calls": [part]}


def pieces_of(text: str) -> Iterator[str]:
    """Cut a text into a few pieces, as it would be streamed."""
    size = -(-len(text) // PIECES) or 1
    return (text[start : start + size] for start in range(0, len(text), size))


def assembled(body: bytes) -> JSON:
    """Put a recorded stream together, None when it is empty; a faulty one gets a finish reason that no gate accepts."""
    reader = EventReader()
    told = [*reader.feed(body), *reader.last()]
    is_typed = bool(told) and told[0].name.startswith("response.")
    assembly = WIRES["responses" if is_typed else "chat"].assembly()
    is_empty = True
    for name, data, _ in told:
        if data == DONE_DATA:
            assembly.is_done = True
        if assembly.is_done:
            break
        chunk: Any = decode(data, LINE_LIMITS)
        if isinstance(chunk, dict) and name == "error" and "error" not in chunk:
            chunk = {"error": chunk, "choices": []}
        assembly.add(chunk)
        is_empty = False
    return None if is_empty else assembly.response(is_whole=assembly.fault is None)
