"""The four published patterns, walked from the first reply to the end by nothing but decisions."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest

from strictreply import ContractError
from strictreply.coordination import (
    USER,
    AgentReplyCode,
    ApiError,
    Branch,
    BranchType,
    ExecutionStep,
    HumanDecision,
    HumanKind,
    PendingHuman,
    RoutingContext,
    RoutingDecision,
    RoutingReason,
    StepType,
    Topology,
    question_of,
    read_answer,
    resume_after_error,
)
from strictreply.coordination.routing import Router
from strictreply.coordination.validation import ValidationProcessor
from strictreply.core import JSONObject
from support.coordination.routed import TEAM, decide, invalid, talk


def hand(target: str, request: str | None = None) -> JSONObject:
    """Write a hand-over."""
    return {"next_action": "invoke_agent", "action_input": target} | (
        {} if request is None else {"request": request}
    )


class Team:
    """Agents that reply by a script, walked by nothing but verdicts and decisions."""

    def __init__(self, topology: Topology, **replies: JSONObject) -> None:
        """Judge and route within a topology; each agent always gives the same reply."""
        self.topology = topology
        self.replies = replies
        self.processor, self.router = ValidationProcessor(topology), Router(topology)

    def turn(self, agent: str, branch: Branch | None = None) -> RoutingDecision:
        """Pass an agent's reply to the state and return what follows."""
        result = self.processor.validate(self.replies[agent], agent, branch)
        assert result.is_valid
        return self.router.decide(result, branch or Branch(), RoutingContext())


@pytest.mark.req("M111")
def test_a_linear_chain() -> None:
    """Agent1 → Agent2 → Agent3 → final: each reply leads to the next agent, and the last one to the
    user.
    """
    chain = Topology.of(
        {USER: ["Agent1"], "Agent1": ["Agent2"], "Agent2": ["Agent3"], "Agent3": [USER]}
    )
    final: JSONObject = {"next_action": "final_response", "content": "done"}
    team = Team(chain, Agent1=hand("Agent2", "one"), Agent2=hand("Agent3", "two"), Agent3=final)
    decisions = [team.turn("Agent1")]

    agent = "Agent1"
    while not decisions[-1].is_terminal():
        (step,) = decisions[-1].next_steps
        agent = step.target
        decisions.append(team.turn(agent))

    steps = [step for decision in decisions for step in decision.next_steps]
    assert [(step.step_type, step.target, step.data) for step in steps] == [
        (StepType.AGENT_INVOCATION, "Agent2", {"request": "one"}),
        (StepType.AGENT_INVOCATION, "Agent3", {"request": "two"}),
        (StepType.FINAL_RESPONSE, USER, {"content": "done"}),
    ]

    assert [decision.reason for decision in decisions] == [
        *(RoutingReason.SEQUENTIAL, RoutingReason.SEQUENTIAL, RoutingReason.FINAL)
    ]
    assert [decision.should_continue for decision in decisions] == [True, True, False]


@pytest.mark.req("M111")
def test_branches_that_join() -> None:
    """The coordinator opens two branches and waits; each leads to the aggregator, which waits for
    both and sums up.
    """
    spawn: JSONObject = {
        "next_action": "parallel_invoke",
        "agents": ["Worker1", "Worker2"],
        "agent_requests": {"Worker1": "north", "Worker2": "south"},
    }
    found = {name: hand("Aggregator", f"{name} found") for name in ("Worker1", "Worker2")}
    team = Team(TEAM, Coordinator=spawn, Aggregator={"next_action": "wait_and_aggregate"}, **found)
    opened = team.turn("Coordinator")
    assert (opened.reason, opened.next_steps, opened.should_wait) == (
        RoutingReason.PARALLEL,
        [],
        True,
    )

    assert [(spec.agent, spec.request) for spec in opened.branch_specs] == [
        ("Worker1", "north"),
        ("Worker2", "south"),
    ]
    inside = Branch("b1", BranchType.PARALLEL)
    joined = [
        step for spec in opened.branch_specs for step in team.turn(spec.agent, inside).next_steps
    ]
    assert [(step.step_type, step.target, step.data["request"]) for step in joined] == [
        (StepType.AGENT_INVOCATION, "Aggregator", "Worker1 found"),
        (StepType.AGENT_INVOCATION, "Aggregator", "Worker2 found"),
    ]

    waiting = team.turn("Aggregator", inside)
    assert [step.step_type for step in waiting.next_steps] == [StepType.WAIT_FOR_CONVERGENCE]
    assert (waiting.should_wait, waiting.should_continue, waiting.is_terminal()) == (
        True,
        False,
        False,
    )

    team.replies["Aggregator"] = {"next_action": "final_response", "content": "both"}
    summed = team.turn("Aggregator")
    assert (summed.next_steps[0].data, summed.is_terminal()) == ({"content": "both"}, True)


@pytest.mark.req("M111", "M120")
@pytest.mark.parametrize("bound", [5, 1, 2])
def test_a_conversation_stops_at_its_turns(bound: int) -> None:
    """Two agents that only hand over to each other have ``max_turns``, 5 by default, and the
    decision says why.
    """
    agents = ("Coordinator", "Aggregator")
    team = Team(TEAM, Coordinator=hand("Aggregator"), Aggregator=hand("Coordinator"))
    branch = talk(max_turns=bound)
    turns = list[int]()

    decision = RoutingDecision()
    for speaker in cycle(agents):
        decision = team.turn(speaker, branch)
        if decision.is_terminal():
            break

        assert decision.reason is RoutingReason.CONVERSATION
        turns.append(decision.metadata["conversation_turns"])
        branch = replace(branch, turns=turns[-1])

    assert turns == [*range(1, bound + 1)]
    assert (decision.reason, decision.next_steps) == (RoutingReason.MAX_TURNS, [])
    assert decision.metadata == {"routing_type": "max_turns", "conversation_turns": bound}
    assert Branch().max_turns == 5


def failed_step() -> ExecutionStep:
    """Bring an error of Worker1 to the user."""
    error = ApiError.of_report({"classification": "insufficient_credits", "message": "no credits"})
    return decide(error.to_result(agent="Worker1", branch_id="main"), "Worker1").next_steps[0]


@pytest.mark.req("M111")
def test_an_error_is_the_users_to_decide() -> None:
    """Retry asks the same agent again, skip goes to the next one, abort ends; anything else puts
    the question again.
    """
    asked = question_of(failed_step(), request_id="q1", skip_to="Aggregator")
    assert (asked.kind, asked.resume_to, asked.skip_to) == (
        HumanKind.ERROR,
        "Worker1",
        "Aggregator",
    )

    decided = {
        word: resume_after_error(TEAM, asked, read_answer(asked.kind, word))
        for word in ("retry", "skip", "abort", "do not abort")
    }
    assert {
        word: (
            one.reason,
            [(step.step_type, step.target) for step in one.next_steps],
            one.is_terminal(),
        )
        for word, one in decided.items()
    } == {
        "retry": (RoutingReason.HUMAN_RETRY, [(StepType.AGENT_INVOCATION, "Worker1")], False),
        "skip": (RoutingReason.HUMAN_SKIP, [(StepType.AGENT_INVOCATION, "Aggregator")], False),
        "abort": (RoutingReason.ABORTED, [], True),
        "do not abort": (RoutingReason.ASKED_AGAIN, [(StepType.ERROR_RECOVERY, USER)], False),
    }

    assert decided["do not abort"].next_steps[0].data["request"] == asked.question


def test_what_is_asked_again_is_still_a_question() -> None:
    """The step that puts a question again makes the same question."""
    asked = question_of(
        failed_step(), request_id="q1", prompt="And now?", skip_to="Aggregator", requested_at="noon"
    )
    again = resume_after_error(TEAM, asked, HumanDecision.APPROVE).next_steps[0]
    put = question_of(
        again, request_id="q1", prompt=asked.prompt, skip_to=asked.skip_to, requested_at="noon"
    )
    assert put == asked


def test_a_skipped_step_may_be_the_last() -> None:
    """Where nothing follows the failed step, skipping it ends the branch without a fault."""
    decision = resume_after_error(
        TEAM, question_of(failed_step(), request_id="q1"), HumanDecision.SKIP
    )
    assert (decision.is_terminal(), decision.reason, decision.error_action) == (
        True,
        RoutingReason.HUMAN_SKIP,
        None,
    )


@pytest.mark.parametrize("skip_to", ["Worker2", "Nobody", USER])
def test_a_user_skips_over_an_edge_only(skip_to: str) -> None:
    """A step to skip to that does not follow the failed one is refused."""
    decision = resume_after_error(
        TEAM, question_of(failed_step(), request_id="q1", skip_to=skip_to), HumanDecision.SKIP
    )
    assert (decision.next_steps, decision.reason) == ([], RoutingReason.NOT_ALLOWED)


@pytest.mark.parametrize("resume_to", [None, "Nobody", USER])
def test_a_request_that_names_nobody_leads_nowhere(resume_to: str | None) -> None:
    """A request that was kept while the topology changed is refused, not followed."""
    asked = PendingHuman("q1", HumanKind.ERROR, resume_to=resume_to, skip_to="Aggregator")
    assert (
        resume_after_error(TEAM, asked, HumanDecision.RETRY).reason is RoutingReason.UNKNOWN_AGENT
    )
    assert resume_after_error(TEAM, asked, HumanDecision.SKIP).reason is RoutingReason.NOT_ALLOWED


def test_only_an_error_is_a_question() -> None:
    """A step that brings no error of an agent to the user makes no question."""
    retry = decide(invalid(AgentReplyCode.ACTION_MISSING_FIELD.at(""))).next_steps[0]
    reported = decide(invalid(), metadata={"timeout_error": True}).next_steps[0]
    for step in (retry, reported):
        with pytest.raises(ContractError):
            question_of(step, request_id="q1")
