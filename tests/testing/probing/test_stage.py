"""A stage is a server with an app on it; after a hang nobody of the last run is left."""

from __future__ import annotations

import asyncio
import socket

import pytest

from strictreply.testing import ok
from strictreply.testing._probing.outcomes import Behaviour, Died, Returned, Silent
from strictreply.testing._probing.stage import Played, Stage
from strictreply.testing._probing.worker import Unusable
from strictreply.testing._scripts import ScriptedModel
from strictreply.testing.faults import CATALOGUE
from testing.probing.fake_subjects import Hanging, InProcess, connecting
from testing.probing.sample_apps import REFUND, strict

GOOD = ok.reply(REFUND)
BAD = CATALOGUE["trailing_comma"](REFUND)


class Dead(InProcess):
    """Is dead from the beginning."""

    async def call(self, *, told: bool = False) -> Behaviour:
        """Be dead."""
        return Died("its process ended")


def played(stage: Stage, *models: ScriptedModel) -> list[Played]:
    """Play run after run, and close."""

    async def run() -> list[Played]:
        """Play."""
        try:
            return [await stage.play(model, told=True) for model in models]
        finally:
            await stage.close()

    return asyncio.run(run())


def test_each_run_has_its_own_model() -> None:
    """Runs follow each other on one server and one app; each model sees the requests of its own run."""
    started: list[InProcess] = []
    first, second = ScriptedModel(then=GOOD), ScriptedModel(then=GOOD)
    runs = played(Stage(connecting(strict, started), timeout=30), first, second)
    assert [type(run.behaviour) for run in runs] == [Returned, Returned]
    assert (len(started), len(first.requests), len(second.requests)) == (1, 1, 1)
    assert (runs[0].versions, started[0].closed) == ({"app": "1"}, True)
    assert all(run.seconds >= 0 for run in runs)


def test_after_a_hang_everything_is_new() -> None:
    """An app that does not come back is given up after the timeout; the next run has another app and another server."""
    started: list[InProcess] = []
    bad, good = ScriptedModel(then=BAD), ScriptedModel(then=GOOD)
    runs = played(Stage(connecting(strict, started, Hanging), timeout=1.0), bad, good)
    assert [type(run.behaviour) for run in runs] == [Silent, Returned]
    assert [subject.closed for subject in started] == [True, True]
    assert started[0].base_url != started[1].base_url


def test_a_new_app_is_warmed_up() -> None:
    """Every app that is started is called once with good replies before it is measured, when there is what to reply."""
    warm, bad = ScriptedModel(then=GOOD), ScriptedModel(then=BAD)
    stage = Stage(connecting(strict, kind=Hanging), timeout=1.0)
    stage.warm_up = warm
    assert [type(run.behaviour) for run in played(stage, bad, bad)] == [Silent, Silent]
    assert (len(warm.requests), len(bad.requests)) == (2, 2)


def test_an_app_that_died_is_started_anew() -> None:
    """The end of a process is the end of its server as well."""
    started: list[InProcess] = []
    played(Stage(connecting(strict, started, Dead), timeout=30), ScriptedModel(), ScriptedModel())
    assert len(started) == 2


def test_a_port_may_be_chosen() -> None:
    """A service finds the server at the port it was told, again after a hang; a port in use is said."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Unusable, match=str(port)):
            played(Stage(connecting(strict), timeout=5, port=port), ScriptedModel())
    started: list[InProcess] = []
    played(Stage(connecting(strict, started), timeout=5, port=port), ScriptedModel(then=GOOD))
    assert f":{port}/" in started[0].base_url
