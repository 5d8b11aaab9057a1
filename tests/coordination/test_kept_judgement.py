"""What an agent was judged by is kept from one reply to the next, and changes no verdict."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coordination.team import CONVERSATION, PARALLEL, processor
from strictreply import Issue
from strictreply.coordination._actions.branches import Branch
from strictreply.coordination._replies.results import ValidationResult
from strictreply.coordination._topology.graph import Topology
from strictreply.values._issues import Code

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
    """Give what a verdict says."""
    return result.action_type, result.issues, result.permitted, result.source, result.parsed_response


@given(st.lists(st.tuples(st.sampled_from(REPLIES), st.fixed_dictionaries(SETTINGS)), max_size=6))
def test_a_verdict_does_not_depend_on_those_before(asked: list[tuple[Any, dict[str, Any]]]) -> None:
    """Whatever one processor was asked before, it says what a new one does, in each branch, state and narrowing."""
    used = processor()
    for reply, settings in asked:
        assert told(used.validate(reply, "Coordinator", **settings)) == told(
            processor().validate(reply, "Coordinator", **settings)
        )


def test_a_check_that_is_registered_later_holds_at_once() -> None:
    """A check counts from the next reply on, though the agent was judged without it before."""
    made = processor()
    assert made.validate(FINAL, "Coordinator").is_valid
    made.register_action_validator("final_response", lambda _action, _allowed: [Issue.of(Code.ACTION_CHECK_FAILED)])
    assert not made.validate(FINAL, "Coordinator").is_valid


def test_another_topology_holds_at_once() -> None:
    """An agent that was allowed to finish is refused as soon as the topology does not let it."""
    made = processor()
    assert made.validate(FINAL, "Coordinator").is_valid
    made.topology = Topology.of({"Coordinator": ["Worker1"], "Worker1": ["End"]})
    assert made.validate(FINAL, "Coordinator").code == Code.TOPOLOGY_MAY_NOT_FINISH
