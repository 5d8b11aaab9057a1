"""Which faults an app is tried with: the catalogue, made from the app's own tools, without what is no fault there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from strictreply.testing._demands import Demand
from strictreply.testing._probing.excerpts import excerpt
from strictreply.testing._probing.outcomes import Outcome, Run
from strictreply.testing._steps import Fault, Kind
from strictreply.testing._targets import Target
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.faults._catalogue import Entry


@dataclass(frozen=True, slots=True)
class Trial:
    """One fault to try; ``target`` is the good reply that was spoiled."""

    fault: Fault
    target: Target = field(repr=False)
    summary: str = ""

    @property
    def source(self) -> str:
        """Spell the fault with the tool's name where its definition would stand: the app has it in some variable."""
        spelt, name = self.target.source, re.sub(r"\W", "_", self.target.name) or "Answer"
        return self.fault.source.replace(spelt, name) if spelt else self.fault.source

    def run(self, outcome: Outcome, detail: str, *, seconds: float, requests: int, recovered: bool) -> Run:
        """Say what became of it."""
        return Run(
            fault=self.fault.name,
            kind=self.fault.kind,
            code=self.fault.code,
            outcome=outcome,
            detail=detail,
            at=self.fault.at,
            summary=self.summary,
            seconds=seconds,
            requests=requests,
            recovered=recovered,
            source=self.source,
            served=excerpt(self.fault.served, self.target.clean),
        )


def planned(
    demand: Demand, *, kinds: Collection[Kind] = (), names: Collection[str] = ()
) -> tuple[list[Trial], list[Run]]:
    """Choose the trials of an app, and say of every other fault why it does not apply.

    ``kinds`` and ``names`` choose from the catalogue, empty ones everything. Arguments are spoiled in every tool,
    everything else in the first one: it is the same for all.
    """
    trials: list[Trial] = []
    others: list[Run] = []
    for entry in CATALOGUE.values():
        if (kinds and entry.kind not in kinds) or (names and entry.name not in names):
            continue
        found = [] if demand.missing(entry.needs) else list(_trials(entry, demand))
        trials += found
        if not found:
            others.append(_not_applicable(entry, demand))
    return trials, others


def _trials(entry: Entry, demand: Demand) -> Iterator[Trial]:
    """Make one entry's faults that the app's own contract refuses; each can be made again from its source alone."""
    seen: set[str] = set()
    for target in demand.targets if entry.kind is Kind.ARGS else demand.targets[:1]:
        for fault in _faults(entry, target):
            if fault.source not in seen and demand.refuses(fault):
                seen.add(fault.source)
                yield Trial(fault, target, entry.summary)


def _faults(entry: Entry, target: Target) -> Iterator[Fault]:
    """Make one entry's faults of one good reply; those that need no tool also where the reply is a call."""
    if target.place in entry.places and target.place != "prose":
        declared = target.tool if target.tool is not None else target.declared
        args = target.value if target.given else None
        place = None if target.place == entry.usual else target.place
        yield from entry.all_for(declared, place=place, args=args)
    elif "prose" in entry.places:
        yield from entry.all_for()


def _not_applicable(entry: Entry, demand: Demand) -> Run:
    """Say why a fault cannot be tried."""
    wanted = ", ".join(f"{name}={value!r}" for name, value in demand.missing(entry.needs).items())
    detail = f"needs a request with {wanted}" if wanted else "fits the app's contract, or cannot be made from it"
    return Run(entry.name, entry.kind, entry.code, Outcome.NOT_APPLICABLE, detail, summary=entry.summary)
