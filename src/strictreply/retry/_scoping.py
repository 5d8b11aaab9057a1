"""Retries a part of a reply by itself, and merges the result into the rest.

The part is some calls, or the smallest value that contains all faults. The rest of the message is
frozen: it does not change.

The first row that applies decides:

===============================  =================================================================
where the faults are             what is requested, and what happens with the result
===============================  =================================================================
not all in arguments of calls    the whole reply (no scope)
of declared tools, or in one
answer
in one large document            its smallest value with all faults (:class:`Part`), which replaces
                                 the old one; only with ``keep_prompt_cache=False``, and only once
                                 for a reply: if the value is wrong again, the whole document is
                                 requested
in arguments of some calls       the same number of calls of these tools; their arguments replace
                                 those of the frozen calls, which keep their ids
in the arguments of the call of  only the arguments
the text channel
===============================  =================================================================

If the model calls another tool or none (``tool.switched``), the frozen message stays unchanged for
the next correction. The merged reply is judged as a whole, because a value that fits its own schema
may break a rule of the document around it.
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
from strictreply.values._drafts import (
    CALLS_PLACE,
    TEXT_PLACE,
    Draft,
    arguments_around,
)
from strictreply.values._errors import ContractError
from strictreply.values._issues import (
    NOWHERE,
    Code,
    Issue,
    pointer,
    pointer_tokens,
    quote,
    shown_place,
    value_at,
)
from strictreply.values._limits import JSON, JSONObject
from strictreply.values._replies import Invalid
from strictreply.wires._wire import Replay

MIN_DOCUMENT_CHARS = 300
"""A shorter document is retried as a whole: describing one value of it would cost as much."""

MIN_SAVING = 4
"""A document must be at least this many times as long as the value."""

MAX_KEPT = 64
"""How many places of one schema are remembered; arrays have any number of places."""

WRAPPED = "value"
"""The member for a value that is not an object, because endpoints can only be asked for objects."""

_RULES = frozenset(rule.value for rule in SchemaRule)
_DEFINING = ("$defs", "definitions")
_ARGUMENT_CODES = ("args.", "json.")


@dataclass(frozen=True, slots=True)
class Part:
    """One value of a JSON document that is requested by itself.

    ``root`` is the content of a text: the document, or an object around it. ``place`` is the
    pointer from there to the value. ``schema`` is the schema of the request: that of the value, or,
    if ``wrapped``, of an object ``{"value": …}`` around it.
    """

    root: JSON
    place: str
    schema: Schema
    wrapped: bool = False

    @property
    def written(self) -> str:
        """The wrong value in the requested form; ``{}`` if there was none."""
        value = value_at(self.root, pointer_tokens(self.place))
        if value is NOWHERE:
            return "{}"

        return _compact({WRAPPED: value} if self.wrapped else value)


def part_words(tool: str | None, place: str, *, wrapped: bool) -> str:
    """Return words for a part: a tool's arguments, or the value at a place of a document."""
    if not place:
        return f"the arguments of {tool}, one JSON object,"

    form = f'as {{"{WRAPPED}": …}}' if wrapped else "one JSON object"
    return f"the value of {shown_place(place)}, {form},"


def part_of(
    root: JSON, base: str, schema: Schema, issues: Sequence[tuple[str, str]]
) -> Part | None:
    """Return the smallest value of a document that contains all faults.

    It may be a missing member. ``base`` is the pointer to the document in ``root``; ``issues`` are
    codes, and places relative to the document. None if that is the whole document, or if the value
    is not worth its own request.
    """
    document = value_at(root, pointer_tokens(base))
    tokens, is_missing = _common_place(document, issues)
    if not tokens:
        return None

    value = value_at(document, tokens)
    size = len(_compact(document))
    if size < MIN_DOCUMENT_CHARS:
        return None
    if not is_missing and MIN_SAVING * len(_compact(value)) > size:
        return None

    place = pointer("", *tokens)
    asked = _asked_for(schema, place)
    if asked is None:
        return None

    breaks_a_rule = any(code.partition(".")[2] in _RULES for code, _ in issues)
    if breaks_a_rule and not is_missing:
        # this sub-schema accepts the value, so another branch of the schema rejected it
        faults = asked.own.check(value)
        if not faults:
            return None

    if asked.wrapped is not None:
        return Part(root, base + place, asked.wrapped, wrapped=True)

    return Part(root, base + place, asked.own)


def _common_place(document: JSON, issues: Sequence[tuple[str, str]]) -> tuple[list[str], bool]:
    """Return the tokens of the value that contains all faults, and whether that is a missing key.

    A ``*`` in a path stands for a name that is not in the contract, so its member is unknown.
    """
    # the common prefix of all paths
    steps = zip(*(pointer_tokens(path) for _, path in issues), strict=False)
    tokens = [step[0] for step in takewhile(lambda step: len(set(step)) == 1, steps)]

    rules = {code.partition(".")[2] for code, _ in issues}
    may_be_missing = tokens != [] and rules == {SchemaRule.REQUIRED.value}
    if may_be_missing and "*" not in tokens and isinstance(value_at(document, tokens[:-1]), dict):
        return tokens, True

    while tokens and ("*" in tokens or value_at(document, tokens) is NOWHERE):
        tokens = tokens[:-1]

    return tokens, False


class _Asked(NamedTuple):
    """The schemas for the request of a value.

    ``own`` is the value's schema; ``wrapped`` is the schema of an object around it, or None if the
    value is known to be an object.
    """

    own: Schema
    wrapped: Schema | None


def _asked_for(schema: Schema, place: str) -> _Asked | None:
    """Return the schemas for the value at a place; None if the place has no schema of its own."""
    if place in schema.parts:
        known: _Asked | None = schema.parts[place]
        return known

    alone = schema.alone(place)
    asked = None
    if alone is not None:
        with suppress(
            ContractError
        ):  # a part that cannot be declared by itself is not requested by itself
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


def _with(root: JSON, tokens: Sequence[str], value: JSON) -> JSON:
    """Return a document with another value at a place; only the containers above are copied."""
    if not tokens:
        return value

    if isinstance(root, list):
        index = int(tokens[0])
        return [*root[:index], _with(root[index], tokens[1:], value), *root[index + 1 :]]

    if not isinstance(root, dict):
        return value  # unreachable: the containers above a part are objects or arrays

    return root | {tokens[0]: _with(root.get(tokens[0]), tokens[1:], value)}


def _compact(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ScopedCall:
    """One call that is retried by itself.

    ``tool`` is a declared tool, ``index`` the position of the call, ``at`` the pointer to its
    arguments.
    """

    tool: str
    index: int
    at: str


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a reply that is retried by itself: some calls, or one value."""

    draft: Draft
    """The frozen reply: everything else in it stays."""
    issues: tuple[Issue, ...]
    """The faults that determine the scope."""
    calls: tuple[ScopedCall, ...] = ()
    """The calls that are retried; empty for a value."""
    part: Part | None = None
    """The value that is retried; None for calls."""
    at: str = ""
    """Pointer to the document that contains the value; empty for calls."""
    place: str = ""
    """Pointer from the document to the value.

    It is empty for calls, and for all arguments of a call in the text channel.
    """

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools of the calls, one for each call."""
        return tuple(call.tool for call in self.calls)

    @property
    def name(self) -> str:
        """The scope for ``Attempt.scope``: the tools, each once, and the place of a value."""
        return ", ".join(dict.fromkeys(self.tools)) + self.place

    @property
    def only(self) -> ScopedCall | None:
        """The only call; None if there are several, or none."""
        return self.calls[0] if len(self.calls) == 1 else None


def scope_of(
    contract: Contract,
    draft: Draft,
    issues: tuple[Issue, ...],
    *,
    parts: bool = False,
    payload: bool = False,
) -> Scope | None:
    """Return the part that can be retried by itself; None if a fault is elsewhere.

    It is the calls of declared tools, if all faults are in their arguments. With ``parts`` a large
    document, arguments or an answer, is narrowed to the value that contains all faults. With
    ``payload`` the arguments of a call in the text channel are requested by themselves.
    """
    scope = None
    calls = _calls_at_fault(contract, draft, issues)
    if calls:
        scope = Scope(draft, issues, calls)

    if parts:
        smaller = _part_scope(contract, scope or Scope(draft, issues))
        if smaller is not None:
            return smaller

    if scope is not None and payload and contract.channel == "text":
        # never Invalid: the fault is in the arguments, so the content was read
        root = _content(contract, draft)
        part = Part(root, "/args", contract.by_name[calls[0].tool].parameters)
        return replace(scope, part=part, at="/args")

    return scope


def _calls_at_fault(
    contract: Contract, draft: Draft, issues: tuple[Issue, ...]
) -> tuple[ScopedCall, ...]:
    """Return the calls whose arguments contain all faults, in order; else none."""
    places = dict.fromkeys(_arguments_place(contract, issue) for issue in issues)
    calls: list[ScopedCall] = []
    for at in places:
        call = None if at is None else _scoped_call(contract, draft, at)
        if call is None:
            return ()

        calls.append(call)

    return tuple(sorted(calls, key=lambda call: call.index))


def _part_scope(contract: Contract, scope: Scope) -> Scope | None:
    """Narrow a scope to one value of the document with its faults; None if that is impossible."""
    if len(scope.calls) > 1 or not scope.issues:
        return None

    schema, at = _judging(contract, scope.only)
    if schema is None or not all(issue.path.startswith(f"{at}/") for issue in scope.issues):
        return None

    is_native = contract.channel == "native"
    if scope.only is not None and is_native:
        root: Any = decode(scope.draft.calls[scope.only.index].arguments, contract.limits)
    else:
        root = _content(contract, scope.draft)

    if isinstance(root, Invalid):
        return None

    # in the text channel the document is a member of the content
    base = "" if is_native else at
    faults = [(issue.code, issue.path.removeprefix(at)) for issue in scope.issues]
    part = part_of(root, base, schema, faults)
    if part is None:
        return None

    return replace(scope, part=part, at=at, place=part.place.removeprefix(base))


def _judging(contract: Contract, call: ScopedCall | None) -> tuple[Schema | None, str]:
    """Return the schema that judges a call's arguments or the answer, and the pointer to them."""
    if call is not None:
        return contract.by_name[call.tool].parameters, call.at

    at = TEXT_PLACE if contract.channel == "native" else "/answer"
    # a subclass of Answer judges by more than its schema
    if type(contract.answer) is not Answer or contract.answer_style == "tool":
        return None, at

    return contract.answer.schema, at


def _content(contract: Contract, draft: Draft) -> Any:
    """Return the JSON value of the text; Invalid if it cannot be read."""
    text, _ = extract(draft.text or "", contract.extraction, contract.limits)
    return decode(text, contract.limits)


def splice(
    contract: Contract, scope: Scope, draft: Draft
) -> tuple[Draft, tuple[str, ...]] | Invalid:
    """Merge a retried part into the frozen reply.

    Return the reply, whose calls keep their original ids, and the lenient steps that reading took.
    Return Invalid if the part cannot be read, with ``tool.switched`` if it is not the same number
    of calls of the same tools.
    """
    goes_into_calls = bool(scope.calls) and contract.channel == "native"
    if scope.part is not None and not goes_into_calls:
        return _content_with(contract, scope, scope.part, draft)

    if contract.channel == "text":
        # the model sent a whole reply, which is judged as it is; None: its tool cannot be read
        named = named_tool(contract, draft)
        if named not in {None, scope.calls[0].tool}:
            return _switched(scope, named)

        return draft, ()

    return _calls_with(contract, scope, draft)


def _calls_with(
    contract: Contract, scope: Scope, draft: Draft
) -> tuple[Draft, tuple[str, ...]] | Invalid:
    """Put the arguments of the new calls into the frozen calls, each under its original id."""
    given = list(draft.calls)
    names = _names_of(draft)
    if sorted(names) != sorted(scope.tools):
        found: object = names or None
        if len(names) == 1:
            found = names[0]

        return _switched(scope, found)

    frozen = list(scope.draft.calls)
    for call in scope.calls:
        # of several calls of one tool, the first new one replaces the first old one
        first = names.index(call.tool)
        names.pop(first)
        arguments = given.pop(first).arguments

        if scope.part is not None:
            arguments = _text_with(contract, scope, scope.part, arguments)
            if isinstance(arguments, Invalid):
                return arguments

        frozen[call.index] = replace(frozen[call.index], name=call.tool, arguments=arguments)

    return replace(scope.draft, calls=tuple(frozen)), ()


def _names_of(draft: Draft) -> list[str]:
    """Return the names of the called tools; empty for a name that is not a string."""
    return [call.name if isinstance(call.name, str) else "" for call in draft.calls]


def _content_with(
    contract: Contract, scope: Scope, part: Part, draft: Draft
) -> tuple[Draft, tuple[str, ...]] | Invalid:
    """Put a value from the text into the frozen text.

    In the text channel the model may send a whole reply of the same tool instead, which is used
    unchanged.
    """
    if draft.calls:
        expected = "a JSON object in the content"
        return Invalid((Issue.of(Code.CALL_MALFORMED, CALLS_PLACE, expected=expected),))

    reply = _whole_reply(contract, part, draft) if contract.channel == "text" else None
    if reply is not None:
        named = reply.get("tool", "")
        # the request was for an answer, so the reply must not name a tool
        expected_tools = scope.tools or ("",)
        if named not in expected_tools:
            return _switched(scope, named)

        return draft, ()

    text, steps = extract(draft.text or "", contract.extraction, contract.limits)
    written = _text_with(contract, scope, part, text)
    if isinstance(written, Invalid):
        return Invalid(written.issues, steps)

    return replace(scope.draft, text=written, other=None), steps


def _whole_reply(contract: Contract, part: Part, draft: Draft) -> JSONObject | None:
    """Return a text that is a whole reply of the text channel; None if it is only the value."""
    content = _content(contract, draft)
    source = part.schema.source
    properties = source.get("properties") if isinstance(source, dict) else None
    declared = set(properties) if isinstance(properties, dict) else set[str]()
    if not isinstance(content, dict) or not content.keys() <= UNION_NAMES:
        return None

    # if the value's own schema declares these names, the text is the value
    return None if content.keys() <= declared else content


def _text_with(contract: Contract, scope: Scope, part: Part, text: object) -> str | Invalid:
    """Return the JSON text of the document with the value from ``text``."""
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


def shown(scope: Scope, replay: Replay, *, with_text: bool = False) -> Scope:
    """Return a scope with as much of the frozen reply as a correction needs.

    That is the retried calls, and the text if ``with_text``. It is the whole reply if that contains
    something that a provider needs back. If one value is requested, the value replaces its
    document.
    """
    draft = scope.draft
    part = scope.part if scope.place else None
    if not draft.calls or not scope.calls:
        if part is None:
            return scope

        return replace(scope, draft=replace(draft, text=part.written, other=None))

    calls = list(draft.calls)
    if part is not None and scope.only:
        index = scope.only.index
        calls[index] = replace(calls[index], arguments=part.written)

    if not replay.is_plain(draft):
        return replace(scope, draft=replace(draft, calls=tuple(calls)))

    alone = Draft(
        text=draft.text if with_text else None,
        calls=tuple(calls[call.index] for call in scope.calls),
    )
    renumbered = tuple(replace(call, index=index) for index, call in enumerate(scope.calls))

    return replace(scope, draft=alone, calls=renumbered)


def own_scope(asked: Scope | None, scope: Scope, own: Draft) -> Scope | None:
    """Return a scope with the places of its calls in the reply to the request for ``asked``.

    ``own`` is that reply. None if its calls are not those of the scope.
    """
    if asked is None:
        return None

    names = _names_of(own)
    if sorted(names) != sorted(asked.tools):
        return None

    places: dict[int, int] = {}
    for call in asked.calls:
        place = names.index(call.tool)
        names[place] = ""
        places[call.index] = place

    if not all(call.index in places for call in scope.calls):
        return None

    own_calls = sorted(
        (replace(call, index=places[call.index]) for call in scope.calls),
        key=lambda call: call.index,
    )
    return replace(scope, draft=own, calls=tuple(own_calls))


def _switched(scope: Scope, found: object) -> Invalid:
    at = CALLS_PLACE if scope.calls else scope.at
    if scope.only:
        at = scope.only.at

    return Invalid((Issue.of(Code.TOOL_SWITCHED, at, name=scope.name, found=quote(found)),))


def _arguments_place(contract: Contract, issue: Issue) -> str | None:
    """Return the pointer to the arguments that contain a fault; None if it is elsewhere."""
    if not issue.code.startswith(_ARGUMENT_CODES):
        # arguments that are not an object have a fault of shape, but inside the arguments
        place = _place_around(contract, issue.path)
        is_about_args = issue.code == str(Code.SHAPE_WRONG_TYPE) and issue.path == place
        return place if is_about_args else None

    return _place_around(contract, issue.path)


def _place_around(contract: Contract, path: str) -> str | None:
    """Return the pointer to the arguments around a place; None if it is elsewhere."""
    if contract.channel == "text":
        return "/args" if pointer_tokens(path)[:1] == ["args"] else None

    found = arguments_around(path)
    return None if found is None else found[1]


def _scoped_call(contract: Contract, draft: Draft, at: str) -> ScopedCall | None:
    """Return the call whose arguments are at a pointer; None if its tool is not declared."""
    index = 0  # the text channel has one call
    name: object = None
    if contract.channel == "text":
        name = named_tool(contract, draft)
    else:
        found = arguments_around(at)
        index = -1 if found is None else found[0]
        if 0 <= index < len(draft.calls):
            name = draft.calls[index].name

    if not isinstance(name, str) or name not in contract.by_name:
        return None

    return ScopedCall(name, index, at)
