"""The default corrections: at most 2 KB, and without the model's own words.

The first names the faults, the second adds the broken sub-schema, the third an example.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from strictreply.contract._answer import FINAL_ANSWER, Answer
from strictreply.contract._channels import admits_answer, callable_tools, union_schema
from strictreply.contract._contract import Contract
from strictreply.contract._correcting import CorrectionContext, Steering
from strictreply.contract._tool import Tool
from strictreply.retry._scoping import part_words, takes_objects
from strictreply.schema import Schema, SchemaRule
from strictreply.schema._explaining import ANY_MEMBER
from strictreply.values._issues import (
    Issue,
    Remedy,
    compact,
    pointer,
    pointer_tokens,
    printable_json,
    shown_place,
)
from strictreply.values._limits import JSON, JSONObject
from strictreply.values._replies import Invalid

MAX_CORRECTION_BYTES = 2_000
"""The longest correction, in bytes of UTF-8."""

MAX_LISTED_FAULTS = 12
"""The most faults that one correction lists."""

MAX_LISTED_TOOLS = 12
SCHEMA_TIER = 2
EXAMPLE_TIER = 3
_ANSWER_PARTS = 6  # "", tool_calls, index, function, arguments, answer
_MORE = "…"
_ENVELOPE = re.compile(r" in (?:/content|…?(?:/tool_calls)?(?:/\d+)?/function/arguments)/")

_Places: TypeAlias = tuple[str, ...]
"""JSON Pointers to the places that an example must show."""


@dataclass(frozen=True, slots=True)
class TieredSteering:
    """The default steering: short corrections first, then longer ones with more help.

    The first tier names the faults. The second adds the broken sub-schema, the third a valid
    example.
    """

    max_bytes: int = MAX_CORRECTION_BYTES
    """The longest correction, in bytes of UTF-8."""

    def correction(self, context: CorrectionContext) -> str:
        """Return the text of the correction, at most ``max_bytes`` long."""
        if any(issue.remedy is Remedy.SHORTEN for issue in context.issues):
            # a reply that was cut off is not a mistake, so its text is not criticized
            words = "The reply was cut off at the token limit. Reply again, shorter."
            if context.tier > 1:
                number = context.number or context.tier
                cut = f"Correction {number}: the reply was cut off at the token limit."
                words = f"{cut} Reply with the least that is needed."

            return fitted([words, *_fault_lines(context)], self.max_bytes)

        number = context.number or context.tier
        headline = f"{verdict_words(number)} {_demand(context)}, corrected:"
        parts = [headline, *_fault_lines(context)]

        if context.tier >= EXAMPLE_TIER:
            # before the schema, which could use up all bytes
            example = example_for(context)
            if example is not None:
                parts.append(f"A valid example: {compact(example)}")

        if context.tier >= SCHEMA_TIER:
            parts += _schema_line(context)

        return fitted(parts, self.max_bytes)


def corrections(steering: Steering, contexts: tuple[CorrectionContext, ...]) -> list[str]:
    """Return the text for each context; together they have the length of one correction."""
    words = [steering.correction(context) for context in contexts]
    if len(words) == 1:
        return words

    return [fitted(one.split("\n"), MAX_CORRECTION_BYTES // len(words)) for one in words]


def fault_lines(issues: Iterable[Issue], at: str = "") -> list[str]:
    """Return faults as lines such as ``- /limit: must be an integer``, each once.

    Places start at ``at``, or else at the JSON that the model wrote: the model does not know the
    message around it.
    """
    hints: dict[str, dict[str, None]] = {}
    for issue in issues:
        inside = _inside(issue.path, at) if at else None
        place = _told_place(issue.path) if inside is None else shown_place(inside)
        fault = f"{place}: {issue.message}" if place else issue.message
        # places in a hint also start at the reply's root
        hint = issue.hint.replace(f" in {shown_place(at)}/", " in /") if at else issue.hint
        hint = _ENVELOPE.sub(" in /", hint)
        hints.setdefault(fault, {})[hint] = None

    hinted = {fault: "; ".join(filter(None, said)) for fault, said in hints.items()}
    return [f"- {fault} ({hint})" if hint else f"- {fault}" for fault, hint in hinted.items()]


def _told_place(path: str) -> str:
    """Return a place in words for the model: inside its second call, or inside its answer."""
    tokens = pointer_tokens(path)
    if tokens[:1] == ["content"] or path == "/function_call":
        return shown_place(pointer("", *tokens[1:]))
    if tokens[:1] != ["tool_calls"]:
        return shown_place(path)
    if len(tokens) == 1:
        return ""

    inside = shown_place(pointer("", *tokens[4:]))
    call = f"call {int(tokens[1]) + 1}" if tokens[1].isdecimal() else "a call"
    return f"{call}, {inside}" if inside else call


def fitted(parts: list[str], limit: int) -> str:
    """Return the parts, one per line, that fit into the limit of bytes.

    Only the first two parts are cut; others are left out if they do not fit.
    """
    # names in a third-party schema could forge lines
    lines = [printable_json(part) for part in parts]
    text = _cut(lines[0], limit)

    for index, part in enumerate(lines[1:]):
        bytes_left = limit - len(_encoded(text)) - 1
        kept = _cut(part, bytes_left) if index == 0 else part
        if kept and len(_encoded(kept)) <= bytes_left:
            text = f"{text}\n{kept}"

    return _encoded(text).decode()


def fitted_before(parts: list[str], last: str, limit: int) -> str:
    """Return the parts like :func:`fitted`, followed by the line ``last``.

    ``last`` is kept whole, unless it needs more than half of the limit.
    """
    first = fitted(parts[:1], limit // 2)
    others = parts[1:]
    left = limit - len(_encoded(last)) - 1
    if left <= limit // 2:
        return fitted([first, *others], limit)

    return f"{fitted([first, *others], left)}\n{last}"


def _encoded(text: str) -> bytes:
    return text.encode(errors="replace")


def _cut(text: str, limit: int) -> str:
    encoded = _encoded(text)
    if len(encoded) <= limit:
        return text

    mark = len(_encoded(_MORE))
    if limit < mark:
        return ""

    kept = encoded[: limit - mark].decode(errors="ignore")
    return f"{kept.rpartition(' ')[0]}{_MORE}"


def verdict_words(number: int) -> str:
    """Return the first words of a correction, by its number."""
    first = {1: "Not valid.", 2: "Still not valid."}
    return first.get(number, f"Still not valid (correction {number}).")


def _demand(context: CorrectionContext) -> str:
    called = None if context.tool is None else f"Call {context.tool} again"
    if context.part is None:
        return called or "Reply again"

    schema = _schema_at_fault(context)
    wrapped = schema is None or not takes_objects(schema.part(context.part))
    value = part_words(context.tool, context.part, wrapped=wrapped).removesuffix(",")

    if called and context.contract.channel == "native":
        return f"{called} with only {value}"

    return f"Send only {value}"


def _fault_lines(context: CorrectionContext) -> list[str]:
    faults = [issue for issue in context.issues if issue.remedy is not Remedy.SHORTEN]
    lines = fault_lines(faults, context.at)
    shown = lines[:MAX_LISTED_FAULTS]
    return [*shown, f"- and {len(lines) - len(shown)} more"] if len(lines) > len(shown) else shown


def _schema_line(context: CorrectionContext) -> list[str]:
    """Return the line with the sub-schema of the first fault.

    If the fault is in the shape of the reply, it is the schema of the reply, or the list of tools.
    The list is empty if there are no tools.
    """
    schema = _schema_at_fault(context)
    if schema is not None:
        path = context.issues[0].path
        place = _inside(path, context.at or _answer_place(context.contract, path)) or ""
        part = schema.part(place)
        if context.issues[0].code.endswith(f".{SchemaRule.ENUM}") and "const" in _keywords(part):
            place = place.rpartition("/")[0]  # the tag of a union: show all forms
            part = schema.part(place)

        name = shown_place(place)
        if part is schema.shown:
            name = "the answer" if context.tool is None else "the arguments"

        return [f"Schema of {name}: {compact(part)}"]

    if context.contract.channel == "text":
        return [f"Schema of the reply: {compact(union_schema(context.contract))}"]

    # a fault in the calls as a whole: the tools with their parameters' names
    shown = callable_tools(context.contract)[:MAX_LISTED_TOOLS]
    signatures = [f"{tool.name}({', '.join(_parameters(tool))})" for tool in shown]
    if context.contract.answer_style == "tool" and admits_answer(context.contract):
        signatures.append(f"{FINAL_ANSWER}(answer)")

    return [f"Tools: {', '.join(signatures)}"] if signatures else []


def _keywords(part: JSON) -> JSONObject:
    return part if isinstance(part, dict) else {}


def _parameters(tool: Tool) -> list[str]:
    source = tool.parameters.source
    properties = source.get("properties") if isinstance(source, dict) else None
    names = list(properties)[:MAX_LISTED_TOOLS] if isinstance(properties, dict) else []
    return [shown_place(pointer("", name))[1:] for name in names]


def example_for(context: CorrectionContext) -> JSON:
    """Return the smallest valid arguments, answer or text reply that show the places at fault.

    None if there is no such example.
    """
    for places in _to_show(context):
        for example in _examples(context, places):
            return _as_sent(context, example)

    return None


def _as_sent(context: CorrectionContext, example: JSON) -> JSON:
    """Return an example in the form of the schema that was sent."""
    sent = context.contract.sent
    if sent is None:
        return example

    tool = None if context.tool is None else sent.tools.get(context.tool)
    form = sent.answer if context.tool is None else None
    if tool is not None:
        form = tool.form

    return example if form is None or form.sent is None else form.sent(example)


def _to_show(context: CorrectionContext) -> Iterator[_Places]:
    """Yield the places that an example must show, as pointers from the reply's root.

    They are all places at fault, then only the first one, in case no example shows them all.
    """
    faults = [issue for issue in context.issues if issue.remedy is not Remedy.SHORTEN]
    issues = faults[:MAX_LISTED_FAULTS]

    paths: list[str] = []
    keyed: list[str] = []
    for issue in issues:
        # a forbidden member is not shown
        is_forbidden = issue.code.endswith(f".{SchemaRule.FORBIDDEN}")
        paths.append(issue.path.rpartition("/")[0] if is_forbidden else issue.path)
        is_extra = issue.code.endswith(f".{SchemaRule.EXTRA_KEY}")
        keyed.append(pointer(paths[-1], ANY_MEMBER) if is_extra else paths[-1])

    if keyed != paths:  # an allowed key helps more than an empty object
        yield tuple(dict.fromkeys(keyed))

    yield tuple(dict.fromkeys(paths))
    yield tuple(paths[:1])

    # a fault that does not come from a schema has no place to show
    if issues and not issues[0].code.startswith(("args.", "answer.")):
        yield ()


def _examples(context: CorrectionContext, places: _Places) -> Iterator[JSON]:
    contract = context.contract
    tool = context.tool
    if context.part:
        return

    if contract.channel == "text":
        yield from _text_examples(context, places)
    elif tool is not None:
        yield from _args_examples(contract.by_name[tool], _all_inside(places, context.at))
    elif _is_about_answer(context):
        at = _answer_place(contract, context.issues[0].path)
        for answer in _answer_examples(contract.answer, _all_inside(places, at)):
            yield {"answer": answer} if contract.answer_style == "tool" else answer


def _text_examples(context: CorrectionContext, places: _Places) -> Iterator[JSON]:
    contract = context.contract
    tool = context.tool

    for each in callable_tools(contract) if tool is None else [contract.by_name[tool]]:
        for args in _args_examples(each, _all_inside(places, "/args", "/tool")):
            yield args if context.part is not None else {"tool": each.name, "args": args}

    if tool is None and admits_answer(contract):
        by_tool = contract.answer_style == "tool"
        beside = ("/tool", "/args") if by_tool else ()
        inside = _all_inside(places, _answer_place(contract, ""), *beside)

        for answer in _answer_examples(contract.answer, inside):
            reply: JSON = {"answer": answer}
            yield {"tool": FINAL_ANSWER, "args": reply} if by_tool else reply


def _args_examples(tool: Tool, places: _Places | None) -> Iterator[JSON]:
    if places is not None:
        found = tool.parameters.examples(places)
        yield from (args for args in found if not isinstance(tool.build(args), Invalid))


def _answer_examples(answer: Answer, places: _Places | None) -> Iterator[JSON]:
    if places is None:
        return

    found: Iterable[JSON] = ("…",) if answer.schema is None else answer.schema.examples(places)
    yield from (value for value in found if not isinstance(answer.judge(value, ""), Invalid))


def _all_inside(places: _Places, at: str, *beside: str) -> _Places | None:
    """Return the places relative to ``at``; places above or ``beside`` it become its root.

    None if one is elsewhere.
    """
    inside: list[str] = []
    for path in places:
        above = path in beside or at.startswith(f"{path}/")
        place = "" if above else _inside(path, at)
        if place is None:
            return None

        inside.append(place)

    return tuple(dict.fromkeys(inside))


def is_at(path: str, at: str) -> bool:
    """Return whether a pointer is ``at`` or below it."""
    return path == at or path.startswith(f"{at}/")


def _inside(path: str, at: str) -> str | None:
    return path[len(at) :] if is_at(path, at) else None


def _schema_at_fault(context: CorrectionContext) -> Schema | None:
    contract = context.contract
    if context.tool is not None:
        return contract.by_name[context.tool].parameters

    return contract.answer.schema if _is_about_answer(context) else None


def _is_about_answer(context: CorrectionContext) -> bool:
    first = context.issues[0]
    contract = context.contract
    if contract.answer.schema is None:
        return False

    in_content = contract.channel == "native" and first.path.startswith("/content")
    return in_content or first.code.startswith("answer.")


def _answer_place(contract: Contract, path: str) -> str:
    """Return the pointer to the answer that contains ``path``, by channel and ``answer_style``."""
    by_tool = contract.answer_style == "tool"
    if contract.channel == "text":
        return "/args/answer" if by_tool else "/answer"

    return "/".join(path.split("/")[:_ANSWER_PARTS]) if by_tool else "/content"
