"""A responder for the Messages API that refuses the conversations that Claude refuses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from threading import Lock
from typing import Any

from strictreply.core import JSONObject
from strictreply.testing._serving import KitRequest
from strictreply.testing._wire import Responder, Served, error_reply, member

_EMPTY = (
    "messages.{at}: all messages must have non-empty content except for the optional final "
    "assistant message"
)
_EMPTY_TEXT = "messages: text content blocks must be non-empty"
_INPUT = "messages.{at}.content.{block}.tool_use.input: Input should be a valid dictionary"
_NOT_UNIQUE = "messages.{at}.content.{block}: `tool_use` ids must be unique"
_UNANSWERED = (
    "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
    "{ids}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
    "message."
)
_UNCALLED = (
    "messages.{at}.content.{block}: unexpected `tool_use_id` found in `tool_result` blocks: {ids}. "
    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
)
_FORCED = "Thinking may not be enabled when tool_choice forces tool use."


class ClaudeRules:
    """Answers 400, in Anthropic's words, to a request that breaks a rule of the Messages API.

    It checks these rules of a conversation: every call is answered in the next turn; the results
    come first in that turn; ids are unique; an input is an object; no text and no message is empty;
    no call is forced together with manual thinking.

    All other requests, and those of other APIs, are passed to ``responder``. Threads may share it.
    """

    def __init__(self, responder: Responder) -> None:
        self.refused: list[str] = []
        """The message of each 400 so far."""
        self._responder = responder
        self._lock = Lock()

    def __call__(self, request: JSONObject) -> Served:
        """Answer a request; a :data:`Responder`."""
        words: str | None = None
        if isinstance(request, KitRequest) and request.api == "messages":
            words = next(_broken(request.sent), None)
        if words is None:
            return self._responder(request)

        with self._lock:
            self.refused.append(words)

        return error_reply(400, words)


def _broken(body: JSONObject) -> Iterator[str]:
    """Yield a message for each rule that a request breaks."""
    messages: list[Any] = body["messages"]
    ids: set[object] = set()
    for at, message in enumerate(messages):
        yield from _in_message(at, message, ids, is_last=at == len(messages) - 1)

    yield from _unpaired(messages)

    is_forced = member(body.get("tool_choice"), "type") in ("any", "tool")
    if is_forced and member(body.get("thinking"), "type") == "enabled":
        yield _FORCED


def _in_message(at: int, message: Any, ids: set[object], *, is_last: bool) -> Iterator[str]:
    is_open = is_last and message.get("role") == "assistant"
    if not message.get("content") and not is_open:
        yield _EMPTY.format(at=at)

    for place, block in enumerate(_blocks(message)):
        kind = member(block, "type")
        if kind == "text" and not member(block, "text"):
            yield _EMPTY_TEXT
        if kind != "tool_use":
            continue

        if not isinstance(member(block, "input"), dict):
            yield _INPUT.format(at=at, block=place)
        if member(block, "id") in ids:
            yield _NOT_UNIQUE.format(at=at, block=place)

        ids.add(member(block, "id"))


def _unpaired(messages: list[Any]) -> Iterator[str]:
    """Yield a message for calls and results that do not match.

    Consecutive turns of the same role count as one.
    """
    before: list[Any] = []  # the ids of the calls in the turn before
    called_at = 0
    numbered = enumerate(messages)
    for role, turn in groupby(numbered, key=lambda one: one[1].get("role")):
        blocks = [
            (at, place, block)
            for at, message in turn
            for place, block in enumerate(_blocks(message))
        ]
        results = [one for one in blocks if member(one[2], "type") == "tool_result"]
        answered = [member(block, "tool_use_id") for _, _, block in results]

        missing = [id_ for id_ in before if role != "user" or id_ not in answered]
        is_late = bool(before) and blocks[: len(results)] != results
        if missing or is_late:
            yield _UNANSWERED.format(at=called_at, ids=", ".join(map(str, missing or before)))
        for (at, place, _), id_ in zip(results, answered, strict=True):
            if id_ not in before:
                yield _UNCALLED.format(at=at, block=place, ids=id_)

        calls = [one for one in blocks if member(one[2], "type") == "tool_use"]
        before = [member(block, "id") for _, _, block in calls] if role == "assistant" else []
        called_at = calls[0][0] if calls else 0

    if before:
        yield _UNANSWERED.format(at=called_at, ids=", ".join(map(str, before)))


def _blocks(message: Any) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else []
