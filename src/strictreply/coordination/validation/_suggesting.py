"""What an agent is told to do instead: made of the codes of its faults and of what it may do, and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from strictreply.coordination._actions.kinds import ActionType, Permitted
from strictreply.coordination._actions.shapes import SHAPES
from strictreply.schema import SchemaRule
from strictreply.values._issues import Issue, Remedy, printable

MENDED_BY: Final[Mapping[tuple[str, str], ActionType]] = MappingProxyType(
    {(f"action.{SchemaRule.MIN_ITEMS}", "/agents"): ActionType.INVOKE_AGENT}
)
"""Faults, by code and place, that another action mends: too few for a parallel hand-over are one to hand over to."""

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
    offered = (f"{action} ({SHAPES[action].told(allowed)})" for action in suggested_actions(issues, allowed))
    return printable(f"one of these actions: {'; '.join(offered)}")  # agents may have any names


def suggested_actions(issues: tuple[Issue, ...], allowed: Permitted) -> tuple[ActionType, ...]:
    """Give the actions that may be valid instead: the one that mends a fault, or else all that are permitted (M30)."""
    mending = [MENDED_BY.get((issue.code, issue.path)) for issue in issues]
    return tuple(action for action in allowed.actions if action in mending) or allowed.actions
