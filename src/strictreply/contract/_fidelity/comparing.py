"""Finds where a typed value differs from the JSON that it is made from.

A container is compared place by place, a scalar by its spelling. Each member of the JSON must
belong to a field. The compared value was made without the user's code. The value that was built
with the user's code is passed along, as long as both have the same parts.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain, repeat
from typing import Any, TypeAlias, TypeGuard

from pydantic_core import PydanticSerializationError, to_json

from strictreply.reading._decoding import decode
from strictreply.schema import Schema
from strictreply.values._limits import JSON, Work
from strictreply.values._replies import Invalid

# whether JSON spells a value; ValueError and ArithmeticError mean no
Same: TypeAlias = Callable[[Any, JSON], bool]
# where a value differs, the message, and its JSON there
Difference: TypeAlias = tuple[tuple[str | int, ...], str, JSON]
# a path in JSON, from an object down: names of members and indices of items
Path: TypeAlias = tuple[str | int, ...]
# replaces the built value if a user's code may have changed it
UNSEEN = object()
MAX_FOUND = 32
# The work of trying a branch of a union, and of reading a text as JSON. Comparing a place costs 1.
PER_BRANCH = 2
PER_TEXT = 20
_EQUAL_KEYS = "has two keys that are equal as the declared type reads them"
_EQUAL_ITEMS = "has two items that are equal as the declared type reads them"
OTHER_FORM = "would be read as another alternative of the union; write it as the schema shows"
_LEFT_OUT = "has members that the declared type leaves out; write only what it takes"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class Risk(IntEnum):
    """When a value has to be compared with its JSON."""

    NONE = 0  # values that fit the type's schema are never changed
    LONG_NUMBERS = 1  # only if the JSON contains an integer that may not fit into a float
    ALWAYS = 2


@dataclass(slots=True)
class Comparison:
    """One comparison of a value with its JSON, and the differences it found."""

    floor: int
    """The risk up to which no comparison is needed."""
    work: Work
    """The limit of the comparison's work (Spent if it is exceeded)."""
    drops: bool = False
    """Whether types may drop members if they are configured to."""
    found: list[Difference] = field(default_factory=list[Difference])
    """The differences so far."""
    known: dict[tuple[int, int, int], list[Difference]] = field(default_factory=dict[Any, Any])
    """The differences that unions found, by the identities of what they compared."""
    made: list[Any] = field(default_factory=list[Any])
    """Values made during the comparison; they must stay alive, because ``known`` uses their ids."""

    def report(self, words: str, judged: JSON, steps: tuple[str | int, ...] = ()) -> None:
        """Add a difference, unless there are already as many as a reply may have faults."""
        if len(self.found) < MAX_FOUND:
            self.found.append((steps, words, judged))

    def needs(self, part: Comparer | None) -> TypeGuard[Comparer]:
        """Return whether a part has to be compared."""
        return part is not None and part.risk > self.floor

    def below(
        self, part: Comparer, value: object, judged: JSON, *way: str | int, built: object = UNSEEN
    ) -> None:
        """Compare the part at the path ``way``."""
        if len(self.found) >= MAX_FOUND:
            return

        self.work.take()
        before = len(self.found)
        part(value, judged, self, built)

        # the path is made only when there is something to report
        if len(self.found) > before:
            fresh = self.found[before:]
            self.found[before:] = [((*way, *steps), words, found) for steps, words, found in fresh]

    def inside(self) -> Comparison:
        """Try a branch of a union, comparing every place.

        A branch that changes nothing may still be the wrong one.
        """
        self.work.take(PER_BRANCH)
        # lower than every risk
        return Comparison(-1, self.work, self.drops, known=self.known, made=self.made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparer:
    """One place of a type: null, or a ``kind`` that is made from the JSON type ``spelled``."""

    risk: Risk
    """When the place has to be compared."""
    kind: type[Any] = object
    """The class of the compared value."""
    spelled: type[Any] = object
    """The class of its JSON."""
    real: type[Any] | None = None
    """The class of the value that is built; None if the class decides nothing."""
    changed: bool = False
    """Whether a user's code runs last on the value."""

    def __call__(
        self, value: object, judged: JSON, run: Comparison, built: object = UNSEEN
    ) -> None:
        """Report to ``run`` where a value differs from its JSON; paths start here."""
        if value is None and judged is None:
            return

        if isinstance(value, self.kind) and isinstance(judged, self.spelled):
            self._compare(value, judged, run, UNSEEN if self.changed else built)
        else:
            run.report(OTHER_FORM, judged)

    def _compare(self, value: Any, judged: Any, run: Comparison, built: object) -> None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Scalar(Comparer):
    """A value without parts."""

    risk: Risk = field(default=Risk.ALWAYS, kw_only=True)
    """When the place has to be compared."""
    same: Same
    """Returns whether JSON spells a value."""
    words: str
    """The message for JSON that does not spell the value."""
    text: bool = field(default=True, kw_only=True)
    """Whether JSON spells it as a string."""
    keeps: bool = field(default=True, kw_only=True)
    """Whether two different texts never make the same value."""

    def as_key(self) -> Scalar:
        """Return the same for the keys of an object, which are texts read as the value."""

        def same(value: object, name: JSON) -> bool:
            return self.same(value, name if self.text else _scalar(str(name)))

        words = f"has a key that would be read as another value; each key {self.words}"
        return Scalar(same, words, keeps=self.keeps)

    def _compare(
        self,
        value: object,
        judged: JSON,
        run: Comparison,
        built: object,  # noqa: ARG002
    ) -> None:
        try:
            same = self.same(value, judged)
        except (ValueError, ArithmeticError):  # unreadable JSON is not the same
            same = False
        if not same:
            run.report(self.words, judged)


def _scalar(name: str) -> JSON:
    if found := _NUMBER.fullmatch(name):
        return float(name) if found[1] or found[2] else int(name)
    return {"true": True, "false": False, "null": None}.get(name, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anything(Comparer):
    """JSON that is not changed."""

    risk: Risk = Risk.NONE

    def _compare(
        self,
        value: object,
        judged: JSON,
        run: Comparison,
        built: object,  # noqa: ARG002
    ) -> None:
        run.work.take(PER_TEXT)
        try:
            same = value is judged or to_json(value) == to_json(judged)
        except PydanticSerializationError:  # another type made it
            same = False
        if not same:
            run.report(OTHER_FORM, judged)


ANYTHING = Anything()


@dataclass(frozen=True, slots=True, kw_only=True)
class Items(Comparer):
    """An array with the items ``first`` in their places, and ``rest`` after them.

    With ``distinct``, as in a set, no two items may be equal.
    """

    first: tuple[Comparer | None, ...] = ()
    rest: Comparer | None
    distinct: bool = False
    spelled: type[Any] = list

    def _compare(
        self,
        value: list[object] | tuple[object, ...],
        judged: list[JSON],
        run: Comparison,
        built: object,
    ) -> None:
        if len(value) != len(judged):
            run.report(_LEFT_OUT, judged)
            return

        self._compare_items(value, judged, run, built)
        if self.distinct and self._merges(value, built):
            run.report(_EQUAL_ITEMS, judged)

    def _compare_items(
        self,
        value: list[object] | tuple[object, ...],
        judged: list[JSON],
        run: Comparison,
        built: object,
    ) -> None:
        parts = chain(self.first, repeat(self.rest))
        beside: Iterable[object] = repeat(UNSEEN)
        if isinstance(built, list | tuple | deque) and len(built) == len(value):
            beside = built

        rows = enumerate(zip(parts, value, judged, beside, strict=False))
        for index, (part, item, spelled, inner) in rows:
            if run.needs(part):
                run.below(part, item, spelled, index, built=inner)

    def _merges(self, value: list[object] | tuple[object, ...], built: object) -> bool:
        """Return whether two items become one, as the type reads them or by the user's code."""
        if isinstance(built, set | frozenset) and len(built) < len(value):
            return True

        with suppress(TypeError):  # a value without a hash differs by more than its spelling
            return len({_settled(item, self.rest) for item in value}) < len(value)

        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Items):
    """A named tuple, written as an array or by its ``names``, with defaults for missing items."""

    names: tuple[str, ...]

    def _compare(
        self, value: list[object] | tuple[object, ...], judged: JSON, run: Comparison, built: object
    ) -> None:
        if isinstance(judged, list) and len(judged) <= len(value):
            self._compare_items(value, judged, run, built)
            return

        if not isinstance(judged, dict) or not judged.keys() <= {*self.names}:
            run.report(OTHER_FORM, judged)
            return

        for part, item, name in zip(self.first, value, self.names, strict=True):
            if run.needs(part) and name in judged:
                run.below(part, item, judged[name], name)


def _settled(item: object, part: Comparer | None) -> object:
    """Return a set inside a set as a frozenset, which it becomes.

    The probe keeps the items of a set in a list, to compare them.
    """
    if isinstance(part, Items) and part.distinct and isinstance(item, list):
        return frozenset(_settled(inner, part.rest) for inner in item)
    return item


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed(Comparer):
    """An object with typed keys; ``keys`` is None if a user's code reads them."""

    keys: Comparer | None
    values: Comparer | None
    kind: type[Any] = dict
    spelled: type[Any] = dict

    def _compare(
        self, value: dict[object, object], judged: dict[str, JSON], run: Comparison, built: object
    ) -> None:
        if len(value) != len(judged):
            if self.keys is not None:
                self._report_merged(self.keys, value, judged, run)
            else:
                run.report(_EQUAL_KEYS, judged)
            return

        beside: Iterable[Any] = repeat(UNSEEN)
        if isinstance(built, Mapping):
            if len(built) < len(judged):
                run.report(_EQUAL_KEYS, judged)
                return

            beside = built.values()

        if run.needs(self.keys):
            for key, name in zip(value, judged, strict=True):
                run.below(self.keys, key, name, name)

        if run.needs(self.values):
            rows = zip(value.values(), judged.items(), beside, strict=False)
            for item, (name, spelled), inner in rows:
                run.below(self.values, item, spelled, name, built=inner)

    def _report_merged(
        self, keys: Comparer, value: dict[object, object], judged: dict[str, JSON], run: Comparison
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
class JsonText(Comparer):
    """A string that contains JSON, which is read as strictly as a reply, and checked."""

    schema: Schema
    inner: Comparer | None

    def _compare(self, value: object, judged: str, run: Comparison, built: object) -> None:
        run.work.take(PER_TEXT)
        inside = decode(judged, work=Work(0))  # its syntax faults are not reported here
        if isinstance(inside, Invalid):
            run.report("must hold exactly one JSON value, without duplicate keys", judged)
            return

        if issues := self.schema.check(inside, work=run.work, built=True):
            place = f" at {issues[0].path}" if issues[0].path else ""
            words = f"holds JSON that does not fit its schema{place}: {issues[0].message}"
            run.report(words, judged)
            return

        if self.inner is not None:
            tried = Comparison(min(run.floor, Risk.NONE), run.work, run.drops)
            self.inner(value, inside, tried, built)

            for _, words, _found in tried.found[:1]:
                run.report(f"holds a value that {words}", judged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference(Comparer):
    """A place that is described elsewhere in the type, perhaps in a type around it.

    It is looked up when it is compared.
    """

    name: str
    parts: Mapping[str, Comparer | None]

    def _compare(self, value: object, judged: JSON, run: Comparison, built: object) -> None:
        part = self.parts.get(self.name)
        if run.needs(part):
            part(value, judged, run, built)
