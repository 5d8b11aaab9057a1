"""The one judge: from a response, a message or a text to the verdict on it.

Pure, no user checks, no I/O.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from strictreply.contract._answer import Answer
from strictreply.contract._channels import (
    judge_args,
    judge_content,
    judge_input,
    judge_name,
    judge_text,
)
from strictreply.contract._spelled_calls import is_call, may_become_call
from strictreply.reading._decoding import decode, extract
from strictreply.values._issues import Code, Issue, pointer, quote
from strictreply.values._limits import JSONObject, Work, utf8_size
from strictreply.values._replies import DirectAnswer, Invalid, ToolCall, ToolCalls, Valid, Verdict
from strictreply.wires import wire_of
from strictreply.wires._opening import Opened, Wire, peek

if TYPE_CHECKING:
    from strictreply.contract._contract import Contract

MAX_FAULTY_CALLS = 8
_CALL_SHAPE = 'an object {"id", "type": "function", "function": {"name", "arguments"}}'


def judge(contract: Contract, response: object, wire: Wire | None = None) -> Verdict:
    """Judge a response or a message without user checks and I/O.

    Where ``wire`` is None its form decides the API.
    """
    opened = opened_for(contract, response, wire or wire_of(response))
    return opened if isinstance(opened, Invalid) else judge_opened(contract, opened)


def opened_for(contract: Contract, response: object, wire: Wire) -> Opened | Invalid:
    """Open a response, its message in the API's own form where the contract reads the known ways of servers."""
    if contract.dialects == "strict":
        return wire.opened(response, None)
    tools = contract.by_name
    return wire.opened(
        response, lambda name: name in tools and not tools[name].parameters.check({})
    )


def judge_reply(contract: Contract, reply: object, wire: Wire | None = None) -> Verdict:
    """Judge whatever a user may hold in hand: a text, a message or a response."""
    if not isinstance(reply, str | bytes):
        return judge(contract, reply, wire)
    if contract.channel == "text":
        return judge_text(contract, reply, Work())
    value = decode(reply, contract.limits, names=contract.names)
    return value if isinstance(value, Invalid) else judge(contract, value, wire)


def judge_opened(contract: Contract, opened: Opened) -> Verdict:
    """Judge the message inside a response that was already opened.

    All of it shares one budget of work.
    """
    if opened.served and contract.choice == "required":  # a tool was called
        contract = contract.with_choice("auto")

    if contract.channel == "text":
        verdict = judge_content(contract, opened.message, Work())
    else:
        verdict = judge_message(contract, opened.message, Work())
        verdict = (
            without_promised_call(contract, opened.message, verdict) if opened.promised else verdict
        )

    verdict = _with_server_calls(opened, verdict) if opened.server_calls else verdict
    if opened.medium and isinstance(verdict, Invalid) and _may_be_another_medium(contract, verdict):
        verdict = Valid(DirectAnswer(""), (f"unjudged_{opened.medium}",))

    steps = opened.leniency

    if contract.unchecked and isinstance(verdict, Valid):
        called = dict.fromkeys(
            call.tool for call in verdict.reply.calls if call.tool in contract.unchecked
        )
        steps = (*steps, *(f"unchecked_{tool}" for tool in called))

    return replace(verdict, leniency=(*steps, *verdict.leniency)) if steps else verdict


def _with_server_calls(opened: Opened, verdict: Verdict) -> Verdict:
    """Add calls of tools that only the API knows: only what stands beside them is judged."""
    if isinstance(verdict, Invalid) and peek(opened.message, "tool_calls"):
        return verdict
    calls = (*opened.server_calls, *(() if isinstance(verdict, Invalid) else verdict.reply.calls))
    return Valid(calls[0] if len(calls) == 1 else ToolCalls(calls), verdict.leniency)


def _may_be_another_medium(contract: Contract, verdict: Invalid) -> bool:
    """Return whether nothing is wrong but that there is no text, where any text would do."""
    is_empty = all(issue.code == Code.REPLY_EMPTY.value for issue in verdict.issues)
    return is_empty and contract.answer.is_text and _tool_required(contract) is None


def judge_message(contract: Contract, message: object, work: Work) -> Verdict:
    """Judge calls when there are any, else the content as an answer.

    A kind of answer may judge both itself.
    """
    own = contract.answer.judge_message(message) if contract.answer_style == "union" else None
    if own is not None:
        return _narrowed(contract, own, work)
    if peek(message, "function_call"):
        return Invalid((Issue.of(Code.CALL_MALFORMED, "/function_call", expected="in tool_calls"),))

    calls = peek(message, "tool_calls")
    if calls is None or calls in ([], ()):
        return judge_answer(contract, peek(message, "content"), work)

    if not isinstance(calls, list | tuple):
        return Invalid(
            (
                Issue.of(
                    Code.CALL_MALFORMED, "/tool_calls", expected="in an array", found=quote(calls)
                ),
            )
        )

    if len(calls) > contract.limits.calls:
        return Invalid((Issue.of(Code.TOOL_TOO_MANY, "/tool_calls", limit=contract.limits.calls),))

    # the calls of one message share its cap
    if (
        sum(utf8_size(peek(peek(call, "function"), "arguments")) for call in calls)
        > contract.limits.reply_bytes
    ):
        return Invalid(
            (Issue.of(Code.JSON_TOO_LARGE, "/tool_calls", limit=contract.limits.reply_bytes),)
        )

    large = _too_large(
        contract, peek(message, "content")
    )  # what stands beside calls joins the conversation too
    return Invalid((large,)) if large is not None else _judge_calls(contract, calls, work)


def _narrowed(contract: Contract, verdict: Verdict, work: Work) -> Verdict:
    """Hold a verdict of the answer's own to what this one request demands: a tool, no tool, or one call at most."""
    if isinstance(verdict, Invalid):
        return verdict

    calls = contract.calls_in(verdict.reply)
    issues: list[Issue] = []

    for index, call in enumerate(calls):
        issues += judge_name(
            contract, call.tool, pointer("/tool_calls", index, "function", "name"), work
        )

    if len(calls) > 1 and not contract.parallel:
        issues.append(Issue.of(Code.TOOL_SEVERAL, "/tool_calls"))

    if (
        isinstance(verdict.reply, DirectAnswer)
        and (required := _tool_required(contract)) is not None
    ):
        issues.append(required)

    return Invalid(tuple(issues), verdict.leniency) if issues else verdict


def judge_answer(contract: Contract, content: object, work: Work) -> Verdict:
    """Judge the content of a message without calls as a direct answer."""
    if content is None or content == "":
        return Invalid((Issue.of(Code.REPLY_EMPTY),))
    if not isinstance(content, str):
        return Invalid((Issue.of(Code.REPLY_CONTENT, "/content", found=quote(content)),))
    if (required := _tool_required(contract)) is not None:
        return Invalid((required,))

    text = content
    schema = contract.answer.schema
    named = schema is not None and bool(schema.names)  # its members tell an answer from a call
    verdict = (
        _judge_text(contract, text, work) if named or not _is_call_as_text(contract, text) else None
    )
    if verdict is None or (
        named and isinstance(verdict, Invalid) and _is_call_as_text(contract, text)
    ):
        return Invalid((Issue.of(Code.CALL_AS_TEXT, "/content", found=quote(text)),))

    return verdict


def _judge_text(contract: Contract, text: str, work: Work) -> Verdict:
    """Judge a text as the answer that the contract declares: any text, or JSON by its schema."""
    if contract.answer.schema is None:
        if (large := _too_large(contract, text)) is not None:
            return Invalid((large,))
        answer = contract.answer.judge(text, "/content", work)
        return answer if isinstance(answer, Invalid) else Valid(DirectAnswer(answer))

    cut, steps = extract(text, contract.extraction, contract.limits)
    value = decode(cut, contract.limits, at="/content", names=contract.names, work=work)
    answer = value if isinstance(value, Invalid) else contract.answer.judge(value, "/content", work)

    return (
        Invalid(answer.issues, steps)
        if isinstance(answer, Invalid)
        else Valid(DirectAnswer(answer), steps)
    )


def _too_large(contract: Contract, content: object) -> Issue | None:
    limit = contract.limits.reply_bytes
    return (
        Issue.of(Code.REPLY_TOO_LARGE, "/content", limit=limit)
        if utf8_size(content) > limit
        else None
    )


def without_promised_call(contract: Contract, message: object, verdict: Verdict) -> Verdict:
    """Refuse an answer where the response ended to call a tool, and the call is not there: it was lost on the way."""
    if isinstance(verdict, Invalid) or not contract.tools or peek(message, "tool_calls"):
        return verdict
    return Invalid((Issue.of(Code.CALL_MISSING, "/tool_calls"),), verdict.leniency)


def with_fresh_ids(message: object, verdict: Verdict, taken: Container[object]) -> Verdict:
    """Refuse calls that have the id of an earlier call of their conversation: results are attached by it."""
    calls = peek(message, "tool_calls")
    ids = [peek(call, "id") for call in calls[:MAX_FAULTY_CALLS]] if isinstance(calls, list) else []
    issues = list(verdict.issues) if isinstance(verdict, Invalid) else []

    for index, id_ in enumerate(ids):
        if isinstance(id_, str) and id_ in taken:
            issues.append(
                Issue.of(
                    Code.CALL_ID_DUPLICATE, pointer("/tool_calls", index, "id"), found=quote(id_)
                )
            )

    return Invalid(tuple(issues), verdict.leniency) if issues else verdict


def counts_anew(ids: list[str]) -> bool:
    """Return whether the server of a conversation counts its ids anew in every reply: some repeat, or were numbered."""
    known = set(ids)
    parts = (id_.rpartition(".") for id_ in known)
    return len(known) < len(ids) or any(
        stem in known and number.isdecimal() for stem, _, number in parts
    )


def with_numbered_ids(message: JSONObject, taken: Container[str]) -> JSONObject:
    """Number the ids that earlier calls of the conversation have (``call_1.2``).

    The same message where none does.
    """
    calls = message.get("tool_calls")
    numbered = list(calls) if isinstance(calls, list) else []
    ids = [peek(call, "id") for call in numbered]
    for index, id_ in enumerate(ids):
        if isinstance(numbered[index], dict) and isinstance(id_, str) and id_ in taken:
            free = next(
                free for n in count(2) if (free := f"{id_}.{n}") not in taken and free not in ids
            )
            numbered[index] = {**numbered[index], "id": free}

    return {**message, "tool_calls": numbered} if numbered and numbered != calls else message


def _is_call_as_text(contract: Contract, text: str) -> bool:
    """Return whether a model wrote a call as its answer.

    An answer that is more than a schema judges that itself.
    """
    return (
        _refuses_spelled(contract)
        and len(text) <= contract.limits.reply_bytes
        and is_call(text, contract.by_name)
    )


def text_may_be_call(contract: Contract, beginning: str) -> bool:
    """Return whether a text that begins so may turn out to be a call that is refused as an answer."""
    return _refuses_spelled(contract) and may_become_call(beginning, contract.by_name)


def _refuses_spelled(contract: Contract) -> bool:
    barred = (
        contract.calls_as_text != "answer"
        and contract.choice != "none"
        and type(contract.answer) is Answer
    )
    return barred and bool(contract.tools)


def _tool_required(contract: Contract) -> Issue | None:
    """Report that the choice demands a call; None when it does not."""
    if contract.choice in {"auto", "none"} and contract.answer_style == "union":
        return None
    return Issue.of(Code.TOOL_REQUIRED, "/tool_calls", names=contract.tool_list or "final_answer")


def _judge_calls(
    contract: Contract, calls: list[object] | tuple[object, ...], work: Work
) -> Verdict:
    """Judge every call and the set of them.

    All faults are collected, but after 8 faulty calls no more is read.
    """
    issues: list[Issue] = list(_id_issues(calls, contract.limits.id_bytes))

    if len(calls) > 1 and not contract.parallel:
        issues.append(Issue.of(Code.TOOL_SEVERAL, "/tool_calls"))

    judged: list[ToolCall | DirectAnswer] = []
    for index, call in enumerate(calls):
        if index - len(judged) >= MAX_FAULTY_CALLS:
            break

        outcome = _judge_call(contract, call, pointer("/tool_calls", index), work)
        if isinstance(outcome, Invalid):
            issues += outcome.issues
        else:
            judged.append(outcome)

    if issues:
        return Invalid(tuple(issues))
    if len(judged) == 1:
        return Valid(judged[0])

    answered = [call for call in judged if isinstance(call, ToolCall)]
    if len(answered) < len(judged):  # an answer does not stand beside calls (requirement T6)
        return Invalid((Issue.of(Code.SHAPE_BOTH, "/tool_calls"),))

    return Valid(ToolCalls(tuple(answered)))


def _id_issues(calls: list[object] | tuple[object, ...], cap: int) -> list[Issue]:
    """Report missing, repeated and overlong call ids: results are attached by them, and later requests repeat them."""
    issues: list[Issue] = []
    seen: set[str] = set()

    for index, call in enumerate(calls):
        id_ = peek(call, "id")
        at = pointer("/tool_calls", index, "id")

        if not isinstance(id_, str) or not id_.strip():
            issues.append(Issue.of(Code.CALL_ID_MISSING, at, found=quote(id_)))
        elif id_ in seen:
            issues.append(Issue.of(Code.CALL_ID_DUPLICATE, at, found=quote(id_)))
        else:
            seen.add(id_)
            issues += (
                [Issue.of(Code.CALL_ID_TOO_LONG, at, limit=cap)] if utf8_size(id_) > cap else []
            )

    return issues


def _judge_call(
    contract: Contract, call: object, at: str, work: Work
) -> ToolCall | DirectAnswer | Invalid:
    kind = str(peek(call, "type"))
    function = peek(call, kind) if kind in {"function", "custom"} else None
    name = peek(function, "name")
    is_text = kind == "custom"

    tool = contract.by_name.get(name) if isinstance(name, str) else None
    fits = (
        contract.takes_text or not is_text if tool is None else (tool.custom is not None) is is_text
    )
    if function is None or not fits:
        return Invalid((Issue.of(Code.CALL_MALFORMED, at, expected=_CALL_SHAPE),))

    issues = judge_name(contract, name, pointer(at, kind, "name"), work)
    if issues:
        return Invalid(issues)

    id_ = held if isinstance(held := peek(call, "id"), str) else None

    if kind == "custom":
        text = peek(function, "input")
        return judge_input(
            contract, str(name), text, at=pointer(at, "custom", "input"), call_id=id_, work=work
        )

    at = pointer(at, "function", "arguments")
    names = (
        contract.names if tool is None else tool.parameters.names
    )  # without a tool it is the answer
    args = decode(peek(function, "arguments"), contract.limits, at=at, names=names, work=work)

    return (
        args
        if isinstance(args, Invalid)
        else judge_args(contract, str(name), args, at=at, call_id=id_, work=work)
    )
