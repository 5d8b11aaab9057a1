"""Specimens: what a fault looks like.

It is shown abridged and printable, on the terminal and on the page.
"""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.testing import HTTPReply, Pause, WireEnding, assistant, completion, native_call
from strictreply.testing._scripts import abridged
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.specimens import excerpt, specimen
from support.streamed_replies import events

CLEAN = completion(assistant(None, [native_call("search", '{"query": "tea"}')]))


def spoiled(**members: Any) -> dict[str, Any]:
    """Return the completion with other members in its call."""
    return completion(assistant(None, [native_call("search", '{"query": "tea"}') | members]))


@pytest.mark.parametrize(
    ("served", "lines"),
    [
        (
            spoiled(function={"name": "search", "arguments": "{}"}),
            ["tool_calls[0].function.arguments reads {}"],
        ),
        (
            spoiled(function={"name": "search", "arguments": ""}),
            ["tool_calls[0].function.arguments is empty"],
        ),
        (spoiled(id=7), ["tool_calls[0].id = 7"]),
        (spoiled(more=1), ["tool_calls[0].more = 1"]),
        (
            completion(CLEAN["choices"][0]["message"], finish_reason="length"),
            ["choices[0].finish_reason reads length"],
        ),
        ({"error": "down"}, ['the response = {"error": "down"}']),
        ([], ["the response = []"]),
        (None, ["the response = null"]),
        (
            {name: value for name, value in CLEAN.items() if name != "usage"},
            ["usage is missing"],
        ),
    ],
)
def test_only_what_differs_is_shown(served: Any, lines: list[str]) -> None:
    """Of a completion the smallest differing parts are shown, text as text and JSON as JSON."""
    assert excerpt(served, CLEAN).splitlines() == lines


def test_what_does_not_differ_is_said_to_be_good() -> None:
    """A good reply that a request forbids is not shown as nothing."""
    assert excerpt(CLEAN, CLEAN) != ""


def test_many_places_are_counted() -> None:
    """When a reply differs in more places than can be read, the rest is a number."""
    calls = [native_call("search", "{}", f"call_{number}") for number in range(1, 130)]
    lines = excerpt(
        completion(assistant(None, [*CLEAN["choices"][0]["message"]["tool_calls"], *calls])), CLEAN
    )
    assert len(lines.splitlines()) < 10
    assert "123" in lines.splitlines()[-1]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (HTTPReply(429, {"Retry-After": "2"}, (b"{}",)), ["HTTP 429", "Retry-After: 2", "{}"]),
        (
            HTTPReply(parts=(b"half",), ending=WireEnding.RESET),
            ["HTTP 200", "half", "[the connection is reset]"],
        ),
        (HTTPReply(ending=WireEnding.HANG), ["[nothing more comes]"]),
        (HTTPReply(parts=(b"no HTTP",), framing="raw"), ["no HTTP"]),
        (HTTPReply(parts=(b"a", Pause(1.5), b"b")), ["HTTP 200", "ab", "[1 pause, 1.5 s in all]"]),
        (
            HTTPReply(parts=(b"x",), endless=True),
            ["HTTP 200", "x", "[the last part again and again, without end]"],
        ),
        (HTTPReply(parts=(b"\xff",)), ["HTTP 200", r"\xff"]),
    ],
)
def test_a_response_is_shown_with_how_it_ends(reply: HTTPReply, words: list[str]) -> None:
    """Status, headers and body, and in brackets what the bytes do not show; a response that never
    began has no head.
    """
    assert excerpt(reply).splitlines() == words


def test_of_a_stream_the_changed_lines_are_shown() -> None:
    """The lines of a good stream are counted, what is there besides is shown without what every
    chunk repeats.
    """
    good = events(CLEAN)
    lines = excerpt(
        HTTPReply(parts=(*good[:2], b"data: {oops}\n\n", *good[2:-1])), CLEAN
    ).splitlines()
    assert lines == [
        "HTTP 200",
        "[lines of a good stream: 2]",
        "data: {oops}",
        f"[lines of a good stream: {len(good) - 3}]",
        "[lines of a good stream left out: 1]",
    ]


@given(st.text(), st.text(), st.integers(20, 200))
def test_what_is_abridged_is_short(text: str, good: str, limit: int) -> None:
    """Short text stays as it is; long text is cut to about the limit and says how long it was."""
    shown = abridged(text, limit, good)
    if len(text) <= limit:
        assert shown == text
    else:
        assert len(shown) <= limit + 60
        assert f"({len(text):,} characters)" in shown


def test_what_differs_stays_when_the_middle_goes() -> None:
    """Of a long text that is like the good one, the place of the difference is shown."""
    good = json.dumps([{"number": number} for number in range(200)])
    assert "oops" in abridged(good.replace("150}", "150 oops}"), 100, good)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_fault_of_the_catalogue_can_be_shown(name: str) -> None:
    """Each entry has a specimen, made of the samples; it is shown in a few printable lines."""
    found = specimen(CATALOGUE[name])
    shown = found.shown(200)
    assert all(line.isprintable() for line in shown.split("\n"))
    assert 0 < len(shown) < 2_500
    assert found.issues is None or found.fault.code in {issue.code for issue in found.issues}


PAGE = Path(__file__).resolve().parents[3] / "docs" / "faults.md"


in_a_checkout = pytest.mark.skipif(
    not PAGE.parent.exists(), reason="the documents are in a checkout only"
)


def written() -> str:
    """Write the page as ``tools/write_faults.py`` does."""
    tool = runpy.run_path(str(PAGE.parents[1] / "tools" / "write_faults.py"))
    page: str = tool["catalogue_page"]()
    return page


@in_a_checkout
def test_the_page_is_what_the_command_writes() -> None:
    """The page has each fault as the code makes it."""
    assert PAGE.read_text(encoding="utf-8") == written(), "run `make pages`"


@in_a_checkout
def test_every_fault_has_a_row() -> None:
    """Each entry is there once, with its code, its sentence and what it serves; no cell breaks its
    row.
    """
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", written(), re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(CATALOGUE)
    for name, row in rows:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)]
        assert len(cells) == 5
        assert all(cells), name
        assert f"`{CATALOGUE[name].code}`" in cells
