"""The trials of an app are exactly the faults that its own requests leave room for."""

from __future__ import annotations

from typing import Any

import pytest

from strictreply.testing._demands import Demand, Told
from strictreply.testing._probing.outcomes import Outcome
from strictreply.testing._probing.plan import planned
from strictreply.testing._steps import Kind
from strictreply.testing._wire import HTTPReply
from strictreply.testing.faults import CATALOGUE
from strictreply.values._replies import Invalid
from testing.probing.sample_apps import QUESTION, REFUND

PING: dict[str, Any] = {"type": "function", "function": {"name": "ping", "parameters": {"type": "object"}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "Refund", "schema": REFUND["function"]["parameters"]}}


def demand(told: Told = Told(), **keywords: Any) -> Demand:  # noqa: B008 - a frozen value
    """Read a request."""
    return Demand({"model": "m", "messages": [QUESTION], **keywords}, told)


DEMANDS = {
    "call": demand(tools=[REFUND]),
    "several": demand(tools=[PING, REFUND], parallel_tool_calls=False),
    "forced": demand(tools=[REFUND], tool_choice={"type": "function", "function": {"name": "refund"}}),
    "required": demand(tools=[REFUND], tool_choice="required"),
    "streamed": demand(tools=[REFUND], stream=True),
    "union": demand(Told(tools=(REFUND,))),
    "json": demand(response_format=FORMAT),
    "prose": demand(),
}


@pytest.mark.parametrize("asked", DEMANDS.values(), ids=DEMANDS)
def test_every_trial_is_refused_by_the_apps_own_contract(asked: Demand) -> None:
    """What is served is no completion, or one that the contract of that very request does not let through."""
    trials, _ = planned(asked)
    assert {trial.fault.kind for trial in trials} >= {Kind.ENVELOPE, Kind.FINISH, Kind.TRANSPORT, Kind.HTTP}
    for trial in trials:
        served = trial.fault.served
        assert isinstance(served, HTTPReply) or isinstance(asked.contract.check(served), Invalid)


@pytest.mark.parametrize("asked", DEMANDS.values(), ids=DEMANDS)
def test_every_entry_is_tried_or_explained(asked: Demand) -> None:
    """Each entry of the catalogue has trials, or one run that says why it has none; no trial comes twice."""
    trials, others = planned(asked)
    tried, explained = {trial.fault.name for trial in trials}, {run.fault for run in others}
    assert tried | explained == set(CATALOGUE)
    assert not tried & explained
    assert len({trial.source for trial in trials}) == len(trials)
    assert all(run.outcome is Outcome.NOT_APPLICABLE and run.detail for run in others)


def test_what_needs_a_stream_is_for_apps_that_stream() -> None:
    """Faults of event streams are tried where the request asks for one."""
    for name, asked in DEMANDS.items():
        kinds = {trial.fault.kind for trial in planned(asked)[0]}
        assert (Kind.STREAM in kinds) is (name == "streamed")


def test_a_trial_is_spelled_as_python() -> None:
    """The name of a tool stands for its variable; what no variable can have in its name is an underscore."""
    dashed: dict[str, Any] = {"type": "function", "function": {"name": "get-weather", "parameters": {"type": "object"}}}
    trials, _ = planned(demand(tools=[dashed]), names=("trailing_comma", "unknown_tool"))
    assert trials
    for trial in trials:
        compile(trial.source, "source", "eval")
    assert "faults.unknown_tool(get_weather)" in {trial.source for trial in trials}


def test_an_unasked_stream_is_for_apps_that_do_not_stream() -> None:
    """To a request for a stream it would be the good reply."""
    for name, asked in DEMANDS.items():
        tried = {trial.fault.name for trial in planned(asked)[0]}
        assert ("unasked_stream" in tried) is (name != "streamed")


def test_arguments_are_spoiled_in_every_tool() -> None:
    """Of several tools the arguments of each are tried; everything else once."""
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
    """A run carries what a person needs to see the fault again: its name, place, excerpt and source."""
    trial = next(trial for trial in planned(DEMANDS["call"], names=["wrong_type"])[0] if trial.fault.at == "/order")
    run = trial.run(Outcome.CLEAN, "it did", seconds=1.5, requests=2, recovered=True)
    assert (run.fault, run.at, run.code, run.kind) == ("wrong_type", "/order", "args.type", Kind.ARGS)
    assert (run.seconds, run.requests, run.recovered, run.outcome) == (1.5, 2, True, Outcome.CLEAN)
    assert run.source == "faults.wrong_type(refund, '/order')"
    assert "arguments" in run.served


def test_given_arguments_are_those_that_are_spoiled() -> None:
    """When the user says which arguments are good, the faults are made on them, and say so."""
    asked = demand(Told(args={"order": 1042, "reason": "late"}), tools=[REFUND])
    trial = planned(asked, names=["trailing_comma"])[0][0]
    assert "1042" in trial.source
    assert "1042" in trial.run(Outcome.CLEAN, "", seconds=0, requests=1, recovered=False).served
