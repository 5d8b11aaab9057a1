"""Text to JSON value, strictly: what RFC 8259 and I-JSON (RFC 7493) refuse, or a cap forbids, comes back as issues.

A fast parser accepts; :mod:`strictreply.diagnosis` says what is wrong with what it refuses. No schema is known here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import TypeAlias, cast

import jiter

from strictreply.diagnosis import Fault, Step, diagnose, excerpt
from strictreply.issues import Code, Issue, kind_words, pointer, quote
from strictreply.limits import DEFAULT_LIMITS, Limits
from strictreply.replies import Invalid
from strictreply.typing import JSON

_Tree: TypeAlias = "dict[str, JSON] | list[JSON]"

_TREE = (dict, list)  # isinstance is quicker with a tuple than with a union, and it is asked for every value
_PLACE = re.compile(r"line ([0-9]+) column ([0-9]+)\Z")

# Only an exponent of three digits, or 200 digits in a row, can take a number past the largest double. With all digits
# made alike, two searches rule both out; the plus sign of an exponent passes for one more digit.
_ALIKE = bytes.maketrans(b"123456789+E", b"0000000000e")
_LONG_EXPONENT = b"0e000"
_LONG_NUMBER = b"0" * 200


def decode(
    text: object, limits: Limits = DEFAULT_LIMITS, *, at: str = "", names: Container[str] = frozenset()
) -> JSON | Invalid:
    """Read exactly one JSON text, a str or UTF-8 bytes; return its value, or ``Invalid`` with ``json.*`` issues.

    Refused are duplicate names at any depth, NaN, Infinity and numbers beyond a double, lone surrogates, data after
    the value, a byte order mark, integers of more than 4300 digits, and what is beyond ``limits``. ``at`` is the
    pointer of the text itself: issue paths go on from it, and names in them that are not in ``names`` become ``*``.
    Nothing is raised. Time is linear: at the default caps a refusal costs some 100 ms at worst, and under 64 MB.
    """
    if not isinstance(text, str | bytes | bytearray):
        return Invalid((Issue.of(Code.JSON_NOT_TEXT, at, hint=f"it was {kind_words(text)}", found=quote(text)),))
    data = _encoded(text, limits.reply_bytes)
    if data is None:
        return Invalid((Issue.of(Code.JSON_TOO_LARGE, at, limit=limits.reply_bytes),))
    value = _accepted(data, limits)
    if isinstance(value, _Refusal):
        return Invalid(_issues(data, limits, value, at, names, lone_surrogates=isinstance(text, str)))
    return value


def is_json(text: str, limits: Limits = DEFAULT_LIMITS) -> bool:
    """Tell whether :func:`decode` accepts a text, at the price of an accepted one either way."""
    data = _encoded(text, limits.reply_bytes)
    return data is not None and not isinstance(_accepted(data, limits), _Refusal)


def masked_pointer(at: str, tokens: Iterable[Step], names: Container[str]) -> str:
    """Append ``tokens`` to the pointer ``at``, with ``*`` for every member name that the contract does not know.

    A path goes into prompts and logs, so it may hold no name that only the model wrote; indexes are harmless.
    """
    return pointer(at, *(token if isinstance(token, int) or token in names else "*" for token in tokens))


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The fast parser does not accept a text; ``reason`` is its own words, empty where it read the text."""

    reason: str = ""


def _encoded(text: str | bytes | bytearray, cap: int) -> bytes | None:
    """Give the text as bytes, lone surrogates kept for the parser to refuse; None when there are more than ``cap``."""
    if isinstance(text, str):
        if str.__len__(text) > cap:
            return None
        data = str.encode(text, "utf-8", "surrogatepass")
        return data if len(data) <= cap else None
    view = memoryview(text)
    return view.tobytes() if view.nbytes <= cap else None


def _accepted(data: bytes, limits: Limits) -> JSON | _Refusal:
    """Read the text with the fast parser, and hold its value to what that parser lets through."""
    try:
        value = cast("JSON", jiter.from_json(data, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys"))
    except ValueError as refusal:
        return _Refusal(str(refusal))
    if _within_caps(value, data, limits) and not (_may_overflow(data) and _has_infinity(value)):
        return value
    return _Refusal()


def _within_caps(value: JSON, data: bytes, limits: Limits) -> bool:
    """Hold the value to the caps on depth and nodes; small ones are within them by the look of their text."""
    openers = data.count(b"{") + data.count(b"[")
    if openers <= limits.depth and openers + data.count(b",") < limits.nodes:
        return True
    depth, nodes = _measure(value, openers)
    return depth <= limits.depth and nodes <= limits.nodes


def _measure(value: JSON, openers: int) -> tuple[int, int]:
    """Count the levels and the nodes of a value whose text holds ``openers`` brackets and braces.

    When as many containers are known as the text has openers there are no more: their members need no look.
    """
    depth, nodes, known = 0, 1, 0
    trees: list[_Tree] = [value] if isinstance(value, _TREE) else []
    while trees:
        depth += 1
        nodes += sum(map(len, trees))
        known += len(trees)
        if known == openers:
            break
        trees = [child for tree in trees for child in _children(tree) if isinstance(child, _TREE)]
    return depth, nodes


def _children(tree: _Tree) -> Iterable[JSON]:
    """Give the values directly inside a container."""
    return tree.values() if isinstance(tree, dict) else tree


def _may_overflow(data: bytes) -> bool:
    """Tell whether a number of the text could pass the largest double."""
    alike = data.translate(_ALIKE)
    return _LONG_EXPONENT in alike or _LONG_NUMBER in alike


def _has_infinity(value: JSON) -> bool:
    """Tell whether a number of the value did pass it."""
    level = [value]
    while level:
        if math.inf in level or -math.inf in level:
            return True
        level = [child for tree in level if isinstance(tree, _TREE) for child in _children(tree)]
    return False


def _issues(
    data: bytes, limits: Limits, refusal: _Refusal, at: str, names: Container[str], *, lone_surrogates: bool
) -> tuple[Issue, ...]:
    """Say why a text is refused; bytes may not hold the surrogates that a str can."""
    try:
        text = data.decode("utf-8", "surrogatepass" if lone_surrogates else "strict")
    except UnicodeDecodeError as error:
        found = excerpt(data.decode("utf-8", "replace"), error.start)
        return (Issue.of(Code.JSON_ENCODING, at, found=quote(found)),)
    faults = diagnose(text, limits)
    if not faults:
        return (_unexplained(refusal, at),)
    return tuple(_issue(fault, text, masked_pointer(at, fault.tokens, names)) for fault in faults)


def _issue(fault: Fault, text: str, path: str) -> Issue:
    """Report a fault of the text, its place counted in lines and characters from 1."""
    line = text.count("\n", 0, fault.offset) + 1
    column = fault.offset - text.rfind("\n", 0, fault.offset)
    expected = f", expected {fault.expected}" if fault.expected else ""
    words = {"line": line, "column": column, "limit": fault.limit, "expected": expected}
    return Issue.of(fault.code, path, hint=fault.hint, found=quote(fault.found), **words)


def _unexplained(refusal: _Refusal, at: str) -> Issue:
    """Report what only the fast parser refuses, in the place it names: its word is never overruled."""
    place = _PLACE.search(refusal.reason)
    line, column = place.groups() if place else ("1", "1")
    return Issue.of(Code.JSON_SYNTAX, at, line=line, column=column, expected="")
