"""A probe runs every applicable fault, and says of each what the app did: of a strict app nothing bad."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import pytest

from strictreply.testing._demands import Demand
from strictreply.testing._probing.outcomes import Outcome, Report, Run
from strictreply.testing._probing.probe import Probe
from strictreply.testing._steps import Kind
from strictreply.testing.faults import CATALOGUE
from testing.probing import sample_apps
from testing.probing.fake_subjects import Hanging, InProcess, connecting

BY_THE_MODEL = (Kind.JSON, Kind.SHAPE, Kind.TOOL, Kind.ARGS, Kind.ENVELOPE, Kind.FINISH)
SOME = ("trailing_comma", "duplicate_key", "cut_at_length", "unknown_tool", "empty_choices", "wrong_type")


def probed(
    app: Callable[[str], object],
    on_run: Callable[[Run], None] = lambda _: None,
    kind: type[InProcess] = InProcess,
    **options: Any,
) -> Report:
    """Probe one of the sample apps."""
    planned: list[tuple[Demand, int]] = []
    probe = Probe("sample:app", connecting(app, kind=kind), **({"timeout": 30.0} | options))
    assert probe.report() is None
    try:
        asyncio.run(probe.run(on_plan=lambda demand, runs: planned.append((demand, runs)), on_run=on_run))
    except KeyboardInterrupt:
        pass
    else:
        assert [runs for _, runs in planned] == [len(found.applicable) for found in [probe.report()] if found]
    report = probe.report()
    assert report is not None
    return report


def outcomes(report: Report) -> Counter[Outcome]:
    """Count the outcomes of what was tried."""
    return Counter(run.outcome for run in report.applicable)


def test_a_strict_app_survives_whatever_a_model_writes() -> None:
    """No fault of a model gets through an app that judges the whole reply first."""
    report = probed(sample_apps.strict, kinds=BY_THE_MODEL)
    assert report.survived
    assert outcomes(report).keys() == {Outcome.CLEAN}
    assert {run.fault for run in report.runs} == {name for name, one in CATALOGUE.items() if one.kind in BY_THE_MODEL}
    assert (len(report.applicable) > 150, report.recovered) == (True, 0)


def test_a_careless_app_is_found_out() -> None:
    """An app that takes what comes accepts or crashes, and the detail names its own line."""
    report = probed(sample_apps.careless, names=SOME)
    found = {run.fault: run.outcome for run in report.runs}
    assert found["trailing_comma"] is found["empty_choices"] is Outcome.CRASHED
    assert found["duplicate_key"] is found["unknown_tool"] is Outcome.ACCEPTED
    assert not report.survived


def test_an_app_that_asks_again_is_seen_to_recover() -> None:
    """Requests are counted, and good replies after the fault give the good result."""
    report = probed(sample_apps.retrying, names=SOME)
    assert outcomes(report).keys() == {Outcome.CLEAN}
    assert {run.requests for run in report.applicable} == {3}
    assert report.recovered == len(report.applicable)


def test_what_the_model_wrote_is_traced_into_the_next_prompt() -> None:
    """An app that tells the model its own words leaks, whatever else it does; words that are nobody's are no leak."""
    report = probed(sample_apps.leaking, names=("unquoted_string", "unescaped_quotes", "empty_text"))
    found = {run.fault: run.outcome for run in report.runs}
    assert (found["unquoted_string"], found["empty_text"]) == (Outcome.LEAKED, Outcome.CRASHED)
    assert all("request 2" in run.detail for run in report.of(Outcome.LEAKED))


def test_an_app_that_does_not_come_back_is_hung() -> None:
    """A hang costs one run; the others go on."""
    report = probed(sample_apps.strict, names=SOME[:2], timeout=1.0, kind=Hanging)
    assert outcomes(report) == {Outcome.HUNG: len(report.applicable)}


@pytest.mark.parametrize("jobs", [1, 3, 64])
def test_runs_are_in_the_catalogues_order(jobs: int) -> None:
    """However many run side by side, each fault is tried once and told in order, as it ends and in the report."""
    seen: list[Run] = []
    report = probed(sample_apps.strict, seen.append, names=SOME, jobs=jobs)
    order = list(CATALOGUE)
    assert [run.fault for run in report.runs] == sorted((run.fault for run in report.runs), key=order.index)
    assert Counter(run.source for run in seen) == Counter(run.source for run in report.applicable)
    assert report.complete


def test_an_interrupted_probe_tells_what_it_has() -> None:
    """After Ctrl-C the report holds what was tried, and says that it is not all."""

    def interrupt(_: Run) -> None:
        """Be Ctrl-C."""
        raise KeyboardInterrupt

    report = probed(sample_apps.strict, interrupt, names=SOME, jobs=1)
    assert (len(report.applicable), report.complete, report.survived) == (1, False, False)


def only(names: Collection[str]) -> dict[str, Any]:
    """Choose faults that an app meets without a wait."""
    return {"names": names, "timeout": 30.0}


def test_broken_connections_and_errors_are_served() -> None:
    """Faults of HTTP and of the connection reach the app as they are: its client says so."""
    names = ("internal_server_error", "reset_before_response", "half_body", "html_page", "closed_before_response")
    report = probed(sample_apps.strict, **only(names))
    assert (len(report.applicable), report.survived) == (len(names), True)


def test_a_report_names_what_was_probed() -> None:
    """The app, what it asks for, when, how long and with which versions."""
    report = probed(sample_apps.strict, names=("nan",))
    assert (report.app, report.versions, report.started.tzinfo is not None) == ("sample:app", {"app": "1"}, True)
    assert "refund" in report.asks
