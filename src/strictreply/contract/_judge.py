"""Judges a response, a draft or a text: the only place where verdicts are made.

It is pure: no user checks, no I/O.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from strictreply.contract._answer import Answer
from strictreply.contract._call_watch import CallWatch
from strictreply.contract._channels import (
    judge_args,
    judge_content,
    judge_input,
    judge_name,
    judge_text,
)
from strictreply.contract._spelled_calls import is_call
from strictreply.reading._decoding import decode, extract
from strictreply.values._drafts import (
    CALLS_PLACE,
    TEXT_PLACE,
    Draft,
    DraftCall,
    arguments_place,
    call_place,
    id_place,
    input_place,
    name_place,
)
from strictreply.values._issues import Code, Issue, quote
from strictreply.values._limits import Work, utf8_size
from strictreply.values._replies import DirectAnswer, Invalid, ToolCall, ToolCalls, Valid, Verdict
from strictreply.wires import wire_of
from strictreply.wires._declared_tools import called_name
from strictreply.wires._dialects import ANSWER_OBJECT
from strictreply.wires._wire import Opened, Wire

if TYPE_CHECKING:
    from strictreply.contract._contract import Contract

MAX_FAULTY_CALLS = 8
_CALL_SHAPE = 'an object {"id", "type": "function", "function": {"name", "arguments"}}'


def judge(contract: Contract, response: object, wire: Wire | None = None) -> Verdict:
    """Return the verdict on a response or a message, without user checks and I/O.

    If ``wire`` is None, the form of the response decides about its API.
    """
    opened = opened_for(contract, response, wire or wire_of(response))
    return opened if isinstance(opened, Invalid) else judge_opened(contract, opened)


def opened_for(contract: Contract, response: object, wire: Wire) -> Opened | Invalid:
    """Return the draft in a response, with calls named as in the contract, or why there is none.

    If the contract accepts known deviations of servers, the draft has the form of the API.
    """
    tools = contract.by_name
    if contract.dialects == "strict":
        opened = wire.opened(response, None)
    else:
        opened = wire.opened(
            response, lambda name: name in tools and not tools[name].parameters.check({})
        )

    if isinstance(opened, Invalid):
        return opened

    return _with_known_names(opened, contract.callable_names)


def _with_known_names(opened: Opened, names: Container[str]) -> Opened:
    """Return the opened reply with calls named as in the contract.

    The namespace of a call is part of its name if several tools have that name, or if the namespace
    has no such tool.
    """
    calls = opened.draft.calls
    if not any(call.namespace for call in calls):
        return opened

    named = tuple(
        replace(call, name=called_name(call.name, call.namespace, names)) for call in calls
    )
    if named == calls:
        return opened

    return replace(opened, draft=replace(opened.draft, calls=named), is_exact=False)


def judge_reply(contract: Contract, reply: object, wire: Wire | None = None) -> Verdict:
    """Return the verdict on a text, a message or a response."""
    if not isinstance(reply, str | bytes):
        return judge(contract, reply, wire)
    if contract.channel == "text":
        return judge_text(contract, reply, Work())

    value = decode(reply, contract.limits, names=contract.names)
    return value if isinstance(value, Invalid) else judge(contract, value, wire)


def judge_opened(contract: Contract, opened: Opened) -> Verdict:
    """Return the verdict on the draft of a response that :func:`opened_for` returned.

    The whole draft shares one budget of work.
    """
    if opened.is_paused:
        return Invalid((Issue.of(Code.REPLY_PAUSED),))
    if opened.served and contract.choice == "required":  # a tool was called
        contract = contract.with_choice("auto")

    if ANSWER_OBJECT in opened.lenient and not _answers_in_json(contract):
        verdict: Verdict = Invalid((Issue.of(Code.REPLY_CONTENT, TEXT_PLACE),))
    elif contract.channel == "text":
        verdict = judge_content(contract, opened.draft, Work())
    else:
        verdict = judge_draft(contract, opened.draft, Work())
        if opened.promised:
            verdict = without_promised_call(contract, opened.draft, verdict)

    if opened.server_calls:
        verdict = _with_server_calls(opened, verdict)

    if opened.medium and isinstance(verdict, Invalid) and _may_be_another_medium(contract, verdict):
        verdict = Valid(DirectAnswer(""), (f"unjudged_{opened.medium}",))

    steps = opened.lenient
    if contract.unchecked and isinstance(verdict, Valid):
        called = dict.fromkeys(call.tool for call in verdict.reply.calls)
        steps += tuple(f"unchecked_{tool}" for tool in called if tool in contract.unchecked)

    return replace(verdict, lenient=(*steps, *verdict.lenient)) if steps else verdict


def _answers_in_json(contract: Contract) -> bool:
    return contract.channel == "text" or (
        contract.answer_style == "union" and not contract.answer.is_text
    )


def _with_server_calls(opened: Opened, verdict: Verdict) -> Verdict:
    """Add the calls of the API's own tools to a verdict; only the rest of the reply is judged."""
    calls = opened.server_calls
    if isinstance(verdict, Valid):
        calls = (*calls, *verdict.reply.calls)
    elif opened.draft.calls:
        return verdict

    return Valid(calls[0] if len(calls) == 1 else ToolCalls(calls), verdict.lenient)


def _may_be_another_medium(contract: Contract, verdict: Invalid) -> bool:
    """Return whether the only fault is that there is no text, and any text would be accepted."""
    is_empty = all(issue.code == Code.REPLY_EMPTY.value for issue in verdict.issues)
    return is_empty and contract.answer.is_text and _tool_required(contract) is None


def judge_draft(contract: Contract, draft: Draft, work: Work) -> Verdict:
    """Judge the calls if there are any, else the text as an answer.

    A subclass of Answer may judge both itself.
    """
    own = contract.answer.judge_draft(draft) if contract.answer_style == "union" else None
    if own is not None:
        return _narrowed(contract, own, work)
    if draft.fault is not None:
        return Invalid((draft.fault,))

    calls = draft.calls
    if not calls:
        return judge_answer(contract, draft, work)

    limits = contract.limits
    if len(calls) > limits.calls:
        return Invalid((Issue.of(Code.TOOL_TOO_MANY, CALLS_PLACE, limit=limits.calls),))

    # the calls of one reply share its cap
    size = sum(utf8_size(call.arguments) for call in calls if not call.is_text)
    if size > limits.reply_bytes:
        return Invalid((Issue.of(Code.JSON_TOO_LARGE, CALLS_PLACE, limit=limits.reply_bytes),))

    # text next to calls becomes part of the conversation, too
    large = _too_large(contract, draft.text)
    return Invalid((large,)) if large is not None else _judge_calls(contract, calls, work)


def _narrowed(contract: Contract, verdict: Verdict, work: Work) -> Verdict:
    """Apply the demands of this request to a verdict that the answer made itself.

    They are a required tool, no tool, or at most one call.
    """
    if isinstance(verdict, Invalid):
        return verdict

    calls = contract.calls_in(verdict.reply)
    issues: list[Issue] = []

    for index, call in enumerate(calls):
        issues += judge_name(contract, call.tool, name_place(index), work)

    if len(calls) > 1 and not contract.parallel:
        issues.append(Issue.of(Code.TOOL_SEVERAL, CALLS_PLACE))

    is_answer = isinstance(verdict.reply, DirectAnswer)
    if is_answer and (required := _tool_required(contract)) is not None:
        issues.append(required)

    return Invalid(tuple(issues), verdict.lenient) if issues else verdict


def judge_answer(contract: Contract, draft: Draft, work: Work) -> Verdict:
    """Judge the text of a draft without calls as a direct answer."""
    if draft.other is not None:
        return Invalid((Issue.of(Code.REPLY_CONTENT, TEXT_PLACE, found=quote(draft.other)),))

    text = draft.text
    if not text:
        return Invalid((Issue.of(Code.REPLY_EMPTY),))
    if (required := _tool_required(contract)) is not None:
        return Invalid((required,))

    # a schema with members distinguishes an answer from a call, so the answer is judged first
    schema = contract.answer.schema
    has_names = schema is not None and bool(schema.names)
    if not has_names and _is_call_as_text(contract, text):
        return _call_as_text(text)

    verdict = _judge_text(contract, text, work)
    if has_names and isinstance(verdict, Invalid) and _is_call_as_text(contract, text):
        return _call_as_text(text)

    return verdict


def _call_as_text(text: str) -> Invalid:
    return Invalid((Issue.of(Code.CALL_AS_TEXT, TEXT_PLACE, found=quote(text)),))


def _judge_text(contract: Contract, text: str, work: Work) -> Verdict:
    """Judge a text as an answer: any text, or JSON with the contract's schema."""
    if contract.answer.schema is None:
        if (large := _too_large(contract, text)) is not None:
            return Invalid((large,))

        answer = contract.answer.judge(text, TEXT_PLACE, work)
        return answer if isinstance(answer, Invalid) else Valid(DirectAnswer(answer))

    cut, steps = extract(text, contract.extraction, contract.limits)
    value = decode(cut, contract.limits, at=TEXT_PLACE, names=contract.names, work=work)
    answer = value if isinstance(value, Invalid) else contract.answer.judge(value, TEXT_PLACE, work)
    if isinstance(answer, Invalid):
        return Invalid(answer.issues, steps)

    return Valid(DirectAnswer(answer), steps)


def _too_large(contract: Contract, text: str | None) -> Issue | None:
    limit = contract.limits.reply_bytes
    if utf8_size(text) <= limit:
        return None
    return Issue.of(Code.REPLY_TOO_LARGE, TEXT_PLACE, limit=limit)


def without_promised_call(contract: Contract, draft: Draft, verdict: Verdict) -> Verdict:
    """Reject an answer whose response announced a call when it ended: the call was lost."""
    if isinstance(verdict, Invalid) or not contract.tools or draft.calls:
        return verdict
    return Invalid((Issue.of(Code.CALL_MISSING, CALLS_PLACE),), verdict.lenient)


def with_fresh_ids(draft: Draft, verdict: Verdict, taken: Container[str]) -> Verdict:
    """Reject calls with the id of an earlier call of their conversation.

    Results refer to calls by their ids.
    """
    issues = list(verdict.issues) if isinstance(verdict, Invalid) else []

    for index, call in enumerate(draft.calls[:MAX_FAULTY_CALLS]):
        if isinstance(call.id, str) and call.id in taken:
            found = quote(call.id)
            issues.append(Issue.of(Code.CALL_ID_DUPLICATE, id_place(index), found=found))

    return Invalid(tuple(issues), verdict.lenient) if issues else verdict


def counts_anew(ids: list[str]) -> bool:
    """Return whether the server of a conversation restarts its ids in every reply.

    It does if some ids repeat, or if :func:`with_numbered_ids` made them.
    """
    known = set(ids)
    if len(known) < len(ids):
        return True

    parts = (id_.rpartition("-") for id_ in known)
    return any(stem in known and number.isdecimal() for stem, _, number in parts)


def with_numbered_ids(draft: Draft, taken: Container[str]) -> Draft:
    """Return the draft with a number added to each id of an earlier call (``call_1-2``).

    The ids keep to letters, digits, ``_`` and ``-``, because Anthropic accepts no others. The same
    draft is returned if no id is taken.
    """
    numbered = list(draft.calls)
    ids = [call.id for call in numbered]

    for index, id_ in enumerate(ids):
        if isinstance(id_, str) and id_ in taken:
            candidates = (f"{id_}-{number}" for number in count(2))
            free = next(one for one in candidates if one not in taken and one not in ids)
            numbered[index] = replace(numbered[index], id=free)

    calls = tuple(numbered)
    return draft if calls == draft.calls else replace(draft, calls=calls)


def _is_call_as_text(contract: Contract, text: str) -> bool:
    """Return whether the model wrote a call as its answer.

    A subclass of Answer decides that itself.
    """
    if not _refuses_spelled(contract) or len(text) > contract.limits.reply_bytes:
        return False
    return is_call(text, contract.by_name)


def watch_of(contract: Contract, *, holds_first: bool = True) -> CallWatch | None:
    """Return a watch that finds calls in arriving text; None if they are accepted as text."""
    if not _refuses_spelled(contract):
        return None

    return CallWatch(contract.by_name, holds_first=holds_first)


def _refuses_spelled(contract: Contract) -> bool:
    if contract.text_calls == "answer" or contract.choice == "none":
        return False
    return type(contract.answer) is Answer and bool(contract.tools)


def _tool_required(contract: Contract) -> Issue | None:
    """Return the issue that a call is required; None if it is not."""
    if contract.choice in {"auto", "none"} and contract.answer_style == "union":
        return None
    return Issue.of(Code.TOOL_REQUIRED, CALLS_PLACE, names=contract.tool_list or "final_answer")


def _judge_calls(contract: Contract, calls: tuple[DraftCall, ...], work: Work) -> Verdict:
    """Judge every call, and all calls together.

    All faults are collected, until 8 calls are invalid.
    """
    issues: list[Issue] = list(_id_issues(calls, contract.limits.id_bytes))
    if len(calls) > 1 and not contract.parallel:
        issues.append(Issue.of(Code.TOOL_SEVERAL, CALLS_PLACE))

    judged: list[ToolCall | DirectAnswer] = []
    for index, call in enumerate(calls):
        if index - len(judged) >= MAX_FAULTY_CALLS:
            break

        outcome = _judge_call(contract, call, index, work)
        if isinstance(outcome, Invalid):
            issues += outcome.issues
        else:
            judged.append(outcome)

    if issues:
        return Invalid(tuple(issues))
    if len(judged) == 1:
        return Valid(judged[0])

    answered = [call for call in judged if isinstance(call, ToolCall)]
    if len(answered) < len(judged):  # an answer excludes other calls
        return Invalid((Issue.of(Code.SHAPE_BOTH, CALLS_PLACE),))

    return Valid(ToolCalls(tuple(answered)))


def _id_issues(calls: tuple[DraftCall, ...], cap: int) -> list[Issue]:
    """Return the issues of missing, repeated and overlong call ids.

    Results refer to calls by their ids, and later requests repeat the ids.
    """
    issues: list[Issue] = []
    seen: set[str] = set()

    for index, call in enumerate(calls):
        id_ = call.id
        at = id_place(index)

        if not isinstance(id_, str) or not id_.strip():
            issues.append(Issue.of(Code.CALL_ID_MISSING, at, found=quote(id_)))
        elif id_ in seen:
            issues.append(Issue.of(Code.CALL_ID_DUPLICATE, at, found=quote(id_)))
        else:
            seen.add(id_)
            if utf8_size(id_) > cap:
                issues.append(Issue.of(Code.CALL_ID_TOO_LONG, at, limit=cap))

    return issues


def _judge_call(
    contract: Contract, call: DraftCall, index: int, work: Work
) -> ToolCall | DirectAnswer | Invalid:
    name = call.name
    tool = contract.by_name.get(name) if isinstance(name, str) else None
    if tool is None:
        fits = contract.takes_text or not call.is_text
    else:
        fits = (tool.origin.custom is not None) is call.is_text

    if not call.is_whole or not fits:
        malformed = Issue.of(Code.CALL_MALFORMED, call_place(index), expected=_CALL_SHAPE)
        return Invalid((malformed,))

    issues = judge_name(contract, name, name_place(index, is_text=call.is_text), work)
    if issues:
        return Invalid(issues)

    call_id = call.id if isinstance(call.id, str) else None
    if call.is_text:
        at = input_place(index)
        return judge_input(contract, str(name), call.arguments, at=at, call_id=call_id, work=work)

    at = arguments_place(index)
    # without a tool it is the answer
    names = contract.names if tool is None else tool.parameters.names
    args = decode(call.arguments, contract.limits, at=at, names=names, work=work)
    if isinstance(args, Invalid):
        return args

    return judge_args(contract, str(name), args, at=at, call_id=call_id, work=work)
