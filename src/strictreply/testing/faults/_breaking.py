"""How a fault of the arguments becomes an entry: a function that spoils one place is tried at every place.

What is kept is proved: the schema refuses it, with the promised code, at that place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from strictreply.reading._decoding import masked_pointer
from strictreply.schema._rules import KEYWORDS
from strictreply.testing._steps import CANARY, Kind
from strictreply.testing._targets import Target
from strictreply.testing.faults._catalogue import WRITTEN, Entry, Maker, Spoiled
from strictreply.testing.faults._spots import Spot, spots_of
from strictreply.values._issues import Issue, pointer
from strictreply.values._json import JSON

Values: TypeAlias = Iterable[JSON]
"""Other values for a place, each spoiled in the same way: the one that breaks least else is taken."""

Members: TypeAlias = "Iterable[tuple[str | int, JSON]]"
"""Other values for an object or an array, each with the member or item that the fault is about."""

MAX_SIZE = 10_000
"""Characters, items or members that a fault adds at most: where a bound is larger, nothing is made."""

_Ways: TypeAlias = Callable[[Spot], Iterable[tuple[str, JSON]]]


def at_place(code: str) -> Callable[[Callable[[Spot], Values]], Entry]:
    """Make an entry of a function that spoils the value at a place; ``code`` is what the schema's refusal says."""

    def entry(spoil: Callable[[Spot], Values]) -> Entry:
        """Make the entry."""
        return _entry(spoil, code, lambda spot: ((spot.at, value) for value in spoil(spot)))

    return entry


def at_member(code: str) -> Callable[[Callable[[Spot], Members]], Entry]:
    """Make an entry of a function that spoils an object or an array in one of its members or items."""

    def entry(spoil: Callable[[Spot], Members]) -> Entry:
        """Make the entry."""
        return _entry(spoil, code, lambda spot: ((pointer(spot.at, token), value) for token, value in spoil(spot)))

    return entry


def _entry(spoil: Callable[[Spot], object], code: str, ways: _Ways) -> Entry:
    """Name and describe the entry as its function is."""
    summary = (spoil.__doc__ or "").strip()
    return Entry(spoil.__name__, Kind.ARGS, code, summary, WRITTEN, _maker(code, ways))


def _maker(code: str, ways: _Ways) -> Maker:
    """Try the ways to spoil each place; one that was spoiled already, only for a rule that it did not have before."""
    rule = code.partition(".")[2]
    stating = {keyword for keyword, stated in KEYWORDS.items() if str(stated) == rule}

    def make(target: Target) -> Iterator[Spoiled]:
        """Spoil good arguments in every way that the name covers."""
        known: set[str] = set()
        for spot in spots_of(target.schema, target.value) if target.schema is not None else ():
            for at, value in _nearest(target, spot, target.code(code), ways).items():
                text = target.text(value)
                if text not in known and (at not in known or not stating.isdisjoint(spot.stated)):
                    known |= {at, text}
                    invented = CANARY in text and CANARY not in target.text(spot.ground)
                    yield Spoiled(target.completion(text), at, (CANARY,) * invented, spot.ground)

    return make


def _nearest(target: Target, spot: Spot, code: str, ways: _Ways) -> dict[str, JSON]:
    """Choose, for each place below a spot, the first of those values that break the fewest rules besides."""
    found: dict[str, tuple[int, JSON]] = {}
    for at, value in ways(spot):
        if at in found and found[at][0] == 1:
            continue
        whole = spot.spoiled(value)
        broken = _broken(target, whole)
        if _says(target, broken, code, spot) and (at not in found or len(broken) < found[at][0]):
            found[at] = len(broken), whole
    return {at: whole for at, (_, whole) in found.items()}


def _broken(target: Target, whole: JSON) -> tuple[Issue, ...]:
    """Ask the schema; arguments that are no object never come to it."""
    if target.schema is None or (target.tool is not None and not isinstance(whole, dict)):
        return ()
    return target.schema.check(whole, place="args" if target.tool is not None else "answer")


def _says(target: Target, issues: tuple[Issue, ...], code: str, spot: Spot) -> bool:
    """Whether the promised code is among the issues, at the spoiled place or below it."""
    names = target.schema.names if target.schema is not None else frozenset[str]()
    path = masked_pointer("", spot.path, names)
    return any(issue.code == code and f"{issue.path}/".startswith(f"{path}/") for issue in issues)
