"""JSON read as it comes, character by character if need be: what a prefix says already, and what it can no longer be.

The strict reader (:mod:`strictreply.reading._decoding`) has the last word on the whole text; here a text is followed
while it is written. Strings are passed over at the speed of a regular expression, and nothing is read twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

from strictreply.values._issues import pointer
from strictreply.values._json import JSON

_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')
_SCALAR = re.compile(r"[-+.0-9A-Za-z]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_NUMBER_SO_FAR = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.(?:[0-9]+(?:[eE](?:[-+]?[0-9]*)?)?)?|[eE](?:[-+]?[0-9]*)?)?)?")
_HEX = re.compile(r"[0-9A-Fa-f]*")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS: dict[str, JSON] = {"true": True, "false": False, "null": None}
_KINDS = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null", "-": "number"}
_KINDS |= dict.fromkeys("0123456789", "number")
_EMPTY: dict[str, Any] = {"object": {}, "array": [], "number": 0, "boolean": True, "null": None}
_HEX_DIGITS = 4
_HIGH, _LOW, _BEYOND = 0xD800, 0xDC00, 0xE000
_MOST_DIGITS = 4300


@dataclass(frozen=True, slots=True)
class Partial:
    """A JSON value that is still being written.

    ``value`` holds what is there: it goes on growing with the stream. ``open`` are the JSON Pointers of the values that
    are not finished, from the root inwards; every other value is final.
    """

    value: JSON
    open: tuple[str, ...]


class Follower(Protocol):
    """Told what a text holds as soon as it says so; False means that no completion of it will do."""

    def begins(self, kind: str) -> bool:
        """Take the type of a value that begins: object, array, string, number, boolean or null."""
        ...

    def named(self, name: str) -> bool:
        """Take the name of the next member."""
        ...

    def says(self, text: str) -> bool:
        """Take a string as far as it has come."""
        ...

    def ends(self, value: JSON) -> bool:
        """Take a finished value."""
        ...

    @property
    def wants_text(self) -> bool:
        """Return whether a string is to be shown while it comes."""
        ...


class IncrementalReader:
    """Follows one JSON text.

    ``is_sound`` turns False when the text cannot become one JSON value with unique names; ``is_wanted`` when the
    follower has said so. ``is_done`` says that the value is complete.
    """

    def __init__(self, follower: Follower) -> None:
        self.is_sound = True
        self.is_wanted = True
        self.is_done = False
        self.scanned = 0
        self._follower = follower
        self._root: Any = None
        self._stack: list[Any] = []
        self._names: list[Any] = []  # of the member at hand, beside each container
        self._expected = "value"
        self._text: list[str] = []  # of the string or scalar that is open
        self._size = 0
        self._kind = ""
        self._escape: str | None = None
        self._high = ""

    def feed(self, piece: str) -> bool:
        """Take the next piece; return whether the text may still become what is wanted."""
        at, end = 0, len(piece)
        self.scanned += end
        while at < end and self.is_sound and self.is_wanted:
            if self._kind in ("string", "name"):
                at = self._in_string(piece, at)
            elif self._kind:
                at = self._in_scalar(piece, at, end)
            else:
                at = _SPACE.match(piece, at).end()  # type: ignore[union-attr]  # it matches anything
                if at < end:
                    self._token(piece[at])
                    at += 1
        return self.is_sound and self.is_wanted

    @property
    def place(self) -> tuple[str | int, ...]:
        """Return where the text is: the names and indexes that lead to the value at hand."""
        return tuple(name for name in self._names if name is not None)

    def partial(self) -> Partial:
        """Return the value as far as it has come; an open string is shown as far as it goes, an open number not yet."""
        if self._kind == "string":
            self._put("".join(self._text))
        if self.is_done:
            return Partial(self._root, ())
        places = [""]
        for name in self.place:
            places.append(pointer(places[-1], name))
        between = self._kind in ("", "name") and bool(self._names) and self._names[-1] is not None
        return Partial(self._root, tuple(places[:-1] if between else places))

    def completed(self) -> JSON:
        """Return the value as if everything that is open ended here."""
        if self._kind == "string":
            self._put("".join(self._text))
        elif self._kind and self._kind != "name":
            self._put(_EMPTY[self._kind])
        elif self._expected in ("colon", "value") and self._stack and isinstance(self._stack[-1], dict):
            self._put(None)
        value: JSON = self._root
        return value

    def closing(self) -> str:
        """Return what would close the objects and arrays that are open."""
        missing = ":null" if self._expected == "colon" else ""
        return missing + "".join("}" if isinstance(one, dict) else "]" for one in reversed(self._stack))

    def _token(self, char: str) -> None:
        expected = self._expected
        if expected in ("value", "first value") and char in _KINDS:
            self._begin(char)
        elif char == '"' and expected in ("name", "first name"):
            self._kind = "name"
            self._text.clear()
        elif char == ":" and expected == "colon":
            self._expected = "value"
        elif char == "," and expected == "comma" and self._stack:
            self._expected = "name" if isinstance(self._stack[-1], dict) else "value"
            if self._expected == "value":
                self._names[-1] += 1
        elif (
            self._stack
            and char == ("}" if isinstance(self._stack[-1], dict) else "]")
            and expected in (*("comma", "first name", "first value"),)
        ):
            self._close()
        else:
            self.is_sound = False

    def _begin(self, char: str) -> None:
        if self._expected == "first value":
            self._names[-1] = 0
        kind = _KINDS[char]
        self._kind = kind
        self._text.clear()
        self._size = 0
        self.is_wanted = self._follower.begins(kind)
        if kind in {"object", "array"}:
            if not self.is_wanted:
                return
            made: Any = {} if kind == "object" else []
            self._kind = ""
            self._put(made)
            self._stack.append(made)
            self._names.append(None)
            self._expected = "first name" if kind == "object" else "first value"
        elif kind != "string":
            self._text.append(char)

    def _close(self) -> None:
        value = self._stack.pop()
        self._names.pop()
        self._ended(value)

    def _ended(self, value: JSON) -> None:
        self._kind = ""
        self._expected = "comma"
        self.is_done = not self._stack
        if self.is_done:
            self._expected = "end"
        self.is_wanted = self._follower.ends(value)

    def _put(self, value: Any) -> None:
        """Put a value where the text is."""
        if not self._stack:
            self._root = value
            return
        holder, name = self._stack[-1], self._names[-1]
        if isinstance(holder, dict):
            holder[name] = value
        elif name == len(holder):
            holder.append(value)
        elif holder:
            holder[name] = value

    def _in_string(self, piece: str, at: int) -> int:
        if self._escape is not None:
            return self._in_escape(piece, at)
        end = _PLAIN.match(piece, at).end()  # type: ignore[union-attr]  # it matches anything
        if end > at:
            if self._high:  # half of a character, and no other half behind it
                self.is_sound = False
                return end
            self._text.append(piece[at:end])
        if end == len(piece):
            self._show()
            return end
        char = piece[end]
        if char == "\\":
            self._escape = ""
        elif char == '"' and not self._high:
            self._end_string()
        else:  # a control character, or half of a character
            self.is_sound = False
        return end + 1

    def _show(self) -> None:
        if self._kind == "string" and self._follower.wants_text:
            self.is_wanted = self._follower.says("".join(self._text))

    def _in_escape(self, piece: str, at: int) -> int:
        escape = self._escape or ""
        if not escape:
            char = piece[at]
            if char == "u":
                self._escape = "u"
            elif char in _ESCAPES and not self._high:
                self._text.append(_ESCAPES[char])
                self._escape = None
            else:
                self.is_sound = False
            return at + 1
        stop = min(len(piece), at + 1 + _HEX_DIGITS - len(escape))
        end = _HEX.match(piece, at, stop).end()  # type: ignore[union-attr]  # it matches anything
        self._escape = escape = escape + piece[at:end]
        if len(escape) > _HEX_DIGITS:
            self._escape = None
            self._add_unit(int(escape[1:], 16))
        elif end < stop:
            self.is_sound = False
        return end

    def _add_unit(self, unit: int) -> None:
        """Add one unit of UTF-16: two of them make a character beyond the first plane (RFC 8259 section 7)."""
        if self._high:
            pair = (self._high + chr(unit)).encode("utf-16", "surrogatepass")
            self._high = ""
            self.is_sound = _LOW <= unit < _BEYOND
            self._text.append(pair.decode("utf-16", "replace"))
        elif _HIGH <= unit < _LOW:
            self._high = chr(unit)
        else:
            self.is_sound = not _LOW <= unit < _BEYOND
            self._text.append(chr(unit))

    def _end_string(self) -> None:
        text = "".join(self._text)
        if self._kind == "string":
            self._put(text)
            self._ended(text)
            return
        self._kind, self._expected = "", "colon"
        self.is_sound = text not in self._stack[-1]
        self._names[-1] = text
        if self.is_sound:
            self.is_wanted = self._follower.named(text)

    def _in_scalar(self, piece: str, at: int, end: int) -> int:
        stop = _SCALAR.match(piece, at).end()  # type: ignore[union-attr]  # it matches anything
        self._text.append(piece[at:stop])
        self._size += stop - at
        token = "".join(self._text)
        is_whole = stop < end
        if self._kind == "number":
            matched = (_NUMBER if is_whole else _NUMBER_SO_FAR).fullmatch(token)
            self.is_sound = matched is not None and self._size <= _MOST_DIGITS
        else:
            self.is_sound = token in _LITERALS if is_whole else any(each.startswith(token) for each in _LITERALS)
        if is_whole and self.is_sound:
            value = _number(token) if self._kind == "number" else _LITERALS[token]
            self._put(value)
            self._ended(value)
        return stop


def _number(token: str) -> int | float:
    return float(token) if any(char in token for char in ".eE") else int(token)
