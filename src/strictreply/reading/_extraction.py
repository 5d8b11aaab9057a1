"""The JSON text inside a reply that wraps it in prose, a fence or a thought; only what the caller opted into.

Whether the JSON found is right is not asked here: the strict reader judges it like any other text.
"""

from __future__ import annotations

import re

from strictreply.reading._decoding import is_json
from strictreply.reading._diagnosis import Scan
from strictreply.values._issues import Code
from strictreply.values._json import Extraction
from strictreply.values._limits import DEFAULT_LIMITS, Limits

MAX_CANDIDATES = 4_000  # the openings of an object that a search tries before it gives up
_THINK_OPEN, _THINK_CLOSE = "<think>", "</think>"
_FENCE = re.compile(r"```(?:json)?[ \t]*\r?\n(?:(.*)\n)?```", re.DOTALL | re.IGNORECASE)
_INNER_FENCE = re.compile(r"^ {0,3}```", re.MULTILINE)
_CANDIDATE = re.compile(r'\{(?=[ \t\n\r]*+["}])')


def extract(
    text: str, modes: tuple[Extraction, ...], limits: Limits = DEFAULT_LIMITS
) -> tuple[str, tuple[Extraction, ...]]:
    """Return the JSON text to be judged, and the lenient steps it took to get it: none when the text is taken whole.

    Each mode is one step, taken in this order where it applies. ``after_think`` drops one leading
    ``<think>…</think>``. ``fenced`` takes the inside of a Markdown fence that is the whole text: three backticks, the
    word ``json`` or none, and a last line of three backticks; not two fences, not tildes, not a fence amid prose.
    ``first_object`` takes the first complete object that the reader accepts, unless the text is JSON as it stands
    (requirements T18, T19). After a faulty object it goes on from the fault; objects inside a faulty one whose end is
    missing are parts of a cut reply, not a reply, and never taken.

    A text beyond ``limits.reply_bytes`` is left as it is. The search is linear: it gives up after 4,000 openings
    of an object, ``limits.nodes`` values, or ``limits.depth`` levels.
    """
    steps: list[Extraction] = []
    if len(text) > limits.reply_bytes:
        return text, ()
    if "after_think" in modes and text.lstrip().startswith(_THINK_OPEN) and _THINK_CLOSE in text:
        text = text.partition(_THINK_CLOSE)[2]
        steps.append("after_think")
    if "fenced" in modes and (inside := _inside_fence(text)) is not None:
        text = inside
        steps.append("fenced")
    if "first_object" in modes and not is_json(text, limits) and (found := _first_object(text, limits)) is not None:
        text = found
        steps.append("first_object")
    return text, tuple(steps)


def _inside_fence(text: str) -> str | None:
    # a string of JSON holds no raw line break, so a line inside that starts like a fence is one
    fence = _FENCE.fullmatch(text.strip())
    inside = fence and (fence[1] or "")
    return None if inside is None or _INNER_FENCE.search(inside) else inside


def _first_object(text: str, limits: Limits) -> str | None:
    """Return the first substring that is an object without a fault, None when there is none within the bounds."""
    nodes, end = limits.nodes, 0
    for _ in range(MAX_CANDIDATES):
        candidate = _CANDIDATE.search(text, end)
        if candidate is None:
            return None
        scan = Scan(text, candidate.start(), depth=limits.depth, nodes=nodes)
        end = scan.end
        if scan.complete and not scan.faults:
            return text[candidate.start() : end]
        nodes -= scan.nodes
        if nodes < 1 or scan.stopped_by not in {None, Code.JSON_SYNTAX}:
            return None
    return None
