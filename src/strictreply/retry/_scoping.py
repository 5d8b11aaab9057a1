"""Re-asking a part of a reply: some calls, or the smallest value that holds all faults.

And splicing it in.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from strictreply.contract._answer import Answer
from strictreply.contract._channels import named_tool
from strictreply.contract._contract import UNION_NAMES, Contract
from strictreply.reading._decoding import decode, extract
from strictreply.schema import Schema, SchemaRule
from strictreply.values._errors import ContractError
from strictreply.values._issues import Code, Issue, pointer, pointer_tokens, quote, shown_place
from strictreply.values._limits import JSON, JSONObject
from strictreply.values._replies import Invalid
from strictreply.wires._dialects import text_in, thoughts_in
from strictreply.wires._opening import peek

MIN_DOCUMENT_CHARS = (
    300  # a shorter document is asked for as a whole: words about one value of it cost as much
)
MIN_SAVING = 4  # times as long as the value alone a document has to be
MAX_KEPT = 64  # places of one schema that are remembered: those inside of arrays have no end
# the member under which a value that is no object is asked for: endpoints take only objects
WRAPPED = "value"
_RULES = frozenset(rule.value for rule in SchemaRule)
_DEFINING = ("$defs", "definitions")
_NOWHERE: Any = object()  # a place that a document does not have
_NATIVE_DEPTH = 4  # tool_calls, index, function, arguments
_ARGUMENT_CODES = ("args.", "json.")
_PLAIN_MESSAGE = frozenset(
    {"role", "content", "tool_calls", "refusal", "annotations", "audio", "function_call"}
)
_PLAIN_CALL = frozenset(
    {"id", "type", "function", "custom", "index"}
)  # no provider wants more back


@dataclass(frozen=True, slots=True)
class Part:
    """The value at a place of a JSON text that is asked for alone, by a schema of itself or of ``{"value": …}``."""

    root: JSON
    place: str
    schema: Schema
    wrapped: bool = False

    @property
    def written(self) -> str:
        """The wrong value as it would have been written in answer to what is asked for, ``{}`` where there was none."""
        value = value_at(self.root, pointer_tokens(self.place))
        if value is _NOWHERE:
            return "{}"
        return _compact({WRAPPED: value} if self.wrapped else value)


def part_words(tool: str | None, place: str, *, wrapped: bool) -> str:
    """Return in our words what is asked for alone: a value inside of a document, or the arguments of a tool."""
    if not place:
        return f"the arguments of {tool}, one JSON object,"
    return f"the value of {shown_place(place)}" + (
        f', as {{"{WRAPPED}": …}},' if wrapped else ", one JSON object,"
    )


def part_of(
    root: JSON, base: str, schema: Schema, issues: Sequence[tuple[str, str]]
) -> Part | None:
    """Find the value of a document that holds all faults, or is missing.

    None for all of it, or not worth an ask.

    ``base`` is the pointer to the document in ``root``; ``issues`` are codes, and places counted
    from the document.
    """
    document = value_at(root, pointer_tokens(base))
    tokens, is_missing = _common_place(document, issues)
    place = pointer("", *tokens)
    value = value_at(document, tokens)

    size = len(_compact(document)) if tokens else 0
    if size < MIN_DOCUMENT_CHARS or (not is_missing and MIN_SAVING * len(_compact(value)) > size):
        return None

    own, wrapped = _asked_for(schema, place) or (None, None)
    if own is None:
        return None

    if (
        not is_missing
        and any(code.partition(".")[2] in _RULES for code, _ in issues)
        and not own.check(value)
    ):
        return None  # the sub-schema of another branch: this one does not refuse the value

    return Part(root, base + place, wrapped or own, wrapped=wrapped is not None)


def _common_place(document: JSON, issues: Sequence[tuple[str, str]]) -> tuple[list[str], bool]:
    """Return the tokens of the value that holds all faults, and whether that is one key's, which is missing."""
    steps = zip(
        *(pointer_tokens(path) for _, path in issues), strict=False
    )  # as far as the shortest goes
    tokens = [step[0] for step in takewhile(lambda step: len(set(step)) == 1, steps)]
    is_missing = tokens != [] and {code.partition(".")[2] for code, _ in issues} == {
        SchemaRule.REQUIRED.value
    }
    if is_missing and "*" not in tokens and isinstance(value_at(document, tokens[:-1]), dict):
        return tokens, True

    while tokens and (
        "*" in tokens or value_at(document, tokens) is _NOWHERE
    ):  # ``*`` is a name that is not told
        tokens = tokens[:-1]

    return tokens, False


def _asked_for(schema: Schema, place: str) -> tuple[Schema, Schema | None] | None:
    """Return the schema of the value at a place, and the one to ask by if that may be no object.

    None of no schema.
    """
    known = schema.parts.get(place, _NOWHERE)
    if known is not _NOWHERE:
        kept: tuple[Schema, Schema | None] | None = known
        return kept

    alone = schema.alone(place)
    made = None

    if alone is not None:
        with suppress(ContractError):
            own = Schema.compile(alone, extra="schema", root_closed=False)
            is_object = takes_objects(alone)
            made = (
                own,
                None
                if is_object
                else Schema.compile(_wrapped(alone), extra="schema", root_closed=False),
            )

    if len(schema.parts) >= MAX_KEPT:
        schema.parts.clear()

    schema.parts[place] = made
    return made


def _wrapped(schema: JSONObject) -> JSONObject:
    inner = {name: each for name, each in schema.items() if name not in _DEFINING}
    closed: JSONObject = {"type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED]}
    return (
        closed
        | {"additionalProperties": False}
        | {name: schema[name] for name in _DEFINING if name in schema}
    )


def takes_objects(schema: object) -> bool:
    """Return whether all that fits a schema is known to be an object."""
    return isinstance(schema, dict) and schema.get("type") == "object"


def value_at(value: Any, tokens: Sequence[str]) -> Any:
    """Return the value at a place of a document; a mark that is no JSON where there is none."""
    for token in tokens:
        if isinstance(value, dict):
            value = value.get(token, _NOWHERE)
        elif isinstance(value, list) and token.isdecimal() and int(token) < len(value):
            value = value[int(token)]
        else:
            return _NOWHERE
    return value


def _with(root: JSON, tokens: Sequence[str], value: JSON) -> JSON:
    if not tokens:
        return value
    if isinstance(root, list):
        index = int(tokens[0])
        return [*root[:index], _with(root[index], tokens[1:], value), *root[index + 1 :]]
    if not isinstance(root, dict):
        return value
    return root | {tokens[0]: _with(root.get(tokens[0]), tokens[1:], value)}


def _compact(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ScopedCall:
    """One call that is asked for again: a declared tool, its index among the calls, the pointer to its arguments."""

    tool: str
    index: int
    at: str


@dataclass(frozen=True, slots=True)
class Scope:
    """The calls or the ``part`` of a message to ask for again.

    ``at`` points to its holder, ``place`` inside that.
    """

    message: JSONObject
    issues: tuple[Issue, ...]
    calls: tuple[ScopedCall, ...] = ()
    part: Part | None = None
    at: str = ""
    place: str = ""

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools of the calls, each as often as it is called."""
        return tuple(call.tool for call in self.calls)

    @property
    def name(self) -> str:
        """What is asked for again, in our words: the tools, each once, and the place of a value inside."""
        return ", ".join(dict.fromkeys(self.tools)) + self.place

    @property
    def only(self) -> ScopedCall | None:
        """The one call; None when there are several, or none."""
        return self.calls[0] if len(self.calls) == 1 else None


def scope_of(
    contract: Contract,
    message: JSONObject,
    issues: tuple[Issue, ...],
    *,
    parts: bool = False,
    payload: bool = False,
) -> Scope | None:
    """Find the calls whose arguments all faults lie in; None when a fault lies elsewhere.

    With ``parts`` a large document is narrowed to the value that holds all faults, also an answer;
    with ``payload`` the arguments of a call in the text channel are asked for alone.
    """
    places = dict.fromkeys(_arguments_place(contract, issue) for issue in issues)
    calls = [None if at is None else _scoped_call(contract, message, at) for at in places]
    found = sorted((call for call in calls if call is not None), key=lambda call: call.index)
    scope = Scope(message, issues, tuple(found)) if found and len(found) == len(calls) else None
    smaller = _part_scope(contract, scope or Scope(message, issues)) if parts else None
    if smaller is None and scope is not None and payload and contract.channel == "text":
        part = Part(
            _content(contract, message), "/args", contract.by_name[found[0].tool].parameters
        )
        return replace(scope, part=part, at="/args")

    return smaller or scope


def _part_scope(contract: Contract, scope: Scope) -> Scope | None:
    if len(scope.calls) > 1 or not scope.issues:
        return None

    call = scope.only
    native = contract.channel == "native"

    schema, at = _judging(contract, call)
    if schema is None or not all(issue.path.startswith(f"{at}/") for issue in scope.issues):
        return None

    if call is not None and native:
        root = decode(
            scope.message["tool_calls"][call.index]["function"]["arguments"], contract.limits
        )
    else:
        root = _content(contract, scope.message)

    faults = [(issue.code, issue.path.removeprefix(at)) for issue in scope.issues]
    part = (
        None if isinstance(root, Invalid) else part_of(root, "" if native else at, schema, faults)
    )
    place = "" if part is None else part.place if native else part.place.removeprefix(at)

    return None if part is None else replace(scope, part=part, at=at, place=place)


def _judging(contract: Contract, call: ScopedCall | None) -> tuple[Schema | None, str]:
    """Return the schema of a call's arguments, or of an answer that it alone judges, and the pointer to these."""
    if call is not None:
        return contract.by_name[call.tool].parameters, call.at
    is_answer = type(contract.answer) is Answer and contract.answer_style != "tool"
    return (
        contract.answer.schema if is_answer else None,
        "/content" if contract.channel == "native" else "/answer",
    )


def _content(contract: Contract, message: JSONObject) -> Any:
    text = text_in(message.get("content")) or ""
    return decode(extract(text, contract.extraction, contract.limits)[0], contract.limits)


def splice(
    contract: Contract, scope: Scope, message: JSONObject
) -> tuple[JSONObject, tuple[str, ...]] | Invalid:
    """Put what was asked for alone into the frozen message.

    Return it with the lenient steps that reading took.

    Calls keep their original ids. Return ``tool.switched`` when the reply is not as many calls of
    the same tools (requirement T29), and what cannot be read as it stands.
    """
    if scope.part is not None and not (scope.calls and contract.channel == "native"):
        return _content_with(contract, scope, scope.part, message)

    if contract.channel == "text":
        named = named_tool(contract, message)
        return (message, ()) if named in {None, scope.calls[0].tool} else _switched(scope, named)

    spliced = _calls_with(contract, scope, message)
    return (
        spliced if isinstance(spliced, Invalid) else (scope.message | {"tool_calls": spliced}, ())
    )


def _calls_with(
    contract: Contract, scope: Scope, message: JSONObject
) -> list[JSONObject] | Invalid:
    calls = peek(message, "tool_calls")
    functions = [peek(call, "function") for call in calls] if isinstance(calls, list) else []
    names = [
        name if isinstance(name := peek(function, "name"), str) else "" for function in functions
    ]
    if sorted(names) != sorted(scope.tools):
        return _switched(scope, names[0] if len(names) == 1 else names or None)

    frozen = [dict(call) for call in scope.message["tool_calls"]]
    for call in scope.calls:
        arguments = peek(functions.pop(names.index(call.tool)), "arguments")
        names.remove(call.tool)

        written = (
            arguments if scope.part is None else _text_with(contract, scope, scope.part, arguments)
        )
        if isinstance(written, Invalid):
            return written

        frozen[call.index] |= {"function": {"name": call.tool, "arguments": written}}

    return frozen


def _content_with(
    contract: Contract, scope: Scope, part: Part, message: JSONObject
) -> tuple[JSONObject, tuple[str, ...]] | Invalid:
    """Put a value that came in the content into the frozen content.

    A whole reply of the text channel stays one.
    """
    if peek(message, "tool_calls"):
        return Invalid(
            (Issue.of(Code.CALL_MALFORMED, "/tool_calls", expected="a JSON object in the content"),)
        )

    came = _content(contract, message) if contract.channel == "text" else None
    known = peek(part.schema.source, "properties")
    declared = set(known) if isinstance(known, dict) else set[str]()
    if isinstance(came, dict) and came.keys() <= UNION_NAMES and not came.keys() <= declared:
        named = came.get("tool", "")
        return (
            (message, ())
            if named in {*scope.tools, *([] if scope.calls else [""])}
            else _switched(scope, named)
        )

    text, steps = extract(
        text_in(message.get("content")) or "", contract.extraction, contract.limits
    )
    written = _text_with(contract, scope, part, text)
    if isinstance(written, Invalid):
        return Invalid(written.issues, steps)

    return with_text(scope.message, written), steps


def _text_with(contract: Contract, scope: Scope, part: Part, text: object) -> str | Invalid:
    at = scope.at + scope.place
    value = decode(text, contract.limits, at=at, names=contract.names)
    if isinstance(value, Invalid):
        return value

    if part.wrapped:
        if not isinstance(value, dict) or value.keys() != {WRAPPED}:
            expected = f'an object {{"{WRAPPED}": …}}'
            return Invalid(
                (Issue.of(Code.SHAPE_WRONG_TYPE, at, expected=expected, found=quote(value)),)
            )

        value = value[WRAPPED]

    return _compact(_with(part.root, pointer_tokens(part.place), value))


def with_text(message: JSONObject, text: str) -> JSONObject:
    """Return a message with another text, behind the thoughts that it came with."""
    thoughts = thoughts_in(message.get("content"))
    return message | {"content": [*thoughts, {"type": "text", "text": text}] if thoughts else text}


def shown(scope: Scope, *, with_content: bool = False) -> Scope:
    """Return a scope with as much of the frozen message as a correction needs: all where a provider put its own in."""
    calls = scope.message.get("tool_calls")
    part = scope.part if scope.place else None

    if not isinstance(calls, list) or not scope.calls:
        return (
            scope
            if part is None
            else replace(scope, message=with_text(scope.message, part.written))
        )

    if part is not None and scope.only:
        calls = list(calls)
        index = scope.only.index
        function = calls[index]["function"] | {"arguments": part.written}
        calls[index] = calls[index] | {"function": function}

    if not _is_plain(scope.message):
        return replace(scope, message=scope.message | {"tool_calls": calls})

    asked = tuple(replace(call, index=index) for index, call in enumerate(scope.calls))
    content = scope.message.get("content") if with_content else None
    again = [calls[call.index] for call in scope.calls]

    return replace(
        scope, message={"role": "assistant", "content": content, "tool_calls": again}, calls=asked
    )


def _is_plain(message: JSONObject) -> bool:
    """Return whether a message holds its text and calls, and nothing that a provider wants back."""
    calls = [call for call in message["tool_calls"] if isinstance(call, dict)]
    said = [
        {name: value for name, value in one.items() if value not in (None, [], {})}
        for one in (message, *calls)
    ]

    is_text = isinstance(message.get("content"), str | None)
    return (
        is_text
        and said[0].keys() <= _PLAIN_MESSAGE
        and all(one.keys() <= _PLAIN_CALL for one in said[1:])
    )


def _switched(scope: Scope, found: object) -> Invalid:
    at = scope.only.at if scope.only else "/tool_calls" if scope.calls else scope.at
    return Invalid((Issue.of(Code.TOOL_SWITCHED, at, name=scope.name, found=quote(found)),))


def _arguments_place(contract: Contract, issue: Issue) -> str | None:
    if not issue.code.startswith(_ARGUMENT_CODES):
        # a fault of the shape that says the arguments are no object is a fault of the arguments,
        # too
        ending = "/args" if contract.channel == "text" else "/function/arguments"
        is_about_args = issue.code == str(Code.SHAPE_WRONG_TYPE) and issue.path.endswith(ending)
        return issue.path if is_about_args else None

    tokens = pointer_tokens(issue.path)
    if contract.channel == "text":
        return "/args" if tokens[:1] == ["args"] else None
    if tokens[:1] == ["tool_calls"] and tokens[2:_NATIVE_DEPTH] == ["function", "arguments"]:
        return "/" + "/".join(tokens[:_NATIVE_DEPTH])

    return None


def _scoped_call(contract: Contract, message: JSONObject, at: str) -> ScopedCall | None:
    tokens = pointer_tokens(at)
    index = (
        int(tokens[1]) if len(tokens) == _NATIVE_DEPTH else 0
    )  # in the text channel there is one call

    if contract.channel == "text":
        name: object = named_tool(contract, message)
    else:
        calls: JSON = message.get("tool_calls")
        name = (
            peek(peek(calls[index], "function"), "name")
            if isinstance(calls, list) and index < len(calls)
            else None
        )

    return (
        ScopedCall(name, index, at) if isinstance(name, str) and name in contract.by_name else None
    )
