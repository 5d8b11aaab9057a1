"""A completion as server-sent events, chunk by chunk, as the API streams it; nothing of HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any, cast

from strictreply.values._json import JSON, JSONObject

DONE = b"data: [DONE]\n\n"
"""The event that ends a stream; it is not JSON."""

PIECES = 4
"""In how many pieces a text comes at most, however long it is."""

_SPELLED_ANEW = ("choices", "usage")
_IN_PIECES = ("content", "refusal")


def events(completion: JSON, *, usage: bool = False) -> tuple[bytes, ...]:
    """Spell a completion as the events of a stream, ``data: [DONE]`` last.

    ``usage`` adds the chunk that ``stream_options.include_usage`` asks for. What is no completion, as its envelope was
    spoiled, becomes one event as it is. What an SDK puts together from the events is the completion again: each spoiled
    value that has a place in a delta is in one.
    """
    return (*map(event, chunks(completion, usage=usage)), DONE)


def event(chunk: JSON) -> bytes:
    """Spell one chunk as an event; the JSON is ASCII, so that no line or character can be cut by accident."""
    return b"data: %s\n\n" % json.dumps(chunk).encode()


def chunks(completion: JSON, *, usage: bool = False) -> Iterator[JSON]:
    """Take a completion apart into ``chat.completion.chunk`` objects; see :func:`events`."""
    choices = _choices(completion)
    if choices is None:
        yield completion
        return
    whole = cast("JSONObject", completion)
    around: JSONObject = {name: value for name, value in whole.items() if name not in _SPELLED_ANEW}
    around |= {"object": "chat.completion.chunk"}
    around |= {"usage": None} if usage else {}
    for part in chain.from_iterable(map(_parts, choices)):
        around |= {"choices": [part]}
        yield dict(around)
    if usage and "usage" in whole:
        around |= {"choices": [], "usage": whole["usage"]}
        yield around


def _choices(completion: JSON) -> list[JSONObject] | None:
    """Read the choices of a completion; None when it has none that could be streamed."""
    choices: Any = completion.get("choices") if isinstance(completion, dict) else None
    if not isinstance(choices, list) or not choices:
        return None
    whole = all(isinstance(one, dict) and isinstance(one.get("message"), dict) for one in choices)
    return choices if whole else None


def _parts(choice: JSONObject) -> Iterator[JSONObject]:
    """Take a choice apart: a part for each delta, and one for how it ended."""
    around: JSONObject = {"index": choice["index"]} if "index" in choice else {}
    for delta in _deltas(choice["message"]):
        yield around | {"delta": delta, "logprobs": None, "finish_reason": None}
    yield {name: value for name, value in choice.items() if name != "message"} | {"delta": {}}


def _deltas(message: JSONObject) -> Iterator[JSONObject]:
    """Take a message apart: what is not written piece by piece, its texts, its calls."""
    texts = {name: message[name] for name in _IN_PIECES if isinstance(message.get(name), str)}
    listed: Any = message.get("tool_calls")
    calls: list[JSON] = listed if isinstance(listed, list) else []
    yield {name: "" if name in texts else value for name, value in message.items() if not (calls and value is calls)}
    for name, text in texts.items():
        yield from ({name: piece} for piece in _pieces(text))
    for index, call in enumerate(calls):
        yield from ({"tool_calls": [part]} for part in _call_parts(call, index))


def _call_parts(call: JSON, index: int) -> Iterator[JSON]:
    """Take one call apart: its id and its name first, then its arguments; one that is no object comes as it is."""
    if not isinstance(call, dict):
        yield call
        return
    first: JSONObject = call | {"index": index}
    function = first.get("function")
    if not isinstance(function, dict) or not isinstance(text := function.get("arguments"), str):
        yield first
        return
    yield first | {"function": function | {"arguments": ""}}
    for piece in _pieces(text):
        yield {"index": index, "function": {"arguments": piece}}


def _pieces(text: str) -> Iterator[str]:
    """Cut a text into a few pieces; an empty one into none."""
    size = -(-len(text) // PIECES)
    return (text[start : start + size] for start in range(0, len(text), size)) if text else iter(())
