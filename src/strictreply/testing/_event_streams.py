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
    """Write a completion as the events of a stream; what is no completion is one event as it is.

    ``usage`` adds the chunk that ``stream_options.include_usage`` asks for.
    """
    return (*map(event, chunks(completion, usage=usage)), DONE)


def chunks(completion: JSON, *, usage: bool = False) -> Iterator[JSON]:
    """Take a completion apart into ``chat.completion.chunk`` objects; see :func:`events`."""
    whole: JSONObject = completion if isinstance(completion, dict) else {}
    choices: Any = whole.get("choices")
    streamed = isinstance(choices, list) and bool(choices)
    if not streamed or not all(isinstance(peek(one, "message"), dict) for one in choices):
        yield completion
        return
    around: JSONObject = {name: value for name, value in whole.items() if name not in {"choices", "usage"}}
    around |= {"object": "chat.completion.chunk"} | ({"usage": None} if usage else {})
    for choice in choices:
        index: JSONObject = {"index": choice["index"]} if "index" in choice else {}
        parts: list[JSON] = [
            index | {"delta": delta, "logprobs": None, "finish_reason": None} for delta in _deltas(choice["message"])
        ]
        parts.append({name: value for name, value in choice.items() if name != "message"} | {"delta": {}})
        yield from (around | {"choices": [part]} for part in parts)
    if usage and "usage" in whole:
        yield around | {"choices": [], "usage": whole["usage"]}


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
    """Put the chunks of a recorded event stream together; None when it holds none.

    A stream that the API would not send keeps what it holds, with a finish reason that no gate lets through.
    """
    told = events_in(body)
    is_typed = bool(told) and told[0][0].startswith("response.")
    assembly = WIRES["responses" if is_typed else "chat"].assembly()
    is_empty = True
    for name, data in told:
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


def events_in(body: bytes) -> list[tuple[str, bytes]]:
    """Read the type and the data of each event; a last one may lack its blank line."""
    reader = EventReader()
    return [(one.name, one.data) for one in (*reader.feed(body), *reader.last())]
