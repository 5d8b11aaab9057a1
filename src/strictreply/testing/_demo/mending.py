"""How the model takes a correction: it reads the faults that are named and mends those, nothing else.

It understands lines such as ``- /limit: must be an integer``: a JSON Pointer and words. What is right it knows itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from strictreply.testing._demo.drafts import Draft, Target
from strictreply.values._issues import pointer, pointer_tokens
from strictreply.values._json import JSON

_LINE = re.compile(
    r"""^\s*(?:(?P<bullet>[-*•]|\d+[.)])\s+)?[`'"]?(?P<path>(?:/(?:"(?:[^"\\]|\\.)*"|[^\s/:`'"]*))+)?[`'"]?"""
    r"""\s*:?\s*(?P<words>\S.*)?$"""
)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_CALL_PATH = re.compile(r"^/tool_calls/(?P<index>\d+)")
_INSIDE_CALL = re.compile(r"^/tool_calls/\d+(?:/function)?(?:/(?:arguments|args))?(?=/|$)")
_DEMANDING = re.compile(r"\b(?:must|should|needs?|has|is|not|no|allowed|missing|required|expected)\b", re.IGNORECASE)
_ABOUT_EXTRA = re.compile(
    r"not allowed|allowed keys|beside|unexpected|additional|\bextra\b|"
    r"\b(?:no|not have any) (?:other )?(?:key|member|propert)",
    re.IGNORECASE,
)
_ABOUT_MISSING = re.compile(r"must have|missing|required", re.IGNORECASE)
_ABOUT_FORM = re.compile(r"\bJSON\b|cut off|token limit|shorter|fence|prose", re.IGNORECASE)
_ABOUT_NAME = re.compile(r"\btool\b|\bfunction\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Complaint:
    """One named fault: a JSON Pointer, empty when none was given, and what was said about it."""

    path: str
    words: str

    @property
    def call(self) -> int | None:
        """The index of the call that the pointer leads into, None when it leads elsewhere."""
        found = _CALL_PATH.match(self.path)
        return int(found["index"]) if found else None


def complaints(text: str) -> tuple[Complaint, ...]:
    """Read the faults that a correction lists, one a line."""
    lines = (_LINE.match(line) for line in text.splitlines())
    return tuple(
        Complaint(_pointer(line["path"] or ""), line["words"] or "")
        for line in lines
        if line and (line["bullet"] or line["path"])
    )


def _pointer(place: str) -> str:
    """Return the JSON Pointer that a place means; a name in quotes is JSON, a slash at the end says nothing."""
    named = _QUOTED.sub(lambda quoted: pointer("", json.loads(quoted[0]))[1:], place)
    return named if place.endswith('"') else named.rstrip("/")


def names_a_place(text: str) -> bool:
    """Tell a correction from other text, such as a listing of files: by pointers with a demand on each."""
    return any(complaint.path and _DEMANDING.search(complaint.words) for complaint in complaints(text))


def mend(prior: Draft, target: Target, correction: str, index: int = 0) -> Draft:
    """Write ``prior`` again with the faults mended that ``correction`` names.

    ``index`` is the call's place in its message: faults of other calls are not this one's. A correction that names
    nothing leaves ``prior`` as it is.
    """
    named = [complaint for complaint in complaints(correction) if complaint.call in {None, index}]
    if target.place != "prose" and not prior.is_json:
        about_form = _ABOUT_FORM.search(correction) is not None
        return target.clean if about_form else prior
    if target.place == "prose":
        return target.clean if named else prior
    value: JSON = json.loads(prior.text)
    for complaint in named:
        value = _mended(value, target.whole, _tokens(complaint, target), complaint.words)
    mended = target.write_whole(value)
    return replace(mended, tool=target.tool if _names_the_tool(named) else prior.tool)


def _names_the_tool(named: list[Complaint]) -> bool:
    """Tell whether a complaint is about the name of the tool."""
    return any(_last(complaint.path) in {"name", "tool"} or _ABOUT_NAME.search(complaint.words) for complaint in named)


def _last(path: str) -> str:
    """Give the last part of a pointer."""
    return path.rpartition("/")[2]


def _tokens(complaint: Complaint, target: Target) -> list[str]:
    """Lead a pointer into what was written, whatever it was counted from."""
    path = _INSIDE_CALL.sub("", complaint.path).removeprefix("/content")
    tokens = pointer_tokens(path)
    if target.place == "call" and tokens[:1] in (["args"], ["arguments"]):
        return tokens[1:]
    if target.place == "union" and tokens and tokens[0] not in {"tool", "args", "answer"}:
        return ["args", *tokens]
    return tokens


def _mended(value: JSON, right: JSON, tokens: list[str], words: str) -> JSON:
    """Mend the fault at the end of ``tokens``, from what is right there."""
    if isinstance(value, dict) and isinstance(right, dict):
        return _mended_member(value, right, tokens, words) if tokens else _mended_object(value, right, words)
    if isinstance(value, list) and isinstance(right, list) and tokens:
        index = int(tokens[0]) if tokens[0].isdigit() else len(value)
        if index < min(len(value), len(right)):
            return [*value[:index], _mended(value[index], right[index], tokens[1:], words), *value[index + 1 :]]
    return right


def _mended_member(value: dict[str, JSON], right: dict[str, JSON], tokens: list[str], words: str) -> dict[str, JSON]:
    """Mend inside one member; one that is not needed is left out."""
    name = tokens[0]
    if name not in right:
        return {key: member for key, member in value.items() if key != name}
    if name not in value:
        return value | {name: right[name]}
    return value | {name: _mended(value[name], right[name], tokens[1:], words)}


def _mended_object(value: dict[str, JSON], right: dict[str, JSON], words: str) -> dict[str, JSON]:
    """Mend the members of an object: drop those that are not allowed, add those that must be there."""
    if _ABOUT_EXTRA.search(words):
        return {key: member for key, member in value.items() if key in right or _mentions(words, key)}
    if _ABOUT_MISSING.search(words):
        return value | {key: member for key, member in right.items() if key not in value and _mentions(words, key)}
    return value


def _mentions(words: str, name: str) -> bool:
    """Tell whether words name a member."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", words) is not None


def nearest(draft: Draft, targets: Mapping[int, Target]) -> int:
    """Find which of the targets a draft was meant to be: by its tool, then by the members it shares."""
    return max(targets, key=lambda index: _likeness(draft, targets[index]))


def _likeness(draft: Draft, target: Target) -> tuple[bool, int]:
    """Measure how much of a target stands in a draft."""
    shared = 0
    if isinstance(target.value, dict):
        shared = sum(str(member) in draft.text for member in target.value.values())
    return draft.tool.startswith(target.tool) and target.tool != "", shared
