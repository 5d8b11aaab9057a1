"""A kept route is the one that would be decided again, or it is not kept."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import ContractError
from strictreply.coordination import (
    ActionType,
    ApiError,
    Branch,
    BranchType,
    Origin,
    RoutingContext,
    RoutingDecision,
    ValidationResult,
)
from strictreply.coordination.routing import RouteCache, RouteKey, Router
from support.coordination.routed import FAULTS, TEAM, call, decide, invalid, talk, valid, verdict
from support.loops import some

HANDOVER = valid(ActionType.INVOKE_AGENT, "Worker1")
CONTEXT = RoutingContext(current_agent="Coordinator")


def key(
    result: ValidationResult = HANDOVER, agent: str = "Coordinator", branch: Branch | None = None
) -> RouteKey:
    """Make the key of a reply within the team."""
    return RouteKey.of(TEAM, agent, branch or Branch(), result)


@pytest.mark.req("M112")
def test_a_hit_is_equal_and_a_miss_is_none() -> None:
    """A stored route is returned equal and as a copy; any other key is None."""
    cache = RouteCache()
    decision = decide(HANDOVER)
    cache.set_route(key(), decision)
    kept = cache.get_route(key())
    assert kept == decision

    assert kept is not decision
    assert cache.get_route(key(agent="Aggregator")) is None
    cache.clear()
    assert (cache.get_route(key()), len(cache)) == (None, 0)


@pytest.mark.req("M112")
def test_nobody_can_change_a_kept_route() -> None:
    """Changing a decision before or after storing it does not change the stored one."""
    cache = RouteCache()
    decision = decide(HANDOVER)
    cache.set_route("k", decision)
    decision.next_steps.clear()
    given_out = cache.get_route("k")
    assert given_out is not None
    given_out.next_steps[0].data["request"] = "something else"
    assert cache.get_route("k") == decide(HANDOVER)


@pytest.mark.req("M112")
def test_the_key_holds_everything_a_route_depends_on() -> None:
    """Topology, agent, branch, action, content and origin each make another key; the branch's id
    does not.
    """
    changed_team = TEAM.with_edges(("Worker1", "Worker2"))
    keys = [
        key(),
        RouteKey.of(changed_team, "Coordinator", Branch(), HANDOVER),
        key(agent="Aggregator"),
        key(branch=Branch(type=BranchType.PARALLEL)),
        key(branch=talk()),
        key(branch=talk(1)),
        key(valid(ActionType.PARALLEL_INVOKE, "Worker1")),
        key(valid(ActionType.INVOKE_AGENT, "Worker2")),
        key(replace(HANDOVER, origin=Origin.SYSTEM)),
        key(valid(ActionType.INVOKE_AGENT, "Worker1", thought="hm")),
        key(valid(ActionType.CALL_TOOL, tool_calls=[call()])),
    ]
    assert len(set(keys)) == len(keys)
    assert key(branch=Branch("other")) == key()

    assert (key().topology_version, key().branch_type, key().action) == (
        *(TEAM.version, BranchType.SIMPLE, ActionType.INVOKE_AGENT),
    )


@pytest.mark.req("M112")
def test_another_topology_is_a_miss() -> None:
    """A route over an edge is not given once the topology is another."""
    cache = RouteCache()
    smaller = TEAM.without_agents("Worker1")
    cache.set_route(key(), decide(HANDOVER))
    assert cache.get_route(key()) is not None
    assert cache.get_route(RouteKey.of(smaller, "Coordinator", Branch(), HANDOVER)) is None


@pytest.mark.req("M112")
def test_what_follows_a_fault_is_never_kept() -> None:
    """Retries, errors, refusals and ends by a fault are decided anew each time."""
    cache = RouteCache()
    router = Router(TEAM)
    transient = ApiError.of_report({"classification": "timeout"})
    faulty = [
        *(invalid(fault) for fault in FAULTS.values()),
        transient.to_result(agent="Coordinator", branch_id="main"),
        valid(ActionType.ERROR_RECOVERY, error_details={}),
        valid(ActionType.TERMINAL_ERROR, error="no"),
        valid(ActionType.INVOKE_AGENT, "Nobody"),
        valid(ActionType.CALL_TOOL),
    ]
    for result in faulty:
        cache.set_route("k", router.decide(result, Branch(), CONTEXT))

    assert len(cache) == 0


@pytest.mark.req("M112")
@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(1, 4))
def test_the_cache_is_bounded_and_forgets_the_oldest(asked: list[int], bound: int) -> None:
    """It holds at most its number of routes: those used last."""
    cache = RouteCache(bound)
    recent = list[int]()
    for number in some(asked):
        if cache.get_route(number) is None:
            assert number not in recent[-bound:]
            cache.set_route(number, RoutingDecision())
        recent = [*(one for one in recent if one != number), number]
        assert len(cache) == min(bound, len(recent))


@pytest.mark.parametrize("bound", [0, -1, True])
def test_a_cache_without_room_is_refused(bound: int) -> None:
    """A cache holds at least one route."""
    with pytest.raises(ContractError):
        RouteCache(bound)


@pytest.mark.req("M112", "M117")
def test_what_is_kept_is_what_would_be_decided() -> None:
    """With and without a cache the same replies are routed alike, the first time and the second."""
    cache = RouteCache()
    router = Router(TEAM)
    hits = 0

    replies: list[object] = [
        {"next_action": "invoke_agent", "action_input": "Worker1", "request": {"deep": [1, None]}},
        {"next_action": "parallel_invoke", "agents": ["Worker1", "Worker2"]},
        {"next_action": "call_tool", "tool_calls": [call()]},
        {"next_action": "final_response", "content": "done"},
        "prose",
    ]
    for result in map(verdict, replies * 2):
        decision = router.decide(result, Branch(), CONTEXT)
        kept = cache.get_route(key(result))
        assert kept in (None, decision)
        hits += kept is not None

        cache.set_route(key(result), decision)

    assert (hits, len(cache)) == (4, 4)


def test_threads_may_share_a_cache() -> None:
    """Many threads set and get at once: nothing is lost, and the bound holds."""
    cache, wrong = RouteCache(8), list[int]()

    def work(offset: int) -> None:
        """Set and get routes that name their key."""
        for number in range(300):
            name = (offset + number) % 12
            cache.set_route(name, RoutingDecision(metadata={"name": name}))
            found = cache.get_route(name)
            if found is not None and found.metadata["name"] != name:
                wrong.append(name)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join()

    assert (wrong, len(cache)) == ([], 8)
