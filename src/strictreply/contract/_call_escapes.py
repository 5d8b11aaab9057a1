r"""Texts whose markers are escaped, or hold blanks, as they are meant.

Servers and models write ``&lt;tool_call&gt;`` (HTML), ``\u003ctool_call\u003e`` and
``<\/tool_call>`` (JSON in JSON), ``\<tool\_call\>`` (Markdown), ``< tool_call >`` and
``] < ] minimax [ > [`` (blanks).
"""

from __future__ import annotations

import html
import re
from collections import deque

_BLANKS = r"[ \t]{0,3}"
MINIMAX = "]<]minimax[>["
"""The token of MiniMax M3, which is not a tag."""


def _begun(token: str) -> str:
    """Return the pattern for all beginnings of a token, with optional spaces between its signs."""
    pattern = _BLANKS
    for sign in reversed(token[1:]):
        pattern = rf"{_BLANKS}(?:{re.escape(sign)}{pattern})?"

    return re.escape(token[0]) + pattern


_WORD = r"[\w|\uff5c:.=\u2581-]"
_TAG = rf"<{_BLANKS}(?P<slash>\\?/?){_BLANKS}(?P<tag>{_WORD}{{1,60}}){_BLANKS}>"
_TOKEN = rf"(?P<token>{_BLANKS.join(map(re.escape, MINIMAX))}{_BLANKS})"
_SECTION = rf"\[{_BLANKS}(?P<section>/?[A-Z_]{{4,20}}){_BLANKS}\]"
# only a quotation mark of a key or a value: another one may quote a marker
_BEFORE_VALUE = "|".join(
    rf"(?<={before}{' ' * size}\\)"
    for before in (r"[{\[:,]", r"\\n", r"\n")
    for size in (0, 1, 2, 4, 8)
)
_QUOTE = rf"(?:{_BEFORE_VALUE})\"(?=\w)|\"(?={_BLANKS}[:,}}\]])"
_ESCAPED = re.compile(
    rf"{_TOKEN}|{_TAG}|{_SECTION}|<[ \t]{{1,3}}(?=[\w/|\uff5c])"
    r"|(?P<html>&(?:lt|gt|quot|apos|amp|vert|#[0-9]{2,3}|#x[0-9a-fA-F]{2});)"
    r"|\\u00(?P<code>[0-9a-fA-F]{2})"
    rf"|\\(?P<sign>[<>|/_nt]|{_QUOTE})"
)
_BEGUN_TAG = rf"\\?<{_BLANKS}\\?/?{_BLANKS}{_WORD}{{0,60}}{_BLANKS}"
_BEGUN_TOKEN = _begun(MINIMAX)
_BEGUN_SECTION = rf"\\?\[{_BLANKS}/?[A-Z_]{{0,20}}{_BLANKS}"
_BEGUN = re.compile(
    rf"(?:{_BEGUN_TOKEN}|{_BEGUN_TAG}|{_BEGUN_SECTION}|&#?[0-9A-Za-z]{{0,5}}"
    rf"|\\(?:u[0-9a-fA-F]{{0,3}}|\"{_BLANKS})?)\Z"
)
_CLOSED = re.compile(rf"\[{_BLANKS}/?[A-Z_]{{4,20}}{_BLANKS}\]\Z")
_BEGINS = re.compile(r"[&\\<\[\]]")
_LONGEST = 80  # no escape has more characters
_MOST_BEFORE = 12  # characters before an escape that are needed to recognize it
_BLANK_SIGNS = {"n": "\n", "t": "\t"}


def unescaped(text: str) -> str:
    """Return a whole text without escapes."""
    return text if _BEGINS.search(text) is None else _ESCAPED.sub(_meant, text)


def _meant(found: re.Match[str]) -> str:
    if found["tag"]:
        slash = "/" if found["slash"] else ""
        return f"<{slash}{found['tag']}>"
    if found["token"]:
        return MINIMAX
    if found["section"]:
        return f"[{found['section']}]"
    if found["html"]:
        return html.unescape(found["html"])
    if found["code"]:
        return chr(int(found["code"], 16))

    sign = found["sign"] or "<"
    return _BLANK_SIGNS.get(sign, sign)


class Unescaping:
    """Removes the escapes of a text that arrives in pieces.

    ``has_changed`` says whether anything was escaped.
    """

    def __init__(self) -> None:
        self.has_changed = False
        self._rest = ""  # what may be the beginning of an escape
        self._before = ""  # the end of what was read
        self._size = 0
        self._meant_size = 0
        # the ends of escapes: in the text without escapes, and in the original
        self._ends: deque[tuple[int, int]] = deque([(0, 0)])

    def feed(self, piece: str) -> tuple[str, str]:
        """Add one more piece; return what can be read now, as received and without escapes."""
        if not self._rest and _BEGINS.search(piece) is None:
            self._size += len(piece)
            self._meant_size += len(piece)
            self._before = (self._before + piece)[-_MOST_BEFORE:]
            return piece, piece

        came = self._rest + piece
        last = max(0, len(came) - _LONGEST)
        begun = None if _CLOSED.search(came, last) else _BEGUN.search(came, last)
        end = begun.start() if begun else len(came)
        self._rest = came[end:]
        return came[:end], self._read(came[:end])

    def _read(self, came: str) -> str:
        text = self._before + came
        start = at = len(self._before)
        parts: list[str] = []
        for found in _ESCAPED.finditer(text, start):
            meant = _meant(found)
            if meant == found[0]:
                continue

            parts += (text[at : found.start()], meant)
            self._meant_size += found.start() - at + len(meant)
            at = found.end()
            self._ends.append((self._meant_size, self._size + at - start))
            self.has_changed = True

        self._size += len(came)
        self._meant_size += len(text) - at
        self._before = text[-_MOST_BEFORE:]
        return "".join([*parts, text[at:]])

    def place(self, meant: int) -> int:
        """Return where a place of the text without escapes is in the original.

        Each place must be at or after the last one that was requested.
        """
        while len(self._ends) > 1 and self._ends[1][0] <= meant:
            self._ends.popleft()

        end, came_end = self._ends[0]
        return came_end + meant - end
