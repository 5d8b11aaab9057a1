"""The story of a failed call, told in order, capped, with advice for each kind of fault."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripted import completion
from strictreply.values._attempts import Attempt, Usage
from strictreply.values._issues import Code, Issue, Remedy, printable
from strictreply.values._story import ADVICE, MAX_RAW_CHARS, remedy_lines, tell

EMPTY = (Issue.of(Code.REPLY_EMPTY),)


def test_every_remedy_has_its_advice_once() -> None:
    """Faults of one kind are advised on once, in the order they came."""
    issues = (*EMPTY, Issue.of(Code.REPLY_TRUNCATED), *EMPTY)
    assert remedy_lines(issues) == [
        f"  What to do: {ADVICE[Remedy.CORRECT]}",
        f"  What to do: {ADVICE[Remedy.SHORTEN]}",
    ]
    assert ADVICE.keys() == set(Remedy)


def test_attempts_are_told_in_order() -> None:
    """Number, seconds and scope; what was asked, what failed, what came, what was wrong, what was let through."""
    attempts = (
        Attempt(1, {}, raw=completion("first"), issues=EMPTY, usage=Usage(1, 2, 3), seconds=0.5),
        Attempt(2, {}, failure="timeout", correction="Again:\n- /x", tier=1, scope="search"),
        Attempt(3, {}, raw=completion("third"), leniency=("fence removed",)),
    )
    lines = tell("headline", attempts).splitlines()
    assert lines[:2] == ["headline", "3 attempts, 3 tokens in all."]
    told = "\n".join(lines)
    order = [
        *("Attempt 1 (0.50 s)", "first", "wrong: reply.empty at /", "Attempt 2 (0.00 s, only the arguments of search)"),
        *("asked:", "- /x", "failed: timeout", "Attempt 3", "third", "lenient step: fence removed", "accepted"),
    ]
    places = [told.index(words) for words in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (completion("hello"), '"content": "hello"'),
        ({"choices": []}, '{"choices": []}'),
        ({"choices": [{"index": 0}]}, '{"choices": [{"index": 0}]}'),
        ({"choices": ["x"]}, '{"choices": ["x"]}'),
        ([1], "[1]"),
        ("text\x1b", '"text\\u001b"'),
    ],
)
def test_what_came_is_shown_escaped(raw: object, shown: str) -> None:
    """The message of a completion, or else the whole response; control characters are escaped."""
    story = tell("h", (Attempt(1, {}, raw=raw, issues=EMPTY),))  # type: ignore[arg-type]
    assert shown in story


def test_what_came_is_capped() -> None:
    """A megabyte of reply is two kilobytes of story, and says how much there was."""
    story = tell("h", (Attempt(1, {}, raw=completion("x" * 1_000_000), issues=EMPTY),))
    assert len(story) < MAX_RAW_CHARS + 1_000
    assert "characters in all" in story


@given(st.text())
def test_what_is_printable_does_nothing(text: str) -> None:
    """No control character, line break, reordering mark or surrogate is left; what is printable stays."""
    shown = printable(text)
    assert shown.isprintable()
    assert (shown == text) is text.isprintable()
