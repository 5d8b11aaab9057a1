"""Writes a completion as chunks, after the part that the caller already has.

Held chunks are released as the server sent them if they are not judged: the chunks from the finish
reason on, including a usage, and members next to held calls. Texts and calls are those of the
accepted reply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import StringIO
from itertools import groupby
from typing import Any

from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._dialects import is_blank, text_in, thoughts_in
from strictreply.wires._members import peek

BETWEEN_TEXTS = "\n\n"
"""The separator between a text that the caller already has and the text of a later reply."""

_KIND = {"object": "chat.completion.chunk"}
_NAMES = ("id", "created", "model")

# these are released only with the values of the accepted reply
_JUDGED = ("tool_calls", "function_call", "refusal")
_OF_A_CHOICE = frozenset({"index", "delta", "message", "finish_reason"})


class ContentParts(list[Any]):
    """A content that is a list of texts and thoughts, for callers who accept such lists.

    Added to a text, it is its own text, so that programs that join deltas still work.
    """

    def __radd__(self, before: str) -> str:
        """Return a text followed by the text of the parts."""
        return before + (text_in(self) or "")


@dataclass(slots=True)
class _Held:
    """The chunks that are held of one stream."""

    first: JSONObject = field(default_factory=dict[str, JSON])
    """The members around its first choice."""
    before: dict[int, JSONObject] = field(default_factory=dict[int, JSONObject])
    """The chunks with more than a text and calls, by the identity of each."""
    ends: list[JSONObject] = field(default_factory=list[JSONObject])
    """The chunks from the finish reason on."""
    has_usage: bool = False
    """Whether the chunk with the usage had a choice."""
    told: JSONObject = field(default_factory=dict[str, JSON])
    """The members around the chunks without a choice."""

    def add(self, chunk: JSONObject, *, is_behind_text: bool) -> None:
        """Add a chunk."""
        choices: Any = chunk.get("choices") or ()
        if choices:
            self.first = self.first or _around(chunk)
            self.has_usage |= bool(chunk.get("usage"))

        if self.ends or any(one.get("finish_reason") for one in choices):
            self.ends.append(chunk)
        elif not choices:
            self.told |= _around(chunk)
            self.before[id(chunk)] = chunk
        elif is_behind_text and not all(map(_says_nothing, choices)):
            self.before[id(chunk)] = chunk


class ChatSent:
    """The part of a completion that was passed on as chunks.

    ``usage`` says whether the caller wants a chunk with the usage at the end.
    """

    def __init__(self, usage: bool) -> None:
        self._wants_usage = usage
        self._text = StringIO()
        self._names: JSONObject = {}
        self._held = _Held()

    @property
    def text(self) -> str:
        """The text of the content that was passed on."""
        return self._text.getvalue()

    def begin(self) -> None:
        """Start another stream; chunks held of the last one are discarded."""
        self._held = _Held()

    def told_id(self, response: JSONObject) -> JSON:  # noqa: ARG002
        """Return None, because requests never name a completion."""
        return None

    def add(self, event: JSON) -> None:
        """Record a chunk that is passed on: it has some text of the answer, or no choice.

        It runs once for each token of a reply, so it compares exact types, which is fastest.
        """
        chunk: Any = event
        choices = chunk["choices"]
        for choice in choices:
            delta = choice.get("delta")
            content = delta.get("content") if type(delta) is dict else None
            text = content if type(content) is str else text_in(content)
            if text:
                self._text.write(text)

        if choices and not self._names:
            self._names = {name: chunk[name] for name in _NAMES if name in chunk}

        if self._held.before:
            self._held.before.pop(id(chunk), None)

    def hold(self, event: JSON) -> None:
        """Record a chunk that is held back; keep its members that are not judged."""
        chunk: Any = event
        # strictreply requests a chunk with only the usage, even if the caller does not
        is_usage = chunk.get("usage") or ("usage" in chunk and self._held.ends)
        if self._wants_usage or chunk.get("choices") or not is_usage:
            self._held.add(chunk, is_behind_text=self._text.tell() > 0)

    def rest(self, response: JSONObject, came: JSONObject | None) -> Iterator[JSONObject]:
        """Yield the remaining chunks of an accepted completion.

        See :class:`~strictreply.wires._wire.SentSoFar`.
        """
        sent = self.text
        names = self._names if sent else {}
        completion = response | names
        (choice,) = response["choices"]
        if sent:
            as_it_came = None if came is None else came["choices"][0]["message"]["content"]
            content = _content_behind(sent, choice["message"], as_it_came)
            choice = choice | {"message": choice["message"] | {"content": content}}

        for chunk in self._held.before.values():
            if came is not None or not chunk["choices"]:
                yield chunk | names | {"choices": list(map(_left_of, chunk["choices"]))}

        ends = self._ends(choice, completion, is_same=came is not None)
        yield from self._made(choice, completion, sent, ends)
        for end in ends:
            yield end | names

        usage = completion.get("usage")
        held = (*self._held.before.values(), *ends)
        if self._wants_usage and usage and not _is_told("usage", held):
            yield self._around(completion) | {"choices": [], "usage": usage}

    def _made(
        self, choice: JSONObject, completion: JSONObject, sent: str, ends: list[JSONObject]
    ) -> Iterator[JSONObject]:
        """Yield chunks of the accepted message, with its end if no end is held.

        The first one has the members that no other chunk has.
        """
        around = self._around(completion)
        beside = {name: value for name, value in choice.items() if name not in _OF_A_CHOICE}
        if sent:
            beside.pop("logprobs", None)  # they were sent with the text

        first = around
        first_beside: JSONObject = {}
        if ends and not sent:
            told = [one for end in ends for one in end["choices"]]
            first_beside = {name: beside[name] for name in beside if not _is_told(name, told)}
            before = self._held.told
            others = {
                name: value
                for name, value in completion.items()
                if not _is_told(name, ends) and not (value and before.get(name) == value)
            }
            first = _around(others) | self._held.first

        for delta in _deltas(choice["message"], sent):
            part = {"index": 0, "delta": delta, "finish_reason": None} | first_beside
            yield first | {"choices": [part]}
            first = around
            first_beside = {}

        if not ends:
            part = beside | {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
            yield around | {"choices": [part]}

    def _around(self, completion: JSONObject) -> JSONObject:
        """Return the members that are around each chunk of a completion."""
        last = _around(completion)
        first = self._held.first or last
        ends = [end for end in self._held.ends if end["choices"]]
        steady = {
            name: last[name]
            for name in first
            if name in last and last[name] == first[name] and all(name in end for end in ends)
        }
        return {name: last[name] for name in _NAMES if name in last} | steady | _KIND

    def _ends(
        self, choice: JSONObject, completion: JSONObject, *, is_same: bool
    ) -> list[JSONObject]:
        """Return the chunks from the finish reason on, in the form of the API.

        ``is_same`` says that they are of the stream whose text was passed on.
        """
        usage = completion.get("usage")
        ends: list[JSONObject] = []
        last: JSONObject = {}
        for chunk in self._held.ends:
            choices: list[JSON] = []
            for one in chunk["choices"]:
                left = _left_of(one) if is_same else _without_message(one)
                last = left | {"finish_reason": None}
                choices.append(last)

            ends.append(chunk | {"choices": choices})

        last["finish_reason"] = choice["finish_reason"]

        with_usage = [end for end in ends if end.get("usage")]
        if with_usage:
            with_usage[-1]["usage"] = usage
        elif ends and self._held.has_usage and not self._text.tell():
            ends[0]["usage"] = usage

        return ends


def _around(completion: JSONObject) -> JSONObject:
    return {name: completion[name] for name in completion if name not in {"choices", "usage"}}


def _is_told(name: str, holders: Iterable[JSONObject]) -> bool:
    return any(not is_blank(holder.get(name)) for holder in holders)


def _says_nothing(choice: JSONObject) -> bool:
    """Return whether a choice has only what its accepted reply has, too."""
    left = _left_of(choice)
    delta: JSONObject = left.pop("delta")
    return is_blank(delta | {"role": None}) and is_blank(left | {"index": None})


def _left_of(choice: JSONObject) -> JSONObject:
    """Return a choice without its text and its calls."""
    delta: Any = choice.get("delta") or {}
    left = {name: value for name, value in delta.items() if not (value and name in _JUDGED)}
    content = left.get("content")
    if content:
        thoughts = thoughts_in(content)
        left["content"] = ContentParts(thoughts) if thoughts else ""

    # a message with calls would show them before they are judged
    has_calls = any(peek(choice.get("message"), name) for name in _JUDGED)
    kept = {name: choice[name] for name in choice if name != "message" or not has_calls}
    return kept | {"index": 0, "delta": left}


def _without_message(choice: JSONObject) -> JSONObject:
    """Return only the end in a choice."""
    others = {name: value for name, value in choice.items() if name not in _OF_A_CHOICE}
    others.pop("logprobs", None)
    return {"index": 0, "delta": {}} | others


def _content_behind(sent: str, message: JSONObject, as_it_came: object) -> object:
    """Return the content of a message after a text that was sent.

    ``as_it_came`` is the content of the same stream with its thoughts; None if the accepted message
    is of another stream, or without content.
    """
    content: Any = message.get("content") if as_it_came is None else as_it_came
    if isinstance(content, list):
        content = text_in(content)
    if not content:
        return sent
    if not isinstance(content, str) or content.startswith(sent):
        return content

    # a message of a later reply with calls: the text that was sent is enough
    if message.get("tool_calls"):
        return sent

    return f"{sent}{BETWEEN_TEXTS}{content}"


def _deltas(message: JSONObject, sent: str) -> Iterator[JSONObject]:
    """Yield the deltas of a message without the start of its text that was ``sent``."""
    contents = _contents(message.get("content"))
    if sent:
        left = contents[0][len(sent) :] if isinstance(contents[0], str) else None
        if left:
            yield {"content": left}
    else:
        first = {name: value for name, value in message.items() if name != "tool_calls"}
        yield first | {"content": contents[0]}
        for content in contents[1:]:
            yield {"content": content}

    for index, call in enumerate(message.get("tool_calls") or ()):
        arguments = call["function"]["arguments"]
        opening = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        yield {"tool_calls": [opening]}
        yield {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}


def _contents(content: JSON) -> list[JSON]:
    """Return a content in the form of several deltas: texts, and lists of thoughts.

    A text comes first, because the SDK's own ``stream`` joins only texts, and the first one
    decides.
    """
    if not isinstance(content, list):
        return [content]

    contents: list[JSON] = [""]
    for is_text, parts in groupby(content, lambda part: peek(part, "type") == "text"):
        listed = list(parts)
        contents.append(text_in(listed) if is_text else ContentParts(listed))

    return contents
