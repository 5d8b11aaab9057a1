"""Where faults lead: those the executor reports before anything else, and replies that did not fit.

What follows a fault of a reply is the error policy's to say; here it becomes a step, or an end.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from strictreply.coordination._steering.error_policy import Reaction
from strictreply.coordination.routing._case import RoutingCase, go_on, stop, tell_user
from strictreply.coordination.routing._decisions import (
    ExecutionStep,
    RoutingContext,
    RoutingDecision,
    RoutingReason,
    StepType,
)
from strictreply.values._issues import Category
from strictreply.values._json import JSONObject

PERMISSION_DENIED: Final = "Permission denied"
"""The published words for a target that stays forbidden (requirement M79)."""

POOL_RETRY_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class PreCheck:
    """A fault that the executor reports in ``RoutingContext.metadata`` under the reason's name.

    ``stops`` says whether the branch ends. ``data`` goes with what the user is told, and ``metadata`` with the step.
    """

    reason: RoutingReason
    stops: bool
    data: JSONObject = field(default_factory=dict[str, Any])
    metadata: JSONObject = field(default_factory=dict[str, Any])


PRE_CHECKS: Final = (
    PreCheck(RoutingReason.CRITICAL_API_ERROR, stops=True, metadata={"no_retry": True}),
    PreCheck(RoutingReason.COORDINATION_ERROR, stops=False, metadata={"requires_user_action": True, "can_retry": True}),
    PreCheck(
        RoutingReason.POOL_EXHAUSTED,
        stops=False,
        data={"retry_after": POOL_RETRY_SECONDS},
        metadata={"notification": "resource"},
    ),
    PreCheck(RoutingReason.TIMEOUT, stops=True, metadata={"no_retry": True}),
)
"""The faults in the order they are looked for (requirement M106)."""


def pre_checked(context: RoutingContext) -> RoutingDecision | None:
    """Decide by the first fault that the executor reports; None when it reports none."""
    return next(_reported(context), None)


def _reported(context: RoutingContext) -> Iterator[RoutingDecision]:
    """Give the decisions of the faults that are reported, in order; None and False report nothing."""
    for check in PRE_CHECKS:
        report = context.metadata.get(check.reason.value)
        if report is None or report is False:
            continue
        details = _details(report)
        waiting = {key: details.get(key, default) for key, default in check.data.items()}
        step = tell_user(details, data=waiting, **check.metadata)
        if check.stops:
            words = f"stopped by the executor: {check.reason.value}"
            yield stop(check.reason, words, step, error=words)
        else:
            yield replace(go_on(check.reason, step), error_action=Reaction.ESCALATE.value)


def _details(report: object) -> JSONObject:
    """Copy what is reported; what is no mapping is a message."""
    if isinstance(report, Mapping):
        return copy.deepcopy(dict(cast("Mapping[str, Any]", report)))
    return {} if report is True else {"message": str(report)}


def route_invalid(case: RoutingCase) -> RoutingDecision:
    """Decide what follows a reply that did not fit (requirements M79 to M81, M104, M105)."""
    reaction = case.policy.reaction(case.result.issues)
    if reaction is Reaction.ESCALATE:
        return _escalated(case)
    if reaction is Reaction.TERMINATE:
        return _terminated(case, RoutingReason.TERMINATED)
    suggested = case.result.retry_suggestion is not None
    return _retried(case) if suggested else _terminated(case, RoutingReason.NO_SUGGESTION)


def _escalated(case: RoutingCase) -> RoutingDecision:
    """Bring the fault to the user, who may have the agent asked again."""
    given = case.parsed.get("error_details", case.context.error_info)
    known = {"type": case.result.code, "message": _words(case)}
    details = cast("JSONObject", given) if isinstance(given, dict) else known
    step = tell_user(details, requires_user_action=True, can_retry=True, failed_agent=case.agent)
    return replace(go_on(RoutingReason.ESCALATED, step), error_action=Reaction.ESCALATE.value)


def _retried(case: RoutingCase) -> RoutingDecision:
    """Ask the same agent again while the budget lasts: failed calls and bad replies have one each (M89, M104)."""
    context, budget = case.context, case.policy.budget
    transient = {issue.category for issue in case.result.issues} == {Category.API_TRANSIENT}
    made = context.transport_retries if transient else context.retry_count
    if made >= (budget.transport_retries if transient else budget.max_retries):
        return _terminated(case, RoutingReason.RETRIES_SPENT)
    text = case.steering()
    step = ExecutionStep(
        step_type=StepType.AGENT_INVOCATION if text is None else StepType.RETRY_WITH_STEERING,
        target=case.agent,
        steering=text,
        metadata={"retry_attempt": made + 1, "retry_reason": case.result.code},
    )
    return replace(go_on(RoutingReason.RETRY, step), error_action=Reaction.RETRY.value)


def _terminated(case: RoutingCase, reason: RoutingReason) -> RoutingDecision:
    """End the branch; a permission that was never there is named as the published API names it."""
    words = f"Validation error: {_words(case)}"
    if not any(issue.category is Category.PERMISSION_ERROR for issue in case.result.issues):
        return stop(reason, words, error=words)
    denied = RoutingReason.PERMISSION_DENIED if reason is RoutingReason.TERMINATED else reason
    return stop(denied, words, error=PERMISSION_DENIED)


def _words(case: RoutingCase) -> str:
    """Say what was wrong, in our words."""
    return case.result.error_message or "the reply does not fit"
