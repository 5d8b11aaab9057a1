"""A streamed chat completion: its chunks put together, where what the API does not send is a fault.

Or taken apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from io import StringIO
from itertools import chain
from typing import Any, cast

from strictreply.values._issues import Code, Issue, pointer, quote
from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._opening import Assembly

BETWEEN_TEXTS = "\n\n"

BROKEN_OFF = "error"
"""The finish reason of a stream that ended without one, or without ``[DONE]``: it must not pass for whole."""

_TEXTS = ("content", "refusal")
_NO_TEXT = ("tool_calls", "function_call", "refusal")
_GOING_ON = 2  # members of a call that goes on: its index and its function


class ChatAssembly(Assembly):
    """The chunks of one stream so far."""

    def __init__(self) -> None:
        super().__init__()
        self._around: JSONObject = {}
        self._choices: dict[int, _Choice] = {}

    def add(self, chunk: JSON) -> None:
        """Take one chunk."""
        self.is_piece = self._add_usual(chunk)
        if not self.is_piece:
            self._add(chunk)

    def _add_usual(self, chunk: JSON) -> bool:
        """Take a chunk that only goes on with a text, as nearly all do; False for any other."""
        parts: Any = chunk.get("choices") if type(chunk) is dict and "error" not in chunk else None
        part = parts[0] if type(parts) is list and len(parts) == 1 else None

        first = self._choices.get(0)
        if (
            first is None
            or first.reason is not None
            or type(part) is not dict
            or part.get("index") != 0
        ):
            return False

        delta = part.get("delta")
        if (
            part.get("finish_reason") is not None
            or part.get("logprobs") is not None
            or type(delta) is not dict
        ):
            return False

        if size := first.goes_on(delta):
            self.delta = delta
            self.is_text_alone = "content" in delta
            self.size += size

        return size > 0

    def _add(self, chunk: JSON) -> None:
        self.delta = {}
        self.is_text_alone = False

        if not isinstance(chunk, dict):
            self.refuse(
                Code.ENVELOPE_MALFORMED,
                "",
                expected="a chunk of a stream, an object",
                found=quote(chunk),
            )
            return

        self.is_over = bool(chunk.get("error"))
        _keep(self._around, chunk)

        parts: Any = chunk.get("choices")
        if not isinstance(parts, list) and not self.is_over:
            self.refuse(Code.ENVELOPE_CHOICES, "/choices", found=quote(parts))

        for part in parts if isinstance(parts, list) else ():
            index = _index_in({"index": 0} | part) if isinstance(part, dict) else None
            if index is None:
                self.refuse(
                    Code.ENVELOPE_MALFORMED,
                    "/choices",
                    expected="a choice with its index",
                    found=quote(part),
                )
                return

            fault = self._choices.setdefault(index, _Choice()).add(part)
            self.fault = self.fault or fault
            self.is_over |= fault is not None

            if fault is None and index == 0:
                self.delta, is_end = part["delta"], part.get("finish_reason") is not None
                self.size += sum(map(len, _texts(self.delta)))
                self.is_text_alone = not (is_end or any(self.delta.get(one) for one in _NO_TEXT))

    @property
    def reason(self) -> JSON:
        """The finish reason, None as long as none came."""
        return self._choices[0].reason if 0 in self._choices else None

    def response(self, *, is_whole: bool = True) -> JSONObject:
        """Return the completion that the chunks make.

        Without its end, or not ``is_whole``, as one broken off.
        """
        sound = is_whole and self.is_done
        choices: list[JSON] = [
            self._choices[index].whole(index, sound=sound) for index in sorted(self._choices)
        ]
        around = {name: value for name, value in self._around.items() if name != "choices"}
        return {**around, "object": "chat.completion", "choices": choices}


def _index_in(part: Any) -> int | None:
    index = part.get("index") if isinstance(part, dict) else None
    return index if isinstance(index, int) and not isinstance(index, bool) and index >= 0 else None


def _texts(delta: JSONObject) -> Iterator[str]:
    """Yield the texts of a delta whose sum is held to the cap of a reply."""
    for value in delta.values():
        if isinstance(value, str):
            yield value
    for call in delta.get("tool_calls") or ():
        yield from (one for one in call.get("function", {}).values() if isinstance(one, str))


def _keep(around: JSONObject, given: JSONObject) -> None:
    """Keep the last word on what every chunk repeats; null overwrites nothing."""
    around |= {
        name: value for name, value in given.items() if value is not None or name not in around
    }


@dataclass(slots=True)
class _Member:
    """A member that comes in pieces: ``written`` joins the texts as they come, so that many take no more than one."""

    written: StringIO = field(default_factory=StringIO)
    is_text: bool = False
    others: list[JSON] = field(default_factory=list[JSON])

    def add(self, piece: JSON) -> None:
        if isinstance(piece, str):
            self.is_text = True
            self.written.write(piece)
        elif piece is not None:
            self.others.append(piece)

    @property
    def whole(self) -> JSON:
        """Texts and lists are joined.

        Of anything else the first that is no text stands for all, to be noticed.
        """
        if not self.others:
            return self.written.getvalue() if self.is_text else None
        if self.is_text or not all(isinstance(one, list) for one in self.others):
            return self.others[0]
        return [*chain.from_iterable(cast("Any", self.others))]


@dataclass(slots=True)
class _Pieces:
    """An object so far: members that stand once, and members that come in pieces."""

    said: JSONObject = field(default_factory=dict[str, JSON])
    pieces: defaultdict[str, _Member] = field(default_factory=lambda: defaultdict(_Member))

    def add(self, delta: JSONObject, once: Container[str]) -> bool:
        """Take a delta.

        Return whether nothing contradicts what was said before. Null says nothing.
        """
        agrees = True
        for name, value in delta.items():
            if name in once:
                agrees &= not value or self.said.get(name) in (None, "", value)
                self.said[name] = self.said.get(name) or value
            else:
                self.pieces[name].add(value)
        return agrees

    @property
    def whole(self) -> JSONObject:
        return self.said | {name: member.whole for name, member in self.pieces.items()}


@dataclass(slots=True)
class _Call:
    around: _Pieces = field(default_factory=_Pieces)
    function: _Pieces = field(default_factory=_Pieces)

    def add(self, part: JSONObject) -> bool:
        """Take a delta; return whether it fits what was said before."""
        function: Any = part.get("function", {})
        if not isinstance(function, dict):
            return False

        named = self.function.said.get("name")
        agrees = self.around.add(
            {name: part[name] for name in part if name not in {"index", "function"}}, part
        )
        self.function.add(function, ("name",))
        fits = (
            "name" not in function
            if named
            else bool(function.get("name") or not function.get("arguments"))
        )

        return agrees and fits

    @property
    def whole(self) -> JSONObject:
        return {"type": "function"} | self.around.whole | {"function": self.function.whole}


@dataclass(slots=True)
class _Choice:
    around: JSONObject = field(default_factory=dict[str, JSON])
    message: _Pieces = field(default_factory=_Pieces)
    calls: list[_Call] = field(default_factory=list[_Call])
    logprobs: _Pieces = field(default_factory=_Pieces)
    reason: JSON = None

    def goes_on(self, delta: JSONObject) -> int:
        """Take a delta that is one more piece of the content or of a call's arguments.

        Return its size, 0 for none.
        """
        if len(delta) != 1:
            return 0
        if type(text := delta.get("content")) is str:
            self.message.pieces["content"].add(text)
            return len(text)
        return self._call_goes_on(delta.get("tool_calls"))

    def _call_goes_on(self, calls: Any) -> int:
        call = calls[0] if type(calls) is list and len(calls) == 1 else None
        function = call.get("function") if type(call) is dict and len(call) == _GOING_ON else None

        index = call["index"] if type(call) is dict and "index" in call else None
        if type(function) is not dict or type(index) is not int or not 0 <= index < len(self.calls):
            return 0

        arguments = function.get("arguments")
        if (
            len(function) != 1
            or type(arguments) is not str
            or "name" not in self.calls[index].function.said
        ):
            return 0

        self.calls[index].function.pieces["arguments"].add(arguments)
        return len(arguments)

    def add(self, part: JSONObject) -> Issue | None:
        """Take a choice of a chunk; return what is wrong with it."""
        reason = part.get("finish_reason")
        delta = cast("Any", part.get("delta"))
        _keep(self.around, {name: part[name] for name in part if name != "logprobs"})

        if isinstance(part.get("logprobs"), dict):
            self.logprobs.add(part["logprobs"], ())

        if not isinstance(delta, dict):
            return Issue.of(
                Code.ENVELOPE_MALFORMED,
                "/choices/0",
                expected="an object as delta",
                found=quote(delta),
            )

        more = reason is not None or any(delta[name] for name in delta if name != "role")
        late = self.reason is not None and more  # nothing may come behind a finish reason
        self.reason = self.reason if reason is None else reason
        agrees = self.message.add(
            {name: delta[name] for name in delta if name != "tool_calls"}, ("role",)
        )

        if late:
            return Issue.of(
                Code.ENVELOPE_MALFORMED, "/choices/0", expected="nothing after its finish_reason"
            )

        return (
            self._add_delta(delta)
            if agrees
            else Issue.of(Code.REPLY_ROLE, "/role", found=quote(delta["role"]))
        )

    def _add_delta(self, delta: JSONObject) -> Issue | None:
        strange = next(
            (delta[name] for name in _TEXTS if not isinstance(delta.get(name), str | None)), None
        )
        if strange is not None:
            return Issue.of(Code.REPLY_CONTENT, "/content", found=quote(strange))

        parts: Any = delta.get("tool_calls") or []
        if not isinstance(parts, list):
            return Issue.of(
                Code.CALL_MALFORMED, "/tool_calls", expected="in an array", found=quote(parts)
            )

        return next((fault for one in parts if (fault := self._add_call(one)) is not None), None)

    def _add_call(self, part: Any) -> Issue | None:
        index = _index_in(part)  # that of a call so far, or of the next one
        if index == len(self.calls):
            self.calls.append(_Call())

        if index is not None and index < len(self.calls) and self.calls[index].add(part):
            return None

        at = pointer("/tool_calls", len(self.calls) if index is None else index)
        return Issue.of(
            Code.CALL_MALFORMED,
            at,
            expected="pieces of one call under one index",
            found=quote(part),
        )

    def whole(self, index: int, *, sound: bool) -> JSONObject:
        message: JSONObject = {"role": "assistant", "content": None} | self.message.whole

        if self.calls:
            message["tool_calls"] = [call.whole for call in self.calls]

        reason = self.reason if sound and self.reason else BROKEN_OFF
        around = {
            name: value for name, value in self.around.items() if name not in {"index", "delta"}
        }
        around["logprobs"] = self.logprobs.whole or None

        return {**around, "index": index, "message": message, "finish_reason": reason}


class ChatSent:
    """How much of a completion has been passed on as chunks.

    ``usage`` says that a chunk with the usage is wanted.
    """

    def __init__(self, usage: bool) -> None:
        self._usage = usage
        self._text = StringIO()
        self._around: JSONObject = {}

    @property
    def text(self) -> str:
        """The text of the content that was passed on."""
        return self._text.getvalue()

    def add(self, event: JSON) -> None:
        """Take a chunk that is passed on: it holds nothing but text."""
        chunk: Any = event
        text = chunk["choices"][0]["delta"].get("content") if chunk["choices"] else None
        if text:
            self._text.write(text)
        if not self._around:
            self._around = {
                name: chunk[name] for name in ("id", "created", "model") if name in chunk
            }

    def rest(self, response: JSONObject, came: JSONObject | None) -> Iterator[JSONObject]:
        """Yield the chunks left of an accepted completion.

        See :class:`~strictreply.wires._opening.SentSoFar`.
        """
        completion = response
        sent = self.text
        if sent:
            (choice,) = response["choices"]
            whole = None if came is None else came["choices"][0]["message"]["content"]
            message = choice["message"] | {"content": _behind(sent, choice["message"], whole)}
            completion = response | self._around | {"choices": [choice | {"message": message}]}
        return chunks_of(completion, sent=sent, usage=self._usage)


def _behind(sent: str, message: JSONObject, whole: Any) -> str:
    """Return the content of a message as it stands behind a text.

    ``whole`` is it as it came, thoughts included.
    """
    text: Any = message.get("content") if whole is None else whole
    if not isinstance(text, str) or not text or text.startswith(sent):
        return text or sent
    return sent if message.get("tool_calls") else f"{sent}{BETWEEN_TEXTS}{text}"


def chunks_of(
    completion: JSONObject, *, sent: str = "", usage: bool = False
) -> Iterator[JSONObject]:
    """Take a valid completion apart into chunks, behind a text of it that was ``sent``.

    ``usage`` adds that chunk.
    """
    choice = completion["choices"][0]
    message: JSONObject = choice["message"]
    around = {name: value for name, value in completion.items() if name not in {"choices", "usage"}}
    around["object"] = "chat.completion.chunk"

    said = {"message", "finish_reason", "index"} | (
        {"logprobs"} if sent else set()
    )  # they came with the text
    beside = {name: value for name, value in choice.items() if name not in said}

    for delta in _deltas(message, sent):
        yield around | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}

    yield around | {
        "choices": [{**beside, "index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]
    }

    if usage:
        yield around | {"choices": [], "usage": completion.get("usage")}


def _deltas(message: JSONObject, sent: str) -> Iterator[JSONObject]:
    content = message.get("content")
    left = content[len(sent) :] if isinstance(content, str) else content
    first = {name: value for name, value in message.items() if name != "tool_calls"} | {
        "content": left
    }

    if not sent:
        yield first
    elif left:
        yield {"content": left}

    for index, call in enumerate(message.get("tool_calls") or ()):
        opening = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        yield {"tool_calls": [opening]}
        yield {
            "tool_calls": [
                {"index": index, "function": {"arguments": call["function"]["arguments"]}}
            ]
        }
