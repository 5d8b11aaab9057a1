"""The known word that is nearest to what was written, found at a bounded price."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

from strictreply.schema._words import word
from strictreply.values._limits import Work

MAX_CHARS = 64
MAX_WORDS = 256
CUTOFF = 0.7
CELLS = 120
"""Pairs of characters that cost one step of work to compare."""


def nearest(text: str, known: Iterable[str], work: Work, *, cutoff: float = CUTOFF) -> str | None:
    """Return the known word that is most like a text, letter case aside; None when none is near, or work is short.

    At most 256 words of at most 64 characters are compared, each for the steps that its length costs.
    """
    if len(text) > MAX_CHARS:
        return None
    matcher = SequenceMatcher(b=text.lower())
    best, found = cutoff, None
    for number, each in enumerate(known):
        if number == MAX_WORDS:
            break
        if len(each) > MAX_CHARS or 2 * min(len(each), len(text)) < best * (len(each) + len(text)):
            continue  # their lengths alone keep them apart
        if not work.afford(1 + len(each) * len(text) // CELLS):
            return None
        matcher.set_seq1(each.lower())
        if matcher.quick_ratio() >= best and (ratio := matcher.ratio()) >= best and (found is None or ratio > best):
            best, found = ratio, each
    return found


def did_you_mean(text: str, known: Iterable[str], work: Work) -> str:
    """Name the known word that is near to a text, in words; nothing when none is."""
    near = nearest(text, known, work)
    return "" if near is None else f"did you mean {word(near)}?"
