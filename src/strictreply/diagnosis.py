"""Why a text is not strict JSON: an iterative tokenizer that names each fault, its place and its JSON path.

It is the slow, exact twin of the parser in :mod:`strictreply.decoding` and builds no values. Nothing here decides
what a value must look like.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from strictreply.issues import Code
from strictreply.limits import MAX_NUMBER_DIGITS

if TYPE_CHECKING:
    from strictreply.limits import Limits

MAX_FAULTS = 16
"""The faults of one text that are reported; reading stops at the last of them."""

_EXCERPT_CHARS = 30  # shown on either side of a fault

Token: TypeAlias = "str | int"
"""One step of a JSON path: the name of a member or the index of an item."""

# The grammar of RFC 8259. Possessive quantifiers keep matching linear in time and flat in memory.
_SPACE = r"[ \t\n\r]*+"
_BODY = r'[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*+)*+'
_DIGITS = r"(?:0|[1-9][0-9]*+)"
_FLOAT = rf"-?+{_DIGITS}(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+"
_WHOLE = r"(?![0-9.eE+-])"  # a number that runs on into such a character is no number
_COMMA = rf"{_SPACE}(,)?+"

_LEXEME = re.compile(
    rf'{_SPACE}(?:("{_BODY}"){_SPACE}(?:(:)|(,))?+'  # groups 1, 2, 3: a string, with its colon, with its comma
    rf"|(-?+{_DIGITS}){_WHOLE}{_COMMA}"  # 4, 5
    rf"|({_FLOAT}){_WHOLE}{_COMMA}"  # 6, 7
    rf"|(true|false|null){_COMMA}"  # 8, 9
    rf"|(NaN|-?+Infinity){_COMMA}"  # 10, 11
    r"|(\{)|(\[)"  # 12, 13
    rf"|(\}}){_COMMA}|(\]){_COMMA}"  # 14, 15, 16, 17
    r"|)"  # none of these: finditer must not skip ahead to one
)

# What a lexeme is in the grammar, one bit each: a scan holds the set of those that may come next.
_NAME, _SCALAR, _OPEN, _END_OBJECT, _END_ARRAY = 1, 2, 4, 8, 16
_VALUE = _SCALAR | _OPEN
# Both by the last group that took part in a match: what it is, and the group that holds it without its comma.
_ROLES = (0, _SCALAR, _NAME, *(_SCALAR,) * 9, _OPEN, _OPEN, _END_OBJECT, _END_OBJECT, _END_ARRAY, _END_ARRAY)
_BARE = (0, 1, 2, 1, 4, 4, 6, 6, 8, 8, 10, 10, 12, 13, 14, 14, 16, 16)
_STRING, _INTEGER, _DOUBLE, _NOT_FINITE, _OBJECT = 1, 4, 6, 10, 12

# What is looked at only where a lexeme broke off.
_BLANK = re.compile(_SPACE)
_STRING_START = re.compile(f'"{_BODY}')
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{0,3})?+\Z")
_NUMBER_START = re.compile(rf"-?+(?:{_DIGITS}(?:\.(?:[0-9]++)?+)?+(?:(?<=[0-9])[eE][+-]?+[0-9]*+)?+)?+")
_WORDS = ("true", "false", "null")

_WHOLE_DIGITS = re.compile(r"-?+([0-9]*+)")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a text.

    ``offset`` is the character where it stands, ``tokens`` the path of the value it is in, ``found`` what the model
    wrote there (not yet escaped), ``limit`` the cap that was passed, 0 where the fault is not about a cap.
    """

    code: Code
    offset: int
    tokens: tuple[Token, ...] = ()
    found: str = ""
    limit: int = 0


class _Frame:
    """One open container and how far it was read."""

    __slots__ = ("end", "index", "name", "names")

    def __init__(self, end: int) -> None:
        """Open a container that a lexeme with the role ``end`` closes."""
        self.end = end
        self.index = 0
        self.name: str | None = None
        self.names: set[str] = set()

    @property
    def place(self) -> tuple[Token, ...]:
        """The step to the value being read; none in an object between two members."""
        if self.end == _END_ARRAY:
            return (self.index,)
        return () if self.name is None else (self.name,)


class Scan:
    """One JSON value read from ``text`` at ``start``; what follows the value is not looked at.

    ``faults`` is what was wrong with it, ``nodes`` the number of values read, ``end`` the offset after the value when
    it is ``complete``, else of the fault that stopped the reading. Duplicate names, lone surrogates and numbers out
    of range do not stop it. Time and memory are linear in what is read.
    """

    __slots__ = ("_depth", "_expected", "_nodes", "_stack", "complete", "end", "faults", "nodes", "text")

    def __init__(self, text: str, start: int, *, depth: int, nodes: int) -> None:
        """Read the value, at most ``depth`` containers deep and ``nodes`` values long."""
        self.text = text
        self.end = start
        self.complete = False
        self.nodes = 0
        self.faults: list[Fault] = []
        self._depth = depth
        self._nodes = nodes
        self._stack: list[_Frame] = []
        self._expected = _VALUE
        self._read(start)

    @property
    def stopped_by(self) -> Code | None:
        """The fault that ended the reading, None when the value is complete."""
        return None if self.complete else self.faults[-1].code

    def _read(self, start: int) -> None:
        """Follow the lexemes until nothing more is expected."""
        for lexeme in _LEXEME.finditer(self.text, start):
            group = lexeme.lastindex or 0
            role = _ROLES[group]
            if not role & self._expected:
                self._stop(*self._broken(_after_blanks(self.text, lexeme.start())))
            elif role == _NAME:
                self._name(lexeme)
            elif role == _OPEN:
                self._open(lexeme.start(group), _END_OBJECT if group == _OBJECT else _END_ARRAY)
            else:
                bare = _BARE[group]
                if role == _SCALAR:
                    self._scalar(lexeme, bare)
                else:
                    self._stack.pop()
                self._after_value(lexeme.end(bare), comma=bare != group)
            if not self._expected:
                return

    def _name(self, lexeme: re.Match[str]) -> None:
        """Enter a member; its name must be new in its object."""
        frame = self._stack[-1]
        text = lexeme[_STRING]
        name = frame.name = _decoded(text) if "\\" in text else text[1:-1]
        self._expected = _VALUE
        if name in frame.names:
            self._note(Code.JSON_DUPLICATE_KEY, lexeme.start(_STRING), name)
        frame.names.add(name)
        self._check_surrogates(text, lexeme.start(_STRING))

    def _open(self, offset: int, end: int) -> None:
        """Enter a container, if the caps allow it."""
        self._count(offset)
        if len(self._stack) >= self._depth:
            self._stop(Code.JSON_TOO_DEEP, offset, self._depth)
        elif self._expected:
            self._stack.append(_Frame(end))
            self._expected = (_NAME if end == _END_OBJECT else _VALUE) | end

    def _scalar(self, lexeme: re.Match[str], group: int) -> None:
        """Check a string or number for what the grammar alone lets through."""
        offset = lexeme.start(group)
        self._count(offset)
        if group == _STRING:
            self._check_surrogates(lexeme[group], offset)
        elif group == _INTEGER:
            self._check_length(lexeme[group], offset)
        elif group == _DOUBLE:
            if not self._check_length(lexeme[group], offset) and math.isinf(float(lexeme[group])):
                self._note(Code.JSON_NOT_FINITE, offset, lexeme[group])
        elif group == _NOT_FINITE:
            self._note(Code.JSON_NOT_FINITE, offset, lexeme[group])

    def _after_value(self, end: int, *, comma: bool) -> None:
        """Say what may follow a value that ended at ``end``: nothing, when it was the outermost."""
        if not self._expected:
            return
        if not self._stack:
            self.complete, self.end, self._expected = True, end, 0
            return
        frame = self._stack[-1]
        if not comma:
            self._expected = frame.end
        elif frame.end == _END_OBJECT:
            frame.name = None
            self._expected = _NAME
        else:
            frame.index += 1
            self._expected = _VALUE

    def _count(self, offset: int) -> None:
        """Count one value against the cap."""
        self.nodes += 1
        if self.nodes > self._nodes:
            self._stop(Code.JSON_TOO_MANY_NODES, offset, self._nodes)

    def _check_surrogates(self, text: str, offset: int) -> None:
        """Refuse a string with half of a surrogate pair, written raw or as an escape (RFC 7493 section 2.1)."""
        if ("\\u" in text or not text.isascii()) and _SURROGATE.search(_decoded(text)):
            self._note(Code.JSON_SURROGATE, offset, _decoded(text))

    def _check_length(self, text: str, offset: int) -> bool:
        """Refuse a number whose digits before the point CPython would not convert; tell whether it was."""
        if len(text) <= MAX_NUMBER_DIGITS or _digits_before_point(text) <= MAX_NUMBER_DIGITS:
            return False
        self._note(Code.JSON_NUMBER_TOO_LONG, offset, text, MAX_NUMBER_DIGITS)
        return True

    def _note(self, code: Code, offset: int, found: str, limit: int = 0) -> None:
        """Keep a fault and read on, unless there are enough of them."""
        tokens = tuple(token for frame in self._stack for token in frame.place)
        self.faults.append(Fault(code, offset, tokens, found, limit))
        if len(self.faults) >= MAX_FAULTS:
            self.end, self._expected = offset, 0

    def _stop(self, code: Code, offset: int, limit: int = 0) -> None:
        """Keep a fault and read no further."""
        if self._expected:
            self._note(code, offset, excerpt(self.text, offset), limit)
            self.end, self._expected = offset, 0

    def _broken(self, offset: int) -> tuple[Code, int]:
        """Say what stands at ``offset`` in place of what was expected, and where exactly it goes wrong.

        A text that ends inside a lexeme or a container is incomplete; anything else is a fault of syntax.
        """
        text = self.text
        if text.startswith('"', offset) and self._expected & (_NAME | _SCALAR):
            end = _broken_string(text, offset)
        elif self._expected & _SCALAR:
            end = _broken_scalar(text, offset)
        else:
            end = offset
        return (Code.JSON_INCOMPLETE if end == len(text) else Code.JSON_SYNTAX), end


def diagnose(text: str, limits: Limits) -> list[Fault]:
    """Name the faults of a text that should be exactly one JSON value: at most 16, none when there are none.

    A fault of syntax ends the list, as does a cap that was passed.
    """
    if not text or text.isspace():
        return [Fault(Code.JSON_EMPTY, 0)]
    scan = Scan(text, 0, depth=limits.depth, nodes=limits.nodes)
    rest = _after_blanks(text, scan.end)
    if scan.complete and rest < len(text):
        following = Scan(text, rest, depth=limits.depth, nodes=limits.nodes - scan.nodes)
        code = Code.JSON_SEVERAL_VALUES if following.complete else Code.JSON_TRAILING_DATA
        return [*scan.faults, Fault(code, rest, (), excerpt(text, rest))]
    return scan.faults


def excerpt(text: str, offset: int) -> str:
    """Cut the neighbourhood of ``offset`` out of ``text``."""
    return text[max(0, offset - _EXCERPT_CHARS) : offset + _EXCERPT_CHARS]


def _after_blanks(text: str, offset: int) -> int:
    """Skip the white space of JSON."""
    blank = _BLANK.match(text, offset)
    return blank.end() if blank else offset


def _broken_string(text: str, offset: int) -> int:
    """Find where a string goes wrong, or what follows it when the string is whole; the text's end when it is cut."""
    start = _STRING_START.match(text, offset)
    end = start.end() if start else offset
    if text.startswith('"', end):
        return _after_blanks(text, end + 1)
    return len(text) if _CUT_ESCAPE.match(text, end) else end


def _broken_scalar(text: str, offset: int) -> int:
    """Find where a number or a word goes wrong; the text's end when it is cut."""
    rest = text[offset : offset + max(map(len, _WORDS))]
    if any(word.startswith(rest) for word in _WORDS):
        return len(text)
    number = _NUMBER_START.match(text, offset)
    return number.end() if number else offset


def _digits_before_point(text: str) -> int:
    """Count the digits of a number's whole part."""
    digits = _WHOLE_DIGITS.match(text)
    return len(digits[1]) if digits else 0


def _decoded(text: str) -> str:
    """Undo the escapes of a string lexeme, quotes included."""
    value: str = json.loads(text)
    return value
