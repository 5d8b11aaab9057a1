"""Turns decisions into the next state of a run.

This includes what follows a reply, the branches that it opens, and how they are joined.

A parallel branch ends by itself, at the agent that opened it, or at an agent that other branches
may lead to as well. Branches that lead to the same agent are joined there, and it is asked once,
with the outcome of each of them.
"""

from __future__ import annotations

import hashlib
import json
from collections import ChainMap, Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

from strictreply.coordination import (
    USER,
    Branch,
    BranchType,
    HumanKind,
    RouteReason,
    RoutingDecision,
    RoutingReason,
    RunEnding,
    StepType,
    Topology,
    create_initial_state,
    mark_complete,
    request_human_input,
)
from strictreply.coordination.state import (
    SettledHuman,
    pending_requests,
    read_requests,
    with_requests,
)
from strictreply.core import JSON, JSONObject, Message
from strictreply.core.forms import peek
from strictreply.core.text import compact, pointer
from strictreply.integrations.langgraph._graph_settings import ChatAgent
from strictreply.integrations.langgraph._graph_state import (
    BRANCH,
    TOOLS,
    RunState,
    after_history,
    as_text,
    branch_record,
    branch_specs,
    changed,
    exits,
    from_json,
    node_of,
    noted,
    state_at_start,
    unheard,
    with_message,
    with_turn,
)
from strictreply.integrations.langgraph._run_outcomes import (
    RunStatus,
    outcome_record,
    stored_outcome,
)

_STATUS: Final[Mapping[RoutingReason, RunStatus]] = {
    RoutingReason.ABORTED: RunStatus.ABORTED,
    RoutingReason.HUMAN_SKIP: RunStatus.SKIPPED,
    # a limit ended it, like the loop limit: no agent finished
    RoutingReason.MAX_TURNS: RunStatus.FAILED,
}

# a branch as it was when it was opened, and its outcome
_Ended: TypeAlias = tuple[JSONObject, JSONObject]


def follow(
    state: RunState,
    agent: ChatAgent,
    branch: Branch,
    decision: RoutingDecision,
    turn: Message | None = None,
) -> RunState:
    """Return the state that follows from a decision about ``agent``.

    ``turn`` is the agent's reply; None if there is none.
    """
    turns = decision.metadata.get("conversation_turns", branch.turns)
    progress = branch_record(replace(branch, turns=turns))
    state = changed(state, branch={**state["branch"], **progress})
    step = next(iter(decision.next_steps), None)  # all steps have the same type

    if decision.has_child_branches():
        branches = [
            {
                "agent": one.agent,
                "instance_id": one.instance_id,
                "request": json.dumps(one.request),
                "id": f"{branch.id}/{state['loop_count']}.{index}",
            }
            for index, one in enumerate(decision.branch_specs)
        ]
        spawned = {"agent": agent.name, "branches": branches}
        return changed(state, spawned=spawned, next_agent=BRANCH)

    if step is None or not decision.should_continue:
        return _ended(state, agent.name, decision, _content(state, agent.name, decision))

    if step.step_type is StepType.TOOL_EXECUTION:
        # the reply joins the thread together with the results
        return changed(state, calling={"agent": agent.name, "turn": turn}, next_agent=TOOLS)

    if step.step_type is StepType.ERROR_RECOVERY:
        # the user decides how to continue: retry, skip or abort
        failure = step.data.get("error", {}).get("message") or ""
        words = f"{agent.name}: {failure}\n{HumanKind.ERROR.prompt}"
        node = node_of(agent.name)
        skip = agent.skip_to and node_of(agent.skip_to)
        # cancelling the question leads back to the agent, like a retry
        at_agent = changed(state, next_agent=node)
        return request_human_input(
            at_agent, words, kind=HumanKind.ERROR, resume_to=node, skip_to=skip
        )

    # The only step left is to invoke an agent: the router gets no retries here, so it never
    # decides on one.
    request = step.data.get("request")
    if step.target == USER:
        node = node_of(agent.name)
        state = noted(state, agent.name, as_text(request))
        return request_human_input(state, as_text(request), kind=agent.asks, resume_to=node)

    following = changed(state, next_agent=node_of(step.target))
    if decision.reason is RoutingReason.HUMAN_RETRY:
        return following
    if step.target in exits(state):
        return _ended(state, agent.name, decision, request, leads_to=step.target)

    return _handed_over(following, agent.name, step.target, request)


def _handed_over(state: RunState, agent: str, target: str, request: JSON) -> RunState:
    """Give an agent what another one hands over, after the messages that it has not seen."""
    state, before = unheard(state, target)
    text = _handover_text(agent, request, state)
    if request is not None:
        state = noted(state, agent, as_text(request))

    state, _ = unheard(state, target)
    return with_turn(state, target, after_history(before, text))


def _ended(
    state: RunState,
    agent: str,
    decision: RoutingDecision,
    content: JSON = None,
    *,
    leads_to: str | None = None,
) -> RunState:
    """Return the state of a run or branch that is over.

    ``leads_to`` is the agent that a branch leads to; None if there is none.
    """
    reason = decision.reason or RoutingReason.BROKEN_RESULT
    status = RunStatus.COMPLETED if decision.error_action is None else RunStatus.FAILED
    status = _STATUS.get(reason, status)
    error = None
    if status is not RunStatus.COMPLETED:
        error = decision.error_message or decision.completion_reason
    outcome = outcome_record(agent, status, reason.value, content=content, error=error)

    if content is not None:
        state = noted(with_message(state, as_text(content)), agent, as_text(content))

    ending = RunEnding.ABORTED if status is RunStatus.ABORTED else RunEnding.COMPLETED
    branch = state["branch"] if leads_to is None else {**state["branch"], "leads_to": leads_to}
    return mark_complete(changed(state, outcome=outcome, branch=branch), ending)


def _content(state: RunState, agent: str, decision: RoutingDecision) -> JSON:
    """Return the answer of a run that is over.

    For a branch that ends without content of its own, it is the content that was passed to it.
    """
    step = next(iter(decision.next_steps), None)
    if step is not None and step.step_type is StepType.FINAL_RESPONSE:
        return step.data.get("content")

    branch = state["branch"]
    silent = decision.reason in (RoutingReason.WAITING, RoutingReason.CONVERSATION_ENDED)
    if not silent or branch["spawner"] is None:
        return None

    # All that its agent received in addition to its request: hand-overs, results of tools and
    # branches, the user's messages.
    thread = state["threads"].get(agent, [])
    contents: list[JSON] = [turn["content"] for turn in thread if turn["role"] in ("user", "tool")]
    texts = [text for text in contents if text != branch.get("opening")]
    return texts[0] if len(texts) == 1 else texts or None


def _handover_text(agent: str, request: JSON, state: RunState) -> str:
    if request is not None:
        return f"From {agent}: {as_text(request)}"
    return f"{agent} hands over to you. {state['branch']['asked']}"


def _reports_text(reports: JSON, asked: str, led: Iterable[str] = ()) -> str:
    """Return the agent's turn that reports the outcomes of branches.

    ``led`` are the agents that handed over; some of them did so without a request.
    """
    handovers = [f"{agent} hands over to you." for agent in dict.fromkeys(led)]
    listed = cast("list[JSON]", reports)
    silent = any(peek(one, "content") is None and peek(one, "reason") is None for one in listed)
    context = [asked] if handovers and silent else []
    return " ".join([*handovers, *context, f"The branches are done: {compact(reports)}"])


def branch_states(
    topology: Topology, state: RunState, limit: int, own_fields: Mapping[str, bool]
) -> list[RunState]:
    """Return the state that each awaited branch begins with.

    A branch gets only those of the application's ``own_fields`` that have no reducer. What it
    writes into the others is added to the run's when the branch is over.

    The branches share what is left of the run's ``limit``. One execution is reserved for the join,
    and one for the agent after it; the others are divided evenly. Each branch starts with a count
    that leaves it its share, so a run executes at most limit + 1 nodes (requirement R32).
    """
    specs = (state["spawned"] or {})["branches"]
    meets = _meeting_points(topology, state)
    each, over = divmod(max(limit - state["loop_count"] - 1, 0), max(len(specs), 1))
    opened: list[RunState] = []
    known: Mapping[str, Any] = {**state}
    given = {name: known[name] for name, adds in own_fields.items() if name in known and not adds}

    for index, spec in enumerate(specs):
        share = each + (index < over)
        new = changed(_branch_state(state, spec, meets), loop_count=limit + 1 - share)

        if not share:  # the branch is over before it begins
            words = "the loop limit was reached before this branch could run"
            reason = RouteReason.LOOP_LIMIT.value
            outcome = outcome_record(spec["agent"], RunStatus.FAILED, reason, error=words)
            new = changed(new, outcome=outcome)

        opened.append(changed(new, **given))

    return opened


def _branch_state(state: RunState, spec: JSONObject, meets: list[JSON]) -> RunState:
    """Return the state of one branch; its request is all that it knows of the others."""
    # an id that is unique to a branch of this run
    here = f"{state['conversation_id']}/{spec['id']}:{spec['instance_id']}"
    profile = state["user_profile"]
    limit = state.get("max_loop_count")
    first = create_initial_state(conversation_id=here, user_profile=profile, max_loop_count=limit)
    first = changed(
        cast("RunState", first),
        reply_formats=state.get("reply_formats", {}),
        history=state.get("history"),
    )

    request = from_json(spec["request"], "/spawned/branches")
    asked = state["branch"]["asked"]
    spawner = (state["spawned"] or {})["agent"]
    known: JSONObject = {"asked": asked, "spawner": spawner, "meets": meets}

    if "met" in spec:
        opening = _reports_text(request, asked, spec["met"])
    else:
        opening = known["opening"] = _handover_text(spawner, request, state)
        known["asked"] = asked if request is None else f"{spawner} asked: {as_text(request)}"

    new = state_at_start(first, spec["agent"], Branch(spec["id"], BranchType.PARALLEL), **known)
    new, before = unheard(new, spec["agent"])
    return with_turn(new, spec["agent"], after_history(before, opening))


def branch_outcome(state: RunState, last: RunState, own_fields: Iterable[str]) -> JSONObject:
    """Return what a branch that ended in the state ``last`` changes in its run.

    These are its pending questions, and the application's ``own_fields`` that it wrote.
    """
    outcome = stored_outcome(last) | {
        "spent": last["loop_count"] - state["loop_count"],
        "reply_formats": last.get("reply_formats", {}),
        "leads_to": last["branch"].get("leads_to"),
    }

    spawner = node_of(state["branch"]["spawner"])
    orphans = [
        request.handed_over(spawner, tell_to=spawner).to_dict()
        for request in pending_requests(last)
    ]
    settled = [one.to_dict() for one in read_requests(last) if isinstance(one, SettledHuman)]
    before: Mapping[str, Any] = {**state}
    after: Mapping[str, Any] = {**last}
    written = {
        name: after[name]
        for name in own_fields
        if name in after and after[name] != before.get(name, ...)
    }
    asked = {"human_requests": [*settled, *orphans]}
    return {"outcomes": {state["branch"]["id"]: outcome}} | asked | written


def _meeting_points(topology: Topology, state: RunState) -> list[JSON]:
    """Return the agents at which a branch that is opened now ends.

    Other branches may lead to them, too.
    """
    spawned = state["spawned"] or {}
    led = (state["outcomes"][spec["id"]].get("leads_to") for spec in spawned.get("waiting", ()))
    waiting = {agent for agent in led if agent not in (None, spawned["agent"])}
    branches = [*(spec["agent"] for spec in spawned["branches"]), *waiting]
    reached = Counter(
        agent for one in branches for agent in _reached(topology, one, spawned["agent"])
    )
    shared = {agent for agent, times in reached.items() if times > 1}
    return sorted((shared | waiting | exits(state)) - {spawned["agent"]})


def join_branches(topology: Topology, state: RunState) -> RunState:
    """Continue where the branches lead, with the outcomes in the order of the reply.

    - An abort in one branch ends the run.
    - If the branches lead to one agent, it continues in this run. If no branch leads to an agent,
      it is the agent that opened them.
    - If they lead to several agents, those that no other one leads to are asked first, each in a
      branch of its own.
    - An exit of this branch ends the branch, which then leads to it.
    """
    spawned = state["spawned"] or {}
    opener = spawned["agent"]
    specs = branch_specs(state)
    outcomes = [state["outcomes"][spec["id"]] for spec in specs]
    ended = list(zip(specs, outcomes, strict=True))

    # if an agent has several formats, the first one is used
    formats = ChainMap(state.get("reply_formats", {}), *(one["reply_formats"] for one in outcomes))
    state = changed(state, spawned=None, reply_formats=dict(formats))

    aborted = [one["error"] for one in outcomes if one["status"] == RunStatus.ABORTED]
    if aborted:
        return _ended(
            state, opener, RoutingDecision.stopped(RoutingReason.ABORTED, str(aborted[0]))
        )

    led = _led_to(outcomes)
    onward = {*led} - {opener}
    here = onward - exits(state)
    if onward and not here:
        target = _first(topology, onward, opener)[0]
        onwards = RoutingDecision.stopped(RoutingReason.SEQUENTIAL, "the branches lead on")
        return _ended(state, led[target][0], onwards, _reports(ended), leads_to=target)

    if onward and len(led) > 1:
        return _opened_at(state, spawned, ended, _first(topology, here, opener))

    (target,) = led or {opener}
    leading = led[target] if onward else []
    words = _reports_text(_reports(ended), state["branch"]["asked"], leading)
    state = with_turn(state, target, words)
    node = node_of(target)
    return _asked_before(changed(state, next_agent=node), node, teller=node)


def _led_to(outcomes: Iterable[JSONObject]) -> dict[str, list[str]]:
    """Return the agents that branches lead to, each with those that lead to it."""
    led = dict[str, list[str]]()
    for outcome in outcomes:
        if (target := outcome.get("leads_to")) is not None:
            led.setdefault(target, []).append(outcome["agent"])
    return led


def _reached(topology: Topology, agent: str, opener: str) -> set[str]:
    reached = set[str]()
    ways = [agent]
    for node in ways:  # grows while it is walked
        following = {*topology.allowed_targets(node)} - reached - {opener}
        reached |= following
        ways += following

    return reached


def _first(topology: Topology, targets: set[str], opener: str) -> list[str]:
    """Return the targets that no other one leads to.

    Of targets that lead to each other, none has to wait.
    """
    ahead = {one: _reached(topology, one, opener) for one in targets}

    def waits(one: str) -> bool:
        return any(one in ahead[other] and other not in ahead[one] for other in targets)

    return sorted(one for one in targets if not waits(one))


def _opened_at(
    state: RunState, spawned: JSONObject, ended: list[_Ended], agents: list[str]
) -> RunState:
    opened = []
    for index, agent in enumerate(agents):
        brought = [(spec, outcome) for spec, outcome in ended if outcome.get("leads_to") == agent]
        branch_id = f"{state['branch']['id']}/{state['loop_count']}.{index}"
        # like the ids of the branches that an agent opens (M32)
        place = [state["conversation_id"], state["loop_count"], len(state["messages"])]
        seed = json.dumps([*place, branch_id])
        instance = f"{agent}_{index}_{hashlib.blake2b(seed.encode(), digest_size=4).hexdigest()}"
        opened.append(
            {
                "id": branch_id,
                "agent": agent,
                "instance_id": instance,
                "request": json.dumps(_reports(brought)),
                "met": [outcome["agent"] for _, outcome in brought],
            }
        )

    waiting = [spec for spec, outcome in ended if outcome.get("leads_to") not in agents]
    spawned = {**spawned, "branches": opened, "waiting": waiting}
    state = changed(state, spawned=spawned, next_agent=BRANCH)
    return _asked_before(state, BRANCH, teller=node_of(spawned["agent"]))


def _asked_before(state: RunState, target: str, *, teller: str) -> RunState:
    pending = [one.handed_over(target, tell_to=teller) for one in pending_requests(state)]
    if not pending:
        return state
    return with_requests(state, *(replace(one, redirected=one.redirected + 1) for one in pending))


def _reports(ended: Iterable[_Ended]) -> list[JSON]:
    """Return the reports on branches.

    A failed branch is reported with its reason, without text of a model or a server.
    """
    reports: list[JSON] = []
    for spec, outcome in ended:
        report = {
            "agent": spec["agent"],
            "instance_id": spec["instance_id"],
            "status": outcome["status"],
        }

        if outcome["status"] == RunStatus.COMPLETED:
            at = pointer("/outcomes", spec["id"], "content")
            report["content"] = from_json(outcome["content"], at)
        else:
            report["reason"] = outcome["reason"]
            if "met" in spec:
                # the reports of other branches must not be lost with an agent that failed
                report["brought"] = from_json(spec["request"], "/spawned/waiting")

        reports.append(report)

    return reports
