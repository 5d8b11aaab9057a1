"""How a reply is written around one of its values: the text before and after the place where a fault is put."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from strictreply.testing._steps import CANARY
from strictreply.testing._targets import Target
from strictreply.values._issues import pointer
from strictreply.values._json import JSON

_HERE = "here"


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one value in the text of a reply.

    ``at`` is its JSON Pointer in the arguments or the answer. ``key`` is the name of the member as it is written,
    quotes included; empty for an item of an array, and for a value that stands alone.
    """

    at: str
    key: str
    value: JSON
    before: str
    after: str

    def write(self, value: str) -> str:
        """Give the whole text, with this in place of the value."""
        return self.write_member(f"{self._name}{value}")

    def write_member(self, member: str) -> str:
        """Give the whole text, with this in place of the member, its name included."""
        return self.before + member + self.after

    def cut(self, value: str) -> str:
        """Give the text as far as this in place of the value."""
        return f"{self.before}{self._name}{value}"

    @property
    def _name(self) -> str:
        """Spell what stands before the value."""
        return f"{self.key}: " if self.key else ""


def slots(target: Target) -> list[Slot]:
    """Give every member or item of the arguments or the answer, or the value itself when it holds none."""
    before, after = _around(target)
    match target.value:
        case dict() as members:
            keys = {key: written(key) for key in members}
            return list(_in_row([(pointer("", key), keys[key], members[key]) for key in keys], before, after, "{}"))
        case list() as items:
            return list(_in_row([(f"/{index}", "", item) for index, item in enumerate(items)], before, after, "[]"))
        case scalar:
            return [Slot("", "", scalar, before, after)]


def members(target: Target) -> list[Slot]:
    """Give the members of the arguments or the answer, or one that the model made up when there is none."""
    return [slot for slot in slots(target) if slot.key] or [invented_member(target)]


def invented_member(target: Target) -> Slot:
    """Give the only member of an object that the model made up: its name is free, its value a text."""
    before, after = _around(target)
    return Slot("", written(CANARY), CANARY, f"{before}{{", f"}}{after}")


def written(value: JSON) -> str:
    """Write JSON as a model does: characters beyond ASCII as they are."""
    return json.dumps(value, ensure_ascii=False)


def _around(target: Target) -> tuple[str, str]:
    """Give the text before and after the arguments or the answer."""
    before, _, after = target.text(_HERE).rpartition(written(_HERE))
    return before, after


def _in_row(values: list[tuple[str, str, JSON]], before: str, after: str, brackets: str) -> Iterator[Slot]:
    """Give the slots of values that stand one after another between brackets."""
    texts = [(f"{key}: " if key else "") + written(value) for _, key, value in values]
    for index, (at, key, value) in enumerate(values):
        left = "".join(f"{text}, " for text in texts[:index])
        right = "".join(f", {text}" for text in texts[index + 1 :])
        yield Slot(at, key, value, f"{before}{brackets[0]}{left}", f"{right}{brackets[1]}{after}")
