"""How many examples of each property a run draws: as many as its Hypothesis profile says.

A property without settings of its own draws ``max_examples`` of the profile. One that names a
number gets its share of it: named for a whole run, where the profile draws ``WHOLE``, it is a fifth
where the profile draws a fifth. Hypothesis would draw what is named whatever the profile is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

WHOLE = 100
"""How many examples a whole run draws, for which the numbers in tests are named."""

# The same tree gives the same verdict on every machine: no deadline, no complaint about slow
# generation, no new dice.
settings.register_profile(
    "whole",
    deadline=None,
    derandomize=True,
    max_examples=WHOLE,
    suppress_health_check=[HealthCheck.too_slow],
)
# What `make test` draws.
settings.register_profile("strictreply", settings.get_profile("whole"), max_examples=30)
# A look at each property, for `make quick`.
settings.register_profile("quick", settings.get_profile("whole"), max_examples=4)
# Dice for the hunt: pytest --hypothesis-profile=explore
settings.register_profile(
    "explore", settings.get_profile("whole"), derandomize=False, max_examples=2_000
)
settings.load_profile("strictreply")

OWN = "_hypothesis_internal_use_settings"
"""Where Hypothesis keeps the settings of a test; tests/project/test_effort.py holds that."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw every example in a whole run, where no profile is named."""
    if config.option.whole and not config.getoption("hypothesis_profile", None):
        settings.load_profile("whole")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each property that names a number its share of it, once."""
    for keeper, name in {(id(one), name): (one, name) for one, name in keepers(items)}.values():
        setattr(keeper, name, shared(getattr(keeper, name)))


def keepers(items: Iterable[pytest.Item]) -> Iterable[tuple[Any, str]]:
    """Yield what keeps the settings of each property, and the name they have there.

    It is the test's function, or the class of a test of a state machine.
    """
    for item in items:
        function = getattr(item, "function", None)
        if hasattr(function, OWN):
            yield function, OWN
        elif isinstance(getattr(getattr(item, "cls", None), "settings", None), settings):
            yield item.cls, "settings"  # type: ignore[attr-defined]


def shared(own: settings) -> settings:
    """Return the settings with their share of the examples; as they are where none are named."""
    drawn = settings().max_examples
    if own.max_examples == drawn:
        return own

    return settings(own, max_examples=max(1, own.max_examples * drawn // WHOLE))
