"""The content of a streamed choice: its text and thoughts, and members that nothing judges."""

from __future__ import annotations

from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from strictreply.values._limits import JSON, JSONObject


def is_blank(value: object) -> bool:
    """Return whether a value is null or an empty text, or holds nothing but such values."""
    if isinstance(value, dict):
        return all(map(is_blank, value.values()))
    if isinstance(value, list):
        return all(map(is_blank, value))

    return value is None or value == ""


def keep_last(known: JSONObject, given: JSONObject) -> None:
    """Keep the last word on what every event repeats; null, "" and 0 overwrite nothing."""
    for name, value in given.items():
        if name not in known or value not in (None, "", 0):
            known[name] = value


@dataclass(slots=True)
class Members:
    """Members that nothing judges: texts and lists are joined, of others the last counts."""

    texts: dict[str, StringIO] = field(default_factory=dict[str, StringIO])
    others: JSONObject = field(default_factory=dict[str, JSON])

    def add(self, name: str, value: JSON) -> None:
        """Take a piece of a member; null says nothing."""
        known = self.others.get(name)
        if isinstance(value, str):
            self.texts.setdefault(name, StringIO()).write(value)
        elif isinstance(value, list) and isinstance(known, list):
            self.others[name] = [*known, *value]
        elif value is not None or name not in self.others:
            self.others[name] = value

    @property
    def whole(self) -> JSONObject:
        """The members, each as it stands now."""
        return self.others | {name: text.getvalue() for name, text in self.texts.items()}


@dataclass(slots=True)
class Content:
    """The content of a message so far.

    ``text`` joins the texts as they come, so that many take no more memory than one; ``parts`` are
    the thoughts, and the texts before them, of a content that comes as a list. ``other`` is what
    came and is neither, None when nothing did. ``has_come``: there is a content, which may be
    empty.
    """

    text: StringIO = field(default_factory=StringIO)
    parts: list[JSONObject] = field(default_factory=list[JSONObject])
    other: JSON = None
    has_come: bool = False

    def add(self, text: str) -> None:
        """Take a piece of the text."""
        self.text.write(text)
        self.has_come = True

    def add_parts(self, parts: list[Any]) -> None:
        """Take a list of texts and thoughts; the fragments of one thought are joined."""
        self.has_come = True
        for part in parts:
            if part.get("type") == "text":
                self.text.write(part["text"])
                continue

            self._close_text()
            before = self.parts[-1] if self.parts else {}
            if before.get("type") == part.get("type"):
                self.parts[-1] = _joined(before, part)
            else:
                self.parts.append(part)

    def _close_text(self) -> None:
        text = self.text.getvalue()
        if text:
            self.parts.append({"type": "text", "text": text})
            self.text = StringIO()

    @property
    def whole(self) -> JSON:
        """The content as that of a message; None when none came."""
        text = self.text.getvalue()
        if self.other is not None:
            return self.other
        if not self.parts:
            return text if self.has_come else None

        rest: list[JSON] = [{"type": "text", "text": text}] if text else []
        return [*self.parts, *rest]


def _joined(before: JSONObject, fragment: JSONObject) -> JSONObject:
    """Return a thought with its next fragment."""
    joined = dict(before)
    for name, value in fragment.items():
        known = joined.get(name)
        if name == "type":
            continue

        if isinstance(known, str) and isinstance(value, str):
            joined[name] = known + value
        elif isinstance(known, list) and isinstance(value, list):
            joined[name] = _joined_texts([*known, *value])
        elif value is not None:
            joined[name] = value

    return joined


def _joined_texts(parts: list[Any]) -> list[Any]:
    """Join the texts that follow each other in a list of parts."""
    joined: list[Any] = []
    for part in parts:
        if joined and _is_text(joined[-1]) and _is_text(part):
            joined[-1] = joined[-1] | {"text": joined[-1]["text"] + part["text"]}
        else:
            joined.append(part)

    return joined


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and type(part.get("text")) is str
