"""An app is only probed when it works; the rehearsal says what to do when it does not."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from strictreply.testing._demands import Told
from strictreply.testing._probing.rehearsal import Rehearsal, rehearse
from strictreply.testing._probing.stage import Stage
from strictreply.testing._probing.worker import Unusable
from strictreply.values._json import JSONObject
from testing.probing import sample_apps
from testing.probing.fake_subjects import connecting

NOTHING = Told()
_numbers = itertools.count()


def rehearsed(app: Callable[[str], object], told: Told = NOTHING) -> Rehearsal:
    """Rehearse one of the sample apps."""

    async def run() -> Rehearsal:
        """Rehearse, and close."""
        stage = Stage(connecting(app), timeout=30)
        try:
            return await rehearse(stage, told)
        finally:
            await stage.close()

    return asyncio.run(run())


def changing(base_url: str) -> object:
    """Give another result each time."""
    return sample_apps.strict(base_url), next(_numbers)


def asking_for_the_impossible(base_url: str) -> object:
    """Ask with a format that nobody knows."""
    return sample_apps.ask(base_url, [sample_apps.QUESTION], response_format={"type": "grammar"})


def test_the_first_request_is_learnt() -> None:
    """What the app asks for and what it gives for good replies are known afterwards."""
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


def test_good_arguments_are_served() -> None:
    """The user's good arguments are what the app gets; those that do not fit are refused."""
    order: JSONObject = {"order": 1042, "reason": "broken"}
    assert rehearsed(sample_apps.strict, Told(args=order)).good != rehearsed(sample_apps.strict).good
    with pytest.raises(Unusable, match="fit"):
        rehearsed(sample_apps.strict, Told(args={"order": "many"}))
