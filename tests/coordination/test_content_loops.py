"""An agent that only talks is steered, then stopped before another model call is paid for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.coordination import ContentLoopGuard, ContentStreak, LikelyCause
from strictreply.coordination.steering import MAX_SNIPPET_CHARS, CallModel, ContentLoop
from strictreply.coordination.topology import permitted_actions
from support.coordination.routed import TEAM
from support.loops import some
from support.scripted import Client, completion

pytestmark = pytest.mark.req("M78")


def talked(times: int, agent: str = "Coordinator", words: str = "Let me think") -> ContentStreak:
    """Make a streak of so many replies of words alone."""
    streak = ContentStreak(agent)
    for _ in range(times):
        streak = streak.after_content(words)
    return streak


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, CallModel()), (1, CallModel()), (2, CallModel(steer=True)), (9, CallModel(steer=True))],
)
def test_below_the_limit_the_model_is_asked(count: int, expected: CallModel) -> None:
    """From the second reply of words on the agent is steered; one below the limit it is still
    asked.
    """
    assert ContentLoopGuard().next(talked(count)) == expected


@pytest.mark.parametrize(("count", "expected"), [(0, False), (2, False), (3, True)])
def test_talk_after_a_steering_is_a_loop(count: int, *, expected: bool) -> None:
    """An agent talks on when it replied with words alone once more after the reply that it was
    steered for.
    """
    assert ContentLoopGuard().talks_on(talked(count)) is expected


@pytest.mark.parametrize(
    ("limit", "guard"), [(10, ContentLoopGuard()), (3, ContentLoopGuard(hard_limit=3))]
)
def test_at_the_limit_no_model_is_asked(limit: int, guard: ContentLoopGuard) -> None:
    """An agent that only talks costs exactly as many calls as the limit says, and then fails."""
    model = Client(*[completion("Let me think")] * (limit + 1))
    streak = ContentStreak("Coordinator")
    while isinstance(step := guard.next(streak), CallModel):
        reply = model.create()
        streak = streak.after_content(reply["choices"][0]["message"]["content"])
    assert (step.count, len(model.script.requests)) == (limit, limit)


def test_an_action_begins_anew() -> None:
    """Any tool call or action resets the count."""
    streak = talked(9).after_action()
    assert (streak.count, streak.snippet) == (0, "")
    assert ContentLoopGuard().next(streak) == CallModel()


def test_the_diagnosis_says_what_is_known() -> None:
    """It has the agent, the count, what could have been called, the last words, and where to look
    first.
    """
    allowed = permitted_actions(TEAM, "Coordinator", tools=["search"])
    found = ContentLoopGuard().next(
        talked(10, words="x" * 500), actions=allowed.actions, tools=allowed.tools
    )
    assert isinstance(found, ContentLoop)
    assert (found.agent, found.count) == ("Coordinator", 10)

    assert (found.actions, found.tools) == (allowed.actions, ("search",))
    assert found.snippet == "x" * MAX_SNIPPET_CHARS == "x" * 200
    assert found.likely_cause is LikelyCause.TOOLS_IGNORED


@pytest.mark.req("M120")
def test_nothing_to_call_is_the_likely_cause() -> None:
    """An agent that may call nothing can do nothing but talk: the topology is to be reviewed."""
    found = ContentLoopGuard().next(talked(10))
    assert isinstance(found, ContentLoop)
    assert found.likely_cause is LikelyCause.NOTHING_TO_CALL


def test_the_models_words_stay_out_of_logs() -> None:
    """Neither ``str`` nor ``repr`` of a streak or a diagnosis holds what the model wrote."""
    streak = talked(10, words="SECRET")
    found = ContentLoopGuard().next(streak)
    assert "SECRET" not in f"{streak!r} {found!r} {found}"


@pytest.mark.parametrize(("threshold", "limit"), [(10, 10), (11, 10), (0, 10), (-1, 1), (3, 2)])
def test_a_threshold_that_makes_no_sense_is_refused(threshold: int, limit: int) -> None:
    """The threshold is at least 1 and below the limit."""
    with pytest.raises(ValueError, match="steering_threshold"):
        ContentLoopGuard(threshold, limit)


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 5), st.integers(1, 5))
def test_the_model_is_never_asked_beyond_the_limit(
    acts: list[bool], threshold: int, above: int
) -> None:
    """In any run the replies of words in a row never exceed the limit, and steering begins at the
    threshold.
    """
    guard = ContentLoopGuard(threshold, threshold + above)
    streak = ContentStreak("A")

    for act in some(acts):
        step = guard.next(streak)
        if isinstance(step, ContentLoop):
            assert streak.count == guard.hard_limit
            break

        assert step.steer is (streak.count >= threshold)
        streak = streak.after_action() if act else streak.after_content("…")
        assert streak.count <= guard.hard_limit
