"""The text channel: the whole content is one JSON object, a tool call or an answer (requirements T1 to T14)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from strictreply.contract._judge_call import args_shape, extra_keys, judge_args, judge_name
from strictreply.reading._decoding import decode
from strictreply.reading._extraction import extract
from strictreply.schema import Schema
from strictreply.values._issues import Code, Issue, came_words, pointer, quote
from strictreply.values._json import JSON
from strictreply.values._limits import Work
from strictreply.values._replies import DirectAnswer, Invalid, ToolCall, Valid, Verdict
from strictreply.wires._dialects import text_in
from strictreply.wires._opening import peek

if TYPE_CHECKING:
    from strictreply.contract._contract import Contract

_CALL_KEYS = {"tool": "a string", "args": "an object"}


def judge_content(contract: Contract, message: object, work: Work) -> Verdict:
    """Judge the content of a message; native calls have no place in this channel."""
    if peek(message, "tool_calls") or peek(message, "function_call"):
        return Invalid((Issue.of(Code.CALL_MALFORMED, "/tool_calls", expected="a JSON object in the content"),))
    content = peek(message, "content")
    if content is None:
        return Invalid((Issue.of(Code.REPLY_EMPTY),))
    if not isinstance(content, str):
        return Invalid((Issue.of(Code.REPLY_CONTENT, found=quote(content)),))
    return judge_text(contract, content, work)


def judge_text(contract: Contract, text: str | bytes, work: Work) -> Verdict:
    """Judge a JSON text as one member of the union, after the leniencies the contract opted into."""
    steps: tuple[str, ...] = ()
    if isinstance(text, bytes) and len(text) <= contract.limits.reply_bytes:
        with suppress(UnicodeDecodeError):  # the reader says what is wrong with bytes that are no UTF-8
            text = text.decode()
    if isinstance(text, str):
        text, steps = extract(text, contract.extraction, contract.limits)
    value = decode(text, contract.limits, names=contract.names, work=work)
    outcome = value if isinstance(value, Invalid) else judge_union(contract, value, work)
    return Invalid(outcome.issues, steps) if isinstance(outcome, Invalid) else Valid(outcome, steps)


def named_tool(contract: Contract, message: object) -> str | None:
    """Read which tool a content names, whatever else is wrong; empty for an answer, None when it cannot be read."""
    content = text_in(peek(message, "content"))
    if content is None:
        return None
    value = decode(extract(content, contract.extraction, contract.limits)[0], contract.limits, names=contract.names)
    if not isinstance(value, dict):
        return None
    name = value.get("tool", "")
    return name if isinstance(name, str) else None


def judge_union(contract: Contract, value: JSON, work: Work) -> ToolCall | DirectAnswer | Invalid:
    """Judge a call or an answer; the two exclude each other (requirement T6)."""
    if not isinstance(value, dict):
        return Invalid((Issue.of(Code.SHAPE_NOT_OBJECT, hint=came_words(value, "reply"), found=quote(value)),))
    if "answer" not in value or contract.answer_style == "tool":
        return _judge_call(contract, value, work)
    if not value.keys().isdisjoint(_CALL_KEYS):
        return Invalid((Issue.of(Code.SHAPE_BOTH),))
    return _judge_answer(contract, value, work)


def _judge_answer(contract: Contract, value: dict[str, JSON], work: Work) -> DirectAnswer | Invalid:
    """Judge ``{"answer": …}``."""
    issues = extra_keys(value, ("answer",), inner={"answer": contract.answer.schema})
    if contract.choice not in {"auto", "none"}:
        issues.append(Issue.of(Code.TOOL_REQUIRED, names=contract.tool_list))
    answer = contract.answer.judge(value["answer"], "/answer", work)
    if isinstance(answer, Invalid):
        issues += answer.issues
    return Invalid(tuple(issues)) if issues else DirectAnswer(answer)


def _judge_call(contract: Contract, value: dict[str, JSON], work: Work) -> ToolCall | DirectAnswer | Invalid:
    """Judge ``{"tool": …, "args": …}``; the arguments are held to the tool's schema when the tool is known."""
    issues = extra_keys(value, tuple(_CALL_KEYS), inner=_known_inside(contract, value))
    issues += [
        Issue.of(Code.SHAPE_MISSING_KEY, pointer("", key), expected=expected, hint=_missing_hint(contract, value))
        for key, expected in _CALL_KEYS.items()
        if key not in value
    ]
    named = judge_name(contract, value["tool"], "/tool", work) if "tool" in value else ()
    issues += named
    if "args" not in value:
        return Invalid(tuple(issues))
    if "tool" not in value or named:
        issues += [] if isinstance(value["args"], dict) else [args_shape(value["args"], "/args")]
        return Invalid(tuple(issues))
    outcome = judge_args(contract, str(value["tool"]), value["args"], at="/args", id=None, work=work)
    if isinstance(outcome, Invalid):
        issues += outcome.issues
    return Invalid(tuple(issues)) if issues or isinstance(outcome, Invalid) else outcome


def _known_inside(contract: Contract, value: dict[str, JSON]) -> dict[str, Schema | None]:
    """Return the schemas that a key beside the tool and its arguments may have been meant for."""
    name = value.get("tool")
    tool = contract.by_name.get(name) if isinstance(name, str) else None
    return {"args": tool.parameters} if tool is not None else {"answer": contract.answer.schema}


def _missing_hint(contract: Contract, value: dict[str, JSON]) -> str:
    """Return that the reply was empty, and what an answer looks like where one is allowed."""
    allowed = contract.answer_style == "union" and contract.choice in {"auto", "none"}
    came = () if value else (came_words(value, "reply"),)
    return "; ".join([*came, *(['an answer is {"answer": …}'] if allowed else [])])
