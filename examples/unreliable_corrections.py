"""Reads a conversation and its corrections for the unreliable model.

Corrections name the places of faults by JSON Pointers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

from strictreply.core import JSON, JSONObject
from strictreply.core.text import pointer, pointer_tokens
from strictreply.testing._scripts import text_of
from strictreply.testing._steps import Target

_LINE = re.compile(
    r"""^\s*(?:(?P<bullet>[-*•]|\d+[.)])\s+)?"""
    r"""[`'"]?(?P<path>(?:/(?:"(?:[^"\\]|\\.)*"|[^\s/:`'"]*))+)?[`'"]?"""
    r"""\s*:?\s*(?P<words>\S.*)?$"""
)
_OF_CALL = re.compile(r"^(\s*[-*•]\s+)call (\d+)(, )?")
_REFUSAL = re.compile(r"(?:still )?not valid\b", re.IGNORECASE)
_INSIDE_CALL = re.compile(
    r"^/tool_calls/\d+(?:/function)?(?:/(?:arguments|args))?(?=/|$)"
)
_DEMANDING = re.compile(
    r"\b(?:must|should|needs?|has|is|not|no|"
    r"allowed|missing|required|expected)\b",
    re.IGNORECASE,
)
_ABOUT_EXTRA = re.compile(
    r"not allowed|other keys|beside|unexpected|additional|\bextra\b|"
    r"\b(?:no|not have any) (?:other )?(?:key|member|propert)",
    re.IGNORECASE,
)
_ABOUT_MISSING = re.compile(r"must have|missing|required", re.IGNORECASE)
_ABOUT_FORM = re.compile(
    r"\bJSON\b|cut off|token limit|shorter|fence|prose", re.IGNORECASE
)
_ABOUT_NAME = re.compile(r"\btool\b|\bfunction\b", re.IGNORECASE)
_IN_QUOTES = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True)
class Draft:
    """One native call or, with an empty ``tool``, one text, as written.

    ``cut`` is true if it ended at the token limit.
    """

    tool: str
    text: str
    cut: bool = field(default=False, compare=False)

    @property
    def is_json(self) -> bool:
        """Whether the text is JSON."""
        with suppress(ValueError, RecursionError):
            json.loads(self.text)
            return True

        return False


def clean_draft(target: Target) -> Draft:
    """Write the correct reply."""
    return Draft(
        target.name if target.place == "call" else "",
        target.text(target.value),
    )


def is_met_by(target: Target, draft: Draft) -> bool:
    """Return whether a draft is the correct reply, in any JSON spelling."""
    clean = clean_draft(target)
    if target.place == "prose" or not draft.is_json:
        return draft == clean
    return draft.tool == clean.tool and bool(
        json.loads(draft.text) == target.around(target.value)
    )


@dataclass(frozen=True, slots=True)
class ConversationState:
    """A question, with its results so far or remarks on a bad reply."""

    question: str
    """The user's last question."""
    key: str
    """Name of this step of the conversation.

    A first request and its corrections share it; every other step differs.
    """
    results: tuple[str, ...] = ()
    """The results of tools since the question."""
    prior: tuple[Draft, ...] = ()
    """The drafts of the bad reply; empty for a first request."""
    remarks: tuple[str, ...] = ()
    """One remark for each draft of the bad reply."""

    @property
    def said(self) -> str:
        """All remarks on the reply."""
        return "\n".join(dict.fromkeys(self.remarks))


def first_ask(turns: Sequence[JSONObject]) -> ConversationState:
    """Read the last question and its results, without any corrections."""
    asked = _last_turn(turns, "user")
    given = (
        text_of(turn)
        for turn in turns[asked + 1 :]
        if turn.get("role") == "tool"
    )
    results = tuple(text for text in given if not names_a_place(text))
    said = [
        text_of(turn)
        for turn in turns[: asked + 1]
        if turn.get("role") == "user"
    ]
    return ConversationState(
        said[-1] if said else "", json.dumps([said, len(results)]), results
    )


def answered_reply(turns: Sequence[JSONObject]) -> ConversationState | None:
    """Read the conversation as a reply of the model and its remarks.

    None if the conversation does not end this way.
    """
    replied = _last_turn(turns, "assistant")
    if replied in {-1, len(turns) - 1}:
        return None

    reply = turns[replied]
    following = turns[replied + 1 :]
    prior = drafts_of(reply)
    by_user = [
        text_of(turn) for turn in following if turn.get("role") == "user"
    ]
    by_id = {
        str(turn.get("tool_call_id")): text_of(turn)
        for turn in following
        if turn.get("role") == "tool"
    }

    calls = items(reply.get("tool_calls")) or [None] * len(prior)
    remarks = tuple(
        "\n".join(
            [by_id.get(str(fields(call).get("id")), ""), *by_user]
        ).strip()
        for call in calls
    )
    return replace(first_ask(turns[:replied]), prior=prior, remarks=remarks)


def _last_turn(turns: Sequence[JSONObject], role: str) -> int:
    """Return the index of the last turn of a role; -1 if there is none."""
    return max(
        (
            index
            for index, turn in enumerate(turns)
            if turn.get("role") == role
        ),
        default=-1,
    )


def drafts_of(reply: JSONObject) -> tuple[Draft, ...]:
    """Read what the model wrote: its calls, or its content.

    Also read calls that were sent back as text.
    """
    text = text_of(reply)
    calls = items(reply.get("tool_calls"))
    # no server accepts every name in a history, so calls may be text
    if not calls and text.startswith("["):
        with suppress(ValueError, RecursionError):
            calls = items(json.loads(text))

    functions = [fields(fields(call).get("function")) for call in calls]
    drafts = tuple(
        Draft(str(each.get("name", "")), str(each.get("arguments", "")))
        for each in functions
    )
    return drafts or (Draft("", text),)


def fields(value: object) -> JSONObject:
    """Return an object; for any other value an empty one."""
    return cast("JSONObject", value) if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return an array; for any other value an empty one."""
    return (
        list(cast("Iterable[Any]", value)) if isinstance(value, list) else []
    )


class Complaint(NamedTuple):
    """One named fault: a JSON Pointer, which may be empty, and a text."""

    path: str
    words: str

    @property
    def call(self) -> int | None:
        """The index of the pointer's call; None if it is in no call."""
        found = re.match(r"/tool_calls/(\d+)", self.path)
        return int(found[1]) if found else None


def complaints(text: str) -> tuple[Complaint, ...]:
    """Read the faults of a correction, one per line."""
    found: list[Complaint] = []
    lines = (_OF_CALL.sub(_in_message, line) for line in text.splitlines())
    for line in filter(None, map(_LINE.match, lines)):
        written = line["path"] or ""
        if not (line["bullet"] or written):
            continue

        # A quoted name is JSON; otherwise ignore a slash at the end.
        path = _IN_QUOTES.sub(
            lambda quoted: pointer("", json.loads(quoted[0]))[1:], written
        )
        if not written.endswith('"'):
            path = path.rstrip("/")
        found.append(Complaint(path, line["words"] or ""))

    return tuple(found)


def _in_message(found: re.Match[str]) -> str:
    """Return the place of a call, or of its arguments, as a pointer."""
    inside = "/function/arguments" if found[3] else ""
    return f"{found[1]}/tool_calls/{int(found[2]) - 1}{inside}"


def names_a_place(text: str) -> bool:
    """Return whether a text is a correction, and not a list of files.

    A correction has a pointer with a demand, or begins with "not valid".
    """
    return _REFUSAL.match(text) is not None or any(
        one.path and _DEMANDING.search(one.words) for one in complaints(text)
    )


def fix(
    prior: Draft, target: Target, correction: str, index: int = 0
) -> Draft:
    """Return ``prior`` without the faults that the correction names."""
    named = [
        complaint
        for complaint in complaints(correction)
        if complaint.call in {None, index}
    ]
    if target.place == "prose":
        return clean_draft(target) if named else prior
    if not prior.is_json:
        return (
            clean_draft(target) if _ABOUT_FORM.search(correction) else prior
        )

    value: JSON = json.loads(prior.text)
    right = target.around(target.value)
    tool = prior.tool

    for complaint in named:
        value = _fixed(
            value, right, _tokens(complaint, target), complaint.words
        )

        last = complaint.path.rpartition("/")[2]
        if last in {"name", "tool"} or _ABOUT_NAME.search(complaint.words):
            tool = clean_draft(target).tool

    return Draft(tool, json.dumps(value, ensure_ascii=False))


def _tokens(complaint: Complaint, target: Target) -> list[str]:
    tokens = pointer_tokens(
        _INSIDE_CALL.sub("", complaint.path).removeprefix("/content")
    )
    if target.place == "call" and tokens[:1] in (["args"], ["arguments"]):
        return tokens[1:]
    if (
        target.place == "union"
        and tokens
        and tokens[0] not in {"tool", "args", "answer"}
    ):
        return ["args", *tokens]
    return tokens


def _fixed(value: JSON, right: JSON, tokens: list[str], words: str) -> JSON:
    """Fix the fault at the end of ``tokens`` with the correct value."""
    match value, right, tokens:
        case dict(), dict(), [] if _ABOUT_EXTRA.search(words):
            return {
                key: member
                for key, member in value.items()
                if key in right or _mentions(words, key)
            }
        case dict(), dict(), [] if _ABOUT_MISSING.search(words):
            missing = {
                key: one for key, one in right.items() if key not in value
            }
            return value | {
                key: one
                for key, one in missing.items()
                if _mentions(words, key)
            }
        case dict(), dict(), []:
            return value
        case dict(), dict(), [name, *_] if (
            name not in right
        ):  # drop a member that is not needed
            return {
                key: member for key, member in value.items() if key != name
            }
        case dict(), dict(), [name, *rest]:
            member = right[name]
            if name in value:
                member = _fixed(value[name], member, rest, words)
            return value | {name: member}
        case list(), list(), [token, *rest] if _is_index(
            token, min(len(value), len(right))
        ):
            index = int(token)
            item = _fixed(value[index], right[index], rest, words)
            return [*value[:index], item, *value[index + 1 :]]
        case _:
            return right


def _is_index(token: str, length: int) -> bool:
    return token.isdigit() and int(token) < length


def _mentions(words: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", words) is not None


def nearest(draft: Draft, targets: Sequence[Target]) -> Target:
    """Find the target of a draft, by its tool, then by shared members."""

    def likeness(target: Target) -> tuple[bool, int]:
        members = (
            target.value.values() if isinstance(target.value, dict) else ()
        )
        is_of_tool = draft.tool.startswith(target.name) and target.name != ""
        return is_of_tool, sum(str(one) in draft.text for one in members)

    return max(targets, key=likeness)
