"""A profile decides how many examples every property draws, also one that names a number."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from support.effort import WHOLE, pytest_collection_modifyitems, shared


class Machine(RuleBasedStateMachine):
    """A machine that does nothing."""

    @rule()
    def go(self) -> None:
        """Do nothing."""


@pytest.fixture
def drawn() -> int:
    """How many examples the profile of this run draws."""
    return settings().max_examples


def test_a_property_that_names_a_number_draws_its_share(drawn: int) -> None:
    """What names four times the number of a whole run draws four times the profile's, once."""
    numbers: list[int] = []

    @settings(max_examples=4 * WHOLE)
    @given(number=st.integers(0, 10**15))
    def take(number: int) -> None:
        numbers.append(number)

    case: Any = SimpleNamespace(function=take)
    pytest_collection_modifyitems([case, case])
    take()
    assert len(numbers) == 4 * drawn


def test_a_state_machine_draws_its_share(drawn: int) -> None:
    """Its settings stand on its class."""
    case: Any = SimpleNamespace(function=None, cls=type("Case", (Machine.TestCase,), {}))
    case.cls.settings = settings(max_examples=2 * WHOLE)
    pytest_collection_modifyitems([case])
    assert case.cls.settings.max_examples == 2 * drawn


def test_what_names_no_number_is_left_as_it_is() -> None:
    """It draws what the profile says already, and at least one example is always drawn."""
    assert shared(settings()).max_examples == settings().max_examples
    assert shared(settings(max_examples=1)).max_examples == 1


@pytest.mark.parametrize(("name", "count"), [("whole", 100), ("strictreply", 30), ("quick", 4)])
def test_the_profiles_differ_in_their_number_alone(name: str, count: int) -> None:
    """No profile of the project has a deadline or dice."""
    profile = settings.get_profile(name)
    assert (profile.max_examples, profile.deadline, profile.derandomize) == (count, None, True)
