"""Verdicts on the client: how it asked again, and what ran before it refused, whatever came of the reply."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import pytest

import strictreply
from strictreply.testing import Asked, faults
from strictreply.testing._probing.client_verdicts import STORM, ClientVerdict, Watch, verdict_on
from strictreply.testing._probing.subjects import ProbeWorker
from strictreply.testing._probing.survival_probe import Probe
from strictreply.testing._probing.survival_report import ProbeRun
from strictreply.testing._steps import Fault
from testing.probing import sample_apps

SAMPLES = Path(sample_apps.__file__).parent


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a worker import the library and the sample apps."""
    folders = [SAMPLES, Path(strictreply.__file__).parents[1]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))


def probed(app: str, fault: str) -> ProbeRun:
    """Probe a sample app in a process of its own with one fault and give the run."""
    probe = Probe(app, lambda url: ProbeWorker.start(f"sample_apps:{app}", url, ()), names=[fault], jobs=1)
    asyncio.run(probe.run(on_plan=lambda *_: None, on_run=lambda _: None))
    report = probe.report()
    assert report is not None
    return report.runs[0]


@pytest.mark.parametrize(
    ("app", "fault", "outcome", "verdict", "harm"),
    [
        ("hasty", "number_as_text", "misbehaved", "tool_run_on_refused_reply", "acts on invalid data"),
        ("strict", "number_as_text", "clean", None, None),
        ("storming", "internal_server_error", "misbehaved", "retry_storm", "degrades"),
        ("sleepy", "internal_server_error", "clean", None, None),
        ("sleepy", "rate_limited_seconds", "misbehaved", "retry_after_ignored", "degrades"),
        ("sleepy", "rate_limited_zero", "clean", None, None),
        ("sleepy", "rate_limited_hour", "clean", None, None),
        ("obedient", "rate_limited_seconds", "clean", None, None),
        ("obedient", "rate_limited_milliseconds", "clean", None, None),
        ("obedient", "rate_limited_date", "clean", None, None),
        ("trusting_stream", "stream_ends_early", "accepted", "truncated_stream_accepted", "acts on invalid data"),
    ],
)
def test_a_probe_sees_what_a_client_does_on_the_way(
    app: str, fault: str, outcome: str, verdict: str | None, harm: str | None
) -> None:
    """An app in another process: what it ran, how long it meant to wait, how often it asked, and what it took."""
    run = probed(app, fault)
    assert (run.outcome, run.verdict) == (outcome, verdict)
    assert harm in {None, run.harm}


def asked(times: int) -> list[Asked]:
    """Ask the same as often."""
    return [Asked(number + 1, {"model": "m", "messages": []}, None) for number in range(times)]


def verdict(fault: Fault, times: int, waited: float) -> ClientVerdict | None:
    """Judge a client that refused."""
    found = verdict_on(fault, asked(times), returned=False, waited=waited, ran=[])
    return None if found is None else found[0]


@pytest.mark.parametrize(("waited", "ignored"), [(0.0, True), (3.9, True), (4.0, False), (9.0, False)])
def test_retry_after_counts_for_each_repeat(waited: float, ignored: bool) -> None:
    """Two repeats after a Retry-After of two seconds are four seconds apart at least."""
    found = verdict(faults.rate_limited_seconds(), 3, waited)
    assert (found is ClientVerdict.RETRY_AFTER_IGNORED) is ignored


def test_a_storm_is_many_repeats_without_a_pause() -> None:
    """One repeat less is none, a pause makes it none, and requests that differ are no repeats."""
    fault = faults.internal_server_error()
    assert verdict(fault, STORM + 1, 0.0) is ClientVerdict.RETRY_STORM
    assert verdict(fault, STORM, 0.0) is None
    assert verdict(fault, STORM + 1, 1.0) is None
    grown = [Asked(number, {"messages": [{"role": "user"}] * number}, None) for number in range(1, 10)]
    assert verdict_on(fault, grown, returned=False, waited=0.0, ran=[]) is None


def test_a_watch_counts_waits_and_tools_of_the_app_alone() -> None:
    """Sleeps of threads and of the event loop are counted, and functions of the app by their names; begun anew."""
    watch = Watch()

    def search() -> None:
        """Be the app's tool."""

    with watch.open():
        watch.begin(["search", "dumps"])
        time.sleep(0.001)
        asyncio.run(asyncio.sleep(0.002))
        json.dumps({})  # of a library, though it is named as a tool
        search()
        assert (round(watch.waited, 6), watch.ran) == (0.003, ["search"])
        watch.begin([])
        search()
        assert (watch.waited, watch.ran) == (0.0, [])
    assert time.sleep.__module__ == "time"
