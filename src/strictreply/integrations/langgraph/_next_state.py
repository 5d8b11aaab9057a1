"""Turns a router's decision about a reply into the next state of the run; the decision itself is made before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, cast

from strictreply.contract._describing import compact
from strictreply.coordination._actions import Branch, BranchType, ValidationResult
from strictreply.coordination._routing_decision import ExecutionStep, RoutingDecision, RoutingReason, StepType
from strictreply.coordination._runs.human_requests import HumanKind
from strictreply.coordination._runs.run_state import (
    RunEnding,
    changed,
    mark_complete,
    new_id,
    put_question,
    request_human_input,
    utc_now,
)
from strictreply.coordination._topology import USER, Topology
from strictreply.coordination._verdict_routes import question_of
from strictreply.integrations.langgraph._graph_settings import ChatAgent
from strictreply.integrations.langgraph._graph_state import (
    BRANCH,
    TOOLS,
    RunState,
    RunStatus,
    as_json,
    as_text,
    branch_record,
    exits,
    node_of,
    outcome_record,
    with_answer,
    with_turn,
)
from strictreply.values._json import JSON, Message
from strictreply.wires._chat import peek

_STATUS: Mapping[RoutingReason, RunStatus] = MappingProxyType(
    {
        RoutingReason.ABORTED: RunStatus.ABORTED,
        RoutingReason.HUMAN_SKIP: RunStatus.SKIPPED,
        RoutingReason.MAX_TURNS: RunStatus.FAILED,  # a bound ended it, as the loop limit does: nobody finished
    }
)

_WITHOUT_CONTENT: Final = frozenset({RoutingReason.WAITING, RoutingReason.CONVERSATION_ENDED})
"""The reasons of a branch that ends without content of its own: its outcome is what was brought to it."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision about ``agent``, which it replied in ``branch``; ``turn`` is its reply, None when there was none."""

    agent: ChatAgent
    branch: Branch
    decision: RoutingDecision
    turn: Message | None = None

    @property
    def step(self) -> ExecutionStep | None:
        """The first step, whose type all steps of a decision have."""
        return next(iter(self.decision.next_steps), None)


def own_branch(branch: Branch, home: BranchType, agent: str) -> Branch:
    """Return the branch that an agent replies in: a conversation of two others is over when it is asked."""
    outside = branch.type is BranchType.CONVERSATION and agent not in branch.agents
    return replace(branch, type=home, agents=(), turns=0) if outside else branch


def branch_after(topology: Topology, branch: Branch, home: BranchType, agent: str, result: ValidationResult) -> Branch:
    """Return the branch that a reply belongs to: a conversation while two agents that talk in turns hand over."""
    target = result.next_agent
    if target is None:
        return branch
    if not topology.in_conversation(agent, target):
        return replace(branch, type=home, agents=(), turns=0)
    if branch.type is BranchType.CONVERSATION and {agent, target} == set(branch.agents):
        return branch
    return replace(branch, type=BranchType.CONVERSATION, agents=(agent, target), turns=0)


def follow(state: RunState, decided: Decided) -> RunState:
    """Return the state that follows from a decision."""
    agent, decision, step = decided.agent, decided.decision, decided.step
    turns = decision.metadata.get("conversation_turns", decided.branch.turns)
    state = changed(state, branch={**state["branch"], **branch_record(replace(decided.branch, turns=turns))})
    if decision.has_child_branches():
        return _spawning(state, decided)
    if step is None or not decision.should_continue:
        return ended(state, decided)
    if step.step_type is StepType.TOOL_EXECUTION:  # the reply joins the thread together with the results
        return changed(state, calling={"agent": agent.name, "turn": decided.turn}, next_agent=TOOLS)
    if step.step_type is StepType.ERROR_RECOVERY:
        return _asking_after_error(state, agent, step)
    # What is left is to invoke an agent: a router is told that no retries are left, so it decides on none.
    return _invoking(state, decided, step)


def ended(state: RunState, decided: Decided, content: JSON = None) -> RunState:
    """End the run or branch: its outcome is stored, and a final response is an answer to the user."""
    decision, step = decided.decision, decided.step
    reason = decision.reason or RoutingReason.BROKEN_RESULT
    status = _STATUS.get(reason, RunStatus.COMPLETED if decision.error_action is None else RunStatus.FAILED)
    if step is not None and step.step_type is StepType.FINAL_RESPONSE:
        content = step.data.get("content")
    elif reason in _WITHOUT_CONTENT:
        content = _brought_to(state, decided.agent.name)
    error = None if status is RunStatus.COMPLETED else decision.error_message or decision.completion_reason
    outcome = outcome_record(decided.agent.name, status, reason.value, content=content, error=error)
    ending = RunEnding.ABORTED if status is RunStatus.ABORTED else RunEnding.COMPLETED
    return mark_complete(with_answer(changed(state, outcome=outcome), content), ending)


def left(state: RunState, decided: Decided, target: str, content: JSON) -> RunState:
    """End a branch at an agent that follows outside of it: the one that opened it, or one where branches meet."""
    return ended(changed(state, branch={**state["branch"], "leads_to": target}), decided, content)


def _spawning(state: RunState, decided: Decided) -> RunState:
    """Store the branches to open, each with its own request, in the order of the reply."""
    stem = f"{decided.branch.id}/{state['loop_count']}"
    branches = [
        {
            "id": f"{stem}.{index}",
            "agent": spec.agent,
            "instance_id": spec.instance_id,
            "request": as_json(spec.request),
        }
        for index, spec in enumerate(decided.decision.branch_specs)
    ]
    return changed(state, spawned={"agent": decided.agent.name, "branches": branches}, next_agent=BRANCH)


def _invoking(state: RunState, decided: Decided, step: ExecutionStep) -> RunState:
    """Ask the user, ask an agent again, hand over, or come back to the agent that opened this branch."""
    agent, request = decided.agent, step.data.get("request")
    if step.target == USER:
        return request_human_input(state, as_text(request), kind=agent.asks, resume_to=node_of(agent.name))
    following = changed(state, next_agent=node_of(step.target))
    if decided.decision.reason is RoutingReason.HUMAN_RETRY:
        return following
    if step.target in exits(state):
        return left(state, decided, step.target, request)
    return with_turn(following, step.target, handover_text(agent.name, request, state))


def _asking_after_error(state: RunState, agent: ChatAgent, step: ExecutionStep) -> RunState:
    """Ask the user how to go on after an error: retry, skip or abort."""
    message = step.data.get("error", {}).get("message") or ""
    skip = None if agent.skip_to is None else node_of(agent.skip_to)
    words = f"{agent.name}: {message}\n{HumanKind.ERROR.prompt}"
    question = question_of(step, request_id=new_id(), prompt=words, skip_to=skip, requested_at=utc_now().isoformat())
    node = node_of(agent.name)
    return put_question(state, replace(question, resume_to=node, interrupted=node))


def handover_text(agent: str, request: JSON, state: RunState) -> str:
    """Return what an agent is told when another hands over: the request, else what the run or branch was asked."""
    if request is not None:
        return f"From {agent}: {as_text(request)}"
    return f"{agent} hands over to you. {state['branch']['asked']}"


def reports_text(reports: JSON, asked: str, led: Iterable[str] = ()) -> str:
    """Return what an agent is told of branches that are done; ``led`` are the agents that handed over to it.

    Where one of them handed over without a request it is also told what the run was ``asked``, as in any hand-over.
    """
    handovers = [f"{agent} hands over to you." for agent in dict.fromkeys(led)]
    silent = any(peek(one, "content") is None and peek(one, "reason") is None for one in cast("list[JSON]", reports))
    context = [asked] if handovers and silent else []
    return " ".join([*handovers, *context, f"The branches are done: {compact(reports)}"])


def _brought_to(state: RunState, agent: str) -> JSON:
    """Return what an agent of a branch was told on it beside the request that opened it; None for nothing.

    That is what others handed over to it, what its tools and its own branches gave, and what the user said.
    """
    branch = state["branch"]
    if branch["spawner"] is None:
        return None
    told = [turn for turn in state["threads"].get(agent, []) if turn["role"] in ("user", "tool")]
    texts = [turn["content"] for turn in told if turn["content"] != branch.get("opening")]
    return cast("JSON", texts[0] if len(texts) == 1 else texts or None)
