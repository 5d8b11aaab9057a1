"""Where a typed value says other than the JSON it is made of.

A container is compared place by place, a scalar by its spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain, repeat
from typing import Any, TypeAlias, TypeGuard

from strictreply.reading._decoding import decode
from strictreply.values._limits import JSON, Work
from strictreply.values._replies import Invalid

# whether JSON spells a value; ValueError and ArithmeticError mean no
Same: TypeAlias = Callable[[Any, JSON], bool]
# where a value differs, our words, and its JSON there
Difference: TypeAlias = tuple[tuple[str | int, ...], str, JSON]
MAX_FOUND = 32
# The work of trying a branch of a union, and of reading a text as JSON. Comparing a place takes 1.
PER_BRANCH = 2
PER_TEXT = 20
_EQUAL_KEYS = "has two keys that are equal as the declared type reads them"
_OTHER_FORM = "would be read as another alternative of the union; write it as the schema shows"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class Risk(IntEnum):
    """When a value has to be compared with its JSON."""

    NONE = 0  # nothing that fits the type's schema is changed
    LONG_NUMBERS = 1  # only when the JSON holds an integer that a float may not hold
    ALWAYS = 2


@dataclass(slots=True)
class Comparison:
    """One comparison of a value with its JSON, and the differences it found.

    Up to the risk ``floor`` nothing need be compared.
    """

    floor: int
    work: Work  # what it may take (Spent beyond)
    found: list[Difference] = field(default_factory=list[Difference])
    # what unions found, see there
    known: dict[tuple[int, int, int], list[Difference]] = field(default_factory=dict[Any, Any])

    def report(self, words: str, judged: JSON, steps: tuple[str | int, ...] = ()) -> None:
        """Note a difference, unless there are as many as a reply may have faults."""
        if len(self.found) < MAX_FOUND:
            self.found.append((steps, words, judged))

    def needs(self, part: Part | None) -> TypeGuard[Part]:
        """Return whether a part has to be compared."""
        return part is not None and part.risk > self.floor

    def below(self, part: Part, value: Any, judged: JSON, step: str | int) -> None:
        """Compare what stands a step below."""
        if len(self.found) >= MAX_FOUND:
            return

        self.work.take()
        before = len(self.found)
        part(value, judged, self)

        # the way there is put together only when it is reported
        if len(self.found) > before:
            fresh = self.found[before:]
            self.found[before:] = [((step, *steps), words, found) for steps, words, found in fresh]

    def inside(self) -> Comparison:
        """Try a branch of a union, comparing every place.

        A branch that changes nothing by itself may still be the wrong one.
        """
        self.work.take(PER_BRANCH)
        return Comparison(-1, self.work, known=self.known)  # below every risk


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One place of a type, null or made as ``kind`` of the JSON type ``spelled``.

    ``risk`` says when to compare it.
    """

    risk: Risk
    kind: type[Any] = object
    spelled: type[Any] = object

    def __call__(self, value: Any, judged: JSON, run: Comparison) -> None:
        """Report to ``run``, by steps from here, where a value says other than its JSON."""
        if value is None and judged is None:
            return

        if isinstance(value, self.kind) and isinstance(judged, self.spelled):
            self._compare(value, judged, run)
        else:
            run.report(_OTHER_FORM, judged)

    def _compare(self, value: Any, judged: Any, run: Comparison) -> None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Scalar(Part):
    """A value without parts: which JSON spells it, and the words for JSON that does not."""

    risk: Risk = field(default=Risk.ALWAYS, kw_only=True)
    same: Same
    words: str
    text: bool = field(default=True, kw_only=True)  # whether JSON spells it as a string

    def as_key(self) -> Scalar:
        """Return the same for the keys of an object, which are text that is read as the value."""

        def same(value: Any, name: JSON) -> bool:
            return self.same(value, name if self.text else _scalar(str(name)))

        return Scalar(same, f"has a key that would be read as another value; each key {self.words}")

    def _compare(self, value: Any, judged: JSON, run: Comparison) -> None:
        try:
            same = self.same(value, judged)
        except (ValueError, ArithmeticError):  # what cannot be read is not the same
            same = False
        if not same:
            run.report(self.words, judged)


def _scalar(name: str) -> JSON:
    if found := _NUMBER.fullmatch(name):
        return float(name) if found[1] or found[2] else int(name)
    return {"true": True, "false": False, "null": None}.get(name, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Items(Part):
    """An array whose items are ``first`` in their places, and ``rest`` after them.

    With ``distinct``, as in a set, no two items may be equal.
    """

    first: tuple[Part | None, ...] = ()
    rest: Part | None
    distinct: bool = False
    spelled: type[Any] = list

    def _compare(
        self, value: list[Any] | tuple[Any, ...], judged: list[JSON], run: Comparison
    ) -> None:
        if len(value) != len(judged):
            run.report(_OTHER_FORM, judged)
            return

        parts = chain(self.first, repeat(self.rest))
        for index, (part, item, spelled) in enumerate(zip(parts, value, judged, strict=False)):
            if run.needs(part):
                run.below(part, item, spelled, index)

        with suppress(TypeError):  # what has no hash here differs by more than its spelling
            if self.distinct and len({_settled(item, self.rest) for item in value}) < len(value):
                run.report("has two items that are equal as the declared type reads them", judged)


def _settled(item: Any, part: Part | None) -> Any:
    """Return a set inside a set as what it will be, a frozenset.

    The probe keeps the items of a set in a list, to compare them.
    """
    if isinstance(part, Items) and part.distinct and isinstance(item, list):
        return frozenset(_settled(inner, part.rest) for inner in item)
    return item


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed(Part):
    """An object with keys of a type; ``keys`` is None when they are the user's own."""

    keys: Part | None
    values: Part | None
    kind: type[Any] = dict
    spelled: type[Any] = dict

    def _compare(self, value: dict[Any, Any], judged: dict[str, JSON], run: Comparison) -> None:
        if len(value) != len(judged):
            if self.keys is not None:
                self._report_merged(self.keys, value, judged, run)
            return

        if run.needs(self.keys):
            for key, name in zip(value, judged, strict=True):
                run.below(self.keys, key, name, name)

        if run.needs(self.values):
            for item, (name, spelled) in zip(value.values(), judged.items(), strict=True):
                run.below(self.values, item, spelled, name)

    def _report_merged(
        self, keys: Part, value: dict[Any, Any], judged: dict[str, JSON], run: Comparison
    ) -> None:
        before = len(run.found)
        left = iter(value)
        key = next(left, None)

        for name in judged:
            tried = run.inside()
            keys(key, name, tried)

            if tried.found:
                run.report(_EQUAL_KEYS, name, (name,))
            else:
                key = next(left, None)

        if len(run.found) == before:
            run.report(_EQUAL_KEYS, judged)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedMembers(Part):
    """An object with named members: ``parts`` says which key of the JSON makes which attribute."""

    parts: tuple[tuple[str, str, Part], ...]
    known: frozenset[str]
    extras: Part | None
    spelled: type[Any] = dict

    def _compare(self, value: Any, judged: dict[str, JSON], run: Comparison) -> None:
        held = value if isinstance(value, dict) else vars(value)
        for name, attribute, part in self.parts:
            if part.risk > run.floor and name in judged and attribute in held:
                run.below(part, held[attribute], judged[name], name)

        if run.needs(self.extras):
            others = held
            if not isinstance(value, dict):
                others = getattr(value, "__pydantic_extra__", None) or {}

            for name in others.keys() & judged.keys() - self.known:
                run.below(self.extras, others[name], judged[name], name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Root(Part):
    """The value of a root model, which stands in place of an object."""

    inner: Part

    def _compare(self, value: Any, judged: JSON, run: Comparison) -> None:
        self.inner(vars(value)["root"], judged, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Union(Part):
    """A value of one of several types."""

    branches: tuple[Part, ...]

    def _compare(self, value: Any, judged: JSON, run: Comparison) -> None:
        # remembered, so that unions inside unions cost no more than their places
        place = (id(self), id(value), id(judged))
        if place not in run.known:
            run.known[place] = self._nearest(value, judged, run)

        for steps, words, found in run.known[place]:
            run.report(words, found, steps)

    def _nearest(self, value: Any, judged: JSON, run: Comparison) -> list[Difference]:
        """Return the differences from the nearest branch: those that begin deepest, or none."""
        nearest: list[Difference] = [((), _OTHER_FORM, judged)]

        for branch in self.branches:
            if not isinstance(value, branch.kind):  # it is as far away as no branch at all
                continue

            tried = run.inside()
            branch(value, judged, tried)

            if not tried.found or len(tried.found[0][0]) > len(nearest[0][0]):
                nearest = tried.found

            if not nearest:
                break

        return nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonText(Part):
    """A string that holds JSON, which is read as strictly as a reply."""

    inner: Part | None

    def _compare(self, value: Any, judged: JSON, run: Comparison) -> None:
        run.work.take(PER_TEXT)
        inside = decode(judged, work=Work(0))  # what is wrong with it is not reported
        tried = Comparison(min(run.floor, Risk.NONE), run.work)

        if isinstance(inside, Invalid):
            run.report("must hold exactly one JSON value, without duplicate keys", judged)
        elif self.inner is not None:
            self.inner(value, inside, tried)

        for _, words, _found in tried.found[:1]:
            run.report(f"holds a value that {words}", judged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference(Part):
    """A place described elsewhere in the type, perhaps around this one.

    It is looked up when it is compared.
    """

    name: str
    parts: Mapping[str, Part | None]

    def _compare(self, value: Any, judged: JSON, run: Comparison) -> None:
        part = self.parts.get(self.name)
        if run.needs(part):
            part(value, judged, run)
