"""What a person sees of attempts on a terminal.

Places have their names, long lines hang, and nothing acts on the terminal.
"""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from strictreply import Attempt, Code, Issue
from strictreply.cli._attempts import HANGING, Live, place
from strictreply.core.text import printable
from strictreply.testing.recordings import excerpt
from support.loops import some
from support.openai_shapes import call, completion, message

SEARCH = completion(message(calls=[call("search", '{"limit": "5"}')]))


def shown(attempt: Attempt, width: int = 80) -> list[str]:
    """Print an attempt as on a coloured terminal of that width, and return its lines.

    The colours are taken out of the lines.
    """
    screen = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
    Live(screen)(attempt)
    printed = screen.file
    assert isinstance(printed, io.StringIO)
    return printed.getvalue().splitlines()


@given(st.text())
def test_printable_text_holds_nothing_that_acts(text: str) -> None:
    """Every printed text is printable, and printable text is unchanged."""
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)
    assert not text.isprintable() or printable(text) == text


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/tool_calls/0/function/arguments/limit", "search /limit"),
        ("/tool_calls/0/function/arguments", "search"),
        ("/tool_calls/0/function/name", ""),
        ("/tool_calls/7/function/arguments/limit", "call 8 /limit"),
        ("/tool_calls/0/id", "/tool_calls/0/id"),
        ("/content/total", "/content/total"),
        ("", ""),
    ],
)
def test_places_are_named_as_a_person_would(path: str, named: str) -> None:
    """A place in a call is shown by the tool and the argument, every other place by its pointer."""
    assert place(path, SEARCH, "chat") == named


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (SEARCH, 'search({"limit": "5"})'),
        (completion(message("hello")), "hello"),
        (completion(message(None)), "null"),
        (completion(message(None, refusal="no")), "refusal: no"),
        (completion(message(calls=[5])), "null(null)"),
        ({"choices": []}, '{"choices": []}'),
        ("text", "text"),
        (None, "null"),
    ],
)
def test_the_heart_of_a_response_is_shown(raw: Any, expected: str) -> None:
    """Calls are shown as calls, else the refusal or the content, else the whole response."""
    assert excerpt(raw, "chat") == expected


def test_a_refused_attempt_is_told_in_order() -> None:
    """The request, the reply and its faults are printed in this order, each with its label."""
    issue = Issue.of(
        Code.TOOL_UNKNOWN, "/tool_calls/0/function/name", names="find", found='"search"'
    )
    attempt = Attempt(2, {}, SEARCH, (issue,), correction="Again:\n- this")
    lines = shown(attempt)
    assert [line[:HANGING].strip() for line in lines] == ["sent", "", "reply", "issue"]

    assert lines[1] == " " * HANGING + "- this"
    assert "tool.unknown" in lines[3]
    assert '"search"' in lines[3]


@pytest.mark.parametrize("width", [80, 20])
def test_long_lines_hang(width: int) -> None:
    """No line is wider than the terminal, none ends in blanks, and what is continued stands below
    its beginning.
    """
    lines = shown(Attempt(1, {}, completion(message("word " * 40))), width)
    assert all(len(line) <= width and line == line.rstrip() for line in lines)
    labels = [line[:HANGING].strip() for line in lines]
    assert [label for label in labels if label] == ["reply", "valid"]
    assert labels.index("valid") > 1


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b[31mred",
        "a\x9b2Jb",
        "\u202egnp",
        "a\rb",
        "x\nwrong  forged",
        "\x07",
        "[bold]x[/bold] :smile:",
    ],
)
def test_nothing_a_model_wrote_acts_on_the_terminal(hostile: str) -> None:
    """Control sequences, reordering marks, line breaks and markup come out as characters to be
    read.
    """
    raw = completion(message(calls=[call(hostile, hostile)]))
    issue = Issue.of(Code.CALL_ID_MISSING, "/tool_calls/0/function/arguments/x")
    for line in some(shown(Attempt(1, {}, raw, (issue,)), width=200)):
        assert line.isprintable()
        assert printable(hostile) in line


def test_a_failed_transport_is_told() -> None:
    """An attempt that brought no response shows how it failed and nothing that came."""
    assert shown(Attempt(1, {}, None, failure="timeout")) == ["  error timeout"]
