"""Each row of the policy is provoked, and the page shows the table as it stands in the code."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tenacity import stop_after_attempt, wait_none

import strictreply as sr
from strictreply import (
    Attempt,
    Category,
    Code,
    Contract,
    Issue,
    Reason,
    RetryPolicy,
    TieredSteering,
    Tool,
    Usage,
)
from strictreply.core import CallPlan, Failure
from strictreply.core.calls import Again, End, NextStep
from strictreply.retry._flow import (
    Call,
    Claim,
    Ended,
    Event,
    Failed,
    Noted,
    Notify,
    Replied,
    reply_flow,
)
from strictreply.retry._policy import (
    BUDGETS,
    POLICY,
    REJECTED_WORDS,
    Case,
    Consult,
    Consulted,
    Moment,
    PolicyRow,
    end_at,
    row_after,
)
from strictreply.wires import WIRES
from support.scripted import SCHEMA, USER, Server, call, completion

TOOL = runpy.run_path(str(Path(__file__).resolve().parents[2] / "tools" / "write_policy.py"))
SEARCH = Tool.from_json_schema("search", SCHEMA)
GOOD = completion(calls=[call("search", {"query": "tea"})])
WRONG = completion(calls=[call("search", {"query": 1})])
LOST = Failure("server_error", retryable=True, status_code=503)
LATE = Failure("timeout", retryable=True)
PAUSED = Failure("rate_limit", retryable=True, retry_after=9.0)
USED = Usage(30, 20, 50)
IN_TEXT = (Issue.of(Code.SHAPE_NOT_OBJECT, "/message/content"),)
IN_CALL = (Issue.of(Code.JSON_EMPTY, "/tool_calls/0/function/arguments"),)
REFUSED = (Issue.of(Code.REPLY_REFUSAL),)
HALF = (Issue.of(Code.REPLY_PAUSED),)
COMPLAINT = {"error": {"message": "The model produced invalid content"}}


class Provoked(NamedTuple):
    """Attempts and a policy after which one row holds."""

    moment: Moment
    policy: RetryPolicy
    step: NextStep
    failure: Failure | None = None
    issues: tuple[Issue, ...] = IN_CALL
    made: int = 1
    spent: float = 0.0
    fields: Mapping[str, Any] = {}

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts: the first request and its corrections, or its repeats."""
        lost = None if self.failure is None else self.failure.kind
        return tuple(
            Attempt(
                number + 1,
                {},
                issues=() if lost else self.issues,
                failure=lost,
                usage=USED,
                **{"tier": 0 if lost else number, **self.fields},
            )
            for number in range(self.made)
        )


QUICK = RetryPolicy(wait=wait_none())
PRICED = RetryPolicy(wait=wait_none(), max_cost=1.0, price=lambda usage: usage.total_tokens)
STOPPED = RetryPolicy(wait=wait_none(), stop=stop_after_attempt(1))

CASES = {
    "late": Provoked("failed", RetryPolicy(deadline=5), End("halted", "deadline"), LATE, spent=5.0),
    "final": Provoked(
        "failed", QUICK, End("failed", "not_found"), Failure("not_found", retryable=False)
    ),
    "transient": Provoked(
        "failed",
        RetryPolicy(stop_on={Category.API_TRANSIENT}),
        End("failed", "server_error"),
        LOST,
    ),
    "pause beyond the deadline": Provoked(
        "failed", RetryPolicy(deadline=5), End("failed", "rate_limit"), PAUSED
    ),
    "long pause": Provoked(
        "failed", RetryPolicy(max_retry_after=8), End("failed", "rate_limit"), PAUSED
    ),
    "repeats": Provoked(
        "failed", RetryPolicy(transport_retries=1), End("failed", "server_error"), LOST, made=2
    ),
    "lost at the deadline": Provoked(
        "failed",
        RetryPolicy(deadline=5, wait=wait_none()),
        End("halted", "deadline"),
        LOST,
        spent=5.0,
    ),
    "lost tokens": Provoked(
        "failed",
        RetryPolicy(max_tokens_total=50, wait=wait_none()),
        End("halted", "tokens"),
        LOST,
    ),
    "lost cost": Provoked("failed", PRICED, End("halted", "cost"), LOST),
    "lost stop": Provoked("failed", STOPPED, End("failed", "stop"), LOST),
    "resent": Provoked("failed", QUICK, Again(0), LOST),
    "conversation": Provoked(
        "invalid", QUICK, End("failed", "invalid_request"), made=2, fields={"raw": COMPLAINT}
    ),
    "final fault": Provoked("invalid", QUICK, End("halted", "refusal"), issues=REFUSED),
    "category": Provoked(
        "invalid",
        RetryPolicy(stop_on={Category.FORMAT_ERROR}),
        End("rejected", "category"),
    ),
    "retries": Provoked("invalid", RetryPolicy(max_retries=1), End("rejected", "retries"), made=2),
    "arg retries": Provoked(
        "invalid",
        RetryPolicy(arg_retries=1),
        End("rejected", "arg_retries"),
        made=2,
        fields={"scope": "search"},
    ),
    "bad calls": Provoked(
        "invalid", RetryPolicy(max_invalid_calls=1), End("rejected", "invalid_calls")
    ),
    "deadline": Provoked("invalid", RetryPolicy(deadline=5), End("halted", "deadline"), spent=5.0),
    "tokens": Provoked("invalid", RetryPolicy(max_tokens_total=50), End("halted", "tokens")),
    "cost": Provoked("invalid", PRICED, End("halted", "cost")),
    "stop": Provoked("invalid", STOPPED, End("rejected", "stop")),
    "corrected": Provoked("invalid", QUICK, Again(1)),
    "paused at the deadline": Provoked(
        "paused", RetryPolicy(deadline=5), End("halted", "deadline"), issues=HALF, spent=5.0
    ),
    "paused tokens": Provoked(
        "paused", RetryPolicy(max_tokens_total=50), End("halted", "tokens"), issues=HALF
    ),
    "paused cost": Provoked("paused", PRICED, End("halted", "cost"), issues=HALF),
    "continuations": Provoked(
        "paused", RetryPolicy(max_continuations=1), End("halted", "paused"), issues=HALF, made=2
    ),
    "continued": Provoked("paused", QUICK, Again(0), issues=HALF),
    "told and lost": Provoked("streamed", QUICK, End("failed", "server_error"), LOST),
    "streamed": Provoked("streamed", QUICK, End("rejected", "streamed"), issues=IN_TEXT),
    "told calls": Provoked("streamed", QUICK, Again(1)),
}
"""What provokes each row that looks at the attempts."""


def moments_of_attempts() -> list[tuple[Moment, PolicyRow]]:
    """Return each row that looks at the attempts, with each moment that it follows."""
    return [
        (moment, row)
        for row in POLICY
        for moment in row.after
        if moment in {"failed", "invalid", "paused", "streamed"}
    ]


def case_of(one: Provoked) -> Case:
    """Return what the rows look at."""
    failure = one.failure or Failure("malformed_response", retryable=True)
    allowed = one.policy.repeats
    step = one.step if isinstance(one.step, Again) else Again(1)
    return Case(one.policy, one.attempts, one.spent, failure, True, allowed, step=step)


def test_every_row_is_provoked() -> None:
    """A row that no case of this file provokes is a row that nobody has seen at work."""
    provoked = [(one.moment, row_after(one.moment, case_of(one))) for one in CASES.values()]
    assert len(provoked) == len(CASES) > 20
    missing = [
        (moment, row.when)
        for moment, row in moments_of_attempts()
        if not any(moment == found and row is each for found, each in provoked)
    ]
    assert missing == [], "add to CASES what provokes these rows"


@pytest.mark.parametrize("name", CASES)
def test_a_row_leads_where_it_says(name: str) -> None:
    """The policy decides as the first row that holds says."""
    one = CASES[name]
    if one.moment == "streamed":
        assert one.policy.behind_text(Again(1), one.attempts, one.failure) == one.step
    else:
        step = one.policy.next_step(one.attempts, one.spent, one.failure, scoped=True)
        assert step == one.step


def ended_by(policy: RetryPolicy, *events: Event) -> End:
    """Return how a call ends that gets these events, the watchers' among them."""
    contract = Contract(tools=[SEARCH])
    base = WIRES["chat"].read({"messages": USER, "model": "m"})
    flow = reply_flow(CallPlan(contract, base, policy, TieredSteering()))
    next(flow)
    for event in events[:-1]:
        flow.send(event)
    with pytest.raises(StopIteration) as stopped:
        flow.send(events[-1])

    outcome = stopped.value.value
    assert isinstance(outcome, Ended)
    return outcome.end


def test_a_repeat_that_is_not_granted_ends_the_call() -> None:
    """The row of ``claim``."""
    end = ended_by(RetryPolicy(), Failed(LOST), Noted(), Noted(granted=False))
    assert end == end_at("claim") == End("failed", "retry_budget")


def test_a_human_who_gives_up_ends_the_call() -> None:
    """The row of ``human``."""
    policy = RetryPolicy(escalation=["human"], ask_human=lambda _: None)
    bad: list[Event] = [Replied(WRONG), Noted()] * 2  # the second is alike, and skips a tier
    assert ended_by(policy, *bad, Consulted(None)) == end_at("human") == End("rejected", "human")


def test_watchers_and_waits_that_take_too_long_end_the_call() -> None:
    """The row of ``late``, behind a reply that fits and before a further request."""
    policy = RetryPolicy(deadline=5, wait=wait_none())
    assert ended_by(policy, Replied(GOOD), Noted(9.0)) == End("halted", "deadline")

    human = RetryPolicy(deadline=5, escalation=["human"], ask_human=lambda _: "try tea")
    bad: list[Event] = [Replied(WRONG), Noted()] * 2  # the second is alike, and skips a tier
    assert ended_by(human, *bad, Consulted("try tea", 9.0)) == end_at("late")


def test_a_stored_reply_is_rejected_as_such() -> None:
    """The row of ``stored``."""
    wrong = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": [],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
    }
    client = sr.wrap(Server(wrong).client(), tools=[SEARCH])
    with pytest.raises(sr.ReplyRejected) as raised:
        client.responses.retrieve("resp_1")

    assert raised.value.reason == end_at("stored").reason
    assert REJECTED_WORDS["stored"] in str(raised.value)


def test_every_moment_is_provoked_here() -> None:
    """What looks at no attempts has one row each, and a test above."""
    looking = {"failed", "invalid", "paused", "streamed"}
    others = [row.after for row in POLICY if not looking.intersection(row.after)]
    assert others == [("claim",), ("human",), ("late",), ("stored",)]
    source = Path(__file__).read_text("utf-8")
    assert [one for (one,) in others if f'end_at("{one}")' not in source] == []


def test_effects_of_the_flow_are_those_that_are_played_here() -> None:
    """A call that is repeated asks for the call, its note and its claim, in this order."""
    contract = Contract(tools=[SEARCH])
    base = WIRES["chat"].read({"messages": USER, "model": "m"})
    flow = reply_flow(CallPlan(contract, base, RetryPolicy(), TieredSteering()))
    effects = [next(flow), flow.send(Failed(LOST)), flow.send(Noted())]
    assert list(map(type, effects)) == [Call, Notify, Claim]
    assert not any(isinstance(effect, Consult) for effect in effects)


def test_each_reason_is_public_and_has_words() -> None:
    """A program matches on the reason, a person reads the words or the advice."""
    ends = [row.then for row in POLICY if isinstance(row.then, End)]
    assert len(ends) > 10
    unknown = {end.reason for end in ends} - {reason.value for reason in Reason}
    assert unknown == set(), "add these to Reason in values/_errors.py, each with its advice"

    for end in ends:
        if end.how == "halted":
            assert Reason(end.reason).advice, "say in its row of Reason what to do"
        if end.how == "rejected" and end.reason != "stop":
            assert REJECTED_WORDS[end.reason] in str(end.error((Attempt(1, {}),), None, None))


def test_the_page_shows_the_table() -> None:
    """The rows of the page are those of the code, in their order."""
    page = TOOL["POLICY_PAGE"].read_text("utf-8")
    assert len(list(TOOL["policy_rows"]())) == len(POLICY)
    assert TOOL["policy_page"](page) == page, "run `make pages`"


@pytest.mark.parametrize("about", [budget.about for budget in BUDGETS])
def test_the_page_of_budgets_says_what_its_row_says(about: str) -> None:
    """What a budget counts, and what it is by default, stand in one row of the code."""
    (budget,) = [row for row in BUDGETS if row.about == about]
    page = TOOL["BUDGETS_PAGE"].read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith(f"| `{about}`")]
    assert len(rows) == 1, "run `make pages`"
    assert rows[0].endswith(f"| {budget.default} | {budget.bounds} |"), "run `make pages`"
