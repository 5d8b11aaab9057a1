"""After an error was brought to the user: the question it makes, and where retry, skip and abort lead (M111, R29)."""

from __future__ import annotations

from strictreply.coordination._runs.ledger import HumanDecision, HumanKind, PendingHuman
from strictreply.coordination._topology.graph import Topology
from strictreply.coordination.routing._case import go_on, refuse, stop, tell_user
from strictreply.coordination.routing._decisions import ExecutionStep, RoutingDecision, RoutingReason, StepType
from strictreply.values._errors import ContractError


def question_of(
    step: ExecutionStep,
    *,
    request_id: str,
    prompt: str = "",
    skip_to: str | None = None,
    requested_at: str = "",
) -> PendingHuman:
    """Make the question that a step to the user puts: retry the failed agent, skip to ``skip_to``, or abort.

    ``prompt`` empty puts the kind's own words. Raises ContractError for a step that is no error of an agent.
    """
    failed = step.metadata.get("failed_agent")
    if step.step_type is not StepType.ERROR_RECOVERY or not isinstance(failed, str):
        raise ContractError("only an error_recovery step with a failed_agent is a question to the user")
    return PendingHuman(
        request_id,
        HumanKind.ERROR,
        prompt,
        resume_to=failed,
        skip_to=skip_to,
        interrupted=failed,
        requested_at=requested_at,
    )


def resume_after_error(topology: Topology, asked: PendingHuman, decision: HumanDecision | None) -> RoutingDecision:
    """Go on as the user decided; any decision that is none about an error puts the question again.

    ``retry`` asks the failed agent again, its budgets begun anew. ``skip`` goes to ``skip_to``, over an edge of the
    failed agent, or ends the branch when there is none to go to. ``abort`` ends the run.
    """
    match decision:
        case HumanDecision.RETRY:
            return _to(topology, asked.resume_to, RoutingReason.HUMAN_RETRY)
        case HumanDecision.SKIP if asked.skip_to is None:
            return stop(RoutingReason.HUMAN_SKIP, "the user skipped the step, and none follows it")
        case HumanDecision.SKIP if not _leads(topology, asked):
            words = "the step to skip to does not follow the failed one"
            return refuse(RoutingReason.NOT_ALLOWED, words)
        case HumanDecision.SKIP:
            return _to(topology, asked.skip_to, RoutingReason.HUMAN_SKIP)
        case HumanDecision.ABORT:
            return stop(RoutingReason.ABORTED, "the user aborted the run")
        case _:
            step = tell_user(
                {}, data={"request": asked.question}, requires_user_action=True, failed_agent=asked.resume_to
            )
            return go_on(RoutingReason.ASKED_AGAIN, step)


def _leads(topology: Topology, asked: PendingHuman) -> bool:
    """Tell whether the failed agent has an edge to the one after it."""
    return asked.resume_to in topology.agents and asked.skip_to in topology.allowed_targets(asked.resume_to)


def _to(topology: Topology, target: str | None, reason: RoutingReason) -> RoutingDecision:
    """Go on with an agent of the topology."""
    if target not in topology.agents:
        return refuse(RoutingReason.UNKNOWN_AGENT, "the request names no agent of this topology to go on with")
    return go_on(reason, ExecutionStep(step_type=StepType.AGENT_INVOCATION, target=target))
