"""Retry a part of a reply alone, and splice what comes into the rest.

The part is some calls, or the smallest value that holds all faults (requirement T29). The rest of
the message is frozen: it stays as it came.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, NamedTuple

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

MIN_DOCUMENT_CHARS = 300
"""A shorter document is asked for as a whole: the words about one value of it cost as much."""

MIN_SAVING = 4
"""How many times as long as the value alone a document has to be."""

MAX_KEPT = 64
"""How many places of one schema are remembered; there is no end of places inside of arrays."""

WRAPPED = "value"
"""The member for a value that is not an object: endpoints can be asked for objects only."""

_RULES = frozenset(rule.value for rule in SchemaRule)
_DEFINING = ("$defs", "definitions")
_NOWHERE: Any = object()  # a place that a document does not have
_NATIVE_DEPTH = 4  # tool_calls, index, function, arguments
_ARGUMENT_CODES = ("args.", "json.")

_PLAIN_MESSAGE = frozenset(
    {"role", "content", "tool_calls", "refusal", "annotations", "audio", "function_call"}
)
_PLAIN_CALL = frozenset({"id", "type", "function", "custom", "index"})
"""The members of a plain message and of a plain call: no provider wants more back."""


@dataclass(frozen=True, slots=True)
class Part:
    """One value of a JSON document, which is asked for alone.

    ``root`` is the document, ``place`` the pointer to the value in it. ``schema`` is that of what
    is asked for: the value, or, when ``wrapped``, an object ``{"value": …}`` around it.
    """

    root: JSON
    place: str
    schema: Schema
    wrapped: bool = False

    @property
    def written(self) -> str:
        """The wrong value in the form that is asked for; ``{}`` where there was none."""
        value = value_at(self.root, pointer_tokens(self.place))
        if value is _NOWHERE:
            return "{}"

        return _compact({WRAPPED: value} if self.wrapped else value)


def part_words(tool: str | None, place: str, *, wrapped: bool) -> str:
    """Return our words for a part: a tool's arguments, or the value at a place of a document."""
    if not place:
        return f"the arguments of {tool}, one JSON object,"

    form = f'as {{"{WRAPPED}": …}}' if wrapped else "one JSON object"
    return f"the value of {shown_place(place)}, {form},"


def part_of(
    root: JSON, base: str, schema: Schema, issues: Sequence[tuple[str, str]]
) -> Part | None:
    """Return the value of a document that holds all faults, or is missing.

    ``base`` is the pointer to the document in ``root``; ``issues`` are codes, and places counted
    from the document. None when that is the whole document, or when it is not worth a request of
    its own.
    """
    document = value_at(root, pointer_tokens(base))
    tokens, is_missing = _common_place(document, issues)
    place = pointer("", *tokens)
    value = value_at(document, tokens)

    size = len(_compact(document)) if tokens else 0
    if size < MIN_DOCUMENT_CHARS:
        return None
    if not is_missing and MIN_SAVING * len(_compact(value)) > size:
        return None

    asked = _asked_for(schema, place)
    if asked is None:
        return None

    breaks_a_rule = any(code.partition(".")[2] in _RULES for code, _ in issues)
    if not is_missing and breaks_a_rule and not asked.own.check(value):
        return None  # the sub-schema of another branch: this one does not refuse the value

    return Part(root, base + place, asked.wrapped or asked.own, wrapped=asked.wrapped is not None)


def _common_place(document: JSON, issues: Sequence[tuple[str, str]]) -> tuple[list[str], bool]:
    """Return the tokens of the value that holds all faults, and whether that is a missing key."""
    # side by side, as far as the shortest path goes
    steps = zip(*(pointer_tokens(path) for _, path in issues), strict=False)
    tokens = [step[0] for step in takewhile(lambda step: len(set(step)) == 1, steps)]

    rules = {code.partition(".")[2] for code, _ in issues}
    is_missing = tokens != [] and rules == {SchemaRule.REQUIRED.value}
    if is_missing and "*" not in tokens and isinstance(value_at(document, tokens[:-1]), dict):
        return tokens, True

    # ``*`` stands for a name that is not repeated in an issue
    while tokens and ("*" in tokens or value_at(document, tokens) is _NOWHERE):
        tokens = tokens[:-1]

    return tokens, False


class _Asked(NamedTuple):
    """The schemas by which a value is asked for.

    ``own`` is the value's; ``wrapped`` that of an object around it, None where the value itself is
    known to be an object.
    """

    own: Schema
    wrapped: Schema | None


def _asked_for(schema: Schema, place: str) -> _Asked | None:
    """Return the schemas of the value at a place; None when the place has no schema of its own."""
    known = schema.parts.get(place, _NOWHERE)
    if known is not _NOWHERE:
        remembered: _Asked | None = known
        return remembered

    alone = schema.alone(place)
    asked = None
    if alone is not None:
        with suppress(ContractError):
            own = Schema.compile(alone, extra="schema", root_closed=False)
            wrapped = None
            if not takes_objects(alone):
                wrapped = Schema.compile(_wrapped(alone), extra="schema", root_closed=False)
            asked = _Asked(own, wrapped)

    if len(schema.parts) >= MAX_KEPT:
        schema.parts.clear()
    schema.parts[place] = asked

    return asked


def _wrapped(schema: JSONObject) -> JSONObject:
    inner = {name: each for name, each in schema.items() if name not in _DEFINING}
    defining = {name: schema[name] for name in _DEFINING if name in schema}
    closed: JSONObject = {
        "type": "object",
        "properties": {WRAPPED: inner},
        "required": [WRAPPED],
        "additionalProperties": False,
    }

    return closed | defining


def takes_objects(schema: object) -> bool:
    """Return whether every value that fits a schema is known to be an object."""
    return isinstance(schema, dict) and schema.get("type") == "object"


def value_at(value: Any, tokens: Sequence[str]) -> Any:
    """Return the value at a place of a document, or a mark that is not JSON where there is none."""
    for token in tokens:
        if isinstance(value, dict):
            value = value.get(token, _NOWHERE)
        elif isinstance(value, list) and token.isdecimal() and int(token) < len(value):
            value = value[int(token)]
        else:
            return _NOWHERE

    return value


def _with(root: JSON, tokens: Sequence[str], value: JSON) -> JSON:
    """Return a document with another value at a place; only what lies above the place is copied."""
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
    """One call that is retried alone.

    ``tool`` is a declared tool, ``index`` the call's place among the calls, ``at`` the pointer to
    its arguments.
    """

    tool: str
    index: int
    at: str


@dataclass(frozen=True, slots=True)
class Scope:
    """What of a ``message`` is retried alone, by these ``issues``: some ``calls``, or a ``part``.

    ``at`` is the pointer to the document that holds the part, ``place`` the pointer inside it; both
    are empty when calls are retried as they are.
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
        """Our words for what is retried: the tools, each once, and the place of a value."""
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
    """Return the calls in whose arguments all faults lie; None when a fault lies elsewhere.

    With ``parts`` a large document, arguments or an answer, is narrowed to the value that holds all
    faults. With ``payload`` the arguments of a call in the text channel are asked for alone.
    """
    places = dict.fromkeys(_arguments_place(contract, issue) for issue in issues)
    calls = [None if at is None else _scoped_call(contract, message, at) for at in places]
    found = sorted((call for call in calls if call is not None), key=lambda call: call.index)

    scope = None
    if found and len(found) == len(calls):
        scope = Scope(message, issues, tuple(found))

    smaller = _part_scope(contract, scope or Scope(message, issues)) if parts else None
    if smaller is not None:
        return smaller

    if scope is not None and payload and contract.channel == "text":
        parameters = contract.by_name[found[0].tool].parameters
        part = Part(_content(contract, message), "/args", parameters)
        return replace(scope, part=part, at="/args")

    return scope


def _part_scope(contract: Contract, scope: Scope) -> Scope | None:
    """Narrow a scope to one value of the document with its faults; None when that cannot be."""
    if len(scope.calls) > 1 or not scope.issues:
        return None

    schema, at = _judging(contract, scope.only)
    if schema is None or not all(issue.path.startswith(f"{at}/") for issue in scope.issues):
        return None

    is_native = contract.channel == "native"
    if scope.only is not None and is_native:
        function = scope.message["tool_calls"][scope.only.index]["function"]
        root = decode(function["arguments"], contract.limits)
    else:
        root = _content(contract, scope.message)

    if isinstance(root, Invalid):
        return None

    # in the text channel the document is a member of what the content holds
    base = "" if is_native else at
    faults = [(issue.code, issue.path.removeprefix(at)) for issue in scope.issues]
    part = part_of(root, base, schema, faults)
    if part is None:
        return None

    return replace(scope, part=part, at=at, place=part.place.removeprefix(base))


def _judging(contract: Contract, call: ScopedCall | None) -> tuple[Schema | None, str]:
    """Return the schema that alone judges a call's arguments, or the answer, and their pointer."""
    if call is not None:
        return contract.by_name[call.tool].parameters, call.at

    at = "/content" if contract.channel == "native" else "/answer"
    if type(contract.answer) is not Answer or contract.answer_style == "tool":
        return None, at

    return contract.answer.schema, at


def _content(contract: Contract, message: JSONObject) -> Any:
    text = text_in(message.get("content")) or ""
    return decode(extract(text, contract.extraction, contract.limits)[0], contract.limits)


def splice(
    contract: Contract, scope: Scope, message: JSONObject
) -> tuple[JSONObject, tuple[str, ...]] | Invalid:
    """Put what was asked for alone into the frozen message.

    Return the message, whose calls keep their original ids, and the lenient steps that reading
    took. Return Invalid when what came cannot be read as it stands, and ``tool.switched`` when it
    is not as many calls of the same tools (requirement T29).
    """
    if scope.part is not None and not (scope.calls and contract.channel == "native"):
        return _content_with(contract, scope, scope.part, message)

    if contract.channel == "text":
        named = named_tool(contract, message)
        if named not in {None, scope.calls[0].tool}:
            return _switched(scope, named)
        return message, ()

    calls = _calls_with(contract, scope, message)
    if isinstance(calls, Invalid):
        return calls

    return scope.message | {"tool_calls": calls}, ()


def _calls_with(
    contract: Contract, scope: Scope, message: JSONObject
) -> list[JSONObject] | Invalid:
    """Return the frozen calls with the arguments that came, each under its original id."""
    calls = peek(message, "tool_calls")
    functions = [peek(call, "function") for call in calls] if isinstance(calls, list) else []
    names = [_name_in(function) for function in functions]
    if sorted(names) != sorted(scope.tools):
        return _switched(scope, names[0] if len(names) == 1 else names or None)

    frozen = [dict(call) for call in scope.message["tool_calls"]]
    for call in scope.calls:
        # of several calls of one tool the first that came answers the first that was asked for
        arguments = peek(functions.pop(names.index(call.tool)), "arguments")
        names.remove(call.tool)

        if scope.part is not None:
            arguments = _text_with(contract, scope, scope.part, arguments)
            if isinstance(arguments, Invalid):
                return arguments

        frozen[call.index] |= {"function": {"name": call.tool, "arguments": arguments}}

    return frozen


def _name_in(function: object) -> str:
    name = peek(function, "name")
    return name if isinstance(name, str) else ""


def _content_with(
    contract: Contract, scope: Scope, part: Part, message: JSONObject
) -> tuple[JSONObject, tuple[str, ...]] | Invalid:
    """Put a value that came in the content into the frozen content.

    In the text channel a whole reply of the same tool may come instead: it is taken as it is.
    """
    if peek(message, "tool_calls"):
        expected = "a JSON object in the content"
        return Invalid((Issue.of(Code.CALL_MALFORMED, "/tool_calls", expected=expected),))

    reply = _whole_reply(contract, part, message) if contract.channel == "text" else None
    if reply is not None:
        named = reply.get("tool", "")
        if named not in (scope.tools or ("",)):
            return _switched(scope, named)
        return message, ()

    content = text_in(message.get("content")) or ""
    text, steps = extract(content, contract.extraction, contract.limits)
    written = _text_with(contract, scope, part, text)
    if isinstance(written, Invalid):
        return Invalid(written.issues, steps)

    return with_text(scope.message, written), steps


def _whole_reply(contract: Contract, part: Part, message: JSONObject) -> JSONObject | None:
    """Return a content that is a whole reply of the text channel; None when it is the value."""
    content = _content(contract, message)
    properties = peek(part.schema.source, "properties")
    declared = set(properties) if isinstance(properties, dict) else set[str]()
    if not isinstance(content, dict) or not content.keys() <= UNION_NAMES:
        return None

    # a value whose own schema declares these names is the value
    return None if content.keys() <= declared else content


def _text_with(contract: Contract, scope: Scope, part: Part, text: object) -> str | Invalid:
    """Return the JSON text of the document with the value that came in ``text``."""
    at = scope.at + scope.place
    value = decode(text, contract.limits, at=at, names=contract.names)
    if isinstance(value, Invalid):
        return value

    if part.wrapped:
        if not isinstance(value, dict) or value.keys() != {WRAPPED}:
            expected = f'an object {{"{WRAPPED}": …}}'
            issue = Issue.of(Code.SHAPE_WRONG_TYPE, at, expected=expected, found=quote(value))
            return Invalid((issue,))

        value = value[WRAPPED]

    return _compact(_with(part.root, pointer_tokens(part.place), value))


def with_text(message: JSONObject, text: str) -> JSONObject:
    """Return a message with another text, behind the thoughts that it came with."""
    thoughts = thoughts_in(message.get("content"))
    if not thoughts:
        return message | {"content": text}

    return message | {"content": [*thoughts, {"type": "text", "text": text}]}


def shown(scope: Scope, *, with_content: bool = False) -> Scope:
    """Return a scope with as much of the frozen message as a correction needs.

    That is the calls that are retried, with the content only if ``with_content``; all of the
    message where it holds members that a provider wants back.
    """
    calls = scope.message.get("tool_calls")
    part = scope.part if scope.place else None
    if not isinstance(calls, list) or not scope.calls:
        if part is None:
            return scope
        return replace(scope, message=with_text(scope.message, part.written))

    if part is not None and scope.only:
        index = scope.only.index
        function = calls[index]["function"] | {"arguments": part.written}
        calls = list(calls)
        calls[index] = calls[index] | {"function": function}

    if not _is_plain(scope.message):
        return replace(scope, message=scope.message | {"tool_calls": calls})

    content = scope.message.get("content") if with_content else None
    retried = [calls[call.index] for call in scope.calls]
    message: JSONObject = {"role": "assistant", "content": content, "tool_calls": retried}
    renumbered = tuple(replace(call, index=index) for index, call in enumerate(scope.calls))

    return replace(scope, message=message, calls=renumbered)


def _is_plain(message: JSONObject) -> bool:
    """Return whether a message holds its text and calls, and nothing that a provider wants back."""
    if not isinstance(message.get("content"), str | None):
        return False

    calls = [call for call in message["tool_calls"] if isinstance(call, dict)]
    return _names_in(message) <= _PLAIN_MESSAGE and all(
        _names_in(call) <= _PLAIN_CALL for call in calls
    )


def _names_in(value: JSONObject) -> set[str]:
    """Return the names of the members that say something."""
    return {name for name, member in value.items() if member not in (None, [], {})}


def _switched(scope: Scope, found: object) -> Invalid:
    at = "/tool_calls" if scope.calls else scope.at
    if scope.only:
        at = scope.only.at

    return Invalid((Issue.of(Code.TOOL_SWITCHED, at, name=scope.name, found=quote(found)),))


def _arguments_place(contract: Contract, issue: Issue) -> str | None:
    """Return the pointer to the arguments that a fault lies in; None when it lies elsewhere."""
    if not issue.code.startswith(_ARGUMENT_CODES):
        # that the arguments are not an object is a fault of the shape, and of the arguments too
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
    """Return the call whose arguments stand at a pointer; None when its tool is not declared."""
    tokens = pointer_tokens(at)
    index = int(tokens[1]) if len(tokens) == _NATIVE_DEPTH else 0  # the text channel has one call

    name: object = None
    calls: JSON = message.get("tool_calls")
    if contract.channel == "text":
        name = named_tool(contract, message)
    elif isinstance(calls, list) and index < len(calls):
        name = peek(peek(calls[index], "function"), "name")

    if not isinstance(name, str) or name not in contract.by_name:
        return None

    return ScopedCall(name, index, at)
