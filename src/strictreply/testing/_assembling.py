"""A recorded event stream put together: the completion that its chunks amount to, for a judge to look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias, cast

from strictreply.reading._decoding import decode
from strictreply.testing._recordings import LINE_LIMITS
from strictreply.values._json import JSON, JSONObject

BROKEN_OFF = "error"
"""The finish reason of a stream that does not add up: it must not pass for whole."""

_DONE = b"[DONE]"
_TEXTS = ("content", "refusal")
_Pieces: TypeAlias = dict[str, list[JSON]]


def assembled(body: bytes) -> JSON:
    """Put the chunks of an event stream together; None when it holds none.

    Deltas are joined as the API means them: texts in order, calls by their index. A stream that is not what the API
    sends (no ``finish_reason`` or no ``[DONE]`` at its end, an event that is no chunk, calls that contradict
    themselves) keeps what it said, with a finish reason that no gate lets through; an ``error`` stays beside the rest.
    """
    assembly = _Assembly()
    for name, data in events_in(body):
        if data == _DONE:
            return assembly.completion(done=True)
        assembly.add(name, decode(data, LINE_LIMITS))
    return assembly.completion(done=False)


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


@dataclass(slots=True)
class _Call:
    """One tool call so far: what is said of it once, and its arguments in pieces."""

    said: JSONObject = field(default_factory=dict[str, JSON])
    function: JSONObject = field(default_factory=dict[str, JSON])
    pieces: _Pieces = field(default_factory=dict[str, list[JSON]])

    def add(self, part: JSONObject) -> bool:
        """Take a delta; tell whether it fits what was said before."""
        function: Any = part.get("function", {})
        if not isinstance(function, dict):
            return False
        given = {name: value for name, value in part.items() if name not in {"index", "function"}}
        agrees = _settled(self.said, given)
        if "name" in function:
            agrees = agrees and not (self.function.get("name") and function["name"])
            _settled(self.function, {"name": function["name"]})
        _gather(self.pieces, {name: value for name, value in function.items() if name != "name"})
        return agrees and bool(self.function.get("name") or not function.get("arguments"))

    @property
    def whole(self) -> JSONObject:
        """The call as a completion has it."""
        return {"type": "function"} | self.said | {"function": self.function | _joined(self.pieces)}


@dataclass(slots=True)
class _Choice:
    """One choice so far."""

    around: JSONObject = field(default_factory=dict[str, JSON])
    said: JSONObject = field(default_factory=dict[str, JSON])
    pieces: _Pieces = field(default_factory=dict[str, list[JSON]])
    calls: list[_Call] = field(default_factory=list[_Call])
    reason: JSON = None

    def add(self, part: JSONObject) -> bool:
        """Take a choice of a chunk; tell whether it is one, and fits what was said before."""
        reason, delta = part.get("finish_reason"), cast("Any", part.get("delta"))
        kept = {name: value for name, value in part.items() if name not in {"index", "delta", "finish_reason"}}
        self.around |= {name: value for name, value in kept.items() if value is not None or name not in self.around}
        if not isinstance(delta, dict):
            return False
        late = self._is_after_the_end(reason, delta)
        self.reason = self.reason if reason is None else reason
        agrees = _settled(self.said, {name: value for name, value in delta.items() if name == "role"})
        agrees &= all(isinstance(delta.get(name), str | None) for name in _TEXTS)
        _gather(self.pieces, {name: value for name, value in delta.items() if name not in {"role", "tool_calls"}})
        return self._add_calls(delta.get("tool_calls")) and agrees and not late

    def _is_after_the_end(self, reason: object, delta: JSONObject) -> bool:
        """Tell whether something more is said once a finish reason has come."""
        return self.reason is not None and (reason is not None or any(delta[name] for name in delta if name != "role"))

    def _add_calls(self, parts: Any) -> bool:
        """Take the deltas of calls; tell whether each belongs to a call, or begins the next one."""
        if not isinstance(parts, list):
            return not parts
        fitting = [self._add_call(part) for part in parts]
        return all(fitting)

    def _add_call(self, part: Any) -> bool:
        """Take the delta of one call."""
        index = _index_in(part)
        if index is None or index > len(self.calls):
            return False
        if index == len(self.calls):
            self.calls.append(_Call())
        return self.calls[index].add(part)

    def whole(self, index: int, *, sound: bool) -> JSONObject:
        """Give the choice as a completion has it."""
        message: JSONObject = {"role": "assistant", "content": None} | self.said | _joined(self.pieces)
        if self.calls:
            message["tool_calls"] = [call.whole for call in self.calls]
        reason = self.reason if sound and self.reason else BROKEN_OFF
        return {"index": index, "message": message, **self.around, "finish_reason": reason}


class _Assembly:
    """A completion that grows by chunks, and whether all of them were what the API sends."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._around: JSONObject = {}
        self._choices: dict[int, _Choice] = {}
        self._chunks = 0
        self._sound = True

    def add(self, name: str, chunk: Any) -> None:
        """Take the data of an event."""
        if not isinstance(chunk, dict):
            self._sound = False
            return
        self._chunks += 1
        if name == "error" and "error" not in chunk:
            chunk = {"error": chunk, "choices": []}
        given = {name: value for name, value in chunk.items() if name != "choices"}
        self._around |= {name: value for name, value in given.items() if value is not None or name not in self._around}
        choices: Any = chunk.get("choices")
        fitting = [self._add_choice(choice) for choice in choices] if isinstance(choices, list) else [False]
        self._sound &= all(fitting)

    def _add_choice(self, part: Any) -> bool:
        """Take a choice of a chunk."""
        index = _index_in({"index": 0} | part) if isinstance(part, dict) else None
        return index is not None and self._choices.setdefault(index, _Choice()).add(part)

    def completion(self, *, done: bool) -> JSON:
        """Give what came as a completion; None when no chunk did."""
        sound = self._sound and done
        choices: list[JSON] = [self._choices[index].whole(index, sound=sound) for index in sorted(self._choices)]
        return {**self._around, "object": "chat.completion", "choices": choices} if self._chunks else None


def _index_in(part: Any) -> int | None:
    """Read the index of a choice or a call, a whole number from 0; None when it has none."""
    index = part.get("index") if isinstance(part, dict) else None
    return index if isinstance(index, int) and not isinstance(index, bool) and index >= 0 else None


def _settled(said: JSONObject, given: JSONObject) -> bool:
    """Keep what is said once; tell whether nothing contradicts what was said before."""
    agrees = True
    for name, value in given.items():
        agrees &= not value or said.get(name) in (None, "", value)
        said[name] = said.get(name) or value
    return agrees


def _gather(pieces: _Pieces, delta: JSONObject) -> None:
    """Put the pieces of a delta to those before them; null says nothing."""
    for name, value in delta.items():
        pieces.setdefault(name, []).extend([] if value is None else [value])


def _joined(pieces: _Pieces) -> JSONObject:
    """Join what came in pieces."""
    return {name: _whole(parts) for name, parts in pieces.items()}


def _whole(parts: list[JSON]) -> JSON:
    """Join texts, and lists; of anything else the first that is no text stands for all: it must not be overlooked."""
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) == len(parts):
        return "".join(texts) if parts else None
    lists = [part for part in parts if isinstance(part, list)]
    if len(lists) == len(parts):
        return [*chain.from_iterable(lists)]
    return next(part for part in parts if not isinstance(part, str))
