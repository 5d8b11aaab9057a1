"""Constrained retries: which faults a grammar excludes, and calls requested as answers.

Servers that decode with a grammar make a reply fit the schema of ``response_format``. If a required
call is missing, the correction requests the JSON union of the text channel in that form, and reads
the reply as the native call that it describes.
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
"""The steps that constrain a reply, as named in attempts."""

READ_AS_CALL: Final = "constrained_call"
"""The name of the lenient step that reads an answer as a call."""

_CALL_KEYS = {"tool", "args"}
_ANSWER_KEYS = {"answer"}

_OF_GRAMMAR = ("json.", "shape.", "tool.", "call.", "reply.empty", "reply.content")
"""The beginnings of codes that the text channel's schema excludes, in addition to schema rules."""

_LOST_CALLS = frozenset({Code.CALL_AS_TEXT.value, Code.CALL_MISSING.value})
"""The faults of a reply in which the model meant a call, but did not make one."""

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
"""Faults that a reply cannot have if its decoding was constrained by its schema.

Incomplete JSON is not among them, because the reply may be cut off, and neither is a duplicate key,
which some grammars allow.
"""


def is_of_grammar(issues: Iterable[Issue]) -> bool:
    """Return whether constrained decoding would exclude one of the faults of a text."""
    return any(issue.code.startswith(_OF_GRAMMAR) for issue in issues)


def is_lost_call(issues: Iterable[Issue]) -> bool:
    """Return whether the model meant a call, but did not make one."""
    return any(issue.code in _LOST_CALLS for issue in issues)


def is_broken_call(issues: Collection[Issue]) -> bool:
    """Return whether only the form of calls is wrong, or meant calls are missing."""
    return bool(issues) and all(
        issue.code in _LOST_CALLS
        or (issue.path.startswith(CALLS_PLACE) and issue.code.startswith(("json.", "shape.")))
        for issue in issues
    )


def is_missing_call(contract: Contract, issues: Iterable[Issue], own: Draft) -> bool:
    """Return whether a required call is missing.

    It is also missing from prose that was cut off at the token limit.
    """
    codes = {issue.code for issue in issues}
    is_demanded = contract.choice not in {"auto", "none"} or contract.answer_style == "tool"
    is_instead = Code.TOOL_SWITCHED.value in codes or (is_demanded and is_cut_prose(issues, own))
    return Code.TOOL_REQUIRED.value in codes or (is_instead and not own.calls)


def is_cut_prose(issues: Iterable[Issue], own: Draft) -> bool:
    """Return whether a text was cut off at the token limit before it began an object."""
    is_cut = any(issue.code == Code.REPLY_TRUNCATED.value for issue in issues)
    return is_cut and bool(own.text) and not str(own.text).lstrip().startswith("{")


def unheld_by(attempts: Iterable[Attempt]) -> frozenset[str]:
    """Return the constraints that a server accepted and then ignored."""
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
    """Return whether a call can be requested as a constrained answer.

    It cannot if the text could not express the call: for tools with free text or in a namespace, or
    for a subclass of Answer that judges calls itself. It cannot, either, if the server stores the
    reply for the caller's next request.
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

    The tools are left out, because some servers accept no format next to tools. Only if the
    conversation ``has_calls`` they are sent, and forbidden: some APIs reject calls without tools.
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
    """Return a reply with its calls written as the requested text."""
    if not draft.calls:
        return draft

    written = [f'{{"tool":{compact(call.name)},"args":{call.arguments}}}' for call in draft.calls]
    return Draft(text="\n".join(written))


def read_union(contract: Contract, draft: Draft, taken: Collection[str]) -> Draft | Invalid:
    """Read a text as the call or the answer that it describes.

    ``contract`` is the contract of the request; ``taken`` are the ids of earlier calls. The caller
    judges the call like any native one. Return the same draft if there is no text, Invalid if the
    text is neither a call nor an answer.
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
