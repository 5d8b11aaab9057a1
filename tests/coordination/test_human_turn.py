"""The human's turn: asked once, waited for, answered, resumed.

No request is lost on the way.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import ContractError
from strictreply.coordination import (
    AgentState,
    HumanDecision,
    HumanKind,
    PendingHuman,
    RouteReason,
    StateError,
    clear_human_input_request,
    create_initial_state,
    explain_route,
    give_human_feedback,
    human_input,
    request_human_input,
    route_next,
    start_run,
)
from strictreply.coordination.state import (
    SettledHuman,
    apply_update,
    pending_requests,
    put_question,
)
from support.coordination.tutor import (
    AGENTS,
    asked,
    changed,
    last_answer,
    noon,
    numbered,
    state_with,
    ticking,
    without,
)
from support.loops import some


def answered(state: AgentState, answer: str, **options: Any) -> AgentState:
    """Pass an answer to the state and take the human's turn."""
    return human_input(give_human_feedback(state, answer), now=noon, **options)


@pytest.mark.req("R17")
def test_asking_sets_flag_and_target() -> None:
    """A request sets the flag and the target, and the route is the human's."""
    state = request_human_input(
        state_with(next_agent="learning_planner"), "Agreed?", now=noon, make_id=numbered()
    )
    assert (state["requires_human_input"], state["next_agent"], route_next(state)) == (
        True,
        "human_input",
        "human_input",
    )

    (request,) = pending_requests(state)
    assert (request.id, request.prompt, request.interrupted) == (
        "id-1",
        "Agreed?",
        "learning_planner",
    )

    assert request.requested_at == noon().isoformat()


@pytest.mark.req("R18")
@pytest.mark.parametrize("target", [*AGENTS, "end", None])
def test_clearing_restores_what_was_interrupted(target: str | None) -> None:
    """Cancelling clears flag and feedback, and the target that was interrupted stands again."""
    state = request_human_input(state_with(next_agent=target), now=noon)
    cleared = clear_human_input_request(give_human_feedback(state, "late"), now=noon)
    assert (cleared["requires_human_input"], cleared["human_feedback"]) == (False, None)
    assert cleared["next_agent"] == target
    assert pending_requests(cleared) == ()
    assert last_answer(cleared) is None
    assert explain_route(cleared).target == (target or "end")


@pytest.mark.req("R18")
def test_clearing_a_flag_of_ones_own() -> None:
    """A flag that was set by hand is cleared too, and a state that asks nothing stays as it is."""
    state = state_with(requires_human_input=True, next_agent="course_advisor", human_feedback="x")
    cleared = clear_human_input_request(state)
    assert cleared["next_agent"] == "course_advisor"
    assert (cleared["requires_human_input"], cleared["human_feedback"]) == (False, None)
    calm = state_with(next_agent="coordinator")
    assert clear_human_input_request(calm) == calm


@pytest.mark.req("R23")
@pytest.mark.parametrize("feedback", [None, "", "  \n"])
def test_waiting_puts_the_prompt_once(feedback: str | None) -> None:
    """Without feedback the prompt is put once, and the flag stays."""
    state = changed(request_human_input(state_with(), "Agreed?", now=noon), human_feedback=feedback)
    once = human_input(state, now=noon)
    assert [(turn["role"], turn["content"]) for turn in once["messages"]] == [
        ("assistant", "Agreed?")
    ]
    assert (once["requires_human_input"], once["human_feedback"], route_next(once)) == (
        True,
        None,
        "human_input",
    )

    assert human_input(changed(once, human_feedback=feedback), now=ticking()) == once


@pytest.mark.req("R23")
@pytest.mark.parametrize("fields", [{"requires_human_input": True}, {"next_agent": "human_input"}])
def test_the_human_may_be_reached_without_a_request(fields: dict[str, Any]) -> None:
    """A flag set by hand, or a run sent to the human, is one request in the kind's words."""
    once = human_input(state_with(**fields), now=noon)
    assert [turn["content"] for turn in once["messages"]] == [HumanKind.GENERAL.prompt]
    assert human_input(once, now=noon) == once
    assert answered(once, "go on")["next_agent"] == "coordinator"


@pytest.mark.req("R24")
@pytest.mark.parametrize(
    ("resume", "target"), [(None, "coordinator"), ("learning_planner", "learning_planner")]
)
def test_an_answer_becomes_a_message(resume: str | None, target: str) -> None:
    """Feedback is the user's last message; flag and feedback are cleared, and the run goes on where
    it was to.
    """
    state = request_human_input(
        state_with(next_agent="course_advisor"), "Agreed?", resume_to=resume, now=noon
    )
    after = answered(human_input(state, now=noon), "use fewer weeks")
    assert (after["messages"][-1]["role"], after["messages"][-1]["content"]) == (
        "user",
        "use fewer weeks",
    )

    assert (after["requires_human_input"], after["human_feedback"]) == (False, None)
    assert (after["next_agent"], route_next(after), pending_requests(after)) == (target, target, ())


def test_a_graph_has_its_own_home() -> None:
    """Unless a request says otherwise, an answer leads to the graph's entry."""
    assert (
        answered(request_human_input(state_with()), "go on", home="triage")["next_agent"]
        == "triage"
    )


@pytest.mark.req("R25")
@pytest.mark.parametrize(
    ("kind", "answer", "decision"),
    [
        (HumanKind.PLAN_APPROVAL, "approve", HumanDecision.APPROVE),
        (HumanKind.PLAN_APPROVAL, "不同意", HumanDecision.REVISE),
        (HumanKind.PLAN_APPROVAL, "I can't say yes", HumanDecision.FEEDBACK),
        (HumanKind.COURSE_SELECTION, "more", HumanDecision.MORE),
        (HumanKind.GENERAL, "yes", HumanDecision.FEEDBACK),
    ],
)
def test_the_decision_is_kept(kind: HumanKind, answer: str, decision: HumanDecision) -> None:
    """The state holds the decision beside the answer, for the next node."""
    after = answered(request_human_input(state_with(), kind=kind, now=noon), answer)
    last = last_answer(after)
    assert last is not None
    assert (last.request.kind, last.decision, last.answer) == (kind, decision, answer)


def test_the_last_answer_is_the_newest() -> None:
    """Of several answers the newest counts."""
    now = ticking()
    state = request_human_input(request_human_input(state_with(), "1", now=now), "2", now=now)
    for answer in ("one", "two"):
        state = human_input(give_human_feedback(state, answer), now=now)
    last = last_answer(state)
    assert last is not None
    assert (last.request.prompt, last.answer) == ("2", "two")


@pytest.mark.req("R28")
def test_a_paused_run_resumes_from_json() -> None:
    """A run that waits is written, read elsewhere, answered and resumed, and decides as without the
    pause.
    """
    state = state_with(next_agent="learning_planner", loop_count=2)
    paused = human_input(
        request_human_input(
            state, "Agreed?", kind=HumanKind.PLAN_APPROVAL, resume_to="learning_planner", now=noon
        ),
        now=noon,
    )
    reloaded = json.loads(json.dumps(paused))
    assert reloaded == paused

    assert explain_route(reloaded) == explain_route(paused)
    there = answered(reloaded, "approve")
    here = answered(paused, "approve")
    assert there == here

    assert explain_route(there).target == "learning_planner"
    last = last_answer(there)
    assert last is not None
    assert last.decision is HumanDecision.APPROVE


def failed() -> AgentState:
    """Make a run whose advisor failed and asks what to do."""
    state = state_with(next_agent="course_advisor", loop_count=1)
    return human_input(
        request_human_input(state, kind=HumanKind.ERROR, skip_to="learning_planner", now=noon),
        now=noon,
    )


@pytest.mark.req("R29")
@pytest.mark.parametrize(
    ("answer", "target", "reason"),
    [
        ("retry", "course_advisor", RouteReason.NEXT_AGENT),
        ("skip", "learning_planner", RouteReason.NEXT_AGENT),
        ("abort", "end", RouteReason.ABORTED),
    ],
)
def test_an_error_is_answered_in_three_ways(answer: str, target: str, reason: RouteReason) -> None:
    """Retry leads to the same agent, skip to the next step, abort to the end for that reason."""
    decision = explain_route(answered(failed(), answer))
    assert (decision.target, decision.reason, decision.pending_human_input) == (
        target,
        reason,
        False,
    )


@pytest.mark.req("R29")
@pytest.mark.parametrize("answer", ["retry", "skip", "abort"])
def test_a_question_of_an_earlier_run_decides_nothing_of_the_new_one(answer: str) -> None:
    """Whatever is said to it, and when it is cancelled, the new run goes on at its entry; it is
    asked before that.
    """
    run = start_run(failed(), "Another thing.", entry="learning_planner", now=noon)
    assert explain_route(run).target == "human_input"
    for after in (answered(run, answer), clear_human_input_request(run, now=noon)):
        decision = explain_route(after)
        assert (decision.target, decision.reason) == ("learning_planner", RouteReason.NEXT_AGENT)
        assert (after["is_complete"], pending_requests(after)) == (False, ())


@pytest.mark.parametrize("entry", ["coordinator", "course_advisor"])
def test_a_flag_set_by_hand_is_carried_too(entry: str) -> None:
    """A flag without a request is asked in the new run, and the answer leads to its entry."""
    run = start_run(state_with(requires_human_input=True), "Another thing.", entry=entry, now=noon)
    assert len(pending_requests(run)) == 1
    assert answered(run, "go on")["next_agent"] == entry


@pytest.mark.parametrize("answer", [None, 5, {"decision": "approve"}])
def test_feedback_is_text(answer: Any) -> None:
    """Feedback that is not text does not get into a state."""
    with pytest.raises(ContractError):
        give_human_feedback(failed(), answer)


def test_a_refused_answer_changes_nothing() -> None:
    """Another kind's decision raises by its name; the state that waits takes the next answer."""
    state = request_human_input(
        state_with(next_agent="coordinator"), kind=HumanKind.PLAN_APPROVAL, now=noon
    )
    with pytest.raises(ContractError):
        answered(state, "abort")
    assert len(pending_requests(state)) == 1
    assert pending_requests(answered(state, "approve")) == ()


@pytest.mark.req("R29")
@pytest.mark.parametrize("answer", ["maybe", "retry please", "don't abort", "yes", "approve"])
def test_any_other_answer_to_an_error_is_asked_again(answer: str) -> None:
    """An answer that decides nothing leaves the request pending; the prompt is shown again."""
    again = answered(failed(), answer)
    assert [turn["role"] for turn in again["messages"]] == ["assistant", "user", "assistant"]
    assert (again["requires_human_input"], again["human_feedback"]) == (True, None)
    assert route_next(again) == "human_input"
    assert explain_route(answered(again, "skip")).target == "learning_planner"


def test_a_skip_without_a_next_step_goes_home() -> None:
    """Without a next step, skipping leads to the graph's entry."""
    state = request_human_input(
        state_with(next_agent="course_advisor"), kind=HumanKind.ERROR, now=noon
    )
    assert answered(state, "skip")["next_agent"] == "coordinator"
    elsewhere = request_human_input(
        state_with(), kind=HumanKind.ERROR, resume_to="learning_planner", now=noon
    )
    assert answered(elsewhere, "retry")["next_agent"] == "learning_planner"


def test_words_of_the_callers_are_read() -> None:
    """The answers that a caller adds hold on the human's turn."""
    assert (
        answered(failed(), "nochmal", words={"nochmal": HumanDecision.RETRY})["next_agent"]
        == "course_advisor"
    )


def test_requests_wait_in_line() -> None:
    """A second request waits behind the first; each answer settles the one in front, and each
    prompt is put.
    """
    now = ticking()
    state = request_human_input(state_with(next_agent="course_advisor"), "First?", now=now)
    state = human_input(
        request_human_input(state, "Second?", resume_to="learning_planner", now=now), now=now
    )
    state = human_input(give_human_feedback(state, "one"), now=now)
    assert [request.prompt for request in pending_requests(state)] == ["Second?"]

    assert (state["requires_human_input"], route_next(state)) == (True, "human_input")
    state = human_input(state, now=now)
    state = human_input(give_human_feedback(state, "two"), now=now)
    assert [turn["content"] for turn in state["messages"]] == ["First?", "one", "Second?", "two"]

    assert (state["requires_human_input"], route_next(state)) == (False, "learning_planner")


def test_clearing_cancels_the_one_in_front() -> None:
    """Cancelling one request leaves those behind it."""
    now = ticking()
    state = request_human_input(
        request_human_input(state_with(), "First?", now=now), "Second?", now=now
    )
    state = clear_human_input_request(state, now=now)
    assert [request.prompt for request in pending_requests(state)] == ["Second?"]
    assert route_next(state) == "human_input"


@pytest.mark.parametrize(
    "field", ["requires_human_input", "next_agent", "messages", "human_feedback"]
)
def test_the_human_needs_a_state(field: str) -> None:
    """Fields that the human's turn stands in must be there."""
    with pytest.raises(StateError) as caught:
        human_input(without(state_with(), field))
    assert [issue.path for issue in caught.value.issues] == [f"/{field}"]


@pytest.mark.req("R22")
def test_the_old_state_stays() -> None:
    """Neither asking nor answering nor clearing changes the state it is given."""
    state = request_human_input(state_with(next_agent="coordinator"), "Agreed?", now=noon)
    before = copy.deepcopy(state)
    for change in (human_input, clear_human_input_request, request_human_input):
        assert change(state) is not state
        assert state == before
    assert answered(state, "yes") != before
    assert state == before


UPDATES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "requires_human_input": st.booleans(),
        "next_agent": st.sampled_from([*AGENTS, "human_input", "end", None, "nobody"]),
        "human_feedback": st.none() | st.sampled_from(["", " "]),
        "is_complete": st.booleans(),
        "human_requests": st.just([]),
        "messages": st.just([]),
        "loop_count": st.integers(0, 20),
    },
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["update", "stale", "ask", "wait"]), UPDATES), max_size=8
)


@pytest.mark.req("R27")
@pytest.mark.parametrize("end", ["answered", "cleared"])
@pytest.mark.parametrize(
    "update", [None, {}, {"next_agent": "course_advisor"}, {"requires_human_input": False}]
)
def test_a_request_is_pending_until_it_is_answered_or_cleared(
    update: dict[str, Any] | None, end: str
) -> None:
    """One node asks; the next returns without touching it, or tries to; only the human or a
    cancellation ends it.
    """
    state = apply_update(
        state_with(), dict(request_human_input(state_with(next_agent="coordinator"), now=noon))
    )
    for _ in range(2):
        state = apply_update(state, update)
        assert (explain_route(state).target, len(pending_requests(state))) == ("human_input", 1)

    state = (
        answered(state, "fine") if end == "answered" else clear_human_input_request(state, now=noon)
    )
    assert (
        explain_route(apply_update(state, update)).pending_human_input,
        pending_requests(state),
    ) == (False, ())


@pytest.mark.req("R33")
@given(
    chosen=st.lists(
        st.tuples(st.sampled_from([*AGENTS, "human_input", "end"]), st.booleans()),
        min_size=1,
        max_size=12,
    ),
    said=st.lists(
        st.sampled_from(
            ["approve", "ok", "revise", "not ok", "I do not approve", "", "fewer weeks"]
        )
    ),
)
def test_nothing_critical_happens_without_approval(
    chosen: list[tuple[str, bool]], said: list[str]
) -> None:
    """Property 11: from the request of an approval on no agent runs until a human decided, whatever
    agents return.

    And the decision is to approve exactly when the human said so.
    """
    answers = iter(said)
    now = ticking()

    def agent(state: AgentState, target: str, asks: bool) -> dict[str, Any]:
        """Ask for an approval, or try to go on without one."""
        if asks:
            return dict(
                request_human_input(state, kind=HumanKind.PLAN_APPROVAL, resume_to=target, now=now)
            )
        return {"next_agent": target, "requires_human_input": False, "human_requests": []}

    state = state_with(next_agent="coordinator")
    open_requests = 0

    for target, asks in some(chosen):
        going_to = route_next(state, 99)
        assert (going_to == "human_input") or not open_requests

        if going_to == "end":
            break

        if going_to != "human_input":
            state, open_requests = apply_update(state, agent(state, target, asks)), int(asks)
            continue

        answer = next(answers, "")
        state = human_input(give_human_feedback(state, answer), now=now)
        last = last_answer(state)

        if open_requests and answer.strip():
            assert last is not None
            assert (last.decision is HumanDecision.APPROVE) == (answer in {"approve", "ok"})

        open_requests = len(pending_requests(state))


@pytest.mark.req("R27")
@given(steps=STEPS)
def test_a_request_survives_whatever_nodes_return(steps: list[tuple[str, dict[str, Any]]]) -> None:
    """Property 11: whatever updates come, stale copies among them, each request is pending until it
    is answered.
    """
    now = ticking()
    ids = numbered()
    first = create_initial_state(conversation_id="c", now=now)
    state = request_human_input(first, "0", now=now, make_id=ids)

    made = 1
    for kind, update in steps:
        if kind == "ask":
            state = request_human_input(state, str(made), now=now, make_id=ids)
            made = made + 1
        elif kind == "wait":
            state = human_input(changed(state, human_feedback=None), now=now)
        else:
            state = apply_update(state, {**first, **update} if kind == "stale" else update)

        mine = [request.id for request in pending_requests(state) if request.id.startswith("id-")]
        assert mine == [f"id-{number + 1}" for number in range(made)]
        assert state["requires_human_input"]
        decision = explain_route(changed(state, loop_count=0, is_complete=False))
        assert (decision.target, decision.pending_human_input) == ("human_input", True)

        assert explain_route(changed(state, loop_count=11)).pending_human_input

    for _ in range(len(pending_requests(state))):
        state = human_input(give_human_feedback(state, "fine"), now=now)

    assert pending_requests(state) == ()
    assert not state["requires_human_input"]


@pytest.mark.req("R27")
@given(update=UPDATES)
def test_a_flag_set_by_hand_survives(update: dict[str, Any]) -> None:
    """A request made by setting only the flag is pending after the next node, whatever that
    returns.
    """
    state = apply_update(state_with(next_agent="learning_planner"), {"requires_human_input": True})
    after = apply_update(state, update)
    assert after["requires_human_input"]
    assert len(pending_requests(after)) == 1
    settled = apply_update(after, human_input(give_human_feedback(after, "fine"), now=noon))
    assert not settled["requires_human_input"]


def test_settled_stays_settled() -> None:
    """A stale copy cannot bring back what was answered."""
    state = request_human_input(state_with(next_agent="coordinator"), "Agreed?", now=noon)
    after = apply_update(state, answered(state, "yes"))
    stale = apply_update(after, {"human_requests": state["human_requests"]})
    assert pending_requests(stale) == ()
    assert not stale["requires_human_input"]


def test_a_request_by_hand_is_read() -> None:
    """A ledger that another program wrote is read like ours, and routes without a flag."""
    state = state_with(human_requests=[asked(prompt="Agreed?").to_dict()], next_agent="coordinator")
    assert route_next(state) == "human_input"
    done = SettledHuman(asked(), HumanDecision.FEEDBACK, "fine", "x")
    assert (
        route_next(state_with(human_requests=[done.to_dict()], next_agent="coordinator"))
        == "coordinator"
    )


def test_a_ready_question_is_put_like_any_other() -> None:
    """It is asked first, unchanged; other requests stay pending, and put twice it is asked once."""
    ready = PendingHuman(
        "ready", HumanKind.ERROR, "And now?", resume_to="course_advisor", requested_at="9999"
    )
    state = request_human_input(state_with(next_agent="coordinator"), "First?", now=noon)
    once = put_question(state, ready)
    assert (once["requires_human_input"], once["next_agent"]) == (True, "human_input")
    assert [request.prompt for request in pending_requests(once)] == ["First?", "And now?"]
    assert put_question(once, ready) == once


def test_a_flag_is_a_question_of_its_own_in_any_ledger() -> None:
    """A flag set by hand is asked even where a settled request has the id it would have had."""
    settled = SettledHuman(asked(id="flag-1"), HumanDecision.FEEDBACK, "before", noon().isoformat())
    state = human_input(
        state_with(requires_human_input=True, human_requests=[settled.to_dict()]), now=noon
    )
    assert [turn["content"] for turn in state["messages"]] == [HumanKind.GENERAL.prompt]
    assert [request.asked for request in pending_requests(state)] == [1]
