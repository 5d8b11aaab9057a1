"""Every budget ends a call by itself, and says which one it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity import (
    stop_after_attempt,
    stop_after_delay,
    stop_before_delay,
    stop_never,
    wait_fixed,
    wait_incrementing,
    wait_none,
)

from strictreply import Attempt, Category, Code, Issue, RetryPolicy, Usage
from strictreply.core import Failure
from strictreply.core.calls import Again, End
from strictreply.retry._policy import BUDGETS

BAD = (Issue.of(Code.SHAPE_NOT_OBJECT),)
UNKNOWN = (Issue.of(Code.TOOL_UNKNOWN, "/tool_calls/0/function/name", names="a"),)
BAD_JSON = (Issue.of(Code.JSON_EMPTY, "/tool_calls/0/function/arguments"),)
MALFORMED = (Issue.of(Code.ENVELOPE_MALFORMED, expected="an object"),)
RATE_LIMIT = Failure("rate_limit", retryable=True, status_code=429)


def attempt(number: int = 1, issues: tuple[Issue, ...] = BAD, **fields: Any) -> Attempt:
    """Make an attempt that was not accepted; the first is no correction, the others are."""
    return Attempt(number, {}, issues=issues, **{"tier": number - 1, **fields})


def attempts(count: int, issues: tuple[Issue, ...] = BAD, **fields: Any) -> tuple[Attempt, ...]:
    """Make so many attempts that were not accepted."""
    return tuple(attempt(number + 1, issues, **fields) for number in range(count))


@pytest.mark.parametrize("name", [*(one.about for one in BUDGETS), "max_reply_tokens"])
def test_each_budget_has_its_row_on_the_page(name: str) -> None:
    """Whoever sets a budget finds on its page what it bounds."""
    page = Path(__file__).resolve().parents[2] / "docs" / "howto" / "budget.md"
    rows = [line for line in page.read_text("utf-8").splitlines() if line.startswith("|")]
    assert any(f"`{name}" in row for row in rows)


@pytest.mark.parametrize("retries", [0, 1, 3, 10])
def test_max_retries_counts_corrections(retries: int) -> None:
    """After the first ask and ``max_retries`` corrections no further one is made."""
    policy = RetryPolicy(max_retries=retries)
    for made in range(1, retries + 1):
        assert policy.next_step(attempts(made), 0) == Again(made)
    assert policy.next_step(attempts(retries + 1), 0) == End("rejected", "retries")


def test_the_default_is_three_corrections_and_shared_argument_retries() -> None:
    """``max_retries`` is 3 by default, ``arg_retries`` None: argument corrections share that budget
    (X25).
    """
    policy = RetryPolicy()
    assert (policy.max_retries, policy.arg_retries) == (3, None)
    assert policy.next_step(attempts(3, scope="a"), 0, scoped=True) == Again(3)
    assert policy.next_step(attempts(4, scope="a"), 0, scoped=True) == End("rejected", "retries")


def test_arg_retries_end_argument_corrections_alone() -> None:
    """Argument corrections have a budget of their own, which faults elsewhere do not use."""
    policy = RetryPolicy(max_retries=5, arg_retries=1)
    scoped = (attempt(1), attempt(2, scope="a"))
    assert policy.next_step(scoped, 0, scoped=True) == End("rejected", "arg_retries")
    assert policy.next_step(scoped, 0, scoped=False) == Again(2)
    assert policy.next_step(attempts(2), 0, scoped=True) == Again(2)


def test_a_correction_lost_on_the_way_is_not_spent() -> None:
    """A correction that the transport lost was never answered, and does not count as one."""
    lost = (attempt(1), attempt(2, (), failure="server_error", tier=1), attempt(3, tier=1))
    assert RetryPolicy(max_retries=2).next_step(lost, 0) == Again(2)


@pytest.mark.parametrize(
    "issues", [UNKNOWN, BAD_JSON, (Issue.of(Code.CALL_ID_MISSING, "/tool_calls/0/id"),)]
)
def test_bad_calls_are_counted(issues: tuple[Issue, ...]) -> None:
    """Unknown tools, unreadable arguments and malformed calls count as bad calls."""
    policy = RetryPolicy(max_retries=9, max_invalid_calls=2)
    assert policy.next_step(attempts(1, issues), 0) == Again(1)
    assert policy.next_step(attempts(2, issues), 0) == End("rejected", "invalid_calls")


def test_other_faults_are_no_bad_calls() -> None:
    """A reply that calls nothing is no bad call."""
    missing = (Issue.of(Code.TOOL_REQUIRED, "/tool_calls", names="a"),)
    assert RetryPolicy(max_retries=9, max_invalid_calls=1).next_step(
        attempts(2, missing), 0
    ) == Again(2)
    assert RetryPolicy(max_retries=9, max_invalid_calls=1).next_step(attempts(2, BAD), 0) == Again(
        2
    )


@pytest.mark.parametrize(
    ("code", "reason"),
    [(Code.REPLY_REFUSAL, "refusal"), (Code.REPLY_CONTENT_FILTER, "content_filter")],
)
def test_what_no_ask_helps_against_halts_at_once(code: Code, reason: str) -> None:
    """A refusal and a content filter end the call whatever budgets are left."""
    assert RetryPolicy(max_retries=9).next_step(attempts(1, (Issue.of(code),)), 0) == End(
        "halted", reason
    )


@pytest.mark.parametrize("failure", [RATE_LIMIT, None])
def test_transport_faults_have_a_budget_of_their_own(failure: Failure | None) -> None:
    """Repeats of a failed or malformed response are counted apart from corrections, and are no
    correction.
    """
    policy = RetryPolicy(max_retries=0, transport_retries=2, wait=wait_none())
    issues, fields = (MALFORMED, {}) if failure is None else ((), {"failure": "rate_limit"})
    reason = "malformed_response" if failure is None else "rate_limit"
    assert policy.next_step(attempts(1, issues, **fields), 0, failure) == Again(0)
    assert policy.next_step(attempts(2, issues, tier=0, **fields), 0, failure) == Again(0)
    assert policy.next_step(attempts(3, issues, tier=0, **fields), 0, failure) == End(
        "failed", reason
    )


def test_a_final_failure_is_not_repeated() -> None:
    """A failure that no repeat can mend ends the call at once."""
    failure = Failure("authentication_failed", retryable=False, status_code=401)
    assert RetryPolicy().next_step(attempts(1, (), failure="x"), 0, failure) == End(
        "failed", "authentication_failed"
    )


@pytest.mark.parametrize(
    ("asked", "step"),
    [
        (None, Again(0, 2.0)),
        (0.0, Again(0, 0.0)),
        (5.0, Again(0, 5.0)),
        (60.0, Again(0, 60.0)),
        (61.0, End("failed", "rate_limit")),
    ],
)
def test_retry_after_is_obeyed_up_to_a_cap(asked: float | None, step: object) -> None:
    """The server's wait replaces ours; past ``max_retry_after`` the call ends, without hanging."""
    failure = Failure("rate_limit", retryable=True, retry_after=asked)
    assert (
        RetryPolicy(wait=wait_fixed(2)).next_step(attempts(1, (), failure="x"), 0, failure) == step
    )


def test_retry_after_beyond_the_deadline_fails_at_once() -> None:
    """A server that asks for 59 s within a 10 s deadline is not waited for."""
    failure = Failure("rate_limit", retryable=True, retry_after=59.0)
    step = RetryPolicy(deadline=10).next_step(attempts(1, (), failure="x"), 1.0, failure)
    assert step == End("failed", "rate_limit")
    nearly = Failure("rate_limit", retryable=True, retry_after=9.0)
    assert RetryPolicy(deadline=10).next_step(attempts(1, (), failure="x"), 1.0, nearly) == step
    assert RetryPolicy(deadline=10.5).next_step(attempts(1, (), failure="x"), 1.0, nearly) == Again(
        0, 9.0
    )


def test_the_transport_waits_without_being_told() -> None:
    """Without a ``wait`` of the user's, a failed call pauses and a correction does not."""
    failed = RetryPolicy().next_step(attempts(1, (), failure="x"), 0, RATE_LIMIT)
    assert isinstance(failed, Again)
    assert 0 <= failed.wait <= 8
    assert RetryPolicy().next_step(attempts(1), 0) == Again(1, 0.0)


def test_the_deadline_is_total_and_counts_waits() -> None:
    """The time spent and the coming wait together are compared with the deadline."""
    policy = RetryPolicy(deadline=10, wait=wait_fixed(4))
    assert policy.next_step(attempts(1), 5.9) == Again(1, 4)
    assert policy.next_step(attempts(1), 6.0) == End("halted", "deadline")
    assert (policy.time_left(4), policy.time_left(11), RetryPolicy().time_left(99)) == (6, 0, None)


def test_a_timeout_at_the_deadline_is_the_deadline() -> None:
    """A call that our own deadline cut is no fault of the server."""
    failure = Failure("timeout", retryable=True)
    step = RetryPolicy(deadline=10, transport_retries=0).next_step(
        attempts(1, (), failure="x"), 10.0, failure
    )
    assert step == End("halted", "deadline")


def test_tokens_and_cost_end_a_call() -> None:
    """The tokens of all attempts are summed, and priced by the user's own function."""
    spent = attempts(2, usage=Usage(30, 20, 50))
    assert RetryPolicy(max_tokens_total=101).next_step(spent, 0) == Again(2)
    assert RetryPolicy(max_tokens_total=100).next_step(spent, 0) == End("halted", "tokens")
    priced = RetryPolicy(max_cost=0.2, price=lambda usage: usage.total_tokens / 500)
    assert priced.next_step(spent, 0) == End("halted", "cost")
    assert priced.next_step(spent[:1], 0) == Again(1)


@pytest.mark.parametrize(
    ("stop", "made", "spent", "ends"),
    [
        (stop_after_attempt(2) | stop_after_delay(20), 1, 0.0, False),
        (stop_after_attempt(2) | stop_after_delay(20), 2, 0.0, True),
        (stop_after_attempt(2) | stop_after_delay(20), 1, 20.0, True),
        (stop_after_attempt(2) & stop_after_delay(20), 2, 19.0, False),
        (stop_before_delay(10), 1, 6.0, False),
        (stop_before_delay(10), 1, 8.0, True),
        (stop_never, 3, 1e9, False),
    ],
)
def test_tenacity_stops_are_taken_as_they_are(
    stop: Any, made: int, spent: float, ends: bool
) -> None:
    """A tenacity stop sees the attempts made, the seconds since the start and the pause to come."""
    step = RetryPolicy(stop=stop, wait=wait_fixed(3)).next_step(attempts(made), spent)
    assert (step == End("rejected", "stop")) is ends


def test_a_stop_after_a_transport_fault_is_a_failure() -> None:
    """When the last thing that happened was the transport's fault, the end is too."""
    policy = RetryPolicy(stop=stop_after_attempt(1))
    assert policy.next_step(attempts(1, (), failure="x"), 0, RATE_LIMIT) == End("failed", "stop")
    assert policy.next_step(attempts(1, MALFORMED), 0) == End("failed", "stop")


def test_tenacity_waits_see_the_attempt() -> None:
    """A tenacity wait grows with the attempts made."""
    policy = RetryPolicy(max_retries=5, wait=wait_incrementing(start=1, increment=2))
    assert [policy.next_step(attempts(made), 0) for made in (1, 2, 3)] == [
        Again(1, 1),
        Again(2, 3),
        Again(3, 5),
    ]


@pytest.mark.parametrize("given_as", [[Category.ACTION_ERROR], {"ACTION_ERROR"}])
def test_stop_on_ends_at_the_first_fault_of_a_category(given_as: Any) -> None:
    """Such a fault is not corrected, alone or beside others; faults of other categories are."""
    policy = RetryPolicy(stop_on=given_as)
    assert policy.next_step(attempts(1, (*BAD, *UNKNOWN)), 0) == End("rejected", "category")
    assert policy.next_step(attempts(1, BAD), 0) == Again(1)
    assert policy.next_step(attempts(1, (Issue.of(Code.REPLY_REFUSAL),)), 0) == End(
        "halted", "refusal"
    )


def test_a_refused_addition_is_no_failure_of_the_reply_behind_it() -> None:
    """Behind an addition that was refused the policy's own wait counts, not the refusal's pause."""
    refused = (attempt(1, dropped_params=("tool_choice",), failure="rate_limit"),)
    asked_to_wait = Failure("rate_limit", retryable=True, retry_after=30.0)
    policy = RetryPolicy(wait=wait_fixed(2), deadline=10)
    assert policy.next_step(refused, 0, asked_to_wait) == Again(1, 2.0)


def test_stop_on_ends_what_the_transport_lost() -> None:
    """With ``API_TRANSIENT`` neither a failed call nor a response that is none is sent again."""
    policy = RetryPolicy(stop_on={Category.API_TRANSIENT})
    lost = (attempt(issues=(), failure="rate_limit"),)
    assert policy.next_step(lost, 0, RATE_LIMIT) == End("failed", "rate_limit")
    assert policy.next_step((attempt(issues=MALFORMED),), 0) == End("failed", "malformed_response")
    assert policy.next_step(attempts(1, BAD), 0) == Again(1)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_retries": -1},
        {"arg_retries": -1},
        {"transport_retries": -1},
        {"deadline": -0.1},
        {"retry_budget": -1},
        {"retry_budget": 1.5},
        {"retry_budget": True},
        {"max_tokens_total": -1},
        {"max_reply_tokens": -1},
        {"max_reply_tokens": 1.5},
        {"max_reply_tokens": True},
        {"max_invalid_calls": -1},
        {"max_cost": -1, "price": lambda usage: 0.0},
        {"max_retry_after": -1},
        {"max_cost": 1.0},
        {"stop_on": ["NO_CATEGORY"]},
        {"stop_on": Category.ACTION_ERROR},
    ],
)
def test_budgets_that_mean_nothing_are_refused(fields: dict[str, Any]) -> None:
    """A negative budget, a cost without a price and what is no category are a ValueError when the
    policy is made.
    """
    with pytest.raises(ValueError, match="RetryPolicy"):
        RetryPolicy(**fields)


@given(
    st.integers(0, 6), st.integers(0, 4), st.lists(st.sampled_from(["bad", "lost"]), max_size=20)
)
def test_asks_are_bounded(retries: int, repeats: int, happenings: list[str]) -> None:
    """In any case at most 1 + max_retries + transport_retries requests are made."""
    policy = RetryPolicy(max_retries=retries, transport_retries=repeats, wait=wait_none())
    made: tuple[Attempt, ...] = ()
    step: Again | End | None = None
    tier = 0

    for happening in [*happenings, *["bad"] * 7, *["lost"] * 5]:
        failure = RATE_LIMIT if happening == "lost" else None
        one = attempt(
            len(made) + 1,
            () if failure else BAD,
            failure="rate_limit" if failure else None,
            tier=tier,
        )
        made = (*made, one)
        step = policy.next_step(made, 0, failure)
        if isinstance(step, End):
            break

        tier = step.tier or tier

    assert isinstance(step, End)
    assert len(made) <= 1 + retries + repeats
