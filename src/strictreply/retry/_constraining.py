"""Constrained retries: which faults a grammar excludes, and a call asked for as an answer.

Servers that decode by a grammar hold a reply to the schema of ``response_format``. Where a server
brings no call though one is demanded, the correction asks for the union of the text channel in that
form, and what comes is read as the native call that it says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, Final

from strictreply.contract._answer import Answer
from strictreply.contract._channels import (
    admits_answer,
    callable_tools,
    constraint_schema,
    instructions,
    judge_union,
)
from strictreply.contract._contract import Contract
from strictreply.reading._decoding import decode, extract
from strictreply.retry._shaping import usage_added
from strictreply.values._drafts import CALLS_PLACE, TEXT_PLACE, Draft, DraftCall
from strictreply.values._issues import Code, Issue, compact
from strictreply.values._limits import JSON, JSONObject, Work
from strictreply.values._replies import Attempt, Invalid
from strictreply.values._requests import CHOICE, FORMAT, USAGE, AnswerFormat, Choice, Request
from strictreply.wires._dialects import made_ids

FORCED_TOOL: Final = "forced_tool"
RESPONSE_FORMAT: Final = "response_format"
CONSTRAINED_CALL: Final = "constrained_call"
"""The steps that constrain a reply, as attempts name them."""

READ_AS_CALL: Final = "constrained_call"
"""The name of the lenient step that reads an answer as the call that it says."""

_CALL_KEYS = {"tool", "args"}
_ANSWER_KEYS = {"answer"}

_OF_GRAMMAR = ("json.", "shape.", "tool.", "call.", "reply.empty", "reply.content")
"""How the codes begin of what the text channel's schema excludes, beside rules of schemas."""

_LOST_CALLS = frozenset({Code.CALL_AS_TEXT.value, Code.CALL_MISSING.value})
"""The faults of a reply whose model meant a call that did not come as one."""

_UNHELD_FORMAT = frozenset(
    {
        Code.JSON_SYNTAX.value,
        Code.JSON_TRAILING_DATA.value,
        Code.JSON_SEVERAL_VALUES.value,
        Code.SHAPE_NOT_OBJECT.value,
        Code.SHAPE_MISSING_KEY.value,
        Code.SHAPE_EXTRA_KEY.value,
        Code.SHAPE_BOTH.value,
    }
)
"""Faults that no reply has whose decoding was held to its schema.

JSON that is incomplete may be a reply that was cut, and a key that comes twice fits some grammars.
"""


def is_of_grammar(issues: Iterable[Issue]) -> bool:
    """Return whether one of the faults of a text is excluded where decoding is constrained."""
    return any(issue.code.startswith(_OF_GRAMMAR) for issue in issues)


def is_lost_call(issues: Iterable[Issue]) -> bool:
    """Return whether the model meant a call, which did not come as one."""
    return any(issue.code in _LOST_CALLS for issue in issues)


def is_broken_call(issues: Collection[Issue]) -> bool:
    """Return whether nothing is wrong but the form of calls, or that these did not come as such."""
    return bool(issues) and all(
        issue.code in _LOST_CALLS
        or (issue.path.startswith(CALLS_PLACE) and issue.code.startswith(("json.", "shape.")))
        for issue in issues
    )


def is_missing_call(contract: Contract, issues: Iterable[Issue], own: Draft) -> bool:
    """Return whether a call was demanded of a reply, and none came.

    Prose that was cut at the token limit is no begun call either.
    """
    codes = {issue.code for issue in issues}
    is_demanded = contract.choice not in {"auto", "none"} or contract.answer_style == "tool"
    is_instead = Code.TOOL_SWITCHED.value in codes or (is_demanded and is_cut_prose(issues, own))
    return Code.TOOL_REQUIRED.value in codes or (is_instead and not own.calls)


def is_cut_prose(issues: Iterable[Issue], own: Draft) -> bool:
    """Return whether a text was cut at the token limit that had not begun as an object."""
    is_cut = any(issue.code == Code.REPLY_TRUNCATED.value for issue in issues)
    return is_cut and bool(own.text) and not str(own.text).lstrip().startswith("{")


def unheld_by(attempts: Iterable[Attempt]) -> frozenset[str]:
    """Return the constraints that a server took, and did not hold its replies to."""
    unheld = set[str]()
    for attempt in attempts:
        codes = {issue.code for issue in attempt.issues}
        if attempt.escalation == FORCED_TOOL and codes & _LOST_CALLS:
            unheld.add(CHOICE)

        has_format = attempt.escalation in {RESPONSE_FORMAT, CONSTRAINED_CALL}
        if has_format and codes & _UNHELD_FORMAT:
            unheld.add(FORMAT)

    return frozenset(unheld)


def can_be_answered(contract: Contract, request: Request) -> bool:
    """Return whether a call can be asked for as a constrained answer.

    It cannot where the text would say less than the call does: of tools that take free text or
    stand in a namespace, or of an answer that judges calls itself. Nor where the server keeps the
    reply as it came, for the caller's next request to build on.
    """
    has_calls = bool(callable_tools(contract)) and not contract.takes_text
    is_plain = contract.spaces is None and type(contract.answer) is Answer
    is_sent_whole = not request.is_kept and request.follows is None and not request.elsewhere
    return has_calls and is_plain and is_sent_whole and request.format is None


def add_union(
    demanded: Contract,
    request: Request,
    contract: Contract,
    unwanted: frozenset[str],
    *,
    has_calls: bool,
) -> Request:
    """Return a request for a call as a constrained answer: the union in ``response_format``.

    The tools are left out, since some servers take no format beside them. Only where the
    conversation ``has_calls`` they are sent, and forbidden: some APIs refuse calls of no tools.
    """
    added = usage_added(request, unwanted) | {FORMAT}
    tools = (contract.offered or contract.tools) if has_calls else ()
    choice = None
    if tools and CHOICE not in unwanted:
        choice = Choice("none")
        added.add(CHOICE)

    said = demanded.replace(channel="text")
    return replace(
        request,
        instructions=instructions(said),
        tools=tools,
        choice=choice,
        parallel=None,
        format=AnswerFormat("json_schema", constraint_schema(said), "reply"),
        asks_usage=USAGE in added,
        added=frozenset(added),
    )


def written_as_text(draft: Draft) -> Draft:
    """Return a reply with its calls written as the text that is asked for."""
    if not draft.calls:
        return draft

    written = [f'{{"tool":{compact(call.name)},"args":{call.arguments}}}' for call in draft.calls]
    return Draft(text="\n".join(written))


def read_union(contract: Contract, draft: Draft, taken: Collection[str]) -> Draft | Invalid:
    """Read a text as the call or the answer that it says; the same draft where there is no text.

    ``contract`` demands what was asked for; ``taken`` are the ids of the calls before. The call is
    judged by whoever asks, as any native one. Invalid for a text that says neither.
    """
    if draft.text is None or draft.calls or draft.other is not None:
        return draft

    text, _ = extract(draft.text, contract.extraction, contract.limits)
    value = decode(text, contract.limits, at=TEXT_PLACE, names=contract.names)
    if isinstance(value, Invalid):
        return value

    keys = set(value) if isinstance(value, dict) else set[str]()
    said: Any = value
    if keys == _CALL_KEYS and isinstance(said["tool"], str) and isinstance(said["args"], dict):
        return replace(draft, text=None, calls=(_call(said, taken),))
    if keys == _ANSWER_KEYS and contract.answer_style == "union" and admits_answer(contract):
        return replace(draft, text=_answer(contract, said["answer"]))

    outcome = judge_union(contract.replace(channel="text"), value, Work())
    faults = outcome.issues if isinstance(outcome, Invalid) else ()
    return Invalid(tuple(replace(issue, path=TEXT_PLACE + issue.path) for issue in faults))


def _call(said: JSONObject, taken: Collection[str]) -> DraftCall:
    id_ = next(made_ids(said, set(taken)))
    return DraftCall(said["tool"], compact(said["args"]), id_)


def _answer(contract: Contract, answer: JSON) -> str:
    is_text = contract.answer.schema is None and isinstance(answer, str)
    return str(answer) if is_text else compact(answer)
