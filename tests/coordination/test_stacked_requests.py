"""Several questions at once (V16).

Whatever becomes of one of them, the run goes on where the others and it lead.
"""

from __future__ import annotations

import json
from copy import copy
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strictreply.coordination import (
    AgentState,
    HumanKind,
    clear_human_input_request,
    give_human_feedback,
    human_input,
    request_human_input,
    route_next,
)
from strictreply.coordination.state import pending_requests
from support.coordination.tutor import AGENTS, numbered, state_with, ticking
from support.loops import some

HOME: Final = "coordinator"
ENDS: Final = ("answer", "cancel", "expire", "retry", "skip")
"""What may become of a question: ``expire`` cancels the one behind the one in front, where there is
one.
"""


class Tale:
    """A run that asks and is answered, and beside it the target that the law gives."""

    def __init__(self, target: str | None) -> None:
        """Begin on the way to ``target``."""
        self.now, self.ids = ticking(), numbered("q")
        self.state: AgentState = state_with(next_agent=target)
        self.expected = target
        self.answered = False
        self.ended = 0
        self.asked: list[dict[str, Any]] = []

    def ask(self, kind: HumanKind, resume: str | None, skip: str | None) -> None:
        """Put one more question.

        A retry leads to the agent that was interrupted, unless the question says where.
        """
        # An answer before this one is followed by now.
        self.answered = self.answered and bool(self.asked)
        options: dict[str, Any] = {"kind": kind, "resume_to": resume, "skip_to": skip}
        self.state = request_human_input(self.state, "?", now=self.now, make_id=self.ids, **options)
        retry = resume or (self.expected if kind is HumanKind.ERROR else None)
        self.asked.append(
            {
                "id": f"q-{len(self.asked) + self.ended + 1}",
                "resume": retry,
                "skip": skip,
                "kind": kind,
            }
        )

    def end(self, how: str) -> None:
        """End one question and return where the run goes next."""
        behind = how == "expire" and len(self.asked) > 1
        one = self.asked.pop(1 if behind else 0)
        self.ended += 1

        if how in ("cancel", "expire"):
            self.state = clear_human_input_request(self.state, request_id=one["id"], now=self.now)
            return

        word = how if one["kind"] is HumanKind.ERROR and how in ("retry", "skip") else "go on"
        word = "retry" if one["kind"] is HumanKind.ERROR and word == "go on" else word
        self.state = human_input(
            give_human_feedback(human_input(self.state, now=self.now), word), now=self.now
        )
        before = self.expected if self.answered else None
        self.expected = (one["skip"] if word == "skip" else one["resume"]) or before or HOME

        self.answered = True

    def check(self, *, kept: bool = False) -> None:
        """Check the state against the law, ``kept`` after it was written and read."""
        self.state = json.loads(json.dumps(self.state)) if kept else self.state
        assert [request.id for request in pending_requests(self.state)] == [
            one["id"] for one in self.asked
        ]
        assert self.state["requires_human_input"] is bool(self.asked)
        assert route_next(self.state) == ("human_input" if self.asked else self.expected)


@pytest.mark.one_lane
@pytest.mark.req("R18", "R24", "R29")
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_v16_every_order_of_ends_returns_to_the_right_agent(number: int) -> None:
    """Of one to four stacked questions, answered, retried, skipped, cancelled and expired in every
    order.
    """
    questions = [
        (HumanKind.GENERAL, "learning_planner", None),
        (HumanKind.ERROR, None, "learning_planner"),
        (HumanKind.GENERAL, None, None),
        (HumanKind.ERROR, "coordinator", None),
    ]
    for start in some(range(number)):
        tale = Tale("course_advisor")
        for question in (questions[start:] + questions[:start])[:number]:
            tale.ask(*question)
        check_every_end(tale)


def check_every_end(tale: Tale) -> None:
    """Check a tale, and how it goes on after each end of its next question."""
    tale.check()
    if not tale.asked:
        assert tale.state["next_agent"] in AGENTS
    for how in ENDS if tale.asked else ():
        branch = copy(tale)
        branch.asked = [*tale.asked]
        branch.end(how)
        check_every_end(branch)


class StackedQuestions(RuleBasedStateMachine):
    """Questions come and end in any order.

    Some come while others are pending, some after all of them.
    """

    def __init__(self) -> None:
        """Begin on the way to an agent."""
        super().__init__()
        self.tale = Tale("course_advisor")

    @precondition(lambda self: len(self.tale.asked) < 4)
    @rule(
        kind=st.sampled_from([HumanKind.GENERAL, HumanKind.ERROR]),
        resume=st.none() | st.sampled_from(AGENTS),
        skip=st.none() | st.sampled_from(AGENTS),
    )
    def ask(self, kind: HumanKind, resume: str | None, skip: str | None) -> None:
        """Ask while at most three others are pending."""
        self.tale.ask(kind, resume, skip)

    @precondition(lambda self: self.tale.asked)
    @rule(how=st.sampled_from(ENDS))
    def end(self, how: str) -> None:
        """End one of those that are pending."""
        self.tale.end(how)

    @invariant()
    def leads_to_the_right_agent(self) -> None:
        """Whatever happened, the law holds."""
        self.tale.check(kept=True)


StackedQuestions.TestCase.settings = settings(
    max_examples=60, stateful_step_count=16, deadline=None
)
test_v16_stacked_questions = pytest.mark.req("R18", "R24", "R29")(StackedQuestions.TestCase)


def test_v16_cancelling_all_restores_the_interrupted_target() -> None:
    """Two questions, both cancelled: the run goes on at the agent that was next before them, not at
    the end.
    """
    state = request_human_input(
        request_human_input(state_with(next_agent="course_advisor"), "1"), "2"
    )
    for _ in range(2):
        state = clear_human_input_request(state)
    assert route_next(state) == "course_advisor"


@pytest.mark.parametrize("flag", [True, False])
def test_v16_a_run_that_was_sent_to_the_human_by_hand_goes_home_when_that_is_cancelled(
    flag: bool,
) -> None:
    """Nobody knows what was interrupted: it goes where the graph begins, and neither ends nor asks
    again.
    """
    state = state_with(next_agent="human_input", requires_human_input=flag)
    assert route_next(clear_human_input_request(state)) == HOME
    assert clear_human_input_request(state, home="triage")["next_agent"] == "triage"
    stacked = (
        request_human_input(state, "?")
        if flag
        else request_human_input(request_human_input(state, "1"), "2")
    )

    for _ in range(2):
        stacked = clear_human_input_request(stacked)

    assert route_next(stacked) == HOME


def test_v16_expiring_a_question_behind_keeps_the_answer_to_the_one_in_front() -> None:
    """Feedback that was given and not read yet is the front one's, and a question that is over
    cannot expire.
    """
    now = ticking()
    ids = numbered("q")
    state = state_with(next_agent="course_advisor")

    for _ in range(2):
        state = request_human_input(state, "?", resume_to="learning_planner", now=now, make_id=ids)

    given = clear_human_input_request(give_human_feedback(state, "yes"), request_id="q-2", now=now)
    assert given["human_feedback"] == "yes"
    after = human_input(given, now=now)
    assert route_next(after) == "learning_planner"

    for settled in ("q-1", "q-2", "unknown"):
        assert clear_human_input_request(after, request_id=settled, now=now) == after


def test_a_ledger_of_an_earlier_version_is_read() -> None:
    """An entry without ``redirected`` was never redirected."""
    state = request_human_input(state_with(next_agent="course_advisor"), "?")
    del state["human_requests"][0]["redirected"]
    (request,) = pending_requests(state)
    assert request.redirected == 0
    assert route_next(clear_human_input_request(state)) == "course_advisor"
