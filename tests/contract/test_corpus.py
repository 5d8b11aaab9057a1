"""Recorded replies of real models.

Our verdict is the independent label, or the difference is explained in the docs.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from strictreply import ContractError, Tool, Valid
from strictreply.batch.lines import open_lines
from strictreply.testing._recordings import RecordedVerdict, RecordingJudge, UnreadableLine
from support.loops import some
from support.shared_data import SHARED, needs_shared

pytestmark = [
    needs_shared,
    pytest.mark.one_lane,
    # Recorded tools hold contradictory parts.
    pytest.mark.filterwarnings("ignore::strictreply.ContractWarning"),
]

CORPUS = SHARED / "corpus" / "replies.jsonl.gz"
# Required members of these have contradictory schemas.
NOTHING_FITS = frozenset({"get_response", "Events_3_BuyEventTickets"})
VERDICTS = Path(__file__).resolve().parents[2] / "docs" / "verdicts.md"


@dataclass(frozen=True)
class Compared:
    """One record of the corpus, and what the library makes of its line."""

    record: dict[str, Any]
    judged: RecordedVerdict | UnreadableLine

    @property
    def comparable(self) -> bool:
        """Return whether the label says something about this verdict.

        It does for calls and contents as the model wrote them.
        """
        mode = self.record["mode"]
        raw = self.record["args_raw"]
        label = self.record["label"]
        return mode in {"tools", "content"} and bool(raw) and label["valid"] is not None

    @property
    def agrees(self) -> bool:
        """Whether the verdict is the label."""
        valid = isinstance(self.judged, RecordedVerdict) and isinstance(self.judged.verdict, Valid)
        return valid is self.record["label"]["valid"]


@cache
def compared() -> tuple[Compared, ...]:
    """RecordingJudge the whole corpus."""
    judge = RecordingJudge()
    lines = open_lines(CORPUS)
    return tuple(Compared(json.loads(line), judge.judge(number, line)) for number, line, _ in lines)


def documented() -> set[str]:
    """Read the ids of the differences that the docs explain."""
    return set(re.findall(r"`([0-9a-f]{16})`", VERDICTS.read_text(encoding="utf-8")))


def definitions() -> set[str]:
    """Return every distinct tool definition of the corpus as JSON."""
    return {json.dumps(tool) for one in compared() for tool in one.record["tools"] or ()}


@pytest.mark.slow
def test_every_line_is_judged() -> None:
    """No record is unreadable, whatever its mode, and none raises: but where a tool is declared
    that nothing fits.
    """
    assert len(compared()) > 6000
    unreadable = [one for one in compared() if isinstance(one.judged, UnreadableLine)]
    assert [one.record["id"] for one in unreadable if NOTHING_FITS.isdisjoint(names(one))] == []


@pytest.mark.slow
def test_verdicts_are_the_labels() -> None:
    """Each verdict is the label, and the docs list exactly the records where it is not."""
    assert {
        one.record["id"] for one in compared() if one.comparable and not one.agrees
    } == documented()
    agreed = sum(one.comparable and one.agrees for one in compared())
    assert f"{agreed:,} of {sum(one.comparable for one in compared()):,}" in VERDICTS.read_text(
        encoding="utf-8"
    )


def names(one: Compared) -> set[str]:
    """Return the names of a record's tools."""
    return {tool["function"]["name"] for tool in one.record["tools"] or ()}


def test_every_tool_can_be_declared() -> None:
    """Whatever people gave to models as a tool can be declared, unless no arguments could ever fit
    it.
    """
    for definition in some(map(json.loads, definitions())):
        if definition["function"]["name"] not in NOTHING_FITS:
            assert Tool.of(definition).name


def test_c7_tools_that_nothing_fits_are_refused() -> None:
    """Two recorded tools demand a member that is no array or integer: the error points to it."""
    refused: dict[str, str] = {}
    for definition in map(json.loads, definitions()):
        try:
            Tool.of(definition)
        except ContractError as error:
            refused[definition["function"]["name"]] = error.path

    assert refused == {
        "get_response": "/properties/intents/enum",
        "Events_3_BuyEventTickets": "/properties/number_of_tickets/enum",
    }


def test_no_issue_is_without_words() -> None:
    """Every fault of a real reply has a code, a place that is a pointer, and words of ours."""
    judged = [one.judged for one in compared() if isinstance(one.judged, RecordedVerdict)]
    issues = (issue for one in judged for issue in getattr(one.verdict, "issues", ()))
    for issue in some(issues):
        assert re.fullmatch(r"[a-z]+\.[a-z_]+", issue.code)
        assert issue.path == "" or issue.path.startswith("/")
        assert issue.message
