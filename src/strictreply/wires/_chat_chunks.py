"""A completion as chunks: what of it has been passed on, and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._dialects import text_in

BETWEEN_TEXTS = "\n\n"
"""What stands between a text that went out and the text of a later reply."""


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
    if isinstance(content, list):
        content = text_in(content)
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
