"""A report with something of everything in it, hostile text included."""

from __future__ import annotations

from datetime import UTC, datetime

from strictreply.testing import Kind
from strictreply.testing.survival import ClientVerdict, ProbeOutcome, ProbeRun, Report

HOSTILE = "<script>document.title='owned'</script> & </pre> ]]> \"'"
"""What would act on a page, if it were not text."""

_DETAILS = {
    ProbeOutcome.ACCEPTED: "returned dict; a good reply returns another value",
    ProbeOutcome.CRASHED: "KeyError at shop.py:42",
    ProbeOutcome.HUNG: "did not return within 10 s",
    ProbeOutcome.LOOPED: "sent requests until it was ended; then openai.BadRequestError",
    ProbeOutcome.ANSWERED_WITHOUT_TOOL: "returned dict, and no tool ran",
    ProbeOutcome.MISBEHAVED: "ran refund with a reply that it refused later; "
    "then Refused at shop.py:7",
    ProbeOutcome.LEAKED: "the user turn of request 2 quoted the reply; then KeyError at shop.py:42",
    ProbeOutcome.UNKNOWN: "raised Refused; whether it acted before is unknown",
    ProbeOutcome.NOTHING: "returned None; a good reply returns another value",
    ProbeOutcome.READ: "returned dict; a good reply returns the same",
    ProbeOutcome.CLEAN: "openai.APIError",
    ProbeOutcome.NOT_APPLICABLE: "needs a request with stream=True",
}


def run(number: int, outcome: ProbeOutcome, kind: Kind) -> ProbeRun:
    """Make one run."""
    name = f"fault_{number}"
    return ProbeRun(
        fault=name,
        kind=kind,
        code="args.type",
        outcome=outcome,
        detail=_DETAILS[outcome],
        verdict=ClientVerdict.TOOL_RUN_ON_REFUSED_REPLY
        if outcome is ProbeOutcome.MISBEHAVED
        else None,
        at="/limit",
        summary="A value is of another type.",
        seconds=0.25,
        requests=2,
        recovered=outcome is ProbeOutcome.CLEAN,
        source=f"faults.{name}(search, '/limit')",
        served=f"arguments reads {HOSTILE}",
    )


def report(*outcomes: ProbeOutcome, complete: bool = True) -> Report:
    """Make a report with one run an outcome, in turn of every kind."""
    kinds = list(Kind)
    runs = tuple(
        run(number, outcome, kinds[number % len(kinds)]) for number, outcome in enumerate(outcomes)
    )
    versions = {"Python": "3.11.7", "openai": "3.54.0"}
    started = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    return Report(
        f"shop:app {HOSTILE}", "native calls of search", started, 12.5, versions, runs, complete
    )


FULL = report(*([*ProbeOutcome] * 7))
"""Seven runs of each outcome."""

SURVIVED = report(ProbeOutcome.CLEAN, ProbeOutcome.NOT_APPLICABLE)
