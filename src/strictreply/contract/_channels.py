"""The two channels of a reply: native calls, or JSON in the text.

The module describes each to the model, and judges replies in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from strictreply.contract._answer import FINAL_ANSWER
from strictreply.contract._own_rules import own_issues
from strictreply.contract._tool import VALUE, Tool
from strictreply.reading._decoding import decode, extract
from strictreply.schema import Schema
from strictreply.schema._explaining import nearest
from strictreply.values._drafts import CALLS_PLACE, Draft
from strictreply.values._issues import Code, Issue, came_words, compact, pointer, quote
from strictreply.values._limits import JSON, JSONObject, Work, utf8_size
from strictreply.values._replies import DirectAnswer, Invalid, ToolCall, Valid, Verdict
from strictreply.values._requests import AnswerFormat

if TYPE_CHECKING:
    from strictreply.contract._contract import Contract


_FIT = "It must fit this JSON Schema:"
_NO_PROSE = "and nothing else: no prose, no code fence"
_TEXT_RULES = f"Reply with {{wanted}} {_NO_PROSE}, no other keys. {_FIT}"
_ANSWER_RULES = f"Answer with exactly one JSON value {_NO_PROSE}. {_FIT}"
_BESIDE_CALLS = f"Where you do not call a tool: {_ANSWER_RULES[0].lower()}{_ANSWER_RULES[1:]}"
_BASE = "urn:strictreply:"
_OUTER_REFERENCE = re.compile(r'"\$ref":"(?!#/\$defs/)')


def answer_schema(contract: Contract) -> dict[str, JSON]:
    """Return the schema of ``{"answer": …}``."""
    return _closed_object({"answer": _embedded("answer", contract.answer.document)})


def call_schema(tool: Tool) -> dict[str, JSON]:
    """Return the schema of ``{"tool": …, "args": …}`` for one tool.

    Its parameters keep their own ``$defs``.
    """
    words: dict[str, JSON] = {"description": tool.description} if tool.description else {}
    args = _embedded(f"tool:{tool.name}", tool.parameters.shown)
    return _closed_object({"tool": {"const": tool.name, **words}, "args": args})


def union_schema(contract: Contract) -> dict[str, JSON]:
    """Return the schema of everything that a contract accepts in the text channel."""
    branches: list[JSON] = []
    if contract.choice != "none":
        branches += [call_schema(tool) for tool in callable_tools(contract)]

    if admits_answer(contract):
        answer = answer_schema(contract)
        if contract.answer_style == "tool":
            answer = _closed_object({"tool": {"const": FINAL_ANSWER}, "args": answer})

        branches.append(answer)

    return {"anyOf": branches}


def constraint_schema(contract: Contract) -> JSONObject:
    """Return the schema of the union for constrained decoding.

    Servers look for definitions at the root, and some reject a root that is not an object, so a
    union of one member becomes that member.
    """
    shared: dict[str, JSON] = {}
    branches: Any = _hoisted(union_schema(contract)["anyOf"], shared)
    schema: JSONObject = branches[0] if len(branches) == 1 else {"anyOf": branches}
    return schema | {"$defs": shared} if shared else schema


def _hoisted(value: JSON, shared: dict[str, JSON]) -> JSON:
    """Return a schema whose embedded definitions are moved into ``shared``.

    An embedded schema with other references is not changed.
    """
    if isinstance(value, list):
        return [_hoisted(item, shared) for item in value]
    if not isinstance(value, dict):
        return value

    base = value.get("$id")
    is_ours = isinstance(base, str) and base.startswith(_BASE)
    if not is_ours or _OUTER_REFERENCE.search(compact(value)):
        return {key: _hoisted(item, shared) for key, item in value.items()}

    prefix = f"{str(base).removeprefix(_BASE).replace(':', '_')}_"
    written = compact(value).replace('"$ref":"#/$defs/', f'"$ref":"#/$defs/{prefix}')
    moved: dict[str, JSON] = json.loads(written)
    definitions: Any = moved.pop("$defs", {})
    shared |= {f"{prefix}{name}": schema for name, schema in definitions.items()}
    return {key: item for key, item in moved.items() if key != "$id"}


def admits_answer(contract: Contract) -> bool:
    """Return whether the tool choice allows an answer.

    If answers are calls of a tool, they count as calls, too.
    """
    by_call = contract.answer_style == "tool" and contract.choice in {"required", FINAL_ANSWER}
    return by_call or contract.choice in {"auto", "none"}


def or_answer(contract: Contract) -> str:
    """Return the words after a list of tools that allow an answer; empty if none is allowed."""
    if contract.answer_style == "tool" or not admits_answer(contract):
        return ""  # final_answer is in the list
    if contract.channel == "text":
        return '; or answer under the key "answer"'

    return "; or answer in text" if contract.answer.schema is None else "; or answer in the content"


def instructions(
    contract: Contract, wanted: str = "exactly one JSON object", schema: JSON = None
) -> str:
    """Return the instructions that request ``wanted`` in the text channel.

    ``schema`` None means the schema of the union.
    """
    return f"{_TEXT_RULES.format(wanted=wanted)}\n{compact(schema or union_schema(contract))}"


def answer_instructions(contract: Contract) -> str:
    """Return instructions to answer in JSON, for an endpoint without ``response_format``."""
    is_alone = contract.choice == "none" or not contract.tools
    rules = _ANSWER_RULES if is_alone else _BESIDE_CALLS
    return f"{rules}\n{compact(contract.answer.document)}"


@dataclass(frozen=True, slots=True)
class FinalAnswerTool:
    """The tool for answers with ``answer_style="tool"``."""

    definition: JSONObject
    """The tool in the form of chat completions."""
    name: str = FINAL_ANSWER
    """Its name."""
    custom: None = None
    """None, because it is a function."""

    @classmethod
    def of(cls, contract: Contract) -> Self:
        """Return the tool whose arguments are the answer of a contract."""
        document = contract.answer.document
        if (
            not isinstance(document, dict)
            or "$id" in document
            or _OUTER_REFERENCE.search(compact(document))
        ):
            schema = answer_schema(contract)
        else:
            # the answer's definitions are moved to the root, where servers look for them
            inner = {key: value for key, value in document.items() if key != "$defs"}
            schema = _closed_object({"answer": inner})
            schema |= {key: value for key, value in document.items() if key == "$defs"}

        words = "Give the final answer to the user."
        function: JSONObject = {"name": FINAL_ANSWER, "description": words, "parameters": schema}
        return cls({"type": "function", "function": function})


def answer_format(contract: Contract) -> AnswerFormat:
    """Return the format that requests a structured answer in the native channel."""
    return AnswerFormat("json_schema", contract.answer.document, contract.answer.name)


def callable_tools(contract: Contract) -> list[Tool]:
    """Return the tools that the tool choice allows."""
    return [
        tool
        for name, tool in contract.by_name.items()
        if contract.choice in {"auto", "required", name}
    ]


def _closed_object(properties: dict[str, JSON]) -> dict[str, JSON]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def _embedded(name: str, document: object) -> JSON:
    """Return a schema for embedding in another one.

    A schema with references gets a base URI, so that its references still point to its own
    definitions.
    """
    if isinstance(document, dict) and '"$ref"' in compact(document):
        return {"$id": f"{_BASE}{name}", **document}
    return document  # type: ignore[return-value]


MAX_NAME_CHARS = 64
MAX_EXTRA_KEYS = 16
NEAR = 0.6
_CALL_KEYS = {"tool": "a string", "args": "an object"}
Outcome: TypeAlias = ToolCall | DirectAnswer | Invalid


def judge_name(contract: Contract, name: object, at: str, work: Work) -> tuple[Issue, ...]:
    """Return the issues of a tool name: not a string, not declared, or not the required one."""
    if not isinstance(name, str):
        expected = "the name of a tool, a string"
        return (Issue.of(Code.SHAPE_WRONG_TYPE, at, expected=expected, found=quote(name)),)

    if not name:
        return (Issue.of(Code.SHAPE_EMPTY, at),)
    if contract.choice == "none" and not is_final_answer(contract, name):
        return (Issue.of(Code.TOOL_FORBIDDEN, at, found=quote(name)),)

    if name not in contract.by_name and not is_final_answer(contract, name):
        near = nearest(name[:MAX_NAME_CHARS], contract.callable_names, work, cutoff=NEAR)
        names = f"{contract.tool_list or 'none'}{or_answer(contract)}"
        hint = f"did you mean {near}?" if near else ""
        return (Issue.of(Code.TOOL_UNKNOWN, at, names=names, hint=hint, found=quote(name)),)

    if contract.choice not in {"auto", "required", "none", name}:
        return (Issue.of(Code.TOOL_FORCED, at, name=contract.choice, found=quote(name)),)

    return ()


def is_final_answer(contract: Contract, name: object) -> bool:
    """Return whether a call of ``name`` is the answer."""
    return contract.answer_style == "tool" and name == FINAL_ANSWER


def judge_args(
    contract: Contract, name: str, args: JSON, *, at: str, call_id: str | None, work: Work
) -> Outcome:
    """Check the arguments against the declared tool's schema, and build the typed call."""
    if not isinstance(args, dict):
        return Invalid((args_shape(args, at),))
    if is_final_answer(contract, name):
        return _judge_final_answer(contract, args, at, work)

    tool = contract.by_name[name]
    issues = tool.parameters.check(args, at=at, work=work, built=tool.origin.adapter is not None)
    if issues and tool.origin.adapter is not None and not tool.origin.is_wrapped:
        own = own_issues(
            tool.origin.adapter, args, issues, at=at, schema=tool.parameters, work=work
        )
        issues = (*issues, *own)

    if issues:
        return Invalid(issues)

    built = tool.build(args, at=at, work=work)
    return built if isinstance(built, Invalid) else ToolCall(name, built, call_id)


def judge_input(
    contract: Contract, name: str, text: object, *, at: str, call_id: str | None, work: Work
) -> Outcome:
    """Check the free text of a custom tool against its grammar, if that is a pattern."""
    tool = contract.by_name[name]
    if not isinstance(text, str):
        expected = "a text as its input"
        return Invalid((Issue.of(Code.CALL_MALFORMED, at, expected=expected, found=quote(text)),))

    if utf8_size(text) > contract.limits.reply_bytes:
        return Invalid((Issue.of(Code.REPLY_TOO_LARGE, at, limit=contract.limits.reply_bytes),))

    issues = tool.parameters.check({VALUE: text}, at=at, work=work)
    own = tuple(replace(issue, path=issue.path.replace(f"{at}/{VALUE}", at)) for issue in issues)
    return Invalid(own) if own else ToolCall(name, text, call_id)


def args_shape(args: JSON, at: str) -> Issue:
    """Return the issue of arguments that are not an object."""
    expected = f"a JSON object; {came_words(args)}"
    return Issue.of(Code.SHAPE_WRONG_TYPE, at, expected=expected, found=quote(args))


def _judge_final_answer(
    contract: Contract, args: dict[str, JSON], at: str, work: Work
) -> DirectAnswer | Invalid:
    issues = extra_keys(args, ("answer",), at, {"answer": contract.answer.schema})
    place = pointer(at, "answer")
    if "answer" not in args:
        hint = "" if args else came_words(args)
        issues.append(Issue.of(Code.SHAPE_MISSING_KEY, place, expected="the answer", hint=hint))

    if issues:
        return Invalid(tuple(issues))

    answer = contract.answer.judge(args["answer"], place, work)
    return answer if isinstance(answer, Invalid) else DirectAnswer(answer)


def extra_keys(
    value: dict[str, JSON],
    allowed: tuple[str, ...],
    at: str = "",
    inner: Mapping[str, Schema | None] | None = None,
) -> list[Issue]:
    """Return the issues of members that are not allowed, at most 16.

    ``inner`` has the schemas of members in which a misplaced key may belong.
    """
    names = " and ".join(f'"{key}"' for key in allowed)
    known = [
        (schema, pointer(at, name)) for name, schema in (inner or {}).items() if schema is not None
    ]
    extras = [key for key in value if key not in allowed][:MAX_EXTRA_KEYS]
    issues: list[Issue] = []

    for key in extras:
        homes = (schema.home_of(key, place) for schema, place in known)
        hint = next(filter(None, homes), "")
        issues.append(Issue.of(Code.SHAPE_EXTRA_KEY, at, names=names, hint=hint, found=quote(key)))

    return issues


def judge_content(contract: Contract, draft: Draft, work: Work) -> Verdict:
    """Judge the text of a draft; native calls are not allowed in this channel."""
    if draft.calls or draft.fault is not None:
        expected = "a JSON object in the content"
        return Invalid((Issue.of(Code.CALL_MALFORMED, CALLS_PLACE, expected=expected),))

    if draft.other is not None:
        return Invalid((Issue.of(Code.REPLY_CONTENT, found=quote(draft.other)),))
    if draft.text is None:
        return Invalid((Issue.of(Code.REPLY_EMPTY),))

    return judge_text(contract, draft.text, work)


def judge_text(contract: Contract, text: str | bytes, work: Work) -> Verdict:
    """Judge a JSON text as one member of the union, after the contract's extraction."""
    steps: tuple[str, ...] = ()

    if isinstance(text, bytes) and len(text) <= contract.limits.reply_bytes:
        # the reader reports bytes that are not UTF-8
        with suppress(UnicodeDecodeError):
            text = text.decode()

    if isinstance(text, str):
        text, steps = extract(text, contract.extraction, contract.limits)

    value = decode(text, contract.limits, names=contract.names, work=work)
    outcome = value if isinstance(value, Invalid) else judge_union(contract, value, work)
    return Invalid(outcome.issues, steps) if isinstance(outcome, Invalid) else Valid(outcome, steps)


def named_tool(contract: Contract, draft: Draft) -> str | None:
    """Return the tool that a text names, even if the text has other faults.

    The name is empty for an answer, None if the text cannot be read.
    """
    if draft.text is None:
        return None

    text, _ = extract(draft.text, contract.extraction, contract.limits)
    value = decode(text, contract.limits, names=contract.names)
    name = value.get("tool", "") if isinstance(value, dict) else None
    return name if isinstance(name, str) else None


def judge_union(contract: Contract, value: JSON, work: Work) -> Outcome:
    """Judge a call or an answer; they exclude each other."""
    if not isinstance(value, dict):
        hint = came_words(value, "reply")
        return Invalid((Issue.of(Code.SHAPE_NOT_OBJECT, hint=hint, found=quote(value)),))

    if "answer" not in value or contract.answer_style == "tool":
        return _judge_call(contract, value, work)
    if not value.keys().isdisjoint(_CALL_KEYS):
        return Invalid((Issue.of(Code.SHAPE_BOTH),))

    return _judge_answer(contract, value, work)


def _judge_answer(contract: Contract, value: dict[str, JSON], work: Work) -> DirectAnswer | Invalid:
    issues = extra_keys(value, ("answer",), inner={"answer": contract.answer.schema})
    if contract.choice not in {"auto", "none"}:
        issues.append(Issue.of(Code.TOOL_REQUIRED, names=contract.tool_list))

    answer = contract.answer.judge(value["answer"], "/answer", work)
    if isinstance(answer, Invalid):
        issues += answer.issues

    return Invalid(tuple(issues)) if issues else DirectAnswer(answer)


def _missing_keys(contract: Contract, value: dict[str, JSON]) -> list[Issue]:
    hints = [] if value else [came_words(value, "reply")]
    if contract.answer_style == "union" and contract.choice in {"auto", "none"}:
        hints.append('an answer is {"answer": …}')

    missing = [(f"/{key}", expected) for key, expected in _CALL_KEYS.items() if key not in value]
    return [
        Issue.of(Code.SHAPE_MISSING_KEY, at, expected=expected, hint="; ".join(hints))
        for at, expected in missing
    ]


def _judge_call(contract: Contract, value: dict[str, JSON], work: Work) -> Outcome:
    """Judge ``{"tool": …, "args": …}``; judge the arguments if the tool is known."""
    name = value.get("tool")
    tool = contract.by_name.get(name) if isinstance(name, str) else None
    # the schemas to which a misplaced key may belong
    inner = {"answer": contract.answer.schema} if tool is None else {"args": tool.parameters}
    issues = extra_keys(value, tuple(_CALL_KEYS), inner=inner) + _missing_keys(contract, value)

    named = judge_name(contract, name, "/tool", work) if "tool" in value else ()
    issues += named
    outcome: Outcome = Invalid(())

    if "args" in value:
        args = value["args"]
        if "tool" in value and not named:
            outcome = judge_args(contract, str(name), args, at="/args", call_id=None, work=work)
        elif not isinstance(args, dict):
            issues.append(args_shape(args, "/args"))

    faults = (*issues, *outcome.issues) if isinstance(outcome, Invalid) else tuple(issues)
    return Invalid(faults) if faults or isinstance(outcome, Invalid) else outcome
