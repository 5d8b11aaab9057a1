"""The model's thoughts in a message: their places, their signatures, and how pieces are joined.

Anthropic signs each thought. The signature is bound to the tools, the system prompt and every
message before the thought. So a thought may be sent back only after exactly these; otherwise it is
rejected as "bound to a different conversation" (anthropics/anthropic-sdk-python#1598,
anomalyco/opencode#48637). Gateways pass such thoughts on in three ways: in a list next to the
content, in the content, or as one opaque text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from strictreply.values._limits import JSON, JSONObject, Message
from strictreply.wires._dialects import object_in, text_in, thoughts_in

LISTS_OF_THOUGHTS = ("thinking_blocks", "reasoning_details")
"""The members with a list of thoughts: LiteLLM's, and that of OpenRouter and Vercel's gateway."""

OPAQUE = "reasoning_opaque"
"""A sealed thought as one text, from GitHub Copilot."""

_MEMBERS = frozenset(
    {*LISTS_OF_THOUGHTS, OPAQUE, "reasoning_content", "reasoning", "reasoning_text"}
)
"""The members of a message that contain thoughts, signed or as text."""

_VENDOR = "provider_specific_fields"
"""LiteLLM's member for everything that the API has no member for; it repeats the thoughts."""

_SEALED = frozenset({"redacted_thinking", "reasoning.encrypted"})
"""The types of thoughts that have ``data`` instead of a text and a signature."""

_MOST_DEPTH = 8


def is_signed(message: object) -> bool:
    """Return whether a message contains a thought that is bound to everything before it."""
    held = object_in(message)
    if held is None:
        return False
    if held.get(OPAQUE) and isinstance(held[OPAQUE], str):
        return True

    beside = (value for name, value in held.items() if name not in ("content", "tool_calls"))
    return any(map(_holds_signature, (*beside, thoughts_in(held.get("content")))))


def any_signed(messages: Iterable[object]) -> bool:
    """Return whether a conversation contains a signed thought."""
    return any(map(is_signed, messages))


def _holds_signature(value: object, depth: int = 0) -> bool:
    if isinstance(value, list):
        return depth < _MOST_DEPTH and any(_holds_signature(one, depth + 1) for one in value)
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("signature"), str) and value["signature"]:
        return True
    if _is_sealed(value) and value.get("data"):
        return True

    return depth < _MOST_DEPTH and any(_holds_signature(one, depth + 1) for one in value.values())


def _is_sealed(thought: JSONObject) -> bool:
    kind = thought.get("type")
    return isinstance(kind, str) and kind in _SEALED


def without_thoughts(message: Message) -> JSONObject:
    """Return a message without its thoughts, signed or not."""
    return _exchanged(message, {})


def with_thoughts_of(message: Message, first: Message | None) -> JSONObject:
    """Return a message with the thoughts of another one instead of its own."""
    return _exchanged(message, first or {})


def _exchanged(message: Message, first: Message) -> JSONObject:
    made = {name: value for name, value in message.items() if not _is_thought(name, value)}
    made |= {name: value for name, value in first.items() if _is_thought(name, value)}

    thoughts = thoughts_in(first.get("content"))
    if thoughts or thoughts_in(message.get("content")):
        text = text_in(message.get("content"))
        made["content"] = _content(thoughts, text)

    own = message.get(_VENDOR)
    firsts = first.get(_VENDOR)
    if isinstance(own, dict) or isinstance(firsts, dict):
        own = own if isinstance(own, dict) else {}
        firsts = firsts if isinstance(firsts, dict) else {}
        made[_VENDOR] = _exchanged(own, firsts)

    return made


def _content(thoughts: list[JSONObject], text: str | None) -> JSON:
    if not thoughts:
        return text or None

    rest: list[JSON] = [{"type": "text", "text": text}] if text else []
    return [*thoughts, *rest]


def _is_thought(name: str, value: JSON) -> bool:
    if name in _MEMBERS:
        return True

    is_ours = name in ("content", "tool_calls", _VENDOR)
    return not is_ours and _holds_signature(value)


def thoughts_from(fragments: Iterable[object]) -> list[JSON]:
    """Return the thoughts of a stream, each joined from its fragments.

    A thought is complete with its signature, or if it has ``data``. Until then its fragments follow
    each other with the same type, and with the same index if they have one. Other values in the
    list stay unchanged.
    """
    thoughts: list[list[Any]] = []
    is_open = False
    for fragment in fragments:
        if is_open and _goes_on(thoughts[-1][-1], fragment):
            thoughts[-1].append(fragment)
        else:
            thoughts.append([fragment])

        is_open = isinstance(fragment, dict) and not _is_whole(fragment)

    return [one[0] if len(one) == 1 else _joined(one) for one in thoughts]


def _goes_on(before: JSONObject, fragment: object) -> bool:
    if not isinstance(fragment, dict) or before.get("type") != fragment.get("type"):
        return False

    place = before.get("index")
    other = fragment.get("index")
    return place is None or other is None or place == other


def _is_whole(fragment: JSONObject) -> bool:
    return _is_sealed(fragment) or any(_signatures_in(fragment))


def _signatures_in(fragment: JSONObject) -> Iterator[object]:
    yield fragment.get("signature")

    # Databricks signs the last part of a thought's summary
    summary = fragment.get("summary")
    for part in summary if isinstance(summary, list) else ():
        yield part.get("signature") if isinstance(part, dict) else None


def _joined(fragments: list[JSONObject]) -> JSONObject:
    """Return one thought: texts and lists are joined; of any other member the last value counts."""
    joined: JSONObject = {}
    texts: dict[str, list[str]] = {}
    for fragment in fragments:
        for name, value in fragment.items():
            known = joined.get(name)
            if isinstance(value, str) and name not in _LABELS:
                texts.setdefault(name, []).append(value)
            elif isinstance(value, list) and isinstance(known, list):
                known.extend(value)
            elif value is not None or name not in joined:
                joined[name] = list(value) if isinstance(value, list) else value

    joined |= {name: "".join(pieces) for name, pieces in texts.items()}
    return {
        name: thoughts_from(value) if isinstance(value, list) else value
        for name, value in joined.items()
    }


_LABELS = frozenset({"type", "id", "format"})
"""The texts of a fragment that identify it, and are repeated in full."""
