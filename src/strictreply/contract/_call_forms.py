"""What may follow a marker of a template: the name of a declared tool, in one of its forms.

The forms are those of :attr:`~strictreply.contract._call_templates.Template.then`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator
from enum import Enum
from typing import NamedTuple

# The members of a call in JSON: OpenAI's, Llama's (jundot/omlx#1153), LangChain's, and those of the
# text channel.
NAMES = ("name", "tool", "tool_name", "function", "function_name", "recipient_name", "action")
ARGUMENTS = (
    "arguments",
    "parameters",
    "args",
    "params",
    "input",
    "tool_input",
    "tool_args",
    "action_input",
)
# The members that contain calls: the API's own, written as text (groq/groq-typescript#103), and
# Gemini's.
WRAPPERS = (
    "function",
    "tool_call",
    "tool_calls",
    "function_call",
    "function_calls",
    "functionCall",
    "tool_uses",
    "calls",
)
SCHEMA_WORDS = frozenset(
    {"type", "required", "additionalProperties", "description", "title", "$schema", "$defs"}
)
JSON_IN_TEXT = json.JSONDecoder(strict=False)  # models write raw line breaks into long arguments

_NAME_SPACES = ("functions.", "default_api.")
_MAX_DEPTH = 4
_KINDS = "name|json|keyed|args"
_PIECES = re.compile(rf"\{{({_KINDS})\}}|( )|((?:[^{{ ]|\{{(?!(?:{_KINDS})\}}))+)")

_BLANKS = re.compile(r"\s{0,100}")
_QUOTE = re.compile(r"\\?[\"']")
_NAME = re.compile(r"[\w./:-]{1,200}")
_NUMBER = re.compile(r":[0-9]{1,9}")
_MEMBER = rf"""["'](?:{"|".join(NAMES)})["']\s*:\s*["'](?P<name>[^"']{{1,200}})["']"""
_NAMED = re.compile(_MEMBER)
_KEYED = re.compile(r"""\{\s*["'](?P<name>[^"']{1,200})["']\s*:""")
_BEGINS_JSON = re.compile(
    r"""\[\s{0,100}(?:[\[{]|\Z)|\{\s{0,100}(?:["'}\w]|\Z)""",
)
_BEGINS_OBJECT = re.compile(r"\{\s*(?:[\"}]|\Z)")
_ENDS_ARGUMENTS = re.compile(r"\s*(?:<\||<?\Z)")
_LEAST_JSON = 1000
_CUT_WORDS = ("Unterminated string", "Invalid \\u", "Invalid \\escape")  # at the end of a text
_FIRST_MEMBERS = 400  # characters of incomplete JSON that are searched for a name


class State(Enum):
    """What follows a marker: a call, no call, or not yet known."""

    CALL = 1
    NOTHING = 2
    OPEN = 3


class Piece(NamedTuple):
    """One piece of a form: a literal text, or a kind of text."""

    kind: str
    text: str = ""


class Behind(NamedTuple):
    """What was found after a marker, and where it ends as far as known.

    ``is_json`` says whether it ends with JSON that was read.
    """

    state: State
    end: int = 0
    is_json: bool = False


_NOTHING = Behind(State.NOTHING)
_OPEN = Behind(State.OPEN)


def pieces_of(form: str) -> tuple[Piece, ...]:
    """Return the pieces of a form."""
    pieces: list[Piece] = []
    for found in _PIECES.finditer(form):
        kind = found[1] or ("blanks" if found[2] else "text")
        pieces.append(Piece(kind, found[3] or ""))

    return tuple(pieces)


class Reader:
    """Reads forms in one text, complete or still arriving.

    ``limit`` is where the next marker starts: broken JSON ends there at the latest.
    """

    def __init__(self, text: str, tools: Container[str], *, is_whole: bool) -> None:
        self._text = text
        self._tools = tools
        self._is_whole = is_whole

    def read(self, form: tuple[Piece, ...], at: int, limit: int) -> Behind:
        """Read a form from ``at`` on. A call may be cut off after its name."""
        is_named = False
        is_json = False
        for piece in form:
            if piece.kind == "blanks":
                blanks = _BLANKS.match(self._text, at)
                at = blanks.end() if blanks else at
                continue

            if piece.kind == "text":
                behind = self._literal(piece.text, at)
            elif piece.kind == "name":
                behind = self._name(at)
            else:
                behind = self._json(piece.kind, at, limit)

            if behind.state is State.OPEN and self._is_whole:
                return Behind(State.CALL, at) if is_named else _NOTHING
            if behind.state is not State.CALL:
                return behind

            at = behind.end
            is_json = behind.is_json
            is_named |= piece.kind != "text"

        return Behind(State.CALL, at, is_json)

    def _literal(self, literal: str, at: int) -> Behind:
        if self._text.startswith(literal, at):
            return Behind(State.CALL, at + len(literal))

        is_cut = len(self._text) - at < len(literal) and literal.startswith(self._text[at:])
        return _OPEN if is_cut else _NOTHING

    def _name(self, at: int) -> Behind:
        text = self._text
        quote = _QUOTE.match(text, at)
        start = quote.end() if quote else at
        found = _NAME.match(text, start)
        if found is None:
            return _OPEN if start >= len(text) - 1 else _NOTHING
        if found.end() == len(text) and not self._is_whole:
            return _OPEN  # the name may continue

        size = next((at for at, name in _names_in(found[0]) if name in self._tools), None)
        if size is None:
            return _NOTHING

        end = start + size
        number = _NUMBER.match(text, end)
        end = number.end() if number else end
        if quote is None:
            return Behind(State.CALL, end)
        if end == len(text):
            return Behind(State.CALL, end + len(quote[0]))

        closing = _QUOTE.match(text, end)
        is_closed = closing is not None and closing[0][-1] == quote[0][-1]
        return Behind(State.CALL, closing.end()) if closing and is_closed else _NOTHING

    def _json(self, kind: str, at: int, limit: int) -> Behind:
        text = self._text
        if at >= len(text):
            return _OPEN
        if not (_BEGINS_OBJECT if kind == "args" else _BEGINS_JSON).match(text, at):
            return _NOTHING

        decoded = decoded_at(text, at)
        if decoded is None:
            return self._broken_json(kind, at, limit)

        value, end = decoded
        if kind == "args":
            ends = _ENDS_ARGUMENTS.match(text, end)
            return Behind(State.CALL, end, is_json=True) if ends else _NOTHING

        names = keys_in(value) if kind == "keyed" else called_in(value, _MAX_DEPTH)
        is_call = any(without_name_space(name) in self._tools for name in names)
        return Behind(State.CALL, end, is_json=True) if is_call else _NOTHING

    def _broken_json(self, kind: str, at: int, limit: int) -> Behind:
        """Read JSON that is cut off, malformed or incomplete: its members show what it is."""
        text = self._text
        if kind == "args":
            is_cut = limit == len(text)
            if not self._is_whole:
                return _OPEN
            return Behind(State.CALL, limit) if is_cut else _NOTHING

        members = _KEYED if kind == "keyed" else _NAMED
        end = limit if self._is_whole else min(limit, at + _FIRST_MEMBERS)
        names = (found["name"] for found in members.finditer(text, at, end))
        if any(without_name_space(name) in self._tools for name in names):
            return Behind(State.CALL, at)

        return _NOTHING if self._is_whole else _OPEN


def decoded_at(text: str, at: int) -> tuple[object, int] | None:
    """Return the JSON that starts at a place, and where it ends; None if it is malformed.

    The decoder counts all lines before an error, so it gets no more text than the JSON can have.
    """
    size = _LEAST_JSON
    while True:
        part = text[at : at + size]
        try:
            value, end = JSON_IN_TEXT.raw_decode(part)
        except RecursionError:
            return None
        except json.JSONDecodeError as error:
            is_cut = error.pos >= len(part) or error.msg.startswith(_CUT_WORDS)
            if at + size >= len(text) or not is_cut:
                return None

            size *= 4
        else:
            return value, at + end


def without_name_space(name: str) -> str:
    """Return a name without the namespace in which the model saw it."""
    for space in _NAME_SPACES:
        name = name.removeprefix(space)

    return name


def _names_in(written: str) -> Iterator[tuple[int, str]]:
    """Yield the possible tool names in a run of name characters, the longest first.

    Each comes with its end.
    """
    for name in dict.fromkeys((written, without_name_space(written))):
        skipped = len(written) - len(name)
        end = len(name)
        while end > 0:
            yield skipped + end, name[:end]
            end = max(name.rfind(".", 0, end), name.rfind(":", 0, end))


def keys_in(value: object) -> list[str]:
    """Return the keys of an object, or of the objects in a list, that contain arguments."""
    objects = value if isinstance(value, list) else [value]
    return [
        key
        for one in objects
        if isinstance(one, dict)
        for key, arguments in one.items()
        if isinstance(arguments, dict)
    ]


def called_in(value: object, depth: int) -> list[str]:
    """Return the tools that a JSON value between the markers of calls may call.

    The rules are looser than for JSON without markers, because the markers say that it is a call.
    """
    if depth == 0:
        return []
    if isinstance(value, list):
        return [name for one in value for name in called_in(one, depth - 1)]
    if not isinstance(value, dict) or is_definition(value):
        return []

    named = [value[key] for key in NAMES if isinstance(value.get(key), str)]
    inside = [name for key in WRAPPERS for name in called_in(value.get(key), depth - 1)]
    return named + inside


def is_definition(value: dict[str, object]) -> bool:
    """Return whether an object defines a tool: its arguments are a schema."""
    for key in ARGUMENTS:
        match value.get(key):
            case {"properties": _}:
                return True
            case {"type": "object", **others} if SCHEMA_WORDS.issuperset(others):
                return True
            case _:
                continue

    return False
