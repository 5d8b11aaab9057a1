"""How the kit writes chat completions: the form of its scripts, sent unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from strictreply.core import JSON, JSONObject
from strictreply.testing._wire import CHAT, ServedError, member
from strictreply.testing._writer import BaseWriter

event: Callable[[JSON], bytes] = CHAT.event_bytes
DONE: bytes = CHAT.end_bytes
PIECES = 4  # of a text at most, however long it is


def events(completion: JSON, *, usage: bool = False) -> tuple[bytes, ...]:
    """Write a completion, or what is not a completion, as the events of a stream.

    ``usage`` adds the chunk that ``include_usage`` asks for.
    """
    return (*map(event, chunks(completion, usage=usage)), DONE)


def chunks(completion: JSON, *, usage: bool = False) -> Iterator[JSON]:
    """Take a completion apart into ``chat.completion.chunk`` objects; see :func:`events`."""
    choices: Any = member(completion, "choices")
    listed = choices if isinstance(choices, list) else []
    has_messages = bool(listed) and all(isinstance(member(one, "message"), dict) for one in listed)
    if not (isinstance(completion, dict) and has_messages):
        yield completion
        return

    around: JSONObject = {
        name: value for name, value in completion.items() if name not in {"choices", "usage"}
    }
    around["object"] = "chat.completion.chunk"
    if usage:
        around["usage"] = None

    for choice in listed:
        index: JSONObject = {"index": choice["index"]} if "index" in choice else {}
        for delta in _deltas(choice["message"]):
            first = {**index, "delta": delta, "logprobs": None, "finish_reason": None}
            yield {**around, "choices": [first]}

        ended: JSONObject = {name: value for name, value in choice.items() if name != "message"}
        ended["delta"] = {}
        yield {**around, "choices": [ended]}

    if usage and "usage" in completion:
        yield around | {"choices": [], "usage": completion["usage"]}


def _deltas(message: JSONObject) -> Iterator[JSONObject]:
    texts = {
        name: message[name] for name in ("content", "refusal") if isinstance(message.get(name), str)
    }
    listed: Any = message.get("tool_calls")
    calls: list[JSON] = listed if isinstance(listed, list) else []

    yield {
        name: "" if name in texts else value
        for name, value in message.items()
        if not (calls and value is calls)
    }

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


def wrong_model(body: JSONObject) -> ServedError | None:
    """Return the error for a request without a model; None if it names one."""
    if isinstance(body.get("model"), str):
        return None

    return ServedError(400, "'model' must be a string", param="model", code="invalid_type")


class ChatWriter(BaseWriter):
    """The server of chat completions."""

    def refusal(self, body: JSONObject) -> ServedError | None:
        """Return why the server refuses the body of a request; None if it does not."""
        messages: Any = body.get("messages")
        if error := wrong_model(body):
            return error
        if (
            isinstance(messages, list)
            and messages
            and all(isinstance(one, dict) for one in messages)
        ):
            return None

        words = "'messages' must be a list of objects, at least one"
        return ServedError(400, words, param="messages")

    def asked(self, body: JSONObject) -> JSONObject:
        """Return the request itself."""
        return body

    def written(self, served: JSON, body: JSONObject) -> JSON:  # noqa: ARG002 - it is written
        """Return what is served itself."""
        return served

    def events(self, response: JSON, body: JSONObject) -> Iterable[JSON]:
        """Take a completion apart into its chunks."""
        return chunks(response, usage=bool(member(body.get("stream_options"), "include_usage")))


CHAT_WRITER = ChatWriter(CHAT)
