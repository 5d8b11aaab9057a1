"""The report: how a run is judged, what all runs come to, and the same in JSON and JUnit XML."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from strictreply.testing import Kind
from strictreply.testing._probing.behaviour import Behaviour, judged
from strictreply.testing.probing import REPORT_FORMS
from strictreply.testing.survival import (
    FINDINGS,
    OUTCOMES,
    Baseline,
    Harm,
    ProbeOutcome,
    ProbeRun,
    Report,
)
from support.testing.probing import reports
from support.testing.probing.reports import FULL, HOSTILE, SURVIVED

in_json = REPORT_FORMS["json"]
in_junit = REPORT_FORMS["junit"]


def run(
    outcome: ProbeOutcome, detail: str = "it did", fault: str = "nan", *, recovered: bool = False
) -> ProbeRun:
    """Make a run."""
    return ProbeRun(fault, Kind.JSON, "json.syntax", outcome, detail, recovered=recovered)


def report(*runs: ProbeRun, complete: bool = True) -> Report:
    """Make a report of runs."""
    return Report(
        "app:main", "plain text", datetime(2026, 1, 2, tzinfo=UTC), 1.0, {}, runs, complete
    )


def returned(kind: str, digest: str) -> Behaviour:
    """Make the behaviour of an app that came back with a value."""
    return Behaviour(ProbeOutcome.ACCEPTED, kind, digest)


@pytest.mark.parametrize(
    ("behaviour", "outcome"),
    [
        (returned("dict", "a"), ProbeOutcome.ACCEPTED),
        (returned("dict", "b"), ProbeOutcome.ACCEPTED),
        (returned("None", "n"), ProbeOutcome.NOTHING),
        (Behaviour(ProbeOutcome.CLEAN, "openai.APIError"), ProbeOutcome.CLEAN),
        (Behaviour(ProbeOutcome.CRASHED, "KeyError"), ProbeOutcome.CRASHED),
        (Behaviour(ProbeOutcome.CRASHED, "its process ended", lost=True), ProbeOutcome.CRASHED),
        (Behaviour(ProbeOutcome.HUNG, "did not return within 2 s", lost=True), ProbeOutcome.HUNG),
    ],
)
def test_each_behaviour_has_one_outcome(behaviour: Behaviour, outcome: ProbeOutcome) -> None:
    """A value is an acceptance, whichever; an exception is clean or a crash; and a leak outweighs
    them all.
    """
    assert judged(behaviour, [], "a")[0] is outcome
    assert judged(behaviour, [(2, "user")], "a")[0] is ProbeOutcome.LEAKED


def test_a_detail_tells_what_was_returned() -> None:
    """It tells a good result from another one, unless good results differ among themselves."""
    same, other, unknown = (
        judged(returned("dict", one), [], good)[1] for one, good in ("aa", "ba", ("a", None))
    )
    assert len({same, other, unknown}) == 3


def test_a_detail_tells_the_place() -> None:
    """A crash names the app's line, a leak the turn and the request, and what the app did then."""
    assert (
        "shop.py:7" in judged(Behaviour(ProbeOutcome.CRASHED, "KeyError at shop.py:7"), [], None)[1]
    )
    detail = judged(
        Behaviour(ProbeOutcome.HUNG, "not within 2 s"), [(3, "tool"), (3, "tool")], None
    )[1]
    assert ("tool turn of request 3" in detail, "2 s" in detail) == (True, True)


def test_every_finding_has_its_words() -> None:
    """Each outcome has a title, and each finding a meaning, something to do, and a place in the
    verdict.
    """
    assert [*OUTCOMES] == [*ProbeOutcome]
    assert all(words.title for words in OUTCOMES.values())
    assert all(meaning and remedy for meaning, remedy in FINDINGS.values())
    assert {one for one, words in OUTCOMES.items() if words.counted} == set(FINDINGS)


def test_a_report_counts_what_it_holds() -> None:
    """Findings, runs that took place and recoveries are counted apart."""
    runs = [run(outcome, recovered=outcome is ProbeOutcome.CLEAN) for outcome in ProbeOutcome]
    told = report(*runs)
    harms = [one.harm for one in told.findings]
    assert {one.outcome for one in told.findings} == set(FINDINGS)

    assert harms == sorted(harms, key=lambda harm: harm.rank)
    assert (len(told.applicable), told.recovered, told.survived) == (
        len(ProbeOutcome) - 1,
        1,
        False,
    )


def test_causes_join_what_one_change_would_mend() -> None:
    """The worst harm comes first, the most frequent cause first within it; of a cause one of every
    code comes first.
    """
    rare = run(ProbeOutcome.CRASHED, "a")
    often = run(ProbeOutcome.CRASHED, "b")
    other = replace(often, code="json.nested")
    again = replace(often, at="/other")
    told = report(
        run(ProbeOutcome.HUNG, "e"), rare, often, again, run(ProbeOutcome.ACCEPTED, "c"), other
    )
    assert [(cause.harm, cause.detail, len(runs)) for cause, runs in told.causes.items()] == [
        (Harm.ACTS, "c", 1),
        (Harm.CRASHES, "b", 3),
        (Harm.CRASHES, "a", 1),
        (Harm.DEGRADES, "e", 1),
    ]

    assert [one.code for one in told.causes[often.cause]] == [
        "json.syntax",
        "json.nested",
        "json.syntax",
    ]


def test_what_was_accepted_stands_by_what_was_not_looked_at() -> None:
    """Bad arguments and a formal fault of the response are two causes, though the app did the same
    with both.
    """
    bad = replace(run(ProbeOutcome.ACCEPTED), kind=Kind.ARGS, code="args.type")
    formal = replace(run(ProbeOutcome.ACCEPTED), kind=Kind.ENVELOPE, code="envelope.malformed")
    told = report(formal, formal, bad)
    assert [(cause.harm, len(runs)) for cause, runs in told.causes.items()] == [
        (Harm.ACTS, 1),
        (Harm.ACCEPTS, 2),
    ]


def from_source(outcome: ProbeOutcome, source: str) -> ProbeRun:
    """Make a run of the fault that ``source`` makes again."""
    return replace(run(outcome), source=source)


def test_a_baseline_tells_what_is_new_and_what_is_gone(tmp_path: Path) -> None:
    """A finding is known when it was one before, and as bad; one that was tried and is none any
    more is gone.
    """
    path = tmp_path / "earlier.json"
    before = [
        from_source(ProbeOutcome.CRASHED, source)
        for source in ("same", "worse", "fixed", "skipped")
    ]
    path.write_text(in_json(report(*before)), encoding="utf-8")
    now = replace(
        report(
            from_source(ProbeOutcome.CRASHED, "same"),
            from_source(ProbeOutcome.ACCEPTED, "worse"),
            from_source(ProbeOutcome.HUNG, "another"),
            from_source(ProbeOutcome.CLEAN, "fixed"),
            from_source(ProbeOutcome.NOT_APPLICABLE, "skipped"),
        ),
        baseline=Baseline.read(path),
    )
    assert {one.source for one in now.new} == {"worse", "another"}

    assert json.loads(in_json(now))["baseline"] == {"new": ["worse", "another"], "gone": ["fixed"]}
    suite = ET.fromstring(in_junit(now))[0]  # noqa: S314 - our own XML
    assert (suite.get("failures"), suite.get("skipped")) == ("2", "2")
    assert len(suite.findall("testcase/failure")) == 2

    skipped = [str(case.get("message")) for case in suite.findall("testcase/skipped")]
    # of "same" and of "skipped"
    assert ["baseline" in message for message in skipped] == [True, False]

    assert not now.survived


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"runs": [{}]}', '{"runs": 1}'])
def test_a_baseline_is_a_report(tmp_path: Path, text: str) -> None:
    """Any other file is a ValueError."""
    (tmp_path / "no.json").write_text(text)
    with pytest.raises(ValueError, match="--json"):
        Baseline.read(tmp_path / "no.json")


@pytest.mark.parametrize(
    ("told", "survived"),
    [
        (report(run(ProbeOutcome.CLEAN), run(ProbeOutcome.NOT_APPLICABLE)), True),
        (report(run(ProbeOutcome.CLEAN), complete=False), False),
        (report(run(ProbeOutcome.CLEAN), run(ProbeOutcome.HUNG)), False),
        (report(), False),
    ],
)
def test_only_a_whole_probe_without_findings_is_survival(told: Report, survived: bool) -> None:
    """An interrupted probe says so and proves nothing, nor does one that tried nothing."""
    assert told.survived is survived
    assert ("interrupted" in told.verdict) is not told.complete


def test_the_verdict_counts() -> None:
    """The sentence has the number of findings, of runs, and of each outcome that was seen."""
    told = report(
        run(ProbeOutcome.HUNG),
        run(ProbeOutcome.HUNG),
        run(ProbeOutcome.LEAKED),
        run(ProbeOutcome.CLEAN),
    ).verdict
    assert ("3 of 4" in told, "2 hung" in told, "1 leaked" in told, "accepted" in told) == (
        True,
        True,
        True,
        False,
    )


def test_a_run_is_named_with_its_place() -> None:
    """The identity of a run is the fault and the pointer."""
    assert ProbeRun("nan", Kind.JSON, "c", ProbeOutcome.CLEAN, "", at="/limit").id == "nan[/limit]"
    assert run(ProbeOutcome.CLEAN).id == "nan"


def test_a_loop_is_no_hang() -> None:
    """An app that had to be ended looped, whatever it did then; a leak outweighs that, too."""
    for behaviour in (Behaviour(ProbeOutcome.HUNG, "not within 2 s"), returned("dict", "b")):
        assert judged(behaviour, [], "a", looped=True)[0] is ProbeOutcome.LOOPED
        assert judged(behaviour, [(2, "tool")], "a", looped=True)[0] is ProbeOutcome.LEAKED


@pytest.mark.parametrize(
    ("behaviour", "outcome"),
    [
        (returned("dict", "b"), ProbeOutcome.ANSWERED_WITHOUT_TOOL),
        (returned("dict", "a"), ProbeOutcome.ACCEPTED),
        (returned("None", "n"), ProbeOutcome.NOTHING),
        (Behaviour(ProbeOutcome.CLEAN, "openai.APIError"), ProbeOutcome.CLEAN),
    ],
)
def test_a_value_without_the_tool_is_no_acceptance(
    behaviour: Behaviour, outcome: ProbeOutcome
) -> None:
    """Where no tool can have run, a value other than the good one is an answer without it; None and
    errors stay.
    """
    assert judged(behaviour, [], "a", without_tool=True)[0] is outcome


def test_a_crash_names_the_librarys_frame() -> None:
    """The detail has the app's line and the innermost frame of a library, and the run has the frame
    by itself.
    """
    crash = Behaviour(
        ProbeOutcome.CRASHED, "KeyError at shop.py:7", frame="openai._base:Client.post:12"
    )
    assert judged(crash, [], None)[1] == "KeyError at shop.py:7 in openai._base:Client.post"
    assert json.loads(in_json(FULL))["runs"][0].keys() >= {"frame", "detail"}


def test_nothing_is_accepted_where_nothing_is_the_good_result() -> None:
    """An app that returns None for good replies too has accepted; of good results that differ not
    both are None.
    """
    assert judged(returned("None", "n"), [], "n")[0] is ProbeOutcome.ACCEPTED
    assert judged(returned("None", "n"), [], None)[0] is ProbeOutcome.NOTHING


@pytest.mark.parametrize(
    ("good", "outcome"),
    [
        ("a", ProbeOutcome.READ),
        (None, ProbeOutcome.READ),
        ("b", ProbeOutcome.ACCEPTED),
    ],
)
def test_what_has_one_meaning_may_be_read(good: str | None, outcome: ProbeOutcome) -> None:
    """The result of the good reply is no finding then; another result is one."""
    found = returned("dict", "a")
    assert judged(found, [], good, one_meaning=True)[0] is outcome
    assert judged(found, [], good)[0] is ProbeOutcome.ACCEPTED


def test_the_members_are_fixed() -> None:
    """Outcomes are counted by name, and each run says what it was and what became of it."""
    told = json.loads(in_json(FULL))
    assert told["outcomes"] == {
        "accepted": 7,
        "crashed": 7,
        "hung": 7,
        "looped": 7,
        "misbehaved": 7,
        "answered_without_tool": 7,
        "leaked": 7,
        "unknown": 7,
        "nothing": 7,
        "read": 7,
        "clean": 7,
        "recovered": 7,
        "not_applicable": 7,
    }

    assert {"app", "asks", "started", "seconds", "versions", "complete", "survived"} <= set(told)
    assert Counter(run["outcome"] for run in told["runs"]) == {
        outcome.value: 7 for outcome in ProbeOutcome
    }
    first = told["runs"][0]
    assert (first["fault"], first["kind"], first["at"], first["seconds"]) == (
        "fault_0",
        "json",
        "/limit",
        0.25,
    )

    assert {"code", "detail", "requests", "recovered", "source", "served"} <= set(first)


def test_survival_is_said() -> None:
    """A whole probe without findings survived; an interrupted one did not."""
    assert json.loads(in_json(SURVIVED))["survived"] is True
    assert (
        json.loads(in_json(reports.report(ProbeOutcome.CLEAN, complete=False)))["survived"] is False
    )


def test_a_finding_is_a_failure() -> None:
    """Each run is a test case: findings fail, what does not apply is skipped, the rest pass; the
    counts agree.
    """
    suite = ET.fromstring(in_junit(FULL))[0]  # noqa: S314 - our own XML
    assert (suite.tag, suite.get("tests"), suite.get("errors")) == ("testsuite", "84", "7")
    assert (suite.get("failures"), suite.get("skipped")) == ("49", "7")
    assert len(suite.findall("testcase")) == 84

    failed = [case for case in suite if case.find("failure") is not None]
    assert [case.get("name") for case in failed] == [
        run.id for run in FULL.runs if run.outcome in FINDINGS
    ]
    assert len(suite.findall("testcase/skipped")) == 7


def test_a_failure_says_how_to_see_it_again() -> None:
    """Its text holds what was served as text, the code, and both lines to look and to reproduce."""
    failure = ET.fromstring(in_junit(FULL)).find(".//failure")  # noqa: S314 - our own XML
    assert failure is not None
    assert failure.get("type") == ProbeOutcome.ACCEPTED.value
    text = failure.text or ""
    assert all(
        word in text
        for word in (HOSTILE, "args.type", "strictreply faults --show", "llm.script(faults.")
    )


def test_survival_has_no_failures() -> None:
    """A good report is a green suite; its root is what pytest writes."""
    root = ET.fromstring(in_junit(SURVIVED))  # noqa: S314 - our own XML
    assert (root.tag, root[0].get("failures"), root[0].get("time")) == ("testsuites", "0", "12.500")
    assert root.findall(".//failure") == []
