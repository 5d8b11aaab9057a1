"""A completion as server-sent events, chunk by chunk as the API streams it, and a recorded stream assembled again."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast

from strictreply.reading._decoding import decode
from strictreply.testing._recordings import LINE_LIMITS
from strictreply.values._json import JSON, JSONObject

DONE = b"data: [DONE]\n\n"  # ends a stream; it is not JSON
PIECES = 4  # of a text at most, however long it is
BROKEN_OFF = "error"  # the finish reason of a stream that does not add up: it must not pass for whole
_TEXTS = ("content", "refusal")
_DONE = b"[DONE]"


def events(completion: JSON, *, usage: bool = False) -> tuple[bytes, ...]:
    """Write a completion as the events of a stream, ``data: [DONE]`` last; what is no completion is one event as it is.

    ``usage`` adds the chunk that ``stream_options.include_usage`` asks for. An SDK puts the completion together again,
    with each spoiled value that has a place in a delta.
    """
    return (*map(event, chunks(completion, usage=usage)), DONE)


def event(chunk: JSON) -> bytes:
    """Write one chunk as an event; the JSON is ASCII, so that no line or character can be cut by accident."""
    return b"data: %s\n\n" % json.dumps(chunk).encode()


def chunks(completion: JSON, *, usage: bool = False) -> Iterator[JSON]:
    """Take a completion apart into ``chat.completion.chunk`` objects; see :func:`events`."""
    choices: Any = completion.get("choices") if isinstance(completion, dict) else None
    streamed = isinstance(choices, list) and bool(choices)
    if not streamed or not all(isinstance(one, dict) and isinstance(one.get("message"), dict) for one in choices):
        yield completion
        return
    whole = cast("JSONObject", completion)
    around: JSONObject = {name: value for name, value in whole.items() if name not in {"choices", "usage"}}
    around |= {"object": "chat.completion.chunk"}
    around |= {"usage": None} if usage else {}
    for choice in choices:
        index: JSONObject = {"index": choice["index"]} if "index" in choice else {}
        parts: list[JSON] = [
            index | {"delta": delta, "logprobs": None, "finish_reason": None} for delta in _deltas(choice["message"])
        ]
        ended: JSON = {name: value for name, value in choice.items() if name != "message"} | {"delta": {}}
        yield from (around | {"choices": [part]} for part in (*parts, ended))
    if usage and "usage" in whole:
        around |= {"choices": [], "usage": whole["usage"]}
        yield around


def _deltas(message: JSONObject) -> Iterator[JSONObject]:
    texts = {name: message[name] for name in _TEXTS if isinstance(message.get(name), str)}
    listed: Any = message.get("tool_calls")
    calls: list[JSON] = listed if isinstance(listed, list) else []
    yield {name: "" if name in texts else value for name, value in message.items() if not (calls and value is calls)}
    for name, text in texts.items():
        yield from ({name: piece} for piece in _pieces(text))
    for index, call in enumerate(calls):
        part: Any = call | {"index": index} if isinstance(call, dict) else call
        match part:
            case {"function": {"arguments": str(arguments)} as function}:
                yield {"tool_calls": [part | {"function": function | {"arguments": ""}}]}
                for piece in _pieces(arguments):
                    yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            case _:
                yield {"tool_calls": [part]}


def _pieces(text: str) -> Iterator[str]:
    size = -(-len(text) // PIECES) or 1
    return (text[start : start + size] for start in range(0, len(text), size))


def assembled(body: bytes) -> JSON:
    """Put the chunks of an event stream together; None when it holds none.

    Deltas are joined as the API means them: texts in order, calls by their index. A stream that is not what the API
    sends (no ``finish_reason`` or no ``[DONE]`` at its end, an event that is no chunk, calls that contradict
    themselves) keeps what it said, with a finish reason that no gate lets through; an ``error`` stays beside the rest.
    """
    around: JSONObject = {}
    choices: dict[int, _AssembledChoice] = {}
    sound, done, chunks = True, False, 0
    for name, data in events_in(body):
        if data == _DONE:
            done = True
            break
        chunk: Any = decode(data, LINE_LIMITS)
        if not isinstance(chunk, dict):
            sound = False
            continue
        chunks += 1
        if name == "error" and "error" not in chunk:
            chunk = {"error": chunk, "choices": []}
        _keep(around, {name: value for name, value in chunk.items() if name != "choices"})
        parts: Any = chunk.get("choices")
        fitting = [isinstance(parts, list)]
        for part in parts if isinstance(parts, list) else []:
            index = _index_in({"index": 0} | part) if isinstance(part, dict) else None
            fitting.append(index is not None and choices.setdefault(index, _AssembledChoice()).add(part))
        sound = sound and all(fitting)
    whole: list[JSON] = [choices[index].whole(index, sound=sound and done) for index in sorted(choices)]
    return {**around, "object": "chat.completion", "choices": whole} if chunks else None


def events_in(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Read the type and the data of each event (WHATWG HTML section 9.2.6); a last one may lack its blank line."""
    name, lines = "", list[bytes]()
    for line in [*body.removeprefix(b"\xef\xbb\xbf").splitlines(), b""]:
        field_name, _, value = line.partition(b":")
        match field_name:
            case b"data":
                lines.append(value.removeprefix(b" "))
            case b"event":
                name = value.decode("utf-8", "replace").strip()
            case b"" if not line:
                if lines:
                    yield name, b"\n".join(lines)
                name, lines = "", []
            case _:
                continue


def _index_in(part: Any) -> int | None:
    index = part.get("index") if isinstance(part, dict) else None
    return index if isinstance(index, int) and not isinstance(index, bool) and index >= 0 else None


def _keep(around: JSONObject, given: JSONObject) -> None:
    """Keep what every chunk says anew, the last word of it; null overwrites nothing."""
    around |= {name: value for name, value in given.items() if value is not None or name not in around}


@dataclass(slots=True)
class _Pieces:
    """An object so far: members that are said once, and members that come in pieces."""

    said: JSONObject = field(default_factory=dict[str, JSON])
    pieces: dict[str, list[JSON]] = field(default_factory=dict[str, list[JSON]])

    def add(self, delta: JSONObject, once: Container[str]) -> bool:
        """Take a delta; tell whether nothing contradicts what was said before. Null says nothing."""
        agrees = True
        for name, value in delta.items():
            if name in once:
                agrees &= not value or self.said.get(name) in (None, "", value)
                self.said[name] = self.said.get(name) or value
            else:
                self.pieces.setdefault(name, []).extend([] if value is None else [value])
        return agrees

    @property
    def whole(self) -> JSONObject:
        """Texts and lists are joined; of anything else the first that is no text stands for all, to be noticed."""
        whole = dict(self.said)
        for name, parts in self.pieces.items():
            if not parts:
                whole[name] = None
            elif all(isinstance(part, str) for part in parts):
                whole[name] = "".join(map(str, parts))
            elif all(isinstance(part, list) for part in parts):
                whole[name] = [*chain.from_iterable(cast("Any", parts))]
            else:
                whole[name] = next(part for part in parts if not isinstance(part, str))
        return whole


@dataclass(slots=True)
class _AssembledCall:
    around: _Pieces = field(default_factory=_Pieces)
    function: _Pieces = field(default_factory=_Pieces)

    def add(self, part: JSONObject) -> bool:
        """Take a delta; tell whether it fits what was said before."""
        function: Any = part.get("function", {})
        if not isinstance(function, dict):
            return False
        named = self.function.said.get("name")
        agrees = self.around.add({name: part[name] for name in part if name not in {"index", "function"}}, part)
        self.function.add(function, ("name",))
        fits = "name" not in function if named else bool(function.get("name") or not function.get("arguments"))
        return agrees and fits

    @property
    def whole(self) -> JSONObject:
        return {"type": "function"} | self.around.whole | {"function": self.function.whole}


@dataclass(slots=True)
class _AssembledChoice:
    around: JSONObject = field(default_factory=dict[str, JSON])
    message: _Pieces = field(default_factory=_Pieces)
    calls: list[_AssembledCall] = field(default_factory=list[_AssembledCall])
    reason: JSON = None

    def add(self, part: JSONObject) -> bool:
        """Take a choice of a chunk; tell whether it is one, and fits what was said before."""
        reason, delta = part.get("finish_reason"), cast("Any", part.get("delta"))
        _keep(self.around, {name: part[name] for name in part if name not in {"index", "delta", "finish_reason"}})
        if not isinstance(delta, dict):
            return False
        more = reason is not None or any(delta[name] for name in delta if name != "role")
        late = self.reason is not None and more  # nothing may be said once a finish reason has come
        self.reason = self.reason if reason is None else reason
        parts: Any = delta.get("tool_calls") or []
        fitting = [not late, isinstance(parts, list), all(isinstance(delta.get(name), str | None) for name in _TEXTS)]
        fitting.append(self.message.add({name: delta[name] for name in delta if name != "tool_calls"}, ("role",)))
        for call in parts if isinstance(parts, list) else []:
            index = _index_in(call)  # that of a call so far, or of the next one
            if index == len(self.calls):
                self.calls.append(_AssembledCall())
            fitting.append(index is not None and index < len(self.calls) and self.calls[index].add(call))
        return all(fitting)

    def whole(self, index: int, *, sound: bool) -> JSONObject:
        message: JSONObject = {"role": "assistant", "content": None} | self.message.whole
        if self.calls:
            message["tool_calls"] = [call.whole for call in self.calls]
        reason = self.reason if sound and self.reason else BROKEN_OFF
        return {"index": index, "message": message, **self.around, "finish_reason": reason}
