"""Strict decoding of JSON text.

What RFC 8259 and I-JSON (RFC 7493) forbid, or exceeds a limit, is returned as issues.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable
from typing import NamedTuple, TypeAlias, cast

import jiter

from strictreply.reading._diagnosis import PathToken, Scan, diagnose, excerpt
from strictreply.values._issues import Code, Issue, kind_words, pointer, quote
from strictreply.values._limits import DEFAULT_LIMITS, JSON, Extraction, Limits, Work
from strictreply.values._replies import Invalid

_Tree: TypeAlias = "dict[str, JSON] | list[JSON]"
# isinstance is faster with a tuple than with a union, and is called for every value
_TREE = (dict, list)
_PLACE = re.compile(r"line ([0-9]+) column ([0-9]+)\Z")
# Only an exponent of three digits, or 200 digits in a row, can exceed the largest double. With all
# digits replaced by one, two searches rule both out; the plus sign of an exponent counts as a
# digit.
_ALIKE = bytes.maketrans(b"123456789+E", b"0000000000e")
_LONG_EXPONENT = b"0e000"
_LONG_NUMBER = b"0" * 200


def decode(
    text: object,
    limits: Limits = DEFAULT_LIMITS,
    *,
    at: str = "",
    names: Container[str] = (),
    work: Work | None = None,
) -> JSON | Invalid:
    """Return the value of exactly one JSON text, a str or UTF-8 bytes, or Invalid.

    Rejected are duplicate names, NaN, Infinity and numbers beyond a double, unpaired surrogates,
    data after the value, a byte order mark, integers of more than 4300 digits, and everything
    beyond ``limits``. The issues have ``json.*`` codes.

    - ``at``: the prefix of paths.
    - ``names``: other names in a path become ``*``.
    - ``work``: the work that explaining the whole reply may still take; None for that of one reply.

    Time is linear: about 100 ms and 64 MB at most with the default limits.
    """
    if not isinstance(text, str | bytes | bytearray):
        hint = f"it was {kind_words(text)}"
        return Invalid((Issue.of(Code.JSON_NOT_TEXT, at, hint=hint, found=quote(text)),))

    data = _encoded(text, limits.reply_bytes)
    if data is None:
        return Invalid((Issue.of(Code.JSON_TOO_LARGE, at, limit=limits.reply_bytes),))

    value = _accepted(data, limits)
    if isinstance(value, _Refusal):
        source = str.__str__(text) if isinstance(text, str) else data
        work = Work() if work is None else work
        return Invalid(_explained(source, value, limits, at, names, work))

    return value


def is_json(text: str, limits: Limits = DEFAULT_LIMITS) -> bool:
    """Return whether :func:`decode` accepts a text, without explaining why not."""
    data = _encoded(text, limits.reply_bytes)
    return data is not None and not isinstance(_accepted(data, limits), _Refusal)


def masked_pointer(at: str, tokens: Iterable[PathToken], names: Container[str]) -> str:
    """Append ``tokens`` to a pointer for prompts and logs; ``*`` replaces unknown names."""
    masked = (token if isinstance(token, int) or token in names else "*" for token in tokens)
    return pointer(at, *masked)


class _Refusal(NamedTuple):
    """Why a text is rejected, as far as the fast parser knows.

    ``reason`` is the parser's message, empty if the parser did not reject the text.
    """

    code: Code
    reason: str = ""


def _encoded(text: str | bytes | bytearray, cap: int) -> bytes | None:
    """Return the text as bytes, with unpaired surrogates kept for the parser to reject.

    None if it has more than ``cap`` bytes.
    """
    if isinstance(text, str):
        if str.__len__(text) > cap:
            return None
        data = str.encode(text, "utf-8", "surrogatepass")
        return data if len(data) <= cap else None

    view = memoryview(text)
    return view.tobytes() if view.nbytes <= cap else None


def _accepted(data: bytes, limits: Limits) -> JSON | _Refusal:
    """Read the text with the fast parser, and check what that parser does not.

    The parser ignores the limits, and accepts infinite numbers.
    """
    try:
        read = jiter.from_json(
            data, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys"
        )
    except ValueError as refusal:
        reason = str(refusal)
        code = next((code for words, code in _REASONS if words in reason), Code.JSON_SYNTAX)
        return _Refusal(code, reason)

    value = cast("JSON", read)
    openers = data.count(b"{") + data.count(b"[")
    # A short text cannot exceed the limits: each further node needs at least one byte.
    if openers > limits.depth or (
        len(data) >= limits.nodes and openers + data.count(b",") >= limits.nodes
    ):
        depth, nodes = _measure(value, openers)
        if depth > limits.depth:
            return _Refusal(Code.JSON_TOO_DEEP)
        if nodes > limits.nodes:
            return _Refusal(Code.JSON_TOO_MANY_NODES)

    return _Refusal(Code.JSON_NOT_FINITE) if _has_infinity(value, data) else value


# codes for messages of the fast parser, if a text is too large to be read again
_REASONS = (
    ("duplicate key", Code.JSON_DUPLICATE_KEY),
    ("EOF", Code.JSON_INCOMPLETE),
    ("trailing characters", Code.JSON_TRAILING_DATA),
    ("recursion limit", Code.JSON_TOO_DEEP),
)


def _measure(value: JSON, openers: int) -> tuple[int, int]:
    """Count the levels and nodes of a value whose text has ``openers`` brackets and braces."""
    depth = 0
    nodes = 1
    known = 0

    trees: list[_Tree] = [value] if isinstance(value, _TREE) else []
    while trees:
        depth += 1
        nodes += sum(map(len, trees))

        known += len(trees)
        if known == openers:  # all containers are counted, so members need no further look
            break

        trees = [child for tree in trees for child in _children(tree) if isinstance(child, _TREE)]

    return depth, nodes


def _children(tree: _Tree) -> Iterable[JSON]:
    return tree.values() if isinstance(tree, dict) else tree


def _has_infinity(value: JSON, data: bytes) -> bool:
    alike = data.translate(_ALIKE)
    # searching nearly uniform bytes from the end takes a quarter of the work
    level = [value] if alike.rfind(_LONG_EXPONENT) >= 0 or _LONG_NUMBER in alike else []
    while level:
        if math.inf in level or -math.inf in level:
            return True
        level = [child for tree in level if isinstance(tree, _TREE) for child in _children(tree)]
    return False


def _explained(
    source: str | bytes,
    refusal: _Refusal,
    limits: Limits,
    at: str,
    names: Container[str],
    work: Work,
) -> tuple[Issue, ...]:
    """Return why a text is rejected; lines and columns of places count from 1."""
    try:
        text = source if isinstance(source, str) else source.decode()
    except UnicodeDecodeError as error:
        found = excerpt(error.object.decode("utf-8", "replace"), error.start)
        return (Issue.of(Code.JSON_ENCODING, at, found=quote(found)),)

    issues = list[Issue]()
    faults = diagnose(text, limits, work)
    for fault in faults:
        line = text.count("\n", 0, fault.offset) + 1
        column = fault.offset - text.rfind("\n", 0, fault.offset)
        expected = f", expected {fault.expected}" if fault.expected else ""
        words = {"line": line, "column": column, "limit": fault.limit, "expected": expected}

        path = masked_pointer(at, fault.tokens, names)
        found = quote(fault.found)
        issues.append(Issue.of(fault.code, path, hint=fault.hint, found=found, **words))

    if not faults or faults[0].code is Code.JSON_UNEXAMINED:
        # a fault that only the fast parser finds, at the place that it names: its rejection is
        # final
        place = _PLACE.search(refusal.reason)
        row, character = place.groups() if place else ("1", "1")
        limit = limits.nodes if refusal.code is Code.JSON_TOO_MANY_NODES else limits.depth
        first = Issue.of(refusal.code, at, line=row, column=character, limit=limit, expected="")
        issues.insert(0, first)

    return tuple(issues)


MAX_CANDIDATES = 4_000  # openings of an object that a search tries before it gives up
THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"
_FENCE = re.compile(r"```(?:json)?[ \t]*\r?\n(?:(.*)\n)?```", re.DOTALL | re.IGNORECASE)
_INNER_FENCE = re.compile(r"^ {0,3}```", re.MULTILINE)
_CANDIDATE = re.compile(r'\{(?=[ \t\n\r]*+["}])')


def extract(
    text: str, modes: tuple[Extraction, ...], limits: Limits = DEFAULT_LIMITS
) -> tuple[str, tuple[Extraction, ...]]:
    """Return the JSON text to judge, and the lenient steps that were needed to find it.

    There are no steps if the whole text is used. Each mode is one step, in this order:

    - ``after_think`` removes one leading ``<think>…</think>``.
    - ``fenced`` takes the content of a Markdown fence that is the whole text: three backticks, with
      the word ``json`` or without. It accepts neither two fences, nor tildes, nor a fence within
      prose.
    - ``first_object`` takes the first complete valid object, unless the whole text is JSON. Objects
      inside an incomplete one are never taken, because they are parts of a reply that was cut off.

    A text beyond ``limits.reply_bytes`` is returned unchanged. The search gives up after 4,000
    openings of an object, ``limits.nodes`` values, or ``limits.depth`` levels.
    """
    if len(text) > limits.reply_bytes:
        return text, ()

    steps: list[Extraction] = []

    if "after_think" in modes and text.lstrip().startswith(THINK_OPEN) and THINK_CLOSE in text:
        text = text.partition(THINK_CLOSE)[2]
        steps.append("after_think")

    fence = _FENCE.fullmatch(text.strip()) if "fenced" in modes else None
    # JSON strings have no raw line breaks, so a line inside that looks like a fence is a fence
    if fence and not _INNER_FENCE.search(fence[1] or ""):
        text = fence[1] or ""
        steps.append("fenced")

    if "first_object" in modes and not is_json(text, limits):
        found = _first_object(text, limits)
        if found is not None:
            text = found
            steps.append("first_object")

    return text, tuple(steps)


def _first_object(text: str, limits: Limits) -> str | None:
    """Return the first substring that is an object without a fault.

    None when there is none within the bounds.
    """
    nodes = limits.nodes
    end = 0

    for _ in range(MAX_CANDIDATES):
        if (candidate := _CANDIDATE.search(text, end)) is None:
            return None

        scan = Scan(text, candidate.start(), depth=limits.depth, nodes=nodes)
        nodes -= scan.nodes
        end = scan.end

        if scan.complete and not scan.faults:
            return text[candidate.start() : end]
        if nodes < 1 or scan.stopped_by not in {None, Code.JSON_SYNTAX}:
            return None

    return None
