"""What lies in a state.

Anything a model may write fits into a checkpoint, and what does not fit a state is named.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from strictreply.coordination import StateError, Topology, explain_route, request_human_input
from strictreply.integrations.langgraph import node_of
from strictreply.testing import ok
from support.integrations.langgraph_runs import (
    CONFIG,
    LAB,
    ONE_RETRY,
    TEAM,
    Cast,
    Command,
    InMemorySaver,
    act,
    add,
    agents,
    begin,
    final,
    graph,
    hand,
    outcome_of,
    outcomes_of,
    run,
    spread,
    to_langgraph,
)

HUGE = 10**29
contents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
requests = st.lists(contents, max_size=3) | st.dictionaries(
    st.text(max_size=8), contents, max_size=4
)
answers = st.dictionaries(st.text(max_size=8), contents, max_size=4) | st.text(min_size=1).filter(
    str.strip
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(wanted=contents, told=requests, answer=answers)
@example(wanted={"n": HUGE}, told={"n": -HUGE}, answer={"n": HUGE})
@example(wanted={"n": 2**64}, told=[2**64], answer={"a": {"b": [2**63, -(2**63) - 1]}})
def test_whatever_a_model_writes_fits_into_a_checkpoint(
    wanted: Any, told: Any, answer: Any
) -> None:
    """Requests, hand-overs and contents of any JSON are kept by LangGraph's own encoding, and read
    back equal.
    """
    cast = Cast(
        lead=[spread("ann", "bob", ann={"n": wanted}, bob="b"), final(answer)],
        ann=[hand("lead", told)],
        bob=[final()],
    )
    state = run(cast, LAB, saver=InMemorySaver())
    assert outcome_of(state)["content"] == answer
    assert [one["content"] for one in outcomes_of(state).values()] == [told, "done"]

    assert json.loads(cast.told("ann").removeprefix("From lead: ")) == {"n": wanted}
    encoding = JsonPlusSerializer()
    assert encoding.loads_typed(encoding.dumps_typed(dict(state))) == state


TURN: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": []}
SPEC = {"id": "z", "agent": "ann", "instance_id": "i", "request": "null"}


@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ({"calling": {"agent": "nobody", "turn": TURN}, "next_agent": "tools"}, ["/calling/agent"]),
        ({"calling": {"agent": "lead"}, "next_agent": "tools"}, ["/calling/turn"]),
        ({"calling": None, "next_agent": "tools"}, ["/calling"]),
        ({"next_agent": "branch"}, ["/spawned"]),
        ({"next_agent": "join"}, ["/spawned"]),
        ({"spawned": {"agent": "lead", "branches": [SPEC]}, "next_agent": "join"}, ["/outcomes/z"]),
        (
            {"spawned": {"agent": "x", "branches": [{}]}},
            ["/spawned/agent", *(f"/spawned/branches/0/{k}" for k in SPEC)],
        ),
        (
            {
                "branch": {
                    "id": "main",
                    "type": "odd",
                    "agents": [],
                    "turns": -1,
                    "home": "simple",
                    "asked": "",
                }
            },
            ["/branch/type", "/branch/turns", "/branch/spawner"],
        ),
        ({"threads": {"lead": [{"content": "x"}]}}, ["/threads/lead/0/role"]),
        ({"threads": {"lead": "x"}}, ["/threads/lead"]),
        ({"outcome": {"agent": "lead", "status": "odd", "reason": "", "content": 5}}, None),
        (
            {"content_streaks": {"lead": {"count": "1", "snippet": ""}}},
            ["/content_streaks/lead/count"],
        ),
    ],
)
def test_a_state_that_is_not_sound_is_refused_with_its_places(
    changes: Any, paths: list[str] | None
) -> None:
    """Before any node runs, whatever was changed behind our back; no agent is asked."""
    cast = Cast(lead=[final()])
    state: Any = begin(LAB, "Go.") | changes

    with pytest.raises(StateError) as raised:
        graph(cast, LAB).invoke(state)

    found = [issue.path for issue in raised.value.issues]
    assert found == (
        ["/outcome/status", "/outcome/content", "/outcome/error"] if paths is None else paths
    )
    assert cast.asked() == {"lead": 0}


@pytest.mark.req("M107", "M118")
def test_branches_that_were_written_into_a_state_are_held_to_the_topology() -> None:
    """A hand-over in parallel over an edge that is not there is not executed, whoever put it into
    the state.
    """
    cast = Cast(lead=[final()], ann=[], bob=[])
    forged = {"agent": "ann", "branches": [SPEC | {"agent": "bob"}, SPEC | {"agent": "lead"}]}
    state: Any = begin(LAB, "Go.") | {"spawned": forged, "next_agent": "branch"}

    with pytest.raises(StateError) as raised:
        graph(cast, LAB).invoke(state)

    assert [(issue.code, issue.path) for issue in raised.value.issues] == [
        ("topology.not_allowed", "/spawned/branches/0/agent")
    ]
    assert sum(cast.asked().values()) == 0


def test_an_unreadable_content_is_named() -> None:
    """Content that a state stores as JSON text must be JSON text."""
    state = run(Cast(lead=[final()]))
    state["outcome"]["content"] = "{"
    with pytest.raises(StateError) as raised:
        outcome_of(state)
    assert [issue.path for issue in raised.value.issues] == ["/outcome/content"]


@pytest.mark.parametrize("spelt", ["writer", node_of("writer")])
def test_an_answer_may_lead_to_an_agent_by_its_name(spelt: str) -> None:
    """An application that asks by itself names the agent, or its node: the answer is told there,
    and it goes on.
    """
    cast = Cast(writer=[final()], lead=[])
    compiled = graph(cast, saver=InMemorySaver())
    compiled.invoke(request_human_input(begin(TEAM, "Go."), "Sure?", resume_to=spelt), CONFIG)
    state = compiled.invoke(Command(resume="by all means"), CONFIG)
    assert (outcome_of(state)["agent"], outcome_of(state)["status"]) == ("writer", "completed")
    assert "by all means" in cast.told("writer")


def test_a_question_that_nobody_waits_for_is_refused_before_it_is_asked() -> None:
    """Of an agent that left the topology, in the run that goes on as in one that is begun from its
    state.
    """
    asking = Cast(lead=[act("ask_user", question="Sure?")])
    left = Topology.of({"boss": ["User"]})
    state = graph(asking, saver=InMemorySaver()).invoke(begin(TEAM, "Go."), CONFIG)

    with pytest.raises(StateError) as raised:
        begin(left, "And now?", state=state)

    assert [issue.path for issue in raised.value.issues] == ["/human_requests/0/resume_to"]
    lost: Any = request_human_input(begin(TEAM, "Go."), "Sure?", resume_to="nobody")

    with pytest.raises(StateError) as raised:
        graph(Cast(lead=[])).invoke(lost)

    assert [issue.path for issue in raised.value.issues] == ["/human_requests/0/resume_to"]


@pytest.mark.parametrize("field", ["resume_to", "skip_to", "tell_to"])
@pytest.mark.parametrize("target", ["nobody", "tools", "branch"])
def test_v18_each_target_of_a_pending_question_is_somebody_s(field: str, target: str) -> None:
    """Where an answer leads, where a skip does, and who is told of it: nobody is asked when one of
    them is unknown.
    """
    state: Any = request_human_input(begin(TEAM, "Go."), "Sure?", resume_to="lead")
    state["human_requests"][0][field] = target
    cast = Cast(lead=[final()])
    with pytest.raises(StateError) as raised:
        graph(cast, saver=InMemorySaver()).invoke(state, CONFIG)
    assert [issue.path for issue in raised.value.issues] == [f"/human_requests/0/{field}"]
    assert cast.asked() == {"lead": 0}


@pytest.mark.parametrize(
    ("target", "reason"), [(["x"], "unknown_target"), (5, "unknown_target"), (None, "no_target")]
)
def test_a_next_agent_that_is_no_word_leads_to_the_end(target: Any, reason: str) -> None:
    """Whatever a store gave; and an agent that is next may be named by its name, or by its node."""
    state: Any = begin(TEAM, "Go.") | {"next_agent": target}
    assert explain_route(state).reason == reason
    assert graph(Cast(lead=[])).invoke(state)["outcome"] is None
    named: Any = begin(TEAM, "Go.") | {"next_agent": "lead"}
    assert outcome_of(graph(Cast(lead=[final()])).invoke(named))["status"] == "completed"


def test_a_change_that_makes_a_state_unsound_is_refused_when_it_is_made() -> None:
    """A call that waits in a checkpoint belongs to an agent of the topology; the run then goes on
    as it was.
    """
    cast = Cast(lead=[ok.call(add, a=1, b=2)])
    team = agents(cast, tools=[add])
    compiled = to_langgraph(TEAM, team, policy=ONE_RETRY).compile(
        checkpointer=InMemorySaver(), interrupt_before=["tools"]
    )
    compiled.invoke(begin(TEAM, "Go."), CONFIG)

    with pytest.raises(StateError) as raised:
        compiled.update_state(CONFIG, {"calling": {"agent": "gone", "turn": TURN}})

    assert [issue.path for issue in raised.value.issues] == ["/calling/agent"]
    cast.models["lead"].script(final())
    assert outcome_of(compiled.invoke(None, CONFIG))["status"] == "completed"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("spawned", {"agent": "lead"}),
        ("spawned", {"agent": "lead", "branches": [{}]}),
        ("loop_count", "x"),
        ("messages", None),
        ("messages", [5]),
        ("reply_formats", 5),
        ("outcomes", 5),
        ("outcomes", [1]),
    ],
)
def test_what_somebody_else_wrote_stops_a_join(field: str, value: Any) -> None:
    """A state that was changed by hand before branches come together is a StateError that names the
    field.
    """
    cast = Cast(
        lead=[spread("ann", "bob", ann="a", bob="b"), final()], ann=[final()], bob=[final()]
    )
    compiled = to_langgraph(LAB, agents(cast, LAB)).compile(
        checkpointer=InMemorySaver(), interrupt_before=["join"]
    )
    compiled.invoke(begin(LAB, "Go."), CONFIG)

    def change_and_go_on() -> None:
        """Write to the state, which may be refused at once, and go on."""
        compiled.update_state(CONFIG, {field: value})
        compiled.invoke(None, CONFIG)

    with pytest.raises(StateError) as refused:
        change_and_go_on()

    assert {issue.path.split("/")[1] for issue in refused.value.issues} == {field}
