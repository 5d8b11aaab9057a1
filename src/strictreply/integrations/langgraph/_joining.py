"""Where parallel branches come together: who is told of them, and who follows when they lead to others than the opener.

A branch ends when it comes back to the agent that opened it, when it leads to an agent that another branch can lead to
as well, or by itself. Branches that lead to the same agent meet there: it is asked once, with what each of them brings.
"""

from __future__ import annotations

import hashlib
import json
from collections import ChainMap, Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from strictreply.coordination._action_answer import place_in
from strictreply.coordination._routing_decision import RoutingReason, stop
from strictreply.coordination._runs.human_requests import merge_ledgers
from strictreply.coordination._runs.human_turn import ledger_of, pending_requests
from strictreply.coordination._runs.run_state import changed
from strictreply.coordination._topology import Topology
from strictreply.integrations.langgraph._following import Coordination, Decided, ended, left, told_of
from strictreply.integrations.langgraph._states import (
    BRANCH,
    RunState,
    RunStatus,
    as_json,
    branch_of,
    branch_specs,
    exits,
    from_json,
    node_of,
    with_turn,
)
from strictreply.values._issues import pointer
from strictreply.values._json import JSON, JSONObject


def spent_in_branches(state: RunState) -> int:
    """Count the executions in the branches that come together now."""
    specs: Sequence[JSONObject] = (state["spawned"] or {}).get("branches", ())
    return sum(state["outcomes"][spec["id"]]["spent"] for spec in specs)


def meeting_points(topology: Topology, state: RunState) -> list[str]:
    """Return the agents at which a branch that is opened now ends, because others may lead there as well.

    These are the agents that two of the branches can come to, those where branches wait, and whatever ends this line
    itself. What lies behind the agent that opened them does not count: coming back to it ends a branch.
    """
    spawned = state["spawned"] or {}
    waiting = _targets(state, spawned.get("waiting", ())) - {spawned["agent"]}
    begun = [*(spec["agent"] for spec in spawned["branches"]), *waiting]
    reached = Counter(agent for one in begun for agent in _reached(topology, one, spawned["agent"]))
    shared = {agent for agent, times in reached.items() if times > 1}
    return sorted((shared | waiting | exits(state)) - {spawned["agent"]})


def join_branches(shared: Coordination, state: RunState) -> RunState:
    """Go on where the branches lead, with what each came to in the order of the reply; an abort in one ends the run.

    When they lead to one agent alone, it follows on this line and is told of every branch. When they lead to several,
    those that no other leads to are asked first, each in a branch of its own with what the branches that led to it
    bring; the rest wait. When no branch leads on, the agent that opened them is told. An agent that ends this line as
    well is not asked here: the line leads to it, and meets others there.
    """
    spawned, specs = state["spawned"] or {}, branch_specs(state)
    opener, outcomes = spawned["agent"], [state["outcomes"][spec["id"]] for spec in specs]
    formats = ChainMap(state.get("reply_formats", {}), *(one["reply_formats"] for one in outcomes))  # the first holds
    state = changed(state, spawned=None, reply_formats=dict(formats))
    if any(one["status"] == RunStatus.ABORTED for one in outcomes):
        aborted = stop(RoutingReason.ABORTED, "the user aborted the run")
        return ended(state, Decided(shared.agents[opener], branch_of(state, shared.max_turns), aborted))
    targets = _targets(state, specs)
    onward = targets - {opener}
    here = onward - exits(state)
    if not onward:
        return _followed(state, specs, opener, opener)
    if not here:
        return _led_out(shared, state, specs, _first(shared.topology, onward, opener)[0])
    if len(targets) == 1:
        return _followed(state, specs, targets.pop(), opener)
    return _opened_at(state, spawned, specs, _first(shared.topology, here, opener))


def _targets(state: RunState, specs: Sequence[JSONObject]) -> set[str]:
    """Return the agents that branches led to."""
    found = (state["outcomes"][spec["id"]].get("leads_to") for spec in specs)
    return {target for target in found if target is not None}


def _leading(state: RunState, specs: Sequence[JSONObject], target: str) -> list[JSONObject]:
    """Return what those branches came to that led to an agent."""
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


def _led_out(shared: Coordination, state: RunState, specs: list[JSONObject], target: str) -> RunState:
    """End this line at an agent where it may meet others, with all that its branches bring."""
    led = stop(RoutingReason.SEQUENTIAL, "the branches lead on")
    agent = shared.agents[_leading(state, specs, target)[0]["agent"]]
    decided = Decided(agent, branch_of(state, shared.max_turns), led)
    return left(state, decided, target, _reports(state, specs))


def _followed(state: RunState, specs: list[JSONObject], target: str, opener: str) -> RunState:
    """Tell an agent of every branch, and let it follow on this line."""
    led = [] if target == opener else [one["agent"] for one in _leading(state, specs, target)]
    state = with_turn(state, target, told_of(_reports(state, specs), state["branch"]["asked"], led))
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
    """Spell the branch of an agent that others led to."""
    branch_id = f"{state['branch']['id']}/{state['loop_count']}.{index}"
    written = json.dumps([*place_in(state), branch_id])  # as the ids of the branches that an agent opens (M32)
    seed = hashlib.blake2b(written.encode(), digest_size=4).hexdigest()
    return {
        "id": branch_id,
        "agent": agent,
        "instance_id": f"{agent}_{index}_{seed}",
        "request": as_json(_reports(state, brought)),
        "met": [state["outcomes"][spec["id"]]["agent"] for spec in brought],
    }


def _asked_before(state: RunState, goes_on: str, *, told: str) -> RunState:
    """Lead what branches left pending at a human to where this line goes on."""
    pending = [one.handed_over(goes_on, tell_to=told) for one in pending_requests(state)]
    news = [replace(one, redirected=one.redirected + 1).to_dict() for one in pending]
    return changed(state, human_requests=merge_ledgers(ledger_of(state), news)) if news else state


def _reports(state: RunState, specs: Sequence[JSONObject]) -> list[JSON]:
    """Tell what each branch came to."""
    return [_report(spec, state["outcomes"][spec["id"]]) for spec in specs]


def _report(spec: Mapping[str, Any], outcome: JSONObject) -> JSONObject:
    """Tell what one branch came to; of a failure the reason, and no word that a model or a server wrote.

    What other branches had brought to an agent that failed is not lost with it.
    """
    known: JSONObject = {"agent": spec["agent"], "instance_id": spec["instance_id"], "status": outcome["status"]}
    if outcome["status"] != RunStatus.COMPLETED:
        brought = {"brought": from_json(spec["request"], "/spawned/waiting")} if "met" in spec else {}
        return known | {"reason": outcome["reason"]} | brought
    return known | {"content": from_json(outcome["content"], pointer("/outcomes", spec["id"], "content"))}
