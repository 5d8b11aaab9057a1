"""Explains why a text is not strict JSON.

An iterative tokenizer finds each fault, with its position and its JSON path.
"""

from __future__ import annotations

import json
import math
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from strictreply.values._issues import Code
from strictreply.values._limits import MAX_NUMBER_DIGITS, Limits, Work

MAX_FAULTS = 16  # faults of one text that are reported; reading stops at the last of them
NODES_PER_STEP = 3  # values that are read in one step of work
_EXCERPT_CHARS = 30  # characters shown on either side of a fault
# one token of a JSON path: the name of a member or the index of an item
PathToken: TypeAlias = "str | int"

# The grammar of RFC 8259. Possessive quantifiers keep matching linear in time and constant in
# memory. Before Python 3.11.5 a possessive group that fails midway is not undone (gh-106052), so
# groups are not possessive if that costs nothing; for escapes in a long string it costs memory on
# those versions.
_SPACE = r"[ \t\n\r]*+"
_MANY = "*+" if sys.version_info >= (3, 11, 5) else "*"
_BODY = r'[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*+)' + _MANY
_DIGITS = r"(?:0|[1-9][0-9]*+)"
_NUMBER = rf"-?+{_DIGITS}(?:\.[0-9]++)?(?:[eE][+-]?+[0-9]++)?"
_WHOLE = r"(?![0-9.eE+-])"  # a number followed by such a character is not a number
_COMMA = rf"{_SPACE}(,)?+"
# Scalars that the grammar alone decides, including numbers whose exponent cannot exceed the largest
# double.
_SMALL = (
    rf"-?+(?:0|[1-9][0-9]{{0,199}}+)(?:\.[0-9]++)?(?:[eE](?:-[0-9]++|\+?+[0-9]{{1,2}}+))?{_WHOLE}"
)
_PLAIN = rf'"[ !#-\[\]-\x7f]*+"|{_SMALL}|true|false|null'
# Values that need a check: a string may contain half a surrogate pair, an empty container may be
# too deep.
_TEXT = rf'"{_BODY}"'
_RANGE = rf"{_NUMBER}{_WHOLE}|NaN|-?+Infinity"
_EMPTY = rf"\{{{_SPACE}\}}|\[{_SPACE}\]"
_VALUE = "|".join(f"({value}){_COMMA}" for value in (_PLAIN, _TEXT, _RANGE, _EMPTY))
_ANY = rf"(?:{_VALUE}|(\{{)|(\[))"
# One lexeme is a member of an object or an item of an array, up to its scalar or opening bracket,
# with a following comma; or the end of a container with a following comma; or nothing, because
# finditer would otherwise skip text in search of the next lexeme.
_LEXEME = re.compile(
    rf'{_SPACE}(?:"({_BODY})"{_SPACE}:{_SPACE}{_ANY}|{_ANY}|(\}}){_COMMA}|(\]){_COMMA}|)'
)
# The roles of lexemes, as bits: a set of them says what may follow. And their kinds; the values'
# kinds are in the order of _ANY.
_MEMBER = 1
_ITEM = 2
_END_OBJECT = 4
_END_ARRAY = 8
_IS_PLAIN, _IS_TEXT, _IS_NUMBER, _IS_EMPTY, _IS_OBJECT, _IS_ARRAY, _IS_END = range(7)
_OPENING = (_IS_OBJECT, _IS_ARRAY)
# The kinds of values, each without and with a following comma; an opening bracket has no comma.
_PAIRS = [(kind, comma) for kind in range(_IS_END) for comma in (False, True)]
_VALUES = [(kind, comma) for kind, comma in _PAIRS if not (comma and kind in _OPENING)]
# Role, kind, and whether a comma follows, by the last group of _LEXEME that matched: 0 if no group
# matched, 1 for a name.
_LEXEMES = (
    (0, _IS_END, False),
    (0, _IS_END, False),
    *((_MEMBER, kind, comma) for kind, comma in _VALUES),
    *((_ITEM, kind, comma) for kind, comma in _VALUES),
    (_END_OBJECT, _IS_END, False),
    (_END_OBJECT, _IS_END, True),
    (_END_ARRAY, _IS_END, False),
    (_END_ARRAY, _IS_END, True),
)

# Details that are examined only if a lexeme is unusual or broken.
_BLANK = re.compile(_SPACE)
_NAME_START = re.compile(rf'"({_BODY})"{_SPACE}:{_SPACE}')
_STRING_START = re.compile(f'"{_BODY}')
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{0,3})?\Z")
_NUMBER_START = re.compile(rf"-?+(?:{_DIGITS}(?:\.[0-9]*+)?(?:(?<=[0-9])[eE][+-]?+[0-9]*+)?)?")
_OTHER_WORD = re.compile(r"(?:true|false|null|none|undefined|nil)\b", re.IGNORECASE)
_MISSPELT = (
    (re.compile("'"), "a string in double quotes"),
    (_OTHER_WORD, "true, false or null, in lower case"),
    (re.compile(r"[+.-]?[0-9]"), "a number as JSON writes it"),
)
_COMMENT = re.compile(r"//|/\*|#")
# how prose, tags and fences begin, and JSON never does
_AROUND = re.compile(r"[^\W\d_]|```|~~~|[<*>#]")

# What the grammar expects, by the roles of the possible lexemes.
_WANTED = {
    _MEMBER: "a key in double quotes",
    _MEMBER | _END_OBJECT: "a key in double quotes or }",
    _ITEM: "a value",
    _ITEM | _END_ARRAY: "a value or ]",
    _END_OBJECT: "a comma or }",
    _END_ARRAY: "a comma or ]",
}
_CLOSED_BY = {_END_OBJECT: "}", _END_ARRAY: "]"}
_MAX_CLOSING = 8
ALONE = "the JSON alone, no prose or code fence"
_INTEGER_PART = re.compile(r"-?+([0-9]*+)")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class JsonFault:
    """One fault of a text."""

    code: Code
    """What is wrong."""
    offset: int
    """Position of the fault in the text, in characters."""
    tokens: tuple[PathToken, ...] = ()
    """Path to the value that contains the fault; empty for the whole text."""
    found: str = ""
    """What the model wrote there."""
    limit: int = 0
    """The limit that was exceeded; 0 for any other fault."""
    expected: str = ""
    """What was expected there; empty if the fault is of another kind."""
    hint: str = ""
    """The likely mistake; empty when unknown."""


# The faults after which nothing can be read. Duplicate names, unpaired surrogates and numbers out
# of range are not among them.
_ENDING = {Code.JSON_TOO_MANY_NODES, Code.JSON_TOO_DEEP, Code.JSON_INCOMPLETE, Code.JSON_SYNTAX}


class _Stopped(Exception):
    """Ends the reading at a fatal fault."""


class _Frame:
    """One open container.

    A lexeme with the role ``end`` closes it; one with the role ``next`` continues it after a comma.
    """

    __slots__ = ("end", "first", "index", "name", "names", "next")

    def __init__(self, end: int, following: int) -> None:
        self.end = end
        self.next = following
        self.first = end | following
        self.index = 0
        self.name: str | None = None  # of the current member
        self.names: set[str] = set()


class Scan:
    """One JSON value, read from ``text`` at ``start``.

    It may have ``depth`` levels and ``nodes`` values.
    """

    __slots__ = ("_max_depth", "_max_nodes", "_stack", "complete", "end", "faults", "nodes", "text")

    def __init__(self, text: str, start: int, *, depth: int, nodes: int) -> None:
        self.text = text
        self.nodes = 0
        self.complete = False
        # the offset after the value if it is complete, else of the fault that ended the reading
        self.end = start

        self.faults: list[JsonFault] = []
        self._max_depth = depth
        self._max_nodes = nodes
        self._stack = [_Frame(0, 0)]

        with suppress(_Stopped):
            self._read(start)

    @property
    def stopped_by(self) -> Code | None:
        """The fault that ended the reading; None if the value is complete."""
        return None if self.complete else self.faults[-1].code

    def _read(self, start: int) -> None:
        """Follow the lexemes to the end of the value.

        This is the hot loop, so it handles the common cases itself.
        """
        frame = self._stack[0]
        expected = _ITEM

        for lexeme in _LEXEME.finditer(self.text, start):
            group = lexeme.lastindex or 0
            role, kind, comma = _LEXEMES[group]
            if not role & expected:
                self._break_off(lexeme.start(), expected)

            if role == _MEMBER:
                self._enter(frame, lexeme)

            self.nodes += kind != _IS_END
            if self.nodes > self._max_nodes:
                self._note(Code.JSON_TOO_MANY_NODES, lexeme.start(), limit=self._max_nodes)

            if kind != _IS_PLAIN:
                frame = self._take(kind, lexeme, group - comma)

            if comma:
                frame.index += 1
                expected = frame.next
            else:
                expected = frame.first if kind in _OPENING else frame.end

            if not expected:  # the outermost value is complete
                self.complete = True
                self.end = lexeme.end(group - comma)
                return

    def _enter(self, frame: _Frame, member: re.Match[str]) -> None:
        """Add the name of a member.

        It must be new in its object (RFC 7493 section 2.3), however it is escaped.
        """
        frame.name = name = member[1]
        if "\\" in name or not name.isascii():
            self._check_surrogates(name, member.start(1))
            frame.name = name = _decoded(name)

        if name in frame.names:
            self._note(Code.JSON_DUPLICATE_KEY, member.start(1), found=name)

        frame.names.add(name)

    def _take(self, kind: int, lexeme: re.Match[str], group: int) -> _Frame:
        """Handle a lexeme that is not a plain value, and return the container that follows."""
        if kind == _IS_END:
            self._stack.pop()
        elif kind == _IS_TEXT:
            self._check_surrogates(lexeme[group][1:-1], lexeme.start(group))
        elif kind == _IS_NUMBER:
            self._check_number(lexeme[group], lexeme.start(group))
        elif len(self._stack) > self._max_depth:  # an empty container counts as a level, too
            self._note(Code.JSON_TOO_DEEP, lexeme.start(group), limit=self._max_depth)
        elif kind in _OPENING:
            end, following = (_END_OBJECT, _MEMBER) if kind == _IS_OBJECT else (_END_ARRAY, _ITEM)
            self._stack.append(_Frame(end, following))

        return self._stack[-1]

    def _check_number(self, number: str, offset: int) -> None:
        """Report a number beyond the largest double, or with too many digits for an int.

        Only the digits before the point count.
        """
        if len(number) <= MAX_NUMBER_DIGITS and math.isfinite(float(number)):
            return

        digits = _INTEGER_PART.match(number)
        if digits and len(digits[1]) > MAX_NUMBER_DIGITS:
            self._note(Code.JSON_NUMBER_TOO_LONG, offset, found=number, limit=MAX_NUMBER_DIGITS)
        elif not number.lstrip("-").isdigit() and not math.isfinite(float(number)):
            self._note(Code.JSON_NOT_FINITE, offset, found=number)

    def _check_surrogates(self, body: str, offset: int) -> None:
        """Report an unpaired surrogate, raw or escaped (RFC 7493 section 2.1)."""
        if ("\\u" in body or not body.isascii()) and _SURROGATE.search(decoded := _decoded(body)):
            self._note(Code.JSON_SURROGATE, offset, found=decoded)

    def _note(
        self,
        code: Code,
        offset: int,
        *,
        found: str | None = None,
        limit: int = 0,
        expected: str = "",
        hint: str = "",
    ) -> None:
        """Record a fault and continue, unless it ends the reading or there are enough faults."""
        places = [frame.index if frame.end == _END_ARRAY else frame.name for frame in self._stack]
        tokens = tuple(token for token in places if token is not None)
        found = excerpt(self.text, offset) if found is None else found
        self.faults.append(JsonFault(code, offset, tokens, found, limit, expected, hint))

        if code in _ENDING or len(self.faults) >= MAX_FAULTS:
            self.end = offset
            raise _Stopped

    def _break_off(self, offset: int, expected: int) -> None:
        """Stop, because something else was ``expected``: the text is cut off or malformed."""
        text = self.text
        frame = self._stack[-1]
        frame.name = None

        start = end = after_blanks(text, offset)
        if expected & _MEMBER and (name := _NAME_START.match(text, end)):
            self._enter(frame, name)
            start = name.end()
            expected = _ITEM

        wanted = _WANTED[expected]
        if expected & (_MEMBER | _ITEM) and text.startswith('"', start):
            end, wanted = _broken_string(text, start)
        elif expected & _ITEM:
            suggestions = (words for pattern, words in _MISSPELT if pattern.match(text, start))
            wanted = next(suggestions, wanted)
            end = _broken_scalar(text, start)

        if end == len(text):
            self._note(Code.JSON_INCOMPLETE, end, expected=self._lacking(expected, wanted))

        hint = _likely(text, start, expected, outermost=len(self._stack) == 1)
        self._note(Code.JSON_SYNTAX, end, expected=wanted, hint=hint)

    def _lacking(self, expected: int, wanted: str) -> str:
        """Return what an incomplete text lacks: the next token, and the ends of open containers."""
        closing = "".join(_CLOSED_BY[frame.end] for frame in reversed(self._stack[1:]))
        closing = closing if len(closing) <= _MAX_CLOSING else f"{closing[:_MAX_CLOSING]}…"

        if expected & (_END_OBJECT | _END_ARRAY) and wanted == _WANTED[expected]:
            return closing

        return f"{wanted}, then {closing}" if closing else wanted


def diagnose(text: str, limits: Limits, work: Work) -> list[JsonFault]:
    """Return the faults of a text that should be one JSON value, at most 16.

    The last one is ``json.unexamined`` if the work runs out.
    """
    if not text or text.isspace():
        return [JsonFault(Code.JSON_EMPTY, 0)]

    readable = min(limits.nodes, (work.limit - work.taken) * NODES_PER_STEP)
    scan = Scan(text, 0, depth=limits.depth, nodes=readable)
    work.afford(scan.nodes // NODES_PER_STEP)

    if scan.stopped_by is Code.JSON_TOO_MANY_NODES and readable < limits.nodes:
        return [*scan.faults[:-1], JsonFault(Code.JSON_UNEXAMINED, scan.end)]

    rest = after_blanks(text, scan.end)
    if not scan.complete or rest == len(text):
        return scan.faults

    found = excerpt(text, rest)
    if Scan(text, rest, depth=limits.depth, nodes=max(0, readable - scan.nodes)).complete:
        return [*scan.faults, JsonFault(Code.JSON_SEVERAL_VALUES, rest, (), found)]

    hint = ""
    if text[rest] in "}]":
        hint = "one closing bracket too many"
    elif _AROUND.match(text, rest):
        hint = ALONE

    return [*scan.faults, JsonFault(Code.JSON_TRAILING_DATA, rest, (), found, hint=hint)]


def excerpt(text: str, offset: int) -> str:
    """Return the text around ``offset``."""
    return text[max(0, offset - _EXCERPT_CHARS) : offset + _EXCERPT_CHARS]


def after_blanks(text: str, offset: int) -> int:
    blank = _BLANK.match(text, offset)
    return blank.end() if blank else offset


def _broken_string(text: str, offset: int) -> tuple[int, str]:
    """Return where a string goes wrong, or what follows a complete one, and what was expected.

    An incomplete string goes wrong at the end of the text.
    """
    start = _STRING_START.match(text, offset)
    end = start.end() if start else offset
    if text.startswith('"', end):
        return after_blanks(text, end + 1), "a colon"
    if end == len(text) or _CUT_ESCAPE.match(text, end):
        return len(text), "a closing quote"
    if text[end] == "\\":
        return end, "a valid escape, or \\\\ for a backslash"

    return end, "an escape such as \\n, no control character"


def _broken_scalar(text: str, offset: int) -> int:
    """Return where a number or a literal breaks off, or the end of the text if it is incomplete."""
    rest = text[offset : offset + len("false")]
    if any(word.startswith(rest) for word in ("true", "false", "null")):
        return len(text)

    number = _NUMBER_START.match(text, offset)
    return number.end() if number else offset


def _likely(text: str, offset: int, expected: int, *, outermost: bool) -> str:
    if outermost and expected == _ITEM:
        return ALONE if _AROUND.match(text, offset) and not _OTHER_WORD.match(text, offset) else ""
    if _COMMENT.match(text, offset):
        return "JSON has no comments"

    before = text[:offset].rstrip(" \t\n\r")[-1:]
    if text[offset] in "}]" and before == ",":
        return "no comma before a closing bracket"

    in_string = before == '"' and not expected & (_MEMBER | _ITEM) and text[offset] not in '"{}[],:'
    return 'a quote inside a string is \\"' if in_string else ""


def _decoded(body: str) -> str:
    return str(json.loads(f'"{body}"'))
