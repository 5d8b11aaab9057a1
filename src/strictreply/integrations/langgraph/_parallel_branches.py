"""Parallel branches: the states they begin with, what they bring back, and who follows when they come together.

A branch ends when it comes back to the agent that opened it, when it leads to an agent that another branch can lead to
as well, or by itself. Branches that lead to the same agent meet there: it is asked once, with what each of them brings.
"""

from __future__ import annotations

import hashlib
import json
from collections import ChainMap, Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from strictreply.coordination._actions import Branch, BranchType
from strictreply.coordination._routing_decision import RoutingReason, stop
from strictreply.coordination._runs.human_requests import merge_ledgers
from strictreply.coordination._runs.next_node import RouteReason
from strictreply.coordination._runs.run_state import changed, create_initial_state, ledger_of, pending_requests
from strictreply.coordination._topology import Topology
from strictreply.coordination.validation import place_in
from strictreply.integrations.langgraph._graph_effects import GraphEffect, RunBranch
from strictreply.integrations.langgraph._graph_settings import GraphSettings
from strictreply.integrations.langgraph._graph_state import (
    BRANCH,
    RunState,
    RunStatus,
    as_json,
    as_text,
    branch_of,
    branch_specs,
    exits,
    from_json,
    node_of,
    outcome_record,
    state_at_start,
    stored_outcome,
    with_turn,
)
from strictreply.integrations.langgraph._next_state import Decided, ended, handover_text, left, reports_text
from strictreply.values._issues import pointer
from strictreply.values._json import JSON, JSONObject


def branch_states(state: RunState, limit: int, meets: Sequence[str]) -> list[RunState]:
    """Return the state that each awaited branch begins with: together they share what is left of the run's ``limit``.

    Of the executions that are left, one is kept for the join and one for the agent that is told; the others are divided
    evenly, the first branches taking the remainder. A branch begins at the count that leaves it its share, so branches
    of branches divide that in turn, and a run executes limit + 1 nodes at most, whatever is opened (requirement R32).
    ``meets`` are the agents at which each of them ends, because others may lead there as well.
    """
    spawned = state["spawned"] or {}
    specs: Sequence[JSONObject] = spawned.get("branches", ())
    each, over = divmod(max(limit - state["loop_count"] - 1, 0), max(len(specs), 1))
    states = []
    for index, spec in enumerate(specs):
        share = each + (index < over)
        begun = changed(_branch_state(state, spawned["agent"], spec, meets), loop_count=limit + 1 - share)
        if not share:  # the branch is over before it begins
            words = "nothing was left of the loop bound for this branch"
            outcome = outcome_record(spec["agent"], RunStatus.FAILED, RouteReason.LOOP_LIMIT.value, error=words)
            begun = changed(begun, outcome=outcome)
        states.append(begun)
    return states


def _branch_state(state: RunState, spawner: str, spec: JSONObject, meets: Sequence[str]) -> RunState:
    """Return the state of one branch; of the others it has only what it is asked, or told of those that it ends."""
    first = create_initial_state(
        conversation_id=f"{state['conversation_id']}/{spec['id']}:{spec['instance_id']}",  # a branch of this run alone
        user_profile=state["user_profile"],
        max_loop_count=state.get("max_loop_count"),
    )
    first = changed(first, reply_formats=state.get("reply_formats", {}))
    request, asked = from_json(spec["request"], "/spawned/branches"), state["branch"]["asked"]
    if met := "met" in spec:
        opening = reports_text(request, asked, spec["met"])
    else:
        opening = handover_text(spawner, request, state)
        asked = asked if request is None else f"{spawner} asked: {as_text(request)}"
    branch = Branch(spec["id"], BranchType.PARALLEL)
    begun = state_at_start(first, spec["agent"], branch, asked=asked, spawner=spawner)
    known = {**begun["branch"], "meets": list(meets), "opening": None if met else opening}
    return with_turn(changed(begun, branch=known), spec["agent"], opening)


def branch_turn(state: RunState) -> Generator[GraphEffect, Any, JSONObject]:
    """Run a parallel branch to its end, and return what it changes in the state of the run that opened it.

    What the branch left pending at a human is asked there, and the agent that opened the branch is told the answer.
    """
    last: RunState = yield RunBranch(state)
    spent, formats = last["loop_count"] - state["loop_count"], last.get("reply_formats", {})
    leads_to = last["branch"].get("leads_to")
    outcome = stored_outcome(last) | {"spent": spent, "reply_formats": formats, "leads_to": leads_to}
    spawner = node_of(state["branch"]["spawner"])
    orphans = [request.handed_over(spawner, tell_to=spawner).to_dict() for request in pending_requests(last)]
    settled = [entry for entry in ledger_of(last) if "settled_at" in entry]
    return {"outcomes": {state["branch"]["id"]: outcome}, "human_requests": [*settled, *orphans]}


def spent_in_branches(state: RunState) -> int:
    """Count the executions in the branches that come together now."""
    specs: Sequence[JSONObject] = (state["spawned"] or {}).get("branches", ())
    return sum(state["outcomes"][spec["id"]]["spent"] for spec in specs)


def meeting_points(topology: Topology, state: RunState) -> list[str]:
    """Return the agents at which a branch that is opened now ends, because others may lead there as well.

    These are the agents that two of the branches can come to, those where branches wait, and those that end this run or
    branch itself. What lies behind the agent that opened them does not count: coming back to it ends a branch.
    """
    spawned = state["spawned"] or {}
    waiting = _targets(state, spawned.get("waiting", ())) - {spawned["agent"]}
    begun = [*(spec["agent"] for spec in spawned["branches"]), *waiting]
    reached = Counter(agent for one in begun for agent in _reached(topology, one, spawned["agent"]))
    shared = {agent for agent, times in reached.items() if times > 1}
    return sorted((shared | waiting | exits(state)) - {spawned["agent"]})


def join_branches(settings: GraphSettings, state: RunState) -> RunState:
    """Go on where the branches lead, with the outcomes in the order of the reply; an abort in one ends the run.

    When they lead to one agent alone, it follows in this run and is told of every branch. When they lead to several,
    those that no other leads to are asked first, each in a branch of its own with what the branches that led to it
    bring; the rest wait. When no branch leads on, the agent that opened them is told. An agent that ends this branch as
    well is not asked here: the branch leads to it, and meets others there.
    """
    spawned, specs = state["spawned"] or {}, branch_specs(state)
    opener, outcomes = spawned["agent"], [state["outcomes"][spec["id"]] for spec in specs]
    formats = ChainMap(state.get("reply_formats", {}), *(one["reply_formats"] for one in outcomes))  # the first holds
    state = changed(state, spawned=None, reply_formats=dict(formats))
    if any(one["status"] == RunStatus.ABORTED for one in outcomes):
        aborted = stop(RoutingReason.ABORTED, "the user aborted the run")
        return ended(state, Decided(settings.agents[opener], branch_of(state, settings.max_turns), aborted))
    targets = _targets(state, specs)
    onward = targets - {opener}
    here = onward - exits(state)
    if not onward:
        return _followed(state, specs, opener, opener)
    if not here:
        target = _first(settings.topology, onward, opener)[0]
        led = stop(RoutingReason.SEQUENTIAL, "the branches lead on")
        agent = settings.agents[_leading(state, specs, target)[0]["agent"]]
        decided = Decided(agent, branch_of(state, settings.max_turns), led)
        return left(state, decided, target, _reports(state, specs))
    if len(targets) == 1:
        return _followed(state, specs, targets.pop(), opener)
    return _opened_at(state, spawned, specs, _first(settings.topology, here, opener))


def _targets(state: RunState, specs: Sequence[JSONObject]) -> set[str]:
    """Return the agents that branches led to."""
    found = (state["outcomes"][spec["id"]].get("leads_to") for spec in specs)
    return {target for target in found if target is not None}


def _leading(state: RunState, specs: Sequence[JSONObject], target: str) -> list[JSONObject]:
    """Return the outcomes of the branches that led to an agent."""
    outcomes = (state["outcomes"][spec["id"]] for spec in specs)
    return [one for one in outcomes if one.get("leads_to") == target]


def _reached(topology: Topology, agent: str, opener: str) -> set[str]:
    """Return the agents that a branch can come to from one of its agents."""
    reached: list[str] = []
    ways = [agent]
    for node in ways:  # grows while it is walked
        following = [one for one in topology.allowed_targets(node) if one != opener and one not in reached]
        reached += following
        ways += following
    return set(reached)


def _first(topology: Topology, targets: set[str], opener: str) -> list[str]:
    """Return the targets that no other one leads to; of those that lead to each other none has to wait."""
    reached = {one: _reached(topology, one, opener) for one in targets}
    return sorted(
        one for one in targets if not any(one in reached[other] and other not in reached[one] for other in targets)
    )


def _followed(state: RunState, specs: list[JSONObject], target: str, opener: str) -> RunState:
    """Add the results of every branch to an agent's messages, and let it follow in this run."""
    led = [] if target == opener else [one["agent"] for one in _leading(state, specs, target)]
    state = with_turn(state, target, reports_text(_reports(state, specs), state["branch"]["asked"], led))
    node = node_of(target)
    return _asked_before(changed(state, next_agent=node), node, told=node)


def _opened_at(state: RunState, spawned: JSONObject, specs: list[JSONObject], agents: list[str]) -> RunState:
    """Open a branch at each of these agents, with what the branches that led to it bring; the others wait."""
    opened, met = [], list[str]()
    for index, agent in enumerate(agents):
        brought = [spec for spec in specs if state["outcomes"][spec["id"]].get("leads_to") == agent]
        met += [spec["id"] for spec in brought]
        opened.append(_meeting(state, index, agent, brought))
    waiting = [spec for spec in specs if spec["id"] not in met]
    state = changed(state, spawned={**spawned, "branches": opened, "waiting": waiting}, next_agent=BRANCH)
    return _asked_before(state, BRANCH, told=node_of(spawned["agent"]))


def _meeting(state: RunState, index: int, agent: str, brought: list[JSONObject]) -> JSONObject:
    """Return the record of a branch at an agent that others led to."""
    branch_id = f"{state['branch']['id']}/{state['loop_count']}.{index}"
    seed = json.dumps([*place_in(state), branch_id])  # as the ids of the branches that an agent opens (M32)
    return {
        "id": branch_id,
        "agent": agent,
        "instance_id": f"{agent}_{index}_{hashlib.blake2b(seed.encode(), digest_size=4).hexdigest()}",
        "request": as_json(_reports(state, brought)),
        "met": [state["outcomes"][spec["id"]]["agent"] for spec in brought],
    }


def _asked_before(state: RunState, target: str, *, told: str) -> RunState:
    """Redirect the questions that branches left pending, so that their answers lead to where this run goes on."""
    pending = [one.handed_over(target, tell_to=told) for one in pending_requests(state)]
    news = [replace(one, redirected=one.redirected + 1).to_dict() for one in pending]
    return changed(state, human_requests=merge_ledgers(ledger_of(state), news)) if news else state


def _reports(state: RunState, specs: Sequence[JSONObject]) -> list[JSON]:
    return [_report(spec, state["outcomes"][spec["id"]]) for spec in specs]


def _report(spec: Mapping[str, Any], outcome: JSONObject) -> JSONObject:
    """Return what is told of one branch; of a failure the reason, and no word that a model or a server wrote.

    What other branches had brought to an agent that failed is not lost with it.
    """
    known: JSONObject = {"agent": spec["agent"], "instance_id": spec["instance_id"], "status": outcome["status"]}
    if outcome["status"] != RunStatus.COMPLETED:
        brought = {"brought": from_json(spec["request"], "/spawned/waiting")} if "met" in spec else {}
        return known | {"reason": outcome["reason"]} | brought
    return known | {"content": from_json(outcome["content"], pointer("/outcomes", spec["id"], "content"))}
