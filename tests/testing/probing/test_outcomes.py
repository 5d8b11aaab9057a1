"""What an app did is judged by rules, and a report counts and sorts what was judged."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from strictreply.testing._probing.outcomes import (
    FINDINGS,
    MEANINGS,
    REMEDIES,
    Behaviour,
    Died,
    Echo,
    Outcome,
    Raised,
    Report,
    Returned,
    Run,
    Silent,
    judged,
)
from strictreply.testing._steps import Kind


def run(outcome: Outcome, detail: str = "it did", fault: str = "nan", *, recovered: bool = False) -> Run:
    """Make a run."""
    return Run(fault, Kind.JSON, "json.syntax", outcome, detail, recovered=recovered)


def report(*runs: Run, complete: bool = True) -> Report:
    """Make a report of runs."""
    return Report("app:main", "plain text", datetime(2026, 1, 2, tzinfo=UTC), 1.0, {}, runs, complete)


@pytest.mark.parametrize(
    ("behaviour", "outcome"),
    [
        (Returned("dict", "a"), Outcome.ACCEPTED),
        (Returned("dict", "b"), Outcome.ACCEPTED),
        (Returned("None", "n"), Outcome.NOTHING),
        (Raised("openai.APIError", clean=True), Outcome.CLEAN),
        (Raised("KeyError", clean=False), Outcome.CRASHED),
        (Died("its process ended"), Outcome.CRASHED),
        (Silent(2.0), Outcome.HUNG),
    ],
)
def test_each_behaviour_has_one_outcome(behaviour: Behaviour, outcome: Outcome) -> None:
    """A value is an acceptance, whichever; an exception is clean or a crash; and a leak outweighs them all."""
    assert judged(behaviour, [], "a")[0] is outcome
    assert judged(behaviour, [Echo(2, "user")], "a")[0] is Outcome.LEAKED


def test_a_detail_tells_what_was_returned() -> None:
    """It tells a good result from another one, unless good results differ among themselves."""
    same, other, unknown = (judged(Returned("dict", one), [], good)[1] for one, good in ("aa", "ba", ("a", None)))
    assert len({same, other, unknown}) == 3


def test_a_detail_tells_the_place() -> None:
    """A crash names the app's line, a leak the turn and the request, and what the app did then."""
    assert "shop.py:7" in judged(Raised("KeyError", clean=False, at="shop.py:7"), [], None)[1]
    detail = judged(Silent(2.0), [Echo(3, "tool"), Echo(3, "tool")], None)[1]
    assert ("tool turn of request 3" in detail, "2 s" in detail) == (True, True)


def test_every_finding_has_its_words() -> None:
    """Each outcome has a meaning, and each finding something to do."""
    assert set(MEANINGS) == set(Outcome)
    assert set(REMEDIES) == set(FINDINGS)


def test_a_report_counts_what_it_holds() -> None:
    """Findings, runs that took place and recoveries are counted apart."""
    runs = [run(outcome, recovered=outcome is Outcome.CLEAN) for outcome in Outcome]
    told = report(*runs)
    assert [one.outcome for one in told.findings] == list(FINDINGS)
    assert (len(told.applicable), told.recovered, told.survived) == (len(Outcome) - 1, 1, False)


def test_causes_join_what_one_change_would_mend() -> None:
    """Findings with the same outcome and detail are one cause, the most frequent first within its outcome."""
    rare, often = run(Outcome.CRASHED, "a"), run(Outcome.CRASHED, "b")
    told = report(rare, often, run(Outcome.ACCEPTED, "c"), often, run(Outcome.CLEAN, "d"))
    assert [(key, len(runs)) for key, runs in told.causes.items()] == [
        ((Outcome.ACCEPTED, "c"), 1),
        ((Outcome.CRASHED, "b"), 2),
        ((Outcome.CRASHED, "a"), 1),
    ]


@pytest.mark.parametrize(
    ("told", "survived"),
    [
        (report(run(Outcome.CLEAN), run(Outcome.NOT_APPLICABLE)), True),
        (report(run(Outcome.CLEAN), complete=False), False),
        (report(run(Outcome.CLEAN), run(Outcome.HUNG)), False),
        (report(), False),
    ],
)
def test_only_a_whole_probe_without_findings_is_survival(told: Report, survived: bool) -> None:
    """An interrupted probe says so and proves nothing, nor does one that tried nothing."""
    assert told.survived is survived
    assert ("interrupted" in told.verdict) is not told.complete


def test_the_verdict_counts() -> None:
    """The sentence has the number of findings, of runs, and of each outcome that was seen."""
    told = report(run(Outcome.HUNG), run(Outcome.HUNG), run(Outcome.LEAKED), run(Outcome.CLEAN)).verdict
    assert ("3 of 4" in told, "2 hung" in told, "1 leaked" in told, "accepted" in told) == (True, True, True, False)


def test_a_run_is_named_with_its_place() -> None:
    """The identity of a run is the fault and the pointer."""
    assert Run("nan", Kind.JSON, "c", Outcome.CLEAN, "", at="/limit").id == "nan[/limit]"
    assert run(Outcome.CLEAN).id == "nan"


def test_nothing_is_accepted_where_nothing_is_the_good_result() -> None:
    """An app that returns None for good replies too has accepted; of good results that differ not both are None."""
    assert judged(Returned("None", "n"), [], "n")[0] is Outcome.ACCEPTED
    assert judged(Returned("None", "n"), [], None)[0] is Outcome.NOTHING
