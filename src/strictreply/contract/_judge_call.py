"""One call against its tool: is the tool declared and wanted here, and do the arguments fit it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from strictreply.contract._answer import FINAL_ANSWER
from strictreply.contract._describing import or_answer
from strictreply.contract._tool import VALUE
from strictreply.schema import Schema
from strictreply.schema._explaining import nearest
from strictreply.values._issues import Code, Issue, came_words, pointer, quote
from strictreply.values._json import JSON
from strictreply.values._limits import Work, utf8_size
from strictreply.values._replies import DirectAnswer, Invalid, ToolCall

if TYPE_CHECKING:
    from strictreply.contract._contract import Contract

MAX_NAME_CHARS = 64
NEAR = 0.6
MAX_EXTRA_KEYS = 16


def judge_name(contract: Contract, name: object, at: str, work: Work) -> tuple[Issue, ...]:
    """Report a tool name that is no name, not declared, or not the one demanded."""
    if not isinstance(name, str):
        return (Issue.of(Code.SHAPE_WRONG_TYPE, at, expected="the name of a tool, a string", found=quote(name)),)
    if not name:
        return (Issue.of(Code.SHAPE_EMPTY, at),)
    if contract.choice == "none" and not is_final_answer(contract, name):
        return (Issue.of(Code.TOOL_FORBIDDEN, at, found=quote(name)),)
    if name not in contract.by_name and not is_final_answer(contract, name):
        return (_unknown(contract, name, at, work),)
    if contract.choice not in {"auto", "required", "none", name}:
        return (Issue.of(Code.TOOL_FORCED, at, name=contract.choice, found=quote(name)),)
    return ()


def is_final_answer(contract: Contract, name: object) -> bool:
    """Return whether a call of ``name`` is the answer itself (requirement T14)."""
    return contract.answer_style == "tool" and name == FINAL_ANSWER


def judge_args(
    contract: Contract,
    name: str,
    args: JSON,
    *,
    at: str,
    id: str | None,  # noqa: A002 - the API's word
    work: Work,
) -> ToolCall | DirectAnswer | Invalid:
    """Hold the arguments to the declared tool's schema and build them (requirement T27)."""
    if not isinstance(args, dict):
        return Invalid((args_shape(args, at),))
    if is_final_answer(contract, name):
        return _judge_final_answer(contract, args, at, work)
    tool = contract.by_name[name]
    issues = tool.parameters.check(args, at=at, work=work, built=tool.adapter is not None)
    if issues:
        return Invalid(issues)
    built = tool.build(args, at=at, work=work)
    return built if isinstance(built, Invalid) else ToolCall(name, built, id)


def judge_input(
    contract: Contract,
    name: str,
    text: object,
    *,
    at: str,
    id: str | None,  # noqa: A002 - the API's word
    work: Work,
) -> ToolCall | Invalid:
    """Hold the free text of a custom tool to its grammar, where that is a pattern."""
    tool = contract.by_name[name]
    if not isinstance(text, str):
        return Invalid((Issue.of(Code.CALL_MALFORMED, at, expected="a text as its input", found=quote(text)),))
    if utf8_size(text) > contract.limits.reply_bytes:
        return Invalid((Issue.of(Code.REPLY_TOO_LARGE, at, limit=contract.limits.reply_bytes),))
    issues = tool.parameters.check({VALUE: text}, at=at, work=work)
    own = tuple(replace(issue, path=issue.path.replace(f"{at}/{VALUE}", at)) for issue in issues)
    return Invalid(own) if own else ToolCall(name, text, id)


def args_shape(args: JSON, at: str) -> Issue:
    """Report arguments that are no object (requirement T10)."""
    expected = f"a JSON object; {came_words(args)}"
    return Issue.of(Code.SHAPE_WRONG_TYPE, at, expected=expected, found=quote(args))


def _judge_final_answer(contract: Contract, args: dict[str, JSON], at: str, work: Work) -> DirectAnswer | Invalid:
    """Read the answer out of a call of ``final_answer``: exactly one member, ``answer``."""
    issues = extra_keys(args, ("answer",), at, {"answer": contract.answer.schema})
    if "answer" not in args:
        hint = "" if args else came_words(args)
        issues.append(Issue.of(Code.SHAPE_MISSING_KEY, pointer(at, "answer"), expected="the answer", hint=hint))
    if issues:
        return Invalid(tuple(issues))
    answer = contract.answer.judge(args["answer"], pointer(at, "answer"), work)
    return answer if isinstance(answer, Invalid) else DirectAnswer(answer)


def extra_keys(
    value: dict[str, JSON], allowed: tuple[str, ...], at: str = "", inner: Mapping[str, Schema | None] | None = None
) -> list[Issue]:
    """Report members beside the allowed ones, at most 16 of them (requirements T4, T5).

    ``inner`` holds the schemas of allowed members, as far as they are known: a key may belong there.
    """
    names = " and ".join(f'"{key}"' for key in allowed)
    extras = [key for key in value if key not in allowed][:MAX_EXTRA_KEYS]
    known = [(schema, pointer(at, name)) for name, schema in (inner or {}).items() if schema is not None]
    issues: list[Issue] = []
    for key in extras:
        hint = next(filter(None, (schema.home_of(key, place) for schema, place in known)), "")
        issues.append(Issue.of(Code.SHAPE_EXTRA_KEY, at, names=names, hint=hint, found=quote(key)))
    return issues


def _unknown(contract: Contract, name: str, at: str, work: Work) -> Issue:
    """Report an unknown tool with the nearest declared one (requirement T34)."""
    near = nearest(name[:MAX_NAME_CHARS], contract.callable_names, work, cutoff=NEAR)
    hint = "" if near is None else f"did you mean {near}?"
    names = f"{contract.tool_list or 'none'}{or_answer(contract)}"
    return Issue.of(Code.TOOL_UNKNOWN, at, names=names, hint=hint, found=quote(name))
