"""The four published patterns, walked from the first reply to the end by nothing but decisions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordination.routed import TEAM, decide, invalid, talk, valid
from strictreply.coordination.actions.branches import Branch, BranchType
from strictreply.coordination.actions.kinds import ActionType
from strictreply.coordination.replies.api_errors import ApiError
from strictreply.coordination.routing.decisions import ExecutionStep, RoutingContext, RoutingReason, StepType
from strictreply.coordination.routing.recovery import question_of, resume
from strictreply.coordination.routing.router import Router
from strictreply.coordination.runs.ledger import HumanDecision, HumanKind, PendingHuman, read_answer
from strictreply.coordination.topology.graph import USER, Topology
from strictreply.coordination.validation.processor import ValidationProcessor
from strictreply.errors import ContractError
from strictreply.issues import Code, Issue
from strictreply.typing import JSONObject


@pytest.mark.req("M111")
def test_a_linear_chain() -> None:
    """Agent1 → Agent2 → Agent3 → final: each reply leads to the next agent, and the last one to the user."""
    chain = Topology.of({USER: ["Agent1"], "Agent1": ["Agent2"], "Agent2": ["Agent3"], "Agent3": [USER]})
    processor, router = ValidationProcessor(chain), Router(chain)
    replies: dict[str, JSONObject] = {
        "Agent1": {"next_action": "invoke_agent", "action_input": "Agent2"},
        "Agent2": {"next_action": "invoke_agent", "action_input": "Agent3"},
        "Agent3": {"next_action": "final_response", "content": "done"},
    }
    walked, agent, over = [], "Agent1", False
    while not over:
        walked.append(agent)
        decision = router.decide(processor.validate(replies[agent], agent), Branch(), RoutingContext())
        agent, over = decision.next_steps[0].target, decision.is_terminal()
    assert (walked, agent) == (["Agent1", "Agent2", "Agent3"], USER)


@pytest.mark.req("M111")
def test_branches_that_join() -> None:
    """The coordinator opens two branches and waits; each leads to the aggregator, which hands the sum over."""
    opened = decide(valid(ActionType.PARALLEL_INVOKE, "Worker1", "Worker2"))
    assert (opened.should_wait, [spec.agent for spec in opened.branch_specs]) == (True, ["Worker1", "Worker2"])
    joined = [decide(valid(ActionType.INVOKE_AGENT, "Aggregator"), spec.agent) for spec in opened.branch_specs]
    assert [decision.next_steps[0].target for decision in joined] == ["Aggregator", "Aggregator"]
    waiting = decide(valid(ActionType.WAIT_AND_AGGREGATE), "Aggregator", branch=Branch(type=BranchType.PARALLEL))
    assert (waiting.next_steps[0].step_type, waiting.should_wait) == (StepType.WAIT_FOR_CONVERGENCE, True)
    assert decide(valid(ActionType.INVOKE_AGENT, "Coordinator"), "Aggregator").next_steps[0].target == "Coordinator"


@pytest.mark.req("M111", "M120")
def test_a_conversation_stops_at_its_turns() -> None:
    """Two agents that only hand over to each other have five turns, and the decision names the cause."""
    agents, branch, spoken = ("Coordinator", "Aggregator"), talk(max_turns=5), 0
    while True:
        speaker, partner = agents[spoken % 2], agents[(spoken + 1) % 2]
        decision = decide(valid(ActionType.INVOKE_AGENT, partner), speaker, branch=branch)
        if decision.is_terminal():
            break
        spoken += 1
        branch = replace(branch, turns=decision.metadata["conversation_turns"])
    assert (spoken, decision.reason, decision.next_steps) == (5, RoutingReason.MAX_TURNS, [])


def failed_step() -> ExecutionStep:
    """Bring an error of Worker1 to the user."""
    error = ApiError.of_report({"classification": "insufficient_credits", "message": "no credits"})
    return decide(error.to_result(agent="Worker1", branch_id="main"), "Worker1").next_steps[0]


@pytest.mark.req("M111")
def test_an_error_is_the_users_to_decide() -> None:
    """Retry asks the same agent again, skip goes to the next one, abort ends; anything else puts the question again."""
    asked = question_of(failed_step(), request_id="q1", skip_to="Aggregator")
    assert (asked.kind, asked.resume_to, asked.skip_to) == (HumanKind.ERROR, "Worker1", "Aggregator")
    answers = {word: resume(TEAM, asked, read_answer(asked.kind, word)) for word in ("retry", "skip", "abort", "hm?")}
    retried, skipped, aborted, again = answers.values()
    assert (retried.next_steps[0].step_type, retried.next_steps[0].target) == (StepType.AGENT_INVOCATION, "Worker1")
    assert skipped.next_steps[0].target == "Aggregator"
    assert (aborted.next_steps, aborted.is_terminal(), aborted.reason) == ([], True, RoutingReason.ABORTED)
    assert (again.next_steps[0].step_type, again.next_steps[0].target) == (StepType.ERROR_RECOVERY, USER)
    assert again.next_steps[0].data["request"] == asked.question
    assert len({decision.reason for decision in answers.values()}) == 4


def test_what_is_asked_again_is_still_a_question() -> None:
    """The step that puts a question again makes the same question."""
    asked = question_of(failed_step(), request_id="q1", prompt="And now?", skip_to="Aggregator", requested_at="noon")
    again = resume(TEAM, asked, HumanDecision.APPROVE).next_steps[0]
    put = question_of(again, request_id="q1", prompt=asked.prompt, skip_to=asked.skip_to, requested_at="noon")
    assert put == asked


def test_a_skipped_step_may_be_the_last() -> None:
    """Where nothing follows the failed step, skipping it ends the branch without a fault."""
    decision = resume(TEAM, question_of(failed_step(), request_id="q1"), HumanDecision.SKIP)
    assert (decision.is_terminal(), decision.reason, decision.error_action) == (True, RoutingReason.HUMAN_SKIP, None)


@pytest.mark.parametrize("skip_to", ["Worker2", "Nobody", USER])
def test_a_user_skips_over_an_edge_only(skip_to: str) -> None:
    """A step to skip to that does not follow the failed one is refused."""
    decision = resume(TEAM, question_of(failed_step(), request_id="q1", skip_to=skip_to), HumanDecision.SKIP)
    assert (decision.next_steps, decision.reason) == ([], RoutingReason.NOT_ALLOWED)


@pytest.mark.parametrize("resume_to", [None, "Nobody", USER])
def test_a_request_that_names_nobody_leads_nowhere(resume_to: str | None) -> None:
    """A request that was kept while the topology changed is refused, not followed."""
    asked = PendingHuman("q1", HumanKind.ERROR, resume_to=resume_to, skip_to="Aggregator")
    assert resume(TEAM, asked, HumanDecision.RETRY).reason is RoutingReason.UNKNOWN_AGENT
    assert resume(TEAM, asked, HumanDecision.SKIP).reason is RoutingReason.NOT_ALLOWED


def test_only_an_error_is_a_question() -> None:
    """A step that brings no error of an agent to the user makes no question."""
    retry = decide(invalid(Issue.of(Code.ACTION_MISSING_FIELD))).next_steps[0]
    reported = decide(invalid(), metadata={"timeout_error": True}).next_steps[0]
    for step in (retry, reported):
        with pytest.raises(ContractError):
            question_of(step, request_id="q1")
