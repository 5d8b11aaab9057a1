"""Tracks where a text quotes: code, quotation marks, block quotes and table rows.

Quoted text only mentions a call. Each character is read once.
"""

from __future__ import annotations

import re

_SIGNS = re.compile(
    r"\n|`+|~{3,}|[\"\u201c\u201d\u201e\u201f\u00ab\u00bb\u300c-\u300f]|</?(?:code|pre)\b"
)
_QUOTES = {
    '"': '"',
    "\u201c": "\u201d",
    "\u201e": "\u201c\u201d",
    "\u201f": "\u201d",
    "\u00ab": "\u00bb",
    "\u00bb": "\u00ab",
    "\u300c": "\u300d",
    "\u300e": "\u300f",
}
"""Opening quotation marks, each with the marks that close it."""

_CLOSES_TOO = frozenset('"\u00bb')  # marks that open only at the start of a word
_BEFORE_QUOTE = frozenset(" \t\n([{:=,;>-\u2013\u2014")
_BEFORE_FENCE = frozenset(" \t>*+-.)0123456789")  # indents, and the marks of lists and block quotes
_ESCAPED_QUOTE = '\\"'  # in JSON in JSON
_LEAST_FENCE = 3
_MOST_HEAD = 40  # characters of the start of a line that are kept
_QUOTED_LINE = re.compile(r" {0,3}(?:>[ \t]|\|[ \t])")  # a block quote, or a table row
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)")


class Quoting:
    """Follows a text, and knows whether the next character is quoted."""

    def __init__(self) -> None:
        self._fence = ""  # the marks that opened a block of code
        self._code = 0  # the length of the marks that opened inline code
        self._closes = ""  # the marks that close a quotation
        self._element = ""  # the HTML element that contains code
        self._head = ""  # the start of the line
        self._is_fence_line = False  # the fence was opened in this line
        self._is_apart = True  # an indented line would be code
        self._last = " \n"  # the last two characters

    @property
    def is_open(self) -> bool:
        """Whether the next character is quoted."""
        if self._fence or self._code or self._closes or self._element:
            return True

        # a single mark may be an apostrophe, so only the last one counts
        is_marked = self._last[-1] == "'" and self._last[-2] in _BEFORE_QUOTE
        if is_marked or self._last == _ESCAPED_QUOTE or _QUOTED_LINE.match(self._head):
            return True

        return self._is_apart and _INDENTED.match(self._head) is not None

    def read(self, text: str) -> None:
        """Read more text; it must end at a line's end or before a marker, never within a sign."""
        at = 0
        for sign in _SIGNS.finditer(text):
            self._add_to_head(text, at, sign.start())
            before = text[sign.start() - 1] if sign.start() > 0 else self._last[-1]
            at = sign.end()

            mark = sign[0]
            if mark == "\n":
                self._end_line()
                continue

            if mark[0] in "`~" or mark[0] == "<":
                self._read_code_mark(mark, before)
            elif not self._fence and not self._code:
                self._read_quote(mark, before, text[at : at + 1])

            self._add_to_head(text, sign.start(), at)

        self._add_to_head(text, at, len(text))
        self._last = (self._last + text[-2:])[-2:]

    def _add_to_head(self, text: str, start: int, end: int) -> None:
        room = _MOST_HEAD - len(self._head)
        if room > 0 and end > start:
            self._head += text[start : min(end, start + room)]

    def _end_line(self) -> None:
        is_blank = not self._head.strip()
        is_code = self._is_apart and _INDENTED.match(self._head) is not None
        self._is_apart = is_blank or is_code
        self._head = ""
        self._code = 0
        self._closes = ""
        self._is_fence_line = False

    def _read_code_mark(self, mark: str, before: str) -> None:
        if mark[0] == "<":
            if not self._fence and not self._code:
                self._element = "" if mark[1] == "/" else mark
            return

        begins_line = _BEFORE_FENCE.issuperset(self._head)
        if self._fence:
            is_long = mark[0] == self._fence[0] and len(mark) >= len(self._fence)
            if is_long and (begins_line or self._is_fence_line):
                self._fence = ""
        elif len(mark) >= _LEAST_FENCE and begins_line:
            self._fence = mark
            self._is_fence_line = True
        elif self._code:
            if len(mark) == self._code:
                self._code = 0
        elif mark[0] == "`" and not (before.isalnum() or before == "\\"):
            self._code = len(mark)

    def _read_quote(self, mark: str, before: str, behind: str) -> None:
        if before == "\\":
            return  # escaped

        if self._closes:
            if mark in self._closes:
                self._closes = ""
            return

        opens = mark in _QUOTES and not behind.isspace()
        if opens and (mark not in _CLOSES_TOO or before in _BEFORE_QUOTE):
            self._closes = _QUOTES[mark]
