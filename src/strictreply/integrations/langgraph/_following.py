"""From a router's decision to the next state: what was decided is written down, and nothing is decided anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, cast

from strictreply.contract._describing import compact
from strictreply.coordination._action_answer import ActionAnswer
from strictreply.coordination._actions import Branch, BranchType, ValidationResult
from strictreply.coordination._agent_steering import ActionSteering
from strictreply.coordination._error_policy import ContentLoopGuard, ContentStreak
from strictreply.coordination._routing_decision import ExecutionStep, RoutingDecision, RoutingReason, StepType
from strictreply.coordination._runs.human_requests import HumanKind, Words
from strictreply.coordination._runs.human_turn import put_question, request_human_input
from strictreply.coordination._runs.next_node import RouteReason
from strictreply.coordination._runs.run_counting import RunMetrics
from strictreply.coordination._runs.run_state import (
    RunEnding,
    changed,
    create_initial_state,
    mark_complete,
    new_id,
    utc_now,
)
from strictreply.coordination._topology import USER, Topology
from strictreply.coordination._verdict_routes import question_of
from strictreply.coordination.formats import SystemPromptBuilder
from strictreply.coordination.routing import Router
from strictreply.coordination.validation import ValidationProcessor
from strictreply.integrations.langgraph._agents import ChatAgent
from strictreply.integrations.langgraph._states import (
    BRANCH,
    TOOLS,
    RunState,
    RunStatus,
    as_json,
    as_text,
    exits,
    from_json,
    line,
    node_of,
    outcome,
    with_answer,
    with_turn,
    written,
)
from strictreply.retry._policy import RetryPolicy
from strictreply.retry._steering import Steering
from strictreply.values._json import JSON, JSONObject, Message
from strictreply.wires._chat import peek

_STATUS: Mapping[RoutingReason, RunStatus] = MappingProxyType(
    {
        RoutingReason.ABORTED: RunStatus.ABORTED,
        RoutingReason.HUMAN_SKIP: RunStatus.SKIPPED,
        RoutingReason.MAX_TURNS: RunStatus.FAILED,  # a bound ended it, as the loop limit does: nobody finished
    }
)


_SILENT: Final = frozenset({RoutingReason.WAITING, RoutingReason.CONVERSATION_ENDED})
"""The reasons of a branch that ends without a word: what was brought to it is what it came to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordination:
    """What the nodes of one graph share: the rooms that decide, and the agents that are asked."""

    topology: Topology
    agents: Mapping[str, ChatAgent]
    processor: ValidationProcessor
    router: Router
    prompts: SystemPromptBuilder
    steering: Steering
    max_turns: int
    home: str
    words: Words | None = None
    metrics: RunMetrics | None = None
    content_limit: ContentLoopGuard = field(default_factory=ContentLoopGuard)

    def opening(self, answer: ActionAnswer, *, streak: int) -> str | None:
        """Give what stands behind a prompt, None for nothing: an application's own steering only corrects."""
        return self.steering.opening(answer, streak=streak) if isinstance(self.steering, ActionSteering) else None

    def budget(self, streak: ContentStreak) -> RetryPolicy:
        """Give the bounds of one ask: the policy's, the limit on words alone, none of it when nothing is to be said."""
        budget = self.router.policy.budget
        silent = isinstance(self.steering, ActionSteering) and not self.steering.corrects
        left = 0 if silent else self.content_limit.hard_limit - streak.count - 1
        return replace(budget, max_retries=min(budget.max_retries, left))

    def words_for(self, kind: HumanKind) -> Words:
        """Give the application's own words that can be an answer to this kind of question."""
        return {word: decision for word, decision in (self.words or {}).items() if decision in kind.decisions}


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision about ``agent``, which it replied in ``branch``; ``turn`` is its reply, None when there was none."""

    agent: ChatAgent
    branch: Branch
    decision: RoutingDecision
    turn: Message | None = None

    @property
    def step(self) -> ExecutionStep | None:
        """The first step, which says what all of them are."""
        return next(iter(self.decision.next_steps), None)


def own_branch(branch: Branch, home: BranchType, agent: str) -> Branch:
    """Give the branch that an agent replies in: a conversation of others is over when it is asked."""
    outside = branch.type is BranchType.CONVERSATION and agent not in branch.agents
    return replace(branch, type=home, agents=(), turns=0) if outside else branch


def talking(topology: Topology, branch: Branch, home: BranchType, agent: str, result: ValidationResult) -> Branch:
    """Give the branch that a reply belongs to: a conversation while two agents that talk in turns hand over."""
    target = result.next_agent
    if target is None:
        return branch
    if not topology.in_conversation(agent, target):
        return replace(branch, type=home, agents=(), turns=0)
    if branch.type is BranchType.CONVERSATION and {agent, target} == set(branch.agents):
        return branch
    return replace(branch, type=BranchType.CONVERSATION, agents=(agent, target), turns=0)


def follow(state: RunState, decided: Decided) -> RunState:
    """Give the state in which the decision is being followed."""
    state = _on_branch(state, decided)
    if decided.decision.has_child_branches():
        return _spawned(state, decided)
    step = decided.step
    if step is None or not decided.decision.should_continue:
        return ended(state, decided)
    return _FOLLOWED[step.step_type](state, decided, step)


def ended(state: RunState, decided: Decided, content: JSON = None) -> RunState:
    """End the line: what it came to is kept, and a final response is an answer to the user."""
    decision, step = decided.decision, decided.step
    reason = decision.reason or RoutingReason.BROKEN_RESULT
    status = _STATUS.get(reason, RunStatus.COMPLETED if decision.error_action is None else RunStatus.FAILED)
    if step is not None and step.step_type is StepType.FINAL_RESPONSE:
        content = step.data.get("content")
    elif reason in _SILENT:
        content = _carried(state, decided.agent.name)
    error = None if status is RunStatus.COMPLETED else decision.error_message or decision.completion_reason
    told = outcome(decided.agent.name, status, reason.value, content=content, error=error)
    ending = RunEnding.ABORTED if status is RunStatus.ABORTED else RunEnding.COMPLETED
    return mark_complete(with_answer(changed(state, outcome=told), content), ending)


def left(state: RunState, decided: Decided, target: str, content: JSON) -> RunState:
    """End a branch at an agent that follows outside of it: the one that opened it, or one where branches meet."""
    return ended(changed(state, branch={**state["branch"], "leads_to": target}), decided, content)


def branch_states(state: RunState, limit: int, meets: Sequence[str]) -> list[RunState]:
    """Make the state that each awaited branch begins with: all of them share what is left of the run's ``limit``.

    Of the executions that are left, one is kept for the join and one for the agent that is told; the others are divided
    evenly, the first branches having what is over. A branch begins at the count that leaves it its share, so branches
    of branches divide that in turn, and a run executes limit + 1 nodes at most, whatever is opened (requirement R32).
    ``meets`` are the agents at which each of them ends, because others may lead there as well.
    """
    spawned = state["spawned"] or {}
    specs: Sequence[JSONObject] = spawned.get("branches", ())
    shares = _shares(limit - state["loop_count"] - 1, len(specs))
    states = (_branch_state(state, spawned["agent"], spec, meets) for spec in specs)
    return [_bounded(one, spec["agent"], share, limit) for one, spec, share in zip(states, specs, shares, strict=True)]


def _shares(left: int, branches: int) -> list[int]:
    """Divide the executions that are left."""
    each, over = divmod(max(left, 0), max(branches, 1))
    return [each + (index < over) for index in range(branches)]


def _branch_state(state: RunState, spawner: str, spec: JSONObject, meets: Sequence[str]) -> RunState:
    """Make the state of one branch: nothing of the others' is in it but what it is asked, or told of those it ends."""
    first = create_initial_state(
        conversation_id=f"{state['conversation_id']}/{spec['id']}:{spec['instance_id']}",  # a branch of this run alone
        user_profile=state["user_profile"],
        max_loop_count=state.get("max_loop_count"),
    )
    first = changed(first, reply_formats=state.get("reply_formats", {}))
    request, asked = from_json(spec["request"], "/spawned/branches"), state["branch"]["asked"]
    if met := "met" in spec:
        opening = told_of(request, asked, spec["met"])
    else:
        opening = _handover(spawner, request, state)
        asked = asked if request is None else f"{spawner} asked: {as_text(request)}"
    begun = line(first, spec["agent"], Branch(spec["id"], BranchType.PARALLEL), asked=asked, spawner=spawner)
    known = {**begun["branch"], "meets": list(meets), "opening": None if met else opening}
    return with_turn(changed(begun, branch=known), spec["agent"], opening)


def _bounded(begun: RunState, agent: str, share: int, limit: int) -> RunState:
    """Leave a branch its share of the executions; without one it is over before it begins, and says why."""
    begun = changed(begun, loop_count=limit + 1 - share)
    if share:
        return begun
    words = "nothing was left of the loop bound for this branch"
    told = outcome(agent, RunStatus.FAILED, RouteReason.LOOP_LIMIT.value, error=words)
    return changed(begun, outcome=told)


def _on_branch(state: RunState, decided: Decided) -> RunState:
    """Keep the branch with the turns that the decision counts."""
    kept = state["branch"]
    turns = decided.decision.metadata.get("conversation_turns", decided.branch.turns)
    return changed(state, branch={**kept, **written(replace(decided.branch, turns=turns))})


def _spawned(state: RunState, decided: Decided) -> RunState:
    """Note the branches to open, each with its own request; their order is that of the reply."""
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


def _calling(state: RunState, decided: Decided, step: ExecutionStep) -> RunState:  # noqa: ARG001 - a _Follow
    """Keep the reply whose tools are to be run: it joins the thread together with their results."""
    return changed(state, calling={"agent": decided.agent.name, "turn": decided.turn}, next_agent=TOOLS)


def _invoked(state: RunState, decided: Decided, step: ExecutionStep) -> RunState:
    """Put a question to the user, ask an agent again, hand over, or come back to the one that opened this branch."""
    agent, request = decided.agent, step.data.get("request")
    if step.target == USER:
        resume = node_of(agent.name)
        return request_human_input(state, as_text(request), kind=agent.asks, resume_to=resume)
    following = changed(state, next_agent=node_of(step.target))
    if decided.decision.reason is RoutingReason.HUMAN_RETRY:
        return following
    if step.target in exits(state):
        return left(state, decided, step.target, request)
    return with_turn(following, step.target, _handover(agent.name, request, state))


def _troubled(state: RunState, decided: Decided, step: ExecutionStep) -> RunState:
    """Ask the user how to go on after an error: retry, skip or abort."""
    agent = decided.agent
    message = step.data.get("error", {}).get("message") or ""
    skip = None if agent.skip_to is None else node_of(agent.skip_to)
    words = f"{agent.name}: {message}\n{HumanKind.ERROR.prompt}"
    question = question_of(step, request_id=new_id(), prompt=words, skip_to=skip, requested_at=utc_now().isoformat())
    node = node_of(agent.name)
    return put_question(state, replace(question, resume_to=node, interrupted=node))


_Follow = Callable[[RunState, Decided, ExecutionStep], RunState]
_FOLLOWED: Mapping[StepType, _Follow] = MappingProxyType(
    {
        StepType.TOOL_EXECUTION: _calling,
        StepType.AGENT_INVOCATION: _invoked,
        StepType.ERROR_RECOVERY: _troubled,
    }
)


def told_of(reports: JSON, asked: str, led: Iterable[str] = ()) -> str:
    """Word what an agent is told of branches that are done; ``led`` are the agents that handed over to it.

    Where one of them handed over without a request it is told what the line was ``asked``, as in any hand-over.
    """
    handovers = [f"{agent} hands over to you." for agent in dict.fromkeys(led)]
    silent = any(peek(one, "content") is None and peek(one, "reason") is None for one in cast("list[JSON]", reports))
    context = [asked] if handovers and silent else []
    return " ".join([*handovers, *context, f"The branches are done: {compact(reports)}"])


def _carried(state: RunState, agent: str) -> JSON:
    """Return what an agent of a branch was told on it beside the request that opened it; None for nothing.

    That is what others handed over to it, what its tools and its own branches gave, and what the user said.
    """
    branch = state["branch"]
    if branch["spawner"] is None:
        return None
    told = [turn for turn in state["threads"].get(agent, []) if turn["role"] in ("user", "tool")]
    texts = [turn["content"] for turn in told if turn["content"] != branch.get("opening")]
    return cast("JSON", texts[0] if len(texts) == 1 else texts or None)


def _handover(agent: str, request: JSON, state: RunState) -> str:
    """Word what an agent is asked by another; without a request it is told what the run or the branch was asked."""
    if request is not None:
        return f"From {agent}: {as_text(request)}"
    return f"{agent} hands over to you. {state['branch']['asked']}"
