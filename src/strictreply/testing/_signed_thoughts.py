"""A model that signs its thoughts, and binds them to their conversation."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from threading import Lock
from typing import Any, Literal, TypeAlias

from strictreply.core import JSON, JSONObject
from strictreply.testing._chat_writer import event, events
from strictreply.testing._wire import (
    EVENT_STREAM,
    HTTPReply,
    Responder,
    Served,
    error_reply,
    member,
)

ThoughtSpelling: TypeAlias = Literal["thinking_blocks", "reasoning_details", "content"]
"""Where a gateway puts the thoughts of a message."""

_TYPES: Mapping[str, tuple[str, str]] = {
    "thinking_blocks": ("thinking", "thinking"),
    "reasoning_details": ("reasoning.text", "text"),
    "content": ("thinking", "thinking"),
}
"""The type of a thought by its spelling, and the member with its text."""

_BOUND = (
    "messages.{at}.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
    "different conversation. {why}"
)
_UNKNOWN = "messages.{at}.content.0: Invalid `signature` in `thinking` block"
_THOUGHTLESS = (
    "messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
    "`tool_use`. When `thinking` is enabled, a final `assistant` message must start with a "
    "thinking block"
)
_FORCED = "Thinking may not be enabled when tool_choice forces tool use."


class SignedThoughts:
    """Adds signed thoughts to replies, and refuses conversations that change them.

    It is a responder that behaves like Claude behind a gateway. It answers 400, in Anthropic's
    words, in three cases: a thought is sent back after other tools or messages than before; the
    calls since the user's last message are sent back without a thought; ``tool_choice`` forces a
    call. Replies that are not a completion are sent unchanged. It serves chat completions only.
    Threads may share it.

    - ``responder`` makes the replies.
    - ``spelling`` is where the thoughts are: ``"thinking_blocks"`` (LiteLLM),
      ``"reasoning_details"`` (OpenRouter), or ``"content"`` (a gateway that leaves them in the
      content).
    - ``unthinking`` are the numbers of requests, counted from 1, that are answered without a
      thought, like a model that thinks only when needed; calls without one may be sent back then.
    """

    def __init__(
        self,
        responder: Responder,
        *,
        spelling: ThoughtSpelling = "thinking_blocks",
        unthinking: Collection[int] = (),
    ) -> None:
        if spelling not in _TYPES:
            raise ValueError(f"spelling must be one of {', '.join(_TYPES)}; got {spelling!r}")

        self.refused: list[str] = []
        """The message of each 400 so far."""
        self.requests: int = 0
        """The number of requests so far."""
        self._responder = responder
        self._spelling: ThoughtSpelling = spelling
        self._unthinking = frozenset(unthinking)
        self._made: dict[str, _Conversation] = {}
        self._lock = Lock()

    def __call__(self, request: JSONObject) -> Served:
        """Answer a request; a :data:`Responder`."""
        with self._lock:
            self.requests += 1
            number = self.requests
            words = self._refusal(request)
            if words is not None:
                self.refused.append(words)
                return error_reply(400, words)

            signature = f"signature-{number}"
            self._made[signature] = _Conversation(request)

        served: Any = self._responder(request)
        message = _message(served)
        if not isinstance(message, dict) or number in self._unthinking:
            return served  # type: ignore[no-any-return]

        if request.get("stream"):
            return self._streamed(served, request, self._thought(signature, number))

        thinking = self._with_thought(message, self._thought(signature, number))
        return {**served, "choices": [{**served["choices"][0], "message": thinking}]}

    def _refusal(self, request: JSONObject) -> str | None:
        """Return why a request is refused; None when it is not."""
        choice: Any = request.get("tool_choice")
        if choice == "required" or isinstance(choice, dict):
            return _FORCED

        now = _Conversation(request)
        messages: list[Any] = request.get("messages") or []
        for at, message in enumerate(messages):
            if member(message, "role") != "assistant":
                continue

            signatures = list(_signatures_in(message))
            is_latest = all(member(later, "role") != "user" for later in messages[at:])
            must_think = is_latest and not self._unthinking
            if must_think and not signatures and member(message, "tool_calls"):
                return _THOUGHTLESS.format(at=at)

            for signature in signatures:
                made = self._made.get(signature)
                if made is None:
                    return _UNKNOWN.format(at=at)

                why = made.differs_from(now, at)
                if why:
                    return _BOUND.format(at=at, why=why)

        return None

    def _thought(self, signature: str, number: int) -> JSONObject:
        kind, text = _TYPES[self._spelling]
        thought: JSONObject = {
            "type": kind,
            text: f"thought {number} of several words",
            "signature": signature,
        }
        if self._spelling == "reasoning_details":
            thought |= {"format": "anthropic-claude-v1", "index": 0}

        return thought

    def _with_thought(self, message: JSONObject, thought: JSONObject) -> JSONObject:
        if self._spelling != "content":
            return message | {self._spelling: [thought]}

        content = message.get("content")
        texts: list[JSON] = [{"type": "text", "text": content}] if content else []
        return message | {"content": [thought, *texts]}

    def _streamed(self, served: JSONObject, request: JSONObject, thought: JSONObject) -> HTTPReply:
        """Return a stream: first the fragments of the thought, then the reply."""
        _, text = _TYPES[self._spelling]
        name = self._spelling

        around = {key: value for key, value in served.items() if key not in {"choices", "usage"}}
        around["object"] = "chat.completion.chunk"
        fragments: list[JSONObject] = [
            thought | {text: piece, "signature": None} for piece in thought[text].split(" ")
        ]
        fragments.append(thought | {text: ""})

        parts: list[bytes] = []
        for fragment in fragments:
            delta: JSONObject = {"role": "assistant", name: [fragment]}
            choice: JSONObject = {"index": 0, "delta": delta, "finish_reason": None}
            chunk: JSONObject = {**around, "choices": [choice]}
            parts.append(event(chunk))

        wants_usage = bool(member(request.get("stream_options"), "include_usage"))
        parts += events(served, usage=wants_usage)
        return HTTPReply(200, EVENT_STREAM, tuple(parts), framing="chunked")


class _Conversation:
    """The conversation that a thought belongs to: the tools of its request, and the messages."""

    def __init__(self, request: JSONObject) -> None:
        self.tools = json.dumps(request.get("tools"), sort_keys=True)
        messages: Any = request.get("messages") or []
        self.messages = [json.dumps(message, sort_keys=True) for message in messages]

    def differs_from(self, other: _Conversation, at: int) -> str:
        """Return what differs in a request with the thought in its message ``at``; "" for nothing.

        Everything before the thought must be unchanged.
        """
        if self.tools != other.tools:
            return "The `tools` differ from those this block was created with."
        if self.messages != other.messages[:at]:
            return "The messages before this block differ from those it was created with."

        return ""


def _message(served: object) -> object:
    choices = None if isinstance(served, HTTPReply) else member(served, "choices")
    return member(choices[0], "message") if isinstance(choices, list) and choices else None


def _signatures_in(message: object) -> Iterator[str]:
    for name in _TYPES:
        listed = member(message, name)
        for thought in listed if isinstance(listed, list) else ():
            signature = member(thought, "signature")
            if isinstance(signature, str):
                yield signature
