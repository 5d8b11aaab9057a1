"""Showing a model its own bad reply: in its own turn only, capped, in a shape that servers take back."""

from __future__ import annotations

from typing import Any

import pytest

from scripted import SCHEMA, call, completion
from strictreply.contract import Contract
from strictreply.replaying import MAX_REPLAY_CHARS, replayed
from strictreply.scoping import Scope
from strictreply.tools import Tool

TERMS = Contract(tools=[Tool.from_json_schema("search", SCHEMA)]).terms
WORDS = "our correction"


def message(content: str | None = None, calls: Any = ()) -> dict[str, Any]:
    """Spell a bare assistant message."""
    return dict(completion(content, calls)["choices"][0]["message"])


def test_an_empty_reply_is_not_replayed() -> None:
    """There is no assistant's turn to show when nothing came."""
    assert replayed(TERMS, message(""), WORDS, None) == [{"role": "user", "content": WORDS}]


def test_replayed_calls_have_ids_of_our_own() -> None:
    """The ids that came may be empty, repeated or hostile: each call and its tool turn get a fresh one."""
    bad = message(calls=[call("search", {"query": "a"}, "evil\n"), call("search", {"query": "b"}, "evil\n")])
    assistant, *answers, closing = replayed(TERMS, bad, WORDS, None)
    assert [one["id"] for one in assistant["tool_calls"]] == ["call_1", "call_2"]
    assert [one["tool_call_id"] for one in answers] == ["call_1", "call_2"]
    assert WORDS not in {one["content"] for one in answers}
    assert closing == {"role": "user", "content": WORDS}


def test_the_correction_answers_the_failing_call() -> None:
    """When one call is re-asked, its own tool turn holds the correction and the others say that they are kept."""
    bad = message(calls=[call("search", {"query": "a"}), call("search", {"query": 1})])
    scope = Scope("search", 1, "/tool_calls/1/function/arguments", bad, ())
    _, kept, corrected = replayed(TERMS, bad, WORDS, scope)
    assert corrected == {"role": "tool", "tool_call_id": "call_2", "content": WORDS}
    assert kept["content"] != WORDS


@pytest.mark.parametrize(
    "broken",
    [
        [call("search", "{nope")],
        [call("search", "[1]")],
        [call("no such name!", {})],
        ["x"],
        [{"id": "a", "type": "function", "function": {"name": "search", "arguments": {"query": 1}}}],
        [call("search", {"query": "x" * MAX_REPLAY_CHARS, "z": 1})],
    ],
)
def test_calls_that_servers_would_refuse_are_replayed_as_text(broken: list[Any]) -> None:
    """A history with malformed calls would be refused: they are shown as text, capped."""
    assistant, correction = replayed(TERMS, message(calls=broken), WORDS, None)
    assert assistant.keys() == {"role", "content"}
    assert len(assistant["content"]) <= MAX_REPLAY_CHARS + 1
    assert correction == {"role": "user", "content": WORDS}


def test_reasoning_is_not_replayed() -> None:
    """Vendor extras of the bad message are neither shown again nor counted against the cap."""
    bad = message(calls=[call("search", {"query": 1})]) | {"reasoning_content": "r" * 100_000}
    assert replayed(TERMS, bad, WORDS, None)[0].keys() == {"role", "content", "tool_calls"}
