"""The JSON of a report is what other programs read: its members and its words are fixed."""

from __future__ import annotations

import json
from collections import Counter

from strictreply.testing._probing.outcomes import Outcome
from strictreply.testing._probing.report_json import report_json
from testing.probing.reports import FULL, SURVIVED, report


def test_the_members_are_fixed() -> None:
    """Outcomes are counted by name, and each run says what it was and what became of it."""
    told = json.loads(json.dumps(report_json(FULL)))
    assert told["outcomes"] == {
        "accepted": 7,
        "crashed": 7,
        "hung": 7,
        "leaked": 7,
        "nothing": 7,
        "clean": 7,
        "recovered": 7,
        "not_applicable": 7,
    }
    assert {"app", "asks", "started", "seconds", "versions", "complete", "survived"} <= set(told)
    assert Counter(run["outcome"] for run in told["runs"]) == {outcome.value: 7 for outcome in Outcome}
    first = told["runs"][0]
    assert (first["fault"], first["kind"], first["at"], first["seconds"]) == ("fault_0", "json", "/limit", 0.25)
    assert {"code", "detail", "requests", "recovered", "source", "served"} <= set(first)


def test_survival_is_said() -> None:
    """A whole probe without findings survived; an interrupted one did not."""
    assert report_json(SURVIVED)["survived"] is True
    assert report_json(report(Outcome.CLEAN, complete=False))["survived"] is False
