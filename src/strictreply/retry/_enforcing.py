"""Which faults are enforced where only some tools are, and the replies that are handed on."""

from __future__ import annotations

from collections.abc import Iterable

from strictreply.retry._asking import CallPlan
from strictreply.values._drafts import Draft
from strictreply.values._issues import Issue, pointer_tokens

_IN_CALLS = "tool_calls"
"""The member of a reply whose places lead into its calls."""


def is_enforced(ask: CallPlan, draft: Draft | None, issues: Iterable[Issue]) -> bool:
    """Return whether one of the faults of a reply is enforced.

    A fault inside of a call is one of its tool. Any other is one of each tool that the reply calls,
    and of the one that it had to call: a call of a reply that was cut is no better than the reply.
    """
    enforced = ask.enforced
    if enforced is None or not enforced:
        return enforced is None

    # in a text nothing says which tool was meant, where it cannot be read
    if ask.contract.channel == "text":
        return True

    names = [] if draft is None else [call.name for call in draft.calls]
    of_reply = {*map(str, names), *_demanded(ask)}

    for issue in issues:
        index = _call_index(issue)
        named = {str(names[index])} if index is not None and index < len(names) else of_reply
        if not enforced.isdisjoint(named):
            return True

    return False


def _demanded(ask: CallPlan) -> tuple[str, ...]:
    """Return the tools one of which the reply had to call, where they are all enforced."""
    contract = ask.contract
    callable_ = tuple(contract.callable_names)
    if contract.choice in contract.by_name:
        return (contract.choice,)
    if contract.choice != "required" or not frozenset(callable_) <= (ask.enforced or frozenset()):
        return ()

    return callable_


def _call_index(issue: Issue) -> int | None:
    """Return the place of the call that a fault is inside of; None where it is in none."""
    tokens = pointer_tokens(issue.path)
    is_inside = len(tokens) > 1 and tokens[0] == _IN_CALLS and tokens[1].isdigit()
    return int(tokens[1]) if is_inside else None
