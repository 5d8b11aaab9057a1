"""An agent that only talks: the line says so as its reason (V17, V18, M78).

It adds what the agent said, and the likely cause.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from strictreply import RetryPolicy
from strictreply.coordination import ContentLoopGuard, ErrorPolicy
from strictreply.testing import Step, faults, ok
from support.integrations.langgraph_runs import (
    CONFIG,
    LAB,
    NONSENSE,
    TEAM,
    Cast,
    InMemorySaver,
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

WORDS = "Let me think about it."


def patient(retries: int) -> ErrorPolicy:
    """Return a policy that corrects a reply this many times."""
    return ErrorPolicy(budget=RetryPolicy(max_retries=retries, transport_retries=0))


@pytest.mark.req("M78")
def test_v17_an_agent_that_only_talks_is_a_content_loop_under_the_default_policy() -> None:
    """Nothing is set: four replies of words alone end the line, whose outcome has the snippet and
    the cause.
    """
    cast = Cast(lead=[NONSENSE] * 30)
    compiled = to_langgraph(TEAM, agents(cast)).compile(checkpointer=InMemorySaver())
    told = outcome_of(compiled.invoke(begin(TEAM, "Go."), CONFIG))
    assert (told["status"], told["reason"], cast.asked()) == ("failed", "content_loop", {"lead": 4})

    loop = told["content_loop"]
    assert (loop["agent"], loop["count"], loop["snippet"], loop["likely_cause"]) == (
        "lead",
        4,
        WORDS,
        "tools_ignored",
    )

    assert "final_response" in loop["actions"]
    assert WORDS not in told["error"]
    assert json.loads(json.dumps(told)) == told


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        # A try at an action ends a streak.
        ([NONSENSE] * 2 + [hand("stranger")] + [NONSENSE], "retries_spent"),
        # It is steered once, and not beyond that.
        ([hand("stranger")] * 2 + [NONSENSE] * 2, "retries_spent"),
        ([hand("stranger")] + [NONSENSE] * 3, "content_loop"),
        ([hand("stranger")] * 4, "retries_spent"),
    ],
)
def test_v17_only_words_alone_after_steering_are_a_content_loop(
    script: list[Step], reason: str
) -> None:
    """Other replies that stay wrong end as before, and the outcome says nothing of a loop then."""
    told = outcome_of(run(Cast(lead=script), policy=patient(3)))
    assert (told["status"], told["reason"], "content_loop" in told) == (
        "failed",
        reason,
        reason == "content_loop",
    )


def test_v17_a_failure_of_the_api_is_no_content_loop() -> None:
    """Text from before the API failed does not change why the line waits for a human."""
    cast = Cast(lead=[*[NONSENSE] * 3, faults.rate_limited()])
    state = graph(cast, saver=InMemorySaver(), policy=patient(3)).invoke(begin(TEAM, "Go."), CONFIG)
    assert [one.value["kind"] for one in state["__interrupt__"]] == ["error"]


@pytest.mark.req("M78")
@pytest.mark.parametrize("limit", [3, 4, 7])
def test_v18_the_limit_on_words_alone_bounds_the_corrections_of_one_ask(limit: int) -> None:
    """A budget that is wider than the limit is cut to it: exactly so many asks, and none more."""
    cast = Cast(lead=[NONSENSE] * 30)
    told = outcome_of(
        run(cast, policy=patient(20), content_limit=ContentLoopGuard(hard_limit=limit))
    )
    assert (cast.asked(), told["reason"], told["content_loop"]["count"]) == (
        {"lead": limit},
        "content_loop",
        limit,
    )


@pytest.mark.req("M78")
@pytest.mark.parametrize("wrong", [hand("stranger"), ok.answer({"next_action": "dance"})])
def test_q3_the_limit_on_words_alone_bounds_no_other_correction(wrong: Step) -> None:
    """A budget that is wider than the limit is spent whole on replies that try an action."""
    cast = Cast(lead=[wrong] * 30)
    guard = ContentLoopGuard(steering_threshold=1, hard_limit=2)
    told = outcome_of(run(cast, policy=patient(12), content_limit=guard))
    assert (cast.asked(), told["reason"]) == ({"lead": 13}, "retries_spent")


def test_v17_a_branch_that_only_talks_is_told_by_its_reason_alone() -> None:
    """Who opened it reads no word of what it said; the program finds it in the outcomes."""
    cast = Cast(
        lead=[spread("ann", "bob", ann="a", bob="b"), final()],
        ann=[NONSENSE] * 30,
        bob=[final("fine")],
    )
    state = run(cast, LAB, policy=patient(3))
    assert '"reason":"content_loop"' in cast.told("lead")
    assert WORDS not in cast.told("lead")

    assert [one.get("content_loop", {}).get("snippet") for one in outcomes_of(state).values()] == [
        WORDS,
        None,
    ]


def test_v17_a_snippet_fits_into_a_checkpoint() -> None:
    """A lone surrogate, which no encoding can write, does not break the run that keeps it."""
    cast = Cast(lead=[ok.answer("half \ud83d of it")] * 30)
    compiled = to_langgraph(TEAM, agents(cast)).compile(checkpointer=InMemorySaver())
    state: Any = compiled.invoke(begin(TEAM, "Go."), CONFIG)
    assert outcome_of(state)["content_loop"]["snippet"] == "half ? of it"
