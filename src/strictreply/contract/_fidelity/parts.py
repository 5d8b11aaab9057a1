"""The parts of a type, each of which knows where a value says other than the JSON it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol, TypeAlias

from strictreply.contract._fidelity.spellings import Same
from strictreply.reading._decoding import decode
from strictreply.values._json import JSON
from strictreply.values._limits import Work
from strictreply.values._replies import Invalid

Step: TypeAlias = str | int
Difference: TypeAlias = tuple[tuple[Step, ...], str, JSON]
"""Where a value differs from its JSON, in words of ours, and what stands there in the JSON."""
Place: TypeAlias = tuple[int, int, int]
"""A part, a value and its JSON, by their identities."""

MAX_FOUND = 32

PER_BRANCH, PER_TEXT = 2, 20
"""What trying a branch of a union takes, and reading a text as JSON, where comparing one place takes 1."""

_EQUAL_KEYS = "has two keys that are equal as the declared type reads them"
_EQUAL_ITEMS = "has two items that are equal as the declared type reads them"
_OTHER_FORM = "is read as another form than the one it fits; spell it as the schema shows"
_BELOW_ALL = -1


class Risk(IntEnum):
    """When a value has to be compared with its JSON."""

    NONE = 0
    LONG_NUMBERS = 1  # only when the JSON holds an integer that a float may not hold
    ALWAYS = 2


class Part(Protocol):
    """One place of a type, which knows what its value has to be."""

    @property
    def risk(self) -> Risk:
        """When the place has to be compared."""
        ...

    def compare(self, value: Any, judged: JSON, run: Comparison) -> None:
        """Report to ``run`` where a value says other than the JSON it is made of, by steps from here."""
        ...


@dataclass(slots=True)
class Comparison:
    """One comparison of a value with its JSON: what was found, and the risk up to which nothing need be compared.

    ``work`` is what it may take; it raises Spent when that is used up.

    Inside a union every place is compared, because a branch that changes nothing by itself may be the wrong one.
    """

    floor: int
    work: Work
    found: list[Difference] = field(default_factory=list[Difference])
    known: dict[Place, list[Difference]] = field(default_factory=dict[Place, list[Difference]])

    def report(self, words: str, judged: JSON, steps: tuple[Step, ...] = ()) -> None:
        """Note a difference; more of them than a reply's faults are not needed."""
        if len(self.found) < MAX_FOUND:
            self.found.append((steps, words, judged))

    def needs(self, part: Part | None) -> bool:
        """Tell whether a part has to be compared."""
        return part is not None and part.risk > self.floor

    def below(self, part: Part, value: Any, judged: JSON, step: Step) -> None:
        """Compare what stands a step below."""
        if len(self.found) >= MAX_FOUND:
            return
        self.work.take()
        before = len(self.found)
        part.compare(value, judged, self)
        if len(self.found) > before:  # the way there is put together only when somebody has to be told
            self.found[before:] = [((step, *steps), words, found) for steps, words, found in self.found[before:]]

    def inside(self) -> Comparison:
        """Try a branch of a union."""
        self.work.take(PER_BRANCH)
        return Comparison(_BELOW_ALL, self.work, known=self.known)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts."""

    same: Same
    words: str
    risk: Risk

    def compare(self, value: Any, judged: JSON, run: Comparison) -> None:
        """Compare it; see :class:`Part`."""
        try:
            same = self.same(value, judged)
        except (ValueError, ArithmeticError):  # what cannot be read is not the same
            same = False
        if not same:
            run.report(self.words, judged)


@dataclass(frozen=True, slots=True)
class Nullable:
    """A value or null."""

    inner: Part
    risk: Risk

    def compare(self, value: Any, judged: JSON, run: Comparison) -> None:
        """Compare it; see :class:`Part`."""
        if value is not None or judged is not None:
            self.inner.compare(value, judged, run)


@dataclass(frozen=True, slots=True)
class Items:
    """An array whose items are ``first`` in their places, and ``rest`` after them; in a set no two may be equal."""

    first: tuple[Part | None, ...]
    rest: Part | None
    risk: Risk
    kind: type[list[Any] | tuple[Any, ...]]
    distinct: bool = False

    def compare(self, value: Any, judged: JSON, run: Comparison) -> None:
        """Compare it; see :class:`Part`."""
        if not (isinstance(value, self.kind) and isinstance(judged, list) and len(value) == len(judged)):
            return run.report(_OTHER_FORM, judged)
        start = len(self.first)
        for index, part in enumerate(self.first):
            if part is not None and run.needs(part):
                run.below(part, value[index], judged[index], index)
        if self.rest is not None and run.needs(self.rest):
            for index in range(start, len(judged)):
                run.below(self.rest, value[index], judged[index], index)
        if self.distinct and not _distinct(value, self.rest):
            run.report(_EQUAL_ITEMS, judged)
        return None


def _distinct(items: Iterable[Any], part: Part | None) -> bool:
    """Tell whether the items of a set differ; what has no hash here differs by more than its spelling."""
    listed = [_settled(item, part) for item in items]
    try:
        return len(set(listed)) == len(listed)
    except TypeError:
        return True


def _settled(item: Any, part: Part | None) -> Any:
    """Make a set inside a set what it will be: the probe keeps the items of a set in a list, to compare them."""
    if isinstance(part, Items) and part.distinct and isinstance(item, list):
        return frozenset(_settled(inner, part.rest) for inner in item)
    return item


@dataclass(frozen=True, slots=True)
class Keyed:
    """An object with keys of a type; ``keys`` None are the user's own."""

    keys: Part | None
    values: Part | None
    risk: Risk

    def compare(self, value: Any, judged: JSON, run: Comparison) -> None:
        """Compare it; see :class:`Part`."""
        if not (isinstance(value, dict) and isinstance(judged, dict)):
            return run.report(_OTHER_FORM, judged)
        if len(value) != len(judged):
            return self._merged(value, judged, run)
        if self.keys is not None and run.needs(self.keys):
            for key, name in zip(value, judged, strict=True):
                run.below(self.keys, key, name, name)
        if self.values is not None and run.needs(self.values):
            for item, (name, spelled) in zip(value.values(), judged.items(), strict=True):
                run.below(self.values, item, spelled, name)
        return None

    def _merged(self, value: dict[Any, Any], judged: dict[str, JSON], run: Comparison) -> None:
        """Report the keys that were merged with one before them: they are those that start no key of their own."""
        if self.keys is None:
            return
        before, left = len(run.found), iter(value)
        key = next(left, None)
        for name in judged:
            tried = run.inside()
            self.keys.compare(key, name, tried)
            if tried.found:
                run.report(_EQUAL_KEYS, name, (name,))
            else:
                key = next(left, None)
        if len(run.found) == before:
            run.report(_EQUAL_KEYS, judged)


@dataclass(frozen=True, slots=True)
class Members:
    """An object with named members: ``parts`` says which key makes which attribute."""

    kind: type
    parts: tuple[tuple[str, str, Part], ...]
    known: frozenset[str]
    extras: Part | None
    risk: Risk

    def compare(self, value: Any, judged: JSON, run: Comparison) -> None:
        """Compare it; see :class:`Part`."""
        if not (isinstance(value, self.kind) and isinstance(judged, dict)):
            return run.report(_OTHER_FORM, judged)
        held = value if isinstance(value, dict) else vars(value)
        for name, attribute, part in self.parts:
            if part.risk > run.floor and name in judged and attribute in held:
                run.below(part, held[attribute], judged[name], name)
        if self.extras is not None and run.needs(self.extras):
            others = held if isinstance(value, dict) else getattr(value, "__pydantic_extra__", None) or {}
            for name in others.keys() & judged.keys() - self.known:
                run.below(self.extras, others[name], judged[name], name)
        return None


@dataclass(frozen=True, slots=True)
class Root:
    """The value of a root model, which stands in place of an object."""

    kind: type
    inner: Part
    risk: Risk

    def compare(self, value: Any, judged: JSON, run: Comparison) -> None:
        """Compare it; see :class:`Part`."""
        if not isinstance(value, self.kind):
            return run.report(_OTHER_FORM, judged)
        return self.inner.compare(vars(value)["root"], judged, run)


@dataclass(frozen=True, slots=True)
class Union:
    """A value of one of several types."""

    branches: tuple[Part, ...]
    risk: Risk

    def compare(self, value: Any, judged: JSON, run: Comparison) -> None:
        """Compare it; see :class:`Part`."""
        # remembered, so that unions inside unions cost no more than their places
        place = id(self), id(value), id(judged)
        if place not in run.known:
            run.known[place] = self._nearest(value, judged, run)
        for steps, words, found in run.known[place]:
            run.report(words, found, steps)

    def _nearest(self, value: Any, judged: JSON, run: Comparison) -> list[Difference]:
        """Find what differs from the branch that comes nearest, nothing when one fits."""
        nearest: list[Difference] = [((), _OTHER_FORM, judged)]
        for branch in self.branches:
            if not isinstance(value, getattr(branch, "kind", object)):
                continue  # as far away as no branch at all
            tried = run.inside()
            branch.compare(value, judged, tried)
            if not tried.found:
                return []
            if len(tried.found[0][0]) > len(nearest[0][0]):
                nearest = tried.found
        return nearest


@dataclass(frozen=True, slots=True)
class Text:
    """A string that holds JSON, which is read as strictly as a reply."""

    inner: Part | None
    risk: Risk = Risk.ALWAYS

    def compare(self, value: Any, judged: JSON, run: Comparison) -> None:
        """Compare it; see :class:`Part`."""
        run.work.take(PER_TEXT)
        inside = decode(judged, work=Work(0))  # what is wrong with it is not told
        if isinstance(inside, Invalid):
            return run.report("must hold exactly one JSON value, without duplicate keys", judged)
        tried = Comparison(min(run.floor, Risk.NONE), run.work)
        if self.inner is not None:
            self.inner.compare(value, inside, tried)
        for _, words, _found in tried.found[:1]:
            run.report(f"holds a value that {words}", judged)
        return None


@dataclass(frozen=True, slots=True)
class Reference:
    """A place described elsewhere in the type."""

    name: str
    parts: Mapping[str, Part | None]
    risk: Risk = Risk.ALWAYS

    def compare(self, value: Any, judged: JSON, run: Comparison) -> None:
        """Compare it; see :class:`Part`."""
        part = self.parts.get(self.name)
        if part is not None and run.needs(part):
            part.compare(value, judged, run)
