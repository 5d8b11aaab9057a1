"""The probe: rehearsed with good replies, it tries each fault once.

What becomes of the app is reported.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pytest

import strictreply as sr
from strictreply import Invalid
from strictreply.core import JSONObject
from strictreply.testing import HTTPReply, Kind
from strictreply.testing._probing.rehearsal import Rehearsal, rehearse
from strictreply.testing._probing.trials import planned
from strictreply.testing._scripts import Demand, DemandHints
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.probing import Probe
from strictreply.testing.subjects import ProbeStage
from strictreply.testing.survival import ProbeOutcome, ProbeRun, Report, Unusable
from support.tasks import unretrieved
from support.testing.probing import sample_apps
from support.testing.probing.fake_subjects import Hanging, InProcess, connecting
from support.testing.probing.sample_apps import QUESTION, REFUND

pytestmark = pytest.mark.one_lane

PING: dict[str, Any] = {
    "type": "function",
    "function": {"name": "ping", "parameters": {"type": "object"}},
}
FORMAT = {
    "type": "json_schema",
    "json_schema": {"name": "Refund", "schema": REFUND["function"]["parameters"]},
}


# The default is a frozen value.
def demand(hints: DemandHints = DemandHints(), **keywords: Any) -> Demand:  # noqa: B008
    """Read a request."""
    return Demand({"model": "m", "messages": [QUESTION], **keywords}, hints)


DEMANDS = {
    "call": demand(tools=[REFUND]),
    "several": demand(tools=[PING, REFUND], parallel_tool_calls=False),
    "forced": demand(
        tools=[REFUND], tool_choice={"type": "function", "function": {"name": "refund"}}
    ),
    "required": demand(tools=[REFUND], tool_choice="required"),
    "streamed": demand(tools=[REFUND], stream=True),
    "union": demand(DemandHints(tools=(REFUND,))),
    "json": demand(response_format=FORMAT),
    "prose": demand(),
}


@pytest.mark.parametrize("asked", DEMANDS.values(), ids=DEMANDS)
def test_every_trial_is_refused_by_the_apps_own_contract(asked: Demand) -> None:
    """Each served fault is no completion, or one that the contract of that very request refuses."""
    trials, _ = planned(asked)
    assert {trial.fault.kind for trial in trials} >= {
        Kind.ENVELOPE,
        Kind.FINISH,
        Kind.TRANSPORT,
        Kind.HTTP,
    }

    for trial in trials:
        served = trial.fault.served
        assert isinstance(served, HTTPReply) or isinstance(
            asked.contract.check(served, api="chat"), Invalid
        )


@pytest.mark.parametrize("asked", DEMANDS.values(), ids=DEMANDS)
def test_every_entry_is_tried_or_explained(asked: Demand) -> None:
    """Each entry of the catalogue has trials, or one run that says why it has none; no trial comes
    twice.
    """
    trials, others = planned(asked)
    tried = {trial.fault.name for trial in trials}
    explained = {run.fault for run in others}
    assert tried | explained == set(CATALOGUE)
    assert not tried & explained
    assert len({trial.run.source for trial in trials}) == len(trials)
    assert all(run.outcome is ProbeOutcome.NOT_APPLICABLE and run.detail for run in others)


def test_what_needs_a_stream_is_for_apps_that_stream() -> None:
    """Faults of event streams are tried where the request asks for one."""
    for name, asked in DEMANDS.items():
        assert bool(planned(asked, kinds=[Kind.STREAM])[0]) is (name == "streamed")


def test_a_trial_is_spelled_as_python() -> None:
    """The name of a tool stands for its variable; what no variable can have in its name is an
    underscore.
    """
    dashed: dict[str, Any] = {
        "type": "function",
        "function": {"name": "get-weather", "parameters": {"type": "object"}},
    }
    trials, _ = planned(demand(tools=[dashed]), names=("trailing_comma", "unknown_tool"))
    assert trials

    for trial in trials:
        compile(trial.run.source, "source", "eval")

    assert "faults.unknown_tool(get_weather)" in {trial.run.source for trial in trials}


def test_an_unasked_stream_is_for_apps_that_do_not_stream() -> None:
    """To a request for a stream it would be the good reply."""
    for name, asked in DEMANDS.items():
        assert bool(planned(asked, names=["unasked_stream"])[0]) is (name != "streamed")


def test_arguments_are_spoiled_in_every_tool() -> None:
    """The arguments of each of several tools are tried; everything else once."""
    trials, _ = planned(DEMANDS["several"])
    spoiled = {trial.target.name for trial in trials if trial.fault.kind is Kind.ARGS}
    others = {trial.target.name for trial in trials if trial.fault.kind is not Kind.ARGS}
    assert spoiled == {"ping", "refund"}
    assert others == {"ping"}


def test_a_plan_may_be_chosen() -> None:
    """Kinds and names choose from the catalogue; what was not chosen is not spoken of."""
    trials, others = planned(DEMANDS["call"], kinds=[Kind.FINISH], names=["cut_at_length", "nan"])
    assert ({trial.fault.name for trial in trials}, others) == ({"cut_at_length"}, [])


def test_a_trial_becomes_a_run() -> None:
    """A run carries what a person needs to see the fault again: its name, place, excerpt and
    source.
    """
    trial = next(
        trial
        for trial in planned(DEMANDS["call"], names=["wrong_type"])[0]
        if trial.fault.at == "/order"
    )
    run = trial.run
    assert (run.fault, run.at, run.code, run.kind) == (
        "wrong_type",
        "/order",
        "args.type",
        Kind.ARGS,
    )

    tried = next(
        run
        for run in probed(sample_apps.retrying, faults=["wrong_type"]).runs
        if run.at == "/order"
    )
    judged = replace(run, outcome=ProbeOutcome.CLEAN, detail=tried.detail)
    assert tried == replace(judged, seconds=tried.seconds, requests=3, recovered=True)
    assert run.source == "faults.wrong_type(refund, '/order')"

    assert "arguments" in run.served


def test_given_arguments_are_those_that_are_spoiled() -> None:
    """When the user says which arguments are good, the faults are made on them, and say so."""
    asked = demand(DemandHints(args={"order": 1042, "reason": "late"}), tools=[REFUND])
    trial = planned(asked, names=["trailing_comma"])[0][0]
    assert "1042" in trial.run.source
    assert "1042" in trial.run.served


NOTHING = DemandHints()
_numbers = itertools.count()


def rehearsed(app: Callable[[str], object], hints: DemandHints = NOTHING) -> Rehearsal:
    """Rehearse one of the sample apps."""

    async def run() -> Rehearsal:
        """Rehearse, and close."""
        stage = ProbeStage(connecting(app), timeout=30)
        try:
            return await rehearse(stage, hints)
        finally:
            await stage.close()

    return asyncio.run(run())


def changing(base_url: str) -> object:
    """Return a different result each time."""
    return sample_apps.strict(base_url), next(_numbers)


def asking_for_the_impossible(base_url: str) -> object:
    """Ask with a format that nobody knows."""
    return sample_apps.ask(base_url, [sample_apps.QUESTION], response_format={"type": "grammar"})


def test_the_first_request_is_learnt() -> None:
    """A rehearsal knows what the app asks for, and what it returns for good replies."""
    rehearsal = rehearsed(sample_apps.strict)
    assert [target.name for target in rehearsal.demand.targets] == ["refund"]
    assert rehearsal.good is not None
    assert rehearsal.versions == {"app": "1"}


def test_results_that_always_differ_are_no_measure() -> None:
    """When two good runs differ there is no good result to compare with."""
    assert rehearsed(changing).good is None


@pytest.mark.parametrize(
    ("app", "words"),
    [
        (sample_apps.never_asking, "without asking"),
        (sample_apps.never_working, "Refused"),
        (asking_for_the_impossible, "--good"),
    ],
)
def test_what_does_not_work_is_not_probed(app: Callable[[str], object], words: str) -> None:
    """An app that asks nobody, fails with good replies or asks for the impossible is told so."""
    with pytest.raises(Unusable, match=words):
        rehearsed(app)


def test_a_failure_with_good_replies_shows_the_served_call() -> None:
    """What the app was given is in the message, and that the fault may be the app's own."""
    with pytest.raises(Unusable, match=r"KeyError.*given refund\(\{.*\}\).*in the app"):
        rehearsed(sample_apps.failing_handler)


def test_good_arguments_are_served() -> None:
    """The user's good arguments are what the app gets; those that do not fit are refused."""
    order: JSONObject = {"order": 1042, "reason": "broken"}
    assert (
        rehearsed(sample_apps.strict, DemandHints(args=order)).good
        != rehearsed(sample_apps.strict).good
    )
    with pytest.raises(Unusable, match="fit"):
        rehearsed(sample_apps.strict, DemandHints(args={"order": "many"}))


BY_THE_MODEL = (Kind.JSON, Kind.SHAPE, Kind.TOOL, Kind.ARGS, Kind.ENVELOPE, Kind.FINISH)
SOME = (
    "trailing_comma",
    "duplicate_key",
    "cut_at_length",
    "unknown_tool",
    "empty_choices",
    "wrong_type",
)


def probed(
    app: Callable[[str], object],
    on_run: Callable[[ProbeRun], None] = lambda _: None,
    kind: type[InProcess] = InProcess,
    **options: Any,
) -> Report:
    """Probe one of the sample apps."""
    planned: list[tuple[str, int]] = []
    probe = Probe("sample:app", connecting(app, kind=kind), **({"timeout": 30.0} | options))
    assert probe.report() is None

    try:
        probe.run(on_plan=lambda asks, runs: planned.append((asks, runs)), on_run=on_run)
    except (KeyboardInterrupt, SystemExit):
        pass
    else:
        assert [runs for _, runs in planned] == [
            len(found.applicable) for found in [probe.report()] if found
        ]

    report = probe.report()
    assert report is not None
    return report


def outcomes(report: Report) -> Counter[ProbeOutcome]:
    """Count the outcomes of what was tried."""
    return Counter(run.outcome for run in report.applicable)


def test_a_strict_app_survives_whatever_a_model_writes() -> None:
    """No fault of a model gets through an app that judges the whole reply first."""
    report = probed(sample_apps.strict, kinds=BY_THE_MODEL)
    assert report.survived
    assert outcomes(report).keys() == {ProbeOutcome.CLEAN}
    assert {run.fault for run in report.runs} == {
        name for name, one in CATALOGUE.items() if one.kind in BY_THE_MODEL
    }
    assert (len(report.applicable) > 150, report.recovered) == (True, 0)


def test_a_careless_app_is_found_out() -> None:
    """An app that takes what comes accepts or crashes, and the detail names its own line."""
    report = probed(sample_apps.careless, faults=SOME)
    found = {run.fault: run.outcome for run in report.runs}
    assert found["trailing_comma"] is found["empty_choices"] is ProbeOutcome.CRASHED
    assert found["duplicate_key"] is found["unknown_tool"] is ProbeOutcome.ACCEPTED
    assert not report.survived


def test_an_app_that_asks_again_is_seen_to_recover() -> None:
    """Requests are counted, and good replies after the fault give the good result."""
    report = probed(sample_apps.retrying, faults=SOME)
    assert outcomes(report).keys() == {ProbeOutcome.CLEAN}
    assert {run.requests for run in report.applicable} == {3}
    assert report.recovered == len(report.applicable)


def test_what_the_model_wrote_is_traced_into_the_next_prompt() -> None:
    """An app that tells the model its own words leaks, whatever else it does; words that are
    nobody's are no leak.
    """
    report = probed(
        sample_apps.leaking, faults=("unquoted_string", "unescaped_quotes", "empty_text")
    )
    found = {run.fault: run.outcome for run in report.runs}
    assert (found["unquoted_string"], found["empty_text"]) == (
        ProbeOutcome.LEAKED,
        ProbeOutcome.CRASHED,
    )

    assert all("request 2" in run.detail for run in report.of(ProbeOutcome.LEAKED))


def test_an_app_that_does_not_come_back_is_hung() -> None:
    """A hang costs one run; the others go on."""
    report = probed(sample_apps.strict, faults=SOME[:2], timeout=1.0, kind=Hanging)
    assert outcomes(report) == {ProbeOutcome.HUNG: len(report.applicable)}


@pytest.mark.parametrize("jobs", [1, 3, 64])
def test_runs_are_in_the_catalogues_order(jobs: int) -> None:
    """However many run side by side, each fault is tried once and told in order, as it ends and in
    the report.
    """
    seen: list[ProbeRun] = []
    report = probed(sample_apps.strict, seen.append, faults=SOME, jobs=jobs)
    order = list(CATALOGUE)
    assert [run.fault for run in report.runs] == sorted(
        (run.fault for run in report.runs), key=order.index
    )
    assert Counter(run.source for run in seen) == Counter(run.source for run in report.applicable)
    assert report.complete


def ctrl_c(times: int) -> Callable[[ProbeRun], None]:
    """Be somebody who presses Ctrl-C so often.

    asyncio takes the first one, and lets the next one strike.
    """

    def press(_run: ProbeRun) -> None:
        for _time in range(times):
            signal.raise_signal(signal.SIGINT)

    return press


def leave(_: ProbeRun) -> None:
    """End the program."""
    raise SystemExit


@pytest.mark.parametrize("interrupt", [ctrl_c(1), ctrl_c(2), leave], ids=["once", "twice", "exit"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupted_probe_tells_what_it_has(
    interrupt: Callable[[ProbeRun], None], jobs: int
) -> None:
    """After Ctrl-C the report holds what was tried, and says that it is not all; no Task is left
    with the exception.
    """
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        report = probed(sample_apps.strict, interrupt, faults=SOME, jobs=jobs)
    finally:
        signal.signal(signal.SIGINT, handler)

    assert (len(report.applicable) in {1, 2}, report.complete, report.survived) == (
        True,
        False,
        False,
    )
    assert unretrieved() == []


def only(names: Collection[str]) -> dict[str, Any]:
    """Choose faults that an app meets without a wait."""
    return {"faults": names, "timeout": 30.0}


def test_broken_connections_and_errors_are_served() -> None:
    """Faults of HTTP and of the connection reach the app as they are: its client says so."""
    names = (
        "internal_server_error",
        "reset_before_response",
        "half_body",
        "html_page",
        "closed_before_response",
    )
    report = probed(sample_apps.strict, **only(names))
    assert (len(report.applicable), report.survived) == (len(names), True)


def test_a_report_names_what_was_probed() -> None:
    """The app, what it asks for, when, how long and with which versions."""
    report = probed(sample_apps.strict, faults=("nan",))
    assert (report.app, report.versions, report.started.tzinfo is not None) == (
        "sample:app",
        {"app": "1"},
        True,
    )
    assert "refund" in report.asks


CORRECTED = ("wrong_type", "duplicate_key", "unknown_tool", "trailing_comma")


def test_a_loop_without_a_limit_is_ended() -> None:
    """An app that asks for ever has looped, not hung, in as many requests as are allowed; and it
    recovers.
    """
    report = probed(sample_apps.looping, faults=CORRECTED, max_requests=5)
    assert outcomes(report) == {ProbeOutcome.LOOPED: len(report.applicable)}
    assert {run.requests for run in report.applicable} == {6}
    assert report.recovered == len(report.applicable)


def persistent(base_url: str) -> object:
    """Ask a dozen times, with the same words."""
    for _ in range(12):
        verdict = sample_apps.judged(sample_apps.ask(base_url, [QUESTION]))
        if isinstance(verdict, sr.Valid):
            return verdict.reply.to_dict()
    raise sample_apps.Refused


def test_a_slow_loop_is_no_hang() -> None:
    """An app that was still asking when its time was over has looped, whatever the bound."""
    report = probed(persistent, faults=("trailing_comma",), timeout=9.0, jobs=1, kind=Hanging)
    assert outcomes(report).keys() == {ProbeOutcome.LOOPED}


@pytest.mark.parametrize("name", ["wrong_type", "whole_at_length", "duplicate_key"])
def test_a_correction_by_a_tool_turn_is_a_way_to_recover(name: str) -> None:
    """Good replies after the fault begin with the call, whatever tool turns answered the fault."""
    report = probed(sample_apps.looping, faults=(name,), max_requests=2)
    assert report.recovered == len(report.applicable) > 0


def test_an_answer_without_the_tool_is_told_apart() -> None:
    """A value that is returned where no tool ran is no acceptance: neither without a call, nor with
    a bad one.
    """
    report = probed(
        sample_apps.polite,
        faults=("unknown_tool", "refusal", "nothing_said", "wrong_type", "duplicate_key"),
    )
    assert outcomes(report).keys() == {ProbeOutcome.ANSWERED_WITHOUT_TOOL}
    assert not report.survived


def test_a_tool_that_ran_is_an_acceptance() -> None:
    """An app that ran its tool with what came has accepted, whatever name the call had."""
    report = probed(sample_apps.careless, faults=("wrong_type", "duplicate_key", "unknown_tool"))
    assert outcomes(report).keys() == {ProbeOutcome.ACCEPTED}


@pytest.mark.parametrize(
    ("name", "reason"), [("boolean_as_text", "cannot be made"), ("stream_reset", "stream=True")]
)
def test_a_fault_without_room_is_said(name: str, reason: str) -> None:
    """A fault that was asked for by name and cannot be served to the app fails the probe, with the
    reason.
    """
    with pytest.raises(Unusable, match=f"{name}.*{reason}"):
        Probe("sample:app", connecting(sample_apps.strict), faults=("wrong_type", name)).run(
            on_plan=lambda *_: None, on_run=lambda _: None
        )


def test_a_stream_of_one_meaning_may_be_read() -> None:
    """An agent that reads it as the good reply is asked for its answer after the results; what is
    changed by a fault of two meanings is refused.
    """
    names = [
        "stream_index_missing",
        "stream_calls_share_index",
        "stream_name_changes",
        "stream_ends_early",
    ]
    told = probed(sample_apps.guarded_agent, faults=names)
    outcomes = {run.fault: run.outcome for run in told.applicable}
    assert outcomes == {
        "stream_index_missing": ProbeOutcome.READ,
        "stream_calls_share_index": ProbeOutcome.READ,
        "stream_name_changes": ProbeOutcome.CLEAN,
        "stream_ends_early": ProbeOutcome.CLEAN,
    }
    assert told.survived


def test_an_app_that_does_not_ask_has_not_survived() -> None:
    """A run without a request, of an app that keeps a reply or calls no more, is unknown."""
    kept: list[object] = []

    def caching(base_url: str) -> object:
        # the good runs of the rehearsal, and those that show what the app does
        if len(kept) < 4:
            kept.append(sample_apps.strict(base_url))
        return "the same"

    report = Probe("app", connecting(caching), faults=["trailing_comma"], jobs=1).run()
    assert [run.outcome for run in report.runs] == [ProbeOutcome.UNKNOWN]
    assert report.runs[0].requests == 0
    assert report.runs[0].detail.startswith("not served: ")
    assert not report.survived
