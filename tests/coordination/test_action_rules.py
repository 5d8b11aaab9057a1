"""Each action: the documented shapes as they are printed.

The tests say what each shape comes to, and what is refused in each.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import Category
from strictreply.coordination import ActionType, AgentInvocation, Branch, Topology
from strictreply.coordination.actions import (
    LACKING,
    SHAPES,
    Need,
    Permitted,
    action_schema,
    document_of,
    example_of,
    schema_of,
)
from strictreply.coordination.validation import ValidationProcessor
from support.coordination.team import CONVERSATION, GRAPH, PARALLEL, SEARCH, SPAWN, faults, judged
from support.openai_shapes import call, message

INVOKE = {
    "thought": "I need to analyze this data",
    "next_action": "invoke_agent",
    "action_input": "DataAnalyzer",
}
INVOKE_WITH_REQUEST = {
    "next_action": "invoke_agent",
    "action_input": "DataAnalyzer",
    "request": "Analyze sales data for Q4",
}
PARALLEL_OF_TWO = {
    "next_action": "parallel_invoke",
    "agents": ["Worker1", "Worker2"],
    "agent_requests": {"Worker1": "Task A", "Worker2": "Task B"},
}
PARALLEL_OF_THREE = {
    "thought": "These can run in parallel",
    "next_action": "parallel_invoke",
    "agents": ["Worker1", "Worker2", "Worker3"],
    "agent_requests": {
        "Worker1": "Process segment A",
        "Worker2": "Process segment B",
        "Worker3": "Process segment C",
    },
}
TOOL_OF_THE_CONCEPT = {
    "next_action": "call_tool",
    "tool_calls": [
        {
            "id": "call_123",
            "type": "function",
            "function": {"name": "search", "arguments": '{"query": "data"}'},
        }
    ],
}
TOOL_OF_THE_API = {
    "next_action": "call_tool",
    "tool_calls": [
        {
            "id": "call_123",
            "type": "function",
            "function": {"name": "search", "arguments": '{"query": "AI trends"}'},
        }
    ],
}
FINAL_TEXT: dict[str, Any] = {
    "next_action": "final_response",
    "content": "Here is the analysis result...",
}
FINAL_OF_THE_CONCEPT = {"next_action": "final_response", "content": "Analysis complete..."}
FINAL_OBJECT = {
    "next_action": "final_response",
    "content": {"title": "Analysis Report", "sections": [...], "conclusion": "..."},
}
QUOTA = {
    "next_action": "error_recovery",
    "error_details": {
        "type": "api_quota_exceeded",
        "message": "OpenAI API quota exceeded",
        "provider": "openai",
    },
    "suggested_action": "retry",
}
RATE_LIMIT = {
    "next_action": "error_recovery",
    "error_details": {
        "type": "rate_limit",
        "message": "API rate limit exceeded",
        "retry_after": 60,
    },
    "suggested_action": "wait_and_retry",
}
END = {"next_action": "end_conversation"}
WAIT = {"next_action": "wait_and_aggregate"}
TERMINAL = {"next_action": "terminal_error", "error": "..."}
ASK = {"next_action": "ask_user", "question": "Which quarter?"}
FINAL_OBJECT_WRITTEN = FINAL_OBJECT | {
    "content": {"title": "Analysis Report", "sections": ["..."], "conclusion": "..."}
}
"""The printed one, with text where the document leaves its sections open by an ellipsis."""

DOCUMENTED: list[tuple[dict[str, Any], ActionType]] = [
    (INVOKE, ActionType.INVOKE_AGENT),
    (INVOKE_WITH_REQUEST, ActionType.INVOKE_AGENT),
    (PARALLEL_OF_TWO, ActionType.PARALLEL_INVOKE),
    (PARALLEL_OF_THREE, ActionType.PARALLEL_INVOKE),
    (TOOL_OF_THE_CONCEPT, ActionType.CALL_TOOL),
    (TOOL_OF_THE_API, ActionType.CALL_TOOL),
    (FINAL_TEXT, ActionType.FINAL_RESPONSE),
    (FINAL_OF_THE_CONCEPT, ActionType.FINAL_RESPONSE),
    (FINAL_OBJECT_WRITTEN, ActionType.FINAL_RESPONSE),
    (QUOTA, ActionType.ERROR_RECOVERY),
    (RATE_LIMIT, ActionType.ERROR_RECOVERY),
    (END, ActionType.END_CONVERSATION),
    (WAIT, ActionType.WAIT_AND_AGGREGATE),
    (TERMINAL, ActionType.TERMINAL_ERROR),
]
BRANCHES = {ActionType.END_CONVERSATION: CONVERSATION, ActionType.WAIT_AND_AGGREGATE: PARALLEL}
LEAVE = ["terminal_error", "terminate_workflow"]


def test_the_actions_are_these_words() -> None:
    """The documented words and no others; each action has one shape."""
    assert [action.value for action in ActionType] == [
        "invoke_agent",
        "parallel_invoke",
        "call_tool",
        "final_response",
        "end_conversation",
        "wait_and_aggregate",
        "error_recovery",
        "terminal_error",
        "auto_retry",
        "terminate_workflow",
        "ask_user",
    ]
    assert list(SHAPES) == list(ActionType)


@pytest.mark.req("M16", "M17", "M18", "M19", "M20", "M21", "M22", "M23", "M37")
@pytest.mark.parametrize(("reply", "action"), DOCUMENTED)
@pytest.mark.parametrize(
    "spell", [lambda reply: reply, json.dumps, lambda reply: message(json.dumps(reply))]
)
def test_every_documented_reply_is_valid_where_permitted(
    reply: dict[str, Any], action: ActionType, spell: Any
) -> None:
    """As a mapping, as text and as a message: the action the document names, and every member kept
    (trap 2.12 #4).
    """
    result = judged(spell(reply), branch=BRANCHES.get(action), leave=LEAVE)
    assert (result.is_valid, result.action_type, result.issues) == (True, action, ())
    assert result.parsed_response == reply


@pytest.mark.req("M24")
def test_the_code_s_own_actions() -> None:
    """Two more are valid with an edge to User or expressly permitted; ``auto_retry`` is nobody's
    but the system's.
    """
    assert judged(ASK).action_type is ActionType.ASK_USER
    terminated = judged({"next_action": "terminate_workflow", "content": "done"}, leave=LEAVE)
    assert (terminated.action_type, terminated.final_response) == (
        ActionType.TERMINATE_WORKFLOW,
        "done",
    )

    retried = judged(
        {"next_action": "auto_retry", "error_details": {"type": "timeout", "message": "m"}}
    )
    assert faults(retried) == [("action.not_permitted", "/next_action")]


@pytest.mark.req("M26")
@pytest.mark.parametrize(
    "reply", [INVOKE, {key: INVOKE[key] for key in ("next_action", "action_input")}]
)
def test_one_agent_is_invoked(reply: dict[str, Any]) -> None:
    """The name in ``action_input`` is who follows."""
    result = judged(reply)
    assert (result.action_type, result.next_agents, result.next_agent) == (
        ActionType.INVOKE_AGENT,
        ["DataAnalyzer"],
        "DataAnalyzer",
    )


@pytest.mark.req("M27")
def test_a_request_goes_with_the_invocation() -> None:
    """The request is what the agent is asked; without one it is None, and so it is with null."""
    assert judged(INVOKE_WITH_REQUEST).invocations == [
        AgentInvocation("DataAnalyzer", "Analyze sales data for Q4")
    ]
    assert judged(INVOKE).invocations == [AgentInvocation("DataAnalyzer")]
    assert judged(INVOKE | {"request": {"quarter": 4}}).invocations[0].request == {"quarter": 4}
    assert judged(INVOKE | {"request": None}).invocations == [AgentInvocation("DataAnalyzer")]


@pytest.mark.req("M28")
def test_action_input_may_list_invocations() -> None:
    """One, alone or in a list, is an invocation; more than one are parallel, each with its own
    request.
    """
    one = {"agent_name": "Worker1", "request": "a"}
    other = {"agent_name": "Worker2", "request": "b"}

    for asked in (one, [one]):
        alone = judged({"next_action": "invoke_agent", "action_input": asked})
        assert (alone.action_type, alone.invocations) == (
            ActionType.INVOKE_AGENT,
            [AgentInvocation("Worker1", "a")],
        )

    both = judged({"next_action": "invoke_agent", "action_input": [one, other]})
    assert both.action_type is ActionType.PARALLEL_INVOKE
    assert [(made.agent_name, made.request) for made in both.invocations] == [
        ("Worker1", "a"),
        ("Worker2", "b"),
    ]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"action_input": []}, [("action.min_items", "/action_input")]),
        (
            {"action_input": [{"request": "a"}]},
            [("action.missing_field", "/action_input/0/agent_name")],
        ),
        (
            {"action_input": {"agent_name": "Worker1", "zzz": 1}},
            [("action.extra_key", "/action_input")],
        ),
        (
            {"action_input": {"agent_name": "Worker1"}, "request": "r"},
            [("action.request_misplaced", "/request")],
        ),
        (
            {"action_input": [{"agent_name": "Nobody"}]},
            [("topology.not_allowed", "/action_input/0/agent_name")],
        ),
        ({}, [("action.missing_field", "/action_input")]),
        ({"action_input": 7}, [("action.type", "/action_input")]),
    ],
)
def test_malformed_invocations_are_refused(
    reply: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """Each fault has its own code and place; a request that belongs to nobody is not dropped."""
    assert faults(judged({"next_action": "invoke_agent"} | reply)) == expected


@pytest.mark.req("M29")
def test_parallel_agents_have_their_own_requests() -> None:
    """Three agents, three invocations in order, each with what it is asked."""
    asked = [(one.agent_name, one.request) for one in judged(PARALLEL_OF_THREE).invocations]
    assert asked == list(PARALLEL_OF_THREE["agent_requests"].items())  # type: ignore[attr-defined]


@pytest.mark.req("M30")
@pytest.mark.parametrize("agents", [["Worker1"], []])
def test_parallel_needs_two(agents: list[str]) -> None:
    """One agent or none is not parallel; ``invoke_agent`` alone is suggested instead."""
    result = judged({"next_action": "parallel_invoke", "agents": agents})
    assert (result.is_valid, faults(result)) == (False, [("action.min_items", "/agents")])
    assert result.error_category is Category.FORMAT_ERROR
    assert result.permitted is not None

    assert len(result.permitted.actions) > 1
    assert {action for action in ActionType if action.value in (result.retry_suggestion or "")} == {
        ActionType.INVOKE_AGENT
    }


def test_a_suggestion_offers_what_is_permitted() -> None:
    """Where no one action fixes a fault, all permitted actions are suggested, and no other."""
    result = judged({"next_action": "parallel_invoke", "agents": ["Worker1", "Nobody"]})
    assert result.permitted is not None
    assert {
        action for action in ActionType if action.value in (result.retry_suggestion or "")
    } == set(result.permitted.actions)


@pytest.mark.req("M31")
def test_requests_and_agents_must_match() -> None:
    """A request for nobody and an agent without one are named; where a spawn needs requests they
    may not be missing.
    """
    odd = PARALLEL_OF_TWO | {"agent_requests": {"Worker1": "Task A", "Worker9": "Task B"}}
    result = judged(odd)
    assert faults(result) == [
        ("action.missing_field", "/agent_requests/Worker2"),
        ("action.request_unknown", "/agent_requests"),
    ]

    assert [issue.found for issue in result.issues] == ["", '"Worker9"']
    bare = {"next_action": "parallel_invoke", "agents": ["Worker1", "Worker2"]}
    assert judged(bare).is_valid
    spawned = judged(bare, branch=SPAWN)
    assert faults(spawned) == [("action.missing_field", "/agent_requests")]

    assert spawned.error_category is Category.FORMAT_ERROR
    listed = {
        "next_action": "invoke_agent",
        "action_input": [{"agent_name": "Worker1"}, {"agent_name": "Worker2"}],
    }
    assert [place for _, place in faults(judged(listed, branch=SPAWN))] == [
        "/action_input/0/request",
        "/action_input/1/request",
    ]


def test_requests_that_share_a_trimmed_name_are_refused() -> None:
    """Two requests whose names differ by spaces cannot both be kept."""
    doubled = PARALLEL_OF_TWO | {
        "agent_requests": {"Worker1": "a", " Worker1": "b", "Worker2": "c"}
    }
    assert faults(judged(doubled)) == [("json.duplicate_key", "/agent_requests")]


@pytest.mark.req("M32")
def test_the_same_agent_twice_is_two_instances() -> None:
    """Both requests are kept, under ids of the documented form that differ, and are the same for
    the same reply.
    """
    twice = [{"agent_name": "Worker1", "request": "a"}, {"agent_name": "Worker1", "request": "b"}]
    reply = {"next_action": "invoke_agent", "action_input": twice}
    first, second = judged(reply).invocations
    assert [first.request, second.request] == ["a", "b"]

    for index, instance in enumerate((first, second)):
        name, number, tail = instance.instance_id.split("_")
        assert (name, number, len(tail), set(tail) <= set("0123456789abcdef")) == (
            "Worker1",
            str(index),
            8,
            True,
        )

    assert first.instance_id != second.instance_id
    assert judged(reply).invocations == [first, second]
    assert judged(reply, branch=Branch("other")).invocations[0].instance_id != first.instance_id


@pytest.mark.req("M33")
def test_tool_calls_keep_their_shape() -> None:
    """One call as it was written, and its arguments read for whoever runs it."""
    result = judged(TOOL_OF_THE_API)
    assert (result.action_type, result.tool_calls) == (
        ActionType.CALL_TOOL,
        TOOL_OF_THE_API["tool_calls"],
    )
    assert [(made.tool, made.args, made.id) for made in result.calls] == [
        ("search", {"query": "AI trends"}, "call_123")
    ]


@pytest.mark.req("M34")
@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (["x"], ("action.type", "/tool_calls/0")),
        ([{"id": "1"}], ("action.missing_field", "/tool_calls/0/function")),
        (None, ("action.type", "/tool_calls")),
        ([], ("action.min_items", "/tool_calls")),
        ("search", ("action.type", "/tool_calls")),
        ([call("search", {"query": "a"}) | {"zzz": 1}], ("action.extra_key", "/tool_calls/0")),
        ([call("search", {"query": "a"}) | {"id": []}], ("action.type", "/tool_calls/0/id")),
        (
            [call("search", {"query": "a"}), call("search", {"query": "b"})],
            ("call.id_duplicate", "/tool_calls/1/id"),
        ),
        ([call("delete", {})], ("tool.unknown", "/tool_calls/0/function/name")),
        ([call("search", {"query": 1})], ("args.type", "/tool_calls/0/function/arguments/query")),
    ],
)
def test_malformed_calls_are_refused(calls: object, expected: tuple[str, str]) -> None:
    """A call that is none, an empty list, an unknown tool or wrong arguments: never valid, never
    without calls.
    """
    assert faults(judged({"next_action": "call_tool", "tool_calls": calls})) == [expected]


@pytest.mark.req("M35")
def test_arguments_that_are_no_json_are_not_empty_arguments() -> None:
    """The fault is in the JSON, at its place; nobody says that the query is missing."""
    result = judged({"next_action": "call_tool", "tool_calls": [call("search", '{"q":')]})
    assert faults(result) == [("json.incomplete", "/tool_calls/0/function/arguments/*")]
    result = judged({"next_action": "call_tool", "tool_calls": [call("search", '{"q" 1}')]})
    assert faults(result) == [("json.syntax", "/tool_calls/0/function/arguments")]
    assert "line 1 column 6" in result.issues[0].message
    assert result.error_category is Category.FORMAT_ERROR


@pytest.mark.req("M36")
@pytest.mark.parametrize("content", ["done", {"title": "t", "sections": [1, {"a": None}]}, {}])
def test_a_final_response_is_text_or_an_object(content: object) -> None:
    """The content comes out as it went in, also under the names that the code had for it."""
    for reply in (
        {"content": content},
        {"action_input": {"response": content}},
        {"action_input": {"report": content}},
    ):
        result = judged({"next_action": "final_response"} | reply)
        assert (result.action_type, result.final_response) == (ActionType.FINAL_RESPONSE, content)
        assert result.parsed_response == {"next_action": "final_response", "content": content}


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"content": None},
        {"content": ""},
        {"content": " \n"},
        {"content": ["a"]},
        {"content": 4},
        {"action_input": "the answer"},
        {"action_input": {"result": "the answer"}},
        {"action_input": {"response": "a", "report": "b"}},
        {"content": "a", "action_input": {"response": "b"}},
    ],
)
def test_a_final_response_says_something_once(reply: dict[str, Any]) -> None:
    """Nothing, blanks, lists, other names and two answers are refused in form."""
    result = judged({"next_action": "final_response"} | reply)
    assert (result.is_valid, result.error_category) == (False, Category.FORMAT_ERROR)


@pytest.mark.req("M38")
@pytest.mark.parametrize("reply", [QUOTA, RATE_LIMIT])
def test_error_recovery_keeps_its_details(reply: dict[str, Any]) -> None:
    """Details and suggestion arrive as they were written, numbers as numbers; without details there
    is no recovery.
    """
    parsed = judged(reply).parsed_response
    assert parsed is not None
    assert (parsed["error_details"], parsed["suggested_action"]) == (
        reply["error_details"],
        reply["suggested_action"],
    )

    assert faults(judged({"next_action": "error_recovery"})) == [
        ("action.missing_field", "/error_details")
    ]
    bare = {"next_action": "error_recovery", "error_details": {"type": "x"}}
    assert faults(judged(bare)) == [("action.missing_field", "/error_details/message")]


@pytest.mark.req("M39")
@pytest.mark.parametrize(("reply", "action"), DOCUMENTED)
def test_a_thought_is_always_optional(reply: dict[str, Any], action: ActionType) -> None:
    """With a thought or without one, an action is the same."""
    bare = {name: member for name, member in reply.items() if name != "thought"}
    for spelled in (bare, bare | {"thought": "hm"}):
        assert judged(spelled, branch=BRANCHES.get(action), leave=LEAVE).action_type is action
    assert faults(judged(FINAL_TEXT | {"thought": 1})) == [("action.type", "/thought")]


@pytest.mark.req("M46")
@pytest.mark.parametrize("question", ["", "  \n"])
def test_a_question_asks_something(question: str) -> None:
    """A blank question is the wrong action, not a wrong format."""
    result = judged(ASK | {"question": question})
    assert (faults(result), result.error_category) == (
        [("action.no_question", "/question")],
        Category.ACTION_ERROR,
    )


@pytest.mark.req("M47")
def test_names_are_trimmed_and_never_blank() -> None:
    """Spaces around a name are not part of it; a name of spaces is a fault of the reply, not an
    exception.
    """
    assert judged({"next_action": "invoke_agent", "action_input": "  Worker1 "}).next_agents == [
        "Worker1"
    ]
    spaced = PARALLEL_OF_TWO | {"agents": [" Worker1", "Worker2 "]}
    assert judged(spaced).next_agents == ["Worker1", "Worker2"]
    blank = judged({"next_action": "invoke_agent", "action_input": " "})
    assert (blank.is_valid, blank.error_category) == (False, Category.FORMAT_ERROR)
    assert not judged(PARALLEL_OF_TWO | {"agents": ["Worker1", " "]}).is_valid


@pytest.mark.parametrize("action", list(ActionType))
def test_every_shape_is_closed_and_names_its_action(action: ActionType) -> None:
    """A schema takes no member beside its own, unless it is opened; and no other action."""
    allowed = Permitted("A", tuple(ActionType), ("B", "C"), ("search",))
    example = example_of(action, allowed, {"search": SEARCH})
    assert example is not None
    assert schema_of(action).check(example) == ()

    assert [issue.code for issue in schema_of(action).check(example | {"zzz": 1})] == [
        "args.extra_key"
    ]
    assert schema_of(action, "allow").check(example | {"zzz": 1}) == ()
    others = [
        other for other in ActionType if other is not action and not schema_of(other).check(example)
    ]
    assert others == []

    assert document_of(action)["required"][0] == "next_action"


def test_examples_need_something_to_show() -> None:
    """Without a hand-over to show, or tools whose arguments can be made, there is no example."""
    nobody = Permitted("A", (), (), ("search",))
    assert example_of(ActionType.INVOKE_AGENT, nobody, {}) is None
    assert example_of(ActionType.PARALLEL_INVOKE, nobody, {}) is None
    assert example_of(ActionType.CALL_TOOL, nobody, {}) is None

    alone = Permitted("A", (), ("B",))
    assert example_of(ActionType.PARALLEL_INVOKE, alone, {}) == {
        "next_action": "parallel_invoke",
        "agents": ["B", "B"],
        "agent_requests": {"B": "what you want done"},
    }


def test_a_union_spells_the_permitted_names_out() -> None:
    """The schema for the model lists the permitted agents and tools by name, and no others."""
    allowed = Permitted("A", (ActionType.INVOKE_AGENT, ActionType.CALL_TOOL), ("B",), ("search",))
    union = action_schema(allowed, "forbid")
    assert union.check({"next_action": "invoke_agent", "action_input": "B"}) == ()
    assert union.check({"next_action": "invoke_agent", "action_input": "C"})
    assert union.check({"next_action": "call_tool", "tool_calls": [call("search", {})]}) == ()
    assert union.check({"next_action": "call_tool", "tool_calls": [call("delete", {})]})
    assert union.check(FINAL_TEXT)


def test_every_need_is_somebody_s() -> None:
    """Each need stands behind an action, and each code of a need is one of permission or of
    actions.
    """
    assert {need for shape in SHAPES.values() for need in shape.needs} == set(Need)
    assert {code.category for code in LACKING.values()} == {
        Category.PERMISSION_ERROR,
        Category.ACTION_ERROR,
    }


@pytest.mark.req("M15")
@given(
    st.sampled_from(
        ["formatter", "not allowed", "missing", "information", "summarizer_agent", "invoke_agent"]
    )
)
def test_verdicts_do_not_depend_on_names(name: str) -> None:
    """The same faults have the same codes for any names of agents and any texts (traps 2.12 #2,
    #3).
    """
    graph = Topology.of([("A", name), (name, "A"), ("A", "User")], entry="A")
    judge = ValidationProcessor(graph).validate
    good = judge({"next_action": "invoke_agent", "action_input": name}, "A")
    assert (good.is_valid, good.next_agents) == (True, [name])

    bad = judge({"next_action": "invoke_agent", "action_input": f"{name} format"}, "A")
    assert faults(bad) == [("topology.not_allowed", "/action_input")]
    assert bad.error_category is Category.PERMISSION_ERROR
    final = judge(
        {"next_action": "final_response", "content": "not allowed: invalid format, missing field"},
        name,
    )
    assert (final.code, final.error_category) == (
        "topology.may_not_finish",
        Category.PERMISSION_ERROR,
    )


def test_the_printed_ellipsis_is_not_json() -> None:
    """The document's structured response, taken as Python prints it, holds an Ellipsis: a fault,
    not an exception.
    """
    assert faults(judged(FINAL_OBJECT)) == [("action.unreadable", "")]
    assert GRAPH.may_finish("Coordinator")
