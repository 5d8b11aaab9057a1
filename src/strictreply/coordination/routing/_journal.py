"""What DEBUG logging tells of decisions, on the package's logger and without handlers of its own (requirement M115)."""

from __future__ import annotations

import logging

from strictreply.coordination.routing._decisions import RoutingDecision

logger = logging.getLogger("strictreply")


def log_route(agent: str, decision: RoutingDecision) -> None:
    """Log one decision at DEBUG: its reason, the steps by type and target, and why it ends if it does."""
    if logger.isEnabledFor(logging.DEBUG):
        steps = [f"{step.step_type} {step.target!r}" for step in decision.next_steps]
        steps += [f"branch {spec.agent!r}" for spec in decision.branch_specs]
        logger.debug("route of %r: %s: %s", agent, decision.reason, ", ".join(steps) or decision.completion_reason)
