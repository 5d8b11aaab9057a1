"""Which faults are enforced if only some tools are, and which replies are passed on."""

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
"""The member of a reply whose places are inside its calls."""

_ARGUMENTS = frozenset({"arguments", "input"})
"""The members of a call in which a name is not the tool's name."""


def is_enforced(
    ask: CallPlan, draft: Draft | None, issues: Iterable[Issue], response: JSON
) -> bool:
    """Return whether one of the faults of a reply is enforced.

    A fault inside a call belongs to its tool. Any other fault belongs to every tool that the reply
    calls, in any form, and to the tool that it had to call: a call in a reply that was cut off is
    as invalid as the reply.
    """
    if not ask.enforced:
        return ask.enforced is None

    # an unreadable text does not say which tool was meant
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

    # after so many invalid calls, no more were read
    unread = calls[max(faulty) + 1 :] if len(faulty) >= MAX_FAULTY_CALLS else ()
    return any(_may_mean(ask, call.name) for call in unread)


def calls_enforced(ask: CallPlan, draft: Draft) -> bool:
    """Return whether a reply calls an enforced tool."""
    return any(_may_mean(ask, call.name) for call in draft.calls)


def _concerns(ask: CallPlan, draft: Draft | None, response: JSON) -> bool:
    """Return whether a fault of a whole reply concerns an enforced tool."""
    if not (ask.enforced or frozenset()).isdisjoint(_demanded(ask)):
        return True
    if draft is not None and (calls_enforced(ask, draft) or _spells(ask, draft.text or "")):
        return True

    return any(_may_mean(ask, name) for name in _names_in(ask, response))


def _may_mean(ask: CallPlan, name: object) -> bool:
    """Return whether the name of a call may mean an enforced tool, in any spelling."""
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
    """Return whether a text contains a call of an enforced tool, or the beginning of one."""
    watch = watch_of(ask.contract)
    enforced = ask.enforced or frozenset()
    if watch is None or not any(name in text for name in enforced):
        return False
    if is_call(text, enforced):
        return True

    begun = text[watch.feed(text) :]
    return any(name in begun for name in enforced)


def _names_in(ask: CallPlan, response: JSON) -> Iterator[JSON]:
    """Yield the names of everything that may be a call in a response, in any form."""
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
    """Return the calls that share the id of one call, and so would share its result."""
    return tuple(call for call in calls if call.id == calls[index].id)


def _demanded(ask: CallPlan) -> tuple[str, ...]:
    """Return the tools of which the reply had to call one, if all of them are enforced."""
    contract = ask.contract
    callable_ = tuple(contract.callable_names)
    if contract.choice in contract.by_name:
        return (contract.choice,)
    if contract.choice != "required" or not frozenset(callable_) <= (ask.enforced or frozenset()):
        return ()

    return callable_


def _call_index(issue: Issue) -> int | None:
    """Return the index of the call that contains a fault; None if no call does."""
    tokens = pointer_tokens(issue.path)
    is_inside = len(tokens) > 1 and tokens[0] == _IN_CALLS and tokens[1].isdigit()
    return int(tokens[1]) if is_inside else None
