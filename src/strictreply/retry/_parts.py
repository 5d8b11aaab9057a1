"""Re-asking one value of a JSON text: finding it with the schema it has to fit, and putting its new value in.

In the text channel the arguments of a call are such a value. Of a large document, in any channel, the smallest value
that holds all faults is one: it costs what it says, not what the document says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from strictreply.schema import Schema, SchemaRule
from strictreply.values._errors import ContractError
from strictreply.values._issues import Code, Issue, pointer, pointer_tokens, quote, shown_place
from strictreply.values._json import JSON, JSONObject
from strictreply.values._replies import Invalid

MIN_DOCUMENT_CHARS = 300
"""A shorter document is asked for as a whole: what is said about one value of it costs as much."""

MIN_SAVING = 4
"""How many times as long as the value alone a document has to be."""

MAX_KEPT = 64
"""How many places of one schema are remembered: those inside of arrays have no end."""

WRAPPED = "value"
"""The member under which a value that is no object is asked for: endpoints take only objects."""


@dataclass(frozen=True, slots=True)
class Part:
    """One value of a JSON text that is asked for alone.

    ``root`` is what the text holds, ``place`` the pointer to the value in it, ``schema`` what is asked for: an object,
    the value itself or ``{"value": …}`` where ``wrapped``.
    """

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

    def text_with(self, value: JSON, at: str) -> str | Invalid:
        """Return the whole JSON text with what came for the value; ``at`` is the pointer to that in the reply."""
        if self.wrapped:
            if not isinstance(value, dict) or value.keys() != {WRAPPED}:
                expected = f'an object {{"{WRAPPED}": …}}'
                return Invalid((Issue.of(Code.SHAPE_WRONG_TYPE, at, expected=expected, found=quote(value)),))
            value = value[WRAPPED]
        return _compact(_with(self.root, pointer_tokens(self.place), value))


def part_words(tool: str | None, place: str, *, wrapped: bool) -> str:
    """Return in our words what is asked for alone: a value inside of a document, or the arguments of a tool."""
    if not place:
        return f"the arguments of {tool}, one JSON object,"
    return f"the value of {shown_place(place)}" + (f', as {{"{WRAPPED}": …}},' if wrapped else ", one JSON object,")


def part_of(root: JSON, base: str, schema: Schema, issues: Sequence[tuple[str, str]]) -> Part | None:
    """Find the value of a document that holds all faults; None when that is the document, or not worth an ask.

    Where the one fault is a key that is missing, this is its value, which is not there yet. ``base`` is the pointer to
    the document in ``root``, ``schema`` what it has to fit; ``issues`` are codes, and places counted from the document.
    """
    steps = zip(*(pointer_tokens(path) for _, path in issues), strict=False)  # as far as the shortest goes
    tokens = [step[0] for step in takewhile(lambda step: len(set(step)) == 1, steps)]
    document = value_at(root, pointer_tokens(base))
    is_missing = tokens != [] and {code.partition(".")[2] for code, _ in issues} == {SchemaRule.REQUIRED.value}
    if not (is_missing and "*" not in tokens and isinstance(value_at(document, tokens[:-1]), dict)):
        is_missing = False
        while tokens and ("*" in tokens or value_at(document, tokens) is _NOWHERE):  # ``*`` is a name that is not told
            tokens = tokens[:-1]
    place = pointer("", *tokens)
    value = value_at(document, tokens)
    size = len(_compact(document)) if tokens else 0
    if size < MIN_DOCUMENT_CHARS or (not is_missing and MIN_SAVING * len(_compact(value)) > size):
        return None
    asked = _asked_for(schema, place)
    if asked is None:
        return None
    own, wrapped = asked
    if not is_missing and any(code.partition(".")[2] in _RULES for code, _ in issues) and not own.check(value):
        return None  # the sub-schema of another branch: this one does not refuse the value
    return Part(root, base + place, wrapped or own, wrapped=wrapped is not None)


def _asked_for(schema: Schema, place: str) -> tuple[Schema, Schema | None] | None:
    """Return the schema of the value at a place, and the one it is asked for by where it may be no object.

    None where it says nothing by itself. They are kept with the whole schema: a fault is seldom the only one.
    """
    known = schema.parts.get(place, _NOWHERE)
    if known is not _NOWHERE:
        kept: tuple[Schema, Schema | None] | None = known
        return kept
    alone, made = schema.alone(place), None
    if alone is not None:
        with suppress(ContractError):
            own = Schema.compile(alone, extra="schema", root_closed=False)
            is_object = takes_objects(alone)
            made = own, None if is_object else Schema.compile(_wrapped(alone), extra="schema", root_closed=False)
    if len(schema.parts) >= MAX_KEPT:
        schema.parts.clear()
    schema.parts[place] = made
    return made


def _wrapped(schema: JSONObject) -> JSONObject:
    """Return the schema of an object with the value as its one member; definitions stay at the root."""
    inner = {name: each for name, each in schema.items() if name not in _DEFINING}
    closed: JSONObject = {"type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED]}
    return closed | {"additionalProperties": False} | {name: schema[name] for name in _DEFINING if name in schema}


_RULES = frozenset(rule.value for rule in SchemaRule)
_DEFINING = ("$defs", "definitions")


def takes_objects(schema: object) -> bool:
    """Return whether all that fits a schema is known to be an object."""
    return isinstance(schema, dict) and schema.get("type") == "object"


_NOWHERE: Any = object()


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
    """Return a document with another value at a place, or one more member; the document itself stays as it is."""
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
