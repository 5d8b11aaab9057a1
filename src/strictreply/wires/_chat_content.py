"""The content of a streamed choice: its text and thoughts, and members that are not judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._dialects import is_blank
from strictreply.wires._thoughts import LISTS_OF_THOUGHTS, OPAQUE, thoughts_from

LABELS = frozenset({"type", "index", "id", "format", "name", "model", "object"})
"""Members that identify something and are repeated in full; the SDK keeps ``type``, too."""


def keep_last(known: JSONObject, given: JSONObject) -> None:
    """Keep the last value of members that every event repeats; blank values and 0 do not count."""
    for name, value in given.items():
        if name not in known or not (is_blank(value) or value == 0):
            known[name] = value


@dataclass(slots=True)
class Members:
    """Members that are not judged: texts and lists are joined; of others the last value counts.

    A label counts as one of the others, and a blank value never replaces anything. ``thoughts`` are
    the fragments of lists of thoughts, by the name of the list, or by the names of its outer member
    and its own.
    """

    texts: dict[str, StringIO] = field(default_factory=dict[str, StringIO])
    others: JSONObject = field(default_factory=dict[str, JSON])
    thoughts: dict[tuple[str, ...], list[Any]] = field(
        default_factory=dict[tuple[str, ...], list[Any]]
    )

    def add(self, name: str, value: JSON) -> None:
        """Add a piece of a member; null adds nothing."""
        known = self.others.get(name)
        if isinstance(value, list) and name in LISTS_OF_THOUGHTS:
            self.thoughts.setdefault((name,), []).extend(value)
        elif isinstance(value, str) and name not in LABELS:
            self.texts.setdefault(name, StringIO()).write(value)
        elif isinstance(value, list) and isinstance(known, list):
            known.extend(value)
        elif name not in self.others or not is_blank(value):
            self.others[name] = list(value) if isinstance(value, list) else value
            self._add_thoughts_in(name, value)

    def repeat(self, members: JSONObject) -> None:
        """Add members again, each in full; blank values add nothing."""
        for name, value in members.items():
            if is_blank(value):
                continue

            self.texts.pop(name, None)
            self.others.pop(name, None)
            self.thoughts = {key: held for key, held in self.thoughts.items() if key[0] != name}
            self.add(name, value)

    def _add_thoughts_in(self, name: str, value: JSON) -> None:
        for inner in LISTS_OF_THOUGHTS:
            thoughts = value.get(inner) if isinstance(value, dict) else None
            if isinstance(thoughts, list):
                self.thoughts.setdefault((name, inner), []).extend(thoughts)

    @property
    def has_thoughts(self) -> bool:
        """Whether thoughts were received that may be signed."""
        return bool(self.thoughts) or OPAQUE in self.texts

    def add_missing(self, members: JSONObject) -> JSONObject:
        """Add the members that have no value yet; return them."""
        known = self.whole
        missing = {
            name: value
            for name, value in members.items()
            if is_blank(known.get(name)) and not is_blank(value)
        }
        for name, value in missing.items():
            self.add(name, value)

        return missing

    @property
    def whole(self) -> JSONObject:
        """The members with their current values."""
        whole = {
            name: list(value) if isinstance(value, list) else value
            for name, value in self.others.items()
        }
        whole |= {name: text.getvalue() for name, text in self.texts.items()}
        for (name, *inner), fragments in self.thoughts.items():
            thoughts = thoughts_from(fragments)
            if inner:
                around: Any = whole[name] or {}
                whole[name] = around | {inner[0]: thoughts}
            else:
                whole[name] = thoughts

        return whole


@dataclass(slots=True)
class Content:
    """The content of a message so far.

    ``text`` joins the texts. ``parts`` are the fragments of thoughts, and the texts before them, of
    a content that is a list. ``other`` is a value that is neither, or None. ``has_come`` says
    whether there is a content, which may be empty.
    """

    text: StringIO = field(default_factory=StringIO)
    parts: list[JSONObject] = field(default_factory=list[JSONObject])
    other: JSON = None
    has_come: bool = False

    def add(self, text: str) -> None:
        """Add a piece of the text."""
        self.text.write(text)
        self.has_come = True

    def says_something(self) -> bool:
        """Return whether any of it is not blank."""
        return self.other is not None or bool(self.parts) or self.text.tell() > 0

    def add_parts(self, parts: list[Any]) -> None:
        """Add a list of texts and fragments of thoughts."""
        self.has_come = True
        for part in parts:
            if part.get("type") == "text":
                self.text.write(part["text"])
                continue

            self._close_text()
            self.parts.append(part)

    @property
    def is_empty(self) -> bool:
        """Whether only empty texts were received."""
        return not self.parts and self.other is None and self.text.tell() == 0

    def _close_text(self) -> None:
        text = self.text.getvalue()
        if text:
            self.parts.append({"type": "text", "text": text})
            self.text = StringIO()

    @property
    def whole(self) -> JSON:
        """The content in the form of a message; None if there is none."""
        text = self.text.getvalue()
        if self.other is not None:
            return self.other
        if not self.parts:
            return text if self.has_come else None

        rest: list[JSON] = [{"type": "text", "text": text}] if text else []
        return [*thoughts_from(self.parts), *rest]
