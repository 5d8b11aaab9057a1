"""A verdict becomes steps; never a step that the topology does not permit, and always a reason."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import Category, Code, ContractError, RetryPolicy
from strictreply.coordination import (
    END_NODE,
    USER,
    ActionType,
    AgentInvocation,
    AgentReplyCode,
    ApiError,
    Branch,
    BranchType,
    ErrorMessage,
    ErrorPolicy,
    Origin,
    Reaction,
    RoutingContext,
    RoutingDecision,
    RoutingReason,
    StepType,
    Topology,
    ValidationResult,
)
from strictreply.coordination.actions import Permitted
from strictreply.coordination.routing import ROUTES, Router
from strictreply.coordination.topology import permitted_actions
from strictreply.coordination.validation import ValidationProcessor
from support.coordination.routed import (
    FAULTS,
    PROCESSOR,
    ROUTER,
    TEAM,
    call,
    decide,
    invalid,
    search,
    talk,
    valid,
    verdict,
)
from support.loops import some

LEAVE = ("terminal_error", "terminate_workflow")
DETAILS = {"type": "rate_limit", "message": "API rate limit exceeded", "retry_after": 60}

# one valid verdict for each action, with the branch it may stand in and the reason it leads to
EVERY_ACTION: dict[ActionType, tuple[ValidationResult, Branch, RoutingReason]] = {
    ActionType.INVOKE_AGENT: (
        valid(ActionType.INVOKE_AGENT, "Worker1"),
        Branch(),
        RoutingReason.SEQUENTIAL,
    ),
    ActionType.PARALLEL_INVOKE: (
        valid(ActionType.PARALLEL_INVOKE, "Worker1", "Worker2"),
        Branch(),
        RoutingReason.PARALLEL,
    ),
    ActionType.CALL_TOOL: (
        valid(ActionType.CALL_TOOL, tool_calls=[call()]),
        Branch(),
        RoutingReason.TOOLS,
    ),
    ActionType.FINAL_RESPONSE: (
        valid(ActionType.FINAL_RESPONSE, content="done"),
        Branch(),
        RoutingReason.FINAL,
    ),
    ActionType.END_CONVERSATION: (
        valid(ActionType.END_CONVERSATION),
        talk(3),
        RoutingReason.CONVERSATION_ENDED,
    ),
    ActionType.WAIT_AND_AGGREGATE: (
        valid(ActionType.WAIT_AND_AGGREGATE),
        Branch(type=BranchType.PARALLEL),
        RoutingReason.WAITING,
    ),
    ActionType.ERROR_RECOVERY: (
        valid(ActionType.ERROR_RECOVERY, error_details=DETAILS),
        Branch(),
        RoutingReason.RECOVERY,
    ),
    ActionType.TERMINAL_ERROR: (
        valid(ActionType.TERMINAL_ERROR, error="no"),
        Branch(),
        RoutingReason.TERMINAL,
    ),
    ActionType.AUTO_RETRY: (
        valid(ActionType.AUTO_RETRY, origin=Origin.SYSTEM, error_details={"type": "timeout"}),
        Branch(),
        RoutingReason.AUTO_RETRY,
    ),
    ActionType.TERMINATE_WORKFLOW: (
        valid(ActionType.TERMINATE_WORKFLOW, content="done"),
        Branch(),
        RoutingReason.FINAL,
    ),
    ActionType.ASK_USER: (
        valid(ActionType.ASK_USER, question="Which?"),
        Branch(),
        RoutingReason.USER_ASKED,
    ),
}


@pytest.mark.req("M110", "M121")
def test_every_action_has_a_route() -> None:
    """The table of routes names each action once; one that is added without a route fails here."""
    assert set(ROUTES) == set(ActionType) == set(EVERY_ACTION)


@pytest.mark.req("M90", "M121")
@pytest.mark.parametrize("action", ActionType)
def test_each_action_is_routed_awaiting_or_not(action: ActionType) -> None:
    """``route`` and ``decide`` give the same decision, with its reason, for every action."""
    result, branch, reason = EVERY_ACTION[action]
    router = Router(TEAM, tools=[search], leave=LEAVE)
    context = RoutingContext(current_agent="Coordinator")
    decision = asyncio.run(
        router.route(validation_result=result, current_branch=branch, routing_context=context)
    )
    assert isinstance(decision, RoutingDecision)

    assert decision == router.decide(result, branch, context)
    assert (decision.reason, decision.metadata["routing_type"]) == (reason, reason.value)


@pytest.mark.req("M93")
def test_every_type_of_step_but_one_is_made() -> None:
    """Each type is made by a route or after a fault; for ``parallel_spawn`` there are the specs of
    the branches, which is why no router makes it.
    """
    router = Router(TEAM, tools=[search], leave=LEAVE)
    context = RoutingContext(current_agent="Coordinator")
    cases = [case[:2] for case in EVERY_ACTION.values()]
    cases.append((invalid(FAULTS[Category.FORMAT_ERROR]), Branch()))
    made = [router.decide(result, branch, context) for result, branch in cases]
    types = {step.step_type for decision in made for step in decision.next_steps}
    assert types == set(StepType) - {StepType.PARALLEL_SPAWN}
    parallel = router.decide(*EVERY_ACTION[ActionType.PARALLEL_INVOKE][:2], context)
    assert (parallel.next_steps, len(parallel.branch_specs)) == ([], 2)


TO_AGGREGATOR = valid(ActionType.INVOKE_AGENT, "Aggregator")
TALKING: dict[str, Any] = {
    "is_conversation_branch": True,
    "branch_agents": ["Coordinator", "Aggregator"],
    "conversation_turns": 4,
}
READ: dict[str, tuple[ValidationResult, dict[str, Any], object]] = {
    "metadata": (TO_AGGREGATOR, {}, {"timeout_error": {"message": "late"}}),
    "error_info": (invalid(FAULTS[Category.TOOL_ERROR]), {}, {"type": "tool", "message": "out"}),
    "retry_count": (invalid(FAULTS[Category.FORMAT_ERROR]), {}, 1),
    "steering_enabled": (invalid(FAULTS[Category.FORMAT_ERROR]), {}, False),
    "transport_retries": (invalid(FAULTS[Category.API_TRANSIENT]), {}, 9),
    "current_branch_id": (valid(ActionType.ERROR_RECOVERY, error_details=DETAILS), {}, "other"),
    "current_agent": (TO_AGGREGATOR, {}, "Worker1"),
    "branch_agents": (TO_AGGREGATOR, TALKING, []),
    "is_conversation_branch": (TO_AGGREGATOR, TALKING, False),
    "conversation_turns": (TO_AGGREGATOR, TALKING, 2),
}
"""Of each member: a verdict, the rest of the context, and a value that leads elsewhere."""


@pytest.mark.req("M94")
@pytest.mark.parametrize("name", READ)
def test_each_member_of_the_context_is_read(name: str) -> None:
    """Another value of it is another decision."""
    result, context, other = READ[name]
    around = {"current_agent": "Coordinator"} | context
    router = Router(TEAM, tools=[search], leave=LEAVE)
    usual = router.decide(result, Branch(), RoutingContext(**around))
    assert router.decide(result, Branch(), RoutingContext(**around | {name: other})) != usual


@pytest.mark.req("M94")
def test_the_history_of_the_context_is_the_applications() -> None:
    """It is the one member that no decision follows from: it is carried as it was given."""
    members = {one.name for one in fields(RoutingContext)}
    assert members - READ.keys() == {"conversation_history"}

    history: Any = [{"role": "user", "content": "hi"}]
    context = RoutingContext(current_agent="Coordinator", conversation_history=history)
    assert context.conversation_history == history
    assert ROUTER.decide(TO_AGGREGATOR, Branch(), context) == decide(TO_AGGREGATOR)


@pytest.mark.req("M90", "M1")
def test_the_printed_example_runs() -> None:
    """A reply is processed and routed as the API reference prints it."""

    async def example() -> list[str]:
        """Process, route, and collect whom to invoke."""
        invoked: list[str] = []
        validation_result = await PROCESSOR.process_response(
            raw_response={"next_action": "invoke_agent", "action_input": "Worker1"},
            agent="Coordinator",
            branch=Branch(),
            exec_state=None,
        )
        decision = await Router(TEAM).route(
            validation_result=validation_result,
            current_branch=Branch(),
            routing_context=RoutingContext(metadata={"retry_count": 0}, error_info=None),
        )
        for step in decision.next_steps:
            if step.step_type == StepType.AGENT_INVOCATION:
                invoked.append(step.target)  # noqa: PERF401 - as printed

        return invoked

    assert asyncio.run(example()) == ["Worker1"]


@pytest.mark.req("M95")
def test_one_invocation_is_one_step() -> None:
    """An invocation is one step to the target with its request, and the branch goes on."""
    decision = decide(
        verdict({"next_action": "invoke_agent", "action_input": "Worker1", "request": "Sum up"})
    )
    assert [(step.step_type, step.target) for step in decision.next_steps] == [
        (StepType.AGENT_INVOCATION, "Worker1")
    ]
    assert decision.next_steps[0].data["request"] == "Sum up"
    assert decision.should_continue

    assert decision.metadata["routing_type"] == "sequential"


@pytest.mark.req("M96")
def test_parallel_invocations_are_branches_and_the_parent_waits() -> None:
    """There is no step, one branch for each agent in order, and the parent neither goes on nor is
    over.
    """
    reply = {
        "next_action": "parallel_invoke",
        "agents": ["Worker2", "Worker1"],
        "agent_requests": {"Worker1": "Task A", "Worker2": "Task B"},
    }
    decision = decide(verdict(reply))
    assert (decision.next_steps, decision.should_continue, decision.should_wait) == (
        [],
        False,
        True,
    )

    assert [(spec.agent, spec.request) for spec in decision.branch_specs] == [
        ("Worker2", "Task B"),
        ("Worker1", "Task A"),
    ]
    assert decision.metadata["child_count"] == 2
    assert not decision.is_terminal()


@pytest.mark.req("M97")
def test_each_branch_gets_its_own_request() -> None:
    """Requests come from the invocations, in the list form too, with the same agent twice, and
    never from elsewhere.
    """
    asked = [
        {"agent_name": "Worker1", "request": "north"},
        {"agent_name": "Worker1", "request": "south"},
    ]
    result = verdict({"next_action": "invoke_agent", "action_input": asked})
    specs = decide(result).branch_specs
    assert [spec.request for spec in specs] == ["north", "south"]
    assert [spec.instance_id for spec in specs] == [one.instance_id for one in result.invocations]

    misleading = valid(
        ActionType.INVOKE_AGENT, "Worker1", action_input="Worker2", request="another"
    )
    assert decide(misleading).next_steps[0].data == {"request": "ask Worker1"}


@pytest.mark.req("M98")
def test_each_call_is_a_step_with_decoded_arguments() -> None:
    """There is one step for each call, in order; arguments are decoded, the original is kept."""
    second = call(arguments='{"query": "tea"}') | {"id": "call_456"}
    decision = decide(verdict({"next_action": "call_tool", "tool_calls": [call(), second]}))
    assert [(step.step_type, step.target) for step in decision.next_steps] == [
        (StepType.TOOL_EXECUTION, "search")
    ] * 2
    assert [step.data["arguments"] for step in decision.next_steps] == [
        {"query": "AI"},
        {"query": "tea"},
    ]
    assert [step.data["tool_call_id"] for step in decision.next_steps] == ["call_123", "call_456"]

    assert decision.next_steps[1].data["tool_call"] == second
    assert decision.should_continue


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [{}],
        [{"function": "search"}],
        [call(), {"id": "x", "function": {"name": 3, "arguments": "{}"}}],
        [call(), call(arguments='{"query":')],
        [call(arguments="[1]")],
    ],
)
def test_calls_that_cannot_be_read_are_not_run(calls: list[dict[str, Any]]) -> None:
    """One call that cannot be read and nothing is run, whatever the result says of itself."""
    decision = decide(valid(ActionType.CALL_TOOL, tool_calls=calls))
    assert (decision.next_steps, decision.reason) == ([], RoutingReason.BROKEN_RESULT)


def test_no_arguments_are_an_empty_object() -> None:
    """An empty text of arguments, as several servers send it, means none."""
    assert (
        decide(valid(ActionType.CALL_TOOL, tool_calls=[call(arguments="")]))
        .next_steps[0]
        .data["arguments"]
        == {}
    )


@pytest.mark.req("M99")
def test_a_final_response_ends() -> None:
    """The answer goes to the user, or to the end where there is no edge to the user; and it is
    over.
    """
    decision = decide(verdict({"next_action": "final_response", "content": {"title": "Report"}}))
    step = decision.next_steps[0]
    assert (step.step_type, step.target) == (StepType.FINAL_RESPONSE, USER)
    assert step.data == {"content": {"title": "Report"}}

    assert (decision.should_continue, bool(decision.completion_reason), decision.is_terminal()) == (
        False,
        True,
        True,
    )
    assert (
        decide(valid(ActionType.FINAL_RESPONSE, content="x"), "Aggregator").next_steps[0].target
        == END_NODE
    )


@pytest.mark.req("M100")
def test_a_conversation_ends_with_its_turns() -> None:
    """Ending a conversation is a completion that says how many turns it had."""
    decision = decide(valid(ActionType.END_CONVERSATION), branch=talk(4))
    assert (decision.next_steps, decision.is_terminal()) == ([], True)
    assert (decision.metadata["conversation_turns"], bool(decision.completion_reason)) == (4, True)


@pytest.mark.req("M44", "M107")
def test_a_stranger_ends_no_conversation() -> None:
    """A verdict that lets an agent end a conversation of others is not believed."""
    told = decide(valid(ActionType.END_CONVERSATION), "Worker1", branch=talk(4))
    assert (told.reason, told.metadata["code"]) == (
        RoutingReason.NOT_ALLOWED,
        "action.not_permitted",
    )


@pytest.mark.req("M100")
def test_waiting_is_a_step() -> None:
    """Waiting for parallel branches is a step, and the branch is not over."""
    decision = decide(valid(ActionType.WAIT_AND_AGGREGATE), branch=Branch(type=BranchType.PARALLEL))
    assert [step.step_type for step in decision.next_steps] == [StepType.WAIT_FOR_CONVERGENCE]
    assert (decision.should_wait, decision.is_terminal()) == (True, False)


@pytest.mark.req("M88", "M101")
def test_an_agents_error_recovery_reaches_the_user() -> None:
    """The printed recovery goes to the user with its details, the wait a number still, and the run
    goes on.
    """
    reply = {
        "next_action": "error_recovery",
        "error_details": DETAILS,
        "suggested_action": "wait_and_retry",
    }
    decision = decide(verdict(reply), branch=Branch("b7"))
    (step,) = decision.next_steps
    assert (step.step_type, step.target, decision.should_continue) == (
        StepType.ERROR_RECOVERY,
        USER,
        True,
    )

    assert step.data == {"error": DETAILS, "suggested_action": "wait_and_retry"}
    assert step.data["error"]["retry_after"] == 60
    assert step.metadata == {
        "requires_user_action": True,
        "can_retry": True,
        "failed_agent": "Coordinator",
        "suggested_actions": ["wait_and_retry"],
        "retry_context": {"agent_name": "Coordinator", "branch_id": "b7"},
    }


@pytest.mark.req("M81")
def test_a_recoverable_fault_is_brought_to_the_user() -> None:
    """A fault that the policy escalates is one step to the user with the error's details."""
    details = {"type": "tool_failed", "message": "no disk", "inner": {"code": 28}}
    decision = decide(invalid(FAULTS[Category.TOOL_ERROR]), error_info=details)
    assert [(step.step_type, step.target) for step in decision.next_steps] == [
        (StepType.ERROR_RECOVERY, USER)
    ]
    assert decision.next_steps[0].data["error"] == details

    assert (decision.reason, decision.error_action) == (RoutingReason.ESCALATED, "escalate")
    told = decide(invalid(FAULTS[Category.TOOL_ERROR])).next_steps[0].data["error"]
    assert told == {"type": "tool.failed", "message": "it does not fit"}


@pytest.mark.req("M85", "M102")
def test_a_terminal_error_is_shown_and_nothing_is_retried() -> None:
    """A terminal error is shown to the user and ends the run, with its reason."""
    error = ApiError.of_report({"classification": "authentication_failed", "message": "bad key"})
    decision = decide(error.to_result(agent="Worker1", branch_id="main"), "Worker1")
    (step,) = decision.next_steps
    assert (step.target, step.metadata["no_retry"], step.metadata["can_retry"]) == (
        USER,
        True,
        False,
    )

    assert step.data["error"]["message"] == "bad key"
    assert (decision.should_continue, decision.reason) == (False, RoutingReason.TERMINAL)
    assert (decision.completion_reason or "").startswith("Terminal error")
    assert decision.metadata["termination_reason"] == "authentication_failed"


@pytest.mark.req("M102")
def test_an_agents_terminal_error_is_its_own() -> None:
    """An error that an agent reports as terminal is named as the agent's, and its words go to the
    user alone.
    """
    router = Router(TEAM, leave=LEAVE)
    context = RoutingContext(current_agent="Coordinator")
    decision = router.decide(
        valid(ActionType.TERMINAL_ERROR, error="out of paper"), Branch(), context
    )
    assert decision.next_steps[0].data["error"] == {"message": "out of paper"}

    assert decision.completion_reason == "Terminal error: reported by Coordinator"
    assert "termination_reason" not in decision.metadata
    leaving = ValidationProcessor(TEAM, leave=["terminal_error"])
    judged = leaving.validate({"next_action": "terminal_error", "error": "out of paper"}, "Worker1")
    assert Router(TEAM).decide(judged, Branch(), RoutingContext()).reason is RoutingReason.TERMINAL

    assert decide(judged, "Worker1").reason is RoutingReason.NOT_ALLOWED


@pytest.mark.req("M103")
def test_an_automatic_retry_is_the_same_agent_again() -> None:
    """The agent that failed is asked again, after the wait that the server asked for."""
    error = ApiError.of_report({"classification": "rate_limit", "retry_after": 12})
    decision = decide(
        error.to_result(agent="Worker1", branch_id="main"), "Worker1", transport_retries=1
    )
    (step,) = decision.next_steps
    assert (step.step_type, step.target, step.data) == (
        StepType.AGENT_INVOCATION,
        "Worker1",
        {"retry_after": 12},
    )

    assert step.metadata == {"retry_attempt": 2, "retry_reason": "api.rate_limit"}
    assert decision.error_action == "retry"


@pytest.mark.req("M89", "M103")
@pytest.mark.parametrize(("report", "made"), [({}, 3), ({"retry_after": 61}, 0)])
def test_automatic_retries_are_bounded(report: dict[str, Any], made: int) -> None:
    """When the transport's budget is spent, or the wait is too long for it, the user is asked."""
    error = ApiError.of_report({"classification": "rate_limit", **report})
    decision = decide(
        error.to_result(agent="Worker1", branch_id="main"), "Worker1", transport_retries=made
    )
    assert (decision.reason, decision.next_steps[0].target) == (RoutingReason.RETRIES_SPENT, USER)


@pytest.mark.req("M89")
def test_failed_calls_do_not_use_up_corrections() -> None:
    """Each budget counts its own: a spent one leaves the other whole."""
    transient = invalid(FAULTS[Category.API_TRANSIENT])
    bad = invalid(FAULTS[Category.FORMAT_ERROR])
    assert decide(transient, retry_count=9, transport_retries=2).reason is RoutingReason.RETRY
    assert (
        decide(transient, retry_count=0, transport_retries=3).reason is RoutingReason.RETRIES_SPENT
    )

    assert decide(bad, retry_count=2, transport_retries=9).reason is RoutingReason.RETRY
    assert decide(bad, retry_count=3, transport_retries=0).reason is RoutingReason.RETRIES_SPENT
    uneven = Router(
        TEAM, policy=ErrorPolicy(budget=RetryPolicy(max_retries=1, transport_retries=5))
    )
    context = RoutingContext(current_agent="Coordinator", retry_count=1, transport_retries=4)
    assert uneven.decide(transient, Branch(), context).reason is RoutingReason.RETRY

    assert uneven.decide(bad, Branch(), context).reason is RoutingReason.RETRIES_SPENT


@pytest.mark.req("M80", "M104")
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_bad_format_is_asked_for_again(count: int) -> None:
    """A reply in a bad format leads to one retry of the same agent, counted, with its reason and
    its steering.
    """
    decision = decide(verdict('{"content": "x"}'), retry_count=count)
    (step,) = decision.next_steps
    assert (step.step_type, step.target) == (StepType.RETRY_WITH_STEERING, "Coordinator")
    assert step.steering

    assert step.metadata == {
        "retry_attempt": count + 1,
        "retry_reason": AgentReplyCode.ACTION_MISSING_FIELD.value,
    }
    assert (decision.should_continue, decision.error_action) == (True, "retry")


@pytest.mark.req("M82")
def test_a_missing_field_has_its_own_code() -> None:
    """A missing field has a code of its own, in the category of formats."""
    result = verdict('{"next_action": "invoke_agent"}')
    assert (result.code, result.error_category) == (
        AgentReplyCode.ACTION_MISSING_FIELD,
        Category.FORMAT_ERROR,
    )
    assert decide(result).next_steps[0].metadata["retry_reason"] == "action.missing_field"


@pytest.mark.req("M104")
def test_retries_end() -> None:
    """At the limit the branch fails, whatever could be suggested; a limit of 0 allows none."""
    decision = decide(verdict("prose"), retry_count=3)
    assert (decision.next_steps, decision.reason) == ([], RoutingReason.RETRIES_SPENT)
    assert decision.is_terminal()
    never = Router(TEAM, policy=ErrorPolicy(budget=RetryPolicy(max_retries=0)))
    context = RoutingContext(current_agent="Coordinator")
    assert never.decide(verdict("prose"), Branch(), context).reason is RoutingReason.RETRIES_SPENT


def test_without_steering_the_agent_is_asked_again_untold() -> None:
    """With steering off the same agent is asked again, and nothing is said to it."""
    (step,) = decide(verdict("prose"), steering_enabled=False).next_steps
    assert (step.step_type, step.steering, step.metadata["retry_attempt"]) == (
        StepType.AGENT_INVOCATION,
        None,
        1,
    )


@pytest.mark.req("M105")
def test_a_fault_without_a_suggestion_completes() -> None:
    """When asking again would not help the branch ends, and reports that the validation failed."""
    decision = decide(invalid(FAULTS[Category.FORMAT_ERROR], suggestion=None))
    assert (decision.next_steps, decision.should_continue) == ([], False)
    assert decision.completion_reason == "Validation error: it does not fit"
    assert decide(ValidationResult(is_valid=False)).reason is RoutingReason.NO_SUGGESTION


@pytest.mark.req("M79")
@pytest.mark.parametrize(
    ("category", "reaction"),
    [(category, reaction) for category in Category for reaction in Reaction],
)
def test_the_policy_decides(category: Category, reaction: Reaction) -> None:
    """For any table, each category leads where the table says."""
    router = Router(TEAM, policy=ErrorPolicy(reactions={category: reaction}))
    decision = router.decide(
        invalid(FAULTS[category]), Branch(), RoutingContext(current_agent="Coordinator")
    )
    assert decision.error_action == reaction.value
    assert decision.is_terminal() is (reaction is Reaction.TERMINATE)


API_ERRORS = {
    "rate_limit": Category.API_TRANSIENT,
    "authentication_failed": Category.API_TERMINAL,
    "refusal": Category.API_TERMINAL,
    "unknown": Category.UNKNOWN,
}


@pytest.mark.req("M79")
@pytest.mark.parametrize("reaction", Reaction)
@pytest.mark.parametrize("kind", API_ERRORS)
def test_the_policy_decides_on_failed_calls(kind: str, reaction: Reaction) -> None:
    """A row of the table that is not the published one goes before what the class of an API's error
    says.
    """
    category = API_ERRORS[kind]
    failed = verdict(ErrorMessage({"classification": kind}))
    context = RoutingContext(current_agent="Coordinator")
    changed = Router(TEAM, policy=ErrorPolicy(reactions={category: reaction})).decide(
        failed, Branch(), context
    )

    published = decide(failed)

    if reaction is ErrorPolicy().reactions[category]:
        assert changed == published
    else:
        assert (changed.error_action, changed.is_terminal()) == (
            reaction.value,
            reaction is Reaction.TERMINATE,
        )

    others = {other: reaction for other in Category if other is not category}
    assert (
        Router(TEAM, policy=ErrorPolicy(reactions=others)).decide(failed, Branch(), context)
        == published
    )


@pytest.mark.req("M79")
def test_a_denied_permission_ends_with_the_published_words() -> None:
    """Strict permissions end at once, as printed; by default the agent is asked again first, and
    never run (X5).
    """
    result = verdict({"next_action": "invoke_agent", "action_input": "Worker2"}, "Worker1")
    router = Router(TEAM, policy=ErrorPolicy(strict_permissions=True))
    denied = router.decide(result, Branch(), RoutingContext(current_agent="Worker1"))
    assert (denied.next_steps, denied.should_continue) == ([], False)

    assert (denied.error_action, denied.error_message) == ("terminate", "Permission denied")
    assert denied.reason is RoutingReason.PERMISSION_DENIED
    retried = decide(result, "Worker1")
    assert [step.target for step in retried.next_steps] == ["Worker1"]

    spent = decide(result, "Worker1", retry_count=3)
    assert (spent.next_steps, spent.error_message) == ([], "Permission denied")


@pytest.mark.req("M106")
@pytest.mark.parametrize(
    ("key", "stops"),
    [
        ("critical_api_error", True),
        ("coordination_error", False),
        ("pool_exhausted", False),
        ("timeout_error", True),
    ],
)
def test_what_the_executor_reports_comes_first(key: str, stops: bool) -> None:
    """A reported fault is told to the user before the reply is looked at, and ends the branch or
    does not.
    """
    decision = decide(
        valid(ActionType.INVOKE_AGENT, "Worker1"), metadata={key: {"message": "full"}}
    )
    assert decision.reason == key
    assert decision.is_terminal() is stops
    assert [(step.step_type, step.target) for step in decision.next_steps] == [
        (StepType.ERROR_RECOVERY, USER)
    ]

    assert decision.next_steps[0].data["error"] == {"message": "full"}


@pytest.mark.req("M106")
def test_an_exhausted_pool_says_when_to_come_back() -> None:
    """Without a wait of its own an exhausted pool is tried again after 5 seconds."""
    pool = decide(valid(ActionType.AUTO_RETRY), metadata={"pool_exhausted": True}).next_steps[0]
    assert (pool.data["retry_after"], pool.metadata["notification"]) == (5, "resource")
    told = decide(
        valid(ActionType.AUTO_RETRY), metadata={"pool_exhausted": {"retry_after": 30}}
    ).next_steps[0]
    assert told.data["retry_after"] == 30


@pytest.mark.req("M106")
def test_reported_faults_have_an_order() -> None:
    """Of several reports the first in published order decides; None and False report nothing."""
    order = ["critical_api_error", "coordination_error", "pool_exhausted", "timeout_error"]
    for index, key in enumerate(order):
        metadata: dict[str, Any] = dict.fromkeys(reversed(order[index:]), True)
        assert decide(verdict("prose"), metadata=metadata).reason == key
    quiet = {"critical_api_error": None, "timeout_error": False}
    assert decide(verdict("prose"), metadata=quiet).reason is RoutingReason.RETRY


OWN = Origin.MODEL
HELD = Permitted("Worker1", tuple(ActionType), TEAM.agents, ("search", "rm"))
"""Permissions that nobody has, as a forged verdict may carry them."""

FORGED: list[tuple[ValidationResult, str, Branch, Code | AgentReplyCode]] = [
    (
        valid(ActionType.INVOKE_AGENT, "Worker2"),
        "Worker1",
        Branch(),
        AgentReplyCode.TOPOLOGY_NOT_ALLOWED,
    ),
    (
        valid(ActionType.INVOKE_AGENT, "Nobody"),
        "Coordinator",
        Branch(),
        AgentReplyCode.TOPOLOGY_NOT_ALLOWED,
    ),
    (
        valid(ActionType.INVOKE_AGENT, USER),
        "Coordinator",
        Branch(),
        AgentReplyCode.TOPOLOGY_NOT_ALLOWED,
    ),
    (
        valid(ActionType.INVOKE_AGENT, "Coordinator"),
        "Coordinator",
        Branch(),
        AgentReplyCode.TOPOLOGY_NOT_ALLOWED,
    ),
    (
        valid(ActionType.PARALLEL_INVOKE, "Aggregator", "Worker2"),
        "Worker1",
        Branch(),
        AgentReplyCode.TOPOLOGY_NOT_ALLOWED,
    ),
    (
        valid(ActionType.FINAL_RESPONSE, content="x"),
        "Worker1",
        Branch(),
        AgentReplyCode.TOPOLOGY_MAY_NOT_FINISH,
    ),
    (
        valid(ActionType.TERMINATE_WORKFLOW, content="x"),
        "Worker1",
        Branch(),
        AgentReplyCode.TOPOLOGY_MAY_NOT_FINISH,
    ),
    (
        valid(ActionType.TERMINATE_WORKFLOW, content="x"),
        "Coordinator",
        Branch(),
        AgentReplyCode.ACTION_NOT_PERMITTED,
    ),
    (
        valid(ActionType.ASK_USER, question="?"),
        "Aggregator",
        Branch(),
        AgentReplyCode.TOPOLOGY_NO_USER,
    ),
    (
        valid(ActionType.ERROR_RECOVERY, error_details=DETAILS),
        "Worker1",
        Branch(),
        AgentReplyCode.TOPOLOGY_NO_USER,
    ),
    (
        valid(ActionType.TERMINAL_ERROR, error="no"),
        "Coordinator",
        Branch(),
        AgentReplyCode.ACTION_NOT_PERMITTED,
    ),
    (
        valid(ActionType.END_CONVERSATION),
        "Coordinator",
        Branch(),
        AgentReplyCode.ACTION_NOT_PERMITTED,
    ),
    (
        valid(ActionType.WAIT_AND_AGGREGATE),
        "Coordinator",
        Branch(),
        AgentReplyCode.ACTION_NOT_PERMITTED,
    ),
    (
        valid(ActionType.WAIT_AND_AGGREGATE),
        "Coordinator",
        talk(),
        AgentReplyCode.ACTION_NOT_PERMITTED,
    ),
    (
        valid(ActionType.AUTO_RETRY, origin=OWN),
        "Coordinator",
        Branch(),
        AgentReplyCode.ACTION_NOT_PERMITTED,
    ),
    (
        valid(ActionType.CALL_TOOL, tool_calls=[call("rm")]),
        "Coordinator",
        Branch(),
        Code.TOOL_UNKNOWN,
    ),
    (
        valid(ActionType.CALL_TOOL, tool_calls=[call(), call("rm")]),
        "Coordinator",
        Branch(),
        Code.TOOL_UNKNOWN,
    ),
    (
        valid(ActionType.INVOKE_AGENT, "Worker1", origin=Origin.SYSTEM),
        "Coordinator",
        Branch(),
        AgentReplyCode.TOPOLOGY_NOT_ALLOWED,
    ),
    (
        replace(valid(ActionType.INVOKE_AGENT, "Worker2"), permitted=HELD),
        "Worker1",
        Branch(),
        AgentReplyCode.TOPOLOGY_NOT_ALLOWED,
    ),
    (
        replace(valid(ActionType.CALL_TOOL, tool_calls=[call("rm")]), permitted=HELD),
        "Worker1",
        Branch(),
        Code.TOOL_UNKNOWN,
    ),
    (
        ValidationResult(True, "call_tool", tool_calls=[call("rm")]),  # type: ignore[arg-type]
        "Worker1",
        Branch(),
        Code.TOOL_UNKNOWN,
    ),
    (
        replace(valid(ActionType.TERMINAL_ERROR), permitted=HELD),
        "Worker1",
        Branch(),
        AgentReplyCode.ACTION_NOT_PERMITTED,
    ),
]


@pytest.mark.req("M107")
@pytest.mark.parametrize(("result", "agent", "branch", "code"), FORGED)
def test_everything_is_asked_again(
    result: ValidationResult, agent: str, branch: Branch, code: Code | AgentReplyCode
) -> None:
    """A result that calls itself valid gets no step over an edge, in a branch or to a tool that is
    not permitted.
    """
    decision = decide(result, agent, branch=branch)
    assert (decision.next_steps, decision.branch_specs) == ([], [])
    assert (decision.reason, decision.is_terminal()) == (RoutingReason.NOT_ALLOWED, True)
    assert decision.metadata == {"routing_type": "not_allowed", "code": code.value}
    assert decision.error_action == "terminate"


@pytest.mark.req("M107")
def test_what_a_verdict_was_held_to_is_what_its_tools_are() -> None:
    """A router without tools of its own asks the verdict; a verdict made by hand may call none."""
    asked = {"next_action": "call_tool", "tool_calls": [call()]}
    untold = Router(TEAM)
    context = RoutingContext(current_agent="Coordinator")
    assert untold.decide(verdict(asked), Branch(), context).reason is RoutingReason.TOOLS

    by_hand = valid(ActionType.CALL_TOOL, tool_calls=[call()])
    assert (
        untold.decide(by_hand, Branch(), context).metadata["code"]
        == AgentReplyCode.ACTION_NOT_PERMITTED
    )

    changed = replace(verdict(asked), tool_calls=[call("rm")])
    assert untold.decide(changed, Branch(), context).metadata["code"] == Code.TOOL_UNKNOWN


@pytest.mark.req("M107")
def test_a_narrowed_verdict_is_not_widened() -> None:
    """Whom a reply was allowed to hand over to is all it hands over to, though there are more
    edges.
    """
    narrowed = PROCESSOR.validate(
        {"next_action": "invoke_agent", "action_input": "Worker1"},
        "Coordinator",
        allowed_agents=["Worker1"],
    )
    assert decide(narrowed).reason is RoutingReason.SEQUENTIAL
    forged = replace(narrowed, invocations=[AgentInvocation("Worker2")])
    assert decide(forged).metadata["code"] == AgentReplyCode.TOPOLOGY_NOT_ALLOWED


@pytest.mark.req("M107")
def test_the_systems_errors_always_reach_the_user() -> None:
    """A system's error reaches the user from an agent without an edge to them (X8)."""
    error = ApiError.of_report({"classification": "insufficient_credits"})
    decision = decide(error.to_result(agent="Worker1", branch_id="main"), "Worker1")
    assert (decision.next_steps[0].target, decision.reason) == (USER, RoutingReason.RECOVERY)


@pytest.mark.parametrize("agent", ["", "Nobody", USER])
def test_nothing_is_executed_for_nobody(agent: str) -> None:
    """Without an agent of this topology there is no edge to ask about, so there is no step."""
    for result in (
        valid(ActionType.INVOKE_AGENT, "Worker1"),
        invalid(FAULTS[Category.FORMAT_ERROR]),
    ):
        decision = decide(result, agent)
        assert (decision.next_steps, decision.reason) == ([], RoutingReason.UNKNOWN_AGENT)


def test_who_replied_may_be_said_by_the_verdict_or_the_branch() -> None:
    """The context wins; else it is whom the verdict is about, or the sole agent of the branch."""
    router = Router(TEAM)
    unsaid = RoutingContext()
    judged = verdict({"next_action": "invoke_agent", "action_input": "Worker1"})
    assert (
        router.decide(judged, Branch(agents=("Worker2",)), unsaid).reason
        is RoutingReason.SEQUENTIAL
    )

    raw = valid(ActionType.INVOKE_AGENT, "Worker1")
    assert (
        router.decide(raw, Branch(agents=("Coordinator",)), unsaid).reason
        is RoutingReason.SEQUENTIAL
    )

    assert router.decide(raw, talk(), unsaid).reason is RoutingReason.UNKNOWN_AGENT


@pytest.mark.parametrize(
    "result",
    [
        ValidationResult(is_valid=True),
        ValidationResult(True, "dance"),  # type: ignore[arg-type]
        valid(ActionType.INVOKE_AGENT),
        valid(ActionType.INVOKE_AGENT, "Worker1", "Worker2"),
        valid(ActionType.PARALLEL_INVOKE),
        valid(ActionType.PARALLEL_INVOKE, "Worker1"),
        valid(ActionType.CALL_TOOL, tool_calls=["x"]),
        valid(ActionType.CALL_TOOL, tool_calls="x"),
        ValidationResult(True, ActionType.CALL_TOOL, tool_calls=None),  # type: ignore[arg-type]
        ValidationResult(True, ActionType.INVOKE_AGENT, invocations=["Worker1"]),  # type: ignore[list-item]
        ValidationResult(True, ActionType.INVOKE_AGENT, invocations=[AgentInvocation(["Worker1"])]),  # type: ignore[arg-type]
        ValidationResult(True, ActionType.FINAL_RESPONSE, parsed_response=["x"]),  # type: ignore[arg-type]
        ValidationResult(False, issues=["x"]),  # type: ignore[arg-type]
        ValidationResult(True, ActionType.FINAL_RESPONSE, permitted="all"),  # type: ignore[arg-type]
        valid(ActionType.ERROR_RECOVERY, error_details={"message": threading.Lock()}),
        replace(valid(ActionType.FINAL_RESPONSE, content="x"), permitted=HELD),
    ],
)
@pytest.mark.req("M107")
def test_a_result_that_contradicts_itself_is_not_executed(result: ValidationResult) -> None:
    """A result without what it says it holds, or about another agent, leads to no step and raises
    nothing.
    """
    decision = decide(result)
    assert (decision.next_steps, decision.reason) == ([], RoutingReason.BROKEN_RESULT)
    assert decision.is_terminal()


@pytest.mark.req("M108")
def test_a_conversation_goes_on_with_the_next_turn() -> None:
    """A partner in an existing conversation is its next turn; the branch itself is not changed."""
    branch = talk(2)
    decision = decide(valid(ActionType.INVOKE_AGENT, "Aggregator"), branch=branch)
    assert decision.reason is RoutingReason.CONVERSATION
    assert decision.metadata["conversation_turns"] == 3
    assert decision.next_steps[0].metadata["conversation_turn"] == 3
    assert branch == talk(2)


@pytest.mark.req("M108")
def test_no_branch_becomes_a_conversation_by_itself() -> None:
    """A simple branch stays one, though the two have edges both ways; so does a conversation with a
    stranger.
    """
    there = valid(ActionType.INVOKE_AGENT, "Aggregator")
    assert (
        decide(there, branch=Branch(agents=("Coordinator", "Aggregator"))).reason
        is RoutingReason.SEQUENTIAL
    )

    assert (
        decide(valid(ActionType.INVOKE_AGENT, "Worker1"), branch=talk()).reason
        is RoutingReason.SEQUENTIAL
    )


@pytest.mark.req("M108")
def test_the_context_may_say_that_it_is_a_conversation() -> None:
    """The context can mark a conversation that the branch does not mark."""
    decision = decide(
        valid(ActionType.INVOKE_AGENT, "Aggregator"),
        is_conversation_branch=True,
        branch_agents=["Coordinator", "Aggregator"],
        conversation_turns=4,
    )
    assert (decision.reason, decision.metadata["conversation_turns"]) == (
        RoutingReason.CONVERSATION,
        5,
    )


@pytest.mark.req("M109")
def test_an_alternative_is_permitted_and_new() -> None:
    """An alternative is neither the failed agent nor a visited one; None when there is none."""
    router = Router(TEAM)
    assert router.suggest_alternative_route("Coordinator", "Worker1") in {"Worker2", "Aggregator"}
    assert router.suggest_alternative_route("Coordinator", "Worker1", ["Aggregator"]) == "Worker2"
    assert (
        router.suggest_alternative_route("Coordinator", "Worker1", ["Aggregator", "Worker2"])
        is None
    )

    assert router.suggest_alternative_route("Worker1", "Aggregator") is None

    with pytest.raises(ContractError):
        router.suggest_alternative_route("Nobody", "Worker1")


NAMES = (*TEAM.agents, USER, END_NODE, "Nobody", "formatter", "not allowed", "missing", "")
HOSTILE: Any = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.builds(object),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
RESULTS = st.builds(
    ValidationResult,
    is_valid=st.booleans(),
    action_type=st.none() | st.sampled_from(ActionType),
    parsed_response=st.none()
    | HOSTILE
    | st.dictionaries(
        st.sampled_from(
            ["content", "error_details", "error", "question", "suggested_action", "next_action"]
        ),
        st.none()
        | st.text()
        | st.integers()
        | st.dictionaries(st.text(max_size=5), st.text() | st.integers()),
    ),
    error_message=st.none() | st.text(),
    retry_suggestion=st.none() | st.text(),
    invocations=st.lists(
        st.builds(AgentInvocation, st.sampled_from(NAMES), st.none() | st.text()), max_size=3
    )
    | st.lists(HOSTILE, max_size=2),
    tool_calls=st.lists(
        st.dictionaries(st.sampled_from(["id", "function"]), st.text() | st.just({"name": "x"}))
    )
    | st.lists(HOSTILE)
    | st.just([call()]),
    issues=st.lists(st.sampled_from(list(FAULTS.values())), max_size=2).map(tuple),
    origin=st.sampled_from(Origin),
)
BRANCHES = st.builds(
    Branch,
    type=st.sampled_from(BranchType),
    agents=st.lists(st.sampled_from(NAMES), max_size=3).map(tuple),
    turns=st.integers(0, 6),
)
CONTEXTS = st.builds(
    RoutingContext,
    current_agent=st.sampled_from(NAMES),
    retry_count=st.integers(0, 6),
    transport_retries=st.integers(0, 6),
    steering_enabled=st.booleans(),
    error_info=st.none() | st.dictionaries(st.text(), st.text()),
)


@pytest.mark.req("M107")
@given(result=RESULTS, branch=BRANCHES, context=CONTEXTS)
def test_no_step_leaves_the_topology(
    result: ValidationResult, branch: Branch, context: RoutingContext
) -> None:
    """For any result, each step leads to a permitted agent, the same one, the user or an end; with
    a reason.
    """
    before = repr((result, branch, context))
    decision = ROUTER.decide(result, branch, context)
    agent = context.current_agent or (branch.agents[0] if len(branch.agents) == 1 else "")
    reachable = {*(TEAM.neighbours(agent) if agent in TEAM.agents else ()), agent}

    for step in decision.next_steps:
        if step.step_type is StepType.ERROR_RECOVERY:
            assert step.target == USER
        elif step.step_type is StepType.TOOL_EXECUTION:
            assert step.target == "search"
        else:
            assert step.target in reachable

    assert {spec.agent for spec in decision.branch_specs} <= reachable
    assert decision.reason is not None
    assert decision.is_terminal() or decision.should_continue or decision.should_wait

    if (
        result.is_valid
        and not decision.follows_fault()
        and decision.next_steps + decision.branch_specs
    ):
        held = permitted_actions(TEAM, agent, branch=branch, tools=["search"], origin=result.origin)
        assert result.action_type in held.actions

    assert repr((result, branch, context)) == before


@given(
    agents=st.permutations(["formatter", "not allowed", "missing", "invalid format", "permission"])
)
def test_names_decide_nothing(agents: list[str]) -> None:
    """Teams that differ only in what agents are called are routed alike, whatever words are in the
    names.
    """
    first, second, third, *_ = agents
    team = Topology.of({USER: [first], first: [second, third], second: [first], third: [USER]})

    for target, reason in (
        (second, RoutingReason.SEQUENTIAL),
        ("nobody", RoutingReason.NOT_ALLOWED),
    ):
        result = valid(ActionType.INVOKE_AGENT, target)
        decision = Router(team).decide(result, Branch(), RoutingContext(current_agent=first))
        assert decision.reason is reason

    for category, fault in some(FAULTS.items()):
        result = ValidationResult(
            False, error_message=" ".join(agents), retry_suggestion=first, issues=(fault,)
        )
        decision = Router(team).decide(result, Branch(), RoutingContext(current_agent=first))
        assert decision.error_action == ErrorPolicy().reactions[category].value
