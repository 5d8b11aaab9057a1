"""Verdicts on the client, whatever came of the reply.

They are on how it asked again, and on what ran before it refused.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import strictreply
from strictreply.testing import Asked, Fault, faults
from strictreply.testing._probing.client_verdicts import STORM, AppWatch, question, verdict_on
from strictreply.testing.probing import Probe
from strictreply.testing.subjects import ProbeWorker
from strictreply.testing.survival import ClientVerdict, ProbeRun
from support.testing.probing import sample_apps

SAMPLES = Path(sample_apps.__file__).parent


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the library and the sample apps importable in a worker."""
    folders = [SAMPLES, Path(strictreply.__file__).parents[1]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))


BEHAVIOURS = [
    ("hasty", "number_as_text", "misbehaved", "tool_run_on_refused_reply", "acts on invalid data"),
    (
        "hasty_and_stuck",
        "number_as_text",
        "misbehaved",
        "tool_run_on_refused_reply",
        "acts on invalid data",
    ),
    ("hasty_and_leaking", "number_as_text", "leaked", "tool_run_on_refused_reply", "leaks"),
    ("strict", "number_as_text", "clean", None, None),
    ("looking_up", "number_as_text", "clean", None, None),
    ("looking_up", "rate_limited_seconds", "clean", None, None),
    ("storming", "internal_server_error", "misbehaved", "retry_storm", "degrades"),
    ("sleepy", "internal_server_error", "clean", None, None),
    ("fanning", "internal_server_error", "clean", None, None),
    ("fanning", "rate_limited_seconds", "clean", None, None),
    ("sleepy", "rate_limited_seconds", "misbehaved", "retry_after_ignored", "degrades"),
    ("sleepy", "rate_limited_zero", "clean", None, None),
    ("sleepy", "rate_limited_hour", "clean", None, None),
    ("waiting", "service_unavailable", "clean", None, None),
    ("obedient", "rate_limited_seconds", "clean", None, None),
    ("obedient", "rate_limited_milliseconds", "clean", None, None),
    ("obedient", "rate_limited_date", "clean", None, None),
    (
        "trusting_stream",
        "stream_ends_early",
        "accepted",
        "truncated_stream_accepted",
        "acts on invalid data",
    ),
    ("hopeful", "number_as_text", "nothing", None, None),
    ("hasty_by_another_name", "number_as_text", "unknown", None, None),
    ("hasty_by_another_name", "internal_server_error", "clean", None, None),
    ("hasty_and_silent", "number_as_text", "unknown", None, None),
    ("hasty_in_place", "number_as_text", "unknown", None, None),
    ("hasty_lambda", "number_as_text", "unknown", None, None),
    (
        "hasty_agent",
        "number_as_text",
        "misbehaved",
        "tool_run_on_refused_reply",
        "acts on invalid data",
    ),
    ("careful_by_another_name", "number_as_text", "clean", None, None),
]


@cache
def probed(app: str) -> dict[str, ProbeRun]:
    """Probe a sample app in one process of its own with its faults of the table.

    The first run of each fault is returned.
    """
    names = list(dict.fromkeys(row[1] for row in BEHAVIOURS if row[0] == app))
    probe = Probe(
        app, lambda url: ProbeWorker.start(f"sample_apps:{app}", url, ()), faults=names, jobs=1
    )
    probe.run(on_plan=lambda *_: None, on_run=lambda _: None)
    report = probe.report()
    assert report is not None
    return {run.fault: run for run in reversed(report.runs)}


@pytest.mark.one_lane
@pytest.mark.parametrize(("app", "fault", "outcome", "verdict", "harm"), BEHAVIOURS)
def test_a_probe_sees_what_a_client_does_on_the_way(
    app: str, fault: str, outcome: str, verdict: str | None, harm: str | None
) -> None:
    """An app in another process: what it ran, how long it waited, how often it asked, and what it
    took.
    """
    run = probed(app)[fault]
    assert (run.outcome, run.verdict) == (outcome, verdict)
    assert harm in {None, run.harm}


def asked(times: int, seconds: float = 0.0, **more: object) -> list[Asked]:
    """Ask the same as often, so far apart."""
    return [
        Asked(number + 1, {"messages": [], **more}, None, None, number * seconds)
        for number in range(times)
    ]


def verdict(
    fault: Fault, requests: list[Asked], skipped: float | None = 0.0
) -> ClientVerdict | None:
    """Judge a client that refused."""
    found = verdict_on(fault, requests, skipped=skipped)
    return None if found is None else found[0]


@pytest.mark.parametrize(
    ("seconds", "skipped", "ignored"),
    [
        (0.0, 0.0, True),
        (1.9, 0.0, True),
        (2.0, 0.0, False),
        (0.0, 4.0, False),
        (1.0, 2.0, False),
        (0.0, None, False),
    ],
)
def test_retry_after_counts_for_each_repeat(
    seconds: float, skipped: float | None, ignored: bool
) -> None:
    """Two repeats after a Retry-After of two seconds take four seconds, of waits that took place or
    were skipped.
    """
    found = verdict(faults.rate_limited_seconds(), asked(3, seconds), skipped)
    assert (found is ClientVerdict.RETRY_AFTER_IGNORED) is ignored


def test_a_storm_is_many_repeats_without_a_pause() -> None:
    """One repeat less is none, nor are repeats with pauses and other questions; other members do
    not hide one.
    """
    fault = faults.internal_server_error()
    assert verdict(fault, asked(STORM + 1)) is ClientVerdict.RETRY_STORM
    assert verdict(fault, asked(STORM)) is None
    assert verdict(fault, asked(STORM + 1, 1.0)) is None

    assert verdict(fault, asked(STORM + 1), 1.0) is None
    grown = [
        Asked(number, {"messages": [{"role": "user"}] * number}, None) for number in range(1, 10)
    ]
    assert verdict(fault, grown) is None
    marked = [replace(one, body={**one.body, "user": str(one.number)}) for one in asked(STORM + 1)]
    assert verdict(fault, marked) is ClientVerdict.RETRY_STORM


def test_a_client_that_never_asked_repeats_nothing() -> None:
    """An app that fails before its first request has no verdict."""
    assert verdict(faults.rate_limited_seconds(), []) is None


def test_a_client_that_always_asks_several_times_repeats_nothing() -> None:
    """Requests that it also repeats with good replies are no repeats."""
    usual = {question({"messages": []}): STORM + 1}
    assert verdict_on(faults.internal_server_error(), asked(STORM + 1), usual=usual) is None


def test_a_watch_sees_tools_of_the_app_alone() -> None:
    """Functions of the app are told by their names, with the time; those of a library are not, nor
    others.
    """
    told: list[str] = []
    watch = AppWatch(lambda name, _: told.append(name))

    def search() -> None:
        """Be the app's tool."""

    with watch.open():
        watch.begin(["search", "dumps"])
        json.dumps({})  # of a library, though it is named as a tool
        search()
        assert (watch.skipped.seconds, told) == (0.0, ["search"])

        watch.begin([])
        search()

    assert told == ["search"]
