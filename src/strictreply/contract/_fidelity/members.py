"""Objects with named members: each member of the JSON belongs to a field, is kept, or reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strictreply.contract._fidelity.comparing import UNSEEN, Comparer, Comparison, Path
from strictreply.values._limits import JSON

_LOST = "is taken by no field of the declared type, and would be lost; leave it out"


@dataclass(frozen=True, slots=True)
class Member:
    """A field: the attribute that it makes, and where in the JSON it is looked up, in order."""

    attribute: str
    part: Comparer | None
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedMembers(Comparer):
    """An object with named members."""

    named: Mapping[str, Member]
    """The fields that are read from one key, by that key."""
    others: tuple[Member, ...]
    """The fields with several names or with a deeper path."""
    keeps: bool
    """Whether other members of the JSON are kept; otherwise they are lost."""
    extras: Comparer | None
    """How other members are compared; None if no comparison is needed."""
    spelled: type[Any] = dict
    """The class of its JSON."""

    def _compare(
        self, value: object, judged: dict[str, JSON], run: Comparison, built: object
    ) -> None:
        held = value if isinstance(value, dict) else vars(value)
        beside = _attributes(built, self.real)

        for name, member in self.named.items():
            part = member.part
            attribute = member.attribute
            if run.needs(part) and name in judged and attribute in held:
                inner = beside.get(attribute, UNSEEN)
                run.below(part, held[attribute], judged[name], name, built=inner)

        left = judged.keys() - self.named.keys()
        if self.others:
            left = self._compare_others(held, judged, run, left)
        if not left:
            return

        kept: Mapping[str, Any] = {}
        if self.keeps:
            kept = held if isinstance(value, dict) else _extra_of(value)

        for name in [name for name in judged if name in left]:
            if name not in kept:
                if not run.drops:
                    run.report(_LOST, name, (name,))
            elif run.needs(self.extras):
                run.below(self.extras, kept[name], judged[name], name)

    def _compare_others(
        self,
        held: Mapping[str, object],
        judged: dict[str, JSON],
        run: Comparison,
        left: Iterable[str],
    ) -> set[str]:
        """Compare fields with several names or a deeper path; return the keys of no field."""
        taken: list[Path] = []
        for member in self.others:
            for path in member.paths:
                found: Any = _at(judged, path)
                if found is UNSEEN:
                    continue

                taken.append(path)
                if run.needs(member.part) and member.attribute in held:
                    run.below(member.part, held[member.attribute], found, *path)
                break

        firsts = {path[0] for path in taken}
        for name in firsts & judged.keys():
            inner = [path[1:] for path in taken if path[0] == name]
            for steps, lost in _left_in(judged[str(name)], inner):
                if not run.drops:
                    run.report(_LOST, lost, (name, *steps))

        return {name for name in left if name not in firsts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshaped(Comparer):
    """An object that a user's code reads first: only the members that it accepts are known."""

    members: NamedMembers
    spelled: type[Any] = dict

    def _compare(
        self,
        value: object,  # noqa: ARG002
        judged: dict[str, JSON],
        run: Comparison,
        built: object,
    ) -> None:
        if type(built) is not self.real or self.members.keeps or run.drops:
            return

        taken = {path[0] for member in self.members.others for path in member.paths}
        for name in judged:
            if name not in self.members.named and name not in taken:
                run.report(_LOST, name, (name,))


def _attributes(built: object, real: type[object] | None) -> Mapping[str, object]:
    """Return the attributes of a built object; empty if it may not be of the class."""
    if type(built) is dict:
        return built
    if built is UNSEEN or real is None or type(built) is not real:
        return {}
    return getattr(built, "__dict__", {})


def _extra_of(value: object) -> Mapping[str, object]:
    extra: Mapping[str, Any] | None = getattr(value, "__pydantic_extra__", None)
    return vars(value) if extra is None else extra


def _at(judged: JSON, path: Path) -> object:
    """Return the value at a path; UNSEEN if there is none."""
    found: Any = judged
    for step in path:
        is_key = isinstance(found, dict) and isinstance(step, str)
        if not is_key and not (isinstance(found, list) and isinstance(step, int)):
            return UNSEEN

        inside: Any = found
        try:
            found = inside[step]
        except LookupError:
            return UNSEEN

    return found


def _left_in(judged: JSON, taken: list[Path]) -> Iterator[tuple[Path, JSON]]:
    """Yield the parts of a value next to the paths that were read."""
    if () in taken:
        return

    inner: Iterable[tuple[str | int, JSON]] = ()
    if isinstance(judged, dict):
        inner = judged.items()
    elif isinstance(judged, list):
        inner = enumerate(judged)
        taken = [(p[0] % len(judged), *p[1:]) if isinstance(p[0], int) else p for p in taken]

    for step, value in inner:
        below = [path[1:] for path in taken if path[0] == step]
        if below:
            yield from (((step, *steps), lost) for steps, lost in _left_in(value, below))
        else:
            yield (step,), value


@dataclass(frozen=True, slots=True, kw_only=True)
class Root(Comparer):
    """The value of a root model, which stands in place of an object."""

    inner: Comparer

    def _compare(self, value: object, judged: JSON, run: Comparison, built: object) -> None:
        inner = _attributes(built, self.real).get("root", UNSEEN)
        self.inner(vars(value)["root"], judged, run, inner)
