"""What a conversation is at: a question with the results so far, or a bad reply with what was said against it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from strictreply.testing._demo.drafts import Draft
from strictreply.testing._demo.mending import names_a_place
from strictreply.values._json import JSONObject


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a conversation.

    ``question`` is the user's; ``key`` tells this step of the conversation from every other, and is the same for a
    first ask and its corrections; ``results`` are what tools gave since the question. ``prior`` holds the drafts of
    the reply that is answered by ``remarks``, one remark a draft; both are empty for a first ask.
    """

    question: str
    key: str
    results: tuple[str, ...] = ()
    prior: tuple[Draft, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """All that was said against the reply."""
        return "\n".join(dict.fromkeys(self.remarks))


def first_ask(turns: Sequence[JSONObject]) -> Reading:
    """Read the conversation as a question that nobody complains about."""
    asked = _last_user(turns, len(turns))
    return _reading(turns, asked, len(turns))


def answered_reply(turns: Sequence[JSONObject]) -> Reading | None:
    """Read the conversation as a reply of the model and what came back on it; None when it ends otherwise."""
    replied = _last_reply(turns)
    if replied is None or replied == len(turns) - 1:
        return None
    asked = _last_user(turns, replied)
    prior = _drafts(turns[replied])
    before = _reading(turns, asked, replied)
    remarks = _remarks(turns[replied], len(prior), turns[replied + 1 :])
    return Reading(before.question, before.key, before.results, prior, remarks)


def text_of(turn: JSONObject) -> str:
    """Give the text of a turn, its parts joined; empty when it has none."""
    content: object = turn.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(str(fields(part).get("text", "")) for part in items(content))


def fields(value: object) -> JSONObject:
    """Read a value that should be an object; one that is not has no members."""
    return cast("JSONObject", value) if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Read a value that should be an array; one that is not has no items."""
    listed: list[Any] = value if isinstance(value, list) else []
    return listed


def _reading(turns: Sequence[JSONObject], asked: int, end: int) -> Reading:
    """Read the question at ``asked`` and the results up to ``end``."""
    results = tuple(
        text
        for turn in turns[asked + 1 : end]
        if turn.get("role") == "tool" and not names_a_place(text := text_of(turn))
    )
    said = [text_of(turn) for turn in turns[: asked + 1] if turn.get("role") == "user"]
    return Reading(said[-1] if said else "", json.dumps([said, len(results)]), results)


def _last_user(turns: Sequence[JSONObject], end: int) -> int:
    """Find the last turn of the user before ``end``; -1 when there is none."""
    return next((index for index in range(end - 1, -1, -1) if turns[index].get("role") == "user"), -1)


def _last_reply(turns: Sequence[JSONObject]) -> int | None:
    """Find the last turn of the assistant."""
    return next((index for index in range(len(turns) - 1, -1, -1) if turns[index].get("role") == "assistant"), None)


def _drafts(reply: JSONObject) -> tuple[Draft, ...]:
    """Read back what the model wrote: its calls, also where they were replayed as text, or its content."""
    calls = _calls(reply.get("tool_calls")) or _calls_in_text(text_of(reply))
    return calls or (Draft("", text_of(reply)),)


def _calls(listed: object) -> tuple[Draft, ...]:
    """Read a list of calls; empty when it is none."""
    functions = [fields(fields(call).get("function")) for call in items(listed)]
    return tuple(Draft(str(each.get("name", "")), str(each.get("arguments", ""))) for each in functions)


def _calls_in_text(text: str) -> tuple[Draft, ...]:
    """Read calls whose names or arguments no server would take back in a history, so that they came as text."""
    if not text.startswith("["):
        return ()
    try:
        return _calls(json.loads(text))
    except (ValueError, RecursionError):
        return ()


def _remarks(reply: JSONObject, count: int, following: Sequence[JSONObject]) -> tuple[str, ...]:
    """Give what was said on each draft: by its tool turn, and by the user on all of them."""
    by_user = [text_of(turn) for turn in following if turn.get("role") == "user"]
    by_id = {str(turn.get("tool_call_id")): text_of(turn) for turn in following if turn.get("role") == "tool"}
    calls = items(reply.get("tool_calls")) or [None] * count
    return tuple("\n".join([by_id.get(str(fields(call).get("id")), ""), *by_user]).strip() for call in calls)
