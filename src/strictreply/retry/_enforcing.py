"""Which faults are enforced where only some tools are, and the replies that are handed on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from strictreply.contract._channels import MAX_NAME_CHARS, NEAR
from strictreply.contract._judge import MAX_FAULTY_CALLS, watch_of
from strictreply.contract._spelled_calls import is_call
from strictreply.retry._asking import CallPlan
from strictreply.schema._explaining import nearest
from strictreply.values._drafts import Draft, DraftCall
from strictreply.values._issues import Code, Issue, pointer_tokens
from strictreply.values._limits import JSON, Work

_IN_CALLS = "tool_calls"
"""The member of a reply whose places lead into its calls."""

_ARGUMENTS = frozenset({"arguments", "input"})
"""The members of a call in which a name is no tool's."""


def is_enforced(
    ask: CallPlan, draft: Draft | None, issues: Iterable[Issue], response: JSON
) -> bool:
    """Return whether one of the faults of a reply is enforced.

    A fault inside of a call is one of its tool. Any other is one of each tool that the reply calls,
    in whatever form, and of the one that it had to call: a call of a reply that was cut is no
    better than the reply.
    """
    if not ask.enforced:
        return ask.enforced is None

    # in a text nothing says which tool was meant, where it cannot be read
    if ask.contract.channel == "text":
        return True

    draft = ask.wire.draft_in(response) if draft is None else draft
    calls = () if draft is None else draft.calls
    faulty: set[int] = set()
    for issue in issues:
        index = _call_index(issue)
        if index is None or index >= len(calls) or not isinstance(calls[index].name, str):
            if _concerns(ask, draft, response):
                return True
            continue

        faulty.add(index)
        is_shared = issue.code == Code.CALL_ID_DUPLICATE.value
        of_issue = _sharing(calls, index) if is_shared else (calls[index],)
        if any(_may_mean(ask, call.name) for call in of_issue):
            return True

    # behind so many faulty calls no more were read
    unread = calls[max(faulty) + 1 :] if len(faulty) >= MAX_FAULTY_CALLS else ()
    return any(_may_mean(ask, call.name) for call in unread)


def calls_enforced(ask: CallPlan, draft: Draft) -> bool:
    """Return whether a reply calls an enforced tool."""
    return any(_may_mean(ask, call.name) for call in draft.calls)


def _concerns(ask: CallPlan, draft: Draft | None, response: JSON) -> bool:
    """Return whether a fault of a whole reply is one of an enforced tool."""
    if not (ask.enforced or frozenset()).isdisjoint(_demanded(ask)):
        return True
    if draft is not None and (calls_enforced(ask, draft) or _spells(ask, draft.text or "")):
        return True

    return any(_may_mean(ask, name) for name in _names_in(ask, response))


def _may_mean(ask: CallPlan, name: object) -> bool:
    """Return whether the name of a call may be meant for an enforced tool, however it is spelt."""
    enforced = ask.enforced or frozenset()
    if not isinstance(name, str) or name in enforced:
        return name in enforced
    if name in ask.contract.by_name:
        return False

    letters = _letters(name)
    if any(_letters(one) in letters for one in enforced):
        return True

    known = sorted(enforced, key=str) + list(ask.contract.callable_names)
    return nearest(name[:MAX_NAME_CHARS], known, Work(), cutoff=NEAR) in enforced


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold() or name


def _spells(ask: CallPlan, text: str) -> bool:
    """Return whether a text holds a call of an enforced tool, or the beginning of one."""
    watch = watch_of(ask.contract)
    enforced = ask.enforced or frozenset()
    if watch is None or not any(name in text for name in enforced):
        return False
    if is_call(text, enforced):
        return True

    begun = text[watch.feed(text) :]
    return any(name in begun for name in enforced)


def _names_in(ask: CallPlan, response: JSON) -> Iterator[JSON]:
    """Yield the names of all that may be a call in a response, in whatever form."""
    at = pointer_tokens(ask.wire.reply_at)[:1]
    pending = [response]
    if at and isinstance(response, dict):
        pending = [response.get(at[0])]

    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            yield value.get("name")
            pending += (inner for name, inner in value.items() if name not in _ARGUMENTS)


def _sharing(calls: tuple[DraftCall, ...], index: int) -> tuple[DraftCall, ...]:
    """Return the calls with the id of one of them, to all of which a result would be attached."""
    return tuple(call for call in calls if call.id == calls[index].id)


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
