"""A streamed chat completion: its chunks are put together into a completion, or taken apart.

Putting together is strict: what the API does not send is a fault, with the code of its own kind.
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
"""What stands between a text that went out and the text of a later reply."""

BROKEN_OFF = "error"
"""The finish reason of a stream that ended without one, or without ``[DONE]``."""

_TEXT_MEMBERS = ("content", "refusal")
_NO_ANSWER = ("tool_calls", "function_call", "refusal")
_PIECE_MEMBERS = 2  # of a call that goes on: its index and its function


class ChatAssembly(Assembly):
    """The chunks of one stream so far, put together."""

    def __init__(self) -> None:
        super().__init__()
        self._around: JSONObject = {}
        self._choices: dict[int, _Choice] = {}

    def add(self, chunk: JSON) -> None:
        """Take one chunk."""
        self.is_piece = self._add_piece(chunk)
        if not self.is_piece:
            self._add_chunk(chunk)

    def _add_piece(self, chunk: JSON) -> bool:
        """Take a chunk that only goes on with a text, as nearly all do; return False for any other.

        It runs once for each token of a reply: exact types are asked for, which is fastest.
        """
        if type(chunk) is not dict or "error" in chunk:
            return False

        parts: Any = chunk.get("choices")
        if type(parts) is not list or len(parts) != 1:
            return False

        part = parts[0]
        first = self._choices.get(0)
        if first is None or first.reason is not None:
            return False
        if type(part) is not dict or part.get("index") != 0:
            return False
        if part.get("finish_reason") is not None or part.get("logprobs") is not None:
            return False

        delta = part.get("delta")
        if type(delta) is not dict:
            return False

        size = first.add_piece(delta)
        if size:
            self.delta = delta
            self.is_text_alone = "content" in delta
            self.size += size

        return size > 0

    def _add_chunk(self, chunk: JSON) -> None:
        """Take any chunk; ``fault`` reports what is wrong with it."""
        self.delta = {}
        self.is_text_alone = False
        if not isinstance(chunk, dict):
            expected = "a chunk of a stream, an object"
            self.refuse(Code.ENVELOPE_MALFORMED, "", expected=expected, found=quote(chunk))
            return

        self.is_over = bool(chunk.get("error"))
        _keep(self._around, chunk)

        parts: Any = chunk.get("choices")
        if not isinstance(parts, list):
            if not self.is_over:
                self.refuse(Code.ENVELOPE_CHOICES, "/choices", found=quote(parts))
            return

        for part in parts:
            index = _choice_index(part)
            if index is None:
                expected = "a choice with its index"
                found = quote(part)
                self.refuse(Code.ENVELOPE_MALFORMED, "/choices", expected=expected, found=found)
                return

            self._add_choice(index, part)

    def _add_choice(self, index: int, part: JSONObject) -> None:
        fault = self._choices.setdefault(index, _Choice()).add(part)
        if fault is not None:
            self.fault = self.fault or fault
            self.is_over = True
            return

        # more than one choice is refused at the end: only the first is counted and followed
        if index == 0:
            delta: Any = part["delta"]
            is_end = part.get("finish_reason") is not None
            self.delta = delta
            self.size += sum(map(len, _counted_texts(delta)))
            self.is_text_alone = not (is_end or any(delta.get(name) for name in _NO_ANSWER))

    @property
    def reason(self) -> JSON:
        """The finish reason, None as long as none came."""
        return self._choices[0].reason if 0 in self._choices else None

    def response(self, *, is_whole: bool = True) -> JSONObject:
        """Return the completion that the chunks make.

        Without its end, or not ``is_whole``, it is one that broke off.
        """
        sound = is_whole and self.is_done
        choices: list[JSON] = [
            self._choices[index].whole(index, sound=sound) for index in sorted(self._choices)
        ]
        around = {name: value for name, value in self._around.items() if name != "choices"}

        return {**around, "object": "chat.completion", "choices": choices}


def _choice_index(part: Any) -> int | None:
    """Return the index of a choice, 0 where it has none; None when it is not an index."""
    return _index_in({"index": 0} | part) if isinstance(part, dict) else None


def _index_in(part: Any) -> int | None:
    index = part.get("index") if isinstance(part, dict) else None
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        return None

    return index


def _counted_texts(delta: JSONObject) -> Iterator[str]:
    """Yield the texts of a delta whose sum is held to the cap of a reply."""
    for value in delta.values():
        if isinstance(value, str):
            yield value

    for call in delta.get("tool_calls") or ():
        yield from (text for text in call.get("function", {}).values() if isinstance(text, str))


def _keep(around: JSONObject, given: JSONObject) -> None:
    """Keep the last word on what every chunk repeats; null overwrites nothing."""
    for name, value in given.items():
        if value is not None or name not in around:
            around[name] = value


@dataclass(slots=True)
class _Member:
    """A member that comes in pieces.

    ``written`` joins the texts as they come, so that many take no more memory than one. ``others``
    are the pieces that are not texts.
    """

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
        """The texts joined, or the lists joined; None when no piece came.

        Where texts and other pieces are mixed, the first piece that is not a text is returned, so
        that the reply is refused.
        """
        if not self.others:
            return self.written.getvalue() if self.is_text else None

        if self.is_text or not all(isinstance(piece, list) for piece in self.others):
            return self.others[0]

        return list(chain.from_iterable(cast("Any", self.others)))


@dataclass(slots=True)
class _Pieces:
    """An object so far: its members that stand ``once``, and those that come in ``pieces``."""

    once: JSONObject = field(default_factory=dict[str, JSON])
    pieces: defaultdict[str, _Member] = field(default_factory=lambda: defaultdict(_Member))

    def add(self, delta: JSONObject, once_names: Container[str]) -> bool:
        """Take a delta; return whether it agrees with those before. Null and empty say nothing."""
        agrees = True
        for name, value in delta.items():
            if name in once_names:
                before = self.once.get(name)
                if value and before not in (None, "", value):
                    agrees = False

                self.once[name] = before or value
            else:
                self.pieces[name].add(value)

        return agrees

    @property
    def whole(self) -> JSONObject:
        return self.once | {name: member.whole for name, member in self.pieces.items()}


@dataclass(slots=True)
class _Call:
    around: _Pieces = field(default_factory=_Pieces)
    function: _Pieces = field(default_factory=_Pieces)

    def add(self, part: JSONObject) -> bool:
        """Take a delta; return whether it fits those before it."""
        function: Any = part.get("function", {})
        if not isinstance(function, dict):
            return False

        is_named = bool(self.function.once.get("name"))
        around = {name: part[name] for name in part if name not in {"index", "function"}}
        agrees = self.around.add(around, once_names=around)
        self.function.add(function, ("name",))

        if is_named:  # the name comes once
            return agrees and "name" not in function

        # no arguments come before the name
        return agrees and bool(function.get("name") or not function.get("arguments"))

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

    def add_piece(self, delta: JSONObject) -> int:
        """Take a delta that is one more piece of the content or of a call's arguments.

        Return its size, 0 when it is anything else.
        """
        if len(delta) != 1:
            return 0

        text = delta.get("content")
        if type(text) is str:
            self.message.pieces["content"].add(text)
            return len(text)

        calls: Any = delta.get("tool_calls")
        if type(calls) is not list or len(calls) != 1:
            return 0

        return self._add_call_piece(calls[0])

    def _add_call_piece(self, call: Any) -> int:
        if type(call) is not dict or len(call) != _PIECE_MEMBERS:
            return 0

        index = call.get("index")
        function = call.get("function")
        if type(function) is not dict or len(function) != 1:
            return 0
        if type(index) is not int or not 0 <= index < len(self.calls):
            return 0

        arguments = function.get("arguments")
        so_far = self.calls[index].function
        if type(arguments) is not str or "name" not in so_far.once:
            return 0

        so_far.pieces["arguments"].add(arguments)
        return len(arguments)

    def add(self, part: JSONObject) -> Issue | None:
        """Take a choice of a chunk; return what is wrong with it, None when nothing is."""
        _keep(self.around, {name: part[name] for name in part if name != "logprobs"})
        if isinstance(part.get("logprobs"), dict):
            self.logprobs.add(part["logprobs"], ())

        delta: Any = part.get("delta")
        if not isinstance(delta, dict):
            expected = "an object as delta"
            found = quote(delta)
            return Issue.of(Code.ENVELOPE_MALFORMED, "/choices/0", expected=expected, found=found)

        reason = part.get("finish_reason")
        says_more = reason is not None or any(delta[name] for name in delta if name != "role")
        is_late = self.reason is not None and says_more
        if reason is not None:
            self.reason = reason

        # also what is late belongs to the reply that the attempt shows
        members = {name: delta[name] for name in delta if name != "tool_calls"}
        agrees = self.message.add(members, ("role",))
        if is_late:
            expected = "nothing after its finish_reason"
            return Issue.of(Code.ENVELOPE_MALFORMED, "/choices/0", expected=expected)
        if not agrees:  # only the role comes once
            return Issue.of(Code.REPLY_ROLE, "/role", found=quote(delta["role"]))

        return self._add_delta(delta)

    def _add_delta(self, delta: JSONObject) -> Issue | None:
        for name in _TEXT_MEMBERS:
            text = delta.get(name)
            if not isinstance(text, str | None):
                return Issue.of(Code.REPLY_CONTENT, "/content", found=quote(text))

        calls: Any = delta.get("tool_calls") or []
        if not isinstance(calls, list):
            expected = "in an array"
            found = quote(calls)
            return Issue.of(Code.CALL_MALFORMED, "/tool_calls", expected=expected, found=found)

        for call in calls:
            fault = self._add_call(call)
            if fault is not None:
                return fault

        return None

    def _add_call(self, part: Any) -> Issue | None:
        # the index is that of a call so far, or of the next one
        index = _index_in(part)
        if index == len(self.calls):
            self.calls.append(_Call())

        if index is not None and index < len(self.calls):
            fits = self.calls[index].add(part)
            if fits:
                return None

        at = pointer("/tool_calls", len(self.calls) if index is None else index)
        expected = "pieces of one call under one index"
        return Issue.of(Code.CALL_MALFORMED, at, expected=expected, found=quote(part))

    def whole(self, index: int, *, sound: bool) -> JSONObject:
        """Return the choice as that of a completion; one that is not ``sound`` broke off."""
        message: JSONObject = {"role": "assistant", "content": None} | self.message.whole
        if self.calls:
            message["tool_calls"] = [call.whole for call in self.calls]

        around = {
            name: value for name, value in self.around.items() if name not in {"index", "delta"}
        }
        around["logprobs"] = self.logprobs.whole or None
        reason = self.reason if sound and self.reason else BROKEN_OFF

        return {**around, "index": index, "message": message, "finish_reason": reason}


class ChatSent:
    """How much of a completion has been passed on as chunks.

    ``usage``: the caller wants a chunk with the usage at the end.
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
        """Take a chunk that is passed on: it holds some text of the answer, or no choice."""
        chunk: Any = event
        text = chunk["choices"][0]["delta"].get("content") if chunk["choices"] else None
        if text:
            self._text.write(text)

        if not self._around:
            names = ("id", "created", "model")
            self._around = {name: chunk[name] for name in names if name in chunk}

    def rest(self, response: JSONObject, came: JSONObject | None) -> Iterator[JSONObject]:
        """Yield the chunks that are left of an accepted completion.

        See :class:`~strictreply.wires._opening.SentSoFar`.
        """
        completion = response
        sent = self.text
        if sent:
            (choice,) = response["choices"]
            as_it_came = None if came is None else came["choices"][0]["message"]["content"]
            content = _content_behind(sent, choice["message"], as_it_came)
            message = choice["message"] | {"content": content}
            completion = response | self._around | {"choices": [choice | {"message": message}]}

        return chunks_of(completion, sent=sent, usage=self._usage)


def _content_behind(sent: str, message: JSONObject, as_it_came: Any) -> Any:
    """Return the content of a message as it stands behind a text that was sent.

    ``as_it_came`` is the content of the same stream with its thoughts; None when the accepted
    message is of another stream, or without content.
    """
    content: Any = message.get("content") if as_it_came is None else as_it_came
    if not content:
        return sent
    if not isinstance(content, str) or content.startswith(sent):
        return content

    # the message is of a later reply: beside its calls the text that was sent is enough
    if message.get("tool_calls"):
        return sent

    return f"{sent}{BETWEEN_TEXTS}{content}"


def chunks_of(
    completion: JSONObject, *, sent: str = "", usage: bool = False
) -> Iterator[JSONObject]:
    """Yield a valid completion as chunks, without the beginning of its text that was ``sent``.

    With ``usage`` the last chunk holds the usage.
    """
    choice = completion["choices"][0]
    around = {name: value for name, value in completion.items() if name not in {"choices", "usage"}}
    around["object"] = "chat.completion.chunk"

    for delta in _deltas(choice["message"], sent):
        yield around | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}

    elsewhere = {"message", "finish_reason", "index"}
    if sent:
        elsewhere.add("logprobs")  # they came with the text

    last = {name: value for name, value in choice.items() if name not in elsewhere}
    last |= {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield around | {"choices": [last]}

    if usage:
        yield around | {"choices": [], "usage": completion.get("usage")}


def _deltas(message: JSONObject, sent: str) -> Iterator[JSONObject]:
    content = message.get("content")
    left = content[len(sent) :] if isinstance(content, str) else content
    if not sent:
        first = {name: value for name, value in message.items() if name != "tool_calls"}
        yield first | {"content": left}
    elif left:
        yield {"content": left}

    for index, call in enumerate(message.get("tool_calls") or ()):
        arguments = call["function"]["arguments"]
        opening = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        yield {"tool_calls": [opening]}
        yield {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}
