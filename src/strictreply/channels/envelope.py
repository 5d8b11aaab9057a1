"""Opening a chat completion: from the response, an SDK object or a bare message to the one message to judge.

What ends a reply before its content matters is judged here: a refusal, a content filter, a cut at the token limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strictreply.issues import Code, Issue, quote
from strictreply.replies import Invalid

_CUT = ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded", "incomplete")
_FILTERED = ("content_filter", "safety", "recitation", "sensitive", "prohibited_content", "blocklist")
_BROKEN_OFF = (
    *("error", "failed", "abort", "aborted", "cancelled", "canceled", "timeout"),
    *("network_error", "insufficient_system_resource"),
)
_ENDINGS = {
    **dict.fromkeys(_CUT, Code.REPLY_TRUNCATED),
    **dict.fromkeys(_FILTERED, Code.REPLY_CONTENT_FILTER),
    **dict.fromkeys(_BROKEN_OFF, Code.REPLY_BROKEN_OFF),
}
"""How a reply ends that must not be taken for whole, in the words of the API and of servers beside it."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The assistant message of a response, a mapping or an SDK object."""

    message: object


def peek(value: object, name: str) -> object:
    """Read a member of a mapping or an attribute of an SDK object; None when there is none."""
    if isinstance(value, Mapping):
        return value.get(name)
    return None if isinstance(value, str | bytes | list) else getattr(value, name, None)


def open_envelope(response: object) -> Opened | Invalid:
    """Find the one message to judge, or say why the response holds none fit to be judged."""
    if _is_message(response):
        return _open_message(response, None)
    if response is None or isinstance(response, str | bytes | int | float | list | tuple):
        return _refused(Code.ENVELOPE_MALFORMED, "", expected="an object", found=quote(response))
    if peek(response, "error"):
        return _refused(Code.ENVELOPE_ERROR, "/error", found=quote(peek(peek(response, "error"), "message")))
    choices = peek(response, "choices")
    if not isinstance(choices, list | tuple) or len(choices) != 1:
        return _refused(Code.ENVELOPE_CHOICES, "/choices", found=quote(choices))
    if peek(choices[0], "error"):
        return _refused(Code.ENVELOPE_ERROR, "/choices/0/error", found=quote(peek(choices[0], "error")))
    message = peek(choices[0], "message")
    if message is None or not _is_message(message):
        expected = "an object with an assistant message"
        return _refused(Code.ENVELOPE_MALFORMED, "/choices/0/message", expected=expected, found=quote(message))
    return _open_message(message, peek(choices[0], "finish_reason"))


def _is_message(value: object) -> bool:
    """Tell a message from a response: it has a role, content or calls, and no choices."""
    if value is None or isinstance(value, str | bytes | int | float | list | tuple):
        return False
    if isinstance(value, Mapping):
        return "choices" not in value and "error" not in value and not value.keys().isdisjoint(_MESSAGE_KEYS)
    return not hasattr(value, "choices") and any(hasattr(value, name) for name in _MESSAGE_KEYS)


_FINISH = "/choices/0/finish_reason"
_MESSAGE_KEYS = frozenset({"role", "content", "tool_calls", "refusal", "function_call"})


def _open_message(message: object, finish_reason: object) -> Opened | Invalid:
    """Refuse a message that ended badly, whatever it holds."""
    refusal = peek(message, "refusal")
    if refusal:
        return _refused(Code.REPLY_REFUSAL, "/refusal", found=quote(refusal))
    if finish_reason is not None and not isinstance(finish_reason, str):
        return _refused(Code.ENVELOPE_MALFORMED, _FINISH, expected="one with a finish_reason of text")
    ending = _ENDINGS.get((finish_reason or "").lower())
    if ending is not None:
        return _refused(ending, _FINISH, found=quote(finish_reason))
    role = peek(message, "role")
    if role is not None and role != "assistant":
        return _refused(Code.REPLY_ROLE, "/role", found=quote(role))
    return Opened(message)


def _refused(code: Code, path: str, *, found: str = "", **words: str) -> Invalid:
    """Refuse with one issue."""
    return Invalid((Issue.of(code, path, found=found, **words),))
