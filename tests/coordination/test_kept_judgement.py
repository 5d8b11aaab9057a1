"""What an agent was judged by is kept from one reply to the next, and changes no verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from xml_format import XMLResponseFormat

from strictreply.coordination import AgentReplyCode, Branch, Topology, ValidationResult
from support.coordination.team import CONVERSATION, PARALLEL, processor
from support.loops import some

FINAL = {"next_action": "final_response", "content": "x"}
REPLIES: list[Any] = [
    FINAL,
    {"next_action": "invoke_agent", "action_input": "Worker1"},
    {"next_action": "end_conversation"},
    {"next_action": "wait_and_aggregate"},
]
SETTINGS: dict[str, st.SearchStrategy[Any]] = {
    "branch": st.sampled_from([None, Branch(), CONVERSATION, PARALLEL]),
    "allowed_agents": st.sampled_from([None, [], ["Worker1"], ["Worker2"]]),
    "exec_state": st.sampled_from([None, {"reply_formats": {"Coordinator": "xml"}}]),
}


def told(result: ValidationResult) -> tuple[object, ...]:
    """Return what a verdict says."""
    return (
        result.action_type,
        result.issues,
        result.permitted,
        result.source,
        result.parsed_response,
    )


@given(
    st.lists(
        st.tuples(st.sampled_from(REPLIES), st.fixed_dictionaries(SETTINGS)), min_size=1, max_size=6
    )
)
def test_a_verdict_does_not_depend_on_those_before(asked: list[tuple[Any, dict[str, Any]]]) -> None:
    """A used processor gives the verdict of a new one, in each branch, state and narrowing."""
    used = processor()
    for reply, settings in some(asked):
        assert told(used.validate(reply, "Coordinator", **settings)) == told(
            processor().validate(reply, "Coordinator", **settings)
        )


def test_a_check_that_is_registered_later_holds_at_once() -> None:
    """A check counts from the next reply on, though the agent was judged without it before."""
    made = processor()
    assert made.validate(FINAL, "Coordinator").is_valid
    made.register_action_validator(
        "final_response", lambda _action, _allowed: [AgentReplyCode.ACTION_CHECK_FAILED.at("")]
    )
    assert not made.validate(FINAL, "Coordinator").is_valid


def test_another_topology_holds_at_once() -> None:
    """An agent that was allowed to finish is refused as soon as the topology does not let it."""
    made = processor()
    assert made.validate(FINAL, "Coordinator").is_valid
    made.topology = Topology.of({"Coordinator": ["Worker1"], "Worker1": ["End"]})
    assert made.validate(FINAL, "Coordinator").code == AgentReplyCode.TOPOLOGY_MAY_NOT_FINISH


def test_the_schema_of_the_same_permissions_is_compiled_once() -> None:
    """Asking again with the same permissions uses the compiled schema, also when the turn of a
    conversation differs.
    """
    made = processor()
    schemas = [
        made.answer_kind("Coordinator", replace(CONVERSATION, turns=turn)).schema
        for turn in range(3)
    ]
    assert schemas[0] is schemas[1] is schemas[2]
    assert made.answer_kind("Coordinator", PARALLEL).schema is not schemas[0]


def test_the_schema_follows_what_is_declared() -> None:
    """With another topology the schema offers what that one permits, and keeps nothing older."""
    made = processor()
    before = made.answer_kind("Coordinator").schema
    made.topology = Topology.of({"Coordinator": ["Worker1"], "Worker1": ["End"]})
    after = made.answer_kind("Coordinator").schema
    assert before is not None
    assert after is not None
    assert "final_response" in str(before.source)
    assert "final_response" not in str(after.source)


def test_another_format_holds_at_once() -> None:
    """A client's exchange is held to the format that a processor has now, not to the one of an
    earlier reply.
    """
    made = processor()
    assert made.answer_kind("Coordinator").schema is not None
    made.response_format = XMLResponseFormat()
    answer = made.answer_kind("Coordinator")
    assert (answer.written, answer.schema) == (made.response_format, None)
