"""The shared state: its beginning, its small changes, its faults.

It goes to JSON and comes back.
"""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from datetime import datetime
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.coordination import (
    AgentState,
    CoordinationCode,
    RouteReason,
    Routes,
    RunEnding,
    StateError,
    create_initial_state,
    explain_route,
    increment_loop_count,
    mark_complete,
    record_route,
    request_human_input,
    route_next,
    start_run,
    validate_state,
)
from strictreply.coordination.actions import MAX_LISTED
from strictreply.coordination.state import (
    StateSchema,
    merge_ledgers,
    pending_requests,
    state_issues,
)
from support.coordination.tutor import NOON, changed, noon, numbered, state_with, without

DOCUMENTED = {
    "messages",
    "conversation_id",
    "user_profile",
    "current_task",
    "next_agent",
    "course_candidates",
    "learning_plan",
    "requires_human_input",
    "human_feedback",
    "loop_count",
    "is_complete",
}


@pytest.mark.req("R14")
def test_a_conversation_begins_with_nothing_decided() -> None:
    """All documented fields are there: ids made, flags False, count 0, lists empty and nobody
    else's.
    """
    state = create_initial_state()
    other = create_initial_state()
    assert set(state) >= DOCUMENTED
    assert set(get_type_hints(AgentState)) >= DOCUMENTED

    assert state["conversation_id"] != other["conversation_id"]
    assert state["user_profile"]["user_id"] != other["user_profile"]["user_id"]
    assert (state["requires_human_input"], state["is_complete"], state["loop_count"]) == (
        False,
        False,
        0,
    )

    assert [
        state[name] for name in ("current_task", "next_agent", "learning_plan", "human_feedback")
    ] == [None] * 4
    for name in ("messages", "course_candidates", "human_requests", "routing_history"):
        assert state[name] == []
        assert state[name] is not other[name]

    assert validate_state(state) == (True, "")


def test_what_is_given_is_kept() -> None:
    """Ids and profile are the caller's when given, the profile a copy; a first message is the
    user's.
    """
    profile = {"user_id": "u", "goals": ["python"]}
    state = create_initial_state(
        "Hi", conversation_id="c", user_profile=profile, max_loop_count=0, now=noon
    )
    assert (state["conversation_id"], state["user_profile"], state["max_loop_count"]) == (
        "c",
        profile,
        0,
    )

    assert state["messages"] == [{"role": "user", "content": "Hi", "timestamp": NOON.isoformat()}]
    state["user_profile"]["goals"].append("go")
    assert profile["goals"] == ["python"]
    made = create_initial_state(user_profile={"level": 1}, make_id=numbered())
    assert (made["conversation_id"], made["user_profile"]) == (
        "id-1",
        {"level": 1, "user_id": "id-2"},
    )

    assert (
        datetime.fromisoformat(create_initial_state("Hi")["messages"][0]["timestamp"]).tzinfo
        is not None
    )


@pytest.mark.parametrize(
    "bad", [{"conversation_id": " "}, {"user_profile": {"user_id": ""}}, {"max_loop_count": -1}]
)
def test_a_conversation_does_not_begin_wrongly(bad: dict[str, Any]) -> None:
    """Arguments that make no valid state are refused at once."""
    with pytest.raises(StateError):
        create_initial_state(**bad)


@pytest.mark.req("R15")
def test_each_step_counts_one() -> None:
    """The count goes from 0 to 1, and on."""
    once = increment_loop_count(state_with())
    assert once["loop_count"] == 1
    assert increment_loop_count(once)["loop_count"] == 2


def test_counting_needs_a_count() -> None:
    """A state without a count, or with another thing in its place, cannot be counted on."""
    for state in (without(state_with(), "loop_count"), state_with(loop_count="1")):
        with pytest.raises(StateError):
            increment_loop_count(state)


@pytest.mark.req("R16")
def test_each_run_counts_from_zero() -> None:
    """The entry of a run sets the count to 0 and drops nothing the user has."""
    used = state_with(
        loop_count=9,
        is_complete=True,
        next_agent="end",
        ending="aborted",
        learning_plan={"weeks": 4},
    )
    run = start_run(request_human_input(used, "Sure?"), "And now?", now=noon)
    assert (run["loop_count"], run["is_complete"], run["next_agent"]) == (0, False, "coordinator")
    assert (run["learning_plan"], run["messages"][-1]["content"]) == ({"weeks": 4}, "And now?")

    assert [request.prompt for request in pending_requests(run)] == ["Sure?"]
    assert start_run(used, "Hi", entry="triage")["next_agent"] == "triage"
    assert explain_route(start_run(used, "Hi")).reason is RouteReason.NEXT_AGENT


@pytest.mark.req("R16")
def test_the_entry_of_each_run_gives_it_the_whole_bound() -> None:
    """Two runs of one conversation that never finish execute as many nodes each: limit + 1."""
    state = create_initial_state("Hi", max_loop_count=4)
    executed = list[int]()

    for message in ("one", "two"):
        state = start_run(state, message)
        assert state["loop_count"] == 0
        executed.append(0)

        while route_next(state, routes=Routes(cycle=None)) != "end":
            state = increment_loop_count(changed(state, next_agent="course_advisor"))
            executed[-1] += 1

    assert executed == [5, 5]


@pytest.mark.req("R19")
@pytest.mark.parametrize("human", [False, True])
def test_a_complete_state_ends(human: bool) -> None:
    """Completing sets the flag and the target; the route is the end even while a human is to be
    asked.
    """
    state = mark_complete(state_with(requires_human_input=human, next_agent="coordinator"))
    assert (state["is_complete"], state["next_agent"], route_next(state)) == (True, "end", "end")
    assert explain_route(state).reason is RouteReason.COMPLETED
    assert explain_route(mark_complete(state, RunEnding.ABORTED)).reason is RouteReason.ABORTED


MESSAGE = {"role": "user", "content": "Hi", "timestamp": "2026-01-12T12:00:00+00:00"}


@pytest.mark.req("R20")
@pytest.mark.parametrize(
    ("field", "value", "code", "path"),
    [
        ("conversation_id", " ", CoordinationCode.STATE_BLANK, "/conversation_id"),
        ("conversation_id", None, CoordinationCode.STATE_WRONG_TYPE, "/conversation_id"),
        ("user_profile", {}, CoordinationCode.STATE_MISSING_FIELD, "/user_profile/user_id"),
        ("user_profile", {"user_id": ""}, CoordinationCode.STATE_BLANK, "/user_profile/user_id"),
        ("user_profile", None, CoordinationCode.STATE_NOT_OBJECT, "/user_profile"),
        ("messages", None, CoordinationCode.STATE_WRONG_TYPE, "/messages"),
        ("messages", ["Hi"], CoordinationCode.STATE_NOT_OBJECT, "/messages/0"),
        *(
            (
                "messages",
                [{key: MESSAGE[key] for key in MESSAGE if key != gone}],
                CoordinationCode.STATE_MISSING_FIELD,
                f"/messages/0/{gone}",
            )
            for gone in MESSAGE
        ),
        (
            "messages",
            [MESSAGE, {**MESSAGE, "content": None}],
            CoordinationCode.STATE_WRONG_TYPE,
            "/messages/1/content",
        ),
        ("messages", [{**MESSAGE, "role": ""}], CoordinationCode.STATE_BLANK, "/messages/0/role"),
        (
            "requires_human_input",
            "false",
            CoordinationCode.STATE_WRONG_TYPE,
            "/requires_human_input",
        ),
        ("is_complete", 1, CoordinationCode.STATE_WRONG_TYPE, "/is_complete"),
        ("loop_count", -1, CoordinationCode.STATE_NEGATIVE, "/loop_count"),
        ("loop_count", True, CoordinationCode.STATE_WRONG_TYPE, "/loop_count"),
        ("next_agent", "nobody", CoordinationCode.STATE_UNKNOWN_NODE, "/next_agent"),
        ("next_agent", 5, CoordinationCode.STATE_UNKNOWN_NODE, "/next_agent"),
        ("current_task", 5, CoordinationCode.STATE_WRONG_TYPE, "/current_task"),
        ("course_candidates", [5], CoordinationCode.STATE_WRONG_TYPE, "/course_candidates/0"),
        ("learning_plan", [], CoordinationCode.STATE_WRONG_TYPE, "/learning_plan"),
        ("human_feedback", 5, CoordinationCode.STATE_WRONG_TYPE, "/human_feedback"),
        ("human_requests", [{}], CoordinationCode.STATE_MISSING_FIELD, "/human_requests/0/id"),
        ("routing_history", [5], CoordinationCode.STATE_NOT_OBJECT, "/routing_history/0"),
    ],
)
def test_each_violation_is_named(
    field: str, value: object, code: CoordinationCode, path: str
) -> None:
    """Validation names the field of each violation, and says which it is."""
    state = state_with(**{field: value})
    found = [(issue.code, issue.path) for issue in state_issues(state)]
    assert found[0] == (code, path)
    ok, told = validate_state(state)
    assert not ok
    assert path.strip("/").replace("/", ".") in told


@pytest.mark.req("R20")
@pytest.mark.parametrize("field", sorted(DOCUMENTED))
def test_each_missing_field_is_named(field: str) -> None:
    """No documented field may be left out."""
    issues = state_issues(without(state_with(), field))
    assert [(issue.code, issue.path) for issue in issues] == [
        (CoordinationCode.STATE_MISSING_FIELD, f"/{field}")
    ]
    assert validate_state(without(state_with(), field))[0] is False


def test_validation_takes_anything() -> None:
    """A value that is not a state is reported, not raised; nodes may be others than the five."""
    values: tuple[object, ...] = (None, 5, [], "state")
    for value in values:
        assert [issue.code for issue in state_issues(value)] == [CoordinationCode.STATE_NOT_OBJECT]
    assert validate_state(state_with(next_agent="triage"), ("triage", "end"))[0]
    assert not validate_state(state_with(next_agent="coordinator"), ("triage", "end"))[0]


@pytest.mark.req("R22")
@pytest.mark.parametrize(
    "change",
    [
        increment_loop_count,
        mark_complete,
        lambda state: start_run(state, "Hi"),
        request_human_input,
        lambda state: record_route(state, explain_route(state)),
    ],
)
def test_changes_make_new_states(change: Callable[[AgentState], object]) -> None:
    """A helper gives a new state; the one it was given is as before, and so is everything in it."""
    state = state_with(loop_count=3, next_agent="coordinator", messages=[dict(MESSAGE)])
    before = copy.deepcopy(state)
    assert change(state) is not state
    assert state == before


JSON_OBJECTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    plan=st.none() | st.dictionaries(st.text(), JSON_OBJECTS, max_size=4),
    count=st.integers(0, 10**6),
)
def test_a_state_reads_back_equal(plan: Any, count: int) -> None:
    """JSON and back gives the same state, requests and history included, which routes the same."""
    state = request_human_input(
        state_with(
            learning_plan=plan, loop_count=count, next_agent="coordinator", messages=[MESSAGE]
        ),
        "Sure?",
        now=noon,
    )
    state = record_route(state, explain_route(state), now=noon)
    read = json.loads(json.dumps(state))
    assert read == state

    assert validate_state(read) == (True, "")
    assert explain_route(read) == explain_route(state)


def test_a_state_error_travels() -> None:
    """The error pickles, tells itself as JSON, and holds no value of the state in its text."""
    with pytest.raises(StateError) as caught:
        route_next(state_with(loop_count="secret"))
    twin = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert (twin.issues, str(twin)) == (caught.value.issues, str(caught.value))
    assert json.loads(json.dumps(twin.to_dict()))["issues"][0]["path"] == "/loop_count"
    assert "secret" not in str(twin)


def test_a_flood_of_faults_is_short() -> None:
    """The error has 32 faults at most, as of a reply; its text lists the first dozen."""
    error = StateError(state_issues(state_with(messages=[{}] * 1_000)))
    assert len(error.issues) == 32
    assert len(str(error).splitlines()) == MAX_LISTED + 2


def test_the_ledger_has_its_reducer() -> None:
    """LangGraph finds in the annotation how two ledgers merge."""
    hints = get_type_hints(AgentState, include_extras=True)
    assert hints["human_requests"].__args__[0].__metadata__ == (merge_ledgers,)


def test_a_part_of_a_state_has_a_schema() -> None:
    """A record may have members that it does not name; each fault has the code of a state and its
    place below the one that is given.
    """
    count: dict[str, Any] = {"type": "integer", "minimum": 0}
    name: dict[str, Any] = {"type": "string", "minLength": 1}
    members = {"turns": count, "agent": name, "note": StateSchema.or_null({"type": "string"})}
    schema = StateSchema(StateSchema.record(members, optional=["note"]))
    assert schema.issues({"turns": 0, "agent": "writer", "note": None, "more": object()}) == ()

    faults = schema.issues({"turns": -1, "agent": " ", "note": 5}, "/branch")
    assert {(issue.code, issue.path) for issue in faults} == {
        ("state.negative", "/branch/turns"),
        ("state.blank", "/branch/agent"),
        ("state.wrong_type", "/branch/note"),
    }
    assert [issue.code for issue in schema.issues([])] == ["state.not_object"]
    assert {issue.code for issue in schema.issues({"turns": 1.0})} == {
        "state.wrong_type",
        "state.missing_field",
    }


def test_an_error_is_raised_for_faults_alone() -> None:
    """No faults raise nothing; all that there are stand in the error."""
    StateError.raise_for(iter(()))
    issue = CoordinationCode.STATE_BLANK.at("/agent")
    with pytest.raises(StateError) as raised:
        StateError.raise_for(iter([issue, issue]))
    assert raised.value.issues == (issue, issue)
