"""Who may do what.

The topology, the branch and the application's leave decide, and nothing else.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from strictreply import Category, ContractError
from strictreply.coordination import ActionType, Branch, BranchType, Origin, Topology
from strictreply.coordination.actions import LACKING, SHAPES
from strictreply.coordination.topology import permitted_actions, read_leave
from strictreply.coordination.validation import ValidationProcessor
from support.coordination.team import CONVERSATION, GRAPH, PARALLEL, faults, judged, processor

A = ActionType


@pytest.mark.req("M10")
@pytest.mark.parametrize(
    ("agent", "branch", "tools", "leave", "actions"),
    [
        (
            "Coordinator",
            None,
            ["search"],
            [],
            [
                A.INVOKE_AGENT,
                A.PARALLEL_INVOKE,
                A.CALL_TOOL,
                A.FINAL_RESPONSE,
                A.ERROR_RECOVERY,
                A.ASK_USER,
            ],
        ),
        ("Worker1", None, [], [], [A.INVOKE_AGENT, A.PARALLEL_INVOKE]),
        ("DataAnalyzer", None, [], [], [A.FINAL_RESPONSE]),
        (
            "DataAnalyzer",
            None,
            [],
            ["terminate_workflow"],
            [A.FINAL_RESPONSE, A.TERMINATE_WORKFLOW],
        ),
        ("Worker3", None, [], [], []),
        ("Worker3", None, ["search"], [], [A.CALL_TOOL]),
        ("Worker3", Branch(type=BranchType.CONVERSATION), [], [], [A.END_CONVERSATION]),
        ("Worker3", PARALLEL, [], [], [A.WAIT_AND_AGGREGATE]),
        ("Worker3", None, [], ["terminal_error", "terminate_workflow"], [A.TERMINAL_ERROR]),
    ],
)
def test_actions_follow_from_edges_tools_and_branch(
    agent: str, branch: Branch | None, tools: list[str], leave: list[str], actions: list[ActionType]
) -> None:
    """Handing over needs an agent to follow, calls need tools, an end needs an edge to it; a leaf
    has nothing.
    """
    allowed = permitted_actions(GRAPH, agent, branch=branch, tools=tools, leave=read_leave(leave))
    assert list(allowed.actions) == actions


@pytest.mark.req("M42")
@pytest.mark.parametrize(
    ("asked", "places"),
    [
        ({"next_action": "invoke_agent", "action_input": "Agent3"}, ["/action_input"]),
        (
            {"next_action": "invoke_agent", "action_input": {"agent_name": "Agent3"}},
            ["/action_input/agent_name"],
        ),
        (
            {"next_action": "invoke_agent", "action_input": [{"agent_name": "Agent3"}]},
            ["/action_input/0/agent_name"],
        ),
        (
            {"next_action": "parallel_invoke", "agents": ["Agent3", "Agent3"]},
            ["/agents/0", "/agents/1"],
        ),
    ],
)
def test_a_target_that_is_no_edge_is_refused(asked: dict[str, Any], places: list[str]) -> None:
    """A matter of permission: the target is in ``found``, and the message and the suggestion name
    whom it may choose.

    So it is however the target is spelt, and also when the caller's list of allowed agents would
    admit it.
    """
    graph = Topology.of(
        {"Agent1": ["Agent2", "Agent3", "User"], "Agent2": ["Agent1"], "Agent3": []}, entry="Agent1"
    )
    made = ValidationProcessor(graph)
    for result in (
        made.validate(asked, "Agent2"),
        made.validate(asked, "Agent2", allowed_agents=["Agent1", "Agent3"]),
    ):
        assert (result.is_valid, result.action_type, result.invocations) == (False, None, [])
        assert faults(result) == [("topology.not_allowed", place) for place in places]
        assert {(issue.category, issue.found) for issue in result.issues} == {
            (Category.PERMISSION_ERROR, '"Agent3"')
        }
        assert result.permitted is not None

        assert result.permitted.agents == ("Agent1",)

        for told in (result.retry_suggestion, result.error_message):
            assert {agent for agent in graph.agents if agent in (told or "")} == {"Agent1"}


@pytest.mark.req("M43")
def test_every_bad_target_is_reported_and_none_is_spawned() -> None:
    """One bad target in a parallel handing over refuses all of it."""
    reply = {"next_action": "parallel_invoke", "agents": ["Worker1", "bad1", "bad2"]}
    result = judged(reply)
    assert [(issue.path, issue.found) for issue in result.issues] == [
        ("/agents/1", '"bad1"'),
        ("/agents/2", '"bad2"'),
    ]
    assert (result.is_valid, result.invocations, result.next_agents) == (False, [], [])


@pytest.mark.req("M25")
@pytest.mark.parametrize(
    "reply",
    [
        {"next_action": "terminal_error", "error": "x"},
        {"next_action": "auto_retry"},
        {"next_action": "wait_and_aggregate"},
        {"next_action": "terminate_workflow", "content": "x"},
    ],
)
def test_conditional_actions_need_permission(reply: dict[str, Any]) -> None:
    """Five actions are there by default where the topology has them; a model cannot help itself to
    the others (X8).
    """
    result = judged(reply)
    assert (faults(result), result.error_category) == (
        [("action.not_permitted", "/next_action")],
        Category.ACTION_ERROR,
    )
    default = {A.INVOKE_AGENT, A.PARALLEL_INVOKE, A.CALL_TOOL, A.FINAL_RESPONSE, A.ERROR_RECOVERY}
    assert result.permitted is not None
    assert default <= set(result.permitted.actions) <= default | {A.ASK_USER}


@pytest.mark.req("M44")
def test_conversations_end_in_conversations_only() -> None:
    """The rule holds for each reply anew: an earlier conversation leaves nothing behind for a
    simple branch.

    Nor may an agent end a conversation that it takes no part in. In one that names its agents, only
    they take part.
    """
    shared = processor()
    end = {"next_action": "end_conversation"}
    before = shared.validate(end, "Coordinator")
    talking = shared.validate(end, "Coordinator", CONVERSATION)

    after = shared.validate(end, "Coordinator", Branch())
    assert (talking.is_valid, talking.action_type) == (True, A.END_CONVERSATION)

    stranger = shared.validate(end, "Worker2", CONVERSATION)
    for refused in (before, after, stranger):
        assert faults(refused) == [("action.not_permitted", "/next_action")]
        assert refused.error_category is Category.ACTION_ERROR
        assert refused.retry_suggestion

    assert before == after


@pytest.mark.req("M45")
def test_only_an_agent_with_a_way_out_may_finish() -> None:
    """Without an edge to User or End a final response is a matter of permission; the suggestion
    names who follows.
    """
    final = {"next_action": "final_response", "content": "x"}
    result = judged(final, "Worker2", tools=())
    assert (result.is_valid, faults(result)) == (
        False,
        [("topology.may_not_finish", "/next_action")],
    )

    assert result.error_category is Category.PERMISSION_ERROR
    assert result.permitted is not None
    assert result.permitted.agents == GRAPH.allowed_targets("Worker2") == ("Coordinator", "Worker1")
    assert result.permitted.actions == (A.INVOKE_AGENT, A.PARALLEL_INVOKE)

    suggestion = result.retry_suggestion or ""
    assert {agent for agent in GRAPH.agents if agent in suggestion} == set(result.permitted.agents)
    assert {action for action in A if action.value in suggestion} == {*result.permitted.actions}

    for agent in GRAPH.agents:
        assert judged(final, agent).is_valid is GRAPH.may_finish(agent)


@pytest.mark.req("M46")
def test_only_an_agent_with_an_edge_to_user_may_ask() -> None:
    """An edge to End is none to User."""
    ask = {"next_action": "ask_user", "question": "Which?"}
    assert judged(ask).action_type is A.ASK_USER
    refused = judged(ask, "DataAnalyzer")
    assert (faults(refused), refused.error_category) == (
        [("topology.no_user", "/next_action")],
        Category.PERMISSION_ERROR,
    )


@pytest.mark.req("M48")
def test_no_agent_is_trusted_more() -> None:
    """A list of allowed agents only narrows, and permissions are asked for with these parameters
    and no other.
    """
    assert list(inspect.signature(permitted_actions).parameters) == [
        *("topology", "agent", "branch", "tools", "leave", "allowed_agents", "origin")
    ]
    reply = {"next_action": "invoke_agent", "action_input": "DataAnalyzer"}
    widened = processor().validate(reply, "Worker1", allowed_agents=["DataAnalyzer", "Coordinator"])
    assert faults(widened) == [("topology.not_allowed", "/action_input")]

    assert widened.permitted is not None
    assert widened.permitted.agents == ("Coordinator",)
    narrowed = processor().validate(reply, "Coordinator", allowed_agents=["Worker1"])
    assert (faults(narrowed), narrowed.permitted and narrowed.permitted.agents) == (
        [("topology.not_allowed", "/action_input")],
        ("Worker1",),
    )


@pytest.mark.req("M49")
def test_the_system_always_reaches_the_user() -> None:
    """Its own three actions need no permission, and User is within reach; a model's recovery needs
    the edge (X8).
    """
    system = permitted_actions(GRAPH, "Worker3", origin=Origin.SYSTEM)
    assert system.agents == ("User",)
    assert set(system.actions) == {A.ERROR_RECOVERY, A.TERMINAL_ERROR, A.AUTO_RETRY}
    recovery = {"next_action": "error_recovery", "error_details": {"type": "t", "message": "m"}}
    assert judged(recovery, "Coordinator").is_valid

    refused = judged(recovery, "Worker1")
    assert (faults(refused), refused.error_category) == (
        [("topology.no_user", "/next_action")],
        Category.PERMISSION_ERROR,
    )


def test_an_agent_without_anybody_to_follow_may_not_hand_over() -> None:
    """For a leaf every target is a matter of permission."""
    result = judged({"next_action": "invoke_agent", "action_input": "Worker1"}, "DataAnalyzer")
    assert (result.code, result.error_category) == (
        "topology.not_allowed",
        Category.PERMISSION_ERROR,
    )


def test_who_may_do_nothing_gets_no_suggestion() -> None:
    """An agent without permissions is not asked again; the suggestion is to review the topology."""
    result = judged({"next_action": "final_response", "content": "x"}, "Worker3", tools=())
    assert (result.is_valid, result.retry_suggestion) == (False, None)


def test_a_refusal_names_the_need_that_is_not_met() -> None:
    """An agent that may finish, but not the workflow, lacks the application's leave, no edge."""
    allowed = permitted_actions(GRAPH, "DataAnalyzer")
    assert allowed.action_refusal(A.TERMINATE_WORKFLOW).code == "action.not_permitted"
    assert (
        permitted_actions(GRAPH, "Worker1").action_refusal(A.TERMINATE_WORKFLOW).code
        == "topology.may_not_finish"
    )

    for action, shape in SHAPES.items():
        assert permitted_actions(GRAPH, "Worker3").action_refusal(action).code in {
            LACKING[need] for need in shape.needs
        }


@pytest.mark.parametrize("leave", [["auto_retry"], ["dance"]])
def test_no_leave_for_what_is_nobody_s(leave: list[str]) -> None:
    """Declaring leave for an action of the system, or for an unknown one, is refused."""
    with pytest.raises(ContractError):
        ValidationProcessor(GRAPH, leave=leave)


def test_an_unknown_agent_is_the_application_s_mistake() -> None:
    """The application names the replying agent: an unknown name raises at once."""
    with pytest.raises(ContractError):
        processor().validate({"next_action": "final_response", "content": "x"}, "Nobody")
