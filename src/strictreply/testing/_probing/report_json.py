"""The report as JSON, for programs."""

from __future__ import annotations

from strictreply.testing._probing.outcomes import Outcome, Report, Run
from strictreply.values._json import JSON, JSONObject

_DECIMALS = 3


def report_json(report: Report) -> JSONObject:
    """Give the whole report as JSON-safe values; ``served`` of a run is an excerpt of hostile text, made printable."""
    outcomes: JSONObject = {outcome.value: len(report.of(outcome)) for outcome in Outcome}
    return {
        "app": report.app,
        "asks": report.asks,
        "started": report.started.isoformat(timespec="seconds"),
        "seconds": round(report.seconds, _DECIMALS),
        "versions": dict(report.versions),
        "complete": report.complete,
        "survived": report.survived,
        "outcomes": outcomes | {"recovered": report.recovered},
        "runs": [_run(run) for run in report.runs],
    }


def _run(run: Run) -> JSON:
    """Give one run."""
    return {
        "fault": run.fault,
        "kind": run.kind.value,
        "code": run.code,
        "at": run.at,
        "outcome": run.outcome.value,
        "detail": run.detail,
        "seconds": round(run.seconds, _DECIMALS),
        "requests": run.requests,
        "recovered": run.recovered,
        "source": run.source,
        "served": run.served,
    }
