"""A prediction counts who followed, and is never a route."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import ContractError
from strictreply.coordination import ActionType, RoutingReason
from strictreply.coordination.routing import predict_next_route
from support.coordination.routed import TEAM, decide, valid

WALKED = [("A", "B"), ("A", "C"), ("A", "B"), ("B", "C"), ("A", "B")]


@pytest.mark.req("M113")
def test_the_most_frequent_follower_is_predicted() -> None:
    """A was followed by B three times and by C once: B; nobody ever followed Z: None."""
    assert predict_next_route("A", WALKED) == "B"
    assert predict_next_route("Z", WALKED) is None
    assert predict_next_route("A", []) is None


@pytest.mark.req("M113")
def test_only_permitted_agents_are_predicted() -> None:
    """An agent that the topology does not permit is never predicted, however often it followed."""
    assert predict_next_route("A", WALKED, allowed=["C"]) == "C"
    assert predict_next_route("A", WALKED, allowed=[]) is None
    history = [("Worker1", "Coordinator")] * 5 + [("Worker1", "Aggregator")]
    assert (
        predict_next_route("Worker1", history, allowed=TEAM.allowed_targets("Worker1"))
        == "Aggregator"
    )


@pytest.mark.req("M113")
def test_a_prediction_is_no_permission() -> None:
    """Routing what was predicted is decided by the topology all the same."""
    predicted = predict_next_route("Worker1", [("Worker1", "Worker2")])
    assert predicted == "Worker2"
    assert (
        decide(valid(ActionType.INVOKE_AGENT, predicted), "Worker1").reason
        is RoutingReason.NOT_ALLOWED
    )


def test_histories_may_be_pairs_or_entries_of_a_state() -> None:
    """Entries of ``routing_history`` and pairs are read alike; of equals the later one is
    predicted.
    """
    entry: dict[str, Any] = {"ts": "", "reason": "", "loop_count": 0, "task": None}
    history: list[Any] = [
        {**entry, "from": "A", "to": "B"},
        {**entry, "from": None, "to": "A"},
        ("A", "C"),
    ]
    assert predict_next_route("A", history) == "C"
    assert predict_next_route("A", history[:2]) == "B"


@pytest.mark.parametrize("hop", ["A", ("A",), ("A", 1), {"from": "A"}, 3])
def test_a_history_of_something_else_is_refused(hop: Any) -> None:
    """A history entry that is not a hand-over is the caller's mistake."""
    with pytest.raises(ContractError):
        predict_next_route("A", [hop])


@given(st.lists(st.sampled_from("ABC"), max_size=20), st.sampled_from("ABC"))
def test_what_is_predicted_has_happened(names: list[str], agent: str) -> None:
    """For any walk, the predicted agent followed at least as often as any other."""
    history = list(pairwise(names))
    predicted = predict_next_route(agent, history)
    counts = {name: history.count((agent, name)) for name in "ABC"}
    assert (predicted is None) == (not any(counts.values()))
    assert predicted is None or counts[predicted] == max(counts.values())
