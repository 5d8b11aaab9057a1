"""Reads strict JSON piece by piece, with the grammar and the limits of ``_decoding``.

A fault that no later text can fix is found immediately.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import Any, Generic, NamedTuple, NoReturn, Protocol

import jiter

from strictreply.reading._decoding import decode
from strictreply.reading._diagnosis import PathToken, after_blanks
from strictreply.values._issues import CODES, Code, Issue, pointer
from strictreply.values._limits import DEFAULT_LIMITS, JSON, Limits
from strictreply.values._replies import A_co, Invalid

_RUN = re.compile('[^"\\\\\x00-\x1f\ud800-\udfff]*+')
_SPACE = " \t\n\r"
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE_SO_FAR = re.compile("u[0-9A-Fa-f]{0,4}")
_SURROGATES = range(0xD800, 0xE000)
_HIGH = range(0xD800, 0xDC00)
_LOW = range(0xDC00, 0xE000)
_DIGITS = "0123456789"
# The states of a number and their transitions: "z" is after a leading zero, "i" in the integer, "p"
# after the point, "f" in the fraction, "e" after the letter of the exponent, "s" after its sign,
# "x" in the exponent, "-" after the minus.
_NUMBER: dict[str, dict[str, str]] = {
    "": {**dict.fromkeys(_DIGITS, "i"), "0": "z", "-": "-"},
    "-": {**dict.fromkeys(_DIGITS, "i"), "0": "z"},
    "z": {".": "p", "e": "e", "E": "e"},
    "i": {**dict.fromkeys(_DIGITS, "i"), ".": "p", "e": "e", "E": "e"},
    "p": dict.fromkeys(_DIGITS, "f"),
    "f": {**dict.fromkeys(_DIGITS, "f"), "e": "e", "E": "e"},
    "e": {**dict.fromkeys(_DIGITS, "x"), "+": "s", "-": "s"},
    "s": dict.fromkeys(_DIGITS, "x"),
    "x": dict.fromkeys(_DIGITS, "x"),
}
_WHOLE_NUMBER = frozenset("zifx")
_RUNS_ON = frozenset("0123456789.eE+-")
_WORDS: dict[str, tuple[str, JSON]] = {
    "t": ("true", True),
    "f": ("false", False),
    "n": ("null", None),
}
_NOT_FINITE = {"N": "NaN", "I": "Infinity"}
_NUMBERS = dict.fromkeys("-" + _DIGITS, "number")
_KINDS = {
    '"': "string",
    "{": "object",
    "[": "array",
    "t": "boolean",
    "f": "boolean",
    "n": "null",
    **_NUMBERS,
}
_EMPTY: dict[str, Callable[[], Any]] = {"string": str, "object": dict, "array": list, "number": int}


class Listener(Protocol):
    """Receives the parts of a JSON text while it is read.

    Each method returns True to stop: no continuation of the text can be accepted.
    """

    def key_begins(self) -> bool:
        """Receive the start of a member's name."""
        ...

    def key(self, name: str) -> bool:
        """Receive the name of a member, before its value."""
        ...

    def item(self, index: int) -> bool:
        """Receive the index of an item, before its value."""
        ...

    def member(self, count: int) -> bool:
        """Receive, at the comma, the number of members before the next one."""
        ...

    def begins(self, kind: str) -> bool:
        """Receive the JSON type of a value at its first character; a number may be an integer."""
        ...

    def part(self, text: str) -> bool:
        """Receive a piece of the open string or member name, with escapes resolved."""
        ...

    def scalar(self, value: JSON) -> bool:
        """Receive a complete string or number, or true, false or null at its first character."""
        ...

    def ends(self, value: JSON, size: int) -> bool:
        """Receive a complete object or array, and the number of its values including itself."""
        ...


@dataclass(frozen=True, slots=True)
class Partial(Generic[A_co]):
    """A JSON value that is still arriving.

    ``value`` and ``answer`` grow as more of the stream is read: do not change them.
    """

    value: JSON
    """The value so far.

    A number or a literal appears when it is complete, a member when its value has begun.
    """
    open: tuple[str, ...]
    """JSON Pointers to the unfinished values, outermost first; all other values are final."""
    answer: A_co | None = None
    """The same as an instance of the answer's type; None until there is something to show.

    A model has only the attributes that are final and valid (see ``model_fields_set``), a list only
    such items.
    """


class Stop(NamedTuple):
    """Why no continuation can be accepted: a fault of the JSON (``code``), or the listener.

    ``event`` is the method of the listener that stopped.
    """

    code: Code | None
    event: str
    place: tuple[PathToken, ...]  # the path of the refused value, of the object for a name
    value: JSON  # all that was read, the refused part in it


class _Stopped(Exception):
    """Ends the reading, with a code, an event, and a text that completes an open string or name.

    Without arguments, the text cannot be read on.
    """


class IncrementalReader:
    """Reads JSON text in pieces of any length; ``listener`` is called with its values."""

    def __init__(self, listener: Listener, limits: Limits = DEFAULT_LIMITS) -> None:
        self._listener = listener
        self._limits = limits
        self._came = StringIO()
        self._state: Callable[[str, int], int] = self._value

        self._may_end = False  # whether the container may end here without a further value
        self._nodes = 0
        # The open containers; for each the key or index of the current value, and the number of
        # nodes before it.
        self._containers: list[Any] = []
        self._places: list[PathToken | None] = []
        self._starts: list[int] = []
        self._root: list[JSON] = []  # the outermost value, as soon as it has begun

        self._text_so_far = StringIO()  # of the open string, name or number
        self._is_key = False  # whether the open text is a name
        self._high = 0  # the first half of a surrogate pair of escapes
        # an escape after its backslash; or the state of a number; or the rest of a literal
        self._so_far = ""
        self._tail = ""  # a text that completes the string or name at which the reading stopped
        self._value_of_word: JSON = None

        self.stop: Stop | None = None
        """Why nothing more can be accepted; None while more can."""
        self.lost: bool = False
        """Whether the text has an unpaired surrogate that is not an escape."""
        self.loose_end = False
        """Whether text after the value is left unread."""

    def feed(self, piece: str) -> Stop | None:
        """Read one more piece.

        Return why no continuation can be accepted, or None as long as one can.
        """
        if self.stop is not None or self.lost:
            return self.stop

        self._came.write(piece)
        at = 0
        end = len(piece)
        try:
            while at < end:
                at = self._state(piece, at)
        except _Stopped as stopped:
            if not stopped.args:
                self.lost = True
                return None

            code, event, self._tail = stopped.args
            place = tuple(token for token in self._places if token is not None)
            self.stop = Stop(code, event, place, self._root[0] if self._root else None)

        return self.stop

    def issue(self, code: Code, at: str, names: Any) -> Issue:
        """Return the issue that the strict decoder would report for the text so far."""
        # some faults show only in a complete string or name, so it is completed here
        judged = decode(self._came.getvalue() + self._tail, self._limits, at=at, names=names)
        issues = judged.issues if isinstance(judged, Invalid) else ()
        limit = self._limits.nodes if code is Code.JSON_TOO_MANY_NODES else self._limits.depth
        bare = Issue.of(code, at, line=1, column=1, expected="", limit=limit)
        return next((each for each in issues if each.code == code.value), bare)

    def partial(self) -> Partial[Any] | None:
        """Return the value so far; None before it has begun, and after the reading stopped."""
        if not self._root or self.stop is not None or self.lost:
            return None

        path = ""
        pointers = list[str]()
        for place in self._places:
            pointers.append(path)
            path = path if place is None else pointer(path, place)

        if self._state in (self._text, self._escape) and not self._is_key:
            self._put(self._text_so_far.getvalue())
            pointers.append(path)

        return Partial(self._root[0], tuple(pointers))

    def _refuse(self, event: str, found: JSON = None) -> NoReturn:
        """Stop for the listener; add what is known of the rejected part to the value."""
        if event in ("key", "item", "member"):
            container = self._containers[-1]
            self._places[-1] = None

            if isinstance(container, list):
                container.append(None)
            else:
                # any name: the rejected part is one more member
                container["\x00" if found is None else found] = None
        elif event != "ends":
            self._put(found)

        raise _Stopped(None, event, "")

    def _fault(self, code: Code, tail: str = "") -> NoReturn:
        if code is Code.JSON_SURROGATE:
            tail = '":0' if self._is_key else '"'

        raise _Stopped(code, "", tail)

    def _begin(self, kind: str, found: JSON) -> None:
        """Count a value, and pass its type to the listener.

        ``found`` stands for the value until more of it is read.
        """
        self._nodes += 1
        if self._nodes > self._limits.nodes:
            self._fault(Code.JSON_TOO_MANY_NODES)

        if self._may_end and self._containers and isinstance(self._containers[-1], list):
            self._next_item(0)

        self._may_end = False
        if self._listener.begins(kind):
            self._refuse("begins", found)

    def _next_item(self, index: int) -> None:
        if self._listener.item(index):
            self._refuse("item")
        self._places[-1] = index

    def _put(self, value: JSON) -> None:
        """Put the current value into its container, replacing an earlier part of it."""
        if not self._containers:
            self._root[:] = [value]
            return

        container = self._containers[-1]
        place = self._places[-1]

        if isinstance(container, dict) or len(container) != place:
            container[place] = value
        else:
            container.append(value)

    def _scalar(self, value: JSON) -> None:
        if self._listener.scalar(value):
            self._refuse("scalar", value)

    def _finish(self, value: JSON) -> None:
        self._put(value)
        self._state = self._after if self._containers else self._end

    # Each state reads from an offset of the piece, and returns the offset for the next state.

    def _value(self, piece: str, at: int) -> int:
        char = piece[at]
        if char in _SPACE:
            return after_blanks(piece, at)

        kind = _KINDS.get(char)
        if kind is None:
            return self._no_value(char, at)

        if char in _WORDS:
            self._so_far, self._value_of_word = _WORDS[char]
            self._begin(kind, self._value_of_word)
            self._scalar(self._value_of_word)  # at its first character, for it can be no other
            self._state = self._in_word
            return at

        self._begin(kind, _EMPTY[kind]())
        if kind == "number":
            self._text_so_far = StringIO()
            self._so_far = ""
            self._state = self._in_number
            return at

        if kind == "string":
            self._begin_text(is_key=False)
            self._put("")
            return at + 1

        if len(self._containers) >= self._limits.depth:
            self._fault(Code.JSON_TOO_DEEP)

        container: Any = _EMPTY[kind]()
        self._put(container)
        self._containers.append(container)
        self._places.append(None)
        self._starts.append(self._nodes - 1)

        self._may_end = True
        self._state = self._key if kind == "object" else self._value
        return at + 1

    def _no_value(self, char: str, at: int) -> int:
        if char == "]" and self._may_end:
            return self._close(at)
        if char not in _NOT_FINITE:
            self._fault(Code.JSON_SYNTAX)

        self._so_far = _NOT_FINITE[char]
        self._state = self._in_word
        return at

    def _in_word(self, piece: str, at: int) -> int:
        if piece[at] != self._so_far[0]:
            self._fault(Code.JSON_SYNTAX)

        self._so_far = self._so_far[1:]
        if not self._so_far:
            if piece[at] in "Ny":  # of NaN and Infinity
                self._fault(Code.JSON_NOT_FINITE)

            self._finish(self._value_of_word)

        return at + 1

    def _in_number(self, piece: str, at: int) -> int:
        start = at
        end = len(piece)
        state = self._so_far

        while at < end:
            following = _NUMBER[state].get(piece[at])
            if following is None:
                self._text_so_far.write(piece[start:at])
                return self._end_number(state, piece[at], at)

            state = following
            at += 1

        self._text_so_far.write(piece[start:])
        self._so_far = state
        return at

    def _end_number(self, state: str, char: str, at: int) -> int:
        if state == "-" and char == "I":
            return self._no_value(char, at)

        if state not in _WHOLE_NUMBER or char in _RUNS_ON:
            self._fault(Code.JSON_SYNTAX)

        text = self._text_so_far.getvalue()
        try:
            value: JSON | Invalid = jiter.from_json(text.encode(), allow_inf_nan=False)
        except ValueError:
            value = decode(text)

        if isinstance(value, Invalid):
            self._fault(CODES[value.issues[0].code])

        if isinstance(value, float) and math.isinf(value):
            self._fault(Code.JSON_NOT_FINITE)

        self._scalar(value)
        self._finish(value)
        return at

    def _key(self, piece: str, at: int) -> int:
        char = piece[at]
        if char in _SPACE:
            return after_blanks(piece, at)

        if char == '"':
            self._may_end = False
            self._places[-1] = None
            self._begin_text(is_key=True)

            if self._listener.key_begins():
                self._refuse("key", "")

            return at + 1

        if char != "}" or not self._may_end:
            self._fault(Code.JSON_SYNTAX)

        return self._close(at)

    def _colon(self, piece: str, at: int) -> int:
        if piece[at] in _SPACE:
            return after_blanks(piece, at)
        if piece[at] != ":":
            self._fault(Code.JSON_SYNTAX)

        self._state = self._value
        return at + 1

    def _after(self, piece: str, at: int) -> int:
        char = piece[at]
        container = self._containers[-1]

        if char == ",":
            if isinstance(container, list):
                self._next_item(len(container))
            elif self._listener.member(len(container)):
                self._refuse("member")
            else:
                self._places[-1] = None

            self._state = self._value if isinstance(container, list) else self._key
            return at + 1

        if char in _SPACE:
            return after_blanks(piece, at)

        if char != ("]" if isinstance(container, list) else "}"):
            self._fault(Code.JSON_SYNTAX)

        return self._close(at)

    def _close(self, at: int) -> int:
        value = self._containers.pop()
        self._places.pop()
        self._may_end = False
        if self._listener.ends(value, self._nodes - self._starts.pop()):
            self._refuse("ends")

        self._finish(value)
        return at + 1

    def _end(self, piece: str, at: int) -> int:
        at = len(piece) if self.loose_end else after_blanks(piece, at)
        if at < len(piece):
            self._fault(Code.JSON_TRAILING_DATA)

        return at

    def _begin_text(self, *, is_key: bool) -> None:
        self._text_so_far = StringIO()
        self._is_key = is_key
        self._high = 0
        self._state = self._text

    def _take(self, text: str) -> None:
        if self._high:
            self._fault(Code.JSON_SURROGATE)

        self._text_so_far.write(text)
        if self._listener.part(text):
            self._refuse("key" if self._is_key else "part", self._text_so_far.getvalue())

    def _text(self, piece: str, at: int) -> int:
        run = _RUN.match(piece, at)
        end = run.end() if run else at
        if end > at:
            self._take(piece[at:end])

        if end == len(piece):
            return end

        char = piece[end]
        if char == "\\":
            self._so_far = ""
            self._state = self._escape
        elif char == '"':
            self._end_text()
        elif ord(char) in _SURROGATES:
            raise _Stopped  # not an escape: joined with the next piece it may be a whole pair
        else:
            self._fault(Code.JSON_SYNTAX)

        return end + 1

    def _escape(self, piece: str, at: int) -> int:
        self._so_far += piece[at]
        if self._so_far in _ESCAPES:
            self._take(_ESCAPES[self._so_far])
        elif not _ESCAPE_SO_FAR.fullmatch(self._so_far):
            self._fault(Code.JSON_SYNTAX)
        elif len(self._so_far) < len("u0000"):
            return at + 1
        else:
            self._unit(int(self._so_far[1:], 16))

        self._state = self._text
        return at + 1

    def _unit(self, unit: int) -> None:
        """Take a UTF-16 code unit; halves of a surrogate pair follow each other."""
        if unit in _LOW and self._high:
            unit = 0x10000 + ((self._high - _HIGH.start) << 10) + (unit - _LOW.start)
            self._high = 0

        if unit not in _SURROGATES:
            self._take(chr(unit))
        elif unit in _LOW or self._high:
            self._fault(Code.JSON_SURROGATE)
        else:
            self._high = unit

    def _end_text(self) -> None:
        if self._high:
            self._fault(Code.JSON_SURROGATE)

        text = self._text_so_far.getvalue()
        if not self._is_key:
            self._scalar(text)
            self._finish(text)
            return

        if text in self._containers[-1]:
            self._fault(Code.JSON_DUPLICATE_KEY, tail=":0")
        if self._listener.key(text):
            self._refuse("key", text)

        self._places[-1] = text
        self._state = self._colon
