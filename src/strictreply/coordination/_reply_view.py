"""One raw reply, opened: the reply itself, its text, and the JSON object in it. What it means is not asked here.

Text is read by the core's strict reader only, and only when somebody wants to see the value. A Python value that never
was a text is held to the limits of JSON instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, cast

from pydantic import BaseModel

from strictreply.coordination._action_shapes import member_names
from strictreply.coordination._api_errors import ERROR_ROLE
from strictreply.coordination._coordination_codes import AgentReplyCode
from strictreply.reading._decoding import decode
from strictreply.reading._extraction import extract
from strictreply.schema import SchemaRule
from strictreply.values._issues import Category, Code, Issue, quote
from strictreply.values._json import JSON, Extraction, JSONObject
from strictreply.values._limits import DEFAULT_LIMITS, Limits, utf8_size
from strictreply.values._replies import Invalid
from strictreply.wires._chat import open_envelope, peek

UNREADABLE: Final = Issue(f"action.{SchemaRule.UNREADABLE}", Category.FORMAT_ERROR, "", SchemaRule.UNREADABLE.template)
"""The fault of a reply that cannot be looked at as JSON."""


def plain_issues(value: object, limits: Limits = DEFAULT_LIMITS) -> tuple[Issue, ...]:
    """Report a value that is not made of dicts with text as names, lists, text, finite numbers, booleans and None.

    It is also no JSON when it is nested deeper or has more values than ``limits`` say, as one that holds itself does.
    Work is bounded by them.
    """
    level, nodes = [value], 1
    for _ in range(limits.depth + 1):
        if not all(map(_is_node, level)):
            return (UNREADABLE,)
        level = [child for node in level for child in _children(node)]
        nodes += len(level)
        if not level:
            return ()
        if nodes > limits.nodes:
            break
    return (UNREADABLE,)


def _is_node(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_text(name) for name in cast("dict[object, object]", value))
    if isinstance(value, str):
        return _is_text(value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, list | int)


def _is_text(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def _children(node: object) -> list[object]:
    if isinstance(node, dict):
        return list(cast("dict[object, object]", node).values())
    return cast("list[object]", node) if isinstance(node, list) else []


_MESSAGE_KEYS = frozenset({"role", "choices", "tool_calls", "refusal", "function_call"})
_TEXTS = (str, bytes, bytearray)


NOT_AS_ASKED: Final = AgentReplyCode.FORMAT_MALFORMED.at("", expected="written in the format that was asked for")
"""The fault of a reply that may be well-formed, but is not an action in the format of its agent."""

View: TypeAlias = Literal["reply", "text", "value"]
"""A side of a reply that a processor may be shown.

``reply`` is the message as it came, or whatever else did; ``text`` its text; ``value`` the mapping that came, or the
JSON object that the text spells.
"""

VIEWS: tuple[View, ...] = ("reply", "text", "value")


@dataclass(frozen=True)
class ReplyView:
    """A reply to be looked at; None is a side that it has not got."""

    reply: object = None
    text: str | bytes | None = None
    mapping: Mapping[str, Any] | None = None
    extraction: tuple[Extraction, ...] = ("strict",)
    limits: Limits = DEFAULT_LIMITS

    @cached_property
    def value(self) -> JSONObject | None:
        """The object that the reply is or spells."""
        decoded = self._decoded[0]
        return decoded if isinstance(decoded, dict) else None

    def decoded(self, value: object) -> bool:
        """Return whether a value is the one that the strict reader gave; nothing is read to find out."""
        return self.mapping is None and self.__dict__.get("value") is value

    @property
    def leniency(self) -> tuple[Extraction, ...]:
        """The lenient steps that reading the value took (requirement X4); none when it was never read."""
        return self._decoded[1] if "_decoded" in self.__dict__ else ()

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Why the reply holds no object with an action, for when nobody could make anything of it."""
        value = self._decoded[0]
        if isinstance(value, Invalid):
            return value.issues
        if not isinstance(value, dict):
            return (Issue.of(Code.SHAPE_NOT_OBJECT, found=quote(value)),)
        if "next_action" in value:
            return (NOT_AS_ASKED,)
        return (AgentReplyCode.ACTION_MISSING_FIELD.at("/next_action"),)

    @cached_property
    def _decoded(self) -> tuple[JSON | Invalid, tuple[Extraction, ...]]:
        if self.mapping is not None:
            return dict(self.mapping), ()
        if self.text is None:
            return Invalid((Issue.of(Code.SHAPE_NOT_OBJECT, found=quote(self.reply)),)), ()
        text, steps = (
            extract(self.text, self.extraction, self.limits) if isinstance(self.text, str) else (self.text, ())
        )
        return decode(text, self.limits, names=member_names()), steps


def read_reply(raw: object, extraction: tuple[Extraction, ...], limits: Limits) -> ReplyView | Invalid:
    """Open whatever an agent may have replied: a mapping, a text, a message or a completion, of any SDK.

    An instance of a pydantic model with ``next_action`` is the mapping that it dumps to, as the published pages print.
    Invalid is a reply that ended badly, whatever it holds: refused, filtered, cut, an error of the API, or none at all.
    An *object* with the role ``error`` is the system's word; a mapping is never, because it may have been read from
    what a model wrote.
    """
    if raw is None:
        return Invalid((Issue.of(Code.REPLY_EMPTY),))
    if isinstance(raw, _TEXTS):
        if not raw:
            return Invalid((Issue.of(Code.REPLY_EMPTY),))
        return ReplyView(text=_as_text(raw, limits), extraction=extraction, limits=limits)
    if isinstance(raw, Mapping):
        known = cast("Mapping[str, Any]", raw)
        if not _is_envelope(known):
            return ReplyView(mapping=known, extraction=extraction, limits=limits)
    elif isinstance(raw, BaseModel) and peek(raw, "next_action") is not None:
        return ReplyView(mapping=raw.model_dump(), extraction=extraction, limits=limits)
    elif peek(raw, "role") == ERROR_ROLE or not any(hasattr(raw, key) for key in _MESSAGE_KEYS):
        return ReplyView(reply=raw, extraction=extraction, limits=limits)
    opened = open_envelope(raw)
    return opened if isinstance(opened, Invalid) else read_message(opened.message, extraction, limits)


def _is_envelope(known: Mapping[str, Any]) -> bool:
    if "choices" in known:
        return True
    if "next_action" in known:  # an action of ours may have an error in it
        return "role" in known
    return bool(known.get("error")) or not _MESSAGE_KEYS.isdisjoint(known)


def read_message(message: object, extraction: tuple[Extraction, ...], limits: Limits) -> ReplyView | Invalid:
    """Look at an assistant message: its calls are on the message itself, the rest is in its content."""
    if peek(message, "function_call"):
        return Invalid((Issue.of(Code.CALL_MALFORMED, "/function_call", expected="in tool_calls"),))
    content = peek(message, "content")
    if peek(message, "tool_calls") and utf8_size(content) > limits.reply_bytes:  # without calls it is read, and capped
        return Invalid((Issue.of(Code.REPLY_TOO_LARGE, "/content", limit=limits.reply_bytes),))
    if isinstance(content, str) and content:
        return ReplyView(message, content, extraction=extraction, limits=limits)
    if peek(message, "tool_calls"):
        return ReplyView(message, extraction=extraction, limits=limits)
    if content is None or content == "":
        return Invalid((Issue.of(Code.REPLY_EMPTY),))
    return Invalid((Issue.of(Code.REPLY_CONTENT, "/content", found=quote(content)),))


def _as_text(raw: str | bytes | bytearray, limits: Limits) -> str | bytes:
    """Return bytes as text where they are UTF-8; the reader says what is wrong with others."""
    if isinstance(raw, str):
        return raw
    if len(raw) <= limits.reply_bytes:
        with suppress(UnicodeDecodeError):
            return raw.decode()
    return bytes(raw[: limits.reply_bytes + 1])
