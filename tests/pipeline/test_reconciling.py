"""A client's results fit the calls that wait, one for each.

Otherwise every fault is told, and nothing is changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.loop._reconciling import reconcile
from strictreply.loop.invoke_result import InvokeCode, InvokeError, InvokeResult
from strictreply.loop.values import AgentToolCall, AgentToolCallResult, ToolCallManifest


def call(number: int, *, client: bool = True, approval: bool = False) -> AgentToolCall:
    """Make the call tc<number> of tool<number>."""
    return AgentToolCall(
        tool_call_id=f"tc{number}",
        name=f"tool{number}",
        arguments_json="{}",
        requires_client_execution=client,
        needs_approval=approval,
    )


def answer(number: int, **members: Any) -> AgentToolCallResult:
    """Make a result for the call tc<number>, by default a good one."""
    return AgentToolCallResult(
        tool_call_id=f"tc{number}", name=f"tool{number}", **(members or {"result_json": "1"})
    )


def errors(
    manifest: ToolCallManifest, *results: AgentToolCallResult, **options: Any
) -> tuple[InvokeError, ...]:
    """Return the errors of a reconciliation that must fail; the manifest stays as it was."""
    before = manifest.to_json()
    result = reconcile(manifest, results, **options)
    assert isinstance(result, InvokeResult)
    assert manifest.to_json() == before
    return result.errors


MIXED = ToolCallManifest(
    tool_calls=(call(1), call(2, client=False), call(3), call(4), call(5)),
    tool_call_results=(answer(2), answer(3)),
)


@pytest.mark.req("P65")
def test_all_six_faults_are_told_at_once() -> None:
    """One submission with every fault yields six errors with the index, the id and the name of
    each.
    """
    told = errors(
        MIXED, answer(1), answer(1), answer(9), answer(2), answer(3), answer(4, execution_ms=1)
    )
    assert [(error.code, error.index, error.tool_call_id, error.name) for error in told] == [
        (InvokeCode.DUPLICATE_ID, 1, "tc1", "tool1"),
        (InvokeCode.UNKNOWN_CALL, 2, "tc9", "tool9"),
        (InvokeCode.NOT_CLIENT_CALL, 3, "tc2", "tool2"),
        (InvokeCode.ALREADY_ANSWERED, 4, "tc3", "tool3"),
        (InvokeCode.EMPTY_RESULT, 5, "tc4", "tool4"),
        (InvokeCode.MISSING_RESULT, 4, "tc5", "tool5"),
    ]
    assert [error.path for error in told[-2:]] == [
        "/envelope/tool_results/5",
        "/tool_call_manifest/tool_calls/4",
    ]


ALONE: list[tuple[str, tuple[AgentToolCallResult, ...], InvokeCode, str]] = [
    (
        "twice",
        (answer(1), answer(4), answer(5), answer(1)),
        InvokeCode.DUPLICATE_ID,
        "reconcile.duplicate_id",
    ),
    (
        "extra",
        (answer(1), answer(4), answer(5), answer(9)),
        InvokeCode.UNKNOWN_CALL,
        "reconcile.unknown_call",
    ),
    (
        "ours",
        (answer(1), answer(4), answer(5), answer(2)),
        InvokeCode.NOT_CLIENT_CALL,
        "reconcile.not_client_call",
    ),
    (
        "answered",
        (answer(1), answer(4), answer(5), answer(3)),
        InvokeCode.ALREADY_ANSWERED,
        "reconcile.already_answered",
    ),
    ("missing", (answer(1), answer(4)), InvokeCode.MISSING_RESULT, "reconcile.missing_result"),
    (
        "neither",
        (answer(1), answer(4), answer(5, result_json=" ", error_message="")),
        InvokeCode.EMPTY_RESULT,
        "reconcile.empty_result",
    ),
    (
        "both",
        (answer(1), answer(4), answer(5, result_json="1", error_message="no")),
        InvokeCode.RESULT_AND_ERROR,
        "reconcile.result_and_error",
    ),
]


@pytest.mark.req("P65")
@pytest.mark.parametrize(
    ("results", "code", "rule"), [row[1:] for row in ALONE], ids=[row[0] for row in ALONE]
)
def test_each_fault_alone_is_one_error(
    results: tuple[AgentToolCallResult, ...], code: InvokeCode, rule: str
) -> None:
    """Each fault by itself yields its code and its rule, and nothing else."""
    assert [(error.code, error.rule) for error in errors(MIXED, *results)] == [(code, rule)]


@pytest.mark.req("P65")
def test_good_results_stand_in_the_order_of_the_calls() -> None:
    """Whatever order they come in, results end up pairwise with their calls; those that are there
    stay.
    """
    done = reconcile(MIXED, [answer(5), answer(1, result_json="7"), answer(4)])
    assert isinstance(done, ToolCallManifest)
    assert [result.tool_call_id for result in done.tool_call_results] == [
        "tc1",
        "tc2",
        "tc3",
        "tc4",
        "tc5",
    ]

    assert done.tool_call_results[1:3] == MIXED.tool_call_results
    assert (done.tool_call_results[0].result_json, done.tool_calls, done.pending) == (
        "7",
        MIXED.tool_calls,
        (),
    )


def test_a_call_of_ours_may_wait_on() -> None:
    """A call that is run here needs nothing of the client, and stays without a result."""
    done = reconcile(ToolCallManifest(tool_calls=(call(1), call(2, client=False))), [answer(1)])
    assert isinstance(done, ToolCallManifest)
    assert [waiting.tool_call_id for waiting in done.pending] == ["tc2"]


@pytest.mark.req("P66")
def test_a_result_of_an_earlier_round_is_consumed() -> None:
    """Results for calls of the same turn that were answered before are ALREADY_CONSUMED, not
    unknown.
    """
    manifest = ToolCallManifest(tool_calls=(call(7),))
    told = errors(manifest, answer(1), answer(8), answer(7), earlier=(call(1), call(7)))
    assert [error.code for error in told] == [InvokeCode.ALREADY_CONSUMED, InvokeCode.UNKNOWN_CALL]


def test_an_error_is_a_result_only_where_it_is_allowed() -> None:
    """The published rule refuses a client's error_message, with it as the reason; the option takes
    it (X11).
    """
    manifest = ToolCallManifest(tool_calls=(call(1),))
    failed = answer(1, error_message="boom")
    (error,) = errors(manifest, failed)
    assert (error.code, error.tool_call_id, error.name, error.reason) == (
        InvokeCode.MISSING_RESULT_JSON,
        "tc1",
        "tool1",
        "boom",
    )

    assert "boom" not in error.message
    done = reconcile(manifest, [failed], allow_error_results=True)
    assert done == replace(manifest, tool_call_results=(failed,))


DECISIONS: list[tuple[str, tuple[bool, str] | None]] = [
    ('{"approved": true}', (True, "")),
    ('{"approved": false, "reason": "too dear"}', (False, "too dear")),
    ('{"approved": "true"}', None),
    ('{"approved": 1}', None),
    ('{"approved": null}', None),
    ('{"approved": true, "reason": 1}', None),
    ('{"approved": true, "why": "so"}', None),
    ('{"reason": "so"}', None),
    ('{"approved": false, "approved": true}', None),
    ("{}", None),
    ("true", None),
    ("[]", None),
    ("{approved: true}", None),
]


@pytest.mark.parametrize(("text", "decision"), DECISIONS)
def test_an_approval_is_exactly_a_decision(text: str, decision: tuple[bool, str] | None) -> None:
    """A call that needs approval takes a decision and nothing else, read as strictly as a reply."""
    manifest = ToolCallManifest(tool_calls=(call(1, approval=True),))
    result = answer(1, result_json=text)
    assert result.approval == decision
    if decision is None:
        assert [error.code for error in errors(manifest, result)] == [InvokeCode.APPROVAL_MALFORMED]
    else:
        assert reconcile(manifest, [result]) == replace(manifest, tool_call_results=(result,))


@pytest.mark.parametrize("allowed", [True, False])
def test_an_error_is_no_decision(*, allowed: bool) -> None:
    """A failed approval does not approve, whatever is allowed of results."""
    manifest = ToolCallManifest(tool_calls=(call(1, approval=True),))
    told = errors(manifest, answer(1, error_message="no"), allow_error_results=allowed)
    assert [error.code for error in told] == [InvokeCode.APPROVAL_MALFORMED]


def test_a_decision_beside_an_error_is_none() -> None:
    """A result that holds a decision and an error decides nothing."""
    assert answer(1, result_json='{"approved": true}', error_message="no").approval is None


def test_the_first_fault_of_an_entry_is_reported_whatever_it_holds() -> None:
    """A result that no call waits for is refused as such, also when its text is no text."""
    told = errors(
        MIXED, answer(2, result_json=5), answer(3, result_json=5), answer(1), answer(4), answer(5)
    )
    assert [error.code for error in told] == [
        InvokeCode.NOT_CLIENT_CALL,
        InvokeCode.ALREADY_ANSWERED,
    ]


@st.composite
def submissions(draw: st.DrawFn) -> tuple[ToolCallManifest, list[AgentToolCallResult]]:
    """Make a manifest of calls here and there, and results that may or may not fit it."""
    calls = [call(number, client=draw(st.booleans())) for number in range(draw(st.integers(0, 5)))]
    there = [answer(int(one.tool_call_id[2:])) for one in calls if draw(st.booleans())]
    sent = draw(st.lists(st.integers(0, 6), max_size=7))
    return ToolCallManifest(tool_calls=tuple(calls), tool_call_results=tuple(there)), [
        answer(one) for one in sent
    ]


@pytest.mark.req("P65")
@given(submissions())
def test_a_result_is_never_put_to_another_call(
    case: tuple[ToolCallManifest, list[AgentToolCallResult]],
) -> None:
    """An accepted submission answers every call of the client once, by its own id; a refused one
    changes nothing.
    """
    manifest, results = case
    before = manifest.to_json()
    done = reconcile(manifest, results)
    assert manifest.to_json() == before

    waiting = [one.tool_call_id for one in manifest.pending if one.requires_client_execution]
    fits = sorted(result.tool_call_id for result in results) == sorted(waiting)
    assert isinstance(done, ToolCallManifest) == fits

    if isinstance(done, ToolCallManifest):
        expected = {
            result.tool_call_id: result for result in (*manifest.tool_call_results, *results)
        }
        order = [one.tool_call_id for one in manifest.tool_calls if one.tool_call_id in expected]
        assert done.tool_call_results == tuple(expected[one] for one in order)
