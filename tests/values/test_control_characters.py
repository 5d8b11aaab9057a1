"""Control characters act nowhere.

Whatever a stranger's schema or a model names, what is shown of it is printable.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import strictreply as sr
from strictreply import Attempt, Code, Issue
from strictreply.coordination import Topology, ValidationProcessor
from strictreply.core.text import pointer, pointer_tokens, printable_json, printable_lines, quote
from strictreply.testing.probing import REPORT_FORMS
from strictreply.testing.survival import ProbeOutcome
from support.loops import some
from support.scripted import USER, Client, call, completion
from support.testing.probing.reports import report, run

FORGED = "limit\nERROR root: forged\r\x1b[2J\x07\x7f\x9b31m\u202e\u2028\u2066end"
"""A property name that would forge a line, clear a screen, ring a bell and turn a text round."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {FORGED: {"type": "integer", "enum": [1, 2]}, f"{FORGED}2": {"enum": [FORGED]}},
    "required": [FORGED],
    "additionalProperties": False,
}
WRONG: list[dict[str, Any]] = [
    {},
    {FORGED: "x"},
    {FORGED: 1, f"{FORGED}2": "x"},
    {FORGED: 1, "other": FORGED},
    {FORGED: 7},
]
TEXTS = st.text(st.characters(codec=None), max_size=30) | st.just(FORGED)


def lines_of(text: str) -> list[str]:
    """Split a text at its line feeds alone."""
    return text.split("\n")


def assert_harmless(text: str, lines: int | None = None) -> None:
    """Check that a text is printable line by line and has no line more than it should."""
    assert all(line.isprintable() for line in lines_of(text))
    assert "ERROR root: forged" not in [line.strip() for line in lines_of(text)]
    assert lines is None or len(lines_of(text)) == lines


@given(TEXTS, TEXTS, TEXTS)
def test_v13_an_issue_is_shown_printable_and_points_exactly(
    name: str, words: str, hint: str
) -> None:
    """Message, hint, excerpt, place and dotted text are printable; the path is still the RFC 6901
    pointer.
    """
    issue = Issue.of(
        Code.SHAPE_WRONG_TYPE, pointer("", name), hint=hint, found=quote(words), expected=words
    )
    shown = (
        issue.message,
        issue.hint,
        issue.found,
        issue.place,
        issue.dotted,
        quote(words),
        repr(issue),
    )
    assert all(text.isprintable() for text in shown)
    assert pointer_tokens(issue.path) == [name]


@given(
    st.recursive(
        TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
    )
)
def test_v13_json_made_printable_means_the_same(value: Any) -> None:
    """Escaped as JSON does, a JSON text reads back as the same value, and nothing in it acts."""
    shown = printable_json(json.dumps(value, ensure_ascii=False))
    assert shown.isprintable()
    assert json.loads(shown) == value


@given(TEXTS)
def test_v13_lines_stay_lines(text: str) -> None:
    """Line feeds stay, and only they do."""
    assert_harmless(printable_lines(text), text.count("\n") + 1)


@pytest.mark.parametrize("args", WRONG)
@pytest.mark.parametrize("channel", ["native", "text"])
def test_v13_a_strangers_names_act_nowhere(
    channel: Any, args: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Issues, every tier of correction, the error, its story and the log are printable, with no
    forged line.
    """
    caplog.set_level(logging.DEBUG, "strictreply")
    tool = sr.Tool.from_json_schema("lookup", SCHEMA)
    bad = completion(calls=[call("lookup", args)])

    if channel == "text":
        bad = completion(json.dumps({"tool": "lookup", "args": args}))

    fake = Client(bad, bad, bad, bad)
    client = sr.wrap(fake, tools=[tool], channel=channel, log_replies=lambda raw: raw + FORGED)

    with pytest.raises(sr.ReplyRejected) as caught:
        client.reply(model="m", messages=USER)

    error = caught.value
    issues = [issue for attempt in error.attempts for issue in attempt.issues]
    assert issues

    for issue in issues:
        assert all(
            text.isprintable() for text in (issue.message, issue.hint, issue.found, issue.dotted)
        )

    corrections = [attempt.correction for attempt in error.attempts if attempt.correction]
    for text in (*corrections, str(error), error.explain(), *caplog.messages):
        assert_harmless(text)

    assert all(message.isprintable() for message in caplog.messages)


def test_v13_a_pointer_still_finds_its_value() -> None:
    """Programs walk the issue's path to the very member, control characters and all."""
    verdict = sr.Contract(tools=[sr.Tool.from_json_schema("lookup", SCHEMA)]).check(
        {"role": "assistant", "tool_calls": [call("lookup", {FORGED: "x"})]}
    )
    assert isinstance(verdict, sr.Invalid)
    assert {pointer_tokens(issue.path)[-1] for issue in verdict.issues} == {FORGED}
    assert verdict.summary.isprintable()


def test_v13_a_declaration_error_is_printable() -> None:
    """A stranger's schema that is refused is told without what acts; the error's path is exact."""
    broken = {"type": "object", "properties": {FORGED: {"type": "no such type"}}}
    with pytest.raises(sr.ContractError) as caught:
        sr.Tool.from_json_schema("lookup", broken)
    assert str(caught.value).isprintable()


def test_v13_a_declaration_warning_is_printable() -> None:
    """A stranger's schema with a part that nothing fits is warned of on stderr: no line of it is
    forged.
    """
    part = {
        "type": "object",
        "properties": {FORGED: {"type": "integer", "minimum": 3, "maximum": 1}},
    }
    with pytest.warns(sr.ContractWarning) as caught:
        sr.Tool.from_json_schema("lookup", part)
    assert all(str(one.message).isprintable() for one in caught)


@given(TEXTS)
def test_v13_what_an_agent_is_told_to_retry_with_is_printable(name: str) -> None:
    """Whatever agents are called, a refused reply's suggestion is one line, as its issues are."""
    assume(name.strip() and name not in {"one", "User", "End"})
    team = Topology.of({"User": ["one"], "one": [name, "User"], name: ["one"]})
    refused = ValidationProcessor(team).validate(
        {"next_action": "invoke_agent", "action_input": "nobody"}, "one"
    )
    assert (refused.retry_suggestion or "").isprintable()
    assert refused.retry_suggestion


@given(TEXTS)
def test_v13_the_story_is_printable(words: str) -> None:
    """Corrections of a user's own steering and replies of any text are told line by line,
    printable.
    """
    attempt = Attempt(
        1, {}, raw=completion(words), issues=(Issue.of(Code.REPLY_EMPTY),), correction=words
    )
    told = sr.ReplyRejected("headline", reason="max_retries", attempts=(attempt,)).explain()
    assert all(line.isprintable() for line in some(lines_of(told)))


@pytest.mark.parametrize("outcome", list(ProbeOutcome))
def test_v13_reports_hold_no_control_character(outcome: ProbeOutcome) -> None:
    """HTML and JUnit are printable line by line, wherever a hostile text stands in a run."""
    hostile: dict[str, Any] = dict.fromkeys(
        ("detail", "at", "summary", "source", "served", "fault", "code"), FORGED
    )
    kind = report(outcome).runs[0].kind
    whole = replace(
        report(outcome),
        app=FORGED,
        asks=FORGED,
        versions={FORGED: FORGED},
        runs=tuple(replace(run(number, outcome, kind), **hostile) for number in range(9)),
        started=datetime(2026, 1, 2, tzinfo=UTC),
    )
    for text in (REPORT_FORMS["html"](whole), REPORT_FORMS["junit"](whole)):
        assert [line for line in lines_of(text) if not line.isprintable()] == []
