"""What an agent is told to do instead: made of the codes of its faults and of what it may do, and of nothing else."""

from __future__ import annotations

from strictreply.coordination.actions.kinds import Permitted
from strictreply.coordination.actions.shapes import SHAPES
from strictreply.issues import Issue, Remedy

_RESEND = "the same request"
_SHORTEN = "a shorter reply"


def retry_suggestion(issues: tuple[Issue, ...], allowed: Permitted) -> str | None:
    """Say what to retry with, to follow "Please retry with:" (requirement M71).

    None where another ask would not help: something ended it for good, or there is nothing the agent may do.
    """
    remedies = {issue.remedy for issue in issues}
    if Remedy.STOP in remedies or not allowed.actions:
        return None
    if Remedy.RESEND in remedies:
        return _RESEND
    if Remedy.SHORTEN in remedies:
        return _SHORTEN
    return f"one of these actions: {offer(allowed)}"


def offer(allowed: Permitted) -> str:
    """List what an agent may do, each action with whom: ``invoke_agent (hand over to …); final_response (…)``."""
    return "; ".join(f"{action} ({SHAPES[action].told(allowed)})" for action in allowed.actions)
